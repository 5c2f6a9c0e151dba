/* test_loader_table.c - tests items in compressed pages of tables: does every row of every epoch
 * have its own bytes, from any storage and cache, within the granted memory, and is damage
 * reported? */
#include "dataset/toy_table.h"

#include "cache/cache_fixture.h"
#include "fleet/fleet_fixture.h"
#include "loader/loader_fixture.h"

#include "base/codings/codings.h"
#include "dataset/dataset.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_FIRST = 27, N = 48, BATCH = 6, MIB = 1 << 20 };

static pst_dataset *dataset;
static uint8_t seen[N];

TEAR_DOWN(&dataset)

static pst_dataset *open_toys(bool sums)
{
    const struct pst_dataset_options options = {.struct_size = sizeof options, .sums = sums};
    struct pst_error err;
    pst_dataset *opened = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/toys", directory);
    assert_ok(pst_dataset_open(path, &options, &opened, &err));
    return opened;
}

static int set_up(void **state)
{
    char path[128];
    if (directory_set_up(state) != 0)
        return -1;
    snprintf(path, sizeof path, "mkdir -p %s/toys", directory);
    if (system(path) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/toys/part-0.toy", directory);
    toy_write(path, 0, N_FIRST);
    snprintf(path, sizeof path, "%s/toys/part-1.toy", directory);
    toy_write(path, N_FIRST, N - N_FIRST);
    dataset = open_toys(false);
    return 0;
}

static void look(pst_loader *loader, const pst_batch *batch)
{
    static const char *const names[] = {"blob", "vector", "plain", "joined", "snappy", "note"};
    const int64_t *index = pst_batch_index(batch);
    struct pst_error err;
    (void)loader;
    for (uint32_t row = 0; row < pst_batch_count(batch); row++) {
        uint32_t sample = (uint32_t)index[row];
        seen[sample]++;
        for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++) {
            uint8_t want[TOY_VALUE_CAP];
            struct pst_tensor tensor;
            int i = 0;
            while (i < 6 && strcmp(names[i], pst_batch_field_name(batch, f)) != 0)
                i++;
            if (i == 6)
                continue;
            size_t n = toy_value(sample, (enum toy_field)i, want);
            assert_ok(pst_batch_row(batch, f, row, &tensor, sizeof tensor, &err));
            assert_int_equal((size_t)tensor.shape[0] * pst_dtype_nbytes(tensor.dtype), n);
            if (n > 0)
                assert_memory_equal(tensor.data, want, n);
        }
    }
}

/* Runs an epoch. Every sample must appear once, with its own values. */
static void run(pst_loader *loader, uint64_t epoch)
{
    uint64_t hashes[N];
    memset(seen, 0, sizeof seen);
    begin_epoch(loader, epoch);
    assert_int_equal(drain_epoch(loader, look, hashes), N / BATCH);
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
}

static struct pst_loader_options plain(uint32_t workers)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 3,
                                       .num_workers = workers};
}

/* Counts the items that are stored in a file, and the bytes that a cache needs for them. */
static void count_items(uint64_t *n, uint64_t *nbytes)
{
    struct pst_error err;
    *n = *nbytes = 0;
    for (uint64_t i = 0; i < N; i++)
        for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++) {
            enum pst_field_type type = pst_dataset_field(dataset, f)->type;
            struct pst_item item;
            if (type == PST_FIELD_INT || type == PST_FIELD_FLOAT)
                continue;
            assert_ok(pst_dataset_item(dataset, i, f, 0, &item, sizeof item, &err));
            if (item.i_file == PST_FILE_NONE)
                continue;
            *n += 1;
            *nbytes += psti_dataset_item_kept_nbytes(&item);
        }
}

static void rows_have_their_own_bytes(void **state)
{
    (void)state;
    static const enum pst_storage_kind kinds[] = {PST_STORAGE_AUTO, PST_STORAGE_THREADS,
                                                  PST_STORAGE_MEMORY};
    for (uint32_t i = 0; i < 18; i++) {
        struct pst_loader_options options = plain(i % 3);
        options.storage = kinds[i / 3 % 3];
        options.order = i < 9 ? PST_ORDER_SHUFFLED : PST_ORDER_PAGES;
        pst_loader *loader = open_loader(dataset, &options);
        for (uint64_t epoch = 0; epoch < 2; epoch++)
            run(loader, epoch);
        pst_loader_close(&loader);
    }
    struct pst_loader_options options = plain(2);
    options.page_cache = PST_PAGE_CACHE_DIRECT;
    pst_loader *loader = open_loader(dataset, &options);
    run(loader, 0);
    pst_loader_close(&loader);
}

