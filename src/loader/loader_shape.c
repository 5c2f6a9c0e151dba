/* loader_shape.c - what a loader has for batches of one size: its memory, divided up, and its
 * threads. It is made when a loader is opened, and anew for each pst_loader_set.
 *
 * host_memory is divided here: files in memory, the arena of read buffers, first scratch of each
 * worker, for mosaics one workspace at least, two slots at least (a loop holds one batch while the
 * next is made), and a reserve for rows that need more. The rest makes slots. The reserve lends
 * memory for a row only, except for the fetcher's first scratch. So a row that waits for the
 * reserve always gets all of it. */
#include "loader/loader_shape.h"
#include "loader/epoch/loader_arena.h"
#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/loader_plan.h"
#include "loader/epoch/loader_pump.h"
#include "loader/rows/loader_row.h"
#include "loader/epoch/loader_run.h"
#include "loader/epoch/loader_workspaces.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/thread.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ARENA_MAX_NBYTES ((uint64_t)256 << 20)
/* When a loader begins, rows under way may take so many bytes of read buffers. So few bytes stay in
 * a core's cache. */
#define AHEAD_NBYTES ((size_t)1 << 20)
#define RESERVE_MIN_NBYTES ((uint64_t)8 << 20)
#define RESERVE_MAX_NBYTES ((uint64_t)2 << 30)
#define SLOTS_MIN 2
/* Memory for rows that may differ in size takes at most 1 / ROWS_PART of host_memory from the
 * start. */
#define ROWS_PART 8
#define TASKS_MAX 128
/* PST_ORDER_PAGES: rows under way where rows are gathered: two of the order's windows, so that one
 * is read while the other one is prepared, but not fewer than TASKS_PAGES, because several small
 * windows are read at a time, and not more than TASKS_MAX_PAGES. */
#define TASKS_PAGES 2048
#define TASKS_MAX_PAGES 4096
/* With PST_ORDER_PAGES: the largest number of jobs that are under way before their batches have
 * slots. */
#define JOBS_AHEAD_MAX 1024
/* With PST_ORDER_PAGES: tables of rows, and tables of jobs, that are under way besides those of the
 * batches of `prefetch` take at most 1 / TABLES_PART of host_memory each. */
#define TABLES_PART 16
/* The largest possible rows of a batch that are carried to a GPU have memory there from the start,
 * if it is at most 1 / CARRIED_PART of device_memory. */
#define CARRIED_PART 16
#define ARENA_MAX_PAGES_NBYTES ((uint64_t)1 << 30)

bool psti_loader_shape_gathers(const pst_loader *loader)
{
    const struct pst_loader_options *options = &loader->options;
    return options->order == PST_ORDER_PAGES && options->num_workers > 0 &&
           loader->plan.n_items > 0 && options->storage != PST_STORAGE_MEMORY &&
           (psti_dataset_has_lone_files(loader->dataset) ||
            options->page_cache != PST_PAGE_CACHE_DIRECT);
}

/* Returns the number of rows under way while rows are not gathered. */
static uint32_t n_tasks_alone(const struct pst_loader_options *options)
{
    uint64_t n = 32 + 2 * (uint64_t)options->num_workers + 2 * (uint64_t)options->io_threads;
    return (uint32_t)(n > TASKS_MAX ? TASKS_MAX : n);
}

/* Returns the bytes of the tables of a row under way. */
static uint64_t task_nbytes(const pst_loader *loader)
{
    const struct psti_loader_plan *plan = &loader->plan;
    uint64_t nbytes = (plan->n_items + 1) * sizeof(struct psti_loader_source) +
                      (plan->n_reads + 1) * sizeof(struct psti_read);
    if (psti_dataset_has_lone_files(loader->dataset))
        nbytes += (plan->n_items + 1) * (uint64_t)PSTI_PATH_NBYTES;
    return nbytes;
}

/* Returns the number of rows under way while rows are gathered. The tables of those beyond n_alone
 * take at most `nbytes`. */
