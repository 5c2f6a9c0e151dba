/* cache.h - stored bytes of samples, or JPEGs re-coded, kept in memory. Nothing is ever evicted.
 *
 * An epoch meets each sample once, in a new order, so all items are worth the same, and evicting
 * one for another only loses a hit that was sure (MinIO: Mohan et al., "Analyzing and Mitigating
 * Data Stalls in DNN Training", PVLDB 14(5), 2021). A cache therefore takes items as they are read
 * until its bytes are used up, and keeps them: in each later epoch exactly these are not read.
 *
 * pst_cache_open makes a cache of this process. pst_cache_open_host takes that of the host service
 * (<penstock/service.h>), which all processes of the user share. Loaders that name it
 * (pst_loader_options.cache) share it: those of the same data set find each other's items if they
 * keep them in the same form (pst_loader_options.cache_form). */
#ifndef PENSTOCK_CACHE_H
#define PENSTOCK_CACHE_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Memory that keeps stored bytes, shared by the loaders that are given it. */
typedef struct pst_cache pst_cache;

/* Says how large a cache may become. Zero-initialise, then set struct_size. */
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

/* Says how to find the host cache. Zero-initialise, then set struct_size. */
struct pst_cache_host_options {
    size_t struct_size;
    /* Path of the service's socket; NULL: as <penstock/service.h> says. Copied. */
    const char *socket;
    /* The program to start, as `PROGRAM serve --detach`, if no service runs: a path, or a name to
     * look for in PATH. The environment variable PENSTOCK_SERVE names another one. NULL: none is
     * started. The service is no child of this process, and ends some minutes after its
     * last client. */
    const char *program;
    /* Can end a call that waits for the service, with PST_ERROR_CANCELLED: pst_cache_open_host,
     * pst_cache_save, pst_cache_load. NULL: nothing does. It is called by the thread that waits,
     * and must live as long as the handle. */
    pst_interrupt_fn interrupt;
    void *interrupt_ctx;
    /* True: opening a loader, or images, with this handle fails if the host cache cannot be used.
     * False: they work without it, count that (PST_FALLBACK_HOST), give the reason (the log,
     * pst_loader_stats.host_reason), and look for the service again later. */
    bool strict;
    /* No service is looked for, or started, now: loaders do that at their epochs. */
    bool later;
};

/* Takes the host cache: one cache for all loaders and processes of this user on this machine.
 *
 * A loader that is given it (pst_loader_options.cache) opens a session with the service. The
 * service reads each missing item once for all of them, and keeps it in memory that they map for
 * reading only; a hit copies nothing. If the service ends or does not answer for ten seconds,
 * loaders read for themselves (PST_FALLBACK_HOST counts the items) and look for the service again
 * at their next epoch. pst_cache_stats, pst_cache_save and pst_cache_load are of the service's
 * whole cache; paths are those that this process sees, and must be the service's, too.
 *
 * options: NULL for the defaults.
 * out: receives the handle, to be closed by pst_cache_close; NULL after failure.
 *
 * PST_ERROR_NOT_FOUND: no service runs, and none is to be started, or the program is not there.
 * PST_ERROR_VERSION: the service is of another version of Penstock.
 * PST_ERROR_ARGUMENT: it is another user's, or the path of the socket is too long.
 * PST_ERROR_IO: it does not answer, or the started program ended.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_open_host(const struct pst_cache_host_options *options,
                                                    pst_cache **out, struct pst_error *err);

/* Gives up the caller's hold. Loaders that use the cache have their own; its memory is freed with
 * the last one.
 *
 * cache: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread. */
void pst_cache_close(pst_cache **cache);

