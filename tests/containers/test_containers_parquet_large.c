/* test_containers_parquet_large.c - are the offsets of values in a file of 6 GiB right, and are
 * they found without reading the images?
 *
 * The file exists nowhere: reads give zeros, except for the pieces that a walk needs. */
#include "test.h"

#include "containers/parquet/containers_parquet.h"

#include "base/bits.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    IMAGE_NBYTES = 100 << 20, /* a row group has one page of images of nearly 2^31 bytes */
    IMAGES = 20,
    GROUPS = 3,
    PIECE_CAP = 64,
};

struct piece {
    uint64_t at;
    uint32_t n;
    uint8_t bytes[PIECE_CAP];
};

struct huge {
    struct piece pieces[GROUPS * (IMAGES + 1) + 8];
    uint32_t n_pieces;
    uint64_t values[GROUPS * IMAGES]; /* offset of each image in the file */
    uint64_t end;                     /* end of the bytes written so far */
    uint8_t footer[4096];
    uint32_t n_footer;
    uint64_t n_read;
    uint64_t n_rows;
};

/* Thrift ---------------------------------------------------------------------- */

static uint32_t put_varint(uint8_t *at, uint64_t value)
{
    uint32_t n = 0;
    for (; value >= 0x80; value >>= 7)
        at[n++] = (uint8_t)(value | 0x80);
    at[n++] = (uint8_t)value;
    return n;
}

static void put(struct huge *huge, uint8_t byte) { huge->footer[huge->n_footer++] = byte; }

/* Writes a Thrift field of type i64, which can hold numbers of any width. */
static void put_number(struct huge *huge, uint8_t delta, uint64_t value)
{
    put(huge, (uint8_t)(delta << 4 | 6));
    huge->n_footer += put_varint(huge->footer + huge->n_footer, value << 1);
}

static void put_text(struct huge *huge, uint8_t delta, const char *text)
{
    put(huge, (uint8_t)(delta << 4 | 8));
    put(huge, (uint8_t)strlen(text));
    while (*text != '\0')
        put(huge, (uint8_t)*text++);
}

/* Writes the header of a Thrift list of n structs. */
static void put_list(struct huge *huge, uint8_t delta, uint8_t n)
{
    put(huge, (uint8_t)(delta << 4 | 9));
    put(huge, (uint8_t)(n << 4 | 12));
}

static void make_footer(struct huge *huge, const uint64_t *pages)
{
    put_number(huge, 1, 1);
    put_list(huge, 1, 2);
    put_text(huge, 4, "schema");
    put_number(huge, 1, 1);
    put(huge, 0);
    put_number(huge, 1, 6);
    put_number(huge, 2, 0);
    put_text(huge, 1, "image");
    put(huge, 0);
    put_number(huge, 1, (uint64_t)GROUPS * IMAGES);
    put_list(huge, 1, GROUPS);
    for (uint32_t i = 0; i < GROUPS; i++) {
        put_list(huge, 1, 1);
        put(huge, 3 << 4 | 12); /* ColumnMetaData */
        put_number(huge, 1, 6);
        put_number(huge, 3, 0);
        put_number(huge, 1, IMAGES);
        put_number(huge, 4, pages[i]);
        put(huge, 0);
        put(huge, 0);
        put_number(huge, 2, IMAGES);
        put(huge, 0);
    }
    put(huge, 0);
    uint32_t n = huge->n_footer;
    psti_store_u32(huge->footer + n, n);
    memcpy(huge->footer + n + 4, "PAR1", 4);
    huge->n_footer += 8;
}

/* File ------------------------------------------------------------------------- */

static void put_piece(struct huge *huge, uint64_t at, const void *bytes, uint32_t n)
{
    struct piece *piece = &huge->pieces[huge->n_pieces++];
    assert_true(n <= PIECE_CAP && huge->n_pieces <= sizeof huge->pieces / sizeof *huge->pieces);
    piece->at = at;
    piece->n = n;
    memcpy(piece->bytes, bytes, n);
    huge->end = at + n;
}