static uint64_t n_tasks_gathered(const pst_loader *loader, uint64_t n_alone, uint64_t nbytes)
{
    uint64_t wanted = 2 * psti_order_window_max(loader->order);
    uint64_t each = task_nbytes(loader) + loader->plan.n_items * sizeof *loader->gather.reads;
    uint64_t most = n_alone + nbytes / each;
    wanted = wanted < TASKS_PAGES       ? TASKS_PAGES
             : wanted > TASKS_MAX_PAGES ? TASKS_MAX_PAGES
                                        : wanted;
    return wanted < most ? wanted : most;
}

uint32_t psti_loader_shape_tasks_max(const pst_loader *loader)
{
    const struct pst_loader_options *options = &loader->options;
    uint64_t n = n_tasks_alone(options), gathered = 0;
    if (options->num_workers == 0)
        return 0;
    if (psti_loader_shape_gathers(loader))
        gathered = n_tasks_gathered(loader, n, options->host_memory / TABLES_PART);
    return (uint32_t)(gathered > n ? gathered : n);
}

/* Sets the size of a gathering: half of the rows that can be under way. It may be up to three
 * quarters, where that avoids a short gathering at the end of a window. */
static void set_gatherings(pst_loader *loader, uint64_t n_rows)
{
    loader->gather.n_rows = n_rows > 1 ? (uint32_t)(n_rows / 2) : 1;
    loader->gather.n_rows_max =
        n_rows > 3 ? (uint32_t)(n_rows - n_rows / 4) : loader->gather.n_rows;
}

/* Returns the bytes of a job's tables. */
static uint64_t job_nbytes(const pst_loader *loader)
{
    return sizeof(struct psti_loader_job) + loader->options.batch_size * (sizeof(uint64_t) + 1);
}

/* Returns the bytes of the tables of tasks and jobs. */
static uint64_t tables_nbytes(const pst_loader *loader)
{
    uint64_t n_rows = loader->options.num_workers ? loader->options.num_workers : 1;
    n_rows += loader->in_memory ? 0 : loader->queue.n_tasks;
    return n_rows * task_nbytes(loader) + loader->queue.n_jobs * job_nbytes(loader) +
           loader->gather.n_rows_max * (uint64_t)loader->plan.n_items *
               sizeof *loader->gather.reads;
}

/* Decides how many rows and jobs may be under way where rows are gathered. While the rows of one
 * gathering are prepared, the rows of the next are read. Jobs beyond `prefetch` have no slots:
 * their rows are only read. spare: bytes of host_memory that nothing needs; at most half of it
 * becomes tables of more rows and jobs. */
static void set_gathered(pst_loader *loader, uint64_t spare)
{
    const struct pst_loader_options *options = &loader->options;
    uint64_t rows = (uint64_t)options->batch_size * options->prefetch;
    uint64_t part = options->host_memory / TABLES_PART;
    part = part < spare / 4 ? part : spare / 4;
    uint64_t n_rows = n_tasks_gathered(loader, loader->queue.n_tasks, part);
    /* Each file of a folder is a request in any order: with more of them in a gathering, only the
     * first batch comes later. */
    if (psti_dataset_n_shared_files(loader->dataset) == 0 && n_rows > rows)
        n_rows = rows;
    uint64_t n_jobs = n_rows / options->batch_size + 1, most = part / job_nbytes(loader);
    most = most < JOBS_AHEAD_MAX ? most : JOBS_AHEAD_MAX;
    n_jobs = n_jobs < most ? n_jobs : most;
    rows += n_jobs * options->batch_size;
    n_rows = n_rows < rows ? n_rows : rows;
    if (n_rows > loader->queue.n_tasks)
        loader->queue.n_tasks = (uint32_t)n_rows;
    loader->queue.n_jobs += (uint32_t)n_jobs;
    set_gatherings(loader, loader->queue.n_tasks);
}

/* Decides how many rows and jobs may be under way. spare: bytes of host_memory that nothing but
 * tables needs. */
