/* test_loader_set.c - pst_loader_set changes settings within an epoch. Are the batches from there
 * on bit-identical to those of a loader that was opened with the new settings and resumed at that
 * place? Batches of the old size stay valid, a refusal or failure changes nothing, and host_memory
 * is not exceeded. */
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/fault.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SAMPLES = 61, STEPS_MAX = 160, MIB = 1 << 20 };

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
    uniform = open_made(directory, "uniform",
                        &(struct make_options){.n_samples = 37, .images = MAKE_RAW_SAME});
    folder = open_made_folder(directory, "folder", 3, 7);
    return 0;
}

TEAR_DOWN(&mixed, &uniform, &folder)

/* A change of settings after n_batches more batches. 0: the setting stays. */
struct change {
    uint32_t n_batches, batch_size, height, width;
};
static const struct change changes[] = {
    {3, 7, 0, 0}, {2, 0, 20, 28}, {1, 2, 9, 9}, {0, 3, 24, 24}, {2, 5, 31, 17}};
enum { N_CHANGES = sizeof changes / sizeof changes[0] };

static struct augmented kept;

static enum pst_status set(pst_loader *loader, uint32_t batch_size, uint32_t height, uint32_t width,
                           struct pst_error *err)
{
    const struct pst_loader_settings settings = {
        .struct_size = sizeof settings, .batch_size = batch_size, .height = height, .width = width};
    return pst_loader_set(loader, &settings, err);
}

static struct pst_loader_settings settings_of(const pst_loader *loader)
{
    struct pst_loader_settings settings;
    pst_loader_settings(loader, &settings, sizeof settings);
    assert_int_equal(settings.struct_size, sizeof settings);
    return settings;
}

/* Takes up to n batches and hashes them. */
static size_t take(pst_loader *loader, size_t n, uint64_t *hashes)
{
    struct pst_error err;
    pst_batch *batch;
    size_t i = 0;
    enum pst_status status = PST_OK;
    for (; i < n && (status = pst_loader_next(loader, &batch, &err)) == PST_OK; i++) {
        hashes[i] = hash_batch(batch);
        pst_batch_release(batch);
    }
    if (status != PST_END)
        assert_ok(status);
    return i;
}

/* Opens a loader with the new settings, resumes the state, and takes up to n batches of that
 * epoch. */
static size_t take_anew(pst_dataset *dataset, struct pst_loader_options options,
                        const struct pst_loader_settings *settings,
                        const struct pst_loader_state *state, uint64_t epoch, size_t n,
                        uint64_t *hashes)
{
    struct augmented other;
    struct pst_error err;
    size_t n_fields = options.n_fields;
    const struct pst_loader_options sized =
        augmented_options(&other, settings->height, settings->width);
    if (state->epoch != epoch)
        return 0;
    options.fields = sized.fields;
    options.n_fields = n_fields;
    options.batch_size = settings->batch_size;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_resume(loader, state, &err));
    n = take(loader, n, hashes);
    pst_loader_close(&loader);
    return n;
}

/* Applies all of `changes` in one epoch, then takes the rest of it and the first batches of the
 * next. */
static void run(pst_dataset *dataset, const struct pst_loader_options *options)
{
    uint64_t hashes[STEPS_MAX], wanted[STEPS_MAX];
    struct pst_loader_state state;
    struct pst_error err;
    pst_loader *loader = open_loader(dataset, options);
    assert_ok(pst_loader_begin(loader, 4, &err));
    for (size_t i = 0; i <= N_CHANGES; i++) {
        struct pst_loader_settings now = settings_of(loader);
        size_t n = i < N_CHANGES ? changes[i].n_batches : STEPS_MAX;
        pst_loader_state(loader, &state);
        size_t n_wanted = take_anew(dataset, *options, &now, &state, 4, n, wanted);
        assert_int_equal(take(loader, n, hashes), n_wanted);
        for (size_t k = 0; k < n_wanted; k++)
            if (hashes[k] != wanted[k])
                fail_msg("change %zu: batch %zu differs", i, k);
        if (i < N_CHANGES)
            assert_ok(
                set(loader, changes[i].batch_size, changes[i].height, changes[i].width, &err));
    }
    pst_loader_state(loader, &state);
    assert_int_equal(state.epoch, 5);
    assert_int_equal(state.position, 0);
    assert_ok(pst_loader_begin(loader, 5, &err));
    struct pst_loader_settings now = settings_of(loader);
    assert_int_equal(now.batch_size, 5);
    size_t n_next = take_anew(dataset, *options, &now, &state, 5, 3, wanted);
    assert_int_equal(take(loader, 3, hashes), n_next);
    assert_memory_equal(hashes, wanted, n_next * sizeof *hashes);
    struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.host_memory_peak <= stats.host_memory);
    pst_loader_close(&loader);
}

