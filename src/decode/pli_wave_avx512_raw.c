/* pli_wave_avx512_raw.c - raw bits of the wave decoder with AVX-512 VBMI: activities become
 * residuals.
 *
 * In: rows of activities, and the bits of the units with the low halves of their states; out: rows
 * of residuals, two for each. Pure functions, any thread. A row's R and S are at most 64 bytes of
 * each unit's bits. Each eight lanes take those bytes that hold theirs, and each lane of them its
 * bits: at most 57 for eight lanes, wherever they begin. Rows that have more are rare and go lane by
 * lane; rows without any S are not and do without. */
#include "decode/pli_wave_avx512.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <string.h>

enum {
    MOST_OF_EIGHT = 57, /* bits */
    NO_POINT = 127      /* a point that no token has: here it is (0, 0) */
};

/* Of one unit. */
struct source {
    const uint8_t *bytes;
    uint64_t nbytes; /* zeros follow */
};

/* What is the same for R and S, by lower four bits. */
struct part {
    __m512i sizes, masks;
};

/* All of them, so that loops hold them in registers. */
struct constants {
    struct part first, second;
    __m512i seven, seven_64; /* bytes, and words */
    __m512i sums_before;     /* by this factor: bytes become sums of those below in their word */
    __m512i quarter, half;   /* products of bits by these shift bytes to the right */
    __m512i more;            /* what sums are at least if there are more than MOST_OF_EIGHT */
    __m512i lasts;     /* bytes 0..3 of each word: the last ones of the unit's words of R; 4..7: S */
    __m512i lowest;    /* the lowest byte of the word, in all its bytes */
    __m512i ascending; /* bytes of a word 0..7, + 64 of the second unit */
    /* By lower four bits: what R / 4 adds to, points' numbers or b less half of u; and u. */
    __m512i bases, sums;
    __m512i points_a[2], points_b[2];
};

/* Where eight lanes' R begin among those of their unit's row, and S: of words 0..3 of each. */
#define WORDS_BEFORE 0x0703010007030100ull
#define ALL_R 0x0f0f0f0f0f0f0f0full

/* -- Rows with many bits -- */

static uint8_t take(const uint8_t *bytes, uint32_t *bit, uint32_t size)
{
    uint32_t v = (uint32_t)psti_load_u16(bytes + (*bit >> 3)) >> (*bit & 7);
    *bit += size;
    return (uint8_t)(v & ((1u << size) - 1));
}

/* A row's bits begin at `bit` of `bytes`. */
static void lane_by_lane(const uint8_t *activities, const uint8_t *bytes, uint32_t bit, uint8_t *xs,
                         uint8_t *ys)
{
    struct psti_pli_wave_coded_pair coded[WAVE_LANES];
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        uint32_t which = activities[l] & 15;
        coded[l].token = psti_pli_wave_tokens_of[which];
        coded[l].first = take(bytes, &bit, psti_pli_wave_first_bits_of[which]);
    }
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        coded[l].second = take(bytes, &bit, psti_pli_wave_second_bits[coded[l].token]);
        struct psti_pli_wave_pair pair = psti_pli_wave_find_pair(coded[l]);
        xs[l] = pair.x;
        ys[l] = pair.y;
    }
}

/* -- Rows -- */

/* Where eight lanes' bits of one part are: */
struct place {
    __m512i before; /* each lane's begin among its eight lanes', */
    __m512i begin;  /* and the eight's after the byte where the unit's begin; in words */
};

/* A row whose bits have been found. */
struct row {
    uint32_t t;
    __m512i g;
    struct place first, second;
    const uint8_t *next[WAVE_UNITS]; /* the byte where its bits begin */
    bool many, any_second;
};

INLINE const uint8_t *bytes_at(const struct source *source, uint64_t at)
{
    return source->bytes + (at >> 3 < source->nbytes ? at >> 3 : source->nbytes);
}

