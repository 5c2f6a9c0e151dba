/* containers_guess.h - what bytes without a type seem to be, by their beginning, and columns whose
 * type is such a guess. The first three functions are pure. */
#ifndef PST_CONTAINERS_TABLE_CONTAINERS_GUESS_H
#define PST_CONTAINERS_TABLE_CONTAINERS_GUESS_H

#include "containers/table/containers_columns.h"

/* First bytes that are enough to tell. */
enum { PSTI_GUESS_NBYTES = 12 };

/* Tells images and sounds that Penstock decodes by the first n bytes of a file. Returns
 * PST_FIELD_IMAGE, PST_FIELD_AUDIO, or PST_FIELD_BYTES for all others. */
enum pst_field_type psti_containers_guess(const uint8_t *bytes, size_t n);
/* True for UTF-8 without control characters but for tabs and line ends. No bytes are a text. */
bool psti_containers_guess_text(const uint8_t *bytes, size_t n);
/* True if a word of a column's name says that its image is a mask. Words are runs of letters. */
bool psti_containers_guess_mask(const char *name);

/* Declares a column as psti_containers_columns_add does. Where the user's rule or the files before
 * give it another one of the n types of `others`, it gets that one. The error is that of the
 * column's own type. */
enum pst_status psti_containers_guess_add(struct psti_containers_columns *columns,
                                          const struct psti_column *column,
                                          const enum pst_field_type *others, uint32_t n,
                                          uint32_t *i_field, struct pst_error *err);

#endif
