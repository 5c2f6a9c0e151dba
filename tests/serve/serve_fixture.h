/* serve_fixture.h - a service in a thread of the test, with a socket in a directory of its own. A
 * failure here fails the test. */
#ifndef PST_TESTS_SERVE_FIXTURE_H
#define PST_TESTS_SERVE_FIXTURE_H

#include "sanitizer.h"
#include "test.h"

#include "share/share_link.h"

#include <penstock/penstock.h>

#include <pthread.h>
#include <sys/types.h>

/* How loaders of these tests read: TSan does not know io_uring. */
#define SERVE_STORAGE (TEST_TSAN ? PST_STORAGE_THREADS : PST_STORAGE_AUTO)

struct serve_fixture {
    char directory[64], socket[96];
    pst_service *service;
    pthread_t thread;
    enum pst_status ended; /* what pst_service_run returned */
};

/* The one of this program. */
extern struct serve_fixture fixture;
/* Defines tear_down as TEAR_DOWN does, which clears `fixture`, too. */
#define SERVE_TEAR_DOWN(...)                                                                       \
    static int tear_down(void **state)                                                             \
    {                                                                                              \
        pst_dataset **const sets[] = {__VA_ARGS__};                                                \
        (void)state;                                                                               \
        serve_fixture_clear(&fixture);                                                             \
        return directory_close(sets, sizeof sets / sizeof *sets);                                  \
    }

/* Makes the directory, open to all users, and names the socket. */
void serve_fixture_place(struct serve_fixture *fixture);
/* Starts a service there with these options, whose socket it sets; NULL: a cache of 64 MiB, two
 * threads, no end for want of clients. */
void serve_fixture_start(struct serve_fixture *fixture, const struct pst_service_options *options);
/* Stops it, and checks that it left no file. */
void serve_fixture_stop(struct serve_fixture *fixture);
/* Removes the directory with what is in it. */
void serve_fixture_clear(struct serve_fixture *fixture);
/* For cmocka: places `fixture` and starts it; stops and clears it. */
int serve_fixture_open(void **state);
int serve_fixture_close(void **state);
/* Opens the cache of the service of `fixture`. */
pst_cache *serve_fixture_open_host(void);

/* A service in a process of its own, with these options (NULL: as above), until it is killed.
 * Returns when it serves. It ignores SIGXFSZ, as `penstock serve` does. */
pid_t serve_fixture_fork(const struct serve_fixture *fixture,
                         const struct pst_service_options *options);
/* Sends the signal and waits for the end of the child. */
void serve_fixture_kill(pid_t pid, int signal_number);
/* Number of descriptors that a process has. */
unsigned serve_fixture_count_fds(pid_t pid);
/* What the service says about itself. */
struct pst_service_status serve_fixture_status(const struct serve_fixture *fixture);
/* Waits until the service has no sessions but that of the question. */
void serve_fixture_await_no_sessions(const struct serve_fixture *fixture);
/* Nothing of this project lies in /dev/shm, and in the directory there are only these: the socket
 * and its lock, and `n_more` other files. */
void serve_fixture_check_files(const struct serve_fixture *fixture, unsigned n_more);

/* A socket that is connected to the service and has not greeted. */
int serve_fixture_connect(const struct serve_fixture *fixture);
/* Runs the function in a forked child as an unprivileged user, and returns its result. -1: this
 * process may not change its user. */
int serve_fixture_as_user(int (*fn)(void *ctx), void *ctx);

#endif
