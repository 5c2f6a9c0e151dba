/* test_dataset_listing.c - tests saved listings of folders: a folder opened by its listing has what
 * a scan finds, whatever has changed since, and whatever has happened to the listing. */
#include "folder_test.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "format/format_listing.h"

#include <penstock/penstock.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define LISTING "f/.penstock/files.pls"

static int setup(void **state)
{
    int failed = folder_setup(state);
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    setenv("PENSTOCK_LISTING_FILES", "1", 1);
    return failed;
}

/* Waits until a change of a directory is certain to change its times: a few ticks of the clock. */
static void wait_ticks(void) { psti_clock_sleep_until(psti_clock_ns() + 300 * MS); }

static uint64_t add(uint64_t digest, const void *bytes, size_t nbytes)
{
    const uint64_t both[] = {digest, psti_hash64(bytes, nbytes)};
    return psti_hash64(both, sizeof both);
}

/* Returns a hash of everything that a data set reports. */
static uint64_t digest_of(const pst_dataset *dataset)
{
    struct pst_error err;
    uint64_t digest = 0, place;
    uint8_t identity[16];
    for (uint64_t s = 0; s < pst_dataset_count(dataset); s++) {
        const char *name = folder_sample_name(dataset, s);
        struct pst_item item;
        assert_ok(pst_dataset_item(dataset, s, 0, 0, &item, sizeof item, &err));
        digest = add(digest, name, strlen(name));
        digest = add(digest, &item.nbytes, sizeof item.nbytes);
        place = psti_dataset_file_place(dataset, (uint32_t)s);
        digest = add(digest, &place, sizeof place);
        place = psti_dataset_file_stamp(dataset, (uint32_t)s);
        digest = add(digest, &place, sizeof place);
        for (uint32_t i = 1; i < pst_dataset_n_fields(dataset); i++) {
            int64_t value;
            assert_ok(pst_dataset_int(dataset, s, i, &value, &err));
            digest = add(digest, &value, sizeof value);
            const char *label = pst_dataset_class_name(dataset, i, value);
            digest = add(digest, label, strlen(label));
        }
    }
    for (uint32_t i = 0; i < pst_dataset_n_notices(dataset); i++) {
        struct pst_notice notice;
        memset(&notice, 0, sizeof notice);
        assert_ok(pst_dataset_notice(dataset, i, &notice, sizeof notice, &err));
        digest = add(digest, notice.name, strlen(notice.name));
        digest = add(digest, &notice.count, sizeof notice.count);
    }
    for (int kind = PST_IDENTITY_BYTES; kind <= PST_IDENTITY_FILES; kind++) {
        assert_ok(pst_dataset_identity(dataset, (enum pst_identity)kind, identity, &err));
        digest = add(digest, identity, sizeof identity);
    }
    return add(digest, pst_dataset_id(dataset), 16);
}

static uint64_t open_digest(void **state)
{
    pst_dataset *dataset = folder_open(state, "f", NULL);
    uint64_t digest = digest_of(dataset);
    pst_dataset_close(&dataset);
    return digest;
}

static uint64_t scan_digest(void **state)
{
    setenv("PENSTOCK_LISTING_FILES", "0", 1);
    uint64_t digest = open_digest(state);
    setenv("PENSTOCK_LISTING_FILES", "1", 1);
    return digest;
}

static void check_same(void **state)
{
    uint64_t scanned = scan_digest(state);
    assert_true(open_digest(state) == scanned);
    assert_true(open_digest(state) == scanned);
}

static ino_t inode_of(void **state, const char *relative)
{
    struct stat st;
    assert_int_equal(stat(folder_path(state, relative), &st), 0);
    return st.st_ino;
}

