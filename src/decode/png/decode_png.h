/* decode_png.h - the declarations that decode_png*.c share. No other file includes it.
 *
 * A PNG is decoded in one of two ways. decode_png_whole.c inflates all pixels at once with
 * libdeflate and undoes the filters itself. PNGs that it does not take (it lists them) are decoded
 * row by row by libpng. libpng alone decides what is an error. */
#ifndef PST_DECODE_DECODE_PNG_H
#define PST_DECODE_DECODE_PNG_H

#include "decode/decode_int.h"

/* The limit that libpng gets for chunks other than pixels. A larger chunk is an error. */
#define PSTI_PNG_CHUNK_NBYTES_LIMIT ((size_t)8 << 20)

enum {
    PSTI_PNG_GRAY = 0,
    PSTI_PNG_RGB = 2,
    PSTI_PNG_PALETTE = 3,
    PSTI_PNG_GRAY_ALPHA = 4,
    PSTI_PNG_RGBA = 6
};

struct psti_png_header {
    uint32_t height, width;
    uint8_t depth; /* bits per sample: 1, 2, 4, 8, 16 */
    uint8_t colour_type;
    bool interlaced;
    const uint8_t *palette; /* RGB triples, n_palette of them */
    uint32_t n_palette;
    /* the tRNS chunk's n_trns bytes: alpha values of the palette, or one transparent colour; NULL:
     * no such chunk */
    const uint8_t *trns;
    uint32_t n_trns;
};

enum pst_status psti_decode_png_header(const uint8_t *bytes, size_t nbytes,
                                       struct psti_png_header *header, struct pst_error *err);

/* Returns the orientation, 1..8, that the chunks in front of the pixels and behind them state.
 * `bytes` may end early: then the chunks that are there count. */
uint8_t psti_decode_png_orientation(const uint8_t *bytes, size_t nbytes);

/* Returns the bits of a pixel as stored. */
uint32_t psti_decode_png_pixel_bits(const struct psti_png_header *header);
/* Returns the channels after the conversions below. */
uint8_t psti_decode_png_channels(const struct psti_png_header *header, bool palette_indices);

/* The palette's colours as RGBA, so that one load gets a colour. Entries from `n` on are 0. */
struct psti_png_palette {
    uint32_t rgba[256];
    uint32_t n;
};
void psti_decode_png_palette_fill(const struct psti_png_header *header,
                                  struct psti_png_palette *palette);

/* Converts pixels [x, x + n) of a stored row to u8 samples, or to u16 if depth is 16. If `palette`
 * is NULL, a palette image yields its indices. Returns false if an index has no palette entry. */
bool psti_decode_png_convert_row(const struct psti_png_header *header,
                                 const struct psti_png_palette *palette, const uint8_t *row,
                                 uint32_t x, uint32_t n, void *to);

/* One decode, in either of the two ways. */
struct psti_png {
    struct psti_decode_job *job;
    struct psti_png_header header;
    struct psti_png_palette palette;
    bool has_palette;     /* the image has a palette, and its colours are wanted */
    size_t stored_nbytes; /* bytes of a row as stored, without its filter */
    struct psti_emit emit;
    uint8_t *band; /* converted rows, band_nbytes apart; NULL: rows need no conversion */
    size_t band_nbytes;
};

/* decode_png_band.c: takes the memory of the conversions from the arena. */
enum pst_status psti_decode_png_begin(struct psti_png *png);
/* Takes the next stored rows of the region, `row_nbytes` apart, at most PSTI_BAND_ROWS of them,
 * converts them and hands them on. */
enum pst_status psti_decode_png_emit(struct psti_png *png, const uint8_t *rows, size_t row_nbytes,
                                     uint32_t n_rows);

/* Decodes by libdeflate. Returns false if it does not take the image: nothing was handed on, and
 * the arena may be reset. Returns true if it takes the image, with the result in *status. */
bool psti_decode_png_whole(struct psti_png *png, enum pst_status *status);
enum pst_status psti_decode_png_libpng(struct psti_png *png);

#endif
