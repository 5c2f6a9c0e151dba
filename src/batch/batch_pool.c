/* batch_pool.c - the slots of a pool: made if the budget allows, handed out, returned, and reused.
 *
 * In: a layout and a budget. Out: slots. Any thread may release a batch at any time, even after the
 * loader was closed, because the pool lives until its last batch. batch_rows.c fills batches. */
#include "batch/batch_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/thread.h"

#include <string.h>
#include <unistd.h>

#define SLOT_ALIGNMENT 4096

static bool array_row_nbytes(const struct psti_slot_field *field, size_t *nbytes)
{
    *nbytes = field->has_array ? pst_dtype_nbytes(field->dtype) : 0;
    for (uint32_t i = 0; field->has_array && i < field->ndim; i++)
        if (!psti_mul_size(*nbytes, (size_t)field->shape[i], nbytes))
            return false;
    return true;
}

/* Computes the bytes of numbers that a slot has for the loose rows of a field. Returns false if
 * they exceed size_t. */
static bool loose_nbytes(const struct psti_slot_field *field, uint32_t n_rows, size_t *nbytes)
{
    size_t row = field->note_nbytes;
    if (field->ragged.kind == PST_RAGGED_PADDED)
        row += 2 * sizeof(int64_t);
    else if (field->ragged.kind == PST_RAGGED_OFFSETS)
        row += (1 + PSTI_PIXEL_NDIM) * sizeof(int64_t);
    return psti_mul_size(row, n_rows, nbytes) && psti_add_size(*nbytes, sizeof(int64_t), nbytes);
}


/* Assigns offsets to the arrays of numbers or, if `gpu_alone`, to those of pixels and others that a
 * GPU makes. */
static bool add_arrays(const struct psti_pool *pool, uint32_t n_rows, bool gpu_alone,
                       size_t *offsets, size_t *at)
{
    size_t nbytes;
    for (uint32_t i = 0; i < pool->n_fields; i++) {
        const struct psti_slot_field *field = &pool->fields[i].field;
        bool is_loose = psti_batch_is_loose(pool, i);
        if ((psti_batch_layout_is_gpu_alone(field) && !is_loose) != gpu_alone)
            continue;
        if (!psti_add_size(*at, pool->alignment - 1, at))
            return false;
        *at &= ~(pool->alignment - 1);
        if (offsets)
            offsets[i] = *at;
        if (!(is_loose
                  ? loose_nbytes(field, n_rows, &nbytes)
                  : array_row_nbytes(field, &nbytes) && psti_mul_size(nbytes, n_rows, &nbytes)) ||
            !psti_add_size(*at, nbytes, at))
            return false;
    }
    return true;
}

bool psti_batch_layout_offsets(const struct psti_pool *pool, uint32_t n_rows, size_t *offsets,
                               size_t *numbers, size_t *total)
{
    if (!psti_mul_size(n_rows, sizeof(int64_t), total) ||
        !add_arrays(pool, n_rows, false, offsets, total))
        return false;
    *numbers = *total;
    return add_arrays(pool, n_rows, true, offsets, total) && *total <= SIZE_MAX / 4;
}

/* Returns the bytes that a slot needs in addition to its arrays. */
static size_t slot_extra_nbytes(uint32_t n_fields, uint32_t n_row_lists, uint32_t n_rows)
{
    return sizeof(pst_batch) +
           n_fields * (2 * sizeof(size_t) + sizeof(bool) + sizeof(struct psti_collated)) +
           (size_t)n_rows * (n_row_lists * sizeof(struct psti_row) + sizeof(uint64_t));
}

/* Makes a pool that does not belong to a family of pools yet. */
static enum pst_status make_pool(const struct psti_slot_field *fields, uint32_t n_fields,
                                 uint32_t batch_size, struct psti_pool **out, struct pst_error *err)
{
    *out = NULL;
    struct psti_pool *pool = psti_calloc(1, sizeof *pool + n_fields * sizeof pool->fields[0]);
    if (!pool)
        return psti_fail(err, PST_ERROR_MEMORY, "batch", "no memory for the pool of batches");
    for (uint32_t i = 0; i < n_fields; i++) {
        struct psti_layout_field *field = &pool->fields[i];
        field->field = fields[i];
        field->i_rows = fields[i].may_differ ? (int)pool->n_row_lists++ : -1;
        if (!array_row_nbytes(&fields[i], &field->row_nbytes)) {
            psti_free(pool);
            return psti_fail(err, PST_ERROR_LIMIT, "batch", "a row of field '%s' is too large",
                             fields[i].name);
        }
    }
    pool->alignment = PSTI_CACHE_LINE;
    pool->batch_size = batch_size;
    pool->n_fields = n_fields;
    *out = pool;
    return PST_OK;
}

