/* test_dataset_sums.c - tests checksums of items in tars and zips: errors while they are computed,
 * checksums that a zip states, those that a reader records, those that several ranks record
 * together, and full disks. */
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct pst_error err; /* error of the last call */

static int setup(void **state)
{
    int failed = folder_setup(state);
    folder_mkdir(state, "data");
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    return failed;
}

/* Writes a tar of n samples, each with a picture of 60 bytes. */
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

/* Counts the files in a folder of indexes, each of which is an index. */
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

/* Truncates a tar while checksums of its items are computed. The samples reported so far are those
 * of the first piece. */
static int cut(void *context, const struct pst_progress *progress)
{
    /* long enough that progress of the next piece is reported */
    const struct timespec wait = {.tv_nsec = 150000000};
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

/* Without checksums in the index, members of a zip are compared with the CRC-32 that the zip
 * states. */
static void zips_state_checksums(void **state)
{
    uint8_t part[50];
    write_zip(state, "data/z.zip");
    pst_dataset *dataset = open_data(state, false);
    /* a fleet needs checksums of stored bytes */
    assert_false(psti_dataset_can_check_bytes(dataset));
    for (uint64_t i = 0; i < 4; i++) {
        struct pst_item item = item_of(dataset, i);
        assert_true(item.has_crc32);
        assert_false(item.has_checksum);
        assert_int_equal(item.coding, i % 2 == 1 ? PST_CODING_DEFLATE : PST_CODING_STORED);
        assert_ok(read_sample(dataset, i));
    }
    const char *path = folder_path(state, "data/z.zip");
    struct pst_item stored = item_of(dataset, 2);
    change_byte(path, stored.offset + 100); /* the file's times were checked before */
    assert_int_equal(read_sample(dataset, 2), PST_ERROR_CHECKSUM);
    assert_int_equal(err.offset, stored.offset);
    assert_int_equal(err.sample, 2);
    assert_non_null(strstr(err.file, "z.zip"));
    /* a partial read cannot be verified */
    assert_ok(pst_dataset_read(dataset, 2, 0, 0, 0, 50, part, &err));
    assert_ok(read_sample(dataset, 0));
    pst_dataset_close(&dataset);
}

/* Changes a deflated member so that it inflates to the same number of bytes. The data set was
 * opened before the change, so it does not check the file's times again. */
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

/* Checksums in the index replace the CRC-32 that a zip states. */
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
    /* enough samples for more than one block of the index */
    write_tar(state, "data/t-0.tar", 0, 3000);
    write_tar(state, "data/t-1.tar", 3000, 50);
    pst_dataset *dataset = open_data(state, false);
    assert_int_equal(psti_dataset_noted_nbytes(dataset, wanted), 3050 * 8);
    assert_ok(psti_dataset_noted_open(dataset, wanted, false, &noted, &err));
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
    /* They equal the checksums that --sums computes. */
    assert_int_equal(unlink(pst_dataset_index_path(again)), 0);
    made = open_data(state, true);
    for (uint64_t i = 0; i < 3050; i++)
        assert_int_equal(item_of(again, i).checksum, item_of(made, i).checksum);
    assert_memory_equal(psti_dataset_bytes_identity(again), psti_dataset_bytes_identity(made), 16);
    pst_dataset_close(&made);
    pst_dataset_close(&again);
    pst_dataset_close(&dataset);
}

/* Recorded checksums do not replace an index that was made anew, or damaged, in the meantime. */
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
        assert_ok(psti_dataset_noted_open(dataset, wanted, false, &noted, &err));
        note(noted, dataset, 0, 100);
        if (kind == 0) { /* made anew */
            assert_int_equal(unlink(path), 0);
            pst_dataset *other = open_data(state, false);
            pst_dataset_close(&other);
        }
        if (kind == 1) /* the file has changed */
            write_tar(state, "data/t.tar", 0, 100);
        if (kind == 2) /* the index's header is damaged */
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

