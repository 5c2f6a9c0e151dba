/* containers_names.h - texts that are kept once each, and numbered in the order of their first
 * coming: keys of samples, suffixes of members.
 *
 * A text costs its bytes, its NUL, 4 bytes, and 6 to 11 bytes of the table that finds it. */
#ifndef PST_CONTAINERS_CONTAINERS_NAMES_H
#define PST_CONTAINERS_CONTAINERS_NAMES_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty list. */
struct psti_walk_names {
    char *texts; /* one behind the other, each with its NUL */
    size_t nbytes, capacity;
    uint32_t *at; /* where text i begins */
    uint32_t n, at_capacity;
    uint32_t *slots;  /* 1 + the number of a text, at its hash or behind it; 0: free */
    uint32_t n_slots; /* 0, or a power of two that is more than n */
};

/* Finds a text, and adds it if it is new. It may not hold a NUL. *number: 0 to names->n - 1.
 *
 * PST_ERROR_LIMIT: the texts together have 4 GiB or more. */
enum pst_status psti_containers_names_add(struct psti_walk_names *names, const char *text,
                                          size_t nbytes, uint32_t *number, bool *is_new,
                                          struct pst_error *err);

/* Valid until the next text is added. */
static inline const char *psti_containers_names_text(const struct psti_walk_names *names,
                                                     uint32_t number)
{
    return names->texts + names->at[number];
}

/* Frees the memory; the list is empty afterwards. */
void psti_containers_names_free(struct psti_walk_names *names);

#endif
