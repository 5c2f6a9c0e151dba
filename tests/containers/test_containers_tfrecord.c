/* test_containers_tfrecord.c - are TFRecord files read as TensorFlow reads them, and are Examples
 * accepted in every legal encoding and in no other? */
#include "test.h"

#include "table_print.h"

#include "base/crc32c.h"
#include "containers/tfrecord/containers_tfrecord.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_CAP = 1 << 20 };

/* A message, or a file, that a test makes byte by byte. */
struct text {
    size_t n;
    uint8_t bytes[FILE_CAP];
};

static struct text *text_new(void)
{
    struct text *text = calloc(1, sizeof *text);
    assert_non_null(text);
    return text;
}

static void add(struct text *text, const void *bytes, size_t n)
{
    assert_true(n <= FILE_CAP - text->n);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
}

static void add_varint(struct text *text, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        add(text, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
    add(text, &(uint8_t){(uint8_t)value}, 1);
}

/* Writes a length-delimited protobuf field. */
static void add_field(struct text *text, uint32_t number, const void *bytes, size_t n)
{
    add_varint(text, number << 3 | 2);
    add_varint(text, n);
    add(text, bytes, n);
}

/* Closes a message: adds it to `outer` as a field, and frees it. */
static void close_into(struct text *outer, uint32_t number, struct text *inner)
{
    add_field(outer, number, inner->bytes, inner->n);
    free(inner);
}

/* Adds an entry to the map of features, with the contents of a Feature. Frees the feature. */
static void add_entry(struct text *features, const char *key, struct text *feature)
{
    struct text *entry = text_new();
    add_field(entry, 1, key, strlen(key));
    close_into(entry, 2, feature);
    close_into(features, 1, entry);
}

static struct text *bytes_of(const void *bytes, size_t n)
{
    struct text *list = text_new(), *feature = text_new();
    add_field(list, 1, bytes, n);
    close_into(feature, 1, list);
    return feature;
}

static struct text *ints_of(const int64_t *values, size_t n, bool is_packed)
{
    struct text *list = text_new(), *feature = text_new(), *packed = text_new();
    for (size_t i = 0; i < n; i++) {
        if (!is_packed)
            add_varint(list, 1 << 3);
        add_varint(is_packed ? packed : list, (uint64_t)values[i]);
    }
    if (is_packed)
        add_field(list, 1, packed->bytes, packed->n);
    free(packed);
    close_into(feature, 3, list);
    return feature;
}

static struct text *floats_of(const float *values, size_t n, bool is_packed)
{
    struct text *list = text_new(), *feature = text_new();
    for (size_t i = 0; i < n && !is_packed; i++) {
        add_varint(list, 1 << 3 | 5);
        add(list, &values[i], 4);
    }
    if (is_packed)
        add_field(list, 1, values, 4 * n);
    close_into(feature, 2, list);
    return feature;
}

static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8; }

static void add_record(struct text *file, const void *bytes, size_t n)
{
    uint64_t length = n;
    uint32_t crc = masked(psti_crc32c(0, &length, 8));
    add(file, &length, 8);
    add(file, &crc, 4);
    add(file, bytes, n);
    crc = masked(psti_crc32c(0, bytes, n));
    add(file, &crc, 4);
}

/* Adds a record: an Example with these features, which are freed. */
static void add_example(struct text *file, struct text *features)
{
    struct text *example = text_new();
    close_into(example, 1, features);
    add_record(file, example->bytes, example->n);
    free(example);
}

static enum pst_status walk(struct table_print *table, const struct text *file, const char *notes)
{
    /* Memory of exactly the file's size, for the sanitizer. */
    uint8_t *copy = malloc(file->n > 0 ? file->n : 1);
    memcpy(copy, file->bytes, file->n);
    enum pst_status status =
        table_walk(table, psti_containers_tfrecord_walk, "a.tfrecord", copy, file->n, notes);
    free(copy);
    return status;
}

static void assert_log(const struct text *file, const char *notes,
                       const struct psti_field_rule *rule, const char *want)
{
    struct table_print *table = table_open(rule, rule != NULL);
    enum pst_status status = walk(table, file, notes);
    struct pst_error err = table->err;
    assert_ok(status);
    assert_string_equal(table->log, want);
    assert_int_equal(table->counts.n_samples, table->n_rows);
    table_close(table);
}

