/* Reads that succeed and reads that fail: the same on every engine and page cache mode. */
#include "storage_test.h"

#include "base/alloc.h"
#include "base/philox.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define DATA_NBYTES ((size_t)3 * 1024 * 1024 + 123)
#define TMPFS_MAGIC_NUMBER 0x01021994

static unsigned char *data;

/* One of many reads, and how often its `done` was called. */
struct one {
    struct psti_read read;
    struct waiting *waiting;
    int n_done;
};

static void one_done(struct psti_read *read)
{
    struct one *one = read->user;
    pthread_mutex_lock(&one->waiting->lock);
    one->n_done++;
    one->waiting->n_done++;
    pthread_cond_broadcast(&one->waiting->changed);
    pthread_mutex_unlock(&one->waiting->lock);
}

static void ranges_of_a_file(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    assert_int_equal(psti_storage_file_nbytes(file), DATA_NBYTES);
    static const uint64_t ranges[][2] = {
        {0, 1},
        {0, 4096},
        {4096, 4096},
        {4095, 1},
        {4095, 2},
        {1, 8191},
        {5000, 100000},
        {DATA_NBYTES - 1, 1},
        {0, DATA_NBYTES},
        {DATA_NBYTES - 5000, 5000},
        {4096, 0},
        {DATA_NBYTES - 123, 123},
        {8192, DATA_NBYTES - 8192},
        {DATA_NBYTES, 0},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        size_t nbytes = (size_t)ranges[i][1];
        for (int submitted = 0; submitted < 2; submitted++) {
            void *buffer = read_buffer(storage, nbytes);
            struct psti_read read = {
                .file = file, .offset = ranges[i][0], .nbytes = nbytes, .buffer = buffer};
            psti_storage_file_will_need(file, read.offset, read.nbytes);
            if (submitted)
                submit_and_wait(storage, &read);
            else
                assert_int_equal(psti_storage_read(storage, &read), read.status);
            err = read.error;
            assert_ok(read.status);
            unsigned char *first = buffer, *bytes = read.data;
            assert_true(bytes >= first);
            assert_true(bytes + nbytes <= first + psti_storage_buffer_nbytes(storage, nbytes));
            assert_memory_equal(bytes, data + read.offset, nbytes);
            psti_free(buffer);
        }
    }
    psti_storage_file_close(&file);
    assert_null(file);
    psti_storage_close(&storage);
    assert_null(storage);
}

static void many_at_once(void **state)
{
    (void)state;
    enum { N = 64, ROUNDS = 6 };
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    struct waiting waiting;
    waiting_init(&waiting);
    struct one *ones = calloc(N, sizeof *ones);
    struct psti_read *reads[N];
    uint64_t total = 0;
    for (size_t i = 0; i < N; i++)
        ones[i].read.buffer = read_buffer(storage, 70000);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < N; i++) {
            uint32_t random[4];
            psti_random4(7, round, PSTI_RANDOM_ORDER, i, 0, 0, random);
            struct psti_read *read = &ones[i].read;
            ones[i].waiting = &waiting;
            ones[i].n_done = 0;
            read->file = file;
            read->nbytes = 1 + psti_uniform_below(random[0], 69999);
            read->offset = psti_uniform_below(random[1], (uint32_t)(DATA_NBYTES - read->nbytes));
            read->done = one_done;
            read->user = &ones[i];
            reads[i] = read;
            total += read->nbytes;
        }
        /* Submits in batches, so that some reads complete while others are submitted. */
        for (size_t i = 0; i < N; i += 16)
            psti_storage_submit(storage, reads + i, 16);
        waiting_for(&waiting, (size_t)(round + 1) * N);
        for (size_t i = 0; i < N; i++) {
            err = ones[i].read.error;
            assert_ok(ones[i].read.status);
            assert_int_equal(ones[i].n_done, 1);
            assert_memory_equal(ones[i].read.data, data + ones[i].read.offset, ones[i].read.nbytes);
        }
    }
    struct psti_storage_stats stats;
    psti_storage_stats(storage, &stats);
    /* this engine has also read the whole file at opening */
    bool memory = engine.kind == PST_STORAGE_MEMORY;
    assert_int_equal(stats.n_reads, N * ROUNDS + (memory ? 1 : 0));
    assert_int_equal(stats.nbytes_read, total + (memory ? DATA_NBYTES : 0));
    assert_int_equal(stats.memory_nbytes, memory ? DATA_NBYTES : 0);
    assert_true(stats.read_ns > 0);
    for (size_t i = 0; i < N; i++)
        psti_free(ones[i].read.buffer);
    free(ones);
    psti_storage_file_close(&file);
    psti_storage_stats(storage, &stats);
    assert_int_equal(stats.memory_nbytes, 0);
    waiting_destroy(&waiting);
    psti_storage_close(&storage);
}

