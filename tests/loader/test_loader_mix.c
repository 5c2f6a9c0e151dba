/* test_loader_mix.c - tests images that are mixed within a batch: MixUp and CutMix rows equal
 * what pst_batch_mix says, computed from the same batch without mixing; the tiles of a mosaic
 * show what the batch says of them; later operations move the whole mosaic; what cannot be mixed
 * is refused. */
#include "loader/loader_fixture.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { N = 26, BATCH = 4, HEIGHT = 32, WIDTH = 48, CHANNELS = 3, ROW = HEIGHT * WIDTH * CHANNELS };

static pst_dataset *same, *masked;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    same = open_made(directory, "same.pst", &(struct make_options){.n_samples = N});
    masked = open_made(directory, "masked.pst",
                       &(struct make_options){.n_samples = N, .all_fields = true});
    return 0;
}

TEAR_DOWN(&same, &masked)

/* Holds the arrays that the loader's options point to. */
struct kept {
    struct pst_op crop;
    struct pst_field_output output;
};

/* Returns options for images of one size, as (N,H,W,C) uint8. */
static struct pst_loader_options plain_options(struct kept *kept)
{
    pst_op_init(&kept->crop, sizeof kept->crop, PST_OP_CENTER_CROP);
    kept->crop.height = HEIGHT;
    kept->crop.width = WIDTH;
    kept->output = (struct pst_field_output){.name = "image", .ops = &kept->crop, .n_ops = 1};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = 2,
                                       .fields = &kept->output,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES};
}

