/* loader.h - batches of samples, in an order that is a pure function of (seed, epoch, data set).
 *
 *     pst_loader_open -> [pst_loader_begin -> pst_loader_next ... until PST_END]* ->
 * pst_loader_close
 *
 * Position p of an epoch holds sample order(seed, epoch, p). With W ranks and B samples per batch,
 * batch b of rank r holds the neighbouring positions (b*W + r)*B + i for i in 0..B-1. Step b of all
 * ranks together covers neighbouring positions, too. So the order does not depend on W, and
 * training may resume with another W. If fewer than W*B positions are left (L), the last step
 * divides them evenly: with padding each rank has ceil(L/W) neighbouring positions, padded at the
 * end; without padding it has floor(L/W), and the first L%W ranks have one more.
 *
 * Threads: one thread at a time may call open/begin/next/close of a loader. Any thread may read and
 * release batches, also after the loader was closed. */
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

/* A loader: its threads, its buffers, and an order over one data set. */
typedef struct pst_loader pst_loader;

/* The order in which an epoch visits the samples. */
enum pst_order {
    PST_ORDER_SEQUENTIAL = 0,
    /* Global shuffle by a keyed bijection of 0..n-1. */
    PST_ORDER_SHUFFLED = 1,
    /* Page-aware shuffle: see pst_loader_options.page_samples. */
    PST_ORDER_PAGES = 2
};
/* Policies for a bad sample: one whose bytes are damaged, cut short or of a kind that no
 * decoder takes, or whose file in a folder is missing. Other failures end the epoch with their own
 * error, whatever on_error is: a device or mount that fails, a folder or shard that is gone, a
 * missing permission, a memory limit, an operation that cannot be applied. */
enum pst_on_error {
    /* pst_loader_next returns the error in place of the batch. */
    PST_ON_ERROR_RAISE = 0,
    /* The bad sample is left out, so the batch has a row less; see pst_on_empty. */
    PST_ON_ERROR_SKIP = 1,
    /* Another sample, chosen by a pure function of (seed, epoch, position), replaces it. */
    PST_ON_ERROR_REPLACE = 2
};
/* Policies for a batch whose samples are all bad, with PST_ON_ERROR_SKIP. Under either policy each
 * rank gets as many batches as pst_loader_n_batches says. */
enum pst_on_empty {
    /* The batch gets one other sample, the one that PST_ON_ERROR_REPLACE would choose for its first
     * position. n_replaced counts it. */
    PST_ON_EMPTY_FILL = 0,
    /* The batch is delivered with 0 rows. An epoch in which a rank has no good sample ends with the
     * last sample's error instead of PST_END. */
    PST_ON_EMPTY_DELIVER = 1
};
/* When an epoch of a mixture with source_weights ends. Sources of weight 0 are ignored. A block is
 * a run of source_quota positions. */
enum pst_source_stop {
    /* At the end of the block in which every sample of every source has been delivered at least
     * once. */
    PST_SOURCE_STOP_ALL = 0,
    /* At the end of the last block before a source delivers any sample a second time. */
    PST_SOURCE_STOP_FIRST = 1,
    /* Practically never: an epoch has nearly 2^62 positions. */
    PST_SOURCE_STOP_NEVER = 2
};
/* Value of source_quota: one block holds the whole epoch. */
#define PST_QUOTA_EPOCH UINT32_MAX

/* How stored bytes are read. */
enum pst_storage_kind {
    /* io_uring if the kernel allows it, else a pool of threads. */
    PST_STORAGE_AUTO = 0,
    /* A pool of threads that call pread. */
    PST_STORAGE_THREADS = 1,
    PST_STORAGE_URING = 2, /* io_uring; an error without it. */
    /* All files with items are read into memory at open. This memory counts in host_memory. */
    PST_STORAGE_MEMORY = 3
};

/* The form in which a cache keeps images that will be decoded. Batches are bit-identical in all
 * forms. */
enum pst_cache_form {
    /* The stored bytes. */
    PST_CACHE_FORM_STORED = 0,
    /* JPEGs are re-coded as pli-jpeg once, by the worker that has just decoded them for the first
     * time. A pli-jpeg takes less cache memory and decodes faster. Other images are kept as stored.
     * So are JPEGs that pli-jpeg does not support or does not make smaller, and those that need
     * more memory to re-code than there is; PST_FALLBACK_CACHE_FORM counts them. For re-coding, the
     * decoding threads share 1/8 of host_memory, at most 64 MiB for each thread, or nothing if
     * host_memory has less left. scaled_decode has no effect on re-coded images, as it has none on
     * JPEGs. */
    PST_CACHE_FORM_PLI_JPEG = 1,
    /* As PST_CACHE_FORM_PLI_JPEG, and lossless images and raw pixels are re-coded as PLI of the
     * small tier. PNGs usually become smaller and decode many times as fast. Lossy WebP, images
     * with a palette, and images other than JPEG with an EXIF orientation stay as stored. */
    PST_CACHE_FORM_PLI = 2,
    /* As PST_CACHE_FORM_PLI with the fast tier of PLI, which takes more memory and decodes even
     * faster. */
    PST_CACHE_FORM_PLI_FAST = 3,
    /* All images without a palette are kept as pixels, which need no decoding but several times the
     * memory. Images of a field with scaled_decode are kept as stored. */
    PST_CACHE_FORM_RAW = 4
};

