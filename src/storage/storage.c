/* storage.c - opens a storage engine, passes reads to it, and counts them.
 *
 * In: options and reads. Out: completed reads. This file chooses the engine and passes reads on.
 * storage_step.c carries a read out; storage_pool.c and storage_uring.c provide the threads. The
 * struct does not change after open, except its counters, which are atomic. */
#include "storage/storage.h"
#include "storage/storage_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"

#include <math.h>
#include <stdio.h>

#define N_THREADS_MAX 4096u

static enum pst_status check_options(const struct psti_storage_options *options,
                                     struct pst_error *err)
{
    if (options->depth == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "storage", "depth is 0");
    if (options->n_threads > N_THREADS_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "storage", "%u reading threads, at most %u",
                         options->n_threads, N_THREADS_MAX);
    if (!isfinite(options->bytes_per_second) || options->bytes_per_second < 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "storage", "throttle of %g bytes per second",
                         options->bytes_per_second);
    if (!isfinite(options->latency_seconds) || options->latency_seconds < 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "storage", "throttle latency of %g seconds",
                         options->latency_seconds);
    if (options->n_at_once > PSTI_STORAGE_LANES_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "storage",
                         "throttle of %u requests at a time, at most %u", options->n_at_once,
                         PSTI_STORAGE_LANES_MAX);
    if (options->kind > PST_STORAGE_MEMORY)
        return psti_fail(err, PST_ERROR_ARGUMENT, "storage", "unknown storage kind %d",
                         (int)options->kind);
    if (options->page_cache > PST_PAGE_CACHE_DIRECT)
        return psti_fail(err, PST_ERROR_ARGUMENT, "storage", "unknown page cache mode %d",
                         (int)options->page_cache);
    return PST_OK;
}

/* Opens an engine of the requested kind. AUTO takes io_uring if it works; if not, `reason` says
 * why. */
static enum pst_status open_engine(struct psti_storage *storage, struct pst_error *err)
{
    enum pst_storage_kind kind = storage->options.kind;
    if (kind == PST_STORAGE_AUTO && storage->options.n_threads == 0) {
        snprintf(storage->reason, sizeof storage->reason, "no worker: the calling thread reads");
        kind = PST_STORAGE_THREADS;
    }
    if (kind == PST_STORAGE_AUTO || kind == PST_STORAGE_URING) {
        struct pst_error why;
        pst_error_clear(&why);
        enum pst_status status = psti_storage_uring_open(storage, &why);
        storage->kind = PST_STORAGE_URING;
        if (status == PST_OK && storage->engine != NULL)
            return PST_OK;
        if (status == PST_OK) {
            snprintf(storage->reason, sizeof storage->reason,
                     "no worker: the calling thread reads");
            storage->kind = PST_STORAGE_THREADS;
            return psti_storage_pool_open(storage, err);
        }
        /* Threads replace io_uring only if the kernel does not have it and the caller left the
         * choice. Any other cause, such as too little memory, would make threads fail too. */
        if (kind == PST_STORAGE_URING || status != PST_ERROR_UNSUPPORTED) {
            if (err != NULL)
                *err = why;
            return status;
        }
        snprintf(storage->reason, sizeof storage->reason, "%.95s", why.text);
        kind = PST_STORAGE_THREADS;
    }
    storage->kind = kind;
    return psti_storage_pool_open(storage, err);
}

enum pst_status psti_storage_open(const struct psti_storage_options *options,
                                  struct psti_storage **out, struct pst_error *err)
{
    *out = NULL;
    enum pst_status status = check_options(options, err);
    if (status != PST_OK)
        return status;
    struct psti_storage *storage = psti_calloc(1, sizeof *storage);
    if (storage == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "storage", "no memory for a storage engine");
    storage->options = *options;
    atomic_store(&storage->gap_nbytes_now, options->gap_nbytes);
    if (options->bytes_per_second > 0 || options->latency_seconds > 0) {
        bool with_thread = options->n_threads > 0;
        status = psti_storage_pace_open(options->bytes_per_second, options->latency_seconds,
                                        options->n_at_once, with_thread, &storage->pace, err);
    }
    if (status == PST_OK)
        status = open_engine(storage, err);
    if (status != PST_OK) {
        psti_storage_close(&storage);
        return status;
    }
    *out = storage;
    return PST_OK;
}

void psti_storage_close(struct psti_storage **storage)
{
    struct psti_storage *s = *storage;
    if (s == NULL)
        return;
    *storage = NULL;
    if (s->engine != NULL)
        s->engine->close(s);
    psti_storage_pace_close(&s->pace);
    psti_free(s);
}

