/* test_writer_refusals.c - values, schemas and directories that the writer must not accept. A
 * refused sample leaves nothing behind; a refused open leaves the directory as it was. */
#include "writer/writer_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    char *directory;
    char path[512];
    pst_writer *writer;
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    place->directory = fixture_directory();
    snprintf(place->path, sizeof place->path, "%s/set", place->directory);
    *state = place;
    return pst_writer_open(place->path, fixture_fields, FIX_N_FIELDS, &options, &place->writer,
                           NULL);
}

static int teardown(void **state)
{
    struct place *place = *state;
    pst_writer_close(&place->writer);
    fixture_remove(place->directory);
    free(place);
    return 0;
}

enum change {
    NAME_EMPTY,
    NAME_NULL,
    NAME_NOT_UTF8,
    NAME_SURROGATE,
    NAME_OVERLONG,
    NAME_CONTROL,
    NAME_NEWLINE,
    NAME_C1,
    NAME_LONG,
    NAME_TAKEN,
    LABEL_HIGH,
    LABEL_NEGATIVE,
    LABEL_SHORT,
    FLOAT_LONG,
    VALUE_NULL,
    BYTES_NULL,
    BOXES_15,
    KEYPOINTS_13,
    TEXT_BAD,
    JSON_BAD,
    FIXED_SHAPE,
    FIXED_NBYTES,
    RAGGED_NBYTES,
    RAGGED_NDIM,
    RAGGED_OVERFLOW,
    IMAGE_ABSENT,
    IMAGE_NO_FORM,
    IMAGE_FORM_BYTES,
    IMAGE_RAW_NBYTES,
    IMAGE_RAW_ZERO,
    IMAGE_EMPTY_JPEG,
    IMAGE_GARBAGE,
    MASK_RGB,
    AUDIO_FORM,
    N_CHANGES
};

static char long_name[5000];
static uint8_t garbage[64] = {0xFF, 0xD8, 0xFF, 0xE0, 1, 2, 3};

static enum pst_status apply_name(struct fixture_sample *s, enum change change)
{
    static const char *const names[] = {[NAME_EMPTY] = "",
                                        [NAME_NULL] = NULL,
                                        [NAME_NOT_UTF8] = "a\xFF",
                                        [NAME_SURROGATE] = "a\xED\xA0\x80",
                                        [NAME_OVERLONG] = "a\xC0\xAF",
                                        [NAME_CONTROL] = "a\x01",
                                        [NAME_NEWLINE] = "a\n",
                                        [NAME_C1] = "a\xC2\x85",
                                        [NAME_LONG] = long_name,
                                        [NAME_TAKEN] = "class/\xC3\xBC sample 0"};
    memset(long_name, 'x', sizeof long_name - 1);
    s->sample.name = names[change];
    return change == NAME_TAKEN ? PST_ERROR_EXISTS : PST_ERROR_ARGUMENT;
}

static enum pst_status apply_image(struct fixture_sample *s, enum change change, const char **field)
{
    struct pst_value(*v)[2] = s->value;
    switch (change) {
    case IMAGE_ABSENT:
        memset(v[FIX_IMAGE], 0, sizeof v[FIX_IMAGE]);
        *field = "image";
        break;
    case IMAGE_NO_FORM:
        v[FIX_IMAGE][0].form = PST_FORM_NONE;
        *field = "image";
        break;
    case IMAGE_FORM_BYTES:
        v[FIX_IMAGE][0].form = PST_FORM_BYTES;
        *field = "image";
        break;
    case IMAGE_RAW_NBYTES:
        v[FIX_IMAGE][0].nbytes--;
        *field = "image";
        return (enum pst_status) - 1;
    case IMAGE_RAW_ZERO:
        v[FIX_IMAGE][0].height = 0;
        *field = "image";
        return (enum pst_status) - 1;
    case IMAGE_EMPTY_JPEG:
        v[FIX_IMAGE][0].form = PST_FORM_JPEG;
        v[FIX_IMAGE][0].nbytes = 0;
        *field = "image";
        return PST_ERROR_TRUNCATED;
    case IMAGE_GARBAGE:
        v[FIX_IMAGE][0] =
            (struct pst_value){.bytes = garbage, .nbytes = sizeof garbage, .form = PST_FORM_JPEG};
        *field = "image";
        return (enum pst_status) - 1;
    case MASK_RGB:
        v[FIX_MASK][0] = v[FIX_IMAGE][0];
        *field = "mask";
        break;
    case AUDIO_FORM:
        v[FIX_AUDIO][0].form = PST_FORM_JPEG;
        *field = "audio";
        break;
    default:
        fail();
    }
    return PST_ERROR_ARGUMENT;
}

