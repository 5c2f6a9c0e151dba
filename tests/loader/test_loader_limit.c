/* test_loader_limit.c - a small host_memory only costs time: no good sample is lost, in any order
 * and with any on_error. If a loader opens, it also runs in a loop that holds a batch, also with
 * mosaics. An image that needs more scratch than there can be is refused by its size alone. */
#include "loader/loader_fixture.h"
#include "sanitizer.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SAMPLES = 101, MIB = 1 << 20 };

static pst_dataset *thumbnails, *small;

/* Adds a sample: a JPEG, a pli-jpeg or raw pixels, by turns, of several sizes. */
static void add_thumbnail(pst_writer *writer, uint32_t i)
{
    struct pst_error err;
    uint32_t height = 200 + i * 29 % 240, width = 220 + i * 53 % 250;
    uint8_t *pixels = malloc((size_t)height * width * 3), *file = NULL, *pli = NULL;
    char name[16];
    make_pixels(i, height, width, pixels);
    struct pst_value value = {.form = PST_FORM_RAW,
                              .bytes = pixels,
                              .nbytes = (size_t)height * width * 3,
                              .height = height,
                              .width = width,
                              .channels = 3,
                              .bits = 8};
    if (i % 3) {
        value = (struct pst_value){.form = PST_FORM_JPEG};
        value.bytes = file = encode_jpeg(pixels, height, width, &value.nbytes);
    }
    if (i % 3 == 1) {
        size_t capacity = pst_pli_from_jpeg_bound(value.nbytes), nbytes;
        pli = malloc(capacity);
        assert_ok(pst_pli_from_jpeg(file, value.nbytes, NULL, pli, capacity, &nbytes, &err));
        value = (struct pst_value){.form = PST_FORM_PLI_JPEG, .bytes = pli, .nbytes = nbytes};
    }
    const struct pst_value *values[1] = {&value};
    snprintf(name, sizeof name, "%u", i);
    add_sample(writer, name, values);
    free(pixels);
    free(file);
    free(pli);
}

static int set_up(void **state)
{
    (void)state;
    char path[96];
    struct pst_error err;
    struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    pst_writer *writer;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/thumbnails", directory);
    assert_ok(pst_writer_open(path, &field, 1, NULL, &writer, &err));
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        add_thumbnail(writer, i);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &thumbnails, &err));
    small = open_made(directory, "small",
                      &(struct make_options){.n_samples = 60, .images = MAKE_RAW_SAME});
    return 0;
}

TEAR_DOWN(&thumbnails, &small)

/* Operations with the contrast before the crop, so each row needs scratch memory for the whole
 * picture. */
struct whole_picture {
    struct pst_op chain[2];
    struct pst_field_output output;
};

static struct pst_loader_options whole_picture_options(struct whole_picture *kept)
{
    pst_op_init(&kept->chain[0], sizeof kept->chain[0], PST_OP_COLOR_JITTER);
    kept->chain[0].contrast[0] = 0.5f;
    kept->chain[0].contrast[1] = 1.5f;
    pst_op_init(&kept->chain[1], sizeof kept->chain[1], PST_OP_CENTER_CROP);
    kept->chain[1].height = kept->chain[1].width = 128;
    kept->output = (struct pst_field_output){
        .name = "image", .ops = kept->chain, .n_ops = 2, .dtype = PST_DTYPE_F32};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 8,
                                       .seed = 5,
                                       .fields = &kept->output,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES};
}

/* Hashes of the batches of an epoch. */
struct epoch {
    uint64_t hashes[N_SAMPLES];
    size_t n;
};

