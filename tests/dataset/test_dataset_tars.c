/* test_dataset_tars.c - opens tars as data sets: one index is made and used again; files are
 * changed, added, removed, moved and copied; several processes at once; folders that cannot be
 * written. */
#include "containers/tar_helper.h"
#include "folder_test.h"

#include "base/clock.h"
#include "dataset/dataset.h"

#include <penstock/index.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct pst_error err; /* error of the last call */

static int setup(void **state)
{
    int failed = folder_setup(state);
    folder_mkdir(state, "data");
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    return failed;
}

/* Writes n samples with a picture of 40 to 60 bytes, a label and a text. */
static void write_tar(void **state, const char *name, int first, int n)
{
    struct tar tar = {0};
    char member[64], text[64];
    uint8_t picture[64];
    for (int i = first; i < first + n; i++) {
        size_t nbytes = 40 + (size_t)i % 21;
        memset(picture, i, sizeof picture);
        snprintf(member, sizeof member, "a/%04d.jpg", i);
        tar_file(&tar, member, picture, nbytes);
        snprintf(member, sizeof member, "a/%04d.cls", i);
        snprintf(text, sizeof text, "%d\n", i % 10);
        tar_file(&tar, member, text, strlen(text));
        snprintf(member, sizeof member, "a/%04d.txt", i);
        snprintf(text, sizeof text, "picture %d", i);
        tar_file(&tar, member, text, strlen(text));
    }
    tar_zeros(&tar, 1024);
    folder_file(state, name, tar.bytes, tar.nbytes);
    tar_free(&tar);
}

static pst_dataset *open_path(const char *path)
{
    struct pst_dataset_options options = {.struct_size = sizeof options};
    pst_dataset *dataset;
    assert_ok(pst_dataset_open(path, &options, &dataset, &err));
    return dataset;
}

static void assert_sample(const pst_dataset *dataset, uint64_t sample, int i)
{
    char name[PST_NAME_CAP], want[64], bytes[64];
    struct pst_item item;
    int64_t label;
    int image = pst_dataset_find_field(dataset, "image");
    int text = pst_dataset_find_field(dataset, "text");
    snprintf(want, sizeof want, "a/%04d", i);
    assert_ok(pst_dataset_sample_name(dataset, sample, name, &err));
    assert_string_equal(name, want);
    assert_ok(pst_dataset_int(dataset, sample, (uint32_t)pst_dataset_find_field(dataset, "label"),
                              &label, &err));
    assert_int_equal(label, i % 10);
    assert_ok(pst_dataset_item(dataset, sample, (uint32_t)image, 0, &item, sizeof item, &err));
    assert_int_equal(item.nbytes, 40 + i % 21);
    assert_ok(pst_dataset_read(dataset, sample, (uint32_t)image, 0, 0, item.nbytes, bytes, &err));
    for (size_t k = 0; k < item.nbytes; k++)
        assert_int_equal((uint8_t)bytes[k], (uint8_t)i);
    snprintf(want, sizeof want, "picture %d", i);
    assert_ok(pst_dataset_read(dataset, sample, (uint32_t)text, 0, 0, strlen(want), bytes, &err));
    assert_memory_equal(bytes, want, strlen(want));
}

/* Returns the path of the only index in a folder, in static memory, or NULL if there is none. Fails
 * the test if there are two or any other file. */
static const char *only_index(const char *folder, struct stat *st)
{
    static char path[1024];
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    int n = 0;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        n++;
    }
    if (directory != NULL)
        closedir(directory);
    assert_true(n <= 1);
    if (n == 1)
        assert_int_equal(stat(path, st), 0);
    return n == 1 ? path : NULL;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void test_made_once(void **state)
{
    struct stat first, second;
    write_tar(state, "data/t-000.tar", 0, 30);
    write_tar(state, "data/t-001.tar", 30, 12);
    pst_dataset *dataset = open_path(folder_path(state, "data"));
    assert_int_equal(pst_dataset_count(dataset), 42);
    assert_int_equal(pst_dataset_n_files(dataset), 2);
    for (int i = 0; i < 42; i++)
        assert_sample(dataset, (uint64_t)i, i);
    pst_dataset_close(&dataset);
    assert_non_null(only_index(folder_path(state, "data/.penstock"), &first));
    dataset = open_path(folder_path(state, "data"));
    assert_sample(dataset, 35, 35);
    pst_dataset_close(&dataset);
    assert_non_null(only_index(folder_path(state, "data/.penstock"), &second));
    assert_true(is_same_file(&first, &second));
}

