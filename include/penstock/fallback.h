/* fallback.h - names and texts of fall-backs: what a loader did in another way than asked or hoped.
 * struct pst_loader_stats (loader.h) has their counts. */
#ifndef PENSTOCK_FALLBACK_H
#define PENSTOCK_FALLBACK_H

#include <penstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Kinds of fall-backs: slower ways taken because a faster way was not possible. A loader counts
 * each of them, so none stays unnoticed. Numbers are stable; new kinds come at the end. */
enum pst_fallback {
    /* io_uring failed during reading. pst_loader_stats.storage and storage_reason change, too. */
    PST_FALLBACK_URING = 0,
    PST_FALLBACK_DIRECT = 1, /* Files that could not be read with O_DIRECT. */
    /* Calls of posix_fadvise that failed. */
    PST_FALLBACK_ADVICE = 2,
    /* Windows of PST_ORDER_PAGES for which the kernel got no read-ahead hint. */
    PST_FALLBACK_PAGE_HINT = 3,
    /* Items that were read whole although a part would have been enough. */
    PST_FALLBACK_RANGE = 4,
    /* Images that were decoded whole although only a region was needed. */
    PST_FALLBACK_REGION = 5,
    /* PNGs decoded by libpng instead of libdeflate. */
    PST_FALLBACK_LIBPNG = 6,
    /* Images on which scaled_decode has no effect, because of their form or because batches lie on
     * a GPU. */
    PST_FALLBACK_SCALED = 7,
    /* Rows that had to wait for the reserve of host_memory, which one row at a time may use. */
    PST_FALLBACK_RESERVE = 8,
    /* Batch slots that prefetch asks for and host_memory has no space for. */
    PST_FALLBACK_SLOTS = 9,
    /* Epochs that went on with one batch at a time because host_memory was too small. */
    PST_FALLBACK_AHEAD = 10,
    /* Large blocks of memory that got small pages, in this process since open. */
    PST_FALLBACK_HUGE_PAGES = 11,
    /* Parts of the library that run AVX2 code because this CPU lacks instructions of their AVX-512
     * code. */
    PST_FALLBACK_CPU = 12,
    /* Images meant for a GPU that the CPU decoded. */
    PST_FALLBACK_GPU = 13,
    /* Batch slots in memory that is not page-locked: see PST_PIN_AUTO. */
    PST_FALLBACK_PIN = 14,
    /* Items that the cache could have kept, but the system had no memory left. */
    PST_FALLBACK_CACHE_MEMORY = 15,
    /* Images that a cache or fleet keeps as stored although cache_form asks for another form. */
    PST_FALLBACK_CACHE_FORM = 16,
    /* Items that the loader read itself because the host service was lost. */
    PST_FALLBACK_HOST = 17,
    /* Batches that a loader with `share` prepared itself, without its group. */
    PST_FALLBACK_SHARE = 18,
    /* Items that were read from storage because their fleet server was down or too slow. */
    PST_FALLBACK_FLEET_SERVER = 19,
    /* Items that were read from storage because their fleet server returned wrong bytes. */
    PST_FALLBACK_FLEET_VALUE = 20,
    /* Items that their fleet server did not take because it is full or down. */
    PST_FALLBACK_FLEET_FULL = 21,
    /* Items that were not offered to their fleet server because too many others were being sent.
     * They are offered again when they are read again. */
    PST_FALLBACK_FLEET_BUSY = 22,
    /* Images that were decoded separately for each view because host_memory was too small. */
    PST_FALLBACK_VIEWS = 23,
    /* Mirrored samples whose keypoints were not swapped because the data set does not say which
     * points are left and right. */
    PST_FALLBACK_PAIRS = 24,
    /* JPEGs that libjpeg-turbo decoded, at least in part, instead of the faster decoder for usual
     * ones: progressive files, CMYK, unusual sampling, several scans, arithmetic codes, irregular
     * data; or their worker had too little memory. */
    PST_FALLBACK_LIBJPEG = 25
};

#define PST_FALLBACKS_MAX 32 /* array size that leaves space for kinds of later versions */

/* Gives the short name of a kind of fall-back: "uring", "direct" and so on.
 *
 * i: a value of enum pst_fallback.
 *
 * Returns a static string, or NULL after the last kind, which ends a program's loop over all kinds.
 * Any thread. */
const char *pst_fallback_name(uint32_t i);

/* Gives a sentence that explains a kind of fall-back.
 *
 * i: a value of enum pst_fallback.
 *
 * Returns a static string; NULL after the last kind. Any thread. */
const char *pst_fallback_text(uint32_t i);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
