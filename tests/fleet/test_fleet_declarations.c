/* test_fleet_declarations.c - our declarations of libmemcached are those of its headers, where they
 * are installed. */
#include "test.h"

#include "fleet/fleet_library.h"

#if __has_include(<libmemcached/memcached.h>)
#include <libmemcached/memcached.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(PSTI_MC_NO_BLOCK, MEMCACHED_BEHAVIOR_NO_BLOCK);
SAME(PSTI_MC_TCP_NODELAY, MEMCACHED_BEHAVIOR_TCP_NODELAY);
SAME(PSTI_MC_POLL_TIMEOUT, MEMCACHED_BEHAVIOR_POLL_TIMEOUT);
SAME(PSTI_MC_VERIFY_KEY, MEMCACHED_BEHAVIOR_VERIFY_KEY);
SAME(PSTI_MC_CONNECT_TIMEOUT, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT);
SAME(PSTI_MC_BINARY_PROTOCOL, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL);
SAME(PSTI_MC_SEND_TIMEOUT, MEMCACHED_BEHAVIOR_SND_TIMEOUT);
SAME(PSTI_MC_RECEIVE_TIMEOUT, MEMCACHED_BEHAVIOR_RCV_TIMEOUT);
SAME(PSTI_MC_SUCCESS, MEMCACHED_SUCCESS);
SAME(PSTI_MC_SERVER_ERROR, MEMCACHED_SERVER_ERROR);
SAME(PSTI_MC_DATA_EXISTS, MEMCACHED_DATA_EXISTS);
SAME(PSTI_MC_NOT_STORED, MEMCACHED_NOTSTORED);
SAME(PSTI_MC_STORED, MEMCACHED_STORED);
SAME(PSTI_MC_NOT_FOUND, MEMCACHED_NOTFOUND);
SAME(PSTI_MC_END, MEMCACHED_END);
SAME(PSTI_MC_BUFFERED, MEMCACHED_BUFFERED);
SAME(PSTI_MC_TOO_BIG, MEMCACHED_E2BIG);
SAME(PSTI_MC_SERVER_MEMORY, MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE);

_Static_assert(sizeof(memcached_result_st) <= PSTI_MC_RESULT_NBYTES &&
                   _Alignof(memcached_result_st) <= 64,
               "there is room for a result");
/* Results and numbers that are enums there are unsigned numbers here. */
#define IS(function, ...)                                                                          \
    _Static_assert(__builtin_types_compatible_p(__typeof__(function), __VA_ARGS__), #function)
IS(memcached_mget, memcached_return_t(memcached_st *, const char *const *, const size_t *, size_t));
IS(memcached_add, memcached_return_t(memcached_st *, const char *, size_t, const char *, size_t,
                                     time_t, uint32_t));
IS(memcached_set, memcached_return_t(memcached_st *, const char *, size_t, const char *, size_t,
                                     time_t, uint32_t));
IS(memcached_delete, memcached_return_t(memcached_st *, const char *, size_t, time_t));
IS(memcached_fetch_result,
   memcached_result_st *(memcached_st *, memcached_result_st *, memcached_return_t *));
IS(memcached_result_create, memcached_result_st *(const memcached_st *, memcached_result_st *));
IS(memcached_result_value, const char *(const memcached_result_st *));
IS(memcached_result_length, size_t(const memcached_result_st *));
IS(memcached_result_key_value, const char *(const memcached_result_st *));
IS(memcached_result_key_length, size_t(const memcached_result_st *));
IS(memcached_behavior_set, memcached_return_t(memcached_st *, memcached_behavior_t, uint64_t));
IS(memcached_server_add, memcached_return_t(memcached_st *, const char *, in_port_t));
IS(memcached_server_add_unix_socket, memcached_return_t(memcached_st *, const char *));
IS(memcached_set_sasl_auth_data, memcached_return_t(memcached_st *, const char *, const char *));
IS(memcached_strerror, const char *(const memcached_st *, memcached_return_t));
IS(memcached_create, memcached_st *(memcached_st *));
IS(memcached_free, void(memcached_st *));
IS(memcached_result_free, void(memcached_result_st *));
IS(memcached_version, memcached_return_t(memcached_st *));
IS(memcached_lib_version, const char *(void));

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(memcached_return_t), sizeof(unsigned));
    assert_int_equal(sizeof(memcached_behavior_t), sizeof(unsigned));
    assert_int_equal(sizeof(in_port_t), sizeof(uint16_t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("skipped: libmemcached's headers are not installed\n");
    return 77;
}
#endif
