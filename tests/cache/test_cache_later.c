/* test_cache_later.c - tests replacing cached items by another form: a reader keeps the old bytes,
 * a new lookup gets the new ones, the budget holds, and the memory saved is used for other items;
 * in a full cache, in one loaded from a file, and with many threads at once. */
#include "cache/cache_fixture.h"

#include "base/thread.h"
#include "cache/cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 600, NBYTES_MAX = 9000, FORM = 7, MIB = 1 << 20, N_THREADS = 6, N_ROUNDS = 12 };

static uint64_t nbytes_of(uint64_t sample)
{
    return NBYTES_MAX / 2 + sample * 7919 % (NBYTES_MAX / 2);
}
/* Length of the item that replaces another: a tenth shorter. Every 16th item stays as it is. */
static uint64_t short_of(uint64_t sample) { return nbytes_of(sample) * 9 / 10; }
static bool stays(uint64_t sample) { return sample % 16 == 5; }

static unsigned char byte_of(uint64_t sample, uint8_t form, uint64_t i)
{
    return (unsigned char)(sample * 31 + i + (form ? 101 : 0));
}

static void fill(unsigned char *bytes, uint64_t sample, uint8_t form, uint64_t nbytes)
{
    for (uint64_t i = 0; i < nbytes; i++)
        bytes[i] = byte_of(sample, form, i);
}

static void check(const struct psti_cache_span *span, uint64_t sample)
{
    const unsigned char *bytes = span->bytes;
    assert_int_equal(span->nbytes, span->form ? short_of(sample) : nbytes_of(sample));
    for (uint64_t i = 0; i < span->nbytes; i++)
        if (bytes[i] != byte_of(sample, span->form, i))
            fail_msg("sample %u, form %u: byte %u is another one", (unsigned)sample, span->form,
                     (unsigned)i);
}

static struct psti_cache_set *open_set(pst_cache *cache, uint64_t forms)
{
    const struct psti_cache_shape shape = {{1}, N, 1, forms, false};
    struct psti_cache_set *set = NULL;
    struct pst_error err;
    assert_ok(psti_cache_set_open(cache, &shape, &set, &err));
    return set;
}

/* Looks up the sample and stores it if the cache admits it. Returns true if the set has it now. */
static bool visit(struct psti_cache_set *set, uint64_t sample)
{
    unsigned char bytes[NBYTES_MAX];
    struct psti_cache_span span;
    unsigned reader = psti_cache_enter(set);
    enum psti_cache_answer answer =
        psti_cache_ask(set, sample, 0, nbytes_of(sample), &span);
    if (answer == PSTI_CACHE_HIT)
        check(&span, sample);
    psti_cache_leave(set, reader);
    if (answer != PSTI_CACHE_ADMIT)
        return answer == PSTI_CACHE_HIT;
    fill(bytes, sample, 0, nbytes_of(sample));
    span = (struct psti_cache_span){bytes, nbytes_of(sample), 0};
    return psti_cache_keep(set, sample, 0, nbytes_of(sample), &span);
}

/* Replaces the next item of the queue, or leaves it as it is. Returns false if the queue has none
 * now. */
static bool replace_one(struct psti_cache_set *set, uint64_t *n_replaced)
{
    unsigned char bytes[NBYTES_MAX];
    struct psti_cache_later later;
    if (!psti_cache_later_take(set, &later))
        return false;
    check(&later.span, later.number);
    if (stays(later.number) || later.span.form) {
        assert_int_equal(psti_cache_later_put(set, &later, NULL), PSTI_CACHE_STAYS);
        return true;
    }
    fill(bytes, later.number, FORM, short_of(later.number));
    const struct psti_cache_span item = {bytes, short_of(later.number), FORM};
    enum psti_cache_replaced put = psti_cache_later_put(set, &later, &item);
    assert_true(put != PSTI_CACHE_STAYS);
    *n_replaced += put == PSTI_CACHE_REPLACED;
    return true;
}

static uint8_t form_of(struct psti_cache_set *set, uint64_t sample)
{
    struct psti_cache_span span;
    assert_int_equal(psti_cache_find(set, sample, 0, nbytes_of(sample), &span), PSTI_CACHE_HIT);
    check(&span, sample);
    return span.form;
}

