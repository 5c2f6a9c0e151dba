/* test_batch_slots.c - does a slot have one owner at a time, and is the memory budget kept? */
#include "test.h"

#include "batch/batch.h"

#include "base/thread.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct psti_slot_field layout[4] = {
    {.name = "image",
     .type = PST_FIELD_IMAGE,
     .dtype = PST_DTYPE_F32,
     .has_array = true,
     .ndim = 3,
     .shape = {3, 5, 7}},
    {.name = "label", .type = PST_FIELD_INT, .dtype = PST_DTYPE_I64, .has_array = true},
    {.name = "text", .type = PST_FIELD_TEXT, .dtype = PST_DTYPE_U8, .may_differ = true},
    {.name = "guess",
     .type = PST_FIELD_IMAGE,
     .dtype = PST_DTYPE_U8,
     .has_array = true,
     .may_differ = true,
     .ndim = 2,
     .shape = {4, 4}},
};

static struct psti_pool *open_pool(uint32_t batch_size, uint64_t limit)
{
    struct psti_pool *pool;
    struct pst_error err;
    assert_ok(psti_batch_pool_open(layout, 4, batch_size, limit, &pool, &err));
    return pool;
}

static size_t slot_nbytes(uint32_t n_rows)
{
    size_t nbytes;
    struct psti_pool *pool = open_pool(n_rows, 0);
    assert_true(psti_batch_pool_slot_nbytes(pool, n_rows, &nbytes));
    psti_batch_pool_close(&pool);
    return nbytes;
}

static pst_batch *claim(struct psti_pool *pool, uint32_t n)
{
    pst_batch *batch = NULL;
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    enum pst_status status = psti_batch_pool_claim(pool, n, &batch);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    assert_true((status == PST_OK) == (batch != NULL));
    return batch;
}

static void hand_out(struct psti_pool *pool, pst_batch *batch)
{
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    psti_batch_pool_hand_out(batch);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
}

/* Fills row `row` with values that identify it. With `odd` the rows of the field `guess` differ in
 * shape. */
static void fill_row(pst_batch *batch, uint32_t row, bool odd)
{
    enum pst_status status;
    int64_t length[1] = {row * 3}, shape[2] = {odd ? 3 : 4, 4};
    psti_batch_indices(batch)[row] = 100 + row;
    float *image = psti_batch_array_row(batch, 0, row);
    for (int i = 0; i < 105; i++)
        image[i] = (float)row;
    *(int64_t *)psti_batch_array_row(batch, 1, row) = 1000 + row;
    char *text = psti_batch_new_row(batch, 2, row, 1, length, &status);
    assert_non_null(text);
    memset(text, 'a' + (int)row, row * 3);
    uint8_t *guess = psti_batch_new_row(batch, 3, row, 2, shape, &status);
    assert_non_null(guess);
    memset(guess, (int)row, (size_t)(shape[0] * 4));
}

