/* pli_lz_entropy.c - tables and states of lz units: turns counts into frequencies and bytes.
 *
 * Contexts are grouped to minimise the bits of the tables' descriptions plus those of the coded
 * tokens. The symbols are then coded into the states from last to first, because the decoder finds
 * them in reverse order. Only integers are used. */
#include "pli/encode/lz/pli_lz_int.h"

#include "base/bits.h"

#include <string.h>

enum { CONTEXTS_MAX = 8, SYMBOLS_MAX = 256, STATE_LOW = 1 << 16 };

/* Returns log2(v) in units of 1/64, for v >= 1. */
static uint32_t log2_64(uint32_t v)
{
    uint32_t whole = 31 - (uint32_t)__builtin_clz(v), fraction = 0;
    uint64_t mantissa = (uint64_t)v << (31 - whole); /* in [2^31, 2^32) */
    for (int i = 0; i < 6; i++) {
        mantissa = mantissa * mantissa >> 31;
        fraction <<= 1;
        if (mantissa >> 32) {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    return whole * PSTI_LZ_BIT + fraction;
}

uint64_t psti_pli_lz_information(uint32_t count)
{
    return count > 0 ? (uint64_t)count * log2_64(count) : 0;
}

static void prices_of(const uint16_t *freqs, uint32_t n, uint16_t *prices)
{
    for (uint32_t i = 0; i < n; i++)
        prices[i] =
            (uint16_t)(freqs[i] == 0 ? PSTI_LZ_NEVER / 2
                                     : PSTI_PLI_LZ_SEQUENCE_BITS * PSTI_LZ_BIT - log2_64(freqs[i]));
}

void psti_pli_lz_price_built_in(const struct psti_pli_lz_built_in *built_in,
                                struct psti_lz_prices *prices)
{
    prices_of(built_in->run[0], PSTI_PLI_LZ_N_RUNS, prices->run);
    for (uint32_t c = 0; c < PSTI_PLI_LZ_OFFSET_CONTEXTS; c++)
        prices_of(built_in->offset[c], PSTI_PLI_LZ_N_OFFSETS, prices->offset[c]);
    for (uint32_t c = 0; c < PSTI_PLI_LZ_LENGTH_CONTEXTS; c++)
        prices_of(built_in->length[c], PSTI_PLI_LZ_N_LENGTHS, prices->length[c]);
}

/* Computes costs from counts. A quarter is added to each count, because tokens that did not occur
 * must stay possible. */
static void prices_of_counts(const uint32_t *counts, uint32_t n, uint16_t *prices)
{
    uint32_t sum = n;
    for (uint32_t i = 0; i < n; i++)
        sum += 4 * counts[i];
    for (uint32_t i = 0; i < n; i++)
        prices[i] = (uint16_t)(log2_64(sum) - log2_64(4 * counts[i] + 1));
}

void psti_pli_lz_price_counts(const struct psti_lz_counts *counts, struct psti_lz_prices *prices)
{
    uint32_t runs[PSTI_PLI_LZ_N_RUNS] = {0};
    for (uint32_t c = 0; c < PSTI_PLI_LZ_RUN_CONTEXTS; c++)
        for (uint32_t i = 0; i < PSTI_PLI_LZ_N_RUNS; i++)
            runs[i] += counts->run[c][i];
    prices_of_counts(runs, PSTI_PLI_LZ_N_RUNS, prices->run);
    for (uint32_t c = 0; c < PSTI_PLI_LZ_OFFSET_CONTEXTS; c++)
        prices_of_counts(counts->offset[c], PSTI_PLI_LZ_N_OFFSETS, prices->offset[c]);
    for (uint32_t c = 0; c < PSTI_PLI_LZ_LENGTH_CONTEXTS; c++)
        prices_of_counts(counts->length[c], PSTI_PLI_LZ_N_LENGTHS, prices->length[c]);
}

void psti_pli_lz_put_bits(struct psti_lz_writer *w, uint32_t value, uint32_t count)
{
    w->ahead |= (uint64_t)value << w->n;
    for (w->n += count; w->n >= 8; w->n -= 8) {
        if (w->nbytes < w->capacity)
            w->out[w->nbytes] = (uint8_t)w->ahead;
        w->nbytes++;
        w->ahead >>= 8;
    }
}

void psti_pli_lz_flush_bits(struct psti_lz_writer *w)
{
    if (w->n > 0)
        psti_pli_lz_put_bits(w, 0, 8 - w->n);
}

/* Computes frequencies that sum to 1 << log2. A frequency is at least 1 if its count is not 0. At
 * least one count must not be 0. */
static void normalise(const uint32_t *counts, uint32_t n, uint32_t log2, uint16_t *freqs)
{
    uint64_t total = 0;
    int32_t left = 1 << log2;
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        total += counts[i];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t scaled = (((uint64_t)counts[i] << log2) + total / 2) / total;
        freqs[i] = (uint16_t)(counts[i] > 0 && scaled == 0 ? 1 : scaled);
        left -= freqs[i];
        most = counts[i] > counts[most] ? i : most;
    }
    if (left >= 0 || freqs[most] > -4 * left) {
        freqs[most] = (uint16_t)(freqs[most] + left);
        return;
    }
    /* If many symbols of frequency 1 need more than the most frequent symbol can give, all symbols
     * give. */
    while (left < 0)
        for (uint32_t i = 0; i < n && left < 0; i++)
            if (freqs[i] > 1) {
                freqs[i]--;
                left++;
            }
}

/* Returns how many bits describe the frequencies (section 6.3). Writes these bits if `w` is
 * given. */
static uint32_t describe(const uint16_t *freqs, uint32_t n, uint32_t log2, struct psti_lz_writer *w)
{
    uint32_t left = 1u << log2, bits = 0;
    for (uint32_t i = 0; i < n && left > 0;) {
        if (freqs[i] == 0) {
            uint32_t zeros = 1;
            while (zeros < 8 && freqs[i + zeros] == 0)
                zeros++;
            bits += 7;
            if (w)
                psti_pli_lz_put_bits(w, (zeros - 1) << 4, 7);
            i += zeros;
            continue;
        }
        uint32_t width = 32 - (uint32_t)__builtin_clz(freqs[i]);
        bits += 3 + width;
        if (w)
            psti_pli_lz_put_bits(w, width | (freqs[i] ^ 1u << (width - 1)) << 4, 3 + width);
        left -= freqs[i++];
    }
    return bits;
}

/* Returns the cost, in 1/64 bit, of the counted symbols with these frequencies. If a symbol that
 * occurs has frequency 0, the result is larger than any real cost. */
static uint64_t coded(const uint32_t *counts, const uint16_t *freqs, uint32_t n, uint32_t log2)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (counts[i] == 0)
            continue;
        if (freqs[i] == 0)
            return UINT64_MAX / 4;
        sum += (uint64_t)counts[i] * (log2 * PSTI_LZ_BIT - log2_64(freqs[i]));
    }
    return sum;
}

