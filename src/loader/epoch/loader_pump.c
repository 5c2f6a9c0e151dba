/* loader_pump.c - the pump, which keeps the queue full: it claims slots for batches, looks up rows
 * and starts their reads.
 *
 * Only one thread pumps at a time (loader->queue.pumping). It releases the lock while it computes
 * the order, reads the index and submits reads, so nobody waits for that. Rows are taken in the
 * order of delivery, and each takes one block of the arena for all its items. So when the oldest
 * row must wait for memory, no younger row holds any. Older rows give memory back, and then the row
 * continues. */
#include "loader/epoch/loader_arena.h"
#include "loader/loader_fallback.h"
#include "loader/tiers/loader_files.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_meter.h"
#include "loader/loader_plan.h"
#include "loader/epoch/loader_pump.h"
#include "loader/rows/loader_row.h"
#include "loader/tiers/loader_storage.h"
#include "loader/tiers/loader_tier.h"
#include "loader/epoch/loader_times.h"

#include "base/clock.h"

#include <string.h>

/* Counts a window of a page-aware order for which the kernel gets no read-ahead hint. */
static void skip_hint(pst_loader *loader, const struct psti_loader_job *job)
{
    uint64_t window = psti_order_window(loader->order, job->positions[0]);
    if (window == UINT64_MAX || window == loader->queue.hinted_window)
        return;
    loader->queue.hinted_window = window;
    psti_loader_fell_back(loader, PST_FALLBACK_PAGE_HINT, 1);
}

/* Tells the kernel to read ahead the window after the one in which the job begins. */
static void hint(pst_loader *loader, const struct psti_loader_job *job)
{
    uint64_t window = psti_order_window(loader->order, job->positions[0]), first, n;
    if (window == UINT64_MAX || window == loader->queue.hinted_window || !loader->plan.n_items ||
        loader->files.resident)
        return;
    if (pst_dataset_is_folder(loader->dataset) ||
        loader->options.page_cache == PST_PAGE_CACHE_DIRECT) {
        skip_hint(loader, job);
        return;
    }
    loader->queue.hinted_window = window;
    const struct psti_loader_plan_field *field =
        &loader->plan.fields[loader->plan.fields_of_items[0]];
    uint32_t variant = (uint32_t)__builtin_ctz(field->variant_mask);
    for (uint64_t i = 0;
         psti_order_window_page(loader->order, job->epoch, window + 1, i, &first, &n); i++) {
        struct pst_item a, b;
        struct psti_file *file;
        if (pst_dataset_item(loader->dataset, first, field->i_field, variant, &a, sizeof a, NULL) !=
                PST_OK ||
            pst_dataset_item(loader->dataset, first + n - 1, field->i_field, variant, &b, sizeof b,
                             NULL) != PST_OK ||
            a.i_file != b.i_file || b.offset < a.offset || a.i_file == PST_FILE_NONE ||
            psti_loader_files_acquire(loader, a.i_file, &file, NULL) != PST_OK)
            continue;
        psti_storage_file_will_need(file, a.offset, b.offset + b.nbytes - a.offset);
        psti_loader_files_release(loader, a.i_file, file);
    }
}

/* Tells the kernel what will be read, unless this loader may gather rows: then it reads ahead
 * itself where reads are slow. Where they are fast, the hint costs more than it saves, and the
 * kernel's reads delay those of the first rows, which then look slow. */
static void give_hint(pst_loader *loader, const struct psti_loader_job *job, bool reads_parts)
{
    if (loader->gather.reads)
        return;
    if (reads_parts)
        skip_hint(loader, job);
    else
        hint(loader, job);
}

/* Between the delivery of a batch and the release of the previous one, a caller holds one batch
 * more than it keeps. So a job that the caller does not need next waits for that release instead of
 * taking another slot. */
static bool waits_for_release(const pst_loader *loader)
{
    struct psti_batch_pool_stats stats;
    bool is_next = loader->queue.issue_step == loader->epoch.next_step &&
                   loader->queue.issue_step < psti_loader_epoch_end(&loader->epoch);
    if (is_next || psti_batch_pool_has_free(loader->pool))
        return false;
    psti_batch_pool_stats(loader->pool, &stats);
    return stats.n_slots >=
           loader->options.prefetch + (loader->epoch.n_kept ? loader->epoch.n_kept : 1);
}

