/* pli_model_load.c - decodes the images of a folder and cuts them into the units of a corpus.
 *
 * A file that the library cannot decode is an error, because the corpus must be as the README
 * describes it. */
#include "pli_model.h"

#include <penstock/image.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool complain(const char *path, const char *what)
{
    fprintf(stderr, "pli-model: %s: %s\n", path, what);
    return false;
}

static bool read_file(const char *path, uint8_t **bytes, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return complain(path, "cannot be opened");
    size_t n = 0, capacity = 1 << 20;
    uint8_t *buffer = malloc(capacity);
    while (buffer != NULL) {
        n += fread(buffer + n, 1, capacity - n, file);
        if (n < capacity)
            break;
        capacity *= 2;
        uint8_t *larger = realloc(buffer, capacity);
        if (larger == NULL)
            free(buffer);
        buffer = larger;
    }
    bool good = buffer != NULL && ferror(file) == 0;
    fclose(file);
    if (!good) {
        free(buffer);
        return complain(path, "cannot be read");
    }
    *bytes = buffer;
    *nbytes = n;
    return true;
}

/* Cuts the planes of the unit at (y0, x0): gray, or green subtracted modulo 256 (or 65536). */
static void cut_unit(struct unit *unit, const uint8_t *pixels, const struct pst_image_info *info,
                     uint32_t y0, uint32_t x0)
{
    int n_bytes = info->bits / 8, colours = info->channels >= 3 ? 3 : 1;
    int half = 1 << (info->bits - 1), mask = 2 * half - 1;
    unit->height = (int)(info->height - y0 < EDGE ? info->height - y0 : EDGE);
    unit->width = (int)(info->width - x0 < EDGE ? info->width - x0 : EDGE);
    for (int y = 0; y < unit->height; y++)
        for (int x = 0; x < unit->width; x++) {
            size_t i = ((size_t)(y0 + (uint32_t)y) * info->width + x0 + (uint32_t)x) *
                       info->channels * (size_t)n_bytes;
            int v[3] = {0};
            for (int c = 0; c < colours; c++) {
                const uint8_t *at = pixels + i + (size_t)(c * n_bytes);
                v[c] = n_bytes == 1 ? at[0] : at[0] | at[1] << 8;
            }
            int o = y * EDGE + x;
            unit->planes[0][o] = (uint16_t)(colours == 3 ? v[1] : v[0]);
            unit->planes[1][o] = (uint16_t)((v[0] - v[1] + half) & mask);
            unit->planes[2][o] = (uint16_t)((v[2] - v[1] + half) & mask);
        }
}

static bool add_image(struct corpus *corpus, const uint8_t *pixels,
                      const struct pst_image_info *info, size_t n_units)
{
    uint32_t rows = (info->height + EDGE - 1) / EDGE, columns = (info->width + EDGE - 1) / EDGE;
    size_t all = (size_t)rows * columns, n = all < n_units ? all : n_units;
    struct image *image = &corpus->images[corpus->n_images];
    struct unit *units = realloc(corpus->units, (corpus->n_units + n) * sizeof *units);
    if (units == NULL)
        return false;
    corpus->units = units;
    image->channels = info->channels >= 3 ? 3 : 1;
    image->bits = info->bits;
    image->n_px = (double)info->height * info->width;
    image->n_units = (double)all;
    for (size_t i = 0; i < n; i++) {
        /* Takes one unit of each n-th part, anywhere in it. A constant step would always hit the
         * same columns. */
        size_t first = i * all / n, length = (i + 1) * all / n - first;
        size_t at = first + (i * 2654435761u >> 7) % length;
        struct unit *unit = &corpus->units[corpus->n_units++];
        memset(unit, 0, sizeof *unit);
        unit->image = (uint32_t)corpus->n_images;
        cut_unit(unit, pixels, info, (uint32_t)(at / columns) * EDGE,
                 (uint32_t)(at % columns) * EDGE);
        image->sample_px += (double)unit->height * unit->width;
    }
    corpus->n_images++;
    return true;
}

static bool load_file(struct corpus *corpus, const char *path, size_t n_units)
{
    struct pst_decode_options options = {.struct_size = sizeof options};
    struct pst_image_info info;
    struct pst_error error = {0};
    uint8_t *bytes = NULL, *pixels = NULL;
    size_t nbytes = 0;
    bool good = false;
    if (!read_file(path, &bytes, &nbytes))
        goto out;
    if (pst_image_probe(bytes, nbytes, PST_FORM_NONE, &options, &info, sizeof info, &error) !=
        PST_OK) {
        complain(path, error.text);
        goto out;
    }
    size_t row_nbytes = (size_t)info.width * info.channels * (info.bits / 8u);
    pixels = malloc(row_nbytes * info.height);
    if (pixels == NULL)
        goto out;
    if (pst_image_decode(bytes, nbytes, info.form, &options, pixels, row_nbytes * info.height,
                         row_nbytes, &error) != PST_OK) {
        complain(path, error.text);
        goto out;
    }
    good = add_image(corpus, pixels, &info, n_units);
out:
    free(pixels);
    free(bytes);
    return good;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_file(const struct dirent *entry) { return entry->d_name[0] != '.'; }

bool corpus_load(struct corpus *corpus, const char *folder, size_t n_images, size_t n_units,
                 int leave)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_file, by_name);
    if (n < 0)
        return complain(folder, "cannot be listed");
    size_t n_used = (size_t)n < n_images ? (size_t)n : n_images;
    struct image *images =
        realloc(corpus->images, (corpus->n_images + n_used) * sizeof *corpus->images);
    const char **groups = realloc(corpus->groups, (corpus->n_groups + 1) * sizeof *corpus->groups);
    bool good = (images != NULL || n_used == 0) && groups != NULL;
    if (images != NULL)
        corpus->images = images;
    if (groups != NULL)
        corpus->groups = groups;
    for (size_t i = 0; good && i < n_used; i++) {
        char path[4096];
        struct image *image = &corpus->images[corpus->n_images];
        memset(image, 0, sizeof *image);
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        snprintf(image->name, sizeof image->name, "%s", entries[i]->d_name);
        image->group = (uint32_t)corpus->n_groups;
        image->trains = leave < 0 || (int)(i % 2) != leave;
        good = load_file(corpus, path, n_units);
    }
    if (good)
        corpus->groups[corpus->n_groups++] = folder;
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
    return good;
}
