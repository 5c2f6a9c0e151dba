/* Tests overflow detection, CPU mask, cores, clock and threads. */
#include "test.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/machine/cpu.h"
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void arithmetic(void **state)
{
    (void)state;
    size_t s = 0;
    uint64_t u = 0;
    assert_true(psti_add_size(SIZE_MAX - 1, 1, &s) && s == SIZE_MAX);
    assert_false(psti_add_size(SIZE_MAX, 1, &s));
    assert_true(psti_mul_size(SIZE_MAX / 3, 3, &s) && s == SIZE_MAX / 3 * 3);
    assert_false(psti_mul_size(SIZE_MAX / 2 + 1, 2, &s));
    assert_true(psti_mul_size(0, SIZE_MAX, &s) && s == 0);
    assert_true(psti_add_u64(UINT64_MAX, 0, &u) && u == UINT64_MAX);
    assert_false(psti_add_u64(UINT64_MAX, UINT64_MAX, &u));
    assert_true(psti_mul_u64(UINT32_MAX, UINT32_MAX, &u));
    assert_int_equal(u, 0xFFFFFFFE00000001u);
    assert_false(psti_mul_u64((uint64_t)1 << 32, (uint64_t)1 << 32, &u));
}

static void ranges(void **state)
{
    (void)state;
    assert_true(psti_range_fits(0, 0, 0));
    assert_true(psti_range_fits(0, 10, 10));
    assert_true(psti_range_fits(10, 0, 10));
    assert_true(psti_range_fits(9, 1, 10));
    assert_false(psti_range_fits(9, 2, 10));
    assert_false(psti_range_fits(11, 0, 10));
    assert_false(psti_range_fits(UINT64_MAX, 2, 10)); /* the end of the range overflows to 1 */
    assert_false(psti_range_fits(2, UINT64_MAX, 10));
    assert_true(psti_range_fits(UINT64_MAX, 0, UINT64_MAX));
}

/* Returns the CPU features found with this PENSTOCK_CPU_MASK. It uses a child process, because
 * features are found only once per process. */
static uint32_t features_with(const char *mask)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (mask != NULL)
            setenv("PENSTOCK_CPU_MASK", mask, 1);
        else
            unsetenv("PENSTOCK_CPU_MASK");
        uint32_t first = psti_cpu_features();
        setenv("PENSTOCK_CPU_MASK", "c", 1); /* features are found already, so this has no effect */
        uint32_t second = psti_cpu_features();
        uint32_t answer = first == second ? first : UINT32_MAX;
        ssize_t n = write(ends[1], &answer, sizeof answer);
        _exit(n == sizeof answer ? 0 : 1);
    }
    uint32_t features = 0;
    assert_int_equal(read(ends[0], &features, sizeof features), sizeof features);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
    return features;
}

static void cpu_mask(void **state)
{
    (void)state;
    const uint32_t wide = PSTI_CPU_AVX512 | PSTI_CPU_AVX512_ICL;
    uint32_t found = psti_cpu_detected();
    assert_int_equal(features_with(NULL), found);
    assert_int_equal(features_with("avx512"), found);
    assert_int_equal(features_with("avx2"), found & ~wide);
    assert_int_equal(features_with("c"), 0);
    assert_int_equal(features_with("no such level"), found);
    /* A level includes the ones below it. */
    assert_true(!(found & PSTI_CPU_AVX512) || (found & PSTI_CPU_AVX2));
    assert_true(!(found & PSTI_CPU_AVX512_ICL) || (found & PSTI_CPU_AVX512));
    assert_string_equal(psti_cpu_level_name(0), "c");
    assert_string_equal(psti_cpu_level_name(PSTI_CPU_AVX2), "avx2");
    assert_string_equal(psti_cpu_level_name(PSTI_CPU_AVX2 | PSTI_CPU_AVX512), "avx2/avx512");
    assert_string_equal(psti_cpu_level_name(PSTI_CPU_AVX2 | wide), "avx512");
    assert_string_equal(psti_cpu_level_name(PSTI_CPU_NEON), "neon");
}

static void cores(void **state)
{
    (void)state;
    unsetenv("PENSTOCK_NUM_THREADS");
    unsigned found = psti_thread_cores();
    assert_true(found >= 1);
    assert_true(found <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
    setenv("PENSTOCK_NUM_THREADS", "7", 1);
    assert_int_equal(psti_thread_cores(), 7);
    static const char *const senseless[] = {"0", "-3", "many", "99999999", ""};
    for (size_t i = 0; i < sizeof senseless / sizeof senseless[0]; i++) {
        setenv("PENSTOCK_NUM_THREADS", senseless[i], 1);
        assert_int_equal(psti_thread_cores(), found);
    }
    unsetenv("PENSTOCK_NUM_THREADS");
}

static void time_goes_forward(void **state)
{
    (void)state;
    int64_t last = psti_clock_ns();
    assert_true(last > 0);
    for (int i = 0; i < 10000; i++) {
        int64_t now = psti_clock_ns();
        assert_true(now >= last);
        last = now;
    }
    psti_clock_sleep_until(last - 1000000000); /* a time in the past: returns at once */
    psti_clock_sleep_until(0);
    psti_clock_sleep_until(last + 10000000);
    assert_true(psti_clock_ns() >= last + 10000000);
}

static void waiting_with_a_deadline(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    psti_cond_init(&cond);
    pthread_mutex_lock(&lock);
    int64_t deadline = psti_clock_ns() + 10000000;
    int result;
    while ((result = psti_cond_wait_until(&cond, &lock, deadline)) == 0)
        ;
    assert_int_equal(result, ETIMEDOUT);
    assert_true(psti_clock_ns() >= deadline);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&cond);
}

struct seen {
    int value;
    char name[16];
    sigset_t blocked;
};

static void look_around(void *arg)
{
    struct seen *seen = arg;
    seen->value++;
    pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    /* The new thread's name is set by its starter, perhaps after a moment. */
    for (int i = 0; i < 2000; i++) {
        pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
        if (strncmp(seen->name, "pst-", 4) == 0)
            break;
        psti_clock_sleep_until(psti_clock_ns() + 1000000);
    }
}

static void threads(void **state)
{
    (void)state;
    struct pst_error err;
    struct seen seen = {.value = 41};
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    pthread_t thread;
    assert_ok(psti_thread_start(&thread, "0123456789abc", look_around, &seen, &err));
    psti_thread_join(thread);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(seen.value, 42);
    assert_string_equal(seen.name, "pst-0123456789");
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(sigismember(&seen.blocked, signals[i]), 1);
        assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
}

#if defined(__x86_64__)
/* The features equal those that the runtime of gcc or clang finds. */
static void cpu_features(void **state)
{
    (void)state;
    uint32_t found = psti_cpu_detected();
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
    bool icl = avx512 && __builtin_cpu_supports("avx512vbmi") &&
               __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("gfni") &&
               __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bitalg") &&
               __builtin_cpu_supports("avx512vpopcntdq");
    assert_int_equal((found & PSTI_CPU_AVX2) != 0, avx2);
    assert_int_equal((found & PSTI_CPU_AVX512) != 0, avx512);
    assert_int_equal((found & PSTI_CPU_AVX512_ICL) != 0, icl);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(cpu_features),
#endif
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(ranges),
        cmocka_unit_test(cpu_mask),
        cmocka_unit_test(cores),
        cmocka_unit_test(time_goes_forward),
        cmocka_unit_test(waiting_with_a_deadline),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
