/* pli_coefs_c.c - the stages of a unit of coefficients in plain C, the reference implementation of
 * all other levels. The file follows the order of docs/format-pli.md, section 8.
 *
 * It takes words, raw bits and squares of a unit, and makes planes. The functions are pure; any
 * thread may call them. The 64 places of a square, or of a group of the list, are bits of a mask.
 * The places that have a token or a raw bit are taken from the mask in ascending order. */
#include "pli/decode/coefs/pli_coefs_int.h"

#include <string.h>

enum {
    LANES = PSTI_COEFS_LANES,
    GROUP = PSTI_COEFS_SQUARE, /* number of positions in a square, or of list entries in a group */
    SLOTS = PSTI_JPEG_PROB_SUM
};

/* -- Tables -- */

/* Makes the decoding table of one context. Entries of `first` are the tokens plus `base`. */
static void fill_table(const uint16_t *freqs, uint32_t n_tokens, uint32_t bin_log2, uint32_t base,
                       uint8_t *first, uint32_t *entries)
{
    uint32_t begin = 0, bin = 0, bin_slots = 1u << bin_log2;
    for (uint32_t token = 0; token < n_tokens; token++) {
        uint32_t end = begin + freqs[token], end_bin = (end + bin_slots - 1) >> bin_log2;
        entries[token] = begin | (uint32_t)freqs[token] << 16;
        memset(first + bin, (int)(base + token), end_bin - bin);
        bin = end_bin;
        begin = end;
    }
}

void psti_pli_coefs_prepare_c(struct psti_pli_coefs_tables *tables)
{
    struct psti_coefs_tables_c *t = &tables->plain;
    uint8_t contexts[PSTI_JPEG_N_INDICES];
    psti_pli_jpeg_fill_contexts(contexts);
    for (uint32_t i = 0; i < PSTI_JPEG_N_INDICES; i++)
        t->ac_row[i] = contexts[i] * (uint32_t)SLOTS;
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++)
        fill_table(tables->freqs.ac[c], PSTI_JPEG_N_AC_TOKENS, 0, c * PSTI_JPEG_N_AC_TOKENS,
                   t->ac_first + (size_t)c * SLOTS,
                   t->ac_entries + (size_t)c * PSTI_JPEG_N_AC_TOKENS);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t c = 0; c < PSTI_JPEG_N_ENDS; c++) {
            struct psti_coefs_table *ends = &t->ends[side][c], *dc = &t->dc[side][c];
            fill_table(tables->freqs.ends[side][c], PSTI_JPEG_N_ENDS, PSTI_COEFS_BIN_LOG2, 0,
                       ends->first, ends->entries);
            fill_table(tables->freqs.dc[side][c], PSTI_JPEG_N_DC_TOKENS, PSTI_COEFS_BIN_LOG2, 0,
                       dc->first, dc->entries);
        }
}

/* -- Tokens by rANS (section 0) -- */

/* Decodes a token and advances the state. A word that the state may need afterwards is loaded
 * later. */
static inline uint32_t read_token(const uint8_t *first, uint32_t bin_log2, const uint32_t *entries,
                                  uint32_t *state)
{
    uint32_t x = *state, place = x & (SLOTS - 1), token = first[place >> bin_log2];
    while (bin_log2 > 0 && place - (entries[token] & 0xffff) >= entries[token] >> 16)
        token++;
    uint32_t begin = entries[token] & 0xffff, freq = entries[token] >> 16;
    *state = freq * (x >> PSTI_JPEG_PROB_BITS) + place - begin;
    return token;
}

static uint8_t read_from(const struct psti_coefs_table *table, uint32_t *state)
{
    return (uint8_t)read_token(table->first, PSTI_COEFS_BIN_LOG2, table->entries, state);
}

/* Returns a mask of the bytes, among 64 bytes below 128, that are at least `least`. */
static uint64_t at_least(const uint8_t *bytes, uint32_t least)
{
    const uint64_t each = 0x0101010101010101;
    uint64_t mask = 0, add = (128 - least) * each;
    for (uint32_t i = 0; i < GROUP; i += 8) {
        uint64_t is_high = (psti_load_u64(bytes + i) + add) >> 7 & each;
        mask |= is_high * 0x0102040810204080 >> 56 << i; /* joins the eight results to 8 bits */
    }
    return mask;
}

