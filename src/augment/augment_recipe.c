/* augment_recipe.c - writes one draw as a recipe, from which a GPU makes the same pixels.
 *
 * In: chain and draw. Out: a struct psti_recipe, and its tables in the caller's memory. Pure
 * functions, any thread. Both functions make the plan again, which is cheaper than keeping it. The
 * plan's front (the operations that augment_run.c runs row by row) becomes the first step of the
 * recipe. */
#include "augment/augment_edge.h"
#include "augment/augment_int.h"
#include "augment/augment_recipe.h"

#include "base/bits.h"

#include <assert.h>
#include <string.h>

static_assert(PSTI_RECIPE_MAX_PLAIN_STEPS == 3 * PSTI_AUGMENT_MAX_OPS + 1,
              "a front and a plan's steps");
static_assert(PSTI_RECIPE_MAX_BRANCHES == PSTI_AUGMIX_MAX_WIDTH, "the chains of AugMix");

void psti_augment_chain_finish(const struct psti_chain *chain, struct psti_recipe_finish *finish)
{
    memset(finish, 0, sizeof *finish);
    finish->dtype = chain->output.dtype;
    finish->layout = chain->output.layout;
    finish->channels = chain->output.channels;
    finish->bits = chain->output.bits;
    finish->is_mask = chain->output.is_mask;
    memcpy(finish->scale, chain->scale, chain->output.channels * sizeof chain->scale[0]);
    memcpy(finish->offset, chain->offset, chain->output.channels * sizeof chain->offset[0]);
}

/* The memory for a recipe's tables, and how many bytes are used. */
struct shelf {
    const struct psti_chain *chain;
    unsigned char *memory; /* NULL: only the size of the tables is computed */
    size_t nbytes;
};

static void lay_axis(struct shelf *shelf, struct psti_axis_spec *spec,
                     struct psti_recipe_axis *axis)
{
    size_t ints = psti_round_up((size_t)spec->n * 4, 64);
    spec->channels = 0; /* 0: no padding of the taps for CPU vectors */
    if (shelf->memory != NULL) {
        struct psti_axis built;
        psti_augment_axis_build(spec, shelf->memory + shelf->nbytes, &built);
        axis->precision = built.precision;
    }
    axis->n = spec->n;
    axis->max_taps = psti_augment_axis_max_taps(spec);
    axis->stride = (uint32_t)psti_round_up(axis->max_taps, 2);
    axis->start = shelf->nbytes;
    axis->taps = axis->start + ints;
    axis->weights = axis->taps + ints;
    shelf->nbytes += psti_round_up(psti_augment_axis_nbytes(spec), 64);
}

