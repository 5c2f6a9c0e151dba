/* cuda_kernels.c - the kernels' names, by number. Constant; any thread. */
#include "cuda/cuda_kernels.h"

#include "cuda/cuda.h"

const char *const psti_cuda_kernels[PSTI_CUDA_N_KERNELS] = {
#define PSTI_CUDA_KERNEL_NAME(id, name) #name,
    PSTI_CUDA_KERNEL_LIST(PSTI_CUDA_KERNEL_NAME)
#undef PSTI_CUDA_KERNEL_NAME
};

size_t psti_cuda_kernel_count(void) { return PSTI_CUDA_N_KERNELS; }

const char *const *psti_cuda_kernel_names(void) { return psti_cuda_kernels; }
