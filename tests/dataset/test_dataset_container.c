/* test_dataset_container.c - tests the index of containers made by other programs: reading back
 * what was written, late fields, missing values, files that changed, and an index with false
 * contents. */
#include "folder_test.h"

#include "base/bits.h"
#include "base/files/stamp.h"
#include "base/hash.h"
#include "containers/containers_writer.h"
#include "dataset/dataset.h"
#include "dataset/dataset_container.h"
#include "format/format_container.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_SAMPLES 5000 /* several blocks */

static const uint8_t options[16] = {7};
static struct pst_error err; /* error of the last call */

struct place {
    char *folder;
    char index[512];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    char pattern[] = "/tmp/test_container-XXXXXX";
    place->folder = strdup(mkdtemp(pattern));
    snprintf(place->index, sizeof place->index, "%s/index", place->folder);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", place->folder);
    assert_int_equal(system(command), 0);
    free(place->folder);
    free(place);
    return 0;
}

/* Writes a file. The `image` of sample i has 7 bytes at offset 512 + 16 i. Each sample has a label
 * and an array of i % 3 rows; from sample 100 on also a text, which is stored in the index. */
static void write_file(const struct place *place, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 512 + 16 * N_SAMPLES; i++)
        fputc(i * 31 >> 3 & 255, file);
    assert_int_equal(fclose(file), 0);
}

static uint64_t stamp_of(const struct place *place, const char *name)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    assert_int_equal(stat(path, &st), 0);
    return psti_stamp_make(&st, psti_stamp_has_inodes(path));
}

static void write_samples(struct psti_containers_writer *writer, uint64_t first, uint64_t n)
{
    static const struct pst_field text = {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1};
    uint32_t i_text = 3;
    for (uint64_t i = first; i < first + n; i++) {
        char name[32], words[32];
        snprintf(name, sizeof name, "dir/%06d", (int)i);
        snprintf(words, sizeof words, "number %d", (int)i);
        if (i == 100)
            assert_ok(psti_containers_writer_field(writer, &text, &i_text, &err));
        struct psti_container_value values[] = {
            {.i_field = 1, .int_value = (int64_t)i - 3, .facts = 1},
            {.i_field = 0, .offset = 512 + 16 * (i % N_SAMPLES), .nbytes = 7, .decoded_nbytes = 7},
            {.i_field = 2,
             .offset = 512 + 16 * (i % N_SAMPLES),
             .nbytes = 4 * (i % 3),
             .decoded_nbytes = 4 * (i % 3),
             .ndim = 2,
             .shape = {(uint32_t)(i % 3), 2}},
            {.i_field = 3,
             .bytes = words,
             .nbytes = strlen(words),
             .decoded_nbytes = strlen(words)}};
        assert_ok(psti_containers_writer_sample(writer, name, values, i < 100 ? 3 : 4, &err));
    }
}

static void begin(const struct place *place, struct psti_containers_writer **writer)
{
    static const struct pst_field fields[] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "label", .type = PST_FIELD_INT, .n_variants = 1},
        {.name = "array", .type = PST_FIELD_ARRAY, .dtype = PST_DTYPE_U16, .n_variants = 1}};
    uint32_t i_field;
    assert_ok(psti_containers_writer_open(place->index, writer, &err));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(psti_containers_writer_field(*writer, &fields[i], &i_field, &err));
        assert_int_equal(i_field, i);
    }
}

/* Writes an index of two files. The second file has 11 samples. */
static void write_index(const struct place *place)
{
    struct psti_containers_writer *writer;
    uint64_t nbytes = 512 + 16 * N_SAMPLES;
    write_file(place, "a.tar");
    write_file(place, "b.tar");
    begin(place, &writer);
    assert_ok(
        psti_containers_writer_file(writer, "a.tar", nbytes, stamp_of(place, "a.tar"), 1, &err));
    write_samples(writer, 0, N_SAMPLES);
    assert_ok(
        psti_containers_writer_file(writer, "b.tar", nbytes, stamp_of(place, "b.tar"), 2, &err));
    write_samples(writer, N_SAMPLES, 11);
    assert_ok(psti_containers_writer_finish(writer, PSTI_CONTAINER_TAR, options, &err));
    psti_containers_writer_close(&writer);
}