/* When images are re-coded into the form that a cache keeps. */
enum pst_cache_recode {
    /* When an item enters the cache, by the worker that has just decoded it. */
    PST_CACHE_RECODE_AT_ONCE = 0,
    /* When workers are idle: the cache first keeps an item as stored, and the re-coded item
     * replaces it later, in this epoch, between epochs or in a later epoch. A worker starts no item
     * while the caller waits for a batch, unless another worker is free. Items of the host cache
     * are re-coded by its service, one at a time for each idle worker. The cache reserves 1/32 of
     * its bytes for items being re-coded. Batches are bit-identical, whatever is re-coded already.
     * If the cache has no memory for its list of items (8 bytes each), items are re-coded at once.
     * PST_ERROR_ARGUMENT: there is no cache, cache_form is STORED, num_workers is 0, there is a
     * fleet, or cache_resolution is TRAINING. */
    PST_CACHE_RECODE_IDLE = 1
};

/* The resolution at which a cache keeps images and masks. Batches are bit-identical in both cases.
 */
enum pst_cache_resolution {
    /* Images are kept at the size in which they are stored. */
    PST_CACHE_RESOLUTION_FULL = 0,
    /* After the operations at the start of the field's chain that are the same for every sample
     * (Resize, CenterCrop, Pad): of the pictures that they make, the cache keeps the one with the
     * fewest pixels, in the delivered channels, bits and orientation. A hit continues the chain
     * from there. Random parameters, boxes and keypoints are those of the whole chain. cache_form
     * RAW keeps pixels, PLI_FAST a PLI of the fast tier, all others a PLI of the small tier, which
     * may be longer than the stored JPEG. Whole items are kept, in the form cache_form, for images
     * that these operations do not make smaller, for masks that are rotated with their image, and
     * for fields whose chain starts with other operations. Loaders whose chains start with the same
     * operations share items.
     *
     * pst_loader_open gives PST_ERROR_ARGUMENT if no image's chain starts with such an operation
     * (the text names the one that is in the way), with scaled_decode, with a fleet, and with
     * batches on a GPU. */
    PST_CACHE_RESOLUTION_TRAINING = 1
};

/* Policies for the pages that reading leaves in the kernel's page cache. */
enum pst_page_cache {
    PST_PAGE_CACHE_KEEP = 0, /* The kernel decides. */
    /* The kernel is told to drop pages after they are read (POSIX_FADV_DONTNEED). */
    PST_PAGE_CACHE_DROP = 1,
    /* Files are read with O_DIRECT. A file system without it is treated as DROP and counted as a
     * fall-back. */
    PST_PAGE_CACHE_DIRECT = 2
};

/* In which memory the arrays of a batch lie. */
enum pst_placement {
    PST_PLACEMENT_HOST = 0, /* Host memory. */
    /* The memory of the GPU pst_loader_options.device, for all arrays. Images and masks may differ
     * in size, unless `share` is set. Rows of all other fields may differ in shape, too, also with
     * pst_field_output.ragged. Rows of boxes, keypoints, arrays and sound that do are uploaded with
     * the batch's other arrays, in one block, in which a row begins at a multiple of 64 bytes.
     * Bytes, text, JSON and what is delivered encoded stay in host memory. */
    PST_PLACEMENT_DEVICE = 1
};

/* Where the images of a batch on a GPU are decoded. The result is the same. */
enum pst_decode_place {
    /* The GPU decodes the forms that it supports (raw, PLI of pixels and of JPEGs); the CPU decodes
     * the others, such as JPEG files. */
    PST_DECODE_AUTO = 0,
    /* The CPU also makes features of sound, which a GPU makes otherwise if they have one shape. */
    PST_DECODE_CPU = 1,
    /* As AUTO in this version; later versions may change AUTO, but not GPU. An error without a
     * device. */
    PST_DECODE_GPU = 2
};

/* Whether batches in host memory are page-locked ("pinned"), so that a GPU can copy from them while
 * the CPU goes on. The CUDA driver locks the memory for all GPUs; building and linking need no
 * driver. The arrays of whole batches are page-locked; rows with memory of their own (ragged
 * fields) are not. The memory is allocated with the first batches, kept, and counts in host_memory.
 *
 * A batch may be released while the GPU still copies from it in the legacy default stream (torch's
 * usual stream), or in a stream that the default stream waits for. The memory is reused only after
 * the work that the stream had at the release. It is the stream of the GPU whose context is current
 * when the loader is opened, else of GPU 0. Copies in other streams must have finished before the
 * last release. While the GPU is behind, the loader uses further batch slots, within host_memory.
 * If host_memory is used up, pst_loader_next waits for the GPU. */
enum pst_pin {
    PST_PIN_NEVER = 0,
    /* Page-locked if there is a driver and a GPU and the memory can be locked. PST_FALLBACK_PIN
     * counts the batch slots that are not page-locked. */
    PST_PIN_AUTO = 1,
    /* PST_ERROR_UNSUPPORTED at open if there is no driver or GPU. */
    PST_PIN_ALWAYS = 2
};

/* One form that a part of a field's rows is read in. Zero-initialise. */
struct pst_form_part {
    /* The form: the first variant that has it. NONE: the variant number `variant`, whatever its
     * form. */
    enum pst_form form;
    uint32_t variant; /* only with NONE */
    /* Share of the rows, above 0. Shares are divided by their sum. */
    double part;
};

