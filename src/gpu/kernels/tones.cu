/* tones.cu - the kernel psti_gpu_tones. It runs one pass for the rows of a field, if the pass is of
 * kind PSTI_GPU_LEVEL or PSTI_GPU_STRETCH.
 *
 * Args: struct psti_gpu_prepare_args. It is launched with one block for each pass, and with the
 * warps and shared memory that psti_gpu_prepare_shape computes. */
#include "gpu/kernels/tones.cuh"

PSTI_KERNEL(psti_gpu_tones, psti::tones_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 1)
