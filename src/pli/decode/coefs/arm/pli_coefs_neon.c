/* pli_coefs_neon.c - the NEON level of the coefficient decoder (docs/format-pli.md, section 8). It
 * decodes the AC tokens, which are nearly all tokens, and their values. Plain C does the other
 * stages.
 *
 * It takes words, states, raw bits and the list of a unit, and makes planes. The functions are
 * pure; any thread may call them. A search of three comparisons finds a token among 8: it compares
 * the state's slot with the slots at which tokens begin in the context. tbl looks up these bounds.
 * D is the distance of 8.4. The list is sorted by ends, so most steps have one D in all lanes; its
 * 8 contexts are one register. The other steps look among all 32 contexts, which are four
 * registers. Contexts depend only on earlier planes, and are found while the states are busy. tbl
 * also gives words to states (pli_refill_neon.h). A step of 32 tokens is about 400 instructions,
 * three quarters of them vector instructions. These bound its time on cores with two pipes for
 * them. With four pipes the chain slot -> token -> state -> which lanes take words -> slot takes
 * about as long. tbl gives out raw bits, too: the bits become bytes, and each entry takes the byte
 * whose number is the count of entries before it. */
#include "pli/decode/coefs/pli_coefs_int.h"
#include "pli/decode/arm/pli_refill_neon.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)
#include <string.h>

enum {
    LANES = PSTI_COEFS_LANES,
    FOURS = LANES / 4,
    BOUNDS = PSTI_JPEG_N_AC_TOKENS - 1,
    SLOTS = PSTI_JPEG_PROB_SUM
};

/* bounds[token - 1][context] is the slot at which the token begins in that context. Token 0 begins
 * at slot 0. */
struct tables {
    _Alignas(64) uint16_t bounds[BOUNDS][PSTI_JPEG_N_AC_CONTEXTS];
    bool has_sure_tokens; /* true if a token has all slots of its context */
};
_Static_assert(sizeof(struct tables) <= PSTI_COEFS_LEVEL_NBYTES, "memory");
_Static_assert(PSTI_JPEG_N_AC_CONTEXTS == 32, "bounds of all contexts are four registers");

static const uint8_t lane_numbers[LANES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                            11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                            22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

static const struct tables *tables_of(const struct psti_coefs_unit *unit)
{
    return (const struct tables *)(const void *)unit->tables->memory;
}

static void prepare(struct psti_pli_coefs_tables *tables)
{
    struct tables *t = (struct tables *)(void *)tables->memory;
    psti_pli_coefs_prepare_c(tables);
    t->has_sure_tokens = false;
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++) {
        const uint16_t *freqs = tables->freqs.ac[c];
        uint32_t begin = 0;
        for (uint32_t i = 0; i < PSTI_JPEG_N_AC_TOKENS; i++) {
            t->has_sure_tokens |= freqs[i] == SLOTS;
            begin += freqs[i];
            if (i < BOUNDS)
                t->bounds[i][c] = (uint16_t)begin;
        }
    }
}

/* -- Contexts -- */

/* The input of the contexts of plane k (g of earlier coefficients; weights and biases, both by
 * side), and the addresses of the plane's own tokens and of their g. */
struct plane {
    const uint8_t *g[PSTI_JPEG_N_FEATURES], *sides;
    int8x16_t weights[PSTI_JPEG_N_FEATURES][2];
    int16x8_t bias[2];
    uint8_t *tokens, *weighed;
};

/* A vector of one byte for each of 32 lanes: v[0] has lanes 0..15, v[1] has lanes 16..31. */
struct bytes {
    uint8x16_t v[2];
};

static uint8_t *g_of(const struct psti_coefs_unit *unit, uint32_t k)
{
    return (uint8_t *)(unit->planes + k * unit->out->stride);
}

static void open_plane(const struct psti_coefs_unit *unit, uint32_t k, struct plane *plane)
{
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++) {
        plane->g[i] = g_of(unit, psti_jpeg_features[k][i]);
        plane->weights[i][0] = vdupq_n_s8(psti_jpeg_weights[0][k][i]);
        plane->weights[i][1] = vdupq_n_s8(psti_jpeg_weights[1][k][i]);
    }
    plane->bias[0] = vdupq_n_s16(psti_jpeg_biases[0][k]);
    plane->bias[1] = vdupq_n_s16(psti_jpeg_biases[1][k]);
    plane->sides = unit->sides;
    plane->tokens = unit->tokens + k * unit->out->stride;
    plane->weighed = g_of(unit, k);
}

