/* pli_jpeg_strip.c - holds the samples of one row of units, and makes pixels of them.
 *
 * A strip is as wide as the region and as high as a unit; no whole image is ever held. The inverse
 * DCT delivers blocks in any order. When all blocks are there, rows of pixels are made one by one:
 * each component is upsampled to a row, then colour follows. Interpolation downwards needs a row of
 * the next strip. So the last row of pixels waits for it, and the last row of samples is kept.
 * Everything is in the caller's memory. The geometry is that of the frame, which has been checked.
 */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "base/bits.h"

#include <string.h>

enum {
    SLACK = PSTI_PLI_JPEG_ROW_SLACK,
    ROWS_ABOVE = 1,
    WIDENED = 48 /* samples by which the blocks of a region may be wider than the region */
};

/* Returns the bytes from row to row. It is an odd number of cache lines, which puts the rows of a
 * block into different cache sets. */
static size_t stride_for(uint32_t width)
{
    return (psti_round_up((size_t)width + WIDENED + 2 * SLACK, 64) | 64);
}

/* Returns the bytes of an upsampled row, including those that kernels may write after it. */
static size_t upsampled_nbytes(uint32_t width) { return stride_for(width) + 2 * SLACK; }

size_t psti_pli_jpeg_strip_nbytes(uint32_t n_components, uint32_t edge, uint32_t width)
{
    return n_components * ((edge + ROWS_ABOVE) * stride_for(width) + upsampled_nbytes(width)) +
           psti_round_up((size_t)width * n_components, 64) + SLACK;
}

void psti_pli_jpeg_strip_begin(struct psti_pli_jpeg_strip *strip,
                               const struct psti_jpeg_frame *frame, uint32_t block, uint32_t edge,
                               const struct pst_pli_region *region,
                               const struct psti_pli_jpeg_rows *kernels, uint8_t *memory)
{
    size_t n_rows = 0;
    *strip = (struct psti_pli_jpeg_strip){.frame = frame,
                                          .samples = memory,
                                          .stride = stride_for(region->width),
                                          .block = block,
                                          .edge = edge,
                                          .kernels = kernels};
    psti_pli_jpeg_find_needs(frame, block, region, strip->needs);
    for (uint32_t i = 0; i < frame->n_components; i++) {
        strip->tops[i] = (ptrdiff_t)((n_rows + ROWS_ABOVE) * strip->stride + SLACK);
        n_rows += (edge >> strip->needs[i].down_log2) + ROWS_ABOVE;
    }
    memory += n_rows * strip->stride;
    for (uint32_t i = 0; i < frame->n_components; i++, memory += upsampled_nbytes(region->width))
        strip->upsampled[i] = memory;
    strip->pixels = memory;
}

/* Returns the address of sample (row, column) of component i. The first row in memory is the row
 * above this row of units. */
static uint8_t *sample_at(const struct psti_pli_jpeg_strip *strip, uint32_t i, uint32_t row,
                          uint32_t column)
{
    const struct psti_pli_jpeg_need *need = &strip->needs[i];
    ptrdiff_t y = (ptrdiff_t)row - (strip->y >> need->down_log2);
    ptrdiff_t x = (ptrdiff_t)column - (ptrdiff_t)strip->block * need->column0;
    return strip->samples + strip->tops[i] + y * (ptrdiff_t)strip->stride + x;
}

void psti_pli_jpeg_strip_next(struct psti_pli_jpeg_strip *strip, uint32_t y)
{
    if (y > strip->y)
        for (uint32_t i = 0; i < strip->frame->n_components; i++) {
            uint8_t *top = strip->samples + strip->tops[i] - SLACK;
            size_t n_rows = strip->edge >> strip->needs[i].down_log2;
            memcpy(top - strip->stride, top + (n_rows - 1) * strip->stride, strip->stride);
        }
    strip->y = y;
}

/* Returns a mask of the numbers first .. first + n - 1 that are at least `from` and below `to`. */
static uint32_t bits_within(uint32_t first, uint32_t n, uint32_t from, uint32_t to)
{
    uint32_t a = from > first ? from - first : 0, b = to > first ? to - first : 0;
    b = b < n ? b : n;
    return a < b ? (1u << b) - (1u << a) : 0;
}

