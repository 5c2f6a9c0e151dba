/* test_cache_threads.c - many threads look up, store and give up items at once. Each item is stored
 * once, every thread sees the right bytes, and the budget is not exceeded. */
#include "cache/cache_fixture.h"

#include "base/thread.h"
#include "cache/cache.h"

#include <stdatomic.h>
#include <string.h>

enum { N_THREADS = 8, N_SAMPLES = 2000, NBYTES_MAX = 3000, N_EPOCHS = 6 };

struct work {
    struct psti_cache_set *set;
    unsigned number;
    atomic_uint *n_kept;  /* [N_SAMPLES] */
    uint64_t n_hits_last; /* number of hits in the last epoch */
};

static uint64_t nbytes_of(uint64_t sample) { return 1 + sample * 7919 % NBYTES_MAX; }

static void check(const struct psti_cache_span *span, uint64_t sample)
{
    const unsigned char *bytes = span->bytes;
    assert_int_equal(span->nbytes, nbytes_of(sample));
    for (uint64_t i = 0; i < span->nbytes; i++)
        if (bytes[i] != (unsigned char)(sample + i))
            fail_msg("sample %u has another byte", (unsigned)sample);
}

static void visit(struct work *work, uint64_t sample, unsigned epoch)
{
    unsigned char bytes[NBYTES_MAX + 1];
    struct psti_cache_span span;
    uint64_t nbytes = nbytes_of(sample);
    switch (psti_cache_ask(work->set, sample, 0, nbytes, &span)) {
    case PSTI_CACHE_HIT:
        check(&span, sample);
        work->n_hits_last += epoch == N_EPOCHS - 1;
        break;
    /* pretends that reading the item failed */
    case PSTI_CACHE_ADMIT:
        if ((sample + work->number + epoch) % 5 == 0) {
            psti_cache_give_up(work->set, sample, 0, nbytes);
            break;
        }
        for (uint64_t i = 0; i < nbytes; i++)
            bytes[i] = (unsigned char)(sample + i);
        span = (struct psti_cache_span){bytes, nbytes, 0};
        assert_true(psti_cache_keep(work->set, sample, 0, nbytes, &span));
        atomic_fetch_add(&work->n_kept[sample], 1);
        break;
    case PSTI_CACHE_PASS:
        break;
    }
}

static void run(void *arg)
{
    struct work *work = arg;
    for (unsigned epoch = 0; epoch < N_EPOCHS; epoch++)
        for (uint64_t i = 0; i < N_SAMPLES; i++)
            visit(work, (i * 1009 + work->number * 37 + epoch) % N_SAMPLES, epoch);
}

static void test_threads(void **state)
{
    (void)state;
    enum { LIMIT = 2 << 20 };
    static atomic_uint n_kept[N_SAMPLES];
    struct work work[N_THREADS];
    pthread_t threads[N_THREADS];
    struct pst_error err;
    const struct psti_cache_shape shape = {{1}, N_SAMPLES, 1, 0, false};
    pst_cache *cache = open_cache(LIMIT);
    struct psti_cache_set *set = NULL;
    assert_ok(psti_cache_set_open(cache, &shape, &set, &err));
    for (unsigned i = 0; i < N_THREADS; i++) {
        work[i] = (struct work){set, i, n_kept, 0};
        assert_ok(psti_thread_start(&threads[i], "cache", run, &work[i], &err));
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        psti_thread_join(threads[i]);
    uint64_t n = 0, used = N_SAMPLES * 8;
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        assert_true(n_kept[i] <= 1);
        n += n_kept[i];
        if (n_kept[i])
            used += room_of(nbytes_of(i));
    }
    struct pst_cache_stats stats = use_of(cache);
    assert_int_equal(stats.n_items, n);
    assert_int_equal(stats.nbytes_used, used);
    assert_true(used <= LIMIT);
    assert_true(n > 1000 && n < N_SAMPLES);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

struct openers {
    pst_cache *cache;
    uint8_t identity;
};

/* Opens, uses and closes sets that do not all fit at once. */
static void open_and_close(void *arg)
{
    const struct openers *openers = arg;
    struct pst_error err;
    for (unsigned i = 0; i < 200; i++) {
        const struct psti_cache_shape shape = {
            {(uint8_t)((openers->identity + i) % 5)}, 16, 1, 0, false};
        struct psti_cache_set *set = NULL;
        struct psti_cache_span span;
        static const char bytes[300000] = {1};
        assert_ok(psti_cache_set_open(openers->cache, &shape, &set, &err));
        for (uint64_t sample = 0; sample < 4; sample++)
            if (psti_cache_ask(set, sample, 0, sizeof bytes, &span) == PSTI_CACHE_ADMIT) {
                span = (struct psti_cache_span){bytes, sizeof bytes, 0};
                psti_cache_keep(set, sample, 0, sizeof bytes, &span);
            }
        psti_cache_set_close(&set);
    }
}

static void test_sets_come_and_go(void **state)
{
    (void)state;
    enum { N = 4, LIMIT = 3 << 20 };
    struct openers openers[N];
    pthread_t threads[N];
    struct pst_error err;
    pst_cache *cache = open_cache(LIMIT);
    for (unsigned i = 0; i < N; i++) {
        openers[i] = (struct openers){cache, (uint8_t)i};
        assert_ok(psti_thread_start(&threads[i], "sets", open_and_close, &openers[i], &err));
    }
    for (unsigned i = 0; i < N; i++)
        psti_thread_join(threads[i]);
    struct pst_cache_stats stats = use_of(cache);
    assert_true(stats.nbytes_used <= LIMIT);
    assert_true(stats.n_datasets >= 1 && stats.n_datasets <= 5);
    pst_cache_close(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sets_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
