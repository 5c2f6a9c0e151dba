/* pli_jpeg_rows.c - rows of samples -> rows of pixels (docs/format-pli.md, section 9) in plain C,
 * the judge: "fancy" upsampling and colour. In and out: see pli_jpeg_int.h. Pure; any thread. */
#include "decode/pli_jpeg_int.h"

#include "base/bits.h"

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

enum { STEP = 16 };

static inline int16_t clamp(int16_t v)
{
    v = v < 0 ? 0 : v;
    return v > 255 ? 255 : v;
}

/* v * factor / 65536, rounded, |v| < 2^14: the upper halves of products are what vectors have. */
static inline int16_t scale(int16_t v, int16_t factor)
{
    int16_t twice = (int16_t)((int16_t)(2 * v) * factor >> 16);
    return (int16_t)((twice + 1) >> 1);
}

/* 16 pixels, R in the lowest byte. The factors are split so that they fit 16 bits: 91881 is 65536 +
 * 26345, 46802 is 65536 - 18734, 116130 is 2 * 65536 - 14942. */
static inline void ycc_step(const uint8_t *restrict y, const uint8_t *restrict cb,
                            const uint8_t *restrict cr, uint32_t *restrict pixels)
{
    int16_t red[STEP], green[STEP], blue[STEP];
    for (int i = 0; i < STEP; i++) {
        int16_t b = (int16_t)(cb[i] - 128), r = (int16_t)(cr[i] - 128);
        int16_t to_red = scale(r, 26345), to_blue = scale(b, -14942);
        int16_t to_green = (int16_t)((b * -22554 + r * 18734 + 32768) >> 16);
        red[i] = clamp((int16_t)(y[i] + r + to_red));
        green[i] = clamp((int16_t)(y[i] - r + to_green));
        blue[i] = clamp((int16_t)(y[i] + 2 * b + to_blue));
    }
    for (int i = 0; i < STEP; i++) {
        uint16_t two = (uint16_t)((uint16_t)red[i] | (uint16_t)((uint16_t)green[i] << 8));
        pixels[i] = two | (uint32_t)(uint16_t)blue[i] << 16;
    }
}

static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out,
                    uint32_t n)
{
    for (uint32_t i = 0; i < n; i += STEP, out += 3 * STEP) {
        uint32_t pixels[STEP], left = n - i;
        ycc_step(y + i, cb + i, cr + i, pixels);
        uint32_t n_whole = left > STEP ? STEP : left - 1; /* the next pixel covers the 4th byte */
        if (n_whole == STEP)
            for (uint32_t k = 0; k < STEP; k++)
                psti_store_u32(out + 3 * k, pixels[k]);
        else
            for (uint32_t k = 0; k < n_whole; k++)
                psti_store_u32(out + 3 * k, pixels[k]);
        if (left <= STEP) {
            out[3 * left - 3] = (uint8_t)pixels[left - 1];
            out[3 * left - 2] = (uint8_t)(pixels[left - 1] >> 8);
            out[3 * left - 1] = (uint8_t)(pixels[left - 1] >> 16);
        }
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
