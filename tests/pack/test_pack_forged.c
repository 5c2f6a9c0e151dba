/* test_pack_forged.c - tests forged data sets with correct checksums: nothing crashes, all returned
 * values are possible, and verify detects everything that the loader refuses. */
#include "writer/writer_fixture.h"

#include "base/bits.h"
#include "base/hash.h"
#include "format/format_dataset.h"
#include "fuzz/forge_dataset.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

enum { N_SAMPLES = 9, N_SHARDS_MAX = 8, N_MUTANTS = 400 };

struct set {
    char *directory;
    char path[512];
    uint8_t *index, *shards[N_SHARDS_MAX];
    size_t index_nbytes, shard_nbytes[N_SHARDS_MAX];
    uint32_t n_shards;
};

static void file_of(const struct set *set, int i_shard, char path[700])
{
    if (i_shard < 0)
        snprintf(path, 700, "%s/index.pst", set->path);
    else
        snprintf(path, 700, "%s/shard-%06d.pst", set->path, i_shard);
}

static int setup(void **state)
{
    struct set *set = calloc(1, sizeof *set);
    struct pst_error err = {0};
    char path[700];
    set->directory = fixture_directory();
    snprintf(set->path, sizeof set->path, "%s/set", set->directory);
    struct pst_writer_options options = {.struct_size = sizeof options, .shard_nbytes = 6000};
    pst_writer *writer;
    assert_ok(pst_writer_open(set->path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    for (uint64_t i = 0; i < N_SAMPLES; i++)
        assert_ok(fixture_add(writer, i, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *ds;
    assert_ok(pst_dataset_open(set->path, NULL, &ds, &err));
    set->n_shards = pst_dataset_n_files(ds);
    pst_dataset_close(&ds);
    assert_true(set->n_shards > 1 && set->n_shards <= N_SHARDS_MAX);
    for (int i = -1; i < (int)set->n_shards; i++) {
        file_of(set, i, path);
        if (i < 0)
            set->index = fixture_read_file(path, &set->index_nbytes);
        else
            set->shards[i] = fixture_read_file(path, &set->shard_nbytes[i]);
    }
    *state = set;
    return 0;
}

static int teardown(void **state)
{
    struct set *set = *state;
    fixture_remove(set->directory);
    free(set->index);
    for (uint32_t i = 0; i < set->n_shards; i++)
        free(set->shards[i]);
    free(set);
    return 0;
}

static void write_index(const struct set *set, const uint8_t *index)
{
    char path[700];
    file_of(set, -1, path);
    fixture_write_file(path, index, set->index_nbytes);
}

static void write_shard(const struct set *set, int i_shard, const uint8_t *shard)
{
    char path[700];
    file_of(set, i_shard, path);
    fixture_write_file(path, shard, set->shard_nbytes[i_shard]);
}

static int count_finding(void *ctx, const char *name, const struct pst_error *err)
{
    assert_non_null(name);
    assert_int_not_equal(err->status, PST_OK);
    ++*(unsigned *)ctx;
    return 0;
}

/* Returns true if verify reports a finding. */
static bool verify_finds(const struct set *set, bool decode)
{
    unsigned n = 0;
    struct pst_error err = {0};
    struct pst_verify_options options = {.struct_size = sizeof options,
                                         .num_workers = 1,
                                         .decode = decode,
                                         .bad_sample = count_finding,
                                         .ctx = &n};
    struct pst_verify_report report;
    enum pst_status status = pst_verify(set->path, &options, &report, sizeof report, &err);
    /* if opening fails, there is no finding */
    assert_true((n > 0) == (status != PST_OK) || n == 0);
    return status != PST_OK;
}

/* Checks that a column equals its values read one by one, or fails like the first bad value. */
static void check_column(const pst_dataset *ds, uint32_t f, uint64_t n)
{
    int64_t numbers[64], one = 0;
    struct pst_error err = {0};
    bool is_int = pst_dataset_field(ds, f)->type == PST_FIELD_INT;
    enum pst_status status = PST_OK, whole = pst_dataset_column(ds, f, 0, n, numbers, &err);
    for (uint64_t s = 0; s < n && status == PST_OK; s++) {
        status = is_int ? pst_dataset_int(ds, s, f, &one, NULL)
                        : pst_dataset_float(ds, s, f, (double *)(void *)&one, NULL);
        if (status == PST_OK && whole == PST_OK)
            assert_int_equal(numbers[s], one);
        else if (status != PST_OK)
            assert_int_equal(err.sample, s);
    }
    assert_int_equal(whole, status);
}

/* Checks that all values from the index are possible. */
static void use(const pst_dataset *ds)
{
    uint8_t bytes[9000];
    char name[PST_NAME_CAP];
    uint64_t n = pst_dataset_count(ds) < 64 ? pst_dataset_count(ds) : 64;
    for (uint64_t s = 0; s < n; s++) {
        if (pst_dataset_sample_name(ds, s, name, NULL) == PST_OK)
            assert_null(psti_format_name_problem(name, strlen(name)));
        for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++) {
            const struct pst_field *field = pst_dataset_field(ds, f);
            if (!psti_format_has_items(field->type) && s == 0)
                check_column(ds, f, n);
            for (uint32_t v = 0; v < field->n_variants; v++) {
                struct pst_item item;
                if (pst_dataset_item(ds, s, f, v, &item, sizeof item, NULL) != PST_OK ||
                    item.form == PST_FORM_NONE)
                    continue;
                if (psti_format_is_image(field->type))
                    assert_true(item.channels >= 1 && item.channels <= 4);
                if (item.form == PST_FORM_RAW)
                    assert_int_equal(item.nbytes, (uint64_t)item.height * item.width *
                                                      item.channels * (item.bits / 8));
                if (item.nbytes <= sizeof bytes &&
                    pst_dataset_read(ds, s, f, v, 0, item.nbytes, bytes, NULL) == PST_OK)
                    assert_null(psti_format_text_problem(field->type, bytes, item.nbytes));
            }
        }
    }
    for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++) {
        const struct pst_field *field = pst_dataset_field(ds, f);
        bool named = pst_dataset_class_name(ds, f, 0) != NULL;
        for (int64_t label = 0; label < field->n_classes && label < 16; label++) {
            const char *class_name = pst_dataset_class_name(ds, f, label);
            assert_true((class_name != NULL) == named);
            if (named)
                assert_null(psti_format_name_problem(class_name, strlen(class_name)));
        }
    }
}

/* Returns true if the loader refuses the data set or a sample of it. */
static bool loader_refuses(pst_dataset *ds, struct pst_error *what)
{
    struct pst_error err = {0};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 4,
                                         .on_error = PST_ON_ERROR_SKIP,
                                         .host_memory = 64 << 20};
    pst_loader *loader;
    pst_batch *batch;
    bool refused = true;
    enum pst_status status = pst_loader_open(ds, &options, &loader, &err);
    if (status == PST_OK)
        status = pst_loader_begin(loader, 0, &err);
    if (status == PST_OK) {
        while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK)
            pst_batch_release(batch);
        refused = status != PST_END || pst_loader_n_quarantined(loader) > 0;
        if (status == PST_END && refused)
            assert_ok(pst_loader_quarantined(loader, 0, &err, NULL));
    }
    pst_loader_close(&loader);
    *what = err;
    return refused;
}

