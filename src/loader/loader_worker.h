/* loader_worker.h - a worker: the tools with which one thread fills rows.
 *
 * A worker belongs to one thread, so its members need no lock. Only psti_loader_worker_merge
 * changes data that other threads see. */
#ifndef PST_LOADER_LOADER_WORKER_H
#define PST_LOADER_LOADER_WORKER_H

#include "augment/augment.h"
#include "decode/decode.h"
#include "format/format_geometry.h"
#include "loader/loader_source.h"
#include "loader/placement/loader_placement.h"
#include "sound/sound.h"
#include "stall/stall_meter.h"

#include <pthread.h>

#define PSTI_LOADER_GRANT_MIN_NBYTES                                                               \
    ((uint64_t)512 << 10) /* first scratch of a decoder, and of a chain's run */
/* Bytes of a decoder's objects, including libdeflate's decompressor (11 KiB). */
#define PSTI_LOADER_DECODER_NBYTES ((uint64_t)24 << 10)

/* Tools and counters of one thread that fills rows. */
struct psti_loader_worker {
    pst_loader *loader;
    pthread_t thread;
    struct psti_decoder *decoder;
    struct psti_run *run;
    struct psti_draw *draws;      /* [plan.n_fields] */
    struct psti_draw *view_draws; /* [plan.n_views] */
    void *picture;                /* decoded image from which its views are made */
    size_t picture_nbytes;
    struct psti_picture_size leader; /* size of the row's leading image, known after its header
                                        was read */
    /* With plan.i_crop_boxes: the row's boxes. They are aligned with the leading image after its
     * header was read. */
    struct psti_draw_boxes boxes;
    float *boxes_memory;            /* memory that holds boxes.boxes and boxes.scratch */
    size_t boxes_nbytes;            /* bytes charged for boxes_memory */
    struct psti_loader_items items; /* items of rows whose bytes this thread reads itself */
    /* [plan.n_items], with loader->kept.training: the pixels that the row was made from, until the
     * cache keeps them; empty: none. All together take at most loader->kept.recode_nbytes. */
    struct psti_buffer *pictures;
    void *buffer; /* buffer into which this thread reads items itself */
    uint64_t buffer_nbytes;
    uint64_t grant; /* bytes of scratch allowed to the decoder, and as many to the run */
    uint64_t extra; /* additional scratch that makes the decoder faster */
    uint64_t seen_grant,
        seen_wanted;  /* the loader's grant_max and wanted_max when this worker last looked */
    bool has_reserve; /* the worker holds loader->crew.reserve_lock and uses the reserve */
    bool grown;       /* decoder and run have scratch from the reserve */
    bool emptied;     /* the worker's scratch was empty when this image began */
    uint64_t reserve_nbytes; /* bytes charged from the reserve */
    void *reserve_buffer;
    bool owes;                     /* num_workers 0: after the row the thread waits as long as the
                                      throttle demands */
    bool holds_row;                /* true if a row is made, but the throttle delays it until
                                      hold_until_ns */
    int64_t owed_ns;               /* throttle's waiting time for the row being made */
    int64_t hold_until_ns;         /* time at which the throttle lets the held row go */
    bool starved;                  /* the last row failed because the memory of slots is used up */
    bool later_waits;              /* no item could be re-coded now; the next rows come first */
    bool lacks_scratch;            /* the last row failed because its decoder got no more memory */
    struct psti_codings *codings;  /* decompressors; NULL: not needed yet, or plan.has_coded is
                                      false */
    struct psti_sound_run *sound;  /* state of the sound operations, created at the first sound */
    size_t sound_nbytes;           /* bytes charged for `sound` */
    size_t codes_nbytes;           /* bytes charged for the decoder's codes of JPEGs */
    struct psti_decode_stats seen; /* decoder's counts that were already added to the loader's
                                      counters */
    void *placement;               /* data of the loader's placement for this worker */
    /* Counts since the last merge: */
    struct psti_placed placed;
    uint64_t n_cpu, nbytes_decoded, n_region_fallback, decode_ns;
    uint64_t n_units, n_units_whole, n_partial, n_scaled, n_libpng, n_libjpeg;
    uint64_t n_boxes_dropped, n_unchecked;
    uint64_t read_here_ns;          /* part of decode_ns in which this thread read bytes itself */
    struct psti_meter_thread meter; /* clocks of this worker, which any thread may read; closing
                                       keeps them */
    bool has_clocks;
    struct pst_error err;
};

/* Returns the bytes of host_memory that a worker needs at its start. */
uint64_t psti_loader_worker_nbytes(const pst_loader *loader);
enum pst_status psti_loader_worker_open(struct psti_loader_worker *worker, pst_loader *loader,
                                        struct pst_error *err);
/* Closes the worker. It may be opened again, and its clocks then continue. */
void psti_loader_worker_close(struct psti_loader_worker *worker);
/* Opens the worker's decoder and run again, if they were closed to give scratch back to the
 * reserve. */
enum pst_status psti_loader_worker_ready(struct psti_loader_worker *worker, struct pst_error *err);
/* Number of the worker in a trace: 0 is the calling thread. */
uint32_t psti_loader_worker_tid(const struct psti_loader_worker *worker);
/* Gets more scratch if possible. True: the row is worth another try. */
bool psti_loader_worker_grow(struct psti_loader_worker *worker);
/* Call it after an image. Charges scratch, and memory for the codes of JPEGs, that would have
 * decoded the image faster, for the next image. */
void psti_loader_worker_grow_extra(struct psti_loader_worker *worker);
/* True if other workers found that images need more scratch. Then this worker shall call
 * psti_loader_worker_catch_up before it meets such an image. */
bool psti_loader_worker_lags(const struct psti_loader_worker *worker);
void psti_loader_worker_catch_up(struct psti_loader_worker *worker);
/* After a row: gives back all memory from the reserve, and the reserve's lock. */
void psti_loader_worker_settle(struct psti_loader_worker *worker);
void psti_loader_worker_count(struct psti_loader_worker *worker, int64_t start_ns);
/* Counts the time of a read by this thread that began at start_ns. within_row: the caller also
 * counts the whole row by psti_loader_worker_count. */
void psti_loader_worker_read_here(struct psti_loader_worker *worker, int64_t start_ns,
                                  bool within_row);
/* Notes in the worker's meter that it begins a row of that sample. False: this was noted
 * already. */
bool psti_loader_worker_begin_row(struct psti_loader_worker *worker, const pst_batch *batch,
                                  uint64_t sample);
/* Performs one read in this thread. */
enum pst_status psti_loader_worker_run_read(struct psti_loader_worker *worker,
                                            struct psti_read *read);
/* Frees the pictures that were kept for the cache. */
void psti_loader_worker_forget(struct psti_loader_worker *worker);
/* Adds the worker's counts to the loader's and clears them. The lock must be held. */
void psti_loader_worker_merge(struct psti_loader_worker *worker);

#endif
