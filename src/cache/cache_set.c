/* cache_set.c - the items of one data set: a table of addresses, and the memory of the items.
 *
 * Items are only ever added, one after the other. So a published address stays valid as long as the
 * set is open, and asking needs no lock. Only cache_later.c moves items, and keeps an old address
 * valid until its readers have left. A table entry changes from 0 (the item is not here) to 1 (a
 * thread has reserved space), and from 1 to the item's address or back to 0. For items that were
 * read from a file it changes from 0 to the address at once. In a shared set, whose table other
 * processes read, the entry of an item that found no space changes from 0 to 2, so that readers
 * need not ask the service. A writer stores the item's bytes first and then the entry, with release
 * order. A reader loads the entry with acquire order and then reads the bytes. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/sealed.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define STORE_FIRST 64 /* offset of the first item in a shared set's memory */

/* Makes the table of n entries, all 0. The memory of a store is zero at first. */
static enum pst_status make_table(struct psti_cache_set *set, uint64_t n, struct pst_error *err)
{
    size_t nbytes = psti_cache_table_nbytes(n);
    void *table = NULL;
    if (!set->cache->shared) {
        set->table = psti_calloc(1, nbytes);
    } else {
        enum pst_status status =
            psti_sealed_store_make("penstock-table", nbytes, &set->table_fd, &table, err);
        if (status != PST_OK)
            return status;
        set->table = table;
        if (psti_sealed_store_grow(set->table_fd, 0, nbytes))
            return PST_OK;
        psti_sealed_unmap(table, nbytes);
        close(set->table_fd);
        set->table_fd = -1;
        set->table = NULL;
    }
    return set->table ? PST_OK
                      : psti_fail(err, PST_ERROR_MEMORY, "cache",
                                  "no memory for a table of %zu bytes", nbytes);
}

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
    set->table_fd = -1;
    if (!take(set, nbytes)) {
        psti_cache_set_free(set);
        return psti_fail(err, PST_ERROR_LIMIT, "cache",
                         "the cache of %" PRIu64 " bytes has no room for a table of %" PRIu64
                         " bytes over this data set's items",
                         cache->limit, nbytes);
    }
    enum pst_status status = make_table(set, n, err);
    if (status == PST_OK)
        status =
            psti_cache_memory_open(&set->memory, cache->limit + STORE_FIRST, cache->shared, err);
    if (status != PST_OK) {
        psti_cache_set_free(set);
        return status;
    }
    if (cache->shared && !psti_cache_memory_claim(&set->memory, STORE_FIRST)) {
        psti_cache_set_free(set);
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no shared memory for items");
    }
    if (cache->shared) {
        set->origin = (uintptr_t)set->memory.bytes;
        atomic_init(&set->end, STORE_FIRST);
    }
    *out = set;
    return PST_OK;
}

size_t psti_cache_set_take_hole(struct psti_cache_set *set, size_t nbytes, size_t before)
{
    size_t place = SIZE_MAX;
    pthread_mutex_lock(&set->memory.lock);
    size_t n = atomic_load(&set->n_holes);
    for (size_t i = 0; i < n && place == SIZE_MAX; i++) {
        struct psti_cache_run *hole = &set->holes[i];
        if (hole->nbytes < nbytes || hole->place >= before)
            continue;
        place = hole->place;
        hole->place += nbytes;
        hole->nbytes -= nbytes;
        if (hole->nbytes == 0) {
            *hole = set->holes[n - 1];
            atomic_store(&set->n_holes, n - 1);
        }
    }
    if (place != SIZE_MAX)
        atomic_fetch_sub(&set->holes_nbytes, nbytes);
    pthread_mutex_unlock(&set->memory.lock);
    return place;
}

size_t psti_cache_set_place(struct psti_cache_set *set, size_t nbytes, bool pays)
{
    size_t place = SIZE_MAX;
    if (atomic_load_explicit(&set->n_holes, memory_order_relaxed) > 0) {
        place = psti_cache_set_take_hole(set, nbytes, SIZE_MAX);
        if (place == SIZE_MAX && pays && !psti_cache_pay_for_holes(set, nbytes))
            return SIZE_MAX;
    }
    return place == SIZE_MAX ? psti_cache_memory_place(&set->memory, &set->end, nbytes) : place;
}

/* Finds space for an admitted item. If the set's items are replaced, the space is after all other
 * items, as long as no item has taken the bytes of a hole. So holes stay free for replacing
 * items. */
