/* test_loader_device.c - are batches on a GPU bit-identical to batches in host memory? The GPU is
 * simulated by the tests' own driver, whose kernels run on the CPU and whose memory the tests can
 * read. */
#include "loader/loader_fixture.h"
#include "loader/make_pli_data.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SAMPLES 45
#define STEPS_MAX 32

static pst_dataset *mixed, *uniform, *spoilt;
static uint64_t bad_samples[2] = {3, 22};

static pst_dataset *open_data(const char *name, enum make_images images)
{
    return open_made(
        directory, name,
        &(struct make_options){
            .n_samples = N_SAMPLES, .images = images, .all_fields = true, .shard_nbytes = 100000});
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_data("mixed", MAKE_MIXED);
    uniform = open_data("uniform", MAKE_RAW_SAME);
    spoilt = open_data("spoilt", MAKE_MIXED);
    for (int i = 0; i < 2; i++)
        spoil_sample(spoilt, bad_samples[i], "image");
    return 0;
}

TEAR_DOWN(&mixed, &uniform, &spoilt)

static struct augmented kept;

/* Checks where a row is that may differ in shape from others: text in host memory alone, others on
 * the GPU, with a copy in host memory. */
static void check_row(const pst_batch *batch, uint32_t f, uint32_t row, int32_t device)
{
    struct pst_tensor tensor, host;
    bool text = pst_batch_field_type(batch, f) == PST_FIELD_TEXT;
    assert_int_equal(pst_batch_row(batch, f, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, text ? -1 : device);
    assert_int_equal(pst_batch_host_row(batch, f, row, &host, sizeof host, NULL), PST_OK);
    assert_int_equal(host.device, -1);
    if (tensor.shape[0] > 0)
        assert_memory_equal(host.data, tensor.data, (size_t)(tensor.shape[0] * tensor.strides[0]));
}

/* Checks where the fields are: all but text on the GPU, and all but images and masks in host
 * memory. */
static void check_places(const pst_batch *batch, int32_t device)
{
    struct pst_tensor tensor, host;
    uint32_t n = pst_batch_count(batch);
    assert_int_equal(pst_batch_device(batch), device);
    for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++) {
        enum pst_field_type type = pst_batch_field_type(batch, f);
        bool pixels = type == PST_FIELD_IMAGE || type == PST_FIELD_MASK;
        for (uint32_t row = 0; row < n && pst_batch_is_ragged(batch, f); row++)
            check_row(batch, f, row, device);
        if (pst_batch_is_ragged(batch, f))
            continue;
        assert_int_equal(pst_batch_tensor(batch, f, &tensor, sizeof tensor, NULL), PST_OK);
        assert_int_equal(tensor.device, device);
        assert_int_equal(pst_batch_host_tensor(batch, f, &host, sizeof host, NULL),
                         pixels && device >= 0 ? PST_ERROR_ARGUMENT : PST_OK);
        if (!pixels)
            assert_memory_equal(host.data, tensor.data, n * (size_t)tensor.strides[0]);
    }
    pst_batch_index_tensor(batch, &tensor, sizeof tensor);
    assert_int_equal(tensor.device, device);
    assert_memory_equal(tensor.data, pst_batch_index(batch), n * sizeof(int64_t));
}

/* Checks that the batch's memory is on the device of its loader. */
static void look(pst_loader *loader, const pst_batch *batch)
{
    check_places(batch, stats_of(loader).device);
}

static size_t epoch(pst_dataset *dataset, const struct pst_loader_options *options,
                    uint64_t *hashes, struct pst_loader_stats *stats)
{
    struct pst_error err;
    pst_loader *loader = open_loader(dataset, options);
    assert_ok(pst_loader_begin(loader, 3, &err));
    size_t n = drain_epoch(loader, look, hashes);
    if (stats)
        *stats = stats_of(loader);
    pst_loader_close(&loader);
    return n;
}