static void assert_fails(const struct text *file, const char *notes, enum pst_status status,
                         const char *text)
{
    struct table_print *table = table_open(NULL, 0);
    table_assert_fails(table, walk(table, file, notes), status, text);
    assert_string_equal(table->err.file, "a.tfrecord");
    table_close(table);
}

static void tensorflow_reads_the_same(void **state)
{
    (void)state;
    size_t n_expected = 0;
    char *expected = (char *)table_file("tfrecord", "imagenet.txt", &n_expected);
    struct table_print *table = table_open(NULL, 0);
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "imagenet-%05d-of-00002.tfrecord", i);
        enum pst_status status =
            table_walk_file(table, psti_containers_tfrecord_walk, "tfrecord", name, NULL);
        struct pst_error err = table->err;
        assert_ok(status);
        assert_true(table->facts != 0);
    }
    assert_string_equal(table->log, expected);
    table->log[0] = '\0';
    table_fields(table);
    assert_string_equal(table->log,
                        "blob bytes\nimage_class_label int\nimage_class_synset text\n"
                        "image_class_text text\nimage_encoded image\nimage_filename text\n"
                        "image_format text\nimage_height int\nimage_object_bbox_label array int64\n"
                        "image_object_bbox_xmin array float32\nimage_width int\nscore float\n");
    table_close(table);
    free(expected);
}

static void tfds_reads_the_same(void **state)
{
    (void)state;
    static const char name[] = "probe-train.tfrecord-00000-of-00001";
    size_t n_expected = 0;
    char *expected = (char *)table_file("tfrecord/tfds", "expected.txt", &n_expected);
    struct psti_field_rule out = {.suffix = "packed", .is_left_out = true};
    struct table_print *table = table_open(&out, 1);
    enum pst_status status = table_walk_file(table, psti_containers_tfrecord_walk, "tfrecord/tfds",
                                             name, "features.json");
    struct pst_error err = table->err;
    assert_ok(status);
    assert_string_equal(table->log, expected);
    table->log[0] = '\0';
    table_fields(table);
    assert_string_equal(table->log, "caption text\nflag int\ngrid array uint8 2x3\nimage image\n"
                                    "label int /3\nmask mask\nobjects_bbox array float32\n"
                                    "objects_label array int64\npose_angle int\nraw array int16 4\n"
                                    "wave array float32\nweight float\n");
    table_close(table);
    free(expected);
    /* Values that TFDS compressed are refused with a named reason, and may be taken as bytes. */
    table = table_open(NULL, 0);
    status = table_walk_file(table, psti_containers_tfrecord_walk, "tfrecord/tfds", name,
                             "features.json");
    table_assert_fails(table, status, PST_ERROR_UNSUPPORTED, "\"packed\" is an array that TFDS");
    table_close(table);
    struct psti_field_rule bytes = {.suffix = "packed", .type = PST_FIELD_BYTES};
    table = table_open(&bytes, 1);
    status = table_walk_file(table, psti_containers_tfrecord_walk, "tfrecord/tfds", name,
                             "features.json");
    err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "  packed bytes "));
    table_close(table);
}

static void cut_and_flipped_files_are_told(void **state)
{
    (void)state;
    static const char name[] = "imagenet-00000-of-00002.tfrecord";
    size_t nbytes = 0;
    uint8_t *bytes = table_file("tfrecord", name, &nbytes);
    for (size_t n = 0; n < nbytes; n++) {
        uint8_t *copy = malloc(n > 0 ? n : 1);
        memcpy(copy, bytes, n);
        struct table_print *table = table_open(NULL, 0);
        enum pst_status status =
            table_walk(table, psti_containers_tfrecord_walk, name, copy, n, NULL);
        /* A file that is truncated between records is still a complete file. */
        if (status != PST_OK) {
            assert_int_equal(status, PST_ERROR_TRUNCATED);
            assert_int_equal(table->n_rows, 0);
        } else {
            assert_true(table->n_rows < 3);
        }
        table_close(table);
        free(copy);
    }
    /* All records are small, so checksums cover every byte. */
    for (size_t i = 0; i < nbytes; i++) {
        struct table_print *table = table_open(NULL, 0);
        bytes[i] ^= i % 3 == 0 ? 0xFF : 1;
        enum pst_status status =
            table_walk(table, psti_containers_tfrecord_walk, name, bytes, nbytes, NULL);
        assert_int_equal(status, PST_ERROR_CORRUPT);
        assert_int_equal(table->n_rows, 0);
        bytes[i] ^= i % 3 == 0 ? 0xFF : 1;
        table_close(table);
    }
    free(bytes);
}

