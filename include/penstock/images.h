/* images.h - the images of a data set by number, as pixels, with a cache that keeps them small.
 *
 * For programs that read images at random and prepare them themselves: one call gives one decoded
 * image. What the cache keeps is re-coded (pst_cache_form), so that several times as many images
 * fit into memory as pixels would, and decode at gigabytes a second. Loaders of the same data set
 * find the same items, if they keep them in the same form. */
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

/* Decoded images of a data set, by number. */
typedef struct pst_images pst_images;

/* Order of the colours of a pixel in memory. */
enum pst_color {
    PST_COLOR_RGB = 0, /* as PIL and torchvision have it */
    PST_COLOR_BGR = 1  /* as OpenCV has it; pixels of fewer than 3 channels are not changed */
};

/* Options of pst_images_open. Zero-initialise, then set struct_size. */
struct pst_images_options {
    size_t struct_size;
    /* A field of type image or mask. NULL: the first field of type image. Read during open only. */
    const char *field;
    /* Where images are kept: a cache of this process, or the host cache (pst_cache_open_host).
     * NULL: they are read each time. The handle has a hold of its own. */
    struct pst_cache *cache;
    enum pst_cache_form cache_form; /* STORED without a cache */
    /* 0: as stored; 1, 3 or 4: as pst_decode_options.channels. */
    uint8_t channels;
    enum pst_color color;
    /* Pixels as stored, as PIL's open gives them. False: the orientation in the metadata is
     * applied, as PIL's exif_transpose does. */
    bool ignore_orientation;
    /* 16-bit images stay 16-bit; else they become 8-bit. */
    bool keep_bits;
    /* Checksums of stored bytes are not compared. */
    bool no_verify;
    /* As pst_loader_options.cache_plan. Copied. */
    const uint8_t *cache_plan;
    uint64_t n_cache_plan;
    /* Can end a call that waits for the host service, with PST_ERROR_CANCELLED: pst_images_open,
     * pst_images_get, pst_images_load. NULL: nothing does. It is called by the thread that waits,
     * and must live as long as the handle. */
    pst_interrupt_fn interrupt;
    void *interrupt_ctx;
};

/* Makes a handle for the images of a data set.
 *
 * dataset: the handle takes a share of its own.
 * options: NULL for the defaults.
 * out: receives the handle, to be closed by pst_images_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: there is no such field, or an option is not possible.
 * PST_ERROR_LIMIT: the cache has no room for a table of 8 bytes for each item of the data set.
 * PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_images_open(pst_dataset *dataset,
                                                const struct pst_images_options *options,
                                                pst_images **out, struct pst_error *err);

/* Closes the handle. No call may be under way. Pixels that pst_images_get gave stay valid until
 * they are released. A search for a lost host service that is under way is ended.
 *
 * images: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread. */
void pst_images_close(pst_images **images);

/* Decodes one image. If the cache has it, nothing is read. Otherwise its bytes are read, decoded,
 * and kept if the cache has room. Re-coding for the cache takes longer than decoding; see
 * pst_images_load.
 *
 * In a child that was forked with the handle, what a cache of the parent held at that moment is
 * used, and nothing is added to it; of the host cache a child has all.
 *
 * If the host service is lost, what it had brought stays of use, and other images are read each
 * time (n_lost). Meanwhile a thread of the handle looks for the service, at most every two seconds;
 * no call waits for that. A service that does not answer is waited for ten seconds before it counts
 * as lost.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * pixels: receives u8 or u16 (H,W,C) without padding, in memory that is the caller's, who may write
 *     to it and gives it back by pst_images_release(pixels->data). Unchanged after failure.
 *
 * PST_ERROR_ARGUMENT: there is no such sample. PST_ERROR_NOT_FOUND: it has no such image.
 * PST_ERROR_CORRUPT and its kinds: the image is damaged; the error names data set, sample, file,
 *     offset and codec.
 * PST_ERROR_IO, PST_ERROR_UNSUPPORTED, PST_ERROR_LIMIT, PST_ERROR_MEMORY.
 *
 * Any number of threads at once. */
PST_WARN_UNUSED enum pst_status pst_images_get(pst_images *images, uint64_t sample,
                                               struct pst_pixels *pixels, struct pst_error *err);

/* Gives back the memory of an image. It is used again for the next ones.
 *
 * data: pst_pixels.data of pst_images_get. NULL is allowed.
 *
 * Any thread. */
void pst_images_release(void *data);

/* Brings one image into the cache, if it is not there and has room, without handing out its pixels.
 * Errors are those of pst_images_get. Several threads that call this for different images fill a
 * cache by several cores.
 *
 * kept: receives true if the cache has the image now. NULL is allowed.
 *
 * Any number of threads at once. */
PST_WARN_UNUSED enum pst_status pst_images_load(pst_images *images, uint64_t sample, bool *kept,
                                                struct pst_error *err);

/* Counters since open, of this process. */
struct pst_images_stats {
    uint64_t n_hits, nbytes_hit; /* images taken from the cache, and their bytes there */
    uint64_t n_misses;           /* images that were read */
    uint64_t nbytes_read;
    /* Images re-coded for the cache; images kept as they are stored although the form is for them;
     * images that found no room, or no memory, each time. What the host service re-codes is not
     * counted here. */
    uint64_t n_recoded, n_not_recoded, n_refused;
    /* The limit of the cache, the used part of it, and the number of its items of this data set. 0
     * without a cache. */
    uint64_t cache_nbytes, cache_nbytes_used, n_cache_items;
    bool is_forked; /* a child of the process that opened the handle, which adds nothing */
    /* Images that the host service brought because this process asked. */
    uint64_t n_fetched;
    /* Images that were read because the host service was lost, each time; how often it was found
     * again. */
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
