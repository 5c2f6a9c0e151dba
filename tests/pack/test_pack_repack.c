/* test_pack_repack.c - tests pst_repack in place: handles that have the old state open, the
 * identity of the data set, cancelling and continuing, failures of the disk. */
#include "folder_pack.h"

#include "base/fault.h"
#include "dataset/dataset.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { N = 12, ITEM_CAP = 1 << 16 };

static const struct pst_writer_options small_shards = {
    .struct_size = sizeof small_shards, .shard_nbytes = 2048, .commit_nbytes = 1};
static const enum pst_form file_form[] = {PST_FORM_NONE};
static const enum pst_form raw_form[] = {PST_FORM_RAW};
static const enum pst_form both_forms[] = {PST_FORM_PLI, PST_FORM_RAW};

/* Packs the files of a folder without re-encoding, into several shards. Returns the data set's
 * path. */
static const char *packed(void **state)
{
    static char path[4096];
    char from[4096];
    struct pst_error err;
    const struct pst_pack_options options = {
        .struct_size = sizeof options, .writer = &small_shards, .forms = file_form, .n_forms = 1};
    make_folder(state, "f", N);
    snprintf(from, sizeof from, "%s", folder_path(state, "f"));
    snprintf(path, sizeof path, "%s", folder_path(state, "d.pst"));
    assert_ok(pst_pack(from, path, &options, NULL, 0, &err));
    return path;
}

static enum pst_status repack(const char *path, const enum pst_form *forms, uint32_t n,
                              pst_progress_fn progress, void *ctx, struct pst_pack_report *report,
                              struct pst_error *err)
{
    const struct pst_pack_options options = {.struct_size = sizeof options,
                                             .writer = &small_shards,
                                             .forms = forms,
                                             .n_forms = n,
                                             .num_workers = 2,
                                             .progress = progress,
                                             .ctx = ctx};
    pst_error_clear(err);
    return pst_repack(path, &options, report, sizeof *report, err);
}

/* Gets the pixel checksum of every sample, and reads all items. */
static void read_all(const pst_dataset *dataset, uint64_t sums[N])
{
    static uint8_t bytes[ITEM_CAP];
    struct pst_item item;
    struct pst_error err;
    assert_int_equal(pst_dataset_count(dataset), N);
    for (uint64_t i = 0; i < N; i++)
        for (uint32_t v = 0; v < pst_dataset_field(dataset, 0)->n_variants; v++) {
            assert_ok(pst_dataset_item(dataset, i, 0, v, &item, sizeof item, &err));
            assert_true(item.nbytes <= sizeof bytes && item.has_pixel_checksum);
            assert_ok(pst_dataset_read(dataset, i, 0, v, 0, item.nbytes, bytes, &err));
            assert_true(v == 0 || sums[i] == item.pixel_checksum);
            sums[i] = item.pixel_checksum;
        }
}

