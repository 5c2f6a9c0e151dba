/* pli_coefs_c.c - the tokens of a unit of coefficients in plain C, the judge of every other level
 * (docs/format-pli.md, 8.2 to 8.4).
 *
 * What bounds it is the number of instructions for a token of AC. So contexts are found for many
 * blocks at once, from the g of earlier planes; a token is looked up in 512 bins of its table,
 * which stays in the first cache, and counted on where a token begins within the bin; whether a
 * state takes a word, as good as random, is no branch. Blocks in the order of the list make planes
 * dense: D is a question of where in the plane a block stands. */
#include "pli/decode/coefs/pli_coefs_int.h"

#include <string.h>

enum {
    LANES = PSTI_COEFS_LANES,
    CHUNK = 8 * LANES, /* list positions whose contexts are found at once */
    SQUARE = PSTI_COEFS_SQUARE,
    SLOTS = PSTI_JPEG_PROB_SUM,
    SLOT_BITS = PSTI_JPEG_PROB_BITS,
    FREQ_SHIFT = 16,
    BEGIN_MASK = 0xffff
};

/* -- Tables -- */

/* `first`: of the bins' first slots, `base` added. */
static void fill_table(const uint16_t *freqs, uint32_t n_tokens, uint32_t bin_log2, uint32_t base,
                       uint8_t *first, uint32_t *entries)
{
    uint32_t begin = 0, bin = 0, bin_slots = 1u << bin_log2;
    for (uint32_t token = 0; token < n_tokens; token++) {
        uint32_t end = begin + freqs[token], end_bin = (end + bin_slots - 1) >> bin_log2;
        entries[token] = begin | (uint32_t)freqs[token] << FREQ_SHIFT;
        memset(first + bin, (int)(base + token), end_bin - bin);
        bin = end_bin;
        begin = end;
    }
}

static void fill_spread(struct psti_coefs_tables_c *t)
{
    for (uint32_t mask = 0; mask < 16; mask++) {
        t->n_ones[mask] = (uint8_t)((mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3));
        for (uint32_t bits = 0; bits < 16; bits++) {
            uint32_t out = 0, left = bits;
            for (uint32_t i = 0; i < 4; i++) {
                out |= (left & (mask >> i) & 1) << (8 * i);
                left >>= (mask >> i) & 1;
            }
            t->spread[mask][bits] = out;
        }
    }
}

void psti_pli_coefs_prepare_c(struct psti_pli_coefs_tables *tables)
{
    struct psti_coefs_tables_c *t = &tables->plain;
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++)
        fill_table(tables->freqs.ac[c], PSTI_JPEG_N_AC_TOKENS, PSTI_COEFS_AC_BIN_LOG2,
                   c * PSTI_JPEG_N_AC_TOKENS, t->ac_first + (size_t)c * PSTI_COEFS_AC_N_BINS,
                   t->ac_entries + (size_t)c * PSTI_JPEG_N_AC_TOKENS);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t c = 0; c < PSTI_JPEG_N_ENDS; c++) {
            struct psti_coefs_table *ends = &t->ends[side][c], *dc = &t->dc[side][c];
            fill_table(tables->freqs.ends[side][c], PSTI_JPEG_N_ENDS, PSTI_COEFS_BIN_LOG2, 0,
                       ends->first, ends->entries);
            fill_table(tables->freqs.dc[side][c], PSTI_JPEG_N_DC_TOKENS, PSTI_COEFS_BIN_LOG2, 0,
                       dc->first, dc->entries);
        }
    uint8_t contexts[PSTI_JPEG_N_INDICES];
    fill_spread(t);
    psti_pli_jpeg_fill_contexts(contexts);
    for (uint32_t i = 0; i < PSTI_JPEG_N_INDICES; i++)
        t->ac_row[i] = contexts[i] * (uint32_t)PSTI_COEFS_AC_N_BINS;
}

/* Slots of the state's from where the token with that entry begins, which is at or before it. */
static inline uint32_t bias_of(uint32_t x, uint32_t entry)
{
    return (x & (SLOTS - 1)) - (entry & BEGIN_MASK);
}

