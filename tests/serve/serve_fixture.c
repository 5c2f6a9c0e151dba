/* serve_fixture.c - starts and stops a service for tests. */
#include "serve/serve_fixture.h"

#include "base/clock.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

void serve_fixture_place(struct serve_fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    snprintf(fixture->directory, sizeof fixture->directory, "/tmp/pst-serve-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    assert_int_equal(chmod(fixture->directory, 0755), 0);
    snprintf(fixture->socket, sizeof fixture->socket, "%s/host.sock", fixture->directory);
}

static void *run(void *arg)
{
    struct serve_fixture *fixture = arg;
    struct pst_error err;
    fixture->ended = pst_service_run(fixture->service, &err);
    if (fixture->ended != PST_OK)
        fprintf(stderr, "service: %s\n", err.text);
    return NULL;
}

void serve_fixture_start(struct serve_fixture *fixture, const struct pst_service_options *options)
{
    struct pst_service_options mine = {.struct_size = sizeof mine,
                                       .cache_nbytes = (uint64_t)64 << 20,
                                       .n_threads = 2,
                                       .keep = true};
    struct pst_error err;
    if (options)
        mine = *options;
    mine.socket = fixture->socket;
    assert_ok(pst_service_open(&mine, &fixture->service, &err));
    assert_int_equal(pthread_create(&fixture->thread, NULL, run, fixture), 0);
}

void serve_fixture_stop(struct serve_fixture *fixture)
{
    pst_service_stop(fixture->service);
    pthread_join(fixture->thread, NULL);
    pst_service_close(&fixture->service);
    assert_int_equal(fixture->ended, PST_OK);
    assert_true(access(fixture->socket, F_OK) != 0);
}

void serve_fixture_clear(struct serve_fixture *fixture)
{
    char path[512];
    DIR *directory = opendir(fixture->directory);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", fixture->directory, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    assert_int_equal(rmdir(fixture->directory), 0);
}

int serve_fixture_connect(const struct serve_fixture *fixture)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", fixture->socket);
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
