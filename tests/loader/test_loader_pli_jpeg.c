/* test_loader_pli_jpeg.c - JPEGs kept as PLI give batches that are bit-identical to those of the
 * JPEG files, with all samplings, orientations, sizes, channels, operations and storages, and with
 * bad samples among them. */
#include "../decode/decode_make.h"
#include "loader/loader_fixture.h"
#include "sanitizer.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_MADE = 28, N_SMOOTH = 8, SEED = 7, BROKEN = 13 };

static pst_dataset *folder, *packed, *bad_folder, *bad_packed, *smooth_folder, *smooth;

static const struct jpeg_spec specs[N_MADE] = {
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 1, .v = 1, .quality = 90},
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 2, .v = 1, .quality = 80},
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 75},
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 1, .v = 2, .quality = 60},
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 4, .v = 1, .quality = 95},
    {.height = 240, .width = 320, .colours = COLOURS_GRAY, .h = 1, .v = 1, .quality = 90},
    {.height = 240, .width = 321, .colours = COLOURS_RGB, .h = 1, .v = 1, .quality = 85},
    {.height = 301, .width = 203, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 100},
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
    {.height = 8, .width = 9, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 90},
    {.height = 150, .width = 150, .colours = COLOURS_CMYK, .h = 1, .v = 1, .quality = 90},
    /* The same JPEG with every orientation. The last ones are large enough to be read in part. */
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 1},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 2},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 3},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 4},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 1, .orientation = 5},
    {.height = 200, .width = 333, .colours = COLOURS_GRAY, .h = 1, .v = 1, .orientation = 6},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 1, .v = 2, .orientation = 7},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 8},
    {.height = 900, .width = 1400, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 1},
    {.height = 900, .width = 1400, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 3},
    {.height = 900, .width = 1400, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 6},
    {.height = 900, .width = 1400, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 8},
    {.height = 1400, .width = 900, .colours = COLOURS_GRAY, .h = 1, .v = 1, .orientation = 5},
    {.height = 1400, .width = 900, .colours = COLOURS_YCC, .h = 2, .v = 1, .orientation = 7},
    {.height = 1400, .width = 900, .colours = COLOURS_YCC, .h = 4, .v = 1, .orientation = 2},
    {.height = 1400, .width = 900, .colours = COLOURS_YCC, .h = 1, .v = 2, .orientation = 4},
};

/* Smooth JPEGs with every orientation, with samplings whose chroma is interpolated, and with sides
 * that are no multiples of a block. They are large enough to be read in part. */
static const struct jpeg_spec smooth_specs[N_SMOOTH] = {
    {.height = 901, .width = 1403, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 1},
    {.height = 902, .width = 1401, .colours = COLOURS_YCC, .h = 2, .v = 1, .orientation = 2},
    {.height = 903, .width = 1402, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 3},
    {.height = 905, .width = 1407, .colours = COLOURS_GRAY, .h = 1, .v = 1, .orientation = 4},
    {.height = 901, .width = 1405, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 5},
    {.height = 907, .width = 1403, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 6},
    {.height = 903, .width = 1401, .colours = COLOURS_YCC, .h = 1, .v = 2, .orientation = 7},
    {.height = 905, .width = 1406, .colours = COLOURS_RGB, .h = 1, .v = 1, .orientation = 8},
};

static void write_smooth_jpegs(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/smooth", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N_SMOOTH; i++) {
        struct jpeg_spec spec = smooth_specs[i];
        spec.quality = 96;
        spec.smooth = true;
        struct bytes jpeg = make_jpeg(&spec, i);
        snprintf(path, sizeof path, "%s/smooth/%02u.jpg", directory, i);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(jpeg.data, 1, jpeg.nbytes, file), jpeg.nbytes);
        assert_int_equal(fclose(file), 0);
        bytes_free(&jpeg);
    }
}

static void write_jpegs(const char *name, bool with_broken)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N_MADE; i++) {
        struct jpeg_spec spec = specs[i];
        if (spec.quality == 0)
            spec.quality = 92;
        struct bytes jpeg = make_jpeg(&spec, i);
        snprintf(path, sizeof path, "%s/%s/%02u.jpg", directory, name, i);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        size_t nbytes = with_broken && i == BROKEN ? jpeg.nbytes / 2 : jpeg.nbytes;
        assert_int_equal(fwrite(jpeg.data, 1, nbytes, file), nbytes);
        assert_int_equal(fclose(file), 0);
        bytes_free(&jpeg);
    }
}

