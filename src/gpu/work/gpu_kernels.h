/* gpu_kernels.h - the list of kernels. Plain C.
 *
 * Launches name a kernel by its number, drivers by its name. Numbers and names come from this one
 * list. A kernel's arguments are in the header of its launches. The build computes an ABI number
 * from all these headers. It detects a library of kernels that was built from another list or other
 * structs. */
#ifndef PST_GPU_GPU_KERNELS_H
#define PST_GPU_GPU_KERNELS_H

/* The kernels, in the order in which a batch launches them. */
#define PSTI_GPU_KERNEL_LIST(X)                                                                    \
    X(UNITS_LZ, psti_gpu_units_lz)                                                                 \
    X(UNITS_PLAIN, psti_gpu_units_plain)                                                           \
    X(UNITS_PACKED, psti_gpu_units_packed)                                                         \
    X(UNITS_WAVE_U8, psti_gpu_units_wave_u8)                                                       \
    X(UNITS_WAVE_U16, psti_gpu_units_wave_u16)                                                     \
    X(COEFS, psti_gpu_coefs)                                                                       \
    X(JPEG, psti_gpu_jpeg)                                                                         \
    X(RESIZE, psti_gpu_resize)                                                                     \
    X(POINT, psti_gpu_point)                                                                       \
    X(MAP, psti_gpu_map)                                                                           \
    X(FILTER, psti_gpu_filter)                                                                     \
    X(TONES, psti_gpu_tones)                                                                       \
    X(NOISE, psti_gpu_noise)                                                                       \
    X(SOUND_FRAMES, psti_gpu_sound_frames)                                                         \
    X(SOUND_VALUES, psti_gpu_sound_values)                                                         \
    X(COPY, psti_gpu_copy_rows)                                                                    \
    X(PAD, psti_gpu_pad_rows)

enum psti_gpu_kernel {
#define PSTI_GPU_KERNEL_ENUM(id, name) PSTI_GPU_KERNEL_##id,
    PSTI_GPU_KERNEL_LIST(PSTI_GPU_KERNEL_ENUM)
#undef PSTI_GPU_KERNEL_ENUM
        PSTI_GPU_N_KERNELS
};

/* names by kernel number, [PSTI_GPU_N_KERNELS] */
extern const char *const psti_gpu_kernels[];

#endif
