/* test_dataset_table.c - opens tables in place: are all values those that were written, inside
 * pages and outside; is one index made once, with checksums; and is an index with false contents
 * refused? */
#include "toy_table.h"

#include "folder_test.h"

#include "base/bits.h"
#include "base/codings/codings.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "dataset/dataset_container.h"
#include "format/format_container.h"

#include <penstock/penstock.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_FIRST = 23, N = 40 };

static struct pst_error err; /* error of the last call */
static char ground[1024];    /* folder of the test's files */

static const char *place(void **state, const char *relative)
{
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    return folder_path(state, relative);
}

/* Writes two files of rows. */
static const char *write_two(void **state)
{
    folder_mkdir(state, "data");
    toy_write(place(state, "data/part-0.toy"), 0, N_FIRST);
    toy_write(place(state, "data/part-1.toy"), N_FIRST, N - N_FIRST);
    snprintf(ground, sizeof ground, "%s", place(state, "data"));
    return ground;
}

static pst_dataset *open_with(const char *path, const struct pst_dataset_options *options)
{
    pst_dataset *dataset;
    assert_ok(pst_dataset_open(path, options, &dataset, &err));
    return dataset;
}

static uint32_t field(const pst_dataset *dataset, const char *name)
{
    int i = pst_dataset_find_field(dataset, name);
    assert_true(i >= 0);
    return (uint32_t)i;
}

static const char *const names[TOY_N_FIELDS] = {"blob",   "vector", "plain", "joined",
                                                "snappy", "note",   "label", "score"};

/* Asserts that a row has its written values, read whole and in parts. */
static void assert_row(const pst_dataset *dataset, uint32_t i)
{
    uint8_t want[TOY_VALUE_CAP], got[TOY_VALUE_CAP];
    char name[PST_NAME_CAP], wanted[64];
    int64_t label;
    double score;
    struct pst_item item;
    for (int f = TOY_BLOB; f <= TOY_NOTE; f++) {
        uint32_t i_field = field(dataset, names[f]);
        size_t n = toy_value(i, (enum toy_field)f, want);
        assert_ok(pst_dataset_item(dataset, i, i_field, 0, &item, sizeof item, &err));
        assert_int_equal(psti_dataset_item_nbytes(&item), n);
        assert_ok(pst_dataset_read(dataset, i, i_field, 0, 0, n, got, &err));
        assert_memory_equal(got, want, n);
        if (n < 3)
            continue;
        assert_ok(pst_dataset_read(dataset, i, i_field, 0, 1, n - 2, got, &err));
        assert_memory_equal(got, want + 1, n - 2);
        assert_int_equal(pst_dataset_read(dataset, i, i_field, 0, 1, n, got, NULL),
                         PST_ERROR_ARGUMENT);
    }
    assert_ok(pst_dataset_int(dataset, i, field(dataset, "label"), &label, &err));
    assert_int_equal(label, toy_label(i));
    assert_ok(pst_dataset_float(dataset, i, field(dataset, "score"), &score, &err));
    assert_true(score == toy_score(i));
    snprintf(wanted, sizeof wanted, "part-%d/%08u", i >= N_FIRST, i >= N_FIRST ? i - N_FIRST : i);
    assert_ok(pst_dataset_sample_name(dataset, i, name, &err));
    assert_string_equal(name, wanted);
}

/* Says whether libzstd and liblz4 are installed. Most tests need both. */
static bool has_libraries(void)
{
    struct psti_codings *codings = NULL;
    enum pst_status status = psti_codings_open(
        &codings, psti_codings_of(PST_CODING_ZSTD) | psti_codings_of(PST_CODING_LZ4), "test", &err);
    psti_codings_close(&codings);
    if (status != PST_OK)
        print_message("%s\n", err.text);
    return status == PST_OK;
}

