/* dataset_folder_notice.c - notices: what was found when a plain folder was opened but is not part
 * of the data set.
 *
 * One thread adds them while the folder is opened. They do not change afterwards. */
#include "dataset/folder/dataset_folder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "format/format_dataset.h"

#include <stdio.h>
#include <string.h>

enum pst_status psti_dataset_folder_note(struct psti_folder *folder, enum pst_notice_kind kind,
                                         const char *name, uint64_t n, const char *path,
                                         struct pst_error *err)
{
    if (folder->notices == NULL)
        folder->notices = psti_calloc(1, sizeof *folder->notices);
    if (folder->notices == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset",
                         "out of memory to note what a folder "
                         "holds besides images");
    psti_format_notices_add(folder->notices, kind, name, NULL, n, path);
    return PST_OK;
}

void psti_dataset_folder_left_out_kind(const char *path, char kind[PSTI_DATASET_LEFT_OUT_CAP])
{
    enum { CAP = PSTI_DATASET_LEFT_OUT_CAP, EXTENSION_MAX = CAP - 2 };
    snprintf(kind, CAP, "no extension");
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(name, '.');
    if (name[0] == '.')
        snprintf(kind, CAP, "hidden");
    else if (dot != NULL && dot[1] != '\0' && strlen(dot) <= EXTENSION_MAX) {
        snprintf(kind, CAP, "%s", dot);
        for (char *c = kind; *c != '\0'; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c | 0x20) : *c < ' ' || *c == 0x7F ? '?' : *c;
        if (!psti_format_is_utf8(kind, strlen(kind)))
            snprintf(kind, CAP, "no extension");
    }
}

uint32_t pst_dataset_n_notices(const pst_dataset *dataset)
{
    return dataset->notices == NULL ? 0 : dataset->notices->n;
}

enum pst_status pst_dataset_notice(const pst_dataset *dataset, uint32_t i_notice,
                                   struct pst_notice *notice, size_t notice_nbytes,
                                   struct pst_error *err)
{
    if (notice == NULL || i_notice >= pst_dataset_n_notices(dataset))
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                         "there is no notice %u: the data set has %u; or notice is NULL", i_notice,
                         pst_dataset_n_notices(dataset));
    psti_struct_write(notice, notice_nbytes, &dataset->notices->list[i_notice],
                      sizeof dataset->notices->list[i_notice]);
    return PST_OK;
}
