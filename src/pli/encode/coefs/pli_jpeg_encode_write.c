/* pli_jpeg_encode_write.c - writes a unit's bytes from its tokens and raw bits (docs/format-pli.md,
 * 8.1).
 *
 * 32 rANS states code the tokens from last to first, because the decoder then finds them from first
 * to last. The low halves of the first states are the last 64 bytes of the raw bits, which so take
 * no space. The last states are those with which the decoder begins. */
#include "pli/encode/coefs/pli_jpeg_encode_int.h"

#include "base/bits.h"

#include <string.h>

enum { LANES = PSTI_JE_LANES, NUMBER_MAX_NBYTES = 4, MANTISSA_MAX_NBYTES = 60 };

/* Codes a token. A decoder takes it before the tokens that the state already holds. If the state
 * would become too large, its low word is written first, before `words`. There is no branch,
 * because the CPU could not predict it. */
static inline uint32_t take(uint32_t x, const struct psti_je_code *code, uint16_t **words)
{
    uint32_t full = x > code->last;
    (*words)[-1] = (uint16_t)x;
    *words -= full;
    x >>= 16 * full;
    /* x < freq * 2^20 and reciprocal <= 2^44 / freq + 1, so the product is below 2^64. */
    uint32_t quotient = (uint32_t)(x * code->reciprocal >> PSTI_JE_RECIPROCAL_SHIFT);
    return x + quotient * code->rest + code->first;
}

/* Codes all tokens of a unit, last token first. Returns the address of its first word. */
static uint16_t *take_all(const struct psti_je_unit *unit, const uint8_t *ac, const uint16_t *small,
                          const struct psti_je_codes *codes, const struct psti_je_kernels *kernels,
                          uint32_t *states, uint16_t *words)
{
    const uint8_t *end = ac;
    for (uint32_t k = 1; k <= unit->last; k++)
        end += unit->n_k[k];
    for (uint32_t k = unit->last; k > 0; k--) {
        uint32_t n = unit->n_k[k], n_eights = kernels->take_eights ? n / 8 : 0;
        end -= n;
        for (uint32_t i = n; i-- > 8 * n_eights;)
            states[i % LANES] = take(states[i % LANES], &codes->ac[end[i]], &words);
        if (n_eights > 0)
            words = kernels->take_eights(end, n_eights, codes->quick, states, words);
    }
    for (uint32_t i = unit->n_small; i-- > 0;) {
        uint32_t lane = small[i] >> PSTI_JE_LANE_SHIFT;
        states[lane] = take(states[lane], &codes->small[small[i] % PSTI_JE_N_SMALL], &words);
    }
    return words;
}

static uint8_t *put_number(uint8_t *out, uint32_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

/* Writes the high halves of the states: exponents to `exponents`, other bits to `mantissas`.
 * Returns the number of bytes in `mantissas`. */
static size_t put_states(const uint32_t *states, uint8_t *exponents, uint8_t *mantissas)
{
    struct psti_je_bits bits = {.at = mantissas};
    memset(exponents, 0, PSTI_JE_EXPONENT_NBYTES);
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t high = states[l] >> 16, e = 31u - (uint32_t)__builtin_clz(high);
        exponents[l >> 1] |= (uint8_t)(e << (4 * (l & 1)));
        psti_pli_jpeg_encode_put(&bits, high & ((1u << e) - 1), e);
    }
    return (size_t)(bits.at - mantissas) + (bits.n_waiting > 0);
}

size_t psti_pli_jpeg_encode_write(const struct psti_je_unit *unit, const uint8_t *ac,
                                  const uint16_t *small, const uint8_t *raw,
                                  const struct psti_je_codes *codes,
                                  const struct psti_je_kernels *kernels,
                                  const struct psti_je_work *work, uint8_t *out, size_t capacity)
{
    uint32_t states[LANES];
    uint8_t payload[PSTI_JE_PAYLOAD_NBYTES] = {0}, exponents[PSTI_JE_EXPONENT_NBYTES];
    uint8_t mantissas[MANTISSA_MAX_NBYTES + 8];
    size_t kept =
        unit->raw_nbytes > PSTI_JE_PAYLOAD_NBYTES ? unit->raw_nbytes - PSTI_JE_PAYLOAD_NBYTES : 0;
    kept = kept > unit->ends_nbytes ? kept : unit->ends_nbytes;
    memcpy(payload, raw + kept, unit->raw_nbytes - kept);
    for (uint32_t l = 0; l < LANES; l++)
        states[l] = 1u << 16 | psti_load_u16(payload + 2 * (size_t)l);
    uint16_t *end = work->words_end,
             *words = take_all(unit, ac, small, codes, kernels, states, end);
    size_t words_nbytes = (size_t)(end - words) * sizeof *words;
    size_t mantissas_nbytes = put_states(states, exponents, mantissas);
    uint8_t head[1 + NUMBER_MAX_NBYTES] = {PSTI_PLI_COEFS};
    size_t head_nbytes = (size_t)(put_number(head + 1, (uint32_t)(mantissas_nbytes + kept)) - head);
    if (capacity < head_nbytes + PSTI_JE_EXPONENT_NBYTES + PSTI_JE_PAYLOAD_NBYTES +
                       mantissas_nbytes + kept + words_nbytes)
        return 0;
    uint8_t *at = out;
    memcpy(at, head, head_nbytes);
    at += head_nbytes;
    memcpy(at, exponents, sizeof exponents);
    at += sizeof exponents;
    for (uint32_t l = 0; l < LANES; l++, at += 2)
        psti_store_u16(at, (uint16_t)states[l]);
    memcpy(at, mantissas, mantissas_nbytes);
    memcpy(at + mantissas_nbytes, raw, kept);
    memcpy(at + mantissas_nbytes + kept, words, words_nbytes);
    return (size_t)(at - out) + mantissas_nbytes + kept + words_nbytes;
}