/* Writes a page: its header, then the lengths of the images and the images. */
static void put_page(struct huge *huge, uint32_t i_group)
{
    uint8_t head[PIECE_CAP];
    uint32_t n = 0;
    const uint64_t nbytes = IMAGES * (UINT64_C(4) + IMAGE_NBYTES);
    assert_true(nbytes <= INT32_MAX);
    head[n++] = 0x15; /* kind: a data page */
    n += put_varint(head + n, 0);
    for (int i = 0; i < 2; i++) { /* decoded and stored size of the page */
        head[n++] = 0x15;
        n += put_varint(head + n, nbytes << 1);
    }
    head[n++] = 0x2c;
    head[n++] = 0x15;
    n += put_varint(head + n, IMAGES << 1);
    for (int i = 0; i < 3; i++) { /* encodings: PLAIN values, and levels, of which there are none */
        head[n++] = 0x15;
        n += put_varint(head + n, 0);
    }
    head[n++] = 0;
    head[n++] = 0;
    put_piece(huge, huge->end, head, n);
    for (uint32_t i = 0; i < IMAGES; i++) {
        uint8_t first[7] = {0, 0, 0, 0, 0xff, 0xd8, 0xff};
        psti_store_u32(first, IMAGE_NBYTES);
        huge->values[i_group * IMAGES + i] = huge->end + 4;
        put_piece(huge, huge->end, first, sizeof first);
        huge->end += IMAGE_NBYTES - 3;
    }
}

static void make(struct huge *huge)
{
    uint64_t pages[GROUPS];
    memset(huge, 0, sizeof *huge);
    put_piece(huge, 0, "PAR1", 4);
    for (uint32_t i = 0; i < GROUPS; i++) {
        pages[i] = huge->end;
        put_page(huge, i);
    }
    make_footer(huge, pages);
}

/* Copies the part of `bytes`, which lie at `at` in the file, that overlaps the requested range. */
static void overlay(uint8_t *out, size_t nbytes, uint64_t offset, const uint8_t *bytes, uint32_t n,
                    uint64_t at)
{
    for (uint32_t i = 0; i < n; i++)
        if (at + i >= offset && at + i < offset + nbytes)
            out[at + i - offset] = bytes[i];
}

static ssize_t huge_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct huge *huge = context;
    memset(bytes, 0, nbytes);
    for (uint32_t i = 0; i < huge->n_pieces; i++)
        overlay(bytes, nbytes, offset, huge->pieces[i].bytes, huge->pieces[i].n,
                huge->pieces[i].at);
    overlay(bytes, nbytes, offset, huge->footer, huge->n_footer, huge->end);
    huge->n_read += nbytes;
    return (ssize_t)nbytes;
}

/* Sink ------------------------------------------------------------------------- */

static enum pst_status sink_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    (void)writer;
    (void)err;
    assert_string_equal(field->name, "image");
    assert_int_equal(field->type, PST_FIELD_IMAGE);
    *i_field = 0;
    return PST_OK;
}

static enum pst_status sink_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct huge *huge = (struct huge *)(void *)writer;
    (void)name;
    (void)err;
    assert_int_equal(n, 1);
    assert_false(values->is_in_page);
    assert_int_equal(values->nbytes, IMAGE_NBYTES);
    assert_true(values->offset == huge->values[huge->n_rows++]);
    return PST_OK;
}

static void values_beyond_4_gib_are_where_they_are(void **state)
{
    (void)state;
    struct huge *huge = malloc(sizeof *huge);
    assert_non_null(huge);
    make(huge);
    struct psti_walk_source source = {.read = huge_read,
                                      .context = huge,
                                      .nbytes = huge->end + huge->n_footer,
                                      .path = "huge.parquet"};
    struct psti_field_sink sink = {.field = sink_field,
                                   .sample = sink_sample,
                                   .writer = (struct psti_containers_writer *)(void *)huge};
    static const struct psti_table_notes notes;
    struct psti_containers_columns *columns = NULL;
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_true(source.nbytes > UINT64_C(5) << 30);
    assert_ok(psti_containers_columns_open(NULL, 0, &sink, &columns, &err));
    assert_ok(psti_containers_parquet_walk(&source, &notes, columns, &counts, &err));
    psti_containers_columns_close(&columns);
    assert_int_equal(counts.n_samples, GROUPS * IMAGES);
    assert_int_equal(huge->n_rows, GROUPS * IMAGES);
    assert_true(huge->values[GROUPS * IMAGES - 1] > UINT64_C(5) << 30);
    /* On a slow machine the window may try reads of 1 MiB. */
    if (huge->n_read > 128 << 20)
        fail_msg("%" PRIu64 " bytes were read", huge->n_read);
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_beyond_4_gib_are_where_they_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
