/* alloc.c - allocates and frees all memory of the library.
 *
 * A header of 16 bytes before each allocation holds its size and the distance to the start of the
 * memory that the hook (pst_set_allocator) returned. So hooks are told sizes, and psti_free needs
 * none. The hooks are process-wide on purpose, as in SQLite and curl: they are set once, before
 * anything else, and read without a lock afterwards. */
#include "base/alloc.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/options.h"

#include <penstock/penstock.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct header {
    size_t nbytes;  /* bytes that the caller of psti_alloc asked for */
    uint32_t lead;  /* bytes from the start of the hook's memory to the caller's memory */
    uint32_t magic; /* lets debug builds detect a free of foreign memory */
};

#define HEADER_NBYTES 16
#define HEADER_MAGIC 0x50535430u
#define ALIGNMENT_MAX ((size_t)1 << 20)

/* Large memory, such as batch slots and files in memory, is read and written from end to end. With
 * huge pages, address translation for it costs almost nothing. This is a hint: a kernel without
 * huge pages ignores it. */
#define HUGE_PAGE_NBYTES ((size_t)2 << 20)
#define HUGE_BLOCK_NBYTES (2 * HUGE_PAGE_NBYTES)

static atomic_uint_fast64_t n_small_pages;

static void *libc_alloc(void *ctx, size_t alignment, size_t nbytes)
{
    void *memory = NULL;
    bool huge = nbytes >= HUGE_BLOCK_NBYTES;
    (void)ctx;
    if (!huge && alignment <= _Alignof(max_align_t))
        return malloc(nbytes);
    if (huge && alignment < HUGE_PAGE_NBYTES)
        alignment = HUGE_PAGE_NBYTES;
    if (posix_memalign(&memory, alignment, nbytes) != 0)
        return NULL;
    if (huge && (psti_fault(PSTI_FAULT_ADVICE) ||
                 madvise(memory, nbytes & ~(HUGE_PAGE_NBYTES - 1), MADV_HUGEPAGE) != 0))
        atomic_fetch_add_explicit(&n_small_pages, 1, memory_order_relaxed);
    return memory;
}

static void libc_free(void *ctx, void *memory, size_t nbytes)
{
    (void)ctx;
    (void)nbytes;
    free(memory);
}

static struct pst_allocator hooks = {libc_alloc, libc_free, NULL};
static atomic_uint_fast64_t live_nbytes, n_alloc;

enum pst_status pst_set_allocator(const struct pst_allocator *allocator, struct pst_error *err)
{
    const struct pst_allocator libc = {libc_alloc, libc_free, NULL};
    if (atomic_load(&live_nbytes) != 0)
        return psti_fail(err, PST_ERROR_STATE, "base",
                         "%llu bytes of the allocator before are in use",
                         (unsigned long long)atomic_load(&live_nbytes));
    if (allocator && (!allocator->alloc || !allocator->free))
        return psti_fail(err, PST_ERROR_ARGUMENT, "base", "alloc or free of the allocator is NULL");
    hooks = allocator ? *allocator : libc;
    return PST_OK;
}

void pst_memory_stats(struct pst_memory_stats *stats, size_t stats_nbytes)
{
    const struct pst_memory_stats full = {.live_nbytes = atomic_load(&live_nbytes),
                                          .n_alloc = atomic_load(&n_alloc)};
    psti_struct_write(stats, stats_nbytes, &full, sizeof full);
}

uint64_t psti_alloc_n_small_pages(void) { return atomic_load(&n_small_pages); }

static struct header *header_of(void *memory)
{
    return (struct header *)((char *)memory - HEADER_NBYTES);
}

void *psti_alloc_aligned(size_t alignment, size_t nbytes)
{
    _Static_assert(sizeof(struct header) <= HEADER_NBYTES, "the header must fit before the block");
    size_t total, lead = alignment < HEADER_NBYTES ? HEADER_NBYTES : alignment;
    if (alignment > ALIGNMENT_MAX || !psti_add_size(nbytes, lead, &total) ||
        psti_fault(PSTI_FAULT_ALLOC))
        return NULL;
    char *block = hooks.alloc(hooks.ctx, lead, total);
    if (!block)
        return NULL;
    atomic_fetch_add_explicit(&live_nbytes, nbytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed);
    struct header *header = header_of(block + lead);
    header->nbytes = nbytes;
    header->lead = (uint32_t)lead;
    header->magic = HEADER_MAGIC;
    return block + lead;
}

void *psti_alloc(size_t nbytes) { return psti_alloc_aligned(HEADER_NBYTES, nbytes); }

void *psti_alloc_array(size_t n, size_t size)
{
    size_t nbytes;
    return psti_mul_size(n, size, &nbytes) ? psti_alloc(nbytes) : NULL;
}

void *psti_calloc(size_t n, size_t size)
{
    void *memory = psti_alloc_array(n, size);
    if (memory)
        memset(memory, 0, n * size);
    return memory;
}

void *psti_realloc(void *memory, size_t nbytes)
{
    void *grown = psti_alloc(nbytes);
    if (!grown || !memory)
        return grown;
    size_t old_nbytes = header_of(memory)->nbytes;
    memcpy(grown, memory, old_nbytes < nbytes ? old_nbytes : nbytes);
    psti_free(memory);
    return grown;
}

char *psti_strdup(const char *text)
{
    size_t nbytes = strlen(text) + 1;
    char *copy = psti_alloc(nbytes);
    if (copy)
        memcpy(copy, text, nbytes);
    return copy;
}

void psti_free(void *memory)
{
    if (!memory)
        return;
    struct header header = *header_of(memory);
    if (header.magic != HEADER_MAGIC)
        /* The memory was freed twice or not allocated here. Going on would corrupt the heap. */
        __builtin_trap();
    header_of(memory)->magic = 0;
    atomic_fetch_sub_explicit(&live_nbytes, header.nbytes, memory_order_relaxed);
    hooks.free(hooks.ctx, (char *)memory - header.lead, header.nbytes + header.lead);
}