/* A cache keeps the decoded bytes of each item, not the whole page for each of its items. */
static void caches_keep_parts_of_pages_decoded(void **state)
{
    (void)state;
    uint64_t n, nbytes;
    count_items(&n, &nbytes);
    for (uint32_t workers = 0; workers < 3; workers++) {
        pst_cache *cache = open_cache(64 * MIB);
        struct pst_loader_options options = plain(workers);
        options.cache = cache;
        pst_loader *loader = open_loader(dataset, &options);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            run(loader, epoch);
        struct pst_loader_stats stats = stats_of(loader);
        assert_int_equal(stats.n_cache_items, n);
        assert_int_equal(stats.n_cache_hits, 2 * n);
        assert_int_equal(stats.nbytes_cache_hit, 2 * nbytes);
        pst_loader_close(&loader);
        /* Another loader uses the cached items. */
        loader = open_loader(dataset, &options);
        run(loader, 7);
        assert_int_equal(stats_of(loader).n_reads, 0);
        pst_loader_close(&loader);
        pst_cache_close(&cache);
    }
}

/* Once a loader with a cache has read all parts of pages, it writes their checksums to the
 * index. */
static void an_epoch_sums_parts_of_pages(void **state)
{
    (void)state;
    struct pst_error err;
    pst_batch *batch;
    char path[128];
    snprintf(path, sizeof path, "%s/toys/part-0.toy", directory);
    toy_write(path, 0, N_FIRST); /* rewrites a file, so the index is made again without checksums */
    for (int whole = 0; whole < 2; whole++) {
        pst_dataset *opened = open_toys(false);
        for (uint32_t f = 0; f < pst_dataset_n_fields(opened); f++) {
            enum pst_field_type type = pst_dataset_field(opened, f)->type;
            bool is_number = type == PST_FIELD_INT || type == PST_FIELD_FLOAT;
            assert_int_equal(psti_dataset_can_check_field(opened, f), is_number);
        }
        pst_cache *cache = open_cache(64 * MIB);
        /* a field whose items all lie in pages */
        const struct pst_field_output blob = {.name = "blob"};
        struct pst_loader_options options = plain(2);
        options.cache = cache;
        if (!whole) {
            options.fields = &blob;
            options.n_fields = 1;
            options.field_nbytes = sizeof blob;
            options.op_nbytes = sizeof(struct pst_op);
            options.only_listed = true;
        }
        pst_loader *loader = open_loader(opened, &options);
        if (whole) {
            run(loader, 0);
        } else {
            begin_epoch(loader, 0);
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
        }
        pst_loader_close(&loader);
        pst_cache_close(&cache);
        pst_dataset_close(&opened);
    }
    pst_dataset *noted = open_toys(false);
    assert_true(psti_dataset_can_check_bytes(noted));
    assert_ok(psti_dataset_check_index(noted, &err));
    assert_int_equal(unlink(pst_dataset_index_path(noted)), 0);
    pst_dataset *made = open_toys(true);
    for (uint64_t i = 0; i < N; i++)
        for (uint32_t f = 0; f < pst_dataset_n_fields(made); f++) {
            enum pst_field_type type = pst_dataset_field(made, f)->type;
            struct pst_item item, like;
            if (type == PST_FIELD_INT || type == PST_FIELD_FLOAT)
                continue;
            assert_ok(pst_dataset_item(noted, i, f, 0, &item, sizeof item, &err));
            assert_ok(pst_dataset_item(made, i, f, 0, &like, sizeof like, &err));
            assert_int_equal(item.has_checksum, like.has_checksum);
            assert_int_equal(item.checksum, like.checksum);
        }
    pst_dataset_close(&noted);
    pst_dataset_close(&made);
}

