/* decode_png_row.c - converts the samples of a PNG row to plain u8 or u16 pixels.
 *
 * Gray of fewer than 8 bits is scaled to 0..255. Palette indices become colours, or stay indices.
 * Transparency becomes an alpha channel. 16-bit samples become little-endian. Only the wanted
 * columns are read. Pure functions. */
#include "decode/png/decode_png.h"

#include "base/bits.h"

#include <string.h>

void psti_decode_png_palette_fill(const struct psti_png_header *header,
                                  struct psti_png_palette *palette)
{
    palette->n = header->n_palette;
    memset(palette->rgba, 0, sizeof palette->rgba);
    for (uint32_t i = 0; i < header->n_palette; i++) {
        uint32_t alpha = header->trns && i < header->n_trns ? header->trns[i] : 255;
        const uint8_t *rgb = header->palette + 3 * i;
        palette->rgba[i] = rgb[0] | (uint32_t)rgb[1] << 8 | (uint32_t)rgb[2] << 16 | alpha << 24;
    }
}

/* Returns sample i of a row with 1, 2 or 4 bits per sample. The first sample in a byte is in its
 * highest bits. */
static inline uint8_t packed_sample(const uint8_t *row, size_t i, unsigned depth)
{
    size_t bit = i * depth;
    return (uint8_t)((row[bit >> 3] >> (8 - depth - (bit & 7))) & ((1u << depth) - 1));
}

static void unpack(const uint8_t *row, uint32_t x, uint32_t n, unsigned depth, unsigned scale,
                   uint8_t *to)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (uint8_t)(packed_sample(row, (size_t)x + i, depth) * scale);
}

static bool convert_palette(const struct psti_png_header *header,
                            const struct psti_png_palette *palette, const uint8_t *row, uint32_t x,
                            uint32_t n, uint8_t *to)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index =
            header->depth == 8 ? row[x + i] : packed_sample(row, (size_t)x + i, header->depth);
        uint32_t rgba = palette->rgba[index];
        largest = index > largest ? index : largest;
        if (header->trns) {
            psti_store_u32(to, rgba);
            to += 4;
        } else {
            to[0] = (uint8_t)rgba;
            to[1] = (uint8_t)(rgba >> 8);
            to[2] = (uint8_t)(rgba >> 16);
            to += 3;
        }
    }
    return largest < palette->n;
}

/* Converts gray pixels with one transparent value (tRNS) to gray and alpha. This value is compared
 * with the samples before they are scaled to 8 bits. */
static void convert_gray_key(const struct psti_png_header *header, const uint8_t *row, uint32_t x,
                             uint32_t n, void *to)
{
    unsigned depth = header->depth, scale = depth < 8 ? 255 / ((1u << depth) - 1) : 1;
    /* As in libpng, bits of the transparent value above the depth are ignored. */
    uint16_t key = (uint16_t)((header->trns[0] << 8 | header->trns[1]) & ((1u << depth) - 1));
    uint8_t *to8 = to;
    uint16_t *to16 = to;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = (size_t)x + i;
        if (depth == 16) {
            uint16_t value = __builtin_bswap16(psti_load_u16(row + 2 * at));
            to16[2 * i] = value;
            to16[2 * i + 1] = value == key ? 0 : 65535;
        } else {
            uint8_t value = depth == 8 ? row[at] : packed_sample(row, at, depth);
            to8[2 * i] = (uint8_t)(value * scale);
            to8[2 * i + 1] = value == key ? 0 : 255;
        }
    }
}

/* Converts RGB pixels with one transparent colour (tRNS) to RGBA. */
static void convert_rgb_key(const struct psti_png_header *header, const uint8_t *row, uint32_t x,
                            uint32_t n, void *to)
{
    const uint8_t *key = header->trns;
    if (header->depth == 16) {
        const uint8_t *from = row + (size_t)x * 6;
        uint16_t *to16 = to;
        for (uint32_t i = 0; i < n; i++, from += 6, to16 += 4) {
            for (int c = 0; c < 3; c++)
                to16[c] = __builtin_bswap16(psti_load_u16(from + 2 * c));
            to16[3] = memcmp(from, key, 6) == 0 ? 0 : 65535;
        }
    } else {
        const uint8_t *from = row + (size_t)x * 3;
        uint8_t *to8 = to;
        for (uint32_t i = 0; i < n; i++, from += 3, to8 += 4) {
            memcpy(to8, from, 3);
            to8[3] = from[0] == key[1] && from[1] == key[3] && from[2] == key[5] ? 0 : 255;
        }
    }
}

bool psti_decode_png_convert_row(const struct psti_png_header *header,
                                 const struct psti_png_palette *palette, const uint8_t *row,
                                 uint32_t x, uint32_t n, void *to)
{
    if (palette)
        return convert_palette(header, palette, row, x, n, to);
    bool indices = header->colour_type == PSTI_PNG_PALETTE;
    if (header->trns && header->colour_type == PSTI_PNG_GRAY) {
        convert_gray_key(header, row, x, n, to);
    } else if (header->trns && header->colour_type == PSTI_PNG_RGB) {
        convert_rgb_key(header, row, x, n, to);
    } else if (header->depth < 8) {
        unsigned scale = indices ? 1 : 255 / ((1u << header->depth) - 1);
        unpack(row, x, n, header->depth, scale, to);
    } else if (header->depth == 8) {
        size_t pixel_nbytes = psti_decode_png_pixel_bits(header) / 8;
        memcpy(to, row + x * pixel_nbytes, n * pixel_nbytes);
    } else {
        size_t per_pixel = psti_decode_png_pixel_bits(header) / 16;
        const uint8_t *from = row + (size_t)x * per_pixel * 2;
        uint16_t *to16 = to;
        for (size_t i = 0; i < n * per_pixel; i++)
            to16[i] = __builtin_bswap16(psti_load_u16(from + 2 * i));
    }
    return true;
}
