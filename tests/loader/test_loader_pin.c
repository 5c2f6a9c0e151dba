/* test_loader_pin.c - tests batches in page-locked memory: does the driver allocate it, is it
 * counted and freed once, may a GPU read a batch late, and what happens without a driver? The
 * tests' driver marks the GPU as broken if a copy comes from other memory. */
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/fault.h"
#include "device/fake_driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SAMPLES 40
#define EDGE 24
#define ROW_NBYTES (3 * EDGE * EDGE * sizeof(float))
#define BATCH 4
#define N_BATCHES (N_SAMPLES / BATCH)
#define OUT_OF_MEMORY 2u
#define ILLEGAL_ADDRESS 700u
#define STREAM_LEGACY ((void *)1)

/* Functions of the driver that a framework would call on a batch. */
unsigned cuInit(unsigned flags);
unsigned cuCtxPushCurrent_v2(void *context);
unsigned cuCtxPopCurrent_v2(void **context);
unsigned cuDevicePrimaryCtxRetain(void **context, int device);
unsigned cuDevicePrimaryCtxRelease_v2(int device);
unsigned cuMemAlloc_v2(unsigned long long *address, size_t nbytes);
unsigned cuMemFree_v2(unsigned long long address);
unsigned cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t nbytes, void *stream);
unsigned cuEventCreate(void **event, unsigned flags);
unsigned cuEventRecord(void *event, void *stream);
unsigned cuEventSynchronize(void *event);
unsigned cuEventDestroy_v2(void *event);
#define EVENT_FLAGS 3u /* events have no timing, and threads that wait for them sleep */

static pst_dataset *dataset;
static struct pst_op op;
static struct pst_field_output output;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    dataset = open_made(directory, "data",
                        &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_RAW_SAME});
    assert_int_equal(cuInit(0), 0);
    return 0;
}

TEAR_DOWN(&dataset)

static struct pst_loader_options options_for(enum pst_pin pin_memory)
{
    pst_op_init(&op, sizeof op, PST_OP_RANDOM_CROP);
    op.height = op.width = EDGE;
    output = (struct pst_field_output){
        .name = "image", .ops = &op, .n_ops = 1, .dtype = PST_DTYPE_F32, .layout = PST_LAYOUT_CHW};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = 2,
                                       .fields = &output,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES,
                                       .pin_memory = pin_memory};
}

static const void *images_of(const pst_batch *batch)
{
    struct pst_tensor tensor;
    assert_int_equal(pst_batch_device(batch), -1);
    assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, -1);
    return tensor.data;
}

/* Returns the images of an epoch as a loader in plain memory delivers them. */
static char *expected(uint64_t epoch)
{
    struct pst_loader_options options = options_for(PST_PIN_NEVER);
    struct pst_error err;
    pst_batch *batch;
    pst_loader *loader = open_loader(dataset, &options);
    char *images = malloc(N_SAMPLES * ROW_NBYTES);
    assert_ok(pst_loader_begin(loader, epoch, &err));
    for (size_t i = 0; i < N_BATCHES; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        memcpy(images + i * BATCH * ROW_NBYTES, images_of(batch), BATCH * ROW_NBYTES);
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
    return images;
}

/* Imitates a framework: a GPU used by this thread, and memory on it for the images of an epoch. */
struct framework {
    int gpu;
    unsigned long long images;
};

static struct framework enter(int gpu)
{
    struct framework framework = {.gpu = gpu};
    void *context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, gpu), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuMemAlloc_v2(&framework.images, N_SAMPLES * ROW_NBYTES), 0);
    return framework;
}

static void leave(const struct framework *framework)
{
    void *popped;
    assert_int_equal(cuMemFree_v2(framework->images), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&popped), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(framework->gpu), 0);
}

/* Queues the copy of a batch's images to the GPU. */
static void upload(const struct framework *framework, size_t i_batch, const pst_batch *batch)
{
    size_t nbytes = BATCH * ROW_NBYTES;
    assert_int_equal(cuMemcpyHtoDAsync_v2(framework->images + i_batch * nbytes, images_of(batch),
                                          nbytes, STREAM_LEGACY),
                     0);
}

