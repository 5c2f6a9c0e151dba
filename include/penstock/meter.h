/* meter.h - what a loader's time goes to: clocks of its stages and workers, the caller's steps, and
 * what the caller waited for.
 *
 * The meter always runs. It has a call of its own beside pst_loader_stats, because it is larger,
 * and sorts a window of steps.
 *
 * Stages follow one another: fetch, decode, augment, batch (and keep), upload, hand-over, caller.
 * Times of decode, augment, batch and keep are summed over workers. Decoding and augmenting are
 * interleaved; they are told apart in some images, and the shares found there are taken for all.
 *
 * What the caller waits for. At each instant in which the caller waits in pst_loader_next, one
 * stage is the cause:
 *   upload    rows are there, and a GPU has work of the batch under way;
 *   fetch     else, if a worker has nothing to do while items are looked up or read;
 *   workers   else, if a worker fills rows: the time is divided among fetch (checksums), decode,
 *             augment, batch and keep as the time of all workers in this epoch;
 *   handover  else.
 * So storage is the cause if a faster storage would have helped at that instant, and the workers'
 * stages are if it would not. */
#ifndef PENSTOCK_METER_H
#define PENSTOCK_METER_H

#include <penstock/loader.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Stages of a loader. Numbers are stable; new ones come at the end. */
enum pst_stage {
    /* Finding items, asking the cache, reading, comparing checksums. */
    PST_STAGE_FETCH = 0,
    PST_STAGE_DECODE = 1,
    PST_STAGE_AUGMENT = 2,
    /* Storing values that are no pixels, copying, and all else that a row needs. */
    PST_STAGE_BATCH = 3,
    /* Copying items to the cache, and re-coding them for it. */
    PST_STAGE_KEEP = 4,
    PST_STAGE_UPLOAD = 5,
    /* Giving a whole batch to the caller. */
    PST_STAGE_HANDOVER = 6,
    /* The caller's own work, between calls of pst_loader_next. */
    PST_STAGE_CALLER = 7
};

#define PST_STAGES_MAX 16 /* room for stages that later versions have */

/* Short name of a stage: "fetch", "decode" and so on.
 *
 * i: an enum pst_stage.
 *
 * Returns a static string; NULL after the last stage. Any thread. */
const char *pst_stage_name(uint32_t i);

/* Clocks of a stage since the loader was opened, in nanoseconds. */
struct pst_stage_clock {
    /* Time of work. FETCH: of processors, not of storage. UPLOAD: until it was submitted. */
    uint64_t work_ns;
    /* Time of waiting for the stage before. FETCH: at least one read was under way. DECODE: workers
     * waited for reads, summed. UPLOAD: the caller waited for a GPU. CALLER: in pst_loader_next. */
    uint64_t wait_in_ns;
    /* Time of waiting for the stage behind. DECODE: workers had nothing to do because all wanted
     * batches were made, summed. HANDOVER: whole batches waited for the caller, summed. CALLER: for
     * other ranks, as pst_loader_peers_waited said. */
    uint64_t wait_out_ns;
    /* FETCH: reads. DECODE, AUGMENT: images and masks. BATCH: rows. UPLOAD, HANDOVER: batches.
     * CALLER: steps. KEEP: items now in the cache. */
    uint64_t n;
    /* FETCH: bytes read. DECODE: bytes of pixels. UPLOAD: bytes uploaded. KEEP: bytes used of the
     * cache. Else 0. */
    uint64_t nbytes;
    /* UPLOAD, by the GPU's clock: time of uploads; time of decoding and augmenting there. Another
     * program's work on the GPU makes them longer. Else 0. */
    uint64_t link_ns, gpu_ns;
    uint64_t reserved; /* 0 */
};

/* Times of steps. A step lasts from the delivery of a batch to that of the next one, or to the call
 * that says PST_END. The wait for an epoch's first batch is in no step. */
struct pst_step_times {
    uint64_t n; /* steps */
    /* All in all; of it, in pst_loader_next; of the rest, waiting for other ranks. */
    uint64_t total_ns, wait_ns, peers_ns;
    uint64_t max_ns, wait_max_ns; /* The longest step, the longest wait. */
    double mean_ns, sd_ns;        /* Mean and standard deviation of a step; sd_ns is 0 if n < 2. */
    /* Times that half and 99 % of the steps do not exceed: of an epoch within 1.6 %, of the window
     * exactly. */
    double p50_ns, p99_ns;
    uint64_t cause_ns[PST_STAGES_MAX]; /* wait_ns, divided among the causes by enum pst_stage */
};

/* The meter at one moment. */
struct pst_loader_meter {
    struct pst_stage_clock stages[PST_STAGES_MAX]; /* by enum pst_stage */
    /* Steps of the epoch under way, or of the last one. */
    struct pst_step_times epoch;
    /* The last 256 of them at most. */
    struct pst_step_times window;
    uint64_t first_wait_ns; /* The wait for this epoch's first batch. */
    /* Share of the window in which a worker filled a row, mean over workers: 0 to 1. */
    double workers_busy;
    /* Now: rows whose items are being read, rows that were read and wait for a worker, batches that
     * are being filled, batches that are whole and wait for the caller. */
    uint64_t n_rows_reading, n_rows_ready, n_batches_running, n_batches_ready;
    /* Sums of the same numbers over n_asked moments: the calls for a batch. */
    uint64_t n_asked, sum_rows_reading, sum_rows_ready, sum_batches_running, sum_batches_ready;
    uint32_t traces;   /* 1: a trace is being written; else 0 */
    uint32_t reserved; /* 0 */
};

/* Gives the meter's figures. In a forked child all are zero.
 *
 * meter: the caller's struct, written as a whole.
 * meter_nbytes: sizeof *meter.
 *
 * Cannot fail. Any thread. */
void pst_loader_meter(const pst_loader *loader, struct pst_loader_meter *meter,
                      size_t meter_nbytes);

/* Clocks of one worker since the loader was opened, in nanoseconds. They add up to its time in
 * epochs, but for looking up rows and waiting for locks. */
struct pst_worker_clock {
    /* Filling rows; waiting for reads; nothing to do because all wanted batches were made. */
    uint64_t busy_ns, wait_in_ns, wait_out_ns;
    uint64_t n_rows; /* rows filled */
    /* Parts of busy_ns, as in enum pst_stage: by the worker's own sample of images. */
    uint64_t fetch_ns, decode_ns, augment_ns, batch_ns, keep_ns;
};

/* Gives the clocks of one worker.
 *
 * i: 0 to pst_loader_stats.n_workers - 1. Without workers, 0 is the calling thread.
 * clock: the caller's struct, written as a whole; zero if there is no such worker, and in a forked
 *     child.
 * clock_nbytes: sizeof *clock.
 *
 * Cannot fail. Any thread. */
void pst_loader_worker_clock(const pst_loader *loader, uint32_t i, struct pst_worker_clock *clock,
                             size_t clock_nbytes);

/* Says that the caller spent a part of the step under way waiting for other ranks, as in an
 * all-reduce of gradients. So a slow rank can be told from those that wait for it.
 *
 * ns: nanoseconds, added to those of earlier calls in this step. More than the caller's own time
 *     in the step counts as that time. No effect before the epoch's first batch.
 *
 * Any thread. */
void pst_loader_peers_waited(pst_loader *loader, uint64_t ns);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