/* While another process makes an index, recording does not wait: the next call tries again. */
static void noted_sums_wait_for_no_one(void **state)
{
    const bool wanted[PST_MAX_FIELDS] = {true};
    struct psti_noted *noted;
    bool is_over;
    char lock[1100], text[512] = "";
    write_tar(state, "data/t.tar", 0, 100);
    pst_dataset *dataset = open_data(state, false);
    assert_ok(psti_dataset_noted_open(dataset, wanted, false, &noted, &err));
    note(noted, dataset, 0, 100);
    snprintf(lock, sizeof lock, "%s.lock", pst_dataset_index_path(dataset));
    /* the lock of a maker on another host that has just begun */
    int fd = open(lock, O_CREAT | O_EXCL | O_WRONLY, 0644);
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

/* Ranks --------------------------------------------------------------------------------------- */

/* Stands for one of several processes that record checksums of a data set. In tests all of them are
 * in one process. */
struct rank {
    pst_dataset *dataset;
    struct psti_noted *noted;
    bool is_over;
};

static struct rank open_rank(void **state)
{
    const bool wanted[PST_MAX_FIELDS] = {true};
    struct rank rank = {.dataset = open_data(state, false)};
    assert_ok(psti_dataset_noted_open(rank.dataset, wanted, true, &rank.noted, &err));
    return rank;
}

/* Reads some samples, and saves their checksums for the other ranks. */
static enum pst_status rank_reads(struct rank *rank, uint64_t first, uint64_t end)
{
    note(rank->noted, rank->dataset, first, end);
    return psti_dataset_noted_save(rank->noted, &rank->is_over, &err);
}

static void close_rank(struct rank *rank)
{
    psti_dataset_noted_close(&rank->noted);
    pst_dataset_close(&rank->dataset);
}

/* Copies the path of a file of checksums beside the index to `path`. Returns how many such files
 * there are. */
static int find_part(void **state, char path[1024])
{
    int n = 0;
    DIR *directory = opendir(folder_path(state, "data/.penstock"));
    const struct dirent *entry;
    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL)
        if (strstr(entry->d_name, ".index.sums-") != NULL) {
            n++;
            snprintf(path, 1024, "%s/%.200s", folder_path(state, "data/.penstock"), entry->d_name);
        }
    closedir(directory);
    return n;
}

/* Asserts that the index has the checksums that --sums computes, and that no other files lie beside
 * it. Removes the index. */
static void assert_has_sums(void **state)
{
    pst_dataset *dataset = open_data(state, false);
    assert_true(psti_dataset_can_check_bytes(dataset));
    assert_ok(psti_dataset_check_index(dataset, &err));
    assert_int_equal(count_files(folder_path(state, "data/.penstock")), 1);
    assert_int_equal(unlink(pst_dataset_index_path(dataset)), 0);
    pst_dataset *made = open_data(state, true);
    for (uint64_t i = 0; i < pst_dataset_count(made); i++)
        assert_int_equal(item_of(dataset, i).checksum, item_of(made, i).checksum);
    assert_int_equal(unlink(pst_dataset_index_path(made)), 0);
    pst_dataset_close(&made);
    pst_dataset_close(&dataset);
}

static void assert_has_none(void **state)
{
    pst_dataset *dataset = open_data(state, false);
    assert_false(psti_dataset_can_check_bytes(dataset));
    pst_dataset_close(&dataset);
}

static void sums_of_ranks_are_joined(void **state)
{
    enum { N = 20000 }; /* more than two chunks of a file of checksums */
    char path[1024];
    write_tar(state, "data/t.tar", 0, N);
    struct rank ranks[3] = {open_rank(state), open_rank(state), open_rank(state)};
    assert_ok(rank_reads(&ranks[0], 0, 8191));
    assert_ok(rank_reads(&ranks[1], 8191, 8200));
    assert_false(ranks[0].is_over || ranks[1].is_over);
    assert_int_equal(find_part(state, path), 2);
    /* in the rank's next epoch its old file is removed */
    assert_ok(rank_reads(&ranks[1], 8200, 17000));
    assert_int_equal(find_part(state, path), 2);
    assert_ok(psti_dataset_noted_save(ranks[2].noted, &ranks[2].is_over, &err)); /* nothing yet */
    assert_has_none(state);
    /* samples that two ranks read gave the same checksums */
    assert_ok(rank_reads(&ranks[2], 16000, N));
    assert_true(ranks[2].is_over);
    for (int i = 0; i < 2; i++) { /* the other ranks learn that it is done */
        assert_int_equal(rank_reads(&ranks[i], 17000, 17002), PST_ERROR_STATE);
        assert_true(ranks[i].is_over);
        assert_non_null(strstr(err.text, "sums into the index meanwhile"));
    }
    for (int i = 0; i < 3; i++)
        close_rank(&ranks[i]);
    assert_has_sums(state);
}

