/* make_pli_picture.c - makes the pictures of golden files from integers alone, or cuts them out of
 * PNGs. */
#include "golden/make_pli_picture.h"

#include "decode/decode.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATH_NBYTES = 4096 };

/* Returns a random number that depends only on (y, x, salt). */
static uint32_t hash(uint32_t y, uint32_t x, uint32_t salt)
{
    uint32_t h = y * 0x9E3779B1u ^ x * 0x85EBCA77u ^ salt * 0xC2B2AE3Du;
    h = (h ^ h >> 15) * 0x2C1B3C6Du;
    h = (h ^ h >> 12) * 0x297A2D39u;
    return h ^ h >> 15;
}

/* Returns a value of 0..65535, interpolated bilinearly between random values `step` pixels
 * apart. */
static uint32_t waves(uint32_t y, uint32_t x, uint32_t step, uint32_t salt)
{
    uint32_t y0 = y / step, x0 = x / step, fy = y % step, fx = x % step;
    uint64_t top = (uint64_t)(hash(y0, x0, salt) >> 16) * (step - fx) +
                   (uint64_t)(hash(y0, x0 + 1, salt) >> 16) * fx;
    uint64_t low = (uint64_t)(hash(y0 + 1, x0, salt) >> 16) * (step - fx) +
                   (uint64_t)(hash(y0 + 1, x0 + 1, salt) >> 16) * fx;
    return (uint32_t)((top * (step - fy) + low * fy) / ((uint64_t)step * step));
}

/* Imitates a photograph in 16 bits: smooth light, texture, noise, and correlated colours. */
static uint32_t photo(uint32_t y, uint32_t x, uint32_t c)
{
    uint32_t light = waves(y, x, 37, 1) / 2 + waves(y, x, 9, 2) / 4 + waves(y, x, 3, 3) / 16;
    uint32_t color = waves(y, x, 53, 4 + c) / 8 + (hash(y, x, 9 + c) & 0x2FF);
    return light + color;
}

/* Makes regions of a few label values with smooth borders, and some islands. */
static uint32_t label(uint32_t y, uint32_t x)
{
    uint32_t region =
        (y + waves(y, x, 31, 7) / 2500) / 60 * 7 + (x + waves(y, x, 43, 8) / 1800) / 75;
    return hash(y / 9, x / 9, 11) % 41 == 0 ? 33 : hash(region, 0, 12) % 19;
}

/* Imitates a screen: text of repeated glyphs on a background, lines, few colours. */
static uint32_t screen(uint32_t y, uint32_t x, uint32_t c)
{
    uint32_t line = y / 12, glyph = hash(line, x / 7, 21) % 13;
    bool ink = y % 12 < 9 && x % 7 < 5 && hash(y % 12 / 2 * 2, x % 7, 22 + glyph) % 3 == 0;
    if (y % 48 == 47 || x == 3)
        return 120 + 10 * c;
    if (line % 4 == 3)
        return ink ? 255 : 30 + 20 * c;
    return c == 3 ? 255 : ink ? 20 + 60 * c * (glyph == 5) : 250;
}

/* Makes identical blocks of 8x8 without low frequencies except DC, and below them flat blocks, some
 * of them with faint noise. */
static uint32_t tiles(uint32_t y, uint32_t x)
{
    if (y < 80)
        return hash(y % 8, x % 8, 81) & 1 ? 0xFFFF : 0;
    return 0x8080 + (hash(y / 8, x / 8, 82) % 16 == 0 ? hash(y, x, 83) & 7 : 0);
}

uint32_t picture_value(const struct picture *p, uint32_t y, uint32_t x, uint32_t c)
{
    uint32_t max = p->bits == 8 ? 0xFF : 0xFFFF, down = 16u - p->bits;
    uint32_t last = p->channels - 1u;
    switch (p->kind) {
    case PHOTO:
        return photo(y, x, c) >> down;
    case DEPTH12:
        return photo(y, x, c) >> 4;
    case NOISE:
        return hash(y, x, 31 + c) & max;
    case FLAT:
        return 40u + 50u * c;
    case EXTREMES:
        return (hash(y / 3, x / 5, 41 + c) & 3 ? hash(y, x / 4, 42) : hash(y, x, 43)) & 1 ? max : 0;
    case LABELS:
        return p->bits == 8 ? label(y, x) : 1000 * label(y, x) + label(y / 2, x);
    case SCREEN:
        return screen(y, x, c);
    case MIXED:
        return y < 64 ? (x < 64 ? photo(y, x, c) >> 8 : 17 * c)
                      : (x < 64 ? hash(y, x, 51 + c) & 0xFF : screen(y, x, c));
    case TILES:
        return tiles(y, x) & max;
    default: /* ALPHA: opaque, transparent (without colour) and soft edges; colours like PHOTO */
        break;
    }
    uint32_t soft = waves(y, x, 19, 61);
    uint32_t alpha = soft > 40000 ? max : soft < 26000 ? 0 : (soft - 26000) * max / 14000;
    return c == last ? alpha : alpha == 0 ? 0 : photo(y, x, c) >> down;
}

void *picture_read_file(const char *path, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    long n;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    n = ftell(file);
    rewind(file);
    void *data = malloc((size_t)n + 1);
    *nbytes = data ? fread(data, 1, (size_t)n, file) : 0;
    fclose(file);
    return data;
}

int picture_fail(const char *name, const char *what)
{
    fprintf(stderr, "%s: %s\n", name, what);
    return -1;
}

int picture_crop(const struct picture *p, const char *data, void *pixels)
{
    char path[PATH_NBYTES];
    struct psti_decoder *decoder = NULL;
    struct pst_decode_options options = {.struct_size = sizeof options};
    struct pst_image_info info;
    struct psti_rect rect = {p->y, p->x, p->height, p->width};
    size_t nbytes = 0, row = (size_t)p->width * p->channels * (p->bits / 8u);
    int result = -1;
    snprintf(path, sizeof path, "%s/%s", data, p->file);
    void *bytes = picture_read_file(path, &nbytes);
    if (bytes && psti_decode_open(&decoder, NULL) == PST_OK &&
        psti_decode_probe(decoder, bytes, nbytes, PST_FORM_PNG, &options, &info, NULL) == PST_OK &&
        info.channels == p->channels && info.bits == p->bits &&
        psti_decode_region(decoder, bytes, nbytes, &info, &options, &rect, pixels, row, NULL) ==
            PST_OK)
        result = 0;
    psti_decode_close(&decoder);
    free(bytes);
    return result ? picture_fail(path, "no such picture, or not as the list says") : 0;
}
