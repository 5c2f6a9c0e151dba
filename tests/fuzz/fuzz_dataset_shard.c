/* fuzz_dataset_shard.c - uses any bytes as a shard: walks over its records as the format
 * demands, and uses the shard as part of a data set.
 *
 * Checksums of records are also corrected, so that the lengths after them are reached. Whatever
 * is accepted must print to the same bytes. The data set's index is made from the records, so
 * that scan and reads reach the items and detect errors in the records. */
#include "base/bits.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "format/format_dataset.h"
#include "fuzz/forge_dataset.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

enum { N_SAMPLES = 8, N_FIELDS = 4, N_VARIANTS = 2, INDEX_CAP = 1 << 16 };

static void walk(const uint8_t *bytes, size_t nbytes)
{
    struct psti_shard_header header;
    struct pst_error err;
    (void)!psti_format_parse_shard_header(bytes, nbytes, &header, &err);
    for (uint64_t at = PSTI_SHARD_HEADER_NBYTES; at < nbytes;) {
        struct psti_record record;
        uint8_t printed[PSTI_RECORD_NBYTES];
        uint64_t left = nbytes - at;
        if (psti_format_parse_record(bytes + at, (size_t)left, left, &record, &err) != PST_OK)
            return;
        psti_format_print_record(&record, printed);
        if (memcmp(printed, bytes + at, 10) != 0 || memcmp(printed + 16, bytes + at + 16, 24) != 0)
            abort();
        /* Reads every byte of the item, so a sanitizer can check them. */
        if (psti_hash64(bytes + at + record.data_offset, (size_t)record.nbytes) == 1)
            abort();
        at = (at + record.data_offset + record.nbytes + 7) & ~(uint64_t)7;
    }
}

/* Writes the entry of a record's item to `index`, if the schema of make_index has a place for
 * it. */
static void enter(uint8_t *index, const struct psti_index_field *fields, uint64_t at,
                  const struct psti_record *record)
{
    if (record->i_field >= N_FIELDS || record->variant >= N_VARIANTS || record->sample >= N_SAMPLES)
        return;
    const struct psti_index_field *field = &fields[record->i_field];
    struct pst_item item = {.form = (enum pst_form)record->form,
                            .offset = at + record->data_offset,
                            .nbytes = record->nbytes,
                            .checksum = record->checksum,
                            .height = 1,
                            .width = (uint32_t)record->nbytes,
                            .channels = 1,
                            .bits = 8,
                            .orientation = 1};
    uint64_t row = record->sample * N_VARIANTS + record->variant;
    psti_format_print_item(field->field.type, &item,
                           index + field->column_offset + row * PSTI_ITEM_NBYTES);
}

/* Makes an index over one shard, with the items that its records describe. Returns its length. */
static size_t make_index(const uint8_t *shard, size_t nbytes, uint8_t index[INDEX_CAP])
{
    static const enum pst_field_type types[N_FIELDS] = {PST_FIELD_IMAGE, PST_FIELD_TEXT,
                                                        PST_FIELD_JSON, PST_FIELD_BYTES};
    struct psti_index_field fields[N_FIELDS] = {0};
    struct psti_index_header header = {.generation = 1,
                                       .n_samples = N_SAMPLES,
                                       .n_fields = N_FIELDS,
                                       .n_shards = 1,
                                       .names_nbytes = 2 * N_SAMPLES};
    struct psti_index_shard entry = {.nbytes = nbytes,
                                     .header_checksum = psti_load_u64(shard + 56)};
    struct psti_record record;
    memset(index, 0, INDEX_CAP);
    memcpy(header.id, shard + 16, 16);
    for (int f = 0; f < N_FIELDS; f++) {
        fields[f].field.type = types[f];
        fields[f].field.n_variants = N_VARIANTS;
        snprintf(fields[f].field.name, sizeof fields[f].field.name, "f%d", f);
        fields[f].max_item_nbytes = nbytes;
    }
    if (!psti_format_index_layout(&header, fields) || header.frame.file_nbytes > INDEX_CAP)
        abort();
    for (int f = 0; f < N_FIELDS; f++)
        psti_format_print_index_field(&fields[f], index + header.fields_offset +
                                                      (size_t)f * PSTI_INDEX_FIELD_NBYTES);
    for (uint64_t s = 0; s <= N_SAMPLES; s++) {
        psti_store_u64(index + header.name_offsets_offset + 8 * s, 2 * s);
        if (s < N_SAMPLES)
            index[header.names_offset + 2 * s] = (uint8_t)('a' + s);
    }
    for (uint64_t at = PSTI_SHARD_HEADER_NBYTES;
         at < nbytes && psti_format_parse_record(shard + at, (size_t)(nbytes - at), nbytes - at,
                                                 &record, NULL) == PST_OK;
         at = (at + record.data_offset + record.nbytes + 7) & ~(uint64_t)7) {
        enter(index, fields, at, &record);
        entry.n_items++;
    }
    psti_format_shard_name(0, entry.name);
    psti_format_print_index_shard(&entry, index + header.shards_offset);
    psti_format_print_index_header(&header, index);
    forge_seal_index(index);
    return (size_t)header.frame.file_nbytes;
}

