/* decode_png_unfilter.c - undoes the filters of PNG rows in plain C.
 *
 * In: a stored row, and the unfiltered row above it. Out: the row with its filter undone, in place.
 * The code follows the PNG specification. Tests compare the vector versions with it. Pure
 * functions, any thread. */
#include "decode/png/decode_png_unfilter.h"

#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

INLINE void undo_sub(uint8_t *row, size_t n, size_t pixel)
{
    for (size_t i = pixel; i < n; i++)
        row[i] = (uint8_t)(row[i] + row[i - pixel]);
}

static void undo_up(uint8_t *row, const uint8_t *above, size_t n)
{
    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
}

INLINE void undo_average(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    for (size_t i = 0; i < pixel; i++)
        row[i] = (uint8_t)(row[i] + (above[i] >> 1));
    for (size_t i = pixel; i < n; i++)
        row[i] = (uint8_t)(row[i] + ((row[i - pixel] + above[i]) >> 1));
}

/* Returns the Paeth predictor of a (left), b (above) and c (above left): the one that is nearest to
 * a + b - c. If two are equally near, a is preferred to b, and b to c. With t = 3 c - a - b, the
 * result is the larger of a and b if t <= the smaller of them, the smaller if t >= the larger, and
 * c otherwise. The code has no branches, because in noisy images they would be mispredicted. */
INLINE int nearest(int a, int b, int c)
{
    int t = 3 * c - a - b, low = a < b ? a : b, high = a < b ? b : a;
    int lower = high > t ? c : low;
    return t > low ? lower : high;
}

INLINE void undo_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    for (size_t i = 0; i < pixel; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
    for (size_t i = pixel; i < n; i++)
        row[i] = (uint8_t)(row[i] + nearest(row[i - pixel], above[i], above[i - pixel]));
}

#define DEFINE(pixel)                                                                              \
    static void undo_sub_##pixel(uint8_t *row, const uint8_t *above, size_t n)                     \
    {                                                                                              \
        (void)above;                                                                               \
        undo_sub(row, n, pixel);                                                                   \
    }                                                                                              \
    static void undo_average_##pixel(uint8_t *row, const uint8_t *above, size_t n)                 \
    {                                                                                              \
        undo_average(row, above, n, pixel);                                                        \
    }                                                                                              \
    static void undo_paeth_##pixel(uint8_t *row, const uint8_t *above, size_t n)                   \
    {                                                                                              \
        undo_paeth(row, above, n, pixel);                                                          \
    }

DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(6)
DEFINE(8)

#define ENTRY(pixel)                                                                               \
    [pixel] = {NULL, undo_sub_##pixel, undo_up, undo_average_##pixel, undo_paeth_##pixel}

const struct psti_unfilter_ops psti_unfilter_ops_c = {
    .name = "c", .row = {ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4), ENTRY(6), ENTRY(8)}};
