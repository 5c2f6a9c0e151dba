/* loader_kept.h - what a cache or the fleet has of an item, for all tiers that keep items. */
#ifndef PST_LOADER_LOADER_KEPT_H
#define PST_LOADER_LOADER_KEPT_H

#include "base/buffer.h"
#include "cache/cache.h"
#include "decode/decode_recode.h"
#include "loader/loader_plan.h"
#include "loader/loader_source.h"
#include "loader/tiers/loader_parts.h"

struct psti_training;

/* The choice of what caches and the fleet keep of the data set. loader_cache_choice.c makes it. It
 * changes while no worker runs. */
struct psti_loader_kept {
    struct psti_cache_shape shape;    /* of the loader's data set as a whole */
    uint32_t numbers[PST_MAX_FIELDS]; /* number in the shape of each field's first variant */
    struct psti_loader_parts parts;   /* as the cache, the host cache and the fleet keep it */
    uint64_t recode_key;            /* fields that are re-coded whole, and how (psti_recode_key) */
    struct psti_training *training; /* fields that are kept at the training size; NULL: none */
    uint64_t key;                   /* of the cache's set: recode_key, or training->key */
    uint8_t *plan;                  /* [n_samples] not 0: the cache admits the sample; NULL: all */
    uint64_t recode_nbytes;         /* memory of each thread for re-coding */
    bool later; /* the cache keeps images as they are stored; they are re-coded later */
};

/* What is kept of an item. */
struct psti_loader_copy {
    struct psti_cache_span stored, item; /* `item` is re-coded, or the stored one */
    struct psti_buffer buffer;           /* of `item` */
    enum psti_recode_result result;
};

/* The item is kept as it is stored. */
void psti_loader_kept_as_stored(struct psti_loader_copy *copy);
/* The item's number in the sample, by the loader's shape. */
uint32_t psti_loader_kept_number(const pst_loader *loader, const struct psti_loader_source *source);
/* Returns the place at which the cache, the host cache and the fleet keep the item. */
struct psti_loader_place psti_loader_kept_place(const pst_loader *loader,
                                                const struct psti_loader_source *source);
/* True if a sample's items may be admitted by a cache: options.cache_plan. */
bool psti_loader_kept_admits(const pst_loader *loader, uint64_t sample);
/* Points the source to what a cache or the fleet has. False: the item cannot be this loader's. */
bool psti_loader_kept_take(const pst_loader *loader, const struct psti_cache_span *span,
                           struct psti_loader_source *source);
/* Counts what became of the copy's item. */
void psti_loader_kept_count_recoded(pst_loader *loader, const struct psti_loader_copy *copy);
/* Counts what the host service has re-coded because of this loader. */
void psti_loader_kept_count_ready(pst_loader *loader, enum psti_cache_recoding recoding,
                                  uint64_t nbytes_saved);
/* A cache had the item that the source points to, of nbytes. */
void psti_loader_kept_count_hit(pst_loader *loader, const struct psti_loader_source *source,
                                uint64_t nbytes);
/* Fills in what the loader counts of a cache, and what the cache itself says. */
void psti_loader_kept_stats(const pst_loader *loader, const struct pst_cache_stats *cache,
                            struct pst_loader_stats *stats);

#endif
