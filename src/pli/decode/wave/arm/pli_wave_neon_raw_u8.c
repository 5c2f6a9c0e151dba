/* pli_wave_neon_raw_u8.c - raw bits of 8-bit samples with NEON.
 *
 * It takes rows of activities of pairs and the bits of the unit. It writes residuals, two rows in
 * place of each row of activities. Running sums of the lanes' numbers of bits say where each lane's
 * bits begin. 16 lanes have 128 bits at most, so two look-ups give each lane the two bytes that
 * hold its bits. Rows depend on each other only through the number of bits of the row before. A row
 * takes 110 instructions, and 85 more if one of its pairs has a suffix2. The functions are pure;
 * any thread may call them. */
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include <string.h>

/* Look-up tables. Unless a comment says otherwise, the index is the lower four bits of an
 * activity. */
struct raw_tables {
    uint8x16_t first_bits, second_bits, bases;
    /* The points of tokens 1 to 10. `sides` gives the sum d = a + b of a point, by q (nth in
     * docs/format-pli.md, 5.4), and 0 from q = 128 on. `triangles` gives d (d - 1) / 2, by d. The
     * base of token 0 and triangles[0] are both 255, which makes a and b 0. */
    uint8x16x4_t sides[2];
    uint8x16x2_t triangles;
    uint8x16_t cosines, sines; /* indexed by the number of right angles, modulo 4 */
};

static void open_raw_tables(struct raw_tables *t)
{
    static const uint8_t cosines[16] = {1, 0, 255, 0, 1, 0, 255, 0, 1, 0, 255, 0, 1, 0, 255, 0};
    uint8_t bases[16], triangles[32] = {255};
    memcpy(bases, psti_pli_wave_bases_of, sizeof bases);
    bases[0] = 255;
    for (uint32_t d = 1; d <= 16; d++)
        triangles[d] = (uint8_t)(d * (d - 1) / 2);
    for (uint32_t i = 0; i < 8; i++)
        t->sides[i / 4].val[i % 4] = vaddq_u8(vld1q_u8(psti_pli_wave_points_a + (size_t)16 * i),
                                              vld1q_u8(psti_pli_wave_points_b + (size_t)16 * i));
    t->first_bits = vld1q_u8(psti_pli_wave_first_bits_of);
    t->second_bits = vld1q_u8(psti_pli_wave_second_bits_of);
    t->bases = vld1q_u8(bases);
    t->triangles = vld1q_u8_x2(triangles);
    t->cosines = vld1q_u8(cosines);
    t->sines = vextq_u8(t->cosines, t->cosines, 15); /* cosines, one right angle less */
}

/* Takes the next `n` bits of 16 lanes, at most 8 for each lane. The bits begin at bit number `*at`,
 * which moves past them. */
PSTI_NEON_INLINE uint8x16_t take_bits(uint8x16_t n, const uint8_t *bytes, uint64_t *at)
{
    uint8x16_t sums = sums_up_to(n);
    uint8x16_t begin = vaddq_u8(vsubq_u8(sums, n), vdupq_n_u8((uint8_t)(*at & 7)));
    const uint8_t *from = bytes + (*at >> 3);
    uint8x16_t byte = vshrq_n_u8(begin, 3); /* at most 15 */
    uint8x16_t low = vqtbl1q_u8(vld1q_u8(from), byte), high = vqtbl1q_u8(vld1q_u8(from + 1), byte);
    int8x16_t skip = vreinterpretq_s8_u8(vandq_u8(begin, vdupq_n_u8(7)));
    uint8x16_t bits =
        vorrq_u8(vshlq_u8(low, vnegq_s8(skip)), vshlq_u8(high, vsubq_s8(vdupq_n_s8(8), skip)));
    *at += vgetq_lane_u8(sums, 15);
    return vbicq_u8(bits, vshlq_u8(vdupq_n_u8(255), vreinterpretq_s8_u8(n)));
}

/* The points (a, b) of 16 lanes. */
struct points {
    uint8x16_t a, b;
};

