/* cache_memory.c - a large range of addresses, claimed step by step.
 *
 * The range is reserved without access rights, which costs no memory under any overcommit policy.
 * The system may refuse to make a step accessible, and the caller then gets an error. Memory that
 * is touched beyond a limit would instead get the process killed. */
#include "cache/cache_int.h"

#include "base/bits.h"
#include "base/fail.h"
#include "base/fault.h"

#include <errno.h>
#include <sys/mman.h>

#define STEP_NBYTES ((size_t)16 << 20)

enum pst_status psti_cache_memory_open(struct psti_cache_memory *memory, size_t capacity,
                                       struct pst_error *err)
{
    capacity = psti_round_up(capacity, STEP_NBYTES);
    void *bytes =
        psti_fault(PSTI_FAULT_ALLOC)
            ? MAP_FAILED
            : mmap(NULL, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return psti_fail_os(err, ENOMEM, "cache", NULL, -1,
                            "no address space for a cache of %zu bytes", capacity);
    memory->bytes = bytes;
    memory->capacity = capacity;
    atomic_init(&memory->claimed, 0);
    pthread_mutex_init(&memory->lock, NULL);
    return PST_OK;
}

void psti_cache_memory_close(struct psti_cache_memory *memory)
{
    if (!memory->bytes)
        return;
    munmap(memory->bytes, memory->capacity);
    pthread_mutex_destroy(&memory->lock);
    memory->bytes = NULL;
}

static bool claim_more(struct psti_cache_memory *memory, size_t end)
{
    size_t from = atomic_load_explicit(&memory->claimed, memory_order_relaxed);
    if (end <= from)
        return true;
    size_t to = psti_round_up(end, STEP_NBYTES);
    if (psti_fault(PSTI_FAULT_ALLOC) ||
        mprotect(memory->bytes + from, to - from, PROT_READ | PROT_WRITE) != 0)
        return false;
    atomic_store_explicit(&memory->claimed, to, memory_order_release);
    return true;
}

bool psti_cache_memory_claim(struct psti_cache_memory *memory, size_t end)
{
    if (end <= atomic_load_explicit(&memory->claimed, memory_order_acquire))
        return true;
    pthread_mutex_lock(&memory->lock);
    bool there = claim_more(memory, end);
    pthread_mutex_unlock(&memory->lock);
    return there;
}
