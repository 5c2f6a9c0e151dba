/* test_containers_hub_folder.c - are the files of saved, cached and cloned data sets of `datasets`
 * found, each with its split, and no files outside of them? */
#include "test.h"

#include "containers/root_helper.h"
#include "containers/list/containers_hub_folder.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Adds the shards of a folder and compares them with `want`: "SPLIT:PATH SPLIT:PATH", "-" for no
 * split. */
static void assert_adds(const char *folder, const char *split, const char *want)
{
    struct psti_container_list list = {0};
    struct pst_error err = {0};
    char got[2000] = "";
    assert_true(psti_containers_hub_is(folder));
    assert_ok(psti_containers_hub_add(&list, folder, split, &err));
    for (size_t i = 0; i < list.n_shards; i++) {
        int32_t i_split = list.shards[i].i_split;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s:%s", i > 0 ? " " : "",
                 i_split < 0 ? "-" : list.splits.at[i_split], list.shards[i].path);
    }
    assert_string_equal(got, want);
    psti_containers_list_close(&list);
}

static void assert_fails(const char *folder, enum pst_status status, const char *cause)
{
    struct psti_container_list list = {0};
    struct pst_error err = {0};
    assert_int_equal(psti_containers_hub_add(&list, folder, NULL, &err), status);
    if (strstr(err.text, cause) == NULL)
        print_error("%s: %s\n", folder, err.text);
    assert_non_null(strstr(err.text, cause));
    psti_containers_list_close(&list);
}

static void a_saved_data_set(void **state)
{
    (void)state;
    put("a/dataset_info.json", "{\"features\": {}}");
    put("a/data-00000-of-00002.arrow", "");
    put("a/data-00001-of-00002.arrow", "");
    put("a/state.json",
        "{\"_data_files\": [{\"filename\": \"data-00001-of-00002.arrow\"}, {\"filename\": "
        "\"data-00000-of-00002.arrow\"}], \"_fingerprint\": \"1\", \"_format_columns\": [\"x\"], "
        "\"_format_kwargs\": {}, \"_format_type\": null, \"_output_all_columns\": false, "
        "\"_split\": \"train\"}");
    /* Shards come in the order of the list in state.json, not of their names. */
    assert_adds("a", NULL, "train:a/data-00001-of-00002.arrow train:a/data-00000-of-00002.arrow");
    assert_int_equal(chdir("a"), 0);
    assert_adds(".", NULL, "train:data-00001-of-00002.arrow train:data-00000-of-00002.arrow");
    assert_int_equal(chdir(".."), 0);
    put("a/state.json", "{\"_data_files\": [{\"filename\": \"data-00000-of-00002.arrow\"}], "
                        "\"_indices_data_files\": null, \"_split\": null}");
    assert_adds("a", NULL, "-:a/data-00000-of-00002.arrow");
}

static void indices_are_refused(void **state)
{
    (void)state;
    put("a/dataset_info.json", "{}");
    put("a/data.arrow", "");
    static const char *const states[] = {
        "{\"_data_files\": [{\"filename\": \"data.arrow\"}], \"_indices_data_files\": "
        "[{\"filename\": \"indices.arrow\"}]}",
        "{\"_data_files\": [{\"filename\": \"data.arrow\"}], \"_indices_files\": "
        "[{\"filename\": \"indices.arrow\"}]}",
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        put("a/state.json", states[i]);
        assert_fails("a", PST_ERROR_UNSUPPORTED, "ds.flatten_indices().save_to_disk(path)");
    }
    put("a/state.json", "{\"_data_files\": [{\"filename\": \"data.arrow\"}], "
                        "\"_indices_data_files\": []}");
    assert_adds("a", NULL, "-:a/data.arrow");
}

static void a_dict_of_data_sets(void **state)
{
    (void)state;
    put("d/dataset_dict.json", "{\"splits\": [\"validation\", \"train\"]}");
    put("d/train/state.json", "{\"_data_files\": [{\"filename\": \"data.arrow\"}], \"_split\": "
                              "\"other\"}");
    put("d/train/data.arrow", "");
    put("d/validation/state.json", "{\"_data_files\": [{\"filename\": \"data.arrow\"}]}");
    put("d/validation/data.arrow", "");
    assert_adds("d", NULL, "validation:d/validation/data.arrow train:d/train/data.arrow");
    assert_adds("d", "all", "validation:d/validation/data.arrow train:d/train/data.arrow");
    assert_adds("d", "train", "train:d/train/data.arrow");
    assert_adds("d", "val", "validation:d/validation/data.arrow");
    /* A faulty split matters only to those who ask for it. */
    put("d/train/state.json", "{");
    assert_adds("d", "validation", "validation:d/validation/data.arrow");
    assert_fails("d", PST_ERROR_CORRUPT, "JSON");
    put("d/dataset_dict.json", "{\"splits\": [\"../d\"]}");
    assert_fails("d", PST_ERROR_CORRUPT, "name of a split");
    put("d/dataset_dict.json", "{\"splits\": []}");
    assert_fails("d", PST_ERROR_NOT_FOUND, "no split");
    put("d/dataset_dict.json", "{\"splits\": [\"gone\"]}");
    assert_fails("d", PST_ERROR_NOT_FOUND, "");
}

