/* gpu_store.h - the structs that say where and how kernels store pixels. Plain C and CUDA.
 *
 * Addresses are those of the GPU (in the CPU build: of this process). */
#ifndef PST_GPU_GPU_STORE_H
#define PST_GPU_GPU_STORE_H

#include <stdint.h>

/* How the rows of one field are stored: finished pixels become elements in the slot's dtype and
 * layout. */
struct psti_gpu_finish {
    uint32_t out_height, out_width;
    uint8_t channels, bits; /* channels (1..4) and bits (8 or 16) of finished pixels */
    uint8_t dtype;          /* enum pst_dtype: U8, U16, F16, BF16, F32; masks: also I32, I64 */
    uint8_t is_chw;
    uint8_t is_mask; /* true: the field is a mask, so integers keep their values */
    uint8_t reserved[3];
    float scale[4], offset[4]; /* floats: value * scale, rounded, + offset, rounded */
};

/* Decoders send the pixels of an image to a sink. `orientation` (EXIF, 1..8) says where a pixel
 * at (y, x) of the stored image is shown. Pixels in the region of the shown image get the field's
 * channels and bits, and are written
 *     finished = 0: to a picture, (region_height, region_width, channels) packed
 *     finished = 1: mirrored by the flips and finished, to the row of the slot; the region has the
 *                   slot's height and width. */
struct psti_gpu_sink {
    uint64_t at;
    uint32_t region_y, region_x, region_height, region_width;
    uint16_t height, width; /* size of the stored image */
    uint8_t channels, bits; /* channels and bits of the decoded image */
    uint8_t orientation;
    uint8_t finished;
    uint8_t flip_y, flip_x;
    uint8_t reserved[2];
};

#endif
