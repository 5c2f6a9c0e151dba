/* test_fleet_line.c - tests parsing lines of a memcached server's answers. */
#include "test.h"

#include "fleet/fleet_line.h"

#include <string.h>

static enum psti_fleet_said read_line(const char *text, struct psti_fleet_line *line)
{
    psti_fleet_line_read(text, strlen(text), line);
    return line->said;
}

static void test_good(void **state)
{
    (void)state;
    struct psti_fleet_line line;
    assert_int_equal(read_line("VA 32768 kpst1:a:0 O1f", &line), PSTI_FLEET_SAID_VALUE);
    assert_int_equal(line.nbytes, 32768);
    assert_true(line.has_opaque && line.opaque == 0x1f);
    assert_int_equal(line.key_nbytes, 8);
    assert_memory_equal(line.key, "pst1:a:0", 8);
    assert_int_equal(read_line("VA 0", &line), PSTI_FLEET_SAID_VALUE);
    assert_true(line.nbytes == 0 && !line.key && !line.has_opaque);
    assert_int_equal(read_line("VA 9999999999 Offffffffffffffff", &line), PSTI_FLEET_SAID_VALUE);
    assert_true(line.nbytes == 9999999999u && line.opaque == UINT64_MAX);
    assert_int_equal(read_line("EN", &line), PSTI_FLEET_SAID_MISS);
    assert_int_equal(read_line("EN O3 kx", &line), PSTI_FLEET_SAID_MISS);
    assert_true(line.has_opaque && line.opaque == 3 && line.key_nbytes == 1);
    assert_int_equal(read_line("HD O3", &line), PSTI_FLEET_SAID_DONE);
    assert_int_equal(read_line("NS", &line), PSTI_FLEET_SAID_PRESENT);
    assert_int_equal(read_line("NF O0", &line), PSTI_FLEET_SAID_ABSENT);
    assert_int_equal(read_line("STORED", &line), PSTI_FLEET_SAID_STORED);
    assert_int_equal(read_line("SERVER_ERROR out of memory storing object", &line),
                     PSTI_FLEET_SAID_NO_ROOM);
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        " ",
                                        "V",
                                        "VA",
                                        "VA ",
                                        "VA x",
                                        "VA -1",
                                        "VA +1",
                                        "VA 1x",
                                        "VA 0x10",
                                        "VA 10000000000",
                                        "VA 18446744073709551615",
                                        "VA 5 O",
                                        "VA 5 Ox",
                                        "VA 5 OFF",
                                        "VA 5 O00000000000000001",
                                        "VA 5 k",
                                        "VA 5 ka kb",
                                        "VA 5 O1 O2",
                                        "VA 5 s5",
                                        "VA 5 W",
                                        "VALUE x 0 5",
                                        "END",
                                        "ENx",
                                        "EX",
                                        "MN",
                                        "ERROR",
                                        "CLIENT_ERROR unauthenticated",
                                        "SERVER_ERRORS",
                                        "VERSION 1.6.18",
                                        "HD t0",
                                        "va 5"};
    struct psti_fleet_line line;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_int_equal(read_line(lines[i], &line), PSTI_FLEET_SAID_NONSENSE);
    psti_fleet_line_read("VA 5 O\0001", 9, &line);
    assert_int_equal(line.said, PSTI_FLEET_SAID_NONSENSE);
}

/* The line that the client expects for a value parses as that value. */
static void test_written(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 9, 10, 16, 255, 32512, 4294967296, 9999999999};
    char text[200];
    struct psti_fleet_line line;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t n = psti_fleet_line_of_value(text, numbers[i], "pst1:k", 6, numbers[i] * 977);
        assert_memory_equal(text + n - 2, "\r\n", 2);
        psti_fleet_line_read(text, n - 2, &line);
        assert_int_equal(line.said, PSTI_FLEET_SAID_VALUE);
        assert_int_equal(line.nbytes, numbers[i]);
        assert_int_equal(line.opaque, numbers[i] * 977);
        assert_int_equal(line.key_nbytes, 6);
    }
    assert_int_equal(psti_fleet_line_of_value(text, 7, "a", 1, UINT64_MAX), 27);
    assert_memory_equal(text, "VA 7 ka Offffffffffffffff\r\n", 27);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_nonsense),
                                       cmocka_unit_test(test_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
