/* cpu.h - the vector instructions (SIMD) that this process may use: found once, lowered by
 * PENSTOCK_CPU_MASK=c|avx2|avx512. */
#ifndef PST_BASE_CPU_H
#define PST_BASE_CPU_H

#include <penstock/status.h>

#include <stdint.h>

enum {
    PSTI_CPU_AVX2 = 1u << 0,   /* AVX2, BMI1, BMI2, FMA, F16C */
    PSTI_CPU_AVX512 = 1u << 1, /* F, BW, DQ, VL, CD */
    PSTI_CPU_NEON = 1u << 2,
    /* VBMI, VBMI2, GFNI, VNNI, BITALG, VPOPCNTDQ: in Ice Lake, Zen 4 and all later CPUs */
    PSTI_CPU_AVX512_ICL = 1u << 3,
    PSTI_CPU_ARM_CRC = 1u << 4, /* the CRC instructions of ARMv8.1, optional in ARMv8.0 */
};

/* Returns the features that were found and that the mask allows. Thread-safe; constant over the
 * life of the process. */
uint32_t psti_cpu_features(void);
/* Returns the features that were found, without the mask. */
uint32_t psti_cpu_detected(void);
/* Returns the highest level in `features`: "c", "avx2", "avx512", "neon". "avx2/avx512" means
 * that some rooms need more of AVX-512 than the CPU has, and use AVX2. */
const char *psti_cpu_level_name(uint32_t features);
/* PST_ERROR_ARGUMENT if PENSTOCK_CPU_MASK has an unknown value, which would otherwise be ignored
 * silently. */
enum pst_status psti_cpu_check_mask(struct pst_error *err);

#endif
