/* Guards against hazards: random parameters leave their ranges, depend on something that they must
 * not depend on, or differ between machines; wrong parameters are accepted; a failed allocation or
 * a scratch limit leaves something behind. */
#include "augment_helper.h"

#include "base/fault.h"

#include <math.h>

static struct psti_chain *compile(const struct pst_op *ops, size_t n, uint8_t channels)
{
    struct pst_error err;
    struct psti_chain *chain;
    struct psti_chain_output format = {.channels = channels, .bits = 8};
    assert_ok(psti_augment_chain_compile(ops, n, &format, &chain, &err));
    return chain;
}

static void exp_is_close(void **state)
{
    (void)state;
    for (int i = 1; i < 20000; i++) {
        double y = (i - 10000) * 0.0137;
        assert_true(fabs(psti_augment_exp(y) / exp(y) - 1) <= 4e-15 * (1 + fabs(y)));
    }
    assert_true(psti_augment_exp(0) == 1);
}

/* Checks torchvision's rule: areas are uniform within `scale` as far as they fit, and the
 * logarithms of ratios are uniform. */
static void resized_crop_distribution(void **state)
{
    (void)state;
    struct pst_op op = make_op(PST_OP_RANDOM_RESIZED_CROP, 224, 224);
    struct psti_chain *chain = compile(&op, 1, 3);
    struct pst_error err;
    struct psti_draw draw;
    double area = 0, ratio = 0, centre = 0;
    int n = 20000, low_areas = 0;
    for (int i = 0; i < n; i++) {
        assert_ok(psti_augment_chain_draw(
            chain, &(struct psti_draw_key){.seed = 9, .epoch = 2, .sample = (uint64_t)i}, 400, 400,
            &draw, &err));
        uint32_t y = psti_augment_draw_low(draw.opaque[0]),
                 x = psti_augment_draw_high(draw.opaque[0]);
        uint32_t h = psti_augment_draw_low(draw.opaque[1]),
                 w = psti_augment_draw_high(draw.opaque[1]);
        assert_true(h >= 1 && w >= 1 && y + h <= 400 && x + w <= 400);
        assert_true((double)w / h > 0.74 && (double)w / h < 1.35);
        assert_true((double)w * h / 160000 > 0.079);
        area += (double)w * h / 160000 / n;
        ratio += log((double)w / h) / n;
        centre += (y + h / 2.0) / 400 / n;
        low_areas += (double)w * h < 0.08 * 160000 + 0.46 * 160000;
    }
    assert_true(fabs(ratio) < 0.01);
    assert_true(fabs(centre - 0.5) < 0.01);
    /* A simulation of torchvision's get_params gives 0.4782 and 0.5825, because large areas often
     * do not fit. */
    assert_true(fabs(area - 0.4782) < 0.008);
    assert_true(fabs((double)low_areas / n - 0.5825) < 0.015);
    psti_augment_chain_free(&chain);
}

/* No ratio fits a very narrow image, so the crop is the centred one. */
static void resized_crop_fallback(void **state)
{
    (void)state;
    struct pst_op op = make_op(PST_OP_RANDOM_RESIZED_CROP, 8, 8);
    op.scale[0] = 0.9f;
    struct psti_chain *chain = compile(&op, 1, 3);
    struct pst_error err;
    struct psti_draw draw;
    assert_ok(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 5}, 10,
                                      1000, &draw, &err));
    assert_int_equal(psti_augment_draw_low(draw.opaque[1]), 10);
    assert_int_equal(psti_augment_draw_high(draw.opaque[1]), 13); /* round(10 * 4/3) */
    assert_int_equal(psti_augment_draw_high(draw.opaque[0]), 493);
    assert_ok(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 5}, 1000,
                                      10, &draw, &err));
    assert_int_equal(psti_augment_draw_low(draw.opaque[1]), 13);
    assert_ok(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 5}, 1, 1,
                                      &draw, &err));
    assert_int_equal(draw.region_height, 1);
    psti_augment_chain_free(&chain);
}

