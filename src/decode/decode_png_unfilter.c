/* decode_png_unfilter.c - undoing the filters of PNG rows in plain C.
 *
 * In: a row as stored, and the row above it as it was. Out: the row as it was, in place. This is
 * what the specification says, and what other levels are compared with. Pure functions, any
 * thread. */
#include "decode/decode_png_unfilter.h"

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

/* Of left, above and above left, the one nearest to left + above - above left, in this order where
 * two are as near: the larger of a and b if c lies beyond the smaller, and the other way round; c
 * if it lies between. Without branches, which noise would make expensive. */
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
