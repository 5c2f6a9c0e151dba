/* test_containers_hub.c - are features of Hugging Face's `datasets` read, in every spelling, and
 * are wrong ones refused? */
#include "test.h"

#include "base/fault.h"
#include "containers/table/containers_guess.h"
#include "containers/table/containers_hub.h"

#include <stdlib.h>
#include <string.h>

static struct psti_hub_features *read(const char *json)
{
    struct psti_hub_features *features = NULL;
    struct pst_error err = {0};
    assert_ok(psti_containers_hub_open(json, strlen(json), "info.json", &features, &err));
    assert_non_null(features);
    return features;
}

static const struct psti_hub_feature *feature(const struct psti_hub_features *features,
                                              const char *name, enum psti_hub_kind kind)
{
    const struct psti_hub_feature *found = psti_containers_hub_find(features, name);
    assert_non_null(found);
    assert_int_equal(found->kind, kind);
    return found;
}

static void the_metadata_of_a_schema(void **state)
{
    (void)state;
    struct psti_hub_features *features = read(
        "{\"info\": {\"features\": {\"image\": {\"_type\": \"Image\"}, "
        "\"label\": {\"names\": [\"bird\", \"tree\"], \"_type\": \"ClassLabel\"}, "
        "\"text\": {\"dtype\": \"string\", \"_type\": \"Value\"}, "
        "\"data\": {\"_type\": \"Json\"}, "
        "\"sound\": {\"sampling_rate\": 16000, \"_type\": \"Audio\"}}}, \"fingerprint\": \"1\"}");
    feature(features, "image", PSTI_HUB_IMAGE);
    feature(features, "sound", PSTI_HUB_AUDIO);
    assert_string_equal(feature(features, "text", PSTI_HUB_VALUE)->dtype, "string");
    assert_string_equal(feature(features, "data", PSTI_HUB_VALUE)->dtype, "json");
    const struct psti_hub_feature *label = feature(features, "label", PSTI_HUB_CLASS_LABEL);
    assert_int_equal(label->n_classes, 2);
    assert_int_equal(label->class_names_nbytes, 10);
    assert_memory_equal(label->class_names, "bird\0tree\0", 10);
    assert_null(psti_containers_hub_find(features, "labe"));
    assert_null(psti_containers_hub_find(features, "z"));
    psti_containers_hub_close(&features);
    assert_null(features);
    assert_null(psti_containers_hub_find(NULL, "image"));
}

static void old_and_new_spellings_of_lists(void **state)
{
    (void)state;
    struct psti_hub_features *features =
        read("{\"features\": {"
             "\"a\": {\"feature\": {\"dtype\": \"int32\", \"id\": null, \"_type\": \"Value\"}, "
             "\"length\": -1, \"id\": null, \"_type\": \"Sequence\"}, "
             "\"b\": [{\"dtype\": \"float32\", \"id\": null, \"_type\": \"Value\"}], "
             "\"c\": {\"feature\": {\"dtype\": \"float64\", \"_type\": \"Value\"}, \"length\": 4, "
             "\"_type\": \"List\"}, "
             "\"d\": {\"feature\": {\"feature\": {\"_type\": \"Image\"}, \"_type\": \"List\"}, "
             "\"_type\": \"LargeList\"}, "
             "\"e\": {\"feature\": {\"x\": {\"dtype\": \"int8\", \"_type\": \"Value\"}}, "
             "\"_type\": \"Sequence\"}}}");
    const struct psti_hub_feature *list = feature(features, "a", PSTI_HUB_SEQUENCE);
    assert_string_equal(list->inner->dtype, "int32");
    assert_int_equal(list->ndim, 0);
    assert_string_equal(feature(features, "b", PSTI_HUB_SEQUENCE)->inner->dtype, "float32");
    list = feature(features, "c", PSTI_HUB_SEQUENCE);
    assert_int_equal(list->ndim, 1);
    assert_int_equal(list->shape[0], 4);
    list = feature(features, "d", PSTI_HUB_SEQUENCE);
    assert_int_equal(list->inner->kind, PSTI_HUB_SEQUENCE);
    assert_int_equal(list->inner->inner->kind, PSTI_HUB_IMAGE);
    assert_int_equal(feature(features, "e", PSTI_HUB_SEQUENCE)->inner->kind, PSTI_HUB_OTHER);
    psti_containers_hub_close(&features);
}

