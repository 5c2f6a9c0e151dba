/* batch_collate.c - combines the rows of a finished batch into few arrays: padded, or in sequence
 * with offsets.
 *
 * In: rows that each have separate memory. Out: a few arrays for each field, however many rows
 * there are, in one block that stays with the slot and grows to the size of the largest batch. One
 * thread works on a batch: it measures all fields, allocates the block, and fills it.
 *
 * The block of a slot on a GPU is uploaded as a whole. So it has the rows of lists, too, which are
 * carried to the GPU (batch_carry.c). */
#include "batch/batch_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/options.h"

#include <string.h>

/* What the rows of a field have in common, and along which axes they differ. */
struct measure {
    uint32_t ndim;             /* number of dimensions of a row */
    bool varies[PST_MAX_NDIM]; /* axes along which rows may differ */
    int64_t most[PST_MAX_NDIM];
    int64_t total;       /* sum of the lengths of the first axis */
    uint64_t n_elements; /* number of elements of all rows */
};

static uint64_t elements_of(uint32_t ndim, const int64_t *shape)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < ndim; i++)
        n *= (uint64_t)shape[i];
    return n;
}

/* True if rows of the field may have different lengths along this axis. */
static bool may_vary(const struct psti_slot_field *field, uint32_t ndim, uint32_t axis)
{
    if (psti_batch_layout_is_pixels(field))
        return field->ragged.planar ? axis + 2 >= ndim : axis + 3 >= ndim && axis + 1 < ndim;
    return axis == (field->type == PST_FIELD_AUDIO ? ndim - 1 : 0);
}

static bool is_first_axis_alone(const struct psti_slot_field *field)
{
    return !psti_batch_layout_is_pixels(field) && field->type != PST_FIELD_AUDIO;
}

/* Returns the number of axes of a row whose lengths are delivered. The channel axis of a mask is
 * left out. */
static uint32_t shown_axes(const struct psti_slot_field *field, const struct measure *measure)
{
    return measure->ndim - (field->type == PST_FIELD_MASK);
}

static enum pst_status fail_row(const pst_batch *batch, uint32_t i_field, uint32_t row,
                                const char *why, struct pst_error *err)
{
    enum pst_status status =
        psti_fail(err, PST_ERROR_ARGUMENT, "batch", "rows of field '%s' cannot be put together: %s",
                  batch->pool->fields[i_field].field.name, why);
    if (err)
        err->sample = pst_batch_index(batch)[row];
    return status;
}

/* Adds the lengths of one row. The first row that has elements determines the number of axes. */
static const char *measure_row(const struct psti_slot_field *field, const struct psti_row *row,
                               struct measure *measure)
{
    if (row->ndim == 0)
        return "this sample's has no axis";
    if (elements_of(row->ndim, row->shape) == 0)
        return NULL;
    bool first = measure->n_elements == 0;
    if (!first && row->ndim != measure->ndim)
        return "this sample's has another number of axes than those before it";
    measure->ndim = row->ndim;
    for (uint32_t i = 0; i < row->ndim; i++) {
        measure->varies[i] = may_vary(field, row->ndim, i);
        if (!first && !measure->varies[i] && row->shape[i] != measure->most[i])
            return "this sample's differs from those before it in an axis that has to be alike";
        if (first || row->shape[i] > measure->most[i])
            measure->most[i] = row->shape[i];
    }
    measure->total += row->shape[0];
    measure->n_elements += elements_of(row->ndim, row->shape);
    return NULL;
}

static enum pst_status measure_field(const pst_batch *batch, uint32_t i_field,
                                     struct measure *measure, struct pst_error *err)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    *measure = (struct measure){0};
    for (uint32_t row = 0; row < batch->count; row++) {
        const char *why = measure_row(field, psti_batch_row_record(batch, i_field, row), measure);
        if (why)
            return fail_row(batch, i_field, row, why, err);
    }
    if (measure->n_elements == 0) {
        measure->ndim = field->ragged.ndim;
        memcpy(measure->most, field->ragged.shape, sizeof measure->most);
        for (uint32_t i = 0; i < measure->ndim; i++)
            measure->varies[i] = may_vary(field, measure->ndim, i);
    }
    int64_t multiple = psti_batch_layout_is_pixels(field) ? field->ragged.multiple : 1;
    for (uint32_t i = 0; i < measure->ndim && multiple > 1; i++)
        if (measure->varies[i])
            measure->most[i] = (measure->most[i] + multiple - 1) / multiple * multiple;
    return PST_OK;
}

