/* dataset_folder_scan.c - makes the rows of a plain folder from the files that a walk has found.
 *
 * In: a path. Out: rows in byte order of the relative paths, and one class per top-level subfolder,
 * like torchvision's ImageFolder; or images and masks from separate subfolders. A folder without
 * images is walked again for audio files. */
#include "dataset/folder/dataset_folder_walk.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

/* Ends each error message about a class. */
#define OR_KEEP " (allow_unreadable keeps it as a class without images)"

/* Makes the column "label" from the classes that were found. */
static enum pst_status make_labels(struct psti_walk *walk)
{
    struct psti_folder *folder = walk->folder;
    struct psti_folder_column *column;
    uint32_t *rank = NULL;
    enum pst_status status = psti_dataset_names_sort(&folder->classes, &rank, walk->err);
    if (status != PST_OK)
        return status;
    status = psti_dataset_folder_add_column(folder, "label", PST_FIELD_INT, &column, walk->err);
    if (status != PST_OK)
        goto out;
    column->field.n_classes = (int64_t)folder->classes.n;
    column->n_runs = walk->labels.nbytes / sizeof *column->runs;
    column->runs = psti_alloc_array(column->n_runs, sizeof *column->runs);
    if (column->runs == NULL) {
        status = psti_fail(walk->err, PST_ERROR_MEMORY, "dataset",
                           "out of memory for the labels of %zu files", folder->files.n);
        goto out;
    }
    memcpy(column->runs, walk->labels.bytes, column->n_runs * sizeof *column->runs);
    for (size_t i = 0; i < column->n_runs; i++)
        column->runs[i].number = rank[column->runs[i].number];
out:
    psti_free(rank);
    return status;
}

static uint64_t n_left_out(const struct psti_folder *folder)
{
    uint64_t n = 0;
    for (uint32_t i = 0; folder->notices != NULL && i < folder->notices->n; i++)
        if (folder->notices->list[i].kind == PST_NOTICE_LEFT_OUT)
            n += folder->notices->list[i].count;
    return n;
}

static enum pst_status conclude(struct psti_walk *walk)
{
    struct psti_folder *folder = walk->folder;
    struct pst_error *err = walk->err;
    if (folder->files.n == 0)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "no image (.jpg .jpeg .png .webp .pli) in the folder or below it, and no "
                         "audio (.wav .flac .mp3 .ogg); "
                         "%llu other files were left out, %llu unreadable ones skipped",
                         (unsigned long long)n_left_out(folder),
                         (unsigned long long)folder->n_skipped);
    if (folder->files.n == walk->n_top_images || folder->ignore_labels) {
        /* All images lie directly in the folder; subfolders without images are no classes. */
        psti_dataset_names_free(&folder->classes);
        return PST_OK;
    }
    if (walk->n_top_images > 0)
        return psti_fail(
            err, PST_ERROR_UNSUPPORTED, "dataset",
            "%zu images lie directly in the folder and %zu in its sub-folders: put each into the "
            "sub-folder of its class, or give a label file",
            walk->n_top_images, folder->files.n - walk->n_top_images);
    if (folder->allow_unreadable)
        return make_labels(walk);
    if (walk->lost_class[0] != '\0')
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "%s, beside class folders, is a link that leads nowhere: mend it or "
                         "remove it" OR_KEEP,
                         walk->lost_class);
    if (walk->empty_class[0] != '\0')
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "the class folder %s holds no image: fill it or remove it" OR_KEEP,
                         walk->empty_class);
    return make_labels(walk);
}

/* Finds the subfolders of images and masks among the top-level entries. False: the folder has
 * another layout. */
static bool find_layout(const struct psti_dataset_entries *top, struct psti_folder_layout *layout)
{
    unsigned n_cityscapes = 0;
    for (size_t i = 0; i < top->n; i++) {
        char name[NAME_MAX + 2];
        snprintf(name, sizeof name, "%s", psti_dataset_entries_name(top, i));
        size_t n = strlen(name);
        if (name[n - 1] != '/')
            continue;
        name[n - 1] = '\0';
        (void)psti_dataset_folder_layout_take(layout, name);
        n_cityscapes += strcmp(name, "leftImg8bit") == 0 || strcmp(name, "gtFine") == 0;
    }
    if (n_cityscapes == 2)
        psti_dataset_folder_layout_cityscapes(layout);
    return layout->images[0] != '\0' && layout->n > 0;
}

static bool is_in_layout(const struct psti_folder_layout *layout, const char *name)
{
    bool found = strcmp(name, layout->images) == 0;
    for (uint32_t i = 0; i < layout->n; i++)
        found = found || strcmp(name, layout->masks[i].folder) == 0;
    return found;
}

