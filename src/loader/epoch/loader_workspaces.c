/* loader_workspaces.c - memory in which threads make mosaics: room for copies of a batch's rows,
 * and scratch of the operations behind mosaics.
 *
 * All of it is charged when the loader is opened: the most that any batch and any draw need. So a
 * host_memory that is too small for it is refused then. Only boxes and points may still need more
 * than is left in an epoch. There is at least one workspace. Where host_memory has plenty, there is
 * one for each thread that may need it. A thread waits while other threads have all workspaces. */
#include "loader/epoch/loader_workspaces.h"

#include "loader/epoch/loader_behind.h"
#include "loader/loader_handle.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/gate.h"

struct psti_loader_workspaces {
    struct psti_gate gate;              /* its lock guards `free`, too */
    struct psti_loader_workspace *free; /* as many as may enter the gate */
    uint32_t n;
    uint64_t nbytes; /* charged for all */
    struct psti_loader_workspace list[];
};

uint32_t psti_loader_workspaces_wanted(const pst_loader *loader)
{
    const struct pst_loader_options *options = &loader->options;
    uint32_t n = options->num_workers ? options->num_workers : 1;
    return n < options->prefetch ? n : options->prefetch;
}

static enum pst_status make(struct psti_loader_workspace *workspace, size_t block, uint64_t scratch,
                            struct pst_error *err)
{
    enum pst_status status = PST_OK;
    workspace->block = psti_alloc_aligned(PSTI_CACHE_LINE, block);
    if (!workspace->block)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory to make mosaics of a batch");
    if (scratch > 0)
        status = psti_augment_run_open(&workspace->run, err);
    if (status == PST_OK && scratch > 0)
        psti_augment_run_set_scratch_limit(workspace->run, scratch);
    return status;
}

enum pst_status psti_loader_workspaces_open(pst_loader *loader, uint32_t n, size_t block,
                                            struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (n == 0)
        return PST_OK;
    uint64_t scratch = psti_loader_behind_scratch(loader), nbytes = n * (block + scratch);
    if (!psti_batch_pool_charge(loader->pool, nbytes, true))
        return psti_fail(err, PST_ERROR_LIMIT, "loader", "host_memory is used up");
    struct psti_loader_workspaces *workspaces =
        psti_calloc(1, sizeof *workspaces + n * sizeof workspaces->list[0]);
    if (!workspaces) {
        psti_batch_pool_uncharge(loader->pool, nbytes);
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory to make mosaics of a batch");
    }
    loader->mix.workspaces = workspaces;
    psti_gate_open(&workspaces->gate, n);
    workspaces->nbytes = nbytes;
    for (; status == PST_OK && workspaces->n < n; workspaces->n++) {
        struct psti_loader_workspace *workspace = &workspaces->list[workspaces->n];
        status = make(workspace, block, scratch, err);
        workspace->next = workspaces->free;
        workspaces->free = workspace;
    }
    return status;
}

void psti_loader_workspaces_close(pst_loader *loader)
{
    struct psti_loader_workspaces *workspaces = loader->mix.workspaces;
    if (!workspaces)
        return;
    loader->mix.workspaces = NULL;
    for (uint32_t i = 0; i < workspaces->n; i++) {
        psti_augment_run_close(&workspaces->list[i].run);
        psti_free(workspaces->list[i].block);
    }
    psti_gate_close(&workspaces->gate);
    psti_batch_pool_uncharge(loader->pool, workspaces->nbytes);
    psti_free(workspaces);
}

struct psti_loader_workspace *psti_loader_workspace_take(const pst_loader *loader)
{
    struct psti_loader_workspaces *workspaces = loader->mix.workspaces;
    psti_gate_enter(&workspaces->gate);
    pthread_mutex_lock(&workspaces->gate.lock);
    struct psti_loader_workspace *workspace = workspaces->free;
    workspaces->free = workspace->next;
    pthread_mutex_unlock(&workspaces->gate.lock);
    return workspace;
}

void psti_loader_workspace_give(const pst_loader *loader, struct psti_loader_workspace *workspace)
{
    struct psti_loader_workspaces *workspaces = loader->mix.workspaces;
    pthread_mutex_lock(&workspaces->gate.lock);
    workspace->next = workspaces->free;
    workspaces->free = workspace;
    pthread_mutex_unlock(&workspaces->gate.lock);
    psti_gate_leave(&workspaces->gate);
}
