/* storage_test.h - shared by the tests of src/storage: engines to try, files, waiting. */
#ifndef PST_STORAGE_TEST_H
#define PST_STORAGE_TEST_H

#include "test.h"

#include "storage/storage.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The engine that a group of tests runs on. */
struct engine_under_test {
    char name[32];
    enum pst_storage_kind kind;
    enum pst_page_cache page_cache;
    unsigned n_threads;
};
extern struct engine_under_test engine;

/* Reads PST_TEST_ENGINES: "uring" tests only io_uring, "others" all others; if it is not set, all
 * engines are tested. ctest runs each program in both ways, so a kernel that forbids io_uring shows
 * as a skipped test. */
bool tests_uring(void);
bool tests_others(void);
/* Returns false, after printing the kernel's reason, if io_uring cannot be used. */
bool uring_works(void);

/* Runs a group of tests once for each chosen engine and page cache mode. Returns the exit status of
 * the program: the number of failures, or 77 if only io_uring is chosen and it cannot be used. */
int run_on_every_engine(const char *name, const struct CMUnitTest *tests, size_t n_tests);

struct psti_storage_options engine_options(void);
struct psti_storage *open_engine(void);

/* Makes a directory for the test. test_directory_remove removes it with its files. */
void test_directory_make(void);
void test_directory_remove(void);
/* Returns the path of `name` in the directory, valid until 8 more calls. */
const char *test_path(const char *name);
void write_file(const char *path, const void *bytes, size_t nbytes);
/* Returns random bytes, the same for the same seed. */
unsigned char *random_bytes(uint32_t seed, size_t nbytes);

/* A number of submitted reads that a thread waits for. */
struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_done; /* guarded by lock */
};
void waiting_init(struct waiting *waiting);
void waiting_destroy(struct waiting *waiting);
void waiting_for(struct waiting *waiting, size_t n_done);
/* The `done` callback for reads whose `user` is a struct waiting. */
void count_done(struct psti_read *read);

void *read_buffer(struct psti_storage *storage, size_t nbytes);
/* Submits one read and waits for it. */
void submit_and_wait(struct psti_storage *storage, struct psti_read *read);

/* Counts the entries of /proc/self/fd or /proc/self/task */
size_t count_entries(const char *directory);
/* Waits until this process has at most n_most entries in /proc/self/task. Returns false after 60
 * s. A joined thread may stay there for a moment, because the kernel wakes the joining thread
 * first. */
bool tasks_settle(size_t n_most);

#endif
