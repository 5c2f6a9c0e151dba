/* test_loader_memory.c - is host_memory never exceeded, and does a caller that keeps batches get an
 * error and not a dead-lock? test_loader_steady.c tests allocations in the steady state. */
#include "loader/loader_fixture.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pst_dataset *mixed, *raw;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_made(
        directory, "mixed",
        &(struct make_options){.n_samples = 60, .images = MAKE_MIXED, .shard_nbytes = 100000});
    raw = open_made(directory, "raw",
                    &(struct make_options){.n_samples = 60, .images = MAKE_RAW_SAME});
    return 0;
}

TEAR_DOWN(&mixed, &raw)

static struct pst_op crop;
static struct pst_field_output fixed_size;

static struct pst_loader_options fixed_options(uint32_t workers, enum pst_storage_kind storage)
{
    pst_op_init(&crop, sizeof crop, PST_OP_RANDOM_RESIZED_CROP);
    crop.height = crop.width = 32;
    fixed_size = (struct pst_field_output){.name = "image",
                                           .ops = &crop,
                                           .n_ops = 1,
                                           .dtype = PST_DTYPE_F32,
                                           .layout = PST_LAYOUT_CHW};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 8,
                                       .order = PST_ORDER_SHUFFLED,
                                       .num_workers = workers,
                                       .storage = storage,
                                       .fields = &fixed_size,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES};
}

static void assert_within(const pst_loader *loader)
{
    struct pst_loader_stats stats = {0};
    pst_loader_stats(loader, &stats, sizeof stats);
    assert_true(stats.host_memory_peak <= stats.host_memory);
    assert_true(stats.host_memory_used <= stats.host_memory_peak);
}

/* The caller keeps all batches: the loader makes new slots up to the memory limit, then returns an
 * error. After a release it continues. */
static void hold(pst_dataset *dataset, struct pst_loader_options options)
{
    struct pst_error err;
    pst_loader *loader;
    pst_batch *held[200];
    uint64_t hashes[200];
    uint32_t n = 0, refusals = 0;
    enum pst_status status;
    options.batch_size = 3;
    assert_ok(pst_loader_open(dataset, &options, &loader, &err));
    uint64_t want[200];
    uint32_t n_want = 0;
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (pst_batch *batch; pst_loader_next(loader, &batch, &err) == PST_OK; n_want++) {
        want[n_want] = hash_batch(batch);
        pst_batch_release(batch);
    }
    assert_int_equal(n_want, pst_loader_n_batches(loader));
    assert_ok(pst_loader_begin(loader, 0, &err));
    uint32_t first = 0;
    while ((status = pst_loader_next(loader, &held[n], &err)) != PST_END) {
        assert_within(loader);
        if (status == PST_OK) {
            hashes[n] = hash_batch(held[n]);
            assert_true(hashes[n] == want[n]);
            n++;
            continue;
        }
        assert_int_equal(status, PST_ERROR_LIMIT);
        assert_non_null(strstr(err.text, "you hold"));
        assert_true(first < n);
        refusals++;
        assert_true(hash_batch(held[first]) ==
                    hashes[first]); /* the batches that were kept still have their contents */
        pst_batch_release(held[first++]);
    }
    assert_true(refusals > 0);
    assert_int_equal(n, n_want);
    pst_loader_close(&loader);
    for (; first < n; first++) {
        assert_true(hash_batch(held[first]) == hashes[first]);
        pst_batch_release(held[first]);
    }
}

static void test_holding_to_the_limit(void **state)
{
    (void)state;
    struct pst_memory_stats before, after;
    pst_memory_stats(&before, sizeof before);
    for (uint32_t workers = 0; workers <= 3; workers++)
        for (int memory = 0; memory < 2; memory++) {
            struct pst_loader_options options =
                fixed_options(workers, memory ? PST_STORAGE_MEMORY : PST_STORAGE_THREADS);
            options.host_memory = (uint64_t)(5 + workers) << 20;
            crop.height = crop.width = 160; /* a batch takes 900 KB */
            hold(mixed, options);
        }
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.live_nbytes, before.live_nbytes);
}

