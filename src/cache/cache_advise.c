/* cache_advise.c - advises the size of a cache from the size of a data set and the free memory. */
#include "cache/cache_int.h"

#include "base/machine/cores.h"
#include "base/machine/memory_limit.h"
#include "base/options.h"

#include <inttypes.h>
#include <stdio.h>

#define MIB ((uint64_t)1 << 20)

struct pst_cache_advice psti_cache_advise(uint64_t dataset_nbytes, uint64_t available_nbytes,
                                          unsigned n_ranks)
{
    struct pst_cache_advice advice = {.available_nbytes = available_nbytes};
    uint64_t half = available_nbytes / 2;
    char *reason = advice.reason;
    if (available_nbytes == UINT64_MAX)
        snprintf(reason, sizeof advice.reason, "no cache: the free memory is not known");
    else if (dataset_nbytes <= available_nbytes)
        snprintf(reason, sizeof advice.reason,
                 "no cache: the page cache can hold the data set (%" PRIu64 " MiB of %" PRIu64
                 " MiB available)",
                 dataset_nbytes / MIB, available_nbytes / MIB);
    else if (n_ranks > 1)
        snprintf(reason, sizeof advice.reason,
                 "no cache: each of the %u processes on this machine reads other samples in each "
                 "epoch",
                 n_ranks);
    else if (half < PSTI_CACHE_NBYTES_MIN)
        snprintf(reason, sizeof advice.reason, "no cache: only %" PRIu64 " bytes are available",
                 available_nbytes);
    else {
        advice.nbytes = half;
        snprintf(reason, sizeof advice.reason,
                 "a cache of %" PRIu64 " MiB, half the available memory: the data set has %" PRIu64
                 " MiB, too much for the page cache",
                 half / MIB, dataset_nbytes / MIB);
    }
    return advice;
}

void pst_cache_advise(uint64_t dataset_nbytes, struct pst_cache_advice *advice,
                      size_t advice_nbytes)
{
    struct pst_cache_advice full =
        psti_cache_advise(dataset_nbytes, psti_memory_available(), psti_local_ranks());
    psti_struct_write(advice, advice_nbytes, &full, sizeof full);
}
