/* test_dataset_sums.c - checksums of items in tars and zips: errors while they are made, those that
 * a zip states, those that a reader notes, and full disks. */
#include "containers/tar_helper.h"
#include "containers/zip_helper.h"
#include "folder_test.h"

#include "base/fault.h"
#include "dataset/dataset.h"
#include "dataset/dataset_members.h"

#include <penstock/index.h>
#include <penstock/penstock.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct pst_error err; /* of the last call */

static int setup(void **state)
{
    int failed = folder_setup(state);
    folder_mkdir(state, "data");
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    return failed;
}

/* Writes a tar of n samples with a picture of 60 bytes. */
static void write_tar(void **state, const char *name, int first, int n)
{
    struct tar tar = {0};
    char member[64];
    uint8_t picture[60];
    for (int i = first; i < first + n; i++) {
        memset(picture, i, sizeof picture);
        snprintf(member, sizeof member, "%04d.jpg", i);
        tar_file(&tar, member, picture, sizeof picture);
    }
    tar_zeros(&tar, 1024);
    folder_file(state, name, tar.bytes, tar.nbytes);
    tar_free(&tar);
}

static pst_dataset *open_data(void **state, bool sums)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .sums = sums};
    pst_dataset *dataset;
    assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
    return dataset;
}

/* Files in a folder of indexes, of which each is one. */
static int count_files(const char *folder)
{
    int n = 0;
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        size_t nbytes = strlen(entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        assert_true(nbytes > 6 && strcmp(entry->d_name + nbytes - 6, ".index") == 0);
        n++;
    }
    if (directory != NULL)
        closedir(directory);
    return n;
}

static struct pst_item item_of(const pst_dataset *dataset, uint64_t sample)
{
    struct pst_item item;
    int image = pst_dataset_find_field(dataset, "image");
    assert_ok(pst_dataset_item(dataset, sample, (uint32_t)image, 0, &item, sizeof item, &err));
    return item;
}

/* Errors -------------------------------------------------------------------------------------- */

/* Cuts a tar while its items are summed: the samples that were told are those of the first piece.
 */
static int cut(void *context, const struct pst_progress *progress)
{
    const struct timespec wait = {.tv_nsec = 150000000}; /* so that the next one is told, too */
    if (progress->n_total > 0 && progress->n_done >= 1024)
        assert_int_equal(truncate(context, 3000 * 512), 0);
    else
        nanosleep(&wait, NULL);
    return 0;
}

static void a_tar_that_is_cut_meanwhile(void **state)
{
    char path[1024];
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .sums = true, .progress = cut, .progress_ctx = path};
    pst_dataset *dataset;
    write_tar(state, "data/t.tar", 0, 2000); /* two pieces of a column */
    snprintf(path, sizeof path, "%s", folder_path(state, "data/t.tar"));
    assert_int_equal(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err),
                     PST_ERROR_TRUNCATED);
    assert_int_equal(err.status, PST_ERROR_TRUNCATED);
    assert_int_equal(err.offset, 3001 * 512);
    assert_int_equal(err.sample, 1500);
    assert_non_null(strstr(err.file, "t.tar"));
    assert_int_equal(count_files(folder_path(state, "data/.penstock")), 0);
}

static void an_index_that_everybody_may_write(void **state)
{
    int folder, index;
    pst_dataset *again;
    write_tar(state, "data/t.tar", 0, 20);
    pst_dataset *dataset = open_data(state, false);
    assert_true(psti_dataset_container_fds(dataset, &folder, &index));
    assert_ok(psti_dataset_open_by_fds(folder, index, &again, &err));
    assert_int_equal(pst_dataset_count(again), 20);
    pst_dataset_close(&again);
    assert_int_equal(chmod(pst_dataset_index_path(dataset), 0666), 0);
    assert_int_equal(psti_dataset_open_by_fds(folder, index, &again, &err), PST_ERROR_STATE);
    assert_null(again);
    assert_non_null(strstr(err.text, "everybody"));
    assert_int_equal(chmod(pst_dataset_index_path(dataset), 0664), 0);
    assert_ok(psti_dataset_open_by_fds(folder, index, &again, &err));
    pst_dataset_close(&again);
    pst_dataset_close(&dataset);
}