/* The caller keeps batches up to the limit. Their rows differ in size and are allocated one by
 * one. */
static void test_holding_ragged(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 3; workers++) {
        struct pst_op resize;
        pst_op_init(&resize, sizeof resize, PST_OP_RESIZE);
        resize.height = 150; /* length of the shorter side; the longer one varies */
        struct pst_field_output output = {.name = "image", .ops = &resize, .n_ops = 1};
        struct pst_loader_options options = fixed_options(workers, PST_STORAGE_THREADS);
        options.fields = &output;
        options.host_memory = ((uint64_t)(4 + workers) << 20) + 400000;
        hold(mixed, options);
    }
}

/* The memory is too small for even one batch of these rows. Each call says so, and nothing
 * hangs. */
static void test_ragged_too_large(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 2; workers++) {
        struct pst_error err;
        pst_loader *loader;
        pst_batch *batch;
        struct pst_op resize;
        pst_op_init(&resize, sizeof resize, PST_OP_RESIZE);
        resize.height = 1500;
        struct pst_field_output output = {.name = "image", .ops = &resize, .n_ops = 1};
        struct pst_loader_options options = fixed_options(workers, PST_STORAGE_THREADS);
        options.fields = &output;
        options.host_memory = (uint64_t)(8 + workers) << 20;
        assert_ok(pst_loader_open(mixed, &options, &loader, &err));
        assert_ok(pst_loader_begin(loader, 0, &err));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pst_loader_next(loader, &batch, &err), PST_ERROR_LIMIT);
            assert_within(loader);
        }
        assert_ok(pst_loader_begin(loader, 1, &err));
        pst_loader_close(&loader);
    }
}

/* Writes a data set of eight square pictures as JPEG or PNG. */
static pst_dataset *make_large(const char *name, uint32_t side, enum pst_form form)
{
    char path[128];
    struct pst_error err;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    pst_writer *writer;
    assert_ok(pst_writer_open(path, &field, 1, NULL, &writer, &err));
    uint8_t *pixels = malloc((size_t)side * side * 3);
    for (uint32_t i = 0; i < 8; i++) {
        char sample[16];
        make_pixels(i, side, side, pixels);
        struct pst_value value = {.form = form};
        uint8_t *file = form == PST_FORM_JPEG ? encode_jpeg(pixels, side, side, &value.nbytes)
                                              : encode_png(pixels, side, side, 3, &value.nbytes);
        value.bytes = file;
        const struct pst_value *values[1] = {&value};
        snprintf(sample, sizeof sample, "%u", i);
        add_sample(writer, sample, values);
        free(file);
    }
    free(pixels);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *large;
    assert_ok(pst_dataset_open(path, NULL, &large, &err));
    return large;
}

/* Scratch memory beyond a worker's own share comes from the reserve. So only an image's size
 * decides if it can be decoded. */
static void test_large_images(void **state)
{
    (void)state;
    struct pst_error err;
    pst_dataset *large = make_large("large", 700, PST_FORM_JPEG);
    struct pst_op jitter[2]; /* a jitter before the crop needs the whole picture in scratch */
    pst_op_init(&jitter[0], sizeof jitter[0], PST_OP_COLOR_JITTER);
    jitter[0].brightness[0] = 0.5f;
    jitter[0].contrast[0] = 0.5f;
    pst_op_init(&jitter[1], sizeof jitter[1], PST_OP_CENTER_CROP);
    jitter[1].height = jitter[1].width = 32;
    struct pst_field_output output = {.name = "image", .ops = jitter, .n_ops = 2};
    uint64_t want = 0;
    for (uint32_t workers = 0; workers <= 4; workers++) {
        struct pst_loader_options options = {.struct_size = sizeof options,
                                             .batch_size = 8,
                                             .num_workers = workers,
                                             .fields = &output,
                                             .n_fields = 1,
                                             TEST_ELEMENT_SIZES,
                                             .host_memory = (uint64_t)36 << 20};
        pst_loader *loader;
        pst_batch *batch;
        assert_ok(pst_loader_open(large, &options, &loader, &err));
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            assert_ok(pst_loader_begin(loader, 0, &err));
            assert_ok(pst_loader_next(loader, &batch, &err));
            assert_true(want == 0 || want == hash_batch(batch));
            want = hash_batch(batch);
            pst_batch_release(batch);
            assert_within(loader);
        }
        pst_loader_close(&loader);
        /* too little for any of these images */
        options.host_memory = (uint64_t)(3 + workers) << 20;
        if (pst_loader_open(large, &options, &loader, &err) != PST_OK)
            continue;
        assert_ok(pst_loader_begin(loader, 0, &err));
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_ERROR_LIMIT);
        assert_within(loader);
        pst_loader_close(&loader);
    }
    pst_dataset_close(&large);
}

