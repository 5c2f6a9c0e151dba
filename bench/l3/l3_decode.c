/* l3_decode.c - decodes L3 to pixels (l3.h). It runs in the calling thread and uses only memory of
 * the caller.
 *
 * The bytes are not trusted. l3_read makes sure that all tiles lie within them. A record that
 * would leave its tile, or a tile with bytes left over, ends decoding. Eight deltas are read at
 * once, which may read up to 9 bytes after a record. Near the end of the image a record is copied
 * to a larger buffer first. */
#include "l3_rows.h"

#include <string.h>

#define READ_AHEAD_NBYTES 16

static uint32_t get_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get_u64(const uint8_t *at) { return get_u32(at) | (uint64_t)get_u32(at + 4) << 32; }

static void put_u64(uint8_t *to, uint64_t v)
{
    for (uint32_t i = 0; i < 8; i++)
        to[i] = (uint8_t)(v >> 8 * i);
}

uint32_t l3_tile_nbytes(const uint8_t *in, const struct l3_info *info, uint32_t channel,
                        uint32_t tile)
{
    const uint8_t *at = in + L3_HEADER_NBYTES + ((size_t)channel * info->n_tiles + tile) * 2;
    return at[0] | (uint32_t)at[1] << 8;
}

bool l3_read(const uint8_t *in, size_t nbytes, struct l3_info *info)
{
    if (nbytes < L3_HEADER_NBYTES || memcmp(in, "LLL.", 4) != 0)
        return false;
    *info = (struct l3_info){.width = get_u32(in + 4), .height = get_u32(in + 8), .edge = in[12]};
    if (!l3_layout(info) || nbytes < info->streams)
        return false;
    size_t left = nbytes - info->streams;
    for (uint32_t c = 0; c < L3_CHANNELS; c++)
        for (uint32_t i = 0; i < info->n_tiles; i++) {
            const uint32_t size = l3_tile_nbytes(in, info, c, i);
            if (size > left)
                return false;
            left -= size;
        }
    return left == 0;
}

/* Unpacks eight deltas of n bits, the first in the lowest bits, to eight bytes. */
static inline uint64_t spread(uint64_t bits, uint32_t n)
{
    const uint64_t one = (1ull << n) - 1, two = (1ull << 2 * n) - 1, four = (1ull << 4 * n) - 1;
    bits = (bits & four) | (bits >> 4 * n & four) << 32;
    bits = (bits & (two | two << 32)) | (bits >> 2 * n & (two | two << 32)) << 16;
    const uint64_t ones = one | one << 16 | one << 32 | one << 48;
    return (bits & ones) | (bits >> n & ones) << 8;
}

static inline void take_deltas(const uint8_t *record, uint32_t n, uint32_t width, uint8_t *deltas)
{
    for (uint32_t x = 0; x < width; x += 8) {
        const uint8_t *at = record + 1 + x / 8 * n;
        put_u64(deltas + x, spread(get_u64(at) >> 4 | (uint64_t)at[8] << 60, n));
    }
}

/* Calls take_deltas with a constant n, which makes its shifts and masks constants. */
static void take_deltas_of(const uint8_t *record, uint32_t n, uint32_t width, uint8_t *deltas)
{
    switch (n) {
    case 0:
        memset(deltas, 0, width);
        break;
#define CASE(N)                                                                                    \
    case N:                                                                                        \
        take_deltas(record, N, width, deltas);                                                     \
        break;
        CASE(1)
        CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
#undef CASE
            default : take_deltas(record, L3_RECORD_BITS_MAX, width, deltas);
    }
}

/* Decodes one channel of a tile to rows of L3_ROW_NBYTES. `after` is the end of the image's
 * bytes. */
static bool take_tile(const uint8_t *at, const uint8_t *end, const uint8_t *after, uint32_t height,
                      uint32_t width, uint8_t *samples)
{
    uint8_t deltas[L3_EDGE_MAX] = {0}, predicted[L3_EDGE_MAX] = {0};
    uint8_t copy[L3_EDGE_MAX + 2 + READ_AHEAD_NBYTES] = {0};
    for (uint32_t y = 0; y < height; y++, samples += L3_ROW_NBYTES) {
        const uint32_t n = end - at >= 2 ? at[0] & 15u : L3_RECORD_BITS_MAX + 1;
        const uint32_t nbytes = l3_record_nbytes(width, n);
        if (n > L3_RECORD_BITS_MAX || nbytes > (size_t)(end - at))
            return false;
        const uint8_t *record = at;
        if (after - at < L3_EDGE_MAX + 2 + READ_AHEAD_NBYTES) {
            memcpy(copy, at, nbytes);
            record = copy;
        }
        const uint8_t base = (uint8_t)(at[0] >> 4 | at[1] << 4);
        take_deltas_of(record, n, width, deltas);
        for (size_t x = 0; x < L3_EDGE_MAX; x++)
            samples[x + 1] = (uint8_t)(predicted[x] + base + deltas[x]);
        l3_predict(samples, width, predicted);
        at += nbytes;
    }
    return at == end;
}

static void interleave(uint8_t samples[L3_CHANNELS][L3_EDGE_MAX * L3_ROW_NBYTES], uint8_t *pixels,
                       size_t row_nbytes, uint32_t height, uint32_t width)
{
    for (uint32_t y = 0; y < height; y++) {
        const size_t from = (size_t)y * L3_ROW_NBYTES + 1;
        uint8_t *to = pixels + y * row_nbytes;
        for (uint32_t x = 0; x < width; x++, to += L3_CHANNELS) {
            to[0] = samples[0][from + x];
            to[1] = samples[1][from + x];
            to[2] = samples[2][from + x];
        }
    }
}

bool l3_decode(const uint8_t *in, size_t nbytes, uint8_t *pixels, size_t row_nbytes)
{
    uint8_t samples[L3_CHANNELS][L3_EDGE_MAX * L3_ROW_NBYTES] = {{0}};
    const uint8_t *at[L3_CHANNELS];
    struct l3_info info;
    if (!l3_read(in, nbytes, &info))
        return false;
    at[0] = in + info.streams;
    for (uint32_t c = 1; c < L3_CHANNELS; c++) {
        at[c] = at[c - 1];
        for (uint32_t i = 0; i < info.n_tiles; i++)
            at[c] += l3_tile_nbytes(in, &info, c - 1, i);
    }
    for (uint32_t i = 0; i < info.n_tiles; i++) {
        const uint32_t down = i / info.n_across, across = i % info.n_across;
        const uint32_t height = l3_tile_px(info.height, info.edge, down);
        const uint32_t width = l3_tile_px(info.width, info.edge, across);
        for (uint32_t c = 0; c < L3_CHANNELS; c++) {
            const uint8_t *end = at[c] + l3_tile_nbytes(in, &info, c, i);
            if (!take_tile(at[c], end, in + nbytes, height, width, samples[c]))
                return false;
            at[c] = end;
        }
        interleave(samples,
                   pixels + (size_t)down * info.edge * row_nbytes +
                       (size_t)across * info.edge * L3_CHANNELS,
                   row_nbytes, height, width);
    }
    return true;
}
