/* serve_stream_settle.c - who takes from which stream, and how far each stream goes.
 *
 * Everything here runs on the loop's thread. After any event, psti_serve_group_settle looks at the
 * whole group: it finds streams for jobs, frees extents that nobody needs, tells the streams'
 * threads how far they may go, leaves behind who keeps others waiting, and answers. It is a
 * function of the group's state alone, so no event can be lost. */
#include "serve/serve_stream_answer.h"
#include "serve/serve_stream_int.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"

#define LENT_MAX 65536u
#define PATIENCE_NS ((int64_t)5 * 1000 * 1000 * 1000)
/* A stream of which no extent has come for so long, while a job waits for one, stands still. */
#define STILL_NS ((int64_t)60 * 1000 * 1000 * 1000)

/* True if the stream can make the extents up to `index` before any job takes or gives back what the
 * window has. */
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

/* Returns the first extent that the job wants and that the window does not have. */
static uint64_t first_missing(const struct psti_serve_stream *stream, const struct psti_job *job)
{
    uint64_t index = psti_serve_job_first(job);
    while (index <= psti_serve_job_last(job) && psti_serve_stream_find(stream, job->epoch, index))
        index++;
    return index;
}

/* Returns how far the stream is from having the job's extents. 0: it has them; UINT64_MAX: it will
 * not have them soon. To a job without patience a stream is far if other jobs must move first. */
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

/* True if the job waits for an extent that its stream cannot make, because the window is full of
 * what other jobs need. */
static bool is_shut_out(const struct psti_job *job)
{
    const struct psti_serve_stream *stream = job->stream;
    if (!stream || !stream->is_open || stream->failed || stream->epoch != job->epoch)
        return false;
    uint64_t index = first_missing(stream, job);
    return index <= psti_serve_job_last(job) && index >= stream->next && !can_make(stream, index);
}

/* True if the stream will begin the epoch that the job wants from its beginning. A job that has not
 * begun yet waits for it as long as the stream goes on; another one only if the stream's jobs have
 * nearly all that they need of their epoch. */
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

/* True if a job that has not begun yet waits for a sibling group, which will begin the epoch that
 * the job wants: then both are in step. */
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
                return false; /* one is there already */
            if (comes_to_next_epoch(stream, wanting))
                comes = stream;
        }
    }
    wanting->awaits = comes;
    return comes != NULL;
}

/* Gives the job the stream that has its place or will soon; else one that nobody uses, or a new
 * one. It gets none while one is being opened. */
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
                psti_serve_stream_evict(stream)) /* the window has one run of indices of an epoch */
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

/* True if the job's extents are all in the stream's window. */
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

/* The window is full and a job waits for what comes after it: leaves the last job behind. Returns
 * false if nobody keeps it waiting. */
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

/* First index after what the stream's jobs need of its epoch. */
static uint64_t needed_end(const struct psti_serve_stream *stream)
{
    uint64_t rows = stream->group->extent_rows, end = 0;
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && job->epoch == stream->epoch &&
            (job->end + rows - 1) / rows > end)
            end = (job->end + rows - 1) / rows;
    return end;
}

/* Moves the stream on to the next epoch that one of its jobs wants, once all extents of the present
 * one are made. Returns true if it has moved. */
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

/* Number of the window's extents that the foremost job has not had yet. */
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

/* Makes room in the window, and tells the thread how far to go. One half of the window is for what
 * comes, the other for jobs that are behind or come late. Returns true if a job was left behind. */
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
    wanted = wanted < left ? wanted : (uint32_t)left; /* nothing makes way for what nobody makes */
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

/* The job takes no step that cannot be answered. */
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

/* Sets how many cores the service uses: its own, and those that jobs lend while they take extents
 * from streams; at most all cores that it may run on. */
static void set_budget(pst_service *service)
{
    struct psti_groups *groups = psti_serve_groups(service);
    uint32_t own = service->options.n_threads, n_lent = 0;
    for (const struct psti_group *group = groups->first; group; group = group->next)
        for (const struct psti_job *job = group->jobs; job; job = job->next)
            n_lent += job->stream && n_lent < LENT_MAX ? job->n_lent : 0;
    if (n_lent == groups->n_lent)
        return; /* this runs with every message, and files say how many cores there are */
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

/* Jobs of other groups with the shelf may wait for what one has done. */
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

/* True if a job that has not begun yet has waited long enough for others: they stand still, or they
 * are too slow for its place to come into the window. It gets a stream of its own. */
static bool ends_waiting(const struct psti_job *job, int64_t now)
{
    const struct psti_serve_stream *stream = job->stream ? job->stream : job->awaits;
    return job->wants && job->fresh && stream && !job->impatient &&
           now - job->want_ns > PATIENCE_NS &&
           (now - stream->moved_ns > PATIENCE_NS || is_shut_out(job));
}

/* True if storage keeps what the job wants. */
static bool is_still(const struct psti_job *job, int64_t now)
{
    const struct psti_serve_stream *stream = job->stream ? job->stream : job->awaits;
    int64_t since = job->want_ns;
    if (stream && stream->moved_ns > since)
        since = stream->moved_ns;
    return job->wants && now - since > STILL_NS;
}

/* The jobs of a group whose data set cannot be opened go on alone. */
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
