/* pli_emit.c - the last stage of a unit: turns planes or samples in scratch into pixels in the
 * caller's memory. It undoes the colour transform and the levels of near-lossless images, cuts out
 * the part that is wanted, and stores with any strides.
 *
 * Row kernels, one set per CPU level, do the usual cases: 8 bits, lossless, interleaved or planar;
 * RGB of 16 bits. The plain loops here do everything else. They are the reference implementation of
 * the kernels. */
#include "pli/decode/pli_kernels.h"

#include "pli/decode/pli_decode_int.h"
#include "pli/decode/pli_rgb.h"

#include "base/bits.h"

#include <string.h>

enum { HALF_U8 = 128, HALF_U16 = 32768 };

static void green_one_u8(const uint8_t *g, const uint8_t *p, uint8_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (uint8_t)(p[i] + g[i] - HALF_U8);
}

enum { PIXELS = 32 };

static inline void store_rgb(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out)
{
    uint16_t low[PIXELS];
    uint32_t pixels[PIXELS];
    for (uint32_t i = 0; i < PIXELS; i++)
        low[i] = (uint16_t)(c0[i] | c1[i] << 8);
    for (uint32_t i = 0; i < PIXELS; i++)
        pixels[i] = low[i] | (uint32_t)c2[i] << 16;
    psti_pli_store_rgb(pixels, PIXELS, out);
}

static void green_rgb_u8(const uint8_t *g, const uint8_t *r, const uint8_t *b, uint8_t *out,
                         uint32_t n)
{
    for (; n >= PIXELS; n -= PIXELS, g += PIXELS, r += PIXELS, b += PIXELS, out += 3 * PIXELS) {
        uint8_t red[PIXELS], blue[PIXELS];
        green_one_u8(g, r, red, PIXELS);
        green_one_u8(g, b, blue, PIXELS);
        store_rgb(red, g, blue, out);
    }
    for (uint32_t i = 0; i < n; i++) {
        out[3 * i] = (uint8_t)(r[i] + g[i] - HALF_U8);
        out[3 * i + 1] = g[i];
        out[3 * i + 2] = (uint8_t)(b[i] + g[i] - HALF_U8);
    }
}

static void green_rgba_u8(const uint8_t *g, const uint8_t *r, const uint8_t *b, const uint8_t *a,
                          uint8_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[4 * i] = (uint8_t)(r[i] + g[i] - HALF_U8);
        out[4 * i + 1] = g[i];
        out[4 * i + 2] = (uint8_t)(b[i] + g[i] - HALF_U8);
        out[4 * i + 3] = a[i];
    }
}

static void plain_rgb_u8(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                         uint32_t n)
{
    for (; n >= PIXELS; n -= PIXELS, c0 += PIXELS, c1 += PIXELS, c2 += PIXELS, out += 3 * PIXELS)
        store_rgb(c0, c1, c2, out);
    for (uint32_t i = 0; i < n; i++) {
        out[3 * i] = c0[i];
        out[3 * i + 1] = c1[i];
        out[3 * i + 2] = c2[i];
    }
}

const struct psti_pli_emit_kernels psti_pli_emit_kernels_c = {
    .green_rgb_u8 = green_rgb_u8,
    .green_rgba_u8 = green_rgba_u8,
    .green_one_u8 = green_one_u8,
    .plain_rgb_u8 = plain_rgb_u8,
};

/* Returns the plane that holds channel `c`. If green was subtracted, the planes are G, R, B, A. */
static int plane_of(const struct psti_pli_unit *unit, int c)
{
    static const int green_first[4] = {1, 0, 2, 3};
    return unit->transform == PSTI_PLI_SUBTRACT_GREEN ? green_first[c] : c;
}

/* Returns whether plane `p` holds differences to plane 0. */
static bool is_difference(const struct psti_pli_unit *unit, int p)
{
    return unit->transform == PSTI_PLI_SUBTRACT_GREEN && (p == 1 || p == 2);
}

static uint32_t level(uint32_t q, uint32_t max_error, uint32_t max)
{
    uint32_t v = q * (2 * max_error + 1);
    return v < max ? v : max;
}

/* Stores one channel of one row; samples are `step` bytes apart. `green` is NULL if the plane holds
 * no differences. */
static void store_u8(const uint8_t *row, const uint8_t *green, uint32_t n, uint8_t max_error,
                     uint8_t *out, int64_t step)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t v = green ? (uint8_t)(row[i] + green[i] - HALF_U8) : row[i];
        out[(int64_t)i * step] = (uint8_t)level(v, max_error, UINT8_MAX);
    }
}

