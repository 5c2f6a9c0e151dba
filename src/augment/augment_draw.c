/* augment_draw.c - the random parameters of one sample, and the region of the source that it needs.
 *
 * In: chain, key, size of the source. Out: struct psti_draw. A pure function, any thread. Random
 * numbers are made in two steps; PSTI_AUGMENT_VERSION is the version of this rule:
 *
 *     key of the sample's draw  = words 0, 1 of psti_random4(seed, epoch, PSTI_RANDOM_AUGMENT,
 *                                 index = draw, sub = view, draw = 0)
 *     numbers of an operation   = Philox under that key of the counter
 *                                 (sample low, sample high, number of the operation, try)
 *
 * Geometric operations are numbered 0, 1, ... among themselves; the others are numbered among
 * themselves from 2^31. So adding a colour operation never changes where a crop lies, and fields of
 * a sample with the same geometric operations get the same geometry. RandomApply and RandomChoice
 * count as geometric if one of their inner operations is. For a field with a geometry of its own,
 * bits 8 to 23 of the number of an operation hold the field's `own`. A try gives four numbers, [0]
 * to [3]. Each operation uses them as follows (policies: see augment_policy.c):
 *
 *     flips, Grayscale, operations on tones, Sharpness, RandomApply   try 0: [0] < p
 *     RandomChoice       try 0: [0] within the running sums of the weights
 *     GaussianBlur       try 0: [0] sigma
 *     Affine             try 0: angle, shift x, shift y, scale; try 1: shear x, shear y
 *     Perspective        try 0: [0] < p; try 1: x of the four corners; try 2: y
 *     Elastic            noise of pixel i: try 1 + i / 4, for y with bit 31 set
 *     Erasing            try 0: [0] < p; try t (1..10): [0] area, [1] log of the ratio, [2] row,
 *                        [3] column; noise: from try 16 on
 *     RandomCrop         try 0: [0] row, [1] column, each uniform over the places where it fits
 *     RandomResizedCrop  try t (0..9): [0] area, [1] log of the ratio, [2] row, [3] column
 *     RandomIoUCrop      a sequence of numbers (augment_dice.c): an overlap; for each crop width,
 *                        height, and if these are allowed column and row
 *     RandomZoomOut      try 0: [0] < p, [1] factor, [2] column, [3] row
 *     ScaleJitter        try 0: [0] factor
 *     RandomShortestSize, RandomResize   try 0: [0] one of the sizes
 *     ColorJitter        try 0: brightness, contrast, saturation, hue; try 1: [0] their order, one
 *                        of 24
 *
 * opaque[4 k] to opaque[4 k + 3] hold the result for operation k (see psti_augment_op_sizes and
 * augment_color.c). */
#include "augment/augment_int.h"
#include "augment/augment_sizes.h"

#include "base/fail.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

static double between(const float range[2], uint32_t random)
{
    return range[0] + ((double)range[1] - range[0]) * psti_uniform01(random);
}

/* Rounds to the nearest integer, and a half to the even integer, like Python's round(). 0 <= value
 * < 2^31. */
static uint32_t round_even(double value)
{
    uint32_t whole = (uint32_t)value;
    double part = value - whole;
    return whole + (part > 0.5 || (part == 0.5 && (whole & 1) != 0));
}

/* Writes the largest centred crop whose aspect ratio is within the operation's bounds. */
static void centre_crop(const struct pst_op *op, uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t h = height, w = width;
    double ratio = (double)width / height;
    if (ratio < op->ratio[0])
        h = round_even(width / (double)op->ratio[0]);
    else if (ratio > op->ratio[1])
        w = round_even(height * (double)op->ratio[1]);
    h = h < 1 ? 1 : h > height ? height : h;
    w = w < 1 ? 1 : w > width ? width : w;
    words[0] = psti_augment_draw_pair((height - h) / 2, (width - w) / 2);
    words[1] = psti_augment_draw_pair(h, w);
}

