/* share_link.c - connects to the host service, and sends messages with descriptors.
 *
 * Each packet of the socket is one message. Descriptors are sent as SCM_RIGHTS. If a packet is
 * longer than a message, or has too many descriptors, the kernel truncates it and sets a flag. Such
 * a packet is refused, and descriptors that arrived are closed. */
#include "share/share_link.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RETRY_NS ((int64_t)10 * 1000 * 1000)

static enum pst_status fail_late(struct pst_error *err)
{
    return psti_fail_os(err, ETIMEDOUT, "share", NULL, -1, "the host service does not answer");
}

static enum pst_status fail_stopped(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_CANCELLED, "share",
                     "the caller's interrupt function ended the wait for the host service");
}

bool psti_share_is_stopped(const struct psti_share_stop *stop)
{
    return stop && stop->fn && stop->fn(stop->ctx) != 0;
}

/* Waits until the socket is ready for `events`, or its peer has closed it. False: the deadline
 * passed. */
static bool wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd poller = {.fd = fd, .events = events};
    for (;;) {
        int64_t left = deadline - psti_clock_ns();
        int ms = left <= 0 ? 0 : left > 60000000000 ? 60000 : (int)((left + 999999) / 1000000);
        int n = poll(&poller, 1, ms);
        if (n > 0)
            return true;
        if ((n == 0 || errno != EINTR) && psti_clock_ns() >= deadline)
            return false;
    }
}

static bool has_gone(int os_error)
{
    return os_error == EPIPE || os_error == ECONNRESET || os_error == ENOTCONN;
}

union control {
    char bytes[CMSG_SPACE(PSTI_MESSAGE_FDS * sizeof(int))];
    struct cmsghdr align;
};

static void add_fds(struct msghdr *packet, union control *control, const int *fds, uint32_t n_fds)
{
    if (n_fds == 0)
        return;
    memset(control, 0, sizeof *control);
    packet->msg_control = control->bytes;
    packet->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
    memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
}

enum pst_status psti_share_send(int fd, const void *bytes, size_t nbytes, const int *fds,
                                uint32_t n_fds, int64_t deadline, struct pst_error *err)
{
    struct iovec part = {(void *)(uintptr_t)bytes, nbytes};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;
    add_fds(&packet, &control, fds, n_fds);
    for (;;) {
        ssize_t n = sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n == (ssize_t)nbytes)
            return PST_OK;
        if (n < 0 && has_gone(errno))
            return PST_END;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return psti_fail_os(err, errno, "share", NULL, -1, "cannot send a message");
        if (!wait_for(fd, POLLOUT, deadline))
            return fail_late(err);
    }
}

/* Moves the descriptors that came with a packet to the message. False: there are too many. */
static bool take_fds(struct msghdr *packet, struct psti_message *message)
{
    bool fits = true;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(packet); at; at = CMSG_NXTHDR(packet, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            if (message->n_fds < PSTI_MESSAGE_FDS) {
                message->fds[message->n_fds++] = fd;
            } else {
                close(fd);
                fits = false;
            }
        }
    }
    return fits;
}

/* Checks that a message has all its descriptors. The kernel drops those for which the process has
 * no free number. */
static enum pst_status check_fds(const struct psti_message *message, bool is_cut,
                                 struct pst_error *err)
{
    if (message->head.n_fds == message->n_fds && !is_cut)
        return PST_OK;
    if (is_cut && message->n_fds < message->head.n_fds)
        return psti_fail_os(err, EMFILE, "share", NULL, -1,
                            "%u of %u descriptors of a message came: the limit of open files is "
                            "reached",
                            message->n_fds, message->head.n_fds);
    return psti_fail(err, PST_ERROR_CORRUPT, "share",
                     "a message of kind %u should have %u descriptors, and %u came",
                     message->head.kind, message->head.n_fds, message->n_fds);
}

static enum pst_status take_packet(struct psti_message *message, struct msghdr *packet, size_t n,
                                   struct pst_error *err)
{
    bool fits = take_fds(packet, message);
    enum pst_status status = PST_OK;
    if (!fits || (packet->msg_flags & MSG_TRUNC))
        status = psti_fail(err, PST_ERROR_CORRUPT, "share",
                           "a message is longer than %d bytes or has more than %d descriptors",
                           PSTI_MESSAGE_NBYTES, PSTI_MESSAGE_FDS);
    if (status == PST_OK)
        status = psti_share_parse_head(message->bytes, n, &message->head, err);
    if (status == PST_OK)
        status = check_fds(message, (packet->msg_flags & MSG_CTRUNC) != 0, err);
    if (status != PST_OK)
        psti_share_message_close(message);
    return status;
}

