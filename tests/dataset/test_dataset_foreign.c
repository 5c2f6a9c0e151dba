/* Guards against hazards: an archive, a file of records or an address is refused without advice on
 * what to do, a file is mistaken for another kind, or colour masks are opened silently. */
#include "folder_test.h"

#include "base/bits.h"
#include "base/crc32c.h"
#include "containers/containers_kinds.h"

#include <penstock/penstock.h>

#include <string.h>

static void advises(void **state, const char *path, const char *word, const char *page)
{
    struct pst_error err;
    pst_dataset *dataset;
    (void)state;
    const char *advice = pst_path_advice(path);
    assert_non_null(advice);
    assert_non_null(strstr(advice, word));
    assert_non_null(strstr(advice, page));
    assert_int_equal(pst_dataset_open(path, NULL, &dataset, &err), PST_ERROR_UNSUPPORTED);
    assert_string_equal(err.text, advice);
}

/* Expects that opening the path is refused with advice that contains `word`. */
static void refuses(const char *path, const char *word)
{
    struct pst_error err;
    pst_dataset *dataset;
    const char *advice = pst_path_advice(path);
    assert_non_null(advice);
    assert_non_null(strstr(advice, word));
    assert_int_not_equal(pst_dataset_open(path, NULL, &dataset, &err), PST_OK);
}

/* Expects an error without advice: a damaged file of a kind that Penstock reads in place is not
 * foreign. */
static void refuses_in_place(const char *path)
{
    struct pst_error err;
    pst_dataset *dataset;
    assert_null(pst_path_advice(path));
    assert_int_not_equal(pst_dataset_open(path, NULL, &dataset, &err), PST_OK);
    assert_string_not_equal(err.file, "");
}

static void by_name(void **state)
{
    static const struct {
        const char *name, *word, *page;
    } files[] = {
        {"a.h5", "HDF5", "from-records.md"},
        {"a.npz", "numpy", "from-records.md"},
        {"a.array_record", "ArrayRecord", "from-records.md"},
        {"a.vortex", "Vortex", "from-records.md"},
        {"shard.00001.mds.zstd", "compressed as a whole", "from-mosaic.md"},
        {"train-0.tfrecord.gz", "compressed as a whole", "from-tfdata.md"},
    };
    static const char *const read_in_place[] = {
        "a.tar",
        "a.zip",
        "train-00000-of-00002.parquet",
        "data.arrow",
        "a.feather",
        "a.tfrecord",
        "train.tfrecord-00003-of-00128",
        "train.rec",
        "data.mdb",
        "a.beton",
        "shard.00000.mds",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_null(pst_path_advice(folder_path(state, files[i].name))); /* there is no such file */
        advises(state, folder_text(state, files[i].name, "x"), files[i].word, files[i].page);
    }
    for (size_t i = 0; i < sizeof read_in_place / sizeof *read_in_place; i++)
        refuses_in_place(folder_text(state, read_in_place[i], "x"));
    refuses(folder_text(state, "s.TAR.GZ", "x"), "compressed tar");
}

