/* fleet_wire.h - one connection to a memcached server: requests in flight, and their answers.
 *
 * A request has a slot of a ring until it is answered. Its message goes out when the socket takes
 * it; answers come in the order of the requests. An answer is taken only if it names the number and
 * the key of the oldest request and is of a kind that this request may have; anything else, and a
 * length above what the request allows, ends the connection. So what a server sends can lead to an
 * end, a wait until the deadline, or the wrong value of the right key, which the caller's checksum
 * finds. Bytes of values are received at the place that the caller names.
 *
 * One thread at a time uses a connection. Nothing here waits longer than the caller says. */
#ifndef PST_FLEET_FLEET_WIRE_H
#define PST_FLEET_FLEET_WIRE_H

#include "fleet/fleet_line.h"
#include "format/format_fleet.h"

#include <penstock/status.h>

enum {
    PSTI_FLEET_SLOTS = 128,              /* largest number of requests in flight */
    PSTI_FLEET_TEXT_CAP = 192,           /* bytes of a command with a key and two numbers */
    PSTI_FLEET_IN_NBYTES = 1024,         /* received bytes that have no other place yet */
    PSTI_FLEET_AHEAD_MAX = 8,            /* answers that are received at once */
    PSTI_FLEET_AHEAD_NBYTES = 128 << 10, /* bytes of their values */
    /* All that is received at once, but for the value that has begun. */
    PSTI_FLEET_SPILL_NBYTES =
        PSTI_FLEET_AHEAD_NBYTES + PSTI_FLEET_AHEAD_MAX * 512 + PSTI_FLEET_IN_NBYTES
};
_Static_assert((int)PSTI_FLEET_IN_NBYTES > (int)PSTI_FLEET_LINE_MAX, "a line fits");

enum psti_fleet_command {
    PSTI_FLEET_GET,
    PSTI_FLEET_ADD,
    PSTI_FLEET_REPLACE, /* stores nothing where nothing is: to see if the server knows `ms` */
    PSTI_FLEET_REMOVE,
    PSTI_FLEET_LOGIN
};

/* One request that the caller makes. */
struct psti_fleet_request {
    enum psti_fleet_command command;
    uint32_t part;
    void *user;      /* of the callbacks; NULL: nobody waits for the answer */
    const char *key; /* copied; less than PSTI_FLEET_KEY_CAP bytes */
    size_t key_nbytes;
    uint64_t room;        /* GET: most bytes of a value */
    const uint8_t *head;  /* ADD: PSTI_FLEET_HEADER_NBYTES bytes, copied; NULL: none */
    const uint8_t *bytes; /* what follows them (ADD), or all: kept by the caller until the answer */
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
    size_t key_at, key_nbytes; /* in `text` */
    char text[PSTI_FLEET_TEXT_CAP];
    uint8_t head[PSTI_FLEET_HEADER_NBYTES];
};

/* The value that is being received. */
struct psti_fleet_value {
    uint64_t nbytes; /* as the server says, at most the request's room */
    uint8_t head[PSTI_FLEET_HEADER_NBYTES];
    size_t head_nbytes;
    uint8_t *bytes;  /* place of the bytes after the header; NULL: they are thrown away */
    uint64_t n_here; /* of them */
};

enum psti_fleet_stage {
    PSTI_FLEET_STAGE_LINE,
    PSTI_FLEET_STAGE_HEAD,
    PSTI_FLEET_STAGE_BYTES,
    PSTI_FLEET_STAGE_END
};

struct psti_fleet_wire {
    /* Constant while it is open: */
    int fd, wake_fd; /* a readable wake_fd ends a wait; fd is -1 while it is closed */
    int64_t patience_ns;
    void *ctx;
    /* Places the bytes of a value whose header (head_nbytes of it) is here: room for value.nbytes -
     * head_nbytes bytes. NULL: they are thrown away. */
    uint8_t *(*place)(void *ctx, const struct psti_fleet_slot *slot,
                      const struct psti_fleet_value *value);
    /* The place that a value with the request's full room would have. NULL: not known. What is
     * there may be overwritten, whatever the answer is. */
    uint8_t *(*expect)(void *ctx, const struct psti_fleet_slot *slot);
    /* The slot's request was answered, and has a value if that is what was said. */
    void (*answered)(void *ctx, const struct psti_fleet_slot *slot, enum psti_fleet_said said,
                     const struct psti_fleet_value *value);

    /* Kept until psti_fleet_wire_free: */
    struct psti_fleet_slot *slots; /* [PSTI_FLEET_SLOTS] */
    uint8_t *spill; /* [PSTI_FLEET_SPILL_NBYTES]: answers that were expected otherwise */

    uint32_t first, n;           /* requests in flight */
    uint32_t n_sent;             /* of them, whole */
    size_t sent_nbytes;          /* bytes sent of the next request */
    uint64_t nbytes;             /* that all requests in flight may send and receive */
    uint64_t opaque;             /* number of the newest request */
    int64_t progress_ns;         /* of the newest answer; before it, of the first request */
    enum psti_fleet_stage stage; /* of the answer to the oldest request */
    struct psti_fleet_value value;
    char in[PSTI_FLEET_IN_NBYTES];
    size_t in_at, in_n; /* received and not used yet: in[in_at] to in[in_n - 1] */
    char why[192];      /* why the connection failed */
};

/* fleet_wire.c */
/* Takes the connected socket fd, which it closes in the end. The caller has set the other constant
 * members. False: no memory; fd is closed. */
bool psti_fleet_wire_open(struct psti_fleet_wire *wire, int fd);
void psti_fleet_wire_close(struct psti_fleet_wire *wire);
/* Frees the memory of a closed connection. */
void psti_fleet_wire_free(struct psti_fleet_wire *wire);
bool psti_fleet_wire_is_full(const struct psti_fleet_wire *wire);
/* Adds a request to the ring, which is not full. */
void psti_fleet_wire_ask(struct psti_fleet_wire *wire, const struct psti_fleet_request *request);
/* Nobody waits any more for answers to the user's requests. Their values are thrown away. */
void psti_fleet_wire_forget(struct psti_fleet_wire *wire, const void *user);
/* Sends what the socket takes, waits for an answer until a time of psti_clock_ns at most, and takes
 * what has come. False: the connection is of no use any more, and `why` says why: it broke, no
 * request was answered for patience_ns, or the server sent what was not asked for (*lied). */
bool psti_fleet_wire_run(struct psti_fleet_wire *wire, int64_t until_ns, bool *lied);

/* fleet_receive.c */
/* Receives the bytes that have come, and takes the answers in them. Returns as
 * psti_fleet_wire_run does. */
bool psti_fleet_wire_receive(struct psti_fleet_wire *wire, bool *lied);

/* fleet_take.c */
/* Takes the answers in the bytes that were received. *lied is set only if it returns false. */
bool psti_fleet_wire_take(struct psti_fleet_wire *wire, bool *lied);
/* True if an answer is here that comes early, as refusals may: first the rest of its request has to
 * go out. */
bool psti_fleet_wire_waits(const struct psti_fleet_wire *wire);
/* Notes why the connection is of no use any more. Returns false. */
bool psti_fleet_wire_fail(struct psti_fleet_wire *wire, const char *format, ...) PST_PRINTF(2, 3);

#endif
