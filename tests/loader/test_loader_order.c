/* test_loader_order.c - are the batches of an epoch bit-identical for any number of workers,
 * storage and world size, and after a resume? */
#include "loader/loader_fixture.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SAMPLES 61

static pst_dataset *mixed, *uniform, *folder;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_made(directory, "mixed",
                      &(struct make_options){.n_samples = N_SAMPLES,
                                             .images = MAKE_MIXED,
                                             .all_fields = true,
                                             .shard_nbytes = 100000});
    assert_true(pst_dataset_n_files(mixed) > 1);
    uniform = open_made(directory, "uniform",
                        &(struct make_options){.n_samples = 37, .images = MAKE_RAW_SAME});
    folder = open_made_folder(directory, "folder", 3, 7);
    return 0;
}

TEAR_DOWN(&mixed, &uniform, &folder)

static struct augmented kept;

static size_t epoch_hashes(pst_dataset *dataset, const struct pst_loader_options *options,
                           uint64_t epoch, uint64_t *hashes)
{
    pst_loader *loader = open_loader(dataset, options);
    size_t n = run_epoch(loader, epoch, hashes);
    assert_int_equal(n, pst_loader_n_batches(loader));
    pst_loader_close(&loader);
    return n;
}

static void assert_same(const uint64_t *a, const uint64_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            fail_msg("batch %zu differs", i);
}

static void test_workers_and_storage(void **state)
{
    (void)state;
    static const uint32_t workers[] = {0, 1, 2, 7};
    static const enum pst_storage_kind kinds[] = {PST_STORAGE_AUTO, PST_STORAGE_THREADS,
                                                  PST_STORAGE_MEMORY};
    uint64_t first[64], other[64], second_epoch[64];
    for (int kind = PST_ORDER_SEQUENTIAL; kind <= PST_ORDER_PAGES; kind++) {
        struct pst_loader_options options = augmented_options(&kept, 24, 24);
        options.order = (enum pst_order)kind;
        options.page_samples = 4;
        options.window_pages = 3;
        options.num_workers = 0;
        size_t n = epoch_hashes(mixed, &options, 5, first);
        assert_int_equal(n, 16);
        epoch_hashes(mixed, &options, 6, second_epoch);
        assert_true(memcmp(first, second_epoch, n * sizeof *first) != 0);
        for (size_t w = 0; w < 4; w++)
            for (size_t s = 0; s < 3; s++) {
                options.num_workers = workers[w];
                options.storage = kinds[s];
                options.prefetch = 1 + (uint32_t)(w + s) % 4;
                options.page_cache = (enum pst_page_cache)(s % 3);
                assert_int_equal(epoch_hashes(mixed, &options, 5, other), n);
                assert_same(first, other, n);
            }
    }
}

static void test_folder(void **state)
{
    (void)state;
    uint64_t first[64], other[64];
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    options.n_fields = 1;
    options.field_nbytes = sizeof(struct pst_field_output);
    options.op_nbytes = sizeof(struct pst_op);
    options.num_workers = 0;
    size_t n = epoch_hashes(folder, &options, 1, first);
    for (uint32_t w = 1; w <= 3; w++)
        for (int kind = PST_STORAGE_AUTO; kind <= PST_STORAGE_MEMORY; kind++) {
            if (kind == PST_STORAGE_URING)
                continue;
            options.num_workers = w;
            options.storage = (enum pst_storage_kind)kind;
            options.page_cache =
                kind == PST_STORAGE_THREADS ? PST_PAGE_CACHE_DIRECT : PST_PAGE_CACHE_KEEP;
            assert_int_equal(epoch_hashes(folder, &options, 1, other), n);
            assert_same(first, other, n);
        }
}

/* Returns the first position of a rank's step, in an epoch that began at position `start`. */
static uint64_t position_of(uint64_t start, uint32_t batch_size, uint32_t world, uint32_t rank,
                            uint64_t step)
{
    uint64_t first = start + step * batch_size * world, left = N_SAMPLES - first;
    uint64_t block = (left + world - 1) / world;
    return first + rank * (block < batch_size ? block : batch_size);
}

