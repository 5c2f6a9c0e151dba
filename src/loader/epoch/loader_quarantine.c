/* loader_quarantine.c - the list of bad samples. Each sample is listed once.
 *
 * In: errors of bad samples, in the order in which they are counted. Out: the list, which any
 * thread may read. The loader's lock guards it. */
#include "loader/epoch/loader_quarantine.h"

#include "loader/loader_handle.h"
#include "loader/loader_usable.h"

#include "base/alloc.h"
#include "base/fail.h"

#define QUARANTINE_MAX 4096

void psti_loader_quarantine_add(pst_loader *loader, const struct pst_error *what)
{
    for (uint32_t i = 0; i < loader->quarantine.n; i++)
        if (loader->quarantine.list[i].sample == what->sample)
            return; /* the list has the sample already, from an earlier epoch */
    if (loader->quarantine.n == QUARANTINE_MAX)
        return;
    if (loader->quarantine.n == loader->quarantine.capacity) {
        uint32_t cap = loader->quarantine.capacity ? 2 * loader->quarantine.capacity : 16;
        uint64_t more = (cap - loader->quarantine.capacity) * sizeof *loader->quarantine.list;
        if (!psti_batch_pool_charge(loader->pool, more, false))
            return;
        struct pst_error *grown =
            psti_realloc(loader->quarantine.list, cap * sizeof *loader->quarantine.list);
        if (!grown) {
            psti_batch_pool_uncharge(loader->pool, more);
            return; /* the list stays incomplete, but the counts are right */
        }
        loader->quarantine.list = grown;
        loader->quarantine.capacity = cap;
    }
    loader->quarantine.list[loader->quarantine.n++] = *what;
}

void psti_loader_quarantine_count(pst_loader *loader, const struct pst_error *what)
{
    pthread_mutex_lock(loader->lock);
    psti_loader_quarantine_add(loader, what);
    loader->meters.stats.n_bad++;
    pthread_mutex_unlock(loader->lock);
}

uint64_t pst_loader_n_quarantined(const pst_loader *loader)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return 0;
    pthread_mutex_lock(loader->lock);
    uint64_t n = loader->quarantine.n;
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
    if (i < loader->quarantine.n)
        *what = loader->quarantine.list[i];
    else
        status = psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                           "there is no bad sample %llu: the list has %llu", (unsigned long long)i,
                           (unsigned long long)loader->quarantine.n);
    pthread_mutex_unlock(loader->lock);
    return status;
}
