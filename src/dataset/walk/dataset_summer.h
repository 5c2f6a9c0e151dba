/* dataset_summer.h - computes checksums of items, file by file: XXH3 of the stored bytes, or of the
 * decoded bytes of an item in a page. A page is decoded once for all items of a field in it.
 *
 * One thread uses a summer at a time. */
#ifndef PST_DATASET_WALK_DATASET_SUMMER_H
#define PST_DATASET_WALK_DATASET_SUMMER_H

#include "base/buffer.h"
#include "base/codings/codings.h"
#include "format/format_container.h"

#include <penstock/dataset.h>

/* A decoded page that is kept for the next items. */
struct psti_kept_page {
    bool is_there;
    uint64_t i_page;
    uint32_t nbytes;
    struct psti_buffer bytes;
};

/* Computes checksums. All members zero: no file was begun. */
struct psti_summer {
    int fd;                       /* the caller's */
    struct psti_codings *codings; /* NULL until a page is decoded */
    struct psti_buffer piece, stored;
    struct psti_kept_page pages[PST_MAX_FIELDS];
    uint64_t nbytes; /* bytes that were read so far */
};

/* Frees the memory. */
void psti_dataset_summer_free(struct psti_summer *summer);
/* Begins a file. Page numbers count anew in each file. */
void psti_dataset_summer_file(struct psti_summer *summer, int fd);

/* Computes the checksum of the nbytes stored bytes at `offset`. field: the field's name, for
 * messages. An error has the offset, but no file. *sum is never 0, which would mean "not known". */
enum pst_status psti_dataset_summer_stored(struct psti_summer *summer, const char *field,
                                           uint64_t offset, uint64_t nbytes, uint64_t *sum,
                                           struct pst_error *err);
/* True if the page is the field's last page, which is still decoded. */
bool psti_dataset_summer_has(const struct psti_summer *summer, uint32_t i_field, uint64_t i_page);
/* Reads and decodes a page of the file for a field. */
enum pst_status psti_dataset_summer_page(struct psti_summer *summer, uint32_t i_field,
                                         const char *field, uint64_t i_page,
                                         const struct psti_container_page_entry *page,
                                         struct pst_error *err);
/* Computes the checksum of the nbytes bytes at `offset` of the field's last page. */
enum pst_status psti_dataset_summer_paged(const struct psti_summer *summer, uint32_t i_field,
                                          uint64_t offset, uint64_t nbytes, uint64_t *sum,
                                          struct pst_error *err);

#endif
