/* loader_open.c - opens and closes a loader, with its order, plan, storage and caches. The parts
 * that depend on the batch size are made by loader_shape.c. */
#include "loader/loader.h"
#include "loader/tiers/loader_cache_choice.h"
#include "loader/tiers/loader_files.h"
#include "loader/tiers/loader_forms.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_behind.h"
#include "loader/epoch/loader_job.h"
#include "loader/loader_options.h"
#include "loader/loader_plan.h"
#include "loader/rows/loader_row.h"
#include "loader/loader_shape.h"
#include "loader/loader_sources.h"
#include "loader/epoch/loader_share.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/machine/cpu.h"
#include "base/fail.h"
#include "base/thread.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PST_ORDER_PAGES: largest gap between two items that is read along with them. Reading a gap pays
 * if it takes no longer than a separate request, so the limit is rate * latency: 200 KB for 100 us
 * at 2 GB/s (a local SSD), 200 KB for 1 ms at 200 MB/s (network storage), 1 MB and more for hard
 * disks. */
#define GAP_NBYTES ((uint64_t)256 << 10)
#define GAP_MIN_NBYTES ((uint64_t)4 << 10)
#define GAP_MAX_NBYTES ((uint64_t)1 << 20)

/* Opens the order. The pages of a folder are formed from its files sorted by path, because that is
 * the same on every machine. Where files lie on the disk decides only in which sequence they are
 * read. */
static enum pst_status open_order(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    uint32_t *by_path = NULL;
    uint64_t *firsts = NULL;
    struct psti_order_mix mix;
    struct psti_order_options order = {.kind = options->order,
                                       .seed = options->seed,
                                       .n_samples = pst_dataset_count(loader->dataset),
                                       .indices = options->indices,
                                       .n_indices = options->n_indices,
                                       .weights = options->weights,
                                       .page_samples = options->page_samples,
                                       .window_pages = options->window_pages,
                                       .batch_size = options->batch_size,
                                       .drop_last = options->drop_last,
                                       .no_epoch_padding = options->no_epoch_padding,
                                       .repeats = options->repeats};
    if (options->n_indices && !options->indices)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "n_indices is set but indices is NULL");
    loader->epoch.next_ranks = (struct psti_ranks){options->rank, options->world_size};
    loader->epoch.ranks = loader->epoch.next_ranks;
    enum pst_status status = psti_order_check_ranks(loader->epoch.next_ranks, err);
    if (status == PST_OK && options->order == PST_ORDER_PAGES && !options->indices)
        status = psti_dataset_by_path(loader->dataset, &by_path, err);
    order.neighbours = by_path;
    if (status == PST_OK)
        status = psti_loader_sources_read(loader, &mix, &firsts, err);
    if (status == PST_OK && mix.n_sources > 0)
        order.mix = &mix;
    if (status == PST_OK)
        status = psti_order_open(&order, &loader->order, err);
    psti_free(firsts);
    psti_free(by_path);
    loader->options.indices = NULL; /* the order has copied the caller's arrays */
    loader->options.weights = loader->options.source_weights = NULL;
    loader->options.source_firsts = NULL;
    return status;
}

static uint64_t gap_wanted(const struct pst_loader_options *options)
{
    double rate = options->throttle_bytes_per_second, latency = options->throttle_latency_seconds;
    if (rate == 0 && latency == 0)
        return GAP_NBYTES;
    double gap = rate > 0 ? rate * latency : (double)GAP_MAX_NBYTES;
    return gap < (double)GAP_MIN_NBYTES   ? GAP_MIN_NBYTES
           : gap > (double)GAP_MAX_NBYTES ? GAP_MAX_NBYTES
                                          : (uint64_t)gap;
}

