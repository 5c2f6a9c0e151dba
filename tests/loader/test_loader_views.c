/* test_loader_views.c - tests several views of one image, which is decoded once: is each view the
 * same as if it were made alone; do little memory, damage and impossible options have the
 * documented results? */
#include "loader/loader_fixture.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { N = 24, BATCH = 4, SIDE = 16, VIEW = SIDE * SIDE * 3, LARGE = 4, SMALL = 3 };

static pst_dataset *mixed;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_made(directory, "mixed.pst",
                      &(struct make_options){.n_samples = N, .images = MAKE_MIXED});
    return 0;
}

TEAR_DOWN(&mixed)

/* Holds the arrays that the loader's options point to. */
struct kept {
    struct pst_op large[2], small[2];
    struct pst_field_output outputs[3];
};

static void crop_op(struct pst_op *op, float from, float to)
{
    pst_op_init(op, sizeof *op, PST_OP_RANDOM_RESIZED_CROP);
    op->height = op->width = SIDE;
    op->scale[0] = from;
    op->scale[1] = to;
}

/* Returns options for LARGE views with large crops and SMALL views with small ones. */
static struct pst_loader_options views_options(struct kept *kept)
{
    crop_op(&kept->large[0], 0.6f, 1);
    crop_op(&kept->small[0], 0.05f, 0.3f);
    pst_op_init(&kept->large[1], sizeof kept->large[1], PST_OP_HORIZONTAL_FLIP);
    kept->small[1] = kept->large[1];
    kept->outputs[0] = (struct pst_field_output){
        .name = "image", .as = "large", .n_views = LARGE, .ops = kept->large, .n_ops = 2};
    kept->outputs[1] = (struct pst_field_output){.name = "image",
                                                 .as = "small",
                                                 .n_views = SMALL,
                                                 .first_view = LARGE,
                                                 .ops = kept->small,
                                                 .n_ops = 2};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = 2,
                                       .fields = kept->outputs,
                                       .n_fields = 2,
                                       .only_listed = true,
                                       TEST_ELEMENT_SIZES};
}

/* Checks the views of one row against a loader that makes only view `i_view`. */
static void compare_view(const struct pst_loader_options *options, const struct kept *all,
                         uint32_t i_view)
{
    struct kept kept = *all;
    struct pst_loader_options alone = *options;
    bool is_large = i_view < LARGE;
    kept.outputs[0] = (struct pst_field_output){.name = "image",
                                                .as = "one",
                                                .first_view = i_view,
                                                .ops = is_large ? kept.large : kept.small,
                                                .n_ops = 2};
    if (i_view == 0)
        kept.outputs[0].as = NULL; /* view 0 is the image itself */
    alone.fields = kept.outputs;
    alone.n_fields = 1;
    alone.num_workers = 0;
    pst_loader *loaders[2] = {open_loader(mixed, options), open_loader(mixed, &alone)};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pst_loader_begin(loaders[i], 1, NULL), PST_OK);
    for (uint32_t b = 0; b < N / BATCH; b++) {
        pst_batch *batches[2];
        struct pst_tensor tensors[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pst_loader_next(loaders[i], &batches[i], NULL), PST_OK);
        for (uint32_t row = 0; row < BATCH; row++) {
            assert_int_equal(
                pst_batch_row(batches[0], !is_large, row, &tensors[0], sizeof tensors[0], NULL),
                PST_OK);
            assert_int_equal(
                pst_batch_row(batches[1], 0, row, &tensors[1], sizeof tensors[1], NULL), PST_OK);
            assert_int_equal(tensors[0].ndim, 4);
            assert_int_equal(tensors[0].shape[0], is_large ? LARGE : SMALL);
            assert_int_equal(tensors[1].ndim, 3);
            uint32_t place = is_large ? i_view : i_view - LARGE;
            assert_memory_equal((const char *)tensors[0].data + place * VIEW, tensors[1].data,
                                VIEW);
        }
        for (int i = 0; i < 2; i++)
            pst_batch_release(batches[i]);
    }
    for (int i = 0; i < 2; i++)
        pst_loader_close(&loaders[i]);
}

