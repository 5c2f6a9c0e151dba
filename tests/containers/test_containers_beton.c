/* test_containers_beton.c - does the walk over a beton file give what FFCV's reader gives, for any
 * fields side by side, and does it refuse a file that its writer did not finish? */
#include "test.h"

#include "rows_helper.h"

#include "containers/beton/containers_beton.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

static const char *folder;
#define WALK psti_containers_beton_walk

enum { HEADER = 24, FIELD = 1041, ARGUMENTS = 17, TYPE_LENGTH = 17 + 256, DESCRIPTION = 17 + 264 };

static uint8_t *field_of(struct rows *rows, uint32_t i)
{
    return rows->bytes + HEADER + (size_t)i * FIELD;
}

static uint8_t *records_of(struct rows *rows)
{
    return field_of(rows, psti_load_u16(rows->bytes + 2));
}

static void walks_give_what_ffcv_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"jpegs",         "images_only", "pixels",
                                        "pixels_ragged", "every",       "empty_first"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rows rows;
        char file[64], list[64];
        snprintf(file, sizeof file, "%s.beton", names[i]);
        snprintf(list, sizeof list, "%s.txt", names[i]);
        rows_open(&rows, folder, file);
        rows_assert_list(&rows, WALK, folder, list);
        rows_close(&rows);
    }
}

static void a_field_of_jpegs_and_pixels_is_refused_with_its_sample(void **state)
{
    (void)state;
    static const struct psti_field_rule none = {.suffix = "image", .is_left_out = true};
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "smart.beton");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED,
                      "field \"image\" of sample 2 is stored in another way than those before it");
    assert_ok(rows_walk(&rows, WALK, NULL, &none, 1, &err));
    assert_int_equal(rows.n_samples, 4);
    assert_string_equal(rows.text, "smart/00000000: label=0\nsmart/00000001: label=1\n"
                                   "smart/00000002: label=2\nsmart/00000003: label=3\n");
    rows_close(&rows);
}

static void what_cannot_be_read_is_refused_by_name(void **state)
{
    (void)state;
    static const struct psti_field_rule none = {.suffix = "mine", .is_left_out = true};
    struct rows rows;
    rows_open(&rows, folder, "custom.beton");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED,
                      "the field \"mine\" is of a class of its writer's own");
    /* A rule that leaves the field out does not help, because the length of records stays
     * unknown. */
    rows_assert_fails(&rows, WALK, &none, 1, PST_ERROR_UNSUPPORTED, "a class of its writer's own");
    rows_close(&rows);
    rows_open(&rows, folder, "cut_names.beton");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT,
                      "the file has two columns of the name \"label_of_the_lef\"");
    rows_close(&rows);
    rows_open(&rows, folder, "records.beton");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED,
                      "the field \"mine\" holds arrays of records of several members");
    rows_close(&rows);
}

static void a_name_that_may_be_cut_is_said(void **state)
{
    (void)state;
    struct rows rows;
    struct pst_error err;
    rows_keep_log();
    rows_open(&rows, folder, "every.beton");
    assert_ok(rows_walk(&rows, WALK, NULL, NULL, 0, &err));
    assert_non_null(strstr(rows_log, "the name of \"sixteen_letters_\" may have been longer"));
    assert_null(strstr(rows_log, "\"label\""));
    rows_close(&rows);
}

static void files_that_are_not_whole_are_told(void **state)
{
    (void)state;
    struct rows rows;
    rows_open(&rows, folder, "unfinished.beton");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_TRUNCATED,
                      "the writer of FFCV did not finish the file");
    rows_close(&rows);
    rows_open(&rows, folder, "jpegs.beton");
    size_t nbytes = rows.nbytes;
    rows.nbytes -= 1;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_TRUNCATED, "within its table of allocations");
    rows.nbytes = nbytes - 24;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT,
                      "has no size in the table of allocations at the file's end");
    rows.nbytes = (size_t)psti_load_u64(rows.bytes + 16) - 1;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_TRUNCATED, "the file was cut");
    rows.nbytes = 23;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "too short");
    rows_close(&rows);
}

