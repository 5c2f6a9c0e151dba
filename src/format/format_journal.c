/* format_journal.c - prints and parses the writer's journal (docs/format-dataset.md, section 5).
 * Pure functions; any thread. An invalid record (magic, length, checksum) is no error but the end
 * of the journal, because a crash may have cut it. A header with a wrong checksum is an error,
 * because a header appears whole, by a rename. */
#include "format/format_dataset.h"

#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

static const uint8_t journal_magic[8] = {0x89, 'P', 'S', 'T', 'J', 0x0D, 0x0A, 0x1A};
static const uint8_t entry_magic[4] = {'P', 'S', 'T', 'E'};

size_t psti_format_rows_nbytes(const struct pst_field *fields, uint32_t n_fields)
{
    size_t nbytes = 0;
    for (uint32_t i = 0; i < n_fields; i++)
        nbytes += psti_format_row_nbytes(&fields[i]);
    return nbytes;
}

void psti_format_print_journal_header(const struct psti_journal_header *header,
                                      const struct pst_field *fields, uint8_t *out)
{
    size_t nbytes = psti_format_journal_header_nbytes(header->n_fields);
    memset(out, 0, nbytes);
    memcpy(out, journal_magic, 8);
    psti_store_u16(out + 8, PSTI_DATASET_MAJOR);
    psti_store_u16(out + 10, psti_format_fields_minor(fields, header->n_fields));
    psti_store_u32(out + 12, (uint32_t)nbytes);
    memcpy(out + 16, header->id, 16);
    psti_store_u64(out + 32, header->base_generation);
    psti_store_u64(out + 40, header->base_n_samples);
    psti_store_u32(out + 48, header->n_fields);
    psti_store_u64(out + 56, header->mark);
    for (uint32_t i = 0; i < header->n_fields; i++)
        psti_format_print_field(&fields[i], out + PSTI_JOURNAL_HEADER_NBYTES +
                                                (size_t)i * PSTI_INDEX_FIELD_NBYTES);
    psti_store_u64(out + nbytes - 8, psti_hash64(out, nbytes - 8));
}

static enum pst_status parse_fields(const uint8_t *bytes, uint32_t n,
                                    struct pst_field fields[PST_MAX_FIELDS], struct pst_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        enum pst_status status =
            psti_format_parse_field(bytes + (size_t)i * PSTI_INDEX_FIELD_NBYTES, &fields[i], err);
        if (status != PST_OK)
            return status;
        if (psti_format_name_is_taken(fields, i, fields[i].name))
            return psti_fail(err, PST_ERROR_CORRUPT, "format",
                             "two fields of the journal's schema have one name");
    }
    return PST_OK;
}

enum pst_status psti_format_parse_journal_header(const uint8_t *bytes, size_t nbytes,
                                                 struct psti_journal_header *header,
                                                 struct pst_field fields[PST_MAX_FIELDS],
                                                 struct pst_error *err)
{
    if (memcmp(bytes, journal_magic, nbytes < 8 ? nbytes : 8) != 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, "format", NULL, 0,
                            "this is no journal of a Penstock data set");
    if (nbytes >= 12 && psti_load_u16(bytes + 8) > PSTI_DATASET_MAJOR)
        return psti_fail_at(err, PST_ERROR_VERSION, "format", NULL, 8,
                            "the journal has format version %u.%u, this library reads up to %d.x",
                            psti_load_u16(bytes + 8), psti_load_u16(bytes + 10),
                            PSTI_DATASET_MAJOR);
    size_t header_nbytes = PSTI_JOURNAL_HEADER_NBYTES;
    if (nbytes >= PSTI_JOURNAL_HEADER_NBYTES) {
        header->n_fields = psti_load_u32(bytes + 48);
        if (header->n_fields == 0 || header->n_fields > PST_MAX_FIELDS)
            return psti_fail(err, PST_ERROR_CORRUPT, "format",
                             "the journal's header has an impossible number of fields");
        header_nbytes = psti_format_journal_header_nbytes(header->n_fields);
    }
    if (nbytes < header_nbytes)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, "format", NULL, (int64_t)nbytes,
                            "the journal ends within its header");
    if (psti_load_u64(bytes + header_nbytes - 8) != psti_hash64(bytes, header_nbytes - 8))
        return psti_fail(err, PST_ERROR_CHECKSUM, "format", "the journal's header was altered");
    header->major = psti_load_u16(bytes + 8);
    header->minor = psti_load_u16(bytes + 10);
    memcpy(header->id, bytes + 16, 16);
    header->base_generation = psti_load_u64(bytes + 32);
    header->base_n_samples = psti_load_u64(bytes + 40);
    header->mark = psti_load_u64(bytes + 56);
    return parse_fields(bytes + PSTI_JOURNAL_HEADER_NBYTES, header->n_fields, fields, err);
}

