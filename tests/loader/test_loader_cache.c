/* test_loader_cache.c - tests a loader with a cache: its batches equal those of a loader without
 * one, hits are exactly the cached items, storage is read for all other items only, corrupt bytes
 * are never cached, and no reservation is left. */
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"

#include "base/fault.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 64, MIB = 1 << 20 };

static uint64_t item_nbytes(pst_dataset *dataset, uint64_t sample)
{
    struct pst_item item;
    struct pst_error err;
    assert_ok(pst_dataset_item(dataset, sample, 0, 0, &item, sizeof item, &err));
    return item.nbytes;
}

static uint64_t all_nbytes(pst_dataset *dataset, bool as_room)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < pst_dataset_count(dataset); i++) {
        uint64_t nbytes = item_nbytes(dataset, i);
        sum += as_room ? room_of(nbytes) : nbytes;
    }
    return sum;
}

static pst_dataset *open_images(const char *name, bool folder)
{
    const struct make_options made = {.n_samples = N, .images = MAKE_RAW_SAME};
    return folder ? open_made_folder(directory, name, 4, N / 4) : open_made(directory, name, &made);
}

static struct pst_loader_options plain(uint32_t workers, pst_cache *cache)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 8,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = workers,
                                       .cache = cache};
}

static void check_epochs(pst_dataset *dataset, uint32_t workers, enum pst_storage_kind storage,
                         uint64_t percent)
{
    uint64_t hashes[N], wanted[N], all = all_nbytes(dataset, false);
    pst_cache *cache = open_cache(N * 8 + all_nbytes(dataset, true) * percent / 100 + MIB);
    struct pst_loader_options options = plain(workers, NULL);
    options.storage = storage;
    pst_loader *without = open_loader(dataset, &options);
    options.cache = cache;
    pst_loader *loader = open_loader(dataset, &options);
    struct pst_loader_stats before = stats_of(loader);
    uint64_t n_items = 0, nbytes_kept = 0;
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        begin_epoch(without, epoch);
        begin_epoch(loader, epoch);
        size_t n = drain_epoch(without, NULL, wanted);
        assert_int_equal(drain_epoch(loader, NULL, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        struct pst_loader_stats now = stats_of(loader);
        if (epoch == 0) {
            n_items = now.n_cache_items;
            nbytes_kept = now.cache_nbytes_used - N * 8;
            assert_int_equal(now.n_cache_hits, 0);
        }
        assert_int_equal(now.n_cache_items, n_items);
        assert_int_equal(now.n_cache_hits - before.n_cache_hits, epoch ? n_items : 0);
        assert_int_equal(now.n_cache_misses - before.n_cache_misses, epoch ? N - n_items : N);
        assert_int_equal(now.n_reads - before.n_reads, epoch ? N - n_items : N);
        assert_int_equal(now.nbytes_read - before.nbytes_read,
                         all - (now.nbytes_cache_hit - before.nbytes_cache_hit));
        before = now;
    }
    assert_true(n_items > 0 && nbytes_kept <= use_of(cache).nbytes);
    assert_int_equal(use_of(cache).n_items, n_items);
    pst_loader_close(&loader);
    pst_loader_close(&without);
    pst_cache_close(&cache);
}

static void test_hits_are_exact(void **state)
{
    (void)state;
    for (int folder = 0; folder < 2; folder++) {
        pst_dataset *dataset = open_images(folder ? "folder" : "packed", folder);
        for (uint32_t workers = 0; workers < 4; workers += workers ? 2 : 1) {
            check_epochs(dataset, workers, PST_STORAGE_THREADS, 100);
            check_epochs(dataset, workers, PST_STORAGE_AUTO, 100);
        }
        pst_dataset_close(&dataset);
    }
}

/* The cache holds half of the images, which have one size. It fills up completely, whatever the
 * threads do, and holds the first images of the epoch. */
static void test_budget_to_the_item(void **state)
{
    (void)state;
    enum { HEIGHT = 200, WIDTH = 200, NBYTES = HEIGHT * WIDTH * 3, N_FIT = 30, N_ALL = 50 };
    struct pst_error err;
    char path[128];
    snprintf(path, sizeof path, "%s/same", directory);
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    const struct pst_writer_options writer_options = {.struct_size = sizeof writer_options};
    pst_writer *writer;
    assert_ok(pst_writer_open(path, &field, 1, &writer_options, &writer, &err));
    uint8_t *pixels = malloc(NBYTES);
    for (uint32_t i = 0; i < N_ALL; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", i);
        memset(pixels, (int)i, NBYTES);
        const struct pst_value value = {.bytes = pixels,
                                        .nbytes = NBYTES,
                                        .form = PST_FORM_RAW,
                                        .height = HEIGHT,
                                        .width = WIDTH,
                                        .channels = 3,
                                        .bits = 8};
        const struct pst_value *values = &value;
        add_sample(writer, name, &values);
    }
    free(pixels);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *dataset = NULL;
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    for (uint32_t workers = 0; workers < 4; workers++) {
        uint64_t hashes[N_ALL];
        pst_cache *cache = open_cache(N_ALL * 8 + N_FIT * room_of(NBYTES) + room_of(NBYTES) - 16);
        const struct pst_loader_options options = plain(workers, cache);
        pst_loader *loader = open_loader(dataset, &options);
        run_epoch(loader, 0, hashes);
        assert_int_equal(use_of(cache).n_items, N_FIT);
        begin_epoch(loader, 0); /* same order: the first samples are hits, all others misses */
        struct pst_error unused;
        pst_batch *batch = NULL;
        for (uint32_t n = 0; pst_loader_next(loader, &batch, &unused) == PST_OK;) {
            n += 8;
            struct pst_loader_stats stats = stats_of(loader);
            assert_true(stats.n_cache_hits <= N_FIT);
            if (n >= N_FIT)
                assert_int_equal(stats.n_cache_hits, N_FIT);
            pst_batch_release(batch);
        }
        assert_int_equal(use_of(cache).nbytes_used, N_ALL * 8 + N_FIT * room_of(NBYTES));
        pst_loader_close(&loader);
        pst_cache_close(&cache);
    }
    pst_dataset_close(&dataset);
}

/* Several loaders share a cache, and one of them is closed in the middle of an epoch. */
static void test_left_early_and_shared(void **state)
{
    (void)state;
    uint64_t hashes[N];
    pst_dataset *dataset = open_images("shared", false);
    uint64_t whole = N * 8 + all_nbytes(dataset, true);
    pst_cache *cache = open_cache(whole + MIB);
    for (int i = 0; i < 10; i++) {
        const struct pst_loader_options options = plain(2, cache);
        pst_loader *loader = open_loader(dataset, &options);
        pst_batch *batch = NULL;
        struct pst_error err;
        begin_epoch(loader, (uint64_t)i);
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
        if (i % 2)
            begin_epoch(loader, 100); /* begins another epoch, which cancels the reads under way */
        pst_loader_close(&loader);
        struct pst_cache_stats use = use_of(cache);
        assert_true(use.n_items >= 8);
        assert_true(use.nbytes_used < whole || use.n_items == N);
    }
    const struct pst_loader_options options = plain(2, cache);
    pst_loader *loader = open_loader(dataset, &options);
    run_epoch(loader, 0, hashes);
    assert_int_equal(use_of(cache).n_items, N);
    assert_int_equal(use_of(cache).nbytes_used, whole);
    uint64_t n_reads = stats_of(loader).n_reads;
    run_epoch(loader, 1, hashes);
    assert_int_equal(stats_of(loader).n_reads, n_reads);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_dataset_close(&dataset);
}

static void test_bad_bytes_are_not_kept(void **state)
{
    (void)state;
    uint64_t hashes[N];
    pst_dataset *dataset = open_images("spoiled", false);
    spoil_sample(dataset, 17, "image");
    uint64_t whole = N * 8 + all_nbytes(dataset, true);
    pst_cache *cache = open_cache(whole + MIB);
    struct pst_loader_options options = plain(2, cache);
    options.on_error = PST_ON_ERROR_SKIP;
    pst_loader *loader = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        run_epoch(loader, epoch, hashes);
        assert_int_equal(stats_of(loader).n_bad, epoch + 1);
        assert_int_equal(use_of(cache).n_items, N - 1);
        assert_int_equal(use_of(cache).nbytes_used, whole - room_of(item_nbytes(dataset, 17)));
    }
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_dataset_close(&dataset);
}

