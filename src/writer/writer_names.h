/* writer_names.h - a set of sample names as 128-bit hashes, about 21 bytes for each name. */
#ifndef PST_WRITER_WRITER_NAMES_H
#define PST_WRITER_WRITER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psti_writer_names {
    uint64_t (*slots)[2]; /* hash table with open addressing; {0, 0} is free */
    uint64_t n, capacity; /* number of names; size of the table: 0 or a power of two */
};

/* Allocates memory for one more name. Returns false if there is none. */
bool psti_writer_names_reserve(struct psti_writer_names *names);
bool psti_writer_names_has(const struct psti_writer_names *names, const char *name, size_t nbytes);
/* Adds a name; psti_writer_names_reserve must come before. Returns false if the set has it already.
 */
bool psti_writer_names_add(struct psti_writer_names *names, const char *name, size_t nbytes);
void psti_writer_names_free(struct psti_writer_names *names);

#endif
