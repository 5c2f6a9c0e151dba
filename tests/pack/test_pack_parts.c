/* test_pack_parts.c - tests packing in parts. Any number of parts gives the bytes that one process
 * makes, also if samples are bad or shards grow. Merges come repeatedly, too early or too late;
 * plans do not fit; files are damaged. */
#include "folder_pack.h"

#include "writer/writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_IMAGES = 17, SHARD_NBYTES = 800 };

static const struct pst_writer_options small = {.struct_size = sizeof small,
                                                .shard_nbytes = SHARD_NBYTES};

static int leave_out(void *ctx, const char *name, const struct pst_error *err)
{
    (void)ctx, (void)name, (void)err;
    return 0;
}

/* Packs "f" to `to`, or a part of it. */
static enum pst_status pack(void **state, const char *to, struct pst_pack_options options,
                            struct pst_pack_report *report, struct pst_error *err)
{
    char from[4096], path[4096];
    options.struct_size = sizeof options;
    options.num_workers = 2;
    options.bad_sample = leave_out;
    if (options.writer == NULL)
        options.writer = &small;
    snprintf(from, sizeof from, "%s", folder_path(state, "f"));
    snprintf(path, sizeof path, "%s", folder_path(state, to));
    pst_error_clear(err);
    return pst_pack(from, path, &options, report, sizeof *report, err);
}

static void pack_part(void **state, const char *to, struct pst_pack_options options, uint32_t part,
                      uint32_t n_parts, struct pst_pack_report *report)
{
    struct pst_error err;
    options.part = part;
    options.n_parts = n_parts;
    assert_ok(pack(state, to, options, report, &err));
}

static enum pst_status merge(void **state, const char *path, struct pst_pack_report *report,
                             struct pst_error *err)
{
    pst_error_clear(err);
    return pst_merge(folder_path(state, path), NULL, NULL, report, sizeof *report, err);
}

static uint8_t *read_file(void **state, const char *folder, const char *name, size_t *nbytes)
{
    char relative[600];
    struct stat st;
    snprintf(relative, sizeof relative, "%s/%s", folder, name);
    int fd = open(folder_path(state, relative), O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
    *nbytes = (size_t)st.st_size;
    uint8_t *bytes = malloc(*nbytes + 1);
    assert_non_null(bytes);
    assert_true(read(fd, bytes, *nbytes) == (ssize_t)*nbytes);
    close(fd);
    return bytes;
}

/* Compares all files of two data sets. Returns their number. */
static int assert_same_files(void **state, const char *a, const char *b)
{
    int n[2] = {0};
    for (int side = 0; side < 2; side++) {
        DIR *list = opendir(folder_path(state, side == 0 ? a : b));
        const struct dirent *entry;
        assert_non_null(list);
        while ((entry = readdir(list)) != NULL) {
            size_t n_a, n_b;
            if (entry->d_name[0] == '.')
                continue;
            n[side]++;
            uint8_t *bytes_a = read_file(state, a, entry->d_name, &n_a);
            uint8_t *bytes_b = read_file(state, b, entry->d_name, &n_b);
            assert_int_equal(n_a, n_b);
            assert_memory_equal(bytes_a, bytes_b, n_a);
            free(bytes_a);
            free(bytes_b);
        }
        closedir(list);
    }
    assert_int_equal(n[0], n[1]);
    return n[0];
}

static void verify(void **state, const char *path, uint64_t n_samples)
{
    const struct pst_verify_options options = {.struct_size = sizeof options, .decode = true};
    struct pst_verify_report report;
    struct pst_error err;
    assert_ok(pst_verify(folder_path(state, path), &options, &report, sizeof report, &err));
    assert_int_equal(report.n_samples, n_samples);
}

/* Packs in n parts, in mixed order, and merges. */
static void pack_by(void **state, const char *to, struct pst_pack_options options, uint32_t n)
{
    struct pst_pack_report report;
    struct pst_error err;
    for (uint32_t i = n; i-- > 0;)
        pack_part(state, to, options, (i + n / 2) % n + 1, n, &report);
    assert_ok(merge(state, to, &report, &err));
}

static void same_bytes_for_any_number_of_parts(void **state)
{
    static const enum pst_form raw = PST_FORM_RAW, pli[2] = {PST_FORM_PLI, PST_FORM_NONE};
    const struct pst_pack_options ways[] = {
        {.writer = &small}, {.forms = &raw, .n_forms = 1}, {.forms = pli, .n_forms = 2}};
    char one[32], many[32];
    struct pst_pack_report report;
    struct pst_error err;
    make_folder(state, "f", N_IMAGES);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        snprintf(one, sizeof one, "one%zu", w);
        assert_ok(pack(state, one, ways[w], &report, &err));
        for (uint32_t n = 1; n <= 40; n = n < 4 ? n + 1 : n * 10) {
            snprintf(many, sizeof many, "many%zu-%u", w, n);
            pack_by(state, many, ways[w], n);
            assert_true(assert_same_files(state, one, many) > 4);
        }
        verify(state, one, N_IMAGES);
    }
}

