/* Streams and events: order within a stream and between streams, Penstock's and foreign ones, on
 * two GPUs; launches that are refused; a steady state without allocations and waits. The fake
 * driver runs slowly here, which exposes a missing wait. ThreadSanitizer detects it, too. */
#include "device_test.h"

#include "device/device_driver.h"

#include <penstock/penstock.h>

#include <string.h>

#define N 1000u

/* Foreign streams, made by the driver's own functions. */
unsigned cuStreamCreateWithPriority(psti_cu_stream *stream, unsigned flags, int priority);
unsigned cuStreamDestroy_v2(psti_cu_stream stream);
unsigned cuCtxPushCurrent_v2(psti_cu_context context);
unsigned cuCtxPopCurrent_v2(psti_cu_context *context);
unsigned cuDevicePrimaryCtxRetain(psti_cu_context *context, int device);
unsigned cuDevicePrimaryCtxRelease_v2(int device);
unsigned cuMemcpyDtoHAsync_v2(void *to, psti_cu_address from, size_t nbytes, psti_cu_stream stream);
static void up_and_down(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *device = open_gpu(0);
    struct psti_stream *stream = open_stream(device);
    uint32_t *host = alloc_pinned_words(device, 2 * N);
    uint64_t a = alloc_words(device, N), b = alloc_words(device, N);
    for (uint32_t i = 0; i < N; i++)
        host[i] = i;
    fake_set_delay(2000);
    assert_ok(psti_device_stream_upload(stream, a, host, N * 4, &err));
    const struct add_args args = {a, N, 5};
    assert_ok(launch(stream, KERNEL_ADD, &args, sizeof args, &err));
    assert_ok(psti_device_stream_copy(stream, b, a, N * 4, &err));
    assert_ok(psti_device_stream_clear(stream, b, 40, &err));
    assert_ok(psti_device_stream_download(stream, host + N, b, N * 4, &err));
    /* an upload of 0 bytes may have any address */
    assert_ok(psti_device_stream_upload(stream, a, host, 0, &err));
    assert_ok(psti_device_stream_sync(stream, &err));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(host[N + i], i < 10 ? 0 : i + 5);
    fake_set_delay(0);
    psti_device_stream_close(&stream);
    psti_device_free(device, a, N * 4);
    psti_device_free(device, b, N * 4);
    psti_device_free_pinned(device, host, 2 * N * 4);
    psti_device_close(&device);
    assert_nothing_left();
}

/* A launch copies its arguments, and the kernel gets its geometry. */
static void launches(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *device = open_gpu(0);
    struct psti_stream *stream = open_stream(device);
    uint32_t *host = alloc_pinned_words(device, 3);
    uint64_t a = alloc_words(device, 3);
    struct geometry_args args = {a};
    fake_set_delay(2000);
    struct psti_device_info info;
    psti_device_info(device, &info);
    const uint32_t most = info.shared_nbytes_max;
    assert_ok(
        psti_device_stream_launch(stream, KERNEL_GEOMETRY, 77, 6, most, &args, sizeof args, &err));
    args.to = 0;
    assert_ok(psti_device_stream_download(stream, host, a, 12, &err));
    assert_ok(psti_device_stream_sync(stream, &err));
    assert_int_equal(host[0], 77);
    assert_int_equal(host[1], 6);
    assert_int_equal(host[2], most);
    fake_set_delay(0);
    const struct {
        uint32_t kernel, n_blocks, n_warps, shared_nbytes;
        size_t nbytes;
    } bad[] = {
        {N_KERNELS, 1, 1, 0, 8}, {0, 0, 1, 0, 8},    {0, 0x80000000u, 1, 0, 8},
        {0, 1, 0, 0, 8},         {0, 1, 33, 0, 8},   {0, 1, 1, most + 1, 8},
        {0, 1, 1, 0, 0},         {0, 1, 1, 0, 4001},
    };
    unsigned char bytes[4008] = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(psti_device_stream_launch(stream, bad[i].kernel, bad[i].n_blocks,
                                                   bad[i].n_warps, bad[i].shared_nbytes, bytes,
                                                   bad[i].nbytes, &err),
                         PST_ERROR_ARGUMENT);
    psti_device_stream_close(&stream);
    psti_device_free(device, a, 12);
    psti_device_free_pinned(device, host, 12);
    psti_device_close(&device);
    assert_nothing_left();
}

/* The GPU takes 2 ms for a block and computes nothing. */
static void events_record_time(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *device = open_gpu(0);
    struct psti_stream *stream = open_stream(device);
    struct psti_event *begin = open_event(device), *end = open_event(device);
    uint64_t a = alloc_words(device, N);
    const struct add_args args = {a, N, 5};
    assert_int_equal(psti_device_event_elapsed_ns(begin, end), 0); /* never recorded */
    fake_set_block_ns(2000000);
    assert_ok(psti_device_event_record(begin, stream, &err));
    assert_ok(psti_device_stream_launch(stream, KERNEL_ADD, 5, 1, 0, &args, sizeof args, &err));
    assert_ok(psti_device_event_record(end, stream, &err));
    assert_ok(psti_device_event_sync(end, &err));
    fake_set_block_ns(0);
    assert_true(psti_device_event_elapsed_ns(begin, end) >= 9999000); /* single precision */
    assert_int_equal(psti_device_event_elapsed_ns(end, begin), 0);
    psti_device_event_close(&begin);
    psti_device_event_close(&end);
    psti_device_stream_close(&stream);
    psti_device_free(device, a, N * 4);
    psti_device_close(&device);
    assert_nothing_left();
}