static inline uint8_t read_token(const struct psti_coefs_table *table, uint32_t *state,
                                 const uint8_t **words)
{
    uint32_t x = *state, token = table->first[(x & (SLOTS - 1)) >> PSTI_COEFS_BIN_LOG2];
    while (bias_of(x, table->entries[token]) >= table->entries[token] >> FREQ_SHIFT)
        token++;
    uint32_t entry = table->entries[token];
    x = (entry >> FREQ_SHIFT) * (x >> SLOT_BITS) + bias_of(x, entry);
    uint32_t full = x << 16 | psti_load_u16(*words), low = x < 65536;
    *words += 2 * low;
    *state = x ^ ((0u - low) & (x ^ full));
    return (uint8_t)token;
}

/* Where the words of the next step are. */
static inline const uint8_t *open_step(struct psti_coefs_words *words)
{
    if (words->at > words->limit)
        psti_pli_coefs_more_words(words);
    return words->at;
}

/* -- Ends of blocks and DC -- */

void psti_pli_coefs_read_classes_c(struct psti_coefs_unit *unit)
{
    const struct psti_coefs_tables_c *t = &unit->tables->plain;
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        const struct psti_jpeg_square *q = &unit->out->squares[s];
        const struct psti_coefs_table *tables = t->ends[q->side];
        uint64_t blocks = psti_pli_jpeg_blocks(q);
        uint8_t *classes = unit->classes[s];
        memset(classes, 0, SQUARE);
        const uint8_t *words = open_step(&unit->words);
        for (uint64_t left = blocks & PSTI_JPEG_EVEN; left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left);
            classes[p] = read_token(&tables[PSTI_JPEG_EVEN_CONTEXT], &unit->states[p >> 1], &words);
        }
        unit->words.at = words;
        words = open_step(&unit->words);
        for (uint64_t left = blocks & ~PSTI_JPEG_EVEN; left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left);
            classes[p] = read_token(&tables[psti_pli_jpeg_end_context(q, classes, p)],
                                    &unit->states[p >> 1], &words);
        }
        unit->words.at = words;
    }
}

void psti_pli_coefs_read_dc_c(struct psti_coefs_unit *unit)
{
    const struct psti_coefs_tables_c *t = &unit->tables->plain;
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        const struct psti_jpeg_square *q = &unit->out->squares[s];
        uint8_t *tokens = unit->dc_tokens[s];
        memset(tokens, 0, SQUARE);
        for (uint32_t half = 0; half < SQUARE; half += LANES) {
            uint64_t left = psti_pli_jpeg_blocks(q) & (uint64_t)UINT32_MAX << half;
            const uint8_t *words = open_step(&unit->words);
            for (; left != 0; left &= left - 1) {
                uint32_t p = (uint32_t)__builtin_ctzll(left);
                tokens[p] = read_token(&t->dc[q->side][unit->classes[s][p]],
                                       &unit->states[p - half], &words);
            }
            unit->words.at = words;
        }
    }
}

void psti_pli_coefs_sort_c(struct psti_coefs_unit *unit)
{
    struct psti_pli_coefs *out = unit->out;
    uint32_t next[64] = {0};
    for (uint32_t s = 0; s < out->n_squares; s++)
        for (uint64_t left = psti_pli_jpeg_blocks(&out->squares[s]); left != 0; left &= left - 1)
            next[unit->ends[s][__builtin_ctzll(left)]]++;
    out->n_k[64] = 0;
    for (uint32_t k = 64; k-- > 0;) {
        out->n_k[k] = (uint16_t)(out->n_k[k + 1] + next[k]);
        next[k] = out->n_k[k + 1];
    }
    for (uint32_t s = 0; s < out->n_squares; s++) {
        uint8_t side = out->squares[s].side ? 255 : 0;
        for (uint64_t left = psti_pli_jpeg_blocks(&out->squares[s]); left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left), i = next[unit->ends[s][p]]++;
            unit->order[i] = (uint16_t)(SQUARE * s + p);
            unit->sides[i] = side;
        }
    }
    memset(unit->sides + out->n, 0, psti_round_up(out->n, SQUARE) - out->n);
}

/* -- AC -- */

/* Of plane k, in which the g of tokens are until the values are placed. */
static uint8_t *g_of(const struct psti_coefs_unit *unit, uint32_t k)
{
    return (uint8_t *)(unit->planes + k * unit->out->stride);
}

