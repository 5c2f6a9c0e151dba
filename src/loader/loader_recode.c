/* loader_recode.c - re-codes an image for the cache (decode/decode_recode.h).
 *
 * In: the bytes of an item whose row was filled. Out: the item in the form that the set keeps. The
 * worker that filled the row does it at once, with its own decoder and that decoder's scratch. All
 * other memory is at most loader->recode_nbytes, which was charged when the loader was opened. So
 * an image's size alone decides if there is memory to re-code it. One that cannot be re-coded stays
 * as it is, which PST_FALLBACK_CACHE_FORM counts. */
#include "decode/decode_recode.h"
#include "loader/loader_counters.h"
#include "loader/loader_handle.h"
#include "loader/loader_row.h"
#include "loader/loader_worker.h"

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

void psti_loader_recode(struct psti_loader_worker *worker, const struct psti_loader_source *source,
                        struct psti_buffer *out, struct psti_cache_span *item)
{
    pst_loader *loader = worker->loader;
    const struct psti_recode_tools tools = {
        .decoder = give_decoder, .ctx = worker, .nbytes_max = loader->recode_nbytes};
    const struct psti_recode_source image = {
        .bytes = source->data, .nbytes = source->item.nbytes, .form = source->item.form};
    struct psti_recoded recoded;
    switch (psti_decode_recode(&tools, PSTI_RECODE_PLI_JPEG, &image, out, &recoded)) {
    case PSTI_RECODE_DONE:
        break;
    case PSTI_RECODE_NOT_FOR:
        return;
    case PSTI_RECODE_FAILED:
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_FORM, 1);
        return;
    }
    *item = (struct psti_cache_span){recoded.bytes, recoded.nbytes, (uint8_t)recoded.form};
    atomic_fetch_add_explicit(&loader->n_cache_recoded, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->nbytes_cache_saved, source->item.nbytes - recoded.nbytes,
                              memory_order_relaxed);
}