static void random_members(void **state)
{
    struct set *set = *state;
    uint64_t random = 20;
    unsigned n_opened = 0, n_refused = 0, n_found = 0;
    const char *more = getenv("PST_TEST_FORGED"); /* number of mutants for long runs */
    unsigned n_mutants = more != NULL ? (unsigned)strtoul(more, NULL, 10) : N_MUTANTS;
    for (unsigned m = 0; m < n_mutants; m++) {
        uint8_t *index = malloc(set->index_nbytes);
        int i_shard = (int)(forge_random(&random) % set->n_shards);
        memcpy(index, set->index, set->index_nbytes);
        if (m % 3 == 0) {
            uint8_t *shard = malloc(set->shard_nbytes[i_shard]);
            memcpy(shard, set->shards[i_shard], set->shard_nbytes[i_shard]);
            assert_true(forge_shard(shard, set->shard_nbytes[i_shard], &random));
            forge_follow_shard(index, set->index_nbytes, (uint32_t)i_shard, shard,
                               set->shard_nbytes[i_shard]);
            write_shard(set, i_shard, shard);
            free(shard);
        } else {
            assert_true(forge_index(index, set->index_nbytes, &random));
        }
        write_index(set, index);
        free(index);
        pst_dataset *ds;
        struct pst_error what = {0};
        bool opened = pst_dataset_open(set->path, NULL, &ds, NULL) == PST_OK;
        bool huge = opened && pst_dataset_count(ds) > 1000;
        if (opened)
            use(ds);
        bool refused = !opened || (!huge && loader_refuses(ds, &what));
        pst_dataset_close(&ds);
        bool found = !huge && verify_finds(set, true);
        if (refused && !huge && !found)
            fail_msg("mutant %u: verify finds nothing, and the loader: %s", m, what.text);
        n_opened += opened;
        n_refused += refused;
        n_found += found;
        if (m % 3 == 0)
            write_shard(set, i_shard, set->shards[i_shard]);
    }
    print_message("%u forged sets: %u opened, %u refused by the loader, %u found by verify\n",
                  n_mutants, n_opened, n_refused, n_found);
    assert_true(n_opened > n_mutants / 2 && n_refused > n_mutants / 8 && n_opened > n_refused);
}

