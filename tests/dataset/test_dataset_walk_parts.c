/* test_dataset_walk_parts.c - several processes make an index together: it has the bytes of an
 * index made by one process, no file is walked over twice, and allocations, reads and writes fail
 * at each call. */
#include "folder_test.h"
#include "toy_table.h"

#include "base/fault.h"
#include "dataset/dataset.h"

#include <penstock/index.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_FILES = 4, N_PER_FILE = 9 };

static struct pst_error err; /* error of the last call */

static int setup(void **state)
{
    char name[64];
    int failed = folder_setup(state);
    folder_mkdir(state, "data");
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    for (uint32_t i = 0; i < N_FILES; i++) {
        snprintf(name, sizeof name, "data/part-%u.toy", i);
        toy_write(folder_path(state, name), i * N_PER_FILE, N_PER_FILE);
    }
    return failed;
}

/* A step of the work. part 0 of 0: one process makes the whole index; merge: joins n_parts
 * parts. */
struct work {
    uint32_t part, n_parts;
    bool merge, sums;
};

static enum pst_status make(void **state, const struct work *work, struct pst_index_report *report,
                            pst_dataset **dataset)
{
    const struct pst_dataset_options source = {.struct_size = sizeof source, .sums = work->sums};
    const struct pst_index_options options = {.struct_size = sizeof options,
                                              .source = &source,
                                              .part = work->part,
                                              .n_parts = work->n_parts,
                                              .merge = work->merge};
    pst_error_clear(&err);
    return pst_dataset_index_make(folder_path(state, "data"), &options, report, sizeof *report,
                                  dataset, &err);
}

/* Reads a file and removes it. The caller frees the bytes. */
static uint8_t *take_file(const char *path, size_t *nbytes)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    uint8_t *bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, (size_t)st.st_size, 1, file), 1);
    fclose(file);
    assert_int_equal(unlink(path), 0);
    *nbytes = (size_t)st.st_size;
    return bytes;
}

/* Returns the bytes of the index that one process makes. */
static uint8_t *made_alone(void **state, bool sums, size_t *nbytes)
{
    const struct work work = {.sums = sums};
    struct pst_index_report report = {0};
    pst_dataset *dataset;
    assert_ok(make(state, &work, &report, &dataset));
    assert_true(report.was_made);
    uint8_t *bytes = take_file(pst_dataset_index_path(dataset), nbytes);
    pst_dataset_close(&dataset);
    return bytes;
}

static void assert_same(const pst_dataset *dataset, const uint8_t *wanted, size_t n_wanted)
{
    size_t nbytes;
    uint8_t *bytes = take_file(pst_dataset_index_path(dataset), &nbytes);
    assert_int_equal(nbytes, n_wanted);
    assert_memory_equal(bytes, wanted, nbytes);
    free(bytes);
}

static void each_file_is_walked_over_once(void **state)
{
    for (int sums = 0; sums < 2; sums++) {
        size_t n_wanted;
        uint8_t *wanted = made_alone(state, sums != 0, &n_wanted);
        struct pst_index_report report = {0};
        pst_dataset *dataset;
        unsigned before = toy_n_walks;
        struct work work = {.part = 2, .n_parts = 3, .sums = sums != 0};
        assert_ok(make(state, &work, &report, &dataset));
        assert_null(dataset);
        assert_int_equal(report.n_files, 1);
        assert_int_equal(report.n_made_before, 0);
        assert_int_equal(toy_n_walks - before, 1);
        work = (struct work){.part = 1, .n_parts = 1, .sums = sums != 0};
        assert_ok(make(state, &work, &report, &dataset));
        assert_int_equal(report.n_files, N_FILES);
        assert_int_equal(report.n_made_before, 1);
        assert_int_equal(toy_n_walks - before, N_FILES);
        work = (struct work){.merge = true, .sums = sums != 0};
        assert_ok(make(state, &work, &report, &dataset));
        assert_true(report.was_made);
        assert_int_equal(pst_dataset_count(dataset), N_FILES * N_PER_FILE);
        assert_int_equal(psti_dataset_can_check_bytes(dataset), sums);
        assert_int_equal(toy_n_walks - before, N_FILES); /* the merge walks over no file */
        assert_same(dataset, wanted, n_wanted);
        pst_dataset_close(&dataset);
        free(wanted);
    }
}

/* Makes all parts and merges them. Returns the first failure. */
static enum pst_status do_all(void **state, pst_dataset **dataset)
{
    struct pst_index_report report;
    struct work work = {.n_parts = 2, .sums = true};
    enum pst_status status = PST_OK;
    for (work.part = 1; status == PST_OK && work.part <= 2; work.part++)
        status = make(state, &work, &report, dataset);
    work = (struct work){.merge = true, .sums = true};
    return status == PST_OK ? make(state, &work, &report, dataset) : status;
}

static void failures_leave_nothing_wrong(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_READ,
                                                 PSTI_FAULT_WRITE};
    size_t n_wanted;
    uint8_t *wanted = made_alone(state, true, &n_wanted);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uint64_t n = 1, n_failed = 0;
        for (bool was_reached = true; was_reached; n += 1 + n / 12) {
            pst_dataset *dataset = NULL;
            psti_fault_arm(kinds[k], n, false);
            enum pst_status status = do_all(state, &dataset);
            was_reached = psti_fault_count(kinds[k]) >= n;
            psti_fault_arm(kinds[k], 0, false);
            n_failed += status != PST_OK;
            assert_true(status == PST_OK || (was_reached && err.text[0] != '\0'));
            if (status != PST_OK)
                assert_ok(do_all(state, &dataset));
            assert_same(dataset, wanted, n_wanted);
            pst_dataset_close(&dataset);
        }
        assert_true(n_failed > 10);
    }
    free(wanted);
}

static void wrong_use(void **state)
{
    static const struct pst_index_options wrong[] = {
        {.struct_size = sizeof(struct pst_index_options), .part = 3, .n_parts = 2},
        {.struct_size = sizeof(struct pst_index_options), .part = 0, .n_parts = 2},
        {.struct_size = sizeof(struct pst_index_options), .part = 1, .n_parts = 2, .merge = true},
        {.struct_size = sizeof(struct pst_index_options), .check = true, .merge = true},
    };
    pst_dataset *dataset;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            pst_dataset_index_make(folder_path(state, "data"), &wrong[i], NULL, 0, &dataset, &err),
            PST_ERROR_ARGUMENT);
        assert_null(dataset);
    }
    const struct work merge = {.merge = true};
    struct pst_index_report report;
    assert_int_equal(make(state, &merge, &report, &dataset), PST_ERROR_INCOMPLETE);
    assert_non_null(strstr(err.text, "4 of 4 files are in no part of the index yet"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_file_is_walked_over_once, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(failures_leave_nothing_wrong, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_use, setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