static void flips_have_their_probability(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_draw draw;
    for (int k = 0; k <= 4; k++) {
        struct pst_op op = make_op(PST_OP_HORIZONTAL_FLIP, 0, 0);
        op.p = (float)k / 4;
        struct psti_chain *chain = compile(&op, 1, 1);
        int flipped = 0;
        for (uint64_t i = 0; i < 4000; i++) {
            assert_ok(psti_augment_chain_draw(
                chain, &(struct psti_draw_key){.seed = 1, .sample = i}, 4, 4, &draw, &err));
            flipped += draw.opaque[0] != 0;
        }
        assert_true(abs(flipped - 1000 * k) < (k == 0 || k == 4 ? 1 : 130));
        psti_augment_chain_free(&chain);
    }
}

static void crops_are_uniform(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_draw draw;
    struct pst_op op = make_op(PST_OP_RANDOM_CROP, 5, 5);
    struct psti_chain *chain = compile(&op, 1, 1);
    int count[4][3] = {{0}};
    for (uint64_t i = 0; i < 12000; i++) {
        assert_ok(psti_augment_chain_draw(
            chain, &(struct psti_draw_key){.seed = 4, .epoch = 1, .sample = i}, 8, 7, &draw, &err));
        count[draw.region_y][draw.region_x]++;
        assert_int_equal(draw.region_height, 5);
    }
    for (int i = 0; i < 12; i++)
        assert_true(abs(count[i / 3][i % 3] - 1000) < 150);
    psti_augment_chain_free(&chain);
}

/* All 24 orders of the jitter occur equally often, and factors cover their whole range. */
static void jitter_is_drawn_evenly(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_draw draw;
    struct pst_op op = make_op(PST_OP_COLOR_JITTER, 0, 0);
    op.brightness[0] = 0.6f;
    op.brightness[1] = 1.4f;
    struct psti_chain *chain = compile(&op, 1, 3);
    int orders[24] = {0};
    float low = 9, high = 0;
    for (uint64_t i = 0; i < 24000; i++) {
        assert_ok(psti_augment_chain_draw(
            chain, &(struct psti_draw_key){.seed = 4, .epoch = 1, .sample = i}, 8, 7, &draw, &err));
        float factors[4];
        memcpy(factors, draw.opaque, sizeof factors);
        low = fminf(low, factors[0]);
        high = fmaxf(high, factors[0]);
        assert_true(factors[1] == 1 && factors[3] == 0);
        orders[draw.opaque[2]]++;
    }
    for (int i = 0; i < 24; i++)
        assert_true(abs(orders[i] - 1000) < 150);
    assert_true(low >= 0.6f && low < 0.601f && high <= 1.4f && high > 1.399f);
    psti_augment_chain_free(&chain);
}

/* Compares draws with those of another implementation of the rule in augment_draw.c. These numbers
 * must not change as long as PSTI_AUGMENT_VERSION stays the same. */
static void draws_are_pinned(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_draw draw;
    struct pst_op ops[3] = {make_op(PST_OP_RANDOM_RESIZED_CROP, 224, 224),
                            make_op(PST_OP_HORIZONTAL_FLIP, 0, 0),
                            make_op(PST_OP_RANDOM_CROP, 100, 100)};
    struct psti_chain *chain = compile(ops, 3, 3);
    static const uint32_t expected[4][7] = {
        {78, 304, 176, 188, 1, 71, 12},
        {131, 147, 233, 240, 0, 118, 85},
        {2, 34, 333, 389, 1, 10, 121},
        {4, 37, 320, 298, 1, 37, 113},
    };
    static const uint64_t draws[4] = {0, 0, 7, (uint64_t)1 << 40};
    static const uint32_t views[4] = {0, 0, 0, 3};
    for (uint64_t i = 0; i < 4; i++) {
        const struct psti_draw_key key = {.seed = 1234567890123ULL,
                                          .epoch = i,
                                          .sample = 1000 * i,
                                          .draw = draws[i],
                                          .view = views[i]};
        assert_ok(psti_augment_chain_draw(chain, &key, 375, 500, &draw, &err));
        uint32_t got[7] = {psti_augment_draw_low(draw.opaque[0]),
                           psti_augment_draw_high(draw.opaque[0]),
                           psti_augment_draw_low(draw.opaque[1]),
                           psti_augment_draw_high(draw.opaque[1]),
                           (uint32_t)draw.opaque[4],
                           psti_augment_draw_low(draw.opaque[8]),
                           psti_augment_draw_high(draw.opaque[8])};
        assert_memory_equal(got, expected[i], sizeof got);
    }
    psti_augment_chain_free(&chain);
}

