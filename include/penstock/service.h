/* service.h - the host service: one process per user and machine that keeps the host cache for all
 * processes of the user.
 *
 * Programs connect to the service through a Unix socket. Its path is the first of: the one given;
 * the environment variable PENSTOCK_SOCKET; penstock/host.sock in the directory XDG_RUNTIME_DIR;
 * /tmp/penstock-<uid>/host.sock. Shared memory is sealed and has no name, so nothing of it remains
 * when the processes have ended, even if they were killed. `penstock serve` runs the service as a
 * program. */
#ifndef PENSTOCK_SERVICE_H
#define PENSTOCK_SERVICE_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A host service that runs in the calling process. */
typedef struct pst_service pst_service;

/* Options of a service. Zero-initialise, then set struct_size. */
struct pst_service_options {
    size_t struct_size;
    /* Path of the socket; NULL: the default at the top of this header. Copied. */
    const char *socket;
    /* Bytes that the host cache may hold, as pst_cache_options.nbytes; 0: half of the memory that
     * is available now. */
    uint64_t cache_nbytes;
    /* Number of threads that read items and prepare batches; 0: as many as the cores that this
     * process may use. */
    uint32_t n_threads;
    /* pst_service_run ends after this many seconds without a client; 0: 600. */
    uint32_t linger_s;
    /* True: the service does not end when it has no clients. */
    bool keep;
    /* NUMA node on whose cores all threads run, and that provides the memory as long as it has some
     * free: a number; "auto": the node of this machine's CUDA devices, none if they are on several
     * nodes or if it is unknown; "none" or NULL: the system decides. No effect on a machine with
     * one node. Copied. */
    const char *numa;
};

/* Makes a service and its socket. From then on clients can connect; pst_service_run serves them. A
 * socket left by a killed service is replaced.
 *
 * out: receives the service, to be closed by pst_service_close; NULL after failure.
 *
 * PST_ERROR_BUSY: a service runs at this path already.
 * PST_ERROR_EXISTS: another kind of file is at the path, or another program listens there.
 * PST_ERROR_ARGUMENT: the path is too long, its directory is not this user's, cache_nbytes is
 *     below 1 MiB, or numa names no node with cores that this thread may use.
 * PST_ERROR_LIMIT: cache_nbytes is more than the machine, or a control group, has left.
 * PST_ERROR_UNSUPPORTED: the kernel cannot seal memory (Linux 5.1 or newer is needed).
 * PST_ERROR_NOT_FOUND, PST_ERROR_IO: the socket cannot be made.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_service_open(const struct pst_service_options *options,
                                                 pst_service **out, struct pst_error *err);

/* Serves clients until pst_service_stop is called, a client ends the service, or there was no
 * client for `linger_s`. If the socket is removed, it is made again within seconds.
 *
 * PST_ERROR_IO: waiting for clients failed, or the socket was removed and cannot be made again.
 *
 * One thread at a time. That thread runs on the cores of the service's NUMA node, if one is set. */
PST_WARN_UNUSED enum pst_status pst_service_run(pst_service *service, struct pst_error *err);

/* Makes pst_service_run return soon. It may also be called before pst_service_run.
 *
 * Any thread; also signal handlers. */
void pst_service_stop(pst_service *service);

/* Gives the path of the service's socket.
 *
 * Returns a string that lives as long as the service. Any thread. */
const char *pst_service_socket(const pst_service *service);

/* Ends all sessions, removes the socket and frees the service. Memory that clients have mapped
 * stays theirs. Waits for running reads, so a hanging storage delays it.
 *
 * service: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Not while pst_service_run runs. */
void pst_service_close(pst_service **service);

/* Functions that ask a running service
 * ------------------------------------------------------------------------------------------- */

