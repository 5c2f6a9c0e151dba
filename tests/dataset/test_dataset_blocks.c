/* test_dataset_blocks.c - other processes truncate, change or replace an index while it is open:
 * reads give the written values or an error that names the file, never a signal. */
#include "writer/writer_fixture.h"

#include "base/bits.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dataset/dataset_blocks.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tests of a data set whose index has several blocks
 * --------------------------------------------- */

enum { N_SAMPLES = 400 };

struct place {
    char *directory;
    char path[512], index[600];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    struct pst_error err = {0};
    place->directory = fixture_directory();
    snprintf(place->path, sizeof place->path, "%s/set", place->directory);
    snprintf(place->index, sizeof place->index, "%s/index.pst", place->path);
    assert_ok(fixture_live(place->path, PST_WRITER_CREATE, N_SAMPLES, &err));
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    fixture_remove(place->directory);
    free(place);
    return 0;
}

/* Counts a call. If it failed, the status must be `want` and the error must name the index. */
static void count(enum pst_status status, enum pst_status want, const struct place *place,
                  const struct pst_error *err, uint64_t *n_good, uint64_t *n_failed)
{
    if (status == PST_OK) {
        ++*n_good;
        return;
    }
    assert_int_equal(status, want);
    assert_string_equal(err->file, place->index);
    assert_string_equal(err->dataset, place->path);
    assert_true(err->offset >= 0);
    ++*n_failed;
}

/* Reads everything from a data set. Each value must be the one that was written, and each call that
 * fails must fail with `want`. */
static void use(const pst_dataset *ds, const struct place *place, enum pst_status want,
                uint64_t *n_good, uint64_t *n_failed)
{
    struct fixture_sample s;
    struct pst_error err = {0};
    *n_good = *n_failed = 0;
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        char name[PST_NAME_CAP];
        int64_t label;
        struct pst_item item;
        fixture_make(&s, i);
        enum pst_status status = pst_dataset_sample_name(ds, i, name, &err);
        count(status, want, place, &err, n_good, n_failed);
        if (status == PST_OK)
            assert_string_equal(name, s.name);
        status = pst_dataset_int(ds, i, FIX_LABEL, &label, &err);
        count(status, want, place, &err, n_good, n_failed);
        if (status == PST_OK)
            assert_int_equal(label, s.label);
        status = pst_dataset_item(ds, i, FIX_AUDIO, 0, &item, sizeof item, &err);
        count(status, want, place, &err, n_good, n_failed);
        if (status == PST_OK)
            assert_int_equal(item.nbytes, s.value[FIX_AUDIO][0].nbytes);
    }
}

static void cut_under_an_open_set(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    uint64_t n_good, n_failed;
    pst_dataset *ds;
    assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
    assert_int_equal(truncate(place->index, 4096), 0);
    use(ds, place, PST_ERROR_IO, &n_good, &n_failed);
    assert_true(n_failed > 0);
    pst_dataset_close(&ds);
    assert_int_equal(pst_dataset_open(place->path, NULL, &ds, &err), PST_ERROR_TRUNCATED);
}

static void blocks_in_memory_outlive_the_file(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    uint64_t n_good, n_failed;
    pst_dataset *ds;
    assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
    use(ds, place, PST_OK, &n_good, &n_failed);
    assert_int_equal(n_failed, 0);
    assert_int_equal(truncate(place->index, 0), 0);
    use(ds, place, PST_OK, &n_good, &n_failed);
    assert_int_equal(n_failed, 0);
    pst_dataset_close(&ds);
}

static void reads_that_fail(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    uint64_t n_good, n_failed;
    pst_dataset *ds;
    assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
    psti_fault_arm(PSTI_FAULT_READ, 1, true);
    use(ds, place, PST_ERROR_IO, &n_good, &n_failed);
    psti_fault_arm(PSTI_FAULT_READ, 0, false);
    assert_true(n_failed > 0);
    /* The file system is mounted again, so all values can be read. */
    use(ds, place, PST_OK, &n_good, &n_failed);
    assert_int_equal(n_failed, 0);
    pst_dataset_close(&ds);
    for (uint64_t n = 1;; n++) { /* lets each read of an open fail in turn */
        psti_fault_arm(PSTI_FAULT_READ, n, false);
        enum pst_status status = pst_dataset_open(place->path, NULL, &ds, &err);
        psti_fault_arm(PSTI_FAULT_READ, 0, false);
        pst_dataset_close(&ds);
        if (status == PST_OK)
            break;
        assert_int_equal(status, PST_ERROR_IO);
        assert_string_equal(err.file, place->index);
    }
}

static void replaced_by_a_rename(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    char other[700];
    uint64_t n_good, n_failed;
    pst_dataset *ds;
    assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
    snprintf(other, sizeof other, "%s/other", place->path);
    fixture_write_file(other, "new", 3);
    assert_int_equal(rename(other, place->index), 0);
    use(ds, place, PST_OK, &n_good, &n_failed);
    assert_int_equal(n_failed, 0);
    pst_dataset_close(&ds);
}

