/* test_device_info.c - tests the public functions that describe GPUs. The driver is the tests' own,
 * so all facts are known. */
#include "test.h"

#include <penstock/cuda.h>

#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    (void)state;
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    return 0;
}

static void the_reason_is_empty_where_gpus_are(void **state)
{
    (void)state;
    char reason[256] = "x";
    assert_int_equal(pst_cuda_count(), 2);
    assert_int_equal(pst_cuda_reason(reason, sizeof reason), 0);
    assert_string_equal(reason, "");
}

static void the_reason_says_why_there_is_no_gpu(void **state)
{
    static const char hidden[] = "PENSTOCK_CUDA=0 hides all GPUs";
    (void)state;
    char reason[256], little[8];
    setenv("PENSTOCK_CUDA", "0", 1);
    assert_int_equal(pst_cuda_count(), 0);
    assert_int_equal(pst_cuda_reason(reason, sizeof reason), strlen(hidden));
    assert_string_equal(reason, hidden);
    /* A small buffer is filled, and the full length is returned. */
    assert_int_equal(pst_cuda_reason(little, sizeof little), strlen(hidden));
    assert_string_equal(little, "PENSTOC");
    assert_int_equal(pst_cuda_reason(NULL, 0), strlen(hidden));
    unsetenv("PENSTOCK_CUDA");
    setenv("PENSTOCK_CUDA_KERNELS", "/nowhere/libpenstock_cuda.so", 1);
    assert_int_equal(pst_cuda_count(), 0); /* a GPU without kernels does not count */
    assert_true(pst_cuda_reason(reason, sizeof reason) > 0);
    assert_non_null(strstr(reason, "/nowhere/libpenstock_cuda.so"));
    set_up(state);
}

static void facts_of_a_gpu(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_cuda_info info = {0};
    assert_ok(pst_cuda_info(1, &info, sizeof info, &err));
    assert_int_equal(info.ordinal, 1);
    assert_string_equal(info.name, "Fake GPU 1");
    assert_int_equal(info.capability_major, 9);
    assert_int_equal(info.n_processors, 132);
    assert_int_equal(info.driver_version, 13000);
    assert_int_equal(info.memory_nbytes, 1 << 30);
    assert_int_equal(pst_cuda_info(7, &info, sizeof info, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no GPU 7"));
}

/* A program compiled with an older header has a shorter struct. Nothing beyond its end is
 * written. */
static void a_short_struct_is_filled_as_far_as_it_goes(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_cuda_info info;
    memset(&info, 0x5A, sizeof info);
    assert_ok(pst_cuda_info(0, &info, offsetof(struct pst_cuda_info, capability_major), &err));
    assert_string_equal(info.name, "Fake GPU 0");
    assert_int_equal(info.capability_major, 0x5A5A5A5A);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reason_is_empty_where_gpus_are),
        cmocka_unit_test(the_reason_says_why_there_is_no_gpu),
        cmocka_unit_test(facts_of_a_gpu),
        cmocka_unit_test(a_short_struct_is_filled_as_far_as_it_goes),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
