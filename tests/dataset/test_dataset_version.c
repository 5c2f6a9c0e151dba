/* test_dataset_version.c - when two open data sets count as the same bytes, and how many they are.
 */
#include "folder_test.h"

#include "dataset/dataset.h"

#include <penstock/penstock.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The version of the folder "f" as it is now, and the bytes of its files. */
static uint64_t look(void **state, const struct pst_dataset_options *options, uint8_t version[16])
{
    struct pst_error err;
    uint64_t nbytes = 0;
    pst_dataset *dataset = NULL;
    assert_ok(pst_dataset_open(folder_path(state, "f"), options, &dataset, &err));
    psti_dataset_version(dataset, version);
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
    folder_text(state, "f/bee/b.jpg", "THREE"); /* the same size, other bytes */
    assert_true(changed(state, NULL, version));
    assert_false(changed(state, NULL, version));
    const struct timespec times[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, folder_path(state, "f/bee/b.jpg"), times, 0), 0);
    assert_true(changed(state, NULL, version));
    folder_text(state, "f/bee/c.jpg", "");
    assert_true(changed(state, NULL, version));
    assert_int_equal(look(state, NULL, version), 8);
}

/* Which image has which masks is part of it, though the files are the same. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_tell, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(masks_tell, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
