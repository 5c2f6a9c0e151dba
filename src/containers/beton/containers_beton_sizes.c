/* containers_beton_sizes.c - reads the sizes of JPEGs, which only the allocation table states.
 *
 * In: the table at the file's end, in the order in which FFCV's processes wrote. Out: 16 bytes of
 * memory for each item, sorted by offset. */
#include "containers/beton/containers_beton_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <stdlib.h>

enum { SEVERAL = 1 << 12 }; /* table entries that are read at a time */

static int compare(const void *a, const void *b)
{
    const struct psti_beton_size *left = a, *right = b;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    if (left->sample != right->sample)
        return left->sample < right->sample ? -1 : 1;
    return left->nbytes < right->nbytes ? -1 : left->nbytes > right->nbytes;
}

/* Adds an entry. Leaves out empty items, which share their offsets with other items, and entries
 * that no sample can refer to. */
static void add(struct psti_beton *beton, const uint8_t *bytes)
{
    uint64_t sample = psti_load_u64(bytes), nbytes = psti_load_u64(bytes + 16);
    if (sample < beton->n_samples && nbytes > 0 && nbytes <= UINT32_MAX)
        beton->sizes[beton->n_sizes++] = (struct psti_beton_size){
            .at = psti_load_u64(bytes + 8),
            .nbytes = (uint32_t)nbytes,
            .sample = (uint32_t)sample,
        };
}

enum pst_status psti_containers_beton_sizes(struct psti_beton *beton, struct pst_error *err)
{
    uint64_t n = (beton->window.source->nbytes - beton->allocations) / PSTI_BETON_ALLOCATION;
    beton->sizes = psti_alloc_array((size_t)n + 1, sizeof *beton->sizes);
    if (beton->sizes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "containers", "out of memory for the sizes in %s",
                         beton->path);
    for (uint64_t i = 0; i < n; i += SEVERAL) {
        uint64_t n_here = n - i < SEVERAL ? n - i : SEVERAL;
        const uint8_t *bytes = NULL;
        enum pst_status status = psti_containers_window_get(
            &beton->window, beton->allocations + i * PSTI_BETON_ALLOCATION,
            (size_t)n_here * PSTI_BETON_ALLOCATION, &bytes, err);
        if (status != PST_OK)
            return status;
        for (uint64_t k = 0; k < n_here; k++)
            add(beton, bytes + k * PSTI_BETON_ALLOCATION);
    }
    if (beton->n_sizes > 0)
        qsort(beton->sizes, (size_t)beton->n_sizes, sizeof *beton->sizes, compare);
    return PST_OK;
}

bool psti_containers_beton_find_size(const struct psti_beton *beton, uint64_t sample, uint64_t at,
                                     uint64_t *nbytes)
{
    struct psti_beton_size wanted = {.at = at, .nbytes = UINT32_MAX, .sample = (uint32_t)sample};
    uint64_t first = 0, end = beton->n_sizes;
    while (first < end) { /* binary search for the end of the entries up to the wanted one */
        uint64_t middle = first + (end - first) / 2;
        if (compare(&beton->sizes[middle], &wanted) <= 0)
            first = middle + 1;
        else
            end = middle;
    }
    if (first == 0)
        return false;
    const struct psti_beton_size *found = &beton->sizes[first - 1];
    *nbytes = found->nbytes;
    return found->at == at && found->sample == sample;
}
