/* test_loader_epochs.c - the first batches of an epoch are prepared while the epoch before it
 * ends. Do they equal those of an epoch without such preparation, whatever is called between two
 * epochs? */
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/clock.h"

#include <penstock/meter.h>
#include <penstock/settings.h>

#include <unistd.h>

enum { N_SAMPLES = 45, BATCHES_MAX = N_SAMPLES, N_EPOCHS = 120 };
#define NEVER_NS ((int64_t)60 * 1000000000)

static pst_dataset *mixed, *folder, *torn;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_made(directory, "mixed",
                      &(struct make_options){.n_samples = N_SAMPLES,
                                             .images = MAKE_MIXED,
                                             .all_fields = true,
                                             .shard_nbytes = 100000});
    folder = open_made_folder(directory, "folder", 3, 15);
    return 0;
}

TEAR_DOWN(&mixed, &folder, &torn)

static struct augmented kept;
static uint64_t seed_of_test = 7;

static uint32_t below(uint32_t n)
{
    seed_of_test = seed_of_test * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed_of_test >> 33) % n);
}

static uint64_t n_ready(const pst_loader *loader)
{
    struct pst_loader_meter meter;
    pst_loader_meter(loader, &meter, sizeof meter);
    return meter.n_batches_ready;
}

/* Waits until n batches are complete. */
static void wait_for_ready(const pst_loader *loader, uint64_t n)
{
    int64_t until = psti_clock_ns() + NEVER_NS;
    while (n_ready(loader) != n) {
        assert_true(psti_clock_ns() < until);
        usleep(1000);
    }
}

/* Begins an epoch directly after the one before, as training does. */
static void begin(pst_loader *loader, uint64_t epoch)
{
    struct pst_error err;
    assert_ok(pst_loader_begin(loader, epoch, &err));
}

/* Runs an epoch and compares it with the same epoch of a loader that runs no other. */
static void check_epoch(pst_loader *loader, pst_dataset *dataset,
                        const struct pst_loader_options *options, uint64_t epoch)
{
    uint64_t hashes[BATCHES_MAX], alone[BATCHES_MAX];
    begin(loader, epoch);
    size_t n = drain_epoch(loader, NULL, hashes);
    assert_int_equal(n, drain_alone(dataset, *options, epoch, alone));
    assert_memory_equal(hashes, alone, n * sizeof *hashes);
}

/* From the fourth consecutive epoch on, batches of the next epoch are complete before it begins.
 * Each row is made only once. */
static void test_next_epoch_is_ready(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    pst_dataset *sets[] = {mixed, folder};
    uint64_t hashes[BATCHES_MAX];
    (void)state;
    options.prefetch = 3;
    for (uint32_t i = 0; i < 2; i++) {
        if (i == 1)
            options.n_fields = 1; /* the folder has no masks */
        for (int in_memory = 0; in_memory < 2; in_memory++) {
            options.storage = in_memory ? PST_STORAGE_MEMORY : PST_STORAGE_AUTO;
            pst_loader *loader = open_loader(sets[i], &options);
            for (uint64_t epoch = 2; epoch < 5; epoch++) {
                begin(loader, epoch);
                drain_epoch(loader, NULL, hashes);
                /* the loader cannot know that another epoch follows */
                assert_int_equal(n_ready(loader), 0);
            }
            for (uint64_t epoch = 5; epoch < 9; epoch++) {
                check_epoch(loader, sets[i], &options, epoch);
                wait_for_ready(loader, 3);
            }
            struct pst_loader_meter meter;
            pst_loader_meter(loader, &meter, sizeof meter);
            assert_int_equal(meter.stages[PST_STAGE_BATCH].n,
                             7 * N_SAMPLES + 3 * options.batch_size);
            assert_int_equal(stats_of(loader).n_samples, 7 * N_SAMPLES);
            pst_loader_close(&loader);
        }
    }
}

/* Tests an epoch of a single batch, which is fewer than prefetch, an empty epoch, and batches that
 * the caller keeps. */
static void test_short_epochs(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    uint64_t hashes[BATCHES_MAX];
    (void)state;
    options.prefetch = 4;
    options.batch_size = N_SAMPLES;
    pst_loader *loader = open_loader(mixed, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        begin(loader, epoch);
        drain_epoch(loader, NULL, hashes);
    }
    for (uint64_t epoch = 3; epoch < 10; epoch++) {
        check_epoch(loader, mixed, &options, epoch);
        wait_for_ready(loader, 1); /* does not begin the epoch after this one */
    }
    pst_loader_close(&loader);
    options.batch_size = N_SAMPLES + 1;
    options.drop_last = true;
    loader = open_loader(mixed, &options);
    for (uint64_t epoch = 0; epoch < 4; epoch++)
        check_epoch(loader, mixed, &options, epoch);
    pst_loader_close(&loader);
}

