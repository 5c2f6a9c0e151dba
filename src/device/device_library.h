/* device_library.h - the only symbol of libpenstock_cuda.so, the library with the kernels.
 * device_library_image.c defines it, device_library.c reads it.
 *
 * The library has the machine code of all kernels and links against nothing. The build computes
 * `abi` from the version and from all structs that kernels and host code share. A library with
 * another `abi` is refused. The members up to `abi` never change their place. */
#ifndef PST_DEVICE_LIBRARY_H
#define PST_DEVICE_LIBRARY_H

#include <stdint.h>

#define PSTI_DEVICE_LIBRARY_IMAGES_MAX 16

struct psti_device_library {
    uint32_t struct_nbytes;
    uint32_t cuda_version; /* CUDA version of the compiler, as psti_device_info's driver_version */
    const char *abi;
    const char *targets;       /* "sm_90 compute_75 ...", for messages */
    const void *const *images; /* fatbins, which contain their sizes */
    uint32_t n_images;         /* at most PSTI_DEVICE_LIBRARY_IMAGES_MAX */
};

#define PSTI_DEVICE_LIBRARY_FILE "libpenstock_cuda.so"
#define PSTI_DEVICE_LIBRARY_SYMBOL "penstock_cuda_library"

#endif
