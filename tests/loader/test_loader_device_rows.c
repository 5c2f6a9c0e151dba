/* test_loader_device_rows.c - images and masks of several sizes in batches on a GPU. Are they those
 * of host memory, as lists, padded and with offsets, whoever decodes them, and whatever goes wrong?
 * The GPU is the tests' own driver, whose memory the tests can read. */
#include "loader/loader_fixture.h"
#include "loader/make_pli_data.h"
#include "test.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define N_SAMPLES 45
#define N_PLI 12
#define STEPS_MAX 32

static pst_dataset *mixed, *uniform, *spoilt, *pli, *corrupt, *sizes;

static pst_dataset *open_data(const char *name, enum make_images images)
{
    return open_made(
        directory, name,
        &(struct make_options){
            .n_samples = N_SAMPLES, .images = images, .all_fields = true, .shard_nbytes = 100000});
}

static pst_dataset *open_pli(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    make_pli(path, N_PLI, true);
    return open_there(name);
}

/* Writes 60 small images and 8 large ones, and their masks. */
static pst_dataset *open_sizes(const char *name)
{
    static uint8_t pixels[200 * 200 * 3];
    const struct pst_field fields[2] = {{.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
                                        {.name = "mask", .type = PST_FIELD_MASK, .n_variants = 1}};
    struct pst_error err;
    pst_writer *writer;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_writer_open(
        path, fields, 2,
        &(struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options)}, &writer,
        &err));
    for (uint32_t i = 0; i < 68; i++) {
        uint32_t height = i < 60 ? 8 : 100 + 13 * (i - 60), width = i < 60 ? 8 : 200;
        char number[16];
        make_pixels(i, height, width, pixels);
        const struct pst_value image = {.bytes = pixels,
                                        .nbytes = (size_t)height * width * 3,
                                        .form = PST_FORM_RAW,
                                        .height = height,
                                        .width = width,
                                        .channels = 3,
                                        .bits = 8};
        struct pst_value mask = image;
        mask.nbytes = (size_t)height * width;
        mask.channels = 1;
        const struct pst_value *values[2] = {&image, &mask};
        snprintf(number, sizeof number, "%u", i);
        add_sample(writer, number, values);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    return open_there(name);
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_data("mixed", MAKE_MIXED);
    uniform = open_data("uniform", MAKE_RAW_SAME);
    spoilt = open_data("spoilt", MAKE_MIXED);
    spoil_sample(spoilt, 3, "image");
    spoil_sample(spoilt, 22, "mask");
    pli = open_pli("pli");
    corrupt = open_pli("corrupt");
    spoil_units(corrupt, N_PLI);
    sizes = open_sizes("sizes");
    return 0;
}

TEAR_DOWN(&mixed, &uniform, &spoilt, &pli, &corrupt, &sizes)

/* Operations and outputs to which the options point. */
static struct kept {
    struct pst_op ops[3], mask_ops[2];
    struct pst_field_output outputs[2];
} kept;

/* Options for images whose shorter side has 60 pixels, and their masks. `of_pli`: there are no
 * masks. */
static struct pst_loader_options options_of(enum pst_ragged ragged, bool of_pli)
{
    struct pst_op *ops = kept.ops;
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RESIZE);
    ops[0].height = 60;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    pst_op_init(&ops[2], sizeof ops[2], PST_OP_NORMALIZE);
    for (int c = 0; c < 4; c++) {
        ops[2].mean[c] = 0.45f;
        ops[2].std[c] = 0.22f;
    }
    kept.mask_ops[0] = ops[0];
    kept.mask_ops[0].interpolation = PST_INTERPOLATION_NEAREST;
    kept.mask_ops[1] = ops[1];
    kept.outputs[0] = (struct pst_field_output){
        .name = "image", .ops = ops, .n_ops = 3, .layout = PST_LAYOUT_CHW, .ragged = ragged};
    kept.outputs[1] = (struct pst_field_output){
        .name = "mask", .ops = kept.mask_ops, .n_ops = 2, .ragged = ragged};
    if (ragged == PST_RAGGED_PADDED) {
        kept.outputs[0].pad_value = -0.375;
        kept.outputs[0].pad_multiple = 32;
        kept.outputs[1].pad_value = 255;
    }
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 4,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 17,
                                       .num_workers = 2,
                                       .fields = kept.outputs,
                                       .n_fields = of_pli ? 1 : 2,
                                       TEST_ELEMENT_SIZES};
}

