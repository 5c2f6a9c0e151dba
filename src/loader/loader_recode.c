/* loader_recode.c - re-codes a JPEG as pli-jpeg for the cache.
 *
 * In: the bytes of an item whose row was filled. Out: a PLI of content 2, smaller than the JPEG,
 * for which it was proven that its pixels are the JPEG's. The worker that filled the row does it at
 * once. The decoder of the proof is the worker's own, with the worker's scratch. All other memory
 * is allocated for one image and freed after it, at most loader->recode_nbytes, which was charged
 * when the loader was opened. So a JPEG's size alone decides if there is memory to re-code it. A
 * JPEG that cannot be re-coded stays as it is, which PST_FALLBACK_CACHE_FORM counts. */
#include "loader/loader_counters.h"
#include "loader/loader_handle.h"
#include "loader/loader_row.h"
#include "loader/loader_worker.h"

#include "base/fail.h"
#include "pli/pli.h"

static bool is_jpeg(const struct psti_loader_plan_field *field,
                    const struct psti_loader_source *source)
{
    struct pst_image_info info;
    struct psti_pli_header header = {0};
    enum pst_form form = source->item.form;
    return (form == PST_FORM_JPEG || form == PST_FORM_NONE) &&
           psti_decode_probe_pli(source->data, source->item.nbytes, form, &field->decode, &info,
                                 &header, NULL) == PST_OK &&
           info.form == PST_FORM_JPEG;
}

/* Hashes the JPEG's pixels. Its whole image may need more scratch than the row did. */
static enum pst_status hash_jpeg(void *ctx, const void *jpeg, size_t nbytes, uint64_t *checksum,
                                 struct pst_error *err)
{
    struct psti_loader_worker *worker = ctx;
    enum pst_status status;
    if (!worker->decoder) /* it could not be opened again with larger scratch */
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a decoder");
    worker->emptied = false;
    do
        status = psti_decode_hash_jpeg(worker->decoder, jpeg, nbytes, checksum, err);
    while (status == PST_ERROR_LIMIT && psti_loader_worker_grow(worker));
    return status;
}

/* Makes the PLI in `pli`. An error means that the JPEG stays as it is. */
static enum pst_status recode(struct psti_loader_worker *worker, const void *jpeg, size_t nbytes,
                              struct psti_buffer *pli, size_t *pli_nbytes)
{
    static const struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options};
    const struct psti_pli_reference reference = {.hash = hash_jpeg, .ctx = worker};
    struct psti_pli_keep memory = {0};
    uint64_t most = 0;
    enum pst_status status = psti_pli_keep_nbytes(jpeg, nbytes, &most, NULL);
    if (status == PST_OK && most + nbytes > worker->loader->recode_nbytes)
        status = PST_ERROR_LIMIT;
    if (status == PST_OK)
        status = psti_buffer_reserve(pli, nbytes, "loader", "to re-code a JPEG", NULL);
    if (status == PST_OK)
        status = psti_pli_keep_jpeg(&memory, &reference, jpeg, nbytes, &options, pli->bytes,
                                    nbytes - 1, pli_nbytes, NULL);
    psti_pli_keep_free(&memory);
    return status;
}

void psti_loader_recode(struct psti_loader_worker *worker,
                        const struct psti_loader_plan_field *field,
                        const struct psti_loader_source *source, struct psti_buffer *pli,
                        struct psti_cache_span *item)
{
    pst_loader *loader = worker->loader;
    size_t nbytes = 0;
    if (!is_jpeg(field, source))
        return;
    if (recode(worker, source->data, source->item.nbytes, pli, &nbytes) != PST_OK) {
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_FORM, 1);
        return;
    }
    *item = (struct psti_cache_span){pli->bytes, nbytes, PST_FORM_PLI_JPEG};
    atomic_fetch_add_explicit(&loader->n_cache_recoded, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->nbytes_cache_saved, source->item.nbytes - nbytes,
                              memory_order_relaxed);
}
