/* test_loader_mixture_later.c - a mixture whose images a cache of the process keeps as they are
 * stored, and that idle workers re-code. Are batches those of the mixture without a cache, to the
 * bit, whatever was re-coded before? Are the items of each source re-coded in place, so that a
 * loader of the source alone finds them? Do weights, states, a small cache, many sources, bad
 * images and closing in between change nothing? */
#include "../decode/decode_make.h"
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    N_PHOTOS = 20,
    N_PNGS = 8,
    N_PACKED = 12,
    N_REFUSED = 2, /* of the photos */
    N_JPEGS = N_PHOTOS + N_PACKED,
    N_ITEMS = N_JPEGS + N_PNGS, /* the mixture has the photos twice */
    N = N_ITEMS + N_PHOTOS,
    N_SOURCES = 4,
    N_MANY = 65, /* more sets than a loader has of a cache */
    STEPS_MAX = 512,
    MIB = 1 << 20
};

/* photos, {photos, pngs}, packed */
static pst_dataset *mixture, *photos, *packed;

TEAR_DOWN(&mixture, &photos, &packed)

/* Size and kind follow from i. */
static struct bytes jpeg_of(uint32_t i, uint64_t seed)
{
    bool is_cmyk = i % 10 == 3 && i < N_PHOTOS; /* pli-jpeg does not take it */
    const struct jpeg_spec spec = {.height = 90 + 7 * (i % 9),
                                   .width = 100 + 13 * (i % 7),
                                   .colours = is_cmyk ? COLOURS_CMYK : COLOURS_YCC,
                                   .h = is_cmyk ? 1 : (uint8_t)(1 + i % 2),
                                   .v = is_cmyk ? 1 : (uint8_t)(1 + i / 2 % 2),
                                   .quality = (uint8_t)(75 + i % 20),
                                   .progressive = i % 5 == 1};
    return make_jpeg(&spec, seed);
}

static void write_file(const char *folder, uint32_t i, const char *ending,
                       const struct bytes *bytes)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s/%02u.%s", directory, folder, i, ending);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, bytes->nbytes, file), bytes->nbytes);
    assert_int_equal(fclose(file), 0);
}

/* A folder of JPEGs first, ..., first + n - 1. */
static void make_photos(const char *name, uint32_t first, uint32_t n)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < n; i++) {
        struct bytes bytes = jpeg_of(first + i, first + i);
        write_file(name, i, "jpg", &bytes);
        bytes_free(&bytes);
    }
}

static void make_pngs(const char *name)
{
    static const struct png_spec spec = {.height = 90, .width = 110, .colour_type = 2, .depth = 8};
    char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N_PNGS; i++) {
        struct bytes bytes = make_png(&spec, i);
        write_file(name, i, "png", &bytes);
        bytes_free(&bytes);
    }
}

/* Packed JPEGs: the second field of images, after one that the mixture does not have. */
static void make_packed(const char *name)
{
    const struct pst_field fields[] = {{.name = "extra", .type = PST_FIELD_IMAGE, .n_variants = 1},
                                       {.name = "photo", .type = PST_FIELD_IMAGE, .n_variants = 1}};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    struct pst_error err;
    pst_writer *writer = NULL;
    char path[200], key[32];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_writer_open(path, fields, 2, &options, &writer, &err));
    for (uint32_t i = 0; i < N_PACKED; i++) {
        struct bytes extra = jpeg_of(100 + i, 200 + i), photo = jpeg_of(100 + i, 100 + i);
        const struct pst_value values[] = {
            {.bytes = extra.data, .nbytes = extra.nbytes, .form = PST_FORM_JPEG},
            {.bytes = photo.data, .nbytes = photo.nbytes, .form = PST_FORM_JPEG}};
        const struct pst_value *const of[] = {&values[0], &values[1]};
        snprintf(key, sizeof key, "%03u", i);
        add_sample(writer, key, of);
        bytes_free(&extra);
        bytes_free(&photo);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
}