/* Returns the drawn crop and flip of a chain as one number. */
static uint64_t geometry_of(const struct psti_chain *chain, const struct psti_draw_key *key,
                            uint32_t crop, uint32_t flip)
{
    struct pst_error err;
    struct psti_draw draw;
    assert_ok(psti_augment_chain_draw(chain, key, 3000, 4000, &draw, &err));
    return draw.opaque[4 * (size_t)crop] << 1 | draw.opaque[4 * (size_t)flip];
}

/* Every bit of every member of the key changes the draw. */
static void every_part_of_the_key_counts(void **state)
{
    (void)state;
    struct pst_op op = make_op(PST_OP_RANDOM_CROP, 10, 10);
    struct psti_chain *chain = compile(&op, 1, 3);
    const struct psti_draw_key base = {1, 2, 3, 4, 5, 0, NULL};
    uint64_t expected = geometry_of(chain, &base, 0, 1);
    for (int member = 0; member < 4; member++)
        for (int bit = 0; bit < 64; bit++) {
            struct psti_draw_key key = base;
            uint64_t *members[4] = {&key.seed, &key.epoch, &key.sample, &key.draw};
            *members[member] ^= (uint64_t)1 << bit;
            assert_true(geometry_of(chain, &key, 0, 1) != expected);
        }
    struct psti_draw_key view = base, own = base;
    view.view++;
    own.own++;
    assert_true(geometry_of(chain, &view, 0, 1) != expected);
    assert_true(geometry_of(chain, &own, 0, 1) != expected);
    assert_true(geometry_of(chain, &base, 0, 1) == expected);
    psti_augment_chain_free(&chain);
}

/* Colour operations before and between geometric ones change no geometry. */
static void colour_changes_no_geometry(void **state)
{
    (void)state;
    struct pst_op crop = make_op(PST_OP_RANDOM_CROP, 100, 100);
    struct pst_op flip = make_op(PST_OP_HORIZONTAL_FLIP, 0, 0);
    struct pst_op jitter = make_op(PST_OP_COLOR_JITTER, 0, 0);
    struct pst_op gray = make_op(PST_OP_GRAYSCALE, 0, 0);
    gray.p = 0.5f;
    struct pst_op plain_ops[2] = {crop, flip};
    struct pst_op mixed_ops[4] = {gray, crop, jitter, flip};
    struct psti_chain *plain = compile(plain_ops, 2, 3), *mixed = compile(mixed_ops, 4, 3);
    uint64_t n_flips = 0;
    for (uint64_t i = 0; i < 100; i++) {
        const struct psti_draw_key key = {.seed = 5, .sample = i};
        uint64_t expected = geometry_of(plain, &key, 0, 1);
        assert_true(geometry_of(mixed, &key, 1, 3) == expected);
        n_flips += expected & 1;
    }
    assert_in_range(n_flips, 30, 70);
    psti_augment_chain_free(&plain);
    psti_augment_chain_free(&mixed);
}