/* Zips ---------------------------------------------------------------------------------------- */

/* Writes a zip of four pictures, every other one deflated. */
static void write_zip(void **state, const char *name)
{
    struct zip zip = {0};
    char names[4][32];
    uint8_t pictures[4][200];
    for (int i = 0; i < 4; i++) {
        snprintf(names[i], sizeof names[i], "%04d.jpg", i);
        for (int k = 0; k < 200; k++)
            pictures[i][k] = (uint8_t)(i + k % 7);
        zip_member(&zip, &(struct zip_member){.name = names[i],
                                              .content = pictures[i],
                                              .nbytes = sizeof pictures[i],
                                              .is_deflated = i % 2 == 1});
    }
    zip_end(&zip, &(struct zip_end){0});
    folder_file(state, name, zip.file.bytes, zip.file.nbytes);
    zip_free(&zip);
}

static void change_byte(const char *path, uint64_t offset)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static enum pst_status read_sample(const pst_dataset *dataset, uint64_t sample)
{
    uint8_t bytes[200];
    return pst_dataset_read(dataset, sample, 0, 0, 0, sizeof bytes, bytes, &err);
}

/* Without sums, members of a zip are compared with the CRC-32 that it states. */
static void zips_state_checksums(void **state)
{
    uint8_t part[50];
    write_zip(state, "data/z.zip");
    pst_dataset *dataset = open_data(state, false);
    assert_false(psti_dataset_can_check_bytes(dataset)); /* the fleet wants sums of stored bytes */
    for (uint64_t i = 0; i < 4; i++) {
        struct pst_item item = item_of(dataset, i);
        assert_true(item.has_crc32);
        assert_false(item.has_checksum);
        assert_int_equal(item.coding, i % 2 == 1 ? PST_CODING_DEFLATE : PST_CODING_STORED);
        assert_ok(read_sample(dataset, i));
    }
    const char *path = folder_path(state, "data/z.zip");
    struct pst_item stored = item_of(dataset, 2);
    change_byte(path, stored.offset + 100); /* its times were looked at already */
    assert_int_equal(read_sample(dataset, 2), PST_ERROR_CHECKSUM);
    assert_int_equal(err.offset, stored.offset);
    assert_int_equal(err.sample, 2);
    assert_non_null(strstr(err.file, "z.zip"));
    assert_ok(pst_dataset_read(dataset, 2, 0, 0, 0, 50, part, &err)); /* a part proves nothing */
    assert_ok(read_sample(dataset, 0));
    pst_dataset_close(&dataset);
}

/* A deflated member that still inflates to as many bytes. The index of the old one is given the
 * stamp of the new file by an open data set, which looked at the file before. */
static void deflated_members_are_compared(void **state)
{
    write_zip(state, "data/z.zip");
    pst_dataset *dataset = open_data(state, false);
    struct pst_item item = item_of(dataset, 1);
    assert_ok(read_sample(dataset, 1));
    const char *path = folder_path(state, "data/z.zip");
    uint8_t before[200], stored[400];
    int fd = open(path, O_RDWR);
    assert_true(item.nbytes <= sizeof stored);
    assert_int_equal(pread(fd, stored, item.nbytes, (off_t)item.offset), item.nbytes);
    assert_ok(pst_dataset_read(dataset, 1, 0, 0, 0, 200, before, &err));
    bool is_found = false;
    for (uint64_t bit = 0; bit < 8 * item.nbytes && !is_found; bit++) {
        uint8_t byte = stored[bit / 8] ^ (uint8_t)(1u << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)(item.offset + bit / 8)), 1);
        enum pst_status status = read_sample(dataset, 1);
        assert_true(status == PST_ERROR_CHECKSUM || status == PST_ERROR_CORRUPT);
        is_found = status == PST_ERROR_CHECKSUM;
        assert_int_equal(pwrite(fd, &stored[bit / 8], 1, (off_t)(item.offset + bit / 8)), 1);
    }
    assert_true(is_found);
    assert_non_null(strstr(err.text, "CRC-32"));
    assert_int_equal(err.offset, item.offset);
    close(fd);
    pst_dataset_close(&dataset);
}

