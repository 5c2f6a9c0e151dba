/* loader_files.h - the files that hold items, opened when rows need them.
 *
 * Shards are opened when first needed, and the least recently used one is closed. With MEMORY
 * storage the table also has a folder's files, which have the last numbers. Any thread. */
#ifndef PST_LOADER_LOADER_FILES_H
#define PST_LOADER_LOADER_FILES_H

#include "storage/storage.h"

#include <penstock/penstock.h>

#include <pthread.h>

struct psti_loader_files {
    pthread_mutex_t lock; /* guards the tables; while holding it, take no other lock */
    struct psti_file **files;
    uint32_t *refs;
    uint64_t *used; /* for each file: value of `tick` at its last use */
    uint64_t tick;
    uint32_t n, n_open;
    bool resident; /* MEMORY storage: all files stay open, so no lock is needed */
};

enum pst_status psti_loader_files_open(pst_loader *loader, struct pst_error *err);
void psti_loader_files_close(struct psti_loader_files *files);
enum pst_status psti_loader_files_acquire(pst_loader *loader, uint32_t i_file,
                                          struct psti_file **file, struct pst_error *err);
void psti_loader_files_release(pst_loader *loader, uint32_t i_file, struct psti_file *file);
/* True if only this file is missing. False if it is a shard, or if its folder or the whole data set
 * is gone too, for instance because the data set is not mounted. */
/* dataset: the loader's data set, or the mixture's source that has the file. */
bool psti_loader_files_is_lone_loss(const pst_dataset *dataset, const char *path);

#endif
