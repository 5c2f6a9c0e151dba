/* serve_fixture.c - starts and stops a host service for tests. */
#include "serve/serve_fixture.h"

#include "base/clock.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

struct serve_fixture fixture;

void serve_fixture_place(struct serve_fixture *f)
{
    memset(f, 0, sizeof *f);
    snprintf(f->directory, sizeof f->directory, "/tmp/pst-serve-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    assert_int_equal(chmod(f->directory, 0755), 0);
    snprintf(f->socket, sizeof f->socket, "%s/host.sock", f->directory);
}

static struct pst_service_options options_of(const struct serve_fixture *f,
                                             const struct pst_service_options *options)
{
    struct pst_service_options mine = {.struct_size = sizeof mine,
                                       .cache_nbytes = (uint64_t)64 << 20,
                                       .n_threads = 2,
                                       .keep = true};
    if (options)
        mine = *options;
    mine.socket = f->socket;
    return mine;
}

static void *run(void *arg)
{
    struct serve_fixture *f = arg;
    struct pst_error err;
    f->ended = pst_service_run(f->service, &err);
    if (f->ended != PST_OK)
        fprintf(stderr, "service: %s\n", err.text);
    return NULL;
}

void serve_fixture_start(struct serve_fixture *f, const struct pst_service_options *options)
{
    const struct pst_service_options mine = options_of(f, options);
    struct pst_error err;
    assert_ok(pst_service_open(&mine, &f->service, &err));
    assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
}

void serve_fixture_stop(struct serve_fixture *f)
{
    pst_service_stop(f->service);
    pthread_join(f->thread, NULL);
    pst_service_close(&f->service);
    assert_int_equal(f->ended, PST_OK);
    assert_true(access(f->socket, F_OK) != 0);
}

void serve_fixture_clear(struct serve_fixture *f)
{
    char path[512];
    DIR *directory = opendir(f->directory);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", f->directory, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    assert_int_equal(rmdir(f->directory), 0);
}

pid_t serve_fixture_fork(const struct serve_fixture *f,
                         const struct pst_service_options *options)
{
    const struct pst_service_options mine = options_of(f, options);
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pst_service *service;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the service ends if the test is killed */
        signal(SIGXFSZ, SIG_IGN);
        if (pst_service_open(&mine, &service, NULL) != PST_OK)
            _exit(1);
        (void)!write(ready[1], "", 1);
        _exit(pst_service_run(service, NULL) != PST_OK);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

void serve_fixture_kill(pid_t pid, int signal_number)
{
    assert_int_equal(kill(pid, signal_number), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Counts the names in a directory that begin with `start`. */
static unsigned count_names(const char *path, const char *start)
{
    unsigned n = 0;
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;)
        n += entry->d_name[0] != '.' && strncmp(entry->d_name, start, strlen(start)) == 0;
    if (directory)
        closedir(directory);
    return n;
}

unsigned serve_fixture_count_fds(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    return count_names(path, "");
}

struct pst_service_status serve_fixture_status(const struct serve_fixture *f)
{
    struct pst_service_status status;
    pst_service_report *report;
    struct pst_error err;
    assert_ok(pst_service_report_open(f->socket, &report, &err));
    pst_service_report_status(report, &status, sizeof status);
    pst_service_report_close(&report);
    return status;
}

void serve_fixture_await_no_sessions(const struct serve_fixture *f)
{
    int64_t deadline = psti_clock_ns() + (int64_t)60000000000;
    while (serve_fixture_status(f).n_sessions > 1 && psti_clock_ns() < deadline)
        psti_clock_sleep_until(psti_clock_ns() + 1000000);
    assert_int_equal(serve_fixture_status(f).n_sessions, 1);
}

void serve_fixture_check_files(const struct serve_fixture *f, unsigned n_more)
{
    assert_int_equal(count_names("/dev/shm", "penstock"), 0);
    assert_int_equal(count_names(f->directory, "host.sock"),
                     count_names(f->directory, "") - n_more);
}

int serve_fixture_connect(const struct serve_fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", f->socket);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

int serve_fixture_as_user(int (*fn)(void *ctx), void *ctx)
{
    int state;
    if (geteuid() != 0)
        return -1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(setgid(NOBODY) == 0 && setuid(NOBODY) == 0 ? fn(ctx) : 100);
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_true(WIFEXITED(state));
    return WEXITSTATUS(state);
}

int serve_fixture_open(void **state)
{
    (void)state;
    serve_fixture_place(&fixture);
    serve_fixture_start(&fixture, NULL);
    return 0;
}

int serve_fixture_close(void **state)
{
    (void)state;
    serve_fixture_stop(&fixture);
    serve_fixture_clear(&fixture);
    return 0;
}

pst_cache *serve_fixture_open_host(void)
{
    const struct pst_cache_host_options options = {.struct_size = sizeof options,
                                                   .socket = fixture.socket};
    pst_cache *cache;
    struct pst_error err;
    assert_ok(pst_cache_open_host(&options, &cache, &err));
    return cache;
}
