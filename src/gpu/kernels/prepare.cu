/* prepare.cu - the kernels psti_gpu_resize and psti_gpu_point. A launch runs one pass for the rows
 * of a field.
 *
 * Args: struct psti_gpu_prepare_args. They are launched with PSTI_GPU_PREPARE_WARPS warps per
 * block, and with the blocks and shared memory that psti_gpu_prepare_shape computes. A warp
 * computes one tile of one row's pass. */
#include "gpu/kernels/prepare.cuh"

PSTI_KERNEL(psti_gpu_resize, psti::resize_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 2)
PSTI_KERNEL(psti_gpu_point, psti::point_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 1)
