/* test_containers_arrow.c - are Arrow files read as pyarrow reads them, and are those that cannot
 * be read refused? tests/golden/containers/arrow/make_arrow.py writes the files and listings. */
#include "test.h"

#include "arrow_helper.h"

#include "base/fault.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

#define FOLDER PST_GOLDEN "/containers/arrow/"

static uint8_t *read_golden(const char *name, size_t *nbytes)
{
    char path[1024];
    snprintf(path, sizeof path, FOLDER "%s", name);
    uint8_t *bytes = arrow_read_file(path, nbytes);
    if (bytes == NULL)
        print_error("cannot read %s\n", path);
    assert_non_null(bytes);
    return bytes;
}

/* Compares the listing of a golden file with pyarrow's. */
static void check_golden(const char *name)
{
    char text_name[256];
    struct arrow_walk walk = {.path = name};
    struct pst_error err;
    size_t n_want = 0;
    uint8_t *bytes = read_golden(name, &walk.nbytes);
    walk.bytes = bytes;
    snprintf(text_name, sizeof text_name, "%.*s.txt", (int)(strrchr(name, '.') - name), name);
    char *want = (char *)read_golden(text_name, &n_want);
    want[n_want] = '\0';
    assert_ok(arrow_walk(&walk, NULL, 0, &err));
    char *got = arrow_listing(&walk);
    if (strcmp(got, want) != 0) {
        size_t i = 0;
        while (got[i] == want[i])
            i++;
        while (i > 0 && got[i - 1] != '\n')
            i--;
        print_error("%s:\n got: %.400s\nwant: %.400s\n", name, got + i, want + i);
    }
    assert_string_equal(got, want);
    assert_false(walk.has_bad_value);
    assert_int_equal(walk.counts.n_samples, walk.n_rows);
    free(got);
    free(want);
    arrow_free(&walk);
    free(bytes);
}

static void numbers(void **state)
{
    (void)state;
    check_golden("numbers.arrow");
    check_golden("numbers_old.arrow");
    check_golden("numbers_lz4.arrow");
    check_golden("numbers_zstd.arrow");
}

static void bytes_texts_and_arrays(void **state)
{
    (void)state;
    check_golden("values.arrow");
    check_golden("values_lz4.arrow");
    check_golden("values_zstd.arrow");
    check_golden("slices.arrow");
}

static void views(void **state)
{
    (void)state;
    check_golden("views.arrow");
    check_golden("views_zstd.arrow");
}

static void dictionaries(void **state)
{
    (void)state;
    check_golden("dictionaries.arrow");
    check_golden("dictionaries_zstd.arrow");
    check_golden("deltas.arrow");
    check_golden("replaced.arrow");
    check_golden("small.arrow");
}

static void files_of_polars(void **state)
{
    (void)state;
    check_golden("polars_uncompressed.arrow");
    check_golden("polars_lz4.arrow");
    check_golden("polars_zstd.arrow");
}

static void files_of_datasets(void **state)
{
    (void)state;
    check_golden("saved/data-00000-of-00002.arrow");
    check_golden("saved/data-00001-of-00002.arrow");
    check_golden("dict/train/data-00000-of-00001.arrow");
    check_golden("dict/test/data-00000-of-00001.arrow");
}

/* Walks over a golden file and compares the status and the error text. */
static void assert_ends(const char *name, const struct psti_field_rule *rules, uint32_t n_rules,
                        enum pst_status status, const char *text)
{
    struct arrow_walk walk = {0};
    struct pst_error err = {0};
    uint8_t *bytes = read_golden(name, &walk.nbytes);
    walk.bytes = bytes;
    enum pst_status got = arrow_walk(&walk, rules, n_rules, &err);
    if (got != status || (text != NULL && strstr(err.text, text) == NULL))
        print_error("%s: %s\n", pst_status_name(got), err.text);
    assert_int_equal(got, status);
    if (text != NULL)
        assert_non_null(strstr(err.text, text));
    arrow_free(&walk);
    free(bytes);
}

