/* cache_memory.c - a large range of addresses, for which memory is claimed step by step.
 *
 * A private range is reserved without access rights, which costs no memory under any overcommit
 * policy. The system may refuse to make a step accessible, and then the caller gets an error. If
 * memory were instead touched beyond a limit, the process would be killed. */
#include "cache/cache_int.h"

#include "base/bits.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/sealed.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP_NBYTES ((size_t)16 << 20)
#define STORE_STEP_NBYTES ((size_t)1 << 20) /* a step of this length is taken from the budget at
                                             * once */

enum pst_status psti_cache_memory_open(struct psti_cache_memory *memory, size_t capacity,
                                       bool shared, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    void *bytes = NULL;
    capacity = psti_round_up(capacity, STEP_NBYTES);
    memory->fd = -1;
    if (shared)
        status = psti_sealed_store_make("penstock-items", capacity, &memory->fd, &bytes, err);
    else if (psti_fault(PSTI_FAULT_ALLOC) ||
             (bytes = mmap(NULL, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                           -1, 0)) == MAP_FAILED)
        status = psti_fail_os(err, ENOMEM, "cache", NULL, -1,
                              "no address space for a cache of %zu bytes", capacity);
    if (status != PST_OK)
        return status;
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
    if (memory->fd >= 0)
        close(memory->fd);
    pthread_mutex_destroy(&memory->lock);
    memory->bytes = NULL;
}

static bool claim_more(struct psti_cache_memory *memory, size_t end)
{
    size_t from = atomic_load_explicit(&memory->claimed, memory_order_relaxed);
    if (end <= from)
        return true;
    bool is_store = memory->fd >= 0;
    size_t to = psti_round_up(end, is_store ? STORE_STEP_NBYTES : STEP_NBYTES);
    if (to > memory->capacity)
        return false;
    if (is_store ? !psti_sealed_store_grow(memory->fd, from, to)
                 : psti_fault(PSTI_FAULT_ALLOC) ||
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

size_t psti_cache_memory_place(struct psti_cache_memory *memory, atomic_size_t *end, size_t nbytes)
{
    size_t place = atomic_load_explicit(end, memory_order_relaxed);
    /* The end advances only after its memory was claimed, so it never exceeds the budget or the
     * range. */
    do {
        if (!psti_cache_memory_claim(memory, place + nbytes))
            return SIZE_MAX;
    } while (!atomic_compare_exchange_weak_explicit(end, &place, place + nbytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return place;
}