static void rows_are_what_was_written(void **state)
{
    const char *path = write_two(state);
    unsigned before = toy_n_walks;
    for (int again = 0; again < 2; again++) {
        pst_dataset *dataset = open_with(path, NULL);
        assert_int_equal(pst_dataset_kind_of(dataset), PST_DATASET_BETON);
        assert_int_equal(pst_dataset_count(dataset), N);
        assert_int_equal(pst_dataset_n_files(dataset), 2);
        assert_int_equal(pst_dataset_n_fields(dataset), TOY_N_FIELDS);
        assert_non_null(strstr(pst_dataset_index_path(dataset), "/toy-"));
        for (uint32_t i = 0; has_libraries() && i < N; i++)
            assert_row(dataset, i);
        assert_ok(psti_dataset_check_index(dataset, &err));
        assert_ok(psti_dataset_check_identity(dataset, &err));
        pst_dataset_close(&dataset);
    }
    /* the second opening uses the index, without walks */
    assert_int_equal(toy_n_walks - before, 2);
}

static void fields_have_types_shapes_and_class_names(void **state)
{
    pst_dataset *dataset = open_with(write_two(state), NULL);
    uint32_t label = field(dataset, "label");
    const struct pst_field *vector = pst_dataset_field(dataset, field(dataset, "vector"));
    assert_int_equal(vector->type, PST_FIELD_ARRAY);
    assert_int_equal(vector->dtype, PST_DTYPE_F32);
    assert_int_equal(vector->ndim, 1);
    assert_int_equal(vector->shape[0], 3);
    assert_int_equal(pst_dataset_field(dataset, label)->n_classes, 3);
    assert_string_equal(pst_dataset_class_name(dataset, label, 0), "ant");
    assert_string_equal(pst_dataset_class_name(dataset, label, 2), "cat");
    assert_null(pst_dataset_class_name(dataset, label, 3));
    assert_null(pst_dataset_class_name(dataset, label, -1));
    assert_null(pst_dataset_class_name(dataset, field(dataset, "score"), 0));
    pst_dataset_close(&dataset);
}

/* An item within a page states the page's place and coding. */
static void items_state_their_pages(void **state)
{
    pst_dataset *dataset = open_with(write_two(state), NULL);
    uint32_t blob = field(dataset, "blob"), snappy = field(dataset, "snappy");
    uint8_t value[TOY_VALUE_CAP];
    struct pst_item item, other;
    static const enum pst_coding codings[] = {PST_CODING_SNAPPY, PST_CODING_ZSTD, PST_CODING_LZ4};
    for (uint32_t i = 1; i < N; i++) {
        uint32_t in_file = i >= N_FIRST ? i - N_FIRST : i;
        assert_ok(pst_dataset_item(dataset, i, blob, 0, &item, sizeof item, &err));
        assert_int_equal(item.coding, codings[in_file / TOY_PAGE_ROWS % 3]);
        assert_int_equal(item.decoded_nbytes, toy_value(i, TOY_BLOB, value));
        assert_true(item.page_nbytes >= item.page_offset + item.decoded_nbytes);
        assert_true(item.page_offset >= 4);
        assert_false(item.has_checksum);
        assert_true(psti_dataset_item_is_paged(&item));
        assert_int_equal(psti_dataset_item_kept_nbytes(&item), item.decoded_nbytes);
        assert_int_equal(psti_dataset_item_scratch_nbytes(&item), item.page_nbytes);
        assert_true(item.page_nbytes <= psti_dataset_max_decoded_nbytes(dataset, blob));
        assert_true(item.nbytes <= pst_dataset_max_item_nbytes(dataset, blob));
        if (in_file % TOY_PAGE_ROWS == 1 && i + 1 < N) {
            assert_ok(pst_dataset_item(dataset, i + 1, blob, 0, &other, sizeof other, &err));
            assert_int_equal(other.offset, item.offset);
            assert_true(other.page_offset > item.page_offset);
        }
        assert_ok(pst_dataset_item(dataset, i, snappy, 0, &item, sizeof item, &err));
        assert_int_equal(item.coding, PST_CODING_SNAPPY);
        assert_int_equal(item.page_nbytes, 0);
        assert_false(psti_dataset_item_is_paged(&item));
        assert_int_equal(psti_dataset_item_kept_nbytes(&item), item.nbytes);
        assert_int_equal(psti_dataset_item_scratch_nbytes(&item), item.decoded_nbytes);
    }
    uint32_t all = 0;
    for (int c = PST_CODING_SNAPPY; c <= PST_CODING_PIECES; c++)
        all |= psti_codings_of((enum pst_coding)c);
    assert_int_equal(psti_dataset_codings(dataset), all);
    /* An item of no bytes is not in any page. */
    assert_ok(pst_dataset_item(dataset, 0, blob, 0, &item, sizeof item, &err));
    assert_int_equal(item.nbytes, 0);
    assert_int_equal(item.i_file, PST_FILE_NONE);
    pst_dataset_close(&dataset);
}