/* Compares an epoch prepared in host memory with the same epoch prepared on a GPU. */
static void compare(pst_dataset *dataset, const struct pst_loader_options *options,
                    struct pst_loader_stats *stats)
{
    uint64_t host[STEPS_MAX], gpu[STEPS_MAX];
    struct pst_loader_options plain = *options;
    plain.placement = PST_PLACEMENT_HOST;
    plain.device = 0;
    plain.decode = PST_DECODE_AUTO;
    plain.device_memory = 0;
    size_t n = epoch(dataset, &plain, host, NULL);
    assert_int_equal(epoch(dataset, options, gpu, stats), n);
    for (size_t i = 0; i < n; i++)
        if (host[i] != gpu[i])
            fail_msg("batch %zu of %zu differs", i, n);
}

static void test_same_as_in_host_memory(void **state)
{
    static const uint32_t workers[] = {0, 1, 4};
    static const double parts[] = {0, 0.5, 0.25};
    (void)state;
    for (uint32_t w = 0; w < 3; w++)
        for (uint32_t s = 0; s < 3; s++)
            for (int memory = 0; memory < 2; memory++) {
                struct pst_loader_options options = augmented_options(&kept, 24, 20);
                struct pst_loader_stats stats;
                options.placement = PST_PLACEMENT_DEVICE;
                options.device = w == 1; /* the second run uses the second GPU */
                options.num_workers = workers[w];
                options.gpu_part = parts[s];
                options.storage = memory ? PST_STORAGE_MEMORY : PST_STORAGE_THREADS;
                compare(mixed, &options, &stats);
                assert_int_equal(stats.device, w == 1);
                assert_true(stats.n_gpu_samples > 0);
                assert_true(stats.nbytes_upload > 0);
                if (workers[w]) /* workers may still hold counts that they have not added */
                    continue;
                assert_int_equal(stats.n_gpu_samples + stats.n_cpu_samples, 2 * stats.n_samples);
                if (parts[s] == 0) /* the GPU cannot decode JPEG and PNG */
                    assert_int_equal(stats.n_gpu_fallback, stats.n_cpu_samples);
                else
                    assert_true(stats.n_gpu_samples < stats.n_samples);
            }
}

/* The meter has GPU times for all batches that the caller waited for. */
static void test_times_of_the_gpu(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 20);
    struct pst_loader_meter meter;
    uint64_t hashes[STEPS_MAX], last = 0;
    (void)state;
    for (int places = 0; places < 2; places++) {
        options.placement = places ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        pst_loader *loader = open_loader(mixed, &options);
        for (uint64_t i = 0; i < 2; i++) {
            run_epoch(loader, i, hashes);
            pst_loader_meter(loader, &meter, sizeof meter);
            const struct pst_stage_clock *upload = &meter.stages[PST_STAGE_UPLOAD];
            if (places)
                assert_true(upload->link_ns > 0 && upload->gpu_ns > last);
            else
                assert_int_equal(upload->link_ns + upload->gpu_ns, 0);
            last = upload->gpu_ns;
        }
        pst_loader_close(&loader);
    }
}

static void test_decode_places(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 20);
    struct pst_loader_stats stats;
    (void)state;
    options.placement = PST_PLACEMENT_DEVICE;
    options.decode = PST_DECODE_CPU;
    compare(mixed, &options, &stats);
    assert_int_equal(stats.n_gpu_samples, 0);
    assert_int_equal(stats.n_gpu_fallback, 0);
    options.decode = PST_DECODE_GPU;
    compare(mixed, &options, &stats);
    assert_true(stats.n_gpu_samples > 0);
    assert_true(stats.n_gpu_fallback > 0);
    assert_string_not_equal(stats.gpu_fallback_reason, "");
}

/* A cache re-codes images: the CPU decodes the stored forms, which the GPU cannot, and the GPU
 * decodes the re-coded ones. Batches equal those of a loader in host memory without a cache. */
