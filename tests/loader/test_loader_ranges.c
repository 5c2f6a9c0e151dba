/* test_loader_ranges.c - of a PLI, only the units of a crop are decoded, and if that saves enough,
 * only their bytes are read. Counters say so, the pixels are those of the whole image for every
 * kind of storage, and corrupt bytes are still detected. */
#include "fuzz/forge_dataset.h"
#include "loader/loader_fixture.h"
#include "pixels.h"
#include "test.h"

#include "augment/augment.h"
#include "base/fault.h"
#include "format/format_dataset.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEIGHT = 1024, WIDTH = 2048, CROP = 768, N_SAMPLES = 3, SEED = 11 };
/* The first round of reads takes the head of a PLI and a little more. */
enum { FIRST_ROUND_MAX = 16 << 10 };

static pst_dataset *dataset;   /* fields image and mask, each stored as PLI and as raw pixels */
static uint64_t n_units_whole; /* number of units of all images and masks */

static void fill_noise(uint8_t *to, size_t n, uint64_t state)
{
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        to[i] = (uint8_t)(state >> 56);
    }
}

static uint8_t *encode(uint8_t *pixels, uint32_t height, uint32_t width, uint8_t channels,
                       bool no_checksum, size_t *nbytes)
{
    struct pst_error err;
    const struct pst_pixels image = test_pixels(pixels, height, width, channels, 8);
    const struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                   .tier = PST_PLI_TIER_FAST,
                                                   .effort = 1,
                                                   .no_checksum = no_checksum};
    size_t bound = pst_pli_encode_bound(height, width, channels, 8);
    uint8_t *bytes = malloc(bound);
    assert_non_null(bytes);
    assert_ok(pst_pli_encode(&image, &options, bytes, bound, nbytes, &err));
    return bytes;
}

/* Fills in the variants of a value: values[0] is PLI, values[1] is raw. */
static void make_values(struct pst_value values[2], uint8_t *pixels, uint8_t channels,
                        bool no_checksum)
{
    struct pst_error err;
    struct pst_pli_info info = {0};
    memset(values, 0, 2 * sizeof *values);
    values[0].form = PST_FORM_PLI;
    values[0].bytes = encode(pixels, HEIGHT, WIDTH, channels, no_checksum, &values[0].nbytes);
    assert_ok(pst_pli_info(values[0].bytes, values[0].nbytes, &info, sizeof info, &err));
    n_units_whole = (uint64_t)info.unit_rows * info.unit_columns;
    /* otherwise the writer takes the checksum from the PLI */
    values[0].has_pixel_checksum = channels == 1;
    values[0].pixel_checksum = info.pixel_checksum;
    values[1] = (struct pst_value){.bytes = pixels,
                                   .nbytes = (size_t)HEIGHT * WIDTH * channels,
                                   .form = PST_FORM_RAW,
                                   .height = HEIGHT,
                                   .width = WIDTH,
                                   .channels = channels,
                                   .bits = 8};
}

static void make(const char *name, uint32_t n_samples, bool no_checksum, pst_dataset **out)
{
    struct pst_error err;
    struct pst_field fields[2] = {{.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 2},
                                  {.name = "mask", .type = PST_FIELD_MASK, .n_variants = 2}};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    pst_writer *writer;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_writer_open(path, fields, 2, &options, &writer, &err));
    uint8_t *image = malloc((size_t)HEIGHT * WIDTH * 3), *mask = malloc((size_t)HEIGHT * WIDTH);
    for (uint32_t i = 0; i < n_samples; i++) {
        struct pst_value values[2][2];
        const struct pst_value *lists[2] = {values[0], values[1]};
        char sample_name[16];
        fill_noise(image, (size_t)HEIGHT * WIDTH * 3, i);
        fill_noise(mask, (size_t)HEIGHT * WIDTH, 100 + i);
        make_values(values[0], image, 3, no_checksum);
        make_values(values[1], mask, 1, no_checksum);
        snprintf(sample_name, sizeof sample_name, "s%u", i);
        add_sample(writer, sample_name, lists);
        free((void *)(uintptr_t)values[0][0].bytes);
        free((void *)(uintptr_t)values[1][0].bytes);
    }
    free(image);
    free(mask);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, out, &err));
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    make("data", N_SAMPLES, false, &dataset);
    return 0;
}

