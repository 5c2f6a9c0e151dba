/* loader_row.c - one row: finds its items, reads them, and calls loader_fill.c to write them to the
 * slot.
 *
 * Any worker runs these functions for its own rows; no function takes the loader's lock. Returned
 * errors name data set, sample, file, offset and codec. */
#include "loader/loader_fallback.h"
#include "loader/rows/loader_fill.h"
#include "loader/tiers/loader_forms.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"
#include "loader/rows/loader_ranges.h"
#include "loader/rows/loader_row.h"
#include "loader/rows/loader_sound.h"
#include "loader/tiers/loader_storage.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <string.h>

/* Chooses the first allowed variant that the sample has. */
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

/* True if the mask may have to be rotated with its image. It is then read completely, because its
 * rotation is known only when the image's header was read. */
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

/* Adds the bytes that the source needs to the size of the row's block. */
static enum pst_status claim_block(const pst_loader *loader, struct psti_loader_items *items,
                                   const struct psti_loader_source *source, struct pst_error *err)
{
    const struct pst_item *item = &source->item;
    uint64_t left = loader->block_nbytes_max - items->block_nbytes;
    uint64_t kept = psti_dataset_item_kept_nbytes(item);
    uint64_t stored = source->data ? 0 : kept > item->nbytes ? kept : item->nbytes;
    uint64_t wanted = stored;
    if (!psti_add_u64(stored, psti_dataset_item_scratch_nbytes(item), &wanted))
        wanted = UINT64_MAX;
    size_t nbytes = 0;
    if (wanted <= left) {
        nbytes = source->data ? 0 : psti_loader_source_buffer_nbytes(loader, source);
        nbytes += psti_loader_source_decoded_nbytes(loader, source);
    }
    if (wanted > left || nbytes > left)
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "field '%s' takes %" PRIu64 " bytes, and host_memory leaves %" PRIu64
                         " for the items of a sample",
                         source->field->field->name, wanted, loader->block_nbytes_max);
    items->block_nbytes += nbytes;
    return PST_OK;
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
    items->n_reads = 0;
    memset(sources, 0, plan->n_items * sizeof *sources);
    for (i = 0; status == PST_OK && i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        status = choose_variant(loader, sample, field, &sources[i], err);
        if (status != PST_OK) {
            psti_loader_source_name_error(loader, sample, NULL, err);
            break;
        }
        sources[i].items = items;
        sources[i].field = field;
        sources[i].sample = sample;
        if (loader->forms.n && plan->fields_of_items[i] == loader->forms.i_plan)
            psti_loader_forms_choose(loader, turn, &sources[i]);
        status = psti_loader_tiers_look_up(loader, &sources[i], err);
        if (status == PST_OK)
            status = claim_block(loader, items, &sources[i], err);
        if (status != PST_OK)
            psti_loader_source_name_error(loader, sample, &sources[i], err);
    }
    for (i = 0; status == PST_OK && i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        if (sources[i].data || sources[i].is_wanted || sources[i].asked ||
            sources[i].item.coding != PST_CODING_STORED) /* compressed items are always read
                                                            completely */
            continue;
        if (field->fill == PSTI_LOADER_FILL_SOUND)
            psti_loader_sound_consider(loader, key, field, &sources[i]);
        else if (!is_turned_mask(plan, sources, plan->fields_of_items[i]))
            psti_loader_ranges_consider(loader, key, field, &sources[i]);
    }
    if (status != PST_OK)
        psti_loader_tiers_release(loader, items);
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

/* True if the first round has a read for the source. If a tier was asked for the item, that is so
 * only if its request stands in for the read. */
static bool is_read(const struct psti_loader_source *source)
{
    return source->item.i_file != PST_FILE_NONE && (!source->asked || source->asked->stands_in);
}

void psti_loader_row_place(pst_loader *loader, struct psti_loader_items *items, void *block)
{
    char *at = block;
    items->n_reads = 0;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (source->item.coding != PST_CODING_STORED) {
            source->decoded = at;
            at += psti_loader_source_decoded_nbytes(loader, source);
        }
        if (source->data || source->waits_shelf)
            continue;
        if (!source->reads_shelf) {
            source->buffer = at;
            at += psti_loader_source_buffer_nbytes(loader, source);
        }
        if (!is_read(source))
            continue;
        struct psti_read *read = &items->reads[items->n_reads++];
        source->read = read;
        read->file = source->file;
        read->path = source->path;
        read->place = source->place;
        read->stamp = source->stamp;
        read->offset = source->item.offset;
        read->nbytes = source->sparse ? source->n_here : source->item.nbytes;
        read->file_nbytes = source->sparse && source->path ? source->item.nbytes : 0;
        read->buffer = source->buffer;
        read->drop = source->is_wanted || source->asked; /* a cache keeps the item, so the page
                                                            cache need not */
        read->data = NULL;
        read->status = PST_OK;
    }
}

/* Points the sources to the bytes of the first round of reads, or returns the error of the first
 * read that failed. */