/* Where a job lies in the order of samples. */
struct place {
    uint64_t epoch, start, step; /* step: counted from where the loader began in the epoch */
    uint64_t shown_step;         /* step counted from the epoch's beginning */
};

/* Returns the place of a step of the queue. Steps after the end of the epoch under way belong to
 * the next epoch. */
static struct place place_of(const struct psti_loader_epoch *epoch, uint64_t queue_step)
{
    uint64_t end = psti_loader_epoch_end(epoch), step = queue_step - epoch->first_step;
    if (queue_step < end)
        return (struct place){epoch->number, epoch->start, step, epoch->step_base + step};
    return (struct place){epoch->number + 1, 0, queue_step - end, queue_step - end};
}

/* True if task a is filled before task b. Batches go in their order. Within a batch the longest
 * rows go first, because a long row begun last would keep one worker busy while the others are
 * idle. */
static bool goes_before(const struct psti_loader_task *a, const struct psti_loader_task *b)
{
    if (a->job->queue_step != b->job->queue_step)
        return a->job->queue_step < b->job->queue_step;
    return a->items.block_nbytes > b->items.block_nbytes;
}

/* Finds the task's place in the list of ready tasks by its batch alone. A gathering makes hundreds
 * of rows ready at once, and sorting them by length, too, would take long. */
static struct psti_loader_task **place_by_step(pst_loader *loader, struct psti_loader_task *task)
{
    struct psti_loader_task **place = &loader->queue.ready;
    bool found = false;
    for (uint64_t step = task->job->queue_step + 1; !found && step-- > loader->epoch.next_step;) {
        const struct psti_loader_job *job = &loader->queue.ring[step % loader->queue.n_jobs];
        found = job->ready_last != NULL;
        if (found)
            place = &job->ready_last->next;
    }
    task->job->ready_last = task;
    return place;
}

/* Puts a task whose bytes have been read into the list of ready tasks. */
static void add_ready(pst_loader *loader, struct psti_loader_task *task)
{
    struct psti_loader_task **at = &loader->queue.ready;
    if (loader->gather.reads)
        at = place_by_step(loader, task);
    else if (loader->queue.ready && !goes_before(task, loader->queue.ready_last))
        at = &loader->queue.ready_last->next;
    while (!loader->gather.reads && *at && !goes_before(task, *at))
        at = &(*at)->next;
    task->next = *at;
    *at = task;
    if (!task->next)
        loader->queue.ready_last = task;
    loader->queue.n_ready++;
}

/* Called when a task has been read. It becomes ready, or is parked until its job has a slot. */
static void push_ready(pst_loader *loader, struct psti_loader_task *task)
{
    if (task->job->state == PSTI_LOADER_JOB_LISTED) {
        task->next = task->job->parked;
        task->job->parked = task;
        return;
    }
    add_ready(loader, task);
    pthread_cond_signal(loader->work);
}

/* Makes the parked tasks of a job ready, which has a slot now. False: there are none. */
static bool take_parked(pst_loader *loader, struct psti_loader_job *job)
{
    bool any = job->parked != NULL;
    while (job->parked) {
        struct psti_loader_task *task = job->parked;
        job->parked = task->next;
        add_ready(loader, task);
    }
    return any;
}

