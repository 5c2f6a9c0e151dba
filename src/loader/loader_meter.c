/* loader_meter.c - the loader's use of the meter: the moments at which the caller waits and why,
 * and the figures that pst_loader_meter gives.
 *
 * In: changes of the loader's state, each under its lock. Out: sums of time. The stall clock runs
 * only while the caller waits, so a loader that is fast enough does not read the clock for it. */
#include "loader/loader_counters.h"
#include "loader/loader_handle.h"
#include "loader/loader_run.h"

#include "base/clock.h"
#include "base/options.h"

#include <penstock/meter.h>

#include <string.h>

#define N_STAGES (PST_STAGE_CALLER + 1)

const char *pst_stage_name(uint32_t i)
{
    static const char *const names[N_STAGES] = {"fetch", "decode", "augment",  "batch",
                                                "keep",  "upload", "handover", "caller"};
    return i < N_STAGES ? names[i] : NULL;
}

/* Sums over workers; the caller's thread is the only one where there are none. */
static void sum(const pst_loader *loader, struct psti_meter_sums *sums)
{
    memset(sums, 0, sizeof *sums);
    for (uint32_t i = 0; loader->workers && i < loader->n_workers; i++)
        psti_stall_meter_sum(&loader->workers[i].meter, sums);
}

static uint64_t busy(const pst_loader *loader)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < loader->n_workers; i++)
        ns += atomic_load_explicit(&loader->workers[i].meter.busy_ns, memory_order_relaxed);
    return ns;
}

void psti_loader_meter_begin(pst_loader *loader)
{
    psti_stall_meter_steps_begin(&loader->steps);
    sum(loader, &loader->epoch_sums);
}

static enum psti_meter_cause cause_now(const pst_loader *loader)
{
    const struct psti_meter_stall *stall = &loader->stall;
    bool fetches = loader->n_reading || loader->pumping;
    if (stall->settles)
        return PSTI_METER_CAUSE_UPLOAD;
    if (fetches && stall->n_idle)
        return PSTI_METER_CAUSE_FETCH;
    if (loader->n_busy)
        return PSTI_METER_CAUSE_ROWS;
    return fetches ? PSTI_METER_CAUSE_FETCH : PSTI_METER_CAUSE_OTHER;
}

static void tick(pst_loader *loader, int64_t now)
{
    if (now <= loader->stall.since_ns)
        return;
    uint64_t ns = (uint64_t)(now - loader->stall.since_ns);
    loader->stall.since_ns = now;
    if (loader->options.num_workers > 0) {
        psti_stall_meter_steps_cause(&loader->steps, cause_now(loader), ns);
        return;
    }
    /* The caller has read and filled rows by itself. */
    uint64_t reads = loader->stats.worker_read_wait_ns;
    uint64_t read_ns = reads - loader->stall.reads_ns;
    loader->stall.reads_ns = reads;
    read_ns = read_ns < ns ? read_ns : ns;
    psti_stall_meter_steps_cause(&loader->steps, PSTI_METER_CAUSE_FETCH, read_ns);
    psti_stall_meter_steps_cause(&loader->steps, PSTI_METER_CAUSE_ROWS, ns - read_ns);
}

int64_t psti_loader_meter_tick(pst_loader *loader)
{
    if (!loader->stall.waits || loader->options.num_workers == 0)
        return 0;
    int64_t now = psti_clock_ns();
    tick(loader, now);
    return now;
}

void psti_loader_meter_tick_at(pst_loader *loader, int64_t now_ns)
{
    if (now_ns == 0)
        psti_loader_meter_tick(loader);
    else if (loader->stall.waits && loader->options.num_workers > 0)
        tick(loader, now_ns);
}

static void count_batches(const pst_loader *loader, uint64_t *n_running, uint64_t *n_ready)
{
    *n_running = *n_ready = 0;
    for (uint32_t i = 0; loader->ring && i < loader->options.prefetch; i++) {
        *n_running += loader->ring[i].state == PSTI_LOADER_JOB_RUNNING;
        *n_ready += loader->ring[i].state == PSTI_LOADER_JOB_WHOLE;
    }
}

static void note_queues(pst_loader *loader, int64_t now_ns)
{
    struct psti_loader_queues *queues = &loader->queues;
    uint64_t n_running, n_ready;
    count_batches(loader, &n_running, &n_ready);
    queues->n_asked++;
    queues->rows_reading += loader->n_reading;
    queues->rows_ready += loader->n_ready;
    queues->batches_running += n_running;
    queues->batches_ready += n_ready;
    if (!loader->trace)
        return;
    psti_stall_trace_counter(loader->trace, "batches ready", now_ns, n_ready);
    psti_stall_trace_counter(loader->trace, "rows ready", now_ns, loader->n_ready);
}

