/* test_containers_parquet_pages.c - tests pages that are legal but that no available library
 * writes, and illegal pages that must be refused. Each file has one column and is made page by
 * page. */
#include "test.h"

#include "parquet_helper.h"

#include "base/bits.h"
#include "base/inflate.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CAP = 4096, INT32 = 1, BYTE_ARRAY = 6, REQUIRED = 0, OPTIONAL = 1, REPEATED = 2 };
enum { DATA = 0, INDEX = 1, DICTIONARY = 2, DATA_2 = 3 };
enum { PLAIN = 0, RLE = 3, BIT_PACKED = 4, RLE_DICTIONARY = 8 };

struct page {
    uint8_t kind, encoding;
    uint8_t n; /* number of values */
    const char *body;
    uint8_t nbytes, decoded_nbytes; /* stored bytes, and decoded bytes (0: as many) */
    uint8_t n_reps, n_defs;         /* bytes of repetition and definition levels, in version 2 */
    bool is_stored;                 /* is_compressed is false, in version 2 */
    uint8_t levels;                 /* encoding of the levels, in version 1; 0: RLE */
};

struct table {
    uint8_t type, repetition, codec;
    uint8_t n_rows, n_values;
    struct page pages[4]; /* ends at the first page without a body */
};

static void put(struct parquet_file *file, uint8_t byte)
{
    assert_true(file->nbytes < CAP);
    file->bytes[file->nbytes++] = byte;
}

/* Writes a Thrift field of a small integer; `delta` is its distance from the id of the field
 * before. */
static void put_int(struct parquet_file *file, uint8_t delta, uint32_t value)
{
    put(file, (uint8_t)(delta << 4 | 5));
    for (value <<= 1; value >= 0x80; value >>= 7)
        put(file, (uint8_t)(value | 0x80));
    put(file, (uint8_t)value);
}

static void put_page(struct parquet_file *file, const struct page *page)
{
    put_int(file, 1, page->kind);
    put_int(file, 1, page->decoded_nbytes > 0 ? page->decoded_nbytes : page->nbytes);
    put_int(file, 1, page->nbytes);
    if (page->kind == DATA_2) {
        put(file, 5 << 4 | 12);
        put_int(file, 1, page->n);
        put_int(file, 1, 0);
        put_int(file, 1, page->n);
        put_int(file, 1, page->encoding);
        put_int(file, 1, page->n_defs);
        put_int(file, 1, page->n_reps);
        put(file, page->is_stored ? 1 << 4 | 2 : 1 << 4 | 1);
        put(file, 0);
    } else if (page->kind != INDEX) {
        put(file, (uint8_t)((page->kind == DATA ? 2 : 4) << 4 | 12));
        put_int(file, 1, page->n);
        put_int(file, 1, page->encoding);
        put_int(file, 1, page->levels > 0 ? page->levels : RLE);
        put_int(file, 1, page->levels > 0 ? page->levels : RLE);
        put(file, 0);
    }
    put(file, 0);
    for (uint32_t i = 0; i < page->nbytes; i++)
        put(file, (uint8_t)page->body[i]);
}

static void put_name(struct parquet_file *file, uint8_t delta, char name)
{
    put(file, (uint8_t)(delta << 4 | 8));
    put(file, 1);
    put(file, (uint8_t)name);
}

static void put_footer(struct parquet_file *file, const struct table *table)
{
    size_t begun = file->nbytes;
    put_int(file, 1, 1);
    put(file, 1 << 4 | 9);
    put(file, 2 << 4 | 12);
    put_name(file, 4, 's');
    put_int(file, 1, 1);
    put(file, 0);
    put_int(file, 1, table->type);
    put_int(file, 2, table->repetition);
    put_name(file, 1, 'x');
    put(file, 0);
    put_int(file, 1, table->n_rows);
    put(file, 1 << 4 | 9);
    put(file, 1 << 4 | 12); /* the footer's list of one row group */
    put(file, 1 << 4 | 9);
    put(file, 1 << 4 | 12); /* the row group's list of one column */
    put(file, 3 << 4 | 12);
    put_int(file, 1, table->type);
    put_int(file, 3, table->codec);
    put_int(file, 1, table->n_values);
    put_int(file, 4, 4);
    put(file, 0);
    put(file, 0);
    put_int(file, 2, table->n_rows);
    put(file, 0);
    put(file, 0);
    uint32_t n = (uint32_t)(file->nbytes - begun);
    assert_true(file->nbytes + 8 <= CAP);
    psti_store_u32(file->bytes + file->nbytes, n);
    memcpy(file->bytes + file->nbytes + 4, "PAR1", 4);
    file->nbytes += 8;
}

