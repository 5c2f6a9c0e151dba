/* test_containers_mds.c - are MDS shards read as streaming reads them, and is every false statement
 * in a shard, its index.json or its file detected? */
#include "test.h"

#include "table_print.h"

#include "containers/mds/containers_mds.h"

#include <stdlib.h>
#include <string.h>

enum { SHARD_CAP = 1 << 16 };

/* A shard that a test makes byte by byte. */
struct shard {
    uint8_t bytes[SHARD_CAP];
    size_t nbytes;
};

static void put_u32(uint8_t *out, uint32_t value) { memcpy(out, &value, 4); }

/* Makes a shard of n samples. Sample i is nbytes[i] bytes of `data`. */
static void make(struct shard *shard, const char *json, uint32_t n, const void *data,
                 const uint32_t *nbytes)
{
    size_t n_json = strlen(json), at = 4 + 4 * ((size_t)n + 1);
    const uint8_t *from = data;
    put_u32(shard->bytes, n);
    memcpy(shard->bytes + at, json, n_json);
    at += n_json;
    for (uint32_t i = 0; i <= n; i++) {
        put_u32(shard->bytes + 4 + 4 * (size_t)i, (uint32_t)at);
        if (i == n)
            break;
        assert_true(at + nbytes[i] <= SHARD_CAP);
        memcpy(shard->bytes + at, from, nbytes[i]);
        from += nbytes[i];
        at += nbytes[i];
    }
    shard->nbytes = at;
}

/* Returns the JSON configuration of one column. size: a number, or "null". */
static const char *one_column(const char *encoding, const char *size)
{
    static char json[512];
    snprintf(
        json, sizeof json,
        "{\"column_encodings\": [\"%s\"], \"column_names\": [\"x\"], \"column_sizes\": [%s], "
        "\"compression\": null, \"format\": \"mds\", \"hashes\": [], \"size_limit\": 67108864, "
        "\"version\": 2}",
        encoding, size);
    return json;
}

/* Makes a shard of one column and one sample with this value. */
static void make_one(struct shard *shard, const char *encoding, const char *size, const void *value,
                     uint32_t nbytes)
{
    uint8_t sample[4096];
    uint32_t n = 0;
    if (strcmp(size, "null") == 0) {
        put_u32(sample, nbytes);
        n = 4;
    }
    memcpy(sample + n, value, nbytes);
    n += nbytes;
    make(shard, one_column(encoding, size), 1, sample, &n);
}

static enum pst_status walk(struct table_print *table, const struct shard *shard, const char *notes)
{
    return table_walk(table, psti_containers_mds_walk, "data/shard.00000.mds", shard->bytes,
                      shard->nbytes, notes);
}

/* Asserts that the walk over a shard ends with this status and text before the first row. */
static void assert_fails(const struct shard *shard, const char *notes, enum pst_status status,
                         const char *text)
{
    struct table_print *table = table_open(NULL, 0);
    table_assert_fails(table, walk(table, shard, notes), status, text);
    assert_string_equal(table->err.file, "data/shard.00000.mds");
    table_close(table);
}

/* Asserts that the only value of a shard is printed as this text. */
static void assert_value(const char *encoding, const char *size, const void *value, uint32_t nbytes,
                         const char *want)
{
    struct shard *shard = calloc(1, sizeof *shard);
    struct table_print *table = table_open(NULL, 0);
    struct pst_error err;
    char line[256];
    make_one(shard, encoding, size, value, nbytes);
    enum pst_status status = walk(table, shard, NULL);
    err = table->err;
    assert_ok(status);
    snprintf(line, sizeof line, "shard.00000/00000000\n  x %s\n", want);
    assert_string_equal(table->log, line);
    table_close(table);
    free(shard);
}

static void assert_value_fails(const char *encoding, const char *size, const void *value,
                               uint32_t nbytes, enum pst_status status, const char *text)
{
    struct shard *shard = calloc(1, sizeof *shard);
    make_one(shard, encoding, size, value, nbytes);
    assert_fails(shard, NULL, status, text);
    free(shard);
}

