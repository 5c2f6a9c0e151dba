/* pli_jpeg_encode_model.c - tables of a JPEG kept as PLI, from its counts of tokens
 * (docs/format-pli.md, 8.6).
 *
 * A context gets its own table if that saves more bits than the table takes. Costs are in 1/4096
 * bit. They are computed in integers, because files must not depend on the machine. */
#include "pli/encode/coefs/pli_jpeg_encode_int.h"

#include "pli/format/pli_wave_format.h"

#include <string.h>

enum {
    COST_SHIFT = 12,
    N_BITS = 6, /* number of bits for the number of entries, and for each entry */
    Q_MAX = 63,
    N_WIDTHS = 16, /* distance between the codes of two tables of ends or DC; codes of AC tables are
                    * 8 apart */
    BLOCK_BITS = 8 * PSTI_PLI_BLOCK_HEADER_NBYTES + PSTI_JPEG_N_TABLES
};

/* Returns the cost of the tokens with these frequencies, in 1/4096 bit. The logarithms, 4096 *
 * log2(freq) rounded down, are computed one bit at a time for all tokens together, because each bit
 * waits for a product. */
static uint64_t cost(const uint32_t *counts, const uint16_t *freqs, uint32_t n_tokens)
{
    uint64_t x[N_WIDTHS], sum = 0; /* fixed point: 1 bit before and 31 bits after the point */
    uint32_t some[N_WIDTHS], logs[N_WIDTHS], n = 0;
    for (uint32_t i = 0; i < n_tokens; i++)
        if (counts[i] > 0) {
            logs[n] = 31u - (uint32_t)__builtin_clz(freqs[i]);
            x[n] = (uint64_t)freqs[i] << (31 - logs[n]);
            some[n++] = counts[i];
        }
    for (uint32_t bit = 0; bit < COST_SHIFT; bit++)
        for (uint32_t i = 0; i < n; i++) {
            uint64_t square = (x[i] * x[i]) >> 31;
            uint32_t one = (uint32_t)(square >> 32);
            logs[i] = logs[i] << 1 | one;
            x[i] = square >> one;
        }
    for (uint32_t i = 0; i < n; i++)
        sum += some[i] * (uint64_t)((PSTI_JPEG_PROB_BITS << COST_SHIFT) - logs[i]);
    return sum;
}

/* Returns the code whose weight is nearest to PSTI_JPEG_PROB_SUM * count / total. It is the largest
 * code whose geometric mean with the code below is not above that value. The geometric mean is
 * about 1.072 times the weight of the code below. If no code fits, the result is 1. */
static uint8_t find_q(uint32_t count, uint64_t total)
{
    uint64_t wanted = (uint64_t)count * PSTI_JPEG_PROB_SUM;
    uint32_t q = 1;
    for (uint32_t step = (Q_MAX + 1) / 2; step > 0; step /= 2) {
        bool above = psti_pli_wave_weights[q + step - 1] * total * 1097 / 1024 > wanted;
        q += above ? 0 : step;
    }
    return (uint8_t)q;
}

static struct psti_jpeg_own find_own(const uint32_t *counts, uint32_t n_tokens)
{
    struct psti_jpeg_own own = {0};
    uint64_t total = 0;
    for (uint32_t i = 0; i < n_tokens; i++) {
        total += counts[i];
        own.n = counts[i] > 0 ? (uint8_t)(i + 1) : own.n;
    }
    for (uint32_t i = 0; i < own.n; i++)
        own.q[i] = counts[i] > 0 ? find_q(counts[i], total) : 0;
    return own;
}

static void find_codes(const uint16_t *freqs, uint32_t n_tokens, struct psti_je_code *codes)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < n_tokens; i++) {
        uint64_t f = freqs[i];
        codes[i] = (struct psti_je_code){
            .reciprocal = f > 0 ? ((1ull << PSTI_JE_RECIPROCAL_SHIFT) + f - 1) / f : 0,
            .last = (uint32_t)((f << (32 - PSTI_JPEG_PROB_BITS)) - 1),
            .rest = (uint16_t)(PSTI_JPEG_PROB_SUM - f),
            .first = (uint16_t)first};
        first += freqs[i];
    }
}

static void find_quick_codes(struct psti_je_codes *codes)
{
    for (uint32_t i = 0; i < PSTI_JE_N_AC; i++) {
        uint32_t freq = PSTI_JPEG_PROB_SUM - codes->ac[i].rest;
        codes->quick[i] =
            freq > 0 ? psti_pli_rans_code(PSTI_JPEG_PROB_BITS, freq, codes->ac[i].first) : 0;
    }
}

/* One table, with the numbering of section 8.6. */
struct table {
    uint32_t n_tokens;
    const uint32_t *counts;
    const uint16_t *built_in;
    struct psti_je_code *codes;
};

static struct table find_table(const struct psti_je_counts *counts, struct psti_je_codes *codes,
                               uint32_t i)
{
    const struct psti_jpeg_tables *b = &psti_jpeg_builtin;
    uint32_t n_ac = PSTI_JPEG_N_AC_CONTEXTS, small = i - n_ac, context = i % PSTI_JPEG_N_ENDS;
    if (i < n_ac)
        return (struct table){PSTI_JPEG_N_AC_TOKENS, counts->ac + (size_t)i * PSTI_JPEG_N_AC_TOKENS,
                              b->ac[i], codes->ac + (size_t)i * PSTI_JPEG_N_AC_TOKENS};
    const uint16_t *built_in = small < PSTI_JE_DC_TABLES
                                   ? b->ends[small / PSTI_JPEG_N_ENDS][context]
                                   : b->dc[small / PSTI_JPEG_N_ENDS - 2][context];
    return (struct table){small < PSTI_JE_DC_TABLES ? PSTI_JPEG_N_ENDS : PSTI_JPEG_N_DC_TOKENS,
                          counts->small + (size_t)small * N_WIDTHS, built_in,
                          codes->small + (size_t)small * N_WIDTHS};
}

size_t psti_pli_jpeg_encode_model(const struct psti_je_counts *counts,
                                  uint8_t block[PSTI_JPEG_TABLES_MAX_NBYTES],
                                  struct psti_je_codes *codes)
{
    struct psti_jpeg_own own[PSTI_JPEG_N_TABLES];
    uint16_t freqs[PSTI_JPEG_N_TABLES][PSTI_JPEG_N_ENDS];
    uint64_t saved = 0;
    for (uint32_t i = 0; i < PSTI_JPEG_N_TABLES; i++) {
        struct table t = find_table(counts, codes, i);
        own[i] = find_own(t.counts, t.n_tokens);
        uint64_t side = (uint64_t)(N_BITS * (1 + own[i].n)) << COST_SHIFT;
        uint64_t built_in = cost(t.counts, t.built_in, t.n_tokens), mine = side;
        bool exists = psti_pli_jpeg_expand(&own[i], t.n_tokens, freqs[i]);
        if (exists)
            mine += cost(t.counts, freqs[i], t.n_tokens);
        if (exists && mine < built_in)
            saved += built_in - mine;
        else
            own[i].n = 0;
    }
    bool any = saved > (uint64_t)BLOCK_BITS << COST_SHIFT;
    for (uint32_t i = 0; i < PSTI_JPEG_N_TABLES; i++) {
        struct table t = find_table(counts, codes, i);
        find_codes(any && own[i].n > 0 ? freqs[i] : t.built_in, t.n_tokens, t.codes);
    }
    find_quick_codes(codes);
    return any ? psti_pli_jpeg_print_tables(own, block) : 0;
}
