/* test_loader_fallbacks.c - does a loader count the fall-backs that it took itself, and are its
 * batches the same? The test's open() imitates a file system without O_DIRECT. */
#include "base/machine/cpu.h"
#include "loader/loader_fixture.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_SAMPLES = 12, BATCH = 4, N_BATCHES = 3 };

static pst_dataset *packed, *folder;
static atomic_bool refuses_direct;
static atomic_uint n_refused;

static bool refuses(int flags)
{
    if (!(flags & O_DIRECT) || !atomic_load(&refuses_direct))
        return false;
    atomic_fetch_add(&n_refused, 1);
    errno = EINVAL;
    return true;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    return refuses(flags) ? -1 : __real_open(path, flags, 0666);
}

int __wrap_openat(int at, const char *path, int flags, ...)
{
    return refuses(flags) ? -1 : __real_openat(at, path, flags, 0666);
}

/* Makes a folder of progressive JPEG files. libjpeg decodes such a file whole even for a small
 * region. */
static void make_progressive_folder(const char *path)
{
    static uint8_t pixels[96 * 80 * 3];
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        char name[160];
        size_t nbytes;
        make_pixels(i, 96, 80, pixels);
        uint8_t *jpeg = encode_progressive_jpeg(pixels, 96, 80, &nbytes);
        snprintf(name, sizeof name, "%s/%02u.jpg", path, i);
        FILE *file = fopen(name, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(jpeg, 1, nbytes, file), nbytes);
        assert_int_equal(fclose(file), 0);
        free(jpeg);
    }
}

static int set_up(void **state)
{
    struct pst_error err;
    char path[128];
    (void)state;
    make_directory(directory);
    packed = open_made(
        directory, "packed",
        &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_JPEG, .shard_nbytes = 4096});
    snprintf(path, sizeof path, "%s/folder", directory);
    make_progressive_folder(path);
    assert_ok(pst_dataset_open(path, NULL, &folder, &err));
    return 0;
}

TEAR_DOWN(&packed, &folder)

/* Runs one epoch of images cropped to `edge` pixels. 0: whole images, resized. */
static struct pst_loader_stats run(pst_dataset *dataset, enum pst_page_cache page_cache,
                                   uint32_t edge, uint64_t hashes[N_BATCHES])
{
    const struct pst_op op = {.kind = edge ? PST_OP_CENTER_CROP : PST_OP_RESIZE,
                              .height = edge ? edge : 32,
                              .width = edge ? edge : 32,
                              .interpolation = PST_INTERPOLATION_BILINEAR};
    const struct pst_field_output output = {.name = "image", .ops = &op, .n_ops = 1};
    const struct pst_loader_options options = {.struct_size = sizeof options,
                                               .batch_size = BATCH,
                                               .num_workers = 2,
                                               .storage = PST_STORAGE_THREADS,
                                               .page_cache = page_cache,
                                               .fields = &output,
                                               .n_fields = 1,
                                               TEST_ELEMENT_SIZES};
    pst_loader *loader = open_loader(dataset, &options);
    assert_int_equal(run_epoch(loader, 0, hashes), N_BATCHES);
    struct pst_loader_stats stats = stats_of(loader);
    pst_loader_close(&loader);
    return stats;
}

static void files_without_direct_are_counted(void **state)
{
    uint64_t wanted[N_BATCHES], hashes[N_BATCHES];
    pst_dataset *const sets[] = {packed, folder};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(run(sets[i], PST_PAGE_CACHE_KEEP, 0, wanted).n_fallback_direct, 0);
        atomic_store(&refuses_direct, true);
        atomic_store(&n_refused, 0);
        struct pst_loader_stats stats = run(sets[i], PST_PAGE_CACHE_DIRECT, 0, hashes);
        atomic_store(&refuses_direct, false);
        assert_true(stats.n_fallback_direct > 0);
        assert_int_equal(stats.n_fallback_direct, atomic_load(&n_refused));
        assert_memory_equal(hashes, wanted, sizeof hashes);
        assert_int_equal(run(sets[i], PST_PAGE_CACHE_KEEP, 0, hashes).n_fallback_direct, 0);
    }
}

static void images_decoded_whole_for_a_region_are_counted(void **state)
{
    uint64_t hashes[N_BATCHES];
    (void)state;
    assert_int_equal(run(folder, PST_PAGE_CACHE_KEEP, 24, hashes).n_fallback_region, N_SAMPLES);
    assert_int_equal(run(folder, PST_PAGE_CACHE_KEEP, 0, hashes).n_fallback_region, 0);
    /* libjpeg decodes a region of a baseline file without the rest. */
    assert_int_equal(run(packed, PST_PAGE_CACHE_KEEP, 24, hashes).n_fallback_region, 0);
}

/* On a CPU with vector code, usual JPEGs do not need libjpeg-turbo's decoder. */
static void jpegs_left_to_libjpeg_are_counted(void **state)
{
    uint64_t hashes[N_BATCHES];
    bool is_faster = psti_cpu_features() & (PSTI_CPU_AVX2 | PSTI_CPU_NEON);
    (void)state;
    for (uint32_t edge = 0; edge <= 24; edge += 24) {
        struct pst_loader_stats stats = run(folder, PST_PAGE_CACHE_KEEP, edge, hashes);
        assert_int_equal(stats.fallbacks[PST_FALLBACK_LIBJPEG], is_faster ? N_SAMPLES : 0);
        stats = run(packed, PST_PAGE_CACHE_KEEP, edge, hashes);
        assert_int_equal(stats.fallbacks[PST_FALLBACK_LIBJPEG], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_without_direct_are_counted),
        cmocka_unit_test(images_decoded_whole_for_a_region_are_counted),
        cmocka_unit_test(jpegs_left_to_libjpeg_are_counted),
    };
    alarm(300);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