bool psti_loader_pump_start_job(pst_loader *loader)
{
    uint64_t step = loader->queue.issue_step, end = psti_loader_epoch_end(&loader->epoch);
    if ((step >= end && step - end >= loader->epoch.n_early) || step >= loader->epoch.issue_end ||
        step >= loader->epoch.next_step + loader->epoch.ahead || waits_for_release(loader))
        return false;
    struct psti_loader_job *job = &loader->queue.ring[step % loader->queue.n_jobs];
    loader->queue.claim_status =
        loader->placement.ops->claim(loader, loader->options.batch_size, &job->batch);
    if (loader->queue.claim_status != PST_OK)
        return false;
    struct place place = place_of(&loader->epoch, step);
    if (step == end) /* windows are numbered anew in each epoch */
        loader->queue.hinted_window = UINT64_MAX;
    struct psti_ranks ranks = loader->epoch.ranks;
    /* If only parts of items or only some items are read, the kernel must not read ahead the
     * rest. */
    bool reads_parts = loader->meters.stats.n_partial_reads > 0 ||
                       psti_loader_tiers_have_items(loader) || loader->forms.n;
    pthread_mutex_unlock(loader->lock);
    job->queue_step = step;
    psti_loader_job_set(loader, job, ranks, place.epoch, place.start, place.step, place.shown_step);
    give_hint(loader, job, reads_parts);
    pthread_mutex_lock(loader->lock);
    job->state = PSTI_LOADER_JOB_RUNNING;
    loader->queue.issue_step++;
    if (loader->queue.list_step < loader->queue.issue_step)
        loader->queue.list_step = loader->queue.issue_step;
    if (loader->in_memory || take_parked(loader, job))
        pthread_cond_broadcast(loader->work);
    return true;
}

/* Returns a number that identifies the reads of this task in a trace. */
static uint64_t trace_id(const struct psti_loader_task *task)
{
    return (uint64_t)(task - task->loader->queue.tasks);
}

/* Called when one of the requests or reads of a task is done. The last one makes the task ready. */
static void part_is_done(struct psti_loader_items *items)
{
    struct psti_loader_task *task = items->user;
    pst_loader *loader = task->loader;
    if (atomic_fetch_sub(&task->n_reading, 1) != 1)
        return;
    if (loader->meters.trace)
        psti_stall_trace_overlapping(loader->meters.trace, "read", false, psti_clock_ns(),
                                     trace_id(task));
    pthread_mutex_lock(loader->lock);
    push_ready(loader, task);
    psti_loader_times_read_ends(loader);
    if (loader->queue.n_reading == 0 && !loader->epoch.running)
        pthread_cond_broadcast(&loader->done);
    pthread_mutex_unlock(loader->lock);
}

/* Notes that n requests and reads of the task will be submitted. The lock must be held. */
static void begin_reading(pst_loader *loader, struct psti_loader_task *task, uint32_t n)
{
    atomic_store(&task->n_reading, n);
    psti_loader_times_read_begins(loader);
    if (loader->meters.trace)
        psti_stall_trace_overlapping(loader->meters.trace, "read", true, psti_clock_ns(),
                                     trace_id(task));
}

void psti_loader_pump_submit_more(pst_loader *loader, struct psti_loader_task *task)
{
    pthread_mutex_lock(loader->lock);
    begin_reading(loader, task, task->items.n_reads);
    pthread_mutex_unlock(loader->lock);
    psti_loader_storage_submit_more(loader, &task->items);
}

/* True if rows are gathered. A loader on a shelf never gathers: it looks up each row as soon as it
 * can, because other loaders of the shelf may wait for its items. */
static bool gathers(const pst_loader *loader) { return loader->gather.pays; }

/* Rows that may be under way besides two for each worker, however long they are. */
#define ROWS_AHEAD_MIN 4

/* Limits of the storage's time per read in ns: gathering begins at the first one and ends below the
 * second. Reads that overlap share their time. A hard disk or network storage takes longer than
 * that, a local SSD less. On an SSD, reading gaps and keeping bytes in memory for long before they
 * are decoded costs more than gathering saves. */
#define PAYS_NS 1000000
#define PAYS_NO_MORE_NS 200000
#define PAYS_AFTER 64 /* reads */

/* Decides whether the next rows are gathered. Throttled storage counts as slow, because its user
 * says so. */
