/* augment_scratch.h - the scratch memory of a run, and the pictures in it. */
#ifndef PST_AUGMENT_SCRATCH_H
#define PST_AUGMENT_SCRATCH_H

#include "augment/augment.h"

enum psti_buffer_kind {
    PSTI_BUFFER_AXIS_X,
    PSTI_BUFFER_AXIS_Y,
    PSTI_BUFFER_RING, /* ring of rows after the horizontal pass of a resize */
    PSTI_BUFFER_TAIL, /* padded copies of the right ends of source rows */
    PSTI_BUFFER_ROW,  /* one row after the vertical pass of a resize */
    PSTI_BUFFER_FLIPPED,
    PSTI_BUFFER_PLANES,
    PSTI_BUFFER_IMAGE_0,
    PSTI_BUFFER_IMAGE_1,
    PSTI_BUFFER_MAP,
    PSTI_BUFFER_BLUR,   /* the rows and weights of a blur */
    PSTI_BUFFER_SHIFTS, /* displacements of an elastic warp */
    PSTI_BUFFER_MIX,    /* AugMix: the picture before it, and a weighted sum */
    PSTI_BUFFER_LABELS, /* one row of mapped classes */
    PSTI_BUFFERS
};

struct psti_augment_buffer {
    unsigned char *data;
    size_t nbytes;
};

/* A picture in scratch memory: HWC samples of the chain's bits, in rows without gaps. */
struct psti_picture {
    unsigned char *data;
    size_t row_nbytes;
    uint32_t height, width;
};

#define PSTI_SLACK 64 /* bytes after a row in scratch that kernels may read or write */

/* Frees all parts of the run's block for the next sample. */
void psti_augment_run_forget(struct psti_run *run);
/* Makes sure that the buffer has at least nbytes. If it has to grow, its contents are lost. */
enum pst_status psti_augment_run_reserve(struct psti_run *run, enum psti_buffer_kind kind,
                                         size_t nbytes, struct pst_error *err);
/* Allocates a picture of height x width in the image buffer `kind`. */
enum pst_status psti_augment_picture_make(struct psti_run *run, enum psti_buffer_kind kind,
                                          uint32_t height, uint32_t width,
                                          struct psti_picture *picture, struct pst_error *err);
/* Returns the one of the two image buffers that does not hold run->picture. */
enum psti_buffer_kind psti_augment_other_buffer(const struct psti_run *run);

#endif
