/* gpu_tables.h - tables and constants of PLI's wave mode (format-pli.md 5.8) in the layout that
 * kernels read, and the sizes of the kernels' shared memory. Plain C and CUDA.
 *
 * The upload is small: an image's own tables take 1.5 KB. Each block builds its decoding tables
 * from them. */
#ifndef PST_GPU_GPU_TABLES_H
#define PST_GPU_GPU_TABLES_H

#include <stdint.h>

enum {
    /* Numbers in brackets are sections of format-pli.md. */
    PSTI_GPU_WAVE_CONTEXTS = 16, /* contexts (5.6) */
    /* 47 tokens for 16 bits (5.4), and an entry for the end of the last one */
    PSTI_GPU_WAVE_TOKENS = 48,
    PSTI_GPU_WAVE_LISTS = 3,    /* lists of filters, one for each plane (5.8) */
    PSTI_GPU_WAVE_FILTERS = 64, /* filters of a list (5.2) */
    PSTI_GPU_WAVE_POINTS = 123  /* nth = 0..122 of the tokens of pairs (5.4) */
};

/* The tables of an image, as they are uploaded. */
struct psti_gpu_wave_tables {
    /* First slot of each token. The entry after the last token is the number of slots: 256 or
     * 1024. */
    uint16_t first[PSTI_GPU_WAVE_CONTEXTS][PSTI_GPU_WAVE_TOKENS];
};

/* Coefficients of a filter (format-pli.md 5.3). Each word holds four signed bytes, lowest first: of
 * UR, U, UL, UU in the first word; of L, LL and the residuals of planes 0 and 1 in the second.
 * Filter number 0, MED, has no coefficients. */
struct psti_gpu_wave_filter {
    uint32_t above, beside;
};

/* Tables for the tokens of pairs (format-pli.md 5.4). */
struct psti_gpu_wave_pairs {
    /* Indexed by [4 * nth + turn]: `right`, and `up` in the upper byte. Entries after the last nth
     * are (0, 0). */
    uint16_t points[4 * (PSTI_GPU_WAVE_POINTS + 1)];
    uint8_t activities[16]; /* activity of each token */
    /* The next tables are indexed by the lower four bits of an activity. */
    uint8_t first_bits[16], second_bits[16];
    uint8_t point_masks[16],
        point_bases[16]; /* applied to suffix1; (0, 0) for tokens without points */
    uint8_t first_masks[16], second_masks[16]; /* masks of suffix1 and suffix2 */
    uint8_t square_bases[16];
};

struct psti_gpu_wave_constants {
    struct psti_gpu_wave_tables built_in[2]; /* tables for 8 bits and for 16 bits */
    struct psti_gpu_wave_filter filters[PSTI_GPU_WAVE_LISTS][PSTI_GPU_WAVE_FILTERS];
    struct psti_gpu_wave_pairs pairs;
    uint8_t bucket[2][256]; /* context for each energy, for 8 bits and for 16 bits */
};

/* Bytes of shared memory: of a block, then of each of its warps. */
enum {
    /* Bytes of a context's decoding table. With 8 bits it has a word for each slot: the slot's
     * index among its token's slots, the token's frequency and activity. With 16 bits it has the
     * token of each slot, then slots and frequency of each token. This size puts tokens of
     * neighbouring contexts in different banks of shared memory. */
    PSTI_GPU_WAVE_CONTEXT8_NBYTES = 256 * 4,
    PSTI_GPU_WAVE_CONTEXT16_NBYTES = 1024 + 208,
    /* Two 2-byte entries for each possible energy. */
    PSTI_GPU_WAVE_BUCKETS8_NBYTES = 4 * 324,
    PSTI_GPU_WAVE_BUCKETS16_NBYTES = 4 * 464,
    PSTI_GPU_WAVE_FILTERS_NBYTES = PSTI_GPU_WAVE_LISTS * PSTI_GPU_WAVE_FILTERS * 8,
    PSTI_GPU_WAVE_PAIRS_NBYTES = 8 * (PSTI_GPU_WAVE_POINTS + 1) + 8 * 16,
    PSTI_GPU_WAVE_TABLES8_NBYTES = PSTI_GPU_WAVE_CONTEXTS * PSTI_GPU_WAVE_CONTEXT8_NBYTES +
                                   PSTI_GPU_WAVE_BUCKETS8_NBYTES + PSTI_GPU_WAVE_FILTERS_NBYTES +
                                   PSTI_GPU_WAVE_PAIRS_NBYTES,
    PSTI_GPU_WAVE_TABLES16_NBYTES = PSTI_GPU_WAVE_CONTEXTS * PSTI_GPU_WAVE_CONTEXT16_NBYTES +
                                    PSTI_GPU_WAVE_BUCKETS16_NBYTES + PSTI_GPU_WAVE_FILTERS_NBYTES,
    /* Parts of a warp's shared memory: a window into which coded input is copied, a record for each
     * of up to four planes, and the samples of a plane. */
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

/* Writes the wave tables of an image's model block. If the block is NULL, writes the built-in
 * tables. */
enum pst_status psti_gpu_wave_tables_write(const uint8_t *block, size_t nbytes, uint32_t bits,
                                           struct psti_gpu_wave_tables *to, struct pst_error *err);
void psti_gpu_wave_constants_write(struct psti_gpu_wave_constants *to);
#endif

#endif
