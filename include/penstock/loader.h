/* loader.h - batches of samples, in an order that is a pure function of (seed, epoch, data set).
 *
 *     pst_loader_open -> [pst_loader_begin -> pst_loader_next ... until PST_END]* ->
 * pst_loader_close
 *
 * Position p of an epoch holds sample order(seed, epoch, p). With W ranks and B samples per batch,
 * rank r's batch b holds positions (b*W + r)*B + i for i in 0..B-1: a run of neighbours. Step b of
 * all ranks together covers one run, too, so the order is the same for every W, and a run may go on
 * with another W. If less than W*B positions are left, the last step shares them out evenly: with L
 * left, each rank has a run of ceil(L/W), padded at its end; without padding, L/W, and the first
 * L%W ranks one more.
 *
 * Threads: one thread at a time calls open/begin/next/close of a loader; batches may be read and
 * released by any thread, also after the loader was closed. */
#ifndef PENSTOCK_LOADER_H
#define PENSTOCK_LOADER_H

#include <penstock/audio.h>
#include <penstock/augment.h>
#include <penstock/collate.h>
#include <penstock/dataset.h>
#include <penstock/fallback.h>
#include <penstock/output.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A loader has threads, buffers and an order over one data set. */
typedef struct pst_loader pst_loader;

/* Says in which order an epoch visits the samples. */
enum pst_order {
    PST_ORDER_SEQUENTIAL = 0,
    /* Global shuffle: a keyed bijection of 0..n-1. */
    PST_ORDER_SHUFFLED = 1,
    /* Page-aware shuffle, see page_samples. */
    PST_ORDER_PAGES = 2
};
/* Says what becomes of a bad sample: its bytes are damaged, cut short or of a kind that no decoder
 * takes, or one file of a folder is missing. Other faults are not the sample's. They end the epoch
 * with their own error, whatever on_error says: a device or mount that fails, a folder or shard
 * that is gone, a lacking permission, a memory limit, an operation that cannot be applied. */
enum pst_on_error {
    /* pst_loader_next returns the error at the batch's turn. */
    PST_ON_ERROR_RAISE = 0,
    /* The batch is shorter by the bad sample; see pst_on_empty. */
    PST_ON_ERROR_SKIP = 1,
    /* Another sample, a pure function of (seed, epoch, position), takes its place. */
    PST_ON_ERROR_REPLACE = 2
};
/* Says what PST_ON_ERROR_SKIP does with a batch whose samples are all bad. With both values each
 * rank gets as many batches as pst_loader_n_batches says, whatever samples are bad. */
enum pst_on_empty {
    /* The batch gets one other sample, drawn as PST_ON_ERROR_REPLACE does for its first position.
     * It is counted in n_replaced. */
    PST_ON_EMPTY_FILL = 0,
    /* The batch is delivered with 0 rows. An epoch in which a rank has no good sample at all then
     * ends with the last one's error, not with PST_END. */
    PST_ON_EMPTY_DELIVER = 1
};
/* Says when an epoch of a mixture with weights ends (source_weights). Sources of weight 0 do not
 * count. */
enum pst_source_stop {
    /* At the end of the block after which each sample of each source has been given. */
    PST_SOURCE_STOP_ALL = 0,
    /* At the end of the last block before any source gives a sample a second time. */
    PST_SOURCE_STOP_FIRST = 1,
    /* Never: an epoch has nearly 2^62 positions. */
    PST_SOURCE_STOP_NEVER = 2
};
/* source_quota: one block holds the whole epoch. */
#define PST_QUOTA_EPOCH UINT32_MAX

/* Says how stored bytes are read. */
enum pst_storage_kind {
    /* io_uring where the kernel allows it, else threads. */
    PST_STORAGE_AUTO = 0,
    /* pread by a pool of threads. */
    PST_STORAGE_THREADS = 1,
    PST_STORAGE_URING = 2, /* io_uring, or an error. */
    /* All item files are read into memory at open. They count in host_memory. */
    PST_STORAGE_MEMORY = 3
};

/* Says in which form a cache keeps images that are decoded. Batches are the same in all of them, to
 * the bit. */
