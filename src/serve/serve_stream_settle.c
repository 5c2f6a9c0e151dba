/* serve_stream_settle.c - decides which job takes from which stream, and how far each stream goes.
 *
 * Everything runs on the loop's thread. After any event, psti_serve_group_settle examines the whole
 * group: it finds streams for jobs, frees extents that no job needs, tells the streams' threads how
 * far they may go, leaves behind jobs that keep others waiting, and sends answers. It depends only
 * on the group's state, so a missed event does no harm. */
#include "serve/serve_stream_answer.h"
#include "serve/serve_stream_int.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"

#define LENT_MAX 65536u
#define PATIENCE_NS ((int64_t)5 * 1000 * 1000 * 1000)
/* If a job waits for a stream and no extent has come for so long, the stream counts as blocked. */
#define STILL_NS ((int64_t)60 * 1000 * 1000 * 1000)

/* True if the stream can make the extents up to `index` before any job takes or gives back an
 * extent of the window. */
static bool can_make(const struct psti_serve_stream *stream, uint64_t index)
{
    uint64_t n_new = index + 1 - stream->next, n_needed = 0, n_alive = stream->n_alive;
    for (const struct psti_serve_extent *at = stream->window; at; at = at->next) {
        bool needed = psti_serve_extent_is_needed(stream, at);
        n_needed += needed;
        n_alive -= !needed && at->n_held == 0;
    }
    return n_needed + n_new <= psti_serve_stream_window_max(stream) &&
           n_alive + n_new <= stream->n_slots - psti_serve_group_loader_slots(stream->group);
}

/* Returns the first extent that the job wants and the window lacks. */
static uint64_t first_missing(const struct psti_serve_stream *stream, const struct psti_job *job)
{
    uint64_t index = psti_serve_job_first(job);
    while (index <= psti_serve_job_last(job) && psti_serve_stream_find(stream, job->epoch, index))
        index++;
    return index;
}

/* Returns how many extents the stream must make until it has the first one that the job still
 * lacks. 0: it has all that the job wants; UINT64_MAX: it will not have them soon. For an impatient
 * job that is also so if other jobs must move first. */
static uint64_t distance(const struct psti_serve_stream *stream, const struct psti_job *job)
{
    if (!stream->is_open || stream->failed)
        return UINT64_MAX;
    uint64_t index = first_missing(stream, job);
    if (index > psti_serve_job_last(job))
        return 0;
    if (stream->epoch == job->epoch && index >= stream->next &&
        !psti_serve_stream_is_idle(stream) &&
        index - stream->next < psti_serve_stream_window_max(stream) &&
        (!job->impatient || can_make(stream, index)))
        return 1 + index - stream->next;
    return UINT64_MAX;
}

/* True if the job waits for an extent that its stream cannot make, because other jobs need all
 * extents in the window. */
static bool is_shut_out(const struct psti_job *job)
{
    const struct psti_serve_stream *stream = job->stream;
    if (!stream || !stream->is_open || stream->failed || stream->epoch != job->epoch)
        return false;
    uint64_t index = first_missing(stream, job);
    return index <= psti_serve_job_last(job) && index >= stream->next && !can_make(stream, index);
}

/* True if the stream will soon begin the epoch that the job wants to start. A job without any
 * answer yet waits for that as long as the stream makes progress; other jobs wait only if the
 * stream's jobs have nearly all extents of their epoch. */
static bool comes_to_next_epoch(const struct psti_serve_stream *stream,
                                const struct psti_job *wanting)
{
    if (!stream->is_open || stream->failed || wanting->impatient || wanting->epoch == 0 ||
        wanting->epoch - 1 != stream->epoch || psti_serve_stream_is_idle(stream))
        return false;
    uint64_t rows = stream->group->extent_rows, most = psti_serve_stream_window_max(stream);
    if (psti_serve_job_first(wanting) >= most)
        return false;
    for (const struct psti_job *job = stream->group->jobs; job && !wanting->fresh; job = job->next)
        if (job->stream == stream && job->epoch == stream->epoch &&
            job->end / rows >= stream->next + most)
            return false;
    return true;
}

/* True if the job has had no answer yet and waits for a sibling group that will begin the same
 * epoch, so that both groups work in step. */
