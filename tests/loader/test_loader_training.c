/* test_loader_training.c - tests a cache that keeps images at the training size: batches are
 * bit-identical to those without a cache, for all kinds of images, chains, dtypes and forms; items
 * of different chains never mix; what cannot be kept at that size is refused, with the name of the
 * operation. */
#include "../decode/decode_make.h"
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"
#include "sanitizer.h"

#include "base/fault.h"
#include "base/hash.h"
#include "loader/tiers/loader_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_JPEGS = 12, N_PNGS = 9, N = N_JPEGS + N_PNGS, N_SMALL = 2, MIB = 1 << 20, N_MADE = 24 };

static pst_dataset *folder, *packed, *made;

/* The last two images are so small that no operation of the tests makes them smaller. */
static const struct jpeg_spec jpegs[N_JPEGS] = {
    {.height = 197, .width = 231, .colours = COLOURS_YCC, .h = 2, .v = 2},
    {.height = 301, .width = 203, .colours = COLOURS_YCC, .h = 2, .v = 1, .progressive = true},
    {.height = 240, .width = 320, .colours = COLOURS_GRAY, .h = 1, .v = 1},
    {.height = 150, .width = 150, .colours = COLOURS_CMYK, .h = 1, .v = 1},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 3},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 1, .orientation = 5},
    {.height = 201, .width = 333, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 6},
    {.height = 200, .width = 333, .colours = COLOURS_GRAY, .h = 1, .v = 1, .orientation = 8},
    {.height = 450, .width = 640, .colours = COLOURS_YCC, .h = 2, .v = 2, .smooth = true},
    {.height = 700, .width = 500, .colours = COLOURS_YCC, .h = 2, .v = 2, .smooth = true},
    {.height = 40, .width = 40, .colours = COLOURS_YCC, .h = 2, .v = 2},
    {.height = 41, .width = 39, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 6},
};
static const struct png_spec pngs[N_PNGS] = {
    {.height = 180, .width = 190, .colour_type = 2, .depth = 8},
    {.height = 181, .width = 90, .colour_type = 2, .depth = 16},
    {.height = 130, .width = 290, .colour_type = 0, .depth = 8},
    {.height = 180, .width = 290, .colour_type = 0, .depth = 16},
    {.height = 180, .width = 191, .colour_type = 6, .depth = 8},
    {.height = 183, .width = 190, .colour_type = 6, .depth = 16},
    {.height = 180, .width = 150, .colour_type = 4, .depth = 8},
    {.height = 180, .width = 150, .colour_type = 3, .depth = 8, .n_palette = 77},
    {.height = 120, .width = 190, .colour_type = 0, .depth = 1},
};

static void write_file(uint32_t i, const char *ending, struct bytes *bytes)
{
    char path[200];
    snprintf(path, sizeof path, "%s/images/%02u.%s", directory, i, ending);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, bytes->nbytes, file), bytes->nbytes);
    assert_int_equal(fclose(file), 0);
    bytes_free(bytes);
}

static void write_folder(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/images", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N_JPEGS; i++) {
        struct jpeg_spec spec = jpegs[i];
        spec.quality = 90;
        struct bytes jpeg = make_jpeg(&spec, i);
        write_file(i, "jpg", &jpeg);
    }
    for (uint32_t i = 0; i < N_PNGS; i++) {
        struct bytes png = make_png(&pngs[i], i);
        write_file(N_JPEGS + i, "png", &png);
    }
}

/* Packs the folder as pli-jpeg and PLI, each with raw pixels as a second variant. */
static pst_dataset *pack_folder(void)
{
    static const enum pst_form forms[] = {PST_FORM_PLI_JPEG, PST_FORM_RAW};
    const struct pst_pack_options options = {
        .struct_size = sizeof options, .forms = forms, .n_forms = 2};
    struct pst_pack_report report;
    struct pst_error err;
    char source[160], destination[180];
    snprintf(source, sizeof source, "%s/images", directory);
    snprintf(destination, sizeof destination, "%s/images.pst", directory);
    assert_ok(pst_pack(source, destination, &options, &report, sizeof report, &err));
    return open_there("images.pst");
}

