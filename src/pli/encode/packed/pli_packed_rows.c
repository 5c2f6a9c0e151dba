/* pli_packed_rows.c - tries predictors on rows of a plane: residuals, widths and costs.
 *
 * Pure; any thread. This is plain C, the reference implementation for pli_packed_rows_avx2.c. All
 * loops are over 64 columns in 16-bit lanes; groups past the last one do not count. */
#include "pli/encode/packed/pli_packed_encode.h"

#include "base/bits.h"

#include <string.h>

enum { EDGE = PSTI_PACKED_EDGE, GROUPS = PSTI_PACKED_ROW_GROUPS, START = PSTI_PACKED_ROW_START };
/* Columns of a row in 16-bit lanes: MARGIN before its first and after its last column; WIDE in
 * all. */
enum { MARGIN = 8, WIDE = MARGIN + EDGE + MARGIN };

void psti_pli_packed_load(const struct psti_pli_source *source, uint32_t p,
                          struct psti_packed_samples *out)
{
    uint32_t w = source->width;
    for (uint32_t y = 0; y < source->height; y++) {
        if (source->bits == 8) {
            uint8_t *row = out->row_u8[y] + START;
            memcpy(row, (const uint8_t *)source->planes[p] + (size_t)y * EDGE, EDGE);
            memset(row + w, row[w - 1], EDGE + 1 - w);
            row[-1] = row[0];
        } else {
            uint16_t *row = out->row_u16[y] + START;
            memcpy(row, (const uint16_t *)source->planes[p] + (size_t)y * EDGE, EDGE * 2);
            for (uint32_t x = w; x <= EDGE; x++)
                row[x] = row[w - 1];
            row[-1] = row[0];
        }
    }
}

uint32_t psti_pli_packed_row_cost(const uint8_t *widths, const uint8_t *above, uint32_t n)
{
    uint32_t bits = 0;
    for (uint32_t g = 0; g < n; g++) {
        uint32_t d = (uint32_t)(widths[g] > above[g] ? widths[g] - above[g] : above[g] - widths[g]);
        bits += 8u * widths[g] + d + (d ? 2 : 1);
    }
    return bits;
}

/* Returns row `y` in 16-bit lanes, from one column before the first to one column after the
 * last. */
static const uint16_t *wide_row(const struct psti_packed_block *block, uint32_t y,
                                uint16_t *restrict buffer)
{
    if (block->bits == 16)
        return block->samples->row_u16[y] + START;
    const uint8_t *row = block->samples->row_u8[y] + START - MARGIN;
    for (int i = 0; i < WIDE; i++)
        buffer[i] = row[i];
    return buffer + MARGIN;
}

/* These functions return the average of two numbers of 16 bits, rounded down and rounded up. No
 * intermediate result exceeds 16 bits. */
static inline uint16_t average_down(uint16_t a, uint16_t b)
{
    return (uint16_t)((a & b) + ((a ^ b) >> 1));
}
static inline uint16_t average_up(uint16_t a, uint16_t b)
{
    return (uint16_t)((a | b) - ((a ^ b) >> 1));
}

/* Computes the residuals of one row without taps, modulo 2^16. `x` is the row and `u` the row
 * above. */
static void predict_row(const uint16_t *x, const uint16_t *u, uint16_t (*restrict out)[EDGE])
{
    uint16_t smooth[MARGIN + EDGE] = {0};
    uint16_t *left = out[PSTI_PACKED_LEFT - 1], *up = out[PSTI_PACKED_UP - 1];
    for (int i = 0; i < EDGE; i++)
        smooth[MARGIN + i] = average_up(average_down(u[i - 1], u[i + 1]), u[i]);
    for (int i = 0; i < EDGE; i++) {
        uint16_t v = x[i], l = x[i - 1], a = u[i], al = u[i - 1];
        uint16_t s = smooth[MARGIN + i], sl = smooth[MARGIN + i - 1];
        out[PSTI_PACKED_LEFT - 1][i] = (uint16_t)(v - l);
        out[PSTI_PACKED_UP - 1][i] = (uint16_t)(v - a);
        out[PSTI_PACKED_GRADIENT - 1][i] = (uint16_t)(v - l - a + al);
        out[PSTI_PACKED_SMOOTH - 1][i] = (uint16_t)(v - s);
        out[PSTI_PACKED_SMOOTH_GRADIENT - 1][i] = (uint16_t)(v - l - s + sl);
    }
    left[0] = out[PSTI_PACKED_GRADIENT - 1][0] = up[0];
    out[PSTI_PACKED_SMOOTH_GRADIENT - 1][0] = out[PSTI_PACKED_SMOOTH - 1][0];
}

