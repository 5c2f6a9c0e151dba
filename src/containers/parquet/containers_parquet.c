/* containers_parquet.c - walks over the rows of a Parquet file.
 *
 * In: an untrusted file. Out: its columns and rows in order, given to psti_containers_columns.
 *
 * All columns of a row group are read in parallel, one row at a time, because their pages end at
 * different rows. */
#include "containers/parquet/containers_parquet.h"

#include "containers/parquet/containers_parquet_rows.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <inttypes.h>

#define ROOM "containers"

/* State of a walk. `chunks` has one entry for each leaf of the schema. */
struct walk {
    struct psti_parquet_meta meta;
    struct psti_parquet_file file;
    struct psti_parquet_plan plan;
    struct psti_parquet_chunk *chunks;
    struct psti_walk_counts *counts;
};

/* Callback for each leaf that is read, with its cursor and its chunk in the current row group. */
typedef enum pst_status each_leaf(const struct walk *walk, struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_chunk *chunk, struct pst_error *err);

static enum pst_status for_each_leaf(const struct walk *walk, each_leaf *call,
                                     struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < walk->plan.n_columns; i++) {
        struct psti_parquet_column *column = &walk->plan.columns[i];
        status = call(walk, &column->values, &walk->chunks[column->leaf->i_leaf], err);
        if (status == PST_OK && column->path != NULL)
            status = call(walk, &column->paths, &walk->chunks[column->path->i_leaf], err);
    }
    return status;
}

static enum pst_status check_leaf(const struct walk *walk, struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_chunk *chunk, struct pst_error *err)
{
    return psti_containers_cursor_check(&walk->file, chunk, cursor->name, err);
}

static enum pst_status begin_leaf(const struct walk *walk, struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_chunk *chunk, struct pst_error *err)
{
    (void)walk;
    (void)err;
    psti_containers_cursor_begin(cursor, chunk);
    return PST_OK;
}

/* Checks that a leaf has no values left after the last row of a row group. */
static enum pst_status end_leaf(const struct walk *walk, struct psti_parquet_cursor *cursor,
                                const struct psti_parquet_chunk *chunk, struct pst_error *err)
{
    (void)walk;
    bool has = false;
    enum pst_status status = psti_containers_cursor_peek(cursor, &has, err);
    if (status == PST_OK && has)
        status = psti_containers_cursor_fail(cursor, PST_ERROR_CORRUPT, chunk->offset, err,
                                             "it has more values than the row group has rows");
    return status;
}

/* Checks that the chunks of all row groups can be read, before the first row is given. */
static enum pst_status check_all(const struct walk *walk, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < walk->meta.n_groups; i++) {
        uint64_t n_rows = 0;
        status = psti_containers_parquet_group(&walk->meta, i, walk->chunks, &n_rows, err);
        if (status == PST_OK && n_rows > 0)
            status = for_each_leaf(walk, check_leaf, err);
    }
    return status;
}

static enum pst_status give_row(const struct walk *walk, struct pst_error *err)
{
    struct psti_container_value values[PST_MAX_FIELDS];
    uint32_t n = 0;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < walk->plan.n_columns; i++)
        status = psti_containers_parquet_take(&walk->plan.columns[i], walk->counts->n_samples,
                                              values, &n, err);
    if (status == PST_OK)
        status = psti_containers_columns_row(walk->file.columns, NULL, values, n, err);
    if (status == PST_OK)
        walk->counts->n_members = ++walk->counts->n_samples;
    return status;
}

static enum pst_status give_group(const struct walk *walk, uint32_t i, struct pst_error *err)
{
    uint64_t n_rows = 0;
    enum pst_status status =
        psti_containers_parquet_group(&walk->meta, i, walk->chunks, &n_rows, err);
    if (status != PST_OK || n_rows == 0)
        return status;
    status = for_each_leaf(walk, begin_leaf, err);
    for (uint64_t row = 0; status == PST_OK && row < n_rows; row++)
        status = give_row(walk, err);
    if (status == PST_OK)
        status = for_each_leaf(walk, end_leaf, err);
    return status;
}

static enum pst_status give_all(struct walk *walk, struct pst_error *err)
{
    enum pst_status status = psti_containers_parquet_plan_open(&walk->plan, &walk->file, err);
    if (status != PST_OK)
        return status;
    walk->chunks = psti_alloc_array((size_t)walk->meta.n_leaves + 1, sizeof *walk->chunks);
    if (walk->chunks == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the columns of %s",
                           walk->meta.source->path);
    if (status == PST_OK)
        status = check_all(walk, err);
    for (uint32_t i = 0; status == PST_OK && i < walk->meta.n_groups; i++)
        status = give_group(walk, i, err);
    psti_free(walk->chunks);
    psti_containers_parquet_plan_close(&walk->plan);
    return status;
}

enum pst_status psti_containers_parquet_walk(const struct psti_walk_source *source,
                                             const struct psti_table_notes *notes,
                                             struct psti_containers_columns *columns,
                                             struct psti_walk_counts *counts, struct pst_error *err)
{
    struct walk walk = {.counts = counts};
    (void)notes;
    *counts = (struct psti_walk_counts){0};
    enum pst_status status = psti_containers_columns_file(columns, source->path, err);
    if (status == PST_OK)
        status = psti_containers_parquet_meta_open(&walk.meta, source, err);
    walk.file = (struct psti_parquet_file){.meta = &walk.meta, .columns = columns};
    if (status == PST_OK)
        status = psti_codings_open(&walk.file.codings, 0, ROOM, err);
    if (status == PST_OK)
        status = give_all(&walk, err);
    psti_buffer_free(&walk.file.stored);
    psti_codings_close(&walk.file.codings);
    psti_containers_parquet_meta_close(&walk.meta);
    return status;
}
