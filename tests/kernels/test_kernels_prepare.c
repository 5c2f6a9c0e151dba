/* test_kernels_prepare.c - the CPU build of the GPU kernels prepares rows in passes by recipes,
 * for random chains, sizes, dtypes and layouts. The rows are bit-identical to those of the CPU's
 * chain. */
#include "kernels/prepare_helper.h"
#include "sanitizer.h"
#include "store_kernel.h"

/* Fewer rounds with a sanitizer, which makes each round several times slower. */
enum { SLOWER = TEST_ASAN ? 5 : 1 };

void psti_test_store(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);

#define MAX_OPS 7

/* Stores the region as a decoder would, through a sink (the kernel's output code), or as a
 * picture. */
static void put_region(const struct prepare_batch *batch, struct prepare_row *row)
{
    const struct psti_chain_output *output = &batch->output;
    struct psti_gpu_prepare *prepare = &row->prepare;
    uint32_t asked = 0;
    struct test_store_args args = {
        .pixels = (uintptr_t)row->samples, .asked = (uintptr_t)&asked, .run_px = 64};
    if (row->is_picture)
        args.sink = (struct psti_gpu_sink){.region_height = row->draw.region_height,
                                           .region_width = row->draw.region_width};
    else
        psti_gpu_prepare_sink(prepare, (uintptr_t)row->scratch, &args.sink);
    /* The region is the whole image of the test. */
    args.sink.region_y = args.sink.region_x = 0;
    args.sink.height = (uint16_t)row->draw.region_height;
    args.sink.width = (uint16_t)row->draw.region_width;
    args.sink.channels = output->channels;
    args.sink.bits = output->bits;
    args.sink.orientation = 1;
    args.finish = batch->finish;
    if (row->is_picture)
        args.sink.at = (uintptr_t)row->picture;
    else if (prepare->sink_finishes)
        args.sink.at = (uintptr_t)row->slot.data;
    psti_test_store(2, 2, 0, &args);
}

static float between(struct test_random *random, float low, float high)
{
    return low + (high - low) * (float)test_below(random, 1001) / 1000.0f;
}

static void random_range(struct test_random *random, float range[2], float low, float high)
{
    range[0] = between(random, low, high);
    range[1] = between(random, range[0], high);
}

static struct pst_op random_op(struct test_random *random, const struct psti_chain_output *output)
{
    static const enum pst_op_kind kinds[] = {PST_OP_RESIZE,
                                             PST_OP_CENTER_CROP,
                                             PST_OP_RANDOM_CROP,
                                             PST_OP_RANDOM_RESIZED_CROP,
                                             PST_OP_HORIZONTAL_FLIP,
                                             PST_OP_VERTICAL_FLIP,
                                             PST_OP_PAD,
                                             PST_OP_COLOR_JITTER,
                                             PST_OP_GRAYSCALE};
    struct pst_op op;
    pst_op_init(&op, sizeof op, kinds[test_below(random, output->is_mask ? 7 : 9)]);
    op.height = 1 + test_below(random, 60);
    op.width = 1 + test_below(random, 60);
    if (op.kind == PST_OP_RESIZE && test_below(random, 3) == 0)
        op.width = 0;
    op.interpolation = (enum pst_interpolation)(1 + test_below(random, 4));
    if (output->is_mask)
        op.interpolation = test_below(random, 2) != 0 ? PST_INTERPOLATION_NEAREST
                                                      : PST_INTERPOLATION_NEAREST_EXACT;
    op.no_antialias = test_below(random, 4) == 0;
    op.pad_if_needed = test_below(random, 4) != 0;
    op.pad_mode = (enum pst_pad_mode)test_below(random, 4);
    for (uint32_t i = 0; i < 4; i++) {
        op.pad[i] = test_below(random, 2) * test_below(random, 20);
        op.fill[i] = between(random, 0, output->bits == 8 ? 255 : 65535);
    }
    if (op.kind == PST_OP_COLOR_JITTER) {
        if (test_below(random, 2) != 0)
            random_range(random, op.brightness, 0, 2);
        if (test_below(random, 2) != 0)
            random_range(random, op.contrast, 0, 2);
        if (test_below(random, 2) != 0)
            random_range(random, op.saturation, 0, 2);
        if (test_below(random, 2) != 0)
            random_range(random, op.hue, -0.5f, 0.5f);
    }
    return op;
}