/* A change to the bytes of the file whose fields are image and label. */
struct change {
    int from; /* base of `offset`: 0 header, 1 first field, 2 first record, 3 second record */
    size_t offset;
    size_t n;
    uint64_t value;
    enum pst_status status;
    const char *text;
};

static void damaged_tables_are_told(void **state)
{
    (void)state;
    static const struct change changes[] = {
        {0, 0, 2, 1, PST_ERROR_UNSUPPORTED, "or one of version 1; version 2 is read"},
        {0, 2, 2, 0, PST_ERROR_CORRUPT, "has no fields"},
        {0, 2, 2, 60000, PST_ERROR_CORRUPT, "begins before the fields end"},
        {0, 8, 8, 1 << 20, PST_ERROR_CORRUPT, "begins before the samples' records end"},
        {0, 8, 8, UINT64_C(1) << 32, PST_ERROR_LIMIT, "more than 4294967295 samples"},
        {0, 16, 8, UINT64_C(1) << 60, PST_ERROR_TRUNCATED, "the file was cut"},
        {1, 0, 1, 7, PST_ERROR_CORRUPT, "is of an unknown type"},
        {1, 0, 1, 255, PST_ERROR_UNSUPPORTED, "a class of its writer's own"},
        {1, 1, 1, 0, PST_ERROR_CORRUPT, "has no name"},
        {2, 0, 1, 2, PST_ERROR_CORRUPT, "of sample 0 is neither a JPEG nor pixels"},
        {3, 5, 8, 0, PST_ERROR_CORRUPT, "of sample 1 has no size in the table"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const struct change *change = &changes[i];
        struct rows rows;
        rows_open(&rows, folder, "jpegs.beton");
        uint8_t *from = change->from == 0   ? rows.bytes
                        : change->from == 1 ? field_of(&rows, 0)
                        : change->from == 2 ? records_of(&rows)
                                            : records_of(&rows) + 24;
        memcpy(from + change->offset, &change->value, change->n);
        rows_assert_fails(&rows, WALK, NULL, 0, change->status, change->text);
        rows_close(&rows);
    }
}

static void items_lie_between_the_tables(void **state)
{
    (void)state;
    struct rows rows;
    rows_open(&rows, folder, "pixels.beton");
    uint8_t *first = records_of(&rows);
    uint64_t table = psti_load_u64(rows.bytes + 16), at = psti_load_u64(first + 5);
    psti_store_u64(first + 5, table - 575); /* the image's 12 * 16 * 3 bytes need one more */
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT,
                      "field \"image\" of sample 0 lies outside of the pages");
    psti_store_u64(first + 5, UINT64_MAX - 1);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "lies outside of the pages");
    psti_store_u64(first + 5, 24);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "lies outside of the pages");
    psti_store_u64(first + 5, at);
    psti_store_u16(first + 1, 0xffff);
    psti_store_u16(first + 3, 0xffff);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "lies outside of the pages");
    rows_close(&rows);
}

