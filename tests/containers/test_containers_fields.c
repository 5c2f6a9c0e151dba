/* test_containers_fields.c - do suffixes and the user's rules give the right fields and values? */
#include "test.h"

#include "tar_helper.h"

#include "base/fault.h"
#include "containers/containers_fields.h"
#include "containers/containers_npy.h"
#include "containers/containers_rules.h"
#include "containers/containers_walk.h"
#include "format/format_dataset.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Imitates the writer of the index: it records what it is given. A place in the tar is recorded as
 * the text at that place. */
struct fake {
    const struct tar *tar;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields, n_restated;
    uint64_t facts; /* facts of the last value */
    char log[16384];
};

static enum pst_status fake_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct fake *fake = (struct fake *)(void *)writer;
    (void)err;
    assert_null(psti_format_field_problem(field));
    assert_false(psti_format_name_is_taken(fake->fields, fake->n_fields, field->name));
    assert_true(fake->n_fields < PST_MAX_FIELDS);
    fake->fields[fake->n_fields] = *field;
    *i_field = fake->n_fields++;
    return PST_OK;
}

static void fake_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    struct fake *fake = (struct fake *)(void *)writer;
    assert_true(i_field < fake->n_fields);
    assert_null(psti_format_field_problem(field));
    fake->fields[i_field] = *field;
    fake->n_restated++;
}

static void fake_value(struct fake *fake, const struct psti_container_value *value)
{
    const struct pst_field *field = &fake->fields[value->i_field];
    size_t n = strlen(fake->log);
    char *at = fake->log + n;
    size_t left = sizeof fake->log - n;
    const char *place = (const char *)fake->tar->bytes + value->offset;
    assert_true(value->i_field < fake->n_fields);
    fake->facts = value->facts;
    if (field->type == PST_FIELD_INT)
        snprintf(at, left, " %s=%" PRId64, field->name, value->int_value);
    else if (value->bytes != NULL)
        snprintf(at, left, " %s='%.*s'", field->name, (int)value->nbytes,
                 (const char *)value->bytes);
    else if (field->type == PST_FIELD_ARRAY)
        snprintf(at, left, " %s=%d(%u,%u)%.*s", field->name, value->ndim, value->shape[0],
                 value->shape[1], (int)value->nbytes, place);
    else
        snprintf(at, left, " %s=%.*s", field->name, (int)value->nbytes, place);
    if (value->bytes == NULL && field->type != PST_FIELD_INT)
        assert_true(value->decoded_nbytes == value->nbytes &&
                    value->offset + value->nbytes <= fake->tar->nbytes);
}

static enum pst_status fake_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct fake *fake = (struct fake *)(void *)writer;
    (void)err;
    assert_true(n >= 1);
    strncat(fake->log, name, sizeof fake->log - strlen(fake->log) - 1);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            assert_true(values[i].i_field != values[k].i_field);
        fake_value(fake, &values[i]);
    }
    strncat(fake->log, ";", sizeof fake->log - strlen(fake->log) - 1);
    return PST_OK;
}

static enum pst_status run(const struct tar *tar, const struct psti_field_rule *rules, uint32_t n,
                           struct fake *fake, struct pst_error *err)
{
    struct tar_memory memory = {.bytes = tar->bytes, .given = tar->nbytes};
    struct psti_walk_source source = tar_source(&memory, tar->nbytes);
    struct psti_field_sink sink = {.field = fake_field,
                                   .restate = fake_restate,
                                   .sample = fake_sample,
                                   .writer = (struct psti_containers_writer *)(void *)fake};
    struct psti_containers_fields *fields = NULL;
    struct psti_walk_counts counts;
    *fake = (struct fake){.tar = tar};
    enum pst_status status = psti_containers_fields_open(rules, n, &sink, &fields, err);
    if (status == PST_OK) {
        struct psti_sample_taker taker = psti_containers_fields_taker(fields);
        status = psti_containers_walk(&source, PSTI_CONTAINER_TAR, &taker, &counts, err);
    }
    if (status == PST_OK)
        status = psti_containers_fields_finish(fields, err);
    psti_containers_fields_close(&fields);
    assert_null(fields);
    psti_containers_fields_close(&fields);
    return status;
}

