/* fleet_wire.c - the ring of requests in flight, writing their messages, sending and waiting. */
#include "fleet/fleet_wire.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "fleet/fleet_link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IOV_MAX_USED = 64, PIECES = 4 };

bool psti_fleet_wire_open(struct psti_fleet_wire *wire, int fd)
{
    if (!wire->slots)
        wire->slots = psti_alloc_array(PSTI_FLEET_SLOTS, sizeof *wire->slots);
    if (!wire->spill)
        wire->spill = psti_alloc(PSTI_FLEET_SPILL_NBYTES);
    if (!wire->slots || !wire->spill) {
        close(fd);
        return psti_fleet_wire_fail(wire, "no memory for requests");
    }
    wire->fd = fd;
    wire->first = wire->n = wire->n_sent = 0;
    wire->sent_nbytes = wire->in_at = wire->in_n = 0;
    wire->nbytes = 0;
    wire->stage = PSTI_FLEET_STAGE_LINE;
    wire->why[0] = 0;
    return true;
}

void psti_fleet_wire_close(struct psti_fleet_wire *wire)
{
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
    wire->n = wire->n_sent = 0;
    wire->nbytes = 0;
}

void psti_fleet_wire_free(struct psti_fleet_wire *wire)
{
    psti_free(wire->slots);
    psti_free(wire->spill);
    wire->slots = NULL;
    wire->spill = NULL;
}

bool psti_fleet_wire_is_full(const struct psti_fleet_wire *wire)
{
    return wire->n == PSTI_FLEET_SLOTS;
}

static struct psti_fleet_slot *slot_at(const struct psti_fleet_wire *wire, uint32_t i)
{
    return &wire->slots[(wire->first + i) % PSTI_FLEET_SLOTS];
}

static bool has_data(enum psti_fleet_command command)
{
    return command == PSTI_FLEET_ADD || command == PSTI_FLEET_REPLACE ||
           command == PSTI_FLEET_LOGIN;
}

static char *put(char *at, const char *text, size_t nbytes)
{
    memcpy(at, text, nbytes);
    return at + nbytes;
}

#define PUT(at, text) put(at, text, sizeof(text) - 1)

/* Writes the command's line. The flags `v`, `k` and `O` ask for the value, the key and the number
 * in the answer; ME means add, MR means replace. printf would take a tenth of a request's time. */
static void write_line(struct psti_fleet_slot *slot, const struct psti_fleet_request *request)
{
    static const char *const names[] = {[PSTI_FLEET_GET] = "mg ",
                                        [PSTI_FLEET_ADD] = "ms ",
                                        [PSTI_FLEET_REPLACE] = "ms ",
                                        [PSTI_FLEET_REMOVE] = "md ",
                                        [PSTI_FLEET_LOGIN] = "set "};
    const char *name = names[request->command];
    size_t nbytes = slot->head_nbytes + slot->nbytes;
    char *at = put(slot->text, name, strlen(name));
    slot->key_at = (size_t)(at - slot->text);
    at = put(at, request->key, request->key_nbytes);
    switch (request->command) {
    case PSTI_FLEET_GET:
        at = PUT(at, " v");
        break;
    case PSTI_FLEET_ADD:
        at = PUT(psti_fleet_line_number(PUT(at, " "), nbytes, 10), " ME");
        break;
    case PSTI_FLEET_REPLACE:
        at = PUT(psti_fleet_line_number(PUT(at, " "), nbytes, 10), " MR");
        break;
    case PSTI_FLEET_REMOVE:
        break;
    case PSTI_FLEET_LOGIN: /* a login by the text protocol: any key, with "user password" as its
                              value */
        at = psti_fleet_line_number(PUT(at, " 0 0 "), nbytes, 10);
        break;
    }
    if (request->command != PSTI_FLEET_LOGIN)
        at = psti_fleet_line_number(PUT(at, " k O"), slot->opaque, 16);
    at = PUT(at, "\r\n");
    slot->text_nbytes = (size_t)(at - slot->text);
}