/* Fills in dtype and shape of a field's arrays. Their memory is allocated later. */
static void describe(const pst_batch *batch, uint32_t i_field, const struct measure *measure,
                     struct psti_collated *collated)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    struct pst_tensor *parts = collated->parts, *values = &parts[PST_COLLATED_VALUES];
    int64_t n = batch->count;
    const struct pst_tensor one = {.dtype = PST_DTYPE_I64, .device = -1, .ndim = 1, .shape = {n}};
    const struct pst_tensor two = {
        .dtype = PST_DTYPE_I64, .device = -1, .ndim = 2, .shape = {n, 2}};
    memset(parts, 0, sizeof collated->parts);
    *values = (struct pst_tensor){.dtype = field->dtype, .device = -1, .ndim = measure->ndim + 1};
    memcpy(&values->shape[1], measure->most, measure->ndim * sizeof measure->most[0]);
    values->shape[0] = n;
    if (field->ragged.kind == PST_RAGGED_PADDED) {
        bool pixels = psti_batch_layout_is_pixels(field);
        parts[pixels ? PST_COLLATED_SIZES : PST_COLLATED_COUNTS] = pixels ? two : one;
    } else {
        parts[PST_COLLATED_OFFSETS] = one;
        parts[PST_COLLATED_OFFSETS].shape[0] = n + 1;
        if (is_first_axis_alone(field)) {
            values->ndim--;
            memmove(&values->shape[0], &values->shape[1], values->ndim * sizeof values->shape[0]);
            values->shape[0] = measure->total;
        } else {
            values->ndim = 1;
            values->shape[0] = (int64_t)measure->n_elements;
            parts[PST_COLLATED_SHAPES] = two;
            parts[PST_COLLATED_SHAPES].shape[1] = shown_axes(field, measure);
        }
    }
}

/* Assigns offsets in the block to the arrays of a field, from *at on, and sets their strides.
 * Returns false if the block would be too large. */
static bool place_parts(struct psti_collated *collated, size_t *at)
{
    for (uint32_t p = 0; p <= PST_COLLATED_SHAPES; p++) {
        struct pst_tensor *part = &collated->parts[p];
        size_t nbytes = pst_dtype_nbytes(part->dtype);
        if (part->ndim == 0)
            continue;
        for (uint32_t i = 0; i < part->ndim; i++)
            if (!psti_mul_size(nbytes, (size_t)part->shape[i], &nbytes))
                return false;
        part->data = (void *)(uintptr_t)*at; /* offset in the block, which is not allocated yet */
        if (nbytes > SIZE_MAX / 4 ||
            !psti_add_size(*at, psti_round_up(nbytes, PSTI_CACHE_LINE), at))
            return false;
        psti_batch_fill_strides(part);
    }
    return *at <= SIZE_MAX / 4;
}

/* Filling
 * ------------------------------------------------------------------------------------------------
 */

/* Fills memory with copies of one element. */
static void fill(char *to, size_t nbytes, const unsigned char *element, size_t element_nbytes)
{
    bool alike = true;
    for (size_t i = 1; i < element_nbytes; i++)
        alike &= element[i] == element[0];
    if (alike) {
        memset(to, element[0], nbytes);
        return;
    }
    for (size_t i = 0; i < nbytes; i += element_nbytes)
        memcpy(to + i, element, element_nbytes);
}

/* Copies a row to the start of every axis of a larger array, and fills the remainder. Strides are
 * in bytes. */
struct pad {
    uint32_t n_axes; /* axes up to the last one that must be filled */
    const int64_t *shape, *place;
    size_t from_strides[PST_MAX_NDIM], to_strides[PST_MAX_NDIM];
    const unsigned char *element;
    size_t element_nbytes;
};