TEAR_DOWN(&dataset)

struct way {
    enum pst_storage_kind storage;
    uint32_t workers;
    enum pst_page_cache page_cache;
    double latency;
    bool no_verify;
    uint32_t crop;         /* side of the crop; 0: whole images */
    enum pst_op_kind kind; /* 0: RANDOM_CROP */
    enum pst_order order;
};

static void make_op(struct pst_op *op, enum pst_op_kind kind, uint32_t crop)
{
    pst_op_init(op, sizeof *op, kind ? kind : PST_OP_RANDOM_CROP);
    op->height = op->width = crop;
}

/* Opens a loader of one variant of both fields. Both are cropped by the same draw. */
static enum pst_status open_way(pst_dataset *from, const struct way *way, uint8_t variant,
                                   pst_loader **loader, struct pst_error *err)
{
    struct pst_op op;
    make_op(&op, way->kind, way->crop);
    op.interpolation = PST_INTERPOLATION_NEAREST; /* masks allow no other interpolation */
    const struct pst_field_output fields[2] = {
        {.name = "image", .ops = &op, .n_ops = way->crop != 0, .variant_mask = 1u << variant},
        {.name = "mask", .ops = &op, .n_ops = way->crop != 0, .variant_mask = 1u << variant}};
    const struct pst_loader_options options = {.struct_size = sizeof options,
                                               .batch_size = 2,
                                               .order = way->order,
                                               .seed = SEED,
                                               .num_workers = way->workers,
                                               .io_threads = 2,
                                               .storage = way->storage,
                                               .page_cache = way->page_cache,
                                               .throttle_latency_seconds = way->latency,
                                               .no_verify = way->no_verify,
                                               .fields = fields,
                                               .n_fields = 2,
                                               TEST_ELEMENT_SIZES};
    return pst_loader_open(from, &options, loader, err);
}

/* Returns the region of a sample's crop that the operations draw. */
static struct pst_pli_region region_of(uint64_t epoch, uint64_t sample, uint32_t crop,
                                       enum pst_op_kind kind)
{
    struct pst_error err;
    struct pst_op op;
    struct psti_chain *chain;
    struct psti_draw draw;
    const struct psti_chain_output output = {.channels = 3, .bits = 8};
    make_op(&op, kind, crop);
    op.interpolation = PST_INTERPOLATION_NEAREST;
    assert_ok(psti_augment_chain_compile(&op, 1, &output, &chain, &err));
    assert_ok(psti_augment_chain_draw(
        chain, &(struct psti_draw_key){.seed = SEED, .epoch = epoch, .sample = sample}, HEIGHT,
        WIDTH, &draw, &err));
    psti_augment_chain_free(&chain);
    return (struct pst_pli_region){draw.region_y, draw.region_x, draw.region_height,
                                   draw.region_width};
}

/* Number of units that the crops touch and their bytes, summed over both fields of all samples; and
 * the same for whole images. */
struct expected {
    uint64_t n_units, n_units_whole, nbytes, nbytes_whole;
};

