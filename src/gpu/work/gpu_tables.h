/* gpu_tables.h - tables and constants of PLI's wave mode (docs/format-pli.md, 5.8) as kernels read
 * them, and how much shared memory they want. Plain C and CUDA.
 *
 * What goes up to the card is small: an image's own tables are 1.5 KB, from which each block makes
 * those that it looks symbols up in. */
#ifndef PST_GPU_GPU_TABLES_H
#define PST_GPU_GPU_TABLES_H

#include <stdint.h>

enum {
    PSTI_GPU_WAVE_CONTEXTS = 16,
    PSTI_GPU_WAVE_TOKENS = 48, /* one more than there are: where the last one ends */
    PSTI_GPU_WAVE_LISTS = 3,
    PSTI_GPU_WAVE_FILTERS = 64,
    PSTI_GPU_WAVE_POINTS = 123 /* of pairs' tokens */
};

/* The tables of an image. */
struct psti_gpu_wave_tables {
    /* Where the slots of a token begin; behind the last one where they end: 256 or 1024. */
    uint16_t first[PSTI_GPU_WAVE_CONTEXTS][PSTI_GPU_WAVE_TOKENS];
};

/* Coefficients, a signed byte each, lowest byte first: of UR, U, UL, UU; of L, LL and the residuals
 * of planes 0 and 1. Number 0, MED, has none. */
struct psti_gpu_wave_filter {
    uint32_t above, beside;
};

/* What tokens of pairs stand for. */
struct psti_gpu_wave_pairs {
    /* By 4 q + T: x and, in the upper byte, y. Behind the last q (0, 0). */
    uint16_t points[4 * (PSTI_GPU_WAVE_POINTS + 1)];
    uint8_t activities[16]; /* [token] */
    /* By an activity's lower four bits: */
    uint8_t first_bits[16], second_bits[16];
    uint8_t point_masks[16], point_bases[16];  /* of R; tokens without points have (0, 0) */
    uint8_t first_masks[16], second_masks[16]; /* of R and S */
    uint8_t square_bases[16];
};

struct psti_gpu_wave_constants {
    struct psti_gpu_wave_tables built_in[2]; /* of 8 bits, of 16 */
    struct psti_gpu_wave_filter filters[PSTI_GPU_WAVE_LISTS][PSTI_GPU_WAVE_FILTERS];
    struct psti_gpu_wave_pairs pairs;
    uint8_t bucket[2][256]; /* E -> context, of 8 bits and of 16 */
};

/* Shared memory: of a block, then of each of its warps. */
enum {
    /* A context of 8 bits: for each slot a word, its number among those of its token, the token's
     * frequency and activity. Of 16: the token of each slot, then slots and frequency of each
     * token, so long that tokens of neighbouring contexts lie in different banks. */
    PSTI_GPU_WAVE_CONTEXT8_NBYTES = 256 * 4,
    PSTI_GPU_WAVE_CONTEXT16_NBYTES = 1024 + 208,
    /* Two entries of 2 bytes for each E that there is. */
    PSTI_GPU_WAVE_BUCKETS8_NBYTES = 4 * 324,
    PSTI_GPU_WAVE_BUCKETS16_NBYTES = 4 * 464,
    PSTI_GPU_WAVE_FILTERS_NBYTES = PSTI_GPU_WAVE_LISTS * PSTI_GPU_WAVE_FILTERS * 8,
    PSTI_GPU_WAVE_PAIRS_NBYTES = 8 * (PSTI_GPU_WAVE_POINTS + 1) + 8 * 16,
    PSTI_GPU_WAVE_TABLES8_NBYTES = PSTI_GPU_WAVE_CONTEXTS * PSTI_GPU_WAVE_CONTEXT8_NBYTES +
                                   PSTI_GPU_WAVE_BUCKETS8_NBYTES + PSTI_GPU_WAVE_FILTERS_NBYTES +
                                   PSTI_GPU_WAVE_PAIRS_NBYTES,
    PSTI_GPU_WAVE_TABLES16_NBYTES = PSTI_GPU_WAVE_CONTEXTS * PSTI_GPU_WAVE_CONTEXT16_NBYTES +
                                    PSTI_GPU_WAVE_BUCKETS16_NBYTES + PSTI_GPU_WAVE_FILTERS_NBYTES,
    /* What is on its way into a warp; the records of its planes and their filters' numbers. */
    PSTI_GPU_WAVE_WINDOW_NBYTES = 256,
    PSTI_GPU_WAVE_RECORD_NBYTES = 48,
    PSTI_GPU_WAVE_RECORDS_NBYTES = 4 * PSTI_GPU_WAVE_RECORD_NBYTES,
    PSTI_GPU_WAVE_PLANE_PX = 64 * 64
};
#define PSTI_GPU_WAVE_TABLES_NBYTES(bits)                                                          \
    ((bits) == 8 ? PSTI_GPU_WAVE_TABLES8_NBYTES : PSTI_GPU_WAVE_TABLES16_NBYTES)
#define PSTI_GPU_WAVE_WARP_NBYTES(bits, channels)                                                  \
    (PSTI_GPU_WAVE_WINDOW_NBYTES + PSTI_GPU_WAVE_RECORDS_NBYTES +                                  \
     (channels)*PSTI_GPU_WAVE_PLANE_PX * ((bits) / 8))

#ifndef __cplusplus
#include "pli/format/pli_head.h"

/* Of the model block of an image (NULL: the built-in ones). */
enum pst_status psti_gpu_wave_tables_write(const uint8_t *block, size_t nbytes, uint32_t bits,
                                           struct psti_gpu_wave_tables *to, struct pst_error *err);
void psti_gpu_wave_constants_write(struct psti_gpu_wave_constants *to);
#endif

#endif
