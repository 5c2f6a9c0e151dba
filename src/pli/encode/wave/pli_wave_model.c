/* pli_wave_model.c - makes the tables of an image from its counts of tokens (docs/format-pli.md,
 * 5.8).
 *
 * A context gets the image's own table if that saves more bits than it takes. Costs are in 1/256
 * bit. They are computed in integers, because files must not depend on the machine. */
#include "pli/encode/wave/pli_wave_encode_int.h"

#include <string.h>

enum { OWN_HEAD_BITS = 7, ENTRY_BITS = 6, LARGEST_Q = 63 };

/* Returns the code whose weight is nearest to count / largest. The largest count has code
 * LARGEST_Q. */
static uint8_t find_q(uint32_t count, uint32_t largest)
{
    uint64_t wanted = (uint64_t)count * psti_pli_wave_weights[LARGEST_Q];
    uint8_t q = LARGEST_Q;
    /* Go down to the first code whose geometric mean with the code below is not above the wanted
     * weight. That mean is about 1.072 times the weight of the code below. */
    while (q > 1 && (uint64_t)psti_pli_wave_weights[q - 1] * largest * 1097 / 1024 > wanted)
        q--;
    return q;
}

static struct psti_pli_wave_own find_own(const uint32_t *counts, uint32_t n_tokens)
{
    struct psti_pli_wave_own own = {0};
    uint32_t largest = 0;
    for (uint32_t i = 0; i < n_tokens; i++) {
        largest = counts[i] > largest ? counts[i] : largest;
        own.n = counts[i] > 0 ? (uint8_t)(i + 1) : own.n;
    }
    for (uint32_t i = 0; i < own.n; i++)
        own.q[i] = counts[i] > 0 ? find_q(counts[i], largest) : 0;
    return own;
}

static uint64_t cost(const uint32_t *counts, uint32_t bits, const uint16_t *freqs)
{
    uint64_t sum = 0, of_1 = psti_pli_wave_prob_bits(bits) << PSTI_WAVE_LOG2_SHIFT;
    for (uint32_t i = 0; i < psti_pli_wave_n_tokens(bits); i++)
        if (counts[i] > 0)
            sum += counts[i] * (of_1 - psti_pli_wave_log2(freqs[i]));
    return sum;
}

static void find_codes(const uint16_t *freqs, uint32_t bits, struct psti_wave_code *codes)
{
    uint32_t first = 0, prob_bits = psti_pli_wave_prob_bits(bits);
    for (uint32_t i = 0; i < psti_pli_wave_n_tokens(bits); i++) {
        uint64_t f = freqs[i];
        codes[i] = (struct psti_wave_code){
            .reciprocal = f > 0 ? ((1ull << PSTI_WAVE_RECIPROCAL_SHIFT) + f - 1) / f : 0,
            .last = (uint32_t)((f << (2 * bits - prob_bits)) - 1),
            .rest = (uint16_t)((1u << prob_bits) - f),
            .first = (uint16_t)first};
        first += freqs[i];
    }
}

uint64_t psti_pli_wave_slot_code(uint32_t freq, uint32_t first)
{
    return freq == 0 ? 0 : psti_pli_rans_code(PSTI_PLI_PROB_BITS, freq, first);
}

/* Returns the code of a token for 16-bit arithmetic. It is exact for these reasons. Let c be log2
 * freq, rounded up: x < 256 freq <= 2^(8 + c). The reciprocal is 2^(15 + c) / freq, rounded to the
 * nearer side, and below 2^16. Its product with freq differs from 2^(15 + c) by some e, at most
 * freq / 2. e times x is below 2^(15 + c). So the quotient is exact if 1 is added to x where the
 * reciprocal was rounded down. x is multiplied by 2^(8 - c), so that the shift is 16 + 7 for all
 * tokens. */
uint64_t psti_pli_wave_slot_code_u8(uint32_t freq, uint32_t first)
{
    if (freq == 0)
        return 0;
    uint64_t c = freq < 2 ? 0 : 32 - (uint32_t)__builtin_clz(freq - 1);
    uint64_t wanted = 1ull << (15 + c), reciprocal = (wanted + freq - 1) / freq;
    uint64_t down = reciprocal * freq - wanted > freq / 2, scale = 1ull << (8 - c);
    return (reciprocal - down) | scale << 16 | down * scale << 32 |
           (uint64_t)(PSTI_PLI_PROB_SUM_8 - freq) << 48 | (uint64_t)first << 56;
}

