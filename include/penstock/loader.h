/* loader.h - batches of samples, in an order that is a pure function of (seed, epoch, data set).
 *
 *     pst_loader_open -> [pst_loader_begin -> pst_loader_next ... until PST_END]* ->
 * pst_loader_close
 *
 * Position p of an epoch holds sample order(seed, epoch, p). With W ranks and B samples per batch,
 * rank r's batch b holds positions (b*B + i)*W + r for i in 0..B-1: step b of all ranks together
 * covers one run of positions, so the order is the same for every W, and a run may go on with
 * another W.
 *
 * Threads: one thread at a time calls open/begin/next/close of a loader; batches may be read and
 * released by any thread, also after the loader was closed. */
#ifndef PENSTOCK_LOADER_H
#define PENSTOCK_LOADER_H

#include <penstock/augment.h>
#include <penstock/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A loader: threads, buffers and an order over one data set. */
typedef struct pst_loader pst_loader;

/* A batch: the arrays of some samples. It belongs to whoever got it until pst_batch_release. */
typedef struct pst_batch pst_batch;

/* In which order an epoch visits the samples. */
enum pst_order {
    PST_ORDER_SEQUENTIAL = 0,
    /* Every permutation step is global: a keyed bijection of 0..n-1. */
    PST_ORDER_SHUFFLED = 1,
    /* page-aware, see page_samples. */
    PST_ORDER_PAGES = 2
};
/* What becomes of a bad sample: its bytes are damaged, cut short or of a kind that no decoder
 * takes, or one file of a folder is missing. Other faults are not the sample's and end the epoch
 * with their own error, whatever on_error says: a device or mount that fails, a folder or shard
 * that is gone, a lacking permission, a memory limit, an operation that cannot be applied. */
enum pst_on_error {
    /* The error comes out of pst_loader_next when the batch's turn comes. */
    PST_ON_ERROR_RAISE = 0,
    /* The batch is shorter by the bad sample; see pst_on_empty. */
    PST_ON_ERROR_SKIP = 1,
    /* Another sample, a pure function of (seed, epoch, position), takes its place. */
    PST_ON_ERROR_REPLACE = 2
};
/* PST_ON_ERROR_SKIP: what becomes of a batch all of whose samples are bad. Either way each rank
 * gets as many batches as pst_loader_n_batches says, whatever samples are bad. */
enum pst_on_empty {
    /* It gets one other sample, drawn as PST_ON_ERROR_REPLACE does for the batch's first
     * position; counted in n_replaced. */
    PST_ON_EMPTY_FILL = 0,
    /* It is delivered with 0 rows. An epoch of a rank that has no good sample at all then ends
     * with the last one's error, not PST_END. */
    PST_ON_EMPTY_DELIVER = 1
};
/* How stored bytes are read. */
enum pst_storage_kind {
    /* io_uring where the kernel allows it, else threads. */
    PST_STORAGE_AUTO = 0,
    /* pread by a pool of threads. */
    PST_STORAGE_THREADS = 1,
    PST_STORAGE_URING = 2, /* io_uring, or an error */
    /* All item files are read into memory at open (counts towards host_memory). */
    PST_STORAGE_MEMORY = 3
};
/* The treatment of the kernel's page cache. */
enum pst_page_cache {
    PST_PAGE_CACHE_KEEP = 0, /* leave it to the kernel */
    /* Tell the kernel to drop what was read (POSIX_FADV_DONTNEED). */
    PST_PAGE_CACHE_DROP = 1,
    /* O_DIRECT; where the file system has none: as DROP, counted as fall-back. */
    PST_PAGE_CACHE_DIRECT = 2
};

/* The memory in which the arrays of a batch lie. */
enum pst_placement {
    PST_PLACEMENT_HOST = 0, /* in host memory */
    /* On the card pst_loader_options.device. Images and masks must have one size. They lie there
     * with all other arrays of fixed shape; fields whose rows may differ stay in host memory. */
    PST_PLACEMENT_CARD = 1
};

/* Where images of a batch on a card are decoded. Wherever that is, the batches are the same (but
 * for PST_JPEG_NVJPEG). */
enum pst_decode_place {
    /* What the card can decode (raw, PLI of pixels and of JPEGs) there, the rest by the CPU. */
    PST_DECODE_AUTO = 0,
    PST_DECODE_CPU = 1,
    /* As AUTO, but never planned otherwise; an error without a device. */
    PST_DECODE_GPU = 2
};

