/* serve_stream_group.c - who takes from which stream, and how far each stream goes.
 *
 * Everything here runs on the loop's thread. After any event, psti_serve_group_settle looks at the
 * whole group: it finds streams for jobs, frees extents that nobody needs, tells the streams'
 * threads how far they may go, leaves behind who keeps others waiting, and answers. It is a
 * function of the group's state alone, so no event can be lost. */
#include "serve/serve_stream.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/thread.h"

#include <string.h>
#include <unistd.h>

#define HELD_MAX 256u
/* A job may be behind the first one by so many of its steps, or extents, whichever is more, as long
 * as memory allows it. */
#define WINDOW_STEPS 8u
#define WINDOW_MIN 32u
#define LENT_MAX 65536u
#define JOBS_USUAL 8u  /* as many jobs at least can hold extents, */
#define JOB_BATCHES 4u /* those of so many batches: the one in use, the next one, and two kept */
#define PATIENCE_NS ((int64_t)5 * 1000 * 1000 * 1000)

struct groups {
    struct psti_group *first;
    struct psti_gate gate; /* as many threads make rows as the service may use cores */
    uint32_t n_lent;
};

static struct groups *groups_of(pst_service *service)
{
    return service->parts[PSTI_SESSION_STREAM];
}

/* Extents
 * ------------------------------------------------------------------------------------------------
 */

static void free_extent(struct psti_serve_extent *extent)
{
    extent->stream->n_alive--;
    pst_batch_release(extent->batch);
    psti_free(extent);
}

static struct psti_serve_extent *find_extent(const struct psti_serve_stream *stream, uint64_t epoch,
                                             uint64_t index)
{
    for (struct psti_serve_extent *at = stream->window; at; at = at->next)
        if (at->epoch == epoch && at->index == index)
            return at;
    return NULL;
}

static uint64_t first_index(const struct psti_job *job)
{
    return job->cursor / job->group->extent_rows;
}

static uint64_t last_index(const struct psti_job *job)
{
    return (job->cursor + (job->n_rows ? job->n_rows - 1 : 0)) / job->group->extent_rows;
}

/* True if the job, which takes from the stream, may still need the extent. */
static bool needs(const struct psti_job *job, const struct psti_serve_extent *extent)
{
    return job->epoch < extent->epoch ||
           (job->epoch == extent->epoch && first_index(job) <= extent->index);
}

static bool is_needed(const struct psti_serve_stream *stream,
                      const struct psti_serve_extent *extent)
{
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && needs(job, extent))
            return true;
    return false;
}

/* Takes the oldest extent out of the window, if no job needs it. What jobs need is always the end
 * of the window. */
static bool evict_oldest(struct psti_serve_stream *stream)
{
    struct psti_serve_extent *extent = stream->window;
    if (!extent || is_needed(stream, extent))
        return false;
    stream->window = extent->next;
    if (!stream->window)
        stream->window_last = NULL;
    extent->in_window = false;
    stream->n_window--;
    if (extent->n_held == 0)
        free_extent(extent);
    return true;
}

static void let_go(struct psti_serve_extent *extent)
{
    extent->n_held--;
    if (extent->n_held == 0 && !extent->in_window)
        free_extent(extent);
}

void psti_serve_job_give(struct psti_job *job, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < job->n_held; k++) {
            if (job->held[k]->number != numbers[i])
                continue;
            let_go(job->held[k]);
            job->held[k] = job->held[--job->n_held];
            break;
        }
}

void psti_serve_job_leave(struct psti_job *job)
{
    job->stream = NULL;
    job->wants = job->left = false; /* it may begin the same epoch again */
}

/* Streams
 * ------------------------------------------------------------------------------------------------
 */

static bool is_idle(const struct psti_serve_stream *stream)
{
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream)
            return false;
    return true;
}

/* Extents that a step of all ranks touches. */
static uint32_t span_of(const struct psti_job *job)
{
    uint32_t n = job->step_rows / job->group->extent_rows;
    return (n < PSTI_STREAM_EXTENTS ? n : PSTI_STREAM_EXTENTS) + 2;
}

