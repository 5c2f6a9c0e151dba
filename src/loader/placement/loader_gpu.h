/* loader_gpu.h - batches on a GPU: declarations that the files of this placement share.
 *
 * Workers put rows into the block of their batch's slot (loader_gpu_row.c): stored bytes for the
 * GPU to decode, pixels for it to prepare, or finished rows. The thread that finishes a batch's
 * last row submits the GPU's work on the loader's streams (loader_gpu_work.c). The caller's thread
 * waits for that work before it delivers the batch. It also makes rows again that were corrupt or
 * found no space in the block, and moves rows up to close the gaps of rows that are left out.
 * loader_gpu_sound.c puts waveforms into the block, of which the GPU makes features. Rows of pixels
 * that differ in size get their memory in loader_gpu_loose.c; other rows that may differ in shape
 * are uploaded by loader_gpu_carry.c. Slots, and the streams that read them, are in
 * loader_gpu_slot.c, and the size of their blocks in loader_gpu_size.c. Rows that the host service
 * prepared are uploaded by loader_gpu_bring.c.
 *
 * The GPU is closed with the pool, because the last batch may be released after the loader was
 * closed. */
#ifndef PST_LOADER_LOADER_GPU_H
#define PST_LOADER_LOADER_GPU_H

#include "device/device.h"
#include "gpu/gpu.h"
#include "loader/loader_handle.h"
#include "loader/rows/loader_row.h"
#include "loader/loader_worker.h"
#include "loader/placement/loader_gpu_arena.h"
#include "loader/placement/loader_gpu_loose.h"
#include "loader/placement/loader_placement.h"

/* Reasons to make a row again in another round. */
enum psti_loader_gpu_again {
    PSTI_LOADER_GPU_AGAIN_NO = 0,
    PSTI_LOADER_GPU_AGAIN_ROOM = 1, /* the block was full, so the row found no space */
    /* The GPU found the row's bytes corrupt; the CPU makes the row and names the error. */
    PSTI_LOADER_GPU_AGAIN_FAILED = 2
};

/* A CUDA stream of the caller that reads the batch, or has read it. */
struct psti_loader_gpu_reader {
    uint64_t stream;
    struct psti_event *event; /* recorded on the stream when the batch is released, which is after
                                 the last use of the batch */
};

/* Data of a slot besides its arrays. It has one owner at a time: each worker owns the parts of its
 * row while rows are made, then the thread that closes the batch owns all of it, then the caller's
 * thread. Ownership changes under the loader's lock, so no lock is needed here. `readers_pending`
 * and `readers` are used by pst_batch_await and the release, then by the next submit. */
struct psti_loader_gpu_slot {
    struct psti_gpu_block *block; /* the batch's block for the GPU; NULL: the batch has no pixels */
    void *pinned;                 /* pinned memory: the block's upload, then the numbers (values
                                     of other fields) */
    size_t pinned_nbytes;
    uint64_t memory; /* GPU address of the arrays and the block's upload */
    uint64_t memory_nbytes;
    size_t numbers_nbytes;
    struct psti_event *uploading;    /* recorded on the stream before the block's upload */
    struct psti_event *uploaded;     /* recorded on the stream after the block's upload */
    struct psti_event *begun;        /* recorded before the launches, when the upload is complete */
    struct psti_event *done;         /* recorded on the stream after all work of the batch */
    bool has_launches;               /* true if `begun`, `uploading` and `uploaded` were recorded
                                        for this batch */
    bool submitted;                  /* true if the GPU may still work for this slot, because no
                                        thread has waited for the end yet */
    uint32_t n_rows_max, n_gpu_rows; /* rows below n_gpu_rows are made by the GPU */
    uint8_t *again; /* [n_rows_max] enum psti_loader_gpu_again; each row's worker writes its own */
    uint8_t *todo;  /* [n_rows_max] enum psti_loader_gpu_again of rows that later rounds must
                       make */
    uint32_t *places;                       /* [n_rows_max] index in the batch's arrays where each
                                               row goes, or PSTI_GPU_NOWHERE */
    struct psti_loader_gpu_reader *readers; /* [reader_cap] */
    uint32_t n_readers, reader_cap;
    bool readers_pending; /* the readers' events were recorded, and the loader's stream does not
                             wait for them yet */
    /* Rows that may differ in shape (loader_gpu_carry.c): */
    struct psti_loader_gpu_arena rows; /* their memory on the GPU */
    bool lacks_rows;            /* there was no memory on the GPU for more rows */
    const void *packed; /* the batch's block of rows, in pinned memory of the pool */
    size_t packed_nbytes;
    bool is_packed;  /* the block has the rows of this batch */
    bool is_carried; /* the upload of this batch's block was submitted */
    struct psti_loader_gpu_loose loose; /* rows of pixels that differ in size */
};