static void whole_paths(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000, 1 << 20};
    enum { N = sizeof sizes / sizeof sizes[0] };
    struct psti_storage *storage = open_engine();
    struct waiting waiting;
    waiting_init(&waiting);
    struct psti_read reads[N], *list[N];
    char paths[N][300];
    memset(reads, 0, sizeof reads);
    for (size_t i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%zu", sizes[i]);
        snprintf(paths[i], sizeof paths[i], "%.299s", test_path(name));
        write_file(paths[i], data + i, sizes[i]);
        reads[i].path = paths[i];
        reads[i].nbytes = sizes[i];
        reads[i].buffer = read_buffer(storage, sizes[i]);
        reads[i].done = count_done;
        reads[i].user = &waiting;
        list[i] = &reads[i];
    }
    size_t n_fds = count_entries("/proc/self/fd");
    psti_storage_submit(storage, list, N);
    waiting_for(&waiting, N);
    for (size_t i = 0; i < N; i++) {
        struct pst_error err = reads[i].error;
        assert_ok(reads[i].status);
        assert_memory_equal(reads[i].data, data + i, sizes[i]);
        memset(reads[i].buffer, 0, psti_storage_buffer_nbytes(storage, sizes[i]));
        assert_ok(psti_storage_read(storage, &reads[i]));
        assert_memory_equal(reads[i].data, data + i, sizes[i]);
        psti_free(reads[i].buffer);
    }
    assert_int_equal(count_entries("/proc/self/fd"), n_fds);
    waiting_destroy(&waiting);
    psti_storage_close(&storage);
}

/* Runs a read in both ways and checks that it fails as expected. */
static void expect_failure(struct psti_storage *storage, struct psti_read *read,
                           enum pst_status status, const char *file, int64_t offset)
{
    size_t n_fds = count_entries("/proc/self/fd");
    read->buffer = read_buffer(storage, read->nbytes < 10000000 ? read->nbytes : 4096);
    for (int submitted = 0; submitted < 2; submitted++) {
        memset(&read->error, 0, sizeof read->error);
        if (submitted)
            submit_and_wait(storage, read);
        else
            assert_int_equal(psti_storage_read(storage, read), status);
        assert_int_equal(read->status, status);
        assert_int_equal(read->error.status, status);
        assert_string_equal(read->error.room, "storage");
        assert_string_equal(read->error.file, file);
        assert_int_equal(read->error.offset, offset);
        assert_true(read->error.text[0] != '\0');
    }
    psti_free(read->buffer);
    assert_int_equal(count_entries("/proc/self/fd"), n_fds);
}

