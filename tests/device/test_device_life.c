/* Opening and closing a GPU: errors where there is none, properties, kernels, and separate
 * budgets. */
#include "device_test.h"

#include "base/alloc.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

static void assert_refused(uint32_t ordinal, const char *word)
{
    struct pst_error err;
    const struct psti_device_options options = {.ordinal = ordinal};
    struct psti_device *device = (struct psti_device *)&err;
    assert_int_equal(psti_device_open(&options, &device, &err), PST_ERROR_UNSUPPORTED);
    assert_null(device);
    assert_string_equal(err.room, "device");
    if (!strstr(err.text, word))
        fail_msg("'%s' does not say '%s'", err.text, word);
}

static void without_a_driver(void **state)
{
    (void)state;
    char reason[256];
    setenv("PENSTOCK_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    assert_int_equal(psti_device_count(reason, sizeof reason), 0);
    assert_non_null(strstr(reason, "/nowhere/libcuda.so.1"));
    assert_refused(0, "/nowhere/libcuda.so.1");
    setenv("PENSTOCK_CUDA_DRIVER", "libm.so.6", 1); /* a library that is no CUDA driver */
    assert_int_equal(psti_device_count(reason, sizeof reason), 0);
    assert_non_null(strstr(reason, "cuInit"));
    char little[8];
    assert_int_equal(psti_device_count(little, sizeof little), 0);
    assert_int_equal(strlen(little), 7);
    assert_int_equal(psti_device_count(NULL, 0), 0);
    use_fake_driver();
}

static void gpus_can_be_hidden(void **state)
{
    (void)state;
    char reason[256] = "x";
    assert_int_equal(psti_device_count(reason, sizeof reason), 2);
    assert_string_equal(reason, "");
    setenv("PENSTOCK_CUDA", "0", 1);
    assert_int_equal(psti_device_count(reason, sizeof reason), 0);
    assert_string_equal(reason, "PENSTOCK_CUDA=0 hides all GPUs");
    assert_refused(0, "PENSTOCK_CUDA=0");
    setenv("PENSTOCK_CUDA", "1", 1);
    assert_int_equal(psti_device_count(NULL, 0), 2);
    unsetenv("PENSTOCK_CUDA");
    assert_refused(2, "there is no GPU 2: the CUDA driver finds 2");
    assert_nothing_left(); /* opening failed without making a context */
}

static void facts(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device_info info;
    const struct psti_device_options options = {.ordinal = 1};
    struct psti_device *device = NULL;
    assert_ok(psti_device_open(&options, &device, &err));
    psti_device_info(device, &info);
    assert_int_equal(info.ordinal, 1);
    assert_string_equal(info.name, "Fake GPU 1");
    assert_int_equal(info.capability_major, 9);
    assert_int_equal(info.capability_minor, 0);
    assert_int_equal(info.n_processors, 132);
    assert_int_equal(info.shared_nbytes_max, 227 * 1024);
    assert_int_equal(info.memory_nbytes, 1 << 30);
    assert_int_equal(info.driver_version, 13000);
    assert_int_equal(info.device_memory_used, 0);
    psti_device_close(&device);
    assert_null(device);
    psti_device_close(&device);
    assert_nothing_left();
}

/* The caller's current context stays the same, and the two GPUs share nothing. */
static void two_gpus(void **state)
{
    (void)state;
    struct psti_device *first = open_gpu(0), *again = open_gpu(0), *second = open_gpu(1);
    assert_int_equal(fake_context_depth(), 0);
    uint64_t a = alloc_words(first, 16), b = alloc_words(second, 32);
    struct psti_device_info info;
    psti_device_info(first, &info);
    assert_int_equal(info.device_memory_used, 64);
    psti_device_info(second, &info);
    assert_int_equal(info.device_memory_used, 128);
    psti_device_info(again, &info);
    assert_int_equal(info.device_memory_used, 0);
    psti_device_free(first, a, 64);
    psti_device_free(second, b, 128);
    psti_device_close(&first);
    psti_device_close(&again);
    psti_device_close(&second);
    assert_nothing_left();
}

static void kernels_are_loaded_once(void **state)
{
    (void)state;
    struct pst_error err;
    const struct psti_device_options options = {.ordinal = 0};
    struct psti_device *device = NULL;
    const char *const wrong[] = {"add", "subtract"};
    const struct fake_image no_image = {.magic = 1};
    assert_ok(psti_device_open(&options, &device, &err));
    assert_int_equal(load_kernels(device, &kernel_image, wrong, 2, &err), PST_ERROR_DEVICE);
    assert_non_null(strstr(err.text, "subtract"));
    assert_non_null(strstr(err.text, "CUDA_ERROR_NOT_FOUND (named symbol not found)"));
    assert_int_equal(load_kernels(device, &no_image, wrong, 1, &err), PST_ERROR_DEVICE);
    assert_non_null(strstr(err.text, "GPU 0: loading the kernels: CUDA_ERROR_INVALID_IMAGE"));
    assert_ok(load_kernels(device, &kernel_image, kernel_names, N_KERNELS, &err));
    assert_int_equal(load_kernels(device, &kernel_image, kernel_names, N_KERNELS, &err),
                     PST_ERROR_STATE);
    psti_device_close(&device);
    assert_nothing_left();
}

#ifdef PST_FAKE_KERNELS
/* The kernels' library of the CPU build can be loaded; libraries that do not fit give errors. */
static void the_kernels_library(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device_kernels kernels;
    const struct psti_device_options options = {.ordinal = 0};
    struct psti_device *device = NULL;
    const char *const names[] = {"psti_gpu_units_plain", "psti_gpu_units_packed"};
    const char *const unknown[] = {"psti_gpu_units_packed", "psti_gpu_nothing"};
    static const char *const unfit[][2] = {{"/nowhere/kernels.so", "/nowhere/kernels.so: cannot"},
                                           {"libm.so.6", "libm.so.6 has no kernels of Penstock"}};
    assert_ok(psti_device_open(&options, &device, &err));
    for (size_t i = 0; i < 2; i++) {
        setenv("PENSTOCK_CUDA_KERNELS", unfit[i][0], 1);
        assert_int_equal(psti_device_load_kernels(device, names, 2, &err), PST_ERROR_UNSUPPORTED);
        assert_non_null(strstr(err.text, unfit[i][1]));
        assert_int_equal(psti_device_kernels(&kernels, &err), PST_ERROR_UNSUPPORTED);
        assert_string_equal(kernels.path, unfit[i][0]);
    }
    unsetenv("PENSTOCK_CUDA_KERNELS");
    assert_int_equal(psti_device_load_kernels(device, names, 2, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "installed without kernels"));
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    assert_ok(psti_device_kernels(&kernels, &err));
    assert_string_equal(kernels.path, PST_FAKE_KERNELS);
    assert_string_equal(kernels.targets, "cpu");
    assert_int_equal(kernels.cuda_version, 13000);
    assert_int_equal(psti_device_load_kernels(device, unknown, 2, &err), PST_ERROR_DEVICE);
    assert_non_null(strstr(err.text, "psti_gpu_nothing"));
    assert_ok(psti_device_load_kernels(device, names, 2, &err));
    assert_int_equal(psti_device_load_kernels(device, names, 2, &err), PST_ERROR_STATE);
    psti_device_close(&device);
    unsetenv("PENSTOCK_CUDA_KERNELS");
    assert_nothing_left();
}
#endif

/* psti_device_look makes no context. */
static void a_look(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device_info info;
    assert_ok(psti_device_look(1, &info, &err));
    assert_string_equal(info.name, "Fake GPU 1");
    assert_int_equal(info.n_processors, 132);
    assert_int_equal(psti_device_look(2, &info, &err), PST_ERROR_UNSUPPORTED);
    assert_nothing_left();
}

/* The fake driver reads its environment once, so each case runs in a process of its own. */
static void old_or_no_gpus(void)
{
    struct pst_error err;
    const struct psti_device_options options = {.ordinal = 0};
    struct psti_device *device = NULL;
    char reason[256];
    enum pst_status status = psti_device_open(&options, &device, &err);
    assert_int_equal(status, PST_ERROR_UNSUPPORTED);
    if (getenv("PENSTOCK_FAKE_DEVICES")) {
        assert_int_equal(psti_device_count(reason, sizeof reason), 0);
        assert_non_null(strstr(reason, "CUDA_ERROR_NO_DEVICE"));
        assert_string_equal(err.text, reason);
    } else {
        assert_non_null(strstr(err.text, "compute capability 7.0, 7.5 is needed"));
    }
    assert_nothing_left();
}

static void memory_is_given_back(void **state)
{
    (void)state;
    struct pst_memory_stats stats;
    pst_memory_stats(&stats, sizeof stats);
    assert_int_equal(stats.live_nbytes, 0);
}

int main(int argc, char **argv)
{
    use_fake_driver();
    if (argc > 1) {
        setenv(argv[1], argv[2], 1);
        old_or_no_gpus();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_driver),
        cmocka_unit_test(gpus_can_be_hidden),
        cmocka_unit_test(facts),
        cmocka_unit_test(two_gpus),
        cmocka_unit_test(kernels_are_loaded_once),
        cmocka_unit_test(a_look),
#ifdef PST_FAKE_KERNELS
        cmocka_unit_test(the_kernels_library),
#endif
        cmocka_unit_test(memory_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
