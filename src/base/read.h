/* read.h - reads a part of a file. */
#ifndef PST_BASE_READ_H
#define PST_BASE_READ_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads `nbytes` at `offset` by as many calls as needed. Returns the number of bytes read, which
 * is less if the file ends. -1 with errno if the file cannot be read. */
ssize_t psti_read_at(int fd, void *bytes, size_t nbytes, uint64_t offset);

#endif
