/* make_journal_corpus.c - writes the corpus of fuzz_dataset_journal: make_journal_corpus FOLDER.
 *
 * It writes and commits a small data set without finishing it. Then it mutates the journal with
 * the target's mutator, and keeps each journal for which a resuming writer gives a result that
 * no earlier one gave. Build it by `ninja make_journal_corpus`. */
#include "base/bits.h"
#include "writer/journal_forge.h"
#include "writer/writer_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SAMPLES = 3, MAX_KEPT = 200 };

static const struct pst_field fields[] = {
    {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 2},
    {.name = "label", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = 2},
    {.name = "boxes", .type = PST_FIELD_BOXES, .n_variants = 1},
    {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1},
};
static const char *const classes[] = {"ant", "bee"};

struct corpus {
    const char *folder;
    char *directory, set[512];
    uint8_t *shard;
    size_t shard_nbytes;
    char seen[MAX_KEPT][64];
    size_t n_seen;
};

static void add_sample(pst_writer *writer, int i)
{
    static const uint8_t pixels[24] = {1, 2, 3, 4, 5, 6};
    static const float boxes[8] = {0, 0, 1, 1, 1, 1, 2, 2};
    struct pst_error err = {0};
    char name[16];
    int64_t label = i % 2;
    const struct pst_value image[2] = {{.bytes = pixels,
                                        .nbytes = 12,
                                        .form = PST_FORM_RAW,
                                        .height = 2,
                                        .width = 2,
                                        .channels = 3,
                                        .bits = 8},
                                       {.bytes = NULL}};
    const struct pst_value values[] = {{.bytes = &label, .nbytes = 8},
                                       {.bytes = boxes, .nbytes = 16 * (size_t)(i % 3)},
                                       {.bytes = "word", .nbytes = 4}};
    const struct pst_value *const all[] = {image, &values[0], &values[1], &values[2]};
    snprintf(name, sizeof name, "s%d.png", i);
    const struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                      .value_nbytes = sizeof(struct pst_value),
                                      .name = name,
                                      .values = all};
    assert_ok(pst_writer_add(writer, &sample, &err));
}

static void begin(struct corpus *corpus)
{
    struct pst_error err = {0};
    char path[600];
    pst_writer *writer;
    corpus->directory = fixture_directory();
    snprintf(corpus->set, sizeof corpus->set, "%s/set", corpus->directory);
    assert_ok(pst_writer_open(corpus->set, fields, 4, NULL, &writer, &err));
    assert_ok(pst_writer_set_class_names(writer, 1, classes, 2, &err));
    for (int i = 0; i < N_SAMPLES; i++) {
        add_sample(writer, i);
        if (i == 1)
            assert_ok(pst_writer_commit(writer, &err));
    }
    pst_writer_close(&writer);
    snprintf(path, sizeof path, "%s/shard-000000.pst", corpus->set);
    corpus->shard = fixture_read_file(path, &corpus->shard_nbytes);
}

/* Resumes a writer from the journal and records its result. */
static void resume(const struct corpus *corpus, const uint8_t *journal, size_t nbytes,
                   char said[64])
{
    struct pst_error err = {0};
    const struct pst_writer_options options = {.struct_size = sizeof options,
                                               .mode = PST_WRITER_RESUME};
    char path[600];
    pst_writer *writer;
    fixture_empty(corpus->set);
    snprintf(path, sizeof path, "%s/journal.pst", corpus->set);
    fixture_write_file(path, journal, nbytes);
    snprintf(path, sizeof path, "%s/shard-000000.pst", corpus->set);
    fixture_write_file(path, corpus->shard, corpus->shard_nbytes);
    if (pst_writer_open(corpus->set, NULL, 0, &options, &writer, &err) == PST_OK) {
        snprintf(err.text, sizeof err.text, "goes on after %d", (int)pst_writer_count(writer));
        pst_writer_close(&writer);
    }
    snprintf(said, 64, "%.63s", err.text);
    for (char *c = said; *c != '\0'; c++) /* numbers in the text are ignored */
        *c = *c >= '0' && *c <= '9' ? '#' : *c;
}

static void keep_if_new(struct corpus *corpus, const uint8_t *journal, size_t nbytes)
{
    char said[64], path[700];
    resume(corpus, journal, nbytes, said);
    for (size_t i = 0; i < corpus->n_seen; i++)
        if (strcmp(corpus->seen[i], said) == 0)
            return;
    assert_true(corpus->n_seen < MAX_KEPT);
    snprintf(path, sizeof path, "%s/forged-%03zu", corpus->folder, corpus->n_seen);
    memcpy(corpus->seen[corpus->n_seen++], said, sizeof said);
    uint8_t *input = malloc(4 + nbytes + corpus->shard_nbytes);
    psti_store_u32(input, (uint32_t)nbytes);
    memcpy(input + 4, journal, nbytes);
    memcpy(input + 4 + nbytes, corpus->shard, corpus->shard_nbytes);
    fixture_write_file(path, input, 4 + nbytes + corpus->shard_nbytes);
    free(input);
    printf("%s: %s\n", path, said);
}

static void grow(struct corpus *corpus, const uint8_t *good, size_t nbytes)
{
    struct journal_map map;
    uint8_t *bytes = malloc(2 * nbytes);
    assert_true(journal_map_make(good, nbytes, &map));
    keep_if_new(corpus, good, nbytes);
    for (size_t i = 0; i < map.n_numbers; i++)
        for (unsigned way = 0; way < JOURNAL_WAYS; way++) {
            memcpy(bytes, good, nbytes);
            if (!journal_alter(bytes, &map.numbers[i], way))
                continue;
            journal_seal(bytes, nbytes);
            keep_if_new(corpus, bytes, nbytes);
        }
    for (size_t i = 0; i < map.n_entries; i++) {
        size_t at = map.entries[i], next = map.entries[i + 1];
        memcpy(bytes, good, next);
        memcpy(bytes + next, good + at, nbytes - at);
        keep_if_new(corpus, bytes, nbytes + next - at);
        memcpy(bytes + at, good + next, nbytes - next);
        keep_if_new(corpus, bytes, nbytes - (next - at));
        keep_if_new(corpus, good, next); /* cut there */
    }
    keep_if_new(corpus, good, map.header_nbytes - 8);
    journal_map_free(&map);
    free(bytes);
}

int main(int argc, char **argv)
{
    struct corpus corpus = {.folder = argc == 2 ? argv[1] : NULL};
    char path[600];
    size_t nbytes;
    if (corpus.folder == NULL)
        return 2;
    begin(&corpus);
    snprintf(path, sizeof path, "%s/journal.pst", corpus.set);
    uint8_t *journal = fixture_read_file(path, &nbytes);
    grow(&corpus, journal, nbytes);
    free(journal);
    free(corpus.shard);
    fixture_remove(corpus.directory);
    return 0;
}