/* Computes the residuals of row 0, which is predicted from the left with any predictor. */
static void predict_first_row(const uint16_t *x, uint16_t out[PSTI_PACKED_N_PREDICTORS][EDGE])
{
    for (int i = 0; i < EDGE; i++)
        out[0][i] = (uint16_t)(x[i] - x[i - 1]);
    for (int m = 1; m < PSTI_PACKED_N_PREDICTORS; m++)
        memcpy(out[m], out[0], sizeof out[0]);
}

static void predict(const struct psti_packed_block *block, uint32_t y,
                    uint16_t raw[PSTI_PACKED_N_PREDICTORS][EDGE])
{
    uint16_t buffer[WIDE], buffer_above[WIDE];
    const uint16_t *row = wide_row(block, y, buffer);
    if (y == 0)
        predict_first_row(row, raw);
    else
        predict_row(row, wide_row(block, y - 1, buffer_above), raw);
}

/* Computes the terms that the taps add to the prediction of row `y`. */
static void tap_row(const struct psti_packed_block *block, uint32_t y, uint16_t *out)
{
    const int16_t *r0 = block->r0->residuals[y], *r1 = block->r1->residuals[y];
    memset(out, 0, EDGE * 2);
    for (int i = 0; i < EDGE && (block->tap[0] || block->tap[1]); i++)
        out[i] = (uint16_t)((block->tap[0] * r0[i] + block->tap[1] * r1[i] + 16) >> 5);
}

/* Subtracts the terms of the taps from the residuals and wraps them to `bits`. Stores the residuals
 * and the widths of their groups. */
static void finish_row(const uint16_t *raw, const uint16_t *taps, uint8_t bits,
                       int16_t *restrict residuals, uint8_t *widths)
{
    uint16_t zigzag[EDGE];
    int unused = 16 - bits;
    for (int i = 0; i < EDGE; i++) {
        int16_t r = (int16_t)((uint16_t)(raw[i] - taps[i]) << unused);
        residuals[i] = (int16_t)(r >> unused);
        zigzag[i] =
            (uint16_t)((uint16_t)((uint16_t)residuals[i] << 1) ^ (uint16_t)(residuals[i] >> 15));
    }
    for (int g = 0; g < GROUPS; g++) {
        uint64_t any = psti_load_u64(zigzag + 8 * g) | psti_load_u64(zigzag + 8 * g + 4);
        any |= any >> 32;
        any |= any >> 16;
        widths[g] = (uint8_t)(31 - __builtin_clz(2 * ((uint32_t)any & UINT16_MAX) + 1));
    }
}

static void try_all_c(const struct psti_packed_block *block,
                      uint32_t costs[PSTI_PACKED_N_PREDICTORS])
{
    uint16_t raw[PSTI_PACKED_N_PREDICTORS][EDGE], taps[EDGE];
    uint8_t above[PSTI_PACKED_N_PREDICTORS][GROUPS], widths[GROUPS];
    int16_t residuals[EDGE];
    for (int m = 0; m < PSTI_PACKED_N_PREDICTORS; m++) {
        memcpy(above[m], block->above, GROUPS);
        costs[m] = 0;
    }
    for (uint32_t y = block->first; y < block->first + block->n_rows; y++) {
        predict(block, y, raw);
        tap_row(block, y, taps);
        for (int m = 0; m < PSTI_PACKED_N_PREDICTORS; m++) {
            finish_row(raw[m], taps, block->bits, residuals, widths);
            costs[m] += psti_pli_packed_row_cost(widths, above[m], block->groups);
            memcpy(above[m], widths, GROUPS);
        }
    }
}

static void code_c(const struct psti_packed_block *block, uint32_t m, struct psti_packed_coded *out)
{
    uint16_t raw[PSTI_PACKED_N_PREDICTORS][EDGE], taps[EDGE];
    for (uint32_t y = block->first; y < block->first + block->n_rows; y++) {
        predict(block, y, raw);
        tap_row(block, y, taps);
        finish_row(raw[m], taps, block->bits, out->residuals[y], out->widths[y]);
    }
}

const struct psti_packed_rows psti_packed_rows_c = {.try_all = try_all_c, .code = code_c};
