/* loader_workspaces.h - memory in which threads make mosaics. */
#ifndef PST_LOADER_LOADER_WORKSPACES_H
#define PST_LOADER_LOADER_WORKSPACES_H

#include "augment/augment.h"

#include <penstock/loader.h>

/* Memory of one thread at a time. */
struct psti_loader_workspace {
    struct psti_loader_workspace *next; /* free */
    char *block;
    struct psti_run *run; /* of the operations behind mosaics; NULL: there are none */
};

/* How many workspaces are of use: one for each worker that may close a batch. The
 * caller's thread and that of a remake close batches, too, and wait for one of these. */
uint32_t psti_loader_workspaces_wanted(const pst_loader *loader);
/* Charges and makes n workspaces, each with a block of that many bytes, and the scratch of the
 * operations behind mosaics. The caller's thread, while no worker runs. */
enum pst_status psti_loader_workspaces_open(pst_loader *loader, uint32_t n, size_t block,
                                            struct pst_error *err);
void psti_loader_workspaces_close(pst_loader *loader);
/* Waits until a workspace is free. The thread gives it back after work that ends by itself. Any
 * thread, without the loader's lock. */
struct psti_loader_workspace *psti_loader_workspace_take(const pst_loader *loader);
void psti_loader_workspace_give(const pst_loader *loader, struct psti_loader_workspace *workspace);

#endif