static int set_up(void **state)
{
    const struct make_options options = {
        .n_samples = N_MADE, .images = MAKE_MIXED, .all_fields = true};
    (void)state;
    make_directory(directory);
    write_folder();
    folder = open_there("images");
    packed = pack_folder();
    made = open_made(directory, "made.pst", &options);
    return 0;
}

TEAR_DOWN(&folder, &packed, &made)

/* Makes one operation of a chain that is written as letters: r Resize(48), R Resize(70, 50), n
 * Resize(48) nearest, b bicubic Resize(48), c CenterCrop(40), C CenterCrop(96), p Pad 3, q
 * RandomCrop(32), f flip, j jitter, x RandomResizedCrop(32), g Grayscale, N Normalize. */
static void make_op(char letter, struct pst_op *op)
{
    static const char letters[] = "rRnbcCpqfjxgN";
    static const enum pst_op_kind kinds[] = {PST_OP_RESIZE,
                                             PST_OP_RESIZE,
                                             PST_OP_RESIZE,
                                             PST_OP_RESIZE,
                                             PST_OP_CENTER_CROP,
                                             PST_OP_CENTER_CROP,
                                             PST_OP_PAD,
                                             PST_OP_RANDOM_CROP,
                                             PST_OP_HORIZONTAL_FLIP,
                                             PST_OP_COLOR_JITTER,
                                             PST_OP_RANDOM_RESIZED_CROP,
                                             PST_OP_GRAYSCALE,
                                             PST_OP_NORMALIZE};
    pst_op_init(op, sizeof *op, kinds[strchr(letters, letter) - letters]);
    op->height = letter == 'R' ? 70 : letter == 'c' ? 40 : letter == 'C' ? 96 : 48;
    op->width = letter == 'R' ? 50 : op->kind == PST_OP_RESIZE ? 0 : op->height;
    if (letter == 'q' || letter == 'x')
        op->height = op->width = 32;
    if (letter == 'n')
        op->interpolation = PST_INTERPOLATION_NEAREST;
    if (letter == 'b')
        op->interpolation = PST_INTERPOLATION_BICUBIC;
    op->pad_if_needed = letter == 'q';
    for (int i = 0; i < 4 && letter == 'p'; i++) {
        op->pad[i] = 3;
        op->fill[i] = 100 + 10 * (float)i;
    }
    if (letter == 'j') {
        op->brightness[0] = op->contrast[0] = 0.5F;
        op->brightness[1] = op->contrast[1] = 1.5F;
    }
    for (int c = 0; c < 4; c++) {
        op->mean[c] = 0.4F;
        op->std[c] = 0.2F + 0.01F * (float)c;
    }
}

/* One combination of loader settings. */
struct way {
    const char *ops;
    uint32_t workers;
    uint8_t channels, bits;
    enum pst_layout layout;
    enum pst_dtype dtype;
    bool ignore_orientation, any_channels;
    uint64_t host_memory;
};

static pst_loader *open_way(pst_dataset *dataset, const struct way *way, pst_cache *cache,
                            enum pst_cache_form form, enum pst_cache_resolution resolution)
{
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    size_t n_ops = strlen(way->ops);
    for (size_t i = 0; i < n_ops; i++)
        make_op(way->ops[i], &ops[i]);
    const struct pst_field_output field = {
        .name = "image",
        .ops = ops,
        .n_ops = n_ops,
        .channels = way->any_channels ? (uint8_t)PST_CHANNELS_STORED : way->channels,
        .bits = way->bits,
        .layout = way->layout,
        .dtype = way->dtype,
        .ignore_orientation = way->ignore_orientation};
    const struct pst_loader_options options = {.struct_size = sizeof options,
                                               .batch_size = 4,
                                               .order = PST_ORDER_SHUFFLED,
                                               .seed = 11,
                                               .num_workers = way->workers,
                                               .host_memory = way->host_memory,
                                               .storage = PST_STORAGE_THREADS,
                                               .fields = &field,
                                               .n_fields = 1,
                                               TEST_ELEMENT_SIZES,
                                               .cache = cache,
                                               .cache_form = form,
                                               .cache_resolution = resolution};
    return open_loader(dataset, &options);
}

