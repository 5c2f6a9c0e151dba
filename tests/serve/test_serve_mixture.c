/* test_serve_mixture.c - tests clients of the host service whose data set is a mixture: jobs that
 * share its preparation, change its weights together and leave early, beside loaders with the host
 * cache. All are threads of this process, so ThreadSanitizer sees both sides. Batches are those of
 * a loader without a service, and each item is read once. */
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_PACKED = 30, N_OTHER = 18, N_CLASSES = 3, N_EACH = 4, JOBS = 3, N_EPOCHS = 2, MAX = 128 };
enum { N_ITEMS = N_PACKED + N_OTHER + N_CLASSES * N_EACH, CHANGE_AT = 3 };

static pst_dataset *packed, *other, *folder, *mixture;
static const double first_weights[3] = {2, 1, 1}, later_weights[3] = {1, 0, 3};

static int set_up(void **state)
{
    struct pst_error err;
    (void)state;
    make_directory(directory);
    packed = open_made(directory, "packed.pst",
                       &(struct make_options){.n_samples = N_PACKED, .images = MAKE_MIXED});
    other =
        open_made(directory, "other.pst",
                  &(struct make_options){.n_samples = N_OTHER, .images = MAKE_PNG, .edition = 1});
    folder = open_made_folder(directory, "folder", N_CLASSES, N_EACH);
    const struct pst_mixture_source sources[] = {
        {.dataset = packed}, {.dataset = other}, {.dataset = folder}};
    static const char *const fields[] = {"image"};
    const struct pst_mixture_options options = {
        .struct_size = sizeof options, .fields = fields, .n_fields = 1};
    assert_ok(pst_dataset_open_many(sources, 3, &options, &mixture, &err));
    return 0;
}

TEAR_DOWN(&packed, &other, &folder, &mixture)

/* Returns options with weights. `kept` must live until the loader is open, and each thread has its
 * own. */
static struct pst_loader_options weighted(struct augmented *kept)
{
    struct pst_loader_options options = augmented_options(kept, 32, 32);
    options.n_fields = 1;
    options.batch_size = 4;
    options.num_workers = 1;
    options.storage = SERVE_STORAGE;
    options.source_weights = first_weights;
    options.n_source_weights = 3;
    options.no_epoch_padding = true;
    return options;
}

/* Runs two epochs and changes the weights in the first. Returns the number of batches. */
static size_t run_changed(pst_loader *loader, uint64_t *hashes)
{
    size_t n = 0;
    struct pst_error err;
    for (uint64_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        begin_epoch(loader, epoch);
        for (int i = 0; epoch == 0 && i < CHANGE_AT; i++) {
            pst_batch *batch = NULL;
            assert_ok(pst_loader_next(loader, &batch, &err));
            hashes[n++] = hash_batch(batch);
            pst_batch_release(batch);
        }
        if (epoch == 0) {
            struct pst_loader_state place;
            pst_loader_state(loader, &place);
            const uint64_t places[2] = {place.epoch, place.position};
            assert_ok(pst_loader_set_source_weights(loader, places, later_weights, 1, &err));
        }
        n += drain_epoch(loader, NULL, hashes + n);
        assert_true(n < MAX);
    }
    return n;
}

struct job {
    pthread_t thread;
    bool shares, leaves; /* leaves: closes its loader early while it holds a batch */
    size_t n;
    uint64_t hashes[MAX];
    struct pst_loader_stats stats;
};

static void *run_job(void *arg)
{
    struct job *job = arg;
    struct augmented kept;
    struct pst_loader_options options = weighted(&kept);
    struct pst_error err;
    pst_cache *cache = job->shares ? NULL : serve_fixture_open_host();
    options.share = job->shares ? "jobs" : NULL;
    options.socket = job->shares ? fixture.socket : NULL;
    options.share_wait_seconds = job->shares ? 60 : 0;
    options.cache = cache;
    pst_loader *loader = open_loader(mixture, &options);
    if (job->leaves) {
        pst_batch *batch = NULL;
        begin_epoch(loader, 0);
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_loader_close(&loader);
        pst_batch_release(batch);
    } else {
        job->n = run_changed(loader, job->hashes);
        job->stats = stats_of(loader);
        pst_loader_close(&loader);
    }
    pst_cache_close(&cache);
    return NULL;
}

static void jobs_and_clients_at_once(void **state)
{
    static struct job jobs[2 * JOBS];
    uint64_t wanted[MAX];
    struct augmented kept;
    struct pst_loader_options options = weighted(&kept);
    (void)state;
    pst_loader *alone = open_loader(mixture, &options);
    size_t n = run_changed(alone, wanted);
    pst_loader_close(&alone);
    for (int i = 0; i < 2 * JOBS; i++) {
        jobs[i].shares = i % 2 == 0;
        jobs[i].leaves = i >= 2 * JOBS - 2;
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < 2 * JOBS; i++)
        pthread_join(jobs[i].thread, NULL);
    for (int i = 0; i < 2 * JOBS - 2; i++) {
        assert_int_equal(jobs[i].n, n);
        assert_memory_equal(jobs[i].hashes, wanted, n * sizeof *wanted);
        if (jobs[i].shares)
            assert_true(jobs[i].stats.n_shared > 0);
        else
            assert_string_equal(jobs[i].stats.host_reason,
                                ""); /* even while a stream reads the same item */
    }
    serve_fixture_await_no_sessions(&fixture);
}

/* The cache keeps the items of a mixture under its sources: a loader of one source finds the items
 * that the mixture has read, and the reverse. */
static void sources_have_their_items(void **state)
{
    struct augmented kept;
    struct pst_loader_options options = weighted(&kept);
    uint64_t hashes[MAX], wanted[MAX];
    (void)state;
    pst_cache *cache = serve_fixture_open_host();
    options.source_weights = NULL;
    options.n_source_weights = 0;
    options.cache = cache;
    pst_loader *mixed = open_loader(mixture, &options), *single = open_loader(other, &options);
    run_epoch(mixed, 0, hashes);
    size_t n = run_epoch(single, 0, hashes);
    assert_int_equal(stats_of(single).n_cache_hits, N_OTHER);
    assert_int_equal(stats_of(mixed).n_reads + stats_of(single).n_reads, 0);
    assert_int_equal(stats_of(mixed).n_cache_items, N_ITEMS);
    options.cache = NULL;
    assert_int_equal(drain_alone(other, options, 0, wanted), n);
    assert_memory_equal(hashes, wanted, n * sizeof *wanted);
    pst_loader_close(&mixed);
    pst_loader_close(&single);
    pst_cache_close(&cache);
    serve_fixture_await_no_sessions(&fixture);
}

#define T(f) cmocka_unit_test_setup_teardown(f, serve_fixture_open, serve_fixture_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(jobs_and_clients_at_once),
        T(sources_have_their_items),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
