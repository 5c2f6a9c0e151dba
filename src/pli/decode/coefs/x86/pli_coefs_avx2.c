/* pli_coefs_avx2.c - the AVX2 level of the coefficient decoder (docs/format-pli.md, section 8): its
 * tables, its order of blocks, and its list of stages. */
#include "pli/decode/coefs/x86/pli_coefs_avx2.h"

#if defined(__x86_64__)
#include <assert.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))

/* -- Tables -- */

/* Fills column `context` of a table of bounds. */
static void put_bounds(const uint16_t *freqs, uint32_t n_tokens, uint32_t context,
                       uint8_t (*bounds)[2][16])
{
    for (uint32_t i = 0, begin = 0; i < COEFS_BOUNDS; i++) {
        begin += i < n_tokens ? freqs[i] : 0;
        bounds[i][0][context] = (uint8_t)begin;
        bounds[i][1][context] = (uint8_t)(begin >> 8);
    }
}

static void prepare_buckets(struct psti_coefs_avx2_tables *t)
{
    enum { NEVER = 127, TURNED_OVER = 8 };
    uint32_t bucket = 0, n_extra = 0;
    memset(t->limits, NEVER, sizeof t->limits);
    t->extra_limit = NEVER;
    for (uint32_t i = 0, next = 0; i < 16; i++) {
        t->buckets[i ^ TURNED_OVER] = (uint8_t)bucket;
        for (; next < PSTI_JPEG_N_LIMITS && psti_jpeg_limits[next] >> 3 == i; next++) {
            uint8_t *limit = &t->limits[i ^ TURNED_OVER];
            if (*limit == NEVER)
                bucket++;
            else if (n_extra++ == 0)
                limit = &t->extra_limit;
            *limit = (uint8_t)(2 * psti_jpeg_limits[next] - 1 - 128);
        }
    }
    assert(n_extra <= 1);
}

static void TARGET prepare(struct psti_pli_coefs_tables *tables)
{
    static const uint8_t rows[COEFS_PAIRS][2] = {{3, 2}, {2, 1}, {1, 0}, {3, 1}, {2, 0}, {3, 0}};
    struct psti_coefs_avx2_tables *t = (struct psti_coefs_avx2_tables *)(void *)tables->memory;
    const struct psti_jpeg_tables *f = &tables->freqs;
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++)
        for (uint32_t i = 0, begin = 0; i < PSTI_JPEG_N_AC_TOKENS; i++) {
            begin += f->ac[c][i];
            if (i < COEFS_AC_BOUNDS) {
                t->rows[c >> 3][i][0][c & 7] = (uint8_t)begin;
                t->rows[c >> 3][i][1][c & 7] = (uint8_t)(begin >> 8);
            }
        }
    for (uint32_t p = 0; p < COEFS_PAIRS; p++)
        for (uint32_t i = 0; i < COEFS_AC_BOUNDS; i++)
            for (uint32_t byte = 0; byte < 2; byte++) {
                memcpy(t->pairs[p][i][byte], t->rows[rows[p][0]][i][byte], 8);
                memcpy(t->pairs[p][i][byte] + 8, t->rows[rows[p][1]][i][byte], 8);
            }
    prepare_buckets(t);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t c = 0; c < PSTI_JPEG_N_ENDS; c++) {
            put_bounds(f->ends[side][c], PSTI_JPEG_N_ENDS, c, t->ends[side]);
            put_bounds(f->dc[side][c], PSTI_JPEG_N_DC_TOKENS, c, t->dc[side]);
        }
}

/* -- Order -- */

/* Sets unit->sides to 0 or 2 for each list position, in woven order. The number is the byte offset
 * of a side's weights within each 4 bytes of the AC loop's `struct plane`. */
static void TARGET find_sides(struct psti_coefs_unit *unit)
{
    const struct psti_pli_coefs *out = unit->out;
    uint32_t first = 0; /* number of the first square of side 1 */
    while (first < out->n_squares && !out->squares[first].side)
        first++;
    const v32 last_of_0 = _mm256_set1_epi16((short)((int)(first * PSTI_COEFS_SQUARE) - 1));
    const v32 two = _mm256_set1_epi8(2);
    for (uint32_t i = 0; i < out->n; i += PSTI_COEFS_LANES) {
        v32 low = _mm256_cmpgt_epi16(load(unit->order + i), last_of_0);
        v32 high = _mm256_cmpgt_epi16(load(unit->order + i + 16), last_of_0);
        store(unit->sides + i, _mm256_and_si256(_mm256_packs_epi16(low, high), two));
    }
}

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
    /* Positions without a block have end 0, so they were counted among the blocks of end 0 and are
     * subtracted here. */
    next[0] -= out->n_squares * PSTI_COEFS_SQUARE - out->n;
    out->n_k[64] = 0;
    for (uint32_t k = 64; k-- > 0;) {
        out->n_k[k] = (uint16_t)(out->n_k[k + 1] + next[k] + odd[k]);
        next[k] = out->n_k[k + 1];
    }
    uint16_t *order = unit->order;
    for (uint32_t s = 0; s < out->n_squares; s++) {
        const uint8_t *ends = unit->ends[s];
        uint64_t left = psti_pli_jpeg_blocks(&out->squares[s]);
        if (left == UINT64_MAX)
            for (uint32_t p = 0; p < PSTI_COEFS_SQUARE; p++)
                order[next[ends[p]]++] = (uint16_t)(PSTI_COEFS_SQUARE * s + p);
        else
            for (; left != 0; left &= left - 1) {
                uint32_t p = (uint32_t)__builtin_ctzll(left);
                order[next[ends[p]]++] = (uint16_t)(PSTI_COEFS_SQUARE * s + p);
            }
    }
    find_sides(unit);
}

const struct psti_coefs_level psti_coefs_level_avx2 = {
    .prepare = prepare,
    .read_classes = psti_pli_coefs_avx2_read_classes,
    .read_ends = psti_pli_coefs_avx2_read_ends,
    .sort = sort,
    .read_dc = psti_pli_coefs_avx2_read_dc,
    .read_ac = psti_pli_coefs_avx2_read_ac,
    .read_two = psti_pli_coefs_avx2_read_two,
    .keep = psti_pli_coefs_keep_c,
    .place_dc = psti_pli_coefs_avx2_place_dc,
    .place_ac = psti_pli_coefs_avx2_place_ac,
};
#endif
