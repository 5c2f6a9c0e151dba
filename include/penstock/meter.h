/* meter.h - where a loader's time goes: clocks of its stages and workers, the caller's steps, and
 * what the caller waited for.
 *
 * The meter always runs. It is separate from pst_loader_stats because it is larger and reading it
 * sorts a window of steps.
 *
 * The stages of a row in order: fetch, decode, augment, batch (and keep), upload, hand-over,
 * caller. Times of decode, augment, batch and keep are summed over workers. Decoding and augmenting
 * are interleaved, so they are timed separately for some images only, and the shares found there
 * are applied to all images.
 *
 * Causes of waiting. At each instant at which the caller waits in pst_loader_next, one stage is the
 * cause; the first of these that is true:
 *   upload    rows are there, and a GPU has work of the batch under way;
 *   fetch     else, if a worker has nothing to do while items are looked up or read;
 *   workers   else, if a worker fills rows: the time is divided among fetch (checksums), decode,
 *             augment, batch and keep as the time of all workers in this epoch;
 *   handover  else.
 * So storage is the cause if faster storage would have helped at that instant; otherwise a stage of
 * the workers is the cause. */
#ifndef PENSTOCK_METER_H
#define PENSTOCK_METER_H

#include <penstock/loader.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Stages of a loader. Numbers are stable; new ones come at the end. */
enum pst_stage {
    /* Finding items, looking in the cache, reading, comparing checksums. */
    PST_STAGE_FETCH = 0,
    PST_STAGE_DECODE = 1,
    PST_STAGE_AUGMENT = 2,
    /* Storing values other than pixels, copying, and all other work for a row. */
    PST_STAGE_BATCH = 3,
    /* Copying items into the cache, and re-coding them for it. */
    PST_STAGE_KEEP = 4,
    PST_STAGE_UPLOAD = 5,
    /* Handing a finished batch to the caller. */
    PST_STAGE_HANDOVER = 6,
    /* The caller's own work, between calls of pst_loader_next. */
    PST_STAGE_CALLER = 7
};

#define PST_STAGES_MAX 16 /* array size that leaves space for stages of later versions */

/* Short name of a stage: "fetch", "decode" and so on.
 *
 * i: a value of enum pst_stage.
 *
 * Returns a static string; NULL after the last stage. Any thread. */
const char *pst_stage_name(uint32_t i);

/* Clocks of a stage since the loader was opened, in nanoseconds. */
struct pst_stage_clock {
    /* Time of work. FETCH: processor time, without the storage's time. UPLOAD: time until the
     * upload was submitted. */
    uint64_t work_ns;
    /* Time spent waiting for the previous stage. FETCH: time with at least one read under way.
     * DECODE: workers waited for reads, summed. UPLOAD: the caller waited for a GPU. CALLER: time
     * in pst_loader_next. */
    uint64_t wait_in_ns;
    /* Time spent waiting for the next stage. DECODE: workers were idle because all wanted batches
     * were ready, summed. HANDOVER: finished batches waited for the caller, summed. CALLER: waiting
     * for other ranks, as told to pst_loader_peers_waited. */
    uint64_t wait_out_ns;
    /* How many things the stage handled. FETCH: reads. DECODE, AUGMENT: images and masks. BATCH:
     * rows. UPLOAD, HANDOVER: batches. CALLER: steps. KEEP: items now in the cache. */
    uint64_t n;
    /* Bytes that the stage handled. FETCH: bytes read. DECODE: bytes of pixels. UPLOAD: bytes
     * uploaded. KEEP: cache memory in use. Others: 0. */
    uint64_t nbytes;
    /* UPLOAD, by the GPU's clock: time of uploads, and time of decoding and augmenting on the GPU.
     * Work of other programs on the GPU makes both longer. Others: 0. */
    uint64_t link_ns, gpu_ns;
    uint64_t reserved; /* 0 */
};

/* Times of steps. A step lasts from one delivery of a batch to the next, or to the call that
 * returns PST_END. The wait for an epoch's first batch belongs to no step. */
struct pst_step_times {
    uint64_t n; /* steps */
    /* Total time; the part of it spent in pst_loader_next; and of the rest, waiting for other
     * ranks. */
    uint64_t total_ns, wait_ns, peers_ns;
    uint64_t max_ns, wait_max_ns; /* The longest step, the longest wait. */
    double mean_ns, sd_ns;        /* Mean and standard deviation of a step; sd_ns is 0 if n < 2. */
    /* Median and 99th percentile of a step's time: exact for the window, within 1.6 % for an epoch.
     */
    double p50_ns, p99_ns;
    uint64_t cause_ns[PST_STAGES_MAX]; /* wait_ns divided by cause, indexed by enum pst_stage */
};

/* The figures of the meter at one moment. */
struct pst_loader_meter {
    struct pst_stage_clock stages[PST_STAGES_MAX]; /* by enum pst_stage */
    /* Steps of the current epoch, or of the last epoch if none is under way. */
    struct pst_step_times epoch;
    /* The epoch's last 256 steps, or fewer if it has not so many. */
    struct pst_step_times window;
    uint64_t first_wait_ns; /* The wait for this epoch's first batch. */
    /* Mean over workers of the share of the window's time in which a worker filled a row: 0 to 1.
     */
    double workers_busy;
    /* Current numbers: rows whose items are being read, read rows that wait for a worker, batches
     * being filled, finished batches that wait for the caller. */
    uint64_t n_rows_reading, n_rows_ready, n_batches_running, n_batches_ready;
    /* Sums of these four numbers over the n_asked calls for a batch, taken at each call. */
    uint64_t n_asked, sum_rows_reading, sum_rows_ready, sum_batches_running, sum_batches_ready;
    uint32_t traces;   /* 1: a trace is being written; else 0 */
    uint32_t reserved; /* 0 */
};

/* Gives the figures of the meter. In a forked child all are zero.
 *
 * meter: the caller's struct, written as a whole.
 * meter_nbytes: sizeof *meter.
 *
 * Cannot fail. Any thread. */
void pst_loader_meter(const pst_loader *loader, struct pst_loader_meter *meter,
                      size_t meter_nbytes);

/* Clocks of one worker since the loader was opened, in nanoseconds. Together they cover its time in
 * epochs, except looking up rows and waiting for locks. */
struct pst_worker_clock {
    /* Time spent filling rows, waiting for reads, and idle because all wanted batches were ready.
     */
    uint64_t busy_ns, wait_in_ns, wait_out_ns;
    uint64_t n_rows; /* rows filled */
    /* Parts of busy_ns by stage (enum pst_stage), estimated from the images that this worker timed.
     */
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

/* Tells the meter that the caller spent a part of the current step waiting for other ranks, as in
 * an all-reduce of gradients. This distinguishes a slow rank from ranks that wait for it.
 *
 * ns: nanoseconds, added to earlier calls in this step. The sum is limited to the caller's own time
 *     in the step. No effect before the epoch's first batch.
 *
 * Any thread. */
void pst_loader_peers_waited(pst_loader *loader, uint64_t ns);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
