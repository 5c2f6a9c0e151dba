/* pli_emit_neon.c - the row kernels of emission with NEON.
 *
 * pli_emit.h says what goes in and out. Plain C gives the same bytes. The functions are pure; any
 * thread may call them. A step makes 16 pixels of 8 bits (pli_emit_template.h). The instructions
 * st3 and st4 bound its time: they take 3 and 4 cycles on a Neoverse N1. */
#include "pli/decode/pli_emit.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)

#define TARGET
#define INLINE PSTI_NEON_INLINE
#define VECTOR uint8x16_t

enum { STEP = 16 };

/* Loads all 16 bytes, even if n is less. */
INLINE uint8x16_t load(const uint8_t *p, uint32_t n)
{
    (void)n;
    return vld1q_u8(p);
}
INLINE void store(uint8_t *p, uint8x16_t v) { vst1q_u8(p, v); }
INLINE uint8x16_t add(uint8x16_t a, uint8x16_t b) { return vaddq_u8(a, b); }
INLINE uint8x16_t less_128(uint8x16_t v) { return veorq_u8(v, vdupq_n_u8(0x80)); }

INLINE void store_rgb(uint8_t *out, uint8x16_t r, uint8x16_t g, uint8x16_t b)
{
    const uint8x16x3_t all = {{r, g, b}};
    vst3q_u8(out, all);
}

INLINE void store_rgba(uint8_t *out, uint8x16_t r, uint8x16_t g, uint8x16_t b, uint8x16_t a)
{
    const uint8x16x4_t all = {{r, g, b, a}};
    vst4q_u8(out, all);
}

#include "pli/decode/pli_emit_template.h"

const struct psti_pli_emit_kernels psti_pli_emit_kernels_neon = {
    .green_rgb_u8 = green_rgb_u8,
    .green_rgba_u8 = green_rgba_u8,
    .green_one_u8 = green_one_u8,
    .plain_rgb_u8 = plain_rgb_u8,
};
#endif