static void choose_output(struct test_random *random, struct psti_chain_output *output)
{
    static const enum pst_dtype dtypes[] = {PST_DTYPE_U8, PST_DTYPE_U16, PST_DTYPE_F16,
                                            PST_DTYPE_BF16, PST_DTYPE_F32};
    output->dtype = dtypes[test_below(random, 5)];
    output->layout = test_below(random, 2) != 0 ? PST_LAYOUT_CHW : PST_LAYOUT_HWC;
    output->channels = (uint8_t)(test_below(random, 3) == 0 ? 1 + test_below(random, 4) : 3);
    output->bits = test_below(random, 3) != 0 ? 8 : 16;
    output->is_mask = test_below(random, 6) == 0;
    if (output->is_mask && (output->dtype == PST_DTYPE_F16 || output->dtype == PST_DTYPE_BF16 ||
                            (output->dtype == PST_DTYPE_U8 && output->bits == 16)))
        output->dtype = PST_DTYPE_F32;
    if (output->is_mask && output->channels == 1 && test_below(random, 2) != 0)
        output->dtype = test_below(random, 2) != 0 ? PST_DTYPE_I32 : PST_DTYPE_I64;
}

static void test_random_chains(void **state)
{
    (void)state;
    struct test_random random = {23, 0};
    struct prepare_batch batch = {.put_region = put_region};
    uint32_t n_run = 0;
    for (int i = 0; i < 2500 / SLOWER; i++) {
        struct pst_op ops[MAX_OPS];
        size_t n_ops = test_below(&random, MAX_OPS);
        choose_output(&random, &batch.output);
        for (size_t k = 0; k < n_ops; k++)
            ops[k] = random_op(&random, &batch.output);
        bool is_float = batch.output.dtype >= PST_DTYPE_F16 && !batch.output.is_mask;
        if (is_float && n_ops > 0 && test_below(&random, 2) != 0) {
            pst_op_init(&ops[n_ops - 1], sizeof ops[n_ops - 1], PST_OP_NORMALIZE);
            for (uint32_t c = 0; c < 4; c++) {
                ops[n_ops - 1].mean[c] = between(&random, 0, 1);
                ops[n_ops - 1].std[c] = between(&random, 0.1f, 1);
            }
        }
        batch.n_rows = 1 + test_below(&random, PREPARE_ROWS_MAX);
        uint32_t side = i % 16 == 0 ? 300 : i % 3 == 0 ? 20 : 90;
        for (uint32_t r = 0; r < batch.n_rows; r++) {
            batch.rows[r].height = 1 + test_below(&random, side);
            batch.rows[r].width = 1 + test_below(&random, side);
        }
        n_run += prepare_run_chain(&random, &batch, ops, n_ops);
    }
    print_message("%u chains, %u and %u launches, %u rows finished by the sink\n", n_run,
                  batch.n_launches[PSTI_GPU_PASS_RESIZE], batch.n_launches[PSTI_GPU_PASS_POINT],
                  batch.n_direct);
    assert_true(n_run > 1500 / SLOWER && batch.n_direct > 100 / SLOWER);
}

/* Draws displacements along both axes, along one, or such as reach far outside of the picture;
 * often without a blur. */
static void random_elastic(struct test_random *random, struct pst_op *op)
{
    for (uint32_t axis = 0; axis < 2; axis++) {
        uint32_t kind = test_below(random, 6);
        op->alpha[axis] = kind == 0 ? 0 : kind == 1 ? 1e6f : between(random, -90, 90);
        op->sigma[axis] = test_below(random, 4) == 0 ? 0 : between(random, 0.1f, 5);
        if (test_below(random, 12) == 0)
            op->sigma[axis] = 31;
    }
}

/* Draws an operation of augment_warp.c, augment_tone.c, augment_blur.c, augment_erase.c or
 * augment_policy.c. */