static void add_expected(const struct way *way, uint64_t epoch, uint64_t sample, uint32_t i_field,
                         struct expected *e)
{
    struct pst_error err;
    struct pst_item item;
    struct pst_pli_info info = {0};
    struct pst_pli_range ranges[64];
    size_t n;
    assert_ok(pst_dataset_item(dataset, sample, i_field, 0, &item, sizeof item, &err));
    uint8_t *bytes = malloc(item.nbytes);
    assert_ok(pst_dataset_read(dataset, sample, i_field, 0, 0, item.nbytes, bytes, &err));
    assert_ok(pst_pli_info(bytes, item.nbytes, &info, sizeof info, &err));
    struct pst_pli_region r = region_of(epoch, sample, way->crop, way->kind);
    uint32_t edge = info.unit_edge;
    e->n_units += (uint64_t)((r.y + r.height - 1) / edge - r.y / edge + 1) *
                  ((r.x + r.width - 1) / edge - r.x / edge + 1);
    e->n_units_whole += (uint64_t)info.unit_rows * info.unit_columns;
    assert_ok(pst_pli_ranges(bytes, item.nbytes, &r, ranges, 64, &n, &err));
    assert_in_range(n, 1, 64);
    for (size_t i = 0; i < n; i++)
        e->nbytes += ranges[i].nbytes;
    e->nbytes_whole += item.nbytes;
    free(bytes);
}

static void read_epoch(pst_loader *loader, uint64_t epoch, uint64_t hashes[2])
{
    struct pst_error err;
    pst_batch *batch;
    assert_ok(pst_loader_begin(loader, epoch, &err));
    for (int i = 0; i < 2; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        hashes[i] = hash_batch(batch);
        pst_batch_release(batch);
    }
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
}

/* Returns the loader's counters. A worker may count a little after its last row is done, so the
 * function waits until the units of `n_images` are counted. */
static struct pst_loader_stats stats_counted(const pst_loader *loader, uint64_t n_images)
{
    struct pst_loader_stats stats = {0};
    for (int i = 0; i < 10000; i++) {
        pst_loader_stats(loader, &stats, sizeof stats);
        if (stats.n_units_whole >= n_images * n_units_whole)
            break;
        usleep(1000);
    }
    return stats;
}

/* Compares an epoch read from PLI with one read from raw pixels. Returns the loader's counters. */
static struct pst_loader_stats compare(const struct way *way, uint64_t epoch)
{
    struct pst_error err;
    pst_loader *pli, *raw;
    uint64_t by_pli[2], by_raw[2];
    assert_ok(open_way(dataset, way, 0, &pli, &err));
    assert_ok(open_way(dataset, way, 1, &raw, &err));
    /* with storage MEMORY everything is read at open */
    struct pst_loader_stats before = stats_counted(pli, 0);
    read_epoch(pli, epoch, by_pli);
    read_epoch(raw, epoch, by_raw);
    assert_memory_equal(by_pli, by_raw, sizeof by_pli);
    struct pst_loader_stats after = stats_counted(pli, 2 * N_SAMPLES);
    after.nbytes_read -= before.nbytes_read;
    after.n_reads -= before.n_reads;
    assert_int_equal(after.n_fallback_region, 0);
    assert_int_equal(stats_counted(raw, 0).n_units_decoded, 0);
    pst_loader_close(&pli);
    pst_loader_close(&raw);
    return after;
}

static void crops_decode_and_read_their_units_only(void **state)
{
    static const struct way ways[] = {
        {PST_STORAGE_THREADS, 0, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0},
        {PST_STORAGE_THREADS, 2, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0},
        {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0},
        {PST_STORAGE_AUTO, 1, PST_PAGE_CACHE_DROP, 0, true, CROP, 0, 0},
        {PST_STORAGE_THREADS, 2, PST_PAGE_CACHE_KEEP, 0.001, false, CROP, 0, 0},
        {PST_STORAGE_THREADS, 0, PST_PAGE_CACHE_KEEP, 0.001, false, CROP, 0, 0},
        {PST_STORAGE_MEMORY, 2, PST_PAGE_CACHE_KEEP, 0.001, false, CROP, 0, 0},
        {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, 100, 0, 0},
    };
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct expected e = {0};
        uint64_t epoch = w % 3;
        for (uint64_t sample = 0; sample < N_SAMPLES; sample++)
            for (uint32_t f = 0; f < 2; f++)
                add_expected(&ways[w], epoch, sample, f, &e);
        /* The last batch has no padding, because three samples make batches of two and one. */
        struct pst_loader_stats stats = compare(&ways[w], epoch);
        assert_int_equal(stats.n_units_decoded, e.n_units);
        assert_int_equal(stats.n_units_whole, e.n_units_whole);
        assert_true(e.n_units < e.n_units_whole / 2);
        assert_int_equal(stats.n_partial_reads, 2 * N_SAMPLES);
        assert_in_range(stats.nbytes_read, e.nbytes, e.nbytes + 2 * N_SAMPLES * FIRST_ROUND_MAX);
        assert_true(stats.nbytes_read < e.nbytes_whole / 2);
        assert_in_range(stats.n_reads, 2 * 2 * N_SAMPLES, 2 * N_SAMPLES * 17);
    }
}

