/* serve_stream_int.h - declarations that the files about groups and streams share. Everything runs
 * on the loop's thread. */
#ifndef PST_SERVE_SERVE_STREAM_INT_H
#define PST_SERVE_SERVE_STREAM_INT_H

#include "serve/serve_stream.h"

/* The state that all groups of a service share. */
struct psti_groups {
    struct psti_group *first;
    struct psti_gate gate; /* lets as many threads make rows as the service may use cores */
    uint32_t n_lent;
};
static inline struct psti_groups *psti_serve_groups(const pst_service *service)
{
    return service->parts[PSTI_SESSION_STREAM];
}

/* serve_stream_window.c: functions for extents */
/* Returns the extent if it is in the stream's window, else NULL. */
struct psti_serve_extent *psti_serve_stream_find(const struct psti_serve_stream *stream,
                                                 uint64_t epoch, uint64_t index);
void psti_serve_extent_free(struct psti_serve_extent *extent);
/* A job that held it holds it no longer. */
void psti_serve_extent_let_go(struct psti_serve_extent *extent);
/* True if a job of the stream may still need the extent. */
bool psti_serve_extent_is_needed(const struct psti_serve_stream *stream,
                                 const struct psti_serve_extent *extent);
/* Removes the oldest extent from the window. False: the window is empty, or a job needs that
 * extent. */
bool psti_serve_stream_evict(struct psti_serve_stream *stream);

/* serve_stream_window.c: functions for jobs */
/* Return the first and the last index of the extents that the job wants. */
uint64_t psti_serve_job_first(const struct psti_job *job);
uint64_t psti_serve_job_last(const struct psti_job *job);
/* True if the job, which takes extents from the stream, may still need this one. */
bool psti_serve_job_needs(const struct psti_job *job, const struct psti_serve_extent *extent);
/* Returns how many extents one step of all ranks touches at most. */
uint32_t psti_serve_job_span(const struct psti_job *job);

/* serve_stream_window.c: functions for streams */
enum pst_status psti_serve_stream_new(struct psti_group *group, uint32_t index,
                                      struct pst_error *err);
/* Frees a stream whose thread has ended and whose results are all handled. */
void psti_serve_stream_free(struct psti_serve_stream *stream);
/* True if no job takes extents from the stream. */
bool psti_serve_stream_is_idle(const struct psti_serve_stream *stream);
/* Returns the largest number of extents in the window. The stream must be open, because until then
 * its arena belongs to its thread. */
uint32_t psti_serve_stream_window_max(const struct psti_serve_stream *stream);
/* Tells the stream's thread how many extents it may make, and up to which index. */
void psti_serve_stream_order(struct psti_serve_stream *stream, uint64_t made_max,
                             uint64_t index_max);
/* Makes the stream start again at another position. */
void psti_serve_stream_restart(struct psti_serve_stream *stream, uint64_t epoch, uint64_t index);
/* Returns how many slots of an arena the stream's loader uses for itself. */
uint32_t psti_serve_group_loader_slots(const struct psti_group *group);
/* True if jobs can map extents and keep them. Otherwise they copy all values, and give the extents
 * back with their next message. */
bool psti_serve_group_can_keep(const struct psti_group *group);
/* Returns how many extents all jobs together may keep. */
uint32_t psti_serve_group_held_max(const struct psti_group *group);

/* serve_stream_settle.c */
/* Makes the job prepare the batches of this epoch itself from now on. If it waits for a batch, it
 * is told so. */
void psti_serve_job_leave_behind(struct psti_job *job, enum psti_stream_alone reason);
/* Settles the other groups that use the shelf, which may wait for something that this group did. */
void psti_serve_siblings_settle(pst_service *service, const struct psti_shelf *shelf,
                                const struct psti_group *but);

#endif
