/* fleet_wire.h - one connection to a memcached server: requests in flight, and their answers.
 *
 * A request has a slot in a ring until it is answered. Its message is sent when the socket takes
 * it; answers arrive in the order of the requests. An answer is accepted only if it names the
 * number and the key of the oldest request and is of a kind that this request may get. Any other
 * answer, and a length above what the request allows, ends the connection. So a server can at worst
 * cause the end of the connection, a wait until the deadline, or a wrong value for the right key,
 * which the caller's checksum detects. Bytes of values are received directly into the caller's
 * buffer.
 *
 * Only one thread at a time uses a connection. No function waits longer than the caller allows. */
#ifndef PST_FLEET_FLEET_WIRE_H
#define PST_FLEET_FLEET_WIRE_H

#include "fleet/fleet_line.h"
#include "format/format_fleet.h"

#include <penstock/status.h>

enum {
    PSTI_FLEET_SLOTS = 128,              /* maximum number of requests in flight */
    PSTI_FLEET_TEXT_CAP = 192,           /* bytes of a command with a key and two numbers */
    PSTI_FLEET_IN_NBYTES = 1024,         /* bytes of the buffer for lines and headers */
    PSTI_FLEET_AHEAD_MAX = 8,            /* maximum number of answers that one system call
                                            receives */
    PSTI_FLEET_AHEAD_NBYTES = 128 << 10, /* maximum number of bytes of values that one system call
                                            receives */
    /* Maximum number of bytes that one system call receives, besides the value that is being
     * received. */
    PSTI_FLEET_SPILL_NBYTES =
        PSTI_FLEET_AHEAD_NBYTES + PSTI_FLEET_AHEAD_MAX * 512 + PSTI_FLEET_IN_NBYTES
};
_Static_assert((int)PSTI_FLEET_IN_NBYTES > (int)PSTI_FLEET_LINE_MAX, "a line fits");

enum psti_fleet_command {
    PSTI_FLEET_GET,
    PSTI_FLEET_ADD,
    PSTI_FLEET_REPLACE, /* stores only over an existing item; tests whether the server knows `ms` */
    PSTI_FLEET_REMOVE,
    PSTI_FLEET_LOGIN
};

/* One request that the caller makes. */
struct psti_fleet_request {
    enum psti_fleet_command command;
    uint32_t part;
    void *user;      /* argument for the callbacks; NULL: no answer is wanted */
    const char *key; /* copied; less than PSTI_FLEET_KEY_CAP bytes */
    size_t key_nbytes;
    uint64_t room;        /* GET: largest length of a value */
    const uint8_t *head;  /* ADD: PSTI_FLEET_HEADER_NBYTES bytes, copied; NULL: none */
    const uint8_t *bytes; /* ADD: the bytes after `head`; others: all bytes. The caller keeps
                             them until the answer */
    size_t nbytes;
};

/* A request in flight. */
struct psti_fleet_slot {
    enum psti_fleet_command command;
    uint32_t part;
    void *user;
    uint64_t opaque, room;
    const uint8_t *bytes;
    size_t nbytes, head_nbytes, text_nbytes;
    size_t key_at, key_nbytes; /* offset and length of the key in `text` */
    char text[PSTI_FLEET_TEXT_CAP];
    uint8_t head[PSTI_FLEET_HEADER_NBYTES];
};

/* The value that is being received. */
struct psti_fleet_value {
    uint64_t nbytes; /* length that the server announced, at most the request's `room` */
    uint8_t head[PSTI_FLEET_HEADER_NBYTES];
    size_t head_nbytes;
    uint8_t *bytes;  /* buffer for the bytes after the header; NULL: they are discarded */
    uint64_t n_here; /* bytes received after the header */
};

enum psti_fleet_stage {
    PSTI_FLEET_STAGE_LINE,
    PSTI_FLEET_STAGE_HEAD,
    PSTI_FLEET_STAGE_BYTES,
    PSTI_FLEET_STAGE_END
};

