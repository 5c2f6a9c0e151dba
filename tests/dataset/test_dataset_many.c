/* test_dataset_many.c - tests folders of many files: the memory that a folder takes while and after
 * it is opened, names stored in several blocks, and directories whose entries are read a second
 * time from the listing being saved. */
#include "folder_test.h"

#include "base/clock.h"
#include "base/fault.h"
#include "dataset/folder/dataset_folder.h"

#include <penstock/penstock.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Counts the memory of the library
 * -------------------------------------------------------------------------------------------- */

static size_t live, peak;

static void *count_alloc(void *ctx, size_t alignment, size_t nbytes)
{
    void *memory = NULL;
    (void)ctx;
    if (posix_memalign(&memory, alignment < 16 ? 16 : alignment, nbytes) != 0)
        return NULL;
    live += nbytes;
    peak = live > peak ? live : peak;
    return memory;
}

static void count_free(void *ctx, void *memory, size_t nbytes)
{
    (void)ctx;
    live -= nbytes;
    free(memory);
}

static int setup(void **state)
{
    const struct pst_allocator counting = {count_alloc, count_free, NULL};
    int failed = folder_setup(state);
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    setenv("PENSTOCK_LISTING_FILES", "20000", 1);
    live = peak = 0;
    return failed != 0 || pst_set_allocator(&counting, NULL) != PST_OK ? -1 : 0;
}

static int teardown(void **state)
{
    int failed = folder_teardown(state);
    return pst_set_allocator(NULL, NULL) != PST_OK || live != 0 ? -1 : failed;
}

/* Tests of the table of files
 * -------------------------------------------------------------------------------------------- */

/* Makes the i-th name, of a pseudo-random length up to `longest`. Returns its length. */
static size_t name_of(size_t i, size_t longest, char name[PSTI_DATASET_FOLDER_NAME_CAP])
{
    size_t n = 12 + (i * UINT64_C(2654435761) >> 7) % (longest - 11);
    char digits[32];
    memset(name, 'a' + (int)(i % 26), n);
    snprintf(digits, sizeof digits, "%011zu", i);
    memcpy(name, digits, 11);
    name[n] = '\0';
    return n + 1;
}

static void check_table(unsigned spacing, size_t n, size_t longest)
{
    struct psti_dataset_files files = {.spacing = spacing};
    struct pst_error err;
    char name[PSTI_DATASET_FOLDER_NAME_CAP];
    size_t names = 0, before = live, per_file = spacing > 0 ? 13 : 21;
    peak = live;
    for (size_t i = 0; i < n; i++) {
        const struct psti_file_facts facts = {.nbytes = i % 97 == 5 ? UINT32_MAX + i : i,
                                              .place = (uint32_t)i * 3,
                                              .stamp = (uint32_t)i * 5};
        names += name_of(i, longest, name);
        assert_ok(psti_dataset_files_add(&files, name, &facts, &err));
    }
    size_t longs = n / 97 * 16 * 2;
    assert_true(peak - before < names + per_file * n + longs + MIB * 5 / 4 + names / 32);
    psti_dataset_files_trim(&files);
    assert_true(live - before < names + per_file * n + longs + MIB / 8 + names / 32);
    const char *next = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct psti_file_facts facts = psti_dataset_files_facts(&files, i);
        next = psti_dataset_files_next(&files, i, next);
        (void)name_of(i, longest, name);
        assert_string_equal(next, name);
        assert_string_equal(psti_dataset_files_name(&files, i), name);
        assert_true(facts.nbytes == (i % 97 == 5 ? UINT32_MAX + i : i));
        assert_true(facts.place == (uint32_t)i * 3 && facts.stamp == (uint32_t)i * 5);
    }
    psti_dataset_files_free(&files);
    assert_int_equal(live, before);
}

static void a_table_takes_thirteen_bytes_a_file(void **state)
{
    (void)state;
    check_table(PSTI_DATASET_FILES_SPACING, 500000, 40);
    check_table(0, 100000, 40);
}

static void names_of_all_lengths(void **state)
{
    (void)state;
    check_table(PSTI_DATASET_FILES_SPACING, 5000, PSTI_DATASET_FOLDER_NAME_CAP - 1);
    check_table(0, 3000, PSTI_DATASET_FOLDER_NAME_CAP - 1);
    for (size_t n = 1; n < 40; n++)
        check_table(PSTI_DATASET_FILES_SPACING, n, 60);
}

