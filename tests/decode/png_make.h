/* png_make.h - PNG files with every choice of the writer in the test's hand: filters, chunks,
 * stream. */
#ifndef PST_TEST_PNG_MAKE_H
#define PST_TEST_PNG_MAKE_H

#include "decode_make.h"

/* What a file is made of before it is written; all memory is malloc's. */
struct png_parts {
    uint32_t height, width;
    int colour_type, depth;
    size_t row_nbytes, pixel_nbytes; /* of a row without its filter; for filters, at least 1 */
    struct bytes rows;               /* filtered, with their filters */
    struct bytes stream;
};

enum { FILTER_MIXED = 5 };
/* Gradients and noise; `filter` 0..4 for every row, or FILTER_MIXED. */
struct png_parts make_parts(uint32_t height, uint32_t width, int colour_type, int depth, int filter,
                            uint64_t seed);
void parts_free(struct png_parts *parts);
/* Replaces the stream by rows deflated anew, `window_bits` 8..15 (zlib makes 9 of 8). */
void parts_deflate(struct png_parts *parts, int window_bits);

/* A growing file. */
void add_bytes(struct bytes *file, const void *data, size_t nbytes);
void add_chunk(struct bytes *file, const char *name, const void *data, size_t nbytes);
/* Signature, IHDR and for palettes PLTE. */
void add_head(struct bytes *file, const struct png_parts *parts);
/* The stream in chunks of at most `nbytes_max`. */
void add_stream(struct bytes *file, const struct png_parts *parts, size_t nbytes_max);
/* All of it: head, stream, IEND. */
struct bytes make_file(const struct png_parts *parts, size_t idat_nbytes_max);
/* Makes the checksums of all whole chunks right. */
void fix_checksums(uint8_t *file, size_t nbytes);
/* Offset of the n-th chunk of this name, counted from 0. */
size_t find_chunk(const struct bytes *file, const char *name, int n);

#endif