/* Samples that cannot be stored shift the numbers of all later ones; a planned shard may be left
 * without samples. */
static void bad_samples_shift_numbers(void **state)
{
    struct pst_pack_report report;
    struct pst_error err;
    char name[64];
    make_folder(state, "f", N_IMAGES);
    for (int i = 0; i < 9; i++) {
        /* name that sorts between 00.png and 03.png */
        snprintf(name, sizeof name, "f/a/00%d.png", i);
        folder_text(state, name, i < 8 ? "no image, but long enough to fill a planned shard" : "");
    }
    const struct pst_writer_options tiny = {.struct_size = sizeof tiny, .shard_nbytes = 400};
    const struct pst_pack_options options = {.writer = &tiny};
    assert_ok(pack(state, "one", options, &report, &err));
    assert_int_equal(report.n_bad, 9);
    assert_int_equal(report.n_samples, N_IMAGES);
    pack_by(state, "two", options, 2);
    assert_same_files(state, "one", "two");
    pack_by(state, "five", options, 5);
    assert_same_files(state, "one", "five");
    verify(state, "five", N_IMAGES);
}

/* A shard that is packed is not packed again by another part, even if the number of parts
 * changes. */
static void parts_go_on(void **state)
{
    struct pst_pack_report report;
    struct pst_error err;
    const struct pst_pack_options options = {.writer = &small};
    make_folder(state, "f", N_IMAGES);
    assert_ok(pack(state, "one", options, &report, &err));
    assert_ok(pack(state, "d", (struct pst_pack_options){.prepare = true}, &report, &err));
    uint32_t n_shards = report.n_shards;
    assert_true(n_shards > 4);
    assert_ok(pack(state, "d", (struct pst_pack_options){.prepare = true}, &report, &err));
    assert_int_equal(report.n_shards, n_shards);
    pack_part(state, "d", options, 2, 3, &report);
    uint32_t n_first = report.n_shards;
    assert_int_equal(report.n_shards_before, 0);
    assert_true(report.n_samples > 0 && report.n_resumed == 0);
    pack_part(state, "d", options, 2, 3, &report);
    assert_int_equal(report.n_shards_before, n_first);
    assert_int_equal(report.n_resumed, report.n_samples);
    assert_int_equal(merge(state, "d", &report, &err), PST_ERROR_INCOMPLETE);
    assert_non_null(strstr(err.text, "the first of them is number 0"));
    folder_open_fails(state, "d", NULL, PST_ERROR_INCOMPLETE);
    pack_part(state, "d", options, 1, 1, &report);
    assert_int_equal(report.n_shards, n_shards);
    assert_int_equal(report.n_shards_before, n_first);
    assert_ok(merge(state, "d", &report, &err));
    assert_int_equal(report.n_samples, N_IMAGES);
    assert_int_equal(report.n_resumed, 0);
    assert_same_files(state, "one", "d");
    assert_ok(merge(state, "d", &report, &err));
    assert_int_equal(report.n_resumed, N_IMAGES);
    assert_same_files(state, "one", "d");
}

