/* Guards against hazards: CPU levels, fusing, band sizes, strides or alignment change the pixels,
 * or memory outside of the buffers is accessed. Random chains run over random pictures. The unfused
 * chain in plain C is the reference implementation. AVX-512 and NEON are emulated by SIMDe. */
#include "augment_helper.h"

#if defined(__x86_64__) && defined(PST_HAVE_SIMDE)
extern const struct psti_augment_ops psti_augment_ops_simde;
extern const struct psti_augment_ops psti_augment_ops_simde_icl;
extern const struct psti_augment_ops psti_augment_ops_simde_neon;
#endif

#define BASE_LEVEL (PSTI_CPU_AVX2 | PSTI_CPU_NEON)

static void random_fill(struct test_random *r, struct pst_op *op)
{
    op->pad_mode = (enum pst_pad_mode)test_below(r, 4);
    for (int i = 0; i < 4; i++) {
        op->pad[i] = test_below(r, 3) == 0 ? test_below(r, 9) : 0;
        op->fill[i] = (float)test_below(r, 256);
    }
}

static void random_range(struct test_random *r, float range[2], float low, float high)
{
    if (test_below(r, 3) == 0)
        return;
    range[0] = low;
    range[1] = high;
}

static struct pst_op random_op(struct test_random *r, bool is_mask)
{
    static const enum pst_op_kind kinds[] = {PST_OP_RESIZE,
                                             PST_OP_RESIZE,
                                             PST_OP_CENTER_CROP,
                                             PST_OP_RANDOM_CROP,
                                             PST_OP_PAD,
                                             PST_OP_HORIZONTAL_FLIP,
                                             PST_OP_VERTICAL_FLIP,
                                             PST_OP_RANDOM_RESIZED_CROP,
                                             PST_OP_HORIZONTAL_FLIP,
                                             PST_OP_COLOR_JITTER,
                                             PST_OP_GRAYSCALE};
    enum pst_op_kind kind = kinds[test_below(r, is_mask ? 9 : 11)];
    struct pst_op op = make_op(kind, 1 + test_below(r, 40), 1 + test_below(r, 40));
    if (kind == PST_OP_RESIZE && test_below(r, 3) == 0)
        op.width = 0;
    op.interpolation = (enum pst_interpolation)(1 + test_below(r, 4));
    if (is_mask)
        op.interpolation =
            op.kind == PST_OP_RESIZE ? PST_INTERPOLATION_NEAREST_EXACT : PST_INTERPOLATION_NEAREST;
    op.no_antialias = test_below(r, 4) == 0;
    op.pad_if_needed = true;
    random_fill(r, &op);
    random_range(r, op.brightness, 0.5f, 1.5f);
    random_range(r, op.contrast, 0.5f, 1.5f);
    random_range(r, op.saturation, 0.5f, 1.5f);
    random_range(r, op.hue, -0.3f, 0.3f);
    return op;
}

static size_t random_chain(struct test_random *r, struct pst_op *ops, struct psti_chain_output *o)
{
    static const enum pst_dtype dtypes[] = {
        0, PST_DTYPE_U8, PST_DTYPE_U16, PST_DTYPE_F16, PST_DTYPE_BF16, PST_DTYPE_F32};
    memset(o, 0, sizeof *o);
    o->is_mask = test_below(r, 8) == 0;
    o->channels = (uint8_t)(1 + test_below(r, 4));
    o->bits = test_below(r, 4) == 0 ? 16 : 8;
    o->layout = (enum pst_layout)test_below(r, 2);
    o->dtype = dtypes[test_below(r, 6)];
    if (o->is_mask) {
        static const enum pst_dtype numbers[] = {0, PST_DTYPE_U16, PST_DTYPE_F32, PST_DTYPE_I32,
                                                 PST_DTYPE_I64};
        o->dtype = numbers[test_below(r, o->channels == 1 ? 5 : 3)];
    }
    size_t n = test_below(r, 6);
    for (size_t i = 0; i < n; i++)
        ops[i] = random_op(r, o->is_mask);
    bool is_float = (int)o->dtype == 0 || o->dtype >= PST_DTYPE_F16;
    if (!o->is_mask && is_float && test_below(r, 2) == 0) {
        ops[n] = make_op(PST_OP_NORMALIZE, 0, 0);
        for (int c = 0; c < 4; c++) {
            ops[n].mean[c] = 0.1f * (float)(1 + c);
            ops[n].std[c] = 0.2f + 0.1f * (float)c;
        }
        n++;
    }
    return n;
}

