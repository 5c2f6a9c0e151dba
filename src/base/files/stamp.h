/* stamp.h - tells whether a file has changed since it was last seen, by its size, times and inode
 * number.
 *
 * A stamp is one number made of the size and the modification time. On file systems with stable
 * inode numbers it also includes the inode number and the time of status change. Some network file
 * systems, such as FUSE and SMB, make up inode numbers, which can differ from one stat() to the
 * next. */
#ifndef PST_BASE_STAMP_H
#define PST_BASE_STAMP_H

#include <stdbool.h>
#include <stdint.h>

struct stat;

/* Returns whether the file system of this path keeps the inode number of a file for as long as the
 * file exists. */
bool psti_stamp_has_inodes(const char *path);

/* Returns the stamp of a file, which is never 0. */
uint64_t psti_stamp_make(const struct stat *st, bool has_inodes);

/* The cause that an error states if a stamp does not match. */
#define PSTI_STAMP_CHANGED                                                                         \
    "the file was replaced or changed since it was listed: its size is the same, but not its "     \
    "inode number or its times"

/* Returns the short stamp, 32 bits, which lists of many files keep. It is never 0. By chance,
 * another file in the place of the first one has the same short stamp in 1 of 2^31 cases. */
uint32_t psti_stamp_short(uint64_t stamp);

/* Returns whether a file has the given short stamp. `st` is the file's stat. Only the lower 32 bits
 * of `stamp` are compared. 0 means unknown and matches every file. */
bool psti_stamp_fits(uint64_t stamp, const struct stat *st);
/* Returns whether a file has the given stamp, all bits compared. `st` is the file's stat. 0 means
 * unknown and matches every file. */
bool psti_stamp_is(uint64_t stamp, const struct stat *st);

#endif
