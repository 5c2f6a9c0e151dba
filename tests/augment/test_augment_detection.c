/* Guards against a hazard: operations for detection give other results fused than one by one,
 * differ between CPU levels, or break their documented rules. */
#include "augment_helper.h"

#include <math.h>

static const struct psti_chain_output IMAGE = {.channels = 3, .bits = 8};

static struct pst_op op_of(enum pst_op_kind kind)
{
    struct pst_op op;
    pst_op_init(&op, sizeof op, kind);
    return op;
}

/* A random operation, with parameters that suit pictures of some tens of pixels. */
static struct pst_op random_op(struct test_random *r)
{
    static const enum pst_op_kind kinds[] = {PST_OP_RANDOM_ZOOM_OUT, PST_OP_LETTERBOX,
                                             PST_OP_SCALE_JITTER,    PST_OP_RANDOM_RESIZE,
                                             PST_OP_HORIZONTAL_FLIP, PST_OP_RANDOM_SHORTEST_SIZE,
                                             PST_OP_CENTER_CROP,     PST_OP_PAD,
                                             PST_OP_MAP_LABELS};
    struct pst_op op = op_of(kinds[test_below(r, 9)]);
    op.height = 10 + test_below(r, 40);
    op.width = 10 + test_below(r, 40);
    op.pad[test_below(r, 4)] = test_below(r, 5);
    op.no_scale_up = test_below(r, 2) == 0;
    op.n_sizes = 2;
    op.sizes[0] = 10 + test_below(r, 10);
    op.sizes[1] = 25 + test_below(r, 10);
    op.max_size = test_below(r, 2) * 40;
    op.mask_fill = (float)test_below(r, 200);
    if (op.kind == PST_OP_RANDOM_ZOOM_OUT)
        op.scale[1] = 2;
    if (op.kind == PST_OP_SCALE_JITTER)
        op.scale[0] = 0.5f;
    return op;
}

static void fused_equals_one_by_one(void **state)
{
    (void)state;
    struct test_random r = {.seed = 71};
    uint16_t labels[256];
    for (int i = 0; i < 256; i++)
        labels[i] = (uint16_t)(255 - i);
    for (uint64_t round = 0; round < 300; round++) {
        struct pst_op ops[4], follows[PSTI_AUGMENT_MAX_OPS];
        bool is_mask = round % 2 == 0;
        uint32_t bits = round % 6 == 0 ? 16 : 8;
        struct psti_chain_output format = {
            .channels = is_mask ? 1 : 3, .bits = (uint8_t)bits, .is_mask = is_mask};
        struct test_image image =
            image_make(&r, 5 + test_below(&r, 60), 5 + test_below(&r, 60), format.channels, bits);
        for (int i = 0; i < 4; i++) {
            ops[i] = random_op(&r);
            ops[i].labels = labels;
            ops[i].n_labels = 200;
            ops[i].other_label = 77;
        }
        size_t n = psti_augment_ops_follow(ops, 4, is_mask, follows);
        const struct how one = {.unfused = true},
                         fused = {.features = psti_cpu_features(), .band = 1 + test_below(&r, 7)};
        struct output a = run_chain(follows, n, &format, &image, 5, round, &one);
        struct output b = run_chain(follows, n, &format, &image, 5, round, &fused);
        assert_same_output(&a, &b);
        output_free(&a);
        output_free(&b);
        image_free(&image);
    }
}

static struct psti_chain *compile(const struct pst_op *ops, size_t n)
{
    struct psti_chain *chain;
    struct pst_error err;
    assert_ok(psti_augment_chain_compile(ops, n, &IMAGE, &chain, &err));
    return chain;
}

static void a_crop_needs_boxes(void **state)
{
    (void)state;
    struct pst_op op = op_of(PST_OP_RANDOM_IOU_CROP);
    struct psti_chain *chain = compile(&op, 1);
    struct psti_draw draw;
    struct pst_error err;
    assert_int_equal(
        psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1}, 90, 90, &draw, &err),
        PST_ERROR_STATE);
    assert_non_null(strstr(err.text, "RandomIoUCrop"));
    assert_string_equal(psti_augment_ops_need_boxes(&op, 1), "RandomIoUCrop");
    psti_augment_chain_free(&chain);
}

/* The crop contains the centre of each kept box, and at least one box overlaps the crop as much as
 * required. */
