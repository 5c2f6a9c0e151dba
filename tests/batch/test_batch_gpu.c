/* test_batch_gpu.c - tests slots whose arrays are on a GPU: who allocates their memory, waits for
 * it and frees it, and what the tensors say; and the same for slots in host memory of another
 * owner. The GPU's memory is memory of this process. */
#include "test.h"

#include "batch/batch_int.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

static const struct psti_slot_field layout[] = {
    {.name = "image",
     .type = PST_FIELD_IMAGE,
     .dtype = PST_DTYPE_F32,
     .has_array = true,
     .ndim = 3,
     .shape = {3, 5, 7}},
    {.name = "label", .type = PST_FIELD_INT, .dtype = PST_DTYPE_I64, .has_array = true},
    {.name = "text", .type = PST_FIELD_TEXT, .dtype = PST_DTYPE_U8, .may_differ = true},
    {.name = "features",
     .type = PST_FIELD_AUDIO,
     .dtype = PST_DTYPE_F32,
     .has_array = true,
     .gpu_makes = true,
     .ndim = 1,
     .shape = {9}},
};
enum { N_FIELDS = sizeof layout / sizeof *layout };

struct gpu {
    int n_made, n_unmade, n_left, n_closed, n_most;
    bool usable;
    uint64_t awaited;
};

static uint64_t nbytes_of(void *ctx, uint32_t n_rows)
{
    (void)ctx;
    return 1000 + n_rows;
}

static enum pst_status make(void *ctx, uint32_t n_rows, size_t numbers_nbytes, size_t array_nbytes,
                            struct psti_slot_part *part)
{
    struct gpu *gpu = ctx;
    (void)n_rows;
    if (gpu->n_made - gpu->n_unmade == gpu->n_most)
        return PST_ERROR_LIMIT;
    part->numbers = aligned_alloc(4096, (numbers_nbytes + 4095) / 4096 * 4096);
    part->array = (uint64_t)(uintptr_t)aligned_alloc(256, (array_nbytes + 255) / 256 * 256);
    gpu->n_made++;
    return PST_OK;
}

static void unmake(void *ctx, struct psti_slot_part *part)
{
    struct gpu *gpu = ctx;
    free(part->numbers);
    free((void *)(uintptr_t)part->array);
    gpu->n_unmade++;
}

static enum pst_status await(void *ctx, struct psti_slot_part *part, uint64_t stream,
                             struct pst_error *err)
{
    (void)part;
    (void)err;
    ((struct gpu *)ctx)->awaited = stream;
    return PST_OK;
}

static bool released(void *ctx, struct psti_slot_part *part)
{
    struct gpu *gpu = ctx;
    (void)part;
    gpu->n_left++;
    return gpu->usable;
}

static void shut(void *ctx) { ((struct gpu *)ctx)->n_closed++; }

static struct psti_pool *open_pool(struct gpu *gpu, uint64_t limit)
{
    struct psti_pool *pool;
    struct pst_error err;
    *gpu = (struct gpu){.usable = true, .n_most = 2};
    assert_ok(psti_batch_pool_open(layout, N_FIELDS, 6, limit, &pool, &err));
    psti_batch_pool_set_gpu(pool, &(struct psti_slot_gpu){.ctx = gpu,
                                                          .device = 3,
                                                          .nbytes = nbytes_of,
                                                          .make = make,
                                                          .unmake = unmake,
                                                          .await = await,
                                                          .released = released,
                                                          .close = shut});
    return pool;
}

static pst_batch *claim(struct psti_pool *pool, enum pst_status expected)
{
    pst_batch *batch = NULL;
    pthread_mutex_lock(psti_batch_pool_lock(pool));
    enum pst_status status = psti_batch_pool_claim(pool, 6, &batch);
    if (status == PST_OK)
        psti_batch_pool_hand_out(batch);
    pthread_mutex_unlock(psti_batch_pool_lock(pool));
    assert_int_equal(status, expected);
    return batch;
}

