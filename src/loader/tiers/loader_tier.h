/* loader_tier.h - tiers: the places that the bytes of a row's items may come from.
 *
 * A tier is one file with one table of operations. loader_tiers.c has the list of them all, in the
 * order in which they are asked, and walks over those that a loader has: a cache of this process
 * (loader_cache.c), the host service (loader_host.c), a fleet of servers (loader_fleet.c), the
 * shelf of sibling loaders (loader_shelf.c), pages that were decoded for other items
 * (loader_pages.c), and storage (loader_storage.c), which has every item.
 *
 *     look_up   each item of a row: the tier points to its bytes, or is going to be asked for them
 *     join      all items of the row were looked up, and the row has its place in the order
 *     prepare   the row has memory; requests for its items are made
 *     submit    requests of many rows go out together; each that ends calls items->done
 *     take      the row's requests have ended: the tier points to the bytes that it brought
 *     await     the row waits for what others bring
 *     keep      the row was filled: the tier may keep copies of its items
 *     release   the row needs its items no more
 *
 * A worker that makes a row by itself calls ask_here in place of prepare and submit. An operation
 * that a tier does not need is NULL. "The lock" is the loader's. */
#ifndef PST_LOADER_LOADER_TIER_H
#define PST_LOADER_LOADER_TIER_H

#include "base/latency.h"
#include "cache/cache.h"
#include "loader/loader.h"
#include "loader/tiers/loader_kept.h"
#include "loader/loader_source.h"

#include <penstock/penstock.h>

#include <stdatomic.h>

struct psti_loader_worker;
struct psti_loader_pages;
struct psti_shelf;

enum {
    PSTI_LOADER_TIERS = 6, /* tiers that there are */
    /* Sources that tiers but storage are asked for by one submit, at most; those that storage is
     * asked for where rows are not gathered. */
    PSTI_LOADER_ASKED_MAX = 2 * PST_MAX_FIELDS
};

struct psti_loader_tier_ops {
    /* True: a request takes the place of the source's read; if the tier does not bring the item,
     * it submits that read itself. False: the source has no read at first; the loader reads the
     * item later if the tier has not brought it. */
    bool stands_in;

    /* Life. The caller's thread, while no worker runs. */

    /* Opens what the options, or slots (may be NULL), ask for. *in_use is false before: the loader
     * has the tier if it is set to true. */
    enum pst_status (*open)(pst_loader *loader, const struct psti_loader_slots *slots, bool *in_use,
                            struct pst_error *err);
    /* Also called if the tier is not in use. */
    void (*close)(pst_loader *loader);
    /* From now on items of these parts are kept: the same data sets, in other forms. After failure
     * the former ones are. Of the tiers that a loader has, one at most has this operation: a cache
     * of this process, or the host cache. */
    enum pst_status (*change)(pst_loader *loader, const struct psti_loader_parts *parts,
                              struct pst_error *err);

    /* Epochs. */

    /* An epoch begins. The caller's thread, without the lock. Rows of the epoch may be under way,
     * but not if the tier has `renews`. */
    void (*begin)(pst_loader *loader);
    /* True if `begin` has something to exchange that rows under way would use. The caller's thread,
     * with the lock. */
    bool (*renews)(const pst_loader *loader);
    /* An epoch has ended. Waits for what the tier still does for it. False: the deadline came
     * before. The caller's thread, without the lock. */
    bool (*settle)(pst_loader *loader, int64_t deadline_ns);
    /* Ends all requests soon, until resume. The lock is held, and may be released meanwhile. */
    void (*cancel)(pst_loader *loader);
    void (*resume)(pst_loader *loader);

    /* Rows. The thread that has the row, without the lock where nothing else is said. */

    /* Called for a source without data, until a tier sets it. May set source->asked. An error is
     * one of the row. */
    enum pst_status (*look_up)(pst_loader *loader, struct psti_loader_source *source,
                               struct pst_error *err);
    /* items NULL: the row at that place could not be located. Rows of the pump only, one at a time,
     * in their order. May take memory out of items->block_nbytes. */
    void (*join)(pst_loader *loader, struct psti_loader_items *items, uint64_t epoch,
                 uint64_t position);
    /* True while reads of further rows should wait. The lock is held. A thread of the tier signals
     * loader->work when that ends. */
    bool (*is_crowded)(pst_loader *loader);
    /* Adds the row's sources for which the tier is to be asked. Returns how many. The lock is held.
     */
    uint32_t (*prepare)(pst_loader *loader, struct psti_loader_items *items,
                        struct psti_loader_asked *asked);
    /* Submits what prepare has added. A source may be gone as soon as its request is submitted. */
    void (*submit)(pst_loader *loader, const struct psti_loader_asked *asked);
    /* Asks for sources of worker->items in this thread, and waits. */
    void (*ask_here)(struct psti_loader_worker *worker);
    /* Called when a request to this tier has ended: source->asked names the tier. False: the tier
     * does not have the item, and it must be read from storage. */
    bool (*take)(pst_loader *loader, struct psti_loader_source *source);
    /* Called by a thread of the storage when a read of the row's first round has ended, also when
     * it failed. */
    void (*note_read)(pst_loader *loader, struct psti_loader_items *items,
                      const struct psti_read *read);
    enum pst_status (*await)(struct psti_loader_worker *worker, struct psti_loader_items *items,
                             struct pst_error *err);
    /* Asked from the last tier to the first: one that keeps the source clears its is_wanted. */
    void (*keep)(pst_loader *loader, struct psti_loader_source *source,
                 struct psti_loader_copy *copy);
    /* May be called again for the same row. */
    void (*release)(pst_loader *loader, struct psti_loader_items *items);

