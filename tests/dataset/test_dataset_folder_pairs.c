/* test_dataset_folder_pairs.c - tests what a folder leaves out, and folders of images beside
 * folders of masks. */
#include "folder_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void assert_notice(const pst_dataset *dataset, uint32_t i, enum pst_notice_kind kind,
                          const char *name, uint64_t count, const char *first)
{
    struct pst_error err;
    struct pst_notice notice;
    assert_ok(pst_dataset_notice(dataset, i, &notice, sizeof notice, &err));
    assert_int_equal(notice.kind, kind);
    assert_string_equal(pst_notice_kind_name(notice.kind),
                        kind == PST_NOTICE_LEFT_OUT ? "left_out" : "mask_without_image");
    assert_string_equal(notice.name, name);
    assert_int_equal(notice.count, count);
    assert_string_equal(notice.first, first);
}

static void notices_are_told_apart_by_kind_and_name(void **state)
{
    struct pst_error err;
    struct pst_notice notice;
    folder_text(state, "f/a.jpg", "1");
    folder_text(state, "f/b.TIFF", "1");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_n_notices(dataset), 1);
    assert_notice(dataset, 0, PST_NOTICE_LEFT_OUT, ".tiff", 1, "b.TIFF");
    assert_string_equal(pst_notice_kind_name((enum pst_notice_kind)0), "none");
    assert_string_equal(pst_notice_kind_name((enum pst_notice_kind)10), "none");
    assert_int_equal(pst_dataset_notice(dataset, 1, &notice, sizeof notice, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_notice(dataset, 0, NULL, 0, &err), PST_ERROR_ARGUMENT);
    pst_dataset_close(&dataset);
}

/* A file name with control characters is made safe before a notice shows it, and a long one is
 * shortened. */
static void paths_in_notices_are_safe_to_print(void **state)
{
    char name[260], path[512];
    struct pst_error err;
    struct pst_notice notice;
    memset(name, 'x', 240);
    strcpy(name + 240, "\x1b.z");
    snprintf(path, sizeof path, "f/%s", name);
    folder_text(state, "f/a.jpg", "1");
    folder_text(state, path, "1");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_ok(pst_dataset_notice(dataset, 0, &notice, sizeof notice, &err));
    assert_true(strlen(notice.first) < sizeof notice.first);
    assert_null(strchr(notice.first, 0x1b));
    assert_string_equal(notice.first + strlen(notice.first) - 6, "\\x1B.z");
    pst_dataset_close(&dataset);
}

static void masks_of(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                     const char *ending)
{
    struct pst_error err;
    struct pst_item item;
    char path[4096];
    assert_ok(pst_dataset_item(dataset, sample, i_field, 0, &item, sizeof item, &err));
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    assert_string_equal(path + strlen(path) - strlen(ending), ending);
}

static void images_get_the_masks_of_their_names(void **state)
{
    folder_text(state, "f/imgs/b/1.jpg", "1");
    folder_text(state, "f/imgs/a.png", "1");
    folder_text(state, "f/imgs/a.b.png", "1");
    folder_text(state, "f/masks/a.png", "22");
    folder_text(state, "f/masks/a.b_mask.webp", "333");
    folder_text(state, "f/masks/b/1.png", "4444");
    folder_text(state, "f/masks_depth/a.png", "1");
    folder_text(state, "f/masks_depth/a.b.png", "1");
    folder_text(state, "f/masks_depth/b/1.png", "1");
    folder_text(state, "f/masks_depth/b/2.png", "1");
    folder_text(state, "f/x.jpg", "1");
    folder_text(state, "f/others/y.jpg", "1");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_count(dataset), 3);
    assert_int_equal(pst_dataset_n_fields(dataset), 3);
    assert_string_equal(pst_dataset_field(dataset, 1)->name, "mask");
    assert_string_equal(pst_dataset_field(dataset, 2)->name, "mask_depth");
    assert_int_equal(pst_dataset_field(dataset, 2)->type, PST_FIELD_MASK);
    assert_string_equal(folder_sample_name(dataset, 0), "imgs/a.b.png");
    masks_of(dataset, 0, 1, "/masks/a.b_mask.webp");
    masks_of(dataset, 1, 1, "/masks/a.png");
    masks_of(dataset, 2, 1, "/masks/b/1.png");
    masks_of(dataset, 2, 2, "/masks_depth/b/1.png");
    assert_int_equal(pst_dataset_max_item_nbytes(dataset, 1), 4);
    assert_int_equal(pst_dataset_n_notices(dataset), 3);
    assert_notice(dataset, 0, PST_NOTICE_LEFT_OUT, "folder", 1, "others/");
    assert_notice(dataset, 1, PST_NOTICE_LEFT_OUT, ".jpg", 1, "x.jpg");
    assert_notice(dataset, 2, PST_NOTICE_NO_IMAGE, "mask_depth", 1, "masks_depth/b/2.png");
    pst_dataset_close(&dataset);
}

static void text_of(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                    const char *expected)
{
    struct pst_error err;
    struct pst_item item;
    char text[64];
    assert_ok(pst_dataset_item(dataset, sample, i_field, 0, &item, sizeof item, &err));
    assert_int_equal(item.nbytes, strlen(expected));
    assert_ok(pst_dataset_read(dataset, sample, i_field, 0, 0, item.nbytes, text, &err));
    assert_memory_equal(text, expected, item.nbytes);
}