static struct fake *assert_values(const struct tar *tar, const struct psti_field_rule *rules,
                                  uint32_t n, const char *want)
{
    static struct fake fake;
    struct pst_error err;
    assert_ok(run(tar, rules, n, &fake, &err));
    assert_string_equal(fake.log, want);
    return &fake;
}

static struct pst_error assert_fails(const struct tar *tar, const struct psti_field_rule *rules,
                                     uint32_t n, enum pst_status status, const char *text)
{
    static struct fake fake;
    struct pst_error err;
    enum pst_status got = run(tar, rules, n, &fake, &err);
    if (got != status || strstr(err.text, text) == NULL)
        print_error("%s: '%s' is not in '%s'\n", pst_status_name(got), text, err.text);
    assert_int_equal(got, status);
    assert_non_null(strstr(err.text, text));
    return err;
}

static void add(struct tar *tar, const char *name, const char *text)
{
    tar_file(tar, name, text, strlen(text));
}

static void suffixes_say_types_and_names(void **state)
{
    (void)state;
    static const struct {
        const char *suffix, *field;
        enum pst_field_type type;
        bool is_code, is_changed;
    } rules[] = {
        {"jpg", "image", PST_FIELD_IMAGE, false, false},
        {"jpeg", "image", PST_FIELD_IMAGE, false, false},
        {"png", "image", PST_FIELD_IMAGE, false, false},
        {"webp", "image", PST_FIELD_IMAGE, false, false},
        {"pli", "image", PST_FIELD_IMAGE, false, false},
        {".jpg", "image", PST_FIELD_IMAGE, false, false},
        {"left.jpg", "left", PST_FIELD_IMAGE, false, false},
        {"a.b.png", "a.b", PST_FIELD_IMAGE, false, false},
        {"mask.png", "mask", PST_FIELD_MASK, false, false},
        {"masks.png", "masks", PST_FIELD_MASK, false, false},
        {"seg.png", "seg", PST_FIELD_MASK, false, false},
        {"segmentation.webp", "segmentation", PST_FIELD_MASK, false, false},
        {"left.semantic.png", "left.semantic", PST_FIELD_MASK, false, false},
        {"instance.png", "instance", PST_FIELD_MASK, false, false},
        {"instances.0.png", "instances.0", PST_FIELD_MASK, false, false},
        {"segment.png", "segment", PST_FIELD_IMAGE, false, false},
        {"unmask.png", "unmask", PST_FIELD_IMAGE, false, false},
        {"mask.json", "mask.json", PST_FIELD_JSON, false, false},
        {"mask", "mask", PST_FIELD_BYTES, false, false},
        {"wav", "audio", PST_FIELD_AUDIO, false, false},
        {"flac", "audio", PST_FIELD_AUDIO, false, false},
        {"mp3", "audio", PST_FIELD_AUDIO, false, false},
        {"ogg", "audio", PST_FIELD_AUDIO, false, false},
        {"oga", "audio", PST_FIELD_AUDIO, false, false},
        {"opus", "audio", PST_FIELD_AUDIO, false, false},
        {"aiff", "audio", PST_FIELD_AUDIO, false, false},
        {"aif", "audio", PST_FIELD_AUDIO, false, false},
        {"noisy.wav", "noisy", PST_FIELD_AUDIO, false, false},
        {"cls", "label", PST_FIELD_INT, false, false},
        {"cls2", "cls2", PST_FIELD_INT, false, false},
        {"fine.cls", "fine.cls", PST_FIELD_INT, false, false},
        {"index", "index_", PST_FIELD_INT, false, true},
        {"inx", "inx", PST_FIELD_INT, false, false},
        {"id", "id", PST_FIELD_INT, false, false},
        {"txt", "text", PST_FIELD_TEXT, false, false},
        {"text", "text", PST_FIELD_TEXT, false, false},
        {"transcript", "transcript", PST_FIELD_TEXT, false, false},
        {"json", "json", PST_FIELD_JSON, false, false},
        {"jsn", "json", PST_FIELD_JSON, false, false},
        {"npy", "npy", PST_FIELD_ARRAY, false, false},
        {"a.npy", "a.npy", PST_FIELD_ARRAY, false, false},
        {"gif", "gif", PST_FIELD_BYTES, false, false},
        {"mp4", "mp4", PST_FIELD_BYTES, false, false},
        {"1.jpg", "_1", PST_FIELD_IMAGE, false, true},
        {"a b", "a_b", PST_FIELD_BYTES, false, true},
        {"7z", "_7z", PST_FIELD_BYTES, false, true},
        {"\xc3\xa9.jpg", "___", PST_FIELD_IMAGE, false, true},
        {"x.pkl", "x.pkl", PST_FIELD_BYTES, true, false},
        {"pickle", "pickle", PST_FIELD_BYTES, true, false},
        {"pyd", "pyd", PST_FIELD_BYTES, true, false},
        {"pth", "pth", PST_FIELD_BYTES, true, false},
        {"pt", "pt", PST_FIELD_BYTES, true, false},
        {"joblib", "joblib", PST_FIELD_BYTES, true, false},
    };
    struct psti_suffix_rule rule;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        psti_containers_rule(rules[i].suffix, &rule);
        assert_string_equal(rule.name, rules[i].field);
        assert_int_equal(rule.type, rules[i].type);
        assert_int_equal(rule.is_code, rules[i].is_code);
        assert_int_equal(rule.is_changed, rules[i].is_changed);
        assert_null(psti_format_field_name_problem(rule.name, sizeof rule.name));
    }
    /* Long names are shortened. */
    char longest[200];
    for (size_t n = 60; n < 70; n++) {
        memset(longest, '9', n);
        longest[n] = '\0';
        psti_containers_rule(longest, &rule);
        assert_true(rule.is_changed);
        assert_int_equal(strlen(rule.name), n < 63 ? n + 1 : 63);
        memset(longest, 'a', n);
        psti_containers_rule(longest, &rule);
        assert_int_equal(rule.is_changed, n > 63);
        assert_int_equal(strlen(rule.name), n < 63 ? n : 63);
    }
}

