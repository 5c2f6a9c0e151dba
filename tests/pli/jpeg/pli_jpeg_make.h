/* pli_jpeg_make.h - reference data for tests of PLI's content 2: coefficients, samples and pixels
 * from libjpeg-turbo, and units in the form that the entropy decoder outputs. */
#ifndef PST_TEST_PLI_JPEG_MAKE_H
#define PST_TEST_PLI_JPEG_MAKE_H

#include "decode/decode_make.h"
#include "pli/decode/coefs/pli_coefs.h"

struct pli_jpeg {
    struct psti_jpeg_frame frame;
    /* coefficients in rows of blocks, each in zigzag order */
    int16_t *coefs[PSTI_JPEG_COMPONENTS_MAX];
    /* (8 * rows, 8 * columns) samples. Beyond the component's own samples, those up to the end of a
     * block are valid, too. */
    uint8_t *samples[PSTI_JPEG_COMPONENTS_MAX];
};
/* Reads a JPEG with libjpeg. Returns false if content 2 does not take the file's sampling
 * factors. */
bool pli_jpeg_read(const struct bytes *file, struct pli_jpeg *jpeg);
void pli_jpeg_free(struct pli_jpeg *jpeg);

/* Returns the whole image as RGB or gray, made by libjpeg with JDCT_ISLOW and fancy upsampling. */
uint8_t *pli_jpeg_pixels(const struct bytes *file);

struct pli_jpeg_unit {
    struct psti_pli_coefs coefs;
    uint16_t order[64 * PSTI_JPEG_SQUARES_MAX];
    int16_t *planes; /* elements that must not be read hold garbage */
};
void pli_jpeg_unit_make(const struct pli_jpeg *jpeg, uint32_t unit_log2, uint32_t row,
                        uint32_t column, struct pli_jpeg_unit *unit);
void pli_jpeg_unit_free(struct pli_jpeg_unit *unit);

#endif