enum pst_status psti_batch_pool_open(const struct psti_slot_field *fields, uint32_t n_fields,
                                     uint32_t batch_size, uint64_t host_memory,
                                     struct psti_pool **out, struct pst_error *err)
{
    enum pst_status status = make_pool(fields, n_fields, batch_size, out, err);
    if (status != PST_OK)
        return status;
    struct psti_pool_family *family = psti_calloc(1, sizeof *family);
    if (!family) {
        psti_free(*out);
        *out = NULL;
        return psti_fail(err, PST_ERROR_MEMORY, "batch", "no memory for the pool of batches");
    }
    pthread_mutex_init(&family->lock, NULL);
    psti_cond_init(&family->changed);
    family->n_pools = 1;
    family->limit = host_memory;
    family->owner = getpid();
    (*out)->family = family;
    return PST_OK;
}

enum pst_status psti_batch_pool_open_beside(struct psti_pool *other,
                                            const struct psti_slot_field *fields, uint32_t n_fields,
                                            uint32_t batch_size, struct psti_pool **out,
                                            struct pst_error *err)
{
    enum pst_status status = make_pool(fields, n_fields, batch_size, out, err);
    if (status != PST_OK)
        return status;
    (*out)->family = other->family;
    pthread_mutex_lock(&other->family->lock);
    other->family->n_pools++;
    pthread_mutex_unlock(&other->family->lock);
    return PST_OK;
}

void psti_batch_pool_set_gpu(struct psti_pool *pool, const struct psti_slot_gpu *gpu)
{
    pool->gpu = *gpu;
    pool->has_gpu = true;
}

void psti_batch_pool_set_host(struct psti_pool *pool, const struct psti_slot_host *host)
{
    pool->host = *host;
    pool->has_host = true;
}

void psti_batch_pool_set_alignment(struct psti_pool *pool, size_t alignment)
{
    pool->alignment = alignment;
}

void psti_batch_pool_free(struct psti_pool *pool)
{
    if (pool->has_gpu)
        pool->gpu.close(pool->gpu.ctx);
    if (pool->has_host)
        pool->host.close(pool->host.ctx);
    struct psti_pool_family *family = pool->family;
    psti_free(pool);
    pthread_mutex_lock(&family->lock);
    bool last = --family->n_pools == 0;
    pthread_mutex_unlock(&family->lock);
    if (!last)
        return;
    pthread_cond_destroy(&family->changed);
    pthread_mutex_destroy(&family->lock);
    psti_free(family);
}

void psti_batch_pool_close(struct psti_pool **pool_ptr)
{
    struct psti_pool *pool = *pool_ptr;
    if (!pool)
        return;
    *pool_ptr = NULL;
    pthread_mutex_lock(&pool->family->lock);
    pool->closed = true;
    psti_batch_pool_trim(pool, 0);
    bool last = pool->n_held == 0;
    pthread_mutex_unlock(&pool->family->lock);
    if (last)
        psti_batch_pool_free(pool);
}

pthread_mutex_t *psti_batch_pool_lock(struct psti_pool *pool) { return &pool->family->lock; }

pthread_cond_t *psti_batch_pool_changed(struct psti_pool *pool) { return &pool->family->changed; }

bool psti_batch_pool_is_forked(const struct psti_pool *pool)
{
    return pool->family->owner != getpid();
}

void psti_batch_pool_stats(const struct psti_pool *pool, struct psti_batch_pool_stats *stats)
{
    *stats = (struct psti_batch_pool_stats){.limit = pool->family->limit,
                                            .used = atomic_load(&pool->family->used),
                                            .peak = atomic_load(&pool->family->peak),
                                            .n_slots = pool->n_slots,
                                            .n_held = pool->n_held,
                                            .n_others = pool->family->n_held - pool->n_held};
}

