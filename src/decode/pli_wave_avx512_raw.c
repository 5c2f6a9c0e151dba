/* pli_wave_avx512_raw.c - raw bits of the wave decoder with AVX-512 VBMI: activities become
 * residuals.
 *
 * In: rows of activities, and the bits of the units with the low halves of their states; out: rows
 * of residuals, two for each. Pure functions, any thread. A row's R and S are about 64 bytes of
 * each unit's bits at most. Each eight lanes take those bytes that hold theirs, and each lane of
 * them its bits: at most 57 for eight lanes, wherever they begin. Rows that have more are rare and
 * take each four lanes' apart; rows without any S are not, and do without. */
#include "decode/pli_wave_avx512.h"

#if defined(__x86_64__)
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
    __m512i below; /* ones at those of `eights` that come before a word of a unit, 0..3 of each */
};

/* All of them, so that loops hold them in registers. */
struct constants {
    struct part first, second;
    __m512i one, two, seven, seven_64; /* bytes, and words */
    __m512i least_square, any;         /* activities */
    __m512i sums_before;   /* by this factor: bytes become sums of those below in their word */
    __m512i quarter, half; /* products of bits by these shift bytes to the right */
    __m512i more;          /* what sums are at least if there are more than MOST_OF_EIGHT */
    __m512i lasts;  /* bytes 0..3 of each word: the last ones of the unit's words of R; 4..7: S */
    __m512i bytes;  /* in each byte of a word, how many bits are a byte: 3 */
    __m512i lowest; /* the lowest byte of the word, in all its bytes */
    __m512i ascending; /* bytes of a word 0..7, + 64 of the second unit */
    /* By lower four bits: what R / 4 adds to, points' numbers or b less half of u; and u. */
    __m512i bases, sums;
    __m512i points_a[2], points_b[2];
};

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
    __m512i before_r = _mm512_mullo_epi64(size_r, c->sums_before);
    __m512i sums_r = _mm512_add_epi8(size_r, before_r); /* last bytes: of all eight */
    __m512i before_s = zero, sums_s = zero, most = sums_r;
    bool any_second = _mm512_cmpge_epu8_mask(g, c->least_square) != 0;
    if (any_second) {
        __m512i size_s = _mm512_shuffle_epi8(c->second.sizes, g);
        before_s = _mm512_mullo_epi64(size_s, c->sums_before);
        sums_s = _mm512_add_epi8(size_s, before_s);
        most = _mm512_max_epu8(sums_r, sums_s);
    }
    __m512i eights = _mm512_permutex2var_epi8(sums_r, c->lasts, sums_s);
    __m512i begin_r = _mm512_sad_epu8(_mm512_and_si512(c->first.below, eights), zero);
    __m512i begin_s = zero;
    if (any_second)
        begin_s = _mm512_sad_epu8(_mm512_and_si512(c->second.below, eights), zero);
    __m512i all = _mm512_sad_epu8(eights, zero);
    __m512i bit = _mm512_and_si512(*at, c->seven_64);
    uint64_t a = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(*at));
    uint64_t b = (uint64_t)_mm_cvtsi128_si64(_mm512_extracti32x4_epi32(*at, 2));
    struct row row = {.t = t,
                      .g = g,
                      .first = {before_r, _mm512_add_epi64(begin_r, bit)},
                      .second = {before_s, _mm512_add_epi64(begin_s, bit)},
                      .next = {bytes_at(sources, a), bytes_at(sources + 1, b)},
                      .many = _mm512_cmpge_epu64_mask(most, c->more) != 0,
                      .any_second = any_second};
    *at = _mm512_add_epi64(*at, all);
    return row;
}

/* The bits of each lane, and others above them, from windows of 64 bytes of each unit. */
INLINE __m512i deal(const struct constants *c, const uint8_t *const next[WAVE_UNITS],
                    const struct place *place)
{
    __m512i from = _mm512_multishift_epi64_epi8(c->bytes, place->begin);
    __m512i shift = _mm512_and_si512(_mm512_shuffle_epi8(place->begin, c->lowest), c->seven);
    __m512i bytes = _mm512_permutex2var_epi8(row_load(next[0]), _mm512_add_epi8(from, c->ascending),
                                             row_load(next[1]));
    return _mm512_multishift_epi64_epi8(_mm512_add_epi8(shift, place->before), bytes);
}

