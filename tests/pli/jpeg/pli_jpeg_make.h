/* pli_jpeg_make.h - what tests of PLI's content 2 hold the decoder to: coefficients, samples and
 * pixels as libjpeg-turbo has them, and units in the form that the entropy decoder hands on. */
#ifndef PST_TEST_PLI_JPEG_MAKE_H
#define PST_TEST_PLI_JPEG_MAKE_H

#include "decode/decode_make.h"
#include "pli/decode/coefs/pli_coefs.h"

struct pli_jpeg {
    struct psti_jpeg_frame frame;
    int16_t *coefs[PSTI_JPEG_COMPONENTS_MAX];   /* rows of blocks, zigzag order */
    uint8_t *samples[PSTI_JPEG_COMPONENTS_MAX]; /* (8 * rows, 8 * columns); beyond the component's
                                                   own samples up to a block they are right, too */
};
/* False if content 2 does not take the file's sampling factors. */
bool pli_jpeg_read(const struct bytes *file, struct pli_jpeg *jpeg);
void pli_jpeg_free(struct pli_jpeg *jpeg);

/* RGB or gray with JDCT_ISLOW and fancy upsampling, the whole image. */
uint8_t *pli_jpeg_pixels(const struct bytes *file);

struct pli_jpeg_unit {
    struct psti_pli_coefs coefs;
    uint16_t order[64 * PSTI_JPEG_SQUARES_MAX];
    int16_t *planes; /* what must not be read is garbage */
};
void pli_jpeg_unit_make(const struct pli_jpeg *jpeg, uint32_t unit_log2, uint32_t row,
                        uint32_t column, struct pli_jpeg_unit *unit);
void pli_jpeg_unit_free(struct pli_jpeg_unit *unit);

#endif
