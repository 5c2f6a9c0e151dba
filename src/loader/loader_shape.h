/* loader_shape.h - the parts of a loader that depend on its batch size. All functions are for the
 * caller's thread. */
#ifndef PST_LOADER_LOADER_SHAPE_H
#define PST_LOADER_LOADER_SHAPE_H

#include <penstock/loader.h>

/* True if rows are looked up in gatherings. Either samples next to each other in the order are also
 * next to each other in shards, and each can be read to its own address; or the samples are files
 * of a folder, which are read in the order of the disk. */
bool psti_loader_shape_gathers(const pst_loader *loader);
/* Returns the largest number of rows under way, for any batch size. */
uint32_t psti_loader_shape_tasks_max(const pst_loader *loader);
/* Charges tables to the same part of host_memory as files in memory. */
enum pst_status psti_loader_charge_tables(pst_loader *loader, uint64_t nbytes,
                                          struct pst_error *err);

/* Divides host_memory, and makes tasks, workers, slots and jobs. Plan, pool, placement and storage
 * must be open, and no thread may run. After failure the caller calls psti_loader_shape_close. */
enum pst_status psti_loader_shape_open(pst_loader *loader, struct pst_error *err);
/* Frees what psti_loader_shape_open made, except slots, which belong to the pool. No thread may
 * run. */
void psti_loader_shape_close(pst_loader *loader);

/* Starts the workers' threads. */
enum pst_status psti_loader_shape_start(pst_loader *loader, struct pst_error *err);
/* Cancels the work under way and ends the threads. */
void psti_loader_shape_stop(pst_loader *loader);

#endif
