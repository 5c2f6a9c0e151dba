/* test_serve_sweep.c - a job is paused after its first batch, another resumes 30 to 60 batches
 * ahead of it, and then a process ends or stops: the paused job, a running job, or the service.
 * The remaining jobs get their batches, bit-identically, each within a minute.
 *
 * The service, the paused job and the running job are child processes; the job that resumes
 * ahead is this process. Each case runs once; the arguments "join", "kill" or "stop" run one
 * case 200 times. */
#include "base/test_input.h"
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 8, N_BATCHES = 100, N = BATCH * N_BATCHES, AHEAD_MIN = 30, AHEAD_MAX = 60 };
#define SECOND ((int64_t)1000 * 1000 * 1000)
#define MINUTE (60 * SECOND)

static unsigned n_rounds = 1;
static double share_wait; /* seconds until a stopped service counts as lost */
static struct test_random chance = {.seed = 46};
static pst_dataset *dataset;
static struct augmented kept;
static uint64_t wanted[N_BATCHES];

static struct pst_loader_options options_of(bool shares)
{
    struct pst_loader_options options = augmented_options(&kept, 48, 48);
    options.n_fields = 1;
    options.storage = SERVE_STORAGE;
    options.batch_size = BATCH;
    options.socket = fixture.socket;
    options.share = shares ? "sweep" : NULL;
    options.share_wait_seconds = share_wait;
    return options;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    dataset = open_made(directory, "set.pst",
                        &(struct make_options){.n_samples = N, .images = MAKE_RAW_SAME});
    assert_int_equal(drain_alone(dataset, options_of(false), 0, wanted), N_BATCHES);
    return 0;
}

SERVE_TEAR_DOWN(&dataset)

/* Runs in a child: takes the batches of epoch 0, again and again, until it is killed. */
static void run_job(int ready, bool goes_on)
{
    const struct pst_loader_options options = options_of(true);
    pst_loader *loader;
    pst_batch *batch;
    if (pst_loader_open(dataset, &options, &loader, NULL) != PST_OK)
        _exit(1);
    for (;;) {
        if (pst_loader_begin(loader, 0, NULL) != PST_OK)
            _exit(2);
        while (pst_loader_next(loader, &batch, NULL) == PST_OK) {
            pst_batch_release(batch);
            (void)!write(ready, "", 1);
            while (!goes_on)
                pause();
        }
    }
}

/* Starts a job in a child process, and returns when it has its first batch. Without `goes_on` the
 * child is then stopped. */
static pid_t start_job(bool goes_on)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ready[0]);
        signal(SIGPIPE, SIG_IGN);
        run_job(ready[1], goes_on);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    if (!goes_on)
        assert_int_equal(kill(pid, SIGSTOP), 0);
    return pid;
}

/* What happens in the middle of an epoch. */
struct fault {
    size_t at; /* batch of the new job before which it comes; SIZE_MAX: never */
    pid_t pid; /* process that gets the signal */
    int signal_number;
    bool ends; /* the service is asked to end */
};

static void strike(const struct fault *fault)
{
    struct pst_error err;
    if (fault->ends)
        assert_ok(pst_service_end(fixture.socket, &err));
    else
        assert_int_equal(kill(fault->pid, fault->signal_number), 0);
}

/* A job that begins ahead of the paused one takes the rest of the epoch. */
static void take_rest(const struct fault *fault)
{
    size_t from = AHEAD_MIN + test_below(&chance, AHEAD_MAX - AHEAD_MIN + 1);
    const struct pst_loader_options options = options_of(true);
    struct pst_loader_state place;
    struct pst_error err;
    pst_batch *batch;
    pst_loader *loader = open_loader(dataset, &options);
    assert_true(stats_of(loader).is_sharing);
    pst_loader_state(loader, &place);
    place.position = from * BATCH;
    assert_ok(pst_loader_resume(loader, &place, &err));
    for (size_t i = from; i < N_BATCHES; i++) {
        if (i - from == fault->at)
            strike(fault);
        assert_ok(pst_loader_next_timed(loader, MINUTE, &batch, &err));
        assert_true(hash_batch(batch) == wanted[i]);
        pst_batch_release(batch);
    }
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
    /* Only the running job may leave this one behind. */
    if (fault->at == SIZE_MAX && stats_of(loader).n_shared < N_BATCHES - from)
        assert_non_null(strstr(stats_of(loader).share_reason, "too far ahead"));
    pst_loader_close(&loader);
}

/* Runs a round with a service, a paused job and, in some cases, a running job. */
static void run_round(struct fault fault, int who)
{
    pid_t service = serve_fixture_fork(&fixture, NULL);
    pid_t paused = start_job(false), running = test_below(&chance, 2) ? start_job(true) : 0;
    fault.pid = who == 0 ? service : who == 1 || !running ? paused : running;
    take_rest(&fault);
    serve_fixture_kill(paused, SIGKILL);
    if (running)
        serve_fixture_kill(running, SIGKILL);
    serve_fixture_kill(service, SIGKILL);
    serve_fixture_check_files(&fixture, 0);
}

static void jobs_join_ahead_of_a_paused_one(void **state)
{
    (void)state;
    share_wait = 60;
    for (unsigned i = 0; i < n_rounds; i++)
        run_round((struct fault){.at = SIZE_MAX}, 0);
}

static void somebody_is_killed(void **state)
{
    (void)state;
    share_wait = 2;
    for (unsigned i = 0; i < n_rounds; i++)
        run_round((struct fault){.at = test_below(&chance, 30), .signal_number = SIGKILL},
                  (int)(i % 3));
}

static void somebody_is_stopped(void **state)
{
    (void)state;
    share_wait = 2;
    for (unsigned i = 0; i < n_rounds; i++) {
        struct fault fault = {.at = test_below(&chance, 30), .signal_number = SIGSTOP};
        fault.ends = i % 4 == 3;
        run_round(fault, i % 4 == 2 ? 2 : 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_join_ahead_of_a_paused_one),
        cmocka_unit_test(somebody_is_killed),
        cmocka_unit_test(somebody_is_stopped),
    };
    const struct CMUnitTest *first = tests;
    alarm(argc > 1 ? 3500 : 280);
    if (argc <= 1)
        return cmocka_run_group_tests(tests, set_up, tear_down);
    n_rounds = 200;
    first += strcmp(argv[1], "kill") == 0 ? 1 : strcmp(argv[1], "stop") == 0 ? 2 : 0;
    const struct CMUnitTest one[] = {*first};
    return cmocka_run_group_tests(one, set_up, tear_down);
}
