/* containers_arrow_dictionary.h - dictionaries: the values that the indices of a column stand for.
 *
 * One thread uses dictionaries at a time. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_DICTIONARY_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_DICTIONARY_H

#include "containers/arrow/containers_arrow_values.h"

/* The dictionary values of one message. */
struct psti_arrow_part {
    struct psti_arrow_batch batch;
    struct psti_arrow_leaf leaf;
    uint64_t first; /* index in the dictionary of the part's first value */
};

/* A dictionary. It is empty if all members but `number` and `i_field` are zero. */
struct psti_arrow_dictionary {
    int64_t number;   /* number of the dictionary in the file */
    uint32_t i_field; /* a field that uses the dictionary */
    struct psti_arrow_part *parts;
    size_t n_parts, capacity;
    uint64_t n; /* number of values */
};

/* Takes a dictionary message: its values are appended to the others, or replace them. */
enum pst_status psti_containers_arrow_dictionary_take(struct psti_arrow_dictionary *dictionary,
                                                      struct psti_arrow_file *file,
                                                      const struct psti_arrow_schema *schema,
                                                      const struct psti_flat_table *record,
                                                      const struct psti_arrow_frame *frame,
                                                      struct pst_error *err);
/* Finds value i of the dictionary: it is value *i_leaf of *leaf. PST_ERROR_CORRUPT: there is no
 * value i. */
enum pst_status psti_containers_arrow_dictionary_find(struct psti_arrow_dictionary *dictionary,
                                                      const char *path, int64_t i,
                                                      struct psti_arrow_leaf **leaf,
                                                      uint64_t *i_leaf, struct pst_error *err);
void psti_containers_arrow_dictionary_free(struct psti_arrow_dictionary *dictionary);

#endif
