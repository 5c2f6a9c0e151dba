/* test_cache_rounds.c - tests replacing items of a shared set while other processes read them
 * through views. Old bytes stay until each view has answered a round, and their memory is then
 * reused. Nothing is replaced in a frozen set. Many readers, replacers and rounds run at once in a
 * full cache. */
#include "cache/cache_fixture.h"

#include "base/clock.h"
#include "base/thread.h"
#include "cache/cache.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

enum { N = 400, NBYTES = 6000, SHORT = 5000, FORM = 7, MIB = 1 << 20, N_VIEWS = 2, N_TIMES = 3 };
#define MINUTE ((int64_t)60 * 1000 * 1000 * 1000)

static const struct psti_cache_shape shape = {{3}, N, 1, 1, false};

static unsigned char byte_of(uint64_t sample, uint8_t form, uint64_t i)
{
    return (unsigned char)(sample * 37 + i * 3 + (i >> 8) + (form ? 91 : 0));
}

static void check(const struct psti_cache_span *span, uint64_t sample)
{
    const unsigned char *bytes = span->bytes;
    assert_int_equal(span->nbytes, span->form ? SHORT : NBYTES);
    for (uint64_t i = 0; i < span->nbytes; i++)
        if (bytes[i] != byte_of(sample, span->form, i))
            fail_msg("sample %u, form %u: byte %u is another one", (unsigned)sample, span->form,
                     (unsigned)i);
}

static void open_set(uint64_t nbytes, pst_cache **cache, struct psti_cache_set **set)
{
    struct pst_error err;
    assert_ok(psti_cache_open_shared(nbytes, cache, &err));
    enum pst_status status = psti_cache_set_open(*cache, &shape, set, &err);
    if (status == PST_ERROR_UNSUPPORTED) {
        pst_cache_close(cache);
        skip();
    }
    assert_ok(status);
}

static struct psti_cache_view *open_view(struct psti_cache_set *set)
{
    struct psti_cache_export from = psti_cache_set_export(set);
    struct psti_cache_view *view = NULL;
    struct pst_error err;
    from.table_fd = fcntl(from.table_fd, F_DUPFD_CLOEXEC, 0);
    from.memory_fd = fcntl(from.memory_fd, F_DUPFD_CLOEXEC, 0);
    assert_ok(psti_cache_view_open(&shape, &from, &view, &err));
    return view;
}

/* Stores items until the cache is full. Returns their number. */
static uint64_t fill(struct psti_cache_set *set)
{
    unsigned char bytes[NBYTES];
    struct psti_cache_span span;
    uint64_t n = 0;
    for (uint64_t sample = 0; sample < N; sample++) {
        if (psti_cache_ask(set, sample, 0, NBYTES, &span) != PSTI_CACHE_ADMIT)
            continue;
        for (uint64_t i = 0; i < NBYTES; i++)
            bytes[i] = byte_of(sample, 0, i);
        span = (struct psti_cache_span){bytes, NBYTES, 0};
        n += psti_cache_keep(set, sample, 0, NBYTES, &span);
    }
    return n;
}

static bool replace_one(struct psti_cache_set *set)
{
    unsigned char bytes[SHORT];
    struct psti_cache_later later;
    if (!psti_cache_later_take(set, &later))
        return false;
    check(&later.span, later.number);
    for (uint64_t i = 0; i < SHORT; i++)
        bytes[i] = byte_of(later.number, FORM, i);
    const struct psti_cache_span item = {bytes, SHORT, FORM};
    bool is_new = later.span.form == 0;
    (void)psti_cache_later_put(set, &later, is_new ? &item : NULL);
    return true;
}

static uint64_t replace_all(struct psti_cache_set *set)
{
    uint64_t n = 0;
    while (replace_one(set))
        n++;
    return n;
}

static uint8_t look(struct psti_cache_view *view, uint64_t sample)
{
    struct psti_cache_span span;
    assert_int_equal(psti_cache_view_ask(view, sample, 0, NBYTES, &span), PSTI_CACHE_HIT);
    check(&span, sample);
    return span.form;
}

