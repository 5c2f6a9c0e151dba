/* test_loader_coded.c - tests items that are stored deflated: are their batches equal to those of
 * uncompressed items, for all kinds of storage and cache, and is damage reported? */
#include "dataset/coded_dataset.h"

#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { N = 24, MIB = 1 << 20 };

static pst_dataset *stored, *coded;
static uint64_t image_nbytes[N], text_nbytes[N];

TEAR_DOWN(&stored, &coded)

/* Writes samples of an image (PNG), a text and a number, each deflated or uncompressed. */
static pst_dataset *write_samples(const char *name, bool is_coded)
{
    struct pst_error err;
    char path[128], text[4096];
    const struct pst_field fields[] = {
        {.name = "image", .type = is_coded ? PST_FIELD_BYTES : PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "label", .type = PST_FIELD_INT, .n_variants = 1},
        {.name = "text", .type = is_coded ? PST_FIELD_BYTES : PST_FIELD_TEXT, .n_variants = 1}};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    pst_writer *writer = NULL;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_writer_open(path, fields, 3, &options, &writer, &err));
    for (uint32_t i = 0; i < N; i++) {
        uint32_t height, width;
        make_size(i, MAKE_MIXED, &height, &width);
        uint8_t *pixels = malloc((size_t)height * width * 3);
        assert_non_null(pixels);
        make_pixels(i, height, width, pixels);
        struct pst_value image = {.form = is_coded ? PST_FORM_NONE : PST_FORM_PNG}, words = {0};
        void *png = encode_png(pixels, height, width, 3, &image.nbytes), *pieces[2] = {NULL, NULL};
        words.nbytes = (size_t)snprintf(text, sizeof text, "sample %u", i);
        memset(text + words.nbytes, 'x', 100 * i);
        words.nbytes += 100 * i;
        image_nbytes[i] = image.nbytes;
        text_nbytes[i] = words.nbytes;
        image.bytes = png;
        words.bytes = text;
        if (is_coded) {
            image.bytes = pieces[0] = deflate_bytes(png, image.nbytes, &image.nbytes);
            words.bytes = pieces[1] = deflate_bytes(text, words.nbytes, &words.nbytes);
        }
        const int64_t number = i;
        const struct pst_value label = {.bytes = &number, .nbytes = sizeof number};
        const struct pst_value *const values[] = {&image, &label, &words};
        snprintf(path, sizeof path, "%04u", i);
        add_sample(writer, path, values);
        free(pieces[0]);
        free(pieces[1]);
        free(png);
        free(pixels);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *dataset = open_there(name);
    if (is_coded) {
        code_field(dataset, 0, PST_FIELD_IMAGE, PST_FORM_PNG, image_nbytes);
        code_field(dataset, 2, PST_FIELD_TEXT, PST_FORM_BYTES, text_nbytes);
    }
    return dataset;
}

static int set_up(void **state)
{
    if (directory_set_up(state) != 0)
        return -1;
    stored = write_samples("stored", false);
    coded = write_samples("coded", true);
    return 0;
}

/* Returns options that crop the images, with `workers` workers. */
static struct pst_loader_options crops(struct augmented *kept, uint32_t workers)
{
    struct pst_loader_options options = augmented_options(kept, 24, 24);
    kept->outputs[1] = (struct pst_field_output){.name = "text"};
    options.num_workers = workers;
    return options;
}

