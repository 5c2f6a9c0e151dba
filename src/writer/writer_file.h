/* writer_file.h - files that only grow, as the writer uses them: one large buffer, explicit flush
 * and sync. */
#ifndef PST_WRITER_WRITER_FILE_H
#define PST_WRITER_WRITER_FILE_H

#include <penstock/status.h>

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The open directory in which all of a writer's files lie. A name is one file directly in it. What
 * stands under a name is never followed if it is a link: a directory that somebody else prepared
 * leads nowhere else. */
struct psti_writer_dir {
    int fd;           /* -1: not open */
    const char *path; /* as the caller gave it, for messages */
};

struct psti_writer_file {
    int fd;          /* -1: closed */
    uint64_t offset; /* where the buffer's first byte goes */
    uint8_t *buffer;
    size_t n, capacity;
    char *path; /* for messages */
};

/* Opens `name` for writing from `offset` on. `create`: removes what has that name and makes the
 * file anew, empty. Else PST_ERROR_IO for a link, for what is no plain file, and for a file that
 * has a second name (a hard link): writing would change both. */
enum pst_status psti_writer_file_open(struct psti_writer_file *file,
                                      const struct psti_writer_dir *dir, const char *name,
                                      bool create, uint64_t offset, size_t capacity,
                                      struct pst_error *err);
enum pst_status psti_writer_file_append(struct psti_writer_file *file, const void *bytes,
                                        size_t nbytes, struct pst_error *err);
enum pst_status psti_writer_file_flush(struct psti_writer_file *file, struct pst_error *err);
/* Flush and fsync. */
enum pst_status psti_writer_file_sync(struct psti_writer_file *file, struct pst_error *err);
/* Overwrites bytes that were flushed already. */
enum pst_status psti_writer_file_patch(struct psti_writer_file *file, uint64_t offset,
                                       const void *bytes, size_t nbytes, struct pst_error *err);
/* Drops what is still buffered. The structure may be all zero but for fd -1. */
void psti_writer_file_close(struct psti_writer_file *file);

/* Changes of directories and lengths; each is one step at which a disk may be full or a process may
 * end. */
enum pst_status psti_writer_sync_directory(const struct psti_writer_dir *dir,
                                           struct pst_error *err);
/* Makes the directory's own name durable, where the directory above may be read. */
enum pst_status psti_writer_sync_parent(const struct psti_writer_dir *dir, struct pst_error *err);
enum pst_status psti_writer_make_directory(const char *path, struct pst_error *err);
enum pst_status psti_writer_rename(const struct psti_writer_dir *dir, const char *from,
                                   const char *to, struct pst_error *err);
/* Absent already: PST_OK. */
enum pst_status psti_writer_unlink(const struct psti_writer_dir *dir, const char *name,
                                   struct pst_error *err);
/* Cuts a file and makes its new length durable. Refuses what psti_writer_file_open refuses. */
enum pst_status psti_writer_truncate(const struct psti_writer_dir *dir, const char *name,
                                     uint64_t nbytes, struct pst_error *err);

/* A descriptor to read `name`, or -1 with errno set: ELOOP for a link, EINVAL for what is no plain
 * file. `st` is what fstat says of it. */
struct stat;
int psti_writer_open_read(const struct psti_writer_dir *dir, const char *name, struct stat *st);
/* *list: for readdir, to be closed. */
enum pst_status psti_writer_list(const struct psti_writer_dir *dir, DIR **list,
                                 struct pst_error *err);
bool psti_writer_exists(const struct psti_writer_dir *dir, const char *name);
void psti_writer_dir_path(const struct psti_writer_dir *dir, const char *name, char out[PATH_MAX]);

/* Takes the lock file: PST_ERROR_BUSY if another process or handle has it. It is removed by unlock.
 */
enum pst_status psti_writer_lock(const struct psti_writer_dir *dir, const char *name, int *fd,
                                 struct pst_error *err);
void psti_writer_unlock(const struct psti_writer_dir *dir, const char *name, int *fd);

#endif
