/* test_containers_parquet_damage.c - does a damaged Parquet file give an error that names the
 * place, and never values from outside of the file? The sink reads every place that the walk
 * gives. */
#include "test.h"

#include "parquet_helper.h"

#include "base/bits.h"
#include "base/fault.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;
static const char *const names[] = {"pyarrow_v2_zstd",  "pyarrow_lists", "polars_snappy",
                                    "fastparquet_none", "datasets",      "pyarrow_encodings"};
enum { N_NAMES = sizeof names / sizeof *names };

static void check_error(enum pst_status status, const struct pst_error *err)
{
    if (status == PST_OK)
        return;
    assert_int_equal(err->status, status);
    assert_true(err->text[0] != '\0');
    if (strcmp(err->file, "a/train.parquet") != 0)
        fail_msg("\"%s\" names the file \"%s\"", err->text, err->file);
}

/* A truncated file has no footer, so no row is given. */
static void a_file_that_is_cut_gives_nothing(void **state)
{
    (void)state;
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(file);
    for (size_t i = 0; i < N_NAMES; i++) {
        parquet_open(file, folder, names[i]);
        size_t whole = file->nbytes, step = whole / 31 + 1;
        for (size_t n = 0; n < whole; n += n + 32 < whole ? step : 1) {
            struct psti_walk_counts counts;
            struct pst_error err;
            file->nbytes = n;
            enum pst_status status = parquet_walk(file, n, NULL, 0, &counts, &err);
            assert_true(status == PST_ERROR_CORRUPT || status == PST_ERROR_TRUNCATED);
            check_error(status, &err);
            assert_true(err.offset >= 0);
            assert_int_equal(file->n_rows, 0);
        }
        parquet_close(file);
    }
    free(file);
}

/* Changes one byte at a time and walks. */
static void changed_bytes_are_refused_or_do_no_harm(void **state)
{
    (void)state;
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(file);
    for (size_t i = 0; i < N_NAMES; i++) {
        parquet_open(file, folder, names[i]);
        file->is_silent = true;
        file->most_rows = 1000;
        size_t footer = file->nbytes - 8 - psti_load_u32(file->bytes + file->nbytes - 8), n_bad = 0;
        size_t in_pages = footer / 40 + 1, in_footer = (file->nbytes - footer) / 120 + 1;
        for (size_t at = 0; at < file->nbytes; at += at < footer ? in_pages : in_footer) {
            static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x10};
            uint8_t mask = masks[at % 4];
            struct psti_walk_counts counts;
            struct pst_error err;
            file->bytes[at] ^= mask;
            enum pst_status status = parquet_walk(file, file->nbytes, NULL, 0, &counts, &err);
            check_error(status, &err);
            n_bad += status != PST_OK;
            file->bytes[at] ^= mask;
        }
        assert_true(n_bad > 10);
        parquet_close(file);
    }
    free(file);
}

/* Checksums cover every byte of this file's pages, so any change is an error. */
static void a_wrong_checksum_is_an_error(void **state)
{
    (void)state;
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(file);
    struct psti_walk_counts counts;
    struct pst_error err;
    parquet_open(file, folder, "pyarrow_v2_none");
    /* Finds the first JPEG, which lies somewhere in a page. */
    size_t at = 0;
    while (memcmp(file->bytes + at, "\xff\xd8\xff", 3) != 0)
        at++;
    file->bytes[at + 100] ^= 1;
    assert_int_equal(parquet_walk(file, file->nbytes, NULL, 0, &counts, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "checksum"));
    assert_non_null(strstr(err.text, "column \"image\""));
    assert_true(err.offset > 0 && (size_t)err.offset < at);
    assert_int_equal(file->n_rows, 0);
    parquet_close(file);
    free(file);
}

/* Each allocation that fails is an error, and nothing leaks. */
static void memory_that_is_missing_is_an_error(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(file);
    for (size_t i = 0; i < N_NAMES; i++) {
        parquet_open(file, folder, names[i]);
        file->is_silent = true;
        for (uint64_t n = 1;; n++) {
            struct psti_walk_counts counts;
            struct pst_error err;
            psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
            enum pst_status status = parquet_walk(file, file->nbytes, NULL, 0, &counts, &err);
            uint64_t n_calls = psti_fault_count(PSTI_FAULT_ALLOC);
            psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
            if (n_calls < n) {
                assert_ok(status);
                break;
            }
            if (status != PST_ERROR_MEMORY)
                fail_msg("%s, allocation %" PRIu64 ": %s", names[i], n, pst_status_name(status));
        }
        parquet_close(file);
    }
    free(file);
#else
    skip();
#endif
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_cut_gives_nothing),
        cmocka_unit_test(changed_bytes_are_refused_or_do_no_harm),
        cmocka_unit_test(a_wrong_checksum_is_an_error),
        cmocka_unit_test(memory_that_is_missing_is_an_error),
    };
    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
