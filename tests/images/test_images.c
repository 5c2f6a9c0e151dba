/* test_images.c - images by number: pixels equal those of pst_image_decode for all forms, channel
 * orders and orientations; a hit reads nothing; threads, forked children and bad files work; items
 * are shared with loaders. */
#include "../decode/decode_make.h"
#include "loader/loader_fixture.h"
#include "sanitizer.h"

#include "base/machine/cpu.h"
#include "images/images_colors.h"

#include <penstock/images.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_JPEGS = 6, N_PNGS = 6, N = N_JPEGS + N_PNGS, N_PALETTES = 1, MIB = 1 << 20 };

static pst_dataset *folder;

static const struct jpeg_spec jpegs[N_JPEGS] = {
    {.height = 97, .width = 131, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 90},
    {.height = 240, .width = 320, .colours = COLOURS_GRAY, .h = 1, .v = 1, .quality = 90},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 2, .v = 1, .orientation = 6},
    {.height = 200, .width = 333, .colours = COLOURS_YCC, .h = 1, .v = 1, .orientation = 2},
    {.height = 150, .width = 250, .colours = COLOURS_YCC, .h = 2, .v = 2, .orientation = 8},
    {.height = 450, .width = 640, .colours = COLOURS_YCC, .h = 2, .v = 2, .smooth = true},
};
static const struct png_spec pngs[N_PNGS] = {
    {.height = 120, .width = 90, .colour_type = 2, .depth = 8},
    {.height = 70, .width = 65, .colour_type = 0, .depth = 16},
    {.height = 33, .width = 64, .colour_type = 6, .depth = 8},
    {.height = 50, .width = 80, .colour_type = 4, .depth = 8},
    {.height = 50, .width = 77, .colour_type = 2, .depth = 16},
    {.height = 20, .width = 30, .colour_type = 3, .depth = 8, .n_palette = 17},
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

static pst_dataset *make_images(const char *name, int broken)
{
    char path[160];
    struct pst_error err;
    pst_dataset *dataset = NULL;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N; i++) {
        struct bytes file;
        if (i < N_JPEGS) {
            struct jpeg_spec spec = jpegs[i];
            spec.quality = spec.quality ? spec.quality : 92;
            file = make_jpeg(&spec, i);
        } else {
            file = make_png(&pngs[i - N_JPEGS], i);
        }
        write_file(name, i, i < N_JPEGS ? "jpg" : "png", &file,
                   (int)i == broken ? file.nbytes / 2 : file.nbytes);
        bytes_free(&file);
    }
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    folder = make_images("good", -1);
    return 0;
}

TEAR_DOWN(&folder)

static pst_cache *open_cache(uint64_t nbytes)
{
    const struct pst_cache_options options = {.struct_size = sizeof options, .nbytes = nbytes};
    struct pst_error err;
    pst_cache *cache = NULL;
    assert_ok(pst_cache_open(&options, &cache, &err));
    return cache;
}

static pst_images *open_images(pst_dataset *dataset, const struct pst_images_options *options)
{
    struct pst_error err;
    pst_images *images = NULL;
    assert_ok(pst_images_open(dataset, options, &images, &err));
    return images;
}

static struct pst_images_stats use_of(pst_images *images)
{
    struct pst_images_stats stats;
    pst_images_stats(images, &stats, sizeof stats);
    return stats;
}

/* Decodes the file with the decoder of single images, as the reference. */
static uint8_t *decode_file(uint64_t sample, const struct pst_images_options *options,
                            struct pst_pixels *pixels)
{
    const struct pst_decode_options decode = {.struct_size = sizeof decode,
                                              .channels = options->channels,
                                              .bits = options->keep_bits ? 0 : 8,
                                              .ignore_orientation = options->ignore_orientation};
    struct pst_image_info info;
    struct pst_item item;
    struct pst_error err;
    assert_ok(pst_dataset_item(folder, sample, 0, 0, &item, sizeof item, &err));
    uint8_t *bytes = malloc(item.nbytes);
    assert_ok(pst_dataset_read(folder, sample, 0, 0, 0, item.nbytes, bytes, &err));
    assert_ok(
        pst_image_probe(bytes, item.nbytes, PST_FORM_NONE, &decode, &info, sizeof info, &err));
    *pixels = (struct pst_pixels){.height = info.height,
                                  .width = info.width,
                                  .channels = options->channels ? options->channels : info.channels,
                                  .bits = options->keep_bits ? info.bits : 8};
    size_t sample_nbytes = pixels->bits / 8, row = info.width * sample_nbytes * pixels->channels;
    uint8_t *found = malloc(row * info.height);
    assert_ok(pst_image_decode(bytes, item.nbytes, PST_FORM_NONE, &decode, found, row * info.height,
                               row, &err));
    free(bytes);
    for (size_t i = 0; options->color == PST_COLOR_BGR && pixels->channels >= 3 &&
                       i < (size_t)info.height * info.width;
         i++) {
        uint8_t *p = found + i * sample_nbytes * pixels->channels, first[2];
        memcpy(first, p, sample_nbytes);
        memcpy(p, p + 2 * sample_nbytes, sample_nbytes);
        memcpy(p + 2 * sample_nbytes, first, sample_nbytes);
    }
    return found;
}