/* Who decodes JPEG files (form jpeg) of a batch on a card; JPEGs kept as PLI need neither. */
enum pst_jpeg_decoder {
    /* libjpeg-turbo, as for batches in host memory: the same pixels. */
    PST_JPEG_CPU = 0,
    /* NVIDIA's nvJPEG, opened at run time, for those of the card's rows that it takes (8 bits, gray
     * or YCbCr, Huffman codes); the card's JPEG engines where it has some and the file is baseline
     * and has a checksum that was compared, else Huffman codes by the workers and the rest by the
     * card. Its pixels differ from the CPU's by few levels (bench/gpu measures how much); they are
     * the same each time for one version of nvJPEG, one kind of card and the same options. Other
     * files, and those that it finds corrupt, are the CPU's. PST_ERROR_UNSUPPORTED at open if it is
     * not there. */
    PST_JPEG_NVJPEG = 1
};

/* Whether batches in host memory lie in page-locked ("pinned") memory, from which a card copies
 * while the CPU goes on. The CUDA driver makes it, for all cards; none is needed to build or link.
 * Page-locked are the arrays of whole batches, not rows of their own (ragged fields). The memory is
 * made with the first batches, kept, and counts in host_memory.
 *
 * A batch may be released while the card still copies from it by work in the legacy default stream
 * (torch's usual one), or in a stream that this one waits for: the memory is written again only
 * after the work that the stream had then. That is the stream of the card whose context is current
 * where the loader is opened, else of card 0. Copies in other streams have to be done before the
 * last release. While the card is behind, more batches are made, within host_memory; where that
 * has no more, pst_loader_next waits for the card. */
enum pst_pin {
    PST_PIN_NEVER = 0,
    /* Where there is a driver and a card, and they give the memory; what lies in plain memory
     * instead is counted in PST_FALLBACK_PIN. */
    PST_PIN_AUTO = 1,
    /* PST_ERROR_UNSUPPORTED at open if there is no driver or card. */
    PST_PIN_ALWAYS = 2
};

/* pst_field_output.channels: as many as each image has stored, 1 to 4. */
#define PST_CHANNELS_STORED 255

/* What to deliver of one field. A sample has one geometry: that of its image, which is the field
 * `image`, else the first image delivered as pixels, else the first such mask. Masks and further
 * images without operations follow it, whatever colour operations it has; their own operations must
 * have the same geometric ones (kind, order and parameters but interpolation, no_antialias and
 * fill), else pst_loader_open says PST_ERROR_ARGUMENT. Masks are interpolated by nearest, or by
 * nearest-exact where their operations say so. Boxes and keypoints follow too. A mask (a further
 * image, if operations move it) of another size than the image, boxes outside of it, with no area
 * or not finite are a bad sample. What was made for the stored picture (made_for) is turned with
 * it, or if ignore_orientation is set what was made for the upright one. Fields of the data set
 * that are not listed are delivered by the defaults (images: u8, HWC, 3 channels, no operation); to
 * leave fields out, set only_listed in the loader options. */