static void set_tasks(pst_loader *loader, uint64_t spare)
{
    const struct pst_loader_options *options = &loader->options;
    uint64_t rows = (uint64_t)options->batch_size * options->prefetch;
    uint32_t most = options->num_workers ? n_tasks_alone(options) : 0;
    loader->queue.n_tasks = rows < most ? (uint32_t)rows : most;
    loader->queue.n_jobs = options->prefetch;
    loader->gather.n_tasks_alone = n_tasks_alone(options);
    loader->gather.n_rows = loader->gather.n_rows_max = 0;
    if (!psti_loader_shape_gathers(loader))
        return;
    set_gatherings(loader, loader->queue.n_tasks);
    uint64_t least = tables_nbytes(loader);
    set_gathered(loader, spare > least ? spare - least : 0);
}

static enum pst_status fail_small(const pst_loader *loader, uint64_t slot, uint64_t item,
                                  uint64_t scratch, uint64_t needed, struct pst_error *err)
{
    size_t block;
    uint64_t space = psti_loader_mosaic_nbytes(loader, &block);
    char also[96] = "";
    if (space > 0)
        snprintf(also, sizeof also, "mosaics and operations behind them %" PRIu64 ", ", space);
    return psti_fail(err, PST_ERROR_LIMIT, "loader",
                     "host_memory of %" PRIu64 " bytes is too small: a batch takes %" PRIu64
                     " (twice: you hold one while the next is made), the largest sample's stored "
                     "bytes %" PRIu64 " (twice), scratch %" PRIu64 ", %sfiles in memory and "
                     "tables %" PRIu64 ": at least %" PRIu64 " are needed",
                     loader->options.host_memory, slot, item, scratch, also, loader->memory_nbytes,
                     needed);
}

/* The item that needs the most memory. */
struct largest {
    uint64_t sample, need;
    struct pst_item item;
    const char *field;
};

static void look_at(const pst_loader *loader, uint64_t sample, uint32_t i_field,
                    struct largest *largest)
{
    const struct pst_field *field = pst_dataset_field(loader->dataset, i_field);
    struct pst_item item;
    for (uint32_t v = 0; v < field->n_variants; v++) {
        if (pst_dataset_item(loader->dataset, sample, i_field, v, &item, sizeof item, NULL) !=
            PST_OK)
            continue;
        uint64_t decoded = psti_dataset_item_scratch_nbytes(&item);
        uint64_t need = item.nbytes < UINT64_MAX - decoded ? item.nbytes + decoded : UINT64_MAX;
        if (need > largest->need)
            *largest = (struct largest){sample, need, item, field->name};
    }
}

/* Fails because host_memory does not hold the items of one sample twice, and names the largest
 * item. A member of a zip, for instance, may claim to decode to a thousand times its stored
 * bytes. */
static enum pst_status fail_item(const pst_loader *loader, uint64_t needed, struct pst_error *err)
{
    struct largest largest = {0};
    char path[PSTI_PATH_NBYTES];
    for (uint64_t sample = 0; sample < pst_dataset_count(loader->dataset); sample++)
        for (uint32_t i = 0; i < loader->plan.n_items; i++)
            look_at(loader, sample, loader->plan.fields[loader->plan.fields_of_items[i]].i_field,
                    &largest);
    uint64_t decoded = psti_dataset_item_scratch_nbytes(&largest.item);
    char also[64] = "";
    if (decoded > 0)
        snprintf(also, sizeof also, ", stated to decode to %" PRIu64, decoded);
    psti_fail(err, PST_ERROR_LIMIT, "loader",
              "host_memory of %" PRIu64 " bytes is too small: the largest item, of field '%s', has "
              "%" PRIu64 " stored bytes%s, and the loader holds the items of two samples: at least "
              "%" PRIu64 " are needed; or leave the sample or the field out",
              loader->options.host_memory, largest.field ? largest.field : "", largest.item.nbytes,
              also, needed);
    if (!err || largest.need == 0)
        return PST_ERROR_LIMIT;
    psti_dataset_name_error(loader->dataset, (int64_t)largest.sample, err);
    if (largest.item.i_file != PST_FILE_NONE) {
        if (pst_dataset_file_path(loader->dataset, largest.item.i_file, path, sizeof path, NULL) ==
            PST_OK)
            psti_error_set_file(err, path);
        err->offset = (int64_t)largest.item.offset;
    }
    return PST_ERROR_LIMIT;
}

