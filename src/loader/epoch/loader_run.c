/* loader_run.c - the threads of workers, and starting and cancelling an epoch.
 *
 * A worker pumps, takes rows, fills them without the lock, and frees their buffers. Cancelling
 * drops queued rows, waits for reads and rows that are under way, and puts all slots back. Each
 * worker checks `cancelled` between rows. Cancelling also makes the throttle release the requests
 * that it holds back. After cancelling no thread touches a job. */
#include "loader/rows/loader_fill.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_meter.h"
#include "loader/epoch/loader_pump.h"
#include "loader/rows/loader_row.h"
#include "loader/epoch/loader_run.h"
#include "loader/tiers/loader_later.h"
#include "loader/tiers/loader_tier.h"
#include "loader/epoch/loader_times.h"
#include "loader/loader_worker.h"

#include "base/clock.h"

#include <string.h>

#define ROWS_AT_ONCE 16
#define TASKS_AT_ONCE 8
#define TRACED_PUMP_NS 1000 /* nanoseconds; pumping (looking up rows) that takes less found nothing
                             * to do, and is not traced */

/* Rows that a worker took: either rows of a job whose bytes are in memory, or tasks whose items
 * have been read. */
struct work {
    struct psti_loader_job *job;
    uint32_t first, n;
    struct psti_loader_task *tasks;
};

static bool take_rows(pst_loader *loader, struct work *work)
{
    if (loader->queue.row_step < loader->epoch.next_step)
        loader->queue.row_step = loader->epoch.next_step;
    while (loader->queue.row_step < loader->queue.issue_step) {
        struct psti_loader_job *job =
            &loader->queue.ring[loader->queue.row_step % loader->queue.n_jobs];
        uint32_t left = job->n_rows - job->next_row;
        uint32_t n = job->n_rows / (4 * loader->crew.n);
        if (left == 0) {
            loader->queue.row_step++;
            continue;
        }
        n = n < 1 ? 1 : n > ROWS_AT_ONCE ? ROWS_AT_ONCE : n;
        n = n < left ? n : left;
        *work = (struct work){.job = job, .first = job->next_row, .n = n};
        job->next_row += n;
        return true;
    }
    return false;
}

static void forget_last(struct psti_loader_task *task)
{
    if (task->job->ready_last == task)
        task->job->ready_last = NULL;
}

/* Takes ready tasks for a worker. It takes several only if all of them are fast, to keep rows from
 * waiting behind a slow one while other workers are idle. */
static bool take_tasks(pst_loader *loader, struct work *work)
{
    uint32_t n = loader->queue.n_ready / loader->crew.n;
    if (!loader->queue.ready)
        return false;
    n = n < 1 ? 1 : n > TASKS_AT_ONCE ? TASKS_AT_ONCE : n;
    struct psti_loader_task *last = loader->queue.ready;
    uint32_t i = 1;
    forget_last(last);
    for (; i < n && last->copies && last->next->copies; i++) {
        last = last->next;
        forget_last(last);
    }
    n = i;
    *work = (struct work){.tasks = loader->queue.ready, .n = n};
    loader->queue.ready = last->next;
    last->next = NULL;
    loader->queue.n_ready -= n;
    return true;
}

/* Makes a row that needs no reading, or whose items this thread reads itself. */
static void do_row(struct psti_loader_worker *worker, struct psti_loader_job *job, uint32_t row)
{
    const struct psti_draw_key key = psti_loader_job_key(worker->loader, job, row);
    enum pst_status status =
        psti_loader_row_make(worker, job->batch, row, &key, job->first_turn + row, &worker->err);
    if (status != PST_OK)
        psti_loader_job_row_failed(worker, job, row, status);
}

static void do_rows(struct psti_loader_worker *worker, const struct work *work)
{
    pst_loader *loader = worker->loader;
    int64_t start = psti_clock_ns();
    for (uint32_t i = 0; i < work->n; i++) {
        if (atomic_load_explicit(&loader->queue.cancelled, memory_order_relaxed))
            return;
        do_row(worker, work->job, work->first + i);
    }
    psti_loader_worker_count(worker, start);
}

