/* dataset_walk_record.h - records of walks beside an index, by which several processes make it:
 * each walks over some of the files, and one joins what they found.
 *
 * The record of a file is the file NAME.walk-HASH, where NAME is that of the index and HASH of the
 * file's path (docs/internals/saved-indexes.md). It does not depend on the number of parts. It
 * appears whole, and two processes may make it at once. One thread uses a making. */
#ifndef PST_DATASET_WALK_DATASET_WALK_RECORD_H
#define PST_DATASET_WALK_DATASET_WALK_RECORD_H

#include "dataset/walk/dataset_walk.h"

struct psti_container_work;

/* Makes the records of the files of a part: those whose number, from 0, divided by work->n_parts
 * leaves work->part - 1. Those that are there and fit are left. is_there: there is an index
 * already, so nothing is made. Sets work->n_files and n_made_before. */
enum pst_status psti_dataset_walk_part(struct psti_making *making, bool is_there,
                                       struct psti_container_work *work, struct pst_error *err);

/* Looks if every file has a record that fits. PST_ERROR_INCOMPLETE: some have none.
 * PST_ERROR_STATE: a file changed since; its record does not count, or is of other options.
 * PST_ERROR_CORRUPT, UNSUPPORTED: it is none. The text names it. */
enum pst_status psti_dataset_walk_check_records(struct psti_making *making, struct pst_error *err);
/* Plays the record of making->i_shard to making->inner or making->table, and begins its file in the
 * writer. *deviates: as psti_containers_record_play_columns says. */
enum pst_status psti_dataset_walk_play(struct psti_making *making,
                                       struct psti_containers_writer *writer, bool *deviates,
                                       struct pst_error *err);
/* Removes all records, and what is left of those that were not finished. */
void psti_dataset_walk_remove_records(struct psti_making *making);

#endif