static void a_picture_that_lies_elsewhere_is_refused(void **state)
{
    (void)state;
    assert_ends("outside.arrow", NULL, 0, PST_ERROR_UNSUPPORTED,
                "row 1: the column 'image' has no bytes, only the path 'elsewhere/1.jpg'");
    static const struct psti_field_rule rule = {.suffix = "image", .is_left_out = true};
    assert_ends("outside.arrow", &rule, 1, PST_ERROR_ARGUMENT, "all columns");
}

static void rules_choose(void **state)
{
    (void)state;
    static const struct psti_field_rule nested = {.suffix = "left_out", .type = PST_FIELD_BYTES};
    assert_ends("values.arrow", &nested, 1, PST_ERROR_ARGUMENT, "left_out");
    static const struct psti_field_rule number = {.suffix = "image", .type = PST_FIELD_INT};
    assert_ends("values.arrow", &number, 1, PST_ERROR_ARGUMENT, "image");
    static const struct psti_field_rule raw = {.suffix = "image", .type = PST_FIELD_BYTES};
    assert_ends("values.arrow", &raw, 1, PST_OK, NULL);
    static const struct psti_field_rule absent = {.suffix = "absent", .type = PST_FIELD_BYTES};
    assert_ends("values.arrow", &absent, 1, PST_ERROR_ARGUMENT, "absent");
}

/* The file has no features of `datasets` in it; they are in another file beside it. */
static void features_may_stand_beside_the_file(void **state)
{
    (void)state;
    static const char notes[] = "{\"features\": {\"uint8\": {\"_type\": \"ClassLabel\", \"names\": "
                                "[\"a\"]}, \"text\": {\"_type\": \"Json\"}}}";
    struct arrow_walk walk = {.notes = {notes, sizeof notes - 1, "dataset_info.json"}};
    struct pst_error err = {0};
    uint8_t *bytes = read_golden("numbers.arrow", &walk.nbytes);
    walk.bytes = bytes;
    /* The column has values that are no classes of this list. */
    assert_int_equal(arrow_walk(&walk, NULL, 0, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "classes"));
    arrow_free(&walk);
    walk.notes = (struct psti_table_notes){"{", 1, "dataset_info.json"};
    assert_int_equal(arrow_walk(&walk, NULL, 0, &err), PST_ERROR_CORRUPT);
    assert_string_equal(err.file, "dataset_info.json");
    arrow_free(&walk);
    free(bytes);
}

static void assert_text_ends(const char *text, size_t nbytes, enum pst_status status,
                             const char *cause)
{
    struct arrow_walk walk = {.bytes = (const uint8_t *)text, .nbytes = nbytes};
    struct pst_error err = {0};
    assert_int_equal(arrow_walk(&walk, NULL, 0, &err), status);
    if (strstr(err.text, cause) == NULL)
        print_error("%s\n", err.text);
    assert_non_null(strstr(err.text, cause));
    assert_string_equal(err.file, "a.arrow");
    arrow_free(&walk);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    assert_text_ends("", 0, PST_ERROR_CORRUPT, "empty");
    assert_text_ends("PAR1 and more of this", 21, PST_ERROR_CORRUPT, "no file of Arrow");
    assert_text_ends("FEA1 and more of this", 21, PST_ERROR_UNSUPPORTED, "Feather");
    assert_text_ends("ARROW1\0\0", 8, PST_ERROR_TRUNCATED, "before its footer");
    assert_text_ends("ARROW1\0\0 and then nothing of it", 31, PST_ERROR_TRUNCATED, "footer");
    assert_text_ends("\xff\xff\xff\xff\0\0\0\0", 8, PST_ERROR_CORRUPT, "no schema");
    assert_text_ends("\0\0\0\0", 4, PST_ERROR_CORRUPT, "no schema");
    assert_text_ends("\xff\xff\xff\xff\xff\xff\xff\xff", 8, PST_ERROR_CORRUPT, "negative");
}

