/* forge_dataset.c - finds the structures of an index or shard and changes one of their members.
 *
 * Positions come from the parsers in src/format, which accept only sections within the file. So
 * a change always lies within the file, whatever was changed before. */
#include "fuzz/forge_dataset.h"

#include "base/bits.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <string.h>

uint64_t forge_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Writes another value into `nbytes` (1, 2, 4, 8) bytes: near the old one, at a bound, or
 * random. */
static void change(uint8_t *at, size_t nbytes, uint64_t *state)
{
    static const uint64_t bounds[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      5,
                                      6,
                                      7,
                                      8,
                                      9,
                                      15,
                                      16,
                                      17,
                                      63,
                                      64,
                                      65,
                                      127,
                                      128,
                                      255,
                                      256,
                                      4095,
                                      4096,
                                      65535,
                                      65536,
                                      1u << 30,
                                      0x7FFFFFFF,
                                      0xFFFFFFFF,
                                      0x100000000,
                                      INT64_MAX,
                                      UINT64_MAX,
                                      UINT64_MAX - 63};
    uint64_t value = 0, r = forge_random(state);
    memcpy(&value, at, nbytes);
    switch (r % 4) {
    case 0:
        value += (r >> 8) % 2 ? 1 : UINT64_MAX;
        break;
    case 1:
        value ^= (uint64_t)1 << (r >> 8) % (8 * nbytes);
        break;
    case 2:
        value = bounds[(r >> 8) % (sizeof bounds / sizeof *bounds)];
        break;
    default:
        value = forge_random(state) >> (r >> 8) % 64;
        break;
    }
    memcpy(at, &value, nbytes);
}

void forge_seal_index(uint8_t *bytes)
{
    uint64_t blocks = psti_load_u64(bytes + 96), n_blocks = psti_load_u64(bytes + 104);
    for (uint64_t i = 0; i < n_blocks; i++) {
        uint64_t at = PSTI_INDEX_HEADER_NBYTES + i * PSTI_INDEX_BLOCK_NBYTES, left = blocks - at;
        psti_store_u64(bytes + blocks + 8 * i,
                       psti_hash64(bytes + at, left < PSTI_INDEX_BLOCK_NBYTES
                                                   ? (size_t)left
                                                   : PSTI_INDEX_BLOCK_NBYTES));
    }
    psti_store_u64(bytes + 112, psti_hash64(bytes + blocks, (size_t)(8 * n_blocks)));
    psti_store_u64(bytes + PSTI_INDEX_HEADER_NBYTES - 8,
                   psti_hash64(bytes, PSTI_INDEX_HEADER_NBYTES - 8));
}

/* Changes a member of an item's 64 bytes, at the offsets of format_dataset.c. */
static void change_item(uint8_t *item, uint64_t *state)
{
    static const uint8_t members[][2] = {{0, 8},  {8, 8},  {16, 8}, {24, 4}, {28, 1}, {29, 1},
                                         {30, 1}, {32, 4}, {36, 4}, {40, 1}, {41, 1}, {42, 1},
                                         {43, 1}, {40, 4}, {44, 4}, {48, 8}, {56, 8}};
    const uint8_t *member = members[forge_random(state) % (sizeof members / sizeof *members)];
    change(item + member[0], member[1], state);
}

static void change_field(uint8_t *field, uint64_t *state)
{
    static const uint8_t members[][2] = {{0, 1},   {5, 1},   {64, 1},  {65, 1},  {66, 1},  {67, 1},
                                         {72, 4},  {76, 4},  {104, 8}, {112, 8}, {120, 8}, {128, 8},
                                         {136, 8}, {144, 8}, {152, 8}, {160, 8}, {168, 8}};
    const uint8_t *member = members[forge_random(state) % (sizeof members / sizeof *members)];
    change(field + member[0], member[1], state);
}

/* Changes a row of a column, or a byte of the class names. */
static void change_column(uint8_t *bytes, const struct psti_index_header *header, uint64_t *state)
{
    struct psti_index_field field;
    uint64_t r = forge_random(state);
    const uint8_t *record =
        bytes + header->fields_offset + r % header->n_fields * PSTI_INDEX_FIELD_NBYTES;
    if (psti_format_parse_index_field(record, header, &field, NULL) != PST_OK)
        return;
    if (field.classes_nbytes > 0 && (r >> 32) % 2 == 0) {
        uint64_t at = forge_random(state) % field.classes_nbytes;
        change(bytes + field.classes_offset + at, 1, state);
    } else if (header->n_samples > 0) {
        size_t row_nbytes = psti_format_row_nbytes(&field.field);
        uint8_t *row =
            bytes + field.column_offset + forge_random(state) % header->n_samples * row_nbytes;
        if (!psti_format_has_items(field.field.type))
            change(row, 8, state);
        else
            change_item(row + (r >> 40) % field.field.n_variants * PSTI_ITEM_NBYTES, state);
    }
}

