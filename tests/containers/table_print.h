/* table_print.h - walks over a table and prints its fields and rows, to be compared with what
 * the container's own library printed.
 *
 * A row is a line with its name, and a line for each value, sorted by the fields' names:
 *   "  FIELD int 5", "  FIELD float 0.5", "  FIELD array float32 2x3 CRC", "  FIELD text 26 CRC"
 * CRC is the CRC-32 of the value's bytes; the number before it is their count. */
#ifndef PST_TESTS_TABLE_PRINT_H
#define PST_TESTS_TABLE_PRINT_H

#include "containers/table/containers_columns.h"

enum { TABLE_LOG_CAP = 1 << 19 };

struct table_print {
    struct psti_containers_columns *columns;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    const uint8_t *bytes; /* contents of the file */
    size_t nbytes;
    uint64_t n_read; /* bytes that the walks have read */
    /* Number of the read that fails with EIO, and of the read that returns half of its bytes; 0:
     * none. */
    uint64_t fails_at, halves_at, n_reads;
    struct psti_walk_counts counts;
    uint64_t n_rows, facts; /* facts: those of the last value */
    size_t n_log;
    char log[TABLE_LOG_CAP]; /* a test empties it by writing a NUL at its beginning */
    struct pst_error err;
};

/* Makes a printer. The rules must live longer than the printer. */
struct table_print *table_open(const struct psti_field_rule *rules, uint32_t n_rules);
void table_close(struct table_print *table);
/* Walks over bytes in memory. notes: contents of a file beside the table, with a NUL at the end, or
 * NULL. */
enum pst_status table_walk(struct table_print *table, psti_table_walk *walk, const char *path,
                           const void *bytes, size_t nbytes, const char *notes);
/* Path of the folder tests/golden/containers; main() sets it. */
extern const char *table_golden;
/* Walks over a golden file. Passes it `folder/notes` as notes, unless that is NULL. */
enum pst_status table_walk_file(struct table_print *table, psti_table_walk *walk,
                                const char *folder, const char *name, const char *notes);
/* Walks over a golden file many times, so that each allocation and each read fails once, and each
 * read ends early once. Checks that each failure gives the right error and that all memory is
 * freed. */
void table_assert_breaks(psti_table_walk *walk, const char *folder, const char *name,
                         const char *notes);
/* Prints the fields into the log. */
void table_fields(struct table_print *table);
/* Reads a golden file and adds a NUL behind it. The caller frees the bytes. */
uint8_t *table_file(const char *folder, const char *name, size_t *nbytes);
/* Fails the test unless the walk got this status and an error text that contains `text`. */
void table_assert_fails(struct table_print *table, enum pst_status got, enum pst_status status,
                        const char *text);

#endif
