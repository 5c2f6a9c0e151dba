/* test_format_container.c - rows of the index of containers made by other programs: printed values
 * are parsed back, up to all limits, and impossible values are refused. */
#include "test.h"

#include "base/bits.h"
#include "format/format_container.h"

#include <string.h>

static struct pst_error err;

static void assert_row(const struct psti_container_item *item, const uint8_t *row,
                       uint32_t row_nbytes)
{
    struct psti_container_item got;
    memset(&got, 0xA5, sizeof got);
    psti_format_parse_container_item(row, row_nbytes, &got);
    assert_int_equal(got.place, item->place);
    assert_int_equal(got.coding, item->coding);
    assert_true(got.i_page == item->i_page && got.offset == item->offset);
    assert_true(got.nbytes == item->nbytes && got.decoded_nbytes == item->decoded_nbytes);
    assert_true(got.sum == item->sum);
}

/* Prints and parses an item, in rows of both lengths if it has no coding and no page. */
static void assert_item(const struct psti_container_item *item)
{
    uint8_t rows[3 * PSTI_CONTAINER_ITEM_NBYTES], plain[PSTI_CONTAINER_PLAIN_NBYTES];
    for (size_t i = 0; i < 3; i++)
        psti_format_print_container_item(item, rows + i * PSTI_CONTAINER_ITEM_NBYTES,
                                         PSTI_CONTAINER_ITEM_NBYTES);
    assert_row(item, rows, PSTI_CONTAINER_ITEM_NBYTES);
    if (item->place == PSTI_CONTAINER_IN_PAGE || item->coding != PST_CODING_STORED)
        return;
    psti_format_print_container_item(item, plain, sizeof plain);
    assert_row(item, plain, sizeof plain);
    psti_format_shorten_container_items(rows, 3);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(rows + i * sizeof plain, plain, sizeof plain);
}

static void items_come_back(void **state)
{
    (void)state;
    static const uint64_t offsets[] = {0, 1, 4096, PSTI_CONTAINER_OFFSET_LIMIT - 1};
    static const uint64_t lengths[] = {1, 255, (uint64_t)1 << 31, PSTI_CONTAINER_NBYTES_LIMIT - 1};
    for (size_t o = 0; o < 4; o++)
        for (size_t l = 0; l < 4; l++) {
            struct psti_container_item item = {.place = PSTI_CONTAINER_IN_FILE,
                                               .offset = offsets[o],
                                               .nbytes = lengths[l],
                                               .decoded_nbytes = lengths[l],
                                               .sum = UINT64_MAX - o};
            assert_item(&item);
            item.place = PSTI_CONTAINER_IN_INDEX;
            assert_item(&item);
            item.place = PSTI_CONTAINER_IN_PAGE;
            item.i_page = offsets[o];
            item.offset = offsets[o] % PSTI_CONTAINER_PAGE_LIMIT;
            assert_item(&item);
            item.place = PSTI_CONTAINER_IN_FILE;
            item.i_page = 0;
            for (int c = PST_CODING_DEFLATE; c <= PST_CODING_PIECES; c++) {
                item.coding = (enum pst_coding)c;
                item.decoded_nbytes = l < 3 ? lengths[l] : PSTI_CONTAINER_DECODED_LIMIT - 1;
                assert_item(&item);
            }
        }
    const struct psti_container_item missing = {.place = PSTI_CONTAINER_MISSING};
    static const uint8_t zeros[PSTI_CONTAINER_ITEM_NBYTES];
    uint8_t row[PSTI_CONTAINER_ITEM_NBYTES];
    assert_item(&missing);
    psti_format_print_container_item(&missing, row, sizeof row);
    assert_memory_equal(row, zeros, sizeof row);
    /* An item of no bytes at the start of the values is not a missing item. */
    assert_item(&(struct psti_container_item){.place = PSTI_CONTAINER_IN_INDEX});
    assert_item(&(struct psti_container_item){
        .place = PSTI_CONTAINER_IN_PAGE, .nbytes = 1, .decoded_nbytes = 1});
}

