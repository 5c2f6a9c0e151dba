/* loader_files.h - the files that hold items, open while rows need them.
 *
 * Shards (and with MEMORY storage also a folder's files, which have the last numbers) are opened
 * when first needed; the least recently used one is closed. Any thread. */
#ifndef PST_LOADER_LOADER_FILES_H
#define PST_LOADER_LOADER_FILES_H

#include "storage/storage.h"

#include <penstock/penstock.h>

#include <pthread.h>

struct psti_loader_files {
    pthread_mutex_t lock; /* guards the tables; no other lock is taken while it is held */
    struct psti_file **files;
    uint32_t *refs;
    uint64_t *used; /* tick of the last use */
    uint64_t tick;
    uint32_t n, n_open;
    bool resident; /* MEMORY: all files stay open; no lock is taken */
};

enum pst_status psti_loader_files_open(pst_loader *loader, struct pst_error *err);
void psti_loader_files_close(struct psti_loader_files *files);
enum pst_status psti_loader_files_acquire(pst_loader *loader, uint32_t i_file,
                                          struct psti_file **file, struct pst_error *err);
void psti_loader_files_release(pst_loader *loader, uint32_t i_file, struct psti_file *file);
/* True if a file that was not found is the only loss. False if it is a shard, or if the file's
 * folder or the whole data set is gone. The mount of a data set may be an empty folder now. */
/* dataset: the loader's, or the source of a mixture that has the file. */
bool psti_loader_files_is_lone_loss(const pst_dataset *dataset, const char *path);

#endif
