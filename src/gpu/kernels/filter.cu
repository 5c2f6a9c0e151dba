/* filter.cu - the kernel psti_gpu_filter. It runs one pass for the rows of a field, if the pass is
 * of kind PSTI_GPU_SHARPEN, PSTI_GPU_BLUR_X, PSTI_GPU_BLUR_Y, PSTI_GPU_ERASE, PSTI_GPU_MIX,
 * PSTI_GPU_SHIFTS_X or PSTI_GPU_SHIFTS_Y.
 *
 * Args: struct psti_gpu_prepare_args. It is launched like psti_gpu_point (prepare.cu). */
#include "gpu/kernels/filter.cuh"

PSTI_KERNEL(psti_gpu_filter, psti::filter_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 1)