/* Crops of any size from a twelfth of the image on, and centre crops. */
static void other_crops_too(void **state)
{
    static const enum pst_op_kind kinds[] = {PST_OP_RANDOM_RESIZED_CROP, PST_OP_CENTER_CROP};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct way way = {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, 224, kinds[k], 0};
        uint64_t n_partial = 0;
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            struct expected e = {0};
            for (uint64_t sample = 0; sample < N_SAMPLES; sample++)
                for (uint32_t f = 0; f < 2; f++)
                    add_expected(&way, epoch, sample, f, &e);
            struct pst_loader_stats stats = compare(&way, epoch);
            assert_int_equal(stats.n_units_decoded, e.n_units);
            assert_int_equal(stats.n_units_whole, e.n_units_whole);
            n_partial += stats.n_partial_reads;
        }
        /* The image is twice as wide as high, so no region has more than two thirds of it. */
        assert_int_equal(n_partial, 3 * 2 * N_SAMPLES);
    }
}

/* O_DIRECT reads whole blocks, so more bytes are read, and they must land at the right place in
 * memory. */
static void blocks_find_their_place(void **state)
{
    const struct way way = {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_DIRECT, 0, false, CROP, 0, 0};
    (void)state;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        struct pst_loader_stats stats = compare(&way, epoch);
        assert_int_equal(stats.n_partial_reads, 2 * N_SAMPLES);
        assert_true(stats.n_units_decoded < stats.n_units_whole / 2);
    }
}

/* Items in memory are not read again, and whole images are read in one request. */
static void nothing_is_split_in_vain(void **state)
{
    const struct way memory = {PST_STORAGE_MEMORY, 2, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0};
    const struct way whole = {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, 0, 0, 0};
    const struct way most = {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, 1000, 0, 0};
    (void)state;
    struct pst_loader_stats stats = compare(&memory, 0);
    assert_int_equal(stats.n_partial_reads, 0);
    assert_true(stats.n_units_decoded < stats.n_units_whole / 2);
    stats = compare(&whole, 0);
    assert_int_equal(stats.n_partial_reads, 0);
    assert_int_equal(stats.n_units_decoded, stats.n_units_whole);
    assert_int_equal(stats.n_reads, 2 * N_SAMPLES);
    struct pst_pli_region r = region_of(0, 0, 1000, 0);
    assert_true(r.height == 1000);
    stats = compare(&most, 0); /* each row needs about half of its bytes: 51 % are skipped */
    assert_int_equal(stats.n_partial_reads, 2 * N_SAMPLES);
}

/* In page order neighbouring samples share a request, and reading in parts needs a second request.
 * If requests take long, skipping must save more than the bytes that could be read in that time,
 * here 1 MiB. */
