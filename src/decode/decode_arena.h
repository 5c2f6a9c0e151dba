/* decode_arena.h - scratch memory that codecs fill from image to image without freeing. */
#ifndef PST_DECODE_ARENA_H
#define PST_DECODE_ARENA_H

#include <penstock/status.h>

#include <stdbool.h>

struct psti_arena_chunk;

/* An arena: it moves a pointer through chunks that are kept. Zero-initialise it, then set `limit`.
 * It belongs to one thread. */
struct psti_decode_arena {
    /* all chunks, the newest first; memory is handed out only from the newest */
    struct psti_arena_chunk *chunks;
    uint64_t limit; /* bytes that `held` never exceeds */
    uint64_t held;  /* bytes of all chunks */
    uint64_t want;  /* size of the next chunk, which is enough for all that the image needs */
};

/* Returns uninitialised memory, aligned to a cache line, valid until the next reset. If it returns
 * NULL, *why says whether there is no memory (PST_ERROR_MEMORY) or the limit would be exceeded
 * (PST_ERROR_LIMIT). *why is set only then. */
void *psti_decode_arena_alloc(struct psti_decode_arena *arena, size_t nbytes, enum pst_status *why);
/* Makes sure that the next `nbytes` come from one chunk, which replaces smaller chunks. `nbytes`
 * counts all pieces of memory, with a cache line more for each piece. Must be called before any
 * memory is handed out. Returns false and sets *why if it fails. */
bool psti_decode_arena_prepare(struct psti_decode_arena *arena, size_t nbytes,
                               enum pst_status *why);
/* Takes one chunk of `nbytes` now, if there is memory for it. Images that need no more then
 * allocate nothing. Memory that was handed out becomes invalid. */
void psti_decode_arena_hold(struct psti_decode_arena *arena, size_t nbytes);
/* Returns whether other code (libwebp) may allocate `nbytes` by itself: these bytes and the memory
 * handed out must not exceed the limit together. If that only works without the chunk's unused
 * pages, the pages are given back to the kernel. */
bool psti_decode_arena_lend(struct psti_decode_arena *arena, uint64_t nbytes);
/* Makes all memory that was handed out invalid. Keeps the memory that one image needed for the next
 * image. */
void psti_decode_arena_reset(struct psti_decode_arena *arena);
void psti_decode_arena_free(struct psti_decode_arena *arena);

#endif
