/* Files read by path that are submitted together: they are read in the order of their places
 * (inodes), and only as many are open at a time as the process can afford. */
#include "storage_test.h"

#include "storage/storage_int.h"

#include "base/alloc.h"

#include <sys/resource.h>

#define N_FILES 600u
#define NBYTES 700u

static unsigned char *data;
static char paths[N_FILES][512];

/* Reads all files once, submitted in any order. */
struct round {
    struct psti_read reads[N_FILES];
    struct waiting waiting;
    /* places in the order in which reads ended; guarded by waiting.lock */
    uint64_t places[N_FILES];
};

static struct round round_;

static void note_done(struct psti_read *read)
{
    struct waiting *waiting = &round_.waiting;
    pthread_mutex_lock(&waiting->lock);
    round_.places[waiting->n_done++] = read->place;
    pthread_cond_broadcast(&waiting->changed);
    pthread_mutex_unlock(&waiting->lock);
}

/* Returns the i-th file to submit; file i has place i. */
static uint32_t file_at(uint32_t i) { return i * 257 % N_FILES; }

static struct psti_storage *open_by_place(bool by_place, unsigned n_threads)
{
    struct pst_error err;
    struct psti_storage_options options = engine_options();
    struct psti_storage *storage = NULL;
    options.by_place = by_place;
    options.depth = N_FILES;
    options.n_threads = n_threads;
    assert_ok(psti_storage_open(&options, &storage, &err));
    return storage;
}

static void read_all(struct psti_storage *storage)
{
    struct psti_read *list[N_FILES];
    memset(&round_, 0, sizeof round_);
    waiting_init(&round_.waiting);
    for (uint32_t i = 0; i < N_FILES; i++) {
        uint32_t file = file_at(i);
        list[i] = &round_.reads[file];
        *list[i] = (struct psti_read){.path = paths[file],
                                      .place = file,
                                      .nbytes = NBYTES,
                                      .buffer = read_buffer(storage, NBYTES),
                                      .done = note_done};
    }
    psti_storage_submit(storage, list, N_FILES);
    waiting_for(&round_.waiting, N_FILES);
    waiting_destroy(&round_.waiting);
    for (uint32_t i = 0; i < N_FILES; i++) {
        assert_int_equal(round_.reads[i].status, PST_OK);
        assert_memory_equal(round_.reads[i].data, data + i, NBYTES);
        psti_free(round_.reads[i].buffer);
    }
}

/* With a single thread, reads end in the order in which they begin. */
static void reads_begin_in_order(void **state)
{
    (void)state;
    struct psti_storage_stats stats;
    if (engine.kind == PST_STORAGE_URING)
        skip(); /* this engine ends reads in any order */
    for (int by_place = 0; by_place < 2; by_place++) {
        struct psti_storage *storage = open_by_place(by_place, engine.n_threads > 0);
        read_all(storage);
        for (uint32_t i = 0; i < N_FILES; i++)
            assert_int_equal(round_.places[i], by_place ? i : file_at(i));
        psti_storage_stats(storage, &stats);
        assert_int_equal(stats.n_ordered, by_place ? N_FILES : 0);
        assert_int_equal(stats.n_reads, N_FILES);
        assert_int_equal(stats.nbytes_read, N_FILES * NBYTES);
        psti_storage_close(&storage);
    }
}

/* All files are read, although this process may have only few of them open. */
static void come_with_few_descriptors(uint32_t n_free)
{
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    struct psti_storage *storage = open_by_place(true, engine.n_threads);
    few.rlim_cur = count_entries("/proc/self/fd") + n_free;
    assert_true(few.rlim_cur < N_FILES);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    read_all(storage);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    psti_storage_close(&storage);
}

static void few_are_open_at_a_time(void **state)
{
    (void)state;
    come_with_few_descriptors(PSTI_STORAGE_PATHS_MAX);
}

/* The ring opens fewer files at a time if the process has no descriptor left. */
static void the_process_has_few_descriptors_left(void **state)
{
    (void)state;
    assert_true(engine.n_threads < 10);
    come_with_few_descriptors(12);
}

/* One of many files is missing: only its read fails. */
static void a_lost_file_is_alone(void **state)
{
    (void)state;
    struct psti_storage *storage = open_by_place(true, engine.n_threads);
    struct psti_read reads[20], *list[20];
    struct waiting waiting;
    waiting_init(&waiting);
    for (uint32_t i = 0; i < 20; i++) {
        reads[i] = (struct psti_read){.path = i == 7 ? test_path("lost") : paths[i],
                                      .place = 20 - i,
                                      .nbytes = NBYTES,
                                      .buffer = read_buffer(storage, NBYTES),
                                      .done = count_done,
                                      .user = &waiting};
        list[i] = &reads[i];
    }
    psti_storage_submit(storage, list, 20);
    waiting_for(&waiting, 20);
    waiting_destroy(&waiting);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(reads[i].status, i == 7 ? PST_ERROR_NOT_FOUND : PST_OK);
        psti_free(reads[i].buffer);
    }
    psti_storage_close(&storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_begin_in_order),
        cmocka_unit_test(few_are_open_at_a_time),
        cmocka_unit_test(the_process_has_few_descriptors_left),
        cmocka_unit_test(a_lost_file_is_alone),
    };
    test_directory_make();
    data = random_bytes(9, N_FILES + NBYTES);
    for (uint32_t i = 0; i < N_FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        snprintf(paths[i], sizeof paths[i], "%s", test_path(name));
        write_file(paths[i], data + i, NBYTES);
    }
    int n_failed = run_on_every_engine("places", tests, sizeof tests / sizeof tests[0]);
    free(data);
    test_directory_remove();
    return n_failed;
}
