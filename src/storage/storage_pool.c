/* storage_pool.c - the thread pool: n threads take reads from a bounded queue and carry them out by
 * system calls.
 *
 * In: reads of psti_storage_submit. Out: calls of their `done`, by the thread that read, or by the
 * throttle's thread. The queue has room for `depth` reads, the most that are ever in progress, so
 * submit never waits. MEMORY uses the pool too: its reads are copies. Without threads, the
 * submitting thread carries out the reads. */
#include "storage/storage_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/queue.h"

struct pool {
    struct psti_storage *storage;
    struct psti_queue queue;
    unsigned n_started;
    unsigned char *sinks; /* PSTI_STORAGE_SINK bytes for each thread; NULL: reads are not joined */
    atomic_uint n_sinks;  /* number of sinks that threads have taken so far */
    pthread_t threads[];
};

static void pool_main(void *arg)
{
    struct pool *pool = arg;
    struct psti_read *read;
    void *sink = NULL;
    if (pool->sinks != NULL)
        sink = pool->sinks + PSTI_STORAGE_SINK * atomic_fetch_add(&pool->n_sinks, 1);
    while ((read = psti_queue_pop(&pool->queue)) != NULL) {
        if (read->engine.joined != NULL) {
            psti_storage_execute_joined(pool->storage, read, sink);
            continue;
        }
        psti_storage_execute(pool->storage, read);
        psti_storage_deliver(pool->storage, read);
    }
}

static void pool_submit(struct psti_storage *storage, struct psti_read **reads, size_t n)
{
    struct pool *pool = storage->state;
    for (size_t i = 0; i < n; i++) {
        struct psti_read *read = reads[i];
        if (pool->n_started > 0) {
            (void)psti_queue_push(&pool->queue,
                                  read); /* no read may be submitted after the queue is closed */
        } else {
            psti_storage_execute(storage, read);
            if (storage->pace != NULL)
                psti_storage_pace_wait(storage->pace, read->engine.deadline_ns);
            read->done(read);
        }
    }
}

static void pool_close(struct psti_storage *storage)
{
    struct pool *pool = storage->state;
    psti_queue_close(&pool->queue);
    for (unsigned i = 0; i < pool->n_started; i++)
        psti_thread_join(pool->threads[i]);
    psti_queue_destroy(&pool->queue);
    psti_free(pool->sinks);
    psti_free(pool);
    storage->state = NULL;
}

static const struct psti_storage_engine pool_engine = {pool_submit, pool_close};

enum pst_status psti_storage_pool_open(struct psti_storage *storage, struct pst_error *err)
{
    unsigned n_threads = storage->options.n_threads;
    struct pool *pool = psti_calloc(1, sizeof *pool + n_threads * sizeof pool->threads[0]);
    if (pool == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "storage", "no memory for %u reading threads",
                         n_threads);
    pool->storage = storage;
    enum pst_status status = psti_queue_init(&pool->queue, storage->options.depth, err);
    if (status != PST_OK) {
        psti_free(pool);
        return status;
    }
    storage->state = pool;
    if (storage->options.gap_nbytes > 0 && n_threads > 0) {
        pool->sinks = psti_alloc_array(n_threads, PSTI_STORAGE_SINK);
        if (pool->sinks == NULL) {
            pool_close(storage);
            return psti_fail(err, PST_ERROR_MEMORY, "storage", "no memory for %u reading threads",
                             n_threads);
        }
    }
    while (pool->n_started < n_threads) {
        status = psti_thread_start(&pool->threads[pool->n_started], "read", pool_main, pool, err);
        if (status != PST_OK) {
            pool_close(storage);
            return status;
        }
        pool->n_started++;
    }
    storage->engine = &pool_engine;
    return PST_OK;
}
