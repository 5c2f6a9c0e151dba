/* containers_parquet_plan.c - declares the columns of a Parquet file.
 *
 * In: the schema, the features of `datasets`, the first rows. Out: fields, and what the walk needs
 * for reading each column.
 *
 * The schema leaves some things open. The first bytes of byte arrays tell whether they are images.
 * The first row tells how many images a list has, and the first dimension of an array. */
#include "containers/parquet/containers_parquet_plan.h"

#include "containers/parquet/containers_parquet_schema.h"
#include "containers/table/containers_guess.h"
#include "containers/table/containers_hub.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROOM "containers"

/* What the first values of a column show. */
struct first_look {
    bool has_value;           /* a value was found that is neither null nor empty */
    enum pst_field_type type; /* the type that its first bytes show */
    bool has_list;            /* a list was found that is not null */
    uint64_t n_items;         /* number of items in that list */
};

static void close_column(struct psti_parquet_column *column)
{
    psti_containers_cursor_close(&column->paths);
    psti_containers_cursor_close(&column->values);
    psti_free(column->copy);
    psti_free(column->targets);
    psti_free(column->name);
    *column = (struct psti_parquet_column){0};
}

/* Values that are read before the walk
 * ---------------------------------------------------------------- */

static bool is_list(const struct psti_parquet_column *column)
{
    return column->shape == PSTI_SHAPE_NUMBERS || column->shape == PSTI_SHAPE_FILES;
}

/* True if the column's first value or first list is still needed. */
static bool wants(const struct psti_parquet_column *column, const struct first_look *look)
{
    return (is_list(column) && !look->has_list) ||
           (column->shape != PSTI_SHAPE_NUMBERS && !look->has_value);
}

/* Reads entries of a row group until the column's first value and first list are found. */
static enum pst_status look_on(struct psti_parquet_cursor *cursor,
                               const struct psti_parquet_column *column, struct first_look *look,
                               struct pst_error *err)
{
    bool is_bytes = column->shape != PSTI_SHAPE_NUMBERS;
    bool needs_list = is_list(column) && !look->has_list, has = true;
    while (needs_list || (is_bytes && !look->has_value)) {
        enum pst_status status = psti_containers_cursor_peek(cursor, &has, err);
        if (status != PST_OK || !has)
            return status;
        if (needs_list && look->has_list && cursor->rep == 0) {
            needs_list = false;
            continue;
        }
        struct psti_parquet_entry entry;
        status = psti_containers_cursor_take(cursor, &entry, err);
        if (status != PST_OK)
            return status;
        look->has_list |= is_list(column) && entry.def >= column->n_outer;
        look->n_items += needs_list && entry.def >= column->n_inner;
        if (!is_bytes || look->has_value || entry.is_null || entry.nbytes == 0)
            continue;
        size_t n = entry.nbytes < PSTI_GUESS_NBYTES ? entry.nbytes : PSTI_GUESS_NBYTES;
        const uint8_t *bytes = NULL;
        status = psti_containers_cursor_bytes(cursor, &entry, n, &bytes, err);
        if (status != PST_OK)
            return status;
        look->has_value = true;
        look->type = psti_containers_guess(bytes, n);
    }
    return PST_OK;
}

/* Ignores an error of the first look if the data is damaged or unsupported, because the column may
 * be left out. If it is not, the same error comes when rows are read. */
static enum pst_status after_look(enum pst_status status, const struct pst_error *inner,
                                  struct pst_error *err)
{
    if (status != PST_ERROR_MEMORY && status != PST_ERROR_IO)
        return PST_OK;
    if (err != NULL)
        *err = *inner;
    return status;
}

/* Reads row groups in order until the column's first value and first list are found. */
static enum pst_status look_at_groups(const struct psti_parquet_file *file,
                                      struct psti_parquet_cursor *cursor,
                                      const struct psti_parquet_column *column,
                                      struct psti_parquet_chunk *chunks, struct first_look *look,
                                      struct pst_error *err)
{
    const struct psti_parquet_chunk *chunk = &chunks[column->leaf->i_leaf];
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && wants(column, look) && i < file->meta->n_groups; i++) {
        uint64_t n_rows = 0;
        status = psti_containers_parquet_group(file->meta, i, chunks, &n_rows, err);
        if (status == PST_OK && n_rows > 0)
            status = psti_containers_cursor_check(file, chunk, column->name, err);
        if (status != PST_OK || n_rows == 0)
            continue;
        psti_containers_cursor_begin(cursor, chunk);
        status = look_on(cursor, column, look, err);
    }
    return status;
}