enum pst_status psti_share_receive(int fd, struct psti_message *message, int64_t deadline,
                                   struct pst_error *err)
{
    bool was_reset = false;
    message->n_fds = 0;
    for (;;) {
        union control control;
        struct iovec part = {message->bytes, sizeof message->bytes};
        struct msghdr packet = {.msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = control.bytes,
                                .msg_controllen = sizeof control.bytes};
        ssize_t n = recvmsg(fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n > 0)
            return take_packet(message, &packet, (size_t)n, err);
        if (n < 0 && errno == ECONNRESET && !was_reset) {
            was_reset = true; /* the peer closed the socket with unread bytes, but its last message
                                 may still arrive */
            continue;
        }
        if (n == 0 || has_gone(errno)) /* an empty packet, which no peer sends, also counts as
                                          the end */
            return PST_END;
        if (errno != EAGAIN && errno != EINTR)
            return psti_fail_os(err, errno, "share", NULL, -1, "cannot receive a message");
        if (!wait_for(fd, POLLIN, deadline))
            return fail_late(err);
    }
}

void psti_share_message_close(struct psti_message *message)
{
    for (uint32_t i = 0; i < message->n_fds; i++)
        if (message->fds[i] >= 0)
            close(message->fds[i]);
    message->n_fds = 0;
}

int psti_share_message_take_fd(struct psti_message *message, uint32_t i)
{
    int fd = -1;
    if (i < message->n_fds) {
        fd = message->fds[i];
        message->fds[i] = -1;
    }
    return fd;
}

struct psti_wire_in psti_share_message_body(const struct psti_message *message)
{
    return psti_share_body(message->bytes, message->head.nbytes);
}

/* Receives one message, and asks `stop` regularly whether to end the wait. */
static enum pst_status receive_or_stop(int fd, struct psti_message *message, int64_t deadline,
                                       const struct psti_share_stop *stop, struct pst_error *err)
{
    for (;;) {
        int64_t now = psti_clock_ns(), look = now + PSTI_SHARE_LOOK_NS;
        if (psti_share_is_stopped(stop))
            return fail_stopped(err);
        if (!stop || !stop->fn || look > deadline)
            return psti_share_receive(fd, message, deadline, err);
        if (wait_for(fd, POLLIN, look))
            return psti_share_receive(fd, message, look, err);
    }
}

enum pst_status psti_share_answer(int fd, struct psti_message *message, enum psti_message_kind kind,
                                  int64_t wait_ns, const struct psti_share_stop *stop,
                                  struct pst_error *err)
{
    enum pst_status status;
    do
        status = receive_or_stop(fd, message, psti_clock_ns() + wait_ns, stop, err);
    while (status == PST_OK && message->head.kind == PSTI_MESSAGE_ALIVE && message->n_fds == 0);
    if (status == PST_END)
        return psti_fail(err, PST_ERROR_IO, "share", "the host service has ended the session");
    if (status != PST_OK || message->head.kind == kind)
        return status;
    if (message->head.kind == PSTI_MESSAGE_ERROR) {
        struct pst_error theirs;
        struct psti_wire_in in = psti_share_message_body(message);
        psti_share_get_error(&in, &theirs);
        status = psti_share_end(&in, "error", err);
        if (status == PST_OK && err)
            *err = theirs;
        status = status == PST_OK ? theirs.status : status;
    } else {
        status = psti_fail(err, PST_ERROR_CORRUPT, "share",
                           "the host service answers with a message of kind %u, not %u",
                           message->head.kind, (unsigned)kind);
    }
    psti_share_message_close(message);
    return status;
}

enum pst_status psti_share_check_peer(int fd, const char *who, pid_t *pid, struct pst_error *err)
{
    struct ucred peer;
    socklen_t nbytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &nbytes) != 0)
        return psti_fail_os(err, errno, "share", NULL, -1, "the %s's user is not known", who);
    if (pid)
        *pid = peer.pid;
    if (peer.uid == geteuid())
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "share",
                     "the %s is of user %u, this process of user %u: each user has a service of "
                     "their own",
                     who, (unsigned)peer.uid, (unsigned)geteuid());
}

