/* png_make.c - implements png_make.h. The filters follow the PNG specification; zlib makes the
 * stream. */
#include "png_make.h"

#include <stdlib.h>

#include <zlib.h>

static uint32_t load_big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_big(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

void add_bytes(struct bytes *file, const void *data, size_t nbytes)
{
    file->data = realloc(file->data, file->nbytes + nbytes + 1);
    assert_non_null(file->data);
    if (nbytes)
        memcpy(file->data + file->nbytes, data, nbytes);
    file->nbytes += nbytes;
}

void add_chunk(struct bytes *file, const char *name, const void *data, size_t nbytes)
{
    uint8_t word[4];
    size_t start = file->nbytes;
    store_big(word, (uint32_t)nbytes);
    add_bytes(file, word, 4);
    add_bytes(file, name, 4);
    add_bytes(file, data, nbytes);
    store_big(word, (uint32_t)crc32(0, file->data + start + 4, (uInt)nbytes + 4));
    add_bytes(file, word, 4);
}

static int paeth(int a, int b, int c)
{
    int p = a + b - c, to_a = abs(p - a), to_b = abs(p - b), to_c = abs(p - c);
    return to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c;
}

static void filter_row(uint8_t *to, const uint8_t *row, const uint8_t *above, size_t n,
                       size_t pixel, int filter)
{
    for (size_t i = 0; i < n; i++) {
        int a = i >= pixel ? row[i - pixel] : 0, b = above[i],
            c = i >= pixel ? above[i - pixel] : 0;
        const int guess[] = {0, a, b, (a + b) / 2, paeth(a, b, c)};
        to[i] = (uint8_t)(row[i] - guess[filter]);
    }
}

struct png_parts make_parts(uint32_t height, uint32_t width, int colour_type, int depth, int filter,
                            uint64_t seed)
{
    static const uint8_t samples[] = {1, 0, 3, 1, 2, 0, 4};
    size_t bits = (size_t)samples[colour_type] * (size_t)depth;
    struct png_parts parts = {.height = height,
                              .width = width,
                              .colour_type = colour_type,
                              .depth = depth,
                              .row_nbytes = (width * bits + 7) / 8,
                              .pixel_nbytes = bits < 8 ? 1 : bits / 8};
    size_t n = parts.row_nbytes;
    uint8_t *above = calloc(1, n), *row = calloc(1, n);
    parts.rows.nbytes = (n + 1) * height;
    parts.rows.data = malloc(parts.rows.nbytes);
    assert_true(above && row && parts.rows.data);
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *to = parts.rows.data + y * (n + 1);
        uint32_t noise = 1u << random_below(&seed, 9);
        for (size_t i = 0; i < n; i++)
            row[i] = (uint8_t)(i * 3 + y * 5 + random_below(&seed, noise));
        to[0] = (uint8_t)(filter == FILTER_MIXED ? random_below(&seed, 5) : (uint32_t)filter);
        filter_row(to + 1, row, above, n, parts.pixel_nbytes, to[0]);
        memcpy(above, row, n);
    }
    free(above);
    free(row);
    parts_deflate(&parts, 15);
    return parts;
}

void parts_deflate(struct png_parts *parts, int window_bits)
{
    z_stream z = {0};
    bytes_free(&parts->stream);
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    parts->stream.nbytes = deflateBound(&z, parts->rows.nbytes);
    parts->stream.data = malloc(parts->stream.nbytes);
    z.next_in = parts->rows.data;
    z.avail_in = (uInt)parts->rows.nbytes;
    z.next_out = parts->stream.data;
    z.avail_out = (uInt)parts->stream.nbytes;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    parts->stream.nbytes = z.total_out;
    deflateEnd(&z);
}

void parts_free(struct png_parts *parts)
{
    bytes_free(&parts->rows);
    bytes_free(&parts->stream);
}

void add_head(struct bytes *file, const struct png_parts *parts)
{
    uint8_t ihdr[13] = {[8] = (uint8_t)parts->depth, [9] = (uint8_t)parts->colour_type};
    uint8_t colours[768];
    store_big(ihdr, parts->width);
    store_big(ihdr + 4, parts->height);
    add_bytes(file, "\x89PNG\r\n\x1A\n", 8);
    add_chunk(file, "IHDR", ihdr, sizeof ihdr);
    for (size_t i = 0; i < sizeof colours; i++)
        colours[i] = (uint8_t)(i * 7);
    if (parts->colour_type == 3)
        add_chunk(file, "PLTE", colours, (size_t)3 << parts->depth);
}

void add_stream(struct bytes *file, const struct png_parts *parts, size_t nbytes_max)
{
    for (size_t at = 0; at < parts->stream.nbytes; at += nbytes_max) {
        size_t left = parts->stream.nbytes - at;
        add_chunk(file, "IDAT", parts->stream.data + at, left < nbytes_max ? left : nbytes_max);
    }
}

struct bytes make_file(const struct png_parts *parts, size_t idat_nbytes_max)
{
    struct bytes file = {NULL, 0};
    add_head(&file, parts);
    add_stream(&file, parts, idat_nbytes_max);
    add_chunk(&file, "IEND", NULL, 0);
    return file;
}

void fix_checksums(uint8_t *file, size_t nbytes)
{
    for (size_t at = 8; nbytes - at >= 12;) {
        uint32_t n = load_big(file + at);
        if (n > nbytes - at - 12)
            return;
        store_big(file + at + 8 + n, (uint32_t)crc32(0, file + at + 4, n + 4));
        at += (size_t)n + 12;
    }
}

size_t find_chunk(const struct bytes *file, const char *name, int n)
{
    for (size_t at = 8; at + 12 <= file->nbytes; at += (size_t)load_big(file->data + at) + 12)
        if (memcmp(file->data + at + 4, name, 4) == 0 && n-- == 0)
            return at;
    fail_msg("no chunk %s", name);
    return 0;
}