static void check_levels(const struct pst_op *ops, size_t n, const struct psti_chain_output *format,
                         const struct test_image *image, struct test_random *r)
{
    struct how judge = {.features = 0, .unfused = true};
    uint64_t seed = test_below(r, 1000);
    struct output expected = run_chain(ops, n, format, image, seed, 7, &judge);
    struct how hows[] = {
        {.features = 0},
        {.features = 0, .band = 1 + test_below(r, 9), .row_gap = 1 + test_below(r, 40)},
        {.features = psti_cpu_detected() & BASE_LEVEL},
        {.features = psti_cpu_detected() & BASE_LEVEL,
         .band = 1 + test_below(r, 9),
         .row_gap = test_below(r, 40),
         .misalign = test_below(r, 33)},
        {.features = psti_cpu_detected() & BASE_LEVEL, .band = 1, .unfused = true},
        {.features = psti_cpu_detected(), .band = 3, .misalign = 1},
#if defined(__x86_64__) && defined(PST_HAVE_SIMDE)
        {.kernels = &psti_augment_ops_simde, .band = test_below(r, 6)},
        {.kernels = &psti_augment_ops_simde, .misalign = test_below(r, 65), .row_gap = 3},
        {.kernels = &psti_augment_ops_simde_icl, .band = test_below(r, 6)},
        {.kernels = &psti_augment_ops_simde_icl, .misalign = test_below(r, 65), .row_gap = 7},
        {.kernels = &psti_augment_ops_simde_neon, .band = test_below(r, 6)},
        {.kernels = &psti_augment_ops_simde_neon, .misalign = test_below(r, 33), .row_gap = 5},
#endif
    };
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
        struct output got = run_chain(ops, n, format, image, seed, 7, &hows[i]);
        if (got.nbytes == expected.nbytes && memcmp(got.data, expected.data, got.nbytes) != 0) {
            print_error("way %zu differs: %u x %u x %u, %u bits, dtype %d, ops", i, image->height,
                        image->width, image->channels, image->bits, (int)format->dtype);
            for (size_t k = 0; k < n; k++)
                print_error(" %s(%u,%u)", psti_augment_op_name(ops[k].kind), ops[k].height,
                            ops[k].width);
            print_error("\n");
        }
        assert_same_output(&got, &expected);
        output_free(&got);
    }
    output_free(&expected);
}

static void random_chains_agree(void **state)
{
    (void)state;
    struct test_random r = {.seed = 11};
    for (int round = 0; round < 1500; round++) {
        struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
        struct psti_chain_output format;
        size_t n = random_chain(&r, ops, &format);
        struct test_image image = image_make(&r, 1 + test_below(&r, 48), 1 + test_below(&r, 48),
                                             format.channels, format.bits);
        check_levels(ops, n, &format, &image, &r);
        image_free(&image);
    }
}

