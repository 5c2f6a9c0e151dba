/* test_serve_stream_kill.c - processes that share preparation are killed (kill -9) or stopped at
 * any moment: the others go on, bit-identically, and nothing is left behind.
 *
 * The service and one job are child processes; the other job is this process. The argument
 * `long` repeats each fault 200 times. */
#include "serve/serve_fixture.h"

#include "base/clock.h"
#include "base/philox.h"
#include "loader/loader_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SAMPLES 120
#define BATCHES_MAX 64
#define SECOND ((int64_t)1000 * 1000 * 1000)

static int n_rounds = 4;
static pst_dataset *dataset;
static struct augmented kept;
static uint64_t want[2][BATCHES_MAX];
static size_t n_batches;

static struct pst_loader_options options_of(const char *share)
{
    struct pst_loader_options options = augmented_options(&kept, 64, 64);
    options.n_fields = 1;
    options.batch_size = 6;
    options.socket = fixture.socket;
    options.share = share;
    return options;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    dataset = open_made(directory, "set.pst",
                        &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_JPEG});
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        n_batches = drain_alone(dataset, options_of(NULL), epoch, want[epoch]);
    return 0;
}

SERVE_TEAR_DOWN(&dataset)

/* Starts a service in a child process, and waits until jobs can join it. */
static pid_t start_service(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct pst_service_options options = {.struct_size = sizeof options,
                                                    .socket = fixture.socket,
                                                    .cache_nbytes = (uint64_t)16 << 20,
                                                    .n_threads = 2,
                                                    .keep = true};
        pst_service *service;
        struct pst_error err;
        if (pst_service_open(&options, &service, &err) != PST_OK)
            _exit(1);
        if (pst_service_run(service, &err) != PST_OK)
            _exit(2);
        pst_service_close(&service);
        _exit(0);
    }
    struct pst_error err;
    int fd = -1;
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    while (psti_share_connect(fixture.socket, PSTI_SESSION_CONTROL, 60 * SECOND, NULL, &fd, NULL,
                              &err) != PST_OK &&
           psti_clock_ns() < deadline)
        psti_clock_sleep_until(psti_clock_ns() + SECOND / 500);
    assert_true(fd >= 0);
    close(fd);
    return pid;
}

static void end_process(pid_t pid, int signal_number)
{
    int state;
    assert_int_equal(kill(pid, signal_number), 0);
    assert_int_equal(waitpid(pid, &state, 0), pid);
}

/* Starts a job that runs epochs until it is killed. `sibling`: its colour operation differs, so it
 * has a group of its own, which shares reads and decoded samples with the other group. */
static pid_t start_job(bool sibling)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    struct pst_loader_options options = options_of("group");
    struct pst_error err;
    pst_loader *loader;
    pst_batch *batch;
    if (sibling)
        kept.chain[2].brightness[1] = 1.2f;
    if (pst_loader_open(dataset, &options, &loader, &err) != PST_OK)
        _exit(1);
    for (uint64_t epoch = 0;; epoch++) {
        if (pst_loader_begin(loader, epoch % 2, &err) != PST_OK)
            _exit(2);
        while (pst_loader_next(loader, &batch, &err) == PST_OK)
            pst_batch_release(batch);
    }
}

static int64_t random_ns(int round, uint32_t what, int64_t most)
{
    uint32_t r[4];
    psti_random4(1, (uint64_t)round, PSTI_RANDOM_ORDER, what, 0, 0, r);
    return (int64_t)(r[0] % (uint64_t)most);
}

/* Runs two epochs of this process's job and checks their batches. `act` is called before batch
 * `at`. */
static void run_here(pst_loader *loader, size_t at, void (*act)(void *), void *ctx)
{
    struct pst_error err;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_ok(pst_loader_begin(loader, epoch, &err));
        for (size_t i = 0; i < n_batches; i++) {
            pst_batch *batch;
            if (epoch * n_batches + i == at)
                act(ctx);
            assert_ok(pst_loader_next(loader, &batch, &err));
            assert_true(hash_batch(batch) == want[epoch][i]);
            pst_batch_release(batch);
        }
        pst_batch *batch;
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
    }
}

static void kill_it(void *ctx) { end_process(*(pid_t *)ctx, SIGKILL); }

