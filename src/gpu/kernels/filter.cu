/* filter.cu - kernel psti_gpu_filter, for one pass of a field's rows: passes of the kinds
 * PSTI_GPU_SHARPEN, PSTI_GPU_BLUR_X, PSTI_GPU_BLUR_Y and PSTI_GPU_ERASE.
 *
 * Args: struct psti_gpu_prepare_args. Launched as psti_gpu_point is (prepare.cu). */
#include "gpu/kernels/filter.cuh"

PSTI_KERNEL(psti_gpu_filter, psti::filter_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 1)
