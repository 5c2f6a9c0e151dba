/* test_serve_stream_gpu.c - tests shared preparation for jobs with a GPU or page-locked batches:
 * are their batches bit-identical to those of a loader alone, and is page-locked memory of the
 * service unlocked again? The GPU is the tests' driver, which reports an error if a copy comes from
 * memory that is not page-locked. Service and jobs are threads of this process. */
#include "sanitizer.h"
#include "serve/serve_fixture.h"

#include "device/fake_driver.h"
#include "loader/loader_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SAMPLES 90
#define BATCHES_MAX 128
#define NOT_SUPPORTED 801u

static pst_dataset *mixed, *all, *spoiled;
static struct augmented kept;
static struct pst_field_output outputs[9];

static pst_dataset *open_data(const char *name, enum make_images images)
{
    return open_made(
        directory, name,
        &(struct make_options){.n_samples = N_SAMPLES, .images = images, .all_fields = true});
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_data("mixed", MAKE_MIXED);
    all = open_data("all", MAKE_RAW_SAME);
    spoiled = open_data("spoiled", MAKE_RAW_SAME);
    spoil_sample(spoiled, 31, "image");
    return 0;
}

TEAR_DOWN(&mixed, &all, &spoiled)

static int stop(void **state)
{
    struct fake_counts counts;
    (void)state;
    serve_fixture_stop(&fixture);
    serve_fixture_clear(&fixture);
    fake_fail(FAKE_REGISTER, 0, 0);
    fake_counts(&counts);
    /* false once all memory was freed */
    return counts.live_host_nbytes > 0 || counts.live_nbytes > 0;
}

/* ThreadSanitizer does not notice that a ring of io_uring is unmapped, and confuses it with a later
 * ring. */
#define STORAGE (TEST_TSAN ? PST_STORAGE_THREADS : PST_STORAGE_AUTO)

static void complete(struct pst_loader_options *options, uint32_t batch_size)
{
    options->batch_size = batch_size;
    options->storage = STORAGE;
    options->socket = fixture.socket;
    options->share_wait_seconds = 60;
}

/* Returns options for crops of images and masks. Each row fills whole pages of memory. */
static struct pst_loader_options crop_options(uint32_t batch_size)
{
    struct pst_loader_options options = augmented_options(&kept, 64, 64);
    complete(&options, batch_size);
    return options;
}

/* Returns options for all fields; images and masks are cropped. `ragged`: how boxes, points and
 * tables are put together. */
static struct pst_loader_options ragged_options(uint32_t batch_size, enum pst_ragged ragged)
{
    static const char *const names[] = {"image", "mask",  "label",  "boxes", "points",
                                        "text",  "score", "vector", "table"};
    struct pst_loader_options options = crop_options(batch_size);
    for (size_t i = 0; i < 9; i++)
        outputs[i] = i < 2 ? kept.outputs[i] : (struct pst_field_output){.name = names[i]};
    outputs[3].ragged = outputs[4].ragged = outputs[8].ragged = ragged;
    options.fields = outputs;
    options.n_fields = 9;
    return options;
}

static struct pst_loader_options all_options(uint32_t batch_size)
{
    return ragged_options(batch_size, PST_RAGGED_LIST);
}

static struct pst_loader_options on_gpu(struct pst_loader_options options)
{
    options.placement = PST_PLACEMENT_DEVICE;
    return options;
}

static pst_loader *open_job(pst_dataset *dataset, struct pst_loader_options options)
{
    options.share = "group";
    pst_loader *loader = open_loader(dataset, &options);
    struct pst_loader_stats stats = stats_of(loader);
    if (!stats.is_sharing)
        fail_msg("not shared: %s", stats.share_reason);
    return loader;
}

static struct pst_loader_stats assert_all_shared(const pst_loader *loader)
{
    struct pst_loader_stats stats = stats_of(loader);
    if (stats.fallbacks[PST_FALLBACK_SHARE])
        fail_msg("%d batches were not shared: %s", (int)stats.fallbacks[PST_FALLBACK_SHARE],
                 stats.share_reason);
    assert_int_equal(stats.n_shared, stats.n_batches);
    assert_int_equal(stats.n_cpu_samples + stats.n_gpu_samples, 0);
    return stats;
}

/* Checks that all but texts are on the GPU. */
static void look(pst_loader *loader, const pst_batch *batch)
{
    struct pst_tensor tensor;
    assert_int_equal(pst_batch_device(batch), stats_of(loader).device);
    for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++) {
        if (pst_batch_field_type(batch, f) == PST_FIELD_TEXT)
            continue;
        if (pst_batch_is_ragged(batch, f))
            assert_int_equal(pst_batch_row(batch, f, 0, &tensor, sizeof tensor, NULL), PST_OK);
        else
            assert_int_equal(pst_batch_tensor(batch, f, &tensor, sizeof tensor, NULL), PST_OK);
        assert_int_equal(tensor.device, stats_of(loader).device);
    }
}

/* Compares an epoch on the GPU, shared, with one in host memory. `refused`: number of the page-lock
 * of service memory that the driver refuses. */