static bool has_own_rows(const struct psti_loader_plan *plan)
{
    bool differ = false;
    for (uint32_t i = 0; i < plan->n_fields; i++)
        differ |= plan->slots[i].may_differ;
    return differ;
}

enum pst_status psti_loader_charge_tables(pst_loader *loader, uint64_t nbytes,
                                          struct pst_error *err)
{
    if (!psti_batch_pool_charge(loader->pool, nbytes, true))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory of %" PRIu64 " bytes is too small: tables (subset, weights, "
                         "tasks) take %" PRIu64 ", files in memory %" PRIu64 ": at least %" PRIu64
                         " are needed, and memory for batches besides",
                         loader->options.host_memory, nbytes, loader->memory_nbytes,
                         nbytes + loader->memory_nbytes);
    loader->memory_nbytes += nbytes;
    return PST_OK;
}

/* Charges host_memory for the tables of tasks and jobs. */
static enum pst_status charge_jobs(pst_loader *loader, struct pst_error *err)
{
    uint64_t nbytes = tables_nbytes(loader);
    enum pst_status status = psti_loader_charge_tables(loader, nbytes, err);
    if (status == PST_OK)
        loader->jobs_nbytes = nbytes;
    return status;
}

/* Returns the number of workspaces for mosaics. The first one has its bytes already. The bytes of
 * the others are taken from *spare. */
static uint32_t divide_workspaces(const pst_loader *loader, uint64_t space, uint64_t *spare)
{
    uint64_t more = psti_loader_workspaces_wanted(loader) - 1;
    if (space == 0)
        return 0;
    more = more < *spare / space ? more : *spare / space;
    *spare -= more * space;
    return (uint32_t)more + 1;
}

/* The least host_memory of a loader, without files in memory and tables. */
struct needs {
    uint64_t slot;    /* bytes of a slot */
    uint64_t item;    /* bytes of the items of the largest row */
    uint64_t scratch; /* of the workers */
    uint64_t worker;  /* scratch of the fetcher's thread, which may start later */
    uint64_t space;   /* bytes of the first workspace for mosaics */
    size_t block;     /* its bytes without scratch */
};

static enum pst_status measure(const pst_loader *loader, struct needs *needs, struct pst_error *err)
{
    uint32_t n_workers = loader->options.num_workers ? loader->options.num_workers : 1;
    size_t slot;
    needs->worker = psti_loader_worker_nbytes(loader);
    needs->scratch = needs->worker * (n_workers + loader->placement.ops->remakes); /* one worker
                                                                           more, for repairs */
    needs->item = psti_loader_plan_row_nbytes_max(&loader->plan, loader->dataset, loader->storage,
                                                  loader->in_memory);
    needs->space = psti_loader_mosaic_nbytes(loader, &needs->block);
    if (!psti_batch_pool_slot_nbytes(loader->pool, loader->options.batch_size, &slot) ||
        needs->space == UINT64_MAX)
        return fail_small(loader, UINT64_MAX, needs->item, needs->scratch, UINT64_MAX, err);
    needs->slot = slot;
    return PST_OK;
}

/* Returns the bytes of host_memory that are needed, besides the items of two rows. */
static uint64_t fixed_nbytes(const pst_loader *loader, const struct needs *needs)
{
    return SLOTS_MIN * needs->slot + needs->scratch + needs->worker + needs->space +
           loader->memory_nbytes;
}

/* Returns the bytes of host_memory that are left for tables of tasks and jobs. */
static uint64_t left_for_tables(const pst_loader *loader, const struct needs *needs)
{
    uint64_t fixed = fixed_nbytes(loader, needs);
    uint64_t left = loader->options.host_memory;
    left = left > fixed ? left - fixed : 0;
    return needs->item < left / 2 ? left - 2 * needs->item : 0;
}