size_t psti_storage_buffer_nbytes(const struct psti_storage *storage, uint64_t nbytes)
{
    /* Too large for any allocation, so the caller's allocation will fail. */
    if (nbytes > SIZE_MAX - 2 * PSTI_STORAGE_BLOCK)
        return SIZE_MAX;
    if (storage->options.page_cache != PST_PAGE_CACHE_DIRECT)
        return (size_t)nbytes;
    /* Unaligned, the range may begin with the last byte of its first block and end with the first
     * byte of its last block. */
    size_t blocks = ((size_t)nbytes + PSTI_STORAGE_BLOCK - 1) / PSTI_STORAGE_BLOCK + 1;
    return blocks * PSTI_STORAGE_BLOCK;
}

size_t psti_storage_buffer_alignment(const struct psti_storage *storage)
{
    return storage->options.page_cache == PST_PAGE_CACHE_DIRECT ? PSTI_STORAGE_BLOCK
                                                                : PSTI_CACHE_LINE;
}

void psti_storage_submit(struct psti_storage *storage, struct psti_read **reads, size_t n)
{
    bool ordered = n > 1 && storage->options.by_place;
    for (size_t i = 0; i < n; i++) {
        reads[i]->engine.joined = NULL;
        reads[i]->engine.ordered = ordered;
    }
    if (ordered)
        psti_storage_sort(reads, n);
    if (n > 1 && storage->options.gap_nbytes > 0 && storage->options.n_threads > 0 &&
        storage->options.page_cache != PST_PAGE_CACHE_DIRECT)
        n = psti_storage_merge(storage, reads, n);
    for (size_t i = 0; i < n; i++)
        psti_storage_admit(storage, reads[i], 0);
    storage->engine->submit(storage, reads, n);
}

enum pst_status psti_storage_read(struct psti_storage *storage, struct psti_read *read)
{
    read->engine.joined = NULL;
    read->engine.ordered = false;
    psti_storage_admit(storage, read, 0);
    psti_storage_execute(storage, read);
    if (storage->pace != NULL)
        psti_storage_pace_wait(storage->pace, read->engine.deadline_ns);
    return read->status;
}

enum pst_status psti_storage_read_owing(struct psti_storage *storage, struct psti_read *read,
                                        int64_t *owed_ns)
{
    read->engine.joined = NULL;
    read->engine.ordered = false;
    psti_storage_admit(storage, read, *owed_ns);
    psti_storage_execute(storage, read);
    if (storage->pace == NULL)
        return read->status;
    int64_t now = psti_clock_ns(), until = read->engine.deadline_ns;
    if (until < now + *owed_ns)
        until = now + *owed_ns;
    /* The limit prevents an overflow when huge latencies add up. */
    *owed_ns = until - now < INT64_MAX / 4 ? until - now : INT64_MAX / 4;
    return read->status;
}

void psti_storage_cancel(struct psti_storage *storage)
{
    if (storage->pace != NULL)
        psti_storage_pace_cancel(storage->pace, true);
}

void psti_storage_resume(struct psti_storage *storage)
{
    if (storage->pace != NULL)
        psti_storage_pace_cancel(storage->pace, false);
}

enum pst_storage_kind psti_storage_kind_in_use(const struct psti_storage *storage)
{
    return atomic_load(&storage->n_fallback_uring) ? PST_STORAGE_THREADS : storage->kind;
}

const char *psti_storage_reason(const struct psti_storage *storage)
{
    return atomic_load(&storage->n_fallback_uring) ? storage->broken_reason : storage->reason;
}

void psti_storage_stats(const struct psti_storage *storage, struct psti_storage_stats *stats)
{
    stats->n_reads = atomic_load_explicit(&storage->n_reads, memory_order_relaxed);
    stats->nbytes_read = atomic_load_explicit(&storage->nbytes_read, memory_order_relaxed);
    stats->n_merged = atomic_load_explicit(&storage->n_merged, memory_order_relaxed);
    stats->nbytes_gap = atomic_load_explicit(&storage->nbytes_gap, memory_order_relaxed);
    stats->n_ordered = atomic_load_explicit(&storage->n_ordered, memory_order_relaxed);
    stats->read_ns = atomic_load_explicit(&storage->read_ns, memory_order_relaxed);
    stats->n_fallback_direct =
        atomic_load_explicit(&storage->n_fallback_direct, memory_order_relaxed);
    stats->n_fallback_uring = atomic_load(&storage->n_fallback_uring);
    stats->n_fallback_advice =
        atomic_load_explicit(&storage->n_fallback_advice, memory_order_relaxed);
    stats->memory_nbytes = atomic_load_explicit(&storage->memory_nbytes, memory_order_relaxed);
}