struct pst_field_output {
    const char *name;
    const struct pst_op *ops; /* images, masks */
    size_t n_ops;
    /* Images: U8, U16, F16, BF16, F32. 0: F32 if the chain normalises, else by `bits`. Floats
     * are scaled to 0..1. Masks: U8 (of 8 bits only), U16, I32, I64, F32: the numbers that are
     * stored. 0: as the first mask of the data set is stored. */
    enum pst_dtype dtype;
    enum pst_layout layout;
    /* Images: 1, 3, 4, PST_CHANNELS_STORED (rows of a batch may then differ), or 0 = 3; masks:
     * always 1. */
    uint8_t channels;
    /* Of the pixels on their way through the operations: 8, 16, or 0. Images, 0: 16 for U16, 8
     * for U8; for floats each image's own: 16-bit images keep their 16 bits (v / 65535), others
     * have 8 (v / 255), and `fill` counts 0..255 for all. Masks, 0: as stored. */
    uint8_t bits;
    /* Variants allowed, bit v = variant v; 0 = all. Of these the first that a sample has is
     * taken. */
    uint8_t variant_mask;
    bool ignore_orientation;
    /* Images, masks: deliver the stored bytes, not pixels. */
    bool encoded;
    /* images stored as pli-jpeg: where the operations make the image, or a crop of it, smaller by
     * more than 2, 4 or 8 on both sides, it is decoded at a half, a quarter or an eighth of its
     * size and made smaller from there. An approximation, the same on every CPU: crops of large
     * photographs differ from those without by 43 dB (PSNR), 0.7 levels of 255 in the mean, and
     * take half the time; bench/loader/scaled_decode.py measures it. For batches in host memory
     * only. */
    bool scaled_decode;
    /* Images, masks: apart from the sample's geometry, with draws of its own. */
    bool own_geometry;
    /* Forms allowed, bit f = enum pst_form f; 0 = all. Decided for each sample: it may have its
     * forms in any variants. One that has none of them is a bad sample. Not for plain folders,
     * where each image has one form. */
    uint32_t form_mask;
    /* Masks, boxes, keypoints: instead of what the data set says. */
    enum pst_made_for made_for;
    /* Boxes: where operations crop or resize, a box is dropped that has less than min_area pixels^2
     * after them (0: 1) or less than min_visibility, 0..1, of the area that it would have if
     * nothing of it were cut off; keep_boxes: none is, and some have no area. */
    float min_area, min_visibility;
    bool keep_boxes;
    /* Keypoints, ragged arrays: name of the boxes field for each of whose boxes this has a row,
     * which is dropped with it; "": it has none. NULL, and the first 64 samples all look as if it
     * had (JSON: are lists): PST_ERROR_ARGUMENT at open, if boxes may be dropped. */
    const char *per_box_of;
};

/* What to load, in which order, by whom, and within which limits. Zero-initialise, then set
 * struct_size, and with `fields` also field_nbytes and op_nbytes. Zero takes the default. All that
 * it points to is read during pst_loader_open only. */
struct pst_loader_options {
    size_t struct_size;
    uint32_t batch_size; /* 0 = 1 */
    enum pst_order order;
    uint64_t seed;
    /* World_size 0 = 1; of the first epoch: pst_loader_set_ranks. */
    uint32_t rank, world_size;
    /* False: the epoch is padded from its start so that every rank has the same number of
     * samples (torch's DistributedSampler), the last batch may be short. true: only whole
     * batches, the tail of the epoch is left out. */
    bool drop_last;
    /* Decoding threads; 0 = everything in the calling thread. */
    uint32_t num_workers;
    /* PST_STORAGE_THREADS: 0 = 4. */
    uint32_t io_threads;
    /* Batches prepared ahead of the caller, >= 1; 0 = 2. */
    uint32_t prefetch;
    /* Bytes, a hard limit over batch slots, read buffers and scratch; 0 = 4 GiB. A lack of it
     * makes rows wait, never bad: which samples are delivered does not depend on it.
     * PST_ERROR_LIMIT at open if it does not hold two batches (you hold one while the next is
     * made), the largest sample's stored bytes twice, and first scratch; later, where one image
     * takes more scratch than is left for any. */
    uint64_t host_memory;
    enum pst_on_error on_error;
    /* SKIP, REPLACE: more bad samples than this in an epoch is PST_ERROR_LIMIT, with the last
     * one's place and cause; 0 = no bound. */
    uint64_t max_errors;
    const struct pst_field_output *fields;
    size_t n_fields;
    bool only_listed;
    /* Subset: the samples, in this order, instead of 0..count-1; copied. */
    const uint64_t *indices;
    uint64_t n_indices;
    /* One per sample (of the subset): drawn with replacement, as many as there are samples;
     * copied. Order must be SHUFFLED. */
    const double *weights;
    /* PST_ORDER_PAGES: samples per page (neighbours on disk); 0 = 64. */
    uint32_t page_samples;
    /* PST_ORDER_PAGES: pages mixed with each other; 0 = 64. Mixing bound: position p holds a
     * sample drawn from window_pages random pages, uniformly. */
    uint32_t window_pages;
    enum pst_storage_kind storage;
    enum pst_page_cache page_cache;
    /* 0 = none: slows reads (token bucket), for tests and predictions. */
    double throttle_bytes_per_second;
    /* 0 = none: added to each read. */
    double throttle_latency_seconds;
    /* Do not compare checksums of stored items as they are read. */
    bool no_verify;
    uint64_t max_pixels;          /* per image; 0 = 1 << 28 */
    enum pst_placement placement; /* where batches lie */
    /* PST_PLACEMENT_CARD: CUDA ordinal k of the card, 0 for the first. PST_PLACEMENT_HOST: 0 or
     * -1. */
    int32_t device;
    enum pst_decode_place decode;
    /* AUTO, GPU: part of each batch's rows that go to the card, its first ones; 0 = all. */
    double gpu_share;
    /* Bytes on the card, a hard limit; 0 = as much as there is. */
    uint64_t device_memory;
    enum pst_jpeg_decoder jpeg;
    enum pst_on_empty on_empty; /* PST_ON_ERROR_SKIP */
    /* Each sample once over all ranks, so ranks may differ by one sample and, at times, one
     * batch: for validation. Not with drop_last. */
    bool no_padding;
    /* Batches in host memory only. */
    enum pst_pin pin_memory;
    /* sizeof(struct pst_field_output): the size of each of `fields`. */
    size_t field_nbytes;
    /* sizeof(struct pst_op): the size of each of `ops` of all `fields`. */
    size_t op_nbytes;
};

