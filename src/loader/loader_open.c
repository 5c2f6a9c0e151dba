/* loader_open.c - opens a loader: divides up its memory and starts its threads. Closes it.
 *
 * host_memory is divided here, once: files in memory, the arena of read buffers, first scratch of
 * each worker, two slots at least (a loop holds one batch while the next is made), and a reserve
 * for rows that need more. The rest makes slots. The reserve lends memory for a row only, except
 * for the fetcher's first scratch. So a row that waits for the reserve always gets all of it. */
#include "loader/loader.h"
#include "loader/loader_arena.h"
#include "loader/loader_counters.h"
#include "loader/loader_files.h"
#include "loader/loader_forms.h"
#include "loader/loader_handle.h"
#include "loader/loader_job.h"
#include "loader/loader_plan.h"
#include "loader/loader_row.h"
#include "loader/loader_run.h"
#include "loader/loader_share.h"
#include "loader/loader_shelf.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "base/thread.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_MAX_NBYTES ((uint64_t)256 << 20)
#define RESERVE_MIN_NBYTES ((uint64_t)8 << 20)
#define RESERVE_MAX_NBYTES ((uint64_t)2 << 30)
#define SLOTS_MIN 2
/* Own memory of rows may take 1 / ROWS_PART of host_memory from the start. */
#define ROWS_PART 8
#define TASKS_MAX 128
/* PST_ORDER_PAGES: the more rows are under way, the more neighbours meet. */
#define TASKS_MAX_PAGES 2048
#define ARENA_MAX_PAGES_NBYTES ((uint64_t)1 << 30)
/* PST_ORDER_PAGES: a gap between two items is read if that takes no longer than a request of its
 * own, which is rate * latency: 200 KB for 100 us at 2 GB/s (a local SSD), 200 KB for 1 ms at 200
 * MB/s (a disk in a network), 1 MB and more for disks that turn. */
#define GAP_NBYTES ((uint64_t)256 << 10)
#define GAP_MIN_NBYTES ((uint64_t)4 << 10)
#define GAP_MAX_NBYTES ((uint64_t)1 << 20)

enum pst_status psti_loader_fail_forked(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_FORKED, "loader",
                     "this loader belongs to the process that opened it: open another one here");
}

/* Opens the order. Pages of a folder are cut from its files by path, which is the same on every
 * machine; where the disk has them decides in which sequence they are read, and nothing else. */
static enum pst_status open_order(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    uint32_t *by_path = NULL;
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
                                       .no_padding = options->no_padding,
                                       .repeats = options->repeats};
    if (options->n_indices && !options->indices)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "n_indices is set but indices is NULL");
    loader->next_ranks = (struct psti_ranks){options->rank, options->world_size};
    loader->ranks = loader->next_ranks;
    enum pst_status status = psti_order_check_ranks(loader->next_ranks, err);
    if (status == PST_OK && options->order == PST_ORDER_PAGES && !options->indices)
        status = psti_dataset_by_path(loader->dataset, &by_path, err);
    order.neighbours = by_path;
    if (status == PST_OK)
        status = psti_order_open(&order, &loader->order, err);
    psti_free(by_path);
    loader->options.indices = NULL; /* the order has copied the caller's array */
    loader->options.weights = NULL;
    return status;
}

/* True if rows are looked up in gatherings: neighbours in the order are neighbours in shards, and
 * each can be read to any address; or they are files of a folder, which are read in the order of
 * the disk. */
