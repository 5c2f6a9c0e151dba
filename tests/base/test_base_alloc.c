/* Tests memory functions: hooks, counts, alignment, overflow, and injected faults. */
#include "test.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "base/queue.h"
#include "base/thread.h"

#include <penstock/penstock.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct pst_memory_stats stats(void)
{
    struct pst_memory_stats now;
    pst_memory_stats(&now, sizeof now);
    return now;
}

static void counts(void **state)
{
    (void)state;
    struct pst_memory_stats before = stats();
    void *a = psti_alloc(1000), *b = psti_calloc(10, 20), *c = psti_alloc_aligned(4096, 3);
    assert_true(a && b && c);
    assert_int_equal(stats().live_nbytes, before.live_nbytes + 1203);
    assert_int_equal(stats().n_alloc, before.n_alloc + 3);
    psti_free(b);
    assert_int_equal(stats().live_nbytes, before.live_nbytes + 1003);
    psti_free(a);
    psti_free(c);
    psti_free(NULL);
    assert_int_equal(stats().live_nbytes, before.live_nbytes);
    assert_int_equal(stats().n_alloc, before.n_alloc + 3);
}

static void contents_and_alignment(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= (1u << 20); alignment *= 2)
        for (size_t nbytes = 0; nbytes < 70; nbytes += 23) {
            unsigned char *memory = psti_alloc_aligned(alignment, nbytes);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % alignment, 0);
            memset(memory, 0xAB, nbytes);
            psti_free(memory);
        }
    assert_null(psti_alloc_aligned((size_t)1 << 21, 1));
    unsigned char *zeroed = psti_calloc(100, 7);
    for (size_t i = 0; i < 700; i++)
        assert_int_equal(zeroed[i], 0);
    psti_free(zeroed);
    char *copy = psti_strdup("a text");
    assert_string_equal(copy, "a text");
    copy = psti_realloc(copy, 1 << 20);
    assert_string_equal(copy, "a text");
    copy = psti_realloc(copy, 3);
    assert_memory_equal(copy, "a t", 3);
    psti_free(copy);
    void *fresh = psti_realloc(NULL, 10);
    assert_non_null(fresh);
    psti_free(fresh);
}

static void sizes_that_overflow(void **state)
{
    (void)state;
    struct pst_memory_stats before = stats();
    assert_null(psti_alloc(SIZE_MAX));
    assert_null(psti_alloc(SIZE_MAX - 15));
    assert_null(psti_alloc_aligned(4096, SIZE_MAX - 4000));
    assert_null(psti_alloc_array(SIZE_MAX / 2 + 1, 2));
    assert_null(psti_calloc(SIZE_MAX / 8 + 1, 8));
    char *kept = psti_strdup("kept");
    assert_null(psti_realloc(kept, SIZE_MAX));
    assert_string_equal(kept, "kept");
    psti_free(kept);
    assert_int_equal(stats().live_nbytes, before.live_nbytes);
}

/* Allocator hooks that count allocations and check that free gets the size passed to malloc. */
struct ledger {
    size_t n_live, nbytes_live, n_calls;
    bool empty; /* simulates a system without memory */
    bool bad;
};

static void *ledger_alloc(void *ctx, size_t alignment, size_t nbytes)
{
    struct ledger *ledger = ctx;
    void *memory = NULL;
    ledger->n_calls++;
    if (alignment < 16 || (alignment & (alignment - 1)) != 0)
        ledger->bad = true;
    if (ledger->empty || posix_memalign(&memory, alignment, nbytes + alignment) != 0)
        return NULL;
    memcpy(memory, &nbytes, sizeof nbytes);
    ledger->n_live++;
    ledger->nbytes_live += nbytes;
    return (char *)memory + alignment;
}

/* Hooks get the alignment only when they allocate. In this test it is always 16 or 64. */
static size_t expected_alignment = 16;

static void ledger_free(void *ctx, void *memory, size_t nbytes)
{
    struct ledger *ledger = ctx;
    size_t stored;
    char *block = (char *)memory - expected_alignment;
    memcpy(&stored, block, sizeof stored);
    if (stored != nbytes)
        ledger->bad = true;
    ledger->n_live--;
    ledger->nbytes_live -= nbytes;
    free(block);
}

