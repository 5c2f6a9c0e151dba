/* cpu.c - finds CPU features by the compiler's cpuid helpers, and lowers them by
 * PENSTOCK_CPU_MASK. The helpers also check that the operating system supports the wide
 * registers. */
#include "base/cpu.h"

#include "base/fail.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

uint32_t psti_cpu_detected(void)
{
    uint32_t found = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
        found |= PSTI_CPU_AVX2;
    if ((found & PSTI_CPU_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        found |= PSTI_CPU_AVX512;
    if ((found & PSTI_CPU_AVX512) && __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("gfni") &&
        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bitalg") &&
        __builtin_cpu_supports("avx512vpopcntdq"))
        found |= PSTI_CPU_AVX512_ICL;
#elif defined(__aarch64__)
    found |= PSTI_CPU_NEON; /* part of the base instruction set */
#endif
    return found;
}

static uint32_t allowed_by_mask(void)
{
    const char *mask = getenv("PENSTOCK_CPU_MASK");
    if (!mask)
        return ~0u;
    if (strcmp(mask, "c") == 0)
        return 0;
    if (strcmp(mask, "avx2") == 0)
        return PSTI_CPU_AVX2 | PSTI_CPU_NEON;
    return ~0u;
}

enum pst_status psti_cpu_check_mask(struct pst_error *err)
{
    static const char *const known[] = {"", "c", "avx2", "avx512", "neon"};
    const char *mask = getenv("PENSTOCK_CPU_MASK");
    for (size_t i = 0; mask && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(mask, known[i]) == 0)
            return PST_OK;
    return mask ? psti_fail(err, PST_ERROR_ARGUMENT, "base",
                            "the environment variable PENSTOCK_CPU_MASK is \"%.40s\": c, avx2, "
                            "avx512 or neon is expected",
                            mask)
                : PST_OK;
}

uint32_t psti_cpu_features(void)
{
    /* Threads may race here: all store the same value. The top bit means "found already". */
    static _Atomic uint32_t cached;
    const uint32_t known = 1u << 31;
    uint32_t features = atomic_load_explicit(&cached, memory_order_relaxed);
    if (!(features & known)) {
        features = (psti_cpu_detected() & allowed_by_mask()) | known;
        atomic_store_explicit(&cached, features, memory_order_relaxed);
    }
    return features & ~known;
}

const char *psti_cpu_level_name(uint32_t features)
{
    if (features & PSTI_CPU_AVX512) /* some rooms have no kernels for a part of it */
        return features & PSTI_CPU_AVX512_ICL ? "avx512" : "avx2/avx512";
    if (features & PSTI_CPU_AVX2)
        return "avx2";
    return features & PSTI_CPU_NEON ? "neon" : "c";
}
