/* stall_meter.h - the meter: clocks at the doors of a loader, and times of the caller's steps.
 *
 * Two kinds of clocks. A thread's clocks say what a worker's time went to. Only that thread writes
 * them, without a lock; any thread may read them. The steps and the stall clock are of the caller;
 * the loader's lock guards them.
 *
 * Clocks cost time, so short rows are sampled. A row that took 50 us or more is followed by a row
 * that is timed in detail; after a shorter one so many rows are left out that the clocks cost less
 * than 0.5 % of the time. Which row is timed never depends on that row. Decoding and augmenting are
 * interleaved, a few rows of pixels at a time, so they are told apart in every fourth image, chosen
 * at random, and at all images while a trace is written. */
#ifndef PST_STALL_STALL_METER_H
#define PST_STALL_STALL_METER_H

#include "stall/stall_trace.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a worker's time goes to. */
enum psti_meter_part {
    PSTI_METER_FETCH,   /* finding items, asking the cache, comparing checksums */
    PSTI_METER_PIXELS,  /* decoding and augmenting, together */
    PSTI_METER_AUGMENT, /* the part of it that is no decoding; measured in some images */
    PSTI_METER_KEEP,    /* copying items to the cache, and re-coding them for it */
    PSTI_METER_SUBMIT,  /* closing a batch; on a GPU, uploading it */
    PSTI_METER_PARTS
};

/* A counter with one writer and any number of readers. */
typedef atomic_uint_fast64_t psti_meter_count;

/* Clocks of one thread that fills rows. All zero at first. */
struct psti_meter_thread {
    /* Since the thread was made; only the thread itself writes: */
    psti_meter_count n_rows, busy_ns, wait_in_ns, wait_out_ns, read_ns, submit_ns;
    /* Rows that were timed in detail: their time, and its parts. */
    psti_meter_count detail_ns, fetch_ns, pixels_ns, keep_ns;
    /* Images in which augmenting was told apart: their time, and that of augmenting. */
    psti_meter_count split_ns, augment_ns;

    /* The thread's own: */
    struct psti_trace *trace; /* NULL: none is written */
    uint32_t tid;             /* number in the trace */
    uint64_t random;
    uint32_t skip; /* rows to leave out before the next one is timed in detail */
    bool in_row, detailed, splits;
    int64_t row_start_ns;
    uint64_t augment_here_ns; /* of the image being decoded */
    uint64_t sample, step;    /* of the row being filled */
};

/* Sums over threads, with the parts extended from the rows that were timed to all rows. */
struct psti_meter_sums {
    uint64_t n_rows, busy_ns, wait_in_ns, wait_out_ns, read_ns, submit_ns;
    uint64_t fetch_ns, decode_ns, augment_ns, keep_ns, batch_ns; /* these add up to busy_ns */
};

/* stall_meter.c; the thread's own calls. */
void psti_stall_meter_thread_init(struct psti_meter_thread *thread, struct psti_trace *trace,
                                  uint32_t tid);
void psti_stall_meter_add(psti_meter_count *count, uint64_t n);
/* A row begins, unless one is under way already (true: this call began it). */
bool psti_stall_meter_row_begins(struct psti_meter_thread *thread, uint64_t sample, uint64_t step);
/* It ends. waited_ns: part of its time in which the thread read by itself. */
void psti_stall_meter_row_ends(struct psti_meter_thread *thread, uint64_t waited_ns);
/* A part begins: returns the time, or 0 if it is not timed. `leave` gets that value. */
int64_t psti_stall_meter_enter(struct psti_meter_thread *thread, enum psti_meter_part part);
void psti_stall_meter_leave(struct psti_meter_thread *thread, enum psti_meter_part part,
                            int64_t since);
/* As enter and leave of augmenting within an image; enter gives 0 where it is not told apart. */
int64_t psti_stall_meter_enter_augment(const struct psti_meter_thread *thread);
void psti_stall_meter_leave_augment(struct psti_meter_thread *thread, int64_t since);
/* The thread waited from since_ns to now_ns for rows to fill: storage_ns of it for reads. */
void psti_stall_meter_waited(struct psti_meter_thread *thread, int64_t since_ns, int64_t now_ns,
                             uint64_t storage_ns);
/* Adds a thread's clocks to `sums`. Any thread. */
void psti_stall_meter_sum(const struct psti_meter_thread *thread, struct psti_meter_sums *sums);

