/* loader_meter.c - measures when and why the caller of the loader waits.
 *
 * In: changes of the loader's state, reported under its lock. Out: sums of time, from which
 * loader_figures.c makes the figures for users. The stall clock is read only while the caller
 * waits, so a loader that is fast enough spends no time on it. */
#include "loader/epoch/loader_meter.h"

#include "loader/loader_handle.h"

#include "base/clock.h"

#include <penstock/meter.h>

#include <string.h>

void psti_loader_meter_sum(const pst_loader *loader, struct psti_meter_sums *sums)
{
    memset(sums, 0, sizeof *sums);
    for (uint32_t i = 0; loader->crew.workers && i < loader->crew.n; i++)
        psti_stall_meter_sum(&loader->crew.workers[i].meter, sums);
}

static uint64_t busy(const pst_loader *loader)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < loader->crew.n; i++)
        ns += atomic_load_explicit(&loader->crew.workers[i].meter.busy_ns, memory_order_relaxed);
    return ns;
}

void psti_loader_meter_begin(pst_loader *loader)
{
    psti_stall_meter_steps_begin(&loader->meters.steps);
    psti_loader_meter_sum(loader, &loader->meters.epoch_sums);
}

static enum psti_meter_cause cause_now(const pst_loader *loader)
{
    const struct psti_meter_stall *stall = &loader->meters.stall;
    bool fetches = loader->queue.n_reading || loader->queue.pumping;
    if (stall->settles)
        return PSTI_METER_CAUSE_UPLOAD;
    if (fetches && stall->n_idle)
        return PSTI_METER_CAUSE_FETCH;
    if (loader->queue.n_busy)
        return PSTI_METER_CAUSE_ROWS;
    return fetches ? PSTI_METER_CAUSE_FETCH : PSTI_METER_CAUSE_OTHER;
}

static void tick(pst_loader *loader, int64_t now)
{
    if (now <= loader->meters.stall.since_ns)
        return;
    uint64_t ns = (uint64_t)(now - loader->meters.stall.since_ns);
    loader->meters.stall.since_ns = now;
    if (loader->options.num_workers > 0) {
        psti_stall_meter_steps_cause(&loader->meters.steps, cause_now(loader), ns);
        return;
    }
    /* Without workers the caller read and filled the rows in its own thread. */
    uint64_t reads = loader->meters.stats.worker_read_wait_ns;
    uint64_t read_ns = reads - loader->meters.stall.reads_ns;
    loader->meters.stall.reads_ns = reads;
    read_ns = read_ns < ns ? read_ns : ns;
    psti_stall_meter_steps_cause(&loader->meters.steps, PSTI_METER_CAUSE_FETCH, read_ns);
    psti_stall_meter_steps_cause(&loader->meters.steps, PSTI_METER_CAUSE_ROWS, ns - read_ns);
}

int64_t psti_loader_meter_tick(pst_loader *loader)
{
    if (!loader->meters.stall.waits || loader->options.num_workers == 0)
        return 0;
    int64_t now = psti_clock_ns();
    tick(loader, now);
    return now;
}

void psti_loader_meter_tick_at(pst_loader *loader, int64_t now_ns)
{
    if (now_ns == 0)
        psti_loader_meter_tick(loader);
    else if (loader->meters.stall.waits && loader->options.num_workers > 0)
        tick(loader, now_ns);
}

void psti_loader_meter_count_batches(const pst_loader *loader, uint64_t *n_running,
                                     uint64_t *n_ready)
{
    *n_running = *n_ready = 0;
    for (uint32_t i = 0; loader->queue.ring && i < loader->options.prefetch; i++) {
        uint64_t step = loader->epoch.next_step + i;
        enum psti_loader_job_state state = loader->queue.ring[step % loader->queue.n_jobs].state;
        *n_running += state == PSTI_LOADER_JOB_RUNNING;
        *n_ready += state == PSTI_LOADER_JOB_WHOLE;
    }
}

static void note_queues(pst_loader *loader, int64_t now_ns)
{
    struct psti_loader_queues *queues = &loader->meters.lengths;
    uint64_t n_running, n_ready;
    psti_loader_meter_count_batches(loader, &n_running, &n_ready);
    queues->n_asked++;
    queues->rows_reading += loader->queue.n_reading;
    queues->rows_ready += loader->queue.n_ready;
    queues->batches_running += n_running;
    queues->batches_ready += n_ready;
    if (!loader->meters.trace)
        return;
    psti_stall_trace_counter(loader->meters.trace, "batches ready", now_ns, n_ready);
    psti_stall_trace_counter(loader->meters.trace, "rows ready", now_ns, loader->queue.n_ready);
}

void psti_loader_meter_ask(pst_loader *loader, int64_t now_ns)
{
    if (loader->meters.steps.asked_ns == 0)
        note_queues(loader, now_ns);
    psti_stall_meter_steps_ask(&loader->meters.steps, now_ns);
    loader->meters.stall.waits = true;
    loader->meters.stall.since_ns = now_ns;
}

static void trace_step(const pst_loader *loader, int64_t now)
{
    const struct psti_meter_steps *steps = &loader->meters.steps;
    if (steps->returned_ns)
        psti_stall_trace_span(loader->meters.trace, 0, "step", steps->returned_ns, steps->asked_ns,
                              UINT64_MAX, UINT64_MAX);
    psti_stall_trace_span(loader->meters.trace, 0, "wait for a batch", steps->asked_ns, now,
                          UINT64_MAX, UINT64_MAX);
}

void psti_loader_meter_answer(pst_loader *loader, enum pst_status status)
{
    int64_t now = psti_clock_ns();
    tick(loader, now);
    loader->meters.stall.waits = false;
    if (status == PST_ERROR_BUSY)
        return;
    if (status != PST_OK && status != PST_END) {
        psti_stall_meter_steps_fail(&loader->meters.steps);
        return;
    }
    if (loader->meters.trace)
        trace_step(loader, now);
    psti_stall_meter_steps_deliver(&loader->meters.steps, now, status == PST_END, busy(loader));
}

void pst_loader_peers_waited(pst_loader *loader, uint64_t ns)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return;
    pthread_mutex_lock(loader->lock);
    psti_stall_meter_steps_peers(&loader->meters.steps, ns);
    pthread_mutex_unlock(loader->lock);
}
