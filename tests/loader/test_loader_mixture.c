/* test_loader_mixture.c - tests a loader of a mixture: are its batches those of one data set with
 * the same samples, for all kinds of data sets, storage and caches? Can its state be resumed with
 * other ranks, and do errors name the source? */
#include "cache/cache_fixture.h"
#include "containers/tar_helper.h"
#include "loader/loader_fixture.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 60, N_A = 24, N_B = 7, N_C = N - N_A - N_B, N_TABLES = 4, MIB = 1 << 20 };

/* `whole` holds all samples in one data set, and `mixture` the same samples in three. Each of the
 * three has its own table of classes; `whole` has the joined table. */
static pst_dataset *whole, *mixture;

TEAR_DOWN(&whole, &mixture)

static const char *const tables[N_TABLES][5] = {{"cat", "dog", "hen", "fox", "owl"}, /* whole */
                                                {"cat", "dog", "hen"},
                                                {"fox", "dog"},
                                                {"owl", "hen", "cat", "fox"}};
static const int table_n[N_TABLES] = {5, 3, 2, 4};

static int part_of(int i) { return i < N_A ? 1 : i < N_A + N_B ? 2 : 3; }

/* Returns the label that sample i has in a table of classes: the number of the class of the same
 * name. */
static int64_t label_in(int table, int i, int which)
{
    int part = part_of(i);
    const char *name = tables[part][(i + which) % table_n[part]];
    for (int k = 0; k < table_n[table]; k++)
        if (strcmp(tables[table][k], name) == 0)
            return k;
    fail_msg("no class %s", name);
    return -1;
}

static uint8_t *picture_of(int i, enum make_images images, uint32_t *height, uint32_t *width)
{
    make_size((uint32_t)i, images, height, width);
    uint8_t *pixels = malloc((size_t)*height * *width * 3);
    assert_non_null(pixels);
    make_pixels((uint32_t)i, *height, *width, pixels);
    return pixels;
}

static void add_one(pst_writer *writer, int i, int table)
{
    char name[32], text[64];
    uint32_t height, width;
    struct pst_value values[6] = {{0}};
    uint8_t *pixels = picture_of(i, MAKE_MIXED, &height, &width), *jpeg = NULL;
    int64_t label = label_in(table, i, 0), tags[2] = {label_in(table, i, 1), label};
    float boxes[8] = {1, 2, 20, 22, 3, 4, 30, 31};
    double score = 0.5 * i;
    if (i % 3 == 0) {
        values[0] = (struct pst_value){.bytes = pixels,
                                       .nbytes = (size_t)height * width * 3,
                                       .form = PST_FORM_RAW,
                                       .height = height,
                                       .width = width,
                                       .channels = 3,
                                       .bits = 8};
    } else {
        values[0].form = i % 3 == 1 ? PST_FORM_JPEG : PST_FORM_PNG;
        jpeg = i % 3 == 1 ? encode_jpeg(pixels, height, width, &values[0].nbytes)
                          : encode_png(pixels, height, width, 3, &values[0].nbytes);
        values[0].bytes = jpeg;
    }
    snprintf(name, sizeof name, "s%03d", i);
    snprintf(text, sizeof text, "sample %d", i);
    values[1] = (struct pst_value){.bytes = &label, .nbytes = sizeof label};
    values[2] = (struct pst_value){.bytes = tags,
                                   .nbytes = 8 * (1 + (size_t)i % 2),
                                   .ndim = 1,
                                   .shape = {1 + (uint32_t)i % 2}};
    values[3] = (struct pst_value){.bytes = boxes, .nbytes = 16 * (1 + (size_t)i % 2)};
    values[4] = (struct pst_value){.bytes = &score, .nbytes = sizeof score};
    values[5] = (struct pst_value){.bytes = text, .nbytes = strlen(text)};
    const struct pst_value *const of[] = {&values[0], &values[1], &values[2],
                                          &values[3], &values[4], &values[5]};
    add_sample(writer, name, of);
    free(jpeg);
    free(pixels);
}

static pst_dataset *write_range(const char *name, int first, int n, int table)
{
    const struct pst_field fields[] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "label", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = table_n[table]},
        {.name = "tags",
         .type = PST_FIELD_ARRAY,
         .dtype = PST_DTYPE_I64,
         .n_variants = 1,
         .n_classes = table_n[table]},
        {.name = "boxes", .type = PST_FIELD_BOXES, .n_variants = 1},
        {.name = "score", .type = PST_FIELD_FLOAT, .n_variants = 1},
        {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1}};
    const struct pst_writer_options options = {.struct_size = sizeof options,
                                               .shard_nbytes = 40000};
    struct pst_error err;
    pst_writer *writer = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_writer_open(path, fields, 6, &options, &writer, &err));
    for (uint32_t i = 1; i < 3; i++)
        assert_ok(
            pst_writer_set_class_names(writer, i, tables[table], (size_t)table_n[table], &err));
    for (int i = first; i < first + n; i++)
        add_one(writer, i, table);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    return open_there(name);
}