static void compare(pst_dataset *dataset, struct pst_loader_options options, uint64_t refused)
{
    uint64_t want[BATCHES_MAX], host[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_error err;
    options = on_gpu(options);
    fake_fail(FAKE_REGISTER, refused, NOT_SUPPORTED);
    pst_loader *loader = open_job(dataset, options);
    for (uint64_t epoch = 3; epoch < 6; epoch++) {
        struct pst_loader_options plain = options;
        plain.placement = PST_PLACEMENT_HOST;
        size_t n = drain_alone(dataset, options, epoch, want);
        assert_int_equal(drain_alone(dataset, plain, epoch, host), n);
        assert_ok(pst_loader_begin(loader, epoch, &err));
        assert_int_equal(drain_epoch(loader, look, got), n);
        assert_memory_equal(got, want, n * sizeof *want);
        assert_memory_equal(got, host, n * sizeof *want);
    }
    struct pst_loader_stats stats = assert_all_shared(loader);
    assert_int_equal(stats.share_samples, 3 * N_SAMPLES);
    assert_true(stats.nbytes_upload > 0);
    assert_int_equal(stats.n_shared_copied > 0, refused > 0);
    pst_loader_close(&loader);
}

static void a_gpu_job_gets_what_it_would_make(void **state)
{
    (void)state;
    for (uint32_t batch_size = 1; batch_size < 60; batch_size += 29) {
        compare(mixed, crop_options(batch_size), 0);
        compare(all, all_options(batch_size), 0);
    }
    for (int ragged = PST_RAGGED_PADDED; ragged <= PST_RAGGED_OFFSETS; ragged++)
        compare(all, ragged_options(17, (enum pst_ragged)ragged), 0);
}

/* The slots take all of device_memory, so the rows of a first batch find none there after its
 * pixels were uploaded. The loader frees other slots and takes that batch again. */
static void rows_without_memory_are_taken_again(void **state)
{
    uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_loader_options options = on_gpu(all_options(17));
    struct pst_error err;
    (void)state;
    options.prefetch = 4000; /* so many slots that they get no memory for rows at first */
    options.host_memory = 96 << 20;
    pst_loader *loader = open_loader(all, &options);
    options.device_memory = stats_of(loader).device_memory_used;
    pst_loader_close(&loader);
    options.host_memory = 128 << 20;
    loader = open_job(all, options);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        size_t n = drain_alone(all, all_options(17), epoch, want);
        assert_ok(pst_loader_begin(loader, epoch, &err));
        assert_int_equal(drain_epoch(loader, look, got), n);
        assert_memory_equal(got, want, n * sizeof *want);
    }
    struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.fallbacks[PST_FALLBACK_AHEAD] > 0);
    assert_int_equal(stats.fallbacks[PST_FALLBACK_SHARE], 0);
    assert_true(stats.device_memory_peak <= options.device_memory);
    pst_loader_close(&loader);
}

static void memory_that_cannot_be_locked_is_copied(void **state)
{
    (void)state;
    for (uint64_t refused = 1; refused < 4; refused++)
        compare(mixed, crop_options(13), refused);
}

/* A job in host memory, one in page-locked memory and two with GPUs share one stream. */
static void jobs_with_and_without_a_gpu_share(void **state)
{
    (void)state;
    enum { JOBS = 4 };
    uint64_t want[BATCHES_MAX];
    pst_loader *loaders[JOBS];
    struct pst_error err;
    struct pst_loader_options options = crop_options(7);
    for (int j = 0; j < JOBS; j++) {
        struct pst_loader_options own = j < 2 ? options : on_gpu(options);
        own.pin_memory = j == 1 ? PST_PIN_ALWAYS : PST_PIN_NEVER;
        own.device = j == 3;
        loaders[j] = open_job(mixed, own);
    }
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t n = drain_alone(mixed, options, epoch, want);
        for (int j = 0; j < JOBS; j++)
            assert_ok(pst_loader_begin(loaders[j], epoch, &err));
        for (size_t i = 0; i < n; i++)
            for (int j = 0; j < JOBS; j++) {
                pst_batch *batch;
                assert_ok(pst_loader_next(loaders[j], &batch, &err));
                assert_true(hash_batch(batch) == want[i]);
                pst_batch_release(batch);
            }
    }
    for (int j = 0; j < JOBS; j++) {
        struct pst_loader_stats stats = assert_all_shared(loaders[j]);
        assert_int_equal(stats.share_samples, 3 * N_SAMPLES);
        assert_int_equal(stats.n_shared_copied, j == 1 ? stats.n_shared : 0);
        pst_loader_close(&loaders[j]);
    }
}

