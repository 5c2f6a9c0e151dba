/* test_loader_device_streams.c - when may a batch's memory on a GPU be overwritten? Tests streams
 * that read late, several streams, faults, and a steady state that neither allocates nor waits. The
 * tests' driver can run slowly, which exposes a missing wait. */
#include "loader/loader_fixture.h"
#include "test.h"

#include "device/fake_driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SAMPLES 40
#define EDGE 24
#define ROW_NBYTES (3 * EDGE * EDGE * sizeof(float))
#define BATCH 4

/* The test plays a foreign framework: it makes streams with the driver's own functions. Handles are
 * pointers. */
unsigned cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
unsigned cuStreamDestroy_v2(void *stream);
unsigned cuCtxPushCurrent_v2(void *context);
unsigned cuCtxPopCurrent_v2(void **context);
unsigned cuDevicePrimaryCtxRetain(void **context, int device);
unsigned cuDevicePrimaryCtxRelease_v2(int device);
unsigned cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t nbytes, void *stream);
unsigned cuMemHostAlloc(void **memory, size_t nbytes, unsigned flags);
unsigned cuMemFreeHost(void *memory);
unsigned cuEventCreate(void **event, unsigned flags);
unsigned cuEventRecord(void *event, void *stream);
unsigned cuEventSynchronize(void *event);
unsigned cuEventDestroy_v2(void *event);

#define STREAM_NON_BLOCKING 1u
#define HOST_PORTABLE 1u
#define EVENT_FLAGS 3u /* events have no timing, and threads that wait for them sleep */
#define ILLEGAL_ADDRESS 700u
#define OUT_OF_MEMORY 2u

static pst_dataset *dataset;
static void *context;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    dataset = open_made(directory, "data",
                        &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_RAW_SAME});
    assert_true(pst_cuda_count() > 0); /* this call starts the driver */
    return 0;
}

TEAR_DOWN(&dataset)

static void enter(void)
{
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
}

static void leave(void)
{
    void *popped;
    assert_int_equal(cuCtxPopCurrent_v2(&popped), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
}

static struct pst_op ops[2];
static struct pst_field_output output;

static struct pst_loader_options options_for(enum pst_placement placement)
{
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_CROP);
    ops[0].height = ops[0].width = EDGE;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    output = (struct pst_field_output){
        .name = "image", .ops = ops, .n_ops = 2, .dtype = PST_DTYPE_F32, .layout = PST_LAYOUT_CHW};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = 2,
                                       .fields = &output,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES,
                                       .placement = placement};
}

/* Returns the images of an epoch as a loader in host memory delivers them. */
static char *expected(uint64_t epoch)
{
    struct pst_loader_options options = options_for(PST_PLACEMENT_HOST);
    struct pst_error err;
    struct pst_tensor tensor;
    pst_batch *batch;
    pst_loader *loader = open_loader(dataset, &options);
    char *images = malloc(N_SAMPLES * ROW_NBYTES), *at = images;
    assert_ok(pst_loader_begin(loader, epoch, &err));
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
        memcpy(at, tensor.data, pst_batch_count(batch) * ROW_NBYTES);
        at += pst_batch_count(batch) * ROW_NBYTES;
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
    return images;
}

/* Queues a read on the stream: it will copy the batch's images to `to` in host memory. */
static void read_by(void *stream, pst_batch *batch, char *to)
{
    struct pst_error err;
    struct pst_tensor tensor;
    assert_ok(pst_batch_await(batch, (uint64_t)(uintptr_t)stream, &err));
    assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(to, (unsigned long long)(uintptr_t)tensor.data,
                                          BATCH * ROW_NBYTES, stream),
                     0);
}

/* Waits until a stream has done all its work. */
static void drain(void *stream)
{
    void *event;
    assert_int_equal(cuEventCreate(&event, EVENT_FLAGS), 0);
    assert_int_equal(cuEventRecord(event, stream), 0);
    assert_int_equal(cuEventSynchronize(event), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
}

static void *pinned(size_t nbytes)
{
    void *memory;
    assert_int_equal(cuMemHostAlloc(&memory, nbytes, HOST_PORTABLE), 0);
    return memory;
}

static void assert_nothing_left(void)
{
    struct fake_counts counts;
    fake_counts(&counts);
    assert_int_equal(counts.n_live, 0);
}

/* Two streams read each batch long after the caller released it, while the loader prepares
 * others. */
static void test_late_readers_see_their_batch(void **state)
{
    struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
    struct pst_error err;
    pst_batch *batch;
    void *streams[2];
    (void)state;
    char *wanted = expected(1);
    enter();
    char *seen[2];
    for (int i = 0; i < 2; i++) {
        seen[i] = pinned(N_SAMPLES * ROW_NBYTES);
        memset(seen[i], 0, N_SAMPLES * ROW_NBYTES);
        assert_int_equal(cuStreamCreateWithPriority(&streams[i], STREAM_NON_BLOCKING, 0), 0);
    }
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 1, &err));
    fake_set_delay(3000);
    for (size_t i = 0; i < N_SAMPLES / BATCH; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        for (int s = 0; s < 2; s++)
            read_by(streams[s], batch, seen[s] + i * BATCH * ROW_NBYTES);
        pst_batch_release(batch);
    }
    for (int s = 0; s < 2; s++) {
        drain(streams[s]);
        assert_memory_equal(seen[s], wanted, N_SAMPLES * ROW_NBYTES);
    }
    fake_set_delay(0);
    pst_loader_close(&loader);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(cuStreamDestroy_v2(streams[s]), 0);
        assert_int_equal(cuMemFreeHost(seen[s]), 0);
    }
    leave();
    free(wanted);
    assert_nothing_left();
}