static void arrays_and_others(void **state)
{
    (void)state;
    struct psti_hub_features *features =
        read("{\"features\": {"
             "\"grid\": {\"shape\": [2, 3], \"dtype\": \"int16\", \"_type\": \"Array2D\"}, "
             "\"film\": {\"shape\": [null, 2, 3, 4, 5], \"dtype\": \"uint8\", \"_type\": "
             "\"Array5D\"}, "
             "\"pair\": {\"languages\": [\"de\", \"fr\"], \"_type\": \"Translation\"}, "
             "\"video\": {\"_type\": \"Video\"}, \"paper\": {\"_type\": \"Pdf\"}, "
             "\"own\": {\"_type\": \"MyFeature\", \"names\": 7}, "
             "\"map\": {\"_type\": {\"dtype\": \"int8\", \"_type\": \"Value\"}}, \"null\": null}}");
    const struct psti_hub_feature *grid = feature(features, "grid", PSTI_HUB_ARRAY);
    assert_int_equal(grid->ndim, 2);
    assert_int_equal(grid->shape[0], 2);
    assert_int_equal(grid->shape[1], 3);
    assert_string_equal(grid->dtype, "int16");
    const struct psti_hub_feature *film = feature(features, "film", PSTI_HUB_ARRAY);
    assert_int_equal(film->ndim, 5);
    assert_int_equal(film->shape[0], 0);
    assert_int_equal(film->shape[4], 5);
    static const char *const others[] = {"pair", "video", "paper", "own", "map", "null"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_string_equal(feature(features, others[i], PSTI_HUB_OTHER)->dtype, "");
    psti_containers_hub_close(&features);
}

static void classes(void **state)
{
    (void)state;
    struct psti_hub_features *features =
        read("{\"features\": {"
             "\"old\": {\"num_classes\": 2, \"names\": [\"a\", \"b\"], \"names_file\": null, "
             "\"id\": null, \"_type\": \"ClassLabel\"}, "
             "\"count\": {\"num_classes\": 5, \"names\": null, \"_type\": \"ClassLabel\"}, "
             "\"none\": {\"names\": [], \"_type\": \"ClassLabel\"}, "
             "\"bad\": {\"names\": [\"x\", \"\", \"z\"], \"_type\": \"ClassLabel\"}, "
             "\"numbers\": {\"names\": [1, 2, \"drei\\u00e4\"], \"_type\": \"ClassLabel\"}}}");
    assert_int_equal(feature(features, "old", PSTI_HUB_CLASS_LABEL)->n_classes, 2);
    assert_int_equal(feature(features, "count", PSTI_HUB_CLASS_LABEL)->n_classes, 5);
    assert_null(psti_containers_hub_find(features, "count")->class_names);
    assert_int_equal(feature(features, "none", PSTI_HUB_CLASS_LABEL)->n_classes, 0);
    assert_null(psti_containers_hub_find(features, "none")->class_names);
    assert_int_equal(feature(features, "bad", PSTI_HUB_CLASS_LABEL)->n_classes, 3);
    assert_null(psti_containers_hub_find(features, "bad")->class_names);
    const struct psti_hub_feature *numbers = feature(features, "numbers", PSTI_HUB_CLASS_LABEL);
    assert_int_equal(numbers->class_names_nbytes, 11);
    assert_memory_equal(numbers->class_names, "1\0002\0drei\xc3\xa4", 11);
    psti_containers_hub_close(&features);
}

static void no_features(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}", "{\"features\": null}", "{\"info\": {}}",
                                        "{\"features\": {}}", "{\"info\": {\"features\": {}}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct psti_hub_features *features = read(texts[i]);
        assert_null(psti_containers_hub_find(features, "a"));
        psti_containers_hub_close(&features);
    }
}

