/* pli_packed_avx512.c - mode packed with AVX-512 (VBMI), units of 8 bits.
 *
 * pli_packed.h says what goes in and out. Plain C gives the same bits. The functions are pure; any
 * thread may call them. A row of 64 residuals is one vector. Its bytes are expanded until each
 * group has a 64-bit lane of its own. A multishift takes the 8 residuals of each lane, and a matrix
 * of bits for each lane extends their signs. Samples are made last, of all planes at once. The
 * dependent chain from row to row takes as long as unpacking a row, and the chains of the planes do
 * not depend on each other. Tests compile this file against SIMDe (base/machine/avx512.h), which
 * also runs on machines without AVX-512. */
#include "pli/decode/packed/pli_packed.h"

#if defined(__x86_64__)
#include "pli/decode/x86/pli_rgb_avx512.h"

PSTI_ICL_INLINE __m512i load(const void *p) { return _mm512_loadu_si512(p); }

/* Loads bytes to the places that have ones in `places`. Other bytes are 0. */
PSTI_ICL_INLINE __m512i load_to(uint64_t places, const void *p)
{
    return psti_avx512_expand_bytes(places, load(p));
}

/* Widths
 * ------------------------------------------------------------------------------------- */

struct width_state {
    const uint8_t *strings;
    const uint8_t *steps; /* address of the next d_i that is not 0 */
    __m512i above, widest;
};

/* Writes the sizes of all groups that have a bit in run `r`, which is M2 or a later run. In the
 * case of M2 it also applies their signs. `below` holds the sizes from the next run. So each run is
 * read once, the last run first, and no bit waits for the place of another bit. */
PSTI_ICL_INLINE void read_run(const struct psti_packed *unit, const uint8_t *strings, uint32_t r,
                              const uint8_t *below, uint8_t *out)
{
    const __m512i one = _mm512_set1_epi8(1);
    uint32_t at = unit->runs.begin[r], end = unit->runs.begin[r + 1], sign = unit->runs.begin[1];
    bool is_last = r + 1 == unit->runs.n; /* the last run has no ones */
    for (; at < end; at += 64, sign += 64, out += 64) {
        __m512i v = _mm512_setzero_si512();
        if (!is_last) {
            uint64_t m = psti_load_bits64(strings, at);
            v = load_to(m, below);
            below += _mm_popcnt_u64(m);
        }
        v = _mm512_add_epi8(v, one);
        if (r == 2)
            v = _mm512_mask_sub_epi8(v, psti_load_bits64(strings, sign), _mm512_setzero_si512(), v);
        _mm512_storeu_si512(out, v);
    }
}

/* Returns all d_i that are not 0. The results of one run and of the next run are in two buffers
 * alternately. */
PSTI_ICL_INLINE const uint8_t *read_all_steps(const struct psti_packed *unit,
                                              const uint8_t *strings, struct psti_packed_work *work)
{
    const uint8_t *below = work->planes[0];
    for (uint32_t r = unit->runs.n; r-- > 2;) {
        uint8_t *out = work->planes[r & 1];
        read_run(unit, strings, r, below, out);
        below = out;
    }
    return below;
}

/* Returns for each of eight rows of 8 bytes the sum of the rows up to and including it. */
PSTI_ICL_INLINE __m512i sum_rows(__m512i v)
{
    const __m512i zero = _mm512_setzero_si512();
    v = _mm512_add_epi8(v, _mm512_alignr_epi64(v, zero, 7));
    v = _mm512_add_epi8(v, _mm512_alignr_epi64(v, zero, 6));
    return _mm512_add_epi8(v, _mm512_alignr_epi64(v, zero, 4));
}

/* Returns the d_i of 8 rows. `groups` has a bit for each of 64 places that has a group. The bits of
 * these groups begin at bit `at` of M1. */
PSTI_ICL_INLINE __m512i read_steps(struct width_state *s, uint32_t at, uint64_t groups)
{
    uint64_t m = _pdep_u64(psti_load_bits64(s->strings, at), groups);
    __m512i steps = load_to(m, s->steps);
    s->steps += _mm_popcnt_u64(m);
    return steps;
}