/* If the index has checksums, values from other processes are verified and used. */
static void fleets_keep_parts_of_pages_decoded(void **state)
{
    (void)state;
    struct server server;
    char path[96], list[1024];
    uint64_t n, nbytes;
    snprintf(path, sizeof path, "%s/a.sock", directory);
    pst_dataset *summed = open_toys(true);
    count_items(&n, &nbytes);
    start_server(&server, path, 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(list_of(&server, 1, list), 30, 16384);
    struct pst_loader_options options = plain(2);
    options.fleet = fleet;
    pst_loader *loader = open_loader(summed, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        run(loader, epoch);
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.tiers[PST_TIER_FLEET].n_hits, 2 * n);
    assert_int_equal(stats.n_reads, n);
    for (int kind = PST_FALLBACK_FLEET_SERVER; kind <= PST_FALLBACK_FLEET_BUSY; kind++)
        assert_int_equal(stats.fallbacks[kind], 0);
    pst_loader_close(&loader);
    pst_fleet_close(&fleet);
    end_server(&server, SIGKILL);
    pst_dataset_close(&summed);
}

/* A page is altered while the data set is open. */
static void damage_is_told(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_item item;
    uint8_t value[TOY_VALUE_CAP], byte;
    uint64_t hashes[N];
    size_t n = 0;
    char path[128];
    for (int sums = 0; sums < 2; sums++) {
        pst_dataset *opened = open_toys(sums);
        uint32_t blob = (uint32_t)pst_dataset_find_field(opened, "blob");
        /* in a Snappy page only a checksum detects it; Zstandard's header does */
        uint32_t i = sums ? 4 : 7;
        assert_ok(
            pst_dataset_read(opened, i, blob, 0, 0, toy_value(i, TOY_BLOB, value), value, &err));
        assert_ok(pst_dataset_item(opened, i, blob, 0, &item, sizeof item, &err));
        struct pst_loader_options options = plain(2);
        pst_loader *loader = open_loader(opened, &options);
        snprintf(path, sizeof path, "%s/toys/part-0.toy", directory);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        long at = (long)(sums ? item.offset + item.nbytes - 1 - 12 : item.offset);
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fread(&byte, 1, 1, file), 1);
        byte ^= 1;
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fwrite(&byte, 1, 1, file), 1);
        assert_int_equal(fclose(file), 0);
        begin_epoch(loader, 0);
        enum pst_status status = drain_until(loader, NULL, hashes, &n, &err);
        assert_int_equal(status, sums ? PST_ERROR_CHECKSUM : PST_ERROR_CORRUPT);
        assert_non_null(strstr(err.file, "part-0.toy"));
        assert_true(sums ? err.sample == 4 : err.sample >= 5 && err.sample < 10);
        assert_int_equal(err.offset, item.offset);
        pst_loader_close(&loader);
        pst_dataset_close(&opened);
        toy_write(path, 0, N_FIRST);
    }
}

/* The memory for decoding pages counts as host_memory. An item that does not fit is refused. */
static void pages_count_in_host_memory(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_memory_stats before, after;
    struct pst_loader_options options = plain(1);
    uint32_t blob = (uint32_t)pst_dataset_find_field(dataset, "blob");
    assert_true(psti_dataset_max_decoded_nbytes(dataset, blob) > 2000);
    options.host_memory = 16 * MIB;
    pst_loader *loader = open_loader(dataset, &options);
    run(loader, 0);
    pst_memory_stats(&before, sizeof before);
    for (uint64_t epoch = 1; epoch < 4; epoch++)
        run(loader, epoch);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.n_alloc, before.n_alloc); /* nothing was allocated in the steady state */
    pst_loader_close(&loader);
    (void)err;
}

/* A decoded page is kept for the next items in it. After one epoch all pages of a small data set
 * are in memory, and none is read or decoded again. */
