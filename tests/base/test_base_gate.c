/* test_base_gate.c - a gate never lets in more threads than its limit, and lets in as many as the
 * limit, even if it changes. */
#include "test.h"

#include "base/gate.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 200 };

static struct psti_gate gate;
static atomic_uint inside, most;

static void *go_through(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        psti_gate_enter(&gate);
        unsigned n = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);
        while (n > seen && !atomic_compare_exchange_weak(&most, &seen, n))
            ;
        sched_yield();
        atomic_fetch_sub(&inside, 1);
        psti_gate_leave(&gate);
    }
    return NULL;
}

static void never_more_than_the_limit(void **state)
{
    (void)state;
    for (uint32_t limit = 1; limit <= THREADS; limit *= 2) {
        pthread_t threads[THREADS];
        psti_gate_open(&gate, limit);
        atomic_store(&most, 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, go_through, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_true(atomic_load(&most) >= 1 && atomic_load(&most) <= limit);
        assert_int_equal(atomic_load(&inside), 0);
        psti_gate_close(&gate);
    }
}

static void *enter_once(void *arg)
{
    (void)arg;
    psti_gate_enter(&gate);
    atomic_fetch_add(&inside, 1);
    return NULL;
}

/* Waiting threads come in when the limit is raised; no thread leaves in this test. */
static void a_higher_limit_lets_more_in(void **state)
{
    (void)state;
    pthread_t threads[4];
    psti_gate_open(&gate, 1);
    atomic_store(&inside, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_once, NULL), 0);
    while (atomic_load(&inside) < 1)
        sched_yield();
    psti_gate_set_limit(&gate, 3);
    while (atomic_load(&inside) < 3)
        sched_yield();
    psti_gate_set_limit(&gate, 4);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&inside), 4);
    psti_gate_close(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_more_than_the_limit),
        cmocka_unit_test(a_higher_limit_lets_more_in),
    };
    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
