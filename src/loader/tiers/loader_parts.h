/* loader_parts.h - the data sets under whose names caches and the fleet keep a loader's items.
 *
 * A data set is one part. A mixture has a part for each data set among its sources, so that a cache
 * or a fleet has one copy of an item for all mixtures that the data set is in, and for the data set
 * alone. The loader counts samples and items of its own data set; a part has numbers of its own,
 * and forms whose keys name its own fields. A mixture of more than PSTI_CACHE_SETS_MAX data sets is
 * one part for a loader with a cache of this process, because each set of a cache reserves address
 * space. The fleet beside that cache has the same part, so that both have one place of an item. */
#ifndef PST_LOADER_LOADER_PARTS_H
#define PST_LOADER_LOADER_PARTS_H

#include "cache/cache.h"
#include "loader/tiers/loader_training.h"
#include "share/share_cache_wire.h"

#include <penstock/penstock.h>

struct psti_loader_part {
    const pst_dataset *dataset; /* the loader's, or the first source that has this part */
    uint32_t i_source;          /* the number of that source */
    struct psti_cache_shape shape;
    /* The rule of pictures at the training size, with the part's numbers of fields. 0 bytes: there
     * is none. */
    uint32_t rule_nbytes;
    uint8_t *rule;
};

struct psti_loader_parts {
    uint32_t n;
    struct psti_loader_part *list;
    /* Both arrays are for mixtures. They are NULL if the loader's data set is the only part. */
    uint32_t *of_source; /* [n_sources]: its part */
    uint32_t *items;     /* [n_sources][n_items]: the part's number of an item of the loader */
    uint32_t n_items;
};

/* The place at which a cache, or the fleet, keeps an item of the loader. */
struct psti_loader_place {
    uint32_t i_part, i_item;
    uint64_t sample;
};

/* Makes the parts for loader->kept as it is now. Nothing of the loader is changed.
 * PST_ERROR_UNSUPPORTED: there are too many for the host cache. PST_ERROR_MEMORY. */
enum pst_status psti_loader_parts_make(const pst_loader *loader, struct psti_loader_parts *parts,
                                       struct pst_error *err);
void psti_loader_parts_clear(struct psti_loader_parts *parts);
/* i_item: the item's number for the loader (psti_loader_kept_number). Any thread. */
struct psti_loader_place psti_loader_parts_place(const pst_loader *loader, uint64_t sample,
                                                 uint32_t i_item);

#endif
