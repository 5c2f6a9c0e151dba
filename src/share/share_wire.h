/* share_wire.h - the messages between the host service and its clients, as
 * docs/internals/host-protocol.md states them.
 *
 * Pure functions, as those of format/: they convert values to bytes and bytes to values, and trust
 * no byte. A message is a head and a body. What does not fit into one, such as a list of a million
 * weights, goes as a blob (base/files/sealed.h) whose descriptor comes with the message. */
#ifndef PST_SHARE_SHARE_WIRE_H
#define PST_SHARE_SHARE_WIRE_H

#include <penstock/status.h>

#include <stdbool.h>

#define PSTI_HOST_PROTOCOL 8u /* both sides must have the same */

enum {
    PSTI_MESSAGE_HEAD_NBYTES = 24,
    PSTI_MESSAGE_NBYTES = 65536, /* longest message, with its head */
    PSTI_MESSAGE_FDS = 250,      /* most descriptors with a message; Linux takes 253 */
    PSTI_VERSION_CAP = 32,       /* bytes of the text of a library's version, with its NUL */
    PSTI_TEXT_CAP = 4096         /* most bytes of a text in a message, with its NUL */
};

/* Each session has one purpose, which its first message names. */
enum psti_session_kind {
    PSTI_SESSION_CACHE = 1,  /* data sets of the host cache */
    PSTI_SESSION_STREAM = 2, /* one loader of a share group */
    PSTI_SESSION_CONTROL = 3 /* status, saving, loading, clearing, stopping */
};

/* Kinds of messages. C: sent by clients. S: sent by the service. */
enum psti_message_kind {
    /* of every session */
    PSTI_MESSAGE_HELLO = 1,   /* C: the first one */
    PSTI_MESSAGE_WELCOME = 2, /* S: the answer to it */
    PSTI_MESSAGE_ERROR = 3,   /* S: a request failed; `id` is that of the request */
    PSTI_MESSAGE_ALIVE = 4,   /* S: the service still works on what the client waits for */
    PSTI_MESSAGE_DONE = 5,    /* S: a request without any other answer was done */
    /* PSTI_SESSION_CACHE (share_cache_wire.h) */
    PSTI_MESSAGE_CACHE_OPEN = 16,   /* C */
    PSTI_MESSAGE_CACHE_OPENED = 17, /* S */
    PSTI_MESSAGE_CACHE_READ = 18,   /* C */
    PSTI_MESSAGE_CACHE_READY = 19,  /* S */
    PSTI_MESSAGE_CACHE_USE = 20,    /* C: hits, items that the service read, misses so far */
    PSTI_MESSAGE_CACHE_ROUND = 21,  /* S: who reads items of the set now? */
    PSTI_MESSAGE_CACHE_ROUND_ENDED = 22, /* C: who did has left */
    /* PSTI_SESSION_CONTROL (share_control_wire.h) */
    PSTI_MESSAGE_STATUS = 32,    /* C */
    PSTI_MESSAGE_STATUS_IS = 33, /* S */
    PSTI_MESSAGE_SAVE = 34,      /* C */
    PSTI_MESSAGE_LOAD = 35,      /* C */
    PSTI_MESSAGE_FILE_IS = 36,   /* S */
    PSTI_MESSAGE_CLEAR = 37,     /* C */
    PSTI_MESSAGE_STOP = 38,      /* C */
    /* 48 to 79 are messages of sessions of the kind PSTI_SESSION_STREAM. */
    PSTI_MESSAGE_STREAM_FIRST = 48,
    PSTI_MESSAGE_STREAM_LAST = 79
};

struct psti_message_head {
    uint16_t kind;
    uint16_t n_fds;  /* descriptors that come with the message */
    uint32_t nbytes; /* of the whole message */
    uint64_t id;     /* chosen by the client for a request; the answer has the same */
};

/* Writes values one after the other. `full` becomes true if they do not fit; nothing more is
 * written then. */
struct psti_wire_out {
    uint8_t *bytes;
    size_t capacity, nbytes;
    bool full;
};
void psti_share_put_u32(struct psti_wire_out *out, uint32_t value);
void psti_share_put_u64(struct psti_wire_out *out, uint64_t value);
void psti_share_put_f64(struct psti_wire_out *out, double value);
void psti_share_put_bytes(struct psti_wire_out *out, const void *bytes, size_t nbytes);
/* Length (u32), bytes without NUL. NULL is written as length UINT32_MAX. */
void psti_share_put_text(struct psti_wire_out *out, const char *text);
void psti_share_put_error(struct psti_wire_out *out, const struct pst_error *err);

/* Reads them. `bad` becomes true if the bytes end too early or cannot be such a value; zeros are
 * read from then on. */
struct psti_wire_in {
    const uint8_t *bytes;
    size_t nbytes, at;
    bool bad;
};
uint32_t psti_share_get_u32(struct psti_wire_in *in);
uint64_t psti_share_get_u64(struct psti_wire_in *in);
double psti_share_get_f64(struct psti_wire_in *in);
void psti_share_get_bytes(struct psti_wire_in *in, void *bytes, size_t nbytes);
/* Reads a text of less than `capacity` bytes, without a NUL within, and ends it with a NUL. Returns
 * false if NULL was written, or `bad`; the text is empty then. */
bool psti_share_get_text(struct psti_wire_in *in, char *text, size_t capacity);
void psti_share_get_error(struct psti_wire_in *in, struct pst_error *err);
/* PST_ERROR_CORRUPT if `bad`, or if bytes are left. `what` names the message. */
enum pst_status psti_share_end(const struct psti_wire_in *in, const char *what,
                               struct pst_error *err);

/* Begins a message in `bytes` (PSTI_MESSAGE_NBYTES): leaves room for the head. */
struct psti_wire_out psti_share_begin(uint8_t *bytes);
/* Writes the head, after the body. Returns the message's length, or 0 if it is too long. */
size_t psti_share_finish(struct psti_wire_out *out, enum psti_message_kind kind, uint64_t id,
                         uint32_t n_fds);
/* Parses the head of a message of nbytes. PST_ERROR_CORRUPT: it is none, or has another length. */
enum pst_status psti_share_parse_head(const void *bytes, size_t nbytes,
                                      struct psti_message_head *head, struct pst_error *err);
/* The body of a message whose head was parsed. */
struct psti_wire_in psti_share_body(const void *bytes, size_t nbytes);

struct psti_hello {
    uint32_t protocol;
    uint32_t session; /* enum psti_session_kind */
    char version[PSTI_VERSION_CAP];
};
/* The service's answer has the same layout, with the process's number for the kind of session. */
void psti_share_put_hello(struct psti_wire_out *out, const struct psti_hello *hello);
/* Never an error because of another protocol: the caller says so, with both versions. The bytes
 * after these are ignored, so that later protocols may add to them. */
enum pst_status psti_share_get_hello(struct psti_wire_in *in, struct psti_hello *hello,
                                     struct pst_error *err);
/* PST_ERROR_VERSION if the other side's protocol is another one. */
enum pst_status psti_share_check_protocol(const struct psti_hello *theirs, const char *who,
                                          struct pst_error *err);

#endif
