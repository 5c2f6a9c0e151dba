/* loader_stats.c - reads the counters of a loader. Any thread may call at any time. */
#include "loader/loader_fallback.h"
#include "loader/tiers/loader_forms.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_share.h"
#include "loader/tiers/loader_tier.h"
#include "loader/epoch/loader_times.h"

#include "base/clock.h"
#include "base/machine/cpu.h"
#include "base/options.h"

#include <stdio.h>
#include <string.h>

static void fill(const pst_loader *loader, struct pst_loader_stats *stats)
{
    struct psti_storage_stats storage;
    struct psti_batch_pool_stats pool;
    pthread_mutex_lock(loader->lock);
    *stats = loader->meters.stats;
    stats->read_ns += psti_loader_times_reading(loader, psti_clock_ns());
    psti_batch_pool_stats(loader->pool, &pool);
    psti_loader_share_stats(loader, stats);
    psti_loader_forms_stats(loader, stats);
    pthread_mutex_unlock(loader->lock);
    psti_storage_stats(loader->storage, &storage);
    stats->nbytes_read = storage.nbytes_read;
    stats->n_reads = storage.n_reads;
    stats->n_merged_reads = storage.n_merged;
    stats->nbytes_gap = storage.nbytes_gap;
    stats->n_ordered_reads = storage.n_ordered;
    stats->n_fallback_direct = storage.n_fallback_direct;
    stats->host_memory = pool.limit;
    stats->host_memory_used = pool.used;
    stats->host_memory_peak = pool.peak;
    stats->n_slots = pool.n_slots + pool.n_others;
    stats->n_slots_held = pool.n_held + pool.n_others;
    stats->n_workers = loader->options.num_workers;
    stats->device = -1;
    stats->storage = psti_storage_kind_in_use(loader->storage);
    snprintf(stats->storage_reason, sizeof stats->storage_reason, "%s",
             psti_storage_reason(loader->storage));
    snprintf(stats->cpu_level, sizeof stats->cpu_level, "%s",
             psti_cpu_level_name(psti_cpu_features()));
    psti_loader_tiers_stats(loader, stats);
    psti_loader_fallbacks(loader, &storage, stats);
    loader->placement.ops->stats(loader, stats); /* last, because it may replace values set above */
}

void pst_loader_source_rows(const pst_loader *loader, uint64_t *rows, uint32_t n)
{
    bool forked = psti_batch_pool_is_forked(loader->pool);
    uint32_t n_sources = forked ? 0 : pst_dataset_n_sources(loader->dataset);
    memset(rows, 0, n * sizeof *rows);
    if (n_sources == 0 || n == 0)
        return;
    pthread_mutex_lock(loader->lock);
    memcpy(rows, loader->meters.source_rows, (n < n_sources ? n : n_sources) * sizeof *rows);
    pthread_mutex_unlock(loader->lock);
}

void pst_loader_stats(const pst_loader *loader, struct pst_loader_stats *stats, size_t stats_nbytes)
{
    struct pst_loader_stats all = {0};
    if (!psti_batch_pool_is_forked(loader->pool))
        fill(loader, &all);
    psti_struct_write(stats, stats_nbytes, &all, sizeof all);
}
