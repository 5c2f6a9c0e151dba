/* fault.h - makes the n-th memory, thread, read, write or driver call fail, in builds with
 * PST_FAULTS (tests).
 *
 * In other builds psti_fault() is a constant false and costs nothing. */
#ifndef PST_BASE_FAULT_H
#define PST_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum psti_fault_kind {
    PSTI_FAULT_ALLOC,
    PSTI_FAULT_THREAD,
    PSTI_FAULT_READ,
    PSTI_FAULT_WRITE,
    PSTI_FAULT_DEVICE, /* a call of the GPU driver that creates, allocates, copies, launches or
                          waits */
    PSTI_FAULT_ADVICE, /* a hint to the kernel about pages: madvise, posix_fadvise */
    PSTI_FAULT_KINDS
};

#ifdef PST_FAULTS
/* Returns whether the caller must behave as if the operation had failed. */
bool psti_fault(enum psti_fault_kind kind);
/* Makes call number `n` (1 = the next one) of `kind` fail and, if `sticky`, all later calls too. n
 * = 0 makes none fail. */
void psti_fault_arm(enum psti_fault_kind kind, uint64_t n, bool sticky);
/* Returns the number of calls of `kind` since psti_fault_arm. */
uint64_t psti_fault_count(enum psti_fault_kind kind);
#else
static inline bool psti_fault(enum psti_fault_kind kind)
{
    (void)kind;
    return false;
}
#endif
#endif