static enum pst_status take_reads(pst_loader *loader, struct psti_loader_items *items,
                                  struct pst_error *err)
{
    const struct psti_read *reads = items->reads;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (!source->buffer || !is_read(source))
            continue;
        enum pst_status status =
            psti_loader_source_take_read(loader, items->sample, source, reads++, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

/* Takes the items that the tiers delivered, and plans reads from storage for all others. */
static void take_asked(pst_loader *loader, struct psti_loader_items *items)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        const struct psti_loader_tier_ops *tier = source->asked;
        source->asked = NULL;
        if (!tier || tier->stands_in || tier->take(loader, source))
            continue;
        source->is_late = true;
        items->reads[items->n_reads++] = (struct psti_read){.file = source->file,
                                                            .path = source->path,
                                                            .stamp = source->stamp,
                                                            .offset = source->item.offset,
                                                            .nbytes = source->item.nbytes,
                                                            .buffer = source->buffer};
    }
}

static enum pst_status take_late(pst_loader *loader, struct psti_loader_items *items,
                                 struct pst_error *err)
{
    const struct psti_read *reads = items->reads;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        if (!items->sources[i].is_late)
            continue;
        items->sources[i].is_late = false;
        enum pst_status status =
            psti_loader_source_take_read(loader, items->sample, &items->sources[i], reads++, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

/* Takes the bytes that the row waited for, and changes its state to the next one. */
static enum pst_status take_one(pst_loader *loader, struct psti_loader_items *items,
                                struct pst_error *err)
{
    enum pst_status status = PST_OK;
    items->n_reads = 0;
    switch (items->state) {
    case PSTI_LOADER_ROW_ASKED:
        status = take_reads(loader, items, err);
        if (status == PST_OK)
            take_asked(loader, items);
        items->state = PSTI_LOADER_ROW_READING;
        break;
    case PSTI_LOADER_ROW_READING:
        status = take_late(loader, items, err);
        if (status == PST_OK)
            items->n_reads = psti_loader_ranges_reads(loader, items->sources, items->reads);
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

bool psti_loader_row_advance(pst_loader *loader, struct psti_loader_items *items,
                             enum pst_status *status, struct pst_error *err)
{
    while (*status == PST_OK && items->state != PSTI_LOADER_ROW_READY) {
        *status = take_one(loader, items, err);
        if (*status == PST_OK && items->n_reads > 0)
            return true;
    }
    return false;
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

/* Returns a buffer of this thread of at least nbytes. It is kept for later rows, or comes from the
 * reserve for this row only. */
static void *own_buffer(struct psti_loader_worker *worker, size_t nbytes)
{
    pst_loader *loader = worker->loader;
    size_t alignment = psti_storage_buffer_alignment(loader->storage);
    if (nbytes <= worker->buffer_nbytes)
        return worker->buffer;
    alignment = alignment < PSTI_CACHE_LINE ? PSTI_CACHE_LINE : alignment;
    size_t total = psti_round_up(nbytes + nbytes / 8, 4096);
    /* If the largest row needs little memory, the buffer is made large enough for it at once. */
    if (total < loader->block_nbytes_max &&
        loader->block_nbytes_max <= loader->options.host_memory / 8 / loader->crew.n)
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
        pthread_mutex_lock(&loader->crew.reserve_lock);
        worker->has_reserve = true;
    }
    if (!psti_batch_pool_charge(loader->pool, nbytes,
                                true)) /* this cannot fail, because the reserve is as large as
                                          any row */
        return NULL;
    psti_loader_fell_back(loader, PST_FALLBACK_RESERVE, 1);
    worker->reserve_nbytes += nbytes;
    worker->reserve_buffer = psti_alloc_aligned(alignment, nbytes);
    return worker->reserve_buffer;
}

/* Reads the bytes of the located row, whose state is READY afterwards. */
static enum pst_status bring_here(struct psti_loader_worker *worker, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_loader_items *items = &worker->items;
    enum pst_status status = PST_OK;
    if (items->block_nbytes > 0) {
        void *block = own_buffer(worker, items->block_nbytes);
        if (!block)
            return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory to read %zu bytes",
                             items->block_nbytes);
        psti_loader_row_place(loader, items, block);
        psti_loader_tiers_ask_here(worker);
    }
    while (psti_loader_row_advance(loader, items, &status, err))
        psti_loader_storage_read_here(worker);
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

/* Tries once to make the row. *suspect: it failed, and bytes from the fleet may be the cause. */
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
            if (items->sources[i].asked && items->sources[i].asked->stands_in)
                items->sources[i].asked = NULL;
        status = bring_here(worker, err);
        if (status == PST_OK) {
            status = psti_loader_row_fill(worker, batch, row, key, items->sources, err);
            *suspect = psti_loader_row_is_suspect(worker, items, status);
        }
        psti_loader_worker_settle(worker);
        psti_loader_tiers_release(loader, items);
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