/* Checks that two epochs have the same batches as the uncompressed data set. */
static void check(const struct pst_loader_options *options, const struct pst_loader_options *like)
{
    uint64_t hashes[N], wanted[N];
    pst_loader *of_coded = open_loader(coded, options), *of_stored = open_loader(stored, like);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        size_t n = run_epoch(of_stored, epoch, wanted);
        assert_int_equal(run_epoch(of_coded, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    }
    pst_loader_close(&of_coded);
    pst_loader_close(&of_stored);
}

static void batches_are_those_of_stored_items(void **state)
{
    (void)state;
    static const enum pst_storage_kind kinds[] = {PST_STORAGE_AUTO, PST_STORAGE_THREADS,
                                                  PST_STORAGE_MEMORY};
    struct augmented kept;
    for (uint32_t i = 0; i < 9; i++) {
        struct pst_loader_options options = crops(&kept, i / 3);
        options.storage = kinds[i % 3];
        check(&options, &options);
        options.order = PST_ORDER_PAGES;
        check(&options, &options);
    }
    struct pst_loader_options options = crops(&kept, 2);
    options.page_cache = PST_PAGE_CACHE_DIRECT;
    check(&options, &options);
}

static void encoded_images_are_delivered_decoded(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_loader_options options = crops(&kept, 1);
    kept.outputs[0] = (struct pst_field_output){.name = "image", .encoded = true};
    check(&options, &options);
}

/* A cache keeps the deflated bytes, so each hit is inflated again. */
static void caches_keep_the_stored_bytes(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_error err;
    uint64_t hashes[N], wanted[N], all = 0;
    for (uint64_t i = 0; i < N; i++)
        for (uint32_t f = 0; f < 3; f += 2) {
            struct pst_item item;
            assert_ok(pst_dataset_item(coded, i, f, 0, &item, sizeof item, &err));
            all += item.nbytes;
        }
    for (uint32_t workers = 0; workers < 3; workers++) {
        pst_cache *cache = open_cache(64 * MIB);
        struct pst_loader_options options = crops(&kept, workers), like = options;
        options.cache = cache;
        pst_loader *of_coded = open_loader(coded, &options);
        pst_loader *of_stored = open_loader(stored, &like);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            size_t n = run_epoch(of_stored, epoch, wanted);
            assert_int_equal(run_epoch(of_coded, epoch, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
        struct pst_loader_stats stats = stats_of(of_coded);
        assert_int_equal(stats.n_cache_items, 2 * N);
        assert_int_equal(stats.nbytes_read, all);
        assert_int_equal(stats.nbytes_cache_hit, 2 * all);
        pst_loader_close(&of_coded);
        pst_loader_close(&of_stored);
        pst_cache_close(&cache);
    }
}

/* A cache that re-codes starts from the inflated image. */
static void caches_may_keep_another_form(void **state)
{
    (void)state;
    struct augmented kept;
    pst_cache *cache = open_cache(64 * MIB);
    struct pst_loader_options options = crops(&kept, 2), like = options;
    options.cache = cache;
    options.cache_form = PST_CACHE_FORM_RAW;
    check(&options, &like);
    pst_loader *loader = open_loader(coded, &options);
    uint64_t hashes[N];
    (void)run_epoch(loader, 0, hashes);
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.n_cache_hits, 2 * N);
    assert_int_equal(stats.n_cache_not_recoded, 0);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

static void sleep_ms(long ms)
{
    const struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

/* Idle workers inflate the cached items and re-code the images. No row of the first epoch decodes a
 * PLI: only re-coding at once would, to verify what it wrote. */
static void idle_workers_decode_and_recode(void **state)
{
    (void)state;
    struct augmented kept;
    pst_cache *cache = open_cache(64 * MIB);
    struct pst_loader_options options = crops(&kept, 2), like = options;
    uint64_t hashes[N], wanted[N];
    options.cache = cache;
    options.cache_form = PST_CACHE_FORM_PLI;
    options.cache_recode = PST_CACHE_RECODE_IDLE;
    pst_loader *of_coded = open_loader(coded, &options), *of_stored = open_loader(stored, &like);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        size_t n = run_epoch(of_stored, epoch, wanted);
        assert_int_equal(run_epoch(of_coded, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        if (epoch == 0)
            assert_int_equal(stats_of(of_coded).n_units_decoded, 0);
        for (int i = 0; epoch == 1 && i < 10000 && stats_of(of_coded).n_cache_recoded < N; i++)
            sleep_ms(2);
    }
    struct pst_loader_stats stats = stats_of(of_coded);
    assert_int_equal(stats.n_cache_recoded, N);
    assert_int_equal(stats.n_cache_not_recoded, 0);
    assert_int_equal(stats.n_cache_hits, 3 * 2 * N);
    assert_true(stats.n_units_decoded >= 2 * N);
    pst_loader_close(&of_coded);
    pst_loader_close(&of_stored);
    pst_cache_close(&cache);
}

static void parts_are_of_the_decoded_bytes(void **state)
{
    (void)state;
    struct pst_error err;
    char whole[4096], part[4096];
    for (uint64_t i = 0; i < N; i++) {
        uint64_t n = text_nbytes[i];
        assert_ok(pst_dataset_read(stored, i, 2, 0, 0, n, whole, &err));
        assert_ok(pst_dataset_read(coded, i, 2, 0, 0, n, part, &err));
        assert_memory_equal(part, whole, n);
        assert_ok(pst_dataset_read(coded, i, 2, 0, 3, n - 4, part, &err));
        assert_memory_equal(part, whole + 3, n - 4);
        assert_int_equal(pst_dataset_read(coded, i, 2, 0, 3, n - 2, part, &err),
                         PST_ERROR_ARGUMENT);
    }
}

/* An item that inflates to another size than stated is an error. */
static void damage_is_told(void **state)
{
    (void)state;
    struct pst_error err;
    struct augmented kept;
    struct pst_loader_options options = crops(&kept, 2);
    uint64_t hashes[N], right = text_nbytes[5];
    char text[4096];
    size_t n = 0;
    for (int change = -1; change <= 1; change += 2) {
        text_nbytes[5] = right + (uint64_t)(int64_t)change;
        pst_loader *loader = open_loader(coded, &options);
        begin_epoch(loader, 0);
        assert_int_equal(drain_until(loader, NULL, hashes, &n, &err), PST_ERROR_CORRUPT);
        assert_int_equal(err.sample, 5);
        assert_non_null(strstr(err.file, "coded/"));
        assert_non_null(strstr(err.text, change < 0 ? "more than" : "fewer than"));
        pst_loader_close(&loader);
        assert_int_equal(pst_dataset_read(coded, 5, 2, 0, 0, text_nbytes[5], text, &err),
                         PST_ERROR_CORRUPT);
        assert_int_equal(err.sample, 5);
        assert_non_null(strstr(err.file, "coded/"));
    }
    text_nbytes[5] = right;
    /* The checksum covers the deflated bytes and is compared before they are inflated. */
    spoil_sample(coded, 7, "image");
    pst_loader *loader = open_loader(coded, &options);
    begin_epoch(loader, 0);
    assert_int_equal(drain_until(loader, NULL, hashes, &n, &err), PST_ERROR_CHECKSUM);
    assert_int_equal(err.sample, 7);
    pst_loader_close(&loader);
}

/* A sample whose inflated size exceeds what host_memory leaves is refused before anything is
 * read. */
static void decoded_bytes_count_in_host_memory(void **state)
{
    (void)state;
    struct pst_error err;
    struct augmented kept;
    struct pst_loader_options options = crops(&kept, 1);
    uint64_t right = text_nbytes[3];
    text_nbytes[3] = (uint64_t)1 << 30;
    pst_dataset *dataset = open_there("coded");
    code_field(dataset, 0, PST_FIELD_IMAGE, PST_FORM_PNG, image_nbytes);
    code_field(dataset, 2, PST_FIELD_TEXT, PST_FORM_BYTES, text_nbytes);
    options.host_memory = 64 * MIB;
    pst_loader *loader = NULL;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "host_memory"));
    text_nbytes[3] = right;
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_those_of_stored_items),
        cmocka_unit_test(encoded_images_are_delivered_decoded),
        cmocka_unit_test(caches_keep_the_stored_bytes),
        cmocka_unit_test(caches_may_keep_another_form),
        cmocka_unit_test(idle_workers_decode_and_recode),
        cmocka_unit_test(parts_are_of_the_decoded_bytes),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(decoded_bytes_count_in_host_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
