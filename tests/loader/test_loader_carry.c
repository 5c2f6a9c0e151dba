/* test_loader_carry.c - rows that may differ in shape (boxes, keypoints, arrays) on a GPU: they are
 * those of host memory in each way of putting them together, lie on the GPU in one upload, and stay
 * there as long as a stream reads them, also when the slot's memory grows. The GPU is simulated by
 * the tests' own driver. */
#include "loader/loader_fixture.h"
#include "test.h"

#include "device/fake_driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_SAMPLES = 48, BATCH = 4, LARGE = 29, N_LARGE = 6000, STEPS_MAX = 64 };

/* The test plays a foreign framework: it makes streams with the driver's own functions. */
unsigned cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
unsigned cuStreamDestroy_v2(void *stream);
unsigned cuEventCreate(void **event, unsigned flags);
unsigned cuEventRecord(void *event, void *stream);
unsigned cuEventSynchronize(void *event);
unsigned cuEventDestroy_v2(void *event);
unsigned cuCtxPushCurrent_v2(void *context);
unsigned cuCtxPopCurrent_v2(void **context);
unsigned cuDevicePrimaryCtxRetain(void **context, int device);
unsigned cuDevicePrimaryCtxRelease_v2(int device);
unsigned cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t nbytes, void *stream);
unsigned cuMemHostAlloc(void **memory, size_t nbytes, unsigned flags);
unsigned cuMemFreeHost(void *memory);

#define STREAM_NON_BLOCKING 1u
#define HOST_PORTABLE 1u
#define EVENT_FLAGS 3u /* events have no timing, and threads that wait for them sleep */
#define OUT_OF_MEMORY 2u
#define ILLEGAL_ADDRESS 700u

static pst_dataset *dataset;

/* Returns the number of boxes of a sample: few, none in samples 8 to 11, many in sample LARGE. */
static uint32_t count_of(uint32_t i) { return i == LARGE ? N_LARGE : i / 4 == 2 ? 0 : i * 5 % 7; }

static void add_boxes(pst_writer *writer, uint32_t i)
{
    uint32_t n = count_of(i);
    float *boxes = calloc(n + 1, 4 * sizeof *boxes);
    int64_t *labels = calloc(n + 1, sizeof *labels);
    char name[16];
    for (uint32_t k = 0; k < n; k++) {
        boxes[4 * k] = (float)(k % 7);
        boxes[4 * k + 1] = (float)(i % 5);
        boxes[4 * k + 2] = (float)(k % 7 + 20 + i % 11);
        boxes[4 * k + 3] = (float)(25 + k % 4);
        labels[k] = 1000 * (int64_t)i + k;
    }
    uint8_t pixels[32 * 48 * 3];
    make_pixels(i, 32, 48, pixels);
    const struct pst_value values[4] = {
        {.bytes = pixels,
         .nbytes = sizeof pixels,
         .form = PST_FORM_RAW,
         .height = 32,
         .width = 48,
         .channels = 3,
         .bits = 8},
        {.bytes = boxes, .nbytes = n * 4 * sizeof *boxes},
        {.bytes = labels, .nbytes = n * sizeof *labels, .ndim = 1, .shape = {n}},
        {.bytes = name, .nbytes = 1 + i % 3}};
    const struct pst_value *all[4] = {&values[0], &values[1], &values[2], &values[3]};
    snprintf(name, sizeof name, "%04u", i);
    add_sample(writer, name, all);
    free(boxes);
    free(labels);
}

static int set_up(void **state)
{
    static const struct pst_field fields[4] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "boxes", .type = PST_FIELD_BOXES, .n_variants = 1},
        {.name = "labels", .type = PST_FIELD_ARRAY, .dtype = PST_DTYPE_I64, .n_variants = 1},
        {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1}};
    struct pst_error err;
    pst_writer *writer;
    char path[128];
    (void)state;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/boxes", directory);
    assert_ok(pst_writer_open(
        path, fields, 4,
        &(struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options)}, &writer,
        &err));
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        add_boxes(writer, i);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    assert_true(pst_cuda_count() > 0); /* this call starts the driver */
    return 0;
}

TEAR_DOWN(&dataset)

static struct pst_field_output outputs[4];
static struct pst_op ops[2];

/* Returns options for boxes, labels and texts, with `image` also for images. In sequential order a
 * batch has no boxes (step 2), and a later one has very many (step 7). */
