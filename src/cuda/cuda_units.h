/* cuda_units.h - work for the kernel that decodes PLI of pixels. Plain C and CUDA.
 *
 * One warp decodes one unit; the warps of a block share the tables of one image (or the built-in
 * ones), so a block's units are of images with the same tables. */
#ifndef PST_CUDA_UNITS_H
#define PST_CUDA_UNITS_H

#include "cuda/cuda_store.h"

struct psti_cuda_image {
    uint64_t bytes;  /* of the first uploaded unit; units' offsets count from here */
    uint64_t tables; /* expanded wave tables of its own; 0: the built-in ones of its bits */
    uint32_t status; /* index into the launch's statuses: not 0 there if a unit is corrupt */
    uint16_t width, height;
    uint8_t channels, bits, unit_log2, transform, max_error;
    uint8_t reserved[3];
    struct psti_cuda_sink sink;
};

struct psti_cuda_unit {
    uint32_t image; /* index; UINT32_MAX: nothing to do, fills up a block */
    uint32_t offset, nbytes;
    uint16_t unit_y, unit_x; /* in units */
};

struct psti_cuda_units_args {
    uint64_t images;    /* struct psti_cuda_image [] */
    uint64_t units;     /* struct psti_cuda_unit [n_units] */
    uint64_t statuses;  /* uint32_t [], one per image; 0 before the launch */
    uint64_t scratch;   /* of units that need more than shared memory (lz) */
    uint64_t constants; /* built-in tables and filters (cuda_units.c fills them at open) */
    uint32_t n_units;
    struct psti_cuda_finish finish;
};

#endif
