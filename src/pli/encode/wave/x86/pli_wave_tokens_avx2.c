/* pli_wave_tokens_avx2.c - tokens, contexts and records of the wave mode's encoder with AVX2. The
 * numbers are those of plain C. */
#include "pli/encode/wave/pli_wave_encode_int.h"
#include "pli/encode/wave/x86/pli_wave_lanes_avx2_u16.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { HALF = 32 };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

/* Loads a table of 16 bytes into both halves of a vector. */
INLINE __m256i load_table(const uint8_t *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

/* Returns the tokens of 16 residuals in lanes of 16 bits. From magnitude 32 on, the token follows
 * from the exponent and the first bit of the fraction of a float, which holds the magnitude
 * exactly. */
INLINE __m256i tokens_of_u16(__m256i residuals)
{
    enum { FRACTION = 23, BIAS = 127, FIRST = 25 - 2 * 5 };
    const __m256i zero = _mm256_setzero_si256();
    __m256i m = _mm256_abs_epi16(residuals); /* -32768 becomes 32768 */
    __m256 low = _mm256_cvtepi32_ps(_mm256_unpacklo_epi16(m, zero));
    __m256 high = _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(m, zero));
    __m256i large = _mm256_packus_epi32(_mm256_srli_epi32(_mm256_castps_si256(low), FRACTION - 1),
                                        _mm256_srli_epi32(_mm256_castps_si256(high), FRACTION - 1));
    large = _mm256_sub_epi16(large, _mm256_set1_epi16(2 * BIAS - FIRST));
    __m256i direct = _mm256_min_epu16(m, _mm256_set1_epi16(PSTI_PLI_DIRECT));
    __m256i below_32 = _mm256_cmpeq_epi16(_mm256_srli_epi16(m, 5), zero);
    return _mm256_blendv_epi8(large, direct, below_32);
}

TARGET void psti_pli_wave_find_activities_u16_avx2(const int16_t *residuals, uint32_t width,
                                                   uint8_t *g)
{
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += HALF) {
        __m256i low = tokens_of_u16(load(residuals + x));
        __m256i high = tokens_of_u16(load(residuals + x + 16));
        low = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
        _mm256_storeu_si256((__m256i *)(g + x), low);
    }
    memset(g + width, 0, PSTI_WAVE_EDGE - width);
}

INLINE __m256i half_up(__m256i v) { return _mm256_avg_epu8(v, _mm256_setzero_si256()); }
/* Returns half of the sum, rounded down. */
INLINE __m256i half_of(__m256i a, __m256i b)
{
    __m256i odd = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi8(1));
    return _mm256_sub_epi8(_mm256_avg_epu8(a, b), odd);
}

/* Returns energies (docs/format-pli.md, 5.6), halved. Tokens are at most 46, so no byte overflows.
 * `own` is g0 or g1. */
INLINE __m256i energies_u16(enum psti_pli_energy kind, __m256i cross, __m256i far, __m256i own)
{
    if (kind == PSTI_PLI_ENERGY_FIRST)
        return _mm256_add_epi8(cross, half_of(far, _mm256_setzero_si256()));
    far = _mm256_add_epi8(far, half_up(cross));
    if (kind == PSTI_PLI_ENERGY_SECOND)
        return half_of(cross, _mm256_add_epi8(far, half_up(own)));
    return _mm256_add_epi8(half_of(cross, far), own);
}

/* The tables from which three shuffles look up Q[energy]. From energy 32 on, Q depends only on
 * energy >> 4. */
struct buckets {
    __m256i below_16, below_32, others;
};

INLINE struct buckets load_buckets(uint32_t bits)
{
    const uint8_t *bucket = psti_pli_wave_bucket[bits == 16];
    _Alignas(16) uint8_t coarse[16];
    for (uint32_t i = 0; i < 16; i++)
        coarse[i] = bucket[16 * i];
    return (struct buckets){.below_16 = load_table(bucket),
                            .below_32 = load_table(bucket + 16),
                            .others = load_table(coarse)};
}

INLINE __m256i bucket_of(const struct buckets *b, __m256i e)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i low = _mm256_and_si256(e, nibble);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(e, 4), nibble);
    __m256i of_1 = _mm256_cmpeq_epi8(high, _mm256_set1_epi8(1));
    __m256i of_0 = _mm256_cmpeq_epi8(high, _mm256_setzero_si256());
    __m256i c = _mm256_shuffle_epi8(b->others, high);
    c = _mm256_blendv_epi8(c, _mm256_shuffle_epi8(b->below_32, low), of_1);
    return _mm256_blendv_epi8(c, _mm256_shuffle_epi8(b->below_16, low), of_0);
}

