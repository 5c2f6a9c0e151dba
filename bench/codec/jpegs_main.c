/* jpegs_main.c - compares JPEG files kept as PLI with libjpeg-turbo.
 *
 *     bench_codec_jpeg --data ROOT [--repeats N] [--max-images N] [--json FILE]
 *
 * The files: ROOT/imagenet and ROOT/imagenet_folder as they are, and the photographs of
 * ROOT/clic2025 and ROOT/hrstereo, encoded at quality 90 (4:2:0) and 95 (4:4:4). Both decoders
 * decode whole files and two RandomResizedCrop rectangles of each, without resizing. One core,
 * CPU time, both decoders in turns; medians of the repeats. The CPU level is that of
 * PENSTOCK_CPU_MASK. */
#include "jpegs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_json(FILE *file, const struct jpegs *jpegs, const struct jpegs_result *r,
                     bool is_first)
{
    fprintf(file,
            "%s\n  {\"group\": \"%s\", \"files\": %zu, \"kept\": %zu, \"same_pixels\": %zu, "
            "\"restored\": %zu, \"file_nbytes\": %.0f, \"pli_nbytes\": %.0f, "
            "\"from_jpeg_per_s\": %.1f, \"to_jpeg_per_s\": %.1f, \"peer_whole_per_s\": %.1f, "
            "\"pli_whole_per_s\": %.1f, \"peer_crop_per_s\": %.1f, \"pli_crop_per_s\": %.1f}",
            is_first ? "" : ",", jpegs->name, jpegs->n, r->n_kept, r->n_same_pixels, r->n_restored,
            r->file_nbytes, r->pli_nbytes, (double)jpegs->n / r->from_seconds,
            (double)r->n_kept / r->to_seconds, (double)r->n_kept / r->peer_whole,
            (double)r->n_kept / r->pli_whole, JPEG_DRAWS * (double)r->n_kept / r->peer_crop,
            JPEG_DRAWS * (double)r->n_kept / r->pli_crop);
}

static void put_line(const struct jpegs *jpegs, const struct jpegs_result *r)
{
    printf("%-16s %5zu %6zu %6zu %6zu %7.4f %7.0f %7.0f %8.0f %8.0f %6.2f %8.0f %8.0f %6.2f\n",
           jpegs->name, jpegs->n, r->n_kept, r->n_same_pixels, r->n_restored,
           r->pli_nbytes / r->file_nbytes, (double)jpegs->n / r->from_seconds,
           (double)r->n_kept / r->to_seconds, (double)r->n_kept / r->peer_whole,
           (double)r->n_kept / r->pli_whole, r->peer_whole / r->pli_whole,
           JPEG_DRAWS * (double)r->n_kept / r->peer_crop,
           JPEG_DRAWS * (double)r->n_kept / r->pli_crop, r->peer_crop / r->pli_crop);
    fflush(stdout);
}

/* Loads group i of a folder. A folder that has none of the known groups is one group: all JPEGs in
 * it. Returns false if there are no more groups. */
static bool load(struct jpegs *jpegs, size_t i, const char *data, size_t max)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/imagenet", data);
    if (access(path, F_OK) != 0) {
        if (i == 0)
            jpegs_find(jpegs, data, NULL, max);
        return i == 0;
    }
    switch (i) {
    case 0:
        jpegs_find(jpegs, data, "imagenet", max);
        return true;
    case 1:
        jpegs_find(jpegs, data, "imagenet_folder", max);
        return true;
    case 2:
        jpegs_make(jpegs, "photographs_420", data, 90, true, max);
        return true;
    case 3:
        jpegs_make(jpegs, "photographs_444", data, 95, false, max);
        return true;
    default:
        return false;
    }
}

static void measure_all(const char *data, const struct settings *settings, FILE *file)
{
    struct jpegs jpegs;
    printf("%-16s %5s %6s %6s %6s %7s %7s %7s %8s %8s %6s %8s %8s %6s\n", "group", "files", "kept",
           "same", "back", "bytes", "from/s", "to/s", "whole/s", "pli/s", "x", "crop/s", "pli/s",
           "x");
    for (size_t i = 0; load(&jpegs, i, data, settings->max_images); i++) {
        struct jpegs_result result = {0};
        jpegs_measure(&jpegs, settings, &result);
        put_line(&jpegs, &result);
        if (file)
            put_json(file, &jpegs, &result, i == 0);
        jpegs_free(&jpegs);
    }
}

int main(int argc, char **argv)
{
    const char *data = NULL, *json = NULL;
    struct settings settings = {.repeats = 5};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--data") == 0)
            data = argv[i + 1];
        else if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else if (strcmp(argv[i], "--repeats") == 0)
            settings.repeats = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--max-images") == 0)
            settings.max_images = strtoul(argv[i + 1], NULL, 10);
    }
    if (!data || argc % 2 == 0 || settings.repeats < 1 || settings.repeats > 64) {
        fputs("bench_codec_jpeg --data ROOT [--repeats N] [--max-images N] [--json FILE]\n",
              stderr);
        return 2;
    }
    FILE *file = json ? fopen(json, "w") : NULL;
    if (json && !file)
        die(json, "cannot be written");
    pin_to_core(0);
    if (file)
        fprintf(file, "{\"bench\": \"codec_jpeg\", \"results\": [");
    measure_all(data, &settings, file);
    if (file) {
        fprintf(file, "]}\n");
        fclose(file);
    }
    return 0;
}
