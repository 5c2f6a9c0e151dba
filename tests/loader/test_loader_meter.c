/* test_loader_meter.c - does the meter name the stage that a loader's caller waits for?
 *
 * Each pipeline has a known bottleneck: throttled storage, images that take long to decode, or a
 * slow caller. Shares of time are compared with each other, never with the clock. */
#include "loader/loader_fixture.h"
#include "test.h"

#include <penstock/meter.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 1024, N = 16 };

static pst_dataset *small, *large;

/* Writes a data set of PNGs of 1024 x 1024, each of which takes some milliseconds to decode. */
static pst_dataset *make_large(void)
{
    char path[128], name[16];
    struct pst_error err;
    struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    pst_writer *writer;
    pst_dataset *made;
    snprintf(path, sizeof path, "%s/large", directory);
    assert_ok(pst_writer_open(path, &field, 1, NULL, &writer, &err));
    uint8_t *pixels = malloc(SIDE * SIDE * 3);
    assert_non_null(pixels);
    for (uint32_t i = 0; i < N; i++) {
        size_t nbytes;
        make_pixels(i, SIDE, SIDE, pixels);
        uint8_t *png = encode_png(pixels, SIDE, SIDE, 3, &nbytes);
        struct pst_value value = {.bytes = png, .nbytes = nbytes, .form = PST_FORM_PNG};
        const struct pst_value *values[1] = {&value};
        snprintf(name, sizeof name, "%u", i);
        add_sample(writer, name, values);
        free(png);
    }
    free(pixels);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &made, &err));
    return made;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    small = open_made(directory, "small",
                      &(struct make_options){.n_samples = 24, .images = MAKE_RAW_SAME});
    large = make_large();
    return 0;
}

TEAR_DOWN(&small, &large)

static struct pst_loader_options options_of(uint32_t workers)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 4,
                                       .num_workers = workers,
                                       .prefetch = 2,
                                       .storage = PST_STORAGE_THREADS};
}

static struct pst_loader_meter meter_of(const pst_loader *loader)
{
    struct pst_loader_meter meter;
    pst_loader_meter(loader, &meter, sizeof meter);
    return meter;
}

/* Runs one epoch in which the caller pauses after each batch. */
static struct pst_loader_meter run(pst_dataset *dataset, const struct pst_loader_options *options,
                                   unsigned pause_us, uint64_t peers_ns)
{
    struct pst_error err;
    pst_batch *batch;
    uint64_t n = 0;
    pst_loader *loader = open_loader(dataset, options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        n++;
        pst_batch_release(batch);
        if (pause_us)
            usleep(pause_us);
        pst_loader_peers_waited(loader, peers_ns);
    }
    struct pst_loader_meter meter = meter_of(loader);
    assert_int_equal(meter.epoch.n, n); /* the last step ends with the epoch */
    assert_int_equal(meter.n_asked, n + 1);
    pst_loader_close(&loader);
    return meter;
}

static uint64_t sum_of(const uint64_t *ns)
{
    uint64_t sum = 0;
    for (int i = 0; i < PST_STAGES_MAX; i++)
        sum += ns[i];
    return sum;
}

/* Returns the time in which the caller waited for workers that decoded or augmented. If the kernel
 * takes the core from a thread that augments, this time counts as augmenting. So on a busy machine
 * the two stages can be told apart only if they differ much. */
static uint64_t pixels_of(const struct pst_step_times *times)
{
    return times->cause_ns[PST_STAGE_DECODE] + times->cause_ns[PST_STAGE_AUGMENT];
}

/* Checks that the times by cause add up to the time waited, within a tolerance of microseconds. */
static void check_causes(const struct pst_step_times *times)
{
    for (uint32_t i = 0; pst_stage_name(i); i++)
        if (times->cause_ns[i])
            print_message("%s %.3f ms, ", pst_stage_name(i), (double)times->cause_ns[i] / 1e6);
    print_message("of %.3f ms\n", (double)times->wait_ns / 1e6);
    uint64_t sum = sum_of(times->cause_ns);
    uint64_t off = sum > times->wait_ns ? sum - times->wait_ns : times->wait_ns - sum;
    assert_true(off <= times->wait_ns / 1000 + 2000 * times->n);
    assert_true(times->wait_ns + times->peers_ns <= times->total_ns);
    assert_true(times->p50_ns <= times->p99_ns && times->p99_ns <= 1.02 * (double)times->max_ns);
}

static void slow_storage_is_fetch(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 2; workers++) {
        struct pst_loader_options options = options_of(workers);
        options.throttle_latency_seconds = 0.01;
        struct pst_loader_meter meter = run(small, &options, 0, 0);
        check_causes(&meter.epoch);
        assert_true(2 * meter.epoch.wait_ns > meter.epoch.total_ns);
        assert_true(meter.epoch.cause_ns[PST_STAGE_FETCH] > pixels_of(&meter.epoch));
        assert_true(meter.stages[PST_STAGE_FETCH].n > 0);
    }
}

