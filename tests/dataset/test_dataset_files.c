/* test_dataset_files.c - tests a data set over files that the caller lists: order, names, unusable
 * files, and when it counts as the same data set. */
#include "folder_test.h"

#include "base/alloc.h"
#include "dataset/dataset.h"

#include <penstock/penstock.h>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pst_dataset *open_files(void **state, const char *const *files, size_t n)
{
    const struct pst_dataset_options options = {
        .struct_size = sizeof options, .files = files, .n_files = n};
    struct pst_error err;
    pst_dataset *dataset = NULL;
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    return dataset;
}

static void make_files(void **state)
{
    folder_text(state, "f/sub/b.jpg", "three");
    folder_text(state, "f/a.png", "one");
    folder_text(state, "f/no_ending", "4444");
    folder_text(state, "f/unnamed.jpg", "x");
}

static void rows_are_the_callers(void **state)
{
    static const char *const files[] = {"sub/b.jpg", "no_ending", "a.png"};
    char path[4096], bytes[8] = "";
    struct pst_item item;
    struct pst_error err;
    make_files(state);
    pst_dataset *dataset = open_files(state, files, 3);
    assert_true(pst_dataset_is_folder(dataset));
    assert_int_equal(pst_dataset_count(dataset), 3);
    assert_int_equal(pst_dataset_n_fields(dataset), 1);
    assert_int_equal(pst_dataset_max_item_nbytes(dataset, 0), 5);
    for (uint64_t i = 0; i < 3; i++)
        assert_string_equal(folder_sample_name(dataset, i), files[i]);
    assert_ok(pst_dataset_item(dataset, 1, 0, 0, &item, sizeof item, &err));
    assert_int_equal(item.nbytes, 4);
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    assert_string_equal(path, folder_path(state, "f/no_ending"));
    assert_ok(pst_dataset_read(dataset, 1, 0, 0, 0, 4, bytes, &err));
    assert_string_equal(bytes, "4444");
    pst_dataset_close(&dataset);
}

static void version_of(void **state, const char *const *files, size_t n, uint8_t version[16])
{
    pst_dataset *dataset = open_files(state, files, n);
    memcpy(version, psti_dataset_bytes_identity(dataset), PST_IDENTITY_NBYTES);
    pst_dataset_close(&dataset);
}

static void order_names_and_files_tell(void **state)
{
    static const char *const files[] = {"a.png", "sub/b.jpg"}, *const turned[] = {"sub/b.jpg",
                                                                                  "a.png"};
    uint8_t first[16], other[16];
    make_files(state);
    version_of(state, files, 2, first);
    version_of(state, files, 2, other);
    assert_memory_equal(first, other, 16);
    version_of(state, turned, 2, other);
    assert_memory_not_equal(first, other, 16);
    version_of(state, files, 1, other);
    assert_memory_not_equal(first, other, 16);
    folder_text(state, "f/unnamed.jpg", "y"); /* a file that is not in the list has no effect */
    version_of(state, files, 2, other);
    assert_memory_equal(first, other, 16);
    folder_text(state, "f/sub/b.jpg", "THREE");
    version_of(state, files, 2, other);
    assert_memory_not_equal(first, other, 16);
}

static void fails(void **state, const struct pst_dataset_options *options, enum pst_status status,
                  const char *text)
{
    struct pst_error err;
    pst_dataset *dataset = NULL;
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), options, &dataset, &err), status);
    assert_non_null(strstr(err.text, text));
    assert_null(dataset);
}

static void what_cannot_be(void **state)
{
    static const char *const twice[] = {"a.png", "a.png"}, *const whole[] = {"/etc/passwd"},
                             *const nothing[] = {"a.png", NULL}, *const bad[] = {"a\nb"},
                             *const missing[] = {"a.png", "gone.png", "sub"};
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .files = twice, .n_files = 2};
    make_files(state);
    fails(state, &options, PST_ERROR_ARGUMENT, "named twice");
    options.files = nothing;
    fails(state, &options, PST_ERROR_ARGUMENT, "1 to 4095");
    options.n_files = 1;
    options.files = whole;
    fails(state, &options, PST_ERROR_ARGUMENT, "not relative");
    options.files = bad;
    fails(state, &options, PST_ERROR_ARGUMENT, "control");
    options.labels = folder_text(state, "labels.csv", "file\na.png\n");
    fails(state, &options, PST_ERROR_ARGUMENT, "labels");
    options.labels = NULL;
    options.files = NULL;
    fails(state, &options, PST_ERROR_ARGUMENT, "files");
    options.files = missing;
    options.n_files = 3;
    fails(state, &options, PST_ERROR_NOT_FOUND, "examined");
    options.allow_unreadable = true;
    struct pst_error err;
    pst_dataset *dataset = NULL;
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 1);
    assert_int_equal(pst_dataset_n_skipped(dataset), 2);
    assert_int_equal(pst_dataset_n_notices(dataset), 2);
    pst_dataset_close(&dataset);
    options.files = missing + 1;
    options.n_files = 1;
    fails(state, &options, PST_ERROR_NOT_FOUND, "none of the files");
}

/* psti_dataset_by_path gives the samples sorted by path, or NULL if they already are. The order
 * does not depend on inodes. */
static void samples_by_path(void **state)
{
    static const char *const files[] = {"sub/b.jpg", "unnamed.jpg", "no_ending", "a.png"};
    static const char *const sorted[] = {"a.png", "no_ending", "sub/b.jpg", "unnamed.jpg"};
    static const uint32_t expected[] = {3, 2, 0, 1};
    struct pst_error err;
    uint32_t *samples = NULL;
    make_files(state);
    pst_dataset *dataset = open_files(state, files, 4);
    assert_ok(psti_dataset_by_path(dataset, &samples, &err));
    assert_memory_equal(samples, expected, sizeof expected);
    psti_free(samples);
    pst_dataset_close(&dataset);
    dataset = open_files(state, sorted, 4);
    assert_ok(psti_dataset_by_path(dataset, &samples, &err));
    assert_null(samples);
    pst_dataset_close(&dataset);
}

static void places_are_inodes(void **state)
{
    static const char *const files[] = {"sub/b.jpg", "unnamed.jpg", "no_ending", "a.png"};
    char path[4096];
    struct pst_error err;
    make_files(state);
    pst_dataset *dataset = open_files(state, files, 4);
    for (uint32_t i = 0; i < 4; i++) {
        struct stat st;
        assert_ok(pst_dataset_file_path(dataset, i, path, sizeof path, &err));
        assert_int_equal(stat(path, &st), 0);
        if (st.st_ino < (1u << 26)) /* one device; larger inode numbers are rounded */
            assert_int_equal(psti_dataset_file_place(dataset, i), st.st_ino);
    }
    assert_int_equal(psti_dataset_file_place(dataset, 4), 0);
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_by_path, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(places_are_inodes, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(rows_are_the_callers, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(order_names_and_files_tell, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
