/* share_host.h - finding the host service, starting it, and asking it about itself. */
#ifndef PST_SHARE_SHARE_HOST_H
#define PST_SHARE_SHARE_HOST_H

#include "cache/cache.h"
#include "share/share_link.h"

/* Connects as psti_share_connect. If no service runs at the path, and `program` is not NULL,
 * starts that, or what PENSTOCK_SERVE names, and waits until it serves. Logs a warning if the
 * service will be ended with a job (share_life.h). */
enum pst_status psti_share_connect_or_start(const char *path, const char *program,
                                            enum psti_session_kind session, int64_t wait_ns,
                                            const struct psti_share_stop *stop, int *fd,
                                            struct pst_error *err);

/* The part of a handle of pst_cache_open_host that loaders and images need. */
struct psti_share_host {
    char path[PSTI_SOCKET_PATH_CAP];
    struct psti_share_stop stop;
    bool strict; /* pst_cache_host_options.strict */
};
/* Lives as long as the handle. */
const struct psti_share_host *psti_share_host(const pst_cache *cache);
/* Writes the cause of an error, with what the system says about it. */
void psti_share_say(const struct pst_error *err, char *text, size_t capacity);
/* True if the status is the service's fault, or comes of a lack of memory or descriptors in this
 * process: then the caller can go on without the service. False if the request was wrong. */
bool psti_share_goes_on(enum pst_status status);


#endif
