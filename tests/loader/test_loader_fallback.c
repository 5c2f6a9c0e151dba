/* test_loader_fallback.c - each fall-back is provoked and must be counted under its name, and a
 * loader that needs none counts none. */
#include "base/machine/cpu.h"
#include "base/fault.h"
#include "loader/loader_fixture.h"
#include "loader/loader_fallback.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static pst_dataset *raw, *png, *jpeg, *folder;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    raw = open_made(directory, "raw",
                    &(struct make_options){.n_samples = 60, .images = MAKE_RAW_SAME});
    png = open_made(directory, "png", &(struct make_options){.n_samples = 40, .images = MAKE_PNG});
    jpeg =
        open_made(directory, "jpeg", &(struct make_options){.n_samples = 40, .images = MAKE_JPEG});
    folder = open_made_folder(directory, "folder", 3, 15);
    return 0;
}

TEAR_DOWN(&raw, &png, &jpeg, &folder)

struct kept {
    struct pst_op op;
    struct pst_field_output output;
};

/* Returns options for batches of 8 images of one size, with 2 workers. */
static struct pst_loader_options options_of(struct kept *kept, enum pst_op_kind kind, uint32_t side)
{
    pst_op_init(&kept->op, sizeof kept->op, kind);
    kept->op.height = kept->op.width = side;
    kept->output = (struct pst_field_output){.name = "image", .ops = &kept->op, .n_ops = 1};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 8,
                                       .order = PST_ORDER_SHUFFLED,
                                       .num_workers = 2,
                                       .storage = PST_STORAGE_THREADS,
                                       .fields = &kept->output,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES};
}

/* Runs two epochs and returns the counters. */
static struct pst_loader_stats run(pst_dataset *dataset, const struct pst_loader_options *options)
{
    uint64_t hashes[256];
    pst_loader *loader = open_loader(dataset, options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        run_epoch(loader, epoch, hashes);
    }
    struct pst_loader_stats stats = stats_of(loader);
    pst_loader_close(&loader);
    return stats;
}

static void test_names(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (; pst_fallback_name(n); n++) {
        assert_non_null(pst_fallback_text(n));
        for (uint32_t i = 0; i < n; i++)
            assert_string_not_equal(pst_fallback_name(i), pst_fallback_name(n));
    }
    assert_int_equal(n, PST_FALLBACK_LIBJPEG + 1);
    assert_null(pst_fallback_text(n));
    assert_null(pst_fallback_name(UINT32_MAX));
    assert_string_equal(pst_fallback_name(PST_FALLBACK_URING), "uring");
}

static void test_none_where_none_is_taken(void **state)
{
    (void)state;
    struct kept kept;
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 32);
    struct pst_loader_stats stats = run(raw, &options);
    for (uint32_t i = 0; i < PST_FALLBACKS_MAX; i++)
        if (i != PST_FALLBACK_HUGE_PAGES && i != PST_FALLBACK_CPU) /* both depend on the machine */
            assert_int_equal(stats.fallbacks[i], 0);
}

static void test_png(void **state)
{
    (void)state;
    struct kept kept;
    struct pst_loader_options options = options_of(&kept, PST_OP_RANDOM_RESIZED_CROP, 8);
    kept.op.scale[0] = kept.op.scale[1] = 0.01f;
    struct pst_loader_stats stats = run(png, &options);
    /* libpng decodes crops at the top of an image; for other crops the whole image is inflated. */
    assert_true(stats.fallbacks[PST_FALLBACK_LIBPNG] > 0);
    assert_true(stats.fallbacks[PST_FALLBACK_REGION] > 0);
    assert_int_equal(stats.fallbacks[PST_FALLBACK_REGION], stats.n_fallback_region);
    assert_int_equal(stats.fallbacks[PST_FALLBACK_LIBPNG] + stats.fallbacks[PST_FALLBACK_REGION],
                     80);
}

static void test_scaled_decode(void **state)
{
    (void)state;
    struct kept kept;
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 8);
    kept.output.scaled_decode = true;
    assert_int_equal(run(jpeg, &options).fallbacks[PST_FALLBACK_SCALED], 80);
}

static void test_memory(void **state)
{
    (void)state;
    struct kept kept;
    /* a batch takes 1.5 MB */
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 256);
    options.host_memory = 10 * MIB;
    options.prefetch = 8;
    struct pst_loader_stats stats = run(raw, &options);
    assert_true(stats.fallbacks[PST_FALLBACK_SLOTS] >= 4 &&
                stats.fallbacks[PST_FALLBACK_SLOTS] <= 7);
    /* Rows differ in size, so a batch takes 8 to 8.5 MiB, depending on the workers' timing. The
     * memory is enough for one batch at a time. */
    kept.op.height = 150;
    kept.op.width = 0;
    options.batch_size = 20;
    options.host_memory = 10 * MIB;
    options.prefetch = 4;
    assert_true(run(jpeg, &options).fallbacks[PST_FALLBACK_AHEAD] > 0);
}

