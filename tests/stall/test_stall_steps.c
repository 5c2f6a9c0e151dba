/* test_stall_steps.c - are times of steps added up as the caller spent them, and is a worker's time
 * divided completely? All times are invented, so nothing depends on the machine. */
#include "stall/stall_meter.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

#define MS 1000000

static struct psti_meter_steps *made(void)
{
    struct psti_meter_steps *steps = calloc(1, sizeof *steps);
    assert_non_null(steps);
    psti_stall_meter_steps_begin(steps);
    return steps;
}

/* Records one step: own work, then a wait. */
static int64_t step(struct psti_meter_steps *steps, int64_t now, int64_t own, int64_t wait,
                    uint64_t busy)
{
    psti_stall_meter_steps_ask(steps, now + own);
    assert_true(psti_stall_meter_steps_deliver(steps, now + own + wait, false, busy));
    return now + own + wait;
}

static int64_t begin(struct psti_meter_steps *steps, int64_t now, int64_t wait)
{
    psti_stall_meter_steps_ask(steps, now);
    assert_false(psti_stall_meter_steps_deliver(steps, now + wait, false, 0));
    return now + wait;
}

/* Of 1,000 steps, 990 take 10 ms and 10 take 500 ms, evenly spread. */
static void figures_are_those_of_the_steps(void **state)
{
    struct psti_meter_steps *steps = made();
    struct psti_meter_figures epoch, window;
    (void)state;
    int64_t now = begin(steps, 1000, 7 * MS);
    for (int i = 0; i < 1000; i++) {
        bool slow = i % 100 == 99;
        psti_stall_meter_steps_cause(steps, PSTI_METER_CAUSE_ROWS, slow ? 496 * MS : 6 * MS);
        now = step(steps, now, 4 * MS, slow ? 496 * MS : 6 * MS, (uint64_t)i * MS);
    }
    psti_stall_meter_steps_epoch(steps, &epoch);
    assert_int_equal(epoch.n, 1000);
    assert_int_equal(epoch.total_ns, (990u * 10 + 10 * 500) * (uint64_t)MS);
    assert_int_equal(epoch.wait_ns, (990u * 6 + 10 * 496) * (uint64_t)MS);
    assert_int_equal(epoch.cause_ns[PSTI_METER_CAUSE_ROWS], epoch.wait_ns);
    assert_int_equal(epoch.max_ns, 500 * MS);
    assert_int_equal(epoch.wait_max_ns, 496 * MS);
    assert_int_equal(steps->first_wait_ns, 7 * MS);
    assert_true(fabs(epoch.mean_ns / MS - 14.9) < 1e-9);
    /* With n - 1: sqrt(1000 / 999 * 0.01 * 0.99) * 490 ms. */
    assert_true(fabs(epoch.sd_ns / MS - sqrt(0.0099 * 1000 / 999) * 490) < 1e-6);
    assert_true(fabs(epoch.p50_ns / MS - 10) < 0.16);
    assert_true(fabs(epoch.p99_ns / MS - 10) < 0.16); /* exactly 99 % do not exceed it */
    psti_stall_meter_steps_window(steps, &window);
    assert_int_equal(window.n, PSTI_METER_WINDOW); /* steps 744 to 999: 799, 899 and 999 are slow */
    assert_int_equal(window.total_ns, (253u * 10 + 3 * 500) * (uint64_t)MS);
    assert_int_equal(window.p50_ns, 10 * MS);
    assert_int_equal(window.p99_ns, 500 * MS); /* 3 of 256 are more than 1 % */
    assert_int_equal(window.busy_ns, 255u * MS);
    assert_int_equal(window.busy_span_ns, window.total_ns - 10 * MS);
    free(steps);
}

static void every_time_has_its_bucket(void **state)
{
    (void)state;
    for (int64_t ns = 1100; ns < (int64_t)1 << 41; ns += ns / 3) {
        struct psti_meter_steps *steps = made();
        struct psti_meter_figures epoch;
        int64_t now = begin(steps, 1, 1);
        now = step(steps, now, ns, 0, 0);
        /* a larger value, so that the maximum does not limit the median */
        step(steps, now, ns * 2, 0, 0);
        psti_stall_meter_steps_epoch(steps, &epoch);
        assert_true(fabs(epoch.p50_ns / (double)ns - 1) < 0.017);
        free(steps);
    }
}

/* The end of an epoch ends its last step. A caller may be told to call again. Then the next epoch's
 * times begin at 0, and the time between the epochs belongs to no step. */