static enum pst_status open_storage(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    struct psti_storage_options storage = {.kind = options->storage,
                                           .page_cache = options->page_cache,
                                           .n_threads = options->io_threads,
                                           .bytes_per_second = options->throttle_bytes_per_second,
                                           .latency_seconds = options->throttle_latency_seconds,
                                           .n_at_once = options->throttle_requests,
                                           .scattered = options->order != PST_ORDER_SEQUENTIAL};
    if (psti_loader_shape_gathers(loader)) {
        storage.by_place = psti_dataset_has_lone_files(loader->dataset);
        if (psti_dataset_n_shared_files(loader->dataset) > 0)
            storage.gap_nbytes = gap_wanted(options);
    }
    storage.depth =
        psti_loader_shape_tasks_max(loader) * (loader->plan.n_reads ? loader->plan.n_reads : 1);
    if (storage.depth == 0)
        storage.depth = 1;
    if (options->num_workers == 0) {
        storage.n_threads = 0; /* no I/O threads, because the caller's thread reads */
    }
    return psti_storage_open(&storage, &loader->storage, err);
}

/* Returns the bytes of the table of verified items, which has a bit for each item. 0: no table is
 * kept. */
static uint64_t verified_nbytes(const pst_loader *loader)
{
    uint64_t n = pst_dataset_count(loader->dataset), bits;
    if (!loader->in_memory || loader->options.no_verify ||
        !pst_dataset_is_packed(loader->dataset) ||
        __builtin_mul_overflow(n, (uint64_t)loader->plan.n_items * PST_MAX_VARIANTS, &bits))
        return 0; /* without the table, items are verified at each use */
    return bits / 8 + 1;
}

/* Charges host_memory for tables that live as long as the loader: subset and weights, verified
 * items, and the cache plan. */
static enum pst_status charge_tables(pst_loader *loader, struct pst_error *err)
{
    return psti_loader_charge_tables(loader,
                                     psti_order_nbytes(loader->order) + verified_nbytes(loader) +
                                         loader->options.n_cache_plan,
                                     err);
}

/* Opens the trace file that the options or the environment name, if any. */
static enum pst_status open_trace(pst_loader *loader, struct pst_error *err)
{
    const char *path = loader->options.trace ? loader->options.trace : getenv("PENSTOCK_TRACE");
    loader->options.trace = NULL;
    enum pst_status status =
        psti_stall_trace_open(path, getenv("PENSTOCK_NVTX"), &loader->meters.trace, err);
    if (status != PST_OK || !loader->meters.trace)
        return status;
    if (!psti_batch_pool_charge(loader->pool, PSTI_TRACE_NBYTES, false))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory (%" PRIu64 " bytes) leaves no memory for a trace",
                         loader->options.host_memory);
    loader->memory_nbytes += PSTI_TRACE_NBYTES;
    psti_stall_trace_thread(loader->meters.trace, 0, "caller");
    for (uint32_t i = 0; i < loader->options.num_workers; i++)
        psti_stall_trace_thread(loader->meters.trace, i + 1, "worker");
    return PST_OK;
}

static enum pst_status open_verified(pst_loader *loader, struct pst_error *err)
{
    uint64_t nbytes = verified_nbytes(loader);
    if (nbytes == 0)
        return PST_OK;
    loader->verified = psti_calloc(nbytes, sizeof *loader->verified);
    return loader->verified ? PST_OK
                            : psti_fail(err, PST_ERROR_MEMORY, "loader",
                                        "no memory to note which items were checked");
}

/* Allocates the counters of delivered rows for each source of a mixture. */
static enum pst_status open_source_rows(pst_loader *loader, struct pst_error *err)
{
    uint32_t n = pst_dataset_n_sources(loader->dataset);
    if (n == 0)
        return PST_OK;
    loader->meters.source_rows = psti_calloc(n, sizeof *loader->meters.source_rows);
    return loader->meters.source_rows
               ? PST_OK
               : psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for counts of sources");
}