/* Why the caller waits at an instant. */
enum psti_meter_cause {
    PSTI_METER_CAUSE_FETCH,  /* workers had nothing to do because bytes were under way */
    PSTI_METER_CAUSE_ROWS,   /* workers filled rows */
    PSTI_METER_CAUSE_UPLOAD, /* rows were there; the placement had work under way */
    PSTI_METER_CAUSE_OTHER,  /* none of these: threads woke up, a slot was claimed */
    PSTI_METER_CAUSES
};

#define PSTI_METER_WINDOW 256 /* steps of the sliding window */
#define PSTI_METER_SUB_LOG2 5 /* parts of an octave in the histogram: 3 % each */
#define PSTI_METER_FIRST_LOG2 10
#define PSTI_METER_OCTAVES 33 /* 1 us to 2 hours; shorter and longer times count at the ends */
#define PSTI_METER_BUCKETS (PSTI_METER_OCTAVES << PSTI_METER_SUB_LOG2)

/* One step of the caller: from the delivery of a batch to that of the next one. */
struct psti_meter_step {
    uint64_t total_ns, wait_ns, peers_ns; /* in all; in pst_loader_next; marked by the caller */
    uint64_t cause_ns[PSTI_METER_CAUSES];
    uint64_t busy_ns; /* sum of workers' busy times at its end, since the loader was opened */
    int64_t end_ns;
};

/* Steps of the epoch under way. The loader's lock guards all of it. */
struct psti_meter_steps {
    uint64_t n, total_ns, wait_ns, peers_ns, max_ns, wait_max_ns, first_wait_ns;
    double mean_ns, m2_ns2; /* Welford's sums of total_ns */
    uint64_t cause_ns[PSTI_METER_CAUSES];
    uint32_t buckets[PSTI_METER_BUCKETS];
    struct psti_meter_step window[PSTI_METER_WINDOW]; /* step i at i % PSTI_METER_WINDOW */
    struct psti_meter_step open; /* the step under way: causes and peers_ns so far */
    int64_t returned_ns;         /* delivery that began it; 0: none */
    int64_t asked_ns;            /* first call for the batch that ends it; 0: not called yet */
    uint64_t all_n, all_caller_ns, all_wait_ns, all_peers_ns; /* since the loader was opened */
    uint64_t all_cause_ns[PSTI_METER_CAUSES];
};

/* The stall clock: what the caller waits for, instant by instant. The loader's lock guards it. */
struct psti_meter_stall {
    bool waits; /* the caller is in pst_loader_next */
    bool settles;
    int64_t since_ns;
    uint32_t n_idle;   /* workers that wait for rows */
    uint64_t reads_ns; /* without workers: time of reads that was counted already */
};

/* Figures of steps, as pst_loader_meter gives them. */
struct psti_meter_figures {
    uint64_t n, total_ns, wait_ns, peers_ns, max_ns, wait_max_ns;
    double mean_ns, sd_ns, p50_ns, p99_ns;
    uint64_t cause_ns[PSTI_METER_CAUSES];
    /* Workers' busy time, summed, and the time in which it was; of the window alone. */
    uint64_t busy_ns, busy_span_ns;
};

/* stall_meter_steps.c; the loader's lock must be held. */
/* An epoch begins: its steps are counted from 0. */
void psti_stall_meter_steps_begin(struct psti_meter_steps *steps);
/* The caller asks for a batch, perhaps not for the first time. */
void psti_stall_meter_steps_ask(struct psti_meter_steps *steps, int64_t now_ns);
/* It has got one, or the epoch's end (`last`). busy_ns: see psti_meter_step. True if that ended a
 * step, which is then the newest of the window. */
bool psti_stall_meter_steps_deliver(struct psti_meter_steps *steps, int64_t now_ns, bool last,
                                    uint64_t busy_ns);
/* It has got an error: no step ends. */
void psti_stall_meter_steps_fail(struct psti_meter_steps *steps);
/* Part of the step under way in which the caller waited for other ranks. */
void psti_stall_meter_steps_peers(struct psti_meter_steps *steps, uint64_t ns);
void psti_stall_meter_steps_cause(struct psti_meter_steps *steps, enum psti_meter_cause cause,
                                  uint64_t ns);
void psti_stall_meter_steps_epoch(const struct psti_meter_steps *steps,
                                  struct psti_meter_figures *figures);
/* The same of the last steps of the epoch, at most PSTI_METER_WINDOW. */
void psti_stall_meter_steps_window(const struct psti_meter_steps *steps,
                                   struct psti_meter_figures *figures);

#endif