static void test_recoded_in_a_cache(void **state)
{
    (void)state;
    for (int form = PST_CACHE_FORM_PLI_JPEG; form <= PST_CACHE_FORM_RAW; form++)
        for (uint32_t workers = 0; workers < 4; workers += 3) {
            const struct pst_cache_options cache_options = {.struct_size = sizeof cache_options,
                                                            .nbytes = 64 << 20};
            struct pst_loader_options options = augmented_options(&kept, 24, 20);
            uint64_t host[STEPS_MAX], gpu[STEPS_MAX];
            struct pst_loader_stats stats[2];
            struct pst_error err;
            options.num_workers = workers;
            pst_loader *plain = open_loader(mixed, &options);
            assert_ok(pst_cache_open(&cache_options, &options.cache, &err));
            options.cache_form = (enum pst_cache_form)form;
            options.placement = PST_PLACEMENT_DEVICE;
            pst_loader *loader = open_loader(mixed, &options);
            for (uint64_t i = 0; i < 2; i++) {
                assert_ok(pst_loader_begin(plain, i, &err));
                assert_ok(pst_loader_begin(loader, i, &err));
                size_t n = drain_epoch(plain, NULL, host);
                assert_int_equal(drain_epoch(loader, look, gpu), n);
                assert_memory_equal(gpu, host, n * sizeof *gpu);
                stats[i] = stats_of(loader);
            }
            assert_true(stats[1].n_cache_recoded > 0);
            assert_int_equal(stats[1].n_cache_misses, stats[0].n_cache_misses);
            if (workers == 0 && form != PST_CACHE_FORM_PLI_JPEG) /* all items are re-coded */
                assert_int_equal(stats[1].n_gpu_samples - stats[0].n_gpu_samples,
                                 2 * (stats[1].n_samples - stats[0].n_samples));
            if (workers == 0)
                assert_true(stats[1].n_gpu_samples > 2 * stats[0].n_gpu_samples);
            pst_loader_close(&loader);
            pst_loader_close(&plain);
            pst_cache_close(&options.cache);
        }
}

/* The state of a loader in host memory is resumed on a GPU, and the reverse. */
static void test_resume_elsewhere(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 20);
    uint64_t whole[STEPS_MAX], parts[STEPS_MAX];
    struct pst_loader_state at;
    struct pst_error err;
    (void)state;
    size_t n = epoch(mixed, &options, whole, NULL);
    for (int first = 0; first < 2; first++) {
        pst_batch *batch;
        options.placement = first ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        pst_loader *loader = open_loader(mixed, &options);
        assert_ok(pst_loader_begin(loader, 3, &err));
        for (int i = 0; i < 4; i++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            parts[i] = hash_batch(batch);
            pst_batch_release(batch);
        }
        pst_loader_state(loader, &at);
        pst_loader_close(&loader); /* the loader is closed while it prepares batches */
        options.placement = first ? PST_PLACEMENT_HOST : PST_PLACEMENT_DEVICE;
        loader = open_loader(mixed, &options);
        assert_ok(pst_loader_resume(loader, &at, &err));
        assert_int_equal(4 + drain_epoch(loader, look, parts + 4), n);
        assert_memory_equal(parts, whole, n * sizeof *whole);
        pst_loader_close(&loader);
    }
}

static void test_fetch_and_replay(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 20);
    const uint64_t samples[6] = {9, 9, 0, 44, 13, 2}; /* more samples than a batch holds */
    uint64_t hashes[2][3];
    struct pst_error err;
    (void)state;
    for (int device = 0; device < 2; device++) {
        pst_batch *running, *batch;
        options.placement = device ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        pst_loader *loader = open_loader(mixed, &options);
        assert_ok(pst_loader_begin(loader, 3, &err));
        assert_ok(pst_loader_next(loader, &running, &err));
        assert_ok(pst_loader_fetch(loader, 3, samples, 6, &batch, &err));
        assert_int_equal(pst_batch_count(batch), 6);
        check_places(batch, device - 1);
        hashes[device][0] = hash_batch(batch);
        pst_batch_release(batch);
        assert_ok(pst_loader_fetch(loader, 3, samples + 2, 1, &batch, &err));
        hashes[device][1] = hash_batch(batch);
        pst_batch_release(batch);
        assert_ok(pst_loader_replay(loader, 3, 0, &batch, &err));
        hashes[device][2] = hash_batch(batch);
        assert_int_equal(hashes[device][2], hash_batch(running));
        pst_loader_close(&loader);
        /* these batches are still valid after their loader is closed */
        assert_int_equal(hashes[device][2], hash_batch(running));
        pst_batch_release(running);
        pst_batch_release(batch);
    }
    assert_memory_equal(hashes[0], hashes[1], sizeof hashes[0]);
}

