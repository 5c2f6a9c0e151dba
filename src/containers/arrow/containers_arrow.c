/* containers_arrow.c - passes the rows of an Arrow file to the columns that make samples of them.
 *
 * In: a file, on one thread. Out: columns and rows.
 *
 * All messages are found before the first row is given. Some values are read before the columns are
 * declared: the first value of a column of bytes shows its type, and a label below 0 shows that a
 * column has no classes. */
#include "containers/arrow/containers_arrow.h"

#include "containers/arrow/containers_arrow_column.h"
#include "containers/list/containers_paths.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"

#include <string.h>

#define ROOM "containers"
enum { NAME_CAP = 256 };

struct walk {
    const struct psti_walk_source *source;
    struct psti_arrow_file file;
    struct psti_containers_columns *columns;
    struct psti_arrow_frames frames;
    struct psti_arrow_schema schema;
    struct psti_hub_features *hub;
    struct psti_arrow_column *own; /* the columns that are not left out */
    uint32_t n_own;
    struct psti_arrow_dictionary *dictionaries; /* dictionaries that the columns in `own` use */
    uint32_t n_dictionaries;
    struct psti_arrow_batch batch;
    struct psti_container_names names; /* names of the columns that stand for one element of a
                                        * list */
    struct pst_error *err;
};

static enum pst_status read_hub(struct walk *walk, const struct psti_table_notes *notes)
{
    const struct psti_arrow_schema *schema = &walk->schema;
    if (schema->hub != NULL)
        return psti_containers_hub_open(schema->hub, schema->hub_nbytes, walk->source->path,
                                        &walk->hub, walk->err);
    return notes != NULL && notes->nbytes > 0
               ? psti_containers_hub_open(notes->bytes, notes->nbytes, notes->path, &walk->hub,
                                          walk->err)
               : PST_OK;
}

/* True if the values of both fields have the same memory layout. */
static bool is_same(const struct psti_arrow_field *a, const struct psti_arrow_field *b)
{
    return a->type == b->type && a->bits == b->bits && a->is_signed == b->is_signed &&
           a->size == b->size;
}

/* Finds the dictionary of a column, or adds it. */
static enum pst_status set_dictionary(struct walk *walk, struct psti_arrow_column *column)
{
    const struct psti_arrow_field *fields = walk->schema.fields, *field = &fields[column->i_root];
    uint32_t i = 0;
    while (i < walk->n_dictionaries && walk->dictionaries[i].number != field->dictionary)
        i++;
    column->dictionary = &walk->dictionaries[i];
    if (i == walk->n_dictionaries) {
        walk->dictionaries[i].number = field->dictionary;
        walk->dictionaries[i].i_field = column->i_root;
        walk->n_dictionaries++;
    }
    return is_same(field, &fields[walk->dictionaries[i].i_field])
               ? PST_OK
               : psti_fail_at(walk->err, PST_ERROR_CORRUPT, ROOM, walk->source->path, -1,
                              "the column '%.100s' shares a dictionary with one of another type",
                              field->name);
}

static bool is_empty(const struct psti_arrow_field *field)
{
    return field->type == PSTI_ARROW_NULL && !field->has_dictionary;
}

/* Reports that a column is left out. Columns of type null are not reported here, because they are
 * declared as empty columns. */
static void leave_out(const struct walk *walk, uint32_t i_field, const char *problem)
{
    const struct psti_arrow_field *field = &walk->schema.fields[i_field];
    char why[160];
    struct psti_text text = {why, sizeof why, 0};
    psti_text_add(&text, "its type (%s) %s", psti_containers_arrow_type_name(field), problem);
    if (!is_empty(field))
        psti_containers_columns_leave_out(walk->columns, walk->source->path, field->name, why);
}

static enum pst_status refuse_all(const struct walk *walk)
{
    return psti_fail_at(walk->err, PST_ERROR_UNSUPPORTED, ROOM, walk->source->path, -1,
                        "no column of the file has a type that is read (docs/table-fields.md)");
}

