/* loader_int.h - what the loader's files share: the plan, jobs, tasks, workers, the handle.
 *
 * How a batch comes about: the pump (whichever thread finds work for it) starts a job per batch, in
 * order, and claims its slot; then it looks up each row's items and starts their reads into the
 * arena (a task per row). Workers take tasks whose bytes are there, or rows straight away where all
 * files are in memory, and fill slot rows. The worker that finishes a job's last row closes the
 * batch; pst_loader_next hands jobs out in order. */
#ifndef PST_LOADER_LOADER_INT_H
#define PST_LOADER_LOADER_INT_H

#include "augment/augment.h"
#include "batch/slots.h"
#include "decode/decode.h"
#include "order/order.h"
#include "format/format_geometry.h"
#include "loader/loader_arena.h"
#include "loader/placement/loader_placement.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#include <pthread.h>
#include <stdatomic.h>

#define PSTI_PATH_NBYTES 4096
#define PSTI_QUARANTINE_MAX 4096
#define PSTI_GRANT_MIN_NBYTES                                                                      \
    ((uint64_t)512 << 10) /* scratch of a decoder, and of a run, to begin with */
/* A decoder's objects, libdeflate's decompressor among them (11 KiB); all of a worker's tools. */
#define PSTI_DECODER_NBYTES ((uint64_t)24 << 10)
#define PSTI_WORKER_NBYTES (2 * PSTI_GRANT_MIN_NBYTES + PSTI_DECODER_NBYTES)
#define PSTI_REPLACE_TRIES 16
#define PSTI_RANGES_MAX 16 /* reads into which one item may be split */

/* The plan: what each field of a batch is made of
 * ---------------------------------------------------------- */

enum psti_fill {
    PSTI_FILL_PIXELS,
    PSTI_FILL_BYTES,
    PSTI_FILL_POINTS,
    PSTI_FILL_ARRAY,
    PSTI_FILL_INT,
    PSTI_FILL_FLOAT
};

struct psti_plan_field {
    const struct pst_field *field; /* the data set's */
    enum psti_fill fill;
    uint32_t i_field;      /* in the data set */
    uint32_t variant_mask; /* variants allowed */
    uint32_t form_mask;    /* forms allowed, bit f = enum pst_form f */
    int i_item;            /* among the stored items of a row; -1: INT, FLOAT */
    int i_geometry; /* POINTS, PIXELS: plan field that gives the sample's geometry; -1: none */
    /* PIXELS. chains: for pixels of 8 and 16 bits, of 1 to 4 channels; NULL: not delivered. `chain`
     * is the one of them that most rows are expected to take; what was drawn for one holds for all,
     * as they differ in the pixels alone. */
    struct psti_chain *chains[2][4], *chain;
    struct pst_decode_options decode;
    uint8_t channels, bits; /* of the pixels that `chain` gets */
    enum pst_layout layout;
    bool any_channels; /* rows have as many as their images have stored */
    bool fixed;        /* all rows have one shape */
    bool identity; /* no operation, HWC, pixels as decoded: raw rows may be copied as they are */
    bool may_skip; /* items in shards, of which operations may want a region only */
    bool scaled_decode; /* as pst_field_output */
    uint32_t own;       /* of psti_draw_key: not 0 for a field with a geometry of its own */
    bool follows;       /* PIXELS: the geometry of plan field i_geometry is this one's too */
    bool moves;         /* PIXELS: there are geometric operations */
    bool shows_stored;  /* PIXELS: ignore_orientation */
    enum pst_made_for made_for; /* masks, POINTS */
    bool drops;                 /* boxes: those that too little is left of are dropped */
    float min_area, min_visibility;
    bool says_boxes; /* it was said whether it has a row for each box */
    int i_boxes;     /* plan field of the boxes that it has a row for; -1: none */
};

struct psti_plan {
    uint32_t n_fields, n_items;
    uint32_t n_reads; /* at most, of one row at a time; >= n_items */
    int i_leader;     /* plan field that gives the sample's geometry; -1: none does */
    struct psti_plan_field fields[PST_MAX_FIELDS];
    struct psti_slot_field slots[PST_MAX_FIELDS];
    uint32_t fields_of_items[PST_MAX_FIELDS];
};

