/* dataset_folder_tables.c - the tables of a plain folder: columns are added, facts of files taken
 * down, all freed.
 *
 * One thread, at open. */
#include "dataset/dataset_folder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/stamp.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define INODE_BITS 59 /* the number of a device takes the rest of a place */

void psti_dataset_folder_free(struct psti_folder *folder)
{
    for (uint32_t i = 0; i < folder->n_columns; i++) {
        struct psti_column *column = &folder->columns[i];
        psti_free(column->ints);
        psti_free(column->floats);
        psti_free(column->starts);
        psti_free(column->masks);
        psti_dataset_arena_free(&column->values);
    }
    psti_free(folder->columns);
    psti_dataset_files_free(&folder->files);
    psti_dataset_names_free(&folder->classes);
    psti_free(folder->row_of_sample);
    psti_free(folder->notices);
    memset(folder, 0, sizeof *folder);
}

enum pst_status psti_dataset_folder_add_column(struct psti_folder *folder, const char *name,
                                               enum pst_field_type type,
                                               struct psti_column **column, struct pst_error *err)
{
    /* Columns are allocated at their final number, so that pointers to them stay valid. */
    if (folder->columns == NULL)
        folder->columns = psti_calloc(PST_MAX_FIELDS, sizeof *folder->columns);
    if (folder->columns == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for fields");
    *column = &folder->columns[folder->n_columns++];
    snprintf((*column)->field.name, sizeof(*column)->field.name, "%s", name);
    (*column)->field.type = type;
    (*column)->field.n_variants = 1;
    return PST_OK;
}

/* Returns the place of the file's device in the folder's table of devices. If the table has no
 * room: PSTI_DATASET_FOLDER_DEVICES_MAX. */
static uint32_t device_of(struct psti_folder *folder, const char *path, const struct stat *st)
{
    char whole[PATH_MAX + PSTI_DATASET_FOLDER_NAME_CAP];
    uint32_t i = 0;
    while (i < folder->n_devices && folder->devices[i].device != st->st_dev)
        i++;
    if (i < folder->n_devices || i == PSTI_DATASET_FOLDER_DEVICES_MAX)
        return i;
    int n = snprintf(whole, sizeof whole, "%s/%s", folder->path, path);
    folder->devices[i].device = st->st_dev;
    folder->devices[i].has_inodes =
        n > 0 && (size_t)n < sizeof whole && psti_stamp_has_inodes(whole);
    folder->n_devices++;
    return i;
}

/* The place is the number of the device, then the inode number. One of more bits than are left is
 * cut. */
struct psti_file_facts psti_dataset_folder_see(struct psti_folder *folder, const char *path,
                                               const struct stat *st)
{
    uint32_t i = device_of(folder, path, st);
    bool has_inodes = i < PSTI_DATASET_FOLDER_DEVICES_MAX && folder->devices[i].has_inodes;
    const struct psti_file_facts facts = {
        .nbytes = (uint64_t)st->st_size,
        .place =
            (uint64_t)i << INODE_BITS | ((uint64_t)st->st_ino & (UINT64_MAX >> (64 - INODE_BITS))),
        .stamp = psti_stamp_make(st, has_inodes)};
    const uint64_t parts[] = {psti_hash64(path, strlen(path)), facts.stamp};
    folder->stamps += psti_hash64(parts, sizeof parts);
    return facts;
}
