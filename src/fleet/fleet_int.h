/* fleet_int.h - internal declarations: a fleet, its servers, and the items of data sets in them. */
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
    char text[256]; /* "user password"; "": no login */
};

/* The items of a loader's data sets in the fleet. */
struct psti_fleet_set {
    /* Constant members: */
    pst_fleet *fleet; /* kept open until the set is closed */
    struct psti_cache_shape *shapes; /* a shape for each data set */
    uint64_t part_nbytes;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    uint32_t n_offers;  /* number of offers in the ring */
    int64_t crowded_ns; /* time since which at least half of the ring is in use; 0: less than half
                           is in use */
    /* Copies of offered items: a ring buffer, used from `tail` to `head`. */
    uint8_t *ring;
    size_t capacity, head, tail, used;
};

struct psti_fleet_counters {
    uint64_t n_hits, n_misses, n_declined, nbytes_hit;
    uint64_t n_added, nbytes_added, n_present, n_full, n_dropped;
    uint64_t n_bad_values, n_late, n_lost, n_found;
};

enum psti_fleet_health { PSTI_FLEET_TRYING, PSTI_FLEET_UP, PSTI_FLEET_DOWN };

/* Requests and items under way on a server's connection. They belong to the thread that talks to
 * the server. */
struct psti_fleet_talk {
    struct psti_fleet_wire wire;
    struct psti_fleet_get *gets, *last_get; /* requests with parts asked for; the oldest first */
    struct psti_fleet_get *asking;          /* the request whose parts are being asked for; NULL:
                                               none */
    struct psti_fleet_fill *fills;          /* items being added */
    struct psti_fleet_fill *adding;         /* the item whose parts are being sent; NULL: none */
    uint32_t n_removing;                    /* number of items whose parts must be removed */
    uint32_t n_in_row;                      /* number of requests sent since an item was last
                                               added */
    uint32_t n_bad_in_row;                  /* invalid values received since the last valid one */
};

/* One server and its thread. Only one thread at a time talks to the server: the server's thread, or
 * an asking thread that waits while no other thread talks. Fleet and thread each hold a reference,
 * because a thread may be blocked in the system's resolver when the fleet is closed. */
struct psti_fleet_server {
    /* Constant members: */
    struct psti_fleet_address address;
    struct psti_fleet_login login;
    struct psti_latency *latency; /* the fleet's; used only for requests, which keep the fleet
                                     open */
    int64_t timeout_ns;
    uint64_t part_nbytes;
    uint64_t hash; /* hash of the server's name */
    int wake_fd;   /* an eventfd, which also wakes the thread that talks */
    atomic_uint n_holds;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the members below except `talk` */
    pthread_cond_t changed;
    bool closing, ended;
    bool talking; /* true while a thread talks to the server; that thread owns `talk` */
    bool woken;   /* wake_fd is readable */
    bool stuck;   /* true if the resolver did not return in time, so no thread waits for it */
    bool is_local;
    enum psti_fleet_health health;
    int64_t probe_ns, backoff_ns; /* time of the next try to reach the server; pause after that
                                     try */
    int64_t probing_ns;           /* time when a thread began to look for the server; 0: no thread
                                     is looking */
    struct psti_fleet_get *gets, *last_get; /* queue of waiting requests */
    struct psti_fleet_fill *fills, *last_fill;
    uint32_t n_full_in_row; /* number of refusals since the server last took an item */
    uint32_t n_skipped;     /* number of items that were not offered to the full server since
                               then */
    struct psti_fleet_counters counters;
    char error[192];

    struct psti_fleet_talk talk; /* owned by the thread that set `talking` */
};

