/* decode_make.h - makes images for the tests with the codec libraries' own encoders, and decodes
 * them in the simplest way as a reference. All memory comes from malloc. A function that fails
 * fails the test. */
#ifndef PST_TEST_DECODE_MAKE_H
#define PST_TEST_DECODE_MAKE_H

#include "test.h"

#include "decode/decode.h"

#include <stdbool.h>
#include <string.h>

struct bytes {
    uint8_t *data;
    size_t nbytes;
};
void bytes_free(struct bytes *bytes);

/* Returns the next number of splitmix64, so numbers are the same on every run. */
uint64_t next_random(uint64_t *state);
/* Returns a random number in 0..n-1. */
uint32_t random_below(uint64_t *state, uint32_t n);

/* Makes a picture of gradients, edges and noise, different in each channel: u8 (H,W,C). */
uint8_t *make_picture(uint32_t height, uint32_t width, uint32_t channels, uint64_t seed);

enum jpeg_colours { COLOURS_GRAY, COLOURS_YCC, COLOURS_RGB, COLOURS_CMYK, COLOURS_YCCK };
struct jpeg_spec {
    uint32_t height, width;
    enum jpeg_colours colours;
    /* sampling factors of the first component, and for YCCK of the last one; all others are 1 */
    uint8_t h, v;
    uint8_t quality;
    /* many_scans: sequential, with one scan for each component */
    bool progressive, arithmetic, many_scans;
    bool own_codes;      /* Huffman codes made for this picture */
    uint16_t restart;    /* restart interval in MCUs; 0: none */
    uint8_t orientation; /* EXIF orientation; 0: no EXIF block */
    bool big_endian_exif;
    bool smooth;          /* slow waves and a little noise instead of make_picture() */
    uint32_t n_calm_rows; /* number of rows at the top that have one colour */
};
struct bytes make_jpeg(const struct jpeg_spec *spec, uint64_t seed);
/* Decodes with libjpeg's defaults, its own memory and one row at a time. A gray file gives gray,
 * others give RGB. CMYK is converted with PIL's formulas. *channels is 1 or 3. Any warning fails
 * the test. */
uint8_t *plain_jpeg(const struct bytes *file, uint32_t *height, uint32_t *width,
                    uint32_t *channels);

struct png_spec {
    uint32_t height, width;
    int colour_type, depth; /* libpng's numbers */
    bool interlaced, trns;
    uint32_t n_palette;
};
struct bytes make_png(const struct png_spec *spec, uint64_t seed);
/* Decodes with libpng, png_set_expand and its own conversions. Samples have 8 or 16 bits. Palette
 * indices become colours. */
uint8_t *plain_png(const struct bytes *file, uint32_t *channels, uint32_t *bits);

/* Returns a copy that is rotated or mirrored as the orientation says, made pixel by pixel. `height`
 * and `width`: of the stored picture. */
uint8_t *turned(const uint8_t *pixels, uint32_t height, uint32_t width, size_t pixel_nbytes,
                uint8_t orientation);

/* Decodes `region` (NULL: the whole picture) and compares it with the same part of `expected`, the
 * whole picture as shown, u8 or u16 (H,W,C) without padding. Prints a message and returns false if
 * they differ. */
bool region_equals(struct psti_decoder *decoder, const struct bytes *file,
                   const struct pst_image_info *info, const struct pst_decode_options *options,
                   const struct psti_rect *region, const uint8_t *expected);
struct psti_rect random_region(uint64_t *state, uint32_t height, uint32_t width);

#endif
