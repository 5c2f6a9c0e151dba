/* test_containers_columns.c - do columns, the user's rules and rows give the right fields and
 * samples, over several files? */
#include "test.h"

#include "base/fail.h"
#include "base/fault.h"
#include "containers/table/containers_columns.h"
#include "format/format_dataset.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <string.h>

/* Imitates the writer of the index: it records what it is given. */
struct fake {
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields, n_restated, n_pages, first_number;
    char log[4096];
};

static void note(struct fake *fake, const char *format, ...) PST_PRINTF(2, 3);
static void note(struct fake *fake, const char *format, ...)
{
    size_t n = strlen(fake->log);
    va_list args;
    va_start(args, format);
    vsnprintf(fake->log + n, sizeof fake->log - n, format, args);
    va_end(args);
}

static struct fake *fake_of(struct psti_containers_writer *writer)
{
    return (struct fake *)(void *)writer;
}

/* Adds a field. Field numbers may begin above 0, as if another source had added fields before. */
static enum pst_status fake_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct fake *fake = fake_of(writer);
    (void)err;
    assert_null(psti_format_field_problem(field));
    assert_false(psti_format_name_is_taken(fake->fields, fake->n_fields, field->name));
    fake->fields[fake->n_fields] = *field;
    *i_field = fake->first_number + fake->n_fields++;
    note(fake, "%s:%s", field->name, pst_field_type_name(field->type));
    if (field->n_classes > 0)
        note(fake, "/%" PRId64, field->n_classes);
    note(fake, ";");
    return PST_OK;
}

static void fake_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    struct fake *fake = fake_of(writer);
    assert_null(psti_format_field_problem(field));
    fake->fields[i_field - fake->first_number] = *field;
    fake->n_restated++;
}

static enum pst_status fake_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                    const char *names, size_t nbytes, uint32_t n,
                                    struct pst_error *err)
{
    struct fake *fake = fake_of(writer);
    (void)err;
    note(fake, "%s has", fake->fields[i_field - fake->first_number].name);
    for (const char *at = names; at < names + nbytes; at += strlen(at) + 1, n--)
        note(fake, " %s", at);
    assert_int_equal(n, 0);
    note(fake, ";");
    return PST_OK;
}

static void fake_optional(struct psti_containers_writer *writer, uint32_t i_field)
{
    struct fake *fake = fake_of(writer);
    note(fake, "%s?;", fake->fields[i_field - fake->first_number].name);
}

static void fake_note(struct psti_containers_writer *writer, enum pst_notice_kind kind,
                      const char *name, const char *why, uint64_t n, const char *first)
{
    struct fake *fake = fake_of(writer);
    note(fake, "%s %s %" PRIu64 " %s %s;", pst_notice_kind_name(kind), name, n,
         why != NULL ? why : "-", first != NULL ? first : "-");
}

static enum pst_status fake_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    struct fake *fake = fake_of(writer);
    if (page->nbytes > INT32_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "test", "too long");
    *i_page = fake->n_pages++;
    return PST_OK;
}

static enum pst_status fake_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct fake *fake = fake_of(writer);
    (void)err;
    note(fake, "%s", name);
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_field *field = &fake->fields[values[i].i_field - fake->first_number];
        if (field->type == PST_FIELD_INT)
            note(fake, " %s=%" PRId64, field->name, values[i].int_value);
        else if (field->type == PST_FIELD_FLOAT)
            note(fake, " %s=%g", field->name, values[i].float_value);
        else if (values[i].bytes != NULL)
            note(fake, " %s='%.*s'", field->name, (int)values[i].nbytes,
                 (const char *)values[i].bytes);
        else
            note(fake, " %s=%" PRIu64 "+%" PRIu64, field->name, values[i].offset, values[i].nbytes);
    }
    note(fake, ";");
    return PST_OK;
}

/* A reader of columns and the imitated writer that a test works with. */
struct table {
    struct fake fake;
    struct psti_containers_columns *columns;
    struct pst_error err;
};