/* Ends a step: states that need a word get the next words, in ascending order of lanes. */
static void take_words(struct psti_coefs_unit *unit)
{
    uint8_t needs_word[GROUP] = {0};
    if (unit->words.at > unit->words.limit)
        psti_pli_coefs_more_words(&unit->words);
    for (uint32_t l = 0; l < LANES; l++)
        needs_word[l] = unit->states[l] < 65536;
    for (uint64_t left = at_least(needs_word, 1); left != 0; left &= left - 1) {
        uint32_t *state = &unit->states[__builtin_ctzll(left)];
        *state = *state << 16 | psti_load_u16(unit->words.at);
        unit->words.at += 2;
    }
}

/* -- The raw bits of a unit -- */

/* Reads bit 0 of all entries with at least one raw bit, then bit 1 of all entries with at least
 * two, and so on. For bit b it adds (bit + more) << b to the entry's value. */
static void add_bits(struct psti_coefs_bits *bits, const uint8_t n_bits[GROUP], uint32_t more,
                     int16_t values[GROUP])
{
    uint64_t left;
    for (uint32_t b = 0; (left = at_least(n_bits, b + 1)) != 0; b++) {
        uint64_t next = psti_pli_coefs_peek(bits);
        for (; left != 0; left &= left - 1, next >>= 1, bits->at++) {
            int16_t *value = values + __builtin_ctzll(left);
            *value = (int16_t)(*value + (int16_t)(((next & 1) + more) << b));
        }
    }
}

/* Reads the octaves of tokens 7 (8.5, 2): adds 1 to an entry of n_bits for each octave. */
static void add_octaves(struct psti_coefs_bits *bits, uint64_t going_on, uint8_t n_bits[GROUP])
{
    for (uint32_t i = 0; i < 5 && going_on != 0; i++) {
        uint64_t next = psti_pli_coefs_peek(bits);
        for (uint64_t left = going_on; left != 0; left &= left - 1, next >>= 1, bits->at++) {
            n_bits[__builtin_ctzll(left)] += next & 1;
            going_on ^= next & 1 ? 0 : left & -left;
        }
    }
}

/* Reads the raw bits of magnitudes (8.3 and 8.5, 2 and 3). The lowest magnitude of a token or
 * octave with n raw bits is 2^n + 1. That is 2 plus the sum of 2^b over its bits b, so lowest
 * magnitude and raw bits are added together, bit by bit. */
void psti_pli_coefs_place_large_c(struct psti_coefs_bits *bits, const uint8_t *tokens,
                                  bool has_octaves, int16_t *values)
{
    uint8_t n_bits[GROUP];
    for (uint32_t l = 0; l < GROUP; l++)
        n_bits[l] = (uint8_t)((tokens[l] > 2 ? tokens[l] : 2) - 2);
    if (has_octaves)
        add_octaves(bits, at_least(tokens, PSTI_JPEG_N_AC_TOKENS - 1), n_bits);
    add_bits(bits, n_bits, 1, values);
}

/* Reads the signs and then the magnitudes of 64 tokens (8.3, 8.5). */
static void place_group(struct psti_coefs_bits *bits, const uint8_t tokens[GROUP], bool has_octaves,
                        int16_t values[GROUP])
{
    uint64_t signs = psti_pli_coefs_peek(bits), left = at_least(tokens, 1);
    bits->at += (uint32_t)__builtin_popcountll(left);
    for (uint32_t l = 0; l < GROUP; l++)
        values[l] = tokens[l] < 2 ? tokens[l] : 2;
    psti_pli_coefs_place_large_c(bits, tokens, has_octaves, values);
    for (; left != 0; left &= left - 1, signs >>= 1) {
        int16_t *value = values + __builtin_ctzll(left);
        int negative = -(int)(signs & 1);
        *value = (int16_t)((*value ^ negative) - negative);
    }
}

/* -- Ends of blocks (8.2) -- */