    /* Any thread, without the lock. */
    void (*stats)(const pst_loader *loader, struct pst_loader_stats *stats);
};

/* The tiers of a loader. What is NULL is not in use. */
struct psti_loader_tiers {
    /* Where items come from, in the order in which these are asked. The last is the storage. */
    const struct psti_loader_tier_ops *ops[PSTI_LOADER_TIERS];
    uint32_t n;
    struct psti_latency latency[PST_TIER_STORAGE + 1]; /* with a lock of its own */
    struct psti_cache_set **cache;                     /* [kept.parts.n]; NULL: no cache */
    /* The session with the host cache. It is exchanged between epochs, with the lock, when no
     * worker has work. */
    struct psti_share_cache *host;
    char *host_path;       /* of the service's socket; NULL: no host cache */
    bool host_strict;      /* pst_cache_host_options.strict */
    char host_reason[256]; /* why the host cache is not used; under the lock */
    struct psti_fleet_set *fleet;
    /* loader_fleet.c, the caller's thread; 0: nothing is waited for at the end of an epoch */
    int64_t settle_until_ns;
    struct psti_loader_pages *pages;
    struct psti_shelf *shelf;
    uint32_t i_member; /* of the shelf */
    /* Any thread counts: */
    atomic_uint_fast64_t n_hits, n_training_hits, nbytes_hit, n_misses;
    atomic_uint_fast64_t n_recoded, nbytes_saved, later_ns;
    atomic_uint_fast64_t n_fetched, nbytes_fetched;
};

extern const struct psti_loader_tier_ops psti_loader_tier_cache, psti_loader_tier_host,
    psti_loader_tier_fleet, psti_loader_tier_shelf, psti_loader_tier_pages,
    psti_loader_tier_storage;

/* False: a set could not be opened again after a change had failed. */
bool psti_loader_cache_is_open(const pst_loader *loader);
/* For the fleet, which has the item of that place: gives up the reservation of nbytes that the
 * cache of this process has for it, or stores the item there, as psti_cache_keep does. */
void psti_loader_cache_give_up(pst_loader *loader, const struct psti_loader_place *place,
                               uint64_t nbytes);
bool psti_loader_cache_store(pst_loader *loader, const struct psti_loader_place *place,
                             uint64_t nbytes, const struct psti_cache_span *item);

/* Walks over the tiers that the loader has, which do what the operation of the same name does.
 * Storage is open already, and is closed by the loader. */
enum pst_status psti_loader_tiers_open(pst_loader *loader, const struct psti_loader_slots *slots,
                                       struct pst_error *err);
void psti_loader_tiers_close(pst_loader *loader);
/* Keeps items of loader->kept.key, if another key was in use. After failure all is as before. */
enum pst_status psti_loader_tiers_change(pst_loader *loader, struct pst_error *err);
/* busy: rows of the epoch are under way. */
void psti_loader_tiers_begin(pst_loader *loader, bool busy);
bool psti_loader_tiers_renew(const pst_loader *loader);
bool psti_loader_tiers_settle(pst_loader *loader, int64_t deadline_ns);
void psti_loader_tiers_cancel(pst_loader *loader);
void psti_loader_tiers_resume(pst_loader *loader);
/* True if a tier before the storage may have items, so that files are not read as a whole. */
bool psti_loader_tiers_have_items(const pst_loader *loader);
enum pst_status psti_loader_tiers_look_up(pst_loader *loader, struct psti_loader_source *source,
                                          struct pst_error *err);
void psti_loader_tiers_join(pst_loader *loader, struct psti_loader_items *items, uint64_t epoch,
                            uint64_t position);
bool psti_loader_tiers_are_crowded(pst_loader *loader);
/* asked: one for each tier of the loader; the last is the storage's. Each request that ends calls
 * items->done, which the caller has set. Returns how many requests the row has. */
uint32_t psti_loader_tiers_prepare(pst_loader *loader, struct psti_loader_items *items,
                                   struct psti_loader_asked asked[PSTI_LOADER_TIERS]);
void psti_loader_tiers_submit(pst_loader *loader,
                              const struct psti_loader_asked asked[PSTI_LOADER_TIERS]);
void psti_loader_tiers_ask_here(struct psti_loader_worker *worker);
enum pst_status psti_loader_tiers_await(struct psti_loader_worker *worker,
                                        struct psti_loader_items *items, struct pst_error *err);
/* Re-codes those items that options.cache_form is for. */
void psti_loader_tiers_keep(struct psti_loader_worker *worker, struct psti_loader_source *sources);
/* False: no tier keeps anything. */
bool psti_loader_tiers_may_keep(const pst_loader *loader);
void psti_loader_tiers_release(pst_loader *loader, struct psti_loader_items *items);
void psti_loader_tiers_stats(const pst_loader *loader, struct pst_loader_stats *stats);

#endif
