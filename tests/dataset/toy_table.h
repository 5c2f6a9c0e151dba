/* toy_table.h - a kind of table of the tests' own, "*.toy", which has all that a walk can give:
 * items in the file as they are, coded and in pieces, in pages of several codings, small values,
 * numbers, classes with names, arrays. A program that links it reads such files as if they were a
 * kind of the library's, besides tars.
 *
 * The contents of a row are made of its number, over all files. */
#ifndef PST_TESTS_TOY_TABLE_H
#define PST_TESTS_TOY_TABLE_H

#include <penstock/dataset.h>

enum { TOY_N_FIELDS = 8, TOY_PAGE_ROWS = 5, TOY_VALUE_CAP = 4096 };

/* Fields in their order, and what they test. */
enum toy_field {
    TOY_BLOB,   /* bytes, in pages of Snappy, Zstandard and LZ4 in turn */
    TOY_VECTOR, /* float32 (3), in the same pages */
    TOY_PLAIN,  /* bytes, as they are */
    TOY_JOINED, /* bytes, in pieces */
    TOY_SNAPPY, /* bytes, each by itself */
    TOY_NOTE,   /* a text in the index */
    TOY_LABEL,  /* "ant", "bee", "cat" */
    TOY_SCORE,
};

/* Writes rows first to first + n - 1 to a file. */
void toy_write(const char *path, uint32_t first, uint32_t n);
/* Makes the value of row i of a field with items. Returns its length. */
size_t toy_value(uint32_t i, enum toy_field field, uint8_t value[TOY_VALUE_CAP]);
int64_t toy_label(uint32_t i);
double toy_score(uint32_t i);

/* Number of times that a walk began, since the program did; of bytes beside the last shard. */
extern unsigned toy_n_walks;
extern size_t toy_notes_nbytes;

#endif
