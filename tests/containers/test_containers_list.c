/* test_containers_list.c - are exactly the shards found that the user's text means, in order? */
#include "test.h"

#include "containers/root_helper.h"
#include "containers/list/containers_list.h"

#include <string.h>
#include <unistd.h>

static void put_all(const char *const *paths)
{
    for (; *paths != NULL; paths++)
        put(*paths, "");
}

#define PUT(...) put_all((const char *const[]){__VA_ARGS__, NULL})

/* Lists the shards for one text and compares base and paths, which are joined by spaces. */
static void assert_lists(const char *text, const char *split, const char *base, const char *want)
{
    struct psti_container_list list;
    struct pst_error err;
    char got[2000] = "";
    assert_ok(psti_containers_list_open(&text, 1, split, &list, &err));
    for (size_t i = 0; i < list.n_shards; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? " " : "",
                 list.shards[i].path);
    assert_string_equal(got, want);
    assert_string_equal(list.base, base);
    psti_containers_list_close(&list);
}

static void assert_fails(const char *text, const char *split, enum pst_status status,
                         const char *cause)
{
    struct psti_container_list list;
    struct pst_error err;
    assert_int_equal(psti_containers_list_open(&text, 1, split, &list, &err), status);
    if (strstr(err.text, cause) == NULL)
        print_error("'%s' says: %s\n", text, err.text);
    assert_non_null(strstr(err.text, cause));
    assert_null(list.shards);
}

static void paths_and_patterns_keep_their_order(void **state)
{
    (void)state;
    PUT("d/b-1.tar", "d/b-0.tar", "d/a-2.tar", "d/b-0.json", "e/x.tar", "d/{q}.tar", "d/.h.tar",
        "none/x.txt");
    assert_lists("d/b-1.tar", NULL, "d", "b-1.tar");
    assert_lists("d", NULL, "d", "a-2.tar b-0.tar b-1.tar {q}.tar");
    assert_lists("./d//", NULL, "d", "a-2.tar b-0.tar b-1.tar {q}.tar");
    assert_lists("d/b-{1..0}.tar", NULL, "d", "b-1.tar b-0.tar");
    assert_lists("d/b-*.tar", NULL, "d", "b-0.tar b-1.tar");
    assert_lists("d/*", NULL, "d", "a-2.tar b-0.tar b-1.tar {q}.tar");
    assert_lists("./d/[ab]-?.tar", NULL, "d", "a-2.tar b-0.tar b-1.tar");
    assert_lists("*/*.tar", NULL, "", "d/a-2.tar d/b-0.tar d/b-1.tar d/{q}.tar e/x.tar");
    assert_lists("d/{q}.tar", NULL, "d", "{q}.tar");
    assert_lists("e/x.tar::d/b-{0..1}.tar", NULL, "", "e/x.tar d/b-0.tar d/b-1.tar");
    assert_lists("d/../e/x.tar::d/b-0.tar", NULL, root, "e/x.tar d/b-0.tar");
    assert_int_equal(chdir("d"), 0);
    assert_lists(".", NULL, "", "a-2.tar b-0.tar b-1.tar {q}.tar");
    assert_lists("../d/b-0.tar::../e/x.tar", NULL, "..", "d/b-0.tar e/x.tar");
    assert_lists("b-0.tar::../e/x.tar", NULL, root, "d/b-0.tar e/x.tar");
    assert_int_equal(chdir(".."), 0);
    char mixed[300];
    snprintf(mixed, sizeof mixed, "d/b-0.tar::%s/e/x.tar", root);
    assert_lists(mixed, NULL, root, "d/b-0.tar e/x.tar");
}

