/* sound_kernels_avx2.c - the inner loops compiled with AVX2 from sound_kernels_template.h.
 * Multiplications and additions are not fused, so the bits equal those of plain C. Pure functions,
 * any thread. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#define NAME "avx2"
#define LEVEL(name) name##_avx2
#include "sound/sound_kernels_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
