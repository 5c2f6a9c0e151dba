/* Properties of single engines: which thread completes a read, more reads than the ring holds,
 * threads that submit and end, and a ring that breaks while reads run. */
#include "storage_test.h"

#include "base/alloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#define DATA_NBYTES ((size_t)500000)

static unsigned char *data;

static struct psti_storage *open_kind(enum pst_storage_kind kind, unsigned n_threads,
                                      unsigned depth)
{
    struct pst_error err;
    struct psti_storage_options options = {.kind = kind, .n_threads = n_threads, .depth = depth};
    struct psti_storage *storage = NULL;
    assert_ok(psti_storage_open(&options, &storage, &err));
    return storage;
}

/* Waits for all other reads, so this one, submitted first, completes last. */
static void wait_for_the_others(struct psti_read *read)
{
    struct waiting *waiting = read->user;
    waiting_for(waiting, 5);
    count_done(read);
}

static void a_slow_read_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct psti_storage *storage = open_kind(PST_STORAGE_THREADS, 2, 6);
    struct waiting waiting;
    waiting_init(&waiting);
    struct psti_read reads[6], *list[6];
    memset(reads, 0, sizeof reads);
    for (int i = 0; i < 6; i++) {
        reads[i].path = test_path("data");
        reads[i].nbytes = DATA_NBYTES;
        reads[i].buffer = read_buffer(storage, DATA_NBYTES);
        reads[i].done = i == 0 ? wait_for_the_others : count_done;
        reads[i].user = &waiting;
        list[i] = &reads[i];
    }
    psti_storage_submit(storage, list, 6);
    waiting_for(&waiting, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(reads[i].status, PST_OK);
        assert_memory_equal(reads[i].data, data, DATA_NBYTES);
        psti_free(reads[i].buffer);
    }
    psti_storage_close(&storage);
    waiting_destroy(&waiting);
}

static void auto_without_threads(void **state)
{
    (void)state;
    size_t n_tasks = count_entries("/proc/self/task");
    struct psti_storage *storage = open_kind(PST_STORAGE_AUTO, 0, 1);
    assert_int_equal(psti_storage_kind_in_use(storage), PST_STORAGE_THREADS);
    assert_true(psti_storage_reason(storage)[0] != '\0');
    assert_true(tasks_settle(n_tasks));
    psti_storage_close(&storage);
    psti_storage_close(&storage);
}

/* The reads of a series of short-lived threads. */
struct many {
    struct psti_storage *storage;
    struct psti_file *file;
    struct waiting waiting;
    struct psti_read *reads;
    size_t n;
};

static void many_make(struct many *many, enum pst_storage_kind kind, size_t n, unsigned depth)
{
    struct pst_error err;
    many->storage = open_kind(kind, 2, depth);
    many->file = NULL;
    assert_ok(psti_storage_file_open(many->storage, test_path("data"), &many->file, &err));
    waiting_init(&many->waiting);
    many->n = n;
    many->reads = calloc(n, sizeof *many->reads);
    assert_non_null(many->reads);
    for (size_t i = 0; i < n; i++) {
        struct psti_read *read = &many->reads[i];
        read->nbytes = 1000;
        if (i % 3 == 2) {
            read->path = test_path("small");
        } else {
            read->file = many->file;
            read->offset = i * 37;
        }
        read->buffer = read_buffer(many->storage, 1000);
        read->done = count_done;
        read->user = &many->waiting;
    }
}

static void many_check(struct many *many)
{
    waiting_for(&many->waiting, many->n);
    for (size_t i = 0; i < many->n; i++) {
        struct pst_error err = many->reads[i].error;
        assert_ok(many->reads[i].status);
        assert_memory_equal(many->reads[i].data, data + many->reads[i].offset, 1000);
        psti_free(many->reads[i].buffer);
    }
    free(many->reads);
    psti_storage_file_close(&many->file);
    psti_storage_close(&many->storage);
    waiting_destroy(&many->waiting);
}

static void submit_range(struct many *many, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        struct psti_read *read = &many->reads[i];
        psti_storage_submit(many->storage, &read, 1);
    }
}

static void *submit_half(void *arg)
{
    struct many *many = arg;
    submit_range(many, 0, many->n / 2);
    return NULL;
}

static void threads_may_submit_and_end(void **state)
{
    (void)state;
    const enum pst_storage_kind kinds[] = {PST_STORAGE_THREADS, PST_STORAGE_URING};
    const bool chosen[] = {tests_others(), tests_uring() && uring_works()};
    for (size_t k = 0; k < 2; k++)
        for (int round = 0; round < 5 && chosen[k]; round++) {
            struct many many;
            many_make(&many, kinds[k], 400, 400);
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, submit_half, &many), 0);
            submit_range(&many, many.n / 2, many.n);
            pthread_join(thread, NULL);
            many_check(&many);
        }
}

static void more_reads_than_the_ring_holds(void **state)
{
    (void)state;
    struct many many;
    many_make(&many, PST_STORAGE_URING, 3000, 3000);
    struct psti_read **list = calloc(many.n, sizeof(struct psti_read *));
    for (size_t i = 0; i < many.n; i++)
        list[i] = &many.reads[i];
    psti_storage_submit(many.storage, list, many.n);
    free(list);
    many_check(&many);
}

/* Returns the descriptor of the only io_uring in this process. */
static int find_ring(void)
{
    int found = -1;
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char target[64];
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strcmp(target, "anon_inode:[io_uring]") == 0)
            found = atoi(entry->d_name);
    }
    closedir(dir);
    return found;
}

static void a_broken_ring_loses_no_read(void **state)
{
    (void)state;
    for (size_t before = 0; before < 300; before += 60) {
        struct many many;
        many_make(&many, PST_STORAGE_URING, 300, 300);
        submit_range(&many, 0, before);
        int ring = find_ring(), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(ring >= 0 && null >= 0);
        assert_int_equal(dup2(null, ring), ring); /* from now on no call reaches the ring */
        close(null);
        submit_range(&many, before, many.n);
        waiting_for(&many.waiting, many.n);
        struct psti_storage_stats stats;
        psti_storage_stats(many.storage, &stats);
        assert_int_equal(stats.n_fallback_uring, 1);
        assert_int_equal(psti_storage_kind_in_use(many.storage), PST_STORAGE_THREADS);
        assert_non_null(strstr(psti_storage_reason(many.storage), "io_uring failed while reading"));
        many_check(&many);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_slow_read_does_not_hold_up_the_others),
        cmocka_unit_test(auto_without_threads),
        cmocka_unit_test(threads_may_submit_and_end),
    };
    const struct CMUnitTest ring[] = {
        cmocka_unit_test(threads_may_submit_and_end),
        cmocka_unit_test(more_reads_than_the_ring_holds),
        cmocka_unit_test(a_broken_ring_loses_no_read),
    };
    bool with_uring = tests_uring() && uring_works();
    if (!with_uring && !tests_others())
        return 77;
    test_directory_make();
    data = random_bytes(5, DATA_NBYTES);
    write_file(test_path("data"), data, DATA_NBYTES);
    write_file(test_path("small"), data, 1000);
    int n_failed = 0;
    if (tests_others())
        n_failed += cmocka_run_group_tests_name("engines", others, NULL, NULL);
    if (with_uring)
        n_failed += cmocka_run_group_tests_name("ring", ring, NULL, NULL);
    free(data);
    test_directory_remove();
    return n_failed;
}