static uint32_t all_held_max(const struct psti_group *group)
{
    uint32_t n = 0;
    for (const struct psti_job *job = group->jobs; job; job = job->next)
        n += job->hold_max;
    return n;
}

/* Slots of an arena that the loader itself uses. */
static uint32_t slots_of_loader(const struct psti_group *group) { return group->prefetch + 2; }

/* Most extents of the window. The stream is open: before, its arena is its thread's. */
static uint32_t window_max(const struct psti_serve_stream *stream)
{
    uint32_t n = WINDOW_MIN, others = slots_of_loader(stream->group) + all_held_max(stream->group);
    uint32_t most = stream->arena.n_slots > others ? stream->arena.n_slots - others : 0;
    for (const struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream && WINDOW_STEPS * span_of(job) > n)
            n = WINDOW_STEPS * span_of(job);
    return n < most ? n : most;
}

static void send_orders(struct psti_serve_stream *stream, uint64_t made_max, uint64_t index_max)
{
    pthread_mutex_lock(&stream->lock);
    stream->made_max = made_max;
    stream->index_max = index_max;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

/* Lets the stream begin at another place. */
static void restart(struct psti_serve_stream *stream, uint64_t epoch, uint64_t index)
{
    stream->epoch = epoch;
    stream->next = index;
    stream->failed = false;
    pthread_mutex_lock(&stream->lock);
    stream->restart = true;
    stream->target_run = ++stream->run;
    stream->target_epoch = epoch;
    stream->target_index = index;
    stream->index_max = index; /* until orders say more */
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static enum pst_status new_stream(struct psti_group *group, uint32_t index, struct pst_error *err)
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
        pthread_cond_destroy(&stream->changed);
        pthread_mutex_destroy(&stream->lock);
        psti_free(stream);
        return status;
    }
    group->streams[index] = stream;
    return PST_OK;
}

/* The stream's thread has ended, and no result of it is left. */
static void free_stream(struct psti_serve_stream *stream)
{
    while (evict_oldest(stream))
        ;
    psti_serve_arena_close(&stream->arena);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    psti_free(stream);
}

/* True if the stream can make the extents up to `index` before any job takes or gives back what the
 * window has. */
static bool can_make(const struct psti_serve_stream *stream, uint64_t index)
{
    uint64_t n_new = index + 1 - stream->next, n_needed = 0, n_alive = stream->n_alive;
    for (const struct psti_serve_extent *at = stream->window; at; at = at->next) {
        bool needed = is_needed(stream, at);
        n_needed += needed;
        n_alive -= !needed && at->n_held == 0;
    }
    return n_needed + n_new <= window_max(stream) &&
           n_alive + n_new <= stream->arena.n_slots - slots_of_loader(stream->group);
}

/* First index that the job wants and the window does not have. */
static uint64_t first_missing(const struct psti_serve_stream *stream, const struct psti_job *job)
{
    uint64_t index = first_index(job);
    while (index <= last_index(job) && find_extent(stream, job->epoch, index))
        index++;
    return index;
}

/* How far the stream is from having the job's extents. 0: it has them; UINT64_MAX: it will not have
 * them soon. To a job without patience a stream is far if other jobs must move first. */
static uint64_t distance(const struct psti_serve_stream *stream, const struct psti_job *job)
{
    if (!stream->is_open || stream->failed)
        return UINT64_MAX;
    uint64_t index = first_missing(stream, job);
    if (index > last_index(job))
        return 0;
    if (stream->epoch == job->epoch && index >= stream->next && !is_idle(stream) &&
        index - stream->next < window_max(stream) && (!job->impatient || can_make(stream, index)))
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
    return index <= last_index(job) && index >= stream->next && !can_make(stream, index);
}

/* True if the stream will begin the epoch that the job wants from its beginning. A job that has not
 * begun yet waits for it as long as the stream goes on; another one only if the stream's jobs have
 * nearly all that they need of their epoch. */
