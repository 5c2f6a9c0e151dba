/* loader_source.c - helpers that every step of loading a row needs for its items: the item's name
 * in an error, the size of its buffers, its kind. Any thread that has the row may call; no
 * locks. */
#include "loader/loader_source.h"

#include "loader/loader_handle.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "dataset/dataset.h"

bool psti_loader_items_open(struct psti_loader_items *items, pst_loader *loader)
{
    const struct psti_loader_plan *plan = &loader->plan;
    bool by_path = psti_dataset_has_lone_files(loader->dataset);
    *items = (struct psti_loader_items){.loader = loader, .state = PSTI_LOADER_ROW_READY};
    items->sources = psti_calloc(plan->n_items + 1, sizeof *items->sources);
    items->reads = psti_calloc(plan->n_reads + 1, sizeof *items->reads);
    if (by_path)
        items->paths = psti_alloc_array(plan->n_items + 1, PSTI_PATH_NBYTES);
    return items->sources && items->reads && (items->paths || !by_path);
}

void psti_loader_items_close(struct psti_loader_items *items)
{
    psti_free(items->sources);
    psti_free(items->reads);
    psti_free(items->paths);
    *items = (struct psti_loader_items){.state = PSTI_LOADER_ROW_READY};
}

void psti_loader_asked_add(struct psti_loader_asked *asked, struct psti_loader_source *source)
{
    source->next_asked = NULL;
    if (asked->n > 0)
        asked->last->next_asked = source;
    else
        asked->first = source;
    asked->last = source;
    asked->n++;
}

void psti_loader_source_name_error(const pst_loader *loader, uint64_t sample,
                                   const struct psti_loader_source *source, struct pst_error *err)
{
    if (!err)
        return;
    psti_dataset_name_error(loader->dataset, (int64_t)sample, err);
    if (!source)
        return;
    enum pst_form form = source->item.form;
    if (!err->codec[0] && form != PST_FORM_NONE && form != PST_FORM_BYTES)
        psti_error_set_codec(err, pst_form_name(form));
    if (source->item.i_file == PST_FILE_NONE)
        return;
    char path[PSTI_PATH_NBYTES];
    if (!err->file[0] && pst_dataset_file_path(loader->dataset, source->item.i_file, path,
                                               sizeof path, NULL) == PST_OK)
        psti_error_set_file(err, path);
    if (err->offset < 0)
        err->offset = (int64_t)source->item.offset;
}

size_t psti_loader_source_buffer_nbytes(const pst_loader *loader,
                                        const struct psti_loader_source *source)
{
    /* The fleet may send a part of a page decoded, which can take more bytes than the stored
     * page. */
    uint64_t stored = source->item.nbytes, kept = psti_dataset_item_kept_nbytes(&source->item);
    return psti_round_up(psti_storage_buffer_nbytes(loader->storage, kept > stored ? kept : stored),
                         psti_storage_buffer_alignment(loader->storage));
}

size_t psti_loader_source_decoded_nbytes(const pst_loader *loader,
                                         const struct psti_loader_source *source)
{
    return source->item.coding == PST_CODING_STORED
               ? 0
               : psti_round_up((size_t)psti_dataset_item_scratch_nbytes(&source->item) + 1,
                               psti_storage_buffer_alignment(loader->storage));
}

enum pst_status psti_loader_source_take_read(const pst_loader *loader, uint64_t sample,
                                             struct psti_loader_source *source,
                                             const struct psti_read *read, struct pst_error *err)
{
    if (read->status == PST_OK) {
        source->data = read->data;
        return PST_OK;
    }
    if (err)
        *err = read->error;
    psti_loader_source_name_error(loader, sample, source, err);
    return read->status;
}

struct pst_image_info psti_loader_source_raw_info(const struct psti_loader_source *source)
{
    const struct psti_training_picture *picture = &source->picture;
    if (picture->n_ops == 0)
        return psti_dataset_raw_info(&source->item);
    return (struct pst_image_info){.form = PST_FORM_RAW,
                                   .height = picture->height,
                                   .width = picture->width,
                                   .channels = picture->channels,
                                   .bits = picture->bits,
                                   .orientation = 1};
}