enum pst_status psti_plan_make(pst_dataset *dataset, const struct pst_loader_options *options,
                               struct psti_plan *plan, struct pst_error *err);
void psti_plan_clear(struct psti_plan *plan);
/* loader_chains.c: what decoders are to give; sets decode, channels and bits. */
void psti_plan_decode(const struct pst_loader_options *options, const struct pst_field_output *wish,
                      struct psti_plan_field *plan);
/* Compiles the chains of an image or mask. channels, bits: what the first sample has stored. */
enum pst_status psti_plan_chains(const struct pst_field_output *wish, uint8_t channels,
                                 uint8_t bits, struct psti_plan_field *plan, struct pst_error *err);
void psti_plan_free_chains(struct psti_plan_field *plan);
/* The chain for pixels of that kind; NULL: not delivered. */
struct psti_chain *psti_plan_chain(const struct psti_plan_field *plan, uint8_t channels,
                                   uint8_t bits);
/* `chain`, which is the caller's from here on. */
struct psti_chain *psti_plan_take_chain(struct psti_plan_field *plan);
/* Whether this item may be delivered, by its form. */
bool psti_plan_allows_form(const struct psti_plan_field *plan, enum pst_form form);
/* Whether the sample has that item; files of a folder are there though their form is not known yet.
 */
bool psti_plan_item_is_there(const pst_dataset *dataset, const struct pst_item *item);
/* What the header of one file of a folder says; false: nothing that is known. */
bool psti_plan_probe_file(pst_dataset *dataset, const struct psti_plan_field *plan, uint64_t sample,
                          struct pst_image_info *info);
/* Largest bytes of all items of one row that must be read, in buffers as `storage` wants them.
 * in_memory: only values of a folder's label file need any. */
uint64_t psti_plan_row_nbytes_max(const struct psti_plan *plan, pst_dataset *dataset,
                                  const struct psti_storage *storage, bool in_memory);

/* Files
 * ------------------------------------------------------------------------------------------------
 */

/* Shards (and with MEMORY storage also folder files), opened when first needed, the least recently
 * used closed. */
struct psti_files {
    pthread_mutex_t lock; /* guards the tables */
    struct psti_file **files;
    uint32_t *refs;
    uint64_t *used; /* tick of the last use */
    uint64_t tick;
    uint32_t n, n_open;
    bool resident; /* MEMORY: all are open, for good; no lock is taken */
};

/* Workers
 * ------------------------------------------------------------------------------------------------
 */

/* One stored item of one row. */
struct psti_source {
    struct pst_item item;
    uint32_t variant;
    struct psti_file *file; /* held while the row is under way; NULL: read by path, or in no file */
    const char *path;       /* of a folder's file; NULL otherwise */
    void *buffer;           /* where it is to be read to; NULL: in memory already, or empty */
    const void *data;       /* its bytes; NULL: not there yet */
    bool sparse;            /* in two rounds: the first n_here bytes, then what of it is needed */
    bool partial;           /* of `data` only the head and the units of `region` are there */
    uint32_t n_more;        /* reads of the second round */
    size_t n_here;          /* sparse: bytes of the first round */
    struct psti_rect region; /* sparse: what the operations want, of the picture at that scale */
    uint32_t scale_log2;     /* sparse */
    struct psti_rect stored; /* all that it is made from, before the orientation is applied */
};

