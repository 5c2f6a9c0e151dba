/* loader_worker.h - a worker: the tools with which one thread fills rows.
 *
 * It belongs to that thread, and its members need no lock. Only psti_loader_worker_merge touches
 * data that other threads see. */
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
    ((uint64_t)512 << 10) /* first scratch of a decoder, and of a run */
/* A decoder's objects, among them libdeflate's decompressor (11 KiB). */
#define PSTI_LOADER_DECODER_NBYTES ((uint64_t)24 << 10)

/* Tools and counters of one thread that fills rows. */
struct psti_loader_worker {
    pst_loader *loader;
    pthread_t thread;
    struct psti_decoder *decoder;
    struct psti_run *run;
    struct psti_draw *draws;      /* [plan.n_fields] */
    struct psti_draw *view_draws; /* [plan.n_views] */
    void *picture;                /* pixels of which the views of an image are made */
    size_t picture_nbytes;
    struct psti_picture_size leader; /* size of the row's leading image, once it was probed */
    /* With plan.i_crop_boxes: the row's boxes. They fit the leading image once it was probed. */
    struct psti_draw_boxes boxes;
    float *boxes_memory;            /* of boxes.boxes and boxes.scratch */
    size_t boxes_nbytes;            /* charged for it */
    struct psti_loader_items items; /* for rows that this thread reads itself */
    /* [plan.n_items], with loader->kept.training: pixels of which the row was made, until it is
     * kept; empty: none. All together take at most loader->kept.recode_nbytes. */
    struct psti_buffer *pictures;
    void *buffer; /* for reads by this thread itself */
    uint64_t buffer_nbytes;
    uint64_t grant; /* scratch allowed to the decoder, and to the run */
    uint64_t extra; /* additional scratch that makes the decoder faster */
    uint64_t seen_grant,
        seen_wanted;  /* the loader's grant_max and wanted_max when this worker last looked */
    bool has_reserve; /* holds loader->crew.reserve_lock and uses the reserve */
    bool grown;       /* decoder and run have scratch from the reserve */
    bool emptied;     /* the worker's scratch was empty when this image began */
    uint64_t reserve_nbytes; /* bytes charged from the reserve */
    void *reserve_buffer;
    bool owes;             /* num_workers 0: the throttle's time is waited for after the row */
    bool holds_row;        /* a row is made, but not done before hold_until_ns */
    int64_t owed_ns;       /* throttle's time of the row being made */
    int64_t hold_until_ns; /* throttle's end time of the row that is held */
    bool starved;          /* the last row failed because the slots' memory is used up */
    bool later_waits;      /* no item could be re-coded; the next rows must come first */
    bool lacks_scratch;    /* it failed because its decoder got no more memory */
    struct psti_codings *codings;  /* NULL: none was needed yet; plan.has_coded is false */
    struct psti_sound_run *sound;  /* made at the first sound */
    size_t sound_nbytes;           /* charged for it */
    struct psti_decode_stats seen; /* counts already added to the loader's counters */
    void *placement;               /* data of the loader's placement for this worker */
    /* Since the last merge: */
    struct psti_placed placed;
    uint64_t n_cpu, nbytes_decoded, n_region_fallback, decode_ns;
    uint64_t n_units, n_units_whole, n_partial, n_scaled, n_libpng, n_boxes_dropped, n_unchecked;
    uint64_t read_here_ns;          /* part of decode_ns: reads by this thread itself */
    struct psti_meter_thread meter; /* its clocks, which any thread may read; close keeps them */
    bool has_clocks;
    struct pst_error err;
};

/* Bytes of host_memory that a worker begins with. */
uint64_t psti_loader_worker_nbytes(const pst_loader *loader);
enum pst_status psti_loader_worker_open(struct psti_loader_worker *worker, pst_loader *loader,
                                        struct pst_error *err);
/* It may be opened again, and goes on with its clocks. */
void psti_loader_worker_close(struct psti_loader_worker *worker);
/* Opens the worker's decoder and its run again, if it closed them to give scratch back to the
 * reserve. */
enum pst_status psti_loader_worker_ready(struct psti_loader_worker *worker, struct pst_error *err);
/* Number of the worker in a trace: 0 is the calling thread. */
uint32_t psti_loader_worker_tid(const struct psti_loader_worker *worker);
/* Gets larger scratch if possible. True: the row is worth another try. */
bool psti_loader_worker_grow(struct psti_loader_worker *worker);
/* To be called after an image. Reserves the scratch that would have decoded it faster, for the next
 * one. */
void psti_loader_worker_grow_extra(struct psti_loader_worker *worker);
/* True if other workers found that images need more scratch. This worker then takes it before it
 * meets such an image. */
bool psti_loader_worker_lags(const struct psti_loader_worker *worker);
void psti_loader_worker_catch_up(struct psti_loader_worker *worker);
/* Gives back all that came from the reserve, and its lock, after a row. */
void psti_loader_worker_settle(struct psti_loader_worker *worker);
void psti_loader_worker_count(struct psti_loader_worker *worker, int64_t start_ns);
/* Counts a read by this thread itself that began at start_ns. within_row: psti_loader_worker_count
 * will count the whole row. */
void psti_loader_worker_read_here(struct psti_loader_worker *worker, int64_t start_ns,
                                  bool within_row);
/* The worker's meter begins a row of that sample. False: it has begun it already. */
bool psti_loader_worker_begin_row(struct psti_loader_worker *worker, const pst_batch *batch,
                                  uint64_t sample);
/* Does one read in this thread. */
enum pst_status psti_loader_worker_run_read(struct psti_loader_worker *worker,
                                            struct psti_read *read);
/* Frees pictures that were made ahead. */
void psti_loader_worker_forget(struct psti_loader_worker *worker);
/* The lock must be held. */
void psti_loader_worker_merge(struct psti_loader_worker *worker);

#endif