static void test_as_if_opened_so(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 36; i++) {
        struct pst_loader_options options = augmented_options(&kept, 24, 24);
        options.num_workers = i % 3;
        options.order = (enum pst_order)(i / 3 % 3);
        options.page_samples = 4;
        options.window_pages = 3;
        /* a latency makes the loader gather rows */
        options.throttle_latency_seconds = options.order == PST_ORDER_PAGES && i & 1 ? 1e-6 : 0;
        options.drop_last = i & 1;
        options.world_size = 1 + (i >> 1 & 1);
        options.rank = options.world_size - 1;
        options.no_epoch_padding = !options.drop_last && i % 5 == 2;
        options.repeats = options.order == PST_ORDER_PAGES ? 1 : 1 + i % 2 * 2;
        options.storage = i % 4 ? PST_STORAGE_AUTO : PST_STORAGE_MEMORY;
        options.prefetch = 1 + i % 4;
        options.on_error = (enum pst_on_error)(i % 3);
        run(mixed, &options);
        options.n_fields = 1;
        run(folder, &options);
    }
}

static void test_on_a_gpu(void **state)
{
    (void)state;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    options.placement = PST_PLACEMENT_DEVICE;
    run(mixed, &options);
    options.placement = PST_PLACEMENT_HOST;
    options.pin_memory = PST_PIN_ALWAYS;
    run(mixed, &options);
}

/* If no epoch has begun, or if it is over, the next epoch begins with the new settings. */
static void test_between_epochs(void **state)
{
    (void)state;
    uint64_t hashes[STEPS_MAX], wanted[STEPS_MAX];
    struct pst_loader_state start;
    struct pst_error err;
    pst_batch *batch;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    pst_loader *loader = open_loader(mixed, &options);
    assert_int_equal(pst_loader_n_batches(loader), 16);
    assert_ok(set(loader, 8, 12, 12, &err));
    assert_int_equal(pst_loader_n_batches(loader), 8);
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_ERROR_STATE);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct pst_loader_settings now = settings_of(loader);
        assert_ok(pst_loader_begin(loader, epoch, &err));
        pst_loader_state(loader, &start);
        size_t n = take_anew(mixed, options, &now, &start, epoch, STEPS_MAX, wanted);
        assert_int_equal(take(loader, STEPS_MAX, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        assert_ok(set(loader, 6, 30, 18, &err));
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
        assert_int_equal(pst_loader_n_batches(loader), 11);
    }
    pst_loader_close(&loader);
}

/* A new batch size changes nothing else: the rows keep their samples and draws. Batches that the
 * caller holds stay valid. */
static void test_held_batches_stay(void **state)
{
    (void)state;
    uint64_t hashes[3];
    pst_batch *held[3], *batch;
    struct pst_error err;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    pst_loader *loader = open_loader(mixed, &options), *other = open_loader(mixed, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_begin(other, 0, &err));
    for (int i = 0; i < 3; i++) {
        assert_ok(pst_loader_next(loader, &held[i], &err));
        hashes[i] = hash_batch(held[i]);
        assert_ok(pst_loader_next(other, &batch, &err));
        pst_batch_release(batch);
        assert_ok(set(loader, 0, 20 + (uint32_t)i, 20, &err));
    }
    assert_int_equal(stats_of(loader).n_slots_held, 3);
    for (int i = 0; i < 4; i++) {
        pst_batch *same;
        struct pst_tensor tensor;
        assert_ok(pst_loader_next(loader, &batch, &err));
        assert_ok(pst_loader_next(other, &same, &err));
        assert_memory_equal(pst_batch_index(batch), pst_batch_index(same), 4 * sizeof(int64_t));
        assert_memory_equal(pst_batch_draws(batch), pst_batch_draws(same), 4 * sizeof(int64_t));
        assert_ok(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, &err));
        assert_int_equal(tensor.shape[2], 22);
        assert_int_equal(tensor.shape[3], 20);
        pst_batch_release(batch);
        pst_batch_release(same);
        if (i < 2) {
            assert_int_equal(hash_batch(held[i]), hashes[i]);
            pst_batch_release(held[i]);
        }
    }
    assert_int_equal(stats_of(loader).n_slots_held, 1);
    pst_loader_close(&loader);
    pst_loader_close(&other);
    assert_int_equal(hash_batch(held[2]), hashes[2]);
    pst_batch_release(held[2]);
}

