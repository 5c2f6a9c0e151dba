/* test_containers_parquet.c - does the walk give the rows of files of several libraries as pyarrow
 * reads them, and refuse, with a named reason, what it cannot read? */
#include "test.h"

#include "parquet_helper.h"

#include "base/bits.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

static const char *folder;

static void rows_are_those_of_the_listings(void **state)
{
    static const char *const names[] = {
        "pyarrow_default",   "pyarrow_plain",        "pyarrow_v2_zstd", "pyarrow_v2_none",
        "pyarrow_encodings", "pyarrow_fallback",     "pyarrow_lists",   "pyarrow_lists_snappy",
        "pyarrow_empty",     "pyarrow_empty_groups", "legacy_lists",    "datasets",
        "datasets_hidden",   "polars_zstd",          "polars_snappy",   "polars_uncompressed",
        "duckdb_snappy",     "duckdb_zstd",          "duckdb_v2",       "fastparquet_snappy",
        "fastparquet_none",
    };
    (void)state;
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct psti_walk_counts counts;
        struct pst_error err;
        parquet_open(file, folder, names[i]);
        enum pst_status status = parquet_walk(file, file->nbytes, NULL, 0, &counts, &err);
        if (status != PST_OK)
            fail_msg("%s: %s", names[i], err.text);
        parquet_check(file, folder, names[i]);
        assert_int_equal(counts.n_samples, file->n_rows);
        assert_int_equal(counts.n_members, file->n_rows);
        parquet_close(file);
    }
    free(file);
}

/* Walks over a file with rules. Returns the status. */
static enum pst_status walk(struct parquet_file *file, const char *name,
                            const struct psti_field_rule *rules, uint32_t n, struct pst_error *err)
{
    struct psti_walk_counts counts;
    parquet_open(file, folder, name);
    return parquet_walk(file, file->nbytes, rules, n, &counts, err);
}

static void what_is_not_read_is_refused_by_name(void **state)
{
    static const struct {
        const char *name, *column, *text;
        enum pst_status status;
        bool is_whole; /* the file is refused before the first row */
    } cases[] = {
        {"refused_gzip", "image", "GZIP", PST_ERROR_UNSUPPORTED, true},
        {"refused_brotli", "image", "BROTLI", PST_ERROR_UNSUPPORTED, true},
        {"refused_lz4", "image", "LZ4_RAW", PST_ERROR_UNSUPPORTED, true},
        {"refused_int96", "at", "INT96", PST_ERROR_UNSUPPORTED, true},
        {"refused_decimal", "price", "decimal", PST_ERROR_UNSUPPORTED, true},
        {"refused_delta", "text", "DELTA_BYTE_ARRAY", PST_ERROR_UNSUPPORTED, true},
        {"refused_outside", "image", "row 1 has a path and no bytes", PST_ERROR_UNSUPPORTED, false},
        {"refused_lengths", "images_0", "row 1 has not as many items", PST_ERROR_UNSUPPORTED,
         false},
        {"refused_null", "emb", "row 1 has a null", PST_ERROR_UNSUPPORTED, false},
        {"refused_u64", "u", "row 1 has a number of 2^63", PST_ERROR_UNSUPPORTED, false},
        {"refused_long", "emb", "row 0 is long", PST_ERROR_UNSUPPORTED, true},
    };
    (void)state;
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pst_error err;
        enum pst_status status = walk(file, cases[i].name, NULL, 0, &err);
        if (status != cases[i].status || strstr(err.text, cases[i].text) == NULL)
            fail_msg("%s: %s: %s", cases[i].name, pst_status_name(status), err.text);
        assert_string_equal(err.file, "a/train.parquet");
        assert_int_equal(file->n_rows, cases[i].is_whole ? 0 : 1);
        char column[64];
        snprintf(column, sizeof column, "column \"%.*s\"", (int)strcspn(cases[i].column, "_"),
                 cases[i].column);
        if (strstr(err.text, column) == NULL)
            fail_msg("%s: %s has no %s", cases[i].name, err.text, column);
        parquet_close(file);
        /* Without the refused column the file is read. */
        struct psti_field_rule rules[2] = {{.suffix = cases[i].column, .is_left_out = true},
                                           {.suffix = "images_1", .is_left_out = true}};
        assert_ok(walk(file, cases[i].name, rules, 2, &err));
        assert_true(file->n_rows > 0);
        parquet_close(file);
    }
    free(file);
}

