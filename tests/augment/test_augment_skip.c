/* Guards against a hazard: continuing a chain from a cached picture gives other pixels, boxes or
 * keypoints than the whole chain on the whole image, because of other random numbers, another
 * region or another rounding. Random chains begin with operations that are the same for every
 * sample, and are cut after any of these. */
#include "augment_helper.h"

static void random_fixed(struct test_random *r, struct pst_op *op)
{
    static const enum pst_op_kind kinds[] = {PST_OP_RESIZE, PST_OP_RESIZE, PST_OP_CENTER_CROP,
                                             PST_OP_PAD};
    *op = make_op(kinds[test_below(r, 4)], 5 + test_below(r, 40), 5 + test_below(r, 40));
    if (op->kind == PST_OP_RESIZE && test_below(r, 2))
        op->width = 0;
    op->interpolation = (enum pst_interpolation)(1 + test_below(r, 4));
    op->no_antialias = test_below(r, 4) == 0;
    for (int i = 0; i < 4; i++) {
        op->pad[i] = test_below(r, 6);
        op->fill[i] = (float)test_below(r, 256);
    }
    op->pad_mode = (enum pst_pad_mode)test_below(r, 4);
}

static void random_rest(struct test_random *r, struct pst_op *op)
{
    static const enum pst_op_kind kinds[] = {PST_OP_RANDOM_CROP,     PST_OP_RANDOM_RESIZED_CROP,
                                             PST_OP_HORIZONTAL_FLIP, PST_OP_VERTICAL_FLIP,
                                             PST_OP_COLOR_JITTER,    PST_OP_GRAYSCALE};
    *op = make_op(kinds[test_below(r, 6)], 4 + test_below(r, 20), 4 + test_below(r, 20));
    op->pad_if_needed = true;
    op->p = 0.5F;
    op->brightness[0] = op->contrast[0] = op->saturation[0] = 0.5F;
    op->brightness[1] = op->contrast[1] = op->saturation[1] = 1.5F;
}

/* Runs the rest of the chain on a picture to which its first n operations were applied. */
static struct output run_skipped(const struct pst_op *ops, size_t n_ops, size_t n,
                                 const struct psti_chain_output *format, const struct output *whole,
                                 const struct test_image *picture)
{
    struct pst_error err;
    struct psti_chain *chain;
    struct psti_run *run;
    struct output out = {.height = whole->height, .width = whole->width, .nbytes = whole->nbytes};
    assert_ok(psti_augment_chain_compile(ops, n_ops, format, &chain, &err));
    out.draw = whole->draw;
    psti_augment_chain_skip(chain, &out.draw, n);
    assert_int_equal(out.draw.out_height, whole->draw.out_height);
    out.data = malloc(out.nbytes);
    struct psti_target target = {out.data, out.nbytes / out.height};
    assert_ok(psti_augment_run_open(&run, &err));
    assert_ok(psti_augment_run_begin(run, chain, &out.draw, &target, &err));
    feed(run, picture, &out.draw, 3);
    assert_ok(psti_augment_run_end(run, &err));
    float a[8] = {1, 2, 30, 20, 4, 4, 9, 9}, b[8], points[6] = {3, 4, 1, 30, 2, 1}, moved[6];
    memcpy(b, a, sizeof a);
    memcpy(moved, points, sizeof points);
    psti_augment_chain_map_boxes(chain, &whole->draw, a, 2);
    psti_augment_chain_map_boxes(chain, &out.draw, b, 2);
    assert_memory_equal(a, b, sizeof a);
    psti_augment_chain_map_keypoints(chain, &whole->draw, points, 2);
    psti_augment_chain_map_keypoints(chain, &out.draw, moved, 2);
    assert_memory_equal(points, moved, sizeof points);
    psti_augment_run_close(&run);
    psti_augment_chain_free(&chain);
    return out;
}

static void pictures_go_on(void **state)
{
    struct test_random r = {.seed = 31};
    (void)state;
    for (uint32_t round = 0; round < 250; round++) {
        struct pst_op ops[8];
        size_t n_fixed = 1 + test_below(&r, 3), n_ops = n_fixed + test_below(&r, 4);
        for (size_t i = 0; i < n_ops; i++)
            i < n_fixed ? random_fixed(&r, &ops[i]) : random_rest(&r, &ops[i]);
        assert_int_equal(psti_augment_ops_fixed(ops, n_ops), n_fixed);
        uint8_t channels = test_below(&r, 2) ? 3 : 1, bits = test_below(&r, 3) ? 8 : 16;
        const struct psti_chain_output format = {.dtype = test_below(&r, 2) ? PST_DTYPE_F32
                                                          : bits == 16      ? PST_DTYPE_U16
                                                                            : PST_DTYPE_U8,
                                                 .layout = PST_LAYOUT_HWC,
                                                 .channels = channels,
                                                 .bits = bits};
        const struct psti_chain_output pixels = {
            .dtype = bits == 16 ? PST_DTYPE_U16 : PST_DTYPE_U8, .channels = channels, .bits = bits};
        const struct how how = {.features = psti_cpu_detected()};
        struct test_image image =
            image_make(&r, 8 + test_below(&r, 60), 8 + test_below(&r, 60), channels, bits);
        struct output whole = run_chain(ops, n_ops, &format, &image, round, round, &how);
        for (size_t n = 1; n <= n_fixed; n++) {
            struct output kept = run_chain(ops, n, &pixels, &image, 0, 0, &how);
            struct test_image picture = {kept.height, kept.width, channels, bits, {0}};
            picture.memory = guarded_make(kept.nbytes, 0);
            memcpy(picture.memory.data, kept.data, kept.nbytes);
            struct output out = run_skipped(ops, n_ops, n, &format, &whole, &picture);
            assert_same_output(&whole, &out);
            output_free(&out);
            output_free(&kept);
            image_free(&picture);
        }
        output_free(&whole);
        image_free(&image);
    }
}

static void which_are_fixed(void **state)
{
    (void)state;
    for (int kind = PST_OP_RESIZE; kind <= PST_OP_NORMALIZE; kind++) {
        const struct pst_op op = make_op((enum pst_op_kind)kind, 8, 8);
        bool fixed = kind == PST_OP_RESIZE || kind == PST_OP_CENTER_CROP || kind == PST_OP_PAD;
        assert_int_equal(psti_augment_ops_fixed(&op, 1), fixed);
    }
    assert_int_equal(psti_augment_ops_fixed(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_go_on),
        cmocka_unit_test(which_are_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
