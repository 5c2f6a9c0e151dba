/* fleet.h - the interface of this folder for other rooms: items of data sets in memcached servers.
 *
 * A reader opens the items of one version of one or several data sets, and asks for some of them.
 * Each request ends by a call of its function `done`, at the latest shortly after the fleet's
 * timeout, whatever the servers do. If a server lacks an item, the reader reads it elsewhere and
 * offers it: a copy is sent to the server in the background. Any thread may call any function. */
#ifndef PST_FLEET_FLEET_H
#define PST_FLEET_FLEET_H

#include "base/latency.h"
#include "format/format_cache.h"

#include <penstock/fleet.h>

struct psti_fleet_set;

enum psti_fleet_answer {
    PSTI_FLEET_HIT,
    PSTI_FLEET_MISS,    /* the server does not have the item, so it may be offered */
    PSTI_FLEET_DECLINED /* the server is down or late, or what it sent is not the item */
};

/* A request for one item. The caller sets the first members, and must keep the struct until `done`
 * is called. */
struct psti_fleet_get {
    uint64_t sample;  /* number of the sample in data set i_shape */
    uint32_t i_shape; /* number of the data set among the shapes of the set */
    uint32_t i_item;
    uint64_t nbytes; /* bytes of the item as the data set stores it, not 0 */
    void *buffer;    /* nbytes bytes; contents are unspecified unless the answer is HIT */
    /* Called once, by a thread of the fleet or by an asking thread. It must not block. */
    void (*done)(struct psti_fleet_get *get);
    void *user;
    /* Results: */
    enum psti_fleet_answer answer;
    bool is_local;       /* the item's server is on this host */
    uint64_t got_nbytes; /* HIT: bytes received; less than nbytes if the form is not 0 */
    uint8_t form;        /* HIT: form with which the item was offered */
    bool is_bad;         /* DECLINED: the server sent bytes that are not the item */
    /* Members that only the fleet uses: */
    struct psti_fleet_get_state {
        struct psti_fleet_get *next;
        struct psti_fleet_set *set;
        uint64_t key_hash;
        int64_t start_ns;
        uint32_t n_asked, n_open; /* n_asked: parts asked for; n_open: those not answered yet */
        uint32_t n_got;           /* number of parts received */
        uint32_t n_needed;        /* number of parts of the item; 0: not known yet */
        bool bad, missing;        /* bad: a received part was not valid; missing: the server
                                     lacks a part */
    } state;
};

/* The result of an offer. */
enum psti_fleet_outcome {
    PSTI_FLEET_ADDED,
    PSTI_FLEET_PRESENT, /* another client had added the item */
    PSTI_FLEET_FULL,    /* the server refused the item */
    PSTI_FLEET_LOST     /* the server does not answer */
};

/* Whether the fleet accepts an offer. */
enum psti_fleet_taken {
    PSTI_FLEET_TAKEN,
    PSTI_FLEET_BUSY,   /* at present there is no memory for another copy */
    PSTI_FLEET_REFUSED /* the server is down, or full as far as is known */
};

/* An item that a reader offers. */
struct psti_fleet_offer {
    uint64_t sample;  /* number of the sample in data set i_shape */
    uint32_t i_shape; /* as in psti_fleet_get */
    uint32_t i_item;
    uint64_t stored_nbytes; /* bytes of the item as the data set stores it */
    const void *bytes;      /* copied before psti_fleet_offer returns */
    uint64_t nbytes;
    uint8_t form;
    /* Called once, by a thread of the fleet or by an asking thread, with `bytes` pointing to the
     * copy. It must not block. */
    void (*done)(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome);
    void *user;
    bool flag; /* a flag of the caller, which the fleet does not use */
};

/* Opens the items of n_shapes data sets, at least 1. The shapes are copied. fill_nbytes: memory for
 * copies of offered items, allocated here and counted nowhere; 0: nothing can be offered. The set
 * keeps the fleet open. PST_ERROR_MEMORY. */
enum pst_status psti_fleet_set_open(pst_fleet *fleet, const struct psti_cache_shape *shapes,
                                    uint32_t n_shapes, uint64_t fill_nbytes,
                                    struct psti_fleet_set **out, struct pst_error *err);
/* Closes a set whose requests have all ended. Offers that are not being sent are dropped. Waits for
 * the others, which end within the timeout. *set may be NULL. */
void psti_fleet_set_close(struct psti_fleet_set **set);

/* True if a request for the item would be sent to a server now. *is_local: as in psti_fleet_get. */
bool psti_fleet_has_server(struct psti_fleet_set *set, uint32_t i_shape, uint64_t sample,
                           uint32_t i_item, bool *is_local);
/* Asks for n items. Requests whose server is down end before this returns. */
void psti_fleet_ask(struct psti_fleet_set *set, struct psti_fleet_get **gets, size_t n);
/* Asks for n items and waits until all requests have ended. Sets their `done` and `user`. If one
 * server has all items and no thread talks to it, this thread does, which saves two thread
 * switches. */
void psti_fleet_ask_and_wait(struct psti_fleet_set *set, struct psti_fleet_get **gets, size_t n);
/* Offers an item. `done` is called only if the answer is TAKEN. Never blocks. */
enum psti_fleet_taken psti_fleet_offer(struct psti_fleet_set *set,
                                       const struct psti_fleet_offer *offer);
/* True while a reader should delay its next reads from storage, because waiting copies take half of
 * their memory. After ten timeouts it is false until they take less, so that a slow server does not
 * delay the reader for long. The end of each offer may change the answer. */
bool psti_fleet_is_crowded(struct psti_fleet_set *set);
/* Waits until no offer is under way, or until the deadline, a time of psti_clock_ns. True: no offer
 * is under way. */
bool psti_fleet_settle(struct psti_fleet_set *set, int64_t deadline_ns);
/* Makes the fleet try all servers that are down again at once. */
void psti_fleet_retry(struct psti_fleet_set *set);
int64_t psti_fleet_timeout_ns(const struct psti_fleet_set *set);

#endif