static void test_views_are_what_each_is_alone(void **state)
{
    (void)state;
    struct kept kept;
    const struct pst_loader_options options = views_options(&kept);
    for (uint32_t i = 0; i < LARGE + SMALL; i++)
        compare_view(&options, &kept, i);
}

/* The large crops of all views together cover more pixels than the image has. */
static void test_an_image_is_decoded_once(void **state)
{
    (void)state;
    struct kept kept;
    const struct pst_loader_options options = views_options(&kept);
    uint64_t hashes[N];
    pst_loader *loader = open_loader(mixed, &options);
    assert_int_equal(pst_loader_begin(loader, 0, NULL), PST_OK);
    drain_epoch(loader, NULL, hashes);
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.n_cpu_samples, N);
    assert_int_equal(stats.fallbacks[PST_FALLBACK_VIEWS], 0);
    assert_string_equal(pst_fallback_name(PST_FALLBACK_VIEWS), "views");
    pst_loader_close(&loader);
}

/* Checks the names and draws of a batch: a repeated sample's draw is its position, all others are
 * 0. */
static void look_at_draws(pst_loader *loader, const pst_batch *batch)
{
    uint64_t epoch, step;
    (void)loader;
    pst_batch_place(batch, &epoch, &step);
    assert_string_equal(pst_batch_field_name(batch, 0), "large");
    assert_string_equal(pst_batch_field_name(batch, 1), "small");
    assert_int_equal(pst_batch_field_type(batch, 1), PST_FIELD_IMAGE);
    for (uint32_t row = 0; row < pst_batch_count(batch); row++) {
        assert_int_equal(pst_batch_draws(batch)[row], step * BATCH + row);
        assert_int_equal(pst_batch_index(batch)[row], pst_batch_index(batch)[row / 2 * 2]);
    }
}

static void test_repeats_have_draws(void **state)
{
    (void)state;
    struct kept kept;
    struct pst_loader_options options = views_options(&kept);
    uint64_t hashes[N];
    options.repeats = 2;
    pst_loader *loader = open_loader(mixed, &options);
    assert_int_equal(pst_loader_begin(loader, 3, NULL), PST_OK);
    assert_int_equal(drain_epoch(loader, look_at_draws, hashes), N / BATCH);
    pst_loader_close(&loader);
}

/* Checks that a matrix describes a crop, perhaps mirrored: its inverse maps the corners of the
 * delivered picture into the original, and the crop covers between `from` and `to` of the
 * original's area. */
static void check_crop(const double *m, int64_t height, int64_t width, double from, double to)
{
    assert_true(m[1] == 0 && m[3] == 0 && m[6] == 0 && m[7] == 0 && m[8] == 1);
    assert_true(m[0] != 0 && m[4] > 0);
    double x0 = -m[2] / m[0], x1 = (SIDE - m[2]) / m[0], y0 = -m[5] / m[4];
    double y1 = (SIDE - m[5]) / m[4], area = fabs(x1 - x0) * (y1 - y0) / (double)(height * width);
    assert_true(fmin(x0, x1) > -1e-6 && fmax(x0, x1) < (double)width + 1e-6);
    assert_true(y0 > -1e-6 && y1 < (double)height + 1e-6);
    /* crops have whole pixels */
    double rounding = (double)(height + width) / (double)(height * width);
    assert_true(area > from - rounding && area < to + rounding);
}

