/* pli_load.c - the encoder's view of the caller's pixels: levels (near-lossless), the colour
 * transform, and one unit at a time as interleaved samples and as planes.
 *
 * Reads the caller's memory with any strides. Writes memory that its caller allocated. */
#include "pli/encode/pli_encode_kernels.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

#define ROOM "encode"

enum { EDGE = 1 << PSTI_PLI_UNIT_LOG2_MIN };

static uint32_t sample_at(const struct pst_pixels *p, uint32_t y, uint32_t x, uint32_t c)
{
    const uint8_t *at = (const uint8_t *)p->data + (int64_t)y * p->row_nbytes +
                        (int64_t)x * p->pixel_nbytes + (int64_t)c * p->channel_nbytes;
    return p->bits == 8 ? *at : psti_load_u16(at);
}

/* Reads the levels of `width` pixels of row y from column x on, interleaved. */
static void read_levels(const struct psti_pli_image *image, uint32_t y, uint32_t x, uint32_t width,
                        uint8_t *out)
{
    const struct pst_pixels *p = image->pixels;
    uint32_t d = image->max_error, step = 2 * d + 1;
    size_t sample_nbytes = p->bits / 8u, pixel_nbytes = p->channels * sample_nbytes;
    if (d == 0 && p->channel_nbytes == (int64_t)sample_nbytes &&
        p->pixel_nbytes == (int64_t)pixel_nbytes) {
        memcpy(out,
               (const uint8_t *)p->data + (int64_t)y * p->row_nbytes + (int64_t)x * p->pixel_nbytes,
               width * pixel_nbytes);
        return;
    }
    for (uint32_t i = 0; i < width; i++) {
        for (uint32_t c = 0; c < p->channels; c++) {
            uint32_t v = (sample_at(p, y, x + i, c) + d) / step;
            if (p->bits == 8)
                *out = (uint8_t)v;
            else
                psti_store_u16(out, (uint16_t)v);
            out += sample_nbytes;
        }
    }
}

/* Replaces a row of levels by the samples that the decoder will return. */
static void levels_to_samples(const struct psti_pli_image *image, uint8_t *row, size_t n_samples)
{
    uint32_t step = 2 * image->max_error + 1;
    for (size_t i = 0; i < n_samples; i++) {
        if (image->pixels->bits == 8) {
            uint32_t v = row[i] * step;
            row[i] = (uint8_t)(v < UINT8_MAX ? v : UINT8_MAX);
        } else {
            uint32_t v = psti_load_u16(row + 2 * i) * step;
            psti_store_u16(row + 2 * i, (uint16_t)(v < UINT16_MAX ? v : UINT16_MAX));
        }
    }
}

enum pst_status psti_pli_checksum(const struct psti_pli_image *image, uint64_t *checksum,
                                  struct pst_error *err)
{
    const struct pst_pixels *p = image->pixels;
    size_t row_nbytes = psti_pli_raw_nbytes(1, p->width, p->channels, p->bits);
    uint8_t *row = psti_alloc(row_nbytes);
    if (!row)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a row of %zu bytes",
                         row_nbytes);
    struct psti_hash_state state;
    psti_hash_begin(&state);
    for (uint32_t y = 0; y < p->height; y++) {
        read_levels(image, y, 0, p->width, row);
        if (image->max_error > 0)
            levels_to_samples(image, row, (size_t)p->width * p->channels);
        psti_hash_update(&state, row, row_nbytes);
    }
    *checksum = psti_hash_end(&state);
    psti_free(row);
    return PST_OK;
}

static uint32_t wrapped(uint32_t v, uint32_t bits)
{
    v &= (1u << bits) - 1;
    return v < (1u << (bits - 1)) ? v : (1u << bits) - v;
}

static void add_changes(const struct pst_pixels *p, uint32_t y, uint64_t *plain, uint64_t *green)
{
    for (uint32_t x = 1; x < p->width; x++) {
        uint32_t dr = sample_at(p, y, x, 0) - sample_at(p, y, x - 1, 0);
        uint32_t dg = sample_at(p, y, x, 1) - sample_at(p, y, x - 1, 1);
        uint32_t db = sample_at(p, y, x, 2) - sample_at(p, y, x - 1, 2);
        *plain += wrapped(dr, p->bits) + wrapped(db, p->bits);
        *green += wrapped(dr - dg, p->bits) + wrapped(db - dg, p->bits);
    }
}

/* Decides whether to subtract green: if the differences to green change less from pixel to pixel
 * than red and blue do. Only some rows are measured. */
uint8_t psti_pli_choose_transform(const struct psti_pli_image *image)
{
    enum { ROWS = 64 };
    const struct pst_pixels *p = image->pixels;
    uint64_t plain = 0, green = 0;
    if (p->channels < 3)
        return PSTI_PLI_TRANSFORM_NONE;
    bool without_gaps = p->bits == 8 && p->pixel_nbytes == 3 && p->channel_nbytes == 1;
    psti_pli_add_changes *kernel = without_gaps ? image->kernels->add_changes : NULL;
    uint32_t step = p->height / ROWS + 1;
    for (uint32_t y = 0; y < p->height; y += step) {
        if (kernel)
            kernel((const uint8_t *)p->data + (int64_t)y * p->row_nbytes, p->width, &plain, &green);
        else
            add_changes(p, y, &plain, &green);
    }
    return green < plain ? PSTI_PLI_SUBTRACT_GREEN : PSTI_PLI_TRANSFORM_NONE;
}