static void store_u16(const uint8_t *row, const uint8_t *green, uint32_t n, uint8_t max_error,
                      uint8_t *out, int64_t step)
{
    for (uint32_t i = 0; i < n; i++) {
        uint16_t v = psti_load_u16(row + 2 * i);
        if (green)
            v = (uint16_t)(v + psti_load_u16(green + 2 * i) - HALF_U16);
        psti_store_u16(out + (int64_t)i * step, (uint16_t)level(v, max_error, UINT16_MAX));
    }
}

static const uint8_t *plane_row(const struct psti_pli_planes *planes, int p, uint32_t y)
{
    return planes->base + (size_t)p * planes->plane_step + (y >> 5) * planes->band_step +
           (y & 31) * planes->row_step;
}

static bool is_interleaved(const struct pst_pixels *pixels)
{
    return pixels->channel_nbytes == pixels->bits / 8 &&
           pixels->pixel_nbytes == pixels->channels * (pixels->bits / 8);
}

/* The kinds of rows of whole pixels that have a fast function. */
enum fast_row { NO_FAST_ROW, GREEN_RGB, GREEN_RGBA, PLAIN_RGB, RGB_16, COPY };

static enum fast_row fast_row_for(const struct psti_pli_unit *unit,
                                  const struct psti_pli_part *part)
{
    bool green = unit->transform == PSTI_PLI_SUBTRACT_GREEN;
    if (unit->max_error != 0 || part->channel >= 0 || !is_interleaved(part->pixels))
        return NO_FAST_ROW;
    if (unit->channels == 1)
        return COPY;
    if (unit->bits == 16)
        return unit->channels == 3 && unit->kernels->emit->rgb_u16 ? RGB_16 : NO_FAST_ROW;
    if (unit->channels == 3)
        return green ? GREEN_RGB : PLAIN_RGB;
    return unit->channels == 4 && green ? GREEN_RGBA : NO_FAST_ROW;
}

/* Stores rows of 64 pixels, all rows of a band in one call. Returns false if the level has no such
 * kernel, or if the part is not 64 pixels wide. */
static bool emit_green_rgb(const struct psti_pli_emit_kernels *k,
                           const struct psti_pli_planes *planes, const struct psti_pli_part *part)
{
    uint8_t *out = part->pixels->data;
    if (!k->green_rgb_u8_rows || part->width != 64)
        return false;
    for (uint32_t y = part->y, end = y + part->height, next; y < end; y = next) {
        next = (y | 31) + 1 < end ? (y | 31) + 1 : end;
        const uint8_t *p0 = plane_row(planes, 0, y) + part->x;
        k->green_rgb_u8_rows(p0, p0 + planes->plane_step, p0 + 2 * planes->plane_step,
                             planes->row_step, next - y, out, part->pixels->row_nbytes);
        out += (int64_t)(next - y) * part->pixels->row_nbytes;
    }
    return true;
}

bool psti_pli_is_green_rgb(const struct psti_pli_unit *unit, const struct psti_pli_part *part)
{
    return fast_row_for(unit, part) == GREEN_RGB && part->x == 0 &&
           part->width >= PSTI_PLI_RGB_ROW_MIN;
}

static void emit_copies(const struct psti_pli_unit *unit, const struct psti_pli_planes *planes,
                        const struct psti_pli_part *part)
{
    size_t nbytes = part->width * (unit->bits / 8u), skip = part->x * (unit->bits / 8u);
    uint8_t *out = part->pixels->data;
    for (uint32_t y = 0; y < part->height; y++, out += part->pixels->row_nbytes) {
        const uint8_t *row = plane_row(planes, 0, part->y + y) + skip;
        if (nbytes == 64) /* with a constant size the copy compiles to a few moves, not to a call */
            memcpy(out, row, 64);
        else if (nbytes == 128)
            memcpy(out, row, 128);
        else
            memcpy(out, row, nbytes);
    }
}