static void a_stream_may_lack_its_end(void **state)
{
    (void)state;
    struct arrow_walk walk = {0};
    struct pst_error err = {0};
    uint8_t *bytes = read_golden("numbers_old.arrow", &walk.nbytes);
    walk.bytes = bytes;
    assert_ok(arrow_walk(&walk, NULL, 0, &err));
    assert_false(walk.counts.has_no_end);
    uint64_t n_rows = walk.n_rows;
    arrow_free(&walk);
    walk.nbytes -= 4; /* the old format ends with 4 bytes */
    assert_ok(arrow_walk(&walk, NULL, 0, &err));
    assert_true(walk.counts.has_no_end);
    assert_int_equal(walk.n_rows, n_rows);
    arrow_free(&walk);
    walk.nbytes -= 4;
    assert_int_equal(arrow_walk(&walk, NULL, 0, &err), PST_ERROR_TRUNCATED);
    assert_non_null(strstr(err.text, "18 rows before it are whole"));
    arrow_free(&walk);
    free(bytes);
}

/* Walks with a rule that takes only one column of refused.arrow, and expects this error. */
static void assert_refused(const char *column, enum pst_status status, const char *cause)
{
    static const char *const columns[] = {"big",      "holes", "grid", "photos_0",
                                          "photos_1", "text",  "word"};
    struct psti_field_rule rules[8];
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (strncmp(columns[i], column, strlen(column)) != 0)
            rules[n++] = (struct psti_field_rule){.suffix = columns[i], .is_left_out = true};
    assert_ends("refused.arrow", rules, n, status, cause);
}

static void wrong_values_are_refused(void **state)
{
    (void)state;
    assert_refused("big", PST_ERROR_UNSUPPORTED, "9223372036854775808");
    assert_refused("holes", PST_ERROR_CORRUPT, "row 3: the array of the column 'holes' lacks an");
    assert_refused("grid", PST_ERROR_CORRUPT, "row 4: the array of the column 'grid' is not of");
    assert_refused("photos", PST_ERROR_UNSUPPORTED, "row 2: the list of the column 'photos' has 1");
    assert_refused("text", PST_OK, NULL);
    assert_refused("word", PST_OK, NULL);
}

/* Replaces the only occurrence of some bytes in the file, walks, and restores the bytes. */
static void assert_patched(const void *from, const void *to, size_t n, enum pst_status status,
                           const char *want)
{
    struct arrow_walk walk = {.path = "small.arrow"};
    struct pst_error err = {0};
    uint8_t *bytes = read_golden("small.arrow", &walk.nbytes);
    size_t at = walk.nbytes, n_found = 0;
    for (size_t i = 0; i + n <= walk.nbytes; i++)
        if (memcmp(bytes + i, from, n) == 0) {
            at = i;
            n_found++;
        }
    assert_int_equal(n_found, 1);
    memcpy(bytes + at, to, n);
    walk.bytes = bytes;
    assert_int_equal(arrow_walk(&walk, NULL, 0, &err), status);
    char *got = arrow_listing(&walk);
    const char *where = status == PST_OK ? got : err.text;
    if (strstr(where, want) == NULL)
        print_error("'%s' is not in: %s\n", want, where);
    assert_non_null(strstr(where, want));
    free(got);
    arrow_free(&walk);
    free(bytes);
}

static void bits_say_what_is_missing(void **state)
{
    (void)state;
    static const uint64_t node[] = {5, 2}, none[] = {5, 0}, all[] = {5, UINT64_MAX};
    /* The walk ignores the number of nulls and uses the validity bits. */
    assert_patched(node, none, sizeof node, PST_OK, "small/00000001 word=1/8cdc1683\n");
    assert_patched(node, all, sizeof node, PST_OK, "small/00000001 word=1/8cdc1683\n");
    /* Nulls without validity bits are wrong: the buffer of bits has 1 byte at offset 0. */
    static const uint64_t bits[] = {0, 1}, no_bits[] = {0, 0};
    assert_patched(bits, no_bits, sizeof bits, PST_ERROR_CORRUPT, "no bits that say");
}