/* What one thread needs to fill rows. */
struct psti_worker {
    pst_loader *loader;
    pthread_t thread;
    struct psti_decoder *decoder;
    struct psti_run *run;
    struct psti_draw *draws;         /* [plan.n_fields] */
    struct psti_picture_size leader; /* of the row's leading image, once it was probed */
    struct psti_source *sources;     /* [plan.n_items], of rows read by this thread itself */
    struct psti_read *reads;         /* [plan.n_reads] */
    char *paths;                     /* [n_items][PSTI_PATH_NBYTES], folders only */
    void *buffer;                    /* for reads of this thread itself */
    uint64_t buffer_nbytes;
    uint64_t grant;                   /* scratch allowed to the decoder, and to the run */
    uint64_t extra;                   /* more for the decoder, with which it is faster */
    uint64_t seen_grant, seen_wanted; /* of the loader's, when this worker last looked */
    bool has_reserve;                 /* holds loader->reserve_lock and uses the reserve */
    bool grown;                       /* decoder and run have scratch from the reserve */
    bool emptied;                     /* and began this image with none in use */
    uint64_t reserve_nbytes;          /* charged for what is used of it */
    void *reserve_buffer;
    bool owes;             /* num_workers 0: the throttle's time is waited for after the row */
    bool holds_row;        /* a row is made, and not done before hold_until_ns */
    int64_t owed_ns;       /* for the row being made */
    int64_t hold_until_ns; /* the throttle's time for the row that is held */
    bool starved;          /* the last row failed because the slots' memory is used up */
    bool lacks_scratch;    /* it failed because its decoder got no more memory */
    struct psti_decoder_stats seen; /* what was added to the loader's counters already */
    void *placement;                /* what the loader's placement keeps for this worker */
    /* Since the last merge: */
    struct psti_placed placed;
    uint64_t n_cpu, nbytes_decoded, n_region_fallback, decode_ns;
    uint64_t n_units, n_units_whole, n_partial, n_scaled, n_libpng, n_boxes_dropped;
    uint64_t read_here_ns; /* of decode_ns: reads by this thread itself */
    struct pst_error err;
};

enum pst_status psti_worker_open(struct psti_worker *worker, pst_loader *loader,
                                 struct pst_error *err);
void psti_worker_close(struct psti_worker *worker);
/* Larger scratch, if there is any to be had: then the row is worth another try. */
bool psti_worker_grow(struct psti_worker *worker);
/* What other workers found that the images need, this one takes before it meets them. */
bool psti_worker_lags(const struct psti_worker *worker);
void psti_worker_catch_up(struct psti_worker *worker);
/* Gives back what came from the reserve, after a row. */
void psti_worker_settle(struct psti_worker *worker);
void psti_worker_count(struct psti_worker *worker, int64_t start_ns);
/* Counts a read of this thread itself that began at start_ns, perhaps `within_row`, of which
 * psti_worker_count will count all. */
void psti_worker_read_here(struct psti_worker *worker, int64_t start_ns, bool within_row);
/* The lock must be held. */
void psti_worker_merge(struct psti_worker *worker);

/* Jobs and tasks
 * ------------------------------------------------------------------------------------------- */

struct psti_bad {
    struct psti_bad *next; /* by row, then in the order they happened */
    uint32_t row;          /* the job's n_rows: of what was tried to fill an empty batch */
    struct pst_error err;
};

enum psti_job_state { PSTI_JOB_EMPTY, PSTI_JOB_RUNNING, PSTI_JOB_WHOLE };

/* A batch being prepared. Rows are written by workers; the members below `state` are guarded by the
 * lock. */
struct psti_job {
    pst_batch *batch;
    uint64_t epoch, step;
    uint32_t n_rows;
    uint64_t *positions; /* [batch_size] */
    uint8_t *bad;        /* [batch_size]: rows to leave out */
    enum psti_job_state state;
    uint32_t next_row; /* not yet given to a worker or to storage */
    uint32_t n_left;   /* rows not done */
    struct psti_bad *bads;
    uint32_t n_bad, n_bad_rows, n_replaced;
    bool starved, failed;
    bool settled; /* the placement has finished the batch */
    uint32_t failed_row;
    struct pst_error failure; /* of the lowest row that failed */
};

/* A row whose items are being read. */
struct psti_task {
    struct psti_task *next;
    pst_loader *loader;
    struct psti_job *job;
    uint32_t row;
    void *block; /* arena memory of all its items */
    size_t block_nbytes;
    atomic_uint n_reading;
    bool copies;            /* nothing to decode or to compute: as quick as any other such row */
    enum pst_status status; /* of looking up and reading */
    struct pst_error err;
    struct psti_source *sources; /* [n_items] */
    struct psti_read *reads;     /* [plan.n_reads] */
    char *paths;
    bool more; /* the reads of the second round are under way, or done */
};

enum pst_status psti_job_open(struct psti_job *job, uint32_t batch_size, struct pst_error *err);
void psti_job_close(struct psti_job *job);
void psti_job_clear_bads(struct psti_job *job);

