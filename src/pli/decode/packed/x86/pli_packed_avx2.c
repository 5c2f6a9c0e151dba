/* pli_packed_avx2.c - mode packed with AVX2 and BMI.
 *
 * pli_packed.h says what goes in and out. Plain C gives the same bits. The functions are pure; any
 * thread may call them. Widths, 8 rows at a time: pdep spreads the runs of bits over the groups,
 * and sums run down the columns. Rows: one shuffle and two multiplications unpack two groups of 8
 * residuals; their operands are looked up by the two widths. Predictors that sum along the row do
 * so in registers. Each row is unpacked and predicted before the next one, so the dependent chain
 * from row to row overlaps with the unpacking of later rows. (Unpacking all rows first takes a
 * tenth longer.) Residuals that taps of later planes refer to are stored as they are unpacked, 16
 * bits each. */
#include "pli/decode/packed/pli_packed.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdlib.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }
INLINE void store(void *p, __m256i v) { _mm256_storeu_si256(p, v); }

/* Pairs of groups
 * ------------------------------------------------------------------------------------- */

/* The operands that unpack two neighbouring groups of widths a and b, each into one half of a
 * vector. `shuffle` moves the two bytes that hold a residual into its 16-bit lane. `align` moves
 * the residual to the lane's top. The upper half of the product with `scale` is the residual with
 * its sign. */
struct pair {
    uint8_t shuffle[32];
    uint16_t align[16], scale[16];
};

#define EIGHT(M, a, b)                                                                             \
    M(a, b, 0), M(a, b, 1), M(a, b, 2), M(a, b, 3), M(a, b, 4), M(a, b, 5), M(a, b, 6), M(a, b, 7)
#define SHUFFLE(from, w, k) (from) + ((k) * (w) >> 3), (from) + ((k) * (w) >> 3) + 1
#define ALIGN(from, w, k) (uint16_t)(1u << (16 - (w) - ((k) * (w)&7)))
#define SCALE(from, w, k) (uint16_t)((w) ? 1u << (w) : 0)
#define PAIR(a, b)                                                                                 \
    {                                                                                              \
        {EIGHT(SHUFFLE, 0, a), EIGHT(SHUFFLE, a, b)}, {EIGHT(ALIGN, 0, a), EIGHT(ALIGN, a, b)},    \
            {EIGHT(SCALE, 0, a), EIGHT(SCALE, a, b)},                                              \
    }
#define PAIRS(a)                                                                                   \
    PAIR(a, 0), PAIR(a, 1), PAIR(a, 2), PAIR(a, 3), PAIR(a, 4), PAIR(a, 5), PAIR(a, 6),            \
        PAIR(a, 7), PAIR(a, 8)

static const _Alignas(64) struct pair pairs[9 * 9] = {
    PAIRS(0), PAIRS(1), PAIRS(2), PAIRS(3), PAIRS(4), PAIRS(5), PAIRS(6), PAIRS(7), PAIRS(8),
};

/* Widths
 * ------------------------------------------------------------------------------------- */

/* Returns a byte for each of 32 bits: 0xFF if the bit is set, else 0. */
INLINE __m256i spread(uint32_t bits)
{
    const __m256i which =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), which);
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
}

/* Returns for each quarter the sum of the quarters up to and including it. A quarter is 4 rows of
 * bytes, or 4 numbers. */
INLINE __m256i sum_quarters(__m256i v, bool is_bytes)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i shifted = _mm256_slli_si256(v, 8);
    v = is_bytes ? _mm256_add_epi8(v, shifted) : _mm256_add_epi64(v, shifted);
    __m256i low = _mm256_blend_epi32(zero, _mm256_permute4x64_epi64(v, 0x50), 0xF0);
    return is_bytes ? _mm256_add_epi8(v, low) : _mm256_add_epi64(v, low);
}

struct width_state {
    const uint8_t *strings;
    uint32_t n_runs, at[PSTI_PACKED_MAX_RUNS + 1]; /* at: position of the next bit of each run */
    __m256i above, widest, offset;
};

