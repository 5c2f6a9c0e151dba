/* loader_placement.h - the placement: the memory of a batch's arrays, and the maker of its pixels.
 * The loader's other files know only this table of operations.
 *
 * There are two implementations: host memory, plain or page-locked (loader_placement_host.c,
 * loader_pin.c), and a GPU (loader_gpu*.c). psti_loader_placement_open (loader_placement.c) picks
 * one when a loader is opened.
 *
 *     claim     a slot for a batch
 *     begin     its rows are about to be made
 *     place     each image of a row gets the place of its pixels; done when they are there
 *     submit    all rows are there; called by the thread that finished the last one
 *     wait      called by the caller's thread, at the batch's turn, if submit left work under way
 *     finish    rows that the placement could not make are made again, then the batch is whole
 *     quiesce   instead of these, if the batch is not wanted any more
 *
 * Threads: each operation says who may call it. "The lock" is the loader's, which is the pool's. */
#ifndef PST_LOADER_LOADER_PLACEMENT_H
#define PST_LOADER_LOADER_PLACEMENT_H

#include "batch/batch.h"
#include "pli/format/pli_head.h"

#include <penstock/penstock.h>

struct psti_chain;
struct psti_draw;
struct psti_loader_plan;
struct psti_loader_plan_field;
struct psti_loader_source;
struct psti_loader_worker;

/* One stored image of a row, probed and drawn, before it is decoded. */
struct psti_image {
    pst_batch *batch;
    uint32_t i_plan, row;
    const struct psti_loader_plan_field *plan;
    const struct psti_loader_source *source;
    struct pst_image_info info;     /* of the whole image, as shown */
    struct pst_image_info kept;     /* of the bytes: the same, or a picture at the training size */
    struct psti_pli_header pli;     /* forms pli and pli-jpeg: the parsed header */
    const struct psti_chain *chain; /* chain for pixels of its kind */
    const struct psti_draw *draw;
    const struct psti_shelf_picture *shared; /* has its pixels; NULL: they are to be decoded */
};

/* Destination of an image's pixels. */
struct psti_place {
    enum {
        PSTI_LOADER_PLACE_NOWHERE, /* nothing is left to do here; the placement makes the row, or
                                      has it made again */
        PSTI_LOADER_PLACE_ROW,     /* the finished row in its final place */
        PSTI_LOADER_PLACE_PICTURE  /* the decoded pixels of the draw's region, rows packed */
    } kind;
    void *data; /* NULL only with NOWHERE */
};

/* Counts of a worker's rows since the last merge. */
struct psti_placed {
    uint64_t n_gpu, n_gpu_fallback, n_gpu_again, nbytes_upload;
    char gpu_reason[96]; /* reason of the last fall-back */
};

/* Rows of one batch that must be made again, and the loader's function that makes them. Only the
 * caller's thread uses it, while no worker uses the batch. */
struct psti_remake {
    pst_batch *batch;
    uint32_t n_rows;
    /* Makes row `row` anew by the loader's policy, including its place. forget: the sample's bytes
     * were found bad, so a replacement of that sample is forgotten first. An error: the batch
     * cannot be made. The lock must not be held. */
    enum pst_status (*make)(struct psti_remake *remake, uint32_t row, bool forget,
                            struct pst_error *err);
    struct psti_loader_worker *worker; /* worker that makes them */

    /* State when `make` last returned: */
    /* Rows from that number on do not matter, because one before them has failed. */
    uint32_t n_wanted;
    const uint8_t *bad; /* [n_rows] rows to leave out are not 0; NULL: all are wanted */
    bool failed;        /* the batch will be an error */
    bool starved;       /* memory of the slots is used up: another try later */

    /* Members of the loader: */
    uint64_t epoch;
    struct psti_loader_job *job; /* NULL: there is no policy, and the caller gets the error */
};

/* Finished rows of a field that lie elsewhere in host memory, and the memory around them that may
 * be page-locked: whole pages, which stay until `forget`. */
struct psti_brought {
    uint32_t i_plan, row; /* of the batch: the first one */
    const void *rows;
    size_t nbytes;
    const void *home;
    size_t home_nbytes;
};

struct psti_placement_ops {
    bool remakes; /* finish may call remake->make; the loader keeps a worker for that */
    bool scales;  /* rows may be decoded at a part of their size */

