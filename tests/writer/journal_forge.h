/* journal_forge.h - a mutator that knows the structure of journals: it alters one field of an
 * entry, or whole entries, and makes the checksums right again. */
#ifndef PST_TESTS_JOURNAL_FORGE_H
#define PST_TESTS_JOURNAL_FORGE_H

#include <penstock/dataset.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number in a journal. */
struct journal_number {
    size_t offset;  /* in the journal */
    uint8_t nbytes; /* 1, 4 or 8, little-endian */
    const char *what;
};

struct journal_map {
    size_t header_nbytes;
    size_t *entries; /* [n_entries + 1]: offset of each, and the end */
    size_t n_entries;
    struct journal_number *numbers; /* [n_numbers], in order */
    size_t n_numbers;
};

/* Finds every entry and every number of a good journal; false: it is none. */
bool journal_map_make(const uint8_t *bytes, size_t nbytes, struct journal_map *map);
void journal_map_free(struct journal_map *map);

/* Another value for a number: `way` is 0 to JOURNAL_WAYS - 1. False: it would be the same. */
enum { JOURNAL_WAYS = 8 };
bool journal_alter(uint8_t *bytes, const struct journal_number *number, unsigned way);

/* Makes the checksums of the header and of all entries right, as far as their lengths lead. */
void journal_seal(uint8_t *bytes, size_t nbytes);

#endif