/* How rows are assigned to forms. Numbers are stable. */
enum pst_form_choice {
    /* By the row's number among the rows of its rank in the epoch. A batch differs from the wanted
     * shares by less than one row for two forms (less than n - 1 rows for n forms), and the next
     * batch compensates. Only variants with equal pixels, by the data set's checksums, may replace
     * each other. PST_ERROR_ARGUMENT for a field that is delivered as stored bytes or with
     * scaled_decode, because these results differ between forms. */
    PST_FORM_CHOICE_ROWS = 0,
    /* By the sample and the loader's seed, so a sample has the same form in all epochs. The forms
     * may have different pixels. */
    PST_FORM_CHOICE_SAMPLES = 1,
    /* As ROWS, but during training the loader moves shares towards the form that needs less of the
     * scarce resource, processor time or storage. Pixels and order do not change. Refused where
     * ROWS is. */
    PST_FORM_CHOICE_MEASURED = 2
};

/* Options of a loader: fields, order, threads and limits. Zero-initialise, then set struct_size,
 * and with `fields` also field_nbytes and op_nbytes. A member that is 0 has its default. Arrays and
 * strings are read during pst_loader_open only. */
struct pst_loader_options {
    size_t struct_size;
    uint32_t batch_size; /* 0 = 1 */
    enum pst_order order;
    uint64_t seed;
    /* Rank and number of ranks for the first epoch; world_size 0 = 1. See pst_loader_set_ranks. */
    uint32_t rank, world_size;
    /* False: the epoch is padded with samples from its start so that every rank has the same number
     * of samples (as torch's DistributedSampler does); the last batch may be short. True: only
     * whole batches are delivered, and the rest of the epoch is left out. */
    bool drop_last;
    /* Number of decoding threads; 0 = all work is done in the calling thread. */
    uint32_t num_workers;
    /* Number of reading threads with PST_STORAGE_THREADS; 0 = 4. */
    uint32_t io_threads;
    /* Number of batches prepared ahead of the caller, 1 or more; 0 = 2. */
    uint32_t prefetch;
    /* Hard limit in bytes for batch slots, read buffers and scratch memory; 0 = 4 GiB. If it is
     * short, rows wait; which samples are delivered does not depend on it. PST_ERROR_LIMIT at open
     * if it is less than two batches (the caller holds one while the next is made), twice the
     * stored bytes of the largest sample, and the first scratch memory. PST_ERROR_LIMIT later if
     * one image needs more scratch memory than can be made free. */
    uint64_t host_memory;
    enum pst_on_error on_error;
    /* SKIP, REPLACE: most bad samples in an epoch. One more gives PST_ERROR_LIMIT, with place and
     * cause of the last bad sample. 0 = no limit. */
    uint64_t max_errors;
    const struct pst_field_output *fields;
    size_t n_fields;
    bool only_listed;
    /* Subset: these samples, in this order, instead of 0..count-1. Copied. */
    const uint64_t *indices;
    uint64_t n_indices;
    /* A weight for each sample (of the subset); copied. As many samples as there are in total are
     * drawn, with replacement. `order` must be SHUFFLED. */
    const double *weights;
    /* PST_ORDER_PAGES: samples in a page (neighbours on disk; in folders by path); 0 = 16. */
    uint32_t page_samples;
    /* PST_ORDER_PAGES: number of pages that are mixed with each other; 0 = 64. Position p holds a
     * sample drawn uniformly from window_pages random pages. */
    uint32_t window_pages;
    enum pst_storage_kind storage;
    enum pst_page_cache page_cache;
    /* Limit of the reading rate in bytes per second (token bucket), for tests and predictions; 0 =
     * none. */
    double throttle_bytes_per_second;
    /* Seconds of delay added to each read request; 0 = none. */
    double throttle_latency_seconds;
    /* True: checksums of stored items are not compared when they are read. */
    bool no_verify;
    uint64_t max_pixels;          /* maximum number of pixels of an image; 0 = 1 << 28 */
    enum pst_placement placement; /* where the batches' arrays lie */
    /* CUDA ordinal of the GPU for PST_PLACEMENT_DEVICE, 0 for the first. With PST_PLACEMENT_HOST it
     * must be 0 or -1. */
    int32_t device;
    enum pst_decode_place decode;
    /* PST_DECODE_AUTO and _GPU: part of each batch's rows that the GPU prepares, its first rows; 0
     * = all. */
    double gpu_part;
    /* Hard limit in bytes of GPU memory; 0 = all that the GPU has. */
    uint64_t device_memory;
    enum pst_on_empty on_empty; /* For PST_ON_ERROR_SKIP. */
    /* True: each sample is delivered once over all ranks, for validation. Ranks then may differ by
     * one sample and so sometimes by one batch. Not with drop_last. */
    bool no_epoch_padding;
    /* Page-locking of batches in host memory; see enum pst_pin. */
    enum pst_pin pin_memory;
    /* sizeof(struct pst_field_output): the size of an element of `fields`. */
    size_t field_nbytes;
    /* sizeof(struct pst_op): the size of an element of `ops` in each of `fields`. */
    size_t op_nbytes;
    /* Cache that stored bytes are added to when they are read, and taken from later: of this
     * process (pst_cache_open) or of the host (pst_cache_open_host). NULL: none. The loader holds a
     * reference. PST_ERROR_ARGUMENT with PST_STORAGE_MEMORY, which has all bytes in memory. If the
     * data set was made by other software and its index has no checksums, a loader with a cache of
     * this process computes them while it reads. When it has read all items, it writes the
     * checksums to the index, at the end of the epoch or when it is closed. */
    struct pst_cache *cache;
    /* The form in which cache and fleet keep images and masks; STORED without them. A re-coded item
     * that is longer than the stored item is kept as stored if the cache has no memory for it, and
     * always in a fleet; PST_FALLBACK_CACHE_FORM counts it. */
    enum pst_cache_form cache_form;
    /* File to which events of all threads are written, as JSON for chrome://tracing and
     * ui.perfetto.dev; "%p" in the path becomes the process's number. NULL: the path in the
     * environment variable PENSTOCK_TRACE, if set; "": none. If another process or loader writes
     * the same file, ".2" to ".64" is appended. The file is complete when the loader is closed, but
     * viewers also load what a killed process leaves. Tracing measures each row in detail, which
     * costs some microseconds a row. */
    const char *trace;
    /* Which samples the cache admits: one byte for each sample of the data set, 0 for samples that
     * are read each time (pst_cache_plan computes it). NULL: all samples, in the order in which
     * they are read. Items already in the cache are used in any case. Copied. */
    const uint8_t *cache_plan;
    uint64_t n_cache_plan; /* pst_dataset_count(), or 0 without a plan */
    /* Name of a group, 1 to 127 bytes; NULL: none. The loaders of this user on this machine that
     * name the same group, data set, and options for samples, order and transforms get their
     * batches from the host service (service.h), which reads, decodes and augments each sample once
     * per epoch for all of them. batch_size, ranks, threads, memory, on_error and pin_memory may
     * differ. Batches are bit-identical to those of a loader alone. Large arrays are not copied;
     * writing into them does not change those of other loaders.
     *
     * Loaders may join, leave and end at any time. A loader that is not near the position of any
     * other gets separate preparation until it meets the others. A loader prepares the rest of its
     * epoch itself if it is far behind the others or its service is lost; PST_FALLBACK_SHARE counts
     * such batches, and pst_loader_stats.share_reason says why. A rank whose last batch has
     * padding, and a loader that meets a bad sample, do so, too. host_memory is as large as for a
     * loader alone.
     *
     * A loader that begins the epoch after the group's newest epoch waits for the others.
     *
     * If batches lie on a GPU, CPUs still prepare the shared batches. The loader page-locks the
     * service's memory for reading, or copies rows to page-locked memory of its own, and uploads
     * them. Batches that it prepares itself are decoded as `decode` says. Not with PST_DECODE_GPU
     * or scaled_decode. */
    const char *share;
    /* Path of the host service's socket; NULL: the default of service.h. */
    const char *socket;
    /* Program that is started as the host service if none runs, such as "penstock". The environment
     * variable PENSTOCK_SERVE names another one instead. NULL: no program is started. */
    const char *service;
    /* Seconds without a message after which the host service counts as lost; 0 = 10. A working
     * service sends one every second. */
    double share_wait_seconds;
    /* Servers (<penstock/fleet.h>) that are asked for items which the cache lacks, and that get, in
     * the background, items which they lack. NULL: none. The loader holds a reference. An item that
     * a server on this host has or takes is not kept in `cache` as well. PST_ERROR_ARGUMENT with
     * PST_STORAGE_MEMORY. */
    struct pst_fleet *fleet;
    /* Forms that the rows of `form_field` are divided over, up to PST_MAX_VARIANTS; 0: each row has
     * the first allowed variant. A sample without the form assigned to it has the first allowed
     * variant, too. Not with `share`. Copied. */
    const struct pst_form_part *form_parts;
    uint32_t n_form_parts;
    size_t form_part_nbytes; /* sizeof(struct pst_form_part) */
    const char *form_field;  /* an image or mask; NULL: the first delivered image */
    enum pst_form_choice form_choice;
    /* Resolution of cached images; must be FULL without `cache`. */
    enum pst_cache_resolution cache_resolution;
    /* Ways of mixing the images of `mix_field` within each batch (<penstock/augment.h>, "Mixing the
     * images of a batch"); 0: none. PST_ERROR_ARGUMENT if images may differ in size, or if masks,
     * boxes or keypoints are delivered, too, which only mosaics can move. Copied. pst_loader_fetch
     * does not mix. */
    const struct pst_mix *mixes;
    uint32_t n_mixes;       /* at most PST_MAX_MIXES */
    size_t mix_nbytes;      /* sizeof(struct pst_mix) */
    const char *mix_field;  /* name of an image field; NULL: the first one that is delivered */
    size_t audio_op_nbytes; /* sizeof(struct pst_audio_op) */
    /* Maximum number of requests that throttled storage serves at once, at most 256; 0 = no limit.
     * With 1, latencies add up. */
    uint32_t throttle_requests;
    uint32_t reserved; /* must be 0; was struct padding before */
    /* Number of neighbouring positions that hold the same sample, up to 65,536; 0 = 1 (augment.h,
     * Repeats). */
    uint32_t repeats;
    /* Function that can end pst_loader_open with PST_ERROR_CANCELLED while it waits for the host
     * service; NULL: none. Used during pst_loader_open only; see pst_loader_set_interrupt. */
    pst_interrupt_fn interrupt;
    void *interrupt_ctx;
    /* Mixtures (<penstock/mixture.h>): a weight for each source, 0 or more, in any unit; copied.
     * NULL: each sample is delivered once. With weights, each source gets a part of the epoch's
     * positions in proportion to its weight. A source delivers each of its samples, or of those in
     * `indices`, once, then all of them again in a new order. A repeated sample has other random
     * parameters (pst_batch_draws). Not with `weights`, `repeats`, PST_ORDER_PAGES or `share`. */
    const double *source_weights;
    /* For each weight, the number of the first sample that it applies to. The first number is 0,
     * and numbers never decrease, so neighbouring sources can share a weight. NULL: one weight for
     * each source. Copied. */
    const uint64_t *source_firsts;
    uint32_t n_source_weights; /* 1 to 1024 with source_firsts; else the number of sources */
    /* Number of positions in a block. In each block a source has its share, rounded so that its
     * total so far is off by less than one sample. `order` applies within the block. 0 = batch_size
     * at open, so each batch has the shares on any number of ranks. A resume needs the same value,
     * even with another batch_size. */
    uint32_t source_quota;
    enum pst_source_stop source_stop;
    enum pst_cache_recode cache_recode;
};

