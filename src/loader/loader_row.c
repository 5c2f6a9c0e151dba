/* loader_row.c - one row: finds its items, reads them, and has them written to the slot
 * (loader_fill.c).
 *
 * Any worker runs these functions on rows of its own; none takes the loader's lock. Errors leave
 * here with data set, sample, file, offset and codec. */
#include "loader/loader_cache.h"
#include "loader/loader_counters.h"
#include "loader/loader_files.h"
#include "loader/loader_fill.h"
#include "loader/loader_fleet.h"
#include "loader/loader_forms.h"
#include "loader/loader_handle.h"
#include "loader/loader_host.h"
#include "loader/loader_plan.h"
#include "loader/loader_ranges.h"
#include "loader/loader_row.h"
#include "loader/loader_shelf.h"
#include "loader/loader_sound.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <string.h>

/* Chooses the first allowed variant that this sample has. */
static enum pst_status choose_variant(pst_loader *loader, uint64_t sample,
                                      const struct psti_loader_plan_field *plan,
                                      struct psti_loader_source *source, struct pst_error *err)
{
    for (uint32_t v = 0; v < plan->field->n_variants; v++) {
        if (!(plan->variant_mask & (1u << v)))
            continue;
        enum pst_status status = pst_dataset_item(loader->dataset, sample, plan->i_field, v,
                                                  &source->item, sizeof source->item, err);
        if (status != PST_OK || (psti_loader_plan_item_is_there(loader->dataset, &source->item) &&
                                 psti_loader_plan_allows_form(plan, source->item.form))) {
            source->variant = v;
            source->i_form = PSTI_LOADER_NO_FORM;
            return status;
        }
    }
    return psti_fail(err, PST_ERROR_NOT_FOUND, "loader",
                     "field '%s' of this sample is stored in none of the forms allowed",
                     plan->field->name);
}

/* Finds the file of an item, and its bytes if they are in memory. */
static enum pst_status find_bytes(pst_loader *loader, struct psti_loader_source *source, char *path,
                                  struct pst_error *err)
{
    const struct pst_item *item = &source->item;
    if (item->nbytes == 0) {
        source->data = "";
        return PST_OK;
    }
    if (item->i_file == PST_FILE_NONE)
        return PST_OK; /* copied when there is a buffer */
    if (!loader->files.n && pst_dataset_is_folder(loader->dataset)) {
        source->path = path;
        source->place = psti_dataset_file_place(loader->dataset, item->i_file);
        source->stamp = psti_dataset_file_stamp(loader->dataset, item->i_file);
        return pst_dataset_file_path(loader->dataset, item->i_file, path, PSTI_PATH_NBYTES, err);
    }
    enum pst_status status = psti_loader_files_acquire(loader, item->i_file, &source->file, err);
    if (status != PST_OK)
        return status;
    if (!psti_range_fits(item->offset, item->nbytes, psti_storage_file_nbytes(source->file)))
        return psti_fail(err, PST_ERROR_TRUNCATED, "loader",
                         "the item ends at byte %" PRIu64 " of a file of %" PRIu64 " bytes",
                         item->offset + item->nbytes, psti_storage_file_nbytes(source->file));
    source->data = psti_storage_file_span(source->file, item->offset, item->nbytes);
    return PST_OK;
}

/* A mask that may be rotated with its image is read whole. Only the image's row knows how it is
 * rotated. */
static bool is_turned_mask(const struct psti_loader_plan *plan,
                           const struct psti_loader_source *sources, uint32_t i_plan)
{
    const struct psti_loader_plan_field *field = &plan->fields[i_plan];
    return field->follows && field->field->type == PST_FIELD_MASK &&
           sources[plan->fields[field->i_geometry].i_item].item.orientation > 1;
}

struct psti_draw_key psti_loader_row_key(const pst_loader *loader, uint64_t epoch, uint64_t sample,
                                         uint64_t draw)
{
    return (struct psti_draw_key){
        .seed = loader->options.seed, .epoch = epoch, .sample = sample, .draw = draw};
}

