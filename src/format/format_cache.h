/* format_cache.h - the byte layout of a saved cache, as docs/format-cache.md states it.
 *
 * Pure functions, like those of format_dataset.h: they convert bytes to values and back, trust no
 * byte, and give offsets in `err` relative to the given bytes. */
#ifndef PST_FORMAT_FORMAT_CACHE_H
#define PST_FORMAT_FORMAT_CACHE_H

#include "base/bits.h"

#include <penstock/status.h>

#include <stdbool.h>

#define PSTI_CACHE_MAJOR 1
#define PSTI_CACHE_MINOR 0

enum {
    PSTI_CACHE_HEADER_NBYTES = 64,
    PSTI_CACHE_RECORD_NBYTES = 64,
    PSTI_CACHE_ENTRY_NBYTES = 24,
    PSTI_CACHE_ALIGNMENT = 16,
    PSTI_CACHE_BLOCK_ITEMS = 4096, /* maximum number of items of a block */
    PSTI_CACHE_TABLE_NBYTES = PSTI_CACHE_BLOCK_ITEMS * PSTI_CACHE_ENTRY_NBYTES
};

/* Identifies one version of a data set, and states how many items it has. */
struct psti_cache_shape {
    uint8_t identity[16]; /* equal for two data sets only if all their bytes are equal */
    uint64_t n_samples;
    uint32_t n_items; /* number of items of each sample, counting the variants of all its fields */
    /* A number for the set of forms in which the caller caches items. Callers with different
     * numbers do not share items. */
    uint64_t forms;
    /* True if the index has no checksums of items, so nobody can verify that cached bytes belong to
     * the data set. Such items are not saved, and items of a file are not accepted for them. This
     * member is not stored in the file. */
    bool lacks_sums;
};

/* The header of an item, in a file and in memory. The item's bytes follow it, then zero bytes up to
 * a multiple of PSTI_CACHE_ALIGNMENT. */
struct psti_cache_item {
    uint64_t nbytes;
    uint64_t number : 56; /* sample * n_items of the shape, plus the number of the item in the
                           * sample */
    uint64_t form : 8;    /* 0: the bytes as the data set stores them; else a form, numbered by the
                           * reader */
};

/* Computes the bytes of an item with its header and padding. Returns false if the sum overflows. */
static inline bool psti_format_cache_room(uint64_t nbytes, uint64_t *room)
{
    if (nbytes > SIZE_MAX / 2)
        return false;
    *room = psti_round_up(sizeof(struct psti_cache_item) + nbytes, PSTI_CACHE_ALIGNMENT);
    return true;
}
/* Computes how many items a data set of this shape may have. Returns false if a table of 8 bytes
 * for each item could not be addressed. */
bool psti_format_cache_numbers(const struct psti_cache_shape *shape, uint64_t *n);

enum psti_cache_record_kind {
    PSTI_CACHE_RECORD_SET = 1,   /* begins the blocks of one data set */
    PSTI_CACHE_RECORD_BLOCK = 2, /* begins a block: its table and items follow */
    PSTI_CACHE_RECORD_END = 3    /* the last record of the file */
};

struct psti_cache_block {
    uint64_t n_items; /* number of items, 1 to PSTI_CACHE_BLOCK_ITEMS */
    uint64_t nbytes;  /* bytes of all items with their headers and padding */
    uint64_t table_checksum;
};

struct psti_cache_end {
    uint64_t n_sets, n_items, file_nbytes;
};

struct psti_cache_record {
    enum psti_cache_record_kind kind;
    union {
        struct psti_cache_shape set;
        struct psti_cache_block block;
        struct psti_cache_end end;
    };
};

/* An entry of a block's table. */
struct psti_cache_entry {
    uint64_t number, nbytes;
    uint64_t checksum; /* checksum of the item with its header and padding */
};

void psti_format_print_cache_header(uint8_t out[PSTI_CACHE_HEADER_NBYTES]);
/* Checks the first bytes of a file. Returns PST_ERROR_VERSION if the file has another major
 * version. */
enum pst_status psti_format_parse_cache_header(const uint8_t *bytes, size_t nbytes,
                                               struct pst_error *err);
void psti_format_print_cache_record(const struct psti_cache_record *record,
                                    uint8_t out[PSTI_CACHE_RECORD_NBYTES]);
enum pst_status psti_format_parse_cache_record(const uint8_t bytes[PSTI_CACHE_RECORD_NBYTES],
                                               struct psti_cache_record *record,
                                               struct pst_error *err);
void psti_format_print_cache_entry(const struct psti_cache_entry *entry,
                                   uint8_t out[PSTI_CACHE_ENTRY_NBYTES]);
void psti_format_parse_cache_entry(const uint8_t bytes[PSTI_CACHE_ENTRY_NBYTES],
                                   struct psti_cache_entry *entry);
/* Checks a block's table. Its checksum must be right, and the numbers of items must rise, begin at
 * *next or above, and stay below n_numbers. Together the items must take exactly block->nbytes.
 * Sets *next to the last number + 1. */
enum pst_status psti_format_check_cache_table(const uint8_t *table,
                                              const struct psti_cache_block *block,
                                              uint64_t n_numbers, uint64_t *next,
                                              struct pst_error *err);

#endif