/* A place in the sequence of batches: 7 numbers, plain data. Meaning is stable across versions. */
struct pst_loader_state {
    uint64_t epoch;
    /* Positions of the epoch consumed, over all ranks: below n_samples. */
    uint64_t position;
    uint64_t seed;
    /* Of the data set or subset: must be equal to resume. */
    uint64_t n_samples;
    /* Of the order function: must be equal to resume. */
    uint64_t order_version;
    /* Of order kind, page parameters, subset and weights: must be equal to resume. */
    uint64_t order_hash;
    /* Of the rule of random parameters (augment.h): must be equal to resume. */
    uint64_t augment_version;
};

/* Opens a loader: plans how fields are decoded and delivered, divides host_memory, opens files and
 * starts its threads. No sample is read before pst_loader_begin, but for headers of images whose
 * size the plan needs.
 *
 * dataset: an open data set. The loader adds itself as an owner, so the caller may close it at
 *     once.
 * options: NULL for the defaults. Read during the call only: fields, operations, names, indices
 *     and weights are copied.
 * out: receives the loader, to be closed by pst_loader_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: an option is not possible, contradicts another one, or does not fit the data
 *     set; the text names it.
 * PST_ERROR_VERSION: an option is set that this library does not know.
 * PST_ERROR_LIMIT: host_memory or device_memory is too small; the text says how much is needed.
 * PST_ERROR_UNSUPPORTED: there is no such card, nvJPEG, io_uring or page-locked memory, and the
 *     options insist on it.
 * PST_ERROR_DEVICE: the card or its driver failed. PST_ERROR_IO, PST_ERROR_NOT_FOUND: a file
 *     cannot be read. PST_ERROR_MEMORY.
 *
 * Any thread. A loader belongs to the process that opened it: in a forked child its functions
 * return PST_ERROR_FORKED. */
PST_WARN_UNUSED enum pst_status pst_loader_open(pst_dataset *dataset,
                                                const struct pst_loader_options *options,
                                                pst_loader **out, struct pst_error *err);

/* Stops the threads, drops prepared batches and frees the loader. Batches that the caller holds
 * stay valid until they are released.
 *
 * loader: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Waits for reads and work that are under way. No other call of this loader may be in progress. */
void pst_loader_close(pst_loader **loader);

/* Number of batches that this rank gets in a whole epoch, by the ranks that were set last. It gets
 * exactly as many, whatever samples are bad.
 *
 * Any thread. */
uint64_t pst_loader_n_batches(const pst_loader *loader);

/* Number of batches that a rank gets from a position to the end of its epoch. Nothing is changed.
 *
 * position: of a pst_loader_state, below n_samples.
 * rank: 0 to world_size - 1.
 * world_size: number of ranks, at least 1.
 *
 * Returns 0 if rank is not below world_size. Any thread. */
uint64_t pst_loader_n_batches_from(const pst_loader *loader, uint64_t position, uint32_t rank,
                                   uint32_t world_size);

/* Says which rank this process is from the next begin or resume on. A loader may be opened before
 * the ranks are known, and they may change between epochs. The epoch under way keeps its ranks.
 *
 * rank: 0 to world_size - 1.
 * world_size: number of ranks; 0 means 1.
 *
 * PST_ERROR_ARGUMENT: rank is not below world_size, and nothing is changed.
 * PST_ERROR_FORKED.
 *
 * The loader's one thread. */
