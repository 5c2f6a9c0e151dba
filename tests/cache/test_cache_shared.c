/* test_cache_shared.c - tests a shared cache and views of its sets: readers see the items that the
 * owner stores, readers verify tables with false entries, and saved caches can be loaded into
 * shared ones. */
#include "cache/cache_fixture.h"

#include "base/fault.h"
#include "base/files/sealed.h"
#include "base/thread.h"
#include "cache/cache_int.h"

#include <penstock/penstock.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static const struct psti_cache_shape shape = {{7}, 100, 2, 0, false};

static pst_cache *open_shared(uint64_t nbytes)
{
    pst_cache *cache = NULL;
    struct pst_error err;
    assert_ok(psti_cache_open_shared(nbytes, &cache, &err));
    return cache;
}

static struct psti_cache_set *open_set(pst_cache *cache, uint8_t identity, uint64_t n_samples)
{
    const struct psti_cache_shape mine = {{identity}, n_samples, 2, 0, false};
    struct psti_cache_set *set = NULL;
    struct pst_error err;
    enum pst_status status = psti_cache_set_open(cache, &mine, &set, &err);
    if (status == PST_ERROR_UNSUPPORTED) {
        fprintf(stderr, "%s\n", err.text);
        skip();
    }
    assert_ok(status);
    return set;
}

static struct psti_cache_view *open_view(struct psti_cache_set *set)
{
    struct psti_cache_export from = psti_cache_set_export(set);
    struct psti_cache_view *view = NULL;
    struct pst_error err;
    from.table_fd = fcntl(from.table_fd, F_DUPFD_CLOEXEC, 0);
    from.memory_fd = fcntl(from.memory_fd, F_DUPFD_CLOEXEC, 0);
    assert_ok(psti_cache_view_open(&set->shape, &from, &view, &err));
    return view;
}

static void fill(unsigned char *bytes, uint64_t nbytes, uint64_t sample)
{
    for (uint64_t i = 0; i < nbytes; i++)
        bytes[i] = (unsigned char)(sample * 31 + i * 7 + (i >> 8));
}

static enum psti_cache_answer keep(struct psti_cache_set *set, uint64_t sample, uint64_t nbytes)
{
    unsigned char *bytes = malloc(nbytes);
    struct psti_cache_span span;
    fill(bytes, nbytes, sample);
    enum psti_cache_answer answer = psti_cache_ask(set, sample, 1, nbytes, &span);
    span = (struct psti_cache_span){bytes, nbytes, 0};
    if (answer == PSTI_CACHE_ADMIT && !psti_cache_keep(set, sample, 1, nbytes, &span))
        answer = PSTI_CACHE_PASS;
    free(bytes);
    return answer;
}

static void assert_sees(struct psti_cache_view *view, uint64_t sample, uint64_t nbytes)
{
    unsigned char *bytes = malloc(nbytes);
    struct psti_cache_span span;
    fill(bytes, nbytes, sample);
    assert_int_equal(psti_cache_view_ask(view, sample, 1, nbytes, &span), PSTI_CACHE_HIT);
    assert_int_equal(span.nbytes, nbytes);
    assert_memory_equal(span.bytes, bytes, nbytes);
    free(bytes);
}

static void readers_see_what_is_kept(void **state)
{
    struct psti_cache_span span;
    (void)state;
    pst_cache *cache = open_shared(8 * MIB);
    struct psti_cache_set *set = open_set(cache, 7, 100);
    struct psti_cache_view *view = open_view(set);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(psti_cache_view_ask(view, i, 1, 1000 + i, &span), PSTI_CACHE_ADMIT);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(keep(set, i, 1000 * (i + 1) / 2), PSTI_CACHE_ADMIT);
        assert_sees(view, i, 1000 * (i + 1) / 2);
    }
    assert_int_equal(psti_cache_view_ask(view, 3, 0, 10, &span), PSTI_CACHE_ADMIT);
    assert_int_equal(psti_cache_view_ask(view, 3, 1, 10, &span),
                     PSTI_CACHE_PASS); /* other length */
    /* The view outlives the set: a reader never loses the memory that it sees. */
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    for (uint64_t i = 0; i < 100; i++)
        assert_sees(view, i, 1000 * (i + 1) / 2);
    psti_cache_view_close(&view);
}

