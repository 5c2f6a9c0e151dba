/* Reads of neighbouring ranges share a request: the bytes are the same with and without, the number
 * of requests is exact, and faults hit only their own read. */
#include "storage_test.h"

#include "storage/storage_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"

#define DATA_NBYTES ((size_t)3000000)
#define N_READS_MAX 200

static unsigned char *data;

struct part {
    size_t offset, nbytes;
};

/* The results of one round of reads. */
struct round {
    struct psti_read reads[N_READS_MAX];
    struct psti_storage_stats stats;
};

static bool merges(void)
{
    return engine.n_threads > 0 && engine.kind != PST_STORAGE_MEMORY &&
           engine.page_cache != PST_PAGE_CACHE_DIRECT;
}

static struct psti_storage *open_merging(uint64_t gap_nbytes)
{
    struct pst_error err;
    struct psti_storage_options options = engine_options();
    options.gap_nbytes = gap_nbytes;
    options.depth = N_READS_MAX;
    struct psti_storage *storage = NULL;
    assert_ok(psti_storage_open(&options, &storage, &err));
    return storage;
}

static struct psti_file *open_data(struct psti_storage *storage, const char *name)
{
    struct pst_error err;
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path(name), &file, &err));
    return file;
}

/* Submits the parts together, in that order, and compares those that succeed. Returns how many
 * fail. Frees the buffers. */
static size_t read_round(struct psti_storage *storage, struct psti_file *file,
                         const struct part *parts, size_t n, struct round *round)
{
    struct psti_read *list[N_READS_MAX];
    struct waiting waiting;
    size_t n_failed = 0;
    waiting_init(&waiting);
    memset(round, 0, sizeof *round);
    struct psti_storage_stats before; /* opening a file in memory reads it, too */
    psti_storage_stats(storage, &before);
    for (size_t i = 0; i < n; i++) {
        round->reads[i] = (struct psti_read){.file = file,
                                             .offset = parts[i].offset,
                                             .nbytes = parts[i].nbytes,
                                             .buffer = read_buffer(storage, parts[i].nbytes),
                                             .done = count_done,
                                             .user = &waiting};
        list[i] = &round->reads[i];
    }
    psti_storage_submit(storage, list, n);
    waiting_for(&waiting, n);
    waiting_destroy(&waiting);
    for (size_t i = 0; i < n; i++) {
        struct psti_read *read = &round->reads[i];
        n_failed += read->status != PST_OK;
        if (read->status == PST_OK)
            assert_memory_equal(read->data, data + read->offset, read->nbytes);
        psti_free(read->buffer);
    }
    psti_storage_stats(storage, &round->stats);
    round->stats.n_reads -= before.n_reads;
    round->stats.nbytes_read -= before.nbytes_read;
    return n_failed;
}

/* Parts of 9000 bytes at every 10000, in mixed order. */
static void spread(struct part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        parts[i] = (struct part){(i * 37 % n) * 10000, 9000};
}

static void neighbours_come_in_one_request(void **state)
{
    (void)state;
    static struct round round;
    struct part parts[100];
    spread(parts, 100);
    struct psti_storage *storage = open_merging(1000);
    struct psti_file *file = open_data(storage, "data");
    assert_int_equal(read_round(storage, file, parts, 100, &round), 0);
    assert_int_equal(round.stats.nbytes_read, 900000);
    /* A request has at most 64 reads. */
    assert_int_equal(round.stats.n_reads, merges() ? 2 : 100);
    assert_int_equal(round.stats.n_merged, merges() ? 98 : 0);
    assert_int_equal(round.stats.nbytes_gap, merges() ? 98 * 1000 : 0);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
    /* no gap allowed, or a gap that is one byte too small */
    for (uint64_t gap = 0; gap < 1000; gap += 999) {
        storage = open_merging(gap);
        file = open_data(storage, "data");
        assert_int_equal(read_round(storage, file, parts, 100, &round), 0);
        assert_int_equal(round.stats.n_reads, 100);
        assert_int_equal(round.stats.n_merged, 0);
        psti_storage_file_close(&file);
        psti_storage_close(&storage);
    }
}

