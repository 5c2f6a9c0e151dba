/* pli_packed_neon.c - mode packed with NEON, of 8 bits.
 *
 * pli_packed.h says what goes in and out. Plain C gives the same bits. The functions are pure; any
 * thread may call them. Widths, 8 rows at a time: counting the groups that have a bit in a run
 * gives each of them its bit (a tbl by the count). Rows: a tbl unpacks a group of 8 residuals, a
 * shift brings each residual to the top of its lane, and another shift brings it down. Each row is
 * unpacked and predicted before the next one, so the dependent chain from row to row overlaps with
 * the unpacking of later rows. A row of 64 bytes with sums takes some 150 instructions, 80 of them
 * vector instructions, which limit the speed: a Neoverse N1 starts two of them per cycle, only one
 * of which may be a shift. */
#include "pli/decode/packed/pli_packed.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)

/* Groups
 * ------------------------------------------------------------------------------------- */

/* The operands that unpack a group of one width. `shuffle` moves the bytes that hold a residual
 * into its lane. `align` moves the residual to the lane's top. */
struct group_u8 {
    uint8_t shuffle[16];
    int16_t align[8];
};

#define FOUR(M, w, k) M(w, k), M(w, (k) + 1), M(w, (k) + 2), M(w, (k) + 3)
#define FIRST(w, k) (uint8_t)((k) * (w) >> 3)
#define TWO_BYTES(w, k) FIRST(w, k), FIRST(w, k) + 1
#define ALIGN_U8(w, k) (16 - (w) - ((k) * (w)&7))
#define GROUP_U8(w)                                                                                \
    {                                                                                              \
        {FOUR(TWO_BYTES, w, 0), FOUR(TWO_BYTES, w, 4)},                                            \
            {FOUR(ALIGN_U8, w, 0), FOUR(ALIGN_U8, w, 4)},                                          \
    }

static const _Alignas(64) struct group_u8 groups_u8[9] = {GROUP_U8(0), GROUP_U8(1), GROUP_U8(2),
                                                          GROUP_U8(3), GROUP_U8(4), GROUP_U8(5),
                                                          GROUP_U8(6), GROUP_U8(7), GROUP_U8(8)};

/* Widths
 * ------------------------------------------------------------------------------------- */

enum { QUARTERS = 4 };

/* 64 bytes: 8 rows of 8 groups, or a row of 64 samples. */
struct row_u8 {
    uint8x16_t v[QUARTERS];
};

/* Returns the bytes moved up by n, with zeros below. */
#define MOVE_UP(v, n) vextq_u8(vdupq_n_u8(0), v, 16 - (n))

/* Returns running sums of 64 bytes. */
PSTI_NEON_INLINE struct row_u8 sum_row_u8(struct row_u8 v)
{
    uint8x16_t before = vdupq_n_u8(0);
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++) {
        uint8x16_t s = v.v[q];
        s = vaddq_u8(s, MOVE_UP(s, 1));
        s = vaddq_u8(s, MOVE_UP(s, 2));
        s = vaddq_u8(s, MOVE_UP(s, 4));
        s = vaddq_u8(s, MOVE_UP(s, 8));
        v.v[q] = vaddq_u8(s, before);
        before = vaddq_u8(before, vdupq_laneq_u8(s, 15));
    }
    return v;
}

struct width_state {
    const uint8_t *strings;
    uint32_t n_runs, at[PSTI_PACKED_MAX_RUNS + 1]; /* at: position of the next bit of each run */
    uint8x16_t above, widest;
    uint64x2_t offset;
};

/* Returns a byte for each bit of `bits`: 0xFF if the bit is set, else 0. */
PSTI_NEON_INLINE struct row_u8 spread(uint64_t bits)
{
    const uint8x16_t each = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const uint8x16_t first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    uint8x16_t v = vreinterpretq_u8_u64(vdupq_n_u64(bits));
    struct row_u8 out;
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++)
        out.v[q] = vtstq_u8(vqtbl1q_u8(v, vaddq_u8(first, vdupq_n_u8((uint8_t)(2 * q)))), each);
    return out;
}

/* Gives the next bits of run r to the bytes of `m` that are 0xFF, in ascending order. A byte stays
 * 0xFF if its bit is 1. */
PSTI_NEON_INLINE struct row_u8 deal(struct width_state *s, uint32_t r, struct row_u8 m)
{
    uint64_t run = psti_load_bits64(s->strings, s->at[r]);
    uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(run));
    struct row_u8 minus_count = sum_row_u8(m), out;
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++) {
        /* The n-th byte of `m` that is 0xFF has -n here. Its bit in the run is number n - 1, which
         * is ~-n. */
        uint8x16_t c = minus_count.v[q];
        uint8x16_t byte = vqtbl1q_u8(bits, vshrq_n_u8(vmvnq_u8(c), 3));
        int8x16_t to_top = vreinterpretq_s8_u8(vandq_u8(c, vdupq_n_u8(7))); /* 7 - (~c & 7) */
        int8x16_t top = vreinterpretq_s8_u8(vshlq_u8(byte, to_top));
        out.v[q] = vandq_u8(vcltq_s8(top, vdupq_n_s8(0)), m.v[q]);
    }
    s->at[r] += (uint8_t)-vgetq_lane_u8(minus_count.v[QUARTERS - 1], 15);
    return out;
}

