/* cache_set.c - the items of one data set: a table of places, and the memory they lie in.
 *
 * Items are only ever added, one after the other. So an address that was published stays valid as
 * long as the set is open, and asking needs no lock. An entry of the table goes from 0 (the item is
 * not here) to 1 (one thread has reserved space), and from 1 to the item's address or back to 0.
 * Items that were read from a file go from 0 to their address at once. A writer stores the item's
 * bytes first and then the entry, with release order. A reader loads the entry with acquire order
 * and then reads the bytes. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

#define NOT_HERE 0
#define RESERVED 1
#define FIRST_ADDRESS PSTI_CACHE_ALIGNMENT /* all addresses of items are multiples of it */

enum pst_status psti_cache_set_make(pst_cache *cache, const struct psti_cache_shape *shape,
                                    bool (*take)(struct psti_cache_set *set, uint64_t nbytes),
                                    struct psti_cache_set **out, struct pst_error *err)
{
    uint64_t n;
    *out = NULL;
    if (!psti_format_cache_numbers(shape, &n))
        return psti_fail(err, PST_ERROR_LIMIT, "cache", "%" PRIu64 " samples are too many",
                         shape->n_samples);
    struct psti_cache_set *set = psti_calloc(1, sizeof *set);
    if (!set)
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for a set");
    uint64_t nbytes = n * sizeof *set->table;
    set->cache = cache;
    set->shape = *shape;
    if (!take(set, nbytes)) {
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
    while (set->extents) {
        struct psti_cache_extent *extent = set->extents;
        set->extents = extent->next;
        psti_cache_extent_close(extent);
    }
    psti_cache_memory_close(&set->memory);
    psti_free(set->table);
    psti_free(set);
}

static uint64_t number_of(const struct psti_cache_set *set, uint64_t sample, uint32_t i_item)
{
    return sample * set->shape.n_items + i_item;
}

static atomic_uint_fast64_t *entry_of(struct psti_cache_set *set, uint64_t sample, uint32_t i_item)
{
    return &set->table[number_of(set, sample, i_item)];
}

const struct psti_cache_item *psti_cache_set_item(struct psti_cache_set *set, uint64_t number)
{
    uint_fast64_t found = atomic_load_explicit(&set->table[number], memory_order_acquire);
    return found >= FIRST_ADDRESS ? (const void *)(uintptr_t)found : NULL;
}

bool psti_cache_set_lacks(struct psti_cache_set *set, uint64_t number)
{
    return atomic_load_explicit(&set->table[number], memory_order_relaxed) == NOT_HERE;
}

/* True if the item may be one of nbytes as the data set stores it. In another form it has any
 * length. */
static bool fits(const struct psti_cache_item *item, uint64_t nbytes)
{
    return item->form != PSTI_CACHE_AS_STORED || item->nbytes == nbytes;
}

enum psti_cache_answer psti_cache_look(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                       uint64_t nbytes, struct psti_cache_span *span)
{
    const struct psti_cache_item *item = psti_cache_set_item(set, number_of(set, sample, i_item));
    if (!item || !fits(item, nbytes))
        return PSTI_CACHE_PASS;
    *span = (struct psti_cache_span){item + 1, item->nbytes, item->form};
    return PSTI_CACHE_HIT;
}

enum psti_cache_answer psti_cache_ask(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                      uint64_t nbytes, struct psti_cache_span *span)
{
    atomic_uint_fast64_t *entry = entry_of(set, sample, i_item);
    const struct psti_cache_item *item = psti_cache_set_item(set, number_of(set, sample, i_item));
    uint_fast64_t found = NOT_HERE;
    uint64_t room;
    if (item) {
        *span = (struct psti_cache_span){item + 1, item->nbytes, item->form};
        return fits(item, nbytes) ? PSTI_CACHE_HIT : PSTI_CACHE_PASS;
    }
    if (atomic_load_explicit(entry, memory_order_relaxed) != NOT_HERE ||
        !psti_format_cache_room(nbytes, &room) || !psti_cache_take(set, room))
        return PSTI_CACHE_PASS;
    if (atomic_compare_exchange_strong(entry, &found, RESERVED))
        return PSTI_CACHE_ADMIT;
    psti_cache_return(set, room); /* another thread was faster */
    return PSTI_CACHE_PASS;
}

void psti_cache_give_up(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                        uint64_t nbytes)
{
    uint64_t room = 0;
    psti_format_cache_room(nbytes, &room);
    psti_cache_return(set, room);
    atomic_store_explicit(entry_of(set, sample, i_item), NOT_HERE, memory_order_relaxed);
}

bool psti_cache_enlarge(struct psti_cache_set *set, uint64_t nbytes, uint64_t more_nbytes)
{
    uint64_t reserved = 0, room;
    psti_format_cache_room(nbytes, &reserved);
    return psti_format_cache_room(more_nbytes, &room) && psti_cache_take(set, room - reserved);
}

bool psti_cache_keep(struct psti_cache_set *set, uint64_t sample, uint32_t i_item, uint64_t nbytes,
                     const struct psti_cache_span *item)
{
    uint64_t room = 0, reserved = 0;
    psti_format_cache_room(item->nbytes, &room);
    psti_format_cache_room(nbytes, &reserved);
    size_t place = atomic_load_explicit(&set->end, memory_order_relaxed);
    /* The end moves only after its memory came. So it never passes the budget, nor the range. */
    do {
        if (!psti_cache_memory_claim(&set->memory, place + room)) {
            psti_cache_give_up(set, sample, i_item, nbytes);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&set->end, &place, place + room,
                                                    memory_order_relaxed, memory_order_relaxed));
    struct psti_cache_item *kept = (void *)(set->memory.bytes + place);
    *kept = (struct psti_cache_item){
        .nbytes = item->nbytes, .number = number_of(set, sample, i_item), .form = item->form};
    memcpy(kept + 1, item->bytes, item->nbytes);
    psti_cache_return(set, reserved - room);
    atomic_store_explicit(entry_of(set, sample, i_item), (uintptr_t)kept, memory_order_release);
    atomic_fetch_add_explicit(&set->n_items, 1, memory_order_relaxed);
    return true;
}

enum pst_status psti_cache_extent_open(size_t capacity, struct psti_cache_extent **out,
                                       struct pst_error *err)
{
    struct psti_cache_extent *extent = psti_calloc(1, sizeof *extent);
    *out = NULL;
    if (!extent)
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for the items of a file");
    enum pst_status status = psti_cache_memory_open(&extent->memory, capacity, err);
    if (status == PST_OK)
        *out = extent;
    else
        psti_free(extent);
    return status;
}

void psti_cache_extent_close(struct psti_cache_extent *extent)
{
    if (!extent)
        return;
    psti_cache_memory_close(&extent->memory);
    psti_free(extent);
}

void psti_cache_set_adopt(struct psti_cache_set *set, struct psti_cache_extent *extent, uint64_t *n,
                          uint64_t *nbytes)
{
    uint64_t room = 0;
    pthread_mutex_lock(&set->cache->lock);
    extent->next = set->extents;
    set->extents = extent;
    pthread_mutex_unlock(&set->cache->lock);
    for (size_t place = 0; place < extent->end; place += room) {
        const struct psti_cache_item *item = (const void *)(extent->memory.bytes + place);
        uint_fast64_t found = NOT_HERE;
        psti_format_cache_room(item->nbytes, &room);
        if (!atomic_compare_exchange_strong_explicit(&set->table[item->number], &found,
                                                     (uintptr_t)item, memory_order_release,
                                                     memory_order_relaxed))
            continue;
        atomic_fetch_add_explicit(&set->n_items, 1, memory_order_relaxed);
        *n += 1;
        *nbytes += item->nbytes;
    }
}
