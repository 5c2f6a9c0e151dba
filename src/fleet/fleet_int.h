/* fleet_int.h - a fleet, its servers, and the items of data sets in them. */
#ifndef PST_FLEET_FLEET_INT_H
#define PST_FLEET_FLEET_INT_H

#include "fleet/fleet.h"
#include "fleet/fleet_link.h"
#include "fleet/fleet_wire.h"

#include "format/format_fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct psti_fleet_fill;

enum { PSTI_FLEET_SERVERS_MAX = 1024 };
#define PSTI_FLEET_BACKOFF_MIN_NS ((int64_t)250000000)

struct psti_fleet_login {
    char text[256]; /* "user password"; "": none */
};

/* The set of a loader. */
struct psti_fleet_set {
    /* Constant: */
    pst_fleet *fleet; /* kept alive until the set is closed */
    struct psti_cache_shape *shapes; /* of each data set */
    uint64_t part_nbytes;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    uint32_t n_offers;  /* in the ring */
    int64_t crowded_ns; /* since when half the ring is in use; 0: it is not */
    /* Copies of offered items: a ring, from `tail` to `head`. */
    uint8_t *ring;
    size_t capacity, head, tail, used;
};

struct psti_fleet_counters {
    uint64_t n_hits, n_misses, n_declined, nbytes_hit;
    uint64_t n_added, nbytes_added, n_present, n_full, n_dropped;
    uint64_t n_bad_values, n_late, n_lost, n_found;
};

enum psti_fleet_health { PSTI_FLEET_TRYING, PSTI_FLEET_UP, PSTI_FLEET_DOWN };

/* The requests and items under way on a server's connection. The struct belongs to the thread that
 * talks. */
struct psti_fleet_talk {
    struct psti_fleet_wire wire;
    struct psti_fleet_get *gets, *last_get; /* asked for; the oldest first */
    struct psti_fleet_get *asking;          /* one of these with parts to ask for; NULL: none */
    struct psti_fleet_fill *fills;          /* being added */
    struct psti_fleet_fill *adding;         /* one of these with parts to send; NULL: none */
    uint32_t n_removing;                    /* fills whose parts are to be removed */
    uint32_t n_in_row;                      /* requests since the last item was added */
    uint32_t n_bad_in_row;                  /* values that were not good, since one that was */
};

/* One server and its thread. One thread at a time talks to the server: its own, or one that asks
 * and waits while nobody else talks. Fleet and thread each have a hold on it, so that a thread that
 * does not come back from the system's resolver has what it needs. */
struct psti_fleet_server {
    /* Constant: */
    struct psti_fleet_address address;
    struct psti_fleet_login login;
    struct psti_latency *latency; /* the fleet's; only for requests, which keep it alive */
    int64_t timeout_ns;
    uint64_t part_nbytes;
    uint64_t hash; /* of the name */
    int wake_fd;   /* an eventfd, for which a thread that talks waits, too */
    atomic_uint n_holds;
    pthread_t thread;

    pthread_mutex_t lock; /* guards all below but `talk` */
    pthread_cond_t changed;
    bool closing, ended;
    bool talking; /* a thread has `talk`; others leave it alone */
    bool woken;   /* wake_fd is readable */
    bool stuck;   /* the resolver does not come back in time: nobody waits for it */
    bool is_local;
    enum psti_fleet_health health;
    int64_t probe_ns, backoff_ns; /* when to try again; how long to wait then */
    int64_t probing_ns;           /* since when the thread looks for the server; 0: it does not */
    struct psti_fleet_get *gets, *last_get; /* that wait */
    struct psti_fleet_fill *fills, *last_fill;
    uint32_t n_full_in_row; /* refusals since the last item that was taken */
    uint32_t n_skipped;     /* items not offered since then */
    struct psti_fleet_counters counters;
    char error[192];

    struct psti_fleet_talk talk; /* guarded by `talking` */
};

struct pst_fleet {
    pid_t pid;
    atomic_uint n_owners;
    uint32_t n_servers;
    struct psti_fleet_server **servers; /* [n_servers], by name */
    int64_t timeout_ns;
    uint64_t part_nbytes;
    struct psti_latency latency;
    atomic_uint_fast64_t n_declined, n_dropped; /* that no server's thread met */
    pthread_t watcher;
    bool watcher_started;
    pthread_mutex_t lock; /* guards `closing` and `watched` */
    pthread_cond_t changed;
    bool closing;
    atomic_bool watched; /* the watcher looks at the servers; else it waits for a request */
};