/* The functions for indexes make, find and check an index. A plain folder has none. */
static void test_index_door(void **state)
{
    struct pst_dataset_options opening = {.struct_size = sizeof opening};
    struct pst_index_options options = {.struct_size = sizeof options, .source = &opening};
    struct pst_index_report report;
    struct stat st;
    pst_dataset *dataset;
    write_tar(state, "data/t-000.tar", 0, 30);
    const char *path = folder_path(state, "data");
    for (int again = 0; again < 3; again++) {
        options.check = again == 2;
        assert_ok(pst_dataset_index_make(path, &options, &report, sizeof report, &dataset, &err));
        assert_int_equal(report.was_made, again == 0);
        assert_false(report.was_wrong);
        assert_string_equal(pst_dataset_index_path(dataset),
                            only_index(folder_path(state, "data/.penstock"), &st));
        assert_int_equal(report.index_nbytes, st.st_size);
        assert_int_equal(pst_dataset_kind_of(dataset), PST_DATASET_TAR);
        assert_string_equal(pst_dataset_kind_name(pst_dataset_kind_of(dataset)), "tar");
        pst_dataset_close(&dataset);
    }
    folder_mkdir(state, "plain");
    folder_text(state, "plain/a.jpg", "x");
    assert_ok(pst_dataset_index_make(folder_path(state, "plain"), &options, &report, sizeof report,
                                     &dataset, &err));
    assert_null(pst_dataset_index_path(dataset));
    assert_int_equal(pst_dataset_kind_of(dataset), PST_DATASET_FOLDER);
    pst_dataset_close(&dataset);
}

/* A shard was changed, added or removed: the index is made again. */
static void test_shards_change(void **state)
{
    write_tar(state, "data/t-000.tar", 0, 30);
    write_tar(state, "data/t-001.tar", 30, 12);
    pst_dataset *dataset = open_path(folder_path(state, "data")), *old = dataset;
    /* rewrites the tar in place with the same length */
    write_tar(state, "data/t-000.tar", 100, 30);
    dataset = open_path(folder_path(state, "data"));
    assert_int_equal(pst_dataset_count(dataset), 42);
    assert_sample(dataset, 0, 100);
    pst_dataset_close(&dataset);
    /* The data set that is open detects that its shard has changed. */
    char bytes[64];
    int image = pst_dataset_find_field(old, "image");
    assert_int_equal(pst_dataset_read(old, 3, (uint32_t)image, 0, 0, 10, bytes, &err),
                     PST_ERROR_CORRUPT);
    assert_ok(pst_dataset_read(old, 33, (uint32_t)image, 0, 0, 10, bytes, &err));
    pst_dataset_close(&old);
    write_tar(state, "data/t-002.tar", 50, 5);
    dataset = open_path(folder_path(state, "data"));
    assert_int_equal(pst_dataset_count(dataset), 47);
    assert_sample(dataset, 44, 52);
    pst_dataset_close(&dataset);
    assert_int_equal(unlink(folder_path(state, "data/t-001.tar")), 0);
    dataset = open_path(folder_path(state, "data"));
    assert_int_equal(pst_dataset_count(dataset), 35);
    assert_sample(dataset, 30, 50);
    pst_dataset_close(&dataset);
    struct stat st;
    assert_non_null(only_index(folder_path(state, "data/.penstock"), &st));
}

