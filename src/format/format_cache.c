/* format_cache.c - prints and parses a saved cache (docs/format-cache.md). Pure functions; any
 * thread. */
#include "format/format_cache.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

static const uint8_t file_magic[8] = {0x89, 'P', 'S', 'T', 'C', 0x0D, 0x0A, 0x1A};
static const uint8_t record_magic[4] = {'P', 'S', 'C', 'R'};

#define NUMBERS_MAX ((uint64_t)1 << 56)         /* limit for the numbers of items: the header of an
                                                 * item has 56 bits for its number */
enum { SUM_AT = PSTI_CACHE_RECORD_NBYTES - 8 }; /* offset of the checksum in a record */
_Static_assert(PSTI_CACHE_HEADER_NBYTES == PSTI_CACHE_RECORD_NBYTES, "both end with a checksum");

static enum pst_status fail_at(struct pst_error *err, enum pst_status status, int64_t offset,
                               const char *text)
{
    return psti_fail_at(err, status, "format", NULL, offset, "%s", text);
}

bool psti_format_cache_numbers(const struct psti_cache_shape *shape, uint64_t *n)
{
    return psti_mul_u64(shape->n_samples, shape->n_items, n) && *n <= NUMBERS_MAX &&
           *n <= SIZE_MAX / 2 / 8;
}

static void print_sum(uint8_t *out) { psti_store_u64(out + SUM_AT, psti_hash64(out, SUM_AT)); }

void psti_format_print_cache_header(uint8_t out[PSTI_CACHE_HEADER_NBYTES])
{
    memset(out, 0, PSTI_CACHE_HEADER_NBYTES);
    memcpy(out, file_magic, sizeof file_magic);
    psti_store_u16(out + 8, PSTI_CACHE_MAJOR);
    psti_store_u16(out + 10, PSTI_CACHE_MINOR);
    psti_store_u32(out + 12, PSTI_CACHE_HEADER_NBYTES);
    print_sum(out);
}

enum pst_status psti_format_parse_cache_header(const uint8_t *bytes, size_t nbytes,
                                               struct pst_error *err)
{
    if (memcmp(bytes, file_magic, nbytes < 8 ? nbytes : 8) != 0)
        return fail_at(err, PST_ERROR_CORRUPT, 0, "this is no saved cache");
    if (nbytes >= 12 && psti_load_u16(bytes + 8) != PSTI_CACHE_MAJOR)
        return psti_fail_at(
            err, PST_ERROR_VERSION, "format", NULL, 8,
            "the saved cache has format version %u.%u, this library reads %d.x: save it anew",
            psti_load_u16(bytes + 8), psti_load_u16(bytes + 10), PSTI_CACHE_MAJOR);
    if (nbytes < PSTI_CACHE_HEADER_NBYTES)
        return fail_at(err, PST_ERROR_TRUNCATED, (int64_t)nbytes,
                       "the saved cache ends within its header");
    if (psti_load_u64(bytes + SUM_AT) != psti_hash64(bytes, SUM_AT))
        return fail_at(err, PST_ERROR_CHECKSUM, 0, "the saved cache's header was altered");
    if (psti_load_u32(bytes + 12) != PSTI_CACHE_HEADER_NBYTES)
        return fail_at(err, PST_ERROR_CORRUPT, 12, "the header states an impossible length");
    return PST_OK;
}

void psti_format_print_cache_record(const struct psti_cache_record *record,
                                    uint8_t out[PSTI_CACHE_RECORD_NBYTES])
{
    memset(out, 0, PSTI_CACHE_RECORD_NBYTES);
    memcpy(out, record_magic, sizeof record_magic);
    psti_store_u32(out + 4, record->kind);
    switch (record->kind) {
    case PSTI_CACHE_RECORD_SET:
        memcpy(out + 8, record->set.identity, sizeof record->set.identity);
        psti_store_u64(out + 24, record->set.n_samples);
        psti_store_u32(out + 32, record->set.n_items);
        psti_store_u64(out + 40, record->set.forms);
        break;
    case PSTI_CACHE_RECORD_BLOCK:
        psti_store_u64(out + 8, record->block.n_items);
        psti_store_u64(out + 16, record->block.nbytes);
        psti_store_u64(out + 24, record->block.table_checksum);
        break;
    case PSTI_CACHE_RECORD_END:
        psti_store_u64(out + 8, record->end.n_sets);
        psti_store_u64(out + 16, record->end.n_items);
        psti_store_u64(out + 24, record->end.file_nbytes);
        break;
    }
    print_sum(out);
}

