/* test_loader_kinds.c - tests fields whose samples are stored in different ways: variants by form,
 * channels and bits of images, dtypes of masks. Batches are prepared in host memory and on the
 * simulated GPU of the tests' driver. */
#include "loader/loader_fixture.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6 };

/* A stored image or mask of SIDE x SIDE, in which every channel of every pixel is `value`. */
struct stored {
    enum pst_form form; /* RAW or PNG; NONE if this variant is absent */
    uint8_t channels, bits;
    uint16_t value;
};

static struct pst_value value_of(const struct stored *stored)
{
    struct pst_value value = {.form = stored->form};
    if (stored->form == PST_FORM_NONE)
        return value;
    size_t n = (size_t)SIDE * SIDE * stored->channels;
    uint8_t *pixels = malloc(2 * n);
    for (size_t i = 0; i < n; i++) {
        if (stored->bits == 8)
            pixels[i] = (uint8_t)stored->value;
        else
            memcpy(pixels + 2 * i, &stored->value, 2);
    }
    value.bytes = pixels;
    if (stored->form == PST_FORM_PNG) {
        value.bytes = encode_png(pixels, SIDE, SIDE, stored->channels, &value.nbytes);
        free(pixels);
        return value;
    }
    value.nbytes = n * stored->bits / 8;
    value.height = value.width = SIDE;
    value.channels = stored->channels;
    value.bits = stored->bits;
    return value;
}

/* Writes and opens a data set of n samples with one field. `stored` has the shape
 * [n][n_variants]. */
static pst_dataset *open_stored(enum pst_field_type type, const struct stored *stored, uint32_t n,
                                uint8_t n_variants)
{
    struct pst_field field = {.name = "field", .type = type, .n_variants = n_variants};
    struct pst_error err;
    pst_writer *writer;
    pst_dataset *dataset = NULL;
    static int number;
    char path[128];
    snprintf(path, sizeof path, "%s/%d.pst", directory, number++);
    assert_ok(pst_writer_open(path, &field, 1, NULL, &writer, &err));
    for (uint32_t i = 0; i < n; i++) {
        struct pst_value values[2];
        const struct pst_value *of_field = values;
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        for (uint32_t v = 0; v < n_variants; v++)
            values[v] = value_of(&stored[i * n_variants + v]);
        add_sample(writer, name, &of_field);
        for (uint32_t v = 0; v < n_variants; v++)
            free((void *)(uintptr_t)values[v].bytes);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static struct pst_loader_options options_of(struct pst_field_output *output, uint32_t n)
{
    output->name = "field";
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = n,
                                       .on_error = PST_ON_ERROR_SKIP,
                                       .fields = output,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES};
}

/* Runs an epoch and returns its only batch. */
static pst_batch *batch_of(pst_loader *loader)
{
    struct pst_error err;
    pst_batch *batch = NULL;
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    return batch;
}

/* Checks the first 8-bit element of each row, in the order of samples. The expected value of a
 * sample without a row is 0. */
static void check_firsts(pst_dataset *dataset, struct pst_field_output *output,
                         const uint8_t *expected, uint32_t n)
{
    const struct pst_loader_options options = options_of(output, n);
    pst_loader *loader = open_loader(dataset, &options);
    pst_batch *batch = batch_of(loader);
    uint8_t found[8] = {0};
    for (uint32_t row = 0; row < pst_batch_count(batch); row++) {
        struct pst_tensor tensor;
        assert_int_equal(pst_batch_row(batch, 0, row, &tensor, sizeof tensor, NULL), PST_OK);
        found[pst_batch_index(batch)[row]] = *(const uint8_t *)tensor.data;
    }
    assert_memory_equal(found, expected, n);
    pst_batch_release(batch);
    for (uint64_t i = 0; i < pst_loader_n_quarantined(loader); i++) {
        struct pst_error what;
        assert_int_equal(pst_loader_quarantined(loader, i, &what, NULL), PST_OK);
        assert_int_equal(expected[what.sample], 0);
        assert_non_null(strstr(what.text, "none of the forms allowed"));
    }
    pst_loader_close(&loader);
}

static void forms_are_found_in_any_variant(void **state)
{
    static const struct stored stored[4][2] = {
        {{PST_FORM_RAW, 3, 8, 10}, {PST_FORM_PNG, 3, 8, 20}},
        {{PST_FORM_PNG, 3, 8, 30}, {PST_FORM_RAW, 3, 8, 40}},
        {{PST_FORM_NONE, 0, 0, 0}, {PST_FORM_RAW, 3, 8, 50}},
        {{PST_FORM_PNG, 3, 8, 60}, {PST_FORM_NONE, 0, 0, 0}},
    };
    static const uint32_t raw = 1u << PST_FORM_RAW, png = 1u << PST_FORM_PNG;
    (void)state;
    pst_dataset *dataset = open_stored(PST_FIELD_IMAGE, stored[0], 4, 2);
    check_firsts(dataset, &(struct pst_field_output){.form_mask = 0},
                 (const uint8_t[]){10, 30, 50, 60}, 4);
    check_firsts(dataset, &(struct pst_field_output){.form_mask = raw},
                 (const uint8_t[]){10, 40, 50, 0}, 4);
    check_firsts(dataset, &(struct pst_field_output){.form_mask = png},
                 (const uint8_t[]){20, 30, 0, 60}, 4);
    check_firsts(dataset, &(struct pst_field_output){.form_mask = raw | png},
                 (const uint8_t[]){10, 30, 50, 60}, 4);
    check_firsts(dataset, &(struct pst_field_output){.form_mask = raw, .variant_mask = 2},
                 (const uint8_t[]){0, 40, 50, 0}, 4);
    check_firsts(dataset, &(struct pst_field_output){.form_mask = png, .encoded = true},
                 (const uint8_t[]){0x89, 0x89, 0, 0x89}, 4);
    struct pst_field_output output = {.form_mask = 1u << 30};
    const struct pst_loader_options options = options_of(&output, 4);
    struct pst_error err;
    pst_loader *loader;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "form_mask"));
    pst_dataset_close(&dataset);
}