static void make_tree(void **state)
{
    folder_text(state, "f/a/1.jpg", "one");
    folder_text(state, "f/a/deep/2.png", "two two");
    folder_text(state, "f/a/deep/er/3.jpg", "3");
    folder_text(state, "f/a-b/4.jpg", "four");
    folder_text(state, "f/b/5.jpg", "five");
    folder_text(state, "f/b/notes.txt", "left out");
    folder_text(state, "f/b/.hidden", "hidden");
    folder_text(state, "f/c/6.JPEG", "");
}

static void a_listing_gives_what_a_scan_finds(void **state)
{
    make_tree(state);
    wait_ticks();
    uint64_t scanned = scan_digest(state);
    assert_int_equal(access(folder_path(state, "f/.penstock"), F_OK), -1);
    assert_true(open_digest(state) == scanned);
    assert_int_equal(access(folder_path(state, LISTING), F_OK), 0);
    ino_t first = inode_of(state, LISTING);
    assert_true(open_digest(state) == scanned);
    assert_true(open_digest(state) == scanned);
    /* no directory was listed, so no listing was saved */
    assert_int_equal(inode_of(state, LISTING), first);
}

/* Proves that entries come from the listing: a file that was rewritten in place is noticed only
 * when it is read, because the times of its directory have not changed. */
static void a_replaced_file_is_found_when_it_is_read(void **state)
{
    struct pst_error err;
    char bytes[8];
    make_tree(state);
    wait_ticks();
    uint64_t before = open_digest(state);
    assert_true(open_digest(state) == before);
    wait_ticks();
    int fd = open(folder_path(state, "f/b/5.jpg"), O_WRONLY);
    assert_int_equal(write(fd, "FIVE", 4), 4);
    close(fd);
    assert_true(open_digest(state) == before);
    pst_dataset *dataset = folder_open(state, "f", NULL);
    uint64_t sample;
    assert_ok(pst_dataset_find_sample(dataset, "b/5.jpg", &sample, &err));
    assert_int_equal(pst_dataset_read(dataset, sample, 0, 0, 0, 4, bytes, &err), PST_ERROR_CORRUPT);
    assert_ok(pst_dataset_find_sample(dataset, "a/1.jpg", &sample, &err));
    assert_ok(pst_dataset_read(dataset, sample, 0, 0, 0, 3, bytes, &err));
    pst_dataset_close(&dataset);
    assert_true(scan_digest(state) != before);
}

static void changes_are_found(void **state)
{
    make_tree(state);
    wait_ticks();
    check_same(state);
    wait_ticks();
    folder_text(state, "f/a/deep/new.jpg", "new");
    check_same(state);
    assert_int_equal(unlink(folder_path(state, "f/a/1.jpg")), 0);
    check_same(state);
    assert_int_equal(rename(folder_path(state, "f/b/5.jpg"), folder_path(state, "f/b/55.jpg")), 0);
    check_same(state);
    assert_int_equal(rename(folder_path(state, "f/b"), folder_path(state, "f/bb")), 0);
    check_same(state);
    folder_text(state, "f/0/0.jpg", "in front");
    folder_text(state, "f/z/9.jpg", "behind");
    check_same(state);
    wait_ticks();
    check_same(state);
    assert_int_equal(unlink(folder_path(state, "f/c/6.JPEG")), 0);
    assert_int_equal(rmdir(folder_path(state, "f/c")), 0);
    check_same(state);
    /* A folder that becomes a packed data set is no longer a class. */
    folder_text(state, "f/z/index.pst", "");
    check_same(state);
    /* A rename puts a file of another size under the same name. */
    folder_text(state, "other.jpg", "another file");
    assert_int_equal(rename(folder_path(state, "other.jpg"), folder_path(state, "f/0/0.jpg")), 0);
    check_same(state);
}

/* Changes directories right after they were listed, within the same tick of the clock. */
static void changes_within_a_tick(void **state)
{
    char name[64];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "f/a/%d.jpg", i);
        folder_text(state, name, "x");
        pst_dataset *dataset = folder_open(state, "f", NULL);
        assert_int_equal(pst_dataset_count(dataset), i + 1);
        pst_dataset_close(&dataset);
    }
}

