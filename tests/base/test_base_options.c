/* Structs that callers pass may have any size: missing members of shorter ones count as zeros, and
 * longer ones must be zero after the members that the library knows. */
#include "test.h"

#include "base/options.h"

#include <string.h>

struct options {
    size_t struct_size;
    uint64_t old, young;
};

static void an_older_struct_is_filled_up(void **state)
{
    (void)state;
    struct pst_error err;
    struct options full;
    const struct options given = {offsetof(struct options, young), 7, 9};
    memset(&full, 0xEE, sizeof full);
    assert_ok(psti_options_copy(&full, sizeof full, &given, "base", &err));
    assert_int_equal(full.struct_size, sizeof full);
    assert_int_equal(full.old, 7);
    assert_int_equal(full.young, 0);
}

static void a_newer_struct_is_taken_if_its_new_members_are_zero(void **state)
{
    (void)state;
    struct pst_error err;
    struct {
        struct options options;
        uint64_t behind;
    } full = {.behind = 5};
    uint64_t given[4] = {sizeof given, 1, 2, 0};
    assert_ok(psti_options_copy(&full.options, sizeof full.options, given, "base", &err));
    assert_int_equal(full.options.struct_size, sizeof full.options);
    assert_int_equal(full.options.old, 1);
    assert_int_equal(full.options.young, 2);
    assert_int_equal(full.behind, 5);
    for (unsigned i = 0; i < sizeof given[3]; i++) {
        given[3] = (uint64_t)1 << 8 * i;
        assert_int_equal(psti_options_copy(&full.options, sizeof full.options, given, "base", &err),
                         PST_ERROR_VERSION);
        assert_non_null(strstr(err.text, "newer"));
        assert_int_equal(full.behind, 5);
    }
}

static void elements_of_any_size_are_read(void **state)
{
    (void)state;
    struct pst_error err;
    uint64_t full[2] = {9, 9};
    const uint64_t given[3] = {1, 2, 3}, newer[3] = {1, 2, 0};
    assert_ok(psti_struct_read(full, sizeof full, given, 8, "item_nbytes", "base", &err));
    assert_int_equal(full[0], 1);
    assert_int_equal(full[1], 0);
    assert_ok(psti_struct_read(full, sizeof full, newer, 24, "item_nbytes", "base", &err));
    assert_int_equal(full[1], 2);
    assert_int_equal(psti_struct_read(full, sizeof full, given, 24, "item_nbytes", "base", &err),
                     PST_ERROR_VERSION);
    assert_int_equal(psti_struct_read(full, sizeof full, given, 0, "item_nbytes", "base", &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "item_nbytes is not set"));
    assert_int_equal(
        psti_struct_read(full, sizeof full, given, SIZE_MAX, "item_nbytes", "base", &err),
        PST_ERROR_ARGUMENT);
}

static void a_result_is_written_as_far_as_it_fits(void **state)
{
    (void)state;
    const uint64_t full[2] = {1, 2};
    uint64_t given[4] = {9, 9, 9, 9};
    psti_struct_write(given, 8, full, sizeof full);
    assert_int_equal(given[0], 1);
    assert_int_equal(given[1], 9);
    psti_struct_write(given, 24, full, sizeof full);
    assert_int_equal(given[1], 2);
    assert_int_equal(given[2], 0); /* a member that the library does not know */
    assert_int_equal(given[3], 9);
}

static void none_is_all_defaults(void **state)
{
    (void)state;
    struct pst_error err;
    struct options full = {1, 2, 3};
    assert_ok(psti_options_copy(&full, sizeof full, NULL, "base", &err));
    assert_int_equal(full.struct_size, sizeof full);
    assert_int_equal(full.old, 0);
    assert_int_equal(full.young, 0);
}

static void a_size_that_cannot_be_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof(size_t); n++) {
        struct pst_error err;
        struct options full, given = {.struct_size = n, .old = 1};
        assert_int_equal(psti_options_copy(&full, sizeof full, &given, "room", &err),
                         PST_ERROR_ARGUMENT);
        assert_string_equal(err.room, "room");
        assert_non_null(strstr(err.text, "struct_size"));
        assert_int_equal(psti_options_copy(&full, sizeof full, &given, "room", NULL),
                         PST_ERROR_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_struct_is_filled_up),
        cmocka_unit_test(a_newer_struct_is_taken_if_its_new_members_are_zero),
        cmocka_unit_test(elements_of_any_size_are_read),
        cmocka_unit_test(a_result_is_written_as_far_as_it_fits),
        cmocka_unit_test(none_is_all_defaults),
        cmocka_unit_test(a_size_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