/* `at`: the next bit of the unit, in each of its words. */
INLINE struct row find_row(const struct constants *c, const uint8_t (*rows)[2 * WAVE_ROW],
                           uint32_t t, const struct source sources[WAVE_UNITS], __m512i *at)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i g = row_load(rows[t]);
    __m512i size_r = _mm512_shuffle_epi8(c->first.sizes, g);
    __m512i size_s = _mm512_shuffle_epi8(c->second.sizes, g);
    __m512i before_r = _mm512_mullo_epi64(size_r, c->sums_before);
    __m512i before_s = _mm512_mullo_epi64(size_s, c->sums_before);
    __m512i sums_r = _mm512_add_epi8(size_r, before_r); /* last bytes: of all eight */
    __m512i sums_s = _mm512_add_epi8(size_s, before_s);
    __m512i eights = _mm512_permutex2var_epi8(sums_r, c->lasts, sums_s);
    __m512i begin_r = _mm512_sad_epu8(_mm512_maskz_mov_epi8(WORDS_BEFORE, eights), zero);
    __m512i begin_s =
        _mm512_sad_epu8(_mm512_maskz_mov_epi8(WORDS_BEFORE << 4 | ALL_R, eights), zero);
    __m512i all = _mm512_sad_epu8(eights, zero);
    __m512i bit = _mm512_and_si512(*at, c->seven_64);
    uint64_t a = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(*at));
    uint64_t b = (uint64_t)_mm_cvtsi128_si64(_mm512_extracti32x4_epi32(*at, 2));
    __m512i most = _mm512_max_epu8(sums_r, sums_s);
    struct row row = {.t = t,
                      .g = g,
                      .first = {before_r, _mm512_add_epi64(begin_r, bit)},
                      .second = {before_s, _mm512_add_epi64(begin_s, bit)},
                      .next = {bytes_at(sources, a), bytes_at(sources + 1, b)},
                      .many = _mm512_cmpge_epu64_mask(most, c->more) != 0,
                      .any_second = _mm512_test_epi8_mask(size_s, size_s) != 0};
    *at = _mm512_add_epi64(*at, all);
    return row;
}

/* The bits of each lane. */
INLINE __m512i deal(const struct constants *c, const struct part *part, const struct row *r,
                    const struct place *place)
{
    __m512i from = _mm512_shuffle_epi8(_mm512_srli_epi64(place->begin, 3), c->lowest);
    __m512i shift = _mm512_and_si512(_mm512_shuffle_epi8(place->begin, c->lowest), c->seven);
    __m512i bytes = _mm512_permutex2var_epi8(
        row_load(r->next[0]), _mm512_add_epi8(from, c->ascending), row_load(r->next[1]));
    __m512i v = _mm512_multishift_epi64_epi8(_mm512_add_epi8(shift, place->before), bytes);
    return _mm512_and_si512(v, _mm512_shuffle_epi8(part->masks, r->g));
}

/* Points, not yet turned; how often they are is the lower two bits of `turns`. */
struct points {
    __m512i a, b, turns;
};

/* Those of tokens that have S. */
INLINE void find_squares(const struct constants *c, const struct row *r, struct points *p,
                         __m512i first, __m512i number)
{
    const __m512i least =
        _mm512_set1_epi8((char)psti_pli_wave_activities[PSTI_PLI_WAVE_FIRST_SQUARE]);
    const __m512i top = _mm512_set1_epi8(PSTI_PLI_WAVE_ANY_ACTIVITY);
    __mmask64 squares = _mm512_cmpge_epu8_mask(r->g, least);
    __mmask64 any = _mm512_cmpeq_epi8_mask(r->g, top);
    __m512i u = deal(c, &c->second, r, &r->second);
    u = _mm512_add_epi8(u, _mm512_shuffle_epi8(c->sums, r->g));
    __m512i b = _mm512_add_epi8(_mm512_gf2p8affine_epi64_epi8(u, c->half, 0), number);
    p->a = _mm512_mask_sub_epi8(p->a, squares, u, b);
    p->b = _mm512_mask_mov_epi8(p->b, squares, b);
    p->a = _mm512_mask_mov_epi8(p->a, any, first);
    p->b = _mm512_mask_mov_epi8(p->b, any, u);
    p->turns = _mm512_mask_mov_epi8(first, any, _mm512_setzero_si512());
}

INLINE void rebuild_row(const struct constants *c, uint8_t (*rows)[2 * WAVE_ROW],
                        const struct row *r)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i first = deal(c, &c->first, r, &r->first);
    __m512i number = _mm512_add_epi8(_mm512_gf2p8affine_epi64_epi8(first, c->quarter, 0),
                                     _mm512_shuffle_epi8(c->bases, r->g));
    struct points p = {_mm512_permutex2var_epi8(c->points_a[0], number, c->points_a[1]),
                       _mm512_permutex2var_epi8(c->points_b[0], number, c->points_b[1]), first};
    if (r->any_second)
        find_squares(c, r, &p, first, number);
    __mmask64 once = _mm512_test_epi8_mask(p.turns, _mm512_set1_epi8(1));
    __mmask64 twice = _mm512_test_epi8_mask(p.turns, _mm512_set1_epi8(2));
    __m512i x = _mm512_mask_mov_epi8(p.a, once, p.b), y = _mm512_mask_mov_epi8(p.b, once, p.a);
    row_store(rows[r->t], _mm512_mask_sub_epi8(x, once ^ twice, zero, x));
    row_store(rows[r->t] + WAVE_ROW, _mm512_mask_sub_epi8(y, twice, zero, y));
    if (r->many) {
        uint64_t bits[8];
        uint8_t activities[WAVE_ROW];
        row_store(bits, r->first.begin);
        row_store(activities, r->g);
        for (uint32_t u = 0; u < WAVE_UNITS; u++) {
            uint8_t *xs = rows[r->t] + WAVE_LANES * u;
            lane_by_lane(activities + WAVE_LANES * u, r->next[u], (uint32_t)bits[4 * u], xs,
                         xs + WAVE_ROW);
        }
    }
}

