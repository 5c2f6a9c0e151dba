/* test_writer_kill.c - the process ends at every system call that changes the disk, with and
 * without a loss of power.
 *
 * The linker wraps those calls (see CMakeLists.txt). In a forked child the n-th one ends the
 * process: before the call, or after half of a write. A loss of power also undoes writes that
 * were never synced: every file is cut to its length at its last fsync, or its unsynced part
 * becomes garbage of the same length. */
#include "writer/writer_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_FIRST = 14, N_SECOND = 22, N_FILES = 256, N_CLASSES = 5 };
static const char *const classes[N_CLASSES + 1] = {"ant", "b\xC3\xA4r", "cat",
                                                   "dog", "e",          "f\xC3\xBCr"};
enum power { POWER_STAYS, POWER_CUTS, POWER_GARBLES, N_POWERS };

static struct {
    bool armed;
    uint64_t left;
    enum power power;
    off_t synced[N_FILES]; /* synced length of each file, by descriptor */
    bool is_open[N_FILES];
} kill_plan;

ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __real_ftruncate(int fd, off_t n);
int __wrap_ftruncate(int fd, off_t n);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_openat(int dir, const char *name, int flags, ...);
int __wrap_openat(int dir, const char *name, int flags, ...);
int __real_close(int fd);
int __wrap_close(int fd);

static void end_process(void)
{
    for (int fd = 0; fd < N_FILES && kill_plan.power != POWER_STAYS; fd++) {
        struct stat st;
        if (!kill_plan.is_open[fd] || fstat(fd, &st) != 0 || st.st_size <= kill_plan.synced[fd])
            continue;
        if (kill_plan.power == POWER_CUTS) {
            if (__real_ftruncate(fd, kill_plan.synced[fd]) != 0)
                _exit(8);
        } else {
            for (off_t at = kill_plan.synced[fd]; at < st.st_size; at++)
                if (__real_pwrite(fd, "\xA5", 1, at) != 1)
                    _exit(8);
        }
    }
    _exit(9);
}

/* Returns true if the process must end at this call. */
static bool is_the_end(void) { return kill_plan.armed && kill_plan.left-- == 1; }

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    if (is_the_end()) {
        if (__real_pwrite(fd, bytes, n / 2, offset) < 0)
            _exit(8);
        end_process();
    }
    return __real_pwrite(fd, bytes, n, offset);
}

