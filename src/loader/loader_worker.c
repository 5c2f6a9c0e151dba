/* loader_worker.c - opens, grows and closes a worker's decoder and scratch memory, and keeps its
 * counts.
 *
 * Scratch grows to what a worker's images need. It comes from the budget until that is used up,
 * then from the reserve, which one worker uses at a time and gives back after the row. So only the
 * size of an image decides whether it can be decoded, not the load of the moment. Scratch that only
 * makes a decoder faster comes from the budget, never from the reserve. */
#include "loader/loader_worker.h"

#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/codings/codings.h"
#include "dataset/dataset.h"

#include <string.h>

/* Scratch for faster decoding may take 1 / EXTRA_PART of host_memory, for all workers together. */
#define EXTRA_PART 8
#define EXTRA_STEP_NBYTES ((uint64_t)1 << 20)

/* Limits the decoder's scratch to scratch_max at most, the same for every worker. Otherwise an
 * image might decode on one worker and fail on another. */
static void limit_decoder(const struct psti_loader_worker *worker, uint64_t grant)
{
    uint64_t limit = grant + worker->extra, max = worker->loader->scratch_max;
    psti_decode_set_scratch_limit(worker->decoder, limit < max ? limit : max);
}

static enum pst_status open_tools(struct psti_loader_worker *worker, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    memset(&worker->seen, 0, sizeof worker->seen);
    psti_decode_close(&worker->decoder);
    psti_augment_run_close(&worker->run);
    status = psti_decode_open(&worker->decoder, err);
    if (status == PST_OK)
        psti_decode_withhold_codes(worker->decoder);
    if (status == PST_OK && worker->codes_nbytes > 0)
        (void)psti_decode_take_codes(worker->decoder); /* without them it is slower */
    if (status == PST_OK)
        status = psti_augment_run_open(&worker->run, err);
    if (status != PST_OK)
        return status;
    limit_decoder(worker, worker->grant);
    psti_augment_run_set_scratch_limit(worker->run, worker->grant);
    return PST_OK;
}

/* Allocates all charged scratch at once, so memory use does not depend on which images a worker
 * meets first. Pages that no image needs stay untouched. */
static void hold_grant(const struct psti_loader_worker *worker)
{
    uint64_t decoder = worker->grant + worker->extra, max = worker->loader->scratch_max;
    limit_decoder(worker, worker->grant);
    psti_augment_run_set_scratch_limit(worker->run, worker->grant);
    psti_decode_hold(worker->decoder, decoder < max ? decoder : max);
    psti_augment_run_hold(worker->run, worker->grant);
}

static void raise_to(atomic_uint_fast64_t *mark, uint64_t value)
{
    uint64_t now = atomic_load(mark);
    while (now < value && !atomic_compare_exchange_weak(mark, &now, value))
        ;
}

bool psti_loader_worker_lags(const struct psti_loader_worker *worker)
{
    const pst_loader *loader = worker->loader;
    return atomic_load(&loader->crew.grant_max) > worker->seen_grant ||
           atomic_load(&loader->crew.wanted_max) > worker->seen_wanted;
}

/* Raises this worker's scratch to the largest that any worker got. If that exceeds the worker's
 * share of host_memory, the scratch grows at the worker's first large image instead. */
void psti_loader_worker_catch_up(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    uint64_t most = loader->options.host_memory / EXTRA_PART / loader->crew.n;
    uint64_t grant = worker->seen_grant = atomic_load(&loader->crew.grant_max);
    uint64_t wanted = worker->seen_wanted = atomic_load(&loader->crew.wanted_max);
    uint64_t had = worker->grant + worker->extra;
    if (worker->has_reserve || !worker->decoder || !worker->run)
        return;
    if (grant > worker->grant && 2 * grant <= most &&
        psti_batch_pool_charge(loader->pool, 2 * (grant - worker->grant), false))
        worker->grant = grant;
    uint64_t have = worker->grant + worker->extra;
    if (wanted > have && wanted <= most &&
        psti_batch_pool_charge(loader->pool, wanted - have, false))
        worker->extra += wanted - have;
    if (worker->grant + worker->extra > had)
        hold_grant(worker);
}

