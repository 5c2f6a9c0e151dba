/* format_pli_wave.c - the model block of PLI's wave mode <-> frequencies (docs/format-pli.md,
 * section 5.8).
 *
 * A block holds, for each of the 16 contexts, a bit; if that is set, a number of entries and that
 * many exponents of 2^(1/5), from which frequencies of sum 1024 follow in integers only, so that
 * every decoder finds the same. Pure functions; parsing trusts nothing. */
#include "format/format_pli_wave.h"

#include "base/fail.h"

#include <string.h>

#define ROOM "format"

const uint16_t psti_pli_wave_weights[64] = {
    0,   1,   1,   1,    2,    2,    2,    2,    3,    3,    3,    4,    5,    5,    6,    7,
    8,   9,   11,  12,   14,   16,   18,   21,   24,   28,   32,   37,   42,   49,   56,   64,
    74,  84,  97,  111,  128,  147,  169,  194,  223,  256,  294,  338,  388,  446,  512,  588,
    676, 776, 891, 1024, 1176, 1351, 1552, 1783, 2048, 2353, 2702, 3104, 3566, 4096, 4705, 5405};

const uint8_t psti_pli_wave_bases_8[PSTI_PLI_N_TOKENS_8] = {0, 1, 2, 3, 5, 9, 17, 1};
const uint8_t psti_pli_wave_raw_bits_8[PSTI_PLI_N_TOKENS_8] = {0, 0, 0, 1, 2, 3, 4, 7};
const uint8_t psti_pli_wave_activities[PSTI_PLI_N_TOKENS_8] = {0, 1, 2, 3, 6, 12, 24, 29};
const uint8_t psti_pli_wave_tokens_of[16] = {0, 1, 2, 3, 0, 0, 4, 0, 6, 0, 0, 0, 5, 7, 0, 0};
const uint8_t psti_pli_wave_bases_of[16] = {0, 1, 2, 3, 0, 0, 5, 0, 17, 0, 0, 0, 9, 1, 0, 0};
const uint8_t psti_pli_wave_all_bits_of[16] = {0, 1, 1, 2, 0, 0, 3, 0, 5, 0, 0, 0, 4, 8, 0, 0};

bool psti_pli_expand_table(const uint8_t *q, uint32_t n, uint32_t n_tokens, uint32_t prob_bits,
                           uint16_t *freqs)
{
    uint32_t sum = 0, given = 0, largest = 0;
    memset(freqs, 0, n_tokens * sizeof *freqs);
    for (uint32_t i = 0; i < n; i++)
        sum += psti_pli_wave_weights[q[i]];
    if (sum == 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t weight = psti_pli_wave_weights[q[i]];
        uint32_t f = (weight << prob_bits) / sum;
        f = weight > 0 && f == 0 ? 1 : f;
        freqs[i] = (uint16_t)f;
        given += f;
        largest = f > freqs[largest] ? i : largest;
    }
    /* Rounding up to 1 may have given away more than there is; the largest pays. */
    int32_t rest = (int32_t)freqs[largest] + (1 << prob_bits) - (int32_t)given;
    freqs[largest] = (uint16_t)rest;
    return rest >= 1;
}

/* Token 0 can always be and none is alone, so that frequencies less 1 are bytes. Returns how many
 * entries there are then. */
static uint32_t complete_own_8(const struct psti_pli_wave_own *own, uint8_t *q)
{
    uint32_t n = own->n;
    bool alone = true;
    memcpy(q, own->q, n);
    q[0] = q[0] > 0 ? q[0] : 1;
    for (uint32_t i = 1; i < n; i++)
        alone = alone && q[i] == 0;
    if (alone) {
        q[1] = 1;
        n = n > 2 ? n : 2;
    }
    return n;
}

bool psti_pli_wave_expand(const struct psti_pli_wave_own *own, uint32_t bits, uint16_t *freqs)
{
    uint8_t q[PSTI_PLI_N_TOKENS];
    memset(freqs, 0, PSTI_PLI_N_TOKENS * sizeof *freqs);
    if (own->n == 0)
        return false;
    if (bits == 16)
        return psti_pli_expand_table(own->q, own->n, PSTI_PLI_N_TOKENS, PSTI_PLI_PROB_BITS, freqs);
    return psti_pli_expand_table(q, complete_own_8(own, q), PSTI_PLI_N_TOKENS_8,
                                 PSTI_PLI_PROB_BITS_8, freqs);
}

uint32_t psti_pli_take_bits(struct psti_pli_bits *b, uint32_t n)
{
    const size_t first = b->at >> 3, left = first < b->nbytes ? b->nbytes - first : 0;
    uint32_t v = 0;
    for (uint32_t i = 0; i < 3 && i < left; i++)
        v |= (uint32_t)b->bytes[first + i] << (8 * i);
    v = v >> (b->at & 7) & ((1u << n) - 1);
    b->at += n;
    return v;
}

enum pst_status psti_pli_wave_parse_model(const uint8_t *block, size_t nbytes, uint32_t bits,
                                          struct psti_pli_wave_freqs *out, struct pst_error *err)
{
    memcpy(out->f, psti_pli_wave_freqs[bits == 16], sizeof out->f);
    if (!block)
        return PST_OK;
    struct psti_pli_bits b = {block, nbytes, 0};
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
        struct psti_pli_wave_own own;
        if (!psti_pli_take_bits(&b, 1))
            continue;
        own.n = (uint8_t)psti_pli_take_bits(&b, PSTI_PLI_TABLE_ENTRY_BITS);
        if (own.n < 1 || own.n > psti_pli_wave_n_tokens(bits))
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave table %u has %u entries", c,
                             own.n);
        for (uint32_t i = 0; i < own.n; i++)
            own.q[i] = (uint8_t)psti_pli_take_bits(&b, PSTI_PLI_TABLE_ENTRY_BITS);
        if (!psti_pli_wave_expand(&own, bits, out->f[c]))
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave table %u is not a distribution",
                             c);
    }
    if ((b.at + 7) / 8 != nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave tables take %zu bytes instead of %zu",
                         (b.at + 7) / 8, nbytes);
    return PST_OK;
}

static size_t put(uint8_t *block, size_t at, uint32_t v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, at++)
        if ((v >> i) & 1)
            block[at >> 3] |= (uint8_t)(1u << (at & 7));
    return at;
}

size_t psti_pli_put_table(uint8_t *block, size_t at, const uint8_t *q, uint32_t n)
{
    at = put(block, at, n > 0, 1);
    if (n == 0)
        return at;
    at = put(block, at, n, PSTI_PLI_TABLE_ENTRY_BITS);
    for (uint32_t i = 0; i < n; i++)
        at = put(block, at, q[i], PSTI_PLI_TABLE_ENTRY_BITS);
    return at;
}

size_t psti_pli_wave_print_model(const struct psti_pli_wave_own *own, uint8_t *block)
{
    size_t at = 0;
    memset(block, 0, PSTI_PLI_WAVE_MODEL_MAX_NBYTES);
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++)
        at = psti_pli_put_table(block, at, own[c].q, own[c].n);
    return (at + 7) / 8;
}
