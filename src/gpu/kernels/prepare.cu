/* prepare.cu - kernels psti_gpu_resize and psti_gpu_point, each for one pass of a field's rows.
 *
 * Args: struct psti_gpu_prepare_args. They are launched with PSTI_GPU_PREPARE_WARPS warps per block
 * and psti_gpu_prepare_shape's blocks and shared memory. A warp makes one tile of one row's pass.
 */
#include "gpu/kernels/prepare.cuh"

PSTI_KERNEL(psti_gpu_resize, psti::resize_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 2)
PSTI_KERNEL(psti_gpu_point, psti::point_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 1)
