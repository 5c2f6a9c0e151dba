/* loader_gpu_sound.c - hands one row of sound to a GPU.
 *
 * In: a draw. Out: memory in the slot's block into which the CPU writes waveforms, of which the GPU
 * makes features, or the finished row. The choice depends only on the row's number and the chain.
 * Many workers run this at once, each for its own row. No lock is taken here. */
#include "loader/placement/loader_gpu.h"

enum pst_status psti_loader_gpu_open_sound(struct psti_loader_gpu *gpu, const pst_loader *loader,
                                           uint32_t i_plan, struct pst_error *err)
{
    uint32_t i = gpu->n_fields;
    enum pst_status status = psti_gpu_field_open_sound(
        loader->plan.fields[i_plan].sound, loader->plan.slots[i_plan].shape, &gpu->fields[i], err);
    if (status != PST_OK)
        return status;
    gpu->plan_fields[i] = i_plan;
    gpu->fields_of_plan[i_plan] = i;
    gpu->decodes[i] = psti_gpu_field_refusal(gpu->fields[i]) == NULL;
    gpu->n_fields++;
    return PST_OK;
}

/* Returns memory in the block for the row's waveforms. NULL: the CPU makes the finished row. */
static float *find_waves(struct psti_loader_worker *worker, pst_batch *batch, uint32_t i_part,
                         uint32_t row, const struct psti_sound_draw *draw)
{
    const struct psti_loader_gpu_worker *own = worker->placement;
    const struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    struct psti_gpu_row_stats stats;
    struct pst_error cause;
    float *waves;
    if (own->host_only || row >= slot->n_gpu_rows)
        return NULL;
    if (psti_gpu_block_waves(slot->block, i_part, row, draw, &waves, &stats, &cause) != PST_OK) {
        psti_loader_gpu_count_fallback(worker, cause.text);
        return NULL;
    }
    worker->placed.nbytes_upload += stats.nbytes_upload;
    return waves;
}

enum pst_status psti_loader_gpu_place_sound(struct psti_loader_worker *worker, pst_batch *batch,
                                            uint32_t i_plan, uint32_t row,
                                            const struct psti_sound_draw *draw,
                                            struct psti_place *place, struct pst_error *err)
{
    uint32_t i_part = psti_loader_gpu_of(worker->loader)->fields_of_plan[i_plan];
    *place = (struct psti_place){.kind = PSTI_LOADER_PLACE_WAVES,
                                 .data = find_waves(worker, batch, i_part, row, draw)};
    if (place->data)
        return PST_OK;
    enum pst_status status =
        psti_loader_gpu_find_row(worker, batch, i_part, row, NULL, &place->data, err);
    place->kind = place->data ? PSTI_LOADER_PLACE_ROW : PSTI_LOADER_PLACE_NOWHERE;
    return status;
}

void psti_loader_gpu_done_sound(struct psti_loader_worker *worker, pst_batch *batch,
                                uint32_t i_plan, uint32_t row)
{
    psti_gpu_block_done(psti_loader_gpu_slot_of(batch)->block,
                        psti_loader_gpu_of(worker->loader)->fields_of_plan[i_plan], row);
}
