/* Implements storage_test.h. The state of the tests is global: one process, one test. */
#include "storage_test.h"

#include "base/alloc.h"
#include "base/philox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct engine_under_test engine;
static char directory[256];

struct psti_storage_options engine_options(void)
{
    return (struct psti_storage_options){.kind = engine.kind,
                                         .page_cache = engine.page_cache,
                                         .n_threads = engine.n_threads,
                                         .depth = 64};
}

struct psti_storage *open_engine(void)
{
    struct pst_error err;
    struct psti_storage_options options = engine_options();
    struct psti_storage *storage = NULL;
    assert_ok(psti_storage_open(&options, &storage, &err));
    assert_int_equal(psti_storage_kind_in_use(storage), engine.kind);
    return storage;
}

static bool is_chosen(const char *engines)
{
    const char *chosen = getenv("PST_TEST_ENGINES");
    return chosen == NULL || strcmp(chosen, engines) == 0;
}

bool tests_uring(void) { return is_chosen("uring"); }
bool tests_others(void) { return is_chosen("others"); }

bool uring_works(void)
{
    struct psti_storage_options options = {.kind = PST_STORAGE_AUTO, .n_threads = 1, .depth = 1};
    struct psti_storage *storage = NULL;
    struct pst_error err;
    assert_ok(psti_storage_open(&options, &storage, &err));
    bool works = psti_storage_kind_in_use(storage) == PST_STORAGE_URING;
    assert_int_equal(works, psti_storage_reason(storage)[0] == '\0');
    if (!works)
        print_message("io_uring cannot be tested: %s\n", psti_storage_reason(storage));
    psti_storage_close(&storage);
    return works;
}

int run_on_every_engine(const char *name, const struct CMUnitTest *tests, size_t n_tests)
{
    static const struct engine_under_test engines[] = {
        {"threads/keep", PST_STORAGE_THREADS, PST_PAGE_CACHE_KEEP, 4},
        {"threads/drop", PST_STORAGE_THREADS, PST_PAGE_CACHE_DROP, 3},
        {"threads/direct", PST_STORAGE_THREADS, PST_PAGE_CACHE_DIRECT, 2},
        {"uring/keep", PST_STORAGE_URING, PST_PAGE_CACHE_KEEP, 1},
        {"uring/drop", PST_STORAGE_URING, PST_PAGE_CACHE_DROP, 1},
        {"uring/direct", PST_STORAGE_URING, PST_PAGE_CACHE_DIRECT, 1},
        {"memory/keep", PST_STORAGE_MEMORY, PST_PAGE_CACHE_KEEP, 2},
        {"memory/drop", PST_STORAGE_MEMORY, PST_PAGE_CACHE_DROP, 1},
        {"memory/direct", PST_STORAGE_MEMORY, PST_PAGE_CACHE_DIRECT, 1},
        {"no thread/keep", PST_STORAGE_THREADS, PST_PAGE_CACHE_KEEP, 0},
        {"no thread/direct", PST_STORAGE_THREADS, PST_PAGE_CACHE_DIRECT, 0},
    };
    bool with_uring = tests_uring() && uring_works();
    if (!with_uring && !tests_others())
        return 77;
    int n_failed = 0;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        engine = engines[i];
        if (engine.kind == PST_STORAGE_URING ? !with_uring : !tests_others())
            continue;
        char group[64];
        snprintf(group, sizeof group, "%s on %s", name, engine.name);
        n_failed += _cmocka_run_group_tests(group, tests, n_tests, NULL, NULL);
    }
    return n_failed;
}

void test_directory_make(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%.200s/pst-storage-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "cannot make %s: %s\n", directory, strerror(errno));
        exit(1);
    }
}

void test_directory_remove(void)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    rmdir(directory);
}

const char *test_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

void write_file(const char *path, const void *bytes, size_t nbytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    size_t n_done = 0;
    while (n_done < nbytes) {
        ssize_t n = write(fd, (const char *)bytes + n_done, nbytes - n_done);
        assert_true(n > 0);
        n_done += (size_t)n;
    }
    assert_int_equal(fsync(fd), 0); /* only clean pages can be dropped */
    close(fd);
}

unsigned char *random_bytes(uint32_t seed, size_t nbytes)
{
    unsigned char *bytes = malloc(nbytes + 16);
    assert_non_null(bytes);
    const uint32_t key[2] = {seed, 0};
    for (size_t i = 0; i < nbytes; i += 16) {
        const uint32_t counter[4] = {(uint32_t)i, 0, 0, 0};
        uint32_t out[4];
        psti_philox4x32_10(counter, key, out);
        memcpy(bytes + i, out, 16);
    }
    return bytes;
}

void waiting_init(struct waiting *waiting)
{
    pthread_mutex_init(&waiting->lock, NULL);
    pthread_cond_init(&waiting->changed, NULL);
    waiting->n_done = 0;
}

void waiting_destroy(struct waiting *waiting)
{
    pthread_cond_destroy(&waiting->changed);
    pthread_mutex_destroy(&waiting->lock);
}

void waiting_for(struct waiting *waiting, size_t n_done)
{
    pthread_mutex_lock(&waiting->lock);
    while (waiting->n_done < n_done)
        pthread_cond_wait(&waiting->changed, &waiting->lock);
    pthread_mutex_unlock(&waiting->lock);
}

void count_done(struct psti_read *read)
{
    struct waiting *waiting = read->user;
    pthread_mutex_lock(&waiting->lock);
    waiting->n_done++;
    pthread_cond_broadcast(&waiting->changed);
    pthread_mutex_unlock(&waiting->lock);
}

void *read_buffer(struct psti_storage *storage, size_t nbytes)
{
    size_t room = psti_storage_buffer_nbytes(storage, nbytes);
    void *buffer = psti_alloc_aligned(psti_storage_buffer_alignment(storage), room);
    assert_non_null(buffer);
    memset(buffer, 0xA5, room);
    return buffer;
}

void submit_and_wait(struct psti_storage *storage, struct psti_read *read)
{
    struct waiting waiting;
    waiting_init(&waiting);
    read->done = count_done;
    read->user = &waiting;
    psti_storage_submit(storage, &read, 1);
    waiting_for(&waiting, 1);
    waiting_destroy(&waiting);
}

size_t count_entries(const char *name)
{
    size_t n = 0;
    DIR *dir = opendir(name);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

bool tasks_settle(size_t n_most)
{
    for (int i = 0; i < 60000; i++) {
        if (count_entries("/proc/self/task") <= n_most)
            return true;
        usleep(1000);
    }
    return false;
}
