/* fleet_receive.c - receives answers, the values at their places.
 *
 * Most answers are whole parts, and their lines can be written before they come. So one call
 * receives the rest of a value, the next line and header, the next value, and so on, each at its
 * place. Lines are compared with what was expected before the bytes behind them count. If one
 * differs, all from it on is put together again in `spill`, before anything can be written over it,
 * and is taken as bytes that come in one piece are. */
#include "fleet/fleet_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define RECEIVES_MAX 64 /* before the caller has a turn */

enum { LINE_CAP = 2 + PSTI_FLEET_TEXT_CAP, TAIL_NBYTES = 512 };

/* An answer that is expected. Its parts in the order in which they come: the end of the value
 * before it, its line, its header, its value. */
struct expected {
    char line[LINE_CAP], got[LINE_CAP + PSTI_FLEET_HEADER_NBYTES];
    size_t n_line, n_got; /* of the line, without the header; of line and header, received */
    uint8_t *bytes;
    size_t nbytes, n_bytes; /* of the value behind the header; received */
};

struct ahead {
    size_t direct; /* missing bytes of the value that has begun */
    uint32_t n;
    struct expected answers[PSTI_FLEET_AHEAD_MAX];
    char tail[TAIL_NBYTES];
    size_t n_tail;
};

/* Fills in what is expected for the i-th request in flight. False: nothing is known. */
static bool expect_one(const struct psti_fleet_wire *wire, uint32_t i, struct expected *e)
{
    const struct psti_fleet_slot *slot = &wire->slots[(wire->first + i) % PSTI_FLEET_SLOTS];
    if (slot->command != PSTI_FLEET_GET || !slot->user || slot->room <= PSTI_FLEET_HEADER_NBYTES ||
        slot->room > PSTI_FLEET_AHEAD_NBYTES)
        return false;
    e->bytes = wire->expect(wire->ctx, slot);
    e->nbytes = (size_t)slot->room - PSTI_FLEET_HEADER_NBYTES;
    size_t n_end = i > 0 ? 2 : 0; /* of the value before it */
    memcpy(e->line, "\r\n", n_end);
    e->n_line =
        n_end + psti_fleet_line_of_value(e->line + n_end, slot->room, slot->text + slot->key_at,
                                         slot->key_nbytes, slot->opaque);
    return e->bytes != NULL;
}

/* Finds which answers are expected next. ahead->n becomes 0 if that is not known. */
static void look_ahead(const struct psti_fleet_wire *wire, struct ahead *ahead)
{
    const struct psti_fleet_value *value = &wire->value;
    bool has_begun = wire->stage != PSTI_FLEET_STAGE_LINE;
    size_t nbytes = 0;
    ahead->n = 0;
    ahead->direct = 0;
    if (wire->in_n > 0 || wire->stage == PSTI_FLEET_STAGE_HEAD)
        return;
    if (wire->stage == PSTI_FLEET_STAGE_BYTES) {
        if (!value->bytes)
            return;
        ahead->direct = (size_t)(value->nbytes - value->head_nbytes - value->n_here);
    }
    for (uint32_t i = has_begun; i < wire->n_sent && ahead->n < PSTI_FLEET_AHEAD_MAX; i++) {
        struct expected *e = &ahead->answers[ahead->n];
        if (!expect_one(wire, i, e) || nbytes + e->nbytes > PSTI_FLEET_AHEAD_NBYTES)
            break;
        nbytes += e->nbytes;
        ahead->n++;
    }
}

/* Receives to the pieces. Returns the number of bytes, 0 for none now, or -1 if it failed. *full:
 * all that there was room for has come. */
static ssize_t receive(struct psti_fleet_wire *wire, struct iovec *pieces, size_t n_pieces,
                       bool *full)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = n_pieces};
    size_t room = 0;
    for (size_t i = 0; i < n_pieces; i++)
        room += pieces[i].iov_len;
    ssize_t n = recvmsg(wire->fd, &message, MSG_DONTWAIT);
    *full = n > 0 && (size_t)n == room;
    if (n > 0)
        return n;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (n < 0)
        (void)psti_fleet_wire_fail(wire, "cannot receive: %s", strerror(errno));
    else
        (void)psti_fleet_wire_fail(wire, "it has closed the connection");
    return -1;
}

/* Takes bytes that came in one piece. */
static bool feed(struct psti_fleet_wire *wire, const void *bytes, size_t nbytes, bool *lied)
{
    const char *at = bytes;
    while (nbytes > 0) {
        size_t room = sizeof wire->in - wire->in_n, n = nbytes < room ? nbytes : room;
        *lied = n == 0;
        if (n == 0)
            return psti_fleet_wire_fail(wire, "it has answered before it was asked");
        memcpy(wire->in + wire->in_n, at, n);
        wire->in_n += n;
        at += n;
        nbytes -= n;
        if (!psti_fleet_wire_take(wire, lied))
            return false;
    }
    return true;
}

