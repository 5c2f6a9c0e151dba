/* cache_fixture.h - shared by the tests of the cache and of loaders with a cache. A failure in a
 * helper fails the test. */
#ifndef PST_TESTS_CACHE_FIXTURE_H
#define PST_TESTS_CACHE_FIXTURE_H

#include "test.h"

#include <penstock/cache.h>

static inline pst_cache *open_cache(uint64_t nbytes)
{
    const struct pst_cache_options options = {sizeof options, nbytes};
    pst_cache *cache = NULL;
    struct pst_error err;
    assert_ok(pst_cache_open(&options, &cache, &err));
    return cache;
}

static inline struct pst_cache_stats use_of(pst_cache *cache)
{
    struct pst_cache_stats use;
    pst_cache_stats(cache, &use, sizeof use);
    return use;
}

/* Returns the bytes that an item of nbytes takes of the budget: a header of 16 bytes, the item's
 * bytes, and padding up to a multiple of 16. */
static inline uint64_t room_of(uint64_t nbytes) { return (16 + nbytes + 15) / 16 * 16; }

#endif
