/* fallback.h - what a loader did otherwise than asked or hoped, by kind: names and texts. The
 * counts are in struct pst_loader_stats (loader.h). */
#ifndef PENSTOCK_FALLBACK_H
#define PENSTOCK_FALLBACK_H

#include <penstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Names the fall-backs: slower ways taken because a faster one was not possible. A loader counts
 * each of them, so none is silent. Numbers are stable; new ones come at the end. */
enum pst_fallback {
    /* io_uring failed while reading. Storage and reason change, too. */
    PST_FALLBACK_URING = 0,
    PST_FALLBACK_DIRECT = 1, /* Files without O_DIRECT. */
    /* Calls of posix_fadvise that the kernel refused. */
    PST_FALLBACK_ADVICE = 2,
    /* Windows of pages for which the kernel got no read-ahead hint. */
    PST_FALLBACK_PAGE_HINT = 3,
    /* Items read whole although parts would have been enough. */
    PST_FALLBACK_RANGE = 4,
    /* Images decoded whole for a region. */
    PST_FALLBACK_REGION = 5,
    /* PNGs decoded by libpng instead of libdeflate. */
    PST_FALLBACK_LIBPNG = 6,
    /* Images on which scaled_decode has no effect. */
    PST_FALLBACK_SCALED = 7,
    /* Rows that waited in turn for the reserve of host_memory. */
    PST_FALLBACK_RESERVE = 8,
    /* Batches that prefetch needs and host_memory does not hold. */
    PST_FALLBACK_SLOTS = 9,
    /* Epochs that continued with one batch at a time, for lack of host_memory. */
    PST_FALLBACK_AHEAD = 10,
    /* Large blocks on small pages, in this process since open. */
    PST_FALLBACK_HUGE_PAGES = 11,
    /* Parts of the library that use AVX2 because their AVX-512 code needs instructions that this
     * CPU lacks. */
    PST_FALLBACK_CPU = 12,
    /* Images meant for a GPU, decoded by the CPU. */
    PST_FALLBACK_GPU = 13,
    /* Slots that were not page-locked: see PST_PIN_AUTO. */
    PST_FALLBACK_PIN = 14,
    /* Items that the cache had room for, but the system no memory. */
    PST_FALLBACK_CACHE_MEMORY = 15,
    /* Images that cache or fleet keep as they are stored although cache_form is for them. */
    PST_FALLBACK_CACHE_FORM = 16,
    /* Items that the loader read itself because the host service was lost. */
    PST_FALLBACK_HOST = 17,
    /* Batches that a loader with `share` prepared itself. */
    PST_FALLBACK_SHARE = 18,
    /* Items read from storage, because their server of the fleet was down or late. */
    PST_FALLBACK_FLEET_SERVER = 19,
    /* Items read from storage, because their server gave bytes that are not theirs. */
    PST_FALLBACK_FLEET_VALUE = 20,
    /* Items that their server did not take, because it is full or down. */
    PST_FALLBACK_FLEET_FULL = 21,
    /* Items that were not offered to their server, because too many others were on the way. They
     * are offered when they are read again. */
    PST_FALLBACK_FLEET_BUSY = 22,
    PST_FALLBACK_VIEWS = 23, /* Images decoded once for each view, for lack of host_memory. */
    /* Samples that were mirrored and whose keypoints kept their places, because nobody states which
     * are left and right. */
    PST_FALLBACK_PAIRS = 24
};

#define PST_FALLBACKS_MAX 32 /* room for kinds that later versions have */

/* Gives the short name of a kind of fall-back: "uring", "direct" and so on.
 *
 * i: an enum pst_fallback.
 *
 * Returns a static string; NULL after the last kind, so that a program can list all. Any thread.
 */
const char *pst_fallback_name(uint32_t i);

/* Says in words what a kind of fall-back means.
 *
 * i: an enum pst_fallback.
 *
 * Returns a static string; NULL after the last kind. Any thread. */
const char *pst_fallback_text(uint32_t i);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
