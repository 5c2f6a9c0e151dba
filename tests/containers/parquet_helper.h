/* parquet_helper.h - walks over a Parquet file in memory, and lists its rows as the golden listings
 * have them (tests/golden/containers/parquet/make_parquet.py). */
#ifndef PST_TESTS_CONTAINERS_PARQUET_HELPER_H
#define PST_TESTS_CONTAINERS_PARQUET_HELPER_H

#include "base/codings/codings.h"
#include "containers/parquet/containers_parquet.h"

#include <stdbool.h>

enum { PARQUET_PAGES_MAX = 1024, PARQUET_CLASSES_CAP = 256 };

struct parquet_file {
    uint8_t *bytes;
    size_t nbytes;
    size_t n_read;      /* bytes that the walk read */
    uint64_t most_rows; /* the next one is refused; 0: none is */
    bool is_silent;     /* no rows are listed */
    /* What the sink got. */
    struct pst_field fields[PST_MAX_FIELDS];
    char classes[PST_MAX_FIELDS][PARQUET_CLASSES_CAP];
    uint32_t n_fields, n_pages;
    struct psti_container_page pages[PARQUET_PAGES_MAX];
    uint64_t n_rows;
    struct psti_codings *codings;
    char *rows;
    size_t n_text, capacity;
    char *text; /* the listing */
};

/* Reads a whole file into memory that `free` gives back. It ends with a NUL that is not counted. */
uint8_t *parquet_read(const char *folder, const char *name, const char *ending, size_t *nbytes);
void parquet_open(struct parquet_file *file, const char *folder, const char *name);
void parquet_close(struct parquet_file *file);
/* Walks over the first `nbytes`. What an earlier walk gave is forgotten. */
enum pst_status parquet_walk(struct parquet_file *file, size_t nbytes,
                             const struct psti_field_rule *rules, uint32_t n_rules,
                             struct psti_walk_counts *counts, struct pst_error *err);
/* Ends the test if the walk's rows are not those of the listing. */
void parquet_check(struct parquet_file *file, const char *folder, const char *name);

#endif
