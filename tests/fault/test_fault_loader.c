/* test_fault_loader.c - the n-th allocation, thread or read fails, for n = 1, 2, ...: each call
 * succeeds or returns an error, nothing leaks, nothing hangs, and later calls succeed.
 */
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/fault.h"

#include <string.h>
#include <unistd.h>

static pst_dataset *mixed, *folder;
static struct pst_op chain[2];

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_made(
        directory, "mixed",
        &(struct make_options){
            .n_samples = 12, .images = MAKE_MIXED, .all_fields = true, .shard_nbytes = 50000});
    folder = open_made_folder(directory, "folder", 2, 4);
    pst_op_init(&chain[0], sizeof chain[0], PST_OP_RANDOM_RESIZED_CROP);
    chain[0].height = chain[0].width = 16;
    pst_op_init(&chain[1], sizeof chain[1], PST_OP_COLOR_JITTER);
    chain[1].hue[0] = -0.1f;
    chain[1].hue[1] = 0.1f;
    return 0;
}

TEAR_DOWN(&mixed, &folder)

struct way {
    pst_dataset *dataset;
    uint32_t workers;
    enum pst_storage_kind storage;
    enum pst_on_error on_error;
    bool plain;
};

/* Opens a loader, runs two epochs, fetches, replays and closes. Returns the first failure. */
static enum pst_status run(const struct way *way, struct pst_error *err)
{
    const struct pst_field_output output = {.name = "image", .ops = chain, .n_ops = 2};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 3,
                                         .order = PST_ORDER_SHUFFLED,
                                         .num_workers = way->workers,
                                         .io_threads = 2,
                                         .storage = way->storage,
                                         .on_error = way->on_error,
                                         .fields = &output,
                                         .n_fields = way->plain ? 0 : 1,
                                         TEST_ELEMENT_SIZES,
                                         .host_memory = (uint64_t)64 << 20};
    pst_loader *loader;
    pst_batch *batch;
    enum pst_status status = pst_loader_open(way->dataset, &options, &loader, err);
    if (status != PST_OK) {
        assert_null(loader);
        return status;
    }
    for (uint64_t epoch = 0; status == PST_OK && epoch < 2; epoch++) {
        status = pst_loader_begin(loader, epoch, err);
        while (status == PST_OK && (status = pst_loader_next(loader, &batch, err)) == PST_OK)
            pst_batch_release(batch);
        if (status == PST_END)
            status = PST_OK;
    }
    const uint64_t samples[4] = {1, 2, 3, 4};
    if (status == PST_OK &&
        (status = pst_loader_fetch(loader, 0, samples, 4, &batch, err)) == PST_OK)
        pst_batch_release(batch);
    if (status == PST_OK && (status = pst_loader_replay(loader, 1, 1, &batch, err)) == PST_OK)
        pst_batch_release(batch);
    pst_loader_close(&loader);
    return status;
}

static const struct way *ways(size_t *n)
{
    static struct way all[8];
    const struct way list[] = {
        {mixed, 0, PST_STORAGE_THREADS, PST_ON_ERROR_RAISE, false},
        {mixed, 2, PST_STORAGE_THREADS, PST_ON_ERROR_RAISE, false},
        {mixed, 2, PST_STORAGE_AUTO, PST_ON_ERROR_SKIP, true},
        {mixed, 1, PST_STORAGE_MEMORY, PST_ON_ERROR_REPLACE, false},
        {folder, 2, PST_STORAGE_THREADS, PST_ON_ERROR_RAISE, false},
        {folder, 2, PST_STORAGE_THREADS, PST_ON_ERROR_REPLACE, true},
    };
    *n = sizeof list / sizeof *list;
    memcpy(all, list, sizeof list);
    return all;
}

static void fail_nth(enum psti_fault_kind kind, bool sticky)
{
    size_t n_ways;
    const struct way *all = ways(&n_ways);
    for (size_t w = 0; w < n_ways; w++) {
        struct pst_memory_stats before, after;
        struct pst_error err;
        unsigned failures = 0;
        assert_ok(run(&all[w], &err)); /* also warms up objects that exist once per process */
        pst_memory_stats(&before, sizeof before);
        for (uint64_t n = 1;; n++) {
            pst_error_clear(&err);
            psti_fault_arm(kind, n, sticky);
            enum pst_status status = run(&all[w], &err);
            bool fired = psti_fault_count(kind) >= n;
            psti_fault_arm(kind, 0, false);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            if (status != PST_OK) {
                failures++;
                assert_int_equal(err.status, status);
                assert_true(err.text[0] != '\0');
            }
            if (!fired)
                break;
            if (n > 150)
                n += n / 40; /* in the steady state, testing each call would take too long */
        }
        if (kind != PSTI_FAULT_READ || all[w].on_error == PST_ON_ERROR_RAISE)
            if (kind != PSTI_FAULT_THREAD || all[w].workers)
                if (kind != PSTI_FAULT_READ || all[w].storage != PST_STORAGE_MEMORY)
                    assert_true(failures > 0);
        assert_ok(run(&all[w], &err));
    }
}

static void test_alloc(void **state)
{
    (void)state;
    fail_nth(PSTI_FAULT_ALLOC, false);
}
static void test_alloc_sticky(void **state)
{
    (void)state;
    fail_nth(PSTI_FAULT_ALLOC, true);
}
static void test_thread(void **state)
{
    (void)state;
    fail_nth(PSTI_FAULT_THREAD, false);
}
static void test_read(void **state)
{
    (void)state;
    fail_nth(PSTI_FAULT_READ, false);
}
static void test_read_sticky(void **state)
{
    (void)state;
    fail_nth(PSTI_FAULT_READ, true);
}

int main(void)
{
#ifndef PST_FAULTS
    return 77;
#else
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),       cmocka_unit_test(test_alloc_sticky),
        cmocka_unit_test(test_thread),      cmocka_unit_test(test_read),
        cmocka_unit_test(test_read_sticky),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, set_up, tear_down);
#endif
}