static struct epoch epoch_by(const struct pst_loader_options *options,
                             struct pst_loader_stats *stats)
{
    struct pst_error err;
    struct epoch epoch;
    pst_loader *loader = open_loader(thumbnails, options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    epoch.n = drain_epoch(loader, NULL, epoch.hashes);
    *stats = stats_of(loader);
    pst_loader_close(&loader);
    return epoch;
}

static void check_budget(struct pst_loader_options options, uint64_t host_memory,
                         const struct epoch *want)
{
    struct pst_loader_stats stats;
    options.host_memory = host_memory;
    const struct epoch got = epoch_by(&options, &stats);
    assert_int_equal(got.n, want->n);
    assert_int_equal(stats.n_bad, 0);
    assert_memory_equal(got.hashes, want->hashes, got.n * sizeof *got.hashes);
    assert_true(stats.host_memory_peak <= stats.host_memory);
}

/* The memory limits are so low that the workers need the reserve, which they get one after the
 * other. */
static void test_no_good_sample_is_lost(void **state)
{
    (void)state;
    static const uint32_t mib[] = {14, 15, 16, 18, 22};
    const size_t n_mib = TEST_TSAN ? 1 : sizeof mib / sizeof *mib; /* each limit takes minutes */
    struct whole_picture kept;
    struct pst_loader_options options = whole_picture_options(&kept);
    for (int pages = 0; pages < 2; pages++) {
        struct pst_loader_stats stats;
        options.order = pages ? PST_ORDER_PAGES : PST_ORDER_SHUFFLED;
        options.num_workers = 1;
        options.on_error = PST_ON_ERROR_RAISE;
        const struct epoch want = epoch_by(&options, &stats);
        for (int policy = PST_ON_ERROR_SKIP; policy <= PST_ON_ERROR_REPLACE; policy++)
            for (size_t i = 0; i < n_mib; i++)
                for (uint32_t workers = 5; workers <= 7; workers += 2) {
                    options.num_workers = workers;
                    options.on_error = (enum pst_on_error)policy;
                    check_budget(options, (uint64_t)(mib[i] + workers - 5) * MIB, &want);
                }
    }
}

/* A training loop holds each batch until it has the next one. A host_memory that is enough to open
 * a loader is enough for that loop. If it is not, opening fails and says how much is needed. */
static void test_what_opens_runs(void **state)
{
    (void)state;
    struct pst_op resize;
    pst_op_init(&resize, sizeof resize, PST_OP_RESIZE);
    resize.height = resize.width = 384;
    struct pst_field_output output = {
        .name = "image", .ops = &resize, .n_ops = 1, .dtype = PST_DTYPE_F32}; /* 14 MB a batch */
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 8,
                                         .fields = &output,
                                         .n_fields = 1,
                                         TEST_ELEMENT_SIZES};
    uint32_t n_opened = 0, n_refused = 0;
    for (uint32_t workers = 0; workers <= 3; workers++)
        for (uint64_t mib = 10; mib <= 50; mib += TEST_TSAN ? 8 : 4) {
            struct pst_error err;
            pst_loader *loader;
            pst_batch *batch, *last = NULL;
            options.num_workers = workers;
            options.host_memory = mib * MIB;
            enum pst_status status = pst_loader_open(small, &options, &loader, &err);
            if (status != PST_OK) {
                assert_int_equal(status, PST_ERROR_LIMIT);
                assert_non_null(strstr(err.text, "at least"));
                n_refused++;
                continue;
            }
            n_opened++;
            assert_ok(pst_loader_begin(loader, 0, &err));
            while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
                pst_batch_release(last);
                last = batch;
            }
            if (status != PST_END)
                assert_ok(status);
            pst_batch_release(last);
            pst_loader_close(&loader);
        }
    assert_true(n_opened > 0 && n_refused > 0);
}

/* Mosaics of 256 x 256, with operations behind them whose need of scratch differs from row to row.
 */
struct mosaic_kept {
    struct pst_op resize, behind[3];
    struct pst_field_output output;
    struct pst_mix way;
};

static struct pst_loader_options mosaic_options(struct mosaic_kept *kept)
{
    enum { SIDE = 256 };
    pst_op_init(&kept->resize, sizeof kept->resize, PST_OP_RESIZE);
    pst_op_init(&kept->behind[0], sizeof kept->behind[0], PST_OP_AFFINE);
    pst_op_init(&kept->behind[1], sizeof kept->behind[1], PST_OP_SCALE_JITTER);
    pst_op_init(&kept->behind[2], sizeof kept->behind[2], PST_OP_RANDOM_RESIZED_CROP);
    kept->behind[0].degrees[1] = 20;
    kept->behind[1].scale[0] = 0.3f;
    kept->behind[1].scale[1] = 1.8f;
    kept->resize.height = kept->resize.width = SIDE;
    kept->behind[2].height = kept->behind[2].width = SIDE;
    kept->output = (struct pst_field_output){.name = "image", .ops = &kept->resize, .n_ops = 1};
    kept->way = (struct pst_mix){.kind = PST_MIX_MOSAIC,
                                 .ops = kept->behind,
                                 .n_ops = 3,
                                 .op_nbytes = sizeof kept->behind[0]};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 8,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .fields = &kept->output,
                                       .n_fields = 1,
                                       .mixes = &kept->way,
                                       .n_mixes = 1,
                                       .mix_nbytes = sizeof kept->way,
                                       TEST_ELEMENT_SIZES};
}

