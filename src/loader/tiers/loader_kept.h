/* loader_kept.h - what caches and the fleet keep of items: the loader's choice, and functions that
 * all keeping tiers share. */
#ifndef PST_LOADER_LOADER_KEPT_H
#define PST_LOADER_LOADER_KEPT_H

#include "base/buffer.h"
#include "cache/cache.h"
#include "decode/decode_recode.h"
#include "loader/loader_plan.h"
#include "loader/loader_source.h"
#include "loader/tiers/loader_parts.h"

struct psti_training;

/* The items of the data set that caches and the fleet keep. loader_cache_choice.c sets it. It
 * changes only while no worker runs. */
struct psti_loader_kept {
    struct psti_cache_shape shape;    /* describes the whole data set of the loader */
    uint32_t numbers[PST_MAX_FIELDS]; /* for each field: number of its first variant in the shape */
    struct psti_loader_parts parts;   /* the data sets under which cache, host cache and fleet
                                         keep items */
    uint64_t recode_key;            /* fields whose whole images are re-coded, and how
                                       (psti_recode_key) */
    struct psti_training *training; /* rule of the fields that are kept at the training size;
                                       NULL: none */
    uint64_t key;                   /* key of the cache's set: recode_key, or training->key */
    uint8_t *plan;                  /* [n_samples] 0: the cache must not keep the sample; NULL: it
                                       may keep all */
    uint64_t recode_nbytes;         /* bytes that each thread may use for re-coding */
    bool later; /* the cache keeps images as stored at first; they are re-coded later */
};

/* A copy of an item, for the tiers that keep items. */
struct psti_loader_copy {
    struct psti_cache_span stored, item; /* `stored`: as the data set stores it; `item`:
                                            re-coded, or equal to `stored` */
    struct psti_buffer buffer;           /* memory of the re-coded item */
    enum psti_recode_result result;
};

/* Makes copy->item equal to copy->stored. */
void psti_loader_kept_as_stored(struct psti_loader_copy *copy);
/* Returns the item's number within its sample, by the loader's shape. */
uint32_t psti_loader_kept_number(const pst_loader *loader, const struct psti_loader_source *source);
/* Returns where the cache, the host cache and the fleet keep the item. */
struct psti_loader_place psti_loader_kept_place(const pst_loader *loader,
                                                const struct psti_loader_source *source);
/* True if options.cache_plan lets caches keep the sample's items. */
bool psti_loader_kept_admits(const pst_loader *loader, uint64_t sample);
/* Points the source to bytes from a cache or the fleet. False: they cannot be this loader's
 * item. */
bool psti_loader_kept_take(const pst_loader *loader, const struct psti_cache_span *span,
                           struct psti_loader_source *source);
/* Counts the result of re-coding the item. */
void psti_loader_kept_count_recoded(pst_loader *loader, const struct psti_loader_copy *copy);
/* Counts an item that the host service re-coded on this loader's behalf. */
void psti_loader_kept_count_ready(pst_loader *loader, enum psti_cache_recoding recoding,
                                  uint64_t nbytes_saved);
/* Counts a cache hit of nbytes for the source's item. */
void psti_loader_kept_count_hit(pst_loader *loader, const struct psti_loader_source *source,
                                uint64_t nbytes);
/* Fills in the loader's counts about a cache, and the cache's own figures. */
void psti_loader_kept_stats(const pst_loader *loader, const struct pst_cache_stats *cache,
                            struct pst_loader_stats *stats);

#endif