static struct pst_op random_picture_op(struct test_random *random,
                                       const struct psti_chain_output *output)
{
    static const enum pst_op_kind kinds[] = {
        PST_OP_AFFINE,        PST_OP_PERSPECTIVE,  PST_OP_INVERT,          PST_OP_POSTERIZE,
        PST_OP_SOLARIZE,      PST_OP_AUTOCONTRAST, PST_OP_EQUALIZE,        PST_OP_SHARPNESS,
        PST_OP_GAUSSIAN_BLUR, PST_OP_RAND_AUGMENT, PST_OP_TRIVIAL_AUGMENT, PST_OP_AUTO_AUGMENT,
        PST_OP_ELASTIC,       PST_OP_ELASTIC,      PST_OP_AUGMIX,          PST_OP_AUGMIX};
    struct pst_op op;
    pst_op_init(&op, sizeof op, kinds[test_below(random, sizeof kinds / sizeof kinds[0])]);
    op.p = test_below(random, 4) != 0 ? 1 : 0.5f;
    op.interpolation =
        test_below(random, 2) != 0 ? PST_INTERPOLATION_NEAREST : PST_INTERPOLATION_BILINEAR;
    for (uint32_t i = 0; i < 4; i++)
        op.fill[i] = between(random, 0, output->bits == 8 ? 255 : 65535);
    op.no_blend = test_below(random, 3) == 0;
    switch (op.kind) {
    case PST_OP_AFFINE:
        random_range(random, op.degrees, -200, 200);
        op.translate[0] = between(random, 0, 1);
        op.translate[1] = between(random, 0, 1);
        random_range(random, op.scale, 0.2f, 3);
        random_range(random, &op.shear[0], -60, 60);
        random_range(random, &op.shear[2], -60, 60);
        break;
    case PST_OP_PERSPECTIVE:
        op.distortion = between(random, 0, 1);
        break;
    case PST_OP_POSTERIZE:
        op.bits = test_below(random, 9);
        break;
    case PST_OP_SOLARIZE:
        op.threshold = between(random, 0, 255);
        break;
    case PST_OP_SHARPNESS:
        op.factor = between(random, 0, 3);
        break;
    case PST_OP_GAUSSIAN_BLUR:
        op.height = 1 + 2 * test_below(random, 12);
        op.width = 1 + 2 * test_below(random, 12);
        random_range(random, op.sigma, 0.1f, 6);
        break;
    case PST_OP_RAND_AUGMENT:
        op.magnitude = test_below(random, op.n_magnitudes);
        break;
    case PST_OP_ELASTIC:
        random_elastic(random, &op);
        break;
    case PST_OP_AUGMIX:
        op.magnitude = 1 + test_below(random, 10);
        op.mixture_width = 1 + test_below(random, 4);
        op.chain_depth = test_below(random, 4);
        op.alpha[0] = between(random, 0.05f, 3);
        op.all_ops = test_below(random, 4) != 0;
        break;
    case PST_OP_AUTO_AUGMENT:
        op.policy = (enum pst_auto_policy)(PST_AUTO_POLICY_IMAGENET + test_below(random, 3));
        break;
    default:
        break;
    }
    return op;
}

/* Draws sizes whose sides are small, odd, or longer than a tile. */
static void random_sizes(struct test_random *random, struct prepare_batch *batch)
{
    batch->n_rows = 1 + test_below(random, PREPARE_ROWS_MAX);
    uint32_t side = test_below(random, 12) == 0 ? 300 : test_below(random, 3) == 0 ? 5 : 70;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        batch->rows[r].height = 1 + test_below(random, side);
        batch->rows[r].width = 1 + test_below(random, side);
    }
}

/* Chains with up to three operations that need whole pictures among others, and sometimes erasing
 * at the end. */
