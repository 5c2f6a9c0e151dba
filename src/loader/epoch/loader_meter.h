/* loader_meter.h - the stall clock of a loader, and the sums of its meter. The lock must be held in
 * all functions. */
#ifndef PST_LOADER_LOADER_METER_H
#define PST_LOADER_LOADER_METER_H

#include "stall/stall_meter.h"

#include <penstock/loader.h>

#include <stdatomic.h>

/* Lengths of the loader's queues, summed over the calls for a batch. */
struct psti_loader_queues {
    uint64_t n_asked, rows_reading, rows_ready, batches_running, batches_ready;
};

/* The counters of a loader, its clocks, and its trace. */
struct psti_loader_meters {
    struct pst_loader_stats stats; /* counters; the lock guards them */
    struct psti_meter_steps steps;
    struct psti_meter_stall stall;
    struct psti_meter_sums epoch_sums; /* of all workers when the epoch began */
    uint64_t pump_ns;                  /* time of pumping */
    uint64_t upload_wait_ns;           /* time of the caller in waiting for the placement */
    uint64_t ready_wait_ns;   /* time of whole batches until they were handed out, summed */
    int64_t reading_since_ns; /* time at which queue.n_reading became > 0 */
    uint64_t reading_ns;      /* time of reading before that */
    struct psti_loader_queues lengths;
    atomic_uint_fast64_t fallbacks[PST_FALLBACKS_MAX]; /* any thread counts */
    uint64_t n_small_pages;                            /* count of the process at open */
    uint64_t *source_rows;    /* delivered, of each source of a mixture; NULL: it is none */
    struct psti_trace *trace; /* NULL: none is written */
};

/* An epoch begins. */
void psti_loader_meter_begin(pst_loader *loader);
/* The caller has called for a batch. */
void psti_loader_meter_ask(pst_loader *loader, int64_t now_ns);
/* The caller's call is about to return. */
void psti_loader_meter_answer(pst_loader *loader, enum pst_status status);
/* Something is about to change that decides what the caller waits for. Returns the time, or 0 if it
 * was not read because the caller does not wait. */
int64_t psti_loader_meter_tick(pst_loader *loader);
/* Does as psti_loader_meter_tick. now_ns: the time if the caller has just read it, else 0. */
void psti_loader_meter_tick_at(pst_loader *loader, int64_t now_ns);

/* Sums over workers. The caller's thread is the only one where there are none. */
void psti_loader_meter_sum(const pst_loader *loader, struct psti_meter_sums *sums);
/* Counts batches that are being made, and those that wait for their turn. */
void psti_loader_meter_count_batches(const pst_loader *loader, uint64_t *n_running,
                                     uint64_t *n_ready);

#endif
