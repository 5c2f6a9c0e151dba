/* test_dataset_folder_labels.c - tests label files: the meaning of CSV and JSON lines, and what is
 * refused, with the line's number. */
#include "folder_test.h"

#include "base/fault.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void three_images(void **state)
{
    folder_text(state, "f/a.jpg", "1");
    folder_text(state, "f/sub/b.png", "22");
    folder_text(state, "f/c.jpg", "333");
}

static const char *labels(void **state, const char *text)
{
    return folder_text(state, "labels", text);
}

static const char *fails(void **state, const char *text, enum pst_status status)
{
    const char *path = labels(state, text);
    const char *line = folder_open_fails(state, "f", path, status);
    assert_non_null(strstr(line, "labels"));
    return line;
}

static int64_t int_of(const pst_dataset *dataset, uint64_t sample, const char *field)
{
    struct pst_error err;
    int64_t value = -77;
    assert_ok(pst_dataset_int(dataset, sample, (uint32_t)pst_dataset_find_field(dataset, field),
                              &value, &err));
    return value;
}

static double float_of(const pst_dataset *dataset, uint64_t sample, const char *field)
{
    struct pst_error err;
    double value = -77;
    assert_ok(pst_dataset_float(dataset, sample, (uint32_t)pst_dataset_find_field(dataset, field),
                                &value, &err));
    return value;
}

/* Returns the bytes of an item, followed by a NUL, in static memory. */
static const char *bytes_of(const pst_dataset *dataset, uint64_t sample, const char *field,
                            size_t *nbytes)
{
    static char bytes[1024];
    struct pst_error err;
    struct pst_item item;
    uint32_t i_field = (uint32_t)pst_dataset_find_field(dataset, field);
    assert_ok(pst_dataset_item(dataset, sample, i_field, 0, &item, sizeof item, &err));
    assert_true(item.nbytes < sizeof bytes);
    assert_true(item.nbytes <= pst_dataset_max_item_nbytes(dataset, i_field));
    assert_ok(pst_dataset_read(dataset, sample, i_field, 0, 0, item.nbytes, bytes, &err));
    bytes[item.nbytes] = '\0';
    if (nbytes != NULL)
        *nbytes = item.nbytes;
    return bytes;
}

static enum pst_field_type type_of(const pst_dataset *dataset, const char *field)
{
    int i = pst_dataset_find_field(dataset, field);
    assert_true(i > 0);
    return pst_dataset_field(dataset, (uint32_t)i)->type;
}

static void csv_types(void **state)
{
    three_images(state);
    pst_dataset *dataset = folder_open(
        state, "f",
        labels(state, "file,label,big,ratio,note,zip\r\n"
                      "sub/b.png,1,9223372036854775807,1,\"one, \"\"two\"\"\nthree\",1\r\n"
                      "./a.jpg,0,-9223372036854775808,-2.5e-3,,x\n"
                      "c.jpg,7,+5,.5,4,2"));
    assert_int_equal(pst_dataset_count(dataset), 3);
    assert_string_equal(folder_sample_name(dataset, 0), "a.jpg");
    assert_string_equal(folder_sample_name(dataset, 1), "c.jpg");
    assert_string_equal(folder_sample_name(dataset, 2), "sub/b.png");
    assert_int_equal(type_of(dataset, "label"), PST_FIELD_INT);
    assert_int_equal(pst_dataset_field(dataset, 1)->n_classes, 8);
    assert_null(pst_dataset_class_name(dataset, 1, 0));
    assert_int_equal(int_of(dataset, 0, "label"), 0);
    assert_int_equal(int_of(dataset, 1, "label"), 7);
    assert_int_equal(int_of(dataset, 2, "label"), 1);
    assert_true(int_of(dataset, 0, "big") == INT64_MIN);
    assert_true(int_of(dataset, 2, "big") == INT64_MAX);
    assert_int_equal(type_of(dataset, "ratio"), PST_FIELD_FLOAT);
    assert_true(float_of(dataset, 0, "ratio") == -2.5e-3);
    assert_true(float_of(dataset, 1, "ratio") == 0.5);
    assert_true(float_of(dataset, 2, "ratio") == 1);
    assert_int_equal(type_of(dataset, "note"), PST_FIELD_TEXT);
    assert_string_equal(bytes_of(dataset, 0, "note", NULL), "");
    assert_string_equal(bytes_of(dataset, 1, "note", NULL), "4");
    assert_string_equal(bytes_of(dataset, 2, "note", NULL), "one, \"two\"\nthree");
    assert_int_equal(type_of(dataset, "zip"), PST_FIELD_TEXT);
    assert_string_equal(bytes_of(dataset, 2, "zip", NULL), "1");
    pst_dataset_close(&dataset);
}

