/* pli_packed_avx512.c - mode packed with AVX-512 (VBMI), units of 8 bits.
 *
 * In and out: see pli_packed.h; plain C gives the same bits. Pure; any thread. A row of 64
 * residuals is one vector: its bytes are permuted so that each group's stand in its own 64-bit
 * lane, from which a multishift takes the 8 residuals. Tests compile this file against SIMDe
 * (base/avx512.h), so that it is run on machines without AVX-512 too. */
#include "decode/pli_packed.h"

#if defined(__x86_64__)
#include "base/avx512.h"

/* Widths
 * ------------------------------------------------------------------------------------- */

struct width_state {
    const uint8_t *strings;
    uint32_t n_runs, at[PSTI_PACKED_MAX_RUNS + 1]; /* the runs' cursors */
    __m512i above, widest, offset;
};

/* Sums of the eight 64-bit lanes up to and including each: 8 rows of bytes, or 8 numbers. */
PSTI_VBMI_INLINE __m512i sum_lanes(__m512i v, bool is_bytes)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i shifted = _mm512_alignr_epi64(v, zero, 7);
    v = is_bytes ? _mm512_add_epi8(v, shifted) : _mm512_add_epi64(v, shifted);
    shifted = _mm512_alignr_epi64(v, zero, 6);
    v = is_bytes ? _mm512_add_epi8(v, shifted) : _mm512_add_epi64(v, shifted);
    shifted = _mm512_alignr_epi64(v, zero, 4);
    return is_bytes ? _mm512_add_epi8(v, shifted) : _mm512_add_epi64(v, shifted);
}

/* What d_i are for the 64 places of `groups`, those of 8 rows, which stand at bit `at` of M1. */
PSTI_VBMI_INLINE __m512i read_steps(struct width_state *s, uint32_t at, uint64_t groups)
{
    uint64_t m = _pdep_u64(psti_packed_bits64(s->strings, at), groups);
    uint64_t negative = _pdep_u64(psti_packed_bits64(s->strings, s->at[1]), m);
    uint32_t ones = (uint32_t)_mm_popcnt_u64(m);
    s->at[1] += ones;
    __m512i sign = _mm512_mask_mov_epi8(_mm512_set1_epi8(1), negative, _mm512_set1_epi8(-1));
    __m512i steps = _mm512_maskz_mov_epi8(m, sign);
    for (uint32_t r = 2; r + 1 < s->n_runs && ones > 0; r++) { /* M2.. but the last, all 0 */
        m = _pdep_u64(psti_packed_bits64(s->strings, s->at[r]), m);
        s->at[r] += ones;
        ones = (uint32_t)_mm_popcnt_u64(m);
        steps = _mm512_mask_add_epi8(steps, m, steps, sign);
    }
    return steps;
}

/* Eight rows: widths, and what follows from them. */
PSTI_VBMI_INLINE void store_widths(struct width_state *s, __m512i steps, uint32_t row,
                                   struct psti_packed_work *work)
{
    const __m512i last = _mm512_set1_epi64(7);
    __m512i w = _mm512_add_epi8(sum_lanes(steps, true), s->above);
    s->above = _mm512_permutexvar_epi64(last, w);
    s->widest = _mm512_max_epu8(s->widest, w);
    _mm512_storeu_si512(work->widths[row], w);
    __m512i within = _mm512_slli_epi64(w, 8);
    within = _mm512_add_epi8(within, _mm512_slli_epi64(within, 8));
    within = _mm512_add_epi8(within, _mm512_slli_epi64(within, 16));
    within = _mm512_add_epi8(within, _mm512_slli_epi64(within, 32));
    _mm512_storeu_si512(work->within[row], within);
    __m512i sum = _mm512_sad_epu8(w, _mm512_setzero_si512());
    __m512i end = _mm512_add_epi64(sum_lanes(sum, false), s->offset);
    _mm512_storeu_si512(&work->offsets[row], _mm512_sub_epi64(end, sum));
    s->offset = _mm512_permutexvar_epi64(last, end);
}

