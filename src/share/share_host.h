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
                                            int *fd, struct pst_error *err);

/* The socket's path of a handle that pst_cache_open_host has made. It lives as long as the handle.
 */
const char *psti_share_host_path(const pst_cache *cache);

/* One request of a session of control, in its own connection. The body of the request is what
 * `put` (may be NULL) writes. The answer is in *message, whose descriptors are the caller's to
 * close. */
enum pst_status psti_share_request(const char *path, enum psti_message_kind kind,
                                   void (*put)(struct psti_wire_out *out, const void *ctx),
                                   const void *ctx, enum psti_message_kind answer,
                                   struct psti_message *message, struct pst_error *err);

#endif