static void use(const pst_dataset *dataset)
{
    struct pst_error err;
    uint64_t n_items;
    (void)!psti_dataset_scan_shard(dataset, 0, &n_items, &err);
    for (uint64_t s = 0; s < N_SAMPLES; s++) {
        for (uint32_t k = 0; k < N_FIELDS * N_VARIANTS; k++) {
            struct pst_item item;
            uint32_t f = k / N_VARIANTS, v = k % N_VARIANTS;
            if (pst_dataset_item(dataset, s, f, v, &item, sizeof item, &err) != PST_OK)
                continue;
            uint8_t *bytes = malloc((size_t)item.nbytes + 1);
            if (pst_dataset_read(dataset, s, f, v, 0, item.nbytes, bytes, &err) == PST_OK &&
                psti_format_text_problem(pst_dataset_field(dataset, f)->type, bytes,
                                         (size_t)item.nbytes) != NULL)
                abort();
            free(bytes);
        }
    }
}

static void put_file(const char *path, const uint8_t *bytes, size_t nbytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes)
        abort();
    close(fd);
}

static void as_data_set(const uint8_t *shard, size_t nbytes)
{
    static uint8_t index[INDEX_CAP];
    char directory[] = "/dev/shm/pst-fuzz-XXXXXX", paths[2][64];
    struct pst_error err;
    pst_dataset *dataset;
    if (nbytes < PSTI_SHARD_HEADER_NBYTES || mkdtemp(directory) == NULL)
        return;
    snprintf(paths[0], sizeof paths[0], "%s/index.pst", directory);
    snprintf(paths[1], sizeof paths[1], "%s/shard-000000.pst", directory);
    put_file(paths[0], index, make_index(shard, nbytes, index));
    put_file(paths[1], shard, nbytes);
    if (pst_dataset_open(directory, NULL, &dataset, &err) != PST_OK)
        abort();
    use(dataset);
    pst_dataset_close(&dataset);
    unlink(paths[0]);
    unlink(paths[1]);
    rmdir(directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    walk(bytes, nbytes);
    uint8_t *copy = malloc(nbytes + 1);
    memcpy(copy, bytes, nbytes);
    for (size_t at = PSTI_SHARD_HEADER_NBYTES; at + PSTI_RECORD_NBYTES <= nbytes; at += 8)
        if (memcmp(copy + at, "PSTR", 4) == 0)
            psti_store_u64(copy + at + 40, psti_hash64(copy + at, 40));
    walk(copy, nbytes);
    as_data_set(copy, nbytes);
    free(copy);
    return 0;
}

/* libFuzzer's own mutator; missing when a corpus is replayed. */
extern size_t LLVMFuzzerMutate(uint8_t *bytes, size_t nbytes, size_t max_nbytes)
    __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t max_nbytes, unsigned seed);

/* In seven of eight calls changes one member of a structure and corrects all checksums. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t max_nbytes, unsigned seed)
{
    uint64_t state = seed;
    if (seed % 8 != 0 && forge_shard(bytes, nbytes, &state))
        return nbytes;
    return LLVMFuzzerMutate != NULL ? LLVMFuzzerMutate(bytes, nbytes, max_nbytes) : nbytes;
}