/* A position in the sequence of batches: 7 numbers without pointers. Their meaning is stable across
 * versions. */
struct pst_loader_state {
    uint64_t epoch;
    /* Number of positions of the epoch that all ranks together have delivered, below n_samples when
     * pst_loader_state gives it. As input, n_samples means position 0 of the next epoch. */
    uint64_t position;
    uint64_t seed;
    /* Number of positions in an epoch: the samples of the data set or subset, or with
     * source_weights the number that results from source_stop. A resume needs the same number. */
    uint64_t n_samples;
    /* Version of the order function. A resume needs the same version. */
    uint64_t order_version;
    /* Hash of all that determines the order: its kind, page parameters, subset, weights, repeats,
     * and the weights of sources with their changes. A resume needs the same hash. */
    uint64_t order_hash;
    /* Version of the rule for random parameters (augment.h). A resume needs the same version. */
    uint64_t augment_version;
};

/* Opens a loader: decides how fields are decoded and delivered, divides host_memory, opens files
 * and starts threads. Before pst_loader_begin it reads no sample, except headers of images whose
 * size it needs.
 *
 * dataset: an open data set. The loader adds itself as an owner, so the caller may close it at
 *     once.
 * options: NULL for the defaults. Read during the call only: fields, operations, names, indices
 *     and weights are copied.
 * out: receives the loader, to be closed by pst_loader_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: an option is invalid, contradicts another option, or does not fit the data
 *     set; the text names it.
 * PST_ERROR_VERSION: an option is set that this version of the library does not have.
 * PST_ERROR_LIMIT: host_memory or device_memory is too small; the text says how much is needed.
 * PST_ERROR_UNSUPPORTED: an option requires a GPU, io_uring or page-locked memory that there is
 *     not.
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
 * Waits for running reads and work. No other call of this loader may be in progress. */