static struct pst_loader_options options_for(enum pst_ragged ragged, bool image)
{
    outputs[0] = (struct pst_field_output){.name = "boxes", .ragged = ragged};
    outputs[1] =
        (struct pst_field_output){.name = "labels", .ragged = ragged, .per_box_of = "boxes"};
    outputs[2] = (struct pst_field_output){.name = "text"};
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RESIZE);
    ops[0].height = ops[0].width = 24;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    outputs[3] = (struct pst_field_output){.name = "image", .ops = ops, .n_ops = 2};
    if (ragged == PST_RAGGED_PADDED)
        outputs[1].pad_value = -7;
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .seed = 9,
                                       .num_workers = 2,
                                       .fields = outputs,
                                       .n_fields = image ? 4 : 3,
                                       .only_listed = true,
                                       TEST_ELEMENT_SIZES,
                                       .placement = PST_PLACEMENT_DEVICE};
}

static size_t run(struct pst_loader_options options, enum pst_placement placement,
                  void (*look)(pst_loader *, const pst_batch *), uint64_t *hashes)
{
    struct pst_error err;
    options.placement = placement;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 1, &err));
    size_t n = drain_epoch(loader, look, hashes);
    pst_loader_close(&loader);
    return n;
}

static bool is_text(const pst_batch *batch, uint32_t f)
{
    return pst_batch_field_type(batch, f) == PST_FIELD_TEXT;
}

/* Compares an array on the GPU with its copy in host memory. */
static void check_pair(const struct pst_tensor *gpu, const struct pst_tensor *host)
{
    assert_int_equal(gpu->device, 0);
    assert_int_equal(host->device, -1);
    assert_int_equal(gpu->ndim, host->ndim);
    assert_memory_equal(gpu->shape, host->shape, gpu->ndim * sizeof gpu->shape[0]);
    assert_non_null(gpu->data);
    if (gpu->shape[0] > 0)
        assert_memory_equal(gpu->data, host->data, (size_t)(gpu->shape[0] * gpu->strides[0]));
}

/* Checks that rows and arrays of boxes and labels lie on the GPU, each at a multiple of 64
 * bytes. */
static void look(pst_loader *loader, const pst_batch *batch)
{
    struct pst_tensor gpu, host;
    (void)loader;
    for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++) {
        bool put_together = pst_batch_collated(batch, f, PST_COLLATED_VALUES, &gpu, sizeof gpu);
        for (int part = 0; part <= PST_COLLATED_SHAPES; part++) {
            if (!pst_batch_collated(batch, f, (enum pst_collated)part, &gpu, sizeof gpu))
                continue;
            assert_true(
                pst_batch_host_collated(batch, f, (enum pst_collated)part, &host, sizeof host));
            check_pair(&gpu, &host);
            assert_int_equal((uintptr_t)gpu.data % 64, 0);
        }
        for (uint32_t row = 0; row < pst_batch_count(batch) && !put_together; row++) {
            assert_int_equal(pst_batch_row(batch, f, row, &gpu, sizeof gpu, NULL), PST_OK);
            if (is_text(batch, f))
                assert_int_equal(gpu.device, -1);
            if (is_text(batch, f) || pst_batch_field_type(batch, f) == PST_FIELD_IMAGE)
                continue;
            assert_int_equal(pst_batch_host_row(batch, f, row, &host, sizeof host, NULL), PST_OK);
            check_pair(&gpu, &host);
            assert_int_equal((uintptr_t)gpu.data % 64, 0);
        }
    }
}

static void test_every_way_gives_the_values_of_host_memory(void **state)
{
    (void)state;
    for (int ragged = 0; ragged <= PST_RAGGED_OFFSETS; ragged++)
        for (int image = 0; image < 2; image++)
            for (uint32_t workers = 0; workers < 3; workers += 2)
                for (int order = 0; order < 2; order++) {
                    uint64_t host[STEPS_MAX], gpu[STEPS_MAX];
                    struct pst_loader_options options = options_for((enum pst_ragged)ragged, image);
                    options.num_workers = workers;
                    options.order = order ? PST_ORDER_SHUFFLED : PST_ORDER_SEQUENTIAL;
                    size_t n = run(options, PST_PLACEMENT_HOST, NULL, host);
                    assert_int_equal(run(options, PST_PLACEMENT_DEVICE, look, gpu), n);
                    for (size_t i = 0; i < n; i++)
                        if (gpu[i] != host[i])
                            fail_msg("ragged %d, image %d, %u workers, order %d: batch %zu differs",
                                     ragged, image, workers, order, i);
                }
}