/* Packs a folder to a data set of that name beside it. */
static void pack(const char *name, uint64_t n_made, uint64_t n_kept, pst_dataset **from,
                 pst_dataset **to)
{
    static const enum pst_form forms[] = {PST_FORM_PLI_JPEG};
    const struct pst_pack_options options = {
        .struct_size = sizeof options, .forms = forms, .n_forms = 1};
    struct pst_pack_report report;
    struct pst_error err;
    char source[128], destination[160];
    snprintf(source, sizeof source, "%s/%s", directory, name);
    snprintf(destination, sizeof destination, "%s.pst", source);
    assert_ok(pst_pack(source, destination, &options, &report, sizeof report, &err));
    assert_int_equal(report.n_pli_jpeg, n_made - n_kept);
    assert_int_equal(report.n_kept_jpeg, n_kept);
    assert_true(report.pli_jpeg_nbytes < report.jpeg_nbytes);
    assert_ok(pst_dataset_open(source, NULL, from, &err));
    assert_ok(pst_dataset_open(destination, NULL, to, &err));
}

/* One JPEG has four components and cannot be kept as PLI. The folder of bad images also has a
 * broken one. */
static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    write_jpegs("good", false);
    write_jpegs("bad", true);
    write_smooth_jpegs();
    pack("good", N_MADE, 1, &folder, &packed);
    pack("bad", N_MADE, 2, &bad_folder, &bad_packed);
    pack("smooth", N_SMOOTH, 0, &smooth_folder, &smooth);
    return 0;
}

TEAR_DOWN(&folder, &packed, &bad_folder, &bad_packed, &smooth_folder, &smooth)

/* One combination of loader settings. */
struct way {
    enum pst_op_kind crop; /* 0: none */
    uint32_t side;
    bool flips, normalises, ignore_orientation;
    uint8_t channels;
    enum pst_layout layout;
    uint32_t workers;
    enum pst_storage_kind storage;
    enum pst_page_cache page_cache;
    bool scaled;
};

static void open_way(pst_dataset *from, const struct way *way, enum pst_on_error on_error,
                        pst_loader **loader)
{
    struct pst_error err;
    struct pst_op ops[3];
    size_t n_ops = 0;
    if (way->crop != 0) {
        pst_op_init(&ops[n_ops], sizeof ops[n_ops], way->crop);
        ops[n_ops].height = ops[n_ops].width = way->side;
        n_ops++;
    }
    if (way->flips)
        pst_op_init(&ops[n_ops++], sizeof *ops, PST_OP_HORIZONTAL_FLIP);
    if (way->normalises) {
        pst_op_init(&ops[n_ops], sizeof ops[n_ops], PST_OP_NORMALIZE);
        for (int c = 0; c < 3; c++) {
            ops[n_ops].mean[c] = 0.4F + 0.05F * (float)c;
            ops[n_ops].std[c] = 0.2F + 0.01F * (float)c;
        }
        n_ops++;
    }
    const struct pst_field_output field = {.name = "image",
                                           .ops = ops,
                                           .n_ops = n_ops,
                                           .channels = way->channels,
                                           .layout = way->layout,
                                           .ignore_orientation = way->ignore_orientation,
                                           .scaled_decode = way->scaled};
    const struct pst_loader_options options = {.struct_size = sizeof options,
                                               .batch_size = 5,
                                               .order = PST_ORDER_SHUFFLED,
                                               .seed = SEED,
                                               .num_workers = way->workers,
                                               .on_error = on_error,
                                               .storage = way->storage,
                                               .page_cache = way->page_cache,
                                               .fields = &field,
                                               .n_fields = 1,
                                               .field_nbytes = sizeof(struct pst_field_output),
                                               .op_nbytes = sizeof(struct pst_op)};
    assert_ok(pst_loader_open(from, &options, loader, &err));
}

enum {
    EPOCHS_OF_CROPS = TEST_TSAN ? 1 : 2
}; /* threads repeat the same work each epoch, and one takes minutes */

/* Compares the batches of both data sets: some epochs of crops and one of whole images. */
static void compare(pst_dataset *files, pst_dataset *kept, const struct way *way,
                    enum pst_on_error on_error, struct pst_loader_stats *stats)
{
    struct pst_error err;
    pst_loader *a, *b;
    const uint64_t n_epochs = way->crop != 0 ? EPOCHS_OF_CROPS : 1;
    open_way(files, way, on_error, &a);
    open_way(kept, way, on_error, &b);
    for (uint64_t epoch = 0; epoch < n_epochs; epoch++) {
        uint32_t n_rows = 0;
        begin_epoch(a, epoch);
        begin_epoch(b, epoch);
        for (;;) {
            pst_batch *from_files, *from_kept;
            enum pst_status status = pst_loader_next(a, &from_files, &err);
            assert_int_equal(pst_loader_next(b, &from_kept, &err), status);
            if (status == PST_END)
                break;
            assert_ok(status);
            n_rows += pst_batch_count(from_kept);
            assert_int_equal(hash_batch(from_files), hash_batch(from_kept));
            pst_batch_release(from_files);
            pst_batch_release(from_kept);
        }
        assert_int_equal(n_rows, N_MADE - (on_error == PST_ON_ERROR_SKIP));
    }
    assert_int_equal(pst_loader_n_quarantined(a), pst_loader_n_quarantined(b));
    *stats = (struct pst_loader_stats){0};
    for (int i = 0; i < 2000 && stats->n_samples < n_epochs * (N_MADE - 1); i++) {
        pst_loader_stats(b, stats, sizeof *stats);
        usleep(1000);
    }
    pst_loader_close(&a);
    pst_loader_close(&b);
}

