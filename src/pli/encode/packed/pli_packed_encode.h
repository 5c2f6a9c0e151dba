/* pli_packed_encode.h - inside the encoder of mode packed: planes between choosing and writing, and
 * the kernels that try predictors. */
#ifndef PST_PLI_PACKED_ENCODE_H
#define PST_PLI_PACKED_ENCODE_H

#include "pli/encode/pli_encode_int.h"
#include "pli/format/pli_packed_format.h"

enum { PSTI_PACKED_N_PREDICTORS = 5 };

/* A plane's samples, with a copy of the first and last one beside each row (their neighbours as
 * predictors see them) and of the last one up to column 64: row y begins at row[y] + 32 samples. */
struct psti_packed_samples {
    union {
        uint8_t row8[PSTI_PACKED_EDGE][PSTI_PACKED_EDGE + 64];
        uint16_t row16[PSTI_PACKED_EDGE][PSTI_PACKED_EDGE + 64];
    };
};
enum { PSTI_PACKED_ROW_START = 32 };

/* A plane's residuals with all that their decoder needs. */
struct psti_packed_coded {
    bool is_constant; /* `start` is the sample; nothing else counts */
    uint8_t predictor[4], first_width;
    int8_t tap[2];
    uint16_t start;
    int16_t residuals[PSTI_PACKED_EDGE][PSTI_PACKED_EDGE];
    uint8_t widths[PSTI_PACKED_EDGE][PSTI_PACKED_ROW_GROUPS];
};

/* Rows first .. first + n_rows - 1 of a plane, at most 16. */
struct psti_packed_block {
    const struct psti_packed_samples *samples;
    const struct psti_packed_coded *r0, *r1; /* planes 0 and 1, for taps */
    int8_t tap[2];
    uint8_t bits;
    uint32_t first, n_rows, groups;
    uint8_t above[PSTI_PACKED_ROW_GROUPS]; /* widths of the row before */
};

/* pli_packed_rows.c, _avx2.c */
struct psti_packed_rows {
    /* The bits that the block costs with each predictor, number 1 first. */
    void (*try_all)(const struct psti_packed_block *block,
                    uint32_t costs[PSTI_PACKED_N_PREDICTORS]);
    /* Residuals and widths with predictor number `m` + 1, at the block's rows of `out`. */
    void (*code)(const struct psti_packed_block *block, uint32_t m, struct psti_packed_coded *out);
};
/* Both give the same numbers. */
extern const struct psti_packed_rows psti_packed_rows_c;
extern const struct psti_packed_rows psti_packed_rows8_avx2; /* 8 bits only */

void psti_pli_packed_load(const struct psti_pli_source *source, uint32_t p,
                          struct psti_packed_samples *out);
/* Bits that a row of `n` groups costs below groups of widths `above`. */
uint32_t psti_pli_packed_row_cost(const uint8_t *widths, const uint8_t *above, uint32_t n);

/* pli_packed_write.c: the unit's bytes, mode first; 0 if they do not fit. */
size_t psti_pli_packed_write(const struct psti_pli_source *source,
                             const struct psti_packed_coded *coded, uint8_t *out, size_t capacity);

#endif
