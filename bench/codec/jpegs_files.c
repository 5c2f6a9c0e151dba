/* jpegs_files.c - JPEG files from folders, or made from photographs. One thread; ends the
 * program on any error. */
#include "jpegs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static bool is_jpeg(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static struct jpeg *add(struct jpegs *jpegs, const char *name)
{
    struct jpeg *more = realloc(jpegs->files, (jpegs->n + 1) * sizeof *more);
    if (!more)
        die("memory", "none left");
    jpegs->files = more;
    more += jpegs->n++;
    *more = (struct jpeg){.name = strdup(name)};
    return more;
}

/* Adds the JPEGs of a folder and of all folders below it. */
static void find(struct jpegs *jpegs, const char *folder, size_t max)
{
    struct dirent **names;
    int n = scandir(folder, &names, is_visible, alphasort);
    if (n < 0)
        die(folder, "cannot be read");
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (is_folder(path))
            find(jpegs, path, max);
        else if (is_jpeg(names[i]->d_name) && (max == 0 || jpegs->n < max))
            file_load(path, &add(jpegs, names[i]->d_name)->file);
        free(names[i]);
    }
    free(names);
}

/* Sets the sizes of the images, and draws their rectangles, which are the same in every run. */
static void complete(struct jpegs *jpegs)
{
    static const struct crop_case what = {.op = PST_OP_RANDOM_RESIZED_CROP, .size = 224};
    struct peer *peer = peer_open();
    uint64_t random = 1;
    for (size_t i = 0; i < jpegs->n; i++) {
        struct jpeg *jpeg = &jpegs->files[i];
        peer_size(peer, jpeg);
        const struct image size = {.height = jpeg->height, .width = jpeg->width};
        for (int k = 0; k < JPEG_DRAWS; k++)
            jpeg->regions[k] = crop_draw(&random, &what, &size);
        /* libjpeg rounds crops up to its block size, so a buffer has space for more columns. */
        size_t nbytes = (size_t)(jpeg->width + 64) * jpeg->height * 3;
        if (nbytes > jpegs->pixels_nbytes)
            jpegs->pixels_nbytes = nbytes;
    }
    peer_close(peer);
}

void jpegs_find(struct jpegs *jpegs, const char *root, const char *folder, size_t max)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, folder ? folder : "");
    *jpegs = (struct jpegs){.name = folder ? folder : "files"};
    find(jpegs, path, max);
    if (jpegs->n == 0)
        die(path, "no JPEG files there");
    complete(jpegs);
}

void jpegs_make(struct jpegs *jpegs, const char *name, const char *root, int quality,
                bool subsampled, size_t max)
{
    static const char *const folders[] = {"clic2025", "hrstereo"};
    *jpegs = (struct jpegs){.name = name};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        struct group group;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", root, folders[f]);
        group_load(&group, path, max);
        for (size_t i = 0; i < group.n; i++)
            peer_encode(&group.images[i], quality, subsampled,
                        &add(jpegs, group.images[i].name)->file);
        group_free(&group);
    }
    complete(jpegs);
}

void jpegs_free(struct jpegs *jpegs)
{
    for (size_t i = 0; i < jpegs->n; i++) {
        free(jpegs->files[i].name);
        bytes_free(&jpegs->files[i].file);
        bytes_free(&jpegs->files[i].pli);
    }
    free(jpegs->files);
}
