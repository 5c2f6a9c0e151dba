/* journal_forge.c - implements journal_forge.h. Uses plain malloc; the layout is that of
 * docs/format-dataset.md. */
#include "writer/journal_forge.h"

#include "base/bits.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>

static void add(struct journal_map *map, size_t offset, uint8_t nbytes, const char *what)
{
    if (map->n_numbers % 1024 == 0)
        map->numbers =
            realloc(map->numbers, (map->n_numbers + 1024) * sizeof(struct journal_number));
    map->numbers[map->n_numbers++] = (struct journal_number){offset, nbytes, what};
}

static void add_item(struct journal_map *map, size_t at, enum pst_field_type type)
{
    add(map, at, 8, "offset of an item");
    add(map, at + 8, 8, "length of an item");
    add(map, at + 16, 8, "checksum of an item");
    add(map, at + 24, 4, "shard of an item");
    add(map, at + 28, 1, "form");
    add(map, at + 29, 1, "number of dimensions");
    add(map, at + 30, 1, "flags of an item");
    if (!psti_format_is_image(type)) {
        add(map, at + 32, 4, "first dimension");
        add(map, at + 36, 4, "second dimension");
        return;
    }
    add(map, at + 32, 4, "height");
    add(map, at + 36, 4, "width");
    add(map, at + 40, 1, "channels");
    add(map, at + 41, 1, "bits");
    add(map, at + 42, 1, "orientation");
    add(map, at + 48, 8, "checksum of pixels");
}

static void add_sample(struct journal_map *map, size_t at, size_t nbytes,
                       const struct pst_field *fields, uint32_t n_fields)
{
    add(map, at, 8, "number of a sample");
    add(map, at + 8, 4, "length of a name");
    size_t row = at + PSTI_JOURNAL_SAMPLE_NBYTES;
    for (uint32_t i = 0; i < n_fields; i++) {
        if (!psti_format_has_items(fields[i].type))
            add(map, row, 8, "a value");
        else
            for (uint32_t v = 0; v < fields[i].n_variants; v++)
                add_item(map, row + (size_t)v * PSTI_ITEM_NBYTES, fields[i].type);
        row += psti_format_row_nbytes(&fields[i]);
    }
    add(map, row, 1, "first byte of a name");
    add(map, at + nbytes - 1, 1, "end of a name");
}

static void add_commit(struct journal_map *map, size_t at, size_t nbytes)
{
    add(map, at, 8, "number of samples");
    add(map, at + 8, 4, "number of shards");
    for (size_t i = PSTI_JOURNAL_COMMIT_NBYTES; i + PSTI_JOURNAL_SHARD_NBYTES <= nbytes;
         i += PSTI_JOURNAL_SHARD_NBYTES) {
        add(map, at + i, 8, "number of a shard");
        add(map, at + i + 8, 8, "length of a shard");
        add(map, at + i + 16, 8, "items of a shard");
    }
}

static void add_header(struct journal_map *map, uint32_t n_fields)
{
    for (size_t at = 8; at < 56; at += 4)
        add(map, at, 4, "header");
    for (uint32_t i = 0; i < n_fields; i++) {
        size_t field = PSTI_JOURNAL_HEADER_NBYTES + (size_t)i * PSTI_INDEX_FIELD_NBYTES;
        add(map, field, 1, "name of a field");
        for (size_t at = 64; at < 68; at++)
            add(map, field + at, 1, "type, dtype, dimensions or variants of a field");
        add(map, field + 72, 4, "shape of a field");
        add(map, field + 104, 8, "classes of a field");
    }
}

bool journal_map_make(const uint8_t *bytes, size_t nbytes, struct journal_map *map)
{
    struct psti_journal_header header;
    struct pst_field fields[PST_MAX_FIELDS];
    memset(map, 0, sizeof *map);
    if (psti_format_parse_journal_header(bytes, nbytes, &header, fields, NULL) != PST_OK)
        return false;
    map->header_nbytes = psti_format_journal_header_nbytes(header.n_fields);
    map->entries = malloc((nbytes / PSTI_JOURNAL_RECORD_NBYTES + 2) * sizeof(size_t));
    add_header(map, header.n_fields);
    size_t at = map->header_nbytes;
    while (at + PSTI_JOURNAL_RECORD_NBYTES <= nbytes) {
        struct psti_journal_record record;
        size_t body = at + PSTI_JOURNAL_RECORD_NBYTES;
        if (!psti_format_parse_journal_record(bytes + at, &record) ||
            record.nbytes > nbytes - body || record.nbytes == 0)
            break;
        map->entries[map->n_entries++] = at;
        add(map, at + 4, 4, "kind of an entry");
        add(map, at + 8, 8, "length of an entry");
        if (record.kind == PSTI_JOURNAL_SAMPLE)
            add_sample(map, body, (size_t)record.nbytes, fields, header.n_fields);
        else if (record.kind == PSTI_JOURNAL_COMMIT)
            add_commit(map, body, (size_t)record.nbytes);
        else
            add(map, body, 4, "field of class names");
        at = body + (size_t)((record.nbytes + 7) & ~(uint64_t)7);
    }
    map->entries[map->n_entries] = at;
    return true;
}

void journal_map_free(struct journal_map *map)
{
    free(map->entries);
    free(map->numbers);
    memset(map, 0, sizeof *map);
}

bool journal_alter(uint8_t *bytes, const struct journal_number *number, unsigned way)
{
    uint64_t old = 0, mask = number->nbytes == 8 ? UINT64_MAX : (1ull << 8 * number->nbytes) - 1;
    memcpy(&old, bytes + number->offset, number->nbytes);
    const uint64_t values[JOURNAL_WAYS] = {
        0, 1, old + 1, old - 1, old + 8, old << 1, mask - (old & 1), old ^ (mask / 2 + 1)};
    uint64_t value = values[way] & mask;
    if (value == old)
        return false;
    for (unsigned i = 0; i < number->nbytes; i++)
        bytes[number->offset + i] = (uint8_t)(value >> 8 * i);
    return true;
}

void journal_seal(uint8_t *bytes, size_t nbytes)
{
    uint32_t n_fields = nbytes >= PSTI_JOURNAL_HEADER_NBYTES ? psti_load_u32(bytes + 48) : 0;
    size_t at = psti_format_journal_header_nbytes(n_fields % (PST_MAX_FIELDS + 1));
    if (n_fields > PST_MAX_FIELDS || at > nbytes)
        return;
    psti_store_u64(bytes + at - 8, psti_hash64(bytes, at - 8));
    while (at + PSTI_JOURNAL_RECORD_NBYTES <= nbytes) {
        uint64_t body = psti_load_u64(bytes + at + 8),
                 left = nbytes - at - PSTI_JOURNAL_RECORD_NBYTES;
        if (body > left)
            return;
        uint32_t kind = psti_load_u32(bytes + at + 4);
        psti_format_print_journal_record((enum psti_journal_kind)kind,
                                         bytes + at + PSTI_JOURNAL_RECORD_NBYTES, body, bytes + at);
        at += PSTI_JOURNAL_RECORD_NBYTES + (size_t)((body + 7) & ~(uint64_t)7);
    }
}