/* Decides for each column of the table whether and how it is read. */
static enum pst_status decide(struct walk *walk)
{
    const struct psti_arrow_schema *schema = &walk->schema;
    struct psti_arrow_decider decider = {schema, walk->hub, walk->err, PST_OK};
    uint32_t n = 0;
    for (uint32_t i = 0; i < schema->n; i = schema->fields[i].end)
        n++;
    walk->own = psti_calloc(n, sizeof *walk->own);
    walk->dictionaries = psti_calloc(n, sizeof *walk->dictionaries);
    if (walk->own == NULL || walk->dictionaries == NULL)
        return psti_fail(walk->err, PST_ERROR_MEMORY, ROOM, "out of memory for %u columns", n);
    for (uint32_t i = 0; i < schema->n; i = schema->fields[i].end) {
        const struct psti_arrow_field *field = &schema->fields[i];
        struct psti_arrow_column *column = &walk->own[walk->n_own];
        const char *problem = psti_containers_arrow_decide(&decider, i, column);
        if (decider.status != PST_OK)
            return decider.status;
        if (problem != NULL) {
            leave_out(walk, i, problem);
            continue;
        }
        walk->n_own++;
        enum pst_status status = field->has_dictionary ? set_dictionary(walk, column) : PST_OK;
        if (status != PST_OK)
            return status;
    }
    return walk->n_own > 0 ? PST_OK : refuse_all(walk);
}

/* Reads the values of a dictionary message, if a column needs that dictionary. */
static enum pst_status take_dictionary(struct walk *walk, const struct psti_arrow_frame *frame,
                                       const struct psti_flat_table *record)
{
    for (uint32_t i = 0; i < walk->n_dictionaries; i++)
        if (walk->dictionaries[i].number == frame->dictionary)
            return psti_containers_arrow_dictionary_take(&walk->dictionaries[i], &walk->file,
                                                         &walk->schema, record, frame, walk->err);
    return PST_OK;
}

/* Reads frame i: either the next values of a dictionary, or the locations of a batch's buffers. */
static enum pst_status read_frame(struct walk *walk, size_t i)
{
    const struct psti_arrow_frame *frame = &walk->frames.at[i];
    struct psti_flat flat;
    struct psti_flat_table record;
    enum pst_status status =
        psti_containers_arrow_frame(walk->source, &walk->frames, i, &flat, &record, walk->err);
    if (status != PST_OK)
        return status;
    return frame->is_dictionary
               ? take_dictionary(walk, frame, &record)
               : psti_containers_arrow_batch(walk->source->path, &walk->schema, &record, frame, 0,
                                             false, &walk->batch, walk->err);
}

/* Shows values of the batch to a column until the column needs no more of them. */
static enum pst_status look_at_batch(struct walk *walk, struct psti_arrow_column *column)
{
    enum pst_status status = psti_containers_arrow_column_begin(column, &walk->file, &walk->schema,
                                                                &walk->batch, walk->err);
    for (uint64_t i = 0; i < walk->batch.n_rows && status == PST_OK; i++) {
        if (!psti_containers_arrow_column_wants(column))
            break;
        status = psti_containers_arrow_column_look(column, i, walk->err);
    }
    return status;
}

/* Shows first values to all columns that need them before they are declared. */
static enum pst_status look(struct walk *walk)
{
    enum pst_status status = PST_OK;
    uint32_t n_wanting = 1;
    for (size_t i = 0; i < walk->frames.n && n_wanting > 0 && status == PST_OK; i++) {
        n_wanting = 0;
        for (uint32_t k = 0; k < walk->n_own; k++)
            n_wanting += psti_containers_arrow_column_wants(&walk->own[k]);
        if (n_wanting == 0 || walk->frames.at[i].is_dictionary)
            continue;
        status = read_frame(walk, i);
        for (uint32_t k = 0; k < walk->n_own && status == PST_OK; k++)
            if (psti_containers_arrow_column_wants(&walk->own[k]))
                status = look_at_batch(walk, &walk->own[k]);
    }
    for (uint32_t i = 0; i < walk->n_own; i++)
        walk->own[i].column.is_unseen = walk->own[i].wants_head;
    return status;
}

/* Returns the index of the only frame with this dictionary; frames.n if there is no frame or there
 * are several. */
static size_t only_message(const struct walk *walk, int64_t number)
{
    const struct psti_arrow_frames *frames = &walk->frames;
    size_t found = frames->n;
    for (size_t i = 0; i < frames->n; i++) {
        if (!frames->at[i].is_dictionary || frames->at[i].dictionary != number)
            continue;
        if (found < frames->n)
            return frames->n;
        found = i;
    }
    return found;
}