static void killed_jobs_disturb_nobody(void **state)
{
    (void)state;
    pid_t service = start_service();
    for (int round = 0; round < n_rounds; round++) {
        struct pst_loader_options options = options_of("group");
        pid_t job = start_job(round % 2 == 1);
        psti_clock_sleep_until(psti_clock_ns() + random_ns(round, 1, SECOND / 50));
        pst_loader *loader = open_loader(dataset, &options);
        assert_true(stats_of(loader).is_sharing);
        run_here(loader, (size_t)random_ns(round, 2, (int64_t)(2 * n_batches)), kill_it, &job);
        assert_true(stats_of(loader).n_shared > 0);
        pst_loader_close(&loader);
    }
    end_process(service, SIGTERM);
}

static void stop_job(void *ctx) { assert_int_equal(kill(*(pid_t *)ctx, SIGSTOP), 0); }

/* A stopped job is left behind, and goes on when it is continued. */
static void stopped_jobs_disturb_nobody(void **state)
{
    (void)state;
    pid_t service = start_service();
    for (int round = 0; round < n_rounds; round++) {
        struct pst_loader_options options = options_of("group");
        pid_t job = start_job(round % 2 == 1);
        psti_clock_sleep_until(psti_clock_ns() + random_ns(round, 5, SECOND / 50));
        pst_loader *loader = open_loader(dataset, &options);
        assert_true(stats_of(loader).is_sharing);
        run_here(loader, (size_t)random_ns(round, 6, (int64_t)(2 * n_batches)), stop_job, &job);
        assert_true(stats_of(loader).n_shared > 0);
        assert_int_equal(kill(job, SIGCONT), 0);
        run_here(loader, SIZE_MAX, NULL, NULL);
        pst_loader_close(&loader);
        end_process(job, SIGKILL);
    }
    end_process(service, SIGTERM);
}

static void a_killed_service_costs_nothing(void **state)
{
    (void)state;
    for (int round = 0; round < n_rounds; round++) {
        struct pst_loader_options options = options_of("group");
        pid_t service = start_service();
        pst_loader *loader = open_loader(dataset, &options);
        assert_true(stats_of(loader).is_sharing);
        size_t at = (size_t)random_ns(round, 3, (int64_t)(2 * n_batches));
        run_here(loader, at, kill_it, &service);
        assert_true(stats_of(loader).fallbacks[PST_FALLBACK_SHARE] > 0);
        pst_loader_close(&loader);
    }
}

struct stopped {
    pid_t service;
    pst_loader *loader;
};

static void stop_it(void *ctx)
{
    const struct stopped *stopped = ctx;
    assert_int_equal(kill(stopped->service, SIGSTOP), 0);
}

/* A stopped service counts as lost after the deadline. When it continues, the session is over, and
 * the shared memory that the job kept is still valid. */
static void a_stopped_service_costs_one_deadline(void **state)
{
    (void)state;
    for (int round = 0; round < n_rounds; round++) {
        struct pst_loader_options options = options_of("group");
        struct pst_error err;
        pst_batch *first;
        options.share_wait_seconds = 0.05;
        struct stopped stopped = {.service = start_service()};
        pst_loader *loader = stopped.loader = open_loader(dataset, &options);
        assert_ok(pst_loader_begin(loader, 0, &err));
        assert_ok(pst_loader_next(loader, &first, &err));
        size_t at = (size_t)random_ns(round, 4, (int64_t)n_batches);
        run_here(loader, at, stop_it, &stopped);
        assert_true(stats_of(loader).fallbacks[PST_FALLBACK_SHARE] > 0);
        assert_int_equal(kill(stopped.service, SIGCONT), 0);
        options.share_wait_seconds = 60;
        pst_loader *other = open_loader(dataset, &options);
        run_here(other, SIZE_MAX, NULL, NULL);
        pst_loader_close(&other);
        assert_true(hash_batch(first) == want[0][0]);
        pst_batch_release(first);
        pst_loader_close(&loader);
        end_process(stopped.service, SIGKILL);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_jobs_disturb_nobody),
        cmocka_unit_test(stopped_jobs_disturb_nobody),
        cmocka_unit_test(a_killed_service_costs_nothing),
        cmocka_unit_test(a_stopped_service_costs_one_deadline),
    };
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        n_rounds = 200;
    alarm(n_rounds > 4 ? 3000 : 300);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
