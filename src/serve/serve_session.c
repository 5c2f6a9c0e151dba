/* serve_session.c - one client's connection: its greeting, receiving messages, sending packets, and
 * its end.
 *
 * A session that ends is first only marked, and the loop frees it later. So code that sends to a
 * session need not check whether it still exists. Everything runs on the loop's thread. */
#include "serve/serve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIDFD_OPEN 434 /* the number of this system call on all machines; headers of old systems
                          lack it */
#define SECOND ((int64_t)1000 * 1000 * 1000)
#define ALIVE_NS SECOND
#define GREETING_NS (10 * SECOND) /* time in which a client must greet */
#define READING_NS (60 * SECOND)  /* time in which a client must receive at least a part of its
                                     waiting messages */
#define DRAIN_MAX 64              /* messages that are discarded at the end of a session, at most */

/* A message that waits until the socket can be written. */
struct psti_packet {
    struct psti_packet *next;
    size_t nbytes;
    uint32_t n_fds;
    int fds[PSTI_MESSAGE_FDS];
    uint8_t bytes[];
};

static void free_packet(struct psti_packet *packet)
{
    for (uint32_t i = 0; i < packet->n_fds; i++)
        if (packet->fds[i] >= 0)
            close(packet->fds[i]);
    psti_free(packet);
}

/* Sessions are aligned, so bit 0 of their addresses is free to mark this pointer. */
void *psti_serve_session_process(struct psti_session *session) { return (char *)session + 1; }

struct psti_session *psti_serve_session_of_process(void *pointer)
{
    return (uintptr_t)pointer & 1 ? (void *)((char *)pointer - 1) : NULL;
}

/* Watches the client's process. If that is impossible, the session ends when the last copy of the
 * socket is closed. */
static void watch_process(struct psti_session *session)
{
    session->process_fd = session->pid > 0 ? (int)syscall(PIDFD_OPEN, session->pid, 0) : -1;
    if (session->process_fd < 0 ||
        psti_serve_watch(session->service, session->process_fd, psti_serve_session_process(session),
                         NULL) == PST_OK)
        return;
    close(session->process_fd);
    session->process_fd = -1;
}

/* Tells a client why it gets no session, as an answer to the greeting that it has not sent yet. */
static void refuse(pst_service *service, int fd, const struct pst_error *err)
{
    struct psti_wire_out out = psti_share_begin(service->out);
    psti_share_put_error(&out, err);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_ERROR, 0, 0);
    (void)!psti_share_send(fd, out.bytes, nbytes, NULL, 0, 0, NULL);
}

void psti_serve_session_refuse(pst_service *service, int fd)
{
    struct pst_error err;
    psti_fail_os(&err, EMFILE, "serve", NULL, -1,
                 "the host service has no descriptors left: its limit of open files is too low");
    refuse(service, fd, &err);
    close(fd);
}

enum pst_status psti_serve_session_begin(pst_service *service, int fd, struct pst_error *err)
{
    pid_t pid = 0;
    struct psti_session *session = NULL;
    enum pst_status status = psti_share_check_peer(fd, "client", &pid, err);
    if (status == PST_OK && service->n_sessions >= PSTI_SERVE_SESSIONS_MAX)
        status = psti_fail(err, PST_ERROR_LIMIT, "serve", "%d sessions are open already",
                           PSTI_SERVE_SESSIONS_MAX);
    if (status == PST_OK && !(session = psti_calloc(1, sizeof *session)))
        status = psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a session");
    if (status == PST_OK)
        status = psti_serve_watch(service, fd, session, err);
    if (status != PST_OK) {
        psti_free(session);
        refuse(service, fd, err);
        close(fd);
        return status;
    }
    session->service = service;
    session->fd = fd;
    session->pid = pid;
    session->number = ++service->n_sessions_ever;
    session->since_ns = session->sent_ns = psti_clock_ns();
    session->next = service->sessions;
    service->sessions = session;
    service->n_sessions++;
    watch_process(session);
    return PST_OK;
}

/* Discards messages that the client has sent. If a socket is closed with unread messages, the
 * client loses the last answer. */