static void sizes_are_known(void **state)
{
    (void)state;
    uint32_t h = 0, w = 0;
    struct pst_op ops[3] = {make_op(PST_OP_RESIZE, 256, 0), make_op(PST_OP_CENTER_CROP, 224, 200),
                            make_op(PST_OP_PAD, 0, 0)};
    ops[2].pad[0] = 3;
    struct psti_chain *chain = compile(ops, 1, 3);
    assert_false(psti_augment_chain_fixed_size(chain, &h, &w));
    psti_augment_chain_free(&chain);
    chain = compile(ops, 3, 3);
    assert_true(psti_augment_chain_fixed_size(chain, &h, &w));
    assert_int_equal(h, 224);
    assert_int_equal(w, 203);
    psti_augment_chain_free(&chain);
    /* The longer side is truncated, as int(256 * 500 / 375) is. */
    struct pst_error err;
    struct psti_draw draw;
    chain = compile(ops, 1, 3);
    assert_ok(psti_augment_chain_draw(
        chain, &(struct psti_draw_key){.seed = 1, .epoch = 1, .sample = 1}, 375, 500, &draw, &err));
    assert_int_equal(draw.out_height, 256);
    assert_int_equal(draw.out_width, 341);
    assert_int_equal(psti_augment_chain_output_nbytes(chain, &draw), 256 * 341 * 3);
    psti_augment_chain_free(&chain);
}

static void refused(struct pst_op op, struct psti_chain_output format, const char *part)
{
    struct pst_error err;
    struct psti_chain *chain = (struct psti_chain *)&err;
    struct pst_op ops[2] = {make_op(PST_OP_HORIZONTAL_FLIP, 0, 0), op};
    assert_int_equal(psti_augment_chain_compile(ops, 2, &format, &chain, &err), PST_ERROR_ARGUMENT);
    assert_null(chain);
    assert_string_equal(err.room, "augment");
    assert_non_null(strstr(err.text, part));
    assert_int_equal(psti_augment_chain_compile(ops, 2, &format, &chain, NULL), PST_ERROR_ARGUMENT);
}

