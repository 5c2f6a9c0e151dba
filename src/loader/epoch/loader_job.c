/* loader_job.c - ends the rows of a batch under way, and handles bad samples.
 *
 * In: rows that any worker has filled or failed to fill. Out: a finished job, whose errors are
 * sorted by row. So the caller sees the same result whichever thread was first. */
#include "loader/tiers/loader_files.h"
#include "loader/tiers/loader_forms.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_meter.h"
#include "loader/epoch/loader_quarantine.h"
#include "loader/rows/loader_row.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/philox.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum pst_status psti_loader_job_open(struct psti_loader_job *job, uint32_t batch_size,
                                     struct pst_error *err)
{
    memset(job, 0, sizeof *job);
    job->positions = psti_alloc_array(batch_size, sizeof *job->positions);
    job->bad = psti_calloc(batch_size, sizeof *job->bad);
    if (job->positions && job->bad)
        return PST_OK;
    psti_loader_job_close(job);
    return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a batch of %u rows",
                     batch_size);
}

void psti_loader_job_clear_bads(struct psti_loader_job *job)
{
    while (job->bads) {
        struct psti_loader_bad *bad = job->bads;
        job->bads = bad->next;
        psti_free(bad);
    }
    job->n_bad = job->n_bad_rows = job->n_replaced = 0;
}

void psti_loader_job_close(struct psti_loader_job *job)
{
    psti_loader_job_clear_bads(job);
    psti_free(job->positions);
    psti_free(job->bad);
    memset(job, 0, sizeof *job);
}

void psti_loader_job_list(const pst_loader *loader, struct psti_loader_job *job,
                          struct psti_ranks ranks, uint64_t epoch, uint64_t start, uint64_t step)
{
    job->epoch = epoch;
    job->step = step;
    job->n_rows = psti_order_batch(loader->order, ranks, start, step, job->positions);
    job->first_turn = start / ranks.world_size + step * loader->options.batch_size;
    job->next_row = 0;
    job->n_left = job->n_rows;
}

void psti_loader_job_set(pst_loader *loader, struct psti_loader_job *job, struct psti_ranks ranks,
                         uint64_t epoch, uint64_t start, uint64_t step, uint64_t shown_step)
{
    int64_t *indices = psti_batch_indices(job->batch);
    uint64_t *draws = psti_batch_draws(job->batch);
    if (job->state != PSTI_LOADER_JOB_LISTED)
        psti_loader_job_list(loader, job, ranks, epoch, start, step);
    job->n_boxes_dropped = job->n_unpaired = 0;
    job->failed = job->starved = job->settled = job->mixed = false;
    psti_loader_job_clear_bads(job);
    memset(job->bad, 0, job->n_rows);
    for (uint32_t i = 0; i < job->n_rows; i++) {
        indices[i] = (int64_t)psti_order_sample(loader->order, epoch, job->positions[i]);
        draws[i] = psti_order_draw(loader->order, job->positions[i]);
    }
    psti_batch_set_place(job->batch, epoch, shown_step);
    loader->placement.ops->begin(loader, job->batch, job->first_turn, job->n_rows);
}

struct psti_draw_key psti_loader_job_key(const pst_loader *loader,
                                         const struct psti_loader_job *job, uint32_t row)
{
    uint64_t position = job->positions[row];
    uint64_t sample = job->batch ? (uint64_t)psti_batch_indices(job->batch)[row]
                                 : psti_order_sample(loader->order, job->epoch, position);
    return psti_loader_row_key(loader, job->epoch, sample,
                               psti_order_draw(loader->order, position));
}

static bool came_from(const struct pst_error *err, const char *room)
{
    return strcmp(err->room, room) == 0;
}

static bool is_lone_loss(const pst_loader *loader, const struct pst_error *err)
{
    const pst_dataset *dataset = loader->dataset;
    uint64_t own;
    if (err->sample >= 0 && (uint64_t)err->sample < pst_dataset_count(dataset))
        dataset = psti_dataset_leaf(dataset, (uint64_t)err->sample, &own);
    return psti_loader_files_is_lone_loss(dataset, err->file);
}

/* True if the sample itself causes the fault in worker->err, so that on_error decides. Faults of
 * the machine, of limits and of options would hit good samples, too, so they end the epoch. */
