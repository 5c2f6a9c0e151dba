/* stamp.h - tells whether a file is still the one that it was, by what the file system says of it.
 *
 * A stamp is one number made of size and time of modification, and on file systems that keep inode
 * numbers also of inode number and time of status change. Those of network file systems that make
 * up inode numbers, such as FUSE and SMB, would differ from one look at a file to the next. */
#ifndef PST_BASE_STAMP_H
#define PST_BASE_STAMP_H

#include <stdbool.h>
#include <stdint.h>

struct stat;

/* True if the file system of this path keeps a file's inode number as long as the file exists. */
bool psti_stamp_has_inodes(const char *path);

/* The stamp of a file, never 0. */
uint64_t psti_stamp_make(const struct stat *st, bool has_inodes);

/* The cause to report where a stamp does not fit. */
#define PSTI_STAMP_CHANGED                                                                         \
    "the file was replaced or changed since it was listed: its size is the same, but not its "     \
    "inode number or its times"

/* The part of a stamp that lists of many files keep: 32 bits, never 0. A file that was replaced has
 * the same one by chance in 1 of 2^31 cases. */
uint32_t psti_stamp_short(uint64_t stamp);

/* True if the file of `st` has that short stamp, or if it is 0 (not known). Higher bits do not
 * count. */
bool psti_stamp_fits(uint64_t stamp, const struct stat *st);
/* Compares all bits of a stamp that was kept whole. 0: not known. */
bool psti_stamp_is(uint64_t stamp, const struct stat *st);

#endif
