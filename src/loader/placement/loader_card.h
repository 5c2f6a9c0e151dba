/* loader_card.h - batches on a card: what the files of this placement share.
 *
 * Workers put rows into the block of their batch's slot (loader_card_row.c): stored bytes that
 * the card is to decode, pixels for it to prepare, or finished rows. Whoever finishes a batch's
 * last row submits its work on the loader's streams (loader_card_work.c); the caller's
 * thread waits for it when the batch's turn comes, makes rows again that the card found corrupt or
 * that found no room, and closes up what was left out. Slots, and the streams that read them:
 * loader_card_slot.c.
 *
 * The card lives as long as the pool: the last batch may be released after the loader was closed.
 */
#ifndef PST_LOADER_LOADER_CARD_H
#define PST_LOADER_LOADER_CARD_H

#include "device/device.h"
#include "device/device_nvjpeg.h"
#include "gpu/gpu.h"
#include "loader/loader_handle.h"
#include "loader/loader_row.h"
#include "loader/loader_worker.h"
#include "loader/placement/loader_placement.h"

/* Why a row is to be made again in another round. */
enum psti_loader_card_again {
    PSTI_CARD_AGAIN_NO = 0,
    PSTI_CARD_AGAIN_ROOM = 1,  /* the block was full */
    PSTI_CARD_AGAIN_FAILED = 2 /* the card found its bytes corrupt: by the CPU, which names why */
};

/* A stream of the caller's that reads the batch, or did. */
struct psti_loader_card_reader {
    uint64_t stream;
    struct psti_event *event; /* behind its last use of the batch, once the batch was released */
};

/* A file that the card's JPEG engines are to decode. */
struct psti_loader_card_file {
    struct psti_nvjpeg_item item; /* bytes NULL: there is none */
    uint8_t channels;
};

/* What a slot has beside its arrays. It belongs to who has the batch: while rows are made each
 * worker has the parts of its row, then the thread that closes the batch has all of it, then the
 * caller's. The loader's lock lies between one and the next, so none is taken here. `left` and
 * `readers` are of the caller's side: pst_batch_await and the release, then the next submit. */
struct psti_loader_card_slot {
    struct psti_gpu_block *block; /* NULL: no pixels */
    void *pinned;                 /* the block's upload, then the numbers */
    size_t pinned_nbytes;
    uint64_t memory; /* on the card: the arrays, pictures that nvJPEG makes, the block's upload */
    uint64_t memory_nbytes;
    size_t numbers_nbytes;
    struct psti_event *uploaded;      /* behind the block's upload */
    struct psti_event *done;          /* behind the work of the batch */
    bool submitted;                   /* there may be work that nobody has waited for */
    uint32_t n_rows_max, n_card_rows; /* rows below that number are the card's */
    uint8_t *again; /* [n_rows_max] enum psti_loader_card_again; each row's worker writes its own */
    uint8_t *todo;  /* [n_rows_max] the same, of rounds that follow */
    uint32_t *places; /* [n_rows_max] */
    /* NULL without nvJPEG: */
    struct psti_event *decoded; /* behind the last file that a lane gave to the stream */
    /* NULL if the card has no engines: */
    struct psti_nvjpeg_batch *engines[2]; /* of gray files, of others */
    struct psti_loader_card_file
        *files;                     /* [fields][n_rows_max]; each row's worker writes its own */
    struct psti_nvjpeg_item *items; /* [fields * n_rows_max], of a submit */
    uint32_t *rows_of_items;
    struct psti_loader_card_reader *readers; /* [reader_cap] */
    uint32_t n_readers, reader_cap;
    bool left; /* readers' events have been recorded, and not been waited for */
};

struct psti_loader_card {
    struct psti_device *device;
    int32_t ordinal;
    double share;                /* of a batch's rows that go to the card */
    struct psti_stream *stream;  /* taken by one thread at a time: */
    pthread_mutex_t stream_lock; /* also guards `uploads`, and `left` of slots that are submitted */
    /* Blocks travel on a stream of their own, so that the copy engine brings the next batch while
     * this one is decoded. NULL: no pixels. */
    struct psti_stream *uploads;
    struct psti_nvjpeg *nvjpeg; /* NULL: JPEG files are the CPU's */
    uint64_t constants, scratch;
    uint64_t constants_nbytes, scratch_nbytes;
    uint32_t n_fields; /* of pixels */
    struct psti_gpu_field *fields[PST_MAX_FIELDS];
    struct psti_gpu_item_size items[PST_MAX_FIELDS]; /* what to expect of each */
    bool card_decodes[PST_MAX_FIELDS];               /* items of that form */
    uint64_t pictures_nbytes[PST_MAX_FIELDS];        /* of a row, that nvJPEG makes */
    uint64_t pictures_nbytes_least;                  /* of a slot: the largest that was seen */
    uint32_t plan_fields[PST_MAX_FIELDS];            /* their numbers in the plan */
    uint32_t fields_of_plan[PST_MAX_FIELDS];         /* and the other way round */
    struct psti_chain *chains[PST_MAX_FIELDS];       /* the plan's, once the loader is gone */
    /* The pool's lock guards these: */
    uint32_t n_slots, refused_at; /* so many there were when there was no memory for another */
    enum pst_status refusal;      /* why; PST_OK: nothing was refused since it was last looked at */
    struct pst_error slot_err;
};

