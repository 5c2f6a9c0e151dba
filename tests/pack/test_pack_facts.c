/* test_pack_facts.c - tests small functions of the public headers: names of field types, the path
 * of a data set, the original of an item, the items of a writer, and that pst_writer_commit
 * survives a crash. */
#include "writer/writer_fixture.h"

#include "../dataset/folder_test.h"
#include "../decode/decode_make.h"

#include <penstock/penstock.h>

#include <sys/wait.h>
#include <unistd.h>

static void field_types_have_names(void **state)
{
    static const char *const names[] = {"image", "mask",  "boxes", "keypoints", "audio", "int",
                                        "float", "bytes", "text",  "json",      "array"};
    (void)state;
    for (int i = 0; i < 11; i++) {
        enum pst_field_type type = (enum pst_field_type)(PST_FIELD_IMAGE + i);
        assert_string_equal(pst_field_type_name(type), names[i]);
        assert_int_equal(pst_field_type_from_name(names[i]), type);
    }
    assert_string_equal(pst_field_type_name((enum pst_field_type)0), "none");
    assert_string_equal(pst_field_type_name((enum pst_field_type)12), "none");
    assert_int_equal(pst_field_type_from_name("none"), 0);
    assert_int_equal(pst_field_type_from_name("images"), 0);
    assert_int_equal(pst_field_type_from_name(""), 0);
    assert_int_equal(pst_field_type_from_name(NULL), 0);
}

/* Packs folder `from`, which contains one file, in the form. PST_FORM_NONE: as it is. */
static void pack(void **state, const char *from, const char *to, enum pst_form form)
{
    struct pst_error err;
    struct pst_pack_report report;
    const struct pst_pack_options options = {
        .struct_size = sizeof options, .forms = &form, .n_forms = 1};
    char source[4096], target[4096];
    snprintf(source, sizeof source, "%s", folder_path(state, from));
    snprintf(target, sizeof target, "%s", folder_path(state, to));
    assert_ok(pst_pack(source, target, &options, &report, sizeof report, &err));
    assert_int_equal(report.n_samples, 1);
}

enum source { A_JPEG, A_PNG, PLI_OF_JPEG, PLI_OF_PIXELS, N_SOURCES };
static const char *const source_names[N_SOURCES] = {"a.jpg", "a.png", "j.pli", "p.pli"};

/* Makes one file of each kind, in folders named after the kinds. */
static void make_sources(void **state)
{
    static uint8_t pixels[16 * 16 * 3] = {1, 2, 3}, pli[8192];
    const struct jpeg_spec spec = {
        .height = 40, .width = 33, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 90};
    const struct png_spec png_spec = {.height = 20, .width = 30, .colour_type = 2, .depth = 8};
    const struct pst_pixels view = {.data = pixels,
                                    .height = 16,
                                    .width = 16,
                                    .channels = 3,
                                    .bits = 8,
                                    .row_nbytes = 48,
                                    .pixel_nbytes = 3,
                                    .channel_nbytes = 1};
    struct pst_error err;
    size_t n;
    struct bytes jpeg = make_jpeg(&spec, 1), png = make_png(&png_spec, 1);
    folder_file(state, "a.jpg/a.jpg", jpeg.data, jpeg.nbytes);
    folder_file(state, "a.png/a.png", png.data, png.nbytes);
    assert_ok(pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, NULL, pli, sizeof pli, &n, &err));
    folder_file(state, "j.pli/j.pli", pli, n);
    assert_ok(pst_pli_encode(&view, NULL, pli, sizeof pli, &n, &err));
    folder_file(state, "p.pli/p.pli", pli, n);
    bytes_free(&jpeg);
    bytes_free(&png);
}

