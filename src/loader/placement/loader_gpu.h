/* loader_gpu.h - batches on a GPU: declarations that the files of this placement share.
 *
 * Workers put rows into the block of their batch's slot (loader_gpu_row.c): stored bytes for the
 * GPU to decode, pixels for it to prepare, or finished rows. The thread that finishes a batch's
 * last row submits its work on the loader's streams (loader_gpu_work.c). The caller's thread waits
 * for it when the batch's turn comes. It makes rows again that were corrupt or found no space, and
 * moves rows up past those left out. Slots, and the streams that read them, are in
 * loader_gpu_slot.c, and the size of their blocks in loader_gpu_size.c. Given rows come from memory
 * of others (loader_gpu_bring.c).
 *
 * The GPU lives as long as the pool: the last batch may be released after the loader was closed. */
#ifndef PST_LOADER_LOADER_GPU_H
#define PST_LOADER_LOADER_GPU_H

#include "device/device.h"
#include "gpu/gpu.h"
#include "loader/loader_handle.h"
#include "loader/rows/loader_row.h"
#include "loader/loader_worker.h"
#include "loader/placement/loader_placement.h"

/* Reasons to make a row again in another round. */
enum psti_loader_gpu_again {
    PSTI_LOADER_GPU_AGAIN_NO = 0,
    PSTI_LOADER_GPU_AGAIN_ROOM = 1, /* the block was full */
    /* The GPU found its bytes corrupt; the CPU makes it and names the error. */
    PSTI_LOADER_GPU_AGAIN_FAILED = 2
};

/* A stream of the caller that reads the batch, or did. */
struct psti_loader_gpu_reader {
    uint64_t stream;
    struct psti_event
        *event; /* recorded after its last use of the batch, when the batch was released */
};

/* Data of a slot besides its arrays. It has one owner at a time: while rows are made each worker
 * has the parts of its row, then the thread that closes the batch has all of it, then the caller's
 * thread. Each hands it over under the loader's lock, so no lock is taken here. `readers_pending`
 * and `readers` are used by pst_batch_await and the release, then by the next submit. */
struct psti_loader_gpu_slot {
    struct psti_gpu_block *block; /* NULL: no pixels */
    void *pinned;                 /* the block's upload, then the numbers */
    size_t pinned_nbytes;
    uint64_t memory; /* on the GPU: the arrays, the block's upload */
    uint64_t memory_nbytes;
    size_t numbers_nbytes;
    struct psti_event *uploading;    /* recorded before the block's upload, */
    struct psti_event *uploaded;     /* and after it */
    struct psti_event *begun;        /* recorded before the launches: the upload is there */
    struct psti_event *done;         /* recorded after the work of the batch */
    bool has_launches;               /* `begun` and the events of the upload are of this work */
    bool submitted;                  /* there may be work that nobody has waited for */
    uint32_t n_rows_max, n_gpu_rows; /* rows below n_gpu_rows are the GPU's */
    uint8_t *again; /* [n_rows_max] enum psti_loader_gpu_again; each row's worker writes its own */
    uint8_t *todo;  /* [n_rows_max] the same, for later rounds */
    uint32_t *places;                       /* [n_rows_max] */
    struct psti_loader_gpu_reader *readers; /* [reader_cap] */
    uint32_t n_readers, reader_cap;
    bool readers_pending; /* the readers' events were recorded and not yet awaited */
};

/* A mapping of the host service from which rows are uploaded (loader_gpu_bring.c). */
struct psti_loader_gpu_home {
    const void *memory;
    bool locked; /* false: the driver refuses, and rows are copied to `bounce` */
};
struct psti_loader_gpu_homes {
    struct psti_loader_gpu_home *homes; /* [cap] */
    uint32_t n, cap;
    void *bounce; /* pinned; for one batch at a time */
    size_t bounce_nbytes;
};

struct psti_loader_gpu {
    struct psti_device *device;
    struct psti_loader_gpu_homes homes; /* used by the caller's thread */
    int32_t ordinal;
    double part;                /* part of a batch's rows that go to the GPU */
    struct psti_stream *stream; /* one thread at a time takes it: */
    pthread_mutex_t
        stream_lock; /* also guards `uploads`, and `readers_pending` of slots that are submitted */
    /* Blocks are uploaded on a stream of their own, so that the copy engine brings the next batch
     * while this one is decoded. NULL: no pixels. */
    struct psti_stream *uploads;
    /* Time of finished uploads and launches, by the GPU's clock. The caller's thread adds. */
    _Atomic uint64_t upload_ns, work_ns;
    uint64_t constants, scratch;
    uint64_t constants_nbytes, scratch_nbytes;
    uint32_t n_fields; /* fields of pixels */
    struct psti_gpu_field *fields[PST_MAX_FIELDS];
    struct psti_gpu_item_size items[PST_MAX_FIELDS]; /* expected items of each field */
    bool decodes[PST_MAX_FIELDS];                    /* the GPU decodes items of the field */
    /* the CPU may have to make all rows of the field, until the cache has its items re-coded */
    bool recodes[PST_MAX_FIELDS];
    uint32_t plan_fields[PST_MAX_FIELDS];      /* a field's number in the plan */
    uint32_t fields_of_plan[PST_MAX_FIELDS];   /* the number of a plan's field here */
    struct psti_chain *chains[PST_MAX_FIELDS]; /* the plan's chains, once the loader is closed */
    /* The pool's lock guards these: */
    uint32_t n_slots, refused_at; /* refused_at: n_slots when there was no memory for another */
    enum pst_status refusal;      /* reason; PST_OK: nothing was refused since the last look */
    struct pst_error slot_err;
};

