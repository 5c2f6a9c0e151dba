/* decode_make.h - makes images for the tests by the codec libraries' own encoders, and decodes them
 * in the plainest way to compare with. All memory is malloc's. A function that fails fails the
 * test. */
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

/* Returns the next number of splitmix64: the same numbers on every run. */
uint64_t next_random(uint64_t *state);
/* Returns a random number in 0..n-1. */
uint32_t random_below(uint64_t *state, uint32_t n);

/* Makes a picture of gradients, edges and noise, different in each channel: u8 (H,W,C). */
uint8_t *make_picture(uint32_t height, uint32_t width, uint32_t channels, uint64_t seed);

enum jpeg_colours { COLOURS_GRAY, COLOURS_YCC, COLOURS_RGB, COLOURS_CMYK, COLOURS_YCCK };
struct jpeg_spec {
    uint32_t height, width;
    enum jpeg_colours colours;
    /* sampling factors of the first component, and of the last one for YCCK; those of others are 1
     */
    uint8_t h, v;
    uint8_t quality;
    /* many_scans: sequential scans of one component each */
    bool progressive, arithmetic, many_scans;
    uint16_t restart;    /* MCUs between restart markers, 0 none */
    uint8_t orientation; /* 0: no EXIF block */
    bool big_endian_exif;
    bool smooth; /* slow waves and a little noise, instead of make_picture */
    uint32_t n_calm_rows; /* so many rows at the top have one colour */
};
struct bytes make_jpeg(const struct jpeg_spec *spec, uint64_t seed);
/* Decodes by libjpeg with its defaults, its own memory and one row at a time. A gray file gives
 * gray, others give RGB. CMYK is converted by PIL's own formulas. *channels is 1 or 3. Any warning
 * fails the test. */
uint8_t *plain_jpeg(const struct bytes *file, uint32_t *height, uint32_t *width,
                    uint32_t *channels);

struct png_spec {
    uint32_t height, width;
    int colour_type, depth; /* as libpng numbers them */
    bool interlaced, trns;
    uint32_t n_palette;
};
struct bytes make_png(const struct png_spec *spec, uint64_t seed);
/* Decodes by libpng with png_set_expand and its own conversions. Samples have 8 or 16 bits.
 * Palettes become colours. */
uint8_t *plain_png(const struct bytes *file, uint32_t *channels, uint32_t *bits);

/* Returns a copy that is rotated or mirrored as the orientation says, made pixel by pixel. `height`
 * and `width` are as stored. */
uint8_t *turned(const uint8_t *pixels, uint32_t height, uint32_t width, size_t pixel_nbytes,
                uint8_t orientation);

/* Decodes `region` (NULL: the whole picture) and compares it with the same part of `expected`.
 * `expected` is the whole picture as shown, u8 or u16 (H,W,C) without padding. Prints a message and
 * returns false if they differ. */
bool region_equals(struct psti_decoder *decoder, const struct bytes *file,
                   const struct pst_image_info *info, const struct pst_decode_options *options,
                   const struct psti_rect *region, const uint8_t *expected);
struct psti_rect random_region(uint64_t *state, uint32_t height, uint32_t width);

#endif
