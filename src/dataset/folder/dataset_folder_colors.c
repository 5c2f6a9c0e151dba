/* dataset_folder_colors.c - finds masks of a plain folder that are colour pictures. The pixels of a
 * mask should be class numbers.
 *
 * In: the paths of the masks. Out: a notice for each field that has such files; it names the first.
 * Reads the first bytes of some files of each field. One thread, at open. */
#include "dataset/folder/dataset_folder.h"

#include "base/alloc.h"
#include "base/jpeg_marker.h"
#include "base/log.h"
#include "base/files/read.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    FILES_MAX = 16,      /* maximum number of files that are read for each field */
    HEAD_NBYTES = 65536, /* maximum number of bytes of each file; a JPEG may have a thumbnail before
                          * its header */
    PNG_COLOR_AT = 25
};

/* Returns the number of components of a JPEG; 0: the header is not in these bytes. */
static unsigned jpeg_components(const uint8_t *bytes, size_t nbytes)
{
    size_t at = 2;
    while ((at = psti_jpeg_next_marker(bytes, nbytes, at)) + 8 < nbytes) {
        uint8_t marker = bytes[at];
        bool is_frame =
            marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
        if (is_frame)
            return bytes[at + 8];
        if (marker == 0xD9 || marker == 0xDA)
            return 0;
        at += 1 + ((size_t)bytes[at + 1] << 8 | bytes[at + 2]);
    }
    return 0;
}

/* True if the first bytes are those of a colour picture. Palette images do not count, because their
 * palette indices are class numbers. */
static bool has_colors(const uint8_t *head, size_t nbytes)
{
    if (nbytes > PNG_COLOR_AT && memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0)
        return head[PNG_COLOR_AT] == 2 || head[PNG_COLOR_AT] == 6;
    if (nbytes > 12 && memcmp(head, "RIFF", 4) == 0 && memcmp(head + 8, "WEBP", 4) == 0)
        return true;
    return nbytes > 4 && head[0] == 0xFF && head[1] == 0xD8 && jpeg_components(head, nbytes) >= 3;
}

static bool file_has_colors(int root_fd, const char *path, uint8_t *head)
{
    struct stat st;
    int fd;
    if (psti_open_data_at(root_fd, path, path, "dataset", "the mask", &fd, &st, NULL) != PST_OK)
        return false;
    ssize_t n = psti_read_at(fd, head, HEAD_NBYTES, 0);
    close(fd);
    return n > 0 && has_colors(head, (size_t)n);
}

static enum pst_status check_column(struct psti_folder *folder,
                                    const struct psti_folder_column *column, int root_fd,
                                    uint8_t *head, struct pst_error *err)
{
    size_t n = folder->files.n, step = n > FILES_MAX ? n / FILES_MAX : 1;
    enum pst_status status = PST_OK;
    unsigned n_seen = 0;
    for (size_t i = 0; status == PST_OK && i < n && n_seen < FILES_MAX; i += step, n_seen++) {
        char path[PSTI_DATASET_FOLDER_NAME_CAP];
        size_t nbytes = (size_t)(column->starts[i + 1] - column->starts[i]);
        if (nbytes == 0 || nbytes >= sizeof path)
            continue;
        memcpy(path, column->values.bytes + column->starts[i], nbytes);
        path[nbytes] = '\0';
        if (file_has_colors(root_fd, path, head))
            status = psti_dataset_folder_note(folder, PST_NOTICE_MASK_IN_COLORS, column->field.name,
                                              1, path, err);
    }
    return status;
}

enum pst_status psti_dataset_folder_check_colors(struct psti_folder *folder, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    uint8_t *head = NULL;
    int root_fd = -1;
    for (uint32_t i = 0; status == PST_OK && i < folder->n_columns; i++) {
        if (folder->columns[i].field.type != PST_FIELD_MASK || folder->files.n == 0)
            continue;
        if (head == NULL) {
            head = psti_alloc(HEAD_NBYTES);
            root_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        if (head != NULL && root_fd >= 0)
            status = check_column(folder, &folder->columns[i], root_fd, head, err);
    }
    if (root_fd >= 0)
        close(root_fd);
    psti_free(head);
    for (uint32_t i = 0; folder->notices != NULL && i < folder->notices->n; i++)
        if (folder->notices->list[i].kind == PST_NOTICE_MASK_IN_COLORS)
            psti_log(
                PST_LOG_WARNING, "dataset",
                "%s: masks of field %s are pictures in colours (the first: %s), and a mask has "
                "the number of a class in each pixel: " PSTI_DATASET_MASKS_HELP,
                folder->path, folder->notices->list[i].name, folder->notices->list[i].first);
    return status;
}
