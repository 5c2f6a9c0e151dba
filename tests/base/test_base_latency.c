/* test_base_latency.c - means, quantiles and rates of requests. */
#include "test.h"

#include "base/clock.h"
#include "base/latency.h"

static struct psti_latency_figures read_of(struct psti_latency *latency)
{
    struct psti_latency_figures figures;
    psti_latency_read(latency, &figures);
    return figures;
}

/* The 99th percentile is at least the true one and at most a quarter above it, for times of any
 * magnitude. */
static void test_quantile(void **state)
{
    (void)state;
    for (int64_t unit = 1; unit < (int64_t)1 << 43; unit = unit * 3 + 1) {
        struct psti_latency latency;
        psti_latency_open(&latency);
        int64_t sum = 0;
        for (int64_t i = 1; i <= 1000; i++) {
            int64_t ns = unit * (i % 1000 + 1); /* 1 to 1,000 units, in mixed order */
            psti_latency_note(&latency, 10, ns);
            sum += ns;
        }
        struct psti_latency_figures figures = read_of(&latency);
        assert_int_equal(figures.n, 1000);
        assert_int_equal(figures.nbytes, 10000);
        assert_int_equal(figures.mean_ns, sum / 1000);
        assert_true(figures.p99_ns >= (uint64_t)unit * 990);
        assert_true(figures.p99_ns < (uint64_t)unit * 990 * 1.25);
        /* no request was under way, so there is no rate */
        assert_true(figures.bytes_per_second == 0);
        psti_latency_close(&latency);
    }
}

static void test_ends(void **state)
{
    (void)state;
    struct psti_latency latency;
    psti_latency_open(&latency);
    assert_int_equal(read_of(&latency).p99_ns, 0);
    psti_latency_note(&latency, 0, -5);
    assert_int_equal(read_of(&latency).p99_ns, 0);
    psti_latency_note(&latency, 0, INT64_MAX);
    assert_true(read_of(&latency).p99_ns >= (uint64_t)INT64_MAX / 2);
    psti_latency_close(&latency);
}

/* The rate counts time once, however many requests are under way in it. */
static void test_rate(void **state)
{
    (void)state;
    struct psti_latency latency;
    psti_latency_open(&latency);
    int64_t start = psti_clock_ns();
    psti_latency_begin(&latency, 3);
    psti_clock_sleep_until(start + 20000000);
    psti_latency_end(&latency, 1, 1000, 7);
    psti_latency_end(&latency, 0, 5000, 7); /* the request returned no bytes */
    assert_true(read_of(&latency).bytes_per_second > 0);
    psti_latency_end(&latency, 1, 1000, 7);
    int64_t end = psti_clock_ns();
    psti_clock_sleep_until(end + 20000000); /* idle time, in which no request is under way */
    struct psti_latency_figures figures = read_of(&latency);
    assert_int_equal(figures.n, 2);
    assert_int_equal(figures.nbytes, 2000);
    assert_true(figures.bytes_per_second <= 2000 / 0.020);
    assert_true(figures.bytes_per_second >= 2000 * 1e9 / (double)(end - start));
    psti_latency_close(&latency);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantile), cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
