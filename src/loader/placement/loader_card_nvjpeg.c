/* loader_card_nvjpeg.c - JPEG files of rows through nvJPEG, where the loader is told to.
 *
 * In: stored bytes and what was drawn for them. Out: a picture in the slot's memory on the card,
 * and in the slot's block what is to become of it. Two ways lead there: a lane of the worker, which
 * decodes Huffman codes here and gives the rest to the loader's stream at once; or the card's JPEG
 * engines, to which the files of a batch go together when it is submitted.
 *
 * Pixels of nvJPEG are not those of the CPU, so who decodes a row must not depend on what else goes
 * on: it is decided by the file's bytes, by whether a checksum vouches for them, by the row's
 * number, and by whether the picture finds room in a block that has nothing else. Rows that find
 * none among others come again in another round; and if there is no memory for nvJPEG, that is an
 * error.
 *
 * Any number of workers, each with a row and lanes of its own. The stream's lock is held while a
 * lane gives work to it; the pool's budget, which has no lock, is charged below it. */
#include "loader/placement/loader_card.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

static bool claim(void *ctx, uint64_t nbytes) { return psti_batch_pool_charge(ctx, nbytes, false); }
static void give_back(void *ctx, uint64_t nbytes) { psti_batch_pool_uncharge(ctx, nbytes); }

enum pst_status psti_loader_card_nvjpeg_open(pst_loader *loader, struct psti_loader_card *card,
                                             struct pst_error *err)
{
    const struct psti_nvjpeg_options options = {
        .claim = claim, .give_back = give_back, .ctx = loader->pool};
    return psti_device_nvjpeg_open(card->device, &options, &card->nvjpeg, err);
}

enum pst_status psti_loader_card_open_lanes(const struct psti_loader_card *card,
                                            struct psti_loader_card_worker *own,
                                            struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0;
         status == PST_OK && card->nvjpeg && card->n_fields > 0 && i < PSTI_CARD_LANES; i++)
        status = psti_device_nvjpeg_lane_open(card->nvjpeg, &own->lanes[i], err);
    return status;
}

void psti_loader_card_close_lanes(struct psti_loader_card_worker *own)
{
    for (uint32_t i = 0; i < PSTI_CARD_LANES; i++)
        psti_device_nvjpeg_lane_close(&own->lanes[i]);
}

/* Slots
 * ------------------------------------------------------------------------------------------------
 */

static bool has_engines(const struct psti_loader_card *card)
{
    struct psti_device_nvjpeg_info info;
    if (!card->nvjpeg)
        return false;
    psti_device_nvjpeg_info(card->nvjpeg, &info);
    return info.n_engines > 0;
}

uint64_t psti_loader_card_slot_jpeg_nbytes(const struct psti_loader_card *card, uint32_t n_rows)
{
    uint64_t n = (uint64_t)card->n_fields * n_rows;
    return has_engines(card) ? n * (sizeof(struct psti_loader_card_file) +
                                    sizeof(struct psti_nvjpeg_item) + sizeof(uint32_t))
                             : 0;
}

enum pst_status psti_loader_card_slot_open_jpeg(struct psti_loader_card *card,
                                                struct psti_loader_card_slot *slot,
                                                struct pst_error *err)
{
    size_t n = (size_t)card->n_fields * slot->n_rows_max;
    if (!card->nvjpeg || n == 0)
        return PST_OK;
    enum pst_status status = psti_device_event_open(card->device, &slot->decoded, err);
    if (status != PST_OK || !has_engines(card))
        return status;
    slot->files = psti_calloc(n, sizeof *slot->files);
    slot->items = psti_calloc(n, sizeof *slot->items);
    slot->rows_of_items = psti_calloc(n, sizeof *slot->rows_of_items);
    if (!slot->files || !slot->items || !slot->rows_of_items)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a batch on a card");
    for (int i = 0; status == PST_OK && i < 2; i++)
        status = psti_device_nvjpeg_batch_open(card->nvjpeg, (uint32_t)n, &slot->engines[i], err);
    return status;
}

void psti_loader_card_slot_close_jpeg(struct psti_loader_card_slot *slot)
{
    if (slot->decoded) /* also of a batch that was never submitted */
        (void)psti_device_event_sync(slot->decoded, NULL);
    psti_device_event_close(&slot->decoded);
    for (int i = 0; i < 2; i++)
        psti_device_nvjpeg_batch_close(&slot->engines[i]);
    psti_free(slot->files);
    psti_free(slot->items);
    psti_free(slot->rows_of_items);
}

void psti_loader_card_forget_files(const struct psti_loader_card *card,
                                   struct psti_loader_card_slot *slot, uint32_t i_field,
                                   uint32_t row)
{
    if (!slot->files)
        return;
    if (row != UINT32_MAX)
        slot->files[(size_t)i_field * slot->n_rows_max + row].item.bytes = NULL;
    else
        memset(slot->files, 0, (size_t)card->n_fields * slot->n_rows_max * sizeof *slot->files);
}

/* A row
 * ------------------------------------------------------------------------------------------------
 */

/* A file on its way. */
struct taking {
    struct psti_loader_worker *worker;
    const struct psti_image *image;
    struct psti_loader_card_slot *slot;
    uint32_t i_field; /* of the card's fields */
    struct psti_nvjpeg_lane *lane;
    const void *bytes;
    size_t nbytes;
    struct psti_nvjpeg_file file;
    struct psti_gpu_place place;
};