/* Computes a record's checksum. It covers kind and length too, so a partly written head is not
 * accepted. */
static uint64_t record_checksum(const uint8_t head[16], const uint8_t *body, uint64_t nbytes)
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    psti_hash_update(&state, head, 16);
    psti_hash_update(&state, body, (size_t)nbytes);
    return psti_hash_end(&state);
}

void psti_format_print_journal_record(enum psti_journal_kind kind, const uint8_t *body,
                                      uint64_t nbytes, uint8_t out[PSTI_JOURNAL_RECORD_NBYTES])
{
    memcpy(out, entry_magic, 4);
    psti_store_u32(out + 4, kind);
    psti_store_u64(out + 8, nbytes);
    psti_store_u64(out + 16, record_checksum(out, body, nbytes));
}

bool psti_format_parse_journal_record(const uint8_t bytes[PSTI_JOURNAL_RECORD_NBYTES],
                                      struct psti_journal_record *record)
{
    if (memcmp(bytes, entry_magic, 4) != 0)
        return false;
    record->kind = psti_load_u32(bytes + 4);
    record->nbytes = psti_load_u64(bytes + 8);
    record->checksum = psti_load_u64(bytes + 16);
    return record->nbytes <= INT64_MAX - 8;
}

bool psti_format_journal_body_ok(const struct psti_journal_record *record, const uint8_t *body)
{
    uint8_t head[16];
    memcpy(head, entry_magic, 4);
    psti_store_u32(head + 4, record->kind);
    psti_store_u64(head + 8, record->nbytes);
    return record_checksum(head, body, record->nbytes) == record->checksum;
}

void psti_format_print_journal_sample_head(uint64_t sample, uint32_t name_nbytes,
                                           uint8_t out[PSTI_JOURNAL_SAMPLE_NBYTES])
{
    psti_store_u64(out, sample);
    psti_store_u32(out + 8, name_nbytes);
    psti_store_u32(out + 12, 0);
}

bool psti_format_parse_journal_sample(const uint8_t *body, uint64_t nbytes, size_t rows_nbytes,
                                      struct psti_journal_sample *sample)
{
    uint64_t fixed = PSTI_JOURNAL_SAMPLE_NBYTES + (uint64_t)rows_nbytes;
    if (nbytes < fixed + 2)
        return false;
    sample->sample = psti_load_u64(body);
    sample->name_nbytes = psti_load_u32(body + 8);
    sample->rows = body + PSTI_JOURNAL_SAMPLE_NBYTES;
    sample->name = (const char *)body + fixed;
    if (nbytes != fixed + sample->name_nbytes + 1 || sample->name[sample->name_nbytes] != 0)
        return false;
    return psti_format_name_problem(sample->name, sample->name_nbytes) == NULL;
}

void psti_format_print_journal_commit_head(uint64_t n_samples, uint32_t n_shards,
                                           uint8_t out[PSTI_JOURNAL_COMMIT_NBYTES])
{
    psti_store_u64(out, n_samples);
    psti_store_u32(out + 8, n_shards);
    psti_store_u32(out + 12, 0);
}

bool psti_format_parse_journal_commit(const uint8_t *body, uint64_t nbytes,
                                      struct psti_journal_commit *commit)
{
    if (nbytes < PSTI_JOURNAL_COMMIT_NBYTES)
        return false;
    commit->n_samples = psti_load_u64(body);
    commit->n_shards = psti_load_u32(body + 8);
    commit->shards = body + PSTI_JOURNAL_COMMIT_NBYTES;
    return nbytes ==
           PSTI_JOURNAL_COMMIT_NBYTES + (uint64_t)commit->n_shards * PSTI_JOURNAL_SHARD_NBYTES;
}

void psti_format_print_journal_shard(const struct psti_journal_shard *shard,
                                     uint8_t out[PSTI_JOURNAL_SHARD_NBYTES])
{
    psti_store_u64(out, shard->number);
    psti_store_u64(out + 8, shard->nbytes);
    psti_store_u64(out + 16, shard->n_items);
}

void psti_format_parse_journal_shard(const uint8_t bytes[PSTI_JOURNAL_SHARD_NBYTES],
                                     struct psti_journal_shard *shard)
{
    shard->number = psti_load_u64(bytes);
    shard->nbytes = psti_load_u64(bytes + 8);
    shard->n_items = psti_load_u64(bytes + 16);
}
