/* fault.h - lets tests make the n-th allocation, thread start, read, write or driver call fail, in
 * builds with PST_FAULTS.
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
    /* a GPU driver call that creates, allocates, copies, launches or waits */
    PSTI_FAULT_DEVICE,
    PSTI_FAULT_ADVICE, /* a hint to the kernel about pages: madvise, posix_fadvise */
    PSTI_FAULT_KINDS
};

#ifdef PST_FAULTS
/* Counts a call of `kind`. Returns true if the caller must act as if the operation had failed. */
bool psti_fault(enum psti_fault_kind kind);
/* Makes call number `n` of `kind` fail, counted from now (1: the next one). If `sticky`, all later
 * calls fail too. n = 0: no call fails. */
void psti_fault_arm(enum psti_fault_kind kind, uint64_t n, bool sticky);
/* Returns how many calls of `kind` were made since psti_fault_arm. */
uint64_t psti_fault_count(enum psti_fault_kind kind);
#else
static inline bool psti_fault(enum psti_fault_kind kind)
{
    (void)kind;
    return false;
}
#endif
#endif
