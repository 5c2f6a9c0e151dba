/* fake_kernels.c - replaces the kernels' library (libpenstock_cuda.so) for the fake driver. Its
 * image is no fatbin: it finds the CPU build of a kernel, which is linked into this library, by
 * name. PENSTOCK_CUDA_KERNELS names this library. */
#include "device/device_library.h"
#include "fake_driver.h"

#include <dlfcn.h>
#include <stddef.h>

extern const struct psti_device_library penstock_cuda_library;

static fake_kernel_fn find(const char *name)
{
    Dl_info info;
    if (!dladdr(&penstock_cuda_library, &info))
        return NULL;
    void *own = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    fake_kernel_fn fn = NULL;
    if (own) {
        *(void **)&fn = dlsym(own, name);
        dlclose(own);
    }
    return fn;
}

static const struct fake_image image = {.magic = FAKE_IMAGE_MAGIC, .find = find};
static const void *const images[] = {&image};
const struct psti_device_library penstock_cuda_library = {
    sizeof penstock_cuda_library, 13000, PST_CUDA_ABI, "cpu", images, 1};
