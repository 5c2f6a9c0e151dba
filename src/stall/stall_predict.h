/* stall_predict.h - predictions: how fast a training run is on a machine, and what it waits for.
 *
 * The Python package calls this (native_stall.c), and no C program is known to need it. So it is
 * no public header, and its functions are in the private node of src/penstock.map.
 *
 * The model takes what one sample needs of each resource (its demands) and how much of each there
 * is (the capacities). The slowest resource sets the rate. Hits of caches lower the demands, and
 * the variance of samples and batches costs a part of the rate where two resources are about as
 * fast.
 * docs/internals/stall-model.md has the formulas and their sources. Nothing is measured here, and
 * no thread or memory is used: every function is a pure function of its arguments.
 *
 * Times are seconds, sizes are bytes, rates are per second. */
#ifndef PST_STALL_STALL_PREDICT_H
#define PST_STALL_STALL_PREDICT_H

#include <penstock/status.h>

#include <stdbool.h>

/* Exported for the extension module, where it links the shared library. */
#pragma GCC visibility push(default)

/* Names what may limit the rate. Numbers are stable; new ones come before PSTI_STALL_N_RESOURCES.
 */
enum psti_stall_resource {
    PSTI_STALL_ACCELERATOR = 0,  /* The training steps. */
    PSTI_STALL_CORES = 1,        /* Cores of the host. */
    PSTI_STALL_WORKERS = 2,      /* Threads or processes that prepare, also while they wait. */
    PSTI_STALL_STORAGE = 3,      /* Bytes that storage gives. */
    PSTI_STALL_READS = 4,        /* Reads that storage answers. */
    PSTI_STALL_NETWORK = 5,      /* Bytes from the caches of other hosts. */
    PSTI_STALL_LINK = 6,         /* Bytes from the host to the accelerator. */
    PSTI_STALL_GPU = 7,          /* Preparation on the accelerator itself. */
    PSTI_STALL_CACHE_MEMORY = 8, /* Never the slowest; psti_stall_need may be asked for it. */
    PSTI_STALL_COPYING = 9,      /* The thread that copies what is read, out of the page cache. */
    PSTI_STALL_N_RESOURCES = 10
};

#define PSTI_STALL_RESOURCES_MAX 16 /* room for resources that later versions have */

/* Says by which rule a cache gives up items. */
enum psti_stall_policy {
    PSTI_STALL_USUAL = 0,  /* MINIO for `cache_nbytes`, RANDOM for `page_cache_nbytes`. */
    PSTI_STALL_MINIO = 1,  /* Nothing is evicted: Penstock's cache. */
    PSTI_STALL_RANDOM = 2, /* Random items: a good model of Linux' page cache. */
    PSTI_STALL_LRU = 3,    /* The item used longest ago. */
    /* The item used longest ago, while all are read in one fixed order: record files. */
    PSTI_STALL_LRU_SEQUENTIAL = 4
};

/* Describes a training run and a machine. Zero-initialise, then set struct_size. Members that may
 * be left zero say so; a capacity of zero is no limit, but for `cores` and `gpu_free`. All numbers
 * are finite and not negative. */
struct psti_stall_setup {
    size_t struct_size;
    /* Demands of preparation, means over samples. */
    double cpu_seconds;    /* of a core, for a sample that no cache holds */
    double cpu_sd_seconds; /* standard deviation of it, between samples */
    /* As cpu_seconds for a sample that the cache holds, if it differs (re-coded); 0: it does not.
     */
    double hit_cpu_seconds;
    double wait_seconds; /* time that a sample holds a worker which uses no core */
    double nbytes;       /* read from storage for a sample that no cache holds */
    double nbytes_sd;    /* standard deviation of it, between samples */
    double reads;        /* of storage for such a sample; 0: 1 if nbytes is above 0 */
    double item_nbytes;  /* of a cache for one sample; 0: nbytes */
    double link_nbytes;  /* to the accelerator for one sample */
    double gpu_seconds;  /* of the accelerator for preparing one sample */
    /* The training. */
    double batch_size;        /* samples in a batch, 1 or more */
    double prefetch;          /* batches prepared ahead, 1 or more */
    double step_seconds;      /* of a training step with its batch at hand; 0: no accelerator */
    double step_sd_seconds;   /* standard deviation of it, between steps */
    double step_cpu_seconds;  /* of a core for a step */
    double batch_cpu_seconds; /* of the training thread for taking over one batch */
    double ranks;             /* accelerators of one job on this machine, 1 or more */
    double jobs;              /* jobs on this machine, each with its own accelerators, 1 or more */
    double hosts;             /* machines over which each job's cache is partitioned, 1 or more */
    /* Steps of a rank in one epoch. Nothing is prepared between two epochs, so the first batch of
     * each is waited for. 0: epochs never end. */
    double batches_per_epoch;
    double epoch_pause_seconds; /* between two epochs, in which nobody trains: a validation */
    /* Capacities. Ranks and jobs share them, but each rank has its own workers and link. */
    double cores;                       /* fractions are quotas; above 0 */
    double workers;                     /* of one rank; 0: the training thread prepares */
    double storage_nbytes_per_second;   /* 0: no limit */
    double reads_per_second;            /* 0: no limit */
    double network_nbytes_per_second;   /* 0: no limit */
    double link_nbytes_per_second;      /* 0: no limit */
    double copy_nbytes_per_second;      /* of one rank's reading threads; 0: no limit */
    double gpu_free;                    /* part that preparation may use, 0 (none) to 1 */
    double dataset_nbytes;              /* of all samples, as the cache keeps them */
    double cache_nbytes;                /* of one host, for all ranks and jobs together */
    double page_cache_nbytes;           /* for what the cache does not hold */
    enum psti_stall_policy policy;      /* of `cache_nbytes` */
    enum psti_stall_policy page_policy; /* of `page_cache_nbytes` */
    bool shared_preparation;            /* a sample is prepared once for all jobs */
    bool shared_cache;                  /* ranks and jobs have one cache; else each its part */
    /* How much of gpu_seconds delays a step, 0 to 1: 0 where kernels find idle parts. */
    double gpu_interference;
    /* Accuracy. Half widths, relative to the value, that hold 95 % of what is measured: 0.03 means
     * 3 % more or less. The errors are taken as independent. */
    double cpu_band, storage_band, step_band, nbytes_band, copy_band;
    /* Ranges in which costs were measured, by resource; 0, 0: not known. The value is step_seconds
     * for the accelerator, cache_nbytes for the cache, and the capacity for the others. */
    double measured_low[PSTI_STALL_RESOURCES_MAX], measured_high[PSTI_STALL_RESOURCES_MAX];
    /* Samples are read ahead of the workers, as Penstock's loader does, up to a number of rows. So
     * storage and cores wait for each other now and then, where samples differ and both are about
     * as fast. False: a worker reads its samples itself. */
    bool reads_ahead;
};

