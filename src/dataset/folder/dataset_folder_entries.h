/* dataset_folder_entries.h - the entries of one directory, while it is looked at.
 *
 * A directory may have millions of them, so an entry takes 12 bytes, its name, and a number of four
 * bytes by which it is sorted. One thread. */
#ifndef PST_DATASET_DATASET_FOLDER_ENTRIES_H
#define PST_DATASET_DATASET_FOLDER_ENTRIES_H

#include "dataset/folder/dataset_folder.h"

struct psti_dataset_entries {
    struct psti_dataset_store records;
    size_t n;
    uint32_t *order; /* [n] places of the records, by name; NULL: not sorted yet */
};

void psti_dataset_entries_free(struct psti_dataset_entries *entries);
/* Adds an entry. Names differ; that of a folder ends with a slash. */
enum pst_status psti_dataset_entries_add(struct psti_dataset_entries *entries, const char *name,
                                         const struct psti_file_facts *facts,
                                         struct pst_error *err);
/* Sorts them by the bytes of their names. None is added afterwards. */
enum pst_status psti_dataset_entries_sort(struct psti_dataset_entries *entries,
                                          struct pst_error *err);
/* Of sorted entries: the name of the i-th. */
const char *psti_dataset_entries_name(const struct psti_dataset_entries *entries, size_t i);
struct psti_file_facts psti_dataset_entries_facts(const struct psti_dataset_entries *entries,
                                                  size_t i);

#endif