/* Returns the mean difference between the levels of a row and the exact ones. */
static double row_difference(const pst_batch *a, const pst_batch *b, uint32_t row)
{
    struct pst_tensor x, y;
    assert_int_equal(pst_batch_row(a, 0, row, &x, sizeof x, NULL), PST_OK);
    assert_int_equal(pst_batch_row(b, 0, row, &y, sizeof y, NULL), PST_OK);
    const uint8_t *p = x.data, *q = y.data;
    int64_t n = x.shape[0] * x.shape[1] * x.shape[2], sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += p[i] > q[i] ? p[i] - q[i] : q[i] - p[i];
    return (double)sum / (double)n;
}

/* Loads one epoch of the smooth images exactly and one scaled, and compares their rows. Returns a
 * hash of the scaled batches. `expected`: whether images must have been scaled. */
static uint64_t compare_scaled(const struct way *exact, const struct way *scaled, bool expected)
{
    struct pst_error err;
    pst_loader *a, *b;
    struct pst_loader_stats stats = {0};
    uint64_t hash = 0;
    open_way(smooth, exact, PST_ON_ERROR_RAISE, &a);
    open_way(smooth, scaled, PST_ON_ERROR_RAISE, &b);
    assert_ok(pst_loader_begin(a, 0, &err));
    assert_ok(pst_loader_begin(b, 0, &err));
    for (;;) {
        pst_batch *one, *other;
        enum pst_status status = pst_loader_next(a, &one, &err);
        assert_int_equal(pst_loader_next(b, &other, &err), status);
        if (status == PST_END)
            break;
        assert_ok(status);
        for (uint32_t row = 0; row < pst_batch_count(one); row++) {
            double gap = row_difference(one, other, row);
            if (gap > 2.5)
                print_error("sample %d: %.2f levels off\n", (int)pst_batch_index(one)[row], gap);
            assert_true(gap <= 2.5);
        }
        hash = hash * 31 + hash_batch(other);
        pst_batch_release(one);
        pst_batch_release(other);
    }
    pst_loader_stats(a, &stats, sizeof stats);
    assert_int_equal(stats.n_scaled, 0);
    pst_loader_stats(b, &stats, sizeof stats);
    if (expected)
        assert_in_range(stats.n_scaled, N_SMOOTH / 2, N_SMOOTH);
    pst_loader_close(&a);
    pst_loader_close(&b);
    return hash;
}

static void batches_are_those_of_the_files(void **state)
{
    static const struct way ways[] = {
        {.channels = 3},
        {.channels = 1, .workers = 2},
        {.channels = 4, .workers = 2, .layout = PST_LAYOUT_CHW},
        {.channels = 3, .workers = 2, .ignore_orientation = true},
        {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 64, .flips = true, .normalises = true},
        {.crop = PST_OP_RANDOM_RESIZED_CROP,
         .side = 224,
         .flips = true,
         .normalises = true,
         .layout = PST_LAYOUT_CHW,
         .workers = 2},
        {.crop = PST_OP_RANDOM_RESIZED_CROP,
         .side = 96,
         .ignore_orientation = true,
         .workers = 2,
         .storage = PST_STORAGE_THREADS},
        {.crop = PST_OP_RANDOM_RESIZED_CROP,
         .side = 96,
         .channels = 1,
         .workers = 2,
         .page_cache = PST_PAGE_CACHE_DIRECT},
        {.crop = PST_OP_RANDOM_RESIZED_CROP,
         .side = 96,
         .workers = 1,
         .storage = PST_STORAGE_MEMORY},
        {.crop = PST_OP_CENTER_CROP, .side = 100, .workers = 2},
    };
    struct pst_loader_stats stats;
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (i % 2 == 1 || all_combinations())
            compare(folder, packed, &ways[i], PST_ON_ERROR_RAISE, &stats);
}