void psti_pli_coefs_read_classes_c(struct psti_coefs_unit *unit)
{
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        const struct psti_jpeg_square *q = &unit->out->squares[s];
        const struct psti_coefs_table *tables = unit->tables->plain.ends[q->side];
        uint8_t *classes = unit->classes[s];
        memset(classes, 0, GROUP);
        for (uint32_t is_odd = 0; is_odd < 2; is_odd++) {
            uint64_t left = psti_pli_jpeg_blocks(q) & (is_odd ? ~PSTI_JPEG_EVEN : PSTI_JPEG_EVEN);
            for (; left != 0; left &= left - 1) {
                uint32_t p = (uint32_t)__builtin_ctzll(left), context = PSTI_JPEG_EVEN_CONTEXT;
                if (is_odd)
                    context = psti_pli_jpeg_end_context(q, classes, p);
                classes[p] = read_from(&tables[context], &unit->states[p >> 1]);
            }
            take_words(unit);
        }
    }
}

void psti_pli_coefs_read_ends_c(struct psti_coefs_unit *unit)
{
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        uint8_t n_bits[GROUP];
        int16_t ends[GROUP];
        for (uint32_t p = 0; p < GROUP; p++) {
            n_bits[p] = psti_jpeg_end_bits[unit->classes[s][p]];
            ends[p] = psti_jpeg_end_lowest[unit->classes[s][p]];
        }
        add_bits(&unit->bits, n_bits, 0, ends);
        for (uint32_t p = 0; p < GROUP; p++)
            unit->ends[s][p] = (uint8_t)ends[p];
    }
}

/* -- DC tokens and values (8.3) -- */

void psti_pli_coefs_read_dc_c(struct psti_coefs_unit *unit)
{
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        const struct psti_jpeg_square *q = &unit->out->squares[s];
        const struct psti_coefs_table *tables = unit->tables->plain.dc[q->side];
        memset(unit->dc_tokens[s], 0, GROUP);
        for (uint32_t half = 0; half < GROUP; half += LANES) {
            uint64_t left = psti_pli_jpeg_blocks(q) & (uint64_t)UINT32_MAX << half;
            for (; left != 0; left &= left - 1) {
                uint32_t p = (uint32_t)__builtin_ctzll(left);
                unit->dc_tokens[s][p] =
                    read_from(&tables[unit->classes[s][p]], &unit->states[p - half]);
            }
            take_words(unit);
        }
    }
}

void psti_pli_coefs_place_dc_c(struct psti_coefs_unit *unit)
{
    const struct psti_pli_coefs *out = unit->out;
    int16_t values[PSTI_JPEG_SQUARES_MAX * GROUP], *plane = unit->planes;
    for (uint32_t s = 0; s < out->n_squares; s++) {
        int16_t *dc = values + (size_t)GROUP * s;
        place_group(&unit->bits, unit->dc_tokens[s], false, dc);
        /* Sums up the differences, block by block. Position 0 holds a value already. */
        uint64_t left = psti_pli_jpeg_blocks(&out->squares[s]) & ~UINT64_C(1);
        for (; left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left);
            dc[p] = (int16_t)(dc[p] + dc[p % 8 > 0 ? p - 1 : p - 8]);
        }
    }
    uint32_t n = unit->kept ? unit->kept->n_k[0] : out->n;
    for (uint32_t i = 0; i < n; i++)
        plane[i] = values[unit->order[i]];
    memset(plane + n, 0, (psti_round_up(n, GROUP) - n) * sizeof *plane);
}

/* -- The list of blocks, and AC tokens (8.4) -- */

/* Among the eight blocks at `order`, of which the first `left` exist, keeps those that are wanted,
 * and writes their numbers to `kept`. Returns a mask of the blocks that were kept. */
static uint32_t keep_eight(const uint16_t *order, uint32_t left, const uint64_t *wanted,
                           uint16_t *kept, struct psti_coefs_move *move)
{
    uint32_t mask = 0, n = 0;
    memset(move->indices, 0, sizeof move->indices);
    for (uint32_t i = 0; i < 8 && i < left; i++) {
        uint32_t block = order[i], is_wanted = (uint32_t)(wanted[block >> 6] >> (block & 63) & 1);
        kept[n] = (uint16_t)block;
        move->indices[2 * n] = (uint8_t)(2 * i);
        move->indices[2 * n + 1] = (uint8_t)(2 * i + 1);
        n += is_wanted;
        mask |= is_wanted << i;
    }
    return mask;
}

