/* pli_jpeg_rows.c - rows of samples -> rows of pixels (docs/format-pli.md, section 9) in plain C,
 * the judge: "fancy" upsampling and colour. In and out: see pli_jpeg_int.h. Pure; any thread. */
#include "decode/pli_jpeg_int.h"

static void h2(const uint8_t *restrict in, uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t near = 3u * in[i];
        out[2 * i] = (uint8_t)((near + in[(ptrdiff_t)i - 1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((near + in[i + 1] + 2) >> 2);
    }
}

static void h2v2(const uint8_t *restrict near, const uint8_t *restrict far, uint8_t *restrict out,
                 uint32_t n)
{
    uint32_t left = 3u * near[-1] + far[-1], here = 3u * near[0] + far[0];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t right = 3u * near[i + 1] + far[i + 1];
        out[2 * i] = (uint8_t)((3 * here + left + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + right + 7) >> 4);
        left = here;
        here = right;
    }
}

static void v2(const uint8_t *restrict near, const uint8_t *restrict far, uint32_t bias,
               uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3u * near[i] + far[i] + bias) >> 2);
}

static inline uint8_t clamp(int32_t v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

static void ycc_rgb(const uint8_t *restrict y, const uint8_t *restrict cb,
                    const uint8_t *restrict cr, uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t b = cb[i] - 128, r = cr[i] - 128;
        out[3 * i] = clamp(y[i] + ((91881 * r + 32768) >> 16));
        out[3 * i + 1] = clamp(y[i] + ((-22554 * b - 46802 * r + 32768) >> 16));
        out[3 * i + 2] = clamp(y[i] + ((116130 * b + 32768) >> 16));
    }
}

static void plain_rgb(const uint8_t *restrict c0, const uint8_t *restrict c1,
                      const uint8_t *restrict c2, uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[3 * i] = c0[i];
        out[3 * i + 1] = c1[i];
        out[3 * i + 2] = c2[i];
    }
}

const struct psti_pli_jpeg_rows psti_pli_jpeg_rows_c = {
    .h2 = h2, .h2v2 = h2v2, .v2 = v2, .ycc_rgb = ycc_rgb, .plain_rgb = plain_rgb};
