/* pli_coefs_avx512.c - the AVX-512 level of the coefficient decoder (docs/format-pli.md, section
 * 8): its tables, its order of blocks, and its list of stages. It needs VBMI and VBMI2. Tests
 * compile its files against SIMDe (base/machine/avx512.h). */
#include "pli/decode/coefs/x86/pli_coefs_avx512.h"

#if defined(__x86_64__)
#include <string.h>

/* -- Tables -- */

/* Fills column `context` of a table of bounds. */
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
    psti_pli_jpeg_fill_contexts(contexts);
    /* Contexts of distance 0 are the buckets alone. */
    for (uint32_t x = 0; x < sizeof t->buckets; x++)
        t->buckets[x ^ TURNED_OVER] = (uint8_t)(2 * contexts[x]);
    /* Bits 0..3 are left for twice the bucket. */
    for (uint32_t end = 0; end < sizeof t->rows; end++)
        t->rows[end] = (uint8_t)(2 * 8 * psti_pli_jpeg_distance(end));
}

/* -- Order -- */

/* A list of blocks: their ends and their numbers. 64 entries after the list may be written. */
struct blocks {
    uint8_t *ends;
    uint16_t *order;
    uint32_t n;
};

/* Appends the blocks, among 64, whose bits are set to a list. `low` and `high` have the numbers of
 * the lower and of the upper 32 blocks. */
PSTI_ICL_INLINE void append(struct blocks *to, uint64_t lanes, __m512i ends, __m512i low,
                            __m512i high)
{
    uint32_t n_low = (uint32_t)__builtin_popcount((uint32_t)lanes);
    store(to->ends + to->n, psti_avx512_compress_bytes(lanes, ends));
    store(to->order + to->n, psti_avx512_compress_words((uint32_t)lanes, low));
    store(to->order + to->n + n_low, psti_avx512_compress_words((uint32_t)(lanes >> 32), high));
    to->n += (uint32_t)__builtin_popcountll(lanes);
}

/* Appends the blocks whose end has the bit to to[0], and the others to to[1]. */
PSTI_ICL_INLINE void split(const struct blocks *from, uint32_t bit, struct blocks to[2])
{
    const __m512i bits = _mm512_set1_epi8((char)bit);
    for (uint32_t i = 0; i < from->n; i += PSTI_COEFS_SQUARE) {
        uint32_t left = from->n - i;
        uint64_t lanes = left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
        __m512i ends = load(from->ends + i);
        __m512i low = load(from->order + i), high = load(from->order + i + 32);
        uint64_t ones = _mm512_test_epi8_mask(ends, bits);
        append(&to[0], lanes & ones, ends, low, high);
        append(&to[1], lanes & ~ones, ends, low, high);
    }
}

/* Lists the blocks of all squares in their order. Returns the OR of all ends. */
PSTI_ICL_INLINE uint32_t list_blocks(const struct psti_coefs_unit *unit, struct blocks *to)
{
    __m512i low = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
                                   15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i square = _mm512_set1_epi16(PSTI_COEFS_SQUARE), half = _mm512_set1_epi16(32);
    uint64_t some = 0;
    __m512i all = _mm512_setzero_si512();
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        __m512i ends = load(unit->ends[s]);
        append(to, psti_pli_jpeg_blocks(&unit->out->squares[s]), ends, low,
               _mm512_add_epi16(low, half));
        low = _mm512_add_epi16(low, square);
        all = _mm512_or_si512(all, ends);
    }
    for (uint32_t bit = 1; bit < 64; bit <<= 1)
        some |= _mm512_test_epi8_mask(all, _mm512_set1_epi8((char)bit)) ? bit : 0;
    return (uint32_t)some;
}

/* Sets n_k from the sorted ends. There is at least one end, and 64 bytes after them are readable.
 * If an end differs from the next one, then as many blocks as there are up to it have this end or a
 * larger one. */
PSTI_ICL_INLINE void count(const uint8_t *ends, struct psti_pli_coefs *out)
{
    memset(out->n_k, 0, sizeof out->n_k);
    for (uint32_t i = 0; i < out->n; i += 64) {
        uint64_t lasts = ~(uint64_t)_mm512_cmpeq_epi8_mask(load(ends + i), load(ends + i + 1));
        if (out->n - i <= 64) /* the last block has no successor whose end could differ */
            lasts &= (UINT64_C(1) << (out->n - i - 1)) - 1;
        for (; lasts != 0; lasts &= lasts - 1) {
            uint32_t at = i + (uint32_t)__builtin_ctzll(lasts);
            out->n_k[ends[at]] = (uint16_t)(at + 1);
        }
    }
    out->n_k[ends[out->n - 1]] = (uint16_t)out->n;
    uint16_t most = 0;
    for (uint32_t k = 64; k-- > 0;) {
        most = out->n_k[k] > most ? out->n_k[k] : most;
        out->n_k[k] = most;
    }
}

