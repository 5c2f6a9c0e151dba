/* loader_placement.h - where the arrays of batches lie, and who makes their pixels: one table of
 * operations, which is all that the loader's other files know of it.
 *
 * Two implementations: host memory, plain or page-locked (loader_placement_host.c, loader_pin.c),
 * and a card (loader_card*.c). psti_loader_placement_open picks one when a loader is opened.
 *
 *     claim     a slot for a batch
 *     begin     its rows are about to be made
 *     place     each image of a row: where its pixels go; done when they are there
 *     submit    all rows are there: by the thread that finished the last one
 *     wait      by the caller's thread, at the batch's turn, if submit left work under way
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
struct psti_loader_plan_field;
struct psti_loader_source;
struct psti_loader_worker;

/* One stored image of a row, probed and drawn, on its way into its batch. */
struct psti_image {
    pst_batch *batch;
    uint32_t i_plan, row;
    const struct psti_loader_plan_field *plan;
    const struct psti_loader_source *source;
    struct pst_image_info info;
    struct psti_pli_header pli;     /* of forms pli and pli-jpeg: the header, parsed */
    const struct psti_chain *chain; /* for pixels of its kind */
    const struct psti_draw *draw;
};

/* Where its pixels go. */
struct psti_place {
    enum {
        PSTI_PLACE_NOWHERE, /* nothing is left to do here: the placement makes the row, or has it
                               made again */
        PSTI_PLACE_ROW,     /* the finished row, as the slot has it */
        PSTI_PLACE_PICTURE  /* the decoded pixels of the draw's region, rows packed */
    } kind;
    void *data; /* NULL only with NOWHERE */
};

/* What a worker's rows came to since the last merge. */
struct psti_placed {
    uint64_t n_gpu, n_gpu_fallback, n_gpu_again, n_nvjpeg, nbytes_upload;
    char gpu_reason[96]; /* of the last fall-back */
};

/* Rows of one batch that are to be made again, and the loader's way to make them. Used by the
 * caller's thread alone, while no worker is at the batch. */
struct psti_remake {
    pst_batch *batch;
    uint32_t n_rows;
    /* Makes row `row` anew, place and all, by the loader's policy. forget: the bytes of its sample
     * were found bad, so whatever took that sample's place is forgotten first. An error: the batch
     * cannot be made. The lock must not be held. */
    enum pst_status (*make)(struct psti_remake *remake, uint32_t row, bool forget,
                            struct pst_error *err);
    struct psti_loader_worker *worker; /* that makes them */

    /* As they were when `make` last returned: */
    uint32_t n_wanted;  /* rows from that number on do not matter, for one before them has failed */
    const uint8_t *bad; /* [n_rows] rows to leave out are not 0; NULL: all are wanted */
    bool failed;        /* the batch will be an error */
    bool starved;       /* memory of the slots is used up: another try later */

    /* The loader's: */
    uint64_t epoch;
    struct psti_loader_job *job; /* NULL: no policy, an error is the caller's */
};

struct psti_placement_ops {
    bool remakes; /* finish may call remake->make: the loader keeps a worker for that */
    bool scales;  /* rows may be decoded at a part of their size */

    /* What a worker needs, kept as worker->placement. close: also after a failed open. */
    enum pst_status (*open_worker)(struct psti_loader_worker *worker, struct pst_error *err);
    void (*close_worker)(struct psti_loader_worker *worker);

    /* As psti_batch_pool_claim. The lock is held. */
    enum pst_status (*claim)(pst_loader *loader, uint32_t n_rows, pst_batch **batch);
    /* Why the last claim failed, if that was for memory that the placement makes; false: it was
     * not. The lock is held, or no other thread has begun. */
    bool (*refused)(const pst_loader *loader, const struct psti_batch_pool_stats *stats,
                    struct pst_error *err);

    /* The slot is to get n_rows new rows. No other thread knows the batch yet. */
    void (*begin)(pst_loader *loader, pst_batch *batch, uint32_t n_rows);
    /* Where the image's pixels go. Any worker, an image of its own; no lock. An error is of the
     * machine or of memory, never of the image; with worker->starved set, of the slots' memory. */
    enum pst_status (*place)(struct psti_loader_worker *worker, const struct psti_image *image,
                             struct psti_place *place, struct pst_error *err);
    /* What `place` asked for is there. The same worker. */
    void (*done)(struct psti_loader_worker *worker, const struct psti_image *image);

    /* All rows are there, but for those with bad[row] != 0 (NULL: none), which are left out.
     * failed: one of them could not be made. *whole: nothing is left for wait and finish. Any
     * thread, one for a batch; the lock must not be held. */
    enum pst_status (*submit)(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                              const uint8_t *bad, bool failed, bool *whole, struct pst_error *err);
    /* The work that was submitted is done: PST_OK; PST_ERROR_BUSY: not by `deadline`. The caller's
     * thread; the lock must not be held. */
    enum pst_status (*wait)(pst_loader *loader, pst_batch *batch, int64_t deadline,
                            struct pst_error *err);
    /* After that: makes rows again, and then, unless the batch failed or starved, the batch is
     * whole. The caller's thread; the lock must not be held. */
    enum pst_status (*finish)(pst_loader *loader, struct psti_remake *remake,
                              struct pst_error *err);
    /* Waits until nothing is under way for a batch that is not wanted. The lock may be held. */
    void (*quiesce)(pst_loader *loader, pst_batch *batch);

    /* Fills what it knows better than the loader. Any thread; no lock. */
    void (*stats)(const pst_loader *loader, struct pst_loader_stats *stats);
    /* The loader goes; what batches need stays until the pool goes. */
    void (*detach)(pst_loader *loader);
};

/* Part of the loader. Set before any other thread is started, and constant from then on. */
struct psti_placement {
    const struct psti_placement_ops *ops;
    void *own; /* the implementation's; the pool closes it, after the last batch */
};

/* Host memory without more: what a loader begins with. */
extern const struct psti_placement psti_placement_host;
/* By the loader's options, after its pool was opened and before the first slot. */
enum pst_status psti_loader_placement_open(pst_loader *loader, struct pst_error *err);

#endif