static uint64_t hash_tensor(uint64_t hash, const struct pst_tensor *tensor)
{
    struct psti_hash_state state;
    size_t nbytes = pst_dtype_nbytes(tensor->dtype);
    psti_hash_begin(&state);
    psti_hash_update(&state, &hash, sizeof hash);
    for (uint32_t i = 0; i < tensor->ndim; i++)
        nbytes *= (size_t)tensor->shape[i];
    psti_hash_update(&state, tensor->shape, tensor->ndim * sizeof tensor->shape[0]);
    psti_hash_update(&state, &tensor->dtype, sizeof tensor->dtype);
    psti_hash_update(&state, tensor->data, nbytes);
    return psti_hash_end(&state);
}

/* Hashes all that a batch shows: rows, whole arrays, and rows put together. */
static uint64_t hash_all(const pst_batch *batch)
{
    uint64_t hash = hash_batch(batch);
    struct pst_tensor tensor;
    for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++) {
        for (int part = 0; part <= PST_COLLATED_SHAPES; part++)
            if (pst_batch_collated(batch, f, (enum pst_collated)part, &tensor, sizeof tensor))
                hash = hash_tensor(hash + (uint64_t)part, &tensor);
        if (!pst_batch_is_ragged(batch, f)) {
            assert_int_equal(pst_batch_tensor(batch, f, &tensor, sizeof tensor, NULL), PST_OK);
            hash = hash_tensor(hash, &tensor);
        }
    }
    return hash;
}

/* Checks that all of the pixels lie on the device. */
static void check_places(const pst_batch *batch, int32_t device)
{
    struct pst_tensor tensor;
    for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++) {
        enum pst_field_type type = pst_batch_field_type(batch, f);
        if (type != PST_FIELD_IMAGE && type != PST_FIELD_MASK)
            continue;
        for (uint32_t row = 0; row < pst_batch_count(batch); row++) {
            assert_int_equal(pst_batch_row(batch, f, row, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.device, device);
        }
        for (int part = 0; part <= PST_COLLATED_SHAPES; part++)
            if (pst_batch_collated(batch, f, (enum pst_collated)part, &tensor, sizeof tensor))
                assert_int_equal(tensor.device, device);
        if (!pst_batch_is_ragged(batch, f)) {
            assert_int_equal(pst_batch_tensor(batch, f, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.device, device);
        }
    }
}

/* Runs `n_epochs` epochs from number 3 on. Returns the number of batches. */
static size_t run(pst_dataset *dataset, const struct pst_loader_options *options, uint32_t n_epochs,
                  uint64_t *hashes, struct pst_loader_stats *stats)
{
    struct pst_error err;
    enum pst_status status;
    pst_batch *batch;
    size_t n = 0;
    pst_loader *loader = open_loader(dataset, options);
    for (uint32_t e = 0; e < n_epochs; e++) {
        assert_ok(pst_loader_begin(loader, 3 + e, &err));
        while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
            check_places(batch, options->placement == PST_PLACEMENT_DEVICE ? 0 : -1);
            assert_true(n < (size_t)n_epochs * STEPS_MAX);
            hashes[n++] = hash_all(batch);
            pst_batch_release(batch);
        }
        if (status != PST_END)
            assert_ok(status);
    }
    if (stats)
        *stats = stats_of(loader);
    pst_loader_close(&loader);
    return n;
}