bool forge_index(uint8_t *bytes, size_t nbytes, uint64_t *state)
{
    struct psti_index_header header;
    if (nbytes < PSTI_INDEX_HEADER_NBYTES ||
        psti_format_parse_index_header(bytes, nbytes, nbytes, &header, NULL) != PST_OK)
        return false;
    uint64_t r = forge_random(state), k = forge_random(state);
    switch (r % 16) {
    case 0: { /* but not the lengths, which sealing relies on */
        static const uint8_t members[] = {8, 10, 16, 32, 40, 48, 52, 56, 64, 72, 80, 88};
        uint8_t at = members[k % sizeof members];
        change(bytes + at, at < 12 ? 2 : at == 48 || at == 52 ? 4 : 8, state);
        break;
    }
    case 1:
        change_field(bytes + header.fields_offset + k % header.n_fields * PSTI_INDEX_FIELD_NBYTES,
                     state);
        break;
    case 2:
        if (header.n_shards > 0)
            change(bytes + header.shards_offset + k % header.n_shards * PSTI_INDEX_SHARD_NBYTES +
                       (k >> 40) % 8 * 8,
                   8, state);
        break;
    case 3:
        change(bytes + header.name_offsets_offset + k % (header.n_samples + 1) * 8, 8, state);
        break;
    case 4:
        if (header.names_nbytes > 0)
            change(bytes + header.names_offset + k % header.names_nbytes, 1, state);
        break;
    default:
        change_column(bytes, &header, state);
        break;
    }
    forge_seal_index(bytes);
    return true;
}

/* Finds the first byte of the next record from *at on. Returns false if there is none. */
static bool next_record(const uint8_t *bytes, size_t nbytes, uint64_t *at,
                        struct psti_record *record)
{
    for (; *at + PSTI_RECORD_NBYTES <= nbytes; *at += 8) {
        if (memcmp(bytes + *at, "PSTR", 4) != 0)
            continue;
        uint8_t copy[PSTI_RECORD_NBYTES];
        memcpy(copy, bytes + *at, sizeof copy);
        psti_store_u64(copy + 40, psti_hash64(copy, 40));
        if (psti_format_parse_record(copy, sizeof copy, nbytes - *at, record, NULL) == PST_OK)
            return true;
    }
    return false;
}

static uint64_t behind(uint64_t at, const struct psti_record *record)
{
    return (at + record->data_offset + record->nbytes + 7) & ~(uint64_t)7;
}

void forge_seal_shard(uint8_t *bytes, size_t nbytes)
{
    struct psti_record record;
    uint64_t at = PSTI_SHARD_HEADER_NBYTES;
    if (nbytes < PSTI_SHARD_HEADER_NBYTES)
        return;
    psti_store_u64(bytes + 56, psti_hash64(bytes, 56));
    for (; next_record(bytes, nbytes, &at, &record); at = behind(at, &record)) {
        uint64_t sum = psti_hash64(bytes + at + record.data_offset, (size_t)record.nbytes);
        psti_store_u64(bytes + at + 32, sum);
        psti_store_u64(bytes + at + 40, psti_hash64(bytes + at, 40));
    }
}

bool forge_shard(uint8_t *bytes, size_t nbytes, uint64_t *state)
{
    struct psti_record record;
    uint64_t n = 0, at = PSTI_SHARD_HEADER_NBYTES;
    for (; next_record(bytes, nbytes, &at, &record); at = behind(at, &record))
        n++;
    if (n == 0)
        return false;
    uint64_t r = forge_random(state), left = forge_random(state) % n;
    at = PSTI_SHARD_HEADER_NBYTES;
    while (next_record(bytes, nbytes, &at, &record) && left-- > 0)
        at = behind(at, &record);
    if (r % 4 != 0 && record.nbytes > 0) {
        uint64_t k = forge_random(state) % record.nbytes;
        change(bytes + at + record.data_offset + k, 1, state);
    } else {
        static const uint8_t members[][2] = {{4, 2}, {6, 2}, {8, 1}, {9, 1}, {16, 8}, {24, 8}};
        const uint8_t *member = members[(r >> 8) % (sizeof members / sizeof *members)];
        change(bytes + at + member[0], member[1], state);
    }
    forge_seal_shard(bytes, nbytes);
    return true;
}

void forge_follow_shard(uint8_t *index, size_t index_nbytes, uint32_t i_shard, const uint8_t *shard,
                        size_t shard_nbytes)
{
    struct psti_index_header header;
    struct psti_index_field field;
    if (psti_format_parse_index_header(index, index_nbytes, index_nbytes, &header, NULL) != PST_OK)
        return;
    for (uint32_t f = 0; f < header.n_fields; f++) {
        const uint8_t *at = index + header.fields_offset + (size_t)f * PSTI_INDEX_FIELD_NBYTES;
        if (psti_format_parse_index_field(at, &header, &field, NULL) != PST_OK ||
            !psti_format_has_items(field.field.type))
            continue;
        for (uint64_t k = 0; k < header.n_samples * field.field.n_variants; k++) {
            uint8_t *item = index + field.column_offset + k * PSTI_ITEM_NBYTES;
            uint64_t offset = psti_load_u64(item), nbytes = psti_load_u64(item + 8);
            if (item[28] != PST_FORM_NONE && psti_load_u32(item + 24) == i_shard &&
                offset <= shard_nbytes && nbytes <= shard_nbytes - offset)
                psti_store_u64(item + 16, psti_hash64(shard + offset, (size_t)nbytes));
        }
    }
    forge_seal_index(index);
}