static pst_dataset *mix(pst_dataset **sets, size_t n, const struct pst_mixture_options *options)
{
    struct pst_mixture_source sources[4] = {0};
    struct pst_error err;
    pst_dataset *mixed = NULL;
    for (size_t i = 0; i < n; i++)
        sources[i].dataset = sets[i];
    assert_ok(pst_dataset_open_many(sources, n, options, &mixed, &err));
    for (size_t i = 0; i < n; i++)
        pst_dataset_close(&sets[i]);
    return mixed;
}

static int set_up(void **state)
{
    if (directory_set_up(state) != 0)
        return -1;
    whole = write_range("whole", 0, N, 0);
    pst_dataset *sets[] = {write_range("a", 0, N_A, 1), write_range("b", N_A, N_B, 2),
                           write_range("c", N_A + N_B, N_C, 3)};
    mixture = mix(sets, 3, NULL);
    return 0;
}

static struct pst_loader_options options_of(struct augmented *kept, uint32_t workers)
{
    struct pst_loader_options options = augmented_options(kept, 24, 24);
    kept->outputs[1] = (struct pst_field_output){.name = "boxes", .keep_boxes = true};
    options.num_workers = workers;
    return options;
}

/* Checks that two epochs of the mixture have the same batches as `one`. */
static void check(pst_dataset *mixed, pst_dataset *one, const struct pst_loader_options *options)
{
    uint64_t hashes[N + 1], wanted[N + 1];
    pst_loader *of_mixed = open_loader(mixed, options), *of_one = open_loader(one, options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        size_t n = run_epoch(of_one, epoch, wanted);
        assert_int_equal(run_epoch(of_mixed, epoch, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    }
    pst_loader_close(&of_mixed);
    pst_loader_close(&of_one);
}

static void check_all(pst_dataset *mixed, pst_dataset *one, struct pst_loader_options *options)
{
    static const enum pst_storage_kind kinds[] = {PST_STORAGE_AUTO, PST_STORAGE_THREADS,
                                                  PST_STORAGE_MEMORY};
    static const enum pst_order orders[] = {PST_ORDER_SEQUENTIAL, PST_ORDER_SHUFFLED,
                                            PST_ORDER_PAGES};
    for (int i = 0; i < 18; i++) {
        options->storage = kinds[i % 3];
        options->order = orders[i / 3 % 3];
        options->num_workers = i < 9 ? 2 : 0;
        options->page_samples = 4;
        options->window_pages = 3;
        check(mixed, one, options);
    }
    options->num_workers = 2;
    options->storage = PST_STORAGE_THREADS;
    options->page_cache = PST_PAGE_CACHE_DIRECT;
    check(mixed, one, options);
    options->page_cache = PST_PAGE_CACHE_KEEP;
}

static void batches_are_those_of_one_data_set(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_loader_options options = options_of(&kept, 2);
    check_all(mixture, whole, &options);
    pst_dataset *inner[] = {open_there("a"), open_there("b")};
    pst_dataset *outer[] = {mix(inner, 2, NULL), open_there("c")};
    pst_dataset *nested = mix(outer, 2, NULL);
    check(nested, whole, &options);
    pst_dataset_close(&nested);
}

static void caches_keep_items_of_all_sources(void **state)
{
    (void)state;
    struct augmented kept;
    pst_cache *cache = open_cache(64 * MIB);
    struct pst_loader_options options = options_of(&kept, 2);
    uint64_t hashes[N + 1], wanted[N + 1];
    size_t n = drain_alone(whole, options, 1, wanted);
    options.cache = cache;
    pst_loader *loader = open_loader(mixture, &options);
    run_epoch(loader, 0, hashes);
    uint64_t nbytes = stats_of(loader).nbytes_read;
    assert_int_equal(run_epoch(loader, 1, hashes), n);
    assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    assert_int_equal(stats_of(loader).nbytes_read, nbytes); /* all items came from the cache */
    pst_loader_close(&loader);
    pst_cache_close(&cache);
}

/* Tests of a mixture of a packed data set, a folder and a tar
 * ------------------------------------ */

static void write_file(const char *path, const void *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    fclose(file);
}

/* Returns the JPEG of sample i. The caller frees it. */
static uint8_t *jpeg_of(int i, size_t *nbytes)
{
    uint32_t height, width;
    uint8_t *pixels = picture_of(i, MAKE_JPEG, &height, &width);
    uint8_t *jpeg = encode_jpeg(pixels, height, width, nbytes);
    free(pixels);
    return jpeg;
}

static pst_dataset *pack_images(const char *name, int first, int n)
{
    const struct pst_field fields[] = {{.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1}};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    struct pst_error err;
    pst_writer *writer = NULL;
    char path[128], key[32];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_writer_open(path, fields, 1, &options, &writer, &err));
    for (int i = first; i < first + n; i++) {
        struct pst_value value = {.form = PST_FORM_JPEG};
        uint8_t *jpeg = jpeg_of(i, &value.nbytes);
        const struct pst_value *const of[] = {&value};
        value.bytes = jpeg;
        snprintf(key, sizeof key, "%03d", i);
        add_sample(writer, key, of);
        free(jpeg);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    return open_there(name);
}

static pst_dataset *make_images_folder(const char *name, int first, int n)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0777), 0);
    for (int i = first; i < first + n; i++) {
        size_t nbytes;
        uint8_t *jpeg = jpeg_of(i, &nbytes);
        snprintf(path, sizeof path, "%s/%s/%03d.jpg", directory, name, i);
        write_file(path, jpeg, nbytes);
        free(jpeg);
    }
    return open_there(name);
}