static void what_cannot_be_read_is_refused(void **state)
{
    (void)state;
    PUT("d/a.tar", "z/a.tar.gz", "y/a.tgz", "y/a.tar", "mixed/a.tar", "mixed/b.zip", "p/index.pst",
        "p/a.tar", "none/x.txt", "mix.yaml");
    assert_fails("pipe:cat a.tar", NULL, PST_ERROR_UNSUPPORTED, "is a command");
    assert_fails("d/a.tar::pipe:cat d/a.tar", NULL, PST_ERROR_UNSUPPORTED, "is a command");
    assert_fails("s3://b/{0..9}.tar", NULL, PST_ERROR_UNSUPPORTED, "is a URL");
    assert_fails("d/a.tar::hf://x", NULL, PST_ERROR_UNSUPPORTED, "is a URL");
    assert_fails("d/n*.tar", NULL, PST_ERROR_NOT_FOUND, "'d/n*.tar'");
    assert_fails("q/*.tar", NULL, PST_ERROR_NOT_FOUND, "'q/*.tar'");
    assert_fails("none/*", NULL, PST_ERROR_NOT_FOUND, "no file that ends in");
    assert_fails("d/**/a.tar", NULL, PST_ERROR_UNSUPPORTED, "**");
    assert_fails("d/{a,b}.tar", NULL, PST_ERROR_NOT_FOUND, "a shard of 'd/{a,b}.tar'");
    assert_fails("d/b.tar", NULL, PST_ERROR_NOT_FOUND, "'d/b.tar'");
    assert_fails("~/b.tar", NULL, PST_ERROR_NOT_FOUND, "'~/b.tar'");
    assert_fails("", NULL, PST_ERROR_NOT_FOUND, "''");
    assert_fails("d/{a.tar", NULL, PST_ERROR_ARGUMENT, "lacks its counterpart");
    assert_fails("d/a.tar::", NULL, PST_ERROR_ARGUMENT, "beside the ::");
    assert_fails("d/a.tar::d/./a.tar", NULL, PST_ERROR_ARGUMENT, "meant twice");
    assert_fails("z", NULL, PST_ERROR_UNSUPPORTED, "compressed as a whole by gzip");
    assert_fails("z/*", NULL, PST_ERROR_UNSUPPORTED, "compressed as a whole by gzip");
    assert_fails("y/a.tgz", NULL, PST_ERROR_UNSUPPORTED, "unpack it once (gunzip)");
    assert_lists("y", NULL, "y", "a.tar");
    assert_fails("mixed", NULL, PST_ERROR_ARGUMENT, "both *.tar and *.zip");
    assert_fails("mixed/*", NULL, PST_ERROR_ARGUMENT, "open them by themselves");
    assert_fails("p", NULL, PST_ERROR_ARGUMENT, "data set of Penstock");
    assert_fails("none", NULL, PST_ERROR_NOT_FOUND, "no *.tar, no *.zip, no *.parquet");
    assert_fails("mix.yaml", NULL, PST_ERROR_UNSUPPORTED, "mixtures");
}

static void kind_is_told_by_the_first_bytes(void **state)
{
    (void)state;
    struct psti_container_list list;
    struct pst_error err;
    const char *texts[] = {"a.tar", "b"};
    put("a.tar", "PK\3\4 zip");
    put("b", "x");
    put("c.zip", "PK\5\6");
    assert_ok(psti_containers_list_open(texts, 1, NULL, &list, &err));
    assert_int_equal(list.kind, PSTI_CONTAINER_ZIP);
    psti_containers_list_close(&list);
    texts[0] = "b";
    assert_ok(psti_containers_list_open(texts, 1, NULL, &list, &err));
    assert_int_equal(list.kind, PSTI_CONTAINER_TAR);
    psti_containers_list_close(&list);
    texts[0] = "c.zip";
    assert_ok(psti_containers_list_open(texts, 2, NULL, &list, &err));
    assert_int_equal(list.kind, PSTI_CONTAINER_ZIP);
    assert_int_equal(list.n_shards, 2);
    psti_containers_list_close(&list);
}

static void splits_are_told_by_words(void **state)
{
    (void)state;
    PUT("d/imagenet_train-0.tar", "d/imagenet_train-1.tar", "d/imagenet-val-0.tar",
        "d/contest-3.tar");
    PUT("one/train-0.tar", "one/train-1.tar", "two/train-test.tar", "two/val.tar");
    PUT("v/val-0.tar", "v/validation-0.tar");
    assert_lists("d", "train", "d", "imagenet_train-0.tar imagenet_train-1.tar");
    assert_lists("d", "VALIDATION", "d", "imagenet-val-0.tar");
    assert_lists("d", "contest", "d", "contest-3.tar");
    assert_lists("d", "all", "d",
                 "contest-3.tar imagenet-val-0.tar imagenet_train-0.tar imagenet_train-1.tar");
    assert_fails("d", NULL, PST_ERROR_ARGUMENT, "splits that are here: val, train");
    assert_fails("d", "test", PST_ERROR_NOT_FOUND, "splits that are here: val, train");
    assert_lists("d/*.tar", NULL, "d",
                 "contest-3.tar imagenet-val-0.tar imagenet_train-0.tar imagenet_train-1.tar");
    assert_lists("d/*.tar", "val", "d", "imagenet-val-0.tar");
    assert_lists("one", NULL, "one", "train-0.tar train-1.tar");
    assert_lists("one", "training", "one", "train-0.tar train-1.tar");
    assert_fails("one", "val", PST_ERROR_NOT_FOUND, "no shard has the split 'val'");
    assert_fails("two", "val", PST_ERROR_ARGUMENT, "words of two splits");
    assert_lists("v", "val", "v", "val-0.tar");
    assert_lists("v", "validation", "v", "validation-0.tar");
    assert_fails("v", "valid", PST_ERROR_ARGUMENT, "may mean several");
}

