/* cpu.c - finds the features of the CPU by the instruction cpuid (on ARM by asking the kernel), and
 * masks them by PENSTOCK_CPU_MASK.
 *
 * __builtin_cpu_supports is not used, because its tables are in the compiler's runtime library, and
 * zig's library, with which wheels are built, leaves them empty. The bits are those of Intel's
 * Software Developer's Manual, volume 2A, CPUID, and volume 1, 13.3 (XCR0). */
#include "base/machine/cpu.h"

#include "base/fail.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>

/* Bits of cpuid leaf 1, register ecx. */
#define FMA (1u << 12)
#define OSXSAVE (1u << 27)
/* Bits of cpuid leaf 7, register ebx. */
#define BMI1 (1u << 3)
#define AVX2 (1u << 5)
#define BMI2 (1u << 8)
#define AVX512_F_DQ_CD_BW_VL (1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)
/* Bits of cpuid leaf 7, register ecx: VBMI, VBMI2, GFNI, VNNI, BITALG, VPOPCNTDQ. */
#define AVX512_ICL (1u << 1 | 1u << 6 | 1u << 8 | 1u << 11 | 1u << 12 | 1u << 14)
/* Bits of XCR0: the vector registers that the operating system saves. */
#define YMM_STATE 0x06u
#define ZMM_STATE 0xe6u

static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static uint32_t detect_x86(void)
{
    uint32_t eax, ebx, ecx, edx, found = 0;
    const uint32_t avx2 = BMI1 | AVX2 | BMI2;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & OSXSAVE) || !(ecx & FMA))
        return 0;
    uint32_t saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return 0;
    if ((saved & YMM_STATE) == YMM_STATE && (ebx & avx2) == avx2)
        found |= PSTI_CPU_AVX2;
    if (found && (saved & ZMM_STATE) == ZMM_STATE &&
        (ebx & AVX512_F_DQ_CD_BW_VL) == AVX512_F_DQ_CD_BW_VL)
        found |= PSTI_CPU_AVX512;
    if ((found & PSTI_CPU_AVX512) && (ecx & AVX512_ICL) == AVX512_ICL)
        found |= PSTI_CPU_AVX512_ICL;
    return found;
}
#endif

uint32_t psti_cpu_detected(void)
{
#if defined(__x86_64__)
    return detect_x86();
#elif defined(__aarch64__)
    /* NEON is part of the base instruction set of AArch64. */
    return PSTI_CPU_NEON | ((getauxval(AT_HWCAP) & HWCAP_CRC32) != 0 ? PSTI_CPU_ARM_CRC : 0);
#else
    return 0;
#endif
}

static uint32_t allowed_by_mask(void)
{
    const char *mask = getenv("PENSTOCK_CPU_MASK");
    if (!mask)
        return ~0u;
    if (strcmp(mask, "c") == 0)
        return 0;
    if (strcmp(mask, "avx2") == 0)
        return PSTI_CPU_AVX2 | PSTI_CPU_NEON | PSTI_CPU_ARM_CRC;
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
    /* Several threads may run this at once: all store the same value. The top bit means that the
     * features have been found. */
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
    if (features & PSTI_CPU_AVX512) /* some modules have kernels only for AVX512_ICL */
        return features & PSTI_CPU_AVX512_ICL ? "avx512" : "avx2/avx512";
    if (features & PSTI_CPU_AVX2)
        return "avx2";
    return features & PSTI_CPU_NEON ? "neon" : "c";
}
