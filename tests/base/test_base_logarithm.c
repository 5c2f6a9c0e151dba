/* test_base_logarithm.c - compares psti_logarithm with the C library's log, and fixes its bits. */
#include "test.h"

#include "base/bits.h"
#include "base/numbers/logarithm.h"

#include <math.h>

static void is_close(void **state)
{
    (void)state;
    for (int i = 1; i < 20000; i++) {
        double x = ldexp(i * 0.37, (i % 120) - 60);
        assert_true(fabs(psti_logarithm(x) - log(x)) <= 4e-15 * (1 + fabs(log(x))));
    }
    assert_true(psti_logarithm(1) == 0);
    assert_true(psti_logarithm(0.5) == -psti_logarithm(2));
}

/* Random crops and features depend on these bits, so they must never change. */
static void has_fixed_bits(void **state)
{
    uint64_t hash = 0;
    (void)state;
    for (int i = 1; i < 5000; i++) {
        double log = psti_logarithm(ldexp(i, (i % 300) - 150));
        uint64_t bits;
        memcpy(&bits, &log, sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3;
    }
    assert_true(hash == 0x250777f1aca4ae5d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_close),
        cmocka_unit_test(has_fixed_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