static void check(struct table *table, enum pst_status status)
{
    if (status != PST_OK)
        print_error("%s: %s\n", pst_status_name(status), table->err.text);
    assert_int_equal(status, PST_OK);
}

static void open_table(struct table *table, const struct psti_field_rule *rules, uint32_t n)
{
    struct psti_field_sink sink = {.field = fake_field,
                                   .restate = fake_restate,
                                   .classes = fake_classes,
                                   .page = fake_page,
                                   .sample = fake_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&table->fake};
    *table = (struct table){.fake = {.first_number = 5}};
    check(table, psti_containers_columns_open(rules, n, &sink, &table->columns, &table->err));
}

static void begin(struct table *table, const char *path)
{
    check(table, psti_containers_columns_file(table->columns, path, &table->err));
}

static uint32_t add(struct table *table, const struct psti_column *column)
{
    uint32_t i_field = 0;
    check(table, psti_containers_columns_add(table->columns, column, &i_field, &table->err));
    return i_field;
}

static uint32_t add_type(struct table *table, const char *name, enum pst_field_type type)
{
    return add(table, &(struct psti_column){.name = name, .type = type});
}

static void add_fails(struct table *table, const struct psti_column *column, enum pst_status status,
                      const char *text)
{
    uint32_t i_field = 0;
    enum pst_status got =
        psti_containers_columns_add(table->columns, column, &i_field, &table->err);
    if (got != status || strstr(table->err.text, text) == NULL)
        print_error("%s: '%s' is not in '%s'\n", pst_status_name(got), text, table->err.text);
    assert_int_equal(got, status);
    assert_non_null(strstr(table->err.text, text));
    assert_int_equal(i_field, PSTI_COLUMN_LEFT_OUT);
    assert_string_equal(table->err.file, "b/two.tab");
}

static void row_fails(struct table *table, const struct psti_container_value *values, uint32_t n,
                      enum pst_status status, const char *text)
{
    enum pst_status got = psti_containers_columns_row(table->columns, NULL, values, n, &table->err);
    if (got != status || strstr(table->err.text, text) == NULL)
        print_error("%s: '%s' is not in '%s'\n", pst_status_name(got), text, table->err.text);
    assert_int_equal(got, status);
    assert_non_null(strstr(table->err.text, text));
}

static void row(struct table *table, const char *name, const struct psti_container_value *values,
                uint32_t n)
{
    check(table, psti_containers_columns_row(table->columns, name, values, n, &table->err));
}

static void finish(struct table *table, const char *want)
{
    check(table, psti_containers_columns_finish(table->columns, &table->err));
    assert_string_equal(table->fake.log, want);
    psti_containers_columns_close(&table->columns);
    assert_null(table->columns);
    psti_containers_columns_close(&table->columns);
}

