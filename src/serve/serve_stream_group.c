/* serve_stream_group.c - groups of jobs: finds or makes them when a job joins, handles the posts of
 * their streams' threads, and ends them after the last job.
 *
 * Everything runs on the loop's thread. */
#include "serve/serve_stream_answer.h"
#include "serve/serve_stream_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/thread.h"

#include <string.h>

#define HELD_MAX 256u
#define ENDING_MAX 8u /* maximum number of groups of one data set that may take longer to end than
                         ENDING_NS */
#define ENDING_NS ((int64_t)10 * 1000 * 1000 * 1000)
#define JOBS_USUAL 8u  /* at least so many jobs can hold extents */
#define JOB_BATCHES 4u /* a job can hold the extents of so many batches: the one in use, the
                          next, and two kept */

/* Sets how many extents the job may hold. */
static void open_job(struct psti_job *job)
{
    struct psti_group *group = job->group;
    uint32_t n_jobs = 0, wanted = job->batch_size / group->extent_rows + 2;
    wanted *= psti_serve_group_can_keep(group) ? JOB_BATCHES : 1;
    uint32_t used = psti_serve_group_loader_slots(group) + 2 * psti_serve_job_span(job) + 2 +
                    psti_serve_group_held_max(group);
    for (const struct psti_job *other = group->jobs; other; other = other->next)
        n_jobs += other->opened;
    uint32_t left = group->layout.n_slots > used ? group->layout.n_slots - used : 0;
    uint32_t part = left / (n_jobs + 1 < JOBS_USUAL ? JOBS_USUAL - n_jobs : 1);
    job->hold_max = wanted < part ? wanted : part;
    job->hold_max = job->hold_max < HELD_MAX ? job->hold_max : HELD_MAX;
    job->opened = true;
    psti_serve_job_opened(job);
}

static void stream_is_opened(struct psti_serve_stream *stream, enum pst_status status,
                             const struct psti_stream_layout *layout, const struct pst_error *err)
{
    struct psti_group *group = stream->group;
    stream->is_open = status == PST_OK;
    stream->n_slots = stream->is_open ? stream->arena.n_slots : 0;
    stream->failed = status != PST_OK;
    if (status != PST_OK && !group->ending)
        psti_log(PST_LOG_WARNING, "serve", "group %s: a stream cannot be opened: %s", group->name,
                 err->text);
    group->failed |= !group->opened && status != PST_OK;
    if (!group->opened && status == PST_OK) {
        group->layout = *layout;
        group->opened = true;
    }
    for (struct psti_job *job = group->jobs; job; job = job->next) {
        if (!job->opened && group->opened)
            open_job(job);
        else if (!job->opened)
            psti_serve_job_refused(job, err);
        else if (status != PST_OK && job->wants && !job->stream)
            psti_serve_job_leave_behind(job, PSTI_ALONE_FULL);
    }
    psti_serve_group_settle(group);
}

static void extent_is_made(struct psti_serve_stream *stream, uint64_t run,
                           struct psti_serve_extent *extent)
{
    struct psti_group *group = stream->group;
    stream->n_received++;
    stream->moved_ns = psti_clock_ns();
    stream->n_alive++;
    stream->n_slots = extent->n_slots;
    extent->number = ++group->n_numbers;
    group->n_samples += extent->n_rows;
    if (run != stream->run || group->ending) {
        psti_serve_extent_free(extent);
    } else {
        extent->in_window = true;
        if (stream->window)
            stream->window_last->next = extent;
        else
            stream->window = extent;
        stream->window_last = extent;
        stream->n_window++;
        stream->next = extent->index + 1;
    }
    psti_serve_group_settle(group);
}

static void stream_has_failed(struct psti_serve_stream *stream, uint64_t run,
                              const struct pst_error *err)
{
    if (run != stream->run)
        return;
    stream->failed = true;
    psti_log(PST_LOG_WARNING, "serve", "group %s: preparing failed: %s", stream->group->name,
             err->text);
    for (struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream)
            psti_serve_job_leave_behind(job, PSTI_ALONE_FAILED);
    psti_serve_group_settle(stream->group);
}

