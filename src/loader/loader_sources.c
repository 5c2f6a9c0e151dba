/* loader_sources.c - weights of a mixture's sources: reads them from the options, and changes
 * them. */
#include "loader/loader_sources.h"

#include "loader/epoch/loader_begin.h"
#include "loader/epoch/loader_run.h"
#include "loader/epoch/loader_share.h"
#include "loader/loader_handle.h"
#include "loader/loader_usable.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <inttypes.h>
#include <unistd.h>

static enum pst_status check_options(const pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    uint32_t n_sources = pst_dataset_n_sources(loader->dataset), n = options->n_source_weights;
    if (!options->source_weights && (options->source_firsts || n || options->source_quota ||
                                     options->source_stop != PST_SOURCE_STOP_ALL))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "source_firsts, n_source_weights, source_quota and source_stop are for "
                         "source_weights, which is NULL");
    if (!options->source_weights)
        return PST_OK;
    if (n_sources == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "source_weights are for mixtures: this is one data set");
    if (!options->source_firsts && n != n_sources)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "n_source_weights is %u: the mixture has %u sources", n, n_sources);
    return PST_OK;
}

enum pst_status psti_loader_sources_read(pst_loader *loader, struct psti_order_mix *mix,
                                         uint64_t **firsts, struct pst_error *err)
{
    struct pst_loader_options *options = &loader->options;
    enum pst_status status = check_options(loader, err);
    *firsts = NULL;
    *mix = (struct psti_order_mix){0};
    if (status != PST_OK || !options->source_weights)
        return status;
    if (options->source_quota == 0)
        options->source_quota = options->batch_size;
    *mix = (struct psti_order_mix){
        .firsts = options->source_firsts,
        .weights = options->source_weights,
        .n_sources = options->n_source_weights,
        .quota = options->source_quota == PST_QUOTA_EPOCH ? 0 : options->source_quota,
        .stop = options->source_stop,
    };
    if (mix->firsts)
        return PST_OK;
    *firsts = psti_alloc_array(mix->n_sources, sizeof **firsts);
    if (!*firsts)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for %u sources",
                         mix->n_sources);
    for (uint32_t k = 0; k < mix->n_sources; k++)
        (*firsts)[k] = pst_dataset_source_first(loader->dataset, k);
    mix->firsts = *firsts;
    return PST_OK;
}

/* Charges host_memory for `more` bytes that the order's tables need now. A negative number releases
 * memory. */
static bool charge(void *ctx, int64_t more)
{
    pst_loader *loader = ctx;
    if (more < 0)
        psti_batch_pool_uncharge(loader->pool, (uint64_t)-more);
    else if (!psti_batch_pool_charge(loader->pool, (uint64_t)more, false))
        return false;
    loader->memory_nbytes += (uint64_t)more;
    return true;
}

enum pst_status pst_loader_set_source_weights(pst_loader *loader, const uint64_t *places,
                                              const double *weights, uint32_t n,
                                              struct pst_error *err)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    if (n > 0 && (!places || !weights))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "n is %u, places or weights NULL", n);
    enum pst_status status = psti_loader_check_broken(loader, err);
    if (status != PST_OK)
        return status;
    int fd = -1;
    if (loader->options.n_source_weights > 0)
        status = psti_loader_share_prepare_change(loader, places, weights, n, &fd, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(loader->lock);
    psti_loader_run_cancel(loader);
    status = psti_order_set_changes(loader->order, places, weights, n, charge, loader, err);
    if (status == PST_OK)
        psti_loader_share_change(loader, fd);
    else if (fd >= 0)
        close(fd);
    loader->epoch.state.order_hash = psti_order_hash(loader->order);
    psti_loader_go_on(loader);
    pthread_mutex_unlock(loader->lock);
    return status;
}
