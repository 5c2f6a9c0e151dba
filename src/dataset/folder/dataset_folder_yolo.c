/* dataset_folder_yolo.c - finds boxes in text files beside a folder's images, in the layouts of
 * YOLO tools. A data set of the folder would silently lack these boxes, so opening fails unless
 * labels are ignored (ignore_labels).
 *
 *     images/train/a.jpg   labels/train/a.txt     one tree for each
 *     train/images/a.jpg   train/labels/a.txt     one pair for each split
 *     a.jpg                labels/a.txt, a.txt    beside the images
 *
 * In: the images that a scan has found. Out: the first text file that holds boxes: each of its
 * lines is a class number and four or more numbers from 0 to 1. Only the text files of some
 * images, and some files of each folder that may hold labels, are read. One thread, at open. */
#include "dataset/folder/dataset_folder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    IMAGES_MAX = 32,    /* maximum number of images whose text files are searched */
    TEXTS_MAX = 32,     /* maximum number of files of one folder that are read */
    ENTRIES_MAX = 4096, /* maximum number of entries of one folder that are listed */
    FOLDERS_MAX = 16,   /* maximum number of folders that are listed */
    TEXT_NBYTES = 4096, /* bytes of each file that are read */
    LEVELS_MAX = 3,     /* maximum number of levels above the given folder where a folder "images"
                         * is searched */
};

struct look {
    const struct psti_folder *folder;
    char root[PATH_MAX]; /* real path of the folder, without links */
    char found[PATH_MAX];
    char listed[FOLDERS_MAX][PATH_MAX]; /* folders that were listed before */
    unsigned n_listed;
};

/* The text
 * ----------------------------------------------------------------------------------------------
 */

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

/* Parses a plain decimal number; strtod would depend on the locale. Returns the place behind it, or
 * NULL. */
static const char *take_number(const char *at, double *value)
{
    double scale = 1;
    *value = 0;
    const char *first = at;
    for (; *at >= '0' && *at <= '9'; at++)
        *value = *value * 10 + (*at - '0');
    bool has_digits = at > first;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++, has_digits = true)
            *value += (*at - '0') * (scale /= 10);
    if (!has_digits)
        return NULL;
    if ((*at == 'e' || *at == 'E') && (at[1] == '-' || (at[1] >= '0' && at[1] <= '9'))) {
        bool is_small = at[1] == '-';
        long power = strtol(at + 1 + is_small, (char **)&at, 10);
        for (long i = 0; i < power && i < 400; i++)
            *value = is_small ? *value / 10 : *value * 10;
    }
    return at;
}

/* True for a line "class x y width height", also with more numbers: points, polygons, a
 * confidence. */
static bool is_box_line(const char *line)
{
    double value;
    line = skip_blanks(line);
    size_t digits = strspn(line, "0123456789");
    const char *at = line + digits;
    if (strncmp(at, ".0", 2) == 0) /* some tools write the class as a float */
        at += 1 + strspn(at + 1, "0");
    if (digits == 0 || digits > 6 || (*at != ' ' && *at != '\t'))
        return false;
    unsigned n = 0, n_beyond = 0;
    for (at = skip_blanks(at); *at != '\0'; at = skip_blanks(at), n++) {
        at = take_number(at, &value);
        if (at == NULL || (*at != '\0' && *at != ' ' && *at != '\t' && *at != '\r'))
            return false;
        n_beyond += value > 1;
        if (value > 1 && n < 4)
            return false;
    }
    return n >= 4 && (n_beyond == 0 || (n - 4) % 3 == 0); /* numbers above 1 are allowed only as
                                                           * visibilities of points */
}

size_t psti_dataset_folder_head(const char *path, char *text, size_t nbytes)
{
    struct stat st;
    int fd;
    if (psti_open_data(path, "dataset", "the text", &fd, &st, NULL) != PST_OK)
        return 0;
    ssize_t n = psti_read_at(fd, text, nbytes, 0);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return (size_t)n;
}

/* True if each line of the file holds a box. *is_empty: the file has no lines with text. */
static bool holds_boxes(const char *path, bool *is_empty)
{
    char text[TEXT_NBYTES + 1];
    *is_empty = true;
    size_t n = psti_dataset_folder_head(path, text, TEXT_NBYTES);
    if (n == 0 || strlen(text) < n)
        return false;
    unsigned n_lines = 0;
    for (char *line = text, *end; line != NULL; line = end) {
        end = strchr(line, '\n');
        if (end == NULL && n == TEXT_NBYTES && n_lines > 0)
            break; /* the last line was cut, because only the first bytes were read */
        if (end != NULL)
            *end++ = '\0';
        if (*skip_blanks(line) == '\0')
            continue;
        *is_empty = false;
        if (!is_box_line(line))
            return false;
        n_lines++;
    }
    return n_lines > 0;
}

/* The places
 * ----------------------------------------------------------------------------------------------
 */

static bool take(struct look *look, const char *path)
{
    snprintf(look->found, sizeof look->found, "%s", path);
    return true;
}