/* Returns where in the bits each unit is behind the last row. Each row's bits are found while those
 * of the one before are taken: a processor's queues are too short to find that by themselves. */
INLINE void run_rows(const struct constants *c, uint8_t (*rows)[2 * WAVE_ROW], uint32_t n_rows,
                     const struct source sources[WAVE_UNITS], uint64_t ends[WAVE_UNITS])
{
    __m512i at = _mm512_setzero_si512();
    struct row row = find_row(c, (const uint8_t(*)[2 * WAVE_ROW])rows, 0, sources, &at);
    for (uint32_t t = 1; t < n_rows; t++) {
        struct row next = find_row(c, (const uint8_t(*)[2 * WAVE_ROW])rows, t, sources, &at);
        rebuild_row(c, rows, &row);
        row = next;
    }
    rebuild_row(c, rows, &row);
    ends[0] = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(at));
    ends[1] = (uint64_t)_mm_cvtsi128_si64(_mm512_extracti32x4_epi32(at, 2));
}

/* -- Units -- */

TARGET static struct part make_part(const uint8_t *sizes)
{
    uint8_t masks[16];
    for (uint32_t i = 0; i < 16; i++)
        masks[i] = (uint8_t)((1u << sizes[i]) - 1);
    return (struct part){same_16(sizes), same_16(masks)};
}

TARGET static void make_points(struct constants *c)
{
    uint8_t bases[16], sums[16], a[128], b[128];
    for (uint32_t i = 0; i < 16; i++) {
        uint8_t token = psti_pli_wave_tokens_of[i], base = psti_pli_wave_bases_of[i];
        bool square = token >= PSTI_PLI_WAVE_FIRST_SQUARE;
        bases[i] = token == 0 ? NO_POINT : square ? (uint8_t)(0 - base) : base;
        sums[i] = square && token < PSTI_PLI_WAVE_ANY_PAIR
                      ? (uint8_t)(1u << psti_pli_wave_second_bits_of[i])
                      : 0;
    }
    memcpy(a, psti_pli_wave_points_a, sizeof a);
    memcpy(b, psti_pli_wave_points_b, sizeof b);
    a[NO_POINT] = b[NO_POINT] = 0;
    c->bases = same_16(bases);
    c->sums = same_16(sums);
    for (uint32_t i = 0; i < 2; i++) {
        c->points_a[i] = row_load(a + 64 * i);
        c->points_b[i] = row_load(b + 64 * i);
    }
}

TARGET __attribute__((noinline)) static struct constants make_constants(void)
{
    uint8_t lasts[64], lowest[64], ascending[64];
    for (uint32_t i = 0; i < 64; i++) {
        lasts[i] = (uint8_t)((i & 32) + 8 * (i & 3) + 7 + 16 * (i & 4));
        lowest[i] = i & 8;
        ascending[i] = (uint8_t)(2 * (i & 32) + (i & 7));
    }
    struct constants c = {
        .first = make_part(psti_pli_wave_first_bits_of),
        .second = make_part(psti_pli_wave_second_bits_of),
        .seven = _mm512_set1_epi8(7),
        .seven_64 = _mm512_set1_epi64(7),
        .sums_before = _mm512_set1_epi64(0x0101010101010100),
        .quarter = _mm512_set1_epi64(0x0408102040800000),
        .half = _mm512_set1_epi64(0x0204081020408000),
        .more = _mm512_set1_epi64((int64_t)((MOST_OF_EIGHT + 1ull) << 56)),
        .lasts = row_load(lasts),
        .lowest = row_load(lowest),
        .ascending = row_load(ascending),
    };
    make_points(&c);
    return c;
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
    run_rows(&c, (uint8_t(*)[2 * WAVE_ROW])job->memory->rows, job->heads[0]->n_steps / 2, sources,
             ends);
    for (uint32_t u = 0; u < job->n_units; u++)
        lacks[u] = ends[u] > 8 * sources[u].nbytes;
}
#endif