static void choose_gathering(pst_loader *loader)
{
    const struct pst_loader_options *options = &loader->options;
    struct psti_latency_figures figures;
    bool pays = loader->gather.pays;
    if (!loader->gather.reads || loader->gather.n_left)
        return;
    psti_latency_read(&loader->tiers.latency[PST_TIER_STORAGE], &figures);
    if (figures.n >= PAYS_AFTER && figures.bytes_per_second > 0) {
        double each = (double)figures.nbytes * 1e9 / figures.bytes_per_second / (double)figures.n;
        pays = each >= (pays ? PAYS_NO_MORE_NS : PAYS_NS);
    }
    if (options->throttle_bytes_per_second > 0 || options->throttle_latency_seconds > 0)
        pays = true;
    loader->gather.pays = pays && !loader->tiers.shelf;
    psti_storage_set_gap(loader->storage, loader->gather.pays ? UINT64_MAX : 0);
}

/* Returns how many rows a gathering that begins at `position` takes: the rest of its window, or an
 * equal part of it. */
static uint32_t rows_wanted(const pst_loader *loader, uint64_t position, uint64_t end)
{
    uint64_t left = (end - position - 1) / loader->epoch.ranks.world_size + 1;
    if (left <= loader->gather.n_rows_max)
        return (uint32_t)left;
    uint64_t n_parts = (left - 1) / loader->gather.n_rows + 1;
    return (uint32_t)((left - 1) / n_parts + 1);
}

/* Returns the first step that must not be listed: jobs do not go beyond the ring, the epochs that
 * may be under way, or the end that is set for the loader. */
static uint64_t list_end(const pst_loader *loader)
{
    const struct psti_loader_epoch *epoch = &loader->epoch;
    uint64_t end = psti_loader_epoch_end(epoch), ring = epoch->next_step + loader->queue.n_jobs;
    end = epoch->n_early < UINT64_MAX - end ? end + epoch->n_early : UINT64_MAX;
    end = end < epoch->issue_end ? end : epoch->issue_end;
    return end < ring ? end : ring;
}

/* Sets the positions of the next job, so that its rows can be looked up before it has a slot. */
static void list_next(pst_loader *loader)
{
    uint64_t step = loader->queue.list_step++;
    struct psti_loader_job *job = &loader->queue.ring[step % loader->queue.n_jobs];
    struct place place = place_of(&loader->epoch, step);
    job->queue_step = step;
    psti_loader_job_list(loader, job, loader->epoch.ranks, place.epoch, place.start, place.step);
    job->state = PSTI_LOADER_JOB_LISTED;
}

/* Counts the rows of the next gathering: those up to the window's end, or the largest size of a
 * gathering. Lists the jobs that have these rows. *all: waiting would add no rows. */
static uint32_t count_rows(pst_loader *loader, bool *all)
{
    const struct psti_loader_task *pending = loader->queue.pending;
    uint64_t step = loader->queue.row_step < loader->epoch.next_step ? loader->epoch.next_step
                                                                     : loader->queue.row_step;
    uint64_t over = psti_loader_epoch_end(&loader->epoch), stop = list_end(loader);
    uint64_t end = 0; /* of the window; 0: not known yet */
    uint32_t n = 0, most = 1;
    if (step < over && over < stop) /* a window ends with its epoch */
        stop = over;
    *all = false;
    if (pending) {
        uint64_t first = pending->job->positions[pending->row];
        end = psti_order_window_end(loader->order, first);
        most = rows_wanted(loader, first, end);
        n = 1;
    }
    for (; !*all && step < stop && n < most; step++) {
        const struct psti_loader_job *job = &loader->queue.ring[step % loader->queue.n_jobs];
        if (step == loader->queue.list_step)
            list_next(loader);
        uint32_t n_rows = job->n_rows - job->next_row;
        if (n_rows == 0)
            continue;
        uint64_t first = job->positions[job->next_row];
        if (end == 0) {
            end = psti_order_window_end(loader->order, first);
            most = rows_wanted(loader, first, end);
        }
        uint64_t left = end > first ? end - first : 0; /* positions within a job increase by 1 */
        *all = left <= n_rows;
        n += *all ? (uint32_t)left : n_rows;
    }
    *all |= n >= most || step < loader->epoch.next_step + loader->queue.n_jobs;
    return n < most ? n : most;
}