/* Collects the hashes of rows by position. A row must not depend on the world size. */
static void collect(pst_dataset *dataset, struct pst_loader_options options, uint32_t world,
                    const struct pst_loader_state *from, uint64_t steps, int64_t *samples,
                    uint64_t *rows, struct pst_loader_state *after)
{
    struct pst_error err;
    for (uint32_t rank = 0; rank < world; rank++) {
        options.rank = rank;
        options.world_size = world;
        pst_loader *loader = open_loader(dataset, &options);
        if (from)
            assert_ok(pst_loader_resume(loader, from, &err));
        else
            assert_ok(pst_loader_begin(loader, 2, &err));
        uint64_t start = from ? from->position : 0;
        pst_batch *batch;
        enum pst_status status = PST_OK;
        for (uint64_t step = 0; step < steps; step++) {
            status = pst_loader_next(loader, &batch, &err);
            if (status == PST_END)
                break;
            assert_ok(status);
            for (uint32_t i = 0; i < pst_batch_count(batch); i++) {
                uint64_t p = position_of(start, options.batch_size, world, rank, step) + i;
                struct pst_tensor tensor;
                if (p >= N_SAMPLES) {
                    p -= N_SAMPLES; /* padding repeats the beginning of the epoch */
                    if (samples[p] >= 0)
                        assert_int_equal(samples[p], pst_batch_index(batch)[i]);
                    continue;
                }
                assert_int_equal(samples[p], -1);
                samples[p] = pst_batch_index(batch)[i];
                assert_int_equal(pst_batch_row(batch, 0, i, &tensor, sizeof tensor, NULL), PST_OK);
                uint64_t hash = 0;
                for (int64_t k = 0; k < 3 * 24 * 24; k++) {
                    uint32_t bits;
                    memcpy(&bits, (float *)tensor.data + k, sizeof bits);
                    hash = hash * 0x9E3779B97F4A7C15u + bits;
                }
                rows[p] = hash;
            }
            pst_batch_release(batch);
        }
        if (status != PST_END && after)
            pst_loader_state(loader, after);
        pst_loader_close(&loader);
    }
}

static void test_world_sizes_and_resume(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 2, 3, 8};
    int64_t want[N_SAMPLES], got[N_SAMPLES];
    uint64_t want_rows[N_SAMPLES], rows[N_SAMPLES];
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    memset(want, -1, sizeof want);
    collect(mixed, options, 1, NULL, UINT64_MAX, want, want_rows, NULL);
    for (size_t a = 0; a < 4; a++)
        for (size_t b = 0; b < 4; b++)
            for (uint64_t steps = 0; steps * worlds[a] * 4 < N_SAMPLES; steps += 1 + a % 2) {
                struct pst_loader_state between;
                memset(got, -1, sizeof got);
                options.num_workers = (uint32_t)(a + b) % 3;
                collect(mixed, options, worlds[a], NULL, steps, got, rows, &between);
                assert_int_equal(between.epoch, 2);
                assert_int_equal(between.position, steps * 4 * worlds[a]);
                collect(mixed, options, worlds[b], &between, UINT64_MAX, got, rows, NULL);
                assert_memory_equal(want, got, sizeof want);
                assert_memory_equal(want_rows, rows, sizeof rows);
            }
}

/* With drop_last, the rest of an epoch begun with few ranks may be too short for one batch of each
 * of many ranks. Then the next epoch begins. */
