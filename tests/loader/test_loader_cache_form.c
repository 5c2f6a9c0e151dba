/* test_loader_cache_form.c - tests a cache that keeps JPEGs as pli-jpeg: batches are bit-identical
 * to those without a cache; more items fit; JPEGs that cannot be re-coded are cached as stored, and
 * counted; loaders that deliver the stored bytes never get re-coded ones. */
#include "../decode/decode_make.h"
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"
#include "sanitizer.h"

#include "base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_JPEGS = 22, N = N_JPEGS + 2, N_REFUSED = 1, MIB = 1 << 20, BROKEN = 3 };

static pst_dataset *folder, *packed;

/* One JPEG has four components, which content 2 of PLI cannot hold. */
static const struct jpeg_spec specs[N_JPEGS] = {
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 1, .v = 1, .quality = 90},
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 2, .v = 1, .quality = 80},
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 75},
    {.height = 301, .width = 203, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 100},
    {.height = 240, .width = 320, .colours = COLOURS_GRAY, .h = 1, .v = 1, .quality = 90},
    {.height = 240, .width = 321, .colours = COLOURS_RGB, .h = 1, .v = 1, .quality = 85},
    {.height = 150, .width = 150, .colours = COLOURS_CMYK, .h = 1, .v = 1, .quality = 90},
    {.height = 301,
     .width = 203,
     .colours = COLOURS_YCC,
     .h = 2,
     .v = 2,
     .quality = 90,
     .progressive = true},
    {.height = 301,
     .width = 203,
     .colours = COLOURS_YCC,
     .h = 2,
     .v = 1,
     .quality = 90,
     .restart = 3},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 1},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 2},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 3},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 4},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 1, .orientation = 5},
    {.height = 200, .width = 333, .colours = COLOURS_GRAY, .h = 1, .v = 1, .orientation = 6},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 1, .v = 2, .orientation = 7},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 8},
    {.height = 450, .width = 640, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 1},
    {.height = 450, .width = 640, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 6},
    {.height = 450, .width = 640, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 8},
    {.height = 700, .width = 500, .colours = COLOURS_YCC, .h = 2, .v = 2, .smooth = true},
    {.height = 500, .width = 700, .colours = COLOURS_YCC, .h = 2, .v = 2, .smooth = true},
};

static void write_file(const char *name, uint32_t i, const char *ending, const struct bytes *bytes,
                       size_t nbytes)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s/%02u.%s", directory, name, i, ending);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
}

/* Writes a folder of the JPEGs, followed by two PNGs. With `with_broken` one JPEG lacks its second
 * half. */
static void write_folder(const char *name, bool with_broken)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N_JPEGS; i++) {
        struct jpeg_spec spec = specs[i];
        if (spec.quality == 0)
            spec.quality = 92;
        struct bytes jpeg = make_jpeg(&spec, i);
        write_file(name, i, "jpg", &jpeg,
                   with_broken && i == BROKEN ? jpeg.nbytes / 2 : jpeg.nbytes);
        bytes_free(&jpeg);
    }
    for (uint32_t i = N_JPEGS; i < N; i++) {
        static const struct png_spec spec = {
            .height = 120, .width = 90, .colour_type = 2, .depth = 8};
        struct bytes png = make_png(&spec, i);
        write_file(name, i, "png", &png, png.nbytes);
        bytes_free(&png);
    }
}

/* Packs the folder. JPEGs are stored as JPEGs. */
static pst_dataset *pack_folder(const char *name)
{
    static const enum pst_form forms[] = {PST_FORM_NONE};
    const struct pst_pack_options options = {
        .struct_size = sizeof options, .forms = forms, .n_forms = 1};
    struct pst_pack_report report;
    struct pst_error err;
    char source[160], destination[180];
    snprintf(source, sizeof source, "%s/%s", directory, name);
    snprintf(destination, sizeof destination, "%s.pst", source);
    assert_ok(pst_pack(source, destination, &options, &report, sizeof report, &err));
    assert_int_equal(report.n_pli_jpeg, 0);
    snprintf(destination, sizeof destination, "%s.pst", name);
    return open_there(destination);
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    write_folder("good", false);
    folder = open_there("good");
    packed = pack_folder("good");
    return 0;
}