static void no_parts_where_requests_cost_more(void **state)
{
    const struct way slow = {PST_STORAGE_THREADS, 2, PST_PAGE_CACHE_KEEP, 0.001, false, 1000, 0,
                             PST_ORDER_PAGES};
    const struct way fast = {PST_STORAGE_THREADS, 2, PST_PAGE_CACHE_KEEP, 0, false, 1000, 0,
                             PST_ORDER_PAGES};
    uint64_t n_worth = 0;
    (void)state;
    for (uint64_t sample = 0; sample < N_SAMPLES; sample++) {
        for (uint32_t f = 0; f < 2; f++) {
            struct expected e = {0};
            add_expected(&slow, 0, sample, f, &e);
            n_worth += e.nbytes_whole - e.nbytes > (uint64_t)1 << 20;
        }
    }
    assert_int_equal(n_worth, N_SAMPLES); /* partial reads pay for all images, but for no masks */
    struct pst_loader_stats stats = compare(&slow, 0);
    assert_int_equal(stats.n_partial_reads, n_worth);
    stats = compare(&fast, 0);
    assert_int_equal(stats.n_partial_reads, 2 * N_SAMPLES);
}

/* A sample that is drawn several times needs another region each time. If the partial read and the
 * decoder used different draws, its rows would fail with an internal error. */
static void each_draw_reads_its_own_region(void **state)
{
    enum { N = 6 };
    (void)state;
    struct pst_error err;
    struct pst_op op;
    make_op(&op, PST_OP_RANDOM_CROP, CROP);
    op.interpolation = PST_INTERPOLATION_NEAREST;
    const uint64_t indices[N] = {0, 0, 0, 1, 1, 0};
    const struct pst_field_output fields[2] = {{.name = "image", .ops = &op, .n_ops = 1},
                                               {.name = "mask", .ops = &op, .n_ops = 1}};
    for (uint32_t workers = 0; workers < 3; workers += 2) {
        const struct pst_loader_options options = {.struct_size = sizeof options,
                                                   .seed = SEED,
                                                   .num_workers = workers,
                                                   .fields = fields,
                                                   .n_fields = 2,
                                                   TEST_ELEMENT_SIZES,
                                                   .indices = indices,
                                                   .n_indices = N};
        pst_loader *loader;
        pst_batch *batch;
        uint64_t hashes[N];
        assert_ok(pst_loader_open(dataset, &options, &loader, &err));
        assert_ok(pst_loader_begin(loader, 0, &err));
        for (size_t i = 0; i < N; i++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            hashes[i] = hash_batch(batch);
            pst_batch_release(batch);
            for (size_t k = 0; k < i; k++)
                assert_true(hashes[k] != hashes[i]);
        }
        struct pst_loader_stats stats = {0};
        pst_loader_stats(loader, &stats, sizeof stats);
        assert_int_equal(stats.n_partial_reads, 2 * N);
        pst_loader_close(&loader);
    }
}

/* If the units have no checksums, the checksum of the whole item is compared, so the whole item is
 * read. */
static void without_unit_checksums_all_is_read(void **state)
{
    struct pst_error err;
    pst_dataset *bare;
    struct way way = {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0};
    const uint64_t sample = 0;
    (void)state;
    make("bare", 1, true, &bare);
    for (int no_verify = 0; no_verify < 2; no_verify++) {
        uint64_t hashes[2];
        way.no_verify = no_verify;
        for (uint8_t variant = 0; variant < 2; variant++) {
            pst_loader *loader;
            pst_batch *batch;
            assert_ok(open_way(bare, &way, variant, &loader, &err));
            assert_ok(pst_loader_fetch(loader, 0, &sample, 1, &batch, &err));
            hashes[variant] = hash_batch(batch);
            pst_batch_release(batch);
            struct pst_loader_stats stats = stats_counted(loader, variant == 0 ? 2 : 0);
            assert_int_equal(stats.n_partial_reads, variant == 0 && no_verify ? 2 : 0);
            assert_true(variant != 0 || no_verify || stats.fallbacks[PST_FALLBACK_RANGE] > 0);
            pst_loader_close(&loader);
        }
        assert_int_equal(hashes[0], hashes[1]);
    }
    pst_dataset_close(&bare);
}

