/* loader_gpu_arena.c - memory on a GPU that belongs to a slot and grows to the largest batch.
 *
 * The device charges it to device_memory. It grows with a margin, so that slightly larger batches
 * do not allocate again; if there is no memory for the margin, it grows without one. */
#include "loader/placement/loader_gpu_arena.h"

#include "loader/placement/loader_gpu.h"

enum pst_status psti_loader_gpu_settle(struct psti_loader_gpu_slot *slot, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (slot->submitted)
        status = psti_device_event_sync(slot->done, err);
    for (uint32_t i = 0; slot->readers_pending && i < slot->n_readers; i++) {
        bool is_first = status == PST_OK; /* after a failure, the other streams are awaited, too */
        enum pst_status synced =
            psti_device_event_sync(slot->readers[i].event, is_first ? err : NULL);
        status = is_first ? synced : status;
    }
    return status;
}

enum pst_status psti_loader_gpu_arena_reserve(struct psti_loader_gpu *gpu,
                                              struct psti_loader_gpu_arena *arena, size_t nbytes,
                                              struct pst_error *err)
{
    if (nbytes <= arena->nbytes)
        return PST_OK;
    psti_loader_gpu_arena_free(gpu, arena);
    size_t wanted = nbytes + nbytes / 8;
    enum pst_status status = psti_device_alloc(gpu->device, wanted, &arena->memory, err);
    if (status == PST_ERROR_LIMIT || status == PST_ERROR_MEMORY) {
        wanted = nbytes;
        status = psti_device_alloc(gpu->device, wanted, &arena->memory, err);
    }
    if (status == PST_OK)
        arena->nbytes = wanted;
    return status;
}

void psti_loader_gpu_arena_free(struct psti_loader_gpu *gpu, struct psti_loader_gpu_arena *arena)
{
    psti_device_free(gpu->device, arena->memory, arena->nbytes);
    *arena = (struct psti_loader_gpu_arena){0};
}