static void test_resume_where_nothing_is_left(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_loader_options options = {
        .struct_size = sizeof options, .batch_size = 6, .drop_last = true};
    pst_loader *loader = open_loader(uniform, &options);
    pst_batch *batch;
    uint64_t epoch, step;
    struct pst_loader_state at;
    assert_ok(pst_loader_begin(loader, 4, &err));
    for (int i = 0; i < 5; i++) { /* takes 30 of 37 samples */
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_state(loader, &at);
    assert_int_equal(at.position, 30);
    /* too few samples are left for two batches of 6 */
    assert_ok(pst_loader_set_ranks(loader, 1, 2, &err));
    assert_ok(pst_loader_resume(loader, &at, &err));
    pst_loader_state(loader, &at);
    assert_int_equal(at.epoch, 5);
    assert_int_equal(at.position, 0);
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_place(batch, &epoch, &step);
    assert_int_equal(epoch, 5);
    assert_int_equal(step, 0);
    pst_batch_release(batch);
    pst_loader_close(&loader);
}

/* A loader is opened before its rank and world size are known. pst_loader_set_ranks sets them for
 * the next begin or resume. */
static void test_ranks_set_later(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_loader_options options = {.struct_size = sizeof options, .batch_size = 2};
    for (options.num_workers = 0; options.num_workers < 3; options.num_workers++) {
        pst_loader *loader = open_loader(uniform, &options);
        pst_batch *batch;
        uint64_t left = 19;
        assert_int_equal(pst_loader_n_batches(loader), left); /* 37 samples */
        assert_ok(pst_loader_begin(loader, 0, &err));
        assert_ok(pst_loader_set_ranks(loader, 1, 3, &err)); /* the running epoch keeps its ranks */
        assert_int_equal(pst_loader_n_batches(loader), 7);
        for (; pst_loader_next(loader, &batch, &err) == PST_OK; left--) {
            assert_int_equal(pst_batch_index(batch)[0], 2 * (19 - left));
            pst_batch_release(batch);
        }
        assert_int_equal(left, 0);
        assert_int_equal(pst_loader_set_ranks(loader, 3, 3, &err), PST_ERROR_ARGUMENT);
        assert_ok(pst_loader_begin(loader, 1, &err));
        for (int64_t step = 0; step < 2; step++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            assert_int_equal(pst_batch_index(batch)[0], 6 * step + 2);
            assert_int_equal(pst_batch_index(batch)[1], 6 * step + 3);
            pst_batch_release(batch);
        }
        struct pst_loader_state at;
        pst_loader_state(loader, &at);
        assert_int_equal(at.position, 12);
        assert_int_equal(pst_loader_n_batches_from(loader, 12, 1, 3), 5);
        assert_int_equal(pst_loader_n_batches_from(loader, 12, 0, 1), 13);
        assert_int_equal(pst_loader_n_batches_from(loader, 12, 1, 1), 0);
        assert_ok(pst_loader_set_ranks(loader, 0, 0, &err));
        assert_ok(pst_loader_resume(loader, &at, &err));
        assert_ok(pst_loader_next(loader, &batch, &err));
        assert_int_equal(pst_batch_index(batch)[0], 12);
        assert_int_equal(pst_batch_index(batch)[1], 13);
        pst_batch_release(batch);
        pst_loader_close(&loader);
    }
}

static void test_resume_each_step(void **state)
{
    (void)state;
    uint64_t whole[64], rest[64];
    struct pst_error err;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    size_t n = epoch_hashes(mixed, &options, 3, whole);
    pst_loader *loader = open_loader(mixed, &options), *other = open_loader(mixed, &options);
    assert_ok(pst_loader_begin(loader, 3, &err));
    for (size_t step = 0; step <= n; step++) {
        struct pst_loader_state at;
        pst_batch *batch;
        pst_loader_state(loader, &at);
        /* the state after the last batch is in the next epoch */
        assert_int_equal(at.epoch, step == n ? 4 : 3);
        assert_ok(pst_loader_resume(other, &at, &err));
        assert_int_equal(drain_epoch(other, NULL, rest), step == n ? n : n - step);
        if (step < n)
            assert_same(whole + step, rest, n - step);
        pst_loader_state(other, &at);
        assert_int_equal(at.epoch, step == n ? 5 : 4);
        assert_int_equal(at.position, 0);
        enum pst_status status = pst_loader_next(loader, &batch, &err);
        assert_int_equal(status, step == n ? PST_END : PST_OK);
        if (status != PST_OK)
            continue;
        uint64_t epoch, shown;
        pst_batch_place(batch, &epoch, &shown);
        assert_int_equal(epoch, 3);
        assert_int_equal(shown, step);
        pst_batch_release(batch);
        /* Replay makes any past batch again while an epoch runs. */
        for (size_t past = 0; past <= step; past += 5) {
            assert_ok(pst_loader_replay(loader, 3, past, &batch, &err));
            assert_true(hash_batch(batch) == whole[past]);
            pst_batch_release(batch);
        }
    }
    pst_loader_close(&loader);
    pst_loader_close(&other);
}

static void test_wrong_states(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    pst_loader *loader = open_loader(mixed, &options);
    pst_batch *batch;
    struct pst_loader_state good, bad;
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_ERROR_STATE);
    pst_loader_state(loader, &good);
    uint64_t *members[6] = {&bad.seed,       &bad.n_samples, &bad.order_version,
                            &bad.order_hash, &bad.position,  &bad.augment_version};
    for (int i = 0; i < 6; i++) {
        bad = good;
        *members[i] += (uint64_t)1 << 40;
        assert_int_equal(pst_loader_resume(loader, &bad, &err), PST_ERROR_ARGUMENT);
        assert_true(err.text[0]);
    }
    const uint64_t beyond[] = {N_SAMPLES + 1, N_SAMPLES + 3, (uint64_t)1 << 31, UINT64_MAX};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        bad = good;
        bad.position = beyond[i];
        assert_int_equal(pst_loader_resume(loader, &bad, &err), PST_ERROR_ARGUMENT);
        assert_non_null(strstr(err.text, "beyond the epoch's end"));
    }
    bad = good; /* the state at the end of an epoch is the beginning of the next one */
    bad.epoch = 6;
    bad.position = N_SAMPLES;
    assert_ok(pst_loader_resume(loader, &bad, &err));
    pst_loader_state(loader, &bad);
    assert_int_equal(bad.epoch, 7);
    assert_int_equal(bad.position, 0);
    pst_loader_close(&loader);
}

