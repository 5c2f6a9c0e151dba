/* tones.cu - kernel psti_gpu_tones, for one pass of a field's rows: passes of the kinds
 * PSTI_GPU_LEVEL and PSTI_GPU_STRETCH.
 *
 * Args: struct psti_gpu_prepare_args. Launched with a block for each pass and
 * psti_gpu_prepare_shape's warps and shared memory. */
#include "gpu/kernels/tones.cuh"

PSTI_KERNEL(psti_gpu_tones, psti::tones_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 1)
