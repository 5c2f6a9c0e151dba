/* test_fleet.c - memcached servers return items as they were offered, whole or in parts, and only
 * for the same data set; lists of servers are parsed; servers that refuse, die or stop cost misses
 * and at most the timeout, and are found again. */
#include "fleet/fleet_ask.h"
#include "fleet/fleet_fixture.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "fleet/fleet.h"
#include "fleet/fleet_int.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "@/nowhere", "a:0",  "a:70000", ":1",   "a b a",
                                      "x=", "=a",        "[::1", "[::1]x",  "a:1x", "a,a:11211"};
    struct psti_fleet_address *list;
    struct pst_error err;
    uint32_t n;
    assert_ok(psti_fleet_servers_read(" b:2,a\n/run/m.sock # c\n[::1]:5 z=q:1", &list, &n, &err));
    assert_int_equal(n, 5);
    assert_string_equal(list[0].name, "/run/m.sock");
    assert_int_equal(list[0].port, 0);
    assert_string_equal(list[1].name, "::1:5");
    assert_string_equal(list[1].host, "::1");
    assert_string_equal(list[2].name, "a:11211");
    assert_string_equal(list[3].name, "b:2");
    assert_string_equal(list[4].name, "z");
    assert_string_equal(list[4].host, "q");
    psti_free(list);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(psti_fleet_servers_read(bad[i], &list, &n, &err), PST_OK);
        assert_null(list);
        assert_true(err.text[0]);
    }
    const char *path = at("list");
    char text[160];
    write_text(path, "# servers\none:1\ntwo:2\n");
    snprintf(text, sizeof text, "@%s", path);
    assert_ok(psti_fleet_servers_read(text, &list, &n, &err));
    assert_int_equal(n, 2);
    psti_free(list);
}

static void test_options(void **state)
{
    (void)state;
    struct pst_error err;
    pst_fleet *fleet;
    struct pst_fleet_options options = {.struct_size = sizeof options, .servers = "a"};
    options.auth = PST_FLEET_AUTH_SASL;
    assert_int_equal(pst_fleet_open(&options, &fleet, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "SASL"));
    assert_non_null(strstr(err.text, "-Y"));
    assert_null(fleet);
    options.auth = (enum pst_fleet_auth)7;
    assert_int_equal(pst_fleet_open(&options, &fleet, &err), PST_ERROR_ARGUMENT);
    unsetenv("PENSTOCK_FLEET");
    assert_int_equal(pst_fleet_open(NULL, &fleet, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "PENSTOCK_FLEET"));
}

/* Three servers get about equal numbers of items, and removing one moves only its own items. */
static void test_choice(void **state)
{
    (void)state;
    enum { KEYS = 30000 };
    struct psti_fleet_server servers[3] = {{.hash = 11}, {.hash = 22}, {.hash = 33}};
    struct psti_fleet_server *list[3] = {&servers[0], &servers[1], &servers[2]};
    pst_fleet three = {.n_servers = 3, .servers = list}, two = {.n_servers = 2, .servers = list};
    unsigned n[3] = {0};
    for (uint64_t key = 0; key < KEYS; key++) {
        uint32_t chosen = psti_fleet_choose(&three, key);
        n[chosen]++;
        if (chosen < 2)
            assert_int_equal(psti_fleet_choose(&two, key), chosen);
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(n[i], KEYS / 3 - KEYS / 50, KEYS / 3 + KEYS / 50);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct server servers[3] = {0};
    char list[1024];
    unsigned answers[3];
    char port[8];
    snprintf(port, sizeof port, "%u", free_port());
    for (int i = 0; i < 3; i++)
        start_server(&servers[i], i == 0 ? at("a") : i == 1 ? at("b") : port, 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(list_of(servers, 3, list), 10, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    ask(set, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], N);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(offer(set, i, length_of(i), 0), PSTI_FLEET_TAKEN);
    settle(set);
    ask(set, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], N);
    /* A client that offers the item again finds that the server has it. */
    assert_int_equal(offer(set, 0, length_of(0), 0), PSTI_FLEET_TAKEN);
    settle(set);
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_int_equal(use.n_added, N);
    assert_int_equal(use.n_present, 1);
    assert_int_equal(use.n_hits, N);
    assert_int_equal(use.n_misses, N);
    assert_int_equal(use.n_servers_up, 3);
    assert_true(use.mean_ns > 0 && use.p99_ns >= use.mean_ns / 2 && use.bytes_per_second > 0);
    /* With another version of the data set, another form or another size of parts, none of the
     * first items is found. */
    struct psti_cache_shape other = shape;
    other.identity[15] = 1;
    struct psti_fleet_set *changed = open_set(fleet, &other);
    ask(changed, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], N);
    psti_fleet_set_close(&changed);
    other = shape;
    other.forms = 1;
    changed = open_set(fleet, &other);
    ask(changed, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], N);
    psti_fleet_set_close(&changed);
    psti_fleet_set_close(&set);
    struct pst_fleet_server server;
    struct pst_error err;
    uint64_t n_hits = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(pst_fleet_server(fleet, i, &server, sizeof server, &err));
        assert_true(server.is_up && server.is_local && server.n_hits > N / 6);
        n_hits += server.n_hits;
    }
    assert_int_equal(n_hits, N);
    assert_int_equal(pst_fleet_server(fleet, 3, &server, sizeof server, &err), PST_ERROR_ARGUMENT);
    pst_fleet_close(&fleet);
    for (int i = 0; i < 3; i++)
        end_server(&servers[i], SIGTERM);
}