/* Spoils the sample in one way. Returns the expected status and, in *field, the field that the
 * error must name. */
static enum pst_status apply(struct fixture_sample *s, enum change change, const char **field)
{
    struct pst_value(*v)[2] = s->value;
    static const uint8_t bad_text[] = {'a', 0xC3};
    *field = NULL;
    if (change <= NAME_TAKEN)
        return apply_name(s, change);
    switch (change) {
    case LABEL_HIGH:
        s->label = 5;
        *field = "label";
        break;
    case LABEL_NEGATIVE:
        s->label = -1;
        *field = "label";
        break;
    case LABEL_SHORT:
        v[FIX_LABEL][0].nbytes = 4;
        *field = "label";
        break;
    case FLOAT_LONG:
        v[FIX_WEIGHT][0].nbytes = 9;
        *field = "weight";
        break;
    case VALUE_NULL:
        s->values[FIX_BLOB] = NULL;
        *field = "blob";
        break;
    case BYTES_NULL:
        v[FIX_AUDIO][0].bytes = NULL;
        *field = "audio";
        break;
    case BOXES_15:
        v[FIX_BOXES][0].nbytes = 15;
        *field = "boxes";
        break;
    case KEYPOINTS_13:
        v[FIX_KEYPOINTS][0].nbytes = 13;
        *field = "keypoints";
        break;
    case TEXT_BAD:
        v[FIX_CAPTION][0] = (struct pst_value){.bytes = bad_text, .nbytes = 2};
        *field = "caption";
        break;
    case JSON_BAD:
        v[FIX_META][0] = (struct pst_value){.bytes = bad_text, .nbytes = 2};
        *field = "meta";
        break;
    case FIXED_SHAPE:
        v[FIX_FIXED][0].ndim = 2;
        v[FIX_FIXED][0].shape[0] = 3;
        v[FIX_FIXED][0].shape[1] = 2;
        *field = "fixed";
        break;
    case FIXED_NBYTES:
        v[FIX_FIXED][0].nbytes = 20;
        *field = "fixed";
        break;
    case RAGGED_NBYTES:
        v[FIX_RAGGED][0].nbytes += 2;
        *field = "ragged";
        break;
    case RAGGED_NDIM:
        v[FIX_RAGGED][0].ndim = 9;
        *field = "ragged";
        break;
    case RAGGED_OVERFLOW:
        v[FIX_RAGGED][0].ndim = 8;
        for (int i = 0; i < 8; i++)
            v[FIX_RAGGED][0].shape[i] = 0x10000;
        *field = "ragged";
        return PST_ERROR_LIMIT;
    default:
        return apply_image(s, change, field);
    }
    return PST_ERROR_ARGUMENT;
}