static void columns_become_fields_and_rows_samples(void **state)
{
    (void)state;
    static const char names[] = "cat\0dog\0a bird";
    struct table table;
    open_table(&table, NULL, 0);
    for (int file = 0; file < 2; file++) {
        uint32_t i[4] = {0};
        uint64_t i_page;
        begin(&table, file == 0 ? "a/one.tab" : "b/two.tab");
        /* The second file has its columns in reverse order. */
        for (int k = 0; k < 4; k++)
            switch (file == 0 ? k : 3 - k) {
            case 0:
                i[0] = add_type(&table, "image/encoded", PST_FIELD_IMAGE);
                break;
            case 1:
                i[1] = add(&table, &(struct psti_column){.name = "label",
                                                         .type = PST_FIELD_INT,
                                                         .n_classes = 3,
                                                         .class_names = names,
                                                         .class_names_nbytes = sizeof names});
                break;
            case 2:
                i[2] = add_type(&table, "score", PST_FIELD_FLOAT);
                break;
            default:
                i[3] = add_type(&table, "caption", PST_FIELD_TEXT);
            }
        assert_int_equal(i[0], 5);
        assert_int_equal(i[3], 8);
        assert_int_equal(psti_containers_columns_type(table.columns, i[2]), PST_FIELD_FLOAT);
        check(&table, psti_containers_columns_page(
                          table.columns,
                          &(struct psti_container_page){.nbytes = 1, .coding = PSTI_CODING_ZSTD},
                          &i_page, &table.err));
        assert_int_equal(i_page, file);
        struct psti_container_value values[] = {
            {.i_field = i[0], .offset = 7, .nbytes = 9, .decoded_nbytes = 9},
            {.i_field = i[1], .int_value = 2},
            {.i_field = i[2], .float_value = 0.5},
            {.i_field = i[3], .bytes = "hi", .nbytes = 2, .decoded_nbytes = 2}};
        row(&table, NULL, values, 4);
        row(&table, "own", values, 2);
        row(&table, NULL, values, 0);
    }
    assert_int_equal(
        psti_containers_columns_page(
            table.columns,
            &(struct psti_container_page){.nbytes = UINT32_MAX, .coding = PSTI_CODING_ZSTD},
            &(uint64_t){0}, &table.err),
        PST_ERROR_LIMIT);
    assert_string_equal(table.err.file, "b/two.tab");
    finish(&table,
           "image_encoded:image;label:int/3;label has cat dog a bird;score:float;caption:text;"
           "one/00000000 image_encoded=7+9 label=2 score=0.5 caption='hi';"
           "own image_encoded=7+9 label=2 score=nan;one/00000002 score=nan;"
           "two/00000000 image_encoded=7+9 label=2 score=0.5 caption='hi';"
           "own image_encoded=7+9 label=2 score=nan;two/00000002 score=nan;");
}

static void rules_name_type_and_leave_out(void **state)
{
    (void)state;
    static const struct psti_field_rule rules[] = {
        {.suffix = "img", .field = "photo", .type = PST_FIELD_IMAGE},
        {.suffix = "seg", .type = PST_FIELD_MASK},
        {.suffix = "id", .is_left_out = true},
        {.suffix = "not there", .is_left_out = true},
        {.suffix = "y", .field = "label", .type = PST_FIELD_INT, .n_classes = 4},
        {.suffix = "Y", .field = "other"},
        {.suffix = "z", .type = PST_FIELD_INT, .n_classes = 2},
        {.suffix = "f", .type = PST_FIELD_FLOAT},
        {.suffix = "meta", .type = PST_FIELD_JSON},
    };
    static const char names[] = "no\0yes";
    struct table table;
    open_table(&table, rules, sizeof rules / sizeof *rules);
    begin(&table, "t.tab");
    uint32_t img =
        add(&table, &(struct psti_column){.name = "img", .type = PST_FIELD_TEXT, .is_guess = true});
    assert_int_equal(psti_containers_columns_type(table.columns, img), PST_FIELD_IMAGE);
    add_type(&table, "seg", PST_FIELD_IMAGE);
    assert_int_equal(add_type(&table, "id", PST_FIELD_INT), PSTI_COLUMN_LEFT_OUT);
    /* The rule states other classes than the file, so the file's class names are not used. */
    add(&table, &(struct psti_column){.name = "y",
                                      .type = PST_FIELD_INT,
                                      .n_classes = 2,
                                      .class_names = names,
                                      .class_names_nbytes = sizeof names});
    add_type(&table, "Y", PST_FIELD_INT);
    add(&table, &(struct psti_column){.name = "z",
                                      .type = PST_FIELD_INT,
                                      .n_classes = 2,
                                      .class_names = names,
                                      .class_names_nbytes = sizeof names});
    add_type(&table, "f", PST_FIELD_FLOAT);
    add_type(&table, "meta", PST_FIELD_TEXT);
    add_type(&table, "index", PST_FIELD_INT);
    finish(&table, "photo:image;seg:mask;label:int/4;other:int;z:int/2;z has no yes;f:float;"
                   "meta:json;index_:int;");
}

