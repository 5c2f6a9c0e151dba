/* test_fleet_lies.c - whatever a server answers, a hit has the right bytes, each request ends, and
 * the server is used again later. */
#include "fleet/fleet_ask.h"
#include "fleet/fleet_fixture.h"

#include "base/clock.h"

#include <unistd.h>

enum {
    SOME = 40,
    LONG = 100, /* the first of some items of three parts with equal lengths */
    N_LONG = 5,
    LONG_NBYTES = 3 * (4096 - 256)
};

static struct psti_fleet_set *open_honest(const char *path, double timeout_seconds,
                                          pst_fleet **fleet)
{
    *fleet = open_fleet(path, timeout_seconds, 4096);
    struct psti_fleet_set *set = open_set(*fleet, &shape);
    await_servers(*fleet, 1);
    for (uint64_t i = 0; i < SOME; i++)
        assert_int_equal(offer(set, i, length_of(i), 0), PSTI_FLEET_TAKEN);
    for (uint64_t i = 0; i < N_LONG; i++)
        assert_int_equal(offer(set, LONG + i, LONG_NBYTES, 0), PSTI_FLEET_TAKEN);
    settle(set);
    ask_until(set, SOME, PSTI_FLEET_HIT);
    return set;
}

static void test_lies(void **state)
{
    (void)state;
    struct liar *liar = start_liar(at("liar"));
    unsigned answers[3];
    pst_fleet *fleet;
    struct psti_fleet_set *set = open_honest(at("liar"), 1, &fleet);
    for (int lie = LIE_NONE + 1; lie < N_LIES; lie++) {
        uint64_t n_before = fleet_use(fleet).n_bad_values + fleet_use(fleet).n_lost;
        set_lie(liar, (enum lie)lie);
        ask(set, LONG, N_LONG, LONG_NBYTES, 0, answers);
        assert_true(answers[PSTI_FLEET_HIT] <= (lie < N_SURE_LIES ? 0 : 1));
        psti_fleet_retry(set);
        await_servers(fleet, 1);
        for (int round = 0; round < 2; round++) {
            ask(set, 0, SOME, 0, 0, answers);
            if (lie < N_SURE_LIES)
                assert_int_equal(answers[PSTI_FLEET_HIT], 0);
            assert_int_not_equal(answers[PSTI_FLEET_HIT], SOME);
            psti_fleet_retry(set);
        }
        assert_true(fleet_use(fleet).n_bad_values + fleet_use(fleet).n_lost > n_before);
        set_lie(liar, LIE_NONE);
        ask_until(set, SOME, PSTI_FLEET_HIT);
    }
    assert_true(fleet_use(fleet).n_bad_values > 0);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_liar(liar);
}

/* The server closes the connection after each byte of an answer of two parts. */
static void test_cut_at_each_byte(void **state)
{
    (void)state;
    enum { SAMPLE = 3, LENGTH = 292, ANSWER = 8 + 80 + 48 + LENGTH };
    struct liar *liar = start_liar(at("cut"));
    unsigned answers[3];
    pst_fleet *fleet;
    struct psti_fleet_set *set = open_honest(at("cut"), 10, &fleet);
    assert_int_equal(length_of(SAMPLE), LENGTH);
    for (unsigned n = 0; n < ANSWER; n++) {
        set_cut(liar, n);
        ask(set, SAMPLE, 1, 0, 0, answers);
        if (n < 48 + LENGTH)
            assert_int_equal(answers[PSTI_FLEET_HIT], 0);
        psti_fleet_retry(set);
        await_servers(fleet, 1);
    }
    set_lie(liar, LIE_NONE);
    ask_until(set, SOME, PSTI_FLEET_HIT);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_liar(liar);
}

/* A server that does not answer gets one request at a time during its timeout. Then no request
 * waits for it until it is found again. */
static void test_left_alone(void **state)
{
    (void)state;
    struct liar *liar = start_liar(at("silent"));
    unsigned answers[3];
    pst_fleet *fleet;
    struct psti_fleet_set *set = open_honest(at("silent"), 0.2, &fleet);
    set_lie(liar, LIE_SILENCE);
    uint64_t n_late = fleet_use(fleet).n_late;
    for (uint64_t i = 0; i < 100; i++) {
        ask(set, i % SOME, 1, 0, 0, answers);
        assert_int_equal(answers[PSTI_FLEET_DECLINED], 1);
    }
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_true(use.n_late > n_late && use.n_late - n_late <= 2 * use.n_found);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_liar(liar);
}

/* Answers arrive, but too slowly for most requests: those end in time, and their late answers are
 * discarded. */
static void test_slow(void **state)
{
    (void)state;
    struct liar *liar = start_liar(at("slow"));
    unsigned answers[3];
    pst_fleet *fleet;
    struct psti_fleet_set *set = open_honest(at("slow"), 1, &fleet);
    set_lie(liar, LIE_SLOW);
    /* round 0: in this thread; round 1: in the server's thread */
    for (int round = 0; round < 2; round++) {
        uint64_t n_late = fleet_use(fleet).n_late;
        ask(set, 0, 12, 0, 0, answers);
        assert_true(answers[PSTI_FLEET_DECLINED] > 0);
        assert_true(fleet_use(fleet).n_late > n_late);
    }
    set_lie(liar, LIE_NONE);
    ask_until(set, SOME, PSTI_FLEET_HIT);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_liar(liar);
}

/* A fleet that is closed while a server sends byte by byte does not wait for the rest. */
static void test_close_while_stuck(void **state)
{
    (void)state;
    struct liar *liar = start_liar(at("drip"));
    unsigned answers[3];
    pst_fleet *fleet = open_fleet(at("drip"), 0.2, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    assert_int_equal(offer(set, 60, length_of(60), 0), PSTI_FLEET_TAKEN);
    settle(set);
    set_lie(liar, LIE_DRIP);
    ask(set, 60, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 0);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    set_lie(liar, LIE_NONE); /* the rest of the answer comes at once */
    end_liar(liar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies), cmocka_unit_test(test_cut_at_each_byte),
        cmocka_unit_test(test_left_alone), cmocka_unit_test(test_slow),
        cmocka_unit_test(test_close_while_stuck)};
    make_own_directory();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return remove_own_directory() ? failed : 1;
}
