/* test_dataset_hostile.c - tests altered, truncated, foreign and future files: they give an error
 * that names them, never a crash, and never values that differ from the written ones. */
#include "writer/writer_fixture.h"

#include "base/bits.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make(const char *path, uint64_t n)
{
    struct pst_error err = {0};
    struct pst_writer_options options = {.struct_size = sizeof options, .shard_nbytes = 2500};
    pst_writer *writer;
    assert_ok(pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    for (uint64_t i = 0; i < n; i++)
        assert_ok(fixture_add(writer, i, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
}

/* Returns a hash of everything that the index says about a data set. Errors are counted in
 * *n_errors. */
static uint64_t digest(const pst_dataset *ds, uint64_t *n_errors)
{
    struct psti_hash_state state;
    struct pst_error err = {0};
    psti_hash_begin(&state);
    *n_errors = 0;
    for (uint64_t s = 0; s < pst_dataset_count(ds); s++) {
        char name[PST_NAME_CAP];
        if (pst_dataset_sample_name(ds, s, name, &err) == PST_OK)
            psti_hash_update(&state, name, strlen(name));
        else
            ++*n_errors;
        for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++) {
            const struct pst_field *field = pst_dataset_field(ds, f);
            struct pst_item item;
            uint8_t number[8];
            enum pst_status status = PST_OK;
            if (field->type == PST_FIELD_INT)
                status = pst_dataset_int(ds, s, f, (int64_t *)(void *)number, &err);
            else if (field->type == PST_FIELD_FLOAT)
                status = pst_dataset_float(ds, s, f, (double *)(void *)number, &err);
            for (uint32_t v = 0; v < field->n_variants && psti_format_has_items(field->type); v++) {
                status = pst_dataset_item(ds, s, f, v, &item, sizeof item, &err);
                *n_errors += status != PST_OK;
                if (status != PST_OK)
                    continue;
                uint8_t printed[PSTI_ITEM_NBYTES];
                psti_format_print_item(field->type, &item, printed);
                psti_hash_update(&state, printed, sizeof printed);
            }
            if (!psti_format_has_items(field->type) && status == PST_OK)
                psti_hash_update(&state, number, 8);
            else if (!psti_format_has_items(field->type))
                ++*n_errors;
        }
    }
    for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++) {
        for (int64_t label = 0; label < 5; label++) {
            const char *name = pst_dataset_class_name(ds, f, label);
            psti_hash_update(&state, name != NULL ? name : "-", name != NULL ? strlen(name) : 1);
            *n_errors += name == NULL && f == FIX_LABEL;
        }
    }
    return psti_hash_end(&state);
}

struct place {
    char *directory;
    char path[512], index[600];
    uint8_t *bytes;
    size_t nbytes;
    uint64_t digest;
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    struct pst_error err = {0};
    pst_dataset *ds;
    uint64_t n_errors;
    place->directory = fixture_directory();
    snprintf(place->path, sizeof place->path, "%s/set", place->directory);
    snprintf(place->index, sizeof place->index, "%s/index.pst", place->path);
    make(place->path, 6);
    place->bytes = fixture_read_file(place->index, &place->nbytes);
    assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
    place->digest = digest(ds, &n_errors);
    assert_int_equal(n_errors, 0);
    pst_dataset_close(&ds);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    fixture_remove(place->directory);
    free(place->bytes);
    free(place);
    return 0;
}

/* Opens and reads everything. Returns true if there was no error; then all values must be the
 * written ones. */
static bool survives(const struct place *place, struct pst_error *err)
{
    pst_dataset *ds;
    uint64_t n_errors;
    pst_error_clear(err);
    if (pst_dataset_open(place->path, NULL, &ds, err) != PST_OK) {
        assert_null(ds);
        assert_string_equal(err->dataset, place->path);
        return false;
    }
    uint64_t found = digest(ds, &n_errors);
    if (n_errors == 0)
        assert_true(found == place->digest);
    pst_dataset_close(&ds);
    return n_errors == 0;
}

static void every_byte_of_the_index_flipped(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    uint64_t n_unnoticed = 0;
    for (size_t at = 0; at < place->nbytes; at++) {
        /* All zero bytes of the header are treated alike, so only some are tried. */
        if (at > 160 && at < 4080 && at % 97 != 0)
            continue;
        place->bytes[at] ^= (uint8_t)(1 + at * 7 % 255);
        fixture_write_file(place->index, place->bytes, place->nbytes);
        place->bytes[at] ^= (uint8_t)(1 + at * 7 % 255);
        n_unnoticed += survives(place, &err);
    }
    assert_int_equal(n_unnoticed, 0);
}

static void every_length_of_the_index(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    fixture_write_file(place->index, place->bytes, place->nbytes);
    for (size_t n = place->nbytes; n-- > 0;) {
        assert_int_equal(truncate(place->index, (off_t)n), 0);
        assert_false(survives(place, &err));
        assert_int_equal(err.status, PST_ERROR_TRUNCATED);
        assert_string_equal(err.file, place->index);
        assert_int_equal(err.offset, n);
    }
    uint8_t *longer = calloc(1, place->nbytes + 1);
    memcpy(longer, place->bytes, place->nbytes);
    fixture_write_file(place->index, longer, place->nbytes + 1);
    assert_false(survives(place, &err));
    assert_int_equal(err.status, PST_ERROR_CORRUPT);
    free(longer);
}

/* Corrects the checksums, as a forger would: the reader's checks of numbers and ranges must be
 * enough. */
static void seal(uint8_t *bytes)
{
    uint64_t blocks = psti_load_u64(bytes + 96), n_blocks = psti_load_u64(bytes + 104);
    for (uint64_t i = 0; i < n_blocks; i++) {
        uint64_t at = 4096 + i * 65536, left = blocks - at;
        psti_store_u64(bytes + blocks + 8 * i,
                       psti_hash64(bytes + at, left < 65536 ? (size_t)left : 65536));
    }
    psti_store_u64(bytes + 112, psti_hash64(bytes + blocks, (size_t)(8 * n_blocks)));
    psti_store_u64(bytes + 4088, psti_hash64(bytes, 4088));
}

/* Sets every u64 of header and payload to extreme values and corrects the checksums. Values may
 * differ, but no memory outside may be accessed (sanitizers check this), and items must stay within
 * their shards. */
static void forged_and_sealed(void **state)
{
    static const uint64_t evil[] = {
        0,          1,           63,        64,         4095,           0x7FFFFFFF,
        0xFFFFFFFF, 0x100000000, INT64_MAX, UINT64_MAX, UINT64_MAX - 63};
    struct place *place = *state;
    struct pst_error err;
    uint8_t *copy = malloc(place->nbytes);
    uint64_t blocks = psti_load_u64(place->bytes + 96);
    /* Goes through the header's numbers and then the payload; between them are zeros. */
    for (size_t at = 32; at + 8 <= blocks; at = at == 124 ? 4096 : at + (at < 4096 ? 4 : 8)) {
        for (size_t e = 0; e < sizeof evil / sizeof evil[0]; e++) {
            pst_dataset *ds;
            uint64_t n_errors;
            memcpy(copy, place->bytes, place->nbytes);
            psti_store_u64(copy + at, evil[e]);
            if (at > 88 && at < 112) /* offset and count of checksums: seal only the header */
                psti_store_u64(copy + 4088, psti_hash64(copy, 4088));
            else
                seal(copy);
            fixture_write_file(place->index, copy, place->nbytes);
            if (pst_dataset_open(place->path, NULL, &ds, &err) == PST_OK &&
                pst_dataset_count(ds) < 1000)
                digest(ds, &n_errors);
            pst_dataset_close(&ds);
        }
    }
    free(copy);
}

static void future_versions(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    uint8_t *copy = malloc(place->nbytes);
    memcpy(copy, place->bytes, place->nbytes);
    psti_store_u16(copy + 8, 2);
    psti_store_u16(copy + 10, 7);
    seal(copy);
    fixture_write_file(place->index, copy, place->nbytes);
    assert_false(survives(place, &err));
    assert_int_equal(err.status, PST_ERROR_VERSION);
    assert_int_equal(err.offset, 8);
    assert_non_null(strstr(err.text, "2.7"));
    assert_non_null(strstr(err.text, "1."));
    /* A newer minor version can be read, but not appended to. */
    psti_store_u16(copy + 8, 1);
    seal(copy);
    fixture_write_file(place->index, copy, place->nbytes);
    assert_true(survives(place, &err));
    struct pst_writer_options options = {.struct_size = sizeof options, .mode = PST_WRITER_APPEND};
    pst_writer *writer;
    assert_int_equal(pst_writer_open(place->path, NULL, 0, &options, &writer, &err),
                     PST_ERROR_VERSION);
    free(copy);
}

static void shards_spoiled(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    char shard[600], other_set[600], other[700];
    uint8_t buffer[4096];
    size_t nbytes, other_nbytes;
    snprintf(shard, sizeof shard, "%s/shard-000001.pst", place->path);
    snprintf(other_set, sizeof other_set, "%s/other", place->directory);
    snprintf(other, sizeof other, "%s/shard-000001.pst", other_set);
    make(other_set, 6);
    uint8_t *bytes = fixture_read_file(shard, &nbytes),
            *foreign = fixture_read_file(other, &other_nbytes);
    snprintf(other, sizeof other, "%s/shard-000000.pst", place->path);
    uint8_t *neighbour = fixture_read_file(other, &other_nbytes);
    foreign[16] ^= 1; /* a bit of the id; both have the same schema, so the ids would be equal */
    psti_store_u64(foreign + 56, psti_hash64(foreign, 56));
    for (int kind = 0; kind < 9; kind++) {
        enum pst_status want = PST_OK;
        uint8_t *copy = malloc(nbytes);
        memcpy(copy, bytes, nbytes);
        size_t n = nbytes;
        struct pst_item item = {0};
        pst_dataset *ds;
        uint64_t sample = 0, n_items;
        assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
        while (item.i_file != 1)
            assert_ok(pst_dataset_item(ds, sample++, FIX_AUDIO, 0, &item, sizeof item, &err));
        sample--;
        if (kind == 0)
            want = PST_ERROR_CHECKSUM, copy[item.offset] ^= 1;
        if (kind == 1)
            want = PST_ERROR_TRUNCATED, n = nbytes - 8;
        if (kind == 2)
            want = PST_ERROR_TRUNCATED, n = 20;
        if (kind == 3)
            want = PST_ERROR_CORRUPT, memcpy(copy, foreign, 64);
        if (kind == 8) /* a record of the other shard, whose own checksum is right */
            want = PST_ERROR_CORRUPT, memcpy(copy + 64, neighbour + 64, PSTI_RECORD_NBYTES);
        if (kind == 4)
            want = PST_ERROR_VERSION, psti_store_u16(copy + 8, 9);
        if (kind == 5)
            want = PST_ERROR_CHECKSUM, copy[20] ^= 1;
        if (kind == 6)
            want = PST_ERROR_NOT_FOUND;
        if (kind == 7)
            want = PST_ERROR_CORRUPT, copy[1] ^= 1;
        fixture_write_file(shard, copy, n);
        if (kind == 6)
            assert_int_equal(unlink(shard), 0);
        pst_error_clear(&err);
        assert_int_equal(pst_dataset_read(ds, sample, FIX_AUDIO, 0, 0, item.nbytes, buffer, &err),
                         want);
        assert_string_equal(err.file, shard);
        assert_string_equal(err.dataset, place->path);
        assert_int_equal(err.sample, sample);
        if (kind == 3 || kind == 8)
            assert_non_null(strstr(err.text, "another data set"));
        if (kind == 0)
            assert_int_equal(err.offset, item.offset);
        if (kind == 4)
            assert_int_equal(err.offset, 8);
        if (kind == 7)
            assert_int_equal(err.offset, 0);
        assert_int_equal(psti_dataset_scan_shard(ds, 1, &n_items, &err), want);
        /* Samples in other shards can still be read. */
        assert_ok(pst_dataset_item(ds, 0, FIX_AUDIO, 0, &item, sizeof item, &err));
        assert_ok(pst_dataset_read(ds, 0, FIX_AUDIO, 0, 0, item.nbytes, buffer, &err));
        pst_dataset_close(&ds);
        free(copy);
    }
    free(bytes);
    free(foreign);
    free(neighbour);
}

/* An index without stated identities, as older software writes it, has the identities computed from
 * its names and labels. A wrong stated identity is detected. */
static void identities_stated_and_computed(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    char index[600];
    size_t nbytes;
    uint8_t found[3][2][PST_IDENTITY_NBYTES];
    snprintf(index, sizeof index, "%s/" PSTI_INDEX_NAME, place->path);
    uint8_t *bytes = fixture_read_file(index, &nbytes);
    for (int kind = 0; kind < 3; kind++) {
        pst_dataset *ds;
        if (kind == 1)
            memset(bytes + 136, 0, 32);
        if (kind == 2)
            bytes[136] = 1;
        psti_store_u64(bytes + 4088, psti_hash64(bytes, 4088));
        fixture_write_file(index, bytes, nbytes);
        assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
        assert_ok(pst_dataset_identity(ds, PST_IDENTITY_SAMPLES, found[kind][0], &err));
        assert_ok(pst_dataset_identity(ds, PST_IDENTITY_BYTES, found[kind][1], &err));
        assert_int_equal(psti_dataset_check_identity(ds, &err),
                         kind == 2 ? PST_ERROR_CORRUPT : PST_OK);
        if (kind == 1)
            assert_int_equal(pst_dataset_identity(ds, PST_IDENTITY_FILES, found[2][0], &err),
                             PST_ERROR_NOT_FOUND);
        pst_dataset_close(&ds);
    }
    assert_memory_equal(found[0][0], found[1][0], PST_IDENTITY_NBYTES);
    assert_memory_equal(found[0][1], found[1][1], PST_IDENTITY_NBYTES);
    free(bytes);
}

/* Flips each byte of a shard: a scan detects it unless the byte is padding, which is never read. */
static void every_byte_of_a_shard_flipped(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    char shard[600];
    size_t nbytes, n_unnoticed = 0;
    snprintf(shard, sizeof shard, "%s/shard-000000.pst", place->path);
    uint8_t *bytes = fixture_read_file(shard, &nbytes);
    for (size_t at = 0; at < nbytes; at++) {
        pst_dataset *ds;
        uint64_t n_items;
        bytes[at] ^= 0x40;
        fixture_write_file(shard, bytes, nbytes);
        bytes[at] ^= 0x40;
        assert_ok(pst_dataset_open(place->path, NULL, &ds, &err));
        if (psti_dataset_scan_shard(ds, 0, &n_items, &err) == PST_OK) {
            assert_int_equal(bytes[at], 0);
            n_unnoticed++;
        }
        pst_dataset_close(&ds);
    }
    assert_true(n_unnoticed < nbytes / 4);
    free(bytes);
}

static void missing_index(void **state)
{
    struct place *place = *state;
    struct pst_error err;
    assert_int_equal(unlink(place->index), 0);
    assert_false(survives(place, &err));
    assert_int_equal(err.status, PST_ERROR_CORRUPT);
}

/* Flips or cuts off each byte of a journal: the writer resumes a prefix of the committed samples,
 * or refuses the journal. */
static void journals_spoiled(void **state)
{
    struct place *place = *state;
    struct pst_error err = {0};
    char path[600], journal[700], shard[700];
    size_t nbytes;
    snprintf(path, sizeof path, "%s/unfinished", place->directory);
    snprintf(journal, sizeof journal, "%s/journal.pst", path);
    struct pst_writer_options options = {.struct_size = sizeof options, .commit_nbytes = 1};
    pst_writer *writer;
    assert_ok(pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    for (uint64_t i = 0; i < 3; i++)
        assert_ok(fixture_add(writer, i, &err));
    pst_writer_close(&writer);
    uint8_t *bytes = fixture_read_file(journal, &nbytes);
    size_t header_nbytes = psti_format_journal_header_nbytes(FIX_N_FIELDS);
    options.mode = PST_WRITER_RESUME;
    size_t shard_nbytes;
    snprintf(shard, sizeof shard, "%s/shard-000000.pst", path);
    uint8_t *shard_bytes = fixture_read_file(shard, &shard_nbytes);
    uint64_t n_shortened = 0;
    for (size_t at = 0; at < nbytes; at += 3) {
        fixture_write_file(shard, shard_bytes, shard_nbytes);
        bytes[at] ^= 0x10;
        fixture_write_file(journal, bytes, nbytes);
        bytes[at] ^= 0x10;
        enum pst_status status = pst_writer_open(path, NULL, 0, &options, &writer, &err);
        if (at < header_nbytes) {
            assert_int_not_equal(status, PST_OK);
            assert_string_equal(err.file, journal);
        } else {
            assert_ok(status);
            n_shortened += pst_writer_count(writer) < 3;
            /* Only changes in the padding go undetected. */
            assert_true(pst_writer_count(writer) < 3 || bytes[at] == 0);
        }
        pst_writer_close(&writer);
    }
    assert_true(n_shortened > (nbytes - header_nbytes) / 3 * 9 / 10);
    free(shard_bytes);
    for (size_t n = header_nbytes; n-- > 0;) {
        fixture_write_file(journal, bytes, n);
        assert_int_equal(pst_writer_open(path, NULL, 0, &options, &writer, &err),
                         PST_ERROR_TRUNCATED);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_byte_of_the_index_flipped, setup, teardown),
        cmocka_unit_test_setup_teardown(every_length_of_the_index, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_and_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(future_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_spoiled, setup, teardown),
        cmocka_unit_test_setup_teardown(identities_stated_and_computed, setup, teardown),
        cmocka_unit_test_setup_teardown(every_byte_of_a_shard_flipped, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_index, setup, teardown),
        cmocka_unit_test_setup_teardown(journals_spoiled, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