/* One plane's widths; its groups begin at bit `at` of M1. */
PSTI_VBMI_INLINE void plane_widths(struct width_state *s, const struct psti_packed *unit,
                                   uint32_t p, uint32_t at, struct psti_packed_work *work)
{
    const uint64_t each = 0x0101010101010101;
    uint64_t groups = each * ((1u << unit->row_groups) - 1); /* of 8 rows, a byte each */
    uint64_t present = UINT64_MAX >> (64 - 8 * unit->row_groups);
    s->above = _mm512_set1_epi64((int64_t)(each * unit->planes[p].first_width & present));
    for (uint32_t y = 0; y < unit->height; y += 8, at += 8 * unit->row_groups) {
        uint32_t left = unit->height - y, row = 64 * p + y;
        if (left < 8) /* rows that are not there have no step, and count for nothing below */
            groups &= (UINT64_C(1) << 8 * left) - 1;
        store_widths(s, read_steps(s, at, groups), row, work);
        if (left < 8)
            s->offset = _mm512_set1_epi64((int64_t)work->offsets[row + left]);
    }
}

PSTI_VBMI_TARGET static enum psti_packed_verdict widths_avx512(struct psti_packed *unit,
                                                               struct psti_packed_work *work,
                                                               uint64_t *sum)
{
    const uint8_t *strings = psti_packed_open_runs(unit, work);
    if (!strings)
        return PSTI_PACKED_NO_END;
    struct width_state s = {.strings = strings, .n_runs = unit->runs.n};
    memcpy(s.at, unit->runs.begin, sizeof s.at);
    s.widest = s.offset = _mm512_setzero_si512();
    uint32_t at = 0;
    for (uint32_t p = 0; p < unit->n_planes; p++) {
        if (unit->planes[p].is_constant)
            continue;
        plane_widths(&s, unit, p, at, work);
        at += unit->height * unit->row_groups;
    }
    if (_mm512_cmpgt_epu8_mask(s.widest, _mm512_set1_epi8((char)unit->bits)))
        return PSTI_PACKED_TOO_WIDE;
    uint64_t offsets[8];
    _mm512_storeu_si512(offsets, s.offset);
    *sum = offsets[0];
    return PSTI_PACKED_FINE;
}

/* Rows
 * ------------------------------------------------------------------------------------- */

/* What unpacking looks up by width 0..8, 8 bytes each. */
struct lookup {
    uint8_t shift[16][8]; /* where in the group's bits residual k begins */
    uint8_t mask[16][8], sign[16][8];
};

#define EIGHT_TIMES(v)                                                                             \
    {                                                                                              \
        v, v, v, v, v, v, v, v                                                                     \
    }
#define SHIFTS(w)                                                                                  \
    {                                                                                              \
        0, (w), 2 * (w), 3 * (w), 4 * (w), 5 * (w), 6 * (w), 7 * (w)                               \
    }
static const _Alignas(64) struct lookup lookup = {
    .shift = {SHIFTS(0), SHIFTS(1), SHIFTS(2), SHIFTS(3), SHIFTS(4), SHIFTS(5), SHIFTS(6),
              SHIFTS(7), SHIFTS(8)},
    .mask = {EIGHT_TIMES(0), EIGHT_TIMES(1), EIGHT_TIMES(3), EIGHT_TIMES(7), EIGHT_TIMES(15),
             EIGHT_TIMES(31), EIGHT_TIMES(63), EIGHT_TIMES(127), EIGHT_TIMES(255)},
    .sign = {EIGHT_TIMES(0), EIGHT_TIMES(1), EIGHT_TIMES(2), EIGHT_TIMES(4), EIGHT_TIMES(8),
             EIGHT_TIMES(16), EIGHT_TIMES(32), EIGHT_TIMES(64), EIGHT_TIMES(128)},
};

#define EIGHT(from)                                                                                \
    (from), (from) + 1, (from) + 2, (from) + 3, (from) + 4, (from) + 5, (from) + 6, (from) + 7
static const _Alignas(64) uint8_t columns[64] = {EIGHT(0),  EIGHT(8),  EIGHT(16), EIGHT(24),
                                                 EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)};

PSTI_VBMI_INLINE __m512i load(const void *p) { return _mm512_loadu_si512(p); }

