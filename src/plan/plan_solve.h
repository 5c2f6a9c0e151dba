/* plan_solve.h - the solver of plans: it decides in which form to store samples, what to cache and
 * where to decode, so that a machine gives the most samples per second, or stores or costs the
 * least.
 *
 * The Python package calls this (native_plan.c). It is no public header, because no C program is
 * known to need it; its functions are in the private node of src/penstock.map.
 *
 * The caller lists the ways in which the samples of each class may be kept and prepared, with what
 * a sample then demands of each resource. The solver finds the share of each way. This is a linear
 * programme and is solved exactly; docs/internals/plan-model.md has the formulas and their sources.
 * HiGHS solves it: its shared library is opened at run time, or the caller passes a function that
 * calls a solver. The solution of either is checked.
 *
 * A sample takes a time that is at least, for each resource, the sum of the ways' demands, weighted
 * by their shares, divided by the resource's capacity per second. The rate is the inverse of that
 * time, for all samples of an epoch together. Cache and storage are budgets of bytes for all
 * samples instead.
 *
 * An example: PNG files keep 16 cores busy at 350 images/s and read 810 MB/s; another form needs no
 * core and reads 3.7 MB for an image. On storage of 1 GB/s the best plan stores nine tenths of the
 * images as PNG and one tenth in the other form, and gives 401 images/s, because both resources are
 * then fully used. One core more would add about two percent, and so would 30 MB/s.
 *
 * The caller must know the possible ways: `penstock plan` derives them from the costs that
 * `penstock analyze` measures. The same programme answers similar questions, such as what to keep
 * in a cache (ways that demand CACHE_MEMORY) or which part of the images a GPU decodes (ways that
 * demand LINK and GPU instead of CORES). It ignores variance: a plan's rate follows from mean
 * demands. psti_stall_predict estimates what differing batches cost beyond that.
 *
 * Nothing is measured here. Each call makes and ends its own solver, so any thread may call, and
 * nothing is kept between calls. The solver's library stays loaded. Times are seconds, sizes are
 * bytes, rates are per second. */
#ifndef PST_PLAN_PLAN_SOLVE_H
#define PST_PLAN_PLAN_SOLVE_H

#include "stall/stall_predict.h"
#include <penstock/status.h>

#include <stdbool.h>
#include <stdint.h>

/* Exported so that the extension module can call this in a shared library. */
#pragma GCC visibility push(default)

/* Maximum numbers in a plan: of classes of samples, of ways (to keep and prepare a sample) in all
 * classes together, and of forms. */
#define PSTI_PLAN_CLASSES_MAX 1024
#define PSTI_PLAN_WAYS_MAX 8192
#define PSTI_PLAN_FORMS_MAX 64

/* Goals of a plan. Among equally good plans the one that stores the fewest bytes is
 * taken, and among these the fastest. Numbers are stable. */
enum psti_plan_goal {
    PSTI_PLAN_RATE = 0,    /* highest number of samples/s */
    PSTI_PLAN_STORAGE = 1, /* store the fewest bytes, at `least_rate` or more */
    PSTI_PLAN_COST = 2     /* lowest cost of an epoch, at `least_rate` or more; needs a price */
};

/* One way to keep and prepare the samples of a class. Zero-initialise. */
struct psti_plan_way {
    uint32_t i_class; /* below n_classes */
    uint32_t form;    /* stored form: the caller's number, below PSTI_PLAN_FORMS_MAX */
    /* What one sample demands of each resource, by enum psti_stall_resource: core-seconds of CORES,
     * worker-seconds of WORKERS, bytes of STORAGE, NETWORK and LINK, reads of READS, GPU-seconds of
     * GPU, bytes that stay in the cache of CACHE_MEMORY. ACCELERATOR is not used. */
    double demands[PSTI_STALL_RESOURCES_MAX];
    double stored_nbytes; /* bytes of one sample on storage */
    bool is_lossy;        /* true if the pixels differ from those that the sample has now */
};

