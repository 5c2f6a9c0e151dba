/* gpu_store.h - where pixels go, as kernels and the host agree on it. Plain C and CUDA.
 *
 * Addresses are those of the card (in the CPU build: of this process). */
#ifndef PST_GPU_GPU_STORE_H
#define PST_GPU_GPU_STORE_H

#include <stdint.h>

/* The last step for all rows of one field: finished pixels -> dtype and layout of the slot. */
struct psti_gpu_finish {
    uint32_t out_height, out_width;
    uint8_t channels, bits; /* of finished pixels: 1..4, 8 or 16 */
    uint8_t dtype;          /* enum pst_dtype: U8, U16, F16, BF16, F32; masks: also I32, I64 */
    uint8_t is_chw;
    uint8_t is_mask; /* integers keep their numbers */
    uint8_t reserved[3];
    float scale[4], offset[4]; /* floats: value * scale, rounded, + offset, rounded */
};

/* What decoders do with the pixels of an image. A pixel at (y, x) as stored is shown at a place
 * that `orientation` (EXIF, 1..8) gives; of those in the region (as shown) the channels and bits
 * are converted to those of the field, and they are written
 *     finished = 0: to a picture, (region_height, region_width, channels) packed
 *     finished = 1: mirrored by the flips and finished, to the row of the slot; the region has the
 *                   slot's height and width. */
struct psti_gpu_sink {
    uint64_t at;
    uint32_t region_y, region_x, region_height, region_width;
    uint16_t height, width; /* of the image as stored */
    uint8_t channels, bits; /* as decoded */
    uint8_t orientation;
    uint8_t finished;
    uint8_t flip_y, flip_x;
    uint8_t reserved[2];
};

#endif