static void a_page_is_decoded_once(void **state)
{
    (void)state;
    enum { EPOCHS = 4, N_PAGES = 11 /* pages of both files */ };
    uint64_t n_paged = 0;
    for (uint64_t i = 0; i < N; i++)
        for (uint32_t f = 0; f < 2; f++) {
            struct pst_item item;
            struct pst_error err;
            assert_ok(pst_dataset_item(dataset, i, f, 0, &item, sizeof item, &err));
            n_paged += psti_dataset_item_is_paged(&item);
        }
    assert_true(n_paged > N);
    for (uint32_t workers = 0; workers < 4; workers++) {
        struct pst_loader_options options = plain(workers);
        options.host_memory = 64 * MIB;
        pst_loader *loader = open_loader(dataset, &options);
        run(loader, 0);
        struct pst_loader_stats first = stats_of(loader);
        assert_true(first.n_pages_decoded >= N_PAGES && first.n_page_hits > 0);
        assert_true(first.pages_nbytes > 0 && first.pages_nbytes <= options.host_memory / 4);
        for (uint64_t epoch = 1; epoch < EPOCHS; epoch++)
            run(loader, epoch);
        struct pst_loader_stats stats = stats_of(loader);
        assert_int_equal(stats.n_pages_decoded, first.n_pages_decoded);
        assert_int_equal(stats.n_pages_decoded + stats.n_page_hits, EPOCHS * n_paged);
        assert_int_equal(stats.pages_nbytes, first.pages_nbytes);
        pst_loader_close(&loader);
    }
}

enum { MANY = 600 };

/* Opens a table of MANY rows. */
static pst_dataset *open_many(void)
{
    const struct pst_dataset_options as_it_is = {.struct_size = sizeof as_it_is};
    struct pst_error err;
    pst_dataset *many = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/many.toy", directory);
    toy_write(path, 0, MANY);
    assert_ok(pst_dataset_open(path, &as_it_is, &many, &err));
    return many;
}

/* If not all pages fit into memory, the least recently used one is dropped. */
static void pages_that_do_not_fit_go(void **state)
{
    (void)state;
    uint8_t want[TOY_VALUE_CAP];
    struct pst_error err;
    pst_dataset *many = open_many();
    struct pst_field_output blob = {.name = "blob"};
    struct pst_loader_options options = plain(3);
    options.host_memory = 16 * MIB;
    options.fields = &blob;
    options.n_fields = 1;
    options.field_nbytes = sizeof blob;
    pst_loader *loader = open_loader(many, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint32_t n = 0;
        pst_batch *batch = NULL;
        begin_epoch(loader, epoch);
        for (; pst_loader_next(loader, &batch, &err) == PST_OK; pst_batch_release(batch))
            for (uint32_t row = 0; row < pst_batch_count(batch); row++, n++) {
                struct pst_tensor tensor;
                size_t size = toy_value((uint32_t)pst_batch_index(batch)[row], TOY_BLOB, want);
                assert_ok(pst_batch_row(batch, 0, row, &tensor, sizeof tensor, &err));
                assert_int_equal(tensor.shape[0], size);
                assert_memory_equal(tensor.data, want, size);
            }
        assert_int_equal(n, MANY);
    }
    struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.pages_nbytes > 0 && stats.pages_nbytes <= options.host_memory / 4);
    assert_true(stats.n_page_hits > 0 && stats.n_pages_decoded > 2 * MANY / TOY_PAGE_ROWS);
    assert_true(stats.host_memory_peak <= options.host_memory);
    pst_loader_close(&loader);
    pst_dataset_close(&many);
}

/* A batch fails for lack of memory only after all decoded pages were dropped. */
static void pages_give_way_to_batches(void **state)
{
    (void)state;
    enum { MOST = 20000 };
    static pst_batch *held[MOST];
    struct pst_error err;
    for (uint32_t workers = 0; workers < 3; workers += 2) {
        struct pst_loader_options options = plain(workers);
        options.host_memory = 16 * MIB;
        pst_loader *loader = open_loader(dataset, &options);
        run(loader, 0);
        assert_true(stats_of(loader).pages_nbytes > 0);
        uint32_t n = 0;
        enum pst_status status = PST_END;
        for (uint64_t epoch = 1; status == PST_END && n < MOST; epoch++) {
            begin_epoch(loader, epoch);
            do
                status = pst_loader_next(loader, &held[n], &err);
            while (status == PST_OK && ++n < MOST);
        }
        assert_int_equal(status, PST_ERROR_LIMIT);
        assert_non_null(strstr(err.text, "you hold"));
        assert_int_equal(stats_of(loader).pages_nbytes, 0);
        assert_true(stats_of(loader).host_memory_peak <= options.host_memory);
        while (n > 0)
            pst_batch_release(held[--n]);
        run(loader, 0);
        pst_loader_close(&loader);
    }
}

