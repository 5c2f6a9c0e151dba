/* loader_recode.c - re-codes an image for the cache (decode/decode_recode.h).
 *
 * In: the bytes of an item whose row was filled. Out: the item in the form that the set keeps. The
 * worker that filled the row does it at once, with its own decoder and that decoder's scratch. All
 * other memory is at most loader->recode_nbytes, which was charged when the loader was opened. So
 * an image's size alone decides if there is memory to re-code it. One that cannot be re-coded stays
 * as it is. */
#include "decode/decode_recode.h"
#include "loader/loader_handle.h"
#include "loader/loader_row.h"
#include "loader/loader_worker.h"

#include "dataset/dataset.h"

/* The worker's decoder may have been closed, if it could not be opened again with larger scratch.
 */
static struct psti_decoder *give_decoder(void *ctx, bool more)
{
    struct psti_loader_worker *worker = ctx;
    if (!more)
        worker->emptied = false;
    else if (!psti_loader_worker_grow(worker))
        return NULL;
    return worker->decoder;
}

enum psti_recode_result psti_loader_recode(struct psti_loader_worker *worker,
                                           const struct psti_loader_source *source,
                                           struct psti_buffer *out, struct psti_cache_span *item)
{
    const struct psti_recode_tools tools = {
        .decoder = give_decoder, .ctx = worker, .nbytes_max = worker->loader->recode_nbytes};
    struct psti_recode_source image = {
        .bytes = source->data, .nbytes = source->item.nbytes, .form = source->item.form};
    struct psti_recoded recoded;
    if (source->item.form == PST_FORM_RAW)
        image.raw = psti_dataset_raw_info(&source->item);
    enum psti_recode_result result = psti_decode_recode(
        &tools, psti_recode_form(worker->loader->cache_key), &image, out, &recoded);
    if (result == PSTI_RECODE_DONE)
        *item = (struct psti_cache_span){recoded.bytes, recoded.nbytes, (uint8_t)recoded.form};
    return result;
}
