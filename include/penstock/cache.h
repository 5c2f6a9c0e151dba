/* cache.h - stored bytes of samples, or JPEGs re-coded, kept in memory. Nothing is ever evicted.
 *
 * An epoch visits each sample once, in a new order, so all items are worth the same. Evicting one
 * item for another only loses a certain hit (MinIO: Mohan et al., "Analyzing and Mitigating Data
 * Stalls in DNN Training", PVLDB 14(5), 2021). A cache therefore takes items as they are read until
 * its memory is full, and keeps them. In each later epoch these items are not read from storage.
 *
 * pst_cache_open makes a cache of this process. pst_cache_open_host gives access to the cache of
 * the host service (<penstock/service.h>), which all processes of the user share. Loaders that are
 * given the same cache (pst_loader_options.cache) share its items if they read the same data set
 * and keep items in the same form (pst_loader_options.cache_form). */
#ifndef PENSTOCK_CACHE_H
#define PENSTOCK_CACHE_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A cache: memory that keeps stored bytes. Loaders that are given the same cache share it. */
typedef struct pst_cache pst_cache;

/* Options of pst_cache_open: the size of the cache. Zero-initialise, then set struct_size. */
struct pst_cache_options {
    size_t struct_size;
    /* Maximum number of bytes of memory that the cache may take, at least 1 MiB: the items, 16 to
     * 31 bytes more for each, and 8 bytes for each item of every data set that uses the cache. They
     * do not count in a loader's host_memory. */
    uint64_t nbytes;
};

/* Makes an empty cache. It takes memory from the system as items are added.
 *
 * options: nbytes must be set.
 * out: receives the cache, to be closed by pst_cache_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: nbytes is below 1 MiB.
 * PST_ERROR_LIMIT: nbytes is more than the machine, or a control group of this process, has left;
 *     the error text says how much there is.
 * PST_ERROR_MEMORY: no address space.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_open(const struct pst_cache_options *options,
                                               pst_cache **out, struct pst_error *err);

/* Options of pst_cache_open_host: how to find the host service. Zero-initialise, then set
 * struct_size. */
struct pst_cache_host_options {
    size_t struct_size;
    /* Path of the service's socket; NULL: the default of <penstock/service.h>. Copied. */
    const char *socket;
    /* Program that is started as `PROGRAM serve --detach` if no service runs: a path, or a name
     * that is looked for in PATH. The environment variable PENSTOCK_SERVE overrides it. NULL: none
     * is started. The service is no child of this process. It ends some minutes after its last
     * client. */
    const char *program;
    /* Function that can end calls which wait for the service (pst_cache_open_host, pst_cache_save,
     * pst_cache_load) with PST_ERROR_CANCELLED; NULL: they cannot be ended. The waiting thread
     * calls it. It must stay valid as long as the handle. */
    pst_interrupt_fn interrupt;
    void *interrupt_ctx;
    /* True: a loader or a pst_images cannot be opened with this handle if the host cache cannot be
     * used. False: it works without the cache, counts that (PST_FALLBACK_HOST), gives the reason in
     * the log and in pst_loader_stats.host_reason, and looks for the service again later. */
    bool strict;
    /* True: this call does not look for or start the service. Loaders look for it, and wait one
     * second for its greeting, when they are opened and when an epoch begins. */
    bool later;
};

/* Gives access to the host cache, one cache for all loaders of this user on this machine.
 *
 * A loader that is given the handle (pst_loader_options.cache) opens a session with the service.
 * The service reads each missing item once for all loaders, into memory that they map read-only, so
 * a hit copies nothing. If the service ends or does not answer for ten seconds, loaders read items
 * themselves (PST_FALLBACK_HOST counts them) and look for the service again at their next epoch.
 * pst_cache_stats, pst_cache_save and pst_cache_load concern the service's whole cache. Their paths
 * must mean the same file for this process and for the service.
 *
 * options: NULL for the defaults.
 * out: receives the handle, to be closed by pst_cache_close; NULL after failure.
 *
 * PST_ERROR_NOT_FOUND: no service runs, and `program` is NULL or does not exist.
 * PST_ERROR_VERSION: the service has another version of Penstock.
 * PST_ERROR_ARGUMENT: the service belongs to another user, or the socket's path is too long.
 * PST_ERROR_IO: the service does not answer, or the started program ended.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_open_host(const struct pst_cache_host_options *options,
                                                    pst_cache **out, struct pst_error *err);

/* Gives up the caller's reference. Each loader that uses the cache has its own reference; the
 * memory is freed with the last one.
 *
 * cache: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread. */