/* Fills a batch as the loader does: numbers in host memory, and all fields on the GPU. */
static void fill(pst_batch *batch)
{
    struct psti_slot_part *part = psti_batch_part(batch);
    size_t offset, row_nbytes;
    enum pst_status status;
    for (uint32_t row = 0; row < 6; row++) {
        int64_t length[1] = {row};
        psti_batch_indices(batch)[row] = 100 + row;
        *(int64_t *)psti_batch_array_row(batch, 1, row) = 1000 + row;
        assert_non_null(psti_batch_new_row(batch, 2, row, 1, length, &status));
    }
    assert_true(psti_batch_place_of(batch, 0, &offset, &row_nbytes));
    assert_true(offset >= batch->numbers_nbytes); /* pixels are only on the GPU */
    assert_int_equal(row_nbytes, 3 * 5 * 7 * 4);
    assert_true(psti_batch_place_of(batch, 1, &offset, &row_nbytes));
    assert_true(offset + 6 * row_nbytes <= batch->numbers_nbytes);
    assert_false(psti_batch_place_of(batch, 2, &offset, &row_nbytes));
    assert_true(psti_batch_place_of(batch, 3, &offset, &row_nbytes));
    assert_true(offset >= batch->numbers_nbytes); /* features are only on the GPU, too */
    memcpy((void *)(uintptr_t)part->array, part->numbers, batch->numbers_nbytes);
}

