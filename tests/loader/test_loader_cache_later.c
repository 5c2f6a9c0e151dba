/* test_loader_cache_later.c - tests a cache that admits images as stored and lets idle workers
 * re-code them later: batches are always bit-identical to those without a cache; in the end all
 * items are re-coded, and those that cannot be are counted; the budget holds; closing, resuming,
 * saving and sharing work while items are re-coded. */
#include "../decode/decode_make.h"
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"
#include "sanitizer.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { N_JPEGS = 40, N_PNGS = 8, N = N_JPEGS + N_PNGS, N_REFUSED = 2, MIB = 1 << 20 };

static pst_dataset *folder;

static void write_file(uint32_t i, const char *ending, const struct bytes *bytes)
{
    char path[200];
    snprintf(path, sizeof path, "%s/mixed/%02u.%s", directory, i, ending);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, bytes->nbytes, file), bytes->nbytes);
    assert_int_equal(fclose(file), 0);
}

/* Makes JPEGs of many kinds, two of them with four components, which pli-jpeg does not take, and
 * some PNGs. */
static int set_up(void **state)
{
    (void)state;
    char path[160];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/mixed", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N; i++) {
        static const struct png_spec png = {
            .height = 90, .width = 110, .colour_type = 2, .depth = 8};
        struct jpeg_spec spec = {.height = 90 + 7 * (i % 9),
                                 .width = 100 + 13 * (i % 7),
                                 .colours = i % 20 == 3 ? COLOURS_CMYK : COLOURS_YCC,
                                 .h = i % 20 == 3 ? 1 : (uint8_t)(1 + i % 2),
                                 .v = i % 20 == 3 ? 1 : (uint8_t)(1 + i / 2 % 2),
                                 .quality = (uint8_t)(75 + i % 20),
                                 .progressive = i % 5 == 1,
                                 .orientation = (uint8_t)(i % 9)};
        bool is_png = i % 6 == 5;
        struct bytes bytes = is_png ? make_png(&png, i) : make_jpeg(&spec, i);
        write_file(i, is_png ? "png" : "jpg", &bytes);
        bytes_free(&bytes);
    }
    folder = open_there("mixed");
    return 0;
}

TEAR_DOWN(&folder)

static struct pst_loader_options options_of(pst_cache *cache, enum pst_cache_form form,
                                            enum pst_cache_recode recode)
{
    static struct pst_op ops[2];
    static struct pst_field_output field;
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_RESIZED_CROP);
    ops[0].height = ops[0].width = 48;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    field = (struct pst_field_output){.name = "image", .ops = ops, .n_ops = 2, .channels = 3};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 5,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 11,
                                       .num_workers = 2,
                                       .fields = &field,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES,
                                       .cache = cache,
                                       .cache_form = form,
                                       .cache_recode = recode};
}

static pst_loader *open_idle(pst_cache *cache)
{
    const struct pst_loader_options options =
        options_of(cache, PST_CACHE_FORM_PLI_JPEG, PST_CACHE_RECODE_IDLE);
    return open_loader(folder, &options);
}

