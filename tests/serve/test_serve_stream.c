/* test_serve_stream.c - tests shared preparation: is each job's stream bit-identical to that of
 * a loader alone, and is each sample prepared once for all jobs?
 *
 * Service and jobs are threads of this process, or jobs take turns in one thread. With the
 * argument "short": the tests with most races, with few samples, for ThreadSanitizer in `make
 * check`. */
#include "sanitizer.h"
#include "serve/serve_fixture.h"

#include "base/clock.h"
#include "loader/loader_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint32_t n_samples = 203;
#define BATCHES_MAX 256

static pst_dataset *uniform, *mixed;
static struct augmented kept;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    uniform = open_made(directory, "uniform.pst",
                        &(struct make_options){.n_samples = n_samples, .images = MAKE_RAW_SAME});
    mixed = open_made(
        directory, "mixed.pst",
        &(struct make_options){.n_samples = n_samples, .images = MAKE_MIXED, .all_fields = true});
    return 0;
}

TEAR_DOWN(&uniform, &mixed)

/* ThreadSanitizer does not notice that a ring of io_uring is unmapped, and confuses it with a later
 * ring. */
#define STORAGE (TEST_TSAN ? PST_STORAGE_THREADS : PST_STORAGE_AUTO)

/* Returns options for images of 64x64 floats. Each row fills whole pages of memory. */
static struct pst_loader_options image_options(uint32_t batch_size)
{
    struct pst_loader_options options = augmented_options(&kept, 64, 64);
    options.n_fields = 1;
    options.batch_size = batch_size;
    options.storage = STORAGE;
    options.socket = fixture.socket;
    options.share_wait_seconds = 60;
    return options;
}

/* Returns options for all fields of the mixed data set, with images of different sizes. */
static struct pst_loader_options all_options(uint32_t batch_size)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = batch_size,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = 1,
                                       .storage = STORAGE,
                                       .socket = fixture.socket,
                                       .share_wait_seconds = 60};
}

static pst_loader *open_job(pst_dataset *dataset, struct pst_loader_options options)
{
    if (!options.share)
        options.share = "group";
    pst_loader *loader = open_loader(dataset, &options);
    struct pst_loader_stats stats = stats_of(loader);
    if (!stats.is_sharing)
        fail_msg("not shared: %s", stats.share_reason);
    return loader;
}

static void assert_all_shared(const pst_loader *loader)
{
    struct pst_loader_stats stats = stats_of(loader);
    if (stats.fallbacks[PST_FALLBACK_SHARE])
        fail_msg("%d batches were not shared: %s", (int)stats.fallbacks[PST_FALLBACK_SHARE],
                 stats.share_reason);
    assert_int_equal(stats.n_shared, stats.n_batches);
    assert_int_equal(stats.n_cpu_samples, 0);
    assert_int_equal(stats.nbytes_read, 0);
}

static void a_job_gets_what_it_would_make(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t batch_size = 1; batch_size < 60; batch_size += 29) {
            uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
            pst_dataset *dataset = kind ? mixed : uniform;
            struct pst_loader_options options =
                kind ? all_options(batch_size) : image_options(batch_size);
            /* Uses a new group name, because the service may not have noticed yet that the last job
             * has left. */
            char name[32];
            snprintf(name, sizeof name, "sizes %u", batch_size);
            options.share = name;
            pst_loader *loader = open_job(dataset, options);
            options.share = NULL;
            for (uint64_t epoch = 3; epoch < 5; epoch++) {
                size_t n = drain_alone(dataset, options, epoch, want);
                assert_int_equal(run_epoch(loader, epoch, got), n);
                assert_memory_equal(got, want, n * sizeof *want);
            }
            assert_all_shared(loader);
            struct pst_loader_stats stats = stats_of(loader);
            assert_int_equal(stats.share_samples, 2 * n_samples);
            assert_int_equal(stats.share_epoch, 4);
            if (!kind)
                assert_int_equal(stats.n_shared_copied, 0);
            pst_loader_close(&loader);
        }
}

