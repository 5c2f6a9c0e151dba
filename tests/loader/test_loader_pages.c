/* test_loader_pages.c - does the page-aware order read neighbouring samples together, however many
 * batches are prepared ahead? Tests that batches are those of other ways of reading, the number of
 * requests, the limit of memory, faults that hit only their own sample, an epoch that is ended at
 * any time, and states. */
#include "loader/loader_fixture.h"
#include "loader/loader_handle.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SAMPLES 256
#define PAGE 8
#define WINDOW 2
#define BATCH 8

static pst_dataset *same, *mixed;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    same = open_made(directory, "same",
                     &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_RAW_SAME});
    mixed = open_made(
        directory, "mixed",
        &(struct make_options){
            .n_samples = 77, .images = MAKE_MIXED, .all_fields = true, .shard_nbytes = 100000});
    return 0;
}

TEAR_DOWN(&same, &mixed)

static struct pst_field_output image = {.name = "image"};

static struct pst_loader_options page_options(uint32_t prefetch, enum pst_storage_kind storage)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_PAGES,
                                       .page_samples = PAGE,
                                       .window_pages = WINDOW,
                                       .seed = 3,
                                       .num_workers = 2,
                                       .prefetch = prefetch,
                                       .storage = storage,
                                       .fields = &image,
                                       .n_fields = 1,
                                       .only_listed = true,
                                       TEST_ELEMENT_SIZES};
}

/* Sample at each position of the epoch. */
static uint64_t samples[N_SAMPLES];
static size_t n_samples;

static void collect(pst_loader *loader, const pst_batch *batch)
{
    (void)loader;
    const int64_t *indices = pst_batch_index(batch);
    for (uint32_t i = 0; i < pst_batch_count(batch); i++)
        samples[n_samples++] = (uint64_t)indices[i];
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Counts the requests of a window: samples that lie side by side in a file share one. */
static uint64_t count_runs(uint64_t *window, size_t n)
{
    struct pst_error err;
    struct pst_item before, item;
    uint64_t n_runs = 0;
    qsort(window, n, sizeof *window, compare);
    for (size_t i = 0; i < n; i++) {
        assert_ok(pst_dataset_item(same, window[i], 0, 0, &item, sizeof item, &err));
        n_runs += i == 0 || before.i_file != item.i_file ||
                  item.offset - before.offset - before.nbytes > 4096;
        before = item;
    }
    return n_runs;
}

/* Reads an epoch. Returns whether each window was read as a whole. If threads are delayed, a window
 * may be read in several parts, which takes more requests, never fewer. */
static bool reads_whole_windows(enum pst_storage_kind kind, uint32_t prefetch, uint64_t epoch)
{
    uint64_t hashes[64], n_requests = 0;
    struct pst_error err;
    struct pst_loader_options options = page_options(prefetch, kind);
    /* without latency, only small gaps are worth reading */
    options.throttle_bytes_per_second = 1e9;
    options.throttle_requests = 1;
    pst_loader *loader = open_loader(same, &options);
    n_samples = 0;
    assert_ok(pst_loader_begin(loader, epoch, &err));
    assert_int_equal(drain_epoch(loader, collect, hashes), N_SAMPLES / BATCH);
    for (size_t i = 0; i < N_SAMPLES; i += PAGE * WINDOW)
        n_requests += count_runs(samples + i, PAGE * WINDOW);
    struct pst_loader_stats stats = stats_of(loader);
    pst_loader_close(&loader);
    assert_true(stats.n_reads >= n_requests);
    assert_int_equal(stats.n_reads + stats.n_merged_reads, N_SAMPLES);
    assert_true(n_requests <= N_SAMPLES / PAGE + N_SAMPLES / PAGE / WINDOW);
    return stats.n_reads == n_requests;
}

/* Several windows are under way at a time, so each is normally read as a whole, also if only one
 * batch, which is half a window, is prepared ahead. On a busy machine this holds for one of ten
 * runs. */
static void test_requests(void **state)
{
    (void)state;
    static const enum pst_storage_kind kinds[] = {PST_STORAGE_THREADS, PST_STORAGE_AUTO};
    for (uint32_t prefetch = 1; prefetch <= 4; prefetch *= 2)
        for (size_t k = 0; k < 2; k++)
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                bool whole = false;
                for (int run = 0; run < 10 && !whole; run++)
                    whole = reads_whole_windows(kinds[k], prefetch, epoch);
                assert_true(whole);
            }
}