static pst_dataset *open_it(const char *path)
{
    pst_dataset *dataset;
    struct pst_error err;
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static unsigned count_files(const char *path)
{
    DIR *list = opendir(path);
    unsigned n = 0;
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(list);
    return n;
}

static void test_old_handles_go_on(void **state)
{
    const char *path = packed(state);
    struct pst_pack_report report;
    struct pst_error err;
    uint64_t before[N], sums[N];
    uint8_t version[2][16];
    pst_dataset *old = open_it(path); /* a handle that has not opened any shard yet */
    unsigned n_files = count_files(path);
    assert_true(pst_dataset_n_files(old) > 2);
    memcpy(version[0], psti_dataset_bytes_identity(old), PST_IDENTITY_NBYTES);
    assert_ok(repack(path, both_forms, 2, NULL, NULL, &report, &err));
    assert_int_equal(report.n_changed, N);
    assert_int_equal(report.n_kept_files, 0);
    assert_true(report.waits);
    read_all(old, before);

    pst_dataset *now = open_it(path);
    assert_int_equal(pst_dataset_field(now, 0)->n_variants, 2);
    assert_memory_equal(pst_dataset_id(now), pst_dataset_id(old), 16);
    memcpy(version[1], psti_dataset_bytes_identity(now), PST_IDENTITY_NBYTES);
    assert_memory_not_equal(version[0], version[1], 16);
    read_all(now, sums);
    assert_memory_equal(sums, before, sizeof sums);

    /* First a handle still reads the older state, later none does. */
    assert_ok(repack(path, raw_form, 1, NULL, NULL, &report, &err));
    read_all(old, sums);
    read_all(now, sums);
    assert_memory_equal(sums, before, sizeof sums);
    pst_dataset_close(&now);
    pst_dataset_close(&old);
    assert_true(count_files(path) > n_files);
    assert_ok(repack(path, raw_form, 1, NULL, NULL, &report, &err));
    assert_int_equal(report.n_resumed, N);
    assert_false(report.waits);
    assert_int_equal(count_files(path), n_files);
    now = open_it(path);
    read_all(now, sums);
    assert_memory_equal(sums, before, sizeof sums);
    pst_dataset_close(&now);
}

static int stop_in_the_middle(void *ctx, const struct pst_progress *progress)
{
    (void)ctx;
    return progress->n_done >= N / 2;
}

static void test_cancel_and_go_on(void **state)
{
    const char *path = packed(state);
    struct pst_pack_report report;
    struct pst_error err;
    uint64_t before[N], sums[N];
    pst_dataset *dataset = open_it(path);
    read_all(dataset, before);
    pst_dataset_close(&dataset);
    unsigned n_files = count_files(path);
    /* Progress is reported at most ten times a second, but always at the beginning and the end. At
     * the last call everything is done, so it is too late to cancel. */
    enum pst_status status = repack(path, raw_form, 1, stop_in_the_middle, NULL, &report, &err);
    assert_true(status == PST_OK || status == PST_ERROR_CANCELLED);
    assert_ok(repack(path, raw_form, 1, NULL, NULL, &report, &err));
    assert_int_equal(report.n_samples, N);
    assert_int_equal(count_files(path), n_files);
    dataset = open_it(path);
    read_all(dataset, sums);
    assert_memory_equal(sums, before, sizeof sums);
    pst_dataset_close(&dataset);
}

/* Each write fails in turn: the data set is in its old or its new state, and the change can be
 * completed afterwards. */
static void test_failing_disk(void **state)
{
    const char *path = packed(state);
    struct pst_pack_report report;
    struct pst_error err;
    uint64_t before[N], sums[N];
    pst_dataset *dataset = open_it(path);
    unsigned n_files = count_files(path);
    read_all(dataset, before);
    pst_dataset_close(&dataset);
    enum pst_status status = PST_ERROR_IO;
#ifndef PST_FAULTS
    skip();
#else
    for (uint64_t at = 1; status != PST_OK; at++) {
        assert_true(at < 10000);
        psti_fault_arm(PSTI_FAULT_WRITE, at, at % 3 == 0);
        status =
            repack(path, at % 2 ? raw_form : both_forms, at % 2 ? 1 : 2, NULL, NULL, &report, &err);
        psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
        dataset = open_it(path);
        read_all(dataset, sums);
        assert_memory_equal(sums, before, sizeof sums);
        pst_dataset_close(&dataset);
    }
    assert_ok(repack(path, file_form, 1, NULL, NULL, &report, &err));
    assert_int_equal(count_files(path), n_files);
#endif
}

static void test_wrong_calls(void **state)
{
    char path[4096], folder[4096];
    struct pst_pack_report report;
    struct pst_error err;
    snprintf(path, sizeof path, "%s", packed(state));
    snprintf(folder, sizeof folder, "%s", folder_path(state, "f"));
    const struct pst_pack_options none = {.struct_size = sizeof none};
    assert_int_equal(pst_repack(NULL, &none, NULL, 0, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_repack(path, NULL, NULL, 0, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_repack(path, &none, NULL, 0, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(repack(folder, raw_form, 1, NULL, NULL, &report, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "plain folder"));
    pst_writer *writer;
    const struct pst_writer_options appending = {.struct_size = sizeof appending,
                                                 .mode = PST_WRITER_APPEND};
    assert_ok(pst_writer_open(path, NULL, 0, &appending, &writer, &err));
    assert_int_equal(repack(path, raw_form, 1, NULL, NULL, &report, &err), PST_ERROR_BUSY);
    pst_writer_close(&writer);
    assert_ok(repack(path, raw_form, 1, NULL, NULL, &report, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_old_handles_go_on, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_cancel_and_go_on, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_failing_disk, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_calls, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