/* Splits the interleaved levels of a unit of at most 64x64 pixels into planes. */
static void split_planes8(const struct psti_pli_image *image, const struct psti_pli_source *s,
                          uint8_t *const planes[4])
{
    const uint8_t *in = s->pixels;
    for (uint32_t y = 0; y < s->height; y++) {
        if (s->channels == 1) {
            memcpy(planes[0] + (size_t)y * EDGE, in, s->width);
            in += s->width;
            continue;
        }
        for (uint32_t x = 0; x < s->width; x++, in += s->channels) {
            size_t at = (size_t)y * EDGE + x;
            if (image->transform == PSTI_PLI_SUBTRACT_GREEN) {
                planes[0][at] = in[1];
                planes[1][at] = (uint8_t)(in[0] - in[1] + 128);
                planes[2][at] = (uint8_t)(in[2] - in[1] + 128);
                if (s->channels == 4)
                    planes[3][at] = in[3];
            } else {
                for (int c = 0; c < s->channels; c++)
                    planes[c][at] = in[c];
            }
        }
    }
}

void psti_pli_split_green_u8_c(const uint8_t *in, uint32_t n, uint8_t *restrict green,
                               uint8_t *restrict red, uint8_t *restrict blue)
{
    for (uint32_t x = 0; x < n; x++) {
        green[x] = in[3 * x + 1];
        red[x] = (uint8_t)(in[3 * x] - in[3 * x + 1] + 128);
        blue[x] = (uint8_t)(in[3 * x + 2] - in[3 * x + 1] + 128);
    }
}

/* Splits RGB of 8 bits into planes with green subtracted. Kernels may access columns after the
 * unit's width, because the planes lie after the pixels and their rows have 64 samples. */
static void split_green_u8(const struct psti_pli_source *s, uint8_t *const planes[4])
{
    const uint8_t *in = s->pixels;
    for (size_t y = 0; y < s->height; y++, in += 3 * (size_t)s->width)
        s->kernels->split_green(in, s->width, planes[0] + y * EDGE, planes[1] + y * EDGE,
                                planes[2] + y * EDGE);
}

static void split_planes16(const struct psti_pli_image *image, const struct psti_pli_source *s,
                           uint8_t *const planes[4])
{
    const uint8_t *in = s->pixels;
    for (uint32_t y = 0; y < s->height; y++) {
        if (s->channels == 1) {
            memcpy(planes[0] + 2 * (size_t)y * EDGE, in, 2 * (size_t)s->width);
            in += 2 * (size_t)s->width;
            continue;
        }
        for (uint32_t x = 0; x < s->width; x++, in += 2u * s->channels) {
            size_t at = 2 * ((size_t)y * EDGE + x);
            uint32_t v[4];
            for (int c = 0; c < s->channels; c++)
                v[c] = psti_load_u16(in + 2 * c);
            if (image->transform == PSTI_PLI_SUBTRACT_GREEN) {
                uint32_t red = v[0], green = v[1];
                v[0] = green;
                v[1] = red - green + 32768;
                v[2] = v[2] - green + 32768;
            }
            for (int c = 0; c < s->channels; c++)
                psti_store_u16(planes[c] + at, (uint16_t)v[c]);
        }
    }
}

size_t psti_pli_unit_memory_nbytes(const struct psti_pli_image *image)
{
    size_t edge = (size_t)1 << image->unit_log2;
    size_t interleaved = edge * edge * image->pixels->channels * (size_t)(image->pixels->bits / 8);
    return edge == EDGE ? 2 * interleaved : interleaved;
}

void psti_pli_describe_unit(const struct psti_pli_image *image, uint32_t row, uint32_t column,
                            struct psti_pli_source *s)
{
    const struct pst_pixels *p = image->pixels;
    uint32_t edge = 1u << image->unit_log2, y = row * edge, x = column * edge;
    *s = (struct psti_pli_source){
        .height = p->height - y < edge ? p->height - y : edge,
        .width = p->width - x < edge ? p->width - x : edge,
        .channels = p->channels,
        .bits = p->bits,
        .transform = image->transform,
        .kernels = image->kernels,
    };
}

void psti_pli_load_unit(const struct psti_pli_image *image, uint32_t row, uint32_t column,
                        uint8_t *memory, struct psti_pli_source *s)
{
    const struct pst_pixels *p = image->pixels;
    uint32_t edge = 1u << image->unit_log2, y = row * edge, x = column * edge;
    psti_pli_describe_unit(image, row, column, s);
    s->pixels = memory;
    size_t row_nbytes = psti_pli_raw_nbytes(1, s->width, s->channels, s->bits);
    for (uint32_t i = 0; i < s->height; i++)
        read_levels(image, y + i, x, s->width, memory + i * row_nbytes);
    if (edge != EDGE)
        return;
    uint8_t *planes[4] = {0};
    size_t plane_nbytes = (size_t)EDGE * EDGE * (p->bits / 8u);
    for (size_t c = 0; c < p->channels; c++)
        s->planes[c] = planes[c] = memory + (p->channels + c) * plane_nbytes;
    if (p->bits == 8 && p->channels == 3 && image->transform == PSTI_PLI_SUBTRACT_GREEN)
        split_green_u8(s, planes);
    else if (p->bits == 8)
        split_planes8(image, s, planes);
    else
        split_planes16(image, s, planes);
}

bool psti_pli_plane_is_constant(const struct psti_pli_source *s, uint32_t plane)
{
    size_t nbytes = s->bits / 8u, row_nbytes = nbytes * EDGE;
    const uint8_t *first = s->planes[plane], *row = first;
    for (uint32_t y = 0; y < s->height; y++, row += row_nbytes)
        if (memcmp(row, first, nbytes) != 0 ||
            memcmp(row, row + nbytes, nbytes * (s->width - 1)) != 0)
            return false;
    return true;
}
