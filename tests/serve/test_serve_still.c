/* test_serve_still.c - the storage of one data set, or of a saved cache, stops answering while
 * the service uses it. Clients of another data set get everything they want, the service reports
 * its status, and clients of the blocked data set go on without the service within the stated
 * time.
 *
 * The service is a separate process, whose reads and writes serve_still.h blocks. With the
 * argument "long", also openings that take longer than a minute. */
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"
#include "serve/serve_still.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 96, BATCH = 8, N_BATCHES = N / BATCH, N_STUCK = N_BATCHES + 1 };
#define SECOND ((int64_t)1000 * 1000 * 1000)
#define MINUTE (60 * SECOND)

static bool is_long;
static pst_dataset *stuck, *well;
static _Thread_local struct augmented kept; /* options of the loader that a thread opens */
static uint64_t wanted[N_BATCHES], wanted_stuck[N_STUCK];
static pid_t service;

static struct pst_loader_options options_of(pst_cache *cache, const char *share)
{
    struct pst_loader_options options = augmented_options(&kept, 48, 48);
    options.n_fields = 1;
    options.storage = PST_STORAGE_THREADS;
    options.batch_size = BATCH;
    options.cache = cache;
    options.share = share;
    options.socket = share ? fixture.socket : NULL;
    return options;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    serve_still_make();
    stuck = open_made(directory, "stuck.pst",
                      &(struct make_options){.n_samples = N_STUCK * BATCH, .images = MAKE_JPEG});
    well = open_made(directory, "well.pst",
                     &(struct make_options){.n_samples = N, .images = MAKE_JPEG});
    const struct pst_loader_options options = options_of(NULL, NULL);
    assert_int_equal(drain_alone(well, options, 0, wanted), N_BATCHES);
    assert_int_equal(drain_alone(stuck, options, 0, wanted_stuck), N_STUCK);
    return 0;
}

SERVE_TEAR_DOWN(&stuck, &well)

static int start(void **state)
{
    (void)state;
    service = serve_fixture_fork(&fixture, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    serve_still_end();
    serve_fixture_kill(service, SIGKILL);
    return 0;
}

/* Runs an epoch of the data set whose storage works. All batches must come from the service. */
static void check_well(bool shares, uint64_t epoch)
{
    uint64_t hashes[N_BATCHES];
    pst_cache *cache = shares ? NULL : serve_fixture_open_host();
    const struct pst_loader_options options = options_of(cache, shares ? "well" : NULL);
    pst_loader *loader = open_loader(well, &options);
    assert_int_equal(run_epoch(loader, epoch, hashes), N_BATCHES);
    if (epoch == 0)
        assert_memory_equal(hashes, wanted, sizeof hashes);
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.nbytes_read, 0);
    assert_int_equal(stats.n_shared, shares ? N_BATCHES : 0);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    (void)serve_fixture_status(&fixture);
}

static void check_well_images(void)
{
    pst_cache *cache = serve_fixture_open_host();
    const struct pst_images_options options = {
        .struct_size = sizeof options, .cache = cache, .cache_form = PST_CACHE_FORM_PLI};
    struct pst_images_stats stats;
    struct pst_error err;
    pst_images *images;
    assert_ok(pst_images_open(well, &options, &images, &err));
    for (uint64_t i = 0; i < N; i += 7) {
        struct pst_pixels pixels;
        assert_ok(pst_images_get(images, i, &pixels, &err));
        pst_images_release(pixels.data);
    }
    pst_images_stats(images, &stats, sizeof stats);
    assert_int_equal(stats.nbytes_read, 0);
    pst_images_close(&images);
    pst_cache_close(&cache);
}

/* A thread that runs an epoch of the data set whose storage is blocked for the service. */
struct victim {
    pthread_t thread;
    bool shares;
    bool opens; /* the thread also opens the loader */
    pst_cache *cache;
    pst_loader *loader;
    uint64_t hashes[N_STUCK];
    size_t n;
};

static void open_victim(struct victim *victim)
{
    victim->cache = victim->shares ? NULL : serve_fixture_open_host();
    const struct pst_loader_options options =
        options_of(victim->cache, victim->shares ? "stuck" : NULL);
    victim->loader = open_loader(stuck, &options);
}

