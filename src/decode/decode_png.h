/* decode_png.h - what decode_png*.c share, and nobody else.
 *
 * A PNG goes one of two roads. decode_png_whole.c inflates all of the pixels at once with
 * libdeflate and undoes the filters itself; what it does not take - see there - goes row by row
 * through libpng, whose word on what is an error is final. */
#ifndef PST_DECODE_DECODE_PNG_H
#define PST_DECODE_DECODE_PNG_H

#include "decode/decode_int.h"

/* libpng's bound on a chunk that is not pixels; a larger one is an error. */
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
    uint8_t orientation;
    const uint8_t *palette; /* RGB triples, n_palette of them */
    uint32_t n_palette;
    const uint8_t *trns; /* NULL: none. A palette's alpha values, n_trns of them, or one colour */
    uint32_t n_trns;
};

enum pst_status psti_decode_png_header(const uint8_t *bytes, size_t nbytes,
                                       struct psti_png_header *header, struct pst_error *err);

/* Bits of a pixel as stored. */
uint32_t psti_decode_png_pixel_bits(const struct psti_png_header *header);
/* Channels after the conversions below. */
uint8_t psti_decode_png_channels(const struct psti_png_header *header, bool palette_indices);

/* Palette entries as RGBA, in one load; those beyond the palette's end have no colour. */
struct psti_png_palette {
    uint32_t rgba[256];
    uint32_t n;
};
void psti_decode_png_palette_fill(const struct psti_png_header *header,
                                  struct psti_png_palette *palette);

/* Pixels [x, x + n) of a stored row -> u8 samples, or u16 little-endian where depth is 16.
 * `palette` NULL: a palette image yields its indices. False: an index has no palette entry. */
bool psti_decode_png_convert_row(const struct psti_png_header *header,
                                 const struct psti_png_palette *palette, const uint8_t *row,
                                 uint32_t x, uint32_t n, void *to);

/* One decode, on either road. */
struct psti_png {
    struct psti_decode_job *job;
    struct psti_png_header header;
    struct psti_png_palette palette;
    bool has_palette;     /* palette images whose colours are wanted */
    size_t stored_nbytes; /* of a row as stored, without its filter */
    struct psti_emit emit;
    uint8_t *band; /* converted rows, band_nbytes apart; NULL: stored as wanted */
    size_t band_nbytes;
};

/* Memory for what follows, from the arena. */
enum pst_status psti_decode_png_begin(struct psti_png *png);
/* The next stored rows of the region, `row_nbytes` apart, at most PSTI_BAND_ROWS of them. */
enum pst_status psti_decode_png_emit(struct psti_png *png, const uint8_t *rows, size_t row_nbytes,
                                     uint32_t n_rows);

/* False: not taken, and nothing was emitted; the arena may be reset. True: *status says how it
 * went. */
bool psti_decode_png_whole(struct psti_png *png, enum pst_status *status);
enum pst_status psti_decode_png_libpng(struct psti_png *png);

#endif
