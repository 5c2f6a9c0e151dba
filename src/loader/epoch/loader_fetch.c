/* loader_fetch.c - makes batches in the calling thread, independent of the running epoch: map-style
 * access and replay.
 *
 * The fetcher is a separate worker, created at first use. It shares only the files, the batch pool
 * and the memory budget with the other workers. */
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_mix.h"
#include "loader/rows/loader_row.h"
#include "loader/loader_usable.h"
#include "loader/loader_worker.h"

#include "base/clock.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

static enum pst_status open_fetcher(pst_loader *loader, struct pst_error *err)
{
    if (loader->crew.fetcher_is_open)
        return PST_OK;
    enum pst_status status = psti_loader_check_broken(loader, err);
    if (status == PST_OK)
        status = psti_loader_job_open(&loader->crew.fetch_job, loader->options.batch_size, err);
    if (status == PST_OK)
        status = psti_loader_worker_open(&loader->crew.fetcher, loader, err);
    if (status != PST_OK)
        psti_loader_job_close(&loader->crew.fetch_job);
    loader->crew.fetcher_is_open = status == PST_OK;
    return status;
}

static enum pst_status claim(pst_loader *loader, size_t n_rows, pst_batch **batch,
                             struct pst_error *err)
{
    struct psti_batch_pool_stats stats;
    pthread_mutex_lock(loader->lock);
    enum pst_status status = loader->placement.ops->claim(loader, (uint32_t)n_rows, batch);
    if (status == PST_ERROR_LIMIT) {
        psti_batch_pool_trim(loader->pool, 1);
        status = loader->placement.ops->claim(loader, (uint32_t)n_rows, batch);
    }
    psti_batch_pool_stats(loader->pool, &stats);
    bool refused = status != PST_OK && loader->placement.ops->refused(loader, &stats, err);
    pthread_mutex_unlock(loader->lock);
    if (refused)
        return status;
    if (status == PST_ERROR_LIMIT)
        return psti_fail(err, status, "loader",
                         "host_memory (%" PRIu64 " bytes) has no room for a batch of %zu rows: "
                         "%u batches exist, you hold %u",
                         stats.limit, n_rows, stats.n_slots, stats.n_held);
    if (status != PST_OK)
        return psti_fail(err, status, "loader", "no memory for a batch of %zu rows", n_rows);
    return PST_OK;
}

/* Finishes a batch made in this thread. After success the caller owns it; after failure its slot is
 * put back. */
static enum pst_status finish(pst_loader *loader, enum pst_status status, pst_batch *batch,
                              pst_batch **out)
{
    if (status != PST_OK)
        loader->placement.ops->quiesce(loader, batch);
    pthread_mutex_lock(loader->lock);
    psti_loader_worker_merge(&loader->crew.fetcher);
    if (status == PST_OK) {
        psti_batch_pool_hand_out(batch);
        *out = batch;
    } else {
        psti_batch_pool_put_back(batch);
    }
    pthread_mutex_unlock(loader->lock);
    return status;
}

/* Frees the slots that nobody uses, so that a batch that found no memory may try again. */
static void free_slots(pst_loader *loader)
{
    pthread_mutex_lock(loader->lock);
    psti_batch_pool_trim(loader->pool, 0);
    pthread_mutex_unlock(loader->lock);
}

/* Closes a batch whose rows are all made or bad: collates it and brings it to its placement.
 * finish() then hands it out. */
static enum pst_status close_batch(pst_loader *loader, pst_batch *batch, uint64_t epoch,
                                   uint32_t n_rows, struct psti_loader_job *job,
                                   struct pst_error *err)
{
    const struct psti_placement_ops *ops = loader->placement.ops;
    const uint8_t *bad = job && job->n_bad_rows ? job->bad : NULL;
    bool whole;
    struct pst_error cause = {0};
    enum pst_status status =
        ops->submit(loader, batch, n_rows, bad, job && job->failed, &whole, &cause);
    if (psti_loader_job_lacks_memory(status, &cause)) {
        free_slots(loader);
        status = ops->submit(loader, batch, n_rows, bad, job && job->failed, &whole, &cause);
    }
    if (status != PST_OK && err)
        *err = cause;
    if (status != PST_OK || whole)
        return status;
    status = ops->wait(loader, batch, INT64_MAX, err);
    return status == PST_OK
               ? psti_loader_job_finish(&loader->crew.fetcher, batch, epoch, n_rows, job, err)
               : status;
}

/* Collates a batch. If there is no memory, frees unused slots and tries again. */
static enum pst_status collate(pst_loader *loader, pst_batch *batch, struct pst_error *err)
{
    struct pst_error cause;
    enum pst_status status = psti_loader_collate(loader, batch, &cause);
    if (status == PST_ERROR_LIMIT) {
        free_slots(loader);
        status = psti_loader_collate(loader, batch, &cause);
    }
    if (status == PST_OK)
        return PST_OK;
    if (err)
        *err = cause;
    return cause.status; /* PST_ERROR_MEMORY, where it was memory of the GPU */
}

