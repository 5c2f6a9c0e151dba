/* test_base_buffer.c - tests a growing buffer: memory that is large enough is reused, smaller
 * memory is freed first, and a failure leaves an empty buffer and an error with room and
 * purpose. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/fault.h"

#include <penstock/penstock.h>

#include "test.h"

#include <string.h>

static uint64_t live_nbytes(void)
{
    struct pst_memory_stats stats;
    pst_memory_stats(&stats, sizeof stats);
    return stats.live_nbytes;
}

static void test_grows_and_keeps(void **state)
{
    struct psti_buffer buffer = {0};
    struct pst_error err;
    (void)state;
    assert_ok(psti_buffer_reserve(&buffer, 100, "base", "of a test", &err));
    memset(buffer.bytes, 1, 100);
    void *first = buffer.bytes;
    assert_int_equal((uintptr_t)first % PSTI_CACHE_LINE, 0);
    assert_ok(psti_buffer_reserve(&buffer, 100, "base", "of a test", &err));
    assert_ok(psti_buffer_reserve(&buffer, 0, "base", "of a test", &err));
    assert_ptr_equal(buffer.bytes, first);
    assert_int_equal(buffer.capacity, 100);
    assert_ok(psti_buffer_reserve(&buffer, 1000, "base", "of a test", &err));
    memset(buffer.bytes, 2, 1000);
    assert_int_equal(buffer.capacity, 1000);
    assert_int_equal(live_nbytes(), 1000); /* the first 100 bytes were freed */
    psti_buffer_free(&buffer);
    assert_null(buffer.bytes);
    assert_int_equal(live_nbytes(), 0);
    psti_buffer_free(&buffer);
}

static void test_nothing_is_not_null(void **state)
{
    struct psti_buffer buffer = {0};
    struct pst_error err;
    (void)state;
    assert_ok(psti_buffer_reserve(&buffer, 0, "base", "of a test", &err));
    assert_non_null(buffer.bytes);
    psti_buffer_free(&buffer);
    assert_int_equal(live_nbytes(), 0);
}

static void test_too_much(void **state)
{
    struct psti_buffer buffer = {0};
    struct pst_error err;
    (void)state;
    assert_ok(psti_buffer_reserve(&buffer, 100, "base", "of a test", &err));
    assert_int_equal(psti_buffer_reserve(&buffer, UINT64_MAX, "verify", "of a test", &err),
                     PST_ERROR_MEMORY);
    assert_string_equal(err.room, "verify");
    assert_string_equal(err.text, "out of memory for 18446744073709551615 bytes of a test");
    assert_null(buffer.bytes);
    assert_int_equal(buffer.capacity, 0);
    assert_ok(psti_buffer_reserve(&buffer, 10, "base", "of a test", &err));
#ifdef PST_FAULTS
    psti_fault_arm(PSTI_FAULT_ALLOC, 1, true);
    assert_int_equal(psti_buffer_reserve(&buffer, 11, "base", "of a test", &err), PST_ERROR_MEMORY);
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    assert_null(buffer.bytes);
#endif
    psti_buffer_free(&buffer);
    assert_int_equal(live_nbytes(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_and_keeps),
        cmocka_unit_test(test_nothing_is_not_null),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
