/* batch_loose.c - loose rows: rows of pixels on a GPU that may differ in size.
 *
 * The loader owns their memory, which grows to the largest batch. This file decides where each row
 * lies in it, and describes the arrays that the rows form. With PST_RAGGED_OFFSETS the rows lie one
 * behind another. With PST_RAGGED_PADDED the loader copies them to a second place. Sizes and
 * offsets lie among the numbers of the slot, so they are uploaded with these. One thread works on a
 * batch. */
#include "batch/batch_int.h"

#include "base/bits.h"
#include "base/checked.h"

#include <string.h>

/* Alignment in bytes of rows that do not lie in one array, and of padded arrays. */
#define ROW_ALIGNMENT 256

/* Returns the record of a row that is delivered; NULL: it is left out, or was not made. */
static struct psti_row *delivered(const struct psti_loose *loose, uint32_t row)
{
    struct psti_row *record = psti_batch_row_record(loose->batch, loose->i_field, row);
    return (loose->bad && loose->bad[row]) || record->ndim != PSTI_PIXEL_NDIM ? NULL : record;
}

static const struct psti_slot_field *field_of(const struct psti_loose *loose)
{
    return &loose->batch->pool->fields[loose->i_field].field;
}

static uint64_t elements_of(const struct psti_row *record)
{
    return (uint64_t)record->shape[0] * (uint64_t)record->shape[1] * (uint64_t)record->shape[2];
}

/* Finds how many rows there are, whether all have the shape of the field's array, and the size to
 * which they are padded. */
static void measure(struct psti_loose *loose)
{
    const struct psti_slot_field *field = field_of(loose);
    uint32_t first = field->ragged.planar ? 1 : 0;
    loose->n = 0;
    loose->alike = field->has_array;
    memcpy(loose->most, field->ragged.shape, sizeof loose->most);
    for (uint32_t row = 0; row < loose->n_rows; row++) {
        const struct psti_row *record = delivered(loose, row);
        if (!record)
            continue;
        loose->n++;
        loose->alike &= record->in_array;
        for (uint32_t i = first; i < first + 2; i++)
            loose->most[i] = record->shape[i] > loose->most[i] ? record->shape[i] : loose->most[i];
    }
    for (uint32_t i = first; i < first + 2; i++)
        loose->most[i] = (loose->most[i] + field->ragged.multiple - 1) / field->ragged.multiple *
                         field->ragged.multiple;
}

bool psti_batch_loose_place(struct psti_loose *loose, size_t *at)
{
    const struct psti_slot_field *field = field_of(loose);
    size_t element = pst_dtype_nbytes(field->dtype), total = psti_round_up(*at, ROW_ALIGNMENT);
    measure(loose);
    bool dense = loose->alike || field->ragged.kind == PST_RAGGED_OFFSETS;
    loose->start = total;
    for (uint32_t row = 0; row < loose->n_rows; row++) {
        const struct psti_row *record = delivered(loose, row);
        size_t nbytes;
        if (!record)
            continue;
        if (!dense)
            total = psti_round_up(total, ROW_ALIGNMENT);
        loose->offsets[row] = total;
        if (!psti_mul_size(element, elements_of(record), &nbytes) || nbytes > SIZE_MAX / 4 ||
            !psti_add_size(total, nbytes, &total) || total > SIZE_MAX / 4)
            return false;
    }
    loose->padded_row_nbytes = 0;
    if (field->ragged.kind == PST_RAGGED_PADDED) {
        size_t nbytes = element;
        for (uint32_t i = 0; i < PSTI_PIXEL_NDIM; i++)
            if (!psti_mul_size(nbytes, (size_t)loose->most[i], &nbytes))
                return false;
        loose->padded_row_nbytes = nbytes;
        loose->start = total = psti_round_up(total, ROW_ALIGNMENT);
        if (!psti_mul_size(nbytes, loose->n, &nbytes) || nbytes > SIZE_MAX / 4 ||
            !psti_add_size(total, nbytes, &total) || total > SIZE_MAX / 4)
            return false;
    }
    *at = total;
    return true;
}

/* Describes an array of numbers among the slot's numbers, and returns its copy in host memory. */
static int64_t *add_numbers(struct psti_loose *loose, size_t at, uint32_t ndim, int64_t n,
                            int64_t n_columns, struct pst_tensor *tensor)
{
    const pst_batch *batch = loose->batch;
    *tensor = (struct pst_tensor){.data = (void *)(uintptr_t)(batch->part.array + at),
                                  .dtype = PST_DTYPE_I64,
                                  .device = batch->pool->gpu.device,
                                  .ndim = ndim,
                                  .shape = {n, n_columns}};
    psti_batch_fill_strides(tensor);
    return (int64_t *)(void *)(batch->data + at);
}