static void hooks(void **state)
{
    (void)state;
    struct ledger ledger = {0};
    const struct pst_allocator allocator = {ledger_alloc, ledger_free, &ledger};
    const struct pst_allocator half = {ledger_alloc, NULL, &ledger};
    void *held = psti_alloc(1);
    assert_int_equal(pst_set_allocator(&allocator, NULL), PST_ERROR_STATE);
    psti_free(held);
    assert_int_equal(pst_set_allocator(&half, NULL), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_set_allocator(&allocator, NULL), PST_OK);
    char *text = psti_strdup("goes through the hooks");
    text = psti_realloc(text, 5000);
    assert_int_equal(ledger.n_live, 1);
    assert_true(ledger.nbytes_live >= 5000);
    assert_int_equal(ledger.n_calls, 2);
    assert_int_equal(pst_set_allocator(NULL, NULL), PST_ERROR_STATE);
    psti_free(text);
    expected_alignment = 64;
    void *aligned = psti_alloc_aligned(64, 100);
    assert_int_equal((uintptr_t)aligned % 64, 0);
    psti_free(aligned);
    ledger.empty = true;
    assert_null(psti_alloc(10));
    assert_null(psti_calloc(10, 10));
    assert_null(psti_strdup("no"));
    struct psti_queue queue;
    struct pst_error err;
    assert_int_equal(psti_queue_init(&queue, 4, &err), PST_ERROR_MEMORY);
    assert_int_equal(err.status, PST_ERROR_MEMORY);
    assert_int_equal(pst_set_allocator(NULL, NULL), PST_OK);
    assert_int_equal(ledger.n_live, 0);
    assert_int_equal(ledger.nbytes_live, 0);
    assert_false(ledger.bad);
    void *memory = psti_alloc(10);
    assert_non_null(memory);
    psti_free(memory);
}

/* Freeing foreign memory ends the program, because going on would corrupt the heap of the program
 * that uses the library. */
static void freeing_what_is_not_ours_stops(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        static _Alignas(64) char not_ours[128];
        signal(SIGILL, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
        psti_free(not_ours + 64);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

#ifdef PST_FAULTS
static void nth_call_fails(void **state)
{
    (void)state;
    psti_fault_arm(PSTI_FAULT_ALLOC, 3, false);
    for (int i = 1; i <= 5; i++) {
        void *memory = psti_alloc(8);
        assert_int_equal(memory == NULL, i == 3);
        psti_free(memory);
    }
    assert_int_equal(psti_fault_count(PSTI_FAULT_ALLOC), 5);
    psti_fault_arm(PSTI_FAULT_ALLOC, 2, true);
    for (int i = 1; i <= 4; i++) {
        void *memory = psti_calloc(2, 8);
        assert_int_equal(memory == NULL, i >= 2);
        psti_free(memory);
    }
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    assert_int_equal(psti_fault_count(PSTI_FAULT_ALLOC), 0);
    void *memory = psti_alloc(8);
    assert_non_null(memory);
    psti_free(memory);
}

static void kinds_of_faults_are_apart(void **state)
{
    (void)state;
    psti_fault_arm(PSTI_FAULT_READ, 1, true);
    assert_false(psti_fault(PSTI_FAULT_WRITE));
    assert_false(psti_fault(PSTI_FAULT_THREAD));
    assert_false(psti_fault(PSTI_FAULT_ALLOC));
    assert_true(psti_fault(PSTI_FAULT_READ));
    psti_fault_arm(PSTI_FAULT_READ, 0, false);
    assert_false(psti_fault(PSTI_FAULT_READ));
}

static void nothing(void *arg) { (void)arg; }

static void a_thread_that_cannot_start(void **state)
{
    (void)state;
    struct pst_error err;
    uint64_t before = stats().live_nbytes;
    pthread_t thread;
    psti_fault_arm(PSTI_FAULT_THREAD, 1, false);
    assert_int_equal(psti_thread_start(&thread, "none", nothing, NULL, &err), PST_ERROR_LIMIT);
    assert_int_equal(err.status, PST_ERROR_LIMIT);
    psti_fault_arm(PSTI_FAULT_THREAD, 0, false);
    psti_fault_arm(PSTI_FAULT_ALLOC, 1, false);
    assert_int_equal(psti_thread_start(&thread, "none", nothing, NULL, &err), PST_ERROR_MEMORY);
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    assert_int_equal(stats().live_nbytes, before);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(contents_and_alignment),
        cmocka_unit_test(sizes_that_overflow),
        cmocka_unit_test(hooks),
        cmocka_unit_test(freeing_what_is_not_ours_stops),
#ifdef PST_FAULTS
        cmocka_unit_test(nth_call_fails),
        cmocka_unit_test(kinds_of_faults_are_apart),
        cmocka_unit_test(a_thread_that_cannot_start),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