void psti_loader_meter_ask(pst_loader *loader, int64_t now_ns)
{
    if (loader->steps.asked_ns == 0)
        note_queues(loader, now_ns);
    psti_stall_meter_steps_ask(&loader->steps, now_ns);
    loader->stall.waits = true;
    loader->stall.since_ns = now_ns;
}

static void trace_step(const pst_loader *loader, int64_t now)
{
    const struct psti_meter_steps *steps = &loader->steps;
    if (steps->returned_ns)
        psti_stall_trace_span(loader->trace, 0, "step", steps->returned_ns, steps->asked_ns,
                              UINT64_MAX, UINT64_MAX);
    psti_stall_trace_span(loader->trace, 0, "wait for a batch", steps->asked_ns, now, UINT64_MAX,
                          UINT64_MAX);
}

void psti_loader_meter_answer(pst_loader *loader, enum pst_status status)
{
    int64_t now = psti_clock_ns();
    tick(loader, now);
    loader->stall.waits = false;
    if (status == PST_ERROR_BUSY)
        return;
    if (status != PST_OK && status != PST_END) {
        psti_stall_meter_steps_fail(&loader->steps);
        return;
    }
    if (loader->trace)
        trace_step(loader, now);
    psti_stall_meter_steps_deliver(&loader->steps, now, status == PST_END, busy(loader));
}

void pst_loader_peers_waited(pst_loader *loader, uint64_t ns)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return;
    pthread_mutex_lock(loader->lock);
    psti_stall_meter_steps_peers(&loader->steps, ns);
    pthread_mutex_unlock(loader->lock);
}

