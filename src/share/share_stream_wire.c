/* share_stream_wire.c - converts messages about shared batches to bytes, and back. */
#include "share/share_stream_wire.h"

#include "base/fail.h"

#include <string.h>

#define STRIDE_MAX ((uint64_t)1 << 40)
#define EXTENT_ROWS_USUAL 8u
#define EXTENT_NBYTES_MOST ((size_t)16 << 20)

void psti_share_put_open(struct psti_wire_out *out, const struct psti_stream_open *open)
{
    psti_share_put_text(out, open->name);
    psti_share_put_u32(out, open->extent_rows);
    psti_share_put_u32(out, open->batch_size);
    psti_share_put_u32(out, open->world_size);
    psti_share_put_u32(out, open->n_lent);
}

enum pst_status psti_share_get_open(struct psti_wire_in *in, struct psti_stream_open *open,
                                    struct psti_share_dataset *dataset, struct pst_error *err)
{
    memset(open, 0, sizeof *open);
    bool named = psti_share_get_text(in, open->name, sizeof open->name);
    open->extent_rows = psti_share_get_u32(in);
    open->batch_size = psti_share_get_u32(in);
    open->world_size = psti_share_get_u32(in);
    open->n_lent = psti_share_get_u32(in);
    in->bad |= !named || !open->name[0] || open->extent_rows == 0 ||
               open->extent_rows > PSTI_EXTENT_ROWS_MAX || open->batch_size == 0 ||
               open->world_size == 0;
    psti_share_get_dataset(in, dataset);
    return psti_share_end(in, "joining a group", err);
}

static void put_counts(struct psti_wire_out *out, const struct psti_stream_counts *counts)
{
    psti_share_put_u64(out, counts->n_decoded);
    psti_share_put_u64(out, counts->n_decoded_shared);
    psti_share_put_u64(out, counts->n_apart);
    psti_share_put_u64(out, counts->n_read);
    psti_share_put_u64(out, counts->nbytes_read);
    psti_share_put_u64(out, counts->n_read_shared);
    psti_share_put_u64(out, counts->nbytes_read_shared);
    psti_share_put_u64(out, counts->n_cached);
    psti_share_put_u64(out, counts->n_given_up);
}

static void get_counts(struct psti_wire_in *in, struct psti_stream_counts *counts)
{
    counts->n_decoded = psti_share_get_u64(in);
    counts->n_decoded_shared = psti_share_get_u64(in);
    counts->n_apart = psti_share_get_u64(in);
    counts->n_read = psti_share_get_u64(in);
    counts->nbytes_read = psti_share_get_u64(in);
    counts->n_read_shared = psti_share_get_u64(in);
    counts->nbytes_read_shared = psti_share_get_u64(in);
    counts->n_cached = psti_share_get_u64(in);
    counts->n_given_up = psti_share_get_u64(in);
}

void psti_share_put_layout(struct psti_wire_out *out, const struct psti_stream_layout *layout)
{
    psti_share_put_u32(out, layout->extent_rows);
    psti_share_put_u32(out, layout->n_slots);
    psti_share_put_u32(out, layout->n_fields);
    psti_share_put_u32(out, layout->hold_max);
    psti_share_put_u64(out, layout->stride);
    psti_share_put_u64(out, layout->own);
    psti_share_put_u64(out, layout->n_positions);
    psti_share_put_u64(out, layout->group_epoch);
    psti_share_put_u64(out, layout->group_samples);
    put_counts(out, &layout->counts);
    for (uint32_t i = 0; i < layout->n_fields; i++) {
        psti_share_put_u64(out, layout->fields[i].offset);
        psti_share_put_u64(out, layout->fields[i].row_nbytes);
    }
}

static bool layout_is_possible(const struct psti_stream_layout *layout)
{
    if (layout->extent_rows == 0 || layout->extent_rows > PSTI_EXTENT_ROWS_MAX ||
        layout->n_slots == 0 || layout->n_slots > PSTI_STREAM_EXTENTS ||
        layout->stride > STRIDE_MAX || layout->own > layout->stride)
        return false;
    for (uint32_t i = 0; i < layout->n_fields; i++) {
        const struct psti_stream_field *field = &layout->fields[i];
        if (field->row_nbytes > layout->own || field->offset > layout->own ||
            field->row_nbytes * layout->extent_rows > layout->own - field->offset)
            return false;
    }
    return true;
}

enum pst_status psti_share_get_layout(struct psti_wire_in *in, struct psti_stream_layout *layout,
                                      struct pst_error *err)
{
    memset(layout, 0, sizeof *layout);
    layout->extent_rows = psti_share_get_u32(in);
    layout->n_slots = psti_share_get_u32(in);
    layout->n_fields = psti_share_get_u32(in);
    layout->hold_max = psti_share_get_u32(in);
    layout->stride = psti_share_get_u64(in);
    layout->own = psti_share_get_u64(in);
    layout->n_positions = psti_share_get_u64(in);
    layout->group_epoch = psti_share_get_u64(in);
    layout->group_samples = psti_share_get_u64(in);
    get_counts(in, &layout->counts);
    if (layout->n_fields > PST_MAX_FIELDS)
        in->bad = true;
    for (uint32_t i = 0; i < layout->n_fields && !in->bad; i++) {
        layout->fields[i].offset = psti_share_get_u64(in);
        layout->fields[i].row_nbytes = psti_share_get_u64(in);
    }
    in->bad |= !in->bad && !layout_is_possible(layout);
    return psti_share_end(in, "a group's layout", err);
}