static void wrong_parameters_are_named(void **state)
{
    (void)state;
    struct psti_chain_output image = {.channels = 3, .bits = 8};
    struct psti_chain_output mask = {.channels = 1, .bits = 8, .is_mask = true};
    struct psti_chain_output bytes = {.dtype = PST_DTYPE_U8, .channels = 3, .bits = 8};
    refused(make_op(PST_OP_RESIZE, 0, 5), image, "operation 1 (Resize)");
    refused(make_op(PST_OP_CENTER_CROP, 5, 0), image, "operation 1 (CenterCrop)");
    refused(make_op(PST_OP_RESIZE, 1u << 21, 5), image, "1048576");
    refused(make_op(PST_OP_RESIZE, 5, 5), mask, "nearest");
    refused(make_op(PST_OP_COLOR_JITTER, 0, 0), mask, "operation 1 (ColorJitter): not possible");
    refused(make_op(PST_OP_GRAYSCALE, 0, 0), mask, "operation 1 (Grayscale): not possible");
    refused(make_op(PST_OP_NORMALIZE, 0, 0), mask, "operation 1 (Normalize): not possible");
    refused(make_op(PST_OP_NORMALIZE, 0, 0), bytes, "floating-point");
    refused(make_op((enum pst_op_kind)99, 1, 1), image, "unknown operation");
    struct pst_op op = make_op(PST_OP_NORMALIZE, 0, 0);
    op.std[1] = 0;
    refused(op, image, "std");
    op.std[1] = 57.1f;
    refused(op, image, "std must be above 0, to 10");
    op = make_op(PST_OP_NORMALIZE, 0, 0);
    op.mean[2] = 103.5f;
    refused(op, image, "mean must be within 0..1");
    op.mean[2] = NAN;
    refused(op, image, "mean must be within 0..1");
    op = make_op(PST_OP_NORMALIZE, 0, 0);
    op.n_channels = 1;
    refused(op, image, "another number of channels");
    op = make_op(PST_OP_RANDOM_RESIZED_CROP, 4, 4);
    op.scale[0] = 0;
    refused(op, image, "scale");
    op = make_op(PST_OP_RANDOM_RESIZED_CROP, 4, 4);
    op.ratio[1] = NAN;
    refused(op, image, "ratio");
    op = make_op(PST_OP_VERTICAL_FLIP, 0, 0);
    op.p = 1.5f;
    refused(op, image, "p must be");
    refused(make_op(PST_OP_RAND_AUGMENT, 0, 0), mask, "operation 1 (RandAugment): not possible");
    refused(make_op(PST_OP_ERASING, 0, 0), mask, "not possible on a mask");
    refused(make_op(PST_OP_RANDOM_APPLY, 0, 0), image, "fewer operations follow");
    refused(make_op(PST_OP_GAUSSIAN_BLUR, 4, 5), image, "odd");
    refused(make_op(PST_OP_GAUSSIAN_BLUR, 257, 5), image, "odd");
    op = make_op(PST_OP_AFFINE, 0, 0);
    op.scale[0] = 0;
    refused(op, image, "scale must be");
    op = make_op(PST_OP_AFFINE, 0, 0);
    op.shear[3] = 90;
    refused(op, image, "shear must be");
    op = make_op(PST_OP_AFFINE, 0, 0);
    op.degrees[1] = NAN;
    refused(op, image, "degrees must be");
    op = make_op(PST_OP_AFFINE, 0, 0);
    op.interpolation = PST_INTERPOLATION_BICUBIC;
    refused(op, image, "nearest or bilinear");
    op = make_op(PST_OP_ELASTIC, 0, 0);
    op.sigma[1] = 32;
    refused(op, image, "sigma must be");
    op = make_op(PST_OP_RAND_AUGMENT, 0, 0);
    op.magnitude = 31;
    refused(op, image, "below n_magnitudes");
    op = make_op(PST_OP_AUTO_AUGMENT, 0, 0);
    op.policy = (enum pst_auto_policy)3;
    refused(op, image, "unknown policy");
    op = make_op(PST_OP_AUGMIX, 0, 0);
    op.mixture_width = 9;
    refused(op, image, "mixture_width");
    op = make_op(PST_OP_COLOR_JITTER, 0, 0);
    op.hue[1] = 0.6f;
    refused(op, image, "hue");
    op = make_op(PST_OP_PAD, 0, 0);
    op.pad[2] = UINT32_MAX;
    refused(op, image, "pad");
    op = make_op(PST_OP_PAD, 0, 0);
    op.fill[2] = INFINITY;
    refused(op, image, "fill");
    image.channels = 5;
    refused(make_op(PST_OP_VERTICAL_FLIP, 0, 0), image, "5 channels");
    mask.bits = 16;
    mask.dtype = PST_DTYPE_U8;
    refused(make_op(PST_OP_VERTICAL_FLIP, 0, 0), mask, "uint8");
    mask.dtype = PST_DTYPE_F16;
    refused(make_op(PST_OP_VERTICAL_FLIP, 0, 0), mask, "a mask of 16 bits cannot be delivered");
    image.channels = 3;
    image.dtype = PST_DTYPE_I64;
    refused(make_op(PST_OP_VERTICAL_FLIP, 0, 0), image, "an image of 8 bits cannot be delivered");
    image.dtype = 0;
    struct pst_op twice[2] = {make_op(PST_OP_NORMALIZE, 0, 0), make_op(PST_OP_NORMALIZE, 0, 0)};
    struct pst_error err;
    struct psti_chain *chain;
    image.channels = 3;
    assert_int_equal(psti_augment_chain_compile(twice, 2, &image, &chain, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "operation 0 (Normalize): must be the last"));
    struct pst_op many[16];
    for (int i = 0; i < 16; i++)
        many[i] = make_op(PST_OP_VERTICAL_FLIP, 0, 0);
    assert_int_equal(psti_augment_chain_compile(many, 16, &image, &chain, &err),
                     PST_ERROR_ARGUMENT);
}

