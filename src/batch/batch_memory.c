/* batch_memory.c - the budget of host memory, and the memory of a slot besides its arrays: chunks,
 * which separately stored rows are cut from, and the block of combined rows.
 *
 * In: a number of bytes. Out: memory that stays with the slot, or the reason why there is none. Any
 * thread may charge the budget. Threads that fill a slot add chunks with its lock held; for
 * everything else one thread has the slot. */
#include "batch/batch_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"

#define CHUNK_MIN_NBYTES 4096
#define CHUNK_STEP_MAX_NBYTES ((size_t)16 << 20)

bool psti_batch_pool_charge(struct psti_pool *pool, uint64_t nbytes, bool from_reserve)
{
    uint64_t reserve = from_reserve ? 0 : atomic_load(&pool->family->reserve);
    uint64_t used = atomic_load(&pool->family->used), next;
    do {
        if (!psti_add_u64(used, nbytes, &next) || next > pool->family->limit ||
            reserve > pool->family->limit - next)
            return false;
    } while (!atomic_compare_exchange_weak(&pool->family->used, &used, next));
    uint64_t peak = atomic_load(&pool->family->peak);
    while (peak < next && !atomic_compare_exchange_weak(&pool->family->peak, &peak, next))
        ;
    return true;
}

void psti_batch_pool_uncharge(struct psti_pool *pool, uint64_t nbytes)
{
    atomic_fetch_sub(&pool->family->used, nbytes);
}

void psti_batch_pool_set_reserve(struct psti_pool *pool, uint64_t nbytes)
{
    atomic_store(&pool->family->reserve, nbytes);
}

void psti_batch_free_chunks(pst_batch *batch)
{
    while (batch->chunks) {
        struct psti_chunk *chunk = batch->chunks;
        batch->chunks = chunk->next;
        psti_batch_pool_uncharge(batch->pool, PSTI_CACHE_LINE + chunk->nbytes);
        psti_free(chunk);
    }
}

struct psti_chunk *psti_batch_add_chunk(pst_batch *batch, size_t nbytes, enum pst_status *status)
{
    size_t total =
        batch->chunks ? 2 * batch->chunks->nbytes : atomic_load(&batch->pool->rows_nbytes);
    if (batch->chunks && total > CHUNK_STEP_MAX_NBYTES)
        total = CHUNK_STEP_MAX_NBYTES;
    if (total < CHUNK_MIN_NBYTES)
        total = CHUNK_MIN_NBYTES;
    if (total < nbytes)
        total = nbytes;
    *status = PST_ERROR_LIMIT;
    if (!psti_batch_pool_charge(batch->pool, PSTI_CACHE_LINE + total, false)) {
        total = nbytes;
        if (!psti_batch_pool_charge(batch->pool, PSTI_CACHE_LINE + total, false))
            return NULL;
    }
    struct psti_chunk *chunk = psti_alloc_aligned(PSTI_CACHE_LINE, PSTI_CACHE_LINE + total);
    if (!chunk) {
        psti_batch_pool_uncharge(batch->pool, PSTI_CACHE_LINE + total);
        *status = PST_ERROR_MEMORY;
        return NULL;
    }
    *chunk = (struct psti_chunk){.next = batch->chunks, .nbytes = total};
    batch->chunks = chunk;
    return chunk;
}

/* Returns whether the budget has nbytes, and a quarter of the limit besides. */
static bool has_plenty(const struct psti_pool *pool, uint64_t nbytes)
{
    uint64_t most = pool->family->limit - pool->family->limit / 4,
             used = atomic_load(&pool->family->used);
    return used < most && nbytes <= most - used;
}

void psti_batch_hold_rows(pst_batch *batch)
{
    size_t nbytes = atomic_load(&batch->pool->rows_nbytes);
    enum pst_status status;
    if (!batch->chunks && nbytes && has_plenty(batch->pool, nbytes))
        psti_batch_add_chunk(batch, nbytes, &status);
}

