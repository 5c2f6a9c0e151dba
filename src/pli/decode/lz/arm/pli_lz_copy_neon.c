/* pli_lz_copy_neon.c - executes the sequences of an lz unit with NEON. It searches edges 24 to 32
 * bytes at a time and copies these bytes on the way. pli_lz_execute.h has the loop. The sequences
 * depend on each other, which bounds the time; within long copies loads bound it, three for each
 * vector. */
#include "pli/decode/lz/pli_lz_copy.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)

#define LZ_TARGET
#define LZ_INLINE __attribute__((always_inline))
#define LZ_MOVE move_wide
#define LZ_REPEAT repeat
#define LZ_EDGE copy_to_edge

LZ_INLINE static inline void move_wide(uint8_t *to, const uint8_t *from)
{
    uint8x16_t low = vld1q_u8(from), high = vld1q_u8(from + 16);
    vst1q_u8(to, low);
    vst1q_u8(to + 16, high);
}

/* The pattern stays in registers, because a load would wait for the bytes just written. */
LZ_INLINE static inline void repeat(uint8_t *to, size_t distance, size_t nbytes)
{
    if (distance > 16) {
        for (size_t i = 0; i < nbytes; i += distance)
            move_wide(to + i, to + i - distance);
        return;
    }
    const uint8_t *order = psti_lz_repeats[distance - 1];
    uint8x16_t before = vld1q_u8(to - distance);
    uint8x16_t low = vqtbl1q_u8(before, vld1q_u8(order));
    uint8x16_t high = vqtbl1q_u8(before, vld1q_u8(order + 16));
    size_t step = WIDE - (order[WIDE - 1] + 1u) % distance; /* whole repetitions */
    for (size_t i = 0; i < nbytes; i += step) {
        vst1q_u8(to + i, low);
        vst1q_u8(to + i + 16, high);
    }
}

/* Returns a bit for each of the 16 / P pixels whose next pixel differs, at 4 times the number of
 * the pixel's first byte. `b` is the vector one pixel after `a`. */
LZ_INLINE static inline uint64_t edges_of(uint8x16_t a, uint8x16_t b, const uint32_t P)
{
    uint8x16_t same = vceqq_u8(a, b);
    if (P == 2)
        same = vreinterpretq_u8_u16(vceqq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
    if (P == 4)
        same = vreinterpretq_u8_u32(vceqq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
    if (P == 8)
        same = vreinterpretq_u8_u64(vceqq_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
    uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(same), 4);
    uint64_t bytes = ~vget_lane_u64(vreinterpret_u64_u8(nibbles), 0);
    switch (P) {
    case 1:
        return bytes & 0x1111111111111111;
    case 2:
        return bytes & 0x0101010101010101;
    case 3:
        return (bytes | bytes >> 4 | bytes >> 8) & 0x0001001001001001;
    case 4:
        return bytes & 0x0001000100010001;
    case 6:
        bytes |= bytes >> 4 | bytes >> 8;
        return (bytes | bytes >> 12) & 0x0000000001000001;
    default:
        return bytes & 0x0000000100000001;
    }
}

/* Returns the offset of the n-th edge in bytes. `high` has the edges of a vector `step` bytes
 * later.
 */
LZ_INLINE static inline size_t place_of(uint64_t low, uint64_t high, size_t step, uint32_t n)
{
    for (; n > 1 && low != 0; n--)
        low &= low - 1;
    if (low != 0)
        return (size_t)__builtin_ctzll(low) / 4;
    for (; n > 1; n--)
        high &= high - 1;
    return step + (size_t)__builtin_ctzll(high) / 4;
}

LZ_INLINE static inline size_t copy_to_edge(uint8_t *to, const uint8_t *from, size_t room,
                                            uint32_t n, const uint32_t P)
{
    const size_t step = 16 / P * P;
    size_t before = (size_t)(to - from);
    /* Does two vectors per turn. Most copies end in the first turn, which makes the branch
     * predictable. Near the end of the pixels it copies nothing: the caller then copies exactly. */
    for (size_t i = 0; i < before; i += 2 * step) {
        uint8x16_t low = vld1q_u8(from + i), high = vld1q_u8(from + i + step);
        uint64_t low_edges = edges_of(low, vld1q_u8(from + i + P), P);
        uint64_t high_edges = edges_of(high, vld1q_u8(from + i + step + P), P);
        uint32_t count = (uint32_t)__builtin_popcountll(low_edges | high_edges << 1);
        if (i + 2 * WIDE + P <= room) {
            vst1q_u8(to + i, low);
            vst1q_u8(to + i + step, high);
        }
        if (count >= n) {
            size_t edge = i + place_of(low_edges, high_edges, step, n) + P;
            return edge < before ? edge : 0;
        }
        n -= count;
    }
    return 0;
}

#include "pli/decode/lz/pli_lz_execute.h"

const char *psti_pli_lz_execute_neon(struct psti_lz_execution *run, uint32_t pixel_nbytes)
{
    return execute_any(run, pixel_nbytes);
}
#endif