PST_WARN_UNUSED enum pst_status pst_loader_set_ranks(pst_loader *loader, uint32_t rank,
                                                     uint32_t world_size, struct pst_error *err);

/* Starts an epoch from its first batch. Work under way for another place is cancelled and waited
 * for.
 *
 * epoch: any number. Order and random parameters are functions of it.
 *
 * PST_ERROR_FORKED, PST_ERROR_MEMORY, PST_ERROR_DEVICE, PST_ERROR_INTERNAL.
 *
 * The loader's one thread. */
PST_WARN_UNUSED enum pst_status pst_loader_begin(pst_loader *loader, uint64_t epoch,
                                                 struct pst_error *err);

/* Starts where a state stood, which may come from a run with another number of ranks. Where no
 * batch of its epoch is left for any rank (drop_last), it starts the next epoch.
 *
 * state: as pst_loader_state gave it. Copied.
 *
 * PST_ERROR_ARGUMENT: the state belongs to another order, seed, augmentation rule or number of
 *     samples, or its position is not below n_samples. Nothing is changed.
 * PST_ERROR_FORKED, PST_ERROR_MEMORY, PST_ERROR_DEVICE.
 *
 * The loader's one thread. */
PST_WARN_UNUSED enum pst_status pst_loader_resume(pst_loader *loader,
                                                  const struct pst_loader_state *state,
                                                  struct pst_error *err);

/* Gives the place behind the batch that was returned last. After the epoch's last batch, and after
 * PST_END, that is epoch + 1, position 0.
 *
 * state: the caller's struct, written as a whole. Its size never changes.
 *
 * Cannot fail. The loader's one thread. */
void pst_loader_state(const pst_loader *loader, struct pst_loader_state *state);

/* Returns the next batch. Blocks until it is whole.
 *
 * out: receives the batch, which belongs to the caller until pst_batch_release; NULL after any
 *     other status than PST_OK.
 *
 * PST_END: the epoch's last batch was returned before.
 * PST_ERROR_STATE: no epoch was begun.
 * PST_ERROR_LIMIT: no slot is free and host_memory allows no other, because the caller holds that
 *     many batches: release some, then call again. Also: more bad samples than max_errors, or one
 *     image that needs more scratch than there is.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM, PST_ERROR_UNSUPPORTED and others:
 * with PST_ON_ERROR_RAISE, a sample of this batch is bad; `err` names it.
 * PST_ERROR_IO, PST_ERROR_NOT_FOUND, PST_ERROR_DEVICE, PST_ERROR_MEMORY: reading or the card
 *     failed, and the epoch ends.
 * PST_ERROR_FORKED.
 *
 * The loader's one thread. */
PST_WARN_UNUSED enum pst_status pst_loader_next(pst_loader *loader, pst_batch **out,
                                                struct pst_error *err);

/* Returns the next batch as pst_loader_next does, but gives up after a time.
 *
 * timeout_ns: nanoseconds to wait; 0 or less only looks.
 * out: as in pst_loader_next.
 *
 * PST_ERROR_BUSY: the time is over. Nothing is lost: call again.
 * Others as in pst_loader_next.
 *
 * The loader's one thread. */
PST_WARN_UNUSED enum pst_status pst_loader_next_timed(pst_loader *loader, int64_t timeout_ns,
                                                      pst_batch **out, struct pst_error *err);

/* Prepares samples by number in the calling thread, with the randomness of an epoch: map-style
 * access. With PST_ON_ERROR_REPLACE and batches in host memory another sample, a function of
 * (seed, epoch, sample), takes a bad one's place; otherwise the error of a bad sample is returned
 * at once.
 *
 * epoch: as in pst_loader_begin.
 * samples: n numbers below pst_dataset_count(), repeats allowed. Read during the call only.
 * n: 1 or more. May be more than batch_size.
 * out: receives a batch, which belongs to the caller until pst_batch_release; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: n is 0 or a number is too large.
 * PST_ERROR_CANCELLED: pst_interrupt_fn said so.
 * PST_ERROR_LIMIT: host_memory does not hold the batch, or the caller holds too many.
 * Errors of samples, reading and cards as in pst_loader_next.
 *
 * May be called while an epoch runs, by one thread at a time. */