static void streaming_reads_the_same(void **state)
{
    (void)state;
    size_t n_index = 0, n_expected = 0;
    char *index = (char *)table_file("mds/all", "index.json", &n_index);
    char *expected = (char *)table_file("mds/all", "expected.txt", &n_expected);
    struct table_print *table = table_open(NULL, 0);
    uint32_t n = 0;
    for (const char *at = index; (at = strstr(at, "\"basename\": \"shard.")) != NULL; at++, n++) {
        char name[32];
        snprintf(name, sizeof name, "shard.%05u.mds", n);
        struct pst_error err;
        enum pst_status status =
            table_walk_file(table, psti_containers_mds_walk, "mds/all", name, "index.json");
        err = table->err;
        assert_ok(status);
        assert_true(table->counts.n_samples > 0);
    }
    assert_true(n >= 2);
    assert_string_equal(table->log, expected);
    table->log[0] = '\0';
    table_fields(table);
    assert_string_equal(table->log, "any array uint16\nblob bytes\nf16 float\nf32 float\n"
                                    "f64 float\nfixed array int16 2x3\ni16 int\ni32 int\n"
                                    "i64 int\ni8 int\njpg image\nlabel int\nmeta json\n"
                                    "photo image\nraw array uint8\nsd text\nseg mask\nsf float\n"
                                    "si int\ntext text\ntyped array float32\nu16 int\nu32 int\n"
                                    "u64 int\nu8 int\n");
    table_close(table);
    free(expected);
    free(index);
}

/* The walk ends by itself wherever the file is truncated and whichever byte is changed. */
static void cut_and_flipped_files_are_told(void **state)
{
    (void)state;
    size_t nbytes = 0, n_index = 0;
    uint8_t *bytes = table_file("mds/all", "shard.00000.mds", &nbytes);
    char *index = (char *)table_file("mds/all", "index.json", &n_index);
    for (size_t n = 0; n < nbytes; n += n < 2048 ? 1 : 97) {
        uint8_t *copy = malloc(n + 1); /* memory of exactly n bytes, for the sanitizer */
        memcpy(copy, bytes, n);
        copy = realloc(copy, n > 0 ? n : 1);
        struct table_print *table = table_open(NULL, 0);
        enum pst_status status = table_walk(table, psti_containers_mds_walk, "shard.00000.mds",
                                            copy, n, n % 2 == 0 ? NULL : index);
        assert_true(status == PST_ERROR_TRUNCATED || status == PST_ERROR_CORRUPT);
        assert_int_equal(table->n_rows, 0);
        assert_string_equal(table->err.file, "shard.00000.mds");
        table_close(table);
        free(copy);
    }
    for (size_t i = 0; i < nbytes; i += i < 2048 ? 1 : 97) {
        struct table_print *table = table_open(NULL, 0);
        bytes[i] ^= i % 3 == 0 ? 0xFF : 1;
        enum pst_status status = table_walk(table, psti_containers_mds_walk, "shard.00000.mds",
                                            bytes, nbytes, i % 2 == 0 ? NULL : index);
        if (status != PST_OK)
            assert_true(table->err.text[0] != '\0' && table->err.file[0] != '\0');
        bytes[i] ^= i % 3 == 0 ? 0xFF : 1;
        table_close(table);
    }
    free(index);
    free(bytes);
}

static void offsets_must_rise_and_end_with_the_file(void **state)
{
    (void)state;
    static const uint8_t data[24] = {1};
    static const uint32_t sizes[] = {8, 8, 8};
    struct shard *shard = calloc(1, sizeof *shard);
    make(shard, one_column("int", "8"), 3, data, sizes);
    shard->nbytes++;
    assert_fails(shard, NULL, PST_ERROR_CORRUPT, "1 bytes more: samples were lost");
    shard->nbytes -= 9;
    assert_fails(shard, NULL, PST_ERROR_TRUNCATED,
                 "ends within sample 2 of 3; the last whole one is sample 1");
    shard->nbytes += 8;
    put_u32(shard->bytes + 4 + 8, 40); /* like the low half of an offset above 4 GiB */
    assert_fails(shard, NULL, PST_ERROR_CORRUPT, "sample 1 would end at byte 40");
    put_u32(shard->bytes + 4, 12);
    assert_fails(shard, NULL, PST_ERROR_CORRUPT, "within the header");
    put_u32(shard->bytes, 1 << 30);
    assert_fails(shard, NULL, PST_ERROR_CORRUPT, "no shard of MDS");
    /* More samples than fit in one block of offsets. */
    enum { N = 9000 };
    uint32_t *many = calloc(N, sizeof *many);
    uint8_t *values = calloc(1, N);
    for (uint32_t i = 0; i < N; i++) {
        many[i] = 1;
        values[i] = (uint8_t)(i % 100);
    }
    make(shard, one_column("uint8", "1"), N, values, many);
    struct table_print *table = table_open(NULL, 0);
    struct pst_error err;
    enum pst_status status = walk(table, shard, NULL);
    err = table->err;
    assert_ok(status);
    assert_int_equal(table->n_rows, N);
    assert_non_null(strstr(table->log, "shard.00000/00008999\n  x int 99\n"));
    table_close(table);
    free(values);
    free(many);
    free(shard);
}