static void test_pictures(void **state)
{
    (void)state;
    struct test_random random = {37, 0};
    struct prepare_batch batch = {.put_region = put_region};
    uint32_t n_run = 0;
    for (int i = 0; i < 5000 / SLOWER; i++) {
        struct pst_op ops[MAX_OPS];
        size_t n_ops = 0;
        choose_output(&random, &batch.output);
        batch.output.is_mask = false;
        if (batch.output.dtype == PST_DTYPE_I32 || batch.output.dtype == PST_DTYPE_I64)
            batch.output.dtype = PST_DTYPE_U8;
        for (uint32_t n = test_below(&random, 3); n > 0; n--)
            ops[n_ops++] = random_op(&random, &batch.output);
        for (uint32_t n = test_below(&random, 4); n > 0; n--) {
            ops[n_ops++] = random_picture_op(&random, &batch.output);
            if (n_ops < 5 && test_below(&random, 3) == 0)
                ops[n_ops++] = random_op(&random, &batch.output);
        }
        if (n_ops < MAX_OPS && test_below(&random, 3) == 0) {
            struct pst_op *op = &ops[n_ops++];
            pst_op_init(op, sizeof *op, PST_OP_ERASING);
            op->p = 1;
            op->noise = test_below(&random, 2) != 0;
            for (uint32_t c = 0; c < 4; c++)
                op->fill[c] = between(&random, -1, 300);
        }
        random_sizes(&random, &batch);
        n_run += prepare_run_chain(&random, &batch, ops, n_ops);
    }
    print_message("%u chains;", n_run);
    for (int k = 0; k < PSTI_GPU_N_PASS_KINDS; k++)
        print_message(" %u", batch.n_kinds[k]);
    print_message(" passes by kind\n");
    assert_true(n_run > 3000 / SLOWER);
    for (int k = 0; k < PSTI_GPU_N_PASS_KINDS; k++)
        assert_true(batch.n_kinds[k] > 60 / SLOWER);
}

/* Draws a MapLabels of 8-bit masks. The numbers lie in `labels`. */
static struct pst_op random_labels(struct test_random *random, uint16_t labels[256])
{
    struct pst_op op;
    pst_op_init(&op, sizeof op, PST_OP_MAP_LABELS);
    for (uint32_t i = 0; i < 256; i++)
        labels[i] = (uint16_t)test_below(random, 256);
    op.labels = labels;
    op.n_labels = test_below(random, 257);
    op.keep_others = test_below(random, 2) != 0;
    op.other_label = (uint16_t)test_below(random, 256);
    return op;
}

/* Warps of masks, which take the nearest pixel, and MapLabels of masks of 8 bits. */
static void test_masks(void **state)
{
    (void)state;
    static const enum pst_op_kind kinds[] = {PST_OP_AFFINE, PST_OP_PERSPECTIVE, PST_OP_ELASTIC};
    struct test_random random = {41, 0};
    struct prepare_batch batch = {.put_region = put_region};
    uint32_t n_run = 0, n_labels = 0;
    for (int i = 0; i < 900 / SLOWER; i++) {
        struct pst_op ops[MAX_OPS];
        uint16_t labels[2][256];
        size_t n_ops = 0;
        do {
            choose_output(&random, &batch.output);
        } while (!batch.output.is_mask);
        if (i % 2 != 0)
            batch.output.channels = 1;
        const bool has_labels = batch.output.channels == 1 && batch.output.bits == 8;
        for (uint32_t n = 0; has_labels && n < 2; n++) {
            if (test_below(&random, 3) == 0)
                continue;
            if (test_below(&random, 2) != 0)
                ops[n_ops++] = random_op(&random, &batch.output);
            ops[n_ops++] = random_labels(&random, labels[n]);
            n_labels++;
        }
        for (uint32_t n = test_below(&random, 3); n > 0; n--) {
            struct pst_op *op = &ops[n_ops++];
            pst_op_init(op, sizeof *op, kinds[test_below(&random, 3)]);
            op->p = 1;
            op->interpolation = PST_INTERPOLATION_NEAREST;
            op->distortion = between(&random, 0, 1);
            op->fill[0] = between(&random, 0, 255);
            random_range(&random, op->degrees, -200, 200);
            random_elastic(&random, op);
            if (n_ops < MAX_OPS && test_below(&random, 2) != 0)
                ops[n_ops++] = random_op(&random, &batch.output);
        }
        random_sizes(&random, &batch);
        n_run += prepare_run_chain(&random, &batch, ops, n_ops);
    }
    print_message("%u chains of masks, %u times MapLabels\n", n_run, n_labels);
    assert_true(n_run > 600 / SLOWER && n_labels > 200 / SLOWER);
    assert_true(batch.n_kinds[PSTI_GPU_SHIFTS_Y] > 60 / SLOWER);
}

