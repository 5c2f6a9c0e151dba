/* crops_main.c - the cost of a crop: PLI decoded in parts against whole images.
 *
 *     bench_codec_crops --data ROOT [--seconds S] [--repeats N] [--json FILE]
 *
 * RandomCrop(768) of cityscapes and RandomResizedCrop(224) of imagenet, each measured twice. By the
 * codec alone: pst_pli_decode decodes rectangles drawn by the same rules, and whole images. Through
 * the loader: the group is a data set of PLI in memory, decoded in the calling thread, and the
 * loader's counters give the number of decoded units. RandomResizedCrop through the loader also
 * resizes; whole images are not resized. Figures are CPU time of this thread; whole images and
 * parts take turns. */
#include "codec.h"
#include "crops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct crop_case cases[] = {
    {"RandomCrop 768x768", "cityscapes", PST_OP_RANDOM_CROP, 768},
    {"RandomResizedCrop 224", "imagenet", PST_OP_RANDOM_RESIZED_CROP, 224}};
static const struct crop_tier tiers[] = {{"pli_fast", PST_PLI_TIER_FAST},
                                         {"pli_small", PST_PLI_TIER_SMALL},
                                         {"pli_dense", PST_PLI_TIER_DENSE}};

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
