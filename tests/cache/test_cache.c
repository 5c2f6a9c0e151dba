/* test_cache.c - tests which items a cache admits and refuses, which set it evicts, and that it
 * counts every byte. */
#include "cache/cache_fixture.h"

#include "base/fault.h"
#include "cache/cache_int.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define ITEM_HEAD 16 /* bytes of the header before each item */

static struct psti_cache_set *open_set(pst_cache *cache, uint8_t identity, uint64_t n_samples)
{
    const struct psti_cache_shape shape = {{identity}, n_samples, 1, 0, false};
    struct psti_cache_set *set = NULL;
    struct pst_error err;
    assert_ok(psti_cache_set_open(cache, &shape, &set, &err));
    return set;
}

/* Fills in the bytes of an item. They differ between samples and between offsets. */
static void fill(unsigned char *bytes, uint64_t nbytes, uint64_t sample)
{
    for (uint64_t i = 0; i < nbytes; i++)
        bytes[i] = (unsigned char)(sample * 31 + i * 7 + (i >> 8));
}

static bool keep(struct psti_cache_set *set, uint64_t sample, uint32_t i_item, const void *bytes,
                 uint64_t nbytes)
{
    const struct psti_cache_span item = {bytes, nbytes, 0};
    return psti_cache_keep(set, sample, i_item, nbytes, &item);
}

/* Looks up an item. Stores it if the cache admits it, and compares its bytes if the cache has
 * it. */
static enum psti_cache_answer visit(struct psti_cache_set *set, uint64_t sample, uint64_t nbytes)
{
    struct psti_cache_span span;
    unsigned char *bytes = malloc(nbytes ? nbytes : 1);
    assert_non_null(bytes);
    fill(bytes, nbytes, sample);
    enum psti_cache_answer answer = psti_cache_ask(set, sample, 0, nbytes, &span);
    if (answer == PSTI_CACHE_ADMIT)
        assert_true(keep(set, sample, 0, bytes, nbytes));
    if (answer == PSTI_CACHE_HIT) {
        assert_int_equal(span.nbytes, nbytes);
        assert_memory_equal(span.bytes, bytes, nbytes);
        assert_int_equal((uintptr_t)span.bytes % 16, 0);
    }
    free(bytes);
    return answer;
}