/* Sets `steps` to the d_i of 8 rows of groups. `groups` has a bit for each of 64 places that has a
 * group. The bits of these groups begin at bit `at` of M1. */
INLINE void read_steps(struct width_state *s, uint32_t at, uint64_t groups, __m256i steps[2])
{
    const __m256i one = _mm256_set1_epi8(1);
    uint64_t m = _pdep_u64(psti_load_bits64(s->strings, at), groups);
    uint64_t negative = _pdep_u64(psti_load_bits64(s->strings, s->at[1]), m);
    uint32_t ones = (uint32_t)_mm_popcnt_u64(m);
    s->at[1] += ones;
    __m256i sign0 = _mm256_or_si256(spread((uint32_t)negative), one);
    __m256i sign1 = _mm256_or_si256(spread((uint32_t)(negative >> 32)), one);
    steps[0] = _mm256_and_si256(spread((uint32_t)m), sign0);
    steps[1] = _mm256_and_si256(spread((uint32_t)(m >> 32)), sign1);
    /* Runs M2.. except the last one, which is all 0. */
    for (uint32_t r = 2; r + 1 < s->n_runs && ones > 0; r++) {
        m = _pdep_u64(psti_load_bits64(s->strings, s->at[r]), m);
        s->at[r] += ones;
        ones = (uint32_t)_mm_popcnt_u64(m);
        if (ones == 0)
            break;
        steps[0] = _mm256_add_epi8(steps[0], _mm256_and_si256(spread((uint32_t)m), sign0));
        steps[1] = _mm256_add_epi8(steps[1], _mm256_and_si256(spread((uint32_t)(m >> 32)), sign1));
    }
}

/* Stores the widths of the groups of four rows, and the offsets and operands that follow from the
 * widths. */
INLINE void store_widths(struct width_state *s, __m256i steps, uint32_t row,
                         struct psti_packed_work *work)
{
    __m256i w = _mm256_add_epi8(sum_quarters(steps, true), s->above);
    s->above = _mm256_permute4x64_epi64(w, 0xFF);
    s->widest = _mm256_max_epu8(s->widest, w);
    store(work->widths[row], w);
    __m256i pair = _mm256_maddubs_epi16(w, _mm256_set1_epi16(0x0109)); /* 9 a + b of a pair */
    store(work->tables[row], _mm256_mullo_epi16(pair, _mm256_set1_epi16(sizeof(struct pair))));
    __m256i within = _mm256_slli_epi64(w, 8);
    within = _mm256_add_epi8(within, _mm256_slli_epi64(within, 8));
    within = _mm256_add_epi8(within, _mm256_slli_epi64(within, 16));
    store(work->within[row], _mm256_add_epi8(within, _mm256_slli_epi64(within, 32)));
    __m256i sum = _mm256_sad_epu8(w, _mm256_setzero_si256());
    __m256i end = _mm256_add_epi64(sum_quarters(sum, false), s->offset);
    store(&work->offsets[row], _mm256_sub_epi64(end, sum));
    s->offset = _mm256_permute4x64_epi64(end, 0xFF);
}

/* Decodes the widths of one plane. Its groups begin at bit `at` of M1. */
INLINE void plane_widths(struct width_state *s, const struct psti_packed *unit, uint32_t p,
                         uint32_t at, struct psti_packed_work *work)
{
    const uint64_t each = 0x0101010101010101;
    /* The groups of 8 rows, one byte for each row. */
    uint64_t groups = each * ((1u << unit->row_groups) - 1);
    uint64_t present =
        unit->row_groups == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * unit->row_groups)) - 1;
    s->above = _mm256_set1_epi64x((int64_t)(each * unit->planes[p].first_width & present));
    for (uint32_t y = 0; y < unit->height; y += 8, at += 8 * unit->row_groups) {
        uint32_t left = unit->height - y;
        __m256i steps[2];
        if (left < 8) { /* rows that the unit does not have get no width differences, and are not
                         * counted */
            groups &= (UINT64_C(1) << 8 * left) - 1;
        }
        read_steps(s, at, groups, steps);
        store_widths(s, steps[0], 64 * p + y, work);
        store_widths(s, steps[1], 64 * p + y + 4, work);
        if (left < 8)
            s->offset = _mm256_set1_epi64x((int64_t)work->offsets[64 * p + unit->height]);
    }
}