/* A size for which host_memory is too small is refused with an error that states the need, and
 * nothing changes. */
static void test_limit(void **state)
{
    (void)state;
    uint64_t hashes[STEPS_MAX], wanted[STEPS_MAX];
    struct pst_error err;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    options.host_memory = 12 * MIB;
    pst_loader *loader = open_loader(mixed, &options), *other = open_loader(mixed, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_begin(other, 0, &err));
    size_t n = take(loader, 2, hashes);
    assert_int_equal(set(loader, 64, 512, 512, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "are needed"));
    assert_non_null(strstr(err.text, "12582912"));
    assert_int_equal(settings_of(loader).batch_size, 4);
    assert_int_equal(settings_of(loader).height, 24);
    n += take(loader, STEPS_MAX, hashes + n);
    assert_int_equal(take(other, STEPS_MAX, wanted), n);
    assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    assert_ok(pst_loader_begin(loader, 1, &err));
    pst_loader_close(&loader);
    pst_loader_close(&other);
}

/* Batches held by the caller leave too little memory for two batches of another size. After they
 * are released the change works. */
static void test_limit_with_held_batches(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_op op;
    pst_batch *held[2], *batch;
    pst_op_init(&op, sizeof op, PST_OP_RANDOM_RESIZED_CROP);
    op.height = op.width = 512;
    const struct pst_field_output output = {.name = "image", .ops = &op, .n_ops = 1};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 8,
                                         .fields = &output,
                                         .n_fields = 1,
                                         .host_memory = 32 * MIB,
                                         TEST_ELEMENT_SIZES};
    pst_loader *loader = open_loader(uniform, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (int i = 0; i < 2; i++)
        assert_ok(pst_loader_next(loader, &held[i], &err));
    assert_int_equal(set(loader, 0, 600, 600, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "you hold 2"));
    pst_batch_release(held[0]);
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_release(batch);
    pst_batch_release(held[1]);
    assert_ok(set(loader, 0, 600, 600, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    assert_int_equal(pst_batch_index(batch)[0], 24);
    pst_batch_release(batch);
    struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.host_memory_peak <= stats.host_memory);
    pst_loader_close(&loader);
}

static void refuse(const struct pst_loader_options *options, uint32_t height, uint32_t width,
                   const char *text)
{
    struct pst_error err;
    pst_loader *loader = open_loader(mixed, options);
    struct pst_loader_settings before = settings_of(loader);
    assert_int_equal(set(loader, 0, height, width, &err), PST_ERROR_ARGUMENT);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in '%s'", text, err.text);
    struct pst_loader_settings after = settings_of(loader);
    assert_int_equal(after.batch_size, before.batch_size);
    assert_int_equal(after.height, before.height);
    assert_int_equal(after.width, before.width);
    /* the batch size can be set in spite of the refused sizes */
    assert_ok(set(loader, 5, 0, 0, &err));
    assert_int_equal(settings_of(loader).batch_size, 5);
    pst_loader_close(&loader);
}

static void test_refusals(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_op ops[2];
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    refuse(&options, 24, 0, "both");
    pst_loader *loader = open_loader(mixed, &options);
    assert_int_equal(set(loader, (1u << 24) + 1, 0, 0, &err), PST_ERROR_ARGUMENT);
    assert_ok(pst_loader_set(loader, NULL, &err));
    assert_ok(set(loader, 4, 24, 24, &err)); /* the present settings */
    pst_loader_close(&loader);

    kept.outputs[1].own_geometry = true;
    kept.mask_chain[0].height = 16;
    refuse(&options, 20, 20, "'mask'");
    kept.mask_chain[0].height = 24;
    loader = open_loader(mixed, &options);
    assert_ok(set(loader, 0, 20, 20, &err));
    pst_loader_close(&loader);

    options.n_fields = 1;
    kept.outputs[0].ops = ops;
    kept.outputs[0].n_ops = 2;
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_RESIZED_CROP);
    ops[0].height = ops[0].width = 24;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_PAD);
    for (int i = 0; i < 4; i++)
        ops[1].pad[i] = 2;
    refuse(&options, 20, 20, "24x24");
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_RESIZE);
    ops[1].height = 12; /* the shorter side */
    kept.outputs[0].ops = &ops[1];
    kept.outputs[0].n_ops = 1;
    refuse(&options, 20, 20, "no operation");
    options.n_fields = 0;
    options.fields = NULL;
    refuse(&options, 20, 20, "no operation");
}

