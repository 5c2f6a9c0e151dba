/* dataset_folder_drawn.c - finds annotation files of other tools beside a folder's images. A data
 * set of the folder would silently lack them, so the error names the option of pack that reads
 * them.
 *
 *     annotations.xml                              CVAT for images
 *     train/_annotations.coco.json, or .csv        exports of Roboflow, and one split of them
 *     a.json beside a.jpg, a.xml beside a.jpg      Labelme, Pascal VOC
 *
 * In: the images that a scan has found. Out: the first annotation file, recognised by its name
 * and its first bytes. Only some images are checked for files beside them. One thread, at open. */
#include "dataset/folder/dataset_folder.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum { IMAGES_MAX = 32, HEAD_NBYTES = 4096 };

/* True if the first bytes of the file contain both texts. */
static bool head_holds(const char *path, const char *one, const char *other)
{
    char head[HEAD_NBYTES + 1];
    return psti_dataset_folder_head(path, head, HEAD_NBYTES) > 0 && strstr(head, one) != NULL &&
           strstr(head, other) != NULL;
}

static enum pst_status fail_drawn(const char *path, const char *of, const char *how,
                                  struct pst_error *err)
{
    char shown[PST_ERROR_PATH_CAP];
    psti_format_escape(path, strlen(path), shown, sizeof shown);
    return psti_fail_at(err, PST_ERROR_ARGUMENT, "dataset", shown, -1,
                        "this looks like annotations of %s, which a folder of images does not take "
                        "in. Pack them: penstock pack SRC DST %s (docs/imports.md), or leave them "
                        "out (ignore_labels, --ignore-labels)",
                        of, how);
}

/* Looks for annotation files with known names in the folder and in its folders of splits. */
static enum pst_status check_names(const char *root, struct pst_error *err)
{
    static const char *const splits[] = {"", "/train", "/valid", "/test"};
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/annotations.xml", root) < PATH_MAX &&
        head_holds(path, "<annotations", "<"))
        return fail_drawn(path, "CVAT", "--cvat", err);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        if (snprintf(path, sizeof path, "%s%s/_annotations.coco.json", root, splits[i]) <
                PATH_MAX &&
            head_holds(path, "{", "\""))
            return fail_drawn(path, "COCO, of an export of Roboflow",
                              i > 0 ? "--roboflow" : "--coco SRC/_annotations.coco.json", err);
        if (snprintf(path, sizeof path, "%s%s/_annotations.csv", root, splits[i]) < PATH_MAX &&
            head_holds(path, "filename", "xmin"))
            return fail_drawn(path, "an export of Roboflow",
                              i > 0 ? "--roboflow" : "--roboflow, SRC the folder above", err);
    }
    return PST_OK;
}

/* Looks for an annotation file beside an image: same name, other extension. */
static enum pst_status check_beside(const char *image, struct pst_error *err)
{
    char path[PATH_MAX];
    const char *name = strrchr(image, '/'), *dot = strrchr(name == NULL ? image : name, '.');
    int stem = dot == NULL ? (int)strlen(image) : (int)(dot - image);
    if (snprintf(path, sizeof path, "%.*s.json", stem, image) < PATH_MAX &&
        head_holds(path, "\"shapes\"", "\"version\""))
        return fail_drawn(path, "Labelme", "--labelme", err);
    if (snprintf(path, sizeof path, "%.*s.xml", stem, image) < PATH_MAX &&
        head_holds(path, "<annotation>", "<filename>"))
        return fail_drawn(path, "Pascal VOC", "--voc, or --roboflow for all splits of an export",
                          err);
    return PST_OK;
}

enum pst_status psti_dataset_folder_check_drawn(const struct psti_folder *folder,
                                                struct pst_error *err)
{
    char path[PATH_MAX];
    size_t n = folder->files.n, step = n > IMAGES_MAX ? n / IMAGES_MAX : 1;
    enum pst_status status = check_names(folder->path, err);
    for (size_t i = 0; status == PST_OK && i < n; i += step) {
        const char *name = psti_dataset_files_name(&folder->files, i);
        if (snprintf(path, sizeof path, "%s/%s", folder->path, name) < PATH_MAX)
            status = check_beside(path, err);
    }
    return status;
}