static void a_rule_changes_only_what_bytes_can_be(void **state)
{
    (void)state;
    static const enum pst_field_type all[] = {PST_FIELD_IMAGE, PST_FIELD_MASK, PST_FIELD_AUDIO,
                                              PST_FIELD_BYTES, PST_FIELD_TEXT, PST_FIELD_JSON,
                                              PST_FIELD_INT,   PST_FIELD_FLOAT};
    /* The types that a column may be changed to. A column whose type is a guess may become any of
     * the first six. */
    static const char *const allowed[] = {"11010000", "11010000", "00110000", "11111100",
                                          "00011100", "00011100", "00000010", "00000001"};
    for (int from = 0; from < 8; from++)
        for (int to = 0; to < 8; to++)
            for (int is_guess = 0; is_guess < 2; is_guess++) {
                struct psti_field_rule rule = {.suffix = "c", .type = all[to]};
                struct table table;
                bool both = from < 6 && to < 6 && is_guess;
                struct psti_column column = {.name = "c", .type = all[from], .is_guess = is_guess};
                open_table(&table, &rule, 1);
                begin(&table, "b/two.tab");
                if (both || allowed[from][to] == '1')
                    assert_int_equal(
                        psti_containers_columns_type(table.columns, add(&table, &column)), all[to]);
                else
                    add_fails(&table, &column, PST_ERROR_ARGUMENT, "cannot be taken as");
                psti_containers_columns_close(&table.columns);
            }
}

static void bad_rules_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct psti_field_rule rules[2];
        uint32_t n;
        const char *text;
    } bad[] = {
        {{{.suffix = ""}}, 1, "the name of a column is empty"},
        {{{.suffix = "a"}, {.suffix = "a"}}, 2, "the column \"a\" comes twice"},
        {{{.suffix = "a", .field = "0"}}, 1, "the field of \"a\""},
        {{{.suffix = "a", .type = PST_FIELD_BOXES}}, 1, "the column \"a\" can be"},
        {{{.suffix = "a", .n_classes = 2}}, 1, "only an int field"},
        {{{.suffix = "a", .type = PST_FIELD_INT, .n_classes = -1}}, 1, "only an int field"},
    };
    struct psti_field_sink sink = {0};
    struct psti_containers_columns *columns;
    struct pst_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(
            psti_containers_columns_open(bad[i].rules, bad[i].n, &sink, &columns, &err),
            PST_ERROR_ARGUMENT);
        assert_non_null(strstr(err.text, bad[i].text));
        assert_null(columns);
    }
    /* A rule that changes nothing is refused. */
    struct table table;
    static const struct psti_field_rule rules[] = {{.suffix = "A"}};
    open_table(&table, rules, 1);
    begin(&table, "t.tab");
    add_type(&table, "a", PST_FIELD_INT);
    add_type(&table, "b", PST_FIELD_INT);
    assert_int_equal(psti_containers_columns_finish(table.columns, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "no column has the name \"A\"; there are \"a\", \"b\""));
    psti_containers_columns_close(&table.columns);
}

static void files_must_agree(void **state)
{
    (void)state;
    static const char names[] = "x\0y", others[] = "x\0z";
    const struct psti_column label = {.name = "l",
                                      .type = PST_FIELD_INT,
                                      .n_classes = 2,
                                      .class_names = names,
                                      .class_names_nbytes = sizeof names};
    const struct psti_column array = {
        .name = "v", .type = PST_FIELD_ARRAY, .dtype = PST_DTYPE_F32, .ndim = 1, .shape = {3}};
    struct psti_column other;
    struct table table;
    open_table(&table, NULL, 0);
    begin(&table, "a/one.tab");
    add(&table, &label);
    add(&table, &array);
    add_type(&table, "a b", PST_FIELD_BYTES);
    begin(&table, "b/two.tab");
    other = label;
    other.class_names = others;
    add_fails(&table, &other, PST_ERROR_CORRUPT, "\"l\" has other classes");
    other.class_names = NULL;
    add_fails(&table, &other, PST_ERROR_CORRUPT, "\"l\" has other classes");
    other.n_classes = 3;
    add_fails(&table, &other, PST_ERROR_CORRUPT, "\"l\" has other classes");
    other.type = PST_FIELD_FLOAT;
    add_fails(&table, &other, PST_ERROR_CORRUPT, "\"l\" has another type");
    other = array;
    other.dtype = PST_DTYPE_F64;
    add_fails(&table, &other, PST_ERROR_CORRUPT, "\"v\" has elements of another type");
    other = (struct psti_column){.name = "new", .type = PST_FIELD_INT};
    add_fails(&table, &other, PST_ERROR_CORRUPT, "those before it have none");
    other = (struct psti_column){.name = "a:b", .type = PST_FIELD_BYTES};
    add_fails(&table, &other, PST_ERROR_ARGUMENT, "\"a b\" and \"a:b\" both make the field");
    uint32_t i_label = add(&table, &label);
    add_fails(&table, &label, PST_ERROR_CORRUPT, "two columns of the name \"l\"");
    /* If files differ in shape, the field's shape becomes any. */
    other = array;
    other.shape[0] = 4;
    add(&table, &other);
    assert_int_equal(table.fake.n_restated, 1);
    assert_int_equal(table.fake.fields[1].ndim, 0);
    struct psti_container_value value = {.i_field = i_label, .int_value = 1};
    row_fails(&table, &value, 1, PST_ERROR_CORRUPT, "the file has no column \"a b\"");
    assert_string_equal(table.err.file, "b/two.tab");
    psti_containers_columns_close(&table.columns);
}