/* Returns the buckets of 16 list positions, 0..7 (psti_pli_jpeg_find_indices() has the formula). */
PSTI_NEON_INLINE uint8x16_t buckets_of(const struct plane *p, uint32_t at)
{
    uint8x16_t side = vld1q_u8(p->sides + at);
    int16x8_t low = vbslq_s16(vreinterpretq_u16_u8(vzip1q_u8(side, side)), p->bias[1], p->bias[0]);
    int16x8_t high = vbslq_s16(vreinterpretq_u16_u8(vzip2q_u8(side, side)), p->bias[1], p->bias[0]);
#pragma GCC unroll 6
    for (int i = 0; i < PSTI_JPEG_N_FEATURES; i++) {
        int8x16_t g = vreinterpretq_s8_u8(vld1q_u8(p->g[i] + at));
        int8x16_t weights = vbslq_s8(side, p->weights[i][1], p->weights[i][0]);
        low = vmlal_s8(low, vget_low_s8(g), vget_low_s8(weights));
        high = vmlal_high_s8(high, g, weights);
    }
    uint8x16_t x = vcombine_u8(vqshrun_n_s16(low, 1), vqshrun_n_s16(high, 1));
    uint8x16_t bucket = vdupq_n_u8(0);
    x = vminq_u8(x, vdupq_n_u8(127));
#pragma GCC unroll 7
    for (int i = 0; i < PSTI_JPEG_N_LIMITS; i++)
        bucket = vsubq_u8(bucket, vcgeq_u8(x, vdupq_n_u8(psti_jpeg_limits[i])));
    return bucket;
}

/* -- Tokens -- */

/* The result of a search for the tokens of 8 lanes: the slot at which each token begins, and its
 * number of slots. `half`, `quarter` and `eighth` say in which part of the 8 tokens it is; -1
 * stands for the lower part. */
struct found {
    uint16x8_t begin, freq, half, quarter, eighth;
};

PSTI_NEON_INLINE struct found search(uint16x8_t slot, const uint16x8_t bounds[BOUNDS])
{
    struct found f;
    f.half = vcltq_u16(slot, bounds[3]);
    uint16x8_t begin = vbicq_u16(bounds[3], f.half);
    uint16x8_t end = vbslq_u16(f.half, bounds[3], vdupq_n_u16(SLOTS));
    uint16x8_t low = vbslq_u16(f.half, bounds[0], bounds[4]);
    uint16x8_t bound = vbslq_u16(f.half, bounds[1], bounds[5]);
    uint16x8_t high = vbslq_u16(f.half, bounds[2], bounds[6]);
    f.quarter = vcltq_u16(slot, bound);
    uint16x8_t last = vbslq_u16(f.quarter, low, high);
    begin = vbslq_u16(f.quarter, begin, bound);
    end = vbslq_u16(f.quarter, bound, end);
    f.eighth = vcltq_u16(slot, last);
    f.begin = vbslq_u16(f.eighth, begin, last);
    f.freq = vsubq_u16(vbslq_u16(f.eighth, last, end), f.begin);
    return f;
}

/* Looks up the bounds of 8 lanes. `index` has, for a lane with context c, the bytes 2c and 2c + 1.
 * With `one`, all contexts are below 8, and `bounds` begins at the contexts of one D. */
PSTI_NEON_INLINE void look_up(const uint16_t *bounds, uint8x16_t index, bool one,
                              uint16x8_t out[BOUNDS])
{
#pragma GCC unroll 7
    for (int i = 0; i < BOUNDS; i++) {
        const uint8_t *from = (const uint8_t *)(bounds + PSTI_JPEG_N_AC_CONTEXTS * i);
        if (one) {
            out[i] = vreinterpretq_u16_u8(vqtbl1q_u8(vld1q_u8(from), index));
        } else {
            const uint8x16x4_t all = {
                {vld1q_u8(from), vld1q_u8(from + 16), vld1q_u8(from + 32), vld1q_u8(from + 48)}};
            out[i] = vreinterpretq_u16_u8(vqtbl4q_u8(all, index));
        }
    }
}

/* -- States -- */

struct states {
    uint32x4_t x[FOURS];
    const uint8_t *words, *limit;
};

/* Appends the next words to the states whose bits are set in `masks`. */
PSTI_NEON_INLINE void take_words(struct states *s, uint8x8_t masks)
{
    uint64_t which = vget_lane_u64(vreinterpret_u64_u8(masks), 0);
    uint64_t counts = vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(masks)), 0);
    counts *= 0x0202020202020202; /* byte i: bytes of words that groups 0..i of four lanes take */
    uint64_t before = counts << 8;
