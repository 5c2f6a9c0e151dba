/* share_cache_wire.h - the messages of a session with the host cache. */
#ifndef PST_SHARE_SHARE_CACHE_WIRE_H
#define PST_SHARE_SHARE_CACHE_WIRE_H

#include "share/share_dataset_options.h"

enum {
    PSTI_CACHE_READS_MAX = 4096,     /* maximum number of unanswered wishes (requests for one item)
                                        of a session */
    PSTI_CACHE_READS_AT_ONCE = 2048, /* maximum number of wishes in a message */
    PSTI_CACHE_RULE_MAX = 4096,      /* maximum length of a set's rule */
    PSTI_CACHE_SETS_MAX = 64,        /* maximum number of sets in a session */
    PSTI_CACHE_WANT_NBYTES = 20      /* length of one wish in a message */
};

/* PSTI_MESSAGE_CACHE_OPEN comes with the descriptors of the data set. A client may open several
 * data sets. It waits for each answer before it sends the next. The first data set is set 0 of the
 * session. */
struct psti_cache_open {
    struct psti_share_dataset dataset;
    uint64_t n_samples; /* n_samples of the client's shape; the data set that the service opens must
                           have as many samples */
    uint32_t n_items;
    uint64_t forms; /* `forms` of the client's struct psti_cache_shape */
    /* True: images that are read for this client are kept as stored at first, and re-coded when the
     * client asks for it. */
    bool later;
    uint32_t n_more;      /* number of data sets that the client will open after this one */
    uint32_t rule_nbytes; /* length of the rule; 0: there is none, and `forms` decides; `later` must
                             be false with a rule */
    uint8_t rule[PSTI_CACHE_RULE_MAX];
};
/* The rule by which a set's items are made, as bytes. Client and service parse it by
 * loader/tiers/loader_training.h. */
struct psti_cache_rule {
    const uint8_t *bytes;
    uint32_t nbytes; /* at most PSTI_CACHE_RULE_MAX; 0: no rule */
};
/* A set for a session to open. */
struct psti_share_set {
    const pst_dataset *dataset;
    struct psti_cache_shape shape;
    struct psti_cache_rule
        rule;   /* rule by which the service makes items; 0 bytes: shape.forms decides */
    bool later; /* images are re-coded when the session asks for it; only without a rule */
};
/* Writes the data set by psti_share_put_dataset, then the other members of the message. */
enum pst_status psti_share_put_cache_open(struct psti_wire_out *out,
                                          const struct psti_share_set *set, uint32_t n_more,
                                          int fds[PSTI_SHARE_DATASET_FDS], uint32_t *n_fds,
                                          struct pst_error *err);
enum pst_status psti_share_get_cache_open(struct psti_wire_in *in, struct psti_cache_open *open,
                                          struct pst_error *err);

/* PSTI_MESSAGE_CACHE_OPENED comes with two descriptors: table, memory. */
struct psti_cache_opened {
    uint64_t table_nbytes, capacity;
    uint64_t limit; /* bytes of the host cache */
};
void psti_share_put_cache_opened(struct psti_wire_out *out, const struct psti_cache_opened *opened);
enum pst_status psti_share_get_cache_opened(struct psti_wire_in *in,
                                            struct psti_cache_opened *opened,
                                            struct pst_error *err);

/* PSTI_MESSAGE_CACHE_READ: items that the client wants. The client chooses a ticket for each. */
#define PSTI_CACHE_NUMBER_LATER UINT64_MAX
struct psti_cache_want {
    /* sample * n_items + item. Or PSTI_CACHE_NUMBER_LATER: the client has an idle core, so the
     * service may re-code an item of the set that waits to be re-coded */
    uint64_t number;
    uint64_t ticket;
    uint32_t i_set; /* number of the set in the session */
};
/* Writes the wishes. Returns how many of them fit into the message. */
size_t psti_share_put_cache_read(struct psti_wire_out *out, const struct psti_cache_want *wants,
                                 size_t n);
/* Reads the next wish. False: there is none left, or in->bad is set. */
bool psti_share_get_cache_want(struct psti_wire_in *in, struct psti_cache_want *want);

enum psti_cache_result {
    PSTI_CACHE_RESULT_HERE = 1,     /* the cache had the item, or got it by another request */
    PSTI_CACHE_RESULT_READ = 2,     /* the service has read the item for this request */
    PSTI_CACHE_RESULT_DECLINED = 3, /* the cache has no space for the item */
    PSTI_CACHE_RESULT_FAILED = 4,   /* the item cannot be read, or has a wrong checksum */
    /* Results for PSTI_CACHE_NUMBER_LATER: */
    PSTI_CACHE_RESULT_AGAIN = 1,  /* no item could be re-coded; the client may ask again */
    PSTI_CACHE_RESULT_LOOKED = 2, /* at least one item was examined; `recoding` tells the result
                                     for the last one */
    PSTI_CACHE_RESULT_NONE = 3    /* no item waits to be re-coded */
};
/* The result of re-coding an item. */
enum psti_cache_recoding {
    PSTI_CACHE_NOT_TO_RECODE = 0, /* the item need not be re-coded: it is no image of a re-coded
                                     field, or keeps its form */
    PSTI_CACHE_RECODED = 1,
    PSTI_CACHE_RECODE_FAILED = 2 /* the item is kept as stored */
};
/* PSTI_MESSAGE_CACHE_READY: the answer to one wish or request to re-code. */
struct psti_cache_ready {
    uint64_t ticket;
    enum psti_cache_result result;
    /* Set for PSTI_CACHE_RESULT_READ or LOOKED, else 0: */
    enum psti_cache_recoding recoding;
    uint64_t nbytes_saved; /* bytes by which re-coding made the item shorter */
    uint64_t recode_ns;    /* PSTI_CACHE_RESULT_LOOKED: time that the service spent; else 0 */
};
void psti_share_put_cache_ready(struct psti_wire_out *out, const struct psti_cache_ready *ready);
enum pst_status psti_share_get_cache_ready(struct psti_wire_in *in, struct psti_cache_ready *ready,
                                           struct pst_error *err);

/* The body of PSTI_MESSAGE_CACHE_ROUND and of its answer, PSTI_MESSAGE_CACHE_ROUND_ENDED. */
struct psti_cache_round {
    uint32_t i_set;  /* number of the set in the session */
    uint64_t number; /* number of the round, counted for each set; the next round begins after the
                        answer */
};
void psti_share_put_cache_round(struct psti_wire_out *out, const struct psti_cache_round *round);
enum pst_status psti_share_get_cache_round(struct psti_wire_in *in, struct psti_cache_round *round,
                                           struct pst_error *err);

#endif
