/* writer.h - functions of a writer that pst_pack needs beyond <penstock/writer.h>: to check a
 * sample without adding it, and to read the samples that an interrupted run has stored. One
 * thread at a time, as a writer. */
#ifndef PST_WRITER_WRITER_H
#define PST_WRITER_WRITER_H

#include "format/format_dataset.h"

#include <penstock/writer.h>

/* True if every added sample is committed, so that a crash loses none. */
bool psti_writer_is_committed(const pst_writer *writer);
/* Returns the path that the writer was opened with; valid until it is closed. */
const char *psti_writer_path(const pst_writer *writer);
/* Returns the class names of an int field: n_classes texts with their NULs, one after another.
 * NULL if none were given. Valid until they are set anew. */
const char *psti_writer_class_names(const pst_writer *writer, uint32_t i_field);
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

#endif
