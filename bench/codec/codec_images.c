/* codec_images.c - groups of images from folders: file names in, pixels out.
 *
 * <penstock/image.h> decodes every file to its own channels and bits. Alpha that is opaque
 * throughout, as in screenshots, is removed: a codec that drops it would seem better than others.
 * Files without an image's suffix are skipped. One thread. Any error ends the program, because
 * figures for a part of a group would be misleading. */
#include "codec.h"

#include <penstock/image.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int is_image(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && entry->d_name[0] != '.' &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
            strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".webp") == 0);
}

void file_load(const char *path, struct bytes *out)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        die(path, "cannot be read");
    long size = ftell(file);
    rewind(file);
    out->nbytes = 0;
    bytes_reserve(out, size > 0 ? (size_t)size : 1);
    if (size <= 0 || fread(out->at, 1, (size_t)size, file) != (size_t)size)
        die(path, "cannot be read");
    out->nbytes = (size_t)size;
    fclose(file);
}

static void decode_file(const char *path, const struct bytes *file, struct image *image)
{
    struct pst_error err;
    struct pst_image_info info;
    const struct pst_decode_options options = {.struct_size = sizeof options};
    if (pst_image_probe(file->at, file->nbytes, PST_FORM_NONE, &options, &info, sizeof info,
                        &err) != PST_OK)
        die(path, err.text);
    image->height = info.height;
    image->width = info.width;
    image->channels = info.channels;
    image->bits = info.bits;
    image->row_nbytes = (size_t)info.width * info.channels * (info.bits / 8u);
    image->nbytes = image->row_nbytes * info.height;
    image->pixels = claim(image->nbytes + CODEC_SLACK_NBYTES);
    if (pst_image_decode(file->at, file->nbytes, info.form, &options, image->pixels, image->nbytes,
                         image->row_nbytes, &err) != PST_OK)
        die(path, err.text);
}

static bool is_opaque(const struct image *image)
{
    const size_t n = (size_t)image->width * image->height, step = image->channels;
    for (size_t i = 0; i < n; i++)
        if (image->pixels[i * step + step - 1] != 255)
            return false;
    return true;
}

/* Removes an alpha channel that is opaque everywhere. Works in place: each pixel moves to a lower
 * address or stays. */
static void drop_opaque_alpha(struct image *image)
{
    if (image->channels % 2 != 0 || image->bits != 8 || !is_opaque(image))
        return;
    const size_t n = (size_t)image->width * image->height, step = image->channels;
    for (size_t i = 0; i < n; i++)
        memmove(image->pixels + i * (step - 1), image->pixels + i * step, step - 1);
    image->channels--;
    image->row_nbytes = (size_t)image->width * image->channels;
    image->nbytes = image->row_nbytes * image->height;
}

void group_count(struct group *group, const struct image *image)
{
    group->pixel_count += (size_t)image->width * image->height;
    group->nbytes += image->nbytes;
    if (image->nbytes > group->largest_nbytes)
        group->largest_nbytes = image->nbytes;
}

bool group_is_there(const char *directory)
{
    struct dirent **names;
    int n = scandir(directory, &names, is_image, alphasort);
    for (int i = 0; i < n; i++)
        free(names[i]);
    if (n >= 0)
        free(names);
    return n > 0;
}

void group_load(struct group *group, const char *directory, size_t max_images)
{
    struct dirent **names;
    struct bytes file = {0};
    int n = scandir(directory, &names, is_image, alphasort);
    if (n <= 0)
        die(directory, "no images there");
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && directory[begin - 1] != '/')
        begin--;
    *group = (struct group){.name = strndup(directory + begin, end - begin),
                            .images = claim((size_t)n * sizeof *group->images)};
    for (int i = 0; i < n; i++) {
        char path[4096];
        if (max_images == 0 || group->n < max_images) {
            struct image *image = &group->images[group->n++];
            snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
            file_load(path, &file);
            decode_file(path, &file, image);
            drop_opaque_alpha(image);
            image->name = strdup(names[i]->d_name);
            group_count(group, image);
        }
        free(names[i]);
    }
    free(names);
    bytes_free(&file);
}

void group_free(struct group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        free(group->images[i].name);
        free(group->images[i].pixels);
    }
    free(group->images);
    free(group->name);
}
