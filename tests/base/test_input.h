/* test_input.h - input for tests: random numbers, and memory that ends at a guard page. */
#ifndef PST_TEST_INPUT_H
#define PST_TEST_INPUT_H

#include "test.h"

#include "base/philox.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A stream of random numbers for a test, the same in every run. */
struct test_random {
    uint64_t seed, n;
};

static inline uint32_t test_below(struct test_random *random, uint32_t n)
{
    uint32_t out[4];
    psti_random4(random->seed, 0, PSTI_RANDOM_REPLACE, random->n++, 0, 0, out);
    return psti_uniform_below(out[0], n);
}

/* Memory that ends where an inaccessible page begins. `before` bytes of 0xa5 lie in front of it. */
struct guarded {
    unsigned char *map, *data;
    size_t map_nbytes, before;
};

static inline struct guarded guarded_make(size_t nbytes, size_t before)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded g = {.before = before};
    size_t pages = (nbytes + before + page - 1) / page;
    g.map_nbytes = (pages + 1) * page;
    g.map = mmap(NULL, g.map_nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + pages * page, page, PROT_NONE), 0);
    g.data = g.map + pages * page - nbytes;
    memset(g.map, 0xa5, pages * page);
    return g;
}

static inline void guarded_free(struct guarded *g)
{
    for (size_t i = 0; i < g->before; i++)
        assert_int_equal(g->data[-1 - (ptrdiff_t)i], 0xa5);
    munmap(g->map, g->map_nbytes);
}

#endif
