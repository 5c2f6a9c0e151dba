/* pli_rans.h - codes of tokens for rANS states of 32 bits in vectors, which the encoders of several
 * modes share.
 *
 * A token's code has 64 bits, for probabilities of `prob_bits` bits, 10 or 12. Bits 0..31 hold a
 * reciprocal: 2^s / freq, rounded to the nearer side. Then come prob_bits bits of the token's first
 * place, and prob_bits bits of 2^prob_bits - freq. Bit 59 is set if the reciprocal was rounded
 * down. The bits above it hold s - 32. x divided by freq is (x + bit 59) * reciprocal >> s.
 *
 * The quotient is exact: s is 31 + log2 freq, with the logarithm rounded up. So
 * the reciprocal is below 2^32, and its product with freq differs from 2^s by some e, at most freq
 * / 2. A state that takes a token is below freq * 2^(32 - prob_bits), and e times such a state is
 * at most 2^s. If freq is 1, s is 32 and the reciprocal is 2^32 - 1, rounded down. */
#ifndef PST_PLI_RANS_H
#define PST_PLI_RANS_H

#include <stdbool.h>
#include <stdint.h>

/* Places in bits 32..63. */
enum { PSTI_RANS_DOWN_SHIFT = 27, PSTI_RANS_S_SHIFT = 28 };

/* Returns the code of a token. `freq` is 1..2^prob_bits. */
static inline uint64_t psti_pli_rans_code(uint32_t prob_bits, uint32_t freq, uint32_t first)
{
    uint32_t s = freq < 2 ? 32 : 63 - (uint32_t)__builtin_clz(freq - 1);
    uint64_t reciprocal = ((1ull << s) + freq - 1) / freq;
    bool down = freq < 2 || reciprocal * freq - (1ull << s) > freq / 2;
    uint32_t fields = first | ((1u << prob_bits) - freq) << prob_bits |
                      (uint32_t)down << PSTI_RANS_DOWN_SHIFT | (s - 32) << PSTI_RANS_S_SHIFT;
    return (reciprocal - down) | (uint64_t)fields << 32;
}

#endif
