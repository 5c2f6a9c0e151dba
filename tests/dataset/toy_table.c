/* toy_table.c - writes the tests' own kind of table, and walks over it.
 *
 * File: "TOY1", u32 rows, u32 pages; u32 [pages][4] (offset, length, decoded length, coding);
 * u32 [rows][16], see the enum below; the bytes. The encoders here make the simplest valid data
 * of their format: literals and stored blocks. */
#include "dataset/toy_table.h"

#include "test.h"

#include "base/bits.h"
#include "base/hash.h"
#include "containers/containers_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Indices of the numbers of a row. */
/* clang-format off */
enum {
    PAGE, BLOB_AT, BLOB_N, VECTOR_AT, PLAIN_AT, PLAIN_N, JOINED_AT, JOINED_N, JOINED_DECODED,
    SNAPPY_AT, SNAPPY_N, SNAPPY_DECODED, LABEL, SCORE, NOTE_AT, NOTE_N, ROW_N
};
/* clang-format on */
#define MAGIC_NUMBER UINT32_C(0xced7230a)

unsigned toy_n_walks;
size_t toy_notes_nbytes;

size_t toy_value(uint32_t i, enum toy_field field, uint8_t value[TOY_VALUE_CAP])
{
    size_t n = field == TOY_VECTOR   ? 12
               : field == TOY_BLOB   ? (i * 37) % 700
               : field == TOY_JOINED ? 4 * ((i * 13) % 60) + i % 4
                                     : 1 + (i * 29) % 300;
    uint32_t seed = i * 8 + (uint32_t)field;
    if (field == TOY_NOTE)
        return (size_t)snprintf((char *)value, TOY_VALUE_CAP, "note of row %u", i);
    for (size_t k = 0; k < n; k++) {
        seed = seed * 1664525 + 1013904223;
        value[k] = (uint8_t)(seed >> 24);
    }
    for (size_t k = 0; field == TOY_VECTOR && k < 3; k++) {
        float x = (float)i + (float)k / 4;
        memcpy(value + 4 * k, &x, 4);
    }
    /* The magic number, at which a writer has to cut the value into pieces. */
    for (size_t k = 0; field == TOY_JOINED && k + 4 <= n; k += 40)
        psti_store_u32(value + k, MAGIC_NUMBER);
    return n;
}

int64_t toy_label(uint32_t i) { return i % 3; }
double toy_score(uint32_t i) { return i / 4.0; }

/* A growing file in memory. */
struct bytes {
    uint8_t *at;
    size_t n;
};

static size_t put(struct bytes *bytes, const void *from, size_t n)
{
    bytes->at = realloc(bytes->at, bytes->n + n + 1);
    assert_non_null(bytes->at);
    memcpy(bytes->at + bytes->n, from, n);
    bytes->n += n;
    return bytes->n - n;
}

static void put_u32(struct bytes *bytes, uint32_t value) { (void)put(bytes, &value, 4); }

/* Encodes bytes and appends them to `to`. Returns where they begin. */
static size_t put_coded(struct bytes *to, enum pst_coding coding, const uint8_t *raw, size_t n)
{
    size_t start = to->n;
    /* Snappy: the value's length as two groups of 7 bits, then a literal with a length of two
     * bytes */
    if (coding == PST_CODING_SNAPPY) {
        uint8_t head[] = {(uint8_t)((n & 127) | 128), (uint8_t)(n >> 7)};
        (void)put(to, head, 2);
        if (n == 0)
            return start;
        uint8_t tag[] = {61 << 2, (uint8_t)(n - 1), (uint8_t)((n - 1) >> 8)};
        (void)put(to, tag, 3);
        (void)put(to, raw, n);
    } else if (coding == PST_CODING_ZSTD) { /* a zstd frame with one raw block */
        put_u32(to, 0xFD2FB528);
        (void)put(to, "\xa0", 1);
        put_u32(to, (uint32_t)n);
        uint32_t block = (uint32_t)n << 3 | 1;
        (void)put(to, &block, 3);
        (void)put(to, raw, n);
    } else { /* an LZ4 frame with a stored block and a checksum */
        put_u32(to, 0x184D2204);
        uint8_t head[3] = {0x64, 0x40};
        head[2] = (uint8_t)(psti_hash32(head, 2) >> 8);
        (void)put(to, head, 3);
        put_u32(to, (uint32_t)n | UINT32_C(1) << 31);
        (void)put(to, raw, n);
        put_u32(to, 0);
        put_u32(to, psti_hash32(raw, n));
    }
    return start;
}