PSTI_NEON_INLINE bool has_any(struct row_u8 m)
{
    uint8x16_t any = vorrq_u8(vorrq_u8(m.v[0], m.v[1]), vorrq_u8(m.v[2], m.v[3]));
    return vmaxvq_u8(any) != 0;
}

/* Returns d_i of 8 rows of groups. `m1` has the bits of M1 for these groups, one byte for each
 * row. */
PSTI_NEON_INLINE struct row_u8 read_steps(struct width_state *s, uint64_t m1)
{
    struct row_u8 m = spread(m1), steps, sign;
    if (m1 == 0)
        return m;
    struct row_u8 negative = deal(s, 1, m);
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++) {
        sign.v[q] = vorrq_u8(negative.v[q], vdupq_n_u8(1));
        steps.v[q] = vandq_u8(m.v[q], sign.v[q]);
    }
    for (uint32_t r = 2; r + 1 < s->n_runs; r++) { /* M2.. except the last run, all 0 */
        m = deal(s, r, m);
        if (!has_any(m))
            break;
#pragma GCC unroll 4
        for (int q = 0; q < QUARTERS; q++)
            steps.v[q] = vaddq_u8(steps.v[q], vandq_u8(m.v[q], sign.v[q]));
    }
    return steps;
}

/* Stores the widths of the groups of two rows, and the groups' offsets, which follow from the
 * widths. */
PSTI_NEON_INLINE void store_widths(struct width_state *s, uint8x16_t steps, uint32_t row,
                                   struct psti_packed_work *work)
{
    uint8x16_t w = vaddq_u8(vaddq_u8(steps, MOVE_UP(steps, 8)), s->above);
    s->above = vcombine_u8(vget_high_u8(w), vget_high_u8(w));
    s->widest = vmaxq_u8(s->widest, w);
    vst1q_u8(work->widths[row], w);
    uint64x2_t within = vshlq_n_u64(vreinterpretq_u64_u8(w), 8);
    within = vaddq_u64(within, vshlq_n_u64(within, 8)); /* no sum that is used exceeds a byte */
    within = vaddq_u64(within, vshlq_n_u64(within, 16));
    within = vaddq_u64(within, vshlq_n_u64(within, 32));
    vst1q_u8(work->within[row], vreinterpretq_u8_u64(within));
    uint64x2_t sum = vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(w)));
    uint64x2_t end = vaddq_u64(vaddq_u64(sum, s->offset), vextq_u64(vdupq_n_u64(0), sum, 1));
    vst1q_u64(&work->offsets[row], vsubq_u64(end, sum));
    s->offset = vdupq_laneq_u64(end, 1);
}

/* Spreads `bits`, 8 rows of `n` bits without gaps, to one byte per row. Rows from `n_rows` on are
 * 0. */
PSTI_NEON_INLINE uint64_t byte_a_row(uint64_t bits, uint32_t n, uint32_t n_rows)
{
    uint64_t out = bits;
    if (n < 8) {
        out = 0;
        for (uint32_t y = 0; y < 8; y++)
            out |= (bits >> (y * n) & ((1u << n) - 1)) << (8 * y);
    }
    return n_rows < 8 ? out & ((UINT64_C(1) << 8 * n_rows) - 1) : out;
}

/* Decodes the widths of one plane. Its groups begin at bit `at` of M1. Rows that the unit does not
 * have get no width differences, and are not counted. */
PSTI_NEON_INLINE void plane_widths(struct width_state *s, const struct psti_packed *unit,
                                   uint32_t p, uint32_t at, struct psti_packed_work *work)
{
    const uint64_t each = 0x0101010101010101;
    uint64_t present = UINT64_MAX >> (64 - 8 * unit->row_groups);
    s->above = vreinterpretq_u8_u64(vdupq_n_u64(each * unit->planes[p].first_width & present));
    for (uint32_t y = 0; y < unit->height; y += 8, at += 8 * unit->row_groups) {
        uint64_t m1 =
            byte_a_row(psti_load_bits64(s->strings, at), unit->row_groups, unit->height - y);
        struct row_u8 steps = read_steps(s, m1);
#pragma GCC unroll 4
        for (uint32_t q = 0; q < QUARTERS; q++)
            store_widths(s, steps.v[q], 64 * p + y + 2 * q, work);
        if (unit->height - y < 8)
            s->offset = vdupq_n_u64(work->offsets[64 * p + unit->height]);
    }
}