static void drain(struct psti_session *session)
{
    for (int i = 0; i < DRAIN_MAX; i++) {
        if (psti_share_receive(session->fd, &session->service->message, 0, NULL) != PST_OK)
            return;
        psti_serve_message_close(session->service, &session->service->message);
    }
}

void psti_serve_session_end(struct psti_session *session)
{
    pst_service *service = session->service;
    struct psti_session **at = &service->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    service->n_sessions--;
    if (session->ops && session->ops->close)
        session->ops->close(session);
    drain(session);
    /* If a forked process has a copy of the descriptor, closing alone would not stop the watch. */
    (void)epoll_ctl(service->epoll_fd, EPOLL_CTL_DEL, session->fd, NULL);
    close(session->fd);
    if (session->process_fd >= 0) {
        (void)epoll_ctl(service->epoll_fd, EPOLL_CTL_DEL, session->process_fd, NULL);
        close(session->process_fd);
    }
    while (session->outbox) {
        struct psti_packet *packet = session->outbox;
        session->outbox = packet->next;
        free_packet(packet);
    }
    psti_free(session);
}

bool psti_serve_session_is_client(const struct psti_session *session)
{
    return session->ops && session->ops->kind != PSTI_SESSION_CONTROL;
}

struct psti_wire_out psti_serve_session_answer(struct psti_session *session)
{
    return psti_share_begin(session->service->out);
}

/* Keeps a message for later, with its own copies of the descriptors. */
static void keep_packet(struct psti_session *session, size_t nbytes, const int *fds, uint32_t n_fds)
{
    struct psti_packet *packet = NULL;
    if (session->outbox_nbytes + nbytes <= PSTI_SERVE_OUTBOX_NBYTES &&
        session->outbox_fds + n_fds <= PSTI_SERVE_OUTBOX_FDS)
        packet = psti_calloc(1, sizeof *packet + nbytes);
    if (!packet) {
        psti_log(PST_LOG_WARNING, "serve", "session %llu is dropped: its client does not receive",
                 (unsigned long long)session->number);
        session->ending = true;
        return;
    }
    if (!session->outbox)
        session->outbox_ns = psti_clock_ns();
    packet->nbytes = nbytes;
    memcpy(packet->bytes, session->service->out, nbytes);
    for (; packet->n_fds < n_fds; packet->n_fds++) {
        packet->fds[packet->n_fds] = fcntl(fds[packet->n_fds], F_DUPFD_CLOEXEC, 0);
        session->ending |= packet->fds[packet->n_fds] < 0;
    }
    if (session->outbox)
        session->outbox_last->next = packet;
    else
        session->outbox = packet;
    session->outbox_last = packet;
    session->outbox_nbytes += nbytes;
    session->outbox_fds += n_fds;
    psti_serve_watch_room(session->service, session->fd, session, true);
}

void psti_serve_session_send(struct psti_session *session, struct psti_wire_out *out,
                             enum psti_message_kind kind, uint64_t id, const int *fds,
                             uint32_t n_fds)
{
    struct pst_error err;
    size_t nbytes = psti_share_finish(out, kind, id, n_fds);
    enum pst_status status = PST_OK;
    if (session->ending || nbytes == 0) {
        session->ending = true;
        return;
    }
    session->sent_ns = psti_clock_ns();
    if (session->outbox) {
        keep_packet(session, nbytes, fds, n_fds);
        return;
    }
    pst_error_clear(&err);
    status = psti_share_send(session->fd, out->bytes, nbytes, fds, n_fds, 0, &err);
    if (status == PST_ERROR_IO && err.os_error == ETIMEDOUT)
        keep_packet(session, nbytes, fds, n_fds);
    else if (status != PST_OK)
        session->ending = true;
    session->left |= status == PST_END;
}

void psti_serve_session_send_error(struct psti_session *session, uint64_t id,
                                   const struct pst_error *err)
{
    struct psti_wire_out out = psti_serve_session_answer(session);
    psti_share_put_error(&out, err);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_ERROR, id, NULL, 0);
}