enum pst_status psti_loader_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                       uint64_t turn, struct psti_loader_items *items,
                                       struct pst_error *err)
{
    const struct psti_loader_plan *plan = &loader->plan;
    const uint64_t sample = key->sample;
    struct psti_loader_source *sources = items->sources;
    enum pst_status status = PST_OK;
    uint32_t i;
    items->state = PSTI_LOADER_ROW_ASKED;
    items->sample = sample;
    items->block_nbytes = 0;
    memset(sources, 0, plan->n_items * sizeof *sources);
    for (i = 0; status == PST_OK && i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        char *path = items->paths ? items->paths + (size_t)i * PSTI_PATH_NBYTES : NULL;
        status = choose_variant(loader, sample, field, &sources[i], err);
        if (status != PST_OK) {
            psti_loader_source_name_error(loader, sample, NULL, err);
            break;
        }
        sources[i].sample = sample;
        if (loader->forms.n && plan->fields_of_items[i] == loader->forms.i_plan)
            psti_loader_forms_choose(loader, turn, &sources[i]);
        psti_loader_cache_ask(loader, field, &sources[i]);
        if (!sources[i].is_cached)
            status = find_bytes(loader, &sources[i], path, err);
        if (status == PST_OK && !sources[i].data && !sources[i].is_asked)
            psti_loader_fleet_consider(loader, field, &sources[i]);
        if (status == PST_OK && !sources[i].data) {
            uint64_t left = loader->block_nbytes_max - items->block_nbytes;
            if (sources[i].item.nbytes > left ||
                psti_loader_source_buffer_nbytes(loader, &sources[i]) > left)
                status =
                    psti_fail(err, PST_ERROR_LIMIT, "loader",
                              "field '%s' takes %" PRIu64 " bytes, and host_memory leaves "
                              "%" PRIu64 " for the items of a sample",
                              field->field->name, sources[i].item.nbytes, loader->block_nbytes_max);
            else
                items->block_nbytes += psti_loader_source_buffer_nbytes(loader, &sources[i]);
        }
        if (status != PST_OK)
            psti_loader_source_name_error(loader, sample, &sources[i], err);
    }
    for (i = 0; status == PST_OK && i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        if (sources[i].data || sources[i].is_wanted || sources[i].is_asked || sources[i].ask_fleet)
            continue;
        if (field->fill == PSTI_LOADER_FILL_SOUND)
            psti_loader_sound_consider(loader, key, field, &sources[i]);
        else if (!is_turned_mask(plan, sources, plan->fields_of_items[i]))
            psti_loader_ranges_consider(loader, key, field, &sources[i]);
    }
    if (status != PST_OK)
        psti_loader_row_release(loader, items);
    return status;
}

bool psti_loader_row_copies(const pst_loader *loader, const struct psti_loader_items *items)
{
    const struct psti_loader_plan *plan = &loader->plan;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        if (field->fill == PSTI_LOADER_FILL_SOUND ||
            (field->fill == PSTI_LOADER_FILL_PIXELS &&
             !(field->identity && items->sources[i].item.form == PST_FORM_RAW)))
            return false;
    }
    return true;
}

uint32_t psti_loader_row_reads(pst_loader *loader, struct psti_loader_items *items, void *block)
{
    char *at = block;
    uint32_t n = 0;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (source->data || source->waits_shelf)
            continue;
        if (!source->reads_shelf) {
            source->buffer = at;
            at += psti_loader_source_buffer_nbytes(loader, source);
        }
        if (source->item.i_file == PST_FILE_NONE || source->is_asked)
            continue;
        struct psti_read *read = &items->reads[n++];
        source->read = read;
        read->file = source->file;
        read->path = source->path;
        read->place = source->place;
        read->stamp = source->stamp;
        read->offset = source->item.offset;
        read->nbytes = source->sparse ? source->n_here : source->item.nbytes;
        read->file_nbytes = source->sparse && source->path ? source->item.nbytes : 0;
        read->buffer = source->buffer;
        read->drop = source->is_wanted || source->ask_fleet; /* memory is not spent twice */
        read->data = NULL;
        read->status = PST_OK;
    }
    return n;
}