struct psti_fleet_wire {
    /* Constant while the connection is open: */
    int fd, wake_fd; /* a readable wake_fd ends a wait; fd is -1 while closed */
    int64_t patience_ns;
    void *ctx;
    /* Returns the buffer for a value whose header (head_nbytes of it) was received, with space for
     * value.nbytes - head_nbytes bytes. NULL: the bytes are discarded. */
    uint8_t *(*place)(void *ctx, const struct psti_fleet_slot *slot,
                      const struct psti_fleet_value *value);
    /* Returns the buffer that a value with the request's full length would get; NULL: unknown. Its
     * contents may be overwritten, whatever the answer is. */
    uint8_t *(*expect)(void *ctx, const struct psti_fleet_slot *slot);
    /* Called when the slot's request was answered. `value` is set if `said` is
     * PSTI_FLEET_SAID_VALUE. */
    void (*answered)(void *ctx, const struct psti_fleet_slot *slot, enum psti_fleet_said said,
                     const struct psti_fleet_value *value);

    /* Memory that is kept until psti_fleet_wire_free: */
    struct psti_fleet_slot *slots; /* [PSTI_FLEET_SLOTS] */
    uint8_t *spill; /* [PSTI_FLEET_SPILL_NBYTES]: received answers that differ from the expected
                       ones */

    uint32_t first, n;           /* requests in flight */
    uint32_t n_sent;             /* number of requests in flight that were sent completely */
    size_t sent_nbytes;          /* bytes sent of the next request */
    uint64_t nbytes;             /* bytes that all requests in flight may send and receive */
    uint64_t opaque;             /* number of the newest request, which its answer repeats */
    int64_t progress_ns;         /* time of the newest answer; before any answer, time of the
                                    first request */
    enum psti_fleet_stage stage; /* state of parsing the answer to the oldest request */
    struct psti_fleet_value value;
    char in[PSTI_FLEET_IN_NBYTES];
    size_t in_at, in_n; /* bytes that were received but not parsed yet: in[in_at] to in[in_n - 1] */
    char why[192];      /* why the connection failed */
};

/* fleet_wire.c */
/* Takes over the connected socket fd, and closes it later. The caller has set the other constant
 * members. False: out of memory, and fd is closed. */
bool psti_fleet_wire_open(struct psti_fleet_wire *wire, int fd);
void psti_fleet_wire_close(struct psti_fleet_wire *wire);
/* Frees the memory of a closed connection. */
void psti_fleet_wire_free(struct psti_fleet_wire *wire);
bool psti_fleet_wire_is_full(const struct psti_fleet_wire *wire);
/* Adds a request to the ring, which must not be full. */
void psti_fleet_wire_ask(struct psti_fleet_wire *wire, const struct psti_fleet_request *request);
/* Makes the connection discard the answers to the user's requests. */
void psti_fleet_wire_forget(struct psti_fleet_wire *wire, const void *user);
/* Sends as much as the socket takes, waits for an answer, at most until a time of psti_clock_ns,
 * and parses what has arrived. False: the connection is unusable, and `why` tells the reason: it
 * broke, no request was answered for patience_ns, or the server sent something that was not asked
 * for (*lied). */
bool psti_fleet_wire_run(struct psti_fleet_wire *wire, int64_t until_ns, bool *lied);

/* fleet_receive.c */
/* Receives the bytes that have arrived, and parses the answers in them. Returns the same as
 * psti_fleet_wire_run. */
bool psti_fleet_wire_receive(struct psti_fleet_wire *wire, bool *lied);

/* fleet_take.c */
/* Parses the answers in the bytes that were received. *lied is set only if it returns false. */
bool psti_fleet_wire_take(struct psti_fleet_wire *wire, bool *lied);
/* True if an answer arrived early, as refusals may. The rest of its request must be sent first. */
bool psti_fleet_wire_waits(const struct psti_fleet_wire *wire);
/* Notes why the connection is unusable. Returns false. */
bool psti_fleet_wire_fail(struct psti_fleet_wire *wire, const char *format, ...) PST_PRINTF(2, 3);

#endif
