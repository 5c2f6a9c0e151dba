/* test_batch_carry.c - are the rows of a slot on a GPU put into one block to be uploaded, and do
 * tensors show where they lie there? The GPU's memory is memory of this process. */
#include "test.h"

#include "batch/batch_int.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

enum { BOXES, SOUND, TEXT, N_FIELDS, N_ROWS = 4, DEVICE = 2 };

/* Stands for the memory of a GPU. `most`: the bytes of the largest block that can be allocated.
 * `last`: the bytes that were asked for last. */
struct gpu {
    size_t most, last;
    uint32_t n_made, n_unmade;
};

static uint64_t nbytes_of(void *ctx, uint32_t n_rows)
{
    (void)ctx;
    (void)n_rows;
    return 0;
}

static enum pst_status make(void *ctx, uint32_t n_rows, size_t numbers_nbytes, size_t array_nbytes,
                            struct psti_slot_part *part)
{
    (void)ctx;
    (void)n_rows;
    part->numbers = aligned_alloc(4096, (numbers_nbytes + 4095) / 4096 * 4096);
    part->array = (uint64_t)(uintptr_t)aligned_alloc(256, (array_nbytes + 255) / 256 * 256);
    return PST_OK;
}

static void unmake(void *ctx, struct psti_slot_part *part)
{
    (void)ctx;
    free(part->numbers);
    free((void *)(uintptr_t)part->array);
}

static enum pst_status make_rows(void *ctx, struct psti_slot_part *part, size_t nbytes, void **rows,
                                 struct pst_error *err)
{
    struct gpu *gpu = ctx;
    (void)part;
    gpu->last = nbytes;
    if (nbytes > gpu->most) {
        *err = (struct pst_error){.status = PST_ERROR_MEMORY, .text = "the GPU is full"};
        return PST_ERROR_MEMORY;
    }
    *rows = aligned_alloc(64, (nbytes + 63) / 64 * 64);
    gpu->n_made++;
    return PST_OK;
}

static void unmake_rows(void *ctx, struct psti_slot_part *part, void *rows, size_t nbytes)
{
    struct gpu *gpu = ctx;
    (void)part;
    assert_true(nbytes > 0);
    free(rows);
    gpu->n_unmade++;
}

static bool released(void *ctx, struct psti_slot_part *part)
{
    (void)ctx;
    (void)part;
    return true;
}

static void shut(void *ctx) { (void)ctx; }

/* Opens a pool of boxes, of sound of which most rows lie in an array, and of text. */
static struct psti_pool *open_pool(struct gpu *gpu, enum pst_ragged kind)
{
    const struct psti_slot_field layout[N_FIELDS] = {
        {.name = "boxes",
         .type = PST_FIELD_BOXES,
         .dtype = PST_DTYPE_F32,
         .may_differ = true,
         .carried = true,
         .ragged = {.kind = kind, .multiple = 1, .ndim = 2, .shape = {0, 4}}},
        {.name = "sound",
         .type = PST_FIELD_AUDIO,
         .dtype = PST_DTYPE_F32,
         .has_array = true,
         .may_differ = true,
         .carried = true,
         .ndim = 2,
         .shape = {1, 5}},
        {.name = "text", .type = PST_FIELD_TEXT, .dtype = PST_DTYPE_U8, .may_differ = true}};
    struct psti_pool *pool;
    struct pst_error err;
    *gpu = (struct gpu){.most = 1 << 20};
    assert_ok(psti_batch_pool_open(layout, N_FIELDS, N_ROWS, 1 << 20, &pool, &err));
    psti_batch_pool_set_gpu(pool, &(struct psti_slot_gpu){.ctx = gpu,
                                                          .device = DEVICE,
                                                          .nbytes = nbytes_of,
                                                          .make = make,
                                                          .unmake = unmake,
                                                          .make_rows = make_rows,
                                                          .unmake_rows = unmake_rows,
                                                          .released = released,
                                                          .close = shut});
    return pool;
}

static pst_batch *claim(struct psti_pool *pool)
{
    pst_batch *batch;
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    assert_int_equal(psti_batch_pool_claim(pool, N_ROWS, &batch), PST_OK);
    psti_batch_pool_hand_out(batch);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    return batch;
}

/* Fills a batch: row r has counts[r] boxes, whose numbers count up from 100 r, and a sound of 5
 * samples, or of 7 in row `longer`. */