static bool waits_for_sibling(struct psti_job *wanting)
{
    const struct psti_group *own = wanting->group;
    const struct psti_serve_stream *comes = NULL;
    if (!wanting->fresh || !own->shelf)
        return false;
    for (const struct psti_group *group = psti_serve_groups(own->service)->first; group;
         group = group->next) {
        if (group == own || group->shelf != own->shelf)
            continue;
        for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++) {
            const struct psti_serve_stream *stream = group->streams[i];
            if (!stream)
                continue;
            if (stream->epoch == wanting->epoch && !psti_serve_stream_is_idle(stream))
                return false; /* a sibling already works on that epoch */
            if (comes_to_next_epoch(stream, wanting))
                comes = stream;
        }
    }
    wanting->awaits = comes;
    return comes != NULL;
}

/* Gives the job a stream that has its position or will have it soon; otherwise an unused stream, or
 * a new one. While a stream is being opened, the job gets none. */
static void place(struct psti_job *job)
{
    struct psti_group *group = job->group;
    struct psti_serve_stream *best = NULL;
    uint64_t least = UINT64_MAX;
    struct pst_error err;
    uint32_t i_free = PSTI_STREAM_ARENAS;
    bool opening = false;
    job->awaits = NULL;
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++) {
        struct psti_serve_stream *stream = group->streams[i];
        if (!stream) {
            i_free = i < i_free ? i : i_free;
            continue;
        }
        opening |= !stream->is_open && !stream->failed;
        uint64_t far = distance(stream, job);
        if (far < least || (far == least && stream == job->stream && far != UINT64_MAX)) {
            least = far;
            best = stream;
        }
    }
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS && !best; i++)
        if (group->streams[i] && comes_to_next_epoch(group->streams[i], job))
            best = group->streams[i];
    if (!best && waits_for_sibling(job)) {
        job->stream = NULL;
        return;
    }
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS && !best; i++) {
        struct psti_serve_stream *stream = group->streams[i];
        if (stream && stream->is_open && psti_serve_stream_is_idle(stream)) {
            best = stream;
            while (
                psti_serve_stream_evict(stream)) /* the window must hold consecutive indices of
                                                    one epoch */
                ;
            psti_serve_stream_restart(stream, job->epoch, psti_serve_job_first(job));
        }
    }
    job->stream = best;
    if (best || opening)
        return;
    if (i_free == PSTI_STREAM_ARENAS || psti_serve_stream_new(group, i_free, &err) != PST_OK) {
        job->left = true;
        job->left_epoch = job->epoch;
        job->wants = false;
        psti_serve_job_alone(job, PSTI_ALONE_FULL);
    }
}

/* True if the window has all extents that the job wants. */
static bool has_all(const struct psti_serve_stream *stream, const struct psti_job *job)
{
    for (uint64_t i = psti_serve_job_first(job); i <= psti_serve_job_last(job); i++)
        if (!psti_serve_stream_find(stream, job->epoch, i))
            return false;
    return true;
}

void psti_serve_job_leave_behind(struct psti_job *job, enum psti_stream_alone reason)
{
    job->left = true;
    job->left_epoch = job->epoch;
    job->stream = NULL;
    job->fresh = false;
    if (job->wants)
        psti_serve_job_alone(job, reason);
    job->wants = false;
}

/* Called when the window is full. If a job waits for later extents, leaves the job that is furthest
 * back behind. False: no job waits for later extents. */
static bool leave_last_behind(struct psti_serve_stream *stream)
{
    struct psti_job *last = NULL, *waiting = NULL;
    for (struct psti_job *job = stream->group->jobs; job; job = job->next) {
        if (job->stream != stream)
            continue;
        if (!last || job->epoch < last->epoch ||
            (job->epoch == last->epoch && job->cursor < last->cursor))
            last = job;
        if (job->wants && !job->fresh && !has_all(stream, job))
            waiting = job;
    }
    if (!waiting || !last)
        return false;
    psti_serve_job_leave_behind(last, last == waiting ? PSTI_ALONE_FULL : PSTI_ALONE_BEHIND);
    return true;
}

