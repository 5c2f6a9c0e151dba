/* loader_placement.h - the placement: where a batch's arrays lie, and whether CPU or GPU makes
 * their pixels. The loader's other files know only this table of operations.
 *
 * There are two implementations: host memory, plain or page-locked (loader_placement_host.c,
 * loader_pin.c), and a GPU (loader_gpu*.c). psti_loader_placement_open (loader_placement.c) picks
 * one when a loader is opened. The operations are called in this order:
 *
 *     claim     gets a slot for a batch
 *     begin     prepares the slot before its rows are made
 *     place     sets where the pixels of an image go; `done` follows when they are there;
 *               place_sound and done_sound do so for sound
 *     submit    called when all rows are made, by the thread that finished the last one
 *     wait      called by the caller's thread before delivery, if submit left work under way
 *     finish    makes rows again that the placement could not make, then the batch is whole
 *     carry     collates a whole batch, and brings rows that may differ in shape to where it lies
 *     quiesce   called instead, if the batch is no longer wanted
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
struct psti_sound_draw;

/* One stored image of a row before it is decoded: its header was read, and its random parameters
 * are drawn. */
struct psti_image {
    pst_batch *batch;
    uint32_t i_plan, row;
    uint32_t view; /* number among the views of its plan field; 0 if that has none */
    const struct psti_loader_plan_field *plan;
    const struct psti_loader_source *source;
    struct pst_image_info info;     /* properties of the whole image, as shown */
    struct pst_image_info kept;     /* describes the bytes: the same image, or a picture at the
                                       training size */
    struct psti_pli_header pli;     /* parsed header of the forms pli and pli-jpeg */
    const struct psti_chain *chain; /* compiled operations for pixels like this image's */
    const struct psti_draw *draw;
    const struct psti_shelf_picture *shared; /* the decoded pixels, made by another loader; NULL:
                                                they must be decoded */
};

/* Where the pixels of an image are to be written. */
struct psti_place {
    enum {
        PSTI_LOADER_PLACE_NOWHERE, /* the caller writes no pixels: the placement makes the row
                                      itself, or later has it made again */
        PSTI_LOADER_PLACE_ROW,     /* `data` receives the finished row */
        PSTI_LOADER_PLACE_PICTURE, /* `data` receives the decoded pixels of the draw's region,
                                      without gaps between lines */
        PSTI_LOADER_PLACE_WAVES    /* `data` receives the waveforms of psti_sound_run_waves */
    } kind;
    void *data; /* where the pixels go; NULL only for NOWHERE */
};

/* Bytes that a placement may have among a slot's numbers for each padded row of pixels. */
enum { PSTI_LOADER_NOTE_NBYTES = 40 };

/* Counts of a worker's rows since the last merge. */
struct psti_placed {
    uint64_t n_gpu, n_gpu_fallback, n_gpu_again, nbytes_upload;
    char gpu_reason[96]; /* why the GPU did not make a row, for the last such row */
};

/* Rows of one batch that must be made again, and the loader's function that makes them. Only the
 * caller's thread uses it, while no worker uses the batch. */
struct psti_remake {
    pst_batch *batch;
    uint32_t n_rows;
    /* Makes row `row` again by the loader's on_error policy, including its place. The job first
     * forgets the bad samples that it has noted for the row, and begins with the row's own sample.
     * So each bad sample is counted once. An error means that the batch cannot be made. The row
     * must not be one that is left out, and the lock must not be held. */
    enum pst_status (*make)(struct psti_remake *remake, uint32_t row, struct pst_error *err);
    struct psti_loader_worker *worker; /* worker that makes the rows */

    /* State when `make` last returned: */
    /* Rows from this number on are not needed, because an earlier row has failed. */
    uint32_t n_wanted;
    const uint8_t *bad; /* [n_rows]; not 0 for rows to leave out; NULL: all rows are wanted */
    bool failed;        /* the caller will get an error instead of the batch */
    bool starved;       /* the memory of slots is used up; the loader tries again later */

    /* Members that only the loader uses: */
    uint64_t epoch;
    struct psti_loader_job *job; /* job whose on_error policy applies; NULL: the caller gets each
                                    error */
};

/* Finished rows of a field in memory of the host service. `home` is the memory around them, whole
 * pages, which may be page-locked and stays mapped until `forget`. */
struct psti_brought {
    uint32_t i_plan, row; /* field in the plan, and the first row of the batch */
    const void *rows;
    size_t nbytes;
    const void *home;
    size_t home_nbytes;
};

struct psti_placement_ops {
    bool remakes; /* `finish` may call remake->make; the loader keeps a worker for that */
    bool scales;  /* true if images may be decoded at a half, a quarter or an eighth of their
                     size */

    /* Open and close a worker's data, kept as worker->placement. close_worker is also called after
     * a failed open_worker. */
    enum pst_status (*open_worker)(struct psti_loader_worker *worker, struct pst_error *err);
    void (*close_worker)(struct psti_loader_worker *worker);