/* Compares two epochs with such a cache and without one. Returns the bytes in the cache. */
static uint64_t compare(pst_dataset *dataset, const struct way *way, enum pst_cache_form form)
{
    uint64_t wanted[N], hashes[N];
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *without =
        open_way(dataset, way, NULL, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_FULL);
    pst_loader *loader = open_way(dataset, way, cache, form, PST_CACHE_RESOLUTION_TRAINING);
    struct pst_loader_stats stats = {0};
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        size_t n = run_epoch(without, epoch, wanted);
        assert_int_equal(run_epoch(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        stats = stats_of(loader);
        assert_int_equal(stats.n_cache_items, N);
        assert_int_equal(stats.n_cache_hits, epoch * N);
        assert_int_equal(stats.n_reads, N);
        assert_int_equal(stats.n_cache_training_hits, epoch * (N - N_SMALL));
        assert_int_equal(stats.n_cache_not_recoded, 0);
        assert_true(stats.n_cache_recoded >= N - N_SMALL);
        assert_true(stats.host_memory_peak <= stats.host_memory);
    }
    pst_loader_close(&loader);
    pst_loader_close(&without);
    pst_cache_close(&cache);
    return stats.cache_nbytes_used;
}

static void batches_are_the_same(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {.ops = "rqf", .workers = 2, .channels = 3},
        {.ops = "rcfN", .layout = PST_LAYOUT_CHW, .dtype = PST_DTYPE_F16, .channels = 3},
        {.ops = "RfjN", .workers = 2, .channels = 3, .layout = PST_LAYOUT_CHW},
        {.ops = "bqjg", .workers = 2, .channels = 3, .ignore_orientation = true},
        {.ops = "nqf", .channels = 1},
        {.ops = "prqf", .workers = 2, .channels = 4, .layout = PST_LAYOUT_CHW},
        {.ops = "rpxf", .channels = 3, .bits = 16},
        {.ops = "Ccrqf", .channels = 3, .dtype = PST_DTYPE_U16},
        {.ops = "prpq", .channels = 3, .dtype = PST_DTYPE_F32},
        {.ops = "rqf", .workers = 2, .any_channels = true, .dtype = PST_DTYPE_F32},
        {.ops = "rR", .workers = 3, .channels = 3, .dtype = PST_DTYPE_BF16},
    };
    static const enum pst_cache_form forms[] = {PST_CACHE_FORM_STORED, PST_CACHE_FORM_RAW,
                                                PST_CACHE_FORM_PLI_FAST, PST_CACHE_FORM_PLI_JPEG};
    for (size_t i = TEST_TSAN ? 9 : 0; i < sizeof ways / sizeof *ways; i++) {
        compare(folder, &ways[i], forms[i % 4]);
        if (!TEST_TSAN)
            compare(packed, &ways[i], forms[(i + 1) % 4]);
    }
}

/* A cached item takes no more bytes than its pixels. */
static void the_size_is_that_of_pixels(void **state)
{
    (void)state;
    static const struct way way = {.ops = "Rf", .workers = 2, .channels = 3};
    uint64_t small = compare(folder, &way, PST_CACHE_FORM_STORED);
    uint64_t raw = compare(folder, &way, PST_CACHE_FORM_RAW);
    assert_true(raw < N * (70 * 50 * 3 + 100) + 8192);
    assert_true(raw > (N - N_SMALL) * 70 * 50 * 3);
    assert_true(small < raw);
}

