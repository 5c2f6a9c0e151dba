/* decode_arena.h - scratch memory that codecs fill from image to image without freeing. */
#ifndef PST_DECODE_ARENA_H
#define PST_DECODE_ARENA_H

#include <penstock/status.h>

#include <stdbool.h>

struct psti_arena_chunk;

/* Bump allocation from chunks that are kept. Zero-initialise, then set `limit`. Belongs to one
 * thread. */
struct psti_decode_arena {
    struct psti_arena_chunk *chunks; /* the newest first; only it is filled */
    uint64_t limit;                  /* bytes that `held` never exceeds */
    uint64_t held;                   /* bytes of all chunks */
    uint64_t want;                   /* size of the next chunk, so that one chunk is enough */
};

/* Uninitialised memory, aligned to a cache line, valid until reset. NULL: *why (set then only) says
 * whether there is no memory (PST_ERROR_MEMORY) or the limit would be exceeded (PST_ERROR_LIMIT).
 */
void *psti_decode_arena_alloc(struct psti_decode_arena *arena, size_t nbytes, enum pst_status *why);
/* To be called before anything is handed out: what follows, `nbytes` in all with a cache line for
 * each piece, comes from one chunk, which replaces a smaller one. */
bool psti_decode_arena_prepare(struct psti_decode_arena *arena, size_t nbytes,
                               enum pst_status *why);
/* Takes one chunk of `nbytes` now, where there is memory for it: then nothing is allocated up to
 * that. Memory handed out is void. */
void psti_decode_arena_hold(struct psti_decode_arena *arena, size_t nbytes);
/* Whether somebody may take `nbytes` elsewhere within the limit, beside what is handed out. Pages
 * that are not handed out go back to the kernel if they had to be lent for that. */
bool psti_decode_arena_lend(struct psti_decode_arena *arena, uint64_t nbytes);
/* All memory handed out is void; what one image needed is kept for the next. */
void psti_decode_arena_reset(struct psti_decode_arena *arena);
void psti_decode_arena_free(struct psti_decode_arena *arena);

#endif