/* A contrast operation before the crop needs the whole picture, 800 KB, in scratch memory. */
static void test_reserve(void **state)
{
    (void)state;
    struct pst_op chain[3];
    pst_op_init(&chain[0], sizeof chain[0], PST_OP_RESIZE);
    chain[0].height = chain[0].width = 512;
    pst_op_init(&chain[1], sizeof chain[1], PST_OP_COLOR_JITTER);
    chain[1].contrast[0] = chain[1].contrast[1] = 0.5f;
    pst_op_init(&chain[2], sizeof chain[2], PST_OP_CENTER_CROP);
    chain[2].height = chain[2].width = 16;
    struct kept kept;
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 8);
    kept.output.ops = chain;
    kept.output.n_ops = 3;
    options.num_workers = 6;
    options.host_memory = 11 * MIB;
    struct pst_loader_stats stats = run(raw, &options);
    assert_true(stats.fallbacks[PST_FALLBACK_RESERVE] > 0);
    assert_int_equal(stats.n_bad, 0);
}

static void test_page_hint(void **state)
{
    (void)state;
    struct kept kept;
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 32);
    options.order = PST_ORDER_PAGES;
    options.page_samples = 4;
    options.window_pages = 2;
    options.num_workers = 0; /* workers read ahead, and give no hint */
    assert_int_equal(run(raw, &options).fallbacks[PST_FALLBACK_PAGE_HINT], 0);
    assert_true(run(folder, &options).fallbacks[PST_FALLBACK_PAGE_HINT] > 0);
}

/* Memory and file hints are refused by the kernel. */
static void test_hints_refused(void **state)
{
    (void)state;
    struct kept kept;
    /* a batch takes 6 MB */
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 512);
    options.page_cache = PST_PAGE_CACHE_DROP;
    psti_fault_arm(PSTI_FAULT_ADVICE, 1, true);
    struct pst_loader_stats stats = run(raw, &options);
    psti_fault_arm(PSTI_FAULT_ADVICE, 0, false);
    assert_true(stats.fallbacks[PST_FALLBACK_ADVICE] >= 120);
    assert_true(stats.fallbacks[PST_FALLBACK_HUGE_PAGES] >= 2);
    assert_int_equal(run(raw, &options).fallbacks[PST_FALLBACK_ADVICE], 0);
}

/* The caller's thread reads without io_uring, and the loader says why. */
static void test_no_workers(void **state)
{
    (void)state;
    struct kept kept;
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 32);
    options.num_workers = 0;
    options.storage = PST_STORAGE_AUTO;
    struct pst_loader_stats stats = run(raw, &options);
    assert_int_equal(stats.storage, PST_STORAGE_THREADS);
    assert_non_null(strstr(stats.storage_reason, "calling thread"));
}

static void test_cpu_rooms(void **state)
{
    (void)state;
    const uint32_t avx2 = PSTI_CPU_AVX2, avx512 = avx2 | PSTI_CPU_AVX512;
    const uint32_t all = avx512 | PSTI_CPU_AVX512_ICL;
    char text[96];
    assert_int_equal(psti_loader_cpu_rooms(all, text, sizeof text), 0);
    assert_string_equal(text, "augment avx512, pli avx512, png avx2");
    assert_int_equal(psti_loader_cpu_rooms(avx512, text, sizeof text), 1);
    assert_string_equal(text, "augment avx512, pli avx2, png avx2");
    assert_int_equal(psti_loader_cpu_rooms(avx2, text, sizeof text), 0);
    assert_string_equal(text, "augment avx2, pli avx2, png avx2");
    assert_int_equal(psti_loader_cpu_rooms(0, text, sizeof text), 0);
    assert_string_equal(text, "augment c, pli c, png c");
}

static void test_unknown_mask(void **state)
{
    (void)state;
    struct kept kept;
    struct pst_loader_options options = options_of(&kept, PST_OP_RESIZE, 32);
    struct pst_error err;
    pst_loader *loader = NULL;
    pst_dataset *dataset = NULL;
    const char *before = getenv("PENSTOCK_CPU_MASK");
    char *saved = before ? strdup(before) : NULL;
    setenv("PENSTOCK_CPU_MASK", "avx-2", 1);
    assert_int_equal(pst_loader_open(raw, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_null(loader);
    assert_non_null(strstr(err.text, "PENSTOCK_CPU_MASK is \"avx-2\": c, avx2, avx512 or neon"));
    assert_int_equal(pst_dataset_open(pst_dataset_path(raw), NULL, &dataset, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_environment_check(&err), PST_ERROR_ARGUMENT);
    static const char *const good[] = {"", "c", "avx2", "avx512", "neon"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        setenv("PENSTOCK_CPU_MASK", good[i], 1);
        assert_ok(pst_environment_check(&err));
    }
    unsetenv("PENSTOCK_CPU_MASK");
    assert_ok(pst_environment_check(&err));
    if (saved)
        setenv("PENSTOCK_CPU_MASK", saved, 1);
    free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),        cmocka_unit_test(test_none_where_none_is_taken),
        cmocka_unit_test(test_png),          cmocka_unit_test(test_scaled_decode),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_page_hint),    cmocka_unit_test(test_hints_refused),
        cmocka_unit_test(test_no_workers),   cmocka_unit_test(test_cpu_rooms),
        cmocka_unit_test(test_unknown_mask),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