TEAR_DOWN(&folder, &packed)

/* One combination of loader settings. */
struct way {
    enum pst_op_kind crop; /* 0: none */
    uint32_t side;
    uint32_t workers;
    uint8_t channels;
    enum pst_layout layout;
    enum pst_dtype dtype;
    bool flips, ignore_orientation, scaled, encoded;
    enum pst_on_error on_error;
    uint64_t host_memory;
};

static pst_loader *open_way(pst_dataset *dataset, const struct way *way, pst_cache *cache,
                            enum pst_cache_form form)
{
    struct pst_op ops[3];
    size_t n_ops = 0;
    if (way->crop != 0) {
        pst_op_init(&ops[n_ops], sizeof ops[n_ops], way->crop);
        ops[n_ops].height = ops[n_ops].width = way->side;
        n_ops++;
    }
    if (way->flips)
        pst_op_init(&ops[n_ops++], sizeof *ops, PST_OP_HORIZONTAL_FLIP);
    if (way->dtype == PST_DTYPE_F16) {
        pst_op_init(&ops[n_ops], sizeof ops[n_ops], PST_OP_NORMALIZE);
        for (int c = 0; c < 3; c++)
            ops[n_ops].std[c] = 0.2F + 0.01F * (float)c;
        n_ops++;
    }
    const struct pst_field_output field = {.name = "image",
                                           .ops = ops,
                                           .n_ops = n_ops,
                                           .channels = way->channels,
                                           .layout = way->layout,
                                           .dtype = way->dtype,
                                           .encoded = way->encoded,
                                           .ignore_orientation = way->ignore_orientation,
                                           .scaled_decode = way->scaled};
    const struct pst_loader_options options = {.struct_size = sizeof options,
                                               .batch_size = 5,
                                               .order = PST_ORDER_SHUFFLED,
                                               .seed = 7,
                                               .num_workers = way->workers,
                                               .host_memory = way->host_memory,
                                               .on_error = way->on_error,
                                               .fields = &field,
                                               .n_fields = 1,
                                               TEST_ELEMENT_SIZES,
                                               .cache = cache,
                                               .cache_form = form};
    return open_loader(dataset, &options);
}

/* Compares three epochs of a loader whose cache holds everything with those of a loader without a
 * cache. */