static size_t place_admitted(struct psti_cache_set *set, size_t nbytes)
{
    if (atomic_load_explicit(&set->queue, memory_order_relaxed) &&
        atomic_load(&set->holes_nbytes) <= atomic_load(&set->hole_nbytes))
        return psti_cache_memory_place(&set->memory, &set->end, nbytes);
    return psti_cache_set_place(set, nbytes, true);
}

/* Merges hole `i` with the one that follows or precedes it, if there is one. The lock is held. */
static void join_holes(struct psti_cache_set *set, size_t i)
{
    size_t n = atomic_load(&set->n_holes);
    for (size_t k = 0; k < n; k++) {
        struct psti_cache_run *hole = &set->holes[i], *other = &set->holes[k];
        if (hole->place + hole->nbytes != other->place &&
            other->place + other->nbytes != hole->place)
            continue;
        hole->place = hole->place < other->place ? hole->place : other->place;
        hole->nbytes += other->nbytes;
        *other = set->holes[n - 1];
        atomic_store(&set->n_holes, n - 1);
        return;
    }
}

/* Merges *more with the holes next to it. False: there are none. The lock is held. */
static bool extend_hole(struct psti_cache_set *set, const struct psti_cache_run *more)
{
    size_t n = atomic_load(&set->n_holes);
    for (size_t i = 0; i < n; i++) {
        struct psti_cache_run *hole = &set->holes[i];
        if (hole->place + hole->nbytes != more->place && more->place + more->nbytes != hole->place)
            continue;
        hole->place = hole->place < more->place ? hole->place : more->place;
        hole->nbytes += more->nbytes;
        join_holes(set, i);
        return true;
    }
    return false;
}

bool psti_cache_set_add_hole(struct psti_cache_set *set, const struct psti_cache_run *hole,
                             uint64_t kept)
{
    pthread_mutex_lock(&set->memory.lock);
    size_t n = atomic_load(&set->n_holes);
    bool added = extend_hole(set, hole);
    if (!added && n == set->holes_cap) {
        size_t cap = n ? 2 * n : 16;
        struct psti_cache_run *holes = psti_alloc(cap * sizeof *holes);
        if (holes) {
            memcpy(holes, set->holes ? set->holes : hole, n * sizeof *holes);
            psti_free(set->holes);
            set->holes = holes;
            set->holes_cap = cap;
        }
    }
    if (!added && n < set->holes_cap) {
        set->holes[n] = *hole;
        atomic_store(&set->n_holes, n + 1);
        added = true;
    }
    if (added)
        atomic_fetch_add(&set->holes_nbytes, hole->nbytes);
    pthread_mutex_unlock(&set->memory.lock);
    if (added) /* otherwise the hole stays unused until the set is freed */
        atomic_fetch_add(&set->hole_nbytes, hole->nbytes - kept);
    return added;
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
    /* This load is sequentially consistent with the counts of readers (cache_later.c). */
    uint_fast64_t found = atomic_load(&set->table[number]);
    return found >= PSTI_CACHE_FIRST ? (const void *)(set->origin + (uintptr_t)found) : NULL;
}

bool psti_cache_holds(struct psti_cache_set *set, uint64_t number)
{
    return psti_cache_set_item(set, number) != NULL;
}

bool psti_cache_set_lacks(struct psti_cache_set *set, uint64_t number)
{
    uint_fast64_t found = atomic_load_explicit(&set->table[number], memory_order_relaxed);
    return found == PSTI_CACHE_NOT_HERE || found == PSTI_CACHE_DECLINED;
}

enum psti_cache_answer psti_cache_find(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                       uint64_t nbytes, struct psti_cache_span *span)
{
    const struct psti_cache_item *item = psti_cache_set_item(set, number_of(set, sample, i_item));
    if (!item || !psti_cache_item_fits(item, nbytes))
        return PSTI_CACHE_PASS;
    *span = (struct psti_cache_span){item + 1, item->nbytes, item->form};
    return PSTI_CACHE_HIT;
}