/* Jobs with different batch sizes take turns, one batch each. */
static void jobs_of_several_sizes_share(void **state)
{
    (void)state;
    enum { JOBS = 4 };
    static const uint32_t sizes[JOBS] = {7, 16, 40, 7};
    static uint64_t want[JOBS][BATCHES_MAX];
    pst_loader *loaders[JOBS];
    size_t n[JOBS], done[JOBS];
    struct pst_error err;
    for (int j = 0; j < JOBS; j++)
        loaders[j] = open_job(uniform, image_options(sizes[j]));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t left = 0;
        for (int j = 0; j < JOBS; j++) {
            n[j] = drain_alone(uniform, image_options(sizes[j]), epoch, want[j]);
            done[j] = 0;
            left += n[j];
            assert_ok(pst_loader_begin(loaders[j], epoch, &err));
        }
        while (left > 0)
            for (int j = 0; j < JOBS; j++) {
                int next = j; /* the job that has advanced least goes next */
                for (int k = 0; k < JOBS; k++)
                    if (done[k] < n[k] &&
                        (done[next] == n[next] || done[k] * sizes[k] < done[next] * sizes[next]))
                        next = k;
                if (done[next] == n[next])
                    break;
                pst_batch *batch;
                assert_ok(pst_loader_next(loaders[next], &batch, &err));
                assert_true(hash_batch(batch) == want[next][done[next]++]);
                pst_batch_release(batch);
                left--;
            }
        for (int j = 0; j < JOBS; j++) {
            pst_batch *batch;
            assert_int_equal(pst_loader_next(loaders[j], &batch, &err), PST_END);
        }
    }
    for (int j = 0; j < JOBS; j++)
        assert_all_shared(loaders[j]);
    /* The first batch of an epoch reports how many samples were prepared for all jobs. */
    assert_ok(pst_loader_begin(loaders[0], 3, &err));
    pst_batch *batch;
    assert_ok(pst_loader_next(loaders[0], &batch, &err));
    uint64_t prepared = stats_of(loaders[0]).share_samples;
    assert_true(prepared >= 3 * n_samples + 7 && prepared <= 4 * n_samples);
    pst_batch_release(batch);
    for (int j = 0; j < JOBS; j++)
        pst_loader_close(&loaders[j]);
}

/* A job that writes into its batch changes neither the other job's batches nor its own later
 * ones. */
static void writing_changes_nobody_elses(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = image_options(32);
    pst_loader *writer = open_job(uniform, options), *reader = open_job(uniform, options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t n = drain_alone(uniform, options, epoch, want);
        assert_ok(pst_loader_begin(writer, epoch, &err));
        assert_ok(pst_loader_begin(reader, epoch, &err));
        for (size_t i = 0; i < n; i++) {
            pst_batch *mine, *theirs;
            struct pst_tensor tensor;
            assert_ok(pst_loader_next(writer, &mine, &err));
            assert_true(hash_batch(mine) == want[i]);
            assert_ok(pst_batch_tensor(mine, 0, &tensor, sizeof tensor, &err));
            memset(tensor.data, (int)(i + epoch),
                   (size_t)tensor.shape[0] * 3 * 64 * 64 * sizeof(float));
            assert_ok(pst_loader_next(reader, &theirs, &err));
            assert_true(hash_batch(theirs) == want[i]);
            pst_batch_release(theirs);
            pst_batch_release(mine);
        }
    }
    assert_all_shared(writer);
    assert_all_shared(reader);
    pst_loader_close(&writer);
    pst_loader_close(&reader);
}