/* Tries every small width and every pair of small sizes, because rows end within vectors there. */
static void all_small_sizes_agree(void **state)
{
    (void)state;
    struct test_random r = {.seed = 12};
    for (uint32_t channels = 1; channels <= 4; channels++) {
        for (uint32_t width = 1; width <= 70; width++) {
            struct psti_chain_output format = {.dtype = PST_DTYPE_F32,
                                               .layout = (enum pst_layout)(width & 1),
                                               .channels = (uint8_t)channels,
                                               .bits = 8};
            struct test_image image = image_make(&r, 5, width, channels, 8);
            struct pst_op flip = make_op(PST_OP_HORIZONTAL_FLIP, 0, 0);
            flip.p = 1;
            check_levels(&flip, 1, &format, &image, &r);
            struct pst_op resize = make_op(PST_OP_RESIZE, 3, 1 + test_below(&r, 70));
            resize.interpolation = (enum pst_interpolation)(2 + (width & 1));
            format.dtype = PST_DTYPE_U8;
            struct pst_op both[2] = {resize, flip};
            check_levels(both, 1 + test_below(&r, 2), &format, &image, &r);
            image_free(&image);
        }
    }
}

/* Tries long filters, whose weights are small, and pictures of one pixel. */
static void extreme_ratios_agree(void **state)
{
    (void)state;
    static const uint32_t cases[][4] = {{1, 1, 50, 60},   {700, 3, 1, 1},    {3, 900, 2, 1},
                                        {1, 1000, 7, 13}, {500, 1, 1, 90},   {64, 2000, 64, 3},
                                        {2, 2, 300, 1},   {301, 299, 1, 300}};
    struct test_random r = {.seed = 13};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t channels = 1; channels <= 4; channels++) {
            struct test_image image = image_make(&r, cases[i][0], cases[i][1], channels, 8);
            struct psti_chain_output format = {
                .dtype = PST_DTYPE_U8, .channels = (uint8_t)channels, .bits = 8};
            for (int k = 2; k <= 3; k++) {
                struct pst_op op = make_op(PST_OP_RESIZE, cases[i][2], cases[i][3]);
                op.interpolation = (enum pst_interpolation)k;
                check_levels(&op, 1, &format, &image, &r);
            }
            image_free(&image);
        }
    }
}

/* Tries resizes that shrink, which use sweeps (precomputed orders of weights), with a window of the
 * result, a flip before or after, and any number of rows at a time. */
static void shrinking_agrees(void **state)
{
    (void)state;
    struct test_random r = {.seed = 14};
    for (int round = 0; round < 160; round++) {
        uint32_t channels = 3 + (uint32_t)(round & 1), to = 8 + test_below(&r, 60);
        uint32_t from = to * (2 + test_below(&r, 8)) + test_below(&r, to);
        struct psti_chain_output format = {
            .dtype = PST_DTYPE_U8, .channels = (uint8_t)channels, .bits = 8};
        struct test_image image = image_make(&r, 9 + test_below(&r, 40), from, channels, 8);
        struct pst_op ops[3] = {make_op(PST_OP_HORIZONTAL_FLIP, 0, 0),
                                make_op(PST_OP_RESIZE, 9 + test_below(&r, 9), to),
                                make_op(PST_OP_CENTER_CROP, 7, 1 + test_below(&r, to))};
        ops[1].interpolation =
            round % 5 == 0 ? PST_INTERPOLATION_BICUBIC : PST_INTERPOLATION_BILINEAR;
        ops[1].no_antialias = round % 7 == 0;
        check_levels(ops, 3, &format, &image, &r);
        image_free(&image);
    }
}

/* Tries float samples so large that kernels may store them bypassing the caches, in rows that begin
 * at multiples of a cache line and in others. */
static void large_samples_agree(void **state)
{
    (void)state;
    static const enum pst_dtype dtypes[] = {PST_DTYPE_F32, PST_DTYPE_F16, PST_DTYPE_BF16};
    struct test_random r = {.seed = 15};
    for (int round = 0; round < 4; round++) {
        struct psti_chain_output format = {
            .dtype = dtypes[round % 3], .layout = PST_LAYOUT_CHW, .channels = 3, .bits = 8};
        struct test_image image = image_make(&r, 70, 90, 3, 8);
        struct pst_op ops[2] = {make_op(PST_OP_RESIZE, 180, round < 3 ? 256 : 250),
                                make_op(PST_OP_NORMALIZE, 0, 0)};
        for (int c = 0; c < 3; c++)
            ops[1].std[c] = 0.2f + 0.1f * (float)c;
        check_levels(ops, 2, &format, &image, &r);
        image_free(&image);
    }
}

