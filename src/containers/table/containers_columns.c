/* containers_columns.c - makes fields of the columns of tables, and samples of their rows.
 *
 * In: columns and rows of one file after the other, on one thread. Out: fields and samples, to a
 * sink.
 *
 * The first file that declares a column decides its field. The field stores what its column was, to
 * compare later files with it. If the items of an array field have several shapes, the field is
 * declared again with "any shape". */
#include "containers/table/containers_columns.h"

#include "containers/containers_names.h"
#include "containers/containers_rules.h"
#include "containers/containers_user_rules.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROOM "containers"
enum { NONE = UINT8_MAX, HIDDEN = -1 /* HIDDEN: a label that was withheld, as in test sets */ };

struct psti_column_field {
    struct pst_field field; /* the field as it was declared to the sink */
    uint32_t column;        /* number in `names` of the column's name */
    uint64_t classes;       /* hash of the class names; 0: none */
    int64_t n_stated;       /* number of classes that the column stated; kept when the field loses
                             * its classes because a label is hidden */
    bool is_by_rule;        /* the user's rule stated the number of classes */
    bool is_unseen;         /* the type is a guess: no file so far had a value to derive it from */
    uint32_t n_file;        /* number, from 1 on, of the last file that declared the field */
};

/* Use of a rule. UNUSED: no column has the rule's name. USED_FOR_NOTHING: only a column without
 * values has it. USED: the rule made a field, or left a column out. */
enum rule_use { UNUSED = 0, USED_FOR_NOTHING, USED };

struct psti_containers_columns {
    const struct psti_field_rule *rules;
    uint32_t n_rules, n_fields, n_files;
    struct psti_field_sink sink;
    struct psti_walk_names names; /* names of all columns in all files */
    enum rule_use *uses;          /* [n_rules] */
    bool *was_empty;              /* [n_was_empty], by the number of a name: an earlier file had the
                                   * column without values */
    uint32_t n_was_empty;
    uint8_t of_sink[PST_MAX_FIELDS];
    struct psti_column_field fields[PST_MAX_FIELDS];
    const char *path;                /* path of the current file */
    uint64_t n_rows;                 /* number of rows of the current file so far */
    psti_columns_listener *listener; /* NULL: none */
    void *listener_context;
};

void psti_containers_columns_listen(struct psti_containers_columns *columns,
                                    psti_columns_listener *listener, void *context)
{
    columns->listener = listener;
    columns->listener_context = context;
}

static void tell(const struct psti_containers_columns *columns,
                 const struct psti_columns_call *call)
{
    if (columns->listener != NULL)
        columns->listener(columns->listener_context, call);
}

enum pst_status psti_containers_columns_open(const struct psti_field_rule *rules, uint32_t n_rules,
                                             const struct psti_field_sink *sink,
                                             struct psti_containers_columns **out,
                                             struct pst_error *err)
{
    *out = NULL;
    enum pst_status status =
        psti_containers_user_rules_check(rules, n_rules, PSTI_RULE_COLUMNS, err);
    if (status != PST_OK)
        return status;
    *out = psti_calloc(1, sizeof **out);
    if (*out != NULL)
        (*out)->uses = psti_calloc((size_t)n_rules + 1, sizeof *(*out)->uses);
    if (*out == NULL || (*out)->uses == NULL) {
        psti_containers_columns_close(out);
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for columns");
    }
    (*out)->rules = rules;
    (*out)->n_rules = n_rules;
    (*out)->sink = *sink;
    memset((*out)->of_sink, NONE, sizeof(*out)->of_sink);
    return PST_OK;
}

void psti_containers_columns_close(struct psti_containers_columns **columns)
{
    if (*columns == NULL)
        return;
    psti_containers_names_free(&(*columns)->names);
    psti_free((*columns)->uses);
    psti_free((*columns)->was_empty);
    psti_free(*columns);
    *columns = NULL;
}

