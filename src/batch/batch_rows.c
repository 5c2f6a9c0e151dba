/* batch_rows.c - the rows of a slot while it is filled, and the public functions that read a
 * finished batch.
 *
 * Several threads write different rows while a slot is filled. They take the slot's lock only to
 * cut memory for a row from a chunk. After psti_batch_finish nothing changes. */
#include "batch/batch_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/options.h"

#include <string.h>

struct psti_row *psti_batch_row_record(const pst_batch *batch, uint32_t i_field, uint32_t row)
{
    int i_rows = batch->pool->fields[i_field].i_rows;
    return i_rows < 0 ? NULL : &batch->rows[(size_t)i_rows * batch->n_rows_max + row];
}

int64_t *psti_batch_indices(pst_batch *batch) { return (int64_t *)(void *)batch->data; }

uint64_t *psti_batch_draws(pst_batch *batch) { return batch->draws; }

const uint64_t *pst_batch_draws(const pst_batch *batch) { return batch->draws; }

struct psti_slot_part *psti_batch_part(pst_batch *batch)
{
    return batch->pool->has_gpu || (batch->pool->has_host && batch->part.own) ? &batch->part : NULL;
}

void psti_batch_set_array(pst_batch *batch, uint32_t i_field, void *array)
{
    batch->offsets[i_field] = (uintptr_t)array - (uintptr_t)batch->data;
}

/* Returns the address at an offset from the batch's arrays. An array that lies before them in
 * memory has an offset near SIZE_MAX, so the sum may wrap around. */
static void *host_at(const pst_batch *batch, size_t offset)
{
    return (void *)((uintptr_t)batch->data + offset);
}

bool psti_batch_place_of(const pst_batch *batch, uint32_t i_field, size_t *offset,
                         size_t *row_nbytes)
{
    *offset = batch->offsets[i_field];
    *row_nbytes = batch->pool->fields[i_field].row_nbytes;
    return batch->pool->fields[i_field].field.has_array;
}

void psti_batch_set_place(pst_batch *batch, uint64_t epoch, uint64_t step)
{
    batch->epoch = epoch;
    batch->step = step;
    psti_batch_set_mix(batch, NULL);
}

void psti_batch_set_mix(pst_batch *batch, const struct pst_batch_mix *mix)
{
    batch->mix = mix ? *mix : (struct pst_batch_mix){0};
}

bool pst_batch_mix(const pst_batch *batch, struct pst_batch_mix *mix, size_t mix_nbytes)
{
    if (batch->mix.kind == 0)
        return false;
    psti_struct_write(mix, mix_nbytes, &batch->mix, sizeof batch->mix);
    return true;
}

static void *array_row(const pst_batch *batch, uint32_t i_field, uint32_t row)
{
    return host_at(batch,
                   batch->offsets[i_field] + (size_t)row * batch->pool->fields[i_field].row_nbytes);
}

void *psti_batch_array_row(pst_batch *batch, uint32_t i_field, uint32_t row)
{
    return array_row(batch, i_field, row);
}

static void *cut(pst_batch *batch, size_t nbytes, enum pst_status *status)
{
    _Static_assert(sizeof(struct psti_chunk) <= PSTI_CACHE_LINE, "the header is one cache line");
    nbytes = psti_round_up(nbytes, PSTI_CACHE_LINE);
    pthread_mutex_lock(&batch->lock);
    struct psti_chunk *chunk = batch->chunks;
    if (!chunk || chunk->nbytes - chunk->used < nbytes)
        chunk = psti_batch_add_chunk(batch, nbytes, status);
    char *memory = NULL;
    if (chunk) {
        memory = (char *)chunk + PSTI_CACHE_LINE + chunk->used;
        chunk->used += nbytes;
    }
    pthread_mutex_unlock(&batch->lock);
    return memory;
}

static bool shape_is_arrays(const struct psti_slot_field *field, uint32_t ndim,
                            const int64_t *shape)
{
    return field->has_array && field->ndim == ndim &&
           memcmp(field->shape, shape, ndim * sizeof *shape) == 0;
}