static bool comes_to_next_epoch(const struct psti_serve_stream *stream,
                                const struct psti_job *wanting)
{
    if (!stream->is_open || stream->failed || wanting->impatient || wanting->epoch == 0 ||
        wanting->epoch - 1 != stream->epoch || is_idle(stream))
        return false;
    uint64_t rows = stream->group->extent_rows, most = window_max(stream);
    if (first_index(wanting) >= most)
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
    for (const struct psti_group *group = groups_of(own->service)->first; group;
         group = group->next) {
        if (group == own || group->shelf != own->shelf)
            continue;
        for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++) {
            const struct psti_serve_stream *stream = group->streams[i];
            if (!stream)
                continue;
            if (stream->epoch == wanting->epoch && !is_idle(stream))
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
        if (stream && stream->is_open && is_idle(stream)) {
            best = stream;
            while (evict_oldest(stream)) /* the window has one run of indices of an epoch */
                ;
            restart(stream, job->epoch, first_index(job));
        }
    }
    job->stream = best;
    if (best || opening)
        return;
    if (i_free == PSTI_STREAM_ARENAS || new_stream(group, i_free, &err) != PST_OK) {
        job->left = true;
        job->left_epoch = job->epoch;
        job->wants = false;
        psti_serve_job_alone(job, PSTI_ALONE_FULL);
    }
}

/* True if the job's extents are all in the stream's window. */
static bool has_all(const struct psti_serve_stream *stream, const struct psti_job *job)
{
    for (uint64_t i = first_index(job); i <= last_index(job); i++)
        if (!find_extent(stream, job->epoch, i))
            return false;
    return true;
}

static void leave_behind(struct psti_job *job, enum psti_stream_alone reason)
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
    leave_behind(last, last == waiting ? PSTI_ALONE_FULL : PSTI_ALONE_BEHIND);
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

/* Begins the next epoch that a job of the stream wants, once its present one is made. */
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
    restart(stream, first->epoch, first_index(first));
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
        n += needs(front, at);
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
    uint32_t most = window_max(stream),
             slots = stream->arena.n_slots - slots_of_loader(stream->group);
    uint32_t ahead = count_ahead(stream), half = most / 2 + 1;
    uint32_t wanted = ahead < half ? half - ahead : 0;
    wanted = wanted < left ? wanted : (uint32_t)left; /* nothing makes way for what nobody makes */
    while ((stream->n_window + wanted > most || stream->n_alive + wanted > slots) &&
           evict_oldest(stream))
        ;
    uint32_t room = stream->n_window < most ? most - stream->n_window : 0;
    room = room < wanted ? room : wanted;
    if (stream->n_alive + room > slots)
        room = stream->n_alive < slots ? slots - stream->n_alive : 0;
    send_orders(stream, stream->n_received + room, end);
    return room == 0 && leave_last_behind(stream);
}

