/* hash_avx2.c - XXH3-64 compiled for AVX2.
 *
 * Input and output are as in hash.h. The result is the same, in half the time. Pure; any thread.
 * xxHash chooses its vectors when it is compiled, so the whole of it is compiled here for AVX2,
 * with static functions. The form of its state does not depend on the vectors. */
#include "base/hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#define XXH_INLINE_ALL
#define XXH_VECTOR 2 /* the value of XXH_AVX2 */
#include <xxhash.h>

uint64_t psti_hash64_avx2(const void *bytes, size_t nbytes) { return XXH3_64bits(bytes, nbytes); }

void psti_hash_update_avx2(struct psti_hash_state *state, const void *bytes, size_t nbytes)
{
    XXH3_64bits_update((XXH3_state_t *)(void *)state->opaque, bytes, nbytes);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
