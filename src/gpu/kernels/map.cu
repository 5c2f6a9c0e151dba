/* map.cu - kernel psti_gpu_map, for one pass of a field's rows: passes of kind PSTI_GPU_MAP.
 *
 * Args: struct psti_gpu_prepare_args. Launched as psti_gpu_point is (prepare.cu). */
#include "gpu/kernels/map.cuh"

PSTI_KERNEL(psti_gpu_map, psti::map_kernel, struct psti_gpu_prepare_args, PSTI_GPU_PREPARE_WARPS, 1)
