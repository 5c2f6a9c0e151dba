/* codec_filter.c - the filters of PNG over whole images, followed by zstd.
 *
 * Each row of pixels becomes a byte with the filter type and a filtered row, and back. Filters are
 * undone as a fast PNG reader does: SSE2 with one pixel per step for pixels of 3 and 4 bytes, else
 * plain C (which the compiler vectorises for `up`). Samples of 16 bits are filtered in the byte
 * order of memory. */
#include "codec.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { NONE, LEFT, UP, AVERAGE, PAETH, N_FILTERS };

static size_t pixel_nbytes(const struct image *image)
{
    return image->channels * (image->bits / 8u);
}

size_t filter_nbytes(const struct image *image) { return image->nbytes + image->height; }

static uint8_t paeth(int a, int b, int c)
{
    int to_a = abs(b - c), to_b = abs(a - c), to_c = abs(a + b - 2 * c);
    return (uint8_t)(to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c);
}

/* Filters a row. `above` is the row above, or zeros for the first row. */
static void filter_row(int type, const uint8_t *row, const uint8_t *above, size_t n, size_t bpp,
                       uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        int a = i < bpp ? 0 : row[i - bpp], b = above[i], c = i < bpp ? 0 : above[i - bpp];
        int predicted = type == LEFT      ? a
                        : type == UP      ? b
                        : type == AVERAGE ? (a + b) / 2
                        : type == PAETH   ? paeth(a, b, c)
                                          : 0;
        out[i] = (uint8_t)(row[i] - predicted);
    }
}

void filter_left(const struct image *image, uint8_t *filtered)
{
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->row_nbytes;
        *filtered++ = LEFT;
        filter_row(LEFT, row, row, image->row_nbytes, pixel_nbytes(image), filtered);
        filtered += image->row_nbytes;
    }
}

static uint64_t sum_of(const uint8_t *row, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += row[i] < 128 ? row[i] : 256u - row[i];
    return sum;
}

/* `row_scratch`: two rows. */
void filter_min_sum(const struct image *image, uint8_t *filtered, uint8_t *row_scratch)
{
    const size_t n = image->row_nbytes;
    uint8_t *trial = row_scratch, *zeros = row_scratch + n;
    memset(zeros, 0, n);
    for (uint32_t y = 0; y < image->height; y++, filtered += n + 1) {
        const uint8_t *row = image->pixels + y * n, *above = y ? row - n : zeros;
        uint64_t least = UINT64_MAX;
        for (int type = NONE; type < N_FILTERS; type++) {
            filter_row(type, row, above, n, pixel_nbytes(image), trial);
            uint64_t sum = sum_of(trial, n);
            if (sum < least) {
                least = sum;
                filtered[0] = (uint8_t)type;
                memcpy(filtered + 1, trial, n);
            }
        }
    }
}

static void undo_plain(int type, const uint8_t *in, const uint8_t *above, size_t n, size_t bpp,
                       uint8_t *row)
{
    for (size_t i = 0; i < bpp && i < n; i++) {
        int b = above ? above[i] : 0;
        row[i] = (uint8_t)(in[i] + (type == AVERAGE ? b / 2 : type == PAETH ? b : 0));
    }
    for (size_t i = bpp; i < n; i++) {
        int a = row[i - bpp], b = above ? above[i] : 0, c = above ? above[i - bpp] : 0;
        int predicted = type == LEFT ? a : type == AVERAGE ? (a + b) / 2 : paeth(a, b, c);
        row[i] = (uint8_t)(in[i] + predicted);
    }
}

static void undo_up(const uint8_t *in, const uint8_t *above, size_t n, uint8_t *row)
{
    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)(in[i] + above[i]);
}

#ifdef __SSE2__
/* Loads four bytes, even if a pixel has three. The fourth byte belongs to the next pixel. A store
 * of it is overwritten by the next pixel, or goes to the slack after the last row. */
static inline __m128i load_pixel(const uint8_t *p)
{
    uint32_t bits;
    memcpy(&bits, p, 4);
    return _mm_cvtsi32_si128((int)bits);
}