static void do_task(struct psti_loader_worker *worker, struct psti_loader_task *task)
{
    pst_loader *loader = worker->loader;
    struct psti_loader_job *job = task->job;
    const struct psti_draw_key key = psti_loader_job_key(loader, job, task->row);
    int64_t start = psti_clock_ns();
    enum pst_status status = task->status;
    bool suspect = false;
    worker->starved = worker->lacks_scratch = false;
    if (status != PST_OK)
        worker->err = task->err;
    if (status == PST_OK)
        status = psti_loader_tiers_await(worker, &task->items, &worker->err);
    if (status == PST_OK) {
        status = psti_loader_row_fill(worker, job->batch, task->row, &key, task->items.sources,
                                      &worker->err);
        suspect = psti_loader_row_is_suspect(worker, &task->items, status);
    }
    psti_loader_tiers_release(loader, &task->items);
    if (suspect)
        status = psti_loader_row_make_without_fleet(worker, job->batch, task->row, &key,
                                                    job->first_turn + task->row, &worker->err);
    if (status != PST_OK)
        psti_loader_job_row_failed(worker, job, task->row, status);
    psti_loader_worker_count(worker, start);
}

/* Fills the rows of `work`. A task that needs further reads leaves the list, and is queued again
 * after those reads. */
static void do_work(struct psti_loader_worker *worker, struct work *work)
{
    if (work->job) {
        do_rows(worker, work);
        return;
    }
    for (struct psti_loader_task **at = &work->tasks, *task; (task = *at) != NULL;) {
        bool drop = atomic_load_explicit(&worker->loader->queue.cancelled, memory_order_relaxed);
        if (!drop &&
            psti_loader_row_advance(worker->loader, &task->items, &task->status, &task->err)) {
            *at = task->next;
            psti_loader_pump_submit_more(worker->loader, task);
            continue;
        }
        if (drop)
            psti_loader_tiers_release(worker->loader, &task->items);
        else
            do_task(worker, task);
        at = &task->next;
    }
}

/* Does the work inside the gate that limits the busy workers, if there is one. */
static void do_work_inside(struct psti_loader_worker *worker, struct work *work)
{
    struct psti_gate *gate = worker->loader->crew.gate;
    if (gate)
        psti_gate_enter(gate);
    do_work(worker, work);
    if (gate)
        psti_gate_leave(gate);
}

/* Ends the work of a worker, with the lock held. The worker's counts are merged before its rows
 * count as done, without releasing the lock in between. Rows of a cancelled epoch may have been
 * dropped; nobody waits for them. */
static void end_work(struct psti_loader_worker *worker, struct work *work)
{
    pst_loader *loader = worker->loader;
    psti_loader_worker_merge(worker);
    if (work->job && loader->epoch.running)
        psti_loader_job_rows_done(worker, work->job, work->n);
    while (work->tasks) {
        struct psti_loader_task *task = work->tasks;
        struct psti_loader_job *job = task->job;
        work->tasks = task->next;
        psti_loader_pump_free_task(loader, task);
        if (loader->epoch.running)
            psti_loader_job_rows_done(worker, job, 1);
    }
}

/* Calls psti_loader_pump and traces it. now: the time if it was just read, else 0. */
static int64_t pump(struct psti_loader_worker *worker, int64_t now)
{
    pst_loader *loader = worker->loader;
    int64_t start = loader->meters.trace ? psti_clock_ns() : 0;
    now = psti_loader_pump(loader, now);
    if (loader->meters.trace && now - start > TRACED_PUMP_NS)
        psti_stall_trace_span(loader->meters.trace, worker->meter.tid, "look up rows", start, now,
                              UINT64_MAX, UINT64_MAX);
    return now;
}

void psti_loader_run_worker(void *arg)
{
    struct psti_loader_worker *worker = arg;
    pst_loader *loader = worker->loader;
    int64_t now = 0; /* the time if it was just read with the lock held, else 0 */
    pthread_mutex_lock(loader->lock);
    while (!loader->epoch.closing) {
        struct work work;
        now = pump(worker, now);
        bool found = loader->epoch.running &&
                     (loader->in_memory ? take_rows(loader, &work) : take_tasks(loader, &work));
        bool lags = !found && psti_loader_worker_lags(worker);
        bool later = !found && !lags && psti_loader_later_may(loader, worker);
        if (!found && !lags && !later) {
            if (!loader->epoch.closing)
                psti_loader_times_wait_for_work(loader, &worker->meter);
            worker->later_waits = false;
            now = 0;
            continue;
        }
        psti_loader_meter_tick_at(loader, now);
        loader->queue.n_busy++;
        loader->queue.n_later += later;
        pthread_mutex_unlock(loader->lock);
        if (lags)
            psti_loader_worker_catch_up(worker);
        else if (later)
            worker->later_waits = !psti_loader_later_do(worker);
        else
            do_work_inside(worker, &work);
        pthread_mutex_lock(loader->lock);
        loader->queue.n_later -= later;
        if (found)
            end_work(worker, &work);
        now = psti_loader_meter_tick(loader);
        if (--loader->queue.n_busy == 0 && !loader->epoch.running)
            pthread_cond_broadcast(&loader->done);
    }
    pthread_mutex_unlock(loader->lock);
}

