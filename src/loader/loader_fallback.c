/* loader_fallback.c - fall-backs of a loader: their names, texts and counters.
 *
 * Any thread may count, without a lock. To add a fall-back, add an enumerator in
 * <penstock/loader.h> and a line in the table here. */
#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"

#include "base/alloc.h"
#include "base/machine/cpu.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} kinds[] = {
    [PST_FALLBACK_URING] = {"uring",
                            "io_uring failed while reading: one thread reads by system calls"},
    [PST_FALLBACK_DIRECT] = {"direct", "files that were read without O_DIRECT"},
    [PST_FALLBACK_ADVICE] = {"advice", "hints about the page cache that the kernel refused"},
    [PST_FALLBACK_PAGE_HINT] = {"page_hint",
                                "windows of pages that the kernel was not told to read ahead"},
    [PST_FALLBACK_RANGE] = {"range", "items that were to be read in parts but were read whole"},
    [PST_FALLBACK_REGION] = {"region", "images that were decoded whole although a region was "
                                       "wanted"},
    [PST_FALLBACK_LIBPNG] = {"libpng", "PNGs that libpng decoded instead of libdeflate"},
    [PST_FALLBACK_SCALED] = {"scaled",
                             "images for which scaled_decode has no effect, by their form "
                             "or because batches lie on a GPU"},
    [PST_FALLBACK_RESERVE] = {"reserve", "rows that waited in turn for the reserve of host_memory"},
    [PST_FALLBACK_SLOTS] = {"slots", "batches that prefetch wants ahead and host_memory has no "
                                     "room for"},
    [PST_FALLBACK_AHEAD] = {"ahead", "epochs that went on with one batch at a time, for want of "
                                     "host_memory"},
    [PST_FALLBACK_HUGE_PAGES] = {"huge_pages", "large blocks that the kernel put on small pages"},
    [PST_FALLBACK_CPU] = {"cpu", "kernels that use a lower level than cpu_level's highest: see "
                                 "cpu_rooms"},
    [PST_FALLBACK_GPU] = {"gpu", "images meant for the GPU that the CPU decoded"},
    [PST_FALLBACK_CACHE_MEMORY] = {"cache_memory", "items that the cache had room for, but the "
                                                   "system no memory"},
    [PST_FALLBACK_HOST] = {"host", "items that were read by the loader because the host service "
                                   "was lost"},
    [PST_FALLBACK_CACHE_FORM] = {"cache_form", "images that the cache keeps as they are stored, "
                                               "because they cannot be re-coded, would not become "
                                               "smaller, or host_memory or the cache has too "
                                               "little left for it"},
    [PST_FALLBACK_SHARE] = {"share", "batches that this loader prepared although it shares: see "
                                     "share_reason"},
    [PST_FALLBACK_FLEET_SERVER] = {"fleet_server", "items that were read from storage, because "
                                                   "their server was down or late"},
    [PST_FALLBACK_FLEET_VALUE] = {"fleet_value", "items that were read from storage, because their "
                                                 "server gave other bytes"},
    [PST_FALLBACK_FLEET_FULL] = {"fleet_full", "items that their server did not take, because it "
                                               "is full or down"},
    [PST_FALLBACK_FLEET_BUSY] = {"fleet_busy", "items that were not offered to their server, "
                                               "because too many others were on the way"},
    [PST_FALLBACK_VIEWS] = {"views",
                            "images that were decoded for each view by itself, for want of "
                            "host_memory"},
    [PST_FALLBACK_PAIRS] = {"pairs", "mirrored samples whose keypoints kept their places, because "
                                     "nobody states which are left and right"},
    [PST_FALLBACK_PIN] = {"pin", "batches in memory that pin_memory was to page-lock and the CUDA "
                                 "driver did not"},
    [PST_FALLBACK_LIBJPEG] = {"libjpeg", "JPEGs that libjpeg-turbo decoded, which is slower: "
                                         "progressive, CMYK, sampled in another way, irregular, or "
                                         "their worker had too little memory"},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };
_Static_assert(N_KINDS <= PST_FALLBACKS_MAX, "stats have room for every kind");

const char *pst_fallback_name(uint32_t i) { return i < N_KINDS ? kinds[i].name : NULL; }

const char *pst_fallback_text(uint32_t i) { return i < N_KINDS ? kinds[i].text : NULL; }

void psti_loader_fell_back(pst_loader *loader, enum pst_fallback kind, uint64_t n)
{
    if (n > 0)
        atomic_fetch_add_explicit(&loader->meters.fallbacks[kind], n, memory_order_relaxed);
}

/* For each room with vector kernels, the AVX-512 features that its widest kernels need. */
static const struct {
    const char *room;
    uint32_t avx512;
} rooms[] = {
    {"augment", PSTI_CPU_AVX512},
    {"pli", PSTI_CPU_AVX512_ICL},
    {"png", 0},
};

static const char *level_of(uint32_t features, uint32_t avx512)
{
    if (features & avx512)
        return "avx512";
    return psti_cpu_level_name(features & ~(uint32_t)PSTI_CPU_AVX512);
}

uint32_t psti_loader_cpu_rooms(uint32_t features, char *text, size_t nbytes)
{
    uint32_t n_lower = 0;
    size_t at = 0;
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0] && at < nbytes; i++) {
        const char *level = level_of(features, rooms[i].avx512);
        n_lower += (features & PSTI_CPU_AVX512) && rooms[i].avx512 && strcmp(level, "avx512") != 0;
        int n = snprintf(text + at, nbytes - at, "%s%s %s", i ? ", " : "", rooms[i].room, level);
        at += n > 0 ? (size_t)n : 0;
    }
    return n_lower;
}

void psti_loader_fallbacks(const pst_loader *loader, const struct psti_storage_stats *storage,
                           struct pst_loader_stats *stats)
{
    uint64_t *n = stats->fallbacks;
    for (uint32_t i = 0; i < N_KINDS; i++)
        n[i] = atomic_load_explicit(&loader->meters.fallbacks[i], memory_order_relaxed);
    n[PST_FALLBACK_URING] = storage->n_fallback_uring;
    n[PST_FALLBACK_DIRECT] = storage->n_fallback_direct;
    n[PST_FALLBACK_ADVICE] = storage->n_fallback_advice;
    n[PST_FALLBACK_REGION] = stats->n_fallback_region;
    n[PST_FALLBACK_HUGE_PAGES] = psti_alloc_n_small_pages() - loader->meters.n_small_pages;
    n[PST_FALLBACK_CPU] =
        psti_loader_cpu_rooms(psti_cpu_features(), stats->cpu_rooms, sizeof stats->cpu_rooms);
    n[PST_FALLBACK_GPU] = stats->n_gpu_fallback;
}