static inline void store_pixel(uint8_t *p, __m128i x)
{
    uint32_t bits = (uint32_t)_mm_cvtsi128_si32(x);
    memcpy(p, &bits, 4);
}

static inline __m128i select_paeth(__m128i a, __m128i b, __m128i c)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i pa = _mm_sub_epi16(b, c), pb = _mm_sub_epi16(a, c), pc = _mm_add_epi16(pa, pb);
    pa = _mm_max_epi16(pa, _mm_sub_epi16(zero, pa));
    pb = _mm_max_epi16(pb, _mm_sub_epi16(zero, pb));
    pc = _mm_max_epi16(pc, _mm_sub_epi16(zero, pc));
    __m128i least = _mm_min_epi16(pc, _mm_min_epi16(pa, pb));
    __m128i is_a = _mm_cmpeq_epi16(least, pa), is_b = _mm_cmpeq_epi16(least, pb);
    __m128i b_or_c = _mm_or_si128(_mm_and_si128(is_b, b), _mm_andnot_si128(is_b, c));
    return _mm_or_si128(_mm_and_si128(is_a, a), _mm_andnot_si128(is_a, b_or_c));
}

static inline void undo_wide(int type, const uint8_t *in, const uint8_t *above, size_t n,
                             size_t bpp, uint8_t *row)
{
    const __m128i zero = _mm_setzero_si128(), ones = _mm_set1_epi8(1);
    __m128i a = zero, c = zero;
    for (size_t i = 0; i < n; i += bpp) {
        __m128i x = load_pixel(in + i), b = load_pixel(above + i);
        if (type == LEFT) {
            a = _mm_add_epi8(x, a);
        } else if (type == AVERAGE) {
            /* avg_epu8 rounds up, PNG's average rounds down: subtract the difference */
            __m128i odd = _mm_and_si128(_mm_xor_si128(a, b), ones);
            a = _mm_add_epi8(x, _mm_sub_epi8(_mm_avg_epu8(a, b), odd));
        } else {
            b = _mm_unpacklo_epi8(b, zero);
            __m128i p = select_paeth(a, b, c);
            c = b;
            a = _mm_unpacklo_epi8(_mm_add_epi8(x, _mm_packus_epi16(p, p)), zero);
            store_pixel(row + i, _mm_packus_epi16(a, a));
            continue;
        }
        store_pixel(row + i, a);
    }
}

/* The compiler makes a separate loop for each constant `type` and `bpp`. */
static void undo_wide_row(int type, const uint8_t *in, const uint8_t *above, size_t n, size_t bpp,
                          uint8_t *row)
{
    if (bpp == 3 && type == LEFT)
        undo_wide(LEFT, in, above, n, 3, row);
    else if (bpp == 3 && type == AVERAGE)
        undo_wide(AVERAGE, in, above, n, 3, row);
    else if (bpp == 3)
        undo_wide(PAETH, in, above, n, 3, row);
    else if (type == LEFT)
        undo_wide(LEFT, in, above, n, 4, row);
    else if (type == AVERAGE)
        undo_wide(AVERAGE, in, above, n, 4, row);
    else
        undo_wide(PAETH, in, above, n, 4, row);
}
#endif

bool filter_undo(const struct image *image, const uint8_t *filtered, uint8_t *pixels)
{
    const size_t n = image->row_nbytes, bpp = pixel_nbytes(image);
    for (uint32_t y = 0; y < image->height; y++, filtered += n + 1) {
        uint8_t *row = pixels + y * n;
        const uint8_t *above = y ? row - n : NULL, *in = filtered + 1;
        int type = filtered[0];
        if (type >= N_FILTERS)
            return false;
        if (type == NONE || (type == UP && !above))
            memcpy(row, in, n);
        else if (type == UP)
            undo_up(in, above, n, row);
#ifdef __SSE2__
        else if ((bpp == 3 || bpp == 4) && above)
            undo_wide_row(type, in, above, n, bpp, row);
#endif
        else
            undo_plain(type, in, above, n, bpp, row);
    }
    return true;
}
