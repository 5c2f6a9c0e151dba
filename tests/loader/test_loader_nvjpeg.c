/* test_loader_nvjpeg.c - are batches whose JPEG files nvJPEG decodes those of the CPU? The stand-in
 * for nvJPEG decodes as the CPU does, so here they are equal to the bit. The test covers the place
 * of pictures, the reuse of memory, orientations, files that nvJPEG refuses, and errors. */
#include "loader/loader_fixture.h"
#include "test.h"

#include "device/fake_driver.h"
#include "device/fake_nvjpeg.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#define N_KINDS 12
#define N_SAMPLES 36
#define PLI_SAMPLE 23
#define N_FALLBACKS (3 * N_SAMPLES / N_KINDS - 1) /* kinds 9 to 11 */
#define STEPS_MAX 64
#define EDGE_MAX 96

static char directory[64];
static pst_dataset *packed, *folder, *spoilt;

/* Files
 * ------------------------------------------------------------------------------------------------
 */

static uint8_t *make_pli(const uint8_t *pixels, uint32_t height, uint32_t width, size_t *nbytes)
{
    const struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options};
    struct pst_error err;
    size_t jpeg_nbytes;
    uint8_t *jpeg = encode_jpeg(pixels, height, width, &jpeg_nbytes);
    size_t room = pst_pli_from_jpeg_bound(jpeg_nbytes) + 4096;
    uint8_t *bytes = malloc(room);
    assert_ok(pst_pli_from_jpeg(jpeg, jpeg_nbytes, &options, bytes, room, nbytes, &err));
    free(jpeg);
    return bytes;
}

/* Sample i is of kind i % N_KINDS: gray, subsamplings, progressive, rotated, CMYK, arithmetic; kind
 * 11 is a PNG or, once, a JPEG kept as PLI. nvJPEG takes kinds 0..8. */
static uint8_t *make_file(uint32_t i, size_t *nbytes, enum pst_form *form)
{
    static uint8_t pixels[EDGE_MAX * EDGE_MAX * 4];
    uint32_t kind = i % N_KINDS, height = 40 + i * 7 % 56, width = 40 + i * 11 % 56;
    int n = kind == 1 ? 1 : kind == 9 ? 4 : 3;
    make_pixels(i, height, width, pixels);
    *form = kind == 11 ? PST_FORM_PNG : PST_FORM_JPEG;
    if (i == PLI_SAMPLE) {
        *form = PST_FORM_PLI_JPEG;
        return make_pli(pixels, height, width, nbytes);
    }
    if (kind == 11)
        return encode_png(pixels, height, width, 3, nbytes);
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &bytes, &length);
    cinfo.image_height = height;
    cinfo.image_width = width;
    cinfo.input_components = n;
    cinfo.in_color_space = n == 1 ? JCS_GRAYSCALE : n == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&cinfo);
    cinfo.comp_info[0].h_samp_factor = kind == 2 || n != 3 ? 1 : 2;
    cinfo.comp_info[0].v_samp_factor = kind == 3 || n != 3 ? 1 : 2;
    cinfo.arith_code = kind == 10;
    if (kind == 4)
        jpeg_simple_progression(&cinfo);
    jpeg_start_compress(&cinfo, TRUE);
    if (kind >= 5 && kind <= 8) { /* orientations 3, 5, 6, 8 */
        static const uint8_t orientations[4] = {3, 5, 6, 8};
        uint8_t exif[] = "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0\0";
        exif[25] = orientations[kind - 5];
        jpeg_write_marker(&cinfo, JPEG_APP0 + 1, exif, sizeof exif - 1);
    }
    for (uint32_t y = 0; y < height; y++) {
        JSAMPROW row = pixels + (size_t)y * width * (size_t)(n == 4 ? 3 : n);
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    *nbytes = length;
    return bytes;
}

static void write_file(const char *path, const void *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    fclose(file);
}

/* Makes a data set and a folder of the same files. is_spoilt: some of the folder's scans are
 * damaged. */