static void names_of_classes_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *names;
        size_t nbytes;
        int64_t n;
        enum pst_field_type type;
    } bad[] = {
        {"a\0b", 4, 3, PST_FIELD_INT},    {"a\0b", 4, 1, PST_FIELD_INT},
        {"a\0b", 3, 2, PST_FIELD_INT},    {"a\0", 3, 2, PST_FIELD_INT},
        {"a\0\xff", 4, 2, PST_FIELD_INT}, {"a\0b", 4, 0, PST_FIELD_INT},
        {"a\0b", 4, -1, PST_FIELD_INT},   {"", 0, 1, PST_FIELD_INT},
        {"a\0b", 4, 2, PST_FIELD_FLOAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct table table;
        open_table(&table, NULL, 0);
        begin(&table, "b/two.tab");
        add_fails(&table,
                  &(struct psti_column){.name = "l",
                                        .type = bad[i].type,
                                        .n_classes = bad[i].n,
                                        .class_names = bad[i].names,
                                        .class_names_nbytes = bad[i].nbytes},
                  PST_ERROR_CORRUPT, "names of classes of the column \"l\"");
        assert_string_equal(table.fake.log, "");
        psti_containers_columns_close(&table.columns);
    }
}

/* A label of -1 (hidden) makes the field an int without classes, in whichever file and row it
 * stands. Other numbers outside of the classes remain errors. */
static void hidden_labels_have_no_classes(void **state)
{
    (void)state;
    static const char names[] = "x\0y";
    static const int64_t labels[3][4] = {{-1, 1, -1, 0}, {0, -1, 1, -1}, {1, 1, 0, -1}};
    const struct psti_column label = {.name = "l",
                                      .type = PST_FIELD_INT,
                                      .n_classes = 2,
                                      .class_names = names,
                                      .class_names_nbytes = sizeof names};
    for (int i = 0; i < 3; i++) {
        struct table table;
        open_table(&table, NULL, 0);
        uint32_t i_field = 0;
        for (int k = 0; k < 4; k++) {
            if (k % 2 == 0) {
                begin(&table, k == 0 ? "one.tab" : "two.tab");
                i_field = add(&table, &label);
            }
            struct psti_container_value value = {.i_field = i_field, .int_value = labels[i][k]};
            row(&table, NULL, &value, 1);
        }
        assert_int_equal(table.fake.fields[0].n_classes, 0);
        assert_int_equal(table.fake.n_restated, 1);
        for (int64_t k = -2; k < 3; k += 4) {
            struct psti_container_value value = {.i_field = i_field, .int_value = k};
            row_fails(&table, &value, 1, PST_ERROR_CORRUPT, "there are the classes 0 to 1");
        }
        psti_containers_columns_close(&table.columns);
    }
    /* If the user stated the classes, a label outside of them is an error. */
    const struct psti_field_rule rule = {.suffix = "l", .type = PST_FIELD_INT, .n_classes = 2};
    struct table table;
    open_table(&table, &rule, 1);
    begin(&table, "one.tab");
    struct psti_container_value value = {.i_field = add(&table, &label), .int_value = -1};
    row_fails(&table, &value, 1, PST_ERROR_CORRUPT, "there are the classes 0 to 1");
    psti_containers_columns_close(&table.columns);
}