static enum pst_status open_parts(pst_loader *loader, const struct psti_loader_slots *slots,
                                  struct pst_error *err)
{
    enum pst_status status = open_source_rows(loader, err);
    if (status == PST_OK && loader->options.share)
        status = psti_loader_share_open(loader, err);
    loader->options.share = loader->options.socket = loader->options.service = NULL;
    if (status == PST_OK)
        status = open_order(loader, err);
    if (status == PST_OK)
        status = psti_loader_plan_make(loader->dataset, &loader->options, &loader->plan, err);
    loader->options.fields = NULL; /* loader->fields holds them */
    if (status == PST_OK)
        status = psti_loader_forms_open(loader, err);
    if (status == PST_OK)
        status = psti_loader_mix_open(loader, err);
    loader->options.mixes = NULL;
    loader->options.mix_field = NULL;
    loader->options.form_parts = NULL; /* the caller's array must not be used after open */
    loader->options.form_field = NULL;
    if (status == PST_OK)
        status = psti_loader_cache_choose(loader, err);
    if (status == PST_OK)
        status = psti_loader_cache_take_plan(loader, err);
    loader->options.cache_plan = NULL; /* the caller's array must not be used after open */
    if (status == PST_OK)
        status = psti_batch_pool_open(loader->plan.slots, loader->plan.n_fields,
                                      loader->options.batch_size, loader->options.host_memory,
                                      &loader->pool, err);
    if (status != PST_OK)
        return status;
    loader->lock = psti_batch_pool_lock(loader->pool);
    loader->work = psti_batch_pool_changed(loader->pool);
    if (slots) {
        psti_batch_pool_set_alignment(loader->pool, slots->alignment);
        psti_batch_pool_set_host(loader->pool, &slots->host);
        loader->crew.gate = slots->gate;
        loader->epoch.is_led = true;
    }
    status = psti_loader_placement_open(loader, err);
    if (status == PST_OK && loader->share)
        status = psti_loader_share_set_slots(loader, err);
    if (status == PST_OK)
        status = open_storage(loader, err);
    if (status != PST_OK)
        return status;
    bool resident = psti_storage_kind_in_use(loader->storage) == PST_STORAGE_MEMORY;
    bool throttled =
        loader->options.throttle_bytes_per_second > 0 ||
        loader->options.throttle_latency_seconds > 0; /* a throttle delays files in memory, too */
    loader->in_memory = loader->plan.n_items == 0 || (resident && !throttled);
    status = psti_loader_files_open(loader, err);
    if (status == PST_OK)
        status = charge_tables(loader, err);
    if (status == PST_OK)
        status = open_trace(loader, err);
    if (status == PST_OK)
        status = open_verified(loader, err);
    if (status == PST_OK)
        status = psti_loader_shape_open(loader, err);
    if (status == PST_OK)
        status = psti_loader_tiers_open(loader, slots, err);
    if (status == PST_OK)
        status = psti_loader_shape_start(loader, err);
    if (status == PST_OK && loader->share)
        status = psti_loader_share_join(loader, err);
    return status;
}

enum pst_status pst_loader_open(pst_dataset *dataset, const struct pst_loader_options *options,
                                pst_loader **out, struct pst_error *err)
{
    return psti_loader_open_in(dataset, options, NULL, out, err);
}

uint32_t psti_loader_slot_fields(const pst_loader *loader, const struct psti_slot_field **fields)
{
    *fields = loader->plan.slots;
    return loader->plan.n_fields;
}

bool psti_loader_slot_place(const pst_loader *loader, uint32_t i_field, size_t *offset,
                            size_t *row_nbytes)
{
    return psti_batch_pool_place_of(loader->pool, i_field, offset, row_nbytes) &&
           !loader->plan.slots[i_field].may_differ;
}

void pst_loader_set_interrupt(pst_loader *loader, pst_interrupt_fn interrupt, void *ctx)
{
    loader->interrupt = interrupt;
    loader->interrupt_ctx = ctx;
}

