/* l3_rows.h - functions that the encoder and the decoder of L3 share: rows of a tile and their
 * prediction. */
#ifndef PST_BENCH_L3_ROWS_H
#define PST_BENCH_L3_ROWS_H

#include "l3.h"

#define L3_RECORD_BITS_MAX 8u

/* Returns the bytes of a record of `width` samples of n bits. */
static inline uint32_t l3_record_nbytes(uint32_t width, uint32_t n)
{
    return (12u + n * width + 7u) / 8u;
}

/* Bytes of a row buffer. It has one more sample of any value at each side, so loops over a row have
 * a constant length, which compilers vectorise. */
#define L3_ROW_NBYTES (L3_EDGE_MAX + 2)

/* Predicts `n` samples of a row, each as the nearest of the three samples above. If a and c are
 * both above b, or both below it, b is never the nearest. */
static inline void l3_predict_nearest(const uint8_t *restrict above, size_t n,
                                      uint8_t *restrict predicted)
{
    for (size_t x = 0; x < n; x++) {
        const uint8_t a = above[x], b = above[x + 1], c = above[x + 2];
        const uint8_t from_c = a > b ? a - b : b - a, from_a = c > b ? c - b : b - c;
        const uint8_t gap = from_a > from_c ? from_a - from_c : from_c - from_a;
        const uint8_t from_b = (a > b) != (c > b) ? gap : 255;
        const uint8_t other = from_b <= from_c ? b : c, least = from_b <= from_c ? from_b : from_c;
        predicted[x] = from_a <= least ? a : other;
    }
}

/* Predicts a row of `width` samples from the row above, whose first sample is above[1]. */
static inline void l3_predict(const uint8_t *above, uint32_t width, uint8_t *predicted)
{
    if (width <= L3_EDGE_MAX / 2)
        l3_predict_nearest(above, L3_EDGE_MAX / 2, predicted);
    else
        l3_predict_nearest(above, L3_EDGE_MAX, predicted);
    predicted[0] = above[1];
    predicted[width - 1] = above[width];
}

/* Returns the number of rows or columns of the i-th tile along an axis. */
static inline uint32_t l3_tile_px(uint32_t side_px, uint32_t edge, uint32_t i)
{
    return side_px - i * edge < edge ? side_px - i * edge : edge;
}

/* Computes all members but `streams` from width, height and edge. Returns false if L3 cannot hold
 * such an image. */
bool l3_layout(struct l3_info *info);

#endif
