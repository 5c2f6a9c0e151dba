/* cache_later.c - replaces items in another form after they were kept.
 *
 * In: a set whose items were kept as stored. Out: the same items in another form, replaced one
 * after the other while readers go on. A queue has the numbers of all items that the set holds, in
 * the order in which they were kept. This is nearly the order of their addresses. So the space of
 * replaced items forms one gap that moves through the memory, and the new items lie in it without
 * holes between them. Items that keep their form move into the gap, too.
 *
 * The bytes of a replaced item stay unchanged while a reader may use them. Readers count themselves
 * in one of two counters; `turn` (0 or 1) says in which. A replaced item's space is free when each
 * counter was seen at 0 after the item's entry had changed: every reader that found the old entry
 * had counted itself before, and has left. The turn changes only when the other counter is 0, so
 * new readers cannot keep a counter above 0 forever.
 *
 * Readers of a shared set in other processes count themselves in their views (cache_view.c), which
 * the set's owner asks in rounds. A round ends when each view has seen both of its counters at 0
 * since the round began. The space of a replaced item of a shared set is free when also a round has
 * ended that began after the item's turn. If a reader may still exist that cannot be asked, no more
 * space is freed (psti_cache_later_freeze). */
#include "cache/cache_int.h"
#include "cache/cache_queue.h"

#include "base/alloc.h"
#include "base/bits.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPARE_PART 32 /* 1 / SPARE_PART of the cache is reserved for items being replaced */
#define ADVANCES 2    /* after this many turns everything without readers is freed */

unsigned psti_cache_enter(struct psti_cache_set *set)
{
    if (set->shape.forms == 0)
        return 0;
    unsigned turn = atomic_load(&set->turn);
    atomic_fetch_add(&set->n_readers[turn], 1);
    return turn + 1;
}

void psti_cache_leave(struct psti_cache_set *set, unsigned reader)
{
    if (reader > 0)
        atomic_fetch_sub(&set->n_readers[reader - 1], 1);
}

/* Returns bytes: first to the queue's spare bytes, the rest to the budget. The lock is held. */
static void give(struct psti_cache_set *set, struct psti_cache_queue *queue, uint64_t nbytes)
{
    uint64_t wanted = queue->spare_max - queue->spare;
    uint64_t kept = nbytes < wanted ? nbytes : wanted;
    queue->spare += kept;
    psti_cache_return(set, nbytes - kept);
}

/* Takes bytes for an item: from holes, from the budget, or from the spare bytes. The lock is
 * held. */
static bool take(struct psti_cache_set *set, struct psti_cache_queue *queue, uint64_t nbytes)
{
    if (psti_cache_take_from_holes(set, nbytes) || psti_cache_take_free(set, nbytes))
        return true;
    if (nbytes > queue->spare)
        return false;
    queue->spare -= nbytes;
    return true;
}

/* Returns the pages of replaced items to the system, for items in the memory of a loaded file,
 * where no other item will be placed. Neighbouring items are swept in order, so pages that they
 * share are returned, too. */
static void sweep(struct psti_cache_queue *queue, const struct psti_cache_retired *item)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *end = item->bytes + item->nbytes;
    if (queue->swept_end != item->bytes)
        queue->swept = item->bytes;
    queue->swept_end = end;
    uintptr_t from = psti_round_up((uintptr_t)queue->swept, page);
    uintptr_t to = (uintptr_t)end / page * page;
    if (from >= to)
        return;
    madvise((void *)from, to - from, MADV_DONTNEED);
    queue->swept = (char *)to;
}

/* Frees the space of a replaced item that has no reader any more. The lock is held. */
static void release(struct psti_cache_set *set, struct psti_cache_queue *queue,
                    const struct psti_cache_retired *item)
{
    const struct psti_cache_memory *memory = &set->memory;
    if (item->bytes < memory->bytes || item->bytes >= memory->bytes + memory->capacity) {
        sweep(queue, item);
        give(set, queue, item->nbytes);
        return;
    }
    const struct psti_cache_run hole = {(size_t)(item->bytes - memory->bytes), item->nbytes};
    uint64_t wanted = queue->spare_max - queue->spare;
    wanted = wanted < item->nbytes ? wanted : item->nbytes;
    if (psti_cache_set_add_hole(set, &hole, wanted))
        queue->spare += wanted;
}

/* True if items replaced before this turn must wait for a round of the set's views. The lock is
 * held. */
static bool needs_round(struct psti_cache_set *set, const struct psti_cache_queue *queue)
{
    return set->cache->shared && queue->n_retired[atomic_load(&set->turn) ^ 1] > 0 &&
           queue->n_ended < queue->n_needed;
}

