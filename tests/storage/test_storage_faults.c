/* The n-th read, allocation or thread start fails: an error is returned, no read is lost and
 * nothing leaks. */
#include "storage_test.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <penstock/penstock.h>

#include <errno.h>

#ifdef PST_FAULTS
#define DATA_NBYTES ((size_t)300000)

static unsigned char *data;

static uint64_t live_nbytes(void)
{
    struct pst_memory_stats stats;
    pst_memory_stats(&stats, sizeof stats);
    return stats.live_nbytes;
}

/* Reads by file and by path, each submitted and direct. Returns how many failed, all with EIO. */
static int read_four_ways(struct psti_storage *storage, struct psti_file *file)
{
    int n_failed = 0;
    void *buffer = read_buffer(storage, DATA_NBYTES);
    for (int i = 0; i < 4; i++) {
        struct psti_read read = {.nbytes = DATA_NBYTES, .buffer = buffer};
        if (i & 1)
            read.file = file;
        else
            read.path = test_path("data");
        if (i & 2)
            submit_and_wait(storage, &read);
        else
            (void)psti_storage_read(storage, &read);
        if (read.status == PST_OK) {
            assert_memory_equal(read.data, data, DATA_NBYTES);
            continue;
        }
        n_failed++;
        assert_int_equal(read.status, PST_ERROR_IO);
        assert_int_equal(read.error.os_error, EIO);
        assert_string_equal(read.error.file, test_path("data"));
        assert_int_equal(read.error.offset, 0);
    }
    psti_free(buffer);
    return n_failed;
}

static void nth_read_fails(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    size_t n_fds = count_entries("/proc/self/fd");
    uint64_t n = 1;
    for (;; n++) {
        psti_fault_arm(PSTI_FAULT_READ, n, false);
        int n_failed = read_four_ways(storage, file);
        uint64_t count = psti_fault_count(PSTI_FAULT_READ);
        psti_fault_arm(PSTI_FAULT_READ, 0, false);
        assert_int_equal(count_entries("/proc/self/fd"), n_fds);
        assert_int_equal(n_failed, count >= n ? 1 : 0);
        if (count < n)
            break;
    }
    assert_true(n > 4); /* each of the four reads failed at least once */
    psti_fault_arm(PSTI_FAULT_READ, 1, true);
    assert_int_equal(read_four_ways(storage, file), 4);
    psti_fault_arm(PSTI_FAULT_READ, 0, false);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

static void loading_fails(void **state)
{
    (void)state;
    if (engine.kind != PST_STORAGE_MEMORY)
        skip();
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = NULL;
    psti_fault_arm(PSTI_FAULT_READ, 1, false);
    enum pst_status status = psti_storage_file_open(storage, test_path("data"), &file, &err);
    psti_fault_arm(PSTI_FAULT_READ, 0, false);
    assert_int_equal(status, PST_ERROR_IO);
    assert_null(file);
    assert_string_equal(err.file, test_path("data"));
    struct psti_storage_stats stats;
    psti_storage_stats(storage, &stats);
    assert_int_equal(stats.memory_nbytes, 0);
    psti_storage_close(&storage);
}

/* Opens and reads everything that it can, and tolerates any failure. */
static enum pst_status open_and_read(struct pst_error *err)
{
    struct psti_storage_options options = engine_options();
    options.latency_seconds = 1e-6; /* opens with the throttle and its thread */
    options.gap_nbytes = 4096;      /* opens with the memory for merged reads */
    struct psti_storage *storage = NULL;
    struct psti_file *file = NULL;
    enum pst_status status = psti_storage_open(&options, &storage, err);
    if (status == PST_OK)
        status = psti_storage_file_open(storage, test_path("data"), &file, err);
    if (status == PST_OK) {
        static _Alignas(4096) unsigned char buffer[2 * 4096];
        struct psti_read read = {.file = file, .nbytes = 4096, .buffer = buffer};
        submit_and_wait(storage, &read);
        status = read.status;
        assert_memory_equal(read.data, data, 4096);
    }
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
    return status;
}

/* Lets call 1, 2, ... of `kind` fail until everything succeeds. At least `n_least` calls must have
 * failed. */
static void fail_one_after_the_other(enum psti_fault_kind kind, enum pst_status expected,
                                     uint64_t n_least)
{
    uint64_t before = live_nbytes();
    size_t n_fds = count_entries("/proc/self/fd"), n_tasks = count_entries("/proc/self/task");
    uint64_t n = 1;
    for (;; n++) {
        struct pst_error err;
        psti_fault_arm(kind, n, false);
        enum pst_status status = open_and_read(&err);
        uint64_t count = psti_fault_count(kind);
        psti_fault_arm(kind, 0, false);
        assert_int_equal(live_nbytes(), before);
        assert_int_equal(count_entries("/proc/self/fd"), n_fds);
        assert_true(tasks_settle(n_tasks));
        if (count < n) {
            assert_ok(status);
            break;
        }
        assert_int_equal(status, expected);
        assert_int_equal(err.status, expected);
    }
    assert_true(n > n_least);
}

static void nth_allocation_fails(void **state)
{
    (void)state;
    fail_one_after_the_other(PSTI_FAULT_ALLOC, PST_ERROR_MEMORY, 4);
}

static void nth_thread_fails(void **state)
{
    (void)state;
    bool with_pace = engine.n_threads > 0;
    fail_one_after_the_other(PSTI_FAULT_THREAD, PST_ERROR_LIMIT,
                             engine.n_threads + (with_pace ? 1 : 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_read_fails),
        cmocka_unit_test(loading_fails),
        cmocka_unit_test(nth_allocation_fails),
        cmocka_unit_test(nth_thread_fails),
    };
    test_directory_make();
    data = random_bytes(2, DATA_NBYTES);
    write_file(test_path("data"), data, DATA_NBYTES);
    int n_failed = run_on_every_engine("faults", tests, sizeof tests / sizeof tests[0]);
    free(data);
    test_directory_remove();
    return n_failed;
}
#else
int main(void) { return 77; /* skipped: this build cannot make calls fail */ }
#endif