static void unsuitable_images_are_refused(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_draw draw;
    struct pst_op op = make_op(PST_OP_RANDOM_CROP, 32, 32);
    struct psti_chain *chain = compile(&op, 1, 3);
    assert_int_equal(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 0},
                                             31, 40, &draw, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "operation 0 (RandomCrop)"));
    assert_int_equal(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 0},
                                             0, 40, &draw, &err),
                     PST_ERROR_ARGUMENT);
    assert_ok(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 0}, 32,
                                      32, &draw, &err));
    psti_augment_chain_free(&chain);
    op = make_op(PST_OP_RESIZE, 4096, 0);
    chain = compile(&op, 1, 3);
    assert_int_equal(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 0},
                                             1, 4096, &draw, &err),
                     PST_ERROR_ARGUMENT);
    psti_augment_chain_free(&chain);
    psti_augment_chain_free(&chain);
    psti_augment_chain_free(NULL);
}

/* Makes a chain that uses every buffer: two resizes, padding and colour operations. */
static size_t everything(struct pst_op ops[6])
{
    ops[0] = make_op(PST_OP_RANDOM_RESIZED_CROP, 40, 40);
    ops[1] = make_op(PST_OP_PAD, 0, 0);
    ops[1].pad[0] = ops[1].pad[1] = 4;
    ops[2] = make_op(PST_OP_COLOR_JITTER, 0, 0);
    ops[2].contrast[1] = 1.5f;
    ops[3] = make_op(PST_OP_RESIZE, 30, 33);
    ops[4] = make_op(PST_OP_HORIZONTAL_FLIP, 0, 0);
    ops[4].p = 1;
    ops[5] = make_op(PST_OP_NORMALIZE, 0, 0);
    return 6;
}

static enum pst_status whole_run(const struct test_image *image, uint64_t limit)
{
    struct pst_op ops[6];
    size_t n = everything(ops);
    struct psti_chain_output format = {.layout = PST_LAYOUT_CHW, .channels = 3, .bits = 8};
    struct psti_chain *chain = NULL;
    struct psti_run *run = NULL;
    struct pst_error err;
    pst_error_clear(&err);
    static float slot[3 * 30 * 33];
    struct psti_draw draw;
    struct psti_target target = {slot, 33 * 4};
    enum pst_status status = psti_augment_chain_compile(ops, n, &format, &chain, &err);
    if (status == PST_OK)
        status = psti_augment_run_open(&run, &err);
    if (status == PST_OK)
        status = psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 0},
                                         image->height, image->width, &draw, &err);
    if (status == PST_OK && limit != 0)
        psti_augment_run_set_scratch_limit(run, limit);
    if (status == PST_OK)
        status = psti_augment_run_begin(run, chain, &draw, &target, &err);
    if (status == PST_OK) {
        feed(run, image, &draw, 7);
        status = psti_augment_run_end(run, &err);
    }
    if (run != NULL && limit != 0)
        assert_true(psti_augment_run_scratch_nbytes(run) <= limit);
    assert_int_equal(status == PST_OK ? PST_OK : err.status, status);
    psti_augment_run_close(&run);
    psti_augment_run_close(&run);
    psti_augment_chain_free(&chain);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    struct test_random r = {.seed = 41};
    struct test_image image = image_make(&r, 64, 80, 3, 8);
    int n = 1;
    for (;; n++) {
        psti_fault_arm(PSTI_FAULT_ALLOC, (uint64_t)n, false);
        enum pst_status status = whole_run(&image, 0);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status == PST_OK)
            break;
        assert_int_equal(status, PST_ERROR_MEMORY);
    }
    assert_true(n > 8);
    image_free(&image);
#else
    skip();
#endif
}

static void scratch_limit_is_kept(void **state)
{
    (void)state;
    struct test_random r = {.seed = 42};
    struct test_image image = image_make(&r, 64, 80, 3, 8);
    int refusals = 0;
    for (uint64_t limit = 4096; limit < 1 << 20; limit += 4096)
        refusals += whole_run(&image, limit) == PST_ERROR_LIMIT;
    assert_true(refusals > 5 && refusals < 60);
    image_free(&image);
}

