/* pli_coefs_avx2.c - the AVX2 level of the coefficient decoder: its tables and its stages. */
#include "decode/pli_coefs_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

#define EIGHT(v) v, v, v, v, v, v, v, v
const uint8_t psti_coefs_avx2_ramp[64] = {EIGHT(0), EIGHT(0), EIGHT(0), EIGHT(0),
                                          EIGHT(8), EIGHT(8), EIGHT(8), EIGHT(8)};
const uint8_t psti_coefs_avx2_first_lanes[64] = {EIGHT(255), EIGHT(255), EIGHT(255), EIGHT(255),
                                                 EIGHT(0),   EIGHT(0),   EIGHT(0),   EIGHT(0)};

#define TAKES(m, i) (((m) >> (i)) & 1)
#define WORD(m, i) __builtin_popcount((m) & ((1u << (i)) - 1))
#define INDEX(m, i) TAKES(m, i) ? 2 * WORD(m, i) : 128, TAKES(m, i) ? 2 * WORD(m, i) + 1 : 128
#define ROW(m)                                                                                     \
    {                                                                                              \
        INDEX(m, 0), INDEX(m, 1), INDEX(m, 2), INDEX(m, 3), INDEX(m, 4), INDEX(m, 5), INDEX(m, 6), \
            INDEX(m, 7)                                                                            \
    }
#define ROWS_4(m) ROW(m), ROW((m) + 1), ROW((m) + 2), ROW((m) + 3)
#define ROWS_16(m) ROWS_4(m), ROWS_4((m) + 4), ROWS_4((m) + 8), ROWS_4((m) + 12)
#define ROWS_64(m) ROWS_16(m), ROWS_16((m) + 16), ROWS_16((m) + 32), ROWS_16((m) + 48)
const struct psti_coefs_avx2_spread psti_coefs_avx2_spread = {
    {ROWS_64(0), ROWS_64(64), ROWS_64(128), ROWS_64(192)}};

/* -- Tables -- */

static void put_bound(uint8_t (*bound)[16], uint32_t context, uint32_t begin)
{
    bound[0][context] = (uint8_t)begin;
    bound[1][context] = (uint8_t)(begin >> 8);
}

static void prepare(struct psti_pli_coefs_tables *tables)
{
    static const uint8_t rows[COEFS_PAIRS][2] = {{3, 2}, {2, 1}, {1, 0}, {3, 1}, {2, 0}, {3, 0}};
    struct psti_coefs_avx2_tables *t = (struct psti_coefs_avx2_tables *)(void *)tables->memory;
    const struct psti_jpeg_tables *f = &tables->freqs;
    psti_coefs_prepare_c(tables);
    t->has_sure_tokens = false;
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++)
        for (uint32_t i = 0; i < PSTI_JPEG_N_AC_TOKENS; i++)
            t->has_sure_tokens |= f->ac[c][i] == PSTI_JPEG_PROB_SUM;
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++)
        for (uint32_t i = 0, begin = 0; i < COEFS_AC_BOUNDS; i++)
            t->rows[c >> 3][i][c & 7] = (uint16_t)(begin += f->ac[c][i]);
    for (uint32_t p = 0; p < COEFS_PAIRS; p++)
        for (uint32_t i = 0; i < COEFS_AC_BOUNDS; i++)
            for (uint32_t c = 0; c < 16; c++)
                put_bound(t->pairs[p][i], c, t->rows[rows[p][c >> 3]][i][c & 7]);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t c = 0; c < PSTI_JPEG_N_ENDS; c++) {
            for (uint32_t i = 0, begin = 0; i < COEFS_END_BOUNDS; i++)
                put_bound(t->ends[side][i], c, begin += f->ends[side][c][i]);
            for (uint32_t i = 0, begin = 0; i < COEFS_DC_BOUNDS; i++)
                put_bound(t->dc[side][i], c, begin += f->dc[side][c][i]);
        }
}

static void sort(struct psti_coefs_unit *unit)
{
    psti_coefs_sort_c(unit);
    uint32_t n = (uint32_t)psti_round_up(unit->out->n, 64);
    for (uint32_t i = 0; i < n; i++)
        unit->sides[i] &= 2;
}

const struct psti_coefs_level psti_coefs_level_avx2 = {
    .prepare = prepare,
    .read_classes = psti_coefs_read_classes_c,
    .read_ends = psti_coefs_read_ends_c,
    .sort = sort,
    .read_dc = psti_coefs_read_dc_c,
    .read_ac = psti_coefs_avx2_read_ac,
    .place_dc = psti_coefs_place_dc_c,
    .place_ac = psti_coefs_avx2_place_ac,
};
#endif