bool psti_pli_jpeg_strip_place(const struct psti_pli_jpeg_strip *strip,
                               struct psti_pli_jpeg_blocks *blocks)
{
    bool any = false;
    blocks->samples = strip->samples;
    blocks->stride = strip->stride;
    blocks->edge = strip->block;
    blocks->all = true;
    for (uint32_t s = 0; s < blocks->coefs->n_squares; s++) {
        const struct psti_jpeg_square *square = &blocks->coefs->squares[s];
        uint32_t i = square->component;
        const struct psti_pli_jpeg_need *need = &strip->needs[i];
        uint32_t across =
            bits_within(square->column, square->columns, need->column0, need->column1);
        uint32_t down = bits_within(square->row, square->rows, need->row0, need->row1);
        uint64_t wanted = 0;
        for (uint32_t y = 0; y < 8; y++)
            if (down >> y & 1)
                wanted |= (uint64_t)across << (8 * y);
        blocks->wanted[s] = wanted;
        blocks->at[s] = strip->tops[i] +
                        ((ptrdiff_t)square->row * strip->block - (strip->y >> need->down_log2)) *
                            (ptrdiff_t)strip->stride +
                        ((ptrdiff_t)square->column - (ptrdiff_t)need->column0) * strip->block;
        blocks->all = blocks->all && across == (1u << square->columns) - 1 &&
                      down == (1u << square->rows) - 1;
        any = any || wanted != 0;
    }
    return any;
}

/* Repeats samples sideways at the edges of the image. */
static void repeat_edges(const struct psti_pli_jpeg_strip *strip, uint32_t i)
{
    const struct psti_pli_jpeg_need *need = &strip->needs[i];
    uint32_t left = strip->block * need->column0;
    uint32_t end_x = strip->frame->components[i].width - left;
    uint32_t first = strip->y >> need->down_log2;
    uint32_t end = first + (strip->edge >> need->down_log2);
    for (uint32_t y = need->y0 > first ? need->y0 : first; y < need->y1 && y < end; y++) {
        uint8_t *row = sample_at(strip, i, y, left);
        if (need->x0 == 0)
            row[-1] = row[0];
        if (need->x1 == left + end_x)
            row[end_x] = row[end_x - 1];
    }
}

uint32_t psti_pli_jpeg_strip_fill(struct psti_pli_jpeg_strip *strip)
{
    uint32_t end = strip->y + strip->edge;
    bool waits = false;
    for (uint32_t i = 0; i < strip->frame->n_components; i++) {
        if (strip->needs[i].sideways)
            repeat_edges(strip, i);
        waits = waits || strip->needs[i].upright;
    }
    if (end >= strip->frame->height)
        return strip->frame->height;
    return waits ? end - 1 : end;
}

static void repeat(const uint8_t *in, uint32_t times, uint8_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, out += times)
        memset(out, in[i], times);
}

/* Returns row y of component i, upsampled to the image's resolution, from column x on. */
static const uint8_t *full_row(const struct psti_pli_jpeg_strip *strip, uint32_t i, uint32_t y,
                               uint32_t x, uint32_t n_pixels)
{
    const struct psti_pli_jpeg_need *need = &strip->needs[i];
    uint32_t row = y >> need->down_log2, first = x >> need->across_log2;
    uint32_t n = ((x + n_pixels - 1) >> need->across_log2) + 1 - first;
    const uint8_t *near = sample_at(strip, i, row, first), *far = near;
    uint8_t *out = strip->upsampled[i];
    if (need->across_log2 == 0 && !need->upright)
        return near;
    if (need->upright) {
        bool upper = y % 2 == 0;
        uint32_t other = upper ? row - 1 : row + 1;
        if (upper ? row > 0 : other < strip->frame->components[i].height)
            far = sample_at(strip, i, other, first);
        if (need->sideways)
            strip->kernels->h2v2(near, far, out, n);
        else
            strip->kernels->v2(near, far, upper ? 1 : 2, out, n);
    } else if (need->sideways) {
        strip->kernels->h2(near, out, n);
    } else {
        repeat(near, 1u << need->across_log2, out, n);
    }
    return out + (x - (first << need->across_log2));
}

const uint8_t *psti_pli_jpeg_strip_row(const struct psti_pli_jpeg_strip *strip, uint32_t y,
                                       uint32_t x, uint32_t n, uint8_t *out)
{
    const struct psti_jpeg_frame *frame = strip->frame;
    const uint8_t *rows[PSTI_JPEG_COMPONENTS_MAX];
    for (uint32_t i = 0; i < frame->n_components; i++)
        rows[i] = full_row(strip, i, y, x, n);
    if (frame->n_components == 1) {
        if (out)
            memcpy(out, rows[0], n);
        return out ? out : rows[0];
    }
    out = out ? out : strip->pixels;
    if (frame->transform == PSTI_PLI_YCBCR)
        strip->kernels->ycc_rgb(rows[0], rows[1], rows[2], out, n);
    else
        strip->kernels->plain_rgb(rows[0], rows[1], rows[2], out, n);
    return out;
}