/* Checksums that a rank recorded before it died are used by a loader with any number of ranks. */
static void sums_of_dead_ranks_count(void **state)
{
    char path[1024];
    write_tar(state, "data/t.tar", 0, 100);
    struct rank dead = open_rank(state);
    assert_ok(rank_reads(&dead, 0, 60));
    close_rank(&dead);
    struct rank next = open_rank(state);
    /* enough checksums are recorded to try joining, but 10 samples lack theirs */
    assert_ok(rank_reads(&next, 10, 90));
    assert_false(next.is_over);
    assert_int_equal(find_part(state, path), 2);
    /* its new file takes over the checksums of the dead rank */
    assert_ok(rank_reads(&next, 90, 95));
    assert_int_equal(find_part(state, path), 1);
    assert_int_equal(unlink(path), 0); /* a file that someone removed is written again */
    assert_ok(psti_dataset_noted_save(next.noted, &next.is_over, &err));
    assert_int_equal(find_part(state, path), 1);
    close_rank(&next);
    struct rank last = open_rank(state);
    assert_ok(rank_reads(&last, 95, 100));
    assert_true(last.is_over);
    close_rank(&last);
    assert_has_sums(state);
}

static void ranks_of_processes_at_once(void **state)
{
    enum { RANKS = 5, EACH = 400 };
    pid_t children[RANKS];
    write_tar(state, "data/t.tar", 0, RANKS * EACH);
    assert_has_none(state);
    for (int i = 0; i < RANKS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0)
            continue;
        struct rank rank = open_rank(state);
        for (uint64_t k = 0; k < 4; k++) { /* epochs */
            uint64_t first = (uint64_t)i * EACH + k * EACH / 4;
            enum pst_status status = rank_reads(&rank, first, first + EACH / 4);
            if (status != PST_OK && status != PST_ERROR_STATE && status != PST_ERROR_BUSY &&
                status != PST_ERROR_CANCELLED)
                _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < RANKS; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
    assert_has_sums(state); /* the last process to write has seen all files */
}

static void a_changed_shard_voids_sums_of_ranks(void **state)
{
    char path[1024];
    write_tar(state, "data/t.tar", 0, 100);
    struct rank before = open_rank(state), late = open_rank(state);
    assert_ok(rank_reads(&before, 0, 50));
    close_rank(&before);
    write_tar(state, "data/t.tar", 200, 100);
    assert_int_equal(psti_dataset_noted_save(late.noted, &late.is_over, &err), PST_OK);
    uint8_t bytes[60] = {0};
    for (uint64_t i = 50; i < 100; i++) /* the reads come before the change, saving after it */
        psti_dataset_noted_add(late.noted, i, 0, bytes, sizeof bytes);
    assert_int_equal(psti_dataset_noted_save(late.noted, &late.is_over, &err), PST_ERROR_CORRUPT);
    assert_true(late.is_over);
    close_rank(&late);
    /* makes the index again, which removes the old checksums */
    struct rank after = open_rank(state);
    assert_int_equal(find_part(state, path), 0);
    assert_ok(rank_reads(&after, 50, 100));
    assert_false(after.is_over);
    assert_ok(rank_reads(&after, 0, 50));
    assert_true(after.is_over);
    close_rank(&after);
    assert_has_sums(state);
}

/* Forges a file of checksums from another one: with changed bytes, another length, or other
 * permissions. */
static void forge_part(const char *path, int kind)
{
    enum { PAYLOAD = 64 };
    char copy[1100];
    struct stat st;
    uint8_t bytes[4096];
    snprintf(copy, sizeof copy, "%s%d", path, kind);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes);
    assert_true(n > PAYLOAD + 8 && fstat(fd, &st) == 0);
    close(fd);
    if (kind < 64) /* changes a bit of the header */
        bytes[kind] ^= 1;
    else if (kind == 64) /* changes a checksum of an item */
        bytes[n - 20] ^= 1;
    else if (kind == 65) /* changes the checksum of the checksums */
        bytes[n - 1] ^= 1;
    else if (kind == 66)
        n -= 8;
    else if (kind == 67)
        n += 8;
    else if (kind == 68)
        n = 10;
    if (kind == 69) {
        assert_int_equal(symlink(path, copy), 0);
        return;
    }
    if (kind == 70) {
        assert_int_equal(mkfifo(copy, 0600), 0);
        return;
    }
    fd = open(copy, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, bytes, (size_t)n), n);
    if (kind == 71)
        assert_int_equal(fchmod(fd, 0666), 0);
    close(fd);
}

