/* plan_solve.h - the solver of plans: in which form to store samples, what to cache and where to
 * decode, so that a machine gives the most samples per second, or stores or costs the least.
 *
 * The Python package calls this (native_plan.c), and no C program is known to need it. So it is
 * no public header, and its functions are in the private node of src/penstock.map.
 *
 * The caller lists the ways in which the samples of each class may be kept and prepared, with what
 * a sample then demands of each resource. The solver finds the share of each way. It is a linear
 * programme and is solved exactly; docs/internals/plan-model.md has the formulas and their sources.
 * HiGHS solves it: its shared library is opened at run time, or the caller passes a function that
 * calls a solver. What either returns is checked.
 *
 * A sample takes a time that no resource may exceed: the sum of what the ways demand of a resource,
 * each weighted by its share, over what there is of that resource per second. The rate is the
 * inverse of that time, for all samples of an epoch together. Cache and storage are budgets of
 * bytes for all samples instead.
 *
 * An example: PNG files keep 16 cores busy at 350 images/s and read 810 MB/s; another form of them
 * needs no core and reads 3.7 MB for an image. On storage of 1 GB/s the best plan has nine tenths
 * of the images as PNG and one tenth in the other form, and gives 401 images/s, for both resources
 * are used in full. One core more is then worth about two percent, and so are 30 MB/s.
 *
 * Which ways there are is the caller's knowledge: `penstock plan` makes them of the costs that
 * `penstock analyze` measures. The same programme serves for other questions of this kind, such as
 * what to keep in a cache (ways that demand CACHE_MEMORY) or which part of the images a GPU decodes
 * (ways that demand LINK and GPU instead of CORES).
 *
 * Variance is no part of it: a plan's rate is what its means allow. psti_stall_predict says what
 * batches that differ cost beyond that.
 *
 * Nothing is measured here. Each call opens and ends a solver of its own: any thread, no state
 * between calls. The solver's library stays loaded. Times are seconds, sizes are bytes, rates are
 * per second. */
#ifndef PST_PLAN_PLAN_SOLVE_H
#define PST_PLAN_PLAN_SOLVE_H

#include "stall/stall_predict.h"
#include <penstock/status.h>

#include <stdbool.h>
#include <stdint.h>

/* Exported for the extension module, where it links the shared library. */
#pragma GCC visibility push(default)

/* Most classes of samples, ways in all, and forms of one plan. */
#define PSTI_PLAN_CLASSES_MAX 1024
#define PSTI_PLAN_WAYS_MAX 8192
#define PSTI_PLAN_FORMS_MAX 64

/* Says what the best plan is. Of plans that are equally good the one that stores least is taken,
 * and of those the fastest. Numbers are stable. */
enum psti_plan_goal {
    PSTI_PLAN_RATE = 0,    /* most samples/s */
    PSTI_PLAN_STORAGE = 1, /* least stored bytes, at `least_rate` or more */
    PSTI_PLAN_COST = 2     /* least cost of an epoch, at `least_rate` or more; needs a price */
};

/* One way of keeping and preparing the samples of a class. Zero-initialise. */
struct psti_plan_way {
    uint32_t i_class; /* below n_classes */
    uint32_t form;    /* which form is stored: the caller's number, below PSTI_PLAN_FORMS_MAX */
    /* What one sample demands of each resource, by enum psti_stall_resource: core-seconds of CORES,
     * worker-seconds of WORKERS, bytes of STORAGE, NETWORK and LINK, reads of READS, GPU-seconds of
     * GPU, bytes that stay in the cache of CACHE_MEMORY. ACCELERATOR is not used. */
    double demands[PSTI_STALL_RESOURCES_MAX];
    double stored_nbytes; /* of one sample on storage */
    bool is_lossy;        /* the pixels differ from those of the sample today */
};

/* A linear programme: the x that minimises cost * x, where row_low <= matrix * x <= row_high and
 * low <= x <= high. The matrix is stored row by row: entries row_begin[r] up to row_begin[r + 1]
 * are those of row r. Limits may be infinite. */
