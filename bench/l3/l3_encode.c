/* l3_encode.c - encodes pixels as L3 (l3.h). It runs in the calling thread and uses only memory of
 * the caller. */
#include "l3_rows.h"

#include <string.h>

static void put_u32(uint8_t *to, uint32_t v)
{
    for (uint32_t i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> 8 * i);
}

bool l3_layout(struct l3_info *info)
{
    if (info->width == 0 || info->height == 0 || info->width > L3_SIDE_MAX_PX ||
        info->height > L3_SIDE_MAX_PX || (info->edge != 32 && info->edge != L3_EDGE_MAX))
        return false;
    info->n_across = (info->width + info->edge - 1) / info->edge;
    info->n_down = (info->height + info->edge - 1) / info->edge;
    info->n_tiles = info->n_across * info->n_down;
    info->streams = L3_HEADER_NBYTES + (size_t)info->n_tiles * L3_CHANNELS * 2;
    return true;
}

size_t l3_bound(uint32_t height, uint32_t width, uint32_t edge)
{
    struct l3_info info = {.width = width, .height = height, .edge = edge};
    if (!l3_layout(&info))
        return 0;
    return info.streams +
           (size_t)info.n_tiles * L3_CHANNELS * edge * l3_record_nbytes(edge, L3_RECORD_BITS_MAX);
}

/* Finds the range of a row's residuals, taken as unsigned (flip 0) or signed (flip 0x80). */
struct span {
    uint8_t base, n_bits;
};

static struct span span_of(const uint8_t *residuals, uint32_t width, uint8_t flip)
{
    uint8_t least = 255, most = 0;
    for (size_t x = 0; x < width; x++) {
        const uint8_t v = residuals[x] ^ flip;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    struct span span = {.base = least ^ flip};
    while (span.n_bits < L3_RECORD_BITS_MAX && (most - least) >> span.n_bits != 0)
        span.n_bits++;
    return span;
}

/* Writes a record. Returns the address after it. */
static uint8_t *put_record(uint8_t *to, const uint8_t *residuals, uint32_t width)
{
    const struct span is_unsigned = span_of(residuals, width, 0);
    struct span span = span_of(residuals, width, 0x80);
    if (is_unsigned.n_bits < span.n_bits)
        span = is_unsigned;
    uint32_t held = span.n_bits | (uint32_t)span.base << 4, n_held = 12;
    for (uint32_t x = 0; x < width; x++) {
        held |= (uint32_t)(uint8_t)(residuals[x] - span.base) << n_held;
        for (n_held += span.n_bits; n_held >= 8; n_held -= 8, held >>= 8)
            *to++ = (uint8_t)held;
    }
    for (; n_held > 0; n_held -= n_held < 8 ? n_held : 8, held >>= 8)
        *to++ = (uint8_t)held;
    return to;
}

/* Encodes one channel of a tile, whose first sample is at `pixels`. Returns the address after its
 * bytes. */
static uint8_t *put_tile(uint8_t *to, const uint8_t *pixels, size_t row_nbytes, uint32_t height,
                         uint32_t width)
{
    uint8_t row[L3_ROW_NBYTES] = {0}, predicted[L3_EDGE_MAX] = {0}, residuals[L3_EDGE_MAX];
    for (uint32_t y = 0; y < height; y++) {
        for (size_t x = 0; x < width; x++) {
            row[x + 1] = pixels[y * row_nbytes + x * L3_CHANNELS];
            residuals[x] = (uint8_t)(row[x + 1] - predicted[x]);
        }
        to = put_record(to, residuals, width);
        l3_predict(row, width, predicted);
    }
    return to;
}

bool l3_encode(const uint8_t *pixels, size_t row_nbytes, uint32_t height, uint32_t width,
               uint32_t edge, uint8_t *out, size_t cap, size_t *nbytes)
{
    struct l3_info info = {.width = width, .height = height, .edge = edge};
    if (!l3_layout(&info) || cap < l3_bound(height, width, edge))
        return false;
    memcpy(out, "LLL.", 4);
    put_u32(out + 4, width);
    put_u32(out + 8, height);
    out[12] = (uint8_t)edge;
    uint8_t *size = out + L3_HEADER_NBYTES, *to = out + info.streams;
    for (uint32_t c = 0; c < L3_CHANNELS; c++)
        for (uint32_t i = 0; i < info.n_tiles; i++) {
            const uint32_t down = i / info.n_across, across = i % info.n_across;
            const uint8_t *first =
                pixels + (size_t)down * edge * row_nbytes + (size_t)across * edge * L3_CHANNELS + c;
            uint8_t *end = put_tile(to, first, row_nbytes, l3_tile_px(height, edge, down),
                                    l3_tile_px(width, edge, across));
            *size++ = (uint8_t)(end - to);
            *size++ = (uint8_t)((end - to) >> 8);
            to = end;
        }
    *nbytes = (size_t)(to - out);
    return true;
}
