/* test_containers_kinds.c - is the kind of a file recognised by its name, and are the shards of
 * tables found, in the order of MosaicML's index too, but no other files beside them? The test
 * treats all kinds as readable. */
#include "test.h"

#include "containers/root_helper.h"
#include "containers/containers_kinds.h"
#include "containers/list/containers_list.h"

#include <string.h>
#include <unistd.h>

static enum pst_status walk(const struct psti_walk_source *source,
                            const struct psti_table_notes *notes,
                            struct psti_containers_columns *columns,
                            struct psti_walk_counts *counts, struct pst_error *err)
{
    (void)source, (void)notes, (void)columns, (void)counts;
    return psti_fail(err, PST_ERROR_INTERNAL, "test", "nothing is walked over here");
}

const struct psti_kind psti_containers_kinds[] = {
    {PSTI_CONTAINER_TAR, "tar", {".tar"}, {NULL}, true, NULL},
    {PSTI_CONTAINER_ZIP, "zip", {".zip"}, {NULL}, true, NULL},
    {PSTI_CONTAINER_PARQUET, "parquet", {".parquet"}, {NULL}, false, NULL}, /* not read */
    {PSTI_CONTAINER_ARROW, "arrow", {".arrow"}, {"dataset_info.json"}, false, walk},
    {PSTI_CONTAINER_MDS, "mds", {".mds"}, {"index.json"}, false, walk},
    {PSTI_CONTAINER_TFRECORD, "tfrecord", {".tfrecord", ".tfrec"}, {NULL}, false, walk},
    {PSTI_CONTAINER_LMDB, "lmdb", {".mdb", ".lmdb"}, {NULL}, false, walk},
    {PSTI_CONTAINER_NONE, NULL, {NULL}, {NULL}, false, NULL},
};

static void names_tell_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum psti_container_kind kind;
    } names[] = {
        {"a.tar", PSTI_CONTAINER_TAR},
        {"d.arrow/a.ZIP", PSTI_CONTAINER_ZIP},
        {"a.parquet", PSTI_CONTAINER_NONE},
        {"train/data-00000-of-00002.arrow", PSTI_CONTAINER_ARROW},
        {"shard.00000.mds", PSTI_CONTAINER_MDS},
        {"a.tfrecord", PSTI_CONTAINER_TFRECORD},
        {"a.TFREC", PSTI_CONTAINER_TFRECORD},
        {"mnist-train.tfrecord-00003-of-00010", PSTI_CONTAINER_TFRECORD},
        {"a.tfrec-1-of-2", PSTI_CONTAINER_TFRECORD},
        {"a.tfrecord-00003-of-", PSTI_CONTAINER_NONE},
        {"a.tfrecord-of-00010", PSTI_CONTAINER_NONE},
        {"a.tfrecord00003-of-00010", PSTI_CONTAINER_NONE},
        {"a.tfrecord-00003-of-00010.gz", PSTI_CONTAINER_NONE},
        {"a.arrow-00003-of-00010", PSTI_CONTAINER_NONE},
        {"a.tar-0-of-1", PSTI_CONTAINER_NONE},
        {"-0-of-1", PSTI_CONTAINER_NONE},
        {"0-of-1", PSTI_CONTAINER_NONE},
        {"data.mdb", PSTI_CONTAINER_LMDB},
        {"x.lmdb", PSTI_CONTAINER_LMDB},
        {"", PSTI_CONTAINER_NONE},
        {"mds", PSTI_CONTAINER_NONE},
        {"a.mds/b", PSTI_CONTAINER_NONE},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (psti_containers_kind_of_name(names[i].name) != names[i].kind)
            print_error("%s\n", names[i].name);
        assert_int_equal(psti_containers_kind_of_name(names[i].name), names[i].kind);
    }
    assert_null(psti_containers_kind(PSTI_CONTAINER_PARQUET));
    assert_null(psti_containers_kind(PSTI_CONTAINER_NONE));
    assert_string_equal(psti_containers_kind(PSTI_CONTAINER_MDS)->name, "mds");
    assert_true(psti_containers_is_beside("lock.mdb"));
    assert_true(psti_containers_is_beside("cache-0123.arrow"));
    assert_false(psti_containers_is_beside("cache-.mds"));
    assert_false(psti_containers_is_beside("cache.arrow"));
    assert_false(psti_containers_is_beside("data.mdb"));
    char line[200];
    struct psti_text text = {line, sizeof line, 0};
    psti_containers_kinds_say(&text, "*", " or ");
    assert_string_equal(line, "*.tar, *.zip, *.arrow, *.mds, *.tfrecord or *.mdb");
}

