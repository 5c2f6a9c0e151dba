/* dataset_folder_entries.h - the entries of one directory, while it is scanned.
 *
 * A directory may have millions of entries. Each takes 12 bytes, its name, and a 4-byte number for
 * sorting. One thread. */
#ifndef PST_DATASET_DATASET_FOLDER_ENTRIES_H
#define PST_DATASET_DATASET_FOLDER_ENTRIES_H

#include "dataset/folder/dataset_folder.h"

struct psti_dataset_entries {
    struct psti_dataset_store records;
    size_t n;
    uint32_t *order; /* [n] addresses of the records, sorted by name; NULL: not sorted yet */
};

void psti_dataset_entries_free(struct psti_dataset_entries *entries);
/* Adds an entry. Names must be unique. The name of a folder ends with a slash. */
enum pst_status psti_dataset_entries_add(struct psti_dataset_entries *entries, const char *name,
                                         const struct psti_file_facts *facts,
                                         struct pst_error *err);
/* Sorts the entries by the bytes of their names. No entry may be added afterwards. */
enum pst_status psti_dataset_entries_sort(struct psti_dataset_entries *entries,
                                          struct pst_error *err);
/* Returns the name of the i-th entry after sorting. */
const char *psti_dataset_entries_name(const struct psti_dataset_entries *entries, size_t i);
struct psti_file_facts psti_dataset_entries_facts(const struct psti_dataset_entries *entries,
                                                  size_t i);

#endif