static void check_image(pst_images *images, uint64_t sample,
                        const struct pst_images_options *options)
{
    struct pst_pixels pixels, wanted;
    struct pst_error err;
    uint8_t *expected = decode_file(sample, options, &wanted);
    assert_ok(pst_images_get(images, sample, &pixels, &err));
    assert_int_equal(pixels.height, wanted.height);
    assert_int_equal(pixels.width, wanted.width);
    assert_int_equal(pixels.channels, wanted.channels);
    assert_int_equal(pixels.bits, wanted.bits);
    size_t row = (size_t)pixels.width * pixels.channels * (pixels.bits / 8);
    assert_int_equal(pixels.row_nbytes, row);
    assert_memory_equal(pixels.data, expected, row * pixels.height);
    /* the pixels are the caller's, and changing them affects no others */
    memset(pixels.data, 0xEE, row * pixels.height);
    pst_images_release(pixels.data);
    free(expected);
}

static void pixels_are_those_of_the_file(void **state)
{
    static const uint8_t channels[] = {3, 0, 1, 4};
    (void)state;
    for (int form = PST_CACHE_FORM_STORED; form <= PST_CACHE_FORM_RAW; form++)
        for (uint32_t way = 0; way < 8; way++) {
            struct pst_images_options options = {.struct_size = sizeof options,
                                                 .cache = open_cache(64 * MIB),
                                                 .cache_form = (enum pst_cache_form)form,
                                                 .channels = channels[way % 4],
                                                 .color = (enum pst_color)(way / 2 % 2),
                                                 .ignore_orientation = way >= 4,
                                                 .keep_bits = way % 2 == 1};
            pst_images *images = open_images(folder, &options);
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                for (uint64_t i = 0; i < N; i++)
                    check_image(images, i, &options);
                struct pst_images_stats stats = use_of(images);
                assert_int_equal(stats.n_misses, N);
                assert_int_equal(stats.n_hits, epoch * N);
                assert_int_equal(stats.n_cache_items, N);
                assert_int_equal(stats.n_refused, 0);
                assert_int_equal(stats.n_not_recoded, 0);
                assert_int_equal(stats.n_recoded, form == PST_CACHE_FORM_STORED ? 0
                                                  : form == PST_CACHE_FORM_PLI_JPEG
                                                      ? N_JPEGS
                                                      : N - N_PALETTES);
            }
            pst_images_close(&images);
            pst_cache_close(&options.cache);
        }
}

static void without_a_cache(void **state)
{
    const struct pst_images_options options = {.struct_size = sizeof options, .channels = 3};
    struct pst_error err;
    bool kept = true;
    (void)state;
    pst_images *images = open_images(folder, &options);
    for (int i = 0; i < 2; i++)
        check_image(images, 0, &options);
    assert_ok(pst_images_load(images, 1, &kept, &err));
    assert_false(kept);
    assert_int_equal(use_of(images).n_misses, 3);
    assert_int_equal(use_of(images).cache_nbytes, 0);
    pst_images_close(&images);
}

/* A full cache serves its items; all others are read each time. */
static void a_full_cache(void **state)
{
    struct pst_images_options options = {.struct_size = sizeof options,
                                         .cache = open_cache(MIB),
                                         .cache_form = PST_CACHE_FORM_RAW,
                                         .channels = 3};
    struct pst_error err;
    (void)state;
    pst_images *images = open_images(folder, &options);
    uint64_t n_kept = 0;
    for (uint64_t i = 0; i < N; i++) {
        bool kept = false;
        assert_ok(pst_images_load(images, i, &kept, &err));
        n_kept += kept;
    }
    struct pst_images_stats before = use_of(images);
    assert_int_equal(before.n_cache_items, n_kept);
    assert_true(before.n_not_recoded + before.n_refused > 0);
    assert_true(before.cache_nbytes_used <= MIB);
    for (uint64_t i = 0; i < N; i++)
        check_image(images, i, &options);
    struct pst_images_stats after = use_of(images);
    assert_true(after.n_hits - before.n_hits >= n_kept);
    assert_true(after.cache_nbytes_used <= MIB);
    pst_images_close(&images);
    pst_cache_close(&options.cache);
}