/* Frees the items that no reader can use, and begins another turn if possible. The lock is held. */
static void advance(struct psti_cache_set *set, struct psti_cache_queue *queue)
{
    for (int i = 0; i < ADVANCES && queue->n_retired[0] + queue->n_retired[1] > 0; i++) {
        unsigned turn = atomic_load(&set->turn), before = turn ^ 1;
        if (queue->is_frozen || needs_round(set, queue) ||
            atomic_load(&set->n_readers[before]) != 0)
            return;
        for (uint32_t k = 0; k < queue->n_retired[before]; k++)
            release(set, queue, &queue->retired[before][k]);
        queue->n_retired[before] = 0;
        atomic_store(&set->turn, before);
        queue->n_needed = queue->n_begun + 1;
    }
}

/* Notes that the item was replaced. The lock is held. */
static void retire(struct psti_cache_set *set, struct psti_cache_queue *queue,
                   const struct psti_cache_item *item, size_t room)
{
    unsigned turn = atomic_load(&set->turn);
    queue->retired[turn][queue->n_retired[turn]++] =
        (struct psti_cache_retired){(char *)(uintptr_t)item, room};
}

/* Returns where readers of a shared set see the number of waiting items; NULL: the set is
 * private. */
static atomic_uint_fast64_t *waiting_of(const struct psti_cache_set *set)
{
    struct psti_cache_store_head *head = (void *)set->memory.bytes;
    return set->cache->shared ? &head->n_waiting : NULL;
}

/* Stops all replacing. The queue's lock is held. */
static void freeze(struct psti_cache_queue *queue)
{
    queue->is_frozen = true;
    atomic_store(queue->n_left, 0);
}

/* Makes `queue` the set's queue, and notes the items that the set holds. False: another thread
 * installed a queue before. */
static bool install(struct psti_cache_set *set, struct psti_cache_queue *queue)
{
    struct psti_cache_queue *none = NULL;
    pthread_mutex_lock(&queue->lock);
    bool mine = atomic_compare_exchange_strong(&set->queue, &none, queue);
    for (uint64_t i = 0; mine && i < queue->n_numbers; i++)
        if (psti_cache_holds(set, i))
            psti_cache_queue_note(queue, i);
    if (atomic_load(&set->is_frozen))
        freeze(queue);
    pthread_mutex_unlock(&queue->lock);
    return mine;
}

bool psti_cache_later_open(struct psti_cache_set *set, uint32_t n_sets)
{
    uint64_t n = 0;
    if (set->shape.forms == 0 || atomic_load(&set->is_frozen))
        return false;
    if (psti_cache_queue_of(set))
        return true;
    psti_format_cache_numbers(&set->shape, &n);
    uint64_t nbytes = psti_cache_queue_nbytes(n);
    if (!psti_cache_take(set, nbytes))
        return false;
    /* The queues of many sets, such as those of a mixture, leave most of the cache for items. */
    uint64_t part = (uint64_t)atomic_fetch_add(&set->cache->n_queues, 1) + 1;
    uint64_t wanted = set->cache->limit / SPARE_PART / (part > n_sets ? part : n_sets);
    uint64_t spare = psti_cache_take_free(set, wanted) ? wanted : 0;
    struct psti_cache_queue *queue = psti_cache_queue_make(n, waiting_of(set));
    if (queue) {
        queue->spare = spare;
        queue->spare_max = wanted;
        if (install(set, queue))
            return true;
    }
    psti_cache_return(set, nbytes + spare);
    atomic_fetch_sub(&set->cache->n_queues, 1);
    psti_cache_queue_free(queue);
    return psti_cache_queue_of(set) != NULL;
}

/* Returns the next item of the queue, or NULL if there is none. The lock is held. */
static const struct psti_cache_item *next_of(struct psti_cache_set *set,
                                             const struct psti_cache_queue *queue, bool *is_again)
{
    *is_again = queue->n_next == queue->n_noted;
    if (queue->is_frozen || (*is_again && queue->n_again == 0))
        return NULL;
    return psti_cache_set_item(set, *is_again ? queue->again[queue->n_again - 1]
                                              : queue->numbers[queue->n_next]);
}

/* Removes the next item from the queue. The lock is held. */
static void pass(struct psti_cache_queue *queue, bool is_again)
{
    queue->n_again -= is_again;
    queue->n_next += !is_again;
    atomic_fetch_sub_explicit(queue->n_left, 1, memory_order_relaxed);
}

/* Queues the item once more, after all others. False: that was done before, or there are too many
 * such items. The lock is held. */
static bool put_again(struct psti_cache_queue *queue, uint64_t number, bool is_again)
{
    if (queue->is_frozen || is_again || queue->n_again == PSTI_CACHE_AGAIN_MAX)
        return false;
    queue->again[queue->n_again++] = number;
    atomic_fetch_add_explicit(queue->n_left, 1, memory_order_relaxed);
    return true;
}