/* Shared memory of the host service from which rows are uploaded (loader_gpu_bring.c). */
struct psti_loader_gpu_home {
    const void *memory;
    bool locked; /* page-locked; false: the driver refused, so rows are copied to `bounce` */
};
struct psti_loader_gpu_homes {
    struct psti_loader_gpu_home *homes; /* [cap] */
    uint32_t n, cap;
    void *bounce; /* pinned buffer, used for one batch at a time */
    size_t bounce_nbytes;
};

/* Most parts: a field with pixels is a part of a batch's work on the GPU, and so is each view of a
 * field with views. */
enum { PSTI_LOADER_GPU_PARTS_MAX = PST_MAX_FIELDS + PST_MAX_VIEWS };

struct psti_loader_gpu {
    struct psti_device *device;
    struct psti_loader_gpu_homes homes; /* mappings of the host service; used by the caller's
                                           thread only */
    int32_t ordinal;
    double part; /* share of a batch's rows that the GPU makes, 0 to 1 */
    uint32_t batch_size;
    pthread_mutex_t *lock;      /* the pool's */
    struct psti_stream *stream; /* used by one thread at a time, which must hold stream_lock */
    pthread_mutex_t
        stream_lock; /* also guards `uploads`, and `readers_pending` of submitted slots */
    /* Stream for uploads of blocks. It is separate, so that the copy engine uploads the next batch
     * while this one is decoded. NULL: there are no pixels. */
    struct psti_stream *uploads;
    /* Total time of finished uploads and launches, by the GPU's clock. The caller's thread adds to
     * it. */
    _Atomic uint64_t upload_ns, work_ns;
    uint64_t constants, scratch;
    uint64_t constants_nbytes, scratch_nbytes;
    uint32_t n_fields; /* number of parts; a part is a field, or one of its views, and a field of a
                          slot's block */
    struct psti_gpu_field *fields[PSTI_LOADER_GPU_PARTS_MAX];
    /* expected size of each part's items */
    struct psti_gpu_item_size items[PSTI_LOADER_GPU_PARTS_MAX];
    bool decodes[PSTI_LOADER_GPU_PARTS_MAX]; /* the GPU decodes items of the part */
    /* whether the cache re-codes this part's items; until they are, the CPU may have to make all
       rows of the part */
    bool recodes[PSTI_LOADER_GPU_PARTS_MAX];
    uint32_t plan_fields[PSTI_LOADER_GPU_PARTS_MAX];   /* for each part: its field in the plan */
    uint32_t views[PSTI_LOADER_GPU_PARTS_MAX];         /* and its number among the field's views */
    bool is_loose[PSTI_LOADER_GPU_PARTS_MAX];          /* the part's rows differ in size, */
    bool pads[PSTI_LOADER_GPU_PARTS_MAX];              /* and are padded */
    unsigned char fills[PSTI_LOADER_GPU_PARTS_MAX][8]; /* with this element */
    uint32_t n_loose;                                  /* number of parts with is_loose */
    uint32_t loose_parts[PSTI_LOADER_GPU_PARTS_MAX];   /* [n_loose] these parts */
    uint32_t loose_numbers[PSTI_LOADER_GPU_PARTS_MAX]; /* for such a part: its index there */
    _Atomic uint64_t loose_nbytes;           /* most bytes of such rows in a batch so far */
    uint32_t fields_of_plan[PST_MAX_FIELDS]; /* for each field of the plan with pixels: the
                                                number of its first part */
    /* chains of fields with pixels, taken from the plan when the loader closes */
    struct psti_chain *chains[PST_MAX_FIELDS];
    /* The pool's lock guards these members: */
    uint32_t n_slots, refused_at; /* refused_at: value of n_slots when no memory for another slot
                                     was left */
    enum pst_status refusal;      /* why a slot was refused since the last claim began; PST_OK: no
                                     slot was refused */
    struct pst_error slot_err;
    /* PST_ERROR_LIMIT: the last batch of rows that differ in size found no memory; loose_err says
     * why. */
    enum pst_status loose_refusal;
    struct pst_error loose_err;
};