static void other_files_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } packed[] = {{"gzip.tfrecord", "(GZIP)"}, {"zlib.tfrecord", "(ZLIB)"}};
    for (size_t i = 0; i < 2; i++) {
        struct table_print *table = table_open(NULL, 0);
        enum pst_status status =
            table_walk_file(table, psti_containers_tfrecord_walk, "tfrecord", packed[i].name, NULL);
        table_assert_fails(table, status, PST_ERROR_UNSUPPORTED, packed[i].text);
        table_close(table);
    }
    struct text *file = text_new();
    add(file, "This is a text, and no record at all.", 37);
    assert_fails(file, NULL, PST_ERROR_CORRUPT, "no TFRecord file");
    /* A huge length with a correct checksum exceeds the file. */
    file->n = 0;
    uint64_t length = UINT64_MAX - 15;
    uint32_t crc = masked(psti_crc32c(0, &length, 8));
    add(file, &length, 8);
    add(file, &crc, 4);
    add(file, "abcdefgh", 8);
    assert_fails(file, NULL, PST_ERROR_TRUNCATED, "within the data of its first record");
    file->n = 0;
    assert_log(file, NULL, NULL, "");
    free(file);
}

static void sequences_and_other_records_are_given_whole(void **state)
{
    (void)state;
    struct table_print *table = table_open(NULL, 0);
    enum pst_status status = table_walk_file(table, psti_containers_tfrecord_walk, "tfrecord",
                                             "sequence.tfrecord", NULL);
    struct pst_error err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "sequence/00000001\n  record bytes "));
    table_close(table);
    table = table_open(NULL, 0);
    status =
        table_walk_file(table, psti_containers_tfrecord_walk, "tfrecord", "images.tfrecord", NULL);
    err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "images/00000001\n  record image 741 "));
    table_close(table);
    struct psti_field_rule text = {.suffix = "record", .type = PST_FIELD_TEXT};
    struct text *file = text_new();
    add_record(file, "Hello", 5);
    add_record(file, "", 0);
    assert_log(file, NULL, NULL,
               "a/00000000\n  record bytes 5 f7d18982\na/00000001\n  record bytes 0 00000000\n");
    assert_log(file, NULL, &text,
               "a/00000000\n  record text 5 f7d18982\na/00000001\n  record text 0 00000000\n");
    free(file);
}

/* Tests both encodings of lists, fields in any order, unknown fields, and a key that occurs twice,
 * of which the last counts. */
static void examples_have_many_forms(void **state)
{
    (void)state;
    static const int64_t ints[] = {-1, INT64_MIN, INT64_MAX, 300};
    static const float floats[] = {0.5F, -2.0F, 1.0F};
    struct text *file = text_new();
    for (int form = 0; form < 2; form++) {
        struct text *features = text_new();
        add_entry(features, "i", ints_of(&ints[form], 1, form == 0));
        add_entry(features, "is", ints_of(ints, 4, form == 0));
        add_entry(features, "f", floats_of(&floats[form], 1, form == 0));
        add_entry(features, "fs", floats_of(floats, 3, form == 0));
        add_example(file, features);
    }
    struct text *features = text_new(), *entry = text_new(), *feature = ints_of(&ints[3], 1, true);
    /* The value stands before the key, and unknown fields of each type stand around them. */
    add(entry, "\x78\x05\x7d\x01\x02\x03\x04\x79\x01\x02\x03\x04\x05\x06\x07\x08", 16);
    close_into(entry, 2, feature);
    add_field(entry, 9, "unknown", 7);
    add_field(entry, 1, "i", 1);
    add_entry(features, "i", bytes_of("lost", 4));
    add_field(features, 7, "unknown", 7);
    close_into(features, 1, entry);
    /* A list in two pieces, and a list that is replaced by a list of another kind. */
    feature = floats_of(floats, 2, true);
    struct text *more = floats_of(&floats[2], 1, true);
    add(feature, more->bytes, more->n);
    add_entry(features, "fs", feature);
    free(more);
    feature = bytes_of("lost", 4);
    more = floats_of(&floats[2], 1, false);
    add(feature, more->bytes, more->n);
    free(more);
    add_entry(features, "f", feature);
    /* A feature without a list has no value. */
    add_entry(features, "none", text_new());
    add_entry(features, "is", ints_of(ints, 0, true));
    add_example(file, features);
    assert_log(file, NULL, NULL,
               "a/00000000\n  f float 0.5\n  fs array float32 3 eead94c1\n  i int -1\n"
               "  is array int64 4 c3694dd9\n"
               "a/00000001\n  f float -2\n  fs array float32 3 eead94c1\n"
               "  i int -9223372036854775808\n  is array int64 4 c3694dd9\n"
               "a/00000002\n  f float 1\n  fs array float32 3 eead94c1\n  i int 300\n"
               "  is array int64 0 00000000\n");
    free(file);
}