/* The label 007 stays a text, because a number would lose its zeros. */
static void csv_codes(void **state)
{
    three_images(state);
    pst_dataset *dataset = folder_open(
        state, "f",
        labels(state, "file,label,id,ratio,low,zero,sign,text\n"
                      "a.jpg,00,007,1.5,0.5,0,-01,0x7\n"
                      "c.jpg,01,12,01.5,0,-0,3,1\n"
                      "sub/b.png,2,0,2,0e1,10,4,2\n"));
    assert_int_equal(type_of(dataset, "label"), PST_FIELD_INT);
    assert_int_equal(int_of(dataset, 1, "label"), 1);
    static const char *const texts[] = {"id", "ratio", "sign", "text"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(type_of(dataset, texts[i]), PST_FIELD_TEXT);
    assert_string_equal(bytes_of(dataset, 0, "id", NULL), "007");
    assert_string_equal(bytes_of(dataset, 1, "id", NULL), "12");
    assert_string_equal(bytes_of(dataset, 1, "ratio", NULL), "01.5");
    assert_string_equal(bytes_of(dataset, 0, "sign", NULL), "-01");
    assert_int_equal(type_of(dataset, "low"), PST_FIELD_FLOAT);
    assert_int_equal(type_of(dataset, "zero"), PST_FIELD_INT);
    pst_dataset_close(&dataset);
}

static void csv_class_names(void **state)
{
    three_images(state);
    pst_dataset *dataset = folder_open(
        state, "f",
        labels(state, "\xEF\xBB\xBFlabel,file\ndog,a.jpg\ncat,c.jpg\n\ndog,sub/b.png\n\n"));
    assert_int_equal(pst_dataset_field(dataset, 1)->n_classes, 2);
    assert_string_equal(pst_dataset_class_name(dataset, 1, 0), "cat");
    assert_string_equal(pst_dataset_class_name(dataset, 1, 1), "dog");
    assert_int_equal(int_of(dataset, 0, "label"), 1);
    assert_int_equal(int_of(dataset, 1, "label"), 0);
    assert_int_equal(int_of(dataset, 2, "label"), 1);
    pst_dataset_close(&dataset);
}

static void json_types(void **state)
{
    size_t nbytes;
    float boxes[8];
    struct pst_error err;
    struct pst_item item;
    char path[4096];
    three_images(state);
    folder_text(state, "f/masks/b.png", "mask!");
    pst_dataset *dataset = folder_open(
        state, "f",
        labels(
            state,
            "{\"file\": \"sub/b.png\", \"label\": \"dog\", \"id\": 9007199254740993, \"w\": 1.0, "
            "\"boxes\": [[1, 2.5, 3e1, -4], [0,0,0,0]], \"keypoints\": [[1,2,0]], \"mask\": "
            "\"masks/b.png\", "
            "\"meta\": {\"k\": [1.50, null]}, \"text\": \"a\\u00e9\\ud83d\\ude00\\n\", \"ok\": "
            "true}\n"
            "\n"
            "{\"file\": \"a.jpg\", \"label\": \"cat\", \"id\": -1, \"w\": 2, \"boxes\": [], "
            "\"keypoints\": null, \"mask\": \"c.jpg\", "
            "\"ok\": false, \"text\": \"\"}\r\n"));
    assert_int_equal(pst_dataset_count(dataset), 2);
    assert_int_equal(type_of(dataset, "label"), PST_FIELD_INT);
    assert_int_equal(int_of(dataset, 1, "label"), 1);
    assert_true(int_of(dataset, 1, "id") ==
                INT64_C(9007199254740993)); /* 2^53 + 1, which no double can represent */
    assert_int_equal(type_of(dataset, "w"), PST_FIELD_FLOAT);
    assert_true(float_of(dataset, 0, "w") == 2);
    assert_int_equal(int_of(dataset, 1, "ok"), 1);
    assert_int_equal(type_of(dataset, "boxes"), PST_FIELD_BOXES);
    memcpy(boxes, bytes_of(dataset, 1, "boxes", &nbytes), sizeof boxes);
    assert_int_equal(nbytes, 32);
    assert_true(boxes[0] == 1 && boxes[1] == 2.5f && boxes[2] == 30 && boxes[3] == -4 &&
                boxes[7] == 0);
    assert_ok(pst_dataset_item(dataset, 1, (uint32_t)pst_dataset_find_field(dataset, "boxes"), 0,
                               &item, sizeof item, &err));
    assert_int_equal(item.ndim, 2);
    assert_int_equal(item.shape[0], 2);
    assert_int_equal(item.shape[1], 4);
    assert_int_equal(item.i_file, PST_FILE_NONE);
    (void)bytes_of(dataset, 0, "boxes", &nbytes);
    assert_int_equal(nbytes, 0);
    (void)bytes_of(dataset, 1, "keypoints", &nbytes);
    assert_int_equal(nbytes, 12);
    assert_int_equal(type_of(dataset, "meta"), PST_FIELD_JSON);
    assert_string_equal(bytes_of(dataset, 1, "meta", NULL), "{\"k\": [1.50, null]}");
    assert_string_equal(bytes_of(dataset, 0, "meta", NULL), "null");
    assert_string_equal(bytes_of(dataset, 1, "text", NULL), "a\xC3\xA9\xF0\x9F\x98\x80\n");
    uint32_t i_mask = (uint32_t)pst_dataset_find_field(dataset, "mask");
    assert_int_equal(type_of(dataset, "mask"), PST_FIELD_MASK);
    assert_ok(pst_dataset_item(dataset, 1, i_mask, 0, &item, sizeof item, &err));
    assert_int_equal(item.nbytes, 5);
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    assert_string_equal(path, folder_path(state, "f/masks/b.png"));
    assert_string_equal(bytes_of(dataset, 1, "mask", NULL), "mask!");
    assert_string_equal(bytes_of(dataset, 0, "mask", NULL), "333");
    pst_dataset_close(&dataset);
}

static void csv_that_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
        enum pst_status status;
    } cases[] = {
        {"", "must name the columns", PST_ERROR_CORRUPT},
        {"a.jpg,1\n", "must name the columns", PST_ERROR_CORRUPT},
        {"file,label\n", "names no file", PST_ERROR_NOT_FOUND},
        {"file,label\na.jpg,1\nc.jpg\n", "line 3: 1 cells", PST_ERROR_CORRUPT},
        {"file,label\na.jpg,1,2\n", "line 2: 3 cells", PST_ERROR_CORRUPT},
        {"file,label\na.jpg,1\nnone.jpg,1\n", "line 3: none.jpg: there is no such file",
         PST_ERROR_NOT_FOUND},
        {"file,label\na.jpg/b,1\n", "no such file", PST_ERROR_NOT_FOUND},
        {"file,label\nsub,1\n", "line 2: sub: not a regular file", PST_ERROR_UNSUPPORTED},
        {"file,label\na.jpg,1\nc.jpg,1\n./a.jpg,1\n",
         "line 4: a.jpg is named twice, first in line 2", PST_ERROR_EXISTS},
        {"file,label\na.jpg,1\nc.jpg,-1\n", "line 3: label -1", PST_ERROR_ARGUMENT},
        {"file,label\na.jpg,-3\n", "line 2: label -3", PST_ERROR_ARGUMENT},
        {"file,label\na.jpg,2147483647\n", "outside 0..2147483646", PST_ERROR_ARGUMENT},
        {"file,label\na.jpg,9223372036854775807\n", "outside 0..2147483646", PST_ERROR_ARGUMENT},
        {"file,label\na.jpg,1\nc.jpg,99999999999999999999\n",
         "line 3: label 99999999999999999999 is beyond", PST_ERROR_ARGUMENT},
        {"file,label\na.jpg,cat\nc.jpg,-9223372036854775809\n",
         "line 3: label -9223372036854775809", PST_ERROR_ARGUMENT},
        {"file,label\na.jpg,1\nc.jpg,1.5\n", "line 3: label is a number with a fraction",
         PST_ERROR_CORRUPT},
        {"file,label\na.jpg,x\nc.jpg,\n", "line 3: the name of the class is empty",
         PST_ERROR_ARGUMENT},
        {"file,note\na.jpg,\"x\n\nc.jpg,1\n", "line 2: a quote is opened", PST_ERROR_CORRUPT},
        {"file,note\na.jpg,\"x\"y\n", "behind a closing quote", PST_ERROR_CORRUPT},
        {"file,note\na.jpg,x\"y\n", "a quote inside", PST_ERROR_CORRUPT},
        {"file,note\na.jpg,\"1\n2\"\nc.jpg,1,\n", "line 4: 3 cells", PST_ERROR_CORRUPT},
        {"file,x,x\na.jpg,1,2\n", "two columns", PST_ERROR_CORRUPT},
        {"file,index\na.jpg,1\n", "line 1: the field name \"index\" is taken", PST_ERROR_ARGUMENT},
        {"file,image\na.jpg,1\n", "line 1: the field name \"image\" is taken", PST_ERROR_ARGUMENT},
        {"file,1x\n\na.jpg,1\n", "line 1: \"1x\" cannot name a field", PST_ERROR_ARGUMENT},
        {"file,\na.jpg,1\n", "line 1: a field has no name", PST_ERROR_ARGUMENT},
        {"file,label\n../f/a.jpg,1\n", "line 2: \"../f/a.jpg\" is no path", PST_ERROR_ARGUMENT},
        {"file,label\n/etc/passwd,1\n", "is no path", PST_ERROR_ARGUMENT},
        {"file,label\n,1\n", "is no path", PST_ERROR_ARGUMENT},
        {"file,mask\na.jpg,gone.png\n", "line 2: gone.png: there is no such file",
         PST_ERROR_NOT_FOUND},
        {"file,mask\na.jpg,c.jpg\nc.jpg,\n", "line 3: the line has no \"mask\"", PST_ERROR_CORRUPT},
        {"file,note\na.jpg,caf\xE9\n", "line 2: byte \\xE9 is not UTF-8", PST_ERROR_CORRUPT},
    };
    three_images(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line = fails(state, cases[i].text, cases[i].status);
        if (strstr(line, cases[i].says) == NULL)
            print_error("case %zu: \"%s\" is not in: %s\n", i, cases[i].says, line);
        assert_non_null(strstr(line, cases[i].says));
    }
}

