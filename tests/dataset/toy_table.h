/* toy_table.h - a kind of table for tests, "*.toy", with all that a walk can report: uncoded
 * items in the file, coded items and items in pieces, items in pages of several codings, small
 * values, numbers, classes with names, arrays. A program that links this reads such files as if
 * the library knew the kind, besides tars.
 *
 * The contents of a row are computed from its number, which counts over all files. */
#ifndef PST_TESTS_TOY_TABLE_H
#define PST_TESTS_TOY_TABLE_H

#include <penstock/dataset.h>

enum { TOY_N_FIELDS = 8, TOY_PAGE_ROWS = 5, TOY_VALUE_CAP = 4096 };

/* The fields in their order, and how each is stored. */
enum toy_field {
    TOY_BLOB,   /* bytes, in pages of Snappy, Zstandard and LZ4 by turns */
    TOY_VECTOR, /* float32 (3), in the pages of the blobs */
    TOY_PLAIN,  /* bytes, uncoded outside of pages */
    TOY_JOINED, /* bytes, in pieces */
    TOY_SNAPPY, /* bytes, each item coded alone */
    TOY_NOTE,   /* a text in the index */
    TOY_LABEL,  /* labels of the classes "ant", "bee", "cat" */
    TOY_SCORE,
};

/* Writes rows first to first + n - 1 to a file. */
void toy_write(const char *path, uint32_t first, uint32_t n);
/* Makes the value of row i for a field with items. Returns its length. */
size_t toy_value(uint32_t i, enum toy_field field, uint8_t value[TOY_VALUE_CAP]);
int64_t toy_label(uint32_t i);
double toy_score(uint32_t i);

/* Number of walks begun since the program started; bytes of the notes passed with the last
 * shard. */
extern unsigned toy_n_walks;
extern size_t toy_notes_nbytes;

#endif