/* True if the group's jobs have the same name, data set and order as the job that joins. */
static bool is_sibling(const struct psti_group *group, const struct psti_joining *joining)
{
    const struct psti_share_dataset *a = &group->place, *b = &joining->place;
    return strcmp(group->name, joining->open.name) == 0 && group->labels == joining->labels &&
           group->options.order_digest == joining->options.order_digest &&
           memcmp(a->version, b->version, sizeof a->version) == 0 &&
           a->allow_unreadable == b->allow_unreadable && a->ignore_labels == b->ignore_labels &&
           a->is_container == b->is_container && a->is_mixture == b->is_mixture &&
           a->n_masks == b->n_masks && memcmp(a->masks, b->masks, sizeof a->masks) == 0;
}

static bool is_of(const struct psti_group *group, const struct psti_joining *joining)
{
    return !group->failed && !group->ending && group->options.digest == joining->options.digest &&
           group->extent_rows == joining->open.extent_rows && is_sibling(group, joining);
}

/* True if unresponsive storage blocks threads of many ending groups of this data set, which hold
 * memory and descriptors, or of one group that is opening it. */
static bool stands_still(pst_service *service, const struct psti_joining *joining)
{
    uint32_t n = 0;
    int64_t since = psti_clock_ns() - ENDING_NS;
    for (struct psti_group *group = psti_serve_groups(service)->first; group; group = group->next)
        if (group->ending && group->ending_ns < since &&
            memcmp(group->place.version, joining->place.version, sizeof group->place.version) == 0)
            n += group->opened ? 1 : ENDING_MAX;
    return n >= ENDING_MAX;
}

/* Returns the shelf of the group's siblings, or a new one. NULL: out of memory; the group then
 * works without a shelf. */
static struct psti_shelf *find_shelf(pst_service *service, const struct psti_joining *joining)
{
    struct psti_shelf *shelf = NULL;
    for (struct psti_group *group = psti_serve_groups(service)->first; group; group = group->next)
        if (group->shelf && !group->ending && is_sibling(group, joining))
            return psti_loader_shelf_retain(group->shelf);
    return psti_loader_shelf_open(&shelf, NULL) == PST_OK ? shelf : NULL;
}

/* Frees a group that has no user and no running thread. */
static void free_group(struct psti_group *group)
{
    struct psti_group **at = &psti_serve_groups(group->service)->first;
    while (*at && *at != group)
        at = &(*at)->next;
    if (*at)
        *at = group->next;
    while (group->kept) {
        struct psti_kept *kept = group->kept;
        group->kept = kept->next;
        for (uint32_t i = 0; i < kept->n; i++)
            psti_serve_extent_let_go(kept->extents[i]);
        psti_free(kept);
    }
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
        if (group->streams[i])
            psti_serve_stream_free(group->streams[i]);
    psti_loader_shelf_close(&group->shelf);
    psti_share_options_clear(&group->options);
    psti_serve_data_close(group->service, &group->data, group->place.version);
    psti_free(group);
}

static void free_if_ended(struct psti_group *group)
{
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
        if (group->streams[i] && !group->streams[i]->over)
            return;
    free_group(group);
}

/* Begins to end a group without jobs. Unresponsive storage may block the threads of its streams for
 * any time, so this function does not wait for them. */
static void end_group(struct psti_group *group)
{
    group->ending = true;
    group->ending_ns = psti_clock_ns();
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
        if (group->streams[i])
            psti_serve_stream_close(group->streams[i]);
    free_if_ended(group);
}

static void stream_has_ended(struct psti_serve_stream *stream)
{
    struct psti_group *group = stream->group;
    stream->over = true;
    if (group->ending) {
        free_if_ended(group);
        return;
    }
    group->streams[stream->index] = NULL; /* opening failed, so another stream may take its place */
    psti_serve_stream_free(stream);
}

static const struct psti_stream_events events = {.opened = stream_is_opened,
                                                 .made = extent_is_made,
                                                 .failed = stream_has_failed,
                                                 .ended = stream_has_ended};

