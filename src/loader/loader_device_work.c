/* loader_device_work.c - a batch whose rows are there -> arrays on the card.
 *
 * Two steps, so that no worker waits for the card: the thread that finishes the last row submits
 * one upload of the block, one of the numbers, few launches and the download of what the card found
 * corrupt; the caller's thread waits for them at the batch's turn, by then mostly in vain. Rows
 * that found no room in the block, or whose bytes were corrupt, are made again then, in rounds;
 * that is also when on_error decides, and when rows that are left out are closed up.
 *
 * Nothing is allocated here, and only events of the loader's own streams are waited for. */
#include "loader/loader_device.h"

#include "base/clock.h"
#include "base/fail.h"

#include <string.h>

/* Between two looks at an event. */
#define LOOK_NS 20000

void psti_card_begin(pst_loader *loader, pst_batch *batch, uint32_t n_rows)
{
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    if (slot->block)
        psti_gpu_block_begin(slot->block);
    psti_card_forget_files(loader->card, slot, 0, UINT32_MAX);
    slot->n_card_rows = (uint32_t)(loader->card->share * n_rows + 0.5);
    memset(slot->again, 0, slot->n_rows_max);
}

/* The launches wait for it. Nothing has to be waited for before it: whoever fills a block has
 * waited for the work that read what it held, and no stream of the caller's reads it. */
static enum pst_status submit_upload(struct psti_card *card, struct psti_card_slot *slot,
                                     uint64_t to, size_t nbytes, struct pst_error *err)
{
    enum pst_status status = psti_stream_upload(card->uploads, to, slot->pinned, nbytes, err);
    if (status == PST_OK)
        status = psti_event_record(slot->uploaded, card->uploads, err);
    if (status == PST_OK)
        status = psti_event_await(slot->uploaded, card->stream, err);
    return status;
}

/* The block, and what became of it. */
static enum pst_status submit_block(struct psti_card *card, struct psti_card_slot *slot,
                                    const uint64_t *outs, uint32_t *places, struct pst_error *err)
{
    struct psti_gpu_work work;
    enum pst_status status = psti_card_submit_files(card, slot, places, err);
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
        status = psti_stream_launch(card->stream, launch->kernel, launch->n_blocks, launch->n_warps,
                                    launch->shared_nbytes, launch->args, launch->args_nbytes, err);
    }
    if (status == PST_OK && work.statuses_nbytes)
        status = psti_stream_download(card->stream, (char *)slot->pinned + work.statuses_offset,
                                      upload + work.statuses_offset, work.statuses_nbytes, err);
    return status;
}

static enum pst_status submit_numbers(struct psti_card *card, const struct psti_card_slot *slot,
                                      struct pst_error *err)
{
    const char *numbers = (char *)slot->pinned + (slot->pinned_nbytes - slot->numbers_nbytes);
    return psti_stream_upload(card->stream, slot->memory, numbers, slot->numbers_nbytes, err);
}

/* Waits for all that is under way. The stream's lock is held. */
static void sync_streams(struct psti_card *card)
{
    if (card->uploads)
        (void)psti_stream_sync(card->uploads, NULL);
    (void)psti_stream_sync(card->stream, NULL);
}

/* Ends what was put into the streams: an event, or after a failure, as nobody knows how far it
 * went, a wait. The stream's lock is held. */
static enum pst_status end_work(struct psti_card *card, struct psti_card_slot *slot,
                                enum pst_status status, struct pst_error *err)
{
    if (status == PST_OK)
        status = psti_event_record(slot->done, card->stream, err);
    slot->submitted = status == PST_OK;
    if (status != PST_OK)
        sync_streams(card);
    return status;
}

static enum pst_status submit_all(struct psti_card *card, pst_batch *batch, uint32_t *places,
                                  struct pst_error *err)
{
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    uint64_t outs[PST_MAX_FIELDS];
    for (uint32_t i = 0; i < card->n_fields; i++) {
        size_t offset, row_nbytes;
        (void)psti_batch_place_of(batch, card->plan_fields[i], &offset, &row_nbytes);
        outs[i] = slot->memory + offset;
    }
    pthread_mutex_lock(&card->stream_lock);
    enum pst_status status = psti_card_await_readers(card, slot, err);
    if (status == PST_OK && slot->block)
        status = submit_block(card, slot, outs, places, err);
    if (status == PST_OK)
        status = submit_numbers(card, slot, err);
    status = end_work(card, slot, status, err);
    pthread_mutex_unlock(&card->stream_lock);
    return status;
}

enum pst_status psti_card_submit(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                 const uint8_t *bad, struct pst_error *err)
{
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    for (uint32_t row = 0; row < n_rows; row++)
        slot->places[row] = (bad && bad[row]) || slot->again[row] ? PSTI_GPU_NOWHERE : row;
    return submit_all(loader->card, batch, slot->places, err);
}

