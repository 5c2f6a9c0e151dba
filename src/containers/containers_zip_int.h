/* containers_zip_int.h - declarations that the source files of the zip walk share. */
#ifndef PST_CONTAINERS_CONTAINERS_ZIP_INT_H
#define PST_CONTAINERS_CONTAINERS_ZIP_INT_H

#include "containers/containers_zip.h"

/* Bytes of a directory entry and of a local header, without their variable parts. */
enum { PSTI_ZIP_ENTRY = 46, PSTI_ZIP_HEADER = 30 };

/* The variable part of a directory entry or a local header. */
struct psti_zip_text {
    const uint8_t *name, *extra;
    uint16_t n_name, n_extra;
};

/* containers_zip_end.c: finds the directory and sets base, first, at, end, n_entries, is_zip64. */
enum pst_status psti_containers_zip_find(struct psti_zip_walk *walk, struct pst_error *err);

/* containers_zip_name.c */

/* Finds an extra field by its id. Returns NULL if there is none. */
const uint8_t *psti_containers_zip_extra(const uint8_t *extra, size_t nbytes, uint16_t id,
                                         uint16_t *n);
/* Writes a member's name in UTF-8, with a NUL.
 * PST_ERROR_CORRUPT: the name is empty, has a NUL, or claims to be UTF-8 and is not. *what: the end
 *     of a sentence that begins with "a member's name ".
 * PST_ERROR_LIMIT: the name does not fit. */
enum pst_status psti_containers_zip_name(const struct psti_zip_text *text, bool is_utf8,
                                         char name[PSTI_ZIP_NAME_CAP], const char **what);
/* Converts a date and time of MS-DOS to seconds since 1970. 0: the date does not exist. */
int64_t psti_containers_zip_time(uint16_t date, uint16_t time);

/* containers_zip_spans.c */

/* Adds the byte range of a member. False: there is no memory. *shared: true if the range overlaps
 * the last span. */
bool psti_containers_zip_spans_add(struct psti_zip_spans *spans, uint64_t begin, uint64_t end,
                                   bool *shared);
/* Sorts the spans. Returns true if two of them share bytes, and sets *first and *second to these.
 */
bool psti_containers_zip_spans_share(struct psti_zip_spans *spans, struct psti_zip_span *first,
                                     struct psti_zip_span *second);

#endif