static void cityscapes_files(void **state, const char *split, const char *city, const char *name)
{
    static const char *const ends[] = {"color.png", "instanceIds.png", "labelIds.png",
                                       "polygons.json"};
    char path[256];
    snprintf(path, sizeof path, "f/leftImg8bit/%s/%s/%s_leftImg8bit.png", split, city, name);
    folder_text(state, path, "1");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(path, sizeof path, "f/gtFine/%s/%s/%s_gtFine_%s", split, city, name, ends[i]);
        folder_text(state, path, "22");
    }
}

static void cityscapes_is_known_by_its_folders(void **state)
{
    cityscapes_files(state, "train", "aachen", "aachen_0_1");
    cityscapes_files(state, "val", "ulm", "ulm_0_1");
    folder_text(state, "f/gtFine/val/ulm/ulm_0_2_gtFine_labelIds.png", "1");
    folder_text(state, "f/images/a.png", "1");
    folder_text(state, "f/masks/a.png", "1");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_count(dataset), 2);
    assert_int_equal(pst_dataset_n_fields(dataset), 5);
    assert_string_equal(pst_dataset_field(dataset, 1)->name, "mask");
    assert_string_equal(pst_dataset_field(dataset, 2)->name, "instances");
    assert_int_equal(pst_dataset_field(dataset, 2)->type, PST_FIELD_MASK);
    assert_string_equal(pst_dataset_field(dataset, 3)->name, "split");
    assert_string_equal(pst_dataset_field(dataset, 4)->name, "city");
    masks_of(dataset, 0, 1, "/gtFine/train/aachen/aachen_0_1_gtFine_labelIds.png");
    masks_of(dataset, 1, 1, "/gtFine/val/ulm/ulm_0_1_gtFine_labelIds.png");
    masks_of(dataset, 1, 2, "/gtFine/val/ulm/ulm_0_1_gtFine_instanceIds.png");
    text_of(dataset, 0, 3, "train");
    text_of(dataset, 1, 3, "val");
    text_of(dataset, 1, 4, "ulm");
    assert_int_equal(pst_dataset_n_notices(dataset), 3);
    assert_notice(dataset, 0, PST_NOTICE_LEFT_OUT, "folder", 2, "images/");
    assert_notice(dataset, 1, PST_NOTICE_LEFT_OUT, ".json", 2,
                  "gtFine/train/aachen/aachen_0_1_gtFine_polygons.json");
    assert_notice(dataset, 2, PST_NOTICE_NO_IMAGE, "mask", 1,
                  "gtFine/val/ulm/ulm_0_2_gtFine_labelIds.png");
    pst_dataset_close(&dataset);
}

static void cityscapes_without_a_mask_is_an_error(void **state)
{
    cityscapes_files(state, "train", "aachen", "aachen_0_1");
    folder_text(state, "f/leftImg8bit/train/aachen/aachen_0_2_leftImg8bit.png", "1");
    const char *line = folder_open_fails(state, "f", NULL, PST_ERROR_NOT_FOUND);
    assert_non_null(strstr(line, "aachen_0_2_leftImg8bit.png"));
    folder_text(state, "g/leftImg8bit/train/aachen/a_leftImg8bit.png", "1");
    folder_text(state, "g/gtFine/train/aachen/a_gtFine_color.png", "1");
    line = folder_open_fails(state, "g", NULL, PST_ERROR_NOT_FOUND);
    assert_non_null(strstr(line, "no mask"));
    folder_text(state, "h/leftImg8bit/a.png", "1"); /* a folder of this name alone is a class */
    folder_text(state, "h/dogs/a.png", "1");
    pst_dataset *dataset = folder_open(state, "h", NULL);
    assert_string_equal(pst_dataset_class_name(dataset, 1, 1), "leftImg8bit");
    pst_dataset_close(&dataset);
}

/* If only a folder "images" or only one of masks exists, it is a class like any other folder. */
static void one_of_the_two_alone_is_a_class(void **state)
{
    folder_text(state, "f/images/a.jpg", "1");
    folder_text(state, "f/dogs/a.jpg", "1");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_count(dataset), 2);
    assert_string_equal(pst_dataset_class_name(dataset, 1, 1), "images");
    pst_dataset_close(&dataset);
}

static void columns_that_are_named_are_masks(void **state)
{
    static const char *const masks[] = {"inst"}, *const wrong[] = {"mist"};
    struct pst_error err;
    pst_dataset *dataset = NULL;
    folder_text(state, "f/a.jpg", "1");
    folder_text(state, "f/m.png", "22");
    struct pst_dataset_options options = {.struct_size = sizeof options, .n_masks = 1};
    options.labels = folder_text(state, "l.csv", "file,inst\na.jpg,m.png\n");
    options.masks = masks;
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_field(dataset, 1)->type, PST_FIELD_MASK);
    assert_int_equal(pst_dataset_n_notices(dataset), 0);
    pst_dataset_close(&dataset);
    options.masks = wrong;
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "mist"));
    options.masks = NULL;
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err),
                     PST_ERROR_ARGUMENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(notices_are_told_apart_by_kind_and_name), TEST(paths_in_notices_are_safe_to_print),
        TEST(images_get_the_masks_of_their_names),     TEST(one_of_the_two_alone_is_a_class),
        TEST(columns_that_are_named_are_masks),        TEST(cityscapes_is_known_by_its_folders),
        TEST(cityscapes_without_a_mask_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