/* A linear programme: find the x that minimises cost * x with row_low <= matrix * x <= row_high and
 * low <= x <= high. The matrix is stored by rows: entries row_begin[r] to row_begin[r + 1] - 1
 * belong to row r. Limits may be infinite. */
struct psti_plan_lp {
    uint32_t n_columns, n_rows;
    const double *cost; /* [n_columns]; low and high are, too */
    const double *low;
    const double *high;
    const double *row_low; /* [n_rows] */
    const double *row_high;
    const int32_t *row_begin; /* [n_rows + 1] the last one is the number of entries */
    const int32_t *columns;   /* column of each entry */
    const double *entries;
    double seconds_most; /* time limit for solving, in seconds; a solver that needs more time
                          * fails */
};

/* Solution of a linear programme. The arrays belong to Penstock. Those from `down` on are NULL if
 * they are not wanted. */
struct psti_plan_lp_solution {
    double *values; /* [n_columns] the solution x, a corner of the feasible set */
    double *duals;  /* [n_rows] change of the objective for one more unit of the row's limit */
    double *rows;   /* [n_rows] matrix * x */
    double objective;
    /* [n_rows] the lowest and highest limit of the row for which its dual holds, and the objective
     * there. */
    double *down;
    double *down_objective;
    double *up;
    double *up_objective;
};

/* Function that solves a linear programme. The thread that calls psti_plan_solve or psti_plan_need
 * calls it, several times in each call.
 *
 * ctx: psti_plan_setup.solve_lp_ctx.
 * solution: the function must fill its members.
 * err: never NULL; the function fills it with the cause after failure.
 *
 * Returns PST_OK, PST_ERROR_LIMIT if no x satisfies the limits, or another status, with which
 * psti_plan_solve or psti_plan_need then ends. */
typedef enum pst_status (*psti_plan_lp_fn)(void *ctx, const struct psti_plan_lp *lp,
                                           struct psti_plan_lp_solution *solution,
                                           struct pst_error *err);

/* Describes the planning problem. Zero-initialise, then set struct_size. All numbers are finite and
 * not negative. The caller's arrays are read during the call only. */
struct psti_plan_setup {
    size_t struct_size;
    enum psti_plan_goal goal;
    uint32_t n_classes, n_ways;  /* 1 or more; at most PSTI_PLAN_CLASSES_MAX, PSTI_PLAN_WAYS_MAX */
    const double *class_samples; /* [n_classes] samples of each class, above 0 */
    const struct psti_plan_way *ways; /* [n_ways]; each class must have a way */
    size_t way_nbytes;                /* sizeof *ways */
    /* Capacity of each resource: per second, except CACHE_MEMORY in bytes, and ACCELERATOR, the
     * samples/s that the accelerators take. 0: no limit. */
    double capacities[PSTI_STALL_RESOURCES_MAX];
    /* Resources that can be chosen: from `capacities` up to `capacities_most`, at `unit_prices` per
     * unit and second for what exceeds `capacities`. capacities_most 0: the resource cannot be
     * chosen. For a resource that can, 0 in `capacities` means that nothing must be bought, and not
     * that there is no limit. Not for ACCELERATOR and CACHE_MEMORY. */
    double capacities_most[PSTI_STALL_RESOURCES_MAX], unit_prices[PSTI_STALL_RESOURCES_MAX];
    double price;         /* cost per second of the machine without chosen capacity */
    double stored_nbytes; /* limit for the bytes of all samples on storage; 0: no limit */
    double least_rate;    /* samples/s; 0: any */
    bool allow_lossy;     /* ways with is_lossy may be used */
    /* Part of the GPU's preparation time that delays training steps, 0 to 1. */
    double gpu_interference;
    /* Path of the library of HiGHS. NULL: the one in the environment variable PENSTOCK_HIGHS, or
     * the system's. */
    const char *library;
    /* Function that solves the linear programmes instead of HiGHS. NULL: HiGHS. */
    psti_plan_lp_fn solve_lp;
    void *solve_lp_ctx; /* the caller's; passed to solve_lp */
};

