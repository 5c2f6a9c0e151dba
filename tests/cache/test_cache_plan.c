/* test_cache_plan.c - which samples a plan admits to the cache: never more than the budget holds,
 * at most one sample less than possible, and hardly worse than the best choice. */
#include "test.h"

#include "format/format_cache.h"

#include <penstock/penstock.h>

#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double value_of(const struct pst_cache_cost *costs, uint64_t n, uint32_t chosen,
                       uint64_t budget)
{
    uint64_t used = 0, room = 0;
    double seconds = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!(chosen >> i & 1))
            continue;
        psti_format_cache_room(costs[i].nbytes, &room);
        used += room;
        seconds += costs[i].seconds;
    }
    return used <= budget ? seconds : -1;
}

static void close_to_the_best(void **state)
{
    enum { N = 12 };
    uint64_t random = 5;
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct pst_cache_cost costs[N];
        struct pst_cache_plan_report report;
        struct pst_error err;
        uint8_t plan[N];
        uint32_t chosen = 0;
        double largest = 0, best = 0;
        for (int i = 0; i < N; i++) {
            costs[i] = (struct pst_cache_cost){next_random(&random) % 3000,
                                               (double)(next_random(&random) % 100)};
            largest = costs[i].seconds > largest ? costs[i].seconds : largest;
        }
        uint64_t budget = next_random(&random) % 20000;
        memset(plan, 7, sizeof plan);
        assert_ok(
            pst_cache_plan(costs, sizeof *costs, N, budget, plan, &report, sizeof report, &err));
        for (int i = 0; i < N; i++) {
            assert_true(plan[i] <= 1);
            chosen |= (uint32_t)plan[i] << i;
        }
        for (uint32_t other = 0; other < 1u << N; other++) {
            double value = value_of(costs, N, other, budget);
            best = value > best ? value : best;
        }
        double value = value_of(costs, N, chosen, budget);
        assert_true(value >= 0);
        assert_true(value - report.seconds < 1e-9 && report.seconds - value < 1e-9);
        assert_true(report.nbytes <= budget);
        assert_true(best <= report.seconds_bound + 1e-9);
        assert_true(report.seconds_bound - value <= largest);
    }
}

static void simple_ones(void **state)
{
    const struct pst_cache_cost costs[] = {{1000, 1}, {1000, 2}, {100, 1}, {50, 0}, {1 << 20, 99}};
    struct pst_cache_plan_report report;
    struct pst_error err;
    uint8_t plan[5];
    (void)state;
    assert_ok(pst_cache_plan(costs, sizeof *costs, 5, 1200, plan, &report, sizeof report, &err));
    assert_memory_equal(plan, "\0\1\1\0\0", 5);
    assert_int_equal(report.n_samples, 2);
    assert_true(report.seconds == 3);
    assert_ok(
        pst_cache_plan(costs, sizeof *costs, 5, UINT64_MAX, plan, &report, sizeof report, &err));
    assert_memory_equal(plan, "\1\1\1\0\1", 5); /* a sample that saves nothing is not admitted */
    assert_true(report.seconds == 103 && report.seconds_bound == 103);
    assert_ok(pst_cache_plan(NULL, sizeof *costs, 0, 10, NULL, NULL, 0, &err));
    const struct pst_cache_cost bad = {10, -1};
    assert_int_equal(pst_cache_plan(&bad, sizeof bad, 1, 10, plan, NULL, 0, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_cache_plan(NULL, sizeof bad, 1, 10, plan, NULL, 0, &err),
                     PST_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_to_the_best),
        cmocka_unit_test(simple_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
