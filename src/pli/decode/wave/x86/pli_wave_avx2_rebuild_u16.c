/* pli_wave_avx2_rebuild_u16.c - turns residuals into samples of 16 bits with AVX2, by predictors
 * and filters.
 *
 * It converts rows of residuals to lines of samples. pli_wave_rebuild_template.h has the code that
 * is shared with samples of 8 bits. The functions are pure; any thread may call them.
 *
 * Samples are stored less 32768 on the way, because vpmaddwd can multiply them as signed numbers.
 * The coefficients of a filter sum up to 32, that of L included. So the sum is that of the samples
 * less 32 * 32768, and vpackssdw clamps it to 16 bits just as the format requires. Sums have 32
 * bits, as the format requires (docs/format-pli.md, 5.3). */
#include "pli/decode/wave/x86/pli_wave_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

typedef struct {
    v32 low, high; /* lanes 0..15 and 16..31 */
} vec;

struct taps {
    v32 pair; /* the taps a and b, 16 bits each, in every lane of 32 bits, for vpmaddwd */
};
INLINE struct taps taps_of(int a, int b)
{
    return (struct taps){_mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16))};
}

/* Pairs of coefficients, in the order in which unpacking pairs the lanes of a vec: for L and U, UL
 * and UR, UU and LL, and the two taps. `med` is the mask of lanes whose filter is MED. */
enum { L_U, UL_UR, UU_LL, TAPS, N_PAIRS };
struct lane_filters {
    v32 pairs[N_PAIRS][4];
    vec med;
};

INLINE vec blend(vec no, vec yes, vec mask)
{
    return (vec){_mm256_blendv_epi8(no.low, yes.low, mask.low),
                 _mm256_blendv_epi8(no.high, yes.high, mask.high)};
}
/* Returns v rotated by one lane: lane l gets the value of lane l - 1, and lane 0 that of lane 31.
 */
INLINE vec turned(vec v)
{
    v32 middle = _mm256_permute2x128_si256(v.low, v.high, 0x21);
    v32 ends = _mm256_permute2x128_si256(v.low, v.high, 0x03);
    return (vec){_mm256_alignr_epi8(v.low, ends, 14), _mm256_alignr_epi8(v.high, middle, 14)};
}
INLINE vec plus(vec a, vec b)
{
    return (vec){_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)};
}
INLINE v32 med_of_half(v32 l, v32 u, v32 ul)
{
    v32 low = _mm256_min_epi16(l, u), high = _mm256_max_epi16(l, u);
    v32 middle = _mm256_max_epi16(low, _mm256_min_epi16(ul, high));
    return _mm256_sub_epi16(_mm256_add_epi16(low, high), middle);
}
INLINE vec med_of(vec l, vec u, vec ul)
{
    return (vec){med_of_half(l.low, u.low, ul.low), med_of_half(l.high, u.high, ul.high)};
}
INLINE v32 average_of_half(v32 l, v32 u)
{
    return _mm256_add_epi16(_mm256_and_si256(l, u), _mm256_srai_epi16(_mm256_xor_si256(l, u), 1));
}
INLINE vec average_of(vec l, vec u)
{
    return (vec){average_of_half(l.low, u.low), average_of_half(l.high, u.high)};
}
INLINE vec mask_of(const uint8_t *bytes)
{
    return (vec){_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)bytes)),
                 _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)bytes + 1))};
}
INLINE vec first_two(vec v, vec from, bool lane_0, bool lane_1)
{
    static const uint32_t masks[4] = {0, 0xffff, 0xffff0000, 0xffffffff};
    const __m128i mask = _mm_cvtsi32_si128((int)masks[(lane_0 ? 1 : 0) + (lane_1 ? 2 : 0)]);
    v.low = _mm256_blendv_epi8(v.low, from.low, _mm256_zextsi128_si256(mask));
    return v;
}

INLINE vec vec_load(const void *at)
{
    return (vec){row_load(at), row_load((const uint8_t *)at + sizeof(v32))};
}
INLINE void vec_store(void *at, vec v)
{
    row_store(at, v.low);
    row_store((uint8_t *)at + sizeof(v32), v.high);
}
#define BITS 16
#define LESS 0x8000
#include "pli/decode/wave/pli_wave_rebuild_template.h"