static enum pst_status open_it(const struct place *place, bool *fits, pst_dataset **dataset)
{
    char why[PST_ERROR_PATH_CAP];
    return psti_dataset_open_container_index(place->folder, place->folder, place->index,
                                             open(place->index, O_RDONLY), options, fits, why,
                                             dataset, &err);
}

static void test_round_trip(void **state)
{
    const struct place *place = *state;
    pst_dataset *dataset;
    bool fits;
    char name[PST_NAME_CAP], path[600], want[600], bytes[64];
    struct pst_item item;
    int64_t label;
    write_index(place);
    assert_ok(open_it(place, &fits, &dataset));
    assert_true(fits);
    assert_int_equal(pst_dataset_count(dataset), N_SAMPLES + 11);
    assert_int_equal(pst_dataset_n_files(dataset), 2);
    assert_int_equal(pst_dataset_n_fields(dataset), 4);
    assert_false(pst_dataset_is_folder(dataset));
    assert_false(pst_dataset_is_packed(dataset));
    for (uint64_t i = 0; i < N_SAMPLES + 11; i++) {
        uint64_t offset = 512 + 16 * (i % N_SAMPLES);
        snprintf(want, sizeof want, "dir/%06d", (int)i);
        assert_ok(pst_dataset_sample_name(dataset, i, name, &err));
        assert_string_equal(name, want);
        assert_ok(pst_dataset_int(dataset, i, 1, &label, &err));
        assert_int_equal(label, (int64_t)i - 3);
        assert_ok(pst_dataset_item(dataset, i, 0, 0, &item, sizeof item, &err));
        assert_int_equal(item.form, PST_FORM_NONE);
        assert_int_equal(item.i_file, i >= N_SAMPLES);
        assert_int_equal(item.offset, offset);
        assert_int_equal(item.nbytes, 7);
        assert_ok(pst_dataset_item(dataset, i, 2, 0, &item, sizeof item, &err));
        assert_int_equal(item.form, PST_FORM_BYTES);
        assert_int_equal(item.ndim, 2);
        assert_int_equal(item.shape[0], i % 3);
        assert_int_equal(item.shape[1], 2);
        assert_ok(pst_dataset_item(dataset, i, 3, 0, &item, sizeof item, &err));
        assert_int_equal(item.i_file, PST_FILE_NONE);
        assert_int_equal(item.form, i < 100 ? PST_FORM_NONE : PST_FORM_BYTES);
        if (i < 100)
            continue;
        snprintf(want, sizeof want, "number %d", (int)i);
        assert_int_equal(item.nbytes, strlen(want));
        assert_ok(pst_dataset_read(dataset, i, 3, 0, 0, item.nbytes, bytes, &err));
        assert_memory_equal(bytes, want, strlen(want));
    }
    assert_ok(pst_dataset_file_path(dataset, 1, path, sizeof path, &err));
    snprintf(want, sizeof want, "%s/b.tar", place->folder);
    assert_string_equal(path, want);
    assert_ok(pst_dataset_read(dataset, 2, 0, 0, 0, 7, bytes, &err));
    assert_int_equal((uint8_t)bytes[1], (512 + 33) * 31 >> 3 & 255);
    assert_ok(psti_dataset_check_index(dataset, &err));
    assert_ok(psti_dataset_check_identity(dataset, &err));
    pst_dataset_close(&dataset);
}

static void test_files_that_changed(void **state)
{
    const struct place *place = *state;
    char path[600];
    pst_dataset *dataset;
    bool fits;
    uint8_t bytes[7];
    write_index(place);
    assert_ok(open_it(place, &fits, &dataset));
    snprintf(path, sizeof path, "%s/b.tar", place->folder);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    /* A changed file is detected at the first read of an open data set, and when the index is
     * opened. */
    assert_ok(pst_dataset_read(dataset, 2, 0, 0, 0, 7, bytes, &err));
    assert_int_equal(pst_dataset_read(dataset, N_SAMPLES + 1, 0, 0, 0, 7, bytes, &err),
                     PST_ERROR_CORRUPT);
    assert_string_equal(err.file, path);
    pst_dataset_close(&dataset);
    assert_ok(open_it(place, &fits, &dataset));
    assert_false(fits);
    assert_null(dataset);
    assert_int_equal(unlink(path), 0);
    assert_ok(open_it(place, &fits, &dataset));
    assert_false(fits);
}