static void compare(pst_dataset *dataset, const struct way *way)
{
    uint64_t wanted[N], hashes[N];
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *without = open_way(dataset, way, NULL, PST_CACHE_FORM_STORED);
    pst_loader *loader = open_way(dataset, way, cache, PST_CACHE_FORM_PLI_JPEG);
    struct pst_loader_stats stats = {0};
    for (uint64_t epoch = 0; epoch < (TEST_TSAN ? 2 : 3); epoch++) {
        size_t n = run_epoch(without, epoch, wanted);
        assert_int_equal(run_epoch(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        stats = stats_of(loader);
        assert_int_equal(stats.n_cache_items, N);
        assert_int_equal(stats.n_cache_hits, epoch * N);
        assert_int_equal(stats.n_reads, N);
        assert_int_equal(stats.n_cache_recoded, N_JPEGS - N_REFUSED);
        assert_int_equal(stats.n_cache_not_recoded, N_REFUSED);
        assert_int_equal(stats.fallbacks[PST_FALLBACK_CACHE_FORM], N_REFUSED);
        assert_true(stats.nbytes_cache_saved > 0);
        assert_int_equal(stats.n_scaled, 0);
        assert_true(stats.host_memory_peak <= stats.host_memory);
    }
    /* The bytes saved plus the bytes used are the stored bytes, plus 24 to 54 bytes of overhead for
     * each item. */
    uint64_t as_stored = stats.nbytes_cache_saved + stats.cache_nbytes_used;
    assert_true(as_stored >= stats.nbytes_read + N * 24);
    assert_true(as_stored < stats.nbytes_read + N * 54);
    pst_loader_close(&loader);
    pst_loader_close(&without);
    pst_cache_close(&cache);
}

/* Compares two epochs of a loader whose cache keeps images in `form` and holds all of them with
 * those of a loader without a cache. */
static void compare_form(pst_dataset *dataset, const struct way *way, enum pst_cache_form form,
                         uint64_t n_recoded, uint64_t n_not)
{
    uint64_t wanted[N], hashes[N];
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *without = open_way(dataset, way, NULL, PST_CACHE_FORM_STORED);
    pst_loader *loader = open_way(dataset, way, cache, form);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        size_t n = run_epoch(without, epoch, wanted);
        assert_int_equal(run_epoch(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        const struct pst_loader_stats stats = stats_of(loader);
        assert_int_equal(stats.n_cache_items, N);
        assert_int_equal(stats.n_cache_hits, epoch * N);
        assert_int_equal(stats.n_cache_recoded, n_recoded);
        assert_int_equal(stats.n_cache_not_recoded, n_not);
        assert_true(stats.host_memory_peak <= stats.host_memory);
    }
    pst_loader_close(&loader);
    pst_loader_close(&without);
    pst_cache_close(&cache);
}

static void batches_are_the_same(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {.channels = 3},
        {.channels = 1, .workers = 2},
        {.channels = 4, .workers = 2, .layout = PST_LAYOUT_CHW},
        {.channels = 3, .workers = 2, .ignore_orientation = true},
        {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 64, .flips = true},
        {.crop = PST_OP_RANDOM_RESIZED_CROP,
         .side = 224,
         .flips = true,
         .dtype = PST_DTYPE_F16,
         .layout = PST_LAYOUT_CHW,
         .workers = 2},
        {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 96, .ignore_orientation = true, .workers = 3},
        {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 40, .scaled = true, .workers = 2},
        {.crop = PST_OP_CENTER_CROP, .side = 100, .workers = 2},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (TEST_TSAN && ways[i].workers < 2)
            continue; /* only the number of threads matters; one setting takes 15 seconds */
        if (!all_combinations() && i % 3 == 1)
            continue;
        if (i % 2 == 0 || !TEST_TSAN)
            compare(folder, &ways[i]);
        if (i % 2 == 1)
            compare(packed, &ways[i]);
    }
}

/* Returns the bytes of cache that all items take in a form. */
static uint64_t nbytes_of_all(enum pst_cache_form form)
{
    static const struct way way = {.crop = PST_OP_CENTER_CROP, .side = 64};
    uint64_t hashes[N];
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *loader = open_way(folder, &way, cache, form);
    run_epoch(loader, 0, hashes);
    uint64_t nbytes = use_of(cache).nbytes_used;
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    return nbytes;
}

/* Batches are also the same with the cache forms that re-code images other than JPEGs. */
static void all_forms_give_the_same(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {.channels = 3, .workers = 2},
        {.channels = 1},
        {.channels = 4, .workers = 2, .ignore_orientation = true},
        {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 64, .flips = true, .workers = 2},
        {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 40, .scaled = true},
        {.crop = PST_OP_CENTER_CROP, .side = 90, .workers = 2, .ignore_orientation = true},
    };
    for (int form = PST_CACHE_FORM_PLI; form <= PST_CACHE_FORM_RAW; form++)
        for (size_t i = TEST_TSAN ? 3 : 0; i < (TEST_TSAN ? 4 : sizeof ways / sizeof *ways); i++) {
            if (!all_combinations() && (i + (size_t)form) % 3 != 0)
                continue;
            uint64_t n_not = form == PST_CACHE_FORM_RAW ? 0 : N_REFUSED;
            if (form == PST_CACHE_FORM_RAW && ways[i].scaled)
                compare_form(folder, &ways[i], PST_CACHE_FORM_RAW, 0, 0);
            else
                compare_form(i % 2 ? folder : packed, &ways[i], (enum pst_cache_form)form,
                             N - n_not, n_not);
        }
}

/* The cache is too small for the pixels of all images. An image whose pixels do not fit is cached
 * as stored. */
static void pixels_that_find_no_room(void **state)
{
    (void)state;
    static const struct way way = {.channels = 3, .workers = 2};
    uint64_t wanted[N], hashes[N];
    pst_cache *cache = open_cache(2 * MIB);
    pst_loader *without = open_way(folder, &way, NULL, PST_CACHE_FORM_STORED);
    pst_loader *loader = open_way(folder, &way, cache, PST_CACHE_FORM_RAW);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t had = stats_of(loader).n_cache_items, hits = stats_of(loader).n_cache_hits;
        size_t n = run_epoch(without, epoch, wanted);
        assert_int_equal(run_epoch(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        assert_true(stats_of(loader).n_cache_hits >= hits + had);
        assert_true(use_of(cache).nbytes_used <= 2 * MIB);
    }
    const struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.n_cache_recoded > 0);
    assert_true(stats.n_cache_not_recoded > 0);
    assert_true(stats.n_cache_items > stats.n_cache_recoded);
    pst_loader_close(&loader);
    pst_loader_close(&without);
    pst_cache_close(&cache);
}

static void fails(const struct pst_loader_options *options, const char *text)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    assert_int_equal(pst_loader_open(folder, options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, text));
    assert_null(loader);
}