/* After the first sample nothing is allocated. */
static void steady_state_allocates_nothing(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    struct test_random r = {.seed = 43};
    struct test_image image = image_make(&r, 64, 80, 3, 8);
    struct pst_op ops[6];
    size_t n = everything(ops);
    ops[0].scale[0] = ops[0].scale[1] = 1; /* all samples have the same crop size */
    ops[0].ratio[0] = ops[0].ratio[1] = 80.0f / 64.0f;
    struct psti_chain_output format = {.layout = PST_LAYOUT_CHW, .channels = 3, .bits = 8};
    struct pst_error err;
    struct psti_chain *chain;
    struct psti_run *run;
    float *slot = malloc(sizeof(float) * 3 * 30 * 33);
    struct psti_target target = {slot, 33 * 4};
    assert_ok(psti_augment_chain_compile(ops, n, &format, &chain, &err));
    assert_ok(psti_augment_run_open(&run, &err));
    for (uint64_t i = 0; i < 20; i++) {
        struct psti_draw draw;
        if (i == 1)
            psti_fault_arm(PSTI_FAULT_ALLOC, 1, true);
        assert_ok(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = i},
                                          64, 80, &draw, &err));
        assert_ok(psti_augment_run_begin(run, chain, &draw, &target, &err));
        feed(run, &image, &draw, 7);
        assert_ok(psti_augment_run_end(run, &err));
    }
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    free(slot);
    psti_augment_run_close(&run);
    psti_augment_chain_free(&chain);
    image_free(&image);
#else
    skip();
#endif
}

static void rows_must_come_in_order(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_chain *chain = compile(NULL, 0, 1);
    struct psti_run *run;
    struct psti_draw draw;
    unsigned char pixels[16] = {1, 2, 3, 4}, slot[16];
    struct psti_target target = {slot, 4};
    assert_ok(psti_augment_run_open(&run, &err));
    assert_int_equal(psti_augment_run_rows(run, pixels, 4, 0, 1), PST_ERROR_STATE);
    assert_int_equal(psti_augment_run_end(run, &err), PST_ERROR_STATE);
    assert_ok(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 0}, 4, 4,
                                      &draw, &err));
    assert_ok(psti_augment_run_begin(run, chain, &draw, &target, &err));
    assert_int_equal(psti_augment_run_rows(run, pixels, 4, 1, 1), PST_ERROR_STATE);
    assert_int_equal(psti_augment_run_rows(run, pixels, 4, 0, 5), PST_ERROR_STATE);
    assert_int_equal(psti_augment_run_rows(run, pixels, 4, 0, 3), PST_OK);
    assert_int_equal(psti_augment_run_rows(run, pixels, 4, 3, 2), PST_ERROR_STATE);
    assert_int_equal(psti_augment_run_end(run, &err), PST_ERROR_STATE);
    assert_ok(psti_augment_run_begin(run, chain, &draw, &target, &err));
    assert_int_equal(psti_augment_run_rows(run, pixels, 4, 0, 4), PST_OK);
    assert_ok(psti_augment_run_end(run, &err));
    assert_memory_equal(pixels, slot, 16);
    psti_augment_run_close(&run);
    psti_augment_chain_free(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_close),
        cmocka_unit_test(resized_crop_distribution),
        cmocka_unit_test(resized_crop_fallback),
        cmocka_unit_test(flips_have_their_probability),
        cmocka_unit_test(crops_are_uniform),
        cmocka_unit_test(jitter_is_drawn_evenly),
        cmocka_unit_test(draws_are_pinned),
        cmocka_unit_test(every_part_of_the_key_counts),
        cmocka_unit_test(colour_changes_no_geometry),
        cmocka_unit_test(sizes_are_known),
        cmocka_unit_test(wrong_parameters_are_named),
        cmocka_unit_test(unsuitable_images_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(scratch_limit_is_kept),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(rows_must_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