/* The result of psti_plan_solve. */
struct psti_plan_answer {
    /* Rate of the plan: what the slowest resource, or the accelerators, allow. */
    double samples_per_second;
    /* Bytes of all samples on storage in the plan's forms. */
    double stored_nbytes;
    /* Cost of an epoch in the currency of the prices: the machine with the chosen capacities for
     * the time of the epoch. 0 without prices. */
    double cost;
    /* Amount of each resource in use at this rate, in the units of `capacities`. */
    double used[PSTI_STALL_RESOURCES_MAX];
    /* Capacity of each resource. If it could be chosen: the least that gives this rate, and at
     * least the setup's. */
    double capacities[PSTI_STALL_RESOURCES_MAX];
    /* Bit r: resource r is fully used, to within 1e-5. Several bits may be set: then the plan is a
     * mix, or the resources allow the same rate. */
    uint32_t binding;
    /* True if the limit stored_nbytes is fully used. */
    bool quota_binds;
    /* Relative improvement of the goal for one more unit of a resource: 0.04 means 4 % more
     * samples/s, or 4 % less to store or to pay. 0 for resources that could be chosen. With
     * PSTI_PLAN_RATE it holds for capacities from price_low to price_high: within them, c more
     * units of a resource give prices * samples_per_second * c more samples/s. (For accelerators
     * and cache it is the slope at the given capacity, because the seconds of a sample are linear
     * in the inverse of the accelerators' rate and in the bytes of the cache.) INFINITY: no upper
     * end. A range of width 0 means that the price is known at this capacity only. */
    double prices[PSTI_STALL_RESOURCES_MAX];
    double price_low[PSTI_STALL_RESOURCES_MAX], price_high[PSTI_STALL_RESOURCES_MAX];
    double quota_price; /* relative improvement for one more byte of stored_nbytes */
    /* True if a plan that stores one form only keeps within the limits; it may still decode at
     * several places, and cache. Classes without a way with that form may use all their ways. The
     * members below describe the best such plan. */
    bool has_single;
    uint32_t single_form; /* number of its form, as in psti_plan_way.form */
    double single_samples_per_second, single_stored_nbytes, single_cost;
};

/* Finds the best plan.
 *
 * shares: [n_ways], the caller's array: receives for each way the share of its class's samples, 0
 *     to 1; those of a class sum to 1.
 * answer: the caller's struct; answer_nbytes: sizeof *answer. Both are written after success only.
 *
 * PST_ERROR_LIMIT: no plan keeps within the limits; the text says which one must be relaxed.
 * PST_ERROR_UNSUPPORTED: HiGHS was not found, is too old, or does not have the expected interface;
 *     the text says what to install.
 * PST_ERROR_INTERNAL: the solver failed, took more than five minutes, or its solution is wrong: a
 *     number is not finite, a limit is violated, or a better plan exists.
 * PST_ERROR_ARGUMENT: a number is negative or not finite, a class has no way, nothing limits the
 *     rate, or the goal is the cost and nothing has a price; the text names it.
 * PST_ERROR_VERSION: setup has members that this version of the library does not have.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status psti_plan_solve(const struct psti_plan_setup *setup, double *shares,
                                                struct psti_plan_answer *answer,
                                                size_t answer_nbytes, struct pst_error *err);

/* Computes the least capacity of one resource with which a plan reaches a rate, while everything
 * else is as in the setup.
 *
 * setup: see psti_plan_solve; goal and prices are ignored.
 * form: the only stored form, numbered as in psti_plan_way.form; UINT32_MAX: all forms may be
 *     mixed. Classes without a way with this form may use all their ways.
 * resource: any except PSTI_STALL_ACCELERATOR. Its capacity in `setup` is ignored.
 * rate: samples/s, above 0.
 * out: receives the capacity.
 *
 * PST_ERROR_LIMIT: no amount is enough; the text says so.
 * PST_ERROR_ARGUMENT: in addition, no way has the form, the resource does not exist, or the rate is
 *     0. Others: see psti_plan_solve.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status psti_plan_need(const struct psti_plan_setup *setup, uint32_t form,
                                               enum psti_stall_resource resource, double rate,
                                               double *out, struct pst_error *err);

#pragma GCC visibility pop

#endif