struct racers {
    pst_images *images;
    const struct pst_images_options *options;
    atomic_uint next;
};

static void *race(void *arg)
{
    struct racers *racers = arg;
    unsigned n;
    while ((n = atomic_fetch_add(&racers->next, 1)) < 6 * N)
        check_image(racers->images, n * 7 % N, racers->options);
    return NULL;
}

static void many_threads(void **state)
{
    struct pst_images_options options = {.struct_size = sizeof options,
                                         .cache = open_cache(64 * MIB),
                                         .cache_form = PST_CACHE_FORM_PLI,
                                         .channels = 3,
                                         .color = PST_COLOR_BGR};
    struct racers racers = {.images = open_images(folder, &options), .options = &options};
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct pst_images_stats stats = use_of(racers.images);
    assert_int_equal(stats.n_hits + stats.n_misses, 6 * N);
    assert_int_equal(stats.n_cache_items, N);
    assert_int_equal(stats.n_recoded, N - N_PALETTES);
    /* a thread that needed an item while another thread was reading it has read it, too */
    assert_int_equal(stats.n_misses - N, stats.n_refused);
    pst_images_close(&racers.images);
    pst_cache_close(&options.cache);
}

/* A child process uses the items cached before the fork, adds none, and leaves the parent's cache
 * unchanged. */