#pragma GCC unroll 8
    for (int i = 0; i < FOURS; i++) {
        const uint8_t *words = s->words + (uint8_t)(before >> (8 * i));
        s->x[i] = psti_pli_refill_four(s->x[i], words, which >> (8 * i));
    }
    s->words += counts >> 56;
}

/* Returns freq * (x >> 12) + slot - begin for four lanes. `bias` is slot - begin. */
PSTI_NEON_INLINE uint32x4_t advance(uint32x4_t x, uint16x4_t freq, uint16x4_t bias)
{
    return vmlaq_u32(vmovl_u16(bias), vmovl_u16(freq), vshrq_n_u32(x, PSTI_JPEG_PROB_BITS));
}

/* -- Steps -- */

/* Widens a mask of 16 lanes to four masks of four lanes. */
PSTI_NEON_INLINE void widen(uint8x16_t mask, uint32x4_t out[4])
{
    uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(mask, mask));
    uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(mask, mask));
    out[0] = vreinterpretq_u32_u16(vzip1q_u16(low, low));
    out[1] = vreinterpretq_u32_u16(vzip2q_u16(low, low));
    out[2] = vreinterpretq_u32_u16(vzip1q_u16(high, high));
    out[3] = vreinterpretq_u32_u16(vzip2q_u16(high, high));
}

PSTI_NEON_INLINE uint8x16_t narrow(uint16x8_t a, uint16x8_t b)
{
    return vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b));
}

/* Decodes 32 tokens at list position `base` with these contexts. If `one` is set, all lanes have
 * the same D: `bounds` begins at the contexts of that D, and contexts are buckets. Otherwise
 * `bounds` has all contexts, and only the lanes in `active` decode. */
PSTI_NEON_INLINE void step(struct states *s, const struct plane *p, uint32_t base,
                           const uint16_t *bounds, struct bytes contexts, bool one,
                           struct bytes active)
{
    const uint8x16_t weigh = vcombine_u8(vld1_u8(psti_jpeg_ac_weight), vdup_n_u8(0));
    uint32x4_t low[FOURS];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        uint8x16_t twice = vaddq_u8(contexts.v[i], contexts.v[i]);
        uint8x16_t upper = vorrq_u8(twice, vdupq_n_u8(1));
        struct found f[2];
        uint32x4_t *x = s->x + 4 * i, counts[4];
        if (!one)
            widen(active.v[i], counts);
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            uint16x8_t all[BOUNDS], slot;
            look_up(bounds, j == 0 ? vzip1q_u8(twice, upper) : vzip2q_u8(twice, upper), one, all);
            slot = vuzp1q_u16(vreinterpretq_u16_u32(x[2 * j]), vreinterpretq_u16_u32(x[2 * j + 1]));
            slot = vandq_u16(slot, vdupq_n_u16(SLOTS - 1));
            f[j] = search(slot, all);
            uint16x8_t bias = vsubq_u16(slot, f[j].begin);
            uint32x4_t a = advance(x[2 * j], vget_low_u16(f[j].freq), vget_low_u16(bias));
            uint32x4_t b = advance(x[2 * j + 1], vget_high_u16(f[j].freq), vget_high_u16(bias));
            x[2 * j] = one ? a : vbslq_u32(counts[2 * j], a, x[2 * j]);
            x[2 * j + 1] = one ? b : vbslq_u32(counts[2 * j + 1], b, x[2 * j + 1]);
            low[4 * i + 2 * j] = vcltq_u32(x[2 * j], vdupq_n_u32(1u << 16));
            low[4 * i + 2 * j + 1] = vcltq_u32(x[2 * j + 1], vdupq_n_u32(1u << 16));
        }
        uint8x16_t token = narrow(f[0].half, f[1].half);
        token = vaddq_u8(vaddq_u8(token, token), narrow(f[0].quarter, f[1].quarter));
        token = vaddq_u8(vaddq_u8(token, token), narrow(f[0].eighth, f[1].eighth));
        token = vaddq_u8(token, vdupq_n_u8(PSTI_JPEG_N_AC_TOKENS - 1));
        if (!one)
            token = vandq_u8(token, active.v[i]);
        vst1q_u8(p->tokens + base + 16 * i, token);
        vst1q_u8(p->weighed + base + 16 * i, vqtbl1q_u8(weigh, token));
    }
    take_words(s, psti_pli_refill_masks(low));
}

PSTI_NEON_INLINE void open_step(struct psti_coefs_unit *unit, struct states *s)
{
    if (__builtin_expect(s->words > s->limit, 0)) {
        unit->words.at = s->words;
        psti_pli_coefs_more_words(&unit->words);
        s->words = unit->words.at;
        s->limit = unit->words.limit;
    }
}