void *psti_batch_new_row(pst_batch *batch, uint32_t i_field, uint32_t row, uint32_t ndim,
                         const int64_t *shape, enum pst_status *status)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    struct psti_row *record = psti_batch_row_record(batch, i_field, row);
    size_t nbytes = pst_dtype_nbytes(field->dtype);
    *status = PST_ERROR_LIMIT;
    for (uint32_t i = 0; i < ndim; i++)
        if (shape[i] < 0 || !psti_mul_size(nbytes, (size_t)shape[i], &nbytes))
            return NULL;
    bool in_array = shape_is_arrays(field, ndim, shape);
    /* An empty row needs a non-NULL address, which is never read. */
    void *memory = batch->data;
    if (in_array)
        memory = array_row(batch, i_field, row);
    else if (nbytes > SIZE_MAX / 4)
        return NULL;
    else if (nbytes)
        memory = cut(batch, nbytes, status);
    if (!memory || !record)
        return memory;
    *record = (struct psti_row){.data = memory, .ndim = ndim, .in_array = in_array};
    memcpy(record->shape, shape, ndim * sizeof *shape);
    return memory;
}

void psti_batch_note_row(pst_batch *batch, uint32_t i_field, uint32_t row, const int64_t shape[3])
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    struct psti_row *record = psti_batch_row_record(batch, i_field, row);
    *record = (struct psti_row){.ndim = 3, .in_array = shape_is_arrays(field, 3, shape)};
    memcpy(record->shape, shape, 3 * sizeof *shape);
}

void *psti_batch_row_data(const pst_batch *batch, uint32_t i_field, uint32_t row)
{
    return psti_batch_row_record(batch, i_field, row)->data;
}

int64_t psti_batch_row_length(const pst_batch *batch, uint32_t i_field, uint32_t row)
{
    return psti_batch_row_record(batch, i_field, row)->shape[0];
}

void psti_batch_shorten_row(pst_batch *batch, uint32_t i_field, uint32_t row, int64_t n)
{
    struct psti_row *record = psti_batch_row_record(batch, i_field, row);
    if (record->shape[0] != n)
        record->in_array = false;
    record->shape[0] = n;
}

/* Moves row `from` to the place of row `to`, which comes before it, in all fields. */
static void move_row(pst_batch *batch, uint32_t to, uint32_t from)
{
    psti_batch_indices(batch)[to] = psti_batch_indices(batch)[from];
    batch->draws[to] = batch->draws[from];
    for (uint32_t i = 0; i < batch->pool->n_fields; i++) {
        const struct psti_layout_field *field = &batch->pool->fields[i];
        struct psti_row *record = psti_batch_row_record(batch, i, from);
        bool in_host = !batch->pool->has_gpu || !psti_batch_layout_is_gpu_alone(&field->field);
        if (field->field.has_array && in_host && (!record || record->in_array))
            memcpy(array_row(batch, i, to), array_row(batch, i, from), field->row_nbytes);
        if (!record)
            continue;
        struct psti_row *target = psti_batch_row_record(batch, i, to);
        *target = *record;
        if (record->in_array && in_host)
            target->data = array_row(batch, i, to);
    }
}

void psti_batch_finish(pst_batch *batch, uint32_t n_rows, const uint8_t *bad)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < n_rows; row++) {
        if (bad && bad[row])
            continue;
        if (count != row)
            move_row(batch, count, row);
        count++;
    }
    batch->count = count;
    batch->is_collated = false;
    for (uint32_t i = 0; i < batch->pool->n_fields; i++) {
        const struct psti_layout_field *field = &batch->pool->fields[i];
        batch->ragged[i] = field->i_rows >= 0 && !field->field.has_array;
        for (uint32_t row = 0; field->i_rows >= 0 && row < count; row++)
            batch->ragged[i] |= !psti_batch_row_record(batch, i, row)->in_array;
    }
}

uint32_t pst_batch_count(const pst_batch *batch) { return batch->count; }

uint32_t pst_batch_n_fields(const pst_batch *batch) { return batch->pool->n_fields; }

const char *pst_batch_field_name(const pst_batch *batch, uint32_t i_field)
{
    return i_field < batch->pool->n_fields ? batch->pool->fields[i_field].field.name : NULL;
}

enum pst_field_type pst_batch_field_type(const pst_batch *batch, uint32_t i_field)
{
    return i_field < batch->pool->n_fields ? batch->pool->fields[i_field].field.type
                                           : (enum pst_field_type)0;
}

bool pst_batch_is_ragged(const pst_batch *batch, uint32_t i_field)
{
    return i_field < batch->pool->n_fields && batch->ragged[i_field];
}

/* Returns whether the field's array, or its rows, lie on a GPU. */
static bool lies_on_gpu(const pst_batch *batch, uint32_t i_field)
{
    const struct psti_layout_field *field = &batch->pool->fields[i_field];
    return field->i_rows < 0 ? batch->pool->has_gpu && field->field.has_array
                             : psti_batch_is_carried(batch, i_field) ||
                                   psti_batch_is_loose(batch->pool, i_field);
}