/* The new size applies to the last operation that has a size; earlier ones keep theirs. All views
 * have the same size. */
static void test_last_operation(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_tensor tensor;
    struct pst_op ops[2];
    pst_batch *batch;
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RESIZE);
    ops[0].height = 40;
    ops[0].width = 50;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_CENTER_CROP);
    ops[1].height = ops[1].width = 32;
    const struct pst_field_output outputs[2] = {
        {.name = "image", .ops = ops, .n_ops = 2},
        {.name = "image", .as = "views", .n_views = 2, .ops = ops, .n_ops = 2}};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 3,
                                         .fields = outputs,
                                         .n_fields = 2,
                                         .only_listed = true,
                                         TEST_ELEMENT_SIZES};
    pst_loader *loader = open_loader(mixed, &options);
    assert_ok(set(loader, 0, 36, 20, &err));
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    assert_ok(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, &err));
    assert_int_equal(tensor.shape[1], 36);
    assert_int_equal(tensor.shape[2], 20);
    assert_ok(pst_batch_tensor(batch, 1, &tensor, sizeof tensor, &err));
    assert_int_equal(tensor.shape[2], 36);
    assert_int_equal(tensor.shape[3], 20);
    pst_batch_release(batch);
    pst_loader_close(&loader);
}

/* A cache that keeps pictures at the training size keeps the items of different sizes apart. */
static void test_training_cache(void **state)
{
    (void)state;
    uint64_t hashes[STEPS_MAX], wanted[STEPS_MAX];
    struct pst_error err;
    struct pst_op ops[2];
    struct pst_loader_stats stats;
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RESIZE);
    ops[0].height = ops[0].width = 16;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    const struct pst_field_output output = {.name = "image", .ops = ops, .n_ops = 2};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 4,
                                         .num_workers = 2,
                                         .fields = &output,
                                         .n_fields = 1,
                                         TEST_ELEMENT_SIZES,
                                         .cache_resolution = PST_CACHE_RESOLUTION_TRAINING,
                                         .cache = open_cache(8 * MIB)};
    pst_loader *loader = open_loader(folder, &options);
    pst_cache_close(&options.cache); /* the loader keeps its own reference */
    options.cache_resolution = PST_CACHE_RESOLUTION_FULL;
    static const uint32_t sizes[] = {16, 16, 12, 12, 16};
    static const uint64_t hits[] = {0, 21, 21, 42, 63};
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        assert_ok(set(loader, 0, sizes[epoch], sizes[epoch], &err));
        ops[0].height = ops[0].width = sizes[epoch];
        pst_loader *plain = open_loader(folder, &options);
        assert_ok(pst_loader_begin(plain, epoch, &err));
        size_t n = take(plain, STEPS_MAX, wanted);
        pst_loader_close(&plain);
        begin_epoch(loader, epoch);
        assert_int_equal(take(loader, STEPS_MAX, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        stats = stats_of(loader);
        assert_int_equal(stats.n_cache_training_hits, hits[epoch]);
    }
    pst_loader_close(&loader);
}

