/* read.h - opens data files, and reads a part of a file. */
#ifndef PST_BASE_READ_H
#define PST_BASE_READ_H

#include <penstock/status.h>

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Flags for opening a data file. O_NONBLOCK keeps open() from blocking the thread if the path is a
 * pipe. */
#define PSTI_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Opens a data file for reading. If the path is a pipe, a socket, a device or a folder, the
 * function fails at once with PST_ERROR_UNSUPPORTED.
 *
 * `room` is the module that the error names. `what` stands for the file in the error "cannot open
 * ...", such as "the index". Sets *st to the result of fstat, and *fd to the descriptor, or to -1
 * after a failure. */
enum pst_status psti_open_data(const char *path, const char *room, const char *what, int *fd,
                               struct stat *st, struct pst_error *err);
/* Does what psti_open_data does, for `name` in the folder `dir_fd`, which may be AT_FDCWD. `path`
 * is for error messages. */
enum pst_status psti_open_data_at(int dir_fd, const char *name, const char *path, const char *room,
                                  const char *what, int *fd, struct stat *st,
                                  struct pst_error *err);
/* Checks, as psti_open_data does, a descriptor that was opened with PSTI_OPEN_FLAGS, and replaces
 * its status flags by `flags`. The descriptor stays open after a failure. */
enum pst_status psti_check_data(int fd, int flags, const char *path, const char *room,
                                const char *what, struct stat *st, struct pst_error *err);

/* Reads `nbytes` at `offset`, with as many calls as needed. Returns the number of bytes read, which
 * is less if the file ends. Returns -1 and sets errno if the file cannot be read. */
ssize_t psti_read_at(int fd, void *bytes, size_t nbytes, uint64_t offset);

#endif
