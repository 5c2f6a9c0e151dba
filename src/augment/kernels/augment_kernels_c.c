/* augment_kernels_c.c - the inner loops in plain C, the reference for the other CPU levels.
 *
 * In and out: see augment_kernels.h. Pure functions, any thread. */
#include "augment/kernels/augment_kernels.h"

#include "base/bits.h"

static inline uint8_t clamp_u8(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* The template of resize_x. It is inlined once for each constant `channels`, so the inner loop is
 * unrolled. */
static inline __attribute__((always_inline)) void resize_x(uint8_t *dst, const uint8_t *src,
                                                           const struct psti_axis *axis,
                                                           uint32_t begin, uint32_t end,
                                                           uint32_t bias, uint32_t channels)
{
    const int32_t round = 1 << (axis->precision - 1);
    for (uint32_t i = begin; i < end; i++) {
        const int16_t *weights = axis->weights + (size_t)i * axis->stride;
        const uint8_t *pixel = src + (size_t)(axis->start[i] - bias) * channels;
        uint32_t taps = axis->taps[i];
        int32_t sum[4] = {round, round, round, round};
        for (uint32_t k = 0; k < taps; k++) {
            for (uint32_t c = 0; c < channels; c++)
                sum[c] += weights[k] * pixel[c];
            pixel += channels;
        }
        for (uint32_t c = 0; c < channels; c++)
            dst[(size_t)i * channels + c] = clamp_u8(sum[c] >> axis->precision);
    }
}

/* Computes a block of sums at a time, so that each row is read in long runs. */
static void resize_y(uint8_t *dst, const uint8_t *const *rows, const int16_t *weights,
                     uint32_t taps, uint32_t precision, size_t n)
{
    enum { BLOCK = 256 };
    int32_t sum[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t m = n - at < BLOCK ? n - at : BLOCK;
        for (size_t i = 0; i < m; i++)
            sum[i] = 1 << (precision - 1);
        for (uint32_t k = 0; k < taps; k++) {
            const uint8_t *row = rows[k] + at;
            int32_t weight = weights[k];
            for (size_t i = 0; i < m; i++)
                sum[i] += weight * row[i];
        }
        for (size_t i = 0; i < m; i++)
            dst[at + i] = clamp_u8(sum[i] >> precision);
    }
}

static inline __attribute__((always_inline)) void reverse(uint8_t *dst, const uint8_t *src,
                                                          uint32_t width, uint32_t channels)
{
    src += (size_t)width * channels;
    for (uint32_t x = 0; x < width; x++) {
        src -= channels;
        for (uint32_t c = 0; c < channels; c++)
            dst[c] = src[c];
        dst += channels;
    }
}

static inline __attribute__((always_inline)) void split(uint8_t *const *planes, const uint8_t *src,
                                                        uint32_t width, uint32_t channels)
{
    for (uint32_t c = 0; c < channels; c++) {
        uint8_t *plane = planes[c];
        for (uint32_t x = 0; x < width; x++)
            plane[x] = src[(size_t)x * channels + c];
    }
}

#define DEFINE(channels)                                                                           \
    void psti_augment_resize_x_##channels##_c(uint8_t *const *dst, const uint8_t *const *src,      \
                                              const struct psti_axis *axis, uint32_t begin,        \
                                              uint32_t end, uint32_t bias)                         \
    {                                                                                              \
        resize_x(dst[0], src[0], axis, begin, end, bias, channels);                                \
    }                                                                                              \
    static void reverse_##channels(uint8_t *dst, const uint8_t *src, uint32_t width)               \
    {                                                                                              \
        reverse(dst, src, width, channels);                                                        \
    }                                                                                              \
    void psti_augment_split_##channels##_c(uint8_t *const *planes, const uint8_t *src,             \
                                           uint32_t width)                                         \
    {                                                                                              \
        split(planes, src, width, channels);                                                       \
    }

DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)

uint16_t psti_augment_f16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000) { /* magnitudes from 65536 on become infinity or NaN */
        uint32_t payload = magnitude > 0x7f800000 ? 0x0200 | (magnitude >> 13 & 0x03ff) : 0;
        return (uint16_t)(sign | 0x7c00 | payload);
    }
    if (magnitude < 0x38800000) { /* magnitudes below 2^-14 are multiples of 2^-24 in f16 */
        float scaled = 0;
        memcpy(&scaled, &magnitude, sizeof scaled);
        /* the lowest bit of this sum is 2^-24, so the addition itself rounds to even */
        scaled += 0.5f;
        memcpy(&magnitude, &scaled, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}

uint16_t psti_augment_bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Stores by memcpy, because the slot may begin at any address. */
static inline void put_f32(unsigned char *to, float value) { memcpy(to, &value, sizeof value); }

/* Converts PSTI_PATTERN elements at a time, so the compiler sees arrays of constant length. */
static void to_f32(void *dst, const uint8_t *src, size_t n, const float *scale, const float *offset)
{
    unsigned char *to = dst;
    while (n >= PSTI_PATTERN) {
        for (int i = 0; i < PSTI_PATTERN; i++) {
            float value = (float)src[i] * scale[i];
            put_f32(to + 4 * (size_t)i, value + offset[i]);
        }
        src += PSTI_PATTERN;
        to += 4 * PSTI_PATTERN;
        n -= PSTI_PATTERN;
    }
    for (size_t i = 0; i < n; i++) {
        float value = (float)src[i] * scale[i];
        put_f32(to + 4 * i, value + offset[i]);
    }
}

static void to_f16(void *dst, const uint8_t *src, size_t n, const float *scale, const float *offset)
{
    for (size_t i = 0; i < n; i++) {
        float value = (float)src[i] * scale[i % PSTI_PATTERN];
        psti_store_u16((unsigned char *)dst + 2 * i,
                       psti_augment_f16_from_f32(value + offset[i % PSTI_PATTERN]));
    }
}

static void to_bf16(void *dst, const uint8_t *src, size_t n, const float *scale,
                    const float *offset)
{
    for (size_t i = 0; i < n; i++) {
        float value = (float)src[i] * scale[i % PSTI_PATTERN];
        psti_store_u16((unsigned char *)dst + 2 * i,
                       psti_augment_bf16_from_f32(value + offset[i % PSTI_PATTERN]));
    }
}

const struct psti_augment_ops psti_augment_ops_c = {
    .name = "c",
    .lanes = {1, 1, 1, 1, 1},
    .resize_x = {NULL, psti_augment_resize_x_1_c, psti_augment_resize_x_2_c,
                 psti_augment_resize_x_3_c, psti_augment_resize_x_4_c},
    .resize_y = resize_y,
    .reverse = {NULL, reverse_1, reverse_2, reverse_3, reverse_4},
    .split = {NULL, NULL, psti_augment_split_2_c, psti_augment_split_3_c, psti_augment_split_4_c},
    .to_f32 = to_f32,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
    .colors = {psti_augment_colors_load_c, psti_augment_colors_store_c, psti_augment_colors_blend_c,
               psti_augment_colors_saturate_c, psti_augment_colors_turn_c,
               psti_augment_colors_luma_c},
};