/* Finds the first value and the first list of a column. */
static enum pst_status look_first(struct psti_parquet_file *file,
                                  const struct psti_parquet_column *column, struct first_look *look,
                                  struct pst_error *err)
{
    struct pst_error inner = {0};
    struct psti_parquet_cursor *cursor = psti_calloc(1, sizeof *cursor);
    struct psti_parquet_chunk *chunks =
        psti_alloc_array((size_t)file->meta->n_leaves + 1, sizeof *chunks);
    enum pst_status status = PST_OK;
    *look = (struct first_look){.type = PST_FIELD_BYTES};
    if (cursor == NULL || chunks == NULL)
        status = psti_fail(&inner, PST_ERROR_MEMORY, ROOM, "out of memory for a column of %s",
                           file->meta->source->path);
    if (status == PST_OK)
        status =
            psti_containers_cursor_open(cursor, file, column->leaf, column->name, &inner);
    if (status == PST_OK)
        status = look_at_groups(file, cursor, column, chunks, look, &inner);
    if (cursor != NULL)
        psti_containers_cursor_close(cursor);
    psti_free(cursor);
    psti_free(chunks);
    return after_look(status, &inner, err);
}

/* Declarations ---------------------------------------------------------------- */

/* Returns the type that the features of `datasets` state for values that are bytes; 0: none. */
static enum pst_field_type type_of_hub(const struct psti_hub_feature *feature)
{
    if (feature == NULL)
        return 0;
    return feature->kind == PSTI_HUB_IMAGE   ? PST_FIELD_IMAGE
           : feature->kind == PSTI_HUB_AUDIO ? PST_FIELD_AUDIO
                                             : 0;
}

/* Describes a column whose values are bytes, or lists of them. */
static void describe_bytes(const struct psti_hub_feature *feature, const struct first_look *look,
                           struct psti_column *out)
{
    if (feature != NULL && feature->kind == PSTI_HUB_SEQUENCE)
        feature = feature->inner;
    out->type = type_of_hub(feature);
    out->is_guess = out->type == 0;
    out->is_unseen = out->is_guess && !look->has_value;
    if (out->is_guess)
        out->type = look->type;
}

static void describe_value(const struct psti_parquet_column *column,
                           const struct psti_hub_feature *feature, const struct first_look *look,
                           struct psti_column *out)
{
    out->type = psti_containers_parquet_value_type(column->leaf);
    if (out->type == PST_FIELD_BYTES)
        describe_bytes(feature, look, out);
    if (feature == NULL)
        return;
    if (out->type == PST_FIELD_TEXT && feature->kind == PSTI_HUB_VALUE &&
        strcmp(feature->dtype, "json") == 0)
        out->type = PST_FIELD_JSON;
    if (out->type != PST_FIELD_INT || feature->kind != PSTI_HUB_CLASS_LABEL)
        return;
    out->n_classes = feature->n_classes;
    out->class_names = feature->class_names;
    out->class_names_nbytes = feature->class_names_nbytes;
}

/* Describes an array. Its first dimension comes from the first row, the others from the features of
 * `datasets`. */
static void describe_array(struct psti_parquet_column *column,
                           const struct psti_hub_feature *feature, const struct first_look *look,
                           struct psti_column *out)
{
    uint64_t n_inner = 1;
    out->type = PST_FIELD_ARRAY;
    out->dtype = column->dtype;
    if (feature != NULL && feature->kind == PSTI_HUB_ARRAY && feature->ndim == column->ndim)
        memcpy(column->dims, feature->shape, column->ndim * sizeof *column->dims);
    for (uint8_t i = 1; i < column->ndim; i++)
        if (!psti_mul_u64(n_inner, column->dims[i], &n_inner))
            n_inner = 0;
    uint64_t first = n_inner > 0 ? look->n_items / n_inner : 0;
    if (!look->has_list || first > UINT32_MAX)
        return; /* the array has any shape */
    out->ndim = column->ndim;
    memcpy(out->shape, column->dims, sizeof out->shape);
    out->shape[0] = (uint32_t)first;
}

