/* fault.c - the counters of fault.h, only in builds with PST_FAULTS. */
#include "base/fault.h"

#ifdef PST_FAULTS
#include <stdatomic.h>

static struct {
    atomic_uint_fast64_t count, target;
    atomic_bool sticky;
} faults[PSTI_FAULT_KINDS];

bool psti_fault(enum psti_fault_kind kind)
{
    uint64_t count = atomic_fetch_add(&faults[kind].count, 1) + 1;
    uint64_t target = atomic_load(&faults[kind].target);
    return target && (count == target || (count > target && atomic_load(&faults[kind].sticky)));
}

void psti_fault_arm(enum psti_fault_kind kind, uint64_t n, bool sticky)
{
    atomic_store(&faults[kind].target, 0);
    atomic_store(&faults[kind].sticky, sticky);
    atomic_store(&faults[kind].count, 0);
    atomic_store(&faults[kind].target, n);
}

uint64_t psti_fault_count(enum psti_fault_kind kind) { return atomic_load(&faults[kind].count); }
#else
/* ISO C requires at least one declaration in a file. */
typedef int psti_fault_unused;
#endif
