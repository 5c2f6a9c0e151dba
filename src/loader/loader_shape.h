/* loader_shape.h - what a loader has for batches of one size: loader_shape.c. The caller's thread.
 */
#ifndef PST_LOADER_LOADER_SHAPE_H
#define PST_LOADER_LOADER_SHAPE_H

#include <penstock/loader.h>

/* True if rows are looked up in gatherings: neighbours in the order are neighbours in shards, and
 * each can be read to any address; or they are files of a folder, which are read in the order of
 * the disk. */
bool psti_loader_shape_gathers(const pst_loader *loader);
/* Rows under way, at most, whatever the size of a batch. */
uint32_t psti_loader_shape_tasks_max(const pst_loader *loader);
/* Charges tables like files in memory. */
enum pst_status psti_loader_charge_tables(pst_loader *loader, uint64_t nbytes,
                                          struct pst_error *err);

/* Divides host_memory, and makes tasks, workers, slots and jobs. The plan, the pool, the placement
 * and the storage are there, and no thread runs. After failure the caller calls
 * psti_loader_shape_close. */
enum pst_status psti_loader_shape_open(pst_loader *loader, struct pst_error *err);
/* Frees what was made but slots, which are the pool's. No thread runs. */
void psti_loader_shape_close(pst_loader *loader);

/* Starts the workers' threads. */
enum pst_status psti_loader_shape_start(pst_loader *loader, struct pst_error *err);
/* Cancels the run and ends the threads. */
void psti_loader_shape_stop(pst_loader *loader);

#endif
