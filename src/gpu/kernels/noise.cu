/* noise.cu - the kernel psti_gpu_noise. It runs one pass for the rows of a field, if the pass is of
 * kind PSTI_GPU_SHIFTS or PSTI_GPU_NOISE.
 *
 * Args: struct psti_gpu_prepare_args. It is launched like psti_gpu_point (prepare.cu). */
#include "gpu/kernels/noise.cuh"

PSTI_KERNEL(psti_gpu_noise, psti::noise_kernel, struct psti_gpu_prepare_args,
            PSTI_GPU_PREPARE_WARPS, 1)