PST_WARN_UNUSED enum pst_status pst_loader_fetch(pst_loader *loader, uint64_t epoch,
                                                 const uint64_t *samples, size_t n, pst_batch **out,
                                                 struct pst_error *err);

/* Prepares a batch of this rank again, in the calling thread. on_error is honoured, so it is the
 * batch that pst_loader_next gave, to the bit.
 *
 * epoch: the epoch of the batch.
 * step: its number in that epoch and rank, from 0.
 * out: receives the batch, which belongs to the caller until pst_batch_release; NULL after
 *     failure.
 *
 * PST_ERROR_ARGUMENT: the epoch has no such step.
 * Others as in pst_loader_fetch.
 *
 * May be called while an epoch runs, by one thread at a time. */
PST_WARN_UNUSED enum pst_status pst_loader_replay(pst_loader *loader, uint64_t epoch, uint64_t step,
                                                  pst_batch **out, struct pst_error *err);
/* Called before each row by the thread that is in pst_loader_fetch or pst_loader_replay; a return
 * other than 0 ends that call with PST_ERROR_CANCELLED and without a batch. */
typedef int (*pst_interrupt_fn)(void *ctx);

/* Sets a function that can end pst_loader_fetch and pst_loader_replay early.
 *
 * interrupt: called from now on; NULL, as at first: they run to their end.
 * ctx: given to interrupt as it is. It belongs to the caller and must live as long as interrupt is
 *     set.
 *
 * Do not call it while fetch or replay runs. */
void pst_loader_set_interrupt(pst_loader *loader, pst_interrupt_fn interrupt, void *ctx);

/* Batches
 * ------------------------------------------------------------------------------------------------
 */

/* An array in a batch; the memory is the batch's. Strides in bytes. */
struct pst_tensor {
    void *data;
    enum pst_dtype dtype;
    uint32_t ndim;
    int64_t shape[PST_MAX_NDIM + 1];
    int64_t strides[PST_MAX_NDIM + 1];
    /* -1: host memory; else `data` is an address on the card of that ordinal. */
    int32_t device;
};

/* Number of rows, 0 to batch_size, or n of pst_loader_fetch. Any thread. */
uint32_t pst_batch_count(const pst_batch *batch);

/* Number of fields. They are those of the data set that are delivered, in its order. Any thread. */
uint32_t pst_batch_n_fields(const pst_batch *batch);

/* Name of a field.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 *
 * Returns a string that lives as long as the batch, or NULL if there is no such field. Any thread.
 */
const char *pst_batch_field_name(const pst_batch *batch, uint32_t i_field);

/* Type of a field.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 *
 * Returns 0 if there is no such field. Any thread. */
enum pst_field_type pst_batch_field_type(const pst_batch *batch, uint32_t i_field);

/* True: rows of the field differ in shape, and pst_batch_row gives each. False: pst_batch_tensor
 *     gives the whole field.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 *
 * Any thread. */
bool pst_batch_is_ragged(const pst_batch *batch, uint32_t i_field);

/* Gives a whole field as one array. Images are (N,C,H,W) or (N,H,W,C), fields of type int are i64
 * (N), fields of type float are f32 (N).
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 * tensor: the caller's struct, written after success only. Its memory is the batch's, and lies
 *     where the batch lies.
 * tensor_nbytes: sizeof *tensor.
 *
 * PST_ERROR_ARGUMENT: there is no such field, or it is ragged.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_batch_tensor(const pst_batch *batch, uint32_t i_field,
                                                 struct pst_tensor *tensor, size_t tensor_nbytes,
                                                 struct pst_error *err);

/* Gives one row of a field, ragged or not, without the N. Bytes, text, JSON, audio and encoded
 * images are u8 (n).
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 * row: 0 to pst_batch_count() - 1.
 * tensor: the caller's struct, written after success only. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * PST_ERROR_ARGUMENT: there is no such field or row.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_batch_row(const pst_batch *batch, uint32_t i_field,
                                              uint32_t row, struct pst_tensor *tensor,
                                              size_t tensor_nbytes, struct pst_error *err);

/* Sample numbers of the rows, pst_batch_count() of them, in host memory.
 *
 * Returns a pointer that lives as long as the batch. Any thread. */
const int64_t *pst_batch_index(const pst_batch *batch);

/* Gives the sample numbers as an i64 array (N), which lies where the batch's other arrays lie.
 *
 * tensor: the caller's struct, written as a whole. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * Cannot fail. Any thread. */
