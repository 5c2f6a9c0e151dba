/* loader_share_space.c - slots that show shared extents in place.
 *
 * The batch pool calls make, unmake, released and close; the caller's thread maps extents. The
 * thread that releases a batch gives back the extents that its slot shows. */
#include "loader/epoch/loader_share_space.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>
#include <sys/mman.h>

struct psti_loader_spaces {
    uint32_t n_fields, n_mapped;
    bool mapped[PST_MAX_FIELDS];
};

/* Data that the pool keeps for each slot. */
struct space {
    char *memory;
    size_t nbytes;
    struct psti_staging *staging; /* owner of the extents that the slot shows; NULL: it shows
                                     none */
    struct psti_share_view_run run;
    uint32_t n_numbers, numbers_cap;
    uint64_t *numbers; /* numbers of the extents that the slot shows */
};

size_t psti_loader_space_row_nbytes(const struct psti_slot_field *field)
{
    size_t nbytes = field->has_array && !field->may_differ ? pst_dtype_nbytes(field->dtype) : 0;
    for (uint32_t i = 0; i < field->ndim; i++)
        nbytes *= (size_t)field->shape[i]; /* cannot overflow, because the pool has checked the
                                              shape */
    return nbytes;
}

bool psti_loader_space_is_mapped(const struct psti_loader_spaces *spaces, uint32_t i_field)
{
    return spaces->mapped[i_field];
}

static void drop(struct space *space)
{
    if (!space->staging)
        return;
    psti_share_view_leave(&space->run);
    psti_share_staging_give(space->staging, space->numbers, space->n_numbers);
    psti_share_staging_release(space->staging);
    space->staging = NULL;
}

static enum pst_status make(void *ctx, size_t nbytes, struct psti_slot_part *part)
{
    struct space *space = psti_calloc(1, sizeof *space);
    (void)ctx;
    if (!space)
        return PST_ERROR_MEMORY;
    space->nbytes = nbytes;
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        psti_free(space);
        return PST_ERROR_MEMORY;
    }
    space->memory = memory;
    *part = (struct psti_slot_part){.numbers = space->memory, .own = space};
    return PST_OK;
}

static void unmake(void *ctx, struct psti_slot_part *part)
{
    struct space *space = part->own;
    (void)ctx;
    drop(space);
    munmap(space->memory, space->nbytes);
    psti_free(space->numbers);
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
                                        uint32_t extent_rows, size_t page,
                                        struct psti_loader_spaces **out, struct pst_error *err)
{
    struct psti_loader_spaces *spaces = psti_calloc(1, sizeof *spaces);
    *out = NULL;
    if (!spaces)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for sharing");
    spaces->n_fields = n_fields;
    for (uint32_t i = 0; i < n_fields; i++) {
        spaces->mapped[i] =
            psti_share_view_shows(psti_loader_space_row_nbytes(&fields[i]), extent_rows, page);
        spaces->n_mapped += spaces->mapped[i];
    }
    const struct psti_slot_host host = {
        .ctx = spaces, .make = make, .unmake = unmake, .released = released, .close = close_spaces};
    psti_batch_pool_set_host(pool, &host);
    *out = spaces;
    return PST_OK;
}

/* Notes the numbers of the extents that the slot will show. */
static bool keep_numbers(struct space *space, const struct psti_stream_ready *ready)
{
    if (ready->n_extents > space->numbers_cap) {
        uint64_t *numbers = psti_alloc(ready->n_extents * sizeof *numbers);
        if (!numbers)
            return false;
        psti_free(space->numbers);
        space->numbers = numbers;
        space->numbers_cap = ready->n_extents;
    }
    space->n_numbers = ready->n_extents;
    for (uint32_t e = 0; e < ready->n_extents; e++)
        space->numbers[e] = ready->extents[e].number;
    return true;
}

bool psti_loader_space_map(const struct psti_loader_spaces *spaces, pst_batch *batch,
                           const struct psti_loader_space_source *source)
{
    struct space *space = psti_batch_part(batch)->own;
    drop(space);
    if (spaces->n_mapped == 0 || !keep_numbers(space, source->ready) ||
        !psti_share_staging_show(source->staging, source->ready, source->first, source->n_rows,
                                 &space->run))
        return false;
    for (uint32_t i = 0; i < spaces->n_fields; i++)
        if (spaces->mapped[i])
            psti_batch_set_array(batch, i, psti_share_view_rows(&space->run, i));
    psti_share_staging_retain(source->staging);
    space->staging = source->staging;
    return true;
}

void psti_loader_space_drop(pst_batch *batch)
{
    struct psti_slot_part *part = psti_batch_part(batch);
    if (part)
        drop(part->own);
}
