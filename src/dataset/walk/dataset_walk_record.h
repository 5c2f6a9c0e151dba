/* dataset_walk_record.h - records of walks, by which several processes make one index: each walks
 * over some of the files, and one process joins the results.
 *
 * The record of a file is NAME.walk-HASH, beside the index: NAME is the index's name, HASH that of
 * the file's path (docs/internals/saved-indexes.md). A record does not depend on the number of
 * processes that divide the files. It appears only when complete, and two processes may make it at
 * once. A struct psti_making belongs to one thread. */
#ifndef PST_DATASET_WALK_DATASET_WALK_RECORD_H
#define PST_DATASET_WALK_DATASET_WALK_RECORD_H

#include "dataset/walk/dataset_walk.h"

struct psti_container_work;

/* Makes the records of a part's files: those with (number modulo work->n_parts) == work->part - 1,
 * counted from 0. Records that exist and fit are kept. is_there: an index exists already, so
 * nothing is made. Sets work->n_files and n_made_before. */
enum pst_status psti_dataset_walk_part(struct psti_making *making, bool is_there,
                                       struct psti_container_work *work, struct pst_error *err);

/* Checks that every file has a record that fits.
 * PST_ERROR_INCOMPLETE: some files have none.
 * PST_ERROR_STATE: a file changed since its record was made, the record's owner is not trusted, or
 *     it is for other options.
 * PST_ERROR_CORRUPT, UNSUPPORTED: a record is damaged. The message names the file. */
enum pst_status psti_dataset_walk_check_records(struct psti_making *making, struct pst_error *err);
/* Repeats the walk that the record of making->i_shard holds: to making->inner or making->table.
 * Begins its file in the writer. *deviates: see psti_containers_record_play_columns. */
enum pst_status psti_dataset_walk_play(struct psti_making *making,
                                       struct psti_containers_writer *writer, bool *deviates,
                                       struct pst_error *err);
/* Removes all records of the index, and temporary files of unfinished ones. */
void psti_dataset_walk_remove_records(struct psti_making *making);

#endif
