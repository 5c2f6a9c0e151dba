/* test_loader_life.c - abandoning an epoch, closing, forking, and releasing batches from any
 * thread: does anything hang, leak, or touch memory of others? Every test runs under an alarm. */
#include "loader/loader_fixture.h"
#include "sanitizer.h"
#include "test.h"

#include "base/clock.h"
#include "base/thread.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pst_dataset *mixed, *folder;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_made(
        directory, "mixed",
        &(struct make_options){
            .n_samples = 60, .images = MAKE_MIXED, .all_fields = true, .shard_nbytes = 200000});
    folder = open_made_folder(directory, "folder", 2, 12);
    return 0;
}

TEAR_DOWN(&mixed, &folder)

static struct pst_loader_options options_of(uint32_t workers, int kind)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 4,
                                       .order = PST_ORDER_SHUFFLED,
                                       .num_workers = workers,
                                       .prefetch = 3,
                                       .storage = kind ? PST_STORAGE_MEMORY : PST_STORAGE_THREADS};
}

static uint64_t next_hash(pst_loader *loader)
{
    struct pst_error err;
    pst_batch *batch;
    assert_ok(pst_loader_next(loader, &batch, &err));
    uint64_t hash = hash_batch(batch);
    pst_batch_release(batch);
    return hash;
}

/* Abandons the epoch after each possible number of batches and begins it again. The same batches
 * are delivered. */
static void test_abandon_everywhere(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 3; workers++)
        for (int kind = 0; kind < 2; kind++) {
            struct pst_error err;
            struct pst_loader_options options = options_of(workers, kind);
            pst_loader *loader = open_loader(mixed, &options);
            uint64_t want[15];
            assert_ok(pst_loader_begin(loader, 1, &err));
            for (int i = 0; i < 15; i++)
                want[i] = next_hash(loader);
            for (int stop = 0; stop <= 15; stop++) {
                /* abandoned before any batch was taken */
                assert_ok(pst_loader_begin(loader, 2, &err));
                assert_ok(pst_loader_begin(loader, 1, &err));
                for (int i = 0; i < stop; i++)
                    assert_true(next_hash(loader) == want[i]);
            }
            pst_loader_close(&loader);
        }
}

static void test_close_while_busy(void **state)
{
    (void)state;
    struct pst_memory_stats before, after;
    pst_memory_stats(&before, sizeof before);
    for (uint32_t workers = 0; workers <= 4; workers += 2)
        for (int kind = 0; kind < 2; kind++)
            for (int stop = -1; stop < 8; stop++) {
                struct pst_error err;
                struct pst_loader_options options = options_of(workers, kind);
                options.throttle_latency_seconds = stop % 2 ? 0.001 : 0;
                pst_loader *loader = open_loader(stop % 3 ? mixed : folder, &options);
                if (stop >= 0)
                    assert_ok(pst_loader_begin(loader, 0, &err));
                for (int i = 0; i < stop && i < 6; i++)
                    next_hash(loader);
                pst_loader_close(&loader);
                assert_null(loader);
                pst_loader_close(&loader);
            }
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.live_nbytes, before.live_nbytes);
}

struct pile {
    pst_batch *batches[15];
    uint64_t hashes[15];
    int n;
};

static void release_pile(void *arg)
{
    struct pile *pile = arg;
    for (int i = 0; i < pile->n; i++) {
        if (hash_batch(pile->batches[i]) != pile->hashes[i])
            abort();
        pst_batch_release(pile->batches[i]);
    }
}

/* Other threads read and release batches, both while the loader runs and after it was closed. */
static void test_release_elsewhere(void **state)
{
    (void)state;
    struct pst_memory_stats before, after;
    pst_memory_stats(&before, sizeof before);
    for (uint32_t workers = 0; workers <= 2; workers++) {
        struct pst_error err;
        struct pst_loader_options options = options_of(workers, 0);
        pst_loader *loader = open_loader(mixed, &options);
        struct pile piles[3] = {{.n = 0}};
        pthread_t threads[3];
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            struct pile *pile = &piles[epoch];
            assert_ok(pst_loader_begin(loader, epoch, &err));
            for (; pile->n < 15; pile->n++) {
                assert_ok(pst_loader_next(loader, &pile->batches[pile->n], &err));
                pst_batch_retain(pile->batches[pile->n]);
                pile->hashes[pile->n] = hash_batch(pile->batches[pile->n]);
                pst_batch_release(pile->batches[pile->n]);
            }
            assert_ok(psti_thread_start(&threads[epoch], "release", release_pile, pile, &err));
        }
        pst_loader_close(&loader);
        for (int i = 0; i < 3; i++)
            psti_thread_join(threads[i]);
    }
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.live_nbytes, before.live_nbytes);
}