/* Scans images and masks that lie in separate subfolders. Other top-level entries are left out,
 * with a notice. */
static enum pst_status scan_pairs(struct psti_walk *walk, const struct psti_dataset_entries *top,
                                  const struct psti_folder_layout *layout)
{
    enum pst_status status = PST_OK;
    psti_dataset_listing_pairs(walk->listing);
    psti_dataset_names_free(&walk->folder->classes); /* this layout has no classes */
    for (size_t i = 0; status == PST_OK && i < top->n; i++) {
        const char *name = psti_dataset_entries_name(top, i);
        bool is_folder = name[strlen(name) - 1] == '/';
        if (!is_folder || !is_in_layout(layout, name))
            status = psti_dataset_walk_leave_out(walk, name, is_folder ? "folder" : NULL);
    }
    return status == PST_OK ? psti_dataset_folder_pairs(walk->folder, layout, walk->err) : status;
}

static enum pst_status scan_top(struct psti_walk *walk)
{
    struct psti_dataset_entries top = {.n = 0};
    bool done = false;
    /* Allocated, because its long names would take too much of the stack. */
    struct psti_folder_layout *layout = psti_calloc(1, sizeof *layout);
    enum pst_status status =
        layout != NULL ? psti_dataset_walk_top(walk, &top, &done)
                       : psti_fail(walk->err, PST_ERROR_MEMORY, "dataset", "out of memory to scan");
    if (status == PST_OK && done) {
        /* Folders of the images-and-masks layout have no saved listing. */
        status = conclude(walk);
    } else if (status == PST_OK && find_layout(&top, layout)) {
        status = scan_pairs(walk, &top, layout);
    } else if (status == PST_OK) {
        status = psti_dataset_walk_entries(walk, &top);
        if (status == PST_OK)
            status = conclude(walk);
    }
    psti_free(layout);
    psti_dataset_entries_free(&top);
    return status;
}

/* Drops everything that was listed, except the options. */
static void forget(struct psti_folder *folder, bool is_audio)
{
    const struct psti_folder before = *folder;
    psti_dataset_folder_free(folder);
    folder->path = before.path;
    folder->listing = before.listing;
    folder->allow_unreadable = before.allow_unreadable;
    folder->ignore_labels = before.ignore_labels;
    folder->masks = before.masks;
    folder->n_masks = before.n_masks;
    folder->is_audio = is_audio;
    folder->files.spacing = PSTI_DATASET_FILES_SPACING;
}

/* Fails for a folder without images, with an error that names what the folder holds if that is
 * known. */
static enum pst_status fail_foreign(const struct psti_folder *folder, enum pst_status status,
                                    struct pst_error *err)
{
    for (uint32_t i = 0; status == PST_ERROR_NOT_FOUND && folder->notices && i < folder->notices->n;
         i++) {
        const struct pst_notice *notice = &folder->notices->list[i];
        const char *advice =
            notice->kind == PST_NOTICE_LEFT_OUT ? psti_dataset_foreign_name(notice->first) : NULL;
        if (advice)
            return psti_fail_at(err, PST_ERROR_UNSUPPORTED, "dataset", notice->first, -1, "%s",
                                advice);
    }
    return status;
}

static enum pst_status scan(struct psti_folder *folder, struct pst_error *err)
{
    folder->files.spacing = PSTI_DATASET_FILES_SPACING;
    enum pst_status status = psti_dataset_walk_run(folder, "", &folder->files, scan_top, err);
    if (folder->files.n > 0 && !folder->ignore_labels) {
        /* This error comes first, because it is the most helpful one for such a folder. */
        enum pst_status yolo = psti_dataset_folder_check_yolo(folder, err);
        enum pst_status drawn =
            yolo != PST_OK ? yolo : psti_dataset_folder_check_drawn(folder, err);
        return drawn != PST_OK ? drawn : status;
    }
    if (status != PST_ERROR_NOT_FOUND || folder->files.n > 0)
        return status;
    forget(folder, true);
    struct pst_error audio_err = {.sample = -1, .offset = -1};
    status = psti_dataset_walk_run(folder, "", &folder->files, scan_top, &audio_err);
    if (status == PST_ERROR_NOT_FOUND && folder->files.n == 0) {
        forget(folder, false); /* there are no audio files either: report the first error */
        status = psti_dataset_walk_run(folder, "", &folder->files, scan_top, err);
        return fail_foreign(folder, status, err);
    }
    if (status != PST_OK && err)
        *err = audio_err;
    return status;
}

enum pst_status psti_dataset_folder_scan(struct psti_folder *folder, struct pst_error *err)
{
    enum pst_status status = scan(folder, err);
    while (psti_dataset_listing_again(folder->listing)) {
        forget(folder, false);
        status = scan(folder, err);
    }
    return status;
}
