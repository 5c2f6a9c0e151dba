/* stamp.h - tells by size, times and inode number whether a file has changed since it was last
 * seen.
 *
 * A stamp is one number made of size and time of modification and, on file systems that keep inode
 * numbers, also of inode number and time of status change. Some network file systems, such as FUSE
 * and SMB, make up inode numbers, so these would differ from one stat() to the next. */
#ifndef PST_BASE_STAMP_H
#define PST_BASE_STAMP_H

#include <stdbool.h>
#include <stdint.h>

struct stat;

/* Returns whether the file system of this path keeps a file's inode number as long as the file
 * exists. */
bool psti_stamp_has_inodes(const char *path);

/* Returns the stamp of a file, which is never 0. */
uint64_t psti_stamp_make(const struct stat *st, bool has_inodes);

/* The cause to report if a stamp does not fit. */
#define PSTI_STAMP_CHANGED                                                                         \
    "the file was replaced or changed since it was listed: its size is the same, but not its "     \
    "inode number or its times"

/* Returns the 32 bits of a stamp that lists of many files keep; they are never 0. A file that took
 * the place of another has the same bits by chance in 1 of 2^31 cases. */
uint32_t psti_stamp_short(uint64_t stamp);

/* Returns whether the file of `st` has that short stamp. A short stamp of 0 (not known) fits every
 * file. Higher bits do not count. */
bool psti_stamp_fits(uint64_t stamp, const struct stat *st);
/* Returns whether the file of `st` has that stamp, all bits compared. A stamp of 0 (not known) fits
 * every file. */
bool psti_stamp_is(uint64_t stamp, const struct stat *st);

#endif