static void flat_folders_and_links(void **state)
{
    char name[64];
    for (int i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "f/%d.jpg", i);
        folder_text(state, name, "x");
    }
    folder_text(state, "elsewhere/one.jpg", "one");
    assert_int_equal(truncate(folder_path(state, "f/77.jpg"), (off_t)5 << 30), 0);
    wait_ticks();
    check_same(state);
    ino_t first = inode_of(state, LISTING);
    check_same(state);
    assert_int_equal(inode_of(state, LISTING), first);
    /* A link that leads nowhere later leads to a folder of images. */
    assert_int_equal(unlink(folder_path(state, "f/77.jpg")), 0);
    assert_int_equal(symlink(folder_path(state, "later"), folder_path(state, "f/link.d")), 0);
    check_same(state);
    wait_ticks();
    check_same(state);
    assert_int_equal(rename(folder_path(state, "elsewhere"), folder_path(state, "later")), 0);
    setenv("PENSTOCK_LISTING_FILES", "0", 1);
    assert_non_null(strstr(folder_open_fails(state, "f", NULL, PST_ERROR_UNSUPPORTED), "directly"));
    setenv("PENSTOCK_LISTING_FILES", "1", 1);
    assert_non_null(strstr(folder_open_fails(state, "f", NULL, PST_ERROR_UNSUPPORTED), "directly"));
}

static void sounds(void **state)
{
    folder_text(state, "f/a/1.wav", "one");
    folder_text(state, "f/b/2.flac", "two");
    wait_ticks();
    check_same(state);
    ino_t first = inode_of(state, LISTING);
    check_same(state);
    assert_int_equal(inode_of(state, LISTING), first);
    wait_ticks();
    folder_text(state, "f/b/3.jpg", "an image");
    setenv("PENSTOCK_LISTING_FILES", "0", 1);
    folder_open_fails(state, "f", NULL, PST_ERROR_NOT_FOUND); /* class a has no sounds */
    setenv("PENSTOCK_LISTING_FILES", "1", 1);
    folder_open_fails(state, "f", NULL, PST_ERROR_NOT_FOUND);
    folder_text(state, "f/a/4.jpg", "an image");
    check_same(state);
}

/* Makes random trees and changes them at random. */
static void drawn_trees(void **state)
{
    srand(7);
    for (int i = 0; i < 60; i++) {
        char name[64];
        int what = rand() % 4, a = rand() % 4, b = rand() % 3, n = rand() % 30;
        snprintf(name, sizeof name, what == 0 ? "f/%c/%d.jpg" : "f/%c/%c%d/%d.jpg", 'a' + a,
                 what == 0 ? n : 'x' + b, rand() % 2, n);
        /* a file that is only rewritten would not be noticed, so it is removed first */
        (void)unlink(folder_path(state, name));
        if (what != 3)
            folder_text(state, name, &"0123456789"[rand() % 10]);
        if (rand() % 5 == 0)
            wait_ticks();
        if (i > 30)
            for (char c = 'a'; c < 'e'; c++) { /* every class needs a file */
                snprintf(name, sizeof name, "f/%c/0.jpg", c);
                if (access(folder_path(state, name), F_OK) != 0)
                    folder_text(state, name, "0");
            }
        if (i > 30)
            check_same(state);
    }
}

/* Tests of damaged listings
 * -------------------------------------------------------------------------------------------- */

