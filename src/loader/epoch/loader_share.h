/* loader_share.h - batches that come from shared preparation (option `share`) instead of the
 * loader's own workers. */
#ifndef PST_LOADER_LOADER_SHARE_H
#define PST_LOADER_LOADER_SHARE_H

#include "loader/epoch/loader_job.h"

struct psti_loader_share;

/* Prepares sharing, if the options ask for it. Called with complete options, before the caller's
 * arrays in them are dropped. */
enum pst_status psti_loader_share_open(pst_loader *loader, struct pst_error *err);
/* Gives the pool slots that can show arrays of extents in place, unless arrays are page-locked or
 * on a GPU. Called when plan and placement are made, before the first slot is. */
enum pst_status psti_loader_share_set_slots(pst_loader *loader, struct pst_error *err);
/* Joins the group at the end of opening. If that is not possible, the loader works alone.
 * PST_ERROR_CANCELLED: the caller's interrupt function ended the wait. */
enum pst_status psti_loader_share_join(pst_loader *loader, struct pst_error *err);
void psti_loader_share_close(pst_loader *loader);

/* The functions below need the loader's lock to be held. */
/* Begins an epoch. Returns false if the loader does not share. */
bool psti_loader_share_begin(pst_loader *loader);
void psti_loader_share_end(pst_loader *loader); /* ends the epoch */
/* The loader calls these two functions before and after the weights of a mixture's sources change.
 * The first makes a blob that describes the change. The second leaves the group, and the loader
 * will join the group of jobs with the same change. *fd: the blob, for the second function; the
 * caller closes it if it does not call that function. -1: no change. The first function is called
 * without the lock. */
enum pst_status psti_loader_share_prepare_change(const pst_loader *loader, const uint64_t *places,
                                                 const double *weights, uint32_t n, int *fd,
                                                 struct pst_error *err);
void psti_loader_share_change(pst_loader *loader, int fd);
/* True if the next batch shall come from the group. */
bool psti_loader_share_takes(const pst_loader *loader);
/* Fills the job with a shared batch, and releases the lock meanwhile. PST_OK: check the job's
 * state, because this loader may have to make the batch itself. */
enum pst_status psti_loader_share_take(pst_loader *loader, struct psti_loader_job *job,
                                       int64_t deadline, struct pst_error *err);
/* Called when a batch was delivered. If this loader had to make it alone, the next batch is shared
 * again. */
void psti_loader_share_delivered(pst_loader *loader);
void psti_loader_share_stats(const pst_loader *loader, struct pst_loader_stats *stats);

/* Gives back the extents that an unwanted batch maps. The lock need not be held. */
void psti_loader_share_drop(pst_loader *loader, pst_batch *batch);

#endif