/* Filters with more taps than a warp can keep rows or weights for. */
static void test_long_filters(void **state)
{
    (void)state;
    static const uint32_t sizes[][4] = {{900, 40, 5, 3},   {40, 900, 3, 5},   {700, 700, 9, 10},
                                        {64, 2000, 64, 1}, {1500, 33, 1, 70}, {310, 310, 10, 31}};
    struct test_random random = {29, 0};
    struct prepare_batch batch = {.put_region = put_region};
    for (uint32_t i = 0; i < 6 * 8; i++) {
        const uint32_t *size = sizes[i % 6];
        struct pst_op ops[2];
        pst_op_init(&ops[0], sizeof ops[0], PST_OP_RESIZE);
        ops[0].height = size[2];
        ops[0].width = size[3];
        ops[0].interpolation = i % 2 != 0 ? PST_INTERPOLATION_BICUBIC : PST_INTERPOLATION_BILINEAR;
        pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
        choose_output(&random, &batch.output);
        batch.output.is_mask = false;
        batch.n_rows = 1;
        batch.rows[0].height = size[0];
        batch.rows[0].width = size[1];
        assert_true(prepare_run_chain(&random, &batch, ops, 2));
    }
}

/* All colours of a coarse grid go through the colour operations in every order. */
static void test_colors(void **state)
{
    (void)state;
    struct test_random random = {31, 0};
    struct prepare_batch batch = {.put_region = put_region};
    for (uint32_t i = 0; i < 60; i++) {
        struct pst_op ops[2];
        pst_op_init(&ops[0], sizeof ops[0], PST_OP_COLOR_JITTER);
        random_range(&random, ops[0].brightness, 0.3f, 1.9f);
        random_range(&random, ops[0].contrast, 0.3f, 1.9f);
        random_range(&random, ops[0].saturation, 0, 2);
        random_range(&random, ops[0].hue, -0.5f, 0.5f);
        pst_op_init(&ops[1], sizeof ops[1], PST_OP_GRAYSCALE);
        ops[1].p = i % 3 == 0;
        choose_output(&random, &batch.output);
        batch.output.is_mask = false;
        batch.output.channels = i % 2 != 0 ? 3 : 4;
        batch.output.dtype = batch.output.bits == 8 ? PST_DTYPE_U8 : PST_DTYPE_U16;
        batch.n_rows = 2;
        for (uint32_t r = 0; r < 2; r++)
            batch.rows[r].height = batch.rows[r].width = 90;
        assert_true(prepare_run_chain(&random, &batch, ops, 2));
    }
}

static const struct psti_chain_output rgb = {PST_DTYPE_U8, PST_LAYOUT_HWC, 3, 8, false};

/* Plans one draw of a chain for pictures of 8 x 8 pixels. */
static enum pst_status plan_chain(const struct psti_chain_output *output, const struct pst_op *ops,
                                  size_t n_ops, uint64_t sample, struct psti_gpu_prepare *prepare)
{
    struct pst_error err;
    struct psti_draw draw;
    struct psti_chain *chain;
    assert_ok(psti_augment_chain_compile(ops, n_ops, output, &chain, &err));
    assert_ok(psti_augment_chain_draw(
        chain, &(struct psti_draw_key){.seed = 1, .epoch = 1, .sample = sample}, 8, 8, &draw,
        &err));
    enum pst_status status = psti_gpu_prepare_plan(chain, &draw, false, prepare, &err);
    psti_augment_chain_free(&chain);
    return status;
}

/* A chain of more turns or passes than the limits is refused; one of exactly the limit is
 * accepted. */