enum pst_status psti_loader_open_in(pst_dataset *dataset, const struct pst_loader_options *options,
                                    const struct psti_loader_slots *slots, pst_loader **out,
                                    struct pst_error *err)
{
    if (!out || !dataset)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "dataset or out is NULL");
    *out = NULL;
    pst_loader *loader = psti_calloc(1, sizeof *loader);
    if (!loader)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a loader");
    pthread_mutex_init(&loader->files.lock, NULL);
    pthread_mutex_init(&loader->crew.reserve_lock, NULL);
    psti_cond_init(&loader->done);
    psti_cond_init(&loader->runs);
    for (int i = 0; i <= PST_TIER_STORAGE; i++)
        psti_latency_open(&loader->tiers.latency[i]);
    pst_dataset_retain(dataset);
    loader->dataset = dataset;
    loader->placement = psti_placement_host; /* the default until the options choose another
                                                placement */
    loader->meters.n_small_pages = psti_alloc_n_small_pages();
    void *fields = NULL;
    enum pst_status status = psti_cpu_check_mask(err);
    if (status == PST_OK)
        status = psti_loader_take_options(options, &loader->options, &fields, err);
    loader->fields = fields;
    pst_loader_set_interrupt(loader, loader->options.interrupt, loader->options.interrupt_ctx);
    if (status == PST_OK)
        status = open_parts(loader, slots, err);
    pst_loader_set_interrupt(loader, NULL, NULL);
    if (status == PST_OK) {
        loader->epoch.state =
            (struct pst_loader_state){.seed = loader->options.seed,
                                      .n_samples = psti_order_n(loader->order),
                                      .order_version = PSTI_ORDER_VERSION,
                                      .order_hash = psti_order_hash(loader->order),
                                      .augment_version = PSTI_AUGMENT_VERSION};
        *out = loader;
        return PST_OK;
    }
    if (err && !err->dataset[0])
        psti_error_set_dataset(err, pst_dataset_path(dataset));
    pst_loader_close(&loader);
    return status;
}

void pst_loader_close(pst_loader **loader_ptr)
{
    pst_loader *loader = loader_ptr ? *loader_ptr : NULL;
    if (!loader)
        return;
    *loader_ptr = NULL;
    if (loader->pool && psti_batch_pool_is_forked(loader->pool))
        return; /* a forked child lacks the loader's threads, so it must not touch anything */
    psti_loader_shape_stop(loader);
    psti_loader_share_close(loader);
    psti_loader_shape_close(loader);
    psti_free(loader->crew.workers);
    psti_loader_files_close(&loader->files);
    psti_loader_tiers_close(loader);
    psti_storage_close(&loader->storage);
    psti_free(loader->verified);
    psti_free(loader->meters.source_rows);
    psti_free(loader->kept.plan);
    psti_loader_training_close(&loader->kept.training);
    psti_free(loader->quarantine.list);
    psti_free(loader->fields);
    loader->placement.ops->detach(loader->placement.own, &loader->plan);
    psti_loader_plan_clear(&loader->plan);
    psti_loader_behind_close(loader);
    psti_order_close(&loader->order);
    if (loader->pool)
        psti_batch_pool_uncharge(loader->pool,
                                 loader->memory_nbytes +
                                     loader->quarantine.capacity * sizeof *loader->quarantine.list);
    psti_batch_pool_close(&loader->pool);
    psti_stall_trace_close(&loader->meters.trace);
    pst_dataset_close(&loader->dataset);
    for (int i = 0; i <= PST_TIER_STORAGE; i++)
        psti_latency_close(&loader->tiers.latency[i]);
    pthread_cond_destroy(&loader->runs);
    pthread_cond_destroy(&loader->done);
    pthread_mutex_destroy(&loader->crew.reserve_lock);
    pthread_mutex_destroy(&loader->files.lock);
    psti_free(loader);
}