static void values_are_places_numbers_and_short_texts(void **state)
{
    (void)state;
    char text[80];
    struct tar tar = {0};
    memset(text, 't', sizeof text);
    add(&tar, "a.jpg", "JPG");
    add(&tar, "a.cls", "3\n");
    add(&tar, "b.png", "PNG");
    add(&tar, "b.cls", "-4");
    add(&tar, "a.txt", "a bird");
    add(&tar, "b.txt", "");
    add(&tar, "a.seg.png", "SEG");
    add(&tar, "b.json", "{}");
    add(&tar, "b.bin", "BIN");
    tar_file(&tar, "c.text", text, PSTI_TEXT_IN_INDEX_NBYTES);
    tar_file(&tar, "d.text", text, PSTI_TEXT_IN_INDEX_NBYTES + 1);
    char want[512];
    snprintf(want, sizeof want,
             "a image=JPG label=3 text='a bird' seg=SEG;"
             "b image=PNG label=-4 text='' json='{}' bin=BIN;"
             "c text='%.64s';d text=%.65s;",
             text, text);
    struct fake *fake = assert_values(&tar, NULL, 0, want);
    static const enum pst_field_type types[] = {PST_FIELD_IMAGE, PST_FIELD_INT,  PST_FIELD_TEXT,
                                                PST_FIELD_MASK,  PST_FIELD_JSON, PST_FIELD_BYTES};
    assert_int_equal(fake->n_fields, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(fake->fields[i].type, types[i]);
    assert_int_equal(fake->fields[1].n_classes, 0);
    tar_free(&tar);
}

static void numbers_are_read_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_number;
        int64_t value;
    } numbers[] = {
        {"0", true, 0},
        {"007", true, 7},
        {"-0", true, 0},
        {"+12", true, 12},
        {" \t\n\v\f\r 5 \n", true, 5},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"18446744073709551617", false, 0},
        {"99999999999999999999999999999999", false, 0},
        {"", false, 0},
        {" ", false, 0},
        {"-", false, 0},
        {"+-1", false, 0},
        {"- 1", false, 0},
        {"1 2", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"1_000", false, 0},
        {"0x10", false, 0},
        {"cat", false, 0},
        {"5\xc2\xa0", false, 0},
        {"                                                               1", true, 1},
        {"                                                                1", false, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct tar tar = {0};
        add(&tar, "x/1.jpg", "");
        add(&tar, "x/1.cls", numbers[i].text);
        if (numbers[i].is_number) {
            char want[64];
            snprintf(want, sizeof want, "x/1 image= label=%" PRId64 ";", numbers[i].value);
            (void)assert_values(&tar, NULL, 0, want);
        } else {
            struct pst_error err =
                assert_fails(&tar, NULL, 0, PST_ERROR_CORRUPT, "'x/1.cls' is no whole number");
            assert_string_equal(err.file, "a.tar");
            assert_int_equal(err.offset, 512);
        }
        tar_free(&tar);
    }
    struct tar tar = {0};
    tar_file(&tar, "1.cls", "1\0", 2);
    assert_fails(&tar, NULL, 0, PST_ERROR_CORRUPT, "no whole number");
    tar_free(&tar);
}

