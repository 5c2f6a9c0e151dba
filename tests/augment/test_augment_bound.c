/* test_augment_bound.c - hazard: a run needs more scratch than the bound of its chain says, so that
 * a loader which charged the bound refuses a batch by chance. Random chains of all operations that
 * can be behind a mosaic, on all levels of kernels, with the bound as the limit of the run. */
#include "augment_helper.h"

enum { N_CHAINS = 600, N_DRAWS = 6, MAX_OPS = 5 };

/* Sizes: from a few pixels to some hundred, so that filters have many taps. */
static uint32_t side(struct test_random *r)
{
    return 4 + (test_below(r, 4) ? test_below(r, 60) : test_below(r, 300));
}

static void set_sizes(struct test_random *r, struct pst_op *op)
{
    uint32_t low = 4 + test_below(r, 60);
    for (uint32_t i = 0; i < PST_MAX_SIZES; i++)
        op->sizes[i] = 4 + test_below(r, 120);
    op->n_sizes = 1 + test_below(r, PST_MAX_SIZES);
    op->max_size = test_below(r, 2) ? 20 + test_below(r, 120) : 0;
    if (op->kind == PST_OP_RANDOM_RESIZE) {
        op->sizes[0] = low;
        op->sizes[1] = low + 1 + test_below(r, 90);
    }
}

static void set_scales(struct test_random *r, struct pst_op *op)
{
    if (op->kind == PST_OP_SCALE_JITTER) {
        op->scale[0] = 0.05F + (float)test_below(r, 100) / 100;
        op->scale[1] = op->scale[0] + (float)test_below(r, 150) / 100;
        if (test_below(r, 2))
            op->height = op->width = 0;
    }
    if (op->kind == PST_OP_RANDOM_ZOOM_OUT)
        op->scale[1] = 1 + (float)test_below(r, 200) / 100;
}

static void random_op(struct test_random *r, bool is_mask, struct pst_op *op)
{
    static const enum pst_op_kind kinds[] = {
        PST_OP_RESIZE,          PST_OP_CENTER_CROP,     PST_OP_RANDOM_CROP,
        PST_OP_PAD,             PST_OP_RANDOM_ZOOM_OUT, PST_OP_RANDOM_RESIZED_CROP,
        PST_OP_LETTERBOX,       PST_OP_SCALE_JITTER,    PST_OP_RANDOM_SHORTEST_SIZE,
        PST_OP_RANDOM_RESIZE,   PST_OP_HORIZONTAL_FLIP, PST_OP_VERTICAL_FLIP,
        PST_OP_AFFINE,          PST_OP_PERSPECTIVE,     PST_OP_ELASTIC,
        PST_OP_COLOR_JITTER,    PST_OP_GAUSSIAN_BLUR,   PST_OP_SHARPNESS,
        PST_OP_RAND_AUGMENT,    PST_OP_TRIVIAL_AUGMENT, PST_OP_AUGMIX,
    };
    enum { N_KINDS = sizeof kinds / sizeof kinds[0], N_GEOMETRIC = 15 };
    *op = make_op(kinds[test_below(r, is_mask ? N_GEOMETRIC : N_KINDS)], side(r), side(r));
    set_sizes(r, op);
    set_scales(r, op);
    if (op->kind == PST_OP_RESIZE && test_below(r, 2))
        op->width = 0;
    if (op->kind == PST_OP_GAUSSIAN_BLUR)
        op->height = op->width = 1 + 2 * test_below(r, 6);
    op->interpolation = is_mask ? PST_INTERPOLATION_NEAREST
                                : (enum pst_interpolation)(1 + test_below(r, 4));
    if (op->kind >= PST_OP_AFFINE)
        op->interpolation =
            test_below(r, 2) ? PST_INTERPOLATION_NEAREST : PST_INTERPOLATION_BILINEAR;
    op->no_antialias = test_below(r, 4) == 0;
    op->pad_if_needed = true;
    op->no_scale_up = test_below(r, 2);
    for (int i = 0; i < 4; i++)
        op->pad[i] = test_below(r, 30);
    op->degrees[0] = -30;
    op->degrees[1] = 30;
    op->distortion = 0.4F;
    op->sigma[0] = 0.5F;
    op->sigma[1] = 0.5F + (float)test_below(r, 60) / 10;
    op->alpha[0] = op->alpha[1] = 2;
    op->brightness[0] = 0.5F;
    op->factor = 1.7F;
}

