/* share_host.h - finds the host service, starts it, and asks it for its status. */
#ifndef PST_SHARE_SHARE_HOST_H
#define PST_SHARE_SHARE_HOST_H

#include "cache/cache.h"
#include "share/share_link.h"

/* Connects like psti_share_connect. If no service runs at the path, and `program` is not NULL,
 * starts the program that PENSTOCK_SERVE names, else `program`, and waits until it serves. Logs a
 * warning if the service will be ended together with a job (share_life.h). */
enum pst_status psti_share_connect_or_start(const char *path, const char *program,
                                            enum psti_session_kind session, int64_t wait_ns,
                                            const struct psti_share_stop *stop, int *fd,
                                            struct pst_error *err);

/* The part of a pst_cache_open_host handle that loaders and images use. */
struct psti_share_host {
    char path[PSTI_SOCKET_PATH_CAP];
    struct psti_share_stop stop;
    bool strict;      /* pst_cache_host_options.strict */
    int64_t greet_ns; /* how long a session that is opened with the handle waits until the service
                         greets */
};
/* Returns the handle's part. It lives as long as the handle. */
const struct psti_share_host *psti_share_host(const pst_cache *cache);
/* Writes the cause of an error, including the system's error text. */
void psti_share_say(const struct pst_error *err, char *text, size_t capacity);
/* True if the caller can go on without the service: the status is the service's fault, or this
 * process lacks memory or descriptors. False if the request was wrong. */
bool psti_share_goes_on(enum pst_status status);

#endif