/* True if the pool's psti_slot_host functions made the slot's memory. */
static bool is_hosts(const pst_batch *batch) { return batch->pool->has_host && batch->part.own; }

void psti_batch_free(pst_batch *batch)
{
    psti_batch_free_chunks(batch);
    psti_batch_block_free(batch);
    psti_batch_pool_uncharge(batch->pool, batch->nbytes);
    batch->pool->n_slots--;
    pthread_mutex_destroy(&batch->lock);
    if (batch->pool->has_gpu)
        batch->pool->gpu.unmake(batch->pool->gpu.ctx, &batch->part);
    else if (is_hosts(batch))
        batch->pool->host.unmake(batch->pool->host.ctx, &batch->part);
    else
        psti_free(batch->data);
    psti_free(batch->offsets);
    psti_free(batch->ragged);
    psti_free(batch->draws);
    psti_free(batch->rows);
    psti_free(batch->collated);
    psti_free(batch);
}

/* Allocates the memory of the slot's arrays. */
static enum pst_status make_data(pst_batch *batch, uint32_t n_rows)
{
    struct psti_pool *pool = batch->pool;
    size_t total;
    if (!psti_batch_layout_offsets(pool, n_rows, batch->homes, &batch->numbers_nbytes, &total))
        return PST_ERROR_LIMIT;
    memcpy(batch->offsets, batch->homes, pool->n_fields * sizeof *batch->offsets);
    if (pool->has_gpu) {
        enum pst_status status =
            pool->gpu.make(pool->gpu.ctx, n_rows, batch->numbers_nbytes, total, &batch->part);
        batch->data = batch->part.numbers;
        return status;
    }
    if (pool->has_host && total) {
        enum pst_status status = pool->host.make(pool->host.ctx, total, &batch->part);
        batch->data = batch->part.numbers;
        if (status != PST_OK || batch->part.own)
            return status;
    }
    batch->data = psti_alloc_aligned(SLOT_ALIGNMENT, total ? total : 1);
    return batch->data ? PST_OK : PST_ERROR_MEMORY;
}

/* Makes a slot. Its `nbytes` are already charged to the budget. */
static enum pst_status make_slot(struct psti_pool *pool, uint32_t n_rows, size_t nbytes,
                                 pst_batch **out)
{
    enum pst_status status = PST_ERROR_MEMORY;
    pst_batch *batch = psti_calloc(1, sizeof *batch);
    if (!batch)
        return status;
    batch->pool = pool;
    batch->offsets = psti_calloc(2 * (size_t)pool->n_fields + 1, sizeof *batch->offsets);
    batch->homes = batch->offsets ? batch->offsets + pool->n_fields : NULL;
    batch->ragged = psti_calloc(pool->n_fields + 1, sizeof *batch->ragged);
    batch->draws = psti_calloc((size_t)n_rows + 1, sizeof *batch->draws);
    batch->rows = psti_calloc((size_t)pool->n_row_lists * n_rows + 1, sizeof *batch->rows);
    batch->collated = psti_calloc(pool->n_fields + 1, sizeof *batch->collated);
    if (batch->offsets && batch->ragged && batch->draws && batch->rows && batch->collated)
        status = make_data(batch, n_rows);
    if (status != PST_OK) {
        psti_free(batch->collated);
        psti_free(batch->rows);
        psti_free(batch->draws);
        psti_free(batch->ragged);
        psti_free(batch->offsets);
        psti_free(batch);
        return status;
    }
    pthread_mutex_init(&batch->lock, NULL);
    batch->n_rows_max = n_rows;
    batch->nbytes = nbytes;
    pool->n_slots++;
    psti_batch_hold_rows(batch);
    psti_batch_hold_carried(batch);
    *out = batch;
    return PST_OK;
}

void psti_batch_pool_set_rows(struct psti_pool *pool, size_t nbytes)
{
    atomic_store(&pool->rows_nbytes, nbytes);
}

void psti_batch_pool_set_carried(struct psti_pool *pool, size_t nbytes)
{
    atomic_store(&pool->block_nbytes, nbytes);
}

/* Gives the slot one chunk of the size that the largest batch so far needed. */
static void hold_rows(pst_batch *batch)
{
    if (batch->chunks &&
        (batch->chunks->next || batch->chunks->nbytes < atomic_load(&batch->pool->rows_nbytes)))
        psti_batch_free_chunks(batch);
    psti_batch_hold_rows(batch);
}

