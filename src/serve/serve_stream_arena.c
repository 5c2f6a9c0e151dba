/* serve_stream_arena.c - the sealed store in which a stream's extents lie.
 *
 * The pool of the stream's loader takes its slots from here. Address space is taken for all slots
 * at once, memory with each slot when it is first made, and for own rows as they need it. Sealed
 * memory cannot be given back, so the bytes that are claimed have a limit: it counts own rows
 * twice, because the loader has them in memory of its own, too. The larger the own rows of an
 * extent have been, the fewer slots are used. */
#include "serve/serve_stream.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/files/sealed.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define SLOTS_MAX ((uint32_t)PSTI_STREAM_EXTENTS / 2)
#define SPARE_PART 4u                       /* 1 / SPARE_PART of the slots should be free */
#define OWN_NBYTES_MAX ((uint64_t)64 << 20) /* limit for the own rows (rows that may differ in
                                             * shape) of an extent */
#define OWN_STEP ((uint64_t)1 << 16)        /* step by which own rows grow; each slot may have as
                                             * much */

enum pst_status psti_serve_arena_open(struct psti_arena *arena, uint64_t nbytes,
                                      struct pst_error *err)
{
    arena->fd = -1;
    arena->nbytes = nbytes;
    arena->slots = psti_calloc(SLOTS_MAX, sizeof *arena->slots);
    return arena->slots ? PST_OK : psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for slots");
}

void psti_serve_arena_close(struct psti_arena *arena)
{
    psti_sealed_unmap(arena->bytes, arena->n_slots * arena->stride);
    if (arena->fd >= 0)
        close(arena->fd);
    psti_free(arena->slots);
    arena->slots = NULL;
    arena->fd = -1;
}

/* Makes the store, when the first slot says how large slots are. */
static enum pst_status make_store(struct psti_arena *arena, size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *bytes;
    arena->own = psti_round_up(nbytes, page);
    uint64_t n_slots = arena->nbytes / (arena->own + 2 * OWN_STEP);
    if (n_slots < PSTI_STREAM_SLOTS_MIN)
        return psti_fail(&arena->failure, PST_ERROR_LIMIT, "serve",
                         "the part of the free memory that a stream may have, %" PRIu64
                         " MiB, is too little for %d extents of %zu bytes",
                         arena->nbytes >> 20, PSTI_STREAM_SLOTS_MIN, nbytes);
    arena->n_slots = n_slots < SLOTS_MAX ? (uint32_t)n_slots : SLOTS_MAX;
    atomic_store(&arena->n_used_max, arena->n_slots);
    arena->stride = arena->own + OWN_NBYTES_MAX;
    /* Own rows may grow until only the least number of slots is left. */
    uint64_t most = (arena->nbytes / PSTI_STREAM_SLOTS_MIN - arena->own) / 2;
    arena->own_max = most < OWN_NBYTES_MAX ? most : OWN_NBYTES_MAX;
    enum pst_status status = psti_sealed_store_make(
        "penstock-extents", arena->n_slots * arena->stride, &arena->fd, &bytes, &arena->failure);
    arena->bytes = bytes;
    return status;
}

/* Counts bytes that are to be claimed. False: they are too many. */
static bool take_bytes(struct psti_arena *arena, uint64_t nbytes)
{
    if (atomic_fetch_add(&arena->claimed, nbytes) + nbytes <= arena->nbytes)
        return true;
    atomic_fetch_sub(&arena->claimed, nbytes);
    return false;
}

static enum pst_status make(void *ctx, size_t nbytes, struct psti_slot_part *part)
{
    struct psti_arena *arena = ctx;
    struct psti_arena_slot *slot = arena->free;
    if (arena->fd < 0) {
        enum pst_status status = make_store(arena, nbytes);
        if (status != PST_OK)
            return status;
    }
    if (slot) {
        arena->free = slot->next_free;
    } else {
        if (arena->n_made >= atomic_load(&arena->n_used_max) || nbytes > arena->own ||
            !take_bytes(arena, arena->own))
            return PST_ERROR_LIMIT;
        uint64_t at = arena->n_made * arena->stride;
        if (!psti_sealed_store_grow(arena->fd, at, at + arena->own)) {
            atomic_fetch_sub(&arena->claimed, arena->own);
            return psti_fail(&arena->failure, PST_ERROR_MEMORY, "serve",
                             "the system has no shared memory for %" PRIu64 " bytes of an extent",
                             arena->own);
        }
        slot = &arena->slots[arena->n_made];
        slot->number = arena->n_made++;
    }
    *part = (struct psti_slot_part){.numbers = arena->bytes + slot->number * arena->stride,
                                    .own = slot};
    return PST_OK;
}

static void unmake(void *ctx, struct psti_slot_part *part)
{
    struct psti_arena *arena = ctx;
    struct psti_arena_slot *slot = part->own;
    slot->next_free = arena->free;
    arena->free = slot;
}

static bool released(void *ctx, struct psti_slot_part *part)
{
    (void)ctx;
    (void)part;
    return true;
}

