/* test_serve_socket.c - faults at the service's socket, at random moments of the epochs of two
 * correct loaders: it is removed, left behind by a killed service, claimed by other users, or used
 * by other versions; and the service is paused. With the arguments "long" and "long-removed" each
 * fault comes 200 times. */
#include "base/test_input.h"
#include "serve/serve_honest.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 120, N_RIVALS = 3 };
#define SECOND ((int64_t)1000 * 1000 * 1000)

static unsigned n_rounds = 2;
static struct serve_honest honest;
static struct test_random chance = {.seed = 41};
static pid_t service;
static size_t at; /* number of the batch before which the fault comes */

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    serve_honest_open(&honest, N);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_honest_close(&honest);
    serve_fixture_clear(&fixture);
    remove_tree(directory);
    return 0;
}

static void nap(uint32_t us) { psti_clock_sleep_until(psti_clock_ns() + (int64_t)us * 1000); }

/* Runs an epoch of both loaders with the fault, which must not cost a batch of the service. */
static void run_with(void (*fault)(void *ctx, size_t i))
{
    at = test_below(&chance, (uint32_t)honest.n_batches);
    uint64_t n_shared = stats_of(honest.shared).n_shared;
    serve_honest_run(&honest, fault, NULL);
    assert_int_equal(stats_of(honest.shared).n_shared - n_shared, honest.n_batches);
    assert_int_equal(stats_of(honest.cached).fallbacks[PST_FALLBACK_HOST], 0);
    assert_int_equal(stats_of(honest.cached).n_cache_items, N);
}

/* Starts a service with both loaders, runs the rounds with the fault, and ends the service. */
static void do_rounds(void (*fault)(void *ctx, size_t i), void (*after)(void))
{
    service = serve_fixture_fork(&fixture, NULL);
    serve_honest_join(&honest);
    for (unsigned round = 0; round < n_rounds; round++) {
        run_with(fault);
        if (after)
            after();
    }
    serve_honest_leave(&honest);
    serve_fixture_await_no_sessions(&fixture);
    assert_int_equal(waitpid(service, NULL, WNOHANG), 0); /* it lives */
    serve_fixture_kill(service, SIGKILL);
    serve_fixture_check_files(&fixture, 0);
}

static void remove_names(void *ctx, size_t i)
{
    char lock[128];
    (void)ctx;
    if (i != at)
        return;
    snprintf(lock, sizeof lock, "%s.lock", fixture.socket);
    (void)unlink(fixture.socket);
    if (test_below(&chance, 2))
        (void)unlink(lock);
}

/* Waits until new clients find the service again, which takes seconds. */
static void await_names(void)
{
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    pst_service_report *report;
    while (pst_service_report_open(fixture.socket, &report, NULL) != PST_OK) {
        assert_true(psti_clock_ns() < deadline);
        nap(5000);
    }
    pst_service_report_close(&report);
}

static void a_removed_socket_harms_no_session(void **state)
{
    (void)state;
    do_rounds(remove_names, await_names);
}

static int be_another_user(void *ctx)
{
    char path[128], lock[128];
    int way = *(int *)ctx;
    struct pst_error err;
    pst_service_report *report;
    pst_service *own;
    struct pst_service_options options = {
        .struct_size = sizeof options, .socket = fixture.socket, .cache_nbytes = 1 << 20};
    snprintf(lock, sizeof lock, "%s.lock", fixture.socket);
    if (unlink(fixture.socket) == 0 || unlink(lock) == 0)
        return 1;
    if (pst_service_report_open(fixture.socket, &report, &err) == PST_OK ||
        (way ? err.status != PST_ERROR_ARGUMENT : err.os_error != EACCES))
        return 2;
    if (pst_service_end(fixture.socket, NULL) == PST_OK)
        return 3;
    if (pst_service_open(&options, &own, NULL) == PST_OK) /* at the socket of the other user */
        return 4;
    snprintf(path, sizeof path, "/tmp/pst-serve-other-%ld.sock", (long)getpid());
    options.socket = path;
    if (pst_service_open(&options, &own, NULL) != PST_OK)
        return 5;
    pst_service_close(&own);
    return access(path, F_OK) == 0 ? 6 : 0;
}

static void come_as_another_user(void *ctx, size_t i)
{
    (void)ctx;
    /* rejected by the socket's permissions, or by the check of the peer's user */
    int way = (int)test_below(&chance, 2);
    if (i != at)
        return;
    assert_int_equal(chmod(fixture.socket, way ? 0666 : 0600), 0);
    assert_int_equal(serve_fixture_as_user(be_another_user, &way), 0);
}

static void other_users_harm_nobody(void **state)
{
    (void)state;
    if (geteuid() != 0 || TEST_SANITIZED) {
        puts("only root can become another user; sanitizers do not stand a fork beside threads");
        skip();
    }
    do_rounds(come_as_another_user, NULL);
}

