/* cache.h - the door of cache: stored items of data sets in memory; nothing is evicted.
 *
 * A set holds the items of one version of one data set. Whoever is about to read an item asks for
 * it first. The answer is the item's bytes, or that the asker reads the item and then keeps it
 * here, or that there is no room. Any thread may call anything; asking takes no lock. */
#ifndef PST_CACHE_CACHE_H
#define PST_CACHE_CACHE_H

#include <penstock/cache.h>

#include <stdbool.h>

struct psti_cache_set;

/* Which data set, of which version, and how many items it may have. */
struct psti_cache_shape {
    uint8_t identity[16]; /* equal for two data sets only if all their bytes are */
    uint64_t n_samples;
    uint32_t n_items; /* of each sample: the variants of all its fields */
};

struct psti_cache_span {
    const void *bytes; /* valid until the set is closed */
    uint64_t nbytes;
};

enum psti_cache_answer {
    PSTI_CACHE_HIT,   /* the span is set */
    PSTI_CACHE_ADMIT, /* room is reserved: end this by psti_cache_keep or psti_cache_give_up */
    PSTI_CACHE_PASS   /* no room, or another thread is about to keep it */
};

/* The set of that data set in the cache; it is made if it is not there yet. Holds the cache. A set
 * that nobody has open stays until another one needs its memory, the longest closed one first.
 * PST_ERROR_LIMIT: its table alone does not fit. */
enum pst_status psti_cache_set_open(pst_cache *cache, const struct psti_cache_shape *shape,
                                    struct psti_cache_set **out, struct pst_error *err);
/* No span of it may be in use. NULL-safe. */
void psti_cache_set_close(struct psti_cache_set **set);

/* As pst_cache_stats, but n_items counts those of this set. */
void psti_cache_set_stats(struct psti_cache_set *set, struct pst_cache_stats *stats);

/* Asks for item `i_item` of a sample (numbers below those of the shape), which is nbytes long. */
enum psti_cache_answer psti_cache_ask(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                      uint64_t nbytes, struct psti_cache_span *span);
/* Copies the bytes that were read. False: memory did not come, and the reservation is given up. */
bool psti_cache_keep(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                     const void *bytes, uint64_t nbytes);
/* The item could not be read, or is not good: its room is for others. */
void psti_cache_give_up(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                        uint64_t nbytes);

#endif