static void add_int_example(struct text *file, const char *key, int64_t value)
{
    struct text *features = text_new();
    add_entry(features, key, ints_of(&value, 1, true));
    add_example(file, features);
}

static void records_must_be_alike(void **state)
{
    (void)state;
    static const float one = 1;
    struct text *file = text_new(), *features = text_new();
    add_int_example(file, "a", 1);
    size_t n = file->n;
    add_record(file, "\xff\xd8\xff\xe0", 4);
    assert_fails(file, NULL, PST_ERROR_CORRUPT, "record 1: the record is no tf.train.Example");
    file->n = n;
    add_record(file, "\x0b\x0c", 2); /* a group */
    assert_fails(file, NULL, PST_ERROR_CORRUPT, "groups");
    file->n = n;
    add_record(file,
               "\x0a\x05\x0a\x7f\x0a\x01"
               "a",
               7); /* an entry that is longer than the map */
    assert_fails(file, NULL, PST_ERROR_CORRUPT, "longer than what holds it");
    file->n = n;
    add_entry(features, "a", floats_of(&one, 1, true));
    add_example(file, features);
    assert_fails(file, NULL, PST_ERROR_CORRUPT, "\"a\" holds a list of another type");
    /* Earlier records have no value for a key that only later records have. */
    file->n = n;
    features = text_new();
    add_entry(features, "a", ints_of(&(int64_t){2}, 1, true));
    add_entry(features, "t", bytes_of("late", 4));
    add_example(file, features);
    add_record(file, "", 0); /* an Example without features */
    assert_log(file, NULL, NULL,
               "a/00000000\n  a int 1\na/00000001\n  a int 2\n  t text 4 6f2a1f95\na/00000002\n");
    free(file);
}

/* One of ImageNet's "JPEGs" is a PNG, and the labels of its files count from 1. The walk looks at
 * the content, not at the key or at "image/format", and changes no label. */
static void the_content_tells_what_an_image_is(void **state)
{
    (void)state;
    static const char jpeg[] = "\xff\xd8\xff\xe0\0\x10JFIF", png[] = "\x89PNG\r\n\x1a\n\0\0";
    struct text *file = text_new();
    for (int64_t i = 0; i < 3; i++) {
        const int64_t label = i == 2 ? 1000 : i + 1;
        struct text *features = text_new();
        add_entry(features, "image/encoded",
                  i == 1 ? bytes_of(png, sizeof png - 1) : bytes_of(jpeg, sizeof jpeg - 1));
        add_entry(features, "image/format", bytes_of("JPEG", 4));
        add_entry(features, "image/class/label", ints_of(&label, 1, true));
        add_example(file, features);
    }
    struct table_print *table = table_open(NULL, 0);
    enum pst_status status = walk(table, file, NULL);
    struct pst_error err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "a/00000000\n  image_class_label int 1\n"));
    assert_non_null(strstr(table->log, "a/00000001\n  image_class_label int 2\n"));
    assert_non_null(strstr(table->log, "a/00000002\n  image_class_label int 1000\n"));
    table->log[0] = '\0';
    table_fields(table);
    assert_string_equal(table->log,
                        "image_class_label int\nimage_encoded image\nimage_format text\n");
    table_close(table);
    free(file);
}