TARGET static enum psti_packed_verdict widths_avx2(struct psti_packed *unit,
                                                   struct psti_packed_work *work, uint64_t *sum)
{
    const uint8_t *strings = psti_pli_packed_open_runs(unit, work);
    if (!strings)
        return PSTI_PACKED_NO_END;
    struct width_state s = {.strings = strings, .n_runs = unit->runs.n};
    memcpy(s.at, unit->runs.begin, sizeof s.at);
    s.widest = s.offset = _mm256_setzero_si256();
    uint32_t at = 0;
    for (uint32_t p = 0; p < unit->n_planes; p++) {
        if (unit->planes[p].is_constant)
            continue;
        plane_widths(&s, unit, p, at, work);
        at += unit->height * unit->row_groups;
    }
    __m256i excess = _mm256_subs_epu8(s.widest, _mm256_set1_epi8((char)unit->bits));
    if (!_mm256_testz_si256(excess, excess))
        return PSTI_PACKED_TOO_WIDE;
    *sum = (uint64_t)_mm256_extract_epi64(s.offset, 0);
    return PSTI_PACKED_FINE;
}

/* 8 bits
 * ------------------------------------------------------------------------------------- */

/* A row of 64 bytes. */
struct row_u8 {
    __m256i a, b;
};

INLINE struct row_u8 load_row_u8(const uint8_t *p)
{
    return (struct row_u8){load(p), load(p + 32)};
}
INLINE void store_row_u8(uint8_t *p, struct row_u8 v)
{
    store(p, v.a);
    store(p + 32, v.b);
}
INLINE struct row_u8 add_u8(struct row_u8 x, struct row_u8 y)
{
    return (struct row_u8){_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)};
}

INLINE __m256i unpack_pair_u8(const uint8_t *data, uint32_t table)
{
    const struct pair *pair = (const void *)((const uint8_t *)pairs + table);
    __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)data));
    v = _mm256_shuffle_epi8(v, load(pair->shuffle));
    return _mm256_mulhi_epi16(_mm256_mullo_epi16(v, load(pair->align)), load(pair->scale));
}

/* The terms that taps add to the residuals of a plane: none; terms of one tap or of two taps that
 * fit a byte; or terms of any taps. */
enum taps { NO_TAPS, ONE_TAP, TWO_TAPS, LARGE_TAPS, N_TAPS };

struct taps_u8 {
    /* Residuals of planes 0 and 1, 16 bits each. With ONE_TAP r0 has those of the plane that the
     * tap refers to, and r1 is unused. */
    const uint8_t *r0, *r1;
    __m256i a, b; /* the two taps; with ONE_TAP only a, multiplied by 1 << 10 */
};

/* Returns (a r0 + b r1 + 16) >> 5 for 16 residuals. The rounding shift is a product with 1 << 10
 * that is rounded at bit 15. */
INLINE __m256i tapped_u8(enum taps kind, const struct taps_u8 *taps, size_t at)
{
    __m256i t = load(taps->r0 + at);
    if (kind == ONE_TAP)
        return _mm256_mulhrs_epi16(t, taps->a);
    t = _mm256_mullo_epi16(t, taps->a);
    t = _mm256_add_epi16(t, _mm256_mullo_epi16(load(taps->r1 + at), taps->b));
    return _mm256_mulhrs_epi16(t, _mm256_set1_epi16(1 << 10));
}

/* Returns 32 packed residuals plus the terms of their taps, as bytes in packing order. */
INLINE __m256i add_tapped_u8(__m256i packed, enum taps kind, const struct taps_u8 *taps, size_t at)
{
    const __m256i low_byte = _mm256_set1_epi16(0xFF);
    if (kind == NO_TAPS)
        return packed;
    __m256i t0 = tapped_u8(kind, taps, at), t1 = tapped_u8(kind, taps, at + 32);
    if (kind != LARGE_TAPS)
        return _mm256_add_epi8(packed, _mm256_packs_epi16(t0, t1));
    t0 = _mm256_packus_epi16(_mm256_and_si256(t0, low_byte), _mm256_and_si256(t1, low_byte));
    return _mm256_add_epi8(packed, t0);
}