void pst_cache_close(pst_cache **cache);

/* Describes the contents of a cache at one moment. */
struct pst_cache_stats {
    uint64_t nbytes;      /* maximum number of bytes that the cache may take */
    uint64_t nbytes_used; /* bytes taken: items, items being read, tables */
    uint64_t n_items;
    /* Data sets with items in the cache, including those that no loader uses now. A data set whose
     * items are kept in two forms counts twice. */
    uint64_t n_datasets;
    /* How often an item was not kept because the cache was full. An item counts each time it is
     * read. */
    uint64_t n_refused;
};

/* Gives the counters of a cache.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_cache_stats(pst_cache *cache, struct pst_cache_stats *stats, size_t stats_nbytes);

/* Says how large a cache suits a data set on this machine. */
struct pst_cache_advice {
    uint64_t nbytes; /* value for pst_cache_options.nbytes; 0: use no cache */
    /* Bytes that this process can still get: MemAvailable of the machine, or what its control group
     * leaves if that is less. The page cache counts as free. UINT64_MAX: unknown. */
    uint64_t available_nbytes;
    char reason[192]; /* one line that explains the advice */
};

/* Recommends a cache size for a loader whose user set none.
 *
 * If the data set fits into the available memory, the kernel's page cache holds it, and no cache is
 * advised. Otherwise the page cache would evict most of what the next epoch needs, so a cache of
 * half the available memory is advised; the other half stays for the program and the page cache. If
 * a launcher started several processes on this machine, no cache is advised: each process reads
 * other samples in each epoch, so its own cache would mostly hold items for others.
 *
 * dataset_nbytes: bytes of the data set, from pst_dataset_nbytes.
 * advice: the caller's struct, written as a whole.
 * advice_nbytes: sizeof *advice.
 *
 * Cannot fail. Any thread. */
void pst_cache_advise(uint64_t dataset_nbytes, struct pst_cache_advice *advice,
                      size_t advice_nbytes);

/* The cost of keeping one sample in a cache, and the time that this saves. */
struct pst_cache_cost {
    uint64_t nbytes; /* bytes of its items in the form that the cache keeps */
    /* Reading and decoding time that the cache saves in each epoch; 0 or more. */
    double seconds;
};

/* The samples that a plan of pst_cache_plan admits, and the time that it saves. */
struct pst_cache_plan_report {
    uint64_t n_samples; /* number of samples that are admitted */
    uint64_t nbytes;    /* cache memory they take, with 16 to 31 bytes per sample */
    double seconds;     /* time saved in each epoch */
    /* Upper bound on the seconds that any choice within `nbytes` can save. It exceeds `seconds` by
     * less than what one sample saves. */
    double seconds_bound;
};