/* What host_memory is divided into. */
struct division {
    uint64_t arena;        /* bytes of the read buffers' region */
    uint32_t n_workspaces; /* for mosaics */
};

static enum pst_status divide_memory(pst_loader *loader, const struct needs *needs,
                                     struct division *division, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    const uint64_t limit = options->host_memory, item = needs->item, least = needs->worker;
    uint64_t fixed = fixed_nbytes(loader, needs), left = limit > fixed ? limit - fixed : 0;
    if (item > left / 2 || fixed > limit) {
        uint64_t needed = item > UINT64_MAX / 4 ? UINT64_MAX : fixed + 2 * item;
        if (item > limit / 4)
            return fail_item(loader, needed, err);
        return fail_small(loader, needs->slot, item, needs->scratch, needed, err);
    }
    left -= 2 * item;
    uint64_t reserve = limit / 4 < RESERVE_MAX_NBYTES ? limit / 4 : RESERVE_MAX_NBYTES;
    reserve = reserve > item + least ? reserve - item - least : 0;
    reserve = reserve < left / 2 ? reserve : left / 2;
    /* Memory for large samples is more important than more slots, but rows of different sizes also
     * need some memory. */
    uint64_t room = has_own_rows(&loader->plan) ? left / 2 : left;
    if (reserve < RESERVE_MIN_NBYTES)
        reserve = room < RESERVE_MIN_NBYTES ? room : RESERVE_MIN_NBYTES;
    left -= reserve;
    uint64_t slots = needs->slot * options->prefetch, spare = left > slots ? left - slots : 0;
    division->arena = item;
    if (options->num_workers && item) {
        uint64_t wanted = loader->queue.n_tasks * item;
        uint64_t most = loader->gather.n_rows ? ARENA_MAX_PAGES_NBYTES : ARENA_MAX_NBYTES;
        most = limit / 4 < most ? limit / 4 : most;
        wanted = wanted < most ? wanted : most;
        wanted = wanted > item ? wanted - item : 0;
        wanted = wanted < spare ? wanted : spare;
        division->arena += wanted;
        spare -= wanted; /* reading ahead is worth more than mosaics by several threads */
    }
    division->n_workspaces = divide_workspaces(loader, needs->space, &spare);
    if (!options->num_workers)
        division->arena = 0;
    loader->block_nbytes_max = item;
    loader->scratch_max = PSTI_LOADER_GRANT_MIN_NBYTES + reserve / 2;
    psti_batch_pool_set_reserve(loader->pool, item + least + reserve);
    return PST_OK;
}

static enum pst_status open_arena(pst_loader *loader, uint64_t nbytes, struct pst_error *err)
{
    uint32_t n_items = loader->plan.n_items;
    if (loader->in_memory || !loader->queue.n_tasks)
        return PST_OK;
    if (!psti_batch_pool_charge(loader->pool, nbytes, true))
        return psti_fail(err, PST_ERROR_LIMIT, "loader", "host_memory is used up");
    enum pst_status status = psti_loader_arena_open(&loader->queue.arena, nbytes,
                                                    psti_storage_buffer_alignment(loader->storage),
                                                    loader->queue.n_tasks, err);
    if (status != PST_OK)
        return status;
    loader->queue.ahead_nbytes = AHEAD_NBYTES;
    loader->queue.tasks = psti_calloc(loader->queue.n_tasks, sizeof *loader->queue.tasks);
    if (loader->gather.n_rows)
        loader->gather.reads = psti_alloc_array((size_t)loader->gather.n_rows_max * n_items,
                                                sizeof *loader->gather.reads);
    if (!loader->queue.tasks || (loader->gather.n_rows && !loader->gather.reads))
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for tasks");
    for (uint32_t i = 0; i < loader->queue.n_tasks; i++) {
        struct psti_loader_task *task = &loader->queue.tasks[i];
        task->loader = loader;
        if (!psti_loader_items_open(&task->items, loader))
            return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for tasks");
        psti_loader_pump_free_task(loader, task);
    }
    return PST_OK;
}