/* Thread function: releases a batch that another thread reads on its per-thread default stream. */
static void *release_it(void *batch)
{
    pst_batch_release(batch);
    return NULL;
}

static void test_default_streams(void **state)
{
    static const uint64_t handles[] = {0, 1, 2};
    struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
    struct pst_error err;
    pst_batch *batch;
    pthread_t thread;
    (void)state;
    char *wanted = expected(2);
    enter();
    char *seen = pinned(N_SAMPLES * ROW_NBYTES);
    pst_loader *loader = open_loader(dataset, &options);
    for (int h = 0; h < 3; h++) {
        void *stream = (void *)(uintptr_t)handles[h];
        memset(seen, 0, N_SAMPLES * ROW_NBYTES);
        assert_ok(pst_loader_begin(loader, 2, &err));
        fake_set_delay(2000);
        for (size_t i = 0; i < N_SAMPLES / BATCH; i++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            read_by(stream, batch, seen + i * BATCH * ROW_NBYTES);
            assert_int_equal(pthread_create(&thread, NULL, release_it, batch), 0);
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
        drain(stream);
        fake_set_delay(0);
        assert_memory_equal(seen, wanted, N_SAMPLES * ROW_NBYTES);
    }
    pst_loader_close(&loader);
    assert_int_equal(cuMemFreeHost(seen), 0);
    leave();
    free(wanted);
    assert_nothing_left();
}

/* The loader is closed before a stream has read its last batches. */
static void test_batches_outlive_the_loader(void **state)
{
    struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
    struct pst_error err;
    pst_batch *batches[2];
    void *stream;
    (void)state;
    char *wanted = expected(0);
    enter();
    char *seen = pinned(2 * BATCH * ROW_NBYTES);
    assert_int_equal(cuStreamCreateWithPriority(&stream, STREAM_NON_BLOCKING, 0), 0);
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (int i = 0; i < 2; i++)
        assert_ok(pst_loader_next(loader, &batches[i], &err));
    fake_set_delay(3000);
    pst_loader_close(&loader);
    for (int i = 0; i < 2; i++) {
        read_by(stream, batches[i], seen + (size_t)i * BATCH * ROW_NBYTES);
        pst_batch_release(batches[i]); /* the memory is freed once the stream has read it */
    }
    drain(stream);
    fake_set_delay(0);
    assert_memory_equal(seen, wanted, 2 * BATCH * ROW_NBYTES);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuMemFreeHost(seen), 0);
    leave();
    free(wanted);
    assert_nothing_left();
}

static void test_steady_state_neither_allocates_nor_waits(void **state)
{
    struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
    struct pst_error err;
    struct fake_counts counts;
    pst_batch *batch;
    (void)state;
    pst_loader *loader = open_loader(dataset, &options);
    /* A slot that has not been used yet has no event for this reader. On a busy machine some slots
     * are used for the first time late. */
    bool steady = false;
    for (uint64_t epoch = 0; epoch < 60 && !steady; epoch++) {
        fake_reset_counts();
        assert_ok(pst_loader_begin(loader, epoch, &err));
        while (pst_loader_next(loader, &batch, &err) == PST_OK) {
            assert_ok(pst_batch_await(batch, 1, &err));
            pst_batch_release(batch);
        }
        fake_counts(&counts);
        steady = epoch > 0 && counts.n[FAKE_ALLOC] == 0 && counts.n[FAKE_HOST_ALLOC] == 0 &&
                 counts.n_made == 0;
    }
    assert_true(steady);
    assert_int_equal(counts.n[FAKE_SYNC], 0);
    assert_int_equal(counts.n_freed, 0);
    assert_true(counts.n[FAKE_LAUNCH] >= N_SAMPLES / BATCH);
    pst_loader_close(&loader);
    assert_nothing_left();
}

