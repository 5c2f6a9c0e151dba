/* loader_begin.c - places in the sequence of batches: where an epoch begins, ends and goes on.
 *
 * In: an epoch, or a state. Out: a loader that runs from that place. All of it runs in the caller's
 * thread, but for the numbers of batches, which any thread may ask for. */
#include "loader/epoch/loader_begin.h"

#include "loader/loader_handle.h"
#include "loader/epoch/loader_meter.h"
#include "loader/epoch/loader_run.h"
#include "loader/epoch/loader_share.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_usable.h"

#include "base/fail.h"

#include <penstock/mixture.h>
#include <penstock/settings.h>

#include <inttypes.h>

uint64_t pst_loader_n_batches(const pst_loader *loader)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_order_n_batches(loader->order, loader->epoch.next_ranks, 0);
    pthread_mutex_lock(loader->lock);
    struct psti_ranks ranks = loader->epoch.next_ranks;
    pthread_mutex_unlock(loader->lock);
    return psti_order_n_batches(loader->order, ranks, 0);
}

uint64_t pst_loader_n_batches_from(const pst_loader *loader, uint64_t position, uint32_t rank,
                                   uint32_t world_size)
{
    struct psti_ranks ranks = {rank, world_size};
    if (psti_order_check_ranks(ranks, NULL) != PST_OK)
        return 0;
    return psti_order_n_batches(loader->order, ranks, position);
}

