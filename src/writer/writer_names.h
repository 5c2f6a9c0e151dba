/* writer_names.h - the set of names in use, as 128-bit hashes: 16 bytes and a third for each. */
#ifndef PST_WRITER_WRITER_NAMES_H
#define PST_WRITER_WRITER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psti_writer_names {
    uint64_t (*slots)[2]; /* open addressing; {0, 0} is free */
    uint64_t n, capacity; /* capacity: 0 or a power of two */
};

/* Allocates memory for one more name. False if there is none. */
bool psti_writer_names_reserve(struct psti_writer_names *names);
bool psti_writer_names_has(const struct psti_writer_names *names, const char *name, size_t nbytes);
/* Adds a name after psti_writer_names_reserve. False if it is in the set already. */
bool psti_writer_names_add(struct psti_writer_names *names, const char *name, size_t nbytes);
void psti_writer_names_free(struct psti_writer_names *names);

#endif