/* Two processes pack one planned shard; one of them continues only after the merge. */
static void late_processes_change_nothing(void **state)
{
    struct psti_writer_parts *late = NULL;
    struct pst_pack_report report;
    struct pst_error err;
    pst_writer *writer = NULL;
    const struct pst_pack_options options = {.writer = &small};
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    make_folder(state, "f", N_IMAGES);
    assert_ok(pack(state, "one", options, &report, &err));
    pack_part(state, "d", options, 1, 2, &report);
    size_t nbytes;
    uint8_t *bytes = read_file(state, "d", PSTI_PARTS_NAME, &nbytes);
    struct psti_parts plan;
    assert_ok(psti_format_parse_parts(bytes, nbytes, &plan, &err));
    uint64_t *first = malloc(8 * (size_t)plan.n_shards);
    assert_non_null(first);
    for (uint32_t i = 0; i < plan.n_shards; i++)
        first[i] = psti_format_parts_first(bytes, &plan, i);
    assert_ok(psti_writer_parts_open(folder_path(state, "d"), &plan, first, &late, &err));
    assert_ok(psti_writer_parts_begin(late, 1, &field, 1, &small, &writer, &err));
    pack_part(state, "d", options, 2, 2, &report);
    /* Too late for the shard: the shard of the other process stays. This writer's shard has no
     * sample, so the test would notice if it replaced the other. */
    assert_ok(psti_writer_parts_end(late, 1, &writer, &err));
    assert_ok(psti_writer_parts_begin(late, 0, &field, 1, &small, &writer, &err));
    assert_ok(merge(state, "d", &report, &err));
    assert_same_files(state, "one", "d");
    /* Too late for the data set: the merge has removed the folder of this plan. It would also be
     * gone if the data set had been removed and begun again. */
    assert_int_not_equal(psti_writer_parts_end(late, 0, &writer, &err), PST_OK);
    psti_writer_parts_undo(late, &writer);
    assert_int_not_equal(psti_writer_parts_begin(late, 0, &field, 1, &small, &writer, &err),
                         PST_OK);
    assert_same_files(state, "one", "d");
    psti_writer_parts_close(&late);
    free(first);
    free(bytes);
}

static void expect(void **state, struct pst_pack_options options, enum pst_status status,
                   const char *text)
{
    struct pst_pack_report report;
    struct pst_error err;
    assert_int_equal(pack(state, "d", options, &report, &err), status);
    if (strstr(err.text, text) == NULL)
        fail_msg("\"%s\" is not in: %s", text, err.text);
}

static void plans_that_do_not_fit(void **state)
{
    static const enum pst_form raw = PST_FORM_RAW;
    const struct pst_writer_options larger = {.struct_size = sizeof larger, .shard_nbytes = 9000};
    const struct pst_writer_options resume = {
        .struct_size = sizeof resume, .mode = PST_WRITER_RESUME, .shard_nbytes = SHARD_NBYTES};
    struct pst_pack_report report;
    struct pst_error err;
    make_folder(state, "f", N_IMAGES);
    assert_int_equal(merge(state, "f", &report, &err), PST_ERROR_NOT_FOUND);
    assert_int_equal(merge(state, "nothing", &report, &err), PST_ERROR_NOT_FOUND);
    pack_part(state, "d", (struct pst_pack_options){.writer = &small}, 1, 2, &report);
    expect(state, (struct pst_pack_options){.part = 1, .n_parts = 2, .forms = &raw, .n_forms = 1},
           PST_ERROR_ARGUMENT, "with other options");
    expect(state, (struct pst_pack_options){.part = 1, .n_parts = 2, .writer = &larger},
           PST_ERROR_ARGUMENT, "with other options");
    expect(state, (struct pst_pack_options){.part = 3, .n_parts = 2}, PST_ERROR_ARGUMENT,
           "part is 3 of n_parts 2");
    expect(state, (struct pst_pack_options){.n_parts = 2}, PST_ERROR_ARGUMENT, "count from 1");
    expect(state, (struct pst_pack_options){.part = 1, .n_parts = 2, .prepare = true},
           PST_ERROR_ARGUMENT, "prepare");
    expect(state, (struct pst_pack_options){.part = 1, .prepare = true}, PST_ERROR_ARGUMENT,
           "prepare");
    expect(state, (struct pst_pack_options){.part = 1, .n_parts = 2, .writer = &resume},
           PST_ERROR_ARGUMENT, "only a new data set");
    expect(state, (struct pst_pack_options){.writer = &small}, PST_ERROR_INCOMPLETE,
           "packed in parts");
    expect(state, (struct pst_pack_options){.writer = &resume}, PST_ERROR_INCOMPLETE,
           "packed in parts");
    make_png(state, "f/c/new.png", 9, 9, 3, 5);
    expect(state, (struct pst_pack_options){.part = 2, .n_parts = 2}, PST_ERROR_ARGUMENT,
           "of another source");
    unlink(folder_path(state, "f/c/new.png"));
    pack_part(state, "d", (struct pst_pack_options){.writer = &small}, 2, 2, &report);
    assert_ok(merge(state, "d", &report, &err));
    expect(state, (struct pst_pack_options){.part = 1, .n_parts = 2}, PST_ERROR_EXISTS,
           "a finished data set");
    expect(state, (struct pst_pack_options){.prepare = true}, PST_ERROR_EXISTS,
           "a finished data set");
}