static void sums_that_do_not_count(void **state)
{
    enum { KINDS = 72 };
    char path[1024];
    write_tar(state, "data/t.tar", 0, 100);
    struct rank dead = open_rank(state);
    assert_ok(rank_reads(&dead, 0, 90));
    assert_int_equal(find_part(state, path), 1);
    for (int kind = 0; kind < KINDS; kind++)
        forge_part(path, kind);
    close_rank(&dead);
    struct rank rank = open_rank(state);
    assert_int_equal(unlink(path), 0);
    assert_ok(rank_reads(&rank, 10, 100));
    assert_false(rank.is_over); /* the forged file gave no checksums of the first ten samples */
    assert_ok(rank_reads(&rank, 0, 10));
    assert_true(rank.is_over);
    close_rank(&rank);
    assert_has_sums(state);
}

/* Two ranks have read different bytes of one sample, so one of them has trained on wrong bytes. */
static void sums_that_contradict_each_other(void **state)
{
    const uint8_t other[60] = {1};
    write_tar(state, "data/t.tar", 0, 100);
    struct rank a = open_rank(state), b = open_rank(state);
    assert_ok(rank_reads(&a, 0, 60));
    psti_dataset_noted_add(b.noted, 7, 0, other, sizeof other);
    assert_int_equal(rank_reads(&b, 55, 100), PST_ERROR_CHECKSUM);
    assert_true(b.is_over);
    assert_int_equal(err.sample, 7);
    assert_non_null(strstr(err.text, "different bytes of field \"image\""));
    close_rank(&a);
    close_rank(&b);
    assert_has_none(state);
}

static void full_disks_of_ranks(void **state)
{
    bool was_good = false;
    uint64_t n = 0;
    char path[1024];
    write_tar(state, "data/t.tar", 0, 100);
    for (n = 1; !was_good; n++) {
        struct rank a = open_rank(state), b = open_rank(state);
        psti_fault_arm(PSTI_FAULT_WRITE, n, true);
        enum pst_status first = rank_reads(&a, 0, 50), second = rank_reads(&b, 50, 100);
        was_good = psti_fault_count(PSTI_FAULT_WRITE) < n;
        psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
        assert_true(first == PST_OK || first == PST_ERROR_NO_SPACE);
        assert_true(was_good ? second == PST_OK && b.is_over : second == PST_ERROR_NO_SPACE);
        close_rank(&a);
        close_rank(&b);
        while (find_part(state, path) > 0)
            assert_int_equal(unlink(path), 0);
        /* After a failure the index is the old one, or the new one if only syncing its folder
         * failed. It is complete in either case. */
        pst_dataset *dataset = open_data(state, false);
        bool has = psti_dataset_can_check_bytes(dataset);
        assert_true(has || !was_good);
        pst_dataset_close(&dataset);
        if (has)
            assert_has_sums(state);
    }
    assert_true(n > 8);
}

/* Tests of full disks ------------------------------------------------------------------------- */

/* A disk fails at its n-th change: the index is made there or at the other place, or there is none.
 * No other file is left. */
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
        cmocka_unit_test_setup_teardown(sums_of_ranks_are_joined, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(sums_of_dead_ranks_count, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(ranks_of_processes_at_once, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_changed_shard_voids_sums_of_ranks, setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(sums_that_do_not_count, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(sums_that_contradict_each_other, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(full_disks_of_ranks, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(full_disks, setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