static bool is_samples_fault(const struct psti_loader_worker *worker, enum pst_status status)
{
    const struct pst_error *err = &worker->err;
    switch (status) {
    case PST_ERROR_CORRUPT:
    case PST_ERROR_TRUNCATED:
    case PST_ERROR_CHECKSUM:
    case PST_ERROR_VERSION:
        return true;
    case PST_ERROR_NOT_FOUND: /* the sample lacks the item, or its file is missing */
        return !err->os_error || is_lone_loss(worker->loader, err);
    case PST_ERROR_UNSUPPORTED: /* the file needs a feature that the decoder lacks; from storage:
                                   it is no regular file */
        return came_from(err, "decode") || came_from(err, "sound") || came_from(err, "storage");
    case PST_ERROR_ARGUMENT: /* operations report this status, too, but then the sample is not at
                                fault */
        return came_from(err, "decode");
    case PST_ERROR_LIMIT: /* the sample itself is at fault if its image has more than max_pixels */
        return came_from(err, "decode") && !worker->lacks_scratch;
    default:
        return false;
    }
}

static void fail_job(struct psti_loader_worker *worker, struct psti_loader_job *job, uint32_t row)
{
    pthread_mutex_lock(worker->loader->lock);
    if (!job->failed || row < job->failed_row) {
        job->failed = true;
        job->failed_row = row;
        job->failure = worker->err;
    }
    pthread_mutex_unlock(worker->loader->lock);
}

/* Adds worker->err to the job's list of bad samples. False: out of memory, and worker->err says
 * so. */
static bool note_bad(struct psti_loader_worker *worker, struct psti_loader_job *job, uint32_t row)
{
    struct psti_loader_bad *bad = psti_alloc(sizeof *bad);
    if (!bad) {
        psti_fail(&worker->err, PST_ERROR_MEMORY, "loader", "no memory to note a bad sample");
        return false;
    }
    bad->row = row;
    bad->err = worker->err;
    pthread_mutex_lock(worker->loader->lock);
    struct psti_loader_bad **at = &job->bads;
    while (*at && (*at)->row <= row)
        at = &(*at)->next;
    bad->next = *at;
    *at = bad;
    job->n_bad++;
    pthread_mutex_unlock(worker->loader->lock);
    return true;
}

/* Called before a row is made again, because its sample, or the replacement of its sample, may turn
 * out to be bad. Removes the row's entries from the list of bad samples, so that counts and tries
 * are as if this had been known at once. Returns the sample at the row's position. */
static uint64_t start_over(pst_loader *loader, struct psti_loader_job *job, uint32_t row)
{
    uint32_t n = 0;
    pthread_mutex_lock(loader->lock);
    for (struct psti_loader_bad **at = &job->bads; *at;) {
        struct psti_loader_bad *bad = *at;
        if (bad->row != row && bad->row != job->n_rows) {
            at = &bad->next;
            continue;
        }
        *at = bad->next;
        psti_free(bad);
        n++;
    }
    job->n_bad -= n;
    job->n_replaced -= n > 0;
    pthread_mutex_unlock(loader->lock);
    return psti_order_sample(loader->order, job->epoch, job->positions[row]);
}

static uint64_t replacement(const pst_loader *loader, uint64_t epoch, uint64_t position,
                            uint32_t attempt)
{
    uint32_t r[4];
    psti_random4(loader->options.seed, epoch, PSTI_RANDOM_REPLACE, position, attempt, 0, r);
    uint64_t random = ((uint64_t)r[1] << 32) | r[0];
    return psti_order_replacement(loader->order, epoch, position, random);
}

/* Extends worker->err, the error of the last sample tried, by the text that no replacement is
 * good. */
static void fail_no_replacement(struct psti_loader_worker *worker, uint64_t sample)
{
    char cause[PST_ERROR_TEXT_CAP];
    memcpy(cause, worker->err.text, sizeof cause);
    snprintf(worker->err.text, sizeof worker->err.text,
             "found no good replacement of sample %" PRIu64
             " after %d tries; the last one, sample %" PRId64 ": %.340s",
             sample, PSTI_LOADER_REPLACE_TRIES, worker->err.sample, cause);
}

/* Tries other samples for `position`, one after another, until one is good, and writes it to row
 * `row`. Bad samples are listed under row `noted`. After failure worker->err is the error of the
 * last sample, and its text says what was tried. */