/* Items of many parts, in the data set's form and in another form with fewer parts. */
static void test_parts(void **state)
{
    (void)state;
    enum { BIG = 1000000 };
    struct server server = {0};
    unsigned answers[3];
    start_server(&server, at("p"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 10, 4096);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(offer(set, i, BIG, 0), PSTI_FLEET_TAKEN);
    /* an item of one part is offered whole */
    assert_int_equal(offer(set, 5, 3840, 0), PSTI_FLEET_TAKEN);
    assert_int_equal(offer(set, 6, 3841, 0), PSTI_FLEET_TAKEN);
    settle(set);
    /* round 0: in this thread; round 1: in the server's thread */
    for (int round = 0; round < 2; round++) {
        ask(set, 0, 5, BIG, 0, answers);
        assert_int_equal(answers[PSTI_FLEET_HIT], 5);
    }
    ask(set, 5, 1, 3840, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    ask(set, 6, 1, 3841, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    assert_int_equal(offer(set, 7, 7000, 8), PSTI_FLEET_TAKEN);
    settle(set);
    ask(set, 7, 1, 7000, 8, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    ask(set, 7, 1, 7000, 0, answers); /* the value is not in that form, so it is not the item */
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 1);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

/* A full server refuses, keeps what it has, and is soon offered less. Refusals are not errors. */
static void test_full(void **state)
{
    (void)state;
    enum { BIG = 100000, MANY = 190 };
    struct server server = {0};
    unsigned answers[3], n_taken = 0;
    start_server(&server, at("f"), 8, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 10, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    memset(n_outcomes, 0, sizeof n_outcomes);
    for (uint64_t i = 0; i < MANY; i++) {
        n_taken += offer(set, i, BIG, 0) == PSTI_FLEET_TAKEN;
        settle(set);
    }
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_in_range(use.n_added, 20, 90);
    assert_int_equal(use.n_full, MANY - use.n_added);
    assert_int_equal(atomic_load(&n_outcomes[PSTI_FLEET_ADDED]), use.n_added);
    assert_int_equal(atomic_load(&n_outcomes[PSTI_FLEET_FULL]), n_taken - use.n_added);
    assert_true(n_taken < MANY / 2 + use.n_added);
    assert_int_equal(use.n_lost, 0);
    ask(set, 0, MANY, BIG, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], use.n_added);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 0);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

/* An item that does not fit as a whole leaves no parts behind: its server still takes items that
 * fit. */
static void test_full_parts(void **state)
{
    (void)state;
    enum { BIG = 3000000, N_BIG = 8 };
    struct server server = {0};
    unsigned answers[3];
    start_server(&server, at("g"), 8, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 10, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    for (uint64_t i = 0; i < N_BIG; i++) {
        assert_int_equal(offer(set, i, BIG, 0), PSTI_FLEET_TAKEN);
        settle(set);
    }
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_in_range(use.n_added, 1, N_BIG / 2);
    assert_int_equal(use.n_full, N_BIG - use.n_added);
    ask(set, 0, N_BIG, BIG, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], use.n_added);
    assert_int_equal(answers[PSTI_FLEET_MISS], N_BIG - use.n_added);
    assert_int_equal(use.n_lost, 0);
    /* the memory of its parts is free again */
    assert_int_equal(offer(set, 100, 20000, 0), PSTI_FLEET_TAKEN);
    settle(set);
    assert_int_equal(fleet_use(fleet).n_added, use.n_added + 1);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

static void test_login(void **state)
{
    (void)state;
    struct server server = {0};
    struct pst_error err;
    unsigned answers[3];
    char path[128], wrong[128];
    snprintf(path, sizeof path, "%s", at("users"));
    snprintf(wrong, sizeof wrong, "%s", at("wrong"));
    write_text(path, "me:secret\n");
    write_text(wrong, "me:other\n");
    start_server(&server, at("l"), 64, "-Y", path, (char *)NULL);
    struct pst_fleet_options options = {.struct_size = sizeof options,
                                        .servers = server.path,
                                        .timeout_seconds = 10,
                                        .auth_file = path};
    pst_fleet *fleet;
    assert_ok(pst_fleet_open(&options, &fleet, &err));
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    assert_int_equal(offer(set, 3, length_of(3), 0), PSTI_FLEET_TAKEN);
    settle(set);
    ask(set, 3, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    for (int i = 0; i < 2; i++) { /* with a wrong password, and without one */
        options.auth_file = i ? NULL : wrong;
        assert_ok(pst_fleet_open(&options, &fleet, &err));
        set = open_set(fleet, &shape);
        ask(set, 3, 1, 0, 0, answers);
        assert_int_equal(answers[PSTI_FLEET_DECLINED], 1);
        struct pst_fleet_server seen;
        assert_ok(pst_fleet_server(fleet, 0, &seen, sizeof seen, &err));
        assert_true(!seen.is_up && seen.error[0]);
        psti_fleet_set_close(&set);
        pst_fleet_close(&fleet);
    }
    options.auth_file = at("nowhere");
    assert_int_equal(pst_fleet_open(&options, &fleet, &err), PST_ERROR_NOT_FOUND);
    end_server(&server, SIGTERM);
}

/* At first there is no server, then one is started. */
static void test_absent(void **state)
{
    (void)state;
    struct server server = {0};
    unsigned answers[3];
    const char *path = at("n");
    pst_fleet *fleet = open_fleet(path, 10, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    ask(set, 0, 20, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 20);
    assert_int_equal(offer(set, 0, 100, 0), PSTI_FLEET_REFUSED);
    start_server(&server, path, 64, (char *)NULL);
    psti_fleet_retry(set);
    await_servers(fleet, 1);
    ask(set, 0, 20, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], 20);
    /* The server is restarted, and has no items then. */
    assert_int_equal(offer(set, 0, length_of(0), 0), PSTI_FLEET_TAKEN);
    settle(set);
    end_server(&server, SIGKILL);
    ask(set, 0, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 1);
    start_server(&server, path, 64, (char *)NULL);
    await_servers(fleet, 1);
    ask(set, 0, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], 1);
    assert_true(fleet_use(fleet).n_found >= 2 && fleet_use(fleet).n_lost >= 2);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

/* A stopped server delays a caller by no more than its timeout, and does not delay closing the
 * fleet. */
static void test_stopped(void **state)
{
    (void)state;
    struct server server = {0};
    unsigned answers[3];
    start_server(&server, at("s"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 0.2, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    signal_server(&server, SIGSTOP);
    ask(set, 0, 100, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 100);
    signal_server(&server, SIGCONT);
    ask_until(set, 100, PSTI_FLEET_MISS);
    signal_server(&server, SIGSTOP);
    for (uint64_t i = 0; i < 10; i++)
        (void)offer(set, i, 1000, 0);
    settle(set);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGKILL);
}

/* Threads request and offer at once, in their own thread or through the server's thread. */
static void *ask_much(void *arg)
{
    struct psti_fleet_set *set = arg;
    unsigned answers[3];
    for (uint64_t i = 0; i < 60; i++) {
        uint32_t n = i % 3 ? 1 : 40;
        (void)offer(set, i, length_of(i), 0);
        ask(set, i, n, 0, 0, answers);
        assert_int_equal(answers[PSTI_FLEET_DECLINED], 0);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct server server = {0};
    pthread_t threads[THREADS];
    start_server(&server, at("t"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 30, 4096);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_much, set), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    settle(set);
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_int_equal(use.n_added + use.n_present, THREADS * 60);
    assert_int_equal(use.n_added, 60);
    assert_int_equal(use.n_hits + use.n_misses, THREADS * (40 + 20 * 40));
    assert_int_equal(use.n_lost + use.n_bad_values, 0);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

/* Offers whose copies do not fit into the ring buffer are dropped; afterwards the whole ring can be
 * used again. */
static void test_ring(void **state)
{
    (void)state;
    struct server server = {0};
    start_server(&server, at("r"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 10, 0);
    struct psti_fleet_set *set = NULL;
    struct pst_error err;
    unsigned answers[3], n_taken = 0, n_busy = 0;
    assert_ok(psti_fleet_set_open(fleet, &shape, 1, 12000, &set, &err));
    await_servers(fleet, 1);
    /* an item larger than the ring never fits */
    assert_int_equal(offer(set, 199, 13000, 0), PSTI_FLEET_BUSY);
    for (int round = 0; round < 20; round++)
        for (uint64_t i = 0; i < N - 1; i++) {
            enum psti_fleet_taken taken = offer(set, i, length_of(i), 0);
            n_taken += taken == PSTI_FLEET_TAKEN;
            n_busy += taken == PSTI_FLEET_BUSY;
        }
    settle(set);
    assert_int_equal(n_taken + n_busy, 20 * (N - 1));
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_int_equal(use.n_added + use.n_present, n_taken);
    assert_int_equal(use.n_dropped, n_busy + 1);
    for (uint64_t i = 0; i < N - 1; i++) { /* one at a time, each item fits into the ring */
        assert_int_equal(offer(set, i, length_of(i), 0), PSTI_FLEET_TAKEN);
        settle(set);
    }
    ask(set, 0, N - 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], N - 1);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

int main(void)
{
    const struct CMUnitTest pure[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_choice),
                                      cmocka_unit_test(test_options)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_full),       cmocka_unit_test(test_full_parts),
        cmocka_unit_test(test_login),      cmocka_unit_test(test_absent),
        cmocka_unit_test(test_stopped),    cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_ring)};
    make_own_directory();
    int failed = cmocka_run_group_tests(pure, NULL, NULL);
    if (!failed && fleet_is_here())
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    else if (!failed)
        failed = 77;
    return remove_own_directory() ? failed : 1;
}