/* Empties the scratch. Otherwise memory used by earlier images could decide whether this image
 * fits. */
static bool empty_tools(struct psti_loader_worker *worker)
{
    psti_loader_worker_count(worker, 0);
    worker->emptied = open_tools(worker, NULL) == PST_OK;
    return worker->emptied;
}

enum pst_status psti_loader_worker_ready(struct psti_loader_worker *worker, struct pst_error *err)
{
    return worker->decoder && worker->run ? PST_OK : open_tools(worker, err);
}

uint32_t psti_loader_worker_tid(const struct psti_loader_worker *worker)
{
    const pst_loader *loader = worker->loader;
    if (worker == &loader->crew.fetcher || worker == &loader->crew.repairer)
        return loader->crew.n + 1 + (worker == &loader->crew.repairer);
    return loader->options.num_workers ? (uint32_t)(worker - loader->crew.workers) + 1 : 0;
}

/* Returns the bytes of those tools of a worker that have a fixed size. */
static uint64_t objects_nbytes(const pst_loader *loader)
{
    return PSTI_LOADER_DECODER_NBYTES + psti_codings_nbytes(loader->plan.codings);
}

uint64_t psti_loader_worker_nbytes(const pst_loader *loader)
{
    return 2 * PSTI_LOADER_GRANT_MIN_NBYTES + objects_nbytes(loader);
}

enum pst_status psti_loader_worker_open(struct psti_loader_worker *worker, pst_loader *loader,
                                        struct pst_error *err)
{
    const struct psti_loader_plan *plan = &loader->plan;
    *worker = (struct psti_loader_worker){.loader = loader,
                                          .owes = worker == loader->crew.workers &&
                                                  loader->options.num_workers == 0,
                                          .meter = worker->meter,
                                          .has_clocks = worker->has_clocks};
    if (!psti_batch_pool_charge(loader->pool, psti_loader_worker_nbytes(loader), false) &&
        !psti_batch_pool_charge(loader->pool, psti_loader_worker_nbytes(loader), true))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory (%llu bytes) leaves no scratch for another decoder",
                         (unsigned long long)loader->options.host_memory);
    worker->grant = PSTI_LOADER_GRANT_MIN_NBYTES;
    if (!worker->has_clocks)
        psti_stall_meter_thread_init(&worker->meter, loader->meters.trace,
                                     psti_loader_worker_tid(worker));
    worker->has_clocks = true;
    worker->draws = psti_calloc(plan->n_fields + 1, sizeof *worker->draws);
    worker->view_draws = psti_calloc(plan->n_views + 1, sizeof *worker->view_draws);
    bool has_items = psti_loader_items_open(&worker->items, loader);
    if (loader->kept.training)
        worker->pictures = psti_calloc(plan->n_items + 1, sizeof *worker->pictures);
    enum pst_status status = PST_OK;
    if (!worker->draws || !worker->view_draws || !has_items ||
        (loader->kept.training && !worker->pictures))
        status = psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a worker");
    if (status == PST_OK)
        status = open_tools(worker, err);
    if (status == PST_OK && plan->has_coded)
        status = psti_codings_open(&worker->codings, plan->codings, "loader", err);
    if (status == PST_OK)
        hold_grant(worker);
    if (status == PST_OK)
        status = loader->placement.ops->open_worker(worker, err);
    if (status != PST_OK)
        psti_loader_worker_close(worker);
    return status;
}

void psti_loader_worker_close(struct psti_loader_worker *worker)
{
    if (!worker->loader)
        return;
    worker->loader->placement.ops->close_worker(worker);
    psti_decode_close(&worker->decoder);
    psti_augment_run_close(&worker->run);
    psti_sound_run_close(&worker->sound);
    psti_codings_close(&worker->codings);
    psti_free(worker->draws);
    psti_free(worker->view_draws);
    psti_free(worker->picture);
    psti_loader_items_close(&worker->items);
    psti_loader_worker_forget(worker);
    psti_free(worker->pictures);
    psti_free(worker->buffer);
    psti_free(worker->boxes_memory);
    psti_batch_pool_uncharge(worker->loader->pool,
                             objects_nbytes(worker->loader) + 2 * worker->grant + worker->extra +
                                 worker->buffer_nbytes + worker->sound_nbytes +
                                 worker->boxes_nbytes + worker->picture_nbytes +
                                 worker->codes_nbytes);
    *worker = (struct psti_loader_worker){.meter = worker->meter, .has_clocks = worker->has_clocks};
}