/* Reads the text file at `path`. True if it holds boxes. */
static bool look_at(struct look *look, const char *path)
{
    bool is_empty;
    return holds_boxes(path, &is_empty) && take(look, path);
}

/* Reads some text files of a folder, which is listed once only. True if one holds boxes. */
static bool look_into(struct look *look, const char *path)
{
    unsigned n_read = 0, n_seen = 0;
    for (unsigned i = 0; i < look->n_listed; i++)
        if (strcmp(look->listed[i], path) == 0)
            return false;
    if (look->n_listed == FOLDERS_MAX)
        return false;
    snprintf(look->listed[look->n_listed++], PATH_MAX, "%s", path);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool found = false;
    while (dir != NULL && !found && n_read < TEXTS_MAX && n_seen++ < ENTRIES_MAX &&
           (entry = readdir(dir)) != NULL) {
        char text[PATH_MAX];
        bool is_empty;
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 4, ".txt") != 0 ||
            snprintf(text, sizeof text, "%s/%s", path, entry->d_name) >= (int)sizeof text)
            continue;
        found = holds_boxes(text, &is_empty) && take(look, text);
        n_read += !is_empty;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static bool is_images(const char *name, size_t nbytes)
{
    static const char *const names[] = {"images", "image", "imgs", "img", "JPEGImages"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == nbytes && memcmp(names[i], name, nbytes) == 0)
            return true;
    return false;
}

/* Looks for boxes in the folder "labels" beside an assumed images' folder: the part [begin, end) of
 * the image's path. If that folder's name is not one for images, only the text file of this very
 * image is read. */
static bool look_beside(struct look *look, const char *path, size_t begin, size_t end)
{
    char text[PATH_MAX];
    const char *name = strrchr(path, '/'), *dot = strrchr(name, '.');
    int n = snprintf(text, sizeof text, "%.*slabels%.*s", (int)begin, path,
                     (int)(name - path - (long)end), path + end);
    if (n < 0 || (size_t)n + strlen(name) + 5 > sizeof text)
        return false;
    if (is_images(path + begin, end - begin) && look_into(look, text))
        return true;
    snprintf(text + n, sizeof text - (size_t)n, "%.*s.txt",
             (int)(dot == NULL ? (int)strlen(name) : dot - name), name);
    return look_at(look, text);
}

/* Looks for the labels of one image. Its path begins with the folder's path of root_nbytes
 * bytes. */
static bool look_for(struct look *look, const char *path, size_t root_nbytes)
{
    char text[PATH_MAX];
    const char *name = strrchr(path, '/'), *dot = strrchr(name, '.');
    size_t stem = dot == NULL ? strlen(path) : (size_t)(dot - path);
    snprintf(text, sizeof text, "%.*s.txt", (int)stem, path);
    if (look_at(look, text))
        return true;
    snprintf(text, sizeof text, "%.*s/labels", (int)(name - path), path);
    if (look_into(look, text))
        return true;
    unsigned n_above = 0;
    for (size_t end = (size_t)(name - path); end > 0 && n_above <= LEVELS_MAX;) {
        size_t begin = end;
        while (begin > 0 && path[begin - 1] != '/')
            begin--;
        bool is_above = end < root_nbytes;
        n_above += is_above;
        if ((!is_above || is_images(path + begin, end - begin)) &&
            look_beside(look, path, begin, end))
            return true;
        end = begin > 0 ? begin - 1 : 0;
    }
    return false;
}

static enum pst_status fail_boxes(const struct look *look, struct pst_error *err)
{
    char shown[PST_ERROR_PATH_CAP];
    psti_format_escape(look->found, strlen(look->found), shown, sizeof shown);
    return psti_fail_at(
        err, PST_ERROR_ARGUMENT, "dataset", shown, -1,
        "this looks like a data set of YOLO's: the text holds boxes, which a folder "
        "of images does not take in. Pack it: penstock pack data.yaml DST --yolo "
        "(docs/guide/from-yolo.md), or leave them out (ignore_labels, "
        "--ignore-labels)");
}

enum pst_status psti_dataset_folder_check_yolo(const struct psti_folder *folder,
                                               struct pst_error *err)
{
    char path[2 * PATH_MAX];
    size_t n = folder->files.n, step = n > IMAGES_MAX ? n / IMAGES_MAX : 1;
    struct look *look = n > 0 ? psti_calloc(1, sizeof *look) : NULL;
    bool found = false;
    if (n == 0)
        return PST_OK;
    if (look == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to look for labels");
    look->folder = folder;
    size_t root_nbytes = realpath(folder->path, look->root) == NULL ? 0 : strlen(look->root);
    for (size_t i = 0; root_nbytes > 0 && !found && i < n; i += step) {
        const char *name = psti_dataset_files_name(&folder->files, i);
        if (snprintf(path, sizeof path, "%s/%s", look->root, name) < PATH_MAX)
            found = look_for(look, path, root_nbytes);
    }
    enum pst_status status = found ? fail_boxes(look, err) : PST_OK;
    psti_free(look);
    return status;
}