/* Connects as a client of another version, or with no version at all. */
static void come_with_another_version(void *ctx, size_t i)
{
    static struct psti_message message;
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct psti_hello hello = {.protocol = test_below(&chance, 1u << 31),
                               .session = test_below(&chance, 5)};
    struct pst_error err;
    (void)ctx;
    if (i != at)
        return;
    hello.protocol += hello.protocol == PSTI_HOST_PROTOCOL;
    for (size_t k = 0; k + 1 < sizeof hello.version; k++)
        hello.version[k] = (char)('!' + test_below(&chance, 90));
    int fd = serve_fixture_connect(&fixture);
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_hello(&out, &hello);
    for (uint32_t more = test_below(&chance, 64); more > 0; more--) /* later versions may add */
        psti_share_put_u32(&out, test_below(&chance, 1u << 31));
    size_t n = psti_share_finish(&out, PSTI_MESSAGE_HELLO, 0, 0);
    assert_ok(psti_share_send(fd, bytes, n, NULL, 0, psti_clock_ns() + 60 * SECOND, &err));
    assert_int_equal(psti_share_answer(fd, &message, PSTI_MESSAGE_WELCOME, 60 * SECOND, NULL, &err),
                     PST_ERROR_VERSION);
    assert_non_null(strstr(err.text, pst_version()));
    close(fd);
}

static void other_versions_harm_nobody(void **state)
{
    (void)state;
    do_rounds(come_with_another_version, NULL);
}

static void pause_service(void *ctx, size_t i)
{
    (void)ctx;
    if (i != at)
        return;
    assert_int_equal(kill(service, SIGSTOP), 0);
    nap(test_below(&chance, 30000));
    assert_int_equal(kill(service, SIGCONT), 0);
}

static void a_paused_service_is_waited_for(void **state)
{
    (void)state;
    do_rounds(pause_service, NULL);
}

static void kill_service(void *ctx, size_t i)
{
    (void)ctx;
    if (i == at)
        serve_fixture_kill(service, SIGKILL);
}

/* Starts several services that compete for the place of a killed one. Returns the winner. */
static pid_t race_for_place(void)
{
    pid_t rivals[N_RIVALS], winner = 0;
    for (int i = 0; i < N_RIVALS; i++) {
        rivals[i] = fork();
        assert_true(rivals[i] >= 0);
        if (rivals[i] > 0)
            continue;
        const struct pst_service_options options = {.struct_size = sizeof options,
                                                    .socket = fixture.socket,
                                                    .cache_nbytes = (uint64_t)64 << 20,
                                                    .n_threads = 2,
                                                    .keep = true};
        pst_service *mine;
        struct pst_error err;
        if (pst_service_open(&options, &mine, &err) != PST_OK)
            _exit(err.status == PST_ERROR_BUSY ? 7 : 8);
        _exit(pst_service_run(mine, NULL) != PST_OK);
    }
    for (int n_lost = 0; n_lost < N_RIVALS - 1; n_lost++) {
        int result;
        pid_t loser = waitpid(-1, &result, 0);
        assert_true(WIFEXITED(result));
        assert_int_equal(WEXITSTATUS(result), 7);
        for (int i = 0; i < N_RIVALS; i++)
            if (rivals[i] == loser)
                rivals[i] = 0;
    }
    for (int i = 0; i < N_RIVALS; i++)
        winner = rivals[i] ? rivals[i] : winner;
    return winner;
}

/* The service is killed within an epoch. Another one takes over its socket and lock, and is found
 * in the next epoch. */
static void a_stale_socket_is_taken_over(void **state)
{
    (void)state;
    if (TEST_SANITIZED) {
        puts("sanitizers do not stand a fork beside threads");
        skip();
    }
    service = serve_fixture_fork(&fixture, NULL);
    serve_honest_join(&honest);
    for (unsigned round = 0; round < n_rounds; round++) {
        at = test_below(&chance, (uint32_t)honest.n_batches);
        serve_honest_run(&honest, kill_service, NULL);
        assert_int_equal(access(fixture.socket, F_OK), 0);
        service = race_for_place();
        await_names(); /* the losers end as soon as it has the lock, which is before it serves */
        uint64_t n_fell_back = stats_of(honest.cached).fallbacks[PST_FALLBACK_HOST];
        at = SIZE_MAX;
        serve_honest_run(&honest, kill_service, NULL);
        assert_int_equal(stats_of(honest.cached).fallbacks[PST_FALLBACK_HOST], n_fell_back);
        assert_true(stats_of(honest.shared).is_sharing);
    }
    serve_honest_leave(&honest);
    serve_fixture_await_no_sessions(&fixture);
    serve_fixture_kill(service, SIGKILL);
    serve_fixture_check_files(&fixture, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest removed[] = {cmocka_unit_test(a_removed_socket_harms_no_session)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_users_harm_nobody),
        cmocka_unit_test(other_versions_harm_nobody),
        cmocka_unit_test(a_paused_service_is_waited_for),
        cmocka_unit_test(a_stale_socket_is_taken_over),
    };
    const char *what = argc > 1 ? argv[1] : "";
    bool is_long = strcmp(what, "long") == 0, is_removed = strcmp(what, "long-removed") == 0;
    int n_failed = 0;
    if (is_long || is_removed)
        n_rounds = 200;
    alarm(is_long || is_removed ? 1500 : 200);
    if (!is_long) /* each round waits up to a second until the service has made its socket again */
        n_failed += cmocka_run_group_tests(removed, set_up, tear_down);
    if (!is_removed)
        n_failed += cmocka_run_group_tests(tests, set_up, tear_down);
    return n_failed;
}
