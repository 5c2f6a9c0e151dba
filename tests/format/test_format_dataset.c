/* test_format_dataset.c - compares the C code with docs/format-dataset.md: offsets of values,
 * printing and parsing, refusals. */
#include "format/format_dataset.h"

#include "test.h"

#include "base/bits.h"
#include "base/hash.h"

#include <string.h>

/* The offsets are taken from docs/format-dataset.md, not from the code. */
static void index_header_bytes(void **state)
{
    (void)state;
    struct pst_error err = {0};
    struct psti_index_field fields[2] = {
        {.field = {.name = "a", .type = PST_FIELD_IMAGE, .n_variants = 2}},
        {.field = {.name = "b", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = 3},
         .classes_nbytes = 50}};
    struct psti_index_header h = {
        .generation = 7, .n_samples = 1000, .n_fields = 2, .n_shards = 3, .names_nbytes = 5000};
    memset(h.id, 0xAB, 16);
    assert_true(psti_format_index_layout(&h, fields));
    assert_int_equal(h.fields_offset, 4096);
    assert_int_equal(h.shards_offset, 4096 + 512);
    assert_int_equal(fields[1].classes_offset, 4096 + 512 + 192);
    assert_int_equal(fields[0].column_offset, 4096 + 512 + 192 + 64);
    assert_int_equal(fields[1].column_offset, 4864 + 128000);
    assert_int_equal(h.name_offsets_offset, 132864 + 8000);
    assert_int_equal(h.names_offset, 140864 + 8064);
    assert_int_equal(h.frame.blocks_offset, 148928 + 5056);
    assert_int_equal(h.frame.n_blocks, 3);
    assert_int_equal(h.frame.file_nbytes, 153984 + 24);
    uint8_t bytes[4096];
    psti_format_print_index_header(&h, bytes);
    assert_memory_equal(bytes, "\x89PSTI\r\n\x1a\x01\x00\x01\x00\x00\x10\x00\x00", 16);
    assert_int_equal(bytes[16], 0xAB);
    assert_int_equal(psti_load_u64(bytes + 32), 7);
    assert_int_equal(psti_load_u64(bytes + 40), 1000);
    assert_int_equal(psti_load_u32(bytes + 48), 2);
    assert_int_equal(psti_load_u32(bytes + 52), 3);
    assert_int_equal(psti_load_u64(bytes + 96), 153984);
    assert_int_equal(psti_load_u64(bytes + 120), 154008);
    assert_true(psti_load_u64(bytes + 4088) == psti_hash64(bytes, 4088));
    struct psti_index_header back = {0};
    assert_ok(psti_format_parse_index_header(bytes, 4096, h.frame.file_nbytes, &back, &err));
    back.major = back.minor = 0;
    assert_memory_equal(&back, &h, sizeof h);
    uint8_t field[256];
    struct psti_index_field field_back;
    memset(&field_back, 0, sizeof field_back);
    psti_format_print_index_field(&fields[1], field);
    assert_ok(psti_format_parse_index_field(field, &h, &field_back, &err));
    assert_memory_equal(&field_back.field, &fields[1].field, sizeof field_back.field);
    assert_int_equal(field_back.column_offset, fields[1].column_offset);
    h.n_samples = 1001 * 64; /* the column would reach beyond the payload */
    assert_int_equal(psti_format_parse_index_field(field, &h, &field_back, &err),
                     PST_ERROR_CORRUPT);
}

