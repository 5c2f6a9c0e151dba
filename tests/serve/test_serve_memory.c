/* test_serve_memory.c - shared memory is full: from random moments on the service cannot
 * allocate any more, and later it can again. Batches stay bit-identical, and items that found no
 * memory are cached and shared once there is some. Also, an allocation of the service fails, or
 * its control group is full: jobs go on. With the argument "long": 200 rounds, and each
 * allocation.
 *
 * The limit is RLIMIT_FSIZE of the service's process, which applies to memfds as to files. */
#include "base/test_input.h"
#include "serve/serve_honest.h"

#include "base/clock.h"
#include "base/fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 480, MIB = 1 << 20 };

#define MINUTE ((int64_t)60 * 1000 * 1000 * 1000)

static struct augmented kept_of_job;
static unsigned n_rounds = 4;
static struct serve_honest honest;
static struct test_random chance = {.seed = 31};

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

/* Opens a loader while the service has no memory: the loader is told so or runs without the
 * service. It never hangs. */
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

/* Starts a service whose n-th allocation from now on fails. */
static pid_t fork_failing(uint64_t n)
{
    const struct pst_service_options options = {.struct_size = sizeof options,
                                                .socket = fixture.socket,
                                                .cache_nbytes = (uint64_t)64 << 20,
                                                .n_threads = 2,
                                                .keep = true};
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pst_service *service;
        if (pst_service_open(&options, &service, NULL) != PST_OK)
            _exit(1);
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        (void)!write(ready[1], "", 1);
        _exit(pst_service_run(service, NULL) != PST_OK);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* One allocation of the service fails. Whatever it was for, the jobs get their batches. */
static void a_failed_allocation_stops_nobody(void **state)
{
    (void)state;
    unsigned step = n_rounds < 200 ? 37 : 1;
    for (uint64_t n = 1; n < 600; n += step) {
        struct pst_loader_options options = augmented_options(&kept_of_job, 32, 32);
        struct pst_error err;
        pst_loader *loader;
        pst_batch *batch;
        size_t n_batches = 0;
        pid_t service = fork_failing(n);
        options.n_fields = 1;
        options.storage = SERVE_STORAGE;
        options.socket = fixture.socket;
        options.share = "failing";
        assert_ok(pst_loader_open(honest.dataset, &options, &loader, &err));
        assert_ok(pst_loader_begin(loader, 0, &err));
        enum pst_status status;
        while ((status = pst_loader_next_timed(loader, MINUTE / 2, &batch, &err)) == PST_OK) {
            pst_batch_release(batch);
            n_batches++;
        }
        assert_int_equal(status, PST_END);
        assert_int_equal(n_batches, N / options.batch_size);
        pst_loader_close(&loader);
        assert_int_equal(waitpid(service, NULL, WNOHANG), 0); /* it lives */
        serve_fixture_kill(service, SIGKILL);
    }
}

/* A memory control group below those of this machine. */
struct group {
    char path[128];
    const char *limit, *usage; /* names of the group's files for limit and use */
};

static bool write_to(const struct group *group, const char *name, uint64_t value)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", group->path, name);
    FILE *file = fopen(path, "we");
    bool good = file && fprintf(file, "%llu", (unsigned long long)value) > 0;
    return file && fclose(file) == 0 && good;
}

/* Makes a control group. Returns false if this process may not. */
static bool make_group(struct group *group)
{
    static const struct {
        const char *root, *limit, *usage;
    } kinds[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
                 {"/sys/fs/cgroup", "memory.max", "memory.current"}};
    for (size_t i = 0; i < 2; i++) {
        snprintf(group->path, sizeof group->path, "%s/pst-test-%ld", kinds[i].root, (long)getpid());
        group->limit = kinds[i].limit;
        group->usage = kinds[i].usage;
        if (mkdir(group->path, 0755) != 0)
            continue;
        if (write_to(group, group->limit, (uint64_t)256 * MIB))
            return true;
        rmdir(group->path);
    }
    return false;
}

static uint64_t usage_of(const struct group *group)
{
    char path[192];
    unsigned long long nbytes = 0;
    snprintf(path, sizeof path, "%s/%s", group->path, group->usage);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &nbytes), 1);
    fclose(file);
    return nbytes;
}

/* Sets the limit to the present use. The kernel then kills the service. */
static void shrink(void *ctx, size_t i)
{
    const struct group *group = ctx;
    if (i == 3)
        (void)write_to(group, group->limit, usage_of(group) + 16384);
}

/* The control group of the service has no memory left. Whatever the system does to the service, the
 * loaders go on. */
static void a_full_control_group_costs_speed_only(void **state)
{
    struct group group;
    (void)state;
    if (!make_group(&group)) {
        print_message("no control group of memory can be made here\n");
        return;
    }
    for (unsigned round = 0; round < n_rounds / 2; round++) {
        assert_true(write_to(&group, group.limit, (uint64_t)256 * MIB));
        pid_t service = serve_fixture_fork(&fixture, NULL);
        assert_true(write_to(&group, "cgroup.procs", (uint64_t)service));
        serve_honest_join(&honest);
        serve_honest_run(&honest, shrink, &group);
        serve_honest_run(&honest, NULL, NULL);
        serve_honest_leave(&honest);
        serve_fixture_kill(service, SIGKILL);
    }
    int64_t deadline = psti_clock_ns() + MINUTE;
    while (rmdir(group.path) != 0 && psti_clock_ns() < deadline)
        psti_clock_sleep_until(psti_clock_ns() + MINUTE / 6000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(full_memory_costs_speed_only),
                                       cmocka_unit_test(a_failed_allocation_stops_nobody),
                                       cmocka_unit_test(a_full_control_group_costs_speed_only)};
    bool is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    if (is_long)
        n_rounds = 200;
    alarm(is_long ? 1500 : 120);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
