/* real_files.h - real images for tests: the files of a group in the folder that PST_SHARED_DATA
 * names. Without that folder such tests are skipped. */
#ifndef PST_TEST_REAL_FILES_H
#define PST_TEST_REAL_FILES_H

#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct real_file {
    const char *path;
    /* memory of exactly the file's length, to detect over-reads; the callback frees it */
    uint8_t *data;
    size_t nbytes;
};

/* Callback for a file. Returns true if the file counts. */
typedef bool real_file_fn(struct real_file *file, void *context);

/* Returns the folder of the groups, or NULL if there is none. */
static inline const char *real_files_root(void)
{
    const char *root = getenv("PST_SHARED_DATA");
    return root && root[0] ? root : NULL;
}

/* Returns n, multiplied by PENSTOCK_TEST_ROUNDS if that is set. */
static inline uint32_t real_files_rounds(uint32_t n)
{
    const char *more = getenv("PENSTOCK_TEST_ROUNDS");
    return more ? n * (uint32_t)atoi(more) : n;
}

static inline void real_file_read(struct real_file *file)
{
    FILE *stream = fopen(file->path, "rb");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, 0, SEEK_END), 0);
    file->nbytes = (size_t)ftell(stream);
    rewind(stream);
    file->data = malloc(file->nbytes);
    assert_true(file->data || !file->nbytes);
    assert_int_equal(fread(file->data, 1, file->nbytes, stream), file->nbytes);
    fclose(stream);
}

static inline void real_files_below(const char *folder, uint32_t most, uint32_t *n,
                                    real_file_fn *one, void *context)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && *n < most && (entry = readdir(dir));) {
        char path[4096];
        struct real_file file = {.path = path};
        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            fail_msg("a long path: %s", entry->d_name);
        if (entry->d_type == DT_DIR) {
            real_files_below(path, most, n, one, context);
            continue;
        }
        real_file_read(&file);
        *n += one(&file, context);
    }
    if (dir)
        closedir(dir);
}

/* Calls `one` for files of a group and its subfolders, until `most` of them count. Returns how many
 * counted. */
static inline uint32_t real_files(const char *group, uint32_t most, real_file_fn *one,
                                  void *context)
{
    char folder[4096];
    uint32_t n = 0;
    snprintf(folder, sizeof folder, "%s/%s", real_files_root(), group);
    real_files_below(folder, most, &n, one, context);
    return n;
}

#endif