/* Begins a gathering, if none is under way. Half of the arena and tasks for all its rows must be
 * free, and waiting must add no rows; if nothing is under way, it begins in any case. False: it
 * cannot begin now. */
static bool begin_gathering(pst_loader *loader)
{
    bool all, idle = loader->queue.n_free_tasks + (loader->queue.pending != NULL) ==
                     loader->queue.n_tasks;
    if (loader->gather.n_left)
        return true;
    if (!idle && loader->queue.arena.nbytes_used > loader->queue.arena.nbytes / 2)
        return false;
    uint32_t n = count_rows(loader, &all);
    if (n == 0 || (!idle && (!all || loader->queue.n_free_tasks < n)))
        return false;
    loader->gather.n_left = n - (loader->queue.pending != NULL);
    loader->gather.nbytes_left = loader->queue.arena.nbytes - loader->queue.arena.nbytes_used;
    if (loader->gather.nbytes_left > loader->queue.arena.nbytes / 2)
        loader->gather.nbytes_left = loader->queue.arena.nbytes / 2;
    return true;
}

static void take_of_gathering(pst_loader *loader, size_t nbytes)
{
    if (nbytes >= loader->gather.nbytes_left)
        loader->gather.n_left = 0;
    else
        loader->gather.nbytes_left -= nbytes;
}

/* True if no further row may be under way now: as many are as may be without gathering, or they
 * have as many bytes as storage needs to be ahead of the workers. More bytes would only take
 * memory, and leave the CPU's caches before they are decoded. A shelf needs each row as soon as it
 * can be. */
static bool is_full(const pst_loader *loader)
{
    const struct psti_loader_queue *queue = &loader->queue;
    uint32_t n = queue->n_tasks - queue->n_free_tasks;
    return (loader->gather.reads && n >= loader->gather.n_tasks_alone) ||
           (!loader->tiers.shelf && n >= 2 * loader->crew.n + ROWS_AHEAD_MIN &&
            queue->arena.nbytes_used >= queue->ahead_nbytes);
}

/* Looks up the next row in order and makes it loader->queue.pending. False: there is no row, or no
 * free task. */
static bool look_up_next(pst_loader *loader)
{
    struct psti_loader_job *job = NULL;
    struct psti_loader_task *task = loader->queue.free_tasks;
    uint64_t end = gathers(loader) ? loader->queue.list_step : loader->queue.issue_step;
    if (loader->queue.row_step < loader->epoch.next_step)
        loader->queue.row_step = loader->epoch.next_step;
    while (loader->queue.row_step < end) {
        job = &loader->queue.ring[loader->queue.row_step % loader->queue.n_jobs];
        if (job->next_row < job->n_rows)
            break;
        loader->queue.row_step++;
        job = NULL;
    }
    if (!job || !task || (gathers(loader) ? !loader->gather.n_left : is_full(loader)))
        return false;
    loader->gather.n_left -= gathers(loader);
    loader->queue.free_tasks = task->next;
    loader->queue.n_free_tasks--;
    task->job = job;
    task->row = job->next_row++;
    task->block = NULL;
    loader->queue.pump_again = true;
    pthread_mutex_unlock(loader->lock);
    const struct psti_draw_key key = psti_loader_job_key(loader, job, task->row);
    task->status =
        psti_loader_row_locate(loader, &key, job->first_turn + task->row, &task->items, &task->err);
    bool located = task->status == PST_OK;
    if (!located)
        task->items.block_nbytes = 0;
    task->copies = located && psti_loader_row_copies(loader, &task->items);
    psti_loader_tiers_join(loader, located ? &task->items : NULL, key.epoch,
                           job->positions[task->row]);
    pthread_mutex_lock(loader->lock);
    loader->queue.pending = task;
    return true;
}

/* The reads that will be submitted together: a list for each tier of the loader. The last list
 * belongs to the storage. */
struct parts {
    struct psti_loader_asked asked[PSTI_LOADER_TIERS];
    uint32_t n_reads_max;
};

/* Counts the reads in the lists of the first n tiers. */
static uint32_t count_asked(const struct parts *parts, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += parts->asked[i].n;
    return sum;
}