/* Without operations, lossless forms give exact pixels, and rows of equal size give tensors. */
static void test_plain_values(void **state)
{
    (void)state;
    struct pst_error err;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct pst_loader_options options = {.struct_size = sizeof options,
                                             .batch_size = 5,
                                             .num_workers = workers,
                                             .storage = workers == 1 ? PST_STORAGE_MEMORY
                                                                     : PST_STORAGE_AUTO};
        pst_loader *loader = open_loader(uniform, &options);
        assert_ok(pst_loader_begin(loader, 0, &err));
        pst_batch *batch;
        uint32_t n = 0;
        uint8_t want[32 * 48 * 3];
        while (pst_loader_next(loader, &batch, &err) == PST_OK) {
            struct pst_tensor tensor;
            assert_false(pst_batch_is_ragged(batch, 0));
            assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.dtype, PST_DTYPE_U8);
            assert_int_equal(tensor.shape[1], 32);
            assert_int_equal(tensor.shape[2], 48);
            assert_int_equal(tensor.shape[3], 3);
            for (uint32_t i = 0; i < pst_batch_count(batch); i++, n++) {
                assert_int_equal(pst_batch_index(batch)[i], n);
                make_pixels(n, 32, 48, want);
                assert_memory_equal((uint8_t *)tensor.data + i * sizeof want, want, sizeof want);
            }
            assert_int_equal(pst_batch_tensor(batch, 1, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.dtype, PST_DTYPE_I64);
            assert_int_equal(((int64_t *)tensor.data)[0], (n - pst_batch_count(batch)) % 10);
            pst_batch_release(batch);
        }
        assert_int_equal(n, 37);
        pst_loader_close(&loader);
    }
}

