/* loader_begin.c - positions in the sequence of batches: where an epoch begins, ends and resumes.
 *
 * In: the number of an epoch, or a saved state. Out: a loader that runs from that position. These
 * functions run in the caller's thread. Only the counts of batches may be asked by any thread. */
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

/* Sets the position and the step of the next batch. */
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

/* Continues the epoch under way from a given position. No read or worker may be active. */
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
        return; /* no epoch is under way; the next epoch begins with the new batch size */
    go_on_at(loader, loader->epoch.state.position);
}

/* True if all ranks together have delivered the epoch that was begun last. Without padding
 * (no_epoch_padding) one rank may be out of batches while other ranks still have some. *position:
 * where the next step of all ranks begins. */
static bool is_delivered(const pst_loader *loader, uint64_t *position)
{
    const struct psti_loader_epoch *epoch = &loader->epoch;
    uint64_t stride = (uint64_t)loader->options.batch_size * epoch->ranks.world_size;
    *position = epoch->start + (epoch->next_step - epoch->first_step) * stride;
    return *position >= psti_order_end(loader->order, epoch->ranks, epoch->start);
}

/* True if the epoch under way is delivered or has failed. A rank without further batches, whose
 * caller has not got PST_END yet, still goes on with the other ranks. */
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

/* True if the epoch under way has been delivered completely, and `epoch` is the next number. */
static bool follows(const pst_loader *loader, uint64_t epoch)
{
    const struct psti_loader_epoch *former = &loader->epoch;
    return former->begun && !former->failed && epoch == former->number + 1 &&
           former->next_step >= psti_loader_epoch_end(former);
}

/* True if workers already make batches of the next epoch, for the rank and world size that it will
 * have. */
static bool has_begun_early(const pst_loader *loader)
{
    const struct psti_ranks *a = &loader->epoch.ranks, *b = &loader->epoch.next_ranks;
    return loader->epoch.running && loader->epoch.n_early > 0 && a->rank == b->rank &&
           a->world_size == b->world_size && !psti_loader_tiers_renew(loader);
}

#define EARLY_AFTER 3 /* number of epochs that must have followed each other without a gap */

/* Returns how many steps of the next epoch workers may start before this epoch is over. A loader
 * that went from epoch to epoch several times will probably go on; if it does not, the early work
 * is wasted and still counted. Returns 0 for loaders that share (the host service decides), for the
 * service's own loaders, and while the checksums of an index are noted epoch by epoch. */
static uint64_t early_steps(const pst_loader *loader)
{
    if (loader->epoch.n_followed < EARLY_AFTER || loader->epoch.is_led || loader->share ||
        loader->noted.sums)
        return 0;
    return psti_order_n_batches(loader->order, loader->epoch.ranks, 0);
}

/* Makes the batches under way, which were started early, the first batches of the epoch. */
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

/* Begins `epoch` at position `start` and throws away the work under way. follows_on: what follows()
 * returned. */
static enum pst_status begin_at(pst_loader *loader, uint64_t epoch, uint64_t start, bool follows_on)
{
    pthread_mutex_lock(loader->lock);
    psti_loader_run_cancel(loader);
    pthread_mutex_unlock(loader->lock);
    psti_loader_tiers_begin(loader, false);
    pthread_mutex_lock(loader->lock);
    loader->epoch.ranks = loader->epoch.next_ranks;
    if (start > 0 && psti_order_end(loader->order, loader->epoch.ranks, start) == start) {
        epoch++; /* fewer samples than one batch for each rank are left, and drop_last is set */
        start = 0;
    }
    set_place(loader, epoch, start);
    loader->epoch.begun = true;
    loader->epoch.failed = loader->epoch.ended = false;
    loader->epoch.n_bad = loader->epoch.n_good = 0;
    loader->epoch.n_followed = follows_on ? loader->epoch.n_followed + 1 : 0;
    loader->epoch.n_early = early_steps(loader);
    psti_loader_meter_begin(loader);
    loader->epoch.parked = psti_loader_share_begin(loader); /* ask the sharing group for batches
                                                               first, before starting this
                                                               loader's workers */
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

/* The default of page_samples and window_pages before it became PSTI_ORDER_PAGE_SAMPLES and
 * PSTI_ORDER_WINDOW_PAGES. */
#define FORMER_PAGE_SAMPLES 64
#define FORMER_WINDOW_PAGES 64

/* Fails because the state's order has another hash. If it is the page order with its former
 * default, the error says which options continue it. */
static enum pst_status fail_order(const pst_loader *loader, const struct pst_loader_state *state,
                                  struct pst_error *err)
{
    if (loader->options.order == PST_ORDER_PAGES &&
        state->order_hash ==
            psti_order_hash_with(loader->order, FORMER_PAGE_SAMPLES, FORMER_WINDOW_PAGES))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the state belongs to pages of %d samples and windows of %d pages, this "
                         "loader has %u and %u: set page_samples to %d and window_pages to %d",
                         FORMER_PAGE_SAMPLES, FORMER_WINDOW_PAGES, loader->options.page_samples,
                         loader->options.window_pages, FORMER_PAGE_SAMPLES, FORMER_WINDOW_PAGES);
    return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                     "the state belongs to another order, subset or weights");
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
        return fail_order(loader, state, err);
    /* A state saved after the last batch names position 0 of the next epoch. So padding never gives
     * a position beyond the end of the epoch. */
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