/* fleet_servers.c */
/* Reads a list of servers, sorted by name; the caller frees *out by psti_free. */
enum pst_status psti_fleet_servers_read(const char *text, struct psti_fleet_address **out,
                                        uint32_t *n, struct pst_error *err);
enum pst_status psti_fleet_login_read(const char *path, struct psti_fleet_login *login,
                                      struct pst_error *err);
/* True if the server runs on this host. May wait for the system's resolver. */
bool psti_fleet_address_is_local(const struct psti_fleet_address *address);

/* fleet_server.c */
enum pst_status psti_fleet_server_open(const struct pst_fleet *fleet,
                                       const struct psti_fleet_address *address,
                                       const struct psti_fleet_login *login,
                                       struct psti_latency *latency, struct psti_fleet_server **out,
                                       struct pst_error *err);
/* Asks the thread to end; psti_fleet_server_close waits for it, at most until the deadline. */
void psti_fleet_server_stop(struct psti_fleet_server *server);
void psti_fleet_server_close(struct psti_fleet_server *server, int64_t deadline_ns);
/* Queues a request. False: the server is down. */
bool psti_fleet_server_get(struct psti_fleet_server *server, struct psti_fleet_get *get);
/* If the server is up and nobody talks to it, this thread takes n requests and talks to it, as long
 * as waits(ctx) returns true. waits is called with the server's lock. False: nothing was done. */
bool psti_fleet_server_get_here(struct psti_fleet_server *server, struct psti_fleet_get **gets,
                                size_t n, bool (*waits)(void *ctx), void *ctx);
/* True if the server would take an item, as far as is known. A full one is asked now and then. */
bool psti_fleet_server_wants(struct psti_fleet_server *server);
/* Queues a copy, or ends and frees it if the server is down. */
void psti_fleet_server_fill(struct psti_fleet_server *server, struct psti_fleet_fill *fill);
bool psti_fleet_server_takes(struct psti_fleet_server *server, bool *is_local);
void psti_fleet_server_retry(struct psti_fleet_server *server);
/* Ends requests that wait too long in the queue, and what waits for a server that the resolver does
 * not find. Returns true if something waits. */
bool psti_fleet_server_watch(struct psti_fleet_server *server);
/* Drops the set's copies that wait. */
void psti_fleet_server_drop(struct psti_fleet_server *server, const struct psti_fleet_set *set);

/* fleet_talk.c: for the thread that talks. The lock is not held. */
void psti_fleet_talk_open(struct psti_fleet_server *server);
/* Connects, logs in, and sees if the server knows what is needed of it. */
bool psti_fleet_talk_connect(struct psti_fleet_server *server);
/* Closes the connection and ends all that is under way: DECLINED, LOST. */
void psti_fleet_talk_close(struct psti_fleet_server *server);
/* True if something is under way. It may have no request in flight, when all are answered and parts
 * are left to be asked for; and a request in flight may belong to nothing under way any more. */
bool psti_fleet_talk_is_busy(const struct psti_fleet_server *server);
/* Takes from the queues what the connection has room for, sends, waits for answers or until
 * somebody wakes it, and ends what was answered or is late. False: the server is to be given up. */
bool psti_fleet_talk_round(struct psti_fleet_server *server);

/* fleet_add.c: items being added, for fleet_talk.c */
/* True if a part of some item is to be sent, and there is one. */
bool psti_fleet_add_part(struct psti_fleet_server *server);
void psti_fleet_add_begin(struct psti_fleet_server *server, struct psti_fleet_fill *fill);
void psti_fleet_add_answered(struct psti_fleet_server *server, const struct psti_fleet_slot *slot,
                             enum psti_fleet_said said);
/* All that are under way are lost. */
void psti_fleet_add_end_all(struct psti_fleet_server *server);

/* fleet.c */
/* Wakes the watcher, which sleeps while nothing is under way. */
void psti_fleet_watch(pst_fleet *fleet);
/* The server that has the item with that hash: the one for which the hash of both is highest
 * (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). */
uint32_t psti_fleet_choose(const pst_fleet *fleet, uint64_t key_hash);

#endif