/* Image, mask, boxes and points follow one chain. The mask is cached at the training size, too. */
static void all_fields_follow(void **state)
{
    struct augmented kept;
    uint64_t wanted[2][N_MADE], hashes[N_MADE];
    (void)state;
    struct pst_loader_options options = augmented_options(&kept, 20, 20);
    struct pst_op first;
    make_op('r', &first);
    first.height = 24;
    struct pst_op ops[] = {first, kept.chain[0], kept.chain[1], kept.chain[2], kept.chain[3]};
    kept.outputs[0].ops = ops;
    kept.outputs[0].n_ops = 5;
    kept.outputs[1].ops = NULL;
    kept.outputs[1].n_ops = 0;
    options.storage = PST_STORAGE_THREADS;
    pst_loader *without = open_loader(made, &options);
    size_t n = run_epoch(without, 0, wanted[0]);
    assert_int_equal(run_epoch(without, 1, wanted[1]), n);
    options.cache = open_cache(64 * MIB);
    options.cache_resolution = PST_CACHE_RESOLUTION_TRAINING;
    for (int form = 0; form <= PST_CACHE_FORM_RAW; form += PST_CACHE_FORM_RAW) {
        options.cache_form = (enum pst_cache_form)form;
        pst_loader *loader = open_loader(made, &options);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            assert_int_equal(run_epoch(loader, epoch, hashes), n);
            assert_memory_equal(hashes, wanted[epoch], n * sizeof *hashes);
        }
        struct pst_loader_stats stats = stats_of(loader);
        assert_true(stats.n_cache_training_hits > N_MADE); /* images and masks */
        assert_int_equal(stats.n_cache_hits, stats.n_cache_misses);
        pst_loader_close(&loader);
    }
    pst_loader_close(&without);
    pst_cache_close(&options.cache);
}

/* Loaders share a cache: chains with the same beginning share items, others have sets of their
 * own. */
static void sets_of_chains(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {.ops = "rqf", .workers = 2, .channels = 3},
        {.ops = "rx", .workers = 2, .channels = 3, .dtype = PST_DTYPE_F32},
        {.ops = "rcq", .workers = 2, .channels = 3},
        {.ops = "bqf", .workers = 2, .channels = 3},
        {.ops = "rqf", .workers = 2, .channels = 1},
        {.ops = "rqf", .workers = 2, .channels = 3, .ignore_orientation = true},
    };
    uint64_t wanted[N], hashes[N];
    pst_cache *cache = open_cache(64 * MIB);
    /* chains that output floats share no set with others */
    uint64_t n_sets[] = {1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        pst_loader *without =
            open_way(folder, &ways[i], NULL, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_FULL);
        for (int again = 0; again < 2; again++) {
            struct way way = ways[i];
            if (again)
                way.layout = PST_LAYOUT_CHW;
            pst_loader *loader =
                open_way(folder, &way, cache, PST_CACHE_FORM_PLI, PST_CACHE_RESOLUTION_TRAINING);
            size_t n = run_epoch(loader, 0, hashes);
            if (!again) {
                assert_int_equal(run_epoch(without, 0, wanted), n);
                assert_memory_equal(hashes, wanted, n * sizeof *hashes);
            }
            assert_int_equal(stats_of(loader).n_cache_hits, again ? N : 0);
            assert_int_equal(use_of(cache).n_datasets, n_sets[i]);
            pst_loader_close(&loader);
        }
        pst_loader_close(&without);
    }
    pst_cache_close(&cache);
}

/* A saved cache gives its items to another cache. An epoch is resumed with them in its middle. */
static void saved_and_resumed(void **state)
{
    (void)state;
    static const struct way way = {.ops = "rqfN", .workers = 2, .channels = 3};
    uint64_t wanted[N], hashes[N];
    char path[100];
    struct pst_error err;
    struct pst_cache_file_report report;
    snprintf(path, sizeof path, "%s/saved", directory);
    pst_cache *cache = open_cache(64 * MIB), *other = open_cache(64 * MIB);
    pst_loader *loader =
        open_way(folder, &way, cache, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_TRAINING);
    run_epoch(loader, 0, hashes);
    assert_ok(pst_cache_save(cache, path, &report, sizeof report, &err));
    assert_int_equal(report.n_items, N);
    assert_ok(pst_cache_load(other, path, &report, sizeof report, &err));
    pst_loader *second =
        open_way(folder, &way, other, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_TRAINING);
    pst_loader *without =
        open_way(folder, &way, NULL, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_FULL);
    size_t n = run_epoch(without, 1, wanted);
    struct pst_loader_state place;
    pst_batch *batch = NULL;
    assert_ok(pst_loader_begin(second, 1, &err));
    assert_ok(pst_loader_next(second, &batch, &err));
    hashes[0] = hash_batch(batch);
    pst_batch_release(batch);
    pst_loader_state(second, &place);
    assert_ok(pst_loader_resume(second, &place, &err));
    assert_int_equal(drain_epoch(second, NULL, hashes + 1), n - 1);
    assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    assert_int_equal(stats_of(second).n_reads, 0);
    pst_loader_close(&loader);
    pst_loader_close(&second);
    pst_loader_close(&without);
    pst_cache_close(&cache);
    pst_cache_close(&other);
}