/* 32 coded pairs. raw[0] holds x and y of pairs 0..15 as they were, raw[1] those of pairs 16..31.
 * The other members are bytes in the order of _mm256_packus_epi16(); interleaving them brings them
 * into order again. `first` is R, except for the token of any pair, and `second` is S. Bits above
 * those that a token has mean nothing. */
struct pairs {
    __m256i raw[2], token, first, second;
};

/* The points of 16 pairs: d = |x| + |y|, b (`up` of docs/format-pli.md, 5.4), the number of right
 * angles by which the point was rotated, and q + 5 as far as it matters (`nth` of 5.4 is q). */
struct points {
    __m256i d, b, turns, q_5;
};
INLINE struct points find_points(__m256i raw)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i magnitudes = _mm256_abs_epi8(raw); /* -128 becomes 128 */
    __m256i d = _mm256_maddubs_epi16(magnitudes, _mm256_set1_epi8(1));
    __m256i x = _mm256_srai_epi16(_mm256_slli_epi16(raw, 8), 8), y = _mm256_srai_epi16(raw, 8);
    __m256i b = _mm256_sign_epi16(y, x);
    __m256i odd = _mm256_or_si256(_mm256_cmpgt_epi16(zero, b), _mm256_cmpeq_epi16(x, zero));
    __m256i negative = _mm256_srli_epi16(_mm256_blendv_epi8(x, y, odd), 14);
    b = _mm256_blendv_epi8(b, _mm256_and_si256(magnitudes, _mm256_set1_epi16(UINT8_MAX)), odd);
    __m256i q = _mm256_mullo_epi16(d, _mm256_sub_epi16(d, _mm256_set1_epi16(1)));
    q = _mm256_add_epi16(_mm256_srli_epi16(q, 1), _mm256_add_epi16(b, _mm256_set1_epi16(5)));
    return (struct points){
        .d = d,
        .b = b,
        .turns = _mm256_sub_epi16(_mm256_and_si256(negative, _mm256_set1_epi16(2)), odd),
        .q_5 = _mm256_min_epu16(q, _mm256_set1_epi16(UINT8_MAX))};
}

/* Returns tokens 1 to 10. They begin where q + 5 is 4, 6, 8, 12, 16, 24, .., 96. The result is 0
 * from 128 on. */
INLINE __m256i small_tokens(__m256i q_5)
{
    const __m256i low =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4));
    const __m256i high = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 5, 6, 7, 7, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10));
    __m256i eighth = _mm256_and_si256(_mm256_srli_epi16(q_5, 3), _mm256_set1_epi8(15));
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(low, q_5), _mm256_shuffle_epi8(high, eighth),
                              _mm256_cmpgt_epi8(q_5, _mm256_set1_epi8(15)));
}

/* Tokens 11 to 15, which follow from d and b. `turned`, 0 or -1, is subtracted from the number of
 * right angles. `u` is `ring` of section 5.4, `half` the least u of the token, and `b` the point's
 * b after these rotations. */
struct squares {
    __m256i token, turned, u, half, b;
};
INLINE struct squares find_squares(__m256i d, __m256i b)
{
    const __m256i one = _mm256_set1_epi8(1), most = _mm256_set1_epi8(64);
    __m256i a = _mm256_sub_epi8(d, b), w = _mm256_sub_epi8(b, a);
    __m256i large = _mm256_cmpgt_epi8(d, _mm256_set1_epi8(31));
    __m256i half =
        _mm256_add_epi8(_mm256_set1_epi8(16), _mm256_and_si256(large, _mm256_set1_epi8(16)));
    __m256i turned = _mm256_cmpgt_epi8(w, half);
    __m256i outer = _mm256_or_si256(turned, _mm256_cmpgt_epi8(_mm256_sub_epi8(one, half), w));
    __m256i token = _mm256_add_epi8(_mm256_set1_epi8(PSTI_PLI_WAVE_FIRST_SQUARE),
                                    _mm256_and_si256(large, _mm256_set1_epi8(2)));
    token = _mm256_sub_epi8(token, outer);
    __m256i beyond = _mm256_cmpeq_epi8(_mm256_min_epu8(d, most), most);
    return (struct squares){
        .token = _mm256_blendv_epi8(token, _mm256_set1_epi8(PSTI_PLI_WAVE_ANY_PAIR), beyond),
        .turned = turned,
        .u = _mm256_blendv_epi8(d, w, turned),
        .half = half,
        .b = _mm256_blendv_epi8(b, _mm256_sub_epi8(_mm256_setzero_si256(), a), turned)};
}