/* Returns a free slot's rank; the pool takes the slot with the lowest one. UINT32_MAX asks for a
 * new slot. Slots are taken in the order of their numbers, in a cycle, because jobs map them in
 * that order (share/share_view.h). Before a new cycle begins, more slots are made until so many are
 * free that the next one always is. */
static uint32_t order(void *ctx, const struct psti_slot_part *part, uint32_t n_free)
{
    const struct psti_arena *arena = ctx;
    const struct psti_arena_slot *slot = part->own;
    if (slot->number >= atomic_load(&arena->n_used_max)) /* a slot above the limit is used last */
        return n_free == UINT32_MAX ? UINT32_MAX - 1 : UINT32_MAX;
    if (arena->next >= arena->n_made && n_free < arena->n_made / SPARE_PART)
        return UINT32_MAX;
    return slot->number >= arena->next ? slot->number - arena->next
                                       : slot->number + arena->n_made - arena->next;
}

static void taken(void *ctx, const struct psti_slot_part *part)
{
    struct psti_arena *arena = ctx;
    const struct psti_arena_slot *slot = part->own;
    arena->next = slot->number + 1;
}

static void close_slots(void *ctx) { (void)ctx; }

struct psti_loader_slots psti_serve_arena_slots(struct psti_arena *arena)
{
    return (struct psti_loader_slots){.host = {.ctx = arena,
                                               .make = make,
                                               .unmake = unmake,
                                               .released = released,
                                               .order = order,
                                               .taken = taken,
                                               .close = close_slots},
                                      .alignment = (size_t)sysconf(_SC_PAGESIZE)};
}

/* Claims memory for the first `nbytes` bytes after the arrays. */
static bool claim_own(struct psti_arena *arena, struct psti_arena_slot *slot, uint64_t nbytes)
{
    uint64_t at = slot->number * arena->stride + arena->own;
    if (nbytes <= slot->own_claimed)
        return true;
    nbytes = psti_round_up(nbytes, OWN_STEP);
    uint64_t more = nbytes - slot->own_claimed;
    if (nbytes > arena->own_max || !take_bytes(arena, 2 * more))
        return false;
    if (!psti_sealed_store_grow(arena->fd, at + slot->own_claimed, at + nbytes)) {
        atomic_fetch_sub(&arena->claimed, 2 * more);
        return false;
    }
    slot->own_claimed = nbytes;
    uint64_t n =
        arena->nbytes / (arena->own + 2 * nbytes); /* slots, if each comes to have so much */
    n = n < PSTI_STREAM_SLOTS_MIN ? PSTI_STREAM_SLOTS_MIN : n;
    if (n < atomic_load(&arena->n_used_max))
        atomic_store(&arena->n_used_max, (unsigned)n);
    return true;
}

/* Writes the value of one own row, and its entry in the table. *end: bytes used after the
 * arrays. */
static bool add_row(struct psti_arena *arena, pst_batch *batch, uint32_t i_field, uint32_t row,
                    uint64_t entry, uint64_t *end)
{
    struct psti_arena_slot *slot = psti_batch_part(batch)->own;
    char *own = arena->bytes + slot->number * arena->stride + arena->own;
    struct pst_tensor tensor;
    struct psti_extent_row record = {.offset = arena->own + *end};
    if (pst_batch_row(batch, i_field, row, &tensor, sizeof tensor, NULL) != PST_OK)
        return false;
    uint64_t nbytes = pst_dtype_nbytes(tensor.dtype);
    record.ndim = tensor.ndim;
    for (uint32_t i = 0; i < tensor.ndim; i++) {
        record.shape[i] = tensor.shape[i];
        nbytes *= (uint64_t)tensor.shape[i];
    }
    if (nbytes > arena->own_max || !claim_own(arena, slot, *end + nbytes))
        return false;
    if (nbytes)
        memcpy(own + *end, tensor.data, nbytes);
    memcpy(own + entry * sizeof record, &record, sizeof record);
    *end += psti_round_up(nbytes, sizeof(uint64_t));
    return true;
}

uint64_t psti_serve_arena_add_own(struct psti_arena *arena, pst_batch *batch,
                                  const struct psti_slot_field *fields, uint32_t n_fields,
                                  uint32_t extent_rows)
{
    uint64_t n_lists = 0, i_list = 0, end;
    for (uint32_t i = 0; i < n_fields; i++)
        n_lists += fields[i].may_differ;
    end = n_lists * extent_rows * sizeof(struct psti_extent_row);
    if (!claim_own(arena, psti_batch_part(batch)->own, end))
        return UINT64_MAX;
    for (uint32_t i = 0; i < n_fields; i++) {
        if (!fields[i].may_differ)
            continue;
        for (uint32_t row = 0; row < pst_batch_count(batch); row++)
            if (!add_row(arena, batch, i, row, i_list * extent_rows + row, &end))
                return UINT64_MAX;
        i_list++;
    }
    return end;
}