static void json_that_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
        enum pst_status status;
    } cases[] = {
        {"{\"file\": \"a.jpg\", \"label\": 1}\n{\"file\": \"c.jpg\" \"label\": 1}\n",
         "line 2: not JSON", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\"}\n[1]\n", "line 2: a JSON array", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\"} x\n", "text behind", PST_ERROR_CORRUPT},
        {"{\"label\": 1}\n", "no \"file\"", PST_ERROR_CORRUPT},
        {"{}\n", "no \"file\"", PST_ERROR_CORRUPT},
        {"{\"file\": 5}\n", "no \"file\"", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"file\": \"c.jpg\"}\n", "twice", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": 1, \"x\": 2}\n", "\"x\" appears twice", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": 1}\n{\"file\": \"c.jpg\", \"x\": \"one\"}\n",
         "line 2: \"x\" is a text here, but an integer in line 1", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": 1}\n{\"file\": \"c.jpg\"}\n",
         "line 2: the line has no \"x\"", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"label\": 1.5}\n", "label is a number with a fraction",
         PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"label\": [1]}\n", "label is JSON", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"label\": -1}\n", "label -1 is outside", PST_ERROR_ARGUMENT},
        {"{\"file\": \"a.jpg\", \"boxes\": [[1,2,3]]}\n", "boxes must be", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"boxes\": [[1,2,3,4,5]]}\n", "boxes must be", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"boxes\": [1,2,3,4]}\n", "boxes must be", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"boxes\": [[1,2,3,\"4\"]]}\n", "boxes must be", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"boxes\": {}}\n", "boxes must be", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"boxes\": [[1,2,3,1e39]]}\n", "beyond 32-bit", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"keypoints\": [[1,2]]}\n", "keypoints must be", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"mask\": \"gone\"}\n", "line 1: gone: there is no such file",
         PST_ERROR_NOT_FOUND},
        {"{\"file\": \"a.jpg\", \"x\": 9223372036854775808}\n", "beyond 64 bits",
         PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": 01}\n", "a number that begins with 0", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": 1.}\n", "digits behind its point", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": 1e999}\n", "beyond 64 bits", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": nan}\n", "lacks a value", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": \"\\ud800\"}\n", "surrogate", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": \"\\q\"}\n", "unknown escape", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": \"\t\"}\n", "control character", PST_ERROR_CORRUPT},
        {"{\"file\": \"a.jpg\", \"x\": \"", "ends within a string", PST_ERROR_CORRUPT},
        {"{\"file\": \"a\\u0000.jpg\"}\n", "is no path", PST_ERROR_ARGUMENT},
        {"{\"file\": \"a.jpg\", \"a b\": 1}\n", "\"a b\" cannot name a field", PST_ERROR_ARGUMENT},
    };
    char deep[600] = "{\"file\": \"a.jpg\", \"x\": ";
    three_images(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line = fails(state, cases[i].text, cases[i].status);
        if (strstr(line, cases[i].says) == NULL)
            print_error("case %zu: \"%s\" is not in: %s\n", i, cases[i].says, line);
        assert_non_null(strstr(line, cases[i].says));
    }
    for (int i = 0; i < 100; i++)
        strcat(deep, "[");
    assert_non_null(strstr(fails(state, deep, PST_ERROR_CORRUPT), "nested deeper"));
}

