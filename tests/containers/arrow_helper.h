/* arrow_helper.h - walks over a file of Arrow that lies in memory, and writes down what it gives,
 * as tests/golden/containers/arrow/make_arrow.py does of what pyarrow reads. */
#ifndef PST_TESTS_ARROW_HELPER_H
#define PST_TESTS_ARROW_HELPER_H

#include "containers/arrow/containers_arrow.h"

/* All zero, but for the file, is one that was not walked over. */
struct arrow_walk {
    const uint8_t *bytes;
    size_t nbytes;
    const char *path; /* NULL: "a.arrow" */
    struct psti_table_notes notes;
    uint64_t n_reads, fails_at; /* number of the read that fails; 0: none does */
    /* What it gave. */
    struct pst_field fields[PST_MAX_FIELDS];
    char *classes[PST_MAX_FIELDS];
    uint32_t n_fields;
    struct psti_container_page *pages;
    uint8_t **decoded; /* of each page; NULL: it was not needed */
    size_t n_pages;
    char *rows;
    size_t n_row_bytes, capacity;
    uint64_t n_rows;
    struct psti_walk_counts counts;
    bool has_bad_value; /* one that does not lie in the file, or in its page */
};

enum pst_status arrow_walk(struct arrow_walk *walk, const struct psti_field_rule *rules,
                           uint32_t n_rules, struct pst_error *err);
/* The whole listing; the caller frees it. */
char *arrow_listing(const struct arrow_walk *walk);
void arrow_free(struct arrow_walk *walk);
/* Reads a file whole. The caller frees it. NULL: it cannot be read. */
uint8_t *arrow_read_file(const char *path, size_t *nbytes);

#endif
