/* pli_jpeg_small.c - turns coefficients into samples at a half, a quarter or an eighth of the size,
 * for callers that need less than all pixels (psti_pli_jpeg_decode_scaled() in pli.h says what they
 * get). It is plain C. The functions are pure; any thread may call them.
 *
 * A block becomes N x N samples, N = 4, 2 or 1. They are the N x N inverse DCT of the block's N x N
 * lowest frequencies, divided by 8 like the 8x8 transform. The factors sqrt(2) cos(pi / 8) = 10703
 * / 8192 and sqrt(2) cos(3 pi / 8) = 4433 / 8192 have 13 bits. N = 4 rounds like the 8x8
 * transform: columns first, (sum + 2^10) >> 11, then rows, (sum + 2^17) >> 18. N = 2 takes sums of
 * four coefficients with signs, and N = 1 takes DC; both are (sum + 4) >> 3. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include <string.h>

enum {
    LANES = 16, /* number of blocks that are transformed at once, neighbours in the list */
    EDGE_MAX = 4
};

/* The zigzag numbers of the lowest frequencies, [row][column]. */
static const uint8_t numbers[EDGE_MAX][EDGE_MAX] = {
    {0, 1, 5, 6}, {2, 4, 7, 13}, {3, 8, 12, 17}, {9, 11, 18, 24}};

struct work {
    int16_t in[EDGE_MAX][EDGE_MAX][LANES], half[EDGE_MAX][EDGE_MAX][LANES];
    uint8_t samples[EDGE_MAX][LANES][EDGE_MAX];
};
_Static_assert(sizeof(struct work) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

static int32_t clamp(int32_t v, int32_t lowest, int32_t highest)
{
    v = v < lowest ? lowest : v;
    return v > highest ? highest : v;
}

static uint8_t to_sample(int32_t v) { return (uint8_t)(clamp(v, -128, 127) + 128); }

/* Computes the four sums of four inputs. The results have 13 fraction bits. */
static void four_sums(int32_t i0, int32_t i1, int32_t i2, int32_t i3, int32_t out[4])
{
    int32_t a = (i0 + i2) * 8192, b = (i0 - i2) * 8192;
    int32_t c = 10703 * i1 + 4433 * i3, d = 4433 * i1 - 10703 * i3;
    out[0] = a + c;
    out[1] = b + d;
    out[2] = b - d;
    out[3] = a - c;
}

static void transform_4(struct work *work, uint32_t n)
{
    int32_t o[4];
    for (uint32_t u = 0; u < 4; u++)
        for (uint32_t l = 0; l < n; l++) {
            four_sums(work->in[0][u][l], work->in[1][u][l], work->in[2][u][l], work->in[3][u][l],
                      o);
            for (uint32_t y = 0; y < 4; y++)
                work->half[y][u][l] =
                    (int16_t)clamp((o[y] + (1 << 10)) >> 11, INT16_MIN, INT16_MAX);
        }
    for (uint32_t y = 0; y < 4; y++)
        for (uint32_t l = 0; l < n; l++) {
            four_sums(work->half[y][0][l], work->half[y][1][l], work->half[y][2][l],
                      work->half[y][3][l], o);
            for (uint32_t x = 0; x < 4; x++)
                work->samples[y][l][x] = to_sample((o[x] + (1 << 17)) >> 18);
        }
}

static void transform_2(struct work *work, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++) {
        int32_t a = work->in[0][0][l] + work->in[0][1][l];
        int32_t b = work->in[0][0][l] - work->in[0][1][l];
        int32_t c = work->in[1][0][l] + work->in[1][1][l];
        int32_t d = work->in[1][0][l] - work->in[1][1][l];
        work->samples[0][l][0] = to_sample((a + c + 4) >> 3);
        work->samples[0][l][1] = to_sample((b + d + 4) >> 3);
        work->samples[1][l][0] = to_sample((a - c + 4) >> 3);
        work->samples[1][l][1] = to_sample((b - d + 4) >> 3);
    }
}

static void transform_1(struct work *work, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++)
        work->samples[0][l][0] = to_sample((work->in[0][0][l] + 4) >> 3);
}

/* Loads the coefficients of the n blocks from list position i on, dequantised modulo 2^16. */
static void load(const struct psti_pli_jpeg_blocks *blocks, uint32_t i, uint32_t n,
                 struct work *work)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    const uint32_t *quants[LANES];
    for (uint32_t l = 0; l < n; l++)
        quants[l] = blocks->quants->twice[coefs->squares[coefs->order[i + l] >> 6].component];
    for (uint32_t v = 0; v < blocks->edge; v++)
        for (uint32_t u = 0; u < blocks->edge; u++) {
            uint32_t k = numbers[v][u];
            const int16_t *plane = coefs->planes + k * coefs->stride + i;
            int16_t *in = work->in[v][u];
            if (coefs->n_k[k] <= i) {
                memset(in, 0, sizeof work->in[v][u]);
                continue;
            }
            for (uint32_t l = 0; l < n; l++) /* entries of a plane after n_k are zeros */
                in[l] = (int16_t)(uint16_t)((uint32_t)(uint16_t)plane[l] * (quants[l][k] & 0xFFFF));
        }
}

static void store(const struct psti_pli_jpeg_blocks *blocks, uint32_t i, uint32_t n,
                  const struct work *work)
{
    uint32_t edge = blocks->edge;
    for (uint32_t l = 0; l < n; l++) {
        uint32_t block = blocks->coefs->order[i + l];
        if ((blocks->wanted[block >> 6] >> (block & 63) & 1) == 0)
            continue;
        uint8_t *to = blocks->samples + blocks->at[block >> 6] +
                      (ptrdiff_t)((block >> 3 & 7) * edge * blocks->stride + (block & 7) * edge);
        for (uint32_t y = 0; y < edge; y++)
            memcpy(to + y * blocks->stride, work->samples[y][l], edge);
    }
}

void psti_pli_jpeg_idct_small(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    for (uint32_t i = 0; i < blocks->coefs->n; i += LANES) {
        uint32_t left = blocks->coefs->n - i, n = left < LANES ? left : LANES;
        load(blocks, i, n, work);
        if (blocks->edge == 4)
            transform_4(work, n);
        else if (blocks->edge == 2)
            transform_2(work, n);
        else
            transform_1(work, n);
        store(blocks, i, n, work);
    }
}
