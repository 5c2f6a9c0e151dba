/* loader_parts.h - the data sets (parts) under whose identities caches and the fleet keep a
 * loader's items.
 *
 * A plain data set is one part. A mixture has a part for each data set among its sources. So a
 * cache or a fleet keeps one copy of an item for all mixtures that contain the data set, and for
 * the data set alone. The loader numbers samples and items of its own data set; each part has its
 * own numbers and its own forms, whose keys name the part's fields. For a loader with a cache of
 * this process, a mixture of more than PSTI_CACHE_SETS_MAX data sets is one part, because each set
 * of a cache reserves address space. A fleet used with that cache has the same part, so both number
 * an item alike. */
#ifndef PST_LOADER_LOADER_PARTS_H
#define PST_LOADER_LOADER_PARTS_H

#include "cache/cache.h"
#include "loader/tiers/loader_training.h"
#include "share/share_cache_wire.h"

#include <penstock/penstock.h>

struct psti_loader_part {
    const pst_dataset *dataset; /* the loader's data set, or the first source that has this part */
    uint32_t i_source;          /* number of that source in the mixture */
    struct psti_cache_shape shape;
    uint32_t numbers[PST_MAX_FIELDS]; /* number in the shape of each field's first variant */
    /* The cache of this process keeps the part's images as they are stored, and idle workers
     * re-code them. psti_loader_later_open sets it. */
    bool later;
    /* The rule of pictures at the training size, with the part's numbers of fields. 0 bytes: there
     * is none. */
    uint32_t rule_nbytes;
    uint8_t *rule;
};

struct psti_loader_parts {
    uint32_t n;
    struct psti_loader_part *list;
    /* Both arrays exist for mixtures only. They are NULL if the loader's data set is the only
     * part. */
    uint32_t *of_source; /* [n_sources] number of each source's part in `list` */
    uint32_t *items;     /* [n_sources][n_items] number in the part of each item of the loader */
    uint32_t n_items;
};

/* Where a cache or the fleet keeps an item of the loader. */
struct psti_loader_place {
    uint32_t i_part, i_item;
    uint64_t sample;
};

/* Makes the parts for the present loader->kept. The loader is not changed. PST_ERROR_UNSUPPORTED:
 * the host cache cannot have so many parts. PST_ERROR_MEMORY. */
enum pst_status psti_loader_parts_make(const pst_loader *loader, struct psti_loader_parts *parts,
                                       struct pst_error *err);
void psti_loader_parts_clear(struct psti_loader_parts *parts);
/* Returns where the item is kept. i_item: its number for the loader (psti_loader_kept_number). Any
 * thread. */
struct psti_loader_place psti_loader_parts_place(const pst_loader *loader, uint64_t sample,
                                                 uint32_t i_item);

#endif