/* Changes one byte of an item. The item is found by its contents, in any shard. */
static void spoil_text(struct set *set, const char *holds, char put)
{
    size_t n = strlen(holds);
    uint8_t *index = malloc(set->index_nbytes);
    memcpy(index, set->index, set->index_nbytes);
    for (uint32_t i = 0; i < set->n_shards; i++) {
        uint8_t *shard = set->shards[i];
        for (size_t at = 0; at + n <= set->shard_nbytes[i]; at++) {
            if (memcmp(shard + at, holds, n) != 0)
                continue;
            shard[at] = (uint8_t)put;
            forge_seal_shard(shard, set->shard_nbytes[i]);
            forge_follow_shard(index, set->index_nbytes, i, shard, set->shard_nbytes[i]);
            write_shard(set, (int)i, shard);
            write_index(set, index);
            free(index);
            return;
        }
    }
    fail_msg("no item holds %s", holds);
}

/* The loader skips this one sample and names it. Verify detects it without decoding. */
static void one_bad_text(struct set *set, uint64_t sample, const char *says)
{
    struct pst_error err = {0}, what;
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .on_error = PST_ON_ERROR_SKIP,
                                         .no_verify = true,
                                         .batch_size = N_SAMPLES};
    pst_dataset *ds;
    pst_loader *loader;
    pst_batch *batch;
    assert_ok(pst_dataset_open(set->path, NULL, &ds, &err));
    assert_ok(pst_loader_open(ds, &options, &loader, &err));
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    assert_int_equal(pst_batch_count(batch), N_SAMPLES - 1);
    pst_batch_release(batch);
    assert_int_equal(pst_loader_n_quarantined(loader), 1);
    assert_ok(pst_loader_quarantined(loader, 0, &what, NULL));
    assert_int_equal(what.status, PST_ERROR_CORRUPT);
    assert_int_equal(what.sample, sample);
    assert_string_equal(what.dataset, set->path);
    assert_non_null(strstr(what.text, says));
    pst_loader_close(&loader);
    pst_dataset_close(&ds);
    assert_true(verify_finds(set, false));
}

static void text_that_is_not_utf8(void **state)
{
    spoil_text(*state, "gr\xC3\xBC\xC3\x9F 3", '\xFF');
    one_bad_text(*state, 3, "not UTF-8");
}

static void json_that_is_none(void **state)
{
    spoil_text(*state, "{\"i\":5}", '[');
    one_bad_text(*state, 5, "JSON");
}

/* Changes one byte of the index near the bytes `holds`. */
static void spoil_index(struct set *set, const char *holds, size_t n, size_t at, uint8_t put)
{
    for (size_t i = PSTI_INDEX_HEADER_NBYTES; i + n <= set->index_nbytes; i++) {
        if (memcmp(set->index + i, holds, n) != 0)
            continue;
        set->index[i + at] = put;
        forge_seal_index(set->index);
        write_index(set, set->index);
        return;
    }
    fail_msg("the index does not hold it");
}

static void class_names_are_checked_at_open(void **state)
{
    struct set *set = *state;
    struct pst_error err = {0};
    pst_dataset *ds;
    pst_writer *writer;
    spoil_index(set, fixture_classes[1], strlen(fixture_classes[1]) + 1, 0, 0x1B);
    assert_int_equal(pst_dataset_open(set->path, NULL, &ds, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "class name"));
    assert_non_null(strstr(err.file, "index.pst"));
    assert_true(err.offset >= PSTI_INDEX_HEADER_NBYTES);
    assert_true(verify_finds(set, false));
    struct pst_writer_options options = {.struct_size = sizeof options, .mode = PST_WRITER_APPEND};
    assert_int_equal(pst_writer_open(set->path, NULL, 0, &options, &writer, &err),
                     PST_ERROR_CORRUPT);
}

static void sizes_are_checked_by_verify(void **state)
{
    struct set *set = *state;
    struct psti_index_header header;
    struct psti_index_field field;
    assert_int_equal(psti_format_parse_index_header(set->index, set->index_nbytes,
                                                    set->index_nbytes, &header, NULL),
                     PST_OK);
    assert_int_equal(
        psti_format_parse_index_field(set->index + header.fields_offset, &header, &field, NULL),
        PST_OK);
    uint8_t *channels = set->index + field.column_offset + 40;
    assert_int_equal(*channels, 3);
    for (uint8_t c = 0; c < 40; c++) {
        *channels = c;
        forge_seal_index(set->index);
        write_index(set, set->index);
        assert_true(verify_finds(set, false) == (c != 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_members, setup, teardown),
        cmocka_unit_test_setup_teardown(text_that_is_not_utf8, setup, teardown),
        cmocka_unit_test_setup_teardown(json_that_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(class_names_are_checked_at_open, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_are_checked_by_verify, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