    /* Gets a slot, like psti_batch_pool_claim. The lock is held. */
    enum pst_status (*claim)(pst_loader *loader, uint32_t n_rows, pst_batch **batch);
    /* True if the last claim failed because the placement's own memory ran out; err says why. The
     * lock is held, or no other thread is started yet. */
    bool (*refused)(const pst_loader *loader, const struct psti_batch_pool_stats *stats,
                    struct pst_error *err);

    /* Prepares the slot for n_rows new rows. first: number of the first row among the rank's rows.
     * No other thread knows the batch yet. */
    void (*begin)(pst_loader *loader, pst_batch *batch, uint64_t first, uint32_t n_rows);
    /* Sets where the image's pixels go. Called by any worker for its own image; no lock. Errors
     * come from the machine or lack of memory, never from the image; worker->starved: the memory of
     * slots is used up. */
    enum pst_status (*place)(struct psti_loader_worker *worker, const struct psti_image *image,
                             struct psti_place *place, struct pst_error *err);
    /* Tells that the pixels are at the destination that `place` set. Called by the same worker. */
    void (*done)(struct psti_loader_worker *worker, const struct psti_image *image);
    /* These two do the same for a row of sound whose features the placement makes (gpu_makes).
     * NULL: the placement makes no features. */
    enum pst_status (*place_sound)(struct psti_loader_worker *worker, pst_batch *batch,
                                   uint32_t i_plan, uint32_t row,
                                   const struct psti_sound_draw *draw, struct psti_place *place,
                                   struct pst_error *err);
    void (*done_sound)(struct psti_loader_worker *worker, pst_batch *batch, uint32_t i_plan,
                       uint32_t row);

    /* Called when all rows are made. Rows with bad[row] != 0 are left out (NULL: none). failed: a
     * row could not be made. *whole: nothing is left for wait and finish. Called by any thread,
     * once for a batch; the lock must not be held. */
    enum pst_status (*submit)(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                              const uint8_t *bad, bool failed, bool *whole, struct pst_error *err);
    /* Waits for the submitted work. PST_ERROR_BUSY: it is not done by `deadline`. Called in the
     * caller's thread; the lock must not be held. */
    enum pst_status (*wait)(pst_loader *loader, pst_batch *batch, int64_t deadline,
                            struct pst_error *err);
    /* Called after `wait`. Makes rows again that the placement could not make. Then the batch is
     * whole, unless it failed or starved. Called in the caller's thread; the lock must not be
     * held. */
    enum pst_status (*finish)(pst_loader *loader, struct psti_remake *remake,
                              struct pst_error *err);
    /* NULL: no rows are carried, and the loader calls psti_batch_collate. Otherwise it calls this,
     * which collates the batch and then brings the carried rows (batch.h) to where the batch's
     * arrays lie. It does nothing if `submit` has done that. PST_ERROR_LIMIT: memory is lacking;
     * the loader frees some and calls it again. Called in the caller's thread; the lock must not be
     * held. */
    enum pst_status (*carry)(pst_loader *loader, pst_batch *batch, struct pst_error *err);
    /* Replaces place, done and submit for a batch whose rows the host service prepared. All numbers
     * of the batch are in place already, and psti_batch_finish was called. `parts` are the pixels,
     * which must stay unchanged until `wait` is over. wait and finish follow, as after submit.
     * *copied: the pixels could not be read in place. One thread at a time; the lock must not be
     * held. NULL: pixels belong into host memory, and the caller copies them there. */
    enum pst_status (*bring)(pst_loader *loader, pst_batch *batch, const struct psti_brought *parts,
                             uint32_t n_parts, bool *copied, struct pst_error *err);
    /* True if the rows of the field must be given to `bring`. NULL if `bring` is NULL. */
    bool (*brings)(const pst_loader *loader, uint32_t i_plan);
    /* Called before memory that held rows for `bring` is unmapped. No work reads it any more. */
    void (*forget)(pst_loader *loader, const void *memory, size_t nbytes);
    /* Waits until no work is under way for a batch that is no longer wanted. The lock may be
     * held. */
    void (*quiesce)(pst_loader *loader, pst_batch *batch);

    /* Sets the members of *stats that only the placement can count. Any thread; no lock. */
    void (*stats)(const pst_loader *loader, struct pst_loader_stats *stats);
    /* Gives the total time of finished uploads and of finished work, by the GPU's clock. NULL:
     * there is no GPU. Any thread; no lock. */
    void (*times)(const pst_loader *loader, uint64_t *link_ns, uint64_t *gpu_ns);
    /* Ends the loader's use of this placement and of the plan that it was opened with, which need
     * not be the loader's current plan. Data that batches need stays until the pool is freed. */
    void (*detach)(void *own, struct psti_loader_plan *plan);
};

/* The loader's placement. It is set before any other thread is started, and constant from then
 * on. */
struct psti_placement {
    const struct psti_placement_ops *ops;
    void *own; /* data of the implementation; the pool closes it after the last batch */
};

/* Plain host memory, with which a loader begins. If `own` is set to pins, it is page-locked. */
extern const struct psti_placement psti_placement_host;
/* Picks a placement by the loader's options. Called after the pool was opened and before its first
 * slot. */
enum pst_status psti_loader_placement_open(pst_loader *loader, struct pst_error *err);

#endif
