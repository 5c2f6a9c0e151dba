/* pli_coefs_c_values.c - the raw bits of a unit of coefficients in plain C, the judge of every
 * other level (docs/format-pli.md, 8.2, 8.3, 8.5): tokens and bits -> ends of blocks and
 * coefficients.
 *
 * Bits stand by their weight: those of a group of 64 that have one are asked for at once, and
 * handed out in order. Groups begin at 0; only those with bits are visited. */
#include "pli/decode/coefs/pli_coefs_int.h"

#include <string.h>

enum { GROUP = PSTI_COEFS_SQUARE };

#define BYTES_01 0x0101010101010101ull
#define BYTES_80 0x8080808080808080ull

/* Which of 64 bytes, all below 128, are at least `least`. */
static uint64_t at_least(const uint8_t *bytes, uint8_t least)
{
    uint64_t mask = 0, add = (uint64_t)(128 - least) * BYTES_01;
#pragma GCC unroll 8
    for (uint32_t i = 0; i < GROUP; i += 8) {
        uint64_t high = ((psti_load_u64(bytes + i) + add) & BYTES_80) >> 7;
        mask |= ((high * 0x0102040810204080ull) >> 56) << i;
    }
    return mask;
}

/* Adds the raw bits of those in `mask` to their values: bit `first` of all, then the next of those
 * that have more, and so on. n_bits: of each, more than `first`. */
static void add_bits(struct psti_coefs_bits *bits, uint64_t mask, const uint8_t *n_bits,
                     uint32_t first, int16_t *values)
{
    uint8_t list[GROUP];
    uint32_t n = 0;
    for (; mask != 0; mask &= mask - 1)
        list[n++] = (uint8_t)__builtin_ctzll(mask);
    for (uint32_t b = first; n > 0; b++) {
        uint64_t plane = psti_pli_coefs_peek(bits);
        uint32_t more = 0;
        bits->at += n;
        for (uint32_t i = 0; i < n; i++, plane >>= 1) {
            uint32_t l = list[i];
            values[l] = (int16_t)(values[l] + (int16_t)((plane & 1) << b));
            list[more] = (uint8_t)l;
            more += n_bits[l] > b + 1;
        }
        n = more;
    }
}

/* Hands the lowest bits of `bits` out to the bytes that `mask` has a bit for, in order; zeros to
 * the others. */
static void spread(const struct psti_coefs_tables_c *t, uint64_t bits, uint64_t mask,
                   uint8_t *restrict bytes)
{
#pragma GCC unroll 16
    for (uint32_t i = 0; i < 64; i += 4) {
        uint32_t four = (mask >> i) & 15;
        psti_store_u32(bytes + i, t->spread[four][bits & 15]);
        bits >>= t->n_ones[four];
    }
}

