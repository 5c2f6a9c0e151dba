/* read.h - opens files of data, and reads a part of a file. */
#ifndef PST_BASE_READ_H
#define PST_BASE_READ_H

#include <penstock/status.h>

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Flags to open a data file with. O_NONBLOCK: if a pipe has the file's place, open() must not block
 * the thread. */
#define PSTI_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Opens a data file for reading. If a pipe, a socket, a device or a folder has its place, the
 * function refuses it at once, with PST_ERROR_UNSUPPORTED.
 *
 * `room` is the room of the error. `what` stands for the file in the sentence "cannot open ...",
 * such as "the index". Sets *st to what fstat says, and *fd, to -1 after failure. */
enum pst_status psti_open_data(const char *path, const char *room, const char *what, int *fd,
                               struct stat *st, struct pst_error *err);
/* Does the same for `name` in the folder `dir_fd`, which may be AT_FDCWD. `path` is for
 * messages. */
enum pst_status psti_open_data_at(int dir_fd, const char *name, const char *path, const char *room,
                                  const char *what, int *fd, struct stat *st,
                                  struct pst_error *err);
/* Does the same for a descriptor that was opened with PSTI_OPEN_FLAGS, and replaces its status
 * flags by `flags`. The descriptor stays open after failure. */
enum pst_status psti_check_data(int fd, int flags, const char *path, const char *room,
                                const char *what, struct stat *st, struct pst_error *err);

/* Reads `nbytes` at `offset`, by as many calls as needed. Returns the number of bytes read, which
 * is less if the file ends. Returns -1 and sets errno if the file cannot be read. */
ssize_t psti_read_at(int fd, void *bytes, size_t nbytes, uint64_t offset);

#endif
