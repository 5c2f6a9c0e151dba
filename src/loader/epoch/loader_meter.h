/* loader_meter.h - the stall clock of a loader, and the sums of its meter. All functions need the
 * loader's lock to be held. */
#ifndef PST_LOADER_LOADER_METER_H
#define PST_LOADER_LOADER_METER_H

#include "stall/stall_meter.h"

#include <penstock/loader.h>

#include <stdatomic.h>

/* Lengths of the loader's queues, added up at each call for a batch. */
struct psti_loader_queues {
    uint64_t n_asked, rows_reading, rows_ready, batches_running, batches_ready;
};

/* The counters of a loader, its clocks, and its trace file. */
struct psti_loader_meters {
    struct pst_loader_stats stats; /* counters, guarded by the loader's lock */
    struct psti_meter_steps steps;
    struct psti_meter_stall stall;
    struct psti_meter_sums epoch_sums; /* sums of all workers when the epoch began */
    uint64_t pump_ns;                  /* time spent on pumping (looking up rows and starting
                                          reads) */
    uint64_t upload_wait_ns;           /* time that the caller waited for the placement */
    uint64_t ready_wait_ns;   /* time from the end of batches' preparation to their delivery,
                                 summed */
    int64_t reading_since_ns; /* time at which queue.n_reading became > 0 */
    uint64_t reading_ns;      /* nanoseconds in which reads were under way, up to the moment when
                                 they last ended */
    struct psti_loader_queues lengths;
    atomic_uint_fast64_t fallbacks[PST_FALLBACKS_MAX]; /* counts by kind of fall-back; any thread
                                                          may add */
    uint64_t n_small_pages;                            /* psti_alloc_n_small_pages() when the
                                                          loader was opened */
    uint64_t *source_rows;    /* rows delivered from each source of a mixture; NULL: no mixture */
    struct psti_trace *trace; /* trace file; NULL: no trace is written */
};

/* Notes that an epoch begins. */
void psti_loader_meter_begin(pst_loader *loader);
/* Notes that the caller has asked for a batch. */
void psti_loader_meter_ask(pst_loader *loader, int64_t now_ns);
/* Notes that the caller's call is about to return. */
void psti_loader_meter_answer(pst_loader *loader, enum pst_status status);
/* Call it before a change that affects what the caller waits for. Returns the current time, or 0 if
 * the clock was not read because the caller does not wait. */
int64_t psti_loader_meter_tick(pst_loader *loader);
/* Like psti_loader_meter_tick. now_ns: the current time if the caller has just read it, else 0. */
void psti_loader_meter_tick_at(pst_loader *loader, int64_t now_ns);

/* Adds up the clocks of all workers. Without workers it takes the clocks of the caller's thread. */
void psti_loader_meter_sum(const pst_loader *loader, struct psti_meter_sums *sums);
/* Counts the batches being made, and the finished batches that wait for delivery. */
void psti_loader_meter_count_batches(const pst_loader *loader, uint64_t *n_running,
                                     uint64_t *n_ready);

#endif