/* Codes the pairs of 64 residuals. Residuals outside of `columns` count as 0. */
INLINE struct pairs code_pairs(const int16_t *residuals, const __m256i *columns)
{
    /* The number that gives the index when it is added to q + 5 (tokens 11 to 15: to b - (u >>
     * 1)). */
    const __m256i bases = load_table(psti_pli_wave_bases), three = _mm256_set1_epi8(3);
    const __m256i to_index =
        _mm256_blendv_epi8(_mm256_sub_epi8(_mm256_set1_epi8(-5), bases), bases,
                           _mm256_broadcastsi128_si256(
                               _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1)));
    struct pairs out;
    struct points p[2];
    for (uint32_t i = 0; i < 2; i++) {
        const int16_t *in = residuals + (size_t)i * HALF;
        out.raw[i] = _mm256_permute4x64_epi64(_mm256_packs_epi16(load(in), load(in + 16)), 0xD8);
        out.raw[i] = _mm256_and_si256(out.raw[i], columns[i]);
        p[i] = find_points(out.raw[i]);
    }
    __m256i q_5 = _mm256_packus_epi16(p[0].q_5, p[1].q_5), d = _mm256_packus_epi16(p[0].d, p[1].d);
    __m256i turns = _mm256_packus_epi16(p[0].turns, p[1].turns);
    struct squares s = find_squares(d, _mm256_packus_epi16(p[0].b, p[1].b));
    /* blendv tests the highest bit, which says that q + 5 is at least 128. */
    __m256i token = _mm256_blendv_epi8(small_tokens(q_5), s.token, q_5);
    __m256i half_u = _mm256_and_si256(_mm256_srli_epi16(s.u, 1), _mm256_set1_epi8(INT8_MAX));
    __m256i index = _mm256_blendv_epi8(q_5, _mm256_sub_epi8(s.b, half_u), q_5);
    index = _mm256_add_epi8(index, _mm256_shuffle_epi8(to_index, token));
    turns = _mm256_and_si256(_mm256_sub_epi8(turns, s.turned), three);
    out.token = _mm256_andnot_si256(_mm256_cmpeq_epi8(d, _mm256_setzero_si256()), token);
    out.first = _mm256_or_si256(turns, _mm256_andnot_si256(three, _mm256_slli_epi16(index, 2)));
    out.second = _mm256_sub_epi8(s.u, s.half);
    return out;
}

/* Returns the activities of tokens, in the order of pairs. */
INLINE __m256i activities_of(__m256i token)
{
    __m256i g = _mm256_shuffle_epi8(load_table(psti_pli_wave_activities), token);
    return _mm256_permute4x64_epi64(g, 0xD8);
}

/* Returns all ones in the bytes of columns below `width`. Byte 0 is column `first`. */
INLINE __m256i columns_below(uint32_t width, uint32_t first)
{
    const __m256i column =
        _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                         21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    return _mm256_cmpgt_epi8(_mm256_set1_epi8((char)((int32_t)width - (int32_t)first)), column);
}

TARGET void psti_pli_wave_find_activities_u8_avx2(const int16_t *residuals, uint32_t width,
                                                  uint8_t *g)
{
    const __m256i columns[2] = {columns_below(width, 0), columns_below(width, HALF)};
    struct pairs p = code_pairs(residuals, columns);
    _mm256_storeu_si256((__m256i *)g, activities_of(p.token));
}

/* These macros move the bytes of a row up by n, with zeros below them, and down by one. */
#define MOVED_UP(v, n) _mm256_alignr_epi8(v, _mm256_permute2x128_si256(v, v, 0x08), 16 - (n))
#define MOVED_DOWN(v) _mm256_alignr_epi8(_mm256_permute2x128_si256(v, v, 0x81), v, 1)

/* The activities of the neighbours of a row's pairs. */
struct near {
    __m256i l, u, ul, uu, uur, z;
};
/* Returns the contexts (docs/format-pli.md, 5.6). */
INLINE __m256i contexts_of(const struct buckets *b, const struct near *n)
{
    __m256i side = _mm256_add_epi8(n->l, n->u), far = _mm256_avg_epu8(n->ul, n->uur);
    __m256i rest = _mm256_add_epi8(_mm256_add_epi8(n->uu, far), n->z);
    return bucket_of(b, _mm256_adds_epu8(_mm256_add_epi8(side, side), rest));
}