static void rules_are_of_columns(void **state)
{
    static const struct pst_member_rule rules[] = {
        {.suffix = "blob", .field = "picture", .type = PST_FIELD_IMAGE},
        {.suffix = "plain", .is_left_out = true},
        {.suffix = "label", .type = PST_FIELD_INT, .n_classes = 5}};
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .members = rules, .n_members = 3};
    const char *path = write_two(state);
    pst_dataset *dataset = open_with(path, &options);
    assert_int_equal(pst_dataset_n_fields(dataset), TOY_N_FIELDS - 1);
    assert_int_equal(pst_dataset_find_field(dataset, "plain"), -1);
    uint32_t picture = field(dataset, "picture"), label = field(dataset, "label");
    assert_int_equal(pst_dataset_field(dataset, picture)->type, PST_FIELD_IMAGE);
    assert_int_equal(pst_dataset_field(dataset, label)->n_classes, 5);
    /* the table's class names are for three classes */
    assert_null(pst_dataset_class_name(dataset, label, 0));
    pst_dataset_close(&dataset);
    struct pst_member_rule wrong[] = {{.suffix = "Blob", .field = "picture"}};
    options.members = wrong;
    options.n_members = 1;
    assert_int_equal(pst_dataset_open(path, &options, &dataset, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "no column has the name \"Blob\"; there are \"blob\""));
    wrong[0] = (struct pst_member_rule){.suffix = "score", .type = PST_FIELD_TEXT};
    assert_int_equal(pst_dataset_open(path, &options, &dataset, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "cannot be taken as text"));
}

static void paths_splits_and_patterns(void **state)
{
    char text[2048];
    (void)write_two(state);
    folder_mkdir(state, "splits/train");
    folder_mkdir(state, "splits/val");
    toy_write(place(state, "splits/train/a.toy"), 0, 3);
    toy_write(place(state, "splits/val/a.toy"), 3, 2);
    static const struct {
        const char *path, *split;
        uint64_t n;
    } good[] = {
        {"data/part-0.toy", NULL, N_FIRST},
        {"data/part-*.toy", NULL, N},
        {"data/part-{0,1}.toy", NULL, N},
        {"data/part-{1,0}.toy", NULL, N},
        {"splits", "train", 3},
        {"splits", "validation", 2},
        {"splits", "all", 5},
        {"splits/val", NULL, 2},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct pst_dataset_options options = {.struct_size = sizeof options,
                                              .split = good[i].split};
        pst_dataset *dataset = open_with(place(state, good[i].path), &options);
        assert_int_equal(pst_dataset_count(dataset), good[i].n);
        pst_dataset_close(&dataset);
    }
    pst_dataset *dataset;
    assert_int_equal(pst_dataset_open(place(state, "splits"), NULL, &dataset, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "train, val"));
    folder_text(state, "data/b.tar", "x");
    assert_int_equal(pst_dataset_open(place(state, "data"), NULL, &dataset, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "both *.tar and *.toy"));
    snprintf(text, sizeof text, "%s::%s", place(state, "data/part-0.toy"),
             place(state, "data/b.tar"));
    assert_int_equal(pst_dataset_open(text, NULL, &dataset, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "is a toy"));
    assert_int_equal(pst_dataset_open(place(state, "data/*.pt"), NULL, &dataset, &err),
                     PST_ERROR_NOT_FOUND);
    folder_text(state, "bad/a.toy", "something else");
    assert_int_equal(pst_dataset_open(place(state, "bad"), NULL, &dataset, &err),
                     PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.file, "bad/a.toy"));
}

/* A folder with pictures in it stays a plain folder. */
static void pictures_make_a_plain_folder(void **state)
{
    static const uint8_t jpeg[] = "\xff\xd8\xff\xe0";
    folder_file(state, "mixed/class/a.jpg", jpeg, 4);
    toy_write(place(state, "mixed/x.toy"), 0, 3);
    pst_dataset *dataset = open_with(place(state, "mixed"), NULL);
    assert_int_equal(pst_dataset_kind_of(dataset), PST_DATASET_FOLDER);
    pst_dataset_close(&dataset);
}