/* The classes of arrays are stored where older software expects zeros and ignores them. */
static void array_classes_bytes(void **state)
{
    (void)state;
    struct pst_error err = {0};
    struct psti_index_field field = {.field = {.name = "labels",
                                               .type = PST_FIELD_ARRAY,
                                               .dtype = PST_DTYPE_I64,
                                               .n_variants = 1,
                                               .n_classes = 3},
                                     .classes_nbytes = 50};
    struct psti_index_header h = {.n_samples = 10, .n_fields = 1, .names_nbytes = 70};
    assert_true(psti_format_index_layout(&h, &field));
    uint8_t bytes[256];
    psti_format_print_index_field(&field, bytes);
    assert_int_equal(psti_load_u64(bytes + 104), 0);
    assert_int_equal(psti_load_u64(bytes + 136) + psti_load_u64(bytes + 144), 0);
    assert_int_equal(psti_load_u64(bytes + 152), 3);
    assert_int_equal(psti_load_u64(bytes + 160), field.classes_offset);
    assert_int_equal(psti_load_u64(bytes + 168), 50);
    struct psti_index_field back;
    memset(&back, 0, sizeof back);
    assert_ok(psti_format_parse_index_field(bytes, &h, &back, &err));
    assert_memory_equal(&back, &field, sizeof back);
    psti_store_u64(bytes + 160,
                   h.frame.blocks_offset); /* the names would lie outside of the payload */
    assert_int_equal(psti_format_parse_index_field(bytes, &h, &back, &err), PST_ERROR_CORRUPT);
    psti_store_u64(bytes + 160, field.classes_offset);
    psti_store_u64(bytes + 104, 3);
    assert_int_equal(psti_format_parse_index_field(bytes, &h, &back, &err), PST_ERROR_CORRUPT);
    psti_store_u64(bytes + 104, 0);
    bytes[65] = PST_DTYPE_F32; /* no labels */
    assert_int_equal(psti_format_parse_index_field(bytes, &h, &back, &err), PST_ERROR_CORRUPT);
    assert_int_equal(psti_format_fields_minor(&field.field, 1), 3);
    field.field.n_classes = 0;
    assert_int_equal(psti_format_fields_minor(&field.field, 1), 1);
}

static void labels_of_arrays(void **state)
{
    (void)state;
    static const struct {
        enum pst_dtype dtype;
        uint32_t width;
        bool has_sign;
    } kinds[] = {{PST_DTYPE_U8, 1, false},  {PST_DTYPE_I8, 1, true},   {PST_DTYPE_U16, 2, false},
                 {PST_DTYPE_I16, 2, true},  {PST_DTYPE_U32, 4, false}, {PST_DTYPE_I32, 4, true},
                 {PST_DTYPE_U64, 8, false}, {PST_DTYPE_I64, 8, true}};
    const int64_t map[] = {2, 0, 100};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct pst_field field = {
            .type = PST_FIELD_ARRAY, .dtype = kinds[k].dtype, .n_variants = 1, .n_classes = 3};
        uint32_t width = kinds[k].width;
        uint8_t bytes[1 + 4 * 8] = {0}, *p = bytes + 1; /* not aligned */
        int64_t label = 0;
        assert_true(psti_format_may_have_classes(&field));
        for (uint8_t i = 0; i < 3; i++)
            p[i * width] = i;
        assert_int_equal(psti_format_find_stranger(&field, p, 4 * width, &label), 4);
        memset(p + 3 * width, 0xFF, width);
        assert_int_equal(psti_format_find_stranger(&field, p, 4 * width, &label), 3);
        assert_true(kinds[k].has_sign ? label == -1 : label >= 255);
        assert_false(psti_format_map_labels(&field, p, 4 * width, map, 3));
        for (uint8_t i = 0; i < 3; i++)
            p[i * width] = i;
        assert_true(psti_format_map_labels(&field, p, 3 * width, map, 3));
        assert_true(p[0] == 2 && p[width] == 0 && p[2 * width] == 100);
        const int64_t far[] = {300};
        memset(p, 0, width);
        assert_int_equal(psti_format_map_labels(&field, p, width, far, 1), width > 1);
        assert_int_equal(psti_format_find_stranger(&field, p, 0, &label), 0);
    }
    struct pst_field other = {.type = PST_FIELD_ARRAY, .dtype = PST_DTYPE_BOOL, .n_variants = 1};
    assert_false(psti_format_may_have_classes(&other));
    other.type = PST_FIELD_TEXT;
    assert_false(psti_format_may_have_classes(&other));
}

