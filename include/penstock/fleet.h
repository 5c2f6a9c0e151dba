/* fleet.h - a cache in memcached servers, one on each host, that all ranks of a job share.
 *
 * An item lies on one server, which its key chooses (rendezvous hashing). What no rank has read yet
 * is read from storage once and added to its server; from then on every rank gets it from there.
 * Servers are started with -M, so that they refuse items when they are full, and evict nothing
 * (`penstock cache fleet` prints the command). A server that is dead, slow, full, restarted or
 * wrong costs speed only: its items are read from storage, which is counted, and it is tried again.
 *
 * The client is Penstock's own and speaks memcached's meta protocol: servers of version 1.6.10 or
 * later. */
#ifndef PENSTOCK_FLEET_H
#define PENSTOCK_FLEET_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Connections to memcached servers, shared by the loaders that are given it. */
typedef struct pst_fleet pst_fleet;

/* Says how a client proves who it is, where auth_file is given. */
enum pst_fleet_auth {
    PST_FLEET_AUTH_ASCII = 0, /* the text protocol's (memcached -Y) */
    PST_FLEET_AUTH_SASL = 1   /* refused: it needs the binary protocol (memcached -S) */
};

/* Says which servers there are. Zero-initialise, then set struct_size. Zero takes the default. */
struct pst_fleet_options {
    size_t struct_size;
    /* Servers, separated by commas or white space: `host`, `host:port` (default 11211),
     * `[address]:port`, or the path of a Unix socket, each after `name=` if it is to be known by
     * another name. Or `@` and the path of a file with one server a line; `#` begins a comment
     * there. All ranks give the same names; their order does not matter. NULL: the same from the
     * environment variable PENSTOCK_FLEET. */
    const char *servers;
    /* Longest time that a row waits for a server, in seconds, 0.01 to 60; 0 = 1. */
    double timeout_seconds;
    /* Memory that one value takes on a server, at most; 4 KiB to 1 GiB, and not above memcached's
     * -I; 0 = 32 KiB. Longer items are kept in parts of that size, which fill the servers' memory
     * without gaps (`penstock cache fleet`). All ranks give the same number. */
    uint64_t max_item_nbytes;
    /* Path of a file whose first line is `user:password`. NULL: the file that the environment
     * variable PENSTOCK_FLEET_AUTH names; if it is not set, servers ask for no password. */
    const char *auth_file;
    enum pst_fleet_auth auth;
};

/* Opens a fleet: starts a thread for each server, which connects to it. Does not wait for them.
 *
 * options: NULL for the defaults. Read during the call only.
 * out: receives the fleet, to be closed by pst_fleet_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: no servers are given, or one is not understood; an option is out of range.
 * PST_ERROR_UNSUPPORTED: auth is PST_FLEET_AUTH_SASL.
 * PST_ERROR_NOT_FOUND, PST_ERROR_IO: a file that is named cannot be read.
 * PST_ERROR_MEMORY: no memory, or no thread.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_fleet_open(const struct pst_fleet_options *options,
                                               pst_fleet **out, struct pst_error *err);

/* Gives up the caller's hold. Loaders that use the fleet have their own. The last one ends the
 * threads, which takes at most about twice timeout_seconds.
 *
 * fleet: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread. */
void pst_fleet_close(pst_fleet **fleet);

/* Counts what all servers did for this process since open. Times are in nanoseconds. */
struct pst_fleet_stats {
    uint32_t n_servers, n_servers_up;
    /* Items asked for: found, not there, and not answered, because the server was down, late or
     * gave bytes that are not the item's. */
    uint64_t n_hits, n_misses, n_declined;
    uint64_t nbytes_hit;
    /* Items added; found to be there already, when they were to be added; refused because the
     * server is full; not offered because too many waited, or the server was down. */
    uint64_t n_added, n_present, n_full, n_dropped;
    uint64_t nbytes_added;
    uint64_t
        n_bad_values; /* values that were not those of their key, and answers to nothing asked */
    uint64_t n_late;  /* items that a server did not give in time */
    uint64_t n_lost;  /* times that a server was given up until it answers again */
    uint64_t n_found; /* times that a server answered, the first time too */
    /* Of hits: from the request to the last byte. */
    uint64_t mean_ns, p99_ns;
    double bytes_per_second; /* of hits, while at least one request was under way */
};

/* Gives the counters. In a forked child all are zero.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_fleet_stats(pst_fleet *fleet, struct pst_fleet_stats *stats, size_t stats_nbytes);

/* Describes one server, as this process sees it. */
struct pst_fleet_server {
    char name[256];
    char error[192];      /* why it was given up last; "" if it never was */
    bool is_up, is_local; /* it answers; it runs on this host */
    uint64_t n_hits, n_misses, n_declined, n_added, n_full, n_lost;
};

/* Describes one server.
 *
 * i_server: 0 to n_servers - 1, in the order of the names.
 * server: the caller's struct, written after success only.
 * server_nbytes: sizeof *server.
 *
 * PST_ERROR_ARGUMENT: there is no such server. PST_ERROR_FORKED.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_fleet_server(pst_fleet *fleet, uint32_t i_server,
                                                 struct pst_fleet_server *server,
                                                 size_t server_nbytes, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