/* Each worker can decode PNGs in the scratch that it begins with. If the budget allows, it gets
 * more and decodes faster. The batches are the same either way. */
static void test_scratch_for_speed(void **state)
{
    (void)state;
    struct pst_error err;
    const uint32_t side = 900;
    pst_dataset *large = make_large("large_png", side, PST_FORM_PNG);
    struct pst_op center;
    pst_op_init(&center, sizeof center, PST_OP_CENTER_CROP);
    center.height = center.width = 32;
    struct pst_field_output output = {.name = "image", .ops = &center, .n_ops = 1};
    uint64_t want = 0;
    for (uint32_t workers = 0; workers <= 3; workers++)
        for (int roomy = 0; roomy < 2; roomy++) {
            uint32_t n_workers = workers ? workers : 1;
            struct pst_loader_options options = {.struct_size = sizeof options,
                                                 .batch_size = 8,
                                                 .num_workers = workers,
                                                 .fields = &output,
                                                 .n_fields = 1,
                                                 TEST_ELEMENT_SIZES,
                                                 .host_memory =
                                                     (uint64_t)(roomy ? 64 * n_workers : 18) << 20};
            struct pst_loader_stats before, after;
            pst_loader *loader;
            pst_batch *batch;
            assert_ok(pst_loader_open(large, &options, &loader, &err));
            pst_loader_stats(loader, &before, sizeof before);
            for (uint64_t epoch = 0; epoch < 4; epoch++) {
                assert_ok(pst_loader_begin(loader, 0, &err));
                assert_ok(pst_loader_next(loader, &batch, &err));
                assert_true(want == 0 || want == hash_batch(batch));
                want = hash_batch(batch);
                pst_batch_release(batch);
                assert_within(loader);
            }
            pst_loader_stats(loader, &after, sizeof after);
            uint64_t more = after.host_memory_used - before.host_memory_used;
            if (roomy) /* at least one worker gets more, and none gets more than it asked for */
                assert_true(more > side * side * 3 / 2 &&
                            more <= n_workers * (side * side * 3 * 2 + (2 << 20)));
            else
                assert_true(more < side * side);
            pst_loader_close(&loader);
        }
    pst_dataset_close(&large);
}

static void test_memory_storage_counts(void **state)
{
    (void)state;
    struct pst_error err;
    pst_loader *loader;
    struct pst_loader_options options = fixed_options(1, PST_STORAGE_MEMORY);
    struct pst_loader_stats stats = {0};
    assert_ok(pst_loader_open(raw, &options, &loader, &err));
    pst_loader_stats(loader, &stats, sizeof stats);
    assert_int_equal(stats.storage, PST_STORAGE_MEMORY);
    assert_true(stats.host_memory_used > 60 * 32 * 48 * 3);
    pst_loader_close(&loader);
    options.host_memory = 60 * 32 * 48 * 3;
    assert_int_equal(pst_loader_open(raw, &options, &loader, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "host_memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holding_to_the_limit), cmocka_unit_test(test_holding_ragged),
        cmocka_unit_test(test_ragged_too_large),     cmocka_unit_test(test_large_images),
        cmocka_unit_test(test_scratch_for_speed),    cmocka_unit_test(test_memory_storage_counts),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