static void wrong_offsets_are_noticed(void **state)
{
    (void)state;
    static const int32_t offsets[] = {0, 1, 1, 3, 3, 4}, falling[] = {0, 1, 0, 3, 3, 4};
    static const int32_t far[] = {0, 1, 1, 3, 3, 400}, negative[] = {-1, 1, 1, 3, 3, 4};
    assert_patched(offsets, falling, sizeof offsets, PST_OK, "text");
    static const int32_t back[] = {0, 1, 1, 0, 3, 4};
    assert_patched(offsets, back, sizeof offsets, PST_ERROR_CORRUPT, "ends before it begins");
    assert_patched(offsets, far, sizeof offsets, PST_ERROR_CORRUPT, "leads out of its buffer");
    assert_patched(offsets, negative, sizeof offsets, PST_ERROR_CORRUPT, "negative offset");
    static const uint8_t indices[] = {2, 0, 1, 2, 0, 0, 0, 0}, wrong[] = {2, 0, 1, 3, 0, 0, 0, 0};
    static const uint8_t below[] = {2, 0xff, 1, 2, 0, 0, 0, 0};
    assert_patched(indices, wrong, sizeof indices, PST_ERROR_CORRUPT,
                   "value 3 of a dictionary is asked for, which has 3");
    assert_patched(indices, below, sizeof indices, PST_ERROR_CORRUPT, "value -1 of a dictionary");
}

/* Makes a stream of one schema message, whose only member is the byte order. */
static void old_and_foreign_schemas_are_refused(void **state)
{
    (void)state;
    static const uint8_t schema[] = {
        0xff, 0xff, 0xff, 0xff, 48, 0, 0,  0, 16, 0, 0, 0,  /* offset of the message's table */
        12,   0,    12,   0,    8,  0, 10, 0, 4,  0, 0, 0,  /* its vtable */
        12,   0,    0,    0,    16, 0, 0,  0, 4,  0, 1, 0,  /* header, version, kind */
        6,    0,    8,    0,    4,  0, 0,  0,               /* vtable of the schema */
        8,    0,    0,    0,    1,  0, 0,  0, 0,  0, 0, 0}; /* big-endian */
    enum { VERSION = 8 + 24, ORDER = 8 + 40 };
    char bytes[sizeof schema];
    _Static_assert(sizeof schema == 56, "lengths and a message of 48 bytes");
    memcpy(bytes, schema, sizeof schema);
    assert_text_ends(bytes, sizeof bytes, PST_ERROR_UNSUPPORTED, "big-endian");
    bytes[ORDER] = 0;
    assert_text_ends(bytes, sizeof bytes, PST_ERROR_CORRUPT, "no column");
    bytes[VERSION] = 2;
    assert_text_ends(bytes, sizeof bytes, PST_ERROR_UNSUPPORTED, "before 0.8");
    bytes[VERSION] = 5;
    assert_text_ends(bytes, sizeof bytes, PST_ERROR_UNSUPPORTED, "newer than this program");
    bytes[8 + 26] = 9; /* changes the kind of the message */
    bytes[VERSION] = 4;
    assert_text_ends(bytes, sizeof bytes, PST_ERROR_CORRUPT, "does not begin with a schema");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(bytes_texts_and_arrays),
        cmocka_unit_test(views),
        cmocka_unit_test(dictionaries),
        cmocka_unit_test(files_of_polars),
        cmocka_unit_test(files_of_datasets),
        cmocka_unit_test(a_picture_that_lies_elsewhere_is_refused),
        cmocka_unit_test(rules_choose),
        cmocka_unit_test(features_may_stand_beside_the_file),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(a_stream_may_lack_its_end),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(bits_say_what_is_missing),
        cmocka_unit_test(wrong_offsets_are_noticed),
        cmocka_unit_test(old_and_foreign_schemas_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
