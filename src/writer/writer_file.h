/* writer_file.h - the writer's directory and the files in it, which only grow
 * (base/files/output.h). */
#ifndef PST_WRITER_WRITER_FILE_H
#define PST_WRITER_WRITER_FILE_H

#include "base/files/output.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The open directory that holds all of a writer's files. A name is that of a file directly in
 * it. Links are never followed, so that a directory prepared by an attacker cannot lead out of
 * it. */
struct psti_writer_dir {
    int fd;           /* -1 if not open */
    const char *path; /* as the caller gave it, for messages */
};

/* Checks the path of a data set that is to be written. *nbytes: its length without slashes at the
 * end. room: bytes of the longest name in its directory, with slash and NUL. */
enum pst_status psti_writer_check_path(const char *path, size_t room, size_t *nbytes,
                                       struct pst_error *err);

/* Opens `name` for writing from `offset` on. With `create`, removes the present file of that
 * name and makes a new, empty one. Otherwise PST_ERROR_IO for a link, for anything but a plain
 * file, and for a file with a second name (a hard link), because a write would change both. */
enum pst_status psti_writer_file_open(struct psti_output *file, const struct psti_writer_dir *dir,
                                      const char *name, bool create, uint64_t offset,
                                      size_t capacity, struct pst_error *err);

/* These change directories and lengths. In each, the disk may be full or the process may end. */
enum pst_status psti_writer_sync_directory(const struct psti_writer_dir *dir,
                                           struct pst_error *err);
/* Makes the directory's own name durable, if the directory above may be read. */
enum pst_status psti_writer_sync_parent(const struct psti_writer_dir *dir, struct pst_error *err);
enum pst_status psti_writer_make_directory(const char *path, struct pst_error *err);
enum pst_status psti_writer_rename(const struct psti_writer_dir *dir, const char *from,
                                   const char *to, struct pst_error *err);
/* PST_OK if there is no such file. */
enum pst_status psti_writer_unlink(const struct psti_writer_dir *dir, const char *name,
                                   struct pst_error *err);
/* Gives the file `from` a second name `to`. On file systems without hard links it is renamed
 * instead. *taken: there was a file `to` already. It stays, and the status is PST_OK. Of several
 * processes that do so at once only one gives the name; on file systems that have neither hard
 * links nor renames that replace nothing, a later one may take its place. */
enum pst_status psti_writer_link(const struct psti_writer_dir *dir, const char *from,
                                 const char *to, bool *taken, struct pst_error *err);
enum pst_status psti_writer_make_folder(const struct psti_writer_dir *dir, const char *name,
                                        struct pst_error *err);
/* Removes a folder that holds files and folders of files. PST_OK if there is no such folder. */
enum pst_status psti_writer_remove_folder(const struct psti_writer_dir *dir, const char *name,
                                          struct pst_error *err);
/* Cuts a file and makes its new length durable. Refuses what psti_writer_file_open refuses. */
enum pst_status psti_writer_truncate(const struct psti_writer_dir *dir, const char *name,
                                     uint64_t nbytes, struct pst_error *err);

/* Returns a descriptor to read `name`, or -1 with errno set: ELOOP for a link, EINVAL for
 * anything but a plain file. `st` is the result of fstat. */
struct stat;
int psti_writer_open_read(const struct psti_writer_dir *dir, const char *name, struct stat *st);
/* Lists the names of all entries but "." and "..": *names has each with its NUL, and one NUL more
 * behind the last. The caller frees it by psti_free. The list is whole before the caller removes
 * an entry, because POSIX does not say what readdir gives of a directory that changes. */
enum pst_status psti_writer_list(const struct psti_writer_dir *dir, char **names,
                                 struct pst_error *err);
/* The name behind this one in such a list; "" behind the last. */
const char *psti_writer_list_next(const char *name);
bool psti_writer_exists(const struct psti_writer_dir *dir, const char *name);
void psti_writer_dir_path(const struct psti_writer_dir *dir, const char *name, char out[PATH_MAX]);

/* Takes the lock file. PST_ERROR_BUSY if another process or handle has it. Unlock removes it. */
enum pst_status psti_writer_lock(const struct psti_writer_dir *dir, const char *name, int *fd,
                                 struct pst_error *err);
void psti_writer_unlock(const struct psti_writer_dir *dir, const char *name, int *fd);

#endif
