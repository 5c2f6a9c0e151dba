/* augment_plan.c - plans the work for one sample: the "front", whose operations run row by row
 * while the image is decoded, and the steps after it, which work on whole pictures.
 *
 * In: chain and draw. Out: struct psti_augment_plan. A pure function, any thread.
 *
 * An operation is merged into the front as long as the whole is still "crop, resize, window of the
 * result, flips, map of classes". A crop after the resize narrows the window, and therefore the
 * source region that the decoder must deliver. A crop after a flip is mirrored and moved before the
 * flip. A resize after a flip is moved before the flip, and its weight tables are mirrored. An
 * operation that cannot be merged (padding that is visible, a colour operation, a second resize)
 * becomes a step from picture to picture. Operations after a step are added as steps too, or merged
 * into the last step. */
#include "augment/augment_edge.h"
#include "augment/augment_int.h"
#include "augment/augment_sizes.h"

#include <string.h>

/* A plan that is being built, operation by operation. */
struct growth {
    const struct psti_chain *chain;
    struct psti_augment_plan *plan;
    uint32_t height, width; /* size of the picture after the operations added so far */
};

static struct psti_step *add_step(struct growth *g, enum psti_step_kind kind, uint32_t i_op)
{
    struct psti_step *step = &g->plan->steps[g->plan->n_steps++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    step->i_op = i_op;
    step->height = g->height;
    step->width = g->width;
    return step;
}

static bool in_front(const struct growth *g) { return g->plan->n_steps == 0 && !g->chain->unfused; }

/* Narrows the front (the chain's first operations, which run together) to a rectangle of their
 * result. */
static void front_crop(struct psti_front *front, uint32_t y, uint32_t x, uint32_t height,
                       uint32_t width)
{
    if (front->flip_y)
        y = front->window_height - y - height;
    if (front->flip_x)
        x = front->window_width - x - width;
    front->window_y += y;
    front->window_x += x;
    front->window_height = height;
    front->window_width = width;
    if (front->resizes)
        return;
    front->y += y;
    front->x += x;
    front->height = height;
    front->width = width;
    front->window_y = 0;
    front->window_x = 0;
}

static void grow_pad(struct growth *g, const uint32_t pad[4], uint32_t i_op)
{
    struct psti_step *step = add_step(g, PSTI_STEP_WINDOW, i_op);
    step->full_height = g->height;
    step->full_width = g->width;
    step->y = -(int64_t)pad[1];
    step->x = -(int64_t)pad[0];
    g->height += pad[1] + pad[3];
    g->width += pad[0] + pad[2];
    step->height = g->height;
    step->width = g->width;
}

/* Returns whether a window shows padding. A window without padding is only a crop. */
static bool shows_padding(const struct psti_step *step)
{
    return step->y < 0 || step->x < 0 || step->y + step->height > step->full_height ||
           step->x + step->width > step->full_width;
}

static void grow_crop(struct growth *g, const struct psti_op_sizes *sizes, uint32_t i_op)
{
    struct psti_augment_plan *plan = g->plan;
    struct psti_step *last = plan->n_steps > 0 ? &plan->steps[plan->n_steps - 1] : NULL;
    g->height = sizes->height;
    g->width = sizes->width;
    if (last != NULL && last->kind == PSTI_STEP_WINDOW && !g->chain->unfused) {
        last->y += sizes->y;
        last->x += sizes->x;
        last->height = sizes->height;
        last->width = sizes->width;
        if (plan->n_steps == 1 && !shows_padding(last)) {
            plan->n_steps = 0;
            front_crop(&plan->front, (uint32_t)last->y, (uint32_t)last->x, last->height,
                       last->width);
        }
        return;
    }
    if (in_front(g)) {
        front_crop(&plan->front, sizes->y, sizes->x, sizes->height, sizes->width);
        return;
    }
    uint32_t full_height = last != NULL ? last->height : plan->source_height;
    uint32_t full_width = last != NULL ? last->width : plan->source_width;
    struct psti_step *step = add_step(g, PSTI_STEP_WINDOW, i_op);
    step->full_height = full_height;
    step->full_width = full_width;
    step->y = sizes->y;
    step->x = sizes->x;
}

static void grow_resize(struct growth *g, const struct psti_op_sizes *sizes, uint32_t i_op)
{
    const struct pst_op *op = &g->chain->ops[i_op];
    struct psti_front *front = &g->plan->front;
    bool fits = in_front(g) && !front->resizes;
    bool changes = g->height != sizes->to_height || g->width != sizes->to_width;
    g->height = sizes->to_height;
    g->width = sizes->to_width;
    if (!changes)
        return; /* the size stays, and then every filter gives the same pixels */
    if (!fits) {
        add_step(g, PSTI_STEP_RESIZE, i_op);
        return;
    }
    front->resizes = true;
    front->interpolation = op->interpolation;
    front->no_antialias = op->no_antialias;
    front->mirror_y = front->flip_y;
    front->mirror_x = front->flip_x;
    front->to_height = front->window_height = sizes->to_height;
    front->to_width = front->window_width = sizes->to_width;
}

static void grow_flip(struct growth *g, const struct psti_op_sizes *sizes, uint32_t i_op)
{
    struct psti_augment_plan *plan = g->plan;
    if (in_front(g)) {
        plan->front.flip_y ^= sizes->flip_y;
        plan->front.flip_x ^= sizes->flip_x;
        return;
    }
    struct psti_step *last = plan->n_steps > 0 ? &plan->steps[plan->n_steps - 1] : NULL;
    if (last == NULL || last->kind != PSTI_STEP_FLIP || g->chain->unfused)
        last = add_step(g, PSTI_STEP_FLIP, i_op);
    last->flip_y ^= sizes->flip_y;
    last->flip_x ^= sizes->flip_x;
}

/* Merges a MapLabels into the front if possible. The result is the same before and after crops,
 * flips and nearest resizes. */
static void grow_labels(struct growth *g, uint32_t i_op)
{
    if (g->chain->labels[i_op] == NULL)
        return;
    if (in_front(g) && g->plan->front.labels == 0)
        g->plan->front.labels = i_op + 1;
    else
        add_step(g, PSTI_STEP_LABELS, i_op);
}

static void grow_policy(struct growth *g, const struct psti_draw *draw, uint32_t i_op)
{
    const struct psti_number_stream stream = psti_augment_stream(g->chain, draw, i_op);
    struct psti_step steps[PSTI_POLICY_MAX_STEPS];
    uint32_t n =
        psti_augment_policy_steps(&g->chain->ops[i_op], &stream, g->height, g->width, i_op, steps);
    for (uint32_t i = 0; i < n; i++)
        g->plan->steps[g->plan->n_steps++] = steps[i];
}

static void grow_warp(struct growth *g, const struct psti_draw *draw, uint32_t i_op)
{
    struct psti_warp warp;
    if (!psti_augment_warp_of(&g->chain->ops[i_op], &draw->opaque[4 * (size_t)i_op], g->height,
                              g->width, &warp))
        return;
    struct psti_step *step = add_step(g, PSTI_STEP_WARP, i_op);
    step->warp = warp;
    step->stream = psti_augment_stream(g->chain, draw, i_op);
}

static void grow_erasing(struct growth *g, const struct psti_draw *draw, uint32_t i_op)
{
    const uint64_t *words = &draw->opaque[4 * (size_t)i_op];
    g->plan->erase = (struct psti_erase){
        .i_op = i_op,
        .y = psti_augment_draw_low(words[0]),
        .x = psti_augment_draw_high(words[0]),
        .height = psti_augment_draw_low(words[1]),
        .width = psti_augment_draw_high(words[1]),
        .stream = psti_augment_stream(g->chain, draw, i_op),
    };
}

/* Adds the step of a colour operation, if the draw has chosen to run it. */
static void grow_color(struct growth *g, const uint64_t words[4], uint32_t i_op)
{
    static const struct {
        enum pst_op_kind op;
        enum psti_step_kind step;
    } kinds[] = {
        {PST_OP_GRAYSCALE, PSTI_STEP_GRAY},
        {PST_OP_INVERT, PSTI_STEP_INVERT},
        {PST_OP_POSTERIZE, PSTI_STEP_POSTERIZE},
        {PST_OP_SOLARIZE, PSTI_STEP_SOLARIZE},
        {PST_OP_AUTOCONTRAST, PSTI_STEP_AUTOCONTRAST},
        {PST_OP_EQUALIZE, PSTI_STEP_EQUALIZE},
        {PST_OP_SHARPNESS, PSTI_STEP_SHARPEN},
    };
    const struct pst_op *op = &g->chain->ops[i_op];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].op != op->kind || words[0] == 0)
            continue;
        struct psti_step *step = add_step(g, kinds[i].step, i_op);
        step->order = op->bits;
        step->factors[0] = op->kind == PST_OP_SOLARIZE ? op->threshold : op->factor;
    }
}