/* Two streams use one block of memory alternately, ordered only by events. */
static void streams_wait_for_events(void **state)
{
    (void)state;
    struct pst_error err;
    bool done;
    struct psti_device *device = open_gpu(0);
    struct psti_stream *first = open_stream(device), *second = open_stream(device);
    struct psti_event *filled = open_event(device), *used = open_event(device);
    uint64_t a = alloc_words(device, N), b = alloc_words(device, N);
    uint32_t *host = alloc_pinned_words(device, N);
    assert_ok(psti_device_event_is_done(used, &done, &err)); /* never recorded */
    assert_true(done);
    assert_ok(psti_device_event_sync(used, &err));
    assert_ok(psti_device_stream_clear(first, a, N * 4, &err));
    fake_set_delay(500);
    for (uint32_t round = 0; round < 10; round++) {
        const struct add_args more = {a, N, 1};
        const struct copy_args take = {b, a, N};
        assert_ok(psti_device_event_await(used, first, &err));
        assert_ok(launch(first, KERNEL_ADD, &more, sizeof more, &err));
        assert_ok(psti_device_event_record(filled, first, &err));
        assert_ok(psti_device_event_await(filled, second, &err));
        assert_ok(launch(second, KERNEL_COPY, &take, sizeof take, &err));
        assert_ok(psti_device_event_record(used, second, &err));
    }
    assert_ok(psti_device_event_is_done(used, &done, &err));
    assert_false(done);
    assert_ok(psti_device_event_sync(used, &err));
    assert_ok(psti_device_event_is_done(used, &done, &err));
    assert_true(done);
    assert_ok(psti_device_stream_download(first, host, b, N * 4, &err));
    assert_ok(psti_device_stream_sync(first, &err));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(host[i], 10);
    fake_set_delay(0);
    psti_device_event_close(&filled);
    psti_device_event_close(&used);
    psti_device_stream_close(&first);
    psti_device_stream_close(&second);
    psti_device_free(device, a, N * 4);
    psti_device_free(device, b, N * 4);
    psti_device_free_pinned(device, host, N * 4);
    psti_device_close(&device);
    assert_nothing_left();
}

/* Hands a batch over as a framework does. The foreign stream waits until the batch is ready, and
 * its memory is reused after the foreign stream has passed. `foreign`: the handle that DLPack and
 * torch give. */
static void hand_over(struct psti_device *device, uint64_t foreign, psti_cu_context context)
{
    struct pst_error err;
    struct psti_stream *stream = open_stream(device);
    struct psti_event *ready = open_event(device), *passed = open_event(device);
    uint64_t a = alloc_words(device, N);
    uint32_t *host = alloc_pinned_words(device, 8 * N);
    psti_cu_context popped;
    assert_ok(psti_device_stream_clear(stream, a, N * 4, &err));
    fake_set_delay(500);
    for (uint32_t round = 0; round < 8; round++) {
        const struct add_args more = {a, N, 1};
        assert_ok(psti_device_event_await(passed, stream, &err));
        assert_ok(launch(stream, KERNEL_ADD, &more, sizeof more, &err));
        assert_ok(psti_device_event_record(ready, stream, &err));
        assert_ok(psti_device_event_await_foreign(ready, foreign, &err));
        assert_int_equal(cuCtxPushCurrent_v2(context), 0);
        assert_int_equal(
            cuMemcpyDtoHAsync_v2(host + round * N, a, N * 4, (psti_cu_stream)(uintptr_t)foreign),
            0);
        assert_int_equal(cuCtxPopCurrent_v2(&popped), 0);
        assert_ok(psti_device_event_record_foreign(passed, foreign, &err));
    }
    assert_ok(psti_device_event_sync(passed, &err));
    for (uint32_t i = 0; i < 8 * N; i++)
        assert_int_equal(host[i], i / N + 1);
    fake_set_delay(0);
    psti_device_event_close(&ready);
    psti_device_event_close(&passed);
    psti_device_stream_close(&stream);
    psti_device_free(device, a, N * 4);
    psti_device_free_pinned(device, host, 8 * N * 4);
}

static void foreign_streams(void **state)
{
    (void)state;
    psti_cu_context context, popped;
    psti_cu_stream foreign;
    struct psti_device *device = open_gpu(1);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuStreamCreateWithPriority(&foreign, PSTI_CU_STREAM_NON_BLOCKING, -5), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&popped), 0);
    hand_over(device, (uintptr_t)foreign, context);
    for (uint64_t standard = 0; standard <= 2; standard++)
        hand_over(device, standard, context);
    assert_int_equal(cuStreamDestroy_v2(foreign), 0);
    psti_device_close(&device);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
    assert_nothing_left();
}

