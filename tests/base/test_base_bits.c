/* test_base_bits.c - the division of 128 bits gives what the compiler's own gives. */
#include "base/bits.h"
#include "base/philox.h"

#include "test.h"

enum { ROUNDS = 20000 };

static void divides(void **state)
{
    (void)state;
    uint64_t divisor = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t r[4];
        psti_random4(1, 0, 0, i, 0, 0, r);
        /* Widths of all kinds; every other divisor stays, for quotients that are close. */
        if (i % 2 == 0)
            divisor = (((uint64_t)r[1] << 32 | r[0]) >> (r[3] % 64)) | 1;
        uint64_t quotient = ((uint64_t)r[2] << 32 | r[1]) >> (r[3] >> 8) % 64;
        unsigned __int128 value = (unsigned __int128)quotient * divisor + r[0] % divisor;
        assert_int_equal(psti_divide_u128(value, divisor), quotient);
        assert_true(psti_divide_u128(value, divisor) == value / divisor);
    }
}

static void divides_at_the_ends(void **state)
{
    (void)state;
    const uint64_t most = UINT64_MAX;
    assert_true(psti_divide_u128(0, 1) == 0);
    assert_true(psti_divide_u128(most, 1) == most);
    assert_true(psti_divide_u128((unsigned __int128)most * most + most - 1, most) == most);
    assert_true(psti_divide_u128((unsigned __int128)1 << 64, 2) == (uint64_t)1 << 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divides),
        cmocka_unit_test(divides_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
