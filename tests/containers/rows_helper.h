/* rows_helper.h - walks over table files and lists their contents.
 *
 * A list has the fields, then the samples:
 *     field image image
 *     field data array uint8 [3,8,8]
 *     name/00000000: image=729:1a2b3c4d data=[3,8,8]192:00112233 label=3 score=0.5
 * An item is listed as its shape, if it is an array, its size, and the CRC-32 of its bytes. []
 * is any shape. The scripts below tests/golden/containers write such lists with each container's
 * own library. */
#ifndef PST_TESTS_ROWS_HELPER_H
#define PST_TESTS_ROWS_HELPER_H

#include "containers/table/containers_columns.h"

/* A file in memory, and the results of a walk over it. */
struct rows {
    uint8_t *bytes;
    size_t nbytes;
    const char *path; /* path that the walk is told */
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    char *text; /* the lines of the samples */
    size_t n, capacity;
    uint64_t n_samples, n_reads;
    /* Called before each read. May be NULL. */
    void (*before_read)(struct rows *rows);
};

/* Reads a file of the folder into memory. */
void rows_open(struct rows *rows, const char *folder, const char *name);
void rows_close(struct rows *rows);
/* Walks over the file. Fails the test if an item lies outside of the file or a name is illegal. */
enum pst_status rows_walk(struct rows *rows, psti_table_walk *walk,
                          const struct psti_table_notes *notes, const struct psti_field_rule *rules,
                          uint32_t n_rules, struct pst_error *err);
/* Returns the list of the last walk. The caller frees it. */
char *rows_list(const struct rows *rows);
/* Fails the test unless a walk gives the contents of the file `list` in the folder. */
void rows_assert_list(struct rows *rows, psti_table_walk *walk, const char *folder,
                      const char *list);
/* Fails the test unless a walk ends with this status and text. */
void rows_assert_fails(struct rows *rows, psti_table_walk *walk,
                       const struct psti_field_rule *rules, uint32_t n_rules,
                       enum pst_status status, const char *text);
/* Walks over the file many times, each time with one bit flipped. Each walk must end, and its items
 * must lie in the file. */
void rows_flip(struct rows *rows, psti_table_walk *walk);
/* Flips bits as rows_flip() does, then walks over the file truncated at many places, `step` bytes
 * apart. Each walk must fail or give the whole list. */
void rows_damage(struct rows *rows, psti_table_walk *walk, size_t step);
/* Walks again and again while the first, second, ... allocation fails. */
void rows_lack_memory(struct rows *rows, psti_table_walk *walk,
                      const struct psti_table_notes *notes);

/* After a call of rows_keep_log() the library's log messages are collected here. */
extern char rows_log[4096];
void rows_keep_log(void);

#endif