static struct psti_recipe_step *add_step(struct psti_recipe *recipe, enum psti_recipe_kind kind,
                                         uint32_t height, uint32_t width)
{
    struct psti_recipe_step *step = &recipe->steps[recipe->n_steps++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    step->height = height;
    step->width = width;
    return step;
}

static void lay_front(struct shelf *shelf, const struct psti_augment_plan *plan,
                      struct psti_recipe *recipe)
{
    const struct psti_front *front = &plan->front;
    if (!front->resizes && !front->flip_y && !front->flip_x)
        return;
    struct psti_recipe_step *step =
        add_step(recipe, front->resizes ? PSTI_RECIPE_RESIZE : PSTI_RECIPE_FLIP,
                 front->window_height, front->window_width);
    step->flip_y = front->flip_y;
    if (!front->resizes) {
        step->flip_x = front->flip_x;
        return;
    }
    const struct psti_chain_output *output = &shelf->chain->output;
    struct psti_axis_spec y = psti_augment_front_axis(plan, output, true);
    struct psti_axis_spec x = psti_augment_front_axis(plan, output, false);
    lay_axis(shelf, &y, &step->axis_y);
    lay_axis(shelf, &x, &step->axis_x);
}

static void lay_window(const struct psti_chain *chain, const struct psti_step *from,
                       struct psti_recipe_step *step)
{
    const struct pst_op *op = &chain->ops[from->i_op];
    step->y = (int32_t)from->y;
    step->x = (int32_t)from->x;
    step->full_height = from->full_height;
    step->full_width = from->full_width;
    step->base_y = from->base_y;
    step->base_x = from->base_x;
    step->pad_mode = op->pad_mode;
    psti_augment_fill(chain, op, step->fill);
}

/* Adds a step CHANGE for an operation on tones (see augment_tone.c). */
static void lay_change(const struct psti_chain *chain, const struct psti_step *from,
                       struct psti_recipe_step *step)
{
    uint32_t bits = chain->output.bits;
    step->flip = step->mask = bits == 16 ? 0xffff : 0xff;
    if (from->kind == PSTI_STEP_SOLARIZE)
        step->least = bits == 16 ? from->factors[0] * 257 : from->factors[0];
    if (from->kind != PSTI_STEP_POSTERIZE)
        return;
    step->flip = 0;
    if (from->order < bits)
        step->mask = (uint16_t)(((1u << from->order) - 1) << (bits - from->order));
}

static size_t lay_taps(struct shelf *shelf, uint32_t n, float sigma)
{
    size_t at = shelf->nbytes;
    if (shelf->memory != NULL)
        psti_augment_blur_taps((float *)(void *)(shelf->memory + at), n, sigma);
    shelf->nbytes += psti_round_up(n * sizeof(float), 64);
    return at;
}

static void lay_blur(struct shelf *shelf, const struct psti_step *from,
                     struct psti_recipe_step *step)
{
    const struct pst_op *op = &shelf->chain->ops[from->i_op];
    step->n_taps_y = op->height;
    step->n_taps_x = op->width;
    step->taps_y = lay_taps(shelf, op->height, from->factors[0]);
    step->taps_x = lay_taps(shelf, op->width, from->factors[0]);
}

static struct psti_recipe_stream stream_of(const struct psti_number_stream *from)
{
    return (struct psti_recipe_stream){
        .key = {from->key[0], from->key[1]}, .sample = from->sample, .number = from->number};
}

static void lay_shifts(struct shelf *shelf, const struct psti_step *from,
                       struct psti_recipe_step *step)
{
    const struct pst_op *op = &shelf->chain->ops[from->i_op];
    step->is_elastic = true;
    step->stream = stream_of(&from->stream);
    for (int axis = 0; axis < 2; axis++) {
        struct psti_recipe_shifts *shifts = &step->shifts[axis];
        shifts->scale = op->alpha[axis] * 0.5f;
        if (!(op->sigma[axis] > 0))
            continue;
        shifts->n_taps = psti_augment_elastic_taps(op, axis);
        shifts->taps = lay_taps(shelf, shifts->n_taps, op->sigma[axis]);
    }
}

static void lay_map(struct shelf *shelf, const struct psti_step *from,
                    struct psti_recipe_step *step)
{
    const struct psti_chain *chain = shelf->chain;
    const struct pst_op *op = &chain->ops[from->i_op];
    memcpy(step->map, from->warp.m, sizeof step->map);
    step->nearest = psti_augment_is_nearest(from->warp.interpolation);
    step->blends = !op->no_blend;
    if (step->blends)
        psti_augment_fill(chain, op, step->fill);
    if (from->warp.is_elastic)
        lay_shifts(shelf, from, step);
}

static void lay_erase(const struct psti_chain *chain, const struct psti_erase *from,
                      struct psti_recipe_erase *erase)
{
    const struct pst_op *op = &chain->ops[from->i_op];
    *erase = (struct psti_recipe_erase){.y = from->y,
                                        .x = from->x,
                                        .height = from->height,
                                        .width = from->width,
                                        .noise = op->noise,
                                        .stream = stream_of(&from->stream)};
    for (uint32_t c = 0; c < chain->output.channels; c++)
        psti_augment_erase_value((unsigned char *)&erase->elements[c], chain->output.dtype,
                                 op->fill[c]);
}

/* Records the name of an operation that recipes cannot describe. */
static void lay_other(struct psti_recipe *recipe, enum pst_op_kind kind)
{
    recipe->other = psti_augment_op_name(kind);
}

/* Adds a step for the MapLabels of operation i_op. A table of 16 bits is too large to be one of
 * each sample. */
static void lay_labels(struct shelf *shelf, uint32_t i_op, uint32_t height, uint32_t width,
                       struct psti_recipe *recipe)
{
    const struct psti_chain_output *output = &shelf->chain->output;
    if (output->bits != 8 || output->channels != 1) {
        lay_other(recipe, PST_OP_MAP_LABELS);
        return;
    }
    size_t nbytes = psti_augment_labels_nbytes(output->bits);
    add_step(recipe, PSTI_RECIPE_LABELS, height, width)->table = shelf->nbytes;
    if (shelf->memory != NULL)
        memcpy(shelf->memory + shelf->nbytes, shelf->chain->labels[i_op], nbytes);
    shelf->nbytes += psti_round_up(nbytes, 64);
}

static void lay_plain(struct shelf *shelf, const struct psti_step *from, uint32_t height,
                      uint32_t width, struct psti_recipe *recipe);

/* Adds the steps of an AugMix. They must leave the steps that other operations may need. */
static void lay_mix(struct shelf *shelf, const struct psti_step *from, struct psti_recipe *recipe)
{
    const struct pst_op *op = &shelf->chain->ops[from->i_op];
    const uint32_t height = from->height, width = from->width;
    const uint32_t most = PSTI_RECIPE_MAX_STEPS - PSTI_RECIPE_MAX_PLAIN_STEPS;
    struct psti_augmix mix;
    psti_augment_augmix_begin(op, &from->stream, &mix);
    for (uint32_t i = 0; i < op->mixture_width; i++) {
        uint32_t depth = psti_augment_augmix_depth(&mix);
        if (recipe->n_steps + depth + 3 > most) { /* SPLIT, BRANCH, MIX */
            lay_other(recipe, op->kind);
            return;
        }
        if (i == 0)
            add_step(recipe, PSTI_RECIPE_SPLIT, height, width)->share = mix.kept_share;
        add_step(recipe, PSTI_RECIPE_BRANCH, height, width)->share = mix.shares[i];
        for (uint32_t k = 0; k < depth; k++) {
            struct psti_step one = {.height = height, .width = width, .i_op = from->i_op};
            if (psti_augment_augmix_step(&mix, &one))
                lay_plain(shelf, &one, height, width, recipe);
        }
    }
    add_step(recipe, PSTI_RECIPE_MIX, height, width);
}

/* Adds a step, other than AugMix, whose input is a picture of height x width. */
static void lay_plain(struct shelf *shelf, const struct psti_step *from, uint32_t height,
                      uint32_t width, struct psti_recipe *recipe)
{
    static const enum psti_recipe_kind kinds[] = {
        [PSTI_STEP_WINDOW] = PSTI_RECIPE_WINDOW,
        [PSTI_STEP_RESIZE] = PSTI_RECIPE_RESIZE,
        [PSTI_STEP_FLIP] = PSTI_RECIPE_FLIP,
        [PSTI_STEP_JITTER] = PSTI_RECIPE_JITTER,
        [PSTI_STEP_GRAY] = PSTI_RECIPE_GRAY,
        [PSTI_STEP_INVERT] = PSTI_RECIPE_CHANGE,
        [PSTI_STEP_POSTERIZE] = PSTI_RECIPE_CHANGE,
        [PSTI_STEP_SOLARIZE] = PSTI_RECIPE_CHANGE,
        [PSTI_STEP_AUTOCONTRAST] = PSTI_RECIPE_AUTOCONTRAST,
        [PSTI_STEP_EQUALIZE] = PSTI_RECIPE_EQUALIZE,
        [PSTI_STEP_SHARPEN] = PSTI_RECIPE_SHARPEN,
        [PSTI_STEP_BLUR] = PSTI_RECIPE_BLUR,
        [PSTI_STEP_WARP] = PSTI_RECIPE_MAP,
    };
    const struct pst_op *op = &shelf->chain->ops[from->i_op];
    struct psti_recipe_step *step = add_step(recipe, kinds[from->kind], from->height, from->width);
    switch (from->kind) {
    case PSTI_STEP_WINDOW:
        lay_window(shelf->chain, from, step);
        break;
    case PSTI_STEP_RESIZE: {
        struct psti_axis_spec y, x;
        psti_augment_step_axes(op, &shelf->chain->output, height, width, from, &y, &x);
        lay_axis(shelf, &y, &step->axis_y);
        lay_axis(shelf, &x, &step->axis_x);
        break;
    }
    case PSTI_STEP_FLIP:
        step->flip_y = from->flip_y;
        step->flip_x = from->flip_x;
        break;
    case PSTI_STEP_JITTER:
        memcpy(step->factors, from->factors, sizeof step->factors);
        psti_augment_jitter_order(from->order, step->turns);
        break;
    case PSTI_STEP_INVERT:
    case PSTI_STEP_POSTERIZE:
    case PSTI_STEP_SOLARIZE:
        lay_change(shelf->chain, from, step);
        break;
    case PSTI_STEP_SHARPEN:
        step->factors[0] = from->factors[0];
        break;
    case PSTI_STEP_BLUR:
        lay_blur(shelf, from, step);
        break;
    case PSTI_STEP_WARP:
        lay_map(shelf, from, step);
        break;
    default:
        break;
    }
}

static void lay_step(struct shelf *shelf, const struct psti_step *from, uint32_t height,
                     uint32_t width, struct psti_recipe *recipe)
{
    if (from->kind == PSTI_STEP_LABELS)
        lay_labels(shelf, from->i_op, height, width, recipe);
    else if (from->kind == PSTI_STEP_AUGMIX)
        lay_mix(shelf, from, recipe);
    else
        lay_plain(shelf, from, height, width, recipe);
}

static void lay_open(struct shelf *shelf, const struct psti_draw *draw, struct psti_recipe *recipe)
{
    struct psti_augment_plan plan;
    psti_augment_plan(shelf->chain, draw, &plan);
    recipe->region_height = plan.region_height;
    recipe->region_width = plan.region_width;
    recipe->height = plan.out_height;
    recipe->width = plan.out_width;
    recipe->n_steps = 0;
    recipe->other = NULL;
    recipe->erase.height = 0;
    if (plan.erase.height > 0)
        lay_erase(shelf->chain, &plan.erase, &recipe->erase);
    lay_front(shelf, &plan, recipe);
    uint32_t height = plan.front.window_height, width = plan.front.window_width;
    if (plan.front.labels != 0)
        lay_labels(shelf, plan.front.labels - 1, height, width, recipe);
    for (uint32_t i = 0; i < plan.n_steps; i++) {
        lay_step(shelf, &plan.steps[i], height, width, recipe);
        height = plan.steps[i].height;
        width = plan.steps[i].width;
    }
    recipe->tables_nbytes = shelf->nbytes;
}

void psti_augment_chain_recipe_bound(const struct psti_chain *chain, uint32_t height,
                                     uint32_t width, struct psti_recipe_bound *bound)
{
    const struct psti_chain_output *output = &chain->output;
    struct psti_scratch_bound scratch = {{0}};
    *bound = (struct psti_recipe_bound){0};
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        const struct pst_op *op = &chain->ops[i];
        const uint32_t depth = op->chain_depth ? op->chain_depth : 3;
        bound->blurs = bound->blurs || op->kind == PST_OP_GAUSSIAN_BLUR;
        if (op->kind != PST_OP_AUGMIX)
            continue;
        if (op->mixture_width > bound->n_branches)
            bound->n_branches = op->mixture_width;
        bound->depth = depth > bound->depth ? depth : bound->depth;
    }
    /* The CPU's scratch for these operations is so many floats for each pixel, and for AugMix also
     * a picture. */
    psti_augment_chain_bound(chain, height, width, &scratch);
    bound->shifts_pixels = scratch.nbytes[PSTI_BUFFER_SHIFTS] / (2 * sizeof(float));
    bound->split_pixels =
        scratch.nbytes[PSTI_BUFFER_MIX] / (output->channels * (output->bits / 8u + sizeof(float)));
}

void psti_augment_chain_recipe(const struct psti_chain *chain, const struct psti_draw *draw,
                               struct psti_recipe *recipe)
{
    struct shelf shelf = {chain, NULL, 0};
    lay_open(&shelf, draw, recipe);
}

void psti_augment_chain_recipe_tables(const struct psti_chain *chain, const struct psti_draw *draw,
                                      struct psti_recipe *recipe, void *memory)
{
    struct shelf shelf = {chain, memory, 0};
    lay_open(&shelf, draw, recipe);
}