static void check_row(const pst_batch *batch, uint32_t row, uint32_t was, bool odd)
{
    struct pst_tensor tensor;
    assert_int_equal(pst_batch_index(batch)[row], 100 + was);
    assert_int_equal(pst_batch_row(batch, 0, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_true(((float *)tensor.data)[104] == (float)was);
    assert_int_equal(pst_batch_row(batch, 1, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.ndim, 0);
    assert_int_equal(*(int64_t *)tensor.data, 1000 + was);
    assert_int_equal(pst_batch_row(batch, 2, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.shape[0], was * 3);
    if (was)
        assert_int_equal(((char *)tensor.data)[was * 3 - 1], 'a' + (int)was);
    assert_int_equal(pst_batch_row(batch, 3, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.shape[0], odd ? 3 : 4);
    assert_int_equal(((uint8_t *)tensor.data)[tensor.shape[0] * 4 - 1], was);
}

static void test_fill_and_read(void **state)
{
    (void)state;
    struct psti_pool *pool = open_pool(6, 1 << 20);
    pst_batch *batch = claim(pool, 6);
    struct pst_tensor tensor;
    for (uint32_t row = 0; row < 6; row++)
        fill_row(batch, row, false);
    psti_batch_finish(batch, 6, NULL);
    hand_out(pool, batch);
    assert_int_equal(pst_batch_count(batch), 6);
    assert_int_equal(pst_batch_n_fields(batch), 4);
    assert_string_equal(pst_batch_field_name(batch, 2), "text");
    assert_null(pst_batch_field_name(batch, 4));
    assert_false(pst_batch_is_ragged(batch, 0));
    assert_true(pst_batch_is_ragged(batch, 2));
    assert_false(pst_batch_is_ragged(batch, 3)); /* all rows had the same shape by chance */
    for (uint32_t row = 0; row < 6; row++)
        check_row(batch, row, row, false);
    assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.ndim, 4);
    assert_int_equal(tensor.shape[0], 6);
    assert_int_equal(tensor.strides[0], 3 * 5 * 7 * 4);
    assert_int_equal(tensor.strides[3], 4);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    assert_int_equal((uintptr_t)pst_batch_index(batch) % 4096, 0);
    assert_int_equal(pst_batch_tensor(batch, 2, &tensor, sizeof tensor, NULL), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_batch_tensor(batch, 4, &tensor, sizeof tensor, NULL), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_batch_row(batch, 0, 6, &tensor, sizeof tensor, NULL), PST_ERROR_ARGUMENT);
    pst_batch_release(batch);
    psti_batch_pool_close(&pool);
}

static void test_bad_rows_close_up(void **state)
{
    (void)state;
    struct psti_pool *pool = open_pool(8, 1 << 20);
    for (unsigned mask = 0; mask < 256; mask++) {
        pst_batch *batch = claim(pool, 8);
        uint8_t bad[8];
        for (uint32_t row = 0; row < 8; row++) {
            bad[row] = (mask >> row) & 1;
            if (!bad[row])
                fill_row(batch, row, row % 3 == 1);
        }
        psti_batch_finish(batch, 8, bad);
        hand_out(pool, batch);
        uint32_t at = 0;
        bool odd = false;
        for (uint32_t row = 0; row < 8; row++)
            if (!bad[row]) {
                check_row(batch, at++, row, row % 3 == 1);
                odd |= row % 3 == 1;
            }
        assert_int_equal(pst_batch_count(batch), at);
        assert_int_equal(pst_batch_is_ragged(batch, 3), odd);
        pst_batch_release(batch);
    }
    psti_batch_pool_close(&pool);
}

static void test_budget(void **state)
{
    (void)state;
    const size_t nbytes = slot_nbytes(4);
    struct psti_batch_pool_stats stats;
    struct psti_pool *pool = open_pool(4, 3 * nbytes + 100);
    pst_batch *batches[3];
    for (int i = 0; i < 3; i++) {
        batches[i] = claim(pool, 4);
        assert_non_null(batches[i]);
        hand_out(pool, batches[i]);
    }
    assert_null(claim(pool, 4));
    pst_batch_release(batches[1]);
    pst_batch *again = claim(pool, 4);
    assert_ptr_equal(again, batches[1]);
    assert_false(psti_batch_pool_charge(pool, 101, true));
    psti_batch_pool_set_reserve(pool, 60);
    assert_false(psti_batch_pool_charge(pool, 41, false));
    assert_true(psti_batch_pool_charge(pool, 100, true));
    psti_batch_pool_uncharge(pool, 100);
    assert_true(psti_batch_pool_charge(pool, 40, false));
    psti_batch_pool_uncharge(pool, 40);
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    psti_batch_pool_put_back(again);
    psti_batch_pool_stats(pool, &stats);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    assert_int_equal(stats.n_slots, 3);
    assert_int_equal(stats.n_held, 2);
    assert_int_equal(stats.used, 3 * nbytes);
    assert_int_equal(stats.peak, 3 * nbytes + 100);
    pst_batch_release(batches[0]);
    pst_batch_release(batches[2]);
    psti_batch_pool_close(&pool);
}

/* Rows with memory of their own count towards the budget, too. A row that does not fit is refused,
 * and the others stay. */
static void test_rows_count(void **state)
{
    (void)state;
    const size_t nbytes = slot_nbytes(4);
    struct psti_pool *pool = open_pool(4, nbytes + 20000);
    pst_batch *batch = claim(pool, 4);
    enum pst_status status;
    int64_t small[1] = {10000}, large[1] = {15000}, absurd[1] = {INT64_MAX};
    char *first = psti_batch_new_row(batch, 2, 0, 1, small, &status);
    assert_non_null(first);
    memset(first, 'x', 10000);
    assert_null(psti_batch_new_row(batch, 2, 1, 1, large, &status));
    assert_int_equal(status, PST_ERROR_LIMIT);
    assert_null(psti_batch_new_row(batch, 2, 1, 1, absurd, &status));
    assert_int_equal(first[9999], 'x');
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    psti_batch_pool_put_back(batch);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    psti_batch_pool_close(&pool);
}

/* The memory of a slot settles: once the largest batch was seen, nothing is allocated. */
static void test_rows_settle(void **state)
{
    (void)state;
    struct psti_pool *pool = open_pool(16, 64 << 20);
    uint64_t n_alloc = 0;
    for (int round = 0; round < 20; round++) {
        struct pst_memory_stats stats;
        pst_batch *batch = claim(pool, 16);
        enum pst_status status;
        for (uint32_t row = 0; row < 16; row++) {
            int64_t length[1] = {(int64_t)((row * 7919 + (uint32_t)(round % 4) * 104729) % 30000)};
            assert_non_null(psti_batch_new_row(batch, 2, row, 1, length, &status));
        }
        pthread_mutex_lock(psti_batch_pool_lock(pool));
        psti_batch_pool_put_back(batch);
        pthread_mutex_unlock(psti_batch_pool_lock(pool));
        pst_memory_stats(&stats, sizeof stats);
        if (round == 9)
            n_alloc = stats.n_alloc;
        if (round > 9)
            assert_int_equal(stats.n_alloc, n_alloc);
    }
    psti_batch_pool_close(&pool);
}

static void test_outlives_the_loader(void **state)
{
    (void)state;
    struct pst_memory_stats before, after;
    pst_memory_stats(&before, sizeof before);
    struct psti_pool *pool = open_pool(3, 1 << 20);
    pst_batch *kept = claim(pool, 3), *other = claim(pool, 2), *large = claim(pool, 9);
    for (uint32_t row = 0; row < 3; row++)
        fill_row(kept, row, true);
    psti_batch_finish(kept, 3, NULL);
    hand_out(pool, kept);
    hand_out(pool, other);
    hand_out(pool, large);
    pst_batch_release(large); /* the slot is larger than the pool's slots, so it is freed */
    psti_batch_pool_close(&pool);
    assert_null(pool);
    pst_batch_retain(kept);
    pst_batch_release(kept);
    pst_batch_release(other);
    for (uint32_t row = 0; row < 3; row++)
        check_row(kept, row, row, true);
    pst_batch_release(kept);
    pst_batch_release(NULL);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(before.live_nbytes, after.live_nbytes);
}

static void release_all(void *arg)
{
    for (pst_batch **batch = arg; *batch; batch++)
        pst_batch_release(*batch);
}

static void test_release_from_threads(void **state)
{
    (void)state;
    enum { THREADS = 4, EACH = 50 };
    struct psti_pool *pool = open_pool(2, 1 << 24);
    struct pst_error err;
    pst_batch *batches[THREADS][EACH + 1] = {{NULL}};
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < EACH; i++) {
            batches[t][i] = claim(pool, 2);
            hand_out(pool, batches[t][i]);
        }
    for (int t = 0; t < THREADS; t++)
        assert_ok(psti_thread_start(&threads[t], "release", release_all, batches[t], &err));
    psti_batch_pool_close(&pool);
    for (int t = 0; t < THREADS; t++)
        psti_thread_join(threads[t]);
}

static void test_forked_child(void **state)
{
    (void)state;
    struct psti_pool *pool = open_pool(2, 1 << 20);
    pst_batch *batch = claim(pool, 2);
    fill_row(batch, 0, false);
    psti_batch_finish(batch, 1, NULL);
    hand_out(pool, batch);
    /* as if another thread held it during the fork */
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    pid_t child = fork();
    if (child == 0) {
        bool right = psti_batch_pool_is_forked(pool) && pst_batch_index(batch)[0] == 100;
        pst_batch_release(batch);
        _exit(right ? 0 : 1);
    }
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pst_batch_release(batch);
    psti_batch_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_and_read),
        cmocka_unit_test(test_bad_rows_close_up),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_rows_count),
        cmocka_unit_test(test_rows_settle),
        cmocka_unit_test(test_outlives_the_loader),
        cmocka_unit_test(test_release_from_threads),
        cmocka_unit_test(test_forked_child),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
