/* dataset_folder_pairs.c - a plain folder whose images and masks lie in separate subfolders.
 *
 *     images/a.jpg  images/b/c.png        one folder of images
 *     masks/a.png   masks/b/c_mask.png    and one or more of masks
 *
 * An image and a mask belong together if their paths within these subfolders are equal, without the
 * extensions and without a "_mask" at the end of the mask's name. Each folder of masks becomes a
 * field.
 *
 * Cityscapes has the same layout, with special endings of file names:
 *
 *     leftImg8bit/train/aachen/aachen_000000_000019_leftImg8bit.png
 *     gtFine/train/aachen/aachen_000000_000019_gtFine_labelIds.png       field "mask"
 *     gtFine/train/aachen/aachen_000000_000019_gtFine_instanceIds.png    field "instances"
 *     gtFine/train/aachen/aachen_000000_000019_gtFine_labelTrainIds.png  field "mask_train"
 *
 * Runs once, at open, in one thread. */
#include "dataset/folder/dataset_folder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"
#include "format/format_dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const image_folders[] = {"images", "image", "imgs", "img"};

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

/* Makes a field's name of a folder's name: "masks" -> "mask", "masks_x" and "mask_x" -> "mask_x",
 * "x_masks" and "x_mask" -> "x_mask". False: it is no folder of masks. */
static bool mask_field(const char *name, char field[64])
{
    size_t n = strlen(name);
    int length = -1;
    if (strcmp(name, "masks") == 0 || strcmp(name, "mask") == 0)
        length = snprintf(field, 64, "mask");
    else if (strncmp(name, "masks_", 6) == 0 && n > 6)
        length = snprintf(field, 64, "mask_%s", name + 6);
    else if (strncmp(name, "mask_", 5) == 0 && n > 5)
        length = snprintf(field, 64, "%s", name);
    else if (n > 6 && strcmp(name + n - 6, "_masks") == 0)
        length = snprintf(field, 64, "%.*s", (int)(n - 1), name);
    else if (n > 5 && strcmp(name + n - 5, "_mask") == 0)
        length = snprintf(field, 64, "%s", name);
    return length > 0 && length < 64 && psti_format_field_name_problem(field, 64) == NULL;
}

bool psti_dataset_folder_layout_take(struct psti_folder_layout *layout, const char *name)
{
    char field[64];
    if (layout->images[0] == '\0' &&
        is_one_of(name, image_folders, sizeof image_folders / sizeof *image_folders)) {
        snprintf(layout->images, sizeof layout->images, "%s/", name);
        return true;
    }
    if (layout->n == PST_MAX_FIELDS - 1 || !mask_field(name, field))
        return false;
    for (uint32_t i = 0; i < layout->n; i++)
        if (strcmp(layout->masks[i].field, field) == 0)
            return false;
    snprintf(layout->masks[layout->n].folder, sizeof layout->masks[0].folder, "%s/", name);
    memcpy(layout->masks[layout->n++].field, field, sizeof field);
    return true;
}

void psti_dataset_folder_layout_cityscapes(struct psti_folder_layout *layout)
{
    static const char *const masks[][2] = {
        {"mask", "_gtFine_labelIds"},
        {"instances", "_gtFine_instanceIds"},
        {"mask_train", "_gtFine_labelTrainIds"},
    };
    memset(layout, 0, sizeof *layout);
    layout->is_cityscapes = true;
    layout->image_end = "_leftImg8bit";
    snprintf(layout->images, sizeof layout->images, "leftImg8bit/");
    for (; layout->n < sizeof masks / sizeof *masks; layout->n++) {
        snprintf(layout->masks[layout->n].folder, sizeof layout->masks[0].folder, "gtFine/");
        snprintf(layout->masks[layout->n].field, sizeof layout->masks[0].field, "%s",
                 masks[layout->n][0]);
        layout->masks[layout->n].end = masks[layout->n][1];
    }
}

/* The part of a path that an image and its mask have in common: without the folder (the first
 * `skip` bytes), without the extension, and without the ending `end` before it (NULL: none). */
struct stem {
    const char *text;
    size_t n;
};

/* True if the path has the ending `end` before its extension. */
static bool has_end(const char *path, const char *end)
{
    size_t n = (size_t)(strrchr(path, '.') - path); /* image names have an extension, so strrchr
                                                     * finds a dot */
    size_t n_end = end == NULL ? 0 : strlen(end);
    return n_end == 0 || (n >= n_end && memcmp(path + n - n_end, end, n_end) == 0);
}

static struct stem stem_of(const struct psti_dataset_files *files, size_t i, size_t skip,
                           const char *end)
{
    const char *text = psti_dataset_files_name(files, i) + skip;
    size_t n = (size_t)(strrchr(text, '.') - text);
    if (end != NULL && has_end(text, end))
        n -= strlen(end);
    return (struct stem){text, n};
}