/* With sums, these take the place of what the zip states. */
static void sums_of_zips(void **state)
{
    write_zip(state, "data/z.zip");
    pst_dataset *dataset = open_data(state, true);
    assert_true(psti_dataset_can_check_bytes(dataset));
    for (uint64_t i = 0; i < 4; i++) {
        struct pst_item item = item_of(dataset, i);
        assert_true(item.has_checksum);
        assert_false(item.has_crc32);
        assert_ok(read_sample(dataset, i));
    }
    pst_dataset_close(&dataset);
}

/* Notes --------------------------------------------------------------------------------------- */

static void note(struct psti_noted *noted, const pst_dataset *dataset, uint64_t first, uint64_t end)
{
    uint8_t bytes[60];
    for (uint64_t i = first; i < end; i++) {
        assert_ok(pst_dataset_read(dataset, i, 0, 0, 0, sizeof bytes, bytes, &err));
        psti_dataset_noted_add(noted, i, 0, bytes, sizeof bytes);
    }
}

static void noted_sums_join_the_index(void **state)
{
    const bool wanted[PST_MAX_FIELDS] = {true};
    struct psti_noted *noted;
    bool is_over;
    write_tar(state, "data/t-0.tar", 0, 3000); /* more than one block of the index */
    write_tar(state, "data/t-1.tar", 3000, 50);
    pst_dataset *dataset = open_data(state, false);
    assert_int_equal(psti_dataset_noted_nbytes(dataset, wanted), 3050 * 8);
    assert_ok(psti_dataset_noted_open(dataset, wanted, &noted, &err));
    assert_ok(psti_dataset_noted_save(noted, &is_over, &err));
    assert_false(is_over);
    note(noted, dataset, 0, 3049);
    assert_ok(psti_dataset_noted_save(noted, &is_over, &err));
    assert_false(is_over);
    note(noted, dataset, 3049, 3050);
    assert_ok(psti_dataset_noted_save(noted, &is_over, &err));
    assert_true(is_over);
    psti_dataset_noted_close(&noted);
    pst_dataset *again = open_data(state, false), *made;
    assert_true(psti_dataset_can_check_bytes(again));
    assert_int_equal(psti_dataset_noted_nbytes(again, wanted), 0);
    assert_ok(psti_dataset_check_index(again, &err));
    /* They are what --sums makes. */
    assert_int_equal(unlink(pst_dataset_index_path(again)), 0);
    made = open_data(state, true);
    for (uint64_t i = 0; i < 3050; i++)
        assert_int_equal(item_of(again, i).checksum, item_of(made, i).checksum);
    assert_memory_equal(psti_dataset_bytes_identity(again), psti_dataset_bytes_identity(made), 16);
    pst_dataset_close(&made);
    pst_dataset_close(&again);
    pst_dataset_close(&dataset);
}

/* An index that was made anew, or damaged, meanwhile is not replaced. */
static void noted_sums_are_dropped(void **state)
{
    const bool wanted[PST_MAX_FIELDS] = {true};
    for (int kind = 0; kind < 3; kind++) {
        struct psti_noted *noted;
        struct stat before, after;
        bool is_over;
        char path[1024];
        write_tar(state, "data/t.tar", 0, 100);
        pst_dataset *dataset = open_data(state, false);
        snprintf(path, sizeof path, "%s", pst_dataset_index_path(dataset));
        assert_ok(psti_dataset_noted_open(dataset, wanted, &noted, &err));
        note(noted, dataset, 0, 100);
        if (kind == 0) { /* made anew */
            assert_int_equal(unlink(path), 0);
            pst_dataset *other = open_data(state, false);
            pst_dataset_close(&other);
        }
        if (kind == 1) /* the file is another one */
            write_tar(state, "data/t.tar", 0, 100);
        if (kind == 2) /* its header is damaged */
            change_byte(path, 200);
        assert_int_equal(stat(path, &before), 0);
        assert_int_not_equal(psti_dataset_noted_save(noted, &is_over, &err), PST_OK);
        assert_true(is_over);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        assert_int_equal(count_files(folder_path(state, "data/.penstock")), 1);
        psti_dataset_noted_close(&noted);
        pst_dataset_close(&dataset);
    }
}

