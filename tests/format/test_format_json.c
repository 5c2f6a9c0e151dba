/* test_format_json.c - tests which JSON a data set accepts. python/tests/test_text.py compares the
 * same texts with Python's json. */
#include "test.h"

#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>

static bool good(const char *text)
{
    /* The text is copied to memory of exactly its length, so that a sanitizer detects
     * over-reads. */
    size_t n = strlen(text);
    char *copy = malloc(n + 1);
    memcpy(copy, text, n);
    copy = realloc(copy, n > 0 ? n : 1);
    bool is_good = psti_format_json_problem(copy, n) == NULL;
    free(copy);
    return is_good;
}

static void values(void **state)
{
    (void)state;
    static const char *const right[] = {"null",
                                        "true",
                                        " false\n",
                                        "0",
                                        "-0",
                                        "-12.5e+3",
                                        "1E5",
                                        "1e999",
                                        "NaN",
                                        "Infinity",
                                        "-Infinity",
                                        "\"\"",
                                        "\"\\u0000\\ud800\\\"\\/\\b\"",
                                        "\"\xE2\x82\xAC\x7F\"",
                                        "[]",
                                        "[ ]",
                                        "{}",
                                        "{ }",
                                        "[1,2 , [3]]",
                                        "{\"a\":1,\"a\" : {\"b\":[{}]}}",
                                        "\t\r\n[\n]\r\n",
                                        "[[],[]]",
                                        "[{},{}]",
                                        "9223372036854775808123456789"};
    static const char *const wrong[] = {"",
                                        " ",
                                        "nul",
                                        "True",
                                        "nan",
                                        "-NaN",
                                        "+1",
                                        "01",
                                        "-",
                                        "-01",
                                        "1.",
                                        ".5",
                                        "1.e5",
                                        "1e",
                                        "1e+",
                                        "--1",
                                        "0x1",
                                        "\"",
                                        "\"\\\"",
                                        "\"\\x\"",
                                        "\"\\u12\"",
                                        "\"\\u12g4\"",
                                        "\"\n\"",
                                        "'a'",
                                        "[",
                                        "]",
                                        "[1",
                                        "[1,",
                                        "[1,]",
                                        "[,1]",
                                        "[1 2]",
                                        "{",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1,}",
                                        "{1:2}",
                                        "{a:1}",
                                        "[}",
                                        "{]",
                                        "[1]]",
                                        "1 2",
                                        "null null",
                                        ("\xEF\xBB\xBF"
                                         "1"),
                                        "\"\xFF\"",
                                        "\"\xED\xA0\x80\"",
                                        "\"\xC0\x80\"",
                                        "//1",
                                        "[1]//",
                                        "\"\t\"",
                                        "\v1",
                                        "-Inf"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        if (!good(right[i]))
            fail_msg("refused: %s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (good(wrong[i]))
            fail_msg("taken: %s", wrong[i]);
    assert_non_null(psti_format_json_problem("1\0", 2));
    assert_non_null(psti_format_json_problem("\0", 1));
    assert_non_null(psti_format_json_problem("\"\0\"", 3));
    assert_non_null(psti_format_json_problem("\"\\\0\"", 4));
}

static void bounds(void **state)
{
    (void)state;
    char deep[2 * (PSTI_JSON_MAX_DEPTH + 1)], digits[4302];
    for (unsigned n = PSTI_JSON_MAX_DEPTH; n <= PSTI_JSON_MAX_DEPTH + 1; n++) {
        memset(deep, '[', n);
        memset(deep + n, ']', n);
        assert_true((psti_format_json_problem(deep, 2 * n) == NULL) == (n == PSTI_JSON_MAX_DEPTH));
    }
    memset(digits, '7', sizeof digits);
    assert_null(psti_format_json_problem(digits, 4300));
    assert_non_null(psti_format_json_problem(digits, 4301));
    digits[4301] = '.';
    digits[0] = '-';
    assert_null(psti_format_json_problem(digits, 4301));
    assert_non_null(psti_format_json_problem(digits, 4302));
    digits[4300] = 'e';
    digits[4301] = '7';
    assert_null(psti_format_json_problem(digits, 4302));
}

static void of_fields(void **state)
{
    (void)state;
    assert_null(psti_format_text_problem(PST_FIELD_JSON, "", 0));
    assert_null(psti_format_text_problem(PST_FIELD_TEXT, "{", 1));
    assert_non_null(psti_format_text_problem(PST_FIELD_JSON, "{", 1));
    assert_non_null(psti_format_text_problem(PST_FIELD_TEXT, "\xFF", 1));
    assert_null(psti_format_text_problem(PST_FIELD_BYTES, "\xFF", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(bounds),
        cmocka_unit_test(of_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