static void test_hits_are_what_was_kept(void **state)
{
    (void)state;
    enum { N = 1000, NBYTES = 4096 - ITEM_HEAD, N_FIT = 500 };
    pst_cache *cache = open_cache(N * 8 + N_FIT * 4096 + 4095);
    struct psti_cache_set *set = open_set(cache, 1, N);
    uint64_t n[3] = {0};
    for (uint64_t i = 0; i < N; i++)
        n[visit(set, i, NBYTES)]++;
    assert_int_equal(n[PSTI_CACHE_ADMIT], N_FIT);
    assert_int_equal(n[PSTI_CACHE_PASS], N - N_FIT);
    struct pst_cache_stats stats = use_of(cache);
    assert_int_equal(stats.n_items, N_FIT);
    assert_int_equal(stats.n_refused, N - N_FIT);
    assert_int_equal(stats.nbytes_used, N * 8 + N_FIT * 4096);
    for (int epoch = 0; epoch < 3; epoch++) {
        memset(n, 0, sizeof n);
        for (uint64_t i = 0; i < N; i++)
            n[visit(set, (i * 7 + (uint64_t)epoch) % N, NBYTES)]++;
        assert_int_equal(n[PSTI_CACHE_HIT], N_FIT);
        assert_int_equal(n[PSTI_CACHE_ADMIT], 0);
    }
    /* An item that exactly fits the remaining space is admitted. */
    assert_int_equal(visit(set, N - 1, 4095 - ITEM_HEAD - 15), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

static void test_sizes(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(64 * MIB);
    struct psti_cache_set *set = open_set(cache, 1, 64);
    static const uint64_t sizes[] = {0, 1, 15, 16, 17, 4095, 65536, 5 * MIB + 3, 17 * MIB};
    uint64_t used = 64 * 8;
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(visit(set, i, sizes[i]), PSTI_CACHE_ADMIT);
        used += room_of(sizes[i]);
        assert_int_equal(use_of(cache).nbytes_used, used);
    }
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(visit(set, i, sizes[i]), PSTI_CACHE_HIT);
    struct psti_cache_span span;
    assert_int_equal(psti_cache_ask(set, 20, 0, 64 * MIB, &span), PSTI_CACHE_PASS);
    assert_int_equal(psti_cache_ask(set, 20, 0, UINT64_MAX, &span), PSTI_CACHE_PASS);
    assert_int_equal(psti_cache_ask(set, 20, 0, UINT64_MAX - 31, &span), PSTI_CACHE_PASS);
    assert_int_equal(use_of(cache).nbytes_used, used);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* An item that became shorter after its space was reserved takes only its own length, and is
 * returned with its form. A caller with other forms has a set of its own. */
static void test_shorter_items_and_forms(void **state)
{
    (void)state;
    enum { N = 40, LONG = 1000, SHORT = 300 };
    unsigned char bytes[SHORT];
    uint64_t used = N * 8;
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *set = open_set(cache, 1, N), *other = NULL;
    struct psti_cache_span span;
    struct pst_error err;
    for (uint64_t i = 0; i < N; i++) {
        const struct psti_cache_span item = {bytes, SHORT - i, (uint8_t)(1 + i % 3)};
        fill(bytes, SHORT, i);
        assert_int_equal(psti_cache_ask(set, i, 0, LONG, &span), PSTI_CACHE_ADMIT);
        assert_int_equal(use_of(cache).nbytes_used, used + room_of(LONG));
        assert_true(psti_cache_keep(set, i, 0, LONG, &item));
        used += room_of(item.nbytes);
        assert_int_equal(use_of(cache).nbytes_used, used);
    }
    for (uint64_t i = 0; i < N; i++) {
        fill(bytes, SHORT, i);
        assert_int_equal(psti_cache_ask(set, i, 0, LONG, &span), PSTI_CACHE_HIT);
        assert_int_equal(span.nbytes, SHORT - i);
        assert_int_equal(span.form, 1 + i % 3);
        assert_memory_equal(span.bytes, bytes, SHORT - i);
    }
    const struct psti_cache_shape shape = {{1}, N, 1, 5, false};
    assert_ok(psti_cache_set_open(cache, &shape, &other, &err));
    assert_int_equal(use_of(cache).n_datasets, 2);
    assert_int_equal(psti_cache_ask(other, 0, 0, LONG, &span), PSTI_CACHE_ADMIT);
    psti_cache_give_up(other, 0, 0, LONG);
    psti_cache_set_close(&other);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

static void test_reservation_is_exclusive_and_returns(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *set = open_set(cache, 1, 8);
    struct psti_cache_span span;
    uint64_t before = use_of(cache).nbytes_used;
    assert_int_equal(psti_cache_ask(set, 3, 0, 600000, &span), PSTI_CACHE_ADMIT);
    assert_int_equal(psti_cache_ask(set, 3, 0, 600000, &span), PSTI_CACHE_PASS);
    assert_int_equal(psti_cache_ask(set, 4, 0, 600000, &span), PSTI_CACHE_PASS);
    psti_cache_give_up(set, 3, 0, 600000);
    assert_int_equal(use_of(cache).nbytes_used, before);
    assert_int_equal(visit(set, 4, 600000), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(set, 3, 600000), PSTI_CACHE_PASS);
    assert_int_equal(visit(set, 4, 600000), PSTI_CACHE_HIT);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

static void test_variants_are_items_of_their_own(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(MIB);
    const struct psti_cache_shape shape = {{7}, 10, 3, 0, false};
    struct psti_cache_set *set = NULL;
    struct psti_cache_span span;
    struct pst_error err;
    assert_ok(psti_cache_set_open(cache, &shape, &set, &err));
    for (uint64_t sample = 0; sample < 10; sample++)
        for (uint32_t item = 0; item < 3; item++) {
            const unsigned char byte = (unsigned char)(sample * 3 + item);
            assert_int_equal(psti_cache_ask(set, sample, item, 1, &span), PSTI_CACHE_ADMIT);
            assert_true(keep(set, sample, item, &byte, 1));
        }
    for (uint64_t sample = 0; sample < 10; sample++)
        for (uint32_t item = 0; item < 3; item++) {
            assert_int_equal(psti_cache_ask(set, sample, item, 1, &span), PSTI_CACHE_HIT);
            assert_int_equal(*(const unsigned char *)span.bytes, sample * 3 + item);
        }
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* Two loaders of one data set share a set. Another version of the data set has its own set. Sets
 * are evicted as a whole: the one closed for the longest time first, and never an open one. */
static void test_sets(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(4 * MIB);
    struct psti_cache_set *a = open_set(cache, 1, 4), *same = open_set(cache, 1, 4);
    struct psti_cache_set *b = open_set(cache, 2, 4), *c = open_set(cache, 3, 4);
    assert_ptr_equal(a, same);
    assert_ptr_not_equal(a, b);
    assert_int_equal(visit(a, 0, MIB), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(same, 0, MIB), PSTI_CACHE_HIT);
    assert_int_equal(visit(b, 0, MIB), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(c, 0, MIB), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(c, 1, MIB), PSTI_CACHE_PASS);
    psti_cache_set_close(&same);
    psti_cache_set_close(&b);
    psti_cache_set_close(&a);
    assert_int_equal(use_of(cache).n_datasets, 3);
    b = open_set(cache, 2, 4);
    assert_int_equal(visit(b, 0, MIB), PSTI_CACHE_HIT);   /* set b is still cached */
    assert_int_equal(visit(c, 1, MIB), PSTI_CACHE_ADMIT); /* set a was evicted */
    assert_int_equal(visit(c, 2, MIB), PSTI_CACHE_PASS);  /* set b is in use */
    assert_int_equal(use_of(cache).n_datasets, 2);
    assert_int_equal(visit(b, 0, MIB), PSTI_CACHE_HIT);
    psti_cache_set_close(&b);
    a = open_set(cache, 1, 4);
    /* set b was evicted, and set a is empty */
    assert_int_equal(visit(a, 0, MIB), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&a);
    pst_cache_close(&cache); /* set c still refers to the cache */
    assert_null(cache);
    assert_int_equal(visit(c, 0, MIB), PSTI_CACHE_HIT);
    psti_cache_set_close(&c);
    struct pst_memory_stats memory;
    pst_memory_stats(&memory, sizeof memory);
    assert_int_equal(memory.live_nbytes, 0);
}

static void test_what_cannot_be(void **state)
{
    (void)state;
    struct pst_error err;
    pst_cache *cache = NULL;
    struct pst_cache_options options = {sizeof options, 0};
    assert_int_equal(pst_cache_open(&options, &cache, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_cache_open(NULL, &cache, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_cache_open(&options, NULL, &err), PST_ERROR_ARGUMENT);
    options.nbytes = UINT64_MAX / 2;
    assert_int_equal(pst_cache_open(&options, &cache, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "bytes of memory"));
    assert_null(cache);
    pst_cache_close(&cache);
    pst_cache_close(NULL);
    cache = open_cache(MIB);
    struct psti_cache_set *set = NULL;
    struct psti_cache_shape shape = {{0}, MIB, 1, 0, false}; /* a table of 8 MiB */
    assert_int_equal(psti_cache_set_open(cache, &shape, &set, &err), PST_ERROR_LIMIT);
    shape.n_samples = UINT64_MAX / 4;
    shape.n_items = 8;
    assert_int_equal(psti_cache_set_open(cache, &shape, &set, &err), PST_ERROR_LIMIT);
    assert_null(set);
    psti_cache_set_close(&set);
    assert_int_equal(use_of(cache).nbytes_used, 0);
    pst_cache_close(&cache);
}

/* If the system gives no memory, no item is lost and nothing stays reserved. */
static void test_no_memory(void **state)
{
    (void)state;
    struct pst_error err;
    for (uint64_t n = 1;; n++) {
        const struct pst_cache_options options = {sizeof options, 4 * MIB};
        const struct psti_cache_shape shape = {{1}, 4, 1, 0, false};
        pst_cache *cache = NULL;
        struct psti_cache_set *set = NULL;
        struct psti_cache_span span;
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        enum pst_status status = pst_cache_open(&options, &cache, &err);
        if (status == PST_OK)
            status = psti_cache_set_open(cache, &shape, &set, &err);
        bool kept = false;
        if (status == PST_OK) {
            assert_int_equal(psti_cache_ask(set, 0, 0, 3, &span), PSTI_CACHE_ADMIT);
            unsigned char bytes[3];
            fill(bytes, 3, 0);
            kept = keep(set, 0, 0, bytes, 3);
        } else {
            assert_int_equal(status, PST_ERROR_MEMORY);
        }
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status == PST_OK) {
            assert_int_equal(use_of(cache).n_items, kept);
            assert_int_equal(use_of(cache).nbytes_used, 4 * 8 + (kept ? 32 : 0));
            assert_int_equal(visit(set, 0, 3), kept ? PSTI_CACHE_HIT : PSTI_CACHE_ADMIT);
        }
        psti_cache_set_close(&set);
        pst_cache_close(&cache);
        if (kept)
            return;
        assert_true(n < 20);
    }
}

/* For a while items get no memory. Afterwards the whole budget and the whole address range can be
 * used again: as many items fit as before. */
static void test_memory_that_comes_later(void **state)
{
    (void)state;
    enum { N = 60, NBYTES = 1000000, N_FIT = 40 };
    static unsigned char bytes[NBYTES];
    struct psti_cache_span span;
    pst_cache *cache = open_cache(N * 8 + N_FIT * (uint64_t)(NBYTES + ITEM_HEAD));
    struct psti_cache_set *set = open_set(cache, 1, N);
    psti_fault_arm(PSTI_FAULT_ALLOC, 1, true);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(psti_cache_ask(set, i, 0, NBYTES, &span), PSTI_CACHE_ADMIT);
        assert_false(keep(set, i, 0, bytes, NBYTES));
    }
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    assert_int_equal(use_of(cache).nbytes_used, N * 8);
    for (uint64_t i = 0; i < N_FIT; i++)
        assert_int_equal(visit(set, i, NBYTES), PSTI_CACHE_ADMIT);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(visit(set, i, NBYTES), i < N_FIT ? PSTI_CACHE_HIT : PSTI_CACHE_PASS);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

static void test_advice(void **state)
{
    (void)state;
    static const struct {
        uint64_t dataset_nbytes, available_nbytes;
        unsigned n_ranks;
        uint64_t want;
        const char *reason;
    } cases[] = {
        {100 * MIB, 100 * MIB, 1, 0, "page cache can hold"},
        {100 * MIB + 1, 100 * MIB, 1, 50 * MIB, "a cache of 50 MiB"},
        {0, 0, 1, 0, "page cache can hold"},
        {UINT64_MAX, 2 * MIB, 1, MIB, "a cache of 1 MiB"},
        {UINT64_MAX, 2 * MIB - 2, 1, 0, "only 2097150 bytes"},
        {UINT64_MAX, 0, 1, 0, "only 0 bytes"},
        {100 * MIB, 50 * MIB, 2, 0, "each of the 2 processes"},
        {10 * MIB, 50 * MIB, 2, 0, "page cache can hold"},
        {UINT64_MAX, UINT64_MAX, 1, 0, "not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pst_cache_advice advice =
            psti_cache_advise(cases[i].dataset_nbytes, cases[i].available_nbytes, cases[i].n_ranks);
        assert_true(advice.nbytes == cases[i].want);
        assert_true(advice.available_nbytes == cases[i].available_nbytes);
        assert_non_null(strstr(advice.reason, cases[i].reason));
        /* no reason text was cut off */
        assert_true(strlen(advice.reason) < sizeof advice.reason - 1);
    }
    struct pst_cache_advice advice;
    pst_cache_advise(1, &advice, sizeof advice); /* this machine has at least a byte to spare */
    assert_true(advice.nbytes == 0 && advice.available_nbytes > MIB);
    pst_cache_advise(UINT64_MAX, &advice, sizeof advice);
    assert_true(advice.nbytes == advice.available_nbytes / 2);
    /* a cache of the advised size can be opened */
    struct pst_cache *cache = open_cache(advice.nbytes);
    pst_cache_close(&cache);
    memset(&advice, 0x5a, sizeof advice);
    /* the struct of an older caller is shorter */
    pst_cache_advise(1, &advice, sizeof advice.nbytes);
    assert_true(advice.nbytes == 0 && advice.reason[0] == 0x5a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_are_what_was_kept),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_shorter_items_and_forms),
        cmocka_unit_test(test_reservation_is_exclusive_and_returns),
        cmocka_unit_test(test_variants_are_items_of_their_own),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_memory_that_comes_later),
        cmocka_unit_test(test_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