/* Replay and fetch make batches of the present size, and batch numbers count such batches. */
static void test_replay_and_fetch(void **state)
{
    (void)state;
    uint64_t hashes[STEPS_MAX], epoch, step;
    struct pst_error err;
    pst_batch *batch, *again;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    pst_loader *loader = open_loader(mixed, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_int_equal(take(loader, 5, hashes), 5);
    const uint64_t samples[2] = {3, 4};
    assert_ok(pst_loader_fetch(loader, 0, samples, 2, &batch, &err));
    pst_batch_release(batch);
    assert_ok(set(loader, 6, 18, 18, &err));
    for (int i = 0; i < 3; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_place(batch, &epoch, &step);
        assert_int_equal(step, 20 / 6 + i);
        assert_ok(pst_loader_replay(loader, epoch, step, &again, &err));
        assert_int_equal(hash_batch(batch), hash_batch(again));
        pst_batch_release(batch);
        pst_batch_release(again);
    }
    struct pst_tensor tensor;
    assert_ok(pst_loader_fetch(loader, 0, samples, 2, &batch, &err));
    assert_ok(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, &err));
    assert_int_equal(tensor.shape[2], 18);
    pst_batch_release(batch);
    pst_loader_close(&loader);
}

/* The n-th allocation or thread start within pst_loader_set fails. The loader then continues with
 * the old or the new settings, bit-identically. If restoring the old ones failed, each further call
 * returns an error. */
static void fail_nth(enum psti_fault_kind kind, bool sticky)
{
    uint64_t hashes[STEPS_MAX], wanted[2][STEPS_MAX];
    size_t n_wanted[2];
    unsigned n_failed = 0, n_broken = 0;
    struct pst_error err;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    for (uint64_t n = 0;; n++) {
        struct pst_memory_stats before, after;
        pst_memory_stats(&before, sizeof before);
        pst_loader *loader = open_loader(mixed, &options);
        assert_ok(pst_loader_begin(loader, 0, &err));
        take(loader, 2, hashes);
        pst_error_clear(&err);
        psti_fault_arm(kind, n > 1 ? n - 1 : 0, sticky && n > 1);
        enum pst_status status = n == 0 ? PST_OK : set(loader, 6, 30, 30, &err);
        bool fired = n < 2 || psti_fault_count(kind) >= n - 1;
        psti_fault_arm(kind, 0, false);
        if (n == 1)
            assert_ok(status);
        if (n < 2) {
            n_wanted[n] = take(loader, STEPS_MAX, wanted[n]);
        } else if (status == PST_OK || pst_loader_begin(loader, 0, NULL) == PST_OK) {
            int which = status == PST_OK;
            if (!which)
                take(loader, 2, hashes);
            assert_int_equal(take(loader, STEPS_MAX, hashes), n_wanted[which]);
            assert_memory_equal(hashes, wanted[which], n_wanted[which] * sizeof *hashes);
        } else {
            pst_batch *batch;
            assert_int_equal(pst_loader_next(loader, &batch, &err), status);
            assert_int_equal(set(loader, 4, 24, 24, &err), status);
            assert_non_null(strstr(err.text, "closed"));
            n_broken++;
        }
        n_failed += status != PST_OK;
        pst_loader_close(&loader);
        pst_memory_stats(&after, sizeof after);
        if (n > 0)
            assert_int_equal(after.live_nbytes, before.live_nbytes);
        if (!fired)
            break;
    }
    assert_true(n_failed > 0);
    assert_int_equal(n_broken > 0, sticky);
}

static void test_faults(void **state)
{
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++) {
        fail_nth(PSTI_FAULT_ALLOC, sticky);
        fail_nth(PSTI_FAULT_THREAD, sticky);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_if_opened_so), cmocka_unit_test(test_on_a_gpu),
        cmocka_unit_test(test_between_epochs),  cmocka_unit_test(test_held_batches_stay),
        cmocka_unit_test(test_limit),           cmocka_unit_test(test_limit_with_held_batches),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_last_operation),
        cmocka_unit_test(test_training_cache),  cmocka_unit_test(test_replay_and_fetch),
        cmocka_unit_test(test_faults),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
