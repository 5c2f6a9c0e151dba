/* loader_card_work.c - a batch whose rows are there -> arrays on the card.
 *
 * Two steps, so that no worker waits for the card: the thread that finishes the last row submits
 * one upload of the block, one of the numbers, few launches and the download of what the card found
 * corrupt; the caller's thread waits for them at the batch's turn, by then mostly in vain. Rows
 * that found no room in the block, or whose bytes were corrupt, are made again then, in rounds;
 * that is also when on_error decides, and when rows that are left out are closed up.
 *
 * Nothing is allocated here, and only events of the loader's own streams are waited for. */
#include "loader/placement/loader_card.h"

#include "base/clock.h"
#include "base/fail.h"

#include <string.h>

/* Between two looks at an event. */
#define LOOK_NS 20000

void psti_loader_card_begin(pst_loader *loader, pst_batch *batch, uint32_t n_rows)
{
    const struct psti_loader_card *card = psti_loader_card_of(loader);
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(batch);
    if (slot->block)
        psti_gpu_block_begin(slot->block);
    psti_loader_card_forget_files(card, slot, 0, UINT32_MAX);
    slot->n_card_rows = (uint32_t)(card->share * n_rows + 0.5);
    memset(slot->again, 0, slot->n_rows_max);
}

/* The launches wait for it. Nothing has to be waited for before it: whoever fills a block has
 * waited for the work that read what it held, and no stream of the caller's reads it. */
static enum pst_status submit_upload(struct psti_loader_card *card,
                                     struct psti_loader_card_slot *slot, uint64_t to, size_t nbytes,
                                     struct pst_error *err)
{
    enum pst_status status =
        psti_device_stream_upload(card->uploads, to, slot->pinned, nbytes, err);
    if (status == PST_OK)
        status = psti_device_event_record(slot->uploaded, card->uploads, err);
    if (status == PST_OK)
        status = psti_device_event_await(slot->uploaded, card->stream, err);
    return status;
}

/* The block, and what became of it. */
static enum pst_status submit_block(struct psti_loader_card *card,
                                    struct psti_loader_card_slot *slot, const uint64_t *outs,
                                    uint32_t *places, struct pst_error *err)
{
    struct psti_gpu_work work;
    enum pst_status status = psti_loader_card_submit_files(card, slot, places, err);
    if (status == PST_OK)
        status = psti_gpu_block_work(slot->block, outs, places, &work, err);
    if (status != PST_OK)
        return status;
    uint64_t upload = slot->memory + slot->memory_nbytes -
                      (slot->pinned_nbytes - slot->numbers_nbytes); /* the block's, on the card */
    if (status == PST_OK && work.upload_nbytes)
        status = submit_upload(card, slot, upload, work.upload_nbytes, err);
    for (uint32_t i = 0; status == PST_OK && i < work.n_launches; i++) {
        const struct psti_gpu_launch *launch = &work.launches[i];
        status = psti_device_stream_launch(card->stream, launch->kernel, launch->n_blocks,
                                           launch->n_warps, launch->shared_nbytes, launch->args,
                                           launch->args_nbytes, err);
    }
    if (status == PST_OK && work.statuses_nbytes)
        status =
            psti_device_stream_download(card->stream, (char *)slot->pinned + work.statuses_offset,
                                        upload + work.statuses_offset, work.statuses_nbytes, err);
    return status;
}

static enum pst_status submit_numbers(struct psti_loader_card *card,
                                      const struct psti_loader_card_slot *slot,
                                      struct pst_error *err)
{
    const char *numbers = (char *)slot->pinned + (slot->pinned_nbytes - slot->numbers_nbytes);
    return psti_device_stream_upload(card->stream, slot->memory, numbers, slot->numbers_nbytes,
                                     err);
}

/* Waits for all that is under way. The stream's lock is held. */
static void sync_streams(struct psti_loader_card *card)
{
    if (card->uploads)
        (void)psti_device_stream_sync(card->uploads, NULL);
    (void)psti_device_stream_sync(card->stream, NULL);
}

/* Ends what was put into the streams: an event, or after a failure, as nobody knows how far it
 * went, a wait. The stream's lock is held. */
