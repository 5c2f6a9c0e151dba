/* augment_tone.c - operations that map each channel's values: invert, posterize, solarize,
 * autocontrast and equalize.
 *
 * In and out: HWC samples of 8 or 16 bits, in place. It runs on the thread of the run. The results
 * are those of torchvision's v2 functions on integer tensors. Equalize is PIL's, with 256 levels
 * for 16 bits too. The last of 2 or 4 channels is alpha and is not changed. */
#include "augment/augment_int.h"

void psti_augment_apply_tables(const struct psti_samples *s, const uint8_t table[3][256])
{
    uint8_t *at = s->data;
    if (s->channels == 3) {
        for (size_t p = 0; p < s->n_pixels; p++, at += 3) {
            at[0] = table[0][at[0]];
            at[1] = table[1][at[1]];
            at[2] = table[2][at[2]];
        }
        return;
    }
    for (size_t p = 0; p < s->n_pixels; p++, at += s->channels) {
        for (uint32_t c = 0; c < s->colors; c++)
            at[c] = table[c][at[c]];
    }
}

static void apply_table(const struct psti_samples *s, uint8_t table[3][256])
{
    memcpy(table[1], table[0], 256);
    memcpy(table[2], table[0], 256);
    psti_augment_apply_tables(s, (const uint8_t(*)[256])table);
}

/* Changes each 16-bit colour that is at least `least` to ((colour ^ flip) & mask). */
static void change_wide(const struct psti_samples *s, float least, uint16_t flip, uint16_t mask)
{
    for (size_t p = 0; p < s->n_pixels; p++) {
        for (uint32_t c = 0; c < s->colors; c++) {
            unsigned char *at = s->data + 2 * (p * s->channels + c);
            uint16_t v = psti_load_u16(at);
            if ((float)v >= least)
                psti_store_u16(at, (uint16_t)((v ^ flip) & mask));
        }
    }
}

/* Does what change_wide does, for samples of 8 or 16 bits. */
static void change(const struct psti_samples *s, float least, uint16_t flip, uint16_t mask)
{
    uint8_t table[3][256];
    if (s->wide) {
        change_wide(s, least, flip, mask);
        return;
    }
    for (uint32_t v = 0; v < 256; v++)
        table[0][v] = (uint8_t)((float)v >= least ? (v ^ flip) & mask : v);
    apply_table(s, table);
}

void psti_augment_invert(const struct psti_samples *s) { change(s, 0, 0xffff, 0xffff); }

void psti_augment_solarize(const struct psti_samples *s, float threshold)
{
    change(s, s->wide ? threshold * 257 : threshold, 0xffff, 0xffff);
}

void psti_augment_posterize(const struct psti_samples *s, uint32_t bits)
{
    uint32_t all = s->wide ? 16 : 8;
    if (bits >= all)
        return;
    change(s, 0, 0, (uint16_t)(((1u << bits) - 1) << (all - bits)));
}

/* Counts the samples of each channel by value. 16-bit samples are counted by their high byte. */
static void count(const struct psti_samples *s, uint32_t histogram[3][256])
{
    const unsigned char *at = s->data + (s->wide ? 1 : 0);
    size_t sample = s->wide ? 2 : 1, pixel = s->channels * sample;
    memset(histogram, 0, 3 * sizeof histogram[0]);
    if (s->colors == 1) {
        for (size_t p = 0; p < s->n_pixels; p++, at += pixel)
            histogram[0][at[0]]++;
        return;
    }
    for (size_t p = 0; p < s->n_pixels; p++, at += pixel) {
        histogram[0][at[0]]++;
        histogram[1][at[sample]]++;
        histogram[2][at[2 * sample]]++;
    }
}

/* Returns a sample after autocontrast. The channel's values go from `low` to `high`. */
static float stretched(const struct psti_samples *s, float v, float low, float high)
{
    float inverse = (high - low) * (1.0f / s->most);
    return (v - low) / inverse;
}

static void stretch_wide(const struct psti_samples *s, uint32_t channel)
{
    float low = s->most, high = 0;
    for (size_t p = 0; p < s->n_pixels; p++) {
        float v = psti_samples_get(s, p * s->channels + channel);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    for (size_t p = 0; low < high && p < s->n_pixels; p++) {
        size_t i = p * s->channels + channel;
        psti_samples_put(s, i, stretched(s, psti_samples_get(s, i), low, high));
    }
}

/* Fills the table that applies autocontrast to 8-bit samples. */
static void stretch_table(const struct psti_samples *s, const uint32_t histogram[256],
                          uint8_t table[256])
{
    const struct psti_samples row = {table, 256, 1, 1, false, 255.0f};
    uint32_t low = 0, high = 255;
    while (low < 255 && histogram[low] == 0)
        low++;
    while (high > 0 && histogram[high] == 0)
        high--;
    for (size_t v = 0; v < 256; v++)
        psti_samples_put(&row, v,
                         low < high ? stretched(s, (float)v, (float)low, (float)high) : (float)v);
}

void psti_augment_autocontrast(const struct psti_samples *s)
{
    uint32_t histogram[3][256];
    uint8_t table[3][256] = {{0}};
    for (uint32_t c = 0; s->wide && c < s->colors; c++)
        stretch_wide(s, c);
    if (s->wide)
        return;
    count(s, histogram);
    for (uint32_t c = 0; c < s->colors; c++)
        stretch_table(s, histogram[c], table[c]);
    psti_augment_apply_tables(s, (const uint8_t(*)[256])table);
}

/* Fills the table that equalizes a histogram. `step` is the number of pixels per output level, not
 * counting those of the highest value. With fewer pixels than levels the picture stays
 * unchanged. */
static void level(const uint32_t histogram[256], size_t n_pixels, uint8_t table[256])
{
    uint32_t highest = 255;
    while (highest > 0 && histogram[highest] == 0)
        highest--;
    size_t step = (n_pixels - histogram[highest]) / 255, sum = step / 2;
    for (uint32_t v = 0; v < 256; v++) {
        size_t to = step == 0 ? v : sum / step;
        table[v] = (uint8_t)(to > 255 ? 255 : to);
        sum += histogram[v];
    }
}

void psti_augment_equalize(const struct psti_samples *s)
{
    uint32_t histogram[3][256];
    uint8_t table[3][256] = {{0}};
    count(s, histogram);
    for (uint32_t c = 0; c < s->colors; c++)
        level(histogram[c], s->n_pixels, table[c]);
    if (!s->wide) {
        psti_augment_apply_tables(s, (const uint8_t(*)[256])table);
        return;
    }
    for (size_t p = 0; p < s->n_pixels; p++) {
        for (uint32_t c = 0; c < s->colors; c++) {
            unsigned char *at = s->data + 2 * (p * s->channels + c);
            psti_store_u16(at, (uint16_t)(table[c][at[1]] * 257u));
        }
    }
}