/* A read that fails gives its reservation in the cache back. */
static void test_failed_reads(void **state)
{
    (void)state;
    uint64_t hashes[N];
    pst_dataset *dataset = open_images("failing", false);
    uint64_t whole = N * 8 + all_nbytes(dataset, true);
    pst_cache *cache = open_cache(whole + MIB);
    struct pst_loader_options options = plain(2, cache);
    options.storage = PST_STORAGE_THREADS;
    pst_loader *loader = open_loader(dataset, &options);
    for (uint64_t at = 1; at < 60; at += 7) {
        size_t n = 0;
        struct pst_error err;
        begin_epoch(loader, 0);
        psti_fault_arm(PSTI_FAULT_READ, at, true);
        drain_until(loader, NULL, hashes, &n, &err);
        psti_fault_arm(PSTI_FAULT_READ, 0, false);
    }
    run_epoch(loader, 0, hashes);
    assert_int_equal(use_of(cache).n_items, N);
    assert_int_equal(use_of(cache).nbytes_used, whole);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_dataset_close(&dataset);
}

/* Finds the first image file below a folder. */
static void first_file(const char *folder, char path[256])
{
    char class_path[200];
    snprintf(class_path, sizeof class_path, "%s", folder);
    for (int depth = 0; depth < 2; depth++) {
        DIR *dir = opendir(depth ? path : class_path);
        const struct dirent *entry = NULL;
        char from[256];
        snprintf(from, sizeof from, "%s", depth ? path : class_path);
        assert_non_null(dir);
        while ((entry = readdir(dir)) && entry->d_name[0] == '.')
            ;
        assert_non_null(entry);
        assert_true(snprintf(path, 256, "%.150s/%.100s", from, entry->d_name) < 256);
        closedir(dir);
    }
}