/* The sources' data sets stay the caller's. renames: of the last one, or NULL. */
static pst_dataset *mix(pst_dataset *const *sets, size_t n, const char *const renames[2])
{
    static const char *const fields[] = {"image"};
    const struct pst_mixture_options options = {
        .struct_size = sizeof options, .fields = fields, .n_fields = 1};
    struct pst_mixture_source sources[N_MANY] = {0};
    struct pst_error err;
    pst_dataset *mixed = NULL;
    for (size_t i = 0; i < n; i++)
        sources[i].dataset = sets[i];
    sources[n - 1].renames = renames;
    sources[n - 1].n_renames = renames ? 1 : 0;
    assert_ok(pst_dataset_open_many(sources, n, &options, &mixed, &err));
    return mixed;
}

static int set_up(void **state)
{
    static const char *const renames[] = {"photo", "image"};
    if (directory_set_up(state) != 0)
        return -1;
    make_photos("photos", 0, N_PHOTOS);
    make_pngs("pngs");
    make_packed("packed");
    photos = open_there("photos");
    packed = open_there("packed");
    pst_dataset *pngs = open_there("pngs");
    pst_dataset *const inner[] = {photos, pngs};
    pst_dataset *nested = mix(inner, 2, NULL);
    pst_dataset *const outer[] = {photos, nested, packed};
    mixture = mix(outer, 3, renames);
    pst_dataset_close(&nested);
    pst_dataset_close(&pngs);
    return 0;
}

static void keep_as_pli_jpeg(struct pst_loader_options *options, pst_cache *cache)
{
    options->cache = cache;
    options->cache_form = PST_CACHE_FORM_PLI_JPEG;
    options->cache_recode = PST_CACHE_RECODE_IDLE;
}

/* Options of a loader that re-codes later; of one without a cache if that is NULL. */
static struct pst_loader_options options_of(pst_cache *cache)
{
    static struct pst_op ops[2];
    static struct pst_field_output field;
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_RESIZED_CROP);
    ops[0].height = ops[0].width = 48;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    field = (struct pst_field_output){.name = "image", .ops = ops, .n_ops = 2, .channels = 3};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 5,
                                         .order = PST_ORDER_SHUFFLED,
                                         .seed = 11,
                                         .num_workers = 2,
                                         .fields = &field,
                                         .n_fields = 1,
                                         .only_listed = true,
                                         TEST_ELEMENT_SIZES};
    if (cache)
        keep_as_pli_jpeg(&options, cache);
    return options;
}

static pst_loader *open_idle(pst_dataset *dataset, pst_cache *cache)
{
    const struct pst_loader_options options = options_of(cache);
    return open_loader(dataset, &options);
}

static void compare_epoch(pst_loader *loader, pst_dataset *dataset, uint64_t epoch)
{
    uint64_t wanted[STEPS_MAX], hashes[STEPS_MAX];
    size_t n = drain_alone(dataset, options_of(NULL), epoch, wanted);
    assert_int_equal(run_epoch(loader, epoch, hashes), n);
    assert_memory_equal(hashes, wanted, n * sizeof *hashes);
}