static void any_bytes_are_an_item(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint8_t row[PSTI_CONTAINER_ITEM_NBYTES];
        struct psti_container_item item;
        for (size_t k = 0; k < sizeof row; k++) {
            seed = seed * 1664525 + 1013904223;
            row[k] = i % 3 == 0 && seed >> 31 ? 0xff : (uint8_t)(seed >> 24);
        }
        bool is_plain = i % 2 == 0;
        psti_format_parse_container_item(
            row, is_plain ? PSTI_CONTAINER_PLAIN_NBYTES : PSTI_CONTAINER_ITEM_NBYTES, &item);
        assert_true((uint32_t)item.coding < 8);
        assert_true(item.nbytes <= PSTI_CONTAINER_NBYTES_LIMIT);
        assert_true(item.i_page < PSTI_CONTAINER_OFFSET_LIMIT);
        assert_true(item.offset < PSTI_CONTAINER_OFFSET_LIMIT);
        assert_true(item.place == PSTI_CONTAINER_IN_FILE || item.coding == PST_CODING_STORED);
        assert_false(is_plain && item.place == PSTI_CONTAINER_IN_PAGE);
    }
}

static void names_come_back(void **state)
{
    (void)state;
    uint8_t group[PSTI_CONTAINER_GROUP_NBYTES];
    uint64_t start = 0, got;
    size_t nbytes;
    memset(group, 0xA5, sizeof group);
    for (uint64_t i = 0, at = (uint64_t)1 << 40; i < PSTI_CONTAINER_GROUP_NAMES; i++) {
        uint64_t end = at + (i == 0 ? 1 : PSTI_NAME_LIMIT - i);
        psti_format_put_container_name(group, 32 + i, at, end);
        assert_true(psti_format_container_name(group, 32 + i, end, &got, &nbytes));
        assert_true(got == at && nbytes == end - at);
        assert_false(psti_format_container_name(group, 32 + i, end - 1, &got, &nbytes));
        at = end;
    }
    /* A full group of names, all as long as possible. */
    for (uint64_t i = 0; i < PSTI_CONTAINER_GROUP_NAMES; i++, start += PSTI_NAME_LIMIT - 1)
        psti_format_put_container_name(group, i, start, start + PSTI_NAME_LIMIT - 1);
    assert_true(psti_format_container_name(group, 15, start, &got, &nbytes));
    assert_true(got == start - (PSTI_NAME_LIMIT - 1) && nbytes == PSTI_NAME_LIMIT - 1);
    /* An empty name, one that is too long, one that ends before it begins, and an offset beyond all
     * numbers. */
    static const struct {
        size_t at;
        uint16_t value;
    } changes[] = {{8, 0}, {8, PSTI_NAME_LIMIT}, {10, 1}};
    for (size_t i = 0; i < 3; i++) {
        uint8_t bad[PSTI_CONTAINER_GROUP_NBYTES];
        memcpy(bad, group, sizeof bad);
        psti_store_u16(bad + changes[i].at, changes[i].value);
        assert_false(
            psti_format_container_name(bad, (changes[i].at - 8) / 2, UINT64_MAX, &got, &nbytes));
    }
    psti_store_u64(group, UINT64_MAX);
    assert_false(psti_format_container_name(group, 1, UINT64_MAX, &got, &nbytes));
    assert_true(psti_format_container_n_groups(0) == 0 && psti_format_container_n_groups(1) == 1);
    assert_true(psti_format_container_n_groups(16) == 1 && psti_format_container_n_groups(17) == 2);
    assert_true(psti_format_container_n_groups(UINT64_MAX) == (uint64_t)1 << 60);
}