static void answer(struct psti_job *job)
{
    struct psti_serve_extent *extents[PSTI_STREAM_EXTENTS];
    uint32_t n = 0;
    bool bad = false;
    if (!has_all(job->stream, job))
        return;
    for (uint64_t i = first_index(job); i <= last_index(job); i++) {
        extents[n] = find_extent(job->stream, job->epoch, i);
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
    uint64_t n = last_index(job) - first_index(job) + 1;
    if (job->left && job->left_epoch == job->epoch) {
        job->wants = false;
        psti_serve_job_alone(job, PSTI_ALONE_BEHIND);
    } else if (job->n_rows == 0 || n > PSTI_STREAM_EXTENTS / 2 || job->n_held + n > job->held_cap ||
               job->n_held > job->hold_max) {
        leave_behind(job, PSTI_ALONE_FULL);
    }
    return job->wants;
}

/* The service works with its own cores, and with those that jobs lend while they take from streams:
 * at most with all that it may run on. */
static void set_budget(pst_service *service)
{
    struct groups *groups = groups_of(service);
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
static void settle_siblings(pst_service *service, const struct psti_shelf *shelf,
                            const struct psti_group *but)
{
    for (struct psti_group *at = groups_of(service)->first; at && shelf; at = at->next)
        if (at != but && at->shelf == shelf)
            settle(at);
}

void psti_serve_group_settle(struct psti_group *group)
{
    set_budget(group->service);
    settle(group);
    settle_siblings(group->service, group->shelf, group);
}

uint64_t psti_serve_group_newest(const struct psti_group *group)
{
    uint64_t newest = group->newest_epoch;
    for (const struct psti_group *at = groups_of(group->service)->first; at; at = at->next)
        if (at->shelf && at->shelf == group->shelf && at->newest_epoch != UINT64_MAX &&
            (newest == UINT64_MAX || at->newest_epoch > newest))
            newest = at->newest_epoch;
    return newest;
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

void psti_serve_groups_tick(pst_service *service)
{
    int64_t now = psti_clock_ns();
    for (struct psti_group *group = groups_of(service)->first; group; group = group->next) {
        bool changed = false;
        for (struct psti_job *job = group->jobs; job; job = job->next) {
            bool ends = ends_waiting(job, now);
            job->impatient |= ends;
            changed |= ends;
        }
        if (changed)
            psti_serve_group_settle(group);
    }
}

/* Results of the threads
 * ------------------------------------------------------------------------------------------------
 */

/* Gives the job its share of what may be held. */
static void open_job(struct psti_job *job)
{
    struct psti_group *group = job->group;
    uint32_t wanted = JOB_BATCHES * (job->batch_size / group->extent_rows + 2), n_jobs = 0;
    uint32_t used = slots_of_loader(group) + 2 * span_of(job) + 2 + all_held_max(group);
    for (const struct psti_job *other = group->jobs; other; other = other->next)
        n_jobs += other->opened;
    uint32_t left = group->layout.n_slots > used ? group->layout.n_slots - used : 0;
    uint32_t part = left / (n_jobs + 1 < JOBS_USUAL ? JOBS_USUAL - n_jobs : 1);
    job->hold_max = wanted < part ? wanted : part;
    job->hold_max = job->hold_max < HELD_MAX ? job->hold_max : HELD_MAX;
    job->opened = true;
    psti_serve_job_opened(job);
}

void psti_serve_stream_opened(struct psti_serve_stream *stream, enum pst_status status,
                              const struct psti_stream_layout *layout, const struct pst_error *err)
{
    struct psti_group *group = stream->group;
    stream->is_open = status == PST_OK;
    stream->failed = status != PST_OK;
    if (status != PST_OK)
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
            leave_behind(job, PSTI_ALONE_FULL);
    }
    psti_serve_group_settle(group);
}

void psti_serve_stream_made(struct psti_serve_stream *stream, uint64_t run,
                            struct psti_serve_extent *extent)
{
    struct psti_group *group = stream->group;
    stream->n_received++;
    stream->moved_ns = psti_clock_ns();
    stream->n_alive++;
    extent->number = ++group->n_numbers;
    group->n_samples += extent->n_rows;
    if (run != stream->run) {
        free_extent(extent);
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

void psti_serve_stream_failed(struct psti_serve_stream *stream, uint64_t run,
                              const struct pst_error *err)
{
    if (run != stream->run)
        return;
    stream->failed = true;
    psti_log(PST_LOG_WARNING, "serve", "group %s: preparing failed: %s", stream->group->name,
             err->text);
    for (struct psti_job *job = stream->group->jobs; job; job = job->next)
        if (job->stream == stream)
            leave_behind(job, PSTI_ALONE_FAILED);
    psti_serve_group_settle(stream->group);
}

/* Groups
 * ------------------------------------------------------------------------------------------------
 */

/* True if the group's jobs have the name, the data set and the order of the one that joins. */
static bool is_sibling(const struct psti_group *group, const struct psti_joining *joining)
{
    const struct psti_share_dataset *a = &group->place, *b = &joining->place;
    return strcmp(group->name, joining->open.name) == 0 && group->labels == joining->labels &&
           group->options.order_digest == joining->options.order_digest &&
           memcmp(a->version, b->version, sizeof a->version) == 0 &&
           a->allow_unreadable == b->allow_unreadable && a->ignore_labels == b->ignore_labels &&
           a->n_masks == b->n_masks && memcmp(a->masks, b->masks, sizeof a->masks) == 0;
}

static bool is_of(const struct psti_group *group, const struct psti_joining *joining)
{
    return !group->failed && group->options.digest == joining->options.digest &&
           group->extent_rows == joining->open.extent_rows && is_sibling(group, joining);
}

/* The shelf of siblings, or a new one. NULL: no memory; then the group has none. */
static struct psti_shelf *find_shelf(pst_service *service, const struct psti_joining *joining)
{
    struct psti_shelf *shelf = NULL;
    for (struct psti_group *group = groups_of(service)->first; group; group = group->next)
        if (group->shelf && is_sibling(group, joining))
            return psti_loader_shelf_retain(group->shelf);
    return psti_loader_shelf_open(&shelf, NULL) == PST_OK ? shelf : NULL;
}

static void end_group(struct psti_group *group)
{
    pst_service *service = group->service;
    struct psti_group **at = &groups_of(service)->first;
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
        if (group->streams[i])
            psti_serve_stream_join(group->streams[i]);
    psti_serve_run_posts(service); /* results that name the group */
    while (*at && *at != group)
        at = &(*at)->next;
    if (*at)
        *at = group->next;
    while (group->kept) {
        struct psti_kept *kept = group->kept;
        group->kept = kept->next;
        for (uint32_t i = 0; i < kept->n; i++)
            let_go(kept->extents[i]);
        psti_free(kept);
    }
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
        if (group->streams[i])
            free_stream(group->streams[i]);
    psti_loader_shelf_close(&group->shelf);
    pst_dataset_close(&group->dataset);
    psti_share_options_clear(&group->options);
    for (uint32_t i = 0; i < group->n_fds; i++)
        close(group->fds[i]);
    psti_free(group);
}

enum pst_status psti_serve_group_get(pst_service *service, struct psti_joining *joining,
                                     struct psti_group **out, struct pst_error *err)
{
    struct psti_group *group = groups_of(service)->first;
    while (group && !is_of(group, joining))
        group = group->next;
    *out = group;
    if (group)
        return PST_OK;
    group = psti_calloc(1, sizeof *group);
    if (!group)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a group");
    group->service = service;
    group->gate = &groups_of(service)->gate;
    group->cache = psti_serve_host_cache(service);
    group->shelf = find_shelf(service, joining);
    /* The gate lets fewer threads work, if that is the service's share of the cores. */
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
    memcpy(group->fds, joining->fds, sizeof group->fds);
    group->n_fds = joining->n_fds;
    joining->n_fds = 0;
    group->labels = joining->labels;
    group->newest_epoch = UINT64_MAX;
    group->next = groups_of(service)->first;
    groups_of(service)->first = group;
    enum pst_status status = new_stream(group, 0, err);
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

/* Keeps what the job holds, till the group ends. Without memory to note it, it is lost for good. */
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
        let_go(job->held[i]);
    job->n_held = 0;
    pst_service *service = group->service;
    const struct psti_shelf *shelf = group->shelf;
    if (group->jobs) {
        psti_serve_group_settle(group);
    } else {
        end_group(group);
        settle_siblings(service, shelf, NULL);
    }
}

void psti_serve_groups_close(pst_service *service)
{
    struct groups *groups = groups_of(service);
    while (groups && groups->first)
        end_group(groups->first);
    if (groups)
        psti_gate_close(&groups->gate);
    psti_free(groups);
    service->parts[PSTI_SESSION_STREAM] = NULL;
}

enum pst_status psti_serve_groups_open(pst_service *service, struct pst_error *err)
{
    struct groups *groups = psti_calloc(1, sizeof *groups);
    if (!groups)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for groups");
    psti_gate_open(&groups->gate, service->options.n_threads);
    service->parts[PSTI_SESSION_STREAM] = groups;
    return PST_OK;
}