static void make_all(const char *name, bool is_spoilt, pst_dataset **dataset)
{
    static const struct pst_field fields[1] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1}};
    struct pst_error err;
    pst_writer *writer = NULL;
    char path[256];
    bool is_packed = strcmp(name, "packed") == 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (is_packed)
        assert_ok(pst_writer_open(
            path, fields, 1,
            &(struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options)}, &writer,
            &err));
    else
        mkdir(path, 0777);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        struct pst_value value = {0};
        uint8_t *bytes = make_file(i, &value.nbytes, &value.form);
        const struct pst_value *values[1] = {&value};
        if (is_spoilt && i % 5 == 2 && i != PLI_SAMPLE)
            memset(bytes + value.nbytes - 60, 0, 40);
        value.bytes = bytes;
        snprintf(path, sizeof path, "%s/%s/%04u.jpg", directory, name, i);
        if (is_packed)
            add_sample(writer, path, values);
        else
            write_file(path, bytes, value.nbytes);
        free(bytes);
    }
    if (is_packed)
        assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_dataset_open(path, NULL, dataset, &err));
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    make_all("packed", false, &packed);
    make_all("folder", false, &folder);
    make_all("spoilt", true, &spoilt);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pst_dataset_close(&packed);
    pst_dataset_close(&folder);
    pst_dataset_close(&spoilt);
    remove_tree(directory);
    return 0;
}

/* Epochs
 * ------------------------------------------------------------------------------------------------
 */

static struct pst_op chain[3];
static struct pst_field_output output;

static struct pst_loader_options augmented(void)
{
    pst_op_init(&chain[0], sizeof chain[0], PST_OP_RANDOM_RESIZED_CROP);
    chain[0].height = 24;
    chain[0].width = 20;
    pst_op_init(&chain[1], sizeof chain[1], PST_OP_HORIZONTAL_FLIP);
    pst_op_init(&chain[2], sizeof chain[2], PST_OP_NORMALIZE);
    for (int c = 0; c < 4; c++) {
        chain[2].mean[c] = 0.45f;
        chain[2].std[c] = 0.22f;
    }
    output = (struct pst_field_output){
        .name = "image", .ops = chain, .n_ops = 3, .layout = PST_LAYOUT_CHW};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 6,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 17,
                                       .num_workers = 2,
                                       .fields = &output,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES,
                                       .only_listed = true,
                                       .placement = PST_PLACEMENT_DEVICE,
                                       .jpeg = PST_JPEG_NVJPEG};
}

static void assert_nothing_left(void)
{
    struct fake_nvjpeg_counts nvjpeg;
    struct fake_counts counts;
    fake_nvjpeg_counts(&nvjpeg);
    fake_counts(&counts);
    assert_int_equal(nvjpeg.n_live, 0);
    assert_int_equal(counts.n_live, 0);
    assert_int_equal(counts.live_nbytes, 0);
    assert_int_equal(counts.live_host_nbytes, 0);
}

/* Runs until PST_END or an error, which is returned. */
static enum pst_status run(pst_dataset *dataset, const struct pst_loader_options *options,
                           uint64_t *hashes, size_t *n, struct pst_loader_stats *stats,
                           struct pst_error *err)
{
    pst_loader *loader = open_loader(dataset, options);
    *n = 0;
    enum pst_status status = pst_loader_begin(loader, 3, err);
    if (status == PST_OK)
        status = drain_until(loader, NULL, hashes, n, err);
    if (stats)
        *stats = stats_of(loader);
    pst_loader_close(&loader);
    return status;
}