struct fetching {
    pst_loader *loader;
    uint64_t want[60];
};

static void fetch_all(void *arg)
{
    struct fetching *f = arg;
    for (uint64_t i = 0; i < 180; i++) {
        struct pst_error err;
        uint64_t sample = i * 7 % 60;
        pst_batch *batch;
        if (pst_loader_fetch(f->loader, 3, &sample, 1, &batch, &err) != PST_OK ||
            hash_batch(batch) != f->want[sample])
            abort();
        pst_batch_release(batch);
    }
}

static void test_fetch_beside_epochs(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        for (int kind = 0; kind < 2; kind++) {
            struct pst_error err;
            struct pst_loader_options options = options_of(workers, kind);
            static struct fetching f;
            pst_loader *loader = f.loader = open_loader(mixed, &options);
            pthread_t thread;
            for (uint64_t i = 0; i < 60; i++) {
                pst_batch *batch;
                assert_ok(pst_loader_fetch(loader, 3, &i, 1, &batch, &err));
                f.want[i] = hash_batch(batch);
                pst_batch_release(batch);
            }
            assert_ok(psti_thread_start(&thread, "fetch", fetch_all, &f, &err));
            for (uint64_t epoch = 0; epoch < 4; epoch++) {
                assert_ok(pst_loader_begin(loader, epoch, &err));
                for (int i = 0; i < 15 - (int)epoch; i++)
                    next_hash(loader);
            }
            psti_thread_join(thread);
            pst_loader_close(&loader);
        }
}

static int in_child(pst_loader *loader, pst_batch *batch)
{
    struct pst_error err;
    pst_batch *other;
    struct pst_loader_state at;
    struct pst_loader_stats stats = {0};
    uint64_t sample = 0;
    alarm(120);
    pst_loader_state(loader, &at);
    pst_loader_stats(loader, &stats, sizeof stats);
    if (pst_loader_next(loader, &other, &err) != PST_ERROR_FORKED ||
        pst_loader_begin(loader, 0, &err) != PST_ERROR_FORKED ||
        pst_loader_resume(loader, &at, &err) != PST_ERROR_FORKED ||
        pst_loader_fetch(loader, 0, &sample, 1, &other, &err) != PST_ERROR_FORKED ||
        pst_loader_replay(loader, 0, 0, &other, &err) != PST_ERROR_FORKED)
        return 1;
    if (hash_batch(batch) == 0)
        return 2;
    pst_batch_release(batch);
    pst_loader_close(&loader);
    if (loader)
        return 3;
#if TEST_SANITIZED
    /* ThreadSanitizer kills a child that starts threads if its parent had threads.
     * AddressSanitizer's allocator may stay locked by a thread that does not exist in the child. */
    return 0;
#else
    /* The child process can open and use a loader of its own. */
    struct pst_loader_options options = options_of(2, 0);
    if (pst_loader_open(mixed, &options, &loader, &err) != PST_OK ||
        pst_loader_begin(loader, 0, &err) != PST_OK ||
        pst_loader_next(loader, &other, &err) != PST_OK)
        return 4;
    pst_batch_release(other);
    pst_loader_close(&loader);
    return 0;
#endif
}

static void test_fork(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 2; workers += 2) {
        struct pst_error err;
        struct pst_loader_options options = options_of(workers, 0);
        pst_loader *loader = open_loader(mixed, &options);
        pst_batch *batch;
        assert_ok(pst_loader_begin(loader, 0, &err));
        assert_ok(pst_loader_next(loader, &batch, &err));
        for (int i = 0; i < 10; i++) {
            pid_t child = fork();
            if (child == 0)
                _exit(in_child(loader, batch));
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
            next_hash(loader);
        }
        pst_batch_release(batch);
        pst_loader_close(&loader);
    }
}

/* A call with a time limit returns when the time is over, and no batch is lost. */
static void test_timed(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 2; workers++) {
        struct pst_error err;
        struct pst_loader_options options = options_of(workers, 0);
        pst_loader *loader = open_loader(mixed, &options);
        uint64_t want[15];
        assert_ok(pst_loader_begin(loader, 0, &err));
        for (int i = 0; i < 15; i++)
            want[i] = next_hash(loader);
        pst_loader_close(&loader);
        options.throttle_latency_seconds = 0.004;
        loader = open_loader(mixed, &options);
        assert_ok(pst_loader_begin(loader, 0, &err));
        int n = 0, busy = 0;
        for (;;) {
            pst_batch *batch;
            enum pst_status status = pst_loader_next_timed(loader, 1000000, &batch, &err);
            if (status == PST_END)
                break;
            if (status == PST_ERROR_BUSY) {
                busy++;
                continue;
            }
            assert_ok(status);
            assert_true(hash_batch(batch) == want[n]);
            pst_batch_release(batch);
            n++;
        }
        assert_int_equal(n, 15);
        assert_true(busy > 0);
        pst_loader_close(&loader);
    }
}

