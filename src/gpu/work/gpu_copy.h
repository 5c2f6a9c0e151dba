/* gpu_copy.h - work for the kernel psti_gpu_copy_rows, which copies rows that were finished
 * elsewhere. Plain C and CUDA. */
#ifndef PST_GPU_GPU_COPY_H
#define PST_GPU_GPU_COPY_H

#include <stdint.h>

enum {
    PSTI_GPU_COPY_WARPS = 8,
    PSTI_GPU_COPY_PART_NBYTES = 16384 /* bytes of a row that one block copies */
};

struct psti_gpu_copy {
    uint64_t from, to;
};

/* Arguments of a launch of the copy kernel, with n_copies * n_parts blocks. */
struct psti_gpu_copy_args {
    uint64_t copies; /* address of struct psti_gpu_copy [n_copies] */
    uint64_t nbytes; /* bytes of a row; all rows have the same length */
    uint32_t n_copies;
    uint32_t n_parts; /* parts of PSTI_GPU_COPY_PART_NBYTES in a row, rounded up */
};

#endif