static pst_dataset *make_tar(const char *name, int first, int n)
{
    struct tar tar = {0};
    char path[200];
    for (int i = first; i < first + n; i++) {
        size_t nbytes;
        uint8_t *jpeg = jpeg_of(i, &nbytes);
        snprintf(path, sizeof path, "%03d.jpg", i);
        tar_file(&tar, path, jpeg, nbytes);
        free(jpeg);
    }
    tar_zeros(&tar, 1024);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    write_file(path, tar.bytes, tar.nbytes);
    tar_free(&tar);
    return open_there(name);
}

static void kinds_are_mixed(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_loader_options options = options_of(&kept, 2);
    pst_dataset *all = pack_images("images", 0, N);
    pst_dataset *sets[] = {make_images_folder("folder", 0, N_A), pack_images("some", N_A, N_B),
                           make_tar("x.tar", N_A + N_B, N_C / 2),
                           make_images_folder("last", N_A + N_B + N_C / 2, N_C - N_C / 2)};
    pst_dataset *mixed = mix(sets, 4, NULL);
    options.n_fields = 1; /* the image */
    check_all(mixed, all, &options);
    pst_dataset_close(&mixed);
    pst_dataset_close(&all);
}

/* Resuming --------------------------------------------------------------------------------------
 */

/* Finds the sample at each position of an epoch. */
static void order_of(const struct pst_loader_options *given, uint64_t epoch, int64_t samples[N])
{
    struct pst_loader_options options = *given;
    struct pst_error err;
    pst_batch *batch;
    size_t n = 0;
    options.batch_size = 1;
    options.rank = 0;
    options.world_size = 1;
    pst_loader *loader = open_loader(mixture, &options);
    begin_epoch(loader, epoch);
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        assert_true(n < N);
        samples[n++] = pst_batch_index(batch)[0];
        pst_batch_release(batch);
    }
    assert_int_equal(n, N);
    pst_loader_close(&loader);
}

/* Compares the rest of an epoch from `position` on with what one rank delivers. Adds its rows,
 * without padding, to `rows`. */
static void check_rest(const struct pst_loader_options *options,
                       const struct pst_loader_state *from, const int64_t samples[N],
                       uint64_t *rows)
{
    struct pst_error err;
    pst_batch *batch;
    uint64_t stride = (uint64_t)options->batch_size * options->world_size, at = from->position;
    pst_loader *loader = open_loader(mixture, options);
    assert_ok(pst_loader_resume(loader, from, &err));
    for (; pst_loader_next(loader, &batch, &err) == PST_OK; at += stride) {
        uint64_t left = at < N ? N - at : 0, n = options->batch_size;
        if (left < stride)
            n = (left + options->world_size - 1) / options->world_size;
        assert_int_equal(pst_batch_count(batch), n);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t position = at + options->rank * n + i;
            if (position < N) {
                assert_int_equal(pst_batch_index(batch)[i], samples[position]);
                ++*rows;
            }
        }
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
}