static ssize_t read_zeros(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    (void)context;
    (void)offset;
    memset(bytes, 0, nbytes);
    return (ssize_t)nbytes;
}

static void shards_beyond_4_gib_are_refused(void **state)
{
    (void)state;
    struct psti_walk_source source = {
        .read = read_zeros, .nbytes = (UINT64_C(1) << 32) + 5, .path = "a.mds"};
    struct table_print *table = table_open(NULL, 0);
    enum pst_status status =
        psti_containers_mds_walk(&source, NULL, table->columns, &table->counts, &table->err);
    table_assert_fails(table, status, PST_ERROR_CORRUPT, "offsets of MDS have 32 bits");
    table_close(table);
}

static void packed_shards_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"a.mds.zstd", "a.mds.gz", "a.mds.br", "a.mds.bz2",
                                        "a.mds.snappy"};
    struct shard *shard = calloc(1, sizeof *shard);
    make_one(shard, "uint8", "1", "a", 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct table_print *table = table_open(NULL, 0);
        table_assert_fails(table,
                           table_walk(table, psti_containers_mds_walk, names[i], shard->bytes,
                                      shard->nbytes, NULL),
                           PST_ERROR_UNSUPPORTED, "compressed as a whole");
        table_close(table);
    }
    memcpy(shard->bytes, "\x28\xb5\x2f\xfd", 4);
    assert_fails(shard, NULL, PST_ERROR_UNSUPPORTED, "compressed as a whole (zstd)");
    struct table_print *table = table_open(NULL, 0);
    table_assert_fails(table,
                       table_walk_file(table, psti_containers_mds_walk, "mds/packed",
                                       "shard.00000.mds.zstd", "index.json"),
                       PST_ERROR_UNSUPPORTED, "compressed as a whole (zstd)");
    table_close(table);
    free(shard);
}

/* Returns an index.json with one entry. */
static const char *index_of(const char *name, int samples, size_t nbytes, const char *encoding)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "{\"shards\": [{\"column_encodings\": [\"%s\"], \"column_names\": [\"x\"], "
             "\"column_sizes\": [1], \"compression\": null, \"format\": \"mds\", \"hashes\": [], "
             "\"raw_data\": {\"basename\": \"%s\", \"bytes\": %zu, \"hashes\": {}}, "
             "\"samples\": %d, \"size_limit\": null, \"version\": 2, \"zip_data\": null}], "
             "\"version\": 2}",
             encoding, name, nbytes, samples);
    return text;
}

static void index_and_shard_must_agree(void **state)
{
    (void)state;
    static const char *const fits[] = {"shard.00000.mds", "data/shard.00000.mds"};
    struct shard *shard = calloc(1, sizeof *shard);
    make_one(shard, "uint8", "1", "a", 1);
    for (size_t i = 0; i < 2; i++) {
        struct table_print *table = table_open(NULL, 0);
        struct pst_error err;
        enum pst_status status = walk(table, shard, index_of(fits[i], 1, shard->nbytes, "uint8"));
        err = table->err;
        assert_ok(status);
        table_close(table);
        /* The index lists a sample that the shard does not have. */
        assert_fails(shard, index_of(fits[i], 2, shard->nbytes, "uint8"), PST_ERROR_CORRUPT,
                     "has 1 samples, and notes.json says 2");
    }
    assert_fails(shard, index_of(fits[0], 1, 7, "uint8"), PST_ERROR_CORRUPT,
                 "bytes, and notes.json says 7");
    assert_fails(shard, index_of(fits[0], 1, shard->nbytes, "int8"), PST_ERROR_CORRUPT,
                 "\"column_encodings\" has 'uint8' in the shard and 'int8' in notes.json");
    /* Entries of other shards, and files that are no index, are ignored. */
    static const char *const others[] = {"other/shard.00000.mds", "xshard.00000.mds"};
    for (size_t i = 0; i < 3; i++) {
        struct table_print *table = table_open(NULL, 0);
        struct pst_error err;
        enum pst_status status =
            walk(table, shard, i < 2 ? index_of(others[i], 9, 9, "str") : "shard.00000.mds\" {{");
        err = table->err;
        assert_ok(status);
        table_close(table);
    }
    free(shard);
}