/* The handle
 * ------------------------------------------------------------------------------------------------
 */

struct pst_loader {
    struct psti_pool *pool;
    pthread_mutex_t *lock; /* the pool's */
    pthread_cond_t *work;  /* the pool's: something to do for a worker */
    pthread_cond_t done;   /* a job is whole, or a thread has come to rest */
    pst_dataset *dataset;
    struct pst_loader_options options; /* pointers in it are cleared, zeros replaced by defaults */
    struct psti_plan plan;
    struct psti_order *order;
    struct psti_storage *storage;
    struct psti_files files;
    bool in_memory;                  /* every item is at hand without reading */
    uint64_t block_nbytes_max;       /* a row's items larger than this are PST_ERROR_LIMIT */
    uint64_t scratch_max;            /* of a decoder, and of a run */
    atomic_uint_fast64_t grant_max;  /* the largest that any worker came to */
    atomic_uint_fast64_t wanted_max; /* and of a decoder's, with what makes it faster */
    pthread_mutex_t reserve_lock;    /* one worker at a time uses the reserve */
    atomic_uchar *verified; /* a bit per (sample, item): MEMORY storage checks each item once */
    uint64_t memory_nbytes; /* charged for files in memory */

    struct psti_worker *workers; /* [n_workers]; sync: one, used by the caller's thread */
    uint32_t n_workers, n_started;
    struct psti_placement placement;
    struct psti_worker
        mender; /* makes rows again in the caller's thread; if placement.ops says so */
    struct psti_worker fetcher; /* pst_loader_fetch, pst_loader_replay */
    struct psti_job fetch_job;
    bool fetcher_is_open;
    pst_interrupt_fn interrupt; /* of fetch and replay; may be NULL */
    void *interrupt_ctx;

    /* Guarded by lock: */
    struct psti_arena arena;
    struct psti_task *tasks; /* [n_tasks] */
    uint32_t n_tasks;
    struct psti_task *free_tasks, *ready, *ready_last, *pending;
    uint32_t n_ready, n_reading, n_busy;
    uint32_t n_kept;       /* batches that the caller held when it asked for the next one */
    struct psti_job *ring; /* [options.prefetch], by step */
    uint32_t ahead;        /* jobs that may be under way, <= prefetch */
    bool closing, running, pumping, pump_again, begun, parked, failed;
    atomic_bool cancelled; /* read without the lock by workers, between rows */
    struct pst_error failure;
    enum pst_status claim_status;
    struct psti_ranks ranks;      /* of the epoch under way */
    struct psti_ranks next_ranks; /* of the next one */
    uint64_t epoch, start, step_base, n_steps;
    uint64_t next_step, issue_step, row_step; /* to deliver, to start, whose rows are given out */
    uint64_t hinted_window;
    uint64_t epoch_bad, epoch_good; /* samples of the epoch under way */
    struct pst_error last_bad;      /* of an epoch without a good sample so far */
    struct pst_error *quarantine;   /* [quarantine_cap] */
    uint32_t n_quarantined, quarantine_cap;
    struct pst_loader_stats stats;
    struct pst_loader_state state;

    atomic_uint_fast64_t fallbacks[PST_FALLBACKS_MAX]; /* counted by any thread, without the lock */
    uint64_t n_small_pages;                            /* of the process at open */
    int64_t reading_since_ns;                          /* guarded by lock: since n_reading is > 0 */
    uint64_t reading_ns;                               /* guarded by lock: before that */
};

/* loader_times.c, the lock must be held */
/* A task's reads are submitted next; they have completed. */
void psti_times_read_begins(pst_loader *loader);
void psti_times_read_ends(pst_loader *loader);
/* Nanoseconds until now in which at least one task's reads were under way. */
uint64_t psti_times_reading(const pst_loader *loader, int64_t now_ns);
/* A worker waits until there may be something to do; the lock is let go meanwhile. */
void psti_times_wait_for_work(pst_loader *loader);

/* loader_fallback.c */
void psti_loader_fell_back(pst_loader *loader, enum pst_fallback kind, uint64_t n);
/* Fills `fallbacks` and `cpu_rooms`; the other members are there already. */
void psti_loader_fallbacks(const pst_loader *loader, const struct psti_storage_stats *storage,
                           struct pst_loader_stats *stats);
