/* share_staging.h - a job's side of shared preparation: the session with the host service, and the
 * extents that it gets.
 *
 * An extent that a job was given stays as it is until the job gives it back, or its session ends.
 * So a staging is reference-counted, and ends when nothing holds one of its extents any more: also
 * if its service was counted as lost, because it may only have been stopped. */
#ifndef PST_SHARE_SHARE_STAGING_H
#define PST_SHARE_SHARE_STAGING_H

#include "share/share_link.h"
#include "share/share_stream_wire.h"
#include "share/share_view.h"

struct psti_staging;

struct psti_staging_options {
    const char *socket;  /* NULL: the usual place */
    const char *program; /* is started as the service if none runs; NULL: PENSTOCK_SERVE, or none */
    const struct psti_stream_open *open;
    const pst_dataset *dataset;
    int options_fd;  /* blob of options */
    int64_t wait_ns; /* silence after which the service counts as lost */
    /* The memory of psti_share_staging_bytes is going to be unmapped; may be NULL. Called within
     * want and the last release. */
    void (*unmapping)(void *ctx, const void *memory, size_t nbytes);
    void *ctx;
    struct psti_share_stop stop; /* of the opening */
};
/* Connects and joins the group; waits for the service to open the data set. */
enum pst_status psti_share_staging_open(const struct psti_staging_options *options,
                                        struct psti_staging **out, struct pst_error *err);
void psti_share_staging_retain(struct psti_staging *staging);
void psti_share_staging_release(struct psti_staging *staging); /* NULL is allowed */
const struct psti_stream_layout *psti_share_staging_layout(const struct psti_staging *staging);

/* Asks for a batch and waits until `deadline`. One thread at a time.
 * PST_OK: *ready is valid until the next call, and its extents are held.
 * PST_END: *alone says why the job must prepare it itself.
 * PST_ERROR_BUSY: the deadline has passed; the next call with the same batch goes on.
 * Others: the service is lost. */
enum pst_status psti_share_staging_want(struct psti_staging *staging,
                                        const struct psti_stream_want *want, int64_t deadline,
                                        const struct psti_stream_ready **ready,
                                        enum psti_stream_alone *alone, struct pst_error *err);
/* Says that the job does not want a batch for now, so that others need not wait for it. */
void psti_share_staging_leave(struct psti_staging *staging);
/* Gives extents back, a few of them with the next message. Any thread. It waits only while another
 * thread sends to a service that does not receive, at most the time that the service is given to
 * answer. */
void psti_share_staging_give(struct psti_staging *staging, const uint64_t *numbers, uint32_t n);
/* The whole slot of a held extent without its own rows, whole pages: *nbytes of them. */
const void *psti_share_staging_slot(struct psti_staging *staging,
                                    const struct psti_stream_extent *extent, size_t *nbytes);
/* Number of extents that are held. Any thread. */
uint32_t psti_share_staging_n_held(const struct psti_staging *staging);

/* Memory of a held extent, read-only: nbytes from `at` of its slot. NULL: there is no such memory.
 * The thread that wants. */
const void *psti_share_staging_bytes(struct psti_staging *staging,
                                     const struct psti_stream_extent *extent, uint64_t at,
                                     uint64_t nbytes);
/* Shows held extents, one after the other, where their rows can be read and written
 * (share_view.h): those of the batch from position `first` on. The thread that wants. False: there
 * is no place, and the rows are to be copied. */
bool psti_share_staging_show(struct psti_staging *staging, const struct psti_stream_ready *ready,
                             uint64_t first, uint32_t n_rows, struct psti_share_view_run *run);

#endif
