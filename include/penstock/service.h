/* service.h - the host service: one process for each user of a machine, which keeps the host cache
 * for all other processes of the user.
 *
 * Programs meet the service by a Unix socket. Its path is, in this order: the one given; the
 * environment variable PENSTOCK_SOCKET; penstock/host.sock in the directory XDG_RUNTIME_DIR names;
 * /tmp/penstock-<uid>/host.sock. All memory that is shared is sealed and has no name, so nothing is
 * left of it when the processes have ended, however they ended. `penstock serve` is this service
 * as a program. */
#ifndef PENSTOCK_SERVICE_H
#define PENSTOCK_SERVICE_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A host service that runs in this process. */
typedef struct pst_service pst_service;

/* How a service works. Zero-initialise, then set struct_size. */
struct pst_service_options {
    size_t struct_size;
    /* Path of the socket; NULL: see above. Copied. */
    const char *socket;
    /* Most bytes of the host cache, as pst_cache_options.nbytes; 0: half of the memory that is
     * available now. */
    uint64_t cache_nbytes;
    /* Threads that read items, and prepare batches; 0: as many as this process may use cores. */
    uint32_t n_threads;
    /* Seconds without a client after which pst_service_run ends; 0: 600. */
    uint32_t linger_s;
    /* The service does not end for want of clients. */
    bool keep;
    /* NUMA node on whose cores all threads of the service run, and from which its memory comes as
     * long as the node has some: a number; "auto": the node of this machine's CUDA devices, none if
     * they lie on several or if it is not known; "none" or NULL: threads and memory are where the
     * system puts them. On a machine with one node nothing is done. Copied. */
    const char *numa;
};

/* Makes a service and its socket, and takes clients' connections from then on; pst_service_run
 * serves them. A socket that a killed service has left is replaced.
 *
 * out: receives the service, to be closed by pst_service_close; NULL after failure.
 *
 * PST_ERROR_BUSY: a service runs at this path already.
 * PST_ERROR_EXISTS: something else lies there, or another program listens there.
 * PST_ERROR_ARGUMENT: the path is too long, its directory is not this user's, cache_nbytes is
 *     below 1 MiB, or numa names no node with cores that this thread may use.
 * PST_ERROR_LIMIT: cache_nbytes is more than the machine, or a control group, leaves.
 * PST_ERROR_UNSUPPORTED: the kernel cannot seal memory (Linux 5.1 or newer is needed).
 * PST_ERROR_NOT_FOUND, PST_ERROR_IO: the socket cannot be made.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_service_open(const struct pst_service_options *options,
                                                 pst_service **out, struct pst_error *err);

/* Serves until pst_service_stop, until a client asks for the end, or until no client has been there
 * for `linger_s`. If somebody removes the socket, it is made again within seconds.
 *
 * PST_ERROR_IO: the system refuses to wait for clients, or the socket was removed and cannot be
 * made again.
 *
 * One thread at a time. It runs on the cores of the service's NUMA node meanwhile, if there is
 * one. */
PST_WARN_UNUSED enum pst_status pst_service_run(pst_service *service, struct pst_error *err);

/* Ends pst_service_run soon. It may be called before it, too.
 *
 * Any thread, and signal handlers. */
void pst_service_stop(pst_service *service);

/* The path of the socket.
 *
 * Returns a string that lives as long as the service. Any thread. */
const char *pst_service_socket(const pst_service *service);

/* Ends all sessions, removes the socket and frees the service. What clients have mapped stays
 * theirs. Waits for reads that are under way, so storage that stands still keeps it.
 *
 * service: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Not while pst_service_run runs. */
void pst_service_close(pst_service **service);

/* Asking a service that runs
 * ------------------------------------------------------------------------------------------- */

