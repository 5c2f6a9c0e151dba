/* png_make.h - makes PNG files whose filters, chunks and stream the test chooses. */
#ifndef PST_TEST_PNG_MAKE_H
#define PST_TEST_PNG_MAKE_H

#include "decode_make.h"

/* The parts of a file before it is written. All memory comes from malloc. */
struct png_parts {
    uint32_t height, width;
    int colour_type, depth;
    /* bytes of a row without its filter byte; bytes of a pixel as filters count them, at least 1 */
    size_t row_nbytes, pixel_nbytes;
    struct bytes rows; /* filtered rows, each after its filter byte */
    struct bytes stream;
};

enum { FILTER_MIXED = 5 };
/* Makes a picture of gradients and noise. `filter` is 0..4 for every row, or FILTER_MIXED. */
struct png_parts make_parts(uint32_t height, uint32_t width, int colour_type, int depth, int filter,
                            uint64_t seed);
void parts_free(struct png_parts *parts);
/* Deflates the rows again and replaces the stream. `window_bits` is 8..15; zlib uses 9 for 8. */
void parts_deflate(struct png_parts *parts, int window_bits);

/* Appends bytes to a growing file. */
void add_bytes(struct bytes *file, const void *data, size_t nbytes);
void add_chunk(struct bytes *file, const char *name, const void *data, size_t nbytes);
/* Appends signature, IHDR and, for palettes, PLTE. */
void add_head(struct bytes *file, const struct png_parts *parts);
/* Appends the stream in chunks of at most `nbytes_max` bytes. */
void add_stream(struct bytes *file, const struct png_parts *parts, size_t nbytes_max);
/* Makes a whole file: signature, headers, stream and IEND. */
struct bytes make_file(const struct png_parts *parts, size_t idat_nbytes_max);
/* Corrects the checksums of all complete chunks. */
void fix_checksums(uint8_t *file, size_t nbytes);
/* Returns the offset of the n-th chunk of this name, counted from 0. */
size_t find_chunk(const struct bytes *file, const char *name, int n);

#endif