/* Adds the current file's path to an error that has none. Returns the status. */
static enum pst_status in_file(const struct psti_containers_columns *columns,
                               enum pst_status status, struct pst_error *err)
{
    if (status != PST_OK && err != NULL && err->file[0] == '\0')
        psti_error_set_file(err, columns->path);
    return status;
}

enum pst_status psti_containers_columns_file(struct psti_containers_columns *columns,
                                             const char *path, struct pst_error *err)
{
    if (columns->n_files == UINT32_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "there are more than 4294967294 files");
    tell(columns, &(struct psti_columns_call){.kind = PSTI_COLUMNS_FILE});
    columns->path = path;
    columns->n_files++;
    columns->n_rows = 0;
    return PST_OK;
}

/* Columns ------------------------------------------------------------------- */

/* True for field types whose items are bytes of any content. */
static bool is_bytes(enum pst_field_type type)
{
    return psti_format_is_image(type) || type == PST_FIELD_AUDIO || type == PST_FIELD_BYTES ||
           type == PST_FIELD_TEXT || type == PST_FIELD_JSON;
}

static bool is_text(enum pst_field_type type)
{
    return type == PST_FIELD_TEXT || type == PST_FIELD_JSON;
}

/* True if a user's rule may give the column this type. */
static bool can_be(const struct psti_column *column, enum pst_field_type type)
{
    if (type == column->type)
        return true;
    if (!is_bytes(column->type) || !is_bytes(type))
        return false;
    return column->is_guess || column->type == PST_FIELD_BYTES || type == PST_FIELD_BYTES ||
           (psti_format_is_image(column->type) && psti_format_is_image(type)) ||
           (is_text(column->type) && is_text(type));
}

/* Checks the class names: n texts, each with its NUL. */
static enum pst_status check_classes(const struct psti_containers_columns *columns,
                                     const struct psti_column *column, struct pst_error *err)
{
    const char *at = column->class_names, *end = at + column->class_names_nbytes, *problem = NULL;
    int64_t n = 0;
    if (column->type != PST_FIELD_INT || column->n_classes <= 0 || column->n_classes > UINT32_MAX)
        problem = "belong to no classes";
    while (problem == NULL && at < end) {
        const char *nul = memchr(at, 0, (size_t)(end - at));
        problem = nul == NULL ? "do not end" : psti_format_name_problem(at, (size_t)(nul - at));
        at = nul == NULL ? end : nul + 1;
        n++;
    }
    if (problem == NULL && n != column->n_classes)
        problem = "are not as many as the classes";
    return problem == NULL
               ? PST_OK
               : psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, columns->path, -1,
                              "names of classes of the column \"%.60s\": they, or one of them, %s",
                              column->name, problem);
}

/* Makes the field that the column and the user's rule for it ask for. */
static enum pst_status make_field(const struct psti_containers_columns *columns,
                                  const struct psti_column *column,
                                  const struct psti_field_rule *rule, struct pst_field *field,
                                  struct pst_error *err)
{
    *field = (struct pst_field){.type = column->type, .n_variants = 1};
    if (rule != NULL && rule->type != 0)
        field->type = rule->type;
    if (!can_be(column, field->type))
        return psti_fail_at(err, PST_ERROR_ARGUMENT, ROOM, columns->path, -1,
                            "fields: the column \"%.60s\" is %s, and cannot be taken as %s",
                            column->name, pst_field_type_name(column->type),
                            pst_field_type_name(field->type));
    if (field->type == PST_FIELD_ARRAY) {
        field->dtype = column->dtype;
        field->ndim = column->ndim;
        memcpy(field->shape, column->shape, column->ndim * sizeof *column->shape);
    }
    if (field->type == PST_FIELD_INT)
        field->n_classes = rule != NULL && rule->n_classes > 0 ? rule->n_classes
                           : column->n_classes > 0             ? column->n_classes
                                                               : 0;
    if (rule != NULL && rule->field != NULL)
        memcpy(field->name, rule->field, strlen(rule->field) + 1);
    else
        (void)psti_containers_rule_name(column->name, strlen(column->name), field->name);
    return PST_OK;
}

