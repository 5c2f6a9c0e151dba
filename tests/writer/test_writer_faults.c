/* test_writer_faults.c - the disk is full at every single write, memory is lacking at every single
 * allocation, and the disk fills up within a write. Afterwards the data set is absent, resumable or
 * complete, and in the end it is always the same. */
#include "writer/writer_fixture.h"

#include "base/fault.h"

#ifdef PST_FAULTS

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_FIRST = 24, N_SECOND = 40 };

/* Checks what a reader finds between two tries: nothing, an unfinished data set, or an earlier
 * finished one. */
static void check_between(const char *path, uint64_t n_before)
{
    struct pst_error err = {0};
    struct stat st;
    pst_dataset *ds;
    char index[600];
    snprintf(index, sizeof index, "%s/index.pst", path);
    if (stat(index, &st) != 0 && n_before == 0) {
        enum pst_status status = pst_dataset_open(path, NULL, &ds, &err);
        pst_dataset_close(&ds);
        char journal[600];
        snprintf(journal, sizeof journal, "%s/journal.pst", path);
        if (stat(journal, &st) == 0)
            assert_int_equal(status, PST_ERROR_INCOMPLETE);
        return;
    }
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    uint64_t n = pst_dataset_count(ds);
    assert_true(n == n_before || n == N_FIRST || n == N_SECOND);
    fixture_check_open(ds, n);
    pst_dataset_close(&ds);
}

static void disk_full_at_every_write(void **state)
{
    (void)state;
    struct pst_error err = {0};
    char *directory = fixture_directory(), path[512];
    snprintf(path, sizeof path, "%s/set", directory);
    for (int append = 0; append < 2; append++) {
        bool done = false;
        for (uint64_t n = 1; !done; n++) {
            fixture_empty(directory);
            if (append)
                assert_ok(fixture_live(path, PST_WRITER_CREATE, N_FIRST, &err));
            psti_fault_arm(PSTI_FAULT_WRITE, n, true);
            enum pst_status status =
                fixture_live(path, append ? PST_WRITER_APPEND : PST_WRITER_CREATE,
                             append ? N_SECOND : N_FIRST, &err);
            psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
            done = status == PST_OK;
            if (!done)
                assert_true(status == PST_ERROR_NO_SPACE || status == PST_ERROR_IO);
            assert_true(done || strcmp(err.dataset, path) == 0);
            check_between(path, append ? N_FIRST : 0);
            assert_ok(fixture_live(path, PST_WRITER_RESUME, append ? N_SECOND : N_FIRST, &err));
            fixture_check(path, append ? N_SECOND : N_FIRST);
            assert_true(n < 1000);
        }
    }
    fixture_remove(directory);
}

/* One operation fails once, and the same writer goes on as far as it may. No sample may be lost
 * without an error. */
static void one_failed_write_is_never_forgotten(void **state)
{
    (void)state;
    struct pst_error err = {0};
    char *directory = fixture_directory(), path[512];
    snprintf(path, sizeof path, "%s/set", directory);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        fixture_empty(directory);
        psti_fault_arm(PSTI_FAULT_WRITE, n, false);
        enum pst_status status = fixture_live(path, PST_WRITER_CREATE, N_FIRST, &err);
        done = psti_fault_count(PSTI_FAULT_WRITE) < n;
        psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
        assert_int_equal(status == PST_OK, done);
        check_between(path, 0);
        assert_ok(fixture_live(path, PST_WRITER_RESUME, N_FIRST, &err));
        fixture_check(path, N_FIRST);
    }
    fixture_remove(directory);
}

static void no_memory_at_every_allocation(void **state)
{
    (void)state;
    struct pst_error err = {0};
    char *directory = fixture_directory(), path[512];
    snprintf(path, sizeof path, "%s/set", directory);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        fixture_empty(directory);
        psti_fault_arm(PSTI_FAULT_ALLOC, n, true);
        enum pst_status status = fixture_live(path, PST_WRITER_CREATE, N_FIRST, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        done = status == PST_OK;
        assert_true(done || status == PST_ERROR_MEMORY);
        check_between(path, 0);
        assert_ok(fixture_live(path, PST_WRITER_RESUME, N_FIRST, &err));
        fixture_check(path, N_FIRST);
        assert_true(n < 1000);
    }
    done = false;
    for (uint64_t n = 1; !done; n++) {
        pst_dataset *ds;
        psti_fault_arm(PSTI_FAULT_ALLOC, n, true);
        enum pst_status status = pst_dataset_open(path, NULL, &ds, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        done = status == PST_OK;
        assert_true(done || (status == PST_ERROR_MEMORY && ds == NULL));
        pst_dataset_close(&ds);
    }
    fixture_remove(directory);
}

static void a_failed_read_while_resuming(void **state)
{
    (void)state;
    struct pst_error err = {0};
    char *directory = fixture_directory(), path[512];
    snprintf(path, sizeof path, "%s/set", directory);
    struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    pst_writer *writer;
    assert_ok(pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    for (uint64_t i = 0; i < 10; i++)
        assert_ok(fixture_add(writer, i, &err));
    pst_writer_close(&writer);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        psti_fault_arm(PSTI_FAULT_READ, n, false);
        enum pst_status status = fixture_live(path, PST_WRITER_RESUME, N_FIRST, &err);
        done = psti_fault_count(PSTI_FAULT_READ) < n;
        psti_fault_arm(PSTI_FAULT_READ, 0, false);
        assert_int_equal(status, done ? PST_OK : PST_ERROR_IO);
    }
    fixture_check(path, N_FIRST);
    fixture_remove(directory);
}

/* A file size limit of the kernel: writes are first cut short at it, then fail. */
static void files_that_must_not_grow(void **state)
{
    (void)state;
    struct pst_error err = {0};
    struct rlimit before, limit;
    char *directory = fixture_directory(), path[512];
    snprintf(path, sizeof path, "%s/set", directory);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (rlim_t most = 0; most < 40000; most += 1777) {
        fixture_empty(directory);
        limit = before;
        limit.rlim_cur = most;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        enum pst_status status = fixture_live(path, PST_WRITER_CREATE, N_FIRST, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_true(status == PST_OK || status == PST_ERROR_IO || status == PST_ERROR_NO_SPACE);
        check_between(path, 0);
        assert_ok(fixture_live(path, PST_WRITER_RESUME, N_FIRST, &err));
        fixture_check(path, N_FIRST);
    }
    fixture_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disk_full_at_every_write),
        cmocka_unit_test(one_failed_write_is_never_forgotten),
        cmocka_unit_test(no_memory_at_every_allocation),
        cmocka_unit_test(a_failed_read_while_resuming),
        cmocka_unit_test(files_that_must_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return 77; }
#endif