/* A merged index names shards with their folders. If several names fit the end of a path, the
 * longest counts. */
static void merged_index_has_folders(void **state)
{
    (void)state;
    char text[4096], wrong[1024];
    struct shard *shard = calloc(1, sizeof *shard);
    make_one(shard, "uint8", "1", "a", 1);
    snprintf(wrong, sizeof wrong, "%s", index_of("shard.00000.mds", 9, 9, "uint8"));
    snprintf(text, sizeof text, "[%s, %s]", wrong,
             index_of("data/shard.00000.mds", 1, shard->nbytes, "uint8"));
    struct table_print *table = table_open(NULL, 0);
    struct pst_error err;
    enum pst_status status = walk(table, shard, text);
    err = table->err;
    assert_ok(status);
    table_close(table);
    free(shard);
}

static void shards_without_samples_state_nothing(void **state)
{
    (void)state;
    struct shard *shard = calloc(1, sizeof *shard);
    struct table_print *table = table_open(NULL, 0);
    struct pst_error err;
    make(shard, one_column("ndarray", "null"), 0, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        enum pst_status status = walk(table, shard, NULL);
        err = table->err;
        assert_ok(status);
        assert_int_equal(table->counts.n_samples, 0);
        assert_int_equal(table->n_fields, 0);
    }
    make_one(shard, "uint8", "1", "a", 1);
    enum pst_status status = walk(table, shard, NULL);
    err = table->err;
    assert_ok(status);
    assert_int_equal(table->n_rows, 1);
    table_close(table);
    free(shard);
}

static void values_become_numbers(void **state)
{
    (void)state;
    assert_value("int8", "1", "\x80", 1, "int -128");
    assert_value("uint64", "8", "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "int 9223372036854775807");
    assert_value_fails("uint64", "8", "\0\0\0\0\0\0\0\x80", 8, PST_ERROR_UNSUPPORTED,
                       "2^63 or more");
    assert_value("float16", "2", "\x00\x3c", 2, "float 1");
    assert_value("float16", "2", "\x01\x00", 2, "float 5.96046448e-08");
    assert_value("float16", "2", "\x00\xfc", 2, "float -inf");
    assert_value("str_int", "null", "-77", 3, "int -77");
    assert_value_fails("str_int", "null", "9223372036854775808", 19, PST_ERROR_UNSUPPORTED,
                       "take the column as \"text\"");
    assert_value_fails("str_int", "null", "", 0, PST_ERROR_UNSUPPORTED, "no whole number");
    assert_value_fails("str_int", "null", "1.5", 3, PST_ERROR_UNSUPPORTED, "no whole number");
    assert_value("str_float", "null", "1e-05", 5, "float 1e-05");
    assert_value("str_float", "null", "-inf", 4, "float -inf");
    assert_value_fails("str_float", "null", "1,5", 3, PST_ERROR_UNSUPPORTED, "no number");
    assert_value("str_decimal", "null", "0.10", 4, "text 4 03387b49");
    struct psti_field_rule rule = {.suffix = "x", .type = PST_FIELD_TEXT};
    struct shard *shard = calloc(1, sizeof *shard);
    struct table_print *table = table_open(&rule, 1);
    struct pst_error err;
    make_one(shard, "str_int", "null", "9223372036854775808", 19);
    enum pst_status status = walk(table, shard, NULL);
    err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "  x text 19 "));
    table_close(table);
    free(shard);
}