void pst_loader_close(pst_loader **loader);

/* Returns the number of batches that this rank gets in a whole epoch, for the ranks that were set
 * last. Bad samples do not change the number.
 *
 * Any thread. */
uint64_t pst_loader_n_batches(const pst_loader *loader);

/* Returns the number of batches that a rank would get from a position to the end of its epoch. It
 * changes nothing.
 *
 * position: pst_loader_state.position, below n_samples.
 * rank: 0 to world_size - 1.
 * world_size: number of ranks, at least 1.
 *
 * Returns 0 if rank is not below world_size. Any thread. */
uint64_t pst_loader_n_batches_from(const pst_loader *loader, uint64_t position, uint32_t rank,
                                   uint32_t world_size);

/* Sets rank and world size for the next pst_loader_begin or pst_loader_resume. A loader may be
 * opened before the ranks are known, and ranks may change between epochs. The current epoch keeps
 * its ranks.
 *
 * rank: 0 to world_size - 1.
 * world_size: number of ranks; 0 means 1.
 *
 * PST_ERROR_ARGUMENT: rank is not below world_size, and nothing is changed. PST_ERROR_FORKED.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_set_ranks(pst_loader *loader, uint32_t rank,
                                                     uint32_t world_size, struct pst_error *err);

/* Starts an epoch from its first batch. Work for another place is cancelled, and the call waits
 * until it has ended. After four consecutive epochs, the loader prepares the first `prefetch`
 * batches of the next epoch while the caller has the last batches or does other things, and on slow
 * storage reads the first windows of PST_ORDER_PAGES. It delivers them if that epoch begins with
 * the same ranks, order and settings. pst_loader_stats counts them when they are made.
 *
 * epoch: any number. Order and random parameters depend on it.
 * PST_ERROR_FORKED, PST_ERROR_MEMORY, PST_ERROR_DEVICE, PST_ERROR_INTERNAL.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_begin(pst_loader *loader, uint64_t epoch,
                                                 struct pst_error *err);

/* Continues from a saved state, which may come from a run with another number of ranks. If the
 * epoch has no batch left for any rank, the loader starts the next epoch.
 *
 * state: as pst_loader_state gave it. Copied.
 *
 * PST_ERROR_ARGUMENT: the state has another order, seed, augmentation version or number of samples,
 *     or its position is beyond n_samples. The loader is unchanged. PST_ERROR_FORKED,
 *     PST_ERROR_MEMORY, PST_ERROR_DEVICE.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_resume(pst_loader *loader,
                                                  const struct pst_loader_state *state,
                                                  struct pst_error *err);

/* Gives the place after the batch that was returned last. After the last batch of an epoch, and
 * after PST_END, it is position 0 of the next epoch.
 *
 * state: the caller's struct, written as a whole. Its size never changes.
 *
 * Cannot fail. One thread at a time for each loader. */
void pst_loader_state(const pst_loader *loader, struct pst_loader_state *state);

