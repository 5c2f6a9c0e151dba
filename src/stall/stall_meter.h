/* stall_meter.h - the meter of a loader: clocks of its workers, and times of the caller's steps.
 *
 * There are two kinds of clocks. A thread's clocks say what a worker's time was spent on. Only that
 * thread writes them, without a lock; any thread may read them. The steps and the stall clock
 * describe the caller; the loader's lock guards them.
 *
 * Reading clocks costs time, so only some short rows are timed in detail. A row that took 50 us or
 * more is followed by a row that is timed in detail. After a shorter row, enough rows are skipped
 * to keep the cost of timing below 0.5 % of the time. Whether a row is timed never depends on the
 * row itself. Decoding and augmenting are interleaved, a few rows of pixels at a time, so they are
 * timed separately only in every fourth image, chosen at random, and in all images while a trace is
 * written. */
#ifndef PST_STALL_STALL_METER_H
#define PST_STALL_STALL_METER_H

#include "stall/stall_trace.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The kinds of work that a worker's time is divided into. */
enum psti_meter_part {
    PSTI_METER_FETCH,   /* finding items, asking the cache, comparing checksums */
    PSTI_METER_PIXELS,  /* decoding and augmenting, timed together */
    PSTI_METER_AUGMENT, /* the augmenting in PIXELS; measured in some images */
    PSTI_METER_KEEP,    /* copying items to the cache, and re-coding them for it */
    PSTI_METER_SUBMIT,  /* closing a batch; on a GPU, uploading it */
    PSTI_METER_PARTS
};

/* A counter with one writer and any number of readers. */
typedef atomic_uint_fast64_t psti_meter_count;

/* Clocks of one thread that fills rows. Initially zero. */
struct psti_meter_thread {
    /* Totals since the thread was made, which only the thread itself writes: */
    psti_meter_count n_rows, busy_ns, wait_in_ns, wait_out_ns, read_ns, submit_ns;
    /* Totals of the rows timed in detail: their time and its parts. */
    psti_meter_count detail_ns, fetch_ns, pixels_ns, keep_ns;
    /* Totals of the images in which augmenting was timed separately: their time, and the augmenting
     * part. */
    psti_meter_count split_ns, augment_ns;

    /* Members that only the thread itself uses: */
    struct psti_trace *trace; /* NULL: no trace is written */
    uint32_t tid;             /* the thread's number in the trace */
    uint64_t random;
    uint32_t skip; /* number of rows to leave out before the next row is timed in detail */
    bool in_row, detailed, splits;
    int64_t row_start_ns;
    uint64_t augment_here_ns; /* augmenting time of the current image */
    uint64_t sample, step;    /* the row being filled */
};

/* Sums over threads. Times that were measured in some rows only are scaled up to all rows. */
struct psti_meter_sums {
    uint64_t n_rows, busy_ns, wait_in_ns, wait_out_ns, read_ns, submit_ns;
    uint64_t fetch_ns, decode_ns, augment_ns, keep_ns, batch_ns; /* these add up to busy_ns */
};

/* stall_meter.c: functions that a thread calls for its own clocks. */
void psti_stall_meter_thread_init(struct psti_meter_thread *thread, struct psti_trace *trace,
                                  uint32_t tid);
void psti_stall_meter_add(psti_meter_count *count, uint64_t n);
/* Called when a row begins. Returns false if a row is already under way, else true. */
bool psti_stall_meter_row_begins(struct psti_meter_thread *thread, uint64_t sample, uint64_t step);
/* Called when the row ends. waited_ns: time in it during which the thread itself read from storage.
 */
void psti_stall_meter_row_ends(struct psti_meter_thread *thread, uint64_t waited_ns);
/* Called when a part begins. Returns the time, or 0 if the row is not timed; pass it to `leave`. */
int64_t psti_stall_meter_enter(struct psti_meter_thread *thread, enum psti_meter_part part);
void psti_stall_meter_leave(struct psti_meter_thread *thread, enum psti_meter_part part,
                            int64_t since);
/* Enter and leave augmenting within an image. Enter returns 0 if the image is not timed separately.
 */
int64_t psti_stall_meter_enter_augment(const struct psti_meter_thread *thread);
void psti_stall_meter_leave_augment(struct psti_meter_thread *thread, int64_t since);
/* Adds the time since_ns to now_ns, in which the thread waited for rows; storage_ns of it for
 * reads. */
void psti_stall_meter_waited(struct psti_meter_thread *thread, int64_t since_ns, int64_t now_ns,
                             uint64_t storage_ns);
/* Adds a thread's clocks to `sums`. Any thread. */
void psti_stall_meter_sum(const struct psti_meter_thread *thread, struct psti_meter_sums *sums);

