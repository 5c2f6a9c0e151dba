/* test_dataset_version.c - tests when two open data sets count as the same, how many bytes they
 * have, and what happens to paths and files that change after opening. */
#include "folder_test.h"

#include "dataset/dataset.h"

#include <penstock/penstock.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Gets the version of the folder "f" as it is now. Returns the bytes of its files. */
static uint64_t look(void **state, const struct pst_dataset_options *options, uint8_t version[16])
{
    struct pst_error err;
    uint64_t nbytes = 0;
    pst_dataset *dataset = NULL;
    assert_ok(pst_dataset_open(folder_path(state, "f"), options, &dataset, &err));
    memcpy(version, psti_dataset_bytes_identity(dataset), PST_IDENTITY_NBYTES);
    assert_ok(pst_dataset_nbytes(dataset, &nbytes, &err));
    pst_dataset_close(&dataset);
    return nbytes;
}

static bool changed(void **state, const struct pst_dataset_options *options, uint8_t version[16])
{
    uint8_t before[16];
    memcpy(before, version, 16);
    look(state, options, version);
    return memcmp(before, version, 16) != 0;
}

static void files_tell(void **state)
{
    uint8_t version[16];
    folder_text(state, "f/ant/a.jpg", "one");
    folder_text(state, "f/bee/b.jpg", "three");
    assert_int_equal(look(state, NULL, version), 8);
    assert_false(changed(state, NULL, version));
    folder_text(state, "f/bee/b.jpg", "THREE"); /* a file of the same size with other bytes */
    assert_true(changed(state, NULL, version));
    assert_false(changed(state, NULL, version));
    const struct timespec times[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, folder_path(state, "f/bee/b.jpg"), times, 0), 0);
    assert_true(changed(state, NULL, version));
    folder_text(state, "f/bee/c.jpg", "");
    assert_true(changed(state, NULL, version));
    assert_int_equal(look(state, NULL, version), 8);
}

/* The assignment of masks to images is part of the version, even if the files are the same. */
static void masks_tell(void **state)
{
    static const char *const masks[] = {"m", "k"};
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .masks = masks, .n_masks = 2};
    uint8_t version[16];
    folder_text(state, "f/a.jpg", "1");
    folder_text(state, "f/x.png", "22");
    folder_text(state, "f/y.png", "22");
    folder_text(state, "labels.csv", "file,m,k\na.jpg,x.png,y.png\n");
    options.labels = folder_path(state, "labels.csv");
    assert_int_equal(look(state, &options, version), 5);
    assert_false(changed(state, &options, version));
    folder_text(state, "labels.csv", "file,m,k\na.jpg,y.png,x.png\n");
    assert_true(changed(state, &options, version));
}

static void get(const pst_dataset *dataset, enum pst_identity kind, uint8_t identity[16])
{
    struct pst_error err;
    assert_ok(pst_dataset_identity(dataset, kind, identity, &err));
}

/* A path means the folder that it named when the data set was opened: it is stored as an absolute
 * path without links. */
static void paths_are_resolved_once(void **state)
{
    struct pst_error err;
    char real[PATH_MAX], link[PATH_MAX], here[PATH_MAX], byte;
    pst_dataset *dataset = NULL;
    folder_text(state, "f/a.jpg", "1");
    folder_text(state, "g/a.jpg", "2");
    assert_non_null(realpath(folder_path(state, "f"), real));
    snprintf(link, sizeof link, "%s", folder_path(state, "link"));
    assert_int_equal(symlink("f", link), 0);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder_path(state, "g")), 0);
    assert_ok(pst_dataset_open("../link//", NULL, &dataset, &err));
    assert_int_equal(chdir(here), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("g", link), 0);
    assert_string_equal(pst_dataset_path(dataset), real);
    assert_ok(pst_dataset_read(dataset, 0, 0, 0, 0, 1, &byte, &err));
    assert_int_equal(byte, '1');
    pst_dataset_close(&dataset);
}

/* A replaced file counts as changed, even if its size and modification time are those of the old
 * file. */
static void replaced_files_are_noticed(void **state)
{
    struct pst_error err;
    struct stat st;
    char bytes[3];
    pst_dataset *dataset = NULL;
    folder_text(state, "f/a.jpg", "one");
    folder_text(state, "f/b.jpg", "two");
    assert_ok(pst_dataset_open(folder_path(state, "f"), NULL, &dataset, &err));
    assert_int_equal(stat(folder_path(state, "f/a.jpg"), &st), 0);
    folder_text(state, "f/a.jpg", "ONE");
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, folder_path(state, "f/a.jpg"), times, 0), 0);
    assert_int_equal(pst_dataset_read(dataset, 0, 0, 0, 0, 3, bytes, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "replaced or changed"));
    assert_string_equal(err.file, folder_path(state, "f/a.jpg"));
    assert_ok(pst_dataset_read(dataset, 1, 0, 0, 0, 3, bytes, &err));
    assert_memory_equal(bytes, "two", 3);
    pst_dataset_close(&dataset);
}

/* Compares folders that have the same samples, the same listing or the same file lengths, by each
 * kind of identity. */
static void kinds_of_identities(void **state)
{
    enum { N = 4 };
    static const char *const folders[N] = {"f", "same", "longer", "renamed"};
    uint8_t samples[N][16], listed[N][16], files[N][16], bytes[N][16];
    struct pst_error err;
    folder_text(state, "f/ant/a.jpg", "1");
    folder_text(state, "same/ant/a.jpg", "2");
    folder_text(state, "longer/ant/a.jpg", "333");
    folder_text(state, "renamed/bee/a.jpg", "4");
    for (int i = 0; i < N; i++) {
        pst_dataset *dataset = NULL;
        assert_ok(pst_dataset_open(folder_path(state, folders[i]), NULL, &dataset, &err));
        for (int again = 0; again < 2; again++) /* the second call gets the stored result */
            get(dataset, PST_IDENTITY_SAMPLES, samples[i]);
        get(dataset, PST_IDENTITY_LISTED, listed[i]);
        get(dataset, PST_IDENTITY_FILES, files[i]);
        get(dataset, PST_IDENTITY_BYTES, bytes[i]);
        assert_int_equal(pst_dataset_identity(dataset, (enum pst_identity)0, bytes[i], &err),
                         PST_ERROR_ARGUMENT);
        pst_dataset_close(&dataset);
    }
    assert_memory_equal(samples[0], samples[1], 16);
    assert_memory_equal(samples[0], samples[2], 16);
    assert_memory_not_equal(samples[0], samples[3], 16);
    assert_memory_equal(listed[0], listed[1], 16);
    assert_memory_not_equal(listed[0], listed[2], 16);
    assert_memory_equal(files[0], files[3], 16);
    assert_memory_not_equal(files[0], files[2], 16);
    for (int i = 1; i < N; i++)
        assert_memory_not_equal(bytes[0], bytes[i], 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_tell, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(masks_tell, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(paths_are_resolved_once, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(replaced_files_are_noticed, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(kinds_of_identities, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
