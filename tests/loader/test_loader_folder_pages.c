/* test_loader_folder_pages.c - tests the page-aware order of a plain folder: the files of a
 * window are opened in the order of their inodes, as the kernel reports, and batches do not
 * depend on it. */
#include "test.h"

#include "loader/loader_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_CLASSES 4
#define N_EACH 64
#define N_SAMPLES (N_CLASSES * N_EACH)
#define PAGE 8
#define WINDOW 4
#define N_WINDOW (PAGE * WINDOW)
#define BATCH 8

static void name_of(char path[256], const char *folder, uint32_t class, const char *name)
{
    snprintf(path, 256, "%s/%s/class%02u/%s", directory, folder, class, name);
}

/* Renames the files, so that the order of names differs from the order in which the files were
 * made. */
static void shuffle_names(const char *folder, uint32_t step)
{
    char from[256], to[256], name[64];
    for (uint32_t c = 0; c < N_CLASSES; c++)
        for (int round = 0; round < 2; round++)
            for (uint32_t i = 0; i < N_EACH; i++) {
                snprintf(name, sizeof name, round ? "%04u.new" : "%04u.jpg", i);
                name_of(from, folder, c, name);
                snprintf(name, sizeof name, round ? "%04u.jpg" : "%04u.new",
                         round ? i : i * step % N_EACH);
                name_of(to, folder, c, name);
                assert_int_equal(rename(from, to), 0);
            }
}

static void copy_file(const char *from, const char *to)
{
    static unsigned char bytes[1 << 20];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    fclose(out);
}

/* Copies the files with their names but in another order, so that their inodes differ. */
static void copy_folder(const char *from, const char *to)
{
    char source[256], target[256], name[64];
    snprintf(target, sizeof target, "%s/%s", directory, to);
    assert_int_equal(mkdir(target, 0777), 0);
    for (uint32_t c = 0; c < N_CLASSES; c++) {
        name_of(target, to, c, "");
        assert_int_equal(mkdir(target, 0777), 0);
    }
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        uint32_t k = N_SAMPLES - 1 - i;
        snprintf(name, sizeof name, "%04u.jpg", k % N_EACH);
        name_of(source, from, k / N_EACH, name);
        name_of(target, to, k / N_EACH, name);
        copy_file(source, target);
    }
}

static int set_up(void **state)
{
    (void)state;
    pst_dataset *dataset;
    make_directory(directory);
    dataset = open_made_folder(directory, "photos", N_CLASSES, N_EACH);
    pst_dataset_close(&dataset);
    shuffle_names("photos", 27);
    copy_folder("photos", "copy");
    return 0;
}

static pst_dataset *open_folder(const char *name)
{
    struct pst_error err;
    pst_dataset *dataset = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), N_SAMPLES);
    return dataset;
}

static struct pst_loader_options page_options(void)
{
    static struct pst_op crop;
    static struct pst_field_output image;
    pst_op_init(&crop, sizeof crop, PST_OP_RANDOM_RESIZED_CROP);
    crop.height = crop.width = 16;
    image = (struct pst_field_output){.name = "image", .ops = &crop, .n_ops = 1};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_PAGES,
                                       .page_samples = PAGE,
                                       .window_pages = WINDOW,
                                       .seed = 3,
                                       .num_workers = 2,
                                       .prefetch = 2 * N_WINDOW / BATCH,
                                       .storage = PST_STORAGE_THREADS,
                                       .fields = &image,
                                       .n_fields = 1,
                                       .only_listed = true,
                                       TEST_ELEMENT_SIZES};
}

/* Sample at each position of the epoch. */
static uint64_t samples[N_SAMPLES];
static size_t n_samples;

static void collect(pst_loader *loader, const pst_batch *batch)
{
    (void)loader;
    const int64_t *indices = pst_batch_index(batch);
    for (uint32_t i = 0; i < pst_batch_count(batch); i++)
        samples[n_samples++] = (uint64_t)indices[i];
}

/* Records the files that are opened in the class folders, as the kernel reports them. */
struct watch {
    int fd, folders[N_CLASSES];
};