/* Tests gaps longer than the sink, parts that overlap, two equal parts, an empty part, and one that
 * is too long to share a request. */
static void odd_parts(void **state)
{
    (void)state;
    static struct round round;
    const struct part parts[] = {{0, 100},        {600000, 1},     {1300000, 5000}, {600000, 1},
                                 {600001, 40000}, {610000, 70000}, {50, 0},         {2999999, 1},
                                 {1305000, 1},    {0, 3000000}};
    enum { N = sizeof parts / sizeof parts[0] };
    struct psti_storage *storage = open_merging(1 << 20);
    struct psti_file *file = open_data(storage, "data");
    assert_int_equal(read_round(storage, file, parts, N, &round), 0);
    if (merges())
        assert_true(round.stats.n_merged > 2 && round.stats.nbytes_gap > 600000);
    assert_int_equal(round.stats.n_reads + round.stats.n_merged, N);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

/* Reads of two files take two requests, and a read by path takes one of its own. */
static void files_do_not_mix(void **state)
{
    (void)state;
    struct psti_storage *storage = open_merging(1000);
    struct psti_file *files[2] = {open_data(storage, "data"), open_data(storage, "short")};
    struct psti_read reads[9] = {0}, *list[9];
    struct waiting waiting;
    waiting_init(&waiting);
    for (size_t i = 0; i < 9; i++) {
        reads[i].file = i == 8 ? NULL : files[i % 2];
        reads[i].path = i == 8 ? test_path("short") : NULL;
        reads[i].offset = i == 8 ? 0 : i / 2 * 1000;
        reads[i].nbytes = i == 8 ? 500000 : 1000;
        reads[i].buffer = read_buffer(storage, reads[i].nbytes);
        reads[i].done = count_done;
        reads[i].user = &waiting;
        list[i] = &reads[i];
    }
    psti_storage_submit(storage, list, 9);
    waiting_for(&waiting, 9);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(reads[i].status, PST_OK);
        assert_memory_equal(reads[i].data, data + reads[i].offset, reads[i].nbytes);
        psti_free(reads[i].buffer);
    }
    waiting_destroy(&waiting);
    struct psti_storage_stats stats;
    psti_storage_stats(storage, &stats);
    assert_int_equal(stats.n_merged, merges() ? 6 : 0);
    psti_storage_file_close(&files[0]);
    psti_storage_file_close(&files[1]);
    psti_storage_close(&storage);
}

