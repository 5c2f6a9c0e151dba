/* share_link.h - the socket between the host service and its clients: its path, connecting, and
 * messages with descriptors.
 *
 * Sockets are AF_UNIX, SOCK_SEQPACKET and never block: each wait is a poll with a deadline, a time
 * of psti_clock_ns. Both sides refuse a peer of another user. Any thread may call any function, but
 * on one socket only one thread at a time may receive, and one may send. */
#ifndef PST_SHARE_SHARE_LINK_H
#define PST_SHARE_SHARE_LINK_H

#include "share/share_wire.h"

#include <sys/types.h>

/* A function of the caller that may end a wait for the service early. The waiting thread calls it
 * ten times a second. A value other than 0 ends the wait with PST_ERROR_CANCELLED. */
struct psti_share_stop {
    pst_interrupt_fn fn; /* function that may end the wait; NULL: the wait is never ended early */
    void *ctx;
};
#define PSTI_SHARE_LOOK_NS ((int64_t)100 * 1000 * 1000) /* time between two calls of
                                                           psti_share_stop.fn */
/* True if the wait must end. stop may be NULL. */
bool psti_share_is_stopped(const struct psti_share_stop *stop);

enum { PSTI_SOCKET_PATH_CAP = 108 }; /* bytes that a socket's address can hold, with the NUL */

/* How long a client waits for an answer before it counts the service as lost. */
#define PSTI_LINK_WAIT_NS ((int64_t)10 * 1000 * 1000 * 1000)
/* How long a client waits for the greeting of a service that may have been silent just now. One
 * that works greets within milliseconds, also while it opens data sets. */
#define PSTI_LINK_GREET_NS ((int64_t)1000 * 1000 * 1000)

/* Sets the path of the socket: `given` if it is not NULL; else PENSTOCK_SOCKET; else
 * penstock/host.sock in XDG_RUNTIME_DIR, if that is set and exists; else
 * /tmp/penstock-<uid>/host.sock. The path is made absolute, because the other side has another
 * current directory. PST_ERROR_ARGUMENT: it is too long for a socket. */
enum pst_status psti_share_socket_path(const char *given, char path[PSTI_SOCKET_PATH_CAP],
                                       struct pst_error *err);
/* True if the path is the one that is used when the user gives none. */
bool psti_share_is_standard_path(const char *path);
/* Checks the directory that holds the socket. With `make`, creates it (mode 0700) if it is missing.
 * PST_ERROR_ARGUMENT: it is a symbolic link, or belongs to another user, or others may write to it.
 * If the user gave the path (`given`), any owner is allowed, because the peer's user is checked. */
enum pst_status psti_share_check_directory(const char *path, bool given, bool make,
                                           struct pst_error *err);

/* Connects to the service at the path and greets it. The caller closes *fd; it is -1 after failure.
 * PST_ERROR_NOT_FOUND: no service runs there. PST_ERROR_ARGUMENT: it is another user's.
 * PST_ERROR_VERSION: it has another version. PST_ERROR_IO: it does not answer within wait_ns.
 * `stop` and `theirs` may be NULL. */
enum pst_status psti_share_connect(const char *path, enum psti_session_kind session,
                                   int64_t wait_ns, const struct psti_share_stop *stop, int *fd,
                                   struct psti_hello *theirs, struct pst_error *err);

/* Ends a session that this process has begun, and closes the socket. The session ends even if
 * forked children have copies of the socket. owner: the process that connected; in a forked child
 * only the child's copy is closed. fd -1 is allowed. */
void psti_share_disconnect(int fd, pid_t owner);

/* A received message. The receiver must close its descriptors. */
struct psti_message {
    struct psti_message_head head;
    uint32_t n_fds;
    int fds[PSTI_MESSAGE_FDS];
    uint8_t bytes[PSTI_MESSAGE_NBYTES];
};
/* Closes the message's remaining descriptors. Those that were taken out are -1. */
void psti_share_message_close(struct psti_message *message);
/* Takes descriptor i out of the message, so the caller must close it. Returns -1 if there is
 * none. */
int psti_share_message_take_fd(struct psti_message *message, uint32_t i);
/* Returns a reader of the message's body. */
struct psti_wire_in psti_share_message_body(const struct psti_message *message);

/* Sends one message. The caller keeps its descriptors. PST_END: the peer has closed the session.
 * PST_ERROR_IO: the deadline has passed (os_error ETIMEDOUT), or the system failed. */
enum pst_status psti_share_send(int fd, const void *bytes, size_t nbytes, const int *fds,
                                uint32_t n_fds, int64_t deadline, struct pst_error *err);
/* Receives one message. PST_END: the peer has closed the session. PST_ERROR_IO: the deadline has
 * passed, or the system failed. PST_ERROR_CORRUPT: it is no message, or came with other descriptors
 * than it says. After failure *message holds no descriptor. */
enum pst_status psti_share_receive(int fd, struct psti_message *message, int64_t deadline,
                                   struct pst_error *err);
/* Receives an answer, for at most wait_ns. Each PSTI_MESSAGE_ALIVE restarts that time. Returns the
 * error in a PSTI_MESSAGE_ERROR. PST_ERROR_CORRUPT: the answer is of another kind than `kind`.
 * PST_ERROR_IO: no answer came in time, or the peer has closed the session. `stop` may be NULL. */
enum pst_status psti_share_answer(int fd, struct psti_message *message, enum psti_message_kind kind,
                                  int64_t wait_ns, const struct psti_share_stop *stop,
                                  struct pst_error *err);

/* Checks the user at the other end of the socket, and gives its process. PST_ERROR_ARGUMENT: it is
 * another user than this process's. who: name of the other side, for the message. */
enum pst_status psti_share_check_peer(int fd, const char *who, pid_t *pid, struct pst_error *err);
/* Sends one control request on a connection of its own, and receives the answer. put: writes the
 * body of the request; may be NULL. The caller closes the descriptors in *message. */
enum pst_status psti_share_request(const char *path, enum psti_message_kind kind,
                                   void (*put)(struct psti_wire_out *out, const void *ctx),
                                   const void *ctx, enum psti_message_kind answer,
                                   const struct psti_share_stop *stop, struct psti_message *message,
                                   struct pst_error *err);

#endif
