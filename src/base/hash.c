/* hash.c - XXH3-64 and XXH32 of xxHash (BSD-2-Clause). xxHash is inlined, so no hash state is ever
 * allocated.
 *
 * In: bytes; out: 64 bits. Pure functions, any thread. Long inputs are hashed by hash_avx2.c if the
 * CPU has AVX2. That matters because checksums take a tenth of the time of decoding the fastest PLI
 * units. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/bits.h"
#include "base/machine/cpu.h"
#include "base/hash.h"

#include <stdbool.h>

#if defined(__x86_64__)
static bool is_wide(size_t nbytes)
{
    return nbytes >= PSTI_HASH_WIDE_MIN && (psti_cpu_features() & PSTI_CPU_AVX2) != 0;
}
#endif

uint64_t psti_hash64(const void *bytes, size_t nbytes)
{
#if defined(__x86_64__)
    if (is_wide(nbytes))
        return psti_hash64_avx2(bytes, nbytes);
#endif
    return XXH3_64bits(bytes, nbytes);
}

uint32_t psti_hash32(const void *bytes, size_t nbytes) { return XXH32(bytes, nbytes, 0); }

static XXH3_state_t *state_of(struct psti_hash_state *state)
{
    _Static_assert(sizeof(XXH3_state_t) <= sizeof state->opaque, "room for the state");
    return (XXH3_state_t *)(void *)state->opaque;
}

void psti_hash_begin(struct psti_hash_state *state)
{
    XXH3_INITSTATE(state_of(state));
    XXH3_64bits_reset(state_of(state));
}

void psti_hash_update(struct psti_hash_state *state, const void *bytes, size_t nbytes)
{
#if defined(__x86_64__)
    if (is_wide(nbytes)) {
        psti_hash_update_avx2(state, bytes, nbytes);
        return;
    }
#endif
    XXH3_64bits_update(state_of(state), bytes, nbytes);
}

uint64_t psti_hash_end(const struct psti_hash_state *state)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)state->opaque);
}

void psti_hash_pair_begin(struct psti_hash_pair *pair)
{
    for (uint8_t i = 0; i < 2; i++) {
        psti_hash_begin(&pair->halves[i]);
        psti_hash_update(&pair->halves[i], &i, 1);
    }
}

void psti_hash_pair_update(struct psti_hash_pair *pair, const void *bytes, size_t nbytes)
{
    for (int i = 0; i < 2; i++)
        psti_hash_update(&pair->halves[i], bytes, nbytes);
}

void psti_hash_pair_end(const struct psti_hash_pair *pair, uint8_t out[16])
{
    for (int i = 0; i < 2; i++)
        psti_store_u64(out + 8 * i, psti_hash_end(&pair->halves[i]));
}