static void sleep_ms(long ms)
{
    const struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

/* Waits until idle workers have looked at all items that the cache has, and n images are counted.
 */
static void wait_for(const pst_loader *loader, uint64_t n)
{
    for (int i = 0; i < 10000; i++) {
        const struct pst_loader_stats stats = stats_of(loader);
        if (stats.n_cache_to_recode == 0 && stats.n_cache_recoded + stats.n_cache_not_recoded >= n)
            return;
        sleep_ms(2);
    }
    fail_msg("items are not re-coded");
}

/* The loader of one source finds that source's items re-coded. */
static void check_alone(pst_dataset *source, const char *field, pst_cache *cache, uint64_t n)
{
    struct pst_loader_options plain = options_of(NULL), kept = options_of(cache);
    struct pst_field_output output = plain.fields[0];
    uint64_t wanted[STEPS_MAX], hashes[STEPS_MAX];
    output.name = field;
    plain.fields = kept.fields = &output;
    size_t n_steps = drain_alone(source, plain, 4, wanted);
    pst_loader *loader = open_loader(source, &kept);
    assert_int_equal(stats_of(loader).n_cache_to_recode, 0);
    assert_int_equal(run_epoch(loader, 4, hashes), n_steps);
    assert_memory_equal(hashes, wanted, n_steps * sizeof *hashes);
    assert_int_equal(stats_of(loader).n_cache_hits, n);
    assert_int_equal(stats_of(loader).n_cache_recoded, 0);
    pst_loader_close(&loader);
}

/* Items of each source are admitted as they are stored, and re-coded in the end. A data set that is
 * there twice has them once, and a source without JPEGs keeps them as they are. */
static void sources_are_recoded_in_place(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *loader = open_idle(mixture, cache);
    compare_epoch(loader, mixture, 0);
    compare_epoch(loader, mixture, 1); /* some are re-coded, some not */
    wait_for(loader, N_JPEGS);         /* between epochs */
    uint64_t n_reads = stats_of(loader).n_reads, n_hits = stats_of(loader).n_cache_hits;
    compare_epoch(loader, mixture, 2);
    const struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.n_cache_items, N_ITEMS);
    assert_int_equal(stats.n_cache_recoded, N_JPEGS - N_REFUSED);
    assert_int_equal(stats.n_cache_not_recoded, N_REFUSED);
    assert_int_equal(stats.n_cache_hits, n_hits + N);
    assert_int_equal(stats.n_reads, n_reads);
    assert_true(stats.nbytes_cache_saved > 0 && stats.cache_recode_ns > 0);
    assert_true(stats.host_memory_peak <= stats.host_memory);
    pst_loader_close(&loader);
    check_alone(photos, "image", cache, N_PHOTOS);
    check_alone(packed, "photo", cache, N_PACKED);
    pst_cache_close(&cache);
}

/* A loader of a source alone keeps images of a field that the mixture does not have. They wait in
 * the same queue, and workers of the mixture re-code what it has left. */
static void fields_of_others(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(64 * MIB);
    struct pst_loader_options options = options_of(cache);
    struct pst_field_output outputs[2] = {options.fields[0], options.fields[0]};
    uint64_t hashes[STEPS_MAX];
    outputs[0].name = "extra";
    outputs[1].name = "photo";
    options.fields = outputs;
    options.n_fields = 2;
    pst_loader *alone = open_loader(packed, &options);
    run_epoch(alone, 0, hashes);
    pst_loader_close(&alone);
    pst_loader *loader = open_idle(mixture, cache);
    compare_epoch(loader, mixture, 0);
    wait_for(loader, N_PHOTOS);
    compare_epoch(loader, mixture, 1);
    pst_loader_close(&loader);
    check_alone(packed, "extra", cache, N_PACKED);
    check_alone(packed, "photo", cache, N_PACKED);
    pst_cache_close(&cache);
}

/* Draws an epoch by weights, which change after some steps. Returns its number of batches. */
static size_t run_weighted(pst_loader *loader, uint64_t epoch, uint64_t *hashes)
{
    static const double later[] = {1, 0, 2, 3};
    const uint64_t place[] = {epoch, 30};
    struct pst_error err;
    pst_batch *batch;
    size_t n = 0;
    begin_epoch(loader, epoch);
    for (; n < 4; n++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        hashes[n] = hash_batch(batch);
        pst_batch_release(batch);
    }
    assert_ok(pst_loader_set_source_weights(loader, place, later, 1, &err));
    return n + drain_epoch(loader, NULL, hashes + n);
}

