/* loader_noted.c - computes checksums of items in other people's files, for an index that lacks
 * them.
 *
 * A saved cache must be checked against the files later, which needs a checksum of each item. So a
 * loader with a cache of its own hashes the stored bytes of each item once, right after reading
 * them, which takes 2 us for 110 kB. When the checksums are complete, they are saved in the index
 * at the end of the epoch, or before the next one begins or the loader is closed. Each rank sees
 * only some samples, so the ranks' checksums are joined. The host service reads for others, so
 * neither it nor its clients compute checksums. */
#include "loader/tiers/loader_noted.h"

#include "loader/loader_handle.h"
#include "loader/loader_source.h"

#include "base/fail.h"
#include "base/log.h"
#include "dataset/dataset.h"

/* Noted checksums take at most 1 / NOTED_PART of host_memory. */
#define NOTED_PART 16

static void list_fields(const pst_loader *loader, bool wanted[PST_MAX_FIELDS])
{
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        wanted[i] = false;
    for (uint32_t i = 0; i < loader->plan.n_fields; i++)
        if (loader->plan.fields[i].i_item >= 0)
            wanted[loader->plan.fields[i].i_field] = true;
}

bool psti_loader_noted_can_check(const pst_loader *loader)
{
    bool wanted[PST_MAX_FIELDS], all = true;
    list_fields(loader, wanted);
    for (uint32_t f = 0; f < pst_dataset_n_fields(loader->dataset); f++)
        all = all && (!wanted[f] || psti_dataset_can_check_field(loader->dataset, f));
    return all;
}

bool psti_loader_noted_can_check_source(const pst_loader *loader, uint32_t i_source)
{
    const pst_dataset *source = pst_dataset_source(loader->dataset, i_source);
    bool wanted[PST_MAX_FIELDS], all = true;
    list_fields(loader, wanted);
    for (uint32_t f = 0; f < pst_dataset_n_fields(loader->dataset); f++) {
        uint32_t own = psti_dataset_source_field(loader->dataset, i_source, f);
        all = all && (!wanted[f] || psti_dataset_can_check_field(source, own));
    }
    return all;
}

const pst_dataset *psti_loader_noted_lacking(const pst_loader *loader)
{
    uint32_t n_sources = pst_dataset_n_sources(loader->dataset);
    for (uint32_t i = 0; i < n_sources; i++) {
        const pst_dataset *source = pst_dataset_source(loader->dataset, i);
        if (pst_dataset_count(source) > 0 && !psti_loader_noted_can_check_source(loader, i))
            return source;
    }
    return n_sources > 0 || psti_loader_noted_can_check(loader) ? NULL : loader->dataset;
}

void psti_loader_noted_open(pst_loader *loader)
{
    const struct pst_loader_options *options = &loader->options;
    bool wanted[PST_MAX_FIELDS];
    list_fields(loader, wanted);
    if (!options->cache || psti_cache_remote(options->cache) ||
        psti_order_n(loader->order) < pst_dataset_count(loader->dataset))
        return;
    uint64_t nbytes = psti_dataset_noted_nbytes(loader->dataset, wanted);
    if (nbytes == 0 || nbytes > options->host_memory / NOTED_PART ||
        !psti_batch_pool_charge(loader->pool, nbytes, false))
        return;
    if (psti_dataset_noted_open(loader->dataset, wanted, options->world_size > 1,
                                &loader->noted.sums, NULL) != PST_OK)
        psti_batch_pool_uncharge(loader->pool, nbytes);
    else
        loader->noted.nbytes = nbytes;
    loader->memory_nbytes += loader->noted.nbytes;
}

static void close_sums(pst_loader *loader)
{
    psti_dataset_noted_close(&loader->noted.sums);
    if (loader->noted.nbytes > 0)
        psti_batch_pool_uncharge(loader->pool, loader->noted.nbytes);
    loader->memory_nbytes -= loader->noted.nbytes;
    loader->noted.nbytes = 0;
}

void psti_loader_noted_close(pst_loader *loader)
{
    psti_loader_noted_save(loader);
    close_sums(loader);
}

void psti_loader_noted_begin(pst_loader *loader)
{
    psti_loader_noted_save(loader);
    if (loader->noted.is_over)
        close_sums(loader);
}

void psti_loader_noted_add(const pst_loader *loader, uint64_t sample,
                           const struct psti_loader_source *source)
{
    bool is_read = source->item.i_file != PST_FILE_NONE && !source->is_cached &&
                   source->fleet_nbytes == 0 && !source->partial && !source->is_recoded;
    if (loader->noted.sums && is_read && source->item.nbytes > 0)
        psti_dataset_noted_add(loader->noted.sums, sample, source->field->i_field, source->data,
                               source->item.nbytes);
}

void psti_loader_noted_save(pst_loader *loader)
{
    struct pst_error err;
    const char *path = pst_dataset_path(loader->dataset);
    if (!loader->noted.sums || loader->noted.is_over)
        return;
    pst_error_clear(&err);
    enum pst_status status =
        psti_dataset_noted_save(loader->noted.sums, &loader->noted.is_over, &err);
    if (!loader->noted.is_over)
        return;
    if (status == PST_OK)
        psti_log(PST_LOG_INFO, "loader",
                 "%s: its index has the checksums of items now: what is cached of it can be saved "
                 "once it is opened anew",
                 path);
    else
        psti_log(PST_LOG_INFO, "loader",
                 "%s: the checksums of items are not saved in its index by this loader: %s; "
                 "\"penstock index %s --sums\" makes them, if they are not there yet",
                 path, err.text, path);
}