static void arrays_and_pixels_have_their_own_headers(void **state)
{
    (void)state;
    /* Header: type 8 (uint8), two dimensions of one byte each. */
    assert_value("ndarray", "null",
                 "\x08\x08\x02\x03"
                 "abcdef",
                 10, "array uint8 2x3 4b8e39ef");
    assert_value_fails("ndarray", "null",
                       "\x07\x04\x01"
                       "a",
                       4, PST_ERROR_CORRUPT, "names no type of elements");
    assert_value_fails("ndarray", "null", "\x08", 1, PST_ERROR_CORRUPT, "no legal shape");
    assert_value_fails("ndarray", "null", "\x08\x08\x02", 3, PST_ERROR_CORRUPT, "no legal shape");
    assert_value_fails("ndarray", "null",
                       "\x08\x04\x02"
                       "a",
                       4, PST_ERROR_CORRUPT, "does not fit its size");
    assert_value_fails("ndarray", "null",
                       "\x08\x24\1\1\1\1\1\1\1\1\1"
                       "a",
                       12, PST_ERROR_UNSUPPORTED, "more than 8 dimensions");
    assert_value_fails("ndarray", "null",
                       "\x08\x07\0\0\0\0\1\0\0\0"
                       "a",
                       11, PST_ERROR_LIMIT, "2^32");
    assert_value_fails("ndarray:uint8:2,x", "2", "ab", 2, PST_ERROR_UNSUPPORTED, "no legal shape");
    assert_value_fails("ndarray:bool", "null", "ab", 2, PST_ERROR_UNSUPPORTED, "type of elements");
    assert_value_fails("ndarray:uint8:3", "2", "ab", 2, PST_ERROR_CORRUPT, "column's size");
    assert_value("pil", "null", "\2\0\0\0\1\0\0\0\1\0\0\0Lab", 15, "array uint8 1x2x1 9e83486d");
    assert_value_fails("pil", "null", "\2\0\0\0\1\0\0\0\1\0\0\0La", 14, PST_ERROR_CORRUPT,
                       "does not fit its bytes");
    assert_value_fails("pil", "null", "\xff\xff\xff\xff\xff\xff\xff\xff\4\0\0\0RGBAab", 18,
                       PST_ERROR_CORRUPT, "does not fit its bytes");
    assert_value_fails("pil", "null", "\2\0\0\0\1\0\0\0\xff\xff\xff\xffLab", 15, PST_ERROR_CORRUPT,
                       "no image");
    /* Sample 1 has another type than sample 0. */
    static const uint8_t two[] = {4, 0, 0, 0, 8, 4, 1, 'a', 4, 0, 0, 0, 9, 4, 1, 'a'};
    static const uint32_t sizes[] = {8, 8};
    struct shard *shard = calloc(1, sizeof *shard);
    struct table_print *table = table_open(NULL, 0);
    make(shard, one_column("ndarray", "null"), 2, two, sizes);
    table_assert_fails(table, walk(table, shard, NULL), PST_ERROR_UNSUPPORTED, "of another type");
    table_close(table);
    free(shard);
}

static void odd_encodings_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *text;
    } odd[] = {{"mds/odd/pkl", "code of Python"},
               {"mds/odd/images", "several images"},
               {"mds/odd/jpegs", "several images"},
               {"mds/odd/palette", "have another one"}};
    struct psti_field_rule out = {.suffix = "x", .is_left_out = true};
    struct psti_field_rule bytes = {.suffix = "x", .type = PST_FIELD_BYTES};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct table_print *table = table_open(NULL, 0);
        struct pst_error err;
        enum pst_status status = table_walk_file(table, psti_containers_mds_walk, odd[i].folder,
                                                 "shard.00000.mds", "index.json");
        table_assert_fails(table, status, PST_ERROR_UNSUPPORTED, odd[i].text);
        assert_non_null(strstr(table->err.text, "\"x\""));
        table_close(table);
        for (int k = 0; k < 2; k++) {
            table = table_open(k == 0 ? &out : &bytes, 1);
            status = table_walk_file(table, psti_containers_mds_walk, odd[i].folder,
                                     "shard.00000.mds", "index.json");
            err = table->err;
            assert_ok(status);
            assert_int_equal(strstr(table->log, "  x bytes ") != NULL, k == 1);
            assert_non_null(strstr(table->log, "  label int 1\n"));
            table_close(table);
        }
    }
    assert_value_fails("future", "null", "a", 1, PST_ERROR_UNSUPPORTED, "'future' is not known");
    assert_value_fails("int", "null", "a", 1, PST_ERROR_CORRUPT, "does not fit the column's size");
    assert_value_fails("str", "4", "abcd", 4, PST_ERROR_CORRUPT, "does not fit the column's size");
    assert_value_fails("str:x", "null", "a", 1, PST_ERROR_UNSUPPORTED, "behind its colon");
}