/* Hashes the class names. Returns 0 if there are none, or if a rule states another number of
 * classes. */
static uint64_t hash_classes(const struct psti_column *column, const struct pst_field *field)
{
    if (field->type != PST_FIELD_INT || column->class_names == NULL ||
        field->n_classes != column->n_classes)
        return 0;
    uint64_t hash = psti_hash64(column->class_names, column->class_names_nbytes);
    return hash + (hash == 0);
}

static enum pst_status add_field(struct psti_containers_columns *columns,
                                 const struct psti_column *column, const struct pst_field *field,
                                 bool is_by_rule, uint32_t number, uint32_t *i_field,
                                 struct pst_error *err)
{
    if (columns->n_fields == PST_MAX_FIELDS)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, columns->path, -1,
                            "\"%.60s\" would be field %d, and %d are the most: leave columns out, "
                            "as in fields={\"%.60s\": None}",
                            column->name, PST_MAX_FIELDS + 1, PST_MAX_FIELDS, column->name);
    struct psti_column_field *use = &columns->fields[columns->n_fields];
    *use =
        (struct psti_column_field){.field = *field, .column = number, .n_file = columns->n_files};
    use->classes = hash_classes(column, field);
    use->n_stated = field->n_classes;
    use->is_by_rule = is_by_rule;
    use->is_unseen = column->is_unseen;
    enum pst_status status = columns->sink.field(columns->sink.writer, field, i_field, err);
    if (status == PST_OK && *i_field >= PST_MAX_FIELDS)
        status = psti_fail(err, PST_ERROR_INTERNAL, ROOM, "a field has an impossible number");
    if (status == PST_OK && use->classes != 0)
        status = columns->sink.classes(columns->sink.writer, *i_field, column->class_names,
                                       column->class_names_nbytes, (uint32_t)field->n_classes, err);
    if (status == PST_OK)
        columns->of_sink[*i_field] = (uint8_t)columns->n_fields++;
    return in_file(columns, status, err);
}

static bool has_shape(const struct pst_field *field, uint32_t ndim, const uint32_t *shape)
{
    return field->ndim == ndim && memcmp(field->shape, shape, ndim * sizeof *shape) == 0;
}

/* Declares a field again as one of any shape. */
static void unshape(struct psti_containers_columns *columns, uint32_t i_sink,
                    struct psti_column_field *use)
{
    use->field.ndim = 0;
    memset(use->field.shape, 0, sizeof use->field.shape);
    columns->sink.restate(columns->sink.writer, i_sink, &use->field);
}

/* Gives a field its final type, when the first file with values of its column comes. */
static void see(struct psti_containers_columns *columns, const struct pst_field *field,
                uint32_t i_sink, struct psti_column_field *use)
{
    use->is_unseen = false;
    if (use->field.type == field->type)
        return;
    use->field.type = field->type;
    columns->sink.restate(columns->sink.writer, i_sink, &use->field);
}

/* Compares a column with the field that an earlier file made of it. */
static enum pst_status compare(struct psti_containers_columns *columns,
                               const struct psti_column *column, const struct pst_field *field,
                               uint32_t i_sink, struct pst_error *err)
{
    struct psti_column_field *use = &columns->fields[columns->of_sink[i_sink]];
    const char *what = NULL;
    if (column->is_unseen && is_bytes(field->type) && is_bytes(use->field.type)) {
        use->n_file = columns->n_files;
        return PST_OK;
    }
    if (use->is_unseen && is_bytes(field->type))
        see(columns, field, i_sink, use);
    if (field->type != use->field.type)
        what = "another type";
    else if (field->type == PST_FIELD_ARRAY && field->dtype != use->field.dtype)
        what = "elements of another type";
    else if (field->n_classes != use->n_stated || hash_classes(column, field) != use->classes)
        what = "other classes";
    if (what != NULL)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, columns->path, -1,
                            "the column \"%.60s\" has %s than in the files before: open them by "
                            "themselves, or leave it out by fields={\"%.60s\": None}",
                            column->name, what, column->name);
    if (use->field.ndim > 0 && !has_shape(&use->field, field->ndim, field->shape))
        unshape(columns, i_sink, use);
    use->n_file = columns->n_files;
    return PST_OK;
}