enum pst_cache_form {
    /* The stored bytes. */
    PST_CACHE_FORM_STORED = 0,
    /* A JPEG is re-coded as pli-jpeg when it is admitted, once, by the worker that has just decoded
     * it. It takes less of the cache then, and each later decode is faster. Items that are no JPEGs
     * are kept as they are stored. So are JPEGs that pli-jpeg does not take or does not make
     * smaller, and those for which the memory of re-coding is too small; PST_FALLBACK_CACHE_FORM
     * counts them. Each thread that decodes has the same part of 1/8 of host_memory for re-coding,
     * at most 64 MiB; it has none if host_memory has less left. scaled_decode has no effect on
     * re-coded images, as on JPEGs. */
    PST_CACHE_FORM_PLI_JPEG = 1,
    /* The same, and lossless images and raw pixels are re-coded as PLI, small tier: PNGs become
     * smaller as a rule, and decode many times as fast. Lossy WebP, images with a palette and
     * those with an EXIF orientation that are no JPEGs stay as they are stored. */
    PST_CACHE_FORM_PLI = 2,
    /* The same with PLIs of the fast tier, which take more of the cache and decode faster yet. */
    PST_CACHE_FORM_PLI_FAST = 3,
    /* All images but those with a palette are kept as pixels, which need no decoding. They take
     * several times the bytes. A field with scaled_decode is kept as it is stored. */
    PST_CACHE_FORM_RAW = 4
};

/* Says when images are re-coded in the form that a cache keeps. */
enum pst_cache_recode {
    /* When an item is admitted, by the worker that has just decoded it. */
    PST_CACHE_RECODE_AT_ONCE = 0,
    /* When workers have nothing to prepare: the cache keeps an item as it is stored at first, and
     * the re-coded item takes its place later, in this epoch, between epochs or in a later one. A
     * worker begins no item while the caller waits for a batch, unless another worker is free. The
     * host cache's items are re-coded by its service, one at a time for each worker that has
     * nothing to prepare. The cache keeps 1/32 of its bytes as room for items on their way. Batches
     * are the same, to the bit, whatever was re-coded before. Items are re-coded at once if the
     * cache has no room for its list of items, 8 bytes for each. PST_ERROR_ARGUMENT: there is no
     * cache, or cache_form is STORED, or with num_workers 0, a fleet, or cache_resolution TRAINING.
     * PST_ERROR_UNSUPPORTED: the data set is a mixture, and the cache is of this process. */
    PST_CACHE_RECODE_IDLE = 1
};

/* Says at which resolution a cache keeps images and masks. Batches are the same, to the bit. */
enum pst_cache_resolution {
    /* As they are stored. */
    PST_CACHE_RESOLUTION_FULL = 0,
    /* After those operations at the beginning of their field's chain that are the same for every
     * sample (Resize, CenterCrop, Pad): the picture with the fewest pixels among those that they
     * make, in the channels, bits and orientation that are delivered. A hit begins behind them.
     * Random parameters, boxes and keypoints are those of the whole chain. cache_form RAW keeps
     * pixels, PLI_FAST a PLI of the fast tier, all others a PLI of the small tier; it may be longer
     * than the stored JPEG. Images that no such operation makes smaller, masks that are turned with
     * their image, and fields whose chain does not begin so, are kept whole, as cache_form says.
     * Items are shared by loaders whose chains begin alike.
     *
     * pst_loader_open: PST_ERROR_ARGUMENT if no image's chain begins so, with the operation that
     * is in the way, with scaled_decode, with a fleet, and with batches on a GPU. */
    PST_CACHE_RESOLUTION_TRAINING = 1
};

/* Says what becomes of pages in the kernel's page cache. */
enum pst_page_cache {
    PST_PAGE_CACHE_KEEP = 0, /* The kernel decides. */
    /* The kernel is told to drop what was read (POSIX_FADV_DONTNEED). */
    PST_PAGE_CACHE_DROP = 1,
    /* O_DIRECT. On file systems without it: as DROP, counted as fall-back. */
    PST_PAGE_CACHE_DIRECT = 2
};

/* Says in which memory the arrays of a batch lie. */
enum pst_placement {
    PST_PLACEMENT_HOST = 0, /* Host memory. */
    /* The GPU pst_loader_options.device. Images and masks must have one size. They lie on the GPU
     * with all other arrays of fixed shape. Fields whose rows may differ stay in host memory. */
    PST_PLACEMENT_DEVICE = 1
};

/* Says where images of a batch on a GPU are decoded. It does not change the batches. */
enum pst_decode_place {
    /* The GPU decodes the forms that it can (raw, PLI of pixels and of JPEGs), the CPU the rest,
     * such as JPEG files. */
    PST_DECODE_AUTO = 0,
    PST_DECODE_CPU = 1,
    /* As AUTO in this version. Later versions may choose otherwise for AUTO, never for GPU. An
     * error without a device. */
    PST_DECODE_GPU = 2
};

/* Says whether batches in host memory lie in page-locked ("pinned") memory. A GPU copies from it
 * while the CPU goes on. The CUDA driver makes it, for all GPUs; no driver is needed to build or
 * link. The arrays of whole batches are page-locked; rows with memory of their own (ragged fields)
 * are not. The memory is made with the first batches, kept, and counts in host_memory.
 *
 * A batch may be released while the GPU still copies from it in the legacy default stream (torch's
 * usual one), or in a stream that this one waits for. The memory is written again only after the
 * work that the stream had at the release. The stream is that of the GPU whose context is current
 * when the loader is opened, else of GPU 0. Copies in other streams must be done before the last
 * release. While the GPU is behind, more batches are made, within host_memory. If that is used up,
 * pst_loader_next waits for the GPU. */