static void pages_come_back(void **state)
{
    (void)state;
    const struct psti_container_page_entry page = {.offset = (uint64_t)1 << 60,
                                                   .nbytes = INT32_MAX,
                                                   .decoded_nbytes = INT32_MAX - 1,
                                                   .i_file = UINT32_MAX - 1,
                                                   .coding = PST_CODING_ZSTD};
    struct psti_container_page_entry got;
    uint8_t row[PSTI_CONTAINER_PAGE_NBYTES], bad[PSTI_CONTAINER_PAGE_NBYTES];
    psti_format_print_container_page(&page, row);
    assert_ok(psti_format_parse_container_page(row, &got, &err));
    assert_true(got.offset == page.offset && got.nbytes == page.nbytes);
    assert_true(got.decoded_nbytes == page.decoded_nbytes && got.i_file == page.i_file);
    assert_int_equal(got.coding, page.coding);
    static const struct {
        size_t at;
        uint32_t value;
    } changes[] = {
        {8, UINT32_C(1) << 31}, {8, UINT32_MAX}, {12, UINT32_C(1) << 31}, {20, 0}, {20, 6},
        {20, UINT32_MAX}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(bad, row, sizeof bad);
        psti_store_u32(bad + changes[i].at, changes[i].value);
        assert_int_equal(psti_format_parse_container_page(bad, &got, &err), PST_ERROR_CORRUPT);
    }
    for (uint32_t coding = 0; coding < 9; coding++)
        assert_int_equal(psti_format_is_coding(coding), coding >= 1 && coding <= 5);
}

static struct psti_container_header make_header(struct psti_container_field fields[2])
{
    struct psti_container_header header = {.law = PSTI_CONTAINER_LAW,
                                           .kind = 3,
                                           .n_samples = 1000,
                                           .n_fields = 2,
                                           .n_files = 3,
                                           .paths_nbytes = 30,
                                           .names_nbytes = 9000,
                                           .values_nbytes = 77,
                                           .codings = 0x2a,
                                           .n_pages = 5,
                                           .n_notices = 2};
    fields[0] = (struct psti_container_field){
        .field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        .row_nbytes = PSTI_CONTAINER_PLAIN_NBYTES};
    fields[1] = (struct psti_container_field){
        .field = {.name = "label", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = 2},
        .row_nbytes = 8,
        .classes_nbytes = 28};
    assert_true(psti_format_container_layout(&header, fields));
    return header;
}

static void headers_come_back_with_pages(void **state)
{
    (void)state;
    struct psti_container_field fields[2];
    struct psti_container_header header = make_header(fields), got;
    uint8_t bytes[PSTI_INDEX_HEADER_NBYTES], printed[PSTI_INDEX_FIELD_NBYTES];
    assert_int_equal(header.pages_offset % 64, 0);
    assert_true(fields[1].classes_offset + 28 <= header.pages_offset);
    assert_true(header.pages_offset + 5 * PSTI_CONTAINER_PAGE_NBYTES <= fields[0].column_offset);
    psti_format_print_container_header(&header, bytes);
    assert_ok(psti_format_parse_container_header(bytes, sizeof bytes, header.frame.file_nbytes,
                                                 &got, &err));
    assert_int_equal(got.major, 3);
    assert_int_equal(got.codings, 0x2a);
    assert_true(got.n_pages == 5 && got.pages_offset == header.pages_offset);
    struct psti_container_field field;
    psti_format_print_container_field(&fields[1], printed);
    assert_ok(psti_format_parse_container_field(printed, &got, &field, &err));
    assert_int_equal(field.classes_nbytes, 28);
    assert_int_equal(field.row_nbytes, 8);
    /* A row length that does not exist. */
    for (size_t i = 0; i < 2; i++)
        for (uint32_t n = 0; n < 256; n++) {
            fields[i].row_nbytes = n;
            psti_format_print_container_field(&fields[i], printed);
            bool is_good = i == 1 ? n == 8 : n == 20 || n == 24;
            assert_int_equal(psti_format_parse_container_field(printed, &got, &field, &err),
                             is_good ? PST_OK : PST_ERROR_CORRUPT);
        }
    /* Version 2, and pages outside of the file. */
    bytes[8] = 2;
    assert_int_equal(psti_format_parse_container_header(bytes, sizeof bytes,
                                                        header.frame.file_nbytes, &got, &err),
                     PST_ERROR_UNSUPPORTED);
    static const uint64_t wrong[] = {6 << 20, UINT64_MAX, UINT64_MAX / PSTI_CONTAINER_PAGE_NBYTES};
    for (size_t i = 0; i < 3; i++) {
        struct psti_container_header bad = header;
        bad.n_pages = wrong[i];
        psti_format_print_container_header(&bad, bytes);
        assert_int_equal(psti_format_parse_container_header(bytes, sizeof bytes,
                                                            header.frame.file_nbytes, &got, &err),
                         PST_ERROR_CORRUPT);
    }
    /* Too many notices, and notices outside of their section of the file. */
    for (size_t i = 0; i < 2; i++) {
        struct psti_container_header bad = header;
        bad.n_notices = i == 0 ? PSTI_NOTICES_MAX + 1 : 2;
        bad.notices_offset = i == 0 ? 64 : header.frame.blocks_offset - PSTI_NOTICE_NBYTES;
        psti_format_print_container_header(&bad, bytes);
        assert_int_equal(psti_format_parse_container_header(bytes, sizeof bytes,
                                                            header.frame.file_nbytes, &got, &err),
                         PST_ERROR_CORRUPT);
    }
    header.n_pages = UINT64_MAX / 16;
    assert_false(psti_format_container_layout(&header, fields));
}

