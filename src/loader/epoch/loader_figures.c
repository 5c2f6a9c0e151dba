/* loader_figures.c - the figures that pst_loader_meter and pst_loader_worker_clock return. Any
 * thread may ask at any time.
 *
 * In: sums of time from loader_meter.c, loader_times.c and the workers, and the counters of
 * pst_loader_stats. Out: times of steps, and clocks of stages and workers. */
#include "loader/loader_handle.h"
#include "loader/epoch/loader_meter.h"

#include "base/options.h"

#include <penstock/meter.h>

#define N_STAGES (PST_STAGE_CALLER + 1)

const char *pst_stage_name(uint32_t i)
{
    static const char *const names[N_STAGES] = {"fetch", "decode", "augment",  "batch",
                                                "keep",  "upload", "handover", "caller"};
    return i < N_STAGES ? names[i] : NULL;
}

static uint64_t since(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

/* Attributes the caller's waiting time, given by cause, to stages. Waiting for rows is split in the
 * ratio in which the workers spent their time on their stages in this epoch. */
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
    stages[PST_STAGE_DECODE] += left; /* what rounding left; all of the time if no row is done
                                         yet */
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
    divide(sums, &loader->meters.epoch_sums, figures->cause_ns, times.cause_ns);
    return times;
}

static void fill_stages(const pst_loader *loader, const struct pst_loader_stats *stats,
                        const struct psti_meter_sums *sums, struct pst_stage_clock *stages)
{
    const struct psti_meter_steps *steps = &loader->meters.steps;
    bool uploads = loader->options.placement == PST_PLACEMENT_DEVICE;
    uint64_t n_images = stats->n_cpu_samples + stats->n_gpu_samples;
    stages[PST_STAGE_FETCH] =
        (struct pst_stage_clock){.work_ns = sums->fetch_ns + loader->meters.pump_ns,
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
                                                        .wait_in_ns = loader->meters.upload_wait_ns,
                                                        .n = uploads ? stats->n_batches : 0,
                                                        .nbytes = stats->nbytes_upload};
    if (loader->placement.ops->times)
        loader->placement.ops->times(loader, &stages[PST_STAGE_UPLOAD].link_ns,
                                     &stages[PST_STAGE_UPLOAD].gpu_ns);
    stages[PST_STAGE_HANDOVER] =
        (struct pst_stage_clock){.work_ns = steps->all_cause_ns[PSTI_METER_CAUSE_OTHER],
                                 .wait_out_ns = loader->meters.ready_wait_ns,
                                 .n = stats->n_batches};
    stages[PST_STAGE_CALLER] = (struct pst_stage_clock){.work_ns = steps->all_caller_ns,
                                                        .wait_in_ns = steps->all_wait_ns,
                                                        .wait_out_ns = steps->all_peers_ns,
                                                        .n = steps->all_n};
}

static void fill_queues(const pst_loader *loader, struct pst_loader_meter *meter)
{
    const struct psti_loader_queues *queues = &loader->meters.lengths;
    meter->n_rows_reading = loader->queue.n_reading;
    meter->n_rows_ready = loader->queue.n_ready;
    psti_loader_meter_count_batches(loader, &meter->n_batches_running, &meter->n_batches_ready);
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
    psti_loader_meter_sum(loader, &sums);
    psti_stall_meter_steps_epoch(&loader->meters.steps, &epoch);
    psti_stall_meter_steps_window(&loader->meters.steps, &window);
    meter->epoch = times_of(loader, &sums, &epoch);
    meter->window = times_of(loader, &sums, &window);
    meter->first_wait_ns = loader->meters.steps.first_wait_ns;
    fill_stages(loader, &stats, &sums, meter->stages);
    fill_queues(loader, meter);
    pthread_mutex_unlock(loader->lock);
    double span = (double)window.busy_span_ns * loader->crew.n;
    meter->workers_busy = span > 0 ? (double)window.busy_ns / span : 0;
    meter->workers_busy = meter->workers_busy < 1 ? meter->workers_busy : 1;
    meter->traces = psti_stall_trace_path(loader->meters.trace)[0] != 0;
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
    if (!psti_batch_pool_is_forked(loader->pool) && i < loader->crew.n) {
        struct psti_meter_sums sums = {0};
        psti_stall_meter_sum(&loader->crew.workers[i].meter, &sums);
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
