/* Guards against a hazard: a folder with annotations of CVAT, Labelme, Pascal VOC or Roboflow
 * beside its images is silently opened without them, or a folder of another kind is mistaken for
 * one. */
#include "folder_test.h"

#include <penstock/penstock.h>

#include <string.h>

#define LABELME "{\"version\": \"5.5.0\", \"flags\": {}, \"shapes\": []}"
#define VOC "<annotation>\n<folder></folder><filename>a.jpg</filename></annotation>"
#define CSV "filename,width,height,class,xmin,ymin,xmax,ymax\n"

static void refused(void **state, const char *folder, const char *how)
{
    const char *line = folder_open_fails(state, folder, NULL, PST_ERROR_ARGUMENT);
    assert_non_null(strstr(line, how));
    assert_non_null(strstr(line, "penstock pack"));
    assert_non_null(strstr(line, "ignore_labels"));
}

static uint64_t taken(void **state, const char *folder)
{
    pst_dataset *dataset = folder_open(state, folder, NULL);
    uint64_t n = pst_dataset_count(dataset);
    pst_dataset_close(&dataset);
    return n;
}

static void files_of_known_names(void **state)
{
    folder_text(state, "cvat/images/a.jpg", "1");
    folder_text(state, "cvat/annotations.xml", "<?xml version=\"1.0\"?>\n<annotations>");
    refused(state, "cvat", "--cvat");
    folder_text(state, "coco/train/a.jpg", "1");
    folder_text(state, "coco/train/_annotations.coco.json", "{\"images\": []}");
    refused(state, "coco", "--roboflow");
    refused(state, "coco/train", "--coco");
    folder_text(state, "csv/valid/a.jpg", "1");
    folder_text(state, "csv/valid/_annotations.csv", CSV);
    refused(state, "csv", "--roboflow");
    refused(state, "csv/valid", "--roboflow");
}

static void beside_the_images(void **state)
{
    folder_text(state, "me/a.jpg", "1");
    folder_text(state, "me/b.jpg", "1");
    folder_text(state, "me/b.json", LABELME);
    refused(state, "me", "--labelme");
    folder_text(state, "voc/train/a.jpg", "1");
    folder_text(state, "voc/train/a.xml", VOC);
    refused(state, "voc", "--voc");
}

static void other_files(void **state)
{
    folder_text(state, "ok/a.jpg", "1");
    folder_text(state, "ok/a.json", "{\"caption\": \"shapes\"}");
    folder_text(state, "ok/a.xml", "<rdf>filename</rdf>");
    folder_text(state, "ok/annotations.xml", "<notes/>");
    folder_text(state, "ok/_annotations.csv", "path,text\n");
    folder_text(state, "ok/_annotations.coco.json", "");
    assert_int_equal(taken(state, "ok"), 1);
    folder_text(state, "ok/.json", LABELME);
    assert_int_equal(taken(state, "ok"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_of_known_names, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(beside_the_images, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(other_files, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
