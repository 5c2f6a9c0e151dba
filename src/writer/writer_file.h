/* writer_file.h - the writer's directory, and the files in it, to which bytes are only appended
 * (base/files/output.h). */
#ifndef PST_WRITER_WRITER_FILE_H
#define PST_WRITER_WRITER_FILE_H

#include "base/files/output.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The open directory that holds all files of a writer. Names are those of files directly in it.
 * Links are never followed, so a directory prepared by an attacker cannot lead out of it. */
struct psti_writer_dir {
    int fd;           /* -1 if not open */
    const char *path; /* path as the caller gave it, for messages */
};

/* Checks the path of a data set that will be written. *nbytes: its length without trailing slashes.
 * room: bytes of the longest name in its directory, with slash and NUL. */
enum pst_status psti_writer_check_path(const char *path, size_t room, size_t *nbytes,
                                       struct pst_error *err);

/* Opens `name` for writing from `offset` on. With `create`, removes an existing file of that name
 * and makes a new, empty one. Otherwise PST_ERROR_IO for a link, for anything but a regular file,
 * and for a file with a second hard link, because writing would change both names' contents. */
enum pst_status psti_writer_file_open(struct psti_output *file, const struct psti_writer_dir *dir,
                                      const char *name, bool create, uint64_t offset,
                                      size_t capacity, struct pst_error *err);

/* These functions change directories and file lengths. Each can fail on a full disk, or be the last
 * before the process is killed. */
enum pst_status psti_writer_sync_directory(const struct psti_writer_dir *dir,
                                           struct pst_error *err);
/* Makes the directory's own entry durable, if its parent directory may be read. */
enum pst_status psti_writer_sync_parent(const struct psti_writer_dir *dir, struct pst_error *err);
enum pst_status psti_writer_make_directory(const char *path, struct pst_error *err);
enum pst_status psti_writer_rename(const struct psti_writer_dir *dir, const char *from,
                                   const char *to, struct pst_error *err);
/* Removes a file. PST_OK if there is no such file. */
enum pst_status psti_writer_unlink(const struct psti_writer_dir *dir, const char *name,
                                   struct pst_error *err);
/* Gives the file `from` the second name `to`. On file systems without hard links it is renamed
 * instead. *taken: `to` existed already; it stays, and the status is PST_OK. If several processes
 * do so at once, only one succeeds. But on file systems that have neither hard links nor renames
 * without replacing, a later process may replace the file. */
enum pst_status psti_writer_link(const struct psti_writer_dir *dir, const char *from,
                                 const char *to, bool *taken, struct pst_error *err);
enum pst_status psti_writer_make_folder(const struct psti_writer_dir *dir, const char *name,
                                        struct pst_error *err);
/* Removes a folder that holds files, and folders of files. PST_OK if there is no such folder. */
enum pst_status psti_writer_remove_folder(const struct psti_writer_dir *dir, const char *name,
                                          struct pst_error *err);
/* Truncates a file and makes its new length durable. Refuses what psti_writer_file_open refuses. */
enum pst_status psti_writer_truncate(const struct psti_writer_dir *dir, const char *name,
                                     uint64_t nbytes, struct pst_error *err);

/* Opens `name` for reading. Returns the descriptor, or -1 with errno: ELOOP for a link, EINVAL for
 * anything but a regular file. `st` receives the result of fstat. */
struct stat;
int psti_writer_open_read(const struct psti_writer_dir *dir, const char *name, struct stat *st);
/* Lists the names of all entries except "." and "..": *names has each name with its NUL, and
 * another NUL at the end. The caller frees it by psti_free. The list is complete before the caller
 * removes an entry, because POSIX does not define what readdir returns for a directory that
 * changes. */
enum pst_status psti_writer_list(const struct psti_writer_dir *dir, char **names,
                                 struct pst_error *err);
/* Returns the name after this one in a list of psti_writer_list; "" after the last. */
const char *psti_writer_list_next(const char *name);
bool psti_writer_exists(const struct psti_writer_dir *dir, const char *name);
void psti_writer_dir_path(const struct psti_writer_dir *dir, const char *name, char out[PATH_MAX]);

/* Takes the lock file. PST_ERROR_BUSY if another process or handle holds it. Unlocking removes the
 * file. */
enum pst_status psti_writer_lock(const struct psti_writer_dir *dir, const char *name, int *fd,
                                 struct pst_error *err);
void psti_writer_unlock(const struct psti_writer_dir *dir, const char *name, int *fd);

#endif