static void ends_and_repeated_calls(void **state)
{
    struct psti_meter_steps *steps = made();
    struct psti_meter_figures epoch;
    (void)state;
    int64_t now = begin(steps, 5, 5);
    psti_stall_meter_steps_ask(steps, now + 20);
    psti_stall_meter_steps_ask(steps, now + 30); /* after PST_ERROR_BUSY the wait goes on */
    assert_true(psti_stall_meter_steps_deliver(steps, now + 40, false, 0));
    psti_stall_meter_steps_ask(steps, now + 90);
    assert_true(psti_stall_meter_steps_deliver(steps, now + 90, true, 0));
    psti_stall_meter_steps_epoch(steps, &epoch);
    assert_int_equal(epoch.n, 2);
    assert_int_equal(epoch.total_ns, 90);
    assert_int_equal(epoch.wait_ns, 20);
    psti_stall_meter_steps_begin(steps);
    begin(steps, now + 5000, 3);
    psti_stall_meter_steps_epoch(steps, &epoch);
    assert_int_equal(epoch.n, 0);
    assert_int_equal(epoch.total_ns, 0);
    assert_int_equal(steps->first_wait_ns, 3);
    assert_int_equal(steps->all_n, 2);
    assert_int_equal(steps->all_caller_ns, 70);
    psti_stall_meter_steps_fail(steps); /* after an error, the next delivery ends no step */
    psti_stall_meter_steps_ask(steps, now + 6000);
    assert_false(psti_stall_meter_steps_deliver(steps, now + 6001, false, 0));
    free(steps);
}

static void peers_are_part_of_the_callers_time(void **state)
{
    struct psti_meter_steps *steps = made();
    struct psti_meter_figures epoch;
    (void)state;
    psti_stall_meter_steps_peers(steps, 1000); /* before the first batch no step is under way */
    int64_t now = begin(steps, 1, 1);
    psti_stall_meter_steps_peers(steps, 30);
    psti_stall_meter_steps_peers(steps, 12);
    now = step(steps, now, 100, 50, 0);
    psti_stall_meter_steps_peers(steps, 1000); /* more time of peers than the step has */
    step(steps, now, 100, 50, 0);
    psti_stall_meter_steps_epoch(steps, &epoch);
    assert_int_equal(epoch.peers_ns, 42 + 100);
    assert_int_equal(steps->all_caller_ns, 58);
    free(steps);
}

/* The parts of a worker's time add up to the whole, whatever was sampled. */
static void a_workers_time_is_divided_whole(void **state)
{
    struct psti_meter_thread thread;
    (void)state;
    psti_stall_meter_thread_init(&thread, NULL, 3);
    for (uint64_t i = 0; i < 4000; i++) {
        assert_true(psti_stall_meter_row_begins(&thread, i, 0));
        /* this row is already under way */
        assert_false(psti_stall_meter_row_begins(&thread, i, 0));
        int64_t since = psti_stall_meter_enter(&thread, PSTI_METER_FETCH);
        psti_stall_meter_leave(&thread, PSTI_METER_FETCH, since);
        since = psti_stall_meter_enter(&thread, PSTI_METER_PIXELS);
        int64_t inner = psti_stall_meter_enter_augment(&thread);
        assert_true(since || !inner); /* only within an image that is timed */
        psti_stall_meter_leave_augment(&thread, inner);
        psti_stall_meter_leave(&thread, PSTI_METER_PIXELS, since);
        psti_stall_meter_row_ends(&thread, 0);
        psti_stall_meter_add(&thread.busy_ns, 1000 + i);
    }
    struct psti_meter_sums sums = {0};
    psti_stall_meter_sum(&thread, &sums);
    assert_int_equal(sums.n_rows, 4000);
    assert_int_equal(sums.busy_ns, 4000u * 1000 + 3999 * 2000);
    assert_int_equal(sums.fetch_ns + sums.decode_ns + sums.augment_ns + sums.keep_ns +
                         sums.batch_ns,
                     sums.busy_ns);
    assert_true(atomic_load(&thread.split_ns) > 0 &&
                atomic_load(&thread.split_ns) < atomic_load(&thread.pixels_ns));
}

/* After a row that took long compared with reading the clocks, the next row is timed, too. After a
 * row that took no time, 255 rows are not timed. */
static void short_rows_are_sampled(void **state)
{
    struct psti_meter_thread thread;
    (void)state;
    psti_stall_meter_thread_init(&thread, NULL, 1);
    assert_true(psti_stall_meter_row_begins(&thread, 0, 0));
    assert_true(thread.detailed);
    psti_stall_meter_row_ends(&thread, UINT64_MAX); /* the whole row was spent on reading */
    for (int i = 0; i < 255; i++) {
        psti_stall_meter_row_begins(&thread, 0, 0);
        assert_false(thread.detailed);
        assert_int_equal(psti_stall_meter_enter(&thread, PSTI_METER_PIXELS), 0);
        psti_stall_meter_row_ends(&thread, 0);
    }
    psti_stall_meter_row_begins(&thread, 0, 0);
    assert_true(thread.detailed);
    thread.row_start_ns -= 60000; /* as if the row had begun earlier */
    psti_stall_meter_row_ends(&thread, 0);
    psti_stall_meter_row_begins(&thread, 0, 0);
    assert_true(thread.detailed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_steps),
        cmocka_unit_test(every_time_has_its_bucket),
        cmocka_unit_test(ends_and_repeated_calls),
        cmocka_unit_test(peers_are_part_of_the_callers_time),
        cmocka_unit_test(a_workers_time_is_divided_whole),
        cmocka_unit_test(short_rows_are_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