/* Compares with the CPU, in host memory and on the GPU. */
static void compare(pst_dataset *dataset, const struct pst_loader_options *options,
                    struct pst_loader_stats *stats)
{
    uint64_t found[STEPS_MAX], wanted[STEPS_MAX];
    struct pst_error err, cpu_err;
    size_t n_found, n_wanted;
    pst_error_clear(&err);
    pst_error_clear(&cpu_err);
    enum pst_status status = run(dataset, options, found, &n_found, stats, &err);
    for (int device = 0; device < 2; device++) {
        struct pst_loader_options plain = *options;
        plain.placement = device ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        plain.device_memory = 0;
        plain.jpeg = PST_JPEG_CPU;
        plain.decode = PST_DECODE_AUTO;
        struct pst_loader_stats cpu;
        assert_int_equal(run(dataset, &plain, wanted, &n_wanted, &cpu, &cpu_err), status);
        assert_int_equal(n_found, n_wanted);
        assert_memory_equal(found, wanted, n_found * sizeof *found);
        assert_int_equal(cpu.n_nvjpeg_samples, 0);
        assert_int_equal(stats->n_bad, cpu.n_bad);
        assert_int_equal(stats->n_replaced, cpu.n_replaced);
        if (status == PST_END)
            continue;
        assert_int_equal(err.sample, cpu_err.sample);
        assert_int_equal(err.offset, cpu_err.offset);
        assert_string_equal(err.text, cpu_err.text);
        assert_string_equal(err.codec, cpu_err.codec);
    }
    assert_nothing_left();
}

static void set_engines(bool there)
{
    if (there)
        setenv("PENSTOCK_FAKE_NVJPEG_ENGINES", "2", 1);
    else
        unsetenv("PENSTOCK_FAKE_NVJPEG_ENGINES");
}

static void test_same_as_the_cpus(void **state)
{
    static const uint32_t workers[] = {0, 1, 3};
    static const double shares[] = {0, 0.5};
    (void)state;
    for (uint32_t w = 0; w < 3; w++)
        for (uint32_t s = 0; s < 2; s++)
            for (int engines = 0; engines < 2; engines++)
                for (int memory = 0; memory < 2; memory++) {
                    struct pst_loader_options options = augmented();
                    struct fake_nvjpeg_counts counts;
                    struct pst_loader_stats stats;
                    options.num_workers = workers[w];
                    options.gpu_share = shares[s];
                    options.storage = memory ? PST_STORAGE_MEMORY : PST_STORAGE_THREADS;
                    set_engines(engines);
                    fake_nvjpeg_reset();
                    compare(s ? folder : packed, &options, &stats);
                    fake_nvjpeg_counts(&counts);
                    assert_int_equal(stats.n_jpeg_engines, engines ? 2 : 0);
                    assert_string_equal(stats.nvjpeg_version, "13.1.1");
                    assert_string_not_equal(stats.gpu_fallback_reason, "");
                    /* Lanes decode progressive files, and files without a checksum. */
                    assert_int_equal(counts.n_batch_files > 0, engines && s == 0);
                    assert_true(counts.n[FAKE_NVJPEG_DEVICE] > 0);
                    if (workers[w]) /* workers may not have merged their last counts yet */
                        continue;
                    assert_true(stats.n_nvjpeg_samples > 0);
                    if (s == 0) {
                        assert_int_equal(stats.n_nvjpeg_samples, N_SAMPLES / N_KINDS * 9);
                        assert_int_equal(stats.n_gpu_fallback, N_FALLBACKS);
                    }
                }
    set_engines(false);
}

/* Other fields: no passes, one channel, whole pictures, stored orientation. */
static void test_fields(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct pst_loader_options options = augmented();
        struct pst_loader_stats stats;
        pst_op_init(&chain[0], sizeof chain[0], way == 0 ? PST_OP_RANDOM_CROP : PST_OP_RESIZE);
        chain[0].height = 37;
        chain[0].width = 33;
        output.n_ops = way == 1 ? 1 : 2;
        output.layout = way == 2 ? PST_LAYOUT_CHW : PST_LAYOUT_HWC;
        output.channels = way == 1 ? 1 : way == 2 ? 4 : 3;
        output.dtype = way == 3 ? PST_DTYPE_F16 : PST_DTYPE_U8;
        output.ignore_orientation = way == 3;
        set_engines(way % 2);
        compare(packed, &options, &stats);
        assert_true(stats.n_gpu_samples > 0);
    }
    set_engines(false);
}