struct pst_fleet {
    pid_t pid;
    atomic_uint n_owners;
    uint32_t n_servers;
    struct psti_fleet_server **servers; /* [n_servers], sorted by name */
    int64_t timeout_ns;
    uint64_t part_nbytes;
    struct psti_latency latency;
    atomic_uint_fast64_t n_declined, n_dropped; /* counts of requests and items that reached no
                                                   server's thread */
    pthread_t watcher;
    bool watcher_started;
    pthread_mutex_t lock; /* guards `closing` and `watched` */
    pthread_cond_t changed;
    bool closing;
    atomic_bool watched; /* the watcher checks the servers; false: it sleeps until there is a
                            request */
};

/* fleet_servers.c */
/* Reads a list of servers and sorts it by name. The caller frees *out by psti_free. */
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
/* Tells the thread to end. psti_fleet_server_close then waits for it, at most until the
 * deadline. */
void psti_fleet_server_stop(struct psti_fleet_server *server);
void psti_fleet_server_close(struct psti_fleet_server *server, int64_t deadline_ns);
/* Queues a request. False: the server is down. */
bool psti_fleet_server_get(struct psti_fleet_server *server, struct psti_fleet_get *get);
/* If the server is up and no thread talks to it, takes n requests and talks to the server in this
 * thread, as long as waits(ctx) is true. waits is called with the server's lock held. False:
 * nothing was done. */
bool psti_fleet_server_get_here(struct psti_fleet_server *server, struct psti_fleet_get **gets,
                                size_t n, bool (*waits)(void *ctx), void *ctx);
/* True if the server would take an item, as far as is known. A full server is still offered an item
 * now and then. */
bool psti_fleet_server_wants(struct psti_fleet_server *server);
/* Queues a copy. If the server is down, ends the offer and frees the copy. */
void psti_fleet_server_fill(struct psti_fleet_server *server, struct psti_fleet_fill *fill);
bool psti_fleet_server_takes(struct psti_fleet_server *server, bool *is_local);
void psti_fleet_server_retry(struct psti_fleet_server *server);
/* Ends requests that have waited too long in the queue, and all that waits for a server that the
 * resolver does not find. True: the server has work left. */
bool psti_fleet_server_watch(struct psti_fleet_server *server);
/* Drops the set's copies that wait in the queue. */
void psti_fleet_server_drop(struct psti_fleet_server *server, const struct psti_fleet_set *set);

/* fleet_talk.c: functions for the thread that talks. The lock is not held. */
void psti_fleet_talk_open(struct psti_fleet_server *server);
/* Connects, logs in, and checks whether the server knows the needed commands. */
bool psti_fleet_talk_connect(struct psti_fleet_server *server);
/* Closes the connection. Ends all requests under way as DECLINED, and all items being added as
 * LOST. */
void psti_fleet_talk_close(struct psti_fleet_server *server);
/* True if requests or items are under way. Then there may be no request in flight, if parts are
 * still to be asked for. And a request may be in flight whose owner has already ended. */
bool psti_fleet_talk_is_busy(const struct psti_fleet_server *server);
/* Takes as much work from the queues as fits, sends, waits for answers or a wake-up, and ends
 * requests that were answered or are late. False: the server must be given up. */
bool psti_fleet_talk_round(struct psti_fleet_server *server);

/* fleet_add.c: functions that add items, for fleet_talk.c */
/* Sends the next part of an item that is being added. False: there is none. */
bool psti_fleet_add_part(struct psti_fleet_server *server);
void psti_fleet_add_begin(struct psti_fleet_server *server, struct psti_fleet_fill *fill);
void psti_fleet_add_answered(struct psti_fleet_server *server, const struct psti_fleet_slot *slot,
                             enum psti_fleet_said said);
/* Ends all items that are being added as LOST. */
void psti_fleet_add_end_all(struct psti_fleet_server *server);

/* fleet.c */
/* Wakes the watcher, which sleeps while no request is under way. */
void psti_fleet_watch(pst_fleet *fleet);
/* Returns the server for an item with that hash: the one whose combined hash with the item's is
 * highest (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). */
uint32_t psti_fleet_choose(const pst_fleet *fleet, uint64_t key_hash);

#endif
