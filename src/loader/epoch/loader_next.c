/* loader_next.c - delivers batches in order.
 *
 * All functions run in the caller's thread. The caller sees jobs in the order of their steps. Bad
 * samples are counted when their batch is delivered, in row order. So counts, quarantine and errors
 * are the same in every run. */
#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_meter.h"
#include "loader/epoch/loader_pump.h"
#include "loader/epoch/loader_quarantine.h"
#include "loader/epoch/loader_run.h"
#include "loader/epoch/loader_share.h"
#include "loader/tiers/loader_pages.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_usable.h"
#include "loader/loader_worker.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>

/* Counts the bad samples of the job that is delivered now. False: this epoch has more than
 * max_errors. */
static bool account(pst_loader *loader, struct psti_loader_job *job)
{
    uint64_t max = loader->options.max_errors;
    struct pst_loader_stats *stats = &loader->meters.stats;
    uint64_t n = psti_order_n(loader->order);
    const struct pst_error *last = NULL;
    for (const struct psti_loader_bad *bad = job->bads; bad; bad = bad->next) {
        psti_loader_quarantine_add(loader, &bad->err);
        last = &bad->err;
    }
    stats->n_bad += job->n_bad;
    stats->n_replaced += job->n_replaced;
    stats->n_boxes_dropped += job->n_boxes_dropped;
    if (job->n_unpaired)
        psti_loader_fell_back(loader, PST_FALLBACK_PAIRS, job->n_unpaired);
    loader->epoch.n_bad += job->n_bad;
    for (uint32_t i = job->n_rows; i-- > 0 && job->positions[i] >= n;)
        stats->n_padded++;
    if (last && loader->epoch.n_good == 0)
        loader->epoch.last_bad = *last;
    if (!last || !max || loader->epoch.n_bad <= max)
        return true;
    /* The error keeps the location and the text of the last bad sample. */
    loader->epoch.failure = *last;
    loader->epoch.failure.status = PST_ERROR_LIMIT;
    snprintf(loader->epoch.failure.text, sizeof loader->epoch.failure.text,
             "%" PRIu64 " bad samples in this epoch are more than max_errors %" PRIu64
             "; the last one: %s: %.340s",
             loader->epoch.n_bad, max, pst_status_text(last->status), last->text);
    return false;
}

static enum pst_status fail_for_good(pst_loader *loader, const struct pst_error *failure,
                                     struct pst_error *err)
{
    if (failure)
        loader->epoch.failure = *failure;
    loader->epoch.failed = true;
    psti_loader_run_cancel(loader); /* drop batches prepared after the failed one */
    if (err)
        *err = loader->epoch.failure;
    return loader->epoch.failure.status;
}

static enum pst_status fail_held(pst_loader *loader, struct pst_error *err)
{
    struct psti_batch_pool_stats stats;
    struct pst_error cause;
    psti_batch_pool_stats(loader->pool, &stats);
    if (loader->placement.ops->refused(loader, &stats, &cause)) {
        if (err)
            *err = cause;
        return cause.status;
    }
    if (loader->queue.claim_status == PST_ERROR_MEMORY)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a batch");
    return psti_fail(err, PST_ERROR_LIMIT, "loader",
                     "host_memory (%" PRIu64 " bytes) holds no other batch: you hold %u of %u; "
                     "release some (del them, or keep copies or clone()s of the arrays you need), "
                     "or raise host_memory",
                     stats.limit, stats.n_held + stats.n_others, stats.n_slots + stats.n_others);
}

/* Handles a job whose rows of different sizes found no memory. Frees the memory of other batches,
 * then the memory of decoded pages. If there is none to free, the caller holds the memory, or the
 * limit is too low. PST_OK: try again. */
static enum pst_status starved(pst_loader *loader, struct pst_error *err)
{
    struct psti_batch_pool_stats stats;
    uint64_t step = loader->epoch.next_step;
    psti_loader_run_cancel(loader);
    psti_batch_pool_trim(loader->pool, 1);
    psti_batch_pool_stats(loader->pool, &stats);
    if (loader->epoch.ahead > 1) {
        loader->epoch.ahead = 1;
        psti_loader_fell_back(loader, PST_FALLBACK_AHEAD, 1);
        psti_loader_run_start(loader, step);
        return PST_OK;
    }
    if (psti_loader_pages_shrink(loader)) {
        psti_loader_run_start(loader, step);
        return PST_OK;
    }
    loader->epoch.next_step = step;
    loader->epoch.parked = true; /* the loader is restarted by the next call */
    if (stats.n_held + stats.n_others || loader->placement.ops->refused(loader, &stats, NULL))
        return fail_held(loader, err);
    return psti_fail(err, PST_ERROR_LIMIT, "loader",
                     "host_memory (%" PRIu64 " bytes) does not hold one batch of %u rows of these "
                     "sizes: raise it, or lower batch_size",
                     stats.limit, loader->options.batch_size);
}

