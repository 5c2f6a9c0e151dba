/* loader_gpu_nvjpeg.c - decodes JPEG files of rows by nvJPEG, if the loader's options ask for it.
 *
 * In: stored bytes and a draw. Out: a picture in the slot's memory on the GPU, and an entry for it
 * in the slot's block. There are two ways. A lane of the worker decodes Huffman codes here and
 * gives the rest to the loader's stream at once. Or the GPU's JPEG engines get the files of a batch
 * together, when it is submitted.
 *
 * Pixels of nvJPEG differ from the CPU's. So the choice of the decoder must not depend on the load
 * of the moment. It depends on the file's bytes, on whether a checksum proves them, on the row's
 * number, and on whether the picture fits into an empty block. A row that finds no space among
 * others comes again in another round. Lack of memory for nvJPEG is an error.
 *
 * Any number of workers, each with a row and lanes of its own. The stream's lock is held while a
 * lane gives work to the stream. The pool's budget, which has no lock, is charged meanwhile. */
#include "loader/placement/loader_gpu.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

static bool claim(void *ctx, uint64_t nbytes) { return psti_batch_pool_charge(ctx, nbytes, false); }
static void give_back(void *ctx, uint64_t nbytes) { psti_batch_pool_uncharge(ctx, nbytes); }

enum pst_status psti_loader_gpu_nvjpeg_open(pst_loader *loader, struct psti_loader_gpu *gpu,
                                            struct pst_error *err)
{
    const struct psti_nvjpeg_options options = {
        .claim = claim, .give_back = give_back, .ctx = loader->pool};
    return psti_device_nvjpeg_open(gpu->device, &options, &gpu->nvjpeg, err);
}

enum pst_status psti_loader_gpu_open_lanes(const struct psti_loader_gpu *gpu,
                                           struct psti_loader_gpu_worker *own,
                                           struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0;
         status == PST_OK && gpu->nvjpeg && gpu->n_fields > 0 && i < PSTI_LOADER_GPU_LANES; i++)
        status = psti_device_nvjpeg_lane_open(gpu->nvjpeg, &own->lanes[i], err);
    return status;
}

void psti_loader_gpu_close_lanes(struct psti_loader_gpu_worker *own)
{
    for (uint32_t i = 0; i < PSTI_LOADER_GPU_LANES; i++)
        psti_device_nvjpeg_lane_close(&own->lanes[i]);
}

/* Slots
 * ------------------------------------------------------------------------------------------------
 */

static bool has_engines(const struct psti_loader_gpu *gpu)
{
    struct psti_device_nvjpeg_info info;
    if (!gpu->nvjpeg)
        return false;
    psti_device_nvjpeg_info(gpu->nvjpeg, &info);
    return info.n_engines > 0;
}

uint64_t psti_loader_gpu_slot_jpeg_nbytes(const struct psti_loader_gpu *gpu, uint32_t n_rows)
{
    uint64_t n = (uint64_t)gpu->n_fields * n_rows;
    return has_engines(gpu) ? n * (sizeof(struct psti_loader_gpu_file) +
                                   sizeof(struct psti_nvjpeg_item) + sizeof(uint32_t))
                            : 0;
}

enum pst_status psti_loader_gpu_slot_open_jpeg(struct psti_loader_gpu *gpu,
                                               struct psti_loader_gpu_slot *slot,
                                               struct pst_error *err)
{
    size_t n = (size_t)gpu->n_fields * slot->n_rows_max;
    if (!gpu->nvjpeg || n == 0)
        return PST_OK;
    enum pst_status status = psti_device_event_open(gpu->device, &slot->decoded, err);
    if (status != PST_OK || !has_engines(gpu))
        return status;
    slot->files = psti_calloc(n, sizeof *slot->files);
    slot->items = psti_calloc(n, sizeof *slot->items);
    slot->rows_of_items = psti_calloc(n, sizeof *slot->rows_of_items);
    if (!slot->files || !slot->items || !slot->rows_of_items)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a batch on a GPU");
    for (int i = 0; status == PST_OK && i < 2; i++)
        status = psti_device_nvjpeg_batch_open(gpu->nvjpeg, (uint32_t)n, &slot->engines[i], err);
    return status;
}