static void columns_and_names(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    struct fixture_sample s;
    pst_dataset *ds;
    static int64_t labels[N_SAMPLES];
    static double weights[N_SAMPLES];
    uint64_t found;
    assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
    assert_ok(pst_dataset_column(ds, FIX_LABEL, 0, N_SAMPLES, labels, &err));
    assert_ok(pst_dataset_column(ds, FIX_WEIGHT, 7, N_SAMPLES - 7, weights + 7, &err));
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        fixture_make(&s, i);
        assert_int_equal(labels[i], s.label);
        assert_true(i < 7 || weights[i] == s.weight);
    }
    assert_ok(pst_dataset_column(ds, FIX_LABEL, N_SAMPLES, 0, NULL, &err));
    assert_ok(pst_dataset_find_sample(ds, s.name, &found, &err));
    assert_int_equal(found, N_SAMPLES - 1);
    assert_int_equal(pst_dataset_find_sample(ds, "nobody", &found, &err), PST_ERROR_NOT_FOUND);
    assert_string_equal(err.dataset, place->path);
    assert_int_equal(pst_dataset_column(ds, FIX_LABEL, 1, N_SAMPLES, labels, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_column(ds, FIX_LABEL, UINT64_MAX, 2, labels, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_column(ds, FIX_IMAGE, 0, 1, labels, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_column(ds, FIX_N_FIELDS, 0, 1, labels, &err), PST_ERROR_ARGUMENT);
    pst_dataset_close(&ds);
}

/* Tests of more blocks than fit in memory
 * -------------------------------------------------------- */

enum { N_BLOCKS = PSTI_DATASET_BLOCKS_MAX_FRAMES * 2 + 17, LAST_NBYTES = 64 * 5 };

struct large {
    char *directory;
    char path[512];
    uint8_t *payload;
    size_t nbytes;
    struct psti_blocks blocks;
};

static int setup_large(void **state)
{
    struct large *large = calloc(1, sizeof *large);
    uint64_t *sums = malloc(8 * N_BLOCKS), x = 1;
    struct pst_error err = {0};
    large->nbytes = (size_t)(N_BLOCKS - 1) * PSTI_INDEX_BLOCK_NBYTES + LAST_NBYTES;
    large->payload = malloc(large->nbytes);
    for (size_t i = 0; i < large->nbytes; i += 8) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        psti_store_u64(large->payload + i, x);
    }
    for (size_t i = 0; i < N_BLOCKS; i++)
        sums[i] = psti_hash64(large->payload + i * PSTI_INDEX_BLOCK_NBYTES,
                              i + 1 < N_BLOCKS ? PSTI_INDEX_BLOCK_NBYTES : LAST_NBYTES);
    large->directory = fixture_directory();
    snprintf(large->path, sizeof large->path, "%s/file", large->directory);
    int fd = open(large->path, O_RDWR | O_CREAT, 0666);
    uint64_t end = PSTI_INDEX_HEADER_NBYTES + large->nbytes;
    assert_true(fd >= 0);
    assert_true(pwrite(fd, large->payload, large->nbytes, PSTI_INDEX_HEADER_NBYTES) ==
                (ssize_t)large->nbytes);
    assert_true(pwrite(fd, sums, 8 * N_BLOCKS, (off_t)end) == 8 * N_BLOCKS);
    struct psti_index_frame frame = {.blocks_offset = end,
                                     .n_blocks = N_BLOCKS,
                                     .blocks_checksum = psti_hash64(sums, 8 * N_BLOCKS)};
    large->blocks.fd = -1;
    assert_ok(psti_dataset_blocks_open(&large->blocks, fd, &frame, &err));
    free(sums);
    *state = large;
    return 0;
}

static int teardown_large(void **state)
{
    struct large *large = *state;
    psti_dataset_blocks_close(&large->blocks);
    fixture_remove(large->directory);
    free(large->payload);
    free(large);
    return 0;
}

static enum pst_status get(struct large *large, size_t at, size_t n, bool *equal,
                           struct pst_error *err)
{
    static _Thread_local uint8_t bytes[3 * PSTI_INDEX_BLOCK_NBYTES];
    enum pst_status status =
        psti_dataset_blocks_read(&large->blocks, PSTI_INDEX_HEADER_NBYTES + at, n, bytes, err);
    *equal = status == PST_OK && memcmp(bytes, large->payload + at, n) == 0;
    return status;
}

/* Reads at random and in order, with all lengths. Returns how many reads gave wrong bytes. */
static uint64_t read_much(struct large *large, uint64_t seed, unsigned n_reads)
{
    uint64_t n_bad = 0, x = seed;
    bool equal;
    for (unsigned i = 0; i < n_reads; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        size_t n = i % 50 == 0 ? (x >> 20) % (2 * PSTI_INDEX_BLOCK_NBYTES) + 1 : 1 + (x >> 20) % 64;
        size_t at = i % 3 == 0 ? (size_t)i * 64 : (size_t)(x >> 33) % (large->nbytes - n);
        n_bad += get(large, at, n, &equal, NULL) != PST_OK || !equal;
    }
    return n_bad;
}

static void bytes_are_those_written(void **state)
{
    struct large *large = *state;
    struct pst_memory_stats before, after;
    struct pst_error err = {0};
    bool equal;
    pst_memory_stats(&before, sizeof before);
    assert_int_equal(read_much(large, 1, 20000), 0);
    assert_int_equal(read_much(large, 2, 20000), 0);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.n_alloc, before.n_alloc);
    assert_ok(get(large, large->nbytes - 8, 8, &equal, &err));
    assert_true(equal);
}