enum pst_status psti_serve_group_get(pst_service *service, struct psti_joining *joining,
                                     struct psti_group **out, struct pst_error *err)
{
    struct psti_group *group = psti_serve_groups(service)->first;
    while (group && !is_of(group, joining))
        group = group->next;
    *out = group;
    if (group)
        return PST_OK;
    if (stands_still(service, joining))
        return psti_fail(err, PST_ERROR_BUSY, "serve",
                         "jobs with this data set have ended, and the host service still waits for "
                         "its storage");
    group = psti_calloc(1, sizeof *group);
    if (!group)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a group");
    group->service = service;
    group->events = &events;
    group->gate = &psti_serve_groups(service)->gate;
    group->cache = psti_serve_host_cache(service);
    group->shelf = find_shelf(service, joining);
    /* The gate lets fewer threads work, if the service may use fewer cores. */
    group->n_threads = psti_thread_cores();
    if (group->n_threads < service->options.n_threads)
        group->n_threads = service->options.n_threads;
    uint32_t prefetch = PSTI_STREAM_PREFETCH + 2 * group->n_threads / joining->open.extent_rows;
    group->prefetch = prefetch < PSTI_STREAM_PREFETCH_MAX ? prefetch : PSTI_STREAM_PREFETCH_MAX;
    memcpy(group->name, joining->open.name, sizeof group->name);
    group->place = joining->place;
    group->extent_rows = joining->open.extent_rows;
    group->options = joining->options;
    memset(&joining->options, 0, sizeof joining->options);
    group->data = joining->data;
    joining->data = NULL;
    group->labels = joining->labels;
    group->since_ns = psti_clock_ns();
    group->newest_epoch = UINT64_MAX;
    group->next = psti_serve_groups(service)->first;
    psti_serve_groups(service)->first = group;
    enum pst_status status = psti_serve_stream_new(group, 0, err);
    if (status != PST_OK)
        end_group(group);
    else
        *out = group;
    return status;
}

void psti_serve_group_add(struct psti_group *group, struct psti_job *job)
{
    job->group = group;
    job->next = group->jobs;
    group->jobs = job;
    if (group->opened)
        open_job(job);
}

/* Keeps the extents that the job holds until the group ends, because its client may still have them
 * mapped. If there is no memory for the list, they are simply never used again. */
static void keep(struct psti_group *group, const struct psti_job *job)
{
    size_t nbytes = job->n_held * sizeof(struct psti_serve_extent *);
    struct psti_kept *kept = psti_alloc(sizeof *kept + nbytes);
    if (!kept)
        return;
    kept->n = job->n_held;
    memcpy(kept->extents, job->held, nbytes);
    kept->next = group->kept;
    group->kept = kept;
}

void psti_serve_group_remove(struct psti_group *group, struct psti_job *job, bool kept)
{
    struct psti_job **at = &group->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    job->stream = NULL;
    if (kept)
        keep(group, job);
    for (uint32_t i = 0; i < job->n_held && !kept; i++)
        psti_serve_extent_let_go(job->held[i]);
    job->n_held = 0;
    pst_service *service = group->service;
    const struct psti_shelf *shelf = group->shelf;
    if (group->jobs) {
        psti_serve_group_settle(group);
    } else {
        end_group(group);
        psti_serve_siblings_settle(service, shelf, NULL);
    }
}

void psti_serve_groups_close(pst_service *service)
{
    struct psti_groups *groups = psti_serve_groups(service);
    if (!groups)
        return;
    /* No session is left, so all groups are ending. */
    for (struct psti_group *group = groups->first; group; group = group->next)
        for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
            if (group->streams[i])
                psti_serve_stream_join(group->streams[i]);
    psti_serve_run_posts(service); /* handles the ends of the streams, which frees the groups */
    psti_gate_close(&groups->gate);
    psti_free(groups);
    service->parts[PSTI_SESSION_STREAM] = NULL;
}

enum pst_status psti_serve_groups_open(pst_service *service, struct pst_error *err)
{
    struct psti_groups *groups = psti_calloc(1, sizeof *groups);
    if (!groups)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for groups");
    psti_gate_open(&groups->gate, service->options.n_threads);
    service->parts[PSTI_SESSION_STREAM] = groups;
    return PST_OK;
}