struct psti_plan_lp {
    uint32_t n_columns, n_rows;
    const double *cost; /* [n_columns], as low and high */
    const double *low;
    const double *high;
    const double *row_low; /* [n_rows] */
    const double *row_high;
    const int32_t *row_begin; /* [n_rows + 1] the last one is the number of entries */
    const int32_t *columns;   /* of the entries */
    const double *entries;
    double seconds_most; /* solving that takes longer is a failure */
};

/* Solution of a linear programme. The arrays are Penstock's. Those from `down` on are NULL where
 * they are not asked for. */
struct psti_plan_lp_solution {
    double *values; /* [n_columns] x, at a corner */
    double *duals;  /* [n_rows] change of the objective for one more unit of the row's limit */
    double *rows;   /* [n_rows] matrix * x */
    double objective;
    /* [n_rows] the row's limit down to and up to which its dual holds, and the objective there. */
    double *down;
    double *down_objective;
    double *up;
    double *up_objective;
};

/* Solves a linear programme. Called by the thread that calls psti_plan_solve or psti_plan_need,
 * some times in each call.
 *
 * ctx: psti_plan_setup.solve_lp_ctx.
 * solution: its members are to be filled.
 * err: never NULL; filled with the cause after failure.
 *
 * Returns PST_OK, PST_ERROR_LIMIT if no x satisfies the limits, or another status, with which
 * psti_plan_solve or psti_plan_need then ends. */
typedef enum pst_status (*psti_plan_lp_fn)(void *ctx, const struct psti_plan_lp *lp,
                                           struct psti_plan_lp_solution *solution,
                                           struct pst_error *err);

/* Describes what is to be planned. Zero-initialise, then set struct_size. All numbers are finite
 * and not negative. Arrays are the caller's and are read during the call only. */
struct psti_plan_setup {
    size_t struct_size;
    enum psti_plan_goal goal;
    uint32_t n_classes, n_ways;  /* 1 or more; up to PSTI_PLAN_CLASSES_MAX, PSTI_PLAN_WAYS_MAX */
    const double *class_samples; /* [n_classes] samples of each class, above 0 */
    const struct psti_plan_way *ways; /* [n_ways] each class has one at least */
    size_t way_nbytes;                /* sizeof *ways */
    /* What there is of each resource: per second for all but CACHE_MEMORY, which is bytes, and
     * ACCELERATOR, which is the samples/s that the accelerators take. 0: no limit. */
    double capacities[PSTI_STALL_RESOURCES_MAX];
    /* A machine whose resources can be chosen: from `capacities` up to `capacities_most`, at
     * `unit_prices` for one unit and second beyond `capacities`. 0: cannot be chosen. Where it can,
     * 0 in `capacities` means that none need be taken, and not that there is no limit. Not for
     * ACCELERATOR and CACHE_MEMORY. */
    double capacities_most[PSTI_STALL_RESOURCES_MAX], unit_prices[PSTI_STALL_RESOURCES_MAX];
    double price;         /* of the machine as it is, per second */
    double stored_nbytes; /* most bytes on storage, of all samples; 0: no limit */
    double least_rate;    /* samples/s; 0: any */
    bool allow_lossy;     /* ways that are lossy may be used */
    /* How much of the GPU's preparation delays the training steps, 0 to 1. */
    double gpu_interference;
    /* Path of the library of HiGHS. NULL: the environment's PENSTOCK_HIGHS, else the system's. */
    const char *library;
    /* Solves the linear programmes in the place of that library. NULL: the library does. */
    psti_plan_lp_fn solve_lp;
    void *solve_lp_ctx; /* the caller's, passed to solve_lp as it is */
};