static enum pst_status end_work(struct psti_loader_card *card, struct psti_loader_card_slot *slot,
                                enum pst_status status, struct pst_error *err)
{
    if (status == PST_OK)
        status = psti_device_event_record(slot->done, card->stream, err);
    slot->submitted = status == PST_OK;
    if (status != PST_OK)
        sync_streams(card);
    return status;
}

static enum pst_status submit_all(struct psti_loader_card *card, pst_batch *batch, uint32_t *places,
                                  struct pst_error *err)
{
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(batch);
    uint64_t outs[PST_MAX_FIELDS];
    for (uint32_t i = 0; i < card->n_fields; i++) {
        size_t offset, row_nbytes;
        (void)psti_batch_place_of(batch, card->plan_fields[i], &offset, &row_nbytes);
        outs[i] = slot->memory + offset;
    }
    pthread_mutex_lock(&card->stream_lock);
    enum pst_status status = psti_loader_card_await_readers(card, slot, err);
    if (status == PST_OK && slot->block)
        status = submit_block(card, slot, outs, places, err);
    if (status == PST_OK)
        status = submit_numbers(card, slot, err);
    status = end_work(card, slot, status, err);
    pthread_mutex_unlock(&card->stream_lock);
    return status;
}

enum pst_status psti_loader_card_submit(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                        const uint8_t *bad, bool failed, bool *whole,
                                        struct pst_error *err)
{
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(batch);
    (void)
        failed; /* rows before the one that failed may turn out to be bad, too: the lowest counts */
    *whole = false;
    for (uint32_t row = 0; row < n_rows; row++)
        slot->places[row] = (bad && bad[row]) || slot->again[row] ? PSTI_GPU_NOWHERE : row;
    return submit_all(psti_loader_card_of(loader), batch, slot->places, err);
}

enum pst_status psti_loader_card_wait(pst_loader *loader, pst_batch *batch, int64_t deadline,
                                      struct pst_error *err)
{
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(batch);
    (void)loader;
    /* Written by the thread that closed the batch, before it made the job WHOLE with the lock. */
    while (slot->submitted) {
        bool done = false;
        enum pst_status status = psti_device_event_is_done(slot->done, &done, err);
        if (status != PST_OK)
            return status;
        slot->submitted = !done;
        if (done)
            break;
        int64_t now = psti_clock_ns();
        if (now >= deadline)
            return psti_fail(err, PST_ERROR_BUSY, "loader", "the batch is not whole yet");
        psti_clock_sleep_until(now + LOOK_NS < deadline ? now + LOOK_NS : deadline);
    }
    return PST_OK;
}

void psti_loader_card_quiesce(pst_loader *loader, pst_batch *batch)
{
    struct psti_loader_card *card = psti_loader_card_of(loader);
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(batch);
    if (slot->submitted && psti_device_event_sync(slot->done, NULL) != PST_OK) {
        pthread_mutex_lock(&card->stream_lock);
        sync_streams(card);
        pthread_mutex_unlock(&card->stream_lock);
    }
    slot->submitted = false;
}

/* Adds to slot->todo what the last round left: rows that the card found corrupt, and those without
 * room. Returns how many rows are to be made. */
static uint32_t collect(struct psti_loader_card *card, struct psti_loader_card_slot *slot,
                        uint32_t n_rows)
{
    uint32_t n = 0;
    for (uint32_t row = 0; row < n_rows; row++) {
        bool failed = false;
        for (uint32_t i = 0; i < card->n_fields && slot->places[row] != PSTI_GPU_NOWHERE; i++)
            failed |= psti_gpu_block_failed(slot->block, i, row);
        if (failed)
            slot->todo[row] = PSTI_CARD_AGAIN_FAILED;
        else if (slot->todo[row] == PSTI_CARD_AGAIN_NO)
            slot->todo[row] = slot->again[row];
        slot->again[row] = PSTI_CARD_AGAIN_NO;
        n += slot->todo[row] != PSTI_CARD_AGAIN_NO;
    }
    return n;
}