/* Compares epochs prepared in host memory with the same epochs prepared on a GPU. */
static void compare(pst_dataset *dataset, struct pst_loader_options options, uint32_t n_epochs,
                    struct pst_loader_stats *stats)
{
    uint64_t host[2 * STEPS_MAX], gpu[2 * STEPS_MAX];
    struct pst_loader_options plain = options;
    plain.decode = PST_DECODE_AUTO;
    plain.device_memory = 0;
    size_t n = run(dataset, &plain, n_epochs, host, NULL);
    options.placement = PST_PLACEMENT_DEVICE;
    assert_int_equal(run(dataset, &options, n_epochs, gpu, stats), n);
    for (size_t i = 0; i < n; i++)
        if (host[i] != gpu[i])
            fail_msg("batch %zu of %zu differs", i, n);
}

static void test_same_as_in_host_memory(void **state)
{
    static const double parts[] = {0, 0.5};
    struct pst_loader_stats stats;
    (void)state;
    for (int ragged = PST_RAGGED_LIST; ragged <= PST_RAGGED_OFFSETS; ragged++)
        for (int of_pli = 0; of_pli < 2; of_pli++)
            for (int i = 0; i < 8; i++) {
                if (of_pli && i != 3 && i != 7) /* the tests' kernels are slow */
                    continue;
                struct pst_loader_options options = options_of((enum pst_ragged)ragged, of_pli);
                options.num_workers = i & 1 ? 3 : 0;
                options.gpu_part = parts[i >> 1 & 1];
                options.decode = i == 7 ? PST_DECODE_CPU : PST_DECODE_AUTO;
                if (i & 4) {
                    kept.outputs[0].n_ops = kept.outputs[1].n_ops =
                        0; /* images as they are stored */
                    kept.outputs[0].layout = PST_LAYOUT_HWC;
                    kept.outputs[0].pad_value = ragged == PST_RAGGED_PADDED ? 77 : 0;
                }
                compare(of_pli ? pli : mixed, options, 2, &stats);
                assert_true((stats.n_gpu_samples > 0) == (i < 7));
            }
}

/* Images that happen to have one size are one array, as in host memory. */
static void test_one_size(void **state)
{
    uint64_t hashes[STEPS_MAX];
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    for (int ragged = PST_RAGGED_LIST; ragged <= PST_RAGGED_OFFSETS; ragged++) {
        struct pst_loader_options options = options_of((enum pst_ragged)ragged, false);
        compare(uniform, options, 1, NULL);
        options.placement = PST_PLACEMENT_DEVICE;
        pst_loader *loader = open_loader(uniform, &options);
        assert_ok(pst_loader_begin(loader, 0, &err));
        assert_ok(pst_loader_next(loader, &batch, &err));
        assert_false(pst_batch_is_ragged(batch, 0));
        hashes[0] = hash_all(batch);
        pst_loader_close(&loader);
        assert_int_equal(hash_all(batch), hashes[0]); /* it outlives its loader */
        pst_batch_release(batch);
    }
}

