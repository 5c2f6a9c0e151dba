/* Guards against hazards: if the decoder delivers a source at a half, a quarter or an eighth of its
 * size, the picture moves, is too bright at a crop's edges, or differs between CPU levels. The
 * source is a ramp in each direction, so the level of a sample tells its position. Sizes, crops and
 * pixel grids are no multiples of each other. */
#include "augment_helper.h"

enum {
    SLOPE = 64, /* difference of two neighbouring pixels, in levels of 65536 */
    MOST_SIDE = 900
};

/* One case: the operations, the source's size, and on which sides its pixel grid begins before the
 * source. */
struct scaled_case {
    const struct pst_op *ops;
    size_t n_ops;
    uint32_t height, width;
    bool at_top, at_left;
};

/* Stores the values of the three channels at one point: a ramp along x, a ramp along y, and a
 * constant. y2, x2: the point's distance from the source's corner, in half pixels. */
static void put_levels(uint16_t *to, int64_t y2, int64_t x2)
{
    to[0] = (uint16_t)(3000 + x2 * SLOPE / 2);
    to[1] = (uint16_t)(3000 + y2 * SLOPE / 2);
    to[2] = 54321;
}

/* Makes the source at 1 / 2^scale_log2 of its size. Each pixel has the level at the centre of its
 * square. */
static struct test_image ramp_make(const struct scaled_case *c, uint32_t scale_log2)
{
    uint32_t edge = 1u << scale_log2;
    struct test_image image = {
        (c->height + edge - 1) / edge, (c->width + edge - 1) / edge, 3, 16, {0}};
    uint32_t top = c->at_top ? image.height * edge - c->height : 0;
    uint32_t left = c->at_left ? image.width * edge - c->width : 0;
    image.memory = guarded_make((size_t)image.height * image.width * 6, 0);
    uint16_t *levels = (uint16_t *)(void *)image.memory.data;
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width; x++, levels += 3)
            put_levels(levels, 2 * ((int64_t)y * edge - top) + edge,
                       2 * ((int64_t)x * edge - left) + edge);
    return image;
}

/* Does what run_chain does, with the source at the scale of the draw. */
static struct output run_scaled(const struct scaled_case *c, const struct psti_chain_output *format,
                                const struct psti_draw *draw, const struct test_image *image,
                                uint32_t features)
{
    struct pst_error err;
    struct psti_chain *chain;
    struct psti_run *run;
    struct output out = {.height = draw->out_height, .width = draw->out_width, .draw = *draw};
    assert_ok(psti_augment_compile(c->ops, c->n_ops, format, features, false, &chain, &err));
    out.nbytes = psti_augment_chain_output_nbytes(chain, draw);
    out.data = malloc(out.nbytes);
    struct psti_target target = {out.data, out.nbytes / out.height};
    assert_ok(psti_augment_run_open(&run, &err));
    assert_ok(psti_augment_run_begin(run, chain, draw, &target, &err));
    feed(run, image, draw, 5);
    assert_ok(psti_augment_run_end(run, &err));
    psti_augment_run_close(&run);
    psti_augment_chain_free(&chain);
    return out;
}

static struct psti_draw draw_scaled(const struct scaled_case *c,
                                    const struct psti_chain_output *format, uint64_t seed)
{
    struct pst_error err;
    struct psti_chain *chain;
    struct psti_draw draw, before;
    assert_ok(psti_augment_chain_compile(c->ops, c->n_ops, format, &chain, &err));
    assert_ok(psti_augment_chain_draw(
        chain, &(struct psti_draw_key){.seed = seed, .epoch = 0, .sample = 7}, c->height, c->width,
        &draw, &err));
    before = draw;
    psti_augment_chain_scale(chain, &draw, c->at_top, c->at_left);
    assert_true(draw.scale_log2 <= PSTI_SCALE_LOG2_MAX);
    if (draw.scale_log2 == 0)
        assert_memory_equal(&draw, &before, sizeof draw);
    else
        assert_true(draw.region_height < before.region_height / 2 + 3);
    psti_augment_chain_free(&chain);
    return draw;
}