static void fill(pst_batch *batch, const int64_t counts[N_ROWS], uint32_t longer)
{
    enum pst_status status;
    for (uint32_t row = 0; row < N_ROWS; row++) {
        const int64_t boxes[2] = {counts[row], 4}, sound[2] = {1, row == longer ? 7 : 5},
                      text[1] = {row};
        float *box = psti_batch_new_row(batch, BOXES, row, 2, boxes, &status);
        float *samples = psti_batch_new_row(batch, SOUND, row, 2, sound, &status);
        for (int64_t i = 0; i < 4 * counts[row]; i++)
            box[i] = (float)(100 * row + (uint32_t)i);
        for (int64_t i = 0; i < sound[1]; i++)
            samples[i] = (float)(1000 * row + (uint32_t)i);
        memset(psti_batch_new_row(batch, TEXT, row, 1, text, &status), 'a', row);
    }
    psti_batch_finish(batch, N_ROWS, NULL);
}

/* Checks one row's numbers. `gpu`: where the block was uploaded; the array was uploaded, too. */
static void check_row(const pst_batch *batch, uint32_t f, uint32_t row, int64_t n, float first)
{
    struct pst_tensor tensor, host;
    assert_int_equal(pst_batch_row(batch, f, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(pst_batch_host_row(batch, f, row, &host, sizeof host, NULL), PST_OK);
    assert_int_equal(tensor.device, DEVICE);
    assert_int_equal(host.device, -1);
    assert_int_equal(tensor.shape[0] * tensor.shape[1], n);
    assert_non_null(tensor.data);
    assert_int_equal((uintptr_t)tensor.data % (f == BOXES ? 64 : 4), 0);
    for (int64_t i = 0; i < n; i++) {
        assert_true(((const float *)tensor.data)[i] == first + (float)i);
        assert_true(((const float *)host.data)[i] == first + (float)i);
    }
}

/* Uploads index and arrays, and the block, as the loader does. Returns the block on the GPU. */
static void *upload(pst_batch *batch)
{
    const void *rows;
    size_t nbytes = psti_batch_carried(batch, &rows);
    void *block = aligned_alloc(64, (nbytes + 64) / 64 * 64);
    memcpy((void *)(uintptr_t)psti_batch_part(batch)->array, batch->data, batch->numbers_nbytes);
    if (nbytes)
        memcpy(block, rows, nbytes);
    psti_batch_set_carried(batch, (uint64_t)(uintptr_t)block);
    return block;
}

static void test_rows_of_lists_are_one_block(void **state)
{
    static const int64_t counts[2][N_ROWS] = {{2, 0, 3, 1}, {0, 0, 0, 0}};
    struct gpu gpu;
    struct psti_pool *pool = open_pool(&gpu, PST_RAGGED_LIST);
    struct pst_tensor tensor;
    const void *rows;
    (void)state;
    for (int i = 0; i < 2; i++) { /* in the second batch, sounds have one shape */
        pst_batch *batch = claim(pool);
        fill(batch, counts[i], i == 0 ? 2 : N_ROWS);
        assert_int_equal(psti_batch_collate(batch, NULL), PST_OK);
        /* 64 bytes for two boxes, for three, for one, and for the longer sound */
        assert_int_equal(psti_batch_carried(batch, &rows), i == 0 ? 256 : 0);
        void *block = upload(batch);
        for (uint32_t row = 0; row < N_ROWS; row++) {
            check_row(batch, BOXES, row, 4 * counts[i][row], (float)(100 * row));
            check_row(batch, SOUND, row, i == 0 && row == 2 ? 7 : 5, (float)(1000 * row));
            assert_int_equal(pst_batch_row(batch, TEXT, row, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.device, -1);
        }
        assert_int_equal(pst_batch_is_ragged(batch, SOUND), i == 0);
        if (i == 1) {
            assert_int_equal(pst_batch_tensor(batch, SOUND, &tensor, sizeof tensor, NULL), PST_OK);
            assert_int_equal(tensor.device, DEVICE);
            assert_true(((const float *)tensor.data)[5 * 3] == 3000);
        }
        free(block);
        pst_batch_release(batch);
    }
    psti_batch_pool_close(&pool);
    assert_int_equal(gpu.n_made, 1);
    assert_int_equal(gpu.n_unmade, 1);
}

/* Rows of a padded field are parts of the padded array. */
static void test_rows_of_a_padded_array(void **state)
{
    static const int64_t counts[N_ROWS] = {2, 0, 3, 1};
    struct gpu gpu;
    struct psti_pool *pool = open_pool(&gpu, PST_RAGGED_PADDED);
    struct pst_tensor values, host, row;
    (void)state;
    pst_batch *batch = claim(pool);
    fill(batch, counts, 0);
    assert_int_equal(psti_batch_collate(batch, NULL), PST_OK);
    void *block = upload(batch);
    assert_true(pst_batch_collated(batch, BOXES, PST_COLLATED_VALUES, &values, sizeof values));
    assert_true(pst_batch_host_collated(batch, BOXES, PST_COLLATED_VALUES, &host, sizeof host));
    assert_int_equal(values.device, DEVICE);
    assert_int_equal(host.device, -1);
    assert_memory_equal(values.data, host.data, N_ROWS * 3 * 4 * sizeof(float));
    for (uint32_t i = 0; i < N_ROWS; i++) {
        check_row(batch, SOUND, i, i == 0 ? 7 : 5, (float)(1000 * i));
        assert_int_equal(pst_batch_row(batch, BOXES, i, &row, sizeof row, NULL), PST_OK);
        assert_int_equal(row.device, DEVICE);
        if (counts[i])
            assert_ptr_equal(row.data, (char *)values.data + i * values.strides[0]);
    }
    assert_true(pst_batch_collated(batch, BOXES, PST_COLLATED_COUNTS, &values, sizeof values));
    assert_int_equal(values.device, DEVICE);
    assert_memory_equal(values.data, counts, sizeof counts);
    free(block);
    pst_batch_release(batch);
    psti_batch_pool_close(&pool);
}

/* The block is made again after rows were. It grows with a margin, or without one where memory is
 * scarce; where there is too little, its bytes are given back. */
static void test_the_block_grows(void **state)
{
    struct gpu gpu;
    struct psti_pool *pool = open_pool(&gpu, PST_RAGGED_LIST);
    struct psti_batch_pool_stats before, after;
    struct pst_error err;
    const void *rows;
    (void)state;
    pst_batch *batch = claim(pool);
    fill(batch, (const int64_t[]){2, 0, 3, 1}, N_ROWS);
    psti_batch_pool_stats(pool, &before);
    gpu.most = 64;
    assert_int_equal(psti_batch_collate(batch, &err), PST_ERROR_MEMORY);
    assert_string_equal(err.text, "the GPU is full");
    psti_batch_pool_stats(pool, &after);
    assert_int_equal(after.used, before.used);
    gpu.most = 192;
    assert_ok(psti_batch_collate(batch, &err));
    assert_int_equal(gpu.last, 192);
    psti_batch_pool_stats(pool, &after);
    assert_int_equal(after.used, before.used + 192);
    gpu.most = 1 << 20;
    fill(batch, (const int64_t[]){2, 9, 3, 1}, N_ROWS);
    assert_ok(psti_batch_collate(batch, &err));
    assert_int_equal(psti_batch_carried(batch, &rows), 192 + 192);
    assert_int_equal(gpu.last, 384 + 384 / 8);
    assert_true(((const float *)rows)[16] == 100); /* row 1 follows the 64 bytes of row 0 */
    pst_batch_release(batch);
    psti_batch_pool_close(&pool);
    assert_int_equal(gpu.n_made, gpu.n_unmade);
}

/* Slots have the block of the largest possible batch from the start. */
static void test_the_largest_block_is_known(void **state)
{
    struct gpu gpu;
    struct psti_pool *pool = open_pool(&gpu, PST_RAGGED_LIST);
    struct pst_error err;
    (void)state;
    psti_batch_pool_set_carried(pool, 1000);
    pst_batch *batch = claim(pool);
    assert_int_equal(gpu.last, 1000);
    fill(batch, (const int64_t[]){2, 9, 3, 1}, N_ROWS);
    assert_ok(psti_batch_collate(batch, &err));
    assert_int_equal(gpu.n_made, 1);
    pst_batch_release(batch);
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    psti_batch_pool_trim(pool, 1); /* keeps the slot, and frees its block */
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    assert_int_equal(gpu.n_unmade, 1);
    psti_batch_pool_close(&pool);
    assert_int_equal(gpu.n_unmade, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_lists_are_one_block),
        cmocka_unit_test(test_rows_of_a_padded_array),
        cmocka_unit_test(test_the_block_grows),
        cmocka_unit_test(test_the_largest_block_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
