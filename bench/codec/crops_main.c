/* crops_main.c - what a crop costs: PLI decoded in pieces against whole images.
 *
 *     bench_codec_crops --data ROOT [--seconds S] [--repeats N] [--json FILE]
 *
 * RandomCrop(768) of cityscapes and RandomResizedCrop(224) of imagenet, each measured twice. By the
 * codec alone: rectangles drawn by the same rules, pst_pli_decode of the rectangle against the
 * whole. Through the loader: the group as a data set of PLI in memory, in the calling thread; its
 * counters say how many units it decoded (RandomResizedCrop pays for its resizing there, so that
 * its speed-up through the loader says little). CPU time of this thread; whole and pieces take
 * turns. */
#include "codec.h"
#include "crops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct crop_case cases[] = {
    {"RandomCrop 768x768", "cityscapes", PST_OP_RANDOM_CROP, 768},
    {"RandomResizedCrop 224", "imagenet", PST_OP_RANDOM_RESIZED_CROP, 224}};
static const struct crop_tier tiers[] = {{"pli_fast", PST_PLI_TIER_FAST},
                                         {"pli_small", PST_PLI_TIER_SMALL},
                                         {"pli_dense", PST_PLI_TIER_DENSE}};

/* SplitMix64: the same draws in every run. */
static double uniform(uint64_t *state, double low, double high)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return low + (high - low) * ((double)(x >> 11) * 0x1p-53);
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    uint32_t i = (uint32_t)uniform(state, 0, n);
    return i < n ? i : n - 1;
}

static struct pst_pli_region place(uint64_t *random, const struct image *image, uint32_t height,
                                   uint32_t width)
{
    return (struct pst_pli_region){.y = below(random, image->height - height + 1),
                                   .x = below(random, image->width - width + 1),
                                   .height = height,
                                   .width = width};
}

/* The rule of torchvision: ten tries, then the largest centred crop of an allowed ratio. */
static struct pst_pli_region draw_resized(uint64_t *random, const struct image *image)
{
    const double area = (double)image->height * image->width, low = 3.0 / 4, high = 4.0 / 3;
    for (int i = 0; i < 10; i++) {
        double target = area * uniform(random, 0.08, 1);
        double ratio = exp(uniform(random, log(low), log(high)));
        uint32_t width = (uint32_t)lround(sqrt(target * ratio));
        uint32_t height = (uint32_t)lround(sqrt(target / ratio));
        if (width > 0 && height > 0 && width <= image->width && height <= image->height)
            return place(random, image, height, width);
    }
    double ratio = (double)image->width / image->height;
    uint32_t height = image->height, width = image->width;
    if (ratio < low)
        height = (uint32_t)lround(width / low);
    else if (ratio > high)
        width = (uint32_t)lround(height * high);
    return (struct pst_pli_region){(image->height - height) / 2, (image->width - width) / 2, height,
                                   width};
}

struct pst_pli_region crop_draw(uint64_t *random, const struct crop_case *what,
                                const struct image *image)
{
    if (what->op == PST_OP_RANDOM_RESIZED_CROP)
        return draw_resized(random, image);
    if (image->height < what->size || image->width < what->size)
        die(image->name, "smaller than the crop");
    return place(random, image, what->size, what->size);
}

static void put_json(FILE *file, const struct crop_case *what, const struct crop_tier *tier,
                     const struct crop_result *r, bool is_first)
{
    fprintf(file,
            "%s\n  {\"what\": \"%s\", \"group\": \"%s\", \"tier\": \"%s\", \"images\": %zu, "
            "\"pixel_share\": %.4f, \"units_touched\": %.3f, \"units\": %.3f, "
            "\"units_whole\": %.3f, \"speedup\": %.3f, \"speedup_loader\": %.3f, "
            "\"whole_us\": %.1f, \"crop_us\": %.1f}",
            is_first ? "" : ",", what->name, what->group, tier->name, r->n_images, r->pixel_share,
            r->units_touched, r->units, r->units_whole, r->whole_seconds / r->crop_seconds,
            r->loader_whole_seconds / r->loader_crop_seconds, 1e6 * r->whole_seconds,
            1e6 * r->crop_seconds);
}

static void put_line(const struct crop_case *what, const struct crop_tier *tier,
                     const struct crop_result *r)
{
    printf("%-22s %-10s %7.3f %7.3f %7.3f %9.2f %9.2f %9.2f\n", what->name, tier->name,
           r->pixel_share, r->units_touched / r->units_whole, r->units / r->units_whole,
           r->units_whole / r->units_touched, r->whole_seconds / r->crop_seconds,
           r->loader_whole_seconds / r->loader_crop_seconds);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *data = NULL, *json = NULL;
    struct settings settings = {.seconds = 0.3, .repeats = 3};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--data") == 0)
            data = argv[i + 1];
        else if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else if (strcmp(argv[i], "--seconds") == 0)
            settings.seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--repeats") == 0)
            settings.repeats = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    }
    if (!data || argc % 2 == 0 || settings.repeats < 1 || settings.repeats > 64) {
        fputs("bench_codec_crops --data ROOT [--seconds S] [--repeats N] [--json FILE]\n", stderr);
        return 2;
    }
    FILE *file = json ? fopen(json, "w") : NULL;
    if (json && !file)
        die(json, "cannot be written");
    pin_to_core(0);
    printf("%-22s %-10s %7s %7s %7s %9s %9s %9s\n", "", "", "share", "units", "units", "speed-up",
           "speed-up", "speed-up");
    printf("%-22s %-10s %7s %7s %7s %9s %9s %9s\n", "crop", "tier", "pixels", "touched", "decoded",
           "by units", "codec", "loader");
    if (file)
        fprintf(file, "{\"bench\": \"codec_crops\", \"results\": [");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct group group;
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/%s", data, cases[c].group);
        group_load(&group, folder, 0);
        for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
            struct crop_result result = {0};
            crop_measure(&cases[c], &tiers[t], &group, &settings, &result);
            put_line(&cases[c], &tiers[t], &result);
            if (file)
                put_json(file, &cases[c], &tiers[t], &result, c == 0 && t == 0);
        }
        group_free(&group);
    }
    if (file) {
        fprintf(file, "]}\n");
        fclose(file);
    }
    return 0;
}
