/* loader_share_space.c - slots with areas in which extents are mapped.
 *
 * The pool calls make, unmake, released and close; the caller's thread maps. A slot's extents are
 * given back by whichever thread releases its batch. */
#include "loader/loader_share_space.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <string.h>

struct psti_loader_spaces {
    size_t page, areas_nbytes;
    uint32_t n_fields, extent_rows, n_extents; /* n_extents: most that a batch touches */
    struct {
        size_t row_nbytes, at; /* of the area, from the first area; row_nbytes 0: it has none */
    } fields[PST_MAX_FIELDS];
};

/* What the pool keeps with a slot. */
struct space {
    char *memory;
    size_t nbytes, areas; /* of the whole; where the areas begin */
    size_t areas_nbytes;
    struct psti_staging *staging; /* whose extents are mapped; NULL: none are */
    uint32_t n_numbers;
    uint64_t numbers[];
};

size_t psti_loader_space_row_nbytes(const struct psti_slot_field *field)
{
    size_t nbytes = field->has_array && !field->may_differ ? pst_dtype_nbytes(field->dtype) : 0;
    for (uint32_t i = 0; i < field->ndim; i++)
        nbytes *= (size_t)field->shape[i]; /* the pool has checked it */
    return nbytes;
}

bool psti_loader_space_is_mapped(const struct psti_loader_spaces *spaces, uint32_t i_field)
{
    return spaces->fields[i_field].row_nbytes > 0;
}

static void drop(struct space *space)
{
    if (!space->staging)
        return;
    psti_share_space_clear(space->memory + space->areas, space->areas_nbytes);
    psti_share_staging_give(space->staging, space->numbers, space->n_numbers);
    psti_share_staging_release(space->staging);
    space->staging = NULL;
}

static enum pst_status make(void *ctx, size_t nbytes, struct psti_slot_part *part)
{
    const struct psti_loader_spaces *spaces = ctx;
    struct space *space = psti_alloc(sizeof *space + spaces->n_extents * sizeof space->numbers[0]);
    if (!space)
        return PST_ERROR_MEMORY;
    *space = (struct space){.areas = psti_round_up(nbytes, spaces->page),
                            .areas_nbytes = spaces->areas_nbytes};
    space->nbytes = space->areas + space->areas_nbytes;
    space->memory = psti_share_space_make(space->nbytes);
    if (!space->memory) {
        psti_free(space);
        return PST_ERROR_MEMORY;
    }
    *part = (struct psti_slot_part){.numbers = space->memory, .own = space};
    return PST_OK;
}

static void unmake(void *ctx, struct psti_slot_part *part)
{
    struct space *space = part->own;
    (void)ctx;
    drop(space);
    psti_share_space_free(space->memory, space->nbytes);
    psti_free(space);
}

static bool released(void *ctx, struct psti_slot_part *part)
{
    (void)ctx;
    drop(part->own);
    return true;
}

static void close_spaces(void *ctx) { psti_free(ctx); }

enum pst_status psti_loader_spaces_open(struct psti_pool *pool,
                                        const struct psti_slot_field *fields, uint32_t n_fields,
                                        uint32_t batch_size, uint32_t extent_rows, size_t page,
                                        struct psti_loader_spaces **out, struct pst_error *err)
{
    struct psti_loader_spaces *spaces = psti_calloc(1, sizeof *spaces);
    *out = NULL;
    if (!spaces)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for sharing");
    *spaces = (struct psti_loader_spaces){.page = page,
                                          .n_fields = n_fields,
                                          .extent_rows = extent_rows,
                                          .n_extents = batch_size / extent_rows + 2};
    for (uint32_t i = 0; i < n_fields; i++) {
        size_t row = psti_loader_space_row_nbytes(&fields[i]), nbytes;
        if (row < page || row * extent_rows % page != 0)
            continue;
        if (!psti_mul_size(row, batch_size, &nbytes) || nbytes > SIZE_MAX / PST_MAX_FIELDS / 4)
            continue; /* the pool refuses such slots */
        spaces->fields[i].row_nbytes = row;
        spaces->fields[i].at = spaces->areas_nbytes;
        spaces->areas_nbytes += psti_round_up(nbytes, page) + page;
    }
    const struct psti_slot_host host = {
        .ctx = spaces, .make = make, .unmake = unmake, .released = released, .close = close_spaces};
    psti_batch_pool_set_host(pool, &host);
    *out = spaces;
    return PST_OK;
}

/* Maps the array of one field; returns where it begins, or NULL. */
static void *map_field(const struct psti_loader_spaces *spaces, uint32_t i_field, char *area,
                       const struct psti_loader_space_source *source)
{
    size_t row = spaces->fields[i_field].row_nbytes, done = 0;
    size_t skip = (size_t)(source->first % spaces->extent_rows) * row; /* bytes before the rows */
    size_t end = skip + source->n_rows * row, from = skip & ~(spaces->page - 1);
    size_t extent_nbytes = row * spaces->extent_rows, begin = from;
    for (uint32_t e = 0; e < source->ready->n_extents; e++) {
        size_t to = psti_round_up(end - e * extent_nbytes, spaces->page);
        to = to < extent_nbytes ? to : extent_nbytes;
        if (!psti_share_staging_map(source->staging, &source->ready->extents[e],
                                    source->layout->fields[i_field].offset + from, to - from,
                                    area + done))
            return NULL;
        done += to - from;
        from = 0;
    }
    psti_share_space_touch(area, done);
    return area + (skip - begin);
}

bool psti_loader_space_map(const struct psti_loader_spaces *spaces, pst_batch *batch,
                           const struct psti_loader_space_source *source)
{
    struct space *space = psti_batch_part(batch)->own;
    const struct psti_stream_ready *ready = source->ready;
    if (spaces->areas_nbytes == 0 || ready->n_extents > spaces->n_extents)
        return false;
    drop(space);
    for (uint32_t i = 0; i < spaces->n_fields; i++) {
        if (!spaces->fields[i].row_nbytes)
            continue;
        char *area = space->memory + space->areas + spaces->fields[i].at;
        void *array = map_field(spaces, i, area, source);
        if (!array) {
            psti_share_space_clear(space->memory + space->areas, space->areas_nbytes);
            return false;
        }
        psti_batch_set_array(batch, i, array);
    }
    psti_share_staging_retain(source->staging);
    space->staging = source->staging;
    space->n_numbers = ready->n_extents;
    for (uint32_t e = 0; e < ready->n_extents; e++)
        space->numbers[e] = ready->extents[e].number;
    return true;
}

void psti_loader_space_drop(pst_batch *batch)
{
    struct psti_slot_part *part = psti_batch_part(batch);
    if (part)
        drop(part->own);
}