/* Batches that a caller keeps stay valid, even after service and loaders have gone. */
static void kept_batches_stay(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX];
    pst_batch *batches[BATCHES_MAX], *batch;
    struct pst_error err;
    struct pst_loader_options options = image_options(16);
    size_t n = drain_alone(uniform, options, 2, want);
    pst_loader *keeper = open_job(uniform, options), *other = open_job(uniform, options);
    assert_ok(pst_loader_begin(keeper, 2, &err));
    for (size_t i = 0; i < n; i++)
        assert_ok(pst_loader_next(keeper, &batches[i], &err));
    assert_true(stats_of(keeper).n_shared_copied < n);
    for (uint64_t epoch = 3; epoch < 8; epoch++) {
        assert_ok(pst_loader_begin(other, epoch, &err));
        while (pst_loader_next(other, &batch, &err) == PST_OK)
            pst_batch_release(batch);
    }
    pst_loader_close(&keeper);
    pst_loader_close(&other);
    for (size_t i = 0; i < n; i++)
        assert_true(hash_batch(batches[i]) == want[i]);
    serve_fixture_stop(&fixture);
    for (size_t i = 0; i < n; i++) {
        assert_true(hash_batch(batches[i]) == want[i]);
        pst_batch_release(batches[i]);
    }
    serve_fixture_start(&fixture, NULL);
}

/* A job that joins while the others are in the middle of an epoch gets the whole epoch. */
static void a_late_job_gets_all(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = image_options(8);
    size_t n = drain_alone(uniform, options, 0, want);
    for (size_t late = 1; late < n; late += 5) {
        pst_loader *first = open_job(uniform, options), *second = NULL;
        pst_batch *batch;
        assert_ok(pst_loader_begin(first, 0, &err));
        for (size_t i = 0; i < late; i++) {
            assert_ok(pst_loader_next(first, &batch, &err));
            assert_true(hash_batch(batch) == want[i]);
            pst_batch_release(batch);
        }
        second = open_job(uniform, options);
        assert_int_equal(stats_of(second).share_epoch, 0);
        assert_int_equal(run_epoch(second, 0, got), n);
        assert_memory_equal(got, want, n * sizeof *want);
        assert_all_shared(second);
        pst_loader_close(&second); /* the second job leaves early, and the first goes on */
        assert_int_equal(drain_epoch(first, NULL, got), n - late);
        assert_memory_equal(got, want + late, (n - late) * sizeof *want);
        assert_all_shared(first);
        pst_loader_close(&first);
    }
}

struct late {
    pthread_t thread;
    pst_loader *loader;
    uint64_t hashes[BATCHES_MAX];
    size_t n;
};

static void *begin_late(void *arg)
{
    struct late *late = arg;
    late->n = run_epoch(late->loader, stats_of(late->loader).share_epoch + 1, late->hashes);
    assert_all_shared(late->loader);
    pst_loader_close(&late->loader);
    return NULL;
}

/* Waits until a job of the group has requested a batch of the epoch. */
static void wait_for_epoch(uint64_t epoch)
{
    int64_t deadline = psti_clock_ns() + (int64_t)60 * 1000000000;
    bool there = false;
    while (!there && psti_clock_ns() < deadline) {
        pst_loader *loader = open_job(uniform, image_options(8));
        there = stats_of(loader).share_epoch == epoch;
        pst_loader_close(&loader);
    }
    assert_true(there);
}

/* A job that joins in the middle of an epoch and begins with the next epoch causes no extra work:
 * it waits for the others. */