bool psti_cache_later_take(struct psti_cache_set *set, struct psti_cache_later *later)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    const struct psti_cache_item *item;
    bool found = false, is_again;
    if (!queue || psti_cache_later_count(set) == 0)
        return false;
    pthread_mutex_lock(&queue->lock);
    advance(set, queue);
    uint32_t n_busy = queue->n_retired[0] + queue->n_retired[1] + queue->n_out;
    /* Only the thread that takes a number out of the queue may replace its item. */
    while (!found && n_busy < PSTI_CACHE_RETIRED && (item = next_of(set, queue, &is_again))) {
        uint64_t room = 0;
        psti_format_cache_room(item->nbytes, &room);
        found = take(set, queue, room);
        if (!found && n_busy > 0) /* the items in use will free space when their readers leave */
            break;
        pass(queue, is_again);
        if (!found)
            (void)put_again(queue, item->number, is_again);
        else
            *later = (struct psti_cache_later){.number = item->number,
                                               .reserved = room,
                                               .is_again = is_again,
                                               .span = {item + 1, item->nbytes, item->form}};
    }
    queue->n_out += found;
    pthread_mutex_unlock(&queue->lock);
    return found;
}

/* Finds space for the item. An item that only moves must go to a hole before its present place. If
 * no hole is large enough for another item, spare bytes that came from holes are given back to
 * them, so that other spare bytes can pay for space after all items. The lock is held. */
static size_t find_place(struct psti_cache_set *set, struct psti_cache_queue *queue,
                         const struct psti_cache_item *old, bool moves, size_t room)
{
    const char *first = set->memory.bytes, *at = (const char *)old;
    size_t place = moves ? SIZE_MAX : psti_cache_set_take_hole(set, room, SIZE_MAX);
    if (place != SIZE_MAX)
        return place;
    if (!moves) {
        uint64_t given = psti_cache_give_to_holes(set, queue->spare);
        queue->spare -= given;
        if (psti_cache_pay_for_holes(set, room))
            return psti_cache_memory_place(&set->memory, &set->end, room);
        if (psti_cache_take_from_holes(set, given)) /* otherwise another item took them first */
            queue->spare += given;
        return SIZE_MAX;
    }
    bool is_here = at >= first && at < first + set->memory.capacity;
    return psti_cache_set_take_hole(set, room, is_here ? (size_t)(at - first) : SIZE_MAX);
}

/* Copies the item to its new place, and lets the table point to it. */
static void show(struct psti_cache_set *set, const struct psti_cache_later *later,
                 const struct psti_cache_span *item, size_t place)
{
    struct psti_cache_item *kept = (void *)(set->memory.bytes + place);
    *kept = (struct psti_cache_item){
        .nbytes = item->nbytes, .number = later->number, .form = item->form};
    memcpy(kept + 1, item->bytes, item->nbytes);
    atomic_store(&set->table[later->number], (uintptr_t)kept - set->origin);
}

enum psti_cache_replaced psti_cache_later_put(struct psti_cache_set *set,
                                              const struct psti_cache_later *later,
                                              const struct psti_cache_span *item)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    const struct psti_cache_item *old = psti_cache_set_item(set, later->number);
    enum psti_cache_replaced result = item ? PSTI_CACHE_REPLACED : PSTI_CACHE_STAYS;
    uint64_t reserved = later->reserved, old_room = reserved, room = 0;
    pthread_mutex_lock(&queue->lock);
    if (item && (!psti_format_cache_room(item->nbytes, &room) ||
                 (room > reserved && !take(set, queue, room - reserved)))) {
        item = NULL;
        result = PSTI_CACHE_TOO_LONG;
    }
    if (!item)
        psti_format_cache_room(later->span.nbytes, &room);
    reserved = room > reserved ? room : reserved;
    size_t place = find_place(set, queue, old, !item, room);
    pthread_mutex_unlock(&queue->lock);
    if (place != SIZE_MAX)
        show(set, later, item ? item : &later->span, place);
    pthread_mutex_lock(&queue->lock);
    queue->n_out--;
    if (place != SIZE_MAX) {
        retire(set, queue, old, old_room);
        give(set, queue, reserved - room);
    } else {
        give(set, queue, reserved);
    }
    if (place == SIZE_MAX && item)
        result = put_again(queue, later->number, later->is_again) ? PSTI_CACHE_AGAIN
                                                                  : PSTI_CACHE_TOO_LONG;
    advance(set, queue);
    pthread_mutex_unlock(&queue->lock);
    return result;
}

bool psti_cache_later_begin_round(struct psti_cache_set *set)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    if (!queue)
        return false;
    pthread_mutex_lock(&queue->lock);
    advance(set, queue);
    bool begins =
        !queue->is_frozen && queue->n_begun == queue->n_ended && needs_round(set, queue);
    queue->n_begun += begins;
    pthread_mutex_unlock(&queue->lock);
    return begins;
}

void psti_cache_later_end_round(struct psti_cache_set *set)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    pthread_mutex_lock(&queue->lock);
    queue->n_ended = queue->n_begun;
    advance(set, queue);
    pthread_mutex_unlock(&queue->lock);
}

void psti_cache_later_freeze(struct psti_cache_set *set)
{
    /* Set before looking for a queue, so that a queue opened at this moment is frozen, too. */
    atomic_store(&set->is_frozen, true);
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    freeze(queue);
    pthread_mutex_unlock(&queue->lock);
}