/* Batches that are fetched, also larger ones than others, and replayed are those of host memory. */
static void test_fetch_replay_and_resume(void **state)
{
    const uint64_t samples[6] = {LARGE, 9, 0, 44, LARGE, 2};
    (void)state;
    for (int ragged = 0; ragged <= PST_RAGGED_OFFSETS; ragged++) {
        uint64_t hashes[2][STEPS_MAX] = {{0}};
        for (int device = 0; device < 2; device++) {
            struct pst_loader_options options = options_for((enum pst_ragged)ragged, true);
            struct pst_loader_state at;
            struct pst_error err;
            pst_batch *batch;
            options.placement = device ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
            pst_loader *loader = open_loader(dataset, &options);
            assert_ok(pst_loader_begin(loader, 2, &err));
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
            assert_ok(pst_loader_fetch(loader, 2, samples, 6, &batch, &err));
            hashes[device][0] = hash_batch(batch);
            pst_batch_release(batch);
            assert_ok(pst_loader_replay(loader, 2, 7, &batch, &err));
            hashes[device][1] = hash_batch(batch);
            pst_batch_release(batch);
            pst_loader_state(loader, &at);
            pst_loader_close(&loader);
            loader = open_loader(dataset, &options);
            assert_ok(pst_loader_resume(loader, &at, &err));
            assert_int_equal(drain_epoch(loader, device ? look : NULL, hashes[device] + 2),
                             N_SAMPLES / BATCH - 1);
            pst_loader_close(&loader);
        }
        assert_memory_equal(hashes[1], hashes[0], sizeof hashes[0]);
    }
}

/* All rows of a batch, however many, are one upload besides that of the numbers. */
static void test_rows_are_one_upload(void **state)
{
    (void)state;
    for (int ragged = 0; ragged <= PST_RAGGED_OFFSETS; ragged++) {
        struct pst_loader_options options = options_for((enum pst_ragged)ragged, false);
        struct fake_counts counts;
        struct pst_error err;
        uint64_t hashes[STEPS_MAX];
        pst_loader *loader = open_loader(dataset, &options);
        fake_reset_counts();
        assert_ok(pst_loader_begin(loader, 1, &err));
        size_t n = drain_epoch(loader, NULL, hashes);
        fake_counts(&counts);
        /* The batch without boxes has lengths or offsets, but no rows of lists. */
        assert_int_equal(counts.n[FAKE_COPY], 2 * n - (ragged == PST_RAGGED_LIST));
        assert_int_equal(counts.n[FAKE_SYNC], 0);
        pst_loader_close(&loader);
    }
}

static void *release_it(void *batch)
{
    pst_batch_release(batch);
    return NULL;
}

