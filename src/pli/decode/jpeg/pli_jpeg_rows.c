/* pli_jpeg_rows.c - turns rows of samples into rows of pixels (docs/format-pli.md, section 9) in
 * plain C, the reference implementation: "fancy" upsampling and colour.
 *
 * pli_jpeg_int.h says what goes in and out. The functions are pure; any thread may call them. */
#include "pli/decode/jpeg/pli_jpeg_int.h"
#include "pli/decode/pli_rgb.h"

#include "base/bits.h"

enum { STEP = 16 }; /* samples or pixels at once; compilers vectorise loops of this length */

/* Stores pairs of samples. The first sample of a pair is the lower byte. */
static inline void store_pairs(const uint16_t pairs[STEP], uint8_t *out)
{
    for (int i = 0; i < STEP; i++)
        psti_store_u16(out + 2 * i, pairs[i]);
}

static void h2(const uint8_t *in, uint8_t *out, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += STEP, in += STEP, out += 2 * STEP) {
        const uint8_t *left = in - 1, *right = in + 1;
        uint16_t pairs[STEP];
        for (int i = 0; i < STEP; i++) {
            uint16_t near = (uint16_t)(3 * in[i]);
            uint16_t even = (uint16_t)((uint16_t)(near + left[i] + 1) >> 2);
            uint16_t odd = (uint16_t)((uint16_t)(near + right[i] + 2) >> 2);
            pairs[i] = (uint16_t)(even | (uint16_t)(odd << 8));
        }
        store_pairs(pairs, out);
    }
}

static void h2v2(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += STEP, near += STEP, far += STEP, out += 2 * STEP) {
        const uint8_t *near_left = near - 1, *far_left = far - 1;
        const uint8_t *near_right = near + 1, *far_right = far + 1;
        uint16_t pairs[STEP];
        for (int i = 0; i < STEP; i++) {
            uint16_t here = (uint16_t)(3 * (uint16_t)(3 * near[i] + far[i]));
            uint16_t left = (uint16_t)(3 * near_left[i] + far_left[i]);
            uint16_t right = (uint16_t)(3 * near_right[i] + far_right[i]);
            uint16_t even = (uint16_t)((uint16_t)(here + left + 8) >> 4);
            uint16_t odd = (uint16_t)((uint16_t)(here + right + 7) >> 4);
            pairs[i] = (uint16_t)(even | (uint16_t)(odd << 8));
        }
        store_pairs(pairs, out);
    }
}

static void v2(const uint8_t *restrict near, const uint8_t *restrict far, uint32_t bias,
               uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3u * near[i] + far[i] + bias) >> 2);
}

/* Returns the clamped value of a channel. `sum` is 64 times the value, plus 32. */
static inline uint16_t channel(int16_t sum)
{
    int16_t v = (int16_t)(sum >> 6);
    v = v < 0 ? 0 : v;
    return (uint16_t)(v > 255 ? 255 : v);
}

static inline int16_t high_product(int16_t a, int16_t b) { return (int16_t)(a * b >> 16); }

/* Makes 16 pixels, with R in the lowest byte. All values are multiplied by 64, which still fits 16
 * bits. So the upper halves of products, which vector instructions return, are rounded down only
 * once and are exact. The
 * factors are split so that they fit 16 bits: 91881 is 65536 + 26345, 46802 is 65536 - 18734,
 * 116130 is 2 * 65536 - 14942. The two products of green are added as whole numbers, with the carry
 * from their lower halves. */
static inline void ycc_step(const uint8_t *restrict y, const uint8_t *restrict cb,
                            const uint8_t *restrict cr, uint32_t *restrict pixels)
{
    uint16_t red_green[STEP], blue[STEP];
    for (int i = 0; i < STEP; i++) {
        int16_t b = (int16_t)((cb[i] << 6) - (128 << 6)), r = (int16_t)((cr[i] << 6) - (128 << 6));
        int16_t gray = (int16_t)((y[i] << 6) + 32);
        int16_t to_red = (int16_t)(r + high_product(r, 26345));
        int16_t to_blue = (int16_t)(2 * b + high_product(b, -14942));
        uint16_t low_b = (uint16_t)(b * -22554), low = (uint16_t)(low_b + (uint16_t)(r * 18734));
        int16_t to_green = (int16_t)(high_product(b, -22554) + high_product(r, 18734) - r);
        uint16_t red = channel((int16_t)(gray + to_red));
        uint16_t green = channel((int16_t)(gray + to_green + (low < low_b)));
        red_green[i] = (uint16_t)(red | (uint16_t)(green << 8));
        blue[i] = channel((int16_t)(gray + to_blue));
    }
    for (int i = 0; i < STEP; i++)
        pixels[i] = red_green[i] | (uint32_t)blue[i] << 16;
}

static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out,
                    uint32_t n)
{
    for (uint32_t i = 0; i < n; i += STEP, out += 3 * STEP) {
        uint32_t pixels[STEP], left = n - i;
        ycc_step(y + i, cb + i, cr + i, pixels);
        if (left >= STEP)
            psti_pli_store_rgb(pixels, STEP, out);
        else
            psti_pli_store_rgb(pixels, left, out);
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