static uint32_t draw(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % n;
}

/* Takes a state at a random place with random ranks and batch size, and resumes it with others. */
static void resume_once(uint64_t *random)
{
    struct pst_error err;
    struct pst_field_output label = {.name = "label"};
    int64_t samples[N];
    struct pst_loader_state from = {0};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .fields = &label,
                                         .n_fields = 1,
                                         .only_listed = true,
                                         .order =
                                             draw(random, 4) ? PST_ORDER_SHUFFLED : PST_ORDER_PAGES,
                                         .page_samples = 3,
                                         .window_pages = 4,
                                         .seed = draw(random, 100),
                                         .world_size = 1 + draw(random, 5),
                                         .batch_size = 1 + draw(random, 6),
                                         TEST_ELEMENT_SIZES};
    uint64_t epoch = draw(random, 3), rows = 0;
    options.rank = draw(random, options.world_size);
    order_of(&options, epoch, samples);
    pst_loader *loader = open_loader(mixture, &options);
    begin_epoch(loader, epoch);
    uint64_t n = pst_loader_n_batches(loader);
    for (uint64_t steps = draw(random, (uint32_t)n); steps > 0; steps--) {
        pst_batch *batch;
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_state(loader, &from);
    pst_loader_close(&loader);
    assert_int_equal(from.epoch, epoch);
    options.world_size = 1 + draw(random, 7);
    options.batch_size = 1 + draw(random, 8);
    for (options.rank = 0; options.rank < options.world_size; options.rank++)
        check_rest(&options, &from, samples, &rows);
    assert_int_equal(rows, N - from.position);
}

static void states_go_on_with_other_ranks(void **state)
{
    (void)state;
    uint64_t random = 52;
    for (int i = 0; i < (all_combinations() ? 2000 : 200); i++)
        resume_once(&random);
}

/* Tests of counts, errors and refusals
 * ------------------------------------------------------------ */

static void rows_are_counted_by_source(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_loader_options options = options_of(&kept, 2);
    uint64_t rows[5] = {9, 9, 9, 9, 9}, hashes[N + 1];
    pst_loader *loader = open_loader(mixture, &options);
    pst_loader_source_rows(loader, rows, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(rows[i], 0);
    run_epoch(loader, 0, hashes);
    run_epoch(loader, 1, hashes);
    pst_loader_source_rows(loader, rows, 5);
    assert_int_equal(rows[0], 2 * N_A);
    assert_int_equal(rows[1], 2 * N_B);
    assert_int_equal(rows[2], 2 * N_C);
    assert_int_equal(rows[3], 0);
    rows[1] = 7;
    pst_loader_source_rows(loader, rows, 1); /* writes no more counts than asked for */
    assert_int_equal(rows[1], 7);
    pst_loader_close(&loader);
    loader = open_loader(whole, &options);
    run_epoch(loader, 0, hashes);
    pst_loader_source_rows(loader, rows, 2); /* no mixture */
    assert_int_equal(rows[0] + rows[1], 0);
    pst_loader_close(&loader);
}

/* Changes some bytes of the largest item of sample `own` of data set `name`. */
static void damage(const char *name, uint64_t own)
{
    struct pst_error err;
    struct pst_item item;
    char path[4096];
    pst_dataset *dataset = open_there(name);
    assert_ok(pst_dataset_item(dataset, own, 0, 0, &item, sizeof item, &err));
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(item.offset + item.nbytes / 2), SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(byte ^ 0x5a, file);
    fclose(file);
    pst_dataset_close(&dataset);
}

static void damage_names_the_source(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_error err;
    struct pst_loader_options options = options_of(&kept, 2);
    char line[2048], wanted[128];
    uint64_t hashes[N + 1];
    size_t n;
    pst_dataset *sets[] = {open_there("a"), write_range("hurt", N_A, 9, 0)};
    pst_dataset *mixed = mix(sets, 2, NULL);
    damage("hurt", 5);
    for (int i = 0; i < 2; i++) {
        options.storage = i ? PST_STORAGE_MEMORY : PST_STORAGE_THREADS;
        options.on_error = PST_ON_ERROR_RAISE;
        pst_loader *loader = open_loader(mixed, &options);
        begin_epoch(loader, 0);
        assert_int_equal(drain_until(loader, NULL, hashes, &n, &err), PST_ERROR_CHECKSUM);
        assert_int_equal(err.sample, N_A + 5);
        assert_int_equal(err.source_sample_plus_1, 6);
        snprintf(wanted, sizeof wanted, "%s/hurt", directory);
        assert_string_equal(err.dataset, wanted);
        assert_non_null(strstr(err.file, "/hurt/"));
        pst_error_format(&err, line, sizeof line);
        assert_non_null(strstr(line, "/hurt', sample 5 (29 of the mixture), file '"));
        pst_loader_close(&loader);
        options.on_error = PST_ON_ERROR_SKIP;
        loader = open_loader(mixed, &options);
        run_epoch(loader, 0, hashes);
        assert_int_equal(stats_of(loader).n_samples, N_A + 8);
        assert_int_equal(pst_loader_n_quarantined(loader), 1);
        assert_ok(pst_loader_quarantined(loader, 0, &err, NULL));
        assert_int_equal(err.sample, N_A + 5);
        assert_int_equal(err.source_sample_plus_1, 6);
        pst_loader_close(&loader);
    }
    pst_dataset_close(&mixed);
}

static void fails_with(pst_dataset *mixed, const struct pst_loader_options *options,
                       enum pst_status status, const char *name)
{
    struct pst_error err;
    uint64_t hashes[N + 1];
    size_t n;
    pst_loader *loader = open_loader(mixed, options);
    begin_epoch(loader, 0);
    assert_int_equal(drain_until(loader, NULL, hashes, &n, &err), status);
    assert_non_null(strstr(err.dataset, name));
    assert_true(err.source_sample_plus_1 > 0);
    pst_loader_close(&loader);
}

static void unlink_in(const char *name, const char *file)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s/%s", directory, name, file);
    assert_int_equal(unlink(path), 0);
}