static void test_bad_samples(void **state)
{
    static const enum pst_on_error policies[] = {PST_ON_ERROR_SKIP, PST_ON_ERROR_REPLACE};
    (void)state;
    for (int no_verify = 0; no_verify < 2; no_verify++)
        for (int i = 0; i < 2; i++) {
            struct pst_loader_options options = augmented_options(&kept, 24, 20);
            struct pst_loader_stats gpu, host;
            uint64_t hashes[STEPS_MAX];
            options.on_error = policies[i];
            options.no_verify = no_verify; /* without verification, only decoders find errors */
            epoch(spoilt, &options, hashes, &host);
            options.placement = PST_PLACEMENT_DEVICE;
            compare(spoilt, &options, &gpu);
            assert_int_equal(gpu.n_bad, host.n_bad);
            assert_int_equal(gpu.n_replaced, host.n_replaced);
            assert_int_equal(gpu.n_samples, host.n_samples);
            if (!no_verify)
                assert_true(gpu.n_bad >= 2);
        }
    struct pst_loader_options options = augmented_options(&kept, 24, 20);
    struct pst_error errors[2], err;
    for (int device = 0; device < 2; device++) {
        pst_batch *batch;
        enum pst_status status;
        options.placement = device ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        pst_loader *loader = open_loader(spoilt, &options);
        assert_ok(pst_loader_begin(loader, 3, &err));
        while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK)
            pst_batch_release(batch);
        errors[device] = err;
        assert_int_equal(status, PST_ERROR_CHECKSUM);
        pst_loader_close(&loader);
    }
    assert_int_equal(errors[1].sample, errors[0].sample);
    assert_string_equal(errors[1].text, errors[0].text);
}

/* Most images are small. A batch of the few large ones does not fit into a memory block sized for
 * small ones, not even as finished rows. */
static void test_rows_without_room(void **state)
{
    static uint8_t pixels[200 * 200 * 3];
    const struct pst_field fields[1] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1}};
    const uint64_t large[8] = {60, 61, 62, 63, 64, 65, 66, 67};
    struct pst_loader_stats stats;
    struct pst_error err;
    struct pst_op op;
    pst_writer *writer;
    pst_dataset *dataset;
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/sizes", directory);
    assert_ok(pst_writer_open(
        path, fields, 1,
        &(struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options)}, &writer,
        &err));
    for (uint32_t i = 0; i < 68; i++) {
        uint32_t edge = i < 60 ? 8 : 200;
        char name[16];
        make_pixels(i, edge, edge, pixels);
        const struct pst_value value = {.bytes = pixels,
                                        .nbytes = (size_t)edge * edge * 3,
                                        .form = PST_FORM_RAW,
                                        .height = edge,
                                        .width = edge,
                                        .channels = 3,
                                        .bits = 8};
        const struct pst_value *values[1] = {&value};
        snprintf(name, sizeof name, "%u", i);
        add_sample(writer, name, values);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    pst_op_init(&op, sizeof op, PST_OP_RESIZE);
    op.height = op.width = 100;
    const struct pst_field_output output = {.name = "image", .ops = &op, .n_ops = 1};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 8,
                                         .num_workers = 2,
                                         .indices = large,
                                         .n_indices = 8,
                                         .fields = &output,
                                         .n_fields = 1,
                                         TEST_ELEMENT_SIZES,
                                         .placement = PST_PLACEMENT_DEVICE};
    compare(dataset, &options, &stats);
    assert_true(stats.n_gpu_again > 0);
    assert_true(stats.n_gpu_fallback > 0);
    pst_dataset_close(&dataset);
}

static struct pst_loader_options crops(struct pst_op op[2], struct pst_field_output output[2])
{
    pst_op_init(&op[0], sizeof op[0], PST_OP_RANDOM_CROP);
    op[0].height = 48;
    op[0].width = 56;
    pst_op_init(&op[1], sizeof op[1], PST_OP_HORIZONTAL_FLIP);
    output[0] = (struct pst_field_output){
        .name = "image", .ops = op, .n_ops = 2, .dtype = PST_DTYPE_F16, .layout = PST_LAYOUT_CHW};
    output[1] = (struct pst_field_output){.name = "boxes", .ragged = PST_RAGGED_OFFSETS};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 6,
                                       .order = PST_ORDER_SHUFFLED,
                                       .num_workers = 2,
                                       .fields = output,
                                       .n_fields = 2,
                                       TEST_ELEMENT_SIZES};
}