static void add_counts(uint32_t *sum, const uint32_t *counts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sum[i] += counts[i];
}

static bool any(const uint32_t *counts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (counts[i] > 0)
            return true;
    return false;
}

/* Computes the sum of the contexts first..last. */
static void group_counts(const uint32_t *counts, uint32_t n, uint32_t first, uint32_t last,
                         uint32_t *sum)
{
    memset(sum, 0, n * sizeof *sum);
    for (uint32_t c = first; c <= last; c++)
        add_counts(sum, counts + (size_t)c * n, n);
}

/* The grouping of contexts with the lowest cost; each group has one table. best[i] is the cost of
 * the first i contexts. begins[i] is where the group that ends with context i - 1 begins. own[i]
 * says that this group has a table of its own. */
struct grouping {
    uint64_t best[CONTEXTS_MAX + 1];
    uint8_t begins[CONTEXTS_MAX + 1];
    bool own[CONTEXTS_MAX + 1];
};

static void group(const uint32_t *counts, uint32_t n_contexts, uint32_t n, uint32_t log2,
                  const uint16_t *built_in, uint32_t built_in_step, struct grouping *g)
{
    uint32_t sum[SYMBOLS_MAX];
    uint16_t freqs[SYMBOLS_MAX];
    g->best[0] = 0;
    for (uint32_t i = 1; i <= n_contexts; i++) {
        g->best[i] = UINT64_MAX;
        for (uint32_t j = 0; j < i; j++) {
            group_counts(counts, n, j, i - 1, sum);
            const uint16_t *shared = built_in + (size_t)j * built_in_step;
            uint64_t price = g->best[j] + 2ull * (i - j) * PSTI_LZ_BIT;
            uint64_t built = price + coded(sum, shared, n, log2);
            uint64_t own = UINT64_MAX;
            if (any(sum, n)) {
                normalise(sum, n, log2, freqs);
                own = price + coded(sum, freqs, n, log2) +
                      (uint64_t)describe(freqs, n, log2, NULL) * PSTI_LZ_BIT;
            }
            uint64_t least = own < built ? own : built;
            if (least < g->best[i]) {
                g->best[i] = least;
                g->begins[i] = (uint8_t)j;
                g->own[i] = own < built;
            }
        }
    }
}