/* Gives slots memory for rows of different sizes from the start, if the largest possible rows of a
 * batch take little memory. */
static void bound_rows(pst_loader *loader)
{
    const struct psti_loader_plan *plan = &loader->plan;
    uint64_t n_slots = (uint64_t)loader->options.prefetch + 2, row = 0, carried = 0;
    uint64_t most = loader->options.host_memory / ROWS_PART / n_slots / loader->options.batch_size;
    for (uint32_t i = 0; i < plan->n_fields && row <= most; i++) {
        const struct psti_slot_field *slot = &plan->slots[i];
        if (!slot->may_differ)
            continue;
        if (slot->type == PST_FIELD_IMAGE || slot->type == PST_FIELD_MASK ||
            plan->fields[i].fill == PSTI_LOADER_FILL_SOUND)
            return; /* the size of the rows that operations make is not known */
        uint32_t i_field = plan->fields[i].i_field;
        uint64_t nbytes = pst_dataset_max_item_nbytes(loader->dataset, i_field);
        uint64_t decoded = psti_dataset_max_decoded_nbytes(loader->dataset, i_field);
        nbytes = decoded > nbytes ? decoded : nbytes;
        nbytes = nbytes <= most ? psti_round_up((size_t)nbytes, PSTI_CACHE_LINE) : nbytes;
        row += nbytes;
        carried += slot->carried ? nbytes + 2 * PSTI_CACHE_LINE : 0; /* lengths and gaps */
    }
    if (row > most)
        return;
    psti_batch_pool_set_rows(loader->pool, (size_t)row * loader->options.batch_size);
    carried *= loader->options.batch_size;
    uint64_t device_memory = loader->options.device_memory;
    if (loader->options.placement == PST_PLACEMENT_DEVICE &&
        (device_memory == 0 || carried <= device_memory / CARRIED_PART))
        psti_batch_pool_set_carried(loader->pool, (size_t)carried);
}

/* Allocates the slots that the loader will use in the long run. At least two are made, whatever
 * else needs the budget. */
static enum pst_status open_slots(pst_loader *loader, struct pst_error *err)
{
    bound_rows(loader);
    enum pst_status status = psti_batch_pool_make(loader->pool, SLOTS_MIN);
    if (status == PST_OK &&
        psti_batch_pool_make(loader->pool, loader->options.prefetch + 1) == PST_ERROR_MEMORY)
        status = PST_ERROR_MEMORY;
    struct psti_batch_pool_stats stats;
    psti_batch_pool_stats(loader->pool, &stats);
    if (status == PST_OK) {
        uint32_t wanted = loader->options.prefetch + 1;
        psti_loader_fell_back(loader, PST_FALLBACK_SLOTS,
                              wanted > stats.n_slots ? wanted - stats.n_slots : 0);
        return PST_OK;
    }
    if (loader->placement.ops->refused(loader, &stats, err))
        return status;
    if (stats.n_others)
        return psti_fail(err, status, "loader",
                         "host_memory (%" PRIu64 " bytes) has no room for two batches of %u rows: "
                         "you hold %u of the former size; release them, or raise host_memory",
                         stats.limit, loader->options.batch_size, stats.n_others);
    return psti_fail(err, status, "loader", "no memory for %u batches of %u rows",
                     loader->options.prefetch + 1, loader->options.batch_size);
}

static enum pst_status open_jobs(pst_loader *loader, struct pst_error *err)
{
    loader->queue.ring = psti_calloc(loader->queue.n_jobs, sizeof *loader->queue.ring);
    if (!loader->queue.ring)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for jobs");
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < loader->queue.n_jobs; i++)
        status = psti_loader_job_open(&loader->queue.ring[i], loader->options.batch_size, err);
    return status;
}

