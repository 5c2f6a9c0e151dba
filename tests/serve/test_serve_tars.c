/* test_serve_tars.c - tests clients of the host service that read tars in place: batches are those
 * of a loader without a service, and a shard that was replaced, or an index that everybody may
 * write to, is reported. */
#include "loader/loader_fixture.h"
#include "loader/make_tars.h"
#include "serve/serve_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 24 };

static const char *below(const char *name)
{
    static char paths[4][160];
    static unsigned n;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* Starts a service, and makes two tars without an index. */
static int make_both(void **state)
{
    remove_tree(below("tars"));
    setenv("PENSTOCK_CACHE_DIR", below("cache"), 1);
    if (mkdir(below("tars"), 0755) != 0)
        return -1;
    make_tar(below("tars/t-000.tar"), 0, N / 2);
    make_tar(below("tars/t-001.tar"), N / 2, N - N / 2);
    return serve_fixture_open(state);
}

static struct pst_loader_options crops(struct augmented *kept, pst_cache *cache)
{
    struct pst_loader_options options = augmented_options(kept, 24, 24);
    kept->outputs[1] = (struct pst_field_output){.name = "text"};
    options.cache = cache;
    options.storage = SERVE_STORAGE;
    return options;
}

static void two_clients_have_the_same_batches(void **state)
{
    struct augmented kept;
    uint64_t wanted[N], hashes[N];
    struct pst_cache_file_report report;
    struct pst_error err;
    (void)state;
    for (int sums = 0; sums < 2; sums++) {
        const struct pst_dataset_options opening = {.struct_size = sizeof opening, .sums = sums};
        pst_dataset *tars[2];
        pst_loader *loaders[2];
        pst_cache *cache = serve_fixture_open_host();
        struct pst_loader_options options = crops(&kept, NULL);
        for (int i = 0; i < 2; i++)
            assert_ok(pst_dataset_open(below("tars"), &opening, &tars[i], &err));
        pst_loader *alone = open_loader(tars[0], &options);
        options.cache = cache;
        for (int i = 0; i < 2; i++)
            loaders[i] = open_loader(tars[i], &options);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            size_t n = run_epoch(alone, epoch, wanted);
            for (int i = 0; i < 2; i++)
                begin_epoch(loaders[i], epoch);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(drain_epoch(loaders[i], NULL, hashes), n);
                assert_memory_equal(hashes, wanted, n * sizeof *hashes);
            }
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(stats_of(loaders[i]).n_reads, 0);
            assert_int_equal(stats_of(loaders[i]).n_unchecked, sums ? 0 : 4 * N);
            assert_string_equal(stats_of(loaders[i]).host_reason, "");
        }
        /* Items without checksums are not saved with the cache. */
        assert_ok(pst_cache_save(cache, below("saved"), &report, sizeof report, &err));
        assert_int_equal(report.n_items, sums ? 2 * N : 0);
        assert_int_equal(report.n_unsaved, 2 * N);
        for (int i = 0; i < 2; i++) {
            pst_loader_close(&loaders[i]);
            pst_dataset_close(&tars[i]);
        }
        pst_loader_close(&alone);
        pst_cache_close(&cache);
        /* the service closes the data set, then opens it again */
        serve_fixture_await_no_sessions(&fixture);
    }
}

static void a_shard_is_replaced(void **state)
{
    struct augmented kept;
    struct pst_error err;
    uint64_t wanted[N], hashes[N];
    size_t n;
    (void)state;
    pst_dataset *tars = open_there("tars");
    pst_cache *cache = serve_fixture_open_host();
    struct pst_loader_options options = crops(&kept, cache);
    options.order = PST_ORDER_SEQUENTIAL;
    pst_loader *loader = open_loader(tars, &options);
    make_tar(below("other"), 100, N - N / 2);
    assert_int_equal(rename(below("other"), below("tars/t-001.tar")), 0);
    begin_epoch(loader, 0);
    assert_int_equal(drain_until(loader, NULL, hashes, &n, &err), PST_ERROR_CORRUPT);
    assert_int_equal(n, N / 2 / options.batch_size);
    assert_int_equal(err.sample, N / 2);
    assert_non_null(strstr(err.file, "t-001.tar"));
    assert_non_null(strstr(err.text, "changed"));
    pst_loader_close(&loader);
    pst_dataset_close(&tars);
    /* A client that opens the tars now reads the new shard, through the same service. */
    tars = open_there("tars");
    options.cache = NULL;
    pst_loader *alone = open_loader(tars, &options);
    options.cache = cache;
    loader = open_loader(tars, &options);
    n = run_epoch(alone, 0, wanted);
    assert_int_equal(run_epoch(loader, 0, hashes), n);
    assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    assert_int_equal(stats_of(loader).n_reads, 0);
    pst_loader_close(&alone);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_dataset_close(&tars);
}

static void an_index_that_everybody_may_write_is_refused(void **state)
{
    struct augmented kept;
    struct pst_error err;
    uint64_t hashes[N];
    pst_loader *loader = NULL;
    (void)state;
    pst_dataset *tars = open_there("tars");
    pst_cache *cache = serve_fixture_open_host();
    struct pst_loader_options options = crops(&kept, cache);
    assert_int_equal(chmod(pst_dataset_index_path(tars), 0666), 0);
    assert_int_equal(pst_loader_open(tars, &options, &loader, &err), PST_ERROR_STATE);
    assert_non_null(strstr(err.text, "everybody"));
    pst_dataset_close(&tars);
    /* A client that opens the tars now does not use that index either. */
    tars = open_there("tars");
    loader = open_loader(tars, &options);
    run_epoch(loader, 0, hashes);
    assert_int_equal(stats_of(loader).n_reads, 0);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_dataset_close(&tars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_clients_have_the_same_batches, make_both,
                                        serve_fixture_close),
        cmocka_unit_test_setup_teardown(a_shard_is_replaced, make_both, serve_fixture_close),
        cmocka_unit_test_setup_teardown(an_index_that_everybody_may_write_is_refused, make_both,
                                        serve_fixture_close),
    };
    return cmocka_run_group_tests(tests, directory_set_up, directory_tear_down);
}
