/* containers_names.h - stores each text once, and numbers the texts in the order in which they
 * first appear. Used for keys of samples and suffixes of members.
 *
 * A text takes its bytes, its NUL, 4 bytes of offset, and 6 to 11 bytes of the hash table. */
#ifndef PST_CONTAINERS_CONTAINERS_NAMES_H
#define PST_CONTAINERS_CONTAINERS_NAMES_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list of texts. All members zero is an empty list. */
struct psti_walk_names {
    char *texts; /* the texts one after the other, each with its NUL */
    size_t nbytes, capacity;
    uint32_t *at; /* [n]: offset in `texts` at which text i begins */
    uint32_t n, at_capacity;
    uint32_t *slots;  /* hash table: 1 + the number of a text; 0: the slot is free */
    uint32_t n_slots; /* number of slots of the hash table: 0, or a power of two greater than n */
};

/* Finds the number of a text. Adds the text if it is new. It must not contain a NUL. *number: 0 to
 * names->n - 1.
 *
 * PST_ERROR_LIMIT: all texts together have 4 GiB or more. */
enum pst_status psti_containers_names_add(struct psti_walk_names *names, const char *text,
                                          size_t nbytes, uint32_t *number, bool *is_new,
                                          struct pst_error *err);

/* Returns a text by its number. The pointer is valid until the next text is added. */
static inline const char *psti_containers_names_text(const struct psti_walk_names *names,
                                                     uint32_t number)
{
    return names->texts + names->at[number];
}

/* Frees the memory; the list is empty afterwards. */
void psti_containers_names_free(struct psti_walk_names *names);

#endif