/* Inverts the byte at offset `at` of the stored PLI of `sample`. */
static void flip(uint64_t sample, uint64_t at)
{
    struct pst_error err;
    struct pst_item item;
    char path[4096];
    uint8_t byte;
    assert_ok(pst_dataset_item(dataset, sample, 0, 0, &item, sizeof item, &err));
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)(item.offset + at)), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(item.offset + at)), 1);
    close(fd);
}

static enum pst_status fetch_one(const struct way *way, uint64_t sample, struct pst_error *err)
{
    pst_loader *loader;
    pst_batch *batch;
    assert_int_equal(open_way(dataset, way, 0, &loader, err), PST_OK);
    pst_error_clear(err);
    enum pst_status status = pst_loader_fetch(loader, 0, &sample, 1, &batch, err);
    if (status == PST_OK)
        pst_batch_release(batch);
    pst_loader_close(&loader);
    return status;
}

static void bad_units_are_found_where_they_matter(void **state)
{
    const struct way way = {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0};
    struct pst_error err;
    struct pst_item item;
    struct pst_pli_range ranges[64];
    struct pst_pli_region r = region_of(0, 1, CROP, 0);
    size_t n;
    (void)state;
    assert_ok(pst_dataset_item(dataset, 1, 0, 0, &item, sizeof item, &err));
    uint8_t *bytes = malloc(item.nbytes);
    assert_ok(pst_dataset_read(dataset, 1, 0, 0, 0, item.nbytes, bytes, &err));
    assert_ok(pst_pli_ranges(bytes, item.nbytes, &r, ranges, 64, &n, &err));
    free(bytes);
    uint64_t inside = ranges[n / 2].offset + ranges[n / 2].nbytes / 2;
    /* a byte of a unit outside the crop */
    uint64_t outside = ranges[0].offset + ranges[0].nbytes + 1000;
    assert_true(n > 1 && outside < ranges[1].offset);

    flip(1, outside);
    assert_ok(fetch_one(&way, 1, &err));
    flip(1, outside);

    flip(1, inside);
    assert_int_equal(fetch_one(&way, 1, &err), PST_ERROR_CHECKSUM);
    assert_int_equal(err.sample, 1);
    assert_string_equal(err.codec, "pli");
    assert_non_null(strstr(err.dataset, "/data"));
    assert_non_null(strstr(err.file, "shard-000000.pst"));
    assert_in_range(err.offset, item.offset + ranges[n / 2].offset, item.offset + inside);
    assert_non_null(strstr(err.text, "unit"));
    flip(1, inside);

    flip(1, 50); /* a byte of the head: the whole item is read then */
    assert_int_equal(fetch_one(&way, 1, &err), PST_ERROR_CHECKSUM);
    assert_int_equal(err.sample, 1);
    assert_string_equal(err.codec, "pli");
    flip(1, 50);
    assert_ok(fetch_one(&way, 1, &err));
}

/* The item is overwritten with another valid image. The reader detects that these bytes are not the
 * item's. */
static void bytes_of_another_image_are_found(void **state)
{
    const struct way way = {PST_STORAGE_AUTO, 2, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0};
    struct pst_error err;
    struct pst_item a, b;
    char path[4096];
    (void)state;
    assert_ok(pst_dataset_item(dataset, 0, 0, 0, &a, sizeof a, &err));
    assert_ok(pst_dataset_item(dataset, 2, 0, 0, &b, sizeof b, &err));
    assert_int_equal(a.nbytes, b.nbytes); /* noise, so all units are stored raw */
    uint8_t *own = malloc(a.nbytes), *other = malloc(b.nbytes);
    assert_ok(pst_dataset_read(dataset, 0, 0, 0, 0, a.nbytes, own, &err));
    assert_ok(pst_dataset_read(dataset, 2, 0, 0, 0, b.nbytes, other, &err));
    assert_ok(pst_dataset_file_path(dataset, a.i_file, path, sizeof path, &err));
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, other, a.nbytes, (off_t)a.offset), (ssize_t)a.nbytes);
    assert_int_equal(fetch_one(&way, 0, &err), PST_ERROR_CHECKSUM);
    assert_int_equal(err.sample, 0);
    assert_int_equal(pwrite(fd, own, a.nbytes, (off_t)a.offset), (ssize_t)a.nbytes);
    close(fd);
    free(own);
    free(other);
    assert_ok(fetch_one(&way, 0, &err));
}