static void layouts_that_overflow(void **state)
{
    (void)state;
    struct psti_index_field field = {
        .field = {.name = "a", .type = PST_FIELD_IMAGE, .n_variants = 8}};
    struct psti_index_header h = {.n_fields = 1};
    const uint64_t large[] = {UINT64_MAX, UINT64_MAX / 8, INT64_MAX, INT64_MAX / 512};
    for (size_t i = 0; i < 4; i++) {
        h.n_samples = large[i];
        assert_false(psti_format_index_layout(&h, &field));
    }
    h.n_samples = 0;
    h.names_nbytes = UINT64_MAX - 10;
    assert_false(psti_format_index_layout(&h, &field));
}

static void item_bytes(void **state)
{
    (void)state;
    struct pst_error err = {0};
    const struct pst_item image = {.form = PST_FORM_PNG,
                                   .i_file = 0x01020304,
                                   .offset = 0x1122334455667788,
                                   .nbytes = 99,
                                   .has_checksum = true,
                                   .has_pixel_checksum = true,
                                   .checksum = 5,
                                   .pixel_checksum = 6,
                                   .height = 70,
                                   .width = 80,
                                   .channels = 3,
                                   .bits = 16,
                                   .orientation = 6};
    const struct pst_item array = {.form = PST_FORM_BYTES,
                                   .offset = 64,
                                   .nbytes = 24,
                                   .has_checksum = true,
                                   .ndim = 8,
                                   .shape = {1, 2, 3, 4, 5, 6, 7, 8}};
    struct pst_item back;
    uint8_t bytes[64];
    psti_format_print_item(PST_FIELD_IMAGE, &image, bytes);
    assert_int_equal(psti_load_u64(bytes), 0x1122334455667788);
    assert_int_equal(psti_load_u32(bytes + 24), 0x01020304);
    assert_int_equal(bytes[28], 3);
    assert_int_equal(bytes[30], 1);
    assert_int_equal(psti_load_u32(bytes + 32), 70);
    assert_int_equal(psti_load_u32(bytes + 36), 80);
    assert_memory_equal(bytes + 40, "\x03\x10\x06\x00", 4);
    assert_int_equal(psti_load_u64(bytes + 48), 6);
    assert_ok(psti_format_parse_item(bytes, PST_FIELD_IMAGE, &back, &err));
    assert_memory_equal(&back, &image, sizeof back);
    /* Members that only PLI items have are ignored for other forms. */
    struct pst_item pli = image;
    pli.was_pli = true;
    psti_format_print_item(PST_FIELD_IMAGE, &pli, bytes);
    assert_int_equal(bytes[43], 0);
    bytes[43] = 1;
    assert_ok(psti_format_parse_item(bytes, PST_FIELD_IMAGE, &back, &err));
    assert_false(back.was_pli);
    for (pli.form = PST_FORM_PLI; pli.form <= PST_FORM_PLI_JPEG; pli.form++) {
        pli.bits = pli.form == PST_FORM_PLI ? 16 : 8;
        psti_format_print_item(PST_FIELD_IMAGE, &pli, bytes);
        assert_int_equal(bytes[43], 1);
        assert_ok(psti_format_parse_item(bytes, PST_FIELD_IMAGE, &back, &err));
        assert_memory_equal(&back, &pli, sizeof back);
    }
    psti_format_print_item(PST_FIELD_ARRAY, &array, bytes);
    assert_int_equal(bytes[29], 8);
    assert_int_equal(psti_load_u32(bytes + 60), 8);
    assert_ok(psti_format_parse_item(bytes, PST_FIELD_ARRAY, &back, &err));
    assert_memory_equal(&back, &array, sizeof back);
    bytes[29] = 9;
    assert_int_equal(psti_format_parse_item(bytes, PST_FIELD_ARRAY, &back, &err),
                     PST_ERROR_CORRUPT);
}