static void test_too_many_passes(void **state)
{
    (void)state;
    struct pst_op ops[15];
    struct psti_gpu_prepare *prepare = malloc(sizeof *prepare);
    for (uint32_t i = 0; i < 15; i++) {
        pst_op_init(&ops[i], sizeof ops[i], PST_OP_COLOR_JITTER);
        ops[i].contrast[0] = ops[i].contrast[1] = 0.5f;
    }
    for (size_t n = 14; n <= 15; n++) {
        /* Each contrast needs a pass before it, and the last contrast is part of the last pass. */
        assert_int_equal(plan_chain(&rgb, ops, n, 1, prepare), PST_OK);
        assert_int_equal(prepare->n_passes, n + 1);
    }
    for (uint32_t i = 0; i < 15; i++) { /* two turns each, and the last blur finishes */
        pst_op_init(&ops[i], sizeof ops[i], PST_OP_GAUSSIAN_BLUR);
        ops[i].height = ops[i].width = 3;
    }
    assert_int_equal(plan_chain(&rgb, ops, PSTI_GPU_MAX_TURNS / 2, 1, prepare), PST_OK);
    assert_int_equal(prepare->n_passes, PSTI_GPU_MAX_TURNS);
    assert_int_equal(plan_chain(&rgb, ops, PSTI_GPU_MAX_TURNS / 2 + 1, 1, prepare),
                     PST_ERROR_UNSUPPORTED);
    free(prepare);
}

/* MapLabels of a mask of 16 bits, whose table is large, is left to the CPU. */
static void test_wide_labels(void **state)
{
    (void)state;
    static const uint16_t labels[] = {7, 3};
    const struct psti_chain_output wide = {PST_DTYPE_U16, PST_LAYOUT_HWC, 1, 16, true};
    struct psti_gpu_prepare *prepare = malloc(sizeof *prepare);
    struct pst_op op;
    pst_op_init(&op, sizeof op, PST_OP_MAP_LABELS);
    op.labels = labels;
    op.n_labels = 2;
    assert_int_equal(plan_chain(&wide, &op, 1, 1, prepare), PST_ERROR_UNSUPPORTED);
    assert_string_equal(prepare->recipe.other, "MapLabels");
    free(prepare);
}

/* AugMix with its defaults never needs the CPU, among several other operations. The widest and
 * deepest AugMix does not either, but two of them do. */
static void test_augmix_limits(void **state)
{
    (void)state;
    struct pst_op ops[8];
    uint32_t most_turns = 0, most_passes = 0;
    struct psti_gpu_prepare *prepare = malloc(sizeof *prepare);
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_RESIZED_CROP);
    ops[0].height = ops[0].width = 7;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    pst_op_init(&ops[2], sizeof ops[2], PST_OP_COLOR_JITTER);
    ops[2].contrast[0] = ops[2].contrast[1] = 0.5f;
    pst_op_init(&ops[3], sizeof ops[3], PST_OP_ELASTIC);
    pst_op_init(&ops[4], sizeof ops[4], PST_OP_GAUSSIAN_BLUR);
    ops[4].height = ops[4].width = 3;
    pst_op_init(&ops[5], sizeof ops[5], PST_OP_AUGMIX);
    ops[6] = ops[4];
    pst_op_init(&ops[7], sizeof ops[7], PST_OP_ERASING);
    ops[7].p = 1;
    for (uint64_t sample = 0; sample < 20000; sample++) {
        assert_int_equal(plan_chain(&rgb, ops, 8, sample, prepare), PST_OK);
        uint32_t turns = 1u + prepare->passes[prepare->n_passes - 1].turn;
        most_turns = turns > most_turns ? turns : most_turns;
        most_passes = prepare->n_passes > most_passes ? prepare->n_passes : most_passes;
    }
    print_message("AugMix: up to %u passes in %u turns\n", most_passes, most_turns);
    /* Three chains of three operations, each of two passes at most. */
    assert_in_range(most_passes, 18, 18 + 18);
    assert_in_range(most_turns, 14, 18);
    ops[5].mixture_width = ops[5].chain_depth = 8;
    ops[6] = ops[5];
    for (uint64_t sample = 0; sample < 200; sample++)
        assert_int_equal(plan_chain(&rgb, &ops[5], 1, sample, prepare), PST_OK);
    assert_int_equal(plan_chain(&rgb, &ops[5], 2, 1, prepare), PST_ERROR_UNSUPPORTED);
    assert_string_equal(prepare->recipe.other, "AugMix");
    free(prepare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_chains),   cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_long_filters),    cmocka_unit_test(test_colors),
        cmocka_unit_test(test_too_many_passes), cmocka_unit_test(test_masks),
        cmocka_unit_test(test_augmix_limits),   cmocka_unit_test(test_wide_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
