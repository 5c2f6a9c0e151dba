/* augment_colors_c.c - the loops of ColorJitter in plain C, the reference for the other CPU levels.
 *
 * In and out: see augment_kernels.h. Pure functions, any thread. The arithmetic is that of
 * torchvision's v2 functions, in the same order. */
#include "augment/kernels/augment_kernels.h"

#include <math.h>
#include <string.h>

/* Clamps a value to 0..most, then truncates it to an integer. */
static float cut(float v, float most)
{
    v = v < 0 ? 0 : v;
    v = v > most ? most : v;
    return (float)(int32_t)v;
}

static float luma_at(const struct psti_colors *c, uint32_t i)
{
    float sum = c->v[0][i] * 0.2989f + c->v[1][i] * 0.587f;
    return (float)(int32_t)(sum + c->v[2][i] * 0.114f);
}

void psti_augment_colors_load_c(struct psti_colors *to, const uint8_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to->v[0][i] = from[3 * i];
        to->v[1][i] = from[3 * i + 1];
        to->v[2][i] = from[3 * i + 2];
    }
}

void psti_augment_colors_store_c(uint8_t *to, const struct psti_colors *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[3 * i] = (uint8_t)from->v[0][i];
        to[3 * i + 1] = (uint8_t)from->v[1][i];
        to[3 * i + 2] = (uint8_t)from->v[2][i];
    }
}

void psti_augment_colors_blend_c(float *plane, uint32_t n, float factor, float other, float most)
{
    for (uint32_t i = 0; i < n; i++) {
        float value = plane[i] * factor;
        plane[i] = cut(value + other, most);
    }
}

void psti_augment_colors_saturate_c(struct psti_colors *colors, uint32_t n, float factor,
                                    float most)
{
    const float rest = 1.0f - factor;
    for (uint32_t i = 0; i < n; i++) {
        float gray = luma_at(colors, i) * rest;
        for (uint32_t c = 0; c < 3; c++) {
            float value = colors->v[c][i] * factor;
            colors->v[c][i] = cut(value + gray, most);
        }
    }
}

uint64_t psti_augment_colors_luma_c(const struct psti_colors *colors, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (uint32_t)luma_at(colors, i);
    return sum;
}

/* Returns the hue of a colour as a fraction of the colour circle (0..1), like torchvision's
 * _rgb_to_hsv. */
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

void psti_augment_colors_turn_c(struct psti_colors *colors, uint32_t n, float shift, float most)
{
    const float scale = most + 1.0f - 1e-3f;
    for (uint32_t i = 0; i < n; i++) {
        float r = colors->v[0][i] / most, g = colors->v[1][i] / most, b = colors->v[2][i] / most;
        float high = r > g ? r : g, low = r < g ? r : g;
        high = b > high ? b : high;
        low = b < low ? b : low;
        if (high == low)
            continue; /* a gray pixel has no hue */
        float range = high - low;
        float turned = hue_of(r, g, b, high, range) + shift;
        turned -= floorf(turned);
        float rgb[3];
        rgb_of(turned, range / high, high, rgb);
        for (uint32_t c = 0; c < 3; c++)
            colors->v[c][i] = cut(rgb[c] * scale, most);
    }
}
