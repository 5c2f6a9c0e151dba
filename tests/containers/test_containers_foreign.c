/* test_containers_foreign.c - is an index file of another program recognised, and told apart from
 * one that fits the tar? */
#include "test.h"

#include "containers/list/containers_foreign.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t offsets[] = {0, 1536, 4096};

static void assert_text(const char *text, const char *cause)
{
    struct pst_error err = {0};
    bool fits = psti_containers_foreign_fits("a.idx", text, strlen(text), offsets, 3, &err);
    assert_int_equal(fits, cause == NULL);
    if (cause != NULL && strstr(err.text, cause) == NULL)
        print_error("%s\nsays: %s\n", text, err.text);
    assert_true(cause == NULL || strstr(err.text, cause) != NULL);
}

static void lines_of_wds2idx_are_compared(void **state)
{
    (void)state;
    assert_text("v1.2 3\njpg 512 3 a.jpg cls 1024 1 a.cls\njpg 2048 3 b c.jpg\njpg 5632 1 c.jpg\n",
                NULL);
    assert_text("v1.1 3\njpg 512 3\njpg 2048 3\njpg 5632 1", NULL);
    assert_text("v1.2 2\njpg 512 3 a.jpg\njpg 2048 3 b.jpg\n",
                "so many samples: 2 in the index, 3");
    assert_text("v1.2 3\njpg 512 3 a\njpg 4608 3 b\njpg 5632 1 c\n", "near byte 4608");
    assert_text("v1.2 3\njpg 512 3 a\njpg 1536 3 b\njpg 5632 1 c\n", "near byte 1536");
    assert_text("v1.2 3\njpg 512 3 a\n", "line 3 is not what wds2idx writes");
    assert_text("v1.2 3\njpg 512 3 a\njpg x 3 b\njpg 5632 1 c\n", "line 3");
    assert_text("v1.2 3\njpg 512 3 a\njpg 18446744073709551616 3 b\n", "line 3");
    assert_text("v1.2 3\njpg 512 3 a\njpg 2048 3 b\njpg 5632 1 c\nmore\n", "line 5");
    assert_text("v1.2\n", "line 1");
    assert_text("v1.2 3", "line 2");
}

static void put_u64(uint8_t *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static void offsets_of_energon_are_compared(void **state)
{
    (void)state;
    uint8_t bytes[40];
    struct pst_error err;
    const uint64_t good[] = {0, 1536, 4096, 6144};
    for (int i = 0; i < 4; i++)
        put_u64(bytes + 8 * i, good[i]);
    assert_true(psti_containers_foreign_fits("i", bytes, 32, offsets, 3, &err));
    assert_true(psti_containers_foreign_fits("i", bytes, 32, offsets, 3, NULL));
    assert_true(psti_containers_foreign_fits("i", bytes, 8, offsets, 0, &err));
    assert_false(psti_containers_foreign_fits("i", bytes, 24, offsets, 3, &err));
    assert_non_null(strstr(err.text, "so many samples: 2 in the index, 3 in the tar"));
    assert_false(psti_containers_foreign_fits("i", bytes, 31, offsets, 3, &err));
    assert_non_null(strstr(err.text, "31 bytes are no index"));
    assert_false(psti_containers_foreign_fits("i", bytes, 0, offsets, 0, &err));
    put_u64(bytes + 24, 4096);
    assert_false(psti_containers_foreign_fits("i", bytes, 32, offsets, 3, &err));
    assert_non_null(strstr(err.text, "ends behind byte 4096"));
    put_u64(bytes + 8, 1024);
    assert_false(psti_containers_foreign_fits("i", bytes, 32, offsets, 3, &err));
    assert_non_null(strstr(err.text, "sample 1 begins at byte 1024 in the index, 1536 in the tar"));
}

static void files_are_read_or_told(void **state)
{
    (void)state;
    char path[] = "/tmp/pst-foreign-XXXXXX";
    struct pst_error err;
    int fd = mkstemp(path);
    static const char text[] = "v1.2 3\na 512 3 a\nb 2048 3 b\nc 5632 1 c\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    assert_true(psti_containers_foreign_check(path, offsets, 3, &err));
    assert_int_equal(ftruncate(fd, (off_t)(256 << 20) + 1), 0);
    assert_false(psti_containers_foreign_check(path, offsets, 3, &err));
    assert_int_equal(err.status, PST_ERROR_LIMIT);
    close(fd);
    unlink(path);
    assert_false(psti_containers_foreign_check(path, offsets, 3, &err));
    assert_int_equal(err.status, PST_ERROR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_wds2idx_are_compared),
        cmocka_unit_test(offsets_of_energon_are_compared),
        cmocka_unit_test(files_are_read_or_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