void pst_batch_index_tensor(const pst_batch *batch, struct pst_tensor *tensor,
                            size_t tensor_nbytes);

/* Where the batch lies: CUDA ordinal of the card, or -1 for host memory. Fields of a batch on a
 * card whose rows may differ in shape (bytes, text, boxes and so on) are in host memory all the
 * same.
 *
 * Any thread. */
int32_t pst_batch_device(const pst_batch *batch);

/* Gives a whole field in host memory, also where the batch lies on a card.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 * tensor: the caller's struct, written after success only. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * PST_ERROR_ARGUMENT: there is no such field, it is ragged, or the card alone has it (pixels).
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_batch_host_tensor(const pst_batch *batch, uint32_t i_field,
                                                      struct pst_tensor *tensor,
                                                      size_t tensor_nbytes, struct pst_error *err);

/* Says that work on a CUDA stream is going to read the batch. The stream waits until the batch is
 * there. After the last release the batch's memory is not written before the stream has passed the
 * work that it was given until then. Nothing waits but streams. Batches in host memory need no
 * call: nothing is done.
 *
 * stream: handle of a stream of the batch's card. 0 or 1: the legacy default stream. 2: the
 *     per-thread default stream. Call it once for each stream before its first use of the batch.
 *
 * PST_ERROR_DEVICE: the driver refused. PST_ERROR_FORKED.
 *
 * Any thread that holds the batch. */
PST_WARN_UNUSED enum pst_status pst_batch_await(pst_batch *batch, uint64_t stream,
                                                struct pst_error *err);

/* Says which batch it is.
 *
 * epoch: receives the epoch.
 * step: receives the number of the batch in that epoch and rank, from 0.
 *
 * Cannot fail. Any thread. */
void pst_batch_place(const pst_batch *batch, uint64_t *epoch, uint64_t *step);

/* Adds an owner. Each owner releases once. Any thread. */
void pst_batch_retain(pst_batch *batch);

/* Gives up one owner's share. The last one gives the memory back to the loader, or frees it where
 * the loader is closed.
 *
 * batch: NULL is allowed.
 *
 * Any thread. */
void pst_batch_release(pst_batch *batch);

/* What a loader did otherwise than asked or hoped for: nothing of it is silent. Numbers are stable;
 * others come to the end. */
enum pst_fallback {
    /* io_uring failed while reading: storage and reason change, too. */
    PST_FALLBACK_URING = 0,
    PST_FALLBACK_DIRECT = 1, /* files without O_DIRECT */
    /* Posix_fadvise that the kernel refused. */
    PST_FALLBACK_ADVICE = 2,
    /* Windows of pages whose reading ahead was not asked for. */
    PST_FALLBACK_PAGE_HINT = 3,
    /* Items read whole that were to be read in parts. */
    PST_FALLBACK_RANGE = 4,
    /* Images decoded whole for a region. */
    PST_FALLBACK_REGION = 5,
    /* PNGs decoded by libpng, not libdeflate. */
    PST_FALLBACK_LIBPNG = 6,
    /* Images on which scaled_decode has no effect. */
    PST_FALLBACK_SCALED = 7,
    /* Rows that took turns at the reserve of host_memory. */
    PST_FALLBACK_RESERVE = 8,
    /* Batches that prefetch wants and host_memory does not hold. */
    PST_FALLBACK_SLOTS = 9,
    /* Epochs that went on with one batch at a time. */
    PST_FALLBACK_AHEAD = 10,
    /* Large blocks on small pages, in this process since open. */
    PST_FALLBACK_HUGE_PAGES = 11,
    /* Rooms whose kernels need more of AVX-512 than the CPU has. */
    PST_FALLBACK_CPU = 12,
    /* Images meant for a card, decoded by the CPU. */
    PST_FALLBACK_CARD = 13,
    /* Slots that were not page-locked: see PST_PIN_AUTO. */
    PST_FALLBACK_PIN = 14
};

#define PST_FALLBACKS_MAX 32 /* room for kinds that later versions have */

/* Short name of a kind of fall-back: "uring", "direct" and so on.
 *
 * i: an enum pst_fallback.
 *
 * Returns a static string; NULL behind the last kind, so that a program can list all. Any thread.
 */
const char *pst_fallback_name(uint32_t i);

