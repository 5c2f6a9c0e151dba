/* Compares CRC-32C with the vectors of RFC 3720, computed in pieces, and each CPU level with plain
 * C. */
#include "test.h"

#include "base/crc32c.h"

#include <stdlib.h>
#include <string.h>

static void published_vectors(void **state)
{
    (void)state;
    unsigned char bytes[32];
    /* RFC 3720, B.4; the last one is the check value in catalogues of CRCs. */
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(psti_crc32c(0, bytes, sizeof bytes), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(psti_crc32c(0, bytes, sizeof bytes), 0x62A8AB43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(psti_crc32c(0, bytes, sizeof bytes), 0x46DD794E);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(psti_crc32c(0, bytes, sizeof bytes), 0x113FDB5C);
    assert_int_equal(psti_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(psti_crc32c_c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(psti_crc32c(0, NULL, 0), 0);
}

static void levels_and_pieces_agree(void **state)
{
    (void)state;
    enum { NBYTES = 300 };
    unsigned char *bytes = malloc(NBYTES);
    assert_non_null(bytes);
    for (int i = 0; i < NBYTES; i++)
        bytes[i] = (unsigned char)(i * 151 + i / 7);
    for (size_t first = 0; first < 9; first++)
        for (size_t n = 0; n <= NBYTES - first; n++) {
            uint32_t whole = psti_crc32c_c(0, bytes + first, n);
            assert_int_equal(psti_crc32c(0, bytes + first, n), whole);
            uint32_t before = psti_crc32c(0, bytes + first, n / 3);
            assert_int_equal(psti_crc32c(before, bytes + first + n / 3, n - n / 3), whole);
        }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(levels_and_pieces_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