/* Points the sources to what the first reads have brought, or returns the first one's error. */
static enum pst_status take_reads(pst_loader *loader, struct psti_loader_items *items,
                                  struct pst_error *err)
{
    const struct psti_read *reads = items->reads;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (!source->buffer || source->item.i_file == PST_FILE_NONE || source->is_asked)
            continue;
        enum pst_status status =
            psti_loader_source_take_read(loader, items->sample, source, reads++, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

/* Takes what the row waits for, and goes one state on. */
static enum pst_status take_one(pst_loader *loader, struct psti_loader_items *items,
                                uint32_t *n_reads, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    switch (items->state) {
    case PSTI_LOADER_ROW_ASKED:
        status = take_reads(loader, items, err);
        if (status == PST_OK)
            *n_reads = psti_loader_host_resolve(loader, items->sources, items->reads);
        items->state = PSTI_LOADER_ROW_READING;
        break;
    case PSTI_LOADER_ROW_READING:
        status = psti_loader_host_take(loader, items->sample, items->sources, items->reads, err);
        if (status == PST_OK)
            *n_reads = psti_loader_ranges_reads(loader, items->sources, items->reads);
        items->state = PSTI_LOADER_ROW_MORE;
        break;
    case PSTI_LOADER_ROW_MORE:
        status = psti_loader_ranges_take(loader, items->sample, items->sources, items->reads, err);
        items->state = PSTI_LOADER_ROW_READY;
        break;
    case PSTI_LOADER_ROW_READY:
        break;
    }
    return status;
}

enum pst_status psti_loader_row_advance(pst_loader *loader, struct psti_loader_items *items,
                                        uint32_t *n_reads, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    *n_reads = 0;
    while (status == PST_OK && *n_reads == 0 && items->state != PSTI_LOADER_ROW_READY)
        status = take_one(loader, items, n_reads, err);
    return status;
}

bool psti_loader_row_is_suspect(const struct psti_loader_worker *worker,
                                const struct psti_loader_items *items, enum pst_status status)
{
    const pst_loader *loader = worker->loader;
    uint32_t n = 0;
    if (status == PST_OK || status == PST_ERROR_MEMORY || worker->starved || worker->lacks_scratch)
        return false;
    for (uint32_t i = 0; i < loader->plan.n_items; i++)
        n += items->sources[i].fleet_nbytes > 0;
    return n > 0;
}

void psti_loader_row_release(pst_loader *loader, struct psti_loader_items *items)
{
    psti_loader_cache_give_up(loader, items->sources);
    if (loader->shelf)
        psti_loader_shelf_release(loader, items->sources);
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        psti_loader_files_release(loader, source->item.i_file, source->file);
        source->file = NULL;
    }
}

/* A buffer of this thread's own. It is kept, or comes from the reserve for this row only. */
static void *own_buffer(struct psti_loader_worker *worker, size_t nbytes)
{
    pst_loader *loader = worker->loader;
    size_t alignment = psti_storage_buffer_alignment(loader->storage);
    if (nbytes <= worker->buffer_nbytes)
        return worker->buffer;
    alignment = alignment < PSTI_CACHE_LINE ? PSTI_CACHE_LINE : alignment;
    size_t total = psti_round_up(nbytes + nbytes / 8, 4096);
    /* It is large enough for the largest row at once, if that is not much. */
    if (total < loader->block_nbytes_max &&
        loader->block_nbytes_max <= loader->options.host_memory / 8 / loader->n_workers)
        total = psti_round_up((size_t)loader->block_nbytes_max, 4096);
    if (psti_batch_pool_charge(loader->pool, total, false)) {
        void *memory = psti_alloc_aligned(alignment, total);
        psti_batch_pool_uncharge(loader->pool, memory ? worker->buffer_nbytes : total);
        if (memory) {
            psti_free(worker->buffer);
            worker->buffer = memory;
            worker->buffer_nbytes = total;
        }
        return memory;
    }
    if (!worker->has_reserve) {
        pthread_mutex_lock(&loader->reserve_lock);
        worker->has_reserve = true;
    }
    if (!psti_batch_pool_charge(loader->pool, nbytes,
                                true)) /* the reserve is as large as any row */
        return NULL;
    psti_loader_fell_back(loader, PST_FALLBACK_RESERVE, 1);
    worker->reserve_nbytes += nbytes;
    worker->reserve_buffer = psti_alloc_aligned(alignment, nbytes);
    return worker->reserve_buffer;
}

/* Reads in this thread, one item after the other, until one fails. False: one did. */
static bool run_reads(struct psti_loader_worker *worker, uint32_t n)
{
    enum pst_status status = PST_OK;
    int64_t start = psti_clock_ns();
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        if (!worker->items.reads[i].data) /* else the fleet gave it */
            status = psti_loader_worker_run_read(worker, &worker->items.reads[i]);
    psti_loader_worker_read_here(worker, start, true);
    return status == PST_OK;
}

/* Waits for items that the host service reads. */
static void await_wishes(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    struct psti_share_wish *wishes[PST_MAX_FIELDS];
    uint32_t n = psti_loader_host_wishes(loader, worker->items.sources, wishes);
    if (n == 0)
        return;
    const struct psti_share_stop stop = {loader->interrupt, loader->interrupt_ctx};
    bool is_stopped = !psti_share_cache_wait(loader->host, wishes, n, &stop);
    for (uint32_t i = 0; is_stopped && i < n; i++)
        wishes[i]->result = PSTI_CACHE_RESULT_FAILED;
}

/* Brings the bytes of the located row: it is READY then. */
static enum pst_status read_here(struct psti_loader_worker *worker, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_loader_items *items = &worker->items;
    uint32_t n = 0;
    if (items->block_nbytes > 0) {
        void *block = own_buffer(worker, items->block_nbytes);
        if (!block)
            return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory to read %zu bytes",
                             items->block_nbytes);
        n = psti_loader_row_reads(loader, items, block);
        if (loader->fleet)
            psti_loader_fleet_ask_here(worker);
    }
    if (n == 0 || run_reads(worker, n))
        await_wishes(worker);
    enum pst_status status = psti_loader_row_advance(loader, items, &n, err);
    while (status == PST_OK && n > 0) {
        (void)run_reads(worker, n);
        status = psti_loader_row_advance(loader, items, &n, err);
    }
    return status;
}