static void test_other_options(void **state)
{
    const struct place *place = *state;
    char why[PST_ERROR_PATH_CAP];
    const uint8_t others[16] = {8};
    pst_dataset *dataset;
    bool fits;
    write_index(place);
    assert_ok(psti_dataset_open_container_index(place->folder, place->folder, place->index,
                                                open(place->index, O_RDONLY), others, &fits, why,
                                                &dataset, &err));
    assert_false(fits);
    assert_null(dataset);
    assert_non_null(strstr(why, "options"));
}

/* Alters every byte of the header and some of the payload: the result is an error, or the same
 * values if the byte is padding. */
static void test_altered(void **state)
{
    const struct place *place = *state;
    write_index(place);
    int fd = open(place->index, O_RDWR);
    off_t end = lseek(fd, 0, SEEK_END);
    for (off_t at = 0; at < end; at += at < 300 ? 1 : 977) {
        uint8_t byte, other;
        pst_dataset *dataset;
        bool fits;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        other = byte ^ 0x41;
        assert_int_equal(pwrite(fd, &other, 1, at), 1);
        enum pst_status status = open_it(place, &fits, &dataset);
        if (status == PST_OK && fits)
            status = psti_dataset_check_index(dataset, &err);
        assert_int_not_equal(status, PST_OK);
        assert_string_equal(err.file, place->index);
        pst_dataset_close(&dataset);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(ftruncate(fd, end - 1), 0);
    pst_dataset *dataset;
    bool fits;
    assert_int_equal(open_it(place, &fits, &dataset), PST_ERROR_TRUNCATED);
    close(fd);
}

/* Forges an index with correct checksums but impossible contents: a path that leaves the folder, an
 * item outside its file. */
static void test_forged(void **state)
{
    const struct place *place = *state;
    struct psti_containers_writer *writer;
    pst_dataset *dataset;
    struct pst_item item;
    bool fits;
    write_file(place, "a.tar");
    for (int kind = 0; kind < 2; kind++) {
        begin(place, &writer);
        assert_ok(psti_containers_writer_file(writer, kind ? "a.tar" : "../a.tar", 700,
                                              stamp_of(place, "a.tar"), 1, &err));
        write_samples(writer, 0, 20);
        assert_ok(psti_containers_writer_finish(writer, PSTI_CONTAINER_TAR, options, &err));
        psti_containers_writer_close(&writer);
        enum pst_status status = open_it(place, &fits, &dataset);
        assert_int_equal(status, kind ? PST_OK : PST_ERROR_CORRUPT);
        if (kind) {
            assert_ok(pst_dataset_item(dataset, 0, 0, 0, &item, sizeof item, &err));
            assert_int_equal(pst_dataset_item(dataset, 12, 0, 0, &item, sizeof item, NULL),
                             PST_ERROR_CORRUPT);
            pst_dataset_close(&dataset);
        }
        assert_int_equal(unlink(place->index), 0);
    }
}

static void test_missing_number(void **state)
{
    const struct place *place = *state;
    static const struct pst_field late = {.name = "late", .type = PST_FIELD_INT, .n_variants = 1};
    struct psti_containers_writer *writer;
    uint32_t i_field;
    begin(place, &writer);
    assert_ok(psti_containers_writer_file(writer, "a.tar", 700, 1, 1, &err));
    write_samples(writer, 0, 20);
    assert_ok(psti_containers_writer_field(writer, &late, &i_field, &err));
    struct psti_container_value value = {.i_field = i_field}, label = {.i_field = 1};
    assert_ok(psti_containers_writer_sample(
        writer, "x", (struct psti_container_value[]){value, label}, 2, &err));
    assert_int_equal(psti_containers_writer_finish(writer, PSTI_CONTAINER_TAR, options, &err),
                     PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "late"));
    psti_containers_writer_close(&writer);
    assert_int_equal(access(place->index, F_OK), -1);
}

