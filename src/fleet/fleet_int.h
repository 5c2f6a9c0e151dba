/* fleet_int.h - a fleet, its servers, and the items of one data set in them. */
#ifndef PST_FLEET_FLEET_INT_H
#define PST_FLEET_FLEET_INT_H

#include "fleet/fleet.h"
#include "fleet/fleet_library.h"

#include "format/format_fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    PSTI_FLEET_SERVERS_MAX = 1024,
    PSTI_FLEET_BATCH_GETS = 32, /* most items that one request of a server is for */
    PSTI_FLEET_KEYS = 128       /* most keys of one request: so it fits the sockets' buffers */
};
#define PSTI_FLEET_BATCH_NBYTES ((uint64_t)4 << 20)

/* Where a server is. */
struct psti_fleet_address {
    char name[256]; /* by which all clients know it */
    char host[256]; /* or the path of a Unix socket */
    uint16_t port;  /* 0: a Unix socket */
};

struct psti_fleet_login {
    char user[128], password[128]; /* user "": none */
    enum pst_fleet_auth kind;
};

/* The set of a loader. It is freed when it is closed and no thread has a copy of it. */
struct psti_fleet_set {
    /* Constant: */
    pst_fleet *fleet; /* kept alive until the set is closed */
    struct psti_cache_shape shape;
    uint64_t part_nbytes;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    uint32_t n_offers; /* whose `done` was not called yet */
    uint32_t n_copies; /* in the ring */
    bool closed;
    int64_t crowded_ns; /* since when half the ring is in use; 0: it is not */
    /* Copies of offered items: a ring, from `tail` to `head`. */
    uint8_t *ring;
    size_t capacity, head, tail, used;
};

/* A copy of an offered item in its set's ring: this, room for a header, and the bytes. */
struct psti_fleet_fill {
    struct psti_fleet_fill *next; /* guarded by the server's lock */
    struct psti_fleet_set *set;
    size_t room; /* bytes of the ring, this included */
    bool freed;  /* guarded by the set's lock */
    uint64_t key_hash;
    uint32_t n_parts;
    struct psti_fleet_offer offer; /* its bytes are the copy's */
};

struct psti_fleet_counters {
    uint64_t n_hits, n_misses, n_declined, nbytes_hit;
    uint64_t n_added, nbytes_added, n_present, n_full, n_dropped;
    uint64_t n_bad_values, n_late, n_lost, n_found;
};

enum psti_fleet_health { PSTI_FLEET_TRYING, PSTI_FLEET_UP, PSTI_FLEET_DOWN };

/* A key of the request under way. */
struct psti_fleet_key {
    char text[PSTI_FLEET_KEY_CAP];
    size_t nbytes;
    uint32_t i_get; /* in the server's batch */
    uint64_t key_hash;
    bool is_here;
};

/* One server, and the one thread that talks to it. Fleet and thread each have a hold on it, so that
 * a thread that does not come back from libmemcached has what it needs. */
struct psti_fleet_server {
    /* Constant: */
    struct psti_mc mc;
    struct psti_fleet_address address;
    struct psti_fleet_login login;
    struct psti_latency *latency; /* the fleet's; only for requests, which keep it alive */
    int64_t timeout_ns;
    uint64_t part_nbytes;
    uint64_t hash; /* of the name */
    atomic_uint n_holds;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards all up to the thread's own */
    pthread_cond_t changed;
    bool closing, ended;
    bool stuck; /* the thread does not come back in time: nobody waits for it */
    bool is_local;
    enum psti_fleet_health health;
    int64_t probe_ns, backoff_ns; /* when to try again; how long to wait then */
    int64_t busy_ns;              /* since when the thread talks to the server; 0: it does not */
    struct psti_fleet_get *gets, *last_get;
    struct psti_fleet_fill *fills, *last_fill;
    /* Items of the request under way. Who takes one out of here ends it. */
    struct psti_fleet_get *batch[PSTI_FLEET_BATCH_GETS];
    uint32_t n_batch;
    int copying;                     /* the one whose buffer the thread writes; -1: none */
    struct psti_fleet_fill *filling; /* being added; who sets NULL calls its `done` */
    uint32_t n_full_in_row;          /* refusals since the last item that was taken */
    uint32_t n_skipped;              /* items not offered since then */
    uint32_t n_bad_in_row;           /* requests with values that were not good */
    struct psti_fleet_counters counters;
    char error[192];

