/* Compares Philox-4x32-10 with the vectors that Random123 publishes, and pins the random numbers of
 * orders and augmentations: their values must never change. */
#include "test.h"

#include "base/philox.h"

/* From Random123, tests/kat_vectors, lines "philox4x32 10". */
static void published_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t out[4];
        psti_philox4x32_10(vectors[i].counter, vectors[i].key, out);
        assert_memory_equal(out, vectors[i].expected, sizeof out);
    }
}

/* Values of an independent implementation of the definition in philox.h. They must never change. */
static void streams_are_pinned(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, epoch;
        enum psti_random_domain domain;
        uint64_t index;
        uint32_t sub, draw, expected[4];
    } pinned[] = {
        {0, 0, PSTI_RANDOM_AUGMENT, 0, 0, 0, {0x7d486513, 0x71a74b74, 0xe5e50fb9, 0xe189e572}},
        {1, 2, PSTI_RANDOM_AUGMENT, 3, 4, 5, {0x61a4fde7, 0x5b7dd658, 0x61850582, 0x891ffdbf}},
        {0x0123456789abcdef,
         0xfedcba9876543210,
         PSTI_RANDOM_REPLACE,
         0x1122334455667788,
         0xdeadbeef,
         0xffffffff,
         {0x6cf90146, 0x50ed7e71, 0xa1d89e18, 0xf966e619}},
    };
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        uint32_t out[4];
        psti_random4(pinned[i].seed, pinned[i].epoch, pinned[i].domain, pinned[i].index,
                     pinned[i].sub, pinned[i].draw, out);
        assert_memory_equal(out, pinned[i].expected, sizeof out);
    }
}

static void every_argument_counts(void **state)
{
    (void)state;
    uint32_t base[4], other[4];
    psti_random4(1, 1, PSTI_RANDOM_ORDER, 1, 1, 1, base);
    for (int i = 0; i < 9; i++) {
        psti_random4(i == 0   ? 2
                     : i == 1 ? 1 + ((uint64_t)1 << 32)
                              : 1,
                     i == 2   ? 2
                     : i == 3 ? 1 + ((uint64_t)1 << 32)
                              : 1,
                     i == 4 ? PSTI_RANDOM_WEIGHTED : PSTI_RANDOM_ORDER,
                     i == 5   ? 2
                     : i == 6 ? 1 + ((uint64_t)1 << 32)
                              : 1,
                     i == 7 ? 2 : 1, i == 8 ? 2 : 1, other);
        assert_memory_not_equal(base, other, sizeof base);
    }
}

static void ranges(void **state)
{
    (void)state;
    assert_true(psti_uniform01(0) == 0.0f);
    assert_true(psti_uniform01(UINT32_MAX) == 1.0f - 0x1p-24f);
    assert_true(psti_uniform01(0x80000000u) == 0.5f);
    for (uint32_t n = 1; n < 100; n++) {
        assert_int_equal(psti_uniform_below(0, n), 0);
        assert_int_equal(psti_uniform_below(UINT32_MAX, n), n - 1);
    }
    assert_int_equal(psti_uniform_below(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
}

/* Counts 4096 draws for each of 16 cells. Chi-squared with 15 degrees of freedom exceeds 50 once in
 * 80,000. */
static void draws_are_spread_evenly(void **state)
{
    (void)state;
    enum { CELLS = 16, PER_CELL = 4096 };
    uint32_t n[CELLS] = {0};
    for (uint64_t i = 0; i < CELLS * PER_CELL / 4; i++) {
        uint32_t out[4];
        psti_random4(42, 0, PSTI_RANDOM_AUGMENT, i, 0, 0, out);
        for (int k = 0; k < 4; k++)
            n[psti_uniform_below(out[k], CELLS)]++;
    }
    double chi_squared = 0;
    for (int i = 0; i < CELLS; i++) {
        double off = (double)n[i] - PER_CELL;
        chi_squared += off * off / PER_CELL;
    }
    assert_true(chi_squared < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),       cmocka_unit_test(streams_are_pinned),
        cmocka_unit_test(every_argument_counts),   cmocka_unit_test(ranges),
        cmocka_unit_test(draws_are_spread_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