static void make_row_here(struct psti_loader_worker *worker, struct psti_loader_job *job,
                          uint32_t row)
{
    int64_t start = psti_clock_ns();
    worker->owed_ns = 0;
    do_row(worker, job, row);
    psti_loader_worker_count(worker, start);
    worker->holds_row = true;
    worker->hold_until_ns = psti_clock_ns() + worker->owed_ns;
}

void psti_loader_run_row_here(pst_loader *loader, struct psti_loader_job *job, int64_t deadline)
{
    struct psti_loader_worker *worker = &loader->crew.workers[0];
    bool make = !worker->holds_row;
    uint32_t row = make ? job->next_row++ : 0;
    pthread_mutex_unlock(loader->lock);
    if (make)
        make_row_here(worker, job, row);
    int64_t until = worker->hold_until_ns;
    if (worker->owed_ns > 0) {
        int64_t start = psti_clock_ns();
        psti_clock_sleep_until(until < deadline ? until : deadline);
        psti_loader_worker_read_here(worker, start, false);
    }
    worker->holds_row = worker->owed_ns > 0 && psti_clock_ns() < until;
    pthread_mutex_lock(loader->lock);
    psti_loader_worker_merge(worker);
    if (!worker->holds_row)
        psti_loader_job_rows_done(worker, job, 1);
}

void psti_loader_run_start(pst_loader *loader, uint64_t step)
{
    loader->epoch.next_step = loader->queue.issue_step = loader->queue.row_step = step;
    loader->queue.list_step = step;
    loader->queue.hinted_window = UINT64_MAX;
    loader->gather.n_left = 0;
    atomic_store(&loader->queue.cancelled, false);
    loader->epoch.running = true;
    loader->epoch.parked = false;
    pthread_cond_broadcast(loader->work);
    pthread_cond_broadcast(&loader->runs);
}

static void drop_list(pst_loader *loader, struct psti_loader_task **list)
{
    while (*list) {
        struct psti_loader_task *task = *list;
        *list = task->next;
        psti_loader_tiers_release(loader, &task->items);
        psti_loader_pump_free_task(loader, task);
    }
}

static void drop_tasks(pst_loader *loader)
{
    if (loader->queue.pending) {
        if (loader->queue.pending->status == PST_OK)
            psti_loader_tiers_release(loader, &loader->queue.pending->items);
        psti_loader_pump_free_task(loader, loader->queue.pending);
        loader->queue.pending = NULL;
    }
    drop_list(loader, &loader->queue.ready);
    loader->queue.n_ready = 0;
}

void psti_loader_run_cancel(pst_loader *loader)
{
    loader->epoch.running = false;
    atomic_store(&loader->queue.cancelled, true);
    psti_loader_tiers_cancel(loader);
    while (loader->queue.pumping || loader->queue.n_reading || loader->queue.n_busy)
        pthread_cond_wait(&loader->done, loader->lock);
    psti_loader_tiers_resume(loader);
    if (loader->crew.workers)
        loader->crew.workers[0].holds_row = false;
    drop_tasks(loader);
    for (uint32_t i = 0; loader->queue.ring && i < loader->queue.n_jobs; i++) {
        struct psti_loader_job *job = &loader->queue.ring[i];
        drop_list(loader, &job->parked);
        job->ready_last = NULL;
        if (job->batch) {
            loader->placement.ops->quiesce(loader, job->batch);
            psti_batch_pool_put_back(job->batch);
        }
        job->batch = NULL;
        job->state = PSTI_LOADER_JOB_EMPTY;
        psti_loader_job_clear_bads(job);
    }
}