/* A guessed type without any value to guess from takes the type of the column in earlier files. A
 * guess from a value must equal that type. */
static void guesses_without_values_follow(void **state)
{
    (void)state;
    static const enum pst_field_type types[] = {PST_FIELD_IMAGE, PST_FIELD_AUDIO, PST_FIELD_BYTES,
                                                PST_FIELD_TEXT};
    struct psti_column guess = {.name = "x", .type = PST_FIELD_BYTES, .is_guess = true};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct table table;
        open_table(&table, NULL, 0);
        begin(&table, "a/one.tab");
        add_type(&table, "x", types[i]);
        add_type(&table, "n", PST_FIELD_INT);
        begin(&table, "b/two.tab");
        guess.is_unseen = true;
        uint32_t i_field = add(&table, &guess);
        assert_int_equal(psti_containers_columns_type(table.columns, i_field), types[i]);
        add_fails(&table, &guess, PST_ERROR_CORRUPT, "two columns of the name \"x\"");
        guess.name = "n";
        add_fails(&table, &guess, PST_ERROR_CORRUPT, "\"n\" has another type");
        guess.name = "x";
        begin(&table, "b/two.tab");
        guess.is_unseen = false;
        if (types[i] == PST_FIELD_BYTES)
            add(&table, &guess);
        else
            add_fails(&table, &guess, PST_ERROR_CORRUPT, "\"x\" has another type");
        psti_containers_columns_close(&table.columns);
    }
}

/* Compares the log of notes and fields with `want`, and empties it. */
static void said(struct table *table, const char *want)
{
    assert_string_equal(table->fake.log, want);
    table->fake.log[0] = '\0';
}

static void add_empty(struct table *table, const char *name)
{
    check(table, psti_containers_columns_empty(table->columns, "x.tab", name, &table->err));
}

static void open_noting(struct table *table, const struct psti_field_rule *rules, uint32_t n)
{
    struct psti_field_sink sink = {.field = fake_field,
                                   .restate = fake_restate,
                                   .classes = fake_classes,
                                   .optional = fake_optional,
                                   .note = fake_note,
                                   .page = fake_page,
                                   .sample = fake_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&table->fake};
    *table = (struct table){.fake = {.first_number = 5}};
    check(table, psti_containers_columns_open(rules, n, &sink, &table->columns, &table->err));
}

static void a_type_may_come_after_files_without_values(void **state)
{
    (void)state;
    struct psti_column guess = {
        .name = "x", .type = PST_FIELD_BYTES, .is_guess = true, .is_unseen = true};
    struct table table;
    open_noting(&table, NULL, 0);
    begin(&table, "a/one.tab");
    uint32_t i_field = add(&table, &guess);
    begin(&table, "a/more.tab");
    add(&table, &guess);
    assert_int_equal(table.fake.n_restated, 0);
    begin(&table, "b/two.tab");
    guess.is_unseen = false;
    guess.type = PST_FIELD_IMAGE;
    assert_int_equal(add(&table, &guess), i_field);
    assert_int_equal(table.fake.n_restated, 1);
    assert_int_equal(table.fake.fields[0].type, PST_FIELD_IMAGE);
    assert_int_equal(psti_containers_columns_type(table.columns, i_field), PST_FIELD_IMAGE);
    /* From here on the field is an image. */
    begin(&table, "b/two.tab");
    guess.type = PST_FIELD_AUDIO;
    add_fails(&table, &guess, PST_ERROR_CORRUPT, "\"x\" has another type");
    begin(&table, "b/two.tab");
    guess.type = PST_FIELD_INT;
    add_fails(&table, &guess, PST_ERROR_CORRUPT, "\"x\" has another type");
    psti_containers_columns_close(&table.columns);
}