static void folders_of_splits_are_splits(void **state)
{
    (void)state;
    PUT("d/train/1.tar", "d/train/0.tar", "d/val/0.tar", "d/other/0.tar", "d/train/deep/0.tar");
    PUT("t/0.tar", "t/val/0.tar", "plain/train/a.jpg", "only/train/0.tar", "only/val/a.jpg");
    assert_lists("d", "train", "d", "train/0.tar train/1.tar");
    assert_lists("d", "valid", "d", "val/0.tar");
    assert_lists("d", "all", "d", "train/0.tar train/1.tar val/0.tar");
    assert_fails("d", NULL, PST_ERROR_ARGUMENT, "train, val");
    assert_lists("d/val", NULL, "d/val", "0.tar");
    assert_lists("d/{val,train}", NULL, "d", "val/0.tar train/0.tar train/1.tar");
    assert_lists("d/*/0.tar", "val", "d/val", "0.tar");
    assert_lists("t", NULL, "t", "0.tar");
    assert_lists("only", NULL, "only", "train/0.tar");
    assert_fails("plain", NULL, PST_ERROR_NOT_FOUND, "no *.tar");
    assert_true(psti_containers_list_is_meant("d"));
    assert_true(psti_containers_list_is_meant("t"));
    assert_true(psti_containers_list_is_meant("x/{0..9}.tar"));
    assert_true(psti_containers_list_is_meant("a.tar::b"));
    assert_false(psti_containers_list_is_meant("s3://b/a.tar")); /* an address */
    assert_true(psti_containers_list_is_meant("d/val/0.tar"));
    assert_false(psti_containers_list_is_meant("plain"));
    assert_false(psti_containers_list_is_meant("missing"));
    assert_false(psti_containers_list_is_meant("plain/train/a.jpg"));
}

static void indexes_beside_shards_are_found(void **state)
{
    (void)state;
    struct psti_container_list list;
    struct pst_error err;
    const char *text = "d";
    PUT("d/a.tar", "d/a.idx", "d/b.tar", "d/b.tar.idx", "d/b.idx", "d/c.tar");
    assert_ok(psti_containers_list_open(&text, 1, NULL, &list, &err));
    assert_ok(psti_containers_list_indexes(&list, &err));
    assert_string_equal(list.shards[0].index, "a.idx");
    assert_string_equal(list.shards[1].index, "b.tar.idx");
    assert_null(list.shards[2].index);
    assert_int_equal(list.shards[2].n_samples, -1);
    psti_containers_list_close(&list);
}