static void move_on(pst_loader *loader, struct psti_loader_job *job)
{
    uint64_t stride = (uint64_t)loader->options.batch_size * loader->epoch.ranks.world_size;
    job->batch = NULL;
    job->state = PSTI_LOADER_JOB_EMPTY;
    psti_loader_job_clear_bads(job);
    loader->epoch.next_step++;
    uint64_t n_delivered = loader->epoch.next_step - loader->epoch.first_step;
    loader->epoch.state.position = loader->epoch.start + n_delivered * stride;
    if (n_delivered == loader->epoch.n_steps) {
        loader->epoch.state.epoch = loader->epoch.number + 1;
        loader->epoch.state.position = 0;
    }
    pthread_cond_signal(loader->work);
}

/* Counts the rows of a batch by the source of the mixture that each row comes from. */
static void count_sources(pst_loader *loader, pst_batch *batch)
{
    const int64_t *indices = psti_batch_indices(batch);
    uint32_t n = pst_batch_count(batch), i_source;
    for (uint32_t i = 0; loader->meters.source_rows && i < n; i++)
        if (pst_dataset_source_of(loader->dataset, (uint64_t)indices[i], &i_source, NULL, NULL) ==
            PST_OK)
            loader->meters.source_rows[i_source]++;
}

/* Delivers the finished job that is next in order. PST_OK with *out NULL: try again. */
static enum pst_status deliver(pst_loader *loader, struct psti_loader_job *job, pst_batch **out,
                               struct pst_error *err)
{
    if (job->starved)
        return starved(loader, err);
    bool good = account(loader, job);
    if (job->failed)
        return fail_for_good(loader, &job->failure, err);
    if (!good)
        return fail_for_good(loader, NULL, err);
    pst_batch *batch = job->batch;
    psti_batch_pool_hand_out(batch);
    loader->meters.ready_wait_ns += (uint64_t)(psti_clock_ns() - job->whole_ns);
    loader->meters.stats.n_batches++;
    loader->meters.stats.n_samples += pst_batch_count(batch);
    loader->epoch.n_good += pst_batch_count(batch);
    count_sources(loader, batch);
    *out = batch;
    move_on(loader, job);
    psti_loader_share_delivered(loader);
    return PST_OK;
}

/* Starts the next job. This thread pumps meanwhile. */
static bool start_next(pst_loader *loader)
{
    loader->queue.pumping = true;
    bool started = psti_loader_pump_start_job(loader);
    loader->queue.pumping = false;
    return started;
}

/* Frees the memory of decoded pages. Rows that were read ahead, before their batches have slots,
 * may point into pages. If no other page is left, these rows are dropped, too, and are read again
 * later. False: there was nothing to free. */
static bool free_pages(pst_loader *loader)
{
    if (psti_loader_pages_shrink(loader))
        return true;
    if (!psti_loader_pages_are_used(loader))
        return false;
    psti_loader_run_cancel(loader);
    psti_loader_pages_shrink(loader);
    psti_loader_run_start(loader, loader->epoch.next_step);
    return true;
}

/* Gets a slot for the job that is delivered next, unless another thread is pumping. No job is under
 * way then. */
static enum pst_status start_here(pst_loader *loader, struct pst_error *err)
{
    if (loader->queue.pumping)
        return PST_OK;
    bool started = start_next(loader);
    while (!started && loader->queue.claim_status == PST_ERROR_LIMIT && free_pages(loader))
        started = start_next(loader);
    pthread_cond_signal(
        loader->work); /* rows can be looked up now, or work arrived while no other thread pumped */
    if (started)
        return PST_OK;
    return fail_held(loader, err);
}

/* Waits for the placement's work on a job and has rows made again that it could not make. PST_OK:
 * check the job's state again. */
static enum pst_status settle(pst_loader *loader, struct psti_loader_job *job, int64_t deadline,
                              struct pst_error *err)
{
    struct pst_error cause;
    int64_t start = psti_clock_ns();
    psti_loader_meter_tick(loader);
    loader->meters.stall.settles = true;
    pthread_mutex_unlock(loader->lock);
    enum pst_status status = loader->placement.ops->wait(loader, job->batch, deadline, &cause);
    if (status == PST_OK)
        status = psti_loader_job_finish(&loader->crew.repairer, job->batch, job->epoch, job->n_rows,
                                        job, &cause);
    pthread_mutex_lock(loader->lock);
    psti_loader_meter_tick(loader);
    loader->meters.stall.settles = false;
    loader->meters.upload_wait_ns += (uint64_t)(psti_clock_ns() - start);
    psti_loader_worker_merge(&loader->crew.repairer);
    job->starved |= psti_loader_job_lacks_memory(status, &cause);
    if (status == PST_OK || job->starved) {
        job->settled = true;
        return PST_OK;
    }
    if (status != PST_ERROR_BUSY)
        return fail_for_good(loader, &cause, err);
    if (err)
        *err = cause;
    return status;
}