void psti_share_put_want(struct psti_wire_out *out, const struct psti_stream_want *want)
{
    psti_share_put_u64(out, want->epoch);
    psti_share_put_u64(out, want->first);
    psti_share_put_u64(out, want->end);
    psti_share_put_u32(out, want->n_rows);
    psti_share_put_u32(out, want->step_rows);
    psti_share_put_u32(out, want->leaves);
    psti_share_put_u32(out, want->n_given);
    psti_share_put_bytes(out, want->given, want->n_given * sizeof want->given[0]);
}

enum pst_status psti_share_get_want(struct psti_wire_in *in, struct psti_stream_want *want,
                                    struct pst_error *err)
{
    want->epoch = psti_share_get_u64(in);
    want->first = psti_share_get_u64(in);
    want->end = psti_share_get_u64(in);
    want->n_rows = psti_share_get_u32(in);
    want->step_rows = psti_share_get_u32(in);
    want->leaves = psti_share_get_u32(in);
    want->n_given = psti_share_get_u32(in);
    in->bad |=
        want->n_given > PSTI_STREAM_EXTENTS || want->leaves > 1 || want->first > (uint64_t)1 << 62;
    if (in->bad)
        want->n_given = 0;
    psti_share_get_bytes(in, want->given, want->n_given * sizeof want->given[0]);
    return psti_share_end(in, "a wanted batch", err);
}

void psti_share_put_ready(struct psti_wire_out *out, const struct psti_stream_ready *ready)
{
    psti_share_put_u64(out, ready->group_epoch);
    psti_share_put_u64(out, ready->group_samples);
    put_counts(out, &ready->counts);
    psti_share_put_u32(out, ready->n_arenas);
    for (uint32_t i = 0; i < ready->n_arenas; i++)
        psti_share_put_u32(out, ready->arenas[i]);
    psti_share_put_u32(out, ready->n_extents);
    for (uint32_t i = 0; i < ready->n_extents; i++) {
        const struct psti_stream_extent *extent = &ready->extents[i];
        psti_share_put_u64(out, extent->number);
        psti_share_put_u32(out, extent->arena);
        psti_share_put_u32(out, extent->slot);
        psti_share_put_u32(out, extent->n_rows);
        psti_share_put_u64(out, extent->own_nbytes);
    }
}

enum pst_status psti_share_get_ready(struct psti_wire_in *in,
                                     const struct psti_stream_layout *layout,
                                     struct psti_stream_ready *ready, struct pst_error *err)
{
    ready->group_epoch = psti_share_get_u64(in);
    ready->group_samples = psti_share_get_u64(in);
    get_counts(in, &ready->counts);
    ready->n_arenas = psti_share_get_u32(in);
    if (ready->n_arenas > PSTI_STREAM_ARENAS)
        in->bad = true;
    for (uint32_t i = 0; i < ready->n_arenas && !in->bad; i++) {
        ready->arenas[i] = psti_share_get_u32(in);
        in->bad |= ready->arenas[i] >= PSTI_STREAM_ARENAS;
    }
    ready->n_extents = psti_share_get_u32(in);
    if (ready->n_extents > PSTI_STREAM_EXTENTS)
        in->bad = true;
    for (uint32_t i = 0; i < ready->n_extents && !in->bad; i++) {
        struct psti_stream_extent *extent = &ready->extents[i];
        extent->number = psti_share_get_u64(in);
        extent->arena = psti_share_get_u32(in);
        extent->slot = psti_share_get_u32(in);
        extent->n_rows = psti_share_get_u32(in);
        extent->own_nbytes = psti_share_get_u64(in);
        in->bad |= extent->arena >= PSTI_STREAM_ARENAS || extent->slot >= layout->n_slots ||
                   extent->n_rows == 0 || extent->n_rows > layout->extent_rows ||
                   extent->own_nbytes > layout->stride - layout->own;
    }
    return psti_share_end(in, "a shared batch", err);
}

void psti_share_put_alone(struct psti_wire_out *out, enum psti_stream_alone reason)
{
    psti_share_put_u32(out, (uint32_t)reason);
}

enum pst_status psti_share_get_alone(struct psti_wire_in *in, enum psti_stream_alone *reason,
                                     struct pst_error *err)
{
    uint32_t number = psti_share_get_u32(in);
    in->bad |= number < PSTI_ALONE_SAMPLE || number > PSTI_ALONE_FAILED;
    *reason = in->bad ? PSTI_ALONE_FAILED : (enum psti_stream_alone)number;
    return psti_share_end(in, "a batch that is not shared", err);
}

/* True if each array whose rows have at least a page fills whole pages in an extent of that many
 * rows. */
static bool are_whole(const size_t *row_nbytes, uint32_t n_fields, uint32_t rows, size_t page)
{
    for (uint32_t i = 0; i < n_fields; i++)
        if (row_nbytes[i] >= page && row_nbytes[i] * rows % page != 0)
            return false;
    return true;
}

uint32_t psti_share_extent_rows(const size_t *row_nbytes, uint32_t n_fields, size_t page)
{
    uint32_t rows = EXTENT_ROWS_USUAL;
    size_t total = 0;
    for (uint32_t i = 0; i < n_fields; i++)
        total += row_nbytes[i] < EXTENT_NBYTES_MOST ? row_nbytes[i] : EXTENT_NBYTES_MOST;
    while (rows < PSTI_EXTENT_ROWS_MAX && !are_whole(row_nbytes, n_fields, rows, page))
        rows *= 2;
    if (!are_whole(row_nbytes, n_fields, rows, page))
        rows = EXTENT_ROWS_USUAL; /* some arrays must be copied */
    while (rows > 1 && rows * total > EXTENT_NBYTES_MOST &&
           are_whole(row_nbytes, n_fields, rows / 2, page))
        rows /= 2;
    return rows;
}
