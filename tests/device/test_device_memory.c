/* Memory of the GPU and pinned memory: budgets that are kept, also by several threads, and lack of
 * memory. */
#include "device_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define LIMIT 30000u

static struct psti_device *open_limited(void)
{
    struct pst_error err;
    const struct psti_device_options options = {
        .ordinal = 0, .device_memory = LIMIT, .pinned_memory = LIMIT / 2};
    struct psti_device *device = NULL;
    assert_ok(psti_device_open(&options, &device, &err));
    return device;
}

static void budgets(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *device = open_limited();
    uint64_t a, b;
    void *pinned, *more;
    struct fake_counts before, after;
    assert_ok(psti_device_alloc(device, LIMIT - 1, &a, &err));
    fake_counts(&before);
    assert_int_equal(psti_device_alloc(device, 2, &b, &err), PST_ERROR_LIMIT);
    assert_int_equal(b, 0);
    assert_string_equal(err.text,
                        "GPU 0: 2 bytes of device memory are wanted, 29999 of 30000 are in use");
    assert_int_equal(psti_device_alloc(device, UINT64_MAX, &b, &err), PST_ERROR_LIMIT);
    fake_counts(&after);
    /* the refusal came without a call of the driver */
    assert_int_equal(after.n_calls, before.n_calls);
    assert_ok(psti_device_alloc(device, 1, &b, &err));
    psti_device_free(device, a, LIMIT - 1);
    psti_device_free(device, b, 1);
    assert_ok(psti_device_alloc(device, LIMIT, &a, &err));
    struct psti_device_info info;
    psti_device_free(device, a, LIMIT);
    psti_device_info(device, &info);
    assert_int_equal(info.device_memory_used, 0);
    assert_int_equal(info.device_memory_peak, LIMIT);

    assert_ok(psti_device_alloc_pinned(device, LIMIT / 2, &pinned, &err));
    memset(pinned, 1, LIMIT / 2);
    assert_int_equal(psti_device_alloc_pinned(device, 1, &more, &err), PST_ERROR_LIMIT);
    assert_null(more);
    assert_non_null(strstr(err.text, "pinned memory"));
    psti_device_info(device, &info);
    assert_int_equal(info.pinned_memory_used, LIMIT / 2);
    psti_device_free_pinned(device, pinned, LIMIT / 2);
    psti_device_close(&device);
    assert_nothing_left();
}

static void nothing_is_something(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *device = open_limited();
    uint64_t address = 1;
    void *pinned = &err;
    assert_ok(psti_device_alloc(device, 0, &address, &err));
    assert_int_equal(address, 0);
    assert_ok(psti_device_alloc_pinned(device, 0, &pinned, &err));
    assert_null(pinned);
    psti_device_free(device, 0, 0);
    psti_device_free_pinned(device, NULL, 0);
    psti_device_close(&device);
    assert_nothing_left();
}

/* A GPU out of memory gives another error than a full budget, and takes nothing from the budget. */
static void the_gpu_runs_out(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *device = open_gpu(0);
    uint64_t a, b;
    assert_ok(psti_device_alloc(device, (uint64_t)1 << 20, &a, &err));
    assert_int_equal(psti_device_alloc(device, (uint64_t)1 << 30, &b, &err), PST_ERROR_MEMORY);
    assert_int_equal(b, 0);
    assert_string_equal(err.text, "GPU 0: allocating 1073741824 bytes: CUDA_ERROR_OUT_OF_MEMORY "
                                  "(out of memory)");
    struct psti_device_info info;
    psti_device_info(device, &info);
    assert_int_equal(info.device_memory_used, 1 << 20);
    psti_device_free(device, a, 1 << 20);
    psti_device_close(&device);
    assert_nothing_left();
}

static struct {
    struct psti_device *device;
    atomic_uint n_got, n_refused;
} shared;

static void *allocate(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        uint64_t address;
        enum pst_status status = psti_device_alloc(shared.device, LIMIT / 3, &address, NULL);
        struct psti_device_info info;
        psti_device_info(shared.device, &info);
        if (info.device_memory_used > LIMIT)
            return &shared;
        if (status == PST_OK) {
            atomic_fetch_add(&shared.n_got, 1);
            psti_device_free(shared.device, address, LIMIT / 3);
        } else if (status == PST_ERROR_LIMIT) {
            atomic_fetch_add(&shared.n_refused, 1);
        } else {
            return &shared;
        }
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    pthread_t threads[6];
    shared.device = open_limited();
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate, NULL), 0);
    for (int i = 0; i < 6; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(shared.n_got + shared.n_refused, 1800);
    assert_true(shared.n_got >= 300);
    struct psti_device_info info;
    psti_device_info(shared.device, &info);
    assert_int_equal(info.device_memory_used, 0);
    assert_true(info.device_memory_peak <= LIMIT);
    psti_device_close(&shared.device);
    assert_nothing_left();
}

int main(void)
{
    use_fake_driver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(the_gpu_runs_out),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