static void pad_axis(const struct pad *pad, uint32_t axis, const char *from, char *to)
{
    size_t n = (size_t)pad->shape[axis], rest = (size_t)(pad->place[axis] - pad->shape[axis]);
    if (axis + 1 == pad->n_axes)
        memcpy(to, from, n * pad->from_strides[axis]);
    for (size_t i = 0; axis + 1 < pad->n_axes && i < n; i++)
        pad_axis(pad, axis + 1, from + i * pad->from_strides[axis], to + i * pad->to_strides[axis]);
    fill(to + n * pad->to_strides[axis], rest * pad->to_strides[axis], pad->element,
         pad->element_nbytes);
}

static void pad_row(const struct psti_slot_field *field, const struct measure *measure,
                    const struct psti_row *row, char *to)
{
    struct pad pad = {.n_axes = 1,
                      .shape = row->shape,
                      .place = measure->most,
                      .element = field->ragged.fill,
                      .element_nbytes = pst_dtype_nbytes(field->dtype)};
    size_t from = pad.element_nbytes, place = pad.element_nbytes;
    for (uint32_t i = measure->ndim; i-- > 0;) {
        pad.from_strides[i] = from;
        pad.to_strides[i] = place;
        place *= (size_t)measure->most[i];
        from *= (size_t)row->shape[i];
    }
    if (from == 0 || row->ndim != measure->ndim) {
        fill(to, place, pad.element, pad.element_nbytes);
        return;
    }
    for (uint32_t i = 0; i < measure->ndim; i++)
        if (row->shape[i] != measure->most[i])
            pad.n_axes = i + 1;
    pad_axis(&pad, 0, row->data, to);
}

/* Writes the lengths along the axes that vary; 0 for a row without elements. */
static void put_lengths(const struct measure *measure, const struct psti_row *row, bool empty,
                        int64_t *to)
{
    for (uint32_t i = 0; i < measure->ndim; i++)
        if (measure->varies[i])
            *to++ = empty ? 0 : row->shape[i];
}

static void fill_padded(const pst_batch *batch, uint32_t i_field, const struct measure *measure,
                        const struct psti_collated *collated)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    bool pixels = psti_batch_layout_is_pixels(field);
    int64_t *lengths = collated->parts[pixels ? PST_COLLATED_SIZES : PST_COLLATED_COUNTS].data;
    const struct pst_tensor *values = &collated->parts[PST_COLLATED_VALUES];
    size_t row_nbytes =
        pst_dtype_nbytes(field->dtype) * (size_t)elements_of(values->ndim - 1, &values->shape[1]);
    for (uint32_t i = 0; i < batch->count; i++) {
        struct psti_row *row = psti_batch_row_record(batch, i_field, i);
        bool empty = elements_of(row->ndim, row->shape) == 0;
        char *to = (char *)values->data + i * row_nbytes;
        row->at = (size_t)(to - (char *)batch->block.data);
        put_lengths(measure, row, empty, lengths + (pixels ? 2 : 1) * (size_t)i);
        pad_row(field, measure, row, to);
    }
}

static void fill_offsets(const pst_batch *batch, uint32_t i_field, const struct measure *measure,
                         const struct psti_collated *collated)
{
    const struct psti_slot_field *field = &batch->pool->fields[i_field].field;
    int64_t *offsets = collated->parts[PST_COLLATED_OFFSETS].data;
    int64_t *shapes = collated->parts[PST_COLLATED_SHAPES].data;
    char *to = collated->parts[PST_COLLATED_VALUES].data;
    uint32_t n_axes = shown_axes(field, measure);
    bool rows = is_first_axis_alone(field);
    uint32_t first = field->type == PST_FIELD_MASK && field->ragged.planar; /* mask rows are (1, H,
                                                                             * W) */
    offsets[0] = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct psti_row *row = psti_batch_row_record(batch, i_field, i);
        uint64_t n = elements_of(row->ndim, row->shape);
        size_t nbytes = (size_t)n * pst_dtype_nbytes(field->dtype);
        row->at = (size_t)(to - (char *)batch->block.data);
        offsets[i + 1] = offsets[i] + (n == 0 ? 0 : rows ? row->shape[0] : (int64_t)n);
        for (uint32_t k = 0; !rows && k < n_axes; k++)
            shapes[i * n_axes + k] = n == 0 ? 0 : row->shape[first + k];
        if (nbytes)
            memcpy(to, row->data, nbytes);
        to += nbytes;
    }
}

