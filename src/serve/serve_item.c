/* serve_item.c - brings one item from storage into the host cache, on a worker.
 *
 * Only one worker reads an item, because the loop makes one read for each item. The bytes are
 * compared with their checksum before any client sees them, and re-coded if the set keeps another
 * form, at once or later (serve_later.c). A part of a compressed page is decompressed, because the
 * page holds other items, too. The bytes read are not kept in the page cache as well. */
#include "serve/serve_cache.h"

#include "base/codings/codings.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/inflate.h"
#include "base/log.h"
#include "dataset/dataset.h"
#include "decode/decode_recode.h"

#include <stdlib.h>
#include <string.h>

#define PATH_NBYTES 4096
#define RECODE_MAX_NBYTES ((uint64_t)64 << 20) /* memory for re-coding one image, on each worker */
#define SPARE_MAX_NBYTES ((uint64_t)64 << 20)  /* a buffer that has grown larger is freed after
                                                  its item */

static enum pst_status read_bytes(const struct serve_set *set, const struct pst_item *item,
                                  struct psti_worker *worker, const void **bytes,
                                  struct pst_error *err)
{
    char path[PATH_NBYTES], name[PATH_NBYTES];
    int at;
    pst_dataset *dataset = set->data->dataset;
    struct psti_storage *storage = set->cache->storage;
    struct psti_read read = {.offset = item->offset, .nbytes = item->nbytes, .drop = true};
    enum pst_status status =
        psti_buffer_reserve(&worker->bytes, psti_storage_buffer_nbytes(storage, item->nbytes),
                            "serve", "to read an item", err);
    if (status == PST_OK)
        status = pst_dataset_file_path(dataset, item->i_file, path, sizeof path, err);
    if (status == PST_OK)
        status = psti_dataset_check_shard(dataset, item->i_file, err);
    if (status == PST_OK)
        status = psti_dataset_file_at(dataset, item->i_file, &at, name, sizeof name, err);
    if (status == PST_OK && item->i_file < psti_dataset_n_shared_files(dataset))
        status = psti_storage_file_open_at(storage, at, name, path, &read.file, err);
    if (status != PST_OK)
        return status;
    read.path = path;
    read.stamp = psti_dataset_file_stamp(dataset, item->i_file);
    read.buffer = worker->bytes.bytes;
    status = psti_storage_read(storage, &read);
    if (status != PST_OK && err)
        *err = read.error;
    *bytes = read.data;
    if (read.file)
        psti_storage_file_close(&read.file);
    return status;
}

static enum pst_status check(const struct pst_item *item, const void *bytes, struct pst_error *err)
{
    bool has_crc32 = item->has_crc32 && item->coding == PST_CODING_STORED; /* compressed items
                                                                              are checked by the
                                                                              clients, who
                                                                              decompress them */
    if (item->has_checksum && psti_hash64(bytes, item->nbytes) != item->checksum)
        return psti_fail(err, PST_ERROR_CHECKSUM, "serve",
                         "the stored bytes have another checksum");
    if (has_crc32 && psti_crc32(0, bytes, item->nbytes) != item->crc32)
        return psti_fail(err, PST_ERROR_CHECKSUM, "serve",
                         "the item has another CRC-32 than its file states");
    return PST_OK;
}

/* Decompresses the page that the item is a part of. *bytes: that part. Afterwards *item describes
 * uncompressed bytes. */
static enum pst_status decode_page(struct psti_worker *worker, struct pst_item *item,
                                   const void **bytes, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (worker->codings == NULL)
        status = psti_codings_open(&worker->codings, 0, "serve", err);
    if (status == PST_OK)
        status = psti_buffer_reserve(&worker->decoded, item->page_nbytes, "serve",
                                     "to decode a page", err);
    if (status == PST_OK)
        status = psti_dataset_item_decode(worker->codings, item, *bytes, worker->decoded.bytes,
                                          bytes, err);
    if (status == PST_OK)
        psti_dataset_item_decoded(item);
    return status;
}

/* True if the key says that whole items of that field are re-coded. */
static bool recodes(uint64_t key, uint32_t i_field)
{
    return psti_recode_has_field(key, i_field) && psti_recode_form(key) < PSTI_RECODE_N_FORMS;
}

/* Describes the item's bytes for re-coding. */
static struct psti_recode_source source_of(const struct pst_item *item,
                                           const struct psti_cache_span *span)
{
    struct psti_recode_source source = {
        span->bytes, span->nbytes, item->form, {0}, item->orientation};
    if (item->form == PST_FORM_RAW)
        source.raw = psti_dataset_raw_info(item);
    return source;
}

