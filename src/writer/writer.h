/* writer.h - functions of a writer for pst_pack, in addition to <penstock/writer.h>: checking a
 * sample without adding it, reading samples that an interrupted run stored, changes in place, and
 * packing in parts. One thread at a time may use a writer. */
#ifndef PST_WRITER_WRITER_H
#define PST_WRITER_WRITER_H

#include "format/format_dataset.h"
#include "format/format_parts.h"

#include <penstock/writer.h>

/* True if every added sample is committed, so a crash would lose none. */
bool psti_writer_is_committed(const pst_writer *writer);
/* Returns the path that the writer was opened with; valid until it is closed. */
const char *psti_writer_path(const pst_writer *writer);
/* Returns the class names of an int field: n_classes strings, each with its NUL, in sequence. NULL
 * if none were given. Valid until they are set again. */
const char *psti_writer_class_names(const pst_writer *writer, uint32_t i_field);
/* Returns the pairs of points of a keypoint field, as many as the field states; NULL: not set yet.
 */
const uint32_t *psti_writer_point_pairs(const pst_writer *writer, uint32_t i_field);
/* Checks the sample and fills writer->items, except shard and offset. *nbytes: upper bound of the
 * bytes that its records take in a shard. Writes nothing. */
enum pst_status psti_writer_check_sample(pst_writer *writer, const struct pst_sample *sample,
                                         uint64_t *nbytes, struct pst_error *err);
/* Calls `visit` for each committed sample of the journal until a call fails. `rows` of the sample
 * is laid out as the schema says. Only between open and the first add. */
typedef enum pst_status (*psti_writer_visit)(void *ctx, const struct psti_journal_sample *sample,
                                             struct pst_error *err);
enum pst_status psti_writer_walk_journal(const pst_writer *writer, psti_writer_visit visit,
                                         void *ctx, struct pst_error *err);
/* Reads the first `nbytes` bytes of a stored item from its shard. If the shard ends before that,
 * *found is false and the status PST_OK. */
enum pst_status psti_writer_read_item(const pst_writer *writer, const struct pst_item *item,
                                      size_t nbytes, void *out, bool *found, struct pst_error *err);

/* Makes the next item begin a new shard. In a change in place every shard is begun by this or
 * adopted, in the order of shard numbers. */
enum pst_status psti_writer_begin_shard(pst_writer *writer, struct pst_error *err);

/* A change in place (writer_rewrite.c)
 * -------------------------------------------------------------------------
 *
 * A finished data set is rewritten beside itself, sample by sample in its own order, with the same
 * id. Shards without changes are adopted: they stay. The new index replaces the old one by a
 * rename. Then shards that it does not name are removed, unless a reader still has the old state
 * open. A journal of its own lets an interrupted change continue. */

/* Opens a change in place. `fields`: the new schema, which may differ from the old one in
 * n_variants only. `mark`: a number that identifies the change, not 0. An unfinished change with
 * the same mark continues after its last commit; files of any other unfinished change are removed.
 * *done: this very change made the current index, and *out is NULL. `identity`: the identity of the
 * bytes that the caller has read. PST_ERROR_BUSY: another writer is open, or the index was
 * replaced. PST_ERROR_INCOMPLETE: an append was interrupted. */
enum pst_status psti_writer_rewrite_open(const char *path, const struct pst_field *fields,
                                         uint32_t n_fields, uint64_t mark, const uint8_t *identity,
                                         const struct pst_writer_options *options, bool *done,
                                         pst_writer **out, struct pst_error *err);
/* True if an interrupted change adopted a part of the next sample's shard: adopt the rest. Only
 * after open. */
bool psti_writer_rewrite_is_adopting(const pst_writer *writer);
/* Adds the next sample to the current shard, as pst_writer_add does. */
enum pst_status psti_writer_rewrite_add(pst_writer *writer, const struct pst_sample *sample,
                                        struct pst_error *err);
/* Ends the current shard. If its bytes equal those of the old shard, that one is adopted instead.
 */
enum pst_status psti_writer_rewrite_end(pst_writer *writer, struct pst_error *err);
/* Adopts the next shard of the old state, or the rest of it, which holds the next `n` samples. */
enum pst_status psti_writer_rewrite_adopt(pst_writer *writer, uint64_t n, struct pst_error *err);
/* Returns how many shards have been adopted so far. */
uint32_t psti_writer_rewrite_n_adopted(const pst_writer *writer);
/* After pst_writer_finish: true if old shards were kept because readers have them open. The next
 * change in place or append removes them. */
bool psti_writer_rewrite_waits(const pst_writer *writer);
/* Sets the mark, the number that identifies the plan by which a new data set is packed. */
void psti_writer_set_mark(pst_writer *writer, uint64_t mark);

/* Packing in parts (writer_parts.c)
 * -------------------------------------------------------------------------
 *
 * A handle has a plan of shards, and the folder in which each planned shard becomes a small data
 * set. One thread at a time uses a handle. Any number of processes, on any number of machines that
 * share the file system, may have handles at the same time. */

struct psti_writer_parts;

/* Opens the plan of shards at `path`. If there is no plan, makes it, and the directory if
 * necessary. `wanted` is the plan that the caller would make, without a token; first:
 * [wanted->n_shards]. PST_ERROR_ARGUMENT: the plan there differs from it. PST_ERROR_EXISTS: a data
 * set or other files are there. PST_ERROR_INCOMPLETE: an unfinished data set is there. */
enum pst_status psti_writer_parts_open(const char *path, const struct psti_parts *wanted,
                                       const uint64_t *first, struct psti_writer_parts **out,
                                       struct pst_error *err);
/* Finds out whether a planned shard is packed. *n_samples: the number of samples in it; -1: not
 * packed. */
enum pst_status psti_writer_parts_look(const struct psti_writer_parts *parts, uint32_t i_shard,
                                       int64_t *n_samples, struct pst_error *err);
/* Opens a writer for a planned shard. Other processes may be writing the same shard. */
enum pst_status psti_writer_parts_begin(struct psti_writer_parts *parts, uint32_t i_shard,
                                        const struct pst_field *fields, uint32_t n_fields,
                                        const struct pst_writer_options *options, pst_writer **out,
                                        struct pst_error *err);
/* Finishes and closes the writer, and moves the shard to its place. If another process was faster,
 * its shard stays and this one, which has the same bytes, is removed. */
enum pst_status psti_writer_parts_end(struct psti_writer_parts *parts, uint32_t i_shard,
                                      pst_writer **writer, struct pst_error *err);
/* Closes the writer, if there is one, and removes the files that it wrote. */
void psti_writer_parts_undo(struct psti_writer_parts *parts, pst_writer **writer);
void psti_writer_parts_close(struct psti_writer_parts **parts);

#endif
