/* gpu_pad.h - work for the kernel psti_gpu_pad_rows, which copies finished rows that differ in
 * size, and fills what lies beside and below them. Plain C and CUDA. */
#ifndef PST_GPU_GPU_PAD_H
#define PST_GPU_GPU_PAD_H

#include <stdint.h>

enum {
    PSTI_GPU_PAD_WARPS = 8,
    PSTI_GPU_PAD_LINES = 32 /* lines of a padded row that one block writes */
};

/* A row of n_planes planes, each of n_lines lines without gaps. In the padded row each plane has
 * to_n_lines lines. All bytes are whole elements, and addresses are multiples of an element. */
struct psti_gpu_pad {
    uint64_t from, to;
    uint32_t line_nbytes, to_line_nbytes;
    uint32_t n_lines, to_n_lines;
    uint32_t n_planes, reserved;
};

/* Arguments of a launch, with n_pads * n_parts blocks. */
struct psti_gpu_pad_args {
    uint64_t pads; /* address of struct psti_gpu_pad [n_pads] */
    uint64_t fill; /* the element that fills gaps, as often as it fits */
    uint32_t n_pads;
    uint32_t n_parts; /* the largest number of parts of PSTI_GPU_PAD_LINES lines in a padded row */
};

#endif