static void *run_victim(void *arg)
{
    struct victim *victim = arg;
    if (victim->opens)
        open_victim(victim);
    victim->n = run_epoch(victim->loader, 0, victim->hashes);
    return NULL;
}

static void begin_victim(struct victim *victim)
{
    if (!victim->opens)
        open_victim(victim);
    assert_int_equal(pthread_create(&victim->thread, NULL, run_victim, victim), 0);
}

/* Waits for the thread. Its batches must be right, wherever they came from. */
static struct pst_loader_stats end_victim(struct victim *victim)
{
    pthread_join(victim->thread, NULL);
    assert_int_equal(victim->n, N_STUCK);
    assert_memory_equal(victim->hashes, wanted_stuck, sizeof wanted_stuck);
    struct pst_loader_stats stats = stats_of(victim->loader);
    pst_loader_close(&victim->loader);
    pst_cache_close(&victim->cache);
    return stats;
}

/* Waits until the service has at most n descriptors open. */
static void await_fds(unsigned n)
{
    int64_t deadline = psti_clock_ns() + MINUTE;
    while (serve_fixture_count_fds(service) > n && psti_clock_ns() < deadline)
        psti_clock_sleep_until(psti_clock_ns() + SECOND / 100);
    assert_true(serve_fixture_count_fds(service) <= n);
}

/* A stream's thread waits for storage, and its last job leaves: the group ends without that
 * thread. */
static void a_job_that_leaves_its_stuck_stream_stops_nobody(void **state)
{
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    const struct pst_loader_options options = options_of(NULL, "stuck");
    pst_loader *loader = open_loader(stuck, &options);
    assert_true(stats_of(loader).is_sharing);
    unsigned n_fds = serve_fixture_count_fds(service);
    serve_still_begin(service, "stuck.pst");
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_int_equal(pst_loader_next_timed(loader, SECOND / 10, &batch, &err), PST_ERROR_BUSY);
    assert_true(serve_still_await(1));
    pst_loader_close(&loader);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        check_well(true, epoch);
        check_well(false, epoch);
    }
    serve_still_end();
    struct victim again = {.shares = true};
    begin_victim(&again);
    assert_int_equal(end_victim(&again).n_shared, N_STUCK);
    await_fds(n_fds);
}

/* Waits until the service has cleaned up after clients that left. Returns how many descriptors it
 * then has open. */
static unsigned count_fds(void)
{
    unsigned n = 0, before;
    do {
        before = n;
        psti_clock_sleep_until(psti_clock_ns() + SECOND / 4);
        n = serve_fixture_count_fds(service);
    } while (n != before);
    return n;
}

/* The last client of a data set leaves, and closing its files blocks on storage. */
static void check_closing(bool shares)
{
    struct victim before = {.shares = shares}, victim = {.shares = shares};
    check_well(true, 0);
    check_well(false, 0);
    check_well_images();
    begin_victim(&before);
    (void)end_victim(&before);
    unsigned n_fds = count_fds(); /* includes the descriptors of the cache's tables and memory */
    begin_victim(&victim);
    pthread_join(victim.thread, NULL);
    assert_int_equal(victim.n, N_STUCK);
    serve_still_begin(service, "stuck.pst");
    pst_loader_close(&victim.loader);
    pst_cache_close(&victim.cache);
    assert_true(serve_still_await(1));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        check_well(true, epoch);
        check_well(false, epoch);
    }
    check_well_images();
    serve_still_end();
    struct victim again = {.shares = shares};
    begin_victim(&again);
    struct pst_loader_stats stats = end_victim(&again);
    if (shares)
        assert_int_equal(stats.n_shared, N_STUCK);
    else
        assert_int_equal(stats.nbytes_read, 0);
    await_fds(n_fds);
}

static void stuck_closings_hold_nobody_up(void **state)
{
    (void)state;
    check_closing(false);
    check_closing(true);
}

/* A client joins a data set that the service already has open. The service closes the descriptors
 * that the client sent, because it does not need them, and this blocks on storage. */
