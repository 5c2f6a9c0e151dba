/* fleet.h - the door of fleet: items of data sets in memcached servers.
 *
 * A reader opens the items of one version of one data set, or of several, and asks for some. Each
 * request ends by its function `done`, after the fleet's timeout and a little more at the latest,
 * whatever the servers do. An item that a server has not is read by the reader elsewhere, and
 * offered: a copy is added to the server in the background. Any thread may call any function. */
#ifndef PST_FLEET_FLEET_H
#define PST_FLEET_FLEET_H

#include "base/latency.h"
#include "format/format_cache.h"

#include <penstock/fleet.h>

struct psti_fleet_set;

enum psti_fleet_answer {
    PSTI_FLEET_HIT,
    PSTI_FLEET_MISS,    /* the server does not have the item: it may be offered */
    PSTI_FLEET_DECLINED /* the server is down or late, or what it gave is not the item */
};

/* A request for one item. The caller sets the first members and owns the memory until `done`. */
struct psti_fleet_get {
    uint64_t sample;  /* of the data set with the number i_shape */
    uint32_t i_shape; /* the data set, by its place among the shapes of the set */
    uint32_t i_item;
    uint64_t nbytes; /* of the item as the data set stores it, not 0 */
    void *buffer;    /* nbytes bytes; contents are unspecified unless the answer is HIT */
    /* Called once, by a thread of the fleet or one that asks. It must not wait. */
    void (*done)(struct psti_fleet_get *get);
    void *user;
    /* Results: */
    enum psti_fleet_answer answer;
    bool is_local;       /* the item's server is on this host */
    uint64_t got_nbytes; /* HIT: length; less than nbytes if the form is not 0 */
    uint8_t form;        /* HIT: as it was offered */
    bool is_bad;         /* DECLINED: the server gave something that is not the item */
    /* Members of the fleet: */
    struct psti_fleet_get_state {
        struct psti_fleet_get *next;
        struct psti_fleet_set *set;
        uint64_t key_hash;
        int64_t start_ns;
        uint32_t n_asked, n_open; /* parts asked for; of them, not answered yet */
        uint32_t n_got;           /* parts that are here */
        uint32_t n_needed;        /* parts of the item; 0: not known yet */
        bool bad, missing;        /* a part was not good; the server has not got one */
    } state;
};

/* What became of an offered item. */
enum psti_fleet_outcome {
    PSTI_FLEET_ADDED,
    PSTI_FLEET_PRESENT, /* somebody else had added it */
    PSTI_FLEET_FULL,    /* the server refused it */
    PSTI_FLEET_LOST     /* the server does not answer */
};

/* The answer to an offer. */
enum psti_fleet_taken {
    PSTI_FLEET_TAKEN,
    PSTI_FLEET_BUSY,   /* no room for another copy now */
    PSTI_FLEET_REFUSED /* the server is down, or full as far as is known */
};

/* An item to be added. */
struct psti_fleet_offer {
    uint64_t sample;  /* of the data set with the number i_shape */
    uint32_t i_shape; /* as in psti_fleet_get */
    uint32_t i_item;
    uint64_t stored_nbytes; /* of the item as the data set stores it */
    const void *bytes;      /* copied before psti_fleet_offer returns */
    uint64_t nbytes;
    uint8_t form;
    /* Called once, by a thread of the fleet or one that asks, with `bytes` at the copy. It must not
     * wait. */
    void (*done)(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome);
    void *user;
    bool flag; /* the caller's */
};

/* Opens the items of some data sets, whose shapes are copied: n_shapes of them, 1 or more.
 * fill_nbytes: memory for copies of offered items, made here and not counted anywhere; 0: nothing
 * can be offered. The set has a hold on the fleet. PST_ERROR_MEMORY. */
enum pst_status psti_fleet_set_open(pst_fleet *fleet, const struct psti_cache_shape *shapes,
                                    uint32_t n_shapes, uint64_t fill_nbytes,
                                    struct psti_fleet_set **out, struct pst_error *err);
/* All requests have ended. Offers that are not under way are dropped; waits for the others, which
 * end in time. *set may be NULL. */
void psti_fleet_set_close(struct psti_fleet_set **set);

/* True if a request for the item would reach a server now. *is_local as in psti_fleet_get. */
bool psti_fleet_has_server(struct psti_fleet_set *set, uint32_t i_shape, uint64_t sample,
                           uint32_t i_item, bool *is_local);
/* Asks for n items. Those whose server is down end before this returns. */
void psti_fleet_ask(struct psti_fleet_set *set, struct psti_fleet_get **gets, size_t n);
/* Asks for n items and waits until all have ended. It sets `done` and `user` itself. If all items
 * are on one server to which nobody talks, this thread talks to it, which saves two changes of
 * threads. */
void psti_fleet_ask_and_wait(struct psti_fleet_set *set, struct psti_fleet_get **gets, size_t n);
/* Offers an item. `done` is called if the answer is TAKEN. Never waits. */
enum psti_fleet_taken psti_fleet_offer(struct psti_fleet_set *set,
                                       const struct psti_fleet_offer *offer);
/* True while a reader of storage should wait with its next reads, because copies take up half their
 * memory. After ten timeouts it is false again until they take less, so that a slow server does not
 * slow the reader down for long. The end of each offer may change the answer. */
bool psti_fleet_is_crowded(struct psti_fleet_set *set);
/* Waits until no offer is under way, or until the deadline, a time of psti_clock_ns. Returns true
 * if none is. */
bool psti_fleet_settle(struct psti_fleet_set *set, int64_t deadline_ns);
/* Servers that are down are tried again at once. */
void psti_fleet_retry(struct psti_fleet_set *set);
int64_t psti_fleet_timeout_ns(const struct psti_fleet_set *set);

#endif