static enum pst_status decode_in_lane(struct taking *t, struct pst_error *err)
{
    struct psti_loader_card *card = psti_loader_card_of(t->worker->loader);
    enum pst_status status =
        psti_device_nvjpeg_lane_begin(t->lane, t->bytes, t->nbytes, &t->file, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(&card->stream_lock);
    status = psti_device_nvjpeg_lane_submit(t->lane, card->stream, t->place.pixels,
                                            t->place.row_nbytes, err);
    enum pst_status recorded =
        psti_device_event_record(t->slot->decoded, card->stream, status == PST_OK ? err : NULL);
    pthread_mutex_unlock(&card->stream_lock);
    return status == PST_OK ? recorded : status;
}

/* What lies with the file, so that another decoder may do. */
static bool is_files_fault(enum pst_status status)
{
    return status == PST_ERROR_UNSUPPORTED || status == PST_ERROR_CORRUPT ||
           status == PST_ERROR_TRUNCATED;
}

/* No memory: nothing that on_error may decide, because other runs may have some. */
static enum pst_status no_memory(enum pst_status status, struct pst_error *err)
{
    if (status != PST_ERROR_LIMIT)
        return status;
    if (err)
        err->status = PST_ERROR_MEMORY;
    return PST_ERROR_MEMORY;
}

/* The picture's place is claimed, or *room is false. */
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

/* By the engines if they take it, else by the lane. *room: false: it found none. */
static enum pst_status decode_row(struct taking *t, bool is_verified, bool *room,
                                  struct pst_error *err)
{
    struct psti_loader_card_slot *slot = t->slot;
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
    slot->files[(size_t)t->i_field * slot->n_rows_max + row] = (struct psti_loader_card_file){
        {t->place.file, t->nbytes, t->place.pixels, t->place.row_nbytes}, t->file.channels};
    return PST_OK;
}

enum pst_status psti_loader_card_takes_jpeg(struct psti_loader_worker *worker,
                                            const struct psti_image *image, bool *taken,
                                            struct pst_error *err)
{
    struct psti_loader_card_worker *own = worker->placement;
    struct taking t = {.worker = worker,
                       .image = image,
                       .slot = psti_loader_card_slot_of(image->batch),
                       .i_field =
                           psti_loader_card_of(worker->loader)->fields_of_plan[image->i_plan],
                       .lane = own->lanes[own->next_lane],
                       .bytes = image->source->data,
                       .nbytes = image->source->item.nbytes};
    struct pst_error cause;
    const char *why;
    bool room;
    if (!psti_device_nvjpeg_takes(t.bytes, t.nbytes, &t.file, &why)) {
        psti_loader_card_say_fallback(worker, why);
        return PST_OK;
    }
    pst_error_clear(&cause);
    enum pst_status status =
        decode_row(&t, psti_loader_card_is_verified(worker->loader, image->source), &room, &cause);
    own->next_lane = (own->next_lane + 1) % PSTI_CARD_LANES;
    *taken = status == PST_OK || (!room && !own->alone);
    if (status == PST_OK) {
        worker->placed.n_gpu++;
        worker->placed.n_nvjpeg++;
        worker->nbytes_decoded += t.place.row_nbytes * t.file.height;
    } else if (!room && !own->alone) {
        psti_loader_card_make_again(worker, t.slot, image->row);
    } else if (!room || is_files_fault(status)) {
        psti_loader_card_say_fallback(worker, cause.text);
    } else if (status == PST_ERROR_ARGUMENT) {
        psti_loader_card_say_fallback(worker, cause.text); /* the CPU says what is wrong */
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

/* Files of rows that have a place; returns how many. */
static uint32_t collect(const struct psti_loader_card *card, struct psti_loader_card_slot *slot,
                        const uint32_t *places, uint8_t channels)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < card->n_fields; f++)
        for (uint32_t row = 0; row < slot->n_rows_max; row++) {
            const struct psti_loader_card_file *file =
                &slot->files[(size_t)f * slot->n_rows_max + row];
            if (!file->item.bytes || file->channels != channels || places[row] == PSTI_GPU_NOWHERE)
                continue;
            slot->rows_of_items[n] = row;
            slot->items[n++] = file->item;
        }
    return n;
}

/* One file at a time, after a batch of them was refused: so it is known which one is at fault. */
static enum pst_status submit_singly(struct psti_loader_card *card,
                                     struct psti_loader_card_slot *slot, uint32_t *places,
                                     struct psti_nvjpeg_batch *engines, uint32_t n,
                                     uint8_t channels, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        uint32_t row = slot->rows_of_items[i];
        status = psti_device_stream_sync(card->stream, err); /* the engines' state is used again */
        if (status == PST_OK)
            status = psti_device_nvjpeg_batch_submit(engines, card->stream, &slot->items[i], 1,
                                                     channels, err);
        if (!is_files_fault(status))
            continue;
        places[row] = PSTI_GPU_NOWHERE;
        slot->again[row] = PSTI_CARD_AGAIN_FAILED;
        status = PST_OK;
    }
    return status;
}

enum pst_status psti_loader_card_submit_files(struct psti_loader_card *card,
                                              struct psti_loader_card_slot *slot, uint32_t *places,
                                              struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (int i = 0; status == PST_OK && slot->files && i < 2; i++) {
        uint8_t channels = i == 0 ? 1 : 3;
        uint32_t n = collect(card, slot, places, channels);
        if (n == 0)
            continue;
        status = psti_device_nvjpeg_batch_submit(slot->engines[i], card->stream, slot->items, n,
                                                 channels, err);
        if (is_files_fault(status))
            status = submit_singly(card, slot, places, slot->engines[i], n, channels, err);
    }
    return no_memory(status, err);
}