enum pst_status pst_loader_set_ranks(pst_loader *loader, uint32_t rank, uint32_t world_size,
                                     struct pst_error *err)
{
    struct psti_ranks ranks = {rank, world_size ? world_size : 1};
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    enum pst_status status = psti_order_check_ranks(ranks, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(loader->lock);
    loader->epoch.next_ranks = ranks;
    pthread_mutex_unlock(loader->lock);
    return PST_OK;
}

/* Sets the place of the next batch. */
static void set_place(pst_loader *loader, uint64_t epoch, uint64_t start)
{
    uint64_t stride = (uint64_t)loader->options.batch_size * loader->epoch.ranks.world_size;
    loader->epoch.number = epoch;
    loader->epoch.start = start;
    loader->epoch.step_base = start / stride;
    loader->epoch.n_steps = psti_order_n_batches(loader->order, loader->epoch.ranks, start);
    loader->epoch.ahead = loader->options.prefetch;
    loader->epoch.state.epoch = epoch;
    loader->epoch.state.position = start;
    loader->epoch.issue_end = UINT64_MAX;
    loader->epoch.first_step = loader->epoch.next_step;
    loader->epoch.n_early = 0;
}

/* Goes on in the epoch under way, from a position on. No read or work may be under way. */
static void go_on_at(pst_loader *loader, uint64_t position)
{
    set_place(loader, loader->epoch.number, position);
    if (loader->epoch.n_steps == 0) { /* the rest of the epoch has no step for this rank */
        loader->epoch.state.epoch = loader->epoch.number + 1;
        loader->epoch.state.position = 0;
    }
    loader->epoch.parked = psti_loader_share_begin(loader);
    if (!loader->epoch.parked)
        psti_loader_run_start(loader, loader->epoch.next_step);
}

void psti_loader_go_on(pst_loader *loader)
{
    if (!loader->epoch.begun || loader->epoch.failed ||
        loader->epoch.next_step >= psti_loader_epoch_end(&loader->epoch))
        return; /* no epoch is under way; the next one begins with the new size of batches */
    go_on_at(loader, loader->epoch.state.position);
}

/* True if all ranks together have delivered the epoch that was begun last. Without padding
 * (no_epoch_padding) a rank may have had its last batch while others still have one. *position:
 * where all ranks' next step begins. */
static bool is_delivered(const pst_loader *loader, uint64_t *position)
{
    const struct psti_loader_epoch *epoch = &loader->epoch;
    uint64_t stride = (uint64_t)loader->options.batch_size * epoch->ranks.world_size;
    *position = epoch->start + (epoch->next_step - epoch->first_step) * stride;
    return *position >= psti_order_end(loader->order, epoch->ranks, epoch->start);
}

/* True if the epoch under way is delivered, or has failed. If the caller of a rank that has had its
 * last batch has not got PST_END yet, the rank goes on with the others. */
static bool is_over(const pst_loader *loader, uint64_t *position)
{
    const struct psti_loader_epoch *epoch = &loader->epoch;
    return !epoch->begun || epoch->failed || epoch->ended || is_delivered(loader, position);
}

enum pst_status pst_loader_set_world(pst_loader *loader, uint32_t rank, uint32_t world_size,
                                     struct pst_error *err)
{
    uint64_t position = 0;
    enum pst_status status = pst_loader_set_ranks(loader, rank, world_size, err);
    if (status != PST_OK || loader->epoch.broken)
        return status == PST_OK ? psti_loader_check_broken(loader, err) : status;
    pthread_mutex_lock(loader->lock);
    struct psti_ranks former = loader->epoch.ranks, wanted = loader->epoch.next_ranks;
    if (!is_over(loader, &position) &&
        (former.rank != wanted.rank || former.world_size != wanted.world_size)) {
        psti_loader_run_cancel(loader);
        loader->epoch.ranks = wanted;
        go_on_at(loader, position);
    }
    pthread_mutex_unlock(loader->lock);
    return PST_OK;
}

/* True if the epoch under way has been delivered whole, and the wanted one follows it. */
static bool follows(const pst_loader *loader, uint64_t epoch)
{
    const struct psti_loader_epoch *former = &loader->epoch;
    return former->begun && !former->failed && epoch == former->number + 1 &&
           former->next_step >= psti_loader_epoch_end(former);
}

/* True if batches of the epoch that follows are under way already, and are those of its ranks. */
static bool has_begun_early(const pst_loader *loader)
{
    const struct psti_ranks *a = &loader->epoch.ranks, *b = &loader->epoch.next_ranks;
    return loader->epoch.running && loader->epoch.n_early > 0 && a->rank == b->rank &&
           a->world_size == b->world_size && !psti_loader_tiers_renew(loader);
}

#define EARLY_AFTER 3 /* epochs in a row */

/* Returns how many steps of the next epoch may be started before the one that begins now is over.
 * A loader that has gone from epoch to epoch several times will probably go on; work for one epoch
 * more than a caller wants is in vain, and in its counts. The service decides for those that share,
 * also for its own loaders, and sums of an index are noted epoch by epoch. */
static uint64_t early_steps(const pst_loader *loader)
{
    if (loader->epoch.n_followed < EARLY_AFTER || loader->epoch.is_led || loader->share ||
        loader->noted.sums)
        return 0;
    return psti_order_n_batches(loader->order, loader->epoch.ranks, 0);
}

/* The batches that are under way become the first ones of the epoch. */
static void go_over(pst_loader *loader, uint64_t epoch)
{
    set_place(loader, epoch, 0);
    loader->epoch.n_followed++;
    loader->epoch.ended = false;
    loader->epoch.n_bad = loader->epoch.n_good = 0;
    loader->epoch.n_early = early_steps(loader);
    psti_loader_meter_begin(loader);
    pthread_cond_broadcast(loader->work);
}

/* Begins at that place. What is under way is thrown away. follows_on: as follows() tells. */
static enum pst_status begin_at(pst_loader *loader, uint64_t epoch, uint64_t start, bool follows_on)
{
    pthread_mutex_lock(loader->lock);
    psti_loader_run_cancel(loader);
    pthread_mutex_unlock(loader->lock);
    psti_loader_tiers_begin(loader, false);
    pthread_mutex_lock(loader->lock);
    loader->epoch.ranks = loader->epoch.next_ranks;
    if (start > 0 && psti_order_end(loader->order, loader->epoch.ranks, start) == start) {
        epoch++; /* less than one batch of each rank is left, and drop_last is set */
        start = 0;
    }
    set_place(loader, epoch, start);
    loader->epoch.begun = true;
    loader->epoch.failed = loader->epoch.ended = false;
    loader->epoch.n_bad = loader->epoch.n_good = 0;
    loader->epoch.n_followed = follows_on ? loader->epoch.n_followed + 1 : 0;
    loader->epoch.n_early = early_steps(loader);
    psti_loader_meter_begin(loader);
    loader->epoch.parked = psti_loader_share_begin(loader); /* the group is asked first */
    if (!loader->epoch.parked)
        psti_loader_run_start(loader, loader->epoch.next_step);
    pthread_mutex_unlock(loader->lock);
    return PST_OK;
}

enum pst_status pst_loader_begin(pst_loader *loader, uint64_t epoch, struct pst_error *err)
{
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    enum pst_status status = psti_loader_check_broken(loader, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(loader->lock);
    bool follows_on = follows(loader, epoch), early = follows_on && has_begun_early(loader);
    if (early)
        go_over(loader, epoch);
    pthread_mutex_unlock(loader->lock);
    if (!early)
        return begin_at(loader, epoch, 0, follows_on);
    psti_loader_tiers_begin(loader, true);
    return PST_OK;
}

enum pst_status pst_loader_resume(pst_loader *loader, const struct pst_loader_state *state,
                                  struct pst_error *err)
{
    const struct pst_loader_state *own = &loader->epoch.state;
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    if (state->seed != own->seed)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the state belongs to seed %" PRIu64 ", this loader has seed %" PRIu64,
                         state->seed, own->seed);
    if (state->n_samples != own->n_samples)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the state belongs to %" PRIu64 " samples, this loader has %" PRIu64,
                         state->n_samples, own->n_samples);
    if (state->order_version != own->order_version)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the state was made by order version %" PRIu64
                         ", this is version %" PRIu64,
                         state->order_version, own->order_version);
    if (state->augment_version != own->augment_version)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the state was made by augmentation rule %" PRIu64
                         ", this library has rule %" PRIu64,
                         state->augment_version, own->augment_version);
    if (state->order_hash != own->order_hash)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the state belongs to another order, subset or weights");
    /* After the last batch the state is that of the next epoch. So padding gives no position beyond
     * the end. */
    if (state->position > own->n_samples)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "position %" PRIu64 " is beyond the epoch's end: it has %" PRIu64
                         " positions",
                         state->position, own->n_samples);
    enum pst_status status = psti_loader_check_broken(loader, err);
    if (status != PST_OK)
        return status;
    bool at_end = state->position > 0 && state->position == own->n_samples;
    return at_end ? begin_at(loader, state->epoch + 1, 0, false)
                  : begin_at(loader, state->epoch, state->position, false);
}

void pst_loader_state(const pst_loader *loader, struct pst_loader_state *state)
{
    *state = loader->epoch.state;
}

void pst_loader_step_place(const pst_loader *loader, uint64_t place[2])
{
    uint64_t position;
    bool goes_on = loader->epoch.begun && !is_delivered(loader, &position);
    place[0] = goes_on ? loader->epoch.number : loader->epoch.state.epoch;
    place[1] = goes_on ? position : loader->epoch.state.position;
}
