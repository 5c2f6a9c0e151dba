/* test_serve_numa.c - a service on a NUMA node, with a directory tree that replaces /sys: where its
 * threads run, what its status says, and that the thread that opened it keeps its cores. */
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include "base/tree_fixture.h"

#include "serve/serve.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static cpu_set_t allowed;
static int first_core;

static int set_up(void **state)
{
    char core[16];
    assert_int_equal(tree_set_up(state), 0);
    serve_fixture_place(&fixture);
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(first_core, &allowed))
        first_core++;
    snprintf(core, sizeof core, "%d\n", first_core);
    put("/sys/devices/system/node/node0/cpulist", core);
    put("/sys/devices/system/node/node1/cpulist", "0-1023\n");
    return unsetenv("PENSTOCK_NUM_THREADS");
}

static int tear_down(void **state)
{
    serve_fixture_clear(&fixture);
    return tree_tear_down(state);
}

static struct pst_service_options options_of(const char *numa)
{
    return (struct pst_service_options){.struct_size = sizeof(struct pst_service_options),
                                        .socket = fixture.socket,
                                        .cache_nbytes = (uint64_t)1 << 20,
                                        .keep = true,
                                        .numa = numa};
}

static void *run(void *service) { return (void *)(uintptr_t)pst_service_run(service, NULL); }

/* Finds the cores of all threads of that name, which must be the same for all. Returns the number
 * of threads. */
static unsigned cores_of_threads(const char *name, cpu_set_t *cores)
{
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[320], text[64] = "";
        cpu_set_t found;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        bool is_one =
            file && fgets(text, sizeof text, file) && strncmp(text, name, strlen(name)) == 0;
        if (file)
            fclose(file);
        if (!is_one ||
            sched_getaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof found, &found) != 0)
            continue;
        assert_true(n == 0 || CPU_EQUAL(&found, cores));
        *cores = found;
        n++;
    }
    closedir(tasks);
    return n;
}

static void threads_run_on_the_node(void **state)
{
    struct pst_service_options options = options_of("0");
    struct pst_service_status status;
    pst_service_report *report;
    pst_service *service;
    struct pst_error err;
    cpu_set_t cores;
    pthread_t thread;
    (void)state;
    assert_ok(psti_serve_open_below(root, &options, &service, &err));
    assert_int_equal(sched_getaffinity(0, sizeof cores, &cores), 0);
    assert_true(CPU_EQUAL(&cores, &allowed));
    assert_int_equal(pthread_create(&thread, NULL, run, service), 0);
    assert_int_equal(pthread_setname_np(thread, "loop-of-test"), 0);
    /* the status proves that the loop runs */
    assert_ok(pst_service_report_open(fixture.socket, &report, &err));
    pst_service_report_status(report, &status, sizeof status);
    pst_service_report_close(&report);
    assert_int_equal(status.numa_node, 0);
    assert_int_equal(status.n_threads, 1);                      /* the node has one core */
    assert_int_equal(cores_of_threads("pst-serve", &cores), 2); /* one more */
    assert_int_equal(CPU_COUNT(&cores), 1);
    assert_true(CPU_ISSET(first_core, &cores));
    assert_int_equal(cores_of_threads("loop-of-test", &cores), 1);
    assert_int_equal(CPU_COUNT(&cores), 1);
    pst_service_stop(service);
    pthread_join(thread, NULL);
    pst_service_close(&service);
}

static void other_choices_change_nothing(void **state)
{
    static const char *const choices[] = {NULL, "none", "auto"};
    pst_service *service;
    struct pst_error err;
    cpu_set_t cores;
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct pst_service_options options = options_of(choices[i]);
        assert_ok(psti_serve_open_below(root, &options, &service, &err));
        assert_true(cores_of_threads("pst-serve", &cores) >= 1);
        assert_true(CPU_EQUAL(&cores, &allowed));
        pst_service_close(&service);
    }
    struct pst_service_options options = options_of("5");
    assert_int_equal(psti_serve_open_below(root, &options, &service, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "NUMA node 5"));
    assert_null(service);
    options.numa = "left";
    assert_int_equal(pst_service_open(&options, &service, &err), PST_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_run_on_the_node),
        cmocka_unit_test(other_choices_change_nothing),
    };
    alarm(120);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
