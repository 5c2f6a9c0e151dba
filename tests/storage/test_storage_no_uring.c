/* Runs programs in a process that may not use io_uring, as in most containers: a seccomp filter
 * forbids it. The first argument is the forbidden system call, the second a program that should be
 * skipped. */
#include "storage_test.h"

#include "base/alloc.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char *data;

static bool forbid(unsigned number, unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void auto_takes_threads_and_says_why(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage_options options = {.kind = PST_STORAGE_AUTO, .n_threads = 2, .depth = 4};
    struct psti_storage *storage = NULL;
    size_t n_fds = count_entries("/proc/self/fd");
    assert_ok(psti_storage_open(&options, &storage, &err));
    assert_int_equal(psti_storage_kind_in_use(storage), PST_STORAGE_THREADS);
    print_message("reason: %s\n", psti_storage_reason(storage));
    assert_true(psti_storage_reason(storage)[0] != '\0');
    void *buffer = read_buffer(storage, 5000);
    struct psti_read read = {.path = test_path("data"), .nbytes = 5000, .buffer = buffer};
    submit_and_wait(storage, &read);
    assert_int_equal(read.status, PST_OK);
    assert_memory_equal(read.data, data, 5000);
    psti_free(buffer);
    psti_storage_close(&storage);
    assert_int_equal(count_entries("/proc/self/fd"), n_fds);
}

static void uring_is_an_error(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage_options options = {.kind = PST_STORAGE_URING, .n_threads = 2, .depth = 4};
    struct psti_storage *storage = (void *)&err;
    size_t n_fds = count_entries("/proc/self/fd");
    assert_int_equal(psti_storage_open(&options, &storage, &err), PST_ERROR_UNSUPPORTED);
    assert_null(storage);
    assert_true(err.text[0] != '\0');
    assert_int_equal(count_entries("/proc/self/fd"), n_fds);
}

/* Checks that a program that tests only io_uring ends with 77 ("skipped") if io_uring is
 * forbidden. */
static int expect_skipped(char *program)
{
    int status = 0;
    setenv("PST_TEST_ENGINES", "uring", 1);
    pid_t child = fork();
    if (child == 0) {
        execv(program, (char *[]){program, NULL});
        _exit(1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                   WEXITSTATUS(status) == 77
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "setup";
    bool forbidden = strcmp(what, "enter") == 0      ? forbid(SYS_io_uring_enter, EPERM)
                     : strcmp(what, "register") == 0 ? forbid(SYS_io_uring_register, EPERM)
                     : strcmp(what, "nosys") == 0    ? forbid(SYS_io_uring_setup, ENOSYS)
                                                     : forbid(SYS_io_uring_setup, EPERM);
    if (!forbidden) {
        printf("the kernel has no seccomp filters\n");
        return 77;
    }
    if (argc > 2)
        return expect_skipped(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_takes_threads_and_says_why),
        cmocka_unit_test(uring_is_an_error),
    };
    test_directory_make();
    data = random_bytes(6, 5000);
    write_file(test_path("data"), data, 5000);
    int n_failed = cmocka_run_group_tests_name("no io_uring", tests, NULL, NULL);
    free(data);
    test_directory_remove();
    return n_failed;
}