static void missing_files_can_be_skipped(void **state)
{
    struct pst_error err;
    pst_dataset *dataset;
    struct pst_dataset_options options = {.struct_size = sizeof options, .allow_unreadable = true};
    three_images(state);
    options.labels = labels(
        state, "file,label,mask\ngone.jpg,x,sub/b.png\nc.jpg,z,gone.png\na.jpg,y,sub/b.png\n");
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 2);
    assert_int_equal(pst_dataset_n_skipped(dataset), 2);
    assert_string_equal(folder_sample_name(dataset, 1), "c.jpg");
    assert_string_equal(pst_dataset_class_name(dataset, 1, int_of(dataset, 1, "label")), "z");
    struct pst_item item;
    assert_ok(pst_dataset_item(dataset, 1, 2, 0, &item, sizeof item, &err));
    assert_int_equal(item.i_file, PST_FILE_NONE);
    assert_int_equal(item.form, PST_FORM_NONE);
    assert_int_equal(pst_dataset_read(dataset, 1, 2, 0, 0, 0, &item, &err), PST_ERROR_NOT_FOUND);
    assert_string_equal(bytes_of(dataset, 0, "mask", NULL), "22");
    pst_dataset_close(&dataset);
}

static void no_label_file(void **state)
{
    three_images(state);
    const char *line =
        folder_open_fails(state, "f", folder_path(state, "nope.csv"), PST_ERROR_NOT_FOUND);
    assert_non_null(strstr(line, "nope.csv"));
    line = folder_open_fails(state, "f", folder_path(state, "f"), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(line, "the label file is a folder, not a regular file"));
    assert_int_equal(mkfifo(folder_path(state, "pipe.csv"), 0600), 0);
    line = folder_open_fails(state, "f", folder_path(state, "pipe.csv"), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(line, "the label file is a pipe, not a regular file"));
}