static void fill_table(const uint16_t *freqs, uint32_t n, struct psti_lz_table *table)
{
    uint32_t start = 0;
    for (uint32_t i = 0; i < n; i++) {
        table->freq[i] = freqs[i];
        table->start[i] = (uint16_t)start;
        start += freqs[i];
    }
}

void psti_pli_lz_choose_tables(const uint32_t *counts, uint32_t n_contexts, uint32_t n_symbols,
                               uint32_t log2, const uint16_t *built_in, uint32_t built_in_step,
                               struct psti_lz_writer *w, struct psti_lz_table *tables)
{
    struct grouping g;
    uint8_t ends[CONTEXTS_MAX]; /* ends[i] is the end of the group that begins with context i */
    bool own[CONTEXTS_MAX];
    group(counts, n_contexts, n_symbols, log2, built_in, built_in_step, &g);
    for (uint32_t i = n_contexts; i > 0; i = g.begins[i]) {
        ends[g.begins[i]] = (uint8_t)i;
        own[g.begins[i]] = g.own[i];
    }
    for (uint32_t first = 0; first < n_contexts; first = ends[first]) {
        uint16_t freqs[SYMBOLS_MAX];
        uint32_t sum[SYMBOLS_MAX];
        psti_pli_lz_put_bits(w, own[first] ? PSTI_PLI_LZ_TABLE_OWN : PSTI_PLI_LZ_TABLE_BUILT_IN, 2);
        if (own[first]) {
            group_counts(counts, n_symbols, first, ends[first] - 1u, sum);
            normalise(sum, n_symbols, log2, freqs);
            describe(freqs, n_symbols, log2, w);
        } else {
            memcpy(freqs, built_in + (size_t)first * built_in_step, n_symbols * sizeof *freqs);
        }
        for (uint32_t c = first; c < ends[first]; c++) {
            fill_table(freqs, n_symbols, tables + c);
            if (c > first)
                psti_pli_lz_put_bits(w, PSTI_PLI_LZ_TABLE_SAME, 2);
        }
    }
}

size_t psti_pli_lz_put_states(const struct psti_lz_symbol *symbols, size_t n, uint32_t n_lanes,
                              uint8_t *states, uint8_t *words, size_t capacity)
{
    uint32_t x[1 << PSTI_PLI_LZ_LANES_LOG2_MAX];
    uint8_t *out = words + capacity / 2 * 2;
    for (uint32_t l = 0; l < n_lanes; l++)
        x[l] = STATE_LOW;
    for (size_t i = n; i-- > 0;) {
        const struct psti_lz_symbol *s = symbols + i;
        uint32_t state = x[s->lane];
        if (state >= (uint64_t)s->freq << (32 - s->log2)) {
            if (out == words)
                return SIZE_MAX;
            out -= 2;
            psti_store_u16(out, (uint16_t)state);
            state >>= 16;
        }
        x[s->lane] = (state / s->freq << s->log2) + s->start + state % s->freq;
    }
    for (uint32_t l = 0; l < n_lanes; l++)
        psti_store_u32(states + 4 * l, x[l]);
    size_t nbytes = (size_t)(words + capacity / 2 * 2 - out);
    memmove(words, out, nbytes);
    return nbytes;
}
