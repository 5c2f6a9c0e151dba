/* serve_stream_int.h - what the files about groups and streams have in common. All of it belongs to
 * the loop's thread. */
#ifndef PST_SERVE_SERVE_STREAM_INT_H
#define PST_SERVE_SERVE_STREAM_INT_H

#include "serve/serve_stream.h"

/* The state that all groups of a service share. */
struct psti_groups {
    struct psti_group *first;
    struct psti_gate gate; /* as many threads make rows as the service may use cores */
    uint32_t n_lent;
};
static inline struct psti_groups *psti_serve_groups(const pst_service *service)
{
    return service->parts[PSTI_SESSION_STREAM];
}

/* serve_stream_window.c: extents */
/* The extent in the stream's window, or NULL. */
struct psti_serve_extent *psti_serve_stream_find(const struct psti_serve_stream *stream,
                                                 uint64_t epoch, uint64_t index);
void psti_serve_extent_free(struct psti_serve_extent *extent);
/* A job that held it holds it no longer. */
void psti_serve_extent_let_go(struct psti_serve_extent *extent);
/* True if a job of the stream may still need the extent. */
bool psti_serve_extent_is_needed(const struct psti_serve_stream *stream,
                                 const struct psti_serve_extent *extent);
/* Takes the oldest extent out of the window. False: the window is empty, or a job needs that
 * extent. */
bool psti_serve_stream_evict(struct psti_serve_stream *stream);

/* serve_stream_window.c: jobs */
/* The extents that the job wants. */
uint64_t psti_serve_job_first(const struct psti_job *job);
uint64_t psti_serve_job_last(const struct psti_job *job);
/* True if the job, which takes from the stream, may still need the extent. */
bool psti_serve_job_needs(const struct psti_job *job, const struct psti_serve_extent *extent);
/* Returns how many extents one step of all ranks touches at most. */
uint32_t psti_serve_job_span(const struct psti_job *job);

/* serve_stream_window.c: streams */
enum pst_status psti_serve_stream_new(struct psti_group *group, uint32_t index,
                                      struct pst_error *err);
/* Frees a stream whose thread has ended, and of which no result is left to take. */
void psti_serve_stream_free(struct psti_serve_stream *stream);
/* True if no job takes extents from the stream. */
bool psti_serve_stream_is_idle(const struct psti_serve_stream *stream);
/* Returns the largest number of extents in the window. The stream is open; until then its arena
 * belongs to its thread. */
uint32_t psti_serve_stream_window_max(const struct psti_serve_stream *stream);
/* Tells the thread how far to go. */
void psti_serve_stream_order(struct psti_serve_stream *stream, uint64_t made_max,
                             uint64_t index_max);
/* Makes the stream begin anew, at another position. */
void psti_serve_stream_restart(struct psti_serve_stream *stream, uint64_t epoch, uint64_t index);
/* Returns how many slots of an arena the stream's loader uses for itself. */
uint32_t psti_serve_group_loader_slots(const struct psti_group *group);
/* True if jobs can have extents mapped, and keep them; else they copy all, and give them back with
 * their next message. */
bool psti_serve_group_can_keep(const struct psti_group *group);
/* Extents that all jobs may keep. */
uint32_t psti_serve_group_held_max(const struct psti_group *group);

/* serve_stream_settle.c */
/* From now on the job makes the batches of its epoch itself. If it waits for one, it is told so. */
void psti_serve_job_leave_behind(struct psti_job *job, enum psti_stream_alone reason);
/* Settles other groups with the shelf, which may wait for what one has done. */
void psti_serve_siblings_settle(pst_service *service, const struct psti_shelf *shelf,
                                const struct psti_group *but);

#endif
