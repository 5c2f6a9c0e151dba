/* writer_parts.h - a data set that several processes pack together: its plan of shards, and the
 * folder in which each planned shard becomes a small data set of its own.
 *
 * One thread at a time uses a handle. Any number of processes, on any number of machines that see
 * the same file system, may have one at the same time. */
#ifndef PST_WRITER_WRITER_PARTS_H
#define PST_WRITER_WRITER_PARTS_H

#include "format/format_parts.h"

#include <penstock/writer.h>

struct psti_writer_parts;

/* Opens the plan of shards at `path`, and makes it, and the directory, if there is none. `wanted`
 * is the plan as the caller would make it, without a token; first: [wanted->n_shards].
 *
 * PST_ERROR_ARGUMENT: the plan there differs from it. PST_ERROR_EXISTS: a data set or other files
 * are there. PST_ERROR_INCOMPLETE: an unfinished data set is there. */
enum pst_status psti_writer_parts_open(const char *path, const struct psti_parts *wanted,
                                       const uint64_t *first, struct psti_writer_parts **out,
                                       struct pst_error *err);
/* Looks if a planned shard is packed. *n_samples: the samples that it has; -1: it is not packed. */
enum pst_status psti_writer_parts_look(const struct psti_writer_parts *parts, uint32_t i_shard,
                                       int64_t *n_samples, struct pst_error *err);
/* Opens a writer for a planned shard, beside those of other processes. */
enum pst_status psti_writer_parts_begin(struct psti_writer_parts *parts, uint32_t i_shard,
                                        const struct pst_field *fields, uint32_t n_fields,
                                        const struct pst_writer_options *options, pst_writer **out,
                                        struct pst_error *err);
/* Finishes the writer, closes it and puts the shard in place. If another process was faster, its
 * shard stays, and this one, which has the same bytes, goes. */
enum pst_status psti_writer_parts_end(struct psti_writer_parts *parts, uint32_t i_shard,
                                      pst_writer **writer, struct pst_error *err);
/* Closes the writer, if there is one, and removes what it wrote. */
void psti_writer_parts_undo(struct psti_writer_parts *parts, pst_writer **writer);
void psti_writer_parts_close(struct psti_writer_parts **parts);

#endif