PSTI_VBMI_INLINE __m512i look_up(const uint8_t table[16][8], __m512i widths)
{
    return _mm512_permutex2var_epi64(load(table), widths, load(table[8]));
}

PSTI_VBMI_INLINE __m512i unpack_row(const uint8_t *data, const uint8_t *widths,
                                    const uint8_t *within)
{
    const __m512i group = _mm512_set_epi64(
        0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
        0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m512i byte = _mm512_set1_epi64(0x0706050403020100);
    __m512i w = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)widths));
    __m512i from = _mm512_set1_epi64((int64_t)psti_load_u64(within));
    from = _mm512_add_epi8(_mm512_shuffle_epi8(from, group), byte);
    __m512i v = _mm512_permutexvar_epi8(from, load(data));
    v = _mm512_multishift_epi64_epi8(look_up(lookup.shift, w), v);
    __m512i sign = look_up(lookup.sign, w);
    v = _mm512_xor_si512(_mm512_and_si512(v, look_up(lookup.mask, w)), sign);
    return _mm512_sub_epi8(v, sign);
}

/* Running sums of 64 bytes. */
PSTI_VBMI_INLINE __m512i sum_row(__m512i v)
{
    v = _mm512_add_epi8(v, _mm512_bslli_epi128(v, 1));
    v = _mm512_add_epi8(v, _mm512_bslli_epi128(v, 2));
    v = _mm512_add_epi8(v, _mm512_bslli_epi128(v, 4));
    v = _mm512_add_epi8(v, _mm512_bslli_epi128(v, 8));
    /* Totals of the four parts, moved up by one, by two.. */
    __m512i total = _mm512_shuffle_epi8(v, _mm512_set1_epi8(15));
    __m512i before = _mm512_maskz_shuffle_i64x2(0xFC, total, total, 0x90);
    before = _mm512_add_epi8(before, _mm512_maskz_shuffle_i64x2(0xFC, before, before, 0x90));
    before = _mm512_add_epi8(before, _mm512_maskz_shuffle_i64x2(0xC0, total, total, 0x00));
    return _mm512_add_epi8(v, before);
}

/* (a r0 + b r1 + 16) >> 5 of 64 residuals; see tap_half8 of pli_packed_avx2.c. */
PSTI_VBMI_INLINE __m512i tap_row(__m512i r0, __m512i r1, __m512i taps, __m512i bias)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80), low_byte = _mm512_set1_epi16(0xFF);
    r0 = _mm512_xor_si512(r0, flip);
    r1 = _mm512_xor_si512(r1, flip);
    __m512i low = _mm512_maddubs_epi16(_mm512_unpacklo_epi8(r0, r1), taps);
    __m512i high = _mm512_maddubs_epi16(_mm512_unpackhi_epi8(r0, r1), taps);
    low = _mm512_srai_epi16(_mm512_add_epi16(low, bias), 5);
    high = _mm512_srai_epi16(_mm512_add_epi16(high, bias), 5);
    return _mm512_packus_epi16(_mm512_and_si512(low, low_byte), _mm512_and_si512(high, low_byte));
}

/* `left` and `right`: columns of the neighbours. */
PSTI_VBMI_INLINE __m512i base_row(enum psti_packed_predictor predictor, __m512i u, __m512i left,
                                  __m512i right)
{
    if (predictor == PSTI_PACKED_LEFT)
        return _mm512_broadcastb_epi8(_mm512_castsi512_si128(u));
    if (predictor == PSTI_PACKED_SMOOTH || predictor == PSTI_PACKED_SMOOTH_GRADIENT) {
        const __m512i ones = _mm512_set1_epi8(-1);
        __m512i v = _mm512_xor_si512(u, ones); /* averages of complements round down */
        v = _mm512_avg_epu8(_mm512_permutexvar_epi8(left, v), _mm512_permutexvar_epi8(right, v));
        return _mm512_avg_epu8(_mm512_xor_si512(v, ones), u);
    }
    return u;
}

