/* test_serve_memory.c - shared memory is full: the service cannot claim any more from random
 * instants on, and can again later. Loaders go on, to the bit; what found no memory is kept, and
 * shared, when there is some. "long" as an argument: 200 rounds.
 *
 * The limit is RLIMIT_FSIZE of the service's process, which holds for memfds as for files. */
#include "base/test_input.h"
#include "serve/serve_honest.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 480, MIB = 1 << 20 };

static unsigned n_rounds = 4;
static char directory[64];
static struct serve_fixture fixture;
static struct serve_honest honest;
static struct test_random chance = {.seed = 31};

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    serve_honest_open(&honest, &fixture, directory, N);
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

static void limit(pid_t service, rlim_t nbytes)
{
    struct rlimit now;
    assert_int_equal(prlimit(service, RLIMIT_FSIZE, NULL, &now), 0);
    now.rlim_cur = nbytes;
    assert_int_equal(prlimit(service, RLIMIT_FSIZE, &now, NULL), 0);
}

struct plan {
    pid_t service;
    size_t full_from, full_to; /* batches */
    rlim_t nbytes;
};

static void follow(void *ctx, size_t i)
{
    const struct plan *plan = ctx;
    if (i == plan->full_from)
        limit(plan->service, plan->nbytes);
    if (i == plan->full_to)
        limit(plan->service, RLIM_INFINITY);
}

/* A loader that comes when there is no memory is told, or goes by itself. It never hangs. */
static void try_to_join(void)
{
    static struct augmented kept;
    struct pst_loader_options options = augmented_options(&kept, 32, 32);
    struct pst_error err;
    pst_loader *loader;
    options.n_fields = 1;
    options.storage = SERVE_STORAGE;
    options.socket = fixture.socket;
    options.share = "late";
    assert_ok(pst_loader_open(honest.dataset, &options, &loader, &err));
    assert_ok(pst_loader_begin(loader, 0, &err));
    pst_batch *batch;
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_release(batch);
    pst_loader_close(&loader);
}

static void full_memory_costs_speed_only(void **state)
{
    (void)state;
    for (unsigned round = 0; round < n_rounds; round++) {
        struct plan plan = {.service = serve_fixture_fork(&fixture, NULL)};
        plan.full_from = test_below(&chance, (uint32_t)honest.n_batches);
        plan.full_to = plan.full_from + test_below(&chance, (uint32_t)honest.n_batches);
        plan.nbytes = test_below(&chance, 3) ? test_below(&chance, 3 * MIB) : 0;
        serve_honest_join(&honest);
        serve_honest_run(&honest, follow, &plan);
        limit(plan.service, 0);
        try_to_join();
        limit(plan.service, RLIM_INFINITY);
        serve_honest_run(&honest, NULL, NULL);
        uint64_t n_shared = stats_of(honest.shared).n_shared;
        serve_honest_run(&honest, NULL, NULL);
        assert_int_equal(stats_of(honest.cached).n_cache_items, N);
        assert_int_equal(stats_of(honest.cached).fallbacks[PST_FALLBACK_HOST], 0);
        assert_int_equal(stats_of(honest.shared).n_shared - n_shared, honest.n_batches);
        serve_honest_leave(&honest);
        serve_fixture_await_no_sessions(&fixture);
        assert_int_equal(waitpid(plan.service, NULL, WNOHANG), 0); /* it lives */
        serve_fixture_kill(plan.service, SIGKILL);
    }
    serve_fixture_check_files(&fixture, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(full_memory_costs_speed_only)};
    bool is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    if (is_long)
        n_rounds = 200;
    alarm(is_long ? 1500 : 120);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
