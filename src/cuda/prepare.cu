/* prepare.cu - kernels psti_cuda_resize and psti_cuda_point: one pass of each of a field's rows.
 *
 * Args: struct psti_cuda_prepare_args. Launched with PSTI_CUDA_PREPARE_WARPS warps per block and
 * psti_cuda_prepare_shape's blocks and shared memory; a warp makes one tile of one row's pass. */
#include "cuda/prepare.cuh"

PSTI_KERNEL(psti_cuda_resize, psti::resize_kernel, struct psti_cuda_prepare_args,
            PSTI_CUDA_PREPARE_WARPS, 2)
PSTI_KERNEL(psti_cuda_point, psti::point_kernel, struct psti_cuda_prepare_args,
            PSTI_CUDA_PREPARE_WARPS, 1)