static enum pst_status replace(struct psti_loader_worker *worker, struct psti_loader_job *job,
                               uint32_t row, uint64_t position, uint32_t noted)
{
    enum pst_status status = PST_ERROR_CORRUPT;
    uint64_t bad = psti_order_sample(worker->loader->order, job->epoch, position);
    for (uint32_t i = 0; i < PSTI_LOADER_REPLACE_TRIES; i++) {
        struct psti_draw_key key = psti_loader_row_key(
            worker->loader, job->epoch, replacement(worker->loader, job->epoch, position, i),
            psti_order_draw(worker->loader->order, position));
        status = psti_loader_row_make(worker, job->batch, row, &key, job->first_turn + row,
                                      &worker->err);
        if (status == PST_OK) /* the row's draw seeds the generator of the user's functions */
            psti_batch_draws(job->batch)[row] = key.draw;
        if (status == PST_OK || worker->starved || !is_samples_fault(worker, status))
            return status;
        if (i + 1 < PSTI_LOADER_REPLACE_TRIES && !note_bad(worker, job, noted))
            return PST_ERROR_MEMORY;
    }
    fail_no_replacement(worker, bad);
    return status;
}

enum pst_status psti_loader_job_replace_fetched(struct psti_loader_worker *worker, pst_batch *batch,
                                                uint32_t row, uint64_t epoch, uint64_t sample,
                                                enum pst_status status)
{
    pst_loader *loader = worker->loader;
    uint64_t n_bad = 0;
    while (status != PST_OK && !worker->starved && is_samples_fault(worker, status) &&
           n_bad <= PSTI_LOADER_REPLACE_TRIES) {
        psti_loader_quarantine_count(loader, &worker->err);
        if (n_bad == PSTI_LOADER_REPLACE_TRIES) {
            fail_no_replacement(worker, sample);
            return status;
        }
        uint64_t other = replacement(loader, epoch, sample, (uint32_t)n_bad++);
        const struct psti_draw_key key = psti_loader_row_key(loader, epoch, other, 0);
        status = psti_loader_row_make(worker, batch, row, &key, PSTI_LOADER_NO_TURN, &worker->err);
    }
    if (status == PST_OK) {
        pthread_mutex_lock(loader->lock);
        loader->meters.stats.n_replaced++;
        pthread_mutex_unlock(loader->lock);
    }
    return status;
}

/* Marks the row's sample as bad. True: another sample must fill the row, because it is the last row
 * of a batch that would be empty otherwise. Which row is the last depends on the threads, but the
 * caller cannot tell, because that row will be the batch's only one. */
static bool leave_out(pst_loader *loader, struct psti_loader_job *job, uint32_t row)
{
    pthread_mutex_lock(loader->lock);
    bool fill = job->n_bad_rows + 1 == job->n_rows && loader->options.on_empty == PST_ON_EMPTY_FILL;
    job->bad[row] = !fill;
    job->n_bad_rows += !fill;
    pthread_mutex_unlock(loader->lock);
    return fill;
}

void psti_loader_job_row_failed(struct psti_loader_worker *worker, struct psti_loader_job *job,
                                uint32_t row, enum pst_status status)
{
    pst_loader *loader = worker->loader;
    enum pst_on_error policy = loader->options.on_error;
    if (!worker->starved && policy != PST_ON_ERROR_RAISE && is_samples_fault(worker, status)) {
        if (!note_bad(worker, job, row)) {
            fail_job(worker, job, row);
            return;
        }
        bool skip = policy == PST_ON_ERROR_SKIP;
        if (skip && !leave_out(loader, job, row))
            return;
        uint64_t position = job->positions[skip ? 0 : row];
        status = replace(worker, job, row, position, skip ? job->n_rows : row);
        pthread_mutex_lock(loader->lock);
        job->n_replaced += status == PST_OK;
        pthread_mutex_unlock(loader->lock);
        if (status == PST_OK)
            return;
    }
    if (!worker->starved) {
        fail_job(worker, job, row);
        return;
    }
    pthread_mutex_lock(loader->lock);
    job->starved = true;
    pthread_mutex_unlock(loader->lock);
}

/* Tells the placement the state of the batch. No worker uses the finished job, so the caller's
 * thread may read its members. */
