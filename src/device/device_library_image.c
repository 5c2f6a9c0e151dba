/* device_library_image.c - the only source file of libpenstock_cuda.so: the fatbins of the kernels,
 * which the build lists in cuda_images.inc, and a struct that describes them. It has no code. */
#include "device/device_library.h"

#define IMAGE(name, path)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".balign 64\n"                                                                         \
            ".global psti_image_" #name "\n"                                                       \
            ".hidden psti_image_" #name "\n"                                                       \
            "psti_image_" #name ":\n"                                                              \
            ".incbin \"" path "\"\n"                                                               \
            ".popsection\n");                                                                      \
    extern const unsigned char psti_image_##name[] __attribute__((visibility("hidden")));
#include "device/cuda_images.inc"
#undef IMAGE

static const void *const images[] = {
#define IMAGE(name, path) psti_image_##name,
#include "device/cuda_images.inc"
#undef IMAGE
};

_Static_assert(sizeof images / sizeof images[0] <= PSTI_DEVICE_LIBRARY_IMAGES_MAX,
               "too many files");

extern const struct psti_device_library penstock_cuda_library
    __attribute__((visibility("default")));
const struct psti_device_library penstock_cuda_library = {
    sizeof penstock_cuda_library,     PST_CUDA_VERSION, PST_CUDA_ABI, PST_CUDA_TARGETS, images,
    sizeof images / sizeof images[0],
};