/* The same of rows with many bits: the upper four lanes of eight have words of their own. */
INLINE __m512i deal_fours(const struct constants *c, const uint8_t *const next[WAVE_UNITS],
                          const struct place *place)
{
    const __m512i firsts = _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0);
    const __m512i fourth = _mm512_or_si512(c->lowest, _mm512_set1_epi8(4));
    __m512i bytes = _mm512_srli_epi64(_mm512_permutexvar_epi64(firsts, place->begin), 3);
    __m512i begin = _mm512_sub_epi64(place->begin, _mm512_slli_epi64(bytes, 3));
    __m512i of_four = _mm512_shuffle_epi8(place->before, fourth);
    struct place low = {place->before, begin};
    struct place high = {_mm512_sub_epi8(place->before, of_four),
                         _mm512_add_epi64(begin, _mm512_srli_epi64(of_four, 56))};
    uint64_t skipped[8];
    row_store(skipped, bytes);
    const uint8_t *from[WAVE_UNITS] = {next[0] + skipped[0], next[1] + skipped[4]};
    return _mm512_mask_mov_epi8(deal(c, from, &low), 0xf0f0f0f0f0f0f0f0, deal(c, from, &high));
}

INLINE __m512i take(const struct constants *c, const struct part *part, const struct row *r,
                    const struct place *place, bool many)
{
    __m512i v = many ? deal_fours(c, r->next, place) : deal(c, r->next, place);
    return _mm512_and_si512(v, _mm512_shuffle_epi8(part->masks, r->g));
}

/* A row whose bits have been taken: R, and S. */
struct taken {
    uint32_t t;
    __m512i g, first, second;
    bool any_second;
};

INLINE struct taken take_row(const struct constants *c, const struct row *r, bool many)
{
    struct taken taken = {.t = r->t,
                          .g = r->g,
                          .first = take(c, &c->first, r, &r->first, many),
                          .any_second = r->any_second};
    if (r->any_second)
        taken.second = take(c, &c->second, r, &r->second, many);
    return taken;
}

TARGET __attribute__((noinline)) static void take_many(const struct constants *c,
                                                       const struct row *r, struct taken *taken)
{
    *taken = take_row(c, r, true);
}

INLINE struct taken take_any(const struct constants *c, const struct row *r)
{
    struct taken taken = take_row(c, r, false);
    if (r->many) {
        struct row row = *r;
        struct taken many;
        take_many(c, &row, &many);
        taken = many;
    }
    return taken;
}

/* Points, not yet turned; how often they are is the lower two bits of `turns`. */
struct points {
    __m512i a, b, turns;
};

/* Those of tokens that have S. */
INLINE void find_squares(const struct constants *c, const struct taken *r, struct points *p,
                         __m512i number)
{
    __mmask64 squares = _mm512_cmpge_epu8_mask(r->g, c->least_square);
    __mmask64 any = _mm512_cmpeq_epi8_mask(r->g, c->any);
    __m512i u = _mm512_add_epi8(r->second, _mm512_shuffle_epi8(c->sums, r->g));
    __m512i b = _mm512_add_epi8(_mm512_gf2p8affine_epi64_epi8(u, c->half, 0), number);
    p->a = _mm512_mask_sub_epi8(p->a, squares, u, b);
    p->b = _mm512_mask_mov_epi8(p->b, squares, b);
    p->a = _mm512_mask_mov_epi8(p->a, any, r->first);
    p->b = _mm512_mask_mov_epi8(p->b, any, u);
    p->turns = _mm512_mask_mov_epi8(r->first, any, _mm512_setzero_si512());
}