static void grow(struct growth *g, const struct psti_draw *draw, uint32_t i_op)
{
    const struct pst_op *op = &g->chain->ops[i_op];
    const uint64_t *words = &draw->opaque[4 * (size_t)i_op];
    struct psti_op_sizes sizes;
    psti_augment_op_sizes(op, words, g->height, g->width, &sizes);
    if (sizes.has_pad)
        grow_pad(g, sizes.pad, i_op);
    if (sizes.has_crop)
        grow_crop(g, &sizes, i_op);
    if (sizes.has_resize)
        grow_resize(g, &sizes, i_op);
    if (sizes.has_border)
        grow_pad(g, sizes.border, i_op);
    if (sizes.flip_y || sizes.flip_x)
        grow_flip(g, &sizes, i_op);
    if (op->kind == PST_OP_COLOR_JITTER) {
        struct psti_step *step = add_step(g, PSTI_STEP_JITTER, i_op);
        memcpy(step->factors, words, sizeof step->factors);
        step->order = (uint32_t)words[2];
    }
    if (op->kind == PST_OP_GAUSSIAN_BLUR)
        memcpy(add_step(g, PSTI_STEP_BLUR, i_op)->factors, words, sizeof(float));
    grow_color(g, words, i_op);
    if (op->kind == PST_OP_AFFINE || op->kind == PST_OP_PERSPECTIVE || op->kind == PST_OP_ELASTIC)
        grow_warp(g, draw, i_op);
    if (psti_augment_op_is_policy(op->kind))
        grow_policy(g, draw, i_op);
    if (op->kind == PST_OP_ERASING)
        grow_erasing(g, draw, i_op);
    if (op->kind == PST_OP_MAP_LABELS)
        grow_labels(g, i_op);
}