static void check_row_fields(const pst_batch *batch, uint32_t row, uint32_t i)
{
    struct pst_tensor tensor;
    uint32_t height, width;
    make_size(i, MAKE_MIXED, &height, &width);
    assert_int_equal(pst_batch_row(batch, 0, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.shape[0], height);
    assert_int_equal(tensor.shape[1], width);
    if (i % 3 != 2) { /* raw and PNG images keep exact pixels */
        uint8_t *want = malloc((size_t)height * width * 3);
        make_pixels(i, height, width, want);
        assert_memory_equal(tensor.data, want, (size_t)height * width * 3);
        free(want);
    }
    assert_int_equal(pst_batch_row(batch, 2, row, &tensor, sizeof tensor, NULL), PST_OK); /* mask */
    assert_int_equal(tensor.shape[2], 1);
    for (uint32_t k = 0; k < height * width; k++)
        assert_int_equal(((uint8_t *)tensor.data)[k], (k % width + i) % 20);
    assert_int_equal(pst_batch_row(batch, 3, row, &tensor, sizeof tensor, NULL),
                     PST_OK); /* boxes */
    assert_int_equal(tensor.shape[0], i % 6);
    assert_int_equal(tensor.shape[1], 4);
    assert_int_equal(tensor.dtype, PST_DTYPE_F32);
    if (i % 6)
        assert_true(((float *)tensor.data)[2] == (float)(10 + i % 5));
    assert_int_equal(pst_batch_row(batch, 4, row, &tensor, sizeof tensor, NULL),
                     PST_OK); /* keypoints */
    assert_int_equal(tensor.shape[0], i % 8);
    assert_int_equal(tensor.shape[1], 3);
    assert_int_equal(pst_batch_row(batch, 5, row, &tensor, sizeof tensor, NULL), PST_OK); /* text */
    char text[64];
    int length = snprintf(text, sizeof text, "sample %u%.*s", i, (int)(i % 30),
                          "..............................");
    assert_int_equal(tensor.shape[0], length);
    assert_memory_equal(tensor.data, text, (size_t)length);
    assert_int_equal(pst_batch_row(batch, 6, row, &tensor, sizeof tensor, NULL),
                     PST_OK); /* score */
    assert_int_equal(tensor.dtype, PST_DTYPE_F32);
    assert_true(*(float *)tensor.data == (float)i * 0.5f);
    assert_int_equal(pst_batch_row(batch, 7, row, &tensor, sizeof tensor, NULL),
                     PST_OK); /* vector */
    assert_true(((float *)tensor.data)[0] == (float)i);
    assert_int_equal(pst_batch_row(batch, 8, row, &tensor, sizeof tensor, NULL),
                     PST_OK); /* table */
    assert_int_equal(tensor.ndim, 2);
    assert_int_equal(tensor.shape[0], 1 + i % 4);
    assert_int_equal(((int16_t *)tensor.data)[2], (int16_t)(i * 100 + 2));
}

static void test_all_fields(void **state)
{
    (void)state;
    struct pst_error err;
    for (uint32_t workers = 0; workers < 4; workers++) {
        struct pst_loader_options options = {.struct_size = sizeof options,
                                             .batch_size = 7,
                                             .num_workers = workers,
                                             .order = PST_ORDER_SHUFFLED};
        pst_loader *loader = open_loader(mixed, &options);
        assert_ok(pst_loader_begin(loader, workers, &err));
        pst_batch *batch;
        uint32_t n = 0;
        while (pst_loader_next(loader, &batch, &err) == PST_OK) {
            assert_true(pst_batch_is_ragged(batch, 0));
            assert_false(pst_batch_is_ragged(batch, 7));
            for (uint32_t i = 0; i < pst_batch_count(batch); i++, n++)
                check_row_fields(batch, i, (uint32_t)pst_batch_index(batch)[i]);
            pst_batch_release(batch);
        }
        assert_int_equal(n, N_SAMPLES);
        const uint64_t some[3] = {60, 1, 1};
        assert_ok(pst_loader_fetch(loader, 9, some, 3, &batch, &err));
        for (uint32_t i = 0; i < 3; i++)
            check_row_fields(batch, i, (uint32_t)some[i]);
        pst_batch_release(batch);
        uint64_t many[40];
        for (uint32_t i = 0; i < 40; i++)
            many[i] = i;
        assert_ok(pst_loader_fetch(loader, 9, many, 40, &batch, &err));
        for (uint32_t i = 0; i < 40; i++)
            check_row_fields(batch, i, i);
        pst_batch_release(batch);
        pst_loader_close(&loader);
    }
}

static void test_encoded_and_listed(void **state)
{
    (void)state;
    struct pst_error err;
    const struct pst_field_output wish = {.name = "image", .encoded = true};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 4,
                                         .num_workers = 1,
                                         .fields = &wish,
                                         .n_fields = 1,
                                         TEST_ELEMENT_SIZES,
                                         .only_listed = true};
    pst_loader *loader = open_loader(mixed, &options);
    pst_batch *batch;
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (uint64_t s = 0; pst_loader_next(loader, &batch, &err) == PST_OK; s += 4) {
        assert_int_equal(pst_batch_n_fields(batch), 1);
        for (uint32_t i = 0; i < pst_batch_count(batch); i++) {
            struct pst_item item;
            struct pst_tensor tensor;
            assert_ok(pst_dataset_item(mixed, s + i, 0, 0, &item, sizeof item, &err));
            uint8_t *bytes = malloc(item.nbytes);
            assert_ok(pst_dataset_read(mixed, s + i, 0, 0, 0, item.nbytes, bytes, &err));
            assert_int_equal(pst_batch_row(batch, 0, i, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.shape[0], item.nbytes);
            assert_memory_equal(tensor.data, bytes, item.nbytes);
            free(bytes);
        }
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
}

static void test_subset_and_weights(void **state)
{
    (void)state;
    struct pst_error err;
    const uint64_t indices[5] = {7, 3, 3, 60, 0};
    const double weights[5] = {0, 1, 0, 1, 0};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 100,
                                         .num_workers = 2,
                                         .indices = indices,
                                         .n_indices = 5};
    pst_loader *loader = open_loader(mixed, &options);
    pst_batch *batch;
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err)); /* a subset may be larger than the data set */
    assert_int_equal(pst_batch_count(batch), 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(pst_batch_index(batch)[i], indices[i]);
    pst_batch_release(batch);
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
    pst_loader_close(&loader);
    options.weights = weights;
    options.order = PST_ORDER_SHUFFLED;
    loader = open_loader(mixed, &options);
    int n[61] = {0};
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        assert_ok(pst_loader_begin(loader, epoch, &err));
        assert_ok(pst_loader_next(loader, &batch, &err));
        for (uint32_t i = 0; i < 5; i++)
            n[pst_batch_index(batch)[i]]++;
        pst_batch_release(batch);
    }
    assert_int_equal(n[3] + n[60], 100);
    assert_true(n[3] > 20 && n[60] > 20);
    pst_loader_close(&loader);
}

