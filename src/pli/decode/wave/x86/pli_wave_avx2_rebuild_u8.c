/* pli_wave_avx2_rebuild_u8.c - turns residuals into samples of 8 bits with AVX2, by predictors and
 * filters.
 *
 * It converts rows of residuals to lines of samples. pli_wave_rebuild_template.h has the code that
 * is shared with samples of 16 bits. The functions are pure; any thread may call them. */
#include "pli/decode/wave/x86/pli_wave_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

typedef v32 vec;

struct taps {
    v32 a, b; /* each lane's taps as bytes */
};
INLINE struct taps taps_of(int a, int b)
{
    return (struct taps){_mm256_set1_epi8((char)a), _mm256_set1_epi8((char)b)};
}

/* The coefficients of each lane, in pairs of bytes, for two steps. */
struct lane_filters {
    v32 l_u[2], ul_ur[2], uu_ll[2], a, b, med;
};

INLINE vec vec_load(const void *at) { return row_load(at); }
INLINE void vec_store(void *at, vec v) { row_store(at, v); }
INLINE vec blend(vec no, vec yes, vec mask) { return _mm256_blendv_epi8(no, yes, mask); }
INLINE vec turned(vec v) { return turn(v); }
INLINE vec plus(vec a, vec b) { return _mm256_add_epi8(a, b); }
/* Returns MED: l + u less the median of the three. L is known last, and with this order little work
 * is left then. */
INLINE vec med_of(vec l, vec u, vec ul)
{
    v32 low = _mm256_min_epu8(u, ul), high = _mm256_max_epu8(u, ul);
    v32 middle = _mm256_max_epu8(low, _mm256_min_epu8(l, high));
    return _mm256_sub_epi8(_mm256_add_epi8(l, u), middle);
}
INLINE vec average_of(vec l, vec u)
{
    v32 odd = _mm256_and_si256(_mm256_xor_si256(l, u), _mm256_set1_epi8(1));
    return _mm256_sub_epi8(_mm256_avg_epu8(l, u), odd);
}
INLINE vec mask_of(const uint8_t *bytes) { return row_load(bytes); }
INLINE vec first_two(vec v, vec from, bool lane_0, bool lane_1)
{
    static const uint32_t masks[4] = {0, 0xff, 0xff00, 0xffff};
    const __m128i mask = _mm_cvtsi32_si128((int)masks[(lane_0 ? 1 : 0) + (lane_1 ? 2 : 0)]);
    return blend(v, from, _mm256_zextsi128_si256(mask));
}

#define BITS 8
#define LESS 0
#include "pli/decode/wave/pli_wave_rebuild_template.h"

/* -- Residuals and the terms of taps -- */

INLINE const uint8_t *residual_row(const struct psti_pli_wave_memory *m, uint32_t t)
{
    return (const uint8_t *)(m->tokens + WAVE_BEFORE) + WAVE_LANES * (size_t)t;
}
INLINE vec residuals(const struct psti_pli_wave_memory *m, uint32_t t)
{
    return row_load(residual_row(m, t));
}

/* Sums of products with taps, 16 bits, of the lanes that unpacking puts low and high. 128 is added
 * to residuals, which makes them unsigned; the last sum subtracts its effect. Nothing saturates,
 * since |a| + |b| <= 128. */
struct words {
    v32 low, high;
};

INLINE struct words tap_words(v32 r0, v32 r1, v32 a, v32 b)
{
    const v32 top = _mm256_set1_epi8((char)0x80), half = _mm256_set1_epi16(16);
    v32 low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    r0 = _mm256_xor_si256(r0, top);
    r1 = _mm256_xor_si256(r1, top);
    struct words w = {_mm256_maddubs_epi16(_mm256_unpacklo_epi8(r0, r1), low),
                      _mm256_maddubs_epi16(_mm256_unpackhi_epi8(r0, r1), high)};
    w.low = _mm256_add_epi16(w.low, _mm256_sub_epi16(half, _mm256_maddubs_epi16(top, low)));
    w.high = _mm256_add_epi16(w.high, _mm256_sub_epi16(half, _mm256_maddubs_epi16(top, high)));
    return w;
}

/* Returns (a r0 + b r1 + 16) >> 5 modulo 256. */
INLINE v32 tap_bytes(v32 r0, v32 r1, v32 a, v32 b)
{
    const v32 byte = _mm256_set1_epi16(255);
    struct words w = tap_words(r0, r1, a, b);
    return _mm256_packus_epi16(_mm256_and_si256(_mm256_srai_epi16(w.low, 5), byte),
                               _mm256_and_si256(_mm256_srai_epi16(w.high, 5), byte));
}

INLINE vec tapped(const struct rebuild *r, const struct part *p, uint32_t t)
{
    const uint8_t *row = residual_row(r->memory, t);
    return tap_bytes(row_load(row + p->to_0), row_load(row + p->to_1), p->taps.a, p->taps.b);
}

INLINE vec tapped_either(const struct rebuild *r, uint32_t t, vec in_front)
{
    const uint8_t *row = residual_row(r->memory, t);
    const struct part *front = &r->front, *rear = &r->rear;
    return tap_bytes(blend(row_load(row + rear->to_0), row_load(row + front->to_0), in_front),
                     blend(row_load(row + rear->to_1), row_load(row + front->to_1), in_front),
                     blend(rear->taps.a, front->taps.a, in_front),
                     blend(rear->taps.b, front->taps.b, in_front));
}

/* -- Filters -- */

