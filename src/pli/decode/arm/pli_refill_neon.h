/* pli_refill_neon.h - gives words of rANS to the states that need them, four states at a time. */
#ifndef PST_PLI_REFILL_NEON_H
#define PST_PLI_REFILL_NEON_H

#include "base/machine/neon.h"

#include <stdint.h>

#if defined(PSTI_NEON)
/* For each mask of four states that take words, 16 indices of bytes. Indices below 16 are bytes of
 * the states, those from 16 on are bytes of the words. A state that takes a word is shifted up by
 * the word's width. */
struct psti_pli_refill {
    _Alignas(64) uint8_t order[16][16];
};
extern const struct psti_pli_refill psti_pli_refill;

/* Returns the states x. Each state in the mask, which is below 2^16, is extended by its next word.
 * Reads 16 bytes of `words`. */
PSTI_NEON_INLINE uint32x4_t psti_pli_refill_four(uint32x4_t x, const uint8_t *words, uint64_t mask)
{
    const uint8x16_t order = vld1q_u8(psti_pli_refill.order[mask & 15]);
    const uint8x16x2_t both = {{vreinterpretq_u8_u32(x), vld1q_u8(words)}};
    return vreinterpretq_u32_u8(vqtbl2q_u8(both, order));
}

/* Returns a byte for each group of four of the 32 lanes. Bit i of a byte is set if the mask `low`
 * has lane i of the group set. */
PSTI_NEON_INLINE uint8x8_t psti_pli_refill_masks(const uint32x4_t *low)
{
    const uint8x16_t bits = vreinterpretq_u8_u32(vdupq_n_u32(0x08040201));
    uint8x16_t both[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++, low += 4) {
        uint16x8_t a = vuzp1q_u16(vreinterpretq_u16_u32(low[0]), vreinterpretq_u16_u32(low[1]));
        uint16x8_t b = vuzp1q_u16(vreinterpretq_u16_u32(low[2]), vreinterpretq_u16_u32(low[3]));
        both[i] = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b)), bits);
    }
    uint8x16_t pairs = vpaddq_u8(both[0], both[1]);
    return vget_low_u8(vpaddq_u8(pairs, pairs));
}
#endif

#endif