TARGET uint32_t psti_pli_wave_cost_u8_avx2(const struct psti_wave_cost_rows *rows,
                                           const uint16_t *costs)
{
    enum { S = PSTI_WAVE_PADDED };
    const struct buckets b = load_buckets(8);
    const uint8_t *g = rows->g, *z = rows->z;
    uint32_t sum = 0;
    for (uint32_t y = 0; y < rows->n_rows; y++, g += S, z += S) {
        struct near n = {.l = load(g - 1),
                         .u = load(g - S),
                         .ul = load(g - S - 1),
                         .uu = load(g - 2 * S),
                         .uur = load(g - 2 * S + 1),
                         .z = load(z)};
        __m256i context = _mm256_slli_epi16(contexts_of(&b, &n), PSTI_WAVE_TOKEN_BITS_8);
        __m256i low = _mm256_and_si256(load(g), _mm256_set1_epi8(PSTI_PLI_N_TOKENS_8 - 1));
        uint8_t indices[PSTI_PLI_WAVE_PAIRS];
        _mm256_storeu_si256((__m256i *)indices, _mm256_or_si256(context, low));
        for (uint32_t i = 0; i < rows->columns; i++)
            sum += costs[indices[i]];
    }
    return sum;
}

INLINE void put_values(const struct pairs *p, uint16_t *values)
{
    __m256i any = _mm256_cmpeq_epi8(p->token, _mm256_set1_epi8(PSTI_PLI_WAVE_ANY_PAIR));
    __m256i low = _mm256_unpacklo_epi8(p->first, p->second);
    __m256i high = _mm256_unpackhi_epi8(p->first, p->second);
    low = _mm256_blendv_epi8(low, p->raw[0], _mm256_unpacklo_epi8(any, any));
    high = _mm256_blendv_epi8(high, p->raw[1], _mm256_unpackhi_epi8(any, any));
    _mm256_storeu_si256((__m256i *)values, low);
    _mm256_storeu_si256((__m256i *)(values + 16), high);
}

/* Stores the indices of the pairs that the unit has (`there` is their mask), and NONE for the other
 * pairs. */
INLINE void put_indices(__m256i token, __m256i context, __m256i there, uint16_t *indices)
{
    const __m256i none = _mm256_set1_epi16(PSTI_WAVE_NONE_8);
    /* Contexts are below 16, so they stay within their bytes. */
    __m256i index = _mm256_or_si256(_mm256_permute4x64_epi64(token, 0xD8),
                                    _mm256_slli_epi16(context, PSTI_WAVE_TOKEN_BITS_8));
    for (uint32_t i = 0; i < 2; i++) {
        __m128i half = i == 0 ? _mm256_castsi256_si128(index) : _mm256_extracti128_si256(index, 1);
        __m128i has = i == 0 ? _mm256_castsi256_si128(there) : _mm256_extracti128_si256(there, 1);
        __m256i wide =
            _mm256_blendv_epi8(none, _mm256_cvtepu8_epi16(half), _mm256_cvtepi8_epi16(has));
        _mm256_storeu_si256((__m256i *)(indices + (size_t)i * 16), wide);
    }
}

TARGET void psti_pli_wave_put_records_u8_avx2(const struct psti_wave_record_rows *r)
{
    const struct buckets b = load_buckets(8);
    const __m256i first_with = load_table(r->first_with);
    const __m256i any = _mm256_set1_epi8(PSTI_PLI_WAVE_ANY_ACTIVITY);
    const __m256i columns[2] = {columns_below(r->width, 0), columns_below(r->width, HALF)};
    const __m256i there = columns_below((r->width + 1) / 2, 0);
    __m256i u = _mm256_setzero_si256(), uu = u;
    for (uint32_t y = 0; y < r->height; y++) {
        uint8_t *g_row = r->g + (size_t)y * PSTI_WAVE_PADDED;
        size_t at = psti_pli_wave_record_at(8, r->stride, y);
        struct pairs p = code_pairs(r->residuals + (size_t)y * PSTI_WAVE_EDGE, columns);
        __m256i g = activities_of(p.token);
        struct near near = {
            .l = MOVED_UP(g, 1), .u = u, .ul = MOVED_UP(u, 1), .uu = uu, .uur = MOVED_DOWN(uu)};
        near.z = r->z ? load(r->z + (size_t)y * PSTI_WAVE_PADDED) : MOVED_UP(g, 2);
        __m256i context = contexts_of(&b, &near);
        __m256i lacking = _mm256_cmpgt_epi8(_mm256_shuffle_epi8(first_with, g), context);
        if (!_mm256_testz_si256(lacking, lacking)) {
            g = _mm256_blendv_epi8(g, any, lacking);
            p.token = _mm256_blendv_epi8(p.token, _mm256_set1_epi8(PSTI_PLI_WAVE_ANY_PAIR),
                                         _mm256_permute4x64_epi64(lacking, 0xD8));
            near.l = MOVED_UP(g, 1);
            near.z = r->z ? near.z : MOVED_UP(g, 2);
            context = contexts_of(&b, &near);
        }
        _mm256_storeu_si256((__m256i *)g_row, g);
        put_indices(p.token, context, there, r->indices + at);
        put_values(&p, r->values + at);
        uu = u;
        u = g;
    }
}