/* The file "short" ends after 500000 bytes, within the 51st part. */
static void the_end_hits_only_its_reads(void **state)
{
    (void)state;
    static struct round round;
    struct part parts[60];
    spread(parts, 60);
    for (size_t i = 0; i < 60; i++)
        parts[i].offset += 1000;
    struct psti_storage *storage = open_merging(1000);
    struct psti_file *file = open_data(storage, "short");
    assert_int_equal(read_round(storage, file, parts, 60, &round), 10);
    for (size_t i = 0; i < 60; i++) {
        bool inside = parts[i].offset + 9000 <= 500000;
        assert_int_equal(round.reads[i].status, inside ? PST_OK : PST_ERROR_TRUNCATED);
    }
    assert_int_equal(round.stats.n_reads, merges() ? 1 + 10 : 60);
    assert_int_equal(round.stats.nbytes_read, 50 * 9000);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

#ifdef PST_FAULTS
/* The shared request fails, so each read is tried alone. If these fail too, each gets its own
 * error. */
static void an_error_is_tried_again(void **state)
{
    (void)state;
    static struct round round;
    struct part parts[30];
    spread(parts, 30);
    struct psti_storage *storage = open_merging(1000);
    struct psti_file *file = open_data(storage, "data");
    psti_fault_arm(PSTI_FAULT_READ, 1, false);
    size_t n_failed = read_round(storage, file, parts, 30, &round);
    psti_fault_arm(PSTI_FAULT_READ, 0, false);
    assert_int_equal(n_failed, merges() ? 0 : 1);
    assert_int_equal(round.stats.n_reads, merges() ? 31 : 30);
    psti_fault_arm(PSTI_FAULT_READ, 2, false); /* the first of the reads that are tried again */
    n_failed = read_round(storage, file, parts, 30, &round);
    psti_fault_arm(PSTI_FAULT_READ, 0, false);
    assert_int_equal(n_failed, merges() ? 0 : 1); /* the shared request is the first call */
    psti_fault_arm(PSTI_FAULT_READ, 1, true);
    n_failed = read_round(storage, file, parts, 30, &round);
    psti_fault_arm(PSTI_FAULT_READ, 0, false);
    assert_int_equal(n_failed, 30);
    for (size_t i = 0; i < 30; i++) {
        assert_int_equal(round.reads[i].status, PST_ERROR_IO);
        assert_int_equal(round.reads[i].error.offset, parts[i].offset);
    }
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}
#endif

/* Throttled requests that are cancelled end at once, each with its reads. */
static void cancelled_requests_end(void **state)
{
    (void)state;
    static struct round round;
    struct pst_error err;
    struct part parts[150];
    spread(parts, 150);
    struct psti_storage_options options = engine_options();
    options.gap_nbytes = 1000;
    options.depth = N_READS_MAX;
    options.latency_seconds = 1000;
    options.n_at_once = 1;
    struct psti_storage *storage = NULL;
    assert_ok(psti_storage_open(&options, &storage, &err));
    struct psti_file *file = open_data(storage, "data");
    psti_storage_cancel(storage);
    assert_int_equal(read_round(storage, file, parts, 150, &round), 0);
    psti_storage_resume(storage);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

/* One request at a time: latencies add up; with n at a time they overlap. */
static void requests_at_a_time(void **state)
{
    (void)state;
    struct pst_error err;
    for (unsigned n = 1; n <= 3; n++) {
        struct psti_storage_pace *pace = NULL;
        assert_ok(psti_storage_pace_open(1e9, 2, n, false, &pace, &err));
        int64_t now = psti_clock_ns(), until = 0;
        for (int i = 0; i < 12; i++) {
            until = psti_storage_pace_admit(pace, now, 1000);
            assert_true(until - now >= 2000000000ll * (i / (int)n + 1));
        }
        assert_true(until - now >= 2000000000ll * (12 / (int)n) + 1000);
        assert_true(until - now <= 2000000000ll * (12 / (int)n) + 12000);
        psti_storage_pace_cancel(pace, true); /* gives back the time that it was granted */
        psti_storage_pace_cancel(pace, false);
        assert_true(psti_storage_pace_admit(pace, psti_clock_ns(), 0) - psti_clock_ns() <=
                    2000000000ll);
        psti_storage_pace_close(&pace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_come_in_one_request),
        cmocka_unit_test(odd_parts),
        cmocka_unit_test(files_do_not_mix),
        cmocka_unit_test(the_end_hits_only_its_reads),
#ifdef PST_FAULTS
        cmocka_unit_test(an_error_is_tried_again),
#endif
        cmocka_unit_test(cancelled_requests_end),
    };
    const struct CMUnitTest alone[] = {cmocka_unit_test(requests_at_a_time)};
    test_directory_make();
    data = random_bytes(5, DATA_NBYTES);
    write_file(test_path("data"), data, DATA_NBYTES);
    write_file(test_path("short"), data, 500000);
    int n_failed = run_on_every_engine("merge", tests, sizeof tests / sizeof tests[0]);
    if (tests_others())
        n_failed += cmocka_run_group_tests_name("merge alone", alone, NULL, NULL);
    free(data);
    test_directory_remove();
    return n_failed;
}
