/* bits.h - little-endian loads and stores at any address, bit fields at any bit offset, rounding,
 * and a 128-bit division. */
#ifndef PST_BASE_BITS_H
#define PST_BASE_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "formats are little-endian and mapped as they are: big-endian hosts are not supported"
#endif

static inline uint16_t psti_load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}
static inline uint32_t psti_load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline uint32_t psti_load_u32_big(const void *p)
{
    return __builtin_bswap32(psti_load_u32(p));
}
static inline uint64_t psti_load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static inline void psti_store_u16(void *p, uint16_t v) { memcpy(p, &v, 2); }
static inline void psti_store_u32(void *p, uint32_t v) { memcpy(p, &v, 4); }
static inline void psti_store_u64(void *p, uint64_t v) { memcpy(p, &v, 8); }

/* Returns the 64 bits that begin at bit number `at`. Reads 9 bytes by two loads and ORs them; bits
 * that both loads hold are equal. The code is written in a way that keeps clang from using SHRD, an
 * instruction that is slow on AMD's processors. */
static inline __attribute__((always_inline)) uint64_t psti_load_bits64(const uint8_t *bytes,
                                                                       uint64_t at)
{
    const uint8_t *p = bytes + (at >> 3);
    return psti_load_u64(p) >> (at & 7) | psti_load_u64(p + 1) << (8 - (at & 7));
}

/* Returns `value` rounded up to a multiple of `alignment`, a power of two. The caller makes sure
 * that value + alignment does not overflow. */
static inline size_t psti_round_up(size_t value, size_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

/* Returns value / divisor. The caller makes sure that the quotient is below 2^64: the upper half of
 * `value` is below `divisor`. The operator `/` would call the compiler's runtime library, which
 * wheels do not contain (scripts/wheels.py). */
static inline uint64_t psti_divide_u128(unsigned __int128 value, uint64_t divisor)
{
    uint64_t high = (uint64_t)(value >> 64), low = (uint64_t)value;
    if (high == 0)
        return low / divisor;
    for (int bit = 0; bit < 64; bit++) { /* quotient bits enter `low` as dividend bits leave it */
        uint64_t carry = high >> 63;
        high = high << 1 | low >> 63;
        low <<= 1;
        if (carry || high >= divisor) {
            high -= divisor;
            low |= 1;
        }
    }
    return low;
}

#endif