enum pst_pin {
    PST_PIN_NEVER = 0,
    /* Page-locked if there is a driver and a GPU, and they give the memory. PST_FALLBACK_PIN counts
     * the batch slots that lie in plain memory instead. */
    PST_PIN_AUTO = 1,
    /* PST_ERROR_UNSUPPORTED at open if there is no driver or GPU. */
    PST_PIN_ALWAYS = 2
};

/* One of the forms over which the rows of a field are divided. Zero-initialise. */
struct pst_form_part {
    /* The first variant that has it; NONE: variant number `variant`, of whatever form. */
    enum pst_form form;
    uint32_t variant; /* only with NONE */
    double part;      /* of the rows, above 0; parts are divided by their sum */
};

/* Says how rows are divided over forms. Numbers are stable. */
enum pst_form_choice {
    /* The row's number among the rows of its rank in the epoch chooses the form. A batch differs
     * from the wanted parts by less than one row of two forms (less than n - 1 rows of n forms),
     * and the next batch makes up for it. Only variants whose pixels are the same, by the data
     * set's checksums, take each other's place. PST_ERROR_ARGUMENT for a field that is
     * delivered as stored bytes, or with scaled_decode: these differ from form to form. */
    PST_FORM_CHOICE_ROWS = 0,
    /* By the sample and the loader's seed: a sample has one form in all epochs. Pixels may differ.
     */
    PST_FORM_CHOICE_SAMPLES = 1,
    /* As ROWS, and while it runs the loader moves parts towards the form that takes less of what
     * is short, processor time or storage. Pixels and order stay the same. Refused as ROWS is. */
    PST_FORM_CHOICE_MEASURED = 2
};

/* Says which fields, order, threads and limits a loader has. Zero-initialise, then set struct_size,
 * and with `fields` also field_nbytes and op_nbytes. Zero takes the default. The arrays and strings
 * that it points to are read during pst_loader_open only. */
