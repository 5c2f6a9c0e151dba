/* fleet.h - a cache that all ranks of a job share: memcached servers, one on each host.
 *
 * The key of an item chooses its server (rendezvous hashing). The rank that first needs an item
 * reads it from storage and adds it to the server; later every rank gets it from there. Start
 * servers with -M: then a full server refuses items and evicts nothing (`penstock cache fleet`
 * prints the command). A server that is dead, slow, full, restarted or wrong only costs speed: its
 * items are read from storage and counted, and the client tries the server again.
 *
 * Penstock has its own client, which speaks memcached's meta protocol; it needs servers of version
 * 1.6.10 or later. */
#ifndef PENSTOCK_FLEET_H
#define PENSTOCK_FLEET_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Connections to memcached servers. Loaders that are given the same fleet share them. */
typedef struct pst_fleet pst_fleet;

/* How the client authenticates, if auth_file is given. */
enum pst_fleet_auth {
    PST_FLEET_AUTH_ASCII = 0, /* in the text protocol (memcached -Y) */
    PST_FLEET_AUTH_SASL = 1   /* unsupported: needs the binary protocol (-S) */
};

/* Options of pst_fleet_open. Zero-initialise, then set struct_size. A member that is 0 has its
 * default. */
struct pst_fleet_options {
    size_t struct_size;
    /* Servers, separated by commas or white space: `host`, `host:port` (default 11211),
     * `[address]:port`, or the path of a Unix socket. `name=` in front gives a server another name.
     * Or `@` and the path of a file with a server on each line, where `#` begins a comment. All
     * ranks must give the same names, in any order. NULL: the value of the environment variable
     * PENSTOCK_FLEET. */
    const char *servers;
    /* Longest time in seconds that a row waits for a server, 0.01 to 60; 0 = 1. */
    double timeout_seconds;
    /* Most memory that one value may take on a server: 4 KiB to 1 GiB, at most memcached's -I; 0 =
     * 32 KiB. Longer items are stored in parts of that size, which fill the servers' memory without
     * gaps (`penstock cache fleet`). All ranks must give the same number. */
    uint64_t max_item_nbytes;
    /* Path of a file whose first line is `user:password`. NULL: the file named by the environment
     * variable PENSTOCK_FLEET_AUTH; if that is not set, no password is sent. */
    const char *auth_file;
    enum pst_fleet_auth auth;
};

/* Opens a fleet: starts a thread for each server, which connects to it. The call does not wait for
 * the connections.
 *
 * options: NULL for the defaults. Read during the call only.
 * out: receives the fleet, to be closed by pst_fleet_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: no server is given, or its text is invalid; an option is out of range.
 * PST_ERROR_UNSUPPORTED: auth is PST_FLEET_AUTH_SASL.
 * PST_ERROR_NOT_FOUND, PST_ERROR_IO: a file of servers or passwords cannot be read.
 * PST_ERROR_MEMORY: memory is lacking, or a thread cannot be started.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_fleet_open(const struct pst_fleet_options *options,
                                               pst_fleet **out, struct pst_error *err);

/* Gives up the caller's reference. Each loader that uses the fleet has its own reference. Giving up
 * the last one ends the threads, which takes at most about twice timeout_seconds.
 *
 * fleet: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread. */
void pst_fleet_close(pst_fleet **fleet);

/* Counters of all servers together, for this process since open. Times are in nanoseconds. */
struct pst_fleet_stats {
    uint32_t n_servers, n_servers_up;
    /* Items asked for. n_hits: the server had them. n_misses: it did not. n_declined: no valid
     * answer came, because the server was down, slow or returned wrong bytes. */
    uint64_t n_hits, n_misses, n_declined;
    uint64_t nbytes_hit;
    /* Items offered. n_added: stored. n_present: already there. n_full: refused by a full server.
     * n_dropped: not sent, because too many were waiting or the server was down. */
    uint64_t n_added, n_present, n_full, n_dropped;
    uint64_t nbytes_added;
    uint64_t
        n_bad_values; /* Values that do not belong to their key, and answers without a request. */
    uint64_t n_late;  /* items that a server did not deliver in time */
    uint64_t n_lost;  /* times that a server was given up for a while */
    uint64_t n_found; /* times that a server answered first, or again */
    /* Time of hits from the request to the last byte: the mean and the 99th percentile. */
    uint64_t mean_ns, p99_ns;
    double bytes_per_second; /* rate of hits while a request was under way */
};

/* Gives the counters. In a forked child all counters are zero.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_fleet_stats(pst_fleet *fleet, struct pst_fleet_stats *stats, size_t stats_nbytes);

/* State and counters of one server, as this process sees it. */
struct pst_fleet_server {
    char name[256];
    char error[192];      /* why it was last given up; "" if it never was */
    bool is_up, is_local; /* the server answers; it runs on this host */
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