/* Notes beside the shards are passed to the walk; changed notes make a new index. */
static void notes_reach_the_walk(void **state)
{
    const char *path = write_two(state);
    unsigned before = toy_n_walks;
    pst_dataset *dataset = open_with(path, NULL);
    pst_dataset_close(&dataset);
    assert_int_equal(toy_notes_nbytes, 0);
    for (int i = 0; i < 3; i++) {
        folder_text(state, "data/toy.json", i < 2 ? "{}" : "{ }");
        dataset = open_with(path, NULL);
        pst_dataset_close(&dataset);
        assert_int_equal(toy_notes_nbytes, i < 2 ? 2 : 3);
    }
    /* three indexes of two files: without notes, with "{}", and with "{ }" */
    assert_int_equal(toy_n_walks - before, 6);
}

/* Checksums cover the bytes that a cache keeps: the decoded bytes of an item in a page, otherwise
 * the stored bytes. */
static void sums_are_made(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .sums = true};
    uint8_t value[TOY_VALUE_CAP];
    struct pst_item item;
    if (!has_libraries())
        skip();
    const char *path = write_two(state);
    pst_dataset *dataset = open_with(path, &options);
    assert_true(psti_dataset_can_check_bytes(dataset));
    for (uint32_t i = 0; i < N; i++) {
        assert_row(dataset, i);
        for (int f = TOY_BLOB; f <= TOY_SNAPPY; f++) {
            size_t n = toy_value(i, (enum toy_field)f, value);
            assert_ok(pst_dataset_item(dataset, i, field(dataset, names[f]), 0, &item, sizeof item,
                                       &err));
            if (item.i_file == PST_FILE_NONE)
                continue;
            assert_true(item.has_checksum);
            if (f == TOY_BLOB || f == TOY_VECTOR || f == TOY_PLAIN)
                assert_true(item.checksum == psti_hash64(value, n));
            else
                assert_true(item.checksum != psti_hash64(value, n));
        }
    }
    pst_dataset_close(&dataset);
    /* The bytes of a page change while the data set is open. */
    const char *file = place(state, "data/part-0.toy");
    dataset = open_with(path, &options);
    uint32_t blob = field(dataset, "blob");
    assert_row(dataset, 3); /* the first read compares the file with the index */
    assert_ok(pst_dataset_item(dataset, 3, blob, 0, &item, sizeof item, &err));
    int fd = open(file, O_RDWR);
    uint8_t byte = 0;
    /* The page ends with the blob and the vector of row 4. */
    off_t at = (off_t)(item.offset + item.nbytes - 1 - 12);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    for (uint32_t i = 0; i < TOY_PAGE_ROWS; i++) {
        size_t n = toy_value(i, TOY_BLOB, value);
        assert_int_equal(pst_dataset_read(dataset, i, blob, 0, 0, n, value, &err),
                         i == 4 ? PST_ERROR_CHECKSUM : PST_OK);
    }
    assert_int_equal(err.sample, 4);
    assert_int_equal(err.offset, item.offset);
    assert_non_null(strstr(err.file, "part-0.toy"));
    pst_dataset_close(&dataset);
}

/* Identities -------------------------------------------------------------------- */

static void class_names_enter_identities(void **state)
{
    static const struct pst_member_rule rules[] = {
        {.suffix = "label", .type = PST_FIELD_INT, .n_classes = 4}};
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .members = rules, .n_members = 1};
    uint8_t a[2][16], b[2][16];
    const char *path = write_two(state);
    for (int k = 0; k < 2; k++) {
        pst_dataset *dataset = open_with(path, k == 0 ? NULL : &options);
        assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_BYTES, a[k], &err));
        assert_ok(pst_dataset_identity(dataset, PST_IDENTITY_SAMPLES, b[k], &err));
        pst_dataset_close(&dataset);
    }
    assert_memory_not_equal(a[0], a[1], 16);
    assert_memory_not_equal(b[0], b[1], 16);
}

/* Tests of an index with false contents ------------------------------------------------ */