/* With little memory or a small cache the batches are the same. */
static void little_room(void **state)
{
    (void)state;
    uint64_t wanted[N], hashes[N];
    for (int i = 0; i < 2; i++) {
        const struct way way = {
            .ops = "rqf", .workers = 2, .channels = 3, .host_memory = i ? 0 : 24 * MIB};
        pst_cache *cache = open_cache(i ? MIB : 64 * MIB);
        pst_loader *without =
            open_way(folder, &way, NULL, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_FULL);
        pst_loader *loader =
            open_way(folder, &way, cache, PST_CACHE_FORM_RAW, PST_CACHE_RESOLUTION_TRAINING);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            size_t n = run_epoch(without, epoch, wanted);
            assert_int_equal(run_epoch(loader, epoch, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
        assert_true(stats_of(loader).n_cache_hits > 0);
        assert_true(use_of(cache).nbytes_used <= use_of(cache).nbytes);
        pst_loader_close(&loader);
        pst_loader_close(&without);
        pst_cache_close(&cache);
    }
}

/* Allocations fail while images are resized: no sample is lost and no reservation is left. */
static void no_memory(void **state)
{
    (void)state;
    static const struct way way = {.ops = "rqf", .workers = 0, .channels = 3};
    uint64_t wanted[N], hashes[N], n_not = 0;
    pst_loader *without =
        open_way(folder, &way, NULL, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_FULL);
    size_t n = run_epoch(without, 0, wanted);
    for (uint64_t at = 1; at < 40; at += TEST_SANITIZED ? 13 : 3) {
        pst_cache *cache = open_cache(64 * MIB);
        pst_loader *loader =
            open_way(folder, &way, cache, PST_CACHE_FORM_STORED, PST_CACHE_RESOLUTION_TRAINING);
        struct pst_error err;
        size_t n_done = 0;
        assert_ok(pst_loader_begin(loader, 0, &err));
        psti_fault_arm(PSTI_FAULT_ALLOC, at, false);
        enum pst_status status = drain_until(loader, NULL, hashes, &n_done, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        assert_true(status == PST_END || status == PST_ERROR_MEMORY);
        n_not += stats_of(loader).n_cache_not_recoded;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(run_epoch(loader, 0, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
        assert_int_equal(use_of(cache).n_items, N);
        pst_loader_close(&loader);
        pst_cache_close(&cache);
    }
    assert_true(n_not > 0);
    pst_loader_close(&without);
}

static void fails(pst_dataset *dataset, const char *letters, struct pst_loader_options *options,
                  const char *text)
{
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    struct pst_error err;
    pst_loader *loader = NULL;
    struct pst_field_output field = {.name = "image", .ops = ops, .n_ops = strlen(letters)};
    for (size_t i = 0; i < field.n_ops; i++)
        make_op(letters[i], &ops[i]);
    field.scaled_decode = strstr(text, "scaled_decode") != NULL;
    field.encoded = strstr(text, "decoded") != NULL;
    options->fields = &field;
    options->n_fields = 1;
    assert_int_equal(pst_loader_open(dataset, options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, text));
    assert_null(loader);
}

static void what_cannot_be(void **state)
{
    (void)state;
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         TEST_ELEMENT_SIZES,
                                         .cache_resolution = PST_CACHE_RESOLUTION_TRAINING};
    fails(folder, "rq", &options, "no cache");
    options.cache = open_cache(MIB);
    fails(folder, "xf", &options, "operation 0 (RandomResizedCrop) is in the way");
    fails(folder, "fr", &options, "operation 0 (HorizontalFlip) is in the way");
    fails(folder, "pqf", &options, "operation 1 (RandomCrop) is in the way");
    fails(folder, "jr", &options, "operation 0 (ColorJitter) is in the way");
    fails(folder, "", &options, "no Resize, CenterCrop or Letterbox");
    fails(folder, "p", &options, "no Resize, CenterCrop or Letterbox");
    fails(folder, "rq", &options, "scaled_decode");
    fails(folder, "", &options, "no image is decoded");
    options.placement = PST_PLACEMENT_DEVICE;
    fails(folder, "rq", &options, "GPU");
    options.placement = PST_PLACEMENT_HOST;
    options.cache_resolution = (enum pst_cache_resolution)2;
    fails(folder, "rq", &options, "are possible");
    pst_cache_close(&options.cache);
}

/* A rule is parsed only from the bytes that were printed for it. Forged heads of items are
 * refused. */
static void forged(void **state)
{
    (void)state;
    struct psti_training_field field = {.i_field = 2, .channels = 3, .bits = 8, .n_ops = 2};
    struct psti_training *rule = NULL, *read = NULL;
    uint8_t bytes[PSTI_TRAINING_RULE_MAX], again[PSTI_TRAINING_RULE_MAX];
    struct pst_error err;
    make_op('p', &field.ops[0]);
    make_op('r', &field.ops[1]);
    assert_ok(psti_loader_training_open(PST_CACHE_FORM_PLI, 77, &field, 1, &rule, &err));
    size_t n = psti_loader_training_print(rule, bytes);
    assert_ok(psti_loader_training_parse(bytes, n, rule->key, &read, &err));
    assert_int_equal(psti_loader_training_print(read, again), n);
    assert_memory_equal(again, bytes, n);
    assert_true(read->recode == 77);
    psti_loader_training_close(&read);
    for (size_t i = 0; i < n; i++) { /* altered bytes are refused even with a matching key */
        bytes[i] ^= 0x81;
        uint64_t key = (uint64_t)1 << 63 | (uint64_t)PST_CACHE_FORM_PLI << 56 |
                       (psti_hash64(bytes, n) & (((uint64_t)1 << 56) - 1));
        assert_int_equal(psti_loader_training_parse(bytes, n, rule->key, &read, &err),
                         PST_ERROR_CORRUPT);
        if (psti_loader_training_parse(bytes, n, key, &read, &err) == PST_OK)
            psti_loader_training_close(&read);
        assert_int_equal(psti_loader_training_parse(bytes, i, key, &read, &err), PST_ERROR_CORRUPT);
        bytes[i] ^= 0x81;
    }
    struct {
        uint32_t height, width, whole_height, whole_width;
        uint8_t rest[16];
    } head = {48, 63, 94, 124, {3, 8, 1, 2}}; /* the stored 100 x 130 picture with its padding */
    struct psti_training_picture picture;
    const void *pixels;
    uint64_t nbytes;
    head.width = 48 * 130 / 100;
    const struct psti_training_field *take = &rule->fields[0];
    assert_true(psti_loader_training_take(take, PST_FORM_RAW, &head, sizeof head, &picture, &pixels,
                                          &nbytes));
    assert_int_equal(picture.n_ops, 2);
    assert_int_equal(nbytes, 0);
    for (size_t i = 0; i < sizeof head; i++) {
        if (i == 22) /* any orientation is valid here */
            continue;
        ((uint8_t *)&head)[i] ^= 0x40;
        assert_false(psti_loader_training_take(take, PST_FORM_RAW, &head, sizeof head, &picture,
                                               &pixels, &nbytes));
        ((uint8_t *)&head)[i] ^= 0x40;
    }
    assert_false(psti_loader_training_take(take, PST_FORM_PLI_JPEG, &head, sizeof head, &picture,
                                           &pixels, &nbytes));
    assert_false(psti_loader_training_take(take, PST_FORM_RAW, &head, sizeof head - 1, &picture,
                                           &pixels, &nbytes));
    psti_loader_training_close(&rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_the_same),
        cmocka_unit_test(the_size_is_that_of_pixels),
        cmocka_unit_test(all_fields_follow),
        cmocka_unit_test(sets_of_chains),
        cmocka_unit_test(saved_and_resumed),
        cmocka_unit_test(little_room),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(forged),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