/* Of large images, only the units that a crop touches are read and decoded, for luma and chroma. */
static void crops_read_their_units(void **state)
{
    static const struct way way = {.crop = PST_OP_CENTER_CROP, .side = 200, .workers = 2};
    struct pst_loader_stats stats;
    (void)state;
    compare(folder, packed, &way, PST_ON_ERROR_RAISE, &stats);
    assert_int_equal(stats.n_partial_reads, EPOCHS_OF_CROPS * 8);
    assert_true(stats.n_units_decoded < stats.n_units_whole / 2);
    assert_int_equal(stats.n_fallback_region, 0);
}

static void bad_ones_are_treated_alike(void **state)
{
    static const struct way way = {
        .crop = PST_OP_RANDOM_RESIZED_CROP, .side = 64, .flips = true, .workers = 2};
    struct pst_loader_stats stats;
    (void)state;
    compare(bad_folder, bad_packed, &way, PST_ON_ERROR_SKIP, &stats);
    assert_int_equal(stats.n_bad, EPOCHS_OF_CROPS);
    compare(bad_folder, bad_packed, &way, PST_ON_ERROR_REPLACE, &stats);
    assert_int_equal(stats.n_replaced, EPOCHS_OF_CROPS);
}

/* Smooth pictures that are decoded at a smaller scale differ by a level or two from the exact ones.
 * So no orientation shifts them. The way of reading and the placement make no difference. */
static void scaled_images_are_close(void **state)
{
    static const struct way ways[] = {
        {.scaled = true, .workers = 0},
        {.scaled = true, .workers = 2, .storage = PST_STORAGE_THREADS},
        {.scaled = true, .workers = 2, .page_cache = PST_PAGE_CACHE_DIRECT},
        {.scaled = true, .workers = 1, .storage = PST_STORAGE_MEMORY}};
    (void)state;
    for (uint32_t turned = 0; turned < 2; turned++)
        for (uint32_t side = 40; side <= 300; side += 130) {
            uint64_t first = 0;
            struct way exact = {.crop = PST_OP_RANDOM_RESIZED_CROP,
                                .side = side,
                                .flips = true,
                                .ignore_orientation = turned != 0};
            for (size_t i = 0; i < (all_combinations() ? sizeof ways / sizeof *ways : 2); i++) {
                struct way way = ways[i];
                way.crop = exact.crop;
                way.side = exact.side;
                way.flips = exact.flips;
                way.ignore_orientation = exact.ignore_orientation;
                uint64_t hash = compare_scaled(&exact, &way, side < 300);
                first = i == 0 ? hash : first;
                assert_int_equal(hash, first);
            }
        }
}

/* Images that are not JPEGs, masks, and images that are not made smaller are unchanged by the
 * option. */
static void others_are_not_scaled(void **state)
{
    static const struct way ways[] = {{.channels = 3, .scaled = true},
                                      {.crop = PST_OP_CENTER_CROP, .side = 100, .scaled = true}};
    struct pst_loader_stats stats;
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        compare(folder, packed, &ways[i], PST_ON_ERROR_RAISE, &stats);
        assert_int_equal(stats.n_scaled, 0);
    }
    static const struct way crop = {.crop = PST_OP_RANDOM_RESIZED_CROP, .side = 20, .scaled = true};
    compare(folder, folder, &crop, PST_ON_ERROR_RAISE, &stats);
    assert_int_equal(stats.n_scaled, 0);
}

/* An altered unit in the shard is an error of its sample, even if only parts of the item are
 * read. */
static void altered_units_are_found(void **state)
{
    struct pst_error err;
    struct pst_item item;
    pst_loader *loader;
    pst_batch *batch;
    static const struct way way = {.channels = 3, .workers = 0};
    (void)state;
    assert_ok(pst_dataset_item(packed, 20, 0, 0, &item, sizeof item, &err));
    assert_int_equal(item.form, PST_FORM_PLI_JPEG);
    spoil_sample(packed, 20, "image");
    open_way(packed, &way, PST_ON_ERROR_RAISE, &loader);
    const uint64_t sample = 20;
    assert_int_equal(pst_loader_fetch(loader, 0, &sample, 1, &batch, &err), PST_ERROR_CHECKSUM);
    assert_int_equal(err.sample, 20);
    assert_string_equal(err.codec, "pli-jpeg");
    pst_loader_close(&loader);
    static const struct way crop = {.crop = PST_OP_CENTER_CROP, .side = 850};
    open_way(packed, &crop, PST_ON_ERROR_RAISE, &loader);
    assert_int_equal(pst_loader_fetch(loader, 0, &sample, 1, &batch, &err), PST_ERROR_CHECKSUM);
    pst_loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_those_of_the_files),
        cmocka_unit_test(crops_read_their_units),
        cmocka_unit_test(bad_ones_are_treated_alike),
        cmocka_unit_test(scaled_images_are_close),
        cmocka_unit_test(others_are_not_scaled),
        cmocka_unit_test(altered_units_are_found), /* last, because it damages a file */
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
