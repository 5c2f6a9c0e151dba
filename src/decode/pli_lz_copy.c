/* pli_lz_copy.c - executes the sequences of an lz unit in plain C, the judge of the other levels,
 * and chooses the level. See pli_lz_execute.h. */
#include "base/bits.h"
#include "base/cpu.h"

#define LZ_TARGET
#define LZ_EDGE find_edge

/* Eight bytes at a time; copies nothing before it knows how much. */
__attribute__((always_inline)) static inline size_t find_edge(uint8_t *to, const uint8_t *from,
                                                              size_t room, uint32_t n,
                                                              const uint32_t P)
{
    const uint8_t *end = to, *p = from; /* p: the pixel before the next that may be an edge */
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
    for (size_t i = 0; i < nbytes && nbytes + 32 <= room; i += 32)
        memcpy(to + i, from + i, 32);
    return nbytes;
}

#include "decode/pli_lz_execute.h"

const char *psti_lz_execute(struct psti_lz_execution *run, uint32_t pixel_nbytes, uint32_t cpu)
{
#ifdef __x86_64__
    if (cpu & PSTI_CPU_AVX2)
        return psti_lz_execute_avx2(run, pixel_nbytes);
#endif
    (void)cpu;
    return execute_any(run, pixel_nbytes);
}