static bool gathers(const pst_loader *loader)
{
    const struct pst_loader_options *options = &loader->options;
    return options->order == PST_ORDER_PAGES && options->num_workers > 0 &&
           loader->plan.n_items > 0 && options->storage != PST_STORAGE_MEMORY &&
           (pst_dataset_is_folder(loader->dataset) || options->page_cache != PST_PAGE_CACHE_DIRECT);
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

/* Rows under way where they are not gathered. */
static uint32_t n_tasks_alone(const struct pst_loader_options *options)
{
    uint64_t n = 32 + 2 * (uint64_t)options->num_workers + 2 * (uint64_t)options->io_threads;
    return (uint32_t)(n > TASKS_MAX ? TASKS_MAX : n);
}

static uint32_t n_tasks_wanted(const pst_loader *loader)
{
    const struct pst_loader_options *options = &loader->options;
    uint64_t rows = (uint64_t)options->batch_size * options->prefetch;
    uint64_t n = n_tasks_alone(options);
    if (loader->n_gather) { /* their tables may take a sixteenth of the memory */
        uint64_t task = loader->plan.n_items * sizeof(struct psti_loader_source) +
                        loader->plan.n_reads * sizeof(struct psti_read);
        if (pst_dataset_is_folder(loader->dataset))
            task += loader->plan.n_items * (uint64_t)PSTI_PATH_NBYTES;
        uint64_t most = options->host_memory / 16 / task;
        most = most > TASKS_MAX_PAGES ? TASKS_MAX_PAGES : most;
        n = most > n ? most : n;
    }
    return (uint32_t)(rows < n ? rows : n);
}

/* A gathering takes half of the rows that can be under way, and up to three quarters of them where
 * that spares a short one at the end of a window. */
static void set_gatherings(pst_loader *loader, uint64_t n_rows)
{
    loader->n_gather = n_rows > 1 ? (uint32_t)(n_rows / 2) : 1;
    loader->n_gather_max = n_rows > 3 ? (uint32_t)(n_rows - n_rows / 4) : loader->n_gather;
}

static enum pst_status open_storage(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    struct psti_storage_options storage = {.kind = options->storage,
                                           .page_cache = options->page_cache,
                                           .n_threads = options->io_threads,
                                           .bytes_per_second = options->throttle_bytes_per_second,
                                           .latency_seconds = options->throttle_latency_seconds,
                                           .n_at_once = options->throttle_requests};
    loader->n_gather = gathers(loader);
    loader->n_tasks_alone = n_tasks_alone(options);
    loader->n_tasks = options->num_workers ? n_tasks_wanted(loader) : 0;
    if (loader->n_gather) { /* while the rows of one are prepared, those of the next one are read */
        set_gatherings(loader, loader->n_tasks);
        storage.by_place = pst_dataset_is_folder(loader->dataset);
        storage.gap_nbytes = storage.by_place ? 0 : gap_wanted(options);
    }
    storage.depth = loader->n_tasks * (loader->plan.n_reads ? loader->plan.n_reads : 1);
    if (storage.depth == 0)
        storage.depth = 1;
    if (options->num_workers == 0) {
        storage.n_threads = 0; /* the caller's thread reads */
    }
    return psti_storage_open(&storage, &loader->storage, err);
}

static enum pst_status fail_small(const pst_loader *loader, uint64_t slot, uint64_t item,
                                  uint64_t scratch, uint64_t needed, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_LIMIT, "loader",
                     "host_memory of %" PRIu64 " bytes is too small: a batch takes %" PRIu64
                     " (twice: you hold one while the next is made), the largest sample's stored "
                     "bytes %" PRIu64 " (twice), scratch %" PRIu64 ", files in memory and "
                     "tables %" PRIu64 ": at least %" PRIu64 " are needed",
                     loader->options.host_memory, slot, item, scratch, loader->memory_nbytes,
                     needed);
}

/* Bytes of the notes of which items were checked, a bit for each. 0: no notes are kept. */
static uint64_t verified_nbytes(const pst_loader *loader)
{
    uint64_t n = pst_dataset_count(loader->dataset), bits;
    if (!loader->in_memory || loader->options.no_verify || pst_dataset_is_folder(loader->dataset) ||
        __builtin_mul_overflow(n, (uint64_t)loader->plan.n_items * PST_MAX_VARIANTS, &bits))
        return 0; /* items are checked each time then */
    return bits / 8 + 1;
}

static bool has_own_rows(const struct psti_loader_plan *plan)
{
    bool differ = false;
    for (uint32_t i = 0; i < plan->n_fields; i++)
        differ |= plan->slots[i].may_differ;
    return differ;
}

/* Charges tables that live as long as the loader: subset and weights, tasks, jobs, notes of checked
 * items. They are charged like files in memory. */
