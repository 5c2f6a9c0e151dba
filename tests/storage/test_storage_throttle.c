/* The throttle is never faster than its limit, on every engine, and reads complete in the order of
 * their times. Only lower bounds of time are asserted, because a busy machine may be slow. */
#include "storage_test.h"

#include "storage/storage_int.h"

#include "base/alloc.h"
#include "base/clock.h"

#define DATA_NBYTES ((size_t)400000)
#define PART_NBYTES ((size_t)20000)
/* Seconds of reading that the token bucket allows at once after a pause. */
#define BURST_SECONDS 0.002

static unsigned char *data;

static struct psti_storage *open_throttled(double bytes_per_second, double latency_seconds)
{
    struct pst_error err;
    struct psti_storage_options options = engine_options();
    options.bytes_per_second = bytes_per_second;
    options.latency_seconds = latency_seconds;
    struct psti_storage *storage = NULL;
    assert_ok(psti_storage_open(&options, &storage, &err));
    return storage;
}

static double seconds_since(int64_t begin) { return (double)(psti_clock_ns() - begin) * 1e-9; }

/* Reads `data` in parts that are submitted together. Returns the seconds it took. */
static double read_parts(struct psti_storage *storage, struct psti_file *file)
{
    enum { N = DATA_NBYTES / PART_NBYTES };
    struct psti_read reads[N], *list[N];
    struct waiting waiting;
    waiting_init(&waiting);
    memset(reads, 0, sizeof reads);
    for (size_t i = 0; i < N; i++) {
        reads[i].file = file;
        reads[i].offset = i * PART_NBYTES;
        reads[i].nbytes = PART_NBYTES;
        reads[i].buffer = read_buffer(storage, PART_NBYTES);
        reads[i].done = count_done;
        reads[i].user = &waiting;
        list[i] = &reads[i];
    }
    int64_t begin = psti_clock_ns();
    psti_storage_submit(storage, list, N);
    waiting_for(&waiting, N);
    double seconds = seconds_since(begin);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(reads[i].status, PST_OK);
        assert_memory_equal(reads[i].data, data + reads[i].offset, PART_NBYTES);
        psti_free(reads[i].buffer);
    }
    waiting_destroy(&waiting);
    return seconds;
}