static inline struct psti_loader_gpu *psti_loader_gpu_of(const pst_loader *loader)
{
    return loader->placement.own;
}

/* A worker's data for the GPU: worker->placement. */
struct psti_loader_gpu_worker {
    /* Only psti_loader_gpu_finish sets it, while it makes a row again: */
    bool host_only; /* the row is not decoded on the GPU */
    bool is_first;  /* the block is empty: a row that finds no space in it never will */
};

/* Files are listed in calling order: a file calls only functions of files listed above it. */

/* loader_gpu_size.c */
/* Sets the expected item size of a field: the mean of some items that the GPU decodes. */
void psti_loader_gpu_expect_items(struct psti_loader_gpu *gpu, const pst_loader *loader,
                                  uint32_t i_field);
/* Computes the size of a typical finished row of a field whose rows differ in size. */
void psti_loader_gpu_expect_size(const pst_loader *loader, uint32_t i_plan, uint32_t size[2]);
/* Computes the pinned memory and the GPU memory of a slot's block for n_rows rows. */
void psti_loader_gpu_block_size(const struct psti_loader_gpu *gpu, uint32_t n_rows,
                                struct psti_gpu_block_size *size);

/* loader_gpu_slot.c */
/* Fills in the functions that the pool calls for slots on a GPU, except those for rows. close:
 * frees the GPU (`ctx`) after the last slot. */
void psti_loader_gpu_hooks(struct psti_loader_gpu *gpu, void (*close)(void *ctx),
                           struct psti_slot_gpu *hooks);
static inline struct psti_loader_gpu_slot *psti_loader_gpu_slot_of(const pst_batch *batch)
{
    union { /* removes const without a cast; the pool owns the part, and nothing in it is changed */
        const pst_batch *constant;
        pst_batch *plain;
    } at = {batch};
    return psti_batch_part(at.plain)->own;
}
/* Makes the loader's stream wait for the caller's streams that read the slot's previous contents.
 * The stream's lock must be held. */
enum pst_status psti_loader_gpu_await_readers(struct psti_loader_gpu *gpu,
                                              struct psti_loader_gpu_slot *slot,
                                              struct pst_error *err);

/* loader_gpu_carry.c */
/* Puts the rows of a finished batch into a block, for which the GPU has memory. The thread that has
 * the batch calls it. */
enum pst_status psti_loader_gpu_pack_rows(pst_batch *batch, struct pst_error *err);
/* Submits the upload of packed rows on the loader's stream, which waits for the readers already.
 * The stream's lock must be held. */
enum pst_status psti_loader_gpu_submit_rows(struct psti_loader_gpu *gpu,
                                            struct psti_loader_gpu_slot *slot,
                                            struct pst_error *err);
/* Implement the functions `make_rows` and `unmake_rows` of struct psti_slot_gpu. */
enum pst_status psti_loader_gpu_make_rows(void *ctx, struct psti_slot_part *part, size_t nbytes,
                                          void **rows, struct pst_error *err);
void psti_loader_gpu_unmake_rows(void *ctx, struct psti_slot_part *part, void *rows, size_t nbytes);

