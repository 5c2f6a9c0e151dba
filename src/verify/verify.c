/* verify.c - pst_verify: reads all of a data set or folder and reports everything that is wrong.
 *
 * The calling thread gives jobs to workers (first each shard, then runs of samples), takes them
 * back in order and calls the callbacks. So findings come in the same order with any number of
 * workers. The number of jobs at a time is limited, which limits memory: one buffer per worker, and
 * the findings of these jobs. */
#include "verify/verify_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/options.h"
#include "base/queue.h"
#include "base/thread.h"
#include "dataset/dataset.h"
#include "format/format_dataset.h"

#include <string.h>

#define MAX_WORKERS 256u
#define PROGRESS_NS INT64_C(100000000)

struct verify {
    const struct pst_verify_options *options;
    struct psti_verify_context context;
    struct pst_verify_report report;
    struct pst_error first; /* the first finding; status OK if there is none */
    uint32_t n_shards;
    uint64_t n_samples, n_jobs, n_dispatched, n_taken;
    uint64_t n_passed;            /* number of samples whose jobs are done, whichever part they are
                                   * in */
    struct psti_verify_job *jobs; /* [window], a ring */
    uint32_t window;
    struct psti_queue queue;
    pthread_mutex_t lock;
    pthread_cond_t finished;
    pthread_t threads[MAX_WORKERS];
    uint32_t n_threads;
    struct psti_decoder *decoders[MAX_WORKERS];
    struct psti_buffer blobs[MAX_WORKERS];
    struct psti_pli_keep jpegs[MAX_WORKERS];
    uint32_t n_claimed; /* decoders assigned to threads, guarded by lock */
    uint64_t nbytes_shards;
    int64_t next_progress_ns;
    /* Findings about items that came from shards. A finding about the sample replaces one of these.
     */
    struct pst_error *held;
    size_t n_held;
    uint64_t largest_item[PST_MAX_FIELDS], largest_pixels[PST_MAX_FIELDS]; /* bytes */
};

static void worker(void *arg)
{
    struct verify *verify = arg;
    struct psti_verify_job *job;
    pthread_mutex_lock(&verify->lock);
    uint32_t me = verify->n_claimed++;
    pthread_mutex_unlock(&verify->lock);
    while ((job = psti_queue_pop(&verify->queue)) != NULL) {
        if (job->kind == PSTI_VERIFY_SHARD)
            psti_verify_shard(&verify->context, job);
        else
            psti_verify_samples(&verify->context, verify->decoders[me], &verify->jpegs[me],
                                &verify->blobs[me], job);
        pthread_mutex_lock(&verify->lock);
        job->done = true;
        pthread_cond_signal(&verify->finished);
        pthread_mutex_unlock(&verify->lock);
    }
}

/* Returns the number of finished samples for the progress display. Reading the shards is most of
 * the work unless pixels are decoded. */
static uint64_t n_done(const struct verify *verify)
{
    if (verify->n_shards > 0 && !verify->context.decode && verify->n_taken <= verify->n_shards)
        return verify->n_samples * verify->n_taken / verify->n_shards;
    return verify->context.decode || verify->n_shards == 0 ? verify->n_passed : verify->n_samples;
}

static enum pst_status progress(struct verify *verify, bool now, struct pst_error *err)
{
    int64_t ns = psti_clock_ns();
    if (verify->options->progress == NULL || (!now && ns < verify->next_progress_ns))
        return PST_OK;
    verify->next_progress_ns = ns + PROGRESS_NS;
    struct pst_progress p = {.n_done = n_done(verify),
                             .n_total = verify->n_samples,
                             .nbytes_in = verify->nbytes_shards + verify->report.nbytes};
    if (verify->options->progress(verify->options->ctx, &p) == 0)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CANCELLED, "verify", "cancelled");
}

/* Reports one finding. A result other than PST_OK ends the run. */
static enum pst_status report(struct verify *verify, const char *name,
                              const struct pst_error *finding, struct pst_error *err)
{
    const struct pst_verify_options *options = verify->options;
    verify->report.n_bad++;
    if (verify->first.status == PST_OK)
        verify->first = *finding;
    if (options->bad_sample != NULL && options->bad_sample(options->ctx, name, finding) == 0)
        return PST_OK;
    if (err != NULL)
        *err = *finding;
    return finding->status;
}

