/* test_serve_table.c - tests items in compressed pages of tables with the host service: it reads
 * and decodes each item once, and gives loaders only the item's own bytes. */
#include "dataset/toy_table.h"
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include "base/codings/codings.h"
#include "dataset/dataset.h"

#include <stdio.h>
#include <stdlib.h>

enum { N = 48, BATCH = 6, MIB = 1 << 20 };

static pst_dataset *dataset;

static int set_up(void **state)
{
    struct pst_error err;
    char path[128];
    if (directory_set_up(state) != 0)
        return -1;
    snprintf(path, sizeof path, "mkdir -p %s/toys", directory);
    if (system(path) != 0)
        return -1;
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/toys/part-%u.toy", directory, i);
        toy_write(path, i * N / 2, N / 2);
    }
    snprintf(path, sizeof path, "%s/toys", directory);
    return pst_dataset_open(path, NULL, &dataset, &err) != PST_OK;
}

SERVE_TEAR_DOWN(&dataset)

static void the_service_gives_decoded_parts_of_pages(void **state)
{
    (void)state;
    uint64_t wanted[N], hashes[N], n_items = 0, nbytes = 0;
    struct pst_error err;
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = BATCH,
                                         .order = PST_ORDER_SHUFFLED,
                                         .seed = 5,
                                         .num_workers = 2};
    for (uint64_t i = 0; i < N; i++)
        for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++) {
            enum pst_field_type type = pst_dataset_field(dataset, f)->type;
            struct pst_item item;
            if (type == PST_FIELD_INT || type == PST_FIELD_FLOAT)
                continue;
            assert_ok(pst_dataset_item(dataset, i, f, 0, &item, sizeof item, &err));
            if (item.i_file == PST_FILE_NONE)
                continue;
            n_items++;
            nbytes += psti_dataset_item_kept_nbytes(&item);
        }
    pst_loader *alone = open_loader(dataset, &options), *loaders[2];
    const struct pst_service_options serving = {
        .struct_size = sizeof serving, .cache_nbytes = 64 * MIB, .n_threads = 2, .keep = true};
    serve_fixture_place(&fixture);
    serve_fixture_start(&fixture, &serving);
    pst_cache *cache = serve_fixture_open_host();
    options.cache = cache;
    for (int i = 0; i < 2; i++)
        loaders[i] = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t n = run_epoch(alone, epoch, wanted);
        for (int i = 0; i < 2; i++)
            begin_epoch(loaders[i], epoch);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(drain_epoch(loaders[i], NULL, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
    }
    uint64_t n_fetched = 0, nbytes_fetched = 0;
    for (int i = 0; i < 2; i++) {
        struct pst_loader_stats stats = stats_of(loaders[i]);
        n_fetched += stats.n_cache_fetched;
        nbytes_fetched += stats.nbytes_cache_fetched;
        assert_int_equal(stats.n_reads, 0);
        assert_int_equal(stats.n_cache_items, n_items);
        pst_loader_close(&loaders[i]);
    }
    assert_int_equal(n_fetched, n_items);
    assert_int_equal(nbytes_fetched, nbytes);
    pst_loader_close(&alone);
    pst_cache_close(&cache);
    serve_fixture_stop(&fixture);
}

int main(void)
{
    struct psti_codings *codings = NULL;
    struct pst_error err;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_service_gives_decoded_parts_of_pages)};
    if (psti_codings_open(&codings,
                          psti_codings_of(PST_CODING_ZSTD) | psti_codings_of(PST_CODING_LZ4),
                          "test", &err) != PST_OK) {
        printf("%s\n", err.text);
        return 77;
    }
    psti_codings_close(&codings);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