static void a_forked_child(void **state)
{
    struct pst_images_options options = {.struct_size = sizeof options,
                                         .cache = open_cache(64 * MIB),
                                         .cache_form = PST_CACHE_FORM_PLI,
                                         .channels = 3};
    (void)state;
    pst_images *images = open_images(folder, &options);
    for (uint64_t i = 0; i < N / 2; i++)
        check_image(images, i, &options);
    pid_t child = fork();
    if (child == 0) {
        for (int epoch = 0; epoch < 2; epoch++)
            for (uint64_t i = 0; i < N; i++)
                check_image(images, i, &options);
        struct pst_images_stats stats = use_of(images);
        bool good = stats.is_forked && stats.n_hits == N && stats.n_misses == N / 2 + N;
        pst_images_close(&images);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(use_of(images).n_cache_items, N / 2);
    assert_false(use_of(images).is_forked);
    pst_images_close(&images);
    pst_cache_close(&options.cache);
}

static void bad_images_are_named(void **state)
{
    struct pst_images_options options = {.struct_size = sizeof options,
                                         .cache = open_cache(64 * MIB),
                                         .cache_form = PST_CACHE_FORM_PLI};
    pst_dataset *spoilt = make_images("bad", N_JPEGS);
    struct pst_pixels pixels;
    struct pst_error err;
    bool kept;
    (void)state;
    pst_images *images = open_images(spoilt, &options);
    for (int i = 0; i < 2; i++) {
        enum pst_status status = i ? pst_images_load(images, N_JPEGS, &kept, &err)
                                   : pst_images_get(images, N_JPEGS, &pixels, &err);
        assert_true(status == PST_ERROR_TRUNCATED || status == PST_ERROR_CORRUPT);
        assert_int_equal(err.sample, N_JPEGS);
        assert_non_null(strstr(err.file, "06.png"));
        assert_non_null(strstr(err.dataset, "bad"));
        assert_string_equal(err.codec, "png");
    }
    assert_int_equal(use_of(images).n_cache_items, 0);
    assert_int_equal(use_of(images).cache_nbytes_used, N * 8);
    assert_int_equal(pst_images_get(images, N, &pixels, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_images_load(images, N, NULL, &err), PST_ERROR_ARGUMENT);
    pst_images_close(&images);
    pst_cache_close(&options.cache);
    pst_dataset_close(&spoilt);
}

/* A loader with the same form finds the items loaded here, and pixels outlive the handle. */
static void loaders_find_the_items(void **state)
{
    const struct pst_field_output field = {.name = "image"};
    struct pst_images_options options = {.struct_size = sizeof options,
                                         .cache = open_cache(64 * MIB),
                                         .cache_form = PST_CACHE_FORM_PLI};
    struct pst_loader_options loading = {.struct_size = sizeof loading,
                                         .batch_size = 4,
                                         .fields = &field,
                                         .n_fields = 1,
                                         .cache = options.cache,
                                         .cache_form = PST_CACHE_FORM_PLI,
                                         TEST_ELEMENT_SIZES};
    struct pst_pixels pixels;
    struct pst_error err;
    uint64_t hashes[N];
    (void)state;
    pst_images *images = open_images(folder, &options);
    for (uint64_t i = 0; i < N; i++)
        assert_ok(pst_images_load(images, i, NULL, &err));
    assert_ok(pst_images_get(images, 0, &pixels, &err));
    pst_images_close(&images);
    pst_loader *loader = open_loader(folder, &loading);
    assert_int_equal(run_epoch(loader, 0, hashes), N / 4);
    assert_int_equal(stats_of(loader).n_cache_hits, N);
    assert_int_equal(stats_of(loader).n_reads, 0);
    pst_loader_close(&loader);
    memset(pixels.data, 1, (size_t)pixels.row_nbytes * pixels.height);
    pst_images_release(pixels.data);
    pst_images_release(NULL);
    pst_cache_close(&options.cache);
}

static void fails(const struct pst_images_options *options, const char *text)
{
    struct pst_error err;
    pst_images *images = NULL;
    assert_int_equal(pst_images_open(folder, options, &images, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, text));
    assert_null(images);
}

static void what_cannot_be(void **state)
{
    struct pst_images_options options = {.struct_size = sizeof options, .field = "label"};
    (void)state;
    fails(&options, "no field");
    options.field = "image";
    options.channels = 2;
    fails(&options, "channels");
    options.channels = 3;
    options.cache_form = PST_CACHE_FORM_PLI;
    fails(&options, "no cache");
    options.cache_form = (enum pst_cache_form)9;
    fails(&options, "cache_form is 9: 0 to 4 are possible");
    options.cache_form = PST_CACHE_FORM_STORED;
    options.color = (enum pst_color)2;
    fails(&options, "color is 2: 0 to 1 are possible");
}

/* Tries all CPU levels, lengths and unaligned starts, also in place. */
static void colors_are_swapped(void **state)
{
    uint8_t from[300], expected[300], to[303];
    (void)state;
    for (int i = 0; i < 300; i++)
        from[i] = (uint8_t)(i * 37 + i / 7);
    for (size_t n = 0; n < 90; n++)
        for (size_t start = 0; start < 3; start++) {
            memset(to, 0xEE, sizeof to);
            psti_images_swap_c(from + start, expected, n);
            for (size_t i = 0; i < 3 * n; i++)
                assert_int_equal(expected[i], from[start + i / 3 * 3 + 2 - i % 3]);
            psti_images_swap swap = psti_images_swap_for(psti_cpu_features());
            swap(from + start, to + start, n);
            assert_memory_equal(to + start, expected, 3 * n);
            assert_int_equal(to[start + 3 * n], 0xEE);
            memcpy(to + start, from + start, 3 * n);
            swap(to + start, to + start, n);
            assert_memory_equal(to + start, expected, 3 * n);
            assert_int_equal(to[start + 3 * n], 0xEE);
        }
}

/* The cache keeps only the samples that the plan admits. */
static void a_plan_admits(void **state)
{
    uint8_t plan[N] = {1, 0, 1};
    struct pst_images_options options = {.struct_size = sizeof options,
                                         .cache = open_cache(64 * MIB),
                                         .cache_form = PST_CACHE_FORM_PLI,
                                         .cache_plan = plan,
                                         .n_cache_plan = N};
    (void)state;
    pst_images *images = open_images(folder, &options);
    memset(plan, 0, sizeof plan); /* the handle has copied the plan */
    for (int epoch = 0; epoch < 2; epoch++)
        for (uint64_t i = 0; i < N; i++)
            check_image(images, i, &options);
    assert_int_equal(use_of(images).n_cache_items, 2);
    assert_int_equal(use_of(images).n_hits, 2);
    assert_int_equal(use_of(images).n_refused, 0);
    pst_images_close(&images);
    options.n_cache_plan = N - 1;
    fails(&options, "cache_plan");
    pst_cache_close(&options.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_the_file),
        cmocka_unit_test(without_a_cache),
        cmocka_unit_test(a_full_cache),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(a_forked_child),
        cmocka_unit_test(bad_images_are_named),
        cmocka_unit_test(loaders_find_the_items),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(colors_are_swapped),
        cmocka_unit_test(a_plan_admits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