/* Runs an epoch in a loop that holds a batch until it has the next one. */
static void run_and_hold(const struct pst_loader_options *options, const struct epoch *want)
{
    pst_batch *batch, *last = NULL;
    struct pst_error err;
    enum pst_status status;
    size_t n = 0;
    pst_loader *loader = open_loader(small, options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (; (status = pst_loader_next(loader, &batch, &err)) == PST_OK; last = batch) {
        assert_true(n < want->n && hash_batch(batch) == want->hashes[n++]);
        pst_batch_release(last);
    }
    if (status != PST_END)
        assert_ok(status);
    assert_int_equal(n, want->n);
    assert_true(stats_of(loader).host_memory_peak <= options->host_memory);
    pst_batch_release(last);
    pst_loader_close(&loader);
}

/* Returns what the refusal of a small host_memory says is needed; 0: it is not refused. */
static uint64_t needed_of(struct pst_loader_options options, uint64_t host_memory)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    options.host_memory = host_memory;
    enum pst_status status = pst_loader_open(small, &options, &loader, &err);
    pst_loader_close(&loader);
    if (status == PST_OK)
        return 0;
    const char *at = strstr(err.text, "at least ");
    assert_int_equal(status, PST_ERROR_LIMIT);
    assert_non_null(at);
    assert_int_equal(strstr(err.text, "mosaics and operations behind them") != NULL,
                     options.n_mixes > 0);
    return strtoull(at + strlen("at least "), NULL, 10);
}

/* What an error says is needed is enough for any draw, and a byte less is refused at once. */
static void test_mosaics_that_open_run(void **state)
{
    static const uint64_t more[] = {0, 100000, MIB, 3 * MIB, 9 * MIB};
    struct mosaic_kept kept;
    struct epoch want = {.n = 0};
    (void)state;
    struct pst_loader_options options = mosaic_options(&kept);
    want.n = drain_alone(small, options, 0, want.hashes);
    for (uint32_t workers = 0; workers <= 5; workers++) {
        options.num_workers = workers;
        uint64_t needed = needed_of(options, 6 * MIB);
        assert_true(needed > 6 * MIB);
        assert_int_equal(needed_of(options, needed - 1), needed);
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
            options.host_memory = needed + more[i];
            run_and_hold(&options, &want);
        }
        options.host_memory = 0;
    }
}

/* Page order, which may read thousands of rows ahead, opens with the memory of any other order and
 * its list of reads. */
static void test_page_order_needs_no_more(void **state)
{
    static const uint64_t more[] = {0,      1000, 10000,   30000,   100000,
                                    200000, MIB,  2 * MIB, 3 * MIB, 9 * MIB};
    (void)state;
    for (uint32_t prefetch = 1; prefetch <= 16; prefetch *= 4) {
        struct pst_loader_options options = {.struct_size = sizeof options,
                                             .batch_size = 4,
                                             .order = PST_ORDER_SHUFFLED,
                                             .seed = 5,
                                             .num_workers = 2,
                                             .prefetch = prefetch,
                                             .throttle_bytes_per_second = 1e9};
        struct epoch want = {.n = 0};
        uint64_t shuffled = needed_of(options, MIB);
        options.order = PST_ORDER_PAGES;
        uint64_t needed = needed_of(options, MIB);
        assert_true(needed > MIB && needed < shuffled + 4096);
        assert_int_equal(needed_of(options, needed - 1), needed);
        want.n = drain_alone(small, options, 0, want.hashes);
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
            options.host_memory = needed + more[i];
            run_and_hold(&options, &want);
        }
    }
}

/* The tables of a subset and of weights count as memory of the loader. */
static void test_tables_count(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct pst_error err;
    pst_loader *loader;
    uint64_t *indices = malloc(N * sizeof *indices);
    double *weights = malloc(N * sizeof *weights);
    for (uint32_t i = 0; i < N; i++) {
        indices[i] = i % 60;
        weights[i] = 1;
    }
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 4,
                                         .order = PST_ORDER_SHUFFLED,
                                         .num_workers = 1,
                                         .indices = indices,
                                         .n_indices = N,
                                         .weights = weights,
                                         .host_memory = 64 * MIB};
    loader = open_loader(small, &options);
    assert_true(stats_of(loader).host_memory_used >= N * (sizeof *indices + sizeof *weights));
    pst_loader_close(&loader);
    options.host_memory = 16 * MIB;
    assert_int_equal(pst_loader_open(small, &options, &loader, &err), PST_ERROR_LIMIT);
    free(indices);
    free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_good_sample_is_lost),
        cmocka_unit_test(test_what_opens_runs),
        cmocka_unit_test(test_mosaics_that_open_run),
        cmocka_unit_test(test_page_order_needs_no_more),
        cmocka_unit_test(test_tables_count),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