/* A damaged item is found twice: when its shard is read record by record, and with its sample,
 * which gives a better message. The shard's finding is kept until the end, and reported only if the
 * sample has none. */
static enum pst_status hold(struct verify *verify, const struct pst_error *finding,
                            struct pst_error *err)
{
    struct pst_error *grown =
        psti_realloc(verify->held, (verify->n_held + 1) * sizeof *verify->held);
    if (grown == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "verify", "out of memory for findings");
    verify->held = grown;
    verify->held[verify->n_held++] = *finding;
    return PST_OK;
}

static void settle(struct verify *verify, const struct pst_error *finding)
{
    for (size_t i = 0; i < verify->n_held; i++)
        if (verify->held[i].sample == finding->sample) {
            verify->held[i] = verify->held[--verify->n_held];
            return;
        }
}

/* Starts jobs. Samples wait until all shards are read, because their jobs skip items of good
 * shards. */
static void dispatch(struct verify *verify)
{
    while (verify->n_dispatched < verify->n_jobs &&
           verify->n_dispatched - verify->n_taken < verify->window &&
           (verify->n_dispatched < verify->n_shards || verify->n_taken >= verify->n_shards)) {
        struct psti_verify_job *job = &verify->jobs[verify->n_dispatched % verify->window];
        struct psti_verify_finding *findings = job->findings;
        size_t capacity = job->capacity;
        memset(job, 0, sizeof *job);
        job->findings = findings;
        job->capacity = capacity;
        if (verify->n_dispatched < verify->n_shards) {
            job->kind = PSTI_VERIFY_SHARD;
            job->i_shard = (uint32_t)verify->n_dispatched;
        } else {
            job->kind = PSTI_VERIFY_SAMPLES;
            uint64_t left;
            job->first = (verify->n_dispatched - verify->n_shards) * PSTI_VERIFY_RUN_COUNT;
            left = verify->n_samples - job->first;
            job->n = left < PSTI_VERIFY_RUN_COUNT ? left : PSTI_VERIFY_RUN_COUNT;
        }
        verify->n_dispatched++;
        psti_queue_push(&verify->queue, job);
    }
}

static enum pst_status wait_for(struct verify *verify, struct psti_verify_job *job,
                                struct pst_error *err)
{
    enum pst_status status = PST_OK;
    pthread_mutex_lock(&verify->lock);
    while (!job->done && status == PST_OK) {
        psti_cond_wait_until(&verify->finished, &verify->lock, psti_clock_ns() + PROGRESS_NS);
        if (job->done)
            break;
        pthread_mutex_unlock(&verify->lock);
        status = progress(verify, false, err);
        pthread_mutex_lock(&verify->lock);
    }
    pthread_mutex_unlock(&verify->lock);
    return status;
}

static enum pst_status take(struct verify *verify, struct psti_verify_job *job,
                            struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (job->kind == PSTI_VERIFY_SHARD) {
        verify->context.shard_bad[job->i_shard] = job->shard_bad;
        /* Counts the shard's file once; its items are counted with the samples. */
        verify->nbytes_shards += job->nbytes;
    } else {
        verify->n_passed += job->n;
        verify->report.n_samples += job->n_samples;
        verify->report.n_items += job->n_items;
        verify->report.nbytes += job->nbytes;
        for (uint32_t f = 0; f < PST_MAX_FIELDS; f++) {
            if (job->largest_item[f] > verify->largest_item[f])
                verify->largest_item[f] = job->largest_item[f];
            if (job->largest_pixels[f] > verify->largest_pixels[f])
                verify->largest_pixels[f] = job->largest_pixels[f];
        }
    }
    for (size_t i = 0; status == PST_OK && i < job->n_findings; i++) {
        const struct psti_verify_finding *finding = &job->findings[i];
        if (job->kind == PSTI_VERIFY_SHARD && finding->err.sample >= 0 &&
            finding->err.status == PST_ERROR_CHECKSUM) {
            status = hold(verify, &finding->err, err);
            continue;
        }
        settle(verify, &finding->err);
        char name[PST_NAME_CAP] = "";
        if (finding->sample < 0 ||
            pst_dataset_sample_name(verify->context.dataset, (uint64_t)finding->sample, name,
                                    NULL) != PST_OK)
            name[0] = '\0';
        status = report(verify, name, &finding->err, err);
    }
    if (status == PST_OK && job->fatal != PST_OK) {
        if (err != NULL)
            *err = job->fatal_err;
        status = job->fatal;
    }
    return status;
}