/* Returns the next batch. Blocks until the batch is complete.
 *
 * out: receives the batch, which belongs to the caller until pst_batch_release; NULL after any
 *     other status than PST_OK.
 *
 * PST_END: the epoch's last batch was returned before.
 * PST_ERROR_STATE: no epoch was begun.
 * PST_ERROR_LIMIT: the caller holds so many batches that no slot is free and host_memory allows no
 *     more: release some and call again. Also: there are more bad samples than max_errors, or one
 *     image needs more scratch memory than there is.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM, PST_ERROR_UNSUPPORTED and others:
 * with PST_ON_ERROR_RAISE, a sample of this batch is bad; `err` names it.
 * PST_ERROR_IO, PST_ERROR_NOT_FOUND, PST_ERROR_DEVICE, PST_ERROR_MEMORY: reading or the GPU
 *     failed, and the epoch ends.
 * PST_ERROR_FORKED.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_next(pst_loader *loader, pst_batch **out,
                                                struct pst_error *err);

/* Returns the next batch as pst_loader_next does, but waits only for a limited time.
 *
 * timeout_ns: nanoseconds to wait; 0 or less: return at once.
 * out: as in pst_loader_next.
 *
 * PST_ERROR_BUSY: the time has passed. No batch is lost; call again.
 * Others as in pst_loader_next.
 *
 * One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_next_timed(pst_loader *loader, int64_t timeout_ns,
                                                      pst_batch **out, struct pst_error *err);

/* Prepares the given samples in the calling thread, with the random parameters of an epoch
 * (map-style access). With PST_ON_ERROR_REPLACE and batches in host memory, another sample, chosen
 * by (seed, epoch, sample), replaces a bad one; otherwise a bad sample's error is returned at once.
 *
 * epoch: as in pst_loader_begin.
 * samples: n numbers below pst_dataset_count(), repeats allowed. Read during the call only.
 * n: 1 or more. May be more than batch_size.
 * out: receives a batch, which belongs to the caller until pst_batch_release; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: n is 0 or a number is too large.
 * PST_ERROR_CANCELLED: the interrupt function ended the call.
 * PST_ERROR_LIMIT: host_memory does not hold the batch, or the caller holds too many.
 * Errors of samples, reading and GPUs as in pst_loader_next.
 *
 * May be called while an epoch runs, by one thread at a time. */
PST_WARN_UNUSED enum pst_status pst_loader_fetch(pst_loader *loader, uint64_t epoch,
                                                 const uint64_t *samples, size_t n, pst_batch **out,
                                                 struct pst_error *err);

/* Prepares a batch of this rank again in the calling thread. It follows on_error, so the result is
 * bit-identical to the batch that pst_loader_next gave.
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
/* Sets a function that can end calls early. pst_loader_fetch and pst_loader_replay call it before
 * each row; pst_loader_begin, pst_loader_resume, pst_loader_set and pst_loader_next call it while
 * they wait for the host service. An interrupted call ends with PST_ERROR_CANCELLED, or continues
 * at once without the service if it can. For pst_loader_open there is pst_loader_options.interrupt.
 *
 * interrupt: called from now on; NULL (the initial value): calls are not interrupted.
 * ctx: passed to interrupt. It belongs to the caller and must live as long as interrupt is set.
 *
 * Do not call it while fetch or replay runs. */
void pst_loader_set_interrupt(pst_loader *loader, pst_interrupt_fn interrupt, void *ctx);

/* Batches */

/* Returns the number of rows, 0 to batch_size, or n of pst_loader_fetch. Any thread. */
uint32_t pst_batch_count(const pst_batch *batch);

/* Returns the number of fields. They are the delivered fields of the data set, in its order. Any
 * thread. */
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

/* True: rows of the field differ in shape, so use pst_batch_row. False: use pst_batch_tensor for
 *     the whole field.
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

/* Gives one row of a field, ragged or not, without the batch axis. Bytes, text, JSON, audio and
 * encoded images are u8 (n).
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 * row: 0 to pst_batch_count() - 1.
 * tensor: the caller's struct, written after success only. Its memory is the batch's, and lies
 *     where the batch lies; bytes, text and the like are always in host memory. On a GPU, the row
 *     of a padded field is a part of the padded array, so its strides may be larger than its shape.
 * tensor_nbytes: sizeof *tensor.
 *
 * PST_ERROR_ARGUMENT: there is no such field or row.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_batch_row(const pst_batch *batch, uint32_t i_field,
                                              uint32_t row, struct pst_tensor *tensor,
                                              size_t tensor_nbytes, struct pst_error *err);

/* Gives the sample number of each row: pst_batch_count() numbers in host memory.
 *
 * Returns a pointer that lives as long as the batch. Any thread. */
const int64_t *pst_batch_index(const pst_batch *batch);
/* Gives the draw number of each row (augment.h): pst_batch_count() numbers in host memory. */
const uint64_t *pst_batch_draws(const pst_batch *batch);

/* Gives the sample numbers as an i64 array (N), in the memory of the batch's other arrays.
 *
 * tensor: the caller's struct, written as a whole. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * Cannot fail. Any thread. */
void pst_batch_index_tensor(const pst_batch *batch, struct pst_tensor *tensor,
                            size_t tensor_nbytes);

/* Returns where the batch lies: the CUDA ordinal of its GPU, or -1 for host memory. Bytes, text,
 * JSON and encoded items are always in host memory.
 *
 * Any thread. */
int32_t pst_batch_device(const pst_batch *batch);

