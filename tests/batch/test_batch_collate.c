/* test_batch_collate.c - are rows of different shapes joined correctly, within the memory
 * budget? */
#include "test.h"

#include "batch/batch.h"

#include <penstock/penstock.h>

#include <string.h>

static struct psti_pool *open_pool(enum pst_ragged kind, uint64_t limit)
{
    struct psti_slot_field layout[2] = {
        {.name = "boxes",
         .type = PST_FIELD_BOXES,
         .dtype = PST_DTYPE_F32,
         .may_differ = true,
         .ragged = {.kind = kind, .multiple = 1, .ndim = 2, .shape = {0, 4}}},
        {.name = "image",
         .type = PST_FIELD_IMAGE,
         .dtype = PST_DTYPE_U16,
         .may_differ = true,
         .ragged = {.kind = kind, .planar = true, .multiple = 4, .fill = {7, 1}, .ndim = 3}},
    };
    struct psti_pool *pool;
    struct pst_error err;
    assert_ok(psti_batch_pool_open(layout, 2, 3, limit, &pool, &err));
    return pool;
}

static pst_batch *claim(struct psti_pool *pool)
{
    pst_batch *batch = NULL;
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    assert_int_equal(psti_batch_pool_claim(pool, 3, &batch), PST_OK);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    return batch;
}

static void give_back(struct psti_pool *pool, pst_batch *batch)
{
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    psti_batch_pool_put_back(batch);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
}

/* Fills three rows. Row r has counts[r] boxes and an image of 2 x (1 + r) x (2 + r), whose values
 * count up from 1000 r. */
static void fill(pst_batch *batch, const int64_t counts[3])
{
    enum pst_status status;
    for (uint32_t row = 0; row < 3; row++) {
        int64_t boxes[2] = {counts[row], 4}, image[3] = {2, 1 + row, 2 + row};
        psti_batch_indices(batch)[row] = row;
        float *box = psti_batch_new_row(batch, 0, row, 2, boxes, &status);
        uint16_t *pixels = psti_batch_new_row(batch, 1, row, 3, image, &status);
        assert_non_null(box);
        assert_non_null(pixels);
        for (int64_t i = 0; i < 4 * counts[row]; i++)
            box[i] = (float)(1000 * row + (uint32_t)i);
        for (int64_t i = 0; i < image[0] * image[1] * image[2]; i++)
            pixels[i] = (uint16_t)(1000 * row + (uint32_t)i);
    }
    psti_batch_finish(batch, 3, NULL);
}

static struct pst_tensor part(const pst_batch *batch, uint32_t i_field, enum pst_collated which)
{
    struct pst_tensor tensor;
    assert_true(pst_batch_collated(batch, i_field, which, &tensor, sizeof tensor));
    return tensor;
}

static void test_padded(void **state)
{
    (void)state;
    struct psti_pool *pool = open_pool(PST_RAGGED_PADDED, 1 << 20);
    pst_batch *batch = claim(pool);
    struct pst_tensor tensor;
    fill(batch, (const int64_t[]){2, 0, 3});
    assert_false(pst_batch_collated(batch, 0, PST_COLLATED_VALUES, &tensor, sizeof tensor));
    assert_int_equal(psti_batch_collate(batch, NULL), PST_OK);
    tensor = part(batch, 0, PST_COLLATED_VALUES);
    assert_int_equal(tensor.ndim, 3);
    assert_int_equal(tensor.shape[1], 3);
    const float *boxes = tensor.data;
    for (uint32_t i = 0; i < 36; i++) {
        uint32_t row = i / 12, at = i % 12, own = row == 0 ? 8 : row == 1 ? 0 : 12;
        assert_true(boxes[i] == (at < own ? (float)(1000 * row + at) : 0));
    }
    const int64_t *counts = part(batch, 0, PST_COLLATED_COUNTS).data;
    assert_true(counts[0] == 2 && counts[1] == 0 && counts[2] == 3);
    tensor = part(batch, 1, PST_COLLATED_VALUES); /* 2 x 4 x 4 after rounding up */
    assert_int_equal(tensor.shape[2], 4);
    assert_int_equal(tensor.shape[3], 4);
    const uint16_t *pixels = tensor.data;
    for (uint32_t i = 0; i < 96; i++) {
        uint32_t row = i / 32, c = i / 16 % 2, y = i / 4 % 4, x = i % 4;
        bool inside = y < 1 + row && x < 2 + row;
        uint32_t own = 1000 * row + (c * (1 + row) + y) * (2 + row) + x;
        assert_int_equal(pixels[i], inside ? own : 0x107);
    }
    const int64_t *sizes = part(batch, 1, PST_COLLATED_SIZES).data;
    for (int64_t row = 0; row < 3; row++)
        assert_true(sizes[2 * row] == 1 + row && sizes[2 * row + 1] == 2 + row);
    assert_false(pst_batch_collated(batch, 1, PST_COLLATED_COUNTS, &tensor, sizeof tensor));
    assert_false(pst_batch_collated(batch, 2, PST_COLLATED_VALUES, &tensor, sizeof tensor));
    give_back(pool, batch);
    psti_batch_pool_close(&pool);
}