static enum psti_packed_verdict widths_neon(struct psti_packed *unit, struct psti_packed_work *work,
                                            uint64_t *sum)
{
    const uint8_t *strings = psti_pli_packed_open_runs(unit, work);
    if (!strings)
        return PSTI_PACKED_NO_END;
    struct width_state s = {.strings = strings, .n_runs = unit->runs.n};
    memcpy(s.at, unit->runs.begin, sizeof s.at);
    s.widest = vdupq_n_u8(0);
    s.offset = vdupq_n_u64(0);
    uint32_t at = 0;
    for (uint32_t p = 0; p < unit->n_planes; p++) {
        if (unit->planes[p].is_constant)
            continue;
        plane_widths(&s, unit, p, at, work);
        at += unit->height * unit->row_groups;
    }
    if (vmaxvq_u8(s.widest) > unit->bits)
        return PSTI_PACKED_TOO_WIDE;
    *sum = vgetq_lane_u64(s.offset, 0);
    return PSTI_PACKED_FINE;
}

/* Rows
 * ------------------------------------------------------------------------------------- */

PSTI_NEON_INLINE struct row_u8 load_row_u8(const uint8_t *p)
{
    return (struct row_u8){{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
PSTI_NEON_INLINE void store_row_u8(uint8_t *p, struct row_u8 v)
{
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++)
        vst1q_u8(p + 16 * q, v.v[q]);
}

/* Returns the residuals of a group, each at the top of its 16-bit lane. */
PSTI_NEON_INLINE uint8x16_t align_group_u8(const uint8_t *data, uint32_t w)
{
    const struct group_u8 *group = &groups_u8[w];
    uint8x16_t v = vqtbl1q_u8(vld1q_u8(data), vld1q_u8(group->shuffle));
    return vreinterpretq_u8_u16(vshlq_u16(vreinterpretq_u16_u8(v), vld1q_s16(group->align)));
}

PSTI_NEON_INLINE struct row_u8 unpack_row_u8(const uint8_t *data, const uint8_t *widths,
                                             const uint8_t *within)
{
    const uint8x16_t first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    /* The widths less 8. They are negative, so the shift goes to the right: it moves residuals from
     * the top of a byte to its bottom. */
    uint8x16_t down = vcombine_u8(vsub_u8(vld1_u8(widths), vdup_n_u8(8)), vdup_n_u8(0));
    struct row_u8 v;
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++) {
        uint8x16_t low = align_group_u8(data + within[2 * q], widths[2 * q]);
        uint8x16_t high = align_group_u8(data + within[2 * q + 1], widths[2 * q + 1]);
        uint8x16_t which = vaddq_u8(first, vdupq_n_u8((uint8_t)(2 * q)));
        v.v[q] = vreinterpretq_u8_s8(vshlq_s8(vreinterpretq_s8_u8(vuzp2q_u8(low, high)),
                                              vreinterpretq_s8_u8(vqtbl1q_u8(down, which))));
    }
    return v;
}

/* Returns v + ((a r0 + b r1 + 16) >> 5) for 16 residuals. */
PSTI_NEON_INLINE uint8x16_t add_taps8(uint8x16_t v, const uint8_t *r0, const uint8_t *r1,
                                      const int8_t taps[2])
{
    const int8x16_t a = vdupq_n_s8(taps[0]), b = vdupq_n_s8(taps[1]);
    int8x16_t v0 = vreinterpretq_s8_u8(vld1q_u8(r0)), v1 = vreinterpretq_s8_u8(vld1q_u8(r1));
    int16x8_t low = vmull_s8(vget_low_s8(v0), vget_low_s8(a)), high = vmull_high_s8(v0, a);
    low = vmlal_s8(low, vget_low_s8(v1), vget_low_s8(b));
    high = vmlal_high_s8(high, v1, b);
    int8x16_t sum = vcombine_s8(vrshrn_n_s16(low, 5), vrshrn_n_s16(high, 5));
    return vaddq_u8(v, vreinterpretq_u8_s8(sum));
}

/* Returns the row above after smooth() of section 4.5. `last` is a mask of the last column, which
 * all rows have. */
PSTI_NEON_INLINE struct row_u8 smooth_row_u8(struct row_u8 u, struct row_u8 last)
{
    uint8x16_t before = vdupq_laneq_u8(u.v[0], 0);
    struct row_u8 out;
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++) {
        uint8x16_t left = vextq_u8(before, u.v[q], 15);
        uint8x16_t right = vextq_u8(u.v[q], u.v[q + 1 < QUARTERS ? q + 1 : q], 1);
        right = vbslq_u8(last.v[q], u.v[q], right);
        out.v[q] = vrhaddq_u8(vhaddq_u8(left, right), u.v[q]);
        before = u.v[q];
    }
    return out;
}

