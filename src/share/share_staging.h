/* share_staging.h - a job's side of shared preparation: its session with the host service, and the
 * extents that it gets.
 *
 * An extent stays unchanged until the job gives it back, or its session ends. So a staging is
 * reference-counted, and ends when no holder of its extents is left. This is also so if its service
 * counts as lost, because the service may only be suspended. */
#ifndef PST_SHARE_SHARE_STAGING_H
#define PST_SHARE_SHARE_STAGING_H

#include "share/share_link.h"
#include "share/share_stream_wire.h"
#include "share/share_view.h"

struct psti_staging;

struct psti_staging_options {
    const char *socket;  /* path of the service's socket; NULL: the standard path */
    const char *program; /* program that is started as the service if none runs, unless
                            PENSTOCK_SERVE names another; NULL: none is started */
    const struct psti_stream_open *open;
    const pst_dataset *dataset;
    int options_fd;  /* descriptor of the blob with the loader's options */
    int64_t wait_ns; /* silence after which the service counts as lost */
    /* Called before memory from psti_share_staging_bytes is unmapped, within
     * psti_share_staging_want and the last release. May be NULL. */
    void (*unmapping)(void *ctx, const void *memory, size_t nbytes);
    void *ctx;
    struct psti_share_stop stop; /* may end the wait of psti_share_staging_open */
};
/* Connects to the service, joins the group, and waits until the service has opened the data set. */
enum pst_status psti_share_staging_open(const struct psti_staging_options *options,
                                        struct psti_staging **out, struct pst_error *err);
void psti_share_staging_retain(struct psti_staging *staging);
void psti_share_staging_release(struct psti_staging *staging); /* NULL is allowed */
const struct psti_stream_layout *psti_share_staging_layout(const struct psti_staging *staging);

/* Asks for a batch and waits until `deadline`. One thread at a time may call.
 * PST_OK: *ready is valid until the next call, and its extents are held.
 * PST_END: the job must prepare the batch itself, and *alone says why.
 * PST_ERROR_BUSY: the deadline has passed; call again with the same batch to continue.
 * Other errors: the service is lost. */
enum pst_status psti_share_staging_want(struct psti_staging *staging,
                                        const struct psti_stream_want *want, int64_t deadline,
                                        const struct psti_stream_ready **ready,
                                        enum psti_stream_alone *alone, struct pst_error *err);
/* Tells the service that the job wants no batch for now, so that other jobs need not wait for
 * it. */
void psti_share_staging_leave(struct psti_staging *staging);
/* Gives extents back. If they are few, they are sent with the next request. Any thread. If another
 * thread is sending a message that the service does not receive, this call waits for that thread,
 * at most wait_ns. */
void psti_share_staging_give(struct psti_staging *staging, const uint64_t *numbers, uint32_t n);
/* Returns the slot of a held extent up to its own rows (rows that may differ in shape). *nbytes:
 * its length, in whole pages. */
const void *psti_share_staging_slot(struct psti_staging *staging,
                                    const struct psti_stream_extent *extent, size_t *nbytes);
/* Returns the number of extents that are held. Any thread. */
uint32_t psti_share_staging_n_held(const struct psti_staging *staging);

/* Returns read-only memory of a held extent: nbytes bytes from offset `at` of its slot. NULL: the
 * slot lacks them. Only for the thread that asks for batches. */
const void *psti_share_staging_bytes(struct psti_staging *staging,
                                     const struct psti_stream_extent *extent, uint64_t at,
                                     uint64_t nbytes);
/* Maps the held extents of a batch one behind the other, so its rows can be read and written there
 * (share_view.h). The batch begins at position `first`. Only for the thread that asks for batches.
 * False: no addresses are free, and the caller must copy the rows. */
bool psti_share_staging_show(struct psti_staging *staging, const struct psti_stream_ready *ready,
                             uint64_t first, uint32_t n_rows, struct psti_share_view_run *run);

#endif