/* Returns 255 in the lanes whose list position is before `end`, else 0. */
PSTI_NEON_INLINE uint8x16_t lanes_before(uint32_t end, uint32_t base, int i)
{
    uint32_t n = end > base ? end - base : 0;
    return vcltq_u8(vld1q_u8(lane_numbers + 16 * i), vdupq_n_u8((uint8_t)(n < LANES ? n : LANES)));
}

/* Decodes the tokens of a step in which D changes or the plane ends. `borders` are the list
 * positions at which D becomes 2, 1 and 0, and the end of the plane. */
PSTI_NEON_INLINE void mixed_step(struct psti_coefs_unit *unit, struct states *s,
                                 const struct plane *p, uint32_t base, const uint32_t borders[4])
{
    struct bytes contexts, active;
    for (int i = 0; i < 2; i++) {
        uint8x16_t context = buckets_of(p, base + 16 * (uint32_t)i);
        for (int d = 0; d < 3; d++)
            context = vaddq_u8(context, vandq_u8(lanes_before(borders[d], base, i), vdupq_n_u8(8)));
        contexts.v[i] = context;
        active.v[i] = lanes_before(borders[3], base, i);
    }
    open_step(unit, s);
    step(s, p, base, tables_of(unit)->bounds[0], contexts, false, active);
}

static void read_plane(struct psti_coefs_unit *unit, struct states *states, uint32_t k)
{
    /* The states are copied to registers, because stores of bytes might change *states. */
    struct states s = *states;
    const uint16_t *n_k = unit->out->n_k;
    const uint32_t borders[4] = {n_k[k + 7 < 64 ? k + 7 : 64], n_k[k + 3 < 64 ? k + 3 : 64],
                                 n_k[k + 1], n_k[k]};
    uint32_t base = 0;
    struct plane plane;
    open_plane(unit, k, &plane);
    for (uint32_t i = 0; i < 4; i++) {
        const uint16_t *bounds = tables_of(unit)->bounds[0] + 8 * (3 - i);
        for (; base + LANES <= borders[i]; base += LANES) {
            struct bytes buckets = {{buckets_of(&plane, base), buckets_of(&plane, base + 16)}};
            open_step(unit, &s);
            step(&s, &plane, base, bounds, buckets, true, buckets);
        }
        if (base < borders[i]) {
            mixed_step(unit, &s, &plane, base, borders);
            base += LANES;
        }
    }
    if (base % PSTI_COEFS_SQUARE != 0) {
        vst1q_u8(plane.tokens + base, vdupq_n_u8(0));
        vst1q_u8(plane.tokens + base + 16, vdupq_n_u8(0));
    }
    *states = s;
}

/* Decodes the AC tokens of planes first..last. Plain C decodes units with a table in which a token
 * has all slots of a context: such a token does not change the state. Encoders hardly ever make
 * such tables. */
static void read_ac(struct psti_coefs_unit *unit, uint32_t first, uint32_t last)
{
    if (tables_of(unit)->has_sure_tokens) {
        psti_pli_coefs_read_ac_c(unit, first, last);
        return;
    }
    struct states s = {.words = unit->words.at, .limit = unit->words.limit};
    for (int i = 0; i < FOURS; i++)
        s.x[i] = vld1q_u32(unit->states + 4 * i);
    if (first == 1)
        memset(g_of(unit, 0), 0, psti_round_up(unit->out->n, PSTI_COEFS_SQUARE));
    for (uint32_t k = first; k <= last; k++)
        read_plane(unit, &s, k);
    for (int i = 0; i < FOURS; i++)
        vst1q_u32(unit->states + 4 * i, s.x[i]);
    unit->words.at = s.words;
}

/* -- Values -- */

enum { SQUARE = PSTI_COEFS_SQUARE };

/* The 64 entries of a square or of a group, one byte each. */
struct square {
    uint8x16_t v[4];
};

/* Gives raw bits, lowest first, to the entries of `to` that are 255. Returns 255 in the entries
 * whose bit is set, else 0. The bits become bytes, and each entry takes the byte whose number is
 * the count of entries before it. Sets *n to the number of bits taken. */
