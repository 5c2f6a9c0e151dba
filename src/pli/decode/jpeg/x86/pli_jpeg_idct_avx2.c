/* pli_jpeg_idct_avx2.c - coefficients -> samples with AVX2, 16 blocks at once:
 * pli_jpeg_idct_template.h.
 *
 * In and out: see pli_jpeg_int.h; plain C gives the same bytes. Pure; any thread. Where a part of
 * the unit is wanted, its blocks are moved together first. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))
#define VECTOR __m256i
#define MASK __m256i
#define OP(name) _mm256_##name

enum {
    LANES = 16,
    CHUNK = 64,              /* blocks that are moved together at a time */
    ROOM = CHUNK + 2 * LANES /* of a plane: those left from before, and a store's overhang */
};

INLINE __m256i load(const void *from) { return _mm256_loadu_si256(from); }
INLINE void store(void *to, __m256i v) { _mm256_storeu_si256(to, v); }
INLINE __m256i above(__m256i a, __m256i b) { return _mm256_cmpgt_epi16(a, b); }
INLINE __m256i choose(__m256i mask, __m256i no, __m256i yes)
{
    return _mm256_blendv_epi8(no, yes, mask);
}
INLINE uint32_t bits_of(__m256i mask) { return (uint32_t)_mm256_movemask_epi8(mask); }

INLINE __m256i pair(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}
INLINE __m256i add_products(__m256i sums, __m256i pairs, __m256i factors)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, factors));
}
INLINE __m256i plus_minus(__m256i sums, __m256i pairs, int a, int b, __m256i *minus)
{
    __m256i products = _mm256_madd_epi16(pairs, pair(a, b));
    *minus = _mm256_sub_epi32(sums, products);
    return _mm256_add_epi32(sums, products);
}

#include "pli/decode/jpeg/x86/pli_jpeg_idct_template.h"

/* Blocks that have been moved together: lanes 0..n-1 of its planes. */
struct gathered {
    struct work work;
    int16_t planes[64][ROOM];
    uint16_t order[ROOM];
    uint32_t n, last; /* planes above `last` are not there */
};
_Static_assert(sizeof(struct gathered) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

/* The shuffle that moves those of eight 16-bit values together whose bit is set. */
INLINE __m128i moving_together(uint32_t mask)
{
    uint64_t bytes = _pdep_u64(mask, UINT64_C(0x0101010101010101)) * 255;
    uint64_t numbers = _pext_u64(UINT64_C(0x0706050403020100), bytes);
    __m128i v = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)numbers));
    return _mm_add_epi16(_mm_mullo_epi16(v, _mm_set1_epi16(0x0202)), _mm_set1_epi16(0x0100));
}

/* Adds the wanted ones of the 64 blocks from list position i on, whose ends are at most `last`. */
TARGET static void gather(const struct psti_pli_jpeg_blocks *blocks, uint32_t i, uint32_t last,
                          struct gathered *g)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    uint64_t mask = psti_pli_jpeg_wanted_of(blocks, i, g->order + g->n);
    __m128i shuffles[8];
    uint32_t offsets[8], n = g->n;
    for (int j = 0; j < 8; j++) {
        shuffles[j] = moving_together((uint32_t)(mask >> (8 * j)) & 255);
        offsets[j] = n;
        n += (uint32_t)__builtin_popcount((uint32_t)(mask >> (8 * j)) & 255);
    }
    if (g->n == 0)
        g->last = last;
    for (uint32_t k = 0; k <= last && n > g->n; k++) {
        const int16_t *from = coefs->planes + k * coefs->stride + i;
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            _mm_storeu_si128(
                (void *)(g->planes[k] + offsets[j]),
                _mm_shuffle_epi8(_mm_load_si128((const void *)(from + 8 * j)), shuffles[j]));
    }
    for (uint32_t k = last + 1; k <= g->last; k++) /* blocks before these have more */
        memset(g->planes[k] + g->n, 0, CHUNK * sizeof g->planes[0][0]);
    g->n = n;
}

/* Whole groups of what has been gathered are done, the rest moves to the front. */
TARGET static void do_gathered(const struct unit *unit, uint32_t last, struct gathered *g)
{
    uint32_t done = 0;
    for (; g->n - done >= LANES; done += LANES) {
        struct group group = {g->planes[0] + done, ROOM, g->order + done, LANES, g->last};
        do_group(unit, &group, &g->work);
        g->last = last;
    }
    if (done == 0)
        return;
    g->n -= done;
    memmove(g->order, g->order + done, g->n * sizeof g->order[0]);
    for (uint32_t k = 0; k <= last && g->n > 0; k++)
        store(g->planes[k], load(g->planes[k] + done));
}

TARGET static void some_blocks(const struct unit *unit, struct gathered *g)
{
    const struct psti_pli_coefs *coefs = unit->blocks->coefs;
    uint32_t last = unit->last;
    g->n = 0;
    g->last = last;
    for (uint32_t i = 0; i < coefs->n; i += CHUNK) {
        last = psti_pli_jpeg_end_at(coefs, i, last);
        gather(unit->blocks, i, last, g);
        do_gathered(unit, last, g);
    }
    if (g->n > 0) {
        struct group group = {g->planes[0], ROOM, g->order, g->n, g->last};
        do_group(unit, &group, &g->work);
    }
}

TARGET void psti_pli_jpeg_idct_avx2(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    const struct unit unit = open_unit(blocks);
    if (blocks->all)
        all_blocks(&unit, work);
    else
        some_blocks(&unit, work);
}
#endif