/* A file of a folder was written again with the same size. The folder then counts as another data
 * set for the cache. */
static void test_changed_folder(void **state)
{
    (void)state;
    uint64_t hashes[N], again[N];
    char path[256], folder[128];
    struct pst_error err;
    pst_cache *cache = open_cache(8 * MIB);
    pst_dataset *dataset = open_images("changing", true);
    snprintf(folder, sizeof folder, "%s/changing", directory);
    const struct pst_loader_options options = plain(2, cache);
    drain_alone(dataset, options, 0, hashes);
    pst_dataset_close(&dataset);
    assert_ok(pst_dataset_open(folder, NULL, &dataset, &err));
    /* the file is unchanged: all reads are hits */
    pst_loader *loader = open_loader(dataset, &options);
    run_epoch(loader, 0, again);
    assert_int_equal(stats_of(loader).n_cache_hits, N);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
    first_file(folder, path);
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    FILE *file = fopen(path, "r+b"); /* rewrites the first byte, so only the times change */
    assert_non_null(file);
    int byte = fgetc(file);
    rewind(file);
    fputc(byte, file);
    fclose(file);
    /* only the file's ctime shows the change */
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_ok(pst_dataset_open(folder, NULL, &dataset, &err));
    loader = open_loader(dataset, &options);
    run_epoch(loader, 0, again);
    assert_int_equal(stats_of(loader).n_cache_hits, 0);
    assert_int_equal(use_of(cache).n_datasets, 2);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
    pst_cache_close(&cache);
}

/* Runs the first epoch with a loaded cache, and compares its hits with the number that the file
 * should give. */