/* Gives a whole field in host memory, even if the batch lies on a GPU.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 * tensor: the caller's struct, written after success only. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * PST_ERROR_ARGUMENT: there is no such field, it is ragged, or it is only on the GPU
 * (pixels, and features of sound that the GPU makes).
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_batch_host_tensor(const pst_batch *batch, uint32_t i_field,
                                                      struct pst_tensor *tensor,
                                                      size_t tensor_nbytes, struct pst_error *err);

/* Gives one row of a field in host memory, even if the batch lies on a GPU.
 *
 * i_field: 0 to pst_batch_n_fields() - 1.
 * row: 0 to pst_batch_count() - 1.
 * tensor: the caller's struct, written after success only. Its memory is the batch's.
 * tensor_nbytes: sizeof *tensor.
 *
 * PST_ERROR_ARGUMENT: there is no such field or row, or it is only on the GPU (pixels).
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_batch_host_row(const pst_batch *batch, uint32_t i_field,
                                                   uint32_t row, struct pst_tensor *tensor,
                                                   size_t tensor_nbytes, struct pst_error *err);

/* Announces that work on a CUDA stream will read the batch. The stream waits until the batch is
 * complete. After the last release, the batch's memory is not reused before the stream has finished
 * the work that it had at that time. Only streams wait, no threads. For batches in host memory the
 * call does nothing.
 *
 * stream: handle of a stream of the batch's GPU. 0 or 1: the legacy default stream. 2: the
 *     per-thread default stream. Call this once for each stream before the stream uses the batch.
 *
 * PST_ERROR_DEVICE: the CUDA driver reported an error. PST_ERROR_FORKED.
 *
 * Any thread that holds the batch. */
PST_WARN_UNUSED enum pst_status pst_batch_await(pst_batch *batch, uint64_t stream,
                                                struct pst_error *err);

/* Says which epoch and step a batch belongs to.
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
 * Returns false, and writes nothing, if they were not mixed. Any thread. */
bool pst_batch_mix(const pst_batch *batch, struct pst_batch_mix *mix, size_t mix_nbytes);

/* Adds an owner. Each owner must call pst_batch_release once. Any thread. */
void pst_batch_retain(pst_batch *batch);

/* Gives up one owner's reference. The last release returns the memory to the loader, or frees it if
 * the loader is closed.
 *
 * batch: NULL is allowed.
 *
 * Any thread. */
void pst_batch_release(pst_batch *batch);

/* Statistics */

/* Where the bytes of an item come from, in the order in which a loader tries the tiers. */
enum pst_tier {
    PST_TIER_MEMORY = 0, /* the cache of this process */
    PST_TIER_HOST = 1,   /* the cache of this host's service */
    PST_TIER_FLEET = 2,  /* memcached servers */
    PST_TIER_STORAGE = 3 /* the data set's files */
};
#define PST_TIERS_MAX 8 /* array size that leaves space for tiers of later versions */

/* Gives the short name of a tier: "memory", "host", "fleet", "storage".
 *
 * i: a value of enum pst_tier.
 *
 * Returns a static string; NULL after the last tier. Any thread. */
const char *pst_tier_name(uint32_t i);

/* Counts of what one tier has given to a loader since it was opened. */
struct pst_tier_stats {
    /* Items and their bytes; for storage, n_hits counts reads, and an item may take several. */
    uint64_t n_hits, nbytes;
    /* Time in nanoseconds from the request to the last byte: the mean, and the 99th percentile,
     * which may be up to a quarter too high. For tiers that copy nothing it is the time of the
     * look-up. 0: no hit yet. */
    uint64_t mean_ns, p99_ns;
    /* nbytes divided by the time in which a request was under way; 0 for tiers that copy nothing.
     */
    double bytes_per_second;
};

/* Counters of a loader since it was opened. Times are in nanoseconds. Workers decode rows, wait for
 * storage, or are idle because the caller is slower. Without workers the calling thread does the
 * work inside pst_loader_next. Counters include all rows of delivered batches, and may include rows
 * of later batches. */
