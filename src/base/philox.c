/* philox.c - Philox-4x32-10 with its published constants and rounds (Salmon et al., SC 2011,
 * section 3.3). */
#include "base/philox.h"

static void multiply(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low)
{
    uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

void psti_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint32_t high0, low0, high1, low1;
        multiply(0xD2511F53u, c0, &high0, &low0);
        multiply(0xCD9E8D57u, c2, &high1, &low1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u; /* derived from the golden ratio */
        k1 += 0xBB67AE85u; /* derived from sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void psti_random4(uint64_t seed, uint64_t epoch, enum psti_random_domain domain, uint64_t index,
                  uint32_t sub, uint32_t draw, uint32_t out[4])
{
    const uint32_t seed_key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t epoch_counter[4] = {(uint32_t)epoch, (uint32_t)(epoch >> 32), (uint32_t)domain,
                                       0x70737430u};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), sub, draw};
    uint32_t folded[4];
    psti_philox4x32_10(epoch_counter, seed_key, folded);
    psti_philox4x32_10(counter, folded, out);
}
