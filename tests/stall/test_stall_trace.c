/* test_stall_trace.c - is a trace file complete whatever happens: several threads, a killed
 * process, two writers, too many events? python/tests/test_meter.py parses what a loader writes. */
#include "stall/stall_trace.h"
#include "test.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/pst-trace-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command);
}

static char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 24);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 24) - 1, file);
    assert_true(n > 0);
    fclose(file);
    return text;
}

/* Counts lines, each of which is an event. All but the first, and the last two if the array was
 * ended, end with "},". */
static unsigned count_events(const char *text, bool ended)
{
    unsigned n = 0;
    assert_memory_equal(text, "[\n", 2);
    const char *at = text + 2, *end;
    for (; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        if (strcmp(at, "]\n") == 0)
            return n;
        bool last = ended && strcmp(end, "\n]\n") == 0;
        assert_int_equal(at[0], '{');
        assert_memory_equal(end - (last ? 1 : 2), last ? "}" : "},", last ? 1 : 2);
        n++;
    }
    assert_int_equal(*at, 0); /* the text has no incomplete last line */
    assert_false(ended);
    return n;
}

#define N_THREADS 4
#define N_SPANS 3000

static void *write_spans(void *arg)
{
    struct psti_trace *trace = arg;
    for (uint64_t i = 0; i < N_SPANS; i++) {
        int64_t now = psti_clock_ns();
        psti_stall_trace_span(trace, 1, "row", now, now + 1000, i, i / 8);
    }
    return NULL;
}

static void threads_write_whole_events(void **state)
{
    struct psti_trace *trace;
    struct pst_error err;
    pthread_t threads[N_THREADS];
    (void)state;
    assert_ok(psti_stall_trace_open(path_of("threads.json"), NULL, &trace, &err));
    assert_string_equal(psti_stall_trace_path(trace), path_of("threads.json"));
    psti_stall_trace_thread(trace, 1, "worker");
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_spans, trace), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    psti_stall_trace_overlapping(trace, "read", true, 5, 7);
    psti_stall_trace_overlapping(trace, "read", false, 9, 7);
    psti_stall_trace_counter(trace, "rows ready", 9, 3);
    psti_stall_trace_close(&trace);
    assert_null(trace);
    psti_stall_trace_close(&trace);
    char *text = text_of(path_of("threads.json"));
    assert_int_equal(count_events(text, true), N_THREADS * N_SPANS + 5);
    free(text);
}

static void a_killed_process_leaves_whole_events(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct psti_trace *trace;
        if (psti_stall_trace_open(path_of("killed-%p.json"), NULL, &trace, NULL) != PST_OK)
            _exit(1);
        write_spans(trace);
        raise(SIGKILL);
    }
    int status;
    char name[64];
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    snprintf(name, sizeof name, "killed-%d.json", (int)child);
    char *text = text_of(path_of(name));
    unsigned n = count_events(text, false);
    assert_true(n >= 2048 && n < N_SPANS); /* only events still in the buffer are lost */
    free(text);
}

static void two_writers_have_two_files(void **state)
{
    struct psti_trace *first, *second, *third;
    struct pst_error err;
    (void)state;
    assert_ok(psti_stall_trace_open(path_of("two.json"), NULL, &first, &err));
    assert_ok(psti_stall_trace_open(path_of("two.json"), NULL, &second, &err));
    assert_string_equal(psti_stall_trace_path(second), path_of("two.json.2"));
    psti_stall_trace_close(&first);
    assert_ok(psti_stall_trace_open(path_of("two.json"), NULL, &third, &err)); /* free again */
    assert_string_equal(psti_stall_trace_path(third), path_of("two.json"));
    psti_stall_trace_close(&second);
    psti_stall_trace_close(&third);
}

static void errors_name_the_path(void **state)
{
    struct psti_trace *trace;
    struct pst_error err;
    (void)state;
    assert_int_equal(psti_stall_trace_open("/no/such/folder/t.json", NULL, &trace, &err),
                     PST_ERROR_NOT_FOUND);
    assert_non_null(strstr(err.file, "/no/such/folder/t.json"));
    assert_null(trace);
    assert_int_equal(psti_stall_trace_open(NULL, "/no/such/library.so", &trace, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "PENSTOCK_NVTX"));
    assert_ok(psti_stall_trace_open("", "0", &trace, &err));
    assert_null(trace);
    assert_string_equal(psti_stall_trace_path(trace), "");
}

/* Ranges are passed to the profiler's library, without a trace file. */
static void ranges_for_profilers(void **state)
{
    struct psti_trace *trace;
    struct pst_error err;
    (void)state;
    assert_ok(psti_stall_trace_open(NULL, PST_FAKE_NVTX, &trace, &err));
    void *handle = dlopen(PST_FAKE_NVTX, RTLD_NOW);
    assert_non_null(handle);
    int (*depth)(void), (*pushes)(void);
    *(void **)(&depth) = dlsym(handle, "fake_nvtx_depth");
    *(void **)(&pushes) = dlsym(handle, "fake_nvtx_pushes");
    psti_stall_trace_push(trace, "row");
    psti_stall_trace_push(trace, "decode");
    assert_int_equal(depth(), 2);
    psti_stall_trace_pop(trace);
    psti_stall_trace_pop(trace);
    assert_int_equal(depth(), 0);
    assert_int_equal(pushes(), 2);
    psti_stall_trace_span(trace, 1, "row", 1, 2, 3, 4); /* there is no file, so nothing happens */
    psti_stall_trace_close(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_write_whole_events),
        cmocka_unit_test(a_killed_process_leaves_whole_events),
        cmocka_unit_test(two_writers_have_two_files),
        cmocka_unit_test(errors_name_the_path),
        cmocka_unit_test(ranges_for_profilers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
