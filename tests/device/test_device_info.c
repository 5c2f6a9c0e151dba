/* test_device_info.c - what the front door says of cards and of nvJPEG. The driver and the nvJPEG
 * are the tests' own, so all facts are known. */
#include "test.h"

#include <penstock/cuda.h>

#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    (void)state;
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    setenv("PENSTOCK_NVJPEG", PST_FAKE_NVJPEG, 1);
    return 0;
}

static void the_reason_is_empty_where_cards_are(void **state)
{
    (void)state;
    char reason[256] = "x";
    assert_int_equal(pst_cuda_count(), 2);
    assert_int_equal(pst_cuda_reason(reason, sizeof reason), 0);
    assert_string_equal(reason, "");
}

static void the_reason_says_why_there_is_no_card(void **state)
{
    static const char hidden[] = "PENSTOCK_CUDA=0 hides all cards";
    (void)state;
    char reason[256], little[8];
    setenv("PENSTOCK_CUDA", "0", 1);
    assert_int_equal(pst_cuda_count(), 0);
    assert_int_equal(pst_cuda_reason(reason, sizeof reason), strlen(hidden));
    assert_string_equal(reason, hidden);
    /* A small buffer is filled as far as it goes, and the length is that of all. */
    assert_int_equal(pst_cuda_reason(little, sizeof little), strlen(hidden));
    assert_string_equal(little, "PENSTOC");
    assert_int_equal(pst_cuda_reason(NULL, 0), strlen(hidden));
    unsetenv("PENSTOCK_CUDA");
    setenv("PENSTOCK_CUDA_KERNELS", "/nowhere/libpenstock_cuda.so", 1);
    assert_int_equal(pst_cuda_count(), 0); /* a card without kernels is of no use */
    assert_true(pst_cuda_reason(reason, sizeof reason) > 0);
    assert_non_null(strstr(reason, "/nowhere/libpenstock_cuda.so"));
    set_up(state);
}

static void facts_of_a_card(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_cuda_info info = {0};
    assert_ok(pst_cuda_info(1, &info, sizeof info, &err));
    assert_int_equal(info.ordinal, 1);
    assert_string_equal(info.name, "Fake card 1");
    assert_int_equal(info.capability_major, 9);
    assert_int_equal(info.n_processors, 132);
    assert_int_equal(info.driver_version, 13000);
    assert_int_equal(info.memory_nbytes, 1 << 30);
    assert_int_equal(pst_cuda_info(7, &info, sizeof info, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no card 7"));
}

/* A program compiled against an older header has a shorter struct: nothing beyond it is written. */
static void a_short_struct_is_filled_as_far_as_it_goes(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_cuda_info info;
    memset(&info, 0x5A, sizeof info);
    assert_ok(pst_cuda_info(0, &info, offsetof(struct pst_cuda_info, capability_major), &err));
    assert_string_equal(info.name, "Fake card 0");
    assert_int_equal(info.capability_major, 0x5A5A5A5A);
}

static void facts_of_nvjpeg(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_cuda_nvjpeg_info info = {0};
    setenv("PENSTOCK_FAKE_NVJPEG_ENGINES", "8", 1);
    assert_ok(pst_cuda_nvjpeg(0, &info, sizeof info, &err));
    unsetenv("PENSTOCK_FAKE_NVJPEG_ENGINES");
    assert_string_equal(info.path, PST_FAKE_NVJPEG);
    assert_int_equal(info.major, 13);
    assert_int_equal(info.minor, 1);
    assert_int_equal(info.n_engines, 8);
    assert_true(info.interpolates);
    assert_int_equal(pst_cuda_nvjpeg(9, &info, sizeof info, &err), PST_ERROR_UNSUPPORTED);
    setenv("PENSTOCK_NVJPEG", "/nowhere/libnvjpeg.so", 1);
    assert_int_equal(pst_cuda_nvjpeg(0, &info, sizeof info, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "/nowhere/libnvjpeg.so"));
    set_up(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reason_is_empty_where_cards_are),
        cmocka_unit_test(the_reason_says_why_there_is_no_card),
        cmocka_unit_test(facts_of_a_card),
        cmocka_unit_test(a_short_struct_is_filled_as_far_as_it_goes),
        cmocka_unit_test(facts_of_nvjpeg),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