/* Inserts EXIF orientation 3 (rotated by 180 degrees) into a JPEG. `bytes` must have space for 36
 * more. */
static void add_orientation_3(uint8_t *bytes, size_t *nbytes)
{
    static const uint8_t exif[36] = "\xFF\xE1\0\42Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\3";
    memmove(bytes + 2 + sizeof exif, bytes + 2, *nbytes - 2);
    memcpy(bytes + 2, exif, sizeof exif);
    *nbytes += sizeof exif;
}

/* Writes a data set of one sample: a JPEG with orientation 3, and a mask that was made for the
 * stored picture. */
static void make_turned(const char *path)
{
    struct pst_error err;
    const struct pst_field fields[2] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "mask", .type = PST_FIELD_MASK, .n_variants = 1, .made_for = PST_MADE_FOR_STORED}};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    uint8_t *image = malloc((size_t)HEIGHT * WIDTH * 3), *mask = malloc((size_t)HEIGHT * WIDTH);
    struct pst_value values[2][2] = {{{0}}};
    const struct pst_value *lists[2] = {values[0], values[1]};
    pst_writer *writer;
    memset(image, 77, (size_t)HEIGHT * WIDTH * 3);
    fill_noise(mask, (size_t)HEIGHT * WIDTH, 5);
    uint8_t *jpeg = encode_jpeg(image, HEIGHT, WIDTH, &values[0][0].nbytes);
    jpeg = realloc(jpeg, values[0][0].nbytes + 36);
    assert_non_null(jpeg);
    add_orientation_3(jpeg, &values[0][0].nbytes);
    values[0][0].bytes = jpeg;
    values[0][0].form = PST_FORM_JPEG;
    make_values(values[1], mask, 1, false);
    assert_ok(pst_writer_open(path, fields, 2, &options, &writer, &err));
    add_sample(writer, "s", lists);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    free((void *)(uintptr_t)values[1][0].bytes);
    free(jpeg);
    free(image);
    free(mask);
}

/* Replaces the orientation in the index, for the first item of the first field. */
static void forge_orientation(const char *path, uint8_t before, uint8_t after)
{
    enum { ORIENTATION_AT = 42 }; /* offset in an item's entry (docs/format-dataset.md) */
    struct psti_index_header header;
    struct psti_index_field field;
    struct pst_error err;
    char index[160];
    snprintf(index, sizeof index, "%s/" PSTI_INDEX_NAME, path);
    int fd = open(index, O_RDWR);
    assert_true(fd >= 0);
    size_t nbytes = (size_t)lseek(fd, 0, SEEK_END);
    uint8_t *bytes = malloc(nbytes);
    assert_int_equal(pread(fd, bytes, nbytes, 0), (ssize_t)nbytes);
    assert_ok(psti_format_parse_index_header(bytes, nbytes, nbytes, &header, &err));
    assert_ok(psti_format_parse_index_field(bytes + header.fields_offset, &header, &field, &err));
    assert_int_equal(bytes[field.column_offset + ORIENTATION_AT], before);
    bytes[field.column_offset + ORIENTATION_AT] = after;
    forge_seal_index(bytes);
    assert_int_equal(pwrite(fd, bytes, nbytes, 0), (ssize_t)nbytes);
    close(fd);
    free(bytes);
}

/* A mask is read in parts if the index says that its image is not rotated. The orientation in the
 * index also counts for the image, whatever its metadata say. So the parts that are read are those
 * that the crop needs. */