struct pst_loader_options {
    size_t struct_size;
    uint32_t batch_size; /* 0 = 1 */
    enum pst_order order;
    uint64_t seed;
    /* world_size 0 = 1. For the first epoch; see pst_loader_set_ranks. */
    uint32_t rank, world_size;
    /* False: the epoch is padded from its start so that every rank has the same number of samples
     * (torch's DistributedSampler); the last batch may be short. True: only whole batches; the tail
     * of the epoch is left out. */
    bool drop_last;
    /* Decoding threads; 0 = everything in the calling thread. */
    uint32_t num_workers;
    /* PST_STORAGE_THREADS: 0 = 4. */
    uint32_t io_threads;
    /* Batches prepared ahead of the caller, >= 1; 0 = 2. */
    uint32_t prefetch;
    /* Bytes, a hard limit over batch slots, read buffers and scratch; 0 = 4 GiB. A lack of it makes
     * rows wait, never bad: the delivered samples do not depend on it. PST_ERROR_LIMIT at open if
     * it does not hold two batches (you hold one while the next is made), the largest sample's
     * stored bytes twice, and first scratch. PST_ERROR_LIMIT later, if one image takes more scratch
     * than is left for any. */
    uint64_t host_memory;
    enum pst_on_error on_error;
    /* SKIP, REPLACE: largest number of bad samples in an epoch. One more is PST_ERROR_LIMIT, with
     * the last one's place and cause. 0 = no bound. */
    uint64_t max_errors;
    const struct pst_field_output *fields;
    size_t n_fields;
    bool only_listed;
    /* Subset: the samples, in this order, instead of 0..count-1; copied. */
    const uint64_t *indices;
    uint64_t n_indices;
    /* A weight per sample (of the subset); copied. Samples are drawn with replacement, as many as
     * there are samples. `order` must be SHUFFLED. */
    const double *weights;
    /* PST_ORDER_PAGES: samples per page (neighbours on disk; in folders, by path); 0 = 64. */
    uint32_t page_samples;
    /* PST_ORDER_PAGES: pages mixed with each other; 0 = 64. Position p holds a sample drawn
     * uniformly from window_pages random pages. */
    uint32_t window_pages;
    enum pst_storage_kind storage;
    enum pst_page_cache page_cache;
    /* Limit of the reading rate (token bucket), for tests and predictions; 0 = none. */
    double throttle_bytes_per_second;
    /* Time added to each request; 0 = none. */
    double throttle_latency_seconds;
    /* True: checksums of stored items are not compared as they are read. */
    bool no_verify;
    uint64_t max_pixels;          /* per image; 0 = 1 << 28 */
    enum pst_placement placement; /* Memory of the batches' arrays. */
    /* PST_PLACEMENT_DEVICE: CUDA ordinal k of the GPU, 0 for the first. PST_PLACEMENT_HOST: 0 or
     * -1. */
    int32_t device;
    enum pst_decode_place decode;
    /* AUTO, GPU: part of each batch's rows that go to the GPU, its first ones; 0 = all. */
    double gpu_part;
    /* Bytes on the GPU, a hard limit; 0 = as much as there is. */
    uint64_t device_memory;
    enum pst_on_empty on_empty; /* For PST_ON_ERROR_SKIP. */
    /* Each sample comes once over all ranks. So ranks may differ by one sample and, at times, one
     * batch. For validation. Not with drop_last. */
    bool no_epoch_padding;
    /* For batches in host memory only. */
    enum pst_pin pin_memory;
    /* sizeof(struct pst_field_output): the size of each of `fields`. */
    size_t field_nbytes;
    /* sizeof(struct pst_op): the size of each of `ops` of all `fields`. */
    size_t op_nbytes;
    /* Stored bytes are kept there as they are read, and taken from there from then on. It may be a
     * cache of this process (pst_cache_open) or the host's (pst_cache_open_host). NULL: none.
     * The loader has a hold of its own on it. PST_ERROR_ARGUMENT with PST_STORAGE_MEMORY, which
     * has all bytes in memory. Of other people's files whose index has no checksums of items a
     * loader with a cache of this process makes them while it reads; once it has read all items,
     * the index gets them, at the end of the epoch or when the loader is closed. */
    struct pst_cache *cache;
    /* The form in which cache and fleet keep images and masks. Other than STORED only with one of
     * them. A re-coded item that is longer than the stored one, and finds no room, is kept as it is
     * stored, and always in a fleet; PST_FALLBACK_CACHE_FORM counts it. */
    enum pst_cache_form cache_form;
    /* File to which events of all threads are written, as JSON for chrome://tracing and
     * ui.perfetto.dev; "%p" in it stands for the process's number. NULL: PENSTOCK_TRACE names it,
     * if that is set; "": none. If another process or loader writes that file, ".2" to ".64" is
     * added. It is complete when the loader is closed; what a killed process leaves can be loaded,
     * too. Tracing times each row in detail, which costs some microseconds a row. */
    const char *trace;
    /* Which samples the cache admits: a byte for each sample of the data set, 0 for those that are
     * read each time (pst_cache_plan makes it). NULL: all, as they come. Items that the cache has
     * already are used in any case. Copied. */
    const uint8_t *cache_plan;
    uint64_t n_cache_plan; /* pst_dataset_count(), or 0 with NULL */
    /* Name of a group, 1 to 127 bytes; NULL: none. Loaders of this user on this machine that name
     * the same group, data set and options for samples, order and transforms get their batches from
     * one preparation, by the host service (service.h): each sample is read, decoded and augmented
     * once per epoch for all of them. batch_size, ranks, threads, memory, on_error and pin_memory
     * may differ. Batches are those of a loader alone, to the bit. Their large arrays are not
     * copied; writing into them changes nobody else's.
     *
     * Loaders may join, leave and end at any time. A loader whose place no other is near gets a
     * stream of its own, until it meets the others'. One that is far behind the others, or whose
     * service is lost, prepares the rest of its epoch itself; PST_FALLBACK_SHARE counts such
     * batches, share_reason in the statistics says why. So does each rank with a last batch that
     * has padding, and whoever meets a bad sample. host_memory is that of a loader alone.
     *
     * A loader that begins with the epoch after the group's newest one waits for the others.
     *
     * With batches on a GPU, CPUs prepare shared batches, too: the loader page-locks the service's
     * memory for reading, or copies rows to page-locked memory of its own, and uploads them.
     * Batches that it prepares itself are decoded as `decode` says. Not with PST_DECODE_GPU or
     * scaled_decode. */
    const char *share;
    /* Path of the service's socket; NULL: see service.h. */
    const char *socket;
    /* Program that is started as the service if none runs, such as "penstock"; NULL: that of the
     * environment variable PENSTOCK_SERVE, or none. */
    const char *service;
    /* Seconds of silence after which the service counts as lost; 0 = 10. A service that works says
     * so once a second. */
    double share_wait_seconds;
    /* Servers that are asked for what the cache does not have, and get what they do not have
     * either, in the background (<penstock/fleet.h>). NULL: none. The loader has a hold of its own
     * on it. An item that a server of this host has, or takes, is not kept in `cache`, too.
     * PST_ERROR_ARGUMENT with PST_STORAGE_MEMORY. */
    struct pst_fleet *fleet;
    /* Over which forms the rows of `form_field` are divided, up to PST_MAX_VARIANTS; 0: each row
     * has the first variant that is allowed. A sample that lacks the form that it is given has the
     * first one that is allowed, too. Not with `share`. Copied. */
    const struct pst_form_part *form_parts;
    uint32_t n_form_parts;
    size_t form_part_nbytes; /* sizeof(struct pst_form_part) */
    const char *form_field;  /* an image or a mask; NULL: the first image that is delivered */
    enum pst_form_choice form_choice;
    /* Other than FULL only with `cache`. */
    enum pst_cache_resolution cache_resolution;
    /* Ways of mixing the images of `mix_field` within each batch (<penstock/augment.h>, Mixing of
     * batches); 0: they are not mixed. PST_ERROR_ARGUMENT: images may differ in size, or masks,
     * boxes or keypoints are delivered, too, which mosaics alone move. Copied. pst_loader_fetch
     * does not mix. */
    const struct pst_mix *mixes;
    uint32_t n_mixes;       /* at most PST_MAX_MIXES */
    size_t mix_nbytes;      /* sizeof(struct pst_mix) */
    const char *mix_field;  /* an image; NULL: the first image that is delivered */
    size_t audio_op_nbytes; /* sizeof(struct pst_audio_op) */
    /* Requests at a time of throttled storage, at most 256; 0 = any. 1: latencies add up. */
    uint32_t throttle_requests;
    uint32_t reserved; /* 0; was padding before */
    /* Positions in a row that hold the same sample, to 65,536; 0 = 1 (augment.h, Repeats). */
    uint32_t repeats;
    /* Can end pst_loader_open, with PST_ERROR_CANCELLED, while that waits for the host service;
     * NULL: nothing does. Used during pst_loader_open only; see pst_loader_set_interrupt. */
    pst_interrupt_fn interrupt;
    void *interrupt_ctx;
    /* Mixtures (<penstock/mixture.h>): a weight for each source, 0 or more, in any unit; copied.
     * NULL: each sample comes once. With weights, each source gets positions of an epoch by its
     * share of the sum of weights. A source gives each of its samples, or of those in `indices`,
     * once, then all of them again in a new order. A sample that comes again has other random
     * parameters (pst_batch_draws). Not with `weights`, `repeats`, PST_ORDER_PAGES or `share`. */
    const double *source_weights;
    /* For each weight the number of the first sample to which it applies; the first is 0, and
     * numbers never fall. So neighbouring sources may share one weight. NULL: those of the
     * mixture's sources. Copied. */
    const uint64_t *source_firsts;
    uint32_t n_source_weights; /* 1 to 1024 with source_firsts; else the number of sources */
    /* Positions of a block. In each block a source has its share, rounded down or up so that its
     * share of all blocks so far is off by less than one sample. Within the block `order` applies.
     * 0 = the batch_size at open, so that each batch has its quotas on any number of ranks. A
     * resume needs the same value, whatever its batch_size. */
    uint32_t source_quota;
    enum pst_source_stop source_stop;
    enum pst_cache_recode cache_recode;
};

