/* gpu_kernels.c - the names of the kernels, by number. A constant table; any thread may use it. */
#include "gpu/work/gpu_kernels.h"

#include "gpu/gpu.h"

const char *const psti_gpu_kernels[PSTI_GPU_N_KERNELS] = {
#define PSTI_GPU_KERNEL_NAME(id, name) #name,
    PSTI_GPU_KERNEL_LIST(PSTI_GPU_KERNEL_NAME)
#undef PSTI_GPU_KERNEL_NAME
};

size_t psti_gpu_kernel_count(void) { return PSTI_GPU_N_KERNELS; }

const char *const *psti_gpu_kernel_names(void) { return psti_gpu_kernels; }
