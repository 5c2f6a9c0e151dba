/* pli_coefs_make.h - makes coefficients for the tests of PLI's JPEG content. They are made up, with
 * every sampling, or come from a JPEG that libjpeg has made. */
#ifndef PST_TESTS_PLI_COEFS_MAKE_H
#define PST_TESTS_PLI_COEFS_MAKE_H

#include "pli/format/pli_jpeg_format.h"

struct coefs_image {
    struct psti_jpeg_frame frame;
    int16_t *coefs[PSTI_JPEG_COMPONENTS_MAX];
};

/* The kinds of made-up coefficients. */
enum coefs_kind {
    COEFS_ZERO,    /* all coefficients are 0 */
    COEFS_DC,      /* DC alone */
    COEFS_SPARSE,  /* some blocks, few coefficients */
    COEFS_PHOTO,   /* many small coefficients, fewer and smaller at high frequencies */
    COEFS_DENSE,   /* many blocks whose last nonzero coefficient is number 63 */
    COEFS_EXTREME, /* values of +-2048, and DC that jumps between the ends of its range */
    COEFS_ONE,     /* a single coefficient in the whole image */
    COEFS_N_KINDS
};

uint32_t coefs_draw(uint64_t *random); /* returns 0..2^31 - 1 */
/* Makes a frame of that size with coefficients of `kind`. `sampling` is the number of a set of
 * sampling factors: 0..COEFS_N_SAMPLINGS - 1; 0 is gray. */
enum { COEFS_N_SAMPLINGS = 10 };
void coefs_make(struct coefs_image *image, uint32_t width, uint32_t height, uint32_t sampling,
                enum coefs_kind kind, uint64_t *random);
/* Makes an image of noise on slopes, compresses it with libjpeg and reads the coefficients. h and v
 * are the sampling factors of the first component. n_components is 1 or 3. */
void coefs_make_jpeg(struct coefs_image *image, uint32_t width, uint32_t height,
                     uint32_t n_components, uint32_t h, uint32_t v, int quality, bool progressive,
                     uint64_t *random);
void coefs_free(struct coefs_image *image);

#endif
