/* table_print.h - walks over a table and prints its fields and rows, to be compared with what the
 * container's own library printed.
 *
 * A row is its name in a line, and a line for each value, sorted by the fields' names:
 *   "  FIELD int 5", "  FIELD float 0.5", "  FIELD array float32 2x3 CRC", "  FIELD text 26 CRC"
 * CRC is the CRC-32 of the value's bytes, and the number before it how many they are. */
#ifndef PST_TESTS_TABLE_PRINT_H
#define PST_TESTS_TABLE_PRINT_H

#include "containers/table/containers_columns.h"

enum { TABLE_LOG_CAP = 1 << 19 };

struct table_print {
    struct psti_containers_columns *columns;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    const uint8_t *bytes; /* of the file */
    size_t nbytes;
    uint64_t n_read; /* bytes that the walks read */
    /* The read with this number fails by EIO, or gives half of its bytes; 0: none. */
    uint64_t fails_at, halves_at, n_reads;
    struct psti_walk_counts counts;
    uint64_t n_rows, facts; /* facts: of the last value */
    size_t n_log;
    char log[TABLE_LOG_CAP]; /* a test may empty it by a NUL at its beginning */
    struct pst_error err;
};

/* The rules must outlive the printer. */
struct table_print *table_open(const struct psti_field_rule *rules, uint32_t n_rules);
void table_close(struct table_print *table);
/* Walks over bytes in memory. notes: NULL, or a text that ends with its NUL. */
enum pst_status table_walk(struct table_print *table, psti_table_walk *walk, const char *path,
                           const void *bytes, size_t nbytes, const char *notes);
/* The folder tests/golden/containers; main() sets it. */
extern const char *table_golden;
/* Walks over a file of the golden ones, with `folder/notes` beside it, if that is not NULL. */
enum pst_status table_walk_file(struct table_print *table, psti_table_walk *walk,
                                const char *folder, const char *name, const char *notes);
/* Walks over such a file again and again: with each allocation and each read failing once, and with
 * each read ending early once. Errors must be those, and all memory is freed. */
void table_assert_breaks(psti_table_walk *walk, const char *folder, const char *name,
                         const char *notes);
/* Prints the fields into the log. */
void table_fields(struct table_print *table);
/* Reads a file of the golden ones, with a NUL behind it. Freed by the caller. */
uint8_t *table_file(const char *folder, const char *name, size_t *nbytes);
/* The walk fails with this status and a text that has `text`. */
void table_assert_fails(struct table_print *table, enum pst_status got, enum pst_status status,
                        const char *text);

#endif
