/* augment_bound.c - the most scratch that a run can need for a chain, whatever is drawn.
 *
 * In: a chain, and the size of its source. Out: a bound for each buffer of a run. Any thread.
 *
 * The operations are followed with the least and the largest size that a picture may have behind
 * each of them. The bound of a buffer is that of the largest picture that needs it. So a run whose
 * limit is the sum of all bounds never fails for want of scratch. A bound may be larger than what
 * any draw needs, because both sides of a picture are taken to be large at the same time. */
#include "augment/augment_int.h"

#include "base/bits.h"

#include <assert.h>

static_assert((int)PSTI_BUFFERS <= (int)PSTI_SCRATCH_BUFFERS, "a bound for each buffer");

/* The least and the largest side that a draw may give, pixels, at least 1. */
struct range {
    uint64_t low, high;
};

/* Sides are bounded apart; so are ratios, because most resizes keep that of their picture. */
struct sizes {
    struct range height, width;
    double tall, wide; /* the most that height / width and width / height may be */
};

struct bounding {
    const struct psti_chain *chain;
    struct psti_scratch_bound *bound;
    uint64_t channels, pixel_nbytes;
    struct sizes sizes; /* of the picture before the next operation */
    bool steps;         /* some operation needs pictures in scratch */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Rounds as psti_augment_run_reserve does. */
static void need(struct bounding *b, enum psti_buffer_kind kind, uint64_t nbytes)
{
    b->bound->nbytes[kind] = most(b->bound->nbytes[kind], psti_round_up((size_t)nbytes, 4096));
}

static uint64_t padded(uint64_t nbytes) { return psti_round_up((size_t)nbytes, 64); }

/* Sizes
 * ------------------------------------------------------------------------------------------------
 */

/* Draws of larger sides are refused. */
static struct range range_of(double low, double high)
{
    double top = PSTI_AUGMENT_MAX_SIDE;
    high = high > top ? top : high < 1 ? 1 : high;
    low = low > high ? high : low < 1 ? 1 : low;
    return (struct range){(uint64_t)low, (uint64_t)high};
}

/* Sizes whose sides have nothing to do with each other. */
static struct sizes free_sizes(struct range height, struct range width)
{
    return (struct sizes){height, width, (double)height.high / (double)width.low,
                          (double)width.high / (double)height.low};
}

/* Sizes of a picture that keeps its ratio, up to the rounding of both sides to pixels. */
static struct sizes scaled_sizes(const struct sizes *from, struct range height, struct range width)
{
    uint64_t shorter = least(height.low, width.low);
    struct sizes to = free_sizes(height, width);
    if (shorter < 3) /* rounding by a pixel may give any ratio */
        return to;
    double rounding = 1 + 8.0 / (double)shorter;
    to.tall = from->tall * rounding < to.tall ? from->tall * rounding : to.tall;
    to.wide = from->wide * rounding < to.wide ? from->wide * rounding : to.wide;
    return to;
}

static struct sizes fixed_sizes(const struct pst_op *op)
{
    return free_sizes(range_of(op->height, op->height), range_of(op->width, op->width));
}

/* The sides of a picture whose shorter side becomes `low` to `high`. */
static struct sizes with_shorter(const struct sizes *from, double low, double high)
{
    return scaled_sizes(from, range_of(low, from->tall > 1 ? high * from->tall + 1 : high),
                        range_of(low, from->wide > 1 ? high * from->wide + 1 : high));
}

/* The largest size that fits in the operation's, times a factor of `low` to `high`. */
static struct sizes fitted(const struct pst_op *op, const struct sizes *from, double low,
                           double high)
{
    double height = (double)from->height.low * op->width / (double)from->width.high,
           width = (double)from->width.low * op->height / (double)from->height.high;
    height = height < op->height ? height : op->height;
    width = width < op->width ? width : op->width;
    return scaled_sizes(from, range_of(height * low - 2, op->height * high + 2),
                        range_of(width * low - 2, op->width * high + 2));
}

static struct sizes after_shortest(const struct pst_op *op, const struct sizes *from)
{
    uint64_t low = UINT64_MAX, high = 0;
    double shorter = (double)least(from->height.low, from->width.low),
           longer = (double)most(from->height.high, from->width.high);
    for (uint32_t i = 0; i < op->n_sizes; i++) {
        low = least(low, op->sizes[i]);
        high = most(high, op->sizes[i]);
    }
    struct sizes to = with_shorter(from, (double)low - 1, (double)high);
    if (op->max_size == 0)
        return to;
    double limited = op->max_size * shorter / longer - 1;
    return scaled_sizes(
        from,
        range_of(limited < (double)to.height.low ? limited : (double)to.height.low,
                 (double)least(to.height.high, op->max_size)),
        range_of(limited < (double)to.width.low ? limited : (double)to.width.low,
                 (double)least(to.width.high, op->max_size)));
}

/* Gives the sizes that the resize of an operation makes. False: the operation has none. */
static bool resized(const struct pst_op *op, const struct sizes *from, struct sizes *to)
{
    switch (op->kind) {
    case PST_OP_RESIZE:
        *to = op->width ? fixed_sizes(op) : with_shorter(from, op->height, op->height);
        return true;
    case PST_OP_RANDOM_RESIZED_CROP:
        *to = fixed_sizes(op);
        return true;
    case PST_OP_LETTERBOX:
        *to = fitted(op, from, op->no_scale_up ? 0 : 1, 1);
        to->height.high = least(to->height.high, op->height);
        to->width.high = least(to->width.high, op->width);
        return true;
    case PST_OP_SCALE_JITTER:
        *to = op->height
                  ? fitted(op, from, op->scale[0], op->scale[1])
                  : scaled_sizes(from,
                                 range_of((double)from->height.low * op->scale[0] - 2,
                                          (double)from->height.high * op->scale[1] + 2),
                                 range_of((double)from->width.low * op->scale[0] - 2,
                                          (double)from->width.high * op->scale[1] + 2));
        return true;
    case PST_OP_RANDOM_SHORTEST_SIZE:
        *to = after_shortest(op, from);
        return true;
    case PST_OP_RANDOM_RESIZE:
        *to = with_shorter(from, op->sizes[0], (double)op->sizes[1] - 1);
        return true;
    default:
        return false;
    }
}

/* Makes the sizes those behind an operation without a resize. */
static void change_sizes(const struct pst_op *op, struct sizes *sizes)
{
    const struct sizes before = *sizes;
    struct range *y = &sizes->height, *x = &sizes->width;
    switch (op->kind) {
    case PST_OP_CENTER_CROP:
    case PST_OP_RANDOM_CROP:
        *sizes = fixed_sizes(op);
        break;
    case PST_OP_PAD:
        *y = range_of((double)(y->low + op->pad[1] + op->pad[3]),
                      (double)(y->high + op->pad[1] + op->pad[3]));
        *x = range_of((double)(x->low + op->pad[0] + op->pad[2]),
                      (double)(x->high + op->pad[0] + op->pad[2]));
        *sizes = free_sizes(*y, *x);
        break;
    case PST_OP_RANDOM_ZOOM_OUT:
        *y = range_of((double)y->low, (double)y->high * op->scale[1] + 2);
        *x = range_of((double)x->low, (double)x->high * op->scale[1] + 2);
        *sizes = scaled_sizes(&before, *y, *x);
        break;
    case PST_OP_RANDOM_IOU_CROP:
        y->low = x->low = 1;
        *sizes = free_sizes(*y, *x);
        break;
    default:
        break;
    }
}

/* Buffers
 * ------------------------------------------------------------------------------------------------
 */

/* A picture of these sizes, and rows of it. */
static void see_picture(struct bounding *b)
{
    uint64_t width = b->sizes.width.high, area = b->sizes.height.high * width;
    uint64_t row = padded(width * b->pixel_nbytes) + PSTI_SLACK;
    need(b, PSTI_BUFFER_FLIPPED, row);
    if (b->chain->output.layout == PST_LAYOUT_CHW)
        need(b, PSTI_BUFFER_PLANES, row + PSTI_SLACK);
    need(b, PSTI_BUFFER_LABELS, row);
    if (!b->steps)
        return;
    need(b, PSTI_BUFFER_MAP, 2 * width * sizeof(int64_t));
    need(b, PSTI_BUFFER_IMAGE_0, area * b->pixel_nbytes + PSTI_SLACK);
    need(b, PSTI_BUFFER_IMAGE_1, area * b->pixel_nbytes + PSTI_SLACK);
}

/* Half of the taps of a filter that neither enlarges nor shrinks. */
static uint64_t reach_of(const struct pst_op *op)
{
    return op->interpolation == PST_INTERPOLATION_BICUBIC ? 2 : 1;
}

/* The most taps of an output: 2 reach for each source pixel between two outputs. */
static uint64_t most_taps(uint64_t reach, const struct range *from, const struct range *to)
{
    uint64_t shrinking = (2 * reach * from->high + to->low - 1) / to->low;
    return least(most(shrinking, 2 * reach) + 1, most(from->high, 2 * reach + 1));
}

/* Not less than psti_augment_axis_nbytes. An output has 2 reach from / to + 1 taps at most where
 * the axis becomes smaller, else 2 reach + 1, and at most 7 more for alignment. */
static uint64_t axis_nbytes(const struct bounding *b, uint64_t reach, const struct range *from,
                            const struct range *to)
{
    uint64_t weight = b->chain->output.bits == 8 ? sizeof(int16_t) : sizeof(int32_t);
    return 2 * padded(to->high * 4) + (2 * reach * from->high + 12 * to->high) * weight +
           PSTI_SLACK;
}

static void see_resize(struct bounding *b, const struct pst_op *op, const struct sizes *to)
{
    const struct sizes *from = &b->sizes;
    uint64_t reach = reach_of(op), taps_x = most_taps(reach, &from->width, &to->width),
             taps_y = most_taps(reach, &from->height, &to->height);
    uint64_t row = padded(to->width.high * b->pixel_nbytes + PSTI_SLACK), ring_rows = 1;
    uint64_t sweep = (2 * to->width.high + from->width.high + 1) * sizeof(uint32_t);
    uint64_t picks = psti_augment_picks_most(to->width.high, b->channels, taps_x);
    need(b, PSTI_BUFFER_AXIS_X,
         padded(axis_nbytes(b, reach, &from->width, &to->width)) + most(sweep, picks));
    need(b, PSTI_BUFFER_AXIS_Y, padded(axis_nbytes(b, reach, &from->height, &to->height)) +
                                    (taps_y + 1) * sizeof(void *));
    need(b, PSTI_BUFFER_TAIL,
         PSTI_MAX_LANES * ((from->width.high + taps_x + 7) * b->channels + PSTI_SLACK));
    while (ring_rows < taps_y + PSTI_MAX_LANES)
        ring_rows *= 2;
    need(b, PSTI_BUFFER_RING, (ring_rows + 1) * row);
    need(b, PSTI_BUFFER_ROW, row + PSTI_SLACK);
}

/* As blur_run in augment_blur.c. */
static void see_blur(struct bounding *b, uint64_t channels, uint64_t n_y, uint64_t n_x)
{
    uint64_t row = b->sizes.width.high * channels;
    uint64_t n = 2 * (uint64_t)PSTI_BLUR_MAX_TAPS + row + n_x * channels + row * (n_y + 1);
    need(b, PSTI_BUFFER_BLUR, n * sizeof(float));
}

static void see_elastic(struct bounding *b, const struct pst_op *op)
{
    uint64_t area = b->sizes.height.high * b->sizes.width.high;
    need(b, PSTI_BUFFER_SHIFTS, 2 * area * sizeof(float));
    for (int axis = 0; axis < 2; axis++) {
        uint64_t taps = psti_augment_elastic_taps(op, axis);
        see_blur(b, 1, taps, taps);
    }
}

static void see_mix(struct bounding *b)
{
    uint64_t area = b->sizes.height.high * b->sizes.width.high;
    need(b, PSTI_BUFFER_MIX,
         padded(area * b->pixel_nbytes) + area * b->channels * sizeof(float));
}

/* True if the operation is done on rows as they come, wherever it stands. */
static bool is_streamed(enum pst_op_kind kind)
{
    return kind == PST_OP_HORIZONTAL_FLIP || kind == PST_OP_VERTICAL_FLIP ||
           kind == PST_OP_NORMALIZE || kind == PST_OP_IDENTITY || kind == PST_OP_RANDOM_APPLY ||
           kind == PST_OP_RANDOM_CHOICE || kind == PST_OP_SANITIZE_BOXES || kind == PST_OP_ERASING;
}

static void see_op(struct bounding *b, const struct pst_op *op)
{
    struct sizes to;
    if (resized(op, &b->sizes, &to)) {
        see_resize(b, op, &to);
        b->sizes = to;
        see_picture(b);
    }
    if (op->kind == PST_OP_LETTERBOX) /* with its border */
        b->sizes = fixed_sizes(op);
    change_sizes(op, &b->sizes);
    see_picture(b);
    if (op->kind == PST_OP_GAUSSIAN_BLUR)
        see_blur(b, b->channels, op->height, op->width);
    if (op->kind == PST_OP_ELASTIC)
        see_elastic(b, op);
    if (op->kind == PST_OP_AUGMIX)
        see_mix(b);
}

void psti_augment_chain_bound(const struct psti_chain *chain, uint32_t height, uint32_t width,
                              struct psti_scratch_bound *bound)
{
    struct bounding b = {.chain = chain,
                         .bound = bound,
                         .channels = chain->output.channels,
                         .pixel_nbytes = (uint64_t)chain->output.channels * chain->output.bits / 8,
                         .sizes = free_sizes(range_of(height, height), range_of(width, width))};
    for (uint32_t i = 0; i < chain->n_ops; i++)
        b.steps |= !is_streamed(chain->ops[i].kind);
    see_picture(&b);
    for (uint32_t i = 0; i < chain->n_ops; i++)
        see_op(&b, &chain->ops[i]);
}

uint64_t psti_augment_bound_nbytes(const struct psti_scratch_bound *bound)
{
    uint64_t sum = 0;
    for (int i = 0; i < PSTI_BUFFERS; i++)
        sum += bound->nbytes[i];
    return sum;
}