/* Returns the largest displacement of a sample from its exact position, in source pixels. */
static double most_moved(const struct output *exact, const struct output *got, double *level_error)
{
    const uint16_t *a = (const uint16_t *)(const void *)exact->data;
    const uint16_t *b = (const uint16_t *)(const void *)got->data;
    double most = 0;
    for (size_t i = 0; i < exact->nbytes / 2; i++) {
        double gap = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
        if (i % 3 == 2)
            *level_error = gap > *level_error ? gap : *level_error;
        else if (gap / SLOPE > most)
            most = gap / SLOPE;
    }
    return most;
}

static void check_case(const struct scaled_case *c, uint64_t seed, uint32_t counts[4])
{
    const struct psti_chain_output format = {.channels = 3, .bits = 16};
    const struct how plain = {.features = 0};
    struct psti_draw draw = draw_scaled(c, &format, seed);
    struct test_image source = ramp_make(c, 0), small = ramp_make(c, draw.scale_log2);
    struct output exact = run_chain(c->ops, c->n_ops, &format, &source, seed, 7, &plain);
    struct output got = run_scaled(c, &format, &draw, &small, 0);
    double level_error = 0, moved = most_moved(&exact, &got, &level_error);
    counts[draw.scale_log2]++;
    /* A scaled source samples the filters at fewer points. This may move pixels by about an eighth
     * (0.12) of a pixel of the small source. */
    double allowed = draw.scale_log2 == 0 ? 0 : 0.12 * (1 << draw.scale_log2);
    if (moved > allowed || level_error > 1)
        print_error("%u x %u at 2^-%u, top %d left %d: moved by %.2f pixels, %.0f levels off\n",
                    c->height, c->width, draw.scale_log2, c->at_top, c->at_left, moved,
                    level_error);
    assert_true(moved <= allowed);
    assert_true(level_error <= 1);
    output_free(&exact);
    output_free(&got);
    image_free(&source);
    image_free(&small);
}

/* Makes chain number `kind` of those that make pictures smaller. */
static size_t make_chain(uint32_t kind, enum pst_interpolation interpolation, uint32_t side,
                         struct pst_op ops[4])
{
    static const enum pst_op_kind kinds[][4] = {
        {PST_OP_RANDOM_RESIZED_CROP, PST_OP_HORIZONTAL_FLIP, 0, 0},
        {PST_OP_RESIZE, PST_OP_CENTER_CROP, 0, 0},
        {PST_OP_HORIZONTAL_FLIP, PST_OP_VERTICAL_FLIP, PST_OP_RESIZE, PST_OP_RANDOM_CROP},
        {PST_OP_RANDOM_CROP, PST_OP_HORIZONTAL_FLIP, PST_OP_RESIZE, PST_OP_VERTICAL_FLIP},
    };
    size_t n = 0;
    for (; n < 4 && kinds[kind][n] != 0; n++) {
        ops[n] = make_op(kinds[kind][n], side, side + 3);
        if (kinds[kind][n] == PST_OP_CENTER_CROP ||
            (n == 3 && kinds[kind][n] == PST_OP_RANDOM_CROP))
            ops[n].height = ops[n].width = side - side / 3;
        if (kinds[kind][n] == PST_OP_RANDOM_CROP && n == 0)
            ops[n].height = ops[n].width = 2 * side + side / 2 + 5;
        ops[n].interpolation = interpolation;
        ops[n].p = 0.5F;
    }
    return n;
}