static void nobody_waits_for_a_frame(void **state)
{
    struct large *large = *state;
    /* All frames are marked busy, as a forked child finds them if its parent's threads were
     * reading. */
    for (size_t i = 0; i < PSTI_DATASET_BLOCKS_MAX_FRAMES; i++)
        atomic_store(&large->blocks.frames[i].busy, true);
    assert_int_equal(read_much(large, 3, 3000), 0);
    assert_int_equal(read_much(large, 3, 3000), 0);
}

struct reader {
    struct large *large;
    uint64_t seed, n_bad;
};

static void read_thread(void *arg)
{
    struct reader *reader = arg;
    reader->n_bad = read_much(reader->large, reader->seed, 10000);
}

static void many_threads(void **state)
{
    enum { N = 4 };
    struct reader readers[N];
    pthread_t threads[N];
    struct pst_error err = {0};
    for (int i = 0; i < N; i++) {
        readers[i] = (struct reader){.large = *state, .seed = 100 + (uint64_t)i / 2};
        assert_ok(psti_thread_start(&threads[i], "read", read_thread, &readers[i], &err));
    }
    for (int i = 0; i < N; i++) {
        psti_thread_join(threads[i]);
        assert_int_equal(readers[i].n_bad, 0);
    }
}

/* Verified blocks are verified again once the file has changed. */
static void changed_in_place(void **state)
{
    struct large *large = *state;
    struct pst_error err = {0};
    uint64_t n_noticed = 0;
    bool equal;
    int fd = open(large->path, O_RDWR);
    for (size_t b = 0; b < N_BLOCKS; b++) /* reads verify all blocks; most do not stay in memory */
        assert_ok(get(large, b * PSTI_INDEX_BLOCK_NBYTES + 16, 8, &equal, &err));
    for (size_t b = 0; b < N_BLOCKS; b += 5) {
        size_t at = b * PSTI_INDEX_BLOCK_NBYTES + 16;
        uint8_t other = large->payload[at] ^ 1;
        assert_true(pwrite(fd, &other, 1, (off_t)(PSTI_INDEX_HEADER_NBYTES + at)) == 1);
    }
    for (size_t b = 0; b < N_BLOCKS; b++) {
        size_t at = b * PSTI_INDEX_BLOCK_NBYTES + 16;
        enum pst_status status = get(large, at, 8, &equal, &err);
        assert_true(status == PST_ERROR_CHECKSUM || equal);
        assert_true(b % 5 == 0 || status == PST_OK);
        if (status == PST_ERROR_CHECKSUM)
            assert_int_equal(err.offset, PSTI_INDEX_HEADER_NBYTES + b * PSTI_INDEX_BLOCK_NBYTES);
        n_noticed += status == PST_ERROR_CHECKSUM;
        assert_int_equal(psti_dataset_blocks_check(&large->blocks, b, &err),
                         b % 5 == 0 ? PST_ERROR_CHECKSUM : PST_OK);
    }
    assert_true(n_noticed > N_BLOCKS / 5 / 3);
    close(fd);
}

static void cut_in_place(void **state)
{
    struct large *large = *state;
    struct pst_error err;
    uint64_t n_failed = 0;
    bool equal;
    assert_int_equal(read_much(large, 4, 20000), 0);
    assert_int_equal(truncate(large->path, PSTI_INDEX_HEADER_NBYTES + 100), 0);
    for (size_t b = 0; b < N_BLOCKS; b++) {
        enum pst_status status = get(large, b * PSTI_INDEX_BLOCK_NBYTES + 200, 64, &equal, &err);
        assert_true(status == PST_ERROR_IO || equal);
        n_failed += status == PST_ERROR_IO;
    }
    assert_true(n_failed >= N_BLOCKS - PSTI_DATASET_BLOCKS_MAX_FRAMES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cut_under_an_open_set, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks_in_memory_outlive_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_that_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(replaced_by_a_rename, setup, teardown),
        cmocka_unit_test_setup_teardown(columns_and_names, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_are_those_written, setup_large, teardown_large),
        cmocka_unit_test_setup_teardown(nobody_waits_for_a_frame, setup_large, teardown_large),
        cmocka_unit_test_setup_teardown(many_threads, setup_large, teardown_large),
        cmocka_unit_test_setup_teardown(changed_in_place, setup_large, teardown_large),
        cmocka_unit_test_setup_teardown(cut_in_place, setup_large, teardown_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
