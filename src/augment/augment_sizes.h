/* augment_sizes.h - the geometry of one operation: padding, crop, resize, border, flips. */
#ifndef PST_AUGMENT_SIZES_H
#define PST_AUGMENT_SIZES_H

#include "augment/augment.h"

/* The geometry that an operation applies to a picture of height x width. It is computed from the
 * operation's words of the draw. */
struct psti_op_sizes {
    bool has_pad;
    uint32_t pad[4]; /* padding before the crop: left, top, right, bottom */
    bool has_crop;
    uint32_t y, x, height, width; /* the crop, in pixels of the padded picture */
    bool has_resize;
    uint32_t to_height, to_width;
    bool has_border;
    uint32_t border[4]; /* border after the resize: left, top, right, bottom */
    bool flip_y, flip_x;
};
void psti_augment_op_sizes(const struct pst_op *op, const uint64_t words[4], uint32_t height,
                           uint32_t width, struct psti_op_sizes *sizes);
/* Changes *height and *width from the size before the operation to the size after it. */
void psti_augment_after(const struct psti_op_sizes *sizes, uint32_t *height, uint32_t *width);
/* Writes the padding that a RandomCrop (with pad_if_needed) or a CenterCrop adds to a picture of
 * the given size. */
void psti_augment_crop_pad(const struct pst_op *op, uint32_t height, uint32_t width,
                           uint32_t pad[4]);
/* Writes the output size of a Resize. Returns false if a side would exceed
 * PSTI_AUGMENT_MAX_SIDE. */
bool psti_augment_resize_size(const struct pst_op *op, uint32_t height, uint32_t width,
                              uint32_t *to_height, uint32_t *to_width);

#endif