void psti_pli_coefs_keep_c(struct psti_coefs_unit *unit, const uint64_t *wanted,
                           struct psti_coefs_kept *kept)
{
    const struct psti_pli_coefs *out = unit->out;
    uint32_t n = 0, n_groups = (out->n + GROUP - 1) / GROUP;
    memset(kept->lanes, 0, (n_groups + 1) * sizeof kept->lanes[0]);
    for (uint32_t i = 0; i < n_groups * GROUP; i += 8) {
        struct psti_coefs_move *move = &kept->moves[i / 8];
        uint32_t left = out->n > i ? out->n - i : 0;
        uint32_t mask = keep_eight(unit->order + i, left, wanted, unit->order + n, move);
        move->to = (uint16_t)n;
        if (i % GROUP == 0)
            kept->before[i / GROUP] = (uint16_t)n;
        kept->lanes[i / GROUP] |= (uint64_t)mask << (i % GROUP);
        n += (uint32_t)__builtin_popcount(mask);
    }
    kept->before[n_groups] = (uint16_t)n;
    for (uint32_t k = 0; k < 65; k++)
        kept->n_k[k] = psti_pli_coefs_count_kept(kept, out->n_k[k]);
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
            unit->order[i] = (uint16_t)(GROUP * s + p);
            unit->sides[i] = side;
        }
    }
    memset(unit->sides + out->n, 0, psti_round_up(out->n, GROUP) - out->n);
}

/* Returns the address of the g of plane k's tokens. They are stored in the memory of the plane's
 * values until the values are placed. */
static uint8_t *g_of(const struct psti_coefs_unit *unit, uint32_t k)
{
    return (uint8_t *)(unit->planes + k * unit->out->stride);
}

static void read_plane(struct psti_coefs_unit *unit, uint32_t k)
{
    const struct psti_coefs_tables_c *t = &unit->tables->plain;
    uint32_t n = unit->out->n_k[k], padded = (uint32_t)psti_round_up(n, GROUP);
    uint8_t *tokens = unit->tokens + k * unit->out->stride, *g = g_of(unit, k);
    const uint8_t *earlier[PSTI_JPEG_N_FEATURES];
    uint16_t indices[PSTI_JPEG_SQUARES_MAX * GROUP];
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        earlier[i] = g_of(unit, psti_jpeg_features[k][i]);
    psti_pli_jpeg_find_indices(k, unit->out->n_k, earlier, unit->sides, 0, padded, indices);
    for (uint32_t base = 0; base < n; base += LANES) {
        uint32_t active = n - base < LANES ? n - base : LANES;
        for (uint32_t l = 0; l < active; l++) {
            uint32_t token = read_token(t->ac_first + t->ac_row[indices[base + l]], 0,
                                        t->ac_entries, &unit->states[l]);
            token %= PSTI_JPEG_N_AC_TOKENS;
            tokens[base + l] = (uint8_t)token;
            g[base + l] = psti_jpeg_ac_weight[token];
        }
        take_words(unit);
    }
    memset(tokens + n, 0, padded - n);
    memset(g + n, 0, padded - n);
}

void psti_pli_coefs_read_ac_c(struct psti_coefs_unit *unit, uint32_t first, uint32_t last)
{
    if (first == 1)
        memset(g_of(unit, 0), 0, psti_round_up(unit->out->n, GROUP));
    for (uint32_t k = first; k <= last; k++)
        read_plane(unit, k);
}

/* -- The raw bits of AC (8.5) -- */

void psti_pli_coefs_place_ac_c(struct psti_coefs_unit *unit, uint32_t last)
{
    const struct psti_pli_coefs *out = unit->out;
    for (uint32_t k = 1; k <= last; k++)
        for (uint32_t base = 0; base < out->n_k[k]; base += GROUP) {
            size_t at = k * out->stride + base;
            place_group(&unit->bits, unit->tokens + at, true, unit->planes + at);
        }
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