/* Returns the first index that none of the stream's jobs needs in this epoch. */
static uint64_t needed_end(const struct psti_serve_stream *stream)
{
    uint64_t rows = stream->group->extent_rows, end = 0;
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && job->epoch == stream->epoch &&
            (job->end + rows - 1) / rows > end)
            end = (job->end + rows - 1) / rows;
    return end;
}

/* Moves the stream to the next epoch that one of its jobs wants, once all extents of the present
 * epoch are made. True: it has moved. */
static bool turn_epoch(struct psti_serve_stream *stream)
{
    const struct psti_job *first = NULL;
    if (stream->next < needed_end(stream))
        return false;
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && job->epoch > stream->epoch &&
            (!first || job->epoch < first->epoch ||
             (job->epoch == first->epoch && job->cursor < first->cursor)))
            first = job;
    if (!first)
        return false;
    psti_serve_stream_restart(stream, first->epoch, psti_serve_job_first(first));
    return true;
}

/* Counts the extents in the window that are ahead of the foremost job. */
static uint32_t count_ahead(const struct psti_serve_stream *stream)
{
    const struct psti_job *front = NULL;
    uint32_t n = 0;
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && (!job->fresh || job->epoch == stream->epoch) &&
            (!front || job->epoch > front->epoch ||
             (job->epoch == front->epoch && job->cursor > front->cursor)))
            front = job;
    for (const struct psti_serve_extent *at = stream->window; at && front; at = at->next)
        n += psti_serve_job_needs(front, at);
    return n;
}

/* Makes space in the window, and tells the thread how far to go. Half of the window is for new
 * extents, the other half for jobs that are behind or join late. True: a job was left behind. */
static bool balance(struct psti_serve_stream *stream)
{
    if (!stream->is_open || stream->failed)
        return false;
    turn_epoch(stream);
    uint64_t end = needed_end(stream), left = stream->next < end ? end - stream->next : 0;
    uint32_t most = psti_serve_stream_window_max(stream),
             slots = stream->n_slots - psti_serve_group_loader_slots(stream->group);
    uint32_t ahead = count_ahead(stream), half = most / 2 + 1;
    uint32_t wanted = ahead < half ? half - ahead : 0;
    wanted = wanted < left ? wanted : (uint32_t)left; /* no space is needed for extents that will
                                                         not be made */
    while ((stream->n_window + wanted > most || stream->n_alive + wanted > slots) &&
           psti_serve_stream_evict(stream))
        ;
    uint32_t room = stream->n_window < most ? most - stream->n_window : 0;
    room = room < wanted ? room : wanted;
    if (stream->n_alive + room > slots)
        room = stream->n_alive < slots ? slots - stream->n_alive : 0;
    psti_serve_stream_order(stream, stream->n_received + room, end);
    return room == 0 && leave_last_behind(stream);
}

static void answer(struct psti_job *job)
{
    struct psti_serve_extent *extents[PSTI_STREAM_EXTENTS];
    uint32_t n = 0;
    bool bad = false;
    if (!has_all(job->stream, job))
        return;
    for (uint64_t i = psti_serve_job_first(job); i <= psti_serve_job_last(job); i++) {
        extents[n] = psti_serve_stream_find(job->stream, job->epoch, i);
        bad |= extents[n++]->bad;
    }
    job->wants = job->fresh = job->impatient = false;
    job->stream->moved_ns = psti_clock_ns();
    job->cursor += job->n_rows;
    if (bad) {
        psti_serve_job_alone(job, PSTI_ALONE_SAMPLE);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        extents[i]->n_held++;
        job->held[job->n_held++] = extents[i];
    }
    psti_serve_job_ready(job, extents, n);
}

/* Checks whether streams can serve the job's batch. False: the job was told to work alone, because
 * it was left behind, or because the batch needs more extents than the job may hold or a window
 * has. */
static bool can_be_answered(struct psti_job *job)
{
    uint64_t n = psti_serve_job_last(job) - psti_serve_job_first(job) + 1;
    if (job->left && job->left_epoch == job->epoch) {
        job->wants = false;
        psti_serve_job_alone(job, PSTI_ALONE_BEHIND);
    } else if (job->n_rows == 0 || n > PSTI_STREAM_EXTENTS / 2 || job->n_held + n > job->held_cap ||
               job->n_held > job->hold_max ||
               (job->stream && job->stream->is_open &&
                n > psti_serve_stream_window_max(job->stream))) {
        psti_serve_job_leave_behind(job, PSTI_ALONE_FULL);
    }
    return job->wants;
}

