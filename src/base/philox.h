/* philox.h - Philox-4x32-10, the counter-based random number generator of Salmon, Moraes, Dror,
 * Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. It is a pure function: it has no
 * state and gives the same numbers on every machine and on the GPU. */
#ifndef PST_BASE_PHILOX_H
#define PST_BASE_PHILOX_H

#include <stdint.h>

void psti_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Separate streams of random numbers for each purpose. The numbers determine the order and the
 * augmentation of samples, so they must never change. */
enum psti_random_domain {
    PSTI_RANDOM_AUGMENT = 0, /* index = draw, sub = view; gives the key of augment_draw.c */
    PSTI_RANDOM_ORDER = 1,
    PSTI_RANDOM_WEIGHTED = 2,
    PSTI_RANDOM_REPLACE = 3,
    PSTI_RANDOM_MIX = 4 /* index = position of the batch's first row (augment_mix.c) */
};

/* Computes four random numbers from (seed, epoch, domain, index, sub, draw). The key is the seed,
 * combined with epoch and domain by one Philox call. The counter is (index low, index high, sub,
 * draw). */
void psti_random4(uint64_t seed, uint64_t epoch, enum psti_random_domain domain, uint64_t index,
                  uint32_t sub, uint32_t draw, uint32_t out[4]);

/* Returns a uniform number in [0, 1): a multiple of 2^-24, which a float holds exactly. */
static inline float psti_uniform01(uint32_t random) { return (float)(random >> 8) * 0x1p-24f; }
/* Returns a uniform number in 0..n-1, n >= 1, by multiplication (Lemire 2019) without rejection.
 * The bias is below n / 2^32. */
static inline uint32_t psti_uniform_below(uint32_t random, uint32_t n)
{
    return (uint32_t)(((uint64_t)random * n) >> 32);
}

#endif