static enum pst_status ask(const pst_loader *loader, struct pst_error *err)
{
    if (loader->interrupt == NULL || loader->interrupt(loader->interrupt_ctx) == 0)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CANCELLED, "loader",
                     "the caller's interrupt function ended the call");
}

enum pst_status pst_loader_fetch(pst_loader *loader, uint64_t epoch, const uint64_t *samples,
                                 size_t n, pst_batch **out, struct pst_error *err)
{
    *out = NULL;
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    uint64_t n_samples = pst_dataset_count(loader->dataset);
    if (n == 0 || n > UINT32_MAX / 2 || !samples)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "%zu samples cannot be fetched", n);
    for (size_t i = 0; i < n; i++)
        if (samples[i] >= n_samples)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "there is no sample %" PRIu64 ": the data set has %" PRIu64,
                             samples[i], n_samples);
    pst_batch *batch;
    enum pst_status status = open_fetcher(loader, err);
    if (status == PST_OK)
        status = claim(loader, n, &batch, err);
    if (status != PST_OK)
        return status;
    struct psti_loader_worker *worker = &loader->crew.fetcher;
    int64_t start = psti_clock_ns();
    psti_batch_set_place(batch, epoch, 0);
    memset(psti_batch_draws(batch), 0, n * sizeof(uint64_t));
    loader->placement.ops->begin(loader, batch, 0, (uint32_t)n);
    for (size_t i = 0; status == PST_OK && i < n; i++) {
        const struct psti_draw_key key = psti_loader_row_key(loader, epoch, samples[i], 0);
        status = ask(loader, err);
        if (status != PST_OK)
            break;
        status = psti_loader_row_make(worker, batch, (uint32_t)i, &key, PSTI_LOADER_NO_TURN,
                                      &worker->err);
        if (status != PST_OK && loader->options.on_error == PST_ON_ERROR_REPLACE)
            status = psti_loader_job_replace_fetched(worker, batch, (uint32_t)i, epoch, samples[i],
                                                     status);
        if (status != PST_OK && err)
            *err = worker->err;
    }
    psti_loader_worker_count(&loader->crew.fetcher, start);
    if (status == PST_OK)
        status = close_batch(loader, batch, epoch, (uint32_t)n, NULL, err);
    if (status == PST_OK)
        status = collate(loader, batch, err);
    return finish(loader, status, batch, out);
}

/* Makes all rows of the job. on_error decides what happens to bad samples. */
static enum pst_status make_rows(pst_loader *loader, struct psti_loader_job *job,
                                 struct pst_error *err)
{
    struct psti_loader_worker *worker = &loader->crew.fetcher;
    enum pst_status status = PST_OK;
    int64_t start = psti_clock_ns();
    for (uint32_t row = 0; row < job->n_rows && !job->failed && !job->starved; row++) {
        const struct psti_draw_key key = psti_loader_job_key(loader, job, row);
        status = ask(loader, err);
        if (status != PST_OK)
            break;
        enum pst_status made = psti_loader_row_make(worker, job->batch, row, &key,
                                                    job->first_turn + row, &worker->err);
        if (made != PST_OK)
            psti_loader_job_row_failed(worker, job, row, made);
    }
    psti_loader_worker_count(worker, start);
    if (status != PST_OK)
        return status;
    if (!job->starved)
        status = close_batch(loader, job->batch, job->epoch, job->n_rows, job, err);
    if (status != PST_OK)
        return status;
    if (job->failed || job->starved) {
        if (err)
            *err = job->failed ? job->failure : worker->err;
        return job->failed ? job->failure.status : PST_ERROR_LIMIT;
    }
    return PST_OK;
}

enum pst_status pst_loader_replay(pst_loader *loader, uint64_t epoch, uint64_t step,
                                  pst_batch **out, struct pst_error *err)
{
    *out = NULL;
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    enum pst_status status = open_fetcher(loader, err);
    if (status != PST_OK)
        return status;
    /* After a resume the epoch may have begun at a position where no batch of a whole epoch
     * begins. */
    struct psti_loader_job *job = &loader->crew.fetch_job;
    pthread_mutex_lock(loader->lock);
    bool here =
        loader->epoch.begun && epoch == loader->epoch.number && step >= loader->epoch.step_base;
    uint64_t start = here ? loader->epoch.start : 0, base = here ? loader->epoch.step_base : 0;
    struct psti_ranks ranks = here ? loader->epoch.ranks : loader->epoch.next_ranks;
    pthread_mutex_unlock(loader->lock);
    if (step - base >= psti_order_n_batches(loader->order, ranks, start))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "step %" PRIu64 " is beyond the epoch's last batch", step);
    status = claim(loader, loader->options.batch_size, &job->batch, err);
    if (status != PST_OK)
        return status;
    psti_loader_job_set(loader, job, ranks, epoch, start, step - base, step);
    status = make_rows(loader, job, err);
    if (status == PST_OK) {
        psti_loader_complete_job(loader, job);
        status = job->failed ? job->failure.status : job->starved ? PST_ERROR_LIMIT : PST_OK;
        if (status != PST_OK && err)
            *err = job->failure;
    }
    psti_loader_job_clear_bads(job);
    pst_batch *batch = job->batch;
    job->batch = NULL;
    return finish(loader, status, batch, out);
}