/* If the first step is a window, narrows the front to the part that the window shows. */
static void narrow_front(const struct psti_chain *chain, struct psti_augment_plan *plan)
{
    if (chain->unfused || plan->n_steps == 0 || plan->steps[0].kind != PSTI_STEP_WINDOW)
        return;
    struct psti_step *step = &plan->steps[0];
    enum pst_pad_mode mode = chain->ops[step->i_op].pad_mode;
    uint32_t y0, y1, x0, x1;
    psti_augment_window_range(step->y, step->height, step->full_height, mode, &y0, &y1);
    psti_augment_window_range(step->x, step->width, step->full_width, mode, &x0, &x1);
    front_crop(&plan->front, y0, x0, y1 - y0, x1 - x0);
    step->base_y = y0;
    step->base_x = x0;
}

struct psti_axis_side psti_augment_front_side(const struct psti_augment_plan *plan, bool is_y)
{
    const struct psti_front *front = &plan->front;
    struct psti_axis_side side = {
        .n_from = is_y ? front->height : front->width,
        .n_to = is_y ? front->to_height : front->to_width,
        .no_antialias = front->no_antialias,
        .scale_log2 = plan->scale_log2,
        .lead = is_y ? plan->lead_y : plan->lead_x,
    };
    side.interpolation =
        psti_augment_axis_interpolation(side.n_from, side.n_to, front->interpolation);
    return side;
}

/* Writes the range [*begin, *end) of pixels that the front's window reads on one axis, counted from
 * the pixel of the delivered source in which the crop begins. */
static void source_range(const struct psti_augment_plan *plan, bool is_y, uint32_t *begin,
                         uint32_t *end)
{
    const struct psti_front *front = &plan->front;
    const struct psti_axis_side side = psti_augment_front_side(plan, is_y);
    uint32_t first = is_y ? front->window_y : front->window_x;
    uint32_t n = is_y ? front->window_height : front->window_width;
    bool mirror = is_y ? front->mirror_y : front->mirror_x;
    uint32_t low = mirror ? side.n_to - first - n : first;
    uint32_t ignored;
    psti_augment_axis_range(&side, low, begin, &ignored);
    psti_augment_axis_range(&side, low + n - 1, &ignored, end);
    if (mirror) {
        uint32_t mirrored = side.n_from - *end;
        *end = side.n_from - *begin;
        *begin = mirrored;
    }
}

/* Converts the crop to pixels of a source delivered at 1 / 2^scale_log2 of its size. The ends of
 * the crop may lie anywhere within such a pixel. So the filters at one end do not mirror those at
 * the other end, and no weight table can be mirrored. */
