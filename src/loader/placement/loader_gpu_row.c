/* loader_gpu_row.c - hands one image of a row to a GPU.
 *
 * In: stored bytes and a draw. Out: one part of the slot's block: the stored bytes, for the GPU to
 * decode; or memory there into which the CPU writes pixels or the finished row. The choice depends
 * only on the row's number and its form, so results and counters are the same in every run. Only
 * lack of space depends on the order of rows, and it affects only speed.
 *
 * Many workers run this at once, each for its own row. No lock is taken here. */
#include "loader/placement/loader_gpu.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum pst_status psti_loader_gpu_open_worker(struct psti_loader_worker *worker,
                                            struct pst_error *err)
{
    worker->placement = psti_calloc(1, sizeof(struct psti_loader_gpu_worker));
    return worker->placement ? PST_OK
                             : psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a worker");
}

void psti_loader_gpu_close_worker(struct psti_loader_worker *worker)
{
    psti_free(worker->placement);
    worker->placement = NULL;
}

void psti_loader_gpu_count_fallback(struct psti_loader_worker *worker, const char *why)
{
    worker->placed.n_gpu_fallback++;
    snprintf(worker->placed.gpu_reason, sizeof worker->placed.gpu_reason, "%.95s", why);
}

/* Marks the row to be made again in another round, because the block is full. */
static void make_again(struct psti_loader_worker *worker, struct psti_loader_gpu_slot *slot,
                       uint32_t row)
{
    if (slot->again[row] != PSTI_LOADER_GPU_AGAIN_NO)
        return;
    slot->again[row] = PSTI_LOADER_GPU_AGAIN_ROOM;
    worker->placed.n_gpu_again++;
}

/* True if the item's bytes were compared with its checksum. fill_item in loader_fill.c does so
 * before it calls psti_loader_row_pixels, if these conditions hold. */
static bool is_verified(const pst_loader *loader, const struct psti_loader_source *source)
{
    return source->item.has_checksum && !loader->options.no_verify && !source->partial;
}

/* Returns the index of the part that makes this image: of its field in the slot's block. */
static uint32_t part_of(const struct psti_loader_gpu *gpu, const struct psti_image *image)
{
    return gpu->fields_of_plan[image->i_plan] + image->view;
}

/* Puts the row's stored bytes into the block. True: the GPU makes the row from them. False: the
 * caller must make it. */
static bool take(struct psti_loader_worker *worker, const struct psti_image *image)
{
    const pst_loader *loader = worker->loader;
    const struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    const struct psti_loader_gpu_worker *own = worker->placement;
    const struct psti_loader_plan_field *plan = image->plan;
    const struct psti_loader_source *source = image->source;
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(image->batch);
    uint32_t i_field = part_of(gpu, image);
    bool is_pli = image->info.form == PST_FORM_PLI || image->info.form == PST_FORM_PLI_JPEG;
    const struct psti_gpu_item item = {.bytes = source->data,
                                       .nbytes = source->item.nbytes,
                                       .info = &image->info,
                                       .pli = is_pli ? &image->pli : NULL,
                                       .is_verified = is_verified(loader, source)};
    struct psti_gpu_row_stats stats;
    struct pst_error cause;
    uint8_t channels, bits;
    if (own->host_only || image->row >= slot->n_gpu_rows)
        return false;
    psti_decode_output(&image->info, &plan->decode, &channels, &bits);
    if (bits != plan->bits) {
        psti_loader_gpu_count_fallback(worker, bits == 16
                                                   ? "16 bits, and the field's first image has 8"
                                                   : "8 bits, and the field's first image has 16");
        return false;
    }
    enum pst_status status =
        psti_gpu_block_row(slot->block, i_field, image->row, &item, image->draw, &stats, &cause);
    if (status == PST_ERROR_UNSUPPORTED || status == PST_ERROR_LIMIT)
        psti_loader_gpu_count_fallback(worker, cause.text);
    if (status != PST_OK) /* the row is left to the CPU, whose decoder reports the error */
        return false;
    worker->placed.n_gpu++;
    worker->n_partial += source->partial;
    worker->n_units += stats.n_units;
    worker->n_units_whole += stats.n_units_whole;
    worker->nbytes_decoded += stats.nbytes_pixels;
    worker->placed.nbytes_upload += stats.nbytes_upload;
    return true;
}