    /* The thread's own: */
    struct memcached_st *handle;
    struct memcached_result_st *result; /* in result_memory: the library frees one of its own */
    _Alignas(64) char result_memory[PSTI_MC_RESULT_NBYTES];
    struct psti_fleet_key keys[PSTI_FLEET_KEYS];
    uint32_t n_turns; /* requests since the last offered item was added */
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
enum pst_status psti_fleet_login_read(const char *path, enum pst_fleet_auth kind,
                                      struct psti_fleet_login *login, struct pst_error *err);
/* True if the server runs on this host. May wait for the system's resolver. */
bool psti_fleet_address_is_local(const struct psti_fleet_address *address);

/* fleet_server.c */
enum pst_status psti_fleet_server_open(const struct pst_fleet *fleet, const struct psti_mc *mc,
                                       const struct psti_fleet_address *address,
                                       const struct psti_fleet_login *login,
                                       struct psti_latency *latency, struct psti_fleet_server **out,
                                       struct pst_error *err);
/* Asks the thread to end; psti_fleet_server_close waits for it, at most until the deadline. */
void psti_fleet_server_stop(struct psti_fleet_server *server);
void psti_fleet_server_close(struct psti_fleet_server *server, int64_t deadline_ns);
/* Queues a request. False: the server is down. */
bool psti_fleet_server_get(struct psti_fleet_server *server, struct psti_fleet_get *get);
/* True if the server would take an item, as far as is known. A full one is asked now and then. */
bool psti_fleet_server_wants(struct psti_fleet_server *server);
/* Queues a copy, or ends and frees it if the server is down. */
void psti_fleet_server_fill(struct psti_fleet_server *server, struct psti_fleet_fill *fill);
bool psti_fleet_server_takes(struct psti_fleet_server *server, bool *is_local);
void psti_fleet_server_retry(struct psti_fleet_server *server);
/* Ends requests that wait too long, and gives a server up whose thread is stuck. Returns true if
 * the server has work. */
bool psti_fleet_server_watch(struct psti_fleet_server *server);
/* Drops the set's copies that wait. */
void psti_fleet_server_drop(struct psti_fleet_server *server, const struct psti_fleet_set *set);

/* fleet_talk.c: the server's thread, without the lock. */
bool psti_fleet_talk_connect(struct psti_fleet_server *server);
void psti_fleet_talk_close(struct psti_fleet_server *server);
/* Asks for the items of the batch and ends those that it gets. False: the connection is of no use
 * any more. */
bool psti_fleet_talk_get(struct psti_fleet_server *server);
/* Adds one item. False as above, with outcome LOST. */
bool psti_fleet_talk_add(struct psti_fleet_server *server, struct psti_fleet_fill *fill,
                         enum psti_fleet_outcome *outcome);

/* fleet_fill.c */
struct psti_fleet_header {
    uint8_t bytes[PSTI_FLEET_HEADER_NBYTES];
};
/* Makes the value of a part in the copy, and keeps what it hides. *nbytes: of the value. */
uint8_t *psti_fleet_fill_begin_part(const struct psti_fleet_fill *fill, uint32_t part,
                                    struct psti_fleet_header *saved, size_t *nbytes);
void psti_fleet_fill_end_part(uint8_t *value, const struct psti_fleet_header *saved);
/* Calls the offer's `done`, unless the offer was abandoned, and frees the copy, and the set if that
 * was closed and this is its last copy. No lock is held. */
void psti_fleet_fill_end(struct psti_fleet_fill *fill, bool abandoned,
                         enum psti_fleet_outcome outcome);
/* Calls the offer's `done` with LOST and without bytes; the thread that has the copy will end it.
 */
void psti_fleet_fill_abandon(struct psti_fleet_fill *fill);

/* fleet.c */
struct psti_fleet_name psti_fleet_set_name(const struct psti_fleet_set *set, uint64_t sample,
                                           uint32_t i_item);
/* Wakes the watcher, which sleeps while nothing is under way. */
void psti_fleet_watch(pst_fleet *fleet);
/* Ends a request that nobody else has any more. No lock is held. */
void psti_fleet_get_end(struct psti_fleet_server *server, struct psti_fleet_get *get,
                        enum psti_fleet_answer answer);
/* The server that has the item with that hash: the one for which the hash of both is highest
 * (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). */
uint32_t psti_fleet_choose(const pst_fleet *fleet, uint64_t key_hash);

#endif