/* -- Residuals and the terms of taps -- */

INLINE const uint8_t *residual_row(const struct psti_pli_wave_memory *m, uint32_t t)
{
    return (const uint8_t *)(m->tokens + WAVE_BEFORE + t);
}

INLINE vec residuals(const struct psti_pli_wave_memory *m, uint32_t t)
{
    return vec_load(residual_row(m, t));
}

/* Returns a r0 + b r1 + 16, for lanes in the order of unpacking. */
INLINE v32 tap_sum(v32 pairs, v32 taps)
{
    return _mm256_add_epi32(_mm256_madd_epi16(pairs, taps), _mm256_set1_epi32(16));
}

/* Returns (a r0 + b r1 + 16) >> 5 modulo 2^16. */
INLINE v32 tap_half(v32 r0, v32 r1, v32 taps)
{
    const v32 lower = _mm256_set1_epi32(0xffff);
    v32 x = _mm256_srai_epi32(tap_sum(_mm256_unpacklo_epi16(r0, r1), taps), 5);
    v32 y = _mm256_srai_epi32(tap_sum(_mm256_unpackhi_epi16(r0, r1), taps), 5);
    return _mm256_packus_epi32(_mm256_and_si256(x, lower), _mm256_and_si256(y, lower));
}

INLINE vec tapped(const struct rebuild *r, const struct part *p, uint32_t t)
{
    const uint8_t *row = residual_row(r->memory, t);
    vec r0 = vec_load(row + p->to_0), r1 = vec_load(row + p->to_1);
    return (vec){tap_half(r0.low, r1.low, p->taps.pair), tap_half(r0.high, r1.high, p->taps.pair)};
}

INLINE vec tapped_either(const struct rebuild *r, uint32_t t, vec in_front)
{
    return blend(tapped(r, &r->rear, t), tapped(r, &r->front, t), in_front);
}

/* -- Filters -- */

/* Widens pairs of bytes of 32 lanes to 16 bits. The lanes of each half are in the order 0..3,
 * 8..11, 4..7, 12..15. */
INLINE void widen_pairs(v32 a, v32 b, v32 *pairs)
{
    v32 first = _mm256_unpacklo_epi8(a, b), second = _mm256_unpackhi_epi8(a, b);
    pairs[0] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(first));
    pairs[1] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(second));
    pairs[2] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(first, 1));
    pairs[3] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(second, 1));
}

INLINE void find_lane_filters(const struct rebuild *r, uint32_t t, bool taps,
                              struct lane_filters *f)
{
    const v32 minus_2l = _mm256_setr_epi8(0, -2, -4, -6, -16, -18, -20, -22, -8, -10, -12, -14, -24,
                                          -26, -28, -30, -32, -34, -36, -38, -48, -50, -52, -54,
                                          -40, -42, -44, -46, -56, -58, -60, -62);
    v32 x = _mm256_add_epi8(_mm256_set1_epi8((char)(t & 63)), minus_2l);
    /* Bits 4 and 5 of x are the column of blocks. If x is negative, bit 6 or 7 is set, and the lane
     * is in the rear band. */
    v32 block = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(7));
    for (int k = 0; k < (taps ? N_PAIRS : TAPS); k++)
        widen_pairs(_mm256_shuffle_epi8(row_load(r->filters[2 * k]), block),
                    _mm256_shuffle_epi8(row_load(r->filters[2 * k + 1]), block), f->pairs[k]);
    f->med = (vec){_mm256_setzero_si256(), _mm256_setzero_si256()};
    if (r->any_med) {
        v32 med = _mm256_shuffle_epi8(row_load(r->filters[C_MED]), block);
        med = _mm256_shuffle_epi32(med, 0xd8);
        f->med = (vec){_mm256_cvtepi8_epi16(_mm256_castsi256_si128(med)),
                       _mm256_cvtepi8_epi16(_mm256_extracti128_si256(med, 1))};
    }
}