enum pst_status psti_batch_collate(pst_batch *batch, struct pst_error *err)
{
    const struct psti_pool *pool = batch->pool;
    struct measure measures[PST_MAX_FIELDS];
    size_t total = 0;
    if (batch->is_collated)
        return PST_OK;
    if (!psti_batch_place_lists(batch, &total))
        return psti_fail(err, PST_ERROR_LIMIT, "batch", "the rows of a batch are too large");
    for (uint32_t i = 0; i < pool->n_fields; i++) {
        if (pool->fields[i].field.ragged.kind == PST_RAGGED_LIST || psti_batch_is_loose(pool, i))
            continue;
        enum pst_status status = measure_field(batch, i, &measures[i], err);
        if (status != PST_OK)
            return status;
        describe(batch, i, &measures[i], &batch->collated[i]);
        if (!place_parts(&batch->collated[i], &total))
            return psti_fail(err, PST_ERROR_LIMIT, "batch", "the padded rows are too large");
    }
    enum pst_status status = psti_batch_hold(batch, total, err);
    if (status != PST_OK)
        return status;
    batch->block.used = total;
    psti_batch_fill_lists(batch);
    for (uint32_t i = 0; i < pool->n_fields; i++) {
        struct psti_collated *collated = &batch->collated[i];
        if (pool->fields[i].field.ragged.kind == PST_RAGGED_LIST || psti_batch_is_loose(pool, i))
            continue;
        for (uint32_t p = 0; p <= PST_COLLATED_SHAPES; p++)
            if (collated->parts[p].ndim)
                collated->parts[p].data =
                    (char *)batch->block.data + (uintptr_t)collated->parts[p].data;
        if (pool->fields[i].field.ragged.kind == PST_RAGGED_PADDED)
            fill_padded(batch, i, &measures[i], collated);
        else
            fill_offsets(batch, i, &measures[i], collated);
        collated->is_there = true;
    }
    batch->is_collated = true;
    return PST_OK;
}

/* Returns one of the arrays of a field; NULL: it does not exist. The array lies in host memory,
 * unless the field's rows are loose. */
static const struct pst_tensor *find_part(const pst_batch *batch, uint32_t i_field,
                                          enum pst_collated part)
{
    if (i_field >= batch->pool->n_fields || (uint32_t)part > PST_COLLATED_SHAPES ||
        !batch->collated[i_field].is_there || batch->collated[i_field].parts[part].ndim == 0)
        return NULL;
    return &batch->collated[i_field].parts[part];
}

bool pst_batch_collated(const pst_batch *batch, uint32_t i_field, enum pst_collated part,
                        struct pst_tensor *tensor, size_t tensor_nbytes)
{
    const struct pst_tensor *found = find_part(batch, i_field, part);
    if (!found)
        return false;
    struct pst_tensor shown = *found;
    if (psti_batch_is_carried(batch, i_field))
        psti_batch_show_carried(batch, (uintptr_t)found->data - (uintptr_t)batch->block.data,
                                &shown);
    psti_struct_write(tensor, tensor_nbytes, &shown, sizeof shown);
    return true;
}

bool pst_batch_host_collated(const pst_batch *batch, uint32_t i_field, enum pst_collated part,
                             struct pst_tensor *tensor, size_t tensor_nbytes)
{
    const struct pst_tensor *found = find_part(batch, i_field, part);
    bool is_loose = found && psti_batch_is_loose(batch->pool, i_field);
    if (!found || (is_loose && part == PST_COLLATED_VALUES))
        return false;
    struct pst_tensor shown = *found;
    if (is_loose) { /* they are numbers of the slot */
        shown.data = batch->data + ((uintptr_t)found->data - batch->part.array);
        shown.device = -1;
    }
    psti_struct_write(tensor, tensor_nbytes, &shown, sizeof shown);
    return true;
}
