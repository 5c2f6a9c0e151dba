/* serve_stream_window.c - a stream's extents: those in its window, those that jobs hold, and how
 * far the stream's thread may go.
 *
 * Everything runs on the loop's thread. */
#include "serve/serve_stream_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/thread.h"

/* A job may be behind the foremost one by WINDOW_STEPS of its steps or WINDOW_MIN extents,
 * whichever is more, as far as memory allows. */
#define WINDOW_STEPS 8u
#define WINDOW_MIN 32u

void psti_serve_extent_free(struct psti_serve_extent *extent)
{
    extent->stream->n_alive--;
    pst_batch_release(extent->batch);
    psti_free(extent);
}

struct psti_serve_extent *psti_serve_stream_find(const struct psti_serve_stream *stream,
                                                 uint64_t epoch, uint64_t index)
{
    for (struct psti_serve_extent *at = stream->window; at; at = at->next)
        if (at->epoch == epoch && at->index == index)
            return at;
    return NULL;
}

uint64_t psti_serve_job_first(const struct psti_job *job)
{
    return job->cursor / job->group->extent_rows;
}

uint64_t psti_serve_job_last(const struct psti_job *job)
{
    return (job->cursor + (job->n_rows ? job->n_rows - 1 : 0)) / job->group->extent_rows;
}

/* True if the job, which takes extents from the stream, may still need this one. */
bool psti_serve_job_needs(const struct psti_job *job, const struct psti_serve_extent *extent)
{
    return job->epoch < extent->epoch ||
           (job->epoch == extent->epoch && psti_serve_job_first(job) <= extent->index);
}

bool psti_serve_extent_is_needed(const struct psti_serve_stream *stream,
                                 const struct psti_serve_extent *extent)
{
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && psti_serve_job_needs(job, extent))
            return true;
    return false;
}

/* Removes the oldest extent from the window, if no job needs it. Needed extents are always the
 * newest ones in the window. */
bool psti_serve_stream_evict(struct psti_serve_stream *stream)
{
    struct psti_serve_extent *extent = stream->window;
    if (!extent || psti_serve_extent_is_needed(stream, extent))
        return false;
    stream->window = extent->next;
    if (!stream->window)
        stream->window_last = NULL;
    extent->in_window = false;
    stream->n_window--;
    if (extent->n_held == 0)
        psti_serve_extent_free(extent);
    return true;
}

void psti_serve_extent_let_go(struct psti_serve_extent *extent)
{
    extent->n_held--;
    if (extent->n_held == 0 && !extent->in_window)
        psti_serve_extent_free(extent);
}

void psti_serve_job_give(struct psti_job *job, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < job->n_held; k++) {
            if (job->held[k]->number != numbers[i])
                continue;
            psti_serve_extent_let_go(job->held[k]);
            job->held[k] = job->held[--job->n_held];
            break;
        }
}

void psti_serve_job_leave(struct psti_job *job)
{
    job->stream = NULL;
    job->wants = job->left = false; /* the job may begin the same epoch again */
}

bool psti_serve_stream_is_idle(const struct psti_serve_stream *stream)
{
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream)
            return false;
    return true;
}

/* Returns how many extents one step of all ranks touches at most. */
uint32_t psti_serve_job_span(const struct psti_job *job)
{
    uint32_t n = job->step_rows / job->group->extent_rows;
    return (n < PSTI_STREAM_EXTENTS ? n : PSTI_STREAM_EXTENTS) + 2;
}

bool psti_serve_group_can_keep(const struct psti_group *group)
{
    for (uint32_t i = 0; i < group->layout.n_fields; i++)
        if (group->layout.fields[i].row_nbytes > 0)
            return true;
    return false;
}

uint32_t psti_serve_group_held_max(const struct psti_group *group)
{
    uint32_t n = 0;
    for (const struct psti_job *job = group->jobs; job && psti_serve_group_can_keep(group);
         job = job->next)
        n += job->hold_max;
    return n;
}

/* Returns how many slots of an arena the stream's loader uses for itself. */
uint32_t psti_serve_group_loader_slots(const struct psti_group *group)
{
    return group->prefetch + 2;
}

/* Returns the largest number of extents in the window. The stream must be open, because until then
 * its arena belongs to its thread. */
uint32_t psti_serve_stream_window_max(const struct psti_serve_stream *stream)
{
    uint32_t n = WINDOW_MIN, others = psti_serve_group_loader_slots(stream->group) +
                                      psti_serve_group_held_max(stream->group);
    uint32_t most = stream->n_slots > others ? stream->n_slots - others : 0;
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && WINDOW_STEPS * psti_serve_job_span(job) > n)
            n = WINDOW_STEPS * psti_serve_job_span(job);
    return n < most ? n : most;
}

void psti_serve_stream_order(struct psti_serve_stream *stream, uint64_t made_max,
                             uint64_t index_max)
{
    pthread_mutex_lock(&stream->lock);
    stream->made_max = made_max;
    stream->index_max = index_max;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

/* Makes the stream start again at another position. */
void psti_serve_stream_restart(struct psti_serve_stream *stream, uint64_t epoch, uint64_t index)
{
    stream->epoch = epoch;
    stream->next = index;
    stream->failed = false;
    pthread_mutex_lock(&stream->lock);
    stream->restart = true;
    stream->target_run = ++stream->run;
    stream->target_epoch = epoch;
    stream->target_index = index;
    stream->index_max = index; /* nothing is made until psti_serve_stream_order allows it */
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

enum pst_status psti_serve_stream_new(struct psti_group *group, uint32_t index,
                                      struct pst_error *err)
{
    struct psti_serve_stream *stream = psti_calloc(1, sizeof *stream);
    if (!stream)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a stream");
    stream->group = group;
    stream->index = index;
    stream->generation = ++group->n_generations;
    stream->arena.fd = -1;
    pthread_mutex_init(&stream->lock, NULL);
    psti_cond_init(&stream->changed);
    enum pst_status status = psti_serve_stream_start(stream, err);
    if (status != PST_OK) {
        psti_serve_stream_free(stream);
        return status;
    }
    group->streams[index] = stream;
    return PST_OK;
}

/* Frees a stream whose thread has ended and whose results are all handled. */
void psti_serve_stream_free(struct psti_serve_stream *stream)
{
    while (psti_serve_stream_evict(stream))
        ;
    psti_serve_arena_close(&stream->arena);
    psti_free(stream->spare);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    psti_free(stream);
}