/* Adds the fields of a column: one field, or one for each item of its lists. */
static enum pst_status add_targets(const struct psti_parquet_plan *plan,
                                   struct psti_parquet_column *column, struct psti_column *out,
                                   struct pst_error *err)
{
    struct psti_containers_columns *columns = plan->file->columns;
    size_t cap = strlen(column->name) + 16;
    char *name = psti_alloc(cap);
    column->targets = psti_alloc_array((size_t)column->n_targets, sizeof *column->targets);
    enum pst_status status = PST_OK;
    if (name == NULL || column->targets == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for columns");
    for (uint32_t i = 0; status == PST_OK && i < column->n_targets; i++) {
        struct psti_parquet_target *target = &column->targets[i];
        if (column->shape == PSTI_SHAPE_FILES)
            snprintf(name, cap, "%s_%" PRIu32, column->name, i);
        else
            snprintf(name, cap, "%s", column->name);
        out->name = name;
        *target = (struct psti_parquet_target){.type = out->type};
        status = psti_containers_columns_add(columns, out, &target->i_field, err);
        if (status == PST_OK && target->i_field != PSTI_COLUMN_LEFT_OUT)
            target->type = psti_containers_columns_type(columns, target->i_field);
    }
    psti_free(name);
    return status;
}

static bool is_taken(const struct psti_parquet_column *column)
{
    for (uint32_t i = 0; i < column->n_targets; i++)
        if (column->targets[i].i_field != PSTI_COLUMN_LEFT_OUT)
            return true;
    return false;
}

/* Opens the cursors of a column that becomes a field. */
static enum pst_status open_column(const struct psti_parquet_plan *plan,
                                   struct psti_parquet_column *column, struct pst_error *err)
{
    const char *path = plan->file->meta->source->path;
    if (column->is_refused)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                            "column \"%.60s\" is %s, which is not read: leave the column out, or "
                            "write the file anew with another type",
                            column->name, column->why);
    enum pst_status status =
        psti_containers_cursor_open(&column->values, plan->file, column->leaf, column->name, err);
    if (status == PST_OK && column->path != NULL)
        status = psti_containers_cursor_open(&column->paths, plan->file, column->path, column->name,
                                             err);
    if (status != PST_OK || column->shape != PSTI_SHAPE_NUMBERS)
        return status;
    column->copy = psti_alloc(PSTI_ARRAY_IN_INDEX_NBYTES);
    return column->copy != NULL
               ? PST_OK
               : psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for arrays");
}

/* Describes a column for psti_containers_columns_add. Returns NULL, or why the column is left out
 * after all. */
static const char *describe(struct psti_parquet_column *column,
                            const struct psti_hub_feature *feature, const struct first_look *look,
                            struct psti_column *out)
{
    if (column->is_refused) {
        *out = (struct psti_column){.type = PST_FIELD_BYTES, .is_guess = true};
        return NULL;
    }
    if (column->shape == PSTI_SHAPE_NUMBERS) {
        describe_array(column, feature, look, out);
        for (uint8_t i = 1; i < column->ndim; i++)
            if (column->dims[i] == 0)
                return "it is a list of lists";
        return NULL;
    }
    if (column->shape == PSTI_SHAPE_VALUE) {
        describe_value(column, feature, look, out);
        if (out->type != PST_FIELD_TEXT || type_of_hub(feature) == 0)
            return NULL;
        column->is_refused = true;
        column->why = "a path of an image or sound that lies outside of the file";
        return NULL;
    }
    describe_bytes(feature, look, out);
    if (column->shape != PSTI_SHAPE_FILES)
        return NULL;
    if (out->type == PST_FIELD_BYTES)
        return "it is a list of byte arrays that are neither images nor sounds";
    return look->n_items == 0 ? "it is a list without items in its first row" : NULL;
}

/* True if the first values must be read to describe the column. */
static bool needs_look(const struct psti_parquet_column *column,
                       const struct psti_hub_feature *feature)
{
    if (column->shape == PSTI_SHAPE_NUMBERS || column->shape == PSTI_SHAPE_FILES)
        return true;
    return type_of_hub(feature) == 0 &&
           psti_containers_parquet_value_type(column->leaf) == PST_FIELD_BYTES;
}

