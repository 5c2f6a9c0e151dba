/* loader_tier.h - tiers: the places that the bytes of a row's items may come from.
 *
 * Each tier is one file with one table of operations. loader_tiers.c lists all tiers in the order
 * in which they are asked, and calls those that a loader has: a cache of this process
 * (loader_cache.c), the host service (loader_host.c), a fleet of servers (loader_fleet.c), the
 * shelf of sibling loaders (loader_shelf.c), pages that were decompressed for other items
 * (loader_pages.c), and storage (loader_storage.c), which has every item.
 *
 *     look_up   for each item of a row: the tier points to its bytes, or will be asked for them
 *     join      all items of the row were looked up, and its place in the order is known
 *     prepare   the row has memory; the tier prepares requests for its items
 *     submit    sends the requests of many rows together; each that ends calls items->done
 *     take      the row's requests have ended: the tier points to the bytes that it brought
 *     await     the row waits for bytes that other loaders bring
 *     keep      the row was filled: the tier may keep copies of its items
 *     release   the row needs its items no longer
 *
 * A worker that makes a row by itself calls ask_here instead of prepare and submit. Operations that
 * a tier does not need are NULL. "The lock" is the loader's. */
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
    PSTI_LOADER_TIERS = 6, /* number of tiers that exist */
    /* Maximum number of sources in one submit: for all tiers except the storage together, and for
     * the storage if rows are not gathered. */
    PSTI_LOADER_ASKED_MAX = 2 * PST_MAX_FIELDS
};

struct psti_loader_tier_ops {
    /* True: a request replaces the source's read; if the tier lacks the item, it submits that read
     * itself. False: the source has no read at first; the loader reads the item later if the tier
     * has not brought it. */
    bool stands_in;

    /* Opening, changing and closing. Called in the caller's thread while no worker runs. */

    /* Opens what the options, or slots (may be NULL), ask for. Sets *in_use, which is false before,
     * to true if the loader has this tier. */
    enum pst_status (*open)(pst_loader *loader, const struct psti_loader_slots *slots, bool *in_use,
                            struct pst_error *err);
    /* Closes the tier. Also called if it is not in use. */
    void (*close)(pst_loader *loader);
    /* Changes the parts whose items are kept: the same data sets, in other forms. After failure the
     * old parts are still kept. At most one tier of a loader has this operation: a cache of this
     * process, or the host cache. */
    enum pst_status (*change)(pst_loader *loader, const struct psti_loader_parts *parts,
                              struct pst_error *err);

    /* Operations at the beginning and the end of epochs. */

    /* Called when an epoch begins, in the caller's thread without the lock. Rows of the epoch may
     * be under way already, unless the tier has `renews`. */
    void (*begin)(pst_loader *loader);
    /* True if `begin` would exchange something that rows under way use. Called in the caller's
     * thread with the lock. */
    bool (*renews)(const pst_loader *loader);
    /* Called when an epoch has ended. Waits for the tier's remaining work for it. False: the
     * deadline was reached. Called in the caller's thread, without the lock. */
    bool (*settle)(pst_loader *loader, int64_t deadline_ns);
    /* Makes all requests end soon, until `resume` is called. The lock is held, and may be released
     * meanwhile. */
    void (*cancel)(pst_loader *loader);
    void (*resume)(pst_loader *loader);

    /* Operations on rows. Called by the thread that has the row, without the lock unless said
     * otherwise. */

    /* Looks for a source's item. Called for each tier in order until one sets source->data. May set
     * source->asked. An error is an error of the row. */
    enum pst_status (*look_up)(pst_loader *loader, struct psti_loader_source *source,
                               struct pst_error *err);
    /* Called after all items of a row were looked up; items NULL: the row could not be located.
     * Called for the pump's rows only, one at a time, in their order. May reduce
     * items->block_nbytes. */
    void (*join)(pst_loader *loader, struct psti_loader_items *items, uint64_t epoch,
                 uint64_t position);
    /* True while the tier has so much to do that reads of further rows should wait. The lock is
     * held. As soon as they may go on, a thread of the tier signals loader->work. */
    bool (*is_crowded)(pst_loader *loader);
    /* Adds to `asked` those sources of the row that the tier will be asked for. Returns their
     * number. The lock is held. */
    uint32_t (*prepare)(pst_loader *loader, struct psti_loader_items *items,
                        struct psti_loader_asked *asked);
    /* Submits the requests that `prepare` has added. A source may be freed as soon as its request
     * is submitted. */
    void (*submit)(pst_loader *loader, const struct psti_loader_asked *asked);
    /* Asks the tier for sources of worker->items in this thread, and waits for the answers. */
    void (*ask_here)(struct psti_loader_worker *worker);
    /* Called when a request to this tier has ended; source->asked names the tier. False: the tier
     * does not have the item, so it must be read from storage. */
    bool (*take)(pst_loader *loader, struct psti_loader_source *source);
    /* Called by a thread of the storage when a read of a row's first round has ended, also after
     * failure. */
    void (*note_read)(pst_loader *loader, struct psti_loader_items *items,
                      const struct psti_read *read);
    enum pst_status (*await)(struct psti_loader_worker *worker, struct psti_loader_items *items,
                             struct pst_error *err);
    /* Offers a copy to the tier. Called from the last tier to the first. A tier that keeps the item
     * clears source->is_wanted. */
    void (*keep)(pst_loader *loader, struct psti_loader_source *source,
                 struct psti_loader_copy *copy);
    /* Called when the row no longer needs its items: frees everything that the row holds in the
     * tier. May be called again for the same row. */
    void (*release)(pst_loader *loader, struct psti_loader_items *items);

