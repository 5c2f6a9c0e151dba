/* native_block.c - memory of small arrays, separate from the slot of their batch.
 *
 * Tensors and DLPack consumers hold references to a block. The last of them frees it, on any thread
 * and without the GIL. */
#include "native.h"

#include <stdatomic.h>
#include <stdlib.h>

#define HEAD_NBYTES 64 /* bytes before the data; also the data's alignment */

struct native_block {
    atomic_uint refs;
};

struct native_block *native_block_new(size_t nbytes)
{
    void *memory;
    if (nbytes > SIZE_MAX - HEAD_NBYTES ||
        posix_memalign(&memory, HEAD_NBYTES, HEAD_NBYTES + nbytes) != 0)
        return NULL;
    struct native_block *block = memory;
    atomic_init(&block->refs, 1);
    return block;
}

void *native_block_data(struct native_block *block) { return (char *)block + HEAD_NBYTES; }

void native_block_retain(struct native_block *block) { atomic_fetch_add(&block->refs, 1); }

void native_block_release(struct native_block *block)
{
    if (block != NULL && atomic_fetch_sub(&block->refs, 1) == 1)
        free(block);
}
