/* pli_wave_avx512_raw.c - signs and raw bits of the wave decoder with AVX-512 VBMI: activities
 * become residuals.
 *
 * In: rows of activities, and the bits of the units with the low halves of their states; out: rows
 * of residuals. Pure functions, any thread. A row needs at most 32 bytes of each unit's bits. Each
 * eight lanes take those bytes that hold theirs, and each lane of them its bits: at most 57 for
 * eight lanes, wherever they begin. Rows that have more are rare and go lane by lane. */
#include "decode/pli_wave_avx512.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <string.h>

enum { MOST_OF_EIGHT = 57 /* bits */ };

/* Of one unit. */
struct source {
    const uint8_t *bytes;
    uint64_t nbytes; /* zeros follow */
};

/* All of them, so that loops hold them in registers. */
struct constants {
    __m512i one, seven, seven_64; /* bytes, and words */
    __m512i sums_before;  /* by this factor: bytes become sums of those below in their word */
    __m512i half, eighth; /* products of bits by these shift bytes to the right */
    __m512i more;         /* what sums are at least if there are more than MOST_OF_EIGHT */
    __m512i sizes, masks, bases; /* by lower four bits */
    __m512i lasts;               /* bytes 0..3 of each word: the last ones of the unit's words */
    __m512i lowest;              /* the lowest byte of the word, in all its bytes */
    __m512i ascending;           /* bytes of a word 0..7, + 32 of the second unit */
};

/* Where eight lanes' bits begin among those of their unit's row: of words 0..3 of each unit. */
#define WORDS_BEFORE 0x0703010007030100ull

/* -- Rows with many bits -- */

/* A row's bits begin at `bit` of `bytes`. */
static void lane_by_lane(uint8_t *row, const uint8_t *bytes, uint32_t bit)
{
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        uint32_t which = row[l] & 15, size = psti_pli_wave_all_bits_of[which];
        uint32_t v = (uint32_t)psti_load_u16(bytes + (bit >> 3)) >> (bit & 7);
        v &= (1u << size) - 1;
        uint32_t m = psti_pli_wave_bases_of[which] + (v >> 1);
        row[l] = (uint8_t)((v & 1) != 0 ? 0 - m : m);
        bit += size;
    }
}

/* -- Rows -- */

/* A row whose bits have been found: */
struct row {
    uint32_t t;
    __m512i g;
    __m512i before; /* where each lane's begin among its eight lanes', */
    __m512i begin;  /* and the eight's after the byte where the unit's begin; in words */
    const uint8_t *next[WAVE_UNITS]; /* these bytes */
    bool many;
};

INLINE const uint8_t *bytes_at(const struct source *source, uint64_t at)
{
    return source->bytes + (at >> 3 < source->nbytes ? at >> 3 : source->nbytes);
}

/* `at`: the next bit of the unit, in each of its words. */
INLINE struct row find_row(const struct constants *c, const uint8_t (*rows)[WAVE_ROW], uint32_t t,
                           const struct source sources[WAVE_UNITS], __m512i *at)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i g = row_load(rows[t]), size = _mm512_shuffle_epi8(c->sizes, g);
    __m512i before = _mm512_mullo_epi64(size, c->sums_before);
    __m512i sums = _mm512_add_epi8(size, before); /* last bytes: of all eight */
    __m512i eights = _mm512_permutexvar_epi8(c->lasts, sums);
    __m512i begin = _mm512_sad_epu8(_mm512_maskz_mov_epi8(WORDS_BEFORE, eights), zero);
    __m512i all = _mm512_sad_epu8(_mm512_maskz_mov_epi8(0x0f0f0f0f0f0f0f0f, eights), zero);
    uint64_t a = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(*at));
    uint64_t b = (uint64_t)_mm_cvtsi128_si64(_mm512_extracti32x4_epi32(*at, 2));
    struct row row = {.t = t,
                      .g = g,
                      .before = before,
                      .begin = _mm512_add_epi64(begin, _mm512_and_si512(*at, c->seven_64)),
                      .next = {bytes_at(sources, a), bytes_at(sources + 1, b)},
                      .many = _mm512_cmpge_epu64_mask(sums, c->more) != 0};
    *at = _mm512_add_epi64(*at, all);
    return row;
}

INLINE __m256i load_32(const uint8_t *at) { return _mm256_loadu_si256((const void *)at); }