/* Lists the shards for one text and compares their paths and numbers of samples. "?" stands for a
 * wrong shard. */
static void assert_lists(const char *text, const char *split, enum psti_container_kind kind,
                         const char *want)
{
    struct psti_container_list list;
    struct pst_error err;
    char got[2000] = "";
    assert_true(psti_containers_list_is_meant(text));
    assert_ok(psti_containers_list_open(&text, 1, split, &list, &err));
    for (size_t i = 0; i < list.n_shards; i++) {
        size_t n = strlen(got);
        if (list.shards[i].n_samples < 0)
            snprintf(got + n, sizeof got - n, "%s%s", i > 0 ? " " : "", list.shards[i].path);
        else
            snprintf(got + n, sizeof got - n, "%s%s:%d", i > 0 ? " " : "", list.shards[i].path,
                     (int)list.shards[i].n_samples);
    }
    assert_string_equal(got, want);
    assert_int_equal(list.kind, kind);
    psti_containers_list_close(&list);
}

static void assert_fails(const char *text, enum pst_status status, const char *cause)
{
    struct psti_container_list list;
    struct pst_error err;
    enum pst_status got = psti_containers_list_open(&text, 1, NULL, &list, &err);
    if (got != status || strstr(err.text, cause) == NULL)
        print_error("'%s' says: %s: %s\n", text, pst_status_name(got), err.text);
    assert_int_equal(got, status);
    assert_non_null(strstr(err.text, cause));
    assert_null(list.shards);
}

static void folders_of_tables(void **state)
{
    (void)state;
    put("lsun/data.mdb", "");
    put("lsun/lock.mdb", "");
    assert_lists("lsun", NULL, PSTI_CONTAINER_LMDB, "data.mdb");
    put("hub/train/data-00000-of-00002.arrow", "");
    put("hub/train/data-00001-of-00002.arrow", "");
    put("hub/train/cache-9f.arrow", "");
    put("hub/train/state.json", "{}");
    put("hub/test/data-00000-of-00001.arrow", "");
    assert_lists("hub", "test", PSTI_CONTAINER_ARROW, "test/data-00000-of-00001.arrow");
    assert_lists("hub", "train", PSTI_CONTAINER_ARROW,
                 "train/data-00000-of-00002.arrow train/data-00001-of-00002.arrow");
    assert_fails("hub", PST_ERROR_ARGUMENT, "several splits");
    put("tfds/mnist-test.tfrecord-00000-of-00001", "");
    put("tfds/mnist-train.tfrecord-00000-of-00002", "");
    put("tfds/mnist-train.tfrecord-00001-of-00002", "");
    put("tfds/features.json", "{}");
    put("tfds/index.json", "no index");
    assert_lists("tfds", "train", PSTI_CONTAINER_TFRECORD,
                 "mnist-train.tfrecord-00000-of-00002 mnist-train.tfrecord-00001-of-00002");
    assert_lists("tfds/mnist-t*.tfrecord-*", "test", PSTI_CONTAINER_TFRECORD,
                 "mnist-test.tfrecord-00000-of-00001");
    put("both/a.mds", "");
    put("both/a.tfrec", "");
    assert_fails("both", PST_ERROR_ARGUMENT, "both *.mds and *.tfrecord");
    put("none/x.parquet", "");
    assert_false(psti_containers_list_is_meant("none"));
    assert_fails("none", PST_ERROR_NOT_FOUND, "no *.tar, no *.zip");
    put("photos/cat/1.jpg", "");
    put("photos/labels.arrow", "");
    put("photos/index.json", "{\"version\":2,\"shards\":[]}");
    assert_false(psti_containers_list_is_meant("photos"));
    put("web/index.json", "{\"name\":\"site\"}");
    assert_false(psti_containers_list_is_meant("web"));
}

#define SHARD(name, more)                                                                          \
    "{\"format\":\"mds\",\"samples\":7,\"raw_data\":{\"basename\":\"" name "\",\"bytes\":1}" more  \
    "}"
#define INDEX(shards) "{\"version\":2,\"shards\":[" shards "]}"