static void sleep_ms(long ms)
{
    const struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

/* Waits until the workers have tried to re-code every item in the cache. */
static void wait_for_all(const pst_loader *loader)
{
    while (stats_of(loader).n_cache_to_recode > 0)
        sleep_ms(2);
    /* The last items are still being re-coded, and only the counts say when they are done. */
    for (int i = 0; i < 2000; i++) {
        const struct pst_loader_stats stats = stats_of(loader);
        if (stats.n_cache_recoded + stats.n_cache_not_recoded >= N_JPEGS)
            return;
        sleep_ms(2);
    }
    fail_msg("items are not re-coded");
}

static void wanted_of(uint64_t epoch, uint64_t *hashes)
{
    struct pst_loader_options options = options_of(NULL, PST_CACHE_FORM_STORED, 0);
    drain_alone(folder, options, epoch, hashes);
}

static void compare_epoch(pst_loader *loader, uint64_t epoch)
{
    uint64_t wanted[N], hashes[N];
    wanted_of(epoch, wanted);
    size_t n = run_epoch(loader, epoch, hashes);
    assert_memory_equal(hashes, wanted, n * sizeof *hashes);
}

/* Items are cached as stored and re-coded in the end. Each epoch has the same batches as without a
 * cache. */
static void workers_recode_when_idle(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *loader = open_idle(cache);
    compare_epoch(loader, 0);
    assert_int_equal(stats_of(loader).n_cache_items, N);
    compare_epoch(loader, 1); /* a mix of re-coded and stored items */
    wait_for_all(loader);     /* between epochs */
    compare_epoch(loader, 2);
    const struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.n_cache_recoded, N_JPEGS - N_REFUSED);
    assert_int_equal(stats.n_cache_not_recoded, N_REFUSED);
    assert_int_equal(stats.fallbacks[PST_FALLBACK_CACHE_FORM], N_REFUSED);
    assert_int_equal(stats.n_cache_items, N);
    assert_int_equal(stats.n_cache_hits, 2 * N);
    assert_int_equal(stats.n_reads, N);
    assert_true(stats.nbytes_cache_saved > 0 && stats.cache_recode_ns > 0);
    assert_true(stats.host_memory_peak <= stats.host_memory);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

/* A saved cache contains the re-coded items. A saved cache of stored items is re-coded after it was
 * loaded. */
static void saved_caches_go_on(void **state)
{
    (void)state;
    char path[160];
    struct pst_cache_file_report report;
    struct pst_error err;
    snprintf(path, sizeof path, "%s/later.cache", directory);
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *loader = open_idle(cache);
    compare_epoch(loader, 0);
    /* saves while workers re-code */
    assert_ok(pst_cache_save(cache, path, &report, sizeof report, &err));
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    cache = open_cache(64 * MIB);
    assert_ok(pst_cache_load(cache, path, &report, sizeof report, &err));
    if (report.n_items == 0) { /* items of a plain folder have no checksums */
        pst_cache_close(&cache);
        return;
    }
    loader = open_idle(cache);
    compare_epoch(loader, 1);
    while (stats_of(loader).n_cache_to_recode > 0)
        sleep_ms(2);
    compare_epoch(loader, 2);
    assert_int_equal(stats_of(loader).n_cache_hits, 2 * N);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

/* The cache is too small for all items. It never exceeds its budget, hits are exactly its items,
 * and the memory that re-coding frees admits more of them. */
static void a_full_cache(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(MIB);
    pst_loader *loader = open_idle(cache);
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        uint64_t had = stats_of(loader).n_cache_items, hits = stats_of(loader).n_cache_hits;
        compare_epoch(loader, epoch);
        assert_true(stats_of(loader).n_cache_hits - hits >= had);
        assert_true(use_of(cache).nbytes_used <= MIB);
    }
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

/* Three loaders share the cache: one re-codes items at once, one leaves it to idle workers, and one
 * is closed in the middle of an epoch. */
static void loaders_share_the_cache(void **state)
{
    (void)state;
    struct pst_error err;
    pst_batch *batch;
    pst_cache *cache = open_cache(64 * MIB);
    const struct pst_loader_options now =
        options_of(cache, PST_CACHE_FORM_PLI_JPEG, PST_CACHE_RECODE_AT_ONCE);
    pst_loader *idle = open_idle(cache), *at_once = open_loader(folder, &now);
    pst_loader *other = open_idle(cache);
    begin_epoch(idle, 0);
    begin_epoch(other, 0);
    for (int i = 0; i < 3; i++) {
        assert_ok(pst_loader_next(idle, &batch, &err));
        pst_batch_release(batch);
        assert_ok(pst_loader_next(other, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_close(&other);
    compare_epoch(at_once, 0);
    compare_epoch(idle, 0);
    compare_epoch(at_once, 1);
    while (stats_of(idle).n_cache_to_recode > 0)
        sleep_ms(2);
    compare_epoch(at_once, 2);
    assert_int_equal(stats_of(at_once).n_cache_items, N);
    pst_loader_close(&idle);
    compare_epoch(at_once, 3);
    pst_loader_close(&at_once);
    pst_cache_close(&cache);
}

/* A state is resumed by loaders whose caches hold the same items in other forms. */
static void resumed_states(void **state)
{
    (void)state;
    uint64_t wanted[N], hashes[N];
    struct pst_error err;
    struct pst_loader_state saved;
    pst_batch *batch;
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *loader = open_idle(cache);
    wanted_of(0, wanted);
    begin_epoch(loader, 0);
    for (int i = 0; i < 4; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_state(loader, &saved);
    pst_loader_close(&loader);
    loader = open_idle(cache);
    assert_ok(pst_loader_resume(loader, &saved, &err));
    size_t n = drain_epoch(loader, NULL, hashes);
    assert_memory_equal(hashes, wanted + 4, n * sizeof *hashes);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

/* Several epochs in a row are abandoned after one or two batches. */
static void epochs_that_are_left(void **state)
{
    (void)state;
    struct pst_error err;
    pst_batch *batch;
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *loader = open_idle(cache);
    for (uint64_t epoch = 0; epoch < 30; epoch++) {
        begin_epoch(loader, epoch);
        for (uint64_t i = 0; i < epoch % 3; i++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
        }
    }
    compare_epoch(loader, 30);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

static void fails(const struct pst_loader_options *options, const char *text)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    assert_int_equal(pst_loader_open(folder, options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, text));
}

static void refused_options(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(4 * MIB);
    struct pst_loader_options options =
        options_of(NULL, PST_CACHE_FORM_STORED, PST_CACHE_RECODE_IDLE);
    fails(&options, "it needs a cache");
    options.cache = cache;
    fails(&options, "cache_form is STORED");
    options.cache_form = PST_CACHE_FORM_PLI;
    options.num_workers = 0;
    fails(&options, "num_workers is 0");
    options.num_workers = 2;
    options.cache_resolution = PST_CACHE_RESOLUTION_TRAINING;
    fails(&options, "TRAINING");
    options.cache_resolution = PST_CACHE_RESOLUTION_FULL;
    options.cache_recode = (enum pst_cache_recode)2;
    fails(&options, "cache_recode");
    pst_cache_close(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_recode_when_idle), cmocka_unit_test(saved_caches_go_on),
        cmocka_unit_test(a_full_cache),             cmocka_unit_test(loaders_share_the_cache),
        cmocka_unit_test(resumed_states),           cmocka_unit_test(epochs_that_are_left),
        cmocka_unit_test(refused_options),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