static void test_fetch_replay_resume(void **state)
{
    const uint64_t samples[9] = {9, 9, 0, 35, 13, 2, 5, 6, 7}; /* more than a batch holds */
    struct pst_loader_options options = augmented();
    uint64_t hashes[2][4];
    struct pst_error err;
    (void)state;
    set_engines(true);
    for (int gpu = 0; gpu < 2; gpu++) {
        struct pst_loader_state at;
        pst_batch *running, *batch;
        options.placement = gpu ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        options.jpeg = gpu ? PST_JPEG_NVJPEG : PST_JPEG_CPU;
        pst_loader *loader = open_loader(packed, &options);
        assert_ok(pst_loader_begin(loader, 3, &err));
        assert_ok(pst_loader_next(loader, &running, &err));
        assert_ok(pst_loader_fetch(loader, 3, samples, 9, &batch, &err));
        hashes[gpu][0] = hash_batch(batch);
        pst_batch_release(batch);
        assert_ok(pst_loader_replay(loader, 3, 0, &batch, &err));
        hashes[gpu][1] = hash_batch(batch);
        assert_int_equal(hashes[gpu][1], hash_batch(running));
        pst_loader_state(loader, &at);
        pst_loader_close(&loader); /* while batches are under way, and two are held */
        loader = open_loader(packed, &options);
        assert_ok(pst_loader_resume(loader, &at, &err));
        assert_int_equal(hashes[gpu][1], hash_batch(running));
        pst_batch_release(running);
        pst_batch_release(batch);
        assert_ok(pst_loader_next(loader, &batch, &err));
        hashes[gpu][2] = hash_batch(batch);
        assert_ok(pst_loader_begin(loader, 5, &err)); /* the work under way is dropped */
        pst_batch_release(batch);
        assert_ok(pst_loader_next(loader, &batch, &err));
        hashes[gpu][3] = hash_batch(batch);
        pst_batch_release(batch);
        pst_loader_close(&loader);
    }
    assert_memory_equal(hashes[0], hashes[1], sizeof hashes[0]);
    set_engines(false);
    assert_nothing_left();
}

/* Errors
 * ------------------------------------------------------------------------------------------------
 */

/* No checksum covers these files. Corrupt ones are found, and the CPU names the error. */
static void test_corrupt_files(void **state)
{
    static const enum pst_on_error policies[] = {PST_ON_ERROR_RAISE, PST_ON_ERROR_SKIP,
                                                 PST_ON_ERROR_REPLACE};
    (void)state;
    set_engines(true);
    for (int p = 0; p < 3; p++)
        for (uint32_t workers = 0; workers < 3; workers += 2) {
            struct pst_loader_options options = augmented();
            struct pst_loader_stats stats;
            options.on_error = policies[p];
            options.num_workers = workers;
            compare(spoilt, &options, &stats);
            assert_true(p == 0 || stats.n_bad > 0);
        }
    set_engines(false);
}

/* The engines refuse a batch. Files then go singly, and the CPU makes those that are refused again.
 */
static void test_refused_by_engines(void **state)
{
    (void)state;
    set_engines(true);
    for (uint64_t n = 1; n <= 6; n++) {
        struct pst_loader_options options = augmented();
        struct pst_loader_stats stats;
        options.num_workers = 0;
        options.batch_size = 12;
        fake_nvjpeg_fail(FAKE_NVJPEG_BATCH, n, PSTI_NVJ_BAD_JPEG);
        compare(packed, &options, &stats);
        fake_nvjpeg_fail(FAKE_NVJPEG_BATCH, 0, 0);
    }
    /* The engines refuse the file altogether: both calls fail. */
    struct pst_loader_options options = augmented();
    uint64_t hashes[STEPS_MAX];
    struct pst_error err;
    size_t n;
    fake_nvjpeg_fail(FAKE_NVJPEG_BATCH, 2, PSTI_NVJ_EXECUTION_FAILED);
    assert_int_equal(run(packed, &options, hashes, &n, NULL, &err), PST_ERROR_DEVICE);
    assert_non_null(strstr(err.text, "engines"));
    fake_nvjpeg_fail(FAKE_NVJPEG_BATCH, 0, 0);
    set_engines(false);
    assert_nothing_left();
}

