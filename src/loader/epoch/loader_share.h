/* loader_share.h - batches that come from shared preparation (option `share`) instead of the
 * loader's own workers. */
#ifndef PST_LOADER_LOADER_SHARE_H
#define PST_LOADER_LOADER_SHARE_H

#include "loader/epoch/loader_job.h"

struct psti_loader_share;

/* Called with complete options, before their arrays are dropped. */
enum pst_status psti_loader_share_open(pst_loader *loader, struct pst_error *err);
/* Called when plan and placement are made, before the first slot. Slots get the arrays of extents
 * where they are mapped, unless they are page-locked or on a GPU. */
enum pst_status psti_loader_share_set_slots(pst_loader *loader, struct pst_error *err);
/* Joins the group, at the end of opening. If that is not possible the loader goes on alone.
 * PST_ERROR_CANCELLED: the caller's interrupt function said so. */
enum pst_status psti_loader_share_join(pst_loader *loader, struct pst_error *err);
void psti_loader_share_close(pst_loader *loader);

/* The lock must be held for the functions below. */
/* An epoch begins. Returns false if the loader does not share. */
bool psti_loader_share_begin(pst_loader *loader);
void psti_loader_share_end(pst_loader *loader); /* the epoch is over */
/* Before and after the weights of a mixture's sources change: makes what the job says when it joins
 * the group of jobs with the same changes, and leaves the group that it is in. *fd goes from the
 * first to the second; it is the caller's to close if the second is not called. -1: none. The first
 * one is called without the lock. */
enum pst_status psti_loader_share_prepare_change(const pst_loader *loader, const uint64_t *places,
                                                 const double *weights, uint32_t n, int *fd,
                                                 struct pst_error *err);
void psti_loader_share_change(pst_loader *loader, int fd);
/* True if the next batch is to come from the group. */
bool psti_loader_share_takes(const pst_loader *loader);
/* Makes the job whole with a shared batch; the lock is released meanwhile. PST_OK: look again, the
 * job may have to be made here. */
enum pst_status psti_loader_share_take(pst_loader *loader, struct psti_loader_job *job,
                                       int64_t deadline, struct pst_error *err);
/* Called when a batch was delivered. If it had to be made here alone, the next one is shared again.
 * */
void psti_loader_share_delivered(pst_loader *loader);
void psti_loader_share_stats(const pst_loader *loader, struct pst_loader_stats *stats);

/* Gives back the mapped parts of a batch that is not wanted. The lock need not be held. */
void psti_loader_share_drop(pst_loader *loader, pst_batch *batch);

#endif