/* Finds a field by its name. False: there is none. */
static bool find_field(const struct psti_containers_columns *columns, const char *name,
                       uint32_t *i_sink)
{
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        if (columns->of_sink[i] != NONE &&
            strcmp(columns->fields[columns->of_sink[i]].field.name, name) == 0) {
            *i_sink = i;
            return true;
        }
    return false;
}

static void note(const struct psti_containers_columns *columns, enum pst_notice_kind kind,
                 const char *name, const char *why, uint64_t n, const char *first)
{
    if (columns->sink.note != NULL)
        columns->sink.note(columns->sink.writer, kind, name, why, n, first);
}

/* True if an earlier file had this column without values. */
static bool was_empty(const struct psti_containers_columns *columns, uint32_t number)
{
    return number < columns->n_was_empty && columns->was_empty[number];
}

/* Finds the field of a column, or makes it. number: number of the column's name. */
static enum pst_status settle(struct psti_containers_columns *columns,
                              const struct psti_column *column, const struct pst_field *field,
                              bool is_by_rule, uint32_t number, uint32_t *i_field,
                              struct pst_error *err)
{
    if (find_field(columns, field->name, i_field)) {
        const struct psti_column_field *other = &columns->fields[columns->of_sink[*i_field]];
        if (other->column != number)
            return psti_fail_at(err, PST_ERROR_ARGUMENT, ROOM, columns->path, -1,
                                "the columns \"%.60s\" and \"%.60s\" both make the field \"%s\": "
                                "name one, as in fields={\"%.60s\": \"other\"}, or leave it out by "
                                "None",
                                psti_containers_names_text(&columns->names, other->column),
                                column->name, field->name, column->name);
        return other->n_file == columns->n_files
                   ? psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, columns->path, -1,
                                  "the file has two columns of the name \"%.60s\"", column->name)
                   : compare(columns, column, field, *i_field, err);
    }
    bool is_late = columns->n_files > 1;
    if (is_late && !was_empty(columns, number))
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, columns->path, -1,
                            "the file has a column \"%.60s\", and those before it have none: leave "
                            "it out by fields={\"%.60s\": None}",
                            column->name, column->name);
    enum pst_status status = add_field(columns, column, field, is_by_rule, number, i_field, err);
    if (status == PST_OK && is_late) {
        note(columns, PST_NOTICE_COLUMN, column->name, NULL, 0, NULL);
        if (field->type == PST_FIELD_FLOAT && columns->sink.optional != NULL)
            columns->sink.optional(columns->sink.writer, *i_field);
    }
    return status;
}

static enum pst_status add(struct psti_containers_columns *columns,
                           const struct psti_column *column, uint32_t *i_field,
                           struct pst_error *err)
{
    struct pst_field field;
    uint32_t number = 0;
    bool is_new = false;
    *i_field = PSTI_COLUMN_LEFT_OUT;
    enum pst_status status = psti_containers_names_add(&columns->names, column->name,
                                                       strlen(column->name), &number, &is_new, err);
    if (status != PST_OK)
        return in_file(columns, status, err);
    int64_t i = psti_containers_user_rules_find(columns->rules, columns->n_rules, PSTI_RULE_COLUMNS,
                                                column->name);
    const struct psti_field_rule *rule = i >= 0 ? &columns->rules[i] : NULL;
    if (rule != NULL)
        columns->uses[i] = USED;
    if (rule != NULL && rule->is_left_out)
        return PST_OK;
    if (column->class_names != NULL)
        status = check_classes(columns, column, err);
    if (status == PST_OK)
        status = make_field(columns, column, rule, &field, err);
    if (status == PST_OK)
        status = settle(columns, column, &field, rule != NULL && rule->n_classes > 0, number,
                        i_field, err);
    if (status == PST_OK && rule == NULL && field.type == PST_FIELD_INT &&
        columns->sink.optional != NULL)
        columns->sink.optional(columns->sink.writer, *i_field);
    if (status != PST_OK)
        *i_field = PSTI_COLUMN_LEFT_OUT;
    return status;
}

