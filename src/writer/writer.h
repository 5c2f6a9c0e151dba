/* writer.h - functions of a writer that pst_pack needs beyond <penstock/writer.h>: to check a
 * sample without adding it, and to read the samples that an interrupted run has stored. One
 * thread at a time, as a writer. */
#ifndef PST_WRITER_WRITER_H
#define PST_WRITER_WRITER_H

#include "format/format_dataset.h"
#include "format/format_parts.h"

#include <penstock/writer.h>

/* True if every added sample is committed, so that a crash loses none. */
bool psti_writer_is_committed(const pst_writer *writer);
/* Returns the path that the writer was opened with; valid until it is closed. */
const char *psti_writer_path(const pst_writer *writer);
/* Returns the class names of an int field: n_classes texts with their NULs, one after another.
 * NULL if none were given. Valid until they are set anew. */
const char *psti_writer_class_names(const pst_writer *writer, uint32_t i_field);
/* Returns the pairs of points of a field of keypoints, as many as it states; NULL: none yet. */
const uint32_t *psti_writer_point_pairs(const pst_writer *writer, uint32_t i_field);
/* Checks the sample and fills writer->items except shard and offset. *nbytes: upper bound of the
 * bytes of its records in a shard. Writes nothing. */
enum pst_status psti_writer_check_sample(pst_writer *writer, const struct pst_sample *sample,
                                         uint64_t *nbytes, struct pst_error *err);
/* Calls `visit` for each committed sample of the journal until one call fails. `rows` of the
 * sample has the layout of the schema. Only between open and the first add. */
typedef enum pst_status (*psti_writer_visit)(void *ctx, const struct psti_journal_sample *sample,
                                             struct pst_error *err);
enum pst_status psti_writer_walk_journal(const pst_writer *writer, psti_writer_visit visit,
                                         void *ctx, struct pst_error *err);
/* Reads the first `nbytes` bytes of a stored item from its shard. *found is false, with PST_OK,
 * if the shard ends before. */
enum pst_status psti_writer_read_item(const pst_writer *writer, const struct pst_item *item,
                                      size_t nbytes, void *out, bool *found, struct pst_error *err);

/* Lets the next item begin a new shard. In a change in place each shard is begun in this way or
 * adopted, in the order of shard numbers. */
enum pst_status psti_writer_begin_shard(pst_writer *writer, struct pst_error *err);

/* A change in place (writer_rewrite.c)
 * -------------------------------------------------------------------------
 *
 * A finished data set is written anew beside itself, sample by sample in its own order, under its
 * own id. Shards that do not change are adopted: they stay as they are. The new index replaces the
 * old one by a rename. Then shards that it does not name are removed, unless someone reads the old
 * state still. A journal of its own lets an interrupted change go on. */

/* Opens the change. `fields`: the new schema, which differs from the old one in n_variants alone.
 * `mark`: names what is to be done, not 0. An unfinished change with the same mark goes on behind
 * its last commit; what any other left is removed. *done: the index was made by this very change,
 * and *out is NULL. `identity`: that of the bytes, as the caller has read them.
 *
 * PST_ERROR_BUSY: another writer is at work, or the index was replaced. PST_ERROR_INCOMPLETE: an
 * append was interrupted. */
enum pst_status psti_writer_rewrite_open(const char *path, const struct pst_field *fields,
                                         uint32_t n_fields, uint64_t mark, const uint8_t *identity,
                                         const struct pst_writer_options *options, bool *done,
                                         pst_writer **out, struct pst_error *err);
/* True if the shard of the next sample was adopted in part: adopt the rest. Only after open. */
bool psti_writer_rewrite_is_adopting(const pst_writer *writer);
/* Adds the next sample to it, as pst_writer_add does. */
enum pst_status psti_writer_rewrite_add(pst_writer *writer, const struct pst_sample *sample,
                                        struct pst_error *err);
/* Ends the shard. If it is byte for byte that of the base, it is adopted instead. */
enum pst_status psti_writer_rewrite_end(pst_writer *writer, struct pst_error *err);
/* Takes over the next shard of the base, or the rest of it, whose next `n` samples are next. */
enum pst_status psti_writer_rewrite_adopt(pst_writer *writer, uint64_t n, struct pst_error *err);
/* Returns the number of shards so far that are the base's. */
uint32_t psti_writer_rewrite_n_adopted(const pst_writer *writer);
/* After pst_writer_finish: true if old shards were left to their readers. The next change in place
 * or append removes them. */
bool psti_writer_rewrite_waits(const pst_writer *writer);
/* Names the plan by which a new data set is packed. */
void psti_writer_set_mark(pst_writer *writer, uint64_t mark);

/* Packs in parts (writer_parts.c)
 * -------------------------------------------------------------------------
 *
 * A plan of shards, and the folder in which each planned shard becomes a small data set of its own.
 * One thread at a time uses a handle. Any number of processes, on any number of machines that see
 * the same file system, may have one at the same time. */

struct psti_writer_parts;

/* Opens the plan of shards at `path`. If there is none, makes it, and the directory if need be.
 * `wanted` is the plan that the caller would make, without a token; first: [wanted->n_shards].
 *
 * PST_ERROR_ARGUMENT: the plan there differs from it. PST_ERROR_EXISTS: a data set or other files
 * are there. PST_ERROR_INCOMPLETE: an unfinished data set is there. */
enum pst_status psti_writer_parts_open(const char *path, const struct psti_parts *wanted,
                                       const uint64_t *first, struct psti_writer_parts **out,
                                       struct pst_error *err);
/* Looks whether a planned shard is packed. *n_samples: the number of samples in it; -1: it is not
 * packed. */
enum pst_status psti_writer_parts_look(const struct psti_writer_parts *parts, uint32_t i_shard,
                                       int64_t *n_samples, struct pst_error *err);
/* Opens a writer for a planned shard. Other processes may have writers for the same shard. */
enum pst_status psti_writer_parts_begin(struct psti_writer_parts *parts, uint32_t i_shard,
                                        const struct pst_field *fields, uint32_t n_fields,
                                        const struct pst_writer_options *options, pst_writer **out,
                                        struct pst_error *err);
/* Finishes the writer, closes it and puts the shard in place. If another process was faster, its
 * shard stays. This one is removed; it has the same bytes. */
enum pst_status psti_writer_parts_end(struct psti_writer_parts *parts, uint32_t i_shard,
                                      pst_writer **writer, struct pst_error *err);
/* Closes the writer, if there is one, and removes what it wrote. */
void psti_writer_parts_undo(struct psti_writer_parts *parts, pst_writer **writer);
void psti_writer_parts_close(struct psti_writer_parts **parts);

#endif
