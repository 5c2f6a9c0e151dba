/* share_wire.h - the messages between the host service and its clients, as specified in
 * docs/internals/host-protocol.md.
 *
 * Pure functions like those of format/: they convert values to bytes and back, and trust no byte. A
 * message has a head and a body. Data that do not fit, such as a list of a million weights, are
 * sent as a blob (base/files/sealed.h), whose descriptor comes with the message. */
#ifndef PST_SHARE_SHARE_WIRE_H
#define PST_SHARE_SHARE_WIRE_H

#include <penstock/status.h>

#include <stdbool.h>

#define PSTI_HOST_PROTOCOL 8u /* version of the protocol; both sides must have the same version */

enum {
    PSTI_MESSAGE_HEAD_NBYTES = 24,
    PSTI_MESSAGE_NBYTES = 65536, /* largest message in bytes, with its head */
    PSTI_MESSAGE_FDS = 250,      /* maximum number of descriptors in a message; Linux allows 253 */
    PSTI_VERSION_CAP = 32,       /* bytes of a library version's text, with its NUL */
    PSTI_TEXT_CAP = 4096         /* maximum length of a text in a message, with its NUL */
};

/* Each session has one purpose, which its first message states. */
enum psti_session_kind {
    PSTI_SESSION_CACHE = 1,  /* data sets of the host cache */
    PSTI_SESSION_STREAM = 2, /* one loader of a share group */
    PSTI_SESSION_CONTROL = 3 /* status, saving, loading, clearing, stopping */
};

/* Kinds of messages. C: sent by clients. S: sent by the service. */
enum psti_message_kind {
    /* messages of all sessions */
    PSTI_MESSAGE_HELLO = 1,   /* C: the first message */
    PSTI_MESSAGE_WELCOME = 2, /* S: the answer to HELLO */
    PSTI_MESSAGE_ERROR = 3,   /* S: a request failed; `id` is the request's */
    PSTI_MESSAGE_ALIVE = 4,   /* S: the service is still working for the client, which waits */
    PSTI_MESSAGE_DONE = 5,    /* S: a request without any other answer was done */
    /* PSTI_SESSION_CACHE (share_cache_wire.h) */
    PSTI_MESSAGE_CACHE_OPEN = 16,   /* C */
    PSTI_MESSAGE_CACHE_OPENED = 17, /* S */
    PSTI_MESSAGE_CACHE_READ = 18,   /* C */
    PSTI_MESSAGE_CACHE_READY = 19,  /* S */
    PSTI_MESSAGE_CACHE_USE = 20,    /* C: counts so far: hits, items that the service read,
                                       misses */
    PSTI_MESSAGE_CACHE_ROUND = 21,  /* S: asks for a report as soon as the threads that now read the
                                       set have left it */
    PSTI_MESSAGE_CACHE_ROUND_ENDED = 22, /* C: the report that the threads of CACHE_ROUND have left
                                            the set */
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
    uint16_t n_fds;  /* number of descriptors that come with the message */
    uint32_t nbytes; /* bytes of the whole message */
    uint64_t id;     /* chosen by the client for a request, and repeated in the answer */
};

/* Writes values one after the other. If a value does not fit, `full` becomes true, and no more is
 * written. */
struct psti_wire_out {
    uint8_t *bytes;
    size_t capacity, nbytes;
    bool full;
};
void psti_share_put_u32(struct psti_wire_out *out, uint32_t value);
void psti_share_put_u64(struct psti_wire_out *out, uint64_t value);
void psti_share_put_f64(struct psti_wire_out *out, double value);
void psti_share_put_bytes(struct psti_wire_out *out, const void *bytes, size_t nbytes);
/* Writes the length (u32) and the bytes without NUL. NULL is written as length UINT32_MAX. */
void psti_share_put_text(struct psti_wire_out *out, const char *text);
void psti_share_put_error(struct psti_wire_out *out, const struct pst_error *err);

/* Reads values one after the other. If the bytes end too early or hold an impossible value, `bad`
 * becomes true, and all later values are zero. */
struct psti_wire_in {
    const uint8_t *bytes;
    size_t nbytes, at;
    bool bad;
};
uint32_t psti_share_get_u32(struct psti_wire_in *in);
uint64_t psti_share_get_u64(struct psti_wire_in *in);
double psti_share_get_f64(struct psti_wire_in *in);
void psti_share_get_bytes(struct psti_wire_in *in, void *bytes, size_t nbytes);
/* Reads a text of less than `capacity` bytes without a NUL inside, and adds a NUL. False: NULL was
 * written, or `bad` is set; the text is empty then. */
bool psti_share_get_text(struct psti_wire_in *in, char *text, size_t capacity);
void psti_share_get_error(struct psti_wire_in *in, struct pst_error *err);
/* Checks that a message was read to its end. PST_ERROR_CORRUPT: `bad` is set, or bytes are left.
 * what: name of the message, for the error. */
enum pst_status psti_share_end(const struct psti_wire_in *in, const char *what,
                               struct pst_error *err);

/* Begins a message in `bytes` (PSTI_MESSAGE_NBYTES), leaving space for the head. */
struct psti_wire_out psti_share_begin(uint8_t *bytes);
/* Writes the head, after the body. Returns the message's length, or 0 if it is too long. */
size_t psti_share_finish(struct psti_wire_out *out, enum psti_message_kind kind, uint64_t id,
                         uint32_t n_fds);
/* Parses the head of a message of nbytes bytes. PST_ERROR_CORRUPT: it is no head, or states another
 * length. */
enum pst_status psti_share_parse_head(const void *bytes, size_t nbytes,
                                      struct psti_message_head *head, struct pst_error *err);
/* Returns a reader of the body of a message whose head was parsed. */
struct psti_wire_in psti_share_body(const void *bytes, size_t nbytes);

struct psti_hello {
    uint32_t protocol;
    uint32_t session; /* enum psti_session_kind */
    char version[PSTI_VERSION_CAP];
};
/* Writes a greeting. The service's answer has the same layout, with its process id in place of the
 * session kind. */
void psti_share_put_hello(struct psti_wire_out *out, const struct psti_hello *hello);
/* Reads a greeting. A different protocol is no error here: the caller reports it, with both
 * versions. Bytes after the known ones are ignored, so that later protocols may add some. */
enum pst_status psti_share_get_hello(struct psti_wire_in *in, struct psti_hello *hello,
                                     struct pst_error *err);
/* Checks that both sides have the same protocol. PST_ERROR_VERSION: they have not. who: name of the
 * other side, for the error. */
enum pst_status psti_share_check_protocol(const struct psti_hello *theirs, const char *who,
                                          struct pst_error *err);

#endif