static void test_replace(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(32 * MIB);
    struct psti_cache_set *set = open_set(cache, 1);
    struct psti_cache_span old;
    uint64_t n_replaced = 0;
    assert_true(visit(set, 0)); /* stores an item before the queue exists */
    assert_int_equal(psti_cache_later_count(set), 0);
    assert_true(psti_cache_later_open(set, 1));
    assert_true(psti_cache_later_open(set, 1));
    assert_true(visit(set, 1));
    assert_int_equal(psti_cache_later_count(set), 2);
    unsigned reader = psti_cache_enter(set);
    assert_int_equal(psti_cache_ask(set, 0, 0, nbytes_of(0), &old), PSTI_CACHE_HIT);
    uint64_t used = use_of(cache).nbytes_used;
    assert_true(replace_one(set, &n_replaced));
    assert_true(replace_one(set, &n_replaced));
    assert_false(replace_one(set, &n_replaced));
    assert_int_equal(n_replaced, 2);
    /* The reader keeps the old bytes, which still count; others get the new ones. */
    assert_int_equal(use_of(cache).nbytes_used,
                     used + room_of(short_of(0)) + room_of(short_of(1)));
    for (uint64_t i = 2; i < 100; i++)
        assert_true(visit(set, i));
    check(&old, 0);
    assert_int_equal(form_of(set, 0), FORM);
    assert_int_equal(form_of(set, 1), FORM);
    psti_cache_leave(set, reader);
    while (replace_one(set, &n_replaced))
        ;
    assert_int_equal(psti_cache_later_count(set), 0);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(form_of(set, i), stays(i) ? 0 : FORM);
    assert_int_equal(use_of(cache).n_items, 100);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* A reader never leaves: replacing stops before memory runs out, and goes on once the reader has
 * left. */
static void test_slow_reader(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(64 * MIB);
    struct psti_cache_set *set = open_set(cache, 1);
    struct psti_cache_span old[N];
    uint64_t n_replaced = 0;
    assert_true(psti_cache_later_open(set, 1));
    unsigned reader = psti_cache_enter(set);
    for (uint64_t i = 0; i < N; i++) {
        assert_true(visit(set, i));
        assert_int_equal(psti_cache_find(set, i, 0, nbytes_of(i), &old[i]), PSTI_CACHE_HIT);
    }
    while (replace_one(set, &n_replaced))
        ;
    assert_true(n_replaced > 0 && psti_cache_later_count(set) > 0);
    for (uint64_t i = 0; i < N; i++)
        check(&old[i], i);
    psti_cache_leave(set, reader);
    while (replace_one(set, &n_replaced))
        ;
    assert_int_equal(psti_cache_later_count(set), 0);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* In a full cache every item is replaced, and the memory saved takes further items. */
static void test_full(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(2 * MIB);
    struct psti_cache_set *set = open_set(cache, 1);
    uint64_t n_replaced = 0, n_first = 0, n_last = 0;
    assert_true(psti_cache_later_open(set, 1));
    for (uint64_t i = 0; i < N; i++)
        n_first += visit(set, i);
    assert_true(n_first < N);
    for (int round = 0; round < 20; round++) {
        while (replace_one(set, &n_replaced))
            assert_true(use_of(cache).nbytes_used <= 2 * MIB);
        n_last = 0;
        for (uint64_t i = 0; i < N; i++)
            n_last += visit(set, i);
    }
    assert_int_equal(psti_cache_later_count(set), 0);
    assert_int_equal(use_of(cache).n_items, n_last);
    /* 15 of 16 items become a tenth shorter, so at least 8 % more items fit. */
    assert_true(n_last * 100 >= n_first * 108);
    for (uint64_t i = 0; i < N; i++) {
        struct psti_cache_span span;
        if (psti_cache_find(set, i, 0, nbytes_of(i), &span) == PSTI_CACHE_HIT)
            assert_int_equal(form_of(set, i), stays(i) ? 0 : FORM);
    }
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* Items loaded from a file lie in separate memory, which is freed as they are replaced. */
static void test_file(void **state)
{
    (void)state;
    char path[] = "/tmp/pst-later-XXXXXX";
    struct pst_cache_file_report report;
    struct pst_error err;
    uint64_t n_replaced = 0;
    pst_cache *cache = open_cache(16 * MIB);
    struct psti_cache_set *set = open_set(cache, 1);
    for (uint64_t i = 0; i < N; i++)
        assert_true(visit(set, i));
    close(mkstemp(path));
    assert_ok(pst_cache_save(cache, path, &report, sizeof report, &err));
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    cache = open_cache(5 * MIB);
    set = open_set(cache, 1);
    assert_true(psti_cache_later_open(set, 1));
    assert_ok(pst_cache_load(cache, path, &report, sizeof report, &err));
    assert_int_equal(report.n_items, N);
    assert_int_equal(psti_cache_later_count(set), N);
    uint64_t used = use_of(cache).nbytes_used;
    while (replace_one(set, &n_replaced))
        assert_true(use_of(cache).nbytes_used <= 5 * MIB);
    assert_int_equal(psti_cache_later_count(set), 0);
    assert_true(use_of(cache).nbytes_used < used);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(form_of(set, i), stays(i) ? 0 : FORM);
    /* The file saved now has the new items instead of the stored ones. */
    assert_ok(pst_cache_save(cache, path, &report, sizeof report, &err));
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    cache = open_cache(16 * MIB);
    set = open_set(cache, 1);
    assert_ok(pst_cache_load(cache, path, &report, sizeof report, &err));
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(form_of(set, i), stays(i) ? 0 : FORM);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    unlink(path);
}

/* An item may be replaced by a longer one if there is space. Otherwise it stays, and no byte is
 * lost. */
static void test_longer(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *set = open_set(cache, 1);
    struct psti_cache_later later;
    unsigned char *bytes = calloc(1, 2 * MIB);
    assert_non_null(bytes);
    assert_true(psti_cache_later_open(set, 1));
    assert_true(visit(set, 0));
    assert_true(visit(set, 1));
    uint64_t used = use_of(cache).nbytes_used;
    assert_true(psti_cache_later_take(set, &later));
    struct psti_cache_span item = {bytes, 2 * MIB, FORM};
    assert_int_equal(psti_cache_later_put(set, &later, &item), PSTI_CACHE_TOO_LONG);
    assert_int_equal(form_of(set, 0), 0);
    assert_int_equal(use_of(cache).nbytes_used, used);
    assert_true(psti_cache_later_take(set, &later));
    item.nbytes = 100000;
    assert_int_equal(psti_cache_later_put(set, &later, &item), PSTI_CACHE_REPLACED);
    struct psti_cache_span span;
    assert_int_equal(psti_cache_find(set, 1, 0, nbytes_of(1), &span), PSTI_CACHE_HIT);
    assert_int_equal(span.nbytes, 100000);
    assert_false(psti_cache_later_take(set, &later));
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    free(bytes);
}

/* In a full cache, an item larger than the space for replacing stays, and the items behind it are
 * replaced. */
static void test_large(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *set = open_set(cache, 1);
    struct psti_cache_span span;
    unsigned char *bytes = calloc(1, MIB / 4);
    uint64_t n_replaced = 0, n = 1;
    assert_non_null(bytes);
    assert_true(psti_cache_later_open(set, 1));
    assert_int_equal(psti_cache_ask(set, 0, 0, MIB / 4, &span), PSTI_CACHE_ADMIT);
    span = (struct psti_cache_span){bytes, MIB / 4, 0};
    assert_true(psti_cache_keep(set, 0, 0, MIB / 4, &span));
    while (n < N && visit(set, n))
        n++;
    assert_true(n < N);
    while (replace_one(set, &n_replaced))
        ;
    assert_int_equal(psti_cache_later_count(set), 0);
    assert_true(n_replaced > n / 2);
    assert_int_equal(psti_cache_find(set, 0, 0, MIB / 4, &span), PSTI_CACHE_HIT);
    assert_int_equal(span.form, 0);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    free(bytes);
}

/* A set that stores original bytes only, or a cache without space for the queue, has no queue. */
static void test_refused(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(2 * MIB);
    struct psti_cache_later later;
    struct psti_cache_set *stored = open_set(cache, 0), *set = open_set(cache, 1);
    assert_false(psti_cache_later_open(stored, 1));
    assert_int_equal(psti_cache_enter(stored), 0);
    uint64_t n = 0;
    while (n < N && visit(stored, n))
        n++;
    assert_false(psti_cache_later_open(set, 1));
    assert_false(psti_cache_later_take(set, &later));
    assert_int_equal(psti_cache_later_count(set), 0);
    psti_cache_set_close(&stored);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

struct work {
    struct psti_cache_set *set;
    pst_cache *cache;
    unsigned number;
    atomic_uint *n_replaced;
};

/* One of three threads looks up and admits items, the other two replace them. */
static void run(void *arg)
{
    struct work *work = arg;
    uint64_t n_replaced = 0;
    for (unsigned i = 0; i < N_ROUNDS * N; i++) {
        if (work->number % 3 == 0)
            (void)replace_one(work->set, &n_replaced);
        else
            (void)visit(work->set, (i * 7 + work->number * 101) % N);
        assert_true(use_of(work->cache).nbytes_used <= 3 * MIB);
    }
    atomic_fetch_add(work->n_replaced, (unsigned)n_replaced);
}

static void test_threads(void **state)
{
    (void)state;
    atomic_uint n_replaced = 0;
    struct work work[N_THREADS];
    pthread_t threads[N_THREADS];
    struct pst_error err;
    pst_cache *cache = open_cache(3 * MIB); /* a cache that is too small for all items */
    struct psti_cache_set *set = open_set(cache, 1);
    assert_true(psti_cache_later_open(set, 1));
    for (unsigned i = 0; i < N_THREADS; i++) {
        work[i] = (struct work){set, cache, i, &n_replaced};
        assert_ok(psti_thread_start(&threads[i], "later", run, &work[i], &err));
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        psti_thread_join(threads[i]);
    uint64_t n = 0, n_new = 0;
    uint64_t more = 0;
    while (replace_one(set, &more))
        ;
    for (uint64_t i = 0; i < N; i++) {
        struct psti_cache_span span;
        if (psti_cache_find(set, i, 0, nbytes_of(i), &span) != PSTI_CACHE_HIT)
            continue;
        check(&span, i);
        n++;
        n_new += span.form == FORM;
    }
    assert_int_equal(use_of(cache).n_items, n);
    assert_int_equal(n_new, atomic_load(&n_replaced) + more);
    assert_int_equal(psti_cache_later_count(set), 0);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replace), cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_full),    cmocka_unit_test(test_file),
        cmocka_unit_test(test_longer),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
