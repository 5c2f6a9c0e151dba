/* fake_memory.c - the blocks of memory of the driver that stands for a GPU.
 *
 * There is one table. Only threads that make and end blocks take its lock. Look-ups read atomics
 * without order, because the threads of streams must not learn of each other's work here. Ended
 * blocks are overwritten and kept for a while. AddressSanitizer keeps them better, so with it they
 * are freed. */
#include "fake_inner.h"

#include "../sanitizer.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 65536
#define KEPT_MAX 256
#define KEPT_NBYTES ((size_t)64 << 20)

#define KEEPS_BLOCKS (!TEST_ASAN)

static struct {
    _Atomic uintptr_t begin, end; /* end 0: the entry has no block */
    atomic_int owner;
} blocks[BLOCKS_MAX];
static atomic_uint n_blocks; /* number of entries that were ever in use */
static struct {
    void *memory;
    size_t nbytes;
} kept[KEPT_MAX];
static size_t kept_nbytes, i_kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken by writers; guards `kept` */

bool fake_memory_add(int owner, void *memory, size_t nbytes)
{
    pthread_mutex_lock(&lock);
    unsigned n = atomic_load_explicit(&n_blocks, memory_order_relaxed), i = 0;
    while (i < n && atomic_load_explicit(&blocks[i].end, memory_order_relaxed) != 0)
        i++;
    if (i < BLOCKS_MAX) {
        atomic_store_explicit(&blocks[i].owner, owner, memory_order_relaxed);
        atomic_store_explicit(&blocks[i].begin, (uintptr_t)memory, memory_order_relaxed);
        atomic_store_explicit(&blocks[i].end, (uintptr_t)memory + nbytes, memory_order_relaxed);
        if (i == n)
            atomic_store_explicit(&n_blocks, n + 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return i < BLOCKS_MAX;
}

void *fake_memory_make(int owner, size_t nbytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, owner == FAKE_PINNED ? 4096 : 256, nbytes) != 0)
        return NULL;
    memset(memory, 0xa5, nbytes); /* new memory has no defined contents */
    if (fake_memory_add(owner, memory, nbytes))
        return memory;
    free(memory);
    return NULL;
}

/* Keeps the memory of an ended block for a while. The caller holds the lock. */
static void keep(void *memory, size_t nbytes)
{
    memset(memory, 0xdd, nbytes);
    free(kept[i_kept].memory);
    kept_nbytes -= kept[i_kept].nbytes;
    kept[i_kept].memory = memory;
    kept[i_kept].nbytes = nbytes;
    kept_nbytes += nbytes;
    i_kept = (i_kept + 1) % KEPT_MAX;
    for (size_t i = i_kept; kept_nbytes > KEPT_NBYTES; i = (i + 1) % KEPT_MAX) {
        free(kept[i].memory);
        kept_nbytes -= kept[i].nbytes;
        kept[i].memory = NULL;
        kept[i].nbytes = 0;
    }
}

/* Takes the block out of the table. Returns its bytes, or 0 if it is not there. The caller holds
 * the lock. */
static size_t take_out(int owner, const void *memory)
{
    unsigned n = atomic_load_explicit(&n_blocks, memory_order_relaxed);
    for (unsigned i = 0; i < n; i++) {
        uintptr_t end = atomic_load_explicit(&blocks[i].end, memory_order_relaxed);
        if (end == 0 || atomic_load_explicit(&blocks[i].owner, memory_order_relaxed) != owner ||
            atomic_load_explicit(&blocks[i].begin, memory_order_relaxed) != (uintptr_t)memory)
            continue;
        atomic_store_explicit(&blocks[i].end, 0, memory_order_relaxed);
        return end - (uintptr_t)memory;
    }
    return 0;
}

bool fake_memory_remove(int owner, void *memory)
{
    pthread_mutex_lock(&lock);
    size_t nbytes = take_out(owner, memory);
    pthread_mutex_unlock(&lock);
    return nbytes > 0;
}

size_t fake_memory_end(int owner, void *memory)
{
    pthread_mutex_lock(&lock);
    size_t nbytes = take_out(owner, memory);
    if (nbytes && KEEPS_BLOCKS)
        keep(memory, nbytes);
    else if (nbytes)
        free(memory);
    pthread_mutex_unlock(&lock);
    return nbytes;
}

bool fake_memory_has(int owner, const void *at, size_t nbytes)
{
    unsigned n = atomic_load_explicit(&n_blocks, memory_order_relaxed);
    uintptr_t begin = (uintptr_t)at;
    for (unsigned i = 0; i < n; i++) {
        uintptr_t end = atomic_load_explicit(&blocks[i].end, memory_order_relaxed);
        if (begin < end && nbytes <= end - begin &&
            atomic_load_explicit(&blocks[i].begin, memory_order_relaxed) <= begin &&
            atomic_load_explicit(&blocks[i].owner, memory_order_relaxed) == owner)
            return true;
    }
    return false;
}

uint64_t fake_memory_nbytes(bool pinned)
{
    uint64_t nbytes = 0;
    pthread_mutex_lock(&lock);
    unsigned n = atomic_load_explicit(&n_blocks, memory_order_relaxed);
    for (unsigned i = 0; i < n; i++) {
        uintptr_t end = atomic_load_explicit(&blocks[i].end, memory_order_relaxed);
        int owner = atomic_load_explicit(&blocks[i].owner, memory_order_relaxed);
        if (end && (owner == FAKE_PINNED) == pinned)
            nbytes += end - atomic_load_explicit(&blocks[i].begin, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return nbytes;
}