static enum pst_status charge_tables(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    const struct psti_loader_plan *plan = &loader->plan;
    uint64_t row = (plan->n_items + 1) * sizeof(struct psti_loader_source) +
                   (plan->n_reads + 1) * sizeof(struct psti_read);
    if (options->fleet)
        row += (plan->n_items + 1) * sizeof(struct psti_loader_request);
    if (pst_dataset_is_folder(loader->dataset))
        row += (plan->n_items + 1) * (uint64_t)PSTI_PATH_NBYTES;
    uint64_t n_rows = options->num_workers ? options->num_workers : 1;
    n_rows += loader->in_memory ? 0 : loader->n_tasks;
    uint64_t job = sizeof(struct psti_loader_job) + options->batch_size * (sizeof(uint64_t) + 1);
    uint64_t nbytes = psti_order_nbytes(loader->order) + n_rows * row + options->prefetch * job +
                      verified_nbytes(loader) + options->n_cache_plan +
                      loader->n_gather_max * (uint64_t)plan->n_items * sizeof *loader->gathered;
    if (!psti_batch_pool_charge(loader->pool, nbytes, true))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory of %" PRIu64 " bytes is too small: tables (subset, weights, "
                         "tasks) take %" PRIu64 ", files in memory %" PRIu64 ": at least %" PRIu64
                         " are needed, and memory for batches besides",
                         options->host_memory, nbytes, loader->memory_nbytes,
                         nbytes + loader->memory_nbytes);
    loader->memory_nbytes += nbytes;
    return PST_OK;
}

/* Opens the trace that the options or the environment ask for. */
static enum pst_status open_trace(pst_loader *loader, struct pst_error *err)
{
    const char *path = loader->options.trace ? loader->options.trace : getenv("PENSTOCK_TRACE");
    loader->options.trace = NULL;
    enum pst_status status =
        psti_stall_trace_open(path, getenv("PENSTOCK_NVTX"), &loader->trace, err);
    if (status != PST_OK || !loader->trace)
        return status;
    if (!psti_batch_pool_charge(loader->pool, PSTI_TRACE_NBYTES, false))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory (%" PRIu64 " bytes) leaves no memory for a trace",
                         loader->options.host_memory);
    loader->memory_nbytes += PSTI_TRACE_NBYTES;
    psti_stall_trace_thread(loader->trace, 0, "caller");
    for (uint32_t i = 0; i < loader->options.num_workers; i++)
        psti_stall_trace_thread(loader->trace, i + 1, "worker");
    return PST_OK;
}

/* Divides host_memory. *arena: bytes of the read buffers' region. */
static enum pst_status divide_memory(pst_loader *loader, uint64_t *arena, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    uint32_t n_workers = options->num_workers ? options->num_workers : 1;
    uint64_t limit = options->host_memory, scratch = PSTI_LOADER_WORKER_NBYTES * n_workers;
    scratch +=
        loader->placement.ops->remakes ? PSTI_LOADER_WORKER_NBYTES : 0; /* for the repair worker */
    uint64_t item = psti_loader_plan_row_nbytes_max(&loader->plan, loader->dataset, loader->storage,
                                                    loader->in_memory);
    uint64_t fixed, needed;
    size_t slot;
    if (!psti_batch_pool_slot_nbytes(loader->pool, options->batch_size, &slot))
        return fail_small(loader, UINT64_MAX, item, scratch, UINT64_MAX, err);
    fixed = SLOTS_MIN * (uint64_t)slot + scratch + loader->memory_nbytes;
    uint64_t least = PSTI_LOADER_WORKER_NBYTES; /* for the fetcher, which may come later */
    uint64_t left = limit > fixed + least ? limit - fixed - least : 0;
    if (item > left / 2 || fixed + least > limit) {
        needed = item > UINT64_MAX / 4 ? UINT64_MAX : fixed + least + 2 * item;
        return fail_small(loader, slot, item, scratch, needed, err);
    }
    left -= 2 * item;
    uint64_t reserve = limit / 4 < RESERVE_MAX_NBYTES ? limit / 4 : RESERVE_MAX_NBYTES;
    reserve = reserve > item + least ? reserve - item - least : 0;
    reserve = reserve < left / 2 ? reserve : left / 2;
    /* Large samples come before more slots, but rows that differ in size need some memory, too. */
    uint64_t room = has_own_rows(&loader->plan) ? left / 2 : left;
    if (reserve < RESERVE_MIN_NBYTES)
        reserve = room < RESERVE_MIN_NBYTES ? room : RESERVE_MIN_NBYTES;
    left -= reserve;
    *arena = item;
    if (options->num_workers && item) {
        uint64_t wanted = loader->n_tasks * item;
        uint64_t most = loader->n_gather ? ARENA_MAX_PAGES_NBYTES : ARENA_MAX_NBYTES;
        most = limit / 4 < most ? limit / 4 : most;
        uint64_t slots = (uint64_t)slot * options->prefetch;
        uint64_t spare = left > slots ? left - slots : 0;
        wanted = wanted < most ? wanted : most;
        wanted = wanted > item ? wanted - item : 0;
        *arena += wanted < spare ? wanted : spare;
    }
    if (!options->num_workers)
        *arena = 0;
    loader->block_nbytes_max = item;
    loader->scratch_max = PSTI_LOADER_GRANT_MIN_NBYTES + reserve / 2;
    psti_batch_pool_set_reserve(loader->pool, item + least + reserve);
    return PST_OK;
}

