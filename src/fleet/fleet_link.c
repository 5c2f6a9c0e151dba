/* fleet_link.c - connects to a server within a deadline, and waits for the socket to be ready. */
#include "fleet/fleet_link.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BUSY_PAUSE_NS 1000000 /* pause before the next try if a Unix socket's queue is full */

/* Returns the milliseconds until the deadline, rounded up, for poll; -1: no deadline. */
static int poll_time(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return -1;
    int64_t left = deadline_ns - psti_clock_ns();
    if (left <= 0)
        return 0;
    int64_t ms = (left - 1) / 1000000 + 1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

int psti_fleet_link_wait(int fd, int events, int wake_fd, int64_t deadline_ns)
{
    struct pollfd both[2] = {{.fd = fd, .events = (short)events},
                             {.fd = wake_fd, .events = POLLIN}};
    int n = poll(both, wake_fd >= 0 ? 2 : 1, poll_time(deadline_ns));
    return n > 0 ? both[0].revents : 0;
}

/* Waits until a connect under way has ended. Returns an errno; 0: connected. */
static int await_connect(int fd, int64_t deadline_ns)
{
    int error = 0;
    socklen_t nbytes = sizeof error;
    while (psti_fleet_link_wait(fd, POLLOUT, -1, deadline_ns) == 0)
        if (psti_clock_ns() >= deadline_ns)
            return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &nbytes) == 0 ? error : errno;
}

/* Connects the socket before the deadline. Returns an errno; 0: connected. */
static int connect_by(int fd, const struct sockaddr *address, socklen_t nbytes, int64_t deadline_ns)
{
    while (connect(fd, address, nbytes) != 0) {
        if (errno == EINPROGRESS)
            return await_connect(fd, deadline_ns);
        if (errno == EISCONN)
            return 0;
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        int64_t now = psti_clock_ns();
        if (now >= deadline_ns)
            return ETIMEDOUT;
        psti_clock_sleep_until(now + BUSY_PAUSE_NS);
    }
    return 0;
}

/* Opens a socket and connects it. Returns the socket, or -1 and sets *error. */
static int open_socket(int family, const struct sockaddr *address, socklen_t nbytes,
                       int64_t deadline_ns, int *error)
{
    int one = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        *error = errno;
        return -1;
    }
    if (family != AF_UNIX) /* without TCP_NODELAY small requests are delayed; a failure costs only
                              speed */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *error = connect_by(fd, address, nbytes, deadline_ns);
    if (*error == 0)
        return fd;
    close(fd);
    return -1;
}

static int open_unix(const char *path, int64_t deadline_ns, int *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        *error = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return open_socket(AF_UNIX, (const struct sockaddr *)&address, sizeof address, deadline_ns,
                       error);
}

int psti_fleet_link_open(const struct psti_fleet_address *address, int64_t deadline_ns, char *why,
                         size_t why_cap)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[8];
    int fd = -1, error = 0;
    if (!address->port) {
        fd = open_unix(address->host, deadline_ns, &error);
    } else {
        snprintf(port, sizeof port, "%u", address->port);
        int failed = getaddrinfo(address->host, port, &hints, &found);
        if (failed) {
            snprintf(why, why_cap, "cannot find its address: %s", gai_strerror(failed));
            return -1;
        }
        for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
            fd = open_socket(a->ai_family, a->ai_addr, a->ai_addrlen, deadline_ns, &error);
        freeaddrinfo(found);
    }
    if (fd < 0)
        snprintf(why, why_cap, "cannot connect: %s", strerror(error));
    return fd;
}