static void draw_resized_crop(const struct psti_chain *chain, uint32_t i_op,
                              const struct psti_number_stream *stream, uint32_t height,
                              uint32_t width, uint64_t words[4])
{
    const struct pst_op *op = &chain->ops[i_op];
    const double *log_ratio = chain->log_ratio[i_op];
    double area = (double)height * width;
    for (uint32_t try = 0; try < 10; try++) {
        uint32_t r[4];
        psti_augment_numbers(stream, try, r);
        double target = area * between(op->scale, r[0]);
        double log_aspect = log_ratio[0] + (log_ratio[1] - log_ratio[0]) * psti_uniform01(r[1]);
        double aspect = psti_augment_exp(log_aspect);
        double w = sqrt(target * aspect), h = sqrt(target / aspect);
        if (w > width + 1.0 || h > height + 1.0)
            continue;
        uint32_t crop_w = round_even(w), crop_h = round_even(h);
        if (crop_w < 1 || crop_w > width || crop_h < 1 || crop_h > height)
            continue;
        words[0] = psti_augment_draw_pair(psti_uniform_below(r[2], height - crop_h + 1),
                                          psti_uniform_below(r[3], width - crop_w + 1));
        words[1] = psti_augment_draw_pair(crop_h, crop_w);
        return;
    }
    centre_crop(op, height, width, words);
}

static void draw_jitter(const struct pst_op *op, const struct psti_number_stream *stream,
                        uint64_t words[4])
{
    uint32_t r[4], order[4];
    psti_augment_numbers(stream, 0, r);
    psti_augment_numbers(stream, 1, order);
    float factors[4] = {
        (float)between(op->brightness, r[0]),
        (float)between(op->contrast, r[1]),
        (float)between(op->saturation, r[2]),
        (float)between(op->hue, r[3]),
    };
    memcpy(words, factors, sizeof factors);
    words[2] = psti_uniform_below(order[0], 24);
}

static enum pst_status suits_not(struct pst_error *err, const struct psti_chain *chain, uint32_t i,
                                 uint32_t height, uint32_t width, const char *why)
{
    return psti_fail(err, PST_ERROR_ARGUMENT, "augment", "operation %u (%s): %s (%u x %u pixels)",
                     i, psti_augment_op_name(chain->ops[i].kind), why, width, height);
}

static enum pst_status draw_random_crop(const struct psti_chain *chain, uint32_t i_op,
                                        const struct psti_number_stream *stream, uint32_t height,
                                        uint32_t width, uint64_t words[4], struct pst_error *err)
{
    const struct pst_op *op = &chain->ops[i_op];
    uint32_t pad[4];
    psti_augment_crop_pad(op, height, width, pad);
    height += pad[1] + pad[3];
    width += pad[0] + pad[2];
    if (height < op->height || width < op->width)
        return suits_not(err, chain, i_op, height, width, "the image is too small");
    uint32_t r[4];
    psti_augment_numbers(stream, 0, r);
    words[0] = psti_augment_draw_pair(psti_uniform_below(r[0], height - op->height + 1),
                                      psti_uniform_below(r[1], width - op->width + 1));
    return PST_OK;
}

/* Draws which inner operations of a RandomApply or RandomChoice are skipped for this sample. */
static void draw_group(const struct pst_op *op, uint32_t i_op,
                       const struct psti_number_stream *stream, struct psti_draw *draw)
{
    uint32_t r[4], kept = op->n_inner;
    psti_augment_numbers(stream, 0, r);
    float at = psti_uniform01(r[0]);
    if (op->kind == PST_OP_RANDOM_CHOICE) {
        double sum = 0, below = 0;
        for (uint32_t k = 0; k < op->n_inner; k++)
            sum += op->weights[k];
        for (uint32_t k = 0; k < op->n_inner && kept == op->n_inner; k++) {
            below += op->weights[k];
            kept = at * sum < below ? k : kept;
        }
    }
    bool none = op->kind == PST_OP_RANDOM_APPLY && !(at < op->p);
    for (uint32_t k = 0; k < op->n_inner; k++) {
        bool skips = op->kind == PST_OP_RANDOM_APPLY ? none : k != kept;
        draw->opaque[PSTI_DRAW_LEFT_OUT] |= (uint64_t)skips << (i_op + 1 + k);
    }
}