/* In a full cache re-coding stops until a round ends, and goes on after each round. */
static void rounds_free_what_was_replaced(void **state)
{
    (void)state;
    pst_cache *cache;
    struct psti_cache_set *set;
    open_set(MIB, &cache, &set);
    assert_true(psti_cache_later_open(set, 1));
    uint64_t n = fill(set), n_done = 0;
    assert_true(n < N);
    struct psti_cache_view *view = open_view(set);
    struct psti_cache_span old;
    unsigned reader = psti_cache_view_enter(view);
    assert_int_equal(psti_cache_view_ask(view, 0, 0, NBYTES, &old), PSTI_CACHE_HIT);
    assert_int_equal(psti_cache_view_waiting(view), n);
    n_done += replace_all(set);
    assert_true(n_done > 0 && n_done < n);
    assert_int_equal(psti_cache_view_waiting(view), n - n_done);
    assert_int_equal(look(view, 0), FORM);
    assert_true(psti_cache_later_begin_round(set));
    /* a second round cannot begin before the first ends */
    assert_false(psti_cache_later_begin_round(set));
    psti_cache_view_begin_round(view);
    assert_false(psti_cache_view_go_on(view));
    check(&old, 0);
    assert_int_equal(replace_all(set), 0);
    assert_true(psti_cache_view_leave(view, reader));
    /* a reader that begins now does not delay the round */
    unsigned later_reader = psti_cache_view_enter(view);
    assert_true(psti_cache_view_go_on(view));
    assert_false(psti_cache_view_leave(view, later_reader));
    psti_cache_later_end_round(set);
    for (;;) {
        n_done += replace_all(set);
        if (!psti_cache_later_begin_round(set))
            break;
        psti_cache_view_begin_round(view);
        assert_true(psti_cache_view_go_on(view));
        psti_cache_later_end_round(set);
    }
    assert_int_equal(n_done, n);
    assert_int_equal(psti_cache_later_count(set), 0);
    assert_int_equal(psti_cache_view_waiting(view), 0);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(look(view, i), FORM);
    psti_cache_set_readmit(set);
    assert_true(fill(set) > 0); /* items fit into the memory that was saved */
    assert_true(use_of(cache).nbytes_used <= MIB);
    psti_cache_view_close(&view);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* A reader that cannot answer rounds freezes the set, and keeps everything that it may see. */
static void frozen_sets_stay(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        pst_cache *cache;
        struct psti_cache_set *set;
        struct psti_cache_span spans[N];
        open_set(MIB, &cache, &set);
        uint64_t n = 0;
        if (before)
            psti_cache_later_freeze(set); /* freezing works before the queue exists, too */
        assert_int_equal(psti_cache_later_open(set, 1), !before);
        n = fill(set);
        struct psti_cache_view *view = open_view(set);
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(psti_cache_view_ask(view, i, 0, NBYTES, &spans[i]), PSTI_CACHE_HIT);
        assert_int_equal(replace_all(set) > 0, !before);
        psti_cache_later_freeze(set);
        assert_false(psti_cache_later_begin_round(set));
        assert_int_equal(replace_all(set), 0);
        assert_int_equal(psti_cache_later_count(set), 0);
        psti_cache_set_readmit(set);
        (void)fill(set);
        for (uint64_t i = 0; i < n; i++)
            check(&spans[i], i);
        psti_cache_view_close(&view);
        psti_cache_set_close(&set);
        pst_cache_close(&cache);
    }
}

struct race {
    struct psti_cache_set *set;
    struct psti_cache_view *views[N_VIEWS];
    atomic_bool over;
};

static void read_items(void *arg)
{
    struct race *race = arg;
    for (uint64_t i = 0; !atomic_load(&race->over); i++) {
        struct psti_cache_view *view = race->views[i % N_VIEWS];
        struct psti_cache_span span;
        uint64_t sample = i * 7919 % N;
        unsigned reader = psti_cache_view_enter(view);
        if (psti_cache_view_ask(view, sample, 0, NBYTES, &span) == PSTI_CACHE_HIT)
            check(&span, sample);
        (void)psti_cache_view_leave(view, reader);
    }
}

static void replace_items(void *arg)
{
    struct race *race = arg;
    while (!atomic_load(&race->over))
        if (!replace_one(race->set)) /* nothing can be replaced until a round has ended */
            psti_clock_sleep_until(psti_clock_ns() + 20000);
}

/* Runs rounds and admits items, until all are replaced. */
static void run_rounds(struct race *race)
{
    int64_t deadline = psti_clock_ns() + MINUTE;
    while (psti_cache_later_count(race->set) > 0) {
        assert_true(psti_clock_ns() < deadline);
        if (!psti_cache_later_begin_round(race->set))
            continue;
        for (int i = 0; i < N_VIEWS; i++)
            psti_cache_view_begin_round(race->views[i]);
        for (int i = 0; i < N_VIEWS; i++)
            while (!psti_cache_view_go_on(race->views[i]))
                assert_true(psti_clock_ns() < deadline);
        psti_cache_later_end_round(race->set);
        psti_cache_set_readmit(race->set);
        (void)fill(race->set);
    }
}

static void many_at_once(void **state)
{
    enum { N_READERS = 3, N_THREADS = 5 };
    (void)state;
    for (int time = 0; time < N_TIMES; time++) {
        pthread_t threads[N_THREADS];
        struct race race = {.over = false};
        struct pst_error err;
        pst_cache *cache;
        open_set(MIB, &cache, &race.set);
        assert_true(psti_cache_later_open(race.set, 1));
        uint64_t n = fill(race.set);
        for (int i = 0; i < N_VIEWS; i++)
            race.views[i] = open_view(race.set);
        for (int i = 0; i < N_THREADS; i++)
            assert_ok(psti_thread_start(&threads[i], "round",
                                        i < N_READERS ? read_items : replace_items, &race, &err));
        run_rounds(&race);
        atomic_store(&race.over, true);
        for (int i = 0; i < N_THREADS; i++)
            psti_thread_join(threads[i]);
        assert_true(use_of(cache).n_items >= n);
        assert_true(use_of(cache).nbytes_used <= MIB);
        for (int i = 0; i < N_VIEWS; i++)
            psti_cache_view_close(&race.views[i]);
        psti_cache_set_close(&race.set);
        pst_cache_close(&cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_free_what_was_replaced),
        cmocka_unit_test(frozen_sets_stay),
        cmocka_unit_test(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