bool psti_loader_worker_grow(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    uint64_t limit = 2 * worker->grant, max = loader->scratch_max;
    if (worker->grown || worker->grant >= max)
        return !worker->emptied && empty_tools(worker);
    if (limit > max)
        limit = max;
    if (psti_batch_pool_charge(loader->pool, 2 * (limit - worker->grant), false)) {
        worker->grant = limit;
        raise_to(&loader->crew.grant_max, limit);
        hold_grant(worker);
        return true;
    } else {
        if (!worker->has_reserve) {
            pthread_mutex_lock(&loader->crew.reserve_lock);
            worker->has_reserve = true;
        }
        limit = max;
        uint64_t more = 2 * (max - worker->grant);
        if (!psti_batch_pool_charge(loader->pool, more, true))
            return false;
        worker->reserve_nbytes += more;
        worker->grown = true;
        psti_loader_fell_back(loader, PST_FALLBACK_RESERVE, 1);
        if (!empty_tools(worker))
            return false;
    }
    limit_decoder(worker, limit);
    psti_augment_run_set_scratch_limit(worker->run, limit);
    return true;
}

/* Charges memory for the codes of JPEGs, which may be `most` bytes. */
static void take_codes(struct psti_loader_worker *worker, uint64_t most)
{
    const size_t nbytes = psti_decode_codes_nbytes();
    if (worker->codes_nbytes > 0 || worker->grown || nbytes > most ||
        !psti_batch_pool_charge(worker->loader->pool, nbytes, false))
        return;
    worker->codes_nbytes = nbytes;
    (void)psti_decode_take_codes(worker->decoder); /* without them it is slower */
}

void psti_loader_worker_grow_extra(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    uint64_t most = loader->options.host_memory / EXTRA_PART / loader->crew.n;
    uint64_t have = worker->grant + worker->extra;
    struct psti_decode_stats stats;
    psti_decode_stats(worker->decoder, &stats);
    if (psti_decode_wants_codes(worker->decoder))
        take_codes(worker, most);
    if (worker->grown || stats.scratch_wanted <= have || stats.scratch_wanted > most ||
        stats.scratch_wanted > loader->scratch_max)
        return;
    uint64_t more = stats.scratch_wanted - have;
    more = (more + EXTRA_STEP_NBYTES - 1) / EXTRA_STEP_NBYTES * EXTRA_STEP_NBYTES;
    if (more > loader->scratch_max - have)
        more = loader->scratch_max - have;
    if (!psti_batch_pool_charge(loader->pool, more, false))
        return;
    worker->extra += more;
    raise_to(&loader->crew.wanted_max, worker->grant + worker->extra);
    hold_grant(worker);
}

void psti_loader_worker_settle(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    if (!worker->has_reserve)
        return;
    psti_free(worker->reserve_buffer);
    worker->reserve_buffer = NULL;
    if (worker->grown) {
        psti_loader_worker_count(worker, 0);
        psti_decode_close(&worker->decoder);
        psti_augment_run_close(&worker->run);
    }
    psti_batch_pool_uncharge(loader->pool, worker->reserve_nbytes);
    worker->reserve_nbytes = 0;
    worker->grown = false;
    worker->has_reserve = false;
    pthread_mutex_unlock(&loader->crew.reserve_lock);
}

void psti_loader_worker_count(struct psti_loader_worker *worker, int64_t start_ns)
{
    struct psti_decode_stats now;
    if (start_ns)
        worker->decode_ns += (uint64_t)(psti_clock_ns() - start_ns);
    if (!worker->decoder)
        return;
    psti_decode_stats(worker->decoder, &now);
    worker->nbytes_decoded += now.nbytes_out - worker->seen.nbytes_out;
    worker->n_region_fallback += now.n_region_fallback - worker->seen.n_region_fallback;
    worker->n_libpng += now.n_libpng - worker->seen.n_libpng;
    worker->n_libjpeg += now.n_libjpeg - worker->seen.n_libjpeg;
    worker->n_units += now.n_units - worker->seen.n_units;
    worker->n_units_whole += now.n_units_whole - worker->seen.n_units_whole;
    worker->seen = now;
}