PSTI_NEON_INLINE struct row_u8 base_row_u8(enum psti_packed_predictor predictor, struct row_u8 u,
                                           struct row_u8 last)
{
    if (predictor == PSTI_PACKED_LEFT) {
        uint8x16_t v = vdupq_laneq_u8(u.v[0], 0);
        return (struct row_u8){{v, v, v, v}};
    }
    if (predictor == PSTI_PACKED_SMOOTH || predictor == PSTI_PACKED_SMOOTH_GRADIENT)
        return smooth_row_u8(u, last);
    return u;
}

/* Makes rows begin .. end - 1 of plane `p`, which have the same predictor. `u` is the row above
 * them. Returns the last row. */
PSTI_NEON_INLINE struct row_u8 rows_u8(const struct psti_packed *unit, uint32_t p,
                                       struct psti_packed_work *work, uint32_t begin, uint32_t end,
                                       struct row_u8 u, enum psti_packed_predictor predictor,
                                       bool has_taps)
{
    const struct psti_packed_plane *plane = &unit->planes[p];
    uint8_t columns[64] = {0};
    columns[8 * unit->row_groups - 1] = 0xFF;
    const struct row_u8 last = load_row_u8(columns);
    const uint8_t *r0 = work->residuals[0], *r1 = work->residuals[p == 2 ? 1 : 0];
    for (size_t y = begin; y < end; y++) {
        uint32_t row = 64 * p + (uint32_t)y;
        struct row_u8 v = unpack_row_u8(psti_pli_packed_row_data(unit, work, row),
                                        work->widths[row], work->within[row]);
        store_row_u8(work->residuals[p] + 64 * y, v);
#pragma GCC unroll 4
        for (size_t q = 0; q < QUARTERS && has_taps; q++)
            v.v[q] = add_taps8(v.v[q], r0 + 64 * y + 16 * q, r1 + 64 * y + 16 * q, plane->tap);
        if (predictor != PSTI_PACKED_UP && predictor != PSTI_PACKED_SMOOTH)
            v = sum_row_u8(v);
        struct row_u8 base = base_row_u8(predictor, u, last);
#pragma GCC unroll 4
        for (int q = 0; q < QUARTERS; q++)
            u.v[q] = vaddq_u8(v.v[q], base.v[q]);
        store_row_u8(work->planes[p] + 64 * y, u);
    }
    return u;
}

#define ROWS_U8(name, predictor)                                                                   \
    static struct row_u8 name(const struct psti_packed *unit, uint32_t p,                          \
                              struct psti_packed_work *work, uint32_t begin, uint32_t end,         \
                              struct row_u8 u)                                                     \
    {                                                                                              \
        if (unit->planes[p].tap[0] || unit->planes[p].tap[1])                                      \
            return rows_u8(unit, p, work, begin, end, u, predictor, true);                         \
        return rows_u8(unit, p, work, begin, end, u, predictor, false);                            \
    }
ROWS_U8(rows_u8_left, PSTI_PACKED_LEFT)
ROWS_U8(rows_u8_up, PSTI_PACKED_UP)
ROWS_U8(rows_u8_gradient, PSTI_PACKED_GRADIENT)
ROWS_U8(rows_u8_smooth, PSTI_PACKED_SMOOTH)
ROWS_U8(rows_u8_smooth_gradient, PSTI_PACKED_SMOOTH_GRADIENT)

static void rebuild_neon(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work)
{
    static struct row_u8 (*const by_predictor[])(const struct psti_packed *, uint32_t,
                                                 struct psti_packed_work *, uint32_t, uint32_t,
                                                 struct row_u8) = {
        [PSTI_PACKED_LEFT] = rows_u8_left,
        [PSTI_PACKED_UP] = rows_u8_up,
        [PSTI_PACKED_GRADIENT] = rows_u8_gradient,
        [PSTI_PACKED_SMOOTH] = rows_u8_smooth,
        [PSTI_PACKED_SMOOTH_GRADIENT] = rows_u8_smooth_gradient,
    };
    uint8x16_t start = vdupq_n_u8((uint8_t)unit->planes[p].start);
    struct row_u8 u =
        rows_u8_left(unit, p, work, 0, 1, (struct row_u8){{start, start, start, start}});
    for (uint32_t y = 0; y < unit->height; y += 16) {
        uint32_t end = unit->height - y < 16 ? unit->height : y + 16;
        u = by_predictor[unit->planes[p].predictor[y >> 4]](unit, p, work, y ? y : 1, end, u);
    }
}

const struct psti_packed_kernels psti_packed_kernels_neon = {.widths = widths_neon,
                                                             .rebuild = rebuild_neon};
#endif