/* Makes class names of each ordered dictionary of texts that does not change within the file. */
static enum pst_status make_classes(struct walk *walk)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < walk->n_own && status == PST_OK; i++) {
        struct psti_arrow_column *column = &walk->own[i];
        const struct psti_arrow_field *field = &walk->schema.fields[column->i_root];
        if (column->dictionary == NULL || !field->is_ordered ||
            !psti_containers_arrow_is_text(field->type))
            continue;
        size_t i_frame = only_message(walk, field->dictionary);
        if (i_frame == walk->frames.n || walk->frames.at[i_frame].is_delta)
            continue;
        status = read_frame(walk, i_frame);
        if (status == PST_OK)
            status = psti_containers_arrow_column_classes(column, walk->source->path, walk->err);
    }
    return status;
}

/* Adds the column that stands for element i_element of a list. */
static enum pst_status add_element(struct walk *walk, const struct psti_arrow_column *list,
                                   uint32_t i_element, struct psti_arrow_column *column)
{
    char name[NAME_CAP];
    struct psti_text text = {name, sizeof name, 0};
    psti_text_add(&text, "%.*s_%u", (int)sizeof name - 16, list->column.name, i_element);
    enum pst_status status = psti_containers_paths_add(&walk->names, name, strlen(name), walk->err);
    *column = *list;
    if (status == PST_OK)
        column->column.name = walk->names.at[walk->names.n - 1];
    column->i_element = i_element;
    return status;
}

/* Replaces each list of images or sounds by one column for each element. */
static enum pst_status expand(struct walk *walk)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < walk->n_own; i++) {
        struct psti_arrow_column *list = &walk->own[i];
        bool is_sure = list->column.type == PST_FIELD_IMAGE || list->column.type == PST_FIELD_AUDIO;
        if (list->is_list && (!is_sure || list->n_elements > PST_MAX_FIELDS))
            list->n_elements = 0;
        n += list->is_list ? list->n_elements : 1; /* at most 2^22 */
    }
    struct psti_arrow_column *own = psti_alloc_array((size_t)n + 1, sizeof *own);
    if (own == NULL)
        return psti_fail(walk->err, PST_ERROR_MEMORY, ROOM, "out of memory for %u columns", n);
    enum pst_status status = PST_OK;
    n = 0;
    for (uint32_t i = 0; i < walk->n_own && status == PST_OK; i++) {
        const struct psti_arrow_column *list = &walk->own[i];
        if (list->is_list && list->n_elements == 0)
            leave_out(walk, list->i_root, "has lists of no images or sounds, or of too many");
        for (uint32_t k = 0; k < list->n_elements && status == PST_OK; k++)
            status = add_element(walk, list, k, &own[n++]);
        if (!list->is_list)
            own[n++] = *list;
    }
    psti_free(walk->own);
    walk->own = own;
    walk->n_own = n;
    return status != PST_OK || n > 0 ? status : refuse_all(walk);
}

/* True if the column's values can be given as values of the field type `type`. */
static bool can_give(const struct psti_column *column, enum pst_field_type type)
{
    bool is_number = column->type == PST_FIELD_INT || column->type == PST_FIELD_FLOAT ||
                     column->type == PST_FIELD_ARRAY;
    return type == column->type || (!is_number && type != PST_FIELD_INT &&
                                    type != PST_FIELD_FLOAT && type != PST_FIELD_ARRAY);
}