/* Entries that no decoder could handle are refused when they are parsed. */
static void impossible_items(void **state)
{
    (void)state;
    static const struct {
        enum pst_field_type type;
        /* index of the byte to change in a raw image of 2 x 3 pixels with 3 channels */
        unsigned at;
        uint8_t value;
        bool good;
    } cases[] = {{PST_FIELD_IMAGE, 28, 1, true},   {PST_FIELD_IMAGE, 28, 7, false},
                 {PST_FIELD_IMAGE, 28, 16, false}, {PST_FIELD_IMAGE, 28, 255, false},
                 {PST_FIELD_IMAGE, 28, 3, true},   {PST_FIELD_IMAGE, 32, 0, false},
                 {PST_FIELD_IMAGE, 36, 0, false},  {PST_FIELD_IMAGE, 36, 4, false},
                 {PST_FIELD_IMAGE, 39, 1, false},  {PST_FIELD_IMAGE, 8, 17, false},
                 {PST_FIELD_IMAGE, 40, 0, false},  {PST_FIELD_IMAGE, 40, 4, false},
                 {PST_FIELD_IMAGE, 40, 5, false},  {PST_FIELD_IMAGE, 40, 40, false},
                 {PST_FIELD_IMAGE, 41, 0, false},  {PST_FIELD_IMAGE, 41, 16, false},
                 {PST_FIELD_IMAGE, 41, 12, false}, {PST_FIELD_IMAGE, 42, 0, false},
                 {PST_FIELD_IMAGE, 42, 8, true},   {PST_FIELD_IMAGE, 42, 9, false},
                 {PST_FIELD_MASK, 28, 1, false}, /* a mask of three channels */
                 {PST_FIELD_TEXT, 28, 1, false},   {PST_FIELD_TEXT, 28, 16, true}};
    const struct pst_item image = {.form = PST_FORM_RAW,
                                   .nbytes = 18,
                                   .height = 2,
                                   .width = 3,
                                   .channels = 3,
                                   .bits = 8,
                                   .orientation = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[64];
        struct pst_item back;
        struct pst_error err = {0};
        psti_format_print_item(PST_FIELD_IMAGE, &image, bytes);
        bytes[cases[i].at] = cases[i].value;
        enum pst_status status = psti_format_parse_item(bytes, cases[i].type, &back, &err);
        assert_int_equal(status, cases[i].good ? PST_OK : PST_ERROR_CORRUPT);
    }
}

static void record_bytes(void **state)
{
    (void)state;
    struct pst_error err = {0};
    struct psti_record r = {.i_field = 3,
                            .variant = 1,
                            .form = 2,
                            .sample = 77,
                            .nbytes = 100,
                            .checksum = 9},
                       back = {0};
    uint8_t bytes[48];
    for (uint64_t position = 64; position < 512; position += 8) {
        psti_format_place_record(position, 64, &r);
        assert_int_equal((position + r.data_offset) % 64, 0);
        assert_true(r.data_offset >= 48 && r.data_offset < 48 + 64);
    }
    psti_format_place_record(72, 8, &r);
    assert_int_equal(r.data_offset, 48);
    psti_format_print_record(&r, bytes);
    assert_memory_equal(bytes, "PSTR\x30\x00\x03\x00\x01\x02", 10);
    assert_int_equal(psti_load_u64(bytes + 16), 77);
    assert_ok(psti_format_parse_record(bytes, 48, 148, &back, &err));
    assert_memory_equal(&back, &r, sizeof r);
    assert_int_equal(psti_format_parse_record(bytes, 48, 147, &back, &err), PST_ERROR_TRUNCATED);
    assert_int_equal(psti_format_parse_record(bytes, 47, 147, &back, &err), PST_ERROR_TRUNCATED);
    for (int i = 0; i < 48; i++) {
        bytes[i] ^= 1;
        assert_int_not_equal(psti_format_parse_record(bytes, 48, 148, &back, &err), PST_OK);
        bytes[i] ^= 1;
    }
}