INLINE void rebuild_row(const struct constants *c, uint8_t (*rows)[2 * WAVE_ROW],
                        const struct taken *r)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i number = _mm512_add_epi8(_mm512_gf2p8affine_epi64_epi8(r->first, c->quarter, 0),
                                     _mm512_shuffle_epi8(c->bases, r->g));
    struct points p = {_mm512_permutex2var_epi8(c->points_a[0], number, c->points_a[1]),
                       _mm512_permutex2var_epi8(c->points_b[0], number, c->points_b[1]), r->first};
    if (r->any_second)
        find_squares(c, r, &p, number);
    __mmask64 once = _mm512_test_epi8_mask(p.turns, c->one);
    __mmask64 twice = _mm512_test_epi8_mask(p.turns, c->two);
    __m512i x = _mm512_mask_mov_epi8(p.a, once, p.b), y = _mm512_mask_mov_epi8(p.b, once, p.a);
    row_store(rows[r->t], _mm512_mask_sub_epi8(x, once ^ twice, zero, x));
    row_store(rows[r->t] + WAVE_ROW, _mm512_mask_sub_epi8(y, twice, zero, y));
}

/* Returns where in the bits each unit is behind the last row. While a row's residuals are made, the
 * bits of the next are taken and those of the one after it found: a processor's queues are too
 * short to find that by themselves. (Rows behind the last are found, too.) */
INLINE void run_rows(const struct constants *c, uint8_t (*rows)[2 * WAVE_ROW], uint32_t n_rows,
                     const struct source sources[WAVE_UNITS], uint64_t ends[WAVE_UNITS])
{
    __m512i at = _mm512_setzero_si512();
    const uint8_t(*in)[2 * WAVE_ROW] = (const uint8_t(*)[2 * WAVE_ROW]) rows;
    struct row row = find_row(c, in, 0, sources, &at);
    struct taken taken = take_any(c, &row);
    row = find_row(c, in, 1, sources, &at);
    for (uint32_t t = 2; t < n_rows; t++) {
        struct row next = find_row(c, in, t, sources, &at);
        struct taken this = take_any(c, &row);
        rebuild_row(c, rows, &taken);
        row = next;
        taken = this;
    }
    rebuild_row(c, rows, &taken);
    taken = take_any(c, &row);
    rebuild_row(c, rows, &taken);
    ends[0] = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(at));
    ends[1] = (uint64_t)_mm_cvtsi128_si64(_mm512_extracti32x4_epi32(at, 2));
}

/* -- Units -- */

TARGET static struct part make_part(const uint8_t *sizes, uint32_t n_before)
{
    uint8_t masks[16], below[64];
    for (uint32_t i = 0; i < 64; i++)
        below[i] = (i & 7) < n_before + (i >> 3 & 3) ? 255 : 0;
    for (uint32_t i = 0; i < 16; i++)
        masks[i] = (uint8_t)((1u << sizes[i]) - 1);
    return (struct part){same_16(sizes), same_16(masks), row_load(below)};
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
        .first = make_part(psti_pli_wave_first_bits_of, 0),
        .second = make_part(psti_pli_wave_second_bits_of, 4),
        .one = _mm512_set1_epi8(1),
        .two = _mm512_set1_epi8(2),
        .least_square = _mm512_set1_epi8(PSTI_PLI_WAVE_SQUARE_ACTIVITY),
        .any = _mm512_set1_epi8(PSTI_PLI_WAVE_ANY_ACTIVITY),
        .seven = _mm512_set1_epi8(7),
        .seven_64 = _mm512_set1_epi64(7),
        .sums_before = _mm512_set1_epi64(0x0101010101010100),
        .quarter = _mm512_set1_epi64(0x0408102040800000),
        .half = _mm512_set1_epi64(0x0204081020408000),
        .more = _mm512_set1_epi64((int64_t)((MOST_OF_EIGHT + 1ull) << 56)),
        .bytes = _mm512_set1_epi8(3),
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
    run_rows(&c, (uint8_t(*)[2 * WAVE_ROW]) job->memory->rows, job->heads[0]->n_token_steps,
             sources, ends);
    for (uint32_t u = 0; u < job->n_units; u++)
        lacks[u] = ends[u] > 8 * sources[u].nbytes;
}
#endif
