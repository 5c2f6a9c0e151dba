/* decode_arena.c - the scratch memory of one decoder.
 *
 * Codecs ask for memory in many small pieces and free all of it at once, when the next image
 * begins. An arena hands out memory by moving a pointer through a chunk. After an image that needed
 * several chunks, the arena replaces them by one chunk of their total size. So after a few images
 * no memory is allocated any more. Memory is not cleared: it still holds bytes of the image
 * before. */
#include "decode/decode_arena.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"

#include <sys/mman.h>
#include <unistd.h>

struct psti_arena_chunk {
    struct psti_arena_chunk *next;
    size_t nbytes; /* bytes of the chunk, this header included */
    size_t used;
};

#define CHUNK_HEAD                                                                                 \
    ((sizeof(struct psti_arena_chunk) + PSTI_CACHE_LINE - 1) & ~(size_t)(PSTI_CACHE_LINE - 1))
#define CHUNK_NBYTES_MIN ((size_t)256 << 10)

static void free_chunks(struct psti_decode_arena *arena)
{
    while (arena->chunks) {
        struct psti_arena_chunk *next = arena->chunks->next;
        psti_free(arena->chunks);
        arena->chunks = next;
    }
    arena->held = 0;
}

/* Adds a new chunk with space for `nbytes`, and for more if the limit allows it. */
static bool add_chunk(struct psti_decode_arena *arena, size_t nbytes, enum pst_status *why)
{
    struct psti_arena_chunk *chunk = NULL;
    uint64_t least = (uint64_t)nbytes + CHUNK_HEAD;
    uint64_t generous = arena->held / 2 > arena->want ? arena->held / 2 : arena->want;
    uint64_t left = arena->limit > arena->held ? arena->limit - arena->held : 0;
    if (least > left) {
        *why = PST_ERROR_LIMIT;
        return false;
    }
    generous = generous > CHUNK_NBYTES_MIN ? generous : CHUNK_NBYTES_MIN;
    if (generous < least)
        generous = least;
    /* The size is rounded up to a multiple of CHUNK_NBYTES_MIN. Otherwise each random crop that is
     * slightly larger than all crops before it would need another chunk. */
    generous = psti_round_up(generous, CHUNK_NBYTES_MIN);
    if (generous > left)
        generous = left;
    chunk = psti_alloc_aligned(PSTI_CACHE_LINE, (size_t)generous);
    if (!chunk) {
        *why = PST_ERROR_MEMORY;
        return false;
    }
    chunk->next = arena->chunks;
    chunk->nbytes = (size_t)generous;
    chunk->used = CHUNK_HEAD;
    arena->chunks = chunk;
    arena->held += generous;
    return true;
}

void *psti_decode_arena_alloc(struct psti_decode_arena *arena, size_t nbytes, enum pst_status *why)
{
    size_t padded;
    if (!psti_add_size(nbytes, PSTI_CACHE_LINE, &padded) ||
        !psti_add_size(padded, CHUNK_HEAD, &padded)) {
        *why = PST_ERROR_LIMIT;
        return NULL;
    }
    padded = psti_round_up(nbytes, PSTI_CACHE_LINE);
    if (!arena->chunks || arena->chunks->nbytes - arena->chunks->used < padded)
        if (!add_chunk(arena, padded, why))
            return NULL;
    char *memory = (char *)arena->chunks + arena->chunks->used;
    arena->chunks->used += padded;
    return memory;
}

void psti_decode_arena_give_back(struct psti_decode_arena *arena, size_t nbytes)
{
    arena->chunks->used -= psti_round_up(nbytes, PSTI_CACHE_LINE);
}

bool psti_decode_arena_prepare(struct psti_decode_arena *arena, size_t nbytes, enum pst_status *why)
{
    if (arena->chunks && arena->chunks->nbytes - arena->chunks->used >= nbytes)
        return true;
    /* A piece larger than the limit fails here, before any chunk is freed. */
    if (nbytes > arena->limit || arena->limit - nbytes < CHUNK_HEAD) {
        *why = PST_ERROR_LIMIT;
        return false;
    }
    free_chunks(arena);
    return add_chunk(arena, nbytes, why);
}

void psti_decode_arena_hold(struct psti_decode_arena *arena, size_t nbytes)
{
    enum pst_status why;
    if (arena->chunks && !arena->chunks->next && arena->held >= nbytes)
        return;
    free_chunks(arena);
    arena->want = nbytes;
    add_chunk(arena, 0, &why);
}

bool psti_decode_arena_lend(struct psti_decode_arena *arena, uint64_t nbytes)
{
    struct psti_arena_chunk *chunk = arena->chunks;
    uint64_t unused = chunk ? chunk->nbytes - chunk->used : 0;
    if (nbytes > arena->limit || arena->held - unused > arena->limit - nbytes)
        return false;
    if (unused && arena->held > arena->limit - nbytes) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t from = ((uintptr_t)chunk + chunk->used + page - 1) & ~(page - 1);
        uintptr_t to = ((uintptr_t)chunk + chunk->nbytes) & ~(page - 1);
        /* if madvise fails, the pages stay in memory, which does no harm */
        if (from < to)
            madvise((void *)from, to - from, MADV_DONTNEED);
    }
    return true;
}

void psti_decode_arena_reset(struct psti_decode_arena *arena)
{
    if (!arena->chunks)
        return;
    if (arena->chunks->next) {
        arena->want = arena->held;
        free_chunks(arena);
    } else if (arena->held > arena->limit) { /* the limit was lowered after the allocation */
        arena->want = 0;
        free_chunks(arena);
    } else {
        arena->chunks->used = CHUNK_HEAD;
    }
}

void psti_decode_arena_free(struct psti_decode_arena *arena)
{
    free_chunks(arena);
    arena->want = 0;
}
