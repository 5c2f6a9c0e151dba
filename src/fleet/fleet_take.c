/* fleet_take.c - parses the answers in the bytes that a server sent.
 *
 * In: received bytes, split at any position. Out: answers to the requests in order, and the bytes
 * of values in their buffers. No byte is trusted. */
#include "fleet/fleet_wire.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool psti_fleet_wire_fail(struct psti_fleet_wire *wire, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(wire->why, sizeof wire->why, format, args);
    va_end(args);
    return false;
}

static struct psti_fleet_slot *oldest(const struct psti_fleet_wire *wire)
{
    return &wire->slots[wire->first];
}

static size_t n_in(const struct psti_fleet_wire *wire) { return wire->in_n - wire->in_at; }

/* Fails the connection because the server sent an unexpected line. */
static bool refuse_line(struct psti_fleet_wire *wire, const char *what, const char *line, size_t n)
{
    char shown[64];
    size_t n_shown = n < sizeof shown - 1 ? n : sizeof shown - 1;
    for (size_t i = 0; i < n_shown; i++)
        shown[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    shown[n_shown] = 0;
    return psti_fleet_wire_fail(wire, "%s: \"%s\"", what, shown);
}

/* Ends the oldest request, which was answered. */
static void finish(struct psti_fleet_wire *wire, enum psti_fleet_said said)
{
    struct psti_fleet_slot *slot = oldest(wire);
    wire->answered(wire->ctx, slot, said, &wire->value);
    wire->nbytes -= slot->room + slot->nbytes;
    wire->first = (wire->first + 1) % PSTI_FLEET_SLOTS;
    wire->n--;
    wire->n_sent--;
    wire->progress_ns = psti_clock_ns();
    wire->stage = PSTI_FLEET_STAGE_LINE;
}

/* True if `said` is an answer that a server may give to that command. */
static bool is_possible(enum psti_fleet_command command, enum psti_fleet_said said)
{
    switch (command) {
    case PSTI_FLEET_GET:
        return said == PSTI_FLEET_SAID_VALUE || said == PSTI_FLEET_SAID_MISS;
    case PSTI_FLEET_ADD:
    case PSTI_FLEET_REPLACE:
        return said == PSTI_FLEET_SAID_DONE || said == PSTI_FLEET_SAID_PRESENT ||
               said == PSTI_FLEET_SAID_NO_ROOM;
    case PSTI_FLEET_REMOVE:
        return said == PSTI_FLEET_SAID_DONE || said == PSTI_FLEET_SAID_ABSENT;
    default:
        return said == PSTI_FLEET_SAID_STORED;
    }
}

/* True if the answer names the request by key and number. Answers to a login and refusals name
 * none. Nor does the miss of a memcached before 1.6.18, which is only EN. */
static bool is_of(const struct psti_fleet_slot *slot, const struct psti_fleet_line *line)
{
    bool is_bare = !line->has_opaque && !line->key;
    if (line->said == PSTI_FLEET_SAID_STORED || line->said == PSTI_FLEET_SAID_NO_ROOM ||
        (line->said == PSTI_FLEET_SAID_MISS && is_bare))
        return true;
    return line->has_opaque && line->opaque == slot->opaque && line->key &&
           line->key_nbytes == slot->key_nbytes &&
           memcmp(line->key, slot->text + slot->key_at, slot->key_nbytes) == 0;
}

/* Handles a line, without its end. */
static bool take_line(struct psti_fleet_wire *wire, const char *text, size_t nbytes)
{
    const struct psti_fleet_slot *slot = oldest(wire);
    struct psti_fleet_line line;
    psti_fleet_line_read(text, nbytes, &line);
    if (!is_possible(slot->command, line.said))
        return refuse_line(wire, "an answer that is not understood", text, nbytes);
    if (!is_of(slot, &line))
        return refuse_line(wire, "an answer to something else", text, nbytes);
    wire->value = (struct psti_fleet_value){.nbytes = line.nbytes};
    if (line.said != PSTI_FLEET_SAID_VALUE) {
        finish(wire, line.said);
        return true;
    }
    if (line.nbytes > slot->room)
        return refuse_line(wire, "a value that is too long", text, nbytes);
    wire->stage = PSTI_FLEET_STAGE_HEAD;
    return true;
}

/* Finds the end of the next line. *more: it has not arrived yet. */
static bool find_line(struct psti_fleet_wire *wire, bool *more)
{
    const char *text = wire->in + wire->in_at, *end = memchr(text, '\n', n_in(wire));
    size_t nbytes = end ? (size_t)(end - text) + 1 : n_in(wire);
    *more = !end && nbytes < PSTI_FLEET_LINE_MAX;
    if (*more)
        return true;
    if (!end || nbytes > PSTI_FLEET_LINE_MAX)
        return refuse_line(wire, "a line without an end", text, nbytes);
    if (nbytes < 2 || end[-1] != '\r')
        return refuse_line(wire, "a line that ends wrongly", text, nbytes);
    wire->in_at += nbytes;
    return take_line(wire, text, nbytes - 2);
}

/* Asks for the value's buffer. Called when the header has arrived, or a value that is shorter than
 * a header. */
static void place(struct psti_fleet_wire *wire)
{
    const struct psti_fleet_slot *slot = oldest(wire);
    wire->value.bytes = slot->user ? wire->place(wire->ctx, slot, &wire->value) : NULL;
    wire->stage = PSTI_FLEET_STAGE_BYTES;
}

static void take_head(struct psti_fleet_wire *wire, bool *more)
{
    struct psti_fleet_value *value = &wire->value;
    uint64_t whole = value->nbytes < sizeof value->head ? value->nbytes : sizeof value->head;
    size_t left = (size_t)whole - value->head_nbytes, n = n_in(wire) < left ? n_in(wire) : left;
    memcpy(value->head + value->head_nbytes, wire->in + wire->in_at, n);
    value->head_nbytes += n;
    wire->in_at += n;
    *more = n < left;
    if (!*more)
        place(wire);
}

/* Returns how many bytes of the value have not arrived yet. */
static uint64_t n_missing(const struct psti_fleet_value *value)
{
    return value->nbytes - value->head_nbytes - value->n_here;
}

static void take_bytes(struct psti_fleet_wire *wire, bool *more)
{
    struct psti_fleet_value *value = &wire->value;
    uint64_t left = n_missing(value);
    size_t n = n_in(wire) < left ? n_in(wire) : (size_t)left;
    if (value->bytes)
        memcpy(value->bytes + value->n_here, wire->in + wire->in_at, n);
    value->n_here += n;
    wire->in_at += n;
    *more = n < left;
    if (!*more)
        wire->stage = PSTI_FLEET_STAGE_END;
}

static bool take_end(struct psti_fleet_wire *wire, bool *more)
{
    *more = n_in(wire) < 2;
    if (*more)
        return true;
    if (memcmp(wire->in + wire->in_at, "\r\n", 2) != 0)
        return psti_fleet_wire_fail(wire, "a value without its end");
    wire->in_at += 2;
    finish(wire, PSTI_FLEET_SAID_VALUE);
    return true;
}

/* Performs one step of parsing. *more: it needs bytes that have not arrived. */
static bool step(struct psti_fleet_wire *wire, bool *more)
{
    switch (wire->stage) {
    case PSTI_FLEET_STAGE_LINE:
        return find_line(wire, more);
    case PSTI_FLEET_STAGE_HEAD:
        take_head(wire, more);
        return true;
    case PSTI_FLEET_STAGE_BYTES:
        take_bytes(wire, more);
        return true;
    default:
        return take_end(wire, more);
    }
}

bool psti_fleet_wire_waits(const struct psti_fleet_wire *wire)
{
    return n_in(wire) > 0 && wire->n > 0 && wire->n_sent == 0;
}

bool psti_fleet_wire_take(struct psti_fleet_wire *wire, bool *lied)
{
    bool more = false, good = true;
    while (good && !more && (n_in(wire) > 0 || wire->stage != PSTI_FLEET_STAGE_LINE)) {
        if (wire->n == 0)
            good = psti_fleet_wire_fail(wire, "it has answered what nobody asked");
        else if (wire->n_sent == 0 && wire->sent_nbytes == 0)
            good = psti_fleet_wire_fail(wire, "it has answered before it was asked");
        else if (psti_fleet_wire_waits(wire))
            break;
        else
            good = step(wire, &more);
    }
    if (n_in(wire) == 0) {
        wire->in_at = wire->in_n = 0;
    } else if (wire->in_at > 0) {
        memmove(wire->in, wire->in + wire->in_at, n_in(wire));
        wire->in_n -= wire->in_at;
        wire->in_at = 0;
    }
    *lied = !good;
    return good;
}
