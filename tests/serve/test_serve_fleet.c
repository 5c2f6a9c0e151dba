/* test_serve_fleet.c - tests loaders that use the host cache and a fleet together: each item is in
 * one of them, storage is read once, the counts are exact, and a killed server only costs reads of
 * its own items. */
#include "fleet/fleet_fixture.h"
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { N = 400, BATCH = 8, N_BATCHES = N / BATCH, SERVERS = 2, MIB = 1 << 20 };

static struct server servers[SERVERS];
/* A data set, and a mixture of two data sets with as many samples. */
static pst_dataset *alone, *mixture;
static uint64_t wanted[2][4][N_BATCHES];

static struct pst_loader_options plain(uint32_t workers)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .storage = SERVE_STORAGE,
                                       .num_workers = workers};
}

static pst_dataset *make(const char *name, uint32_t n, uint32_t edition)
{
    const struct make_options made = {
        .n_samples = n, .images = MAKE_RAW_SAME, .edition = edition};
    return open_made(directory, name, &made);
}

static pst_dataset *make_mixture(void)
{
    struct pst_mixture_source sources[2] = {{.dataset = make("first.pst", N / 4, 1)},
                                            {.dataset = make("second.pst", N - N / 4, 2)}};
    struct pst_error err;
    pst_dataset *made;
    assert_ok(pst_dataset_open_many(sources, 2, NULL, &made, &err));
    for (int i = 0; i < 2; i++)
        pst_dataset_close(&sources[i].dataset);
    return made;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    alone = make("set.pst", N, 0);
    mixture = make_mixture();
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        assert_int_equal(drain_alone(alone, plain(2), epoch, wanted[0][epoch]), N_BATCHES);
        assert_int_equal(drain_alone(mixture, plain(2), epoch, wanted[1][epoch]), N_BATCHES);
    }
    return 0;
}

SERVE_TEAR_DOWN(&alone, &mixture)

/* Runs an epoch and checks its batches against a loader without cache and fleet. Returns the number
 * of reads from storage. */
static uint64_t run(pst_loader *loader, bool is_mixture, uint64_t epoch)
{
    uint64_t hashes[N_BATCHES], before = stats_of(loader).n_reads;
    assert_int_equal(run_epoch(loader, epoch, hashes), N_BATCHES);
    assert_memory_equal(hashes, wanted[is_mixture][epoch], sizeof hashes);
    return stats_of(loader).n_reads - before;
}

static void check(bool is_mixture, uint32_t workers)
{
    const struct pst_service_options small = {
        .struct_size = sizeof small, .cache_nbytes = MIB, .n_threads = 2, .keep = true};
    const struct pst_cache_host_options host = {.struct_size = sizeof host,
                                                .socket = fixture.socket};
    struct pst_loader_options options = plain(workers);
    struct pst_fleet_stats fleet;
    struct pst_fleet_server killed;
    char list[1024], path[128];
    struct pst_error err;
    for (int i = 0; i < SERVERS; i++) {
        snprintf(path, sizeof path, "%s/%d.sock", directory, i);
        start_server(&servers[i], path, 64, (char *)NULL);
    }
    serve_fixture_start(&fixture, &small);
    options.fleet = open_fleet(list_of(servers, SERVERS, list), 30, 16384);
    assert_ok(pst_cache_open_host(&host, &options.cache, &err));
    pst_loader *loader = open_loader(is_mixture ? mixture : alone, &options);

    uint64_t n_read = run(loader, is_mixture, 0);
    struct pst_loader_stats first = stats_of(loader);
    uint64_t n_host = first.n_cache_items, n_rest = N - n_host;
    assert_true(n_host > 0 && n_rest > 0);
    assert_int_equal(first.n_cache_fetched, n_host);
    assert_int_equal(n_read, n_rest);
    fleet = fleet_use(options.fleet);
    assert_int_equal(fleet.n_added, n_rest);
    assert_int_equal(fleet.n_hits, 0);

    for (uint64_t epoch = 1; epoch < 3; epoch++)
        assert_int_equal(run(loader, is_mixture, epoch), 0);
    struct pst_loader_stats second = stats_of(loader);
    fleet = fleet_use(options.fleet);
    assert_int_equal(second.n_cache_hits, 2 * n_host);
    assert_int_equal(second.n_cache_items, n_host);
    assert_int_equal(fleet.n_hits, 2 * n_rest);
    assert_int_equal(fleet.n_added, n_rest); /* no item is both in the cache and in the fleet */
    assert_int_equal(second.tiers[PST_TIER_HOST].n_hits, 2 * n_host);
    assert_int_equal(second.tiers[PST_TIER_FLEET].n_hits, 2 * n_rest);
    assert_int_equal(second.fallbacks[PST_FALLBACK_HOST], 0);

    end_server(&servers[0], SIGKILL);
    n_read = run(loader, is_mixture, 3);
    uint64_t n_lost = 0;
    for (uint32_t i = 0; i < SERVERS; i++) {
        assert_ok(pst_fleet_server(options.fleet, i, &killed, sizeof killed, &err));
        if (strstr(killed.name, servers[0].path))
            n_lost = killed.n_added;
    }
    assert_true(n_lost > 0 && n_lost < n_rest);
    assert_int_equal(n_read, n_lost);
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_FLEET_SERVER], n_lost);
    assert_int_equal(stats_of(loader).n_cache_hits, 3 * n_host);
    pst_loader_close(&loader);
    pst_cache_close(&options.cache);
    pst_fleet_close(&options.fleet);
    end_server(&servers[1], SIGKILL);
    serve_fixture_stop(&fixture);
}

static void host_and_fleet_share_the_items(void **state)
{
    (void)state;
    check(false, 0);
    check(false, 3);
}

/* Host cache and fleet keep the items of a mixture under the identities of its data sets. */
static void mixtures_share_the_items(void **state)
{
    (void)state;
    check(true, 0);
    check(true, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(host_and_fleet_share_the_items),
                                       cmocka_unit_test(mixtures_share_the_items)};
    if (!fleet_is_here())
        return 77;
    alarm(200);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