static void items_know_what_they_were_made_of(void **state)
{
    static const struct {
        enum source source;
        enum pst_form form, becomes; /* form that is requested; form that is stored */
        bool is_original, was_jpeg;
    } cases[] = {
        {A_JPEG, PST_FORM_NONE, PST_FORM_JPEG, true, false},
        {A_JPEG, PST_FORM_PLI_JPEG, PST_FORM_PLI_JPEG, true, true},
        {A_JPEG, PST_FORM_RAW, PST_FORM_RAW, false, false},
        {A_PNG, PST_FORM_NONE, PST_FORM_PNG, true, false},
        {A_PNG, PST_FORM_PLI, PST_FORM_PLI, false, false},
        {PLI_OF_PIXELS, PST_FORM_NONE, PST_FORM_PLI, true, false},
        {PLI_OF_JPEG, PST_FORM_NONE, PST_FORM_PLI_JPEG, true, false},
    };
    struct pst_error err;
    make_sources(state);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pst_item item;
        char to[32];
        snprintf(to, sizeof to, "%zu.pst", i);
        pack(state, source_names[cases[i].source], to, cases[i].form);
        pst_dataset *dataset = folder_open(state, to, NULL);
        assert_string_equal(pst_dataset_path(dataset), folder_path(state, to));
        assert_ok(pst_dataset_item(dataset, 0, 0, 0, &item, sizeof item, &err));
        assert_int_equal(item.form, cases[i].becomes);
        assert_int_equal(pst_item_is_original(&item), cases[i].is_original);
        assert_int_equal(pst_item_was_jpeg(&item), cases[i].was_jpeg);
        pst_dataset_close(&dataset);
    }
    const struct pst_item none = {.form = PST_FORM_NONE};
    assert_false(pst_item_is_original(&none));
    assert_false(pst_item_was_jpeg(&none));
}

static void a_writer_tells_its_fields(void **state)
{
    struct pst_error err;
    struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    pst_writer *writer;
    const char *path = folder_path(state, "set");
    for (int again = 0; again < 2; again++) { /* the second time the facts are read from the disk */
        assert_ok(pst_writer_open(path, fixture_fields, again ? 0 : FIX_N_FIELDS, &options, &writer,
                                  &err));
        assert_int_equal(pst_writer_n_fields(writer), FIX_N_FIELDS);
        for (uint32_t i = 0; i < FIX_N_FIELDS; i++) {
            const struct pst_field *field = pst_writer_field(writer, i);
            assert_non_null(field);
            assert_string_equal(field->name, fixture_fields[i].name);
            assert_int_equal(field->type, fixture_fields[i].type);
            assert_int_equal(field->n_variants, fixture_fields[i].n_variants);
        }
        assert_null(pst_writer_field(writer, FIX_N_FIELDS));
        assert_null(pst_writer_field(writer, UINT32_MAX));
        assert_ok(fixture_add(writer, (uint64_t)again, &err));
        pst_writer_close(&writer);
        options.mode = PST_WRITER_RESUME;
    }
}

/* Runs a process that dies without closing the writer: 5 samples are committed, 2 are not. */
static int die_after_commit(const char *path)
{
    struct pst_error err;
    struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    pst_writer *writer;
    /* so large that nothing is committed automatically */
    options.commit_nbytes = (uint64_t)1 << 40;
    if (pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err) != PST_OK)
        return 1;
    for (uint64_t i = 0; i < 7; i++) {
        if (i == 5 && pst_writer_commit(writer, &err) != PST_OK)
            return 2;
        if (fixture_add(writer, i, &err) != PST_OK)
            return 3;
    }
    return 0;
}

static void what_was_committed_survives_the_writer(void **state)
{
    struct pst_error err;
    const char *path = folder_path(state, "set");
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(die_after_commit(path));
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    struct pst_writer_options options = fixture_options(PST_WRITER_RESUME);
    pst_writer *writer;
    assert_ok(pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    assert_int_equal(pst_writer_count(writer), 5);
    pst_writer_close(&writer);
    assert_ok(fixture_live(path, PST_WRITER_RESUME, 9, &err));
    fixture_check(path, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(field_types_have_names),
        cmocka_unit_test_setup_teardown(items_know_what_they_were_made_of, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(a_writer_tells_its_fields, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(what_was_committed_survives_the_writer, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
