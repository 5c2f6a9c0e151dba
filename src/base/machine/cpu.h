/* cpu.h - tells which vector instructions (SIMD) this process may use. They are detected once.
 * PENSTOCK_CPU_MASK=c|avx2|avx512 restricts them. */
#ifndef PST_BASE_CPU_H
#define PST_BASE_CPU_H

#include <penstock/status.h>

#include <stdint.h>

enum {
    PSTI_CPU_AVX2 = 1u << 0,   /* AVX2, BMI1, BMI2, FMA, F16C */
    PSTI_CPU_AVX512 = 1u << 1, /* AVX-512 F, BW, DQ, VL, CD */
    PSTI_CPU_NEON = 1u << 2,
    /* AVX-512 VBMI, VBMI2, GFNI, VNNI, BITALG, VPOPCNTDQ: Ice Lake, Zen 4 and all later CPUs */
    PSTI_CPU_AVX512_ICL = 1u << 3,
    PSTI_CPU_ARM_CRC = 1u << 4, /* CRC instructions: part of ARMv8.1, optional in ARMv8.0 */
};

/* Returns the detected features that PENSTOCK_CPU_MASK allows. Thread-safe; the result never
 * changes during the life of the process. */
uint32_t psti_cpu_features(void);
/* Returns the detected features, without the mask. */
uint32_t psti_cpu_detected(void);
/* Returns the name of the highest SIMD level in `features`: "c", "avx2", "avx512" or "neon".
 * "avx2/avx512" means that some modules need more of AVX-512 than this CPU has, so they use
 * AVX2. */
const char *psti_cpu_level_name(uint32_t features);
/* Returns PST_ERROR_ARGUMENT if PENSTOCK_CPU_MASK has an unknown value. psti_cpu_features ignores
 * such a value silently. */
enum pst_status psti_cpu_check_mask(struct pst_error *err);

#endif
