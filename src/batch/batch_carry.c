/* batch_carry.c - the rows of lists in the block of a slot on a GPU.
 *
 * In: rows that each have separate host memory. Out: one block for a single upload, in which each
 * row begins at a multiple of 64 bytes. batch_collate.c calls this for fields whose rows stay
 * separate, and puts padded rows and rows with offsets behind them. Rows that lie in their field's
 * array are uploaded with it. */
#include "batch/batch_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"

#include <string.h>

/* True if rows of the field are delivered separately, and must be uploaded from the block. */
static bool is_list(const pst_batch *batch, uint32_t i_field)
{
    return psti_batch_is_carried(batch, i_field) &&
           batch->pool->fields[i_field].field.ragged.kind == PST_RAGGED_LIST;
}

/* Returns the bytes of a row's elements. psti_batch_new_row has checked that they fit. */
static size_t row_nbytes(const struct psti_slot_field *field, const struct psti_row *row)
{
    size_t nbytes = pst_dtype_nbytes(field->dtype);
    for (uint32_t i = 0; i < row->ndim; i++)
        nbytes *= (size_t)row->shape[i];
    return nbytes;
}

bool psti_batch_place_lists(pst_batch *batch, size_t *at)
{
    for (uint32_t i = 0; i < batch->pool->n_fields; i++)
        for (uint32_t row = 0; row < batch->count && is_list(batch, i); row++) {
            struct psti_row *record = psti_batch_row_record(batch, i, row);
            size_t nbytes = row_nbytes(&batch->pool->fields[i].field, record);
            record->at = *at;
            if (!record->in_array &&
                !psti_add_size(*at, psti_round_up(nbytes, PSTI_CACHE_LINE), at))
                return false;
        }
    return true;
}

void psti_batch_fill_lists(pst_batch *batch)
{
    for (uint32_t i = 0; i < batch->pool->n_fields; i++)
        for (uint32_t row = 0; row < batch->count && is_list(batch, i); row++) {
            const struct psti_row *record = psti_batch_row_record(batch, i, row);
            size_t nbytes = row_nbytes(&batch->pool->fields[i].field, record);
            if (nbytes && !record->in_array)
                memcpy((char *)batch->block.data + record->at, record->data, nbytes);
        }
}

size_t psti_batch_carried(const pst_batch *batch, const void **rows)
{
    *rows = batch->block.data;
    return batch->block.used;
}

void psti_batch_set_carried(pst_batch *batch, uint64_t address) { batch->block.carried = address; }