static void items_without_room_are_declined(void **state)
{
    struct psti_cache_span span;
    (void)state;
    pst_cache *cache = open_shared(MIB);
    struct psti_cache_set *old = open_set(cache, 8, 10), *set = open_set(cache, 7, 100);
    struct psti_cache_view *view = open_view(set);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(keep(old, i, MIB / 20), PSTI_CACHE_ADMIT);
    uint64_t n = 0;
    while (keep(set, n, MIB / 20) == PSTI_CACHE_ADMIT)
        n++;
    assert_int_equal(n, 9); /* with the tables, ten items do not fit */
    assert_int_equal(psti_cache_view_ask(view, n, 1, MIB / 20, &span), PSTI_CACHE_PASS);
    assert_int_equal(psti_cache_view_ask(view, n + 1, 1, MIB / 20, &span), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&old); /* the old set is closed, so it can be evicted */
    assert_int_equal(psti_cache_view_ask(view, n, 1, MIB / 20, &span), PSTI_CACHE_PASS);
    psti_cache_set_readmit(set);
    assert_int_equal(psti_cache_view_ask(view, n, 1, MIB / 20, &span), PSTI_CACHE_ADMIT);
    assert_int_equal(keep(set, n, MIB / 20), PSTI_CACHE_ADMIT);
    assert_sees(view, n, MIB / 20);
    assert_true(use_of(cache).nbytes_used <= MIB);
    psti_cache_view_close(&view);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* Imitates loading a file's items of `nbytes` in total, which then fails. */
static void fail_to_load(struct psti_cache_set *set, size_t nbytes, uint64_t other_sample)
{
    struct psti_cache_extent *extent;
    struct pst_error err;
    assert_ok(psti_cache_extent_open(set, nbytes, &extent, &err));
    assert_true(psti_cache_take_free(set, nbytes));
    char *bytes = psti_cache_extent_room(extent, nbytes);
    assert_non_null(bytes);
    memset(bytes, 0xee, nbytes);
    assert_true(psti_cache_extent_add(extent, bytes, nbytes));
    /* lies behind the bytes of the failed load */
    assert_int_equal(keep(set, other_sample, 1000), PSTI_CACHE_ADMIT);
    psti_cache_return(set, nbytes - psti_cache_extent_drop(extent));
}

/* A failed load leaves a hole within a set's memory, which later items use. However often loads
 * fail, as many items fit as without them, except one if an item does not fit into the rest. */
static void failed_loads_cost_no_room(void **state)
{
    uint64_t n_kept[2], used[2];
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        pst_cache *cache = open_shared(2 * MIB);
        struct psti_cache_set *set = open_set(cache, 7, 1000);
        struct psti_cache_view *view = open_view(set);
        for (uint64_t i = 0; i < 6; i++) {
            if (fails)
                fail_to_load(set, MIB / 2, i);
            else
                assert_int_equal(keep(set, i, 1000), PSTI_CACHE_ADMIT);
        }
        uint64_t n = 6;
        while (keep(set, n, MIB / 32) == PSTI_CACHE_ADMIT)
            n++;
        for (uint64_t i = 0; i < n; i++)
            assert_sees(view, i, i < 6 ? 1000 : MIB / 32);
        n_kept[fails] = n;
        used[fails] = use_of(cache).nbytes_used;
        psti_cache_view_close(&view);
        psti_cache_set_close(&set);
        assert_true(psti_cache_clear(cache) > 0);
        assert_int_equal(use_of(cache).nbytes_used, 0);
        pst_cache_close(&cache);
    }
    assert_in_range(n_kept[1], n_kept[0] - 1, n_kept[0]);
    assert_in_range(used[1], used[0] - MIB / 32, 2 * MIB);
}

/* An item takes the bytes of a hole and is then given up: the hole gets them back, because its
 * memory is still allocated. */
