/* test_dataset_records.c - opens folders of MDS shards and of TFRecord files in place: are all
 * values those that the containers' own libraries read? The listings have the format of
 * tests/containers/table_print.h. */
#include "folder_test.h"

#include "base/inflate.h"
#include "containers/containers_kinds.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The table of container kinds is internal to src/containers, so this test has one of its own. */
psti_table_walk psti_containers_mds_walk, psti_containers_tfrecord_walk;

const struct psti_kind psti_containers_kinds[] = {
    {PSTI_CONTAINER_MDS, "mds", {".mds"}, {"index.json"}, false, psti_containers_mds_walk},
    {PSTI_CONTAINER_TFRECORD,
     "tfrecord",
     {".tfrecord"},
     {"features.json"},
     false,
     psti_containers_tfrecord_walk},
    {PSTI_CONTAINER_NONE, NULL, {NULL}, {NULL}, false, NULL},
};

static const char *golden = "tests/golden/containers";
static struct pst_error err; /* error of the last call */

struct listing {
    char text[1 << 16];
    size_t n;
};

static void note(struct listing *listing, const char *format, ...) PST_PRINTF(2, 3);
static void note(struct listing *listing, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(listing->text + listing->n, sizeof listing->text - listing->n, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof listing->text - listing->n);
    listing->n += (size_t)n;
}

/* Reads a golden file and adds a NUL behind it. */
static char *read_golden(const char *folder, const char *name, size_t *nbytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s", golden, folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        print_error("%s is missing\n", path);
    assert_non_null(file);
    char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *nbytes = fread(bytes, 1, (1 << 20) - 1, file);
    bytes[*nbytes] = '\0';
    fclose(file);
    return bytes;
}

/* Copies golden files into a folder of the test. */
static void copy(void **state, const char *from, const char *to, const char *const *names)
{
    for (; *names != NULL; names++) {
        char path[256];
        size_t nbytes = 0;
        char *bytes = read_golden(from, *names, &nbytes);
        snprintf(path, sizeof path, "%s/%s", to, *names);
        folder_file(state, path, bytes, nbytes);
        free(bytes);
    }
}

static void list_item(struct listing *listing, const pst_dataset *dataset, uint64_t i,
                      uint32_t i_field)
{
    const struct pst_field *field = pst_dataset_field(dataset, i_field);
    struct pst_item item;
    assert_ok(pst_dataset_item(dataset, i, i_field, 0, &item, sizeof item, &err));
    if (item.form == PST_FORM_NONE && item.nbytes == 0)
        return;
    uint8_t *bytes = malloc((size_t)item.nbytes + 1);
    assert_non_null(bytes);
    if (item.nbytes > 0)
        assert_ok(pst_dataset_read(dataset, i, i_field, 0, 0, (size_t)item.nbytes, bytes, &err));
    note(listing, "  %s %s ", field->name, pst_field_type_name(field->type));
    if (field->type == PST_FIELD_ARRAY)
        note(listing, "%s ", pst_dtype_name(field->dtype));
    for (uint8_t k = 0; k < item.ndim; k++)
        note(listing, "%s%u", k > 0 ? "x" : "", item.shape[k]);
    if (field->type != PST_FIELD_ARRAY)
        note(listing, "%" PRIu64, item.nbytes);
    note(listing, " %08x\n", psti_crc32(0, bytes, (size_t)item.nbytes));
    free(bytes);
}

/* Lists a data set, with its fields sorted by name. */
static void list(struct listing *listing, const pst_dataset *dataset)
{
    uint32_t order[PST_MAX_FIELDS], n_fields = pst_dataset_n_fields(dataset);
    for (uint32_t i = 0; i < n_fields; i++) {
        const char *name = pst_dataset_field(dataset, i)->name;
        uint32_t k = i;
        for (; k > 0 && strcmp(pst_dataset_field(dataset, order[k - 1])->name, name) > 0; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (uint64_t i = 0; i < pst_dataset_count(dataset); i++) {
        note(listing, "%s\n", folder_sample_name(dataset, i));
        for (uint32_t k = 0; k < n_fields; k++) {
            const struct pst_field *field = pst_dataset_field(dataset, order[k]);
            int64_t whole = 0;
            double real = 0;
            if (field->type == PST_FIELD_INT) {
                assert_ok(pst_dataset_int(dataset, i, order[k], &whole, &err));
                note(listing, "  %s int %" PRId64 "\n", field->name, whole);
            } else if (field->type == PST_FIELD_FLOAT) {
                assert_ok(pst_dataset_float(dataset, i, order[k], &real, &err));
                note(listing, "  %s float %.9g\n", field->name, real);
            } else {
                list_item(listing, dataset, i, order[k]);
            }
        }
    }
}

/* Opens a folder twice, first without an index and then with it, and compares its listing with the
 * golden one. */
static void assert_reads(void **state, const char *folder, const struct pst_member_rule *rule,
                         const char *from, const char *expected)
{
    size_t n_expected = 0;
    char *want = read_golden(from, expected, &n_expected);
    struct listing *listing = malloc(sizeof *listing);
    assert_non_null(listing);
    for (int i = 0; i < 2; i++) {
        struct pst_dataset_options options = {.struct_size = sizeof options};
        options.members = rule;
        options.n_members = rule != NULL;
        pst_dataset *dataset = NULL;
        assert_ok(pst_dataset_open(folder_path(state, folder), &options, &dataset, &err));
        listing->n = 0;
        list(listing, dataset);
        assert_string_equal(listing->text, want);
        pst_dataset_close(&dataset);
    }
    free(listing);
    free(want);
}

static void mds(void **state)
{
    static const char *const files[] = {"index.json", "shard.00000.mds", "shard.00001.mds", NULL};
    copy(state, "mds/all", "data", files);
    assert_reads(state, "data", NULL, "mds/all", "expected.txt");
    /* The shards give the same listing without index.json, which was lost. */
    copy(state, "mds/all", "lost", files + 1);
    assert_reads(state, "lost", NULL, "mds/all", "expected.txt");
}

static void imagenet(void **state)
{
    static const char *const files[] = {"imagenet-00000-of-00002.tfrecord",
                                        "imagenet-00001-of-00002.tfrecord", NULL};
    copy(state, "tfrecord", "data", files);
    assert_reads(state, "data", NULL, "tfrecord", "imagenet.txt");
}

static void tfds(void **state)
{
    static const char *const files[] = {"features.json", "dataset_info.json",
                                        "probe-train.tfrecord-00000-of-00001", NULL};
    struct pst_member_rule out = {.suffix = "packed", .is_left_out = true};
    copy(state, "tfrecord/tfds", "data", files);
    assert_reads(state, "data", &out, "tfrecord/tfds", "expected.txt");
    pst_dataset *dataset = NULL;
    assert_int_equal(pst_dataset_open(folder_path(state, "data"), NULL, &dataset, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "zlib"));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        golden = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mds, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(imagenet, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(tfds, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
