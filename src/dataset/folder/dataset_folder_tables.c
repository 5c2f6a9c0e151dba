/* dataset_folder_tables.c - the tables of a plain folder: adds columns, stores facts of files,
 * frees all.
 *
 * A folder may have millions of files, so a file takes only 12 bytes and its name: 32 bits each for
 * size, stamp and place on the disk; of 32 names, one offset is stored. Tables grow by parts that
 * do not move, so growing copies nothing. Filled by one thread at open; any thread may read
 * them. */
#include "dataset/folder/dataset_folder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/stamp.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A file's place (psti_dataset_file_place): the highest bits tell the device. The rest is the inode
 * number; large ones are stored like a floating-point number. */
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
    /* Allocated for the largest number of columns, so that pointers to columns stay valid. */
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

/* Returns the index of the file's device in folder->devices, after adding it if needed;
 * PSTI_DATASET_FOLDER_DEVICES_MAX if the table is full. */
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

/* Maps an inode number to `bits` bits and keeps the order: larger numbers never get smaller
 * results. Numbers below 2^(bits - EXPONENT_BITS + 1) are unchanged. */
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
    psti_dataset_store_free(&files->names);
    for (size_t i = 0; i < files->n_parts; i++)
        psti_free(files->parts[i].at);
    psti_free(files->parts);
    psti_free(files->longs);
    memset(files, 0, sizeof *files);
}

static size_t group_mask(const struct psti_dataset_files *files)
{
    return ((size_t)1 << files->spacing) - 1;
}

static uint64_t *at_of(const struct psti_dataset_files *files, size_t i)
{
    return &files->parts[i / PSTI_DATASET_FILES_PART]
                .at[i % PSTI_DATASET_FILES_PART >> files->spacing];
}

static struct psti_file_brief *brief_of(const struct psti_dataset_files *files, size_t i)
{
    return &files->parts[i / PSTI_DATASET_FILES_PART].briefs[i % PSTI_DATASET_FILES_PART];
}

static enum pst_status add_part(struct psti_dataset_files *files, struct pst_error *err)
{
    if (files->n_parts == files->parts_capacity) {
        size_t capacity = files->parts_capacity + files->parts_capacity / 2 + 16;
        struct psti_files_part *parts = psti_realloc(files->parts, capacity * sizeof *parts);
        if (parts == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu files",
                             files->n + 1);
        files->parts = parts;
        files->parts_capacity = capacity;
    }
    size_t n_at = PSTI_DATASET_FILES_PART >> files->spacing;
    uint64_t *at =
        psti_alloc(n_at * sizeof *at + PSTI_DATASET_FILES_PART * sizeof *files->parts->briefs);
    if (at == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu files",
                         files->n + 1);
    files->parts[files->n_parts++] =
        (struct psti_files_part){.at = at, .briefs = (struct psti_file_brief *)(void *)(at + n_at)};
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

/* Appends the name of the next file. All names of a group must be contiguous in one block. If a
 * name does not fit, its group is copied to the next block first. */
static enum pst_status add_name(struct psti_dataset_files *files, const char *name,
                                struct pst_error *err)
{
    struct psti_dataset_store *names = &files->names;
    const struct psti_dataset_block *last = names->n == 0 ? NULL : &names->blocks[names->n - 1];
    size_t nbytes = strlen(name) + 1, n_before = 0;
    const char *before = NULL; /* first name of the group */
    uint64_t *at = at_of(files, files->n);
    bool fits = last != NULL && last->capacity - last->nbytes >= nbytes;
    if ((files->n & group_mask(files)) != 0 && !fits) {
        before = last->bytes + (uint32_t)*at;
        n_before = last->nbytes - (uint32_t)*at;
    }
    enum pst_status status = psti_dataset_store_room(names, n_before + nbytes, err);
    if (status != PST_OK)
        return status;
    struct psti_dataset_block *block = &names->blocks[names->n - 1];
    if (!fits || (files->n & group_mask(files)) == 0)
        *at = (uint64_t)(names->n - 1) << 32 | block->nbytes;
    if (n_before > 0)
        memcpy(block->bytes + block->nbytes, before, n_before);
    memcpy(block->bytes + block->nbytes + n_before, name, nbytes);
    block->nbytes += (uint32_t)(n_before + nbytes);
    return PST_OK;
}
_Static_assert((PSTI_DATASET_FOLDER_NAME_CAP << PSTI_DATASET_FILES_SPACING) <=
                   PSTI_DATASET_BLOCK_NBYTES,
               "a block has room for a group of the longest names");

enum pst_status psti_dataset_files_add(struct psti_dataset_files *files, const char *name,
                                       const struct psti_file_facts *facts, struct pst_error *err)
{
    bool is_long = facts->nbytes >= UINT32_MAX;
    enum pst_status status =
        files->n == files->n_parts * PSTI_DATASET_FILES_PART ? add_part(files, err) : PST_OK;
    if (status == PST_OK)
        status = add_name(files, name, err);
    if (status == PST_OK && is_long)
        status = add_long(files, facts->nbytes, err);
    if (status != PST_OK)
        return status;
    *brief_of(files, files->n++) =
        (struct psti_file_brief){.nbytes = is_long ? UINT32_MAX : (uint32_t)facts->nbytes,
                                 .place = facts->place,
                                 .stamp = facts->stamp};
    return PST_OK;
}

void psti_dataset_files_trim(struct psti_dataset_files *files)
{
    size_t n = files->n % PSTI_DATASET_FILES_PART;
    size_t n_at = PSTI_DATASET_FILES_PART >> files->spacing;
    psti_dataset_store_trim(&files->names);
    if (n == 0)
        return;
    struct psti_files_part *last = &files->parts[files->n_parts - 1];
    uint64_t *at = psti_realloc(last->at, n_at * sizeof *at + n * sizeof *last->briefs);
    if (at != NULL)
        *last = (struct psti_files_part){.at = at,
                                         .briefs = (struct psti_file_brief *)(void *)(at + n_at)};
}

const char *psti_dataset_files_name(const struct psti_dataset_files *files, size_t i)
{
    uint64_t at = *at_of(files, i);
    const char *name = files->names.blocks[at >> 32].bytes + (uint32_t)at;
    for (size_t left = i & group_mask(files); left > 0; left--)
        name += strlen(name) + 1;
    return name;
}

uint64_t psti_dataset_files_nbytes(const struct psti_dataset_files *files, size_t i)
{
    uint32_t nbytes = brief_of(files, i)->nbytes;
    if (nbytes != UINT32_MAX)
        return nbytes;
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
    const struct psti_file_brief *brief = brief_of(files, i);
    return (struct psti_file_facts){.nbytes = psti_dataset_files_nbytes(files, i),
                                    .place = brief->place,
                                    .stamp = brief->stamp};
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