PSTI_NEON_INLINE struct square hand_out(uint64_t bits, struct square to, uint32_t *n)
{
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
    const uint8x16_t first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    uint8x16_t all = vreinterpretq_u8_u64(vdupq_n_u64(bits)), before = vdupq_n_u8(0);
    const uint8x16_t zero = before;
    uint8x16x4_t bytes;
    struct square out;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        bytes.val[i] =
            vtstq_u8(vqtbl1q_u8(all, vaddq_u8(first, vdupq_n_u8((uint8_t)(2 * i)))), bit);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        uint8x16_t sum = to.v[i]; /* minus the number of entries up to and including this entry */
        sum = vaddq_u8(sum, vextq_u8(zero, sum, 15));
        sum = vaddq_u8(sum, vextq_u8(zero, sum, 14));
        sum = vaddq_u8(sum, vextq_u8(zero, sum, 12));
        sum = vaddq_u8(sum, vextq_u8(zero, sum, 8));
        sum = vaddq_u8(sum, before);
        before = vdupq_laneq_u8(sum, 15);
        out.v[i] = vandq_u8(vqtbl4q_u8(bytes, vmvnq_u8(sum)), to.v[i]);
    }
    *n = (0u - vgetq_lane_u8(before, 0)) & 255;
    return out;
}

/* Returns -v where `negative` is -1, else v. */
PSTI_NEON_INLINE int16x8_t with_sign(int16x8_t v, int8x8_t negative)
{
    int16x8_t all = vmovl_s8(negative);
    return vsubq_s16(veorq_s16(v, all), all);
}

/* Reads the bits of a group of 64 entries and stores its coefficients. */
static void place_group(struct psti_coefs_bits *bits, const uint8_t *tokens, int16_t *values)
{
    struct square some, negative;
    uint8x16_t largest = vdupq_n_u8(0);
    uint32_t n;
    for (int i = 0; i < 4; i++) {
        uint8x16_t t = vld1q_u8(tokens + 16 * i);
        some.v[i] = vtstq_u8(t, t);
        largest = vmaxq_u8(largest, t);
    }
    negative = hand_out(psti_pli_coefs_peek(bits), some, &n);
    bits->at += n;
    for (int i = 0; i < 4; i++) {
        uint8x16_t t = vminq_u8(vld1q_u8(tokens + 16 * i), vdupq_n_u8(2));
        vst1q_s16(values + 16 * i, vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(t))));
        vst1q_s16(values + 16 * i + 8, vreinterpretq_s16_u16(vmovl_high_u8(t)));
    }
    if (vmaxvq_u8(largest) > 2)
        psti_pli_coefs_place_large_c(bits, tokens, true, values);
    for (int i = 0; i < 4; i++) {
        int8x16_t sign = vreinterpretq_s8_u8(negative.v[i]);
        int16_t *at = values + 16 * i;
        vst1q_s16(at, with_sign(vld1q_s16(at), vget_low_s8(sign)));
        vst1q_s16(at + 8, with_sign(vld1q_s16(at + 8), vget_high_s8(sign)));
    }
}

/* Moves those of 64 values that are kept to their plane. A store of eight values may write garbage
 * after the kept values; the next store overwrites it. */
static void move_kept(const int16_t *values, const struct psti_coefs_move *moves, int16_t *plane)
{
    for (uint32_t i = 0; i < SQUARE / 8; i++) {
        uint8x16_t v = vreinterpretq_u8_s16(vld1q_s16(values + (size_t)8 * i));
        v = vqtbl1q_u8(v, vld1q_u8(moves[i].indices));
        vst1q_s16(plane + moves[i].to, vreinterpretq_s16_u8(v));
    }
}

static void place_ac(struct psti_coefs_unit *unit, uint32_t last)
{
    const struct psti_pli_coefs *out = unit->out;
    const struct psti_coefs_kept *kept = unit->kept;
    for (uint32_t k = 1; k <= last; k++) {
        int16_t *plane = unit->planes + k * out->stride, values[SQUARE];
        for (uint32_t base = 0; base < out->n_k[k]; base += SQUARE) {
            const uint8_t *tokens = unit->tokens + k * out->stride + base;
            place_group(&unit->bits, tokens, kept ? values : plane + base);
            if (kept)
                move_kept(values, kept->moves + base / 8, plane);
        }
        if (kept) /* entries after the kept values are 0, at least up to the next multiple of 64 */
            memset(plane + kept->n_k[k], 0, SQUARE * sizeof *plane);
    }
}

const struct psti_coefs_level psti_coefs_level_neon = {
    .prepare = prepare,
    .read_classes = psti_pli_coefs_read_classes_c,
    .read_ends = psti_pli_coefs_read_ends_c,
    .sort = psti_pli_coefs_sort_c,
    .read_dc = psti_pli_coefs_read_dc_c,
    .read_ac = read_ac,
    .keep = psti_pli_coefs_keep_c,
    .place_dc = psti_pli_coefs_place_dc_c,
    .place_ac = place_ac,
};
#endif