/* Compares the largest item and image of each field with the index, because loaders allocate memory
 * by these numbers. A part may hold smaller ones than the index states; bits of the report say so.
 */
static enum pst_status check_largest(struct verify *verify, struct pst_error *err)
{
    const pst_dataset *dataset = verify->context.dataset;
    struct pst_error finding;
    enum pst_status status = PST_OK;
    for (uint32_t f = 0; status == PST_OK && f < pst_dataset_n_fields(dataset); f++) {
        uint64_t item = pst_dataset_max_item_nbytes(dataset, f);
        uint64_t pixels = pst_dataset_max_pixels_nbytes(dataset, f);
        bool is_less = verify->largest_item[f] <= item && verify->largest_pixels[f] <= pixels;
        if (!psti_format_has_items(pst_dataset_field(dataset, f)->type) ||
            (item == verify->largest_item[f] && pixels == verify->largest_pixels[f]))
            continue;
        if (is_less && verify->context.n_parts > 1) {
            verify->report.unreached_items |= (uint64_t)(item > verify->largest_item[f]) << f;
            verify->report.unreached_pixels |= (uint64_t)(pixels > verify->largest_pixels[f]) << f;
            continue;
        }
        pst_error_clear(&finding);
        psti_fail(&finding, PST_ERROR_CORRUPT, "verify",
                  "the index states another size of the largest item of field %s than its items "
                  "have",
                  pst_dataset_field(dataset, f)->name);
        psti_error_set_dataset(&finding, pst_dataset_path(dataset));
        status = report(verify, "", &finding, err);
    }
    return status;
}

static enum pst_status run(struct verify *verify, struct pst_error *err)
{
    enum pst_status status = progress(verify, true, err);
    while (status == PST_OK) {
        dispatch(verify);
        if (verify->n_taken == verify->n_dispatched)
            break;
        struct psti_verify_job *job = &verify->jobs[verify->n_taken % verify->window];
        status = wait_for(verify, job, err);
        if (status == PST_OK)
            status = take(verify, job, err);
        verify->n_taken++;
        if (status == PST_OK)
            status = progress(verify, verify->n_taken == verify->n_jobs, err);
    }
    for (size_t i = 0; status == PST_OK && i < verify->n_held; i++)
        status = report(verify, "", &verify->held[i], err);
    if (status == PST_OK && verify->report.n_bad == 0 &&
        pst_dataset_is_packed(verify->context.dataset))
        status = check_largest(verify, err);
    return status;
}

static enum pst_status start(struct verify *verify, struct pst_error *err)
{
    uint32_t n =
        verify->options->num_workers == 0 ? psti_thread_cores() : verify->options->num_workers;
    n = n > MAX_WORKERS ? MAX_WORKERS : n;
    verify->window = 4 * n;
    verify->jobs = psti_calloc(verify->window, sizeof *verify->jobs);
    if (verify->n_shards > 0)
        verify->context.shard_bad =
            psti_calloc(verify->n_shards, sizeof *verify->context.shard_bad);
    if (verify->jobs == NULL || (verify->n_shards > 0 && verify->context.shard_bad == NULL))
        return psti_fail(err, PST_ERROR_MEMORY, "verify", "out of memory for %u shards",
                         verify->n_shards);
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        status = psti_decode_open(&verify->decoders[i], err);
    while (status == PST_OK && verify->n_threads < n) {
        status =
            psti_thread_start(&verify->threads[verify->n_threads], "verify", worker, verify, err);
        verify->n_threads += status == PST_OK;
    }
    return status;
}

static void stop(struct verify *verify)
{
    while (psti_queue_try_pop(&verify->queue) != NULL)
        ;
    psti_queue_close(&verify->queue);
    for (uint32_t i = 0; i < verify->n_threads; i++)
        psti_thread_join(verify->threads[i]);
    for (uint32_t i = 0; i < MAX_WORKERS; i++) {
        psti_decode_close(&verify->decoders[i]);
        psti_buffer_free(&verify->blobs[i]);
        psti_pli_keep_free(&verify->jpegs[i]);
    }
    for (uint32_t i = 0; verify->jobs != NULL && i < verify->window; i++)
        psti_free(verify->jobs[i].findings);
    psti_free(verify->jobs);
    psti_free(verify->held);
    psti_free(verify->context.shard_bad);
}

