/* loader_storage.c - the storage as the last tier, which has every item.
 *
 * Looking up an item opens its file, which the row holds until it is released. A file in memory
 * needs no read. Reads of the first round are submitted together with those of other rows. Reads of
 * later rounds are submitted for each row alone. */
#include "loader/tiers/loader_storage.h"

#include "loader/tiers/loader_files.h"
#include "loader/loader_handle.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_worker.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <inttypes.h>

/* Only reports that this tier is in use: the storage is already open, because the loader's files
 * are read by it. */
static enum pst_status open_storage(pst_loader *loader, const struct psti_loader_slots *slots,
                                    bool *in_use, struct pst_error *err)
{
    (void)loader;
    (void)slots;
    (void)err;
    *in_use = true;
    return PST_OK;
}

static void cancel(pst_loader *loader) { psti_storage_cancel(loader->storage); }

static void resume(pst_loader *loader) { psti_storage_resume(loader->storage); }

/* Finds the file of an item, and points to its bytes if they are in memory. */
static enum pst_status look_up(pst_loader *loader, struct psti_loader_source *source,
                               struct pst_error *err)
{
    const struct pst_item *item = &source->item;
    if (!loader->files.resident && item->i_file >= loader->files.n &&
        psti_dataset_has_lone_files(loader->dataset)) {
        char *path = source->items->paths;
        path += (size_t)(source - source->items->sources) * PSTI_PATH_NBYTES;
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

/* Handles a read that has ended, in a thread of the storage. */
static void read_is_done(struct psti_read *read)
{
    struct psti_loader_items *items = read->user;
    pst_loader *loader = items->loader;
    psti_latency_end(&loader->tiers.latency[PST_TIER_STORAGE], read->status == PST_OK, read->nbytes,
                     psti_clock_ns() - read->asked_ns);
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->note_read)
            loader->tiers.ops[i]->note_read(loader, items, read);
    items->done(items);
}

static void prepare_read(struct psti_loader_items *items, struct psti_read *read)
{
    read->user = items;
    read->done = read_is_done;
}

/* Prepares the row's reads. They include reads of items that another tier was asked for: if that
 * tier lacks the item, it submits the read. */
static uint32_t prepare(pst_loader *loader, struct psti_loader_items *items,
                        struct psti_loader_asked *asked)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < items->n_reads; i++)
        prepare_read(items, &items->reads[i]);
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (!source->read || source->asked)
            continue;
        psti_loader_asked_add(asked, source);
        n++;
    }
    return n;
}

void psti_loader_storage_submit(pst_loader *loader, struct psti_read **reads, uint32_t n)
{
    int64_t now = psti_clock_ns();
    for (uint32_t i = 0; i < n; i++)
        reads[i]->asked_ns = now;
    psti_latency_begin(&loader->tiers.latency[PST_TIER_STORAGE], n);
    psti_storage_submit(loader->storage, reads, n);
}

/* Submits all reads at once, so that neighbouring ones are merged. Only the pump uses
 * loader->gather.reads. */
static void submit(pst_loader *loader, const struct psti_loader_asked *asked)
{
    struct psti_read *few[PSTI_LOADER_ASKED_MAX];
    struct psti_read **reads = asked->n > PSTI_LOADER_ASKED_MAX ? loader->gather.reads : few;
    uint32_t n = 0;
    for (struct psti_loader_source *source = asked->first; n < asked->n;
         source = source->next_asked)
        reads[n++] = source->read;
    psti_loader_storage_submit(loader, reads, n);
}

void psti_loader_storage_submit_more(pst_loader *loader, struct psti_loader_items *items)
{
    struct psti_read *reads[PSTI_LOADER_RANGES_MAX], *from = items->reads;
    uint32_t n = items->n_reads;
    while (n > 0) {
        uint32_t n_now = n < PSTI_LOADER_RANGES_MAX ? n : PSTI_LOADER_RANGES_MAX;
        for (uint32_t i = 0; i < n_now; i++) {
            reads[i] = from++;
            prepare_read(items, reads[i]);
        }
        n -= n_now;
        psti_loader_storage_submit(loader, reads, n_now);
    }
}

void psti_loader_storage_read_here(struct psti_loader_worker *worker)
{
    const struct psti_loader_items *items = &worker->items;
    enum pst_status status = PST_OK;
    int64_t start = psti_clock_ns();
    for (uint32_t i = 0; status == PST_OK && i < items->n_reads; i++)
        if (!items->reads[i].data)
            status = psti_loader_worker_run_read(worker, &items->reads[i]);
    psti_loader_worker_read_here(worker, start, true);
}

static void release(pst_loader *loader, struct psti_loader_items *items)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        psti_loader_files_release(loader, source->item.i_file, source->file);
        source->file = NULL;
    }
}

const struct psti_loader_tier_ops psti_loader_tier_storage = {
    .open = open_storage,
    .cancel = cancel,
    .resume = resume,
    .look_up = look_up,
    .prepare = prepare,
    .submit = submit,
    .ask_here = psti_loader_storage_read_here,
    .release = release,
};