/* Returns whether the field's array, or its rows, lie on a GPU, without a copy in host memory. */
static bool lies_on_gpu_alone(const pst_batch *batch, uint32_t i_field)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    return psti_batch_is_loose(batch->pool, i_field) ||
           (batch->pool->has_gpu && field->has_array && psti_batch_layout_is_gpu_alone(field));
}

void psti_batch_fill_strides(struct pst_tensor *tensor)
{
    int64_t stride = (int64_t)pst_dtype_nbytes(tensor->dtype);
    for (uint32_t i = tensor->ndim; i-- > 0;) {
        tensor->strides[i] = stride;
        stride *= tensor->shape[i];
    }
}

/* Fills `tensor` for one row of a field's array, on the GPU or in host memory. */
static void fill_place(const pst_batch *batch, uint32_t i_field, uint32_t row, bool on_gpu,
                       struct pst_tensor *tensor)
{
    size_t at = batch->offsets[i_field] + (size_t)row * batch->pool->fields[i_field].row_nbytes;
    if (psti_batch_is_loose(batch->pool, i_field)) {
        tensor->device = batch->pool->gpu.device;
        tensor->data = row < batch->count ? psti_batch_row_record(batch, i_field, row)->data : NULL;
        return;
    }
    tensor->device = on_gpu ? batch->pool->gpu.device : -1;
    tensor->data = on_gpu ? (void *)(uintptr_t)(batch->part.array + at) : host_at(batch, at);
}

static void whole_field(const pst_batch *batch, uint32_t i_field, bool on_gpu,
                        struct pst_tensor *tensor)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    *tensor = (struct pst_tensor){.dtype = field->dtype, .ndim = field->ndim + 1};
    fill_place(batch, i_field, 0, on_gpu, tensor);
    tensor->shape[0] = batch->count;
    memcpy(&tensor->shape[1], field->shape, field->ndim * sizeof field->shape[0]);
    psti_batch_fill_strides(tensor);
}

/* Returns the error for a field or row that does not exist, or not as the requested kind. */
static enum pst_status fail_field(const pst_batch *batch, uint32_t i_field, const char *why,
                                  struct pst_error *err)
{
    if (i_field >= batch->pool->n_fields)
        return psti_fail(err, PST_ERROR_ARGUMENT, "batch", "field %u: the batch has %u fields",
                         i_field, batch->pool->n_fields);
    return psti_fail(err, PST_ERROR_ARGUMENT, "batch", "field %s: %s",
                     pst_batch_field_name(batch, i_field), why);
}

static const char gpu_alone[] = "its array is on the GPU alone";
static const char rows_differ[] = "its rows may differ in shape: use pst_batch_row";

enum pst_status pst_batch_tensor(const pst_batch *batch, uint32_t i_field,
                                 struct pst_tensor *tensor, size_t tensor_nbytes,
                                 struct pst_error *err)
{
    struct pst_tensor full;
    if (i_field >= batch->pool->n_fields || batch->ragged[i_field])
        return fail_field(batch, i_field, rows_differ, err);
    whole_field(batch, i_field, lies_on_gpu(batch, i_field), &full);
    psti_struct_write(tensor, tensor_nbytes, &full, sizeof full);
    return PST_OK;
}

enum pst_status pst_batch_host_tensor(const pst_batch *batch, uint32_t i_field,
                                      struct pst_tensor *tensor, size_t tensor_nbytes,
                                      struct pst_error *err)
{
    struct pst_tensor full;
    if (i_field >= batch->pool->n_fields || batch->ragged[i_field])
        return fail_field(batch, i_field, rows_differ, err);
    if (lies_on_gpu_alone(batch, i_field))
        return fail_field(batch, i_field, gpu_alone, err);
    whole_field(batch, i_field, false, &full);
    psti_struct_write(tensor, tensor_nbytes, &full, sizeof full);
    return PST_OK;
}

void psti_batch_show_carried(const pst_batch *batch, size_t at, struct pst_tensor *tensor)
{
    bool is_empty = false;
    for (uint32_t i = 0; i < tensor->ndim; i++)
        is_empty |= tensor->shape[i] == 0;
    /* An array without elements may lie behind the block, or there is no block. */
    uint64_t address = is_empty ? batch->part.array : batch->block.carried + at;
    tensor->data = (void *)(uintptr_t)address;
    tensor->device = batch->pool->gpu.device;
}

static const char no_row[] = "the batch has fewer rows";

