/* images.h - decoded images of a data set by sample number, with a cache that holds compressed
 * images.
 *
 * For programs that read images at random and prepare them themselves: one call gives one decoded
 * image. The cache holds re-coded images (pst_cache_form), so it holds several times as many as it
 * would as pixels, and they decode at gigabytes a second. Loaders of the same data set share the
 * cached items if they keep them in the same form. */
#ifndef PENSTOCK_IMAGES_H
#define PENSTOCK_IMAGES_H

#include <penstock/cache.h>
#include <penstock/dataset.h>
#include <penstock/image.h>
#include <penstock/loader.h>
#include <penstock/pli.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A handle that gives decoded images of a data set by sample number. */
typedef struct pst_images pst_images;

/* Order of the colour channels of a pixel in memory. */
enum pst_color {
    PST_COLOR_RGB = 0, /* as in PIL and torchvision */
    PST_COLOR_BGR = 1  /* as in OpenCV; fewer than 3 channels are not changed */
};

/* Options of pst_images_open. Zero-initialise, then set struct_size. */
struct pst_images_options {
    size_t struct_size;
    /* Name of the field, an image or mask. NULL: the first image field. Read during open only. */
    const char *field;
    /* Cache for the images: of this process, or the host cache (pst_cache_open_host). NULL: images
     * are read each time. The handle holds a reference. */
    struct pst_cache *cache;
    enum pst_cache_form cache_form; /* must be STORED without a cache */
    /* Channels of the pixels: 0 as stored; 1, 3 or 4 as in pst_decode_options.channels. */
    uint8_t channels;
    enum pst_color color;
    /* True: the EXIF orientation is not applied, as with PIL's open. False: it is applied, as with
     * PIL's exif_transpose. */
    bool ignore_orientation;
    /* True: 16-bit images stay 16-bit. False: they become 8-bit. */
    bool keep_bits;
    /* True: checksums of stored bytes are not compared. */
    bool no_verify;
    /* Which samples the cache admits: see pst_loader_options.cache_plan. Copied. */
    const uint8_t *cache_plan;
    uint64_t n_cache_plan;
    /* Function that can end calls which wait for the host service (pst_images_open, pst_images_get,
     * pst_images_load) with PST_ERROR_CANCELLED; NULL: none. The waiting thread calls it. It must
     * stay valid as long as the handle. */
    pst_interrupt_fn interrupt;
    void *interrupt_ctx;
};

/* Makes a handle for the images of a data set.
 *
 * dataset: an open data set. The handle becomes one of its owners.
 * options: NULL for the defaults.
 * out: receives the handle, to be closed by pst_images_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: there is no such field, or an option is invalid.
 * PST_ERROR_LIMIT: the cache has no memory for its table, 8 bytes for each item of the data set.
 * PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_images_open(pst_dataset *dataset,
                                                const struct pst_images_options *options,
                                                pst_images **out, struct pst_error *err);

/* Closes the handle. No call may be in progress. Pixels from pst_images_get stay valid until they
 * are released. A running search for a lost host service is ended.
 *
 * images: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread. */
void pst_images_close(pst_images **images);

/* Decodes one image. If the cache has the image, nothing is read from storage. Otherwise the call
 * reads and decodes it, and adds it to the cache if that has memory left. Re-coding for the cache
 * takes longer than decoding; see pst_images_load.
 *
 * A forked child uses the items that a cache of its parent held at the fork, and adds nothing to
 * it. The host cache is fully available in a child.
 *
 * If the host service is lost, the handle still uses the items it has mapped, and reads other
 * images each time (n_lost counts them). A thread of the handle looks for the service at most every
 * two seconds; no call waits for that. A service that does not answer counts as lost after ten
 * seconds.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * pixels: receives u8 or u16 (H,W,C) without padding. The caller owns the memory, may write to it,
 *     and releases it by pst_images_release(pixels->data). Unchanged after failure.
 *
 * PST_ERROR_ARGUMENT: there is no such sample. PST_ERROR_NOT_FOUND: the sample has no image.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM: the image is damaged; the error names
 *     data set, sample, file, offset and codec.
 * PST_ERROR_IO, PST_ERROR_UNSUPPORTED, PST_ERROR_LIMIT, PST_ERROR_MEMORY.
 *
 * Any number of threads at once. */
PST_WARN_UNUSED enum pst_status pst_images_get(pst_images *images, uint64_t sample,
                                               struct pst_pixels *pixels, struct pst_error *err);

/* Releases the memory of an image, which later calls reuse.
 *
 * data: the pst_pixels.data that pst_images_get gave. NULL is allowed.
 *
 * Any thread. */
void pst_images_release(void *data);

/* Adds one image to the cache, unless it is there or the cache is full, without returning its
 * pixels. Errors are those of pst_images_get. To fill a cache with several cores, call it from
 * several threads for different images.
 *
 * kept: receives true if the cache has the image now. NULL is allowed.
 *
 * Any number of threads at once. */
PST_WARN_UNUSED enum pst_status pst_images_load(pst_images *images, uint64_t sample, bool *kept,
                                                struct pst_error *err);

/* Counters of this process since the handle was opened. */
struct pst_images_stats {
    uint64_t n_hits, nbytes_hit; /* images taken from the cache, and their bytes there */
    uint64_t n_misses;           /* images that were read from storage */
    uint64_t nbytes_read;
    /* Images re-coded for the cache; images kept as stored although cache_form asks for another
     * form; images not kept because the cache was full or the system had no memory (each time).
     * Re-coding by the host service is not counted. */
    uint64_t n_recoded, n_not_recoded, n_refused;
    /* Bytes that the cache may hold, bytes that it holds, and its number of items of this data set.
     * 0 without a cache. */
    uint64_t cache_nbytes, cache_nbytes_used, n_cache_items;
    /* True in a forked child of the process that opened the handle. A child adds nothing to the
     * cache. */
    bool is_forked;
    /* Images that the host service read because this process asked for them. */
    uint64_t n_fetched;
    /* Images that this process read because the host service was lost (each time), and how often
     * the service was found again. */
    uint64_t n_lost, n_renewed;
    /* Why the host cache could not be used when the handle was opened; "" if it could. */
    char host_reason[256];
};

/* Gives the counters.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_images_stats(pst_images *images, struct pst_images_stats *stats, size_t stats_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