/* While another process makes an index, nobody waits: the next call may have its turn. */
static void noted_sums_wait_for_no_one(void **state)
{
    const bool wanted[PST_MAX_FIELDS] = {true};
    struct psti_noted *noted;
    bool is_over;
    char lock[1100], text[512] = "";
    write_tar(state, "data/t.tar", 0, 100);
    pst_dataset *dataset = open_data(state, false);
    assert_ok(psti_dataset_noted_open(dataset, wanted, &noted, &err));
    note(noted, dataset, 0, 100);
    snprintf(lock, sizeof lock, "%s.lock", pst_dataset_index_path(dataset));
    int fd = open(lock, O_CREAT | O_EXCL | O_WRONLY, 0644); /* of a maker elsewhere, just begun */
    assert_int_equal(write(fd, text, sizeof text), sizeof text);
    close(fd);
    enum pst_status status = psti_dataset_noted_save(noted, &is_over, &err);
    assert_true(status == PST_ERROR_BUSY || status == PST_ERROR_CANCELLED);
    assert_false(is_over);
    assert_int_equal(unlink(lock), 0);
    assert_ok(psti_dataset_noted_save(noted, &is_over, &err));
    assert_true(is_over);
    psti_dataset_noted_close(&noted);
    pst_dataset_close(&dataset);
    dataset = open_data(state, false);
    assert_true(psti_dataset_can_check_bytes(dataset));
    pst_dataset_close(&dataset);
}

/* Full disks ---------------------------------------------------------------------------------- */

/* A disk that fails at its n-th change: the index is made, elsewhere too, or there is none. Nothing
 * is left over. */
static void full_disks(void **state)
{
    bool was_good = false;
    uint64_t n = 0;
    for (int sticky = 0; sticky < 2; sticky++, was_good = false)
        for (n = 1; !was_good; n++) {
            struct pst_dataset_options options = {.struct_size = sizeof options, .sums = true};
            pst_dataset *dataset;
            write_tar(state, "data/t-0.tar", 0, 30);
            write_tar(state, "data/t-1.tar", 30, 30);
            psti_fault_arm(PSTI_FAULT_WRITE, n, sticky);
            enum pst_status status =
                pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err);
            was_good = psti_fault_count(PSTI_FAULT_WRITE) < n;
            psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
            int n_files = count_files(folder_path(state, "data/.penstock"));
            assert_true(n_files <= 1);
            if (status != PST_OK) {
                assert_int_equal(status, PST_ERROR_NO_SPACE);
                assert_true(sticky);
                assert_ok(pst_dataset_open(folder_path(state, "data"), &options, &dataset, &err));
            }
            assert_int_equal(pst_dataset_count(dataset), 60);
            assert_true(psti_dataset_can_check_bytes(dataset));
            assert_ok(psti_dataset_check_index(dataset, &err));
            assert_int_equal(unlink(pst_dataset_index_path(dataset)), 0);
            pst_dataset_close(&dataset);
        }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_tar_that_is_cut_meanwhile, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(an_index_that_everybody_may_write, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(zips_state_checksums, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(deflated_members_are_compared, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(sums_of_zips, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(noted_sums_join_the_index, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(noted_sums_are_dropped, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(noted_sums_wait_for_no_one, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(full_disks, setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