/* Names a place in the sequence of batches: 7 numbers, plain data. Their meaning is stable across
 * versions. */
struct pst_loader_state {
    uint64_t epoch;
    /* Positions of the epoch delivered so far, over all ranks. pst_loader_state gives less than
     * n_samples; n_samples itself, the epoch's end, means position 0 of the next epoch. */
    uint64_t position;
    uint64_t seed;
    /* Positions of an epoch: the number of samples of the data set or subset; with source_weights,
     * the number that source_stop leads to. A resume needs the same number. */
    uint64_t n_samples;
    /* Version of the order function: must be equal to resume. */
    uint64_t order_version;
    /* Hash of order kind, page parameters, subset, weights, repeats, and of the weights of sources
     * with their changes. A resume needs the same. */
    uint64_t order_hash;
    /* Version of the rule of random parameters (augment.h): must be equal to resume. */
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
 * PST_ERROR_UNSUPPORTED: there is no such GPU, io_uring or page-locked memory, and the options
 *     insist on it.
 * PST_ERROR_DEVICE: the GPU or its driver failed. PST_ERROR_IO, PST_ERROR_NOT_FOUND: a file
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

/* Returns the number of batches that this rank gets in a whole epoch, by the ranks that were set
 * last. It gets exactly as many, whatever samples are bad.
 *
 * Any thread. */
uint64_t pst_loader_n_batches(const pst_loader *loader);

/* Returns the number of batches that a rank gets from a position to the end of its epoch. Nothing
 * is changed.
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
 * PST_ERROR_ARGUMENT: rank is not below world_size, and nothing is changed. PST_ERROR_FORKED.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_set_ranks(pst_loader *loader, uint32_t rank,
                                                     uint32_t world_size, struct pst_error *err);

/* Starts an epoch from its first batch. Work under way for another place is cancelled and waited
 * for. Once four epochs were begun in a row, the first `prefetch` batches of the next one are made
 * while the caller has the last ones or is away; pst_loader_stats counts them when they are made.
 * They are delivered if that epoch begins with the same ranks, order and settings.
 *
 * epoch: any number. Order and random parameters are functions of it.
 * PST_ERROR_FORKED, PST_ERROR_MEMORY, PST_ERROR_DEVICE, PST_ERROR_INTERNAL.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_begin(pst_loader *loader, uint64_t epoch,
                                                 struct pst_error *err);

/* Continues at a saved state. The state may come from a run with another number of ranks. If its
 * epoch has no batch left for any rank (its end, or drop_last), the loader starts the next epoch.
 *
 * state: as pst_loader_state gave it. Copied.
 *
 * PST_ERROR_ARGUMENT: the state belongs to another order, seed, augmentation rule or number of
 *     samples, or its position is beyond n_samples. Nothing is changed. PST_ERROR_FORKED,
 *     PST_ERROR_MEMORY, PST_ERROR_DEVICE.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_resume(pst_loader *loader,
                                                  const struct pst_loader_state *state,
                                                  struct pst_error *err);

/* Gives the place after the batch that was returned last. After the epoch's last batch, and after
 * PST_END, that is epoch + 1, position 0.
 *
 * state: the caller's struct, written as a whole. Its size never changes.
 *
 * Cannot fail. One thread at a time for each loader. */
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
 * PST_ERROR_IO, PST_ERROR_NOT_FOUND, PST_ERROR_DEVICE, PST_ERROR_MEMORY: reading or the GPU
 *     failed, and the epoch ends.
 * PST_ERROR_FORKED.
 *
 * One thread at a time for each loader. */
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
 * One thread at a time for each loader. */
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
 * Errors of samples, reading and GPUs as in pst_loader_next.
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
/* Sets a function that can end calls early: pst_loader_fetch and pst_loader_replay, which call it
 * before each row, and pst_loader_begin, pst_loader_resume, pst_loader_set and pst_loader_next,
 * while they wait for the host service. Such a call ends with PST_ERROR_CANCELLED; one that can
 * go on without the service does that at once instead. For pst_loader_open there is
 * pst_loader_options.interrupt.
 *
 * interrupt: called from now on; NULL, as at first: they run to their end.
 * ctx: given to interrupt as it is. It belongs to the caller and must live as long as interrupt is
 *     set.
 *
 * Do not call it while fetch or replay runs. */
void pst_loader_set_interrupt(pst_loader *loader, pst_interrupt_fn interrupt, void *ctx);

/* Batches */

/* Returns the number of rows, 0 to batch_size, or n of pst_loader_fetch. Any thread. */
uint32_t pst_batch_count(const pst_batch *batch);

/* Returns the number of fields: those of the data set that are delivered, in its order. Any thread.
 */
uint32_t pst_batch_n_fields(const pst_batch *batch);

/* Gives the name of a field.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 *
 * Returns a string that lives as long as the batch, or NULL if there is no such field. Any thread.
 */
const char *pst_batch_field_name(const pst_batch *batch, uint32_t i_field);

/* Gives the type of a field.
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

/* Gives the sample numbers of the rows, pst_batch_count() of them, in host memory.
 *
 * Returns a pointer that lives as long as the batch. Any thread. */
const int64_t *pst_batch_index(const pst_batch *batch);
/* Gives the rows' draws (augment.h) in the same way. */
const uint64_t *pst_batch_draws(const pst_batch *batch);

/* Gives the sample numbers as an i64 array (N), in the memory of the batch's other arrays.
 *
 * tensor: the caller's struct, written as a whole. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * Cannot fail. Any thread. */
void pst_batch_index_tensor(const pst_batch *batch, struct pst_tensor *tensor,
                            size_t tensor_nbytes);

/* Returns the device of the batch's memory: CUDA ordinal of the GPU, or -1 for host memory. Fields
 * of a batch on a GPU whose rows may differ in shape (bytes, text, boxes and so on) are in host
 * memory all the same.
 *
 * Any thread. */
int32_t pst_batch_device(const pst_batch *batch);

/* Gives a whole field in host memory, also if the batch lies on a GPU.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 * tensor: the caller's struct, written after success only. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * PST_ERROR_ARGUMENT: there is no such field, it is ragged, or the GPU alone has it (pixels).
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_batch_host_tensor(const pst_batch *batch, uint32_t i_field,
                                                      struct pst_tensor *tensor,
                                                      size_t tensor_nbytes, struct pst_error *err);

/* Announces that work on a CUDA stream is going to read the batch. The stream waits until the batch
 * is there. After the last release the batch's memory is not written before the stream has done the
 * work that it had then. No thread waits, only streams. Batches in host memory need no call:
 * nothing is done.
 *
 * stream: handle of a stream of the batch's GPU. 0 or 1: the legacy default stream. 2: the
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

/* Says how the batch's images were mixed (pst_loader_options.mixes).
 *
 * mix: receives it; mix_nbytes: sizeof *mix.
 *
 * Returns false, and sets nothing, if they were not. Any thread. */
bool pst_batch_mix(const pst_batch *batch, struct pst_batch_mix *mix, size_t mix_nbytes);

/* Adds an owner. Each owner releases once. Any thread. */
void pst_batch_retain(pst_batch *batch);

/* Gives up one owner's share. The last one gives the memory back to the loader, or frees it if the
 * loader is closed.
 *
 * batch: NULL is allowed.
 *
 * Any thread. */
void pst_batch_release(pst_batch *batch);

/* Watching */

/* Says where the bytes of an item come from, in the order in which a loader asks. */
enum pst_tier {
    PST_TIER_MEMORY = 0, /* the cache of this process */
    PST_TIER_HOST = 1,   /* the cache of this host's service */
    PST_TIER_FLEET = 2,  /* memcached servers */
    PST_TIER_STORAGE = 3 /* the data set's files */
};
#define PST_TIERS_MAX 8 /* room for tiers that later versions have */

/* Gives the short name of a tier: "memory", "host", "fleet", "storage".
 *
 * i: an enum pst_tier.
 *
 * Returns a static string; NULL after the last tier. Any thread. */
const char *pst_tier_name(uint32_t i);

/* Counts what one tier has given to a loader since open. */
struct pst_tier_stats {
    /* Items, or for the storage reads, of which an item may take several; and their bytes. */
    uint64_t n_hits, nbytes;
    /* Time from the request to the last byte, which is that of the look-up for tiers that copy
     * nothing: the mean, and what 99 of 100 do not exceed, up to a quarter more. Nanoseconds; 0: no
     * hit yet. */
    uint64_t mean_ns, p99_ns;
    /* nbytes over the time with at least one request under way; 0 for tiers that copy nothing. */
    double bytes_per_second;
};

/* Counts what a loader did since open. Times are in nanoseconds. Workers decode rows, wait for
 * storage, or are idle because the caller is slower. Without workers the calling thread is the
 * worker, and waits inside pst_loader_next. Counters include all rows of delivered batches, and may
 * include rows of later batches. */
struct pst_loader_stats {
    uint64_t n_batches, n_samples; /* Delivered batches and samples. */
    /* Samples: bad, replaced, repeated to fill ranks. */
    uint64_t n_bad, n_replaced, n_padded;
    uint64_t nbytes_read, n_reads; /* n_reads: requests to the storage */
    /* Time in which at least one read was under way; not a sum over reads. */
    uint64_t read_ns;
    /* Time of workers at their rows, summed over workers, without their waiting. */
    uint64_t decode_ns;
    uint64_t caller_wait_ns; /* Time of the caller in pst_loader_next. */
    uint64_t host_memory, host_memory_used, host_memory_peak;
    /* Batch slots that exist; slots that the caller holds now. */
    uint32_t n_slots, n_slots_held;
    uint32_t n_workers;
    /* The storage in use: THREADS, URING, MEMORY. */
    enum pst_storage_kind storage;
    /* Reason why io_uring is not in use, or not any more; "" otherwise. */
    char storage_reason[96];
    uint64_t n_fallback_direct; /* Files without O_DIRECT. */
    /* Images decoded whole although only a region was needed. */
    uint64_t n_fallback_region;
    uint64_t nbytes_decoded;  /* Pixels that decoders delivered. */
    char cpu_level[16];       /* "c", "avx2", "avx512", "neon". */
    uint64_t n_units_decoded; /* PLI: units that were decoded. */
    /* PLI: all units of the images whose units were decoded. */
    uint64_t n_units_whole;
    /* PLI: images of which only head and touched units were read. */
    uint64_t n_partial_reads;
    uint64_t n_scaled;      /* Images decoded at a part of their size (scaled_decode). */
    uint64_t n_cpu_samples; /* Images and masks decoded by the CPU. */
    uint64_t n_gpu_samples; /* Images and masks decoded by the GPU. */
    /* Images and masks meant for the GPU that the CPU decoded, because of their form or for lack of
     * space. */
    uint64_t n_gpu_fallback;
    /* Reason of the last one; "" if there was none. */
    char gpu_fallback_reason[96];
    /* Rows that found no space at first, and came in another round. */
    uint64_t n_gpu_again;
    /* Bytes of images uploaded to the GPU. */
    uint64_t nbytes_upload;
    uint64_t device_memory, device_memory_used, device_memory_peak;
    /* The GPU's ordinal; -1: batches in host memory. */
    int32_t device;
    uint64_t fallbacks[PST_FALLBACKS_MAX]; /* Counts by enum pst_fallback. */
    /* Time of workers without a row while a read was under way, summed over workers. */
    uint64_t worker_read_wait_ns;
    /* Time of workers without a row while no read was under way, summed over workers: all wanted
     * batches are made. */
    uint64_t worker_idle_ns;
    /* Level of each room's kernels: "augment avx512, pli avx2, ...". */
    char cpu_rooms[96];
    /* Boxes dropped in prepared samples: see pst_field_output.min_area. */
    uint64_t n_boxes_dropped;
    /* Items taken from the cache, and their bytes. */
    uint64_t n_cache_hits, nbytes_cache_hit;
    /* Items that were read because the cache did not have them; 0 without a cache. */
    uint64_t n_cache_misses;
    /* The limit of the cache, the used part of it, and the number of its items of this data set. */
    uint64_t cache_nbytes, cache_nbytes_used, n_cache_items;
    /* Images that this loader re-coded for cache or fleet, or that the host service re-coded
     * because of it, and by how many bytes that made smaller those that became smaller. */
    uint64_t n_cache_recoded, nbytes_cache_saved;
    /* Images that this loader, or the host service because of it, put into the cache as they are
     * stored although cache_form is for them. */
    uint64_t n_cache_not_recoded;
    /* Host cache: items that the host service read because of this loader, and their stored bytes.
     * They are misses, and no part of nbytes_read. */
    uint64_t n_cache_fetched, nbytes_cache_fetched;
    /* Batches that came from the group of `share`, and how many of them were copied as a whole
     * because page-locked, too many held, or of rows that are no whole pages; on a GPU, because the
     * driver does not page-lock the service's memory. */
    uint64_t n_shared, n_shared_copied;
    /* The newest epoch that any loader of the group has begun, as far as this loader knows. Groups
     * of the same name with other transforms count, too. UINT64_MAX: none. */
    uint64_t share_epoch;
    /* Samples that the service has prepared for the group so far. */
    uint64_t share_samples;
    bool is_sharing; /* the host service is there */
    /* Why the last batch that was not shared was not; "": all were. */
    char share_reason[96];
    struct pst_tier_stats tiers[PST_TIERS_MAX]; /* by enum pst_tier */
    /* What the service has done so far for this loader's group and for groups of the same name,
     * data set and order that have other transforms, all together. Images and masks that it
     * decoded; that a group took from another one's decode; and, of those decoded, ones of which
     * another group needs other pixels (of another colour or scale, say). */
    uint64_t share_decoded, share_decoded_shared, share_decoded_apart;
    /* Stored items that it read, and bytes of them; items that a group took from another one's
     * read, and bytes of them. */
    uint64_t share_read, share_nbytes_read, share_read_shared, share_nbytes_read_shared;
    /* Items that it found in the host cache. */
    uint64_t share_cached;
    /* Items that it gave up, for want of memory, before all groups had come to them. */
    uint64_t share_given_up;
    /* Each entry is for the form with that number in options.form_parts: its part now, and how many
     * rows were read in it. */
    double form_parts[PST_MAX_VARIANTS];
    uint64_t form_rows[PST_MAX_VARIANTS];
    uint64_t n_form_rows_other;  /* rows whose sample has not the form that they were given */
    uint64_t n_form_corrections; /* MEASURED: how often parts were moved */
    /* How many of n_cache_hits were pictures at the training resolution. */
    uint64_t n_cache_training_hits;
    /* PST_ORDER_PAGES: reads that came in a neighbour's request, so n_reads does not count them;
     * bytes between such reads, thrown away; reads of a folder's files in the order of the disk. */
    uint64_t n_merged_reads, nbytes_gap, n_ordered_reads;
    /* Why the host cache is not used now; "" if it is, or if there is none. */
    char host_reason[256];
    /* Items that were used although the data set has no checksum of them: files of plain folders,
     * items of other people's files whose index has none, and all items with no_verify. What a
     * decoder compares by itself, as that of PNG does, is not looked at here. */
    uint64_t n_unchecked;
    /* Tables whose pages are compressed: the number of items taken from a page that was decoded
     * before for another item; the number of pages decoded; and the memory of the pages that are
     * kept, which is a part of host_memory. */
    uint64_t n_page_hits, n_pages_decoded, pages_nbytes;
    /* PST_CACHE_RECODE_IDLE: items of the cache that were not looked at yet, and the time that
     * workers, or the host service because of this loader, spent on re-coding others, a part of
     * none of the times above. */
    uint64_t n_cache_to_recode, cache_recode_ns;
};

/* Gives the counters since open. They include all rows of delivered batches, and may include rows
 * of later batches. In a forked child all are zero.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_loader_stats(const pst_loader *loader, struct pst_loader_stats *stats,
                      size_t stats_nbytes);

/* Returns the number of bad samples so far whose place and cause are kept, at most 4,096.
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
