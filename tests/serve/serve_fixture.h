/* serve_fixture.h - a service in a thread of the test, with a socket in a directory of its own. A
 * failure here fails the test. */
#ifndef PST_TESTS_SERVE_FIXTURE_H
#define PST_TESTS_SERVE_FIXTURE_H

#include "test.h"

#include "share/share_link.h"

#include <penstock/penstock.h>

#include <pthread.h>

struct serve_fixture {
    char directory[64], socket[96];
    pst_service *service;
    pthread_t thread;
    enum pst_status ended; /* what pst_service_run returned */
};

/* Makes the directory, open to all users, and names the socket. */
void serve_fixture_place(struct serve_fixture *fixture);
/* Starts a service there with these options, whose socket it sets; NULL: a cache of 64 MiB, two
 * threads, no end for want of clients. */
void serve_fixture_start(struct serve_fixture *fixture, const struct pst_service_options *options);
/* Stops it, and checks that it left no file. */
void serve_fixture_stop(struct serve_fixture *fixture);
/* Removes the directory with what is in it. */
void serve_fixture_clear(struct serve_fixture *fixture);

/* A socket that is connected to the service and has not greeted. */
int serve_fixture_connect(const struct serve_fixture *fixture);
/* Runs the function in a forked child as an unprivileged user, and returns its result. -1: this
 * process may not change its user. */
int serve_fixture_as_user(int (*fn)(void *ctx), void *ctx);

#endif