/* Cuts a value wherever the magic number stands at a multiple of 4, and leaves the magic number
 * out. */
static size_t put_pieces(struct bytes *to, const uint8_t *raw, size_t n)
{
    size_t start = to->n, from = 0, n_parts = 0;
    for (size_t at = 0; at + 4 <= n; at += 4) {
        if (psti_load_u32(raw + at) != MAGIC_NUMBER)
            continue;
        put_u32(to, MAGIC_NUMBER);
        put_u32(to, (n_parts++ == 0 ? UINT32_C(1) : UINT32_C(2)) << 29 | (uint32_t)(at - from));
        (void)put(to, raw + from, at - from);
        from = at + 4;
    }
    put_u32(to, MAGIC_NUMBER);
    put_u32(to, (n_parts == 0 ? UINT32_C(0) : UINT32_C(3)) << 29 | (uint32_t)(n - from));
    (void)put(to, raw + from, n - from);
    (void)put(to, "\0\0\0", (4 - (n - from) % 4) % 4);
    return start;
}

static enum pst_coding coding_of_page(uint32_t i_page)
{
    static const enum pst_coding codings[] = {PST_CODING_SNAPPY, PST_CODING_ZSTD, PST_CODING_LZ4};
    return codings[i_page % 3];
}

/* Appends a page with the blobs and vectors of some rows. */
static void put_page(struct bytes *file, uint32_t head[4], uint32_t (*rows)[ROW_N], uint32_t first,
                     uint32_t n, uint32_t i_page)
{
    uint8_t value[TOY_VALUE_CAP];
    struct bytes raw = {0};
    (void)put(&raw, "page", 4);
    for (uint32_t k = 0; k < n; k++) {
        rows[k][PAGE] = i_page;
        rows[k][BLOB_N] = (uint32_t)toy_value(first + k, TOY_BLOB, value);
        rows[k][BLOB_AT] = (uint32_t)put(&raw, value, rows[k][BLOB_N]);
        rows[k][VECTOR_AT] = (uint32_t)put(&raw, value, toy_value(first + k, TOY_VECTOR, value));
    }
    head[0] = (uint32_t)put_coded(file, coding_of_page(i_page), raw.at, raw.n);
    head[1] = (uint32_t)file->n - head[0];
    head[2] = (uint32_t)raw.n;
    head[3] = (uint32_t)coding_of_page(i_page);
    free(raw.at);
}

static void put_row(struct bytes *file, uint32_t row[ROW_N], uint32_t i)
{
    uint8_t value[TOY_VALUE_CAP];
    float score = (float)toy_score(i);
    row[PLAIN_N] = (uint32_t)toy_value(i, TOY_PLAIN, value);
    row[PLAIN_AT] = (uint32_t)put(file, value, row[PLAIN_N]);
    row[JOINED_DECODED] = (uint32_t)toy_value(i, TOY_JOINED, value);
    row[JOINED_AT] = (uint32_t)put_pieces(file, value, row[JOINED_DECODED]);
    row[JOINED_N] = (uint32_t)file->n - row[JOINED_AT];
    row[SNAPPY_DECODED] = (uint32_t)toy_value(i, TOY_SNAPPY, value);
    row[SNAPPY_AT] = (uint32_t)put_coded(file, PST_CODING_SNAPPY, value, row[SNAPPY_DECODED]);
    row[SNAPPY_N] = (uint32_t)file->n - row[SNAPPY_AT];
    row[NOTE_N] = (uint32_t)toy_value(i, TOY_NOTE, value);
    row[NOTE_AT] = (uint32_t)put(file, value, row[NOTE_N]);
    row[LABEL] = (uint32_t)toy_label(i);
    memcpy(&row[SCORE], &score, 4);
}

