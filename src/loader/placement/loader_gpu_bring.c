/* loader_gpu_bring.c - uploads batches whose rows the host service prepared in shared memory.
 *
 * That memory is page-locked once, part by part and read-only, so that the GPU's copy engine reads
 * it in place. If the driver cannot do that, rows are copied to pinned memory of the loader first.
 * Only the caller's thread uses this file. */
#include "loader/placement/loader_gpu.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

bool psti_loader_gpu_brings(const pst_loader *loader, uint32_t i_plan)
{
    const struct psti_loader_plan_field *plan = &loader->plan.fields[i_plan];
    return plan->fill == PSTI_LOADER_FILL_PIXELS || plan->gpu_makes;
}

/* True if the part's memory is page-locked. Locks it at first use. False: the driver refuses. */
static bool is_locked(struct psti_loader_gpu *gpu, const struct psti_brought *part)
{
    struct psti_loader_gpu_homes *homes = &gpu->homes;
    for (uint32_t i = 0; i < homes->n; i++)
        if (homes->homes[i].memory == part->home)
            return homes->homes[i].locked;
    if (homes->n == homes->cap) {
        uint32_t cap = homes->cap ? 2 * homes->cap : 64;
        struct psti_loader_gpu_home *grown = psti_realloc(homes->homes, cap * sizeof *grown);
        if (!grown)
            return false;
        homes->homes = grown;
        homes->cap = cap;
    }
    bool locked = psti_device_lock(gpu->device, part->home, part->home_nbytes, NULL) == PST_OK;
    homes->homes[homes->n++] = (struct psti_loader_gpu_home){part->home, locked};
    return locked;
}

void psti_loader_gpu_forget(pst_loader *loader, const void *memory, size_t nbytes)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_homes *homes = &gpu->homes;
    uint32_t n = 0;
    for (uint32_t i = 0; i < homes->n; i++) {
        const struct psti_loader_gpu_home *home = &homes->homes[i];
        if ((uintptr_t)home->memory - (uintptr_t)memory >= nbytes)
            homes->homes[n++] = *home;
        else if (home->locked)
            psti_device_unlock(gpu->device, home->memory);
    }
    homes->n = n;
}

void psti_loader_gpu_close_homes(struct psti_loader_gpu *gpu)
{
    struct psti_loader_gpu_homes *homes = &gpu->homes;
    psti_device_free_pinned(gpu->device, homes->bounce, homes->bounce_nbytes);
    psti_free(homes->homes); /* the mappings are gone, and their page-locks were ended before */
    *homes = (struct psti_loader_gpu_homes){0};
}

/* Makes the buffer `bounce` at least nbytes large. */
static enum pst_status grow_bounce(pst_loader *loader, size_t nbytes, struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_homes *homes = &gpu->homes;
    if (nbytes <= homes->bounce_nbytes)
        return PST_OK;
    psti_device_free_pinned(gpu->device, homes->bounce, homes->bounce_nbytes);
    psti_batch_pool_uncharge(loader->pool, homes->bounce_nbytes);
    homes->bounce = NULL;
    homes->bounce_nbytes = 0;
    if (!psti_batch_pool_charge(loader->pool, nbytes, false))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory has no %zu bytes in which shared rows can be page-locked",
                         nbytes);
    enum pst_status status = psti_device_alloc_pinned(gpu->device, nbytes, &homes->bounce, err);
    if (status == PST_OK)
        homes->bounce_nbytes = nbytes;
    else
        psti_batch_pool_uncharge(loader->pool, nbytes);
    return status;
}

/* Copies a part's rows to pinned memory at `at`. Returns the part's description with that
 * address. */
static struct psti_brought copy_part(const struct psti_brought *part, char *at)
{
    struct psti_brought copy = *part;
    memcpy(at, part->rows, part->nbytes);
    copy.rows = at;
    return copy;
}

enum pst_status psti_loader_gpu_bring(pst_loader *loader, pst_batch *batch,
                                      const struct psti_brought *parts, uint32_t n_parts,
                                      bool *copied, struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    size_t nbytes = 0;
    *copied = false;
    for (uint32_t i = 0; i < n_parts; i++) {
        *copied |= !is_locked(gpu, &parts[i]);
        nbytes += parts[i].nbytes;
    }
    if (!*copied)
        return psti_loader_gpu_submit_parts(gpu, batch, parts, n_parts, err);
    struct psti_brought *copies = psti_alloc(n_parts * sizeof *copies);
    if (!copies)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a shared batch");
    enum pst_status status = grow_bounce(loader, nbytes, err);
    size_t at = 0;
    for (uint32_t i = 0; status == PST_OK && i < n_parts; i++) {
        copies[i] = copy_part(&parts[i], (char *)gpu->homes.bounce + at);
        at += parts[i].nbytes;
    }
    if (status == PST_OK)
        status = psti_loader_gpu_submit_parts(gpu, batch, copies, n_parts, err);
    psti_free(copies);
    return status;
}
