/* pli_packed_encode.h - inside the encoder of mode packed: planes between choosing and writing, and
 * the kernels that try predictors. */
#ifndef PST_PLI_PACKED_ENCODE_H
#define PST_PLI_PACKED_ENCODE_H

#include "pli/encode/pli_encode_int.h"
#include "pli/format/pli_packed_format.h"

enum { PSTI_PACKED_N_PREDICTORS = 5 };

/* The samples of a plane. Row y begins at row[y] + 32 samples. Copies of the first sample stand
 * before each row, and copies of the last sample after it, up to column 64. So predictors find
 * their neighbours there. */
struct psti_packed_samples {
    union {
        uint8_t row_u8[PSTI_PACKED_EDGE][PSTI_PACKED_EDGE + 64];
        uint16_t row_u16[PSTI_PACKED_EDGE][PSTI_PACKED_EDGE + 64];
    };
};
enum { PSTI_PACKED_ROW_START = 32 };

/* A coded plane: its residuals, and all other values of its record and its widths. */
struct psti_packed_coded {
    bool is_constant; /* if true, `start` is the sample of the whole plane and the other members
                       * mean nothing */
    uint8_t predictor[4], first_width;
    int8_t tap[2];
    uint16_t start;
    int16_t residuals[PSTI_PACKED_EDGE][PSTI_PACKED_EDGE];
    uint8_t widths[PSTI_PACKED_EDGE][PSTI_PACKED_ROW_GROUPS];
};

/* A block: rows first .. first + n_rows - 1 of a plane, at most 16 rows. */
struct psti_packed_block {
    const struct psti_packed_samples *samples;
    const struct psti_packed_coded *r0, *r1; /* residuals of planes 0 and 1, to which taps refer */
    int8_t tap[2];
    uint8_t bits;
    uint32_t first, n_rows, groups;
    uint8_t above[PSTI_PACKED_ROW_GROUPS]; /* widths of the groups of the row before `first` */
};

/* The kernels that try predictors (pli_packed_rows.c, pli_packed_rows_avx2.c). */
struct psti_packed_rows {
    /* Computes the cost in bits of the block with each predictor, starting with predictor 1. */
    void (*try_all)(const struct psti_packed_block *block,
                    uint32_t costs[PSTI_PACKED_N_PREDICTORS]);
    /* Stores residuals and widths with predictor number `m` + 1 in the block's rows of `out`. */
    void (*code)(const struct psti_packed_block *block, uint32_t m, struct psti_packed_coded *out);
};
/* Both tables of kernels give the same numbers. */
extern const struct psti_packed_rows psti_packed_rows_c;
extern const struct psti_packed_rows psti_packed_rows_u8_avx2; /* for 8 bits only */

void psti_pli_packed_load(const struct psti_pli_source *source, uint32_t p,
                          struct psti_packed_samples *out);
/* Returns the cost in bits of a row of `n` groups. `above` has the widths of the groups above. */
uint32_t psti_pli_packed_row_cost(const uint8_t *widths, const uint8_t *above, uint32_t n);

/* Writes the unit's bytes, beginning with the mode (pli_packed_write.c). Returns their number, or 0
 * if they do not fit. */
size_t psti_pli_packed_write(const struct psti_pli_source *source,
                             const struct psti_packed_coded *coded, uint8_t *out, size_t capacity);

#endif