static void beyond_the_end(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = NULL;
    const char *path = test_path("data");
    assert_ok(psti_storage_file_open(storage, path, &file, &err));
    static const uint64_t ranges[][2] = {{DATA_NBYTES - 10, 11},  {DATA_NBYTES, 1},
                                         {DATA_NBYTES + 5000, 1}, {DATA_NBYTES - 5000, 9000},
                                         {0, DATA_NBYTES + 1},    {(uint64_t)1 << 60, 10}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct psti_read read = {
            .file = file, .offset = ranges[i][0], .nbytes = (size_t)ranges[i][1]};
        expect_failure(storage, &read, PST_ERROR_TRUNCATED, path, (int64_t)ranges[i][0]);
    }
    struct psti_read overflow = {.file = file, .offset = 100, .nbytes = SIZE_MAX};
    expect_failure(storage, &overflow, PST_ERROR_TRUNCATED, path, 100);
    struct psti_read far_away = {.file = file, .offset = UINT64_MAX, .nbytes = 1};
    expect_failure(storage, &far_away, PST_ERROR_TRUNCATED, path, -1);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

static void file_cut_short_while_open(void **state)
{
    (void)state;
    if (engine.kind == PST_STORAGE_MEMORY)
        skip(); /* this engine has the file in memory already */
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = NULL;
    const char *path = test_path("shrinking");
    write_file(path, data, 50000);
    assert_ok(psti_storage_file_open(storage, path, &file, &err));
    assert_int_equal(truncate(path, 30000), 0);
    struct psti_read read = {.file = file, .offset = 20000, .nbytes = 20000};
    expect_failure(storage, &read, PST_ERROR_TRUNCATED, path, 20000);
    assert_non_null(strstr(read.error.text, "10000 of the 20000"));
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

static void missing_and_unfit_files(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = (void *)&err;
    const char *missing = test_path("not there");
    assert_int_equal(psti_storage_file_open(storage, missing, &file, &err), PST_ERROR_NOT_FOUND);
    assert_null(file);
    assert_int_equal(err.os_error, ENOENT);
    assert_string_equal(err.file, missing);
    struct psti_read read = {.path = missing, .nbytes = 10};
    expect_failure(storage, &read, PST_ERROR_NOT_FOUND, missing, -1);

    assert_int_equal(psti_storage_file_open(storage, "/dev", &file, &err), PST_ERROR_UNSUPPORTED);
    struct psti_read directory = {.path = "/dev", .nbytes = 10};
    expect_failure(storage, &directory, PST_ERROR_UNSUPPORTED, "/dev", -1);

    /* Reading a pipe must fail, not hang. */
    const char *pipe_path = test_path("pipe");
    unlink(pipe_path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(psti_storage_file_open(storage, pipe_path, &file, &err),
                     PST_ERROR_UNSUPPORTED);
    struct psti_read from_pipe = {.path = pipe_path, .nbytes = 10};
    expect_failure(storage, &from_pipe, PST_ERROR_UNSUPPORTED, pipe_path, -1);
    psti_storage_close(&storage);
}

static void file_changed_since_listed(void **state)
{
    (void)state;
    struct psti_storage *storage = open_engine();
    const char *path = test_path("changed");
    write_file(path, data, 5000);
    static const size_t listed[] = {0, 1, 4999, 5001, 4096, 100000};
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
        struct psti_read read = {.path = path, .nbytes = listed[i]};
        expect_failure(storage, &read, PST_ERROR_CORRUPT, path, -1);
        assert_non_null(strstr(read.error.text, "5000 bytes"));
    }
    psti_storage_close(&storage);
}

static void spans(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    const char *bytes = psti_storage_file_span(file, 1000, 2000);
    if (engine.kind == PST_STORAGE_MEMORY) {
        assert_memory_equal(bytes, data + 1000, 2000);
        assert_ptr_equal(psti_storage_file_span(file, 10, DATA_NBYTES - 10), bytes - 990);
    } else {
        assert_null(bytes);
    }
    assert_null(psti_storage_file_span(file, 10, DATA_NBYTES - 9));
    assert_null(psti_storage_file_span(file, UINT64_MAX, 2));
    psti_storage_file_will_need(file, 0, 9000);
    psti_storage_file_close(&file);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

/* Returns how much of `path` is in the page cache, in percent. */
static int percent_cached(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    size_t nbytes = (size_t)lseek(fd, 0, SEEK_END), n_pages = (nbytes + 4095) / 4096, n = 0;
    void *map = mmap(NULL, nbytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    unsigned char *resident = calloc(n_pages, 1);
    assert_int_equal(mincore(map, nbytes, resident), 0);
    for (size_t i = 0; i < n_pages; i++)
        n += resident[i] & 1;
    free(resident);
    munmap(map, nbytes);
    close(fd);
    return (int)(n * 100 / n_pages);
}

/* Writes a file to the disk and drops its pages from the page cache. */
static void drop_pages(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

static void page_cache_is_left_empty(void **state)
{
    (void)state;
    struct statfs fs;
    assert_int_equal(statfs(test_path("data"), &fs), 0);
    if (engine.page_cache == PST_PAGE_CACHE_KEEP || fs.f_type == TMPFS_MAGIC_NUMBER)
        skip();
    struct pst_error err;
    struct psti_storage *storage = open_engine();
    const char *path = test_path("dropped");
    write_file(path, data, 2000000);
    drop_pages(path);
    if (percent_cached(path) > 50)
        skip(); /* this file system keeps its pages despite the hint */
    void *buffer = read_buffer(storage, 2000000);
    struct psti_read whole = {.path = path, .nbytes = 2000000, .buffer = buffer};
    submit_and_wait(storage, &whole);
    assert_int_equal(whole.status, PST_OK);
    assert_in_range(percent_cached(path), 0, 50);
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, path, &file, &err));
    for (uint64_t offset = 0; offset < 2000000; offset += 50000) {
        struct psti_read part = {.file = file, .offset = offset, .nbytes = 50000, .buffer = buffer};
        assert_int_equal(psti_storage_read(storage, &part), PST_OK);
    }
    assert_in_range(percent_cached(path), 0, 50);
    psti_free(buffer);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

/* A storage with the hint for scattered reads reads only the requested pages. Without the hint the
 * kernel would read ahead here, because the tenth of the file before the read is cached. */
static void neighbours_are_not_read(void **state)
{
    (void)state;
    struct statfs fs;
    assert_int_equal(statfs(test_path("data"), &fs), 0);
    if (engine.kind == PST_STORAGE_MEMORY || engine.page_cache != PST_PAGE_CACHE_KEEP ||
        fs.f_type == TMPFS_MAGIC_NUMBER)
        skip();
    struct pst_error err;
    struct psti_storage_options options = engine_options();
    options.scattered = true;
    struct psti_storage *storage = NULL;
    assert_ok(psti_storage_open(&options, &storage, &err));
    const char *path = test_path("scattered");
    const size_t nbytes = 4000000;
    unsigned char *bytes = random_bytes(2, nbytes);
    write_file(path, bytes, nbytes);
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, path, &file, &err));
    drop_pages(path);
    void *buffer = read_buffer(storage, nbytes / 10);
    if (percent_cached(path) == 0) { /* otherwise this file system keeps its pages */
        struct psti_read first = {.file = file, .nbytes = nbytes / 10, .buffer = buffer};
        assert_int_equal(psti_storage_read(storage, &first), PST_OK);
        struct psti_read next = {
            .file = file, .offset = nbytes / 10, .nbytes = 20000, .buffer = buffer};
        assert_int_equal(psti_storage_read(storage, &next), PST_OK);
        assert_memory_equal(next.data, bytes + nbytes / 10, 20000);
        assert_in_range(percent_cached(path), 10, 12);
    }
    psti_free(buffer);
    free(bytes);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

static void wrong_options(void **state)
{
    (void)state;
    struct pst_error err;
    for (int i = 0; i < 8; i++) {
        struct psti_storage_options options = engine_options();
        if (i == 0)
            options.depth = 0;
        else if (i == 1)
            options.n_threads = 1000000;
        else if (i == 2)
            options.bytes_per_second = -1;
        else if (i == 3)
            options.bytes_per_second = (double)NAN;
        else if (i == 4)
            options.latency_seconds = -0.1;
        else if (i == 5)
            options.latency_seconds = (double)INFINITY;
        else if (i == 6)
            options.kind = (enum pst_storage_kind)17;
        else
            options.page_cache = (enum pst_page_cache)17;
        struct psti_storage *storage = (void *)&err;
        assert_int_equal(psti_storage_open(&options, &storage, &err), PST_ERROR_ARGUMENT);
        assert_null(storage);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_a_file),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(whole_paths),
        cmocka_unit_test(beyond_the_end),
        cmocka_unit_test(file_cut_short_while_open),
        cmocka_unit_test(missing_and_unfit_files),
        cmocka_unit_test(file_changed_since_listed),
        cmocka_unit_test(spans),
        cmocka_unit_test(page_cache_is_left_empty),
        cmocka_unit_test(neighbours_are_not_read),
        cmocka_unit_test(wrong_options),
    };
    test_directory_make();
    data = random_bytes(1, DATA_NBYTES);
    write_file(test_path("data"), data, DATA_NBYTES);
    int n_failed = run_on_every_engine("reads", tests, sizeof tests / sizeof tests[0]);
    free(data);
    test_directory_remove();
    return n_failed;
}