static void several_bytes_are_refused_by_name(void **state)
{
    (void)state;
    struct text *file = text_new(), *features = text_new(), *list = text_new();
    struct text *feature = text_new();
    add_field(list, 1, "a", 1);
    add_field(list, 1, "b", 1);
    close_into(feature, 1, list);
    add_entry(features, "names", feature);
    add_entry(features, "i", ints_of(&(int64_t){7}, 1, true));
    add_example(file, features);
    assert_fails(file, NULL, PST_ERROR_UNSUPPORTED, "\"names\" holds several values of bytes");
    struct psti_field_rule out = {.suffix = "names", .is_left_out = true};
    assert_log(file, NULL, &out, "a/00000000\n  i int 7\n");
    free(file);
}

/* The first file decides on the type: lists of one value are arrays if they were in earlier files.
 * A rule can also make arrays of single numbers. */
static void files_agree_on_arrays(void **state)
{
    (void)state;
    static const int64_t two[] = {1, 2};
    struct text *several = text_new(), *single = text_new(), *features = text_new();
    add_entry(features, "a", ints_of(two, 2, true));
    add_example(several, features);
    add_int_example(single, "a", 5);
    struct table_print *table = table_open(NULL, 0);
    struct pst_error err;
    enum pst_status status = walk(table, several, NULL);
    if (status == PST_OK)
        status = walk(table, single, NULL);
    err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "a array int64 1 "));
    table_close(table);
    table = table_open(NULL, 0);
    assert_int_equal(walk(table, single, NULL), PST_OK);
    table_assert_fails(table, walk(table, several, NULL), PST_ERROR_CORRUPT, "another type");
    table_close(table);
    struct psti_field_rule rule = {.suffix = "a", .type = PST_FIELD_ARRAY};
    table = table_open(&rule, 1);
    status = walk(table, single, NULL);
    if (status == PST_OK)
        status = walk(table, several, NULL);
    err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "a array int64 2 "));
    table_close(table);
    free(single);
    free(several);
}

static void lists_have_a_limit(void **state)
{
    (void)state;
    enum { MOST = 8192 };
    int64_t *values = calloc(MOST + 1, sizeof *values);
    float *floats = calloc(MOST * 3, sizeof *floats);
    struct text *file = text_new(), *features = text_new();
    add_entry(features, "a", ints_of(values, MOST, true));
    /* its values lie in the file as they are: no limit */
    add_entry(features, "f", floats_of(floats, MOST * 3, true));
    add_example(file, features);
    struct table_print *table = table_open(NULL, 0);
    enum pst_status status = walk(table, file, NULL);
    struct pst_error err = table->err;
    assert_ok(status);
    assert_non_null(strstr(table->log, "  f array float32 24576 "));
    table_close(table);
    file->n = 0;
    features = text_new();
    add_entry(features, "a", ints_of(values, MOST + 1, true));
    add_example(file, features);
    assert_fails(file, NULL, PST_ERROR_LIMIT, "\"a\" holds a list of more than 64 KiB");
    free(file);
    free(floats);
    free(values);
}

/* Large records are not read whole. Their values are located, and a wrong checksum of their data is
 * detected only by those who read the values. */
static void large_records_are_passed_over(void **state)
{
    (void)state;
    uint8_t *image = calloc(1, 200000);
    memcpy(image, "\xff\xd8\xff", 3);
    struct text *file = text_new();
    for (int64_t i = 0; i < 3; i++) {
        struct text *features = text_new();
        add_entry(features, "image", bytes_of(image, 200000));
        add_entry(features, "label", ints_of(&i, 1, true));
        add_entry(features, "text", bytes_of("short", 5));
        add_example(file, features);
    }
    file->bytes[100000] ^= 1;
    struct table_print *table = table_open(NULL, 0);
    enum pst_status status = walk(table, file, NULL);
    struct pst_error err = table->err;
    assert_ok(status);
    assert_int_equal(table->n_rows, 3);
    assert_true(table->n_read < file->n); /* two walks */
    assert_non_null(strstr(table->log, "  label int 2\n  text text 5 "));
    assert_non_null(strstr(table->log, "  image image 200000 "));
    table_close(table);
    free(file);
    free(image);
}

