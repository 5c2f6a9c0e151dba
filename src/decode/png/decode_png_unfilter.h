/* decode_png_unfilter.h - functions that undo the filters of PNG rows, one table per CPU level.
 *
 * All levels give the same bytes. Plain C is the reference. Pure functions. */
#ifndef PST_DECODE_PNG_UNFILTER_H
#define PST_DECODE_PNG_UNFILTER_H

#include <stddef.h>
#include <stdint.h>

/* Bytes after a row that vector code may read. It writes nothing there. */
#define PSTI_UNFILTER_OVERREAD 32

enum psti_png_filter {
    PSTI_PNG_NONE,
    PSTI_PNG_SUB,
    PSTI_PNG_UP,
    PSTI_PNG_AVERAGE,
    PSTI_PNG_PAETH,
    PSTI_PNG_FILTERS
};

/* Undoes the filter of a row of n bytes in place. n is a multiple of the bytes of a pixel. `above`
 * is the unfiltered row above it, or zeros for the first row. */
typedef void (*psti_unfilter)(uint8_t *row, const uint8_t *above, size_t n);

/* Undoes the filters of two rows at once, both of filter Paeth. The second row lies `step` bytes
 * after the first. */
typedef void (*psti_unfilter_two)(uint8_t *row, const uint8_t *above, size_t n, size_t step);

struct psti_unfilter_ops {
    const char *name;
    /* row[bytes per pixel: 1, 2, 3, 4, 6 or 8][filter]; no function for PSTI_PNG_NONE */
    psti_unfilter row[9][PSTI_PNG_FILTERS];
    psti_unfilter_two two_paeth[9]; /* [bytes per pixel]; NULL: two rows at once are not faster */
};

/* Returns the best table for a CPU with these features (PSTI_CPU_...). */
const struct psti_unfilter_ops *psti_decode_unfilter_ops_for(uint32_t features);

extern const struct psti_unfilter_ops psti_unfilter_ops_c, psti_unfilter_ops_avx2,
    psti_unfilter_ops_neon;

#endif
