/* pli_kept.h - copies a decoded unit of coefficients without its unwanted blocks. A CPU level that
 * skips these blocks must give the same result (pli/decode/coefs/pli_coefs.h). */
#ifndef PST_TESTS_DECODE_PLI_KEPT_H
#define PST_TESTS_DECODE_PLI_KEPT_H

#include "base/bits.h"
#include "pli/decode/coefs/pli_coefs.h"

#include <stdlib.h>
#include <string.h>

/* Fills *kept with the wanted blocks of `all`: their part of the planes and of the list of blocks.
 * Returns the memory that *kept points into; the caller frees it. */
static inline void *pli_keep(const struct psti_pli_coefs *all, const uint64_t *wanted,
                             uint32_t k_last, struct psti_pli_coefs *kept)
{
    int16_t *memory = aligned_alloc(64, 65 * all->stride * sizeof *memory), *planes = memory;
    uint16_t *order = (uint16_t *)(memory + 64 * all->stride);
    memset(memory, 0, 65 * all->stride * sizeof *memory);
    *kept = *all;
    kept->kept = true;
    kept->n = 0;
    memset(kept->n_k, 0, sizeof kept->n_k);
    for (uint32_t i = 0; i < all->n; i++) {
        if ((wanted[all->order[i] >> 6] >> (all->order[i] & 63) & 1) == 0)
            continue;
        for (uint32_t k = 0; k < 64 && i < all->n_k[k]; k++) {
            if (k <= k_last)
                planes[k * all->stride + kept->n] = all->planes[k * all->stride + i];
            kept->n_k[k]++;
        }
        order[kept->n++] = all->order[i];
    }
    for (kept->last = 63; kept->last > 0 && kept->n_k[kept->last] == 0;)
        kept->last--;
    kept->order = order;
    kept->planes = planes;
    return memory;
}

#endif