void psti_batch_block_free(pst_batch *batch)
{
    struct psti_pool *pool = batch->pool;
    struct psti_block *block = &batch->block;
    if (!block->data)
        return;
    if (pool->has_gpu)
        pool->gpu.unmake_rows(pool->gpu.ctx, &batch->part, block->data, block->nbytes);
    else if (block->part.own)
        pool->host.unmake(pool->host.ctx, &block->part);
    else
        psti_free(block->data);
    psti_batch_pool_uncharge(pool, block->nbytes);
    *block = (struct psti_block){0};
}

static enum pst_status fail_rows(enum pst_status status, struct pst_error *err)
{
    return psti_fail(err, status, "batch", "no memory to put the rows of a batch together");
}

/* Allocates the block of combined rows: page-locked if the slot is, else ordinary memory. Its bytes
 * are already charged to the budget. */
static enum pst_status make_block(pst_batch *batch, size_t nbytes, struct pst_error *err)
{
    struct psti_pool *pool = batch->pool;
    struct psti_block *block = &batch->block;
    enum pst_status status = PST_OK;
    if (pool->has_gpu) {
        status = pool->gpu.make_rows(pool->gpu.ctx, &batch->part, nbytes, &block->data, err);
        block->nbytes = status == PST_OK ? nbytes : 0;
        return status;
    }
    if (pool->has_host && pool->host.is_writable && batch->part.own) {
        pthread_mutex_lock(&pool->family->lock);
        status = pool->host.make(pool->host.ctx, nbytes, &block->part);
        pthread_mutex_unlock(&pool->family->lock);
        block->data = block->part.numbers;
    }
    if (status == PST_OK && !block->part.own)
        block->data = psti_alloc_aligned(PSTI_CACHE_LINE, nbytes);
    if (status != PST_OK || !block->data) {
        *block = (struct psti_block){0};
        return fail_rows(status != PST_OK ? status : PST_ERROR_MEMORY, err);
    }
    block->nbytes = nbytes;
    return PST_OK;
}

/* Allocates the block, and charges its bytes to the budget. */
static enum pst_status charge_block(pst_batch *batch, size_t nbytes, struct pst_error *err)
{
    if (!psti_batch_pool_charge(batch->pool, nbytes, false))
        return fail_rows(PST_ERROR_LIMIT, err);
    enum pst_status status = make_block(batch, nbytes, err);
    if (status != PST_OK)
        psti_batch_pool_uncharge(batch->pool, nbytes);
    return status;
}

void psti_batch_hold_carried(pst_batch *batch)
{
    size_t nbytes = atomic_load(&batch->pool->block_nbytes);
    struct pst_error ignored;
    if (batch->pool->has_gpu && nbytes && has_plenty(batch->pool, nbytes))
        (void)charge_block(batch, nbytes, &ignored);
}

enum pst_status psti_batch_hold(pst_batch *batch, size_t nbytes, struct pst_error *err)
{
    struct psti_pool *pool = batch->pool;
    if (nbytes <= batch->block.nbytes)
        return PST_OK;
    if (pool->has_gpu) { /* it may wait for streams, so not with the lock */
        psti_batch_block_free(batch);
    } else {
        pthread_mutex_lock(&pool->family->lock);
        psti_batch_block_free(batch);
        pthread_mutex_unlock(&pool->family->lock);
    }
    size_t wanted = nbytes + nbytes / 8;
    if (batch->n_rows_max == pool->batch_size) { /* a slot for a larger fetch is used once */
        size_t most = atomic_load(&pool->block_nbytes);
        while (wanted > most && !atomic_compare_exchange_weak(&pool->block_nbytes, &most, wanted))
            ;
        wanted = most > wanted ? most : wanted;
    }
    enum pst_status status = charge_block(batch, wanted, err);
    return status != PST_OK && wanted > nbytes ? charge_block(batch, nbytes, err) : status;
}