static int compare_stems(struct stem a, struct stem b)
{
    int order = memcmp(a.text, b.text, a.n < b.n ? a.n : b.n);
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

/* Masks in one folder, for finding a mask by the stem of its image's path. */
struct masks {
    struct psti_dataset_files files;
    size_t skip;     /* bytes of the folder's name at the start of each path */
    const char *end; /* ending of this field's mask names; NULL: all files in the folder are masks
                      * of it */
    uint32_t *order; /* [n] by stem */
    size_t n;
    bool *used; /* [files.n] */
};

static bool mask_less(const void *ctx, uint32_t a, uint32_t b)
{
    const struct masks *masks = ctx;
    return compare_stems(stem_of(&masks->files, a, masks->skip, masks->end),
                         stem_of(&masks->files, b, masks->skip, masks->end)) < 0;
}

/* Returns the number of the mask with that stem; files.n: there is none. */
static size_t find_mask(const struct masks *masks, struct stem stem)
{
    size_t low = 0, high = masks->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct stem found = stem_of(&masks->files, masks->order[middle], masks->skip, masks->end);
        int order = compare_stems(found, stem);
        if (order == 0)
            return masks->order[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return masks->files.n;
}

static size_t mask_of_image(const struct masks *masks, struct stem stem)
{
    static const char suffix[] = "_mask";
    char text[PSTI_DATASET_FOLDER_NAME_CAP];
    size_t i = find_mask(masks, stem);
    if (i < masks->files.n || stem.n + sizeof suffix > sizeof text)
        return i;
    memcpy(text, stem.text, stem.n);
    memcpy(text + stem.n, suffix, sizeof suffix - 1);
    return find_mask(masks, (struct stem){text, stem.n + sizeof suffix - 1});
}

static void close_masks(struct masks *masks)
{
    psti_dataset_files_free(&masks->files);
    psti_free(masks->order);
    psti_free(masks->used);
}

static enum pst_status open_masks(struct psti_folder *folder, const char *below,
                                  struct masks *masks, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (masks->skip == 0) /* fields with the same folder share the list of its files */
        status = psti_dataset_folder_list(folder, below, &masks->files, err);
    if (status != PST_OK)
        return status;
    masks->skip = strlen(below);
    masks->n = 0;
    size_t n = masks->files.n;
    masks->order = psti_alloc_array(n + 1, sizeof *masks->order);
    masks->used = psti_calloc(n + 1, sizeof *masks->used);
    if (masks->order == NULL || masks->used == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu masks", n);
    for (size_t i = 0; i < n; i++)
        if (has_end(psti_dataset_files_name(&masks->files, i), masks->end))
            masks->order[masks->n++] = (uint32_t)i;
    status = psti_dataset_folder_sort(masks->order, masks->n, mask_less, masks, err);
    for (size_t i = 1; status == PST_OK && i < masks->n; i++) {
        uint32_t a = masks->order[i - 1], b = masks->order[i];
        if (compare_stems(stem_of(&masks->files, a, masks->skip, masks->end),
                          stem_of(&masks->files, b, masks->skip, masks->end)) == 0)
            status = psti_fail(err, PST_ERROR_EXISTS, "dataset",
                               "%.200s and %.200s are masks of the same name",
                               psti_dataset_files_name(&masks->files, a),
                               psti_dataset_files_name(&masks->files, b));
    }
    return status;
}

/* Handles an image without a mask: fails, or adds a notice if allow_unreadable is set. */
static enum pst_status no_mask(struct psti_folder *folder, const char *field, const char *below,
                               size_t i_image, struct pst_error *err)
{
    const char *image = psti_dataset_files_name(&folder->files, i_image);
    if (folder->allow_unreadable)
        return psti_dataset_folder_note(folder, PST_NOTICE_NO_MASK, field, 1, image, err);
    psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
              "the image has no mask of its name in %.200s: add it, take the image out, or allow "
              "what is missing (allow_unreadable)",
              below);
    psti_error_set_file(err, image);
    return PST_ERROR_NOT_FOUND;
}

static enum pst_status fill_column(struct psti_folder *folder, struct masks *masks,
                                   const struct psti_folder_layout *layout, const char *below,
                                   struct psti_folder_column *column, struct pst_error *err)
{
    size_t n = folder->files.n, skip = strlen(layout->images);
    enum pst_status status = PST_OK;
    column->starts = psti_calloc(n + 1, sizeof *column->starts);
    column->masks = psti_calloc(n, sizeof *column->masks);
    if (column->starts == NULL || column->masks == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu masks", n);
    for (size_t i = 0; status == PST_OK && i < n; i++) {
        size_t k = mask_of_image(masks, stem_of(&folder->files, i, skip, layout->image_end));
        if (k == masks->files.n) {
            status = no_mask(folder, column->field.name, below, i, err);
        } else {
            const char *path = psti_dataset_files_name(&masks->files, k);
            masks->used[k] = true;
            column->masks[i] = psti_dataset_files_facts(&masks->files, k);
            if (column->max_nbytes < column->masks[i].nbytes)
                column->max_nbytes = column->masks[i].nbytes;
            status = psti_dataset_arena_add(&column->values, path, strlen(path), err);
        }
        column->starts[i + 1] = column->values.nbytes;
    }
    for (size_t k = 0; status == PST_OK && k < masks->files.n; k++)
        if (!masks->used[k] && has_end(psti_dataset_files_name(&masks->files, k), masks->end))
            status = psti_dataset_folder_note(folder, PST_NOTICE_NO_IMAGE, column->field.name, 1,
                                              psti_dataset_files_name(&masks->files, k), err);
    return status;
}

/* Makes the column of the layout's field i. `masks` has the files of the previous field's folder,
 * and is used again if the folder is the same. A field that has its own ending but no files is left
 * out. */
static enum pst_status make_column(struct psti_folder *folder,
                                   const struct psti_folder_layout *layout, uint32_t i,
                                   struct masks *masks, struct pst_error *err)
{
    const char *below = layout->masks[i].folder;
    struct psti_folder_column *column;
    if (i > 0 && strcmp(below, layout->masks[i - 1].folder) != 0) {
        close_masks(masks);
        *masks = (struct masks){.order = NULL};
    }
    psti_free(masks->order);
    psti_free(masks->used);
    masks->order = NULL;
    masks->used = NULL;
    masks->end = layout->masks[i].end;
    enum pst_status status = open_masks(folder, below, masks, err);
    if (status == PST_OK && masks->n == 0 && masks->end != NULL)
        return PST_OK;
    if (status == PST_OK)
        status = psti_dataset_folder_add_column(folder, layout->masks[i].field, PST_FIELD_MASK,
                                                &column, err);
    if (status == PST_OK)
        status = fill_column(folder, masks, layout, below, column, err);
    return status;
}

/* Adds a text field whose value is part i_part of the path below the images' folder: the split or
 * the city. */
static enum pst_status add_part(struct psti_folder *folder, const char *name, size_t skip,
                                unsigned i_part, struct pst_error *err)
{
    struct psti_folder_column *column;
    size_t n = folder->files.n;
    enum pst_status status =
        psti_dataset_folder_add_column(folder, name, PST_FIELD_TEXT, &column, err);
    if (status != PST_OK)
        return status;
    column->starts = psti_calloc(n + 1, sizeof *column->starts);
    if (column->starts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu texts", n);
    for (size_t i = 0; status == PST_OK && i < n; i++) {
        const char *part = psti_dataset_files_name(&folder->files, i) + skip;
        for (unsigned k = 0; k < i_part && strchr(part, '/') != NULL; k++)
            part = strchr(part, '/') + 1;
        size_t nbytes = strchr(part, '/') == NULL ? 0 : (size_t)(strchr(part, '/') - part);
        if (column->max_nbytes < nbytes)
            column->max_nbytes = nbytes;
        status = psti_dataset_arena_add(&column->values, part, nbytes, err);
        column->starts[i + 1] = column->values.nbytes;
    }
    return status;
}

static enum pst_status finish_cityscapes(struct psti_folder *folder,
                                         const struct psti_folder_layout *layout,
                                         struct pst_error *err)
{
    if (folder->n_columns == 0)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "no mask (_gtFine_labelIds, _gtFine_instanceIds, _gtFine_labelTrainIds) "
                         "in gtFine/");
    enum pst_status status = add_part(folder, "split", strlen(layout->images), 0, err);
    return status == PST_OK ? add_part(folder, "city", strlen(layout->images), 1, err) : status;
}

enum pst_status psti_dataset_folder_pairs(struct psti_folder *folder,
                                          const struct psti_folder_layout *layout,
                                          struct pst_error *err)
{
    enum pst_status status = psti_dataset_folder_list(folder, layout->images, &folder->files, err);
    if (status == PST_OK && folder->files.n == 0)
        status = psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                           "no image (.jpg .jpeg .png .webp .pli) in %.200s", layout->images);
    struct masks masks = {.order = NULL};
    for (uint32_t i = 0; status == PST_OK && i < layout->n; i++)
        status = make_column(folder, layout, i, &masks, err);
    close_masks(&masks);
    if (status == PST_OK && layout->is_cityscapes)
        status = finish_cityscapes(folder, layout, err);
    if (status == PST_OK)
        psti_log(PST_LOG_INFO, "dataset", "%s: images from %s, masks from %u folders", folder->path,
                 layout->images, layout->n);
    return status;
}