/* A folder that was moved keeps its index. A copy has the same identities, whatever its times. */
static void test_moved_and_copied(void **state)
{
    struct stat first, second;
    uint8_t bytes[16], samples[16], other[16];
    char command[1200];
    write_tar(state, "data/t-000.tar", 0, 30);
    pst_dataset *dataset = open_path(folder_path(state, "data"));
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_BYTES, bytes, &err));
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_SAMPLES, samples, &err));
    pst_dataset_close(&dataset);
    only_index(folder_path(state, "data/.penstock"), &first);
    assert_int_equal(rename(folder_path(state, "data"), folder_path(state, "moved")), 0);
    dataset = open_path(folder_path(state, "moved"));
    assert_sample(dataset, 7, 7);
    pst_dataset_close(&dataset);
    only_index(folder_path(state, "moved/.penstock"), &second);
    assert_true(is_same_file(&first, &second));
    snprintf(command, sizeof command, "cp -r '%s' '%s'", folder_path(state, "moved"),
             folder_path(state, "copied"));
    assert_int_equal(system(command), 0);
    dataset = open_path(folder_path(state, "copied"));
    assert_sample(dataset, 7, 7);
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_BYTES, other, &err));
    assert_memory_equal(bytes, other, 16);
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_SAMPLES, other, &err));
    assert_memory_equal(samples, other, 16);
    pst_dataset_close(&dataset);
}

/* A damaged index is made again, and the data are not affected. */
static void test_damaged_index(void **state)
{
    struct stat st;
    write_tar(state, "data/t-000.tar", 0, 30);
    for (int kind = 0; kind < 4; kind++) {
        pst_dataset *dataset = open_path(folder_path(state, "data"));
        pst_dataset_close(&dataset);
        const char *index = only_index(folder_path(state, "data/.penstock"), &st);
        assert_non_null(index);
        int fd = open(index, O_RDWR);
        assert_true(fd >= 0);
        if (kind == 0)
            assert_int_equal(pwrite(fd, "x", 1, 40), 1); /* header */
        if (kind == 1)
            assert_int_equal(pwrite(fd, "x", 1, 4096 + 3), 1); /* schema */
        if (kind == 2)
            assert_int_equal(ftruncate(fd, st.st_size / 2), 0);
        if (kind == 3)
            assert_int_equal(ftruncate(fd, 0), 0);
        close(fd);
        dataset = open_path(folder_path(state, "data"));
        assert_int_equal(pst_dataset_count(dataset), 30);
        for (int i = 0; i < 30; i++)
            assert_sample(dataset, (uint64_t)i, i);
        pst_dataset_close(&dataset);
    }
}

/* Eight processes open one folder at once: all can read it, and one index is made. */
static void test_processes_at_once(void **state)
{
    enum { N = 8 };
    pid_t children[N];
    struct stat st;
    for (int i = 0; i < 20; i++) {
        char name[64];
        snprintf(name, sizeof name, "data/t-%03d.tar", i);
        write_tar(state, name, 40 * i, 40);
    }
    const char *path = folder_path(state, "data");
    for (int i = 0; i < N; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct pst_dataset_options options = {.struct_size = sizeof options};
            pst_dataset *dataset = NULL;
            enum pst_status status = pst_dataset_open(path, &options, &dataset, NULL);
            _exit(status != PST_OK || pst_dataset_count(dataset) != 800);
        }
    }
    for (int i = 0; i < N; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_non_null(only_index(folder_path(state, "data/.penstock"), &st));
}

/* An unprivileged user may not write to the folder, so the index lies in the cache. */
static void test_no_right_to_write(void **state)
{
    int status;
    write_tar(state, "data/t-000.tar", 0, 30);
    folder_mkdir(state, "cache");
    assert_int_equal(chmod(folder_path(state, "data"), 0555), 0);
    assert_int_equal(chmod(folder_path(state, "cache"), 0777), 0);
    assert_int_equal(chmod(folder_path(state, "."), 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(geteuid() == 0 ? 77 : 1);
        struct pst_dataset_options options = {.struct_size = sizeof options};
        pst_dataset *dataset = NULL;
        if (pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err) != PST_OK)
            _exit(2);
        _exit(pst_dataset_count(dataset) == 30 ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(folder_path(state, "data"), 0755), 0);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    assert_int_equal(access(folder_path(state, "data/.penstock"), F_OK), -1);
    assert_int_equal(access(folder_path(state, "cache/index"), F_OK), 0);
}

/* An error of a tar states the file's name and the place, and no index is left. */
static void test_bad_tars(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options};
    struct stat st;
    pst_dataset *dataset;
    write_tar(state, "data/t-000.tar", 0, 30);
    const char *path = folder_path(state, "data/t-000.tar");
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err),
                     PST_ERROR_TRUNCATED);
    assert_null(dataset);
    assert_non_null(strstr(err.file, "t-000.tar"));
    assert_true(err.offset >= 0);
    assert_null(only_index(folder_path(state, "data/.penstock"), &st));
    folder_text(state, "data/t-000.tar", "this is no tar, and long enough to be read as a header");
    assert_int_not_equal(pst_dataset_open(path, &options, &dataset, &err), PST_OK);
    assert_null(only_index(folder_path(state, "data/.penstock"), &st));
}