/* Unpacks the next row and adds the terms of taps to the residuals. If `saved` is not NULL, the
 * residuals without these terms are stored there. */
INLINE struct row_u8 unpack_row_u8(const uint8_t *data, const uint16_t *tables,
                                   const uint8_t *within, enum taps kind,
                                   const struct taps_u8 *taps, size_t at, uint8_t *saved)
{
    __m256i v0 = unpack_pair_u8(data, tables[0]), v1 = unpack_pair_u8(data + within[2], tables[1]);
    __m256i v2 = unpack_pair_u8(data + within[4], tables[2]);
    __m256i v3 = unpack_pair_u8(data + within[6], tables[3]);
    if (saved) {
        store(saved + at, v0);
        store(saved + at + 32, v1);
        store(saved + at + 64, v2);
        store(saved + at + 96, v3);
    }
    __m256i a = add_tapped_u8(_mm256_packs_epi16(v0, v1), kind, taps, at);
    __m256i b = add_tapped_u8(_mm256_packs_epi16(v2, v3), kind, taps, at + 64);
    return (struct row_u8){_mm256_permute4x64_epi64(a, 0xD8), _mm256_permute4x64_epi64(b, 0xD8)};
}

/* Returns running sums of 64 bytes. */
INLINE struct row_u8 sum_row_u8(struct row_u8 v)
{
    const __m256i last = _mm256_set1_epi8(15);
    v = add_u8(v, (struct row_u8){_mm256_slli_si256(v.a, 1), _mm256_slli_si256(v.b, 1)});
    v = add_u8(v, (struct row_u8){_mm256_slli_si256(v.a, 2), _mm256_slli_si256(v.b, 2)});
    v = add_u8(v, (struct row_u8){_mm256_slli_si256(v.a, 4), _mm256_slli_si256(v.b, 4)});
    v = add_u8(v, (struct row_u8){_mm256_slli_si256(v.a, 8), _mm256_slli_si256(v.b, 8)});
    __m256i a = _mm256_shuffle_epi8(v.a, last), b = _mm256_shuffle_epi8(v.b, last);
    __m256i both = _mm256_add_epi8(a, _mm256_permute2x128_si256(a, a, 0x01));
    v = add_u8(v, (struct row_u8){_mm256_permute2x128_si256(a, a, 0x08), both});
    return (struct row_u8){v.a, _mm256_add_epi8(v.b, _mm256_permute2x128_si256(b, b, 0x08))};
}

/* Returns the row above after smooth() of section 4.5. `first` and `last` are masks of the first
 * and of the last column. */
INLINE struct row_u8 smooth_row_u8(struct row_u8 u, __m256i first, struct row_u8 last)
{
    const __m256i ones = _mm256_set1_epi8((char)0xFF);
    /* vpavgb rounds up. On complements it therefore rounds down. */
    __m256i a = _mm256_xor_si256(u.a, ones), b = _mm256_xor_si256(u.b, ones);
    __m256i middle = _mm256_permute2x128_si256(a, b, 0x21);
    __m256i left_a = _mm256_alignr_epi8(a, _mm256_permute2x128_si256(a, a, 0x08), 15);
    __m256i left_b = _mm256_alignr_epi8(b, middle, 15);
    __m256i right_a = _mm256_alignr_epi8(middle, a, 1);
    __m256i right_b = _mm256_alignr_epi8(_mm256_permute2x128_si256(b, b, 0x81), b, 1);
    left_a = _mm256_blendv_epi8(left_a, a, first);
    right_a = _mm256_blendv_epi8(right_a, a, last.a);
    right_b = _mm256_blendv_epi8(right_b, b, last.b);
    a = _mm256_xor_si256(_mm256_avg_epu8(left_a, right_a), ones);
    b = _mm256_xor_si256(_mm256_avg_epu8(left_b, right_b), ones);
    return (struct row_u8){_mm256_avg_epu8(a, u.a), _mm256_avg_epu8(b, u.b)};
}

