/* test_loader_stats.c - are the rows of a batch counted before the caller receives the batch?
 *
 * Rows are large and are only copied, so a worker takes several at a time. A worker that counted
 * after it marked its rows as done would still be busy with the next rows when their batch is
 * delivered. */
#include "base/clock.h"
#include "loader/loader_fixture.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 512, ROW_NBYTES = SIDE * SIDE * 3, N_SAMPLES = 20, N_EPOCHS = 4 };

static pst_dataset *dataset;

static int set_up(void **state)
{
    char path[128], name[16];
    struct pst_error err;
    struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    pst_writer *writer;
    (void)state;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/raw", directory);
    assert_ok(pst_writer_open(path, &field, 1, NULL, &writer, &err));
    uint8_t *pixels = malloc(ROW_NBYTES);
    assert_non_null(pixels);
    memset(pixels, 99, ROW_NBYTES);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        struct pst_value value = {.bytes = pixels,
                                  .nbytes = ROW_NBYTES,
                                  .form = PST_FORM_RAW,
                                  .height = SIDE,
                                  .width = SIDE,
                                  .channels = 3,
                                  .bits = 8};
        const struct pst_value *values[1] = {&value};
        snprintf(name, sizeof name, "%u", i);
        add_sample(writer, name, values);
    }
    free(pixels);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return 0;
}

TEAR_DOWN(&dataset)

/* Checks the counters when a batch arrives. They may include rows of later batches. */
static void look(pst_loader *loader, const pst_batch *batch)
{
    struct pst_loader_stats stats = stats_of(loader);
    (void)batch;
    assert_true(stats.n_cpu_samples >= stats.n_samples);
    assert_true(stats.nbytes_decoded >= stats.n_samples * ROW_NBYTES);
}

static void run(const struct pst_loader_options *options)
{
    uint64_t hashes[N_SAMPLES];
    pst_loader *loader = open_loader(dataset, options);
    for (uint64_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        begin_epoch(loader, epoch);
        drain_epoch(loader, look, hashes);
        struct pst_loader_stats stats = stats_of(loader);
        assert_int_equal(stats.n_samples, (epoch + 1) * N_SAMPLES);
        assert_int_equal(stats.n_cpu_samples, stats.n_samples);
        assert_int_equal(stats.nbytes_decoded, stats.n_samples * ROW_NBYTES);
    }
    pst_loader_close(&loader);
}

static void counters_come_with_their_batch(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 2; kind++)
        for (uint32_t workers = 0; workers <= 3; workers++)
            for (uint32_t batch_size = 1; batch_size <= 4; batch_size += 3)
                run(&(struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                                 .batch_size = batch_size,
                                                 .num_workers = workers,
                                                 .prefetch = 12 / batch_size,
                                                 .storage = kind ? PST_STORAGE_MEMORY
                                                                 : PST_STORAGE_THREADS});
}

/* Runs one epoch in which the caller sleeps between batches. Returns the time it took. */
static uint64_t timed(const struct pst_loader_options *options, unsigned pause_us,
                      struct pst_loader_stats *stats)
{
    struct pst_error err;
    pst_batch *batch;
    int64_t start = psti_clock_ns();
    pst_loader *loader = open_loader(dataset, options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        pst_batch_release(batch);
        usleep(pause_us);
    }
    *stats = stats_of(loader);
    uint64_t wall = (uint64_t)(psti_clock_ns() - start);
    pst_loader_close(&loader);
    return wall;
}

/* Reads overlap: the sum of their times exceeds the elapsed time, but storage was busy for no
 * longer than the elapsed time. The waiting side, caller or loader, shows the cause. */
static void times_say_who_waited(void **state)
{
    (void)state;
    struct pst_loader_stats stats;
    const uint64_t latency_ns = 20000000;
    for (uint32_t workers = 0; workers <= 3; workers++) {
        struct pst_loader_options options = {.struct_size = sizeof options,
                                             .batch_size = 4,
                                             .num_workers = workers,
                                             .prefetch = 2,
                                             .storage = PST_STORAGE_THREADS};
        uint64_t n = workers ? workers : 1;
        options.throttle_latency_seconds = 1e-9 * (double)latency_ns;
        uint64_t wall = timed(&options, 0, &stats);
        assert_true(stats.read_ns <= wall);
        assert_true(stats.read_ns >= latency_ns);
        assert_true(stats.decode_ns + stats.worker_read_wait_ns + stats.worker_idle_ns <= n * wall);
        assert_true(stats.worker_read_wait_ns > 0);
        assert_true(stats.caller_wait_ns >= latency_ns / 2 && stats.caller_wait_ns <= wall);
        options.throttle_latency_seconds = 0;
        wall = timed(&options, 40000, &stats); /* the caller pauses after each of 5 batches */
        assert_true(stats.read_ns <= wall);
        if (workers > 0)
            assert_true(stats.worker_idle_ns > 0);
        assert_true(stats.worker_idle_ns <= n * wall);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_come_with_their_batch),
        cmocka_unit_test(times_say_who_waited),
    };
    alarm(300);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