/* Two loaders in one process that advance in step do not affect each other. */
static void test_two_loaders(void **state)
{
    (void)state;
    uint64_t want_a[64], want_b[64];
    struct pst_error err;
    struct pst_loader_options options = augmented_options(&kept, 24, 24), other = options;
    other.seed = 99;
    size_t n = epoch_hashes(mixed, &options, 0, want_a);
    epoch_hashes(mixed, &other, 0, want_b);
    pst_loader *a = open_loader(mixed, &options), *b = open_loader(mixed, &other);
    assert_ok(pst_loader_begin(a, 0, &err));
    assert_ok(pst_loader_begin(b, 0, &err));
    for (size_t i = 0; i < n; i++) {
        pst_batch *x, *y;
        assert_ok(pst_loader_next(a, &x, &err));
        assert_ok(pst_loader_next(b, &y, &err));
        assert_true(hash_batch(x) == want_a[i]);
        assert_true(hash_batch(y) == want_b[i]);
        pst_batch_release(x);
        pst_batch_release(y);
    }
    pst_loader_close(&a);
    pst_loader_close(&b);
}

static void test_refusals(void **state)
{
    (void)state;
    struct pst_op op;
    pst_op_init(&op, sizeof op, PST_OP_HORIZONTAL_FLIP);
    const struct pst_field_output wishes[] = {
        {.name = "nothing"},
        {.name = "label", .ops = &op, .n_ops = 1},
        {.name = "image", .channels = 7},
        {.name = "image", .bits = 9},
        {.name = "image", .variant_mask = 2},
        {.name = "image", .encoded = true, .ops = &op, .n_ops = 1},
        {.name = "image", .layout = (enum pst_layout)4},
        {.name = "mask", .channels = 3},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        struct pst_loader_options options = {
            .struct_size = sizeof options, .fields = &wishes[i], .n_fields = 1, TEST_ELEMENT_SIZES};
        struct pst_error err;
        pst_loader *loader;
        assert_int_equal(pst_loader_open(mixed, &options, &loader, &err), PST_ERROR_ARGUMENT);
        assert_null(loader);
        assert_true(err.text[0] && err.dataset[0]);
    }
    struct pst_loader_options small = {.struct_size = sizeof small, .host_memory = 1000};
    struct pst_error err;
    pst_loader *loader;
    assert_int_equal(pst_loader_open(mixed, &small, &loader, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "at least"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_values),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_encoded_and_listed),
        cmocka_unit_test(test_workers_and_storage),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_world_sizes_and_resume),
        cmocka_unit_test(test_resume_where_nothing_is_left),
        cmocka_unit_test(test_ranks_set_later),
        cmocka_unit_test(test_resume_each_step),
        cmocka_unit_test(test_wrong_states),
        cmocka_unit_test(test_subset_and_weights),
        cmocka_unit_test(test_two_loaders),
        cmocka_unit_test(test_refusals),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