/* A slow read delays only its own batch, because later batches are read at the same time. The test
 * sleeps for 16 s, so it runs alone (argument "slow", label "long"). */
static void test_slow_does_not_block(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_loader_options options = options_of(2, 0);
    options.io_threads = 16;
    options.throttle_latency_seconds = 16; /* each read takes 16 s; reads overlap */
    options.prefetch = 4;
    const struct pst_field_output only = {.name = "image"};
    options.fields = &only;
    options.n_fields = 1;
    options.field_nbytes = sizeof(struct pst_field_output);
    options.op_nbytes = sizeof(struct pst_op);
    options.only_listed = true;
    pst_loader *loader = open_loader(mixed, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    int64_t start = psti_clock_ns();
    for (int i = 0; i < 4; i++)
        next_hash(loader);
    int64_t four = psti_clock_ns() - start;
    /* One after the other, 16 reads would take 256 s. One batch at a time would take 64 s. */
    assert_true(four < 60000000000);
    pst_loader_close(&loader);
}

/* The throttle would let the reads take an hour. Beginning a new epoch and closing must not wait
 * for them. */
static void test_cancel_throttled(void **state)
{
    (void)state;
    static const enum pst_storage_kind kinds[] = {PST_STORAGE_AUTO, PST_STORAGE_THREADS,
                                                  PST_STORAGE_MEMORY};
    for (uint32_t workers = 0; workers <= 2; workers += 2)
        for (size_t k = 0; k < 3; k++)
            for (int from_folder = 0; from_folder < 2; from_folder++) {
                struct pst_error err;
                pst_batch *batch;
                struct pst_loader_options options = options_of(workers, 0);
                options.storage = kinds[k];
                options.throttle_bytes_per_second = 1; /* so slow that one row takes half an hour */
                pst_loader *loader = open_loader(from_folder ? folder : mixed, &options);
                int64_t start = psti_clock_ns();
                for (uint64_t epoch = 0; epoch < 3; epoch++) {
                    assert_ok(pst_loader_begin(loader, epoch, &err));
                    for (int i = 0; i < 2; i++) /* no batch is complete, and no call waits */
                        assert_int_equal(pst_loader_next_timed(loader, 5000000, &batch, &err),
                                         PST_ERROR_BUSY);
                }
                pst_loader_close(&loader);
                assert_true(psti_clock_ns() - start < 60000000000);
            }
}

struct interrupter {
    int n_calls, stop_at;
};

static int stop_at(void *ctx)
{
    struct interrupter *interrupter = ctx;
    return ++interrupter->n_calls == interrupter->stop_at;
}

/* A callback of the caller may end fetch and replay before any row. They free what they made so
 * far. */
static void test_interrupted(void **state)
{
    (void)state;
    static const uint64_t samples[4] = {3, 1, 4, 1};
    for (int replays = 0; replays < 2; replays++) {
        struct pst_loader_options options = options_of(2, 0);
        pst_loader *loader = open_loader(mixed, &options);
        struct pst_error err;
        pst_batch *batch;
        for (int stop = 1; stop <= 5; stop++) {
            struct interrupter interrupter = {.stop_at = stop};
            pst_loader_set_interrupt(loader, stop_at, &interrupter);
            enum pst_status status = replays
                                         ? pst_loader_replay(loader, 1, 2, &batch, &err)
                                         : pst_loader_fetch(loader, 1, samples, 4, &batch, &err);
            assert_int_equal(status, stop <= 4 ? PST_ERROR_CANCELLED : PST_OK);
            assert_int_equal(interrupter.n_calls, stop <= 4 ? stop : 4);
            assert_int_equal(batch != NULL, stop == 5);
            assert_int_equal(stats_of(loader).n_slots_held, stop == 5);
            pst_batch_release(batch);
        }
        pst_loader_set_interrupt(loader, NULL, NULL);
        assert_ok(pst_loader_replay(loader, 1, 2, &batch, &err));
        pst_batch_release(batch);
        pst_loader_close(&loader);
    }
}

/* A worker that reads a replacement sample itself sleeps in the throttle. Closing wakes it. */
static void test_cancel_replacing(void **state)
{
    (void)state;
    struct pst_error err;
    char path[128];
    pst_dataset *bad;
    snprintf(path, sizeof path, "%s/bad", directory);
    make_dataset(
        path, &(struct make_options){.n_samples = 4, .images = MAKE_PNG, .shard_nbytes = 1000000});
    assert_ok(pst_dataset_open(path, NULL, &bad, &err));
    for (uint64_t i = 0; i < 4; i++)
        spoil_sample(bad, i, "image");
    struct pst_loader_options options = options_of(2, 0);
    options.on_error = PST_ON_ERROR_REPLACE;
    options.throttle_latency_seconds = 5; /* 16 replacements would take 80 s */
    pst_loader *loader = open_loader(bad, &options);
    pst_batch *batch;
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_int_equal(pst_loader_next_timed(loader, 5200000000, &batch, &err), PST_ERROR_BUSY);
    int64_t start = psti_clock_ns();
    pst_loader_close(&loader);
    assert_true(psti_clock_ns() - start < 60000000000);
    pst_dataset_close(&bad);
}

/* Makes a folder of 24 small images, except one in the middle that is so large that its decoder
 * needs memory of the reserve. */
static pst_dataset *folder_with_giant(void)
{
    struct pst_error err;
    char path[128], name[160];
    pst_dataset *dataset;
    enum { SIDE = 1500 };
    snprintf(path, sizeof path, "%s/giant", directory);
    make_folder(path, 1, 25);
    size_t nbytes;
    uint8_t *pixels = calloc((size_t)SIDE * SIDE, 3);
    assert_non_null(pixels);
    uint8_t *jpeg = encode_progressive_jpeg(pixels, SIDE, SIDE, &nbytes);
    snprintf(name, sizeof name, "%s/class00/0012.jpg", path);
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(jpeg, 1, nbytes, file), nbytes);
    fclose(file);
    free(jpeg);
    free(pixels);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static uint32_t n_rows_left(pst_loader *loader)
{
    uint32_t n = 0;
    pthread_mutex_lock(loader->lock);
    for (uint32_t i = 0; i < loader->options.prefetch; i++)
        n += loader->queue.ring[i].state == PSTI_LOADER_JOB_RUNNING ? loader->queue.ring[i].n_left
                                                                    : 0;
    if (loader->queue.issue_step < loader->options.prefetch)
        n = UINT32_MAX;
    pthread_mutex_unlock(loader->lock);
    return n;
}

/* One row is slow: its decoder waits for the reserve, which the test holds. Meanwhile all other
 * rows of all prepared batches are completed. */
static void test_slow_row_holds_no_other(void **state)
{
    (void)state;
    struct pst_error err;
    pst_dataset *dataset = folder_with_giant();
    for (int round = 0; round < 6; round++) {
        const struct pst_op resize = {.kind = PST_OP_RESIZE,
                                      .height = 8,
                                      .width = 8,
                                      .interpolation = PST_INTERPOLATION_BILINEAR};
        const struct pst_field_output output = {.name = "image", .ops = &resize, .n_ops = 1};
        struct pst_loader_options options = options_of(2, round == 0);
        options.throttle_latency_seconds =
            round ? 0.01 : 0; /* a latency makes the loader read all rows at once */
        options.order = PST_ORDER_SEQUENTIAL;
        options.batch_size = 5;
        options.prefetch = 5;
        options.host_memory = (uint64_t)96 << 20;
        options.fields = &output;
        options.n_fields = 1;
        options.field_nbytes = sizeof(struct pst_field_output);
        options.op_nbytes = sizeof(struct pst_op);
        pst_loader *loader = open_loader(dataset, &options);
        uint64_t free_nbytes = 0;
        while (psti_batch_pool_charge(loader->pool, 65536, false))
            free_nbytes += 65536; /* takes all memory except the reserve */
        pthread_mutex_lock(&loader->crew.reserve_lock);
        assert_ok(pst_loader_begin(loader, 0, &err));
        uint32_t n = UINT32_MAX;
        for (int i = 0; i < 60000 && n != 1; i++) {
            psti_clock_sleep_until(psti_clock_ns() + 1000000);
            n = n_rows_left(loader);
        }
        pthread_mutex_unlock(&loader->crew.reserve_lock);
        assert_int_equal(n, 1);
        psti_batch_pool_uncharge(loader->pool, free_nbytes);
        for (int i = 0; i < 5; i++)
            next_hash(loader);
        pst_loader_close(&loader);
    }
    pst_dataset_close(&dataset);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest slow[] = {cmocka_unit_test(test_slow_does_not_block)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abandon_everywhere),
        cmocka_unit_test(test_close_while_busy),
        cmocka_unit_test(test_release_elsewhere),
        cmocka_unit_test(test_fetch_beside_epochs),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_timed),
        cmocka_unit_test(test_slow_row_holds_no_other),
        cmocka_unit_test(test_cancel_throttled),
        cmocka_unit_test(test_cancel_replacing),
        cmocka_unit_test(test_interrupted),
    };
    alarm(900);
    if (argc > 1 && strcmp(argv[1], "slow") == 0)
        return cmocka_run_group_tests(slow, set_up, tear_down);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