/* Checks the arrays that say how the pixels of each view were moved. */
static void look_at_geometry(pst_loader *loader, const pst_batch *batch)
{
    (void)loader;
    assert_int_equal(pst_batch_n_fields(batch), 6);
    assert_string_equal(pst_batch_field_name(batch, 1), "large_geometry");
    assert_string_equal(pst_batch_field_name(batch, 5), "small_original_size");
    for (uint32_t row = 0; row < pst_batch_count(batch); row++) {
        struct pst_tensor matrices[2], size;
        struct pst_item item;
        for (uint32_t k = 0; k < 2; k++)
            assert_int_equal(
                pst_batch_row(batch, 1 + 3 * k, row, &matrices[k], sizeof matrices[k], NULL),
                PST_OK);
        assert_int_equal(pst_batch_row(batch, 2, row, &size, sizeof size, NULL), PST_OK);
        assert_int_equal(matrices[0].shape[0], LARGE);
        assert_int_equal(matrices[1].dtype, PST_DTYPE_F64);
        assert_int_equal(size.dtype, PST_DTYPE_I64);
        const int64_t *sides = size.data;
        uint64_t sample = (uint64_t)pst_batch_index(batch)[row];
        int i_image = pst_dataset_find_field(mixed, "image");
        assert_int_equal(
            pst_dataset_item(mixed, sample, (uint32_t)i_image, 0, &item, sizeof item, NULL),
            PST_OK);
        assert_int_equal(sides[0], item.height);
        assert_int_equal(sides[1], item.width);
        for (uint32_t v = 0; v < LARGE; v++)
            check_crop((const double *)matrices[0].data + v * 9, sides[0], sides[1], 0.6, 1);
        for (uint32_t v = 0; v < SMALL; v++)
            check_crop((const double *)matrices[1].data + v * 9, sides[0], sides[1], 0.05, 0.3);
    }
}

static void test_views_say_their_geometry(void **state)
{
    (void)state;
    struct kept kept;
    const struct pst_loader_options options = views_options(&kept);
    uint64_t hashes[N];
    kept.outputs[0].gives_geometry = kept.outputs[1].gives_geometry = true;
    pst_loader *loader = open_loader(mixed, &options);
    assert_int_equal(pst_loader_begin(loader, 1, NULL), PST_OK);
    assert_int_equal(drain_epoch(loader, look_at_geometry, hashes), N / BATCH);
    pst_loader_close(&loader);
}

static void refuse(const struct pst_loader_options *options, const char *text)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    pst_error_clear(&err);
    assert_int_equal(pst_loader_open(mixed, options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, text));
    assert_null(loader);
}

static void test_refusals(void **state)
{
    (void)state;
    struct kept kept;
    char name[65];
    struct pst_loader_options options = views_options(&kept);
    kept.outputs[1].as = "large";
    refuse(&options, "two arrays of a batch would be called 'large'");
    kept.outputs[1].as = "";
    refuse(&options, "has 0 bytes");
    memset(name, 'a', 64);
    name[64] = '\0';
    kept.outputs[1].as = name;
    refuse(&options, "has 64 bytes");
    options = views_options(&kept);
    kept.outputs[0].as = NULL;
    refuse(&options, "need a name for the views");
    options = views_options(&kept);
    kept.outputs[1].n_views = PST_MAX_VIEWS + 1;
    refuse(&options, "n_views is at most");
    kept.outputs[1].n_views = PST_MAX_VIEWS;
    refuse(&options, "more than 64 views");
    options = views_options(&kept);
    kept.outputs[1].channels = 1;
    refuse(&options, "would be decoded to different pixels");
    options = views_options(&kept);
    kept.outputs[1].variant_mask = 1;
    refuse(&options, "are of one stored item");
    options = views_options(&kept);
    kept.outputs[0].scaled_decode = true;
    refuse(&options, "without scaled_decode");
    options = views_options(&kept);
    kept.outputs[1].name = "label";
    refuse(&options, "of type int");
    options = views_options(&kept);
    kept.outputs[1].n_ops = 0;
    refuse(&options, "may differ in size");
    options = views_options(&kept);
    kept.outputs[0].gives_geometry = true;
    pst_op_init(&kept.large[1], sizeof kept.large[1], PST_OP_ELASTIC);
    refuse(&options, "no matrix says");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_are_what_each_is_alone),
        cmocka_unit_test(test_an_image_is_decoded_once),
        cmocka_unit_test(test_repeats_have_draws),
        cmocka_unit_test(test_views_say_their_geometry),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