void psti_serve_session_check(struct psti_session *session, int64_t now_ns)
{
    const char *what = NULL;
    if (!session->ops && now_ns - session->since_ns > GREETING_NS)
        what = "has not greeted";
    else if (session->outbox && now_ns - session->outbox_ns > READING_NS)
        what = "does not receive";
    if (!what || session->ending)
        return;
    psti_log(PST_LOG_WARNING, "serve", "session %llu (process %ld) is dropped: its client %s",
             (unsigned long long)session->number, (long)session->pid, what);
    session->ending = true;
}

void psti_serve_session_keep_alive(struct psti_session *session, int64_t now_ns)
{
    if (!session->ops || session->outbox || now_ns - session->sent_ns < ALIVE_NS ||
        !session->ops->works || !session->ops->works(session))
        return;
    struct psti_wire_out out = psti_serve_session_answer(session);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_ALIVE, 0, NULL, 0);
}

static void send_outbox(struct psti_session *session)
{
    while (session->outbox && !session->ending) {
        struct psti_packet *packet = session->outbox;
        struct pst_error err;
        pst_error_clear(&err);
        enum pst_status status = psti_share_send(session->fd, packet->bytes, packet->nbytes,
                                                 packet->fds, packet->n_fds, 0, &err);
        if (status == PST_ERROR_IO && err.os_error == ETIMEDOUT)
            return;
        session->ending |= status != PST_OK;
        session->left |= status == PST_END;
        session->outbox = packet->next;
        session->outbox_nbytes -= packet->nbytes;
        session->outbox_fds -= packet->n_fds;
        session->outbox_ns = psti_clock_ns();
        free_packet(packet);
    }
    psti_serve_watch_room(session->service, session->fd, session, false);
}

static const struct psti_session_ops *find_ops(const pst_service *service, uint32_t kind)
{
    for (const struct psti_session_ops *const *at = service->kinds; *at; at++)
        if ((uint32_t)(*at)->kind == kind)
            return *at;
    return NULL;
}

/* Handles the first message: checks versions, and sets the kind of the session. */
static enum pst_status greet(struct psti_session *session, const struct psti_message *message,
                             struct pst_error *err)
{
    struct psti_hello theirs,
        mine = {.protocol = PSTI_HOST_PROTOCOL, .session = (uint32_t)getpid()};
    struct psti_wire_in in = psti_share_message_body(message);
    if (message->head.kind != PSTI_MESSAGE_HELLO || message->n_fds > 0)
        return psti_fail(err, PST_ERROR_CORRUPT, "serve", "a session began without a greeting");
    enum pst_status status = psti_share_get_hello(&in, &theirs, err);
    if (status == PST_OK)
        status = psti_share_check_protocol(&theirs, "client", err);
    if (status != PST_OK)
        return status;
    const struct psti_session_ops *ops = find_ops(session->service, theirs.session);
    if (!ops)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "serve",
                         "this service has no sessions of kind %u", theirs.session);
    session->ops = ops;
    status = ops->open ? ops->open(session, err) : PST_OK;
    if (status != PST_OK)
        return status;
    struct psti_wire_out out = psti_serve_session_answer(session);
    snprintf(mine.version, sizeof mine.version, "%s", pst_version());
    psti_share_put_hello(&out, &mine);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_WELCOME, message->head.id, NULL, 0);
    return PST_OK;
}

/* Receives one message and handles it. */
static void receive(struct psti_session *session)
{
    struct psti_message *message = &session->service->message;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = psti_share_receive(session->fd, message, 0, &err);
    if (status == PST_ERROR_IO && err.os_error == ETIMEDOUT)
        return;
    if (status == PST_END) {
        session->ending = session->left = true;
        return;
    }
    uint64_t id = status == PST_OK ? message->head.id : 0;
    if (status == PST_OK && session->ops)
        status = session->ops->message(session, message, &err);
    else if (status == PST_OK)
        status = greet(session, message, &err);
    psti_serve_message_close(session->service, message);
    if (status == PST_OK)
        return;
    psti_log(PST_LOG_WARNING, "serve", "session %llu (process %ld) ends: %s",
             (unsigned long long)session->number, (long)session->pid, err.text);
    psti_serve_session_send_error(session, id, &err);
    session->ending = true;
}

void psti_serve_session_wake(struct psti_session *session, uint32_t events)
{
    if (!session->ending && (events & EPOLLOUT))
        send_outbox(session);
    if (!session->ending && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        receive(session);
}
