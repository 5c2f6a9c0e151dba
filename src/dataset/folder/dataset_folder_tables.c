/* dataset_folder_tables.c - the tables of a plain folder: columns are added, facts of files taken
 * down, all freed.
 *
 * Folders may have millions of files, so a file takes 12 bytes and its name: its size, its stamp
 * and its place have 32 bits each, and of 16 names one offset is kept. Filled by one thread, at
 * open; read by any. */
#include "dataset/folder/dataset_folder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/stamp.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A place: bit 31 and the bits below it say which device it is; the rest is the inode number, as
 * a number with an exponent if it is large. */
enum { EXPONENT_BITS = 6, FIRST_BITS = 31, OTHER_BITS = 26 };

void psti_dataset_folder_free(struct psti_folder *folder)
{
    for (uint32_t i = 0; i < folder->n_columns; i++) {
        struct psti_folder_column *column = &folder->columns[i];
        psti_free(column->ints);
        psti_free(column->runs);
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
                                               struct psti_folder_column **column,
                                               struct pst_error *err)
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

/* Maps an inode number to `bits` bits. Larger numbers never get smaller places; numbers below
 * 2^(bits - EXPONENT_BITS + 1) stay as they are. */
static uint32_t shorten(uint64_t inode, unsigned bits)
{
    unsigned mantissa = bits - EXPONENT_BITS;
    if (inode >> mantissa == 0)
        return (uint32_t)inode;
    unsigned shift = 63 - mantissa - (unsigned)__builtin_clzll(inode);
    return ((shift + 1) << mantissa) | (uint32_t)((inode >> shift) & ((1u << mantissa) - 1));
}

static uint32_t place_of(uint32_t i_device, uint64_t inode)
{
    if (i_device == 0)
        return shorten(inode, FIRST_BITS);
    return UINT32_C(1) << 31 | i_device << OTHER_BITS | shorten(inode, OTHER_BITS);
}

struct psti_file_facts psti_dataset_folder_see(struct psti_folder *folder, const char *path,
                                               const struct stat *st)
{
    uint32_t i = device_of(folder, path, st);
    bool has_inodes = i < PSTI_DATASET_FOLDER_DEVICES_MAX && folder->devices[i].has_inodes;
    uint64_t stamp = psti_stamp_make(st, has_inodes);
    const struct psti_file_facts facts = {.nbytes = (uint64_t)st->st_size,
                                          .place = place_of(i, (uint64_t)st->st_ino),
                                          .stamp = psti_stamp_short(stamp)};
    const uint64_t parts[] = {psti_hash64(path, strlen(path)), stamp};
    folder->stamps += psti_hash64(parts, sizeof parts);
    return facts;
}

/* Files
 * -------------------------------------------------------------------------------------------- */

void psti_dataset_files_free(struct psti_dataset_files *files)
{
    psti_dataset_arena_free(&files->names);
    psti_free(files->at);
    psti_free(files->briefs);
    psti_free(files->longs);
    memset(files, 0, sizeof *files);
}

static size_t n_offsets(const struct psti_dataset_files *files, size_t n)
{
    return (n + ((size_t)1 << files->spacing) - 1) >> files->spacing;
}

static enum pst_status grow(struct psti_dataset_files *files, struct pst_error *err)
{
    size_t capacity = files->capacity + files->capacity / 2 + 256;
    uint64_t *at = psti_realloc(files->at, n_offsets(files, capacity) * sizeof *at);
    if (at != NULL)
        files->at = at;
    struct psti_file_brief *briefs = psti_realloc(files->briefs, capacity * sizeof *briefs);
    if (briefs != NULL)
        files->briefs = briefs;
    if (at == NULL || briefs == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu files", capacity);
    files->capacity = capacity;
    return PST_OK;
}

static enum pst_status add_long(struct psti_dataset_files *files, uint64_t nbytes,
                                struct pst_error *err)
{
    struct psti_long_file *longs = psti_realloc(files->longs, (files->n_longs + 1) * sizeof *longs);
    if (longs == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for the sizes of files");
    files->longs = longs;
    longs[files->n_longs++] = (struct psti_long_file){files->n, nbytes};
    return PST_OK;
}

enum pst_status psti_dataset_files_add(struct psti_dataset_files *files, const char *name,
                                       const struct psti_file_facts *facts, struct pst_error *err)
{
    bool is_long = facts->nbytes >= UINT32_MAX;
    enum pst_status status = files->n == files->capacity ? grow(files, err) : PST_OK;
    if (status == PST_OK && is_long)
        status = add_long(files, facts->nbytes, err);
    uint64_t start = files->names.nbytes;
    if (status == PST_OK)
        status = psti_dataset_arena_add(&files->names, name, strlen(name) + 1, err);
    if (status != PST_OK)
        return status;
    if (n_offsets(files, files->n) < n_offsets(files, files->n + 1))
        files->at[files->n >> files->spacing] = start;
    files->briefs[files->n++] =
        (struct psti_file_brief){.nbytes = is_long ? UINT32_MAX : (uint32_t)facts->nbytes,
                                 .place = facts->place,
                                 .stamp = facts->stamp};
    return PST_OK;
}

void psti_dataset_files_trim(struct psti_dataset_files *files)
{
    if (files->n == 0)
        return;
    char *names = psti_realloc(files->names.bytes, files->names.nbytes);
    uint64_t *at = psti_realloc(files->at, n_offsets(files, files->n) * sizeof *at);
    struct psti_file_brief *briefs = psti_realloc(files->briefs, files->n * sizeof *briefs);
    files->names.bytes = names != NULL ? names : files->names.bytes;
    files->at = at != NULL ? at : files->at;
    files->briefs = briefs != NULL ? briefs : files->briefs;
}

const char *psti_dataset_files_name(const struct psti_dataset_files *files, size_t i)
{
    const char *name = files->names.bytes + files->at[i >> files->spacing];
    for (size_t left = i & (((size_t)1 << files->spacing) - 1); left > 0; left--)
        name = psti_dataset_files_next(name);
    return name;
}

uint64_t psti_dataset_files_nbytes(const struct psti_dataset_files *files, size_t i)
{
    if (files->briefs[i].nbytes != UINT32_MAX)
        return files->briefs[i].nbytes;
    size_t low = 0, high = files->n_longs;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (files->longs[middle].i <= i)
            low = middle;
        else
            high = middle;
    }
    return files->longs[low].nbytes;
}

struct psti_file_facts psti_dataset_files_facts(const struct psti_dataset_files *files, size_t i)
{
    return (struct psti_file_facts){.nbytes = psti_dataset_files_nbytes(files, i),
                                    .place = files->briefs[i].place,
                                    .stamp = files->briefs[i].stamp};
}

int64_t psti_dataset_column_int(const struct psti_folder_column *column, size_t row)
{
    if (column->runs == NULL)
        return column->ints[row];
    size_t low = 0, high = column->n_runs;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (column->runs[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return column->runs[low].number;
}
