/* Options structs of any age: shorter ones are filled up with zeros, longer ones are cut. */
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

static void a_younger_struct_is_cut(void **state)
{
    (void)state;
    struct pst_error err;
    struct {
        struct options options;
        uint64_t behind;
    } full = {.behind = 5};
    const uint64_t given[4] = {sizeof given, 1, 2, 3};
    assert_ok(psti_options_copy(&full.options, sizeof full.options, given, "base", &err));
    assert_int_equal(full.options.struct_size, sizeof full.options);
    assert_int_equal(full.options.old, 1);
    assert_int_equal(full.options.young, 2);
    assert_int_equal(full.behind, 5);
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
        cmocka_unit_test(a_younger_struct_is_cut),
        cmocka_unit_test(none_is_all_defaults),
        cmocka_unit_test(a_size_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