/* Sorts blocks by their ends with a stable radix sort, bit by bit from the lowest bit; blocks that
 * have the bit come first. At this level `sides` holds not sides, but the ends in the order of the
 * list. */
PSTI_ICL_TARGET static void sort(struct psti_coefs_unit *unit)
{
    struct psti_pli_coefs *out = unit->out;
    struct blocks lists[2][2], *from = lists[0], *to = lists[1];
    for (uint32_t i = 0; i < 4; i++) { /* the planes are not used yet, so their memory holds the
                                        * lists */
        int16_t *room = unit->planes + 2 * i * out->stride;
        lists[i >> 1][i & 1] =
            (struct blocks){(uint8_t *)(room + out->stride), (uint16_t *)room, 0};
    }
    uint32_t some = list_blocks(unit, &from[0]);
    for (uint32_t bit = 1; bit < 64; bit <<= 1) {
        if ((some & bit) == 0)
            continue;
        to[0].n = to[1].n = 0;
        split(&from[0], bit, to);
        split(&from[1], bit, to);
        struct blocks *before = from;
        from = to;
        to = before;
    }
    uint32_t n = from[0].n;
    memcpy(unit->order, from[0].order, n * sizeof *unit->order);
    memcpy(unit->order + n, from[1].order, from[1].n * sizeof *unit->order);
    memcpy(unit->sides, from[0].ends, n);
    memcpy(unit->sides + n, from[1].ends, from[1].n);
    memset(unit->sides + out->n, 0, psti_round_up(out->n, PSTI_COEFS_SQUARE) - out->n);
    count(unit->sides, out);
}

/* -- The selection of wanted blocks -- */

enum { SIXTEENTHS = PSTI_JPEG_SQUARES_MAX * PSTI_COEFS_SQUARE / 16 };

/* Returns which of 32 blocks are wanted. `blocks` has their numbers. The table of 192 words is
 * looked up in thirds. */
PSTI_ICL_INLINE uint32_t wanted_of(const uint16_t table[SIXTEENTHS], __m512i blocks)
{
    __m512i index = _mm512_srli_epi16(blocks, 4);
    __m512i word = _mm512_permutex2var_epi16(load(table), index, load(table + 32));
    word =
        _mm512_mask_mov_epi16(word, _mm512_test_epi16_mask(index, _mm512_set1_epi16(64)),
                              _mm512_permutex2var_epi16(load(table + 64), index, load(table + 96)));
    word = _mm512_mask_mov_epi16(
        word, _mm512_test_epi16_mask(index, _mm512_set1_epi16(128)),
        _mm512_permutex2var_epi16(load(table + 128), index, load(table + 160)));
    __m512i up = _mm512_andnot_si512(blocks, _mm512_set1_epi16(15));
    return _mm512_movepi16_mask(_mm512_sllv_epi16(word, up));
}

PSTI_ICL_TARGET static void keep(struct psti_coefs_unit *unit, const uint64_t *wanted,
                                 struct psti_coefs_kept *kept)
{
    const struct psti_pli_coefs *out = unit->out;
    uint16_t table[SIXTEENTHS] = {0};
    uint32_t n = 0, group = 0;
    memcpy(table, wanted, out->n_squares * sizeof *wanted);
    for (uint32_t i = 0; i < out->n; i += 64, group++) {
        uint32_t left = out->n - i;
        __m512i low = load(unit->order + i), high = load(unit->order + i + 32);
        uint64_t lanes = wanted_of(table, low) | (uint64_t)wanted_of(table, high) << 32;
        lanes &= left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
        uint32_t n_low = (uint32_t)__builtin_popcount((uint32_t)lanes);
        kept->lanes[group] = lanes;
        kept->before[group] = (uint16_t)n;
        store(unit->order + n, psti_avx512_compress_words((uint32_t)lanes, low));
        store(unit->order + n + n_low, psti_avx512_compress_words((uint32_t)(lanes >> 32), high));
        n += (uint32_t)__builtin_popcountll(lanes);
    }
    kept->lanes[group] = 0;
    kept->before[group] = (uint16_t)n;
    for (uint32_t k = 0; k < 65; k++)
        kept->n_k[k] = psti_pli_coefs_count_kept(kept, out->n_k[k]);
}

const struct psti_coefs_level psti_coefs_level_avx512 = {
    .prepare = prepare,
    .read_classes = psti_pli_coefs_avx512_read_classes,
    .read_ends = psti_pli_coefs_avx512_read_ends,
    .sort = sort,
    .read_dc = psti_pli_coefs_avx512_read_dc,
    .read_ac = psti_pli_coefs_avx512_read_ac,
    .read_two = psti_pli_coefs_avx512_read_two,
    .keep = keep,
    .place_dc = psti_pli_coefs_avx512_place_dc,
    .place_ac = psti_pli_coefs_avx512_place_ac,
};
#endif