static void test_tensors_say_where_they_lie(void **state)
{
    struct gpu gpu;
    struct psti_pool *pool = open_pool(&gpu, 1 << 20);
    pst_batch *batch = claim(pool, PST_OK);
    struct pst_tensor tensor;
    const uint8_t bad[6] = {0, 1, 0, 0, 0, 0};
    (void)state;
    fill(batch);
    psti_batch_finish(batch, 6, bad);
    uint64_t array = psti_batch_part(batch)->array;
    assert_int_equal(pst_batch_device(batch), 3);
    assert_int_equal(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, 3);
    assert_true((uint64_t)(uintptr_t)tensor.data > array);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    assert_int_equal(tensor.shape[0], 5);
    assert_int_equal(pst_batch_host_tensor(batch, 0, &tensor, sizeof tensor, NULL),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_batch_tensor(batch, 3, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, 3);
    assert_int_equal(pst_batch_host_tensor(batch, 3, &tensor, sizeof tensor, NULL),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_batch_tensor(batch, 1, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, 3);
    assert_int_equal(*(int64_t *)tensor.data, 1000);
    assert_int_equal(pst_batch_host_tensor(batch, 1, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, -1);
    assert_int_equal(((int64_t *)tensor.data)[1], 1002); /* closed up */
    assert_int_equal(pst_batch_row(batch, 0, 4, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, 3);
    assert_int_equal(pst_batch_row(batch, 2, 4, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, -1);
    assert_int_equal(tensor.shape[0], 5);
    assert_int_equal(pst_batch_index(batch)[4], 105);
    pst_batch_index_tensor(batch, &tensor, sizeof tensor);
    assert_int_equal(tensor.device, 3);
    assert_int_equal((uintptr_t)tensor.data, array);
    assert_int_equal(pst_batch_await(batch, 77, NULL), PST_OK);
    assert_int_equal(gpu.awaited, 77);
    pst_batch_release(batch);
    psti_batch_pool_close(&pool);
    assert_int_equal(gpu.n_made, 1);
    assert_int_equal(gpu.n_unmade, 1);
    assert_int_equal(gpu.n_closed, 1);
}

/* A failure to allocate GPU memory is returned by claim, and no memory stays counted. The GPU's
 * memory may outlive the loader. */
static void test_life(void **state)
{
    struct gpu gpu;
    struct psti_pool *pool = open_pool(&gpu, 1 << 20);
    struct psti_batch_pool_stats stats;
    size_t nbytes;
    (void)state;
    assert_true(psti_batch_pool_slot_nbytes(pool, 6, &nbytes));
    size_t records = pool->n_fields * sizeof(struct psti_collated);
    assert_true(nbytes > 1006 + records);
    /* host memory of the slot, without pixels */
    assert_true(nbytes < 1006 + records + 3 * 5 * 7 * 4 * 6);
    pst_batch *a = claim(pool, PST_OK), *b = claim(pool, PST_OK);
    claim(pool, PST_ERROR_LIMIT);
    psti_batch_pool_stats(pool, &stats);
    assert_int_equal(stats.used, 2 * nbytes);
    gpu.usable = false; /* the slot cannot be waited for, as if a stream still read it */
    pst_batch_release(a);
    assert_int_equal(gpu.n_unmade, 1);
    gpu.usable = true;
    a = claim(pool, PST_OK);
    assert_int_equal(gpu.n_made, 3);
    pst_batch_release(a);
    a = claim(pool, PST_OK); /* claims the same slot again */
    assert_int_equal(gpu.n_made, 3);
    psti_batch_pool_close(&pool);
    assert_int_equal(gpu.n_closed, 0);
    pst_batch_release(a);
    pst_batch_release(b);
    assert_int_equal(gpu.n_closed, 1);
    assert_int_equal(gpu.n_unmade, 3);
    assert_int_equal(gpu.n_left, 4);
}

/* Allocates slots in host memory, in place of the loader's allocator. */
struct host {
    int n_made, n_unmade, n_left, n_closed, n_plain, n_waits;
    bool usable, busy;
};

static enum pst_status make_in_host(void *ctx, size_t nbytes, struct psti_slot_part *part)
{
    struct host *host = ctx;
    if (host->n_plain > 0) {
        host->n_plain--;
        return PST_OK;
    }
    part->numbers = part->own = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
    host->n_made++;
    return PST_OK;
}

static void unmake_in_host(void *ctx, struct psti_slot_part *part)
{
    free(part->own);
    ((struct host *)ctx)->n_unmade++;
}

static bool released_host(void *ctx, struct psti_slot_part *part)
{
    (void)part;
    ((struct host *)ctx)->n_left++;
    return ((struct host *)ctx)->usable;
}

static bool is_writable(void *ctx, struct psti_slot_part *part, bool wait)
{
    struct host *host = ctx;
    (void)part;
    host->n_waits += wait;
    return wait || !host->busy;
}

static void shut_host(void *ctx) { ((struct host *)ctx)->n_closed++; }

static void test_memory_of_somebody_else(void **state)
{
    struct host host = {.usable = true, .n_plain = 1};
    struct psti_pool *pool;
    struct pst_tensor tensor;
    struct pst_error err;
    size_t nbytes;
    (void)state;
    assert_ok(psti_batch_pool_open(layout, 3, 6, 0, &pool, &err));
    assert_true(psti_batch_pool_slot_nbytes(pool, 6, &nbytes));
    psti_batch_pool_close(&pool);
    assert_ok(psti_batch_pool_open(layout, 3, 6, 3 * nbytes, &pool, &err)); /* three slots */
    psti_batch_pool_set_host(pool, &(struct psti_slot_host){.ctx = &host,
                                                            .make = make_in_host,
                                                            .unmake = unmake_in_host,
                                                            .released = released_host,
                                                            .is_writable = is_writable,
                                                            .close = shut_host});
    pst_batch *plain = claim(pool, PST_OK), *a = claim(pool, PST_OK);
    assert_int_equal(host.n_made, 1);
    psti_batch_finish(a, 6, NULL);
    assert_null(psti_batch_part(plain));
    assert_non_null(psti_batch_part(a));
    assert_int_equal(pst_batch_device(a), -1);
    assert_int_equal(pst_batch_tensor(a, 0, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.device, -1);
    assert_int_equal(pst_batch_host_tensor(a, 0, &tensor, sizeof tensor, NULL), PST_OK);
    pst_batch_release(a);
    host.busy = true; /* while it is busy another slot is made, until memory runs out */
    pst_batch *b = claim(pool, PST_OK);
    assert_ptr_not_equal(a, b);
    assert_int_equal(host.n_waits, 0);
    assert_ptr_equal(claim(pool, PST_OK), a);
    assert_int_equal(host.n_waits, 1);
    pst_batch_release(plain);
    assert_int_equal(host.n_left, 1); /* plain memory belongs to nobody else */
    assert_ptr_equal(claim(pool, PST_OK), plain);
    host.usable = false;
    pst_batch_release(a);
    assert_int_equal(host.n_unmade, 1);
    psti_batch_pool_close(&pool);
    pst_batch_release(plain);
    assert_int_equal(host.n_closed, 0);
    pst_batch_release(b);
    assert_int_equal(host.n_unmade, host.n_made);
    assert_int_equal(host.n_closed, 1);
}

/* Allocates slots and orders them by their position in `host.places`; the slot after the last one
 * used comes first. */
struct ordered {
    struct host host;
    void *places[4];
    uint32_t n_places, next, few;
};

static uint32_t number_of(const struct ordered *ordered, const struct psti_slot_part *part)
{
    uint32_t number = 0;
    while (ordered->places[number] != part->own)
        number++;
    return number;
}

static enum pst_status make_ordered(void *ctx, size_t nbytes, struct psti_slot_part *part)
{
    struct ordered *ordered = ctx;
    enum pst_status status = make_in_host(&ordered->host, nbytes, part);
    ordered->places[ordered->n_places++] = part->own;
    return status;
}

static void unmake_ordered(void *ctx, struct psti_slot_part *part)
{
    unmake_in_host(&((struct ordered *)ctx)->host, part);
}

static bool released_ordered(void *ctx, struct psti_slot_part *part)
{
    return released_host(&((struct ordered *)ctx)->host, part);
}

static uint32_t order(void *ctx, const struct psti_slot_part *part, uint32_t n_free)
{
    const struct ordered *ordered = ctx;
    if (n_free < ordered->few)
        return UINT32_MAX;
    return (number_of(ordered, part) + 4 - ordered->next) % 4;
}

static void taken(void *ctx, const struct psti_slot_part *part)
{
    struct ordered *ordered = ctx;
    ordered->next = number_of(ordered, part) + 1;
}

static void shut_ordered(void *ctx) { shut_host(&((struct ordered *)ctx)->host); }

/* The allocator decides which free slot is claimed, or that a new one is made. */
static void test_slots_in_an_order(void **state)
{
    struct ordered ordered = {.host.usable = true};
    struct psti_pool *pool;
    struct pst_error err;
    size_t nbytes;
    pst_batch *batches[4];
    (void)state;
    assert_ok(psti_batch_pool_open(layout, 3, 6, 0, &pool, &err));
    assert_true(psti_batch_pool_slot_nbytes(pool, 6, &nbytes));
    psti_batch_pool_close(&pool);
    assert_ok(psti_batch_pool_open(layout, 3, 6, 4 * nbytes, &pool, &err));
    psti_batch_pool_set_host(pool, &(struct psti_slot_host){.ctx = &ordered,
                                                            .make = make_ordered,
                                                            .unmake = unmake_ordered,
                                                            .released = released_ordered,
                                                            .order = order,
                                                            .taken = taken,
                                                            .close = shut_ordered});
    for (uint32_t i = 0; i < 3; i++)
        batches[i] = claim(pool, PST_OK);
    assert_int_equal(ordered.next, 3);
    pst_batch_release(batches[0]);
    pst_batch_release(batches[2]);
    pst_batch_release(batches[1]);
    ordered.few = 4;
    batches[3] = claim(pool, PST_OK); /* three slots exist, and there is memory for one more */
    assert_int_equal(ordered.n_places, 4);
    /* there is no memory for a further slot */
    assert_ptr_equal(claim(pool, PST_OK), batches[0]);
    ordered.few = 0;
    pst_batch_release(batches[0]);
    ordered.next = 2;
    assert_ptr_equal(claim(pool, PST_OK), batches[2]);
    pst_batch_release(batches[3]);
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(claim(pool, PST_OK), batches[(3 + i) % 4]);
    claim(pool, PST_ERROR_LIMIT);
    for (uint32_t i = 0; i < 4; i++)
        pst_batch_release(batches[i]);
    psti_batch_pool_close(&pool);
    assert_int_equal(ordered.host.n_closed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_in_an_order),
        cmocka_unit_test(test_memory_of_somebody_else),
        cmocka_unit_test(test_tensors_say_where_they_lie),
        cmocka_unit_test(test_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
