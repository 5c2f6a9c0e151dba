/* alloc.h - allocates memory through the hooks of pst_set_allocator, and counts it. The library
 * uses no other allocator.
 *
 * A header before each allocation holds its size, so psti_free needs no size. All functions return
 * NULL if there is no memory, or if a test made the call fail (fault.h). Memory is uninitialised
 * unless a comment says otherwise. */
#ifndef PST_BASE_ALLOC_H
#define PST_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#define PSTI_CACHE_LINE 64

void *psti_alloc(size_t nbytes);
void *psti_calloc(size_t n, size_t size);        /* zeroed; checks n * size for overflow */
void *psti_alloc_array(size_t n, size_t size);   /* not zeroed; checks n * size for overflow */
void *psti_realloc(void *memory, size_t nbytes); /* if it returns NULL, `memory` is unchanged */
void *psti_alloc_aligned(size_t alignment,
                         /* alignment: a power of two <= 1 MiB; free with psti_free */
                         size_t nbytes);
char *psti_strdup(const char *text);
void psti_free(void *memory); /* NULL is allowed */

/* Returns for how many allocations of at least two huge pages the kernel has refused to use huge
 * pages. */
uint64_t psti_alloc_n_small_pages(void);

#endif