/* An optional int field is left out. The index keeps a notice of that, besides all other
 * notices. */
static void test_notices(void **state)
{
    const struct place *place = *state;
    static const struct pst_field late = {.name = "late", .type = PST_FIELD_INT, .n_variants = 1};
    struct psti_containers_writer *writer;
    struct pst_notice notice;
    pst_dataset *dataset;
    uint32_t i_field;
    bool fits;
    write_file(place, "a.tar");
    begin(place, &writer);
    assert_ok(psti_containers_writer_file(writer, "a.tar", 512 + 16 * N_SAMPLES,
                                          stamp_of(place, "a.tar"), 1, &err));
    psti_containers_writer_note(writer, PST_NOTICE_COLUMN, "taken back", "why", 1, NULL);
    psti_containers_writer_note(writer, PST_NOTICE_ROWS, "rows of others", NULL, 4, NULL);
    psti_containers_writer_note(writer, PST_NOTICE_COLUMN, "taken back", NULL, 0, NULL);
    write_samples(writer, 0, 20);
    assert_ok(psti_containers_writer_field(writer, &late, &i_field, &err));
    psti_containers_writer_optional(writer, i_field);
    struct psti_container_value value = {.i_field = i_field}, label = {.i_field = 1};
    assert_ok(psti_containers_writer_sample(
        writer, "x", (struct psti_container_value[]){value, label}, 2, &err));
    assert_ok(psti_containers_writer_finish(writer, PSTI_CONTAINER_TAR, options, &err));
    psti_containers_writer_close(&writer);
    assert_ok(open_it(place, &fits, &dataset));
    assert_true(fits);
    assert_int_equal(pst_dataset_find_field(dataset, "late"), -1);
    assert_int_equal(pst_dataset_n_notices(dataset), 2);
    assert_ok(pst_dataset_notice(dataset, 0, &notice, sizeof notice, &err));
    assert_string_equal(pst_notice_kind_name(notice.kind), "rows_left_out");
    assert_true(notice.count == 4 && strcmp(notice.first, "a.tar") == 0 && notice.why[0] == 0);
    assert_ok(pst_dataset_notice(dataset, 1, &notice, sizeof notice, &err));
    assert_string_equal(pst_notice_kind_name(notice.kind), "column_left_out");
    assert_string_equal(notice.name, "late");
    assert_string_equal(notice.why, "some samples have no value of it");
    assert_true(notice.count == 20 && strcmp(notice.first, "dir/000000") == 0);
    assert_int_equal(pst_dataset_notice(dataset, 2, &notice, sizeof notice, &err),
                     PST_ERROR_ARGUMENT);
    pst_dataset_close(&dataset);
}

/* Writing an index does not replace an existing file. */
static void test_index_is_there(void **state)
{
    const struct place *place = *state;
    struct psti_containers_writer *writer;
    write_index(place);
    begin(place, &writer);
    assert_ok(psti_containers_writer_file(writer, "a.tar", 700, 1, 1, &err));
    write_samples(writer, 0, 20);
    assert_int_not_equal(psti_containers_writer_finish(writer, PSTI_CONTAINER_TAR, options, NULL),
                         PST_OK);
    psti_containers_writer_close(&writer);
    assert_int_equal(access(place->index, F_OK), 0);
}

/* Names of all lengths can be read back, including those of the last group, which is not full. */
static void test_names(void **state)
{
    enum { N = 37 };
    const struct place *place = *state;
    struct psti_containers_writer *writer;
    pst_dataset *dataset;
    bool fits;
    char name[PST_NAME_CAP], got[PST_NAME_CAP];
    const struct psti_container_value label = {.i_field = 1};
    write_file(place, "a.tar");
    begin(place, &writer);
    assert_ok(psti_containers_writer_file(writer, "a.tar", 700, stamp_of(place, "a.tar"), 1, &err));
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < N; i++) {
            size_t n = i < 20 ? PST_NAME_CAP - 1 : i - 19;
            memset(name, 'a' + (int)(i % 26), n);
            name[n] = '\0';
            if (turn == 0) {
                assert_ok(psti_containers_writer_sample(writer, name, &label, 1, &err));
                continue;
            }
            assert_ok(pst_dataset_sample_name(dataset, i, got, &err));
            assert_string_equal(got, name);
        }
        if (turn == 1)
            break;
        assert_ok(psti_containers_writer_finish(writer, PSTI_CONTAINER_TAR, options, &err));
        psti_containers_writer_close(&writer);
        assert_ok(open_it(place, &fits, &dataset));
        assert_true(fits);
    }
    pst_dataset_close(&dataset);
}