static void descriptors_that_are_not_needed_hold_nobody_up(void **state)
{
    (void)state;
    for (int shares = 0; shares < 2; shares++) {
        struct victim first = {.shares = shares}, second = {.shares = shares};
        begin_victim(&first);
        pthread_join(first.thread, NULL);
        serve_still_begin(service, "stuck.pst");
        open_victim(&second);
        assert_true(serve_still_await(1));
        check_well(shares, 0);
        check_well(!shares, 0);
        serve_still_end();
        assert_int_equal(pthread_create(&second.thread, NULL, run_victim, &second), 0);
        (void)end_victim(&second);
        pst_loader_close(&first.loader);
        pst_cache_close(&first.cache);
    }
}

/* All requests of a client wait for storage. It goes on without the service after ten seconds. */
static void stuck_reads_cost_their_own_clients_alone(void **state)
{
    (void)state;
    struct victim victim = {.shares = false};
    open_victim(&victim);
    serve_still_begin(service, "stuck.pst");
    assert_int_equal(pthread_create(&victim.thread, NULL, run_victim, &victim), 0);
    assert_true(serve_still_await(1));
    check_well(false, 0);
    check_well(true, 0);
    check_well_images();
    struct pst_loader_stats stats = end_victim(&victim);
    assert_int_equal(stats.n_cache_fetched, 0);
    assert_true(stats.nbytes_read > 0);
    serve_still_end();
    /* Its storage works again, so the service serves it again. */
    struct victim again = {.shares = false};
    int64_t deadline = psti_clock_ns() + MINUTE;
    do {
        begin_victim(&again);
        stats = end_victim(&again);
    } while (stats.nbytes_read > 0 && psti_clock_ns() < deadline);
    assert_int_equal(stats.nbytes_read, 0);
}

/* The service waits for storage while it opens the data set, for the cache and for a group. */
static void stuck_openings_cost_their_own_clients_alone(void **state)
{
    (void)state;
    struct victim victims[4] = {{.shares = false, .opens = true},
                                {.shares = false, .opens = true},
                                {.shares = true, .opens = true},
                                {.shares = true, .opens = true}};
    serve_still_begin(service, "stuck.pst");
    for (int i = 0; i < 4; i++)
        begin_victim(&victims[i]);
    assert_true(serve_still_await(2));
    check_well(false, 0);
    check_well(true, 0);
    check_well_images();
    serve_still_end();
    for (int i = 0; i < 4; i++) {
        struct pst_loader_stats stats = end_victim(&victims[i]);
        /* An item that the stream is reading at this moment is also read by the other clients
         * themselves. */
        assert_int_equal(stats.fallbacks[PST_FALLBACK_HOST], 0);
        assert_int_equal(stats.n_shared, i < 2 ? 0 : N_STUCK);
    }
}

/* The service waits for storage for longer than any client waits: the clients go on alone. */
static void an_opening_that_never_ends_is_given_up(void **state)
{
    (void)state;
    if (!is_long)
        return;
    struct victim victims[3] = {{.shares = true, .opens = true},
                                {.shares = true, .opens = true},
                                {.shares = false, .opens = true}};
    serve_still_begin(service, "stuck.pst");
    for (int i = 0; i < 3; i++)
        begin_victim(&victims[i]);
    assert_true(serve_still_await(2));
    check_well(true, 0);
    for (int i = 0; i < 3; i++) {
        struct pst_loader_stats stats = end_victim(&victims[i]);
        assert_int_equal(stats.n_shared + stats.n_cache_fetched, 0);
        assert_non_null(
            strstr(i < 2 ? stats.share_reason : stats.host_reason, "storage may stand still"));
    }
}

struct saving {
    pthread_t thread;
    const char *path;
    struct pst_error err;
    enum pst_status status;
};

static void *save(void *arg)
{
    struct saving *saving = arg;
    struct pst_cache_file_report report;
    pst_cache *cache = serve_fixture_open_host();
    saving->status = pst_cache_save(cache, saving->path, &report, sizeof report, &saving->err);
    pst_cache_close(&cache);
    return NULL;
}