static void a_late_job_can_begin_with_the_next_epoch(void **state)
{
    (void)state;
    static struct late late;
    uint64_t want[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = image_options(8);
    size_t n = drain_alone(uniform, options, 6, want);
    pst_loader *first = open_job(uniform, options);
    for (uint64_t epoch = 5; epoch < 7; epoch++) {
        assert_ok(pst_loader_begin(first, epoch, &err));
        for (size_t i = 0; i < n; i++) {
            pst_batch *batch;
            assert_ok(pst_loader_next(first, &batch, &err));
            assert_true(epoch == 5 || hash_batch(batch) == want[i]);
            pst_batch_release(batch);
            if (epoch != 5 || i != n / 2)
                continue;
            late.loader = open_job(uniform, options);
            assert_int_equal(pthread_create(&late.thread, NULL, begin_late, &late), 0);
            wait_for_epoch(6);
        }
    }
    pthread_join(late.thread, NULL);
    assert_int_equal(late.n, n);
    assert_memory_equal(late.hashes, want, n * sizeof *want);
    assert_ok(pst_loader_begin(first, 7, &err));
    pst_batch *batch;
    assert_ok(pst_loader_next(first, &batch, &err));
    assert_true(stats_of(first).share_samples < 3 * n_samples);
    pst_batch_release(batch);
    assert_all_shared(first);
    pst_loader_close(&first);
}

/* A stream keeps prepared samples until it prepares new ones. So a job that rested after its epoch
 * gets the next epoch from the beginning, although another job has finished it. */
static void a_job_that_rests_finds_the_next_epoch(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_loader_options options = image_options(8);
    pst_loader *resting = open_job(uniform, options), *other = open_job(uniform, options);
    run_epoch(resting, 0, got);
    for (uint64_t epoch = 1; epoch < 4; epoch++) {
        size_t n = drain_alone(uniform, options, epoch, want);
        assert_int_equal(run_epoch(other, epoch, got), n);
        assert_int_equal(run_epoch(resting, epoch, got), n);
        assert_memory_equal(got, want, n * sizeof *want);
        assert_int_equal(stats_of(resting).share_samples, (epoch + 1) * n_samples);
    }
    assert_all_shared(resting);
    assert_all_shared(other);
    pst_loader_close(&resting);
    pst_loader_close(&other);
}

/* A job that stops is left behind. It goes on alone, and shares again in the next epoch. */
static void a_slow_job_is_left_behind(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = image_options(1);
    size_t n = drain_alone(mixed, options, 0, want);
    pst_loader *fast = open_job(mixed, options), *slow = open_job(mixed, options);
    pst_batch *batch;
    assert_ok(pst_loader_begin(slow, 0, &err));
    assert_ok(pst_loader_next(slow, &batch, &err));
    pst_batch_release(batch);
    for (uint64_t epoch = 0; epoch < 3; epoch++) { /* more extents than the window can hold */
        assert_int_equal(run_epoch(fast, epoch, got), n);
    }
    assert_all_shared(fast);
    assert_int_equal(drain_epoch(slow, NULL, got), n - 1);
    assert_memory_equal(got, want + 1, (n - 1) * sizeof *want);
    assert_true(stats_of(slow).fallbacks[PST_FALLBACK_SHARE] > 0);
    assert_non_null(strstr(stats_of(slow).share_reason, "too far ahead"));
    uint64_t before = stats_of(slow).n_shared;
    drain_alone(mixed, options, 9, want);
    assert_int_equal(run_epoch(slow, 9, got), n);
    assert_memory_equal(got, want, n * sizeof *want);
    assert_int_equal(stats_of(slow).n_shared, before + n);
    pst_loader_close(&slow);
    pst_loader_close(&fast);
}

/* Groups of ranks with several world sizes, and a resume in the middle of an epoch. */
static void ranks_share(void **state)
{
    (void)state;
    /* number of jobs, ranks of each job */
    static const uint32_t worlds[3][2] = {{8, 1}, {4, 2}, {2, 4}};
    for (int w = 0; w < 3; w++) {
        uint32_t n_jobs = worlds[w][0], world = worlds[w][1];
        pst_loader *loaders[8] = {NULL};
        static uint64_t want[8][BATCHES_MAX];
        struct pst_error err;
        size_t n = 0;
        for (uint32_t rank = 0; rank < world; rank++) {
            struct pst_loader_options options = image_options(8);
            options.rank = rank;
            options.world_size = world;
            n = drain_alone(uniform, options, 1, want[rank]);
            for (uint32_t job = 0; job < n_jobs; job++)
                loaders[job * world + rank] = open_job(uniform, options);
        }
        for (uint32_t i = 0; i < n_jobs * world; i++)
            assert_ok(pst_loader_begin(loaders[i], 1, &err));
        for (size_t step = 0; step < n; step++)
            for (uint32_t i = 0; i < n_jobs * world; i++) {
                pst_batch *batch;
                assert_ok(pst_loader_next(loaders[i], &batch, &err));
                assert_true(hash_batch(batch) == want[i % world][step]);
                pst_batch_release(batch);
                if (step != n / 2 || i % world)
                    continue;
                struct pst_loader_state at; /* a job resumes from its checkpoint */
                pst_loader_state(loaders[i], &at);
                assert_ok(pst_loader_resume(loaders[i], &at, &err));
            }
        for (uint32_t i = 0; i < n_jobs * world; i++) {
            struct pst_loader_stats stats = stats_of(loaders[i]);
            assert_true(stats.fallbacks[PST_FALLBACK_SHARE] <= 1); /* padding */
            assert_true(stats.share_samples <= n_samples);
            pst_loader_close(&loaders[i]);
        }
    }
}

/* With bad samples a job gets the same batches, errors and lists as a loader alone. */
static void bad_samples_are_as_alone(void **state)
{
    (void)state;
    char path[128];
    struct make_options made = {.n_samples = n_samples, .images = MAKE_RAW_SAME};
    pst_dataset *spoiled = open_made(directory, "spoiled.pst", &made);
    for (uint64_t sample = 11; sample < n_samples; sample += 60)
        spoil_sample(spoiled, sample, "image");
    snprintf(path, sizeof path, "%s/spoiled.pst", directory);
    pst_dataset_close(&spoiled);
    struct pst_error err;
    assert_ok(pst_dataset_open(path, NULL, &spoiled, &err));
    for (int policy = PST_ON_ERROR_RAISE; policy <= PST_ON_ERROR_REPLACE; policy++)
        for (uint64_t max_errors = 0; max_errors < 3; max_errors += 2) {
            uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
            struct pst_error wanted, error;
            size_t n, n_got;
            struct pst_loader_options options = image_options(10);
            options.on_error = (enum pst_on_error)policy;
            options.max_errors = max_errors;
            pst_loader *lone = open_loader(spoiled, &options), *job = open_job(spoiled, options);
            pst_error_clear(&wanted);
            pst_error_clear(&error);
            assert_ok(pst_loader_begin(lone, 0, &err));
            assert_ok(pst_loader_begin(job, 0, &err));
            enum pst_status status = drain_until(lone, NULL, want, &n, &wanted);
            assert_int_equal(drain_until(job, NULL, got, &n_got, &error), status);
            assert_int_equal(n_got, n);
            assert_memory_equal(got, want, n * sizeof *want);
            if (status != PST_END) {
                assert_int_equal(error.sample, wanted.sample);
                assert_string_equal(error.text, wanted.text);
                assert_string_equal(error.file, wanted.file);
            }
            struct pst_loader_stats a = stats_of(lone), b = stats_of(job);
            assert_int_equal(a.n_bad, b.n_bad);
            assert_int_equal(a.n_replaced, b.n_replaced);
            assert_int_equal(pst_loader_n_quarantined(lone), pst_loader_n_quarantined(job));
            assert_true(status != PST_END || b.n_shared > b.fallbacks[PST_FALLBACK_SHARE]);
            pst_loader_close(&lone);
            pst_loader_close(&job);
        }
    pst_dataset_close(&spoiled);
}

/* The service ends at each step of an epoch: the job goes on at the same position. */
static void the_service_may_end_at_any_time(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = image_options(20);
    size_t n = drain_alone(uniform, options, 0, want);
    for (size_t end = 0; end <= n; end += 2) {
        pst_loader *loader = open_job(uniform, options);
        assert_ok(pst_loader_begin(loader, 0, &err));
        for (size_t i = 0; i < n; i++) {
            pst_batch *batch;
            if (i == end)
                serve_fixture_stop(&fixture);
            assert_ok(pst_loader_next(loader, &batch, &err));
            assert_true(hash_batch(batch) == want[i]);
            pst_batch_release(batch);
        }
        if (end >= n)
            serve_fixture_stop(&fixture);
        assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_SHARE], n - (end < n ? end : n));
        serve_fixture_start(&fixture, NULL);
        uint64_t before = stats_of(loader).n_shared;
        assert_ok(pst_loader_begin(loader, 1, &err)); /* the loader looks for the service again */
        assert_int_equal(drain_epoch(loader, NULL, want), n);
        assert_int_equal(stats_of(loader).n_shared, before + n);
        drain_alone(uniform, options, 0, want);
        pst_loader_close(&loader);
    }
}