static void weights_change(void **state)
{
    static const double weights[] = {3, 1, 1, 2};
    (void)state;
    pst_cache *cache = open_cache(64 * MIB);
    struct pst_loader_options kept = options_of(cache), plain = options_of(NULL);
    plain.source_weights = kept.source_weights = weights;
    plain.n_source_weights = kept.n_source_weights = N_SOURCES;
    pst_loader *loader = open_loader(mixture, &kept), *other = open_loader(mixture, &plain);
    uint64_t wanted[STEPS_MAX], hashes[STEPS_MAX];
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t n = run_weighted(other, epoch, wanted);
        assert_int_equal(run_weighted(loader, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        if (epoch == 1)
            wait_for(loader, N_JPEGS);
    }
    assert_int_equal(stats_of(loader).n_cache_recoded, N_JPEGS - N_REFUSED);
    pst_loader_close(&loader);
    pst_loader_close(&other);
    pst_cache_close(&cache);
}

/* A loader is closed while items are being re-coded. Its state goes on in one whose cache has other
 * forms of the same items. */
static void states_go_on(void **state)
{
    (void)state;
    uint64_t wanted[STEPS_MAX], hashes[STEPS_MAX];
    struct pst_error err;
    struct pst_loader_state saved;
    pst_batch *batch;
    pst_cache *cache = open_cache(64 * MIB);
    size_t n_steps = drain_alone(mixture, options_of(NULL), 0, wanted);
    for (size_t n = 0; n < n_steps; n += 3) {
        pst_loader *loader = open_idle(mixture, cache);
        begin_epoch(loader, 0);
        for (size_t i = 0; i < n; i++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
        }
        pst_loader_state(loader, &saved);
        pst_loader_close(&loader);
        loader = open_idle(mixture, cache);
        assert_ok(pst_loader_resume(loader, &saved, &err));
        assert_int_equal(drain_epoch(loader, NULL, hashes), n_steps - n);
        assert_memory_equal(hashes, wanted + n, (n_steps - n) * sizeof *hashes);
        pst_loader_close(&loader);
    }
    pst_cache_close(&cache);
}

/* A cache that is too small for all items is never exceeded. */
static void a_full_cache(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(MIB);
    pst_loader *loader = open_idle(mixture, cache);
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        compare_epoch(loader, mixture, epoch);
        assert_true(use_of(cache).nbytes_used <= MIB);
    }
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

/* A mixture of more data sets than a loader has sets of a cache is kept as a whole. */
static void many_sources(void **state)
{
    (void)state;
    pst_dataset *sets[N_MANY];
    for (uint32_t i = 0; i < N_MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "many%02u", i);
        make_photos(name, 300 + i, 1);
        sets[i] = open_there(name);
    }
    pst_dataset *many = mix(sets, N_MANY, NULL);
    pst_cache *cache = open_cache(64 * MIB);
    pst_loader *loader = open_idle(many, cache);
    compare_epoch(loader, many, 0);
    wait_for(loader, N_MANY);
    compare_epoch(loader, many, 1);
    assert_int_equal(stats_of(loader).n_cache_recoded, N_MANY);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_dataset_close(&many);
    for (uint32_t i = 0; i < N_MANY; i++)
        pst_dataset_close(&sets[i]);
}

/* Runs epochs until one fails. The error names the source and its sample. */
static void expect_error(pst_dataset *dataset, const struct pst_loader_options *options)
{
    uint64_t hashes[STEPS_MAX];
    struct pst_error err;
    size_t n;
    pst_loader *loader = open_loader(dataset, options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        begin_epoch(loader, epoch);
        assert_int_not_equal(drain_until(loader, NULL, hashes, &n, &err), PST_END);
        assert_non_null(strstr(err.dataset, "spoilt"));
        assert_int_equal(err.sample, N_PHOTOS + 1);
        assert_int_equal(err.source_sample_plus_1, 1 + 1);
    }
    pst_loader_close(&loader);
}

static void bad_images(void **state)
{
    (void)state;
    static const char text[] = "no image";
    const struct bytes none = {(uint8_t *)(uintptr_t)text, sizeof text};
    make_photos("spoilt", 400, 3);
    write_file("spoilt", 1, "jpg", &none);
    pst_dataset *const sets[] = {photos, open_there("spoilt")};
    pst_dataset *mixed = mix(sets, 2, NULL), *spoilt = sets[1];
    pst_cache *cache = open_cache(64 * MIB);
    struct pst_loader_options options = options_of(NULL);
    options.order = PST_ORDER_SEQUENTIAL;
    expect_error(mixed, &options);
    keep_as_pli_jpeg(&options, cache);
    expect_error(mixed, &options);
    pst_cache_close(&cache);
    pst_dataset_close(&mixed);
    pst_dataset_close(&spoilt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_are_recoded_in_place),
        cmocka_unit_test(fields_of_others),
        cmocka_unit_test(weights_change),
        cmocka_unit_test(states_go_on),
        cmocka_unit_test(a_full_cache),
        cmocka_unit_test(many_sources),
        cmocka_unit_test(bad_images),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