static void crops_hold_what_they_say(void **state)
{
    (void)state;
    float boxes[] = {10, 20, 60, 80, 50, 10, 120, 60, 100, 70, 119, 89, 30, 30, 30, 50}, memory[16];
    struct pst_op ops[2] = {op_of(PST_OP_HORIZONTAL_FLIP), op_of(PST_OP_RANDOM_IOU_CROP)};
    ops[1].n_overlaps = 1;
    uint32_t n_crops = 0;
    for (uint64_t sample = 0; sample < 500; sample++) {
        const struct psti_draw_boxes given = {boxes, memory, 4};
        ops[1].overlaps[0] = (float)(sample % 4) * 0.2f;
        struct psti_chain *chain = compile(ops, 2);
        struct psti_draw draw;
        struct pst_error err;
        const struct psti_draw_key key = {.seed = 3, .sample = sample, .boxes = &given};
        assert_ok(psti_augment_chain_draw(chain, &key, 90, 120, &draw, &err));
        float moved[16];
        memcpy(moved, boxes, sizeof moved);
        psti_augment_chain_map_boxes(chain, &draw, moved, 4);
        double best = 0;
        uint32_t n_kept = 0;
        bool flipped = draw.opaque[0] != 0;
        uint32_t y = (uint32_t)draw.opaque[4], x = (uint32_t)(draw.opaque[4] >> 32);
        for (int i = 0; i < 4; i++) {
            double x0 = flipped ? 120 - boxes[4 * i + 2] : boxes[4 * i];
            double x1 = flipped ? 120 - boxes[4 * i] : boxes[4 * i + 2];
            double cx = (x0 + x1) / 2 - x, cy = (boxes[4 * i + 1] + boxes[4 * i + 3]) / 2.0 - y;
            bool within = cx > 0 && cx < draw.out_width && cy > 0 && cy < draw.out_height;
            double w = moved[4 * i + 2] - moved[4 * i], h = moved[4 * i + 3] - moved[4 * i + 1];
            double area = (x1 - x0) * (boxes[4 * i + 3] - boxes[4 * i + 1]);
            double overlap = w * h / (area + (double)draw.out_width * draw.out_height - w * h);
            assert_true(within || draw.opaque[5] == 0 || w * h == 0);
            best = within && overlap > best ? overlap : best;
            n_kept += w * h > 0;
        }
        assert_true(n_kept > 0);
        n_crops += draw.opaque[5] != 0;
        assert_true(draw.opaque[5] == 0 || best >= ops[1].overlaps[0] - 1e-6);
        assert_true(draw.out_height >= 27 && draw.out_width >= 36);
        psti_augment_chain_free(&chain);
    }
    assert_true(n_crops > 450);
}

static void wrong_parameters_are_refused(void **state)
{
    (void)state;
    struct pst_op ops[14];
    const enum pst_op_kind kinds[14] = {
        PST_OP_RANDOM_IOU_CROP,      PST_OP_RANDOM_IOU_CROP, PST_OP_RANDOM_IOU_CROP,
        PST_OP_RANDOM_ZOOM_OUT,      PST_OP_LETTERBOX,       PST_OP_SCALE_JITTER,
        PST_OP_RANDOM_SHORTEST_SIZE, PST_OP_RANDOM_RESIZE,   PST_OP_MAP_LABELS,
        PST_OP_SANITIZE_BOXES,       PST_OP_RANDOM_IOU_CROP, PST_OP_RANDOM_ZOOM_OUT,
        PST_OP_SCALE_JITTER,         PST_OP_SANITIZE_BOXES};
    for (int i = 0; i < 14; i++)
        ops[i] = op_of(kinds[i]);
    ops[0].scale[0] = 2;
    ops[1].n_overlaps = 17;
    ops[2].overlaps[1] = NAN;
    ops[3].scale[0] = 0.5f;
    ops[5].height = 20;
    ops[8].n_labels = 3;
    ops[9].min_size = -1;
    ops[10].trials = 0;
    ops[11].p = NAN;
    ops[12].scale[1] = INFINITY;
    ops[13].min_area = NAN;
    for (int i = 0; i < 14; i++) {
        struct psti_chain *chain;
        struct pst_error err;
        assert_int_equal(psti_augment_chain_compile(&ops[i], 1, &IMAGE, &chain, &err),
                         PST_ERROR_ARGUMENT);
        assert_null(chain);
        assert_non_null(strstr(err.text, psti_augment_op_name(kinds[i])));
    }
}

static void a_canvas_that_is_too_large_is_an_error(void **state)
{
    (void)state;
    struct pst_op op = op_of(PST_OP_RANDOM_ZOOM_OUT);
    op.p = 1;
    op.scale[0] = op.scale[1] = 1000;
    struct psti_chain *chain = compile(&op, 1);
    struct psti_draw draw;
    struct pst_error err;
    assert_int_equal(
        psti_augment_chain_draw(chain, &(struct psti_draw_key){.seed = 1}, 2000, 2000, &draw, &err),
        PST_ERROR_ARGUMENT);
    psti_augment_chain_free(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_equals_one_by_one),
        cmocka_unit_test(a_crop_needs_boxes),
        cmocka_unit_test(crops_hold_what_they_say),
        cmocka_unit_test(wrong_parameters_are_refused),
        cmocka_unit_test(a_canvas_that_is_too_large_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