static void columns_without_values_come_late_or_never(void **state)
{
    (void)state;
    static const struct psti_field_rule rules[] = {
        {.suffix = "no", .is_left_out = true}, {.suffix = "named", .field = "n"}};
    struct table table;
    open_noting(&table, rules, 2);
    begin(&table, "a/one.tab");
    add_type(&table, "id", PST_FIELD_INT);
    said(&table, "id:int;id?;");
    add_empty(&table, "no");
    psti_containers_columns_leave_out(table.columns, "x.tab", "no", "it is a map");
    said(&table, "");
    psti_containers_columns_leave_out(table.columns, "x.tab", "m", "it is a map");
    psti_containers_columns_note_rows(table.columns, "notes", 0, NULL);
    psti_containers_columns_note_rows(table.columns, "notes", 7, "k");
    said(&table, "column_left_out m 1 it is a map -;rows_left_out notes 7 - k;");
    add_empty(&table, "text");
    add_empty(&table, "f");
    add_empty(&table, "never");
    add_empty(&table, "named");
    said(&table, "column_left_out text 1 it has no values -;column_left_out f 1 it has no values -;"
                 "column_left_out never 1 it has no values -;"
                 "column_left_out named 1 it has no values -;");
    check(&table, psti_containers_columns_row(table.columns, "r", NULL, 0, &table.err));
    /* The next file has values in some of these columns. A column with values in an earlier file
     * may have none here. */
    begin(&table, "b/two.tab");
    add_empty(&table, "id");
    add_type(&table, "text", PST_FIELD_TEXT);
    add_type(&table, "f", PST_FIELD_FLOAT);
    add_empty(&table, "never");
    said(&table, "r;text:text;column_left_out text 0 - -;"
                 "f:float;column_left_out f 0 - -;f?;column_left_out never 1 it has no values -;");
    add_fails(&table, &(struct psti_column){.name = "strange", .type = PST_FIELD_TEXT},
              PST_ERROR_CORRUPT, "those before it have none");
    assert_int_equal(psti_containers_columns_finish(table.columns, &table.err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(table.err.text, "\"named\" has no value in any file"));
    begin(&table, "c/three.tab");
    add_type(&table, "named", PST_FIELD_INT);
    check(&table, psti_containers_columns_finish(table.columns, &table.err));
    psti_containers_columns_close(&table.columns);
}

static void values_are_checked(void **state)
{
    (void)state;
    struct table table;
    open_table(&table, NULL, 0);
    begin(&table, "one.tab");
    uint32_t label =
        add(&table, &(struct psti_column){.name = "l", .type = PST_FIELD_INT, .n_classes = 2});
    uint32_t array = add(&table, &(struct psti_column){.name = "v",
                                                       .type = PST_FIELD_ARRAY,
                                                       .dtype = PST_DTYPE_F32,
                                                       .ndim = 2,
                                                       .shape = {2, 3}});
    for (int64_t k = -2; k < 4; k += k == -2 ? 2 : 1) {
        struct psti_container_value value = {.i_field = label, .int_value = k};
        if (k == 0 || k == 1)
            row(&table, NULL, &value, 1);
        else
            row_fails(&table, &value, 1, PST_ERROR_CORRUPT, "there are the classes 0 to 1");
    }
    struct psti_container_value value = {
        .i_field = array, .nbytes = 24, .decoded_nbytes = 24, .ndim = 2, .shape = {2, 3}};
    row(&table, NULL, &value, 1);
    assert_int_equal(table.fake.n_restated, 0);
    value.decoded_nbytes = 23;
    row_fails(&table, &value, 1, PST_ERROR_CORRUPT, "not those of its shape in float32");
    value.decoded_nbytes = 24;
    value.shape[0] = value.shape[1] = UINT32_MAX;
    row_fails(&table, &value, 1, PST_ERROR_CORRUPT, "not those of its shape in float32");
    value.ndim = PST_MAX_NDIM + 1;
    row_fails(&table, &value, 1, PST_ERROR_CORRUPT, "not those of its shape in float32");
    value.ndim = 2;
    value.shape[0] = 3;
    value.shape[1] = 2;
    row(&table, NULL, &value, 1);
    assert_int_equal(table.fake.n_restated, 1);
    value.i_field = 63;
    row_fails(&table, &value, 1, PST_ERROR_INTERNAL, "no field");
    assert_string_equal(table.err.file, "one.tab");
    psti_containers_columns_close(&table.columns);
}

static void there_are_64_fields_at_most(void **state)
{
    (void)state;
    struct table table;
    char name[16];
    open_table(&table, NULL, 0);
    table.fake.first_number = 0;
    begin(&table, "b/two.tab");
    for (int i = 0; i < PST_MAX_FIELDS; i++) {
        snprintf(name, sizeof name, "c%d", i);
        add_type(&table, name, PST_FIELD_INT);
    }
    add_fails(&table, &(struct psti_column){.name = "last", .type = PST_FIELD_INT}, PST_ERROR_LIMIT,
              "fields={\"last\": None}");
    psti_containers_columns_close(&table.columns);
}

static void rows_have_names(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint64_t i;
        const char *name;
    } names[] = {
        {"/d/train-00000-of-00002.parquet", 17, "train-00000-of-00002/00000017"},
        {"a.b.mds", 0, "a.b/00000000"},
        {"x/mnist-train.tfrecord-00003-of-00010", 5,
         "mnist-train.tfrecord-00003-of-00010/00000005"},
        {"x.y/noend", 123456789, "noend/123456789"},
        {".hidden", 1, ".hidden/00000001"},
        {"a.rec", UINT64_MAX, "a/18446744073709551615"},
    };
    char name[PST_NAME_CAP], path[2 * PST_NAME_CAP];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        psti_containers_columns_row_name(names[i].path, names[i].i, name);
        assert_string_equal(name, names[i].name);
    }
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    psti_containers_columns_row_name(path, UINT64_MAX, name);
    assert_int_equal(strlen(name), PST_NAME_CAP - 1);
    assert_string_equal(name + PST_NAME_CAP - 22, "/18446744073709551615");
}