/* The states of a step in halves of 16 bits, for which vectors have products; and the entries of
 * its tokens. */
struct halves {
    _Alignas(64) uint16_t low[LANES];
    _Alignas(64) uint16_t high[LANES];
};
struct entries {
    uint16_t begin[LANES], freq[LANES];
};

/* States behind tokens with those entries, of which some may be behind the slot yet: says whether
 * one is. A state is freq * (x >> 12) + bias; x >> 12 is 16 bits and, above, 4 more. */
static inline bool advance(const struct halves *restrict states,
                           const struct entries *restrict entries, struct halves *restrict next)
{
    uint16_t behind[LANES], any = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        uint16_t low = states->low[l], high = states->high[l];
        uint16_t freq = entries->freq[l],
                 bias = (uint16_t)((low & (SLOTS - 1)) - entries->begin[l]);
        uint16_t times = (uint16_t)(high << (16 - SLOT_BITS) | low >> SLOT_BITS);
        uint16_t product = (uint16_t)((uint32_t)freq * times), sum = (uint16_t)(product + bias);
        uint16_t carry = (uint16_t)((uint32_t)freq * times >> 16);
        uint16_t above = (uint16_t)((uint32_t)freq * (uint16_t)(high >> SLOT_BITS));
        next->low[l] = sum;
        next->high[l] = (uint16_t)(carry + above + (sum < bias));
        behind[l] = (uint16_t)(freq - 1 - bias);
    }
    for (uint32_t l = 0; l < LANES; l++)
        any |= behind[l];
    return any >> 15;
}

/* Lanes whose state must take a word, as bits. */
static inline uint32_t find_low(const struct halves *states)
{
    uint8_t low[LANES];
    uint32_t mask = 0;
    for (uint32_t l = 0; l < LANES; l++)
        low[l] = states->high[l] == 0;
#pragma GCC unroll 4
    for (uint32_t l = 0; l < LANES; l += 8)
        mask |= (uint32_t)((psti_load_u64(low + l) * 0x0102040810204080ull) >> 56) << l;
    return mask;
}

/* Tokens of a step whose lanes all have one; `next` are the states behind it. */
static inline const uint8_t *read_full_step(const struct psti_coefs_tables_c *t,
                                            const uint16_t *indices,
                                            const struct halves *restrict states,
                                            struct halves *restrict next, const uint8_t *words,
                                            uint8_t *restrict tokens)
{
    uint16_t bins[LANES];
    struct entries entries;
    for (uint32_t l = 0; l < LANES; l++)
        bins[l] = (uint16_t)((states->low[l] & (SLOTS - 1)) >> PSTI_COEFS_AC_BIN_LOG2);
#pragma GCC unroll 32
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t token = t->ac_first[t->ac_row[indices[l]] + bins[l]];
        uint32_t entry = t->ac_entries[token];
        tokens[l] = (uint8_t)token;
        entries.begin[l] = (uint16_t)entry;
        entries.freq[l] = (uint16_t)(entry >> FREQ_SHIFT);
    }
    while (__builtin_expect(advance(states, &entries, next), 0))
        for (uint32_t l = 0; l < LANES; l++)
            if (bias_of(states->low[l], entries.begin[l]) >= entries.freq[l]) {
                uint32_t entry = t->ac_entries[++tokens[l]];
                entries.begin[l] = (uint16_t)entry;
                entries.freq[l] = (uint16_t)(entry >> FREQ_SHIFT);
            }
    for (uint32_t low = find_low(next); low != 0; low &= low - 1, words += 2) {
        uint32_t l = (uint32_t)__builtin_ctz(low);
        next->high[l] = next->low[l];
        next->low[l] = psti_load_u16(words);
    }
    return words;
}

