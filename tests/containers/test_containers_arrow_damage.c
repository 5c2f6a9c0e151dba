/* test_containers_arrow_damage.c - is any damage of an Arrow file detected, or harmless?
 *
 * Every file is truncated and changed at many places. A walk may find rows or return an error
 * with a text. No value may lie outside of the file, and allocations that fail must be reported. */
#include "test.h"

#include "arrow_helper.h"

#include "base/fault.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

#define FOLDER PST_GOLDEN "/containers/arrow/"

static const char *const names[] = {
    "numbers_old.arrow", "values.arrow",     "slices.arrow",
    "values_zstd.arrow", "views.arrow",      "dictionaries.arrow",
    "deltas.arrow",      "polars_lz4.arrow", "saved/data-00000-of-00002.arrow",
};

static uint8_t *read_golden(size_t i, size_t *nbytes)
{
    char path[1024];
    snprintf(path, sizeof path, FOLDER "%s", names[i]);
    uint8_t *bytes = arrow_read_file(path, nbytes);
    assert_non_null(bytes);
    return bytes;
}

/* Copies the bytes into memory of exactly their size and walks, so a sanitizer detects reads beyond
 * them. */
static enum pst_status try(const uint8_t *bytes, size_t nbytes)
{
    struct pst_error err = {0};
    uint8_t *copy = malloc(nbytes > 0 ? nbytes : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, nbytes);
    struct arrow_walk walk = {.bytes = copy, .nbytes = nbytes};
    enum pst_status status = arrow_walk(&walk, NULL, 0, &err);
    assert_true(status == PST_OK || err.text[0] != '\0');
    assert_int_equal(status, status == PST_OK ? PST_OK : err.status);
    /* A page that cannot be decoded is detected when it is read. Without pages all values must lie
     * in the file. */
    assert_true(!walk.has_bad_value || walk.n_pages > 0);
    arrow_free(&walk);
    free(copy);
    return status;
}

static void cut_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t nbytes = 0;
        uint8_t *bytes = read_golden(i, &nbytes);
        assert_int_equal(try(bytes, nbytes), PST_OK);
        for (size_t n = 0; n + 8 < nbytes; n += 1 + nbytes / 150)
            /* A truncated file is only complete if it is a stream that ends between two
             * messages. */
            if (memcmp(bytes, "ARROW1", 6) == 0)
                assert_int_not_equal(try(bytes, n), PST_OK);
            else
                (void)try(bytes, n);
        free(bytes);
    }
}

static void changed_files(void **state)
{
    (void)state;
    uint32_t word = 12345;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t nbytes = 0;
        uint8_t *bytes = read_golden(i, &nbytes);
        for (size_t k = 0; k < 600; k++) {
            word = word * 1664525 + 1013904223;
            /* Half of the changes are near the ends, where most of the metadata is. */
            size_t span = k % 2 == 0 ? nbytes : nbytes < 3000 ? nbytes : 3000;
            size_t at = (word >> 4) % span;
            at = k % 4 == 3 ? nbytes - 1 - at : at;
            uint8_t was = bytes[at];
            bytes[at] ^= (uint8_t)(1U << (word >> 28) % 8);
            (void)try(bytes, nbytes);
            bytes[at] = (word & 8) != 0 ? 0xff : 0;
            (void)try(bytes, nbytes);
            bytes[at] = was;
        }
        free(bytes);
    }
}

#ifdef PST_FAULTS
static void memory_that_fails(void **state)
{
    (void)state;
    static const size_t which[] = {3, 4, 5, 8};
    for (size_t k = 0; k < sizeof which / sizeof *which; k++) {
        size_t nbytes = 0;
        uint8_t *bytes = read_golden(which[k], &nbytes);
        char *want = NULL;
        enum pst_status status = PST_ERROR_MEMORY;
        for (uint64_t i = 0; i == 0 || (status != PST_OK && i < 2000); i++) {
            struct arrow_walk walk = {.bytes = bytes, .nbytes = nbytes};
            struct pst_error err = {0};
            psti_fault_arm(PSTI_FAULT_ALLOC, i, false);
            status = arrow_walk(&walk, NULL, 0, &err);
            psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
            assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
            char *got = arrow_listing(&walk);
            if (i == 0)
                want = got;
            else if (status == PST_OK) /* a walk that succeeds left nothing out */
                assert_string_equal(got, want);
            if (i > 0)
                free(got);
            arrow_free(&walk);
        }
        assert_int_equal(status, PST_OK);
        free(want);
        free(bytes);
    }
}
#endif

static void reads_that_fail(void **state)
{
    (void)state;
    size_t nbytes = 0;
    uint8_t *bytes = read_golden(5, &nbytes);
    enum pst_status status = PST_ERROR_IO;
    for (uint64_t i = 1; status != PST_OK && i < 5000; i++) {
        struct arrow_walk walk = {.bytes = bytes, .nbytes = nbytes, .fails_at = i};
        struct pst_error err = {0};
        status = arrow_walk(&walk, NULL, 0, &err);
        assert_true(status == PST_OK || status == PST_ERROR_IO);
        arrow_free(&walk);
    }
    assert_int_equal(status, PST_OK);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_files),
        cmocka_unit_test(changed_files),
#ifdef PST_FAULTS
        cmocka_unit_test(memory_that_fails),
#endif
        cmocka_unit_test(reads_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