INLINE void find_lane_filters(const struct rebuild *r, uint32_t t, bool taps,
                              struct lane_filters *f)
{
    v32 x = _mm256_add_epi8(_mm256_set1_epi8((char)(t & 63)), row_load(psti_pli_wave_delay));
    /* Bits 4 and 5 of x are the column of blocks. If x is negative, bit 6 or 7 is set, and the lane
     * is in the rear band. */
    v32 block = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(7));
    v32 c[N_COEFFICIENTS];
    for (int k = 0; k < N_COEFFICIENTS; k++)
        c[k] = _mm256_shuffle_epi8(row_load(r->filters[k]), block);
    f->l_u[0] = _mm256_unpacklo_epi8(c[0], c[1]);
    f->l_u[1] = _mm256_unpackhi_epi8(c[0], c[1]);
    f->ul_ur[0] = _mm256_unpacklo_epi8(c[2], c[3]);
    f->ul_ur[1] = _mm256_unpackhi_epi8(c[2], c[3]);
    f->uu_ll[0] = _mm256_unpacklo_epi8(c[4], c[5]);
    f->uu_ll[1] = _mm256_unpackhi_epi8(c[4], c[5]);
    (void)taps; /* taps cost hardly any time, so filters without taps need no faster code of their
                 * own */
    f->a = c[6];
    f->b = c[7];
    f->med = c[8];
}

INLINE vec filtered(const struct rebuild *r, const struct part *p, const struct lane_filters *f,
                    const struct near *n, uint32_t t, bool taps)
{
    const uint8_t *row = residual_row(r->memory, t);
    struct words w = {_mm256_set1_epi16(16), _mm256_set1_epi16(16)};
    if (taps)
        w = tap_words(row_load(row + p->to_0), row_load(row + p->to_1), f->a, f->b);
    v32 x[2] = {w.low, w.high};
    x[0] =
        _mm256_add_epi16(x[0], _mm256_maddubs_epi16(_mm256_unpacklo_epi8(n->l, n->u), f->l_u[0]));
    x[1] =
        _mm256_add_epi16(x[1], _mm256_maddubs_epi16(_mm256_unpackhi_epi8(n->l, n->u), f->l_u[1]));
    x[0] = _mm256_add_epi16(x[0],
                            _mm256_maddubs_epi16(_mm256_unpacklo_epi8(n->ul, n->ur), f->ul_ur[0]));
    x[1] = _mm256_add_epi16(x[1],
                            _mm256_maddubs_epi16(_mm256_unpackhi_epi8(n->ul, n->ur), f->ul_ur[1]));
    x[0] = _mm256_add_epi16(x[0],
                            _mm256_maddubs_epi16(_mm256_unpacklo_epi8(n->uu, n->ll), f->uu_ll[0]));
    x[1] = _mm256_add_epi16(x[1],
                            _mm256_maddubs_epi16(_mm256_unpackhi_epi8(n->uu, n->ll), f->uu_ll[1]));
    v32 v = _mm256_packus_epi16(_mm256_srai_epi16(x[0], 5), _mm256_srai_epi16(x[1], 5));
    return r->any_med ? blend(v, simple(MED, n), f->med) : v;
}

/* -- Transposition of rows of lanes to lines of samples -- */

INLINE void interleave(const v32 *in, v32 *out)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        v32 a = in[i], b = in[i + 8];
        out[2 * i] = _mm256_unpacklo_epi8(a, b);
        out[2 * i + 1] = _mm256_unpackhi_epi8(a, b);
    }
}

/* Transposes 16 steps to lines. Interleaving rows i and i + 8 four times transposes the 16 x 16
 * bytes of each half. */
INLINE void turn_16(const uint8_t (*rows)[WAVE_LANES], uint8_t *lines)
{
    v32 a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        a[i] = row_load(rows[i]);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, a);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        _mm_storeu_si128((__m128i *)(void *)(lines + (size_t)i * WAVE_LINE),
                         _mm256_castsi256_si128(a[i]));
        _mm_storeu_si128((__m128i *)(void *)(lines + ((size_t)i + 16) * WAVE_LINE),
                         _mm256_extracti128_si256(a[i], 1));
    }
}

INLINE void end_band(struct psti_pli_wave_memory *m, uint32_t t, uint32_t end)
{
    for (; t < end; t += 16)
        turn_16((const uint8_t(*)[WAVE_LANES])m->of_u8.samples + WAVE_BEFORE + t,
                m->of_u8.lines + t);
}

/* -- A whole unit -- */

/* Returns whether the largest and the smallest sum a x + b y, with x and y in 0..255, fit 16 bits.
 * The sums of all filters do. */
static bool pair_fits(int a, int b)
{
    int above = (a > 0 ? a : 0) + (b > 0 ? b : 0), below = (a < 0 ? a : 0) + (b < 0 ? b : 0);
    return above <= 128 && below >= -128 && a >= -128 && a <= 127 && b >= -128 && b <= 127;
}

bool psti_pli_wave_avx2_can_rebuild(const struct psti_pli_wave_head *head)
{
    for (uint32_t j = 0; j < head->n_coded; j++) {
        const struct psti_pli_wave_plane *plane = head->planes + j;
        if (plane->predictor != PSTI_PLI_PREDICT_FILTERS && !pair_fits(plane->a, plane->b))
            return false;
    }
    return true;
}

void TARGET psti_pli_wave_avx2_rebuild(struct psti_pli_wave_job *job)
{
    struct psti_pli_wave_memory *m = job->memory;
    memset(m->of_u8.samples, 0, WAVE_BEFORE * WAVE_LANES);
    rebuild_unit(job);
}
#endif
