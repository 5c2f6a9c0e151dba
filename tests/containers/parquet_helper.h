/* parquet_helper.h - walks over a Parquet file in memory and lists its rows in the format of the
 * golden listings (tests/golden/containers/parquet/make_parquet.py). */
#ifndef PST_TESTS_CONTAINERS_PARQUET_HELPER_H
#define PST_TESTS_CONTAINERS_PARQUET_HELPER_H

#include "base/codings/codings.h"
#include "containers/parquet/containers_parquet.h"

#include <stdbool.h>

enum { PARQUET_PAGES_MAX = 1024, PARQUET_CLASSES_CAP = 256 };

struct parquet_file {
    uint8_t *bytes;
    size_t nbytes;
    size_t n_read;      /* bytes that the walk has read */
    uint64_t most_rows; /* number of rows after which the sink refuses the next; 0: no limit */
    bool is_silent;     /* rows are not listed */
    /* What the sink received. */
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

/* Reads a whole file into memory that the caller frees. A NUL follows the bytes and is not
 * counted. */
uint8_t *parquet_read(const char *folder, const char *name, const char *ending, size_t *nbytes);
void parquet_open(struct parquet_file *file, const char *folder, const char *name);
void parquet_close(struct parquet_file *file);
/* Walks over the first `nbytes` of the file. Results of an earlier walk are dropped. */
enum pst_status parquet_walk(struct parquet_file *file, size_t nbytes,
                             const struct psti_field_rule *rules, uint32_t n_rules,
                             struct psti_walk_counts *counts, struct pst_error *err);
/* Fails the test if the rows of the walk differ from the golden listing. */
void parquet_check(struct parquet_file *file, const char *folder, const char *name);

#endif