static enum pst_status open_arena(pst_loader *loader, uint64_t nbytes, struct pst_error *err)
{
    uint32_t n_items = loader->plan.n_items;
    bool folder = pst_dataset_is_folder(loader->dataset);
    if (loader->in_memory || !loader->n_tasks)
        return PST_OK;
    if (!psti_batch_pool_charge(loader->pool, nbytes, true))
        return psti_fail(err, PST_ERROR_LIMIT, "loader", "host_memory is used up");
    enum pst_status status = psti_loader_arena_open(&loader->arena, nbytes,
                                                    psti_storage_buffer_alignment(loader->storage),
                                                    loader->n_tasks, err);
    if (status != PST_OK)
        return status;
    loader->tasks = psti_calloc(loader->n_tasks, sizeof *loader->tasks);
    if (loader->n_gather)
        loader->gathered =
            psti_alloc_array((size_t)loader->n_gather_max * n_items, sizeof *loader->gathered);
    if (!loader->tasks || (loader->n_gather && !loader->gathered))
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for tasks");
    for (uint32_t i = 0; i < loader->n_tasks; i++) {
        struct psti_loader_task *task = &loader->tasks[i];
        task->loader = loader;
        task->sources = psti_calloc(n_items + 1, sizeof *task->sources);
        task->reads = psti_calloc(loader->plan.n_reads + 1, sizeof *task->reads);
        if (loader->options.fleet)
            task->requests = psti_calloc(n_items + 1, sizeof *task->requests);
        if (folder)
            task->paths = psti_alloc_array(n_items + 1, PSTI_PATH_NBYTES);
        if (!task->sources || !task->reads || (folder && !task->paths) ||
            (loader->options.fleet && !task->requests))
            return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for tasks");
        psti_loader_pump_free_task(loader, task);
    }
    return PST_OK;
}

/* Gives slots memory for rows of their own from the start, if the largest possible rows of a batch
 * take little. */
static void bound_rows(pst_loader *loader)
{
    const struct psti_loader_plan *plan = &loader->plan;
    uint64_t n_slots = (uint64_t)loader->options.prefetch + 2, row = 0;
    uint64_t most = loader->options.host_memory / ROWS_PART / n_slots / loader->options.batch_size;
    for (uint32_t i = 0; i < plan->n_fields && row <= most; i++) {
        const struct psti_slot_field *slot = &plan->slots[i];
        if (!slot->may_differ)
            continue;
        if (slot->type == PST_FIELD_IMAGE || slot->type == PST_FIELD_MASK ||
            plan->fields[i].fill == PSTI_LOADER_FILL_SOUND)
            return; /* the operations make rows of unknown size */
        uint64_t nbytes = pst_dataset_max_item_nbytes(loader->dataset, plan->fields[i].i_field);
        row += nbytes <= most ? psti_round_up((size_t)nbytes, PSTI_CACHE_LINE) : nbytes;
    }
    if (row <= most)
        psti_batch_pool_set_rows(loader->pool, (size_t)row * loader->options.batch_size);
}

/* Makes slots for the steady state now. There are two at least, whatever else needs the budget. */
static enum pst_status open_slots(pst_loader *loader, struct pst_error *err)
{
    bound_rows(loader);
    enum pst_status status = psti_batch_pool_make(loader->pool, SLOTS_MIN);
    if (status == PST_OK &&
        psti_batch_pool_make(loader->pool, loader->options.prefetch + 1) == PST_ERROR_MEMORY)
        status = PST_ERROR_MEMORY;
    struct psti_batch_pool_stats stats;
    psti_batch_pool_stats(loader->pool, &stats);
    /* Rows of batches that have no memory yet cannot be gathered. */
    uint64_t rows = (uint64_t)stats.n_slots * loader->options.batch_size;
    if (loader->n_gather && rows < loader->n_tasks)
        set_gatherings(loader, rows);
    if (status == PST_OK) {
        uint32_t wanted = loader->options.prefetch + 1;
        psti_loader_fell_back(loader, PST_FALLBACK_SLOTS,
                              wanted > stats.n_slots ? wanted - stats.n_slots : 0);
        return PST_OK;
    }
    if (loader->placement.ops->refused(loader, &stats, err))
        return status;
    return psti_fail(err, status, "loader", "no memory for %u batches of %u rows",
                     loader->options.prefetch + 1, loader->options.batch_size);
}