static void wrong_features(void **state)
{
    (void)state;
    static const struct {
        const char *json, *cause;
    } wrong[] = {
        {"", "JSON"},
        {"[]", "a map is expected"},
        {"{\"features\": []}", "map of columns"},
        {"{\"features\": {\"a\": {\"_type\": \"Value\"}}}", "dtype"},
        {"{\"features\": {\"a\": {\"_type\": \"Value\", \"dtype\": []}}}", "dtype"},
        {"{\"features\": {\"a\": [], \"b\": null}}", "one entry"},
        {"{\"features\": {\"a\": [null, null]}}", "one entry"},
        {"{\"features\": {\"a\": {\"_type\": \"List\"}}}", "feature"},
        {"{\"features\": {\"a\": {\"_type\": \"List\", \"feature\": [null], \"length\": -2}}}",
         "length"},
        {"{\"features\": {\"a\": {\"_type\": \"Array2D\", \"dtype\": \"int8\", \"shape\": 3}}}",
         "shape"},
        {"{\"features\": {\"a\": {\"_type\": \"Array2D\", \"dtype\": \"int8\", \"shape\": [2, "
         "null]}}}",
         "only the first dimension"},
        {"{\"features\": {\"a\": {\"_type\": \"Array2D\", \"dtype\": \"int8\", \"shape\": "
         "[1,1,1,1,1,1,1,1,1]}}}",
         "8 dimensions"},
        {"{\"features\": {\"a\": {\"_type\": \"Array2D\", \"dtype\": \"int8\", \"shape\": "
         "[4294967296]}}}",
         "32 bits"},
        {"{\"features\": {\"a\": {\"_type\": \"ClassLabel\", \"names\": {}}}}", "list of classes"},
        {"{\"features\": {\"a\": {\"_type\": \"ClassLabel\", \"names\": [[]]}}}", "a text"},
        {"{\"features\": {\"a\": {\"_type\": \"ClassLabel\", \"names\": [\"a\"], "
         "\"num_classes\": 2}}}",
         "num_classes"},
        {"{\"features\": {\"a\": {\"_type\": \"ClassLabel\", \"num_classes\": -1}}}",
         "whole number"},
        {"{\"features\": {\"a\": null, \"b\": null, \"a\": null}}", "two features"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct psti_hub_features *features = NULL;
        struct pst_error err = {0};
        enum pst_status status = psti_containers_hub_open(wrong[i].json, strlen(wrong[i].json),
                                                          "info.json", &features, &err);
        if (status != PST_ERROR_CORRUPT || strstr(err.text, wrong[i].cause) == NULL)
            print_error("%s: %s\n", wrong[i].json, err.text);
        assert_int_equal(status, PST_ERROR_CORRUPT);
        assert_non_null(strstr(err.text, wrong[i].cause));
        assert_string_equal(err.file, "info.json");
        assert_null(features);
    }
}

static void first_bytes_tell_what_a_value_is(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        size_t n;
        enum pst_field_type type;
    } heads[] = {
        {"\xff\xd8\xff\xe0", 4, PST_FIELD_IMAGE},
        {"\xff\xd8", 2, PST_FIELD_BYTES},
        {"\x89PNG\r\n\x1a\n", 8, PST_FIELD_IMAGE},
        {"\x89PNG\r\n\x1a", 7, PST_FIELD_BYTES},
        {"RIFF\x10\0\0\0WEBPVP8 ", 16, PST_FIELD_IMAGE},
        {"RIFF\x10\0\0\0WAVEfmt ", 16, PST_FIELD_AUDIO},
        {"RIFF\x10\0\0\0AVI LIST", 16, PST_FIELD_BYTES},
        {"RIFF\x10\0\0\0WEB", 11, PST_FIELD_BYTES},
        {"fLaC", 4, PST_FIELD_AUDIO},
        {"OggS\0", 5, PST_FIELD_AUDIO},
        {"ID3\4", 4, PST_FIELD_AUDIO},
        {"", 0, PST_FIELD_BYTES},
        {"{\"a\": 1}", 8, PST_FIELD_BYTES},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        uint8_t *alone = malloc(heads[i].n + 1);
        assert_non_null(alone);
        memcpy(alone + 1, heads[i].head, heads[i].n);
        assert_int_equal(psti_containers_guess(alone + 1, heads[i].n), heads[i].type);
        free(alone);
    }
}

#ifdef PST_FAULTS
static void memory_that_fails(void **state)
{
    (void)state;
    static const char json[] = "{\"features\": {\"a\": [{\"_type\": \"Image\"}], \"b\": "
                               "{\"_type\": \"ClassLabel\", \"names\": [\"x\"]}}}";
    enum pst_status status = PST_ERROR_MEMORY;
    uint64_t n = 0;
    while (status != PST_OK) {
        struct psti_hub_features *features = NULL;
        struct pst_error err = {0};
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        status = psti_containers_hub_open(json, sizeof json - 1, "info.json", &features, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
        assert_true((features != NULL) == (status == PST_OK));
        psti_containers_hub_close(&features);
    }
    assert_true(n > 4);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_metadata_of_a_schema),
        cmocka_unit_test(old_and_new_spellings_of_lists),
        cmocka_unit_test(arrays_and_others),
        cmocka_unit_test(classes),
        cmocka_unit_test(no_features),
        cmocka_unit_test(wrong_features),
        cmocka_unit_test(first_bytes_tell_what_a_value_is),
#ifdef PST_FAULTS
        cmocka_unit_test(memory_that_fails),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