static void emit_fast_rows(const struct psti_pli_unit *unit, const struct psti_pli_planes *planes,
                           const struct psti_pli_part *part, enum fast_row fast)
{
    const struct psti_pli_emit_kernels *k = unit->kernels->emit;
    uint8_t *out = part->pixels->data;
    if (fast == GREEN_RGB && emit_green_rgb(k, planes, part))
        return;
    if (fast == COPY) {
        emit_copies(unit, planes, part);
        return;
    }
    for (uint32_t y = 0; y < part->height; y++, out += part->pixels->row_nbytes) {
        const uint8_t *p0 = plane_row(planes, 0, part->y + y) + part->x * (unit->bits / 8u);
        const uint8_t *p1 = p0 + planes->plane_step, *p2 = p1 + planes->plane_step;
        if (fast == GREEN_RGB)
            k->green_rgb_u8(p0, p1, p2, out, part->width);
        else if (fast == PLAIN_RGB)
            k->plain_rgb_u8(p0, p1, p2, out, part->width);
        else if (fast == RGB_16)
            k->rgb_u16(p0, p1, p2, unit->transform == PSTI_PLI_SUBTRACT_GREEN, out, part->width);
        else
            k->green_rgba_u8(p0, p1, p2, p2 + planes->plane_step, out, part->width);
    }
}

/* Stores one channel of one row, in the fastest way that its layout allows. */
static void emit_channel(const struct psti_pli_unit *unit, const struct psti_pli_part *part,
                         const uint8_t *const rows[4], int c, uint8_t *out)
{
    int p = plane_of(unit, c);
    const uint8_t *green = is_difference(unit, p) ? rows[0] : NULL;
    int64_t step = part->pixels->pixel_nbytes;
    size_t nbytes = unit->bits / 8u;
    bool contiguous = step == (int64_t)nbytes && unit->max_error == 0;
    if (contiguous && !green)
        memcpy(out, rows[p], part->width * nbytes);
    else if (contiguous && unit->bits == 8)
        unit->kernels->emit->green_one_u8(green, rows[p], out, part->width);
    else if (unit->bits == 8)
        store_u8(rows[p], green, part->width, unit->max_error, out, step);
    else
        store_u16(rows[p], green, part->width, unit->max_error, out, step);
}

void psti_pli_emit_planes(const struct psti_pli_unit *unit, const struct psti_pli_planes *planes,
                          const struct psti_pli_part *part)
{
    size_t skip = (size_t)part->x * (unit->bits / 8u);
    enum fast_row fast = fast_row_for(unit, part);
    if (fast != NO_FAST_ROW) {
        emit_fast_rows(unit, planes, part, fast);
        return;
    }
    for (uint32_t y = 0; y < part->height; y++) {
        const uint8_t *rows[4] = {0};
        for (int p = 0; p < unit->channels; p++)
            rows[p] = plane_row(planes, p, part->y + y) + skip;
        uint8_t *out = (uint8_t *)part->pixels->data + (int64_t)y * part->pixels->row_nbytes;
        if (part->channel >= 0) {
            emit_channel(unit, part, rows, part->channel, out);
            continue;
        }
        for (int c = 0; c < unit->channels; c++)
            emit_channel(unit, part, rows, c, out + c * part->pixels->channel_nbytes);
    }
}

static void emit_sample_row(const struct psti_pli_unit *unit, const struct psti_pli_part *part,
                            const uint8_t *row, int c, uint8_t *out)
{
    int64_t step = part->pixels->pixel_nbytes;
    for (uint32_t x = 0; x < part->width; x++) {
        size_t i = (size_t)x * unit->channels + (size_t)c;
        uint8_t *at = out + (int64_t)x * step;
        if (unit->bits == 8)
            *at = (uint8_t)level(row[i], unit->max_error, UINT8_MAX);
        else
            psti_store_u16(
                at, (uint16_t)level(psti_load_u16(row + 2 * i), unit->max_error, UINT16_MAX));
    }
}

void psti_pli_emit_pixels(const struct psti_pli_unit *unit, const void *samples,
                          const struct psti_pli_part *part)
{
    size_t pixel_nbytes = (size_t)unit->channels * (unit->bits / 8u);
    bool copies = unit->max_error == 0 && is_interleaved(part->pixels) &&
                  (part->channel < 0 || unit->channels == 1);
    for (uint32_t y = 0; y < part->height; y++) {
        const uint8_t *row = (const uint8_t *)samples +
                             ((size_t)(part->y + y) * unit->width + part->x) * pixel_nbytes;
        uint8_t *out = (uint8_t *)part->pixels->data + (int64_t)y * part->pixels->row_nbytes;
        if (copies)
            memcpy(out, row, part->width * pixel_nbytes);
        else if (part->channel >= 0)
            emit_sample_row(unit, part, row, part->channel, out);
        else
            for (int c = 0; c < unit->channels; c++)
                emit_sample_row(unit, part, row, c, out + c * part->pixels->channel_nbytes);
    }
}