static uint32_t count(uint64_t mask)
{
    mask -= (mask >> 1) & 0x5555555555555555ull;
    mask = (mask & 0x3333333333333333ull) + ((mask >> 2) & 0x3333333333333333ull);
    mask = (mask + (mask >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (uint32_t)((mask * BYTES_01) >> 56);
}

/* Signs of those in `some`: the next bits, as bytes of 0 and 1. */
static void take_signs(struct psti_coefs_unit *unit, uint64_t some, uint8_t *restrict negative)
{
    spread(&unit->tables->plain, psti_pli_coefs_peek(&unit->bits), some, negative);
    unit->bits.at += count(some);
}

static void negate(const uint8_t *restrict negative, int16_t *restrict values)
{
    for (uint32_t l = 0; l < GROUP; l++) {
        int16_t all = (int16_t)-negative[l];
        values[l] = (int16_t)((values[l] ^ all) - all);
    }
}

void psti_pli_coefs_read_ends_c(struct psti_coefs_unit *unit)
{
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        const uint8_t *classes = unit->classes[s];
        uint8_t n_bits[GROUP];
        int16_t ends[GROUP];
        for (uint32_t p = 0; p < GROUP; p++) {
            n_bits[p] = psti_jpeg_end_bits[classes[p]];
            ends[p] = psti_jpeg_end_lowest[classes[p]];
        }
        add_bits(&unit->bits, at_least(n_bits, 1), n_bits, 0, ends);
        for (uint32_t p = 0; p < GROUP; p++)
            unit->ends[s][p] = (uint8_t)ends[p];
    }
}

/* Differences of a square -> values. */
static void sum_up(const struct psti_jpeg_square *q, int16_t *dc)
{
    for (uint32_t y = 0; y < q->rows; y++)
        for (uint32_t x = 0; x < q->columns; x++) {
            int16_t *v = dc + 8 * y + x;
            if (x > 0)
                *v = (int16_t)(*v + v[-1]);
            else if (y > 0)
                *v = (int16_t)(*v + v[-8]);
        }
}

void psti_pli_coefs_place_dc_c(struct psti_coefs_unit *unit)
{
    const struct psti_pli_coefs *out = unit->out;
    int16_t values[PSTI_JPEG_SQUARES_MAX][GROUP];
    for (uint32_t s = 0; s < out->n_squares; s++) {
        const uint8_t *tokens = unit->dc_tokens[s];
        uint8_t n_bits[GROUP], negative[GROUP];
        take_signs(unit, at_least(tokens, 1), negative);
        for (uint32_t p = 0; p < GROUP; p++) {
            n_bits[p] = (uint8_t)psti_pli_jpeg_dc_bits(tokens[p]);
            values[s][p] = (int16_t)psti_pli_jpeg_dc_lowest(tokens[p]);
        }
        add_bits(&unit->bits, at_least(tokens, 3), n_bits, 0, values[s]);
        negate(negative, values[s]);
        sum_up(&out->squares[s], values[s]);
    }
    int16_t *plane = unit->planes;
    for (uint32_t i = 0; i < out->n; i++)
        plane[i] = values[unit->order[i] >> 6][unit->order[i] & 63];
    memset(plane + out->n, 0, (psti_round_up(out->n, GROUP) - out->n) * sizeof *plane);
}

/* 8.5, step 2: the classes of those in `mask`, which all have token 7. */
static void add_classes(struct psti_coefs_bits *bits, uint64_t mask, uint8_t *n_bits,
                        int16_t *values)
{
    uint8_t list[GROUP];
    uint32_t n = 0;
    for (; mask != 0; mask &= mask - 1)
        list[n++] = (uint8_t)__builtin_ctzll(mask);
    for (uint32_t i = 0; i < 5 && n > 0; i++) {
        uint64_t plane = psti_pli_coefs_peek(bits);
        uint32_t more = 0;
        bits->at += n;
        for (uint32_t j = 0; j < n; j++, plane >>= 1) {
            uint32_t l = list[j];
            if ((plane & 1) == 0)
                continue;
            n_bits[l]++;
            values[l] = (int16_t)(2 * values[l] - 1);
            list[more++] = (uint8_t)l;
        }
        n = more;
    }
}

/* Four numbers of 16 bits, for planes of raw bits 0..3. */
#define FIELDS_0001 0x0001000100010001ull
#define FIELDS_7FFF 0x7fff7fff7fff7fffull

/* Which of the first four raw bits a token has: all bits of their fields. */
static const uint64_t has_bits[PSTI_JPEG_N_AC_TOKENS] = {
    0, 0, 0, 0xffff, 0xffffffff, 0xffffffffffff, UINT64_MAX, UINT64_MAX};

/* How many have each of the first four raw bits: tokens from 3, 4, 5 and 6 on. */
static void count_bits(const uint8_t *tokens, uint64_t large, uint32_t counts[4])
{
    uint64_t from_4 = 0, from_5 = 0, from_6 = 0;
#pragma GCC unroll 8
    for (uint32_t i = 0; i < GROUP; i += 8) {
        uint64_t eight = psti_load_u64(tokens + i);
        from_4 += (eight + (128 - 4) * BYTES_01) >> 7 & BYTES_01;
        from_5 += (eight + (128 - 5) * BYTES_01) >> 7 & BYTES_01;
        from_6 += (eight + (128 - 6) * BYTES_01) >> 7 & BYTES_01;
    }
    counts[0] = count(large);
    counts[1] = (uint32_t)(from_4 * BYTES_01 >> 56);
    counts[2] = (uint32_t)(from_5 * BYTES_01 >> 56);
    counts[3] = (uint32_t)(from_6 * BYTES_01 >> 56);
}

/* The first four raw bits of those in `large`, planes[b] having bit b of all that have one, in
 * order. The next 16 bits of each plane are in a field of one word: a token takes the lowest of
 * the fields that it has, and these move on. */
static void add_four_bits(const uint64_t planes[4], const uint8_t *tokens, uint64_t large,
                          int16_t *values)
{
    /* What is between a token, which stands there, and its magnitude; of token 7 that is there. */
    static const uint8_t more[PSTI_JPEG_N_AC_TOKENS] = {0, 0, 0, 0, 1, 4, 11, 0};
    uint64_t used = 0;
    while (large != 0) {
        uint64_t next = 0;
        for (uint32_t b = 0; b < 4; b++)
            next |= (planes[b] >> ((used >> (16 * b)) & 63) & 0xffff) << (16 * b);
        for (uint32_t i = 0; i < 16 && large != 0; i++, large &= large - 1) {
            uint32_t l = (uint32_t)__builtin_ctzll(large), token = tokens[l];
            uint64_t has = has_bits[token], lowest = next & has & FIELDS_0001;
            used += has & FIELDS_0001;
            next = (next & ~has) | ((next & has) >> 1 & FIELDS_7FFF);
            /* Bits 0, 16, 32 and 48 side by side. */
            lowest = lowest * (1ull << 48 | 1ull << 33 | 1ull << 18 | 1ull << 3) >> 48;
            values[l] = (int16_t)(values[l] + (int16_t)(more[token] + lowest));
        }
    }
}

/* The magnitudes of those in `large`, which have raw bits, and their tokens as values: up to four
 * of them at once; the few that have more get the rest afterwards. */
void psti_pli_coefs_place_large_c(struct psti_coefs_bits *bits, const uint8_t *tokens,
                                  uint64_t large, int16_t *values)
{
    uint64_t planes[4], largest = 0;
    uint32_t counts[4];
    uint8_t n_bits[GROUP];
    count_bits(tokens, large, counts);
    if (counts[3] != 0) {
        largest = at_least(tokens, PSTI_JPEG_N_AC_TOKENS - 1);
        for (uint64_t left = largest; left != 0; left &= left - 1) {
            uint32_t l = (uint32_t)__builtin_ctzll(left);
            n_bits[l] = psti_jpeg_ac_bits[PSTI_JPEG_N_AC_TOKENS - 1];
            values[l] = psti_jpeg_ac_lowest[PSTI_JPEG_N_AC_TOKENS - 1];
        }
        add_classes(bits, largest, n_bits, values);
    }
    for (uint32_t b = 0; b < 4; b++) {
        planes[b] = psti_pli_coefs_peek(bits);
        bits->at += counts[b];
    }
    add_four_bits(planes, tokens, large, values);
    if (largest != 0)
        add_bits(bits, largest, n_bits, 4, values);
}

static void place_group(struct psti_coefs_unit *unit, const uint8_t *restrict tokens,
                        int16_t *restrict values)
{
    uint64_t large = at_least(tokens, 3);
    uint8_t negative[GROUP];
    take_signs(unit, at_least(tokens, 1), negative);
    for (uint32_t l = 0; l < GROUP; l++)
        values[l] = tokens[l];
    if (large != 0)
        psti_pli_coefs_place_large_c(&unit->bits, tokens, large, values);
    negate(negative, values);
}

void psti_pli_coefs_place_ac_c(struct psti_coefs_unit *unit, uint32_t last)
{
    const struct psti_pli_coefs *out = unit->out;
    for (uint32_t k = 1; k <= last; k++)
        for (uint32_t base = 0; base < out->n_k[k]; base += GROUP) {
            size_t at = k * out->stride + base;
            place_group(unit, unit->tokens + at, unit->planes + at);
        }
}