static size_t min_of(size_t a, size_t b) { return a < b ? a : b; }

/* Receives at the places of what is expected. Returns as `receive`. */
static ssize_t receive_at_places(struct psti_fleet_wire *wire, struct ahead *ahead, bool *full)
{
    struct iovec pieces[2 + 2 * PSTI_FLEET_AHEAD_MAX];
    size_t n_pieces = 0;
    if (ahead->direct)
        pieces[n_pieces++] = (struct iovec){wire->value.bytes + wire->value.n_here, ahead->direct};
    for (uint32_t i = 0; i < ahead->n; i++) {
        struct expected *e = &ahead->answers[i];
        pieces[n_pieces++] = (struct iovec){e->got, e->n_line + PSTI_FLEET_HEADER_NBYTES};
        pieces[n_pieces++] = (struct iovec){e->bytes, e->nbytes};
    }
    pieces[n_pieces++] = (struct iovec){ahead->tail, sizeof ahead->tail};
    ssize_t n = receive(wire, pieces, n_pieces, full);
    size_t left = n > 0 ? (size_t)n : 0, direct = min_of(left, ahead->direct);
    wire->value.n_here += direct;
    left -= direct;
    for (uint32_t i = 0; i < ahead->n; i++) {
        struct expected *e = &ahead->answers[i];
        left -= e->n_got = min_of(left, e->n_line + PSTI_FLEET_HEADER_NBYTES);
        left -= e->n_bytes = min_of(left, e->nbytes);
    }
    ahead->n_tail = left;
    return n;
}

/* Puts together what came from the i-th expected answer on, and takes it. */
static bool take_otherwise(struct psti_fleet_wire *wire, const struct ahead *ahead, uint32_t i,
                           bool *lied)
{
    size_t n = 0;
    for (; i < ahead->n; i++) {
        const struct expected *e = &ahead->answers[i];
        memcpy(wire->spill + n, e->got, e->n_got);
        memcpy(wire->spill + n + e->n_got, e->bytes, e->n_bytes);
        n += e->n_got + e->n_bytes;
    }
    memcpy(wire->spill + n, ahead->tail, ahead->n_tail);
    return feed(wire, wire->spill, n + ahead->n_tail, lied);
}

/* Takes an answer whose line and header are here. Its bytes are in their place. */
static bool take_expected(struct psti_fleet_wire *wire, const struct expected *e, bool *lied)
{
    if (!feed(wire, e->got, e->n_got, lied))
        return false;
    /* It was read as a value of that length: its bytes are here, even if they are thrown away. */
    wire->value.n_here += e->n_bytes;
    return true;
}

static bool take_ahead(struct psti_fleet_wire *wire, const struct ahead *ahead, bool *lied)
{
    for (uint32_t i = 0; i < ahead->n; i++) {
        const struct expected *e = &ahead->answers[i];
        if (e->n_got < e->n_line + PSTI_FLEET_HEADER_NBYTES ||
            memcmp(e->got, e->line, e->n_line) != 0)
            return take_otherwise(wire, ahead, i, lied);
        if (!take_expected(wire, e, lied))
            return false;
    }
    return ahead->n_tail ? feed(wire, ahead->tail, ahead->n_tail, lied)
                         : psti_fleet_wire_take(wire, lied);
}

/* Receives once what is not known before it comes. */
static bool receive_in(struct psti_fleet_wire *wire, bool *full, bool *lied)
{
    struct iovec piece = {wire->in + wire->in_n, sizeof wire->in - wire->in_n};
    ssize_t n = receive(wire, &piece, 1, full);
    if (n < 0)
        return false;
    wire->in_n += (size_t)n;
    return psti_fleet_wire_take(wire, lied);
}

bool psti_fleet_wire_receive(struct psti_fleet_wire *wire, bool *lied)
{
    bool full = true, good = true;
    *lied = false;
    for (int i = 0; i < RECEIVES_MAX && good && full && wire->n > 0 && !psti_fleet_wire_waits(wire);
         i++) {
        struct ahead ahead;
        look_ahead(wire, &ahead);
        if (ahead.direct == 0 && ahead.n == 0)
            good = receive_in(wire, &full, lied);
        else
            good = receive_at_places(wire, &ahead, &full) >= 0 && take_ahead(wire, &ahead, lied);
    }
    return good;
}