static enum pst_status walk(struct parquet_file *file, const struct table *table,
                            struct pst_error *err)
{
    struct psti_walk_counts counts;
    memset(file, 0, sizeof *file);
    file->bytes = malloc(CAP);
    assert_non_null(file->bytes);
    assert_int_equal(psti_codings_open(&file->codings, 0, "test", err), PST_OK);
    for (int i = 0; i < 4; i++)
        put(file, (uint8_t) "PAR1"[i]);
    for (uint32_t i = 0; i < 4 && table->pages[i].body != NULL; i++)
        put_page(file, &table->pages[i]);
    put_footer(file, table);
    return parquet_walk(file, file->nbytes, NULL, 0, &counts, err);
}

static void assert_rows(const struct table *table, const char *rows)
{
    struct parquet_file *file = malloc(sizeof *file);
    struct pst_error err = {0};
    assert_non_null(file);
    assert_ok(walk(file, table, &err));
    if (strcmp(file->rows, rows) != 0)
        fail_msg("%s and not %s", file->rows, rows);
    parquet_close(file);
    free(file);
}

static void assert_fails(const struct table *table, enum pst_status status, const char *text)
{
    struct parquet_file *file = malloc(sizeof *file);
    struct pst_error err = {0};
    assert_non_null(file);
    enum pst_status got = walk(file, table, &err);
    if (got != status || strstr(err.text, text) == NULL)
        fail_msg("%s: \"%s\" has no \"%s\"", pst_status_name(got), err.text, text);
    assert_true(err.offset >= 4);
    parquet_close(file);
    free(file);
}

#define ONE "\1\0\0\0"
#define TWO "\2\0\0\0"
#define SEVEN "\7\0\0\0"

static void second_pages_may_be_stored_although_there_is_a_codec(void **state)
{
    (void)state;
    assert_rows(&(struct table){INT32,
                                REQUIRED,
                                1,
                                3,
                                3,
                                {{.kind = DATA_2,
                                  .encoding = PLAIN,
                                  .n = 2,
                                  .body = ONE TWO,
                                  .nbytes = 8,
                                  .is_stored = true},
                                 {.kind = DATA_2,
                                  .encoding = PLAIN,
                                  .n = 1,
                                  .body = "\4\x0c" SEVEN,
                                  .nbytes = 6,
                                  .decoded_nbytes = 4}}},
                "{\"x\": 1}\n{\"x\": 2}\n{\"x\": 7}\n");
    /* Here with levels before the values: a null, then 7. */
    assert_rows(&(struct table){INT32,
                                OPTIONAL,
                                1,
                                2,
                                2,
                                {{.kind = DATA_2,
                                  .encoding = PLAIN,
                                  .n = 2,
                                  .body = "\3\2\4\x0c" SEVEN,
                                  .nbytes = 8,
                                  .decoded_nbytes = 6,
                                  .n_defs = 2}}},
                "{}\n{\"x\": 7}\n");
    assert_rows(&(struct table){INT32,
                                OPTIONAL,
                                1,
                                2,
                                2,
                                {{.kind = DATA_2,
                                  .encoding = PLAIN,
                                  .n = 2,
                                  .body = "\3\2" SEVEN,
                                  .nbytes = 6,
                                  .n_defs = 2,
                                  .is_stored = true}}},
                "{}\n{\"x\": 7}\n");
    assert_fails(&(struct table){INT32,
                                 OPTIONAL,
                                 1,
                                 2,
                                 2,
                                 {{.kind = DATA_2,
                                   .encoding = PLAIN,
                                   .n = 2,
                                   .body = "\3\2" SEVEN,
                                   .nbytes = 6,
                                   .n_defs = 7}}},
                 PST_ERROR_CORRUPT, "longer than the page");
}