/* Of a step with n tokens. */
static const uint8_t *read_step(const struct psti_coefs_tables_c *t, uint32_t n,
                                const uint16_t *indices, struct halves *states,
                                const uint8_t *words, uint8_t *tokens)
{
    for (uint32_t l = 0; l < n; l++) {
        uint32_t x = states->low[l] | (uint32_t)states->high[l] << 16;
        uint32_t bin = (x & (SLOTS - 1)) >> PSTI_COEFS_AC_BIN_LOG2;
        uint32_t token = t->ac_first[t->ac_row[indices[l]] + bin], entry = t->ac_entries[token];
        while (bias_of(x, entry) >= entry >> FREQ_SHIFT)
            entry = t->ac_entries[++token];
        x = (entry >> FREQ_SHIFT) * (x >> SLOT_BITS) + bias_of(x, entry);
        uint32_t full = x << 16 | psti_load_u16(words), low = x < 65536;
        words += 2 * low;
        x ^= (0u - low) & (x ^ full);
        states->low[l] = (uint16_t)x;
        states->high[l] = (uint16_t)(x >> 16);
        tokens[l] = (uint8_t)token;
    }
    return words;
}

/* Tokens of n lanes, a multiple of 32, that still have their contexts; and their g, which is the
 * token and more from 3 on. */
static void find_g(uint32_t n, uint8_t *restrict tokens, uint8_t *restrict g)
{
    for (uint32_t base = 0; base < n; base += LANES, tokens += LANES, g += LANES)
        for (uint32_t l = 0; l < LANES; l++) {
            uint8_t t = tokens[l] & (PSTI_JPEG_N_AC_TOKENS - 1);
            uint8_t a = (uint8_t)((t > 3) << 1), b = (uint8_t)((t > 4) << 2);
            uint8_t c = (uint8_t)(7 * (t > 5)), d = (uint8_t)(11 * (t > 6));
            tokens[l] = t;
            g[l] = (uint8_t)(t + (t > 2) + a + b + c + d);
        }
}

/* Plane k; the states are where this returns, one of the two. */
static struct halves *read_plane(struct psti_coefs_unit *unit, uint32_t k, struct halves *states,
                                 struct halves *next)
{
    const struct psti_pli_coefs *out = unit->out;
    const struct psti_coefs_tables_c *t = &unit->tables->plain;
    uint32_t n = out->n_k[k], padded = (uint32_t)psti_round_up(n, SQUARE);
    uint8_t *tokens = unit->tokens + k * out->stride;
    const uint8_t *earlier[PSTI_JPEG_N_FEATURES];
    _Alignas(64) uint16_t indices[CHUNK];
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        earlier[i] = g_of(unit, psti_jpeg_features[k][i]);
    memset(tokens + n, 0, padded - n);
    for (uint32_t base = 0; base < n; base += LANES) {
        const uint16_t *own = indices + base % CHUNK;
        if (own == indices)
            psti_pli_jpeg_find_indices(k, out->n_k, earlier, unit->sides, base,
                                       padded - base < CHUNK ? padded - base : CHUNK, indices);
        const uint8_t *words = open_step(&unit->words);
        if (n - base >= LANES) {
            words = read_full_step(t, own, states, next, words, tokens + base);
            struct halves *before = states;
            states = next;
            next = before;
        } else {
            words = read_step(t, n - base, own, states, words, tokens + base);
        }
        unit->words.at = words;
    }
    find_g(padded, tokens, g_of(unit, k));
    return states;
}

void psti_pli_coefs_read_ac_c(struct psti_coefs_unit *unit, uint32_t first, uint32_t last)
{
    struct halves two[2], *states = two;
    for (uint32_t l = 0; l < LANES; l++) {
        states->low[l] = (uint16_t)unit->states[l];
        states->high[l] = (uint16_t)(unit->states[l] >> 16);
    }
    if (first == 1)
        memset(g_of(unit, 0), 0, psti_round_up(unit->out->n, SQUARE));
    for (uint32_t k = first; k <= last; k++)
        states = read_plane(unit, k, states, two + (states == two));
    for (uint32_t l = 0; l < LANES; l++)
        unit->states[l] = states->low[l] | (uint32_t)states->high[l] << 16;
}

const struct psti_coefs_level psti_coefs_level_c = {
    .prepare = psti_pli_coefs_prepare_c,
    .read_classes = psti_pli_coefs_read_classes_c,
    .read_ends = psti_pli_coefs_read_ends_c,
    .sort = psti_pli_coefs_sort_c,
    .read_dc = psti_pli_coefs_read_dc_c,
    .read_ac = psti_pli_coefs_read_ac_c,
    .place_dc = psti_pli_coefs_place_dc_c,
    .place_ac = psti_pli_coefs_place_ac_c,
};