/* Declares the columns, and drops those that the user's rules leave out. */
static enum pst_status declare(struct walk *walk)
{
    const struct psti_arrow_schema *schema = &walk->schema;
    enum pst_status status =
        psti_containers_columns_file(walk->columns, walk->source->path, walk->err);
    uint32_t n = 0;
    for (uint32_t i = 0; i < walk->n_own && status == PST_OK; i++) {
        struct psti_arrow_column *column = &walk->own[i];
        status = psti_containers_columns_add(walk->columns, &column->column, &column->i_field,
                                             walk->err);
        psti_free(column->class_names);
        column->class_names = NULL;
        column->column.class_names = NULL;
        if (status != PST_OK || column->i_field == PSTI_COLUMN_LEFT_OUT)
            continue;
        column->type = psti_containers_columns_type(walk->columns, column->i_field);
        if (!can_give(&column->column, column->type))
            status = psti_fail_at(walk->err, PST_ERROR_ARGUMENT, ROOM, walk->source->path, -1,
                                  "the column '%.100s' cannot be taken as %s", column->column.name,
                                  pst_field_type_name(column->type));
        if (n < i)
            walk->own[n] = *column;
        n++;
    }
    for (uint32_t i = 0; i < schema->n && status == PST_OK; i = schema->fields[i].end)
        if (is_empty(&schema->fields[i]))
            status = psti_containers_columns_empty(walk->columns, walk->source->path,
                                                   schema->fields[i].name, walk->err);
    if (status != PST_OK)
        return status;
    walk->n_own = n;
    return n > 0 ? PST_OK
                 : psti_fail_at(walk->err, PST_ERROR_ARGUMENT, ROOM, walk->source->path, -1,
                                "fields: all columns of the file are left out");
}

/* Gives the rows of the current batch. i_row: number in the file of the batch's first row. */
static enum pst_status give_batch(struct walk *walk, uint64_t i_row)
{
    struct psti_container_value values[PST_MAX_FIELDS];
    enum pst_status status = PST_OK;
    for (uint32_t k = 0; k < walk->n_own && status == PST_OK; k++)
        status = psti_containers_arrow_column_begin(&walk->own[k], &walk->file, &walk->schema,
                                                    &walk->batch, walk->err);
    for (uint64_t i = 0; i < walk->batch.n_rows && status == PST_OK; i++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < walk->n_own && status == PST_OK; k++) {
            bool has = false;
            status = psti_containers_arrow_column_value(&walk->own[k], walk->columns, i, i_row + i,
                                                        &values[n], &has, walk->err);
            n += has;
        }
        if (status == PST_OK)
            status = psti_containers_columns_row(walk->columns, NULL, values, n, walk->err);
    }
    return status;
}

static enum pst_status give_rows(struct walk *walk)
{
    enum pst_status status = PST_OK;
    uint64_t i_row = 0;
    for (size_t i = 0; i < walk->frames.n && status == PST_OK; i++) {
        status = read_frame(walk, i);
        if (status != PST_OK || walk->frames.at[i].is_dictionary)
            continue;
        status = give_batch(walk, i_row);
        i_row += walk->batch.n_rows;
    }
    return status;
}

static void close_walk(struct walk *walk)
{
    for (uint32_t i = 0; i < walk->n_own; i++)
        psti_free(walk->own[i].class_names);
    for (uint32_t i = 0; i < walk->n_dictionaries; i++)
        psti_containers_arrow_dictionary_free(&walk->dictionaries[i]);
    psti_free(walk->own);
    psti_free(walk->dictionaries);
    psti_containers_paths_free(&walk->names);
    psti_containers_arrow_batch_free(&walk->batch);
    psti_codings_close(&walk->file.codings);
    psti_containers_hub_close(&walk->hub);
    psti_containers_arrow_schema_free(&walk->schema);
    psti_containers_arrow_frames_free(&walk->frames);
}

enum pst_status psti_containers_arrow_walk(const struct psti_walk_source *source,
                                           const struct psti_table_notes *notes,
                                           struct psti_containers_columns *columns,
                                           struct psti_walk_counts *counts, struct pst_error *err)
{
    struct walk walk = {.source = source, .file = {source, NULL}, .columns = columns, .err = err};
    enum pst_status status = psti_containers_arrow_frames(source, &walk.frames, &walk.schema, err);
    if (status == PST_OK)
        status = read_hub(&walk, notes);
    if (status == PST_OK)
        status = decide(&walk);
    if (status == PST_OK)
        status = look(&walk);
    if (status == PST_OK)
        status = expand(&walk);
    if (status == PST_OK)
        status = make_classes(&walk);
    if (status == PST_OK)
        status = declare(&walk);
    if (status == PST_OK)
        status = give_rows(&walk);
    if (status == PST_OK)
        *counts = (struct psti_walk_counts){.n_members = walk.frames.n_rows,
                                            .n_samples = walk.frames.n_rows,
                                            .has_no_end = walk.frames.has_no_end};
    close_walk(&walk);
    return status;
}
