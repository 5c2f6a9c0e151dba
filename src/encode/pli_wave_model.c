/* pli_wave_model.c - tables of an image from its counts of tokens (docs/format-pli.md, 5.8).
 *
 * For each context the image's own table is taken if it saves more bits than it takes. Costs are
 * in 1/256 bit, computed in integers, so that files do not depend on the machine. */
#include "encode/pli_wave_encode_int.h"

#include <string.h>

enum { OWN_HEAD_BITS = 7, ENTRY_BITS = 6, LARGEST_Q = 63 };

/* The exponent whose weight comes nearest to count / largest, with the largest at LARGEST_Q. */
static uint8_t find_q(uint32_t count, uint32_t largest)
{
    uint64_t wanted = (uint64_t)count * psti_pli_wave_weights[LARGEST_Q];
    uint8_t q = LARGEST_Q;
    /* Down to where the geometric mean of two neighbours, about 1.072 of the lower, is below. */
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

static uint64_t cost(const uint32_t *counts, const uint16_t *freqs)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS; i++)
        if (counts[i] > 0)
            sum += counts[i] * (uint64_t)((PSTI_PLI_PROB_BITS << PSTI_WAVE_LOG2_SHIFT) -
                                          psti_wave_log2(freqs[i]));
    return sum;
}

static void find_codes(const uint16_t *freqs, struct psti_wave_code *codes)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS; i++) {
        uint64_t f = freqs[i];
        codes[i] = (struct psti_wave_code){
            .reciprocal = f > 0 ? ((1ull << PSTI_WAVE_RECIPROCAL_SHIFT) + f - 1) / f : 0,
            .last = (uint32_t)((f << (32 - PSTI_PLI_PROB_BITS)) - 1),
            .rest = (uint16_t)(PSTI_PLI_PROB_SUM - f),
            .first = (uint16_t)first};
        first += freqs[i];
    }
}

uint64_t psti_wave_slot_code(uint32_t freq, uint32_t first)
{
    return freq == 0 ? 0 : psti_rans_code(PSTI_PLI_PROB_BITS, freq, first);
}

/* Of one context; `none`, the token of no sample, leaves a state as it is. */
static void find_slot_codes(const uint16_t *freqs, uint32_t bits, uint32_t none, uint64_t *codes)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < psti_pli_wave_n_tokens(bits); i++) {
        codes[i] = psti_wave_slot_code(freqs[i], first);
        first += freqs[i];
    }
    codes[none] = psti_wave_slot_code(PSTI_PLI_PROB_SUM, 0);
}

/* What tokens cost, with raw bits and sign; one that the table does not have as much as a rare one.
 */
static void find_costs(const uint16_t *freqs, uint32_t bits, uint16_t *costs)
{
    for (uint32_t i = 0; i < psti_pli_wave_n_tokens(bits); i++) {
        uint32_t table = (PSTI_PLI_PROB_BITS << PSTI_WAVE_LOG2_SHIFT) -
                         psti_wave_log2(freqs[i] > 0 ? freqs[i] : 1);
        uint32_t raw = psti_pli_wave_raw_bits(i) + (i > 0);
        costs[i] = (uint16_t)(((table * PSTI_WAVE_PRICE_UNIT) >> PSTI_WAVE_LOG2_SHIFT) +
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
        if (psti_pli_wave_expand(&own[c], f) &&
            cost(counts->n[c], f) + side < cost(counts->n[c], freqs.f[c])) {
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
        find_codes(freqs.f[c], codes->of + (size_t)c * PSTI_WAVE_TOKEN_MAX);
        find_costs(freqs.f[c], bits, codes->costs[c]);
        if (bits == 8)
            find_slot_codes(freqs.f[c], 8, PSTI_WAVE_NONE_8,
                            codes->of_slots + ((size_t)c << PSTI_WAVE_TOKEN_BITS_8));
        else
            find_slot_codes(freqs.f[c], 16, PSTI_WAVE_NONE_16,
                            codes->of_slots + ((size_t)c << PSTI_WAVE_TOKEN_BITS));
    }
    return nbytes;
}