/* Makes four views of an image. Three of them share an array. The fourth has an array of its own:
 * it is a large crop, which is resized. */
static struct pst_loader_options views(struct pst_op op[3], struct pst_field_output outputs[2])
{
    struct pst_loader_options options = crops(op, outputs);
    pst_op_init(&op[2], sizeof op[2], PST_OP_RANDOM_RESIZED_CROP);
    op[2].height = op[2].width = 40;
    outputs[0].as = "small";
    outputs[0].n_views = 3;
    outputs[1] = (struct pst_field_output){.name = "image",
                                           .as = "large",
                                           .first_view = 3,
                                           .ops = &op[2],
                                           .n_ops = 1,
                                           .dtype = PST_DTYPE_F16};
    options.n_fields = 2;
    options.only_listed = true;
    return options;
}

/* Views are those in host memory, whoever decodes: the GPU, the CPU, or both. */
static void test_views(void **state)
{
    static const double parts[] = {0, 0.5};
    struct pst_field_output outputs[2];
    struct pst_loader_stats stats;
    struct pst_error err;
    struct pst_op op[3];
    pst_dataset *pli;
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/pli-views", directory);
    make_pli(path, 24, true);
    assert_ok(pst_dataset_open(path, NULL, &pli, &err));
    for (int i = 0; i < 4; i++) {
        struct pst_loader_options options = views(op, outputs);
        options.placement = PST_PLACEMENT_DEVICE;
        options.num_workers = i & 1 ? 2 : 0;
        options.gpu_part = parts[i >> 1];
        compare(pli, &options, &stats);
        assert_true(stats.n_gpu_samples > 0);
        if (options.num_workers == 0 && options.gpu_part == 0)
            assert_int_equal(stats.n_gpu_samples, 4 * 24); /* each view of each image */
        op[0].pad_if_needed = true;                        /* some images of `mixed` are smaller */
        compare(mixed, &options, &stats);
    }
    pst_dataset_close(&pli);
}

static void test_forms_of_pli(void **state)
{
    struct pst_field_output output[2];
    struct pst_loader_stats stats;
    struct pst_error err;
    struct pst_op op[2];
    pst_dataset *dataset;
    char path[128];
    (void)state;
    for (int checksums = 0; checksums < 2; checksums++) {
        snprintf(path, sizeof path, "%s/pli%d", directory, checksums);
        make_pli(path, 24, checksums);
        assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
        for (int memory = 0; memory < 2; memory++) {
            struct pst_loader_options options = crops(op, output);
            options.placement = PST_PLACEMENT_DEVICE;
            options.storage = memory ? PST_STORAGE_MEMORY : PST_STORAGE_THREADS;
            options.num_workers = memory ? 2 : 0;
            compare(dataset, &options, &stats);
            assert_true(stats.n_gpu_samples > 0);
            assert_true(stats.n_units_decoded < stats.n_units_whole);
            assert_true(memory || !checksums || stats.n_partial_reads > 0);
        }
        pst_dataset_close(&dataset);
    }
}

/* Damages bytes that no checksum covers. The GPU detects the errors, and the CPU names them. */
static void test_corrupt_units(void **state)
{
    static const enum pst_on_error policies[] = {PST_ON_ERROR_SKIP, PST_ON_ERROR_REPLACE};
    struct pst_field_output output[2], outputs[2];
    struct pst_loader_stats gpu, host;
    struct pst_error err, errors[2];
    struct pst_op op[3];
    uint64_t hashes[STEPS_MAX];
    pst_dataset *dataset;
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/corrupt", directory);
    make_pli(path, 24, false);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    spoil_units(dataset, 24);
    for (int i = 0; i < 3; i++) { /* too many views are bad for replacing them */
        struct pst_loader_options options = i < 2 ? crops(op, output) : views(op, outputs);
        options.no_verify = true;
        options.on_error = policies[i % 2];
        epoch(dataset, &options, hashes, &host);
        assert_true(host.n_bad > 0);
        options.placement = PST_PLACEMENT_DEVICE;
        compare(dataset, &options, &gpu);
        assert_int_equal(gpu.n_bad, host.n_bad);
        assert_int_equal(gpu.n_replaced, host.n_replaced);
    }
    for (int device = 0; device < 2; device++) {
        struct pst_loader_options options = crops(op, output);
        pst_batch *batch;
        enum pst_status status;
        options.no_verify = true;
        options.placement = device ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        pst_loader *loader = open_loader(dataset, &options);
        assert_ok(pst_loader_begin(loader, 3, &err));
        while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK)
            pst_batch_release(batch);
        assert_int_not_equal(status, PST_END);
        errors[device] = err;
        pst_loader_close(&loader);
    }
    assert_int_equal(errors[1].status, errors[0].status);
    assert_int_equal(errors[1].sample, errors[0].sample);
    assert_int_equal(errors[1].offset, errors[0].offset);
    assert_string_equal(errors[1].text, errors[0].text);
    pst_dataset_close(&dataset);
}

