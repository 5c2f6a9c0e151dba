/* containers_picture.h - tells pictures by their first bytes. Pure functions. */
#ifndef PST_CONTAINERS_TABLE_CONTAINERS_PICTURE_H
#define PST_CONTAINERS_TABLE_CONTAINERS_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PSTI_PICTURE_HEAD_NBYTES = 12 }; /* that are enough to tell */

/* True if n first bytes of a file, or all that it has, begin a JPEG, PNG, WebP or PLI. */
bool psti_containers_is_picture(const uint8_t *head, size_t n);

#endif
