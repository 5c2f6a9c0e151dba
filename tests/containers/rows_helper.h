/* rows_helper.h - walks over files of tables, and writes down what they give.
 *
 * A list has the fields, then the samples:
 *     field image image
 *     field data array uint8 [3,8,8]
 *     name/00000000: image=729:1a2b3c4d data=[3,8,8]192:00112233 label=3 score=0.5
 * An item is its shape, if it is an array, its size, and the CRC-32 of its bytes. [] is any shape.
 * The scripts below tests/golden/containers write such lists by each container's own library. */
#ifndef PST_TESTS_ROWS_HELPER_H
#define PST_TESTS_ROWS_HELPER_H

#include "containers/table/containers_columns.h"

/* A file in memory, and what a walk gave. */
struct rows {
    uint8_t *bytes;
    size_t nbytes;
    const char *path; /* that the walk is told */
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    char *text; /* the samples' lines */
    size_t n, capacity;
    uint64_t n_samples, n_reads;
    /* Called before each read. NULL: nothing is. */
    void (*before_read)(struct rows *rows);
};

/* Reads a file of the folder into memory. */
void rows_open(struct rows *rows, const char *folder, const char *name);
void rows_close(struct rows *rows);
/* Walks over it. Each item must lie in the file, each name be legal. */
enum pst_status rows_walk(struct rows *rows, psti_table_walk *walk,
                          const struct psti_table_notes *notes, const struct psti_field_rule *rules,
                          uint32_t n_rules, struct pst_error *err);
/* The list of the last walk. The caller frees it. */
char *rows_list(const struct rows *rows);
/* Fails unless a walk gives the list of the file `list` in the folder. */
void rows_assert_list(struct rows *rows, psti_table_walk *walk, const char *folder,
                      const char *list);
/* Fails unless a walk fails so. */
void rows_assert_fails(struct rows *rows, psti_table_walk *walk,
                       const struct psti_field_rule *rules, uint32_t n_rules,
                       enum pst_status status, const char *text);
/* Walks over the file with wrong bits: each walk ends, and what it gives lies in the file. */
void rows_flip(struct rows *rows, psti_table_walk *walk);
/* Does that, and walks over the file cut at many places: each walk fails, or gives the whole list.
 * `step`: bytes from one cut to the next. */
void rows_damage(struct rows *rows, psti_table_walk *walk, size_t step);
/* Walks while each allocation fails in its turn. */
void rows_lack_memory(struct rows *rows, psti_table_walk *walk,
                      const struct psti_table_notes *notes);

/* What the library logs goes here, from rows_keep_log on. */
extern char rows_log[4096];
void rows_keep_log(void);

#endif