/* Without a service a loader goes on alone and reports that. Impossible options are refused. */
static void without_a_service_it_goes_on_alone(void **state)
{
    (void)state;
    uint64_t want[BATCHES_MAX], got[BATCHES_MAX];
    struct pst_error err;
    struct pst_loader_options options = image_options(20);
    size_t n = drain_alone(uniform, options, 0, want);
    options.socket = "/tmp/no-such-directory/host.sock";
    options.share = "group";
    pst_loader *loader = open_loader(uniform, &options);
    assert_false(stats_of(loader).is_sharing);
    assert_int_equal(run_epoch(loader, 0, got), n);
    assert_memory_equal(got, want, n * sizeof *want);
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_SHARE], n);
    assert_non_null(strstr(stats_of(loader).share_reason, "no host service"));
    pst_loader_close(&loader);
    options.share = "";
    assert_int_equal(pst_loader_open(uniform, &options, &loader, &err), PST_ERROR_ARGUMENT);
}

struct runner {
    pthread_t thread;
    uint32_t batch_size;
    uint64_t hashes[3][BATCHES_MAX];
    size_t n[3];
    bool shared;
};

static void *run_job(void *arg)
{
    struct runner *runner = arg;
    pst_loader *loader = open_job(mixed, all_options(runner->batch_size));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        runner->n[epoch] = run_epoch(loader, epoch, runner->hashes[epoch]);
    }
    struct pst_loader_stats stats = stats_of(loader);
    runner->shared = stats.n_shared > 0;
    assert_int_equal(stats.n_shared + stats.fallbacks[PST_FALLBACK_SHARE], stats.n_batches);
    pst_loader_close(&loader);
    return NULL;
}

