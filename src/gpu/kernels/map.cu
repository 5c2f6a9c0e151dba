/* map.cu - the kernel psti_gpu_map. It runs one pass of kind PSTI_GPU_MAP for the rows of a field.
 *
 * Args: struct psti_gpu_prepare_args. It is launched like psti_gpu_point (prepare.cu). */
#include "gpu/kernels/map.cuh"

PSTI_KERNEL(psti_gpu_map, psti::map_kernel, struct psti_gpu_prepare_args, PSTI_GPU_PREPARE_WARPS, 1)
