/* device_library.h - the kernels' library, libpenstock_cuda.so: what it shows, for the file that
 * makes it (device_library_image.c) and the one that reads it (device_library.c).
 *
 * It has the machine code of all kernels and links against nothing. `abi` is made of the version
 * and of all structs that kernels and host code share: a library with another one is not used. The
 * members up to `abi` never change their place. */
#ifndef PST_DEVICE_LIBRARY_H
#define PST_DEVICE_LIBRARY_H

#include <stdint.h>

#define PSTI_LIBRARY_IMAGES_MAX 16

struct psti_device_library {
    uint32_t struct_nbytes;
    uint32_t cuda_version; /* of the compiler, as psti_device_info's driver_version */
    const char *abi;
    const char *targets;       /* "sm_90 compute_75 ...", for people */
    const void *const *images; /* fatbins, which know their sizes */
    uint32_t n_images;         /* at most PSTI_LIBRARY_IMAGES_MAX */
};

#define PSTI_LIBRARY_FILE "libpenstock_cuda.so"
#define PSTI_LIBRARY_SYMBOL "penstock_cuda_library"

#endif