static void a_folder_of_the_cache(void **state)
{
    (void)state;
    put("c/dataset_info.json",
        "{\"dataset_name\": \"mnist\", \"splits\": {\"train\": {\"name\": \"train\", "
        "\"shard_lengths\": [3, 4]}, \"test\": {\"name\": \"test\"}}}");
    put("c/mnist-train-00000-of-00002.arrow", "");
    put("c/mnist-train-00001-of-00002.arrow", "");
    put("c/mnist-test.arrow", "");
    put("c/cache-0123456789abcdef.arrow", "");
    put("c/mnist-pretest.arrow", "");
    assert_adds("c", NULL,
                "train:c/mnist-train-00000-of-00002.arrow "
                "train:c/mnist-train-00001-of-00002.arrow test:c/mnist-test.arrow");
    assert_adds("c", "test", "test:c/mnist-test.arrow");
    assert_int_equal(unlink("c/mnist-train-00001-of-00002.arrow"), 0);
    assert_fails("c", PST_ERROR_NOT_FOUND, "1 files of 2");
    put("c/dataset_info.json", "{\"splits\": null}");
    assert_adds(
        "c", NULL,
        "-:c/mnist-pretest.arrow -:c/mnist-test.arrow -:c/mnist-train-00000-of-00002.arrow");
}

static void a_repository_by_its_names(void **state)
{
    (void)state;
    put("r/README.md", "---\nlicense: mit\nextra: |\n  any\n  text: [\n---\n# A data set\n");
    put("r/data/train-00000-of-00002.parquet", "");
    put("r/data/train-00001-of-00002.parquet", "");
    put("r/data/test_set-00000-of-00001-0123456789abcdef.parquet", "");
    put("r/data/valid.parquet", "");
    put("r/data/notes.txt", "");
    assert_adds("r", NULL,
                "test_set:r/data/test_set-00000-of-00001-0123456789abcdef.parquet "
                "train:r/data/train-00000-of-00002.parquet "
                "train:r/data/train-00001-of-00002.parquet -:r/data/valid.parquet");
}

static void a_repository_by_its_card(void **state)
{
    (void)state;
    put("r/README.md", "---\r\n"
                       "tags: &x\n- a\n"
                       "configs:\n"
                       "- config_name: default\n"
                       "  data_files:\n"
                       "  - split: train\n"
                       "    path: \"data/train-*\"\n"
                       "  - split: test\n"
                       "    path:\n"
                       "    - more/**/test-*.parquet\n"
                       "    - last.arrow\n"
                       "dataset_info: !tag {\n"
                       "---\n"
                       "configs: none of this\n");
    put("r/data/train-1.parquet", "");
    put("r/data/train-0.parquet", "");
    put("r/data/train-2.txt", "");
    put("r/more/test-0.parquet", "");
    put("r/more/a/b/test-1.parquet", "");
    put("r/more/__hidden__/test-2.parquet", "");
    put("r/last.arrow", "");
    assert_adds("r", NULL,
                "train:r/data/train-0.parquet train:r/data/train-1.parquet "
                "test:r/more/a/b/test-1.parquet test:r/more/test-0.parquet test:r/last.arrow");
    assert_adds("r", "train", "train:r/data/train-0.parquet train:r/data/train-1.parquet");
    put("r/README.md", "---\nconfigs:\n- config_name: a\n  data_files: more/**\n---\n");
    assert_adds("r", NULL, "train:r/more/a/b/test-1.parquet train:r/more/test-0.parquet");
    put("r/README.md", "---\nconfigs:\n- config_name: a\n  data_files:\n    one: data/*\n    two: "
                       "last.arrow\n---\n");
    assert_adds("r", "two", "two:r/last.arrow");
    put("r/README.md", "---\nconfigs:\n- config_name: a\n  data_dir: more\n---\n");
    assert_adds("r", NULL, "-:r/more/test-0.parquet");
}

static void several_configurations(void **state)
{
    (void)state;
    put("r/README.md", "---\nconfigs:\n- config_name: small\n  data_files: a/*\n"
                       "- config_name: large\n  data_files: b/*\n---\n");
    put("r/a/x.parquet", "");
    put("r/b/y.parquet", "");
    assert_true(psti_containers_hub_is("r"));
    assert_fails("r", PST_ERROR_ARGUMENT, "(small, large)");
    put("r/README.md", "---\nconfigs:\n- config_name: small\n  data_files: a/*\n"
                       "- config_name: large\n  data_files: b/*\n  default: true\n---\n");
    assert_adds("r", NULL, "train:r/b/y.parquet");
}