void psti_fleet_wire_ask(struct psti_fleet_wire *wire, const struct psti_fleet_request *request)
{
    struct psti_fleet_slot *slot = slot_at(wire, wire->n);
    slot->command = request->command;
    slot->part = request->part;
    slot->user = request->user;
    slot->opaque = ++wire->opaque;
    slot->room = request->room;
    slot->bytes = request->bytes;
    slot->nbytes = request->nbytes;
    slot->head_nbytes = request->head ? sizeof slot->head : 0;
    slot->key_nbytes = request->key_nbytes;
    if (request->head)
        memcpy(slot->head, request->head, sizeof slot->head);
    write_line(slot, request);
    wire->nbytes += slot->room + slot->nbytes;
    if (wire->n == 0)
        wire->progress_ns = psti_clock_ns();
    wire->n++;
}

void psti_fleet_wire_forget(struct psti_fleet_wire *wire, const void *user)
{
    for (uint32_t i = 0; i < wire->n; i++) {
        struct psti_fleet_slot *slot = slot_at(wire, i);
        if (slot->user != user)
            continue;
        slot->user = NULL;
        if (i == 0)
            wire->value.bytes = NULL;
    }
}

/* Adds the part of a piece that follows its first *skip bytes. */
static void add_piece(struct iovec *pieces, int *n, const void *bytes, size_t nbytes, size_t *skip)
{
    if (*skip >= nbytes) {
        *skip -= nbytes;
        return;
    }
    pieces[(*n)++] = (struct iovec){(char *)(uintptr_t)bytes + *skip, nbytes - *skip};
    *skip = 0;
}

static size_t message_nbytes(const struct psti_fleet_slot *slot)
{
    return slot->text_nbytes + slot->head_nbytes + slot->nbytes + (has_data(slot->command) ? 2 : 0);
}

/* Gathers the unsent pieces of requests. Returns their number. */
static int gather(const struct psti_fleet_wire *wire, struct iovec pieces[IOV_MAX_USED])
{
    int n = 0;
    size_t skip = wire->sent_nbytes;
    for (uint32_t i = wire->n_sent; i < wire->n && n + PIECES <= IOV_MAX_USED; i++) {
        const struct psti_fleet_slot *slot = slot_at(wire, i);
        add_piece(pieces, &n, slot->text, slot->text_nbytes, &skip);
        add_piece(pieces, &n, slot->head, slot->head_nbytes, &skip);
        add_piece(pieces, &n, slot->bytes, slot->nbytes, &skip);
        if (has_data(slot->command))
            add_piece(pieces, &n, "\r\n", 2, &skip);
    }
    return n;
}

static void count_sent(struct psti_fleet_wire *wire, size_t nbytes)
{
    wire->sent_nbytes += nbytes;
    while (wire->n_sent < wire->n) {
        size_t whole = message_nbytes(slot_at(wire, wire->n_sent));
        if (wire->sent_nbytes < whole)
            break;
        wire->sent_nbytes -= whole;
        wire->n_sent++;
    }
}

/* Sends until everything is sent or the socket takes no more. */
static bool send_all(struct psti_fleet_wire *wire)
{
    while (wire->n_sent < wire->n) {
        struct iovec pieces[IOV_MAX_USED];
        struct msghdr message = {.msg_iov = pieces};
        message.msg_iovlen = (size_t)gather(wire, pieces);
        ssize_t n = sendmsg(wire->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            count_sent(wire, (size_t)n);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        else if (errno != EINTR)
            return psti_fleet_wire_fail(wire, "cannot send: %s", strerror(errno));
    }
    return true;
}

bool psti_fleet_wire_run(struct psti_fleet_wire *wire, int64_t until_ns, bool *lied)
{
    int64_t patience_ends = wire->n ? wire->progress_ns + wire->patience_ns : INT64_MAX;
    *lied = false;
    if (!send_all(wire) || !psti_fleet_wire_take(wire, lied))
        return false;
    /* Answers that have already arrived may wait until the rest of their request is sent. */
    bool sends = wire->n_sent < wire->n, receives = wire->in_at == wire->in_n || !sends;
    int events =
        psti_fleet_link_wait(wire->fd, (sends ? POLLOUT : 0) | (receives ? POLLIN : 0),
                             wire->wake_fd, until_ns < patience_ends ? until_ns : patience_ends);
    if ((events & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) && receives)
        return psti_fleet_wire_receive(wire, lied);
    if (!receives && (events & (POLLERR | POLLNVAL)))
        return psti_fleet_wire_fail(wire, "the connection broke");
    if (psti_clock_ns() >= patience_ends)
        return psti_fleet_wire_fail(wire, "it gave no answer in time");
    return true;
}