static void memory_may_be_lacking_anywhere(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    const struct psti_column column = {.name = "a", .type = PST_FIELD_INT};
    struct pst_memory_stats before, after;
    uint64_t n = 0;
    pst_memory_stats(&before, sizeof before);
    for (enum pst_status status = PST_ERROR_MEMORY; status != PST_OK;) {
        struct fake fake = {0};
        struct psti_field_sink sink = {.field = fake_field,
                                       .writer = (struct psti_containers_writer *)(void *)&fake};
        struct psti_containers_columns *columns = NULL;
        struct pst_error err;
        uint32_t i_field;
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        status = psti_containers_columns_open(NULL, 0, &sink, &columns, &err);
        if (status == PST_OK)
            status = psti_containers_columns_file(columns, "a.tab", &err);
        if (status == PST_OK)
            status = psti_containers_columns_add(columns, &column, &i_field, &err);
        if (status == PST_OK)
            status = psti_containers_columns_empty(columns, "a.tab", "b", &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        psti_containers_columns_close(&columns);
        if (status != PST_OK)
            assert_int_equal(status, PST_ERROR_MEMORY);
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
    }
    assert_true(n > 4);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_become_fields_and_rows_samples),
        cmocka_unit_test(rules_name_type_and_leave_out),
        cmocka_unit_test(a_rule_changes_only_what_bytes_can_be),
        cmocka_unit_test(bad_rules_are_refused),
        cmocka_unit_test(files_must_agree),
        cmocka_unit_test(names_of_classes_are_checked),
        cmocka_unit_test(hidden_labels_have_no_classes),
        cmocka_unit_test(guesses_without_values_follow),
        cmocka_unit_test(a_type_may_come_after_files_without_values),
        cmocka_unit_test(columns_without_values_come_late_or_never),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(there_are_64_fields_at_most),
        cmocka_unit_test(rows_have_names),
        cmocka_unit_test(memory_may_be_lacking_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
