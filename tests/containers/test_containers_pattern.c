/* test_containers_pattern.c - do brace lists and wildcards match what they match in bash? */
#include "test.h"

#include "containers/list/containers_pattern.h"

#include <string.h>

static void expand(const char *pattern, char *out, size_t capacity)
{
    struct psti_container_names names = {0};
    struct pst_error err;
    assert_ok(psti_containers_braces(pattern, 1000, &names, &err));
    out[0] = '\0';
    for (size_t i = 0; i < names.n; i++)
        snprintf(out + strlen(out), capacity - strlen(out), "%s%s", i > 0 ? " " : "", names.at[i]);
    psti_containers_paths_free(&names);
}

static void braces_are_those_of_bash(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a.tar", "a.tar"},
        {"t-{08..11}.tar", "t-08.tar t-09.tar t-10.tar t-11.tar"},
        {"{1..3}", "1 2 3"},
        {"{3..1}", "3 2 1"},
        {"{2..-1}", "2 1 0 -1"},
        {"{-01..1}", "-01 000 001"},
        {"{0..9..4}", "0 4 8"},
        {"{9..0..-4}", "9 5 1"},
        {"{0..2..0}", "0 1 2"},
        {"{a..e..2}{B..A}", "aB aA cB cA eB eA"},
        {"{train,val}-{0..1}", "train-0 train-1 val-0 val-1"},
        {"x{,.b}", "x x.b"},
        {"p{2.{5..6},3.{2,3}}", "p2.5 p2.6 p3.2 p3.3"},
        {"{a}", "{a}"},
        {"{}{a{b,c}}", "{}{ab} {}{ac}"},
        {"\\{a,b\\}", "{a,b}"},
        {"{a\\,b,c}", "a,b c"},
        {"{7..7}", "7"},
    };
    char got[1000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expand(cases[i][0], got, sizeof got);
        assert_string_equal(got, cases[i][1]);
    }
}

static void braces_are_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        enum pst_status status;
    } cases[] = {
        {"{a,b", PST_ERROR_ARGUMENT},
        {"a}", PST_ERROR_ARGUMENT},
        {"{0..1000}", PST_ERROR_LIMIT},
        {"{0..999999999999999999}", PST_ERROR_LIMIT},
        {"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", PST_ERROR_LIMIT},
        {"{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{a}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}",
         PST_ERROR_LIMIT},
    };
    struct pst_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct psti_container_names names = {0};
        assert_int_equal(psti_containers_braces(cases[i].pattern, 1000, &names, &err),
                         cases[i].status);
        assert_int_equal(names.n, 0);
        psti_containers_paths_free(&names);
    }
}

static void wildcards_match_within_a_part(void **state)
{
    (void)state;
    static const char *const yes[][2] = {
        {"*.tar", "a.tar"}, {"*", ""},          {"a?c", "abc"},         {"[a-c]x", "bx"},
        {"[!a-c]x", "dx"},  {"[]]", "]"},       {"s/*.tar", "s/1.tar"}, {"*a*b*", "xaxxbx"},
        {"[ab", "[ab"},     {"*-*/*", "a-b/c"}, {"[a-]", "-"},          {"ab**", "ab"},
    };
    static const char *const no[][2] = {
        {"*.tar", "s/a.tar"}, {"a?c", "a/c"}, {"[a-c]x", "dx"}, {"*", "a/b"},    {"a", "ab"},
        {"ab", "a"},          {"[!a]", "a"},  {"s/*", "t/x"},   {"[^a]x", "/x"},
    };
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!psti_containers_matches(yes[i][0], yes[i][1]))
            fail_msg("'%s' does not match '%s'", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (psti_containers_matches(no[i][0], no[i][1]))
            fail_msg("'%s' matches '%s'", no[i][0], no[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces_are_those_of_bash),
        cmocka_unit_test(braces_are_bounded),
        cmocka_unit_test(wildcards_match_within_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