static void what_lies_elsewhere_is_refused(void **state)
{
    (void)state;
    put("elsewhere/data.arrow", "");
    put("a/dataset_info.json", "{}");
    put("a/x/y", "");
    assert_int_equal(symlink("../elsewhere/data.arrow", "a/link.arrow"), 0);
    static const struct {
        const char *name, *cause;
    } names[] = {
        {"../elsewhere/data.arrow", "does not lie below"},
        {"x/../../elsewhere/data.arrow", "does not lie below"},
        {"/etc/hostname", "does not lie below"},
        {"link.arrow", "is a link that leads out"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"_data_files\": [{\"filename\": \"%s\"}]}", names[i].name);
        put("a/state.json", text);
        assert_fails("a", PST_ERROR_UNSUPPORTED, names[i].cause);
    }
    static const char *const patterns[] = {"../elsewhere/*", "/tmp/*", "a/../../elsewhere/*",
                                           "hf://datasets/x/y.parquet"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char text[200];
        snprintf(text, sizeof text, "---\nconfigs:\n- data_files: \"%s\"\n---\n", patterns[i]);
        put("r/README.md", text);
        assert_fails("r", PST_ERROR_UNSUPPORTED, "does not lie below");
        assert_false(psti_containers_hub_is("r"));
    }
}

static void the_cache_of_the_hub_has_links(void **state)
{
    (void)state;
    put("datasets--a--b/blobs/0123", "");
    put("datasets--a--b/snapshots/4567/README.md", "---\n---\n");
    put("elsewhere/data.parquet", "");
    assert_int_equal(mkdir("datasets--a--b/snapshots/4567/data", 0700), 0);
    assert_int_equal(symlink("../../../blobs/0123",
                             "datasets--a--b/snapshots/4567/data/train-00000-of-00001.parquet"),
                     0);
    assert_adds("datasets--a--b/snapshots/4567", NULL,
                "train:datasets--a--b/snapshots/4567/data/train-00000-of-00001.parquet");
    assert_int_equal(symlink("../../../../elsewhere/data.parquet",
                             "datasets--a--b/snapshots/4567/data/x.parquet"),
                     0);
    assert_fails("datasets--a--b/snapshots/4567", PST_ERROR_UNSUPPORTED, "leads out");
}

static void other_folders_are_none(void **state)
{
    (void)state;
    put("tars/README.md", "---\nconfigs:\n- data_files: \"*.tar\"\n---\n");
    put("tars/a.tar", "");
    assert_false(psti_containers_hub_is("tars"));
    put("pictures/README.md", "---\nconfigs:\n- data_files: \"*.jpg\"\n---\n");
    put("pictures/a.jpg", "");
    assert_false(psti_containers_hub_is("pictures"));
    put("flat/train.parquet", "");
    assert_false(psti_containers_hub_is("flat"));
    put("info/dataset_info.json", "{}");
    assert_false(psti_containers_hub_is("info"));
    put("bad/README.md", "---\nconfigs: [\n---\n");
    assert_false(psti_containers_hub_is("bad"));
    assert_false(psti_containers_hub_is("absent"));
}

static void wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *state, *cause;
        enum pst_status status;
    } wrong[] = {
        {"[]", "a map is expected", PST_ERROR_CORRUPT},
        {"{}", "must be a list of files", PST_ERROR_CORRUPT},
        {"{\"_data_files\": []}", "no file", PST_ERROR_NOT_FOUND},
        {"{\"_data_files\": [\"a\"]}", "a map is expected", PST_ERROR_CORRUPT},
        {"{\"_data_files\": [{\"filename\": null}]}", "the name of a file", PST_ERROR_CORRUPT},
        {"{\"_data_files\": [{\"filename\": \"\"}]}", "the name of a file", PST_ERROR_CORRUPT},
        {"{\"_data_files\": [{\"filename\": \"gone.arrow\"}]}", "gone.arrow", PST_ERROR_NOT_FOUND},
    };
    put("a/dataset_info.json", "{}");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put("a/state.json", wrong[i].state);
        assert_fails("a", wrong[i].status, wrong[i].cause);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, root_set_up, root_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_saved_data_set),
        TEST(indices_are_refused),
        TEST(a_dict_of_data_sets),
        TEST(a_folder_of_the_cache),
        TEST(a_repository_by_its_names),
        TEST(a_repository_by_its_card),
        TEST(several_configurations),
        TEST(what_lies_elsewhere_is_refused),
        TEST(the_cache_of_the_hub_has_links),
        TEST(other_folders_are_none),
        TEST(wrong_files),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