static void two_members_of_one_field_are_an_error(void **state)
{
    (void)state;
    static const struct psti_field_rule named[] = {{.suffix = "PNG", .field = "depth"}},
                                        left[] = {{.suffix = "png", .is_left_out = true}};
    struct tar tar = {0};
    add(&tar, "1.jpg", "JPG");
    add(&tar, "2.png", "PNG");
    (void)assert_values(&tar, NULL, 0, "1 image=JPG;2 image=PNG;");
    add(&tar, "1.png", "OTHER");
    struct pst_error err = assert_fails(&tar, NULL, 0, PST_ERROR_ARGUMENT, "fields={\"png\"");
    assert_non_null(strstr(err.text, "the sample '1' has 'jpg' and 'png'"));
    assert_int_equal(err.offset, 2048);
    (void)assert_values(&tar, named, 1, "1 image=JPG depth=OTHER;2 depth=PNG;");
    /* If no member of a sample is taken, there is no such sample. */
    (void)assert_values(&tar, left, 1, "1 image=JPG;");
    tar_free(&tar);
}

static void one_name_has_one_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        bool is_error;
    } pairs[] = {
        {"1.mask.png", "2.mask", true}, /* one member is a mask, the other bytes */
        {"1.cls", "2.label", true},     /* one member is an int, the other bytes */
        {"1.a b", "2.a_b", true},       /* name made from "a b", and "a_b" as written */
        {"1.a_b", "2.a b", true},       /* the same names in reverse order */
        {"1.a b", "2.a\xc3", false},    /* two suffixes that give the names a_b and a_ */
        {"1.left.jpg", "2.left.png", false},
        {"1.left.jpg", "2.left.mask.png", false},
        {"1.json", "2.jsn", false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        static struct fake fake;
        struct pst_error err;
        struct tar tar = {0};
        add(&tar, pairs[i].first, "1");
        add(&tar, pairs[i].second, "1");
        enum pst_status status = run(&tar, NULL, 0, &fake, &err);
        assert_int_equal(status, pairs[i].is_error ? PST_ERROR_ARGUMENT : PST_OK);
        if (pairs[i].is_error)
            assert_non_null(strstr(err.text, "both make the field"));
        tar_free(&tar);
    }
}

static void code_is_refused_unless_the_user_takes_its_bytes(void **state)
{
    (void)state;
    static const struct psti_field_rule bytes[] = {{.suffix = "pkl", .type = PST_FIELD_BYTES}},
                                        renamed[] = {{.suffix = "pkl", .field = "other"}},
                                        left[] = {{.suffix = "pkl", .is_left_out = true}};
    struct tar tar = {0};
    add(&tar, "1.jpg", "JPG");
    add(&tar, "1.pkl", "PKL");
    struct pst_error err = assert_fails(&tar, NULL, 0, PST_ERROR_UNSUPPORTED,
                                        "'1.pkl' is code of Python, which is not run");
    assert_int_equal(err.offset, 1024);
    assert_string_equal(err.file, "a.tar");
    assert_fails(&tar, renamed, 1, PST_ERROR_UNSUPPORTED, "code of Python");
    (void)assert_values(&tar, bytes, 1, "1 image=JPG pkl=PKL;");
    (void)assert_values(&tar, left, 1, "1 image=JPG;");
    tar_free(&tar);
}