/* Results of lanes. After an error of the file the CPU makes the row. An error of the GPU or of
 * memory is the loader's error. */
static void test_refused_by_lanes(void **state)
{
    static const struct {
        enum fake_nvjpeg_what what;
        unsigned result;
        enum pst_status status;
    } cases[] = {
        {FAKE_NVJPEG_HOST, PSTI_NVJ_JPEG_NOT_SUPPORTED, PST_END},
        {FAKE_NVJPEG_HOST, PSTI_NVJ_INTERNAL_ERROR, PST_END},
        {FAKE_NVJPEG_DEVICE, PSTI_NVJ_BAD_JPEG, PST_END},
        {FAKE_NVJPEG_HOST, PSTI_NVJ_ALLOCATOR_FAILURE, PST_ERROR_MEMORY},
        {FAKE_NVJPEG_TRANSFER, PSTI_NVJ_EXECUTION_FAILED, PST_ERROR_DEVICE},
        {FAKE_NVJPEG_DEVICE, PSTI_NVJ_EXECUTION_FAILED, PST_ERROR_DEVICE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int skip = 0; skip < 2; skip++) {
            struct pst_loader_options options = augmented();
            uint64_t hashes[STEPS_MAX], wanted[STEPS_MAX];
            struct pst_loader_stats stats;
            struct pst_error err;
            size_t n, n_wanted;
            options.num_workers = 0;
            options.on_error = skip ? PST_ON_ERROR_SKIP : PST_ON_ERROR_RAISE;
            fake_nvjpeg_fail(cases[i].what, 5, cases[i].result);
            enum pst_status status = run(packed, &options, hashes, &n, &stats, &err);
            fake_nvjpeg_fail(cases[i].what, 0, 0);
            assert_int_equal(status, cases[i].status);
            assert_nothing_left();
            if (status != PST_END)
                continue;
            assert_int_equal(stats.n_bad, 0);
            assert_int_equal(stats.n_gpu_fallback, N_FALLBACKS + 1);
            options.jpeg = PST_JPEG_CPU;
            assert_int_equal(run(packed, &options, wanted, &n_wanted, NULL, &err), PST_END);
            assert_int_equal(n, n_wanted);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
}

/* Memory
 * ------------------------------------------------------------------------------------------------
 */

/* Large pictures among small ones do not fit beside others and come in rounds of their own. nvJPEG
 * decodes them all the same, unless they do not fit into an empty block. */
static void test_rows_without_room(void **state)
{
    static uint8_t pixels[240 * 240 * 3];
    static const struct pst_field fields[1] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1}};
    uint64_t large[8];
    struct pst_error err;
    pst_writer *writer;
    pst_dataset *dataset;
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/sizes", directory);
    assert_ok(pst_writer_open(
        path, fields, 1,
        &(struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options)}, &writer,
        &err));
    /* Every second of 512 samples is examined for the expected sizes, so these 8 are not. */
    for (uint32_t i = 0, k = 0; i < 512; i++) {
        bool is_large = i % 2 == 1 && i % 32 == 1 && k < 8;
        uint32_t edge = is_large ? (k == 7 ? 240 : 40) : 16;
        struct pst_value value = {.form = PST_FORM_JPEG};
        make_pixels(i, edge, edge, pixels);
        uint8_t *bytes = encode_jpeg(pixels, edge, edge, &value.nbytes);
        const struct pst_value *values[1] = {&value};
        char name[16];
        value.bytes = bytes;
        snprintf(name, sizeof name, "%u", i);
        if (is_large)
            large[k++] = i;
        add_sample(writer, name, values);
        free(bytes);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    for (int engines = 0; engines < 2; engines++)
        for (uint32_t workers = 0; workers < 4; workers++) {
            struct pst_loader_options options = augmented();
            struct pst_loader_stats stats;
            set_engines(engines);
            options.batch_size = 8;
            options.indices = large;
            options.n_indices = 8;
            options.num_workers = workers;
            compare(dataset, &options, &stats);
            assert_true(stats.n_gpu_again > 0);
            if (workers == 0) {
                assert_int_equal(stats.n_nvjpeg_samples, 7); /* each of them, and always */
                assert_int_equal(stats.n_cpu_samples, 1);
            }
        }
    set_engines(false);
    pst_dataset_close(&dataset);
}