/* Compares a batch in host memory with the same batch on the GPU. Returns the counters of the GPU's
 * loader. */
static struct pst_loader_stats compare(pst_dataset *dataset, struct pst_field_output *output,
                                       uint32_t n)
{
    struct pst_loader_options options = options_of(output, n);
    pst_loader *host = open_loader(dataset, &options);
    options.placement = PST_PLACEMENT_DEVICE;
    pst_loader *gpu = open_loader(dataset, &options);
    pst_batch *batches[2] = {batch_of(host), batch_of(gpu)};
    assert_int_equal(pst_batch_count(batches[0]), n);
    assert_true(hash_batch(batches[0]) == hash_batch(batches[1]));
    struct pst_loader_stats stats = stats_of(gpu);
    pst_batch_release(batches[0]);
    pst_batch_release(batches[1]);
    pst_loader_close(&host);
    pst_loader_close(&gpu);
    return stats;
}

static struct pst_op resize(void)
{
    struct pst_op op;
    pst_op_init(&op, sizeof op, PST_OP_RESIZE);
    op.height = op.width = 4;
    op.interpolation = PST_INTERPOLATION_NEAREST;
    return op;
}

static void masks_keep_their_numbers(void **state)
{
    static const struct stored stored[3] = {
        {PST_FORM_RAW, 1, 8, 200}, {PST_FORM_RAW, 1, 16, 60000}, {PST_FORM_PNG, 1, 8, 7}};
    static const enum pst_dtype dtypes[] = {PST_DTYPE_U16, PST_DTYPE_I32, PST_DTYPE_I64,
                                            PST_DTYPE_F32};
    (void)state;
    pst_dataset *dataset = open_stored(PST_FIELD_MASK, stored, 3, 1);
    const struct pst_op op = resize();
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
        struct pst_field_output output = {.dtype = dtypes[k], .ops = &op, .n_ops = 1};
        const struct pst_loader_options options = options_of(&output, 3);
        pst_loader *loader = open_loader(dataset, &options);
        pst_batch *batch = batch_of(loader);
        struct pst_tensor tensor;
        assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
        assert_int_equal(tensor.dtype, dtypes[k]);
        for (uint32_t i = 0; i < 3 * 4 * 4; i++) {
            const char *at = (const char *)tensor.data + i * pst_dtype_nbytes(dtypes[k]);
            int64_t number = 0;
            float real;
            if (dtypes[k] == PST_DTYPE_F32) {
                memcpy(&real, at, sizeof real);
                number = (int64_t)real;
            } else {
                memcpy(&number, at, pst_dtype_nbytes(dtypes[k]));
            }
            assert_int_equal(number, stored[i / 16].value);
        }
        pst_batch_release(batch);
        pst_loader_close(&loader);
        /* the masks of 16 bits and the PNG masks */
        assert_int_equal(compare(dataset, &output, 3).n_gpu_fallback, 2);
    }
    pst_dataset_close(&dataset);
}

/* Rows of floats are right even if the stored bit depth differs from the depth that the GPU expects
 * of the field. */