/* Stores the widths of the groups of eight rows, and all values that follow from the widths except
 * the rows' offsets, which are found when rows are read one after another. Returns the number of
 * bytes of each row. */
PSTI_ICL_INLINE __m512i store_widths(struct width_state *s, __m512i steps, uint32_t row,
                                     struct psti_packed_work *work)
{
    const __m512i last = _mm512_set1_epi64(7);
    const __m512i ones =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 3, 7, 15, 31, 63, 127, -1, 0, 0, 0, 0, 0, 0, 0));
    __m512i w = _mm512_add_epi8(sum_rows(steps), s->above);
    s->above = _mm512_permutexvar_epi64(last, w);
    s->widest = _mm512_max_epu8(s->widest, w);
    _mm512_storeu_si512(work->widths[row], w);
    _mm512_storeu_si512(&work->places[row], _mm512_shuffle_epi8(ones, w));
    __m512i nbytes = _mm512_sad_epu8(w, _mm512_setzero_si512());
    _mm512_storeu_si512(&work->nbytes[row], nbytes);
    return nbytes;
}

/* Decodes the widths of one plane. Its groups begin at bit `at` of M1. Returns the sum of the
 * widths. */
PSTI_ICL_INLINE uint32_t plane_widths(struct width_state *s, const struct psti_packed *unit,
                                      uint32_t p, uint32_t at, struct psti_packed_work *work)
{
    const uint64_t each = 0x0101010101010101;
    const uint32_t height = unit->height, step = 8 * unit->row_groups;
    /* The groups of 8 rows, one byte for each row. */
    uint64_t groups = each * ((1u << unit->row_groups) - 1);
    uint64_t present = UINT64_MAX >> (64 - 8 * unit->row_groups);
    __m512i sum = _mm512_setzero_si512();
    s->above = _mm512_set1_epi64((int64_t)(each * unit->planes[p].first_width & present));
    for (uint32_t y = 0; y < height; y += 8, at += step) {
        uint32_t left = height - y, row = 64 * p + y;
        if (left < 8) /* rows that the unit does not have get no width differences, and are not
                       * counted */
            groups &= (UINT64_C(1) << 8 * left) - 1;
        __m512i nbytes = store_widths(s, read_steps(s, at, groups), row, work);
        __mmask8 there = left < 8 ? (__mmask8)((1u << left) - 1) : 0xFF;
        sum = _mm512_mask_add_epi64(sum, there, sum, nbytes);
    }
    return (uint32_t)psti_avx512_sum_u64(sum);
}

PSTI_ICL_TARGET static enum psti_packed_verdict widths_avx512(struct psti_packed *unit,
                                                              struct psti_packed_work *work,
                                                              uint64_t *sum)
{
    const uint8_t *strings = psti_pli_packed_open_runs(unit, work);
    if (!strings)
        return PSTI_PACKED_NO_END;
    struct width_state s = {.strings = strings, .steps = read_all_steps(unit, strings, work)};
    s.widest = _mm512_setzero_si512();
    uint32_t at = 0;
    *sum = 0;
    for (uint32_t p = 0; p < unit->n_planes; p++) {
        if (unit->planes[p].is_constant)
            continue;
        work->offsets[64 * p] = *sum;
        *sum += plane_widths(&s, unit, p, at, work);
        at += unit->height * unit->row_groups;
    }
    if (_mm512_cmpgt_epu8_mask(s.widest, _mm512_set1_epi8((char)unit->bits)))
        return PSTI_PACKED_TOO_WIDE;
    return PSTI_PACKED_FINE;
}

/* Rows
 * ------------------------------------------------------------------------------------- */

/* Tables for unpacking. An entry has 8 bytes. Its index is the width modulo 8. */
struct lookup {
    uint8_t shift[8][8]; /* the bit of the group at which residual k begins */
    /* The matrix that repeats the residual's highest bit in the bits above it. */
    uint8_t extend[8][8];
};