static void a_dictionary_may_be_given_up(void **state)
{
    (void)state;
    struct table table = {
        INT32,
        REQUIRED,
        0,
        4,
        4,
        {{.kind = DICTIONARY, .encoding = PLAIN, .n = 2, .body = TWO SEVEN, .nbytes = 8},
         {.kind = DATA, .encoding = RLE_DICTIONARY, .n = 3, .body = "\1\3\6", .nbytes = 3}, /* 0 1 1
                                                                                             */
         {.kind = DATA, .encoding = PLAIN, .n = 1, .body = ONE, .nbytes = 4}}};
    assert_rows(&table, "{\"x\": 2}\n{\"x\": 7}\n{\"x\": 7}\n{\"x\": 1}\n");
    table.pages[0].encoding = 2; /* version 1 has another name for the encoding */
    table.pages[1].encoding = 2;
    assert_rows(&table, "{\"x\": 2}\n{\"x\": 7}\n{\"x\": 7}\n{\"x\": 1}\n");
    table.pages[1].body = "\0\6\0"; /* three indices 0 of 0 bits */
    assert_rows(&table, "{\"x\": 2}\n{\"x\": 2}\n{\"x\": 2}\n{\"x\": 1}\n");
    table.pages[1].body = "\2\3\x28"; /* indices 0 2 2 */
    assert_fails(&table, PST_ERROR_CORRUPT, "outside of the dictionary");
    table.pages[1].body = "\x21\3\6";
    assert_fails(&table, PST_ERROR_CORRUPT, "too many bits");
    table.pages[1] = table.pages[0];
    assert_fails(&table, PST_ERROR_CORRUPT, "two dictionaries");
    table.pages[0] = (struct page){
        .kind = DATA, .encoding = RLE_DICTIONARY, .n = 3, .body = "\1\3\6", .nbytes = 3};
    assert_fails(&table, PST_ERROR_CORRUPT, "needs a dictionary");
    table.pages[0] =
        (struct page){.kind = DICTIONARY, .encoding = RLE, .n = 2, .body = TWO SEVEN, .nbytes = 8};
    assert_fails(&table, PST_ERROR_CORRUPT, "not written plainly");
}

static void dictionaries_of_bytes_are_within_their_pages(void **state)
{
    (void)state;
    struct table table = {BYTE_ARRAY,
                          REQUIRED,
                          0,
                          2,
                          2,
                          {{.kind = DICTIONARY,
                            .encoding = PLAIN,
                            .n = 2,
                            .body = "\1\0\0\0a\2\0\0\0bc",
                            .nbytes = 11},
                           {.kind = DATA,
                            .encoding = RLE_DICTIONARY,
                            .n = 2,
                            .body = "\1\3\1",
                            .nbytes = 3}}}; /* 1 0 */
    char rows[128];
    snprintf(rows, sizeof rows,
             "{\"x\": [2, \"%08" PRIx32 "\"]}\n{\"x\": [1, \"%08" PRIx32 "\"]}\n",
             psti_crc32(0, "bc", 2), psti_crc32(0, "a", 1));
    assert_rows(&table, rows);
    table.pages[0].n = 3;
    assert_fails(&table, PST_ERROR_CORRUPT, "a dictionary");
    table.pages[0].n = 2;
    table.pages[0].body = "\1\0\0\0a\3\0\0\0bc";
    assert_fails(&table, PST_ERROR_CORRUPT, "longer than its page");
}

/* In version 1 a page may end within a row. */
static void a_list_may_lie_in_two_pages(void **state)
{
    (void)state;
    /* Rows [1, 2, 7] and [1]: repetition levels 0 1 | 1 0, and no value is null. */
    struct table table = {INT32,
                          REPEATED,
                          0,
                          2,
                          4,
                          {{.kind = DATA,
                            .encoding = PLAIN,
                            .n = 2,
                            .body = "\2\0\0\0\3\2\2\0\0\0\4\1" ONE TWO,
                            .nbytes = 20},
                           {.kind = DATA,
                            .encoding = PLAIN,
                            .n = 2,
                            .body = "\2\0\0\0\3\1\2\0\0\0\4\1" SEVEN ONE,
                            .nbytes = 20}}};
    char rows[160];
    snprintf(rows, sizeof rows,
             "{\"x\": [\"3\", 12, \"%08" PRIx32 "\"]}\n{\"x\": [\"1\", 4, \"%08" PRIx32 "\"]}\n",
             psti_crc32(0, ONE TWO SEVEN, 12), psti_crc32(0, ONE, 4));
    assert_rows(&table, rows);
    table.n_rows = 3;
    assert_fails(&table, PST_ERROR_CORRUPT, "fewer values");
    table.n_rows = 1;
    assert_fails(&table, PST_ERROR_CORRUPT, "more values");
    table.n_rows = 2;
    /* the column begins with repetition level 1, but a row begins with 0 */
    table.pages[0].body = "\2\0\0\0\3\3\2\0\0\0\4\1" ONE TWO;
    assert_fails(&table, PST_ERROR_UNSUPPORTED, "shape");
}