static void test_budgets(void **state)
{
    struct pst_loader_options options = augmented();
    struct pst_error err;
    pst_loader *loader;
    uint64_t hashes[STEPS_MAX];
    size_t n;
    (void)state;
    loader = open_loader(packed, &options);
    uint64_t at_open = stats_of(loader).device_memory_used;
    assert_ok(pst_loader_begin(loader, 0, &err));
    pst_batch *batch;
    while (pst_loader_next(loader, &batch, &err) == PST_OK)
        pst_batch_release(batch);
    uint64_t later = stats_of(loader).device_memory_used;
    assert_true(later > at_open); /* nvJPEG's memory is counted */
    pst_loader_close(&loader);
    options.device_memory = later + (64 << 20); /* more lanes may have come to work */
    assert_int_equal(run(packed, &options, hashes, &n, NULL, &err), PST_END);
    options.device_memory = at_open + 1000;
    options.on_error = PST_ON_ERROR_SKIP; /* no sample is at fault */
    assert_int_equal(run(packed, &options, hashes, &n, NULL, &err), PST_ERROR_MEMORY);
    assert_non_null(strstr(err.text, "no memory for nvJPEG"));
    assert_non_null(strstr(err.text, "device memory"));
    options.device_memory = 1000;
    assert_int_equal(pst_loader_open(packed, &options, &loader, &err), PST_ERROR_LIMIT);
    assert_nothing_left();
}

static void test_steady_state_does_not_allocate(void **state)
{
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    for (int engines = 0; engines < 2; engines++) {
        struct pst_loader_options options = augmented();
        struct fake_counts counts;
        set_engines(engines);
        options.num_workers =
            0; /* with several workers, some might stay unused, or be used in rounds only */
        pst_loader *loader = open_loader(packed, &options);
        for (int epoch = 0; epoch < 3; epoch++) {
            fake_reset_counts();
            assert_ok(pst_loader_begin(loader, 0, &err));
            while (pst_loader_next(loader, &batch, &err) == PST_OK)
                pst_batch_release(batch);
        }
        fake_counts(&counts);
        assert_int_equal(counts.n[FAKE_ALLOC], 0);
        assert_int_equal(counts.n[FAKE_HOST_ALLOC], 0);
        assert_int_equal(counts.n_made, 0);
        assert_int_equal(counts.n_freed, 0);
        pst_loader_close(&loader);
    }
    set_engines(false);
    assert_nothing_left();
}

/* Slow streams: nothing is written before it was read. */
static void test_slow_gpu(void **state)
{
    (void)state;
    for (int engines = 0; engines < 2; engines++) {
        struct pst_loader_options options = augmented();
        struct pst_loader_stats stats;
        set_engines(engines);
        fake_set_delay(400);
        options.num_workers = 3;
        options.prefetch = 3;
        options.storage = PST_STORAGE_THREADS;
        compare(packed, &options, &stats);
    }
    fake_set_delay(0);
    set_engines(false);
}

