/* share_link.h - the socket between the host service and its clients: where it lies, connecting,
 * and messages with descriptors.
 *
 * Sockets are AF_UNIX, SOCK_SEQPACKET and never block: each wait is a poll with a deadline, a time
 * of psti_clock_ns. Both sides refuse a peer that belongs to another user. Any thread may call any
 * function; one thread at a time receives on a socket, and one sends. */
#ifndef PST_SHARE_SHARE_LINK_H
#define PST_SHARE_SHARE_LINK_H

#include "share/share_wire.h"

#include <sys/types.h>

/* A function of the caller that may end a wait for the service early. The thread that waits asks it
 * ten times a second. A value other than 0 ends the call with PST_ERROR_CANCELLED. */
struct psti_share_stop {
    pst_interrupt_fn fn; /* NULL: the wait is not ended early */
    void *ctx;
};
#define PSTI_SHARE_LOOK_NS ((int64_t)100 * 1000 * 1000) /* between two such questions */
/* True if the wait is to end. stop may be NULL. */
bool psti_share_is_stopped(const struct psti_share_stop *stop);

enum { PSTI_SOCKET_PATH_CAP = 108 }; /* what a socket's address can hold, with the NUL */

/* How long a client waits for an answer before it counts the service as lost. */
#define PSTI_LINK_WAIT_NS ((int64_t)10 * 1000 * 1000 * 1000)

/* Finds the path of the socket, and makes it absolute, because the other side has another current
 * directory: `given` if it is not NULL; else PENSTOCK_SOCKET; else host.sock in
 * the directory penstock of XDG_RUNTIME_DIR, if that is set and exists; else
 * /tmp/penstock-<uid>/host.sock. PST_ERROR_ARGUMENT: it is too long for a socket. */
enum pst_status psti_share_socket_path(const char *given, char path[PSTI_SOCKET_PATH_CAP],
                                       struct pst_error *err);
/* True if it is the path that is taken where none is given. */
bool psti_share_is_standard_path(const char *path);
/* Checks the directory that holds the socket. With `make`, makes it (mode 0700) if it is missing.
 * PST_ERROR_ARGUMENT: it is a symbolic link, or belongs to another user, or others may write to it.
 * Where a path was given, its directory may belong to anybody, since the peer's user is checked. */
enum pst_status psti_share_check_directory(const char *path, bool given, bool make,
                                           struct pst_error *err);

/* Connects to the service at the path and greets it. *fd is the caller's to close; -1 after
 * failure. PST_ERROR_NOT_FOUND: no service runs there. PST_ERROR_ARGUMENT: it is another user's.
 * PST_ERROR_VERSION: it is of another version. PST_ERROR_IO: it does not answer within wait_ns.
 * `stop` and `theirs` may be NULL. */
enum pst_status psti_share_connect(const char *path, enum psti_session_kind session,
                                   int64_t wait_ns, const struct psti_share_stop *stop, int *fd,
                                   struct psti_hello *theirs, struct pst_error *err);

/* Ends a session that this process has begun, and closes the socket: also copies of it that forked
 * children have do not keep the session alive. `owner` is the process that connected; in another
 * one, which a fork has made, only its own copy is closed. fd -1 is allowed. */
void psti_share_disconnect(int fd, pid_t owner);

/* A received message. Its descriptors are the receiver's to close. */
struct psti_message {
    struct psti_message_head head;
    uint32_t n_fds;
    int fds[PSTI_MESSAGE_FDS];
    uint8_t bytes[PSTI_MESSAGE_NBYTES];
};
/* Closes the descriptors that are left; those that were taken are set to -1 before. */
void psti_share_message_close(struct psti_message *message);
/* Takes descriptor i out of the message, or returns -1. */
int psti_share_message_take_fd(struct psti_message *message, uint32_t i);
/* A message's body. */
struct psti_wire_in psti_share_message_body(const struct psti_message *message);

/* Sends one message with its descriptors, which stay the caller's. PST_END: the peer has closed the
 * session. PST_ERROR_IO: the deadline has passed (os_error ETIMEDOUT), or the system failed. */
enum pst_status psti_share_send(int fd, const void *bytes, size_t nbytes, const int *fds,
                                uint32_t n_fds, int64_t deadline, struct pst_error *err);
/* Receives one message. PST_END and PST_ERROR_IO as above. PST_ERROR_CORRUPT: it is no message, or
 * came with other descriptors than it says. After failure it holds no descriptor. */
enum pst_status psti_share_receive(int fd, struct psti_message *message, int64_t deadline,
                                   struct pst_error *err);
/* As psti_share_receive, but waits for at most wait_ns, passes over PSTI_MESSAGE_ALIVE, each of
 * which makes the wait begin anew, and returns the error that a PSTI_MESSAGE_ERROR has.
 * PST_ERROR_CORRUPT: the answer is of another kind than `kind`. PST_END is an error here:
 * PST_ERROR_IO. `stop` may be NULL. */
enum pst_status psti_share_answer(int fd, struct psti_message *message, enum psti_message_kind kind,
                                  int64_t wait_ns, const struct psti_share_stop *stop,
                                  struct pst_error *err);

/* The user and process at the other end. PST_ERROR_ARGUMENT: it is another user than this
 * process's. */
enum pst_status psti_share_check_peer(int fd, const char *who, pid_t *pid, struct pst_error *err);
/* One request of a session of control, in its own connection. The body of the request is what
 * `put` (may be NULL) writes. The answer is in *message, whose descriptors are the caller's to
 * close. */
enum pst_status psti_share_request(const char *path, enum psti_message_kind kind,
                                   void (*put)(struct psti_wire_out *out, const void *ctx),
                                   const void *ctx, enum psti_message_kind answer,
                                   const struct psti_share_stop *stop, struct psti_message *message,
                                   struct pst_error *err);

#endif