static void rules_of_the_user_come_first(void **state)
{
    (void)state;
    static const struct psti_field_rule rules[] = {
        {.suffix = "jpg", .field = "photo"},
        {.suffix = "seg.png", .type = PST_FIELD_IMAGE},
        {.suffix = "cls", .field = "class", .type = PST_FIELD_INT, .n_classes = 10},
        {.suffix = "txt", .field = "number", .type = PST_FIELD_INT},
        {.suffix = "bin", .type = PST_FIELD_TEXT},
    };
    struct tar tar = {0};
    add(&tar, "1.jpg", "JPG");
    add(&tar, "1.seg.png", "SEG");
    add(&tar, "1.cls", "9");
    add(&tar, "1.txt", "77");
    add(&tar, "1.bin", "BIN");
    struct fake *fake =
        assert_values(&tar, rules, 5, "1 photo=JPG seg=SEG class=9 number=77 bin='BIN';");
    assert_int_equal(fake->fields[1].type, PST_FIELD_IMAGE);
    assert_int_equal(fake->fields[2].n_classes, 10);
    assert_int_equal(fake->fields[3].n_classes, 0);
    add(&tar, "2.cls", "10");
    struct pst_error err =
        assert_fails(&tar, rules, 5, PST_ERROR_CORRUPT, "'2.cls' is 10, and there are the classes");
    assert_int_equal(err.offset, 5 * 1024);
    tar_free(&tar);
    add(&tar, "1.cls", "-1");
    assert_fails(&tar, rules + 2, 1, PST_ERROR_CORRUPT, "'1.cls' is -1");
    tar_free(&tar);
}

static void wrong_rules_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct psti_field_rule rule;
        const char *text;
    } wrong[] = {
        {{.suffix = ""}, "no suffix"},
        {{.suffix = ".jpg"}, "no suffix"},
        {{.suffix = "a/b.jpg"}, "no suffix"},
        {{.suffix = "jpg", .field = ""}, "empty name"},
        {{.suffix = "jpg", .field = "index"}, "reserved"},
        {{.suffix = "jpg", .field = "a b"}, "not of the form"},
        {{.suffix = "jpg",
          .field = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
         "longer"},
        {{.suffix = "jpg", .type = PST_FIELD_BOXES}, "can be image"},
        {{.suffix = "jpg", .type = PST_FIELD_FLOAT}, "can be image"},
        {{.suffix = "jpg", .type = (enum pst_field_type)99}, "can be image"},
        {{.suffix = "cls", .n_classes = 3}, "classes"},
        {{.suffix = "cls", .type = PST_FIELD_INT, .n_classes = -3}, "classes"},
        {{.suffix = "cls", .type = PST_FIELD_TEXT, .n_classes = 3}, "classes"},
        {{.suffix = "gone"}, "no member has the suffix \"gone\"; there are \"jpg\", \"cls\""},
    };
    struct tar tar = {0};
    add(&tar, "1.jpg", "JPG");
    add(&tar, "1.cls", "1");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(&tar, &wrong[i].rule, 1, PST_ERROR_ARGUMENT, wrong[i].text);
    static const struct psti_field_rule twice[] = {{.suffix = "jpg"}, {.suffix = "JPG"}},
                                        gone[] = {{.suffix = "gone", .is_left_out = true}};
    assert_fails(&tar, twice, 2, PST_ERROR_ARGUMENT, "comes twice");
    (void)assert_values(&tar, gone, 1, "1 image=JPG label=1;");
    tar_free(&tar);
}

/* Adds a .npy file to the tar. */
static void add_array(struct tar *tar, const char *name, const char *descr, const char *shape,
                      const char *elements)
{
    char file[512];
    int n = snprintf(file, sizeof file,
                     "\x93NUMPY\x01%c%c%c{'descr': '%s', 'fortran_order': False, 'shape': %s, }", 0,
                     118, 0, descr, shape);
    assert_true(n > 0 && n < 128);
    memset(file + n, ' ', (size_t)(128 - n));
    file[127] = '\n';
    memcpy(file + 128, elements, strlen(elements));
    tar_file(tar, name, file, 128 + strlen(elements));
}