/* Sets how many cores the service uses: its own, and those that jobs lend it while they take
 * extents from streams; at most all cores that it may run on. */
static void set_budget(pst_service *service)
{
    struct psti_groups *groups = psti_serve_groups(service);
    uint32_t own = service->options.n_threads, n_lent = 0;
    for (const struct psti_group *group = groups->first; group; group = group->next)
        for (const struct psti_job *job = group->jobs; job; job = job->next)
            n_lent += job->stream && n_lent < LENT_MAX ? job->n_lent : 0;
    if (n_lent == groups->n_lent)
        return; /* nothing changed; counting cores reads files, and this runs for every message */
    groups->n_lent = n_lent;
    uint32_t n_cores = psti_thread_cores();
    uint32_t most = own > n_cores ? own : n_cores;
    psti_gate_set_limit(&groups->gate, n_lent < most - own ? own + n_lent : most);
}

static void settle(struct psti_group *group)
{
    bool again = group->opened;
    while (again) {
        again = false;
        for (struct psti_job *job = group->jobs; job; job = job->next)
            if (job->wants && can_be_answered(job))
                place(job);
        for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
            again |= group->streams[i] && balance(group->streams[i]);
        for (struct psti_job *job = group->jobs; job; job = job->next) {
            if (job->wants && job->stream && has_all(job->stream, job)) {
                answer(job);
                again = true;
            }
        }
    }
}

/* Settles the other groups with the shelf, which may wait for something that this group did. */
void psti_serve_siblings_settle(pst_service *service, const struct psti_shelf *shelf,
                                const struct psti_group *but)
{
    for (struct psti_group *at = psti_serve_groups(service)->first; at && shelf; at = at->next)
        if (at != but && at->shelf == shelf)
            settle(at);
}

void psti_serve_group_settle(struct psti_group *group)
{
    set_budget(group->service);
    settle(group);
    psti_serve_siblings_settle(group->service, group->shelf, group);
}

/* True if a job without any answer yet has waited long enough for other jobs: they make no
 * progress, or are too slow for its position to come into the window. It then gets a stream of its
 * own. */
static bool ends_waiting(const struct psti_job *job, int64_t now)
{
    const struct psti_serve_stream *stream = job->stream ? job->stream : job->awaits;
    return job->wants && job->fresh && stream && !job->impatient &&
           now - job->want_ns > PATIENCE_NS &&
           (now - stream->moved_ns > PATIENCE_NS || is_shut_out(job));
}

/* True if the job has waited so long that its storage counts as not responding. */
static bool is_still(const struct psti_job *job, int64_t now)
{
    const struct psti_serve_stream *stream = job->stream ? job->stream : job->awaits;
    int64_t since = job->want_ns;
    if (stream && stream->moved_ns > since)
        since = stream->moved_ns;
    return job->wants && now - since > STILL_NS;
}

/* Tells all jobs of a group whose data set cannot be opened to work alone. */
static void refuse_all(const struct psti_group *group)
{
    struct pst_error err;
    psti_serve_fail_opening(&err);
    for (struct psti_job *job = group->jobs; job; job = job->next)
        psti_serve_job_refused(job, &err);
}

void psti_serve_groups_tick(pst_service *service)
{
    int64_t now = psti_clock_ns();
    for (struct psti_group *group = psti_serve_groups(service)->first; group; group = group->next) {
        bool changed = false;
        if (!group->opened && !group->failed && now - group->since_ns > PSTI_SERVE_OPENING_NS)
            refuse_all(group);
        for (struct psti_job *job = group->jobs; job; job = job->next) {
            bool ends = ends_waiting(job, now);
            job->impatient |= ends;
            changed |= ends;
            if (!is_still(job, now))
                continue;
            psti_serve_job_leave_behind(job, PSTI_ALONE_FAILED);
            changed = true;
        }
        if (changed)
            psti_serve_group_settle(group);
    }
}