/* The neighbours of 16 lanes, and the residuals of planes 0 and 1. */
struct half {
    v32 l, u, ul, ur, uu, ll, r0, r1;
};

/* Predicts eight lanes: those whose neighbours the instruction `unpack` pairs. */
#define EIGHT(unpack, h, f, which, taps)                                                           \
    eight(unpack((h)->l, (h)->u), unpack((h)->ul, (h)->ur), unpack((h)->uu, (h)->ll),              \
          taps ? tap_sum(unpack((h)->r0, (h)->r1), (f)->pairs[TAPS][which])                        \
               : _mm256_set1_epi32(16),                                                            \
          f, which)
INLINE v32 eight(v32 l_u, v32 ul_ur, v32 uu_ll, v32 tap, const struct lane_filters *f, int which)
{
    v32 x = _mm256_madd_epi16(l_u, f->pairs[L_U][which]);
    v32 y = _mm256_madd_epi16(ul_ur, f->pairs[UL_UR][which]);
    x = _mm256_add_epi32(x, _mm256_madd_epi16(uu_ll, f->pairs[UU_LL][which]));
    return _mm256_srai_epi32(_mm256_add_epi32(x, _mm256_add_epi32(y, tap)), 5);
}

INLINE v32 filtered_half(const struct half *h, const struct lane_filters *f, int which, bool taps)
{
    return _mm256_packs_epi32(EIGHT(_mm256_unpacklo_epi16, h, f, which, taps),
                              EIGHT(_mm256_unpackhi_epi16, h, f, which + 1, taps));
}

INLINE vec filtered(const struct rebuild *r, const struct part *p, const struct lane_filters *f,
                    const struct near *n, uint32_t t, bool taps)
{
    const uint8_t *row = residual_row(r->memory, t);
    vec r0 = vec_load(row + p->to_0), r1 = vec_load(row + p->to_1);
    struct half low = {n->l.low,  n->u.low,  n->ul.low, n->ur.low,
                       n->uu.low, n->ll.low, r0.low,    r1.low};
    struct half high = {n->l.high,  n->u.high,  n->ul.high, n->ur.high,
                        n->uu.high, n->ll.high, r0.high,    r1.high};
    vec v = {filtered_half(&low, f, 0, taps), filtered_half(&high, f, 2, taps)};
    return r->any_med ? blend(v, simple(MED, n), f->med) : v;
}

/* -- Transposition of rows of lanes to lines of samples -- */

/* Transposes 8 steps of 16 lanes. Interleaving rows i and i + 4 three times transposes the 8 x 8
 * samples of each half. */
INLINE void interleave(const v32 *in, v32 *out)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        out[2 * i] = _mm256_unpacklo_epi16(in[i], in[i + 4]);
        out[2 * i + 1] = _mm256_unpackhi_epi16(in[i], in[i + 4]);
    }
}

INLINE void turn_8(const int16_t (*rows)[WAVE_LANES], uint16_t *lines)
{
    v32 a[8], b[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        a[i] = _mm256_xor_si256(row_load(rows[i]), _mm256_set1_epi16(INT16_MIN));
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        uint16_t *line = lines + (size_t)i * WAVE_LINE;
        _mm_storeu_si128((__m128i *)(void *)line, _mm256_castsi256_si128(b[i]));
        _mm_storeu_si128((__m128i *)(void *)(line + 8 * WAVE_LINE),
                         _mm256_extracti128_si256(b[i], 1));
    }
}

INLINE void end_band(struct psti_pli_wave_memory *m, uint32_t t, uint32_t end)
{
    for (; t < end; t += 8)
        for (uint32_t l = 0; l < WAVE_LANES; l += 16)
            turn_8((const int16_t(*)[WAVE_LANES])(m->of_u16.samples[t % WAVE_BAND] + l),
                   m->of_u16.lines + (size_t)l * WAVE_LINE + t);
}

/* -- A whole unit -- */

void TARGET psti_pli_wave_avx2_rebuild_u16(struct psti_pli_wave_job *job)
{
    struct psti_pli_wave_memory *m = job->memory;
    memset(m->of_u16.samples, 0, sizeof m->of_u16.samples);
    rebuild_unit(job);
}
#endif