static struct psti_chain_output random_format(struct test_random *r)
{
    bool wide = test_below(r, 3) == 0;
    return (struct psti_chain_output){.dtype = wide ? PST_DTYPE_U16 : PST_DTYPE_U8,
                                      .layout = test_below(r, 2) ? PST_LAYOUT_CHW : PST_LAYOUT_HWC,
                                      .channels = test_below(r, 2) ? 3 : 1,
                                      .bits = wide ? 16 : 8,
                                      .is_mask = false};
}

/* Runs a drawn sample with no more scratch than the bound. */
static void run_drawn(const struct psti_chain *chain, struct psti_run *run,
                      const struct psti_draw *draw, const struct test_image *image)
{
    struct pst_error err;
    size_t nbytes = psti_augment_chain_output_nbytes(chain, draw);
    bool planar = chain->output.layout == PST_LAYOUT_CHW;
    unsigned char *data = malloc(nbytes);
    const struct psti_target target = {
        data, nbytes / draw->out_height / (planar ? chain->output.channels : 1)};
    assert_ok(psti_augment_run_begin(run, chain, draw, &target, &err));
    feed(run, image, draw, 0);
    assert_ok(psti_augment_run_end(run, &err));
    free(data);
}

/* False: the chain cannot be compiled. */
static bool run_chain_within(struct test_random *r, uint32_t round, uint64_t *bound_sum,
                             uint64_t *held_sum)
{
    static const uint32_t features[] = {0, UINT32_MAX};
    struct psti_chain_output format = random_format(r);
    struct pst_op ops[MAX_OPS];
    struct psti_scratch_bound bound = {0};
    struct psti_chain *chain;
    struct psti_run *run;
    struct psti_draw draw;
    struct pst_error err;
    size_t n_ops = 1 + test_below(r, MAX_OPS);
    format.is_mask = format.channels == 1 && test_below(r, 2);
    for (size_t i = 0; i < n_ops; i++)
        random_op(r, format.is_mask, &ops[i]);
    if (psti_augment_compile(ops, n_ops, &format, features[round % 2] & psti_cpu_features(), false,
                             &chain, &err) != PST_OK)
        return false;
    struct test_image image = image_make(r, side(r), side(r), format.channels, format.bits);
    psti_augment_chain_bound(chain, image.height, image.width, &bound);
    uint64_t most = psti_augment_bound_nbytes(&bound);
    assert_ok(psti_augment_run_open(&run, &err));
    psti_augment_run_set_scratch_limit(run, most);
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        const struct psti_draw_key key = {.seed = round, .sample = i};
        if (psti_augment_chain_draw(chain, &key, image.height, image.width, &draw, &err) == PST_OK)
            run_drawn(chain, run, &draw, &image);
    }
    assert_true(psti_augment_run_scratch_nbytes(run) <= most);
    *bound_sum += most;
    *held_sum += psti_augment_run_scratch_nbytes(run);
    psti_augment_run_close(&run);
    psti_augment_chain_free(&chain);
    image_free(&image);
    return true;
}

static void runs_keep_within_the_bound(void **state)
{
    struct test_random r = {.seed = 77};
    uint64_t bound_sum = 0, held_sum = 0;
    uint32_t n = 0;
    (void)state;
    for (uint32_t round = 0; round < N_CHAINS; round++)
        n += run_chain_within(&r, round, &bound_sum, &held_sum);
    assert_true(n > N_CHAINS / 2);
    assert_true(held_sum > 0 && bound_sum < 20 * held_sum); /* it is of the size of the need */
}

/* What is usual behind mosaics: pictures of 640 x 640. */
static void usual_chains(void **state)
{
    static const struct psti_chain_output format = {
        .dtype = PST_DTYPE_U8, .channels = 3, .bits = 8};
    const uint64_t picture = 640 * 640 * 3;
    struct pst_op ops[3] = {make_op(PST_OP_HORIZONTAL_FLIP, 0, 0), make_op(PST_OP_AFFINE, 0, 0),
                            make_op(PST_OP_RANDOM_RESIZED_CROP, 640, 640)};
    struct pst_error err;
    (void)state;
    for (size_t n = 1; n <= 3; n++) {
        struct psti_scratch_bound bound = {0};
        struct psti_chain *chain;
        assert_ok(psti_augment_chain_compile(ops, n, &format, &chain, &err));
        psti_augment_chain_bound(chain, 640, 640, &bound);
        uint64_t nbytes = psti_augment_bound_nbytes(&bound);
        assert_true(nbytes >= (n > 1 ? 2 * picture : 0));
        assert_true(nbytes <= (n > 1 ? 2 * picture : 0) + (n > 2 ? 4 * picture : 64 << 10));
        psti_augment_chain_free(&chain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_keep_within_the_bound),
        cmocka_unit_test(usual_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
