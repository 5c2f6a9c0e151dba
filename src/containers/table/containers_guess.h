/* containers_guess.h - guesses types of values from their first bytes, and declares columns with
 * guessed types. The first three functions are pure. */
#ifndef PST_CONTAINERS_TABLE_CONTAINERS_GUESS_H
#define PST_CONTAINERS_TABLE_CONTAINERS_GUESS_H

#include "containers/table/containers_columns.h"

/* First bytes that are needed for a guess. */
enum { PSTI_GUESS_NBYTES = 12 };

/* Recognises the images and sounds that Penstock decodes by the first n bytes of a file. Returns
 * PST_FIELD_IMAGE, PST_FIELD_AUDIO, or PST_FIELD_BYTES for anything else. */
enum pst_field_type psti_containers_guess(const uint8_t *bytes, size_t n);
/* True for UTF-8 without control characters other than tabs and line ends. False for n = 0. */
bool psti_containers_guess_text(const uint8_t *bytes, size_t n);
/* True if a word of a column's name, such as "mask", says that its image is a mask. Words are runs
 * of letters. */
bool psti_containers_guess_mask(const char *name);

/* Declares a column with the type column->type, or with one of the n types in `others` if the
 * user's rule or an earlier file asks for that type. If the column can have none of these types,
 * the error is that of column->type. Otherwise like psti_containers_columns_add. */
enum pst_status psti_containers_guess_add(struct psti_containers_columns *columns,
                                          const struct psti_column *column,
                                          const enum pst_field_type *others, uint32_t n,
                                          uint32_t *i_field, struct pst_error *err);

#endif