static void tell(struct psti_remake *remake)
{
    const struct psti_loader_job *job = remake->job;
    remake->n_wanted = remake->n_rows;
    if (!job)
        return;
    /* A failed job reports its lowest row that failed, so the rows after that one are not
     * needed. */
    if (job->failed && job->failed_row < remake->n_rows)
        remake->n_wanted = job->failed_row;
    remake->bad = job->n_bad_rows ? job->bad : NULL;
    remake->failed = job->failed;
    remake->starved = job->starved;
}

static enum pst_status remake_row(struct psti_remake *remake, uint32_t row, struct pst_error *err)
{
    struct psti_loader_worker *worker = remake->worker;
    struct psti_loader_job *job = remake->job;
    uint64_t sample = (uint64_t)psti_batch_indices(remake->batch)[row];
    struct psti_draw_key key = psti_loader_row_key(worker->loader, remake->epoch, sample, 0);
    if (job) {
        key = psti_loader_job_key(worker->loader, job, row);
        key.sample = start_over(worker->loader, job, row);
    }
    uint64_t turn = job ? job->first_turn + row : PSTI_LOADER_NO_TURN;
    enum pst_status status =
        psti_loader_row_make(worker, remake->batch, row, &key, turn, &worker->err);
    if (status != PST_OK && job) {
        psti_loader_job_row_failed(worker, job, row, status);
        status = PST_OK;
    } else if (status != PST_OK && err) {
        *err = worker->err;
    }
    tell(remake);
    return status;
}

enum pst_status psti_loader_job_finish(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint64_t epoch, uint32_t n_rows, struct psti_loader_job *job,
                                       struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_remake remake = {.batch = batch,
                                 .n_rows = n_rows,
                                 .make = remake_row,
                                 .worker = worker,
                                 .epoch = epoch,
                                 .job = job};
    int64_t start = psti_clock_ns();
    tell(&remake);
    enum pst_status status = loader->placement.ops->finish(loader, &remake, err);
    psti_loader_worker_count(worker, start);
    return status;
}

bool psti_loader_job_lacks_memory(enum pst_status status, const struct pst_error *err)
{
    return status == PST_ERROR_LIMIT && came_from(err, "device");
}

/* Closes a batch whose rows are all made or have failed. This thread brought n_left to 0, so no
 * other thread uses the job until its state is WHOLE. */
static enum pst_status close_batch(pst_loader *loader, struct psti_loader_job *job, bool *whole,
                                   struct pst_error *err)
{
    const uint8_t *bad = job->n_bad_rows ? job->bad : NULL;
    *whole = true;
    if (job->starved)
        return PST_OK;
    return loader->placement.ops->submit(loader, job->batch, job->n_rows, bad, job->failed, whole,
                                         err);
}

void psti_loader_job_rows_done(struct psti_loader_worker *worker, struct psti_loader_job *job,
                               uint32_t n)
{
    pst_loader *loader = worker->loader;
    struct pst_error err;
    bool whole;
    job->n_left -= n;
    if (job->n_left > 0)
        return;
    pthread_mutex_unlock(loader->lock);
    worker->meter.step = job->step;
    worker->meter.sample = UINT64_MAX;
    int64_t since = psti_stall_meter_enter(&worker->meter, PSTI_METER_SUBMIT);
    enum pst_status status = close_batch(loader, job, &whole, &err);
    if (status == PST_OK && whole)
        psti_loader_complete_job(loader, job);
    psti_stall_meter_leave(&worker->meter, PSTI_METER_SUBMIT, since);
    pthread_mutex_lock(loader->lock);
    psti_loader_meter_tick(loader);
    job->whole_ns = psti_clock_ns();
    if (!job->failed && psti_loader_job_lacks_memory(status, &err)) {
        job->starved = whole = true;
    } else if (status != PST_OK && !job->failed) { /* if a row has failed, that error is kept */
        job->failed = true;
        job->failed_row = job->n_rows;
        job->failure = err;
        whole = true;
    }
    job->settled = whole;
    job->state = PSTI_LOADER_JOB_WHOLE;
    psti_loader_forms_correct(loader);
    pthread_cond_broadcast(&loader->done);
    if (loader->kept.later) /* workers that wait may now re-code items of the cache */
        pthread_cond_broadcast(loader->work);
}