static enum pst_status parse_set(const uint8_t *bytes, struct psti_cache_shape *shape,
                                 struct pst_error *err)
{
    uint64_t n;
    memcpy(shape->identity, bytes + 8, sizeof shape->identity);
    shape->n_samples = psti_load_u64(bytes + 24);
    shape->n_items = psti_load_u32(bytes + 32);
    shape->forms = psti_load_u64(bytes + 40);
    shape->lacks_sums = false;
    return psti_format_cache_numbers(shape, &n)
               ? PST_OK
               : fail_at(err, PST_ERROR_CORRUPT, 24, "a data set has an impossible size");
}

static enum pst_status parse_block(const uint8_t *bytes, struct psti_cache_block *block,
                                   struct pst_error *err)
{
    block->n_items = psti_load_u64(bytes + 8);
    block->nbytes = psti_load_u64(bytes + 16);
    block->table_checksum = psti_load_u64(bytes + 24);
    return block->n_items > 0 && block->n_items <= PSTI_CACHE_BLOCK_ITEMS
               ? PST_OK
               : fail_at(err, PST_ERROR_CORRUPT, 8, "a block has an impossible number of items");
}

enum pst_status psti_format_parse_cache_record(const uint8_t bytes[PSTI_CACHE_RECORD_NBYTES],
                                               struct psti_cache_record *record,
                                               struct pst_error *err)
{
    if (psti_load_u64(bytes + SUM_AT) != psti_hash64(bytes, SUM_AT) ||
        memcmp(bytes, record_magic, sizeof record_magic) != 0)
        return fail_at(err, PST_ERROR_CHECKSUM, 0, "a record of the saved cache was altered");
    record->kind = (enum psti_cache_record_kind)psti_load_u32(bytes + 4);
    switch (record->kind) {
    case PSTI_CACHE_RECORD_SET:
        return parse_set(bytes, &record->set, err);
    case PSTI_CACHE_RECORD_BLOCK:
        return parse_block(bytes, &record->block, err);
    case PSTI_CACHE_RECORD_END:
        record->end.n_sets = psti_load_u64(bytes + 8);
        record->end.n_items = psti_load_u64(bytes + 16);
        record->end.file_nbytes = psti_load_u64(bytes + 24);
        return PST_OK;
    }
    return fail_at(err, PST_ERROR_CORRUPT, 4, "a record of the saved cache is of no known kind");
}

void psti_format_print_cache_entry(const struct psti_cache_entry *entry,
                                   uint8_t out[PSTI_CACHE_ENTRY_NBYTES])
{
    psti_store_u64(out, entry->number);
    psti_store_u64(out + 8, entry->nbytes);
    psti_store_u64(out + 16, entry->checksum);
}

void psti_format_parse_cache_entry(const uint8_t bytes[PSTI_CACHE_ENTRY_NBYTES],
                                   struct psti_cache_entry *entry)
{
    entry->number = psti_load_u64(bytes);
    entry->nbytes = psti_load_u64(bytes + 8);
    entry->checksum = psti_load_u64(bytes + 16);
}

enum pst_status psti_format_check_cache_table(const uint8_t *table,
                                              const struct psti_cache_block *block,
                                              uint64_t n_numbers, uint64_t *next,
                                              struct pst_error *err)
{
    uint64_t sum = 0, room;
    if (psti_hash64(table, (size_t)block->n_items * PSTI_CACHE_ENTRY_NBYTES) !=
        block->table_checksum)
        return fail_at(err, PST_ERROR_CHECKSUM, 0, "a table of the saved cache was altered");
    for (uint64_t i = 0; i < block->n_items; i++) {
        struct psti_cache_entry entry;
        int64_t at = (int64_t)(i * PSTI_CACHE_ENTRY_NBYTES);
        psti_format_parse_cache_entry(table + at, &entry);
        if (entry.number < *next || entry.number >= n_numbers)
            return fail_at(err, PST_ERROR_CORRUPT, at,
                           "an item's number is out of order or beyond its data set");
        if (!psti_format_cache_room(entry.nbytes, &room) || !psti_add_u64(sum, room, &sum) ||
            sum > block->nbytes)
            return fail_at(err, PST_ERROR_CORRUPT, at + 8, "an item reaches beyond its block");
        *next = entry.number + 1;
    }
    return sum == block->nbytes
               ? PST_OK
               : fail_at(err, PST_ERROR_CORRUPT, 0, "a block has bytes that are of no item");
}