static uint32_t masked_crc(const char length[8])
{
    uint32_t crc = psti_crc32c(0, length, 8);
    return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

/* The kind of a file is decided by its first bytes, not by its name. Only tars are recognised by
 * name, to avoid reading them. */
static void by_first_bytes(void **state)
{
    char tar[512] = {0};
    memcpy(tar + 257, "ustar", 5);
    advises(state, folder_file(state, "shard-0", tar, sizeof tar), "tar", "from-webdataset.md");
    advises(state, folder_file(state, "a.jpg", "PAR1....", 8), "Parquet", "from-huggingface.md");
    advises(state, folder_file(state, "a.bin", "PK\x03\x04....", 8), "zip", "from-zip.md");
    advises(state, folder_file(state, "b", "\x89HDF\r\n\x1a\n", 8), "HDF5", "from-records.md");
    /* A TFRecord begins with a length and its checksum. If the length does not fit the file, it is
     * no TFRecord. */
    char record[17] = {1, 0, 0, 0, 0, 0, 0, 0};
    psti_store_u32(record + 8, masked_crc(record));
    advises(state, folder_file(state, "train-0", record, sizeof record), "TFRecord",
            "from-tfdata.md");
    assert_null(pst_path_advice(folder_file(state, "short", record, 11)));
    record[0] = 2;
    assert_null(pst_path_advice(folder_file(state, "train-1", record, sizeof record)));
    refuses_in_place(folder_file(state, "s.tar.zip", "PK\x03\x04....", 8));
    assert_null(pst_path_advice(folder_text(state, "notes.txt", "ustar")));
    folder_mkdir(state, "photos.zip");
    assert_null(pst_path_advice(folder_path(state, "photos.zip")));
    assert_null(pst_path_advice(NULL));
    assert_false(pst_path_holds_samples(folder_path(state, "photos.zip")));
    assert_false(pst_path_holds_samples(folder_path(state, "a.jpg")));
    assert_false(pst_path_holds_samples(NULL));
    assert_true(pst_path_holds_samples(folder_text(state, "t.tar", "no tar")));
    assert_true(pst_path_holds_samples(folder_text(state, "t.parquet", "no Parquet")));
    assert_true(pst_path_holds_samples(folder_text(state, "index.json", "{}")));
}

static void addresses(void **state)
{
    advises(state, "s3://bucket/train", "object storage", "object-storage.md");
    advises(state, "https://host/a.pst/", "object storage", "object-storage.md");
    advises(state, "gs://bucket/train.tar", "object storage", "object-storage.md");
    advises(state, "hf://datasets/a/b", "Hugging Face", "from-huggingface.md");
    advises(state, "file:///data/train", "address", "leave out file://");
    assert_null(pst_path_advice("a:b"));
    assert_null(pst_path_advice("://x"));
}

static void folders_of_them(void **state)
{
    folder_text(state, "lmdb/data.mdb", "x");
    folder_text(state, "lmdb/lock.mdb", "x");
    if (psti_containers_kind(PSTI_CONTAINER_LMDB) == NULL) {
        const char *line = folder_open_fails(state, "lmdb", NULL, PST_ERROR_UNSUPPORTED);
        assert_non_null(strstr(line, "LMDB"));
    }
    folder_text(state, "both/train-0.tfrecord", "x");
    folder_text(state, "both/a.jpg", "x");
    /* the folder is opened for its images */
    pst_dataset *dataset = folder_open(state, "both", NULL);
    pst_dataset_close(&dataset);
}

/* Tests a mask with a PNG colour type: 0 gray, 2 RGB, 3 palette, 6 RGBA. */
static void mask(void **state, const char *name, uint8_t color)
{
    uint8_t head[33] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x8";
    head[25] = color;
    folder_file(state, name, head, sizeof head);
}

static void masks_in_colors(void **state)
{
    static const char jpeg[] = "\xff\xd8\xff\xe0\0\4ab\xff\xc0\0\x11\x8\0\1\0\1\3";
    struct pst_error err;
    struct pst_notice notice;
    folder_text(state, "f/images/a.jpg", "1");
    folder_text(state, "f/images/b.jpg", "1");
    folder_text(state, "f/images/c.jpg", "1");
    folder_text(state, "f/images/d.jpg", "1");
    mask(state, "f/masks/a.png", 3);
    mask(state, "f/masks/b.png", 2);
    mask(state, "f/masks/c.png", 0);
    mask(state, "f/masks/d.png", 6);
    folder_file(state, "f/masks_x/a.jpg", jpeg, sizeof jpeg);
    mask(state, "f/masks_x/b.png", 0);
    mask(state, "f/masks_x/c.png", 0);
    mask(state, "f/masks_x/d.png", 0);
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_n_notices(dataset), 2);
    assert_ok(pst_dataset_notice(dataset, 0, &notice, sizeof notice, &err));
    assert_int_equal(notice.kind, PST_NOTICE_MASK_IN_COLORS);
    assert_string_equal(notice.name, "mask");
    assert_string_equal(notice.first, "masks/b.png");
    assert_int_equal(notice.count, 2);
    assert_ok(pst_dataset_notice(dataset, 1, &notice, sizeof notice, &err));
    assert_string_equal(notice.first, "masks_x/a.jpg");
    pst_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_name, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(by_first_bytes, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(addresses, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(folders_of_them, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(masks_in_colors, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
