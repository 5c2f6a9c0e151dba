/* serve_cache.h - the host cache on the side of the service: its data sets, their clients, and
 * reads. */
#ifndef PST_SERVE_SERVE_CACHE_H
#define PST_SERVE_SERVE_CACHE_H

#include "loader/tiers/loader_training.h"
#include "serve/serve.h"
#include "share/share_cache_wire.h"
#include "storage/storage.h"

enum { PSTI_SERVE_READ_BUCKETS = 1024 };

/* A data set of which no read has begun or ended for so long stands still: its clients read for
 * themselves. */
#define PSTI_SERVE_STILL_NS ((int64_t)10 * 1000 * 1000 * 1000)

/* A data set of the host cache, in one form. It belongs to the loop's thread. Workers use what is
 * constant once it is ready. */
struct serve_set {
    struct serve_set *next;
    struct serve_cache *cache;
    enum { SERVE_SET_CLOSED, SERVE_SET_OPENING, SERVE_SET_READY } state;
    bool is_late;                  /* opening: it has taken too long, and nobody waits for it */
    bool is_still;                 /* ready: storage stands still, and nobody waits for reads */
    struct psti_lane lane;         /* its opening and its reads */
    struct psti_cache_open wanted; /* as its first client asked for it */
    /* Sessions, and reads under way. Without any it is closed: its items stay in the cache until
     * another set needs the room. */
    uint32_t n_sessions, n_reads_now; /* n_reads_now: items that are re-coded later, too */

    /* Constant while it is ready: */
    struct psti_cache_shape shape;
    struct psti_serve_data *data;   /* NULL: it is closed */
    uint32_t items[PST_MAX_FIELDS]; /* number of each field's first variant */
    struct psti_cache_set *items_set;
    struct psti_training *training; /* fields that are kept at the training size; NULL: none */

    struct serve_read *reads[PSTI_SERVE_READ_BUCKETS];              /* under way, by number */
    uint64_t n_reads, nbytes_read, n_declined, n_failed, n_recoded; /* ever */
    uint64_t nbytes_saved;

    /* serve_later.c: */
    bool in_round;
    uint64_t round;         /* number of the last one */
    uint32_t n_asked;       /* sets of sessions that have not answered it */
    struct serve_later *parked, **parked_end; /* requests that wait for the end of a round */
};

/* What all sessions of the host cache share: service->parts[PSTI_SESSION_CACHE]. */
struct serve_cache {
    pst_service *service;
    pst_cache *cache;
    struct psti_storage *storage; /* reads in the thread that asks */
    struct serve_set *sets;
    uint64_t n_reads, nbytes_read; /* since the start, also of sets that were freed */
    struct psti_lane recoding;     /* items that are re-coded later, of all sets */
    struct serve_later *laters;    /* of them, those under way */
};

/* One client's session. */
struct serve_client {
    struct serve_set **sets; /* [n_sets], in the order in which the client asked for them */
    uint32_t n_sets;
    uint64_t open_id;  /* of the message that asked for the last set, until it is answered */
    bool is_opening;   /* the last one */
    bool has_more;     /* it opens another one after that */
    bool is_reader;    /* all are open, and it may read items */
    /* A bit for each of `sets`: items of it are re-coded when the client asks; it has not answered
     * a round. */
    uint64_t laters, rounds;
    uint32_t n_wanted; /* items that it waits for */
    uint32_t n_later;  /* requests to re-code that it waits for */
    uint64_t n_hits, n_read, n_missed; /* as the client tells; n_read: of these the service read */
};

struct serve_waiter {
    struct serve_waiter *next;
    struct psti_session *session; /* NULL: it has ended */
    uint64_t ticket;
};

/* An item that is read once for all who wait for it. */
struct serve_read {
    struct psti_work work;
    struct serve_read *next; /* in its bucket */
    struct serve_set *set;
    uint64_t number;
    bool later; /* an image is kept as it is stored, and re-coded later */
    struct serve_waiter *waiters, **waiters_end; /* in the order in which they asked */
    /* Results: */
    enum psti_cache_result result;
    uint64_t nbytes;
    enum psti_cache_recoding recoding;
    uint64_t nbytes_saved;
};

/* A client's request to re-code an item. It is under way, or parked. */
struct serve_later {
    struct psti_work work;
    struct serve_later *next; /* in its list */
    struct serve_set *set;
    struct psti_session *session; /* NULL: it has ended */
    uint64_t ticket;
    /* Results: */
    bool found; /* an item was looked at */
    struct psti_cache_ready ready;
};

/* serve_sets.c */
/* Finds the set or makes it, adds the session to its clients, and opens it. The client is answered
 * when it is open. */
enum pst_status psti_serve_set_join(struct psti_session *session,
                                    const struct psti_cache_open *open,
                                    struct psti_message *message, struct pst_error *err);
/* The session leaves all of its sets. */
void psti_serve_sets_leave(struct psti_session *session);
/* A read has ended: closes the set if nobody needs it. */
void psti_serve_set_settle(struct serve_set *set);
/* Forgets sets that have given way. */
void psti_serve_sets_sweep(struct serve_cache *cache);
void psti_serve_sets_free(struct serve_cache *cache);

/* serve_reads.c */
/* Reads the item for the session, or finds out that it is there. */
enum pst_status psti_serve_read_item(struct psti_session *session,
                                     const struct psti_cache_want *want, struct pst_error *err);
/* Forgets that the session waits for anything. */
void psti_serve_reads_forget(struct psti_session *session);
/* Called once a second. Lets clients go on without a set whose storage does not answer. */
void psti_serve_reads_tick(struct serve_set *set, int64_t now);

/* serve_item.c: on a worker. */
/* Reads, checks, re-codes and keeps the item. */
void psti_serve_item(struct serve_read *read, struct psti_worker *worker);
/* Re-codes an item of the set, which is kept as it is stored, or leaves it so. False: it needed no
 * look at its bytes. */
bool psti_serve_item_replace(struct serve_set *set, const struct psti_cache_later *later,
                             struct psti_worker *worker, struct psti_cache_ready *ready);

/* serve_later.c: on the loop's thread. */
/* The client lets the service re-code an item of one of its sets. */
enum pst_status psti_serve_later_ask(struct psti_session *session,
                                     const struct psti_cache_want *want, struct pst_error *err);
/* PSTI_MESSAGE_CACHE_ROUND_ENDED. */
enum pst_status psti_serve_later_answer(struct psti_session *session,
                                        const struct psti_cache_round *round,
                                        struct pst_error *err);
/* The session is about to leave its sets: forgets that it waits for anything. A client that was
 * dropped may go on reading them. */
void psti_serve_later_forget(struct psti_session *session);
/* Called once a second: clients whose requests are parked may ask again. */
void psti_serve_later_tick(struct serve_cache *cache);

#endif