static void wids_names_shards_below_it(void **state)
{
    (void)state;
    struct psti_container_list list;
    struct pst_error err;
    const char *text = "d/index.json";
    PUT("d/s/b.tar", "d/a.tar", "out/x.tar");
    put(text, "{\"__kind__\": \"wids-shard-index-v1\", \"wids_version\": 1, \"shardlist\": [\n"
              "{\"url\": \"s/b.tar\", \"nsamples\": 7, \"md5sum\": \"0\"},\n"
              "{\"url\": \"a.tar\", \"filesize\": 1}], \"name\": \"x\"}");
    assert_ok(psti_containers_list_open(&text, 1, NULL, &list, &err));
    assert_string_equal(list.base, "d");
    assert_int_equal(list.n_shards, 2);
    assert_string_equal(list.shards[0].path, "s/b.tar");
    assert_int_equal(list.shards[0].n_samples, 7);
    assert_string_equal(list.shards[1].path, "a.tar");
    assert_int_equal(list.shards[1].n_samples, -1);
    psti_containers_list_close(&list);
    assert_lists("d/index.json::out/x.tar", NULL, "", "d/s/b.tar d/a.tar out/x.tar");

    assert_int_equal(symlink("../out", "d/link"), 0);
    assert_int_equal(symlink("s/b.tar", "d/inner.tar"), 0);
    static const struct {
        const char *entry;
        enum pst_status status;
        const char *cause;
    } cases[] = {
        {"{\"url\": \"../out/x.tar\"}", PST_ERROR_UNSUPPORTED, "'../out/x.tar' does not lie below"},
        {"{\"url\": \"s/../../out/x.tar\"}", PST_ERROR_UNSUPPORTED, "does not lie below"},
        {"{\"url\": \"/etc/passwd\"}", PST_ERROR_UNSUPPORTED, "does not lie below"},
        {"{\"url\": \"link/x.tar\"}", PST_ERROR_UNSUPPORTED, "a link that leads out"},
        {"{\"url\": \"http://h/x.tar\"}", PST_ERROR_UNSUPPORTED, "is not a path"},
        {"{\"url\": \"pipe:cat x\"}", PST_ERROR_UNSUPPORTED, "is not a path"},
        {"{\"url\": \"a.tar.gz\"}", PST_ERROR_UNSUPPORTED, "compressed"},
        {"{\"url\": \"missing.tar\"}", PST_ERROR_NOT_FOUND, "'missing.tar'"},
        {"{\"url\": \"a\\nb.tar\"}", PST_ERROR_CORRUPT, "control character"},
        {"{\"url\": 7}", PST_ERROR_CORRUPT, "\"url\" must be"},
        {"{\"url\": \"a.tar\", \"nsamples\": -1}", PST_ERROR_CORRUPT, "\"nsamples\""},
        {"7", PST_ERROR_CORRUPT, "a map is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[500];
        snprintf(json, sizeof json, "{\"wids_version\": 1, \"shardlist\": [%s]}", cases[i].entry);
        put("d/bad.json", json);
        assert_fails("d/bad.json", NULL, cases[i].status, cases[i].cause);
    }
    put("d/bad.json", "{\"wids_version\": 1, \"shardlist\": [{\"url\": \"inner.tar\"}]}");
    assert_lists("d/bad.json", NULL, "d", "inner.tar");
    put("d/bad.json", "{\"wids_version\": 2, \"shardlist\": []}");
    assert_fails("d/bad.json", NULL, PST_ERROR_CORRUPT, "\"wids_version\" is not 1");
    put("d/bad.json", "{\"wids_version\": 1, \"shardlist\": []}");
    assert_fails("d/bad.json", NULL, PST_ERROR_NOT_FOUND, "names no shard");
    put("d/bad.json", "{\"wids_version\": 1, \"datasets\": []}");
    assert_fails("d/bad.json", NULL, PST_ERROR_UNSUPPORTED, "\"datasets\"");
    put("d/bad.json", "[]");
    assert_fails("d/bad.json", NULL, PST_ERROR_CORRUPT, "no index of wids");
}

#define INFO                                                                                       \
    "{\"energon_version\": \"7\", \"shard_counts\": {\"s/b.tar\": 2, \"s/a.tar\": 3, "             \
    "\"s/c.tar\": 4}}"

static void energon_says_order_and_splits(void **state)
{
    (void)state;
    struct psti_container_list list;
    struct pst_error err;
    const char *text = "d/";
    PUT("d/s/a.tar", "d/s/b.tar", "d/s/c.tar", "d/s/unknown.tar");
    put("d/.nv-meta/.info.json", INFO);
    assert_lists("d", NULL, "d", "s/b.tar s/a.tar s/c.tar");
    put("d/.nv-meta/split.yaml", "exclude:\n- s/a.tar/000032\n- s/a.tar/k/{0..1}\n- s/c.tar/x\n"
                                 "- s/gone.tar\nsplit_parts:\n  train:\n  - s/c.tar\n"
                                 "  - s/{b,a}.tar\n  val: []\n  test: []\n");
    put("d/.nv-meta/dataset.yaml", "__module__: megatron.energon\n__class__: CaptioningWebdataset\n"
                                   "field_map:\n  image: jpg\n  caption: json[caption]\n");
    assert_ok(psti_containers_list_open(&text, 1, NULL, &list, &err));
    assert_true(list.is_energon);
    assert_string_equal(list.base, "d");
    assert_string_equal(list.split, "train");
    assert_int_equal(list.splits.n, 3);
    assert_int_equal(list.n_shards, 3);
    assert_string_equal(list.shards[0].path, "s/c.tar");
    assert_string_equal(list.shards[1].path, "s/b.tar");
    assert_string_equal(list.shards[2].path, "s/a.tar");
    assert_int_equal(list.shards[0].n_samples, 4);
    assert_int_equal(list.shards[0].i_split, 0);
    assert_int_equal(list.n_excluded, 4);
    assert_true(psti_containers_list_excludes(&list, 2, "000032"));
    assert_true(psti_containers_list_excludes(&list, 2, "k/1"));
    assert_true(psti_containers_list_excludes(&list, 0, "x"));
    assert_false(psti_containers_list_excludes(&list, 0, "000032"));
    assert_false(psti_containers_list_excludes(&list, 1, "x"));
    assert_int_equal(list.n_fields, 2);
    assert_string_equal(list.fields[1].name, "caption");
    assert_string_equal(list.fields[1].source, "json[caption]");
    psti_containers_list_close(&list);
    assert_fails("d", "val", PST_ERROR_NOT_FOUND, "no shard is meant");
    assert_fails("d", "dev", PST_ERROR_NOT_FOUND, "train, val, test");
    assert_fails("d::d/s/a.tar", NULL, PST_ERROR_UNSUPPORTED, "must be named alone");

    put("d/.nv-meta/split.yaml", "exclude: [s/a.tar]\nsplit_parts: {train: ['s/[ab].tar'], "
                                 "val: [s/c.tar], more: ['s/*.tar']}\n");
    assert_lists("d", "train", "d", "s/b.tar");
    assert_lists("d", "validation", "d", "s/c.tar");
    assert_lists("d", "more", "d", "s/b.tar s/c.tar");
    assert_lists("d", "all", "d", "s/b.tar s/c.tar");
    assert_fails("d", NULL, PST_ERROR_ARGUMENT, "train, val, more");
    put("d/.nv-meta/split.yaml", "split_parts: {train: [s/a.tar, s/x.tar]}\n");
    assert_fails("d", NULL, PST_ERROR_CORRUPT, "'s/x.tar' is no shard of");
    put("d/.nv-meta/split.yaml", "split_parts: {train: [s/a.tar, s/a.tar]}\n");
    assert_fails("d", NULL, PST_ERROR_CORRUPT, "stands twice in its split");
    put("d/.nv-meta/split.yaml", "split_parts: {train: s/a.tar}\n");
    assert_fails("d", NULL, PST_ERROR_CORRUPT, "must be a list");
    put("d/.nv-meta/split.yaml", "exclude: []\n");
    assert_fails("d", NULL, PST_ERROR_CORRUPT, "\"split_parts\" must be a map");
}

static void energon_is_not_trusted(void **state)
{
    (void)state;
    PUT("d/a.tar", "out.tar");
    put("d/.nv-meta/.info.yaml", "shard_counts:\n  a.tar: 3\n");
    assert_lists("d", NULL, "d", "a.tar");
    put("d/.nv-meta/dataset.yaml", "sample_loader: sample_loader.py:load\n");
    assert_fails("d", NULL, PST_ERROR_UNSUPPORTED, "'sample_loader.py:load', which is not run");
    put("d/.nv-meta/dataset.yaml", "field_map: {image: [jpg, png]}\n");
    assert_fails("d", NULL, PST_ERROR_CORRUPT, "one suffix");
    assert_int_equal(unlink("d/.nv-meta/dataset.yaml"), 0);
    static const char *const cases[][2] = {
        {"shard_counts: {../out.tar: 1}\n", "does not lie below"},
        {"shard_counts: {a.tar: 1, a.tar: 2}\n", "stands twice"},
        {"shard_counts: {a.tar: many}\n", "whole number"},
        {"shard_counts: [a.tar]\n", "must be a map"},
        {"other: 1\n", "must be a map"},
        {"shard_counts: {b.tar: 1}\n", "'b.tar'"},
        {"shard_counts: !x {}\n", "line 1: anchors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct psti_container_list list;
        struct pst_error err;
        const char *text = "d";
        put("d/.nv-meta/.info.yaml", cases[i][0]);
        assert_int_not_equal(psti_containers_list_open(&text, 1, NULL, &list, &err), PST_OK);
        if (strstr(err.text, cases[i][1]) == NULL)
            print_error("%s says: %s\n", cases[i][0], err.text);
        assert_non_null(strstr(err.text, cases[i][1]));
    }
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, root_set_up, root_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(paths_and_patterns_keep_their_order),
        TEST(what_cannot_be_read_is_refused),
        TEST(kind_is_told_by_the_first_bytes),
        TEST(splits_are_told_by_words),
        TEST(folders_of_splits_are_splits),
        TEST(indexes_beside_shards_are_found),
        TEST(wids_names_shards_below_it),
        TEST(energon_says_order_and_splits),
        TEST(energon_is_not_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