/* Batches that take the same memory get the same, however many slots there are. */
static void test_slots_do_not_grow(void **state)
{
    pst_batch *held[8];
    uint64_t used, last, most[2] = {0, 0}; /* of the first four batches, and of the others */
    struct pst_error err;
    (void)state;
    struct pst_loader_options options = options_of(PST_RAGGED_LIST, false);
    options.placement = PST_PLACEMENT_DEVICE;
    options.num_workers = 0;
    options.prefetch = 1;
    pst_loader *loader = open_loader(uniform, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    last = stats_of(loader).device_memory_used;
    for (int i = 0; i < 8; i++, last = used) {
        assert_ok(pst_loader_next(loader, &held[i], &err));
        used = stats_of(loader).device_memory_used;
        most[i / 4] = used - last > most[i / 4] ? used - last : most[i / 4];
    }
    assert_true(most[0] > 0 && most[1] <= most[0] + most[0] / 16);
    for (int i = 0; i < 8; i++)
        pst_batch_release(held[i]);
    pst_loader_close(&loader);
}

/* Bad samples are left out or replaced by others, of other sizes. Checksums find them before the
 * rows are made; without them the kernels do. */
static void test_bad_samples(void **state)
{
    static const enum pst_on_error policies[] = {PST_ON_ERROR_SKIP, PST_ON_ERROR_REPLACE};
    struct pst_loader_stats gpu, host;
    uint64_t hashes[STEPS_MAX];
    (void)state;
    for (int ragged = PST_RAGGED_LIST; ragged <= PST_RAGGED_OFFSETS; ragged++)
        for (int i = 0; i < 8; i++) {
            bool of_pli = i & 2;
            struct pst_loader_options options = options_of((enum pst_ragged)ragged, of_pli);
            options.on_error = policies[i & 1];
            options.no_verify = of_pli || i & 4;
            options.batch_size = of_pli ? 6 : 4;
            if (i & 4)
                kept.outputs[0].n_ops = kept.outputs[1].n_ops = 0;
            if (i & 4 && ragged == PST_RAGGED_PADDED)
                kept.outputs[0].pad_value = 3;
            run(of_pli ? corrupt : spoilt, &options, 1, hashes, &host);
            compare(of_pli ? corrupt : spoilt, options, 1, &gpu);
            assert_int_equal(gpu.n_samples, host.n_samples);
            assert_int_equal(gpu.n_bad, host.n_bad);
            assert_int_equal(gpu.n_replaced, host.n_replaced);
            assert_true(host.n_bad > 0);
        }
}

/* Rows that are larger than a whole block, which is sized for small images, are made one at a time.
 * The memory of rows grows to the largest batch. */
static void test_large_rows(void **state)
{
    const uint64_t large[10] = {0, 60, 1, 61, 62, 63, 64, 65, 66, 67};
    struct pst_loader_stats stats;
    (void)state;
    for (int ragged = PST_RAGGED_LIST; ragged <= PST_RAGGED_OFFSETS; ragged++)
        for (int i = 0; i < 4; i++) {
            struct pst_loader_options options = options_of((enum pst_ragged)ragged, true);
            kept.outputs[0].dtype = PST_DTYPE_F32;
            kept.outputs[0].n_ops = 0;
            options.batch_size = i & 1 ? 5 : 1;
            options.decode = i & 2 ? PST_DECODE_CPU : PST_DECODE_AUTO;
            options.indices = large;
            options.n_indices = 10;
            compare(sizes, options, 2, &stats);
            assert_true(stats.n_gpu_again > 0 || options.batch_size == 1);
        }
}

/* Some images find no space, and then their masks turn out to be bad. Such samples are counted
 * once, and only they are left out or replaced. */
static void test_bad_samples_without_space(void **state)
{
    static const uint64_t large[12] = {0, 60, 61, 1, 62, 63, 2, 64, 65, 3, 66, 67};
    struct pst_loader_stats gpu, host;
    uint64_t hashes[STEPS_MAX], n_again = 0;
    (void)state;
    pst_dataset *bad_sizes = open_sizes("bad_sizes");
    for (uint64_t sample = 61; sample < 67; sample += 1 + (sample == 63))
        spoil_sample(bad_sizes, sample, "mask");
    for (int ragged = PST_RAGGED_LIST; ragged <= PST_RAGGED_OFFSETS; ragged++)
        for (int i = 0; i < 12; i++) {
            struct pst_loader_options options = options_of((enum pst_ragged)ragged, false);
            kept.outputs[0].n_ops = kept.outputs[1].n_ops = 0;
            kept.outputs[0].pad_value = ragged == PST_RAGGED_PADDED ? 3 : 0;
            options.on_error = i & 1 ? PST_ON_ERROR_REPLACE : PST_ON_ERROR_SKIP;
            options.decode = i & 2 ? PST_DECODE_CPU : PST_DECODE_AUTO;
            options.batch_size = 3 + 3 * (uint32_t)(i >> 2);
            options.indices = large;
            options.n_indices = 12;
            run(bad_sizes, &options, 1, hashes, &host);
            compare(bad_sizes, options, 1, &gpu);
            assert_int_equal(gpu.n_samples, host.n_samples);
            assert_int_equal(gpu.n_bad, host.n_bad);
            assert_int_equal(gpu.n_replaced, host.n_replaced);
            assert_true(host.n_bad >= 5);
            n_again += gpu.n_gpu_again;
        }
    assert_true(n_again > 0);
    pst_dataset_close(&bad_sizes);
}

/* A row that is larger than a whole block counts in host_memory while it is made. If the memory
 * does not suffice, the loader prepares fewer batches at a time, or says so. */
static void test_large_rows_are_charged(void **state)
{
    static const uint64_t samples[2][6] = {{0, 1, 2, 3, 4, 5}, {0, 65, 1, 66, 2, 67}};
    uint64_t hashes[2 * STEPS_MAX], peaks[2];
    struct pst_loader_stats stats;
    struct pst_error err;
    pst_loader *loader;
    pst_batch *batch;
    (void)state;
    struct pst_loader_options options = options_of(PST_RAGGED_LIST, true);
    kept.outputs[0].n_ops = 0;
    kept.outputs[0].dtype = PST_DTYPE_F32;
    options.batch_size = 1;
    options.num_workers = 0;
    options.decode = PST_DECODE_CPU;
    options.placement = PST_PLACEMENT_DEVICE;
    options.n_indices = 6;
    for (int i = 0; i < 2; i++) {
        options.indices = samples[i];
        run(sizes, &options, 1, hashes, &stats);
        peaks[i] = stats.host_memory_peak;
    }
    assert_true(peaks[1] >= peaks[0] + 191 * 200 * 3 * sizeof(float));
    for (uint64_t memory = 2 * peaks[1]; memory > peaks[0]; memory -= peaks[1] / 10) {
        options.host_memory = memory;
        loader = NULL;
        enum pst_status status = pst_loader_open(sizes, &options, &loader, &err);
        if (status != PST_OK) {
            assert_int_equal(status, PST_ERROR_LIMIT);
            break;
        }
        assert_ok(pst_loader_begin(loader, 3, &err));
        for (size_t i = 0; (status = pst_loader_next(loader, &batch, &err)) == PST_OK; i++) {
            assert_int_equal(hash_all(batch), hashes[i]);
            pst_batch_release(batch);
        }
        if (status != PST_END) {
            assert_int_equal(status, PST_ERROR_LIMIT);
            assert_non_null(strstr(err.text, "host_memory"));
        }
        assert_true(stats_of(loader).host_memory_peak <= memory);
        pst_loader_close(&loader);
    }
}

static void test_fetch_replay_and_resume(void **state)
{
    const uint64_t samples[6] = {9, 9, 0, 11, 8, 2}; /* more samples than a batch holds */
    struct pst_error err;
    (void)state;
    for (int ragged = PST_RAGGED_LIST; ragged <= PST_RAGGED_OFFSETS; ragged++) {
        uint64_t hashes[2][4], whole[STEPS_MAX], rest[STEPS_MAX];
        struct pst_loader_options options = options_of((enum pst_ragged)ragged, true);
        struct pst_loader_state at;
        size_t n = run(pli, &options, 1, whole, NULL), n_rest = 0;
        for (int device = 0; device < 2; device++) {
            pst_batch *running, *batch;
            options.placement = device ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
            pst_loader *loader = open_loader(pli, &options);
            assert_ok(pst_loader_begin(loader, 3, &err));
            assert_ok(pst_loader_next(loader, &running, &err));
            pst_loader_state(loader, &at);
            assert_ok(pst_loader_fetch(loader, 3, samples, 6, &batch, &err));
            check_places(batch, device - 1);
            hashes[device][0] = hash_all(batch);
            pst_batch_release(batch);
            assert_ok(pst_loader_fetch(loader, 3, samples + 2, 1, &batch, &err));
            hashes[device][1] = hash_all(batch);
            pst_batch_release(batch);
            assert_ok(pst_loader_replay(loader, 3, 0, &batch, &err));
            hashes[device][2] = hash_all(batch);
            hashes[device][3] = hash_all(running);
            assert_int_equal(hashes[device][2], hashes[device][3]);
            pst_loader_close(&loader);
            pst_batch_release(running);
            pst_batch_release(batch);
        }
        assert_memory_equal(hashes[0], hashes[1], sizeof hashes[0]);
        pst_loader *loader = open_loader(pli, &options); /* on the GPU, after one batch elsewhere */
        pst_batch *batch;
        assert_ok(pst_loader_resume(loader, &at, &err));
        while (pst_loader_next(loader, &batch, &err) == PST_OK) {
            rest[n_rest++] = hash_all(batch);
            pst_batch_release(batch);
        }
        assert_int_equal(n_rest + 1, n);
        assert_memory_equal(rest, whole + 1, n_rest * sizeof *rest);
        pst_loader_close(&loader);
    }
}

/* Device memory is a limit for rows, too. With little of it the loader prepares fewer batches at a
 * time; with less it says so, and runs on when batches are released. */
static void test_device_memory_is_a_limit(void **state)
{
    uint64_t hashes[2 * STEPS_MAX], most;
    struct pst_loader_stats stats;
    struct pst_error err;
    pst_loader *loader;
    pst_batch *held[64], *batch;
    enum pst_status status;
    uint32_t n = 0;
    (void)state;
    struct pst_loader_options options = options_of(PST_RAGGED_PADDED, true);
    kept.outputs[0].n_ops = 0;
    kept.outputs[0].dtype = PST_DTYPE_F32;
    options.batch_size = 8;
    options.prefetch = 4;
    options.placement = PST_PLACEMENT_DEVICE;
    run(sizes, &options, 2, hashes, &stats);
    most = stats.device_memory_peak;
    loader = open_loader(sizes, &options);
    uint64_t least = stats_of(loader).device_memory_used; /* before any row is made */
    pst_loader_close(&loader);
    assert_true(least < most);
    for (uint64_t memory = most; memory > least; memory -= (most - least + 7) / 8) {
        options.device_memory = memory;
        loader = NULL;
        status = pst_loader_open(sizes, &options, &loader, &err);
        if (status == PST_OK)
            status = pst_loader_begin(loader, 3, &err);
        for (size_t i = 0; status == PST_OK; i++) {
            status = pst_loader_next(loader, &batch, &err);
            if (status != PST_OK)
                break;
            assert_int_equal(hash_all(batch), hashes[i]);
            pst_batch_release(batch);
        }
        if (status == PST_END) {
            assert_true(stats_of(loader).device_memory_peak <= memory);
        } else {
            assert_int_equal(status, PST_ERROR_LIMIT);
            assert_non_null(strstr(err.text, "device memory"));
        }
        pst_loader_close(&loader);
    }
    options.device_memory = most;
    loader = open_loader(sizes, &options);
    assert_ok(pst_loader_begin(loader, 3, &err));
    while ((status = pst_loader_next(loader, &held[n], &err)) == PST_OK)
        n++;
    if (status != PST_END) {
        assert_int_equal(status, PST_ERROR_LIMIT);
        assert_non_null(strstr(err.text, "you hold"));
        while (n > 0)
            pst_batch_release(held[--n]);
        assert_ok(pst_loader_next(loader, &held[n++], &err));
    }
    while (n > 0)
        pst_batch_release(held[--n]);
    pst_loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_in_host_memory),
        cmocka_unit_test(test_one_size),
        cmocka_unit_test(test_slots_do_not_grow),
        cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_large_rows),
        cmocka_unit_test(test_bad_samples_without_space),
        cmocka_unit_test(test_large_rows_are_charged),
        cmocka_unit_test(test_fetch_replay_and_resume),
        cmocka_unit_test(test_device_memory_is_a_limit),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