static void journal_bytes(void **state)
{
    (void)state;
    struct pst_error err = {0};
    const struct pst_field fields[2] = {{.name = "a", .type = PST_FIELD_FLOAT, .n_variants = 1},
                                        {.name = "b", .type = PST_FIELD_TEXT, .n_variants = 3}};
    struct pst_field fields_back[PST_MAX_FIELDS];
    struct psti_journal_header h = {.base_generation = 4, .base_n_samples = 5, .n_fields = 2},
                               back = {0};
    uint8_t bytes[64 + 512 + 8];
    assert_int_equal(psti_format_journal_header_nbytes(2), sizeof bytes);
    assert_int_equal(psti_format_rows_nbytes(fields, 2), 8 + 192);
    psti_format_print_journal_header(&h, fields, bytes);
    assert_memory_equal(bytes, "\x89PSTJ\r\n\x1a", 8);
    assert_ok(psti_format_parse_journal_header(bytes, sizeof bytes, &back, fields_back, &err));
    assert_memory_equal(fields_back, fields, sizeof fields);
    for (size_t n = 0; n < sizeof bytes; n++)
        assert_int_equal(psti_format_parse_journal_header(bytes, n, &back, fields_back, &err),
                         PST_ERROR_TRUNCATED);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 4;
        assert_int_not_equal(
            psti_format_parse_journal_header(bytes, sizeof bytes, &back, fields_back, &err),
            PST_OK);
        bytes[i] ^= 4;
    }
    const struct pst_field twice[2] = {fields[0], fields[0]};
    psti_format_print_journal_header(&h, twice, bytes);
    assert_int_equal(
        psti_format_parse_journal_header(bytes, sizeof bytes, &back, fields_back, &err),
        PST_ERROR_CORRUPT);
    uint8_t entry[24 + 16];
    struct psti_journal_record record;
    psti_format_print_journal_commit_head(12, 0, entry + 24);
    psti_format_print_journal_record(PSTI_JOURNAL_COMMIT, entry + 24, 16, entry);
    assert_true(psti_format_parse_journal_record(entry, &record) &&
                psti_format_journal_body_ok(&record, entry + 24));
    for (size_t i = 0; i < sizeof entry; i++) {
        entry[i] ^= 1;
        assert_false(psti_format_parse_journal_record(entry, &record) && record.nbytes == 16 &&
                     psti_format_journal_body_ok(&record, entry + 24));
        entry[i] ^= 1;
    }
}

static void utf8(void **state)
{
    (void)state;
    static const char *const good[] = {"a",
                                       "\xC2\xA0",
                                       "\xDF\xBF",
                                       "\xE0\xA0\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xEF\xBF\xBF",
                                       "\xF0\x90\x80\x80",
                                       "\xF4\x8F\xBF\xBF",
                                       "abcdefgh\xC3\xBC"};
    static const char *const bad[] = {"\x80",
                                      "\xC0\xAF",
                                      "\xC1\xBF",
                                      "\xC2",
                                      "\xE0\x9F\xBF",
                                      "\xED\xA0\x80",
                                      "\xED\xBF\xBF",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xFF",
                                      "abcdefgh\xC3",
                                      "abcdefg\xC3 abcdefgh",
                                      "\xE2\x82"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(psti_format_is_utf8(good[i], strlen(good[i])) &&
                    psti_format_name_problem(good[i], strlen(good[i])) == NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(!psti_format_is_utf8(bad[i], strlen(bad[i])) &&
                    psti_format_name_problem(bad[i], strlen(bad[i])) != NULL);
    assert_true(psti_format_is_utf8("", 0));
    assert_non_null(psti_format_name_problem("", 0));
    assert_non_null(psti_format_name_problem("a\0b", 3));
    assert_non_null(psti_format_name_problem("a\x7F", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_header_bytes),
        cmocka_unit_test(array_classes_bytes),
        cmocka_unit_test(labels_of_arrays),
        cmocka_unit_test(layouts_that_overflow),
        cmocka_unit_test(item_bytes),
        cmocka_unit_test(impossible_items),
        cmocka_unit_test(record_bytes),
        cmocka_unit_test(journal_bytes),
        cmocka_unit_test(utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