/* Colours
 * ------------------------------------------------------------------------------------------- */

/* Applies ColorJitter to packed samples in place. */
static void jitter(const struct psti_augment_ops *kernels, const struct test_image *image,
                   const float factors[4], uint32_t order)
{
    struct psti_chain chain = {
        .output = {.channels = (uint8_t)image->channels, .bits = (uint8_t)image->bits},
        .kernels = kernels};
    struct psti_run run = {.chain = &chain};
    struct psti_picture picture = {image->memory.data,
                                   (size_t)image->width * image->channels * image->bits / 8,
                                   image->height, image->width};
    psti_augment_color_jitter(&run, factors, order, &picture);
}

static size_t image_nbytes(const struct test_image *image)
{
    return (size_t)image->height * image->width * image->channels * image->bits / 8;
}

static struct test_image image_copy(const struct test_image *from)
{
    struct test_image image = *from;
    image.memory = guarded_make(image_nbytes(from), 0);
    memcpy(image.memory.data, from->memory.data, image_nbytes(from));
    return image;
}

/* Applies the four operations one by one in plain C. */
static void jitter_apart(const struct test_image *image, const float factors[4], uint32_t order)
{
    uint32_t turns[4];
    psti_augment_jitter_order(order, turns);
    for (int i = 0; i < 4; i++) {
        float one[4] = {1, 1, 1, 0};
        one[turns[i]] = factors[turns[i]];
        jitter(&psti_augment_ops_c, image, one, 0);
    }
}

static void check_jitter(const struct test_image *image, const float factors[4], uint32_t order)
{
    const struct psti_augment_ops *levels[] = {
        &psti_augment_ops_c,
        psti_augment_ops_for(psti_cpu_detected() & BASE_LEVEL),
        psti_augment_ops_for(psti_cpu_detected()),
#if defined(__x86_64__) && defined(PST_HAVE_SIMDE)
        &psti_augment_ops_simde,
        &psti_augment_ops_simde_icl,
        &psti_augment_ops_simde_neon,
#endif
    };
    struct test_image expected = image_copy(image);
    jitter_apart(&expected, factors, order);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        struct test_image got = image_copy(image);
        jitter(levels[i], &got, factors, order);
        if (memcmp(got.memory.data, expected.memory.data, image_nbytes(image)) != 0)
            print_error("%s differs: %u x %u x %u, %u bits, factors %g %g %g %g, order %u\n",
                        levels[i]->name, image->height, image->width, image->channels, image->bits,
                        (double)factors[0], (double)factors[1], (double)factors[2],
                        (double)factors[3], order);
        assert_memory_equal(got.memory.data, expected.memory.data, image_nbytes(image));
        image_free(&got);
    }
    image_free(&expected);
}

static float random_factor(struct test_random *r, bool is_hue)
{
    static const float extremes[2][5] = {{1, 0, 0.5f, 3, 100}, {0, 0.5f, -0.5f, 1e-9f, -1e-9f}};
    uint32_t which = test_below(r, 10);
    if (which < 5)
        return extremes[is_hue][which];
    float unit = (float)test_below(r, 1000) / 1000;
    return is_hue ? unit - 0.5f : 2 * unit;
}

/* Tries all orders, every number of pixels within a vector, and more pixels than the loops take at
 * once. The last pixel ends at a guard page. */