static void test_options(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .ignore_labels = true};
    pst_dataset *dataset;
    write_tar(state, "data/train-000.tar", 0, 30);
    write_tar(state, "data/val-000.tar", 30, 12);
    const char *path = folder_path(state, "data");
    assert_int_equal(pst_dataset_open(path, &options, &dataset, &err), PST_ERROR_ARGUMENT);
    options.ignore_labels = false;
    options.no_folder = true;
    assert_int_equal(pst_dataset_open(path, &options, &dataset, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "splits")); /* no_folder concerns only plain folders */
    options.split = "val";
    assert_ok(pst_dataset_open(path, &options, &dataset, &err));
    pst_dataset_close(&dataset);
    options.no_folder = false;
    assert_ok(pst_dataset_open(path, &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 12);
    assert_sample(dataset, 0, 30);
    pst_dataset_close(&dataset);
    const struct pst_member_rule rules[] = {
        {.suffix = "cls", .field = "class", .n_classes = 10, .type = PST_FIELD_INT},
        {.suffix = "txt", .is_left_out = true}};
    options.members = rules;
    options.n_members = 2;
    options.split = "train";
    assert_ok(pst_dataset_open(path, &options, &dataset, &err));
    assert_int_equal(pst_dataset_n_fields(dataset), 2);
    int i_class = pst_dataset_find_field(dataset, "class");
    assert_true(i_class >= 0);
    assert_int_equal(pst_dataset_field(dataset, (uint32_t)i_class)->n_classes, 10);
    pst_dataset_close(&dataset);
    /* Options for splits and rules are refused for a plain folder. */
    folder_mkdir(state, "plain");
    folder_text(state, "plain/a.jpg", "x");
    assert_int_equal(pst_dataset_open(folder_path(state, "plain"), &options, &dataset, &err),
                     PST_ERROR_ARGUMENT);
}

/* With checksums, a changed byte is detected even if size and times of the file are the same. */
static void test_sums(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options};
    uint8_t before[16], after[16];
    struct pst_item item;
    pst_dataset *dataset;
    write_tar(state, "data/t-000.tar", 0, 1500); /* more than one piece of a column */
    write_tar(state, "data/t-001.tar", 1500, 12);
    dataset = open_path(folder_path(state, "data"));
    int image = pst_dataset_find_field(dataset, "image");
    assert_ok(pst_dataset_item(dataset, 3, (uint32_t)image, 0, &item, sizeof item, &err));
    assert_false(item.has_checksum);
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_BYTES, before, &err));
    pst_dataset_close(&dataset);
    options.sums = true;
    assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
    assert_ok(psti_dataset_check_index(dataset, &err));
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_BYTES, after, &err));
    assert_memory_equal(before, after, 16);
    for (int i = 0; i < 1512; i++) {
        assert_ok(
            pst_dataset_item(dataset, (uint64_t)i, (uint32_t)image, 0, &item, sizeof item, &err));
        assert_true(item.has_checksum);
        assert_sample(dataset, (uint64_t)i, i);
    }
    assert_ok(pst_dataset_item(dataset, 1505, (uint32_t)image, 0, &item, sizeof item, &err));
    int fd = open(folder_path(state, "data/t-001.tar"), O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, (off_t)item.offset + 5), 1);
    close(fd);
    pst_dataset_close(&dataset);
    /* A data set that has already checked its file's times detects the byte by the checksum. */
    assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
    char bytes[64];
    assert_ok(pst_dataset_read(dataset, 1504, (uint32_t)image, 0, 0, 40, bytes, &err));
    fd = open(folder_path(state, "data/t-001.tar"), O_RDWR);
    assert_int_equal(pwrite(fd, "y", 1, (off_t)item.offset + 5), 1);
    close(fd);
    assert_int_equal(
        pst_dataset_read(dataset, 1505, (uint32_t)image, 0, 0, item.nbytes, bytes, &err),
        PST_ERROR_CHECKSUM);
    assert_int_equal(err.offset, item.offset);
    pst_dataset_close(&dataset);
    /* An index with checksums is also used if none are asked for. */
    options.sums = false;
    assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
    pst_dataset_close(&dataset);
}

