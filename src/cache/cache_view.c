/* cache_view.c - reads another process's set: its table and its items.
 *
 * The owner writes an item's bytes first and then its entry, with release order; a reader loads the
 * entry with acquire order. An item's bytes do not change while a reader is in the view that
 * entered before it asked: the owner reuses their space only after a round of all views
 * (cache_later.c). A seal keeps the memory from shrinking. An entry is accepted only if it lies
 * within the memory. If it lies beyond the known size, the kernel is asked for the present size. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/files/sealed.h"

#include <unistd.h>

struct psti_cache_view {
    struct psti_cache_shape shape;
    struct psti_cache_export from;
    const atomic_uint_fast64_t *table;
    const char *memory;
    atomic_size_t known; /* known length of `memory`, which may have grown since */
    atomic_uint turn, n_readers[2];
    atomic_uint n_steps; /* number of steps that the present round still needs; 0: there is no
                            round */
};

enum pst_status psti_cache_view_open(const struct psti_cache_shape *shape,
                                     const struct psti_cache_export *from,
                                     struct psti_cache_view **out, struct pst_error *err)
{
    uint64_t n = 0;
    const void *table = NULL, *memory = NULL;
    enum pst_status status = PST_OK;
    struct psti_cache_view *view = psti_calloc(1, sizeof *view);
    *out = NULL;
    if (!view) {
        close(from->table_fd);
        close(from->memory_fd);
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for the view of a set");
    }
    view->shape = *shape;
    view->from = *from;
    if (!psti_format_cache_numbers(shape, &n) || from->table_nbytes / sizeof *view->table < n ||
        from->table_nbytes > SIZE_MAX / 2 || from->capacity > SIZE_MAX / 2)
        status = psti_fail(err, PST_ERROR_CORRUPT, "cache", "the host cache's table is too short");
    if (status == PST_OK)
        status = psti_sealed_store_map(from->table_fd, (size_t)from->table_nbytes, &table, err);
    view->table = table;
    if (status == PST_OK && psti_sealed_nbytes(from->table_fd) < from->table_nbytes)
        status = psti_fail(err, PST_ERROR_CORRUPT, "cache", "the host cache's table is too short");
    if (status == PST_OK)
        status = psti_sealed_store_map(from->memory_fd, (size_t)from->capacity, &memory, err);
    view->memory = memory;
    *out = view;
    if (status != PST_OK)
        psti_cache_view_close(out);
    return status;
}

void psti_cache_view_close(struct psti_cache_view **view_ptr)
{
    struct psti_cache_view *view = *view_ptr;
    if (!view)
        return;
    *view_ptr = NULL;
    psti_sealed_unmap(view->table, (size_t)view->from.table_nbytes);
    psti_sealed_unmap(view->memory, (size_t)view->from.capacity);
    close(view->from.table_fd);
    close(view->from.memory_fd);
    psti_free(view);
}

/* True if the memory has at least `end` bytes. */
static bool reaches(struct psti_cache_view *view, uint64_t end)
{
    if (end <= atomic_load_explicit(&view->known, memory_order_relaxed))
        return true;
    size_t nbytes = psti_sealed_nbytes(view->from.memory_fd);
    if (nbytes > view->from.capacity)
        nbytes = (size_t)view->from.capacity;
    atomic_store_explicit(&view->known, nbytes, memory_order_relaxed);
    return end <= nbytes;
}

/* Returns the item at that offset, if it lies completely in the memory, else NULL. */
static const struct psti_cache_item *item_at(struct psti_cache_view *view, uint64_t place)
{
    uint64_t end;
    if (place % PSTI_CACHE_ALIGNMENT != 0 ||
        !psti_add_u64(place, sizeof(struct psti_cache_item), &end) || !reaches(view, end))
        return NULL;
    const struct psti_cache_item *item = (const void *)(view->memory + place);
    return psti_add_u64(end, item->nbytes, &end) && reaches(view, end) ? item : NULL;
}

enum psti_cache_answer psti_cache_view_ask(struct psti_cache_view *view, uint64_t sample,
                                           uint32_t i_item, uint64_t nbytes,
                                           struct psti_cache_span *span)
{
    uint64_t number = sample * view->shape.n_items + i_item;
    uint_fast64_t found = atomic_load(&view->table[number]); /* sequentially consistent with
                                                                n_readers, so that a replaced
                                                                item is not read */
    if (found < PSTI_CACHE_FIRST)
        return found == PSTI_CACHE_DECLINED ? PSTI_CACHE_PASS : PSTI_CACHE_ADMIT;
    const struct psti_cache_item *item = item_at(view, found);
    if (!item || item->number != number || !psti_cache_item_fits(item, nbytes))
        return PSTI_CACHE_PASS;
    *span = (struct psti_cache_span){item + 1, item->nbytes, item->form};
    return PSTI_CACHE_HIT;
}

unsigned psti_cache_view_enter(struct psti_cache_view *view)
{
    if (view->shape.forms == 0)
        return 0;
    unsigned turn = atomic_load(&view->turn);
    atomic_fetch_add(&view->n_readers[turn], 1);
    return turn + 1;
}

bool psti_cache_view_leave(struct psti_cache_view *view, unsigned reader)
{
    return reader > 0 && atomic_fetch_sub(&view->n_readers[reader - 1], 1) == 1 &&
           atomic_load(&view->n_steps) > 0;
}

void psti_cache_view_begin_round(struct psti_cache_view *view) { atomic_store(&view->n_steps, 2); }

/* Goes on with a round, in two steps. First the counter that new readers do not use must be 0; then
 * new readers use it. Second the other counter must be 0. A reader that counts itself late has not
 * looked for its item yet, so it finds the new one. */
bool psti_cache_view_go_on(struct psti_cache_view *view)
{
    for (unsigned steps = atomic_load(&view->n_steps); steps > 0; steps--) {
        unsigned other = atomic_load(&view->turn) ^ 1;
        if (atomic_load(&view->n_readers[other]) != 0)
            return false;
        if (steps == 2)
            atomic_store(&view->turn, other);
        atomic_store(&view->n_steps, steps - 1);
    }
    return true;
}

/* Returns a number of the header in the shared memory, which the owner writes. */
static uint64_t head_number(struct psti_cache_view *view, const atomic_uint_fast64_t *number)
{
    return reaches(view, sizeof(struct psti_cache_store_head))
               ? atomic_load_explicit(number, memory_order_relaxed)
               : 0;
}

uint64_t psti_cache_view_waiting(struct psti_cache_view *view)
{
    const struct psti_cache_store_head *head = (const void *)view->memory;
    return head_number(view, &head->n_waiting);
}

uint64_t psti_cache_view_count(struct psti_cache_view *view)
{
    const struct psti_cache_store_head *head = (const void *)view->memory;
    return head_number(view, &head->n_items);
}
