/* Guards against a hazard: keypoints lose their left-right pairs, or get wrong ones: at finish,
 * append, resume, pack and repack, or from a forged index. */
#include "writer/writer_fixture.h"

#include "base/bits.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

enum { POINTS = 5 };
static const char *const names[POINTS] = {"nose", "left_eye", "right_eye", "left_hip", "right_hip"};
static const uint32_t pairs[] = {1, 2, 4, 3};
static const uint32_t others[] = {1, 2, 3, 0};

struct place {
    char *directory;
    char set[512], copy[512];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    place->directory = fixture_directory();
    snprintf(place->set, sizeof place->set, "%s/set", place->directory);
    snprintf(place->copy, sizeof place->copy, "%s/copy", place->directory);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    fixture_remove(place->directory);
    free(place);
    return 0;
}

static struct pst_field field_of(uint64_t n_pairs_plus_1)
{
    return (struct pst_field){.name = "points",
                              .type = PST_FIELD_KEYPOINTS,
                              .n_variants = 1,
                              .n_classes = POINTS,
                              .n_pairs_plus_1 = n_pairs_plus_1};
}

static enum pst_status add(pst_writer *writer, const char *name, uint32_t n, struct pst_error *err)
{
    float points[3 * 2 * POINTS] = {0};
    const struct pst_value value = {.bytes = points, .nbytes = n * 3 * sizeof(float)};
    const struct pst_value *values[] = {&value};
    const struct pst_sample sample = {
        .struct_size = sizeof sample, .name = name, .values = values, .value_nbytes = sizeof value};
    return pst_writer_add(writer, &sample, err);
}

static pst_writer *open_writer(const char *path, enum pst_writer_mode mode, uint64_t stated)
{
    struct pst_error err;
    pst_writer *writer;
    const struct pst_field field = field_of(stated);
    const struct pst_writer_options options = fixture_options(mode);
    assert_ok(pst_writer_open(path, &field, 1, &options, &writer, &err));
    return writer;
}

static void make(const char *path)
{
    struct pst_error err;
    pst_writer *writer = open_writer(path, PST_WRITER_CREATE, 3);
    assert_ok(pst_writer_set_class_names(writer, 0, names, POINTS, &err));
    assert_ok(pst_writer_set_point_pairs(writer, 0, pairs, 2, &err));
    assert_ok(add(writer, "a", 2 * POINTS, &err));
    assert_ok(add(writer, "none", 0, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
}

static void check(const char *path, uint64_t n)
{
    struct pst_error err;
    pst_dataset *dataset;
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), n);
    assert_int_equal(pst_dataset_field(dataset, 0)->n_pairs_plus_1, 3);
    assert_memory_equal(pst_dataset_point_pairs(dataset, 0), pairs, sizeof pairs);
    assert_null(pst_dataset_point_pairs(dataset, 1));
    for (int64_t i = 0; i < POINTS; i++)
        assert_string_equal(pst_dataset_class_name(dataset, 0, i), names[i]);
    pst_dataset_close(&dataset);
}