/* Holds the answer of psti_plan_solve. */
struct psti_plan_answer {
    /* What the slowest resource allows, or the accelerators. */
    double samples_per_second;
    /* Of all samples, in the forms that they then have. */
    double stored_nbytes;
    /* What an epoch costs, in the currency of the prices: the machine's price for that time, with
     * the chosen capacities. 0 without prices. */
    double cost;
    /* What is used of each resource at this rate, in the units of `capacities`. */
    double used[PSTI_STALL_RESOURCES_MAX];
    /* What there is of each. Where it could be chosen: the least that gives this rate, and at
     * least what the setup has. */
    double capacities[PSTI_STALL_RESOURCES_MAX];
    /* Bit r: resource r is used in full, to a part of 1e-5. Several may be: then the plan is a mix,
     * or what they allow is equal. */
    uint32_t binding;
    /* The limit stored_nbytes is used in full. */
    bool quota_binds;
    /* By which part the goal improves for one more unit of a resource: 0.04 for 4 % more samples/s,
     * or 4 % less to store or to pay. 0 for resources that could be chosen.
     *
     * With PSTI_PLAN_RATE it holds for capacities from price_low to price_high: within them, c more
     * units of a resource give prices * samples_per_second * c more samples/s. (For the
     * accelerators and the cache that is the slope at the capacity: the seconds of a sample are
     * linear in the inverse of the one, and in the bytes of the other.) INFINITY: no end above. A
     * range without width says that the price is known at this capacity only. */
    double prices[PSTI_STALL_RESOURCES_MAX];
    double price_low[PSTI_STALL_RESOURCES_MAX], price_high[PSTI_STALL_RESOURCES_MAX];
    double quota_price; /* the same for one byte of stored_nbytes */
    /* The best plan that stores one form only, if there is any within the limits; it may still
     * decode at several places, and cache. A class that has no way with that form keeps all its
     * ways. The members below are those of this plan. */
    bool has_single;
    uint32_t single_form; /* number of its form, as in the ways */
    double single_samples_per_second, single_stored_nbytes, single_cost;
};

/* Finds the best plan.
 *
 * shares: [n_ways], the caller's: receives the part of its class's samples for which each way is
 *     used, 0 to 1; those of a class sum to 1.
 * answer: the caller's struct; answer_nbytes: sizeof *answer. Both are written after success only.
 *
 * PST_ERROR_LIMIT: no plan keeps within the limits; the text says which one must be looser.
 * PST_ERROR_UNSUPPORTED: HiGHS was not found, is too old, or is not the library that this one
 *     knows; the text says what to install.
 * PST_ERROR_INTERNAL: the solver failed, did not end within five minutes, or its solution is wrong:
 *     a number is not finite, a limit is not kept, or a better plan exists.
 * PST_ERROR_ARGUMENT: a number is negative or not finite, a class has no way, nothing limits the
 *     rate, nothing has a price although the cost is the goal; the text names it.
 * PST_ERROR_VERSION: setup has members that this library does not know.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status psti_plan_solve(const struct psti_plan_setup *setup, double *shares,
                                                struct psti_plan_answer *answer,
                                                size_t answer_nbytes, struct pst_error *err);

/* Says how much of one resource plans that store one form only need for a rate, while all else is
 * as in the setup.
 *
 * setup: as for psti_plan_solve; goal and prices are not used.
 * form: number of the form, as in the ways; UINT32_MAX: all forms may be mixed. A class that has no
 *     way with it keeps all its ways.
 * resource: any but PSTI_STALL_ACCELERATOR. What it has in `setup` is not used.
 * rate: samples/s, above 0.
 * out: receives the capacity.
 *
 * PST_ERROR_LIMIT: no amount is enough; the text says so.
 * PST_ERROR_ARGUMENT: also a form that no way has, a resource that there is not, a rate of 0.
 * Others as for psti_plan_solve. Any thread. */
PST_WARN_UNUSED enum pst_status psti_plan_need(const struct psti_plan_setup *setup, uint32_t form,
                                               enum psti_stall_resource resource, double rate,
                                               double *out, struct pst_error *err);

#pragma GCC visibility pop

#endif