static void locale_does_not_matter(void **state)
{
    three_images(state);
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL &&
        setlocale(LC_NUMERIC, "fr_FR.UTF-8") == NULL)
        skip();
    pst_dataset *dataset = folder_open(state, "f", labels(state, "file,x\na.jpg,1.5\n"));
    setlocale(LC_NUMERIC, "C");
    assert_true(float_of(dataset, 0, "x") == 1.5);
    pst_dataset_close(&dataset);
}

static void many_lines_in_any_order(void **state)
{
    enum { N = 3000 };
    char *text = malloc(N * 64);
    size_t used = (size_t)sprintf(text, "file,label,n,t\n");
    for (int i = 0; i < N; i++) {
        char name[32];
        /* a permutation, as 1103 is a prime that does not divide N */
        int k = (int)((int64_t)i * 1103 % N);
        snprintf(name, sizeof name, "f/%04d.jpg", k);
        folder_text(state, name, "");
        used += (size_t)sprintf(text + used, "%04d.jpg,c%d,%d,t%d\n", k, k % 7, k * 3, k);
    }
    pst_dataset *dataset = folder_open(state, "f", labels(state, text));
    assert_int_equal(pst_dataset_count(dataset), N);
    for (int i = 0; i < N; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "%04d.jpg", i);
        assert_string_equal(folder_sample_name(dataset, (uint64_t)i), expected);
        assert_int_equal(int_of(dataset, (uint64_t)i, "label"), i % 7);
        assert_int_equal(int_of(dataset, (uint64_t)i, "n"), i * 3);
        snprintf(expected, sizeof expected, "t%d", i);
        assert_string_equal(bytes_of(dataset, (uint64_t)i, "t", NULL), expected);
    }
    pst_dataset_close(&dataset);
    free(text);
}