/* The cache admits the samples of the plan and no others, and hits are exactly these samples. */
static void a_plan_admits(void **state)
{
    const struct pst_field_output field = {.name = "image"};
    uint8_t plan[N];
    uint64_t wanted[N], hashes[N], n_planned = 0;
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 5,
                                         .order = PST_ORDER_SHUFFLED,
                                         .num_workers = 2,
                                         .fields = &field,
                                         .n_fields = 1,
                                         TEST_ELEMENT_SIZES};
    (void)state;
    pst_loader *without = open_loader(folder, &options);
    for (int i = 0; i < N; i++)
        n_planned += plan[i] = i % 3 == 1;
    options.cache = open_cache(64 * MIB);
    options.cache_form = PST_CACHE_FORM_PLI;
    options.cache_plan = plan;
    options.n_cache_plan = N;
    pst_loader *loader = open_loader(folder, &options);
    memset(plan, 1, sizeof plan); /* the loader has copied the plan */
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t n = run_epoch(without, epoch, wanted);
        assert_int_equal(run_epoch(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        assert_int_equal(stats_of(loader).n_cache_items, n_planned);
        assert_int_equal(stats_of(loader).n_cache_hits, epoch * n_planned);
        assert_int_equal(stats_of(loader).n_reads, N + epoch * (N - n_planned));
    }
    pst_loader_close(&loader);
    pst_loader_close(&without);
    options.n_cache_plan = N + 1;
    fails(&options, "each sample");
    options.cache_form = PST_CACHE_FORM_STORED;
    pst_cache_close(&options.cache);
    fails(&options, "no cache");
}

/* A cache that just holds all re-coded items holds fewer of the stored ones. An item first
 * reserves its stored length, so some are refused at first. Later epochs admit these, and none
 * is evicted. */
