/* hash.c - XXH3-64 of xxHash (BSD-2-Clause), inlined so that no hash state is ever allocated. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash.h"

uint64_t psti_hash64(const void *bytes, size_t nbytes) { return XXH3_64bits(bytes, nbytes); }

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
    XXH3_64bits_update(state_of(state), bytes, nbytes);
}

uint64_t psti_hash_end(const struct psti_hash_state *state)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)state->opaque);
}