/* Each line is a path and its labels, the list format of DALI's readers. */
static void list_of_paths_and_labels(void **state)
{
    three_images(state);
    folder_text(state, "f/two words.jpg", "4444");
    folder_text(state, "f/no ending", "55555");
    pst_dataset *dataset =
        folder_open(state, "f",
                    folder_text(state, "labels.TXT",
                                "\xEF\xBB\xBFsub/b.png 12\r\n\r\n  \t\r\n./a.jpg\t0  \n"
                                "two words.jpg 3\nno ending 007"));
    assert_int_equal(pst_dataset_count(dataset), 4);
    assert_string_equal(folder_sample_name(dataset, 0), "a.jpg");
    assert_string_equal(folder_sample_name(dataset, 1), "no ending");
    assert_string_equal(folder_sample_name(dataset, 3), "two words.jpg");
    assert_int_equal(pst_dataset_n_fields(dataset), 2);
    assert_int_equal(pst_dataset_field(dataset, 1)->n_classes, 13);
    assert_int_equal(int_of(dataset, 0, "label"), 0);
    assert_int_equal(int_of(dataset, 1, "label"), 7);
    assert_int_equal(int_of(dataset, 2, "label"), 12);
    assert_int_equal(int_of(dataset, 3, "label"), 3);
    pst_dataset_close(&dataset);

    dataset = folder_open(state, "f",
                          folder_text(state, "labels.list",
                                      "a.jpg 3 1\nc.jpg\nsub/b.png\t+9223372036854775807 \n"));
    assert_int_equal(type_of(dataset, "labels"), PST_FIELD_JSON);
    assert_string_equal(bytes_of(dataset, 0, "labels", NULL), "[3, 1]");
    assert_string_equal(bytes_of(dataset, 1, "labels", NULL), "[]");
    assert_string_equal(bytes_of(dataset, 2, "labels", NULL), "[9223372036854775807]");
    pst_dataset_close(&dataset);

    dataset = folder_open(state, "f", folder_text(state, "labels.txt", "c.jpg\na.jpg\n"));
    assert_int_equal(pst_dataset_count(dataset), 2);
    assert_int_equal(pst_dataset_n_fields(dataset), 1);
    pst_dataset_close(&dataset);
    /* A first line that names columns makes the file CSV, whatever its name. */
    dataset = folder_open(state, "f", folder_text(state, "labels.txt", "label,file\r\ncat,c.jpg"));
    assert_string_equal(pst_dataset_class_name(dataset, 1, 0), "cat");
    pst_dataset_close(&dataset);
}