enum psti_cache_answer psti_cache_ask(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                      uint64_t nbytes, struct psti_cache_span *span)
{
    atomic_uint_fast64_t *entry = entry_of(set, sample, i_item);
    const struct psti_cache_item *item = psti_cache_set_item(set, number_of(set, sample, i_item));
    uint_fast64_t found = atomic_load_explicit(entry, memory_order_relaxed);
    uint64_t room;
    if (item) {
        *span = (struct psti_cache_span){item + 1, item->nbytes, item->form};
        return psti_cache_item_fits(item, nbytes) ? PSTI_CACHE_HIT : PSTI_CACHE_PASS;
    }
    if ((found != PSTI_CACHE_NOT_HERE && found != PSTI_CACHE_DECLINED) ||
        !psti_format_cache_room(nbytes, &room))
        return PSTI_CACHE_PASS;
    if (!psti_cache_take(set, room)) {
        if (set->cache->shared)
            atomic_compare_exchange_strong(entry, &found, PSTI_CACHE_DECLINED);
        return PSTI_CACHE_PASS;
    }
    if (atomic_compare_exchange_strong(entry, &found, PSTI_CACHE_RESERVED))
        return PSTI_CACHE_ADMIT;
    psti_cache_return(set, room); /* another thread has reserved space for the item first */
    return PSTI_CACHE_PASS;
}

void psti_cache_give_up(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                        uint64_t nbytes)
{
    uint64_t room = 0;
    psti_format_cache_room(nbytes, &room);
    psti_cache_return(set, room);
    atomic_store_explicit(entry_of(set, sample, i_item), PSTI_CACHE_NOT_HERE, memory_order_relaxed);
}

bool psti_cache_enlarge(struct psti_cache_set *set, uint64_t nbytes, uint64_t more_nbytes)
{
    uint64_t reserved = 0, room;
    psti_format_cache_room(nbytes, &reserved);
    return psti_format_cache_room(more_nbytes, &room) && psti_cache_take(set, room - reserved);
}

static void count_item(struct psti_cache_set *set)
{
    atomic_fetch_add_explicit(&set->n_items, 1, memory_order_relaxed);
    if (set->origin) {
        struct psti_cache_store_head *head = (void *)set->memory.bytes;
        atomic_fetch_add_explicit(&head->n_items, 1, memory_order_relaxed);
    }
}

bool psti_cache_keep(struct psti_cache_set *set, uint64_t sample, uint32_t i_item, uint64_t nbytes,
                     const struct psti_cache_span *item)
{
    uint64_t room = 0, reserved = 0;
    psti_format_cache_room(item->nbytes, &room);
    psti_format_cache_room(nbytes, &reserved);
    size_t place = place_admitted(set, room);
    if (place == SIZE_MAX) {
        psti_cache_give_up(set, sample, i_item, nbytes);
        if (set->cache->shared) /* otherwise clients would ask for the item again and again, and
                                   the service would read it each time */
            atomic_store(entry_of(set, sample, i_item), PSTI_CACHE_DECLINED);
        return false;
    }
    struct psti_cache_item *kept = (void *)(set->memory.bytes + place);
    *kept = (struct psti_cache_item){
        .nbytes = item->nbytes, .number = number_of(set, sample, i_item), .form = item->form};
    memcpy(kept + 1, item->bytes, item->nbytes);
    psti_cache_return(set, reserved - room);
    atomic_store_explicit(entry_of(set, sample, i_item), (uintptr_t)kept - set->origin,
                          memory_order_release);
    count_item(set);
    psti_cache_later_note(set, number_of(set, sample, i_item));
    return true;
}

bool psti_cache_set_publish(struct psti_cache_set *set, const struct psti_cache_item *item)
{
    atomic_uint_fast64_t *entry = &set->table[item->number];
    uint_fast64_t found = atomic_load_explicit(entry, memory_order_relaxed);
    if ((found != PSTI_CACHE_NOT_HERE && found != PSTI_CACHE_DECLINED) ||
        !atomic_compare_exchange_strong_explicit(entry, &found, (uintptr_t)item - set->origin,
                                                 memory_order_release, memory_order_relaxed))
        return false;
    count_item(set);
    psti_cache_later_note(set, item->number);
    return true;
}

void psti_cache_set_readmit(struct psti_cache_set *set)
{
    uint64_t n = 0;
    psti_format_cache_numbers(&set->shape, &n);
    for (uint64_t i = 0; i < n; i++) {
        uint_fast64_t found = PSTI_CACHE_DECLINED;
        if (atomic_load_explicit(&set->table[i], memory_order_relaxed) == PSTI_CACHE_DECLINED)
            atomic_compare_exchange_strong(&set->table[i], &found, PSTI_CACHE_NOT_HERE);
    }
}

struct psti_cache_export psti_cache_set_export(struct psti_cache_set *set)
{
    uint64_t n = 0;
    psti_format_cache_numbers(&set->shape, &n);
    return (struct psti_cache_export){.table_fd = set->table_fd,
                                      .memory_fd = set->memory.fd,
                                      .table_nbytes = psti_cache_table_nbytes(n),
                                      .capacity = set->memory.capacity};
}
