/* Tests the bounded queue: order, bounds, closing, and many producers and consumers at once. */
#include "test.h"

#include "base/clock.h"
#include "base/queue.h"
#include "base/thread.h"

#include <stdatomic.h>

static struct psti_queue queue;

static void make(size_t capacity)
{
    struct pst_error err;
    assert_ok(psti_queue_init(&queue, capacity, &err));
}

static void *item(size_t i) { return (char *)&queue + i + 1; }

static void first_in_first_out(void **state)
{
    (void)state;
    make(3);
    assert_null(psti_queue_try_pop(&queue));
    /* fills and empties the queue so that it wraps at every index */
    for (size_t round = 0; round < 5; round++) {
        assert_true(psti_queue_push(&queue, item(0)));
        assert_true(psti_queue_push(&queue, item(1)));
        assert_true(psti_queue_push(&queue, item(2)));
        assert_ptr_equal(psti_queue_pop(&queue), item(0));
        assert_true(psti_queue_push(&queue, item(3)));
        assert_ptr_equal(psti_queue_try_pop(&queue), item(1));
        assert_ptr_equal(psti_queue_pop(&queue), item(2));
        assert_ptr_equal(psti_queue_pop(&queue), item(3));
        assert_null(psti_queue_try_pop(&queue));
    }
    psti_queue_destroy(&queue);
    psti_queue_destroy(&queue); /* destroying an empty queue again is allowed */
}

static void closing_drains(void **state)
{
    (void)state;
    make(4);
    assert_true(psti_queue_push(&queue, item(0)));
    assert_true(psti_queue_push(&queue, item(1)));
    psti_queue_close(&queue);
    psti_queue_close(&queue);
    assert_false(psti_queue_push(&queue, item(2)));
    assert_ptr_equal(psti_queue_pop(&queue), item(0));
    assert_ptr_equal(psti_queue_try_pop(&queue), item(1));
    assert_null(psti_queue_pop(&queue));
    assert_null(psti_queue_try_pop(&queue));
    psti_queue_destroy(&queue);
}

static atomic_int n_returned;

static void pop_until_closed(void *arg)
{
    (void)arg;
    while (psti_queue_pop(&queue) != NULL)
        ;
    atomic_fetch_add(&n_returned, 1);
}

static void push_until_closed(void *arg)
{
    (void)arg;
    while (psti_queue_push(&queue, item(0)))
        ;
    atomic_fetch_add(&n_returned, 1);
}

static void closing_wakes_everybody(void **state)
{
    (void)state;
    struct pst_error err;
    for (int pushing = 0; pushing < 2; pushing++) {
        make(2);
        atomic_store(&n_returned, 0);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            assert_ok(psti_thread_start(
                &threads[i], "wait", pushing ? push_until_closed : pop_until_closed, NULL, &err));
        psti_clock_sleep_until(psti_clock_ns() + 5000000); /* most threads are waiting by now */
        assert_int_equal(atomic_load(&n_returned), 0);
        psti_queue_close(&queue);
        for (int i = 0; i < 4; i++)
            psti_thread_join(threads[i]);
        assert_int_equal(atomic_load(&n_returned), 4);
        psti_queue_destroy(&queue);
    }
}

enum { N_ITEMS = 20000, N_THREADS = 3 };
static unsigned char items[N_ITEMS * N_THREADS];
static atomic_uchar n_seen[N_ITEMS * N_THREADS];
static atomic_int n_out_of_order;

static void produce(void *arg)
{
    unsigned char *first = arg;
    for (size_t i = 0; i < N_ITEMS; i++)
        (void)psti_queue_push(&queue, first + i);
}

static void consume(void *arg)
{
    (void)arg;
    size_t last[N_THREADS] = {0}; /* each consumer sees the items of a producer in their order */
    unsigned char *got;
    while ((got = psti_queue_pop(&queue)) != NULL) {
        size_t at = (size_t)(got - items), producer = at / N_ITEMS;
        atomic_fetch_add(&n_seen[at], 1);
        if (at + 1 <= last[producer])
            atomic_fetch_add(&n_out_of_order, 1);
        last[producer] = at + 1;
    }
}

static void nothing_is_lost_between_threads(void **state)
{
    (void)state;
    struct pst_error err;
    pthread_t producers[N_THREADS], consumers[N_THREADS];
    make(7);
    for (size_t i = 0; i < N_THREADS; i++) {
        assert_ok(psti_thread_start(&producers[i], "produce", produce, items + i * N_ITEMS, &err));
        assert_ok(psti_thread_start(&consumers[i], "consume", consume, NULL, &err));
    }
    for (size_t i = 0; i < N_THREADS; i++)
        psti_thread_join(producers[i]);
    psti_queue_close(&queue);
    for (size_t i = 0; i < N_THREADS; i++)
        psti_thread_join(consumers[i]);
    for (size_t i = 0; i < sizeof items; i++)
        assert_int_equal(atomic_load(&n_seen[i]), 1);
    assert_int_equal(atomic_load(&n_out_of_order), 0);
    psti_queue_destroy(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_in_first_out),
        cmocka_unit_test(closing_drains),
        cmocka_unit_test(closing_wakes_everybody),
        cmocka_unit_test(nothing_is_lost_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
