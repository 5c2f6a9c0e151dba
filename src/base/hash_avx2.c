/* hash_avx2.c - XXH3-64 compiled for AVX2.
 *
 * In and out: see hash.h. The results are the same as those of hash.c, in half the time. Pure
 * functions, any thread. xxHash chooses its vector code at compile time, so this file compiles the
 * whole of it for AVX2, as static functions. The layout of its state does not depend on the vector
 * code. */
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