/* Opens the worker's decoder, if it has none. False: that failed. */
static bool has_decoder(struct psti_worker *worker)
{
    return worker->decoder || psti_decode_open(&worker->decoder, NULL) == PST_OK;
}

/* Re-codes the item, if the set keeps another form of it. *reserved: bytes that the cache has
 * reserved for the item. */
static enum psti_cache_recoding recode(const struct serve_set *set, uint32_t i_field,
                                       const struct pst_item *item, struct psti_worker *worker,
                                       struct psti_cache_span *span, uint64_t *reserved)
{
    const struct psti_recode_source source = source_of(item, span);
    const struct psti_training_field *smaller =
        set->training ? psti_loader_training_field_of(set->training, i_field) : NULL;
    uint64_t key = set->training ? set->training->recode : set->shape.forms;
    enum psti_recode_result result = PSTI_RECODE_NOT_FOR;
    struct psti_recoded recoded;
    uint8_t bit = PSTI_TRAINING_FORM;
    if (!recodes(key, i_field) && !smaller)
        return PSTI_CACHE_NOT_TO_RECODE;
    if (item->coding != PST_CODING_STORED) /* clients decompress such items, so they are kept as
                                              stored */
        return PSTI_CACHE_RECODE_FAILED;
    if (!has_decoder(worker))
        return PSTI_CACHE_RECODE_FAILED;
    /* The service cannot know whether a mask is rotated with its image, so such masks are kept
     * whole. */
    const struct psti_training_tools tools = {
        .recode = {psti_decode_recode_alone, worker->decoder, RECODE_MAX_NBYTES},
        .is_turned = smaller && smaller->may_turn};
    if (smaller)
        result = psti_loader_training_make(&tools, smaller, set->training->form, &source,
                                           &worker->recoded, &recoded);
    if (result == PSTI_RECODE_NOT_FOR && recodes(key, i_field)) {
        bit = 0;
        result = psti_decode_recode(&tools.recode, psti_recode_form(key), &source, &worker->recoded,
                                    &recoded);
    }
    if (result != PSTI_RECODE_DONE)
        return result == PSTI_RECODE_FAILED ? PSTI_CACHE_RECODE_FAILED : PSTI_CACHE_NOT_TO_RECODE;
    if (recoded.nbytes > *reserved) {
        if (!psti_cache_enlarge(set->items_set, *reserved, recoded.nbytes))
            return PSTI_CACHE_RECODE_FAILED;
        *reserved = recoded.nbytes;
    }
    *span = (struct psti_cache_span){recoded.bytes, recoded.nbytes,
                                     (uint8_t)((unsigned)recoded.form | bit)};
    return PSTI_CACHE_RECODED;
}

/* True if the item is kept as stored now, and re-coded later. If there is no memory for the list of
 * such items, it is re-coded at once. */
static bool waits(const struct serve_read *read, const struct pst_item *item)
{
    const struct serve_set *set = read->set;
    return read->later && !set->training && item->coding == PST_CODING_STORED &&
           psti_cache_later_open(set->items_set, 1);
}

/* Frees buffers of the worker that have grown large. */
static void trim(struct psti_worker *worker)
{
    if (worker->bytes.capacity > SPARE_MAX_NBYTES)
        psti_buffer_free(&worker->bytes);
    if (worker->decoded.capacity > SPARE_MAX_NBYTES)
        psti_buffer_free(&worker->decoded);
    if (worker->recoded.capacity > SPARE_MAX_NBYTES)
        psti_buffer_free(&worker->recoded);
}

/* Reads an item for which the cache has reserved space, and stores it there. */
static enum psti_cache_result fill(struct serve_read *read, uint32_t i_field, struct pst_item *item,
                                   struct psti_worker *worker)
{
    struct serve_set *set = read->set;
    uint64_t sample = read->number / set->shape.n_items;
    uint64_t kept = psti_dataset_item_kept_nbytes(item), reserved = kept;
    uint32_t i_item = (uint32_t)(read->number % set->shape.n_items);
    const void *bytes = NULL;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = read_bytes(set, item, worker, &bytes, &err);
    if (status == PST_OK && psti_dataset_item_is_paged(item))
        status = decode_page(worker, item, &bytes, &err);
    if (status == PST_OK)
        status = check(item, bytes, &err);
    if (status != PST_OK) {
        psti_cache_give_up(set->items_set, sample, i_item, kept);
        psti_log(PST_LOG_WARNING, "serve", "%s: sample %llu: %s", set->wanted.dataset.path,
                 (unsigned long long)sample, err.text);
        return PSTI_CACHE_RESULT_FAILED;
    }
    struct psti_cache_span span = {bytes, item->nbytes, PSTI_CACHE_AS_STORED};
    read->nbytes = item->nbytes;
    if (!waits(read, item))
        read->recoding = recode(set, i_field, item, worker, &span, &reserved);
    if (read->recoding == PSTI_CACHE_RECODED && span.nbytes < item->nbytes)
        read->nbytes_saved = item->nbytes - span.nbytes;
    /* If memory is lacking, or no gap in the cache is large enough, the client reads the item
     * itself. */
    return psti_cache_keep(set->items_set, sample, i_item, reserved, &span)
               ? PSTI_CACHE_RESULT_READ
               : PSTI_CACHE_RESULT_DECLINED;
}

