/* decode_arena.h - scratch memory that codecs use for one image after the other, without freeing
 * it. */
#ifndef PST_DECODE_ARENA_H
#define PST_DECODE_ARENA_H

#include <penstock/status.h>

#include <stdbool.h>

struct psti_arena_chunk;

/* An arena hands out memory by moving a pointer through chunks, which it keeps for the next image.
 * Zero-initialise it, then set `limit`. It belongs to one thread. */
struct psti_decode_arena {
    /* all chunks, the newest first; memory is handed out only from the newest */
    struct psti_arena_chunk *chunks;
    uint64_t limit; /* bytes that `held` must never exceed */
    uint64_t held;  /* bytes of all chunks together */
    /* bytes that the next chunk should have, so that it is enough for a whole image */
    uint64_t want;
};

/* Returns uninitialised memory, aligned to a cache line, valid until the next reset. If it returns
 * NULL, *why says whether there is no memory (PST_ERROR_MEMORY) or the limit would be exceeded
 * (PST_ERROR_LIMIT). *why is set only then. */
void *psti_decode_arena_alloc(struct psti_decode_arena *arena, size_t nbytes, enum pst_status *why);
/* Takes back the newest piece of memory, of `nbytes`. Nothing may have been handed out after it. */
void psti_decode_arena_give_back(struct psti_decode_arena *arena, size_t nbytes);
/* Makes sure that the next `nbytes` come from one chunk, which replaces smaller chunks. `nbytes`
 * counts all pieces of memory that will be taken, plus one cache line for each piece. Must be
 * called before any memory is handed out. Returns false and sets *why if it fails. */
bool psti_decode_arena_prepare(struct psti_decode_arena *arena, size_t nbytes,
                               enum pst_status *why);
/* Allocates one chunk of `nbytes` now, if there is memory for it. Images that need no more scratch
 * then allocate nothing. Memory that was handed out before becomes invalid. */
void psti_decode_arena_hold(struct psti_decode_arena *arena, size_t nbytes);
/* Returns whether a library with its own allocator (libwebp) may allocate `nbytes`: these bytes and
 * the memory that was handed out must not exceed the limit together. If they only fit without the
 * chunk's unused pages, this function gives those pages back to the kernel. */
bool psti_decode_arena_lend(struct psti_decode_arena *arena, uint64_t nbytes);
/* Makes all memory that was handed out invalid. The chunks stay allocated for the next image. */
void psti_decode_arena_reset(struct psti_decode_arena *arena);
void psti_decode_arena_free(struct psti_decode_arena *arena);

#endif