static enum pst_status draw_op(const struct psti_chain *chain, uint32_t i_op,
                               const struct psti_draw_boxes *boxes, uint32_t height, uint32_t width,
                               struct psti_draw *draw, struct pst_error *err)
{
    const struct pst_op *op = &chain->ops[i_op];
    const struct psti_number_stream own = psti_augment_stream(chain, draw, i_op), *stream = &own;
    uint64_t *words = &draw->opaque[4 * (size_t)i_op];
    uint32_t r[4];
    switch (op->kind) {
    case PST_OP_RANDOM_CROP:
        return draw_random_crop(chain, i_op, stream, height, width, words, err);
    case PST_OP_RANDOM_RESIZED_CROP:
        draw_resized_crop(chain, i_op, stream, height, width, words);
        return PST_OK;
    case PST_OP_HORIZONTAL_FLIP:
    case PST_OP_VERTICAL_FLIP:
    case PST_OP_GRAYSCALE:
    case PST_OP_INVERT:
    case PST_OP_POSTERIZE:
    case PST_OP_SOLARIZE:
    case PST_OP_AUTOCONTRAST:
    case PST_OP_EQUALIZE:
    case PST_OP_SHARPNESS:
        psti_augment_numbers(stream, 0, r);
        words[0] = psti_uniform01(r[0]) < op->p;
        return PST_OK;
    case PST_OP_GAUSSIAN_BLUR: {
        psti_augment_numbers(stream, 0, r);
        float sigma = (float)between(op->sigma, r[0]);
        memcpy(words, &sigma, sizeof sigma);
        return PST_OK;
    }
    case PST_OP_COLOR_JITTER:
        draw_jitter(op, stream, words);
        return PST_OK;
    case PST_OP_RANDOM_APPLY:
    case PST_OP_RANDOM_CHOICE:
        draw_group(op, i_op, stream, draw);
        return PST_OK;
    case PST_OP_RANDOM_IOU_CROP:
        return psti_augment_iou_draw(chain, i_op, boxes, height, width, draw, err);
    case PST_OP_RANDOM_ZOOM_OUT:
    case PST_OP_SCALE_JITTER:
    case PST_OP_RANDOM_SHORTEST_SIZE:
    case PST_OP_RANDOM_RESIZE:
        psti_augment_scales_draw(op, stream, height, width, words);
        return PST_OK;
    case PST_OP_AFFINE:
    case PST_OP_PERSPECTIVE:
        psti_augment_warp_draw(op, stream, height, width, words);
        return PST_OK;
    case PST_OP_ERASING:
        psti_augment_erase_draw(op, stream, height, width, words);
        return PST_OK;
    case PST_OP_RESIZE: {
        uint32_t h, w;
        if (!psti_augment_resize_size(op, height, width, &h, &w))
            return suits_not(err, chain, i_op, height, width,
                             "the longer side would exceed 1048576 pixels");
        return PST_OK;
    }
    default:
        return PST_OK;
    }
}

enum pst_status psti_augment_chain_draw(const struct psti_chain *chain,
                                        const struct psti_draw_key *key, uint32_t height,
                                        uint32_t width, struct psti_draw *draw,
                                        struct pst_error *err)
{
    uint32_t folded[4];
    memset(draw, 0, sizeof *draw);
    if (height == 0 || width == 0 || height > PSTI_AUGMENT_MAX_SIDE ||
        width > PSTI_AUGMENT_MAX_SIDE)
        return psti_fail(err, PST_ERROR_ARGUMENT, "augment",
                         "an image of %u x %u pixels cannot be used", width, height);
    draw->opaque[PSTI_DRAW_SIZE] = psti_augment_draw_pair(height, width);
    psti_random4(key->seed, key->epoch, PSTI_RANDOM_AUGMENT, key->draw, key->view, 0, folded);
    draw->opaque[PSTI_DRAW_KEY] = psti_augment_draw_pair(folded[0], folded[1]);
    draw->opaque[PSTI_DRAW_SAMPLE] = key->sample;
    draw->opaque[PSTI_DRAW_OWN] = key->own;
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        if (psti_augment_is_left_out(draw, i))
            continue;
        uint64_t *words = &draw->opaque[4 * (size_t)i];
        enum pst_status status = draw_op(chain, i, key->boxes, height, width, draw, err);
        if (status != PST_OK)
            return status;
        struct psti_op_sizes sizes;
        psti_augment_op_sizes(&chain->ops[i], words, height, width, &sizes);
        psti_augment_after(&sizes, &height, &width);
        if (height > PSTI_AUGMENT_MAX_SIDE || width > PSTI_AUGMENT_MAX_SIDE)
            return suits_not(err, chain, i, height, width, "a side exceeds 1048576 pixels");
    }
    struct psti_augment_plan plan;
    psti_augment_plan(chain, draw, &plan);
    draw->region_y = plan.region_y;
    draw->region_x = plan.region_x;
    draw->region_height = plan.region_height;
    draw->region_width = plan.region_width;
    draw->out_height = plan.out_height;
    draw->out_width = plan.out_width;
    return PST_OK;
}

size_t psti_augment_chain_output_nbytes(const struct psti_chain *chain,
                                        const struct psti_draw *draw)
{
    return (size_t)draw->out_height * draw->out_width * chain->output.channels *
           pst_dtype_nbytes(chain->output.dtype);
}