static enum pst_status open_workers(pst_loader *loader, struct pst_error *err)
{
    uint32_t n = loader->options.num_workers;
    loader->crew.n = n ? n : 1;
    if (!loader->crew.workers)
        loader->crew.workers = psti_calloc(loader->crew.n, sizeof *loader->crew.workers);
    if (!loader->crew.workers)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for %u workers", n);
    enum pst_status status = PST_OK;
    if (loader->placement.ops->remakes)
        status = psti_loader_worker_open(&loader->crew.repairer, loader, err);
    for (uint32_t i = 0; status == PST_OK && i < loader->crew.n; i++)
        status = psti_loader_worker_open(&loader->crew.workers[i], loader, err);
    return status;
}

static void close_tasks(pst_loader *loader)
{
    for (uint32_t i = 0; loader->queue.tasks && i < loader->queue.n_tasks; i++) {
        psti_loader_items_close(&loader->queue.tasks[i].items);
    }
    psti_free(loader->queue.tasks);
    psti_free(loader->gather.reads);
    loader->queue.tasks = NULL;
    loader->queue.free_tasks = NULL;
    loader->gather.reads = NULL;
    loader->queue.n_free_tasks = 0;
    if (loader->pool)
        psti_batch_pool_uncharge(loader->pool, loader->queue.arena.nbytes);
    psti_loader_arena_close(&loader->queue.arena);
}

enum pst_status psti_loader_shape_open(pst_loader *loader, struct pst_error *err)
{
    struct needs needs = {0};
    struct division division = {0};
    enum pst_status status = measure(loader, &needs, err);
    if (status != PST_OK)
        return status;
    set_tasks(loader, left_for_tables(loader, &needs));
    status = charge_jobs(loader, err);
    if (status == PST_OK)
        status = divide_memory(loader, &needs, &division, err);
    if (status == PST_OK)
        status = open_arena(loader, division.arena, err);
    if (status == PST_OK)
        status = psti_loader_workspaces_open(loader, division.n_workspaces, needs.block, err);
    if (status == PST_OK)
        status = open_workers(loader, err); /* before the slots, because they take all remaining
                                               memory */
    if (status == PST_OK)
        status = open_slots(loader, err);
    if (status == PST_OK)
        status = open_jobs(loader, err);
    return status;
}

void psti_loader_shape_close(pst_loader *loader)
{
    for (uint32_t i = 0; loader->crew.workers && i < loader->crew.n; i++)
        psti_loader_worker_close(&loader->crew.workers[i]);
    psti_loader_worker_close(&loader->crew.fetcher);
    psti_loader_worker_close(&loader->crew.repairer);
    psti_loader_job_close(&loader->crew.fetch_job);
    loader->crew.fetcher_is_open = false;
    for (uint32_t i = 0; loader->queue.ring && i < loader->queue.n_jobs; i++)
        psti_loader_job_close(&loader->queue.ring[i]);
    psti_free(loader->queue.ring);
    loader->queue.ring = NULL;
    psti_loader_workspaces_close(loader);
    close_tasks(loader);
    if (loader->pool)
        psti_batch_pool_uncharge(loader->pool, loader->jobs_nbytes);
    loader->memory_nbytes -= loader->jobs_nbytes;
    loader->jobs_nbytes = 0;
}

enum pst_status psti_loader_shape_start(pst_loader *loader, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < loader->options.num_workers; i++) {
        char name[16];
        snprintf(name, sizeof name, "work-%u", i);
        status = psti_thread_start(&loader->crew.workers[i].thread, name, psti_loader_run_worker,
                                   &loader->crew.workers[i], err);
        loader->crew.n_started += status == PST_OK;
    }
    return status;
}

void psti_loader_shape_stop(pst_loader *loader)
{
    if (!loader->pool)
        return;
    pthread_mutex_lock(loader->lock);
    psti_loader_run_cancel(loader);
    loader->epoch.closing = true;
    pthread_cond_broadcast(loader->work);
    pthread_cond_broadcast(&loader->runs);
    pthread_mutex_unlock(loader->lock);
    for (uint32_t i = 0; i < loader->crew.n_started; i++)
        psti_thread_join(loader->crew.workers[i].thread);
    loader->crew.n_started = 0;
    loader->epoch.closing = false;
}