/* Returns memory in the block for the decoded pixels of the draw's region, if the GPU shall apply
 * the operations; the CPU then only decodes. NULL: the CPU makes the finished row. One reason is
 * that the pixels take more bytes than the row, so uploading them would cost more than the CPU
 * saves. */
static void *find_picture(struct psti_loader_worker *worker, const struct psti_image *image)
{
    const struct psti_loader_gpu *gpu = psti_loader_gpu_of(worker->loader);
    const struct psti_loader_gpu_worker *own = worker->placement;
    const struct psti_loader_plan_field *plan = image->plan;
    const struct psti_draw *draw = image->draw;
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(image->batch);
    uint32_t i_field = part_of(gpu, image);
    uint64_t nbytes = (uint64_t)draw->region_height * draw->region_width * plan->channels *
                      (plan->bits == 16 ? 2 : 1);
    void *pixels;
    /* The GPU has one chain for each field and handles no scaled pictures. The CPU finishes rows
     * that need others, and the few items that were read in part. */
    if (image->chain != plan->chain || own->host_only || image->row >= slot->n_gpu_rows ||
        image->source->partial || draw->scale_log2 ||
        nbytes > psti_gpu_field_draw_nbytes(gpu->fields[i_field], draw) ||
        psti_gpu_block_pixels(slot->block, i_field, image->row, draw, &pixels, NULL) != PST_OK)
        return NULL;
    worker->placed.nbytes_upload += nbytes;
    return pixels;
}

enum pst_status psti_loader_gpu_find_row(struct psti_loader_worker *worker, pst_batch *batch,
                                         uint32_t i_part, uint32_t row,
                                         const struct psti_draw *draw, void **data,
                                         struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(worker->loader);
    const struct psti_loader_gpu_worker *own = worker->placement;
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    const struct psti_gpu_field *field = gpu->fields[i_part];
    size_t nbytes = gpu->is_loose[i_part] ? psti_gpu_field_draw_nbytes(field, draw)
                                          : psti_gpu_field_row_nbytes(field);
    enum pst_status status = psti_gpu_block_finished(slot->block, i_part, row, draw, data, err);
    if (status == PST_OK) {
        worker->placed.nbytes_upload += nbytes;
        return PST_OK;
    }
    *data = NULL;
    if (status != PST_ERROR_LIMIT)
        return status;
    if (own->is_first && gpu->is_loose[i_part])
        return psti_loader_gpu_loose_large(worker, slot, i_part, row, nbytes, data, err);
    make_again(worker, slot, row);
    return PST_OK;
}

enum pst_status psti_loader_gpu_place(struct psti_loader_worker *worker,
                                      const struct psti_image *image, struct psti_place *place,
                                      struct pst_error *err)
{
    *place = (struct psti_place){.kind = PSTI_LOADER_PLACE_NOWHERE};
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(worker->loader);
    uint32_t i_part = part_of(gpu, image);
    if (!image->plan->fixed)
        psti_loader_gpu_loose_note(gpu, image, i_part);
    if (take(worker, image))
        return PST_OK;
    place->data = find_picture(worker, image);
    if (place->data) {
        place->kind = PSTI_LOADER_PLACE_PICTURE;
        return PST_OK;
    }
    enum pst_status status = psti_loader_gpu_find_row(worker, image->batch, i_part, image->row,
                                                      image->draw, &place->data, err);
    if (place->data)
        place->kind = PSTI_LOADER_PLACE_ROW;
    return status;
}

void psti_loader_gpu_done(struct psti_loader_worker *worker, const struct psti_image *image)
{
    psti_gpu_block_done(psti_loader_gpu_slot_of(image->batch)->block,
                        part_of(psti_loader_gpu_of(worker->loader), image), image->row);
}
