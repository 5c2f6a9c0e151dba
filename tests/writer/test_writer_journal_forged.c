/* test_writer_journal_forged.c - a forged journal with right checksums: resuming either refuses it,
 * or ends in a data set that verify finds good.
 *
 * Each number of a real journal takes other values; entries are dropped, doubled and swapped.
 * The short form tests some of the samples' entries, "long" all of them. */
#include "writer/journal_forge.h"
#include "writer/writer_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_BASE = 6, N_SAMPLES = 16, N_FILES = 8 };

static bool is_long;

/* The files of an unfinished data set, in memory. */
struct image {
    char *names[N_FILES];
    uint8_t *bytes[N_FILES];
    size_t nbytes[N_FILES];
    size_t n, i_journal;
};

struct forge {
    char *directory;
    char path[512];
    struct image image;
    size_t n_tried, n_refused, n_finished;
};

static void load(struct forge *forge)
{
    static const char *const names[] = {"journal.pst",      "index.pst",        "shard-000000.pst",
                                        "shard-000001.pst", "shard-000002.pst", "shard-000003.pst"};
    struct image *image = &forge->image;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", forge->path, names[i]);
        if (access(path, F_OK) != 0)
            continue;
        image->names[image->n] = strdup(names[i]);
        image->bytes[image->n] = fixture_read_file(path, &image->nbytes[image->n]);
        image->n++;
    }
    assert_true(image->n >= 3);
    assert_string_equal(image->names[0], "journal.pst");
}

/* Appends to a finished data set of N_BASE samples (0: makes a new one), commits and does not
 * finish. */
static void begin(struct forge *forge, uint64_t n_base)
{
    struct pst_error err = {0};
    struct pst_writer_options options = fixture_options(PST_WRITER_RESUME);
    pst_writer *writer;
    memset(forge, 0, sizeof *forge);
    forge->directory = fixture_directory();
    snprintf(forge->path, sizeof forge->path, "%s/set", forge->directory);
    if (n_base > 0)
        assert_ok(fixture_live(forge->path, PST_WRITER_CREATE, n_base, &err));
    assert_ok(pst_writer_open(forge->path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    for (uint64_t i = n_base; i < N_SAMPLES; i++)
        assert_ok(fixture_add(writer, i, &err));
    pst_writer_close(&writer);
    load(forge);
}

static void end(struct forge *forge)
{
    for (size_t i = 0; i < forge->image.n; i++) {
        free(forge->image.names[i]);
        free(forge->image.bytes[i]);
    }
    fixture_remove(forge->directory);
    print_message("%zu journals: %zu refused, %zu finished and good\n", forge->n_tried,
                  forge->n_refused, forge->n_finished);
}

/* Resumes from the given journal, and finishes if possible. */
static void try_journal(struct forge *forge, const uint8_t *bytes, size_t nbytes, const char *what)
{
    struct pst_error err = {0};
    struct pst_writer_options options = fixture_options(PST_WRITER_RESUME);
    pst_writer *writer;
    fixture_empty(forge->path);
    for (size_t i = 0; i < forge->image.n; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", forge->path, forge->image.names[i]);
        fixture_write_file(path, i == 0 ? bytes : forge->image.bytes[i],
                           i == 0 ? nbytes : forge->image.nbytes[i]);
    }
    forge->n_tried++;
    enum pst_status status =
        pst_writer_open(forge->path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err);
    if (status == PST_OK) {
        status = pst_writer_finish(writer, &err);
        pst_writer_close(&writer);
    }
    if (status != PST_OK) {
        forge->n_refused++;
        assert_true(err.text[0] != '\0' && err.status == status && status != PST_ERROR_INTERNAL);
        return;
    }
    const struct pst_verify_options verify = {.struct_size = sizeof verify, .num_workers = 1};
    struct pst_verify_report report;
    forge->n_finished++;
    if (pst_verify(forge->path, &verify, &report, sizeof report, &err) != PST_OK)
        fail_msg("%s: finished, but verify says: %s", what, err.text);
}

/* Returns true for an entry that the short form tests, too. */
static bool is_chosen(const struct journal_map *map, size_t i_entry, const uint8_t *bytes)
{
    bool is_sample = bytes[map->entries[i_entry] + 4] == 1;
    return is_long || !is_sample || i_entry < 2 || i_entry + 3 >= map->n_entries;
}

static void alter_numbers(struct forge *forge, const struct journal_map *map)
{
    size_t nbytes = forge->image.nbytes[0], i_entry = 0;
    const uint8_t *good = forge->image.bytes[0];
    uint8_t *bytes = malloc(nbytes);
    for (size_t i = 0; i < map->n_numbers; i++) {
        const struct journal_number *number = &map->numbers[i];
        while (i_entry < map->n_entries && number->offset >= map->entries[i_entry + 1])
            i_entry++;
        if (number->offset >= map->header_nbytes && !is_chosen(map, i_entry, good))
            continue;
        for (unsigned way = 0; way < JOURNAL_WAYS; way++) {
            memcpy(bytes, good, nbytes);
            if (!journal_alter(bytes, number, way))
                continue;
            journal_seal(bytes, nbytes);
            try_journal(forge, bytes, nbytes, number->what);
        }
    }
    free(bytes);
}

/* Drops entry i, doubles it, or swaps it with the next one. */
static void alter_entries(struct forge *forge, const struct journal_map *map)
{
    size_t nbytes = forge->image.nbytes[0];
    const uint8_t *good = forge->image.bytes[0];
    uint8_t *bytes = malloc(2 * nbytes);
    for (size_t i = 0; i < map->n_entries; i++) {
        size_t at = map->entries[i], next = map->entries[i + 1], n = next - at;
        memcpy(bytes, good, at);
        memcpy(bytes + at, good + next, nbytes - next);
        try_journal(forge, bytes, nbytes - n, "an entry left out");
        memcpy(bytes, good, next);
        memcpy(bytes + next, good + at, nbytes - at);
        try_journal(forge, bytes, nbytes + n, "an entry that comes twice");
        if (i + 1 == map->n_entries)
            break;
        size_t behind = map->entries[i + 2] - next;
        memcpy(bytes, good, nbytes);
        memcpy(bytes + at, good + next, behind);
        memcpy(bytes + at + behind, good + at, n);
        try_journal(forge, bytes, nbytes, "two entries swapped");
    }
    free(bytes);
}

static void forge_all(uint64_t n_base)
{
    struct forge forge;
    struct journal_map map;
    begin(&forge, n_base);
    assert_true(journal_map_make(forge.image.bytes[0], forge.image.nbytes[0], &map));
    assert_int_equal(map.entries[map.n_entries], forge.image.nbytes[0]);
    try_journal(&forge, forge.image.bytes[0], forge.image.nbytes[0], "nothing altered");
    assert_int_equal(forge.n_finished, 1);
    fixture_check(forge.path, N_SAMPLES);
    alter_numbers(&forge, &map);
    alter_entries(&forge, &map);
    journal_map_free(&map);
    end(&forge);
    assert_true(forge.n_refused > forge.n_tried / 4 && forge.n_finished > 1);
}

static void of_a_new_set(void **state)
{
    (void)state;
    forge_all(0);
}

static void of_an_append(void **state)
{
    (void)state;
    forge_all(N_BASE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_new_set),
        cmocka_unit_test(of_an_append),
    };
    is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
