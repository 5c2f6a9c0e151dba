/* augment_sizes.c - the geometry of one operation: padding, crop, resize, border, flips.
 *
 * In: an operation, its words of the draw, the size of the picture before it. Out: its geometry,
 * and the size after it. Pure functions, any thread. */
#include "augment/augment_sizes.h"

#include "augment/augment_int.h"

#include <string.h>

/* Returns half of the difference, rounded to the nearest integer, and a half to the even integer,
 * like torchvision's int(round((larger - smaller) / 2.0)). */
static uint32_t half_even(uint32_t difference)
{
    uint32_t half = difference / 2;
    return half + ((difference & 1) & (half & 1));
}

void psti_augment_crop_pad(const struct pst_op *op, uint32_t height, uint32_t width,
                           uint32_t pad[4])
{
    memset(pad, 0, 4 * sizeof pad[0]);
    if (op->kind == PST_OP_CENTER_CROP) {
        uint32_t dy = op->height > height ? op->height - height : 0;
        uint32_t dx = op->width > width ? op->width - width : 0;
        pad[0] = dx / 2;
        pad[1] = dy / 2;
        pad[2] = (dx + 1) / 2;
        pad[3] = (dy + 1) / 2;
        return;
    }
    memcpy(pad, op->pad, 4 * sizeof pad[0]);
    if (!op->pad_if_needed)
        return;
    height += pad[1] + pad[3];
    width += pad[0] + pad[2];
    if (height < op->height) {
        pad[1] += op->height - height;
        pad[3] += op->height - height;
    }
    if (width < op->width) {
        pad[0] += op->width - width;
        pad[2] += op->width - width;
    }
}

bool psti_augment_resize_size(const struct pst_op *op, uint32_t height, uint32_t width,
                              uint32_t *to_height, uint32_t *to_width)
{
    if (op->width != 0) {
        *to_height = op->height;
        *to_width = op->width;
        return true;
    }
    uint32_t shorter = height < width ? height : width, longer = height < width ? width : height;
    uint64_t to_longer = (uint64_t)op->height * longer / shorter;
    if (to_longer > PSTI_AUGMENT_MAX_SIDE)
        return false;
    *to_height = height <= width ? op->height : (uint32_t)to_longer;
    *to_width = height <= width ? (uint32_t)to_longer : op->height;
    return true;
}

void psti_augment_op_sizes(const struct pst_op *op, const uint64_t words[4], uint32_t height,
                           uint32_t width, struct psti_op_sizes *sizes)
{
    memset(sizes, 0, sizeof *sizes);
    switch (op->kind) {
    case PST_OP_RESIZE:
        sizes->has_resize =
            psti_augment_resize_size(op, height, width, &sizes->to_height, &sizes->to_width);
        break;
    case PST_OP_CENTER_CROP:
    case PST_OP_RANDOM_CROP:
        psti_augment_crop_pad(op, height, width, sizes->pad);
        sizes->has_pad = (sizes->pad[0] | sizes->pad[1] | sizes->pad[2] | sizes->pad[3]) != 0;
        sizes->has_crop = true;
        sizes->height = op->height;
        sizes->width = op->width;
        if (op->kind == PST_OP_RANDOM_CROP) {
            sizes->y = psti_augment_draw_low(words[0]);
            sizes->x = psti_augment_draw_high(words[0]);
        } else {
            sizes->y = half_even(height + sizes->pad[1] + sizes->pad[3] - op->height);
            sizes->x = half_even(width + sizes->pad[0] + sizes->pad[2] - op->width);
        }
        break;
    case PST_OP_RANDOM_RESIZED_CROP:
        sizes->has_crop = true;
        sizes->y = psti_augment_draw_low(words[0]);
        sizes->x = psti_augment_draw_high(words[0]);
        sizes->height = psti_augment_draw_low(words[1]);
        sizes->width = psti_augment_draw_high(words[1]);
        sizes->has_resize = true;
        sizes->to_height = op->height;
        sizes->to_width = op->width;
        break;
    case PST_OP_HORIZONTAL_FLIP:
        sizes->flip_x = words[0] != 0;
        break;
    case PST_OP_VERTICAL_FLIP:
        sizes->flip_y = words[0] != 0;
        break;
    case PST_OP_PAD:
        memcpy(sizes->pad, op->pad, sizeof sizes->pad);
        sizes->has_pad = (op->pad[0] | op->pad[1] | op->pad[2] | op->pad[3]) != 0;
        break;
    case PST_OP_RANDOM_IOU_CROP:
        sizes->has_crop = words[1] != 0;
        sizes->y = psti_augment_draw_low(words[0]);
        sizes->x = psti_augment_draw_high(words[0]);
        sizes->height = psti_augment_draw_low(words[1]);
        sizes->width = psti_augment_draw_high(words[1]);
        break;
    case PST_OP_RANDOM_ZOOM_OUT:
    case PST_OP_LETTERBOX:
    case PST_OP_SCALE_JITTER:
    case PST_OP_RANDOM_SHORTEST_SIZE:
    case PST_OP_RANDOM_RESIZE:
        psti_augment_scales_sizes(op, words, height, width, sizes);
        break;
    default:
        break;
    }
}

void psti_augment_after(const struct psti_op_sizes *sizes, uint32_t *height, uint32_t *width)
{
    if (sizes->has_pad) {
        *height += sizes->pad[1] + sizes->pad[3];
        *width += sizes->pad[0] + sizes->pad[2];
    }
    if (sizes->has_crop) {
        *height = sizes->height;
        *width = sizes->width;
    }
    if (sizes->has_resize) {
        *height = sizes->to_height;
        *width = sizes->to_width;
    }
    if (sizes->has_border) {
        *height += sizes->border[1] + sizes->border[3];
        *width += sizes->border[0] + sizes->border[2];
    }
}