static void test_device_memory_is_a_limit(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 20);
    struct pst_error err;
    pst_loader *loader;
    pst_batch *held[64];
    uint32_t n = 0;
    enum pst_status status;
    (void)state;
    options.placement = PST_PLACEMENT_DEVICE;
    options.batch_size = 1;
    options.device_memory = 1000;
    assert_int_equal(pst_loader_open(uniform, &options, &loader, &err), PST_ERROR_LIMIT);
    options.device_memory = 0;
    loader = open_loader(uniform, &options);
    uint64_t needed = stats_of(loader).device_memory_used; /* memory for prefetch + 1 slots */
    pst_loader_close(&loader);
    options.device_memory = needed;
    loader = open_loader(uniform, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    while ((status = pst_loader_next(loader, &held[n], &err)) == PST_OK)
        n++;
    assert_int_equal(status, PST_ERROR_LIMIT);
    assert_int_equal(n, 3);
    assert_non_null(strstr(err.text, "you hold 3"));
    assert_true(stats_of(loader).device_memory_peak <= needed);
    pst_batch_release(held[--n]);
    assert_ok(pst_loader_next(loader, &held[n++], &err)); /* the loader runs on afterwards */
    pst_loader_close(&loader);
    while (n > 0)
        pst_batch_release(held[--n]);
}

static void refuse(pst_dataset *dataset, const struct pst_loader_options *options,
                   enum pst_status status, const char *text)
{
    struct pst_error err;
    pst_loader *loader;
    assert_int_equal(pst_loader_open(dataset, options, &loader, &err), status);
    assert_null(loader);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in '%s'", text, err.text);
}

static void test_refusals(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 20);
    (void)state;
    options.decode = PST_DECODE_GPU;
    refuse(mixed, &options, PST_ERROR_ARGUMENT, "device");
    options.placement = PST_PLACEMENT_DEVICE;
    options.device = -1;
    refuse(mixed, &options, PST_ERROR_ARGUMENT, "device");
    options.placement = PST_PLACEMENT_HOST;
    options.decode = PST_DECODE_AUTO;
    options.device = 1; /* a GPU is named, but batches are to be in host memory */
    refuse(mixed, &options, PST_ERROR_ARGUMENT, "device");
    options.placement = (enum pst_placement)2;
    options.device = 0;
    refuse(mixed, &options, PST_ERROR_ARGUMENT, "placement");
    options.placement = PST_PLACEMENT_DEVICE;
    options.decode = PST_DECODE_GPU;
    options.gpu_part = 1.5;
    refuse(mixed, &options, PST_ERROR_ARGUMENT, "gpu_part");
    options.gpu_part = 0;
    options.device = 1000;
    refuse(mixed, &options, PST_ERROR_UNSUPPORTED, "GPU");
    options.device = 0;
    kept.outputs[0].channels = 255; /* the stored number */
    refuse(mixed, &options, PST_ERROR_ARGUMENT, "one number of channels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_in_host_memory),
        cmocka_unit_test(test_times_of_the_gpu),
        cmocka_unit_test(test_decode_places),
        cmocka_unit_test(test_recoded_in_a_cache),
        cmocka_unit_test(test_resume_elsewhere),
        cmocka_unit_test(test_fetch_and_replay),
        cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_rows_without_room),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_forms_of_pli),
        cmocka_unit_test(test_corrupt_units),
        cmocka_unit_test(test_device_memory_is_a_limit),
        cmocka_unit_test(test_refusals),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