static void depths_may_be_mixed(void **state)
{
    static const struct stored stored[4] = {{PST_FORM_RAW, 3, 16, 30001},
                                            {PST_FORM_RAW, 3, 8, 117},
                                            {PST_FORM_RAW, 3, 16, 65535},
                                            {PST_FORM_PNG, 3, 8, 255}};
    static const enum pst_dtype dtypes[] = {PST_DTYPE_F32, PST_DTYPE_F16, PST_DTYPE_BF16};
    (void)state;
    pst_dataset *dataset = open_stored(PST_FIELD_IMAGE, stored, 4, 1);
    struct pst_op ops[2] = {resize(), resize()};
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_PAD);
    ops[1].pad[0] = 2;
    ops[1].fill[0] = 51;
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
        struct pst_field_output output = {
            .dtype = dtypes[k], .ops = ops, .n_ops = 2, .layout = PST_LAYOUT_CHW};
        const struct pst_loader_stats stats = compare(dataset, &output, 4);
        assert_int_equal(stats.n_gpu_samples, 2);
        assert_int_equal(stats.n_gpu_fallback, 2);
        assert_true(strstr(stats.gpu_fallback_reason, "16") != NULL);
    }
    struct pst_field_output output = {.dtype = PST_DTYPE_F32, .ops = ops, .n_ops = 2};
    const struct pst_loader_options options = options_of(&output, 4);
    pst_loader *loader = open_loader(dataset, &options);
    pst_batch *batch = batch_of(loader);
    struct pst_tensor tensor;
    assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
    for (uint32_t row = 0; row < 4; row++) {
        const float *pixels = (const float *)tensor.data + (size_t)row * 4 * 6 * 3;
        float most = stored[row].bits == 16 ? 65535.0f : 255.0f;
        assert_true(pixels[0] > 0.2f - 1e-6f && pixels[0] < 0.2f + 1e-6f);
        assert_true(pixels[6] == (float)stored[row].value * (1 / most));
    }
    pst_batch_release(batch);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
}

static void channels_are_the_images_own(void **state)
{
    static const struct stored stored[5] = {{PST_FORM_RAW, 2, 8, 1},
                                            {PST_FORM_RAW, 1, 16, 600},
                                            {PST_FORM_RAW, 4, 8, 3},
                                            {PST_FORM_RAW, 3, 8, 4},
                                            {PST_FORM_RAW, 2, 8, 5}};
    (void)state;
    pst_dataset *dataset = open_stored(PST_FIELD_IMAGE, stored, 5, 1);
    for (uint32_t planar = 0; planar < 2; planar++) {
        const struct pst_op op = resize();
        struct pst_field_output output = {.channels = PST_CHANNELS_STORED,
                                          .layout = (enum pst_layout)planar,
                                          .dtype = PST_DTYPE_F32,
                                          .ops = &op,
                                          .n_ops = 1};
        struct pst_loader_options options = options_of(&output, 5);
        pst_loader *loader = open_loader(dataset, &options);
        pst_batch *batch = batch_of(loader);
        assert_int_equal(pst_batch_count(batch), 5);
        assert_true(pst_batch_is_ragged(batch, 0));
        for (uint32_t row = 0; row < 5; row++) {
            struct pst_tensor tensor;
            float most = stored[row].bits == 16 ? 65535.0f : 255.0f;
            assert_int_equal(pst_batch_row(batch, 0, row, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.shape[planar ? 0 : 2], stored[row].channels);
            for (uint32_t i = 0; i < 16u * stored[row].channels; i++)
                assert_true(((const float *)tensor.data)[i] ==
                            (float)stored[row].value * (1 / most));
        }
        pst_batch_release(batch);
        pst_loader_close(&loader);
        struct pst_error err;
        options.placement = PST_PLACEMENT_DEVICE;
        assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
        assert_non_null(strstr(err.text, "channels"));
    }
    pst_dataset_close(&dataset);
}

/* An image whose channels do not suit the operations ends the epoch, and the error names the
 * image. */
static void normalize_is_for_its_channels(void **state)
{
    static const struct stored stored[3] = {
        {PST_FORM_RAW, 3, 8, 1}, {PST_FORM_RAW, 1, 8, 2}, {PST_FORM_RAW, 3, 8, 3}};
    (void)state;
    pst_dataset *dataset = open_stored(PST_FIELD_IMAGE, stored, 3, 1);
    struct pst_op op;
    struct pst_error err;
    pst_batch *batch;
    pst_op_init(&op, sizeof op, PST_OP_NORMALIZE);
    op.n_channels = 3;
    struct pst_field_output output = {.channels = PST_CHANNELS_STORED, .ops = &op, .n_ops = 1};
    struct pst_loader_options options = options_of(&output, 1);
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_release(batch);
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_ERROR_UNSUPPORTED);
    assert_int_equal(err.sample, 1);
    assert_non_null(strstr(err.text, "1 channels of 8 bits here"));
    pst_loader_close(&loader);
    op.n_channels = 0;
    loader = open_loader(dataset, &options);
    pst_batch_release(batch_of(loader));
    pst_loader_close(&loader);
    op.n_channels = 3;
    output.channels = 4;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "another number of channels"));
    output.channels = 0;
    op.mean[1] = 123.7f;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "divide means of 0..255 by 255"));
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_found_in_any_variant),
        cmocka_unit_test(masks_keep_their_numbers),
        cmocka_unit_test(depths_may_be_mixed),
        cmocka_unit_test(channels_are_the_images_own),
        cmocka_unit_test(normalize_is_for_its_channels),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    return cmocka_run_group_tests(tests, directory_set_up, directory_tear_down);
}