/* Two parts whose classes have different names would make a data set with the names of only one. */
static void renamed_classes_are_another_source(void **state)
{
    struct pst_pack_report report;
    struct pst_error err;
    char labels[4096];
    make_png(state, "f/1.png", 20, 20, 3, 1);
    make_png(state, "f/2.png", 20, 20, 3, 2);
    snprintf(labels, sizeof labels, "%s",
             folder_text(state, "labels.csv", "file,label\n1.png,cat\n2.png,dog\n"));
    const struct pst_dataset_options source = {.struct_size = sizeof source, .labels = labels};
    const struct pst_pack_options options = {.writer = &small, .source = &source};
    pack_part(state, "d", options, 1, 2, &report);
    folder_text(state, "labels.csv", "file,label\n1.png,cow\n2.png,dog\n");
    expect(state, (struct pst_pack_options){.part = 2, .n_parts = 2, .source = &source},
           PST_ERROR_ARGUMENT, "of another source");
    folder_text(state, "labels.csv", "file,label\n1.png,cat\n2.png,dog\n");
    pack_part(state, "d", options, 2, 2, &report);
    assert_ok(merge(state, "d", &report, &err));
    assert_int_equal(report.n_samples, 2);
}

/* Finds the folder of planned shards. */
static void find_folder(void **state, const char *path, char out[300])
{
    DIR *list = opendir(folder_path(state, path));
    const struct dirent *entry;
    assert_non_null(list);
    out[0] = '\0';
    while ((entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, PSTI_PARTS_FOLDER_PREFIX, 6) == 0)
            snprintf(out, 300, "%s/%.200s", path, entry->d_name);
    closedir(list);
    assert_true(out[0] != '\0');
}

