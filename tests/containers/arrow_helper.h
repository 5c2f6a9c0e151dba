/* arrow_helper.h - walks over an Arrow file in memory and lists its contents in the format in which
 * tests/golden/containers/arrow/make_arrow.py lists what pyarrow reads. */
#ifndef PST_TESTS_ARROW_HELPER_H
#define PST_TESTS_ARROW_HELPER_H

#include "containers/arrow/containers_arrow.h"

/* A file in memory and the results of a walk over it. Before the walk all members but the file's
 * are zero. */
struct arrow_walk {
    const uint8_t *bytes;
    size_t nbytes;
    const char *path; /* NULL: "a.arrow" */
    struct psti_table_notes notes;
    uint64_t n_reads, fails_at; /* number of the read that fails; 0: no read fails */
    /* What the walk reported. */
    struct pst_field fields[PST_MAX_FIELDS];
    char *classes[PST_MAX_FIELDS];
    uint32_t n_fields;
    struct psti_container_page *pages;
    uint8_t **decoded; /* decoded bytes of each page; NULL: not needed */
    size_t n_pages;
    char *rows;
    size_t n_row_bytes, capacity;
    uint64_t n_rows;
    struct psti_walk_counts counts;
    bool has_bad_value; /* a value lies outside of the file or of its page */
};

enum pst_status arrow_walk(struct arrow_walk *walk, const struct psti_field_rule *rules,
                           uint32_t n_rules, struct pst_error *err);
/* Returns the listing of all rows. The caller frees it. */
char *arrow_listing(const struct arrow_walk *walk);
void arrow_free(struct arrow_walk *walk);
/* Reads a whole file. The caller frees the bytes. Returns NULL if the file cannot be read. */
uint8_t *arrow_read_file(const char *path, size_t *nbytes);

#endif