/* Folders
 * -------------------------------------------------------------------------------------------- */

enum { NAME_NBYTES = 200 };

/* Makes n empty files in directories of n_each files, in mixed order. Returns the bytes of all
 * names. */
static size_t make_files(void **state, size_t n, size_t n_each)
{
    char name[NAME_NBYTES + 1], padding[NAME_NBYTES];
    memset(padding, 'p', sizeof padding);
    for (size_t k = 0; k < (n + n_each - 1) / n_each; k++) {
        snprintf(name, sizeof name, "f/class_%04zu", k);
        folder_mkdir(state, name);
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = i * 7919 % n; /* n and 7919 are coprime */
        int head = snprintf(name, sizeof name, "f/class_%04zu/%08zu_", k / n_each, k * 7 % 1000003);
        snprintf(name + head, sizeof name - (size_t)head, "%.*s.jpg", NAME_NBYTES - 5 - head,
                 padding);
        assert_int_equal(strlen(name), NAME_NBYTES - 1);
        int fd = open(folder_path(state, name), O_WRONLY | O_CREAT | O_EXCL, 0666);
        assert_true(fd >= 0);
        close(fd);
    }
    return n * (NAME_NBYTES - 2); /* names without "f/", each with a NUL */
}

/* Opens the folder and measures memory. beside_peak, beside_held: bytes besides the names and n
 * entries, at the peak and afterwards. */
static void open_counted(void **state, size_t names, uint64_t n, uint8_t identities[2][16],
                         int64_t *beside_peak, int64_t *beside_held)
{
    struct pst_error err;
    size_t before = live;
    peak = live;
    pst_dataset *dataset = folder_open(state, "f", NULL);
    *beside_peak = (int64_t)(peak - before) - (int64_t)(names + 13 * n);
    *beside_held = (int64_t)(live - before) - (int64_t)(names + 13 * n);
    assert_int_equal(pst_dataset_count(dataset), n);
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_BYTES, identities[0], &err));
    assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_SAMPLES, identities[1], &err));
    pst_dataset_close(&dataset);
    assert_int_equal(live, before);
}

static void memory_of_a_folder(void **state)
{
    enum { N = 24000, N_EACH = 400 };
    uint8_t first[2][16], again[2][16], scanned[2][16];
    int64_t beside_peak, beside_held;
    size_t names = make_files(state, N, N_EACH);
    psti_clock_sleep_until(psti_clock_ns() + 300000000);
    /* Memory for 20,000 entries, fewer than are worth a listing file, and for buffers of 1 MiB. */
    int64_t waits = 20000 * (NAME_NBYTES + 20) * 3 / 2 * 3 / 2;
    open_counted(state, names, N, first, &beside_peak, &beside_held);
    assert_true(beside_peak < waits + 4 * (int64_t)MIB);
    assert_true(beside_held < (int64_t)MIB / 4);
    open_counted(state, names, N, again, &beside_peak, &beside_held);
    assert_true(beside_peak < 4 * (int64_t)MIB);
    assert_true(beside_held < (int64_t)MIB / 4);
    setenv("PENSTOCK_LISTING_FILES", "0", 1);
    open_counted(state, names, N, scanned, &beside_peak, &beside_held);
    assert_true(beside_peak < 4 * (int64_t)MIB);
    assert_memory_equal(first, scanned, sizeof first);
    assert_memory_equal(again, scanned, sizeof again);
}

/* A directory has more entries than may be in memory twice. */
static void a_large_directory(void **state)
{
    enum { N = 34000 };
    uint8_t first[2][16], again[2][16], scanned[2][16];
    int64_t beside_peak, beside_held;
    size_t names = make_files(state, N, N);
    psti_clock_sleep_until(psti_clock_ns() + 300000000);
    open_counted(state, names, N, first, &beside_peak, &beside_held);
    assert_true(beside_peak < 12 * N + 5 * (int64_t)MIB);
    open_counted(state, names, N, again, &beside_peak, &beside_held);
    assert_true(beside_peak < 4 * (int64_t)MIB);
    setenv("PENSTOCK_LISTING_FILES", "0", 1);
    open_counted(state, names, N, scanned, &beside_peak, &beside_held);
    assert_memory_equal(first, scanned, sizeof first);
    assert_memory_equal(again, scanned, sizeof again);
}