#define SHIFTS(w)                                                                                  \
    {                                                                                              \
        0, (w), 2 * (w), 3 * (w), 4 * (w), 5 * (w), 6 * (w), 7 * (w)                               \
    }
/* Bit i of the result is bit min(i, w - 1) of the byte. The matrix's last row makes bit 0. */
#define BIT(w, i) 1 << ((i) < (w) ? (i) : (w)-1)
#define EXTEND(w)                                                                                  \
    {                                                                                              \
        BIT(w, 7), BIT(w, 6), BIT(w, 5), BIT(w, 4), BIT(w, 3), BIT(w, 2), BIT(w, 1), BIT(w, 0)     \
    }
/* The index is the width modulo 8, so widths 0 and 8 share entry 0, which is made for width 8. The
 * bytes of a group of width 0 are zeros before the look-up, and any entry maps zeros to zeros.
 */
static const _Alignas(64) struct lookup lookup = {
    .shift = {SHIFTS(8), SHIFTS(1), SHIFTS(2), SHIFTS(3), SHIFTS(4), SHIFTS(5), SHIFTS(6),
              SHIFTS(7)},
    .extend = {EXTEND(8), EXTEND(1), EXTEND(2), EXTEND(3), EXTEND(4), EXTEND(5), EXTEND(6),
               EXTEND(7)},
};

#define EIGHT(from)                                                                                \
    (from), (from) + 1, (from) + 2, (from) + 3, (from) + 4, (from) + 5, (from) + 6, (from) + 7
static const _Alignas(64) uint8_t columns[64] = {EIGHT(0),  EIGHT(8),  EIGHT(16), EIGHT(24),
                                                 EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)};

PSTI_ICL_INLINE __m512i unpack_row(const uint8_t *data, const uint8_t *widths, uint64_t places)
{
    __m512i w = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)widths));
    __m512i v = load_to(places, data);
    v = _mm512_multishift_epi64_epi8(_mm512_permutexvar_epi64(w, load(lookup.shift)), v);
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_permutexvar_epi64(w, load(lookup.extend)), 0);
}

/* Returns running sums of 64 bytes. */
PSTI_ICL_INLINE __m512i sum_row(__m512i v)
{
    const __m512i last = _mm512_set1_epi64(0x3F372F271F170F07); /* last byte of each group */
    const __m512i first = _mm512_set_epi64(0x0808080808080808, 0, 0x0808080808080808, 0,
                                           0x0808080808080808, 0, 0x0808080808080808, 0);
    v = _mm512_add_epi8(v, _mm512_slli_epi64(v, 8));
    v = _mm512_add_epi8(v, _mm512_slli_epi64(v, 16));
    v = _mm512_add_epi8(v, _mm512_slli_epi64(v, 32));
    /* The totals of the groups before each group, then the sums of these totals. */
    __m512i before = _mm512_maskz_permutexvar_epi8(0x7F3F1F0F07030100, last, v);
    before = _mm512_sad_epu8(before, _mm512_setzero_si512());
    return _mm512_add_epi8(v, _mm512_shuffle_epi8(before, first));
}

/* Returns (a r + 16) >> 5 for 64 residuals. `a4` is 4 a. The result is computed as (256 r * 4 a +
 * (1 << 14)) >> 15. */
PSTI_ICL_INLINE __m512i one_tap_row(__m512i r, __m512i a4)
{
    const uint64_t even = 0x5555555555555555;
    __m512i low = _mm512_mulhrs_epi16(_mm512_slli_epi16(r, 8), a4);
    __m512i high = _mm512_mulhrs_epi16(_mm512_maskz_mov_epi8(~even, r), a4);
    return _mm512_mask_mov_epi8(_mm512_slli_epi16(high, 8), even, low);
}

/* Returns ((a r0 + b r1 + 16) >> 5) + 4 (a + b) for 64 residuals. The term 4 (a + b) arises because
 * the multiplied bytes are unsigned: they are residuals + 128. The rounding shift is a product with
 * 1 << 10 that is rounded at bit 15. */