    /* Opens and closes a worker's data, kept as worker->placement. close is also called after a
     * failed open. */
    enum pst_status (*open_worker)(struct psti_loader_worker *worker, struct pst_error *err);
    void (*close_worker)(struct psti_loader_worker *worker);

    /* Like psti_batch_pool_claim. The lock is held. */
    enum pst_status (*claim)(pst_loader *loader, uint32_t n_rows, pst_batch **batch);
    /* True if the last claim failed for lack of memory that the placement makes; err says why. The
     * lock is held, or no other thread has begun. */
    bool (*refused)(const pst_loader *loader, const struct psti_batch_pool_stats *stats,
                    struct pst_error *err);

    /* Prepares the slot for n_rows new rows, the first of which has turn `first`. No other
     * thread knows the batch yet. */
    void (*begin)(pst_loader *loader, pst_batch *batch, uint64_t first, uint32_t n_rows);
    /* Sets the destination of the image's pixels. Any worker, an image of its own; no lock. An
     * error is of the machine or of memory, never of the image; if worker->starved is set, of the
     * slots' memory. */
    enum pst_status (*place)(struct psti_loader_worker *worker, const struct psti_image *image,
                             struct psti_place *place, struct pst_error *err);
    /* The pixels are at the destination that `place` set. Called by the same worker. */
    void (*done)(struct psti_loader_worker *worker, const struct psti_image *image);

    /* All rows are there, but for those with bad[row] != 0 (NULL: none), which are left out.
     * failed: one of them could not be made. *whole: nothing is left for wait and finish. Any
     * thread, one for a batch; the lock must not be held. */
    enum pst_status (*submit)(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                              const uint8_t *bad, bool failed, bool *whole, struct pst_error *err);
    /* Waits for the submitted work. PST_ERROR_BUSY: it is not done by `deadline`. The caller's
     * thread; the lock must not be held. */
    enum pst_status (*wait)(pst_loader *loader, pst_batch *batch, int64_t deadline,
                            struct pst_error *err);
    /* Called after `wait`. Makes rows again. Then the batch is whole, unless it failed or starved.
     * The caller's thread; the lock must not be held. */
    enum pst_status (*finish)(pst_loader *loader, struct psti_remake *remake,
                              struct pst_error *err);
    /* Instead of place, done and submit, for a batch whose rows have been prepared elsewhere: all
     * its numbers are in place, the pixels are given, and stay as they are until `wait` is over.
     * Then wait and finish, as after submit. *copied: they could not be read where they lie. One
     * thread at a time; the lock must not be held. NULL: pixels are in host memory, and whoever
     * has them puts them there. */
    enum pst_status (*bring)(pst_loader *loader, pst_batch *batch, const struct psti_brought *parts,
                             uint32_t n_parts, bool *copied, struct pst_error *err);
    /* True if the field's rows are given to `bring`. Only if that is not NULL. */
    bool (*brings)(const pst_loader *loader, uint32_t i_plan);
    /* Called before the memory that holds given rows is unmapped. Nothing reads it any more. */
    void (*forget)(pst_loader *loader, const void *memory, size_t nbytes);
    /* Waits until nothing is under way for a batch that is not wanted. The lock may be held. */
    void (*quiesce)(pst_loader *loader, pst_batch *batch);

    /* Overwrites members that it knows better than the loader. Any thread; no lock. */
    void (*stats)(const pst_loader *loader, struct pst_loader_stats *stats);
    /* Times of finished uploads, and of finished work, by the clock of a GPU. NULL: there is none.
     * Any thread; no lock. */
    void (*times)(const pst_loader *loader, uint64_t *link_ns, uint64_t *gpu_ns);
    /* The loader gives up this placement and the plan that it was opened with, which may be another
     * one than it has now. Data that batches need stays until the pool is freed. */
    void (*detach)(void *own, struct psti_loader_plan *plan);
};

/* Part of the loader. It is set before any other thread is started, and constant from then on. */
struct psti_placement {
    const struct psti_placement_ops *ops;
    void *own; /* data of the implementation; the pool closes it after the last batch */
};

/* Plain host memory, with which a loader begins. With pins as `own`, page-locked memory. */
extern const struct psti_placement psti_placement_host;
/* Picks a placement by the loader's options, after its pool was opened and before the first slot.
 */
enum pst_status psti_loader_placement_open(pst_loader *loader, struct pst_error *err);

#endif