/* Level of each room's kernels as text; how many rooms have a lower one than AVX-512 for want of
 * some part of it. */
uint32_t psti_loader_cpu_rooms(uint32_t features, char *text, size_t nbytes);

/* loader_next.c: counts a bad sample and lists it. Takes the lock. */
void psti_loader_note_bad(pst_loader *loader, const struct pst_error *what);

/* loader_files.c */
enum pst_status psti_files_open(pst_loader *loader, struct pst_error *err);
void psti_files_close(struct psti_files *files);
enum pst_status psti_files_acquire(pst_loader *loader, uint32_t i_file, struct psti_file **file,
                                   struct pst_error *err);
void psti_files_release(pst_loader *loader, uint32_t i_file, struct psti_file *file);
/* A file could not be found: whether it alone is gone, and not a shard, the folder that it was in,
 * or all of the data set (whose mount may be an empty folder now). */
bool psti_files_is_lone_loss(const pst_loader *loader, const char *path);

/* loader_row.c */
/* A row is a sample and what its random parameters follow from: `draw` is psti_order_draw's. */
struct psti_draw_key psti_row_key(const pst_loader *loader, uint64_t epoch, uint64_t sample,
                                  uint64_t draw);
/* Where the items of the sample are; files are acquired, memory that is there already is pointed
 * to. *nbytes: room that the others need. After failure nothing is held. */
enum pst_status psti_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                struct psti_source *sources, char *paths, size_t *nbytes,
                                struct pst_error *err);
/* Whether writing the located row only copies bytes. */
bool psti_row_copies(const pst_loader *loader, const struct psti_source *sources);
/* Buffers for the items that must be read, cut from `block`; fills `reads`, returns how many. */
uint32_t psti_row_reads(pst_loader *loader, struct psti_source *sources, void *block,
                        struct psti_read *reads);
/* The reads have completed: points `sources` to their bytes, or returns the first one's error. */
enum pst_status psti_row_take_reads(pst_loader *loader, uint64_t sample,
                                    struct psti_source *sources, const struct psti_read *reads,
                                    struct pst_error *err);
void psti_row_release(pst_loader *loader, struct psti_source *sources);
/* The items' bytes are there: writes row `row` of the batch. */
enum pst_status psti_row_fill(struct psti_worker *worker, pst_batch *batch, uint32_t row,
                              const struct psti_draw_key *key, struct psti_source *sources,
                              struct pst_error *err);
/* All of it in this thread: locate, read, fill. */
enum pst_status psti_row_make(struct psti_worker *worker, pst_batch *batch, uint32_t row,
                              const struct psti_draw_key *key, struct pst_error *err);
void psti_row_name_error(const pst_loader *loader, uint64_t sample,
                         const struct psti_source *source, struct pst_error *err);
/* loader_ranges.c */
/* Marks the located item as sparse if reading it in two rounds is likely to be worth it. */
void psti_ranges_consider(const pst_loader *loader, const struct psti_draw_key *key,
                          const struct psti_plan_field *field, struct psti_source *source);
/* Whether the row has items that are read in two rounds. */
bool psti_ranges_any(const pst_loader *loader, const struct psti_source *sources);
/* The first round was taken: fills `reads` with those of the second, returns how many. */
uint32_t psti_ranges_reads(pst_loader *loader, struct psti_source *sources,
                           struct psti_read *reads);
/* These have completed: PST_OK, or the first one's error. */
enum pst_status psti_ranges_take(const pst_loader *loader, uint64_t sample,
                                 const struct psti_source *sources, const struct psti_read *reads,
                                 struct pst_error *err);

/* loader_pixels.c */
/* psti_chain_draw, and where the field is to be decoded at a part of its size, psti_chain_scale. */
enum pst_status psti_row_draw(const pst_loader *loader, const struct psti_plan_field *plan,
                              const struct psti_draw_key *key, const struct pst_image_info *info,
                              struct psti_draw *draw, struct pst_error *err);