static enum pst_status open_jobs(pst_loader *loader, struct pst_error *err)
{
    loader->ring = psti_calloc(loader->options.prefetch, sizeof *loader->ring);
    if (!loader->ring)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for jobs");
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < loader->options.prefetch; i++)
        status = psti_loader_job_open(&loader->ring[i], loader->options.batch_size, err);
    return status;
}

static enum pst_status open_workers(pst_loader *loader, struct pst_error *err)
{
    uint32_t n = loader->options.num_workers;
    loader->n_workers = n ? n : 1;
    loader->workers = psti_calloc(loader->n_workers, sizeof *loader->workers);
    if (!loader->workers)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for %u workers", n);
    enum pst_status status = PST_OK;
    if (loader->placement.ops->remakes)
        status = psti_loader_worker_open(&loader->repairer, loader, err);
    for (uint32_t i = 0; status == PST_OK && i < loader->n_workers; i++)
        status = psti_loader_worker_open(&loader->workers[i], loader, err);
    return status;
}

static enum pst_status start_workers(pst_loader *loader, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < loader->options.num_workers; i++) {
        char name[16];
        snprintf(name, sizeof name, "work-%u", i);
        status = psti_thread_start(&loader->workers[i].thread, name, psti_loader_run_worker,
                                   &loader->workers[i], err);
        loader->n_started += status == PST_OK;
    }
    return status;
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