static void arrays_have_one_type_and_one_shape_or_any(void **state)
{
    (void)state;
    struct tar tar = {0};
    add_array(&tar, "1.npy", "|u1", "(2, 3)", "abcdef");
    add_array(&tar, "2.npy", "|u1", "(2, 3)", "ghijkl");
    struct fake *fake = assert_values(&tar, NULL, 0, "1 npy=2(2,3)abcdef;2 npy=2(2,3)ghijkl;");
    assert_int_equal(fake->n_restated, 0);
    assert_int_equal(fake->fields[0].dtype, PST_DTYPE_U8);
    assert_int_equal(fake->fields[0].ndim, 2);
    assert_int_equal(fake->fields[0].shape[1], 3);
    add_array(&tar, "3.npy", "|u1", "(2, 1)", "mn");
    add_array(&tar, "4.npy", "|u1", "(1,)", "o");
    add_array(&tar, "5.npy", "|u1", "()", "p");
    add_array(&tar, "5.x.npy", "<u2", "(1,)", "qr");
    fake = assert_values(&tar, NULL, 0,
                         "1 npy=2(2,3)abcdef;2 npy=2(2,3)ghijkl;3 npy=2(2,1)mn;4 npy=1(1,0)o;"
                         "5 npy=0(0,0)p x.npy=1(1,0)qr;");
    assert_int_equal(fake->n_restated, 1);
    assert_int_equal(fake->fields[0].ndim, 0);
    assert_int_equal(fake->fields[1].dtype, PST_DTYPE_U16);
    assert_int_equal(fake->fields[1].ndim, 1);
    size_t before = tar.nbytes;
    add_array(&tar, "6.npy", "|i1", "(2, 3)", "abcdef");
    struct pst_error err = assert_fails(&tar, NULL, 0, PST_ERROR_CORRUPT,
                                        "the type int8, and those of samples before");
    assert_int_equal(err.offset, before);
    tar_free(&tar);
    add_array(&tar, "1.npy", "|u1", "(2, 3)", "abcde");
    assert_fails(&tar, NULL, 0, PST_ERROR_CORRUPT, "'1.npy' has not as many bytes as its shape");
    tar_free(&tar);
    add_array(&tar, "1.npy", "|O", "(2, 3)", "abcde");
    assert_fails(&tar, NULL, 0, PST_ERROR_UNSUPPORTED, "pickles");
    tar_free(&tar);
    add(&tar, "1.npy", "");
    assert_fails(&tar, NULL, 0, PST_ERROR_CORRUPT, "'1.npy' is no numpy file");
    tar_free(&tar);
}

static void there_are_at_most_64_fields(void **state)
{
    (void)state;
    static struct fake fake;
    struct pst_error err;
    char name[32];
    struct tar tar = {0};
    for (int i = 0; i < PST_MAX_FIELDS; i++) {
        snprintf(name, sizeof name, "1.s%d", i);
        add(&tar, name, "x");
    }
    assert_ok(run(&tar, NULL, 0, &fake, &err));
    assert_int_equal(fake.n_fields, PST_MAX_FIELDS);
    add(&tar, "1.more", "x");
    assert_fails(&tar, NULL, 0, PST_ERROR_LIMIT, "'more' would be field 65, and 64 are the most");
    tar_free(&tar);
}

/* A zip has deflated members: bytes are stored as places, and arrays are refused. */
static void compressed_members_keep_both_sizes(void **state)
{
    (void)state;
    static struct fake fake;
    struct tar tar = {.bytes = (uint8_t *)(uintptr_t) "place", .nbytes = 5};
    fake = (struct fake){.tar = &tar};
    struct psti_field_sink sink = {.field = fake_field,
                                   .restate = fake_restate,
                                   .sample = fake_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&fake};
    struct psti_containers_fields *fields = NULL;
    struct pst_error err;
    assert_ok(psti_containers_fields_open(NULL, 0, &sink, &fields, &err));
    struct psti_sample_taker taker = psti_containers_fields_taker(fields);
    assert_int_equal(taker.wants(taker.context, "npy", 5000), PSTI_NPY_HEAD_NBYTES);
    assert_int_equal(taker.wants(taker.context, "npy", 50), 50);
    assert_int_equal(taker.wants(taker.context, "cls", 2), 2);
    assert_int_equal(taker.wants(taker.context, "cls", 5000), 64);
    assert_int_equal(taker.wants(taker.context, "txt", 64), 64);
    assert_int_equal(taker.wants(taker.context, "txt", 65), 0);
    assert_int_equal(taker.wants(taker.context, "jpg", 65), 0);
    assert_int_equal(taker.wants(taker.context, "pkl", 65), 0);
    struct psti_part part = {.suffix = "cls",
                             .nbytes = 4,
                             .decoded_nbytes = 2,
                             .coding = PSTI_CODING_DEFLATE,
                             .head = (const uint8_t *)"12",
                             .n_head = 2};
    struct psti_sample sample = {.key = "1", .parts = &part, .n_parts = 1};
    assert_ok(taker.take(taker.context, &sample, &err));
    assert_string_equal(fake.log, "1 label=12;");
    part.suffix = "txt";
    assert_ok(taker.take(taker.context, &sample, &err));
    assert_string_equal(fake.log, "1 label=12;1 text='12';");
    part.suffix = "npy";
    assert_int_equal(taker.take(taker.context, &sample, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "compressed array"));
    psti_containers_fields_close(&fields);
}

