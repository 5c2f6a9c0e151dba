/* augment_scales.c - operations that draw a size or a canvas, and Letterbox.
 *
 * In: an operation, its random numbers, the size of the picture. Out: the drawn size or padding, as
 * words of the draw, and the geometry that follows from them. Pure functions, any thread. The
 * arithmetic is torchvision's: float32 where torchvision computes the factor with a tensor, double
 * where it uses a Python number. Products are truncated, like int(). */
#include "augment/augment_int.h"
#include "augment/augment_sizes.h"

#include "base/philox.h"

#include <math.h>

#define FACTOR_MAX 1000.0f

static const char *check_interpolated(const struct pst_op *op)
{
    bool unknown = op->interpolation < PST_INTERPOLATION_NEAREST ||
                   op->interpolation > PST_INTERPOLATION_NEAREST_EXACT;
    return unknown ? "unknown interpolation" : NULL;
}

static const char *check_fill(const struct pst_op *op)
{
    bool finite = isfinite(op->mask_fill);
    for (int i = 0; i < 4; i++)
        finite = finite && isfinite(op->fill[i]);
    return finite ? NULL : "fill must be a finite number";
}

static bool is_side(uint32_t side) { return side >= 1 && side <= PSTI_AUGMENT_MAX_SIDE; }

static const char *check_shortest(const struct pst_op *op)
{
    if (op->n_sizes < 1 || op->n_sizes > PST_MAX_SIZES)
        return "1 to 16 sizes are possible";
    for (uint32_t i = 0; i < op->n_sizes; i++) {
        if (!is_side(op->sizes[i]))
            return "sizes must be 1 to 1048576 pixels";
    }
    if (op->max_size > PSTI_AUGMENT_MAX_SIDE)
        return "max_size must be at most 1048576 pixels";
    return check_interpolated(op);
}

static const char *check_jitter(const struct pst_op *op)
{
    bool own_size = op->height == 0 && op->width == 0;
    if (!own_size && !(is_side(op->height) && is_side(op->width)))
        return "height and width must be 1 to 1048576 pixels, or both 0";
    if (!(op->scale[0] > 0 && op->scale[0] <= op->scale[1] && op->scale[1] <= FACTOR_MAX))
        return "scale must be 0 < low <= high <= 1000";
    return check_interpolated(op);
}

const char *psti_augment_scales_problem(const struct pst_op *op)
{
    const char *wrong = NULL;
    switch (op->kind) {
    case PST_OP_RANDOM_ZOOM_OUT:
        if (!(op->scale[0] >= 1 && op->scale[0] <= op->scale[1] && op->scale[1] <= FACTOR_MAX))
            return "scale must be 1 <= low <= high <= 1000";
        if (!(op->p >= 0 && op->p <= 1))
            return "p must be within 0..1";
        return check_fill(op);
    case PST_OP_LETTERBOX:
        if (!is_side(op->height) || !is_side(op->width))
            return "height and width must be 1 to 1048576 pixels";
        wrong = check_interpolated(op);
        return wrong != NULL ? wrong : check_fill(op);
    case PST_OP_SCALE_JITTER:
        return check_jitter(op);
    case PST_OP_RANDOM_SHORTEST_SIZE:
        return check_shortest(op);
    default: /* PST_OP_RANDOM_RESIZE */
        if (!is_side(op->sizes[0]) || op->sizes[1] <= op->sizes[0] ||
            op->sizes[1] > PSTI_AUGMENT_MAX_SIDE + 1)
            return "sizes must be 1 <= first < second <= 1048577 pixels";
        return check_interpolated(op);
    }
}

/* Draws
 * --------------------------------------------------------------------------------------------- */

/* Truncates a side to an integer. A side that is too large becomes one pixel more than is allowed,
 * so the caller rejects it. */
static uint32_t whole_side(double side)
{
    double most = (double)PSTI_AUGMENT_MAX_SIDE + 1;
    return side < 1 ? 1 : side > most ? PSTI_AUGMENT_MAX_SIDE + 1 : (uint32_t)side;
}

static float factor_of(const struct pst_op *op, uint32_t random)
{
    return op->scale[0] + psti_uniform01(random) * (op->scale[1] - op->scale[0]);
}

