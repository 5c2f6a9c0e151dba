/* serve_cache.h - the host cache on the side of the service: its data sets, their clients, and
 * reads. */
#ifndef PST_SERVE_SERVE_CACHE_H
#define PST_SERVE_SERVE_CACHE_H

#include "loader/tiers/loader_training.h"
#include "serve/serve.h"
#include "share/share_cache_wire.h"
#include "storage/storage.h"

enum { PSTI_SERVE_READ_BUCKETS = 1024 };

/* Time without a read that begins or ends, after which a data set's storage counts as not
 * responding. Its clients then read for themselves. */
#define PSTI_SERVE_STILL_NS ((int64_t)10 * 1000 * 1000 * 1000)

/* A data set of the host cache, in one form. It belongs to the loop's thread. Workers use only
 * members that are constant once it is ready. */
struct serve_set {
    struct serve_set *next;
    struct serve_cache *cache;
    enum { SERVE_SET_CLOSED, SERVE_SET_OPENING, SERVE_SET_READY } state;
    bool is_late;                  /* while opening: it has taken too long, and no client waits
                                      for it */
    bool is_still;                 /* while ready: the storage does not respond, and no client
                                      waits for reads */
    struct psti_lane lane;         /* lane (queue of work) in which opening the set and its reads
                                      wait */
    struct psti_cache_open wanted; /* the request of the set's first client, by which it is
                                      opened */
    /* Number of sessions, and of reads and re-codings under way. If both are 0, the data set is
     * closed. Its items stay in the cache until another set needs the space. */
    uint32_t n_sessions, n_reads_now; /* items that are re-coded later count in n_reads_now, too */

    /* Constant while the state is READY: */
    struct psti_cache_shape shape;
    struct psti_serve_data *data;   /* NULL: the data set is closed */
    uint32_t items[PST_MAX_FIELDS]; /* for each field: number of its first variant among a
                                       sample's items */
    struct psti_cache_set *items_set;
    struct psti_training *training; /* rule of the fields kept at the training size; NULL: none */

    struct serve_read *reads[PSTI_SERVE_READ_BUCKETS];              /* reads under way, in
                                                                       buckets by item number */
    uint64_t n_reads, nbytes_read, n_declined, n_failed, n_recoded; /* counts of items and bytes
                                                                       since the set was made */
    uint64_t nbytes_saved;

    /* Members of serve_later.c: rounds, in which clients confirm that they no longer read replaced
     * items. */
    bool in_round;
    uint64_t round;         /* number of the set's last round */
    uint32_t n_asked;       /* number of sets of sessions that have not confirmed the round */
    struct serve_later *parked, **parked_end; /* requests that wait for the end of a round */
};

/* State that all sessions of the host cache share: service->parts[PSTI_SESSION_CACHE]. */
struct serve_cache {
    pst_service *service;
    pst_cache *cache;
    struct psti_storage *storage; /* storage that reads in the calling thread */
    struct serve_set *sets;
    uint64_t n_reads, nbytes_read; /* since the start, including sets that were freed */
    struct psti_lane recoding;     /* items of all sets that are re-coded later */
    struct serve_later *laters;    /* requests to re-code that are under way */
};

/* One client's session. */
struct serve_client {
    struct serve_set **sets; /* [n_sets], in the order in which the client asked for them */
    uint32_t n_sets;
    uint64_t open_id;  /* number of the message that asked for the last set, until it is answered */
    bool is_opening;   /* the last of `sets` is being opened */
    bool has_more;     /* the client will open another set after that */
    bool is_reader;    /* all sets are open, so the client may read items */
    /* A bit for each of `sets`. laters: its items are re-coded when the client asks for it. rounds:
     * the client has not confirmed the last round. */
    uint64_t laters, rounds;
    uint32_t n_wanted; /* number of items that the client waits for */
    uint32_t n_later;  /* number of requests to re-code that the client waits for */
    uint64_t n_hits, n_read, n_missed; /* as the client reports; n_read: misses that the service
                                          has read */
};

struct serve_waiter {
    struct serve_waiter *next;
    struct psti_session *session; /* the client's session; NULL: it has ended */
    uint64_t ticket;
};

/* An item that is read once for all clients that wait for it. */
struct serve_read {
    struct psti_work work;
    struct serve_read *next; /* next read in the bucket */
    struct serve_set *set;
    uint64_t number;
    bool later; /* an image that is kept as stored now and re-coded later */
    struct serve_waiter *waiters, **waiters_end; /* clients that wait, in the order in which they
                                                    asked */
    /* Results of the read: */
    enum psti_cache_result result;
    uint64_t nbytes;
    enum psti_cache_recoding recoding;
    uint64_t nbytes_saved;
};

/* A client's request to re-code an item. It is under way, or waits for a round (parked). */
struct serve_later {
    struct psti_work work;
    struct serve_later *next; /* next request in its list */
    struct serve_set *set;
    struct psti_session *session; /* the client's session; NULL: it has ended */
    uint64_t ticket;
    /* Results of the request: */
    bool found; /* an item was examined */
    struct psti_cache_ready ready;
};

/* serve_sets.c */
/* Finds or creates the set, adds the session to its clients, and opens it. The client is answered
 * when the set is open. */
enum pst_status psti_serve_set_join(struct psti_session *session,
                                    const struct psti_cache_open *open,
                                    struct psti_message *message, struct pst_error *err);
/* Removes the session from all of its sets. */
void psti_serve_sets_leave(struct psti_session *session);
/* Called when a read has ended: closes the set if no client needs it. */
void psti_serve_set_settle(struct serve_set *set);
/* Frees closed sets that the cache has dropped to make space for others. */
void psti_serve_sets_sweep(struct serve_cache *cache);
void psti_serve_sets_free(struct serve_cache *cache);

/* serve_reads.c */
/* Reads the item for the session, unless the cache has it already. */
enum pst_status psti_serve_read_item(struct psti_session *session,
                                     const struct psti_cache_want *want, struct pst_error *err);
/* Removes the session from all reads that it waits for. */
void psti_serve_reads_forget(struct psti_session *session);
/* Called once a second. If a set's storage does not respond, tells its clients to read for
 * themselves. */
void psti_serve_reads_tick(struct serve_set *set, int64_t now);

/* serve_item.c: functions that run on a worker. */
/* Reads, checks and re-codes the item, and stores it in the cache. */
void psti_serve_item(struct serve_read *read, struct psti_worker *worker);
/* Re-codes an item of the set that is kept as stored, or leaves it as it is. False: its bytes were
 * not needed to decide. */
bool psti_serve_item_replace(struct serve_set *set, const struct psti_cache_later *later,
                             struct psti_worker *worker, struct psti_cache_ready *ready);

/* serve_later.c: functions that run on the loop's thread. */
/* Handles a client's request that the service re-code an item of one of its sets. */
enum pst_status psti_serve_later_ask(struct psti_session *session,
                                     const struct psti_cache_want *want, struct pst_error *err);
/* Handles PSTI_MESSAGE_CACHE_ROUND_ENDED of a client. */
enum pst_status psti_serve_later_answer(struct psti_session *session,
                                        const struct psti_cache_round *round,
                                        struct pst_error *err);
/* Called before the session leaves its sets: removes it from everything that it waits for. A client
 * that the service dropped may still read the sets. */
void psti_serve_later_forget(struct psti_session *session);
/* Called once a second: tells clients whose requests are parked that they may ask again. */
void psti_serve_later_tick(struct serve_cache *cache);

#endif