/* An item and the offset of its name take at most 24 bytes in the index, or 28 if an item of the
 * field has a coding. All items can be read back. */
static void test_sizes(void **state)
{
    static const struct pst_field image = {
        .name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    const struct place *place = *state;
    write_file(place, "a.tar");
    for (uint64_t is_coded = 0; is_coded < 2; is_coded++) {
        struct psti_containers_writer *writer;
        pst_dataset *dataset;
        struct pst_item item;
        struct stat st;
        uint32_t i_field;
        bool fits;
        assert_ok(psti_containers_writer_open(place->index, &writer, &err));
        assert_ok(psti_containers_writer_field(writer, &image, &i_field, &err));
        assert_ok(psti_containers_writer_file(writer, "a.tar", 512 + 16 * N_SAMPLES,
                                              stamp_of(place, "a.tar"), 1, &err));
        for (uint64_t i = 0; i < N_SAMPLES; i++) {
            bool is_this = is_coded && i == N_SAMPLES / 2;
            const struct psti_container_value value = {.offset = 16 * i,
                                                       .nbytes = 8,
                                                       .decoded_nbytes = is_this ? 99 : 8,
                                                       .coding = is_this ? PSTI_CODING_DEFLATE
                                                                         : PSTI_CODING_STORED};
            char name[9];
            snprintf(name, sizeof name, "%08d", (int)i);
            assert_ok(psti_containers_writer_sample(writer, name, &value, 1, &err));
        }
        assert_ok(psti_containers_writer_finish(writer, PSTI_CONTAINER_TAR, options, &err));
        psti_containers_writer_close(&writer);
        assert_int_equal(stat(place->index, &st), 0);
        uint64_t each = is_coded ? 28 : 24;
        assert_true((uint64_t)st.st_size - 8 * N_SAMPLES <= each * N_SAMPLES);
        assert_ok(open_it(place, &fits, &dataset));
        for (uint64_t i = 0; i < N_SAMPLES; i++) {
            assert_ok(pst_dataset_item(dataset, i, 0, 0, &item, sizeof item, &err));
            assert_true(item.offset == 16 * i && item.nbytes == 8);
            bool is_this = is_coded && i == N_SAMPLES / 2;
            assert_int_equal(item.coding, is_this ? PST_CODING_DEFLATE : PST_CODING_STORED);
            assert_int_equal(item.decoded_nbytes, is_this ? 99 : 0);
        }
        pst_dataset_close(&dataset);
        assert_int_equal(unlink(place->index), 0);
    }
}

static void test_limits(void **state)
{
    const struct place *place = *state;
    struct psti_containers_writer *writer;
    begin(place, &writer);
    assert_ok(psti_containers_writer_file(writer, "a.tar", 700, 1, 1, &err));
    struct psti_container_value value = {
        .offset = PSTI_CONTAINER_OFFSET_LIMIT, .nbytes = 1, .decoded_nbytes = 1};
    assert_int_equal(psti_containers_writer_sample(writer, "x", &value, 1, NULL), PST_ERROR_LIMIT);
    value =
        (struct psti_container_value){.nbytes = PSTI_CONTAINER_NBYTES_LIMIT, .decoded_nbytes = 1};
    assert_int_equal(psti_containers_writer_sample(writer, "x", &value, 1, NULL), PST_ERROR_LIMIT);
    psti_containers_writer_close(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_that_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_options, setup, teardown),
        cmocka_unit_test_setup_teardown(test_altered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_number, setup, teardown),
        cmocka_unit_test_setup_teardown(test_notices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_index_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