static void the_picture_does_not_move(void **state)
{
    struct test_random r = {.seed = 21};
    uint32_t counts[4] = {0};
    (void)state;
    for (uint32_t round = 0; round < 240; round++) {
        struct pst_op ops[4];
        size_t n = make_chain(round & 3, PST_INTERPOLATION_BILINEAR, 8 + test_below(&r, 30), ops);
        const struct scaled_case c = {.ops = ops,
                                      .n_ops = n,
                                      .height = 110 + test_below(&r, MOST_SIDE - 110),
                                      .width = 110 + test_below(&r, MOST_SIDE - 110),
                                      .at_top = test_below(&r, 2) != 0,
                                      .at_left = test_below(&r, 2) != 0};
        check_case(&c, round, counts);
    }
    for (uint32_t i = 1; i < 4; i++)
        assert_true(counts[i] >= 10);
}

/* CPU levels also agree on vector tails and on the padding of small pictures. */
static void levels_agree(void **state)
{
    struct test_random r = {.seed = 22};
    uint32_t n_scaled = 0;
    (void)state;
    for (uint32_t round = 0; round < 160; round++) {
        struct pst_op ops[4];
        const enum pst_interpolation filter =
            round & 4 ? PST_INTERPOLATION_BICUBIC : PST_INTERPOLATION_BILINEAR;
        size_t n = make_chain(round & 3, filter, 6 + test_below(&r, 30), ops);
        const struct scaled_case c = {.ops = ops,
                                      .n_ops = n,
                                      .height = 100 + test_below(&r, 300),
                                      .width = 100 + test_below(&r, 300),
                                      .at_top = (round & 8) != 0,
                                      .at_left = (round & 16) != 0};
        const struct psti_chain_output format = {.channels = (uint8_t)(1 + test_below(&r, 4)),
                                                 .bits = 8};
        struct psti_draw draw = draw_scaled(&c, &format, round);
        uint32_t edge = 1u << draw.scale_log2;
        struct test_image image = image_make(&r, (c.height + edge - 1) / edge,
                                             (c.width + edge - 1) / edge, format.channels, 8);
        struct output plain = run_scaled(&c, &format, &draw, &image, 0);
        struct output fast = run_scaled(&c, &format, &draw, &image, psti_cpu_detected());
        assert_same_output(&plain, &fast);
        n_scaled += draw.scale_log2 > 0;
        output_free(&plain);
        output_free(&fast);
        image_free(&image);
    }
    assert_true(n_scaled > 80);
}

/* The chosen scale is the smallest at which both sides still have to shrink. Chains that do not
 * smooth use none. */
static void scales_are_chosen(void **state)
{
    static const struct {
        uint32_t height, width, to, scale_log2;
        enum pst_interpolation interpolation;
        bool no_antialias;
    } cases[] = {{200, 200, 100, 0, PST_INTERPOLATION_BILINEAR, false},
                 {201, 200, 100, 0, PST_INTERPOLATION_BILINEAR, false},
                 {201, 201, 100, 1, PST_INTERPOLATION_BILINEAR, false},
                 {400, 900, 100, 1, PST_INTERPOLATION_BILINEAR, false},
                 {401, 900, 100, 2, PST_INTERPOLATION_BICUBIC, false},
                 {801, 900, 100, 3, PST_INTERPOLATION_BILINEAR, false},
                 {9000, 9000, 100, 3, PST_INTERPOLATION_BILINEAR, false},
                 {801, 900, 100, 0, PST_INTERPOLATION_BILINEAR, true},
                 {801, 900, 100, 0, PST_INTERPOLATION_NEAREST, false},
                 {801, 900, 100, 0, PST_INTERPOLATION_NEAREST_EXACT, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pst_op op = make_op(PST_OP_RESIZE, cases[i].to, cases[i].to);
        op.interpolation = cases[i].interpolation;
        op.no_antialias = cases[i].no_antialias;
        const struct scaled_case c = {
            .ops = &op, .n_ops = 1, .height = cases[i].height, .width = cases[i].width};
        const struct psti_chain_output format = {.channels = 3, .bits = 8};
        assert_int_equal(draw_scaled(&c, &format, 0).scale_log2, cases[i].scale_log2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_picture_does_not_move),
        cmocka_unit_test(levels_agree),
        cmocka_unit_test(scales_are_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
