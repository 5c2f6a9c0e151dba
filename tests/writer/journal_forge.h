/* journal_forge.h - a mutator that knows the structure of journals. It alters one field of an
 * entry, or whole entries, and recomputes the checksums. */
#ifndef PST_TESTS_JOURNAL_FORGE_H
#define PST_TESTS_JOURNAL_FORGE_H

#include <penstock/dataset.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number in a journal. */
struct journal_number {
    size_t offset;  /* offset in the journal */
    uint8_t nbytes; /* size of the number: 1, 4 or 8 bytes, little-endian */
    const char *what;
};

struct journal_map {
    size_t header_nbytes;
    size_t *entries; /* [n_entries + 1]: offset of each entry, and the end */
    size_t n_entries;
    struct journal_number *numbers; /* [n_numbers], in order */
    size_t n_numbers;
};

/* Finds every entry and every number of a valid journal. Returns false if the bytes are no
 * journal. */
bool journal_map_make(const uint8_t *bytes, size_t nbytes, struct journal_map *map);
void journal_map_free(struct journal_map *map);

/* Changes a number to another value. `way` is 0 to JOURNAL_WAYS - 1. Returns false if the value
 * would stay the same. */
enum { JOURNAL_WAYS = 8 };
bool journal_alter(uint8_t *bytes, const struct journal_number *number, unsigned way);

/* Recomputes the checksums of the header and of all entries, as far as their lengths allow. */
void journal_seal(uint8_t *bytes, size_t nbytes);

#endif
