/* test_loader_wakeups.c - is a batch begun as soon as it has a slot, although a thread that could
 * begin it looks up rows at that moment?
 *
 * The caller holds all slots. While the only worker looks up a row without the lock, one batch is
 * released. The worker must begin the next batch before it waits. The linker puts the functions
 * below in place of the loader's, so this order of events does not depend on the machine. */
#include "loader/loader_fixture.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_times.h"
#include "test.h"

#include <stdatomic.h>
#include <unistd.h>

enum { MIB = 1 << 20, BATCH = 4, MOST = 64, ROW_NBYTES = 32 * 48 * 3 };

static pst_dataset *same;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    same = open_made(directory, "same",
                     &(struct make_options){.n_samples = 256, .images = MAKE_RAW_SAME});
    return 0;
}

TEAR_DOWN(&same)

/* State by which the test and the worker wait for each other. */
static struct {
    uint32_t n_slots;         /* 0: nothing is done between the worker's steps */
    atomic_uint n_held;       /* batches that the test has taken */
    pst_batch *_Atomic first; /* the batch to be released, once n_slots are held */
    atomic_bool released;     /* it was released while the worker looked up a row */
    atomic_bool waited;       /* the worker has begun to wait after that, or without a look-up */
    atomic_bool left;         /* it left a batch with a free slot unbegun */
} turn;

void __real_psti_loader_tiers_join(pst_loader *loader, struct psti_loader_items *items,
                                   uint64_t epoch, uint64_t position);
void __wrap_psti_loader_tiers_join(pst_loader *loader, struct psti_loader_items *items,
                                   uint64_t epoch, uint64_t position);
void __real_psti_loader_times_wait_for_work(pst_loader *loader, struct psti_meter_thread *thread);
void __wrap_psti_loader_times_wait_for_work(pst_loader *loader, struct psti_meter_thread *thread);

/* Waits until the caller has taken the batch that is ready. Returns true if no batch is left. */
static bool caller_has_all(pst_loader *loader)
{
    for (;;) {
        pthread_mutex_lock(loader->lock);
        uint64_t step = loader->epoch.next_step;
        const struct psti_loader_job *job = &loader->queue.ring[step % loader->queue.n_jobs];
        bool whole = job->state == PSTI_LOADER_JOB_WHOLE;
        pthread_mutex_unlock(loader->lock);
        if (!whole)
            return step == turn.n_slots;
        usleep(100);
    }
}

/* A row has been looked up, and the lock is not held. */
void __wrap_psti_loader_tiers_join(pst_loader *loader, struct psti_loader_items *items,
                                   uint64_t epoch, uint64_t position)
{
    __real_psti_loader_tiers_join(loader, items, epoch, position);
    if (turn.n_slots == 0 || atomic_load(&turn.released) || !caller_has_all(loader))
        return;
    while (atomic_load(&turn.n_held) < turn.n_slots)
        usleep(100);
    atomic_store(&turn.released, true);
    pst_batch_release(atomic_load(&turn.first));
}

/* The worker has found nothing to do. The lock is held. */
void __wrap_psti_loader_times_wait_for_work(pst_loader *loader, struct psti_meter_thread *thread)
{
    if (turn.n_slots > 0 && atomic_load(&turn.n_held) == turn.n_slots) {
        bool free = psti_batch_pool_has_free(loader->pool);
        if (atomic_load(&turn.released) && !atomic_load(&turn.waited))
            atomic_store(&turn.left, free && loader->queue.issue_step == loader->epoch.next_step);
        atomic_store(&turn.waited, true);
    }
    __real_psti_loader_times_wait_for_work(loader, thread);
}

/* Takes batches until host_memory holds no other one, or `most` of them. */
static uint32_t take(pst_loader *loader, pst_batch **held, uint32_t most)
{
    struct pst_error err;
    enum pst_status status = PST_OK;
    uint32_t n = 0;
    assert_ok(pst_loader_begin(loader, 0, &err));
    while (n < most && (status = pst_loader_next(loader, &held[n], &err)) == PST_OK) {
        atomic_store(&turn.first, held[0]);
        atomic_store(&turn.n_held, ++n);
    }
    assert_true(status == PST_OK || status == PST_ERROR_LIMIT);
    return n;
}

static void release(pst_batch **held, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < n; i++)
        pst_batch_release(held[i]);
}

/* Returns true if the batch was released while the worker looked up a row. */
static bool run(const struct pst_loader_options *options)
{
    pst_batch *held[MOST];
    turn.n_slots = 0;
    pst_loader *loader = open_loader(same, options);
    uint32_t n = take(loader, held, MOST);
    assert_in_range(n, 2, MOST - 1);
    release(held, 0, n);
    pst_loader_close(&loader);
    atomic_store(&turn.n_held, 0);
    atomic_store(&turn.released, false);
    atomic_store(&turn.waited, false);
    turn.n_slots = n;
    loader = open_loader(same, options);
    assert_int_equal(take(loader, held, n), n);
    while (!atomic_load(&turn.waited)) {
        pthread_mutex_lock(loader->lock);
        pthread_cond_broadcast(loader->work);
        pthread_mutex_unlock(loader->lock);
        usleep(1000);
    }
    bool released = atomic_load(&turn.released);
    assert_false(atomic_load(&turn.left));
    pst_loader_close(&loader);
    turn.n_slots = 0;
    release(held, released, n);
    return released;
}

/* Returns the bytes of read buffers with this host_memory; 0: it is refused. */
static uint64_t buffers_of(struct pst_loader_options options, uint64_t host_memory)
{
    pst_loader *loader;
    options.host_memory = host_memory;
    if (pst_loader_open(same, &options, &loader, NULL) != PST_OK)
        return 0;
    uint64_t nbytes = loader->queue.arena.nbytes;
    pst_loader_close(&loader);
    return nbytes;
}

/* Returns the least host_memory with read buffers for two rows. */
static uint64_t memory_of_two(const struct pst_loader_options *options)
{
    uint64_t low = 0, high = 64 * MIB;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (buffers_of(*options, middle) < 2 * ROW_NBYTES)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Rows that are read ahead fill the read buffers, and the next row waits for memory. */
static void a_slot_that_comes_free_is_used(void **state)
{
    (void)state;
    struct pst_field_output image = {.name = "image"};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = BATCH,
                                         .order = PST_ORDER_PAGES,
                                         .page_samples = 8,
                                         .window_pages = 4,
                                         .num_workers = 1,
                                         .prefetch = 1,
                                         .throttle_bytes_per_second = 1e9,
                                         .fields = &image,
                                         .n_fields = 1,
                                         .only_listed = true,
                                         TEST_ELEMENT_SIZES};
    uint32_t n_released = 0;
    uint64_t least = memory_of_two(&options);
    for (uint32_t i = 0; i < 24; i++) {
        options.host_memory = least + i * (ROW_NBYTES / 2);
        n_released += run(&options);
    }
    assert_true(n_released > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_slot_that_comes_free_is_used)};
    alarm(300);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
