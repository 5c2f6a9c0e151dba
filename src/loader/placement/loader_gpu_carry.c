/* loader_gpu_carry.c - carries rows that may differ in shape to the GPU: boxes, keypoints, arrays
 * and sound.
 *
 * In: a batch whose rows are all made. Out: one block of all such rows, in page-locked memory
 * (psti_batch_collate), and one upload of it. The thread that finishes the last row does this with
 * the batch's other work (loader_gpu_work.c), so the block is on the GPU before the batch is
 * delivered. If rows are left out or made again later, or if memory was lacking, the caller's
 * thread does it once more.
 *
 * Both memories stay with the slot and grow to the largest batch. They are replaced only when no
 * stream reads them any more. */
#include "loader/placement/loader_gpu.h"

#include "base/fail.h"

enum pst_status psti_loader_gpu_pack_rows(pst_batch *batch, struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    slot->is_packed = slot->is_carried = false;
    enum pst_status status = psti_batch_collate(batch, err);
    if (status != PST_OK)
        return status;
    slot->packed_nbytes = psti_batch_carried(batch, &slot->packed);
    slot->is_packed = true;
    psti_batch_set_carried(batch, slot->rows.memory);
    return PST_OK;
}

enum pst_status psti_loader_gpu_submit_rows(struct psti_loader_gpu *gpu,
                                            struct psti_loader_gpu_slot *slot,
                                            struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (slot->packed_nbytes)
        status = psti_device_stream_upload(gpu->stream, slot->rows.memory, slot->packed,
                                           slot->packed_nbytes, err);
    slot->is_carried = status == PST_OK;
    return status;
}

enum pst_status psti_loader_gpu_make_rows(void *ctx, struct psti_slot_part *part, size_t nbytes,
                                          void **rows, struct pst_error *err)
{
    struct psti_loader_gpu *gpu = ctx;
    struct psti_loader_gpu_slot *slot = part->own;
    *rows = NULL;
    slot->lacks_rows = false;
    enum pst_status status = psti_loader_gpu_settle(slot, err);
    if (status != PST_OK)
        return status;
    status = psti_loader_gpu_arena_reserve(gpu, &slot->rows, nbytes, err);
    slot->lacks_rows = status != PST_OK;
    if (status == PST_OK)
        status = psti_device_alloc_pinned(gpu->device, nbytes, rows, err);
    if (status != PST_OK)
        psti_loader_gpu_arena_free(gpu, &slot->rows);
    return status;
}

void psti_loader_gpu_unmake_rows(void *ctx, struct psti_slot_part *part, void *rows, size_t nbytes)
{
    struct psti_loader_gpu *gpu = ctx;
    struct psti_loader_gpu_slot *slot = part->own;
    (void)psti_loader_gpu_settle(slot, NULL); /* fails if the GPU is lost, and reads no more */
    psti_loader_gpu_arena_free(gpu, &slot->rows);
    psti_device_free_pinned(gpu->device, rows, nbytes);
}