static void jitters_agree(void **state)
{
    (void)state;
    struct test_random r = {.seed = 16};
    for (uint32_t round = 0; round < 1200; round++) {
        uint32_t channels = round % 3 == 0 ? 1 + test_below(&r, 4) : 3;
        uint32_t height = round % 5 == 0 ? 9 : 1, width = 1 + round % 70;
        struct test_image image =
            image_make(&r, height, width, channels, test_below(&r, 4) == 0 ? 16 : 8);
        float factors[4];
        for (int i = 0; i < 4; i++)
            factors[i] = random_factor(&r, i == 3);
        check_jitter(&image, factors, round % 24);
        image_free(&image);
    }
}

/* Returns a picture of 8 bits with colours of the whole range, gray and pure ones among them. */
static struct test_image colors_of_bytes(struct test_random *r)
{
    enum { STEPS = 18 };
    struct test_image image = image_make(r, STEPS, STEPS * STEPS, 3, 8);
    for (uint32_t i = 0; i < STEPS * STEPS * STEPS; i++) {
        unsigned char *at = image.memory.data + (size_t)i * 3;
        for (uint32_t c = 0, left = i; c < 3; c++, left /= STEPS)
            at[c] = (unsigned char)(left % STEPS * 15);
    }
    return image;
}

/* Returns a picture of 16 bits with every number, in gray, pure and other colours. */
static struct test_image colors_of_words(struct test_random *r)
{
    struct test_image image = image_make(r, 4, 65536, 3, 16);
    for (uint32_t i = 0; i < 4 * 65536; i++) {
        const uint32_t v = i % 65536;
        const uint32_t colors[4][3] = {{v, v, v}, {v, 0, 0}, {65535, v, 0}, {v, v ^ 1, v * 40503u}};
        for (uint32_t c = 0; c < 3; c++)
            psti_store_u16(image.memory.data + (size_t)i * 6 + 2 * c,
                           (uint16_t)colors[i / 65536][c]);
    }
    return image;
}

/* These colours include every number that the hue computation divides by the largest channel. */
static void all_colors_agree(void **state)
{
    (void)state;
    static const float tries[][4] = {{1, 1, 1, 0.5f}, {1, 1, 1, -0.07f}, {0.37f, 1, 1.7f, 0},
                                     {1, 1.3f, 0, 0}, {1, 1, 1, -0.5f},  {1, 1, 1, -1e-9f}};
    struct test_random r = {.seed = 17};
    struct test_image bytes = colors_of_bytes(&r), words = colors_of_words(&r);
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        check_jitter(&bytes, tries[i], 0);
        if (i < 3)
            check_jitter(&words, tries[i], 0);
    }
    image_free(&bytes);
    image_free(&words);
}

/* The region contains only the pixels that are needed. Resize(64) + CenterCrop(16) of 256 x 256
 * pixels needs about a quarter of each side. */
static void region_is_narrow(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_op ops[2] = {make_op(PST_OP_RESIZE, 64, 64), make_op(PST_OP_CENTER_CROP, 16, 16)};
    struct psti_chain_output format = {.channels = 3, .bits = 8};
    struct psti_chain *chain;
    struct psti_draw draw;
    assert_ok(psti_augment_chain_compile(ops, 2, &format, &chain, &err));
    assert_ok(psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1, .sample = 0}, 256,
                                      256, &draw, &err));
    /* Outputs 24..39, scale 4, reach 4: centres 98 .. 158, pixels 94 .. 161. */
    assert_int_equal(draw.region_y, 94);
    assert_int_equal(draw.region_height, 68);
    assert_int_equal(draw.region_x, 94);
    assert_int_equal(draw.region_width, 68);
    psti_augment_chain_free(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_chains_agree),  cmocka_unit_test(all_small_sizes_agree),
        cmocka_unit_test(extreme_ratios_agree), cmocka_unit_test(shrinking_agrees),
        cmocka_unit_test(large_samples_agree),  cmocka_unit_test(region_is_narrow),
        cmocka_unit_test(jitters_agree),        cmocka_unit_test(all_colors_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