/* Batches are bit-identical whatever is read together. */
static void test_same_batches(void **state)
{
    (void)state;
    static struct augmented kept;
    uint64_t expected[64], hashes[64];
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    options.order = PST_ORDER_PAGES;
    options.page_samples = 5;
    options.window_pages = 3;
    options.num_workers = 0;
    for (int way = 0; way < 9; way++) {
        uint64_t *out = way ? hashes : expected;
        options.prefetch = 1 + (uint32_t)way;
        options.num_workers = (uint32_t)(way + 1) / 2;
        options.storage = way % 2 ? PST_STORAGE_THREADS : PST_STORAGE_AUTO;
        options.page_cache = (enum pst_page_cache)(way % 3);
        /* a latency makes the loader gather rows */
        options.throttle_latency_seconds = way > 3 ? 1e-5 : 0;
        pst_loader *loader = open_loader(mixed, &options);
        size_t n = run_epoch(loader, 2, out);
        assert_int_equal(n, 20);
        assert_memory_equal(out, expected, n * sizeof *out);
        if (way > 3 && options.page_cache != PST_PAGE_CACHE_DIRECT)
            assert_true(stats_of(loader).n_merged_reads > 0);
        if (way <= 3) /* on fast storage the loader reads no gaps between samples */
            assert_int_equal(stats_of(loader).nbytes_gap, 0);
        pst_loader_close(&loader);
    }
}

/* The memory for gathered rows holds only few. The loader ends a gathering when it is full, and
 * begins another. */
static void test_little_memory(void **state)
{
    (void)state;
    uint64_t expected[64], hashes[64];
    struct pst_loader_options options = page_options(4, PST_STORAGE_THREADS);
    size_t n = drain_alone(same, options, 0, expected);
    for (uint32_t n_rows = 1; n_rows < 20; n_rows += 6) {
        pst_loader *loader = open_loader(same, &options);
        /* No read is under way, so the memory region may be made smaller. */
        loader->queue.arena.nbytes = (size_t)n_rows * loader->block_nbytes_max;
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            assert_int_equal(run_epoch(loader, 0, hashes), n);
            assert_memory_equal(hashes, expected, n * sizeof *hashes);
        }
        pst_loader_close(&loader);
    }
}

/* However small host_memory is, a loader that opens stays below it and delivers the same batches.
 */
static void test_memory_limit(void **state)
{
    (void)state;
    uint64_t expected[64], hashes[64];
    struct pst_error err;
    struct pst_loader_options options = page_options(2, PST_STORAGE_THREADS);
    size_t n = drain_alone(same, options, 0, expected), n_opened = 0;
    options.throttle_latency_seconds = 1e-6;
    for (uint64_t memory = 1 << 16; n_opened < 6; memory += memory / 4) {
        pst_loader *loader = NULL;
        options.host_memory = memory;
        if (pst_loader_open(same, &options, &loader, &err) != PST_OK)
            continue;
        assert_int_equal(run_epoch(loader, 0, hashes), n);
        assert_memory_equal(hashes, expected, n * sizeof *hashes);
        struct pst_loader_stats stats = stats_of(loader);
        assert_true(stats.host_memory_peak <= memory);
        pst_loader_close(&loader);
        n_opened++;
    }
}

/* After some epochs in a row, the first windows of the next epoch are read before this one is over.
 * The next epoch may then be another one. */
static void test_epochs_in_a_row(void **state)
{
    (void)state;
    static const uint64_t epochs[] = {0, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 7, 8};
    uint64_t expected[64], hashes[64];
    for (uint32_t prefetch = 1; prefetch <= 3; prefetch++) {
        struct pst_loader_options options = page_options(prefetch, PST_STORAGE_AUTO);
        options.throttle_latency_seconds = 1e-6;
        pst_loader *loader = open_loader(same, &options);
        options.num_workers = 0;
        for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
            size_t n = drain_alone(same, options, epochs[i], expected);
            assert_int_equal(run_epoch(loader, epochs[i], hashes), n);
            assert_memory_equal(hashes, expected, n * sizeof *hashes);
        }
        pst_loader_close(&loader);
    }
}

/* A caller that holds all slots gets an error, and goes on after it has released them. Meanwhile
 * rows were read whose batches had no slot. */
