/* fleet_receive.c - receives answers, and puts values directly into their buffers.
 *
 * Most answers are complete parts whose lines are known before they arrive. So one system call
 * receives the rest of a value, the next line and header, the next value, and so on, each into its
 * own buffer. Each line is compared with the expected one before the bytes after it count. If a
 * line differs, all bytes from it on are copied to `spill`, before they can be overwritten, and are
 * parsed like any other bytes. */
#include "fleet/fleet_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define RECEIVES_MAX 64 /* maximum number of receives in a row before the caller can do other
                           work */

enum { LINE_CAP = 2 + PSTI_FLEET_TEXT_CAP, TAIL_NBYTES = 512 };

/* An expected answer. Its pieces in the order of arrival: the end of the previous value, its line,
 * its header, its value. */
struct expected {
    char line[LINE_CAP], got[LINE_CAP + PSTI_FLEET_HEADER_NBYTES];
    size_t n_line, n_got; /* n_line: bytes of the expected line, without the header; n_got: bytes
                             of line and header received */
    uint8_t *bytes;
    size_t nbytes, n_bytes; /* nbytes: bytes of the value after the header; n_bytes: those
                               received */
};

struct ahead {
    size_t direct; /* bytes still missing of the value that is being received */
    uint32_t n;
    struct expected answers[PSTI_FLEET_AHEAD_MAX];
    char tail[TAIL_NBYTES];
    size_t n_tail;
};

/* Fills in the answer expected for the i-th request in flight. False: it cannot be predicted. */
static bool expect_one(const struct psti_fleet_wire *wire, uint32_t i, struct expected *e)
{
    const struct psti_fleet_slot *slot = &wire->slots[(wire->first + i) % PSTI_FLEET_SLOTS];
    if (slot->command != PSTI_FLEET_GET || !slot->user || slot->room <= PSTI_FLEET_HEADER_NBYTES ||
        slot->room > PSTI_FLEET_AHEAD_NBYTES)
        return false;
    e->bytes = wire->expect(wire->ctx, slot);
    e->nbytes = (size_t)slot->room - PSTI_FLEET_HEADER_NBYTES;
    size_t n_end = i > 0 ? 2 : 0; /* the end of the previous value's bytes */
    memcpy(e->line, "\r\n", n_end);
    e->n_line =
        n_end + psti_fleet_line_of_value(e->line + n_end, slot->room, slot->text + slot->key_at,
                                         slot->key_nbytes, slot->opaque);
    return e->bytes != NULL;
}

/* Finds which answers are expected next. ahead->n becomes 0 if they cannot be predicted. */
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

/* Receives into the pieces. Returns the number of bytes, 0 if none are there now, or -1 after
 * failure. *full: all pieces were filled. */
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

/* Parses bytes that were received in one piece. */
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

/* Receives directly into the buffers of the expected answers. Returns the same as `receive`. */
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

/* Joins the bytes received from the i-th expected answer on, and parses them. Called if that answer
 * differs. */
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

/* Handles an answer with the expected line and header. The bytes of its value are in their buffer
 * already. */
static bool take_expected(struct psti_fleet_wire *wire, const struct expected *e, bool *lied)
{
    if (!feed(wire, e->got, e->n_got, lied))
        return false;
    /* The line announced a value of that length, so its bytes count as received, even if they are
     * discarded. */
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

/* Receives once into `in`, if the next answers cannot be predicted. */
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
