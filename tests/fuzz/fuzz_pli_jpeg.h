/* fuzz_pli_jpeg.h - shared by the fuzz targets of JPEG content: memory for a frame's
 * coefficients. */
#ifndef PST_FUZZ_PLI_JPEG_H
#define PST_FUZZ_PLI_JPEG_H

#include "pli/jpegfile/pli_jpeg_file.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_MAX_BLOCKS (1 << 14)

struct fuzz_coefs {
    int16_t *of[PSTI_JPEG_COMPONENTS_MAX];
};

/* Allocates the coefficients. Returns false if there are more blocks than a fuzzer has time for. */
static inline bool fuzz_coefs_alloc(struct fuzz_coefs *coefs, const struct psti_jpeg_frame *frame)
{
    size_t n = 0;
    for (uint32_t c = 0; c < frame->n_components; c++)
        n += psti_pli_jpeg_n_coefs(frame, c) / 64;
    if (n > FUZZ_MAX_BLOCKS)
        return false;
    for (uint32_t c = 0; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        coefs->of[c] = c < frame->n_components ? malloc(psti_pli_jpeg_n_coefs(frame, c) * 2) : NULL;
    return true;
}

static inline void fuzz_coefs_free(struct fuzz_coefs *coefs)
{
    for (uint32_t c = 0; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        free(coefs->of[c]);
}

#endif