enum pst_status psti_containers_columns_add(struct psti_containers_columns *columns,
                                            const struct psti_column *column, uint32_t *i_field,
                                            struct pst_error *err)
{
    enum pst_status status = add(columns, column, i_field, err);
    struct psti_columns_call call = {
        .kind = PSTI_COLUMNS_ADD, .column = column, .answer = status, .i_field = *i_field};
    if (status == PST_OK && *i_field != PSTI_COLUMN_LEFT_OUT)
        call.type = psti_containers_columns_type(columns, *i_field);
    tell(columns, &call);
    return status;
}

static void leave_out(struct psti_containers_columns *columns, const char *path, const char *name,
                      const char *why)
{
    int64_t i =
        psti_containers_user_rules_find(columns->rules, columns->n_rules, PSTI_RULE_COLUMNS, name);
    if (i >= 0 && columns->rules[i].is_left_out)
        return;
    psti_log(PST_LOG_WARNING, ROOM, "%s: the column \"%.100s\" is left out: %s", path, name, why);
    note(columns, PST_NOTICE_COLUMN, name, why, 1, NULL);
}

void psti_containers_columns_leave_out(struct psti_containers_columns *columns, const char *path,
                                       const char *name, const char *why)
{
    tell(columns,
         &(struct psti_columns_call){.kind = PSTI_COLUMNS_LEAVE_OUT, .name = name, .text = why});
    leave_out(columns, path, name, why);
}

void psti_containers_columns_note_rows(const struct psti_containers_columns *columns,
                                       const char *name, uint64_t n, const char *first)
{
    tell(columns, &(struct psti_columns_call){
                      .kind = PSTI_COLUMNS_NOTE_ROWS, .name = name, .text = first, .n = n});
    if (n > 0)
        note(columns, PST_NOTICE_ROWS, name, NULL, n, first);
}

static enum pst_status set_was_empty(struct psti_containers_columns *columns, uint32_t number,
                                     struct pst_error *err)
{
    if (number >= columns->n_was_empty) {
        uint32_t n = number < 32 ? 64 : 2 * number;
        bool *more = psti_realloc(columns->was_empty, n * sizeof *more);
        if (more == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for columns");
        memset(more + columns->n_was_empty, 0, (n - columns->n_was_empty) * sizeof *more);
        columns->was_empty = more;
        columns->n_was_empty = n;
    }
    columns->was_empty[number] = true;
    return PST_OK;
}

enum pst_status psti_containers_columns_empty(struct psti_containers_columns *columns,
                                              const char *path, const char *name,
                                              struct pst_error *err)
{
    tell(columns, &(struct psti_columns_call){.kind = PSTI_COLUMNS_EMPTY, .name = name});
    uint32_t number = 0;
    bool is_new = false;
    int64_t i =
        psti_containers_user_rules_find(columns->rules, columns->n_rules, PSTI_RULE_COLUMNS, name);
    enum pst_status status =
        psti_containers_names_add(&columns->names, name, strlen(name), &number, &is_new, err);
    if (status != PST_OK)
        return status;
    if (i >= 0 && columns->uses[i] == UNUSED)
        columns->uses[i] = columns->rules[i].is_left_out ? USED : USED_FOR_NOTHING;
    for (uint32_t k = 0; k < columns->n_fields; k++)
        if (columns->fields[k].column == number) {
            columns->fields[k].n_file = columns->n_files;
            return PST_OK;
        }
    leave_out(columns, path, name, "it has no values");
    return set_was_empty(columns, number, err);
}

enum pst_field_type psti_containers_columns_type(const struct psti_containers_columns *columns,
                                                 uint32_t i_field)
{
    return columns->fields[columns->of_sink[i_field]].field.type;
}

enum pst_status psti_containers_columns_page(struct psti_containers_columns *columns,
                                             const struct psti_container_page *page,
                                             uint64_t *i_page, struct pst_error *err)
{
    tell(columns, &(struct psti_columns_call){.kind = PSTI_COLUMNS_PAGE, .page = page});
    return in_file(columns, columns->sink.page(columns->sink.writer, page, i_page, err), err);
}

/* Rows ---------------------------------------------------------------------- */

/* Checks that the current file has a column for each field. */
static enum pst_status check_file(const struct psti_containers_columns *columns,
                                  struct pst_error *err)
{
    for (uint32_t i = 0; i < columns->n_fields; i++) {
        const struct psti_column_field *use = &columns->fields[i];
        const char *name = psti_containers_names_text(&columns->names, use->column);
        if (use->n_file != columns->n_files)
            return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, columns->path, -1,
                                "the file has no column \"%.60s\", and those before it have one: "
                                "leave it out by fields={\"%.60s\": None}",
                                name, name);
    }
    return PST_OK;
}