/* Sets the place of a row that is carried to the GPU, which may be a part of a padded array. */
static void show_carried(const pst_batch *batch, uint32_t i_field, const struct psti_row *record,
                         struct pst_tensor *tensor)
{
    const struct pst_tensor *values = &batch->collated[i_field].parts[PST_COLLATED_VALUES];
    psti_batch_show_carried(batch, record->at, tensor);
    if (batch->pool->fields[i_field].field.ragged.kind == PST_RAGGED_PADDED)
        for (uint32_t i = 0; i < tensor->ndim && i + 1 < values->ndim; i++)
            tensor->strides[i] = values->strides[i + 1];
}

/* Describes one row, in host memory or, if `on_gpu`, on the GPU. */
static void one_row(const pst_batch *batch, uint32_t i_field, uint32_t row, bool on_gpu,
                    struct pst_tensor *tensor)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    const struct psti_row *record = psti_batch_row_record(batch, i_field, row);
    /* Rows that are put together lie in the block, also if all of them fit into the array. */
    bool is_in_array = record && record->in_array && field->ragged.kind == PST_RAGGED_LIST;
    *tensor = (struct pst_tensor){.dtype = field->dtype, .device = -1};
    tensor->ndim = record ? record->ndim : field->ndim;
    memcpy(tensor->shape, record ? record->shape : field->shape,
           tensor->ndim * sizeof tensor->shape[0]);
    psti_batch_fill_strides(tensor);
    if (!record || (on_gpu && (is_in_array || psti_batch_is_loose(batch->pool, i_field))))
        fill_place(batch, i_field, row, on_gpu, tensor);
    else if (!on_gpu)
        tensor->data = record->data;
    else
        show_carried(batch, i_field, record, tensor);
}

enum pst_status pst_batch_row(const pst_batch *batch, uint32_t i_field, uint32_t row,
                              struct pst_tensor *tensor, size_t tensor_nbytes,
                              struct pst_error *err)
{
    struct pst_tensor full;
    if (i_field >= batch->pool->n_fields || row >= batch->count)
        return fail_field(batch, i_field, no_row, err);
    one_row(batch, i_field, row, lies_on_gpu(batch, i_field), &full);
    psti_struct_write(tensor, tensor_nbytes, &full, sizeof full);
    return PST_OK;
}

enum pst_status pst_batch_host_row(const pst_batch *batch, uint32_t i_field, uint32_t row,
                                   struct pst_tensor *tensor, size_t tensor_nbytes,
                                   struct pst_error *err)
{
    struct pst_tensor full;
    if (i_field >= batch->pool->n_fields || row >= batch->count)
        return fail_field(batch, i_field, no_row, err);
    if (lies_on_gpu_alone(batch, i_field))
        return fail_field(batch, i_field, gpu_alone, err);
    one_row(batch, i_field, row, false, &full);
    psti_struct_write(tensor, tensor_nbytes, &full, sizeof full);
    return PST_OK;
}

const int64_t *pst_batch_index(const pst_batch *batch)
{
    return (const int64_t *)(const void *)batch->data;
}

void pst_batch_index_tensor(const pst_batch *batch, struct pst_tensor *tensor, size_t tensor_nbytes)
{
    bool on_gpu = batch->pool->has_gpu;
    struct pst_tensor full = {.data = batch->data,
                              .dtype = PST_DTYPE_I64,
                              .ndim = 1,
                              .shape = {batch->count},
                              .strides = {sizeof(int64_t)},
                              .device = on_gpu ? batch->pool->gpu.device : -1};
    if (on_gpu)
        full.data = (void *)(uintptr_t)batch->part.array;
    psti_struct_write(tensor, tensor_nbytes, &full, sizeof full);
}

int32_t pst_batch_device(const pst_batch *batch)
{
    return batch->pool->has_gpu ? batch->pool->gpu.device : -1;
}

enum pst_status pst_batch_await(pst_batch *batch, uint64_t stream, struct pst_error *err)
{
    struct psti_pool *pool = batch->pool;
    if (!pool->has_gpu)
        return PST_OK;
    if (psti_batch_pool_is_forked(pool))
        return psti_fail(err, PST_ERROR_FORKED, "batch",
                         "this batch belongs to the process whose loader made it");
    pthread_mutex_lock(&batch->lock);
    enum pst_status status = pool->gpu.await(pool->gpu.ctx, &batch->part, stream, err);
    pthread_mutex_unlock(&batch->lock);
    return status;
}

void pst_batch_place(const pst_batch *batch, uint64_t *epoch, uint64_t *step)
{
    *epoch = batch->epoch;
    *step = batch->step;
}
