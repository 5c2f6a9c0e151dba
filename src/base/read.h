/* read.h - reading a part of a file whole. */
#ifndef PST_BASE_READ_H
#define PST_BASE_READ_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads `nbytes` at `offset` by as many calls as it takes. Returns how many there were: fewer where
 * the file ends; -1 with errno where it cannot be read. */
ssize_t psti_read_at(int fd, void *bytes, size_t nbytes, uint64_t offset);

#endif
