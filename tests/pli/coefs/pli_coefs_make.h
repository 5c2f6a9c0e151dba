/* pli_coefs_make.h - coefficients for the tests of PLI's JPEG content: made up, of every sampling,
 * or of a JPEG that libjpeg has made. */
#ifndef PST_TESTS_PLI_COEFS_MAKE_H
#define PST_TESTS_PLI_COEFS_MAKE_H

#include "pli/format/pli_jpeg_format.h"

struct coefs_image {
    struct psti_jpeg_frame frame;
    int16_t *coefs[PSTI_JPEG_COMPONENTS_MAX];
};

/* What made-up coefficients are like. */
enum coefs_kind {
    COEFS_ZERO,    /* none but 0 */
    COEFS_DC,      /* DC alone */
    COEFS_SPARSE,  /* some blocks, few coefficients */
    COEFS_PHOTO,   /* many small, falling off */
    COEFS_DENSE,   /* up to the last coefficient */
    COEFS_EXTREME, /* +-2048, DC from end to end */
    COEFS_ONE,     /* a single coefficient in the whole image */
    COEFS_N_KINDS
};

uint32_t coefs_draw(uint64_t *random); /* 0..2^31 - 1 */
/* A frame of that size; `sampling` chooses the factors: 0..COEFS_N_SAMPLINGS - 1, 0 gray. */
enum { COEFS_N_SAMPLINGS = 10 };
void coefs_make(struct coefs_image *image, uint32_t width, uint32_t height, uint32_t sampling,
                enum coefs_kind kind, uint64_t *random);
/* Noise on slopes, compressed by libjpeg and read back. h, v: of the first component; n_components
 * 1 or 3. */
void coefs_make_jpeg(struct coefs_image *image, uint32_t width, uint32_t height,
                     uint32_t n_components, uint32_t h, uint32_t v, int quality, bool progressive,
                     uint64_t *random);
void coefs_free(struct coefs_image *image);

#endif