static void *pinned(size_t nbytes)
{
    void *memory;
    assert_int_equal(cuMemHostAlloc(&memory, nbytes, HOST_PORTABLE), 0);
    return memory;
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

/* A loader, a stream that reads its batches late, and what it has read. */
struct reader {
    pst_loader *loader;
    void *stream;
    char *seen;
    size_t nbytes;
};

/* Queues a read of all boxes and labels of the batch, and releases it in another thread. */
static void read_late(struct reader *reader, pst_batch *batch)
{
    struct pst_error err;
    struct pst_tensor tensor;
    pthread_t thread;
    assert_ok(pst_batch_await(batch, (uint64_t)(uintptr_t)reader->stream, &err));
    for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++)
        for (uint32_t row = 0; row < pst_batch_count(batch) && !is_text(batch, f); row++) {
            assert_int_equal(pst_batch_row(batch, f, row, &tensor, sizeof tensor, NULL), PST_OK);
            size_t nbytes = (size_t)(tensor.shape[0] * tensor.strides[0]);
            if (nbytes == 0)
                continue;
            assert_int_equal(tensor.device, 0);
            assert_int_equal(cuMemcpyDtoHAsync_v2(reader->seen + reader->nbytes,
                                                  (unsigned long long)(uintptr_t)tensor.data,
                                                  nbytes, reader->stream),
                             0);
            reader->nbytes += nbytes;
        }
    assert_int_equal(pthread_create(&thread, NULL, release_it, batch), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Returns the bytes of all boxes and labels of an epoch, as a loader in host memory gives them. */
static char *expected(size_t *nbytes)
{
    struct pst_loader_options options = options_for(PST_RAGGED_LIST, false);
    struct pst_tensor tensor;
    struct pst_error err;
    pst_batch *batch;
    options.placement = PST_PLACEMENT_HOST;
    pst_loader *loader = open_loader(dataset, &options);
    char *bytes = malloc(1 << 20);
    *nbytes = 0;
    assert_ok(pst_loader_begin(loader, 1, &err));
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++)
            for (uint32_t row = 0; row < pst_batch_count(batch) && !is_text(batch, f); row++) {
                assert_int_equal(pst_batch_row(batch, f, row, &tensor, sizeof tensor, NULL),
                                 PST_OK);
                size_t n = (size_t)(tensor.shape[0] * tensor.strides[0]);
                memcpy(bytes + *nbytes, tensor.data, n);
                *nbytes += n;
            }
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
    return bytes;
}

/* Two loaders at the same time, each with a stream that reads batches long after their release,
 * while others are made. So little host_memory makes slots begin without memory for the largest
 * batch, which therefore grows while streams read. */
static void test_late_readers_see_their_rows(void **state)
{
    struct pst_loader_options options = options_for(PST_RAGGED_LIST, false);
    struct reader readers[2] = {{0}};
    struct fake_counts counts;
    struct pst_error err;
    pst_batch *batch;
    void *context;
    size_t nbytes;
    (void)state;
    char *wanted = expected(&nbytes);
    options.host_memory = 8 << 20;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    for (int i = 0; i < 2; i++) {
        readers[i].loader = open_loader(dataset, &options);
        readers[i].seen = pinned(nbytes);
        assert_int_equal(cuStreamCreateWithPriority(&readers[i].stream, STREAM_NON_BLOCKING, 0), 0);
    }
    fake_reset_counts();
    for (int i = 0; i < 2; i++)
        assert_ok(pst_loader_begin(readers[i].loader, 1, &err));
    fake_set_delay(500);
    for (size_t step = 0; step < N_SAMPLES / BATCH; step++)
        for (int i = 0; i < 2; i++) {
            assert_ok(pst_loader_next(readers[i].loader, &batch, &err));
            read_late(&readers[i], batch);
        }
    for (int i = 0; i < 2; i++) {
        drain(readers[i].stream);
        assert_int_equal(readers[i].nbytes, nbytes);
        assert_memory_equal(readers[i].seen, wanted, nbytes);
    }
    fake_set_delay(0);
    fake_counts(&counts);
    assert_true(counts.n[FAKE_ALLOC] >= 4); /* the slots' memory has grown */
    for (int i = 0; i < 2; i++) {
        pst_loader_close(&readers[i].loader);
        assert_int_equal(cuStreamDestroy_v2(readers[i].stream), 0);
        assert_int_equal(cuMemFreeHost(readers[i].seen), 0);
    }
    void *popped;
    assert_int_equal(cuCtxPopCurrent_v2(&popped), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    free(wanted);
    fake_counts(&counts);
    assert_int_equal(counts.n_live, 0);
}

/* A batch that is kept is not changed while others are made. */
static void test_a_kept_batch_stays(void **state)
{
    struct pst_loader_options options = options_for(PST_RAGGED_OFFSETS, true);
    uint64_t hashes[STEPS_MAX];
    struct pst_error err;
    pst_batch *kept;
    (void)state;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 1, &err));
    assert_ok(pst_loader_next(loader, &kept, &err));
    uint64_t hash = hash_batch(kept);
    for (uint64_t epoch = 2; epoch < 5; epoch++)
        run_epoch(loader, epoch, hashes);
    assert_int_equal(hash_batch(kept), hash);
    pst_loader_close(&loader);
    assert_int_equal(hash_batch(kept), hash);
    pst_batch_release(kept);
}

/* With as much memory as the slots have at first, the large batch is made after others were freed.
 * With less than one such batch needs, the error says that the GPU's memory is too small. A batch
 * that the caller holds is named, and the loader goes on when it is released. */