/* Compares an array's shape with its field. If they differ, declares the field again as one of any
 * shape. */
static enum pst_status take_array(struct psti_containers_columns *columns, const char *name,
                                  const struct psti_container_value *value, struct pst_error *err)
{
    struct psti_column_field *use = &columns->fields[columns->of_sink[value->i_field]];
    uint64_t nbytes = pst_dtype_nbytes(use->field.dtype);
    uint64_t own_nbytes =
        value->bytes != NULL || value->is_in_page ? value->nbytes : value->decoded_nbytes;
    bool fits = value->ndim <= PST_MAX_NDIM;
    for (uint32_t i = 0; fits && i < value->ndim; i++)
        fits = psti_mul_u64(nbytes, value->shape[i], &nbytes);
    if (!fits || nbytes != own_nbytes)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, columns->path, -1,
                            "the array of field \"%s\" of sample \"%.150s\" has %" PRIu64
                            " bytes, which are not those of its shape in %s",
                            use->field.name, name, own_nbytes, pst_dtype_name(use->field.dtype));
    if (use->field.ndim > 0 && !has_shape(&use->field, value->ndim, value->shape))
        unshape(columns, value->i_field, use);
    return PST_OK;
}

/* Checks that a label is one of its classes. The first hidden label (-1) turns the field into an
 * int without classes, because the user must decide what -1 means. */
static enum pst_status take_int(struct psti_containers_columns *columns, const char *name,
                                const struct psti_container_value *value, struct pst_error *err)
{
    struct psti_column_field *use = &columns->fields[columns->of_sink[value->i_field]];
    int64_t n = use->n_stated;
    if (n == 0 || (value->int_value >= 0 && value->int_value < n))
        return PST_OK;
    if (value->int_value != HIDDEN || use->is_by_rule)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, columns->path, -1,
                            "field \"%s\" of sample \"%.150s\" is %" PRId64
                            ", and there are the classes 0 to %" PRId64,
                            use->field.name, name, value->int_value, n - 1);
    if (use->field.n_classes == 0)
        return PST_OK;
    psti_log(PST_LOG_WARNING, ROOM,
             "%s: the label \"%s\" of sample \"%.150s\" is hidden (-1): the field is a number "
             "without classes",
             columns->path, use->field.name, name);
    note(columns, PST_NOTICE_LABELS, use->field.name, NULL, 1, name);
    use->field.n_classes = 0;
    columns->sink.restate(columns->sink.writer, value->i_field, &use->field);
    return PST_OK;
}