static void list_that_is_refused(void **state)
{
    static const struct {
        const char *text;
        enum pst_status status;
        const char *words;
    } cases[] = {
        {"", PST_ERROR_NOT_FOUND, "names no file"},
        {" \n\r\n", PST_ERROR_NOT_FOUND, "names no file"},
        {"a.jpg 1\n\nd.jpg 2\n", PST_ERROR_NOT_FOUND, "line 3: d.jpg: there is no such file"},
        {"a.jpg 1\nc.jpg 2\n./a.jpg 1\n", PST_ERROR_EXISTS,
         "line 3: a.jpg is named twice, first in line 1"},
        {"a.jpg 1\nc.jpg\n", PST_ERROR_CORRUPT, "line 2: the line has no label, and line 1 has"},
        {"a.jpg\nc.jpg 3\n", PST_ERROR_CORRUPT, "line 1: the line has no label, and line 2 has"},
        {"a.jpg cat\n", PST_ERROR_CORRUPT, "line 1: behind the path stands \"cat\""},
        {"a.jpg 0.5\n", PST_ERROR_CORRUPT, "line 1: behind the path stands \"0.5\""},
        {"a.jpg 1\nc.jpg -1\n", PST_ERROR_ARGUMENT, "line 2: label -1 is no number of a class"},
        {"a.jpg 9223372036854775808\n", PST_ERROR_ARGUMENT, "line 1: label 9223372036854775808"},
        {"a.jpg 1 2\nc.jpg 2 x\n", PST_ERROR_CORRUPT, "line 2: behind the path stands \"x\""},
        {"../f/a.jpg 1\n", PST_ERROR_ARGUMENT, "line 1: \"../f/a.jpg\" is no path relative"},
        {"/etc/passwd.jpg 1\n", PST_ERROR_ARGUMENT, "line 1: \"/etc/passwd.jpg\""},
        {"0\t1\ta.jpg\n", PST_ERROR_ARGUMENT, "line 1: \"0\\x091\\x09a.jpg\" is no path"},
        {"sub 1\n", PST_ERROR_UNSUPPORTED, "line 1: sub: not a regular file"},
        {"a.jpg 1\nc\xFF.jpg 2\n", PST_ERROR_CORRUPT, "line 2: byte \\xFF is not UTF-8"},
    };
    three_images(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line = folder_open_fails(
            state, "f", folder_text(state, "labels.txt", cases[i].text), cases[i].status);
        if (strstr(line, cases[i].words) == NULL)
            fail_msg("\"%s\" is not in: %s", cases[i].words, line);
        assert_non_null(strstr(line, "labels.txt"));
    }
    const char *hint = folder_open_fails(state, "f", folder_text(state, "labels.csv", "a.jpg 1\n"),
                                         PST_ERROR_CORRUPT);
    assert_non_null(strstr(hint, ".txt or .list"));
}

#ifdef PST_FAULTS
static void every_failure_is_clean(void **state)
{
    static const char *const texts[] = {
        "file,label,t,m,x\nc.jpg,b,\"q\"\"q\",1,1.5\na.jpg,a,z,2,2\n",
        "{\"file\": \"c.jpg\", \"label\": \"b\", \"boxes\": [[1,2,3,4]], \"j\": {}, \"mask\": "
        "\"sub/b.png\"}\n"
        "{\"file\": \"a.jpg\", \"label\": \"a\", \"boxes\": [], \"j\": [1], \"mask\": "
        "\"c.jpg\"}\n",
        "c.jpg 1 2\na.jpg 3\n"};
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_READ};
    struct pst_memory_stats before, after;
    three_images(state);
    pst_memory_stats(&before, sizeof before);
    for (unsigned i = 0; i < 6; i++) {
        char path[4096]; /* a copy, because folder_path reuses its memory */
        const char *name = i < 4 ? "labels" : "labels.txt";
        snprintf(path, sizeof path, "%s", folder_text(state, name, texts[i / 2]));
        struct pst_dataset_options options = {.struct_size = sizeof options, .labels = path};
        enum pst_status status;
        uint64_t n = 0;
        do {
            struct pst_error err;
            pst_dataset *dataset = NULL;
            pst_error_clear(&err);
            psti_fault_arm(kinds[i % 2], ++n, false);
            status = pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err);
            psti_fault_arm(kinds[i % 2], 0, false);
            if (status != PST_OK)
                assert_int_equal(status, i % 2 == 0 ? PST_ERROR_MEMORY : PST_ERROR_IO);
            pst_dataset_close(&dataset);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            assert_true(n < 1000);
        } while (status != PST_OK);
        assert_true(n > 1);
    }
}
#endif

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(csv_types), T(csv_codes),
        T(csv_class_names),
        T(json_types),
        T(csv_that_is_refused),
        T(json_that_is_refused),
        T(list_of_paths_and_labels),
        T(list_that_is_refused),
        T(missing_files_can_be_skipped),
        T(no_label_file),
        T(locale_does_not_matter),
        T(many_lines_in_any_order),
#ifdef PST_FAULTS
        T(every_failure_is_clean),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
