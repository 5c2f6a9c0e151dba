/* share_cache_wire.h - the messages of a session with the host cache. */
#ifndef PST_SHARE_SHARE_CACHE_WIRE_H
#define PST_SHARE_SHARE_CACHE_WIRE_H

#include "share/share_dataset_options.h"

enum {
    PSTI_CACHE_READS_MAX = 4096,     /* items of one session that the service may be asked for */
    PSTI_CACHE_READS_AT_ONCE = 2048, /* items in one message */
    PSTI_CACHE_RULE_MAX = 4096,      /* bytes of a set's rule */
    PSTI_CACHE_SETS_MAX = 64,        /* sets of one session */
    PSTI_CACHE_WANT_NBYTES = 20      /* bytes of a wish in a message */
};

/* PSTI_MESSAGE_CACHE_OPEN, with the descriptors of the data set. A client may open several, one
 * after the other has been answered; the first is set 0 of the session. */
struct psti_cache_open {
    struct psti_share_dataset dataset;
    uint64_t n_samples; /* of the shape, which the service's own must equal */
    uint32_t n_items;
    uint64_t forms; /* of the shape */
    /* Images that are read because of this client are kept as they are stored, and re-coded when it
     * asks for that. */
    bool later;
    uint32_t n_more;      /* data sets that the client opens after this one */
    uint32_t rule_nbytes; /* 0: items are as `forms` says; not with `later` */
    uint8_t rule[PSTI_CACHE_RULE_MAX];
};
/* How the items of a set are made, as bytes. Client and service read them by
 * loader/tiers/loader_training.h. */
struct psti_cache_rule {
    const uint8_t *bytes;
    uint32_t nbytes; /* at most PSTI_CACHE_RULE_MAX; 0: there is none */
};
/* A set that a session opens. */
struct psti_share_set {
    const pst_dataset *dataset;
    struct psti_cache_shape shape;
    struct psti_cache_rule
        rule;   /* by which the service makes items; 0 bytes: by shape.forms alone */
    bool later; /* images are re-coded when the session asks for that; not with a rule */
};
/* psti_share_put_dataset, with the rest behind it. */
enum pst_status psti_share_put_cache_open(struct psti_wire_out *out,
                                          const struct psti_share_set *set, uint32_t n_more,
                                          int fds[PSTI_SHARE_DATASET_FDS], uint32_t *n_fds,
                                          struct pst_error *err);
enum pst_status psti_share_get_cache_open(struct psti_wire_in *in, struct psti_cache_open *open,
                                          struct pst_error *err);

/* PSTI_MESSAGE_CACHE_OPENED, with two descriptors: table, memory. */
struct psti_cache_opened {
    uint64_t table_nbytes, capacity;
    uint64_t limit; /* bytes of the host cache */
};
void psti_share_put_cache_opened(struct psti_wire_out *out, const struct psti_cache_opened *opened);
enum pst_status psti_share_get_cache_opened(struct psti_wire_in *in,
                                            struct psti_cache_opened *opened,
                                            struct pst_error *err);

/* PSTI_MESSAGE_CACHE_READ: items that the client wants. Each has a ticket of the client's. */
#define PSTI_CACHE_NUMBER_LATER UINT64_MAX
struct psti_cache_want {
    /* sample * n_items + item; or PSTI_CACHE_NUMBER_LATER: the client has a core to spare, so the
     * service may re-code one of the set's items that wait for that */
    uint64_t number;
    uint64_t ticket;
    uint32_t i_set; /* of the session */
};
/* Returns how many of the wishes fit into the message. */
size_t psti_share_put_cache_read(struct psti_wire_out *out, const struct psti_cache_want *wants,
                                 size_t n);
/* Reads the next one. False: there is no more, or in->bad. */
bool psti_share_get_cache_want(struct psti_wire_in *in, struct psti_cache_want *want);

enum psti_cache_result {
    PSTI_CACHE_RESULT_HERE = 1,     /* it was here, or is because of another request */
    PSTI_CACHE_RESULT_READ = 2,     /* it was read for this request */
    PSTI_CACHE_RESULT_DECLINED = 3, /* there is no room */
    PSTI_CACHE_RESULT_FAILED = 4,   /* it cannot be read, or has a wrong checksum */
    /* Of PSTI_CACHE_NUMBER_LATER: */
    PSTI_CACHE_RESULT_AGAIN = 1,  /* no item could be re-coded; the client may ask again */
    PSTI_CACHE_RESULT_LOOKED = 2, /* at an item at least; `recoding` says what became of the last */
    PSTI_CACHE_RESULT_NONE = 3    /* no item waits */
};
/* What became of an image of a re-coded field. */
enum psti_cache_recoding {
    PSTI_CACHE_NOT_TO_RECODE = 0, /* the item is none, or its form stays */
    PSTI_CACHE_RECODED = 1,
    PSTI_CACHE_RECODE_FAILED = 2 /* it is kept as it is stored */
};
/* PSTI_MESSAGE_CACHE_READY: the answer to one wish. */
struct psti_cache_ready {
    uint64_t ticket;
    enum psti_cache_result result;
    /* Of PSTI_CACHE_RESULT_READ or LOOKED, else 0: */
    enum psti_cache_recoding recoding;
    uint64_t nbytes_saved; /* by how many bytes re-coding made it shorter */
    uint64_t recode_ns;    /* of PSTI_CACHE_RESULT_LOOKED: what the service spent; else 0 */
};
void psti_share_put_cache_ready(struct psti_wire_out *out, const struct psti_cache_ready *ready);
enum pst_status psti_share_get_cache_ready(struct psti_wire_in *in, struct psti_cache_ready *ready,
                                           struct pst_error *err);

/* PSTI_MESSAGE_CACHE_ROUND and its answer, PSTI_MESSAGE_CACHE_ROUND_ENDED. */
struct psti_cache_round {
    uint32_t i_set;  /* of the session */
    uint64_t number; /* of the set; the next round comes after the answer */
};
void psti_share_put_cache_round(struct psti_wire_out *out, const struct psti_cache_round *round);
enum pst_status psti_share_get_cache_round(struct psti_wire_in *in, struct psti_cache_round *round,
                                           struct pst_error *err);

#endif
