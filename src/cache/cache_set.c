/* cache_set.c - the items of one data set: a table of places, and the memory they lie in.
 *
 * Items are only ever added, one after the other. So an offset that was published stays valid as
 * long as the set is open, and asking needs no lock. An entry of the table goes from 0 (the item is
 * not here) to 1 (one thread has reserved space), and from 1 to the item's offset + 2 or back to 0.
 * A writer stores the item's bytes first and then the entry, with release order. A reader loads the
 * entry with acquire order and then reads the bytes. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

#define ALIGNMENT 16
#define NOT_HERE 0
#define RESERVED 1
#define FIRST_PLACE 2

/* Computes the bytes that an item takes in memory and in the budget. Returns false if the item is
 * too long. */
static bool item_room(uint64_t nbytes, uint64_t *room)
{
    if (nbytes > SIZE_MAX / 2)
        return false;
    *room = psti_round_up(sizeof(struct psti_cache_item) + nbytes, ALIGNMENT);
    return true;
}

enum pst_status psti_cache_set_make(pst_cache *cache, const struct psti_cache_shape *shape,
                                    struct psti_cache_set **out, struct pst_error *err)
{
    uint64_t n, nbytes;
    *out = NULL;
    if (!psti_mul_u64(shape->n_samples, shape->n_items, &n) ||
        !psti_mul_u64(n, sizeof(atomic_uint_fast64_t), &nbytes))
        return psti_fail(err, PST_ERROR_LIMIT, "cache", "%" PRIu64 " samples are too many",
                         shape->n_samples);
    struct psti_cache_set *set = psti_calloc(1, sizeof *set);
    if (!set)
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for a set");
    set->cache = cache;
    set->shape = *shape;
    if (!psti_cache_take(set, nbytes)) {
        psti_cache_set_free(set);
        return psti_fail(err, PST_ERROR_LIMIT, "cache",
                         "the cache of %" PRIu64 " bytes has no room for a table of %" PRIu64
                         " bytes over this data set's items",
                         cache->limit, nbytes);
    }
    set->table = psti_calloc(n ? n : 1, sizeof *set->table);
    enum pst_status status = set->table
                                 ? psti_cache_memory_open(&set->memory, cache->limit, err)
                                 : psti_fail(err, PST_ERROR_MEMORY, "cache",
                                             "no memory for a table of %" PRIu64 " bytes", nbytes);
    if (status != PST_OK) {
        psti_cache_set_free(set);
        return status;
    }
    *out = set;
    return PST_OK;
}

void psti_cache_set_free(struct psti_cache_set *set)
{
    psti_cache_return(set, atomic_load(&set->nbytes));
    psti_cache_memory_close(&set->memory);
    psti_free(set->table);
    psti_free(set);
}

static atomic_uint_fast64_t *entry_of(struct psti_cache_set *set, uint64_t sample, uint32_t i_item)
{
    return &set->table[sample * set->shape.n_items + i_item];
}

enum psti_cache_answer psti_cache_ask(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                      uint64_t nbytes, struct psti_cache_span *span)
{
    atomic_uint_fast64_t *entry = entry_of(set, sample, i_item);
    uint_fast64_t found = atomic_load_explicit(entry, memory_order_acquire);
    uint64_t room;
    if (found >= FIRST_PLACE) {
        const struct psti_cache_item *item =
            (const void *)(set->memory.bytes + (found - FIRST_PLACE));
        *span = (struct psti_cache_span){item + 1, item->nbytes};
        return PSTI_CACHE_HIT;
    }
    if (found == RESERVED || !item_room(nbytes, &room) || !psti_cache_take(set, room))
        return PSTI_CACHE_PASS;
    found = NOT_HERE;
    if (atomic_compare_exchange_strong(entry, &found, RESERVED))
        return PSTI_CACHE_ADMIT;
    psti_cache_return(set, room); /* another thread was faster */
    return PSTI_CACHE_PASS;
}

void psti_cache_give_up(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                        uint64_t nbytes)
{
    uint64_t room = 0;
    item_room(nbytes, &room);
    psti_cache_return(set, room);
    atomic_store_explicit(entry_of(set, sample, i_item), NOT_HERE, memory_order_relaxed);
}

bool psti_cache_keep(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                     const void *bytes, uint64_t nbytes)
{
    uint64_t room = 0;
    item_room(nbytes, &room);
    size_t place = atomic_load_explicit(&set->end, memory_order_relaxed);
    /* The end moves only after its memory came. So it never passes the budget, nor the range. */
    do {
        if (!psti_cache_memory_claim(&set->memory, place + room)) {
            psti_cache_give_up(set, sample, i_item, nbytes);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&set->end, &place, place + room,
                                                    memory_order_relaxed, memory_order_relaxed));
    struct psti_cache_item *item = (void *)(set->memory.bytes + place);
    *item = (struct psti_cache_item){.nbytes = nbytes};
    memcpy(item + 1, bytes, nbytes);
    atomic_store_explicit(entry_of(set, sample, i_item), place + FIRST_PLACE, memory_order_release);
    atomic_fetch_add_explicit(&set->n_items, 1, memory_order_relaxed);
    return true;
}