/* Begins to watch the folder. Returns false if this kernel cannot. */
static bool watch_open(struct watch *watch, const char *folder)
{
    char path[256];
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0)
        return false;
    for (uint32_t c = 0; c < N_CLASSES; c++) {
        name_of(path, folder, c, "");
        watch->folders[c] = inotify_add_watch(watch->fd, path, IN_OPEN);
        assert_true(watch->folders[c] >= 0);
    }
    return true;
}

/* Returns the samples whose files were opened, in the order of opening. Samples are sorted by
 * class, then name. */
static size_t watch_take(struct watch *watch, uint64_t *opened, size_t n_max)
{
    static char events[1 << 16] __attribute__((aligned(8)));
    size_t n = 0;
    ssize_t nbytes;
    while ((nbytes = read(watch->fd, events, sizeof events)) > 0)
        for (char *at = events; at < events + nbytes;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            for (uint32_t c = 0; c < N_CLASSES && event->len > 0; c++)
                if (event->wd == watch->folders[c] && n < n_max)
                    opened[n++] = c * N_EACH + (uint64_t)atoi(event->name);
            at += sizeof *event + event->len;
        }
    return n;
}

static ino_t inode_of(const pst_dataset *dataset, uint64_t sample)
{
    char path[4096];
    struct stat st;
    struct pst_error err;
    assert_ok(pst_dataset_file_path(dataset, (uint32_t)sample, path, sizeof path, &err));
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Checks that a window's files are opened in the order of inodes, before those of the next
 * window. */
static void check_opened(const pst_dataset *dataset, uint64_t *opened)
{
    size_t n_by_name = 0;
    for (size_t w = 0; w < N_SAMPLES; w += N_WINDOW) {
        for (size_t i = w + 1; i < w + N_WINDOW; i++) {
            assert_true(inode_of(dataset, opened[i - 1]) < inode_of(dataset, opened[i]));
            n_by_name += opened[i - 1] < opened[i];
        }
        qsort(opened + w, N_WINDOW, sizeof *opened, compare);
        qsort(samples + w, N_WINDOW, sizeof *samples, compare);
        assert_memory_equal(opened + w, samples + w, N_WINDOW * sizeof *opened);
    }
    assert_true(n_by_name < N_SAMPLES * 3 / 4); /* names and inodes are in different orders */
}

static void test_opened_by_inode(void **state)
{
    (void)state;
    static uint64_t opened[2 * N_SAMPLES], hashes[N_SAMPLES];
    struct watch watch;
    if (!watch_open(&watch, "photos"))
        skip();
    pst_dataset *dataset = open_folder("photos");
    struct pst_loader_options options = page_options();
    options.io_threads = 1;
    options.throttle_latency_seconds = 1e-6; /* a latency makes the loader gather rows */
    pst_loader *loader = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        n_samples = 0;
        (void)watch_take(&watch, opened, 2 * (size_t)N_SAMPLES);
        begin_epoch(loader, epoch);
        assert_int_equal(drain_epoch(loader, collect, hashes), N_SAMPLES / BATCH);
        assert_int_equal(watch_take(&watch, opened, 2 * (size_t)N_SAMPLES), N_SAMPLES);
        check_opened(dataset, opened);
    }
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(stats.n_reads, 3 * N_SAMPLES);
    assert_int_equal(stats.n_ordered_reads, 3 * N_SAMPLES);
    assert_int_equal(stats.n_merged_reads, 0);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
    close(watch.fd);
}