void psti_loader_worker_read_here(struct psti_loader_worker *worker, int64_t start_ns,
                                  bool within_row)
{
    uint64_t ns = (uint64_t)(psti_clock_ns() - start_ns);
    worker->read_here_ns += ns;
    worker->decode_ns -= within_row ? ns : 0; /* may be negative until the whole row is counted */
}

void psti_loader_worker_merge(struct psti_loader_worker *worker)
{
    struct pst_loader_stats *stats = &worker->loader->meters.stats;
    const struct psti_placed *placed = &worker->placed;
    stats->read_ns += worker->read_here_ns;
    stats->worker_read_wait_ns += worker->read_here_ns;
    psti_stall_meter_add(&worker->meter.read_ns, worker->read_here_ns);
    worker->read_here_ns = 0;
    stats->decode_ns += worker->decode_ns;
    psti_stall_meter_add(&worker->meter.busy_ns, worker->decode_ns);
    stats->nbytes_decoded += worker->nbytes_decoded;
    stats->n_fallback_region += worker->n_region_fallback;
    psti_loader_fell_back(worker->loader, PST_FALLBACK_LIBPNG, worker->n_libpng);
    psti_loader_fell_back(worker->loader, PST_FALLBACK_LIBJPEG, worker->n_libjpeg);
    stats->n_units_decoded += worker->n_units;
    stats->n_units_whole += worker->n_units_whole;
    stats->n_partial_reads += worker->n_partial;
    stats->n_scaled += worker->n_scaled;
    stats->n_boxes_dropped += worker->n_boxes_dropped;
    stats->n_unchecked += worker->n_unchecked;
    stats->n_cpu_samples += worker->n_cpu;
    stats->n_gpu_samples += placed->n_gpu;
    stats->n_gpu_fallback += placed->n_gpu_fallback;
    stats->n_gpu_again += placed->n_gpu_again;
    stats->nbytes_upload += placed->nbytes_upload;
    if (placed->n_gpu_fallback)
        memcpy(stats->gpu_fallback_reason, placed->gpu_reason, sizeof placed->gpu_reason);
    worker->placed = (struct psti_placed){0};
    worker->n_cpu = worker->decode_ns = worker->nbytes_decoded = worker->n_region_fallback = 0;
    worker->n_units = worker->n_units_whole = worker->n_partial = worker->n_scaled = 0;
    worker->n_libpng = worker->n_libjpeg = worker->n_boxes_dropped = worker->n_unchecked = 0;
}

enum pst_status psti_loader_worker_run_read(struct psti_loader_worker *worker,
                                            struct psti_read *read)
{
    struct psti_storage *storage = worker->loader->storage;
    struct psti_latency *tier = &worker->loader->tiers.latency[PST_TIER_STORAGE];
    int64_t start = psti_clock_ns(), owed = worker->owed_ns;
    psti_latency_begin(tier, 1);
    enum pst_status status = worker->owes ? psti_storage_read_owing(storage, read, &worker->owed_ns)
                                          : psti_storage_read(storage, read);
    psti_latency_end(tier, status == PST_OK, read->nbytes,
                     psti_clock_ns() - start + worker->owed_ns - owed);
    return status;
}

void psti_loader_worker_forget(struct psti_loader_worker *worker)
{
    for (uint32_t i = 0; worker->pictures && i < worker->loader->plan.n_items; i++)
        psti_buffer_free(&worker->pictures[i]);
}

bool psti_loader_worker_begin_row(struct psti_loader_worker *worker, const pst_batch *batch,
                                  uint64_t sample)
{
    uint64_t epoch, step;
    pst_batch_place(batch, &epoch, &step);
    return psti_stall_meter_row_begins(&worker->meter, sample, step);
}
