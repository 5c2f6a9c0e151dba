/* test_loader_environment.c - tests the JSON text in which the library describes its build and the
 * machine. The GPU driver is the tests' own, so all its facts are known. */
#include "test.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int set_up(void **state)
{
    (void)state;
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    return 0;
}

/* Asserts that `text` is one JSON object, judging by braces, brackets and strings. */
static void assert_is_an_object(const char *text)
{
    int depth = 0;
    size_t i = 0;
    assert_int_equal(text[0], '{');
    do {
        if (text[i] == '"')
            for (i++; text[i] != '"'; i++) {
                assert_true((unsigned char)text[i] >= 0x20);
                i += text[i] == '\\';
            }
        depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
        i++;
    } while (depth > 0 && text[i] != '\0');
    assert_int_equal(depth, 0);
    assert_int_equal(text[i], '\0');
}

static void the_environment(void **state)
{
    (void)state;
    size_t length = pst_environment_json(NULL, 0);
    assert_true(pst_cores() >= 1 && pst_cores() <= (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
    char *text = malloc(length + 1), little[12], version[64];
    assert_non_null(text);
    assert_int_equal(pst_environment_json(text, length + 1), length);
    assert_int_equal(strlen(text), length);
    assert_is_an_object(text);
    snprintf(version, sizeof version, "{\"version\": \"%s\"", pst_version());
    assert_int_equal(strncmp(text, version, strlen(version)), 0);
    static const char *const members[] = {
        "\"compiler\": ", "\"cpu_detected\": ", "\"cpu_used\": ", "\"codecs\": {",
        "\"storage\": ",  "\"gpus\": [",        "\"Fake GPU 1\"", PST_FAKE_KERNELS};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (strstr(text, members[i]) == NULL)
            fail_msg("%s is not in %s", members[i], text);
    assert_int_equal(pst_environment_json(little, sizeof little), length);
    assert_memory_equal(little, text, sizeof little - 1);
    assert_int_equal(little[sizeof little - 1], '\0');
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