static void bad_samples_leave_no_trace(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    uint64_t n = 0;
    assert_ok(fixture_add(place->writer, n++, &err));
    for (int change = 0; change < N_CHANGES; change++) {
        struct fixture_sample s;
        const char *field;
        char wanted[64];
        fixture_make(&s, n);
        enum pst_status want = apply(&s, (enum change)change, &field);
        pst_error_clear(&err);
        enum pst_status got = pst_writer_add(place->writer, &s.sample, &err);
        if (want == (enum pst_status) - 1)
            /* The decoder chooses the status. Any refusal that blames the sample is right. */
            assert_true(got == PST_ERROR_CORRUPT || got == PST_ERROR_TRUNCATED ||
                        got == PST_ERROR_ARGUMENT || got == PST_ERROR_UNSUPPORTED);
        else if (got != want) {
            print_error("change %d: %s, %s\n", change, pst_status_name(got), err.text);
            assert_int_equal(got, want);
        }
        assert_string_equal(err.dataset, place->path);
        assert_int_equal(err.sample, n);
        if (field != NULL) {
            snprintf(wanted, sizeof wanted, "field \"%s\"", field);
            assert_non_null(strstr(err.text, wanted));
            assert_non_null(strstr(err.text, s.name));
        }
        assert_int_equal(pst_writer_count(place->writer), n);
        if (change > NAME_TAKEN)
            assert_false(pst_writer_has(place->writer, s.name));
        assert_ok(fixture_add(place->writer, n++, &err));
    }
    assert_ok(pst_writer_finish(place->writer, &err));
    fixture_check(place->path, n);
}

