/* test_base_bits.c - loads and stores at any address are little-endian, bit fields are found at all
 * offsets, and division of 128 bits gives the same as the compiler's own. */
#include "base/bits.h"
#include "base/codings/varint.h"
#include "base/philox.h"

#include "test.h"

#include <string.h>

enum { ROUNDS = 20000 };

static void little_endian_at_any_address(void **state)
{
    (void)state;
    unsigned char bytes[16];
    for (size_t at = 0; at < 8; at++) {
        memset(bytes, 0, sizeof bytes);
        psti_store_u64(bytes + at, 0x8877665544332211u);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(bytes[at + i], 0x11 * (i + 1));
        assert_int_equal(psti_load_u64(bytes + at), 0x8877665544332211u);
        assert_int_equal(psti_load_u32(bytes + at), 0x44332211u);
        assert_int_equal(psti_load_u16(bytes + at), 0x2211u);
        psti_store_u32(bytes + at, 0xAABBCCDDu);
        psti_store_u16(bytes + at + 4, 0xEEFFu);
        assert_int_equal(psti_load_u64(bytes + at), 0x8877EEFFAABBCCDDu);
    }
    assert_int_equal(psti_round_up(0, 64), 0);
    assert_int_equal(psti_round_up(1, 64), 64);
    assert_int_equal(psti_round_up(64, 64), 64);
    assert_int_equal(psti_round_up(65, 64), 128);
}

static void bits_at_any_place(void **state)
{
    (void)state;
    uint8_t bytes[17];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(37 * i + 11);
    for (uint64_t at = 0; at < 8 * (sizeof bytes - 8); at++) {
        uint64_t bits = psti_load_bits64(bytes, at);
        for (uint64_t i = 0; i < 64; i++)
            assert_int_equal(bits >> i & 1, bytes[(at + i) >> 3] >> ((at + i) & 7) & 1);
    }
}

static void divides(void **state)
{
    (void)state;
    uint64_t divisor = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t r[4];
        psti_random4(1, 0, 0, i, 0, 0, r);
        /* Numbers of all widths. Every other time the divisor stays the same, which gives
         * neighbouring quotients. */
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

static void varints_are_read_and_refused(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 127, 128, 300, UINT32_MAX, INT64_MAX, UINT64_MAX};
    uint8_t bytes[16];
    uint64_t value;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t n = 0;
        for (uint64_t left = numbers[i]; n == 0 || left > 0; left >>= 7)
            bytes[n++] = (uint8_t)((left & 0x7F) | (left >> 7 > 0 ? 0x80 : 0));
        for (size_t most = n; most <= sizeof bytes; most++) {
            assert_int_equal(psti_varint(bytes, most, &value), n);
            assert_true(value == numbers[i]);
        }
        for (size_t few = 0; few < n; few++) {
            assert_int_equal(psti_varint(bytes, few, &value), 0);
            assert_true(value == 0);
        }
    }
    memset(bytes, 0xFF, sizeof bytes); /* a varint without an end */
    assert_int_equal(psti_varint(bytes, sizeof bytes, &value), 0);
    bytes[9] = 2; /* bit 64 */
    assert_int_equal(psti_varint(bytes, sizeof bytes, &value), 0);
    bytes[9] = 1;
    assert_int_equal(psti_varint(bytes, sizeof bytes, &value), 10);
    assert_true(value == UINT64_MAX);
    memset(bytes, 0x80, 9); /* a 0 in more bytes than necessary */
    bytes[9] = 0;
    assert_int_equal(psti_varint(bytes, sizeof bytes, &value), 10);
    assert_true(value == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints_are_read_and_refused),
        cmocka_unit_test(little_endian_at_any_address),
        cmocka_unit_test(bits_at_any_place),
        cmocka_unit_test(divides),
        cmocka_unit_test(divides_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
