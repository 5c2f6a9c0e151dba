/* ptx_kernels.c - the kernels as functions, from their PTX. It replaces pst_cuda_host in tests of
 * the PTX. PST_PTX_FILES are the paths of all PTX files. */
#include "kernels/ptx/ptx.h"

#include "gpu/work/gpu_kernels.h"

#include <pthread.h>
#include <string.h>

static const char *const files[] = {PST_PTX_FILES};
enum { N_FILES = sizeof files / sizeof files[0] };

static struct ptx_module modules[N_FILES];
static uint32_t n_launches;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((destructor)) void close_all(void)
{
    for (uint32_t i = 0; i < N_FILES; i++)
        ptx_close(&modules[i]);
}

static const struct ptx_kernel *find(const char *name)
{
    for (uint32_t i = 0; i < N_FILES; i++) {
        if (!modules[i].text)
            ptx_open(files[i], &modules[i]);
        for (uint32_t k = 0; k < modules[i].n_kernels; k++)
            if (strcmp(modules[i].kernels[k].name, name) == 0)
                return &modules[i].kernels[k];
    }
    ptx_fail("no kernel %s beside that of %s", name, files[0]);
}

static void launch(const char *name, uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                   const void *args)
{
    pthread_mutex_lock(&lock);
    ptx_launch(find(name), n_blocks, 32 * n_warps, shared_nbytes, args, n_launches++);
    pthread_mutex_unlock(&lock);
}

#define DEFINE(id, name)                                                                           \
    void name(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);      \
    void name(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args)       \
    {                                                                                              \
        launch(#name, n_blocks, n_warps, shared_nbytes, args);                                     \
    }
PSTI_GPU_KERNEL_LIST(DEFINE)
