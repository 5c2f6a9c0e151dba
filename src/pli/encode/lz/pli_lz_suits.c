/* pli_lz_suits.c - tells label maps, screenshots and drawings from photographs.
 *
 * In label maps, screenshots and drawings nearly every pixel equals an earlier neighbour. In
 * photographs at least one pixel in nine does not. Only some rows are read. The functions read the
 * caller's pixels and keep no state. */
#include "pli/encode/pli_encode_int.h"

#include "base/bits.h"

#include <string.h>

enum {
    WINDOW = 256,     /* columns that are compared at a time */
    ROWS_MAX = 256,   /* maximum number of rows that are read, spread over the image */
    NEW_PERCENT = 10, /* per cent of pixels unlike their neighbours above which an image is a
                       * photograph */
    /* log2 of the edge of units. Units are large because repeated shapes, such as letters, are
     * seldom near each other. And label maps decode so much faster in large units that a crop costs
     * no more than with small units. */
    EDGE_LOG2 = 9
};

/* Loads n pixels of row y, from column x on, as numbers. */
static void load(const struct pst_pixels *p, uint32_t y, uint32_t x, uint32_t n, uint64_t *out)
{
    const uint8_t *base = (const uint8_t *)p->data + (int64_t)y * p->row_nbytes;
    base += (int64_t)x * p->pixel_nbytes;
    if (p->bits == 8 && p->channels == 3 && p->pixel_nbytes == 3 && p->channel_nbytes == 1) {
        for (uint32_t i = 0; i < n; i++, base += 3)
            out[i] = base[0] | (uint32_t)base[1] << 8 | (uint32_t)base[2] << 16;
        return;
    }
    if (p->bits == 8 && p->channels == 1) {
        for (uint32_t i = 0; i < n; i++, base += p->pixel_nbytes)
            out[i] = *base;
        return;
    }
    memset(out, 0, n * sizeof *out);
    for (uint32_t c = 0; c < p->channels; c++) {
        const uint8_t *sample = base + c * p->channel_nbytes;
        for (uint32_t i = 0; i < n; i++, sample += p->pixel_nbytes) {
            uint64_t value = p->bits == 8 ? *sample : psti_load_u16(sample);
            out[i] |= value << (c * p->bits);
        }
    }
}

/* Returns how many of the pixels 1..n-2 of `row` differ from the pixel before and from all three
 * above. */
static uint32_t count_new(const uint64_t *above, const uint64_t *row, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i + 1 < n; i++)
        count += (row[i] != row[i - 1]) & (row[i] != above[i]) & (row[i] != above[i - 1]) &
                 (row[i] != above[i + 1]);
    return count;
}

/* Counts the pixels of a whole row that differ from the pixel before and from all three above. */
static uint32_t count_new_in_row(const struct pst_pixels *pixels, uint32_t y)
{
    uint64_t above[WINDOW], row[WINDOW];
    uint32_t count = 0;
    for (uint32_t x = 0; x + 2 < pixels->width; x += WINDOW - 2) {
        uint32_t left = pixels->width - x, wide = left < WINDOW ? left : WINDOW;
        load(pixels, y > 0 ? y - 1 : 0, x, wide, above);
        load(pixels, y, x, wide, row);
        if (y == 0) /* a single row has nothing above: only the pixel before counts */
            memset(above, 0xff, sizeof above);
        count += count_new(above, row, wide);
    }
    return count;
}

uint8_t psti_pli_lz_suits(const struct pst_pixels *pixels)
{
    uint32_t step = pixels->height / ROWS_MAX + 1, first = pixels->height > 1;
    uint64_t n_rows = (pixels->height - first + step - 1) / step;
    uint64_t n = pixels->width > 2 ? n_rows * (pixels->width - 2) : 0, n_new = 0;
    if (n == 0)
        return 0;
    /* A photograph exceeds the limit long before the last row, so counting stops early. */
    for (uint32_t y = first; y < pixels->height; y += step) {
        n_new += count_new_in_row(pixels, y);
        if (n_new * 100 > n * NEW_PERCENT)
            return 0;
    }
    return EDGE_LOG2;
}