static void test_offsets(void **state)
{
    (void)state;
    struct psti_pool *pool = open_pool(PST_RAGGED_OFFSETS, 1 << 20);
    pst_batch *batch = claim(pool);
    fill(batch, (const int64_t[]){2, 0, 3});
    assert_int_equal(psti_batch_collate(batch, NULL), PST_OK);
    struct pst_tensor boxes = part(batch, 0, PST_COLLATED_VALUES);
    assert_int_equal(boxes.ndim, 2);
    assert_int_equal(boxes.shape[0], 5);
    assert_true(((const float *)boxes.data)[8] == 2000);
    const int64_t *offsets = part(batch, 0, PST_COLLATED_OFFSETS).data;
    assert_true(offsets[0] == 0 && offsets[1] == 2 && offsets[2] == 2 && offsets[3] == 5);
    struct pst_tensor pixels = part(batch, 1, PST_COLLATED_VALUES);
    assert_int_equal(pixels.ndim, 1);
    assert_int_equal(pixels.shape[0], 4 + 12 + 24);
    offsets = part(batch, 1, PST_COLLATED_OFFSETS).data;
    assert_true(offsets[1] == 4 && offsets[2] == 16 && offsets[3] == 40);
    const int64_t *shapes = part(batch, 1, PST_COLLATED_SHAPES).data;
    assert_true(shapes[3] == 2 && shapes[4] == 2 && shapes[5] == 3);
    give_back(pool, batch);
    psti_batch_pool_close(&pool);
}

/* A slot's joined arrays are dropped when it is claimed again. Rows without boxes keep the other
 * axes. */
static void test_empty_rows(void **state)
{
    (void)state;
    struct psti_pool *pool = open_pool(PST_RAGGED_PADDED, 1 << 20);
    pst_batch *batch = claim(pool);
    struct pst_tensor tensor;
    fill(batch, (const int64_t[]){1, 1, 1});
    assert_int_equal(psti_batch_collate(batch, NULL), PST_OK);
    give_back(pool, batch);
    batch = claim(pool);
    assert_false(pst_batch_collated(batch, 0, PST_COLLATED_VALUES, &tensor, sizeof tensor));
    fill(batch, (const int64_t[]){0, 0, 0});
    assert_int_equal(psti_batch_collate(batch, NULL), PST_OK);
    tensor = part(batch, 0, PST_COLLATED_VALUES);
    assert_true(tensor.shape[0] == 3 && tensor.shape[1] == 0 && tensor.shape[2] == 4);
    give_back(pool, batch);
    psti_batch_pool_close(&pool);
}

static void test_budget(void **state)
{
    (void)state;
    struct psti_batch_pool_stats stats;
    struct pst_error err;
    struct psti_pool *pool = open_pool(PST_RAGGED_PADDED, 64 << 10);
    pst_batch *batch = claim(pool);
    fill(batch, (const int64_t[]){1500, 1, 1}); /* 24,000 bytes, or 72,000 with padding */
    assert_int_equal(psti_batch_collate(batch, &err), PST_ERROR_LIMIT);
    give_back(pool, batch);
    batch = claim(pool);
    fill(batch, (const int64_t[]){300, 1, 1});
    assert_int_equal(psti_batch_collate(batch, &err), PST_OK);
    psti_batch_pool_stats(pool, &stats);
    assert_true(stats.peak <= 64 << 10);
    give_back(pool, batch);
    psti_batch_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padded),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_empty_rows),
        cmocka_unit_test(test_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