    /* Fills in the tier's counts. Any thread, without the lock. */
    void (*stats)(const pst_loader *loader, struct pst_loader_stats *stats);
};

/* The tiers of a loader. Members that are NULL belong to tiers that are not in use. */
struct psti_loader_tiers {
    /* The tiers in the order in which they are asked. The last one is the storage. */
    const struct psti_loader_tier_ops *ops[PSTI_LOADER_TIERS];
    uint32_t n;
    struct psti_latency latency[PST_TIER_STORAGE + 1]; /* latency of each tier; has locks of its
                                                          own */
    struct psti_cache_set **cache;                     /* [kept.parts.n] sets of this process's
                                                          cache; NULL: no cache */
    /* The session with the host cache. It is exchanged between epochs, with the lock held, when no
     * worker has work. */
    struct psti_share_cache *host;
    char *host_path;       /* path of the service's socket; NULL: no host cache */
    bool host_strict;      /* pst_cache_host_options.strict */
    int64_t host_greet_ns; /* how long opening a session waits for the service's greeting */
    char host_reason[256]; /* why the host cache is not used; guarded by the lock */
    struct psti_fleet_set *fleet;
    /* deadline of the caller's thread for its wait at the end of an epoch (loader_fleet.c); 0: it
     * does not wait */
    int64_t settle_until_ns;
    struct psti_loader_pages *pages;
    struct psti_shelf *shelf;
    uint32_t i_member; /* number of the loader among the shelf's members */
    /* Counters, to which any thread adds: */
    atomic_uint_fast64_t n_hits, n_training_hits, nbytes_hit, n_misses;
    atomic_uint_fast64_t n_recoded, nbytes_saved, later_ns;
    atomic_uint later_turn; /* of the part whose item is re-coded next, without end */
    atomic_uint_fast64_t n_fetched, nbytes_fetched;
};

extern const struct psti_loader_tier_ops psti_loader_tier_cache, psti_loader_tier_host,
    psti_loader_tier_fleet, psti_loader_tier_shelf, psti_loader_tier_pages,
    psti_loader_tier_storage;

/* True if all sets are open. False: a set could not be opened again after a failed change. */
bool psti_loader_cache_is_open(const pst_loader *loader);
/* Both functions end the reservation of nbytes that this process's cache made for the item at
 * `place`, which the fleet then delivered or not. give_up stores nothing; the other function stores
 * the item, as psti_cache_keep does. */
void psti_loader_cache_give_up(pst_loader *loader, const struct psti_loader_place *place,
                               uint64_t nbytes);
bool psti_loader_cache_store(pst_loader *loader, const struct psti_loader_place *place,
                             uint64_t nbytes, const struct psti_cache_span *item);

/* These functions call the operation of the same name of each tier that the loader has. The storage
 * must be open already, and the loader closes it. */
enum pst_status psti_loader_tiers_open(pst_loader *loader, const struct psti_loader_slots *slots,
                                       struct pst_error *err);
void psti_loader_tiers_close(pst_loader *loader);
/* Makes caches keep items in the set with the key loader->kept.key, if they used another key
 * before. After failure nothing has changed. */
enum pst_status psti_loader_tiers_change(pst_loader *loader, struct pst_error *err);
/* busy: rows of the epoch are already under way. */
void psti_loader_tiers_begin(pst_loader *loader, bool busy);
bool psti_loader_tiers_renew(const pst_loader *loader);
bool psti_loader_tiers_settle(pst_loader *loader, int64_t deadline_ns);
void psti_loader_tiers_cancel(pst_loader *loader);
void psti_loader_tiers_resume(pst_loader *loader);
/* True if a tier other than the storage may have items. Then the kernel must not read whole files
 * ahead. */
bool psti_loader_tiers_have_items(const pst_loader *loader);
enum pst_status psti_loader_tiers_look_up(pst_loader *loader, struct psti_loader_source *source,
                                          struct pst_error *err);
void psti_loader_tiers_join(pst_loader *loader, struct psti_loader_items *items, uint64_t epoch,
                            uint64_t position);
bool psti_loader_tiers_are_crowded(pst_loader *loader);
/* Prepares the row's requests. asked: a list for each tier of the loader; the last belongs to the
 * storage. Each request that ends calls items->done, which the caller has set. Returns how many
 * requests the row has. */
uint32_t psti_loader_tiers_prepare(pst_loader *loader, struct psti_loader_items *items,
                                   struct psti_loader_asked asked[PSTI_LOADER_TIERS]);
void psti_loader_tiers_submit(pst_loader *loader,
                              const struct psti_loader_asked asked[PSTI_LOADER_TIERS]);
void psti_loader_tiers_ask_here(struct psti_loader_worker *worker);
enum pst_status psti_loader_tiers_await(struct psti_loader_worker *worker,
                                        struct psti_loader_items *items, struct pst_error *err);
/* Offers copies of the row's items to the tiers, after re-coding those that options.cache_form
 * applies to. */
void psti_loader_tiers_keep(struct psti_loader_worker *worker, struct psti_loader_source *sources);
/* False: no tier of the loader keeps items. */
bool psti_loader_tiers_may_keep(const pst_loader *loader);
void psti_loader_tiers_release(pst_loader *loader, struct psti_loader_items *items);
void psti_loader_tiers_stats(const pst_loader *loader, struct pst_loader_stats *stats);

#endif