static void more_items_fit(void **state)
{
    (void)state;
    static const struct way way = {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 64, .workers = 2};
    uint64_t wanted[N], hashes[N], n_stored = 0, n_recoded = 0;
    uint64_t stored = nbytes_of_all(PST_CACHE_FORM_STORED);
    uint64_t recoded = nbytes_of_all(PST_CACHE_FORM_PLI_JPEG);
    assert_true(recoded < stored - stored / 10);
    assert_true(recoded > MIB);
    for (int form = 0; form < 2; form++) {
        pst_cache *cache = open_cache(recoded + 1000);
        pst_loader *without = open_way(folder, &way, NULL, PST_CACHE_FORM_STORED);
        pst_loader *loader = open_way(folder, &way, cache, (enum pst_cache_form)form);
        uint64_t n_items = 0;
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            uint64_t n_hits = stats_of(loader).n_cache_hits;
            size_t n = run_epoch(without, epoch, wanted);
            assert_int_equal(run_epoch(loader, epoch, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
            assert_int_equal(stats_of(loader).n_cache_hits - n_hits, n_items);
            assert_true(use_of(cache).n_items >= n_items);
            assert_true(use_of(cache).nbytes_used <= recoded + 1000);
            n_items = use_of(cache).n_items;
        }
        *(form == PST_CACHE_FORM_PLI_JPEG ? &n_recoded : &n_stored) = n_items;
        pst_loader_close(&loader);
        pst_loader_close(&without);
        pst_cache_close(&cache);
    }
    assert_true(n_recoded > n_stored);
}

/* Three loaders share a data set and a cache: one for each form of the cache, and one that delivers
 * the stored bytes. */
static void forms_share_a_cache(void **state)
{
    (void)state;
    static const struct way decoded = {
        .crop = PST_OP_RANDOM_RESIZED_CROP, .side = 64, .workers = 2};
    static const struct way encoded = {.encoded = true, .workers = 2};
    uint64_t pixels[N], bytes[N], hashes[N];
    for (int first = 0; first < 2; first++) {
        pst_cache *cache = open_cache(64 * MIB);
        pst_loader *plain = open_way(packed, &decoded, NULL, PST_CACHE_FORM_STORED);
        pst_loader *plain_bytes = open_way(packed, &encoded, NULL, PST_CACHE_FORM_STORED);
        pst_loader *stored = open_way(packed, &decoded, cache, PST_CACHE_FORM_STORED);
        pst_loader *recoded = open_way(packed, &decoded, cache, PST_CACHE_FORM_PLI_JPEG);
        pst_loader *given = open_way(packed, &encoded, cache, PST_CACHE_FORM_PLI_JPEG);
        pst_loader *order[] = {first ? recoded : stored, first ? stored : recoded};
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            size_t n = run_epoch(plain, epoch, pixels);
            assert_int_equal(run_epoch(plain_bytes, epoch, bytes), n);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(run_epoch(order[i], epoch, hashes), n);
                assert_memory_equal(hashes, pixels, n * sizeof *hashes);
            }
            assert_int_equal(run_epoch(given, epoch, hashes), n);
            assert_memory_equal(hashes, bytes, n * sizeof *hashes);
        }
        assert_int_equal(stats_of(stored).n_cache_recoded, 0);
        assert_int_equal(stats_of(recoded).n_cache_recoded, N_JPEGS - N_REFUSED);
        assert_int_equal(stats_of(given).n_cache_recoded, 0);
        /* both loaders that use stored bytes share their items */
        assert_int_equal(stats_of(given).n_reads, 0);
        assert_int_equal(use_of(cache).n_datasets, 2);
        assert_int_equal(use_of(cache).n_items, 2 * N);
        pst_loader_close(&plain);
        pst_loader_close(&plain_bytes);
        pst_loader_close(&stored);
        pst_loader_close(&recoded);
        pst_loader_close(&given);
        pst_cache_close(&cache);
    }
}

/* An epoch that is abandoned leaves no reservation in the cache, and the next epoch runs
 * normally. */