/* Removes the listing, and uses a cache folder that has no other. */
static void forget_listings(void **state)
{
    static unsigned n;
    char name[32];
    snprintf(name, sizeof name, "cache%u", ++n);
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, name), 1);
    (void)unlink(folder_path(state, "f/.penstock/files.pls"));
}

/* Reads and writes fail while the entries are read again, or right before. */
static void failures_while_entries_are_read_again(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_READ, PSTI_FAULT_WRITE,
                                                 PSTI_FAULT_ALLOC};
    enum { N = 33000, LAST = 10 };
    uint8_t wanted[2][16], found[2][16];
    int64_t beside_peak, beside_held;
    size_t names = make_files(state, N, N);
    psti_clock_sleep_until(psti_clock_ns() + 300000000);
    open_counted(state, names, N, wanted, &beside_peak, &beside_held);
    for (unsigned i = 0; i < 3; i++) {
        forget_listings(state);
        psti_fault_arm(kinds[i], UINT64_MAX, false);
        open_counted(state, names, N, found, &beside_peak, &beside_held);
        uint64_t n = psti_fault_count(kinds[i]);
        psti_fault_arm(kinds[i], 0, false);
        for (uint64_t k = n > LAST ? n - LAST : 1; k <= n; k++) {
            pst_dataset *dataset = NULL;
            struct pst_error err;
            forget_listings(state);
            psti_fault_arm(kinds[i], k, false);
            enum pst_status status =
                pst_dataset_open(folder_path(state, "f"), NULL, &dataset, &err);
            psti_fault_arm(kinds[i], 0, false);
            if (status == PST_OK) {
                assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_BYTES, found[0], &err));
                assert_memory_equal(found[0], wanted[0], sizeof found[0]);
            } else {
                assert_int_equal(status,
                                 kinds[i] == PSTI_FAULT_ALLOC ? PST_ERROR_MEMORY : PST_ERROR_IO);
            }
            pst_dataset_close(&dataset);
            assert_int_equal(live, 0);
        }
        open_counted(state, names, N, found, &beside_peak, &beside_held);
        assert_memory_equal(found, wanted, sizeof found);
    }
}

/* The caller's progress function is called, and can cancel, however the files of a folder are
 * found. */

struct calls {
    unsigned n, last; /* number of calls so far, and the one that cancels */
};

static int cancel(void *ctx, const struct pst_progress *progress)
{
    struct calls *calls = ctx;
    (void)progress;
    if (++calls->n == calls->last)
        return 1;
    /* the function is called a few times a second */
    psti_clock_sleep_until(psti_clock_ns() + 150000000);
    return 0;
}

static void check_cancelled(void **state, const struct pst_dataset_options *given, unsigned last)
{
    struct pst_dataset_options options = *given;
    struct calls calls = {.last = last};
    struct pst_error err;
    pst_dataset *dataset = NULL;
    options.struct_size = sizeof options;
    options.progress = cancel;
    options.progress_ctx = &calls;
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err),
                     PST_ERROR_CANCELLED);
    assert_null(dataset);
    assert_int_equal(calls.n, last);
    assert_int_equal(live, 0);
}

static void all_ways_of_finding_files_are_told(void **state)
{
    static const char *const files[] = {"images/a.jpg", "images/b.jpg"};
    const struct pst_dataset_options scan = {0}, list = {.files = files, .n_files = 2};
    struct pst_dataset_options labels = {0};
    folder_text(state, "f/images/a.jpg", "a");
    folder_text(state, "f/images/b.jpg", "b");
    labels.labels = folder_text(state, "labels.csv", "file,label\nimages/a.jpg,1\n");
    check_cancelled(state, &scan, 1);
    check_cancelled(state, &list, 1);
    check_cancelled(state, &labels, 1);
    /* The top folder, the images and the masks are listed one after the other. */
    folder_text(state, "f/masks/a.png", "a");
    folder_text(state, "f/masks/b.png", "b");
    for (unsigned last = 1; last <= 3; last++)
        check_cancelled(state, &scan, last);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_table_takes_thirteen_bytes_a_file),
        T(names_of_all_lengths),
        T(memory_of_a_folder),
        T(a_large_directory),
        T(failures_while_entries_are_read_again),
        T(all_ways_of_finding_files_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