static void flip(void **state, const char *relative, off_t at)
{
    uint8_t byte = 0;
    int fd = open(folder_path(state, relative), O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* Damage in a plan, an index or a record, or a wrong length, is detected before anything is
 * merged. */
static void damage_is_found(void **state)
{
    static const struct {
        const char *file;
        off_t at; /* -1: the file is truncated */
    } places[] = {{"parts.pst", 50},
                  {"shard-00001/index.pst", 40},
                  {"shard-00001/index.pst", 4200},
                  {"shard-00001/shard-000000.pst", 70},
                  {"shard-00001/shard-000000.pst", -1}};
    const struct pst_pack_options options = {.writer = &small};
    struct pst_pack_report report;
    struct pst_error err;
    char folder[300], file[400];
    make_folder(state, "f", N_IMAGES);
    assert_ok(pack(state, "one", options, &report, &err));
    pack_part(state, "d", options, 1, 1, &report);
    find_folder(state, "d", folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct stat st;
        snprintf(file, sizeof file, "%s/%s", strchr(places[i].file, '/') != NULL ? folder : "d",
                 places[i].file);
        assert_true(stat(folder_path(state, file), &st) == 0);
        if (places[i].at >= 0)
            flip(state, file, places[i].at);
        else
            assert_true(truncate(folder_path(state, file), st.st_size + 8) == 0);
        enum pst_status status = merge(state, "d", &report, &err);
        assert_true(status == PST_ERROR_CHECKSUM || status == PST_ERROR_CORRUPT ||
                    status == PST_ERROR_TRUNCATED);
        assert_int_not_equal(access(folder_path(state, "d/index.pst"), F_OK), 0);
        if (places[i].at >= 0)
            flip(state, file, places[i].at);
        else
            assert_true(truncate(folder_path(state, file), st.st_size) == 0);
    }
    /* A planned shard of another data set, with other fields. */
    snprintf(file, sizeof file, "%s/shard-00001", folder);
    char away[4096];
    snprintf(away, sizeof away, "%s", folder_path(state, "away"));
    assert_true(rename(folder_path(state, file), away) == 0);
    char from[4096];
    snprintf(from, sizeof from, "%s", folder_path(state, "f/a/00.png"));
    folder_text(state, "g/1.txt", "x");
    make_png(state, "g/1.png", 8, 8, 3, 1);
    char source[4096];
    snprintf(source, sizeof source, "%s", folder_path(state, "g"));
    const struct pst_pack_options plain = {.struct_size = sizeof plain};
    assert_ok(pst_pack(source, folder_path(state, file), &plain, &report, sizeof report, &err));
    assert_int_equal(merge(state, "d", &report, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "does not belong"));
    snprintf(source, sizeof source, "rm -r '%s'", folder_path(state, file));
    assert_int_equal(system(source), 0);
    assert_true(rename(away, folder_path(state, file)) == 0);
    assert_ok(merge(state, "d", &report, &err));
    assert_same_files(state, "one", "d");
}

static int stop_at_three(void *ctx, const struct pst_progress *progress)
{
    int *n = ctx;
    (void)progress;
    return ++*n == 3;
}

/* A cancelled merge can be continued. A file that is in the way is not overwritten. */
static void merges_go_on(void **state)
{
    const struct pst_pack_options options = {.writer = &small};
    struct pst_pack_report report;
    struct pst_error err;
    int n = 0;
    make_folder(state, "f", N_IMAGES);
    assert_ok(pack(state, "one", options, &report, &err));
    pack_part(state, "d", options, 1, 1, &report);
    assert_int_equal(pst_merge(folder_path(state, "d"), stop_at_three, &n, NULL, 0, &err),
                     PST_ERROR_CANCELLED);
    pst_error_clear(&err);
    folder_text(state, "d/shard-000004.pst", "mine");
    assert_int_equal(merge(state, "d", &report, &err), PST_ERROR_EXISTS);
    size_t nbytes;
    uint8_t *bytes = read_file(state, "d", "shard-000004.pst", &nbytes);
    assert_int_equal(nbytes, 4);
    free(bytes);
    unlink(folder_path(state, "d/shard-000004.pst"));
    assert_ok(merge(state, "d", &report, &err));
    assert_same_files(state, "one", "d");
}

/* Files of the user whose names begin like a plan's files are in the way, and no merge removes
 * them. */
static void files_of_others_stay(void **state)
{
    static const char *const others[][2] = {{"d/parts-old", "d/parts-old/mine.txt"},
                                            {"d/parts-0123456789abcdeg",
                                             "d/parts-0123456789abcdeg/mine.txt"},
                                            {"d/parts.pst.bak", "d/parts.pst.bak"}};
    enum { N_OTHERS = sizeof others / sizeof others[0] };
    const struct pst_pack_options options = {.writer = &small};
    struct pst_pack_report report;
    struct pst_error err;
    make_folder(state, "f", N_IMAGES);
    for (size_t i = 0; i < N_OTHERS; i++) {
        folder_text(state, others[i][1], "mine");
        expect(state, (struct pst_pack_options){.part = 1, .n_parts = 1}, PST_ERROR_EXISTS,
               "not empty");
        assert_int_equal(remove(folder_path(state, others[i][1])), 0);
        (void)!remove(folder_path(state, others[i][0]));
    }
    pack_part(state, "d", options, 1, 1, &report);
    for (size_t i = 0; i < N_OTHERS; i++)
        folder_text(state, others[i][1], "mine");
    assert_ok(merge(state, "d", &report, &err));
    for (size_t i = 0; i < N_OTHERS; i++)
        assert_int_equal(access(folder_path(state, others[i][1]), F_OK), 0);
    assert_int_not_equal(access(folder_path(state, "d/parts.pst"), F_OK), 0);
}

static void empty_sources(void **state)
{
    struct pst_pack_report report;
    struct pst_error err;
    static const struct pst_field fields[] = {
        {.name = "n", .type = PST_FIELD_INT, .n_variants = 1}};
    pst_writer *writer;
    int64_t number = 5;
    const struct pst_value value = {.bytes = &number, .nbytes = 8};
    const struct pst_value *list = &value;
    const struct pst_sample sample = {
        .struct_size = sizeof sample, .value_nbytes = sizeof value, .name = "s", .values = &list};
    assert_ok(pst_writer_open(folder_path(state, "f"), fields, 1, NULL, &writer, &err));
    assert_ok(pst_writer_add(writer, &sample, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pack(state, "one", (struct pst_pack_options){.writer = &small}, &report, &err));
    pack_by(state, "three", (struct pst_pack_options){.writer = &small}, 3);
    assert_int_equal(assert_same_files(state, "one", "three"), 1);
    verify(state, "three", 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(same_bytes_for_any_number_of_parts),
        T(bad_samples_shift_numbers),
        T(parts_go_on),
        T(late_processes_change_nothing),
        T(plans_that_do_not_fit),
        T(renamed_classes_are_another_source),
        T(damage_is_found),
        T(merges_go_on),
        T(files_of_others_stay),
        T(empty_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
