/* Guards against a hazard: a folder with YOLO boxes beside its images is silently opened without
 * them, or a folder of another kind is mistaken for one. */
#include "folder_test.h"

#include <penstock/penstock.h>

#include <string.h>

#define BOXES "0 0.5 0.5 0.25 0.25\n12 0.1 0.2 0.05 0.1\n"

static void refused(void **state, const char *folder, const char *file)
{
    const char *line = folder_open_fails(state, folder, NULL, PST_ERROR_ARGUMENT);
    assert_non_null(strstr(line, "YOLO"));
    assert_non_null(strstr(line, "from-yolo.md"));
    assert_non_null(strstr(line, "ignore_labels"));
    assert_non_null(strstr(line, file));
}

static uint64_t taken(void **state, const char *folder)
{
    pst_dataset *dataset = folder_open(state, folder, NULL);
    uint64_t n = pst_dataset_count(dataset);
    pst_dataset_close(&dataset);
    return n;
}

/* There is one tree of images and one of labels. The test opens folders above and within the
 * tree. */
static void two_trees(void **state)
{
    folder_text(state, "det/images/train/a.jpg", "1");
    folder_text(state, "det/images/train/b.jpg", "2");
    folder_text(state, "det/images/val/c.jpg", "3");
    folder_text(state, "det/labels/train/a.txt", "");
    folder_text(state, "det/labels/train/b.txt", BOXES);
    folder_text(state, "det/labels/val/c.txt", "\n");
    folder_text(state, "det/data.yaml", "nc: 13\n");
    refused(state, "det", "labels/train/b.txt");
    refused(state, "det/images", "labels/train/b.txt");
    refused(state, "det/images/train", "labels/train/b.txt");
    assert_int_equal(taken(state, "det/images/val"), 1); /* the folder's only text file is empty */
}

static void by_split(void **state)
{
    folder_text(state, "r/train/images/a.jpg", "1");
    folder_text(state, "r/train/labels/a.txt", "3 0.1 0.1 0.2 0.1 0.2 0.2 0.1 0.2");
    folder_text(state, "r/valid/images/a.jpg", "1");
    refused(state, "r", "train/labels/a.txt");
    refused(state, "r/train", "train/labels/a.txt");
    refused(state, "r/train/images", "train/labels/a.txt");
}

static void beside_the_images(void **state)
{
    folder_text(state, "dark/a.png", "1");
    folder_text(state, "dark/a.txt", "1 5e-1 0.5 .25 1.0\r\n");
    refused(state, "dark", "dark/a.txt");
    folder_text(state, "flat/a.png", "1");
    folder_text(state, "flat/labels/a.txt", "0.0 0.5 0.5 0.2 0.2");
    refused(state, "flat", "labels/a.txt");
    folder_text(state, "pose/photos/a.png", "1");
    folder_text(state, "pose/labels/a.txt", "0 0.5 0.5 0.2 0.2 0.1 0.1 2 0.3 0.3 1 0 0 0");
    refused(state, "pose/photos", "labels/a.txt");
}

/* None of these folders is in YOLO's format. */
static void others(void **state)
{
    folder_text(state, "classes/labels/a.jpg", "1");
    folder_text(state, "classes/images/b.jpg", "2");
    assert_int_equal(taken(state, "classes"), 2);
    folder_text(state, "captions/a.jpg", "1");
    folder_text(state, "captions/a.txt", "1 dog of 3 on 0.5 acres");
    folder_text(state, "captions/classes.txt", "dog\ncat\n");
    folder_text(state, "captions/labels/a.txt", "a dog");
    assert_int_equal(taken(state, "captions"), 1);
    folder_text(state, "pixels/a.jpg", "1");
    folder_text(state, "pixels/a.txt", "1 10 20 110 220\n");
    folder_text(state, "pixels/b.txt", "0 0.5 0.5 0.25\n");
    folder_text(state, "pixels/c.txt", BOXES); /* a label file without an image */
    assert_int_equal(taken(state, "pixels"), 1);
    folder_text(state, "two/photos/z.jpg", "1");
    folder_text(state, "two/labels/of_another.txt", BOXES);
    assert_int_equal(taken(state, "two/photos"), 1);
}

static void labels_left_out(void **state)
{
    struct pst_error err;
    pst_dataset *dataset;
    const struct pst_dataset_options options = {.struct_size = sizeof options,
                                                .ignore_labels = true};
    folder_text(state, "det/images/train/a.jpg", "1");
    folder_text(state, "det/images/b.jpg", "2");
    folder_text(state, "det/labels/train/a.txt", BOXES);
    assert_ok(pst_dataset_open(folder_path(state, "det"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 2);
    assert_int_equal(pst_dataset_n_fields(dataset), 1);
    assert_int_equal(pst_dataset_n_notices(dataset), 1);
    pst_dataset_close(&dataset);
    struct pst_dataset_options both = options;
    both.labels = folder_text(state, "labels.csv", "file,label\nimages/b.jpg,1\n");
    assert_int_equal(pst_dataset_open(folder_path(state, "det"), &both, &dataset, &err),
                     PST_ERROR_ARGUMENT);
    both.ignore_labels = false; /* the caller has said where the labels are */
    assert_ok(pst_dataset_open(folder_path(state, "det"), &both, &dataset, &err));
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_trees, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(by_split, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(beside_the_images, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(others, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(labels_left_out, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