static void test_held(void **state)
{
    (void)state;
    uint64_t expected[64], hashes[64];
    struct pst_error err;
    pst_batch *held[64], *batch;
    struct pst_loader_options options = page_options(1, PST_STORAGE_AUTO);
    size_t n = drain_alone(same, options, 0, expected), n_held = 0, n_refused = 0, n_seen = 0;
    options.throttle_latency_seconds = 1e-6;
    pst_loader *loader = NULL;
    enum pst_status opened = PST_ERROR_LIMIT;
    for (options.host_memory = 1 << 20; opened == PST_ERROR_LIMIT; options.host_memory += 1 << 18)
        opened = pst_loader_open(same, &options, &loader, &err);
    assert_int_equal(opened, PST_OK);
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (enum pst_status status = PST_OK; status != PST_END;) {
        status = pst_loader_next(loader, &batch, &err);
        if (status == PST_OK) {
            hashes[n_seen++] = hash_batch(batch);
            held[n_held++] = batch;
            continue;
        }
        n_refused += status == PST_ERROR_LIMIT;
        assert_true(status == PST_END || n_held > 0);
        while (n_held > 0)
            pst_batch_release(held[--n_held]);
    }
    assert_true(n_refused > 0);
    assert_int_equal(n_seen, n);
    assert_memory_equal(hashes, expected, n * sizeof *hashes);
    pst_loader_close(&loader);
}

/* A state of the former default, 64 pages of 64, is refused with the options that continue it. */
static void test_former_default(void **state)
{
    (void)state;
    uint64_t expected[64], hashes[64];
    struct pst_error err;
    struct pst_loader_state saved;
    struct pst_loader_options options = page_options(2, PST_STORAGE_AUTO);
    options.page_samples = options.window_pages = 64;
    size_t n = drain_alone(same, options, 0, expected);
    pst_loader *former = open_loader(same, &options);
    assert_ok(pst_loader_begin(former, 0, &err));
    for (int i = 0; i < 5; i++) {
        pst_batch *batch = NULL;
        assert_ok(pst_loader_next(former, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_state(former, &saved);
    pst_loader_close(&former);
    options.page_samples = options.window_pages = 0;
    pst_loader *now = open_loader(same, &options);
    assert_int_equal(pst_loader_resume(now, &saved, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "set page_samples to 64 and window_pages to 64"));
    saved.order_hash++;
    assert_int_equal(pst_loader_resume(now, &saved, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "another order"));
    saved.order_hash--;
    pst_loader_close(&now);
    options.page_samples = options.window_pages = 64;
    now = open_loader(same, &options);
    assert_ok(pst_loader_resume(now, &saved, &err));
    assert_int_equal(drain_epoch(now, NULL, hashes), n - 5);
    assert_memory_equal(hashes, expected + 5, (n - 5) * sizeof *hashes);
    pst_loader_close(&now);
}

/* A shard was truncated: only the samples beyond its end are bad. */
static void test_truncated(void **state)
{
    (void)state;
    uint64_t hashes[64];
    struct pst_error err;
    struct pst_item item;
    char path[128];
    pst_dataset *dataset = open_made(
        directory, "cut", &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_RAW_SAME});
    assert_ok(pst_dataset_item(dataset, 200, 0, 0, &item, sizeof item, NULL));
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    struct pst_loader_options options = page_options(4, PST_STORAGE_AUTO);
    options.on_error = PST_ON_ERROR_SKIP;
    options.on_empty = PST_ON_EMPTY_DELIVER;
    options.throttle_bytes_per_second = 1e9;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err)); /* opens the shard */
    (void)drain_epoch(loader, NULL, hashes);
    uint64_t n_merged = stats_of(loader).n_merged_reads;
    assert_int_equal(truncate(path, (off_t)(item.offset + 1)), 0);
    (void)run_epoch(loader, 1, hashes);
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.n_bad, N_SAMPLES - 200);
    assert_int_equal(stats.n_samples, N_SAMPLES + 200);
    assert_true(stats.n_merged_reads > n_merged);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
}

/* The requests would take days. A new epoch and closing do not wait for them. */
static void test_cancel(void **state)
{
    (void)state;
    struct pst_error err;
    for (int kind = PST_STORAGE_AUTO; kind <= PST_STORAGE_THREADS; kind++) {
        struct pst_loader_options options = page_options(6, (enum pst_storage_kind)kind);
        options.throttle_latency_seconds = 10000;
        options.throttle_requests = 1;
        pst_loader *loader = open_loader(same, &options);
        for (uint64_t epoch = 0; epoch < 20; epoch++)
            assert_ok(pst_loader_begin(loader, epoch, &err));
        pst_loader_close(&loader);
    }
    /* The caller abandons the epoch in its middle. */
    for (uint32_t n = 0; n < 12; n++) {
        struct pst_loader_options options = page_options(1 + n % 5, PST_STORAGE_AUTO);
        pst_loader *loader = open_loader(same, &options);
        assert_ok(pst_loader_begin(loader, n, &err));
        for (uint32_t i = 0; i < n; i++) {
            pst_batch *batch = NULL;
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
        }
        pst_loader_close(&loader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),        cmocka_unit_test(test_same_batches),
        cmocka_unit_test(test_little_memory),   cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_epochs_in_a_row), cmocka_unit_test(test_held),
        cmocka_unit_test(test_former_default),  cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