static enum pst_status open_parts(pst_loader *loader, const struct psti_loader_slots *slots,
                                  struct pst_error *err)
{
    uint64_t arena = 0;
    enum pst_status status = loader->options.share ? psti_loader_share_open(loader, err) : PST_OK;
    loader->options.share = loader->options.socket = loader->options.service = NULL;
    if (status == PST_OK)
        status = open_order(loader, err);
    if (status == PST_OK)
        status = psti_loader_plan_make(loader->dataset, &loader->options, &loader->plan, err);
    loader->options.fields = NULL; /* freed after open */
    if (status == PST_OK)
        status = psti_loader_forms_open(loader, err);
    if (status == PST_OK)
        status = psti_loader_mix_open(loader, err);
    loader->options.mixes = NULL;
    loader->options.mix_field = NULL;
    loader->options.form_shares = NULL; /* the caller's */
    loader->options.form_field = NULL;
    if (status == PST_OK)
        status = psti_loader_cache_choose(loader, err);
    if (status == PST_OK)
        status = psti_loader_cache_take_plan(loader, err);
    loader->options.cache_plan = NULL; /* the caller's */
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
        loader->gate = slots->gate;
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
        loader->options.throttle_latency_seconds > 0; /* the throttle applies to memory, too */
    loader->in_memory = loader->plan.n_items == 0 || (resident && !throttled);
    status = psti_loader_files_open(loader, err);
    if (status == PST_OK)
        status = psti_loader_cache_open(loader, loader->options.cache, err);
    if (status == PST_OK)
        status = charge_tables(loader, err);
    if (status == PST_OK)
        status = open_trace(loader, err);
    if (status == PST_OK)
        status = divide_memory(loader, &arena, err);
    if (status == PST_OK)
        status = open_arena(loader, arena, err);
    if (status == PST_OK)
        status = open_verified(loader, err);
    if (status == PST_OK)
        status = open_workers(loader, err); /* before the slots, which take all the rest */
    if (status == PST_OK)
        status = open_slots(loader, err);
    if (status == PST_OK)
        psti_loader_cache_claim(loader);
    if (status == PST_OK)
        status = psti_loader_fleet_open(loader, loader->options.fleet, err);
    if (status == PST_OK)
        status = open_jobs(loader, err);
    if (status == PST_OK && slots && slots->shelf)
        psti_loader_shelf_join(loader, slots->shelf);
    if (status == PST_OK)
        status = start_workers(loader, err);
    if (status == PST_OK && loader->share)
        psti_loader_share_join(loader);
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
    pthread_mutex_init(&loader->reserve_lock, NULL);
    psti_cond_init(&loader->done);
    psti_cond_init(&loader->runs);
    for (int i = 0; i <= PST_TIER_STORAGE; i++)
        psti_latency_open(&loader->tiers[i]);
    pst_dataset_retain(dataset);
    loader->dataset = dataset;
    loader->placement = psti_placement_host; /* until the options choose another one */
    loader->n_small_pages = psti_alloc_n_small_pages();
    void *fields = NULL; /* this library's copy of options.fields and their operations */
    enum pst_status status = psti_cpu_check_mask(err);
    if (status == PST_OK)
        status = psti_loader_take_options(options, &loader->options, &fields, err);
    if (status == PST_OK)
        status = open_parts(loader, slots, err);
    psti_free(fields);
    if (status == PST_OK) {
        loader->state = (struct pst_loader_state){.seed = loader->options.seed,
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

static void close_threads(pst_loader *loader)
{
    if (!loader->pool)
        return;
    pthread_mutex_lock(loader->lock);
    psti_loader_run_cancel(loader);
    loader->closing = true;
    pthread_cond_broadcast(loader->work);
    pthread_cond_broadcast(&loader->runs);
    pthread_mutex_unlock(loader->lock);
    for (uint32_t i = 0; i < loader->n_started; i++)
        psti_thread_join(loader->workers[i].thread);
}

static void close_tasks(pst_loader *loader)
{
    for (uint32_t i = 0; loader->tasks && i < loader->n_tasks; i++) {
        psti_free(loader->tasks[i].sources);
        psti_free(loader->tasks[i].reads);
        psti_free(loader->tasks[i].requests);
        psti_free(loader->tasks[i].paths);
    }
    psti_free(loader->tasks);
    psti_free(loader->gathered);
    if (loader->pool)
        psti_batch_pool_uncharge(loader->pool, loader->arena.nbytes);
    psti_loader_arena_close(&loader->arena);
}

void pst_loader_close(pst_loader **loader_ptr)
{
    pst_loader *loader = loader_ptr ? *loader_ptr : NULL;
    if (!loader)
        return;
    *loader_ptr = NULL;
    if (loader->pool && psti_batch_pool_is_forked(loader->pool))
        return; /* its threads are not in this process, so nothing may be touched */
    close_threads(loader);
    psti_loader_shelf_leave(loader);
    psti_loader_share_close(loader);
    for (uint32_t i = 0; loader->workers && i < loader->n_workers; i++)
        psti_loader_worker_close(&loader->workers[i]);
    psti_free(loader->workers);
    psti_loader_worker_close(&loader->fetcher);
    psti_loader_worker_close(&loader->repairer);
    psti_loader_job_close(&loader->fetch_job);
    for (uint32_t i = 0; loader->ring && i < loader->options.prefetch; i++)
        psti_loader_job_close(&loader->ring[i]);
    psti_free(loader->ring);
    close_tasks(loader);
    psti_loader_files_close(&loader->files);
    psti_fleet_set_close(&loader->fleet); /* before the cache, which gets what the fleet refuses */
    psti_cache_set_close(&loader->cache);
    psti_loader_host_close(loader);
    psti_storage_close(&loader->storage);
    psti_free(loader->verified);
    psti_free(loader->cache_plan);
    psti_loader_training_close(&loader->training);
    psti_free(loader->quarantine);
    loader->placement.ops->detach(loader);
    psti_loader_plan_clear(&loader->plan);
    psti_order_close(&loader->order);
    if (loader->pool)
        psti_batch_pool_uncharge(loader->pool,
                                 loader->memory_nbytes +
                                     loader->quarantine_cap * sizeof *loader->quarantine);
    psti_batch_pool_close(&loader->pool);
    psti_stall_trace_close(&loader->trace);
    pst_dataset_close(&loader->dataset);
    for (int i = 0; i <= PST_TIER_STORAGE; i++)
        psti_latency_close(&loader->tiers[i]);
    pthread_cond_destroy(&loader->runs);
    pthread_cond_destroy(&loader->done);
    pthread_mutex_destroy(&loader->reserve_lock);
    pthread_mutex_destroy(&loader->files.lock);
    psti_free(loader);
}
