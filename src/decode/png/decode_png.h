/* decode_png.h - the declarations that decode_png*.c share. No other file includes it.
 *
 * A PNG is decoded in one of two ways. decode_png_whole.c inflates all pixels at once with
 * libdeflate and undoes the filters itself. PNGs that it does not accept (its head lists them) are
 * decoded row by row by libpng. Only libpng reports errors. */
#ifndef PST_DECODE_DECODE_PNG_H
#define PST_DECODE_DECODE_PNG_H

#include "decode/decode_int.h"

/* The limit in bytes that libpng gets for chunks other than pixels. A larger chunk is an error. */
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
    const uint8_t *palette; /* n_palette RGB triples */
    uint32_t n_palette;
    /* the n_trns bytes of the tRNS chunk: alpha values of the palette, or one transparent colour;
     * NULL: the image has no such chunk */
    const uint8_t *trns;
    uint32_t n_trns;
};

enum pst_status psti_decode_png_header(const uint8_t *bytes, size_t nbytes,
                                       struct psti_png_header *header, struct pst_error *err);

/* Returns the orientation, 1..8, that the chunks before and after the pixels state. `bytes` may end
 * early: then only the chunks that are present count. */
uint8_t psti_decode_png_orientation(const uint8_t *bytes, size_t nbytes);

/* Returns how many bits a stored pixel has. */
uint32_t psti_decode_png_pixel_bits(const struct psti_png_header *header);
/* Returns how many channels pixels have after psti_decode_png_convert_row. */
uint8_t psti_decode_png_channels(const struct psti_png_header *header, bool palette_indices);

/* The palette's colours as RGBA, so that one load reads a colour. Entries from number `n` on are
 * 0. */
struct psti_png_palette {
    uint32_t rgba[256];
    uint32_t n;
};
void psti_decode_png_palette_fill(const struct psti_png_header *header,
                                  struct psti_png_palette *palette);

/* Converts pixels [x, x + n) of a stored row to u8 samples, or to u16 if the depth is 16. If
 * `palette` is NULL, an image with a palette gives its indices. Returns false if an index has no
 * entry in the palette. */
bool psti_decode_png_convert_row(const struct psti_png_header *header,
                                 const struct psti_png_palette *palette, const uint8_t *row,
                                 uint32_t x, uint32_t n, void *to);

/* The state of one PNG decode, by libdeflate or by libpng. */
struct psti_png {
    struct psti_decode_job *job;
    struct psti_png_header header;
    struct psti_png_palette palette;
    bool has_palette;     /* the image has a palette and the caller wants its colours */
    size_t stored_nbytes; /* bytes of a stored row without its filter byte */
    struct psti_emit emit;
    uint8_t *band; /* converted rows, band_nbytes apart; NULL if rows need no conversion */
    size_t band_nbytes;
};

/* Defined in decode_png_band.c. Takes the memory that conversions need from the arena. */
enum pst_status psti_decode_png_begin(struct psti_png *png);
/* Takes the next stored rows of the region, at most PSTI_BAND_ROWS of them, `row_nbytes` apart.
 * Converts them and hands them to the emitter. */
enum pst_status psti_decode_png_emit(struct psti_png *png, const uint8_t *rows, size_t row_nbytes,
                                     uint32_t n_rows);

/* Decodes by libdeflate. Returns false if this way does not accept the image: then no row was
 * handed on, and the arena may be emptied for libpng. Returns true otherwise, with the result in
 * *status. */
bool psti_decode_png_whole(struct psti_png *png, enum pst_status *status);
enum pst_status psti_decode_png_libpng(struct psti_png *png);

#endif