INLINE struct row_u8 base_row_u8(enum psti_packed_predictor predictor, struct row_u8 u,
                                 __m256i first, struct row_u8 last)
{
    if (predictor == PSTI_PACKED_LEFT) {
        __m256i v = _mm256_broadcastb_epi8(_mm256_castsi256_si128(u.a));
        return (struct row_u8){v, v};
    }
    if (predictor == PSTI_PACKED_SMOOTH || predictor == PSTI_PACKED_SMOOTH_GRADIENT)
        return smooth_row_u8(u, first, last);
    return u;
}

/* The plane that is being made. */
struct plane_u8 {
    const struct psti_packed *unit;
    struct psti_packed_work *work;
    uint32_t number;
    uint8_t *saved; /* where the plane's residuals are stored if later planes have taps that refer
                     * to them, else NULL */
    struct taps_u8 taps;
    struct row_u8 last; /* 255 in the last column */
};

/* Makes rows begin .. end - 1, which have the same predictor. `u` is the row above them. Returns
 * the last row. */
INLINE struct row_u8 rows_u8(const struct plane_u8 *plane, size_t begin, size_t end,
                             struct row_u8 u, enum psti_packed_predictor predictor, enum taps kind)
{
    const struct psti_packed_work *work = plane->work;
    /* With local copies the compiler knows that the loop's stores do not change these values. */
    const struct psti_packed unit = {.data = plane->unit->data,
                                     .data_nbytes = plane->unit->data_nbytes};
    const struct taps_u8 taps = plane->taps;
    const struct row_u8 last = plane->last;
    const __m256i first = _mm256_setr_epi32(0xFF, 0, 0, 0, 0, 0, 0, 0);
    const size_t row = (size_t)64 * plane->number;
    uint8_t *saved = plane->saved, *out = plane->work->planes[plane->number];
    struct psti_pli_ahead ahead = psti_pli_ahead(plane->unit->unit, plane->number, (uint32_t)begin);
    for (size_t y = begin; y < end; y++) {
        psti_pli_ask(&ahead, 64);
        const uint8_t *data = psti_pli_packed_row_data(&unit, work, row + y);
        struct row_u8 v = unpack_row_u8(data, work->tables[row + y], work->within[row + y], kind,
                                        &taps, 128 * y, saved);
        if (predictor != PSTI_PACKED_UP && predictor != PSTI_PACKED_SMOOTH)
            v = sum_row_u8(v);
        u = add_u8(v, base_row_u8(predictor, u, first, last));
        store_row_u8(out + 64 * y, u);
    }
    return u;
}

typedef struct row_u8 rows_u8_of(const struct plane_u8 *plane, size_t begin, size_t end,
                                 struct row_u8 u);
#define ROWS_U8(name, predictor, kind)                                                             \
    TARGET static struct row_u8 name(const struct plane_u8 *plane, size_t begin, size_t end,       \
                                     struct row_u8 u)                                              \
    {                                                                                              \
        return rows_u8(plane, begin, end, u, predictor, kind);                                     \
    }