static void slow_images_are_decode(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 2; workers++) {
        struct pst_loader_options options = options_of(workers);
        struct pst_loader_meter meter = run(large, &options, 0, 0);
        check_causes(&meter.epoch);
        assert_true(pixels_of(&meter.epoch) > meter.epoch.cause_ns[PST_STAGE_FETCH]);
        assert_true(meter.stages[PST_STAGE_DECODE].work_ns > meter.stages[PST_STAGE_BATCH].work_ns);
        assert_int_equal(meter.stages[PST_STAGE_DECODE].n, N);
        assert_int_equal(meter.stages[PST_STAGE_DECODE].nbytes, (uint64_t)N * SIDE * SIDE * 3);
    }
}

static void a_resize_is_augment(void **state)
{
    (void)state;
    struct pst_op op;
    pst_op_init(&op, sizeof op, PST_OP_RESIZE);
    op.height = op.width = 1500;
    struct pst_field_output output = {
        .name = "image", .ops = &op, .n_ops = 1, .layout = PST_LAYOUT_CHW, .dtype = PST_DTYPE_F32};
    struct pst_loader_options options = options_of(1);
    options.fields = &output;
    options.n_fields = 1;
    options.field_nbytes = sizeof output;
    options.op_nbytes = sizeof op;
    struct pst_loader_meter meter = run(small, &options, 0, 0);
    assert_true(meter.stages[PST_STAGE_AUGMENT].work_ns >
                2 * meter.stages[PST_STAGE_DECODE].work_ns);
    assert_true(meter.epoch.cause_ns[PST_STAGE_AUGMENT] >
                meter.epoch.cause_ns[PST_STAGE_FETCH] + meter.epoch.cause_ns[PST_STAGE_DECODE]);
}

static void a_slow_caller_waits_for_nothing(void **state)
{
    (void)state;
    struct pst_loader_options options = options_of(2);
    struct pst_loader_meter meter = run(small, &options, 20000, 5000000);
    check_causes(&meter.epoch);
    assert_true(4 * meter.epoch.wait_ns < meter.epoch.total_ns);
    assert_int_equal(meter.epoch.peers_ns, 5000000 * meter.epoch.n);
    assert_true(meter.stages[PST_STAGE_CALLER].work_ns > meter.stages[PST_STAGE_CALLER].wait_in_ns);
    /* finished batches wait for the caller */
    assert_true(meter.stages[PST_STAGE_HANDOVER].wait_out_ns > 0);
    assert_true(meter.sum_batches_ready > 0);
    assert_true(meter.workers_busy < 0.5);
}

static void each_worker_has_its_clocks(void **state)
{
    struct pst_error err;
    pst_batch *batch;
    struct pst_worker_clock clock;
    uint64_t n_rows = 0;
    (void)state;
    struct pst_loader_options options = options_of(3);
    pst_loader *loader = open_loader(large, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    while (pst_loader_next(loader, &batch, &err) == PST_OK)
        pst_batch_release(batch);
    for (uint32_t i = 0; i < 3; i++) {
        pst_loader_worker_clock(loader, i, &clock, sizeof clock);
        n_rows += clock.n_rows;
        assert_int_equal(clock.fetch_ns + clock.decode_ns + clock.augment_ns + clock.batch_ns +
                             clock.keep_ns,
                         clock.busy_ns);
    }
    assert_int_equal(n_rows, N);
    pst_loader_worker_clock(loader, 3, &clock, sizeof clock);
    assert_int_equal(clock.n_rows, 0);
    pst_loader_close(&loader);
}

static void stages_have_names(void **state)
{
    (void)state;
    assert_string_equal(pst_stage_name(PST_STAGE_FETCH), "fetch");
    assert_string_equal(pst_stage_name(PST_STAGE_CALLER), "caller");
    assert_null(pst_stage_name(PST_STAGE_CALLER + 1));
    assert_true(PST_STAGE_CALLER < PST_STAGES_MAX);
}

/* A traced loader gives the same batches, and its trace has a span for each row. */
static void a_trace_has_every_row(void **state)
{
    char path[128], line[512];
    uint64_t plain[N], traced[N];
    (void)state;
    snprintf(path, sizeof path, "%s/trace.json", directory);
    struct pst_loader_options options = options_of(2);
    size_t n = drain_alone(large, options, 0, plain);
    options.trace = path;
    pst_loader *loader = open_loader(large, &options);
    assert_int_equal(meter_of(loader).traces, 1);
    assert_int_equal(run_epoch(loader, 0, traced), n);
    pst_loader_close(&loader);
    assert_memory_equal(plain, traced, n * sizeof plain[0]);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    unsigned n_rows = 0, n_decodes = 0, n_waits = 0;
    while (fgets(line, sizeof line, file)) {
        n_rows += strstr(line, "\"name\":\"row\"") != NULL;
        n_decodes += strstr(line, "\"name\":\"decode\"") != NULL;
        n_waits += strstr(line, "\"name\":\"wait for a batch\"") != NULL;
    }
    fclose(file);
    assert_int_equal(n_rows, N);
    assert_int_equal(n_decodes, N);
    assert_int_equal(n_waits, n + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_storage_is_fetch),
        cmocka_unit_test(slow_images_are_decode),
        cmocka_unit_test(a_resize_is_augment),
        cmocka_unit_test(a_slow_caller_waits_for_nothing),
        cmocka_unit_test(each_worker_has_its_clocks),
        cmocka_unit_test(stages_have_names),
        cmocka_unit_test(a_trace_has_every_row),
    };
    alarm(300);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
