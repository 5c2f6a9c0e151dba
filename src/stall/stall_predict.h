/* stall_predict.h - predicts how fast a training run is on a machine, and what it waits for.
 *
 * The Python package calls this (native_stall.c). It is no public header, because no C program is
 * known to need it; its functions are in the private node of src/penstock.map.
 *
 * The model's input is what one sample needs of each resource (demands) and how much of each
 * resource there is (capacities). The slowest resource sets the rate. Cache hits lower the demands.
 * The variance of samples and batches lowers the rate where two resources are about equally fast.
 * docs/internals/stall-model.md has the formulas and their sources.
 *
 * Nothing is measured here, and no thread or memory is used: every function is a pure function of
 * its arguments. Times are seconds, sizes are bytes, rates are per second. */
#ifndef PST_STALL_STALL_PREDICT_H
#define PST_STALL_STALL_PREDICT_H

#include <penstock/status.h>

#include <stdbool.h>

/* Exported so that the extension module can call this in a shared library. */
#pragma GCC visibility push(default)

/* Resources that may limit the rate. Numbers are stable; new resources come before
 * PSTI_STALL_N_RESOURCES. */
enum psti_stall_resource {
    PSTI_STALL_ACCELERATOR = 0,  /* The training steps. */
    PSTI_STALL_CORES = 1,        /* Cores of the host's CPUs. */
    PSTI_STALL_WORKERS = 2,      /* Threads or processes that prepare; waiting ones count. */
    PSTI_STALL_STORAGE = 3,      /* Bytes/s read from storage. */
    PSTI_STALL_READS = 4,        /* Reads/s answered by storage. */
    PSTI_STALL_NETWORK = 5,      /* Bytes/s from the caches of other hosts. */
    PSTI_STALL_LINK = 6,         /* Bytes/s from the host to the accelerator. */
    PSTI_STALL_GPU = 7,          /* Time of the accelerator for preparation. */
    PSTI_STALL_CACHE_MEMORY = 8, /* Never the slowest; only for psti_stall_need. */
    PSTI_STALL_COPYING = 9,      /* The thread that copies read data out of the page cache. */
    PSTI_STALL_N_RESOURCES = 10
};

#define PSTI_STALL_RESOURCES_MAX 16 /* array size that leaves space for later resources */

/* Rules by which a cache evicts items. */
enum psti_stall_policy {
    PSTI_STALL_USUAL = 0,  /* MINIO for `cache_nbytes`, RANDOM for `page_cache_nbytes`. */
    PSTI_STALL_MINIO = 1,  /* Nothing is evicted: Penstock's cache. */
    PSTI_STALL_RANDOM = 2, /* Evicts random items: a good model of Linux's page cache. */
    PSTI_STALL_LRU = 3,    /* Evicts the least recently used item. */
    /* Evicts the least recently used item while all items are read in one fixed order, as record
     * files are. */
    PSTI_STALL_LRU_SEQUENTIAL = 4
};

/* Describes a training run and a machine. Zero-initialise, then set struct_size. Members that may
 * be 0 say so; a capacity of 0 means no limit, except for `cores` and `gpu_free`. All numbers are
 * finite and not negative. */
struct psti_stall_setup {
    size_t struct_size;
    /* Demands of preparing a sample, as means over samples. */
    double cpu_seconds;    /* core-seconds for a sample that no cache has */
    double cpu_sd_seconds; /* standard deviation of cpu_seconds between samples */
    /* Core-seconds for a sample that the cache has, if they differ because it was re-coded; 0: the
     * same as cpu_seconds. */
    double hit_cpu_seconds;
    double wait_seconds; /* time that a sample occupies a worker without using a core */
    double nbytes;       /* bytes read from storage for a sample that no cache has */
    double nbytes_sd;    /* standard deviation of nbytes between samples */
    double reads;        /* reads for such a sample; 0: 1 if nbytes is above 0 */
    double item_nbytes;  /* cache memory for one sample; 0: nbytes */
    double link_nbytes;  /* bytes sent to the accelerator for one sample */
    double gpu_seconds;  /* accelerator time for preparing one sample */
    /* The training. */
    double batch_size;        /* samples in a batch, 1 or more */
    double prefetch;          /* batches prepared ahead, 1 or more */
    double step_seconds;      /* training step with its batch ready; 0: no accelerator */
    double step_sd_seconds;   /* standard deviation of step_seconds between steps */
    double step_cpu_seconds;  /* core-seconds of a step */
    double batch_cpu_seconds; /* core-seconds of the training thread to receive a batch */
    double ranks;             /* accelerators of one job on this machine, 1 or more */
    double jobs;              /* jobs on this machine, each with its own accelerators, 1 or more */
    double hosts;             /* machines that each job's cache is spread over, 1 or more */
    /* Steps of a rank in one epoch. Nothing is prepared between two epochs, so a rank waits for the
     * first batch of each. 0: one endless epoch. */
    double batches_per_epoch;
    double epoch_pause_seconds; /* pause between two epochs without training, as for validation */
    /* Capacities. Ranks and jobs share them, except that each rank has its own workers and link. */
    double cores;                       /* may be a fraction (a CPU quota); above 0 */
    double workers;                     /* workers of one rank; 0: the training thread prepares */
    double storage_nbytes_per_second;   /* 0: no limit */
    double reads_per_second;            /* 0: no limit */
    double network_nbytes_per_second;   /* 0: no limit */
    double link_nbytes_per_second;      /* 0: no limit */
    double copy_nbytes_per_second;      /* bytes/s copied by one rank's readers; 0: no limit */
    double gpu_free;                    /* share that preparation may use, 0 (none) to 1 */
    double dataset_nbytes;              /* all samples in the form that the cache keeps */
    double cache_nbytes;                /* cache of one host, for all ranks and jobs together */
    double page_cache_nbytes;           /* page cache for what the cache does not hold */
    enum psti_stall_policy policy;      /* rule by which the cache of `cache_nbytes` evicts */
    enum psti_stall_policy page_policy; /* rule by which the page cache evicts */
    bool shared_preparation;            /* each sample is prepared once for all jobs */
    bool shared_cache;                  /* ranks and jobs share one cache; false: each has a part */
    /* Share of gpu_seconds that delays a step, 0 to 1: 0 if preparation uses idle parts of the GPU.
     */
    double gpu_interference;
    /* Accuracy of the measurements: relative half-widths of 95 % intervals; 0.03 means 3 % more or
     * less. The errors are assumed to be independent. */
    double cpu_band, storage_band, step_band, nbytes_band, copy_band;
    /* Ranges in which costs were measured, by resource; 0, 0: unknown. They are compared with
     * step_seconds for the accelerator, cache_nbytes for the cache, and the capacity for the
     * others. */
    double measured_low[PSTI_STALL_RESOURCES_MAX], measured_high[PSTI_STALL_RESOURCES_MAX];
    /* True: samples are read ahead of the workers, up to some number of rows, as Penstock's loader
     * does. Then storage and cores sometimes wait for each other, if samples differ and both are
     * about equally fast. False: a worker reads its own samples. */
    bool reads_ahead;
};