/* Page-locked batches are memory of the driver, which the job may write to and keep. */
static void page_locked_batches_are_shared(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX];
    pst_batch *batches[3];
    struct pst_error err;
    struct fake_counts counts;
    struct pst_loader_options options = all_options(16);
    options.pin_memory = PST_PIN_ALWAYS;
    pst_loader *loader = open_job(all, options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t n = drain_alone(all, options, epoch, want);
        assert_ok(pst_loader_begin(loader, epoch, &err));
        for (size_t i = 0; i < n; i++) {
            struct pst_tensor tensor;
            if (i >= 3) {
                assert_true(hash_batch(batches[i % 3]) == want[i - 3]);
                pst_batch_release(batches[i % 3]);
            }
            assert_ok(pst_loader_next(loader, &batches[i % 3], &err));
            assert_true(hash_batch(batches[i % 3]) == want[i]);
            if (i + 3 < n)
                continue;
            assert_ok(pst_batch_tensor(batches[i % 3], 0, &tensor, sizeof tensor, &err));
            memset(tensor.data, (int)i, (size_t)tensor.strides[0]);
            pst_batch_release(batches[i % 3]);
        }
    }
    fake_counts(&counts);
    assert_true(counts.live_host_nbytes > 0);
    struct pst_loader_stats stats = assert_all_shared(loader);
    assert_int_equal(stats.n_shared_copied, stats.n_shared);
    pst_loader_close(&loader);
}

/* Batches stay valid after the loader and the service have gone. */
static void kept_batches_stay(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX];
    pst_batch *batches[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = on_gpu(crop_options(8));
    size_t n = drain_alone(mixed, options, 2, want);
    pst_loader *loader = open_job(mixed, options);
    assert_ok(pst_loader_begin(loader, 2, &err));
    for (size_t i = 0; i < n; i++)
        assert_ok(pst_loader_next(loader, &batches[i], &err));
    assert_all_shared(loader);
    pst_loader_close(&loader);
    serve_fixture_stop(&fixture);
    for (size_t i = 0; i < n; i++) {
        assert_true(hash_batch(batches[i]) == want[i]);
        pst_batch_release(batches[i]);
    }
    serve_fixture_start(&fixture, NULL);
}

/* A new epoch begins while the GPU still reads shared rows. */
static void an_epoch_may_begin_during_an_upload(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = on_gpu(crop_options(8));
    size_t n = drain_alone(mixed, options, 20, want);
    pst_loader *loader = open_job(mixed, options);
    fake_set_delay(3000);
    for (uint64_t epoch = 0; epoch < 10; epoch++) {
        pst_batch *batch = NULL;
        assert_ok(pst_loader_begin(loader, epoch, &err));
        enum pst_status status =
            pst_loader_next_timed(loader, (int64_t)epoch * 1000000, &batch, &err);
        assert_true(status == PST_OK || status == PST_ERROR_BUSY);
        pst_batch_release(batch);
    }
    fake_set_delay(0);
    assert_int_equal(run_epoch(loader, 20, got), n);
    assert_memory_equal(got, want, n * sizeof *want);
    pst_loader_close(&loader);
}

/* Without the service, and for a bad sample, a job decodes on its own GPU. */
static void alone_it_decodes_on_its_gpu(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = on_gpu(crop_options(20));
    options.on_error = PST_ON_ERROR_REPLACE;
    size_t n = drain_alone(spoiled, options, 0, want);
    pst_loader *loader = open_job(spoiled, options);
    assert_int_equal(run_epoch(loader, 0, got), n);
    assert_memory_equal(got, want, n * sizeof *want);
    struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.n_gpu_samples > 0);
    assert_true(stats.n_shared > 0);
    assert_true(stats.fallbacks[PST_FALLBACK_SHARE] > 0);
    assert_int_equal(stats.n_shared + stats.fallbacks[PST_FALLBACK_SHARE], n);
    n = drain_alone(spoiled, options, 1, want);
    assert_ok(pst_loader_begin(loader, 1, &err));
    for (size_t i = 0; i < n; i++) {
        pst_batch *batch;
        if (i == n / 2)
            serve_fixture_stop(&fixture);
        assert_ok(pst_loader_next(loader, &batch, &err));
        assert_true(hash_batch(batch) == want[i]);
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
    serve_fixture_start(&fixture, NULL);
}

static void what_cpus_cannot_prepare_is_refused(void **state)
{
    (void)state;
    struct pst_error err;
    pst_loader *loader;
    struct pst_loader_options options = on_gpu(crop_options(8));
    options.share = "group";
    options.decode = PST_DECODE_GPU;
    assert_int_equal(pst_loader_open(mixed, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "CPUs prepare"));
    options.decode = PST_DECODE_AUTO;
    kept.outputs[0].scaled_decode = true;
    assert_int_equal(pst_loader_open(mixed, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "scaled_decode"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, serve_fixture_open, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_gpu_job_gets_what_it_would_make),      TEST(rows_without_memory_are_taken_again),
        TEST(memory_that_cannot_be_locked_is_copied), TEST(jobs_with_and_without_a_gpu_share),
        TEST(page_locked_batches_are_shared),         TEST(kept_batches_stay),
        TEST(an_epoch_may_begin_during_an_upload),    TEST(alone_it_decodes_on_its_gpu),
        TEST(what_cpus_cannot_prepare_is_refused),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    alarm(600);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
