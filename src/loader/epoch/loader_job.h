/* loader_job.h - a batch being prepared (a job), its rows whose items are being read (tasks), and
 * the handling of rows that fail. "The lock" is the loader's. */
#ifndef PST_LOADER_LOADER_JOB_H
#define PST_LOADER_LOADER_JOB_H

#include "order/order.h"
#include "loader/rows/loader_row.h"
#include "loader/loader_worker.h"

#include <stdatomic.h>

#define PSTI_LOADER_REPLACE_TRIES 16

struct psti_loader_bad {
    struct psti_loader_bad *next; /* list by row, then by time */
    uint32_t row; /* n_rows of the job: a sample that was tried to fill an empty batch */
    struct pst_error err;
};

enum psti_loader_job_state {
    PSTI_LOADER_JOB_EMPTY,
    PSTI_LOADER_JOB_RUNNING,
    PSTI_LOADER_JOB_WHOLE
};

/* A batch being prepared. EMPTY: it belongs to the thread that pumps. RUNNING: each row is written
 * by the worker that has it. WHOLE: it belongs to the caller's thread, which needs no lock. */
struct psti_loader_job {
    /* Written before RUNNING, and constant until EMPTY: */
    pst_batch *batch;
    uint64_t queue_step;  /* its place among all jobs; step % prefetch is that in the ring */
    uint64_t epoch, step; /* step: of the epoch, from where the loader began in it */
    uint32_t n_rows;
    uint64_t *positions; /* [batch_size] */
    /* Place of the first row among those of this rank in the epoch, for what is divided evenly over
     * the rank's rows. After a resume it goes on as if nothing had happened. */
    uint64_t first_turn;
    /* The lock guards the fields below while the state is RUNNING. The thread that brings n_left to
     * 0 owns the whole job from then on and needs no lock, until it sets the state to WHOLE. */
    enum psti_loader_job_state state;
    uint32_t next_row;                   /* first row not yet given to a worker or to storage */
    struct psti_loader_task *ready_last; /* with gatherings: its last task of the ready list */
    uint32_t n_left;                     /* rows not done */
    uint8_t *bad;                        /* [batch_size]: rows to leave out */
    struct psti_loader_bad *bads;
    uint32_t n_bad, n_bad_rows, n_replaced;
    uint64_t n_boxes_dropped; /* by mosaics */
    uint64_t n_unpaired;      /* rows that operations behind mosaics mirrored, with left and right
                                 unknown (PST_FALLBACK_PAIRS) */
    bool starved, failed;
    bool settled; /* the placement has finished the batch */
    bool mixed;   /* loader_mix.c has seen the batch */
    uint32_t failed_row;
    struct pst_error failure; /* error of the lowest row that failed */
    int64_t whole_ns;         /* time at which it became WHOLE */
};

/* A row whose items are being read. The lock guards it while it is in a list of the loader. Else it
 * belongs to the one that took it from there: the pump, then the tiers that it asks, then a worker.
 */
struct psti_loader_task {
    struct psti_loader_task *next;
    pst_loader *loader;
    struct psti_loader_job *job;
    uint32_t row;
    void *block; /* arena memory of all its items */
    /* The read whose completion brings it to 0 puts the task into the ready list. */
    atomic_uint n_reading;
    bool copies; /* the row needs no decoding and no arithmetic, so it takes as long as any other
                    such row */
    enum pst_status status; /* result of looking up and reading */
    struct pst_error err;
    struct psti_loader_items items;
};

enum pst_status psti_loader_job_open(struct psti_loader_job *job, uint32_t batch_size,
                                     struct pst_error *err);
void psti_loader_job_close(struct psti_loader_job *job);
void psti_loader_job_clear_bads(struct psti_loader_job *job);

/* loader_job.c: the end of a row, by the loader's policy. */
/* Row `row` failed with worker->err. It is skipped or replaced, or the job fails. Takes the lock.
 */
void psti_loader_job_row_failed(struct psti_loader_worker *worker, struct psti_loader_job *job,
                                uint32_t row, enum pst_status status);
/* A fetched row failed with worker->err. Tries other samples, a function of (seed, epoch, sample),
 * until one is good. Called only if on_error is REPLACE. Takes the lock. */
enum pst_status psti_loader_job_replace_fetched(struct psti_loader_worker *worker, pst_batch *batch,
                                                uint32_t row, uint64_t epoch, uint64_t sample,
                                                enum pst_status status);
/* Finishes a batch whose rows are all there and whose work on the placement is done. `worker` makes
 * the rows again that the placement could not make, by the policy if there is a job. Then the batch
 * is whole. The caller's thread; the lock must not be held. */
enum pst_status psti_loader_job_finish(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint64_t epoch, uint32_t n_rows, struct psti_loader_job *job,
                                       struct pst_error *err);
/* Key of the draw of row `row` while its sample is not replaced: the job's epoch, the batch's
 * sample in that row, and the draw of its position. */
struct psti_draw_key psti_loader_job_key(const pst_loader *loader,
                                         const struct psti_loader_job *job, uint32_t row);
/* n rows are done by the worker, and their counts have been merged, so that a thread that sees the
 * batch may read them. The last rows close the batch. The lock must be held, and is released
 * meanwhile. */
void psti_loader_job_rows_done(struct psti_loader_worker *worker, struct psti_loader_job *job,
                               uint32_t n);
/* Sets positions and samples of a rank's step in an epoch that began at `start`. The job has its
 * slot. */
void psti_loader_job_set(pst_loader *loader, struct psti_loader_job *job, struct psti_ranks ranks,
                         uint64_t epoch, uint64_t start, uint64_t step, uint64_t shown_step);

#endif