void psti_loader_gpu_slot_close_jpeg(struct psti_loader_gpu_slot *slot)
{
    if (slot->decoded) /* also for a batch that was never submitted */
        (void)psti_device_event_sync(slot->decoded, NULL);
    psti_device_event_close(&slot->decoded);
    for (int i = 0; i < 2; i++)
        psti_device_nvjpeg_batch_close(&slot->engines[i]);
    psti_free(slot->files);
    psti_free(slot->items);
    psti_free(slot->rows_of_items);
}

void psti_loader_gpu_forget_files(const struct psti_loader_gpu *gpu,
                                  struct psti_loader_gpu_slot *slot, uint32_t i_field, uint32_t row)
{
    if (!slot->files)
        return;
    if (row != UINT32_MAX)
        slot->files[(size_t)i_field * slot->n_rows_max + row].item.bytes = NULL;
    else
        memset(slot->files, 0, (size_t)gpu->n_fields * slot->n_rows_max * sizeof *slot->files);
}

/* A row
 * ------------------------------------------------------------------------------------------------
 */

/* A file while it is taken. */
struct taking {
    struct psti_loader_worker *worker;
    const struct psti_image *image;
    struct psti_loader_gpu_slot *slot;
    uint32_t i_field; /* number among the GPU's fields */
    struct psti_nvjpeg_lane *lane;
    const void *bytes;
    size_t nbytes;
    struct psti_nvjpeg_file file;
    struct psti_gpu_place place;
};

static enum pst_status decode_in_lane(struct taking *t, struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(t->worker->loader);
    enum pst_status status =
        psti_device_nvjpeg_lane_begin(t->lane, t->bytes, t->nbytes, &t->file, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(&gpu->stream_lock);
    status = psti_device_nvjpeg_lane_submit(t->lane, gpu->stream, t->place.pixels,
                                            t->place.row_nbytes, err);
    enum pst_status recorded =
        psti_device_event_record(t->slot->decoded, gpu->stream, status == PST_OK ? err : NULL);
    pthread_mutex_unlock(&gpu->stream_lock);
    return status == PST_OK ? recorded : status;
}

/* True if the file is at fault, so that another decoder may succeed. */
static bool is_files_fault(enum pst_status status)
{
    return status == PST_ERROR_UNSUPPORTED || status == PST_ERROR_CORRUPT ||
           status == PST_ERROR_TRUNCATED;
}

/* Reports lack of memory. on_error must not decide here, because other runs may have enough memory.
 */
static enum pst_status no_memory(enum pst_status status, struct pst_error *err)
{
    if (status != PST_ERROR_LIMIT)
        return status;
    if (err)
        err->status = PST_ERROR_MEMORY;
    return PST_ERROR_MEMORY;
}

/* Claims the picture's place. *room is false if there is none. */
static enum pst_status find_place(struct taking *t, bool engines, bool *room, struct pst_error *err)
{
    const struct psti_gpu_stored stored = {.info = &t->image->info,
                                           .channels = t->file.channels,
                                           .file_nbytes = engines ? t->nbytes : 0};
    struct psti_gpu_row_stats stats;
    enum pst_status status = psti_gpu_block_stored(t->slot->block, t->i_field, t->image->row,
                                                   &stored, t->image->draw, &t->place, &stats, err);
    *room = status != PST_ERROR_LIMIT;
    if (status == PST_OK)
        t->worker->placed.nbytes_upload += stats.nbytes_upload + (engines ? t->nbytes : 0);
    return status;
}

/* Decodes by the engines if they take the file, else by the lane. *room is false if there was no
 * space. */
static enum pst_status decode_row(struct taking *t, bool is_verified, bool *room,
                                  struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = t->slot;
    uint32_t row = t->image->row;
    bool engines = false;
    *room = true;
    enum pst_status status = PST_OK;
    if (slot->files && is_verified)
        status = psti_device_nvjpeg_lane_suits_engines(t->lane, t->bytes, t->nbytes, &t->file,
                                                       &engines, err);
    if (status == PST_OK)
        status = find_place(t, engines, room, err);
    if (status != PST_OK)
        return status;
    if (!engines) {
        status = decode_in_lane(t, err);
        if (status != PST_OK)
            psti_gpu_block_forget(slot->block, t->i_field, row);
        return status;
    }
    memcpy(t->place.file, t->bytes, t->nbytes);
    slot->files[(size_t)t->i_field * slot->n_rows_max + row] = (struct psti_loader_gpu_file){
        {t->place.file, t->nbytes, t->place.pixels, t->place.row_nbytes}, t->file.channels};
    return PST_OK;
}

enum pst_status psti_loader_gpu_takes_jpeg(struct psti_loader_worker *worker,
                                           const struct psti_image *image, bool *taken,
                                           struct pst_error *err)
{
    struct psti_loader_gpu_worker *own = worker->placement;
    struct taking t = {.worker = worker,
                       .image = image,
                       .slot = psti_loader_gpu_slot_of(image->batch),
                       .i_field = psti_loader_gpu_of(worker->loader)->fields_of_plan[image->i_plan],
                       .lane = own->lanes[own->next_lane],
                       .bytes = image->source->data,
                       .nbytes = image->source->item.nbytes};
    struct pst_error cause;
    const char *why;
    bool room;
    if (!psti_device_nvjpeg_takes(t.bytes, t.nbytes, &t.file, &why)) {
        psti_loader_gpu_count_fallback(worker, why);
        return PST_OK;
    }
    pst_error_clear(&cause);
    enum pst_status status =
        decode_row(&t, psti_loader_gpu_is_verified(worker->loader, image->source), &room, &cause);
    own->next_lane = (own->next_lane + 1) % PSTI_LOADER_GPU_LANES;
    *taken = status == PST_OK || (!room && !own->alone);
    if (status == PST_OK) {
        worker->placed.n_gpu++;
        worker->placed.n_nvjpeg++;
        worker->nbytes_decoded += t.place.row_nbytes * t.file.height;
    } else if (!room && !own->alone) {
        psti_loader_gpu_make_again(worker, t.slot, image->row);
    } else if (!room || is_files_fault(status)) {
        psti_loader_gpu_count_fallback(worker, cause.text);
    } else if (status == PST_ERROR_ARGUMENT) {
        psti_loader_gpu_count_fallback(worker, cause.text); /* the CPU's decoder names the error */
    } else {
        if (err)
            *err = cause;
        return no_memory(status, err);
    }
    return PST_OK;
}

/* The engines
 * ------------------------------------------------------------------------------------------------
 */

/* Collects the files of rows that have a place. Returns how many. */
static uint32_t collect(const struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                        const uint32_t *places, uint8_t channels)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < gpu->n_fields; f++)
        for (uint32_t row = 0; row < slot->n_rows_max; row++) {
            const struct psti_loader_gpu_file *file =
                &slot->files[(size_t)f * slot->n_rows_max + row];
            if (!file->item.bytes || file->channels != channels || places[row] == PSTI_GPU_NOWHERE)
                continue;
            slot->rows_of_items[n] = row;
            slot->items[n++] = file->item;
        }
    return n;
}