/* State and counters of a service at one moment. */
struct pst_service_status {
    uint64_t pid;
    char version[32]; /* of its library */
    uint64_t uptime_ns;
    uint64_t cache_nbytes;      /* bytes that the host cache may hold */
    uint64_t cache_nbytes_used; /* bytes held: items, items being read, tables */
    uint64_t n_items;
    uint64_t n_refused; /* how often an item did not fit into the cache */
    uint64_t n_reads;   /* items that the service read, and their stored bytes */
    uint64_t nbytes_read;
    uint32_t n_threads, linger_s;
    bool keep;
    uint32_t n_sets, n_sessions; /* number of data sets and of sessions in the report */
    /* NUMA node on whose cores the threads run; -1: the system decides. */
    int32_t numa_node;
    bool numa_memory; /* memory comes from that node while it has some free */
};

/* A data set in the host cache. A data set kept in two forms is listed twice. */
struct pst_service_set {
    char path[1024];     /* as its first client named it; cut at its start if too long */
    uint8_t version[16]; /* identity of the data set's bytes */
    uint64_t forms;      /* 0: stored bytes; else a code of the fields that are
                          * re-coded; highest bit: pictures at the training size */
    uint64_t n_samples;
    uint64_t n_items, nbytes;      /* in the cache */
    uint64_t n_reads, nbytes_read; /* by the service since it first opened the data set */
    uint64_t n_recoded, n_failed;  /* items that were re-coded; items that failed to read */
    uint32_t n_loaders;            /* loaders that use it now; if 0, it may be evicted */
    bool is_full;                  /* some items were refused because the cache was full */
    uint64_t nbytes_saved;         /* bytes that re-coding has saved */
    uint64_t n_to_recode;          /* items not considered yet (PST_CACHE_RECODE_IDLE) */
};

/* A client's connection to the service. */
struct pst_service_session {
    uint64_t number, pid;
    char kind[16];      /* "cache", "stream", "control" */
    char dataset[1024]; /* path of its data set; "": none */
    uint64_t age_ns;
    /* Items that the client found in the cache, that the service read for it, and that it read
     * itself, as it reported about a second ago. */
    uint64_t n_hits, n_fetched, n_missed;
    uint64_t n_waiting; /* items that the client waits for now */
};

/* A snapshot of what a service said about itself. It does not change later. */
typedef struct pst_service_report pst_service_report;

/* Asks a running service for its state.
 *
 * socket: path of the service's socket; NULL: the default at the top of this header.
 * out: receives the report, to be closed by pst_service_report_close; NULL after failure.
 *
 * PST_ERROR_NOT_FOUND: no service runs there. PST_ERROR_VERSION: it has another version.
 * PST_ERROR_IO: it does not answer within ten seconds. PST_ERROR_ARGUMENT: it belongs to another
 * user.
 *
 * Any thread; this holds for all functions below, too. */
PST_WARN_UNUSED enum pst_status pst_service_report_open(const char *socket,
                                                        pst_service_report **out,
                                                        struct pst_error *err);
/* Frees a report. report: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is
 * allowed. */
void pst_service_report_close(pst_service_report **report);
/* Gives the state of the service from a report. Cannot fail. status_nbytes: sizeof *status. */
void pst_service_report_status(const pst_service_report *report, struct pst_service_status *status,
                               size_t status_nbytes);
/* Gives a data set of a report. i_set: 0 to n_sets - 1. PST_ERROR_ARGUMENT: there is no such data
 * set. */
PST_WARN_UNUSED enum pst_status pst_service_report_set(const pst_service_report *report,
                                                       uint32_t i_set, struct pst_service_set *set,
                                                       size_t set_nbytes, struct pst_error *err);
/* Gives a session of a report. i_session: 0 to n_sessions - 1. PST_ERROR_ARGUMENT: there is none.
 */
PST_WARN_UNUSED enum pst_status pst_service_report_session(const pst_service_report *report,
                                                           uint32_t i_session,
                                                           struct pst_service_session *session,
                                                           size_t session_nbytes,
                                                           struct pst_error *err);

/* Ends a service. Its clients continue without it. Errors are those of pst_service_report_open. */
PST_WARN_UNUSED enum pst_status pst_service_end(const char *socket, struct pst_error *err);
/* Frees all data sets of the host cache that no loader uses. *nbytes (may be NULL) receives the
 * bytes freed. Errors are those of pst_service_report_open. */
PST_WARN_UNUSED enum pst_status pst_service_clear(const char *socket, uint64_t *nbytes,
                                                  struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