/* Meaning of a kind of fall-back, in words.
 *
 * i: an enum pst_fallback.
 *
 * Returns a static string; NULL behind the last kind. Any thread. */
const char *pst_fallback_text(uint32_t i);

/* Watching
 * -----------------------------------------------------------------------------------------------
 */

/* Counters since open. Times are
 * in nanoseconds. Workers are at their rows, wait for storage, or are idle because the caller is
 * slower; without workers the calling thread is the worker, and waits inside pst_loader_next. Who
 * gets a batch finds what its rows counted, and perhaps what rows of later batches did. */
struct pst_loader_stats {
    uint64_t n_batches, n_samples; /* delivered */
    /* Samples: bad, replaced, repeated to fill ranks. */
    uint64_t n_bad, n_replaced, n_padded;
    uint64_t nbytes_read, n_reads;
    /* In which at least one read was under way; not a sum over reads. */
    uint64_t read_ns;
    /* Workers at their rows, summed over workers, without their waiting. */
    uint64_t decode_ns;
    uint64_t caller_wait_ns; /* in pst_loader_next */
    uint64_t host_memory, host_memory_used, host_memory_peak;
    /* Batch slots that exist; held by the caller now. */
    uint32_t n_slots, n_slots_held;
    uint32_t n_workers;
    /* The one in use: THREADS, URING, MEMORY. */
    enum pst_storage_kind storage;
    /* Why not io_uring, or why not any more; "" otherwise. */
    char storage_reason[96];
    uint64_t n_fallback_direct; /* files without O_DIRECT */
    /* Images decoded whole although only a region was wanted. */
    uint64_t n_fallback_region;
    /* Pixels that decoders delivered. */
    uint64_t nbytes_decoded;
    /* "c", "avx2", "avx512", "neon". */
    char cpu_level[16];
    /* PLI: units that were decoded. */
    uint64_t n_units_decoded;
    /* PLI: units that the images have of which these are part. */
    uint64_t n_units_whole;
    /* PLI: images of which only head and touched units were read. */
    uint64_t n_partial_reads;
    /* Images decoded at a part of their size (scaled_decode). */
    uint64_t n_scaled;
    /* Images and masks decoded by the CPU. */
    uint64_t n_cpu_samples;
    uint64_t n_gpu_samples; /* and by the card */
    /* meant for the card but left to the CPU, for their form or room. */
    uint64_t n_gpu_fallback;
    /* Of the last one; "" if there was none. */
    char gpu_fallback_reason[96];
    /* Rows that found no room at first, and came in another round. */
    uint64_t n_gpu_again;
    /* Of images, on their way to the card. */
    uint64_t nbytes_upload;
    uint64_t device_memory, device_memory_used, device_memory_peak;
    /* The card's ordinal; -1: batches in host memory. */
    int32_t device;
    /* That the card has for nvJPEG. */
    uint32_t n_jpeg_engines;
    /* Of n_gpu_samples: by nvJPEG. */
    uint64_t n_nvjpeg_samples;
    /* "13.0.4"; "": it is not used. */
    char nvjpeg_version[24];
    uint64_t fallbacks[PST_FALLBACKS_MAX]; /* by enum pst_fallback */
    /* Summed over workers: no row, and a read under way. */
    uint64_t worker_read_wait_ns;
    /* The same: no row, and none: all that was asked for is made. */
    uint64_t worker_idle_ns;
    /* Level of each room's kernels: "augment avx512, pli avx2, ...". */
    char cpu_rooms[96];
    /* Of samples that were prepared: see pst_field_output.min_area. */
    uint64_t n_boxes_dropped;
};

/* Gives the counters since open. Who gets a batch finds what its rows counted, and perhaps what
 * rows of later batches did. In a forked child all are zero.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_loader_stats(const pst_loader *loader, struct pst_loader_stats *stats,
                      size_t stats_nbytes);

/* Number of bad samples met so far of which the place and cause are kept, at most 4,096.
 *
 * Any thread. */
uint64_t pst_loader_n_quarantined(const pst_loader *loader);

/* Gives place and cause of one bad sample.
 *
 * i: 0 to pst_loader_n_quarantined() - 1, in the order in which they were met.
 * what: receives the error of that sample after success.
 *
 * PST_ERROR_ARGUMENT: there are not so many. PST_ERROR_FORKED.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_loader_quarantined(const pst_loader *loader, uint64_t i,
                                                       struct pst_error *what,
                                                       struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
