/* test_containers_recordio.c - does the walk over RecordIO give what MXNet reads, including records
 * in several parts, and are labels those that were written? */
#include "test.h"

#include "rows_helper.h"

#include "containers/recordio/containers_recordio.h"
#include "containers/recordio/containers_recordio_parts.h"

#include "base/bits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;
#define WALK psti_containers_recordio_walk

enum { WHOLE = 0, FIRST = 1, MIDDLE = 2, LAST = 3 };

/* Adds a part of a record to a file that a test makes. */
static void add_part(struct rows *rows, uint32_t flag, const void *data, size_t nbytes)
{
    size_t padded = (nbytes + 3) / 4 * 4;
    rows->path = "a.rec";
    rows->bytes = realloc(rows->bytes, rows->nbytes + 8 + padded);
    assert_non_null(rows->bytes);
    uint8_t *at = rows->bytes + rows->nbytes;
    psti_store_u32(at, PSTI_RECORDIO_MAGIC);
    psti_store_u32(at + 4, flag << 29 | (uint32_t)nbytes);
    memset(at + 8, 0, padded);
    memcpy(at + 8, data, nbytes);
    rows->nbytes += 8 + padded;
}

/* Adds a record of a header and a JPEG of four bytes. */
static void add_image(struct rows *rows, float label)
{
    uint8_t record[28] = {0};
    memcpy(record + 4, &label, 4);
    memcpy(record + 24, "\xff\xd8\xff\xe0", 4);
    add_part(rows, WHOLE, record, sizeof record);
}

static void walks_give_what_mxnet_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"whole",  "fractions",     "several",     "ragged",
                                        "joined", "joined_labels", "insightface", "plain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rows rows;
        char file[64], list[64];
        snprintf(file, sizeof file, "%s.rec", names[i]);
        snprintf(list, sizeof list, "%s.txt", names[i]);
        rows_open(&rows, folder, file);
        rows_assert_list(&rows, WALK, folder, list);
        rows_close(&rows);
    }
}

static void records_of_identities_are_left_out_and_said(void **state)
{
    (void)state;
    struct rows rows;
    struct pst_error err;
    rows_keep_log();
    rows_open(&rows, folder, "insightface.rec");
    assert_ok(rows_walk(&rows, WALK, NULL, NULL, 0, &err));
    assert_int_equal(rows.n_samples, 3);
    assert_non_null(strstr(rows_log, "3 records that tell about identities and have no image"));
    /* Without a leading record about identities, a record without an image is an error. */
    size_t first = 8 + 24 + 8;
    memmove(rows.bytes, rows.bytes + first, rows.nbytes - first);
    rows.nbytes -= first;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "record 3 has no image");
    rows_close(&rows);
}

static void labels_that_were_rounded_are_refused(void **state)
{
    (void)state;
    static const struct psti_field_rule none = {.suffix = "label", .is_left_out = true};
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "large_label.rec");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT,
                      "record 0 has a label of 16777216 or more, which was rounded");
    assert_ok(rows_walk(&rows, WALK, NULL, &none, 1, &err));
    assert_int_equal(rows.n_samples, 2);
    rows_close(&rows);
    const struct {
        float label;
        enum pst_field_type type; /* 0: refused */
    } labels[] = {
        {16777215, PST_FIELD_INT}, {16777216, 0}, {-16777215, PST_FIELD_INT}, {-16777216, 0},
        {0.5f, PST_FIELD_FLOAT},   {1e30f, 0},    {-0.0f, PST_FIELD_INT}};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        struct rows made = {0};
        add_image(&made, 3);
        add_image(&made, labels[i].label);
        if (labels[i].type == 0) {
            rows_assert_fails(&made, WALK, NULL, 0, PST_ERROR_CORRUPT, "record 1 has a label");
        } else {
            assert_ok(rows_walk(&made, WALK, NULL, NULL, 0, &err));
            assert_int_equal(made.fields[1].type, labels[i].type);
        }
        rows_close(&made);
    }
    /* If one label is no whole number, all labels are floats, so large ones are allowed too. */
    struct rows made = {0};
    add_image(&made, 1e30f);
    add_image(&made, -0.25f);
    assert_ok(rows_walk(&made, WALK, NULL, NULL, 0, &err));
    assert_non_null(strstr(made.text, "label=1.0000000150474662e+30\n"));
    assert_non_null(strstr(made.text, "label=-0.25\n"));
    rows_close(&made);
    for (int i = 0; i < 2; i++) {
        uint32_t bits = i == 0 ? 0x7fc00000 : 0x7f800000; /* NaN, infinity */
        float label;
        memcpy(&label, &bits, 4);
        add_image(&made, label);
        assert_ok(rows_walk(&made, WALK, NULL, NULL, 0, &err));
        assert_int_equal(made.fields[1].type, PST_FIELD_FLOAT);
        rows_close(&made);
    }
}