/* One row of a round, the first of it if `alone`. *fits: it found room. */
static enum pst_status make_again(struct psti_remake *remake, uint32_t row, bool alone, bool *fits,
                                  struct pst_error *err)
{
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(remake->batch);
    struct psti_loader_card_worker *own = remake->worker->placement;
    bool corrupt = slot->todo[row] == PSTI_CARD_AGAIN_FAILED;
    own->host_only = corrupt;
    own->alone = alone;
    slot->again[row] = PSTI_CARD_AGAIN_NO;
    enum pst_status status = remake->make(remake, row, corrupt, err);
    own->host_only = own->alone = false;
    *fits = slot->again[row] == PSTI_CARD_AGAIN_NO;
    return status;
}

/* A round: as many rows as fit. */
static enum pst_status make_round(pst_loader *loader, struct psti_remake *remake,
                                  struct pst_error *err)
{
    struct psti_loader_card *card = psti_loader_card_of(loader);
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(remake->batch);
    enum pst_status status = PST_OK;
    bool fits = true, any = false;
    psti_gpu_block_begin(slot->block);
    psti_loader_card_forget_files(card, slot, 0, UINT32_MAX);
    for (uint32_t row = 0; row < remake->n_rows; row++)
        slot->places[row] = PSTI_GPU_NOWHERE;
    for (uint32_t row = 0; status == PST_OK && fits && row < remake->n_wanted; row++) {
        if (!slot->todo[row])
            continue;
        status = make_again(remake, row, !any, &fits, err);
        if (remake->starved)
            return PST_OK; /* the loader tries again */
        if (!fits)
            break;
        any = true;
        slot->todo[row] = PSTI_CARD_AGAIN_NO;
        if (!remake->bad || !remake->bad[row])
            slot->places[row] = row;
    }
    if (status == PST_OK && !any)
        status = psti_fail(err, PST_ERROR_LIMIT, "loader",
                           "a row does not fit into a batch's block for the card");
    if (status == PST_OK)
        status = submit_all(card, remake->batch, slot->places, err);
    if (status == PST_OK)
        status = psti_loader_card_wait(loader, remake->batch, INT64_MAX, err);
    return status;
}

/* Rows that follow one that is left out move up, on the card as in the host. */
static enum pst_status close_up(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                const uint8_t *bad, struct pst_error *err)
{
    struct psti_loader_card *card = psti_loader_card_of(loader);
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(batch);
    enum pst_status status = PST_OK;
    pthread_mutex_lock(&card->stream_lock);
    for (uint32_t i = 0; i < card->n_fields; i++) {
        size_t offset, row_nbytes;
        uint64_t place = 0;
        (void)psti_batch_place_of(batch, card->plan_fields[i], &offset, &row_nbytes);
        uint64_t array = slot->memory + offset;
        for (uint32_t row = 0; status == PST_OK && row < n_rows; row++) {
            if (bad[row])
                continue;
            if (place != row)
                status = psti_device_stream_copy(card->stream, array + place * row_nbytes,
                                                 array + row * row_nbytes, row_nbytes, err);
            place++;
        }
    }
    if (status == PST_OK)
        status = submit_numbers(card, slot, err);
    status = end_work(card, slot, status, err);
    pthread_mutex_unlock(&card->stream_lock);
    return status == PST_OK ? psti_loader_card_wait(loader, batch, INT64_MAX, err) : status;
}

enum pst_status psti_loader_card_finish(pst_loader *loader, struct psti_remake *remake,
                                        struct pst_error *err)
{
    struct psti_loader_card *card = psti_loader_card_of(loader);
    struct psti_loader_card_slot *slot = psti_loader_card_slot_of(remake->batch);
    enum pst_status status = PST_OK;
    memset(slot->todo, 0, slot->n_rows_max);
    while (status == PST_OK && slot->block && !remake->starved &&
           collect(card, slot, remake->n_wanted) > 0)
        status = make_round(loader, remake, err);
    if (status != PST_OK || remake->failed || remake->starved)
        return status;
    psti_batch_finish(remake->batch, remake->n_rows, remake->bad);
    return remake->bad ? close_up(loader, remake->batch, remake->n_rows, remake->bad, err) : PST_OK;
}