/* Changes bytes of the index and corrects all its checksums. */
static void forge(uint8_t *index, size_t nbytes)
{
    uint64_t blocks = psti_load_u64(index + 160), n = psti_load_u64(index + 168);
    assert_true(blocks + 8 * n <= nbytes);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = PSTI_INDEX_HEADER_NBYTES + i * PSTI_INDEX_BLOCK_NBYTES;
        uint64_t left = blocks - at;
        psti_store_u64(index + blocks + 8 * i,
                       psti_hash64(index + at, left < PSTI_INDEX_BLOCK_NBYTES
                                                   ? (size_t)left
                                                   : PSTI_INDEX_BLOCK_NBYTES));
    }
    psti_store_u64(index + 176, psti_hash64(index + blocks, 8 * n));
    psti_store_u64(index + PSTI_INDEX_HEADER_NBYTES - 8,
                   psti_hash64(index, PSTI_INDEX_HEADER_NBYTES - 8));
}

static uint8_t *read_file(const char *path, size_t *nbytes)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    FILE *file = fopen(path, "rb");
    assert_true(bytes != NULL && file != NULL);
    *nbytes = fread(bytes, 1, (size_t)st.st_size, file);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

/* Opens a forged index and reads every item. Returns the status of the first failure. */
static enum pst_status use_index(const char *base, const uint8_t *bytes, size_t nbytes,
                                 const char *path)
{
    char why[PST_ERROR_PATH_CAP];
    pst_dataset *dataset;
    bool fits;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
    enum pst_status status = psti_dataset_open_container_index(
        base, base, path, open(path, O_RDONLY), NULL, &fits, why, &dataset, &err);
    for (uint64_t i = 0; status == PST_OK && i < pst_dataset_count(dataset); i++) {
        char name[PST_NAME_CAP];
        status = pst_dataset_sample_name(dataset, i, name, &err);
        for (uint32_t f = 0; status == PST_OK && f < pst_dataset_n_fields(dataset); f++) {
            uint8_t value[TOY_VALUE_CAP];
            struct pst_item item;
            int64_t number;
            if (pst_dataset_field(dataset, f)->type == PST_FIELD_INT)
                status = pst_dataset_int(dataset, i, f, &number, &err);
            if (pst_dataset_field(dataset, f)->type == PST_FIELD_INT ||
                pst_dataset_field(dataset, f)->type == PST_FIELD_FLOAT)
                continue;
            status = pst_dataset_item(dataset, i, f, 0, &item, sizeof item, &err);
            if (status == PST_OK && psti_dataset_item_nbytes(&item) <= sizeof value)
                status = pst_dataset_read(dataset, i, f, 0, 0, psti_dataset_item_nbytes(&item),
                                          value, &err);
        }
    }
    if (status == PST_OK || dataset != NULL)
        pst_dataset_close(&dataset);
    return status;
}