static void damaged_listings_are_not_used(void **state)
{
    static char bytes[1 << 16];
    make_tree(state);
    wait_ticks();
    uint64_t scanned = open_digest(state);
    int fd = open(folder_path(state, LISTING), O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_true(n > 500 && n < (ssize_t)sizeof bytes);
    for (ssize_t i = 0; i < n; i += 7) {
        bytes[i] ^= 0x10;
        folder_file(state, LISTING, bytes, (size_t)n);
        bytes[i] ^= 0x10;
        assert_true(open_digest(state) == scanned);
    }
    for (ssize_t i = 0; i < n; i += 13) {
        folder_file(state, LISTING, bytes, (size_t)i);
        assert_true(open_digest(state) == scanned);
    }
    folder_file(state, LISTING, bytes, (size_t)n);
    assert_true(open_digest(state) == scanned);
    assert_true(open_digest(state) == scanned);
}

static void failures_while_reading_and_saving(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_READ,
                                                 PSTI_FAULT_WRITE};
    struct pst_memory_stats before, after;
    make_tree(state);
    wait_ticks();
    uint64_t scanned = scan_digest(state);
    for (unsigned way = 0; way < 6; way++) {
        enum psti_fault_kind kind = kinds[way % 3];
        bool has_listing = way >= 3, was_good = false;
        for (uint64_t n = 1; !was_good; n++) {
            struct pst_error err;
            pst_dataset *dataset = NULL;
            if (has_listing)
                assert_true(open_digest(state) == scanned);
            else
                (void)unlink(folder_path(state, LISTING));
            pst_memory_stats(&before, sizeof before);
            psti_fault_arm(kind, n, false);
            enum pst_status status =
                pst_dataset_open(folder_path(state, "f"), NULL, &dataset, &err);
            was_good = psti_fault_count(kind) < n;
            psti_fault_arm(kind, 0, false);
            if (status == PST_OK)
                assert_true(digest_of(dataset) == scanned);
            else
                assert_int_not_equal(kind, PSTI_FAULT_WRITE);
            pst_dataset_close(&dataset);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            assert_true(n < 2000);
        }
    }
    DIR *dir = opendir(folder_path(state, "f/.penstock"));
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        assert_true(entry->d_name[0] == '.' || strcmp(entry->d_name, "files.pls") == 0);
    closedir(dir);
}

static int count_calls(void *ctx, const struct pst_progress *progress)
{
    unsigned *calls = ctx;
    assert_true(progress->n_total == 0 || progress->n_total == 6);
    return ++calls[0] == calls[1];
}

static void checking_and_telling(void **state)
{
    unsigned calls[2] = {0, 1};
    struct pst_dataset_options options = {.struct_size = sizeof options, .check_files = true};
    struct pst_error err;
    pst_dataset *dataset = NULL;
    make_tree(state);
    wait_ticks();
    check_same(state);
    int fd = open(folder_path(state, "f/b/5.jpg"), O_WRONLY);
    assert_int_equal(write(fd, "FIVE", 4), 4);
    close(fd);
    uint64_t scanned = scan_digest(state);
    assert_true(open_digest(state) != scanned);
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_true(digest_of(dataset) == scanned);
    pst_dataset_close(&dataset);
    assert_true(open_digest(state) == scanned); /* the check has saved a new listing */
    options.progress = count_calls;
    options.progress_ctx = calls;
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err),
                     PST_ERROR_CANCELLED);
    assert_null(dataset);
    assert_int_equal(calls[0], 1);
    options.check_files = false;
    calls[0] = 0;
    calls[1] = 1000000;
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_true(calls[0] >= 1);
    pst_dataset_close(&dataset);
}

static void ranks_at_once(void **state)
{
    enum { N = 8 };
    pid_t children[N];
    make_tree(state);
    wait_ticks();
    uint64_t scanned = scan_digest(state);
    for (int i = 0; i < N; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(open_digest(state) == scanned ? 0 : 1);
    }
    for (int i = 0; i < N; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
    check_same(state);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, folder_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_listing_gives_what_a_scan_finds),
        T(a_replaced_file_is_found_when_it_is_read),
        T(changes_are_found),
        T(changes_within_a_tick),
        T(flat_folders_and_links),
        T(sounds),
        T(drawn_trees),
        T(damaged_listings_are_not_used),
        T(failures_while_reading_and_saving),
        T(checking_and_telling),
        T(ranks_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