static void rules_decide_about_columns(void **state)
{
    (void)state;
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(file);
    struct pst_error err;
    const struct psti_field_rule rules[] = {
        {.suffix = "png", .type = PST_FIELD_MASK, .field = "mask"},
        {.suffix = "label", .type = PST_FIELD_INT, .n_classes = 3},
        {.suffix = "blob", .type = PST_FIELD_TEXT},
        {.suffix = "sound", .is_left_out = true},
    };
    assert_ok(walk(file, "pyarrow_default", rules, 4, &err));
    uint32_t n = 0;
    for (uint32_t i = 0; i < file->n_fields; i++) {
        const struct pst_field *field = &file->fields[i];
        assert_string_not_equal(field->name, "sound");
        assert_string_not_equal(field->name, "png");
        n += strcmp(field->name, "mask") == 0 && field->type == PST_FIELD_MASK;
        n += strcmp(field->name, "blob") == 0 && field->type == PST_FIELD_TEXT;
        n += strcmp(field->name, "label") == 0 && field->n_classes == 3;
    }
    assert_int_equal(n, 3);
    parquet_close(file);
    /* A rule for a column that became no field is an error, and the log says why. */
    const struct psti_field_rule words = {.suffix = "words", .type = PST_FIELD_TEXT};
    assert_int_equal(walk(file, "pyarrow_default", &words, 1, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "words"));
    parquet_close(file);
    free(file);
}

struct log {
    char text[8192];
};

static void take_log(void *context, enum pst_log_level level, const char *room, const char *text)
{
    struct log *log = context;
    size_t n = strlen(log->text);
    (void)level;
    (void)room;
    snprintf(log->text + n, sizeof log->text - n, "%s\n", text);
}

static void the_log_names_what_is_left_out(void **state)
{
    static const char *const lines[] = {
        "\"nothing\" is left out: it has no values",
        "\"nested\" is left out: it is a struct or a map",
        "\"map\" is left out: it is a struct or a map",
        "\"words\" is left out: it is a list of values that are no numbers",
        "\"tables\" is left out: it is a list of lists",
    };
    (void)state;
    struct log *log = calloc(1, sizeof *log);
    struct parquet_file *file = malloc(sizeof *file);
    assert_non_null(log);
    assert_non_null(file);
    struct pst_error err;
    pst_set_log(take_log, log, PST_LOG_WARNING);
    assert_ok(walk(file, "pyarrow_default", NULL, 0, &err));
    pst_set_log(NULL, NULL, PST_LOG_ERROR);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(log->text, lines[i]) == NULL)
            fail_msg("%s has no %s", log->text, lines[i]);
    parquet_close(file);
    free(file);
    free(log);
}

/* Replaces the contents of the file by those of a text, walks, and expects this error. */
static void assert_no_parquet(const char *bytes, size_t nbytes, enum pst_status status,
                              const char *text)
{
    struct parquet_file *file = calloc(1, sizeof *file);
    assert_non_null(file);
    struct psti_walk_counts counts;
    struct pst_error err;
    file->bytes = malloc(nbytes + 1);
    assert_non_null(file->bytes);
    memcpy(file->bytes, bytes, nbytes);
    file->nbytes = nbytes;
    assert_int_equal(parquet_walk(file, nbytes, NULL, 0, &counts, &err), status);
    if (strstr(err.text, text) == NULL)
        fail_msg("\"%s\" has no \"%s\"", err.text, text);
    parquet_close(file);
    free(file);
}

static void other_files_are_told_apart(void **state)
{
    (void)state;
    assert_no_parquet("", 0, PST_ERROR_CORRUPT, "too short");
    assert_no_parquet("PAR1PAR1", 8, PST_ERROR_CORRUPT, "too short");
    assert_no_parquet("PAR1\0\0\0\0\0\0\0\0PARE", 16, PST_ERROR_UNSUPPORTED, "encrypted");
    assert_no_parquet("PARE\0\0\0\0\0\0\0\0PARE", 16, PST_ERROR_UNSUPPORTED, "encrypted");
    assert_no_parquet("PK\3\4\0\0\0\0\0\0\0\0PAR1", 16, PST_ERROR_CORRUPT, "no Parquet file");
    assert_no_parquet("PAR1\0\0\0\0\0\0\0\0PAR2", 16, PST_ERROR_TRUNCATED, "does not end");
    assert_no_parquet("PAR1\0\0\0\0\x05\0\0\0PAR1", 16, PST_ERROR_CORRUPT, "more than the file");
    assert_no_parquet("PAR1\0\0\0\0\x04\0\0\0PAR1", 16, PST_ERROR_CORRUPT, "lacks the schema");
    assert_no_parquet("PAR1\0\0\0\0\0\0\0\0PAR1", 16, PST_ERROR_CORRUPT, "damaged");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_listings),
        cmocka_unit_test(what_is_not_read_is_refused_by_name),
        cmocka_unit_test(rules_decide_about_columns),
        cmocka_unit_test(the_log_names_what_is_left_out),
        cmocka_unit_test(other_files_are_told_apart),
    };
    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
