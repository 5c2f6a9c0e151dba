/* test_writer_round_trip.c - values read are the values written: every field type, ragged arrays,
 * variants, several shards, class names; also after resume and append. */
#include "writer/writer_fixture.h"

#include "base/bits.h"

#include <png.h>

#include <string.h>
#include <stdlib.h>
#include <unistd.h>

static int setup(void **state)
{
    *state = fixture_directory();
    return 0;
}

static int teardown(void **state)
{
    fixture_remove(*state);
    return 0;
}

static void path_in(const char *directory, const char *name, char out[512])
{
    snprintf(out, 512, "%s/%s", directory, name);
}

static pst_writer *open_writer(const char *path, enum pst_writer_mode mode, uint32_t n_fields)
{
    struct pst_error err = {0};
    struct pst_writer_options options = fixture_options(mode);
    pst_writer *writer;
    assert_ok(
        pst_writer_open(path, n_fields ? fixture_fields : NULL, n_fields, &options, &writer, &err));
    return writer;
}

static void add_range(pst_writer *writer, uint64_t first, uint64_t end)
{
    struct pst_error err = {0};
    for (uint64_t i = first; i < end; i++)
        assert_ok(fixture_add(writer, i, &err));
}

static void every_field_type(void **state)
{
    struct pst_error err = {0};
    char path[512], leftover[600];
    path_in(*state, "set.pst/", path);
    pst_writer *writer = open_writer(path, PST_WRITER_CREATE, FIX_N_FIELDS);
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    add_range(writer, 0, 100);
    assert_int_equal(pst_writer_count(writer), 100);
    assert_true(pst_writer_has(writer, "class/\xC3\xBC sample 99"));
    assert_false(pst_writer_has(writer, "class/\xC3\xBC sample 100"));
    assert_ok(pst_writer_finish(writer, &err));
    assert_int_equal(fixture_add(writer, 100, &err), PST_ERROR_STATE);
    pst_writer_close(&writer);
    assert_null(writer);
    fixture_check(path, 100);

    pst_dataset *ds;
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    assert_true(pst_dataset_n_files(ds) > 3);
    for (int64_t i = 0; i < 5; i++)
        assert_string_equal(pst_dataset_class_name(ds, FIX_LABEL, i), fixture_classes[i]);
    assert_null(pst_dataset_class_name(ds, FIX_LABEL, 5));
    assert_null(pst_dataset_class_name(ds, FIX_LABEL, -1));
    assert_null(pst_dataset_class_name(ds, FIX_IMAGE, 0));
    for (uint32_t f = 0; f < FIX_N_FIELDS; f++) {
        assert_memory_equal(pst_dataset_field(ds, f), &fixture_fields[f], sizeof(struct pst_field));
        assert_int_equal(pst_dataset_find_field(ds, fixture_fields[f].name), (int)f);
    }
    assert_null(pst_dataset_field(ds, FIX_N_FIELDS));
    pst_dataset *same = ds;
    pst_dataset_retain(ds);
    pst_dataset_close(&ds);
    fixture_check_open(same, 100);
    pst_dataset_close(&same);
    /* Only shards and index are left. */
    const char *const gone[] = {"journal.pst", "journal.pst.tmp", "index.pst.tmp", "writer.lock"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(leftover, sizeof leftover, "%s/%s", path, gone[i]);
        assert_int_equal(access(leftover, F_OK), -1);
    }
}

