/* loader_quarantine.c - the list of bad samples, each of them once.
 *
 * In: errors of bad samples, in the order in which they count. Out: the list, which any thread may
 * read. The loader's lock guards it. */
#include "loader/loader_quarantine.h"

#include "loader/loader_handle.h"
#include "loader/loader_usable.h"

#include "base/alloc.h"
#include "base/fail.h"

#define QUARANTINE_MAX 4096

void psti_loader_quarantine_add(pst_loader *loader, const struct pst_error *what)
{
    for (uint32_t i = 0; i < loader->n_quarantined; i++)
        if (loader->quarantine[i].sample == what->sample)
            return; /* known from an earlier epoch */
    if (loader->n_quarantined == QUARANTINE_MAX)
        return;
    if (loader->n_quarantined == loader->quarantine_cap) {
        uint32_t cap = loader->quarantine_cap ? 2 * loader->quarantine_cap : 16;
        uint64_t more = (cap - loader->quarantine_cap) * sizeof *loader->quarantine;
        if (!psti_batch_pool_charge(loader->pool, more, false))
            return;
        struct pst_error *grown =
            psti_realloc(loader->quarantine, cap * sizeof *loader->quarantine);
        if (!grown) {
            psti_batch_pool_uncharge(loader->pool, more);
            return; /* only the list is cut; the counts are right */
        }
        loader->quarantine = grown;
        loader->quarantine_cap = cap;
    }
    loader->quarantine[loader->n_quarantined++] = *what;
}

void psti_loader_quarantine_count(pst_loader *loader, const struct pst_error *what)
{
    pthread_mutex_lock(loader->lock);
    psti_loader_quarantine_add(loader, what);
    loader->stats.n_bad++;
    pthread_mutex_unlock(loader->lock);
}

uint64_t pst_loader_n_quarantined(const pst_loader *loader)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return 0;
    pthread_mutex_lock(loader->lock);
    uint64_t n = loader->n_quarantined;
    pthread_mutex_unlock(loader->lock);
    return n;
}

enum pst_status pst_loader_quarantined(const pst_loader *loader, uint64_t i, struct pst_error *what,
                                       struct pst_error *err)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    enum pst_status status = PST_OK;
    pthread_mutex_lock(loader->lock);
    if (i < loader->n_quarantined)
        *what = loader->quarantine[i];
    else
        status = psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                           "there is no bad sample %llu: the list has %llu", (unsigned long long)i,
                           (unsigned long long)loader->n_quarantined);
    pthread_mutex_unlock(loader->lock);
    return status;
}
