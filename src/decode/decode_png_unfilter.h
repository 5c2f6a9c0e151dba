/* decode_png_unfilter.h - undoing the filters of PNG rows, one table per CPU level.
 *
 * All levels give the same bytes; plain C is the judge. Pure functions. */
#ifndef PST_DECODE_PNG_UNFILTER_H
#define PST_DECODE_PNG_UNFILTER_H

#include <stddef.h>
#include <stdint.h>

/* A vector may read so many bytes behind a row (never write there). */
#define PSTI_UNFILTER_OVERREAD 32

enum psti_png_filter {
    PSTI_PNG_NONE,
    PSTI_PNG_SUB,
    PSTI_PNG_UP,
    PSTI_PNG_AVERAGE,
    PSTI_PNG_PAETH,
    PSTI_PNG_FILTERS
};

/* A row of n bytes in place, n a multiple of the pixel's; `above`: the row above, undone already
 * (zeros for the first). */
typedef void (*psti_unfilter)(uint8_t *row, const uint8_t *above, size_t n);

/* The same for the row `step` bytes further on too, both of filter Paeth. */
typedef void (*psti_unfilter_two)(uint8_t *row, const uint8_t *above, size_t n, size_t step);

struct psti_unfilter_ops {
    const char *name;
    /* By bytes per pixel (1, 2, 3, 4, 6, 8) and filter; none for PSTI_PNG_NONE. */
    psti_unfilter row[9][PSTI_PNG_FILTERS];
    psti_unfilter_two two_paeth[9]; /* NULL: no faster than one by one */
};

/* The best table for a CPU with these features (PSTI_CPU_...). */
const struct psti_unfilter_ops *psti_decode_unfilter_ops_for(uint32_t features);

extern const struct psti_unfilter_ops psti_unfilter_ops_c, psti_unfilter_ops_avx2,
    psti_unfilter_ops_neon;

#endif
