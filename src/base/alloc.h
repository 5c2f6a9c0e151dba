/* alloc.h - the only way to memory; goes to the hooks of pst_set_allocator, and counts.
 *
 * Sizes are kept in a header before the memory, so that free needs no size. All return NULL when
 * there is no memory (or a test made this call fail, see fault.h); contents are uninitialised
 * unless stated. */
#ifndef PST_BASE_ALLOC_H
#define PST_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#define PSTI_CACHE_LINE 64

void *psti_alloc(size_t nbytes);
void *psti_calloc(size_t n, size_t size);        /* zeroed; checks n * size */
void *psti_alloc_array(size_t n, size_t size);   /* not zeroed; checks n * size */
void *psti_realloc(void *memory, size_t nbytes); /* on NULL `memory` stays as it was */
void *psti_alloc_aligned(size_t alignment,
                         size_t nbytes); /* power of two <= 1 MiB; freed by psti_free */
char *psti_strdup(const char *text);
void psti_free(void *memory); /* NULL-safe */

/* Blocks of several huge pages that the kernel refused to put on such pages, so far. */
uint64_t psti_alloc_n_small_pages(void);

#endif