static inline struct psti_loader_gpu *psti_loader_gpu_of(const pst_loader *loader)
{
    return loader->placement.own;
}

/* A worker's data for the GPU: worker->placement. */
struct psti_loader_gpu_worker {
    /* Only psti_loader_gpu_finish sets it, for a row that it makes again: */
    bool host_only; /* the row is not decoded on the GPU */
};

/* Files are in the order of calls: a file calls functions of those above it. */

/* loader_gpu_size.c */
/* Sets the expected item of a field: the mean of some items that the GPU decodes. */
void psti_loader_gpu_expect_items(struct psti_loader_gpu *gpu, const pst_loader *loader,
                                  uint32_t i_field);
/* Pinned memory and GPU memory of a slot's block for so many rows. */
void psti_loader_gpu_block_size(const struct psti_loader_gpu *gpu, uint32_t n_rows,
                                struct psti_gpu_block_size *size);

/* loader_gpu_slot.c */
/* Fills in the functions that the pool calls for slots on a GPU. close: gives up the GPU, to which
 * `ctx` points, after the last slot. */
void psti_loader_gpu_hooks(struct psti_loader_gpu *gpu, void (*close)(void *ctx),
                           struct psti_slot_gpu *hooks);
struct psti_loader_gpu_slot *psti_loader_gpu_slot_of(const pst_batch *batch);
/* Makes the loader's stream wait for the streams that read the slot's last contents. The stream's
 * lock is held. */
enum pst_status psti_loader_gpu_await_readers(struct psti_loader_gpu *gpu,
                                              struct psti_loader_gpu_slot *slot,
                                              struct pst_error *err);

/* loader_gpu_row.c */
enum pst_status psti_loader_gpu_open_worker(struct psti_loader_worker *worker,
                                            struct pst_error *err);
void psti_loader_gpu_close_worker(struct psti_loader_worker *worker);
/* The operations `place` and `done` of the table. */
enum pst_status psti_loader_gpu_place(struct psti_loader_worker *worker,
                                      const struct psti_image *image, struct psti_place *place,
                                      struct pst_error *err);
void psti_loader_gpu_done(struct psti_loader_worker *worker, const struct psti_image *image);

/* loader_gpu_work.c: the operations of the table with these names. */
void psti_loader_gpu_begin(pst_loader *loader, pst_batch *batch, uint64_t first, uint32_t n_rows);
enum pst_status psti_loader_gpu_submit(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                       const uint8_t *bad, bool failed, bool *whole,
                                       struct pst_error *err);
enum pst_status psti_loader_gpu_wait(pst_loader *loader, pst_batch *batch, int64_t deadline,
                                     struct pst_error *err);
enum pst_status psti_loader_gpu_finish(pst_loader *loader, struct psti_remake *remake,
                                       struct pst_error *err);
void psti_loader_gpu_quiesce(pst_loader *loader, pst_batch *batch);

/* Submits the upload of given rows, and of the numbers. The caller's thread. */
enum pst_status psti_loader_gpu_submit_parts(struct psti_loader_gpu *gpu, pst_batch *batch,
                                             const struct psti_brought *parts, uint32_t n_parts,
                                             struct pst_error *err);

/* loader_gpu_bring.c: implements the operations of struct psti_placement_ops with these names. */
enum pst_status psti_loader_gpu_bring(pst_loader *loader, pst_batch *batch,
                                      const struct psti_brought *parts, uint32_t n_parts,
                                      bool *copied, struct pst_error *err);
bool psti_loader_gpu_brings(const pst_loader *loader, uint32_t i_plan);
void psti_loader_gpu_forget(pst_loader *loader, const void *memory, size_t nbytes);
/* Gives all of it up. */
void psti_loader_gpu_close_homes(struct psti_loader_gpu *gpu);

/* loader_gpu.c */
/* psti_loader_placement_open for a loader with a device. */
enum pst_status psti_loader_gpu_open(pst_loader *loader, struct pst_error *err);

#endif