static void begin_somewhere(pst_loader *loader, struct pst_loader_options *options, uint64_t *epoch)
{
    struct pst_error err;
    struct pst_loader_state state;
    struct pst_loader_settings settings = {.struct_size = sizeof settings};
    pst_batch *batch = NULL;
    switch (below(20)) { /* in most cases the next epoch begins */
    case 0: /* begins another epoch, or the same one again */
        *epoch = below(20);
        break;
    case 1:
        options->world_size = 1 + below(3);
        options->rank = below(options->world_size);
        assert_ok(pst_loader_set_ranks(loader, options->rank, options->world_size, &err));
        break;
    case 2:
        options->world_size = 1 + below(3);
        options->rank = below(options->world_size);
        assert_ok(pst_loader_set_world(loader, options->rank, options->world_size, &err));
        break;
    case 3:
        settings.batch_size = options->batch_size = 3 + below(6);
        assert_ok(pst_loader_set(loader, &settings, &err));
        break;
    case 4: /* abandons the epoch in its middle */
        begin(loader, *epoch);
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
        break;
    case 5: /* resumes a state at the beginning of the next epoch */
        pst_loader_state(loader, &state);
        if (state.position == 0 && state.epoch == *epoch)
            assert_ok(pst_loader_resume(loader, &state, &err));
        break;
    case 6: /* replays a batch of the epoch that has ended */
        if (*epoch > 0 && pst_loader_replay(loader, *epoch - 1, 0, &batch, &err) == PST_OK)
            pst_batch_release(batch);
        break;
    default: /* begins the next epoch */
        break;
    }
}

/* Random calls are made between two epochs, early or late. Each epoch equals that of a loader which
 * runs no other epoch. */
static void test_calls_between(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 4; round++) {
        struct pst_loader_options options = augmented_options(&kept, 24, 24);
        uint64_t epoch = 0;
        options.num_workers = round; /* 0 workers: the caller's thread reads */
        options.prefetch = 1 + round;
        options.host_memory = round == 3 ? 0 : (uint64_t)64 << 20;
        pst_loader *loader = open_loader(mixed, &options);
        for (uint32_t i = 0; i < N_EPOCHS; i++) {
            if (below(2))
                usleep(below(3000));
            begin_somewhere(loader, &options, &epoch);
            check_epoch(loader, mixed, &options, epoch++);
        }
        pst_loader_close(&loader);
    }
}

/* A bad sample is an error of the epoch it belongs to, even if its batch was prepared during the
 * epoch before. */
static void test_bad_sample(void **state)
{
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    options.n_fields = 1;
    options.batch_size = N_SAMPLES / 3;
    options.prefetch = 3;
    options.on_error = PST_ON_ERROR_SKIP;
    options.max_errors = 1;
    torn = open_made(directory, "torn",
                     &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_MIXED});
    pst_loader *loader = open_loader(torn, &options);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        begin(loader, epoch);
        while (pst_loader_next(loader, &batch, &err) == PST_OK)
            pst_batch_release(batch);
        wait_for_ready(loader, epoch < 3 ? 0 : 3);
    }
    for (uint64_t i = 0; i < N_SAMPLES; i += 5)
        spoil_sample(torn, i, "image");
    begin(loader, 4); /* its batches were prepared during the epoch before */
    size_t n = 0;
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        pst_batch_release(batch);
        n++;
    }
    assert_int_equal(n, 3);
    assert_int_equal(stats_of(loader).n_bad, 0);
    wait_for_ready(loader, 3); /* batches of epoch 5, which has bad samples */
    assert_int_equal(stats_of(loader).n_bad, 0);
    begin(loader, 5);
    enum pst_status status;
    while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK)
        pst_batch_release(batch);
    assert_int_equal(status, PST_ERROR_LIMIT);
    assert_true(stats_of(loader).n_bad > 1);
    begin(loader, 6); /* the count of bad samples starts again */
    assert_int_equal(drain_until(loader, NULL, (uint64_t[BATCHES_MAX]){0}, &n, &err),
                     PST_ERROR_LIMIT);
    pst_loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_epoch_is_ready),
        cmocka_unit_test(test_short_epochs),
        cmocka_unit_test(test_calls_between),
        cmocka_unit_test(test_bad_sample),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