/* Describes the contents of a cache at one moment. */
struct pst_cache_stats {
    uint64_t nbytes;      /* the limit */
    uint64_t nbytes_used; /* of it: items, those under way, tables */
    uint64_t n_items;
    /* Data sets that have items here, also those that no loader uses now. One whose items are kept
     * in two forms counts twice. */
    uint64_t n_datasets;
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

/* Says how large a cache suits a data set on this machine. */
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

/* Says what it costs to keep one sample, and what it saves. */
struct pst_cache_cost {
    uint64_t nbytes; /* of its items, as the cache will keep them */
    double seconds;  /* saved in each epoch: of reading and decoding; 0 or more */
};

/* Says what a plan brings. */
struct pst_cache_plan_report {
    uint64_t n_samples; /* admitted */
    uint64_t nbytes;    /* of the cache that they take, with 16 to 31 bytes for each */
    double seconds;     /* saved in each epoch */
    /* No choice under this budget saves more. It is less than the seconds of one sample above
     * `seconds`. */
    double seconds_bound;
};

/* Chooses which samples a cache should admit, so that an epoch takes the least time: those that
 * save the most seconds for each byte, as far as they fit. Without a plan a cache takes samples as
 * they come, which is as good where all bytes cost the same. Samples that save nothing are left
 * out.
 *
 * costs: n of them, each cost_nbytes (sizeof *costs) long. A sample of several items counts as one.
 * nbytes: what the cache has left for items: its bytes less 8 for each item of the data set.
 * plan: receives n bytes, 1 or 0, for pst_loader_options.cache_plan.
 * report: written as a whole after success. NULL is allowed.
 * report_nbytes: sizeof *report.
 *
 * PST_ERROR_ARGUMENT: seconds are negative or not finite. PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_plan(const struct pst_cache_cost *costs,
                                               size_t cost_nbytes, uint64_t n, uint64_t nbytes,
                                               uint8_t *plan, struct pst_cache_plan_report *report,
                                               size_t report_nbytes, struct pst_error *err);

/* Says what pst_cache_save wrote, or what pst_cache_load took. */
struct pst_cache_file_report {
    uint64_t n_items;
    uint64_t nbytes;      /* of these items' stored bytes */
    uint64_t n_datasets;  /* that they are of */
    uint64_t file_nbytes; /* length of the file */
    uint64_t n_present;   /* pst_cache_load: items of the file that the cache had already */
    uint64_t n_refused;   /* pst_cache_load: items of the file that found no room */
    /* pst_cache_save: items that are left out, because the index of their data set, which is in
     * other people's files, has no checksums of items. */
    uint64_t n_unsaved;
};

/* Writes the items of all data sets of the cache to a file, for pst_cache_load.
 *
 * The file is written under a temporary name in the same directory (the path, followed by ".tmp-"
 * and two numbers), made durable, and then takes the place of an older file. If the call fails, the
 * older file stays as it was and the temporary file is removed. One case is different: if
 * PST_ERROR_IO says that only the directory could not be made durable, the new file is in place. A
 * process that is killed can leave the temporary file, which may be deleted.
 *
 * Loaders may use the cache meanwhile. An item that they add during the call may be in the file or
 * not. The file can be read by its owner only (mode 0600). It takes as many bytes as the items with
 * 40 to 55 bytes for each, and is not kept in the page cache.
 *
 * Left out, with a warning in the log, are items of other people's files whose index has no
 * checksums (pst_dataset_options.sums): nothing would tell later whether the bytes are theirs.
 *
 * path: the file to write. If something is there, it must be a plain file. A symbolic link is not
 *     followed, but refused.
 * report: written as a whole after success. NULL is allowed.
 * report_nbytes: sizeof *report.
 *
 * PST_ERROR_ARGUMENT: the path names no file.
 * PST_ERROR_NOT_FOUND: the directory does not exist.
 * PST_ERROR_NO_SPACE: the disk or a quota is full.
 * PST_ERROR_IO: anything else that the file system refuses; no plain file has that path.
 *
 * The caller's hold of the cache must last for the whole call. Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_save(pst_cache *cache, const char *path,
                                               struct pst_cache_file_report *report,
                                               size_t report_nbytes, struct pst_error *err);

/* Takes items from a file that pst_cache_save wrote.
 *
 * The file is read once, front to back, into the memory of the cache. The page cache does not keep
 * it. Loaders find the items of a data set by the version of the data set, as if another loader had
 * read them. So a data set that has changed since is never served from the file: its old items are
 * of a data set that nobody opens, and give way as those of any unused data set do.
 *
 * Items are taken in the order of the file, each if the cache lacks it and has room for it. Nothing
 * gives way to them, also no data set that no loader uses. An item that a loader adds during the
 * call may take memory twice, so load the file before the first epoch.
 *
 * No loader sees an item before the whole file was read and every item that is taken has the
 * checksum that the file states. If the call fails, the items of the cache are as before. The
 * checksums find damage, not forgery: load files only from where you would load the data set.
 *
 * report: written as a whole after success. NULL is allowed.
 * report_nbytes: sizeof *report.
 *
 * PST_ERROR_NOT_FOUND: there is no such file.
 * PST_ERROR_IO: it cannot be read, or is no plain file.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_TRUNCATED: it is no saved cache, or is damaged;
 *     the error says at which offset.
 * PST_ERROR_VERSION: its format is of another version. Save it anew.
 * PST_ERROR_MEMORY: the system has less memory than the cache may take.
 *
 * The caller's hold of the cache must last for the whole call. Any thread. */
PST_WARN_UNUSED enum pst_status pst_cache_load(pst_cache *cache, const char *path,
                                               struct pst_cache_file_report *report,
                                               size_t report_nbytes, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