static void left_early(void **state)
{
    (void)state;
    static const struct way way = {.crop = PST_OP_CENTER_CROP, .side = 64, .workers = 2};
    uint64_t hashes[N], whole = nbytes_of_all(PST_CACHE_FORM_PLI_JPEG);
    pst_cache *cache = open_cache(64 * MIB);
    for (uint64_t i = 0; i < 4; i++) {
        pst_loader *loader = open_way(folder, &way, cache, PST_CACHE_FORM_PLI_JPEG);
        pst_batch *batch = NULL;
        struct pst_error err;
        assert_ok(pst_loader_begin(loader, i, &err));
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
        pst_loader_close(&loader);
    }
    pst_loader *loader = open_way(folder, &way, cache, PST_CACHE_FORM_PLI_JPEG);
    run_epoch(loader, 9, hashes);
    assert_int_equal(use_of(cache).n_items, N);
    assert_int_equal(use_of(cache).nbytes_used, whole);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

/* A truncated JPEG is a bad sample in each epoch, and is never cached. */
static void bad_ones_are_not_kept(void **state)
{
    (void)state;
    static const struct way way = {.channels = 3, .workers = 2, .on_error = PST_ON_ERROR_SKIP};
    uint64_t wanted[N], hashes[N];
    write_folder("bad", true);
    pst_dataset *dataset = open_there("bad");
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *without = open_way(dataset, &way, NULL, PST_CACHE_FORM_STORED);
    pst_loader *loader = open_way(dataset, &way, cache, PST_CACHE_FORM_PLI_JPEG);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        size_t n = run_epoch(without, epoch, wanted);
        assert_int_equal(run_epoch(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        assert_int_equal(stats_of(loader).n_bad, epoch + 1);
        assert_int_equal(use_of(cache).n_items, N - 1);
    }
    pst_loader_close(&loader);
    pst_loader_close(&without);
    pst_cache_close(&cache);
    pst_dataset_close(&dataset);
}

/* With little host_memory, large JPEGs are cached as stored; with none left over, all are. How many
 * does not depend on the threads. */
static void little_memory(void **state)
{
    (void)state;
    static const uint64_t memories[] = {24 * MIB, 192 * MIB, (uint64_t)1024 * MIB};
    uint64_t wanted[N], hashes[N], n_least = N;
    for (size_t i = 0; i < 3; i++) {
        uint64_t n_recoded = 0;
        for (int again = 0; again < (TEST_TSAN ? 1 : all_combinations() ? 3 : 2); again++) {
            const struct way way = {
                .crop = PST_OP_CENTER_CROP, .side = 32, .workers = 2, .host_memory = memories[i]};
            pst_cache *cache = open_cache(64 * MIB);
            pst_loader *without = open_way(folder, &way, NULL, PST_CACHE_FORM_STORED);
            pst_loader *loader = open_way(folder, &way, cache, PST_CACHE_FORM_PLI_JPEG);
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                size_t n = run_epoch(without, epoch, wanted);
                assert_int_equal(run_epoch(loader, epoch, hashes), n);
                assert_memory_equal(hashes, wanted, n * sizeof *hashes);
            }
            struct pst_loader_stats stats = stats_of(loader);
            assert_int_equal(stats.n_cache_hits, N);
            assert_int_equal(stats.n_cache_recoded + stats.n_cache_not_recoded, N_JPEGS);
            assert_true(stats.host_memory_peak <= memories[i]);
            assert_true(again == 0 || stats.n_cache_recoded == n_recoded);
            n_recoded = stats.n_cache_recoded;
            pst_loader_close(&loader);
            pst_loader_close(&without);
            pst_cache_close(&cache);
        }
        n_least = n_recoded < n_least ? n_recoded : n_least;
        if (i == 2)
            assert_int_equal(n_recoded, N_JPEGS - N_REFUSED);
    }
    assert_int_equal(n_least, 0);
}

/* Allocations fail while items are re-coded: no sample is lost and no reservation is left. */
static void no_memory(void **state)
{
    (void)state;
    static const struct way way = {.channels = 3, .workers = 0, .on_error = PST_ON_ERROR_RAISE};
    uint64_t wanted[N], hashes[N];
    uint64_t n_not = 0;
    uint64_t n_rounds = 0;
    for (uint64_t at = 1; at < 60; at += TEST_SANITIZED ? 17 : 6, n_rounds++) {
        pst_cache *cache = open_cache(64 * MIB);
        pst_loader *loader = open_way(folder, &way, cache, PST_CACHE_FORM_PLI_JPEG);
        struct pst_error err;
        size_t n = 0;
        assert_ok(pst_loader_begin(loader, 0, &err));
        psti_fault_arm(PSTI_FAULT_ALLOC, at, false);
        enum pst_status status = drain_until(loader, NULL, hashes, &n, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        assert_true(status == PST_END || status == PST_ERROR_MEMORY);
        n_not += stats_of(loader).n_cache_not_recoded;
        pst_loader *without = open_way(folder, &way, NULL, PST_CACHE_FORM_STORED);
        n = run_epoch(without, 0, wanted);
        assert_int_equal(run_epoch(loader, 0, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        assert_int_equal(run_epoch(loader, 0, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        assert_int_equal(use_of(cache).n_items, N);
        pst_loader_close(&without);
        pst_loader_close(&loader);
        pst_cache_close(&cache);
    }
    /* some allocations failed within the re-coding itself */
    assert_true(n_not > n_rounds * N_REFUSED);
}

static void what_cannot_be(void **state)
{
    (void)state;
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .cache_form = PST_CACHE_FORM_PLI_JPEG};
    fails(&options, "no cache");
    options.cache = open_cache(MIB);
    options.cache_form = (enum pst_cache_form)5;
    fails(&options, "are possible");
    pst_cache_close(&options.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_the_same),
        cmocka_unit_test(all_forms_give_the_same),
        cmocka_unit_test(pixels_that_find_no_room),
        cmocka_unit_test(a_plan_admits),
        cmocka_unit_test(more_items_fit),
        cmocka_unit_test(forms_share_a_cache),
        cmocka_unit_test(left_early),
        cmocka_unit_test(bad_ones_are_not_kept),
        cmocka_unit_test(little_memory),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