static void one_label_and_lists_of_labels_do_not_mix(void **state)
{
    (void)state;
    static const struct psti_field_rule none = {.suffix = "label", .is_left_out = true};
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "mixed_labels.rec");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT,
                      "record 1 has a list of labels, and those before it have one");
    assert_ok(rows_walk(&rows, WALK, NULL, &none, 1, &err));
    assert_int_equal(rows.n_fields, 1);
    rows_close(&rows);
}

static void all_records_are_of_one_kind(void **state)
{
    (void)state;
    struct rows rows = {0};
    struct pst_error err;
    add_image(&rows, 1);
    add_part(&rows, WHOLE, "text", 4);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "record 1 has no header");
    rows_close(&rows);
    add_image(&rows, 1);
    add_part(&rows, WHOLE, "a header of 24 bytes ...", 24);
    psti_store_u32(rows.bytes + rows.nbytes - 24, 0);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "record 1 has no image");
    rows_close(&rows);
    /* The header states more labels than the record has bytes. */
    add_image(&rows, 1);
    add_image(&rows, 2);
    psti_store_u32(rows.bytes + 36 + 8, UINT32_MAX);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "record 1 has no header");
    rows_close(&rows);
    /* Records that a rule takes whole may have any contents. */
    static const struct psti_field_rule text = {.suffix = "record", .type = PST_FIELD_TEXT};
    add_part(&rows, WHOLE, "text", 4);
    add_image(&rows, 1);
    assert_ok(rows_walk(&rows, WALK, NULL, &text, 1, &err));
    assert_int_equal(rows.n_samples, 2);
    assert_int_equal(rows.fields[0].type, PST_FIELD_TEXT);
    rows_close(&rows);
}

/* A writer splits a record wherever the magic number occurs in it, even within its header. */
static void a_record_may_be_cut_anywhere(void **state)
{
    (void)state;
    uint8_t record[24 + 8 + 12] = {2};
    float labels[2] = {1, 0};
    psti_store_u32(record + 8, PSTI_RECORDIO_MAGIC);
    memcpy(record + 24, labels, 4);
    psti_store_u32(record + 28, PSTI_RECORDIO_MAGIC);
    memcpy(record + 32, "\xff\xd8\xff\xe0", 4);
    psti_store_u32(record + 36, PSTI_RECORDIO_MAGIC);
    memcpy(record + 40, "tail", 4);
    struct rows joined = {0}, whole = {0};
    struct pst_error err;
    add_part(&joined, FIRST, record, 8);
    add_part(&joined, MIDDLE, record + 12, 16);
    add_part(&joined, MIDDLE, record + 32, 4);
    add_part(&joined, LAST, record + 40, 4);
    add_part(&whole, WHOLE, record, sizeof record);
    assert_ok(rows_walk(&joined, WALK, NULL, NULL, 0, &err));
    assert_ok(rows_walk(&whole, WALK, NULL, NULL, 0, &err));
    char *got = rows_list(&joined), *want = rows_list(&whole);
    assert_string_equal(got, want);
    assert_non_null(strstr(want, "image=12:"));
    free(got);
    free(want);
    rows_close(&joined);
    rows_close(&whole);
}