/* Declares a column after the schema was classified, and opens it if it becomes a field. */
static enum pst_status declare(struct psti_parquet_plan *plan, struct psti_parquet_column *column,
                               const struct psti_hub_feature *feature, const char **why,
                               struct pst_error *err)
{
    struct first_look look = {.type = PST_FIELD_BYTES};
    struct psti_column out = {0};
    enum pst_status status = PST_OK;
    if (needs_look(column, feature))
        status = look_first(plan->file, column, &look, err);
    if (status != PST_OK)
        return status;
    *why = describe(column, feature, &look, &out);
    if (*why != NULL)
        return PST_OK;
    if (column->shape == PSTI_SHAPE_FILES && look.n_items > PST_MAX_FIELDS)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, plan->file->meta->source->path, -1,
                            "column \"%.60s\" has lists of %" PRIu64
                            " items, and %d fields are the most: pack it (penstock pack)",
                            column->name, look.n_items, PST_MAX_FIELDS);
    column->n_targets = column->shape == PSTI_SHAPE_FILES ? (uint32_t)look.n_items : 1;
    status = add_targets(plan, column, &out, err);
    if (status != PST_OK || !is_taken(column))
        return status;
    plan->n_columns++;
    return open_column(plan, column, err);
}

/* Adds the column that begins at node i_node of the schema. */
static enum pst_status add_column(struct psti_parquet_plan *plan, uint32_t i_node,
                                  const struct psti_hub_features *hub, struct pst_error *err)
{
    const struct psti_parquet_meta *meta = plan->file->meta;
    const struct psti_parquet_node *node = &meta->nodes[i_node];
    uint32_t n_before = plan->n_columns;
    struct psti_parquet_column *column = &plan->columns[n_before];
    column->name = psti_alloc(node->name.nbytes + 1);
    if (column->name == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for columns");
    memcpy(column->name, node->name.bytes, node->name.nbytes);
    column->name[node->name.nbytes] = '\0';
    const struct psti_hub_feature *feature = psti_containers_hub_find(hub, column->name);
    uint32_t n_dims = feature != NULL && feature->kind == PSTI_HUB_ARRAY ? feature->ndim : 1;
    const char *why = psti_containers_parquet_classify(meta, i_node, n_dims, column);
    const char *path = meta->source->path;
    struct psti_containers_columns *columns = plan->file->columns;
    enum pst_status status = PST_OK;
    if (node->name.nbytes == 0)
        why = "it has no name";
    else if (node->meaning == PSTI_MEANING_NULL)
        status = psti_containers_columns_empty(columns, path, column->name, err);
    else if (why == NULL)
        status = declare(plan, column, feature, &why, err);
    if (status == PST_OK && why != NULL && node->meaning != PSTI_MEANING_NULL)
        psti_containers_columns_leave_out(columns, path, column->name, why);
    if (plan->n_columns == n_before)
        close_column(column);
    return status;
}

enum pst_status psti_containers_parquet_plan_open(struct psti_parquet_plan *plan,
                                                  struct psti_parquet_file *file,
                                                  struct pst_error *err)
{
    const struct psti_parquet_meta *meta = file->meta;
    struct psti_hub_features *hub = NULL;
    enum pst_status status = PST_OK;
    *plan = (struct psti_parquet_plan){.file = file};
    if (meta->hub.nbytes > 0)
        status = psti_containers_hub_open(meta->hub.bytes, meta->hub.nbytes, meta->source->path,
                                          &hub, err);
    /* At most PST_MAX_FIELDS columns are kept, and one more is needed while it is examined. */
    if (status == PST_OK)
        plan->columns = psti_calloc(PST_MAX_FIELDS + 1, sizeof *plan->columns);
    if (status == PST_OK && plan->columns == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for columns");
    for (uint32_t i = 1; status == PST_OK && i < meta->n_nodes; i = meta->nodes[i].end)
        status = add_column(plan, i, hub, err);
    psti_containers_hub_close(&hub);
    if (status != PST_OK)
        psti_containers_parquet_plan_close(plan);
    return status;
}

void psti_containers_parquet_plan_close(struct psti_parquet_plan *plan)
{
    for (uint32_t i = 0; plan->columns != NULL && i <= PST_MAX_FIELDS; i++)
        close_column(&plan->columns[i]);
    psti_free(plan->columns);
    *plan = (struct psti_parquet_plan){0};
}