static void the_index_of_mosaic_tells_shards(void **state)
{
    (void)state;
    put("m/shard.00000.mds", "");
    put("m/shard.00001.mds", "");
    put("m/shard.00002.mds", "");
    assert_lists("m", NULL, PSTI_CONTAINER_MDS, "shard.00000.mds shard.00001.mds shard.00002.mds");
    /* The index gives the order and sizes of the shards. A shard that it does not name is left
     * out. */
    put("m/index.json",
        INDEX(SHARD("shard.00002.mds", ",\"compression\":null") "," SHARD("shard.00000.mds", "")));
    assert_lists("m", NULL, PSTI_CONTAINER_MDS, "shard.00002.mds:7 shard.00000.mds:7");
    assert_lists("m/index.json", NULL, PSTI_CONTAINER_MDS, "shard.00002.mds:7 shard.00000.mds:7");
    /* A merged index lies in the folder above the shards. */
    put("merged/00/shard.00000.mds", "");
    put("merged/01/shard.00000.mds", "");
    put("merged/index.json",
        INDEX(SHARD("00/shard.00000.mds", "") "," SHARD("01/shard.00000.mds", "")));
    assert_lists("merged", NULL, PSTI_CONTAINER_MDS, "00/shard.00000.mds:7 01/shard.00000.mds:7");
    put("s/train/index.json", INDEX(SHARD("a.mds", "")));
    put("s/train/a.mds", "");
    put("s/val/index.json", INDEX(SHARD("a.mds", "")));
    put("s/val/a.mds", "");
    assert_lists("s", "val", PSTI_CONTAINER_MDS, "val/a.mds:7");
    /* If the decompressed shard lies beside the compressed one, it is read. */
    put("z/a.mds.zstd", "");
    put("z/index.json", INDEX(SHARD("a.mds", ",\"compression\":\"zstd\"")));
    assert_fails("z", PST_ERROR_UNSUPPORTED, "compressed as a whole (zstd)");
    put("z/a.mds", "");
    assert_lists("z", NULL, PSTI_CONTAINER_MDS, "a.mds:7");
}

static void indexes_of_mosaic_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        enum pst_status status;
        const char *text;
    } bad[] = {
        {"{\"version\":3,\"shards\":[]}", PST_ERROR_UNSUPPORTED, "has version 3"},
        {"{\"version\":\"2\",\"shards\":[]}", PST_ERROR_UNSUPPORTED, "has version 2"},
        {INDEX("7"), PST_ERROR_CORRUPT, "a list of maps"},
        {INDEX("{}"), PST_ERROR_UNSUPPORTED, "the format 'none'"},
        {INDEX("{\"format\":\"json\"}"), PST_ERROR_UNSUPPORTED, "the format 'json'"},
        {INDEX("{\"format\":\"mds\"}"), PST_ERROR_CORRUPT, "\"samples\""},
        {INDEX("{\"format\":\"mds\",\"samples\":-1}"), PST_ERROR_CORRUPT, "\"samples\""},
        {INDEX("{\"format\":\"mds\",\"samples\":1}"), PST_ERROR_CORRUPT, "\"raw_data\""},
        {INDEX("{\"format\":\"mds\",\"samples\":1,\"raw_data\":{}}"), PST_ERROR_CORRUPT,
         "\"basename\""},
        {INDEX("{\"format\":\"mds\",\"samples\":1,\"raw_data\":{\"basename\":5}}"),
         PST_ERROR_CORRUPT, "must be a text"},
        {INDEX(SHARD("../out.mds", "")), PST_ERROR_UNSUPPORTED, "does not lie below"},
        {INDEX(SHARD("/etc/passwd", "")), PST_ERROR_UNSUPPORTED, "does not lie below"},
        {INDEX(SHARD("link.mds", "")), PST_ERROR_UNSUPPORTED, "a link that leads out"},
        {INDEX(SHARD("gone.mds", "")), PST_ERROR_NOT_FOUND, "gone.mds"},
        {INDEX(SHARD("a.mds", "") "," SHARD("a.mds", "")), PST_ERROR_ARGUMENT, "meant twice"},
        {"{\"version\":2,\"shards\":[", PST_ERROR_CORRUPT, ""},
    };
    put("out.mds", "");
    put("l/a.mds", "");
    assert_int_equal(symlink("../out.mds", "l/link.mds"), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("l/index.json", bad[i].index);
        assert_fails("l", bad[i].status, bad[i].text);
    }
    /* A file that is not such an index is ignored. */
    put("l/index.json", "{\"shards\":[]}");
    assert_lists("l", NULL, PSTI_CONTAINER_MDS, "a.mds link.mds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_tell_kinds, root_set_up, root_tear_down),
        cmocka_unit_test_setup_teardown(folders_of_tables, root_set_up, root_tear_down),
        cmocka_unit_test_setup_teardown(the_index_of_mosaic_tells_shards, root_set_up,
                                        root_tear_down),
        cmocka_unit_test_setup_teardown(indexes_of_mosaic_that_lie, root_set_up, root_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
