/* serve_loop.c - the loop of the service: it waits for clients, messages and finished work.
 *
 * The loop never waits for a single client. Once a second it tells clients whose work is running
 * that the service lives, checks the socket's name, and ends a service without clients. */
#include "serve/serve.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 64
#define TICK_NS ((int64_t)1000 * 1000 * 1000)
#define ACCEPT_AT_ONCE 16

/* Refuses a client, because no descriptor is free. Otherwise it would wait for an answer. */
static void refuse_one(pst_service *service)
{
    if (service->spare_fd >= 0)
        close(service->spare_fd);
    service->spare_fd = -1;
    int fd = accept4(service->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        psti_serve_session_refuse(service, fd);
    else /* sleep to avoid a busy loop */
        psti_clock_sleep_until(psti_clock_ns() + TICK_NS / 100);
    service->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_some(pst_service *service)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        struct pst_error err;
        int fd = accept4(service->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            refuse_one(service);
        else if (fd < 0 && errno == ENOMEM)
            psti_clock_sleep_until(psti_clock_ns() + TICK_NS / 100); /* sleep to avoid a busy
                                                                        loop */
        if (fd < 0)
            return;
        if (psti_serve_session_begin(service, fd, &err) != PST_OK)
            psti_log(PST_LOG_WARNING, "serve", "a client was refused: %s", err.text);
    }
}

/* Ends the sessions that are marked as ending. */
static void sweep(pst_service *service)
{
    bool clients = false;
    for (struct psti_session *session = service->sessions, *next; session; session = next) {
        next = session->next;
        if (session->ending)
            psti_serve_session_end(session);
        else
            clients |= psti_serve_session_is_client(session);
    }
    if (clients)
        service->idle_ns = psti_clock_ns();
}

static enum pst_status tick(pst_service *service, int64_t now, struct pst_error *err)
{
    for (struct psti_session *session = service->sessions; session; session = session->next) {
        session->served = false;
        psti_serve_session_check(session, now);
    }
    psti_serve_work_tick(service, now);
    for (const struct psti_session_ops *const *at = service->kinds; *at; at++)
        if ((*at)->tick)
            (*at)->tick(service);
    for (struct psti_session *session = service->sessions; session; session = session->next)
        psti_serve_session_keep_alive(session, now);
    if (!service->options.keep &&
        now - service->idle_ns >= (int64_t)service->options.linger_s * 1000000000)
        atomic_store(&service->stopping, true);
    return psti_serve_bind_again(service, err);
}

static void take_event(pst_service *service, const struct epoll_event *event)
{
    uint64_t n;
    struct psti_session *ended = psti_serve_session_of_process(event->data.ptr);
    if (event->data.ptr == NULL)
        accept_some(service);
    else if (ended)
        /* Unread messages of a process that has ended do not matter. */
        ended->gone = ended->left = ended->ending = true;
    else if (event->data.ptr != service)
        psti_serve_session_wake(event->data.ptr, event->events);
    else if (read(service->event_fd, &n, sizeof n) == (ssize_t)sizeof n)
        psti_serve_run_posts(service);
}

static enum pst_status serve(pst_service *service, struct pst_error *err)
{
    int64_t next_tick = psti_clock_ns() + TICK_NS;
    enum pst_status status = PST_OK;
    service->idle_ns = psti_clock_ns();
    while (status == PST_OK && !atomic_load(&service->stopping)) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int64_t now = psti_clock_ns();
        int ms = now >= next_tick ? 0 : (int)((next_tick - now) / 1000000 + 1);
        int n = epoll_wait(service->epoll_fd, events, EVENTS_AT_ONCE, ms);
        if (n < 0 && errno != EINTR)
            return psti_fail_os(err, errno, "serve", NULL, -1, "cannot wait for clients");
        for (int i = 0; i < n; i++)
            take_event(service, &events[i]);
        sweep(service);
        now = psti_clock_ns();
        if (now >= next_tick) {
            next_tick = now + TICK_NS;
            status = tick(service, now, err);
        }
    }
    return status;
}

enum pst_status pst_service_run(pst_service *service, struct pst_error *err)
{
    struct psti_numa_before before;
    psti_numa_enter(&service->numa, &before); /* on the NUMA node, because threads of streams are
                                                 started from here */
    enum pst_status status = serve(service, err);
    psti_numa_leave(&before);
    return status;
}