static void holes_stay_in_the_budget(void **state)
{
    enum { NBYTES = 100000 };
    (void)state;
    pst_cache *cache = open_shared(2 * MIB);
    struct psti_cache_set *set = open_set(cache, 7, 1000);
    struct psti_cache_view *view = open_view(set);
    fail_to_load(set, MIB / 2, 0);
    uint64_t used = use_of(cache).nbytes_used;
    for (uint64_t i = 1; i < 30; i++) {
        struct psti_cache_span span;
        assert_int_equal(psti_cache_ask(set, i, 0, NBYTES, &span), PSTI_CACHE_ADMIT);
        psti_cache_give_up(set, i, 0, NBYTES);
        assert_int_equal(use_of(cache).nbytes_used, used);
    }
    uint64_t n = 1;
    while (keep(set, n, NBYTES) == PSTI_CACHE_ADMIT)
        n++;
    assert_true(psti_sealed_nbytes(psti_cache_set_export(set).memory_fd) <= 2 * MIB + MIB);
    assert_true(use_of(cache).nbytes_used <= 2 * MIB);
    psti_cache_view_close(&view);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

static void memory_that_runs_out_is_no_fault(void **state)
{
    (void)state;
    pst_cache *cache = open_shared(8 * MIB);
    struct psti_cache_set *set = open_set(cache, 7, 100);
    struct psti_cache_view *view = open_view(set);
    assert_int_equal(keep(set, 0, MIB), PSTI_CACHE_ADMIT);
    uint64_t used = use_of(cache).nbytes_used;
    psti_fault_arm(PSTI_FAULT_ALLOC, 1, true);
    assert_int_equal(keep(set, 1, 2 * MIB), PSTI_CACHE_PASS);
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    assert_int_equal(use_of(cache).nbytes_used, used);
    assert_sees(view, 0, MIB);
    assert_int_equal(keep(set, 1, 2 * MIB), PSTI_CACHE_ADMIT);
    assert_sees(view, 1, 2 * MIB);
    psti_cache_view_close(&view);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* Makes a table and a memory as a set has them. The table has these entries, the memory only
 * zeros. */
static struct psti_cache_view *lie(const uint64_t *entries, size_t n, size_t nbytes)
{
    struct psti_cache_export from = {.table_nbytes = 200 * 8, .capacity = MIB};
    struct psti_cache_view *view = NULL;
    void *table, *memory;
    struct pst_error err;
    assert_ok(psti_sealed_store_make("t", 200 * 8, &from.table_fd, &table, &err));
    assert_ok(psti_sealed_store_make("m", MIB, &from.memory_fd, &memory, &err));
    assert_true(psti_sealed_store_grow(from.table_fd, 0, 200 * 8));
    assert_true(psti_sealed_store_grow(from.memory_fd, 0, nbytes));
    memcpy(table, entries, n * 8);
    if (nbytes >= 128)
        *(struct psti_cache_item *)((char *)memory + 64) =
            (struct psti_cache_item){.nbytes = UINT64_MAX - 40, .number = 4};
    assert_ok(psti_cache_view_open(&shape, &from, &view, &err));
    psti_sealed_unmap(table, 200 * 8);
    psti_sealed_unmap(memory, MIB);
    return view;
}

static void tables_that_lie_give_no_bytes(void **state)
{
    const uint64_t entries[] = {
        17,   UINT64_MAX, UINT64_MAX - 15,  MIB, 64, MIB - 16, 4096, 4096 - 16,
        8192, 2,          (uint64_t)1 << 63};
    const size_t n = sizeof entries / sizeof *entries;
    struct psti_cache_span span;
    (void)state;
    psti_cache_set_close(&(struct psti_cache_set *){NULL});
    for (size_t nbytes = 64; nbytes <= 4096; nbytes *= 8) {
        struct psti_cache_view *view = lie(entries, n, nbytes);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(psti_cache_view_ask(view, i / 2, i % 2, 0, &span), PSTI_CACHE_PASS);
        psti_cache_view_close(&view);
    }
}

static void views_of_other_files_are_refused(void **state)
{
    struct psti_cache_view *view = NULL;
    struct pst_error err;
    (void)state;
    pst_cache *cache = open_shared(MIB);
    struct psti_cache_set *set = open_set(cache, 7, 100);
    const struct psti_cache_export good = psti_cache_set_export(set);
    const struct psti_cache_shape larger = {{7}, 101, 2, 0, false};
    for (int i = 0; i < 5; i++) {
        struct psti_cache_export from = good;
        from.table_fd =
            i == 0 ? open("/dev/zero", O_RDWR) : fcntl(good.table_fd, F_DUPFD_CLOEXEC, 0);
        from.memory_fd =
            i == 1 ? open("/dev/null", O_RDWR) : fcntl(good.memory_fd, F_DUPFD_CLOEXEC, 0);
        from.table_nbytes += i == 2 ? 4096 : 0;
        from.capacity = i == 3 ? 0 : from.capacity;
        assert_int_equal(psti_cache_view_open(i == 4 ? &larger : &shape, &from, &view, &err),
                         PST_ERROR_CORRUPT);
        assert_null(view);
    }
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

static void saved_caches_go_into_shared_ones(void **state)
{
    char path[] = "/tmp/pst-shared-XXXXXX";
    struct pst_cache_file_report report;
    struct psti_cache_span span;
    struct pst_error err;
    (void)state;
    close(mkstemp(path));
    pst_cache *first = open_shared(8 * MIB), *second = open_shared(8 * MIB);
    struct psti_cache_set *set = open_set(first, 7, 100), *other = open_set(second, 7, 100);
    struct psti_cache_view *view = open_view(other);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(keep(set, i, 1000 + 13 * i), PSTI_CACHE_ADMIT);
    /* the set has this item already */
    assert_int_equal(keep(other, 40, 1000 + 13 * 40), PSTI_CACHE_ADMIT);
    assert_ok(pst_cache_save(first, path, &report, sizeof report, &err));
    assert_int_equal(report.n_items, 100);
    assert_ok(pst_cache_load(second, path, &report, sizeof report, &err));
    assert_int_equal(report.n_items, 99);
    assert_int_equal(report.n_present, 1);
    for (uint64_t i = 0; i < 100; i++)
        assert_sees(view, i, 1000 + 13 * i);
    assert_int_equal(use_of(second).nbytes_used, use_of(first).nbytes_used);

    /* Loading a damaged file leaves the cache unchanged. */
    struct psti_cache_set *third_set;
    pst_cache *third = open_shared(8 * MIB);
    struct psti_cache_view *third_view;
    third_set = open_set(third, 7, 100);
    third_view = open_view(third_set);
    assert_int_equal(keep(third_set, 0, 1000), PSTI_CACHE_ADMIT);
    uint64_t used = use_of(third).nbytes_used;
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "xxxx", 4, lseek(fd, 0, SEEK_END) - 300), 4);
    close(fd);
    assert_int_equal(pst_cache_load(third, path, &report, sizeof report, &err), PST_ERROR_CHECKSUM);
    assert_int_equal(use_of(third).nbytes_used, used);
    assert_sees(third_view, 0, 1000);
    assert_int_equal(psti_cache_view_ask(third_view, 1, 1, 1013, &span), PSTI_CACHE_ADMIT);
    assert_int_equal(keep(third_set, 1, 1013), PSTI_CACHE_ADMIT);
    assert_sees(third_view, 1, 1013);

    psti_cache_view_close(&view);
    psti_cache_view_close(&third_view);
    psti_cache_set_close(&set);
    psti_cache_set_close(&other);
    psti_cache_set_close(&third_set);
    pst_cache_close(&first);
    pst_cache_close(&second);
    pst_cache_close(&third);
    unlink(path);
}

struct race {
    struct psti_cache_set *set;
    struct psti_cache_view *view;
};

enum { N_RACED = 20000 };

static void write_items(void *arg)
{
    struct race *race = arg;
    for (uint64_t i = 0; i < N_RACED; i++) {
        uint64_t bytes[4] = {i, i * 3, i * 5, i * 7};
        struct psti_cache_span span = {bytes, sizeof bytes, 0};
        if (psti_cache_ask(race->set, i, 0, sizeof bytes, &span) == PSTI_CACHE_ADMIT) {
            span = (struct psti_cache_span){bytes, sizeof bytes, 0};
            psti_cache_keep(race->set, i, 0, sizeof bytes, &span);
        }
    }
}

static void read_items(void *arg)
{
    struct race *race = arg;
    for (uint64_t i = 0; i < N_RACED;) {
        struct psti_cache_span span;
        if (psti_cache_view_ask(race->view, i, 0, 32, &span) != PSTI_CACHE_HIT)
            continue;
        const uint64_t *bytes = span.bytes;
        assert_true(bytes[0] == i && bytes[1] == i * 3 && bytes[2] == i * 5 && bytes[3] == i * 7);
        i++;
    }
}

static void readers_run_beside_the_writer(void **state)
{
    pthread_t threads[4];
    struct race race;
    struct pst_error err;
    (void)state;
    pst_cache *cache = open_shared(8 * MIB);
    race.set = open_set(cache, 9, N_RACED);
    race.view = open_view(race.set);
    for (int i = 0; i < 4; i++)
        assert_ok(
            psti_thread_start(&threads[i], "race", i < 2 ? read_items : write_items, &race, &err));
    for (int i = 0; i < 4; i++)
        psti_thread_join(threads[i]);
    assert_int_equal(use_of(cache).n_items, N_RACED);
    psti_cache_view_close(&race.view);
    psti_cache_set_close(&race.set);
    pst_cache_close(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_what_is_kept),
        cmocka_unit_test(items_without_room_are_declined),
        cmocka_unit_test(failed_loads_cost_no_room),
        cmocka_unit_test(holes_stay_in_the_budget),
        cmocka_unit_test(memory_that_runs_out_is_no_fault),
        cmocka_unit_test(tables_that_lie_give_no_bytes),
        cmocka_unit_test(views_of_other_files_are_refused),
        cmocka_unit_test(saved_caches_go_into_shared_ones),
        cmocka_unit_test(readers_run_beside_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