PSTI_ICL_INLINE __m512i two_taps_row(__m512i r0, __m512i r1, __m512i taps)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80), shift = _mm512_set1_epi16(1 << 10);
    const __m512i low_byte = _mm512_set1_epi16(0xFF);
    r0 = _mm512_xor_si512(r0, flip);
    r1 = _mm512_xor_si512(r1, flip);
    __m512i low = _mm512_maddubs_epi16(_mm512_unpacklo_epi8(r0, r1), taps);
    __m512i high = _mm512_maddubs_epi16(_mm512_unpackhi_epi8(r0, r1), taps);
    low = _mm512_and_si512(_mm512_mulhrs_epi16(low, shift), low_byte);
    high = _mm512_and_si512(_mm512_mulhrs_epi16(high, shift), low_byte);
    return _mm512_packus_epi16(low, high);
}

enum taps { NO_TAPS, ONE_TAP, TWO_TAPS }; /* ONE_TAP: a tap of plane 0 only */

/* Unpacks rows begin .. end - 1 of plane `p`, whose bytes begin at `at`. Writes the values that
 * will be added to the part of the prediction that comes from the row above. If `keeps` is set,
 * stores the residuals, too. Returns the address of the next row's bytes. */
PSTI_ICL_INLINE size_t rows(const struct psti_packed *given, uint32_t p,
                            struct psti_packed_work *work, uint32_t begin, uint32_t end, size_t at,
                            bool keeps, bool sums, enum taps kind)
{
    const struct psti_packed_plane *plane = &given->planes[p];
    /* With a local copy the compiler knows that the loop's stores do not change these values. */
    const struct psti_packed unit = {.data = given->data, .data_nbytes = given->data_nbytes};
    const int a = plane->tap[0], b = plane->tap[1];
    const __m512i a4 = _mm512_set1_epi16((int16_t)(4 * a));
    const __m512i taps = _mm512_set1_epi16((int16_t)((uint8_t)a | (uint16_t)(uint8_t)b << 8));
    const __m512i bias = _mm512_set1_epi8((char)(-4 * (a + b)));
    const uint8_t *r0 = work->residuals[0], *r1 = work->residuals[1];
    uint8_t *residuals = work->residuals[p], *out = work->planes[p];
    struct psti_pli_ahead ahead = psti_pli_ahead(given->unit, p, begin);
    /* Where the bytes of the next unit begin in the file. */
    const uintptr_t next = (uintptr_t)given->unit->bytes + given->unit->nbytes;
    for (size_t y = begin; y < end; y++) {
        uint32_t row = 64 * p + (uint32_t)y;
        psti_pli_ask(&ahead, 64);
        /* The next unit's checksum will read these bytes soon. */
        __builtin_prefetch((const void *)(next + 32 * row));
        __m512i v = unpack_row(psti_pli_packed_data_at(&unit, work, at), work->widths[row],
                               work->places[row]);
        at += work->nbytes[row];
        if (keeps)
            _mm512_storeu_si512(residuals + 64 * y, v);
        if (kind == ONE_TAP) {
            v = _mm512_add_epi8(v, one_tap_row(load(r0 + 64 * y), a4));
        } else if (kind == TWO_TAPS) {
            __m512i t = two_taps_row(load(r0 + 64 * y), load(r1 + 64 * y), taps);
            v = _mm512_add_epi8(v, _mm512_add_epi8(t, bias));
        }
        _mm512_storeu_si512(out + 64 * y, sums ? sum_row(v) : v);
    }
    return at;
}

typedef size_t rows_of(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work,
                       uint32_t begin, uint32_t end, size_t at, bool keeps);
#define ROWS(name, sums, kind)                                                                     \
    PSTI_ICL_TARGET static size_t name(const struct psti_packed *unit, uint32_t p,                 \
                                       struct psti_packed_work *work, uint32_t begin,              \
                                       uint32_t end, size_t at, bool keeps)                        \
    {                                                                                              \
        return rows(unit, p, work, begin, end, at, keeps, sums, kind);                             \
    }