/* A stream of one GPU waits for an event of the other. */
static void events_cross_gpus(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *one = open_gpu(0), *two = open_gpu(1);
    struct psti_stream *first = open_stream(one), *second = open_stream(two);
    struct psti_event *event = open_event(one);
    uint64_t a = alloc_words(one, N), b = alloc_words(two, N);
    uint32_t *host = alloc_pinned_words(one, N); /* pinned memory that both GPUs can use */
    for (uint32_t i = 0; i < N; i++)
        host[i] = 9;
    fake_set_delay(2000);
    assert_ok(psti_device_stream_clear(first, a, N * 4, &err));
    assert_ok(psti_device_stream_download(first, host, a, N * 4, &err));
    assert_ok(psti_device_event_record(event, first, &err));
    assert_ok(psti_device_event_await(event, second, &err));
    assert_ok(psti_device_stream_upload(second, b, host, N * 4, &err));
    const struct add_args more = {b, N, 3};
    assert_ok(launch(second, KERNEL_ADD, &more, sizeof more, &err));
    assert_ok(psti_device_stream_download(second, host, b, N * 4, &err));
    assert_ok(psti_device_stream_sync(second, &err));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(host[i], 3);
    assert_int_equal(psti_device_event_record(event, second, &err),
                     PST_ERROR_DEVICE); /* the stream belongs to another GPU than the event */
    fake_set_delay(0);
    psti_device_event_close(&event);
    psti_device_stream_close(&first);
    psti_device_stream_close(&second);
    psti_device_free(one, a, N * 4);
    psti_device_free(two, b, N * 4);
    psti_device_free_pinned(one, host, N * 4);
    psti_device_close(&one);
    psti_device_close(&two);
    assert_nothing_left();
}

/* Closing a stream waits for its work. */
static void closing_waits(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_device *device = open_gpu(0);
    struct psti_stream *stream = open_stream(device);
    uint64_t a = alloc_words(device, N);
    uint32_t *host = alloc_pinned_words(device, N);
    host[N - 1] = 1;
    fake_set_delay(5000);
    assert_ok(psti_device_stream_clear(stream, a, N * 4, &err));
    assert_ok(psti_device_stream_download(stream, host, a, N * 4, &err));
    psti_device_stream_close(&stream);
    assert_null(stream);
    psti_device_stream_close(&stream);
    assert_int_equal(host[N - 1], 0);
    fake_set_delay(0);
    psti_device_free(device, a, N * 4);
    psti_device_free_pinned(device, host, N * 4);
    psti_device_close(&device);
    assert_nothing_left();
}

/* The same batches are used again and again. No memory of host or GPU is allocated, and no thread
 * waits. */
static void steady_state(void **state)
{
    (void)state;
    struct pst_error err;
    bool done;
    struct psti_device *device = open_gpu(0);
    struct psti_stream *stream = open_stream(device);
    struct psti_event *event = open_event(device);
    uint64_t a = alloc_words(device, N);
    uint32_t *host = alloc_pinned_words(device, N);
    memset(host, 0, N * 4);
    struct pst_memory_stats before, after;
    struct fake_counts counts;
    pst_memory_stats(&before, sizeof before);
    fake_reset_counts();
    for (int i = 0; i < 100; i++) {
        const struct add_args more = {a, N, 1};
        assert_ok(psti_device_stream_upload(stream, a, host, N * 4, &err));
        assert_ok(launch(stream, KERNEL_ADD, &more, sizeof more, &err));
        assert_ok(psti_device_event_record(event, stream, &err));
        assert_ok(psti_device_event_await_foreign(event, 0, &err));
        assert_ok(psti_device_event_record_foreign(event, 0, &err));
        assert_ok(psti_device_event_await(event, stream, &err));
        assert_ok(psti_device_event_is_done(event, &done, &err));
    }
    pst_memory_stats(&after, sizeof after);
    fake_counts(&counts);
    assert_int_equal(after.n_alloc, before.n_alloc);
    assert_int_equal(counts.n[FAKE_ALLOC] + counts.n[FAKE_HOST_ALLOC], 0);
    assert_int_equal(counts.n[FAKE_SYNC], 0);
    assert_int_equal(counts.n_made + counts.n_freed, 0);
    assert_int_equal(counts.n[FAKE_LAUNCH], 100);
    assert_int_equal(counts.n[FAKE_COPY], 100);
    psti_device_stream_close(&stream);
    psti_device_event_close(&event);
    psti_device_free(device, a, N * 4);
    psti_device_free_pinned(device, host, N * 4);
    psti_device_close(&device);
    assert_nothing_left();
}

int main(void)
{
    use_fake_driver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_and_down),
        cmocka_unit_test(launches),
        cmocka_unit_test(streams_wait_for_events),
        cmocka_unit_test(events_record_time),
        cmocka_unit_test(foreign_streams),
        cmocka_unit_test(events_cross_gpus),
        cmocka_unit_test(closing_waits),
        cmocka_unit_test(steady_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