/* Chooses the samples that a cache should admit so that an epoch takes the least time: those that
 * save the most seconds per byte, until the cache is full. Without a plan a cache takes samples as
 * they are read, which is as good if all bytes save the same time. Samples that save nothing are
 * left out.
 *
 * costs: n structs of cost_nbytes (sizeof *costs) each. The items of a sample count together.
 * nbytes: bytes for items: those of the cache less 8 for each item of the data set.
 * plan: receives n bytes for pst_loader_options.cache_plan: 1 admits the sample, 0 does not.
 * report: written as a whole after success. NULL is allowed.
 * report_nbytes: sizeof *report.
 *
 * PST_ERROR_ARGUMENT: a number of seconds is negative or not finite. PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_plan(const struct pst_cache_cost *costs,
                                               size_t cost_nbytes, uint64_t n, uint64_t nbytes,
                                               uint8_t *plan, struct pst_cache_plan_report *report,
                                               size_t report_nbytes, struct pst_error *err);

/* Counts of what pst_cache_save wrote, or what pst_cache_load took over. */
struct pst_cache_file_report {
    uint64_t n_items;
    uint64_t nbytes;      /* stored bytes of these items */
    uint64_t n_datasets;  /* data sets that these items belong to */
    uint64_t file_nbytes; /* length of the file */
    uint64_t n_present;   /* pst_cache_load: items that the cache had before */
    uint64_t n_refused;   /* pst_cache_load: items for which the cache was full */
    /* pst_cache_save: items that were left out because their data set was made by other software
     * and its index has no checksums. */
    uint64_t n_unsaved;
};

/* Writes the items of all data sets of the cache to a file, for pst_cache_load.
 *
 * The file is written under a temporary name in the same directory (the path followed by ".tmp-"
 * and two numbers), flushed to disk, and then renamed over an older file. If the call fails, the
 * older file is unchanged and the temporary file is removed. Exception: if PST_ERROR_IO says that
 * only the directory could not be flushed, the new file is in place. A process that is killed can
 * leave the temporary file, which may be deleted.
 *
 * Loaders may use the cache during the call. An item that they add meanwhile may or may not be in
 * the file. The file has mode 0600, so only its owner can read it. Its length is that of the items
 * plus 40 to 55 bytes for each. It is not kept in the kernel's page cache.
 *
 * Items of files that other software made are left out, with a warning in the log, if their index
 * has no checksums (pst_dataset_options.sums): a later load could not verify their bytes.
 *
 * path: the file to write. An existing file must be a regular file; a symbolic link is refused, not
 *     followed.
 * report: written as a whole after success. NULL is allowed.
 * report_nbytes: sizeof *report.
 *
 * PST_ERROR_ARGUMENT: the path names no file.
 * PST_ERROR_NOT_FOUND: the directory does not exist.
 * PST_ERROR_NO_SPACE: the disk or a quota is full.
 * PST_ERROR_IO: another failure of the file system, or the path names something else than a file.
 *
 * The caller must keep its reference to the cache during the whole call. Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_save(pst_cache *cache, const char *path,
                                               struct pst_cache_file_report *report,
                                               size_t report_nbytes, struct pst_error *err);

/* Adds items from a file that pst_cache_save wrote.
 *
 * The file is read once from front to back into the memory of the cache, and is not kept in the
 * kernel's page cache. Items are filed under the identity of their data set, as if a loader had
 * read them. If the data set has changed since, its identity differs, so loaders never get old
 * items; they are dropped like the items of any unused data set.
 *
 * Items are taken in the order of the file, each if the cache lacks it and has memory left for it.
 * Nothing is evicted for them, not even items of data sets that no loader uses. An item that a
 * loader adds during the call may take memory twice, so load the file before the first epoch.
 *
 * Loaders see the new items only after the whole file was read and the checksum of every taken item
 * was compared. If the call fails, the cache is unchanged. The checksums find damage, not forgery:
 * load files only from sources that you would trust with the data set.
 *
 * report: written as a whole after success. NULL is allowed.
 * report_nbytes: sizeof *report.
 *
 * PST_ERROR_NOT_FOUND: there is no such file.
 * PST_ERROR_IO: it cannot be read, or is no regular file.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_TRUNCATED: it is no saved cache, or is damaged;
 *     the error says at which offset.
 * PST_ERROR_VERSION: the file has another version of the format. Save it again.
 * PST_ERROR_MEMORY: the system has less memory than the cache may take.
 *
 * The caller must keep its reference to the cache during the whole call. Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_load(pst_cache *cache, const char *path,
                                               struct pst_cache_file_report *report,
                                               size_t report_nbytes, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