/* loader_gpu_row.c */
enum pst_status psti_loader_gpu_open_worker(struct psti_loader_worker *worker,
                                            struct pst_error *err);
void psti_loader_gpu_close_worker(struct psti_loader_worker *worker);
/* Implement the operations `place` and `done` of struct psti_placement_ops. */
enum pst_status psti_loader_gpu_place(struct psti_loader_worker *worker,
                                      const struct psti_image *image, struct psti_place *place,
                                      struct pst_error *err);
void psti_loader_gpu_done(struct psti_loader_worker *worker, const struct psti_image *image);
/* Counts a row that the CPU must make, and notes why. */
void psti_loader_gpu_count_fallback(struct psti_loader_worker *worker, const char *why);
/* Gives the memory in the block for a finished row; `draw` is NULL for a row of sound. PST_OK with
 * *data NULL: there is no space, and the row will be made again. */
enum pst_status psti_loader_gpu_find_row(struct psti_loader_worker *worker, pst_batch *batch,
                                         uint32_t i_part, uint32_t row,
                                         const struct psti_draw *draw, void **data,
                                         struct pst_error *err);

/* loader_gpu_sound.c */
/* Opens the part for a field of sound whose features the GPU makes. */
enum pst_status psti_loader_gpu_open_sound(struct psti_loader_gpu *gpu, const pst_loader *loader,
                                           uint32_t i_plan, struct pst_error *err);
/* Implement the operations `place_sound` and `done_sound` of struct psti_placement_ops. */
enum pst_status psti_loader_gpu_place_sound(struct psti_loader_worker *worker, pst_batch *batch,
                                            uint32_t i_plan, uint32_t row,
                                            const struct psti_sound_draw *draw,
                                            struct psti_place *place, struct pst_error *err);
void psti_loader_gpu_done_sound(struct psti_loader_worker *worker, pst_batch *batch,
                                uint32_t i_plan, uint32_t row);

/* loader_gpu_work.c: implements the operations of struct psti_placement_ops with these names. */
void psti_loader_gpu_begin(pst_loader *loader, pst_batch *batch, uint64_t first, uint32_t n_rows);
enum pst_status psti_loader_gpu_submit(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                       const uint8_t *bad, bool failed, bool *whole,
                                       struct pst_error *err);
enum pst_status psti_loader_gpu_wait(pst_loader *loader, pst_batch *batch, int64_t deadline,
                                     struct pst_error *err);
enum pst_status psti_loader_gpu_finish(pst_loader *loader, struct psti_remake *remake,
                                       struct pst_error *err);
enum pst_status psti_loader_gpu_carry(pst_loader *loader, pst_batch *batch, struct pst_error *err);
void psti_loader_gpu_quiesce(pst_loader *loader, pst_batch *batch);

/* Submits the upload of rows that were prepared elsewhere, and of the numbers. The caller's
 * thread. */
enum pst_status psti_loader_gpu_submit_parts(struct psti_loader_gpu *gpu, pst_batch *batch,
                                             const struct psti_brought *parts, uint32_t n_parts,
                                             struct pst_error *err);

/* loader_gpu_bring.c: implements the operations of struct psti_placement_ops with these names. */
enum pst_status psti_loader_gpu_bring(pst_loader *loader, pst_batch *batch,
                                      const struct psti_brought *parts, uint32_t n_parts,
                                      bool *copied, struct pst_error *err);
bool psti_loader_gpu_brings(const pst_loader *loader, uint32_t i_plan);
void psti_loader_gpu_forget(pst_loader *loader, const void *memory, size_t nbytes);
/* Frees the list of mappings and the bounce buffer. */
void psti_loader_gpu_close_homes(struct psti_loader_gpu *gpu);

/* loader_gpu.c */
/* Opens the GPU placement. psti_loader_placement_open calls it for a loader with a device. */
enum pst_status psti_loader_gpu_open(pst_loader *loader, struct pst_error *err);

#endif