/* Batches are bit-identical for any way of reading and any order of inodes. */
static void test_same_batches(void **state)
{
    (void)state;
    static uint64_t expected[N_SAMPLES], hashes[N_SAMPLES];
    for (int way = 0; way < 12; way++) {
        pst_dataset *dataset = open_folder(way % 2 ? "copy" : "photos");
        struct pst_loader_options options = page_options();
        options.num_workers = (uint32_t)way / 2;
        options.prefetch = 1 + (uint32_t)way;
        options.storage = way % 3 == 0   ? PST_STORAGE_THREADS
                          : way % 3 == 1 ? PST_STORAGE_AUTO
                                         : PST_STORAGE_MEMORY;
        options.page_cache = (enum pst_page_cache)(way / 3 % 3);
        options.throttle_latency_seconds = way > 5 ? 1e-6 : 0;
        pst_loader *loader = open_loader(dataset, &options);
        size_t n = run_epoch(loader, 2, way ? hashes : expected);
        assert_int_equal(n, N_SAMPLES / BATCH);
        if (way)
            assert_memory_equal(hashes, expected, n * sizeof *hashes);
        if (way > 5 && way % 3 < 2)
            assert_true(stats_of(loader).n_ordered_reads > N_SAMPLES / 2);
        pst_loader_close(&loader);
        pst_dataset_close(&dataset);
    }
}

/* A missing file is a bad sample; all other samples are delivered. */
static void test_lost_file(void **state)
{
    (void)state;
    static uint64_t hashes[2 * N_SAMPLES];
    struct pst_error err;
    char lost[256], kept[256];
    pst_dataset *dataset = open_folder("copy");
    name_of(lost, "copy", 1, "0005.jpg");
    name_of(kept, "copy", 1, "0005.kept");
    assert_int_equal(rename(lost, kept), 0);
    for (int kind = PST_STORAGE_AUTO; kind <= PST_STORAGE_THREADS; kind++) {
        struct pst_loader_options options = page_options();
        options.storage = (enum pst_storage_kind)kind;
        options.on_error = PST_ON_ERROR_SKIP;
        options.throttle_latency_seconds = 1e-6;
        pst_loader *loader = open_loader(dataset, &options);
        n_samples = 0;
        assert_ok(pst_loader_begin(loader, 0, &err));
        (void)drain_epoch(loader, collect, hashes);
        assert_int_equal(n_samples, N_SAMPLES - 1);
        for (size_t i = 0; i < n_samples; i++)
            assert_true(samples[i] != N_EACH + 5);
        assert_int_equal(stats_of(loader).n_bad, 1);
        pst_loader_close(&loader);
    }
    assert_int_equal(rename(kept, lost), 0);
    pst_dataset_close(&dataset);
}

/* A file that this user may not read ends the epoch, as in any order, because the image is not at
 * fault. Once permitted, the next epoch is complete. */
static void test_lacking_permission(void **state)
{
    (void)state;
    static uint64_t hashes[2 * N_SAMPLES];
    struct pst_error err;
    char closed[256];
    bool root = geteuid() == 0;
    size_t n;
    pst_dataset *dataset = open_folder("copy");
    name_of(closed, "copy", 2, "0009.jpg");
    assert_int_equal(chmod(directory, 0755), 0);
    for (int kind = PST_STORAGE_AUTO; kind <= PST_STORAGE_THREADS; kind++) {
        struct pst_loader_options options = page_options();
        options.storage = (enum pst_storage_kind)kind;
        options.on_error = PST_ON_ERROR_SKIP;
        options.throttle_latency_seconds = 1e-6;
        assert_int_equal(chmod(closed, 0), 0);
        assert_true(!root || seteuid(65534) == 0);
        pst_loader *loader = open_loader(dataset, &options);
        assert_ok(pst_loader_begin(loader, 0, &err));
        enum pst_status status = drain_until(loader, NULL, hashes, &n, &err);
        assert_true(!root || seteuid(0) == 0);
        assert_int_equal(status, PST_ERROR_IO);
        assert_int_equal(err.os_error, EACCES);
        assert_non_null(strstr(err.file, "class02/0009.jpg"));
        assert_int_equal(err.sample, 2 * N_EACH + 9);
        assert_int_equal(chmod(closed, 0644), 0);
        assert_int_equal(run_epoch(loader, 1, hashes), N_SAMPLES / BATCH);
        pst_loader_close(&loader);
    }
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opened_by_inode),
        cmocka_unit_test(test_same_batches),
        cmocka_unit_test(test_lost_file),
        cmocka_unit_test(test_lacking_permission),
    };
    return cmocka_run_group_tests(tests, set_up, directory_tear_down);
}