/* Waits for the copies and returns the GPU's memory, which is memory of this process here. */
static const void *uploaded(const struct framework *framework)
{
    void *event;
    assert_int_equal(cuEventCreate(&event, EVENT_FLAGS), 0);
    assert_int_equal(cuEventRecord(event, STREAM_LEGACY), 0);
    assert_int_equal(cuEventSynchronize(event), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    return (const void *)(uintptr_t)framework->images;
}

static struct fake_counts counts_now(void)
{
    struct fake_counts counts;
    fake_counts(&counts);
    return counts;
}

static void assert_nothing_left(void) { assert_int_equal(counts_now().n_live, 0); }

/* Each batch is released as soon as its copy is queued, and the GPU makes the copy later. */
static void copy_late(int gpu, uint64_t host_memory)
{
    struct pst_loader_options options = options_for(PST_PIN_ALWAYS);
    struct pst_error err;
    pst_batch *batch;
    options.host_memory = host_memory;
    char *wanted = expected(1);
    struct framework framework = enter(gpu);
    fake_break(1 - (uint32_t)gpu, ILLEGAL_ADDRESS); /* the loader must not use the other GPU */
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 1, &err));
    fake_set_delay(5000);
    for (size_t i = 0; i < N_BATCHES; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        upload(&framework, i, batch);
        pst_batch_release(batch);
    }
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.device, -1);
    assert_int_equal(stats.fallbacks[PST_FALLBACK_PIN], 0);
    assert_true(stats.host_memory_peak <= stats.host_memory);
    assert_true(counts_now().live_host_nbytes >= stats.n_slots * BATCH * ROW_NBYTES);
    assert_true(counts_now().live_host_nbytes <= stats.host_memory_used);
    pst_loader_close(&loader);
    assert_int_equal(counts_now().live_host_nbytes, 0);
    assert_memory_equal(uploaded(&framework), wanted, N_SAMPLES * ROW_NBYTES);
    fake_set_delay(0);
    leave(&framework);
    fake_repair(1 - (uint32_t)gpu);
    free(wanted);
    assert_nothing_left();
}

/* The stream belongs to the GPU whose context is current. The loader has as many slots as it needs,
 * or few. */
static void test_a_gpu_may_read_late(void **state)
{
    struct pst_loader_options options = options_for(PST_PIN_ALWAYS);
    struct pst_error err;
    pst_loader *loader;
    (void)state;
    copy_late(0, 0);
    copy_late(1, 0);
    /* The least memory with which the loader opens is two slots, so it waits for the GPU. */
    options.host_memory = 256 << 10;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_LIMIT);
    const char *least = strstr(err.text, "at least ");
    if (!least)
        fail_msg("%s", err.text);
    copy_late(0, strtoull(least + strlen("at least "), NULL, 10));
}

static void test_steady_state_allocates_nothing(void **state)
{
    struct pst_loader_options options = options_for(PST_PIN_ALWAYS);
    uint64_t hashes[N_BATCHES];
    (void)state;
    pst_loader *loader = open_loader(dataset, &options);
    bool steady = false;
    for (uint64_t epoch = 0; epoch < 60 && !steady; epoch++) {
        fake_reset_counts();
        assert_int_equal(run_epoch(loader, epoch, hashes), N_BATCHES);
        struct fake_counts counts = counts_now();
        steady = counts.n[FAKE_HOST_ALLOC] == 0 && counts.n_made == 0 && counts.n_freed == 0;
    }
    assert_true(steady);
    pst_loader_close(&loader);
    assert_nothing_left();
}

/* The pinned memory is freed with the last batch, after the GPU has read it. */
static void test_batches_outlive_their_loader(void **state)
{
    struct pst_loader_options options = options_for(PST_PIN_ALWAYS);
    struct pst_error err;
    pst_batch *batches[2];
    (void)state;
    char *wanted = expected(0);
    struct framework framework = enter(0);
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (int i = 0; i < 2; i++)
        assert_ok(pst_loader_next(loader, &batches[i], &err));
    pst_loader_close(&loader);
    uint64_t held = counts_now().live_host_nbytes;
    assert_true(held >= 2 * BATCH * ROW_NBYTES);
    fake_set_delay(5000);
    for (size_t i = 0; i < 2; i++) {
        upload(&framework, i, batches[i]);
        pst_batch_release(batches[i]);
        assert_int_equal(counts_now().live_host_nbytes, i == 0 ? held / 2 : 0);
    }
    assert_memory_equal(uploaded(&framework), wanted, 2 * BATCH * ROW_NBYTES);
    fake_set_delay(0);
    leave(&framework);
    free(wanted);
    assert_nothing_left();
}

/* There is no driver, or it refuses to allocate page-locked memory: `auto` falls back to plain
 * memory. */