static void test_device_memory_is_a_limit(void **state)
{
    uint64_t host[STEPS_MAX], gpu[STEPS_MAX];
    struct pst_loader_options options = options_for(PST_RAGGED_LIST, false);
    const uint64_t large = N_LARGE * (4 * sizeof(float) + sizeof(int64_t));
    struct pst_error err;
    pst_batch *batch, *held;
    size_t n;
    (void)state;
    options.host_memory = 12 << 20;
    size_t n_steps = run(options, PST_PLACEMENT_HOST, NULL, host);
    pst_loader *loader = open_loader(dataset, &options);
    uint64_t slots = stats_of(loader).device_memory_used;
    pst_loader_close(&loader);

    options.device_memory = slots + large + 8192; /* for one large batch, not for several */
    loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 1, &err));
    assert_int_equal(drain_epoch(loader, look, gpu), n_steps);
    assert_memory_equal(gpu, host, n_steps * sizeof *gpu);
    assert_true(stats_of(loader).device_memory_peak <= options.device_memory);
    pst_loader_close(&loader);

    options.device_memory = slots + 4096; /* enough for all batches but the large one */
    loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 1, &err));
    enum pst_status status = drain_until(loader, look, gpu, &n, &err);
    if (status != PST_ERROR_LIMIT || !strstr(err.text, "device memory"))
        fail_msg("%d: %s", status, err.text);
    assert_int_equal(n, LARGE / BATCH);
    assert_memory_equal(gpu, host, n * sizeof *gpu);
    pst_loader_close(&loader);

    options.device_memory = slots + large + 8192;
    loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 1, &err));
    for (size_t i = 0; i < LARGE / BATCH; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
    }
    assert_ok(pst_loader_next(loader, &held, &err)); /* the large one */
    const uint64_t again[1] = {LARGE};
    status = pst_loader_fetch(loader, 1, again, 1, &batch, &err);
    if (status != PST_ERROR_LIMIT || !strstr(err.text, "device memory"))
        fail_msg("%d: %s", status, err.text);
    pst_batch_release(held);
    assert_ok(pst_loader_fetch(loader, 1, again, 1, &batch, &err));
    pst_batch_release(batch);
    assert_int_equal(drain_epoch(loader, look, gpu), n_steps - 1 - LARGE / BATCH);
    pst_loader_close(&loader);
}

/* The n-th driver call of one kind fails, for n = 1, 2, ... until fewer are made. The result is an
 * error that says so, or the same batches. Nothing leaks. Rows are made in the calling thread. */
static void test_faults(void **state)
{
    static const enum fake_what kinds[] = {FAKE_ALLOC, FAKE_HOST_ALLOC, FAKE_COPY};
    struct pst_loader_options options = options_for(PST_RAGGED_LIST, false);
    uint64_t host[STEPS_MAX], gpu[STEPS_MAX];
    uint32_t n_errors = 0;
    (void)state;
    options.host_memory = 8 << 20;
    options.num_workers = 0;
    size_t n_steps = run(options, PST_PLACEMENT_HOST, NULL, host);
    for (int k = 0; k < 3; k++)
        for (uint64_t n = 1;; n++) {
            enum pst_status wanted = kinds[k] == FAKE_COPY ? PST_ERROR_DEVICE : PST_ERROR_MEMORY;
            struct fake_counts counts;
            struct pst_error err;
            pst_loader *loader = NULL;
            size_t n_made = 0;
            fake_reset_counts();
            fake_fail(kinds[k], n, kinds[k] == FAKE_COPY ? ILLEGAL_ADDRESS : OUT_OF_MEMORY);
            enum pst_status status = pst_loader_open(dataset, &options, &loader, &err);
            if (status == PST_OK)
                status = pst_loader_begin(loader, 1, &err);
            if (status == PST_OK)
                status = drain_until(loader, look, gpu, &n_made, &err);
            pst_loader_close(&loader);
            fake_fail(kinds[k], 0, 0);
            fake_repair(0);
            assert_memory_equal(gpu, host, n_made * sizeof *gpu);
            assert_true(status != PST_END || n_made == n_steps);
            fake_counts(&counts);
            assert_int_equal(counts.n_live, 0);
            if (counts.n[kinds[k]] < n)
                break;
            if (status != PST_END && (status != wanted || !strstr(err.text, "GPU")))
                fail_msg("%d: %s", status, err.text);
            n_errors += status != PST_END;
        }
    assert_true(n_errors > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_gives_the_values_of_host_memory),
        cmocka_unit_test(test_fetch_replay_and_resume),
        cmocka_unit_test(test_rows_are_one_upload),
        cmocka_unit_test(test_late_readers_see_their_rows),
        cmocka_unit_test(test_a_kept_batch_stays),
        cmocka_unit_test(test_device_memory_is_a_limit),
        cmocka_unit_test(test_faults),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
