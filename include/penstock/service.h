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
};

/* Makes a service and its socket, and takes clients' connections from then on; pst_service_run
 * serves them. A socket that a killed service has left is replaced.
 *
 * out: receives the service, to be closed by pst_service_close; NULL after failure.
 *
 * PST_ERROR_BUSY: a service runs at this path already.
 * PST_ERROR_ARGUMENT: the path is too long, its directory is not this user's, or cache_nbytes is
 *     below 1 MiB.
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
 * One thread at a time. */
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
 * theirs.
 *
 * service: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Not while pst_service_run runs. */
void pst_service_close(pst_service **service);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