static void test_automatic_falls_back(void **state)
{
    struct pst_loader_options plain = options_for(PST_PIN_NEVER);
    struct pst_loader_options options = options_for(PST_PIN_AUTO);
    uint64_t wanted[N_BATCHES], hashes[N_BATCHES];
    (void)state;
    pst_loader *loader = open_loader(dataset, &plain);
    assert_int_equal(run_epoch(loader, 0, wanted), N_BATCHES);
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_PIN], 0);
    pst_loader_close(&loader);
    for (int variant = 0; variant < 3;
         variant++) { /* 0: all works; 1: one slot is refused; 2: there is no driver */
        if (variant == 1)
            fake_fail(FAKE_HOST_ALLOC, 2, OUT_OF_MEMORY);
        if (variant == 2)
            setenv("PENSTOCK_CUDA", "0", 1);
        loader = open_loader(dataset, &options);
        unsetenv("PENSTOCK_CUDA");
        fake_fail(FAKE_HOST_ALLOC, 0, 0);
        assert_int_equal(run_epoch(loader, 0, hashes), N_BATCHES);
        assert_memory_equal(hashes, wanted, sizeof wanted);
        struct pst_loader_stats stats = stats_of(loader);
        uint64_t n_plain = variant == 2 ? stats.n_slots : (uint64_t)variant;
        assert_int_equal(stats.fallbacks[PST_FALLBACK_PIN], n_plain);
        assert_int_equal(counts_now().live_host_nbytes > 0, variant < 2);
        pst_loader_close(&loader);
        assert_nothing_left();
    }
}

static void test_always_is_always(void **state)
{
    struct pst_loader_options options = options_for(PST_PIN_ALWAYS);
    struct pst_error err;
    pst_loader *loader;
    (void)state;
    setenv("PENSTOCK_CUDA", "0", 1);
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_UNSUPPORTED);
    unsetenv("PENSTOCK_CUDA");
    assert_non_null(strstr(err.text, "pin_memory"));
    assert_non_null(strstr(err.text, "PENSTOCK_CUDA=0"));
    fake_fail(FAKE_HOST_ALLOC, 2, OUT_OF_MEMORY);
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_MEMORY);
    fake_fail(FAKE_HOST_ALLOC, 0, 0);
    assert_non_null(strstr(err.text, "page-locked"));
    assert_non_null(strstr(err.text, "CUDA_ERROR_OUT_OF_MEMORY"));
    options.placement = PST_PLACEMENT_DEVICE;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
    options.placement = PST_PLACEMENT_HOST;
    options.pin_memory = (enum pst_pin)3;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_nothing_left();
}

/* Each driver call and each allocation fails, alone or with all that follow. Nothing leaks, and
 * `auto` delivers the same batches. */
static void test_each_fault(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_DEVICE, PSTI_FAULT_ALLOC};
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    char *wanted = expected(0);
    for (int variant = 0; variant < 8; variant++) {
        enum psti_fault_kind kind = kinds[variant / 4];
        bool sticky = variant & 1, automatic = variant & 2;
        struct pst_loader_options options = options_for(automatic ? PST_PIN_AUTO : PST_PIN_ALWAYS);
        options.num_workers = 0;
        for (uint64_t n = 1, calls = n; calls >= n; n++) {
            pst_loader *loader;
            psti_fault_arm(kind, n, sticky);
            enum pst_status status = pst_loader_open(dataset, &options, &loader, &err);
            if (status == PST_OK)
                status = pst_loader_begin(loader, 0, &err);
            for (size_t i = 0; status == PST_OK && i < 3; i++) {
                status = pst_loader_next(loader, &batch, &err);
                if (status != PST_OK)
                    break;
                assert_memory_equal(images_of(batch), wanted + i * BATCH * ROW_NBYTES,
                                    BATCH * ROW_NBYTES);
                pst_batch_release(batch);
            }
            pst_loader_close(&loader);
            calls = psti_fault_count(kind);
            psti_fault_arm(kind, 0, false);
            if (automatic && kind == PSTI_FAULT_DEVICE)
                assert_int_equal(status, PST_OK);
            if (n == 1 && !automatic)
                assert_int_not_equal(status, PST_OK);
            assert_nothing_left();
        }
    }
    free(wanted);
}

static void test_a_forked_child_leaves_the_driver_alone(void **state)
{
    struct pst_loader_options options = options_for(PST_PIN_ALWAYS);
    struct pst_error err;
    pst_batch *batch;
    int code;
    (void)state;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    fake_reset_counts();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t n_before = counts_now().n_calls;
        pst_batch_release(batch);
        pst_loader_close(&loader);
        _exit(counts_now().n_calls == n_before ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    pst_batch_release(batch);
    pst_loader_close(&loader);
    assert_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_may_read_late),
        cmocka_unit_test(test_steady_state_allocates_nothing),
        cmocka_unit_test(test_batches_outlive_their_loader),
        cmocka_unit_test(test_automatic_falls_back),
        cmocka_unit_test(test_always_is_always),
        cmocka_unit_test(test_each_fault),
        cmocka_unit_test(test_a_forked_child_leaves_the_driver_alone),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    unsetenv("PENSTOCK_CUDA");
    alarm(300);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
