/* fleet_link.h - a socket to a memcached server. */
#ifndef PST_FLEET_FLEET_LINK_H
#define PST_FLEET_FLEET_LINK_H

#include <stddef.h>
#include <stdint.h>

/* The address of a server. */
struct psti_fleet_address {
    char name[256]; /* name by which all clients know the server */
    char host[256]; /* host name or address, or the path of a Unix socket */
    uint16_t port;  /* TCP port; 0: it is a Unix socket */
};

/* Connects to the server, by the first of its addresses that answers before the deadline, a time of
 * psti_clock_ns. Returns a non-blocking socket, which the caller closes, or -1 and writes the
 * reason to `why`. The system's resolver may take longer than the deadline. Any thread. */
int psti_fleet_link_open(const struct psti_fleet_address *address, int64_t deadline_ns, char *why,
                         size_t why_cap);
/* Waits until the socket can be read or written (poll's `events`), until *wake_fd is readable if it
 * is not negative, or until the deadline. Returns poll's events of the socket; 0: none. */
int psti_fleet_link_wait(int fd, int events, int wake_fd, int64_t deadline_ns);

#endif