static void arguments_out_of_range(void **state)
{
    struct pst_error err = {0};
    char path[512], small[8];
    struct pst_item item;
    char name[PST_NAME_CAP];
    int64_t number;
    double real;
    path_in(*state, "set", path);
    pst_writer *writer = open_writer(path, PST_WRITER_CREATE, FIX_N_FIELDS);
    add_range(writer, 0, 3);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *ds;
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    assert_int_equal(pst_dataset_sample_name(ds, 3, name, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(err.sample, 3);
    assert_string_equal(err.dataset, path);
    assert_int_equal(pst_dataset_item(ds, UINT64_MAX, 0, 0, &item, sizeof item, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_item(ds, 0, FIX_LABEL, 0, &item, sizeof item, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_item(ds, 0, 99, 0, &item, sizeof item, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_item(ds, 0, 0, 2, &item, sizeof item, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_int(ds, 0, FIX_WEIGHT, &number, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_float(ds, 0, FIX_LABEL, &real, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_read(ds, 1, FIX_AUDIO, 0, 5, 2, small, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_read(ds, 1, FIX_AUDIO, 0, UINT64_MAX, 2, small, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_file_path(ds, 0, small, sizeof small, &err), PST_ERROR_LIMIT);
    assert_int_equal(pst_dataset_file_path(ds, 77, small, sizeof small, &err), PST_ERROR_ARGUMENT);
    pst_dataset_close(&ds);
    assert_int_equal(pst_dataset_open("/does/not/exist", NULL, &ds, &err), PST_ERROR_NOT_FOUND);
    assert_null(ds);
}

static void an_empty_data_set(void **state)
{
    struct pst_error err = {0};
    char path[512];
    path_in(*state, "set", path);
    pst_writer *writer = open_writer(path, PST_WRITER_CREATE, FIX_N_FIELDS);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    fixture_check(path, 0);
    writer = open_writer(path, PST_WRITER_APPEND, 0);
    add_range(writer, 0, 2);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    fixture_check(path, 2);
}

static void resume_goes_on(void **state)
{
    struct pst_error err = {0};
    char path[512];
    pst_dataset *ds;
    path_in(*state, "set", path);
    uint64_t done = 0;
    for (uint64_t stop = 0; stop <= 60; stop += 15) {
        pst_writer *writer = open_writer(path, PST_WRITER_RESUME, stop == 30 ? 0 : FIX_N_FIELDS);
        assert_int_equal(pst_writer_count(writer), done);
        if (stop == 15)
            assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
        add_range(writer, done, stop);
        assert_true(stop == 0 || pst_writer_has(writer, "class/\xC3\xBC sample 0"));
        if (stop == 60)
            assert_ok(pst_writer_finish(writer, &err));
        pst_writer_close(&writer);
        done = stop;
        assert_int_equal(pst_dataset_open(path, NULL, &ds, &err),
                         stop == 60  ? PST_OK
                         : stop == 0 ? PST_ERROR_NOT_FOUND /* nothing was committed */
                                     : PST_ERROR_INCOMPLETE);
        if (ds != NULL)
            assert_string_equal(pst_dataset_class_name(ds, FIX_LABEL, 4), "e");
        pst_dataset_close(&ds);
    }
    fixture_check(path, 60);
    /* Resuming a finished data set changes nothing, so a script may do it twice. */
    pst_writer *writer = open_writer(path, PST_WRITER_RESUME, FIX_N_FIELDS);
    assert_int_equal(pst_writer_count(writer), 60);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    fixture_check(path, 60);
}

static void append_leaves_readers_alone(void **state)
{
    struct pst_error err = {0};
    char path[512];
    pst_dataset *before, *after;
    path_in(*state, "set", path);
    pst_writer *writer = open_writer(path, PST_WRITER_CREATE, FIX_N_FIELDS);
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    add_range(writer, 0, 20);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &before, &err));

    writer = open_writer(path, PST_WRITER_APPEND, FIX_N_FIELDS);
    assert_int_equal(pst_writer_count(writer), 20);
    assert_int_equal(fixture_add(writer, 7, &err), PST_ERROR_EXISTS);
    add_range(writer, 20, 50);
    fixture_check_open(before, 20);
    fixture_check(path, 20);
    pst_writer_close(&writer); /* interrupted: readers still see the old state */
    fixture_check(path, 20);
    writer = open_writer(path, PST_WRITER_APPEND, 0);
    assert_int_equal(pst_writer_count(writer), 50);
    add_range(writer, 50, 55);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    fixture_check(path, 55);
    fixture_check_open(before, 20);
    assert_ok(pst_dataset_open(path, NULL, &after, &err));
    assert_memory_equal(pst_dataset_id(before), pst_dataset_id(after), 16);
    assert_string_equal(pst_dataset_class_name(after, FIX_LABEL, 1), fixture_classes[1]);
    pst_dataset_close(&before);
    pst_dataset_close(&after);

    /* An append that adds nothing leaves no journal. */
    writer = open_writer(path, PST_WRITER_APPEND, 0);
    pst_writer_close(&writer);
    char journal[600];
    snprintf(journal, sizeof journal, "%s/journal.pst", path);
    assert_int_equal(access(journal, F_OK), -1);
}

static const char *const seven[7] = {"ant", "b\xC3\xA4r", "cat", "dog", "e", "f\xC3\xBCr", "g"};

static enum pst_status add_with_label(pst_writer *writer, uint64_t i, int64_t label,
                                      struct pst_error *err)
{
    struct fixture_sample sample;
    fixture_make(&sample, i);
    sample.label = label;
    return pst_writer_add(writer, &sample.sample, err);
}

static void check_seven(const char *path, uint64_t n, const int64_t *labels)
{
    struct pst_error err = {0};
    const struct pst_verify_options options = {.struct_size = sizeof options};
    pst_dataset *ds;
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    assert_int_equal(pst_dataset_count(ds), 20 + n);
    assert_int_equal(pst_dataset_field(ds, FIX_LABEL)->n_classes, 7);
    for (int64_t i = 0; i < 7; i++)
        assert_string_equal(pst_dataset_class_name(ds, FIX_LABEL, i), seven[i]);
    for (uint64_t i = 0; i < n; i++) {
        int64_t label;
        assert_ok(pst_dataset_int(ds, 20 + i, FIX_LABEL, &label, &err));
        assert_int_equal(label, labels[i]);
    }
    pst_dataset_close(&ds);
    assert_ok(pst_verify(path, &options, NULL, 0, &err));
}

/* An append that adds classes behind the existing ones is interrupted and resumed. */
static void append_adds_classes(void **state)
{
    struct pst_error err = {0};
    char path[512];
    const char *wrong[7];
    struct pst_field fields[FIX_N_FIELDS];
    struct pst_writer_options options = fixture_options(PST_WRITER_APPEND);
    path_in(*state, "set", path);
    pst_writer *writer = open_writer(path, PST_WRITER_CREATE, FIX_N_FIELDS);
    assert_int_equal(pst_writer_set_class_names(writer, FIX_LABEL, seven, 7, &err),
                     PST_ERROR_ARGUMENT); /* a new data set has the classes of its schema */
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    add_range(writer, 0, 20);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);

    memcpy(fields, fixture_fields, sizeof fields);
    fields[FIX_LABEL].n_classes = 7;
    assert_ok(pst_writer_open(path, fields, FIX_N_FIELDS, &options, &writer, &err));
    assert_int_equal(pst_writer_field(writer, FIX_LABEL)->n_classes, 5);
    assert_int_equal(add_with_label(writer, 20, 5, &err), PST_ERROR_ARGUMENT);
    memcpy(wrong, seven, sizeof wrong);
    wrong[2] = "cow";
    assert_int_equal(pst_writer_set_class_names(writer, FIX_LABEL, wrong, 7, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "class 2 of field \"label\" is \"cat\""));
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, seven, 6, &err));
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, seven, 7, &err));
    assert_int_equal(pst_writer_field(writer, FIX_LABEL)->n_classes, 7);
    assert_ok(add_with_label(writer, 20, 6, &err));
    assert_int_equal(add_with_label(writer, 21, 7, &err), PST_ERROR_ARGUMENT);
    pst_writer_close(&writer); /* interrupted */
    fixture_check(path, 20);

    writer = open_writer(path, PST_WRITER_RESUME, 0);
    assert_int_equal(pst_writer_count(writer), 21);
    assert_int_equal(pst_writer_field(writer, FIX_LABEL)->n_classes, 7);
    assert_ok(add_with_label(writer, 21, 5, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    check_seven(path, 2, (const int64_t[]){6, 5});

    fields[FIX_LABEL].n_classes = 4; /* fewer classes do not fit this data set */
    assert_int_equal(pst_writer_open(path, fields, FIX_N_FIELDS, &options, &writer, &err),
                     PST_ERROR_ARGUMENT);
}

static void image_headers_are_recorded(void **state)
{
    struct pst_error err = {0};
    char path[512];
    static uint8_t pixels[6 * 5 * 3], file[4096];
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = 6, .height = 5, .format = PNG_FORMAT_RGB};
    png_alloc_size_t nbytes = sizeof file;
    assert_true(png_image_write_to_memory(&image, file, &nbytes, 0, pixels, 0, NULL));
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    struct pst_value value = {.bytes = file, .nbytes = nbytes, .form = PST_FORM_PNG};
    const struct pst_value *values = &value;
    struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                .value_nbytes = sizeof(struct pst_value),
                                .name = "a",
                                .values = &values};
    pst_writer *writer;
    path_in(*state, "set", path);
    assert_ok(pst_writer_open(path, &field, 1, &options, &writer, &err));
    assert_ok(pst_writer_add(writer, &sample, &err));
    sample.name = "b";
    value.form = PST_FORM_JPEG;
    enum pst_status status = pst_writer_add(writer, &sample, &err);
    assert_true(status == PST_ERROR_CORRUPT || status == PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "sample \"b\", field \"image\""));
    value.form = PST_FORM_PNG;
    value.nbytes = 20;
    status = pst_writer_add(writer, &sample, &err);
    assert_true(status == PST_ERROR_TRUNCATED || status == PST_ERROR_CORRUPT);
    assert_int_equal(pst_writer_count(writer), 1);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *ds;
    struct pst_item item;
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    assert_ok(pst_dataset_item(ds, 0, 0, 0, &item, sizeof item, &err));
    assert_true(item.form == PST_FORM_PNG && item.height == 5 && item.width == 6 &&
                item.channels == 3 && item.bits == 8 && item.orientation == 1 &&
                !item.has_pixel_checksum);
    assert_int_equal(pst_dataset_max_pixels_nbytes(ds, 0), 90);
    pst_dataset_close(&ds);
}

static void an_item_larger_than_shard_and_buffer(void **state)
{
    struct pst_error err = {0};
    char path[512];
    size_t nbytes = 9u << 20;
    uint8_t *bytes = calloc(2, nbytes), *back = bytes + nbytes;
    for (size_t i = 0; i < nbytes; i++)
        bytes[i] = (uint8_t)(i * 31 + (i >> 13));
    const struct pst_field field = {.name = "blob", .type = PST_FIELD_BYTES, .n_variants = 1};
    struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    struct pst_value value = {.bytes = bytes, .nbytes = nbytes};
    const struct pst_value *values = &value;
    pst_writer *writer;
    path_in(*state, "set", path);
    assert_ok(pst_writer_open(path, &field, 1, &options, &writer, &err));
    for (int i = 0; i < 3; i++) {
        struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                    .value_nbytes = sizeof(struct pst_value),
                                    .name = i == 0   ? "a"
                                            : i == 1 ? "b"
                                                     : "c",
                                    .values = &values};
        value.nbytes = i == 1 ? 3 : nbytes;
        assert_ok(pst_writer_add(writer, &sample, &err));
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *ds;
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    assert_int_equal(pst_dataset_n_files(ds), 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_ok(pst_dataset_read(ds, i, 0, 0, 0, i == 1 ? 3 : nbytes, back, &err));
        assert_memory_equal(back, bytes, i == 1 ? 3 : nbytes);
    }
    pst_dataset_close(&ds);
    free(bytes);
}

/* Reads the data set with read_reference.py, a reader in another language, written from the
 * document alone. */
static void the_reference_reader_agrees(void **state)
{
    struct pst_error err = {0};
    char path[512], command[1200], line[8192];
    if (system("python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null") != 0)
        skip();
    path_in(*state, "set", path);
    pst_writer *writer = open_writer(path, PST_WRITER_CREATE, FIX_N_FIELDS);
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    add_range(writer, 0, 40);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    snprintf(command, sizeof command,
             "PYTHONIOENCODING=utf-8 python3 " PST_TEST_DATASET
             "/read_reference.py '%s' 2>/dev/null",
             path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (unsigned n = 0; n < 40; n++) {
        char name[64], label[64];
        assert_non_null(fgets(line, sizeof line, pipe));
        snprintf(name, sizeof name, "{\"name\": \"class/\xC3\xBC sample %u\", ", n);
        snprintf(label, sizeof label, "\"label\": %u, ", n % 5);
        assert_memory_equal(line, name, strlen(name));
        assert_non_null(strstr(line, label));
    }
    assert_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_field_type, setup, teardown),
        cmocka_unit_test_setup_teardown(arguments_out_of_range, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_data_set, setup, teardown),
        cmocka_unit_test_setup_teardown(resume_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(append_leaves_readers_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(append_adds_classes, setup, teardown),
        cmocka_unit_test_setup_teardown(image_headers_are_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(the_reference_reader_agrees, setup, teardown),
        cmocka_unit_test_setup_teardown(an_item_larger_than_shard_and_buffer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