/* A missing file of a folder is a bad sample. A missing folder or shard is an error that ends the
 * epoch. */
static void losses_are_told_by_source(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_loader_options options = options_of(&kept, 2);
    uint64_t hashes[N + 1];
    pst_dataset *sets[] = {make_images_folder("lossy", 0, 5), make_images_folder("gone", 5, 5),
                           pack_images("shard", 10, 5)};
    pst_dataset *mixed = mix(sets, 3, NULL);
    unlink_in("lossy", "003.jpg");
    options.n_fields = 1; /* the image */
    options.on_error = PST_ON_ERROR_SKIP;
    pst_loader *loader = open_loader(mixed, &options);
    run_epoch(loader, 0, hashes);
    assert_int_equal(stats_of(loader).n_samples, 14);
    pst_loader_close(&loader);
    for (int i = 5; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "%03d.jpg", i);
        unlink_in("gone", name);
    }
    fails_with(mixed, &options, PST_ERROR_NOT_FOUND, "/gone");
    pst_dataset_close(&mixed);
    sets[0] = open_there("lossy");
    sets[1] = open_there("shard");
    mixed = mix(sets, 2, NULL);
    unlink_in("shard", "shard-000000.pst");
    fails_with(mixed, &options, PST_ERROR_NOT_FOUND, "/shard");
    pst_dataset_close(&mixed);
}

/* There is no host service: the loader runs without it, with the option host cache and with
 * share. */
static void there_is_no_host_service(void **state)
{
    (void)state;
    struct augmented kept;
    struct pst_error err;
    uint64_t wanted[N], hashes[N];
    char socket[128];
    snprintf(socket, sizeof socket, "%s/socket", directory);
    struct pst_loader_options options = options_of(&kept, 2);
    size_t n = drain_alone(mixture, options, 0, wanted);
    const struct pst_cache_host_options host = {
        .struct_size = sizeof host, .socket = socket, .later = true};
    pst_cache *cache = NULL;
    assert_ok(pst_cache_open_host(&host, &cache, &err));
    for (int i = 0; i < 2; i++) {
        options.share = i == 0 ? "jobs" : NULL;
        options.socket = i == 0 ? socket : NULL;
        options.cache = i == 0 ? NULL : cache;
        pst_loader *loader = open_loader(mixture, &options);
        assert_int_equal(run_epoch(loader, 0, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *wanted);
        struct pst_loader_stats stats = stats_of(loader);
        assert_true(strlen(i == 0 ? stats.share_reason : stats.host_reason) > 0);
        pst_loader_close(&loader);
    }
    pst_cache_close(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_those_of_one_data_set),
        cmocka_unit_test(caches_keep_items_of_all_sources),
        cmocka_unit_test(kinds_are_mixed),
        cmocka_unit_test(states_go_on_with_other_ranks),
        cmocka_unit_test(rows_are_counted_by_source),
        cmocka_unit_test(damage_names_the_source),
        cmocka_unit_test(losses_are_told_by_source),
        cmocka_unit_test(there_is_no_host_service),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