static void rate_holds_for_submitted_reads(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_throttled(8e6, 0);
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    assert_null(psti_storage_file_span(file, 0, 10)); /* mapped bytes would bypass the throttle */
    double seconds = read_parts(storage, file);
    assert_true(seconds >= (double)DATA_NBYTES / 8e6 - BURST_SECONDS);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

static void rate_and_latency_hold_for_reads_of_the_caller(void **state)
{
    (void)state;
    struct psti_storage *storage = open_throttled(10e6, 0.003);
    void *buffer = read_buffer(storage, DATA_NBYTES);
    int64_t begin = psti_clock_ns();
    for (int i = 0; i < 2; i++) {
        struct psti_read read = {
            .path = test_path("data"), .nbytes = DATA_NBYTES, .buffer = buffer};
        assert_int_equal(psti_storage_read(storage, &read), PST_OK);
    }
    assert_true(seconds_since(begin) >= 2 * (DATA_NBYTES / 10e6 + 0.003) - 2 * BURST_SECONDS);
    /* A failed read counts as a read, too. */
    begin = psti_clock_ns();
    struct psti_read missing = {.path = test_path("missing"), .nbytes = 10, .buffer = buffer};
    assert_int_equal(psti_storage_read(storage, &missing), PST_ERROR_NOT_FOUND);
    assert_true(seconds_since(begin) >= 0.003);
    psti_free(buffer);
    psti_storage_close(&storage);
}

static void latency_alone(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_throttled(0, 0.02);
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    assert_true(read_parts(storage, file) >= 0.02);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

/* Times beyond the range of any clock must not overflow to "now". */
static void absurd_rates_do_not_overflow(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage_pace *pace = NULL;
    assert_ok(psti_storage_pace_open(1e-300, 1e300, 0, false, &pace, &err));
    for (int i = 0; i < 100; i++)
        assert_true(psti_storage_pace_admit(pace, psti_clock_ns(), UINT64_MAX) >
                    psti_clock_ns() + 1000000000);
    psti_storage_pace_close(&pace);
    assert_null(pace);
}

struct ordered {
    struct psti_read read;
    struct waiting *waiting;
    int *next;
    int rank;
};

static void check_order(struct psti_read *read)
{
    struct ordered *ordered = read->user;
    pthread_mutex_lock(&ordered->waiting->lock);
    bool early = psti_clock_ns() < read->engine.deadline_ns;
    /* An assertion would not work in this thread. A wrong order shows as a missing count. */
    if (!early && *ordered->next == ordered->rank)
        (*ordered->next)++;
    ordered->waiting->n_done++;
    pthread_cond_broadcast(&ordered->waiting->changed);
    pthread_mutex_unlock(&ordered->waiting->lock);
}

static void reads_leave_in_the_order_of_their_times(void **state)
{
    (void)state;
    static const int ranks[] = {3, 1, 4, 0, 5, 9, 2, 6, 8, 7};
    enum { N = sizeof ranks / sizeof ranks[0] };
    struct pst_error err;
    struct psti_storage_pace *pace = NULL;
    assert_ok(psti_storage_pace_open(0, 0, 0, true, &pace, &err));
    struct waiting waiting;
    waiting_init(&waiting);
    struct ordered *reads = calloc(N, sizeof *reads);
    int next = 0;
    int64_t begin = psti_clock_ns() + 20000000;
    for (size_t i = 0; i < N; i++) {
        reads[i] = (struct ordered){.waiting = &waiting, .next = &next, .rank = ranks[i]};
        reads[i].read.engine.deadline_ns = begin + 3000000 * ranks[i];
        reads[i].read.done = check_order;
        reads[i].read.user = &reads[i];
        psti_storage_pace_hold(pace, &reads[i].read);
    }
    waiting_for(&waiting, N);
    pthread_mutex_lock(&waiting.lock);
    assert_int_equal(next, N);
    pthread_mutex_unlock(&waiting.lock);
    psti_storage_pace_close(&pace);
    waiting_destroy(&waiting);
    free(reads);
}

static void *cancel_soon(void *storage)
{
    psti_clock_sleep_until(psti_clock_ns() + 20000000);
    psti_storage_cancel(storage);
    return NULL;
}

/* Reads with minutes to wait end at once if they are cancelled, whether submitted or direct. Later
 * reads are throttled again. */
static void cancelled_reads_end_at_once(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_throttled(100, 0); /* 200 s each, 4000 s in total */
    struct psti_file *file = NULL;
    pthread_t thread;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    int64_t begin = psti_clock_ns();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, storage), 0);
        if (i == 0) {
            (void)read_parts(storage, file);
        } else {
            void *buffer = read_buffer(storage, PART_NBYTES);
            struct psti_read read = {.file = file, .nbytes = PART_NBYTES, .buffer = buffer};
            assert_int_equal(psti_storage_read(storage, &read), PST_OK);
            assert_memory_equal(read.data, data, PART_NBYTES);
            psti_free(buffer);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        psti_storage_resume(storage);
    }
    assert_true(seconds_since(begin) < 60);
    /* The time granted to the cancelled reads was given back, and the throttle works again: 0.1 s,
     * not 4200 s. */
    void *buffer = read_buffer(storage, 10);
    struct psti_read read = {.file = file, .nbytes = 10, .buffer = buffer};
    begin = psti_clock_ns();
    assert_int_equal(psti_storage_read(storage, &read), PST_OK);
    assert_true(seconds_since(begin) >= 0.1 - BURST_SECONDS);
    assert_true(seconds_since(begin) < 60);
    psti_free(buffer);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

/* Reads that may owe their time return at once. The time owed is what waiting after each read would
 * have taken. */
static void owed_time_adds_up(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_storage *storage = open_throttled(100, 3);
    struct psti_file *file = NULL;
    assert_ok(psti_storage_file_open(storage, test_path("data"), &file, &err));
    void *buffer = read_buffer(storage, PART_NBYTES);
    int64_t owed = 0, begin = psti_clock_ns();
    for (int i = 0; i < 2; i++) {
        struct psti_read read = {.file = file, .nbytes = PART_NBYTES, .buffer = buffer};
        assert_int_equal(psti_storage_read_owing(storage, &read, &owed), PST_OK);
        assert_memory_equal(read.data, data, PART_NBYTES);
    }
    double seconds = seconds_since(begin);
    assert_true(seconds < 60);
    assert_true((double)owed * 1e-9 + seconds >= 2 * (PART_NBYTES / 100.0 + 3 - BURST_SECONDS));
    assert_true((double)owed * 1e-9 <= 2 * (PART_NBYTES / 100.0 + 3));
    psti_free(buffer);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_holds_for_submitted_reads),
        cmocka_unit_test(rate_and_latency_hold_for_reads_of_the_caller),
        cmocka_unit_test(latency_alone),
        cmocka_unit_test(cancelled_reads_end_at_once),
        cmocka_unit_test(owed_time_adds_up),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(absurd_rates_do_not_overflow),
        cmocka_unit_test(reads_leave_in_the_order_of_their_times),
    };
    test_directory_make();
    data = random_bytes(3, DATA_NBYTES);
    write_file(test_path("data"), data, DATA_NBYTES);
    int n_failed = run_on_every_engine("throttle", tests, sizeof tests / sizeof tests[0]);
    n_failed += cmocka_run_group_tests_name("throttle alone", alone, NULL, NULL);
    free(data);
    test_directory_remove();
    return n_failed;
}