static void round_trip_append_and_copy(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    make(place->set);
    check(place->set, 2);
    pst_writer *writer = open_writer(place->set, PST_WRITER_APPEND, 3);
    assert_int_equal(pst_writer_set_point_pairs(writer, 0, others, 2, &err), PST_ERROR_ARGUMENT);
    assert_ok(pst_writer_set_point_pairs(writer, 0, pairs, 2, &err));
    assert_ok(add(writer, "b", POINTS, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    check(place->set, 3);
    struct pst_pack_report report;
    assert_ok(pst_pack(place->set, place->copy, NULL, &report, sizeof report, &err));
    check(place->copy, 3);
}

/* An append does not state the pairs, so the data set's own count. */
static void append_without_statement(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    make(place->set);
    const struct pst_field plain = {.name = "points", .type = PST_FIELD_KEYPOINTS, .n_variants = 1};
    const struct pst_writer_options options = fixture_options(PST_WRITER_APPEND);
    pst_writer *writer;
    assert_ok(pst_writer_open(place->set, &plain, 1, &options, &writer, &err));
    assert_int_equal(add(writer, "b", POINTS + 1, &err), PST_ERROR_ARGUMENT);
    assert_ok(add(writer, "b", POINTS, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    check(place->set, 3);
}

/* The journal keeps names and pairs if the writer is closed before it finishes. */
static void resume(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    pst_writer *writer = open_writer(place->set, PST_WRITER_CREATE, 3);
    assert_ok(pst_writer_set_class_names(writer, 0, names, POINTS, &err));
    assert_ok(pst_writer_set_point_pairs(writer, 0, pairs, 2, &err));
    assert_ok(add(writer, "a", POINTS, &err));
    pst_writer_close(&writer);
    const struct pst_writer_options options = fixture_options(PST_WRITER_RESUME);
    assert_ok(pst_writer_open(place->set, NULL, 0, &options, &writer, &err));
    assert_int_equal(pst_writer_count(writer), 1);
    assert_ok(add(writer, "b", POINTS, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    check(place->set, 2);
}

static void wrong_pairs(void **state)
{
    static const uint32_t twice[] = {1, 2, 2, 3}, same[] = {1, 1, 2, 3}, beyond[] = {1, 2, 3, 5};
    struct place *place = *state;
    struct pst_error err;
    pst_writer *writer = open_writer(place->set, PST_WRITER_CREATE, 3);
    /* this writer's pairs have not been stated yet */
    assert_int_equal(add(writer, "a", POINTS, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "pst_writer_set_point_pairs"));
    assert_int_equal(pst_writer_set_point_pairs(writer, 0, twice, 2, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_writer_set_point_pairs(writer, 0, same, 2, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_writer_set_point_pairs(writer, 0, beyond, 2, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_writer_set_point_pairs(writer, 0, pairs, 1, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_writer_set_point_pairs(writer, 1, pairs, 2, &err), PST_ERROR_ARGUMENT);
    pst_writer_close(&writer);
    struct pst_field many = field_of(2 + POINTS / 2);
    const struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    assert_int_equal(pst_writer_open(place->set, &many, 1, &options, &writer, &err),
                     PST_ERROR_ARGUMENT);
    many = field_of(0);
    many.n_classes = PST_MAX_POINTS + 1;
    assert_int_equal(pst_writer_open(place->set, &many, 1, &options, &writer, &err),
                     PST_ERROR_ARGUMENT);
}

/* An index with correct checksums and wrong pairs is refused. */
static void forged_pairs(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    pst_dataset *dataset;
    char path[600];
    size_t nbytes;
    make(place->set);
    snprintf(path, sizeof path, "%s/index.pst", place->set);
    for (int round = 0; round < 3; round++) {
        uint8_t *bytes = fixture_read_file(path, &nbytes);
        uint8_t *field = bytes + psti_load_u64(bytes + 56), *held = malloc(nbytes);
        memcpy(held, bytes, nbytes);
        uint64_t at = psti_load_u64(field + 184), blocks = psti_load_u64(bytes + 96);
        assert_int_equal(psti_load_u16(bytes + 10), 4);
        if (round == 0)
            psti_store_u32(bytes + at, 77);
        else if (round == 1)
            psti_store_u64(field + 184, nbytes);
        else
            psti_store_u64(field + 176, 1 + ((uint64_t)1 << 32));
        psti_store_u64(bytes + blocks, psti_hash64(bytes + 4096, (size_t)blocks - 4096));
        psti_store_u64(bytes + 112, psti_hash64(bytes + blocks, 8));
        psti_store_u64(bytes + 4088, psti_hash64(bytes, 4088));
        fixture_write_file(path, bytes, nbytes);
        assert_int_equal(pst_dataset_open(place->set, NULL, &dataset, &err), PST_ERROR_CORRUPT);
        fixture_write_file(path, held, nbytes);
        free(bytes);
        free(held);
    }
    check(place->set, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip_append_and_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(append_without_statement, setup, teardown),
        cmocka_unit_test_setup_teardown(resume, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_pairs, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
