/* loader_arena.h - read buffers, allocated from one region that never grows. Not thread-safe:
 * callers hold the loader's lock. */
#ifndef PST_LOADER_LOADER_ARENA_H
#define PST_LOADER_LOADER_ARENA_H

#include <penstock/status.h>

#include <stdbool.h>

struct psti_loader_arena_span {
    size_t offset, nbytes;
};

struct psti_loader_arena {
    char *memory;
    size_t nbytes, alignment;
    size_t nbytes_used;
    struct psti_loader_arena_span *spans; /* spans in use, sorted by offset; gaps between them
                                             are free */
    uint32_t n_spans, n_spans_max;
};

/* Opens an arena of `nbytes` bytes. 0 gives an arena without memory. */
enum pst_status psti_loader_arena_open(struct psti_loader_arena *arena, size_t nbytes,
                                       size_t alignment, uint32_t n_spans_max,
                                       struct pst_error *err);
void psti_loader_arena_close(struct psti_loader_arena *arena);
/* Allocates by first fit. Returns NULL if no gap is large enough now. nbytes >= 1. */
void *psti_loader_arena_alloc(struct psti_loader_arena *arena, size_t nbytes);
void psti_loader_arena_free(struct psti_loader_arena *arena, void *memory);
#endif