enum pst_status psti_card_wait(pst_loader *loader, pst_batch *batch, int64_t deadline,
                               struct pst_error *err)
{
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    (void)loader;
    while (slot->submitted) {
        bool done = false;
        enum pst_status status = psti_event_is_done(slot->done, &done, err);
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

void psti_card_quiesce(pst_loader *loader, pst_batch *batch)
{
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    if (slot->submitted && psti_event_sync(slot->done, NULL) != PST_OK) {
        pthread_mutex_lock(&loader->card->stream_lock);
        sync_streams(loader->card);
        pthread_mutex_unlock(&loader->card->stream_lock);
    }
    slot->submitted = false;
}

/* Adds to slot->todo what the last round left: rows that the card found corrupt, and those without
 * room. Returns how many rows are to be made. */
static uint32_t collect(struct psti_card *card, struct psti_card_slot *slot, uint32_t n_rows)
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
static enum pst_status make_again(struct psti_worker *worker, pst_batch *batch, uint64_t epoch,
                                  uint32_t row, bool alone, struct psti_job *job, bool *fits,
                                  struct pst_error *err)
{
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    uint64_t sample = (uint64_t)psti_batch_indices(batch)[row];
    struct psti_draw_key key = psti_row_key(worker->loader, epoch, sample, 0);
    if (job)
        key = psti_job_key(worker->loader, job, row);
    worker->host_only = slot->todo[row] == PSTI_CARD_AGAIN_FAILED;
    worker->alone = alone;
    if (worker->host_only && job)
        key.sample = psti_job_start_over(worker->loader, job, row);
    slot->again[row] = PSTI_CARD_AGAIN_NO;
    enum pst_status status = psti_row_make(worker, batch, row, &key, &worker->err);
    if (status != PST_OK && job) {
        psti_job_row_failed(worker, job, row, status);
        status = PST_OK;
    } else if (status != PST_OK && err) {
        *err = worker->err;
    }
    worker->host_only = worker->alone = false;
    *fits = slot->again[row] == PSTI_CARD_AGAIN_NO;
    return status;
}

/* Of a job that failed the lowest row that did is to be found: those behind it do not matter. */
static uint32_t rows_that_count(const struct psti_job *job, uint32_t n_rows)
{
    return job && job->failed && job->failed_row < n_rows ? job->failed_row : n_rows;
}

/* A round: as many rows as fit. */
static enum pst_status make_round(struct psti_worker *worker, pst_batch *batch, uint64_t epoch,
                                  uint32_t n_rows, struct psti_job *job, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    enum pst_status status = PST_OK;
    bool fits = true, any = false;
    psti_gpu_block_begin(slot->block);
    psti_card_forget_files(loader->card, slot, 0, UINT32_MAX);
    for (uint32_t row = 0; row < n_rows; row++)
        slot->places[row] = PSTI_GPU_NOWHERE;
    for (uint32_t row = 0; status == PST_OK && fits && row < rows_that_count(job, n_rows); row++) {
        if (!slot->todo[row])
            continue;
        status = make_again(worker, batch, epoch, row, !any, job, &fits, err);
        if (job && job->starved)
            return PST_OK; /* the job says so */
        if (!fits)
            break;
        any = true;
        slot->todo[row] = PSTI_CARD_AGAIN_NO;
        if (!job || !job->bad[row])
            slot->places[row] = row;
    }
    if (status == PST_OK && !any)
        status = psti_fail(err, PST_ERROR_LIMIT, "loader",
                           "a row does not fit into a batch's block for the card");
    if (status == PST_OK)
        status = submit_all(loader->card, batch, slot->places, err);
    if (status == PST_OK)
        status = psti_card_wait(loader, batch, INT64_MAX, err);
    return status;
}

/* Rows that follow one that is left out move up, on the card as in the host. */
static enum pst_status close_up(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                const uint8_t *bad, struct pst_error *err)
{
    struct psti_card *card = loader->card;
    struct psti_card_slot *slot = psti_card_slot_of(batch);
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
                status = psti_stream_copy(card->stream, array + place * row_nbytes,
                                          array + row * row_nbytes, row_nbytes, err);
            place++;
        }
    }
    if (status == PST_OK)
        status = submit_numbers(card, slot, err);
    status = end_work(card, slot, status, err);
    pthread_mutex_unlock(&card->stream_lock);
    return status == PST_OK ? psti_card_wait(loader, batch, INT64_MAX, err) : status;
}

enum pst_status psti_card_finish(struct psti_worker *worker, pst_batch *batch, uint64_t epoch,
                                 uint32_t n_rows, struct psti_job *job, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    enum pst_status status = PST_OK;
    int64_t start = psti_clock_ns();
    memset(slot->todo, 0, slot->n_rows_max);
    while (status == PST_OK && slot->block && !(job && job->starved) &&
           collect(loader->card, slot, rows_that_count(job, n_rows)) > 0)
        status = make_round(worker, batch, epoch, n_rows, job, err);
    psti_worker_count(worker, start);
    if (status != PST_OK || (job && (job->failed || job->starved)))
        return status;
    const uint8_t *bad = job && job->n_bad_rows ? job->bad : NULL;
    psti_batch_finish(batch, n_rows, bad);
    return bad ? close_up(loader, batch, n_rows, bad, err) : PST_OK;
}