/* Jobs run in threads at the same time: a job that is left behind prepares alone, and all streams
 * stay right. */
static void jobs_race(void **state)
{
    (void)state;
    enum { JOBS = 5 };
    static struct runner runners[JOBS];
    uint64_t want[BATCHES_MAX];
    for (uint32_t j = 0; j < JOBS; j++) {
        runners[j].batch_size = 3 + 5 * j;
        assert_int_equal(pthread_create(&runners[j].thread, NULL, run_job, &runners[j]), 0);
    }
    for (uint32_t j = 0; j < JOBS; j++)
        pthread_join(runners[j].thread, NULL);
    for (uint32_t j = 0; j < JOBS; j++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            size_t n = drain_alone(mixed, all_options(runners[j].batch_size), epoch, want);
            assert_int_equal(runners[j].n[epoch], n);
            assert_memory_equal(runners[j].hashes[epoch], want, n * sizeof *want);
            assert_true(runners[j].shared);
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, serve_fixture_open, serve_fixture_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest races[] = {
        TEST(a_late_job_can_begin_with_the_next_epoch),
        TEST(the_service_may_end_at_any_time),
        TEST(jobs_race),
    };
    const struct CMUnitTest tests[] = {
        TEST(a_job_gets_what_it_would_make),
        TEST(jobs_of_several_sizes_share),
        TEST(writing_changes_nobody_elses),
        TEST(kept_batches_stay),
        TEST(a_late_job_gets_all),
        TEST(a_late_job_can_begin_with_the_next_epoch),
        TEST(a_job_that_rests_finds_the_next_epoch),
        TEST(a_slow_job_is_left_behind),
        TEST(ranks_share),
        TEST(bad_samples_are_as_alone),
        TEST(the_service_may_end_at_any_time),
        TEST(without_a_service_it_goes_on_alone),
        TEST(jobs_race),
    };
    alarm(600);
    if (argc > 1 && strcmp(argv[1], "short") == 0) {
        n_samples = 60;
        return cmocka_run_group_tests(races, set_up, tear_down);
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