/* Called when a slot is returned. If its batch needed several chunks, each slot gets one chunk of
 * their total size from now on. */
static void settle_rows(pst_batch *batch)
{
    struct psti_pool *pool = batch->pool;
    size_t total = 0;
    for (const struct psti_chunk *chunk = batch->chunks; chunk; chunk = chunk->next)
        total += chunk->used;
    bool more = batch->chunks && batch->chunks->next && total > atomic_load(&pool->rows_nbytes);
    if (more)
        atomic_store(&pool->rows_nbytes, total + total / 8);
    hold_rows(batch);
    for (pst_batch *other = more ? pool->free : NULL; other; other = other->next_free)
        hold_rows(other);
}

static void clear_slot(pst_batch *batch)
{
    if (batch->chunks)
        batch->chunks->used = 0;
    batch->count = 0;
    batch->is_collated = false;
    memcpy(batch->offsets, batch->homes, batch->pool->n_fields * sizeof *batch->offsets);
    for (uint32_t i = 0; i < batch->pool->n_fields; i++)
        batch->collated[i].is_there = false;
    if (batch->pool->n_row_lists)
        memset(batch->rows, 0,
               (size_t)batch->pool->n_row_lists * batch->n_rows_max * sizeof *batch->rows);
}

bool psti_batch_pool_slot_nbytes(const struct psti_pool *pool, uint32_t n_rows, size_t *nbytes)
{
    size_t numbers, total, part = 0;
    if (!psti_batch_layout_offsets(pool, n_rows, NULL, &numbers, &total))
        return false;
    if (pool->has_gpu)
        part = pool->gpu.nbytes(pool->gpu.ctx, n_rows);
    return psti_add_size(pool->has_gpu ? numbers : total, part, nbytes) &&
           psti_add_size(*nbytes, slot_extra_nbytes(pool->n_fields, pool->n_row_lists, n_rows),
                         nbytes);
}

bool psti_batch_pool_place_of(const struct psti_pool *pool, uint32_t i_field, size_t *offset,
                              size_t *row_nbytes)
{
    size_t offsets[PST_MAX_FIELDS], numbers, total;
    if (!psti_batch_layout_offsets(pool, pool->batch_size, offsets, &numbers, &total))
        return false;
    *offset = offsets[i_field];
    *row_nbytes = pool->fields[i_field].row_nbytes;
    return pool->fields[i_field].field.has_array;
}

static enum pst_status make_charged(struct psti_pool *pool, uint32_t n_rows, pst_batch **out)
{
    size_t nbytes;
    *out = NULL;
    if (!psti_batch_pool_slot_nbytes(pool, n_rows, &nbytes) ||
        !psti_batch_pool_charge(pool, nbytes, false))
        return PST_ERROR_LIMIT;
    enum pst_status status = make_slot(pool, n_rows, nbytes, out);
    if (status != PST_OK)
        psti_batch_pool_uncharge(pool, nbytes);
    return status;
}

bool psti_batch_pool_has_free(const struct psti_pool *pool) { return pool->free != NULL; }

/* Removes the free slot with the lowest `order` from the list and returns it; NULL: make a new
 * slot. `any`: a new slot cannot be made, so some free slot must be taken. */
static pst_batch *first_free(struct psti_pool *pool, bool any)
{
    pst_batch **first = any ? &pool->free : NULL, *batch;
    uint32_t least = UINT32_MAX, n_free = 0;
    for (batch = pool->free; batch; batch = batch->next_free)
        n_free++;
    n_free = any ? UINT32_MAX : n_free;
    for (pst_batch **at = &pool->free; *at; at = &(*at)->next_free) {
        uint32_t order = is_hosts(*at) ? pool->host.order(pool->host.ctx, &(*at)->part, n_free) : 0;
        if (order >= least)
            continue;
        least = order;
        first = at;
    }
    batch = first ? *first : NULL;
    if (batch)
        *first = batch->next_free;
    return batch;
}