static void stuck_saves_hold_nobody_up(void **state)
{
    enum { N_SAVES = 5 };
    struct saving savings[N_SAVES] = {0};
    char path[128];
    (void)state;
    check_well(false, 0);
    snprintf(path, sizeof path, "%s/stuck-saves", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/stuck-saves/cache", directory);
    serve_still_begin(service, "stuck-saves");
    for (int i = 0; i < N_SAVES; i++) {
        savings[i].path = path;
        assert_int_equal(pthread_create(&savings[i].thread, NULL, save, &savings[i]), 0);
    }
    assert_true(serve_still_await(1));
    check_well(false, 1);
    serve_still_end();
    for (int i = 0; i < N_SAVES; i++)
        pthread_join(savings[i].thread, NULL);
    assert_int_equal(savings[0].status, PST_OK);
}

static int stop_after_some(void *ctx)
{
    int *n = ctx;
    return ++*n > 3;
}

/* An interrupted caller does not go on waiting for blocked storage. */
static void interrupts_end_waits(void **state)
{
    int n = -1000000; /* more calls than opening makes */
    struct pst_error err;
    pst_cache *cache = serve_fixture_open_host();
    const struct pst_images_options options = {.struct_size = sizeof options,
                                               .cache = cache,
                                               .interrupt = stop_after_some,
                                               .interrupt_ctx = &n};
    struct pst_pixels pixels;
    pst_images *images;
    pst_loader *loader;
    (void)state;
    assert_ok(pst_images_open(stuck, &options, &images, &err));
    serve_still_begin(service, "stuck.pst");
    n = 0;
    assert_int_equal(pst_images_get(images, 0, &pixels, &err), PST_ERROR_CANCELLED);
    assert_int_equal(n, 4);
    struct pst_loader_options sharing = options_of(NULL, "stuck");
    sharing.interrupt = stop_after_some;
    sharing.interrupt_ctx = &n;
    n = 0;
    assert_int_equal(pst_loader_open(stuck, &sharing, &loader, &err), PST_ERROR_CANCELLED);
    assert_true(serve_still_await(2));
    serve_still_end();
    n = -1000000;
    assert_ok(pst_images_get(images, 0, &pixels, &err));
    pst_images_release(pixels.data);
    pst_images_close(&images);
    pst_cache_close(&cache);
}

static void a_service_with_stuck_storage_can_be_stopped(void **state)
{
    struct pst_error err;
    (void)state;
    struct victim cached = {.shares = false}, shared = {.shares = true};
    open_victim(&cached);
    open_victim(&shared);
    serve_still_begin(service, "stuck.pst");
    assert_int_equal(pthread_create(&cached.thread, NULL, run_victim, &cached), 0);
    assert_int_equal(pthread_create(&shared.thread, NULL, run_victim, &shared), 0);
    assert_true(serve_still_await(2));
    assert_ok(pst_service_end(fixture.socket, &err));
    assert_true(end_victim(&cached).fallbacks[PST_FALLBACK_HOST] > 0);
    assert_true(end_victim(&shared).fallbacks[PST_FALLBACK_SHARE] > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_that_leaves_its_stuck_stream_stops_nobody, start,
                                        stop),
        cmocka_unit_test_setup_teardown(stuck_closings_hold_nobody_up, start, stop),
        cmocka_unit_test_setup_teardown(descriptors_that_are_not_needed_hold_nobody_up, start,
                                        stop),
        cmocka_unit_test_setup_teardown(stuck_reads_cost_their_own_clients_alone, start, stop),
        cmocka_unit_test_setup_teardown(stuck_openings_cost_their_own_clients_alone, start, stop),
        cmocka_unit_test_setup_teardown(stuck_saves_hold_nobody_up, start, stop),
        cmocka_unit_test_setup_teardown(interrupts_end_waits, start, stop),
        cmocka_unit_test_setup_teardown(a_service_with_stuck_storage_can_be_stopped, start, stop),
        cmocka_unit_test_setup_teardown(an_opening_that_never_ends_is_given_up, start, stop),
    };
    is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    alarm(is_long ? 900 : 290);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