static uint64_t since(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

/* Divides times of causes among the stages. The workers' time goes to their stages as that of this
 * epoch did. */
static void divide(const struct psti_meter_sums *now, const struct psti_meter_sums *before,
                   const uint64_t *causes, uint64_t *stages)
{
    const uint64_t parts[] = {[PST_STAGE_FETCH] = since(now->fetch_ns, before->fetch_ns),
                              [PST_STAGE_DECODE] = since(now->decode_ns, before->decode_ns),
                              [PST_STAGE_AUGMENT] = since(now->augment_ns, before->augment_ns),
                              [PST_STAGE_BATCH] = since(now->batch_ns, before->batch_ns),
                              [PST_STAGE_KEEP] = since(now->keep_ns, before->keep_ns)};
    uint64_t all = 0, left = causes[PSTI_METER_CAUSE_ROWS];
    for (uint32_t i = 0; i <= PST_STAGE_KEEP; i++)
        all += parts[i];
    for (uint32_t i = 0; all && i <= PST_STAGE_KEEP; i++) {
        double ns = (double)causes[PSTI_METER_CAUSE_ROWS] * (double)parts[i] / (double)all;
        stages[i] = (uint64_t)ns < left ? (uint64_t)ns : left;
        left -= stages[i];
    }
    stages[PST_STAGE_DECODE] += left; /* rounding; all of it if no row is done yet */
    stages[PST_STAGE_FETCH] += causes[PSTI_METER_CAUSE_FETCH];
    stages[PST_STAGE_UPLOAD] = causes[PSTI_METER_CAUSE_UPLOAD];
    stages[PST_STAGE_HANDOVER] = causes[PSTI_METER_CAUSE_OTHER];
}

static struct pst_step_times times_of(const pst_loader *loader, const struct psti_meter_sums *sums,
                                      const struct psti_meter_figures *figures)
{
    struct pst_step_times times = {.n = figures->n,
                                   .total_ns = figures->total_ns,
                                   .wait_ns = figures->wait_ns,
                                   .peers_ns = figures->peers_ns,
                                   .max_ns = figures->max_ns,
                                   .wait_max_ns = figures->wait_max_ns,
                                   .mean_ns = figures->mean_ns,
                                   .sd_ns = figures->sd_ns,
                                   .p50_ns = figures->p50_ns,
                                   .p99_ns = figures->p99_ns};
    divide(sums, &loader->epoch_sums, figures->cause_ns, times.cause_ns);
    return times;
}

static void fill_stages(const pst_loader *loader, const struct pst_loader_stats *stats,
                        const struct psti_meter_sums *sums, struct pst_stage_clock *stages)
{
    const struct psti_meter_steps *steps = &loader->steps;
    bool uploads = loader->options.placement == PST_PLACEMENT_DEVICE;
    uint64_t n_images = stats->n_cpu_samples + stats->n_gpu_samples;
    stages[PST_STAGE_FETCH] = (struct pst_stage_clock){.work_ns = sums->fetch_ns + loader->pump_ns,
                                                       .wait_in_ns = stats->read_ns,
                                                       .n = stats->n_reads,
                                                       .nbytes = stats->nbytes_read};
    stages[PST_STAGE_DECODE] = (struct pst_stage_clock){.work_ns = sums->decode_ns,
                                                        .wait_in_ns = stats->worker_read_wait_ns,
                                                        .wait_out_ns = stats->worker_idle_ns,
                                                        .n = n_images,
                                                        .nbytes = stats->nbytes_decoded};
    stages[PST_STAGE_AUGMENT] =
        (struct pst_stage_clock){.work_ns = sums->augment_ns, .n = n_images};
    stages[PST_STAGE_BATCH] = (struct pst_stage_clock){
        .work_ns = sums->batch_ns + (uploads ? 0 : sums->submit_ns), .n = sums->n_rows};
    stages[PST_STAGE_KEEP] = (struct pst_stage_clock){
        .work_ns = sums->keep_ns, .n = stats->n_cache_items, .nbytes = stats->cache_nbytes_used};
    stages[PST_STAGE_UPLOAD] = (struct pst_stage_clock){.work_ns = uploads ? sums->submit_ns : 0,
                                                        .wait_in_ns = loader->upload_wait_ns,
                                                        .n = uploads ? stats->n_batches : 0,
                                                        .nbytes = stats->nbytes_upload};
    if (loader->placement.ops->times)
        loader->placement.ops->times(loader, &stages[PST_STAGE_UPLOAD].link_ns,
                                     &stages[PST_STAGE_UPLOAD].gpu_ns);
    stages[PST_STAGE_HANDOVER] =
        (struct pst_stage_clock){.work_ns = steps->all_cause_ns[PSTI_METER_CAUSE_OTHER],
                                 .wait_out_ns = loader->ready_wait_ns,
                                 .n = stats->n_batches};
    stages[PST_STAGE_CALLER] = (struct pst_stage_clock){.work_ns = steps->all_caller_ns,
                                                        .wait_in_ns = steps->all_wait_ns,
                                                        .wait_out_ns = steps->all_peers_ns,
                                                        .n = steps->all_n};
}

static void fill_queues(const pst_loader *loader, struct pst_loader_meter *meter)
{
    const struct psti_loader_queues *queues = &loader->queues;
    meter->n_rows_reading = loader->n_reading;
    meter->n_rows_ready = loader->n_ready;
    count_batches(loader, &meter->n_batches_running, &meter->n_batches_ready);
    meter->n_asked = queues->n_asked;
    meter->sum_rows_reading = queues->rows_reading;
    meter->sum_rows_ready = queues->rows_ready;
    meter->sum_batches_running = queues->batches_running;
    meter->sum_batches_ready = queues->batches_ready;
}

static void fill(const pst_loader *loader, struct pst_loader_meter *meter)
{
    struct pst_loader_stats stats;
    struct psti_meter_sums sums;
    struct psti_meter_figures epoch, window;
    pst_loader_stats(loader, &stats, sizeof stats);
    pthread_mutex_lock(loader->lock);
    sum(loader, &sums);
    psti_stall_meter_steps_epoch(&loader->steps, &epoch);
    psti_stall_meter_steps_window(&loader->steps, &window);
    meter->epoch = times_of(loader, &sums, &epoch);
    meter->window = times_of(loader, &sums, &window);
    meter->first_wait_ns = loader->steps.first_wait_ns;
    fill_stages(loader, &stats, &sums, meter->stages);
    fill_queues(loader, meter);
    pthread_mutex_unlock(loader->lock);
    double span = (double)window.busy_span_ns * loader->n_workers;
    meter->workers_busy = span > 0 ? (double)window.busy_ns / span : 0;
    meter->workers_busy = meter->workers_busy < 1 ? meter->workers_busy : 1;
    meter->traces = psti_stall_trace_path(loader->trace)[0] != 0;
}

void pst_loader_meter(const pst_loader *loader, struct pst_loader_meter *meter, size_t meter_nbytes)
{
    struct pst_loader_meter all = {0};
    if (!psti_batch_pool_is_forked(loader->pool))
        fill(loader, &all);
    psti_struct_write(meter, meter_nbytes, &all, sizeof all);
}

void pst_loader_worker_clock(const pst_loader *loader, uint32_t i, struct pst_worker_clock *clock,
                             size_t clock_nbytes)
{
    struct pst_worker_clock all = {0};
    if (!psti_batch_pool_is_forked(loader->pool) && i < loader->n_workers) {
        struct psti_meter_sums sums = {0};
        psti_stall_meter_sum(&loader->workers[i].meter, &sums);
        all = (struct pst_worker_clock){.busy_ns = sums.busy_ns,
                                        .wait_in_ns = sums.wait_in_ns + sums.read_ns,
                                        .wait_out_ns = sums.wait_out_ns,
                                        .n_rows = sums.n_rows,
                                        .fetch_ns = sums.fetch_ns,
                                        .decode_ns = sums.decode_ns,
                                        .augment_ns = sums.augment_ns,
                                        .batch_ns = sums.batch_ns,
                                        .keep_ns = sums.keep_ns};
    }
    psti_struct_write(clock, clock_nbytes, &all, sizeof all);
}