void psti_serve_item(struct serve_read *read, struct psti_worker *worker)
{
    struct serve_set *set = read->set;
    uint64_t sample = read->number / set->shape.n_items;
    uint32_t i_item = (uint32_t)(read->number % set->shape.n_items), i_field, variant;
    struct pst_item item;
    struct psti_cache_span span;
    psti_share_cache_field(set->data->dataset, set->items, i_item, &i_field, &variant);
    read->result = PSTI_CACHE_RESULT_FAILED;
    if (pst_dataset_item(set->data->dataset, sample, i_field, variant, &item, sizeof item, NULL) !=
            PST_OK ||
        item.i_file == PST_FILE_NONE || item.nbytes == 0)
        return;
    switch (psti_cache_ask(set->items_set, sample, i_item, psti_dataset_item_kept_nbytes(&item),
                           &span)) {
    case PSTI_CACHE_HIT:
        read->result = PSTI_CACHE_RESULT_HERE;
        break;
    case PSTI_CACHE_PASS:
        read->result = PSTI_CACHE_RESULT_DECLINED;
        break;
    case PSTI_CACHE_ADMIT:
        read->result = fill(read, i_field, &item, worker);
        break;
    }
    trim(worker);
}

/* Re-codes an item of the cache to the set's form, if the set has one for its field. */
static enum psti_recode_result recode_kept(const struct serve_set *set,
                                           const struct psti_cache_later *later,
                                           struct psti_worker *worker, struct psti_recoded *recoded)
{
    uint32_t i_field, variant, n_items = set->shape.n_items;
    const pst_dataset *dataset = set->data->dataset;
    struct pst_item item;
    psti_share_cache_field(dataset, set->items, (uint32_t)(later->number % n_items), &i_field,
                           &variant);
    if (later->span.form != PSTI_CACHE_AS_STORED || !recodes(set->shape.forms, i_field) ||
        !psti_dataset_item_is_kept(dataset, later->number / n_items, i_field, variant,
                                   later->span.nbytes, &item) ||
        item.coding != PST_CODING_STORED)
        return PSTI_RECODE_NOT_FOR;
    if (!has_decoder(worker))
        return PSTI_RECODE_FAILED;
    const struct psti_recode_tools tools = {psti_decode_recode_alone, worker->decoder,
                                            RECODE_MAX_NBYTES};
    const struct psti_recode_source source = source_of(&item, &later->span);
    return psti_decode_recode(&tools, psti_recode_form(set->shape.forms), &source, &worker->recoded,
                              recoded);
}

bool psti_serve_item_replace(struct serve_set *set, const struct psti_cache_later *later,
                             struct psti_worker *worker, struct psti_cache_ready *ready)
{
    struct psti_recoded recoded = {0};
    enum psti_recode_result result = recode_kept(set, later, worker, &recoded);
    const struct psti_cache_span span = {recoded.bytes, recoded.nbytes, (uint8_t)recoded.form};
    bool is_new = result == PSTI_RECODE_DONE;
    enum psti_cache_replaced replaced =
        psti_cache_later_put(set->items_set, later, is_new ? &span : NULL);
    if (replaced == PSTI_CACHE_REPLACED) {
        ready->recoding = PSTI_CACHE_RECODED;
        if (span.nbytes < later->span.nbytes)
            ready->nbytes_saved = later->span.nbytes - span.nbytes;
    } else if (result == PSTI_RECODE_FAILED || replaced == PSTI_CACHE_TOO_LONG) {
        ready->recoding = PSTI_CACHE_RECODE_FAILED;
    }
    trim(worker);
    return result != PSTI_RECODE_NOT_FOR;
}