static void parts_that_do_not_fit_are_told(void **state)
{
    (void)state;
    static const struct {
        uint32_t flags[3];
        const char *text;
    } wrong[] = {
        {{MIDDLE, LAST, WHOLE}, "a later part of a record without its first one"},
        {{LAST, WHOLE, WHOLE}, "a later part of a record without its first one"},
        {{FIRST, WHOLE, WHOLE}, "before the parts of the one before it end"},
        {{FIRST, MIDDLE, FIRST}, "before the parts of the one before it end"},
        {{WHOLE, 4, WHOLE},
         "a later part of a record without its first one; the last whole record "
         "is number 0, at byte 0"},
        {{FIRST, 7, LAST}, "before the parts of the one before it end"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct rows rows = {0};
        for (int k = 0; k < 3; k++)
            add_part(&rows, wrong[i].flags[k], "abcd", 4);
        rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, wrong[i].text);
        rows_close(&rows);
    }
}

static void a_file_that_ends_early_names_its_last_whole_record(void **state)
{
    (void)state;
    struct rows rows = {0};
    struct pst_error err;
    rows_open(&rows, folder, "whole.rec");
    rows.nbytes -= 4;
    assert_int_equal(rows_walk(&rows, WALK, NULL, NULL, 0, &err), PST_ERROR_TRUNCATED);
    assert_non_null(
        strstr(err.text, "the file ends within a record; the last whole record is number 6"));
    rows_close(&rows);
    add_part(&rows, FIRST, "abcd", 4);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_TRUNCATED, "the file ends within a record");
    rows.nbytes = 7;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_TRUNCATED, "the file ends within a record");
    rows.nbytes = 0;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "the file is empty");
    rows.nbytes = 12;
    rows.bytes[0] ^= 1;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "no RecordIO file");
    rows_close(&rows);
    add_image(&rows, 1);
    add_image(&rows, 2);
    rows.bytes[36] ^= 1;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT,
                      "no record begins here; the last whole record is number 0, at byte 0");
    rows_close(&rows);
}

/* Walks with an index file. Returns the log messages. */
static const char *log_of(struct rows *rows, const char *index)
{
    struct psti_table_notes notes = {.bytes = index, .nbytes = strlen(index), .path = "a.idx"};
    struct pst_error err;
    rows_keep_log();
    assert_ok(rows_walk(rows, WALK, &notes, NULL, 0, &err));
    assert_int_equal(rows->n_samples, 3);
    return rows_log;
}

static void an_index_that_does_not_fit_is_said_and_not_used(void **state)
{
    (void)state;
    static const char good[] = "0 lines are no entries, 0 offsets are 18446744073709551615, 0 lie";
    static const struct {
        const char *index, *text; /* NULL: it fits the file */
    } indexes[] = {
        {"0\t0\n1\t36\n2\t72\n", NULL},
        {"b\t72\na\t0\nc\t36", NULL}, /* any order, any keys, no newline at the end */
        {"0\t0\r\n1\t36\r\n2\t72\r\n", NULL},
        {"0\t0\n1\t36\n", "1 records are not named"},
        {"0\t0\n1\t36\n1\t72\n", "1 keys came before"},
        {"0\t0\n1\t36\n2\t72\n3\t72\n", NULL},
        {"0\t0\n1\t18446744073709551615\n2\t72\n", "1 offsets are 18446744073709551615"},
        {"0\t0\n1\t37\n2\t72\n3\t108\n4\t18446744073709551614\n", "3 lie where no record begins"},
        {"0\t0\n1\t36\n2\t72\nx\n\n4\t-1\n5\t18446744073709551616\n", "4 lines are no entries"},
        {"", NULL},
        {"\n", "1 lines are no entries"},
    };
    struct rows rows = {0};
    for (int i = 0; i < 3; i++)
        add_image(&rows, (float)i);
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++) {
        const char *said = log_of(&rows, indexes[i].index);
        if (indexes[i].text == NULL)
            assert_string_equal(said, "");
        else
            assert_non_null(strstr(said, indexes[i].text));
    }
    assert_null(strstr(rows_log, good));
    rows_close(&rows);
}