static void arrays_have_the_types_that_there_are(void **state)
{
    (void)state;
    static const struct {
        const char *description;
        enum pst_status status;
        const char *text;
    } types[] = {
        {"[[\"\", \">u2\"]]", PST_ERROR_UNSUPPORTED, "holds numbers in big-endian order"},
        {"[[\"\", \"|O\"]]", PST_ERROR_UNSUPPORTED, "holds Python objects (pickles)"},
        {"[[\"\", \"<c8\"]]", PST_ERROR_UNSUPPORTED, "holds elements that are no plain numbers"},
        {"[[\"\", \"<u2\", [2]]]", PST_ERROR_UNSUPPORTED, "holds arrays of records"},
        {"[[\"a\", \"<u2\"], [\"b\", \"<u2\"]]", PST_ERROR_UNSUPPORTED, "holds arrays of records"},
        {"[\"<u2\"]", PST_ERROR_UNSUPPORTED, "holds arrays of records"},
        {"{}", PST_ERROR_UNSUPPORTED, "holds arrays of records"},
        {"[[\"\", \"<u2\"]", PST_ERROR_CORRUPT, "has an element type that cannot be read"},
        {"", PST_ERROR_CORRUPT, "has an element type that cannot be read"},
    };
    enum { MASK = 5 }; /* number of the field mask */
    struct rows rows;
    rows_open(&rows, folder, "every.beton");
    uint8_t *field = field_of(&rows, MASK);
    assert_string_equal((const char *)field + 1, "mask");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t n = strlen(types[i].description);
        psti_store_u64(field + TYPE_LENGTH, n);
        memcpy(field + DESCRIPTION, types[i].description, n);
        rows_assert_fails(&rows, WALK, NULL, 0, types[i].status, types[i].text);
    }
    psti_store_u64(field + TYPE_LENGTH, 1024 - 264 + 1);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "an element type that is too long");
    memcpy(field + DESCRIPTION, "[[\"\", \"<u2\"]]", 13);
    psti_store_u64(field + TYPE_LENGTH, 13);
    for (int i = 0; i < 9; i++)
        psti_store_u64(field + ARGUMENTS + 8 * (size_t)i, 1);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED, "more than 8 dimensions");
    psti_store_u64(field + ARGUMENTS + 64, 0);
    for (int i = 0; i < 8; i++)
        psti_store_u64(field + ARGUMENTS + 8 * (size_t)i, 1 << 20);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "has an impossible shape");
    psti_store_u64(field + ARGUMENTS, UINT64_C(1) << 32);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "has an impossible shape");
    rows_close(&rows);
}

static void rules_name_and_leave_out_fields(void **state)
{
    (void)state;
    static const struct psti_field_rule rules[] = {
        {.suffix = "text", .field = "caption", .type = PST_FIELD_TEXT},
        {.suffix = "right", .is_left_out = true},
        {.suffix = "label", .type = PST_FIELD_INT, .n_classes = 0},
    };
    static const struct psti_field_rule absent = {.suffix = "centre", .type = PST_FIELD_BYTES};
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "every.beton");
    assert_ok(rows_walk(&rows, WALK, NULL, rules, 3, &err));
    assert_int_equal(rows.n_fields, 9);
    assert_string_equal(rows.fields[2].name, "caption");
    assert_int_equal(rows.fields[2].type, PST_FIELD_TEXT);
    assert_int_equal(rows_walk(&rows, WALK, NULL, &absent, 1, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "\"centre\""));
    rows_close(&rows);
}

static void damage_is_borne(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t step;
    } files[] = {{"jpegs.beton", 83}, {"every.beton", 211}, {"pixels_ragged.beton", 83}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct rows rows;
        rows_open(&rows, folder, files[i].name);
        if (i == 2)
            rows_flip(&rows, WALK); /* the file is complete even without its table */
        else
            rows_damage(&rows, WALK, files[i].step);
        rows_close(&rows);
    }
}

static void memory_may_be_lacking_anywhere(void **state)
{
    (void)state;
    struct rows rows;
    rows_open(&rows, folder, "every.beton");
    rows_lack_memory(&rows, WALK, NULL);
    rows_close(&rows);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_give_what_ffcv_reads),
        cmocka_unit_test(a_field_of_jpegs_and_pixels_is_refused_with_its_sample),
        cmocka_unit_test(what_cannot_be_read_is_refused_by_name),
        cmocka_unit_test(a_name_that_may_be_cut_is_said),
        cmocka_unit_test(files_that_are_not_whole_are_told),
        cmocka_unit_test(damaged_tables_are_told),
        cmocka_unit_test(items_lie_between_the_tables),
        cmocka_unit_test(arrays_have_the_types_that_there_are),
        cmocka_unit_test(rules_name_and_leave_out_fields),
        cmocka_unit_test(damage_is_borne),
        cmocka_unit_test(memory_may_be_lacking_anywhere),
    };
    if (argc < 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