/* Computes the codes of one context. */
static void find_slot_codes_u8(const uint16_t *freqs, uint64_t *codes)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS_8; i++) {
        codes[i] = psti_pli_wave_slot_code_u8(freqs[i], first);
        first += freqs[i];
    }
}
/* Computes the codes of one context. The code of NONE (no token) does not change a state. */
static void find_slot_codes_u16(const uint16_t *freqs, uint64_t *codes)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS; i++) {
        codes[i] = psti_pli_wave_slot_code(freqs[i], first);
        first += freqs[i];
    }
    codes[PSTI_WAVE_NONE_16] = psti_pli_wave_slot_code(PSTI_PLI_PROB_SUM, 0);
}

/* Computes the costs of tokens with their raw bits and sign. A token that the table lacks costs as
 * much as a rare token (8 bits: as much as the token that replaces it). */
static void find_costs(const uint16_t *freqs, uint32_t bits, uint32_t context, uint16_t *costs)
{
    for (uint32_t i = 0; i < psti_pli_wave_n_tokens(bits); i++) {
        uint32_t coded = bits == 8 && freqs[i] == 0 ? PSTI_PLI_WAVE_ANY_PAIR : i;
        uint32_t table = (psti_pli_wave_prob_bits(bits) << PSTI_WAVE_LOG2_SHIFT) -
                         psti_pli_wave_log2(freqs[coded] > 0 ? freqs[coded] : 1);
        uint32_t raw =
            bits == 8 ? (uint32_t)psti_pli_wave_first_bits[coded] + psti_pli_wave_second_bits[coded]
                      : psti_pli_wave_raw_bits(coded) + (i > 0);
        uint32_t g = bits == 8 ? psti_pli_wave_activities[i] : i;
        costs[psti_pli_wave_cost_index(bits, context, g)] =
            (uint16_t)(((table * PSTI_WAVE_PRICE_UNIT) >> PSTI_WAVE_LOG2_SHIFT) +
                       raw * PSTI_WAVE_PRICE_UNIT);
    }
}

size_t psti_pli_wave_codes_nbytes(void) { return sizeof(struct psti_pli_wave_codes); }

size_t psti_pli_wave_model(const struct psti_pli_wave_counts *counts, uint32_t bits, uint8_t *block,
                           size_t capacity, struct psti_pli_wave_codes *codes)
{
    struct psti_pli_wave_own own[PSTI_PLI_N_CONTEXTS];
    uint8_t printed[PSTI_PLI_WAVE_MODEL_MAX_NBYTES];
    struct psti_pli_wave_freqs freqs;
    bool any = false;
    memcpy(freqs.f, psti_pli_wave_freqs[bits == 16], sizeof freqs.f);
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
        uint16_t f[PSTI_PLI_N_TOKENS];
        uint64_t side;
        own[c] = find_own(counts->n[c], psti_pli_wave_n_tokens(bits));
        side = (uint64_t)(OWN_HEAD_BITS - 1 + ENTRY_BITS * own[c].n) << PSTI_WAVE_LOG2_SHIFT;
        if (psti_pli_wave_expand(&own[c], bits, f) &&
            cost(counts->n[c], bits, f) + side < cost(counts->n[c], bits, freqs.f[c])) {
            memcpy(freqs.f[c], f, sizeof f);
            any = true;
        } else {
            own[c].n = 0;
        }
    }
    size_t nbytes = any ? psti_pli_wave_print_model(own, printed) : 0;
    if (nbytes > capacity) {
        memcpy(freqs.f, psti_pli_wave_freqs[bits == 16], sizeof freqs.f);
        nbytes = 0;
    }
    memcpy(block, printed, nbytes);
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
        size_t first = (size_t)c << psti_pli_wave_token_bits(bits);
        find_codes(freqs.f[c], bits, codes->of + first);
        find_costs(freqs.f[c], bits, c, codes->costs);
        if (bits == 8)
            find_slot_codes_u8(freqs.f[c], codes->of_slots + first);
        else
            find_slot_codes_u16(freqs.f[c], codes->of_slots + first);
    }
    if (bits == 8)
        codes->of_slots[PSTI_WAVE_NONE_8] = psti_pli_wave_slot_code_u8(PSTI_PLI_PROB_SUM_8, 0);
    return nbytes;
}
