/* gpu_tables.h - tables and constants of PLI's wave mode (format-pli.md 5.8) as kernels read them,
 * and the shared memory that they need. Plain C and CUDA.
 *
 * The upload is small: an image's own tables take 1.5 KB. Each block makes its look-up tables from
 * them. */
#ifndef PST_GPU_GPU_TABLES_H
#define PST_GPU_GPU_TABLES_H

#include <stdint.h>

enum {
    /* Numbers in brackets are sections of format-pli.md. */
    PSTI_GPU_WAVE_CONTEXTS = 16, /* contexts (5.6) */
    PSTI_GPU_WAVE_TOKENS = 48,   /* 47 tokens with 16 bits (5.4), and one entry for the end of the
                                  * last token */
    PSTI_GPU_WAVE_LISTS = 3,     /* lists of filters, one for each plane (5.8) */
    PSTI_GPU_WAVE_FILTERS = 64,  /* filters of a list (5.2) */
    PSTI_GPU_WAVE_POINTS = 123   /* nth = 0..122 of the tokens of pairs (5.4) */
};

/* Tables of an image. */
struct psti_gpu_wave_tables {
    /* First slot of each token. After the last token it is the end of the slots: 256 or 1024. */
    uint16_t first[PSTI_GPU_WAVE_CONTEXTS][PSTI_GPU_WAVE_TOKENS];
};

/* Coefficients of a filter (format-pli.md 5.3), a signed byte each, lowest byte first: of UR, U,
 * UL, UU; of L, LL and the residuals of planes 0 and 1. Number 0, MED, has none. */
struct psti_gpu_wave_filter {
    uint32_t above, beside;
};

/* Tables of the tokens of pairs (format-pli.md 5.4). */
struct psti_gpu_wave_pairs {
    /* At [4 * nth + turn]: right, and up in the upper byte. Entries after the last nth are (0,
     * 0). */
    uint16_t points[4 * (PSTI_GPU_WAVE_POINTS + 1)];
    uint8_t activities[16]; /* activity of each token */
    /* The index of the following tables is an activity's lower four bits. */
    uint8_t first_bits[16], second_bits[16];
    uint8_t point_masks[16],
        point_bases[16]; /* both are applied to suffix1; tokens without points have (0, 0) */
    uint8_t first_masks[16], second_masks[16]; /* masks of suffix1 and suffix2 */
    uint8_t square_bases[16];
};

struct psti_gpu_wave_constants {
    struct psti_gpu_wave_tables built_in[2]; /* tables for 8 bits, and for 16 */
    struct psti_gpu_wave_filter filters[PSTI_GPU_WAVE_LISTS][PSTI_GPU_WAVE_FILTERS];
    struct psti_gpu_wave_pairs pairs;
    uint8_t bucket[2][256]; /* the context of each energy, for 8 bits and for 16 */
};

/* Shared memory of a block, then shared memory of each of its warps. */
enum {
    /* A context of 8 bits has a word per slot: the slot's number among its token's slots, the
     * token's frequency and activity. A context of 16 bits has the token of each slot, then slots
     * and frequency of each token. Its length puts tokens of neighbouring contexts in different
     * banks. */
    PSTI_GPU_WAVE_CONTEXT8_NBYTES = 256 * 4,
    PSTI_GPU_WAVE_CONTEXT16_NBYTES = 1024 + 208,
    /* Two entries of 2 bytes for each possible energy. */
    PSTI_GPU_WAVE_BUCKETS8_NBYTES = 4 * 324,
    PSTI_GPU_WAVE_BUCKETS16_NBYTES = 4 * 464,
    PSTI_GPU_WAVE_FILTERS_NBYTES = PSTI_GPU_WAVE_LISTS * PSTI_GPU_WAVE_FILTERS * 8,
    PSTI_GPU_WAVE_PAIRS_NBYTES = 8 * (PSTI_GPU_WAVE_POINTS + 1) + 8 * 16,
    PSTI_GPU_WAVE_TABLES8_NBYTES = PSTI_GPU_WAVE_CONTEXTS * PSTI_GPU_WAVE_CONTEXT8_NBYTES +
                                   PSTI_GPU_WAVE_BUCKETS8_NBYTES + PSTI_GPU_WAVE_FILTERS_NBYTES +
                                   PSTI_GPU_WAVE_PAIRS_NBYTES,
    PSTI_GPU_WAVE_TABLES16_NBYTES = PSTI_GPU_WAVE_CONTEXTS * PSTI_GPU_WAVE_CONTEXT16_NBYTES +
                                    PSTI_GPU_WAVE_BUCKETS16_NBYTES + PSTI_GPU_WAVE_FILTERS_NBYTES,
    /* The window of input on its way to a warp; the records of the planes, and the numbers of their
     * filters. */
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

/* Writes the tables of an image's model block (NULL: the built-in ones). */
enum pst_status psti_gpu_wave_tables_write(const uint8_t *block, size_t nbytes, uint32_t bits,
                                           struct psti_gpu_wave_tables *to, struct pst_error *err);
void psti_gpu_wave_constants_write(struct psti_gpu_wave_constants *to);
#endif

#endif