static enum pst_status locate_here(struct psti_loader_worker *worker,
                                   const struct psti_draw_key *key, uint64_t turn,
                                   struct pst_error *err)
{
    int64_t since = psti_stall_meter_enter(&worker->meter, PSTI_METER_FETCH);
    enum pst_status status = psti_loader_row_locate(worker->loader, key, turn, &worker->items, err);
    psti_stall_meter_leave(&worker->meter, PSTI_METER_FETCH, since);
    return status;
}

/* Tries once to make the row. *suspect: that failed, and bytes that the fleet gave may be the
 * cause. */
static enum pst_status make_once(struct psti_loader_worker *worker, pst_batch *batch, uint32_t row,
                                 const struct psti_draw_key *key, uint64_t turn, bool asks_fleet,
                                 bool *suspect, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_loader_items *items = &worker->items;
    const uint64_t read_ns = worker->read_here_ns;
    bool begun = psti_loader_worker_begin_row(worker, batch, key->sample);
    worker->starved = worker->lacks_scratch = *suspect = false;
    enum pst_status status = locate_here(worker, key, turn, err);
    if (status == PST_OK) {
        for (uint32_t i = 0; !asks_fleet && i < loader->plan.n_items; i++)
            items->sources[i].ask_fleet = false;
        status = read_here(worker, err);
        if (status == PST_OK) {
            status = psti_loader_row_fill(worker, batch, row, key, items->sources, err);
            *suspect = psti_loader_row_is_suspect(worker, items, status);
        }
        psti_loader_worker_settle(worker);
        psti_loader_row_release(loader, items);
    }
    if (begun)
        psti_stall_meter_row_ends(&worker->meter, worker->read_here_ns - read_ns);
    return status;
}

enum pst_status psti_loader_row_make(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key, uint64_t turn,
                                     struct pst_error *err)
{
    bool suspect;
    enum pst_status status = make_once(worker, batch, row, key, turn, true, &suspect, err);
    return suspect ? psti_loader_row_make_without_fleet(worker, batch, row, key, turn, err)
                   : status;
}

enum pst_status psti_loader_row_make_without_fleet(struct psti_loader_worker *worker,
                                                   pst_batch *batch, uint32_t row,
                                                   const struct psti_draw_key *key, uint64_t turn,
                                                   struct pst_error *err)
{
    bool suspect;
    enum pst_status status = make_once(worker, batch, row, key, turn, false, &suspect, err);
    psti_loader_fell_back(worker->loader, PST_FALLBACK_FLEET_VALUE, status == PST_OK);
    return status;
}