static void check_first_epoch(pst_cache *cache, pst_dataset *dataset, const uint64_t *wanted,
                              uint64_t n_hits)
{
    uint64_t hashes[N];
    const struct pst_loader_options options = plain(2, cache);
    pst_loader *loader = open_loader(dataset, &options);
    size_t n = run_epoch(loader, 0, hashes);
    if (wanted)
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    assert_int_equal(stats_of(loader).n_cache_hits, n_hits);
    assert_int_equal(stats_of(loader).n_reads, N - n_hits);
    pst_loader_close(&loader);
}

/* The items of two data sets are saved and loaded: the first epoch of each reads nothing from
 * storage. A folder in which a file has changed finds none of its saved items. */
static void test_saved(void **state)
{
    (void)state;
    uint64_t wanted[2][N];
    char path[256], image[256], folder[128];
    struct pst_error err;
    struct pst_cache_file_report report;
    snprintf(path, sizeof path, "%s/cache", directory);
    snprintf(folder, sizeof folder, "%s/saved folder", directory);
    pst_cache *cache = open_cache(8 * MIB);
    pst_dataset *datasets[2] = {open_images("saved packed", false),
                                open_images("saved folder", true)};
    for (int i = 0; i < 2; i++) {
        const struct pst_loader_options options = plain(2, cache);
        drain_alone(datasets[i], options, 0, wanted[i]);
    }
    assert_ok(pst_cache_save(cache, path, &report, sizeof report, &err));
    assert_int_equal(report.n_items, 2 * N);
    assert_int_equal(report.n_datasets, 2);
    assert_int_equal(report.nbytes,
                     all_nbytes(datasets[0], false) + all_nbytes(datasets[1], false));
    pst_cache_close(&cache);

    cache = open_cache(8 * MIB);
    assert_ok(pst_cache_load(cache, path, &report, sizeof report, &err));
    assert_int_equal(report.n_items, 2 * N);
    for (int i = 0; i < 2; i++) {
        check_first_epoch(cache, datasets[i], wanted[i], N);
        pst_dataset_close(&datasets[i]);
    }
    pst_cache_close(&cache);

    first_file(folder, image);
    assert_int_equal(utimensat(AT_FDCWD, image, NULL, 0), 0); /* touched */
    cache = open_cache(8 * MIB);
    assert_ok(pst_cache_load(cache, path, &report, sizeof report, &err));
    assert_int_equal(report.n_items, 2 * N);
    assert_ok(pst_dataset_open(folder, NULL, &datasets[1], &err));
    check_first_epoch(cache, datasets[1], NULL, 0);
    pst_dataset_close(&datasets[1]);
    pst_cache_close(&cache);
}

static void test_what_cannot_be(void **state)
{
    (void)state;
    struct pst_error err;
    pst_dataset *dataset = open_images("refused", false);
    pst_cache *cache = open_cache(8 * MIB);
    struct pst_loader_options options = plain(0, cache);
    pst_loader *loader = NULL;
    options.storage = PST_STORAGE_MEMORY;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "cache"));
    assert_int_equal(use_of(cache).n_datasets, 0);
    pst_cache_close(&cache);
    pst_dataset_close(&dataset);
}

/* The caller may close the cache while loaders still use it. */
static void test_closed_while_in_use(void **state)
{
    (void)state;
    uint64_t hashes[N];
    pst_dataset *dataset = open_images("closed", false);
    pst_cache *cache = open_cache(8 * MIB);
    const struct pst_loader_options options = plain(2, cache);
    pst_loader *loader = open_loader(dataset, &options);
    pst_cache_close(&cache);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        run_epoch(loader, epoch, hashes);
    }
    assert_int_equal(stats_of(loader).n_cache_hits, N);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_are_exact),
        cmocka_unit_test(test_budget_to_the_item),
        cmocka_unit_test(test_left_early_and_shared),
        cmocka_unit_test(test_bad_bytes_are_not_kept),
        cmocka_unit_test(test_failed_reads),
        cmocka_unit_test(test_changed_folder),
        cmocka_unit_test(test_saved),
        cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_closed_while_in_use),
    };
    return cmocka_run_group_tests(tests, directory_set_up, directory_tear_down);
}