/* Submits one file at a time after a batch was refused, to find out which one is at fault. */
static enum pst_status submit_singly(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                                     uint32_t *places, struct psti_nvjpeg_batch *engines,
                                     uint32_t n, uint8_t channels, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        uint32_t row = slot->rows_of_items[i];
        status = psti_device_stream_sync(gpu->stream, err); /* the engines' state is used again */
        if (status == PST_OK)
            status = psti_device_nvjpeg_batch_submit(engines, gpu->stream, &slot->items[i], 1,
                                                     channels, err);
        if (!is_files_fault(status))
            continue;
        places[row] = PSTI_GPU_NOWHERE;
        slot->again[row] = PSTI_LOADER_GPU_AGAIN_FAILED;
        status = PST_OK;
    }
    return status;
}

enum pst_status psti_loader_gpu_submit_files(struct psti_loader_gpu *gpu,
                                             struct psti_loader_gpu_slot *slot, uint32_t *places,
                                             struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (int i = 0; status == PST_OK && slot->files && i < 2; i++) {
        uint8_t channels = i == 0 ? 1 : 3;
        uint32_t n = collect(gpu, slot, places, channels);
        if (n == 0)
            continue;
        status = psti_device_nvjpeg_batch_submit(slot->engines[i], gpu->stream, slot->items, n,
                                                 channels, err);
        if (is_files_fault(status))
            status = submit_singly(gpu, slot, places, slot->engines[i], n, channels, err);
    }
    return no_memory(status, err);
}