/* The result of psti_stall_predict. */
struct psti_stall_answer {
    double samples_per_second; /* rate of all jobs and ranks of this machine together */
    double low, high;          /* error band of the rate, which holds 95 % of measured rates */
    /* Samples/s that each resource alone would allow. INFINITY: no limit. */
    double bounds[PSTI_STALL_RESOURCES_MAX];
    enum psti_stall_resource binding; /* the slowest resource */
    enum psti_stall_resource next;    /* the slowest resource except `binding` */
    /* Share of the time in which accelerators compute, 0 to 1, without pauses between epochs. */
    double utilisation;
    /* Shares of the time in which accelerators wait for preparation, and for storage or network. */
    double prep_stall, fetch_stall;
    /* Part of both stalls that is waiting for the first batch of an epoch. */
    double start_stall;
    /* Shares of the samples that come from the cache, from the page cache, and from storage. */
    double hits, page_hits, misses;
    double storage_nbytes_per_second; /* bytes/s read from storage at this rate */
    double cores_used;                /* at this rate */
    uint32_t extrapolated;            /* bit r: resource r is outside its measured range */
};

/* Returns the share of an epoch's samples that a cache has, 0 to 1, if each epoch visits every
 * sample once, in a new random order (PSTI_STALL_LRU_SEQUENTIAL: in the same order).
 *
 * policy: PSTI_STALL_USUAL counts as PSTI_STALL_MINIO.
 * part: bytes of the cache divided by bytes of the data set; limited to 0..1.
 *
 * Any thread. */
double psti_stall_hit_ratio(enum psti_stall_policy policy, double part);

/* Predicts the rate of a training run. It is 0 if preparation needs a resource whose capacity is
 * nothing.
 *
 * setup: read during the call only.
 * answer: the caller's struct, written after success only.
 * answer_nbytes: sizeof *answer.
 *
 * PST_ERROR_ARGUMENT: a number is negative or not finite, or a required one is not set; the text
 *     names it.
 * PST_ERROR_VERSION: setup has members that this version of the library does not have.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status psti_stall_predict(const struct psti_stall_setup *setup,
                                                   struct psti_stall_answer *answer,
                                                   size_t answer_nbytes, struct pst_error *err);

/* Computes how much of one resource is enough, so that the accelerator becomes the limit.
 *
 * setup: see psti_stall_predict; step_seconds must be set.
 * resource: any except PSTI_STALL_ACCELERATOR. Its capacity in `setup` is ignored.
 * utilisation: the amount is enough if the rate is this part of the rate of the accelerators alone,
 *     above 0 and below 1: 0.98 is as good as full speed; benchmarks use 0.9.
 * out: receives cores, workers of a rank, bytes/s, reads/s, a share of the GPU, or bytes of cache.
 *
 * PST_ERROR_LIMIT: no amount is enough, because another resource is too slow; the text names it.
 * PST_ERROR_ARGUMENT, PST_ERROR_VERSION: see psti_stall_predict.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status psti_stall_need(const struct psti_stall_setup *setup,
                                                enum psti_stall_resource resource,
                                                double utilisation, double *out,
                                                struct pst_error *err);

/* Gives the name of a resource: "accelerator", "cores", "workers", "storage", "reads", "network",
 * "link", "gpu", "cache", "copying".
 *
 * i: a value of enum psti_stall_resource.
 *
 * Returns a static string, or NULL after the last resource. Any thread. */
const char *psti_stall_resource_name(uint32_t i);

#pragma GCC visibility pop

#endif