static enum pst_status with_workers(struct verify *verify, struct pst_error *err)
{
    enum pst_status status = psti_queue_init(&verify->queue, 4 * MAX_WORKERS, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_init(&verify->lock, NULL);
    psti_cond_init(&verify->finished);
    status = start(verify, err);
    if (status == PST_OK)
        status = run(verify, err);
    stop(verify);
    pthread_cond_destroy(&verify->finished);
    pthread_mutex_destroy(&verify->lock);
    psti_queue_destroy(&verify->queue);
    return status;
}

static enum pst_status verify_all(struct verify *verify, struct pst_error *err)
{
    pst_dataset *dataset = verify->context.dataset;
    bool folder = !pst_dataset_is_packed(dataset);
    struct pst_error finding;
    pst_error_clear(&finding);
    verify->context.decode = verify->options->decode || folder;
    verify->context.restore = verify->options->restore;
    verify->context.n_parts = verify->options->n_parts > 0 ? verify->options->n_parts : 1;
    verify->context.part = verify->options->n_parts > 0 ? verify->options->part - 1 : 0;
    verify->n_samples = pst_dataset_count(dataset);
    verify->n_shards = folder ? 0 : pst_dataset_n_files(dataset);
    verify->n_jobs = verify->n_shards + verify->n_samples / PSTI_VERIFY_RUN_COUNT +
                     (verify->n_samples % PSTI_VERIFY_RUN_COUNT > 0);
    verify->report.n_samples_total = verify->n_samples;
    enum pst_status status =
        verify->options->n_parts > 0
            ? pst_dataset_identity(dataset, PST_IDENTITY_BYTES, verify->report.identity, err)
            : PST_OK;
    if (status == PST_OK && verify->context.part == 0 &&
        (psti_dataset_check_index(dataset, &finding) != PST_OK ||
         psti_dataset_check_identity(dataset, &finding) != PST_OK))
        status = report(verify, "", &finding, err);
    return status == PST_OK ? with_workers(verify, err) : status;
}

enum pst_status pst_verify(const char *path, const struct pst_verify_options *options,
                           struct pst_verify_report *out, size_t out_nbytes, struct pst_error *err)
{
    struct pst_verify_options filled;
    struct pst_error finding;
    if (path == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "verify", "path is NULL");
    enum pst_status status = psti_options_copy(&filled, sizeof filled, options, "verify", err);
    if (status != PST_OK)
        return status;
    if (filled.part > filled.n_parts || (filled.part == 0) != (filled.n_parts == 0))
        return psti_fail(err, PST_ERROR_ARGUMENT, "verify",
                         "part %u of %u is none: parts are counted from 1", filled.part,
                         filled.n_parts);
    struct verify *verify = psti_calloc(1, sizeof *verify);
    if (verify == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "verify", "out of memory");
    verify->options = &filled;
    pst_error_clear(&verify->first);
    pst_error_clear(&finding);
    if (psti_verify_is_file(path) && filled.part > 1) {
        verify->report.n_samples_total = 1; /* only part 1 verifies a single file */
    } else if (psti_verify_is_file(path)) {
        verify->report.n_samples_total = verify->report.n_samples = verify->report.n_items = 1;
        status = psti_verify_file(path, filled.restore, &verify->report.nbytes, &finding);
    } else {
        status =
            pst_dataset_open(path, verify->options->source, &verify->context.dataset, &finding);
    }
    if (status == PST_ERROR_CANCELLED) { /* the progress function cancelled: this is no finding */
        if (err != NULL)
            *err = finding;
    } else if (status != PST_OK) {
        status = report(verify, "", &finding, err);
    } else if (verify->context.dataset != NULL) {
        status = verify_all(verify, err);
    }
    if (status == PST_OK && verify->first.status != PST_OK) {
        status = verify->first.status;
        if (err != NULL)
            *err = verify->first;
    }
    if (out != NULL)
        psti_struct_write(out, out_nbytes, &verify->report, sizeof verify->report);
    pst_dataset_close(&verify->context.dataset);
    psti_free(verify);
    return status;
}
