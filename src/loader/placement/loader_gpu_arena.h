/* loader_gpu_arena.h - memory on a GPU that belongs to a slot and grows to the largest batch. */
#ifndef PST_LOADER_LOADER_GPU_ARENA_H
#define PST_LOADER_LOADER_GPU_ARENA_H

#include "device/device.h"

struct psti_loader_gpu;
struct psti_loader_gpu_slot;

/* Memory of a slot for data whose size differs from batch to batch. All zero: it has no memory
 * yet. */
struct psti_loader_gpu_arena {
    uint64_t memory; /* address on the GPU, aligned to 256 bytes */
    size_t nbytes;
};

/* Waits in this thread for the slot's last submitted work and for the caller's streams that read
 * its previous contents. Memory of the slot may be freed then. Call it before the slot's next
 * submit, in the thread that submits. */
enum pst_status psti_loader_gpu_settle(struct psti_loader_gpu_slot *slot, struct pst_error *err);
/* Makes the arena at least nbytes large. If it must grow, its contents are lost and its address
 * changes, and the old memory is freed without waiting. So first wait for all work that uses it,
 * also for the caller's streams that read it (psti_loader_gpu_settle). Failure (PST_ERROR_LIMIT:
 * device_memory is used up; PST_ERROR_MEMORY: the GPU's memory is) leaves an empty arena. */
enum pst_status psti_loader_gpu_arena_reserve(struct psti_loader_gpu *gpu,
                                              struct psti_loader_gpu_arena *arena, size_t nbytes,
                                              struct pst_error *err);
/* Frees the memory. It does not wait for work that uses it. */
void psti_loader_gpu_arena_free(struct psti_loader_gpu *gpu, struct psti_loader_gpu_arena *arena);

#endif