static void draw_zoom_out(const struct pst_op *op, const struct psti_number_stream *stream,
                          uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t r[4];
    psti_augment_numbers(stream, 0, r);
    if (!(psti_uniform01(r[0]) < op->p))
        return;
    float factor = factor_of(op, r[1]);
    uint32_t canvas_h = whole_side((float)height * factor);
    uint32_t canvas_w = whole_side((float)width * factor);
    uint32_t dy = canvas_h > height ? canvas_h - height : 0;
    uint32_t dx = canvas_w > width ? canvas_w - width : 0;
    uint32_t left = (uint32_t)((float)dx * psti_uniform01(r[2]));
    uint32_t top = (uint32_t)((float)dy * psti_uniform01(r[3]));
    words[0] = psti_augment_draw_pair(left, top);
    words[1] = psti_augment_draw_pair(dx - left, dy - top);
}

static void draw_jitter(const struct pst_op *op, const struct psti_number_stream *stream,
                        uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t r[4];
    psti_augment_numbers(stream, 0, r);
    float factor = factor_of(op, r[0]);
    if (op->height != 0) {
        double fit = fmin((double)op->height / height, (double)op->width / width);
        factor = (float)fit * factor;
    }
    words[0] = psti_augment_draw_pair(whole_side((float)height * factor),
                                      whole_side((float)width * factor));
}

static void draw_shortest(const struct pst_op *op, const struct psti_number_stream *stream,
                          uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t r[4], shorter = height < width ? height : width;
    uint32_t longer = height < width ? width : height;
    psti_augment_numbers(stream, 0, r);
    double factor = (double)op->sizes[psti_uniform_below(r[0], op->n_sizes)] / shorter;
    if (op->max_size != 0)
        factor = fmin(factor, (double)op->max_size / longer);
    words[0] = psti_augment_draw_pair(whole_side(height * factor), whole_side(width * factor));
}

static void draw_resize(const struct pst_op *op, const struct psti_number_stream *stream,
                        uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t r[4], shorter = height < width ? height : width;
    psti_augment_numbers(stream, 0, r);
    uint64_t size = op->sizes[0] + psti_uniform_below(r[0], op->sizes[1] - op->sizes[0]);
    words[0] = psti_augment_draw_pair(whole_side((double)(size * height / shorter)),
                                      whole_side((double)(size * width / shorter)));
}

void psti_augment_scales_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                              uint32_t height, uint32_t width, uint64_t words[4])
{
    switch (op->kind) {
    case PST_OP_RANDOM_ZOOM_OUT:
        draw_zoom_out(op, stream, height, width, words);
        return;
    case PST_OP_SCALE_JITTER:
        draw_jitter(op, stream, height, width, words);
        return;
    case PST_OP_RANDOM_SHORTEST_SIZE:
        draw_shortest(op, stream, height, width, words);
        return;
    default:
        draw_resize(op, stream, height, width, words);
    }
}

/* Geometry
 * --------------------------------------------------------------------------------------------- */

/* Rounds a side to the nearest integer in 1..most, and a half to the even integer, like round() in
 * YOLO's Python code. */
static uint32_t fitted_side(double side, uint32_t most)
{
    double rounded = nearbyint(side);
    return rounded < 1 ? 1 : rounded > most ? most : (uint32_t)rounded;
}

static void letterbox(const struct pst_op *op, uint32_t height, uint32_t width,
                      struct psti_op_sizes *sizes)
{
    double factor = fmin((double)op->height / height, (double)op->width / width);
    if (op->no_scale_up)
        factor = fmin(factor, 1);
    sizes->has_resize = true;
    sizes->to_height = fitted_side(height * factor, op->height);
    sizes->to_width = fitted_side(width * factor, op->width);
    uint32_t dy = op->height - sizes->to_height, dx = op->width - sizes->to_width;
    sizes->has_border = (dy | dx) != 0;
    sizes->border[0] = dx / 2;
    sizes->border[1] = dy / 2;
    sizes->border[2] = dx - dx / 2;
    sizes->border[3] = dy - dy / 2;
}

void psti_augment_scales_sizes(const struct pst_op *op, const uint64_t words[4], uint32_t height,
                               uint32_t width, struct psti_op_sizes *sizes)
{
    if (op->kind == PST_OP_LETTERBOX) {
        letterbox(op, height, width, sizes);
    } else if (op->kind == PST_OP_RANDOM_ZOOM_OUT) {
        sizes->has_pad = (words[0] | words[1]) != 0;
        sizes->pad[0] = psti_augment_draw_low(words[0]);
        sizes->pad[1] = psti_augment_draw_high(words[0]);
        sizes->pad[2] = psti_augment_draw_low(words[1]);
        sizes->pad[3] = psti_augment_draw_high(words[1]);
    } else {
        sizes->has_resize = true;
        sizes->to_height = psti_augment_draw_low(words[0]);
        sizes->to_width = psti_augment_draw_high(words[0]);
    }
}
