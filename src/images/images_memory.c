/* images_memory.c - keeps tools and pixel memory for reuse.
 *
 * Memory that comes fresh from the system costs a page fault for each 4 KiB, which takes a notable
 * part of the decoding time. So returned blocks are kept here. Any thread, without locks. */
#include "images/images_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

#define ALIGNMENT 64
#define SLACK 2 /* a block serves requests of at least 1 / SLACK of its size */

/* Header in front of the pixels. */
struct psti_images_block {
    struct psti_images_pool *pool;
    size_t capacity;
    char padding[ALIGNMENT - sizeof(void *) - sizeof(size_t)];
};
_Static_assert(sizeof(struct psti_images_block) == ALIGNMENT, "pixels are aligned");

struct psti_images_pool *psti_images_pool_open(void)
{
    struct psti_images_pool *pool = psti_calloc(1, sizeof *pool);
    if (pool)
        atomic_init(&pool->n_owners, 1);
    return pool;
}

void psti_images_pool_close(struct psti_images_pool *pool)
{
    if (!pool || atomic_fetch_sub_explicit(&pool->n_owners, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < PSTI_IMAGES_BLOCKS; i++)
        psti_free(atomic_load(&pool->blocks[i]));
    psti_free(pool);
}

/* Takes a kept block of a suitable size. */
static struct psti_images_block *find_block(struct psti_images_pool *pool, size_t nbytes)
{
    for (size_t i = 0; i < PSTI_IMAGES_BLOCKS; i++) {
        struct psti_images_block *block = atomic_exchange(&pool->blocks[i], NULL);
        if (!block)
            continue;
        if (block->capacity >= nbytes && block->capacity / SLACK <= nbytes)
            return block;
        struct psti_images_block *none = NULL;
        if (!atomic_compare_exchange_strong(&pool->blocks[i], &none, block))
            psti_free(block); /* another thread has filled the entry */
    }
    return NULL;
}

void *psti_images_pool_take(struct psti_images_pool *pool, size_t nbytes)
{
    struct psti_images_block *block = find_block(pool, nbytes);
    if (!block) {
        if (nbytes > SIZE_MAX - sizeof *block)
            return NULL;
        block = psti_alloc_aligned(ALIGNMENT, sizeof *block + nbytes);
        if (!block)
            return NULL;
        block->capacity = nbytes;
        block->pool = pool;
    }
    atomic_fetch_add_explicit(&pool->n_owners, 1, memory_order_relaxed);
    return block + 1;
}

void pst_images_release(void *data)
{
    if (!data)
        return;
    struct psti_images_block *block = (struct psti_images_block *)data - 1;
    struct psti_images_pool *pool = block->pool;
    for (size_t i = 0; block && i < PSTI_IMAGES_BLOCKS; i++) {
        struct psti_images_block *none = NULL;
        if (atomic_compare_exchange_strong(&pool->blocks[i], &none, block))
            block = NULL;
    }
    if (block) { /* the newest sizes will most likely be needed again */
        size_t i = (uintptr_t)block / ALIGNMENT % PSTI_IMAGES_BLOCKS;
        psti_free(atomic_exchange(&pool->blocks[i], block));
    }
    psti_images_pool_close(pool);
}

void psti_images_tools_free(struct psti_images_tools *tools)
{
    if (!tools)
        return;
    psti_decode_close(&tools->decoder);
    psti_buffer_free(&tools->stored);
    psti_buffer_free(&tools->scratch);
    psti_buffer_free(&tools->band);
    psti_free(tools);
}

struct psti_images_tools *psti_images_tools_take(pst_images *images, struct pst_error *err)
{
    struct psti_images_tools *tools = NULL;
    for (size_t i = 0; i < PSTI_IMAGES_TOOLS && !tools; i++)
        if (atomic_load_explicit(&images->tools[i], memory_order_relaxed))
            tools = atomic_exchange(&images->tools[i], NULL);
    if (tools)
        return tools;
    tools = psti_calloc(1, sizeof *tools);
    if (!tools) {
        psti_fail(err, PST_ERROR_MEMORY, "images", "no memory for a decoder");
        return NULL;
    }
    if (psti_decode_open(&tools->decoder, err) == PST_OK)
        return tools;
    psti_images_tools_free(tools);
    return NULL;
}

void psti_images_tools_give(pst_images *images, struct psti_images_tools *tools)
{
    for (size_t i = 0; tools && i < PSTI_IMAGES_TOOLS; i++) {
        struct psti_images_tools *none = NULL;
        if (atomic_compare_exchange_strong(&images->tools[i], &none, tools))
            tools = NULL;
    }
    psti_images_tools_free(tools);
}