/* True if nobody reads the slot's memory any more. With `wait` the thread sleeps until then. */
static bool may_write(struct psti_pool *pool, pst_batch *batch, bool wait)
{
    const struct psti_slot_host *host = &pool->host;
    if (!is_hosts(batch) || !host->is_writable)
        return true;
    return host->is_writable(host->ctx, &batch->part, wait) &&
           (!batch->block.part.own || host->is_writable(host->ctx, &batch->block.part, wait));
}

/* Takes a free slot that may be overwritten; NULL if there is none. If readers in other processes
 * still use all free slots and `wait` is set, waits for the slot that was returned first. */
static pst_batch *take_free(struct psti_pool *pool, bool wait)
{
    const struct psti_slot_host *host = &pool->host;
    if (host->order)
        return first_free(pool, wait);
    pst_batch **at = &pool->free, *batch = pool->free;
    while (batch && !may_write(pool, batch, wait && !batch->next_free)) {
        at = &batch->next_free;
        batch = *at;
    }
    if (batch)
        *at = batch->next_free;
    return batch;
}

enum pst_status psti_batch_pool_claim(struct psti_pool *pool, uint32_t n_rows, pst_batch **out)
{
    if (n_rows > pool->batch_size)
        return make_charged(pool, n_rows, out);
    *out = take_free(pool, false);
    enum pst_status status = PST_OK;
    if (!*out) {
        status = make_charged(pool, pool->batch_size, out);
        if (status != PST_OK && pool->free) {
            *out = take_free(pool, true);
            status = PST_OK;
        }
    }
    if (status != PST_OK)
        return status;
    (*out)->next_free = NULL;
    clear_slot(*out);
    if (pool->host.taken && is_hosts(*out))
        pool->host.taken(pool->host.ctx, &(*out)->part);
    return PST_OK;
}

enum pst_status psti_batch_pool_make(struct psti_pool *pool, uint32_t n)
{
    enum pst_status status = PST_OK;
    while (status == PST_OK && pool->n_slots < n) {
        pst_batch *batch;
        status = make_charged(pool, pool->batch_size, &batch);
        if (status == PST_OK) {
            batch->next_free = pool->free;
            pool->free = batch;
        }
    }
    return status;
}

void psti_batch_pool_put_back(pst_batch *batch)
{
    struct psti_pool *pool = batch->pool;
    if (pool->closed || batch->n_rows_max != pool->batch_size) {
        psti_batch_free(batch);
    } else {
        settle_rows(batch);
        batch->next_free = pool->free;
        pool->free = batch;
    }
    pthread_cond_broadcast(&pool->family->changed);
}

void psti_batch_pool_hand_out(pst_batch *batch)
{
    atomic_store(&batch->refs, 1);
    batch->pool->n_held++;
    batch->pool->family->n_held++;
}

void psti_batch_pool_trim(struct psti_pool *pool, uint32_t keep)
{
    pst_batch **at = &pool->free;
    while (*at) {
        pst_batch *batch = *at;
        if (keep > 0) {
            keep--;
            psti_batch_free_chunks(batch);
            psti_batch_block_free(batch);
            at = &batch->next_free;
        } else {
            *at = batch->next_free;
            psti_batch_free(batch);
        }
    }
}

void pst_batch_retain(pst_batch *batch) { atomic_fetch_add(&batch->refs, 1); }

void pst_batch_release(pst_batch *batch)
{
    if (!batch || psti_batch_pool_is_forked(batch->pool))
        return; /* a forked child leaks the batch, because the pool's lock may be held by a thread
                 * that only the parent has */
    if (atomic_fetch_sub(&batch->refs, 1) != 1)
        return;
    struct psti_pool *pool = batch->pool;
    bool usable = true;
    if (pool->has_gpu)
        usable = pool->gpu.released(pool->gpu.ctx, &batch->part);
    else if (is_hosts(batch))
        usable = pool->host.released(pool->host.ctx, &batch->part);
    if (batch->block.part.own)
        usable &= pool->host.released(pool->host.ctx, &batch->block.part);
    pthread_mutex_lock(&pool->family->lock);
    pool->n_held--;
    pool->family->n_held--;
    if (usable)
        psti_batch_pool_put_back(batch);
    else
        psti_batch_free(batch);
    bool last = pool->closed && pool->n_held == 0;
    pthread_mutex_unlock(&pool->family->lock);
    if (last)
        psti_batch_pool_free(pool);
}