/* Each call that makes, decodes or takes memory fails once. */
static void test_faults(void **state)
{
    static const enum fake_what kinds[] = {FAKE_ALLOC, FAKE_HOST_ALLOC};
    (void)state;
    set_engines(true);
    for (uint32_t k = 0; k < FAKE_NVJPEG_KINDS + 2; k++)
        for (uint64_t n = 1;; n++) {
            struct pst_loader_options options = augmented();
            struct fake_nvjpeg_counts counts;
            struct fake_counts driver;
            struct pst_error err;
            pst_loader *loader = NULL;
            pst_batch *batch;
            options.num_workers = 1;
            fake_nvjpeg_reset();
            fake_reset_counts();
            if (k < FAKE_NVJPEG_KINDS)
                fake_nvjpeg_fail(k, n, PSTI_NVJ_EXECUTION_FAILED);
            else
                fake_fail(kinds[k - FAKE_NVJPEG_KINDS], n, PSTI_CU_OUT_OF_MEMORY);
            enum pst_status status = pst_loader_open(packed, &options, &loader, &err);
            if (status == PST_OK)
                status = pst_loader_begin(loader, 0, &err);
            for (int i = 0; status == PST_OK && i < 2; i++) {
                status = pst_loader_next(loader, &batch, &err);
                if (status == PST_OK)
                    pst_batch_release(batch);
            }
            pst_loader_close(&loader);
            fake_nvjpeg_counts(&counts);
            fake_counts(&driver);
            if (k < FAKE_NVJPEG_KINDS)
                fake_nvjpeg_fail(k, 0, 0);
            else
                fake_fail(kinds[k - FAKE_NVJPEG_KINDS], 0, 0);
            assert_nothing_left();
            if ((k < FAKE_NVJPEG_KINDS ? counts.n[k] : driver.n[kinds[k - FAKE_NVJPEG_KINDS]]) < n)
                break;
            if (status != PST_OK) /* else fewer batches were prepared ahead */
                assert_int_equal(status,
                                 k < FAKE_NVJPEG_KINDS ? PST_ERROR_DEVICE : PST_ERROR_MEMORY);
            if (n > 40 && k != FAKE_NVJPEG_CREATE)
                break; /* from here on all are alike */
        }
    set_engines(false);
}

static void refuse(const struct pst_loader_options *options, enum pst_status status,
                   const char *text)
{
    struct pst_error err;
    pst_loader *loader;
    assert_int_equal(pst_loader_open(packed, options, &loader, &err), status);
    assert_null(loader);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in '%s'", text, err.text);
    assert_nothing_left();
}

static void test_refusals(void **state)
{
    struct pst_loader_options options = augmented();
    (void)state;
    options.jpeg = (enum pst_jpeg_decoder)2;
    refuse(&options, PST_ERROR_ARGUMENT, "jpeg 2");
    options.jpeg = PST_JPEG_NVJPEG;
    options.decode = PST_DECODE_CPU;
    refuse(&options, PST_ERROR_ARGUMENT, "jpeg");
    options.decode = PST_DECODE_AUTO;
    options.placement = PST_PLACEMENT_HOST;
    refuse(&options, PST_ERROR_ARGUMENT, "placement");
    options.placement = PST_PLACEMENT_DEVICE;
    setenv("PENSTOCK_NVJPEG", "/nowhere/libnvjpeg.so", 1);
    refuse(&options, PST_ERROR_UNSUPPORTED, "PENSTOCK_NVJPEG: /nowhere");
    setenv("PENSTOCK_NVJPEG", PST_FAKE_NVJPEG, 1);
    setenv("PENSTOCK_FAKE_NVJPEG_VERSION", "9", 1);
    refuse(&options, PST_ERROR_UNSUPPORTED, "nvJPEG 9");
    unsetenv("PENSTOCK_FAKE_NVJPEG_VERSION");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_cpus),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_fetch_replay_resume),
        cmocka_unit_test(test_corrupt_files),
        cmocka_unit_test(test_refused_by_engines),
        cmocka_unit_test(test_refused_by_lanes),
        cmocka_unit_test(test_rows_without_room),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_steady_state_does_not_allocate),
        cmocka_unit_test(test_slow_gpu),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_refusals),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    setenv("PENSTOCK_NVJPEG", PST_FAKE_NVJPEG, 1);
    unsetenv("PENSTOCK_CUDA");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