/* Mixes and collates a job that no worker of this loader has closed. */
static void complete(pst_loader *loader, struct psti_loader_job *job)
{
    pthread_mutex_unlock(loader->lock);
    psti_loader_complete_job(loader, job);
    pthread_mutex_lock(loader->lock);
}

static enum pst_status fail_busy(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_BUSY, "loader", "the batch is not whole yet");
}

/* Brings the job forward: takes it from the group, starts it, fills a row or waits. PST_OK: check
 * the job's state again. */
static enum pst_status advance(pst_loader *loader, struct psti_loader_job *job, int64_t deadline,
                               struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (psti_loader_share_takes(loader)) {
        status = psti_loader_share_take(loader, job, deadline, err);
        return status == PST_ERROR_LIMIT ? fail_held(loader, err) : status;
    }
    if (job->state < PSTI_LOADER_JOB_RUNNING)
        status = start_here(loader, err);
    if (status != PST_OK || job->state == PSTI_LOADER_JOB_WHOLE)
        return status;
    if (loader->options.num_workers == 0)
        psti_loader_run_row_here(loader, job, deadline);
    else if (deadline == INT64_MAX)
        pthread_cond_wait(&loader->done, loader->lock);
    else
        psti_cond_wait_until(&loader->done, loader->lock, deadline);
    if (job->state != PSTI_LOADER_JOB_WHOLE && deadline != INT64_MAX && psti_clock_ns() >= deadline)
        return fail_busy(err);
    return PST_OK;
}

/* Returns PST_END, or an error if the whole epoch had only empty batches. */
static enum pst_status end_epoch(pst_loader *loader, struct pst_error *err)
{
    psti_loader_share_end(loader);
    loader->epoch.ended = true;
    loader->epoch.state.epoch =
        loader->epoch.number + 1; /* set in any case, also if the epoch had no batch */
    loader->epoch.state.position = 0;
    if (loader->epoch.start > 0 || loader->epoch.n_good > 0 || loader->epoch.n_bad == 0)
        return PST_END;
    struct pst_error failure = loader->epoch.last_bad;
    snprintf(failure.text, sizeof failure.text,
             "all %" PRIu64 " samples of this rank's epoch are bad; the last one: %.400s",
             loader->epoch.n_bad, loader->epoch.last_bad.text);
    return fail_for_good(loader, &failure, err);
}

static enum pst_status next_batch(pst_loader *loader, int64_t deadline, pst_batch **out,
                                  struct pst_error *err)
{
    if (!loader->epoch.begun && !loader->epoch.broken)
        return psti_fail(err, PST_ERROR_STATE, "loader",
                         "no epoch has begun: call pst_loader_begin or pst_loader_resume");
    if (loader->epoch.failed) {
        if (err)
            *err = loader->epoch.failure;
        return loader->epoch.failure.status;
    }
    struct psti_batch_pool_stats pool;
    psti_batch_pool_stats(loader->pool, &pool);
    loader->epoch.n_kept = pool.n_held;
    if (loader->epoch.parked && !psti_loader_share_takes(loader))
        psti_loader_run_start(loader, loader->epoch.next_step);
    enum pst_status status = PST_OK;
    while (status == PST_OK && !*out) {
        if (loader->epoch.next_step >= psti_loader_epoch_end(&loader->epoch)) {
            pthread_mutex_unlock(loader->lock);
            bool settled = psti_loader_tiers_settle(loader, deadline);
            pthread_mutex_lock(loader->lock);
            return settled ? end_epoch(loader, err) : fail_busy(err);
        }
        struct psti_loader_job *job =
            &loader->queue.ring[loader->epoch.next_step % loader->queue.n_jobs];
        /* An unfinished job belongs to the thread that starts or fills it. */
        if (job->state != PSTI_LOADER_JOB_WHOLE)
            status = advance(loader, job, deadline, err);
        else if (!job->settled)
            status = settle(loader, job, deadline, err);
        else if (!job->mixed)
            complete(loader, job);
        else
            status = deliver(loader, job, out, err);
    }
    return status;
}

enum pst_status pst_loader_next_timed(pst_loader *loader, int64_t timeout_ns, pst_batch **out,
                                      struct pst_error *err)
{
    int64_t start = psti_clock_ns(), deadline;
    *out = NULL;
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    if (timeout_ns < 0)
        timeout_ns = 0;
    if (__builtin_add_overflow(start, timeout_ns, &deadline))
        deadline = INT64_MAX;
    pthread_mutex_lock(loader->lock);
    psti_loader_meter_ask(loader, start);
    enum pst_status status = next_batch(loader, deadline, out, err);
    psti_loader_meter_answer(loader, status);
    loader->meters.stats.caller_wait_ns += (uint64_t)(psti_clock_ns() - start);
    pthread_mutex_unlock(loader->lock);
    return status;
}

enum pst_status pst_loader_next(pst_loader *loader, pst_batch **out, struct pst_error *err)
{
    return pst_loader_next_timed(loader, INT64_MAX, out, err);
}
