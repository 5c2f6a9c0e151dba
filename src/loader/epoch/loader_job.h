/* loader_job.h - a batch being prepared (a job), its rows whose items are being read (tasks), and
 * the handling of rows that fail. "The lock" is the loader's lock. */
#ifndef PST_LOADER_LOADER_JOB_H
#define PST_LOADER_LOADER_JOB_H

#include "order/order.h"
#include "loader/rows/loader_row.h"
#include "loader/loader_worker.h"

#include <stdatomic.h>

#define PSTI_LOADER_REPLACE_TRIES 16

struct psti_loader_bad {
    struct psti_loader_bad *next; /* next entry; the list is sorted by row, then by time */
    uint32_t row; /* row of the batch; n_rows of the job: this sample was tried as a filler of an
                     empty batch */
    struct pst_error err;
};

/* The states of a job, in their order. Only jobs of gathered rows are LISTED. */
enum psti_loader_job_state {
    PSTI_LOADER_JOB_EMPTY,
    PSTI_LOADER_JOB_LISTED, /* the rows are known and may be read, but the batch has no slot */
    PSTI_LOADER_JOB_RUNNING,
    PSTI_LOADER_JOB_WHOLE
};

/* A batch being prepared. While EMPTY or LISTED, it belongs to the thread that pumps. While
 * RUNNING, each row is written by the worker that took it. When WHOLE, it belongs to the caller's
 * thread, which needs no lock. */
struct psti_loader_job {
    /* These members are written before the state is RUNNING (all but `batch` before it is LISTED),
     * and then constant until it is EMPTY: */
    pst_batch *batch;
    uint64_t queue_step;  /* number among all jobs; the job lies at queue_step % n_jobs in the
                             ring */
    uint64_t epoch, step; /* step: within the epoch, counted from where the loader began in it */
    uint32_t n_rows;
    uint64_t *positions; /* [batch_size] */
    /* Number of the first row among all rows of this rank in the epoch, for work that is divided
     * evenly over the rank's rows. A resume does not change it. */
    uint64_t first_turn;
    /* The lock guards the fields below while the state is LISTED or RUNNING. The thread that brings
     * n_left to 0 owns the whole job from then on and needs no lock, until it sets the state to
     * WHOLE. */
    enum psti_loader_job_state state;
    uint32_t next_row;                   /* first row not yet given to a worker or to storage */
    struct psti_loader_task *ready_last; /* for gatherings: the job's last task in the ready list */
    struct psti_loader_task *parked;     /* for gatherings: tasks that were read while the job was
                                            LISTED; they become ready when it has its slot */
    uint32_t n_left;                     /* number of rows of the batch that are not finished */
    uint8_t *bad;                        /* [batch_size] not 0: the row is left out of the batch */
    struct psti_loader_bad *bads;
    uint32_t n_bad, n_bad_rows, n_replaced;
    uint64_t n_boxes_dropped; /* number of boxes that mosaics dropped */
    uint64_t n_unpaired;      /* number of rows that operations after a mosaic mirrored although
                                 left and right keypoints are not known (PST_FALLBACK_PAIRS) */
    bool starved, failed;
    bool settled; /* the placement has finished the batch */
    bool mixed;   /* loader_mix.c has processed the batch */
    uint32_t failed_row;
    struct pst_error failure; /* error of the lowest row that failed */
    int64_t whole_ns;         /* time at which the job became WHOLE */
};

/* A row whose items are being read. While it is in a list of the loader, the lock guards it. After
 * that it belongs to the pump, then to the tiers that are asked for its items, then to a worker. */
struct psti_loader_task {
    struct psti_loader_task *next;
    pst_loader *loader;
    struct psti_loader_job *job;
    uint32_t row;
    void *block; /* memory in the arena for all items of the row */
    /* Number of reads under way. The read that brings it to 0 moves the task to the ready list. */
    atomic_uint n_reading;
    bool copies; /* the row is only copied, so it takes as long as any other such row */
    enum pst_status status; /* status of looking up and reading the items */
    struct pst_error err;
    struct psti_loader_items items;
};

enum pst_status psti_loader_job_open(struct psti_loader_job *job, uint32_t batch_size,
                                     struct pst_error *err);
void psti_loader_job_close(struct psti_loader_job *job);
void psti_loader_job_clear_bads(struct psti_loader_job *job);

/* loader_job.c: how a row ends, by the loader's on_error option. */
/* Row `row` failed with worker->err. It is skipped or replaced, or the job fails. Takes the lock.
 */
void psti_loader_job_row_failed(struct psti_loader_worker *worker, struct psti_loader_job *job,
                                uint32_t row, enum pst_status status);
/* Handles a row of pst_loader_fetch that failed with worker->err: tries other samples until one is
 * good. Which ones are tried depends on (seed, epoch, sample) only. Called only if on_error is
 * REPLACE. Takes the lock. */
enum pst_status psti_loader_job_replace_fetched(struct psti_loader_worker *worker, pst_batch *batch,
                                                uint32_t row, uint64_t epoch, uint64_t sample,
                                                enum pst_status status);
/* Finishes a batch after the placement's work on it. `worker` makes again the rows that the
 * placement could not make; bad samples are handled by on_error if `job` is given. The batch is
 * WHOLE then. Called in the caller's thread without the lock. */
enum pst_status psti_loader_job_finish(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint64_t epoch, uint32_t n_rows, struct psti_loader_job *job,
                                       struct pst_error *err);
/* Returns the key of the random draw of row `row`, as long as its sample is not replaced: the job's
 * epoch, the sample in that row, and the draw number of its position. The job needs no slot. */
struct psti_draw_key psti_loader_job_key(const pst_loader *loader,
                                         const struct psti_loader_job *job, uint32_t row);
/* True if the error says that the placement has no memory for the rows of a batch now. */
bool psti_loader_job_lacks_memory(enum pst_status status, const struct pst_error *err);
/* Counts n rows as finished by the worker, whose counts must have been merged already, so that a
 * thread that sees the batch may read them. If no row is left, this closes the batch. The lock must
 * be held, and is released meanwhile. */
void psti_loader_job_rows_done(struct psti_loader_worker *worker, struct psti_loader_job *job,
                               uint32_t n);
/* Sets the positions of a rank's step in an epoch that began at position `start`, so that its rows
 * can be looked up. The job needs no slot. */
void psti_loader_job_list(const pst_loader *loader, struct psti_loader_job *job,
                          struct psti_ranks ranks, uint64_t epoch, uint64_t start, uint64_t step);
/* Sets positions and samples of a rank's step in an epoch that began at position `start`, but the
 * positions only if the job is not LISTED. The job must have its slot. */
void psti_loader_job_set(pst_loader *loader, struct psti_loader_job *job, struct psti_ranks ranks,
                         uint64_t epoch, uint64_t start, uint64_t step, uint64_t shown_step);

#endif