static void forged_indexes_are_refused(void **state)
{
    if (!has_libraries())
        skip();
    const char *base = write_two(state);
    pst_dataset *dataset = open_with(base, NULL);
    size_t nbytes;
    uint8_t *good = read_file(pst_dataset_index_path(dataset), &nbytes);
    uint8_t *bad = malloc(nbytes);
    uint32_t label = field(dataset, "label"), blob = field(dataset, "blob");
    pst_dataset_close(&dataset);
    char path[2048];
    snprintf(path, sizeof path, "%s", place(state, "forged"));
    uint64_t fields = psti_load_u64(good + 88), pages = psti_load_u64(good + 200);
    uint64_t blobs = psti_load_u64(good + fields + 256 * blob + 128);
    uint64_t labels = psti_load_u64(good + fields + 256 * label + 128);
    uint64_t classes = psti_load_u64(good + fields + 256 * label + 192);
    uint64_t groups = psti_load_u64(good + 120), all_names = psti_load_u64(good + 128);
    assert_int_equal(psti_load_u64(good + 208), 5 + 4); /* pages */
    const struct {
        uint64_t at;
        uint32_t nbytes;
        uint64_t value;
    } changes[] = {
        {pages, 8, UINT64_MAX},                /* a page beyond the end of its file */
        {pages, 8, 1 << 20},                   /* a page just beyond its file's end */
        {pages + 8, 4, UINT32_MAX},            /* page longer than any page may be */
        {pages + 8, 4, INT32_MAX},             /* page longer than its file */
        {pages + 12, 4, 8},                    /* page shorter than its items */
        {pages + 12, 4, INT32_MAX},            /* decoded size exceeds the field's largest */
        {pages + 16, 4, 1},                    /* page of another file */
        {pages + 16, 4, UINT32_MAX},           /* page that lies in no file */
        {pages + 20, 4, 0},                    /* page without a coding */
        {pages + 20, 4, 6},                    /* page with an unknown coding */
        {pages + 20, 4, PST_CODING_LZ4},       /* page with a wrong coding */
        {blobs + 24, 6, 9},                    /* item in a page that does not exist */
        {blobs + 24, 6, 5},                    /* item in a page of another file */
        {blobs + 24, 6, (1ULL << 48) - 1},     /* far away */
        {blobs + 24 + 6, 5, (1ULL << 40) - 1}, /* item longer than its page */
        {blobs + 24 + 11, 5, (1ULL << 39) | ((1ULL << 39) - 2)}, /* item beyond its page */
        {blobs + 24 + 11, 5, (6ULL << 36) | 5},                  /* item with an unknown coding */
        {blobs + 24 + 11, 5, 5}, /* uncoded, but of another length */
        {labels, 8, 3},          /* label outside of the classes */
        {labels, 8, UINT64_MAX},
        {groups, 8, UINT64_MAX},            /* offset of the names far outside of the index */
        {groups, 8, 1 << 20},               /* names beyond all names */
        {groups + 40 + 8, 2, 0},            /* an empty name */
        {groups + 40 + 10, 2, 0},           /* name that ends before it begins */
        {groups + 40 + 8, 2, 5000},         /* name that is too long */
        {all_names, 1, 0},                  /* name with a NUL in it */
        {fields + 256 * blob + 249, 1, 20}, /* largest item stated too small */
        {fields + 256 * blob + 249, 1, 8},
        {120, 8, UINT64_MAX - 63}, /* offsets of names outside of the index */
        {classes + 8, 8, 1000},    /* class name outside of the names */
        {classes + 8, 8, 0},       /* empty class name */
        {classes + 32, 1, 7},      /* byte that is no class name */
        {200, 8, UINT64_MAX - 63}, /* pages outside of the index */
        {208, 8, UINT64_MAX},      /* too many pages */
    };
    assert_int_equal(use_index(base, good, nbytes, path), PST_OK);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(bad, good, nbytes);
        memcpy(bad + changes[i].at, &changes[i].value, changes[i].nbytes);
        forge(bad, nbytes);
        enum pst_status status = use_index(base, bad, nbytes, path);
        if (status != PST_ERROR_CORRUPT)
            print_error("change %zu: %s\n", i, pst_status_name(status));
        assert_int_equal(status, PST_ERROR_CORRUPT);
    }
    free(good);
    free(bad);
}

/* An index of version 2 is made again in the present version. */
static void older_indexes_are_made_anew(void **state)
{
    const char *base = write_two(state);
    pst_dataset *dataset = open_with(base, NULL);
    char path[2048];
    size_t nbytes;
    snprintf(path, sizeof path, "%s", pst_dataset_index_path(dataset));
    pst_dataset_close(&dataset);
    uint8_t *bytes = read_file(path, &nbytes);
    psti_store_u16(bytes + 8, 2);
    forge(bytes, nbytes);
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
    free(bytes);
    unsigned before = toy_n_walks;
    dataset = open_with(base, NULL);
    assert_int_equal(pst_dataset_count(dataset), N);
    pst_dataset_close(&dataset);
    assert_int_equal(toy_n_walks - before, 2);
}

/* A file without rows is a file of the data set, too. */
static void empty_files_are_passed(void **state)
{
    (void)write_two(state);
    toy_write(place(state, "data/part-00.toy"), 0, 0);
    pst_dataset *dataset = open_with(place(state, "data"), NULL);
    assert_int_equal(pst_dataset_count(dataset), N);
    assert_int_equal(pst_dataset_n_files(dataset), 3);
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_what_was_written, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(fields_have_types_shapes_and_class_names, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(items_state_their_pages, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(rules_are_of_columns, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(paths_splits_and_patterns, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(pictures_make_a_plain_folder, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(notes_reach_the_walk, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(sums_are_made, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(class_names_enter_identities, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(forged_indexes_are_refused, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(older_indexes_are_made_anew, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(empty_files_are_passed, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
