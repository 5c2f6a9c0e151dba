/* gpu_copy.h - work for the kernel that copies rows which were finished elsewhere. Plain C and
 * CUDA. */
#ifndef PST_GPU_GPU_COPY_H
#define PST_GPU_GPU_COPY_H

#include <stdint.h>

enum {
    PSTI_GPU_COPY_WARPS = 8,
    PSTI_GPU_COPY_PART_NBYTES = 16384 /* bytes of a row that a block copies */
};

struct psti_gpu_copy {
    uint64_t from, to;
};

/* The arguments of a launch of n_copies * n_parts blocks. */
struct psti_gpu_copy_args {
    uint64_t copies; /* address of struct psti_gpu_copy [n_copies] */
    uint64_t nbytes; /* bytes of each row */
    uint32_t n_copies;
    uint32_t n_parts; /* number of parts of PSTI_GPU_COPY_PART_NBYTES in a row */
};

#endif