static void an_index_of_mxnet_fits(void **state)
{
    (void)state;
    static const char *const names[] = {"whole", "joined", "insightface", "plain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rows rows, index;
        struct pst_error err;
        char name[64];
        snprintf(name, sizeof name, "%s.idx", names[i]);
        rows_open(&index, folder, name);
        snprintf(name, sizeof name, "%s.rec", names[i]);
        rows_open(&rows, folder, name);
        struct psti_table_notes notes = {
            .bytes = (const char *)index.bytes, .nbytes = index.nbytes, .path = "a.idx"};
        assert_true(index.nbytes > 0);
        rows_keep_log();
        assert_ok(rows_walk(&rows, WALK, &notes, NULL, 0, &err));
        assert_null(strstr(rows_log, "does not fit"));
        rows_close(&rows);
        rows_close(&index);
    }
}

/* Reads from an imitated record of 3 GiB, of which only the headers exist. */
static ssize_t read_sparse(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    enum { PARTS = 6 };
    const uint64_t stride = 8 + (UINT64_C(1) << 29) - 4;
    (void)context;
    memset(bytes, 0, nbytes);
    for (uint64_t i = 0; i < PARTS; i++) {
        uint8_t head[8];
        psti_store_u32(head, PSTI_RECORDIO_MAGIC);
        psti_store_u32(head + 4, (i == 0 ? 1u : i == PARTS - 1 ? 3u : 2u) << 29 | ((1u << 29) - 4));
        for (uint64_t k = 0; k < 8; k++)
            if (i * stride + k >= offset && i * stride + k < offset + nbytes)
                ((uint8_t *)bytes)[i * stride + k - offset] = head[k];
    }
    return (ssize_t)nbytes;
}

static void a_record_of_two_gibibytes_is_refused(void **state)
{
    (void)state;
    struct psti_record_walk walk = {0};
    struct psti_walk_source source = {
        .read = read_sparse, .nbytes = UINT64_C(6) << 29, .path = "a.rec"};
    struct psti_recordio_record record;
    struct pst_error err;
    bool has = false;
    assert_ok(psti_containers_window_open(&walk.window, &source, &err));
    assert_int_equal(psti_containers_record_next(&walk, &record, &has, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "2 GiB or more"));
    psti_containers_window_close(&walk.window);
}

static void damage_is_borne(void **state)
{
    (void)state;
    static const char *const names[] = {"whole.rec", "joined.rec", "joined_labels.rec",
                                        "insightface.rec"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rows rows;
        struct pst_error err;
        rows_open(&rows, folder, names[i]);
        /* A file that is truncated between two records is still a complete file, so only flipped
         * bits are tested here. */
        size_t nbytes = rows.nbytes;
        for (rows.nbytes = 0; rows.nbytes < nbytes; rows.nbytes += 31) {
            enum pst_status status = rows_walk(&rows, WALK, NULL, NULL, 0, &err);
            assert_true(status == PST_OK || status == PST_ERROR_TRUNCATED ||
                        (rows.nbytes == 0 && status == PST_ERROR_CORRUPT));
        }
        rows.nbytes = nbytes;
        rows_flip(&rows, WALK);
        rows_close(&rows);
    }
}

static void memory_may_be_lacking_anywhere(void **state)
{
    (void)state;
    static const struct psti_table_notes notes = {.bytes = "0\t0\n", .nbytes = 4, .path = "a.idx"};
    struct rows rows;
    rows_open(&rows, folder, "joined_labels.rec");
    rows_lack_memory(&rows, WALK, &notes);
    rows_close(&rows);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_give_what_mxnet_reads),
        cmocka_unit_test(records_of_identities_are_left_out_and_said),
        cmocka_unit_test(labels_that_were_rounded_are_refused),
        cmocka_unit_test(one_label_and_lists_of_labels_do_not_mix),
        cmocka_unit_test(all_records_are_of_one_kind),
        cmocka_unit_test(a_record_may_be_cut_anywhere),
        cmocka_unit_test(parts_that_do_not_fit_are_told),
        cmocka_unit_test(a_file_that_ends_early_names_its_last_whole_record),
        cmocka_unit_test(an_index_that_does_not_fit_is_said_and_not_used),
        cmocka_unit_test(an_index_of_mxnet_fits),
        cmocka_unit_test(a_record_of_two_gibibytes_is_refused),
        cmocka_unit_test(damage_is_borne),
        cmocka_unit_test(memory_may_be_lacking_anywhere),
    };
    if (argc < 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