INLINE void rebuild_row(const struct constants *c, uint8_t (*rows)[WAVE_ROW], const struct row *r)
{
    __m512i window = _mm512_castsi256_si512(load_32(r->next[0]));
    window = _mm512_inserti64x4(window, load_32(r->next[1]), 1);
    __m512i begin = _mm512_shuffle_epi8(r->begin, c->lowest);
    __m512i from =
        _mm512_add_epi8(_mm512_gf2p8affine_epi64_epi8(begin, c->eighth, 0), c->ascending);
    __m512i shift = _mm512_add_epi8(_mm512_and_si512(begin, c->seven), r->before);
    __m512i v = _mm512_multishift_epi64_epi8(shift, _mm512_permutexvar_epi8(from, window));
    v = _mm512_and_si512(v, _mm512_shuffle_epi8(c->masks, r->g));
    __m512i m = _mm512_shuffle_epi8(c->bases, r->g);
    m = _mm512_add_epi8(m, _mm512_gf2p8affine_epi64_epi8(v, c->half, 0));
    __mmask64 negative = _mm512_test_epi8_mask(v, c->one);
    row_store(rows[r->t], _mm512_mask_sub_epi8(m, negative, _mm512_setzero_si512(), m));
    if (r->many) {
        uint64_t bits[8];
        row_store(bits, r->begin);
        row_store(rows[r->t], r->g);
        lane_by_lane(rows[r->t], r->next[0], (uint32_t)bits[0]);
        lane_by_lane(rows[r->t] + WAVE_LANES, r->next[1], (uint32_t)bits[4]);
    }
}

/* Returns where in the bits each unit is behind the last row. Each row's bits are found while those
 * of the one before are taken: a processor's queues are too short to find that by themselves. */
INLINE void run_rows(const struct constants *c, uint8_t (*rows)[WAVE_ROW], uint32_t n_rows,
                     const struct source sources[WAVE_UNITS], uint64_t ends[WAVE_UNITS])
{
    __m512i at = _mm512_setzero_si512();
    struct row row = find_row(c, (const uint8_t(*)[WAVE_ROW])rows, 0, sources, &at);
    for (uint32_t t = 1; t < n_rows; t++) {
        struct row next = find_row(c, (const uint8_t(*)[WAVE_ROW])rows, t, sources, &at);
        rebuild_row(c, rows, &row);
        row = next;
    }
    rebuild_row(c, rows, &row);
    ends[0] = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(at));
    ends[1] = (uint64_t)_mm_cvtsi128_si64(_mm512_extracti32x4_epi32(at, 2));
}

/* -- Units -- */

TARGET __attribute__((noinline)) static struct constants make_constants(void)
{
    uint8_t masks[16], lasts[64], lowest[64], ascending[64];
    for (uint32_t i = 0; i < 16; i++)
        masks[i] = (uint8_t)((1u << psti_pli_wave_all_bits_of[i]) - 1);
    for (uint32_t i = 0; i < 64; i++) {
        lasts[i] = (uint8_t)((i & 32) + 8 * (i & 3) + 7);
        lowest[i] = i & 8;
        ascending[i] = (uint8_t)((i & 32) + (i & 7));
    }
    return (struct constants){
        .one = _mm512_set1_epi8(1),
        .seven = _mm512_set1_epi8(7),
        .seven_64 = _mm512_set1_epi64(7),
        .sums_before = _mm512_set1_epi64(0x0101010101010100),
        .half = _mm512_set1_epi64(0x0204081020408000),
        .eighth = _mm512_set1_epi64(0x0810204080000000),
        .more = _mm512_set1_epi64((int64_t)((MOST_OF_EIGHT + 1ull) << 56)),
        .sizes = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)psti_pli_wave_all_bits_of)),
        .masks = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)masks)),
        .bases = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)psti_pli_wave_bases_of)),
        .lasts = row_load(lasts),
        .lowest = row_load(lowest),
        .ascending = row_load(ascending),
    };
}

/* A unit's bits, its states' halves behind them, zeros behind those. */
TARGET static struct source open_bits(const struct psti_pli_wave512_job *job, uint32_t u)
{
    const struct psti_pli_wave_head *head = job->heads[u];
    uint8_t *bits = job->memory->bits[u];
    /* Samples need no more. */
    size_t n = head->raw_nbytes < WAVE_MAX_RAW_NBYTES ? head->raw_nbytes : WAVE_MAX_RAW_NBYTES;
    memcpy(bits, head->raw, n);
    memcpy(bits + n, job->low[u], PSTI_PLI_WAVE_STATE_NBYTES_8);
    n += PSTI_PLI_WAVE_STATE_NBYTES_8;
    memset(bits + n, 0, WAVE_BEHIND);
    return (struct source){bits, n};
}

TARGET void psti_pli_wave512_raw_bits(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS])
{
    const struct constants c = make_constants();
    struct source sources[WAVE_UNITS];
    uint64_t ends[WAVE_UNITS];
    sources[0] = open_bits(job, 0);
    sources[1] = job->n_units > 1 ? open_bits(job, 1) : sources[0]; /* means nothing */
    run_rows(&c, job->memory->rows, job->heads[0]->n_steps, sources, ends);
    for (uint32_t u = 0; u < job->n_units; u++)
        lacks[u] = ends[u] > 8 * sources[u].nbytes;
}
#endif