int __wrap_fsync(int fd)
{
    struct stat st;
    if (is_the_end())
        end_process();
    if (fd < N_FILES && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        kill_plan.synced[fd] = st.st_size;
    return __real_fsync(fd);
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    if (is_the_end())
        end_process();
    return __real_renameat(from_dir, from, to_dir, to);
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
    if (is_the_end())
        end_process();
    return __real_unlinkat(dir, name, flags);
}

int __wrap_ftruncate(int fd, off_t n)
{
    if (is_the_end())
        end_process();
    return __real_ftruncate(fd, n);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    if (is_the_end())
        end_process();
    return __real_mkdir(path, mode);
}

int __wrap_openat(int dir, const char *name, int flags, ...)
{
    if ((flags & O_CREAT) != 0 && is_the_end())
        end_process();
    int fd = __real_openat(dir, name, flags, 0666);
    struct stat st;
    if (fd >= 0 && fd < N_FILES && (flags & O_ACCMODE) == O_WRONLY && fstat(fd, &st) == 0) {
        kill_plan.is_open[fd] = true;
        /* bytes written by an earlier process count as durable */
        kill_plan.synced[fd] = st.st_size;
    }
    return fd;
}

/* A file that is closed without a sync keeps its length here, because the writer closes unsynced
 * files only when it gives up. */
int __wrap_close(int fd)
{
    if (fd >= 0 && fd < N_FILES)
        kill_plan.is_open[fd] = false;
    return __real_close(fd);
}

/* Runs fixture_live; an append also adds a class. */
static enum pst_status live(const char *path, enum pst_writer_mode mode, uint64_t end,
                            struct pst_error *err)
{
    struct pst_writer_options options = fixture_options(mode);
    struct pst_field fields[FIX_N_FIELDS];
    pst_writer *writer;
    if (mode != PST_WRITER_APPEND)
        return fixture_live(path, mode, end, err);
    memcpy(fields, fixture_fields, sizeof fields);
    fields[FIX_LABEL].n_classes = N_CLASSES + 1;
    enum pst_status status = pst_writer_open(path, fields, FIX_N_FIELDS, &options, &writer, err);
    if (status != PST_OK)
        return status;
    status = pst_writer_set_class_names(writer, FIX_LABEL, classes, N_CLASSES + 1, err);
    for (uint64_t i = pst_writer_count(writer); i < end && status == PST_OK; i++)
        status = fixture_add(writer, i, err);
    if (status == PST_OK)
        status = pst_writer_finish(writer, err);
    pst_writer_close(&writer);
    return status;
}

/* Runs a writer in a child process that ends at call n. Returns true if the writer finished. */
static bool live_and_die(const char *path, enum pst_writer_mode mode, uint64_t end, uint64_t n,
                         enum power power)
{
    struct pst_error err = {0};
    int exit_status;
    pid_t child = fork();
    if (child == 0) {
        kill_plan.armed = true;
        kill_plan.left = n;
        kill_plan.power = power;
        _exit(live(path, mode, end, &err) == PST_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    int code = WEXITSTATUS(exit_status);
    assert_true(code == 0 || code == 9);
    return code == 0;
}

static bool in(const char *path, const char *name)
{
    char full[700];
    snprintf(full, sizeof full, "%s/%s", path, name);
    return access(full, F_OK) == 0;
}

/* Checks that the data set is absent, resumable, or complete with exactly one of two lengths. Then
 * completes it in the appropriate mode. */
static void check_after(const char *path, uint64_t n_before, uint64_t end)
{
    struct pst_error err = {0};
    pst_dataset *ds;
    if (in(path, "index.pst")) {
        assert_ok(pst_dataset_open(path, NULL, &ds, &err));
        assert_true(pst_dataset_count(ds) == n_before || pst_dataset_count(ds) == end);
        fixture_check_open(ds, pst_dataset_count(ds));
        if (n_before > 0) /* the new class is there only together with the new samples */
            assert_int_equal(pst_dataset_field(ds, FIX_LABEL)->n_classes,
                             pst_dataset_count(ds) == end ? N_CLASSES + 1 : N_CLASSES);
        pst_dataset_close(&ds);
        assert_ok(live(path, PST_WRITER_APPEND, end, &err));
    } else if (in(path, "journal.pst")) {
        assert_int_equal(n_before, 0);
        assert_int_equal(pst_dataset_open(path, NULL, &ds, &err), PST_ERROR_INCOMPLETE);
        assert_int_equal(fixture_live(path, PST_WRITER_CREATE, end, &err), PST_ERROR_INCOMPLETE);
        assert_ok(fixture_live(path, PST_WRITER_RESUME, end, &err));
    } else {
        assert_int_equal(n_before, 0);
        assert_ok(fixture_live(path, PST_WRITER_CREATE, end, &err));
    }
    fixture_check(path, end);
    assert_false(in(path, "journal.pst"));
    if (n_before > 0) {
        assert_ok(pst_dataset_open(path, NULL, &ds, &err));
        assert_string_equal(pst_dataset_class_name(ds, FIX_LABEL, N_CLASSES), classes[N_CLASSES]);
        pst_dataset_close(&ds);
    }
}

static void run(enum power power)
{
    struct pst_error err = {0};
    char *directory = fixture_directory(), path[512];
    uint64_t total = 0;
    snprintf(path, sizeof path, "%s/set", directory);
    for (int append = 0; append < 2; append++) {
        bool done = false;
        for (uint64_t n = 1; !done; n++, total++) {
            fixture_empty(directory);
            if (append)
                assert_ok(fixture_live(path, PST_WRITER_CREATE, N_FIRST, &err));
            done = live_and_die(path, append ? PST_WRITER_APPEND : PST_WRITER_CREATE,
                                append ? N_SECOND : N_FIRST, n, power);
            check_after(path, append ? N_FIRST : 0, append ? N_SECOND : N_FIRST);
            assert_true(n < 1000);
        }
    }
    print_message("%u ends of the process\n", (unsigned)total);
    assert_true(total > 60);
    fixture_remove(directory);
}

static void killed(void **state)
{
    (void)state;
    run(POWER_STAYS);
}

static void power_cut(void **state)
{
    (void)state;
    run(POWER_CUTS);
}

static void power_cut_leaving_garbage(void **state)
{
    (void)state;
    run(POWER_GARBLES);
}

/* The resuming process ends too, each time one call later, until one process finishes. */
static void killed_while_resuming(void **state)
{
    (void)state;
    char *directory = fixture_directory(), path[512];
    snprintf(path, sizeof path, "%s/set", directory);
    for (int power = 0; power < N_POWERS; power++) {
        fixture_empty(directory);
        for (uint64_t n = 1; !live_and_die(path, PST_WRITER_RESUME, N_FIRST, n, (enum power)power);
             n++)
            assert_true(n < 1000);
        fixture_check(path, N_FIRST);
    }
    fixture_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed),
        cmocka_unit_test(power_cut),
        cmocka_unit_test(power_cut_leaving_garbage),
        cmocka_unit_test(killed_while_resuming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
