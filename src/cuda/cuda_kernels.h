/* cuda_kernels.h - which kernels there are. Plain C.
 *
 * Launches name a kernel by its number, drivers by its name; both come from this one list. What a
 * kernel is told is in the header of its launches. A library of kernels that was built from another
 * list, or from other structs, is told by its ABI, which the build makes of all these headers. */
#ifndef PST_CUDA_CUDA_KERNELS_H
#define PST_CUDA_CUDA_KERNELS_H

/* In the order in which a batch launches them. */
#define PSTI_CUDA_KERNEL_LIST(X)                                                                   \
    X(UNITS_LZ, psti_cuda_units_lz)                                                                \
    X(UNITS_PLAIN, psti_cuda_units_plain)                                                          \
    X(UNITS_PACKED, psti_cuda_units_packed)                                                        \
    X(UNITS_WAVE8, psti_cuda_units_wave8)                                                          \
    X(UNITS_WAVE16, psti_cuda_units_wave16)                                                        \
    X(COEFS, psti_cuda_coefs)                                                                      \
    X(JPEG, psti_cuda_jpeg)                                                                        \
    X(RESIZE, psti_cuda_resize)                                                                    \
    X(POINT, psti_cuda_point)                                                                      \
    X(COPY, psti_cuda_copy_rows)

enum psti_cuda_kernel {
#define PSTI_CUDA_KERNEL_ENUM(id, name) PSTI_CUDA_KERNEL_##id,
    PSTI_CUDA_KERNEL_LIST(PSTI_CUDA_KERNEL_ENUM)
#undef PSTI_CUDA_KERNEL_ENUM
        PSTI_CUDA_N_KERNELS
};

/* [PSTI_CUDA_N_KERNELS] */
extern const char *const psti_cuda_kernels[];

#endif
