/* augment_color.c - ColorJitter and Grayscale on a picture in scratch, in place.
 *
 * In and out: HWC samples of 8 or 16 bits. One thread: the run's. The arithmetic is that of
 * torchvision's v2 functions on integer tensors: it works in float and then truncates to an
 * integer, without rounding. Luma is 0.2989 R + 0.587 G + 0.114 B there, truncated too. Only
 * Grayscale takes another luma, PIL's integer BT.601 luma, as the decoder does when it makes gray.
 * Gray pictures (1 or 2 channels) have no saturation and no hue. The last of 2 or 4 channels is
 * alpha and stays as it is. */
#include "augment/augment_int.h"

#include "base/bits.h"

#include <math.h>

static float luma_at(const struct psti_samples *s, size_t pixel)
{
    size_t i = pixel * s->channels;
    if (s->colors == 1)
        return psti_samples_get(s, i);
    float r = psti_samples_get(s, i), g = psti_samples_get(s, i + 1),
          b = psti_samples_get(s, i + 2);
    float sum = r * 0.2989f + g * 0.587f;
    return floorf(sum + b * 0.114f);
}

/* Sets each colour of the pixel to factor * colour + other. */
static void blend_pixel(const struct psti_samples *s, size_t pixel, float factor, float other)
{
    for (uint32_t c = 0; c < s->colors; c++) {
        size_t i = pixel * s->channels + c;
        float value = psti_samples_get(s, i) * factor;
        psti_samples_put(s, i, value + other);
    }
}

/* Sets each colour to factor * colour + other. Of 8 bits there are few colours: a table has the
 * results. */
static void blend(const struct psti_samples *s, float factor, float other)
{
    uint8_t table[3][256];
    if (!s->wide) {
        const struct psti_samples row = {&table[0][0], 256, 1, 1, false, 255.0f};
        for (size_t v = 0; v < 256; v++) {
            float value = (float)v * factor;
            psti_samples_put(&row, v, value + other);
        }
        memcpy(table[1], table[0], 256);
        memcpy(table[2], table[0], 256);
        psti_augment_apply_tables(s, table);
        return;
    }
    for (size_t p = 0; p < s->n_pixels; p++)
        blend_pixel(s, p, factor, other);
}

static void contrast(const struct psti_samples *s, float factor)
{
    uint64_t sum = 0;
    for (size_t p = 0; p < s->n_pixels; p++)
        sum += (uint64_t)luma_at(s, p);
    float mean = (float)((double)sum / (double)s->n_pixels);
    blend(s, factor, mean * (1.0f - factor));
}

static void saturation(const struct psti_samples *s, float factor)
{
    if (s->colors == 1)
        return;
    for (size_t p = 0; p < s->n_pixels; p++)
        blend_pixel(s, p, factor, luma_at(s, p) * (1.0f - factor));
}

/* Returns the hue of a colour in turns (0..1), as torchvision's _rgb_to_hsv does. */
static float hue_of(float r, float g, float b, float high, float range)
{
    float rc = (high - r) / range, gc = (high - g) / range, bc = (high - b) / range;
    float sixths;
    if (high == r)
        sixths = bc - gc;
    else if (high == g)
        sixths = 2.0f + rc - bc;
    else
        sixths = 4.0f + gc - rc;
    float h = sixths * (1.0f / 6.0f) + 1.0f;
    return h - floorf(h);
}

static float clamp01(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

static void rgb_of(float h, float s, float v, float rgb[3])
{
    float h6 = h * 6.0f, i = floorf(h6), f = h6 - i;
    float p = clamp01(v * (1.0f - s));
    float q = clamp01(v * (1.0f - s * f));
    float t = clamp01(v * (1.0f - s * (1.0f - f)));
    const float table[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    memcpy(rgb, table[(int)i % 6], 3 * sizeof rgb[0]);
}

static void hue(const struct psti_samples *s, float shift)
{
    if (s->colors == 1)
        return;
    float scale = s->most + 1.0f - 1e-3f;
    for (size_t p = 0; p < s->n_pixels; p++) {
        size_t at = p * s->channels;
        float r = psti_samples_get(s, at) / s->most, g = psti_samples_get(s, at + 1) / s->most,
              b = psti_samples_get(s, at + 2) / s->most;
        float high = r > g ? r : g, low = r < g ? r : g;
        high = b > high ? b : high;
        low = b < low ? b : low;
        if (high == low)
            continue; /* gray has no hue */
        float range = high - low;
        float turned = hue_of(r, g, b, high, range) + shift;
        turned -= floorf(turned);
        float rgb[3];
        rgb_of(turned, range / high, high, rgb);
        for (uint32_t c = 0; c < 3; c++)
            psti_samples_put(s, at + c, rgb[c] * scale);
    }
}

struct psti_samples psti_augment_samples(const struct psti_run *run,
                                         const struct psti_picture *picture)
{
    const struct psti_chain_output *output = &run->chain->output;
    struct psti_samples s = {
        .data = picture->data,
        .n_pixels = (size_t)picture->height * picture->width,
        .channels = output->channels,
        .colors = output->channels < 3 ? 1 : 3,
        .wide = output->bits == 16,
        .most = output->bits == 16 ? 65535.0f : 255.0f,
    };
    return s;
}

/* Each digit of `order`, in the factorial number system, picks one of the operations left. */
void psti_augment_jitter_order(uint32_t order, uint32_t out[4])
{
    uint32_t left[4] = {0, 1, 2, 3}, divisor[4] = {6, 2, 1, 1};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t pick = order / divisor[i];
        order %= divisor[i];
        out[i] = left[pick];
        for (uint32_t k = pick; k < 3; k++)
            left[k] = left[k + 1];
    }
}

void psti_augment_color_jitter(const struct psti_run *run, const float factors[4], uint32_t order,
                               struct psti_picture *picture)
{
    struct psti_samples s = psti_augment_samples(run, picture);
    uint32_t turns[4];
    psti_augment_jitter_order(order, turns);
    for (uint32_t i = 0; i < 4; i++) {
        float factor = factors[turns[i]];
        if (factor == (turns[i] == 3 ? 0.0f : 1.0f))
            continue;
        if (turns[i] == 0)
            blend(&s, factor, 0);
        else if (turns[i] == 1)
            contrast(&s, factor);
        else if (turns[i] == 2)
            saturation(&s, factor);
        else
            hue(&s, factor);
    }
}

void psti_augment_color_gray(const struct psti_run *run, struct psti_picture *picture)
{
    struct psti_samples s = psti_augment_samples(run, picture);
    if (s.colors == 1)
        return;
    for (size_t p = 0; p < s.n_pixels; p++) {
        size_t i = p * s.channels;
        uint32_t r = (uint32_t)psti_samples_get(&s, i), g = (uint32_t)psti_samples_get(&s, i + 1),
                 b = (uint32_t)psti_samples_get(&s, i + 2);
        uint32_t luma = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
        for (uint32_t c = 0; c < 3; c++)
            psti_samples_put(&s, i + c, (float)luma);
    }
}