static void pages_that_say_nothing_are_passed(void **state)
{
    (void)state;
    assert_rows(
        &(struct table){INT32,
                        REQUIRED,
                        0,
                        1,
                        1,
                        {{.kind = INDEX, .encoding = 0, .n = 0, .body = "abc", .nbytes = 3},
                         {.kind = DATA, .encoding = PLAIN, .n = 0, .body = "", .nbytes = 0},
                         {.kind = DATA, .encoding = PLAIN, .n = 1, .body = SEVEN, .nbytes = 4}}},
        "{\"x\": 7}\n");
}

static void pages_and_rows_must_agree(void **state)
{
    (void)state;
    struct table table = {
        INT32, REQUIRED, 0,
        2,     2,        {{.kind = DATA, .encoding = PLAIN, .n = 2, .body = ONE TWO, .nbytes = 8}}};
    assert_rows(&table, "{\"x\": 1}\n{\"x\": 2}\n");
    table.n_rows = 1;
    assert_fails(&table, PST_ERROR_CORRUPT, "more values than the row group");
    table.n_rows = 3;
    assert_fails(&table, PST_ERROR_CORRUPT, "fewer values than the row group");
    table.n_values = 3; /* one value more than the pages have: the footer follows */
    assert_fails(&table, PST_ERROR_CORRUPT, "column \"x\"");
    table.n_values = 0; /* the column chunk has no pages at all */
    assert_fails(&table, PST_ERROR_CORRUPT, "fewer values than the row group");
    table.n_rows = 2;
    table.n_values = 1;
    assert_fails(&table, PST_ERROR_CORRUPT, "more values than its column");
    table.n_values = 2;
    table.pages[0].nbytes = 7;
    assert_fails(&table, PST_ERROR_CORRUPT, "longer than what is left");
    table.pages[0].nbytes = 8;
    table.pages[0].kind = 9;
    assert_fails(&table, PST_ERROR_CORRUPT, "of a kind that there is not");
}

static void levels_must_be_levels(void **state)
{
    (void)state;
    struct table table = {
        INT32,
        OPTIONAL,
        0,
        2,
        2,
        {{.kind = DATA, .encoding = PLAIN, .n = 2, .body = "\2\0\0\0\4\1" ONE TWO, .nbytes = 14}}};
    assert_rows(&table, "{\"x\": 1}\n{\"x\": 2}\n");
    table.pages[0].levels = BIT_PACKED;
    assert_fails(&table, PST_ERROR_UNSUPPORTED, "too old");
    table.pages[0].levels = RLE;
    table.pages[0].body = "\2\0\0\0\4\2" ONE TWO; /* level 2, while the highest is 1 */
    assert_fails(&table, PST_ERROR_CORRUPT, "levels are damaged");
    table.pages[0].body = "\2\0\0\0\2\1" ONE TWO; /* one level */
    assert_fails(&table, PST_ERROR_CORRUPT, "levels are damaged");
    table.pages[0].body = "\xff\0\0\0\4\1" ONE TWO;
    assert_fails(&table, PST_ERROR_CORRUPT, "longer than the page");
    table.pages[0].body = "\2\0\0";
    table.pages[0].nbytes = 3;
    assert_fails(&table, PST_ERROR_CORRUPT, "within its levels");
}

static void codecs_cannot_give_too_much(void **state)
{
    (void)state;
    assert_fails(&(struct table){INT32,
                                 REQUIRED,
                                 1,
                                 1,
                                 1,
                                 {{.kind = DATA,
                                   .encoding = PLAIN,
                                   .n = 1,
                                   .body = "",
                                   .nbytes = 0,
                                   .decoded_nbytes = 127}}},
                 PST_ERROR_CORRUPT, "more bytes than its codec can give");
    assert_fails(&(struct table){INT32,
                                 REQUIRED,
                                 1,
                                 1,
                                 1,
                                 {{.kind = DATA,
                                   .encoding = PLAIN,
                                   .n = 1,
                                   .body = "\4\x0c\1\0\0",
                                   .nbytes = 5,
                                   .decoded_nbytes = 4}}},
                 PST_ERROR_CORRUPT, "cannot be decoded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_pages_may_be_stored_although_there_is_a_codec),
        cmocka_unit_test(a_dictionary_may_be_given_up),
        cmocka_unit_test(dictionaries_of_bytes_are_within_their_pages),
        cmocka_unit_test(a_list_may_lie_in_two_pages),
        cmocka_unit_test(pages_that_say_nothing_are_passed),
        cmocka_unit_test(pages_and_rows_must_agree),
        cmocka_unit_test(levels_must_be_levels),
        cmocka_unit_test(codecs_cannot_give_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