/* True if another row fits, however many reads it needs. */
static bool has_room(const pst_loader *loader, const struct parts *parts)
{
    uint32_t n_items = loader->plan.n_items, last = loader->tiers.n - 1;
    return parts->asked[last].n + n_items <= parts->n_reads_max &&
           count_asked(parts, last) + n_items <= PSTI_LOADER_ASKED_MAX;
}

/* Finds a task whose requests can be submitted and adds them to `parts`. NULL: there is none
 * now. */
static struct psti_loader_task *next_task(pst_loader *loader, struct parts *parts)
{
    while (loader->epoch.running && (loader->queue.pending || look_up_next(loader))) {
        struct psti_loader_task *task = loader->queue.pending;
        if (!loader->epoch.running)
            return NULL;
        if (task->items.block_nbytes) {
            task->block = psti_loader_arena_alloc(&loader->queue.arena, task->items.block_nbytes);
            if (!task->block) {
                loader->gather.n_left = 0;
                return NULL;
            }
            take_of_gathering(loader, task->items.block_nbytes);
        }
        loader->queue.pending = NULL;
        uint32_t n = 0;
        if (task->status == PST_OK) {
            psti_loader_row_place(loader, &task->items, task->block);
            task->items.done = part_is_done;
            task->items.user = task;
            n = psti_loader_tiers_prepare(loader, &task->items, parts->asked);
        }
        if (n == 0) {
            push_ready(loader, task);
            continue;
        }
        begin_reading(loader, task, n);
        return task;
    }
    return NULL;
}

static bool submit_some(pst_loader *loader)
{
    struct parts parts = {.n_reads_max = PSTI_LOADER_ASKED_MAX};
    choose_gathering(loader);
    loader->queue.crowded = psti_loader_tiers_are_crowded(loader);
    if (loader->queue.crowded)
        return false;
    if (gathers(loader))
        parts.n_reads_max = loader->gather.n_rows_max * loader->plan.n_items;
    if (gathers(loader) && !begin_gathering(loader))
        return false;
    while (has_room(loader, &parts) && next_task(loader, &parts))
        ;
    if (count_asked(&parts, loader->tiers.n) == 0)
        return false;
    loader->queue.pump_again = true;
    pthread_mutex_unlock(loader->lock);
    psti_loader_tiers_submit(loader, parts.asked);
    pthread_mutex_lock(loader->lock);
    return true;
}

int64_t psti_loader_pump(pst_loader *loader, int64_t now_ns)
{
    if (loader->queue.pumping || !loader->epoch.running)
        return now_ns;
    int64_t start = now_ns ? now_ns : psti_clock_ns();
    psti_loader_meter_tick_at(loader, start);
    loader->queue.pumping = true;
    do {
        /* It is set again if this thread releases the lock, because the state may change then: a
         * batch that is released meanwhile finds no other thread to start a job for its slot. */
        loader->queue.pump_again = false;
        while (loader->epoch.running && psti_loader_pump_start_job(loader))
            ;
        while (!loader->in_memory && loader->epoch.running && submit_some(loader))
            ;
    } while (loader->epoch.running && loader->queue.pump_again);
    now_ns = psti_clock_ns();
    psti_loader_meter_tick_at(loader, now_ns);
    loader->queue.pumping = false;
    loader->meters.pump_ns += (uint64_t)(now_ns - start);
    /* Two kinds of threads wait for the end of pumping: a thread that cancels the epoch, and a
     * caller whose job could not be started. Otherwise no thread needs to be woken. */
    if (!loader->epoch.running ||
        loader->queue.ring[loader->epoch.next_step % loader->queue.n_jobs].state <
            PSTI_LOADER_JOB_RUNNING)
        pthread_cond_broadcast(&loader->done);
    return now_ns;
}

void psti_loader_pump_free_task(pst_loader *loader, struct psti_loader_task *task)
{
    if (task->block)
        psti_loader_arena_free(&loader->queue.arena, task->block);
    task->block = NULL;
    task->next = loader->queue.free_tasks;
    loader->queue.free_tasks = task;
    loader->queue.n_free_tasks++;
}
