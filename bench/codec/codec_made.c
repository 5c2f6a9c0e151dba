/* codec_made.c - groups of generated images, for runs without photographs (tests).
 *
 * They cover all numbers of channels and both bit depths: smooth pictures with noise, and label
 * maps of few values. Heights and widths are not multiples of block sizes, and one image is a
 * single pixel. The images are the same in every run. */
#include "codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct made {
    const char *name;
    uint8_t channels, bits;
    bool is_labels;
} made[] = {{"made_rgb", 3, 8, false},        {"made_rgba", 4, 8, false},
            {"made_gray8", 1, 8, false},      {"made_gray_alpha16", 2, 16, false},
            {"made_gray16", 1, 16, false},    {"made_labels8", 1, 8, true},
            {"made_instances16", 1, 16, true}};

/* Makes one sample: a gradient in each direction, which is less steep in later channels, plus noise
 * of a few levels. */
static uint32_t smooth(uint32_t y, uint32_t x, uint32_t c, uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return (y * (3 + c) + x * 2) / (1 + c) + (*random >> 29);
}

static uint32_t label(uint32_t y, uint32_t x)
{
    return (x / 23 + y / 17) % 5 * 7 + (x > y ? 1000 : 0);
}

static void fill(struct image *image, const struct made *kind)
{
    uint32_t random = image->width * 31 + kind->channels;
    uint8_t *to = image->pixels;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < image->channels; c++) {
                uint32_t value = kind->is_labels ? label(y, x) : smooth(y, x, c, &random);
                uint16_t wide = (uint16_t)(kind->is_labels ? value : value * 37);
                if (image->bits == 8)
                    *to = (uint8_t)value;
                else
                    memcpy(to, &wide, 2);
                to += image->bits / 8;
            }
}

bool group_make(struct group *group, size_t i, size_t max_images)
{
    static const uint16_t sides[][2] = {{131, 197}, {64, 64}, {1, 1}, {65, 300}};
    const size_t n_sides = sizeof sides / sizeof *sides;
    if (i >= sizeof made / sizeof *made)
        return false;
    *group = (struct group){.name = strdup(made[i].name),
                            .images = claim(n_sides * sizeof *group->images),
                            .n = max_images && max_images < n_sides ? max_images : n_sides};
    for (size_t k = 0; k < group->n; k++) {
        struct image *image = &group->images[k];
        char name[32];
        snprintf(name, sizeof name, "%ux%u", sides[k][1], sides[k][0]);
        *image = (struct image){.name = strdup(name),
                                .height = sides[k][0],
                                .width = sides[k][1],
                                .channels = made[i].channels,
                                .bits = made[i].bits};
        image->row_nbytes = (size_t)image->width * image->channels * (image->bits / 8u);
        image->nbytes = image->row_nbytes * image->height;
        image->pixels = claim(image->nbytes + CODEC_SLACK_NBYTES);
        fill(image, &made[i]);
        group_count(group, image);
    }
    return true;
}