static inline struct psti_loader_card *psti_loader_card_of(const pst_loader *loader)
{
    return loader->placement.own;
}

/* What a worker has for it: worker->placement. */
enum { PSTI_CARD_LANES = 2 }; /* one file is in the stream while the next one's codes are read */
struct psti_loader_card_worker {
    struct psti_nvjpeg_lane *lanes[PSTI_CARD_LANES]; /* NULL: no nvJPEG */
    uint32_t next_lane;
    /* Set by psti_loader_card_finish alone, for a row that it has made again: */
    bool host_only; /* the row is not decoded on the card */
    bool alone;     /* the row is the first of the slot's block */
};

/* loader_card.c */
/* psti_loader_placement_open of a loader with a device. */
enum pst_status psti_loader_card_open(pst_loader *loader, struct pst_error *err);
void psti_loader_card_close(struct psti_loader_card **card);
/* Pinned memory and memory on the card that a slot's block of so many rows gets. */
void psti_loader_card_block_size(const struct psti_loader_card *card, uint32_t n_rows,
                                 struct psti_gpu_block_size *size);

/* Memory on the card for pictures that nvJPEG makes of so many rows. */
uint64_t psti_loader_card_pictures_nbytes(const struct psti_loader_card *card, uint32_t n_rows);

/* loader_card_row.c */
enum pst_status psti_loader_card_open_worker(struct psti_loader_worker *worker,
                                             struct pst_error *err);
void psti_loader_card_close_worker(struct psti_loader_worker *worker);
/* The table's `place` and `done`. */
enum pst_status psti_loader_card_place(struct psti_loader_worker *worker,
                                       const struct psti_image *image, struct psti_place *place,
                                       struct pst_error *err);
void psti_loader_card_done(struct psti_loader_worker *worker, const struct psti_image *image);
/* Counts a row that is left to the CPU, and why. */
void psti_loader_card_say_fallback(struct psti_loader_worker *worker, const char *why);
/* The row will be made again, in another round. */
void psti_loader_card_make_again(struct psti_loader_worker *worker,
                                 struct psti_loader_card_slot *slot, uint32_t row);
/* Its bytes have been compared with the item's checksum. */
bool psti_loader_card_is_verified(const pst_loader *loader,
                                  const struct psti_loader_source *source);

/* loader_card_work.c: the table's operations of these names. */
void psti_loader_card_begin(pst_loader *loader, pst_batch *batch, uint32_t n_rows);
enum pst_status psti_loader_card_submit(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                        const uint8_t *bad, bool failed, bool *whole,
                                        struct pst_error *err);
enum pst_status psti_loader_card_wait(pst_loader *loader, pst_batch *batch, int64_t deadline,
                                      struct pst_error *err);
enum pst_status psti_loader_card_finish(pst_loader *loader, struct psti_remake *remake,
                                        struct pst_error *err);
void psti_loader_card_quiesce(pst_loader *loader, pst_batch *batch);

/* loader_card_nvjpeg.c */
/* Lanes for a worker, if the card has nvJPEG. */
enum pst_status psti_loader_card_open_lanes(const struct psti_loader_card *card,
                                            struct psti_loader_card_worker *own,
                                            struct pst_error *err);
void psti_loader_card_close_lanes(struct psti_loader_card_worker *own);
/* nvJPEG, for the card of a loader that wants it. */
enum pst_status psti_loader_card_nvjpeg_open(pst_loader *loader, struct psti_loader_card *card,
                                             struct pst_error *err);
enum pst_status psti_loader_card_slot_open_jpeg(struct psti_loader_card *card,
                                                struct psti_loader_card_slot *slot,
                                                struct pst_error *err);
void psti_loader_card_slot_close_jpeg(
    struct psti_loader_card_slot *slot); /* waits for files under way */
/* Bytes of the host that the above takes. */
uint64_t psti_loader_card_slot_jpeg_nbytes(const struct psti_loader_card *card, uint32_t n_rows);
/* All files for engines are forgotten; `row`'s is (UINT32_MAX: all). */
void psti_loader_card_forget_files(const struct psti_loader_card *card,
                                   struct psti_loader_card_slot *slot, uint32_t i_field,
                                   uint32_t row);
/* A file of form JPEG. *taken: the card makes its row, or it will be made again. Else: make it
 * here. */
enum pst_status psti_loader_card_takes_jpeg(struct psti_loader_worker *worker,
                                            const struct psti_image *image, bool *taken,
                                            struct pst_error *err);
/* Gives the engines the files of rows that have a place; rows that these do not take lose it, and
 * are made again by the CPU. The stream's lock is held. */
enum pst_status psti_loader_card_submit_files(struct psti_loader_card *card,
                                              struct psti_loader_card_slot *slot, uint32_t *places,
                                              struct pst_error *err);

/* loader_card_slot.c */
/* What the pool wants of a card. */
void psti_loader_card_hooks(struct psti_loader_card *card, struct psti_slot_card *hooks);
struct psti_loader_card_slot *psti_loader_card_slot_of(const pst_batch *batch);
/* The streams that read what the slot held before are waited for by the loader's. The stream's lock
 * is held. */
enum pst_status psti_loader_card_await_readers(struct psti_loader_card *card,
                                               struct psti_loader_card_slot *slot,
                                               struct pst_error *err);

#endif
