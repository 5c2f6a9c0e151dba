/* loader_arena.c - allocates read buffers in one memory region by first fit.
 *
 * There are no more spans in use than rows under way: some dozens, or some thousands of slow
 * storage where rows are gathered. So a linear search of a sorted list is fast enough. First fit
 * keeps buffers at low addresses, so pages that were never needed stay untouched. The caller
 * guarantees progress: it allocates in row order and may free in any order. */
#include "loader/epoch/loader_arena.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <string.h>
#include <sys/mman.h>

enum pst_status psti_loader_arena_open(struct psti_loader_arena *arena, size_t nbytes,
                                       size_t alignment, uint32_t n_spans_max,
                                       struct pst_error *err)
{
    *arena = (struct psti_loader_arena){.alignment = alignment, .n_spans_max = n_spans_max};
    if (nbytes == 0)
        return PST_OK;
    arena->nbytes = nbytes;
    arena->memory = psti_alloc_aligned(alignment < 4096 ? 4096 : alignment, nbytes);
    /* Huge pages would make a few rows take several times their bytes. If madvise fails, that is
     * all that happens. */
    if (arena->memory)
        (void)madvise(arena->memory, nbytes & ~(size_t)4095, MADV_NOHUGEPAGE);
    arena->spans = psti_alloc_array(n_spans_max, sizeof *arena->spans);
    if (arena->memory && arena->spans)
        return PST_OK;
    psti_loader_arena_close(arena);
    return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for %zu bytes of read buffers",
                     nbytes);
}

void psti_loader_arena_close(struct psti_loader_arena *arena)
{
    psti_free(arena->memory);
    psti_free(arena->spans);
    *arena = (struct psti_loader_arena){0};
}

void *psti_loader_arena_alloc(struct psti_loader_arena *arena, size_t nbytes)
{
    size_t at = 0;
    uint32_t i = 0;
    if (nbytes > arena->nbytes || arena->n_spans == arena->n_spans_max)
        return NULL;
    for (; i < arena->n_spans && arena->spans[i].offset - at < nbytes; i++)
        at = psti_round_up(arena->spans[i].offset + arena->spans[i].nbytes, arena->alignment);
    if (at > arena->nbytes || arena->nbytes - at < nbytes)
        return NULL;
    memmove(&arena->spans[i + 1], &arena->spans[i], (arena->n_spans - i) * sizeof arena->spans[0]);
    arena->spans[i] = (struct psti_loader_arena_span){at, nbytes};
    arena->n_spans++;
    arena->nbytes_used += nbytes;
    return arena->memory + at;
}

void psti_loader_arena_free(struct psti_loader_arena *arena, void *memory)
{
    size_t offset = (size_t)((char *)memory - arena->memory);
    uint32_t low = 0, high = arena->n_spans;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (arena->spans[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    arena->n_spans--;
    arena->nbytes_used -= arena->spans[low].nbytes;
    memmove(&arena->spans[low], &arena->spans[low + 1],
            (arena->n_spans - low) * sizeof arena->spans[0]);
}
