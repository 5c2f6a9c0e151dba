/* read.h - opens files of data, and reads a part of a file. */
#ifndef PST_BASE_READ_H
#define PST_BASE_READ_H

#include <penstock/status.h>

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Flags to open a file of data with. O_NONBLOCK: a pipe in place of a file must not block the
 * thread that opens it. */
#define PSTI_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Opens a file of data for reading. A pipe, a socket, a device or a folder in its place is refused
 * at once, with PST_ERROR_UNSUPPORTED.
 *
 * room: that of the error. what: the file's part in the sentence "cannot open ...", such as "the
 * index". *st: what fstat says. *fd: -1 after failure. */
enum pst_status psti_open_data(const char *path, const char *room, const char *what, int *fd,
                               struct stat *st, struct pst_error *err);
/* Does that for `name` in the folder `dir_fd`, or AT_FDCWD. path: for messages. */
enum pst_status psti_open_data_at(int dir_fd, const char *name, const char *path, const char *room,
                                  const char *what, int *fd, struct stat *st,
                                  struct pst_error *err);
/* Does that for a descriptor that was opened with PSTI_OPEN_FLAGS, and gives it the status flags
 * `flags` instead. The descriptor stays open after failure. */
enum pst_status psti_check_data(int fd, int flags, const char *path, const char *room,
                                const char *what, struct stat *st, struct pst_error *err);

/* Reads `nbytes` at `offset` by as many calls as needed. Returns the number of bytes read, which
 * is less if the file ends. -1 with errno if the file cannot be read. */
ssize_t psti_read_at(int fd, void *bytes, size_t nbytes, uint64_t offset);

#endif