static const uint8_t *row_of(const pst_batch *batch, uint32_t row)
{
    struct pst_tensor tensor;
    assert_int_equal(pst_batch_row(batch, 0, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.dtype, PST_DTYPE_U8);
    return tensor.data;
}

/* Checks a mixed row against the unmixed rows of its own sample and of its partner. */
static void check_row(const uint8_t *row, const uint8_t *own, const uint8_t *partner,
                      const struct pst_batch_mix *mix)
{
    for (uint32_t i = 0; i < ROW; i++) {
        uint32_t x = i / CHANNELS % WIDTH, y = i / CHANNELS / WIDTH;
        double wanted = own[i];
        if (mix->kind == PST_MIX_MIXUP)
            wanted = (double)mix->lambda * own[i] + (1 - (double)mix->lambda) * partner[i];
        else if (x - mix->x < mix->width && y - mix->y < mix->height)
            wanted = partner[i];
        double slack = mix->kind == PST_MIX_MIXUP ? 0.501 : 0;
        assert_true(fabs(row[i] - wanted) <= slack);
    }
}

/* Runs both loaders through an epoch. Adds the number of batches of each kind of mixing to
 * n_kinds. */
static void compare_epochs(pst_loader *plain, pst_loader *mixing, uint64_t epoch,
                           uint32_t n_kinds[3])
{
    struct pst_error err;
    pst_batch *before, *after;
    assert_ok(pst_loader_begin(plain, epoch, &err));
    assert_ok(pst_loader_begin(mixing, epoch, &err));
    while (pst_loader_next(mixing, &after, &err) == PST_OK) {
        struct pst_batch_mix mix = {0};
        assert_ok(pst_loader_next(plain, &before, &err));
        assert_false(pst_batch_mix(before, &mix, sizeof mix));
        assert_int_equal(mix.kind, 0);
        assert_true(pst_batch_mix(after, &mix, sizeof mix));
        assert_true(mix.is_applied);
        assert_true(mix.lambda >= 0 && mix.lambda <= 1);
        if (mix.kind == PST_MIX_CUTMIX) {
            assert_true(mix.x + mix.width <= WIDTH && mix.y + mix.height <= HEIGHT);
            double outside = 1 - (double)mix.width * mix.height / (HEIGHT * WIDTH);
            assert_true(fabs((double)mix.lambda - outside) < 1e-6);
        }
        uint32_t n = pst_batch_count(after);
        assert_int_equal(pst_batch_count(before), n);
        for (uint32_t row = 0; row < n; row++)
            check_row(row_of(after, row), row_of(before, row), row_of(before, (row + n - 1) % n),
                      &mix);
        n_kinds[mix.kind]++;
        pst_batch_release(before);
        pst_batch_release(after);
    }
    assert_int_equal(pst_loader_next(plain, &before, &err), PST_END);
}

static void batches_are_mixed_as_they_say(void **state)
{
    static const struct pst_mix ways[] = {{.kind = PST_MIX_MIXUP, .alpha = 0.8F},
                                          {.kind = PST_MIX_CUTMIX, .alpha = 1}};
    struct kept kept;
    uint32_t n_kinds[3] = {0};
    (void)state;
    struct pst_loader_options options = plain_options(&kept);
    pst_loader *plain = open_loader(same, &options);
    options.mixes = ways;
    options.n_mixes = 2;
    options.mix_nbytes = sizeof *ways;
    pst_loader *mixing = open_loader(same, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        compare_epochs(plain, mixing, epoch, n_kinds);
    assert_true(n_kinds[PST_MIX_MIXUP] > 0 && n_kinds[PST_MIX_CUTMIX] > 0);
    pst_loader_close(&plain);
    pst_loader_close(&mixing);
}

/* Holds the requested outputs for image, boxes, points and mask. */
struct mosaic_kept {
    struct kept image;
    struct pst_field_output outputs[4];
    struct pst_mix way;
};

static struct pst_loader_options mosaic_options(struct mosaic_kept *kept)
{
    struct pst_loader_options options = plain_options(&kept->image);
    kept->way = (struct pst_mix){.kind = PST_MIX_MOSAIC, .p = 0.7F};
    kept->outputs[0] = kept->image.output;
    kept->outputs[0].gives_geometry = kept->outputs[0].gives_tiles = true;
    kept->outputs[1] = (struct pst_field_output){.name = "boxes"};
    kept->outputs[2] = (struct pst_field_output){.name = "points", .per_box_of = ""};
    kept->outputs[3] = (struct pst_field_output){.name = "mask"};
    options.fields = kept->outputs;
    options.n_fields = 4;
    options.only_listed = true;
    options.mixes = &kept->way;
    options.n_mixes = 1;
    options.mix_nbytes = sizeof kept->way;
    return options;
}

/* Returns a row of the batch's array of that name. */
static struct pst_tensor row_named(const pst_batch *batch, const char *name, uint32_t row)
{
    struct pst_tensor tensor = {.ndim = 0};
    for (uint32_t i = 0; i < pst_batch_n_fields(batch); i++)
        if (strcmp(pst_batch_field_name(batch, i), name) == 0)
            assert_int_equal(pst_batch_row(batch, i, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_true(tensor.ndim > 0);
    return tensor;
}

/* Compares one tile of a mosaic with the picture of its sample alone, placed as the tile's matrix
 * says. Returns the number of pixels compared. */
static int64_t check_tile(pst_loader *plain, const struct pst_tensor *image, const int64_t *box,
                          uint64_t sample, const double *m, const int64_t *size)
{
    pst_batch *alone = NULL;
    assert_int_equal(pst_loader_fetch(plain, 0, &sample, 1, &alone, NULL), PST_OK);
    const double *own = row_named(alone, "image_geometry", 0).data;
    const int64_t *own_size = row_named(alone, "image_original_size", 0).data;
    const uint8_t *want = row_of(alone, 0), *got = image->data;
    int64_t dx = (int64_t)(m[2] - own[2]), dy = (int64_t)(m[5] - own[5]);
    assert_true(size[0] == own_size[0] && size[1] == own_size[1]);
    for (int64_t y = box[1]; y < box[3]; y++)
        assert_memory_equal(got + (y * WIDTH + box[0]) * CHANNELS,
                            want + ((y - dy) * WIDTH + box[0] - dx) * CHANNELS,
                            (size_t)(box[2] - box[0]) * CHANNELS);
    pst_batch_release(alone);
    return (box[2] - box[0]) * (box[3] - box[1]);
}

static void tiles_show_what_the_batch_says(void **state)
{
    struct mosaic_kept kept;
    struct kept kept_alone;
    pst_batch *batch = NULL;
    struct pst_error err;
    uint32_t n_tiles = 0, n_boxes = 0;
    (void)state;
    struct pst_loader_options options = plain_options(&kept_alone);
    kept_alone.output.gives_geometry = true;
    options.only_listed = true;
    pst_loader *plain = open_loader(masked, &options);
    options = mosaic_options(&kept);
    pst_loader *loader = open_loader(masked, &options);
    assert_int_equal(pst_loader_begin(loader, 0, &err), PST_OK);
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        for (uint32_t row = 0; row < pst_batch_count(batch); row++) {
            struct pst_tensor image = row_named(batch, "image", row);
            const double *m = row_named(batch, "image_geometry", row).data;
            const int64_t *box = row_named(batch, "image_tiles", row).data,
                          *sample = row_named(batch, "image_tile_index", row).data,
                          *size = row_named(batch, "image_original_size", row).data;
            int64_t n_pixels = 0;
            assert_true(sample[0] == pst_batch_index(batch)[row]);
            for (uint32_t q = 0; q < PST_MOSAIC_TILES && sample[q] >= 0; q++, n_tiles++)
                n_pixels += check_tile(plain, &image, box + 4 * q, (uint64_t)sample[q], m + 9 * q,
                                       size + 2 * q);
            assert_int_equal(n_pixels, HEIGHT * WIDTH);
            struct pst_tensor boxes = row_named(batch, "boxes", row),
                              tile = row_named(batch, "boxes_tile", row);
            assert_int_equal(tile.shape[0], boxes.shape[0]);
            assert_int_equal(row_named(batch, "points_tile", row).shape[0],
                             row_named(batch, "points", row).shape[0]);
            for (int64_t i = 0; i < boxes.shape[0]; i++, n_boxes++) {
                const int64_t *at = box + 4 * ((const int64_t *)tile.data)[i];
                const float *one = (const float *)boxes.data + 4 * i;
                assert_true(one[0] >= (float)at[0] && one[2] <= (float)at[2]);
                assert_true(one[1] >= (float)at[1] && one[3] <= (float)at[3]);
            }
        }
        pst_batch_release(batch);
    }
    assert_true(n_tiles > 2 * N && n_tiles < 4 * N && n_boxes > 0);
    pst_loader_close(&loader);
    pst_loader_close(&plain);
}

/* Compares a flipped row with the row of the same mosaic before the flip: pixels, boxes and
 * matrices. */
static uint32_t check_flipped(const pst_batch *before, const pst_batch *after, uint32_t row)
{
    const uint8_t *want = row_named(before, "image", row).data,
                  *got = row_named(after, "image", row).data;
    for (uint32_t i = 0; i < HEIGHT * WIDTH; i++)
        assert_memory_equal(got + i * CHANNELS,
                            want + (i / WIDTH * WIDTH + WIDTH - 1 - i % WIDTH) * CHANNELS,
                            CHANNELS);
    const double flip[9] = {-1, 0, WIDTH, 0, 1, 0, 0, 0, 1},
                 *by = row_named(after, "image_mosaic_geometry", row).data,
                 *a = row_named(before, "image_geometry", row).data,
                 *b = row_named(after, "image_geometry", row).data;
    const int64_t *sample = row_named(after, "image_tile_index", row).data;
    assert_memory_equal(by, flip, sizeof flip);
    for (uint32_t q = 0; q < PST_MOSAIC_TILES && sample[q] >= 0; q++, a += 9, b += 9)
        for (int k = 0; k < 9; k++)
            assert_true(fabs(b[k] - (k < 3 ? WIDTH * a[6 + k] - a[k] : a[k])) < 1e-9);
    struct pst_tensor boxes = row_named(before, "boxes", row),
                      moved = row_named(after, "boxes", row);
    assert_int_equal(boxes.shape[0], moved.shape[0]);
    for (int64_t i = 0; i < boxes.shape[0]; i++) {
        const float *one = (const float *)boxes.data + 4 * i,
                    *other = (const float *)moved.data + 4 * i;
        assert_true(other[0] == WIDTH - one[2] && other[2] == WIDTH - one[0]);
        assert_true(other[1] == one[1] && other[3] == one[3]);
    }
    return (uint32_t)boxes.shape[0];
}

static void operations_behind_a_mosaic_move_all_of_it(void **state)
{
    struct mosaic_kept kept, kept_plain;
    struct pst_error err;
    struct pst_op flip;
    uint32_t n_boxes = 0;
    (void)state;
    struct pst_loader_options options = mosaic_options(&kept_plain);
    pst_loader *plain = open_loader(masked, &options);
    options = mosaic_options(&kept);
    pst_op_init(&flip, sizeof flip, PST_OP_HORIZONTAL_FLIP);
    flip.p = 1;
    kept.way.ops = &flip;
    kept.way.n_ops = 1;
    kept.way.op_nbytes = sizeof flip;
    pst_loader *loader = open_loader(masked, &options);
    memset(&flip, 0xFF, sizeof flip); /* the loader has copied the operation */
    assert_ok(pst_loader_begin(plain, 0, &err));
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (pst_batch *before, *after; pst_loader_next(loader, &after, &err) == PST_OK;) {
        assert_ok(pst_loader_next(plain, &before, &err));
        for (uint32_t row = 0; row < pst_batch_count(after); row++)
            n_boxes += check_flipped(before, after, row);
        pst_batch_release(before);
        pst_batch_release(after);
    }
    assert_true(n_boxes > 0);
    pst_loader_close(&loader);
    pst_loader_close(&plain);
}

static void tiles_are_refused(pst_dataset *dataset, const struct pst_loader_options *options,
                              const char *text)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    assert_int_equal(pst_loader_open(dataset, options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, text));
}

static void wishes_for_tiles_are_checked(void **state)
{
    struct mosaic_kept kept;
    (void)state;
    struct pst_loader_options options = mosaic_options(&kept);
    kept.outputs[0].gives_tiles = false;
    tiles_are_refused(masked, &options, "gives_tiles");
    options = mosaic_options(&kept);
    kept.outputs[0].gives_geometry = false;
    tiles_are_refused(masked, &options, "goes with gives_geometry");
    options = mosaic_options(&kept);
    /* the mask, whose geometry follows the image's */
    kept.outputs[3].gives_geometry = kept.outputs[3].gives_tiles = true;
    tiles_are_refused(masked, &options, "for the image that gives the sample's geometry");
    options = mosaic_options(&kept);
    kept.outputs[1].gives_tiles = true;
    tiles_are_refused(masked, &options, "for the image that gives the sample's geometry");
}

static void operations_behind_are_checked(void **state)
{
    struct mosaic_kept kept;
    struct pst_op op;
    (void)state;
    struct pst_loader_options options = mosaic_options(&kept);
    pst_op_init(&op, sizeof op, PST_OP_PAD);
    op.pad[0] = 1;
    kept.way.n_ops = 1;
    tiles_are_refused(masked, &options, "ops is not NULL");
    kept.way.ops = &op;
    tiles_are_refused(masked, &options, "op_nbytes of a mosaic");
    kept.way.op_nbytes = sizeof op;
    tiles_are_refused(masked, &options, "Pad behind a mosaic changes the size");
    kept.way.n_ops = 1000;
    tiles_are_refused(masked, &options, "n_ops of a mosaic is 1000");
    kept.way.n_ops = 1;
    pst_op_init(&op, sizeof op, PST_OP_RANDOM_IOU_CROP);
    tiles_are_refused(masked, &options, "it needs the boxes of one sample");
    options = plain_options(&kept.image);
    kept.way = (struct pst_mix){.kind = PST_MIX_MIXUP, .alpha = 1, .ops = &op, .n_ops = 1,
                                .op_nbytes = sizeof op};
    options.mixes = &kept.way;
    options.n_mixes = 1;
    options.mix_nbytes = sizeof kept.way;
    tiles_are_refused(same, &options, "behind mosaics alone");
}

static void refuse(pst_dataset *dataset, const struct pst_loader_options *options)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    assert_int_equal(pst_loader_open(dataset, options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "mix"));
    assert_null(loader);
}

static void what_cannot_be_mixed_is_refused(void **state)
{
    struct pst_mix way = {.kind = PST_MIX_MIXUP, .alpha = 1};
    struct kept kept;
    (void)state;
    struct pst_loader_options options = plain_options(&kept);
    options.mixes = &way;
    options.n_mixes = 1;
    options.mix_nbytes = sizeof way;
    way.alpha = 0;
    refuse(same, &options);
    way = (struct pst_mix){.kind = PST_MIX_CUTMIX + 2, .alpha = 1};
    refuse(same, &options);
    way = (struct pst_mix){.kind = PST_MIX_CUTMIX, .alpha = 1};
    options.n_mixes = PST_MAX_MIXES + 1;
    refuse(same, &options);
    options.n_mixes = 1;
    options.mix_field = "label";
    refuse(same, &options);
    options.mix_field = NULL;
    kept.output.n_ops = 0; /* the size of a stored image is unknown until it is read */
    refuse(same, &options);
    kept.output.n_ops = 1;
    options.n_fields = 0; /* 0: all fields, so the mask is delivered, too */
    options.fields = NULL;
    refuse(masked, &options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_mixed_as_they_say),
        cmocka_unit_test(tiles_show_what_the_batch_says),
        cmocka_unit_test(operations_behind_a_mosaic_move_all_of_it),
        cmocka_unit_test(wishes_for_tiles_are_checked),
        cmocka_unit_test(operations_behind_are_checked),
        cmocka_unit_test(what_cannot_be_mixed_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