struct pst_loader_stats {
    uint64_t n_batches, n_samples; /* Number of delivered batches and of delivered samples. */
    /* Number of samples that were bad, that replaced others, and that were repeated as padding for
     * ranks. */
    uint64_t n_bad, n_replaced, n_padded;
    uint64_t nbytes_read, n_reads; /* n_reads: requests to the storage */
    /* Time during which at least one read was under way. Parallel reads count once. */
    uint64_t read_ns;
    /* Time that workers spent on rows, summed over workers, without waiting. */
    uint64_t decode_ns;
    uint64_t caller_wait_ns; /* Time that the caller spent in pst_loader_next. */
    uint64_t host_memory, host_memory_used, host_memory_peak;
    /* Number of batch slots, and of those that the caller holds now. */
    uint32_t n_slots, n_slots_held;
    uint32_t n_workers;
    /* The storage in use: PST_STORAGE_THREADS, _URING or _MEMORY. */
    enum pst_storage_kind storage;
    /* Why io_uring is not used, or no longer used; "" otherwise. */
    char storage_reason[96];
    uint64_t n_fallback_direct; /* Files that could not be read with O_DIRECT. */
    /* Images that were decoded whole although only a region was needed. */
    uint64_t n_fallback_region;
    uint64_t nbytes_decoded;  /* Bytes of pixels that decoders made. */
    char cpu_level[16];       /* "c", "avx2", "avx512", "neon". */
    uint64_t n_units_decoded; /* PLI: number of units that were decoded. */
    /* PLI: number of all units of those images, decoded or not. */
    uint64_t n_units_whole;
    /* PLI images of which only the head and the needed units were read. */
    uint64_t n_partial_reads;
    /* Images that were decoded at a half, a quarter or an eighth of their size (scaled_decode). */
    uint64_t n_scaled;
    uint64_t n_cpu_samples; /* Images and masks decoded by the CPU. */
    uint64_t n_gpu_samples; /* Images and masks decoded by the GPU. */
    /* Images and masks meant for the GPU that the CPU decoded, because of their form or lack of GPU
     * memory. */
    uint64_t n_gpu_fallback;
    /* Why the last of these images was not decoded by the GPU; "" if there was none. */
    char gpu_fallback_reason[96];
    /* Rows for which the GPU's buffers were full at first, so they were done in another round. */
    uint64_t n_gpu_again;
    /* Bytes of images uploaded to the GPU. */
    uint64_t nbytes_upload;
    uint64_t device_memory, device_memory_used, device_memory_peak;
    /* CUDA ordinal of the GPU; -1: batches are in host memory. */
    int32_t device;
    uint64_t fallbacks[PST_FALLBACKS_MAX]; /* counts, indexed by enum pst_fallback */
    /* Time that workers had no row while a read was under way, summed over workers. */
    uint64_t worker_read_wait_ns;
    /* Time that workers had no row and no read was under way, because all wanted batches were
     * ready. Summed over workers. */
    uint64_t worker_idle_ns;
    /* CPU level of each part of the library: "augment avx512, pli avx2, ...". */
    char cpu_rooms[96];
    /* Boxes dropped from prepared samples because of pst_field_output.min_area and min_visibility.
     */
    uint64_t n_boxes_dropped;
    /* Items taken from the cache, and their bytes. */
    uint64_t n_cache_hits, nbytes_cache_hit;
    /* Items read because the cache lacked them; 0 without a cache. */
    uint64_t n_cache_misses;
    /* Bytes that the cache may hold, bytes that it holds, and its number of items of this data set.
     */
    uint64_t cache_nbytes, cache_nbytes_used, n_cache_items;
    /* Images that were re-coded for cache or fleet, by this loader or for it by the host service;
     * and the bytes saved, summed over images that became smaller. */
    uint64_t n_cache_recoded, nbytes_cache_saved;
    /* Images that this loader, or the host service for it, put into the cache as stored although
     * cache_form asks for another form. */
    uint64_t n_cache_not_recoded;
    /* Host cache: items that the service read for this loader, and their stored bytes. They count
     * as misses, and not in nbytes_read. */
    uint64_t n_cache_fetched, nbytes_cache_fetched;
    /* Batches that came from the group of `share`. n_shared_copied of them had to be copied as a
     * whole: because pin_memory is set, too many were held, or rows are not whole pages; on a GPU,
     * because the driver cannot page-lock the service's memory. */
    uint64_t n_shared, n_shared_copied;
    /* Newest epoch that any loader of the group has begun, as far as this loader knows; includes
     * groups of the same name with other transforms. UINT64_MAX: none. */
    uint64_t share_epoch;
    /* Number of samples that the service has prepared for the group so far. */
    uint64_t share_samples;
    bool is_sharing; /* the host service is connected */
    /* Why the last batch that was not shared was prepared alone; "" if all were shared. */
    char share_reason[96];
    struct pst_tier_stats tiers[PST_TIERS_MAX]; /* by enum pst_tier */
    /* What the service did for all groups with this loader's group name, data set and order,
     * whatever their transforms. share_decoded: images and masks that it decoded.
     * share_decoded_shared: those that a group took from another group's decode.
     * share_decoded_apart: decoded ones that another group needs in other pixels, such as another
     * colour format or scale. */
    uint64_t share_decoded, share_decoded_shared, share_decoded_apart;
    /* Stored items that the service read, with their bytes, and items that a group took from
     * another group's read, with their bytes. */
    uint64_t share_read, share_nbytes_read, share_read_shared, share_nbytes_read_shared;
    /* Items that the service found in the host cache. */
    uint64_t share_cached;
    /* Items that the service dropped for lack of memory before all groups had used them. */
    uint64_t share_given_up;
    /* For the form with the same index in options.form_parts: its current share, and the number of
     * rows read in it. */
    double form_parts[PST_MAX_VARIANTS];
    uint64_t form_rows[PST_MAX_VARIANTS];
    /* Rows whose sample lacks the form that was assigned to them. */
    uint64_t n_form_rows_other;
    uint64_t n_form_corrections; /* MEASURED: how often shares were changed */
    /* Number of cache hits that were pictures at the training resolution. */
    uint64_t n_cache_training_hits;
    /* PST_ORDER_PAGES: reads that were merged into a neighbour's request, so n_reads does not count
     * them; bytes between merged reads that were discarded; files of a folder that were read in
     * disk order. */
    uint64_t n_merged_reads, nbytes_gap, n_ordered_reads;
    /* Why the host cache is not used now; "" if it is used or not wanted. */
    char host_reason[256];
    /* Items used without a checksum: files of plain folders, items of tars, zips and tables whose
     * index has none, and all items with no_verify. Checks inside decoders, such as PNG's, do not
     * matter here. */
    uint64_t n_unchecked;
    /* Tables with compressed pages: items taken from a page that was already decoded for another
     * item; pages decoded; and memory of the kept pages in bytes, which is a part of host_memory.
     */
    uint64_t n_page_hits, n_pages_decoded, pages_nbytes;
    /* PST_CACHE_RECODE_IDLE: cached items that were not yet considered for re-coding; and the time
     * that workers, or the host service for this loader, spent on re-coding. No other time includes
     * it. */
    uint64_t n_cache_to_recode, cache_recode_ns;
};

/* Gives the counters since open. They include all rows of delivered batches, and may include rows
 * of later batches. In a forked child all counters are zero.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_loader_stats(const pst_loader *loader, struct pst_loader_stats *stats,
                      size_t stats_nbytes);

/* Returns the number of bad samples so far whose place and cause are recorded, at most 4,096.
 *
 * Any thread. */
uint64_t pst_loader_n_quarantined(const pst_loader *loader);

/* Gives the place and the cause of one bad sample.
 *
 * i: 0 to pst_loader_n_quarantined() - 1, in the order in which they were found.
 * what: receives the error of that sample after success.
 *
 * PST_ERROR_ARGUMENT: i is too large. PST_ERROR_FORKED.
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