/* Describes the padded array, and writes the sizes of its rows. */
static void describe_padded(struct psti_loose *loose, size_t at, struct pst_tensor *parts)
{
    const struct psti_slot_field *field = field_of(loose);
    struct pst_tensor *values = &parts[PST_COLLATED_VALUES];
    uint32_t first = field->ragged.planar ? 1 : 0;
    values->ndim = 1 + PSTI_PIXEL_NDIM;
    memcpy(&values->shape[1], loose->most, sizeof loose->most);
    int64_t *sizes = add_numbers(loose, at, 2, loose->n, 2, &parts[PST_COLLATED_SIZES]);
    for (uint32_t row = 0; row < loose->n_rows; row++) {
        const struct psti_row *record = delivered(loose, row);
        if (!record)
            continue;
        *sizes++ = record->shape[first];
        *sizes++ = record->shape[first + 1];
    }
}

/* Describes the flat array, and writes offsets and shapes. The channel axis of a mask is left
 * out. */
static void describe_offsets(struct psti_loose *loose, size_t at, struct pst_tensor *parts)
{
    const struct psti_slot_field *field = field_of(loose);
    bool is_mask = field->type == PST_FIELD_MASK;
    uint32_t n_axes = PSTI_PIXEL_NDIM - is_mask, first = is_mask && field->ragged.planar;
    int64_t *offsets =
        add_numbers(loose, at, 1, (int64_t)loose->n + 1, 0, &parts[PST_COLLATED_OFFSETS]);
    at += (loose->n + 1) * sizeof(int64_t);
    int64_t *shapes = add_numbers(loose, at, 2, loose->n, n_axes, &parts[PST_COLLATED_SHAPES]);
    *offsets = 0;
    for (uint32_t row = 0; row < loose->n_rows; row++) {
        const struct psti_row *record = delivered(loose, row);
        if (!record)
            continue;
        offsets[1] = offsets[0] + (int64_t)elements_of(record);
        offsets++;
        memcpy(shapes, record->shape + first, n_axes * sizeof *shapes);
        shapes += n_axes;
    }
    parts[PST_COLLATED_VALUES].ndim = 1;
    parts[PST_COLLATED_VALUES].shape[0] = *offsets;
}

void psti_batch_loose_set(struct psti_loose *loose, uint64_t memory)
{
    pst_batch *batch = loose->batch;
    const struct psti_slot_field *field = field_of(loose);
    struct psti_collated *collated = &batch->collated[loose->i_field];
    struct pst_tensor *values = &collated->parts[PST_COLLATED_VALUES];
    size_t at = batch->offsets[loose->i_field] + (size_t)field->note_nbytes * batch->n_rows_max;
    for (uint32_t row = 0; row < loose->n_rows; row++) {
        struct psti_row *record = delivered(loose, row);
        if (record)
            record->data = (void *)(uintptr_t)(memory + loose->offsets[row]);
    }
    if (field->ragged.kind == PST_RAGGED_LIST)
        return;
    memset(collated->parts, 0, sizeof collated->parts);
    values->data = (void *)(uintptr_t)(memory + loose->start);
    values->dtype = field->dtype;
    values->device = batch->pool->gpu.device;
    values->shape[0] = loose->n;
    if (field->ragged.kind == PST_RAGGED_PADDED)
        describe_padded(loose, at, collated->parts);
    else
        describe_offsets(loose, at, collated->parts);
    psti_batch_fill_strides(values);
    collated->is_there = true;
}

bool psti_batch_loose_size(const struct psti_loose *loose, uint32_t row, uint32_t size[2])
{
    const struct psti_row *record = delivered(loose, row);
    uint32_t first = field_of(loose)->ragged.planar ? 1 : 0;
    for (uint32_t i = 0; record && i < 2; i++)
        size[i] = (uint32_t)record->shape[first + i];
    return record != NULL;
}

void psti_batch_loose_padded_size(const struct psti_loose *loose, uint32_t size[2])
{
    uint32_t first = field_of(loose)->ragged.planar ? 1 : 0;
    size[0] = (uint32_t)loose->most[first];
    size[1] = (uint32_t)loose->most[first + 1];
}

void *psti_batch_loose_notes(const pst_batch *batch, uint32_t i_field, uint64_t *address)
{
    *address = batch->part.array + batch->offsets[i_field];
    return batch->data + batch->offsets[i_field];
}