enum pst_status psti_row_pixels(struct psti_worker *worker, pst_batch *batch, uint32_t i_plan,
                                uint32_t row, const struct psti_draw_key *key,
                                const struct psti_source *source, struct pst_error *err);

/* loader_follow.c */
/* After `info` was probed: keeps that of the leading image, and turns that of a mask as it must be
 * decoded to lie on it; an error if sizes do not fit. */
enum pst_status psti_follow_image(struct psti_worker *worker, uint32_t i_plan,
                                  struct pst_image_info *info, struct pst_error *err);
/* Turns boxes or keypoints onto the leading image, and checks them. */
enum pst_status psti_follow_points(struct psti_worker *worker, uint32_t i_plan, float *points,
                                   size_t n, struct pst_error *err);

/* loader_boxes.c */
/* After all fields of the row were filled. */
enum pst_status psti_boxes_drop(struct psti_worker *worker, pst_batch *batch, uint32_t row,
                                const struct psti_source *sources, struct pst_error *err);
/* At open: PST_ERROR_ARGUMENT if a field seems to belong to boxes that are dropped, and nothing was
 * said about it. */
enum pst_status psti_boxes_check(pst_dataset *dataset, const struct psti_plan *plan,
                                 struct pst_error *err);

/* loader_job.c: a row's end, by the loader's policy */
/* Row `row` failed with worker->err: skip, replace, or the job fails. Takes the lock. */
void psti_job_row_failed(struct psti_worker *worker, struct psti_job *job, uint32_t row,
                         enum pst_status status);
/* A fetched row failed with worker->err: other samples, a function of (seed, epoch, sample), until
 * one is good. Only where on_error is REPLACE. Takes the lock. */
enum pst_status psti_job_replace_fetched(struct psti_worker *worker, pst_batch *batch, uint32_t row,
                                         uint64_t epoch, uint64_t sample, enum pst_status status);
/* All rows are there, and the placement's work was waited for: makes those rows again, with
 * `worker`, that it could not make, by the policy if there is a job; then the batch is whole. The
 * caller's thread; the lock must not be held. */
enum pst_status psti_job_finish(struct psti_worker *worker, pst_batch *batch, uint64_t epoch,
                                uint32_t n_rows, struct psti_job *job, struct pst_error *err);
/* What row `row` is made of as long as its sample is not replaced: the job's epoch, the sample that
 * the batch has there, and the draw of its position. */
struct psti_draw_key psti_job_key(const pst_loader *loader, const struct psti_job *job,
                                  uint32_t row);
/* n rows are done, and what they counted has been merged: who sees the batch may read it. The last
 * ones close the batch. The lock must be held, and is let go meanwhile. */
void psti_job_rows_done(pst_loader *loader, struct psti_job *job, uint32_t n);
/* Positions and samples of a rank's step of an epoch that began at `start`; the job has its slot.
 */
void psti_job_set(pst_loader *loader, struct psti_job *job, struct psti_ranks ranks, uint64_t epoch,
                  uint64_t start, uint64_t step, uint64_t shown_step);

/* loader_pump.c, the lock must be held, and is let go meanwhile */
/* Starts the next job if it may be under way and has a slot; loader->claim_status says why not. */
bool psti_pump_start_job(pst_loader *loader);
/* Starts as many jobs and reads as there is room for. */
void psti_pump(pst_loader *loader);
/* Submits the task's second round of `n` reads. The lock must not be held; the task is not the
 * caller's any more. */
void psti_pump_submit_more(pst_loader *loader, struct psti_task *task, uint32_t n);
/* The lock must be held. */
void psti_pump_free_task(pst_loader *loader, struct psti_task *task);

/* loader_run.c, the lock must be held */
void psti_run_start(pst_loader *loader, uint64_t step);
/* Drops all work under way; waits for what cannot be dropped. */
void psti_run_cancel(pst_loader *loader);
void psti_run_worker(void *worker);
/* One row of the next job in the caller's thread (num_workers 0), and the throttle's time for it;
 * at `deadline` the wait is broken off, to be gone on with at the next call. */
void psti_run_row_here(pst_loader *loader, struct psti_job *job, int64_t deadline);

/* The error of use in a forked child. */
enum pst_status psti_loader_fail_forked(struct pst_error *err);

#endif
