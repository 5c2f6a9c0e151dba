/* storage_test.h - what the tests of the storage room share: engines to try, files, waiting. */
#ifndef PST_STORAGE_TEST_H
#define PST_STORAGE_TEST_H

#include "test.h"

#include "storage/storage.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The engine that the tests of a group run on. */
struct engine_under_test {
    char name[32];
    enum pst_storage_kind kind;
    enum pst_page_cache page_cache;
    unsigned n_threads;
};
extern struct engine_under_test engine;

/* PST_TEST_ENGINES: "uring" tests io_uring alone, "others" all else; without it, all. ctest runs
 * each program in both ways, so that a kernel that forbids io_uring shows as a skipped test. */
bool tests_uring(void);
bool tests_others(void);
/* False, with the kernel's reason as the last line printed, where io_uring cannot be used. */
bool uring_works(void);

/* Runs a group of tests once per engine kind and page cache mode of those chosen. Returns the
 * status of the program: the number of failures, or 77 where io_uring alone is chosen and cannot
 * be used. */
int run_on_every_engine(const char *name, const struct CMUnitTest *tests, size_t n_tests);

struct psti_storage_options engine_options(void);
struct psti_storage *open_engine(void);

/* A directory of its own, removed with its files by test_directory_remove. */
void test_directory_make(void);
void test_directory_remove(void);
/* Path of `name` in the directory; the memory is the function's and lives until 8 calls later. */
const char *test_path(const char *name);
void write_file(const char *path, const void *bytes, size_t nbytes);
/* Bytes that differ everywhere, the same for the same seed. */
unsigned char *random_bytes(uint32_t seed, size_t nbytes);

/* A number of submitted reads that somebody waits for. */
struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_done; /* guarded by lock */
};
void waiting_init(struct waiting *waiting);
void waiting_destroy(struct waiting *waiting);
void waiting_for(struct waiting *waiting, size_t n_done);
/* A `done` for reads whose `user` is a struct waiting. */
void count_done(struct psti_read *read);

void *read_buffer(struct psti_storage *storage, size_t nbytes);
/* Submits one read and waits for it. */
void submit_and_wait(struct psti_storage *storage, struct psti_read *read);

size_t count_entries(const char *directory); /* of /proc/self/fd, /proc/self/task */
/* True once this process has no more than n_most entries in /proc/self/task; false after 60 s. A
 * thread that was joined may stay there for a moment: the kernel wakes the joiner first. */
bool tasks_settle(size_t n_most);

#endif