void toy_write(const char *path, uint32_t first, uint32_t n)
{
    uint32_t n_pages = (n + TOY_PAGE_ROWS - 1) / TOY_PAGE_ROWS;
    uint32_t(*heads)[4] = calloc(n_pages + 1, sizeof *heads);
    uint32_t(*rows)[ROW_N] = calloc(n + 1, sizeof *rows);
    struct bytes file = {0};
    assert_true(heads != NULL && rows != NULL);
    (void)put(&file, "TOY1", 4);
    put_u32(&file, n);
    put_u32(&file, n_pages);
    size_t tables = put(&file, heads, n_pages * sizeof *heads);
    (void)put(&file, rows, n * sizeof *rows);
    for (uint32_t p = 0; p < n_pages; p++) {
        uint32_t at = p * TOY_PAGE_ROWS, left = n - at;
        put_page(&file, heads[p], rows + at, first + at,
                 left < TOY_PAGE_ROWS ? left : TOY_PAGE_ROWS, p);
    }
    for (uint32_t i = 0; i < n; i++)
        put_row(&file, rows[i], first + i);
    memcpy(file.at + tables, heads, n_pages * sizeof *heads);
    memcpy(file.at + tables + n_pages * sizeof *heads, rows, n * sizeof *rows);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.at, 1, file.n, out), file.n);
    assert_int_equal(fclose(out), 0);
    free(file.at);
    free(heads);
    free(rows);
}

/* Walks over a table -------------------------------------------------------- */

static enum pst_status add_columns(struct psti_containers_columns *columns,
                                   uint32_t fields[TOY_N_FIELDS], struct pst_error *err)
{
    static const char names[] = "ant\0bee\0cat";
    static const struct psti_column all[TOY_N_FIELDS] = {
        [TOY_BLOB] = {.name = "blob", .type = PST_FIELD_BYTES},
        [TOY_VECTOR] = {.name = "vector",
                        .type = PST_FIELD_ARRAY,
                        .dtype = PST_DTYPE_F32,
                        .ndim = 1,
                        .shape = {3}},
        [TOY_PLAIN] = {.name = "plain", .type = PST_FIELD_BYTES},
        [TOY_JOINED] = {.name = "joined", .type = PST_FIELD_BYTES},
        [TOY_SNAPPY] = {.name = "snappy", .type = PST_FIELD_BYTES, .is_guess = true},
        [TOY_NOTE] = {.name = "note", .type = PST_FIELD_TEXT},
        [TOY_LABEL] = {.name = "label",
                       .type = PST_FIELD_INT,
                       .n_classes = 3,
                       .class_names = names,
                       .class_names_nbytes = sizeof names},
        [TOY_SCORE] = {.name = "score", .type = PST_FIELD_FLOAT}};
    enum pst_status status = PST_OK;
    for (int i = 0; i < TOY_N_FIELDS && status == PST_OK; i++)
        status = psti_containers_columns_add(columns, &all[i], &fields[i], err);
    return status;
}