/* The type of a bytes column is guessed from the first bytes of its first value, and must agree
 * with earlier files. */
static void bytes_are_guessed(void **state)
{
    (void)state;
    struct shard *shard = calloc(1, sizeof *shard);
    struct table_print *table = table_open(NULL, 0);
    struct pst_error err;
    static const char *const values[] = {"\xff\xd8\xff\xe0", "abcd", ""};
    for (size_t i = 0; i < 3; i++) {
        make_one(shard, "bytes", "null", values[i], (uint32_t)strlen(values[i]));
        enum pst_status status = walk(table, shard, NULL);
        err = table->err;
        assert_ok(status);
        assert_string_equal(table->err.text, "");
    }
    assert_non_null(strstr(table->log, "  x image 4 "));
    assert_null(strstr(table->log, "  x bytes"));
    table_close(table);
    assert_value("bytes", "null", "fLaC", 4, "audio 4 d5ba49ab");
    free(shard);
}

static void configurations_must_be_whole(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
        enum pst_status status;
    } wrong[] = {
        {"", "JSON", PST_ERROR_CORRUPT},
        {"[]", "a map is expected", PST_ERROR_CORRUPT},
        {"{}", "\"version\"", PST_ERROR_CORRUPT},
        {"{\"version\": 3}", "version 3", PST_ERROR_UNSUPPORTED},
        {"{\"version\": 2, \"format\": \"csv\"}", "\"format\"", PST_ERROR_CORRUPT},
        {"{\"version\": 2, \"format\": \"mds\"}", "\"column_names\"", PST_ERROR_CORRUPT},
        {"{\"version\": 2, \"format\": \"mds\", \"column_names\": [\"a\"], \"column_encodings\": "
         "[], \"column_sizes\": []}",
         "differ in number", PST_ERROR_CORRUPT},
        {"{\"version\": 2, \"format\": \"mds\", \"column_names\": [], \"column_encodings\": [], "
         "\"column_sizes\": []}",
         "no columns", PST_ERROR_CORRUPT},
        {"{\"version\": 2, \"format\": \"mds\", \"column_names\": [7], \"column_encodings\": "
         "[\"str\"], \"column_sizes\": [null]}",
         "texts only", PST_ERROR_CORRUPT},
        {"{\"version\": 2, \"format\": \"mds\", \"column_names\": [\"a\"], \"column_encodings\": "
         "[\"str\"], \"column_sizes\": [0]}",
         "size of column \"a\"", PST_ERROR_CORRUPT},
    };
    static const uint32_t size = 1;
    struct shard *shard = calloc(1, sizeof *shard);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        make(shard, wrong[i].json, 1, "a", &size);
        assert_fails(shard, NULL, wrong[i].status, wrong[i].text);
    }
    make(shard, one_column("str", "null"), 1, "a", &size);
    assert_fails(shard, NULL, PST_ERROR_CORRUPT, "do not have the sample's size of 1 bytes");
    free(shard);
}

static void what_breaks_is_told(void **state)
{
    (void)state;
    table_assert_breaks(psti_containers_mds_walk, "mds/all", "shard.00000.mds", "index.json");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        table_golden = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streaming_reads_the_same),
        cmocka_unit_test(cut_and_flipped_files_are_told),
        cmocka_unit_test(offsets_must_rise_and_end_with_the_file),
        cmocka_unit_test(shards_beyond_4_gib_are_refused),
        cmocka_unit_test(packed_shards_are_refused),
        cmocka_unit_test(index_and_shard_must_agree),
        cmocka_unit_test(merged_index_has_folders),
        cmocka_unit_test(shards_without_samples_state_nothing),
        cmocka_unit_test(values_become_numbers),
        cmocka_unit_test(arrays_and_pixels_have_their_own_headers),
        cmocka_unit_test(odd_encodings_are_refused_by_name),
        cmocka_unit_test(bytes_are_guessed),
        cmocka_unit_test(configurations_must_be_whole),
        cmocka_unit_test(what_breaks_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
