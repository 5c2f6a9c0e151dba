/* test_pack_orientation.c - a packed data set stores the orientation of its images in the index,
 * and that one counts, whatever the metadata in the items say: in verify, repack, append, and for
 * decoded images, in all forms that a cache keeps. So a data set does not change when a later
 * release reads more metadata. */
#include "../dataset/folder_test.h"
#include "../decode/decode_make.h"

#include <penstock/penstock.h>

#include <stdio.h>

#define HEIGHT 48
#define WIDTH 80

/* Writes one JPEG whose EXIF orientation is 6, with another orientation in the index. */
static void write_set(void **state, const char *name, uint8_t orientation)
{
    const struct jpeg_spec spec = {.height = HEIGHT,
                                   .width = WIDTH,
                                   .colours = COLOURS_YCC,
                                   .h = 2,
                                   .v = 2,
                                   .quality = 80,
                                   .orientation = 6};
    struct bytes file = make_jpeg(&spec, 1);
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    const struct pst_value value = {.bytes = file.data,
                                    .nbytes = file.nbytes,
                                    .form = PST_FORM_JPEG,
                                    .orientation = orientation};
    const struct pst_value *values[] = {&value};
    const struct pst_sample sample = {
        .struct_size = sizeof sample, .value_nbytes = sizeof value, .name = name, .values = values};
    struct pst_error err;
    pst_writer *writer;
    assert_ok(pst_writer_open(folder_path(state, name), &field, 1, NULL, &writer, &err));
    assert_ok(pst_writer_add(writer, &sample, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    bytes_free(&file);
}

/* Expects the picture to be shown with this orientation: 1 as stored, 6 rotated by a quarter. */
static void check_shown(void **state, const char *name, enum pst_form form, uint8_t orientation)
{
    static const enum pst_cache_form kept[] = {PST_CACHE_FORM_STORED, PST_CACHE_FORM_PLI_JPEG,
                                               PST_CACHE_FORM_RAW};
    const struct pst_verify_options verify = {.struct_size = sizeof verify, .decode = true};
    struct pst_error err;
    struct pst_item item;
    pst_dataset *dataset = folder_open(state, name, NULL);
    uint32_t height = orientation == 6 ? WIDTH : HEIGHT;
    assert_ok(pst_dataset_item(dataset, 0, 0, 0, &item, sizeof item, &err));
    assert_int_equal(item.form, form);
    assert_int_equal(item.height, height);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const struct pst_cache_options cache_options = {.struct_size = sizeof cache_options,
                                                        .nbytes = 1 << 20};
        struct pst_images_options options = {.struct_size = sizeof options, .cache_form = kept[i]};
        struct pst_pixels pixels;
        pst_cache *cache;
        pst_images *images;
        assert_ok(pst_cache_open(&cache_options, &cache, &err));
        options.cache = cache;
        assert_ok(pst_images_open(dataset, &options, &images, &err));
        for (int round = 0; round < 2; round++) { /* the second round reads from the cache */
            assert_ok(pst_images_get(images, 0, &pixels, &err));
            assert_int_equal(pixels.height, height);
            pst_images_release(pixels.data);
        }
        pst_images_close(&images);
        pst_cache_close(&cache);
    }
    pst_dataset_close(&dataset);
    assert_ok(pst_verify(folder_path(state, name), &verify, NULL, 0, &err));
}

static void pack_as(void **state, const char *from, const char *to, enum pst_form form)
{
    struct pst_pack_options options = {.struct_size = sizeof options, .forms = &form, .n_forms = 1};
    struct pst_error err;
    assert_ok(pst_pack(folder_path(state, from), folder_path(state, to), &options, NULL, 0, &err));
}

static void the_index_counts(void **state)
{
    for (uint8_t orientation = 0; orientation <= 6; orientation += orientation ? 5 : 1) {
        uint8_t shown = orientation == 1 ? 1 : 6;
        char names[4][8];
        for (int i = 0; i < 4; i++)
            snprintf(names[i], sizeof names[i], "%c%u", 'a' + i, orientation);
        write_set(state, names[0], orientation);
        check_shown(state, names[0], PST_FORM_JPEG, shown);
        pack_as(state, names[0], names[1], PST_FORM_PLI_JPEG);
        check_shown(state, names[1], PST_FORM_PLI_JPEG, shown);
        pack_as(state, names[1], names[2], PST_FORM_JPEG);
        check_shown(state, names[2], PST_FORM_JPEG, shown);
        pack_as(state, names[1], names[3], PST_FORM_RAW);
        check_shown(state, names[3], PST_FORM_RAW, shown);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {T(the_index_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
