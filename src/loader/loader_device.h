/* loader_device.h - batches on a card: what the loader's files share of it.
 *
 * Workers put rows into the block of their batch's slot (loader_device_row.c): stored bytes that
 * the card is to decode, pixels for it to prepare, or finished rows. Whoever finishes a batch's
 * last row submits its work on the loader's streams (loader_device_work.c); the caller's
 * thread waits for it when the batch's turn comes, makes rows again that the card found corrupt or
 * that found no room, and closes up what was left out. Slots, and the streams that read them:
 * loader_device_slot.c.
 *
 * The card lives as long as the pool: the last batch may be released after the loader was closed.
 */
#ifndef PST_LOADER_LOADER_DEVICE_H
#define PST_LOADER_LOADER_DEVICE_H

#include "cuda/cuda.h"
#include "device/device.h"
#include "loader/loader_int.h"

/* Why a row is to be made again in another round. */
enum psti_card_again {
    PSTI_CARD_AGAIN_NO = 0,
    PSTI_CARD_AGAIN_ROOM = 1,  /* the block was full */
    PSTI_CARD_AGAIN_FAILED = 2 /* the card found its bytes corrupt: by the CPU, which names why */
};

/* A stream of the caller's that reads the batch, or did. */
struct psti_card_reader {
    uint64_t stream;
    struct psti_event *event; /* behind its last use of the batch, once the batch was released */
};

/* What a slot has beside its arrays. */
struct psti_card_slot {
    struct psti_cuda_block *block; /* NULL: no pixels */
    void *pinned;                  /* the block's upload, then the numbers */
    size_t pinned_nbytes;
    uint64_t memory; /* on the card: the arrays, then the block's upload */
    uint64_t memory_nbytes;
    size_t numbers_nbytes;
    struct psti_event *uploaded;      /* behind the block's upload */
    struct psti_event *done;          /* behind the work of the batch */
    bool submitted;                   /* there may be work that nobody has waited for */
    uint32_t n_rows_max, n_card_rows; /* rows below that number are the card's */
    uint8_t *again;   /* [n_rows_max] enum psti_card_again; each row's worker writes its own */
    uint8_t *todo;    /* [n_rows_max] the same, of rounds that follow */
    uint32_t *places; /* [n_rows_max] */
    struct psti_card_reader *readers; /* [reader_cap] */
    uint32_t n_readers, reader_cap;
    bool left; /* readers' events have been recorded, and not been waited for */
};

struct psti_card {
    struct psti_device *device;
    int32_t ordinal;
    double share;                /* of a batch's rows that go to the card */
    struct psti_stream *stream;  /* taken by one thread at a time: */
    pthread_mutex_t stream_lock; /* also guards `uploads`, and `left` of slots that are submitted */
    /* Blocks travel on a stream of their own, so that the copy engine brings the next batch while
     * this one is decoded. NULL: no pixels. */
    struct psti_stream *uploads;
    uint64_t constants, scratch;
    uint64_t constants_nbytes, scratch_nbytes;
    uint32_t n_fields; /* of pixels */
    struct psti_cuda_field *fields[PST_MAX_FIELDS];
    struct psti_cuda_item_size items[PST_MAX_FIELDS]; /* what to expect of each */
    bool card_decodes[PST_MAX_FIELDS];                /* items of that form */
    uint32_t plan_fields[PST_MAX_FIELDS];             /* their numbers in the plan */
    uint32_t fields_of_plan[PST_MAX_FIELDS];          /* and the other way round */
    struct psti_chain *chains[PST_MAX_FIELDS];        /* the plan's, once the loader is gone */
    /* The pool's lock guards these: */
    uint32_t n_slots, refused_at; /* so many there were when there was no memory for another */
    enum pst_status refusal;      /* why; PST_OK: nothing was refused since it was last looked at */
    struct pst_error slot_err;
};

/* loader_device.c */
void psti_card_close(struct psti_card **card);
/* Pinned memory and memory on the card that a slot's block of so many rows gets. */
void psti_card_block_size(const struct psti_card *card, uint32_t n_rows,
                          struct psti_cuda_block_size *size);

/* loader_device_slot.c */
/* What the pool wants of a card. */
void psti_card_hooks(struct psti_card *card, struct psti_slot_card *hooks);
struct psti_card_slot *psti_card_slot_of(const pst_batch *batch);
/* The streams that read what the slot held before are waited for by the loader's. The stream's lock
 * is held. */
enum pst_status psti_card_await_readers(struct psti_card *card, struct psti_card_slot *slot,
                                        struct pst_error *err);

#endif
