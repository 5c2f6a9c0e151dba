/* pli_coefs_avx512.c - the AVX-512 level of the coefficient decoder (docs/format-pli.md, section
 * 8): its tables and its stages. Needs VBMI and VBMI2. Tests compile its files against SIMDe
 * (base/avx512.h). */
#include "decode/pli_coefs_avx512.h"

#if defined(__x86_64__)
#include <string.h>

/* -- Tables -- */

/* Column `context` of bounds. */
static void put_bounds(const uint16_t *freqs, uint32_t n_tokens, uint32_t n_bounds,
                       uint32_t context, uint16_t (*bounds)[32])
{
    for (uint32_t i = 0, begin = 0; i < n_bounds; i++) {
        begin += i < n_tokens ? freqs[i] : 0;
        bounds[i][context] = (uint16_t)begin;
    }
}

static void prepare(struct psti_pli_coefs_tables *tables)
{
    enum { TURNED_OVER = 64 };
    struct psti_coefs_avx512_tables *t = (struct psti_coefs_avx512_tables *)(void *)tables->memory;
    const struct psti_jpeg_tables *f = &tables->freqs;
    uint8_t contexts[PSTI_JPEG_N_INDICES];
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++)
        put_bounds(f->ac[c], PSTI_JPEG_N_AC_TOKENS, COEFS_512_AC_BOUNDS, c, t->ac);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t c = 0; c < PSTI_JPEG_N_ENDS; c++) {
            uint32_t column = side * PSTI_JPEG_N_ENDS + c;
            put_bounds(f->ends[side][c], PSTI_JPEG_N_ENDS, COEFS_512_BOUNDS, column, t->ends);
            put_bounds(f->dc[side][c], PSTI_JPEG_N_DC_TOKENS, COEFS_512_BOUNDS, column, t->dc);
        }
    psti_jpeg_fill_contexts(contexts);
    for (uint32_t x = 0; x < sizeof t->buckets; x++) /* D = 0: buckets alone */
        t->buckets[x ^ TURNED_OVER] = (uint8_t)(2 * contexts[x]);
    for (uint32_t end = 0; end < sizeof t->rows; end++) /* bits 0..3 of a context are left free */
        t->rows[end] = (uint8_t)(2 * 8 * psti_jpeg_distance(end));
}

/* -- Order -- */

/* The list; `sides` are not what plain C has there, but the ends in its order. */
static void sort(struct psti_coefs_unit *unit)
{
    struct psti_pli_coefs *out = unit->out;
    uint32_t next[64] = {0}, odd[64] = {0};
    for (uint32_t s = 0; s < out->n_squares; s++) {
        const uint8_t *ends = unit->ends[s];
        for (uint32_t p = 0; p < PSTI_COEFS_SQUARE; p += 2) {
            next[ends[p]]++;
            odd[ends[p + 1]]++;
        }
    }
    /* Positions without a block have an end of 0. */
    next[0] -= out->n_squares * PSTI_COEFS_SQUARE - out->n;
    out->n_k[64] = 0;
    for (uint32_t k = 64; k-- > 0;) {
        uint32_t n = next[k] + odd[k];
        next[k] = out->n_k[k + 1];
        out->n_k[k] = (uint16_t)(next[k] + n);
        memset(unit->sides + next[k], (int)k, n);
    }
    uint16_t *order = unit->order;
    for (uint32_t s = 0; s < out->n_squares; s++) {
        const uint8_t *ends = unit->ends[s];
        uint64_t left = psti_jpeg_blocks(&out->squares[s]);
        if (left == UINT64_MAX)
            for (uint32_t p = 0; p < PSTI_COEFS_SQUARE; p++)
                order[next[ends[p]]++] = (uint16_t)(PSTI_COEFS_SQUARE * s + p);
        else
            for (; left != 0; left &= left - 1) {
                uint32_t p = (uint32_t)__builtin_ctzll(left);
                order[next[ends[p]]++] = (uint16_t)(PSTI_COEFS_SQUARE * s + p);
            }
    }
    memset(unit->sides + out->n, 0, psti_round_up(out->n, PSTI_COEFS_SQUARE) - out->n);
}

const struct psti_coefs_level psti_coefs_level_avx512 = {
    .prepare = prepare,
    .read_classes = psti_coefs_avx512_read_classes,
    .read_ends = psti_coefs_avx512_read_ends,
    .sort = sort,
    .read_dc = psti_coefs_avx512_read_dc,
    .read_ac = psti_coefs_avx512_read_ac,
    .place_dc = psti_coefs_avx512_place_dc,
    .place_ac = psti_coefs_avx512_place_ac,
};
#endif