/* Pictures lie beside a tar, because somebody unpacked it: the folder is a plain folder. */
static void test_plain_folders_with_tars(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options};
    pst_dataset *dataset;
    write_tar(state, "data/t-000.tar", 0, 30);
    folder_text(state, "data/train/dog/1.jpg", "x");
    assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
    assert_true(pst_dataset_is_folder(dataset));
    pst_dataset_close(&dataset);
    write_tar(state, "b/t-000.tar", 0, 30);
    folder_text(state, "b/1.JPG", "x");
    assert_ok(pst_dataset_open(folder_path(state, "b"), &options, &dataset, &err));
    assert_true(pst_dataset_is_folder(dataset));
    pst_dataset_close(&dataset);
    write_tar(state, "c/train/t-000.tar", 0, 30);
    write_tar(state, "c/val/t-000.tar", 30, 12);
    folder_text(state, "c/README.md", "x");
    options.split = "val";
    assert_ok(pst_dataset_open(folder_path(state, "c"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 12);
    pst_dataset_close(&dataset);
}

/* A walk that is cancelled leaves nothing behind, and the next one makes the index. */
static int stop(void *context, const struct pst_progress *progress)
{
    (void)progress;
    return ++*(int *)context > 0;
}

static void test_cancelled(void **state)
{
    int n_calls = 0;
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .progress = stop, .progress_ctx = &n_calls};
    struct stat st;
    pst_dataset *dataset;
    write_tar(state, "data/t-000.tar", 0, 30);
    write_tar(state, "data/t-001.tar", 30, 12);
    enum pst_status status = pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err);
    assert_true(status == PST_ERROR_CANCELLED || n_calls == 0);
    if (status == PST_ERROR_CANCELLED)
        assert_null(only_index(folder_path(state, "data/.penstock"), &st));
    else
        pst_dataset_close(&dataset);
    options.progress = NULL;
    assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
    pst_dataset_close(&dataset);
}

/* Waits for some time in its first call, and cancels the work in the second. */
struct watch {
    int n_calls;
    uint64_t nbytes_in;
};

static int stop_later(void *context, const struct pst_progress *progress)
{
    struct watch *watch = context;
    watch->nbytes_in = progress->nbytes_in;
    psti_clock_sleep_until(psti_clock_ns() + 150000000);
    return ++watch->n_calls == 2;
}

/* Progress is reported while a large file is walked over, and not only at its end. */
static void test_cancelled_within_a_file(void **state)
{
    enum { N = 400, NBYTES = 20000 };
    static uint8_t picture[NBYTES];
    struct watch watch = {0};
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .progress = stop_later, .progress_ctx = &watch};
    struct stat st;
    pst_dataset *dataset = NULL;
    struct tar tar = {0};
    char member[64];
    for (int i = 0; i < N; i++) {
        snprintf(member, sizeof member, "a/%04d.jpg", i);
        tar_file(&tar, member, picture, sizeof picture);
    }
    tar_zeros(&tar, 1024);
    folder_file(state, "data/t-000.tar", tar.bytes, tar.nbytes);
    assert_int_equal(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err),
                     PST_ERROR_CANCELLED);
    assert_null(dataset);
    assert_int_equal(watch.n_calls, 2);
    assert_true(watch.nbytes_in > 0 && watch.nbytes_in < tar.nbytes);
    assert_null(only_index(folder_path(state, "data/.penstock"), &st));
    options.progress = NULL;
    assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), N);
    pst_dataset_close(&dataset);
    tar_free(&tar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_once, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_index_door, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_shards_change, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_moved_and_copied, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_damaged_index, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_processes_at_once, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_no_right_to_write, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_bad_tars, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_options, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_sums, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_plain_folders_with_tars, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_within_a_file, setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
