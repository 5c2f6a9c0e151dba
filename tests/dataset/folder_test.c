/* folder_test.c - implements folder_test.h. */
#include "folder_test.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int folder_setup(void **state)
{
    const char *base = getenv("TMPDIR");
    char *path = malloc(4096);
    snprintf(path, 4096, "%s/penstock-folder-XXXXXX", base != NULL ? base : "/tmp");
    *state = path;
    return mkdtemp(path) == NULL ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int folder_teardown(void **state)
{
    nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

const char *folder_path(void **state, const char *relative)
{
    static char paths[8][8192];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", (const char *)*state, relative);
    return path;
}

void folder_mkdir(void **state, const char *relative)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", (const char *)*state, relative);
    for (char *p = path + strlen(*state) + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
        *p = '/';
    }
    assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
}

const char *folder_file(void **state, const char *relative, const void *bytes, size_t nbytes)
{
    char parent[8192];
    const char *path = folder_path(state, relative);
    const char *slash = strrchr(relative, '/');
    if (slash != NULL) {
        snprintf(parent, sizeof parent, "%.*s", (int)(slash - relative), relative);
        folder_mkdir(state, parent);
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *folder_text(void **state, const char *relative, const char *text)
{
    return folder_file(state, relative, text, strlen(text));
}

pst_dataset *folder_open(void **state, const char *relative, const char *labels)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .labels = labels};
    struct pst_error err;
    pst_dataset *dataset = NULL;
    pst_error_clear(&err);
    assert_ok(pst_dataset_open(folder_path(state, relative), &options, &dataset, &err));
    assert_non_null(dataset);
    return dataset;
}

const char *folder_open_fails(void **state, const char *relative, const char *labels,
                              enum pst_status status)
{
    static char line[4096];
    struct pst_dataset_options options = {.struct_size = sizeof options, .labels = labels};
    struct pst_error err;
    pst_dataset *dataset = (pst_dataset *)(void *)line;
    pst_error_clear(&err);
    enum pst_status got = pst_dataset_open(folder_path(state, relative), &options, &dataset, &err);
    pst_error_format(&err, line, sizeof line);
    if (got != status)
        print_error("%s: %s\n", pst_status_name(got), line);
    assert_int_equal(got, status);
    assert_int_equal(err.status, status);
    assert_null(dataset);
    return line;
}

const char *folder_sample_name(const pst_dataset *dataset, uint64_t sample)
{
    struct pst_error err;
    static char names[2][PST_NAME_CAP];
    static unsigned i_name;
    char *name = names[i_name++ % 2];
    assert_ok(pst_dataset_sample_name(dataset, sample, name, &err));
    return name;
}