/* Causes for which the caller waits at an instant. */
enum psti_meter_cause {
    PSTI_METER_CAUSE_FETCH,  /* a worker was idle because reads were under way */
    PSTI_METER_CAUSE_ROWS,   /* workers filled rows */
    PSTI_METER_CAUSE_UPLOAD, /* rows were done; the GPU's work was under way */
    PSTI_METER_CAUSE_OTHER,  /* none of these: threads waking up, or claiming a slot */
    PSTI_METER_CAUSES
};

#define PSTI_METER_WINDOW 256 /* steps of the sliding window */
#define PSTI_METER_SUB_LOG2 5 /* the histogram has 2^5 buckets in each octave (factor of 2), so a
                               * bucket is 3 % wide */
#define PSTI_METER_FIRST_LOG2 10
#define PSTI_METER_OCTAVES 33 /* from 1 us to 2 hours; shorter and longer times count in the first
                               * and last bucket */
#define PSTI_METER_BUCKETS (PSTI_METER_OCTAVES << PSTI_METER_SUB_LOG2)

/* One step of the caller, from the delivery of a batch to the delivery of the next. */
struct psti_meter_step {
    uint64_t total_ns, wait_ns, peers_ns; /* duration of the step; part of it in pst_loader_next;
                                           * part of it waiting for other ranks */
    uint64_t cause_ns[PSTI_METER_CAUSES];
    uint64_t busy_ns; /* at the step's end: sum of all workers' busy time since the loader was
                       * opened */
    int64_t end_ns;
};

/* Steps of the current epoch. The loader's lock guards all members. */
struct psti_meter_steps {
    uint64_t n, total_ns, wait_ns, peers_ns, max_ns, wait_max_ns, first_wait_ns;
    double mean_ns, m2_ns2; /* Welford's mean and sum of squares of total_ns */
    uint64_t cause_ns[PSTI_METER_CAUSES];
    uint32_t buckets[PSTI_METER_BUCKETS];
    struct psti_meter_step window[PSTI_METER_WINDOW]; /* step i at i % PSTI_METER_WINDOW */
    struct psti_meter_step open; /* the current step: its causes and peers_ns so far */
    int64_t returned_ns;         /* time of the delivery with which the current step began; 0: there
                                  * was none */
    int64_t asked_ns;            /* time of the first call for the next batch; 0: no call */
    uint64_t all_n, all_caller_ns, all_wait_ns, all_peers_ns; /* totals since the loader was
                                                               * opened */
    uint64_t all_cause_ns[PSTI_METER_CAUSES];
};

/* The stall clock: what the caller waits for, instant by instant. The loader's lock guards it. */
struct psti_meter_stall {
    bool waits; /* the caller is in pst_loader_next */
    bool settles;
    int64_t since_ns;
    uint32_t n_idle;   /* number of workers that wait for rows */
    uint64_t reads_ns; /* if there are no workers: read time that is already counted */
};

/* Figures of steps, as pst_loader_meter gives them. */
struct psti_meter_figures {
    uint64_t n, total_ns, wait_ns, peers_ns, max_ns, wait_max_ns;
    double mean_ns, sd_ns, p50_ns, p99_ns;
    uint64_t cause_ns[PSTI_METER_CAUSES];
    /* For the steps in the window: sum of all workers' busy time, and the length of time in which
     * it was measured. */
    uint64_t busy_ns, busy_span_ns;
};

/* stall_meter_steps.c: the caller must hold the loader's lock. */
/* Called when an epoch begins; its steps are counted from 0. */
void psti_stall_meter_steps_begin(struct psti_meter_steps *steps);
/* Called when the caller asks for a batch; repeated calls for the same batch are allowed. */
void psti_stall_meter_steps_ask(struct psti_meter_steps *steps, int64_t now_ns);
/* Called when the caller gets a batch, or the epoch's end (`last`). busy_ns: see psti_meter_step.
 * Returns true if that ended a step, which is then the newest in the window. */
bool psti_stall_meter_steps_deliver(struct psti_meter_steps *steps, int64_t now_ns, bool last,
                                    uint64_t busy_ns);
/* Called when the caller gets an error: no step ends. */
void psti_stall_meter_steps_fail(struct psti_meter_steps *steps);
/* Adds time of the current step in which the caller waited for other ranks. */
void psti_stall_meter_steps_peers(struct psti_meter_steps *steps, uint64_t ns);
void psti_stall_meter_steps_cause(struct psti_meter_steps *steps, enum psti_meter_cause cause,
                                  uint64_t ns);
void psti_stall_meter_steps_epoch(const struct psti_meter_steps *steps,
                                  struct psti_meter_figures *figures);
/* Gives the figures of the epoch's last steps, at most PSTI_METER_WINDOW. */
void psti_stall_meter_steps_window(const struct psti_meter_steps *steps,
                                   struct psti_meter_figures *figures);

#endif
