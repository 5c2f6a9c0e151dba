/* dataset_summer.h - the sums of items of one file after the other: XXH3 of their bytes as they are
 * stored, or of their own bytes in a page, which is decoded once for all items of a field in it.
 *
 * One thread uses a summer at a time. */
#ifndef PST_DATASET_WALK_DATASET_SUMMER_H
#define PST_DATASET_WALK_DATASET_SUMMER_H

#include "base/buffer.h"
#include "base/codings/codings.h"
#include "format/format_container.h"

#include <penstock/dataset.h>

/* A decoded page. */
struct psti_kept_page {
    bool is_there;
    uint64_t i_page;
    uint32_t nbytes;
    struct psti_buffer bytes;
};

/* All zero is one without a file. */
struct psti_summer {
    int fd;                       /* the caller's */
    struct psti_codings *codings; /* NULL until a page is decoded */
    struct psti_buffer piece, stored;
    struct psti_kept_page pages[PST_MAX_FIELDS];
    uint64_t nbytes; /* that were read */
};

/* Frees the memory. */
void psti_dataset_summer_free(struct psti_summer *summer);
/* Begins a file: its pages have numbers of their own. */
void psti_dataset_summer_file(struct psti_summer *summer, int fd);

/* Sums the item at `offset`. field: its name, for messages. An error has the offset, and no file.
 * Returns a sum that is not 0, which means that it is not known. */
enum pst_status psti_dataset_summer_stored(struct psti_summer *summer, const char *field,
                                           uint64_t offset, uint64_t nbytes, uint64_t *sum,
                                           struct pst_error *err);
/* True if the page is the one that the field has had last. */
bool psti_dataset_summer_has(const struct psti_summer *summer, uint32_t i_field, uint64_t i_page);
/* Reads a page of the file for a field. */
enum pst_status psti_dataset_summer_page(struct psti_summer *summer, uint32_t i_field,
                                         const char *field, uint64_t i_page,
                                         const struct psti_container_page_entry *page,
                                         struct pst_error *err);
/* Sums nbytes at `offset` of the page that the field has had last. */
enum pst_status psti_dataset_summer_paged(const struct psti_summer *summer, uint32_t i_field,
                                          uint64_t offset, uint64_t nbytes, uint64_t *sum,
                                          struct pst_error *err);

#endif
