/* pli_lz_copy.c - executes the sequences of an lz unit in plain C, the reference implementation of
 * the other levels. pli_lz_execute.h has the loop. */
#include "pli/decode/lz/pli_lz_copy.h"

#define REPEATED(d, i)                                                                             \
    (i) % (d), ((i) + 1) % (d), ((i) + 2) % (d), ((i) + 3) % (d), ((i) + 4) % (d),                 \
        ((i) + 5) % (d), ((i) + 6) % (d), ((i) + 7) % (d)
#define REPEATS(d)                                                                                 \
    {                                                                                              \
        REPEATED(d, 0), REPEATED(d, 8), REPEATED(d, 16), REPEATED(d, 24)                           \
    }
const uint8_t psti_lz_repeats[16][WIDE] = {REPEATS(1),  REPEATS(2),  REPEATS(3),  REPEATS(4),
                                           REPEATS(5),  REPEATS(6),  REPEATS(7),  REPEATS(8),
                                           REPEATS(9),  REPEATS(10), REPEATS(11), REPEATS(12),
                                           REPEATS(13), REPEATS(14), REPEATS(15), REPEATS(16)};

#define LZ_TARGET
#define LZ_INLINE __attribute__((always_inline))
#define LZ_MOVE move_wide
#define LZ_REPEAT repeat
#define LZ_EDGE find_edge

static inline void move_wide(uint8_t *to, const uint8_t *from)
{
    uint8_t bytes[WIDE];
    memcpy(bytes, from, WIDE);
    memcpy(to, bytes, WIDE);
}

/* Each turn doubles the written part of the pattern, until a wide copy reads only written bytes. */
static inline void repeat(uint8_t *to, size_t distance, size_t nbytes)
{
    const uint8_t *from = to - distance;
    for (; distance < WIDE; distance *= 2) {
        move_wide(to, from);
        if (nbytes <= distance)
            return;
        to += distance;
        nbytes -= distance;
    }
    for (size_t i = 0; i < nbytes; i += WIDE)
        move_wide(to + i, to + i - distance);
}

/* Compares eight bytes at a time, and copies them only when their number is known. */
LZ_INLINE static inline size_t find_edge(uint8_t *to, const uint8_t *from, size_t room, uint32_t n,
                                         const uint32_t P)
{
    const uint8_t *end = to, *p = from; /* p: before the next pixel to test */
    for (; n > 0; n--) {
        size_t i = 0;
        uint64_t differ;
        do {
            differ = psti_load_u64(p + i) ^ psti_load_u64(p + i + P);
            i += 8;
        } while (differ == 0 && p + i + P < end);
        if (differ == 0)
            return 0;
        p += (i - 8 + (size_t)__builtin_ctzll(differ) / 8) / P * P + P;
        if (p >= end)
            return 0;
    }
    size_t nbytes = (size_t)(p - from);
    for (size_t i = 0; i < nbytes && nbytes + WIDE <= room; i += WIDE)
        move_wide(to + i, from + i);
    return nbytes;
}

#include "pli/decode/lz/pli_lz_execute.h"

const char *psti_pli_lz_execute_c(struct psti_lz_execution *run, uint32_t pixel_nbytes)
{
    return execute_any(run, pixel_nbytes);
}