static void the_turn_of_the_index_counts(void **state)
{
    const struct way way = {PST_STORAGE_THREADS, 1, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0};
    struct pst_error err;
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/turned", directory);
    make_turned(path);
    for (int forged = 0; forged < 2; forged++) {
        pst_dataset *turned;
        pst_loader *loader;
        pst_batch *batch = NULL;
        if (forged)
            forge_orientation(path, 3, 1);
        assert_ok(pst_dataset_open(path, NULL, &turned, &err));
        assert_ok(open_way(turned, &way, 0, &loader, &err));
        assert_ok(pst_loader_begin(loader, 0, &err));
        enum pst_status status = pst_loader_next(loader, &batch, &err);
        pst_batch_release(batch);
        assert_int_equal(status, PST_OK);
        pst_loader_close(&loader);
        pst_dataset_close(&turned);
    }
}

/* A new epoch begins while reads of the first and second round are under way. */
static void breaking_off_leaves_nothing(void **state)
{
    const struct way way = {PST_STORAGE_THREADS, 2, PST_PAGE_CACHE_KEEP, 0.002, false, CROP, 0, 0};
    struct pst_error err;
    pst_loader *loader;
    uint64_t first[2], last[2];
    (void)state;
    assert_ok(open_way(dataset, &way, 0, &loader, &err));
    read_epoch(loader, 0, first);
    for (int i = 0; i < 12; i++) {
        assert_ok(pst_loader_begin(loader, (uint64_t)i, &err));
        usleep((useconds_t)(i * 600));
    }
    read_epoch(loader, 0, last);
    assert_memory_equal(first, last, sizeof first);
    pst_loader_close(&loader);
}

#ifdef PST_FAULTS
static void each_read_may_fail(void **state)
{
    struct pst_error err;
    uint64_t hashes[2], expected[2];
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers += 2) {
        const struct way way = {
            PST_STORAGE_THREADS, workers, PST_PAGE_CACHE_KEEP, 0, false, CROP, 0, 0};
        uint64_t n = 0, n_failed = 0;
        bool passed = false;
        for (n = 1; !passed; n += n < 4 ? 1 : 11) {
            pst_loader *loader;
            pst_batch *batch;
            assert_ok(open_way(dataset, &way, 0, &loader, &err));
            psti_fault_arm(PSTI_FAULT_READ, n, false);
            assert_ok(pst_loader_begin(loader, 0, &err));
            enum pst_status status;
            while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK)
                pst_batch_release(batch);
            psti_fault_arm(PSTI_FAULT_READ, 0, false);
            passed = status == PST_END;
            if (!passed) {
                n_failed++;
                assert_int_equal(status, PST_ERROR_IO);
                assert_true(err.sample >= 0 && err.offset >= 0);
                assert_string_equal(err.codec, "pli");
                assert_non_null(strstr(err.file, "shard-"));
            }
            read_epoch(loader, 0, hashes); /* afterwards the loader works again */
            if (n == 1 && workers == 0)
                memcpy(expected, hashes, sizeof expected);
            assert_memory_equal(hashes, expected, sizeof hashes);
            pst_loader_close(&loader);
        }
        assert_true(n_failed > 8); /* more reads than items, because each needs two rounds */
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_decode_and_read_their_units_only),
        cmocka_unit_test(other_crops_too),
        cmocka_unit_test(blocks_find_their_place),
        cmocka_unit_test(nothing_is_split_in_vain),
        cmocka_unit_test(no_parts_where_requests_cost_more),
        cmocka_unit_test(each_draw_reads_its_own_region),
        cmocka_unit_test(without_unit_checksums_all_is_read),
        cmocka_unit_test(bad_units_are_found_where_they_matter),
        cmocka_unit_test(bytes_of_another_image_are_found),
        cmocka_unit_test(the_turn_of_the_index_counts),
        cmocka_unit_test(breaking_off_leaves_nothing),
#ifdef PST_FAULTS
        cmocka_unit_test(each_read_may_fail),
#endif
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