/* Holds the answer of psti_stall_predict. */
struct psti_stall_answer {
    double samples_per_second; /* of all jobs and ranks of this machine together */
    double low, high;          /* its error band, which holds 95 % of what is measured */
    /* Samples/s that each resource allows by itself. INFINITY: it does not limit. */
    double bounds[PSTI_STALL_RESOURCES_MAX];
    enum psti_stall_resource binding; /* the slowest resource */
    enum psti_stall_resource next;    /* the slowest of the others */
    /* Part of the time in which accelerators compute, 0 to 1. Pauses between epochs do not count.
     */
    double utilisation;
    /* Parts of the time in which they wait for preparation, and for storage or network. */
    double prep_stall, fetch_stall;
    /* How much of both is waiting for the first batch of an epoch. */
    double start_stall;
    /* Parts of the samples that the cache and then the page cache have, and that are read. */
    double hits, page_hits, misses;
    double storage_nbytes_per_second; /* that are read at this rate */
    double cores_used;                /* at this rate */
    uint32_t extrapolated;            /* bit r: resource r is outside its measured range */
};

/* Says which part of an epoch's samples a cache has, when each epoch visits every sample once, in a
 * new random order (PSTI_STALL_LRU_SEQUENTIAL: in the same order).
 *
 * policy: PSTI_STALL_USUAL is taken as PSTI_STALL_MINIO.
 * part: bytes of the cache over bytes of the data set; below 0 is taken as 0, above 1 as 1.
 *
 * Returns 0 to 1. Any thread. */
double psti_stall_hit_ratio(enum psti_stall_policy policy, double part);

/* Predicts the rate of a training run. It is 0 where preparation needs a resource of which there
 * is nothing.
 *
 * setup: read during the call only.
 * answer: the caller's struct, written after success only.
 * answer_nbytes: sizeof *answer.
 *
 * PST_ERROR_ARGUMENT: a number is negative or not finite, or one that must be set is not; the text
 *     names it. PST_ERROR_VERSION: setup has members that this library does not know.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status psti_stall_predict(const struct psti_stall_setup *setup,
                                                   struct psti_stall_answer *answer,
                                                   size_t answer_nbytes, struct pst_error *err);

/* Says how much of one resource is enough until the accelerator is the limit.
 *
 * setup: as for psti_stall_predict, with step_seconds.
 * resource: any but PSTI_STALL_ACCELERATOR. What it has in `setup` is not used.
 * utilisation: enough is where the rate is this part of what the accelerators alone would reach,
 *     above 0 and below 1: 0.98 is as good as full speed; benchmarks ask for 0.9.
 * out: receives cores, workers of a rank, bytes/s, reads/s, a share of the GPU, or bytes of cache.
 *
 * PST_ERROR_LIMIT: no amount is enough, because something else is too slow; the text names it.
 * PST_ERROR_ARGUMENT, PST_ERROR_VERSION: as for psti_stall_predict.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status psti_stall_need(const struct psti_stall_setup *setup,
                                                enum psti_stall_resource resource,
                                                double utilisation, double *out,
                                                struct pst_error *err);

/* Gives the name of a resource: "accelerator", "cores", "workers", "storage", "reads", "network",
 * "link", "gpu", "cache", "copying".
 *
 * i: an enum psti_stall_resource.
 *
 * Returns a static string; NULL after the last one. Any thread. */
const char *psti_stall_resource_name(uint32_t i);

#pragma GCC visibility pop

#endif