/* Rows begin .. end - 1 of plane `p`, all of one predictor, below row `u`. */
PSTI_VBMI_INLINE __m512i rows(const struct psti_packed *unit, uint32_t p,
                              struct psti_packed_work *work, uint32_t begin, uint32_t end,
                              __m512i u, enum psti_packed_predictor predictor, bool has_taps)
{
    const struct psti_packed_plane *plane = &unit->planes[p];
    const __m512i taps = _mm512_set1_epi16(
        (int16_t)((uint8_t)plane->tap[0] | (uint16_t)(uint8_t)plane->tap[1] << 8));
    const __m512i bias = _mm512_set1_epi16((int16_t)(16 - 128 * (plane->tap[0] + plane->tap[1])));
    const __m512i column = load(columns), last = _mm512_set1_epi8((char)(8 * unit->row_groups - 1));
    const __m512i left = _mm512_subs_epu8(column, _mm512_set1_epi8(1));
    const __m512i right = _mm512_min_epu8(_mm512_add_epi8(column, _mm512_set1_epi8(1)), last);
    const uint8_t *r0 = work->residuals[0], *r1 = work->residuals[p == 2 ? 1 : 0];
    uint8_t *residuals = work->residuals[p], *out = work->planes[p];
    for (size_t y = begin; y < end; y++) {
        uint32_t row = 64 * p + (uint32_t)y;
        __m512i v =
            unpack_row(psti_packed_row_data(unit, work, row), work->widths[row], work->within[row]);
        _mm512_storeu_si512(residuals + 64 * y, v);
        if (has_taps)
            v = _mm512_add_epi8(v, tap_row(load(r0 + 64 * y), load(r1 + 64 * y), taps, bias));
        if (predictor != PSTI_PACKED_UP && predictor != PSTI_PACKED_SMOOTH)
            v = sum_row(v);
        u = _mm512_add_epi8(v, base_row(predictor, u, left, right));
        _mm512_storeu_si512(out + 64 * y, u);
    }
    return u;
}

#define ROWS(name, predictor)                                                                      \
    PSTI_VBMI_TARGET static __m512i name(const struct psti_packed *unit, uint32_t p,               \
                                         struct psti_packed_work *work, uint32_t begin,            \
                                         uint32_t end, __m512i u)                                  \
    {                                                                                              \
        if (unit->planes[p].tap[0] || unit->planes[p].tap[1])                                      \
            return rows(unit, p, work, begin, end, u, predictor, true);                            \
        return rows(unit, p, work, begin, end, u, predictor, false);                               \
    }
ROWS(rows_left, PSTI_PACKED_LEFT)
ROWS(rows_up, PSTI_PACKED_UP)
ROWS(rows_gradient, PSTI_PACKED_GRADIENT)
ROWS(rows_smooth, PSTI_PACKED_SMOOTH)
ROWS(rows_smooth_gradient, PSTI_PACKED_SMOOTH_GRADIENT)

PSTI_VBMI_TARGET static void rebuild_avx512(const struct psti_packed *unit, uint32_t p,
                                            struct psti_packed_work *work)
{
    static __m512i (*const by_predictor[])(const struct psti_packed *, uint32_t,
                                           struct psti_packed_work *, uint32_t, uint32_t,
                                           __m512i) = {
        [PSTI_PACKED_LEFT] = rows_left,
        [PSTI_PACKED_UP] = rows_up,
        [PSTI_PACKED_GRADIENT] = rows_gradient,
        [PSTI_PACKED_SMOOTH] = rows_smooth,
        [PSTI_PACKED_SMOOTH_GRADIENT] = rows_smooth_gradient,
    };
    __m512i u = _mm512_set1_epi8((char)unit->planes[p].start);
    u = rows_left(unit, p, work, 0, 1, u);
    for (uint32_t y = 0; y < unit->height; y += 16) {
        uint32_t end = unit->height - y < 16 ? unit->height : y + 16;
        u = by_predictor[unit->planes[p].predictor[y >> 4]](unit, p, work, y ? y : 1, end, u);
    }
}

const struct psti_packed_kernels psti_packed_kernels_avx512 = {.widths = widths_avx512,
                                                               .rebuild = rebuild_avx512};
#endif