static const char *notes_of(const char *feature)
{
    static char text[1024];
    snprintf(text, sizeof text, "{\"featuresDict\": {\"features\": {\"a\": {%s}}}}", feature);
    return text;
}

static void features_json_is_compared(void **state)
{
    (void)state;
    static const int64_t two[] = {1, 300};
    struct text *one = text_new(), *list = text_new(), *features = text_new();
    add_int_example(one, "a", -1);
    add_entry(features, "a", ints_of(two, 2, true));
    add_example(list, features);
    assert_log(one, notes_of("\"classLabel\": {}"), NULL, "a/00000000\n  a int -1\n");
    /* The class of a hidden label is none. */
    assert_log(one, notes_of("\"classLabel\": {\"numClasses\": \"3\"}"), NULL,
               "a/00000000\n  a int -1\n");
    assert_fails(one, notes_of("\"image\": {\"dtype\": \"uint8\"}"), PST_ERROR_CORRUPT,
                 "is an image by features.json");
    assert_fails(one, notes_of("\"text\": {}"), PST_ERROR_CORRUPT, "holds no bytes");
    assert_fails(one, notes_of("\"tensor\": {\"dtype\": \"float32\"}"), PST_ERROR_CORRUPT,
                 "another kind of numbers");
    assert_fails(one, notes_of("\"tensor\": {\"dtype\": \"uint64\"}"), PST_ERROR_UNSUPPORTED,
                 "2^63 or more");
    assert_fails(list, notes_of("\"classLabel\": {}"), PST_ERROR_CORRUPT, "is one number");
    assert_fails(list,
                 notes_of("\"tensor\": {\"dtype\": \"int64\", \"shape\": {\"dimensions\": "
                          "[\"3\"]}}"),
                 PST_ERROR_CORRUPT, "another number of elements");
    assert_fails(list,
                 notes_of("\"tensor\": {\"dtype\": \"uint8\", \"shape\": {\"dimensions\": "
                          "[\"2\"]}}"),
                 PST_ERROR_CORRUPT, "a number that its type does not have");
    assert_log(list,
               notes_of("\"tensor\": {\"dtype\": \"uint16\", \"shape\": {\"dimensions\": [\"-1\", "
                        "\"1\"]}}"),
               NULL, "a/00000000\n  a array uint16 2x1 d7cee341\n");
    assert_log(list, notes_of("\"sequence\": {\"feature\": {\"classLabel\": {}}}"), NULL,
               "a/00000000\n  a array int64 2 4a7da669\n");
    /* Unknown contents are ignored. */
    assert_log(list, "{\"featuresDict\": [1, {}], \"x\": null}", NULL,
               "a/00000000\n  a array int64 2 4a7da669\n");
    struct table_print *table = table_open(NULL, 0);
    table_assert_fails(table, walk(table, list, "{\"featuresDict\": "), PST_ERROR_CORRUPT, "JSON");
    assert_string_equal(table->err.file, "notes.json");
    table_close(table);
    free(list);
    free(one);
}

static void what_breaks_is_told(void **state)
{
    (void)state;
    table_assert_breaks(psti_containers_tfrecord_walk, "tfrecord",
                        "imagenet-00000-of-00002.tfrecord", NULL);
    table_assert_breaks(psti_containers_tfrecord_walk, "tfrecord", "images.tfrecord", NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        table_golden = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensorflow_reads_the_same),
        cmocka_unit_test(tfds_reads_the_same),
        cmocka_unit_test(cut_and_flipped_files_are_told),
        cmocka_unit_test(other_files_are_refused_by_name),
        cmocka_unit_test(sequences_and_other_records_are_given_whole),
        cmocka_unit_test(examples_have_many_forms),
        cmocka_unit_test(records_must_be_alike),
        cmocka_unit_test(the_content_tells_what_an_image_is),
        cmocka_unit_test(several_bytes_are_refused_by_name),
        cmocka_unit_test(files_agree_on_arrays),
        cmocka_unit_test(lists_have_a_limit),
        cmocka_unit_test(large_records_are_passed_over),
        cmocka_unit_test(features_json_is_compared),
        cmocka_unit_test(what_breaks_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