/* The bytes of the next batches are uploaded before the kernels of the first batch have begun. */
static void test_uploads_do_not_wait_for_kernels(void **state)
{
    struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
    struct pst_error err;
    struct pst_tensor tensor;
    struct fake_counts counts;
    pst_batch *batch;
    (void)state;
    char *wanted = expected(0), *at = wanted;
    pst_loader *loader = open_loader(dataset, &options);
    fake_reset_counts();
    fake_hold_launches(true);
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (int i = 0; i < 30000; i++) {
        fake_counts(&counts);
        if (counts.n_uploaded >= 2)
            break;
        usleep(1000);
    }
    fake_hold_launches(false);
    assert_true(counts.n_uploaded >= 2);
    for (int i = 0; i < N_SAMPLES / BATCH; i++, at += BATCH * ROW_NBYTES) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
        assert_memory_equal(tensor.data, at, BATCH * ROW_NBYTES);
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
    free(wanted);
    assert_nothing_left();
}

/* The n-th driver call of one kind fails, for n = 1, 2, ... until fewer than n calls are made. The
 * result is an error that says so, or the same batches. Nothing leaks. */
static void test_faults(void **state)
{
    static const enum fake_what kinds[] = {FAKE_ALLOC, FAKE_HOST_ALLOC, FAKE_LAUNCH, FAKE_COPY};
    (void)state;
    char *wanted = expected(0);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint64_t n = 1;; n++) {
            bool is_memory = kinds[k] == FAKE_ALLOC || kinds[k] == FAKE_HOST_ALLOC;
            struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
            struct pst_error err;
            struct pst_tensor tensor;
            pst_loader *loader = NULL;
            pst_batch *batch;
            size_t i = 0;
            options.num_workers = 1;
            fake_reset_counts();
            fake_fail(kinds[k], n, is_memory ? OUT_OF_MEMORY : ILLEGAL_ADDRESS);
            enum pst_status status = pst_loader_open(dataset, &options, &loader, &err);
            if (status == PST_OK)
                status = pst_loader_begin(loader, 0, &err);
            while (status == PST_OK && i < 3) {
                status = pst_loader_next(loader, &batch, &err);
                if (status != PST_OK)
                    break;
                assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
                assert_memory_equal(tensor.data, wanted + i++ * BATCH * ROW_NBYTES,
                                    BATCH * ROW_NBYTES);
                pst_batch_release(batch);
            }
            pst_loader_close(&loader);
            fake_fail(kinds[k], 0, 0);
            fake_repair(0);
            assert_nothing_left();
            struct fake_counts counts;
            fake_counts(&counts);
            if (counts.n[kinds[k]] < n)
                break;            /* fewer than n calls were made */
            if (status != PST_OK) /* if the call succeeds, fewer batches were prepared ahead */
                assert_int_equal(status, is_memory ? PST_ERROR_MEMORY : PST_ERROR_DEVICE);
        }
    free(wanted);
}

static void test_broken_gpu(void **state)
{
    struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
    struct pst_error err;
    pst_batch *held, *batch;
    enum pst_status status;
    (void)state;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &held, &err));
    fake_break(0, ILLEGAL_ADDRESS);
    while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK)
        pst_batch_release(batch);
    assert_int_equal(status, PST_ERROR_DEVICE);
    assert_non_null(strstr(err.text, "GPU 0"));
    assert_int_equal(pst_loader_next(loader, &batch, &err),
                     PST_ERROR_DEVICE); /* a second call fails in the same way */
    assert_int_equal(pst_batch_await(held, 1, &err), PST_ERROR_DEVICE);
    pst_batch_release(held);
    pst_loader_close(&loader);
    fake_repair(0);
}

static void test_forked_child(void **state)
{
    struct pst_loader_options options = options_for(PST_PLACEMENT_DEVICE);
    struct pst_error err;
    pst_batch *held;
    int status;
    (void)state;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &held, &err));
    pid_t child = fork();
    if (child == 0) {
        pst_batch *batch;
        bool good = pst_batch_await(held, 1, &err) == PST_ERROR_FORKED &&
                    pst_loader_next(loader, &batch, &err) == PST_ERROR_FORKED;
        pst_batch_release(held);
        pst_loader_close(&loader);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pst_batch_release(held);
    pst_loader_close(&loader);
    assert_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_readers_see_their_batch),
        cmocka_unit_test(test_default_streams),
        cmocka_unit_test(test_batches_outlive_the_loader),
        cmocka_unit_test(test_uploads_do_not_wait_for_kernels),
        cmocka_unit_test(test_steady_state_neither_allocates_nor_waits),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_broken_gpu),
        cmocka_unit_test(test_forked_child),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