static void class_names_are_checked(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    const char *const bad[5] = {"a", "b", "", "d", "e"};
    assert_int_equal(pst_writer_set_class_names(place->writer, FIX_LABEL, bad, 5, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_writer_set_class_names(place->writer, FIX_LABEL, fixture_classes, 4, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(
        pst_writer_set_class_names(place->writer, FIX_WEIGHT, fixture_classes, 5, &err),
        PST_ERROR_ARGUMENT);
    assert_int_equal(pst_writer_set_class_names(place->writer, 99, fixture_classes, 5, &err),
                     PST_ERROR_ARGUMENT);
    assert_ok(fixture_add(place->writer, 0, &err));
}

static enum pst_status try_open(const char *path, enum pst_writer_mode mode,
                                const struct pst_field *fields, uint32_t n_fields,
                                struct pst_error *err)
{
    struct pst_writer_options options = fixture_options(mode);
    pst_writer *writer = NULL;
    pst_error_clear(err);
    enum pst_status status = pst_writer_open(path, fields, n_fields, &options, &writer, err);
    assert_true((status == PST_OK) == (writer != NULL));
    pst_writer_close(&writer);
    return status;
}

static void schemas_are_checked(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/other", place->directory);
    struct pst_field two[2] = {{.name = "a", .type = PST_FIELD_INT, .n_variants = 1},
                               {.name = "b", .type = PST_FIELD_INT, .n_variants = 1}};
    const struct pst_field good = two[1];
    struct pst_field bad[12];
    for (int i = 0; i < 12; i++)
        bad[i] = good;
    strcpy(bad[0].name, "a");
    strcpy(bad[1].name, "index");
    strcpy(bad[2].name, "9a");
    strcpy(bad[3].name, "");
    memset(bad[4].name, 'x', sizeof bad[4].name);
    bad[5].type = (enum pst_field_type)12;
    bad[6].n_variants = 0;
    bad[7].n_variants = 2;
    bad[8].n_classes = -1;
    bad[9].type = PST_FIELD_ARRAY;
    bad[10].ndim = 1;
    bad[11].type = PST_FIELD_FLOAT, bad[11].n_classes = 2;
    for (int i = 0; i < 12; i++) {
        two[1] = bad[i];
        assert_int_equal(try_open(path, PST_WRITER_CREATE, two, 2, &err), PST_ERROR_ARGUMENT);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(try_open(path, PST_WRITER_CREATE, NULL, 0, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(access(path, F_OK), -1);
}

static void modes_and_states(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    char other[600], file[700];
    /* The fixture's writer holds the lock. */
    for (int mode = PST_WRITER_CREATE; mode <= PST_WRITER_APPEND; mode++) {
        assert_int_equal(
            try_open(place->path, (enum pst_writer_mode)mode, fixture_fields, FIX_N_FIELDS, &err),
            PST_ERROR_BUSY);
        assert_string_equal(err.dataset, place->path);
    }
    assert_ok(fixture_add(place->writer, 0, &err));
    pst_writer_close(&place->writer);
    assert_int_equal(try_open(place->path, PST_WRITER_CREATE, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_INCOMPLETE);
    assert_int_equal(try_open(place->path, PST_WRITER_APPEND, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_INCOMPLETE);
    assert_int_equal(
        try_open(place->path, PST_WRITER_RESUME, fixture_fields, FIX_N_FIELDS - 1, &err),
        PST_ERROR_ARGUMENT);
    struct pst_writer_options options = fixture_options(PST_WRITER_RESUME);
    assert_ok(pst_writer_open(place->path, NULL, 0, &options, &place->writer, &err));
    assert_ok(pst_writer_finish(place->writer, &err));
    pst_writer_close(&place->writer);
    assert_int_equal(try_open(place->path, PST_WRITER_CREATE, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_EXISTS);
    fixture_check(place->path, 1);

    snprintf(other, sizeof other, "%s/other", place->directory);
    assert_int_equal(try_open(other, PST_WRITER_APPEND, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_NOT_FOUND);
    assert_int_equal(access(other, F_OK), -1);
    /* A folder that is no data set. */
    assert_int_equal(mkdir(other, 0777), 0);
    snprintf(file, sizeof file, "%s/holiday.jpg", other);
    fixture_write_file(file, "x", 1);
    assert_int_equal(try_open(other, PST_WRITER_CREATE, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_EXISTS);
    assert_int_equal(try_open(other, PST_WRITER_RESUME, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_EXISTS);
    assert_int_equal(try_open(other, PST_WRITER_APPEND, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_NOT_FOUND);
    assert_int_equal(try_open(file, PST_WRITER_CREATE, fixture_fields, FIX_N_FIELDS, &err),
                     PST_ERROR_EXISTS);
    assert_int_equal(unlink(file), 0);
    /* A writer that ended before it put its journal in place leaves an "absent" data set. */
    snprintf(file, sizeof file, "%s/journal.pst.tmp", other);
    fixture_write_file(file, "half a header", 13);
    snprintf(file, sizeof file, "%s/writer.lock", other);
    fixture_write_file(file, "", 0);
    assert_int_equal(try_open(other, PST_WRITER_CREATE, fixture_fields, FIX_N_FIELDS, &err),
                     PST_OK);
}

static void a_forked_child_does_no_harm(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    assert_ok(fixture_add(place->writer, 0, &err));
    pid_t child = fork();
    if (child == 0) {
        int bad = fixture_add(place->writer, 1, &err) != PST_ERROR_FORKED;
        bad |= pst_writer_finish(place->writer, &err) != PST_ERROR_FORKED;
        pst_writer_close(&place->writer);
        _exit(bad);
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_int_equal(exit_status, 0);
    assert_int_equal(try_open(place->path, PST_WRITER_RESUME, NULL, 0, &err), PST_ERROR_BUSY);
    assert_ok(fixture_add(place->writer, 1, &err));
    assert_ok(pst_writer_finish(place->writer, &err));
    fixture_check(place->path, 2);
}

/* Readers of parts of a PLI recognise its head by the pixel checksum, so the item must state the
 * same one. */
static void a_pli_states_its_own_pixel_checksum(void **state)
{
    const struct place *place = *state;
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    uint8_t samples[48] = {1, 2, 3};
    const struct pst_pixels pixels = {.data = samples,
                                      .height = 4,
                                      .width = 4,
                                      .channels = 3,
                                      .bits = 8,
                                      .row_nbytes = 12,
                                      .pixel_nbytes = 3,
                                      .channel_nbytes = 1};
    struct pst_pli_info info = {0};
    struct pst_value value = {.form = PST_FORM_PLI};
    const struct pst_value *list = &value;
    struct pst_error err;
    char path[600];
    pst_writer *writer;
    pst_dataset *dataset;
    struct pst_item item;
    size_t bound = pst_pli_encode_bound(4, 4, 3, 8);
    uint8_t *bytes = malloc(bound);
    assert_ok(pst_pli_encode(&pixels, NULL, bytes, bound, &value.nbytes, &err));
    assert_ok(pst_pli_info(bytes, value.nbytes, &info, sizeof info, &err));
    value.bytes = bytes;
    snprintf(path, sizeof path, "%s/pli", place->directory);
    assert_ok(pst_writer_open(path, &field, 1, &options, &writer, &err));
    value.has_pixel_checksum = true;
    value.pixel_checksum = info.pixel_checksum + 1;
    assert_int_equal(pst_writer_add(writer,
                                    &(struct pst_sample){.struct_size = sizeof(struct pst_sample),
                                                         .value_nbytes = sizeof(struct pst_value),
                                                         .name = "a",
                                                         .values = &list},
                                    &err),
                     PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "pixel checksum"));
    value.has_pixel_checksum = false;
    assert_ok(pst_writer_add(writer,
                             &(struct pst_sample){.struct_size = sizeof(struct pst_sample),
                                                  .value_nbytes = sizeof(struct pst_value),
                                                  .name = "a",
                                                  .values = &list},
                             &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    assert_ok(pst_dataset_item(dataset, 0, 0, 0, &item, sizeof item, &err));
    assert_int_equal(item.form, PST_FORM_PLI);
    assert_true(item.has_pixel_checksum);
    assert_int_equal(item.pixel_checksum, info.pixel_checksum);
    pst_dataset_close(&dataset);
    free(bytes);
}

/* A program built for a newer version passes longer structs for values and samples. */
static void what_a_newer_program_knows(void **state)
{
    const struct place *place = *state;
    struct pst_field field = {.name = "note", .type = PST_FIELD_TEXT, .n_variants = 1};
    struct {
        struct pst_value value;
        uint64_t extra;
    } newer = {.value = {.bytes = "hello", .nbytes = 5}};
    const struct pst_value *list = &newer.value;
    struct {
        struct pst_sample sample;
        uint64_t extra;
    } given = {.sample = {.struct_size = sizeof given,
                          .value_nbytes = sizeof newer,
                          .name = "a",
                          .values = &list}};
    struct pst_error err;
    char path[600];
    pst_writer *writer;
    snprintf(path, sizeof path, "%s/newer", place->directory);
    field.reserved[6] = 1;
    assert_int_equal(pst_writer_open(path, &field, 1, NULL, &writer, &err), PST_ERROR_VERSION);
    field.reserved[6] = 0;
    assert_ok(pst_writer_open(path, &field, 1, NULL, &writer, &err));
    newer.extra = 1;
    assert_int_equal(pst_writer_add(writer, &given.sample, &err), PST_ERROR_VERSION);
    assert_non_null(strstr(err.text, "value_nbytes"));
    newer.extra = 0;
    given.extra = 1;
    assert_int_equal(pst_writer_add(writer, &given.sample, &err), PST_ERROR_VERSION);
    given.extra = 0;
    given.sample.value_nbytes = 0;
    assert_int_equal(pst_writer_add(writer, &given.sample, &err), PST_ERROR_ARGUMENT);
    given.sample.value_nbytes = sizeof newer;
    assert_ok(pst_writer_add(writer, &given.sample, &err));
    assert_int_equal(pst_writer_count(writer), 1); /* the refused samples left nothing */
    pst_writer_close(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_newer_program_knows, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_samples_leave_no_trace, setup, teardown),
        cmocka_unit_test_setup_teardown(class_names_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(schemas_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(modes_and_states, setup, teardown),
        cmocka_unit_test_setup_teardown(a_forked_child_does_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pli_states_its_own_pixel_checksum, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