#define ROWS_WITH(kind)                                                                            \
    ROWS(single_##kind, false, kind)                                                               \
    ROWS(summed_##kind, true, kind)
ROWS_WITH(NO_TAPS)
ROWS_WITH(ONE_TAP)
ROWS_WITH(TWO_TAPS)

static bool has_sums(const struct psti_packed_plane *plane, uint32_t y)
{
    enum psti_packed_predictor predictor = plane->predictor[y >> 4];
    return predictor != PSTI_PACKED_UP && predictor != PSTI_PACKED_SMOOTH;
}

PSTI_ICL_TARGET static void rebuild_avx512(const struct psti_packed *unit, uint32_t p,
                                           struct psti_packed_work *work)
{
    static rows_of *const by_taps[][2] = {
        [NO_TAPS] = {single_NO_TAPS, summed_NO_TAPS},
        [ONE_TAP] = {single_ONE_TAP, summed_ONE_TAP},
        [TWO_TAPS] = {single_TWO_TAPS, summed_TWO_TAPS},
    };
    const struct psti_packed_plane *plane = &unit->planes[p];
    rows_of *const *by_sums = by_taps[plane->tap[1] ? TWO_TAPS : plane->tap[0] ? ONE_TAP : NO_TAPS];
    bool keeps = psti_pli_packed_is_tapped(unit, p);
    size_t at = by_sums[true](unit, p, work, 0, 1, work->offsets[64 * p], keeps);
    for (uint32_t y = 0; y < unit->height; y += 16) {
        uint32_t end = unit->height - y < 16 ? unit->height : y + 16;
        at = by_sums[has_sums(plane, y)](unit, p, work, y ? y : 1, end, at, keeps);
    }
}

/* Samples
 * ------------------------------------------------------------------------------------- */

/* The state of a plane whose rows are made one after the other. All predictors average (rounding
 * up) one sample of the row above and the average (rounded down) of two other samples of that row.
 * `self`, `left` and `right` are the columns of these samples. */
struct chain {
    __m512i u, self, left, right;
    const struct psti_packed_plane *plane;
};

PSTI_ICL_INLINE void open_chain(struct chain *c, const struct psti_packed *unit, uint32_t p)
{
    c->plane = &unit->planes[p];
    c->u = _mm512_set1_epi8((char)c->plane->start);
}

/* Sets the predictor of the 16 rows from row y on. `last` is the last column. */
PSTI_ICL_INLINE void set_predictor(struct chain *c, uint32_t y, uint32_t last)
{
    const __m512i column = load(columns), one = _mm512_set1_epi8(1);
    enum psti_packed_predictor predictor = c->plane->predictor[y >> 4];
    bool smooth = predictor == PSTI_PACKED_SMOOTH || predictor == PSTI_PACKED_SMOOTH_GRADIENT;
    uint64_t beside = smooth ? UINT64_MAX : 0;
    c->self = _mm512_maskz_mov_epi8(predictor == PSTI_PACKED_LEFT ? 0 : UINT64_MAX, column);
    c->left = _mm512_mask_subs_epu8(c->self, beside, column, one);
    c->right = _mm512_mask_min_epu8(c->self, beside, _mm512_add_epi8(column, one),
                                    _mm512_set1_epi8((char)last));
}

/* Makes the next row. The permutations and the exact averages are a chain of 14 cycles on Zen 4. */
PSTI_ICL_INLINE void next_row(struct chain *c, __m512i added)
{
    __m512i left = _mm512_permutexvar_epi8(c->left, c->u);
    __m512i right = _mm512_permutexvar_epi8(c->right, c->u);
    __m512i self = _mm512_permutexvar_epi8(c->self, c->u);
    /* The average of left and right was rounded up by (left ^ right) & 1, which is subtracted
     * here. */
    __m512i up = _mm512_ternarylogic_epi64(left, right, _mm512_set1_epi8(1), 0x28);
    __m512i beside = _mm512_sub_epi8(_mm512_avg_epu8(left, right), up);
    c->u = _mm512_add_epi8(added, _mm512_avg_epu8(beside, self));
}

/* Stores the first n pixels of the current row, or all 64 if `whole`, from planes G, R - G + 128
 * and B - G + 128. */
PSTI_ICL_INLINE void store_pixels(const struct chain *g, const struct chain *r,
                                  const struct chain *b, bool whole, uint32_t n, uint8_t *out)
{
    __m512i offset = _mm512_xor_si512(g->u, _mm512_set1_epi8((char)0x80)); /* g - 128 */
    __m512i red = _mm512_add_epi8(r->u, offset), blue = _mm512_add_epi8(b->u, offset);
    if (whole)
        psti_pli_store_rgb_avx512(out, red, g->u, blue);
    else
        psti_pli_store_some_rgb_avx512(out, red, g->u, blue, n, load(columns));
}

/* Makes the samples of one plane or of three, whose chains run side by side. If `part` is not NULL,
 * writes the part's pixels and no samples; rows have 64 pixels if `whole`. The processor can store
 * pixels while the chains wait. */
PSTI_ICL_INLINE void finish_planes(const struct psti_packed *unit, struct psti_packed_work *work,
                                   const uint32_t *planes, bool three,
                                   const struct psti_pli_part *part, bool whole)
{
    const uint32_t last = 8 * unit->row_groups - 1, first = part ? part->y : 0;
    const uint32_t height = part ? part->y + part->height : unit->height;
    const int64_t row_nbytes = part ? part->pixels->row_nbytes : 0;
    uint8_t *out = part ? part->pixels->data : NULL;
    const uint32_t pa = planes[0], pb = planes[three ? 1 : 0], pc = planes[three ? 2 : 0];
    struct chain a, b, c;
    open_chain(&a, unit, pa);
    open_chain(&b, unit, pb);
    open_chain(&c, unit, pc);
    for (uint32_t y = 0; y < height; y += 16) {
        uint32_t end = height - y < 16 ? height : y + 16;
        set_predictor(&a, y, last);
        set_predictor(&b, y, last);
        set_predictor(&c, y, last);
        for (uint32_t row = y; row < end; row++) {
            uint8_t *at_a = work->planes[pa] + (size_t)64 * row;
            uint8_t *at_b = work->planes[pb] + (size_t)64 * row;
            uint8_t *at_c = work->planes[pc] + (size_t)64 * row;
            next_row(&a, load(at_a));
            if (three) {
                next_row(&b, load(at_b));
                next_row(&c, load(at_c));
            }
            if (!part) {
                _mm512_storeu_si512(at_a, a.u);
                if (three) {
                    _mm512_storeu_si512(at_b, b.u);
                    _mm512_storeu_si512(at_c, c.u);
                }
            } else if (row >= first) {
                store_pixels(&a, &b, &c, whole, part->width, out);
                out += row_nbytes;
            }
        }
    }
}

PSTI_ICL_TARGET static void finish_avx512(const struct psti_packed *unit,
                                          struct psti_packed_work *work)
{
    uint32_t coded[4], n = 0, done = 0;
    for (uint32_t p = 0; p < unit->n_planes; p++)
        if (!unit->planes[p].is_constant)
            coded[n++] = p;
    if (n >= 3) {
        finish_planes(unit, work, coded, true, NULL, true);
        done = 3;
    }
    for (; done < n; done++)
        finish_planes(unit, work, coded + done, false, NULL, true);
}

PSTI_ICL_TARGET static void finish_rgb_avx512(const struct psti_packed *unit,
                                              struct psti_packed_work *work,
                                              const struct psti_pli_part *part)
{
    static const uint32_t all[] = {0, 1, 2};
    if (part->width == 64)
        finish_planes(unit, work, all, true, part, true);
    else
        finish_planes(unit, work, all, true, part, false);
}

const struct psti_packed_kernels psti_packed_kernels_avx512 = {
    .widths = widths_avx512,
    .rebuild = rebuild_avx512,
    .finish = finish_avx512,
    .finish_rgb = finish_rgb_avx512,
};
#endif