#define ROWS8_WITH(kind)                                                                           \
    ROWS_U8(left_##kind, PSTI_PACKED_LEFT, kind)                                                   \
    ROWS_U8(up_##kind, PSTI_PACKED_UP, kind)                                                       \
    ROWS_U8(gradient_##kind, PSTI_PACKED_GRADIENT, kind)                                           \
    ROWS_U8(smooth_##kind, PSTI_PACKED_SMOOTH, kind)                                               \
    ROWS_U8(smooth_gradient_##kind, PSTI_PACKED_SMOOTH_GRADIENT, kind)
ROWS8_WITH(NO_TAPS)
ROWS8_WITH(ONE_TAP)
ROWS8_WITH(TWO_TAPS)
ROWS8_WITH(LARGE_TAPS)
#define BY_PREDICTOR(kind)                                                                         \
    [kind] = {                                                                                     \
        [PSTI_PACKED_LEFT] = left_##kind,                                                          \
        [PSTI_PACKED_UP] = up_##kind,                                                              \
        [PSTI_PACKED_GRADIENT] = gradient_##kind,                                                  \
        [PSTI_PACKED_SMOOTH] = smooth_##kind,                                                      \
        [PSTI_PACKED_SMOOTH_GRADIENT] = smooth_gradient_##kind,                                    \
    }

/* Chooses the kind of taps. Terms fit a byte if |a| + |b| is less than 32, because |residual| is at
 * most 128. */
TARGET static enum taps open_taps8(struct plane_u8 *plane)
{
    const int8_t *tap = plane->unit->planes[plane->number].tap;
    struct taps_u8 *taps = &plane->taps;
    uint32_t other = plane->number == 2 ? 1 : 0;
    *taps = (struct taps_u8){.r0 = plane->work->residuals[0], .r1 = plane->work->residuals[other]};
    if (!tap[0] && !tap[1])
        return NO_TAPS;
    taps->a = _mm256_set1_epi16(tap[0]);
    taps->b = _mm256_set1_epi16(tap[1]);
    if (abs(tap[0]) + abs(tap[1]) >= 32)
        return LARGE_TAPS;
    if (tap[0] && tap[1])
        return TWO_TAPS;
    taps->r0 = tap[0] ? taps->r0 : taps->r1;
    taps->a = _mm256_slli_epi16(tap[0] ? taps->a : taps->b, 10);
    return ONE_TAP;
}

TARGET static void rebuild_u8(const struct psti_packed *unit, uint32_t p,
                              struct psti_packed_work *work)
{
    static rows_u8_of *const rows[N_TAPS][PSTI_PACKED_SMOOTH_GRADIENT + 1] = {
        BY_PREDICTOR(NO_TAPS), BY_PREDICTOR(ONE_TAP), BY_PREDICTOR(TWO_TAPS),
        BY_PREDICTOR(LARGE_TAPS)};
    uint8_t columns[64] = {0};
    columns[8 * unit->row_groups - 1] = 0xFF;
    struct plane_u8 plane = {.unit = unit,
                             .work = work,
                             .number = p,
                             .saved =
                                 psti_pli_packed_is_tapped(unit, p) ? work->residuals[p] : NULL,
                             .last = load_row_u8(columns)};
    rows_u8_of *const *by_predictor = rows[open_taps8(&plane)];
    __m256i start = _mm256_set1_epi8((char)unit->planes[p].start);
    struct row_u8 u = by_predictor[PSTI_PACKED_LEFT](&plane, 0, 1, (struct row_u8){start, start});
    for (uint32_t y = 0; y < unit->height; y += 16) {
        uint32_t end = unit->height - y < 16 ? unit->height : y + 16;
        u = by_predictor[unit->planes[p].predictor[y >> 4]](&plane, y ? y : 1, end, u);
    }
}

/* 16 bits
 * ------------------------------------------------------------------------------------- */

enum { QUARTERS = 4 };

/* A row of 64 numbers. */
struct row_u16 {
    __m256i v[QUARTERS];
};

/* Unpacks the 8 residuals of a group, 4 from each half of its bytes. */
INLINE __m128i unpack_group_u16(const uint8_t *data, uint32_t w)
{
    const __m128i width = _mm_cvtsi32_si128((int)w), unused = _mm_cvtsi32_si128((int)(16 - w));
    uint64_t high = psti_load_u64(data + (w >> 1)) >> (4 * (w & 1));
    __m128i v = _mm_set_epi64x((int64_t)high, (int64_t)psti_load_u64(data));
    __m128i second = _mm_srl_epi64(v, _mm_slli_epi64(width, 1));
    v = _mm_blend_epi16(v, _mm_slli_epi64(second, 32), 0xCC);
    v = _mm_blend_epi16(v, _mm_slli_epi32(_mm_srl_epi32(v, width), 16), 0xAA);
    return _mm_sra_epi16(_mm_sll_epi16(v, unused), unused);
}

INLINE struct row_u16 unpack_row_u16(const uint8_t *data, const uint8_t *widths,
                                     const uint8_t *within)
{
    struct row_u16 v;
    for (int q = 0; q < QUARTERS; q++) {
        __m128i low = unpack_group_u16(data + within[2 * q], widths[2 * q]);
        __m128i high = unpack_group_u16(data + within[2 * q + 1], widths[2 * q + 1]);
        v.v[q] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
    return v;
}

/* Returns (a r0 + b r1 + 16) >> 5 for 16 residuals, modulo 2^16. */
INLINE __m256i tap_quarter_u16(__m256i r0, __m256i r1, __m256i taps)
{
    const __m256i half = _mm256_set1_epi32(16), low_word = _mm256_set1_epi32(0xFFFF);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(r0, r1), taps);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(r0, r1), taps);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 5);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 5);
    return _mm256_packus_epi32(_mm256_and_si256(low, low_word), _mm256_and_si256(high, low_word));
}

INLINE struct row_u16 sum_row_u16(struct row_u16 v)
{
    const __m256i last = _mm256_set1_epi16(0x0F0E);
    __m256i before = _mm256_setzero_si256();
    for (int q = 0; q < QUARTERS; q++) {
        __m256i s = v.v[q];
        s = _mm256_add_epi16(s, _mm256_slli_si256(s, 2));
        s = _mm256_add_epi16(s, _mm256_slli_si256(s, 4));
        s = _mm256_add_epi16(s, _mm256_slli_si256(s, 8));
        __m256i totals = _mm256_shuffle_epi8(s, last);
        s = _mm256_add_epi16(s, _mm256_permute2x128_si256(totals, totals, 0x08));
        v.v[q] = _mm256_add_epi16(s, before);
        totals = _mm256_add_epi16(totals, _mm256_permute2x128_si256(totals, totals, 0x01));
        before = _mm256_add_epi16(before, totals);
    }
    return v;
}

INLINE struct row_u16 smooth_row_u16(struct row_u16 u, __m256i first, const struct row_u16 *last)
{
    const __m256i ones = _mm256_set1_epi16(-1), zero = _mm256_setzero_si256();
    struct row_u16 out;
    for (int q = 0; q < QUARTERS; q++) {
        __m256i v = _mm256_xor_si256(u.v[q], ones);
        __m256i before = q > 0 ? _mm256_xor_si256(u.v[q - 1], ones) : zero;
        __m256i after = q < QUARTERS - 1 ? _mm256_xor_si256(u.v[q + 1], ones) : zero;
        __m256i left = _mm256_alignr_epi8(v, _mm256_permute2x128_si256(before, v, 0x21), 14);
        __m256i right = _mm256_alignr_epi8(_mm256_permute2x128_si256(v, after, 0x21), v, 2);
        if (q == 0)
            left = _mm256_blendv_epi8(left, v, first);
        right = _mm256_blendv_epi8(right, v, last->v[q]);
        __m256i sides = _mm256_xor_si256(_mm256_avg_epu16(left, right), ones);
        out.v[q] = _mm256_avg_epu16(sides, u.v[q]);
    }
    return out;
}

INLINE struct row_u16 base_row_u16(enum psti_packed_predictor predictor, struct row_u16 u,
                                   __m256i first, const struct row_u16 *last)
{
    if (predictor == PSTI_PACKED_LEFT) {
        __m256i v = _mm256_broadcastw_epi16(_mm256_castsi256_si128(u.v[0]));
        return (struct row_u16){{v, v, v, v}};
    }
    if (predictor == PSTI_PACKED_SMOOTH || predictor == PSTI_PACKED_SMOOTH_GRADIENT)
        return smooth_row_u16(u, first, last);
    return u;
}

INLINE struct row_u16 rows_u16(const struct psti_packed *unit, uint32_t p,
                               struct psti_packed_work *work, uint32_t begin, uint32_t end,
                               struct row_u16 u, enum psti_packed_predictor predictor)
{
    const struct psti_packed_plane *plane = &unit->planes[p];
    const bool has_taps = plane->tap[0] || plane->tap[1];
    const __m256i taps = _mm256_set1_epi32(
        (int)((uint16_t)(int16_t)plane->tap[0] | (uint32_t)(uint16_t)(int16_t)plane->tap[1] << 16));
    uint16_t columns[64] = {0};
    struct row_u16 last;
    columns[8 * unit->row_groups - 1] = 0xFFFF;
    memcpy(&last, columns, sizeof last);
    const __m256i first = _mm256_setr_epi32(0xFFFF, 0, 0, 0, 0, 0, 0, 0);
    const uint8_t *r0 = work->residuals[0], *r1 = work->residuals[p == 2 ? 1 : 0];
    struct psti_pli_ahead ahead = psti_pli_ahead(unit->unit, p, begin);
    for (size_t y = begin; y < end; y++) {
        uint32_t row = 64 * p + (uint32_t)y;
        psti_pli_ask(&ahead, 128);
        struct row_u16 v = unpack_row_u16(psti_pli_packed_row_data(unit, work, row),
                                          work->widths[row], work->within[row]);
        memcpy(work->residuals[p] + 128 * y, &v, sizeof v);
        for (int q = 0; q < QUARTERS && has_taps; q++) {
            size_t at = 128 * y + 32 * (size_t)q;
            v.v[q] = _mm256_add_epi16(v.v[q], tap_quarter_u16(load(r0 + at), load(r1 + at), taps));
        }
        if (predictor != PSTI_PACKED_UP && predictor != PSTI_PACKED_SMOOTH)
            v = sum_row_u16(v);
        struct row_u16 base = base_row_u16(predictor, u, first, &last);
        for (int q = 0; q < QUARTERS; q++)
            u.v[q] = _mm256_add_epi16(v.v[q], base.v[q]);
        memcpy(work->planes[p] + 128 * y, &u, sizeof u);
    }
    return u;
}

INLINE struct row_u16 row_u16_of(uint16_t value)
{
    const __m256i v = _mm256_set1_epi16((int16_t)value);
    return (struct row_u16){{v, v, v, v}};
}

TARGET static void rebuild_u16(const struct psti_packed *unit, uint32_t p,
                               struct psti_packed_work *work)
{
    struct row_u16 u =
        rows_u16(unit, p, work, 0, 1, row_u16_of(unit->planes[p].start), PSTI_PACKED_LEFT);
    for (uint32_t y = 0; y < unit->height; y += 16) {
        uint32_t begin = y ? y : 1, end = unit->height - y < 16 ? unit->height : y + 16;
        switch ((enum psti_packed_predictor)unit->planes[p].predictor[y >> 4]) {
        case PSTI_PACKED_CONSTANT: /* coded planes do not have this predictor */
        case PSTI_PACKED_LEFT:
            u = rows_u16(unit, p, work, begin, end, u, PSTI_PACKED_LEFT);
            break;
        case PSTI_PACKED_UP:
            u = rows_u16(unit, p, work, begin, end, u, PSTI_PACKED_UP);
            break;
        case PSTI_PACKED_GRADIENT:
            u = rows_u16(unit, p, work, begin, end, u, PSTI_PACKED_GRADIENT);
            break;
        case PSTI_PACKED_SMOOTH:
            u = rows_u16(unit, p, work, begin, end, u, PSTI_PACKED_SMOOTH);
            break;
        case PSTI_PACKED_SMOOTH_GRADIENT:
            u = rows_u16(unit, p, work, begin, end, u, PSTI_PACKED_SMOOTH_GRADIENT);
            break;
        }
    }
}

static void rebuild(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work)
{
    if (unit->bits == 8)
        rebuild_u8(unit, p, work);
    else
        rebuild_u16(unit, p, work);
}

const struct psti_packed_kernels psti_packed_kernels_avx2 = {.widths = widths_avx2,
                                                             .rebuild = rebuild};
#endif