static enum pst_status connect_socket(const char *path, int64_t deadline,
                                      const struct psti_share_stop *stop, int *fd,
                                      struct pst_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return psti_fail_os(err, errno, "share", path, -1, "no socket");
    while (connect(*fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR)
            return psti_fail_at(err, PST_ERROR_NOT_FOUND, "share", path, -1,
                                "no host service runs here: penstock serve starts one");
        if (errno == EPROTOTYPE)
            return psti_fail_at(err, PST_ERROR_IO, "share", path, -1,
                                "this is the socket of another program");
        if (errno != EAGAIN && errno != EINTR)
            return psti_fail_os(err, errno, "share", path, -1,
                                "cannot connect to the host service");
        if (psti_clock_ns() >= deadline) /* the service's queue of new connections is full */
            return fail_late(err);
        if (psti_share_is_stopped(stop))
            return fail_stopped(err);
        psti_clock_sleep_until(psti_clock_ns() + RETRY_NS);
    }
    return psti_share_check_peer(*fd, "host service", NULL, err);
}

static enum pst_status greet(int fd, enum psti_session_kind session, int64_t wait_ns,
                             const struct psti_share_stop *stop, struct psti_hello *theirs,
                             struct psti_message *message, struct pst_error *err)
{
    struct psti_hello mine = {.protocol = PSTI_HOST_PROTOCOL, .session = (uint32_t)session};
    struct psti_wire_out out = psti_share_begin(message->bytes);
    snprintf(mine.version, sizeof mine.version, "%s", pst_version());
    psti_share_put_hello(&out, &mine);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_HELLO, 0, 0);
    enum pst_status status =
        psti_share_send(fd, message->bytes, nbytes, NULL, 0, psti_clock_ns() + wait_ns, err);
    if (status == PST_OK || status == PST_END) /* a service that closes the session may have sent
                                                  the reason before */
        status = psti_share_answer(fd, message, PSTI_MESSAGE_WELCOME, wait_ns, stop, err);
    if (status != PST_OK)
        return status;
    struct psti_wire_in in = psti_share_message_body(message);
    status = psti_share_get_hello(&in, theirs, err);
    if (status == PST_OK)
        status = psti_share_check_protocol(theirs, "host service", err);
    psti_share_message_close(message);
    return status;
}

enum pst_status psti_share_connect(const char *path, enum psti_session_kind session,
                                   int64_t wait_ns, const struct psti_share_stop *stop, int *fd,
                                   struct psti_hello *theirs, struct pst_error *err)
{
    struct psti_hello hello;
    struct psti_message *message = psti_alloc(sizeof *message);
    *fd = -1;
    if (!message)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a message");
    enum pst_status status = connect_socket(path, psti_clock_ns() + wait_ns, stop, fd, err);
    if (status == PST_OK)
        status = greet(*fd, session, wait_ns, stop, theirs ? theirs : &hello, message, err);
    psti_free(message);
    if (status == PST_OK)
        return PST_OK;
    psti_error_set_file(err, path);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return status;
}

void psti_share_disconnect(int fd, pid_t owner)
{
    if (fd < 0)
        return;
    if (owner == getpid())
        (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}

enum pst_status psti_share_request(const char *path, enum psti_message_kind kind,
                                   void (*put)(struct psti_wire_out *out, const void *ctx),
                                   const void *ctx, enum psti_message_kind answer,
                                   const struct psti_share_stop *stop, struct psti_message *message,
                                   struct pst_error *err)
{
    int fd;
    enum pst_status status =
        psti_share_connect(path, PSTI_SESSION_CONTROL, PSTI_LINK_WAIT_NS, stop, &fd, NULL, err);
    if (status != PST_OK)
        return status;
    struct psti_wire_out out = psti_share_begin(message->bytes);
    if (put)
        put(&out, ctx);
    size_t nbytes = psti_share_finish(&out, kind, 1, 0);
    if (nbytes == 0)
        status = psti_fail(err, PST_ERROR_ARGUMENT, "share", "a text is too long");
    if (status == PST_OK)
        status = psti_share_send(fd, message->bytes, nbytes, NULL, 0,
                                 psti_clock_ns() + PSTI_LINK_WAIT_NS, err);
    if (status == PST_OK)
        status = psti_share_answer(fd, message, answer, PSTI_LINK_WAIT_NS, stop, err);
    else if (status == PST_END)
        status = psti_fail(err, PST_ERROR_IO, "share", "the host service has ended the session");
    close(fd);
    return status;
}