/* Takes batches and keeps them until host_memory holds no other one, and returns their number. */
static uint32_t take_all(pst_loader *loader, pst_batch **held, uint32_t most, struct pst_error *err)
{
    uint32_t n = 0;
    enum pst_status status = PST_END;
    for (uint64_t epoch = 1; status == PST_END && n < most; epoch++) {
        begin_epoch(loader, epoch);
        do
            status = pst_loader_next(loader, &held[n], err);
        while (status == PST_OK && ++n < most);
    }
    assert_int_equal(status, PST_ERROR_LIMIT);
    return n;
}

/* Rows that are read ahead before their batches have slots point into decoded pages. These pages,
 * too, are dropped before a batch fails for lack of memory. */
static void rows_read_ahead_give_way_to_batches(void **state)
{
    (void)state;
    enum { MOST = 20000 };
    static pst_batch *held[MOST];
    struct pst_error err;
    pst_dataset *many = open_many();
    struct pst_field_output vector = {.name = "vector"};
    struct pst_loader_options options = plain(2);
    options.order = PST_ORDER_PAGES;
    options.page_samples = options.window_pages = 8;
    options.throttle_bytes_per_second = 1e9; /* counts as slow storage: rows are gathered */
    options.fields = &vector;
    options.n_fields = 1;
    options.field_nbytes = sizeof vector;
    options.only_listed = true; /* slots have a fixed size, so claiming one fails */
    for (options.host_memory = 17 * MIB; options.host_memory <= 18 * MIB;
         options.host_memory += MIB / 2) {
        pst_loader *loader = open_loader(many, &options);
        uint32_t n = take_all(loader, held, MOST, &err);
        assert_non_null(strstr(err.text, "you hold"));
        assert_int_equal(stats_of(loader).pages_nbytes, 0);
        assert_true(stats_of(loader).host_memory_peak <= options.host_memory);
        /* The next batch comes as soon as one is released. */
        pst_batch_release(held[--n]);
        assert_ok(pst_loader_next(loader, &held[n++], &err));
        while (n > 0)
            pst_batch_release(held[--n]);
        uint64_t hashes[MANY / BATCH], alone[MANY / BATCH];
        struct pst_loader_options fast = options;
        fast.throttle_bytes_per_second = 0;
        assert_int_equal(run_epoch(loader, 5, hashes), MANY / BATCH);
        assert_int_equal(drain_alone(many, fast, 5, alone), MANY / BATCH);
        assert_memory_equal(hashes, alone, sizeof hashes);
        pst_loader_close(&loader);
    }
    pst_dataset_close(&many);
}

/* Without the decompression library the loader does not open, and the error names the library. */
static void a_missing_library_is_told_at_once(void **state)
{
    (void)state;
    struct pst_error err;
    pst_loader *loader = NULL;
    struct pst_loader_options options = plain(1);
    setenv("PENSTOCK_LIBZSTD", "/nowhere/libzstd.so", 1);
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_UNSUPPORTED);
    unsetenv("PENSTOCK_LIBZSTD");
    assert_null(loader);
    assert_non_null(strstr(err.text, "libzstd"));
}

int main(void)
{
    struct psti_codings *codings = NULL;
    struct pst_error err;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_their_own_bytes),
        cmocka_unit_test(caches_keep_parts_of_pages_decoded),
        cmocka_unit_test(an_epoch_sums_parts_of_pages),
        cmocka_unit_test(fleets_keep_parts_of_pages_decoded),
        cmocka_unit_test(pages_count_in_host_memory),
        cmocka_unit_test(a_page_is_decoded_once),
        cmocka_unit_test(pages_that_do_not_fit_go),
        cmocka_unit_test(pages_give_way_to_batches),
        cmocka_unit_test(rows_read_ahead_give_way_to_batches),
        cmocka_unit_test(a_missing_library_is_told_at_once),
        cmocka_unit_test(damage_is_told),
    };
    if (psti_codings_open(&codings,
                          psti_codings_of(PST_CODING_ZSTD) | psti_codings_of(PST_CODING_LZ4),
                          "test", &err) != PST_OK) {
        printf("%s\n", err.text);
        return 77;
    }
    psti_codings_close(&codings);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