static void facts_change_with_what_is_known_of_a_member(void **state)
{
    (void)state;
    static struct fake fake;
    struct psti_field_sink sink = {.field = fake_field,
                                   .restate = fake_restate,
                                   .sample = fake_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&fake};
    struct tar tar = {.bytes = (uint8_t *)(uintptr_t) "place", .nbytes = 5};
    const struct psti_part parts[] = {
        {.suffix = "jpg", .nbytes = 3, .decoded_nbytes = 3, .mtime = 1, .check = 1},
        {.suffix = "jpg", .nbytes = 4, .decoded_nbytes = 4, .mtime = 1, .check = 1},
        {.suffix = "jpg", .nbytes = 3, .decoded_nbytes = 3, .mtime = 2, .check = 1},
        {.suffix = "jpg", .nbytes = 3, .decoded_nbytes = 3, .mtime = 1, .check = 2},
        {.suffix = "jpg", .nbytes = 3, .decoded_nbytes = 3, .mtime = 1, .check = 1, .offset = 1},
    };
    uint64_t facts[5];
    struct psti_containers_fields *fields = NULL;
    struct pst_error err;
    fake = (struct fake){.tar = &tar};
    assert_ok(psti_containers_fields_open(NULL, 0, &sink, &fields, &err));
    struct psti_sample_taker taker = psti_containers_fields_taker(fields);
    for (int i = 0; i < 5; i++) {
        struct psti_sample sample = {.key = "1", .parts = &parts[i], .n_parts = 1};
        assert_ok(taker.take(taker.context, &sample, &err));
        facts[i] = fake.facts;
        for (int k = 0; k < i && i < 4; k++)
            assert_true(facts[i] != facts[k]);
    }
    assert_true(facts[4] == facts[0]); /* the place in the tar is not part of the facts */
    psti_containers_fields_close(&fields);
}

static void memory_may_be_lacking_anywhere(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    static struct fake fake;
    struct pst_error err;
    struct tar tar = {0};
    char name[32];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%d.s%d.cls", i, i % 60);
        add(&tar, name, "1");
    }
    struct pst_memory_stats before, after;
    pst_memory_stats(&before, sizeof before);
    enum pst_status status = PST_ERROR_MEMORY;
    uint64_t n = 0;
    while (status != PST_OK) {
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        status = run(&tar, NULL, 0, &fake, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status != PST_OK)
            assert_int_equal(status, PST_ERROR_MEMORY);
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
    }
    assert_true(n > 15);
    tar_free(&tar);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suffixes_say_types_and_names),
        cmocka_unit_test(values_are_places_numbers_and_short_texts),
        cmocka_unit_test(numbers_are_read_whole),
        cmocka_unit_test(two_members_of_one_field_are_an_error),
        cmocka_unit_test(one_name_has_one_meaning),
        cmocka_unit_test(code_is_refused_unless_the_user_takes_its_bytes),
        cmocka_unit_test(rules_of_the_user_come_first),
        cmocka_unit_test(wrong_rules_are_refused),
        cmocka_unit_test(arrays_have_one_type_and_one_shape_or_any),
        cmocka_unit_test(there_are_at_most_64_fields),
        cmocka_unit_test(compressed_members_keep_both_sizes),
        cmocka_unit_test(facts_change_with_what_is_known_of_a_member),
        cmocka_unit_test(memory_may_be_lacking_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