/* A service at one moment. */
struct pst_service_status {
    uint64_t pid;
    char version[32]; /* of its library */
    uint64_t uptime_ns;
    uint64_t cache_nbytes;      /* limit of the host cache */
    uint64_t cache_nbytes_used; /* of it: items, those under way, tables */
    uint64_t n_items;
    uint64_t n_refused; /* items that found no room, each time they were asked for */
    uint64_t n_reads;   /* items that the service has read, and their stored bytes */
    uint64_t nbytes_read;
    uint32_t n_threads, linger_s;
    bool keep;
    uint32_t n_sets, n_sessions; /* in the report */
    int32_t numa_node; /* on whose cores its threads run; -1: they run where the system puts them */
    bool numa_memory;  /* its memory comes from that node as long as it has some */
};

/* A data set in the host cache. One that is kept in two forms is there twice. */
struct pst_service_set {
    char path[1024];     /* as its first client called it; a long one keeps its end */
    uint8_t version[16]; /* of the data set */
    uint64_t forms;      /* 0: stored bytes; else which fields are re-coded, and how; the highest
                            bit: there are pictures at the training size */
    uint64_t n_samples;
    uint64_t n_items, nbytes;      /* in the cache */
    uint64_t n_reads, nbytes_read; /* by the service since it opened the data set first */
    uint64_t n_recoded, n_failed;  /* items that were re-coded, that could not be read */
    uint32_t n_loaders;            /* loaders that use it now; with 0 it may give way */
    bool is_full;                  /* items were declined for want of room */
    uint64_t nbytes_saved;         /* by how many bytes re-coding made items shorter */
    uint64_t n_to_recode;          /* items that were not looked at yet (PST_CACHE_RECODE_IDLE) */
};

/* A client. */
struct pst_service_session {
    uint64_t number, pid;
    char kind[16];      /* "cache", "stream", "control" */
    char dataset[1024]; /* path of its data set; "" none */
    uint64_t age_ns;
    /* Items that it found in the cache, that the service read for it, and that it read itself, as
     * it said a second or so ago. */
    uint64_t n_hits, n_fetched, n_missed;
    uint64_t n_waiting; /* items that it waits for now */
};

/* What a service has said about itself. It does not change later. */
typedef struct pst_service_report pst_service_report;

/* Asks a service what it has and does.
 *
 * socket: path of its socket; NULL: see above.
 * out: receives the report, to be closed by pst_service_report_close; NULL after failure.
 *
 * PST_ERROR_NOT_FOUND: no service runs there. PST_ERROR_VERSION: it is of another version.
 * PST_ERROR_IO: it does not answer within ten seconds. PST_ERROR_ARGUMENT: it is another user's.
 *
 * Any thread, as all functions below. */
PST_WARN_UNUSED enum pst_status pst_service_report_open(const char *socket,
                                                        pst_service_report **out,
                                                        struct pst_error *err);
/* Frees the report. report: becomes NULL. NULL, or a pointer to NULL, is allowed. */
void pst_service_report_close(pst_service_report **report);
/* Gives what the report says about the service. Cannot fail. status_nbytes: sizeof *status. */
void pst_service_report_status(const pst_service_report *report, struct pst_service_status *status,
                               size_t status_nbytes);
/* Gives data set i_set, below n_sets. PST_ERROR_ARGUMENT: there is none. */
PST_WARN_UNUSED enum pst_status pst_service_report_set(const pst_service_report *report,
                                                       uint32_t i_set, struct pst_service_set *set,
                                                       size_t set_nbytes, struct pst_error *err);
/* Gives session i_session, below n_sessions. PST_ERROR_ARGUMENT: there is none. */
PST_WARN_UNUSED enum pst_status pst_service_report_session(const pst_service_report *report,
                                                           uint32_t i_session,
                                                           struct pst_service_session *session,
                                                           size_t session_nbytes,
                                                           struct pst_error *err);

/* Ends a service. Its clients go on without it. Errors as of pst_service_report_open. */
PST_WARN_UNUSED enum pst_status pst_service_end(const char *socket, struct pst_error *err);
/* Frees all data sets of the host cache that no loader uses. *nbytes (may be NULL) receives how
 * much that was. Errors as of pst_service_report_open. */
PST_WARN_UNUSED enum pst_status pst_service_clear(const char *socket, uint64_t *nbytes,
                                                  struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
