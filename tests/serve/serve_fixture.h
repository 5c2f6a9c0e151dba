/* serve_fixture.h - runs a host service in a thread of the test, with a socket in a temporary
 * directory. A failure in a helper fails the test. */
#ifndef PST_TESTS_SERVE_FIXTURE_H
#define PST_TESTS_SERVE_FIXTURE_H

#include "sanitizer.h"
#include "test.h"

#include "share/share_link.h"

#include <penstock/penstock.h>

#include <pthread.h>
#include <sys/types.h>

/* Storage of the loaders in these tests. ThreadSanitizer does not support io_uring. */
#define SERVE_STORAGE (TEST_TSAN ? PST_STORAGE_THREADS : PST_STORAGE_AUTO)

struct serve_fixture {
    char directory[64], socket[96];
    pst_service *service;
    pthread_t thread;
    enum pst_status ended; /* result of pst_service_run */
};

/* The service of this test program. */
extern struct serve_fixture fixture;
/* Defines a function tear_down like TEAR_DOWN does, which also clears `fixture`. */
#define SERVE_TEAR_DOWN(...)                                                                       \
    static int tear_down(void **state)                                                             \
    {                                                                                              \
        pst_dataset **const sets[] = {__VA_ARGS__};                                                \
        (void)state;                                                                               \
        serve_fixture_clear(&fixture);                                                             \
        return directory_close(sets, sizeof sets / sizeof *sets);                                  \
    }

/* Makes the directory, open to all users, and sets the path of the socket. */
void serve_fixture_place(struct serve_fixture *fixture);
/* Starts a service with these options, except that its socket is the fixture's. NULL: a cache of 64
 * MiB, two threads, and the service does not end when it has no clients. */
void serve_fixture_start(struct serve_fixture *fixture, const struct pst_service_options *options);
/* Stops the service, and checks that it left no file. */
void serve_fixture_stop(struct serve_fixture *fixture);
/* Removes the directory and everything in it. */
void serve_fixture_clear(struct serve_fixture *fixture);
/* cmocka's setup and teardown: the first makes the directory and starts the service, the second
 * stops it and clears up. */
int serve_fixture_open(void **state);
int serve_fixture_close(void **state);
/* Opens the host cache of the fixture's service. */
pst_cache *serve_fixture_open_host(void);

/* Starts a service in a child process, with these options or the defaults of serve_fixture_start
 * (NULL), until it is killed. Returns once it serves. The child ignores SIGXFSZ, as `penstock
 * serve` does. */
pid_t serve_fixture_fork(const struct serve_fixture *fixture,
                         const struct pst_service_options *options);
/* Sends the signal to a child and waits for its end. */
void serve_fixture_kill(pid_t pid, int signal_number);
/* Returns the number of open descriptors of a process. */
unsigned serve_fixture_count_fds(pid_t pid);
/* Returns the status that the service reports. */
struct pst_service_status serve_fixture_status(const struct serve_fixture *fixture);
/* Waits until the service has no sessions except the one that asks for its status. */
void serve_fixture_await_no_sessions(const struct serve_fixture *fixture);
/* Checks that nothing of this project is in /dev/shm, and that the directory contains only the
 * socket, its lock and `n_more` other files. */
void serve_fixture_check_files(const struct serve_fixture *fixture, unsigned n_more);

/* Returns a socket that is connected to the service and has not sent a greeting. */
int serve_fixture_connect(const struct serve_fixture *fixture);
/* Runs the function in a forked child as an unprivileged user, and returns its result. Returns -1
 * if this process may not change its user. */
int serve_fixture_as_user(int (*fn)(void *ctx), void *ctx);

#endif
