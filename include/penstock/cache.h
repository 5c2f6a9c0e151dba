/* cache.h - stored bytes of samples kept in memory, of which nothing is ever evicted.
 *
 * An epoch meets each sample once, in a new order, so all items are worth the same, and evicting
 * one for another only loses a hit that was sure (MinIO: Mohan et al., "Analyzing and Mitigating
 * Data Stalls in DNN Training", PVLDB 14(5), 2021). A cache therefore takes items as they are read
 * until its bytes are used up, and keeps them: in each later epoch exactly these are not read.
 *
 * A cache belongs to this process. Loaders that name it (pst_loader_options.cache) share it: those
 * of the same data set find each other's items. */
#ifndef PENSTOCK_CACHE_H
#define PENSTOCK_CACHE_H

#include <penstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct pst_cache pst_cache;

/* How large a cache may become. Zero-initialise, then set struct_size. */
struct pst_cache_options {
    size_t struct_size;
    /* Most bytes of memory: items, 16 to 31 bytes with each of them, and 8 bytes for each item of
     * a data set that uses the cache. At least 1 MiB. It is no part of a loader's host_memory. */
    uint64_t nbytes;
};

/* Makes an empty cache. Memory is claimed as items come.
 *
 * options: nbytes must be set.
 * out: receives the cache, to be closed by pst_cache_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: nbytes is below 1 MiB.
 * PST_ERROR_LIMIT: nbytes is more than the machine, or a control group of this process, leaves; the
 *     text says how much that is.
 * PST_ERROR_MEMORY: no address space.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_open(const struct pst_cache_options *options,
                                               pst_cache **out, struct pst_error *err);

/* Gives up the caller's hold. Loaders that use the cache have their own; its memory is freed with
 * the last one.
 *
 * cache: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread. */
void pst_cache_close(pst_cache **cache);

/* The contents of a cache at one moment. */
struct pst_cache_stats {
    uint64_t nbytes;      /* the limit */
    uint64_t nbytes_used; /* of it: items, those under way, tables */
    uint64_t n_items;
    uint64_t n_datasets; /* that have items here, also those that no loader uses now */
    /* Items that found no room, each time they were asked for. */
    uint64_t n_refused;
};

/* Gives the figures of a cache.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_cache_stats(pst_cache *cache, struct pst_cache_stats *stats, size_t stats_nbytes);

/* How large a cache suits a data set on this machine. */
struct pst_cache_advice {
    uint64_t nbytes; /* for pst_cache_options.nbytes; 0: no cache is better */
    /* Memory that this process can still get: MemAvailable of the machine, or less if a control
     * group leaves less. The page cache counts as free. UINT64_MAX: not known. */
    uint64_t available_nbytes;
    char reason[192]; /* one line that says why */
};

/* Advises a cache for a loader whose user made no choice.
 *
 * If the data set fits into the available memory, the page cache holds it, and no cache is advised.
 * Otherwise the page cache would evict most of what the next epoch needs, and a cache of half the
 * available memory is advised; the other half stays for the program and for the page cache. If a
 * launcher started several processes on this machine, none is advised: each of them reads other
 * samples in each epoch, so that a cache of one process would mostly hold what another one needs.
 *
 * dataset_nbytes: as pst_dataset_nbytes gives it.
 * advice: the caller's struct, written as a whole.
 * advice_nbytes: sizeof *advice.
 *
 * Cannot fail. Any thread. */
void pst_cache_advise(uint64_t dataset_nbytes, struct pst_cache_advice *advice,
                      size_t advice_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