PSTI_NEON_INLINE struct points find_near(const struct raw_tables *t, uint8x16_t which,
                                         uint8x16_t first)
{
    uint8x16_t q = vsraq_n_u8(vqtbl1q_u8(t->bases, which), first, 2);
    uint8x16_t side =
        vorrq_u8(vqtbl4q_u8(t->sides[0], q), vqtbl4q_u8(t->sides[1], vsubq_u8(q, vdupq_n_u8(64))));
    uint8x16_t b = vsubq_u8(q, vqtbl2q_u8(t->triangles, side));
    return (struct points){vsubq_u8(side, b), b};
}

/* Returns the points of squares (tokens 11 to 14), for lanes whose suffix2 has n bits. */
PSTI_NEON_INLINE struct points find_far(const struct raw_tables *t, uint8x16_t which,
                                        uint8x16_t first, uint8x16_t n, uint8x16_t second)
{
    uint8x16_t u = vaddq_u8(vshlq_u8(vdupq_n_u8(1), vreinterpretq_s8_u8(n)), second);
    uint8x16_t from = vsubq_u8(vshrq_n_u8(u, 1), vqtbl1q_u8(t->bases, which));
    uint8x16_t b = vsraq_n_u8(from, first, 2);
    return (struct points){vsubq_u8(u, b), b};
}

PSTI_NEON_INLINE struct points pick_points(uint8x16_t mask, struct points yes, struct points no)
{
    return (struct points){vbslq_u8(mask, yes.a, no.a), vbslq_u8(mask, yes.b, no.b)};
}

/* Reads suffix2 of half a row, and returns the resulting points. Token 15 stands for any pair,
 * which must not be rotated, so its `*first` is set to 0. */
PSTI_NEON_INLINE struct points add_second(const struct raw_tables *t, uint8x16_t activities,
                                          uint8x16_t *first, struct points near,
                                          const uint8_t *bits, uint64_t *at)
{
    uint8x16_t which = vandq_u8(activities, vdupq_n_u8(15));
    uint8x16_t n = vqtbl1q_u8(t->second_bits, which), second = take_bits(n, bits, at);
    struct points far = find_far(t, which, *first, n, second), any = {*first, second};
    uint8x16_t is_any = vceqq_u8(activities, vdupq_n_u8(PSTI_PLI_WAVE_ANY_ACTIVITY));
    far = pick_points(is_any, any, far);
    *first = vbicq_u8(*first, is_any);
    return pick_points(vtstq_u8(n, n), far, near);
}

/* Rotates points by the lowest two bits of suffix1. Returns the residuals x and y. */
PSTI_NEON_INLINE struct points turn_points(const struct raw_tables *t, struct points p,
                                           uint8x16_t first)
{
    /* The number of right angles counts modulo 4, because the tables repeat after 4. */
    uint8x16_t turns = vandq_u8(first, vdupq_n_u8(15));
    uint8x16_t c = vqtbl1q_u8(t->cosines, turns), s = vqtbl1q_u8(t->sines, turns);
    return (struct points){vmlsq_u8(vmulq_u8(p.a, c), p.b, s), vmlaq_u8(vmulq_u8(p.a, s), p.b, c)};
}

uint64_t psti_pli_wave_neon_residuals(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    const uint8_t *bits = job->memory->bits;
    struct psti_pli_wave_row *row = job->memory->tokens + WAVE_BEFORE;
    const struct psti_pli_wave_row *end = row + job->head->n_token_steps;
    struct raw_tables tables;
    uint64_t at = 0;
    open_raw_tables(&tables);
    for (; row < end && at <= n_bits; row++) {
        const v32 activities = row_load(row->lanes);
        struct points points[2]; /* the points of the two halves of the row */
        v32 first;
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            uint8x16_t which = vandq_u8(activities.v[i], vdupq_n_u8(15));
            first.v[i] = take_bits(vqtbl1q_u8(tables.first_bits, which), bits, &at);
            points[i] = find_near(&tables, which, first.v[i]);
        }
        if (vmaxvq_u8(vmaxq_u8(activities.v[0], activities.v[1])) >=
            PSTI_PLI_WAVE_SQUARE_ACTIVITY) {
#pragma GCC unroll 2
            for (int i = 0; i < 2; i++)
                points[i] = add_second(&tables, activities.v[i], &first.v[i], points[i], bits, &at);
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            struct points p = turn_points(&tables, points[i], first.v[i]);
            vst1q_u8(row->residuals[0] + 16 * i, p.a);
            vst1q_u8(row->residuals[1] + 16 * i, p.b);
        }
    }
    return at;
}
#endif