TARGET void psti_pli_wave_find_contexts_u16_avx2(enum psti_pli_energy kind, const uint8_t *g,
                                                 const uint8_t *g0, const uint8_t *g1,
                                                 uint8_t *contexts)
{
    enum { S = PSTI_WAVE_PADDED };
    const uint8_t *before = kind == PSTI_PLI_ENERGY_SECOND ? g0 : g1;
    const struct buckets b = load_buckets(16);
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += HALF) {
        const uint8_t *at = g + x;
        __m256i cross = _mm256_add_epi8(_mm256_add_epi8(load(at - 1), load(at - S)),
                                        _mm256_add_epi8(load(at - S + 1), load(at - 2 * S)));
        __m256i far = _mm256_add_epi8(load(at - S - 1), load(at - 2));
        __m256i e = energies_u16(kind, cross, far, load(before + x));
        _mm256_storeu_si256((__m256i *)(contexts + x), bucket_of(&b, e));
    }
}

/* Returns the raw bits of 16 tokens, of which those with raw bits have 3 to 14 (docs/format-pli.md,
 * 5.4), and their signs. */
INLINE __m256i values_of(__m256i residuals, const uint8_t *tokens)
{
    __m256i token = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)tokens));
    __m256i raw = _mm256_and_si256(_mm256_abs_epi16(residuals), psti_pli_wave_raw_masks_u16(token));
    return _mm256_or_si256(raw, _mm256_and_si256(residuals, _mm256_set1_epi16(INT16_MIN)));
}

/* Stores 32 indices. The low byte is the token and the lower 2 bits of the context, the high byte
 * the upper 2 bits of the context. */
INLINE void indices_of(__m256i token, __m256i context, uint16_t *out)
{
    __m256i shifted = _mm256_slli_epi16(context, PSTI_WAVE_TOKEN_BITS);
    __m256i low = _mm256_or_si256(token, _mm256_and_si256(shifted, _mm256_set1_epi8((char)0xC0)));
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(context, 2), _mm256_set1_epi8(3));
    __m256i even = _mm256_unpacklo_epi8(low, high), odd = _mm256_unpackhi_epi8(low, high);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 16), _mm256_permute2x128_si256(even, odd, 0x31));
}

/* Makes the records of the first `width` samples of a row from activities and contexts. */
TARGET static void find_records_u16(const int16_t *residuals, const uint8_t *tokens,
                                    const uint8_t *contexts, uint32_t width, uint16_t *indices,
                                    uint16_t *values)
{
    uint16_t rows[2][PSTI_WAVE_EDGE];
    bool whole = width == PSTI_WAVE_EDGE;
    uint16_t *to[2] = {whole ? indices : rows[0], whole ? values : rows[1]};
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += HALF) {
        indices_of(load(tokens + x), load(contexts + x), to[0] + x);
        for (uint32_t i = x; i < x + HALF; i += 16)
            _mm256_storeu_si256((__m256i *)(to[1] + i), values_of(load(residuals + i), tokens + i));
    }
    if (!whole) {
        memcpy(indices, rows[0], width * sizeof *indices);
        memcpy(values, rows[1], width * sizeof *values);
    }
}

TARGET void psti_pli_wave_put_records_u16_avx2(const struct psti_wave_record_rows *r)
{
    for (uint32_t y = 0; y < r->height; y++) {
        size_t at = psti_pli_wave_record_at(16, r->stride, y), row = (size_t)y * PSTI_WAVE_PADDED;
        const int16_t *residuals = r->residuals + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t contexts[PSTI_WAVE_EDGE];
        psti_pli_wave_find_activities_u16_avx2(residuals, r->width, r->g + row);
        psti_pli_wave_find_contexts_u16_avx2(r->kind, r->g + row, r->g0 + row, r->g1 + row,
                                             contexts);
        find_records_u16(residuals, r->g + row, contexts, r->width, r->indices + at,
                         r->values + at);
    }
}
#endif