static void add(struct psti_notices *notices, const char *name, uint64_t n, const char *first)
{
    psti_format_notices_add(notices, PST_NOTICE_COLUMN, name, "it is bad", n, first);
}

static void notices_are_counted_and_come_back(void **state)
{
    (void)state;
    struct psti_notices notices = {0};
    uint8_t row[PSTI_NOTICE_NBYTES], bad[PSTI_NOTICE_NBYTES];
    struct pst_notice got;
    char text[600], name[16];
    add(&notices, "a", 2, "one.parquet");
    add(&notices, "b\x1b[31m\xff", 1, "one\n.parquet");
    add(&notices, "a", 3, "two.parquet");
    psti_format_notices_add(&notices, PST_NOTICE_ROWS, "a", NULL, 1, "x");
    assert_int_equal(notices.n, 3);
    assert_true(notices.list[0].count == 5 && strcmp(notices.list[0].first, "one.parquet") == 0);
    assert_string_equal(notices.list[1].name, "b\\x1B[31m\\xFF");
    assert_string_equal(notices.list[1].first, "one\\x0A.parquet");
    assert_string_equal(notices.list[2].why, "");
    for (uint32_t i = 0; i < notices.n; i++) {
        psti_format_print_notice(&notices.list[i], row);
        assert_true(psti_format_parse_notice(row, &got));
        assert_memory_equal(&got, &notices.list[i], sizeof got);
    }
    /* Long texts are shortened: a name keeps its beginning, a path its end. No character is
     * split. */
    memset(text, 0, sizeof text);
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    psti_format_notices_remove(&notices, PST_NOTICE_ROWS, "a");
    psti_format_notices_remove(&notices, PST_NOTICE_ROWS, "nobody");
    assert_int_equal(notices.n, 2);
    add(&notices, text, 1, text);
    assert_int_equal(strlen(notices.list[2].name), 62);
    assert_int_equal(strlen(notices.list[2].first), 254);
    psti_format_print_notice(&notices.list[2], row);
    assert_true(psti_format_parse_notice(row, &got));
    /* Hostile rows. */
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{0, 0}, {0, 10}, {1, 1}, {17, 0xff}, {80, 7}, {245, '\n'}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(bad, row, sizeof bad);
        bad[changes[i].at] = changes[i].value;
        assert_false(psti_format_parse_notice(bad, &got));
    }
    memcpy(bad, row, sizeof bad);
    memset(bad + 16, 'n', 64);
    assert_false(psti_format_parse_notice(bad, &got));
    /* When the list is full, the last notice counts all others. */
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "c%d", i);
        add(&notices, name, 1, "x");
    }
    assert_int_equal(notices.n, PSTI_NOTICES_MAX);
    assert_string_equal(notices.list[PSTI_NOTICES_MAX - 1].name, "others");
    assert_true(notices.list[PSTI_NOTICES_MAX - 1].count == 50 - (PSTI_NOTICES_MAX - 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_back),
        cmocka_unit_test(any_bytes_are_an_item),
        cmocka_unit_test(names_come_back),
        cmocka_unit_test(pages_come_back),
        cmocka_unit_test(headers_come_back_with_pages),
        cmocka_unit_test(notices_are_counted_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