static enum pst_status give_row(struct psti_containers_columns *columns, const uint32_t row[ROW_N],
                                const uint32_t fields[TOY_N_FIELDS], const uint64_t *pages,
                                const uint8_t *bytes, struct pst_error *err)
{
    float score;
    memcpy(&score, &row[SCORE], 4);
    struct psti_container_value all[TOY_N_FIELDS] = {
        [TOY_BLOB] = {.is_in_page = true,
                      .i_page = pages[row[PAGE]],
                      .offset = row[BLOB_AT],
                      .nbytes = row[BLOB_N]},
        [TOY_VECTOR] = {.is_in_page = true,
                        .i_page = pages[row[PAGE]],
                        .offset = row[VECTOR_AT],
                        .nbytes = 12,
                        .ndim = 1,
                        .shape = {3}},
        [TOY_PLAIN] = {.offset = row[PLAIN_AT],
                       .nbytes = row[PLAIN_N],
                       .decoded_nbytes = row[PLAIN_N]},
        [TOY_JOINED] = {.offset = row[JOINED_AT],
                        .nbytes = row[JOINED_N],
                        .decoded_nbytes = row[JOINED_DECODED],
                        .coding = PSTI_CODING_PIECES},
        [TOY_SNAPPY] = {.offset = row[SNAPPY_AT],
                        .nbytes = row[SNAPPY_N],
                        .decoded_nbytes = row[SNAPPY_DECODED],
                        .coding = PSTI_CODING_SNAPPY},
        [TOY_NOTE] = {.bytes = bytes + row[NOTE_AT], .nbytes = row[NOTE_N]},
        [TOY_LABEL] = {.int_value = row[LABEL]},
        [TOY_SCORE] = {.float_value = (double)score}};
    struct psti_container_value values[TOY_N_FIELDS];
    uint32_t n = 0;
    for (int i = 0; i < TOY_N_FIELDS; i++) {
        if (fields[i] == PSTI_COLUMN_LEFT_OUT)
            continue;
        values[n] = all[i];
        values[n++].i_field = fields[i];
    }
    return psti_containers_columns_row(columns, NULL, values, n, err);
}

static enum pst_status give_all(const struct psti_walk_source *source, const uint8_t *bytes,
                                struct psti_containers_columns *columns,
                                struct psti_walk_counts *counts, struct pst_error *err)
{
    uint32_t n = psti_load_u32(bytes + 4), n_pages = psti_load_u32(bytes + 8);
    uint32_t fields[TOY_N_FIELDS], row[ROW_N];
    uint64_t *pages = calloc(n_pages + 1, sizeof *pages);
    enum pst_status status = psti_containers_columns_file(columns, source->path, err);
    assert_non_null(pages);
    if (status == PST_OK)
        status = add_columns(columns, fields, err);
    for (uint32_t p = 0; p < n_pages && status == PST_OK; p++) {
        const uint8_t *head = bytes + 12 + 16 * (size_t)p;
        const struct psti_container_page page = {.offset = psti_load_u32(head),
                                                 .nbytes = psti_load_u32(head + 4),
                                                 .decoded_nbytes = psti_load_u32(head + 8),
                                                 .coding =
                                                     (enum psti_coding)psti_load_u32(head + 12)};
        status = psti_containers_columns_page(columns, &page, &pages[p], err);
    }
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        memcpy(row, bytes + 12 + 16 * (size_t)n_pages + i * sizeof row, sizeof row);
        status = give_row(columns, row, fields, pages, bytes, err);
    }
    counts->n_members = counts->n_samples = n;
    free(pages);
    return status;
}

static enum pst_status toy_walk(const struct psti_walk_source *source,
                                const struct psti_table_notes *notes,
                                struct psti_containers_columns *columns,
                                struct psti_walk_counts *counts, struct pst_error *err)
{
    uint8_t *bytes = malloc(source->nbytes + 1);
    assert_non_null(bytes);
    toy_n_walks++;
    toy_notes_nbytes = notes->nbytes;
    ssize_t n = source->read(source->context, bytes, source->nbytes, 0);
    enum pst_status status = n < 12 || memcmp(bytes, "TOY1", 4) != 0
                                 ? psti_fail(err, PST_ERROR_CORRUPT, "containers", "this is no toy")
                                 : give_all(source, bytes, columns, counts, err);
    free(bytes);
    return status;
}

const struct psti_kind psti_containers_kinds[] = {
    {PSTI_CONTAINER_TAR, "tar", {".tar"}, {NULL}, true, NULL},
    {PSTI_CONTAINER_ZIP, "zip", {".zip"}, {NULL}, true, NULL},
    {PSTI_CONTAINER_BETON, "toy", {".toy"}, {"toy.json"}, false, toy_walk},
    {PSTI_CONTAINER_NONE, NULL, {NULL}, {NULL}, false, NULL},
};
