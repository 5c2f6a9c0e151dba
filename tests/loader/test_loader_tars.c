/* test_loader_tars.c - tests loaders of tars: batches equal those of packed samples; items without
 * a checksum are counted and are not saved; an epoch with a cache adds the checksums to the index,
 * unless a file has changed. */
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"
#include "loader/make_tars.h"
#include "sanitizer.h"

#include "base/fault.h"
#include "dataset/dataset.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 24, MIB = 1 << 20 };

static pst_dataset *packed;

TEAR_DOWN(&packed)

static const char *below(const char *name)
{
    static char paths[4][160];
    static unsigned n;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static int set_up(void **state)
{
    if (directory_set_up(state) != 0)
        return -1;
    setenv("PENSTOCK_CACHE_DIR", below("cache"), 1);
    make_packed(below("packed"), N);
    packed = open_there("packed");
    return 0;
}

/* Makes two new tars without an index. */
static int make_both(void **state)
{
    (void)state;
    remove_tree(below("tars"));
    if (mkdir(below("tars"), 0755) != 0)
        return -1;
    make_tar(below("tars/t-000.tar"), 0, N / 2);
    make_tar(below("tars/t-001.tar"), N / 2, N - N / 2);
    return 0;
}

static pst_dataset *open_with_sums(void)
{
    const struct pst_dataset_options options = {.struct_size = sizeof options, .sums = true};
    struct pst_error err;
    pst_dataset *dataset;
    assert_ok(pst_dataset_open(below("tars"), &options, &dataset, &err));
    return dataset;
}

static struct pst_loader_options crops(struct augmented *kept, uint32_t workers)
{
    struct pst_loader_options options = augmented_options(kept, 24, 24);
    kept->outputs[1] = (struct pst_field_output){.name = "text"};
    options.num_workers = workers;
    options.storage = TEST_TSAN ? PST_STORAGE_THREADS : PST_STORAGE_AUTO;
    return options;
}

static bool has_checksum(const pst_dataset *dataset, const char *field)
{
    struct pst_error err;
    struct pst_item item;
    uint32_t i_field = (uint32_t)pst_dataset_find_field(dataset, field), n = 0;
    for (uint64_t i = 0; i < pst_dataset_count(dataset); i++) {
        assert_ok(pst_dataset_item(dataset, i, i_field, 0, &item, sizeof item, &err));
        n += item.has_checksum;
    }
    assert_true(n == 0 || n == N);
    assert_int_equal(psti_dataset_can_check_field(dataset, i_field), n == N);
    return n == N;
}

static unsigned count_files(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        n += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

static void batches_are_those_of_packed_samples(void **state)
{
    (void)state;
    static const enum pst_storage_kind kinds[] = {PST_STORAGE_AUTO, PST_STORAGE_THREADS,
                                                  PST_STORAGE_MEMORY};
    struct augmented kept;
    uint64_t wanted[N], hashes[N];
    pst_dataset *tars = open_there("tars");
    for (uint32_t i = TEST_TSAN ? 3 : 0; i < 9; i++) {
        struct pst_loader_options options = crops(&kept, i / 3);
        if (TEST_TSAN && kinds[i % 3] == PST_STORAGE_AUTO)
            continue;
        options.storage = kinds[i % 3];
        options.order = i % 2 ? PST_ORDER_PAGES : PST_ORDER_SHUFFLED;
        pst_loader *of_tars = open_loader(tars, &options), *like = open_loader(packed, &options);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            size_t n = run_epoch(like, epoch, wanted);
            assert_int_equal(run_epoch(of_tars, epoch, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
        pst_loader_close(&of_tars);
        pst_loader_close(&like);
    }
    pst_dataset_close(&tars);
}

static uint64_t count_unchecked(pst_dataset *dataset, bool no_verify)
{
    struct augmented kept;
    uint64_t hashes[N];
    struct pst_loader_options options = crops(&kept, 2);
    options.no_verify = no_verify;
    pst_loader *loader = open_loader(dataset, &options);
    run_epoch(loader, 0, hashes);
    run_epoch(loader, 1, hashes);
    uint64_t n = stats_of(loader).n_unchecked;
    pst_loader_close(&loader);
    return n;
}

static void items_without_checksum_are_counted(void **state)
{
    (void)state;
    pst_dataset *tars = open_there("tars");
    /* two items for each sample, in two epochs */
    assert_int_equal(count_unchecked(tars, false), 4 * N);
    pst_dataset_close(&tars);
    tars = open_with_sums();
    assert_int_equal(count_unchecked(tars, false), 0);
    assert_int_equal(count_unchecked(tars, true), 4 * N);
    pst_dataset_close(&tars);
    assert_int_equal(count_unchecked(packed, false), 0);
    assert_int_equal(count_unchecked(packed, true), 4 * N);
    pst_dataset *folder = open_made_folder(directory, "folder", 2, 5);
    struct pst_loader_options options = {
        .struct_size = sizeof options, .batch_size = 10, .num_workers = 1};
    uint64_t hashes[N];
    pst_loader *loader = open_loader(folder, &options);
    run_epoch(loader, 0, hashes);
    assert_int_equal(stats_of(loader).n_unchecked, 10);
    pst_loader_close(&loader);
    pst_dataset_close(&folder);
}

static struct pst_cache_file_report save(pst_cache *cache)
{
    struct pst_cache_file_report report;
    struct pst_error err;
    assert_ok(pst_cache_save(cache, below("saved"), &report, sizeof report, &err));
    return report;
}

/* Runs n_epochs epochs with a cache and checks their batches. */
static void run_cached(pst_dataset *dataset, pst_cache *cache, uint32_t workers, uint64_t n_epochs,
                       struct pst_loader_stats *stats)
{
    struct augmented kept;
    uint64_t wanted[N], hashes[N];
    struct pst_loader_options options = crops(&kept, workers);
    pst_loader *like = open_loader(packed, &options);
    options.cache = cache;
    pst_loader *loader = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < n_epochs; epoch++) {
        size_t n = run_epoch(like, epoch, wanted);
        assert_int_equal(run_epoch(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    }
    *stats = stats_of(loader);
    pst_loader_close(&loader);
    pst_loader_close(&like);
}

static void an_epoch_gives_the_index_checksums(void **state)
{
    (void)state;
    struct pst_loader_stats stats;
    struct pst_cache_file_report report;
    struct pst_error err;
    for (uint32_t workers = 0; workers < 5; workers += 2) {
        make_both(state);
        pst_dataset *first = open_there("tars");
        pst_cache *cache = open_cache(16 * MIB);
        run_cached(first, cache, workers, 2, &stats);
        assert_int_equal(stats.n_cache_hits, 2 * N);
        assert_int_equal(stats.n_unchecked, 4 * N);
        /* The index that is open has no checksums, and the items cached with it are not saved. */
        assert_false(has_checksum(first, "image"));
        report = save(cache);
        assert_int_equal(report.n_items, 0);
        assert_int_equal(report.n_datasets, 0);
        assert_int_equal(report.n_unsaved, 2 * N);
        /* A data set opened now has the checksums. */
        pst_dataset *second = open_there("tars");
        assert_true(has_checksum(second, "image"));
        assert_true(has_checksum(second, "text"));
        assert_true(psti_dataset_can_check_bytes(second));
        assert_ok(psti_dataset_check_index(second, &err));
        assert_int_equal(count_unchecked(second, false), 0);
        assert_int_equal(count_files(below("tars/.penstock")), 1);
        run_cached(second, cache, workers, 2, &stats);
        assert_int_equal(stats.n_cache_hits, 2 * N); /* hits of the second loader's second epoch */
        assert_int_equal(stats.n_unchecked, 0);
        report = save(cache);
        assert_int_equal(report.n_items, 2 * N);
        /* items that the first loader cached without checksums */
        assert_int_equal(report.n_unsaved, 2 * N);
        pst_cache_close(&cache);
        cache = open_cache(16 * MIB);
        assert_ok(pst_cache_load(cache, below("saved"), &report, sizeof report, &err));
        run_cached(second, cache, workers, 1, &stats);
        assert_int_equal(stats.n_cache_hits, 2 * N);
        /* A loader whose index has no checksums does not use the saved items. */
        run_cached(first, cache, workers, 1, &stats);
        assert_int_equal(stats.n_cache_hits, 0);
        pst_cache_close(&cache);
        pst_dataset_close(&first);
        pst_dataset_close(&second);
    }
}

/* A loader of one field writes the checksums of that field, and the next loader those of the
 * rest. */
static void fields_get_theirs_one_by_one(void **state)
{
    (void)state;
    struct pst_error err;
    pst_batch *batch;
    uint64_t hashes[N];
    static const char *const names[] = {"image", "text"};
    for (size_t i = 0; i < 2; i++) {
        struct augmented kept;
        pst_dataset *tars = open_there("tars");
        pst_cache *cache = open_cache(16 * MIB);
        struct pst_loader_options options = crops(&kept, 2);
        if (i == 1)
            kept.outputs[0] = kept.outputs[1];
        options.n_fields = 1;
        options.only_listed = true;
        options.cache = cache;
        assert_int_equal(has_checksum(tars, "image"), i == 1);
        assert_false(has_checksum(tars, "text"));
        pst_loader *loader = open_loader(tars, &options);
        begin_epoch(loader, 0);
        for (int k = 0; k < N / 4; k++) { /* the loader is closed before its epoch has ended */
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
        }
        pst_loader_close(&loader);
        pst_dataset_close(&tars);
        pst_cache_close(&cache);
        tars = open_there("tars");
        assert_true(has_checksum(tars, names[i]));
        assert_int_equal(psti_dataset_can_check_bytes(tars), i == 1);
        /* A loader of only that field can save all that it caches. */
        options.cache = cache = open_cache(16 * MIB);
        loader = open_loader(tars, &options);
        run_epoch(loader, 0, hashes);
        struct pst_cache_file_report report = save(cache);
        assert_int_equal(report.n_items, N);
        assert_int_equal(report.n_unsaved, 0);
        pst_loader_close(&loader);
        pst_dataset_close(&tars);
        pst_cache_close(&cache);
    }
}

/* The checksums belong to the files before the change, so none are written for others. */
static void a_file_that_changed_spoils_nothing(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_error err;
    pst_batch *batch;
    for (int late = 0; late < 2; late++) {
        make_both(state);
        pst_dataset *tars = open_there("tars");
        pst_cache *cache = open_cache(16 * MIB);
        struct pst_loader_options options = crops(&kept, 2);
        options.cache = cache;
        pst_loader *loader = open_loader(tars, &options);
        begin_epoch(loader, 0);
        for (int i = 0; i < N / 4; i++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
        }
        if (late)
            make_tar(below("tars/t-001.tar"), N / 2, N - N / 2);
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
        pst_loader_close(&loader);
        pst_dataset_close(&tars);
        pst_cache_close(&cache);
        tars = open_there("tars");
        assert_int_equal(has_checksum(tars, "image"), !late);
        assert_int_equal(count_files(below("tars/.penstock")), 1);
        pst_dataset_close(&tars);
    }
}

/* A loader without a cache computes no checksums. */
static void without_a_cache_nothing_is_noted(void **state)
{
    (void)state;
    struct augmented kept;
    uint64_t hashes[N];
    pst_dataset *tars = open_there("tars");
    struct pst_loader_options options = crops(&kept, 2);
    pst_loader *loader = open_loader(tars, &options);
    run_epoch(loader, 0, hashes);
    pst_loader_close(&loader);
    pst_dataset_close(&tars);
    tars = open_there("tars");
    assert_false(has_checksum(tars, "image"));
    pst_dataset_close(&tars);
}

/* Each rank reads a part of the samples. Once every rank has read its part, the index gets the
 * checksums: in one epoch, or in two with other numbers of ranks. */
static void ranks_give_the_index_checksums_together(void **state)
{
    struct augmented kept;
    uint64_t hashes[N];
    for (uint32_t other = 0; other < 2; other++) {
        make_both(state);
        for (uint32_t rank = 0; rank < 4; rank++) {
            pst_dataset *tars = open_there("tars");
            assert_false(has_checksum(tars, "image"));
            pst_cache *cache = open_cache(16 * MIB);
            struct pst_loader_options options = crops(&kept, 2);
            /* Either ranks 0 to 3 of 4 run; or rank 0 of 2 dies after its epoch, and then all ranks
             * of 3 run. */
            options.world_size = other == 0 ? 4 : rank == 0 ? 2 : 3;
            options.rank = other == 0 || rank == 0 ? rank : rank - 1;
            options.cache = cache;
            pst_loader *loader = open_loader(tars, &options);
            run_epoch(loader, 0, hashes);
            pst_loader_close(&loader);
            pst_dataset_close(&tars);
            pst_cache_close(&cache);
        }
        pst_dataset *tars = open_there("tars");
        assert_true(has_checksum(tars, "image"));
        assert_int_equal(count_files(below("tars/.penstock")), 1);
        pst_dataset_close(&tars);
    }
}

/* Batches fetched by number may come from another thread than the epoch's, so their checksums are
 * not recorded. */
static void batches_by_number_note_nothing(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_error err;
    uint64_t samples[N];
    pst_batch *batch;
    pst_dataset *tars = open_there("tars");
    pst_cache *cache = open_cache(16 * MIB);
    struct pst_loader_options options = crops(&kept, 1);
    options.cache = cache;
    pst_loader *loader = open_loader(tars, &options);
    for (uint64_t i = 0; i < N; i++)
        samples[i] = i;
    for (uint32_t i = 0; i < N; i += 4) {
        assert_ok(pst_loader_fetch(loader, 0, samples + i, 4, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
    pst_dataset_close(&tars);
    pst_cache_close(&cache);
    tars = open_there("tars");
    assert_false(has_checksum(tars, "image"));
    pst_dataset_close(&tars);
}

/* A fleet is refused until the loader's fields have checksums. The fleet's server is down. */
static void a_fleet_wants_checksums(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_error err;
    uint64_t hashes[N];
    const struct pst_fleet_options down = {
        .struct_size = sizeof down, .servers = below("no.sock"), .timeout_seconds = 0.01};
    pst_fleet *fleet = NULL;
    pst_loader *loader = NULL;
    assert_ok(pst_fleet_open(&down, &fleet, &err));
    pst_dataset *tars = open_there("tars");
    pst_cache *cache = open_cache(16 * MIB);
    struct pst_loader_options options = crops(&kept, 2);
    options.n_fields = 1;
    options.only_listed = true;
    options.cache = cache;
    loader = open_loader(tars, &options); /* a loader with a cache writes the images' checksums */
    run_epoch(loader, 0, hashes);
    pst_loader_close(&loader);
    options.cache = NULL;
    options.fleet = fleet;
    assert_int_equal(pst_loader_open(tars, &options, &loader, &err), PST_ERROR_STATE);
    assert_non_null(strstr(err.text, "--sums"));
    pst_dataset_close(&tars);
    tars = open_there("tars");
    options.only_listed = false; /* the loader now needs texts, which have no checksums */
    assert_int_equal(pst_loader_open(tars, &options, &loader, &err), PST_ERROR_STATE);
    options.only_listed = true;
    loader = open_loader(tars, &options);
    assert_int_equal(run_epoch(loader, 0, hashes), N / 4);
    pst_loader_close(&loader);
    pst_dataset_close(&tars);
    pst_cache_close(&cache);
    pst_fleet_close(&fleet);
}

/* A disk fails at its n-th write: the epoch still ends well, and the index is either the old or the
 * new one. */
static void full_disks_end_no_epoch(void **state)
{
    bool was_good = false;
    struct pst_loader_stats stats;
    for (uint64_t n = 1; !was_good; n++) {
        make_both(state);
        pst_dataset *tars = open_there("tars");
        pst_cache *cache = open_cache(16 * MIB);
        psti_fault_arm(PSTI_FAULT_WRITE, n, false);
        run_cached(tars, cache, 1, 1, &stats);
        was_good = psti_fault_count(PSTI_FAULT_WRITE) < n;
        psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
        pst_dataset_close(&tars);
        pst_cache_close(&cache);
        assert_int_equal(count_files(below("tars/.penstock")), 1);
        tars = open_there("tars");
        if (was_good)
            assert_true(has_checksum(tars, "image"));
        (void)has_checksum(tars, "text");
        pst_dataset_close(&tars);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(batches_are_those_of_packed_samples, make_both),
        cmocka_unit_test_setup(items_without_checksum_are_counted, make_both),
        cmocka_unit_test_setup(an_epoch_gives_the_index_checksums, make_both),
        cmocka_unit_test_setup(fields_get_theirs_one_by_one, make_both),
        cmocka_unit_test_setup(a_file_that_changed_spoils_nothing, make_both),
        cmocka_unit_test_setup(without_a_cache_nothing_is_noted, make_both),
        cmocka_unit_test(ranks_give_the_index_checksums_together),
        cmocka_unit_test_setup(batches_by_number_note_nothing, make_both),
        cmocka_unit_test_setup(a_fleet_wants_checksums, make_both),
        cmocka_unit_test_setup(full_disks_end_no_epoch, make_both),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