static enum pst_status take_value(struct psti_containers_columns *columns, const char *name,
                                  const struct psti_container_value *value, struct pst_error *err)
{
    if (value->i_field >= PST_MAX_FIELDS || columns->of_sink[value->i_field] == NONE)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "a value belongs to no field");
    const struct pst_field *field = &columns->fields[columns->of_sink[value->i_field]].field;
    if (field->type == PST_FIELD_ARRAY)
        return take_array(columns, name, value, err);
    return field->type == PST_FIELD_INT ? take_int(columns, name, value, err) : PST_OK;
}

/* Adds NaN for each float field that has no value in the row. Returns the number of values. */
static uint32_t add_missing(const struct psti_containers_columns *columns,
                            const struct psti_container_value *values, uint32_t n,
                            struct psti_container_value all[PST_MAX_FIELDS])
{
    bool has[PST_MAX_FIELDS] = {false};
    uint32_t n_all = n;
    if (n > 0)
        memcpy(all, values, n * sizeof *values);
    for (uint32_t i = 0; i < n; i++)
        has[values[i].i_field] = true;
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        if (!has[i] && columns->of_sink[i] != NONE &&
            columns->fields[columns->of_sink[i]].field.type == PST_FIELD_FLOAT)
            all[n_all++] = (struct psti_container_value){.i_field = i, .float_value = (double)NAN};
    return n_all;
}

enum pst_status psti_containers_columns_row(struct psti_containers_columns *columns,
                                            const char *name,
                                            const struct psti_container_value *values, uint32_t n,
                                            struct pst_error *err)
{
    char made[PST_NAME_CAP];
    struct psti_container_value all[PST_MAX_FIELDS];
    tell(columns, &(struct psti_columns_call){
                      .kind = PSTI_COLUMNS_ROW, .name = name, .values = values, .n_values = n});
    enum pst_status status = columns->n_rows == 0 ? check_file(columns, err) : PST_OK;
    if (name == NULL) {
        psti_containers_columns_row_name(columns->path, columns->n_rows, made);
        name = made;
    }
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        status = take_value(columns, name, &values[i], err);
    if (status == PST_OK) {
        n = add_missing(columns, values, n, all);
        status = columns->sink.sample(columns->sink.writer, name, all, n, err);
    }
    columns->n_rows++;
    return in_file(columns, status, err);
}

/* Returns the last ending of a file's name, or its end if it has none. A shard number such as
 * "-00000-of-00010" is no part of an ending. */
static const char *ending(const char *name)
{
    const char *end = name + strlen(name), *dot = strrchr(name, '.');
    if (dot == NULL || dot == name)
        return end;
    for (const char *at = dot + 1; *at != '\0'; at++)
        if (*at == '-' || *at == '_' || *at == ' ')
            return end;
    return dot;
}

void psti_containers_columns_row_name(const char *path, uint64_t i, char name[PST_NAME_CAP])
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    size_t n = (size_t)(ending(base) - base);
    /* 22 bytes for the slash, at most 20 digits, and the NUL. */
    n = n < PST_NAME_CAP - 22 ? n : PST_NAME_CAP - 22;
    memcpy(name, base, n);
    snprintf(name + n, PST_NAME_CAP - n, "/%08" PRIu64, i);
}

enum pst_status psti_containers_columns_finish(const struct psti_containers_columns *columns,
                                               struct pst_error *err)
{
    for (uint32_t i = 0; i < columns->n_rules; i++)
        if (columns->uses[i] == UNUSED && !columns->rules[i].is_left_out)
            return psti_containers_user_rules_unused(&columns->rules[i], PSTI_RULE_COLUMNS,
                                                     &columns->names, err);
    for (uint32_t i = 0; i < columns->n_rules; i++)
        if (columns->uses[i] == USED_FOR_NOTHING)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                             "fields: the column \"%.100s\" has no value in any file",
                             columns->rules[i].suffix);
    return PST_OK;
}