static void scale_front(const struct psti_draw *draw, struct psti_augment_plan *plan)
{
    struct psti_front *front = &plan->front;
    uint32_t y = front->y + psti_augment_draw_low(draw->opaque[PSTI_DRAW_BEYOND]);
    uint32_t x = front->x + psti_augment_draw_high(draw->opaque[PSTI_DRAW_BEYOND]);
    plan->scale_log2 = draw->scale_log2;
    plan->origin_y = y >> draw->scale_log2;
    plan->origin_x = x >> draw->scale_log2;
    plan->lead_y = y - (plan->origin_y << draw->scale_log2);
    plan->lead_x = x - (plan->origin_x << draw->scale_log2);
    if (draw->scale_log2 > 0)
        front->mirror_y = front->mirror_x = false;
}

static void find_region(struct psti_augment_plan *plan)
{
    const struct psti_front *front = &plan->front;
    uint32_t y0 = 0, y1 = front->height, x0 = 0, x1 = front->width;
    if (front->resizes) {
        source_range(plan, true, &y0, &y1);
        source_range(plan, false, &x0, &x1);
    }
    plan->region_y = plan->origin_y + y0;
    plan->region_x = plan->origin_x + x0;
    plan->region_height = y1 - y0;
    plan->region_width = x1 - x0;
}

void psti_augment_chain_size_after(const struct psti_chain *chain, const struct psti_draw *draw,
                                   size_t n, uint32_t *height, uint32_t *width)
{
    *height = psti_augment_draw_low(draw->opaque[PSTI_DRAW_SIZE]);
    *width = psti_augment_draw_high(draw->opaque[PSTI_DRAW_SIZE]);
    for (size_t i = 0; i < n && i < chain->n_ops; i++) {
        struct psti_op_sizes sizes;
        psti_augment_op_sizes(&chain->ops[i], &draw->opaque[4 * i], *height, *width, &sizes);
        psti_augment_after(&sizes, height, width);
    }
}

void psti_augment_plan(const struct psti_chain *chain, const struct psti_draw *draw,
                       struct psti_augment_plan *plan)
{
    uint32_t first = (uint32_t)draw->opaque[PSTI_DRAW_SKIP], height, width;
    psti_augment_chain_size_after(chain, draw, first, &height, &width);
    memset(&plan->front, 0, sizeof plan->front);
    plan->n_steps = 0;
    plan->erase.height = 0;
    plan->source_height = plan->front.height = plan->front.window_height = height;
    plan->source_width = plan->front.width = plan->front.window_width = width;
    struct growth g = {chain, plan, height, width};
    for (uint32_t i = first; i < chain->n_ops; i++) {
        if (!psti_augment_is_left_out(draw, i))
            grow(&g, draw, i);
    }
    narrow_front(chain, plan);
    plan->out_height = g.height;
    plan->out_width = g.width;
    scale_front(draw, plan);
    find_region(plan);
}

static void take_region(const struct psti_augment_plan *plan, struct psti_draw *draw)
{
    draw->region_y = plan->region_y;
    draw->region_x = plan->region_x;
    draw->region_height = plan->region_height;
    draw->region_width = plan->region_width;
}

void psti_augment_chain_skip(const struct psti_chain *chain, struct psti_draw *draw, size_t n)
{
    struct psti_augment_plan plan;
    draw->opaque[PSTI_DRAW_SKIP] = n;
    psti_augment_plan(chain, draw, &plan);
    take_region(&plan, draw);
}

/* Stores the scale in the draw, so every later call of psti_augment_plan makes the same plan. */
void psti_augment_chain_scale(const struct psti_chain *chain, struct psti_draw *draw, bool at_top,
                              bool at_left)
{
    struct psti_augment_plan plan;
    psti_augment_plan(chain, draw, &plan);
    const struct psti_front *front = &plan.front;
    uint32_t log2 = 0;
    if (!front->resizes || front->no_antialias || psti_augment_is_nearest(front->interpolation))
        return;
    while (log2 < PSTI_SCALE_LOG2_MAX && front->height > front->to_height << (log2 + 1) &&
           front->width > front->to_width << (log2 + 1))
        log2++;
    if (log2 == 0)
        return;
    uint32_t edge = 1u << log2;
    draw->scale_log2 = log2;
    draw->opaque[PSTI_DRAW_BEYOND] = psti_augment_draw_pair(
        at_top ? -plan.source_height % edge : 0, at_left ? -plan.source_width % edge : 0);
    psti_augment_plan(chain, draw, &plan);
    take_region(&plan, draw);
}
